//! `firn cli`: the language of cassandra-cli against a local store or a server, as a shell or as a
//! script.
//!
//! Invariants:
//! - A script stops at the first failed statement, except with `--go-on`.
//! - Results of statements go to standard output, their errors to standard error.

use std::io::{BufRead, Write};
use std::path::Path;

use clap::Args;
use firn_kv::OsEnv;
use firn_tools::io;
use firn_tools::output::{Done, Failure};
use firn_wide::Wide;
use firn_wide_text::cli::{
    CliAnswer, CliSession, CliSource, CliStatement, MAX_STATEMENT, Splitter, complete, format,
};

use crate::shell::connect::ConnectArgs;
use crate::shell::interrupt;
use crate::shell::pager;
use crate::shell::prompt::{Conversation, converse};
use crate::shell::statements::{StatementOrigin, Statements};
use crate::shell::thrift::{self, RemoteFamilies};
use crate::store::{Global, empty};

pub const EXAMPLES: &str = "\
Statements end with ';'. `help;` lists them, `help set;` explains one. Without -f and -e, statements come from the terminal (with
completion by tab, and a history) or from a pipe.

If the type of the family is BytesType, a text in quotes means its own characters, or bytes after 0x. A hexadecimal word without quotes
means bytes, and `set` prints a note. A column without validation_class has the family's default. --strict accepts only hexadecimal, and
answers as cassandra-cli 1.1.12 did.

On a terminal, answers are shown a screen at a time: by the program in $PAGER, or with space, Enter and q. Ctrl-C cancels the input, the
running statement or the output. The history is in $FIRN_HISTORY, else in ~/.firn_history, without lines that contain a password.

With --connect the statements go to a server's Thrift port: that of `firn serve --thrift`, or of Cassandra up to 3.11. The password of
--user is asked for, or read from --password-file or from $FIRN_PASSWORD.

Examples:
  firn cli                                       a shell
  firn --db music cli -f schema.txt              a script; it stops at the first failed statement
  firn --db music cli -k Music -e \"list users;\"
  firn --db music cli -k Music < statements.txt
  firn --db music cli -f old.txt --strict --go-on --echo
  firn cli --connect localhost -k Music          a shell on a server at port 9160";

/// Arguments of `firn cli`.
#[derive(Args, Clone, Debug)]
pub struct CliArgs {
    #[command(flatten)]
    statements: Statements,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Refuse what cassandra-cli 1.1.12 refused, with its messages
    #[arg(long)]
    strict: bool,
    /// Continue a script after a failed statement
    #[arg(long)]
    go_on: bool,
    /// Print each statement of a script before its answer, as a terminal would show it
    #[arg(long)]
    echo: bool,
}

/// Runs `firn cli`.
pub fn run(global: &Global, args: &CliArgs) -> Done {
    if global.store.json {
        return Err(Failure::with_next(
            "cli speaks cassandra-cli, which has no JSON",
            "leave --json out",
        ));
    }
    let mut session = match args.connect.options(global, thrift::PORT)? {
        Some(options) => {
            let server = RemoteFamilies::connect(options, global.style())?;
            let session = CliSession::new(server, OsEnv::new(), args.strict);
            Dialogue { session, global, args, awaits: false }
        }
        None => {
            let awaits = global.begins_empty()?;
            let wide = if awaits { empty()? } else { global.wide(global.defaults())? };
            Dialogue { session: session(wide, args), global, args, awaits }
        }
    };
    if let Some(name) = &args.statements.keyspace {
        let answer =
            session.session.execute(&CliStatement::Use { keyspace: name.clone(), login: None });
        if let Some(failure) = answer.failure {
            if session.awaits {
                global.note_empty();
            }
            return Err(Failure::with_next(
                failure.plain,
                "`show keyspaces;` lists them, `create keyspace` makes one",
            ));
        }
    }
    match args.statements.origin()? {
        StatementOrigin::Terminal => shell(&mut session),
        StatementOrigin::Text(name, input) => script(&mut session, args, name, input),
    }
}

/// A session, and its store once there is one.
struct Dialogue<'a> {
    session: CliSession,
    global: &'a Global,
    args: &'a CliArgs,
    /// Whether the session still uses an empty database, until a statement creates a keyspace.
    awaits: bool,
}

