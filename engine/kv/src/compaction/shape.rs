//! Plain data: what a tree looks like ([`LsmShape`]) and what a compaction would do to it
//! ([`CompactionJob`]).
//!
//! A tree holds sorted *runs*, newest first, ordered by level ascending, then number descending. A
//! run's tables are sorted and disjoint in user keys. A flush makes a new run at level 0 with a
//! number higher than any before.
//!
//! Invariants, which [`CompactionJob::check`] verifies for every job, so that engine, simulator and
//! tests can refuse a wrong one:
//!
//! 1. *Age*: of one user key, the versions in an earlier run are newer than those in any later run.
//!    So of every two overlapping tables of which one is taken and one is left, the order between
//!    the output and the one left is the order that the two had.
//! 2. *Disjoint*: what stays in the output run does not overlap the key range of the inputs (for a
//!    move: any moved table).
//! 3. *Downwards*: the output run is the oldest input's run or a later one. With (1) it follows
//!    that jobs which were checked one by one may run and finish in any order, and that flushes may
//!    happen meanwhile.
//! 4. *Busy*: no table is taken by two jobs, and no busy table overlaps the job's range in the runs
//!    from the newest input to the output: what another job will put there is not known.
//! 5. A dropped table overlaps nothing older that stays, or deleted keys would come back.
//! 6. A table that a merge adopts overlaps no other input: so the merge falls into parts
//!    ([`CompactionJob::parts`]), whose outputs lie between the adopted tables.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::tables::RunTables;
pub use super::tables::TableShape;

/// The deepest level that a policy uses.
pub const MAX_LEVEL: u8 = 62;

/// The smallest and the largest key of a range, inclusive.
pub type TableKeys = (Arc<[u8]>, Arc<[u8]>);
/// The same, borrowed from tables.
pub(super) type Bounds<'a> = (&'a Arc<[u8]>, &'a Arc<[u8]>);

/// A tree at one moment, as far as a compaction policy needs to know it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LsmShape {
    /// The clock, in microseconds since the epoch.
    pub now_micros: u64,
    /// Size at which a memtable is flushed, in bytes.
    pub memtable_size: u64,
    /// Aim for the size of an output table, in bytes.
    pub table_size: u64,
    /// Longest age of a delete before it is pushed down, in seconds; 0 for no bound.
    pub tombstone_age_secs: u64,
    /// Whether entries may speak for keys of other tables, as a purge hook knows them.
    pub tied: bool,
    /// What readers have paid for there being several runs, since the last merge for their sake, in
    /// entries that a merge could have written instead.
    pub toll: u64,
    /// Bytes that merges for the sake of readers may write now.
    pub for_readers: u64,
    /// The runs, newest first: by level ascending, then number descending. They are shared, so that
    /// a shape of many tables is made and copied for little; [`Arc::make_mut`] changes one.
    pub runs: Vec<Arc<RunShape>>,
    /// The number of the next flushed run; higher than every number in use.
    pub next_run: u64,
}

/// One sorted run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunShape {
    /// Its level, 0 to 255.
    pub level: u8,
    /// Its number; unique within a level, higher is newer.
    pub number: u64,
    /// Its tables, sorted and disjoint in user keys, at least one.
    pub tables: RunTables,
}

impl RunShape {
    /// Total size of its tables in bytes.
    pub fn size(&self) -> u64 {
        self.tables.size()
    }

    /// The tables that may have keys in `lo..=hi`. Two binary searches.
    pub fn overlapping(&self, lo: &[u8], hi: &[u8]) -> Range<usize> {
        let start = self.tables.partition_point(|t| &*t.last < lo);
        let end = self.tables.partition_point(|t| &*t.first <= hi);
        start..end.max(start)
    }

    /// The place of this run in the order of runs.
    #[inline]
    pub fn place(&self) -> ShapePlace {
        ShapePlace { level: self.level, number: self.number }
    }
}

/// Where a run stands. Smaller is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShapePlace {
    /// The level.
    pub level: u8,
    /// The number within the level, higher is newer.
    pub number: u64,
}

