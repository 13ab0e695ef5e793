//! Journal of a migration: a file with its progress, so that an interrupted one can be resumed.
//!
//! Invariants:
//! - A line is a JSON record. The last one may be incomplete, and is ignored then.
//! - The begin of a range is durable before any of it is sent. So a resumed run knows which data
//!   may have been sent before.
//! - Rows of counters are durable before they are sent: unanswered rows are identified by key and
//!   values.
//! - Rows that a run was sending when it ended are recorded as unanswered before the next run does
//!   anything: its own lines would hide them from the run after it.
//! - Followed changes of a counter table are recorded by row from `Adding` on, and as a whole by
//!   `Counted`. In between, a resumed run sends only rows without an entry.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use firn_kv::Env;
use firn_tools::output::Done;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::journal_file::JournalFile;

/// Identity of a migration. A resumed one must have the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHead {
    /// Version of the journal.
    pub firn_migrate: u32,
    /// Id of the source store.
    pub store: String,
    /// The nodes in the address.
    pub target: Vec<String>,
    /// The tables, each with keyspace, name and id.
    pub tables: Vec<(String, String, String)>,
    /// Number of token ranges of each table.
    pub ranges: u16,
    /// Condition on the migrated rows.
    pub condition: Option<String>,
}

/// Version of the journals written by this code.
pub const JOURNAL_VERSION: u32 = 1;

/// Used instead of a range number for followed changes of a table.
pub const FOLLOWED: usize = usize::MAX;

/// A row of counters to add at the target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AddedRow {
    /// Whether it is the static row.
    pub is_static: bool,
    /// Key values in hexadecimal: partition key, then clustering.
    pub key: Vec<String>,
    /// The additions to each counter.
    pub sums: Vec<Option<i64>>,
}

/// A line of the journal. Tables and ranges are numbered in the head's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JournalLine {
    Head(JournalHead),
    /// A range is begun, read at this sequence number.
    Begun {
        table: usize,
        range: usize,
        seq: u64,
    },
    /// All of a range has arrived; additions of this run are as of this sequence number.
    Done {
        table: usize,
        range: usize,
        seq: u64,
    },
    /// These rows of counters are about to be sent.
    Adding {
        table: usize,
        range: usize,
        seq: u64,
        /// Microseconds since 1970.
        at: u64,
        rows: Vec<AddedRow>,
    },
    /// The last `Adding` of the range was sent. The lists hold positions of its rows that were
    /// refused, unanswered or not sent.
    Added {
        table: usize,
        range: usize,
        #[serde(flatten)]
        sent: SentRows,
    },
    /// The lookup of an unanswered row found it, or not, or was inconclusive.
    Settled {
        table: usize,
        range: usize,
        row: AddedRow,
        outcome: AddedOutcome,
    },
    /// A counter table was truncated at the target, too; the store was truncated at this sequence
    /// number.
    Truncated {
        table: usize,
        seq: u64,
    },
    /// All changes of a counter table up to this sequence number have arrived.
    Counted {
        table: usize,
        seq: u64,
    },
    /// All changes up to this sequence number have arrived.
    Followed {
        seq: u64,
    },
    /// The migration is complete, unless other lines follow.
    Complete {},
}

/// Results of rows of counters that were sent together, by position; all other rows have arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentRows {
    /// They did not arrive: the target refused them.
    pub refused: Vec<usize>,
    /// They may have arrived.
    pub unanswered: Vec<usize>,
    /// They did not arrive: the target was unavailable.
    pub unsent: Vec<usize>,
}

impl SentRows {
    /// Reports whether all rows have arrived.
    pub fn is_whole(&self) -> bool {
        self.refused.is_empty() && self.unanswered.is_empty() && self.unsent.is_empty()
    }
}

/// Identity of a row of counters: whether it is the static row, and the key values in hexadecimal.
pub type CounterKey = (bool, Vec<String>);

/// Result of looking up a sent row of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddedOutcome {
    /// It has arrived.
    There,
    /// It is missing, and is sent again.
    Missing,
    /// Its state cannot be determined.
    Unknown,
}

