//! Texts that wrap at the width of the terminal.

use clap::Command;

use crate::io::{screen, stdout_is_terminal};

/// Breaks lines between words where they are longer than the terminal. A continuation has the
/// indentation of its line. Text that does not go to a terminal is unchanged.
pub fn fit_terminal(text: &str) -> String {
    if stdout_is_terminal() { wrap(text, screen().1) } else { text.to_owned() }
}

/// Breaks lines between words where they are longer than `width` characters. Indentation and column
/// gaps stay.
fn wrap(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 64);
    for line in text.split_inclusive('\n') {
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        let mut used = 0;
        for word in line.split_inclusive(' ') {
            let len = word.trim_end().chars().count();
            if used > indent.len() && len > 0 && used + len > width {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                out.push_str(&indent);
                used = indent.len();
            }
            out.push_str(word);
            used += word.chars().count();
        }
    }
    out
}

/// Joins the lines of each paragraph in the texts after the options, of a command and its
/// subcommands, so that clap wraps them at words. Indented lines, such as examples, stay as they
/// are.
pub fn wrapped(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let mut command = match command.get_after_help() {
        Some(text) => {
            let text = paragraphs(&text.to_string());
            command.after_help(text)
        }
        None => command,
    };
    for name in names {
        command = command.mut_subcommand(name, wrapped);
    }
    command
}

fn paragraphs(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut is_prose = false;
    for line in text.lines() {
        let continues = is_prose && !line.is_empty() && !line.starts_with(' ');
        if !joined.is_empty() {
            joined.push(if continues { ' ' } else { '\n' });
        }
        joined.push_str(line);
        is_prose = !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_wrap_between_words_with_their_indentation() {
        let text = "one two three\n  four five six\n\n    a-word-without-end\nlast";
        assert_eq!(
            wrap(text, 9),
            "one two\nthree\n  four\n  five\n  six\n\n    a-word-without-end\nlast"
        );
        assert_eq!(wrap(text, 80), text);
    }

    #[test]
    fn paragraphs_are_joined_and_examples_are_not() {
        let text = "A text\nof two lines.\n\nExamples:\n  firn get a\n  firn get b\nThe end.";
        assert_eq!(
            paragraphs(text),
            "A text of two lines.\n\nExamples:\n  firn get a\n  firn get b\nThe end."
        );
        let command = Command::new("firn").subcommand(Command::new("get").after_help("a\nb"));
        let command = wrapped(command);
        let get = command.find_subcommand("get").and_then(Command::get_after_help);
        assert_eq!(get.map(ToString::to_string).as_deref(), Some("a b"));
    }
}
