//! What of a copy from a cluster is done: a file beside the store that is copied into.
//!
//! The first line says what is copied, each other one what is done: a table that was begun, or a
//! span of one. A line is written when all that it tells of is safe in the store, so what a copy that
//! broke off has done beyond it is done again.
//!
//! Invariant: a line that broke off counts as none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::{Env, WriteFile};
use firn_tools::io;
use firn_tools::output::{Done, Failure};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::taker::TakenCounts;

/// The most bytes that a record may have: of a million spans of tables.
const MOST: u64 = 256 << 20;

/// What is copied, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyPlan {
    /// The nodes that the cluster is known by.
    pub nodes: Vec<String>,
    /// The condition that rows are copied by.
    pub condition: Option<String>,
    /// When the copy began, microseconds since 1970.
    pub began: i64,
}

/// A line about a table.
#[derive(Debug, Serialize, Deserialize)]
enum CopyStep {
    /// It was found to be as it must be, and is copied into from now on.
    Begun { table: String },
    /// A span of it is copied.
    Span { table: String, span: usize, counts: TakenCounts },
}

/// What is known to be done.
struct CopyState {
    file: Box<dyn WriteFile>,
    begun: BTreeSet<String>,
    spans: BTreeMap<String, BTreeMap<usize, TakenCounts>>,
}

/// The record of a copy.
pub struct CopyRecord {
    path: PathBuf,
    plan: CopyPlan,
    state: Mutex<CopyState>,
}

impl std::fmt::Debug for CopyRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyRecord").field("path", &self.path).finish_non_exhaustive()
    }
}

fn trouble(doing: &str, path: &Path, e: impl std::fmt::Display) -> Failure {
    Failure::new(format!("cannot {doing} {}: {e}", path.display()))
}

fn line(of: &impl Serialize) -> String {
    // Strings and numbers alone, which JSON has.
    serde_json::to_string(of).unwrap_or_default() + "\n"
}

impl CopyRecord {
    /// Begins a record, or goes on with the one that is there, where that is asked for.
    ///
    /// # Errors
    /// A record that is there though nothing is to go on, or is of another copy; none where
    /// something is; a file that can't be read or written.
    pub fn open(env: &Arc<dyn Env>, path: &Path, plan: CopyPlan, resume: bool) -> Done<CopyRecord> {
        let shown = path.display();
        let text = match (env.file_len(path).is_ok(), resume) {
            (true, false) => {
                return Err(Failure::with_next(
                    format!("a copy into this store broke off: {shown} says what of it is done"),
                    "give --resume to go on with it; to begin anew, remove that file",
                ));
            }
            (false, true) => {
                return Err(Failure::with_next(
                    format!("there is no copy to go on with: {shown} is missing"),
                    "leave out --resume to begin one",
                ));
            }
            (false, false) => line(&plan),
            (true, true) => {
                let known = env.read_all(path, MOST).map_err(|e| trouble("read", path, e))?;
                let whole = known.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                String::from_utf8_lossy(&known[..whole]).into_owned()
            }
        };
        let mut lines = text.lines();
        let unread = |e| {
            let next = "remove it to begin the copy anew";
            Failure::with_next(format!("{shown} is no record of a copy: {e}"), next)
        };
        let known: CopyPlan =
            serde_json::from_str(lines.next().unwrap_or_default()).map_err(unread)?;
        if (&known.nodes, &known.condition) != (&plan.nodes, &plan.condition) {
            let condition =
                known.condition.map_or("all rows".to_owned(), |c| format!("rows where {c}"));
            return Err(Failure::with_next(
                format!(
                    "the copy that broke off was of {condition} from {}",
                    known.nodes.join(",")
                ),
                format!("give the same --from and --where, or remove {shown} to begin anew"),
            ));
        }
        let (mut begun, mut spans) = (BTreeSet::new(), BTreeMap::<_, BTreeMap<_, _>>::new());
        for line in lines {
            match serde_json::from_str(line).map_err(unread)? {
                CopyStep::Begun { table } => drop(begun.insert(table)),
                CopyStep::Span { table, span, counts } => {
                    spans.entry(table).or_default().insert(span, counts);
                }
            }
        }
        io::replace(path, text.as_bytes()).map_err(|e| Failure::file("write", path, &e))?;
        let file = env.append(path).map_err(|e| trouble("write", path, e))?;
        let state = Mutex::new(CopyState { file, begun, spans });
        Ok(CopyRecord { path: path.to_owned(), plan: known, state })
    }

    /// When the copy began, microseconds since 1970.
    pub fn began(&self) -> i64 {
        self.plan.began
    }

    /// Whether a table was begun.
    pub fn has_begun(&self, table: &str) -> bool {
        self.state.lock().begun.contains(table)
    }

    /// What is done of a table: its spans, each with what was in it.
    pub fn done(&self, table: &str) -> BTreeMap<usize, TakenCounts> {
        self.state.lock().spans.get(table).cloned().unwrap_or_default()
    }

    fn put(&self, step: &CopyStep, is_durable: bool) -> Done {
        let mut state = self.state.lock();
        let put = state.file.append(line(step).as_bytes());
        let mut sync = || if is_durable { state.file.sync() } else { Ok(()) };
        put.and_then(|()| sync()).map_err(|e| trouble("write", &self.path, e))
    }

    /// A table is copied into from now on.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn begin(&self, table: &str) -> Done {
        // Without that line its rows would be somebody else's.
        self.put(&CopyStep::Begun { table: table.to_owned() }, true)?;
        self.state.lock().begun.insert(table.to_owned());
        Ok(())
    }

    /// A span of a table is safe in the store.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn end(&self, table: &str, span: usize, counts: TakenCounts) -> Done {
        // A line that is lost is a span that is copied again.
        self.put(&CopyStep::Span { table: table.to_owned(), span, counts }, false)?;
        self.state.lock().spans.entry(table.to_owned()).or_default().insert(span, counts);
        Ok(())
    }

    /// All is done: there is nothing to go on with.
    ///
    /// # Errors
    /// A file that can't be removed.
    pub fn remove(self) -> Done {
        io::remove(&self.path).map_err(|e| Failure::file("remove", &self.path, &e))
    }
}
