//! Compaction jobs: plain data, their checks, and their effect on a shape.
//!
//! Invariants of a job. [`CompactionJob::check`] verifies them, so that the engine and tests can
//! reject an invalid job:
//!
//! 1. *Age*: For one user key, versions in an earlier run are newer than those in any later run.
//!    Consider two overlapping tables of which only one is an input. The output keeps the order
//!    that this input had relative to the other table.
//! 2. *Disjoint*: Tables that stay in the output run do not overlap the key range of the inputs.
//!    For a move: they do not overlap any moved table.
//! 3. *Downwards*: The output run is the run of the oldest input or a later one. Together with (1)
//!    this lets separately checked jobs run concurrently and finish in any order. Flushes may
//!    happen meanwhile.
//! 4. *Busy*: No table is an input of two jobs. No busy table overlaps the job's range in the runs
//!    from the newest input to the output, because the other job's output there is not yet known.
//! 5. *Drop*: A dropped table overlaps no older table that stays; otherwise deleted keys would
//!    reappear.
//! 6. *Adopt*: A table that a merge adopts overlaps no other input. The merge therefore splits into
//!    independent parts ([`CompactionJob::parts`]), whose outputs are between the adopted tables.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::shape::{
    LsmShape, RunShape, ShapePlace, TableKeys, TableShape, before, first_overlap, key_span, split,
};
use crate::util::nested::nested;
use crate::util::sort::sort_by;
use crate::util::sorted_map::SortedMap;

/// Reason for which a job was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompactionReason {
    /// Enough neighbouring runs have similar sizes.
    SimilarSizes,
    /// A level has enough runs.
    LevelRuns,
    /// A level exceeds its target size.
    LevelSize,
    /// A level that should have one run has several.
    OneRun,
    /// There are more runs than reads should have to check.
    RunCount,
    /// The newer runs are large relative to the oldest run, so most of the oldest may be garbage.
    Space,
    /// A time window has closed.
    WindowClosed,
    /// A tombstone is older than allowed.
    TombstoneAge,
    /// The tree is larger than allowed.
    TooLarge,
    /// The data is older than allowed.
    TooOld,
    /// All entries of the tables have expired.
    Expired,
    /// Readers have paid as much for the runs as merging them costs.
    ReadTriggered,
    /// The tables refer to blob files with too much garbage.
    BlobGarbage,
    /// Manual compaction.
    Manual,
    /// A custom policy requested it.
    CustomPolicy,
}

impl CompactionReason {
    /// Returns a short name for listings, such as `similar-sizes`.
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
            CompactionReason::ReadTriggered => "read-triggered",
            CompactionReason::BlobGarbage => "blob-garbage",
            CompactionReason::Manual => "manual",
            CompactionReason::CustomPolicy => "custom-policy",
        }
    }
}

/// Operation on the inputs of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Reads the inputs and writes them again.
    Merge,
    /// Changes only the level and run of the inputs.
    Move,
    /// Removes the inputs without reading them.
    Drop,
}

/// Input tables from one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionInput {
    /// The run's level.
    pub level: u8,
    /// The run's number.
    pub run: u64,
    /// Ids of the tables in key order.
    pub tables: Vec<u64>,
}

/// Rules for splitting outputs into tables. A table ends when it reaches `size`, and always before
/// the first key at or above the next key of `at`. All versions of a key stay in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSplits {
    /// Target size of a table in bytes.
    pub size: u64,
    /// Keys at which a new table begins, ascending. Empty when only the size counts.
    pub at: Vec<Arc<[u8]>>,
}

/// One unit of compaction work.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionJob {
    /// Reason for the job.
    pub reason: CompactionReason,
    /// Operation on the inputs.
    pub action: Action,
    /// Inputs, newest run first.
    pub inputs: Vec<CompactionInput>,
    /// For a merge: ids of the inputs that enter the output run unchanged, in key order.
    pub adopted: Vec<u64>,
    /// Level of the output run. For a drop: level of the oldest input.
    pub output_level: u8,
    /// Number of the output run, which may already exist. For a drop: run number of the oldest
    /// input.
    pub output_run: u64,
    /// Rules for splitting the outputs.
    pub cuts: OutputSplits,
    /// Urgency; a job with a score of at least 1 should run.
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

/// Formats ids as a list; writes more than two consecutive ids as `4..9`.
fn ids(tables: &[u64]) -> String {
    let rows = tables.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let text = rows.map(|row| match row {
        [first, _, .., last] => format!("{first}..{last}"),
        _ => row.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
    });
    text.collect::<Vec<_>>().join(" ")
}

/// Inputs of a job located in a shape, as pairs of run index and table index.
struct FoundTables {
    tables: Vec<(usize, usize)>,
    taken: HashSet<u64>,
}

impl CompactionJob {
    /// Returns the position of the output run.
    pub fn output(&self) -> ShapePlace {
        ShapePlace { level: self.output_level, number: self.output_run }
    }