impl Ord for ShapePlace {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.level.cmp(&other.level).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for ShapePlace {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Why a job is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompactionReason {
    /// Enough neighbouring runs of similar size.
    SimilarSizes,
    /// Enough runs on one level.
    LevelRuns,
    /// A level is larger than its target.
    LevelSize,
    /// Several runs on a level that should have one.
    OneRun,
    /// More runs than reads should have to look into.
    RunCount,
    /// The newer runs together are too large for what the oldest one holds: most of it may be dead.
    Space,
    /// A window of time has closed.
    WindowClosed,
    /// A delete is older than allowed.
    TombstoneAge,
    /// The tree is larger than allowed.
    TooLarge,
    /// The data are older than allowed.
    TooOld,
    /// Nothing in them is wanted any more.
    Expired,
    /// Readers have paid for the runs what it costs to make them one.
    Readers,
    /// They refer to value files of which too much is garbage.
    Values,
    /// Somebody asked.
    Manual,
}

impl CompactionReason {
    /// A short name for listings, such as `similar-sizes`.
    pub fn name(self) -> &'static str {
        match self {
            CompactionReason::SimilarSizes => "similar-sizes",
            CompactionReason::LevelRuns => "level-runs",
            CompactionReason::LevelSize => "level-size",
            CompactionReason::OneRun => "one-run",
            CompactionReason::RunCount => "run-count",
            CompactionReason::Space => "space",
            CompactionReason::WindowClosed => "window-closed",
            CompactionReason::TombstoneAge => "tombstone-age",
            CompactionReason::TooLarge => "too-large",
            CompactionReason::TooOld => "too-old",
            CompactionReason::Expired => "expired",
            CompactionReason::Readers => "readers",
            CompactionReason::Values => "values",
            CompactionReason::Manual => "manual",
        }
    }
}

/// What is done with the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// They are read and rewritten.
    Merge,
    /// They change level and run and nothing else.
    Move,
    /// They are removed without being read.
    Drop,
}

/// Tables of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionInput {
    /// The run's level.
    pub level: u8,
    /// The run's number.
    pub run: u64,
    /// Ids of the tables, in key order.
    pub tables: Vec<u64>,
}

/// Where outputs end: a table ends when its size reaches `size`, and always before the first key
/// that is not below the next of `at`. All versions of a key stay in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSplits {
    /// Aim for the size of a table in bytes.
    pub size: u64,
    /// Keys at which a new table begins, ascending; empty when only size counts.
    pub at: Vec<Arc<[u8]>>,
}

/// One unit of compaction work.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionJob {
    /// Why.
    pub reason: CompactionReason,
    /// What.
    pub action: Action,
    /// From what, newest run first.
    pub inputs: Vec<CompactionInput>,
    /// Of a merge: those of the inputs that go into the output run as they are, in key order.
    pub adopted: Vec<u64>,
    /// Level of the output run. Of a drop: the level of the oldest input.
    pub output_level: u8,
    /// Number of the output run, which may exist already. Of a drop: the number of the oldest
    /// input's run.
    pub output_run: u64,
    /// How outputs are split.
    pub cuts: OutputSplits,
    /// Urgency; 1 and more wants to run.
    pub score: f64,
}

impl fmt::Display for CompactionJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            Action::Merge => "merge",
            Action::Move => "move",
            Action::Drop => "drop",
        };
        write!(f, "{action} ({} {:.2})", self.reason.name(), self.score)?;
        for (i, input) in self.inputs.iter().enumerate() {
            write!(f, "{} L{}#{}", if i == 0 { "" } else { " +" }, input.level, input.run)?;
            write!(f, "[{}]", ids(&input.tables))?;
        }
        if self.action != Action::Drop {
            write!(f, " -> L{}#{}", self.output_level, self.output_run)?;
        }
        if !self.adopted.is_empty() {
            write!(f, " adopting [{}]", ids(&self.adopted))?;
        }
        Ok(())
    }
}

