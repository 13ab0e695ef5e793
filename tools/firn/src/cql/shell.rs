//! The shell: runs statements and commands, prints their results and errors.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use firn_cql::internals::values::from_plain;
use firn_cql::{ErrorClass, SyntaxError};
use firn_tools::help::fit_terminal;
use firn_tools::io::{self, Input, Stopwatch, screen, secret, stdout_is_terminal};
use firn_tools::output::{Done, Failure, Style};
use firn_wide::Type;

use super::backend::{PageRequest, ShellBackend, ShellRefusal};
use super::command::{self, Capture, Paging, ShellCommand};
use super::complete::{Known, complete};
use super::help;
use super::refusal::{add_commands, blamed, complain_json, first_line};
use super::schema::ShellSchema;
use super::show::{RowPrinter, ShowStyle};
use super::splitter::{StatementSource, StatementSplitter};
use super::tally::ScriptTally;
use super::trace;
use crate::shell::interrupt;
use crate::shell::pager::{self, Pager};
use crate::shell::prompt::{self, Conversation};
use crate::store::Global;

/// Rows of a page, in a script and on a terminal.
const PAGE: usize = 1000;
const TERMINAL_PAGE: usize = 100;
/// Maximum length of a statement.
const MAX_STATEMENT: usize = firn_cql::internals::syntax::MAX_LENGTH;
/// Maximum depth of `SOURCE` in files.
const MAX_DEPTH: u32 = 16;

/// Outcome of a statement or a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellOutcome {
    /// Success.
    Good,
    /// Failure, already reported.
    Failed,
    /// The user exits.
    Leave,
}

/// Reason why a command of the shell failed.
enum CommandTrouble {
    /// A sentence for the user.
    Text(String),
    /// The backend refused a statement of the command.
    Refused(ShellRefusal),
    /// The shell cannot continue.
    Fatal(Failure),
}

impl From<String> for CommandTrouble {
    fn from(why: String) -> CommandTrouble {
        CommandTrouble::Text(why)
    }
}

impl From<ShellRefusal> for CommandTrouble {
    fn from(e: ShellRefusal) -> CommandTrouble {
        CommandTrouble::Refused(e)
    }
}

impl From<Failure> for CommandTrouble {
    fn from(failure: Failure) -> CommandTrouble {
        CommandTrouble::Fatal(failure)
    }
}

impl From<std::io::Error> for CommandTrouble {
    fn from(e: std::io::Error) -> CommandTrouble {
        CommandTrouble::Fatal(e.into())
    }
}

/// Backend and state of the shell.
pub struct Shell<B> {
    backend: B,
    /// Schema for completion, from its first use until the next statement.
    schema: Option<ShellSchema>,
    look: ShowStyle,
    style: Style,
    /// Whether statements are typed at a terminal.
    typed: bool,
    go_on: bool,
    echo: bool,
    page: usize,
    /// Whether to fetch a page of rows at a time, and to show a screen at a time on a terminal.
    paged: bool,
    depth: u32,
    tally: ScriptTally,
    /// File that captures results.
    capture: Option<(PathBuf, Box<dyn Write>)>,
    /// Whether the time of each statement is shown.
    shows_elapsed: bool,
}

impl<B: ShellBackend> Shell<B> {
    /// Creates a shell for a terminal (`typed`) or a script. `go_on`: continue after failed
    /// statements.
    pub fn new(backend: B, global: &Global, typed: bool, go_on: bool, echo: bool) -> Shell<B> {
        let look = if global.store.json { ShowStyle::Json } else { ShowStyle::Table };
        let page = if typed { TERMINAL_PAGE } else { PAGE };
        Shell {
            backend,
            schema: None,
            look,
            style: global.style(),
            typed,
            go_on,
            echo,
            page,
            paged: true,
            depth: 0,
            tally: ScriptTally::default(),
            capture: None,
            shows_elapsed: false,
        }
    }