    /// Returns the size of the inputs in bytes.
    pub fn bytes(&self, shape: &LsmShape) -> u64 {
        self.taken(shape).map(|t| t.size).sum()
    }

    /// Returns the bytes that the job reads and writes again. For a merge: its inputs that are not
    /// adopted; otherwise 0.
    pub fn rewritten(&self, shape: &LsmShape) -> u64 {
        if self.action != Action::Merge {
            return 0;
        }
        let adopted: HashSet<u64> = self.adopted.iter().copied().collect();
        let again = self.taken(shape).filter(|t| !adopted.contains(&t.id));
        again.map(|t| t.size + t.blob_relocation_bytes).sum()
    }

    /// Returns the input tables, including adopted ones.
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

    /// Splits a merge into independent merges, one for each key range between adopted tables, in
    /// key order. The parts share no keys. Returns none for a move or a drop.
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

    /// Returns the inputs (run index, table index) by first key, or `None` if one is not in the
    /// shape.
    pub(super) fn in_key_order(&self, shape: &LsmShape) -> Option<Vec<(usize, usize)>> {
        let mut tables = self.find(shape).ok()?.tables;
        let first = |&(r, t): &(usize, usize)| &shape.runs[r].tables[t].first;
        sort_by(&mut tables, |a, b| first(a).cmp(first(b)));
        Some(tables)
    }

    /// Returns this job restricted to these of its tables, which are in key order. `adopted`
    /// contains the ids of the tables that the job adopts.
    pub(super) fn of_tables(
        &self,
        shape: &LsmShape,
        tables: &[(usize, usize)],
        adopted: &HashSet<u64>,
    ) -> CompactionJob {
        let id = |&(r, t): &(usize, usize)| shape.runs[r].tables[t].id;
        let mut inputs: SortedMap<usize, Vec<u64>> = SortedMap::new();
        for at in tables {
            inputs.get_or_default(at.0).push(id(at));
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

    /// Returns the smallest key range that covers all inputs. Returns `None` if an input is not in
    /// the shape or there are no inputs.
    pub fn range(&self, shape: &LsmShape) -> Option<TableKeys> {
        let found = self.find(shape).ok()?;
        key_span(found.tables.iter().map(|&(r, t)| &shape.runs[r].tables[t]))
            .map(|(a, b)| (a.clone(), b.clone()))
    }

    /// Reports whether no older table overlaps the key range of the inputs, so tombstones may be
    /// dropped.
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
            // Ids are in key order, so a single pass finds all: each search starts after the last
            // match.
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

    /// Checks that this job may start on this shape, by the invariants of the module.
    ///
    /// # Errors
    /// A sentence that describes the first violation.
    pub fn check(&self, shape: &LsmShape) -> Result<(), String> {
        self.check_with(shape, &|r, t| shape.runs[r].tables[t].busy)
    }

    /// Like [`check`](CompactionJob::check), but with `busy` to decide which tables (run index,
    /// table index) are busy.
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

    /// Checks invariant 6.
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
        sort_by(&mut tables, |a, b| a.first.cmp(&b.first));
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

    /// Checks invariant 1. The output is not newer than the oldest input. So a table that stays and
    /// is newer than an input is also newer than the output, unless it is between the inputs and
    /// the output.
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

    /// Checks invariant 2.
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
                Err(format!("table {id} of the output run is in the range of the job"))
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

/// Checks invariant 5.
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

/// Applies the job to the shape. `outputs` are the tables that a merge wrote; they are disjoint,
/// and there are none if all entries were dropped. A move or a drop has no outputs.
///
/// # Errors
/// A sentence, if an input does not exist or the result would not be a legal shape. The shape is
/// then unchanged.
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
        sort_by(tables, |a, b| a.first.cmp(&b.first).then(a.id.cmp(&b.id)));
    }
    after.runs.retain(|r| !r.tables.is_empty());
    after.check()?;
    *shape = after;
    Ok(())
}

/// Estimates the tables that a merge would write if no version shadowed another. The output has as
/// many bytes as the inputs, is split as the job says, and has evenly spread keys. Tombstones are
/// dropped if no older table overlaps. Assigns ids from `next_id` on.
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
    let gone = inputs.iter().map(|t| t.expires_micros).reduce(|a, b| Some(a?.max(b?))).flatten();
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
                expires_micros: gone,
                blob_relocation_bytes: 0,
                held_back: false,
                busy: false,
                _non_exhaustive: (),
            }
        })
        .collect()
}

impl LsmShape {
    /// Sets or clears the busy flag of a job's inputs: `true` when it starts, `false` when it is
    /// aborted.
    #[doc(hidden)]
    pub fn set_busy(&mut self, job: &CompactionJob, busy: bool) {
        let ids: HashSet<u64> = nested(&job.inputs, |i| &i.tables).copied().collect();
        self.change(|t| ids.contains(&t.id) && t.busy != busy, |t| t.busy = busy);
    }
}