/// The recorded state of a range.
#[derive(Clone, Debug, Default)]
pub struct RangeState {
    /// Number of times that it was begun.
    pub begun: u32,
    /// Sequence number of the first read.
    pub seq: Option<u64>,
    /// Whether all of it has arrived.
    pub done: bool,
    /// Keys of rows of counters that have arrived or whose state is unknown, with the sequence
    /// number of their read. For followed changes: those of the interrupted round.
    pub added: BTreeMap<CounterKey, u64>,
    /// Rows of counters being sent.
    sending: Vec<AddedRow>,
    /// Rows of counters that were sent and not answered.
    pub doubtful: Vec<AddedRow>,
    /// Time at which the last of them was sent, in microseconds since 1970.
    pub sent_at: u64,
    /// Sequence number of their read.
    pub sent_seq: u64,
    /// For followed changes: all counters up to this sequence number have arrived.
    pub counted: u64,
}

/// State of a migration.
#[derive(Debug, Default)]
struct JournalState {
    /// By table and range.
    ranges: BTreeMap<(usize, usize), RangeState>,
    /// Sequence number up to which changes have arrived.
    followed: Option<u64>,
    /// Rows of counters whose state cannot be determined, by table.
    unknown: Vec<(usize, AddedRow)>,
    /// Rows of counters of followed changes that were refused, by table.
    missing: Vec<(usize, AddedRow)>,
}

impl JournalState {
    fn take(&mut self, line: JournalLine) {
        match line {
            JournalLine::Head(_) => {}
            JournalLine::Begun { table, range, seq } => {
                let state = self.ranges.entry((table, range)).or_default();
                state.begun += 1;
                state.seq.get_or_insert(seq);
            }
            JournalLine::Done { table, range, seq } => {
                let state = self.ranges.entry((table, range)).or_default();
                state.done = true;
                let of_all = *state.seq.get_or_insert(seq);
                // If all rows were read at one state, they need not be recorded one by one.
                if state.added.values().all(|seq| *seq == of_all) {
                    state.added.clear();
                }
            }
            JournalLine::Adding { table, range, seq, at, rows } => {
                let state = self.ranges.entry((table, range)).or_default();
                (state.sending, state.sent_at, state.sent_seq) = (rows, at, seq);
            }
            JournalLine::Added { table, range, sent } => self.added(table, range, &sent),
            JournalLine::Settled { table, range, row, outcome } => {
                let state = self.ranges.entry((table, range)).or_default();
                state.doubtful.retain(|r| *r != row);
                if outcome != AddedOutcome::Missing {
                    state.added.insert((row.is_static, row.key.clone()), state.sent_seq);
                }
                if outcome == AddedOutcome::Unknown {
                    self.unknown.push((table, row));
                }
            }
            JournalLine::Truncated { table, seq } => {
                for ((_, range), state) in self.ranges.range_mut((table, 0)..=(table, FOLLOWED)) {
                    state.added.clear();
                    match *range {
                        FOLLOWED => state.counted = seq,
                        // The truncated table has arrived as empty; later changes follow.
                        _ => (state.seq, state.done) = (Some(seq), true),
                    }
                }
                self.unknown.retain(|row| row.0 != table);
                self.missing.retain(|row| row.0 != table);
            }
            JournalLine::Counted { table, seq } => {
                let state = self.ranges.entry((table, FOLLOWED)).or_default();
                state.counted = seq;
                state.added.clear();
            }
            JournalLine::Followed { seq } => self.followed = Some(seq),
            JournalLine::Complete {} => {}
        }
    }

    /// Records the results of rows that were to be sent.
    fn added(&mut self, table: usize, range: usize, sent: &SentRows) {
        let state = self.ranges.entry((table, range)).or_default();
        let all = |places: &[usize]| places.iter().copied().collect::<BTreeSet<usize>>();
        let (refused, unanswered) = (all(&sent.refused), all(&sent.unanswered));
        let (unsent, seq) = (all(&sent.unsent), state.sent_seq);
        for (n, row) in std::mem::take(&mut state.sending).into_iter().enumerate() {
            let is_followed = range == FOLLOWED;
            match (refused.contains(&n), unanswered.contains(&n)) {
                _ if unsent.contains(&n) => continue,
                (true, _) if is_followed => self.missing.push((table, row.clone())),
                // Followed changes add to existing values, so a later lookup is inconclusive.
                (_, true) if is_followed => self.unknown.push((table, row.clone())),
                (true, _) => continue,
                (_, true) => {
                    state.doubtful.push(row);
                    continue;
                }
                _ => {}
            }
            state.added.insert((row.is_static, row.key), seq);
        }
    }