    /// Returns the numbers of executed and failed statements.
    pub fn tally(&self) -> &ScriptTally {
        &self.tally
    }

    /// Runs statements from the terminal until the user exits.
    pub fn converse(self) -> Done {
        println!("Statements end with ';'. HELP lists them, EXIT leaves.");
        prompt::converse(TypedLine { shell: self, cutter: StatementSplitter::new() })
    }

    /// Runs the statements of a text in order.
    pub fn script(&mut self, name: &str, mut input: impl BufRead) -> Done<ShellOutcome> {
        let failed = |e: std::io::Error| Failure::file("read", Path::new(name), &e);
        let (mut cutter, mut rest, mut ended) = (StatementSplitter::new(), vec![], false);
        while !ended {
            let chunk = input.fill_buf().map_err(failed)?;
            ended = chunk.is_empty();
            // Feeds whole lines, so that no character or comment is split.
            let taken = if ended {
                0
            } else {
                chunk.iter().rposition(|b| *b == b'\n').map_or(chunk.len(), |i| i + 1)
            };
            let whole = ended || chunk[..taken].last() == Some(&b'\n');
            rest.extend_from_slice(&chunk[..taken]);
            input.consume(taken);
            if rest.len() + cutter.waiting() > MAX_STATEMENT {
                return Err(Failure::new(format!(
                    "{name}: a statement is longer than {MAX_STATEMENT} bytes"
                )));
            }
            if !whole {
                continue;
            }
            let text = std::str::from_utf8(&rest)
                .map_err(|_| Failure::new(format!("{name}: the text is not UTF-8")))?;
            cutter.feed(text);
            rest.clear();
            while let Some(source) = cutter.next(ended) {
                if interrupt::is_set() {
                    return Ok(ShellOutcome::Failed);
                }
                match self.run(&source, Some(name))? {
                    ShellOutcome::Good => {}
                    ShellOutcome::Failed if self.go_on => {}
                    other => return Ok(other),
                }
            }
        }
        Ok(ShellOutcome::Good)
    }

    /// Runs a statement or command of `file`.
    fn run(&mut self, source: &StatementSource, file: Option<&str>) -> Done<ShellOutcome> {
        if self.echo {
            println!("{};", source.text);
        }
        self.schema = None;
        let failed_before = self.tally.failed;
        let command = command::parse(&source.text);
        let outcome = match command {
            Ok(Some(command)) => self.command(command, source, file)?,
            Ok(None) => {
                let watch = Stopwatch::start();
                let outcome = self.statement(source, file)?;
                if self.shows_elapsed {
                    eprintln!("({:.1} ms)", watch.seconds() * 1e3);
                }
                outcome
            }
            Err(why) => self.complain(source, file, "SyntaxException", &why),
        };
        // A failed file has already counted its failed statements.
        let has_failed = outcome == ShellOutcome::Failed && self.tally.failed == failed_before;
        self.tally.add(has_failed, file, source.line);
        Ok(outcome)
    }

    fn statement(&mut self, source: &StatementSource, file: Option<&str>) -> Done<ShellOutcome> {
        let mut request = PageRequest { rows: self.paged.then_some(self.page), from: None };
        if let Some((path, mut captured)) = self.capture.take() {
            let mut printer = RowPrinter::new(self.look, self.style, None);
            let outcome = self.pages(source, file, &mut request, &mut printer, &mut captured);
            self.capture = Some((path, captured));
            return outcome;
        }
        let width = stdout_is_terminal().then(|| screen().1);
        let mut printer = RowPrinter::new(self.look, self.style, width);
        if !(self.typed && self.paged) {
            return self.pages(source, file, &mut request, &mut printer, &mut io::stdout());
        }
        let mut pager = Pager::new();
        let outcome = self.pages(source, file, &mut request, &mut printer, &mut pager);
        let has_quit = pager.has_quit();
        pager.end()?;
        match outcome {
            Err(Failure::PipeClosed) if has_quit => Ok(ShellOutcome::Good),
            other => other,
        }
    }

