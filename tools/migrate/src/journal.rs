//! The journal of a migration: a file that says what is done, so that one that was interrupted goes
//! on.
//!
//! Invariants:
//! - A line is a record of JSON; the last one may have been cut off, and counts for nothing then.
//! - That a range was begun is on the device before anything of it is sent, so whoever goes on knows
//!   what may have been sent before.
//! - Rows of counters are on the device before they are sent: what was sent and not answered is
//!   known by its key and its values.
//! - Rows that a run was sending when it ended are in the journal as not answered before the next run
//!   does anything: its own lines would hide them from the one after it.
//! - What followed of a table of counters is there by rows from `Adding` on, and as a whole by
//!   `Counted`: in between, whoever goes on sends those rows only of which nothing is said.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use firn_kv::Env;
use firn_tools::output::Done;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::journal_file::JournalFile;

/// What a migration is of. One that goes on must be the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHead {
    /// The version of the journal.
    pub firn_migrate: u32,
    /// The store that is read, by its id.
    pub store: String,
    /// The nodes that the conversation begins with.
    pub target: Vec<String>,
    /// The tables, each a keyspace, a name and an id.
    pub tables: Vec<(String, String, String)>,
    /// How many ranges of tokens each table has.
    pub ranges: u16,
    /// What of the tables is carried.
    pub condition: Option<String>,
}

/// The version of journals that this code writes.
pub const JOURNAL_VERSION: u32 = 1;

/// The number that stands for what is written to a table meanwhile, in place of a range's.
pub const FOLLOWED: usize = usize::MAX;

/// A row of counters that is added to the target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AddedRow {
    /// Whether it is the static row.
    pub is_static: bool,
    /// The values of its key in hexadecimal: those of the partition, then those of the row.
    pub key: Vec<String>,
    /// What is added to each counter.
    pub sums: Vec<Option<i64>>,
}

/// A line of the journal. Tables and ranges are numbers in the head's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JournalLine {
    Head(JournalHead),
    /// A range is begun, as the state of this sequence number has it.
    Begun {
        table: usize,
        range: usize,
        seq: u64,
    },
    /// All of a range is there; what this run has added is as of this sequence number.
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
    /// The last `Adding` of the range was sent: of its rows, by their places in it, some were
    /// refused, some were not answered, and some were not sent any more.
    Added {
        table: usize,
        range: usize,
        #[serde(flatten)]
        sent: SentRows,
    },
    /// A row that was sent and not answered turned out to be there, or not, or neither.
    Settled {
        table: usize,
        range: usize,
        row: AddedRow,
        outcome: AddedOutcome,
    },
    /// A table of counters was truncated at the target, too, as the store was at this sequence
    /// number.
    Truncated {
        table: usize,
        seq: u64,
    },
    /// All changes of a table of counters up to this sequence number are there.
    Counted {
        table: usize,
        seq: u64,
    },
    /// All changes up to this sequence number are there.
    Followed {
        seq: u64,
    },
    /// All is done, unless other lines follow.
    Complete {},
}

/// What became of rows of counters that were to be sent together, by their places; the others are
/// there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentRows {
    /// They are not there: the target does not take them.
    pub refused: Vec<usize>,
    /// They may be there.
    pub unanswered: Vec<usize>,
    /// They are not there: the target was not to be had.
    pub unsent: Vec<usize>,
}

impl SentRows {
    /// Whether all are there.
    pub fn is_whole(&self) -> bool {
        self.refused.is_empty() && self.unanswered.is_empty() && self.unsent.is_empty()
    }
}

/// Whose counters: whether those of the static row, and the values of the key in hexadecimal.
pub type CounterKey = (bool, Vec<String>);

/// What is known of a row of counters that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddedOutcome {
    /// It is there.
    There,
    /// It is not there, and is sent again.
    Missing,
    /// Nobody can know.
    Unknown,
}

/// What a journal says of a range.
#[derive(Clone, Debug, Default)]
pub struct RangeState {
    /// How often it was begun.
    pub begun: u32,
    /// The sequence number of the state that was read first.
    pub seq: Option<u64>,
    /// Whether all of it is there.
    pub done: bool,
    /// Keys of rows of counters that are there, or of which nobody can know, with the sequence
    /// number of the state that they are of. Of what followed: those of the round that was
    /// interrupted.
    pub added: BTreeMap<CounterKey, u64>,
    /// Rows of counters that are being sent.
    sending: Vec<AddedRow>,
    /// Rows of counters that were sent and not answered.
    pub doubtful: Vec<AddedRow>,
    /// When the last of them was sent, in microseconds since 1970.
    pub sent_at: u64,
    /// The sequence number of the state that they are of.
    pub sent_seq: u64,
    /// Of what followed: all counters up to this sequence number are there.
    pub counted: u64,
}