    /// Returns lines that record the rows being sent at the end of the previous run as unanswered.
    fn end_of_run(&self) -> Vec<JournalLine> {
        let cut_short = self.ranges.iter().filter(|(_, state)| !state.sending.is_empty());
        let unanswered = cut_short.map(|((table, range), state)| {
            let unanswered = (0..state.sending.len()).collect();
            let sent = SentRows { unanswered, ..SentRows::default() };
            JournalLine::Added { table: *table, range: *range, sent }
        });
        unanswered.collect()
    }

    /// Returns the sequence numbers of the oldest and newest reads of a row of counters of a range;
    /// with `None`, of any row of a partition. For a row that is not read yet, the oldest is above
    /// all numbers, and the newest below all.
    fn read_at(
        &self,
        place: (usize, usize),
        is_static: Option<bool>,
        key: &[String],
    ) -> (u64, u64) {
        let Some(state) = self.ranges.get(&place) else { return (0, 0) };
        let others = state.seq.filter(|_| state.done);
        if let Some(is_static) = is_static {
            let read = state.added.get(&(is_static, key.to_vec())).copied().or(others);
            return (read.unwrap_or(u64::MAX), read.unwrap_or_default());
        }
        let of = |of_static: bool| {
            let all = state.added.range((of_static, key.to_vec())..);
            all.take_while(move |(row, _)| row.0 == of_static && row.1.starts_with(key))
        };
        let all = || of(false).chain(of(true)).map(|(_, seq)| *seq).chain(others);
        (all().min().unwrap_or(u64::MAX), all().max().unwrap_or_default())
    }
}

/// Checks a line of a resumed journal.
fn check_line(number: usize, line: &JournalLine, head: &JournalHead) -> Result<(), String> {
    match line {
        JournalLine::Head(of) if number == 0 && of == head => Ok(()),
        JournalLine::Head(_) => {
            Err("it is of another store, cluster, choice of tables or condition".to_owned())
        }
        _ if number == 0 => Err("it does not begin as one".to_owned()),
        _ => Ok(()),
    }
}

/// Journal of a running migration.
pub struct MigrateJournal {
    env: Arc<dyn Env>,
    file: JournalFile,
    /// The state that results from its lines.
    state: Mutex<JournalState>,
}

