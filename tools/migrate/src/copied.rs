//! Journal of a copy from a cluster: the tables that were begun, their finished spans, and
//! statistics of these.
//!
//! Invariant: a line is written when all data that it describes is durable in the store. After an
//! interruption the copy repeats everything beyond the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use firn_kv::Env;
use firn_tools::output::Done;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::journal_file::JournalFile;
use crate::row_import::ImportStats;

/// Identity of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyPlan {
    /// Id of the target store.
    pub store: String,
    /// The copied tables. A resumed copy may have others.
    pub tables: Vec<String>,
    /// The nodes of the cluster in the address.
    pub nodes: Vec<String>,
    /// The condition of the copied rows.
    pub condition: Option<String>,
    /// Start of the copy, in microseconds since 1970.
    pub began: i64,
}

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CopyLine {
    /// The first line.
    From(CopyPlan),
    /// A table has passed its checks, and rows are copied into it from now on.
    Begun { table: String },
    /// A span of it is copied.
    Span { table: String, span: usize, counts: ImportStats },
    /// The copy is complete.
    Complete {},
}

/// The recorded state.
#[derive(Debug, Default)]
struct CopyState {
    began: i64,
    begun: BTreeSet<String>,
    spans: BTreeMap<String, BTreeMap<usize, ImportStats>>,
}

impl CopyState {
    fn take(&mut self, line: CopyLine) {
        match line {
            CopyLine::From(plan) => self.began = plan.began,
            CopyLine::Begun { table } => drop(self.begun.insert(table)),
            CopyLine::Span { table, span, counts } => {
                self.spans.entry(table).or_default().insert(span, counts);
            }
            CopyLine::Complete {} => {}
        }
    }
}

/// Checks a line of a resumed journal.
fn check_line(number: usize, line: &CopyLine, plan: &CopyPlan, resume: bool) -> Result<(), String> {
    match (line, number) {
        (CopyLine::From(of), 0) if of.store != plan.store => {
            Err("it is of a copy into another store".to_owned())
        }
        (CopyLine::From(of), 0) if !resume && of.tables != plan.tables => {
            Err("it is of a copy of other tables".to_owned())
        }
        (CopyLine::From(of), 0) if of.nodes != plan.nodes => {
            Err(format!("it is of a copy from {}", of.nodes.join(",")))
        }
        (CopyLine::From(of), 0) if of.condition != plan.condition => {
            let condition = of.condition.as_deref().unwrap_or("nothing");
            Err(format!("it is of a copy with {condition} behind --where"))
        }
        (CopyLine::From(_), 0) => Ok(()),
        (CopyLine::From(_), _) | (_, 0) => Err("it does not begin as one".to_owned()),
        _ => Ok(()),
    }
}

/// Journal of a copy.
pub struct CopyJournal {
    file: JournalFile,
    state: Mutex<CopyState>,
}

impl std::fmt::Debug for CopyJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyJournal").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl CopyJournal {
    /// Creates a journal, or with `resume` continues the existing one; the copy then has the start
    /// time of that one.
    ///
    /// # Errors
    /// A journal that exists without `resume`; with `resume`, one that is missing, of another copy
    /// or unreadable; file errors.
    pub fn open(
        env: &Arc<dyn Env>,
        path: &Path,
        plan: &CopyPlan,
        resume: bool,
    ) -> Done<CopyJournal> {
        let mut state = CopyState { began: plan.began, ..CopyState::default() };
        let line = CopyLine::From(plan.clone());
        let file = JournalFile::open(env, path, &line, resume, |number, line| {
            check_line(number, &line, plan, resume)?;
            state.take(line);
            Ok(())
        })?;
        Ok(CopyJournal { file, state: Mutex::new(state) })
    }

    /// Returns the start of the copy, in microseconds since 1970.
    pub fn began(&self) -> i64 {
        self.state.lock().began
    }

    /// Reports whether a table was begun.
    pub fn has_begun(&self, table: &str) -> bool {
        self.state.lock().begun.contains(table)
    }

    /// Returns the finished spans of a table with their statistics.
    pub fn spans(&self, table: &str) -> BTreeMap<usize, ImportStats> {
        self.state.lock().spans.get(table).cloned().unwrap_or_default()
    }

    /// Checks the conditions of [`open`](CopyJournal::open) without any change.
    ///
    /// # Errors
    /// As [`open`](CopyJournal::open).
    pub fn check(env: &Arc<dyn Env>, path: &Path, plan: &CopyPlan, resume: bool) -> Done {
        let take = |number, line| check_line(number, &line, plan, resume);
        JournalFile::check(env, path, &CopyLine::From(plan.clone()), resume, take)
    }

    /// Records that the copy is complete.
    ///
    /// # Errors
    /// File errors.
    pub fn complete(&self) -> Done {
        self.file.complete()
    }

    fn add(&self, line: CopyLine, durable: bool) -> Done {
        self.file.add(&line, durable)?;
        self.state.lock().take(line);
        Ok(())
    }

    /// Records that the copy of a table begins.
    ///
    /// # Errors
    /// File errors.
    pub fn begin(&self, table: &str) -> Done {
        // Durable: without this line a resumed copy would take its own rows for existing ones.
        self.add(CopyLine::Begun { table: table.to_owned() }, true)
    }

    /// Records that a span of a table is durable in the store.
    ///
    /// # Errors
    /// File errors.
    pub fn end(&self, table: &str, span: usize, counts: ImportStats) -> Done {
        // If this line is lost, the span is copied again.
        self.add(CopyLine::Span { table: table.to_owned(), span, counts }, false)
    }

    /// Returns the path of the journal.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}
