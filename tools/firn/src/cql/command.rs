//! The shell's own commands.

use std::path::PathBuf;

use super::backend::ShellSetting;
use super::command_words::CommandWords;
use super::copy::Copy;
use super::other_shells;

/// A command of the shell.
#[derive(Clone, Debug, PartialEq)]
pub enum ShellCommand {
    /// Help on a topic, or a list of the topics.
    Help(Option<String>),
    /// Runs the statements of a file.
    Source(PathBuf),
    /// Imports or exports rows.
    Copy(Box<Copy>),
    /// Sets whether rows are printed as lists of their columns. `None` queries it.
    Expand(Option<bool>),
    /// Sets the paging of results. `None` queries it.
    Paging(Option<Paging>),
    /// Shows the versions.
    ShowVersion,
    /// Shows the store, server or cluster.
    ShowHost,
    /// Shows a trace.
    ShowSession(String),
    /// Starts or stops the capture of results in a file. `None` queries it.
    Capture(Option<Capture>),
    /// Sets whether the time of statements is shown. `None` queries it.
    Elapsed(Option<bool>),
    /// Logs in as another role, with the password if it was given.
    Login(String, Option<String>),
    /// Shows the encoding of texts.
    Unicode,
    /// Clears the screen.
    Clear,
    /// Exits.
    Exit,
    /// Changes or queries a setting of the connection.
    Set(ShellSetting),
}

/// Target of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Append to this file.
    Into(PathBuf),
    /// Print to standard output.
    Off,
}

/// Argument of `PAGING`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paging {
    /// Whether rows are fetched page by page, or all at once.
    On(bool),
    /// Rows of a page.
    Rows(usize),
}

/// Returns the command if no words follow it.
fn only(
    command: ShellCommand,
    words: &mut CommandWords<'_>,
) -> Result<Option<ShellCommand>, String> {
    match words.next() {
        None => Ok(Some(command)),
        Some((extra, _)) => Err(format!("unexpected word '{extra}' after the command")),
    }
}

/// Parses a command; `None` if the text is not a command.
///
/// # Errors
/// The command is invalid.
pub fn parse(text: &str) -> Result<Option<ShellCommand>, String> {
    if let Some(hint) = other_shells::hint(text) {
        return Err(hint);
    }
    let mut words = CommandWords::new(text);
    let Some((first, false)) = words.next() else { return Ok(None) };
    let command = match &*first.to_ascii_uppercase() {
        "HELP" | "?" => {
            let topic: Vec<String> = std::iter::from_fn(|| words.next()).map(|w| w.0).collect();
            return Ok(Some(ShellCommand::Help((!topic.is_empty()).then(|| topic.join(" ")))));
        }
        "SOURCE" => match words.next() {
            Some((file, true)) => ShellCommand::Source(file.into()),
            _ => {
                return Err("SOURCE takes the name of a file in quotes: SOURCE 'schema.cql'".into());
            }
        },
        "COPY" => ShellCommand::Copy(Box::new(Copy::parse(&mut words)?)),
        "EXPAND" => ShellCommand::Expand(match words.next() {
            None => None,
            Some((word, _)) => Some(on_or_off(&word).ok_or("EXPAND is ON or OFF")?),
        }),
        "PAGING" => ShellCommand::Paging(match words.next() {
            None => None,
            Some((word, _)) => match (on_or_off(&word), word.parse()) {
                (Some(on), _) => Some(Paging::On(on)),
                (None, Ok(rows)) if rows > 0 => Some(Paging::Rows(rows)),
                _ => return Err("PAGING takes ON, OFF or the number of rows of a page".into()),
            },
        }),
        "SHOW" if words.eat("VERSION") => ShellCommand::ShowVersion,
        "SHOW" if words.eat("HOST") => ShellCommand::ShowHost,
        "SHOW" if words.eat("SESSION") => match words.next() {
            Some((id, false)) => ShellCommand::ShowSession(id),
            _ => return Err("SHOW SESSION takes the id of a trace".into()),
        },
        "SHOW" => {
            return Err(
                "SHOW takes VERSION, HOST or SESSION; DESCRIBE TABLES lists tables, HELP DESCRIBE explains more"
                    .into(),
            );
        }
        "CAPTURE" => ShellCommand::Capture(match words.next() {
            None => None,
            Some((file, true)) => Some(Capture::Into(file.into())),
            Some((word, false)) if word.eq_ignore_ascii_case("OFF") => Some(Capture::Off),
            _ => return Err("CAPTURE takes the name of a file in quotes, or OFF".into()),
        }),
        "ELAPSED" => ShellCommand::Elapsed(match words.next() {
            None => None,
            Some((word, _)) => Some(on_or_off(&word).ok_or("ELAPSED is ON or OFF")?),
        }),
        "LOGIN" => match words.next() {
            Some((role, _)) => ShellCommand::Login(role, words.next().map(|word| word.0)),
            None => return Err("LOGIN takes the name of a role: LOGIN ann".into()),
        },
        "UNICODE" => ShellCommand::Unicode,
        "CLEAR" | "CLS" => ShellCommand::Clear,
        "EXIT" | "QUIT" => ShellCommand::Exit,
        "CONSISTENCY" => ShellCommand::Set(ShellSetting::Consistency(level(&mut words))),
        "SERIAL" if words.eat("CONSISTENCY") => {
            ShellCommand::Set(ShellSetting::SerialConsistency(level(&mut words)))
        }
        "TRACING" => ShellCommand::Set(ShellSetting::Tracing(match words.next() {
            None => None,
            Some((word, _)) => Some(on_or_off(&word).ok_or("TRACING is ON or OFF")?),
        })),
        _ => return Ok(None),
    };
    only(command, &mut words)
}