    /// Prints a result page by page.
    fn pages(
        &mut self,
        source: &StatementSource,
        file: Option<&str>,
        request: &mut PageRequest,
        printer: &mut RowPrinter,
        out: &mut dyn Write,
    ) -> Done<ShellOutcome> {
        loop {
            let page = match self.backend.execute(&source.text, request) {
                Ok(page) => page,
                Err(e) => {
                    out.flush()?;
                    return self.refused(source, file, e);
                }
            };
            printer.page(&page, out)?;
            let goes_on = page.paging().is_some();
            if !goes_on {
                printer.end(&page, out)?;
            }
            out.flush()?;
            for warning in page.warnings().iter().filter(|_| request.from.is_none()) {
                eprintln!("{} {warning}", self.style.bold("warning:"));
            }
            request.from = page.paging().cloned();
            if !goes_on {
                return self.print_trace(source, file, out);
            }
        }
    }

    /// Prints the trace of the statement, if tracing is on.
    fn print_trace(
        &mut self,
        source: &StatementSource,
        file: Option<&str>,
        out: &mut dyn Write,
    ) -> Done<ShellOutcome> {
        match self.backend.trace() {
            Ok(None) => {}
            Ok(Some((id, rows))) => {
                if self.look != ShowStyle::Json {
                    writeln!(out, "\nTracing session: {id}")?;
                }
                let mut printer = RowPrinter::new(self.look, self.style, None);
                printer.page(&rows, out)?;
                if self.look != ShowStyle::Json {
                    writeln!(out)?;
                }
                out.flush()?;
            }
            Err(e) => return self.refused(source, file, e),
        }
        Ok(ShellOutcome::Good)
    }

    /// Runs a command of the shell, and reports its failure.
    fn command(
        &mut self,
        command: ShellCommand,
        source: &StatementSource,
        file: Option<&str>,
    ) -> Done<ShellOutcome> {
        match self.perform(command) {
            Ok(outcome) => Ok(outcome),
            Err(CommandTrouble::Text(why)) => Ok(self.complain(source, file, "", &why)),
            Err(CommandTrouble::Refused(e)) => self.refused(source, file, e),
            Err(CommandTrouble::Fatal(failure)) => Err(failure),
        }
    }

    fn perform(&mut self, command: ShellCommand) -> Result<ShellOutcome, CommandTrouble> {
        let on = |b: bool| if b { "on" } else { "off" };
        match command {
            ShellCommand::Help(topic) => match fit_terminal(&help::text(topic.as_deref())?) {
                text if self.typed => pager::show(&text)?,
                text => print!("{text}"),
            },
            ShellCommand::Source(path) => return self.source(&path),
            ShellCommand::Copy(copy) => {
                let mut out = io::stdout();
                let done = copy.run(&mut self.backend, &mut out);
                out.flush()?;
                if let Err(Failure::Failed { what, next }) = done {
                    let next = next.map(|n| format!("\n{} {n}", self.style.bold(" next:")));
                    return Err(format!("{what}{}", next.unwrap_or_default()).into());
                }
                done?;
            }
            ShellCommand::Expand(change) => {
                let is_on = change.unwrap_or(self.look == ShowStyle::Expanded);
                if self.look != ShowStyle::Json {
                    self.look = if is_on { ShowStyle::Expanded } else { ShowStyle::Table };
                }
                eprintln!("expanded output is {}", on(is_on));
            }
            ShellCommand::Paging(change) => {
                match change {
                    Some(Paging::On(paged)) => self.paged = paged,
                    Some(Paging::Rows(rows)) => (self.paged, self.page) = (true, rows),
                    None => {}
                }
                match self.paged {
                    true => eprintln!("paging is on, {} rows a page", self.page),
                    false => eprintln!("paging is off"),
                }
            }
            ShellCommand::ShowVersion => println!("{}", self.backend.version()?),
            ShellCommand::ShowHost => println!("{}", self.backend.host()?),
            ShellCommand::ShowSession(id) => self.session(&id)?,
            ShellCommand::Capture(change) => self.capture(change)?,
            ShellCommand::Elapsed(change) => {
                self.shows_elapsed = change.unwrap_or(self.shows_elapsed);
                eprintln!("elapsed times are {}", on(self.shows_elapsed));
            }
            ShellCommand::Login(role, password) => {
                let password = match password {
                    Some(password) => password,
                    None if self.typed => secret(&format!("password of {role}: "))?,
                    None => {
                        let why = "in a script the password follows the role: LOGIN ann 'password'";
                        return Err(why.to_owned().into());
                    }
                };
                eprintln!("{}", self.backend.login(&role, password)?);
            }
            ShellCommand::Unicode => println!("Encoding: UTF-8"),
            ShellCommand::Clear if self.typed => print!("\x1b[2J\x1b[H"),
            ShellCommand::Clear => {}
            ShellCommand::Exit => return Ok(ShellOutcome::Leave),
            ShellCommand::Set(setting) => eprintln!("{}", self.backend.set(&setting)?),
        }
        Ok(ShellOutcome::Good)
    }

