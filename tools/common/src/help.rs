//! Help texts that wrap at the width of the terminal.

use clap::Command;

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
