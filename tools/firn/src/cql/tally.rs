//! Counts the statements of a script, and says at its end which of them failed.

use firn_tools::output::{Style, things};
use serde_json::json;

/// Statements and commands of a script, and those that failed.
#[derive(Debug, Default)]
pub struct ScriptTally {
    run: u64,
    /// How many failed.
    pub failed: u64,
    /// The file and line of the first that failed.
    first: Option<(String, u32)>,
}

impl ScriptTally {
    /// Counts a statement that has been run, at this line of a file.
    pub fn add(&mut self, has_failed: bool, file: Option<&str>, line: u32) {
        self.run += 1;
        if has_failed {
            self.failed += 1;
            self.first.get_or_insert_with(|| (file.unwrap_or_default().to_owned(), line));
        }
    }

    /// Whether any failed.
    pub fn has_failed(&self) -> bool {
        self.failed > 0
    }

    /// Says how many failed, unless there was no other statement.
    pub fn report(&self, as_json: bool, style: Style) {
        let Some((file, line)) = self.first.as_ref().filter(|_| self.run > 1) else { return };
        if as_json {
            let summary = json!({"statements": self.run, "failed": self.failed});
            eprintln!("{}", json!({"summary": summary}));
            return;
        }
        let all = things(self.run, "statement", "statements");
        eprintln!(
            "{} {} of {all} failed, the first at {file}:{line}",
            style.error("failed:"),
            self.failed
        );
    }
}