/// Ids as a list, with `4..9` for a row of more than two.
fn ids(tables: &[u64]) -> String {
    let rows = tables.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let text = rows.map(|row| match row {
        [first, _, .., last] => format!("{first}..{last}"),
        _ => row.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
    });
    text.collect::<Vec<_>>().join(" ")
}

/// The inputs of a job found in a shape: run index, table indexes.
struct FoundTables {
    tables: Vec<(usize, usize)>,
    taken: HashSet<u64>,
}

impl CompactionJob {
    /// Where the outputs go.
    pub fn output(&self) -> ShapePlace {
        ShapePlace { level: self.output_level, number: self.output_run }
    }

    /// Bytes of the inputs.
    pub fn bytes(&self, shape: &LsmShape) -> u64 {
        self.taken(shape).map(|t| t.size).sum()
    }

    /// Bytes that the job reads and writes again: of a merge those of its inputs that are not
    /// adopted, else 0.
    pub fn rewritten(&self, shape: &LsmShape) -> u64 {
        if self.action != Action::Merge {
            return 0;
        }
        let adopted: HashSet<u64> = self.adopted.iter().copied().collect();
        let again = self.taken(shape).filter(|t| !adopted.contains(&t.id));
        again.map(|t| t.size + t.blob_garbage_bytes).sum()
    }

    /// The tables that are its inputs, those that it adopts among them.
    pub fn taken<'a>(&'a self, shape: &'a LsmShape) -> impl Iterator<Item = &'a TableShape> {
        self.inputs.iter().flat_map(|input| {
            let place = ShapePlace { level: input.level, number: input.run };
            let at = shape.runs.partition_point(|r| r.place() < place);
            let run = shape.runs.get(at).filter(|r| r.place() == place);
            let mut wanted = input.tables.iter().peekable();
            let is_wanted = move |t: &&TableShape| wanted.next_if(|id| **id == t.id).is_some();
            run.into_iter().flat_map(|r| &r.tables).filter(is_wanted)
        })
    }

    /// What a merge writes again: a merge for each stretch of keys between the tables that it
    /// adopts, in key order. None has a key that another has. A move or a drop has none.
    pub fn parts(&self, shape: &LsmShape) -> Vec<CompactionJob> {
        let Some(tables) = self.in_key_order(shape) else { return Vec::new() };
        if self.action != Action::Merge {
            return Vec::new();
        }
        if self.adopted.is_empty() {
            return vec![self.clone()];
        }
        let adopted: HashSet<u64> = self.adopted.iter().copied().collect();
        let stretches = tables.split(|&(r, t)| adopted.contains(&shape.runs[r].tables[t].id));
        let stretches = stretches.filter(|stretch| !stretch.is_empty());
        stretches.map(|stretch| self.of_tables(shape, stretch, &adopted)).collect()
    }

    /// Its tables (run index, table index) by their first keys; `None` when one is not in the shape.
    pub(super) fn in_key_order(&self, shape: &LsmShape) -> Option<Vec<(usize, usize)>> {
        let mut tables = self.find(shape).ok()?.tables;
        let first = |&(r, t): &(usize, usize)| &shape.runs[r].tables[t].first;
        tables.sort_by(|a, b| first(a).cmp(first(b)));
        Some(tables)
    }

    /// This job on no more than these of its tables, which come in key order. `adopted` are those
    /// that it adopts.
    pub(super) fn of_tables(
        &self,
        shape: &LsmShape,
        tables: &[(usize, usize)],
        adopted: &HashSet<u64>,
    ) -> CompactionJob {
        let id = |&(r, t): &(usize, usize)| shape.runs[r].tables[t].id;
        let mut inputs: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for at in tables {
            inputs.entry(at.0).or_default().push(id(at));
        }
        let input = |(r, tables): (usize, Vec<u64>)| {
            let ShapePlace { level, number } = shape.runs[r].place();
            CompactionInput { level, run: number, tables }
        };
        let table = |&(r, t): &(usize, usize)| &shape.runs[r].tables[t];
        let first = tables.first().map(|at| &table(at).first);
        let last = tables.iter().map(|at| &table(at).last).max();
        let is_within = |cut: &&Arc<[u8]>| first < Some(*cut) && Some(*cut) <= last;
        CompactionJob {
            reason: self.reason,
            action: self.action,
            inputs: inputs.into_iter().map(input).collect(),
            adopted: tables.iter().map(id).filter(|id| adopted.contains(id)).collect(),
            output_level: self.output_level,
            output_run: self.output_run,
            cuts: OutputSplits {
                size: self.cuts.size,
                at: self.cuts.at.iter().filter(is_within).cloned().collect(),
            },
            score: self.score,
        }
    }

