//! Leveled compaction.
//!
//! - *Trigger*: `level0_runs` runs at level 0; a level larger than its target, `base` ×
//!   `ratio`^(level − 1). A table with mostly tombstones counts twice if an older table overlaps
//!   it.
//! - *Layout*: level 0 has several runs, every other level one.
//! - *Granularity*: all of level 0 with its overlap. Further down one table with its overlap in the
//!   next run, or, under [`Movement::WholeLevel`], all tables of the level.
//! - *Movement*: from the fullest level, the table that [`Movement`] selects. By default this is
//!   one with mostly tombstones, then the one with the least overlap for its size, then the oldest.
//! - *Space*: 1 + r / (r − 1), r the ratio: the last two levels may hold a copy each, those above
//!   shrink by r. A job writes at most its overlap.
//!
//! Another policy may have left several runs on a level below 0. They are reduced to one by pushing
//! the tables of newer runs into the next older one.

use std::ops::Range;

use crate::compaction::adopt::Picked;
use crate::compaction::describe::{Parameter, ParameterValue, policy};
use crate::compaction::job::{CompactionJob, CompactionReason};
use crate::compaction::shape::{self, MAX_LEVEL, RunShape, ShapePlace};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{MAX_FAN, PickContext};

policy! {
    /// One run per level, each `ratio` times the one above; one table at a time moves down.
    Leveled = "leveled" {
        /// Size of a level over the one above.
        ratio: u32 = 10, number(2, 64);
        /// Flushed runs that start a compaction.
        level0_runs: u32 = 4, number(1, 64);
        /// Size of level 1, of table files.
        base: u64 = 256 << 20, bytes(64 << 10, 1 << 50);
        /// Which table moves down first.
        movement: Movement = Movement::LeastOverlap, choice(&Movement::NAMES);
    }
}

/// Order in which the tables of a level move down under [`Leveled`]: the *movement* of the VLDB'21
/// design space. Ties are resolved by the least overlap, then by age, the oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Movement {
    /// Tables with mostly tombstones first, then the one with the least overlap in the next level
    /// for its size (the default).
    #[default]
    LeastOverlap = 0,
    /// The table with the least overlap two levels down for its size.
    LeastOverlapBelow = 1,
    /// In key order: the first table that begins after the last written table of the next level.
    RoundRobin = 2,
    /// The table whose newest entry is the oldest.
    Coldest = 3,
    /// The table whose oldest entry is the oldest.
    Oldest = 4,
    /// The table with the largest share of tombstones.
    Tombstones = 5,
    /// No order: all tables of the level move down together, into the whole next level.
    WholeLevel = 6,
}

impl Movement {
    /// All variants, in the order of their numbers.
    pub const ALL: [Movement; 7] = [
        Movement::LeastOverlap,
        Movement::LeastOverlapBelow,
        Movement::RoundRobin,
        Movement::Coldest,
        Movement::Oldest,
        Movement::Tombstones,
        Movement::WholeLevel,
    ];
    /// Their names in a policy's text, in the same order.
    pub const NAMES: [&str; 7] = [
        "least-overlap",
        "least-overlap-below",
        "round-robin",
        "coldest",
        "oldest",
        "tombstones",
        "whole-level",
    ];
}

impl Parameter for Movement {
    fn value(&self) -> ParameterValue {
        ParameterValue::Number(*self as u64)
    }

    fn of(value: &ParameterValue) -> Option<Movement> {
        Movement::ALL.get(usize::try_from(u64::of(value)?).ok()?).copied()
    }
}

impl Strategy for Leveled {
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        candidate_jobs(view, self.level0_runs as usize, self.ratio, self.base, self.movement)
    }

    /// Returns twice the trigger of level 0, plus one run for each further level.
    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        let further = view.levels().iter().filter(|(level, _)| *level > 0).count();
        Some((self.level0_runs as usize).max(4) * 2 + further)
    }

    fn single_run_levels(&self) -> bool {
        true
    }

    fn space(&self, _: u64, flushed: u64) -> SpaceBound {
        SpaceBound::of_merges(
            1.0 + f64::from(self.ratio) / f64::from(self.ratio.max(2) - 1),
            flushed,
        )
    }

    fn pending_bytes(&self, view: &PickContext<'_>) -> Option<u64> {
        Some(debt(view, self.level0_runs as usize, self.ratio, self.base))
    }
}