    /// Begins or ends the capture of results.
    fn capture(&mut self, change: Option<Capture>) -> Result<(), String> {
        match change {
            Some(Capture::Into(path)) => {
                let captured = io::append(&path)
                    .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
                self.capture = Some((path, Box::new(captured)));
            }
            Some(Capture::Off) => self.capture = None,
            None => {}
        }
        match &self.capture {
            Some((path, _)) => eprintln!("results go to {}", path.display()),
            None => eprintln!("results are not captured"),
        }
        Ok(())
    }

    /// Shows a trace.
    fn session(&mut self, id: &str) -> Result<(), CommandTrouble> {
        let id: [u8; 16] = from_plain(&Type::Uuid, id)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| "the id of a trace is a uuid".to_owned())?;
        let rows = trace::read(&mut self.backend, id)?.ok_or_else(|| {
            format!("there is no trace {}, or it is not complete", trace::name(id))
        })?;
        let mut out = io::stdout();
        RowPrinter::new(self.look, self.style, None).page(&rows, &mut out)?;
        Ok(out.flush()?)
    }

    /// Runs the statements of a file.
    fn source(&mut self, path: &Path) -> Result<ShellOutcome, CommandTrouble> {
        if self.depth == MAX_DEPTH {
            return Err(format!("files may SOURCE each other {MAX_DEPTH} deep").into());
        }
        let input =
            Input::open(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        self.depth += 1;
        let outcome =
            self.script(&path.display().to_string(), BufReader::with_capacity(64 << 10, input));
        self.depth -= 1;
        // EXIT ends the file that contains it.
        Ok(outcome.map(|o| if o == ShellOutcome::Leave { ShellOutcome::Good } else { o })?)
    }

    /// Reports an error and its position in the statement.
    fn refused(
        &self,
        source: &StatementSource,
        file: Option<&str>,
        e: ShellRefusal,
    ) -> Done<ShellOutcome> {
        let (class, text, help) = match e {
            ShellRefusal::Fatal(failure) => return Err(failure),
            // After Ctrl-C no message is needed.
            ShellRefusal::Stopped => return Ok(ShellOutcome::Failed),
            ShellRefusal::Syntax(mut error) => {
                add_commands(&mut error);
                self.point(source, file, ErrorClass::Syntax.name(), &error);
                return Ok(ShellOutcome::Failed);
            }
            ShellRefusal::Lost(text) => {
                let help =
                    "it is unknown whether the statement was executed; the next one reconnects";
                ("ConnectionLost".to_owned(), text, Some(help.to_owned()))
            }
            ShellRefusal::Refused { class, text, help } => (class, text, help),
        };
        match (blamed(&source.text, &text), help.as_deref()) {
            (Some((start, end)), _) => {
                let mut error = SyntaxError::about(&source.text, start, end, text);
                error.hint = help;
                self.point(source, file, &class, &error);
                Ok(ShellOutcome::Failed)
            }
            (None, help) => Ok(self.complain_with(source, file, &class, &text, help)),
        }
    }

    /// Reports an error and marks its position.
    fn point(
        &self,
        source: &StatementSource,
        file: Option<&str>,
        class: &str,
        error: &SyntaxError,
    ) {
        let (line, column) = match (file, error.line) {
            (None, line) => (line, error.column),
            (Some(_), 1) => (source.line, source.column + error.column - 1),
            (Some(_), line) => (source.line + line - 1, error.column),
        };
        if self.look == ShowStyle::Json {
            return complain_json(
                class,
                &error.to_string(),
                error.hint.as_deref(),
                file,
                line,
                Some(column),
            );
        }
        let pretty = error.pretty();
        let words = pretty
            .strip_prefix(&format!("line {}:{} ", error.line, error.column))
            .unwrap_or(&pretty);
        let place =
            file.map_or(format!("line {line}:{column}"), |f| format!("{f}:{line}:{column}"));
        eprintln!("{place}: {} {words}", self.style.error(format!("{class}:")));
    }

    fn complain(
        &self,
        source: &StatementSource,
        file: Option<&str>,
        class: &str,
        why: &str,
    ) -> ShellOutcome {
        self.complain_with(source, file, class, why, None)
    }

    /// Reports an error; in a script, with the position and first line of the statement.
    fn complain_with(
        &self,
        source: &StatementSource,
        file: Option<&str>,
        class: &str,
        why: &str,
        hint: Option<&str>,
    ) -> ShellOutcome {
        if self.look == ShowStyle::Json {
            complain_json(class, why, hint, file, source.line, None);
            return ShellOutcome::Failed;
        }
        let place = file.map_or(String::new(), |f| format!("{f}:{}: ", source.line));
        let class = if class.is_empty() { "error" } else { class };
        eprintln!("{place}{} {why}", self.style.error(format!("{class}:")));
        if file.is_some() {
            eprintln!("  {}", first_line(&source.text));
        }
        if let Some(hint) = hint {
            eprintln!("hint: {hint}");
        }
        ShellOutcome::Failed
    }
}