/// The state of a migration.
#[derive(Debug, Default)]
struct JournalState {
    /// By tables and ranges.
    ranges: BTreeMap<(usize, usize), RangeState>,
    /// The changes that are there.
    followed: Option<u64>,
    /// Rows of counters of which nobody can know, by tables.
    unknown: Vec<(usize, AddedRow)>,
    /// Rows of counters that followed and were refused, by tables.
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
                // Where all is as of one state, rows need not be known one by one.
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
                        // All of it, which is nothing, is there as of then; the rest follows.
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

    /// Rows that were to be sent were, or were not.
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
                // What followed is more than what was there, so nobody finds out about it later.
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

    /// What was being sent when the run before ended was not answered: the lines that say so.
    fn end_of_run(&self) -> Vec<JournalLine> {
        let cut_short = self.ranges.iter().filter(|(_, state)| !state.sending.is_empty());
        let unanswered = cut_short.map(|((table, range), state)| {
            let unanswered = (0..state.sending.len()).collect();
            let sent = SentRows { unanswered, ..SentRows::default() };
            JournalLine::Added { table: *table, range: *range, sent }
        });
        unanswered.collect()
    }

    /// The sequence numbers of the oldest and of the newest state that a row of counters of a range
    /// was read at, or with `None` any of a partition. What is still to be read is newer than
    /// everything as the oldest, and older than everything as the newest.
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

/// What is wrong with a line of a journal that goes on.
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

/// The journal of a migration that runs.
pub struct MigrateJournal {
    env: Arc<dyn Env>,
    file: JournalFile,
    /// What its lines say together.
    state: Mutex<JournalState>,
}

impl std::fmt::Debug for MigrateJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MigrateJournal").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl MigrateJournal {
    /// Begins a journal, or goes on with the one that is there.
    ///
    /// # Errors
    /// One that is there and was not asked for, one that is asked for and is missing, is of another
    /// migration or can't be read; those of files.
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

    /// Reports what [`open`](MigrateJournal::open) would refuse, and changes nothing.
    ///
    /// # Errors
    /// As [`open`](MigrateJournal::open).
    pub fn check(env: &Arc<dyn Env>, path: &Path, head: &JournalHead, resume: bool) -> Done {
        let line = JournalLine::Head(head.clone());
        let take = |number, line| check_line(number, &line, head);
        JournalFile::check(env, path, &line, resume, take)
    }

    /// Says that all is done.
    ///
    /// # Errors
    /// Those of files.
    pub fn complete(&self) -> Done {
        self.file.complete()
    }

    fn add(&self, line: JournalLine, durable: bool) -> Done {
        self.file.add(&line, durable)?;
        self.state.lock().take(line);
        Ok(())
    }

    /// What it says of a range.
    pub fn range(&self, table: usize, range: usize) -> RangeState {
        self.state.lock().ranges.get(&(table, range)).cloned().unwrap_or_default()
    }

    /// Ranges with rows of counters that were not answered.
    pub fn doubtful(&self) -> Vec<(usize, usize)> {
        let state = self.state.lock();
        let all = state.ranges.iter().filter(|(_, range)| !range.doubtful.is_empty());
        all.map(|(place, _)| *place).collect()
    }

    /// Rows of counters of which nobody can know whether they are there, each with its table.
    pub fn unknown(&self) -> Vec<(usize, AddedRow)> {
        self.state.lock().unknown.clone()
    }

    /// Rows of counters that followed, were refused, and are not sent again, each with its table.
    pub fn missing(&self) -> Vec<(usize, AddedRow)> {
        self.state.lock().missing.clone()
    }

    /// The sequence numbers of the oldest and of the newest state that a row of counters was read
    /// at, or any of a partition where it is not said whether it is the static one. Of rows that are
    /// still to be read the oldest is newer than everything.
    pub(crate) fn read_at(
        &self,
        table: usize,
        range: usize,
        is_static: Option<bool>,
        key: &[String],
    ) -> (u64, u64) {
        self.state.lock().read_at((table, range), is_static, key)
    }