    /// The smallest key range that covers all inputs; `None` when one is not in the shape or there
    /// are none.
    pub fn range(&self, shape: &LsmShape) -> Option<TableKeys> {
        let found = self.find(shape).ok()?;
        key_span(found.tables.iter().map(|&(r, t)| &shape.runs[r].tables[t]))
            .map(|(a, b)| (a.clone(), b.clone()))
    }

    /// Whether nothing older than the inputs, in their key range, stays: then deletes may go.
    pub fn is_bottom(&self, shape: &LsmShape) -> bool {
        let Ok(found) = self.find(shape) else { return false };
        let Some((lo, hi)) = key_span(found.tables.iter().map(|&(r, t)| &shape.runs[r].tables[t]))
        else {
            return false;
        };
        let oldest = found.tables.iter().map(|&(r, _)| r).max().unwrap_or(0);
        shape.runs[oldest + 1..].iter().all(|run| run.overlapping(lo, hi).is_empty())
    }

    fn find(&self, shape: &LsmShape) -> Result<FoundTables, String> {
        let runs: HashMap<ShapePlace, usize> =
            shape.runs.iter().enumerate().map(|(i, r)| (r.place(), i)).collect();
        let mut tables = Vec::new();
        let mut taken = HashSet::new();
        let mut previous = None;
        for input in &self.inputs {
            let place = ShapePlace { level: input.level, number: input.run };
            let Some(&r) = runs.get(&place) else {
                return Err(format!("no run L{}#{}", input.level, input.run));
            };
            if previous.is_some_and(|p| p >= r) {
                return Err(format!(
                    "inputs are not newest first at L{}#{}",
                    input.level, input.run
                ));
            }
            previous = Some(r);
            if input.tables.is_empty() {
                return Err(format!("no table is taken from L{}#{}", input.level, input.run));
            }
            // Ids come in key order, so each is sought behind the one before, and all in one walk.
            let all = &shape.runs[r].tables;
            let mut at = 0;
            for id in &input.tables {
                let behind = all[at..].iter().position(|t| t.id == *id).map(|i| at + i);
                let Some(t) = behind.or_else(|| all[..at].iter().position(|t| t.id == *id)) else {
                    return Err(format!("no table {id} in L{}#{}", input.level, input.run));
                };
                at = t + 1;
                if !taken.insert(*id) {
                    return Err(format!("table {id} is taken twice"));
                }
                tables.push((r, t));
            }
        }
        if tables.is_empty() {
            Err("no inputs".to_owned())
        } else {
            Ok(FoundTables { tables, taken })
        }
    }

    /// Whether this job may start on this shape: the invariants above.
    ///
    /// # Errors
    /// A sentence that names the first thing found wrong.
    pub fn check(&self, shape: &LsmShape) -> Result<(), String> {
        self.check_with(shape, &|r, t| shape.runs[r].tables[t].busy)
    }

