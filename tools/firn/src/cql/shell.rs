//! The shell: runs statements and commands, prints their results and errors.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use firn_cql::internals::values::from_plain;
use firn_cql::{Class, SyntaxError};
use firn_tools::io::{self, Input, Stopwatch, screen, secret, stdout_is_terminal};
use firn_tools::output::{Done, Failure, Style};
use firn_wide::Type;

use super::backend::{PageWish, ShellBackend, ShellRefusal};
use super::command::{self, Capture, Paging, ShellCommand};
use super::complete::{Known, complete};
use super::cut::{StatementCutter, StatementSource};
use super::help;
use super::refusal::{add_commands, blamed, complain_json, first_line};
use super::schema::ShellSchema;
use super::show::{RowPrinter, ShowStyle};
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
        prompt::converse(TypedLine { shell: self, cutter: StatementCutter::new() })
    }

    /// Runs the statements of a text in order.
    pub fn script(&mut self, name: &str, mut input: impl BufRead) -> Done<ShellOutcome> {
        let failed = |e: std::io::Error| Failure::file("read", Path::new(name), &e);
        let (mut cutter, mut rest, mut ended) = (StatementCutter::new(), vec![], false);
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
        let mut wish = PageWish { rows: self.paged.then_some(self.page), from: None };
        if let Some((path, mut captured)) = self.capture.take() {
            let mut printer = RowPrinter::new(self.look, self.style, None);
            let outcome = self.pages(source, file, &mut wish, &mut printer, &mut captured);
            self.capture = Some((path, captured));
            return outcome;
        }
        let width = stdout_is_terminal().then(|| screen().1);
        let mut printer = RowPrinter::new(self.look, self.style, width);
        if !(self.typed && self.paged) {
            return self.pages(source, file, &mut wish, &mut printer, &mut io::stdout());
        }
        let mut pager = Pager::new();
        let outcome = self.pages(source, file, &mut wish, &mut printer, &mut pager);
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
        wish: &mut PageWish,
        printer: &mut RowPrinter,
        out: &mut dyn Write,
    ) -> Done<ShellOutcome> {
        loop {
            let page = match self.backend.execute(&source.text, wish) {
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
            for warning in page.warnings().iter().filter(|_| wish.from.is_none()) {
                eprintln!("{} {warning}", self.style.bold("warning:"));
            }
            wish.from = page.paging().cloned();
            if !goes_on {
                return self.tell_trace(source, file, out);
            }
        }
    }

    /// Prints the trace of the statement, if tracing is on.
    fn tell_trace(
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

    fn command(
        &mut self,
        command: ShellCommand,
        source: &StatementSource,
        file: Option<&str>,
    ) -> Done<ShellOutcome> {
        let on = |b: bool| if b { "on" } else { "off" };
        match command {
            ShellCommand::Help(topic) => match help::text(topic.as_deref()) {
                Ok(text) if self.typed => pager::show(&text)?,
                Ok(text) => print!("{text}"),
                Err(why) => return Ok(self.complain(source, file, "", &why)),
            },
            ShellCommand::Source(path) => return self.source(&path, source, file),
            ShellCommand::Copy(copy) => {
                let mut out = io::stdout();
                let done = copy.run(&mut self.backend, &mut out);
                out.flush()?;
                match done {
                    Ok(()) => {}
                    Err(Failure::Failed { what, next }) => {
                        let next = next.map_or(String::new(), |n| {
                            format!("\n{} {n}", self.style.bold(" next:"))
                        });
                        return Ok(self.complain(source, file, "", &format!("{what}{next}")));
                    }
                    Err(other) => return Err(other),
                }
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
            ShellCommand::ShowVersion => match self.backend.version() {
                Ok(version) => println!("{version}"),
                Err(e) => return self.refused(source, file, e),
            },
            ShellCommand::ShowHost => match self.backend.host() {
                Ok(host) => println!("{host}"),
                Err(e) => return self.refused(source, file, e),
            },
            ShellCommand::ShowSession(id) => return self.session(&id, source, file),
            ShellCommand::Capture(change) => {
                match change {
                    Some(Capture::Into(path)) => match io::append(&path) {
                        Ok(captured) => self.capture = Some((path, Box::new(captured))),
                        Err(e) => {
                            let why = format!("cannot write {}: {e}", path.display());
                            return Ok(self.complain(source, file, "", &why));
                        }
                    },
                    Some(Capture::Off) => self.capture = None,
                    None => {}
                }
                match &self.capture {
                    Some((path, _)) => eprintln!("results go to {}", path.display()),
                    None => eprintln!("results are not captured"),
                }
            }
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
                        return Ok(self.complain(source, file, "", why));
                    }
                };
                match self.backend.login(&role, password) {
                    Ok(said) => eprintln!("{said}"),
                    Err(why) => return Ok(self.complain(source, file, "", &why)),
                }
            }
            ShellCommand::Unicode => println!("Encoding: UTF-8"),
            ShellCommand::Clear if self.typed => print!("\x1b[2J\x1b[H"),
            ShellCommand::Clear => {}
            ShellCommand::Exit => return Ok(ShellOutcome::Leave),
            ShellCommand::Set(setting) => match self.backend.set(&setting) {
                Ok(told) => eprintln!("{told}"),
                Err(why) => return Ok(self.complain(source, file, "", &why)),
            },
        }
        Ok(ShellOutcome::Good)
    }

    /// Shows a trace.
    fn session(
        &mut self,
        id: &str,
        source: &StatementSource,
        file: Option<&str>,
    ) -> Done<ShellOutcome> {
        let id: Option<[u8; 16]> =
            from_plain(&Type::Uuid, id).ok().and_then(|bytes| bytes.try_into().ok());
        let Some(id) = id else {
            return Ok(self.complain(source, file, "", "the id of a trace is a uuid"));
        };
        match trace::read(&mut self.backend, id) {
            Ok(Some(rows)) => {
                let mut printer = RowPrinter::new(self.look, self.style, None);
                let mut out = io::stdout();
                printer.page(&rows, &mut out)?;
                out.flush()?;
                Ok(ShellOutcome::Good)
            }
            Ok(None) => {
                let why = format!("there is no trace {}, or it is not complete", trace::name(id));
                Ok(self.complain(source, file, "", &why))
            }
            Err(e) => self.refused(source, file, e),
        }
    }

    fn source(
        &mut self,
        path: &Path,
        source: &StatementSource,
        file: Option<&str>,
    ) -> Done<ShellOutcome> {
        if self.depth == MAX_DEPTH {
            return Ok(self.complain(
                source,
                file,
                "",
                &format!("files may SOURCE each other {MAX_DEPTH} deep"),
            ));
        }
        let input = match Input::open(path) {
            Ok(input) => input,
            Err(e) => {
                return Ok(self.complain(
                    source,
                    file,
                    "",
                    &format!("cannot read {}: {e}", path.display()),
                ));
            }
        };
        self.depth += 1;
        let outcome =
            self.script(&path.display().to_string(), BufReader::with_capacity(64 << 10, input));
        self.depth -= 1;
        // EXIT ends the file that contains it.
        outcome.map(|o| if o == ShellOutcome::Leave { ShellOutcome::Good } else { o })
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
                self.point(source, file, Class::Syntax.name(), &error);
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
    cutter: StatementCutter,
}

impl<B: ShellBackend> Conversation for TypedLine<B> {
    type Statement = StatementSource;

    fn prompt(&self) -> String {
        let backend = &self.shell.backend;
        let who = backend.who().map_or(String::new(), |who| format!("{who}@"));
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
        self.cutter = StatementCutter::new();
    }
}