/// Creates a session whose statements Ctrl-C stops at a terminal.
fn session(wide: Wide, args: &CliArgs) -> CliSession {
    CliSession::new(wide.stoppable(interrupt::flag()), OsEnv::new(), args.strict)
}

impl Dialogue<'_> {
    fn run(&mut self, source: &CliSource) -> Done<CliAnswer> {
        let mut words = source.text.split_whitespace().map(str::to_ascii_lowercase);
        if self.awaits
            && words.next().as_deref() == Some("create")
            && words.next().as_deref() == Some("keyspace")
        {
            let wide = self.global.wide(self.global.defaults())?;
            (self.session, self.awaits) = (session(wide, self.args), false);
        }
        let answer = self.session.run(source);
        if self.awaits && answer.failure.is_some() {
            self.global.note_empty();
        }
        Ok(answer)
    }
}

/// Runs the statements of a text in order.
fn script(
    session: &mut Dialogue<'_>,
    args: &CliArgs,
    name: &Path,
    mut input: impl BufRead,
) -> Done {
    let mut out = io::stdout();
    let (mut splitter, mut line, mut number, mut failed) =
        (Splitter::new(), String::new(), 0, false);
    let mut statement = |session: &mut Dialogue<'_>, source: &CliSource| -> Done<bool> {
        number += 1;
        if args.echo {
            write!(out, "{}{}", session.session.prompt(), echo(source))?;
        }
        let answer = session.run(source)?;
        out.write_all(answer.text.as_bytes())?;
        if let Some(failure) = &answer.failure {
            out.flush()?;
            failed = true;
            let place = if args.strict {
                format!("Line {number} => ")
            } else {
                format!("{}:{}: ", name.display(), source.line)
            };
            eprintln!("{place}{}", session.session.say(failure));
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
            return Err(Failure::new(format!(
                "{}: a statement is longer than {MAX_STATEMENT} bytes",
                name.display()
            )));
        }
    }
    if !ended && let Some(source) = splitter.finish() {
        statement(session, &source)?;
    }
    out.flush()?;
    if failed { Err(Failure::Found) } else { Ok(()) }
}

/// Formats a statement as a terminal shows it.
fn echo(source: &CliSource) -> String {
    format!("{}\n", source.text.replace('\n', &format!("\n{}", format::MORE)))
}

/// Input from a terminal.
struct TypedCli<'a, 'g> {
    session: &'a mut Dialogue<'g>,
    splitter: Splitter,
}

impl Conversation for TypedCli<'_, '_> {
    type Statement = CliSource;

    fn prompt(&self) -> String {
        if self.splitter.pending() {
            format::MORE.to_owned()
        } else {
            self.session.session.prompt()
        }
    }

    fn complete(&mut self, before: &str) -> (usize, Vec<String>) {
        let found = complete::complete(before, &self.session.session.names());
        (found.start, found.candidates)
    }

    fn cut(&mut self, line: &str) -> Vec<CliSource> {
        self.splitter.feed(line);
        let statements = std::iter::from_fn(|| self.splitter.next_statement()).collect();
        if !self.splitter.pending() {
            // Line numbers count from the beginning of a statement.
            self.splitter = Splitter::new();
        }
        statements
    }

    fn run(&mut self, source: &CliSource) -> Done<bool> {
        let answer = self.session.run(source)?;
        pager::show(&answer.text)?;
        // After Ctrl-C no message is needed.
        if let Some(failure) = answer.failure.filter(|_| !interrupt::is_set()) {
            eprintln!("{}", self.session.session.say(&failure));
        }
        Ok(answer.exit)
    }

    fn is_waiting(&self) -> bool {
        self.splitter.pending()
    }

    fn abandon(&mut self) {
        self.splitter.abandon();
    }
}

/// Runs statements from the terminal until the user exits.
fn shell(session: &mut Dialogue<'_>) -> Done {
    println!("Statements end with ';'. 'help;' lists them, 'exit;' leaves.");
    converse(TypedCli { session, splitter: Splitter::new() })
}
