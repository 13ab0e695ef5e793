//! Counts the statements of a script, and reports the failed ones at its end.

use firn_tools::output::{Style, things};
use serde_json::json;

/// Numbers of executed and failed statements of a script.
#[derive(Debug, Default)]
pub struct ScriptTally {
    run: u64,
    /// Number of failed statements.
    pub failed: u64,
    /// File and line of the first failed statement.
    first: Option<(String, u32)>,
}

impl ScriptTally {
    /// Counts an executed statement at this line of a file.
    pub fn add(&mut self, has_failed: bool, file: Option<&str>, line: u32) {
        self.run += 1;
        if has_failed {
            self.failed += 1;
            self.first.get_or_insert_with(|| (file.unwrap_or_default().to_owned(), line));
        }
    }

    /// Reports whether any statement failed.
    pub fn has_failed(&self) -> bool {
        self.failed > 0
    }

    /// Prints the number of failed statements, unless there was only one statement.
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
