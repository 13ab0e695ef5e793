//! `firn cli`: cassandra-cli's language against a store of this machine, as a shell or as a script.
//!
//! Invariants: a script stops at the first statement that fails unless told otherwise; what statements print goes to standard output,
//! why one failed to standard error; the shell's history is a file of the user's, and a shell works without one.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use firn_kv::env::os::OsEnv;
use firn_tools::io::{self, Input};
use firn_tools::output::{Done, Failure};
use firn_wide::cli::complete::{self, Names};
use firn_wide::cli::{MAX_STATEMENT, Session, Source, Splitter, Statement, format};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::store::Global;

pub const EXAMPLES: &str = "\
Statements end with ';'. `help;` lists them, `help set;` explains one. Without -f and -e, statements come from the terminal (with
completion by tab, and a history), or from whatever is piped in.

Where the family's type is BytesType, text that is not hexadecimal stands for its own characters, and a column without
validation_class takes the family's default. --strict refuses both, and answers as cassandra-cli 1.1.12 did.

The history is kept in $FIRN_HISTORY, else in ~/.firn_history.

Examples:
  firn cli                                       a shell
  firn --db music cli -f schema.txt              a script; it stops at the first statement that fails
  firn --db music cli -k Music -e \"list users;\"
  firn --db music cli -k Music < statements.txt
  firn --db music cli -f old.txt --strict --go-on --echo";

/// What `firn cli` takes.
#[derive(Args, Clone, Debug)]
pub struct CliArgs {
    /// Run the statements of a file; - is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "execute")]
    file: Option<PathBuf>,
    /// Run these statements
    #[arg(short, long, value_name = "STATEMENTS")]
    execute: Option<String>,
    /// Begin in this keyspace
    #[arg(short, long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Refuse what cassandra-cli 1.1.12 refused, in its words
    #[arg(long)]
    strict: bool,
    /// In a script: go on after a statement that failed
    #[arg(long)]
    go_on: bool,
    /// In a script: print each statement before its answer, as a terminal would show it
    #[arg(long)]
    echo: bool,
}

/// Runs `firn cli`.
pub fn run(global: &Global, args: &CliArgs) -> Done {
    if global.json {
        return Err(Failure::with_next("cli speaks cassandra-cli, which has no JSON", "leave --json out"));
    }
    let wide = firn_wide::Wide::open(&global.db).map_err(|e| wide_failure(e, &global.db))?;
    let mut session = Session::new(wide, OsEnv::new(), args.strict);
    if let Some(name) = &args.keyspace {
        let answer = session.execute(&Statement::Use { keyspace: name.clone(), login: None });
        if let Some(failure) = answer.failure {
            return Err(Failure::with_next(failure.plain, "`show keyspaces;` lists them, `create keyspace` makes one"));
        }
    }
    match (&args.file, &args.execute) {
        (Some(file), _) => {
            let input = Input::open(file).map_err(|e| Failure::file("read", file, &e))?;
            script(&mut session, args, file, BufReader::new(input))
        }
        (None, Some(text)) => script(&mut session, args, Path::new("-e"), text.as_bytes()),
        (None, None) if io::stdin_is_terminal() && io::stdout_is_terminal() => shell(&mut session),
        (None, None) => {
            let input = Input::open(Path::new("-"))?;
            script(&mut session, args, Path::new("-"), BufReader::new(input))
        }
    }
}

/// What a command says when the database in `dir` fails.
pub fn wide_failure(e: firn_wide::Error, dir: &Path) -> Failure {
    match e {
        firn_wide::Error::Store(e) => Failure::Engine(e),
        other => Failure::new(format!("cannot open {}: {other}", dir.display())),
    }
}

