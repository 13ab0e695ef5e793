//! Files that are installed with a command: shell completions and manual pages, both generated from
//! its command line definition.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::Resettable;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use firn_kv::OsEnv;

use crate::io;
use crate::output::{Done, Failure, things};

/// Arguments of `completions`.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Print the page of this subcommand [default: the page of the command]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    of: Option<String>,
    /// Write all pages into this directory, which is created if missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Returns examples for the command `completions` of a command with this name.
pub fn completions_examples(name: &str) -> String {
    format!(
        "Examples:
  {name} completions bash > ~/.local/share/bash-completion/completions/{name}
  {name} completions zsh > ~/.zfunc/_{name}                 where ~/.zfunc is in $fpath
  {name} completions fish > ~/.config/fish/completions/{name}.fish"
    )
}

/// Returns examples for the command `man` of a command with this name and the subcommand `sub`.
pub fn man_examples(name: &str, sub: &str) -> String {
    format!(
        "Examples:
  {name} man --out ~/.local/share/man/man1       a page for each command: `man {name}`, `man {name}-{sub}`
  {name} man {sub} | man -l -"
    )
}

/// Prints the completions of a command for a shell.
///
/// # Errors
/// Errors of `out`.
pub fn completions(args: &CompletionsArgs, mut command: Command, out: &mut dyn Write) -> Done {
    let name = command.get_name().to_owned();
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    Ok(out.write_all(&script)?)
}

/// Prints or writes the manual pages of a command.
///
/// # Errors
/// An unknown subcommand, and files that cannot be written.
pub fn man(args: &ManArgs, command: Command, out: &mut dyn Write) -> Done {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    if let Some(dir) = &args.out {
        OsEnv::new().create_dir_all(dir)?;
        let written = write(&command, dir)?;
        eprintln!("wrote {} into {}", things(written, "page", "pages"), dir.display());
        return Ok(());
    }
    let of = match &args.of {
        None => &command,
        Some(name) => command.find_subcommand(name).ok_or_else(|| {
            let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            Failure::with_next(
                format!("{} has no command {name:?}", command.get_name()),
                format!("it has {}", names.join(", ")),
            )
        })?,
    };
    Ok(out.write_all(&page(of)?)?)
}

fn page(command: &Command) -> Done<Vec<u8>> {
    let mut text = vec![];
    // The text after the options has its own layout: the formatter would fill examples into
    // paragraphs.
    let after = command.get_after_help().map(ToString::to_string);
    Man::new(command.clone().after_help(Resettable::Reset)).render(&mut text)?;
    if let Some(after) = after {
        text.extend_from_slice(b".SH NOTES\n.nf\n");
        for line in after.lines() {
            let line = line.replace('\\', "\\e").replace('-', "\\-");
            // A leading point or apostrophe would be a roff request.
            let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
            writeln!(text, "{guard}{line}")?;
        }
        text.extend_from_slice(b".fi\n");
    }
    Ok(text)
}

/// Writes the pages of a command and its subcommands; returns their number.
fn write(command: &Command, dir: &Path) -> Done<u64> {
    let path = dir.join(Man::new(command.clone()).get_filename());
    io::write(&path, &page(command)?).map_err(|e| Failure::file("write", &path, &e))?;
    let below = command.get_subcommands().filter(|c| !c.is_hide_set());
    below.map(|c| write(c, dir)).try_fold(1, |sum, n| Ok(sum + n?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn command() -> Command {
        let sub = Command::new("look")
            .about("Looks")
            .arg(Arg::new("at").long("at"))
            .after_help("Examples:\n  tool look --at x\n.dot");
        Command::new("tool")
            .about("A tool")
            .subcommand(sub)
            .subcommand(Command::new("go-on").about("Goes on"))
    }

    #[test]
    fn shells_are_given_their_scripts() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut out = vec![];
            completions(&CompletionsArgs { shell }, command(), &mut out).unwrap();
            let script = String::from_utf8(out).unwrap();
            assert!(script.contains("look") && script.contains("go-on"), "{script}");
            if shell == Shell::Bash {
                firn_testkit::shell::completes(&script, "tool", &["look", "go-on"]);
            }
        }
    }

    #[test]
    fn a_page_has_examples_line_by_line() {
        let mut out = vec![];
        man(&ManArgs { of: Some("look".into()), out: None }, command(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(".TH tool-look 1"), "{text}");
        assert!(text.contains(".nf\nExamples:\n  tool look \\-\\-at x\n\\&.dot\n.fi\n"), "{text}");
        let refused = man(&ManArgs { of: Some("lok".into()), out: None }, command(), &mut vec![])
            .unwrap_err();
        assert!(
            matches!(refused, Failure::Failed { next: Some(next), .. } if next == "it has look, go-on")
        );
    }
}
