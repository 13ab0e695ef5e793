//! Tests shell scripts that a command generates.

use std::io;
use std::process::{Command, Output};

fn bash(args: &[&str]) -> io::Result<Output> {
    Command::new("bash").args(args).output()
}

/// Checks that bash accepts `script` and then completes the name of each subcommand of `command`.
/// Does nothing without bash.
///
/// # Panics
/// Panics if bash refuses the script, or does not complete a name.
pub fn completes(script: &str, command: &str, subcommands: &[&str]) {
    let Ok(read) = bash(&["-n", "-c", script]) else { return };
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    // The function that the script registers for the command.
    let function = format!("f=$(complete -p {command}); f=${{f#*-F }}; f=${{f%% *}}");
    let asks = |word: &&str| {
        format!(
            "COMP_WORDS=({command} {word}); COMP_CWORD=1; $f {command} {word} {command}; [[ \" ${{COMPREPLY[*]}} \" == *\" {word} \"* ]] || echo {word}"
        )
    };
    let asked = format!(
        "{script}\n{function}\n{}",
        subcommands.iter().map(asks).collect::<Vec<_>>().join("\n")
    );
    let missing = bash(&["-c", &asked])
        .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
        .unwrap_or_default();
    assert_eq!(missing, "", "these are not completed");
}