/// Runs the statements of a text, one after the other.
fn script(session: &mut Session, args: &CliArgs, name: &Path, mut input: impl BufRead) -> Done {
    let mut out = io::stdout();
    let (mut splitter, mut line, mut number, mut failed) = (Splitter::new(), String::new(), 0, false);
    let mut statement = |session: &mut Session, source: &Source| -> Done<bool> {
        number += 1;
        if args.echo {
            write!(out, "{}{}", session.prompt(), echo(source))?;
        }
        let answer = session.run(source);
        out.write_all(answer.text.as_bytes())?;
        if let Some(failure) = &answer.failure {
            out.flush()?;
            failed = true;
            let place =
                if args.strict { format!("Line {number} => ") } else { format!("{}:{}: ", name.display(), source.line) };
            eprintln!("{place}{}", session.say(failure));
        }
        Ok(answer.exit || (answer.failure.is_some() && !args.go_on))
    };
    let mut ended = false;
    while !ended {
        line.clear();
        if input.read_line(&mut line).map_err(|e| Failure::file("read", name, &e))? == 0 {
            break;
        }
        splitter.feed(&line);
        while !ended && let Some(source) = splitter.next_statement() {
            ended = statement(session, &source)?;
        }
        if splitter.waiting() > MAX_STATEMENT {
            return Err(Failure::new(format!("{}: a statement is longer than {MAX_STATEMENT} bytes", name.display())));
        }
    }
    if !ended && let Some(source) = splitter.finish() {
        statement(session, &source)?;
    }
    out.flush()?;
    if failed { Err(Failure::Found) } else { Ok(()) }
}

/// A statement as a terminal shows it.
fn echo(source: &Source) -> String {
    format!("{}\n", source.text.replace('\n', &format!("\n{}", format::MORE)))
}

/// What the line editor needs to know of the session.
#[derive(Default)]
struct Around {
    /// The lines of the statement before this one.
    pending: String,
    names: Names,
}

/// Completion in the line editor.
struct Completing(Rc<RefCell<Around>>);

impl Completer for Completing {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let around = self.0.borrow();
        let before = format!("{}{}", around.pending, line.get(..pos).unwrap_or(line));
        let found = complete::complete(&before, &around.names);
        // What begins in an earlier line can't be replaced in this one.
        Ok(match found.start.checked_sub(around.pending.len()) {
            Some(start) => (start, found.candidates),
            None => (pos, Vec::new()),
        })
    }
}

impl Hinter for Completing {
    type Hint = String;
}
impl Highlighter for Completing {}
impl Validator for Completing {}
impl Helper for Completing {}

/// Where the history is kept.
fn history_file() -> Option<PathBuf> {
    let named = std::env::var_os("FIRN_HISTORY").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".firn_history")))
}

fn editor(around: Rc<RefCell<Around>>) -> Done<Editor<Completing, FileHistory>> {
    let trouble = |e: ReadlineError| Failure::new(format!("cannot use the terminal: {e}"));
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(false).build();
    let history = FileHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history).map_err(trouble)?;
    editor.set_helper(Some(Completing(around)));
    Ok(editor)
}

/// Reads statements from the terminal until the user leaves.
fn shell(session: &mut Session) -> Done {
    let around = Rc::new(RefCell::new(Around::default()));
    let mut editor = editor(around.clone())?;
    let history = history_file();
    if let Some(file) = &history {
        // The first time there is none.
        let _ = editor.load_history(file);
    }
    println!("Statements end with ';'. 'help;' lists them, 'exit;' leaves.");
    let mut splitter = Splitter::new();
    loop {
        around.borrow_mut().names = session.names();
        let pending = splitter.pending();
        let prompt = if pending { format::MORE.to_owned() } else { session.prompt() };
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                splitter.abandon();
                around.borrow_mut().pending.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(e) => return Err(Failure::new(format!("cannot read from the terminal: {e}"))),
        };
        let whole = format!("{}{line}\n", around.borrow().pending);
        splitter.feed(&format!("{line}\n"));
        let mut leave = false;
        while !leave && let Some(source) = splitter.next_statement() {
            let answer = session.run(&source);
            print!("{}", answer.text);
            if let Some(failure) = &answer.failure {
                eprintln!("{}", session.say(failure));
            }
            leave = answer.exit;
        }
        if splitter.pending() {
            around.borrow_mut().pending = whole;
        } else {
            around.borrow_mut().pending.clear();
            // Lines are counted from the beginning of a statement.
            splitter = Splitter::new();
            if !whole.trim().is_empty() {
                let _ = editor.add_history_entry(whole.trim());
            }
        }
        if leave {
            break;
        }
    }
    if let Some(file) = &history
        && let Err(e) = editor.save_history(file)
    {
        eprintln!("the history could not be kept in {}: {e}", file.display());
    }
    Ok(())
}