fn candidate_jobs(
    view: &PickContext<'_>,
    level0_runs: usize,
    ratio: u32,
    base: u64,
    movement: Movement,
) -> Vec<CompactionJob> {
    let mut jobs: Vec<CompactionJob> = Vec::new();
    for (level, runs) in view.levels() {
        let before = jobs.len();
        if level == 0 {
            jobs.extend(level0(view, runs, level0_runs));
        } else if runs.len() > 1 {
            // From the oldest: its run grows until it is the only one.
            jobs.extend(runs.clone().take(runs.len() - 1).rev().filter_map(|r| {
                one_down(view, r, CompactionReason::OneRun, runs.len() as f64, movement)
            }));
        } else {
            let score = weight(view, runs.start) as f64 / target(level, ratio, base).max(1) as f64;
            if score > 1.0 && level < MAX_LEVEL {
                jobs.extend(one_down(
                    view,
                    runs.start,
                    CompactionReason::LevelSize,
                    score,
                    movement,
                ));
            }
        }
        if let (1, Some(urgent)) =
            (level, jobs.first().filter(|job| job.inputs[0].level == 0).map(|job| job.score))
        {
            // Level 0 needs the whole of level 1. A sequence of less urgent jobs on level 1 could
            // block it forever.
            let mut i = 0;
            jobs.retain(|job| {
                i += 1;
                i <= before || job.score > urgent
            });
        }
    }
    jobs
}

/// Returns the target size of a level in bytes.
fn target(level: u8, ratio: u32, base: u64) -> u64 {
    base.saturating_mul(u64::from(ratio).saturating_pow(u32::from(level).saturating_sub(1)))
}

/// Returns the size of a run without its busy tables. Tables with mostly tombstones count twice if
/// an older table overlaps them.
fn weight(view: &PickContext<'_>, r: usize) -> u64 {
    let older_runs = &view.shape.runs[r + 1..];
    let idle = view.run(r).tables.iter().enumerate().filter(|(t, _)| !view.is_table_busy(r, *t));
    idle.map(|(_, t)| {
        let twice = t.is_dense()
            && older_runs.iter().any(|run| !run.overlapping(&t.first, &t.last).is_empty());
        t.size << u32::from(twice)
    })
    .sum()
}

/// Merges all of level 0 (its oldest runs, if there are many) into level 1.
fn level0(view: &PickContext<'_>, runs: Range<usize>, trigger: usize) -> Option<CompactionJob> {
    if runs.len() < trigger || view.any_busy(runs.clone()) {
        return None;
    }
    let score = runs.len() as f64 / trigger as f64 * (1.0 + view.density(runs.clone()));
    let runs = runs.end - runs.len().min(MAX_FAN)..runs.end;
    let next_run = view.shape.runs.get(runs.end).filter(|r| r.level == 1);
    let output = next_run
        .map_or(ShapePlace { level: 1, number: view.run(runs.end - 1).number }, |r| r.place());
    let (lo, hi) = shape::key_span(shape::tables_of(&view.shape.runs[runs.clone()]))?;
    let mut picked: Vec<Picked> = runs.clone().map(|r| (r, 0..view.run(r).tables.len())).collect();
    picked.extend(next_run.map(|run| (runs.end, run.overlapping(lo, hi))));
    picked.retain(|(_, tables)| !tables.is_empty());
    Some(view.joined(&picked, output, CompactionReason::LevelRuns, score))
}

/// Moves the best idle table of run `r` down: into the next older run if that is on this level or
/// the next, otherwise into a new run.
fn one_down(
    view: &PickContext<'_>,
    r: usize,
    reason: CompactionReason,
    score: f64,
    movement: Movement,
) -> Option<CompactionJob> {
    let run = view.run(r);
    let new = ShapePlace { level: run.level + 1, number: run.number };
    let next =
        view.shape.runs.get(r + 1).map(|next| &**next).filter(|next| next.level <= new.level);
    if movement == Movement::WholeLevel {
        let next_index = next.map(|_| r + 1);
        if view.is_busy(r) || next_index.is_some_and(|k| view.is_busy(k)) {
            return None;
        }
        let place = next.map_or(new, |next| next.place());
        let picked: Vec<Picked> = std::iter::once(r)
            .chain(next_index)
            .map(|r| (r, 0..view.run(r).tables.len()))
            .collect();
        return Some(view.joined(&picked, place, reason, score));
    }
    let overlaps = next.map_or_else(|| vec![0..0; run.tables.len()], |next| overlaps(run, next));
    let first = first_by(view, r, next, movement);
    let best = (0..run.tables.len())
        .filter(|&t| {
            !view.is_table_busy(r, t) && !overlaps[t].clone().any(|o| view.is_table_busy(r + 1, o))
        })
        .map(|t| {
            let table = &run.tables[t];
            let overlap_bytes: u64 = overlaps[t].clone().map(|o| view.table(r + 1, o).size).sum();
            let cost = u128::from(overlap_bytes) * 1024 / u128::from(table.size.max(1));
            (first(t), cost, table.created_micros, table.id, t)
        })
        .min()?;
    let t = best.4;
    view.push(
        r,
        t..t + 1,
        next.map(|_| r + 1),
        next.map_or(new, |next| next.place()),
        reason,
        score,
    )
}