/// Input from a terminal.
struct TypedLine<B> {
    shell: Shell<B>,
    cutter: StatementSplitter,
}

impl<B: ShellBackend> Conversation for TypedLine<B> {
    type Statement = StatementSource;

    fn prompt(&self) -> String {
        let backend = &self.shell.backend;
        let who = backend.role().map_or(String::new(), |who| format!("{who}@"));
        let keyspace = backend.keyspace().map_or(String::new(), |k| format!(":{k}"));
        let prompt = format!("{who}cql{keyspace}> ");
        if self.is_waiting() { format!("{:>1$}", "... ", prompt.len()) } else { prompt }
    }

    fn complete(&mut self, before: &str) -> (usize, Vec<String>) {
        let Shell { backend, schema, .. } = &mut self.shell;
        let schema = schema.get_or_insert_with(|| ShellSchema::read(backend));
        let keyspace = backend.keyspace();
        complete(before, Known { schema, keyspace: keyspace.as_deref() })
    }

    fn cut(&mut self, line: &str) -> Vec<StatementSource> {
        self.cutter.feed(line);
        std::iter::from_fn(|| self.cutter.next(false)).collect()
    }

    fn run(&mut self, source: &StatementSource) -> Done<bool> {
        Ok(self.shell.run(source, None)? == ShellOutcome::Leave)
    }

    fn is_waiting(&self) -> bool {
        self.cutter.is_open()
    }

    fn abandon(&mut self) {
        self.cutter = StatementSplitter::new();
    }
}
