//! The journal of a copy from a cluster: which tables were begun, which spans of them are done, and
//! what was in these.
//!
//! Invariant: a line is written when all that it tells of is safe in the store, so what a copy that
//! was interrupted has done beyond it is done again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use firn_kv::Env;
use firn_tools::output::Done;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::journal_file::JournalFile;
use crate::taker::ImportStats;

/// What is copied, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyPlan {
    /// The store that is written, by its id.
    pub store: String,
    /// The tables that are copied. A copy that goes on may be of others.
    pub tables: Vec<String>,
    /// The nodes that the cluster is known by.
    pub nodes: Vec<String>,
    /// The condition that rows are copied by.
    pub condition: Option<String>,
    /// When the copy began, microseconds since 1970.
    pub began: i64,
}

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CopyLine {
    /// The first.
    From(CopyPlan),
    /// A table was found to be as it must be, and is copied into from now on.
    Begun { table: String },
    /// A span of it is copied.
    Span { table: String, span: usize, counts: ImportStats },
    /// All is done.
    Complete {},
}

/// What is known to be done.
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

/// What is wrong with a line of a journal that goes on.
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

/// The journal of a copy.
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
    /// Begins a journal, or goes on with the one that is there, where that is asked for: then the
    /// copy began when that one did.
    ///
    /// # Errors
    /// One that is there and was not asked for, one that is asked for and is missing, is of another
    /// copy or can't be read; those of files.
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

    /// When the copy began, microseconds since 1970.
    pub fn began(&self) -> i64 {
        self.state.lock().began
    }

    /// Whether a table was begun.
    pub fn has_begun(&self, table: &str) -> bool {
        self.state.lock().begun.contains(table)
    }

    /// What is done of a table: its spans, each with what was in it.
    pub fn spans(&self, table: &str) -> BTreeMap<usize, ImportStats> {
        self.state.lock().spans.get(table).cloned().unwrap_or_default()
    }

    /// Reports what [`open`](CopyJournal::open) would refuse, and changes nothing.
    ///
    /// # Errors
    /// As [`open`](CopyJournal::open).
    pub fn check(env: &Arc<dyn Env>, path: &Path, plan: &CopyPlan, resume: bool) -> Done {
        let take = |number, line| check_line(number, &line, plan, resume);
        JournalFile::check(env, path, &CopyLine::From(plan.clone()), resume, take)
    }

    /// Says that all is done.
    ///
    /// # Errors
    /// Those of files.
    pub fn complete(&self) -> Done {
        self.file.complete()
    }

    fn add(&self, line: CopyLine, durable: bool) -> Done {
        self.file.add(&line, durable)?;
        self.state.lock().take(line);
        Ok(())
    }

    /// A table is copied into from now on.
    ///
    /// # Errors
    /// Those of files.
    pub fn begin(&self, table: &str) -> Done {
        // Without that line its rows would be somebody else's.
        self.add(CopyLine::Begun { table: table.to_owned() }, true)
    }

    /// A span of a table is safe in the store.
    ///
    /// # Errors
    /// Those of files.
    pub fn end(&self, table: &str, span: usize, counts: ImportStats) -> Done {
        // A line that is lost is a span that is copied again.
        self.add(CopyLine::Span { table: table.to_owned(), span, counts }, false)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}