impl std::fmt::Debug for MigrateJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MigrateJournal").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl MigrateJournal {
    /// Creates a journal, or with `resume` continues the existing one.
    ///
    /// # Errors
    /// A journal that exists without `resume`; with `resume`, one that is missing, of another
    /// migration or unreadable; file errors.
    pub fn open(
        env: &Arc<dyn Env>,
        path: &Path,
        head: &JournalHead,
        resume: bool,
    ) -> Done<MigrateJournal> {
        let mut state = JournalState::default();
        let line = JournalLine::Head(head.clone());
        let file = JournalFile::open(env, path, &line, resume, |number, line| {
            check_line(number, &line, head)?;
            state.take(line);
            Ok(())
        })?;
        let cut_short = state.end_of_run();
        let journal = MigrateJournal { env: env.clone(), file, state: Mutex::new(state) };
        cut_short.into_iter().try_for_each(|line| journal.add(line, true))?;
        Ok(journal)
    }

    /// Checks the conditions of [`open`](MigrateJournal::open) without any change.
    ///
    /// # Errors
    /// As [`open`](MigrateJournal::open).
    pub fn check(env: &Arc<dyn Env>, path: &Path, head: &JournalHead, resume: bool) -> Done {
        let line = JournalLine::Head(head.clone());
        let take = |number, line| check_line(number, &line, head);
        JournalFile::check(env, path, &line, resume, take)
    }

    /// Records that the migration is complete.
    ///
    /// # Errors
    /// File errors.
    pub fn complete(&self) -> Done {
        self.file.complete()
    }

    fn add(&self, line: JournalLine, durable: bool) -> Done {
        self.file.add(&line, durable)?;
        self.state.lock().take(line);
        Ok(())
    }

    /// Returns the state of a range.
    pub fn range(&self, table: usize, range: usize) -> RangeState {
        self.state.lock().ranges.get(&(table, range)).cloned().unwrap_or_default()
    }

    /// Returns the ranges with unanswered rows of counters.
    pub fn doubtful(&self) -> Vec<(usize, usize)> {
        let state = self.state.lock();
        let all = state.ranges.iter().filter(|(_, range)| !range.doubtful.is_empty());
        all.map(|(place, _)| *place).collect()
    }

    /// Returns the rows of counters whose state cannot be determined, each with its table.
    pub fn unknown(&self) -> Vec<(usize, AddedRow)> {
        self.state.lock().unknown.clone()
    }

    /// Returns the refused rows of counters of followed changes, which are not sent again, each
    /// with its table.
    pub fn missing(&self) -> Vec<(usize, AddedRow)> {
        self.state.lock().missing.clone()
    }

    /// Returns the sequence numbers of the oldest and newest reads of a row of counters; without a
    /// static flag, of any row of a partition. For rows that are not read yet, the oldest is above
    /// all numbers.
    pub(crate) fn read_at(
        &self,
        table: usize,
        range: usize,
        is_static: Option<bool>,
        key: &[String],
    ) -> (u64, u64) {
        self.state.lock().read_at((table, range), is_static, key)
    }

    /// Reports whether a followed row of counters has arrived as of a sequence number, or its state
    /// is unknown.
    pub(crate) fn has_followed(&self, table: usize, row: &CounterKey, seq: u64) -> bool {
        let state = self.state.lock();
        let of_table = state.ranges.get(&(table, FOLLOWED));
        of_table.and_then(|range| range.added.get(row)).is_some_and(|there| *there >= seq)
    }

    /// Reports whether all of the `ranges` ranges of a table were read at this sequence number or
    /// later.
    pub(crate) fn was_read(&self, table: usize, ranges: usize, seq: u64) -> bool {
        let state = self.state.lock();
        let of_table = state.ranges.range((table, 0)..(table, ranges));
        of_table.filter(|(_, range)| range.seq.is_some_and(|read| read >= seq)).count() == ranges
    }

    /// Returns the sequence number from which on changes are missing at the target; `None` before
    /// the first read.
    pub fn follows_from(&self) -> Option<u64> {
        let state = self.state.lock();
        let first = state.ranges.values().filter_map(|range| range.seq).min();
        state.followed.or(first)
    }

    /// Returns the sequence number of the oldest read.
    pub fn oldest(&self) -> Option<u64> {
        self.state.lock().ranges.values().filter_map(|range| range.seq).min()
    }

    /// Returns the maximum number of times that any range of a table was begun.
    pub fn attempts(&self, table: usize) -> u32 {
        let state = self.state.lock();
        let of_table = state.ranges.iter().filter(|(place, _)| place.0 == table);
        of_table.map(|(_, range)| range.begun).max().unwrap_or_default()
    }

    /// Records that a range is about to be sent.
    ///
    /// # Errors
    /// File errors, as for all writes of the journal.
    pub fn begun(&self, table: usize, range: usize, seq: u64) -> Done {
        self.add(JournalLine::Begun { table, range, seq }, true)
    }

    /// Records that all of a range has arrived.
    ///
    /// # Errors
    /// File errors.
    pub fn done(&self, table: usize, range: usize, seq: u64) -> Done {
        self.add(JournalLine::Done { table, range, seq }, false)
    }

    /// Records rows of counters that are about to be sent.
    ///
    /// # Errors
    /// File errors.
    pub fn adding(&self, table: usize, range: usize, seq: u64, rows: &[AddedRow]) -> Done {
        let (at, rows) = (self.env.wall_micros(), rows.to_vec());
        self.add(JournalLine::Adding { table, range, seq, at, rows }, true)
    }

    /// Records the results of these rows.
    ///
    /// # Errors
    /// File errors.
    pub fn added(&self, table: usize, range: usize, sent: SentRows) -> Done {
        self.add(JournalLine::Added { table, range, sent }, false)
    }

    /// Records that a counter table was truncated at the target; the store was truncated at this
    /// sequence number.
    ///
    /// # Errors
    /// File errors.
    pub fn truncated(&self, table: usize, seq: u64) -> Done {
        self.add(JournalLine::Truncated { table, seq }, true)
    }

    /// Records that all changes of a counter table up to this sequence number have arrived.
    ///
    /// # Errors
    /// File errors.
    pub fn counted(&self, table: usize, seq: u64) -> Done {
        self.add(JournalLine::Counted { table, seq }, false)
    }

    /// Records the lookup result of an unanswered row.
    ///
    /// # Errors
    /// File errors.
    pub fn settled(
        &self,
        table: usize,
        range: usize,
        row: &AddedRow,
        outcome: AddedOutcome,
    ) -> Done {
        self.add(JournalLine::Settled { table, range, row: row.clone(), outcome }, true)
    }

    /// Records that all changes up to this sequence number have arrived.
    ///
    /// # Errors
    /// File errors.
    pub fn followed(&self, seq: u64) -> Done {
        self.add(JournalLine::Followed { seq }, false)
    }

    /// Returns the path of the journal.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests {
    use firn_kv::MemEnv;

    use super::*;

    #[test]
    fn what_was_not_sent_is_neither_there_nor_doubtful() {
        let row = |p: &str| AddedRow { is_static: false, key: vec![p.into()], sums: vec![Some(1)] };
        for range in [0, FOLLOWED] {
            let mut state = JournalState::default();
            let rows = ["a", "b", "c", "d"].map(row).to_vec();
            state.take(JournalLine::Begun { table: 0, range, seq: 5 });
            state.take(JournalLine::Adding { table: 0, range, seq: 7, at: 0, rows });
            let sent = SentRows { refused: vec![1], unanswered: vec![2], unsent: vec![3] };
            assert!(!sent.is_whole());
            let line = JournalLine::Added { table: 0, range, sent };
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<JournalLine>(&text).unwrap(), line);
            state.take(line);
            assert_eq!(state.end_of_run(), []);
            let there = &state.ranges[&(0, range)];
            let added: Vec<&str> = there.added.keys().map(|row| &*row.1[0]).collect();
            let listed =
                |rows: &[(usize, AddedRow)]| rows.iter().map(|r| r.1.clone()).collect::<Vec<_>>();
            let (unknown, missing) = (listed(&state.unknown), listed(&state.missing));
            match range {
                // Rows that may have arrived, and rows that never will, are not sent again.
                FOLLOWED => {
                    assert_eq!(added, ["a", "b", "c"]);
                    assert_eq!((unknown, missing), (vec![row("c")], vec![row("b")]));
                }
                _ => {
                    assert_eq!(added, ["a"]);
                    assert_eq!(there.doubtful, [row("c")]);
                    assert_eq!((unknown, missing), (vec![], vec![]));
                }
            }
        }
    }

    #[test]
    fn what_a_run_was_sending_when_it_ended_is_known_to_all_later_runs() {
        let env: Arc<dyn Env> = Arc::new(MemEnv::new(1));
        let path = Path::new("journal");
        let head = JournalHead {
            firn_migrate: JOURNAL_VERSION,
            store: "s".into(),
            target: vec!["n".into()],
            tables: vec![("k".into(), "t".into(), "i".into())],
            ranges: 1,
            condition: None,
        };
        let open = |resume: bool| MigrateJournal::open(&env, path, &head, resume).unwrap();
        let row = |p: &str| AddedRow { is_static: false, key: vec![p.into()], sums: vec![Some(1)] };
        // Each of two runs ends while it sends.
        for (resume, name) in [(false, "a"), (true, "b")] {
            let journal = open(resume);
            journal.begun(0, FOLLOWED, 5).unwrap();
            journal.adding(0, FOLLOWED, 7, &[row(name)]).unwrap();
        }
        for _ in 0..2 {
            let journal = open(true);
            assert_eq!(journal.unknown(), [(0, row("a")), (0, row("b"))]);
            let is_there = |name: &str| journal.has_followed(0, &(false, vec![name.into()]), 7);
            assert!(is_there("a") && is_there("b") && !is_there("c"));
        }
        // A truncation makes the state known again.
        let journal = open(true);
        journal.adding(0, FOLLOWED, 8, &[row("c")]).unwrap();
        drop(journal);
        open(true).truncated(0, 9).unwrap();
        assert_eq!(open(true).unknown(), []);
    }
}
