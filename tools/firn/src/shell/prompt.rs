//! Input of statements at a terminal, for every language of the command: line editing, completion
//! by tab, and a history.
//!
//! Invariants:
//! - The history is a file of the user, and a shell works without one.
//! - Each statement is in the history before it runs, except those with a password.
//! - Ctrl-C discards the current input, or stops the running statement. Ctrl-D, the end of the
//!   input, exits.

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

use crate::shell::interrupt;

/// A language that is typed line by line.
pub trait Conversation {
    /// A statement with its position.
    type Statement;

    /// Returns the prompt of a line.
    fn prompt(&self) -> String;

    /// Returns candidates for the text from an offset to the end of `before`, which begins with a
    /// statement, and that offset.
    fn complete(&mut self, before: &str) -> (usize, Vec<String>);

    /// Adds a line with its line end; returns the statements that it completes.
    fn cut(&mut self, line: &str) -> Vec<Self::Statement>;

    /// Runs a statement. Returns `true` if the user wants to exit.
    fn run(&mut self, statement: &Self::Statement) -> Done<bool>;

    /// Reports whether the lines so far are an incomplete statement.
    fn is_waiting(&self) -> bool;

    /// Discards the incomplete statement.
    fn abandon(&mut self);
}

/// State of the line editor: the conversation, and the earlier lines of the incomplete statement.
struct EditedStatement<C> {
    conversation: C,
    pending: String,
}

struct Completing<C>(Rc<RefCell<EditedStatement<C>>>);

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
        // Text of an earlier line cannot be replaced in this one.
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

/// Returns the file of the history.
fn history_file() -> Option<PathBuf> {
    let named = std::env::var_os("FIRN_HISTORY").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".firn_history")))
}

fn editor<C: Conversation>(
    around: Rc<RefCell<EditedStatement<C>>>,
) -> Done<Editor<Completing<C>, FileHistory>> {
    let trouble = |e: ReadlineError| Failure::new(format!("cannot use the terminal: {e}"));
    let config =
        Config::builder().completion_type(CompletionType::List).auto_add_history(false).build();
    let history = FileHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history).map_err(trouble)?;
    editor.set_helper(Some(Completing(around)));
    Ok(editor)
}

/// Reads statements from the terminal until the user exits.
pub fn converse(conversation: impl Conversation) -> Done {
    let around = Rc::new(RefCell::new(EditedStatement { conversation, pending: String::new() }));
    let mut editor = editor(around.clone())?;
    interrupt::watch().map_err(|e| Failure::new(format!("cannot watch for Ctrl-C: {e}")))?;
    let mut history = history_file();
    if let Some(file) = &history {
        // The file does not exist at the first use.
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

/// Reports whether a text contains a password: the word, or a part of a word, before a quoted text
/// (`WITH PASSWORD = '…'`, `SET user_password = '…'`), or a quoted text after a word that logs in
/// (`LOGIN ann '…'`; `connect` and `use` of cassandra-cli). The text need not be a valid statement.
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

/// Appends the last input to the file. If the file cannot be written, reports this once.
fn keep<C: Conversation>(
    editor: &mut Editor<Completing<C>, FileHistory>,
    history: &mut Option<PathBuf>,
) {
    if let Some(file) = history
        && let Err(e) = editor.append_history(file)
    {
        eprintln!("the history cannot be written to {}: {e}", file.display());
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