/// Returns a function that ranks the tables of run `r` by the movement; the smallest rank moves
/// first. `next` is the run that the table moves into.
fn first_by<'a>(
    view: &'a PickContext<'_>,
    r: usize,
    next: Option<&RunShape>,
    movement: Movement,
) -> impl Fn(usize) -> u128 + use<'a> {
    let run = view.run(r);
    let below = match movement {
        Movement::LeastOverlapBelow => {
            view.shape.runs[r..].iter().find(|b| b.level == run.level + 2)
        }
        _ => None,
    };
    // The table of the next level written last shows the position of the round robin, so no state
    // is needed.
    let reached = match (movement, next) {
        (Movement::RoundRobin, Some(next)) => {
            next.tables.iter().max_by_key(|t| (t.created_micros, t.id)).map(|t| t.last.clone())
        }
        _ => None,
    };
    move |t| {
        let table = &run.tables[t];
        match movement {
            Movement::LeastOverlap | Movement::WholeLevel => u128::from(!table.is_dense()),
            Movement::LeastOverlapBelow => below.map_or(0, |below| {
                let bytes: u64 = below.tables[below.overlapping(&table.first, &table.last)]
                    .iter()
                    .map(|o| o.size)
                    .sum();
                u128::from(bytes) * 1024 / u128::from(table.size.max(1))
            }),
            Movement::RoundRobin => {
                let again = reached.as_ref().is_some_and(|reached| table.first <= *reached);
                u128::from(again) << 64 | t as u128
            }
            Movement::Coldest => u128::from(table.max_seq),
            Movement::Oldest => u128::from(table.min_seq),
            Movement::Tombstones => {
                let share = (u128::from(table.deletes) << 20) / u128::from(table.entries.max(1));
                (1 << 20) - share.min(1 << 20)
            }
        }
    }
}

/// Returns for each table of `run` the tables of `next` that it overlaps, in one pass over both.
fn overlaps(run: &RunShape, next: &RunShape) -> Vec<Range<usize>> {
    let (mut start, mut end) = (0, 0);
    let ranges = run.tables.iter().map(|t| {
        while next.tables.get(start).is_some_and(|o| o.last < t.first) {
            start += 1;
        }
        end = end.max(start);
        while next.tables.get(end).is_some_and(|o| o.first <= t.last) {
            end += 1;
        }
        start..end
    });
    ranges.collect()
}

/// Returns the bytes to rewrite, level by level. The excess of a level moves down with its share of
/// the next level, and adds to the excess of that one.
fn debt(view: &PickContext<'_>, level0_runs: usize, ratio: u32, base: u64) -> u64 {
    let levels = view.levels();
    let (mut total, mut carried) = (0u64, 0u64);
    for level in 0..MAX_LEVEL {
        let here = levels.iter().find(|(l, _)| *l == level).map(|(_, runs)| runs.clone());
        if level == 0 {
            let job = here.and_then(|runs| level0(view, runs, level0_runs));
            total = job.as_ref().map_or(0, |job| job.rewritten(view.shape));
            let taken = |job: &CompactionJob| {
                view.size_of(0..job.inputs.iter().filter(|i| i.level == 0).count())
            };
            carried = job.as_ref().map_or(0, taken);
            continue;
        }
        let size = carried + here.clone().map_or(0, |runs| view.size_of(runs));
        if let Some(runs) = here.clone().filter(|runs| runs.len() > 1) {
            let apart =
                shape::first_overlap(&shape::tables_of(&view.shape.runs[runs]).collect::<Vec<_>>())
                    .is_none();
            total = total.saturating_add(if apart { 0 } else { size });
        }
        carried = size.saturating_sub(target(level, ratio, base));
        let last = here.map(|runs| runs.end - 1);
        total = total
            .saturating_add((carried as f64 * last.map_or(0.0, |r| cost_down(view, r))) as u64);
    }
    total
}

/// Returns the number of bytes rewritten for each byte that moves down from run `r`.
fn cost_down(view: &PickContext<'_>, r: usize) -> f64 {
    let Some(next) = view
        .shape
        .runs
        .get(r + 1)
        .map(|next| &**next)
        .filter(|next| next.level == view.run(r).level + 1)
    else {
        return 0.0;
    };
    let run = view.run(r);
    let bytes = run.tables.iter().zip(overlaps(run, next)).map(|(t, overlap)| {
        match &next.tables[overlap] {
            [] => 0,
            overlap => t.size + overlap.iter().map(|o| o.size).sum::<u64>(),
        }
    });
    bytes.sum::<u64>() as f64 / view.sizes[r].max(1) as f64
}
