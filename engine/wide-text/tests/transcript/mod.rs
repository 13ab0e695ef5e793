//! Recorded exchanges with the real cassandra-cli of 1.1.12: `vectors/cli.txt`.

use std::fmt::Write as _;

use firn_wide_text::cli::format;

/// The whole recording.
pub const TRANSCRIPT: &str = include_str!("../vectors/cli.txt");

/// Returns the statements of the transcript with their prompts and outputs.
pub fn exchanges() -> Vec<(String, String, String)> {
    let mut out: Vec<(String, String, String)> = Vec::new();
    for line in TRANSCRIPT.lines() {
        if let Some(at) = line.strip_prefix("[default@").and_then(|l| l.find("] ")) {
            let (prompt, statement) = line.split_at("[default@".len() + at + 2);
            out.push((prompt.to_owned(), statement.to_owned(), String::new()));
            continue;
        }
        let (_, statement, answer) = out.last_mut().expect("the transcript begins with a prompt");
        match line.strip_prefix(format::MORE) {
            Some(more) => write!(statement, "\n{more}").unwrap(),
            None => writeln!(answer, "{line}").unwrap(),
        }
    }
    out
}