    /// Whether a row of counters that followed is there as of a sequence number, or nobody can know.
    pub(crate) fn has_followed(&self, table: usize, row: &CounterKey, seq: u64) -> bool {
        let state = self.state.lock();
        let of_table = state.ranges.get(&(table, FOLLOWED));
        of_table.and_then(|range| range.added.get(row)).is_some_and(|there| *there >= seq)
    }

    /// Whether all ranges of a table, of which there are so many, were read at a sequence number or
    /// later.
    pub(crate) fn was_read(&self, table: usize, ranges: usize, seq: u64) -> bool {
        let state = self.state.lock();
        let of_table = state.ranges.range((table, 0)..(table, ranges));
        of_table.filter(|(_, range)| range.seq.is_some_and(|read| read >= seq)).count() == ranges
    }

    /// The sequence number from which on changes are missing at the target; `None` where nothing was
    /// read yet.
    pub fn follows_from(&self) -> Option<u64> {
        let state = self.state.lock();
        let first = state.ranges.values().filter_map(|range| range.seq).min();
        state.followed.or(first)
    }

    /// The sequence number of the oldest state that was read.
    pub fn oldest(&self) -> Option<u64> {
        self.state.lock().ranges.values().filter_map(|range| range.seq).min()
    }

    /// How often anything of a table was begun, at most.
    pub fn attempts(&self, table: usize) -> u32 {
        let state = self.state.lock();
        let of_table = state.ranges.iter().filter(|(place, _)| place.0 == table);
        of_table.map(|(_, range)| range.begun).max().unwrap_or_default()
    }

    /// A range is about to be sent.
    ///
    /// # Errors
    /// Those of files, as of all that is written here.
    pub fn begun(&self, table: usize, range: usize, seq: u64) -> Done {
        self.add(JournalLine::Begun { table, range, seq }, true)
    }

    /// All of a range is there.
    ///
    /// # Errors
    /// Those of files.
    pub fn done(&self, table: usize, range: usize, seq: u64) -> Done {
        self.add(JournalLine::Done { table, range, seq }, false)
    }

    /// These rows of counters are about to be sent.
    ///
    /// # Errors
    /// Those of files.
    pub fn adding(&self, table: usize, range: usize, seq: u64, rows: &[AddedRow]) -> Done {
        let (at, rows) = (self.env.wall_micros(), rows.to_vec());
        self.add(JournalLine::Adding { table, range, seq, at, rows }, true)
    }

    /// They were sent, or were to be.
    ///
    /// # Errors
    /// Those of files.
    pub fn added(&self, table: usize, range: usize, sent: SentRows) -> Done {
        self.add(JournalLine::Added { table, range, sent }, false)
    }

    /// A table of counters was truncated at the target, as the store was at this sequence number.
    ///
    /// # Errors
    /// Those of files.
    pub fn truncated(&self, table: usize, seq: u64) -> Done {
        self.add(JournalLine::Truncated { table, seq }, true)
    }

    /// All changes of a table of counters up to this sequence number are there.
    ///
    /// # Errors
    /// Those of files.
    pub fn counted(&self, table: usize, seq: u64) -> Done {
        self.add(JournalLine::Counted { table, seq }, false)
    }

    /// It was found out what became of a row that was not answered.
    ///
    /// # Errors
    /// Those of files.
    pub fn settled(
        &self,
        table: usize,
        range: usize,
        row: &AddedRow,
        outcome: AddedOutcome,
    ) -> Done {
        self.add(JournalLine::Settled { table, range, row: row.clone(), outcome }, true)
    }

    /// All changes up to this sequence number are there.
    ///
    /// # Errors
    /// Those of files.
    pub fn followed(&self, seq: u64) -> Done {
        self.add(JournalLine::Followed { seq }, false)
    }

    /// Where it is.
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
            let told =
                |rows: &[(usize, AddedRow)]| rows.iter().map(|r| r.1.clone()).collect::<Vec<_>>();
            let (unknown, missing) = (told(&state.unknown), told(&state.missing));
            match range {
                // What may be there, and what never will be, is not sent again.
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
        // What is truncated is known again.
        let journal = open(true);
        journal.adding(0, FOLLOWED, 8, &[row("c")]).unwrap();
        drop(journal);
        open(true).truncated(0, 9).unwrap();
        assert_eq!(open(true).unknown(), []);
    }
}