/// Reports whether a statement creates a first object: a keyspace or a role.
pub fn makes_first(text: &str) -> bool {
    let mut words = CommandWords::new(text);
    words.eat("CREATE") && ["KEYSPACE", "SCHEMA", "ROLE", "USER"].iter().any(|w| words.eat(w))
}

fn level(words: &mut CommandWords<'_>) -> Option<String> {
    words.next().map(|w| w.0.to_ascii_uppercase())
}

fn on_or_off(word: &str) -> Option<bool> {
    match &*word.to_ascii_uppercase() {
        "ON" => Some(true),
        "OFF" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_distinguished_from_statements() {
        assert_eq!(
            parse("help create table"),
            Ok(Some(ShellCommand::Help(Some("create table".into()))))
        );
        assert_eq!(parse("SOURCE 'a''b.cql'"), Ok(Some(ShellCommand::Source("a'b.cql".into()))));
        assert_eq!(parse("paging 50"), Ok(Some(ShellCommand::Paging(Some(Paging::Rows(50))))));
        assert_eq!(parse("Expand on"), Ok(Some(ShellCommand::Expand(Some(true)))));
        assert_eq!(
            (parse("consistency"), parse("exit")),
            (
                Ok(Some(ShellCommand::Set(ShellSetting::Consistency(None)))),
                Ok(Some(ShellCommand::Exit))
            )
        );
        assert_eq!(
            parse("serial consistency local_serial"),
            Ok(Some(ShellCommand::Set(ShellSetting::SerialConsistency(Some(
                "LOCAL_SERIAL".into()
            )))))
        );
        assert_eq!(
            parse("TRACING on"),
            Ok(Some(ShellCommand::Set(ShellSetting::Tracing(Some(true)))))
        );
        assert_eq!(
            (parse("SELECT * FROM t"), parse("'help'"), parse("")),
            (Ok(None), Ok(None), Ok(None))
        );
        for bad in [
            "source schema.cql",
            "paging maybe",
            "paging 0",
            "expand on on",
            "tracing maybe",
            "show tables",
            "show session",
            "capture results",
            "login",
            "exit now",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