    /// [`check`](CompactionJob::check) with another idea of which tables (run index, table index)
    /// are busy.
    pub(super) fn check_with(
        &self,
        shape: &LsmShape,
        busy: &dyn Fn(usize, usize) -> bool,
    ) -> Result<(), String> {
        let found = self.find(shape)?;
        if let Some(&(r, t)) = found.tables.iter().find(|&&(r, t)| busy(r, t)) {
            return Err(format!("table {} is busy", shape.runs[r].tables[t].id));
        }
        let newest = found.tables[0].0;
        let oldest = found.tables[found.tables.len() - 1].0;
        if self.output() < shape.runs[oldest].place() {
            return Err(format!(
                "the output L{}#{} is newer than the oldest input",
                self.output_level, self.output_run
            ));
        }
        if self.action == Action::Drop {
            return check_drop(shape, &found);
        }
        self.check_adopted(shape, &found)?;
        self.check_age(shape, &found)?;
        self.check_disjoint(shape, &found)?;
        let Some((lo, hi)) = key_span(found.tables.iter().map(|&(r, t)| &shape.runs[r].tables[t]))
        else {
            return Ok(());
        };
        for (r, run) in shape.runs.iter().enumerate().skip(newest) {
            if run.place() > self.output() {
                break;
            }
            for t in run.overlapping(lo, hi) {
                if busy(r, t) {
                    return Err(format!(
                        "table {} is busy in the range of the job",
                        run.tables[t].id
                    ));
                }
            }
        }
        Ok(())
    }

    /// Invariant 6.
    fn check_adopted(&self, shape: &LsmShape, found: &FoundTables) -> Result<(), String> {
        let adopted: HashSet<u64> = self.adopted.iter().copied().collect();
        if adopted.is_empty() {
            return Ok(());
        }
        if let Some(id) = self.adopted.iter().find(|id| !found.taken.contains(id)) {
            return Err(format!("table {id} is to be adopted and is no input"));
        }
        if self.action != Action::Merge || adopted.len() == found.taken.len() {
            return Err("only what else is merged can adopt tables".to_owned());
        }
        let mut tables: Vec<&TableShape> =
            found.tables.iter().map(|&(r, t)| &shape.runs[r].tables[t]).collect();
        tables.sort_by(|a, b| a.first.cmp(&b.first));
        let mut reaching: Option<&TableShape> = None;
        for t in tables {
            let one = reaching.filter(|r| t.first <= r.last);
            if let Some(r) = one.filter(|r| adopted.contains(&r.id) || adopted.contains(&t.id)) {
                return Err(format!(
                    "tables {} and {} overlap and one of them is to be adopted",
                    r.id, t.id
                ));
            }
            reaching = reaching.filter(|r| r.last >= t.last).or(Some(t));
        }
        Ok(())
    }

