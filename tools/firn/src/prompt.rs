//! Statements typed at a terminal: line editing, completion by tab and a history, for every
//! language that the command speaks.
//!
//! Invariants: the history is a file of the user's, and a shell works without one; each statement
//! is in it before it runs, but for one that gives a password. An interrupt (Ctrl-C) forgets what was typed of a statement, or stops
//! the one that runs; the end of the input (Ctrl-D) leaves.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use firn_tools::output::{Done, Failure};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::interrupt;

/// A language that is typed line by line.
pub trait Conversation {
    /// A statement with its place.
    type Statement;

    /// What stands before a line.
    fn prompt(&self) -> String;

    /// What could replace the text from an offset on up to the end of `before`, which begins with a
    /// statement.
    fn complete(&mut self, before: &str) -> (usize, Vec<String>);

    /// Takes a line with its end; the statements that it completes.
    fn cut(&mut self, line: &str) -> Vec<Self::Statement>;

    /// Runs a statement. `true`: the user wants to leave.
    fn run(&mut self, statement: &Self::Statement) -> Done<bool>;

    /// Whether the lines so far are the beginning of a statement.
    fn is_waiting(&self) -> bool;

    /// Forgets the beginning of a statement.
    fn abandon(&mut self);
}

/// What the line editor needs: the conversation, and the lines of the statement before this one.
struct Around<C> {
    conversation: C,
    pending: String,
}

struct Completing<C>(Rc<RefCell<Around<C>>>);

impl<C: Conversation> Completer for Completing<C> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let mut around = self.0.borrow_mut();
        let before = format!("{}{}", around.pending, line.get(..pos).unwrap_or(line));
        let (start, candidates) = around.conversation.complete(&before);
        // What begins in an earlier line can't be replaced in this one.
        Ok(match start.checked_sub(around.pending.len()) {
            Some(start) => (start, candidates),
            None => (pos, Vec::new()),
        })
    }
}

impl<C> Hinter for Completing<C> {
    type Hint = String;
}
impl<C> Highlighter for Completing<C> {}
impl<C> Validator for Completing<C> {}
impl<C: Conversation> Helper for Completing<C> {}

/// Where the history is kept.
fn history_file() -> Option<PathBuf> {
    let named = std::env::var_os("FIRN_HISTORY").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".firn_history")))
}

fn editor<C: Conversation>(
    around: Rc<RefCell<Around<C>>>,
) -> Done<Editor<Completing<C>, FileHistory>> {
    let trouble = |e: ReadlineError| Failure::new(format!("cannot use the terminal: {e}"));
    let config =
        Config::builder().completion_type(CompletionType::List).auto_add_history(false).build();
    let history = FileHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history).map_err(trouble)?;
    editor.set_helper(Some(Completing(around)));
    Ok(editor)
}

/// Reads statements from the terminal until the user leaves.
pub fn converse(conversation: impl Conversation) -> Done {
    let around = Rc::new(RefCell::new(Around { conversation, pending: String::new() }));
    let mut editor = editor(around.clone())?;
    interrupt::watch().map_err(|e| Failure::new(format!("cannot watch for Ctrl-C: {e}")))?;
    let mut history = history_file();
    if let Some(file) = &history {
        // The first time there is none.
        let _ = editor.load_history(file);
    }
    loop {
        let prompt = around.borrow().conversation.prompt();
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                let mut around = around.borrow_mut();
                around.conversation.abandon();
                around.pending.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(e) => return Err(Failure::new(format!("cannot read from the terminal: {e}"))),
        };
        let mut around = around.borrow_mut();
        let whole = format!("{}{line}\n", around.pending);
        let statements = around.conversation.cut(&format!("{line}\n"));
        if around.conversation.is_waiting() {
            around.pending = whole;
        } else {
            around.pending.clear();
            let is_to_be_found = !whole.trim().is_empty() && !gives_password(&whole);
            if is_to_be_found && editor.add_history_entry(whole.trim()).unwrap_or(false) {
                keep(&mut editor, &mut history);
            }
        }
        interrupt::clear();
        for statement in &statements {
            if around.conversation.run(statement)? {
                return Ok(());
            }
            if interrupt::is_set() {
                eprintln!("stopped");
                around.conversation.abandon();
                around.pending.clear();
                break;
            }
        }
    }
    Ok(())
}

/// Reports whether a text gives a password: the word, or a part of one, before a quoted text
/// (`WITH PASSWORD = '…'`, `SET user_password = '…'`), or a quoted text behind a word that logs in
/// (`LOGIN ann '…'`; `connect` and `use` of cassandra-cli). Whether the text is a statement that the
/// shell understands is no matter.
fn gives_password(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_quote = |text: &str| text.starts_with(['\'', '"']) || text.starts_with("$$");
    let behind = |at: usize| {
        let rest = &lower[at + "password".len()..];
        let rest = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_' || c == '"');
        let rest = rest.trim_start();
        rest.strip_prefix('=').unwrap_or(rest).trim_start()
    };
    if lower.match_indices("password").any(|(at, _)| is_quote(behind(at))) {
        return true;
    }
    lower.split(';').any(|statement| {
        let mut words = statement.split_whitespace();
        matches!(words.next(), Some("login" | "connect" | "use")) && statement.contains('\'')
    })
}

/// Adds what was typed last to the file; of one that can't be written it is said once.
fn keep<C: Conversation>(
    editor: &mut Editor<Completing<C>, FileHistory>,
    history: &mut Option<PathBuf>,
) {
    if let Some(file) = history
        && let Err(e) = editor.append_history(file)
    {
        eprintln!("the history cannot be kept in {}: {e}", file.display());
        *history = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gives_a_password_is_found() {
        for text in [
            "CREATE ROLE x WITH PASSWORD = 'hunter3' AND LOGIN = true;",
            "create role x with login = true and password='a''b';",
            "ALTER ROLE x\nWITH SUPERUSER = false AND PASSWORD\n=\n'hunter3';",
            "CREATE USER ann WITH PASSWORD 'ann' NOSUPERUSER;",
            "ALTER USER ann WITH PASSWORD $$ann$$;",
            "CREATE ROLE x WITH HASHED PASSWORD = '$2a$10$abc';",
            "CREAT ROLE x WITH PASSWORD = 'hunter3';",
            "SELECT * FROM t; ALTER ROLE x WITH PASSWORD = 'hunter3'; SELECT 1",
            "UPDATE users SET \"user_password\" = 'x' WHERE id = 1;",
            "LOGIN ann 'hunter3'",
            "connect localhost/9160 ann 'hunter3';",
            "list users; use shop ann 'hunter3';",
        ] {
            assert!(gives_password(text), "{text}");
        }
        for text in [
            "SELECT password FROM users WHERE id = 1;",
            "CREATE TABLE users (id int PRIMARY KEY, password text);",
            "CREATE ROLE x WITH LOGIN = true;",
            "LOGIN ann",
            "USE shop;",
            "use \"Shop\";",
            "INSERT INTO t (id, v) VALUES (1, 'x');",
        ] {
            assert!(!gives_password(text), "{text}");
        }
    }
}