    /// Invariant 1. What is newer than an input and stays is newer than the output too, because the
    /// output is not newer than the oldest input; except where it stands between inputs and the
    /// output.
    fn check_age(&self, shape: &LsmShape, found: &FoundTables) -> Result<(), String> {
        for &(from, t) in &found.tables {
            let taken = &shape.runs[from].tables[t];
            for run in &shape.runs[from + 1..] {
                if run.place() > self.output() {
                    break;
                }
                for other in &run.tables[run.overlapping(&taken.first, &taken.last)] {
                    if !found.taken.contains(&other.id) {
                        return Err(format!(
                            "table {} would sink below table {}, which is older",
                            taken.id, other.id
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Invariant 2.
    fn check_disjoint(&self, shape: &LsmShape, found: &FoundTables) -> Result<(), String> {
        let tables: Vec<&TableShape> =
            found.tables.iter().map(|&(r, t)| &shape.runs[r].tables[t]).collect();
        let stays = shape.runs.iter().find(|r| r.place() == self.output());
        let clash = |lo: &[u8], hi: &[u8]| {
            let run = stays?;
            run.tables[run.overlapping(lo, hi)]
                .iter()
                .find(|t| !found.taken.contains(&t.id))
                .map(|t| t.id)
        };
        if self.action == Action::Merge {
            let Some((lo, hi)) = key_span(tables.into_iter()) else { return Ok(()) };
            return clash(lo, hi).map_or(Ok(()), |id| {
                Err(format!("table {id} of the output run lies in the range of the job"))
            });
        }
        if let Some((a, b)) = first_overlap(&tables) {
            return Err(format!("tables {a} and {b} overlap and cannot move into one run"));
        }
        for t in tables {
            if let Some(id) = clash(&t.first, &t.last) {
                return Err(format!("table {} would overlap table {id} of the output run", t.id));
            }
        }
        Ok(())
    }
}

/// Invariant 5.
fn check_drop(shape: &LsmShape, found: &FoundTables) -> Result<(), String> {
    for &(from, t) in &found.tables {
        let gone = &shape.runs[from].tables[t];
        for run in &shape.runs[from + 1..] {
            let stays = run.tables[run.overlapping(&gone.first, &gone.last)]
                .iter()
                .find(|o| !found.taken.contains(&o.id));
            if let Some(other) = stays {
                return Err(format!(
                    "table {} cannot go before table {}, which is older",
                    gone.id, other.id
                ));
            }
        }
    }
    Ok(())
}

/// Ids of two overlapping tables, if any two do.
pub(super) fn first_overlap(tables: &[&TableShape]) -> Option<(u64, u64)> {
    let mut sorted = tables.to_vec();
    sorted.sort_by(|a, b| a.first.cmp(&b.first).then(a.id.cmp(&b.id)));
    sorted.windows(2).find(|w| w[1].first <= w[0].last).map(|w| (w[0].id, w[1].id))
}

/// The smallest range that covers all tables.
pub(super) fn key_span<'a>(tables: impl Iterator<Item = &'a TableShape>) -> Option<Bounds<'a>> {
    tables.fold(None, |range, t| match range {
        None => Some((&t.first, &t.last)),
        Some((lo, hi)) => Some((lo.min(&t.first), hi.max(&t.last))),
    })
}

impl LsmShape {
    /// All tables, newest run first.
    pub fn tables(&self) -> impl Iterator<Item = &TableShape> {
        self.runs.iter().flat_map(|r| r.tables.iter())
    }

    /// Total size of the tables in bytes.
    pub fn size(&self) -> u64 {
        self.runs.iter().map(|r| r.size()).sum()
    }

    /// Changes the tables that are `meant`. Runs that have none stay shared.
    pub fn change(
        &mut self,
        meant: impl Fn(&TableShape) -> bool,
        mut f: impl FnMut(&mut TableShape),
    ) {
        for run in self.runs.iter_mut().filter(|r| r.tables.iter().any(&meant)) {
            Arc::make_mut(run).tables.iter_mut().filter(|t| meant(t)).for_each(&mut f);
        }
    }

    /// Marks the inputs of a job that starts, or (with `false`) of one that was given up.
    pub fn set_busy(&mut self, job: &CompactionJob, busy: bool) {
        let ids: HashSet<u64> = job.inputs.iter().flat_map(|i| i.tables.iter().copied()).collect();
        self.change(|t| ids.contains(&t.id) && t.busy != busy, |t| t.busy = busy);
    }

    /// Whether this is a legal shape: runs in order, tables sorted and disjoint, ids unique.
    ///
    /// # Errors
    /// A sentence that names the first thing found wrong.
    pub fn check(&self) -> Result<(), String> {
        if let Some(w) = self.runs.windows(2).find(|w| w[0].place() >= w[1].place()) {
            return Err(format!(
                "run L{}#{} is not newer than L{}#{}",
                w[0].level, w[0].number, w[1].level, w[1].number
            ));
        }
        let mut ids = HashSet::new();
        for run in &self.runs {
            if run.tables.is_empty() {
                return Err(format!("run L{}#{} is empty", run.level, run.number));
            }
            if run.number >= self.next_run {
                return Err(format!(
                    "run L{}#{} is not below the next number {}",
                    run.level, run.number, self.next_run
                ));
            }
            if let Some(w) = run.tables.windows(2).find(|w| w[1].first <= w[0].last) {
                return Err(format!(
                    "tables {} and {} overlap in run L{}#{}",
                    w[0].id, w[1].id, run.level, run.number
                ));
            }
            for t in &run.tables {
                if t.first > t.last {
                    return Err(format!("table {} ends before it begins", t.id));
                }
                if !ids.insert(t.id) {
                    return Err(format!("table {} is there twice", t.id));
                }
            }
        }
        Ok(())
    }
}

/// Adds a flushed run of these tables (sorted, disjoint, at least one) and returns its number.
pub fn flush(shape: &mut LsmShape, tables: Vec<TableShape>) -> u64 {
    let number = shape.next_run;
    shape.next_run += 1;
    shape.runs.insert(0, Arc::new(RunShape { level: 0, number, tables: tables.into() }));
    number
}

/// Does to the shape what the job does to the tree. `outputs` are the tables that a merge wrote,
/// disjoint (none when everything vanished); a move or a drop has none.
///
/// # Errors
/// A sentence, and the shape unchanged, when an input is not there, or when the result would not be
/// a legal shape.
pub fn apply(
    shape: &mut LsmShape,
    job: &CompactionJob,
    outputs: Vec<TableShape>,
) -> Result<(), String> {
    let found = job.find(shape)?;
    let mut after = shape.clone();
    let mut out = outputs;
    for run in &mut after.runs {
        let stays = |t: &&TableShape| match job.action {
            Action::Merge => job.adopted.contains(&t.id),
            Action::Move => found.taken.contains(&t.id),
            Action::Drop => false,
        };
        out.extend(run.tables.iter().filter(stays).cloned());
        if run.tables.iter().any(|t| found.taken.contains(&t.id)) {
            Arc::make_mut(run).tables.retain(|t| !found.taken.contains(&t.id));
        }
    }
    if job.action != Action::Drop && !out.is_empty() {
        out.iter_mut().for_each(|t| t.busy = false);
        let place = job.output();
        let at = after.runs.partition_point(|r| r.place() < place);
        if after.runs.get(at).is_none_or(|r| r.place() != place) {
            let run = RunShape { level: place.level, number: place.number, ..RunShape::default() };
            after.runs.insert(at, Arc::new(run));
        }
        let tables = &mut Arc::make_mut(&mut after.runs[at]).tables;
        tables.append(&mut out);
        tables.sort_by(|a, b| a.first.cmp(&b.first).then(a.id.cmp(&b.id)));
    }
    after.runs.retain(|r| !r.tables.is_empty());
    after.check()?;
    *shape = after;
    Ok(())
}

/// The tables that a merge would write if no version shadowed another: as many bytes as came in,
/// cut as the job says, keys spread evenly. Deletes vanish when nothing older stays beneath. Ids
/// are taken from `next_id` on.
pub fn estimate(shape: &LsmShape, job: &CompactionJob, next_id: &mut u64) -> Vec<TableShape> {
    job.parts(shape).iter().flat_map(|part| estimate_part(shape, part, next_id)).collect()
}

fn estimate_part(shape: &LsmShape, job: &CompactionJob, next_id: &mut u64) -> Vec<TableShape> {
    let Ok(found) = job.find(shape) else { return Vec::new() };
    let inputs: Vec<&TableShape> =
        found.tables.iter().map(|&(r, t)| &shape.runs[r].tables[t]).collect();
    let Some((lo, hi)) = key_span(inputs.iter().copied()) else { return Vec::new() };
    let bytes: u64 = inputs.iter().map(|t| t.size).sum();
    let mut firsts: Vec<Arc<[u8]>> = vec![lo.clone()];
    if job.cuts.at.is_empty() {
        firsts.extend(split(lo, hi, bytes.div_ceil(job.cuts.size.max(1)).min(100_000) as usize));
    } else {
        firsts.extend(job.cuts.at.iter().filter(|k| *k > lo && *k <= hi).cloned());
    }
    let bottom = job.is_bottom(shape);
    let n = firsts.len() as u64;
    let sum = |f: fn(&TableShape) -> u64| inputs.iter().map(|t| f(t)).sum::<u64>();
    let (deletes, ranges) =
        if bottom { (0, 0) } else { (sum(|t| t.deletes), sum(|t| t.range_deletes)) };
    let entries = if bottom {
        sum(|t| t.entries).saturating_sub(sum(|t| t.deletes))
    } else {
        sum(|t| t.entries)
    };
    let share = |total: u64, i: u64| total / n + u64::from(i < total % n);
    let gone = inputs.iter().map(|t| t.gone_micros).reduce(|a, b| Some(a?.max(b?))).flatten();
    (0..n)
        .map(|i| {
            let first = firsts[i as usize].clone();
            let last = firsts.get(i as usize + 1).map_or(hi.clone(), |next| before(next, &first));
            *next_id += 1;
            TableShape {
                id: *next_id - 1,
                size: share(bytes, i),
                blob_bytes: 0,
                entries: share(entries, i),
                deletes: share(deletes, i),
                range_deletes: share(ranges, i),
                first,
                last,
                min_seq: inputs.iter().map(|t| t.min_seq).min().unwrap_or(0),
                max_seq: inputs.iter().map(|t| t.max_seq).max().unwrap_or(0),
                created_micros: shape.now_micros,
                newest_micros: inputs.iter().map(|t| t.newest_micros).max().unwrap_or(0),
                oldest_tombstone_micros: inputs
                    .iter()
                    .filter_map(|t| t.oldest_tombstone_micros)
                    .min()
                    .filter(|_| !bottom),
                gone_micros: gone,
                blob_garbage_bytes: 0,
                held_back: false,
                busy: false,
            }
        })
        .collect()
}

/// A key below `next` and not below `first`, which is below `next`.
fn before(next: &[u8], first: &Arc<[u8]>) -> Arc<[u8]> {
    let mut key = next.to_vec();
    match key.pop() {
        Some(b) if b > 0 => key.push(b - 1),
        _ => {}
    }
    if key[..] < first[..] || key[..] >= *next { first.clone() } else { key.into() }
}

/// At most `n - 1` keys that split `first..=last` into `n` parts of equal width, counting the 8
/// bytes after the common prefix as a number. Ascending, all above `first` and not above `last`;
/// short where that does not move them by more than an eighth of a part.
pub fn split(first: &[u8], last: &[u8], n: usize) -> Vec<Arc<[u8]>> {
    let prefix = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        (0..8).fold(0u64, |n, i| n << 8 | u64::from(key.get(prefix + i).copied().unwrap_or(0)))
    };
    let (lo, hi) = (number(first), number(last));
    let mut keys: Vec<Arc<[u8]>> = Vec::new();
    if n < 2 || lo >= hi {
        return keys;
    }
    let width = u128::from(hi - lo);
    let slack = (width / n as u128 / 8) as u64;
    let mut previous = lo;
    for i in 1..n as u128 {
        let exact = lo + (width * i / n as u128) as u64;
        let short = (1..=8u32)
            .map(|b| (b, exact & (u64::MAX << (64 - 8 * b))))
            .find(|&(_, v)| v > previous && exact - v <= slack);
        let Some((bytes, v)) = short else { continue };
        let mut key = first[..prefix].to_vec();
        key.extend_from_slice(&v.to_be_bytes()[..bytes as usize]);
        previous = v;
        if key[..] > *first && key[..] <= *last {
            keys.push(key.into());
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_split_is_ascending_and_inside(a: Vec<u8>, b: Vec<u8>, n in 0usize..200) {
            let (first, last) = if a <= b { (a, b) } else { (b, a) };
            let keys = split(&first, &last, n);
            prop_assert!(keys.len() < n.max(1));
            prop_assert!(keys.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(keys.iter().all(|k| k[..] > first[..] && k[..] <= last[..]));
        }
    }

    #[test]
    fn a_split_is_even_behind_the_common_prefix() {
        let keys = split(b"user/\x00", b"user/\xff\xff", 4);
        let tails: Vec<u8> = keys.iter().map(|k| k[5]).collect();
        assert_eq!(tails, [0x3f, 0x7f, 0xbf]);
        assert!(split(b"a", b"a", 4).is_empty() && split(b"a", b"b", 1).is_empty());
    }
}
