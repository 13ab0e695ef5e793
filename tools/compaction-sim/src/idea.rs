//! Policies that the engine does not have: what a simulation asks of any policy, and the shortest
//! way to say one.
//!
//! [`SimPolicy`] is a trait over the plain data that the engine's policies see. An idea says what it
//! wishes for as [`Wish`]es; which of them can start, in which order, and that none breaks the order
//! of versions, is found here, by the engine's own [`CompactionJob::check`]. So an idea can be slow,
//! but not wrong. What the engine does for all its policies (deletes that are too old, tables that
//! have expired) is not done for an idea.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use firn_kv::Policy;
use firn_kv::internals::compaction::shape::{MAX_LEVEL, ShapePlace};
use firn_kv::internals::compaction::{
    Action, CompactionInput, CompactionJob, CompactionReason, LsmShape, OutputSplits, RunShape,
    fits, pick, run_limits, steps,
};

/// What the simulator asks of a policy. [`Policy`] is one, and chooses by itself; an
/// idea says only what it wishes for.
///
/// ```
/// use compaction_sim::idea::{SimPolicy, Wish};
/// use firn_kv::internals::compaction::LsmShape;
///
/// /// As many runs as the square root of the memtables that are held.
/// #[derive(Debug)]
/// struct SquareRoot;
///
/// impl SimPolicy for SquareRoot {
///     fn wishes(&self, shape: &LsmShape) -> Vec<Wish> {
///         let most = (shape.size() as f64 / shape.memtable_size as f64).sqrt() as usize;
///         let few = shape.runs.len() <= most.max(2);
///         if few { vec![] } else { vec![Wish::whole(0..=most.max(2) / 2)] }
///     }
/// }
/// ```
pub trait SimPolicy: fmt::Debug + Send + Sync {
    /// All that it wants done, the most urgent first. A wish that cannot start now is left out.
    fn wishes(&self, _: &LsmShape) -> Vec<Wish> {
        Vec::new()
    }

    /// The job that starts now: of an idea the first of its wishes that can.
    fn choose(&self, shape: &LsmShape) -> Option<CompactionJob> {
        self.wishes(shape).iter().find_map(|wish| wish.job(shape).ok())
    }

    /// Whether the job may start beside merges that read so many bytes each; by default always.
    fn has_room(&self, _: &LsmShape, _merging: &[u64], _: &CompactionJob) -> bool {
        true
    }

    /// The jobs that make a chosen one together, each put in place before the next begins; by default
    /// it is one.
    fn steps(&self, _: &LsmShape, job: CompactionJob) -> Vec<CompactionJob> {
        vec![job]
    }

    /// The numbers of runs at which writers are slowed and slowed the most; by default there are
    /// none.
    fn limits(&self, _: &LsmShape) -> (usize, usize) {
        (usize::MAX, usize::MAX)
    }

    /// Whether it may want something only because time has passed.
    fn is_clocked(&self) -> bool {
        false
    }

    /// What went wrong in it, if anything did.
    fn failed(&self) -> Option<String> {
        None
    }
}

impl SimPolicy for Policy {
    fn choose(&self, shape: &LsmShape) -> Option<CompactionJob> {
        pick(self, shape)
    }

    fn has_room(&self, shape: &LsmShape, merging: &[u64], job: &CompactionJob) -> bool {
        fits(self, shape, merging, job)
    }

    fn steps(&self, shape: &LsmShape, job: CompactionJob) -> Vec<CompactionJob> {
        steps(self, shape, job)
    }

    fn limits(&self, shape: &LsmShape) -> (usize, usize) {
        run_limits(self, shape)
    }

    fn is_clocked(&self) -> bool {
        self.ages()
    }
}

/// A merge that an idea wishes for: neighbouring runs by their indexes, 0 the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The runs.
    pub runs: RangeInclusive<usize>,
    /// Which tables of the newest of them go; what they overlap in the others comes along. `None`
    /// for all of all runs.
    pub tables: Option<Range<usize>>,
    /// The level that the output goes to; `None` for one below the oldest run, where the order of
    /// runs allows that, else that of the oldest run.
    pub level: Option<u8>,
}

impl Wish {
    /// The merge of whole runs.
    pub fn whole(runs: RangeInclusive<usize>) -> Wish {
        Wish { runs, tables: None, level: None }
    }

    /// As the engine's job.
    ///
    /// # Errors
    /// Why it is none: runs or tables that there are not, one run that would stay where it is, an
    /// order of versions that would break. And that it has to wait for a job that runs.
    pub fn job(&self, shape: &LsmShape) -> Result<CompactionJob, String> {
        let (newest, oldest) = (*self.runs.start(), *self.runs.end());
        let runs = shape.runs.get(newest..=oldest).filter(|runs| !runs.is_empty());
        let runs = runs
            .ok_or_else(|| format!("runs {newest} to {oldest} of {} are none", shape.runs.len()))?;
        let inputs = self.inputs(runs)?;
        let place = shape.runs[oldest].place();
        let below = ShapePlace { level: place.level.saturating_add(1), ..place };
        let next = shape.runs.get(oldest + 1).map(|run| run.place());
        let output = match self.level {
            Some(level) if level == place.level => place,
            Some(level) => ShapePlace { level, ..place },
            None if below.level <= MAX_LEVEL && next.is_none_or(|next| below < next) => below,
            None => place,
        };
        if inputs.len() == 1 && output == shape.runs[newest].place() {
            return Err("a run alone would stay where it is".to_owned());
        }
        let job = CompactionJob {
            reason: CompactionReason::LevelRuns,
            action: if inputs.len() == 1 { Action::Move } else { Action::Merge },
            inputs,
            adopted: Vec::new(),
            output_level: output.level,
            output_run: output.number,
            cuts: OutputSplits { size: shape.table_size, at: Vec::new() },
            score: 1.0,
        };
        if output.level > MAX_LEVEL {
            return Err(format!("level {} is deeper than {MAX_LEVEL}", output.level));
        }
        job.check(shape)?;
        Ok(job)
    }

    /// What of the runs goes in; those of which nothing does are left out.
    fn inputs(&self, runs: &[std::sync::Arc<RunShape>]) -> Result<Vec<CompactionInput>, String> {
        let all = 0..runs[0].tables.len();
        let tables = self.tables.clone().unwrap_or(all);
        let chosen = runs[0].tables.get(tables.clone()).filter(|tables| !tables.is_empty());
        let chosen = chosen.ok_or_else(|| {
            format!(
                "tables {} to {} of {} are none",
                tables.start,
                tables.end,
                runs[0].tables.len()
            )
        })?;
        let input = |run: &RunShape, tables: Range<usize>| CompactionInput {
            level: run.level,
            run: run.number,
            tables: run.tables[tables].iter().map(|t| t.id).collect(),
        };
        let mut inputs = vec![input(&runs[0], tables)];
        let (mut lo, mut hi) = (&chosen[0].first, &chosen[chosen.len() - 1].last);
        for run in &runs[1..] {
            let tables = match self.tables {
                Some(_) => run.overlapping(lo, hi),
                None => 0..run.tables.len(),
            };
            if let (Some(first), Some(last)) =
                (run.tables.get(tables.start), run.tables[..tables.end].last())
                && !tables.is_empty()
            {
                (lo, hi) = (lo.min(&first.first), hi.max(&last.last));
                inputs.push(input(run, tables));
            }
        }
        Ok(inputs)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use firn_kv::internals::compaction::TableShape;

    /// A level and the first and last keys of its tables.
    type RunKeys<'a> = (u8, &'a [(&'a str, &'a str)]);

    fn shape(all: &[RunKeys<'_>]) -> LsmShape {
        let mut shape =
            LsmShape { memtable_size: 1, table_size: 1, next_run: 9, ..LsmShape::default() };
        for (i, (level, keys)) in all.iter().enumerate() {
            let mut tables = vec![];
            for (first, last) in *keys {
                let id = (10 * i + tables.len()) as u64;
                let [first, last] = [first, last].map(|k| Arc::from(k.as_bytes()));
                tables.push(TableShape { id, size: 1, first, last, ..TableShape::default() });
            }
            let number = (all.len() - i) as u64;
            shape.runs.push(Arc::new(RunShape { level: *level, number, tables: tables.into() }));
        }
        shape
    }

    #[test]
    fn wishes_become_jobs_that_the_engine_would_take() {
        let shape = shape(&[
            (0, &[("a", "m"), ("n", "z")]),
            (0, &[("a", "z")]),
            (1, &[("a", "k"), ("l", "p"), ("q", "z")]),
        ]);
        let text = |wish: Wish| wish.job(&shape).map(|job| job.to_string());
        assert_eq!(
            text(Wish::whole(0..=1)).as_deref(),
            Ok("merge (level-runs 1.00) L0#3[0 1] + L0#2[10] -> L1#2")
        );
        assert_eq!(
            text(Wish { level: Some(2), ..Wish::whole(0..=2) }).as_deref(),
            Ok("merge (level-runs 1.00) L0#3[0 1] + L0#2[10] + L1#1[20..22] -> L2#1")
        );
        assert_eq!(
            text(Wish::whole(2..=2)).as_deref(),
            Ok("move (level-runs 1.00) L1#1[20..22] -> L2#1")
        );
        for wrong in [
            Wish::whole(0..=3),
            Wish { level: Some(1), ..Wish::whole(2..=2) },
            Wish { level: Some(63), ..Wish::whole(0..=2) },
            Wish { tables: Some(3..4), ..Wish::whole(0..=2) },
            // The run between would be newer than what it hides.
            Wish { level: Some(2), ..Wish::whole(0..=1) },
        ] {
            assert!(wrong.job(&shape).is_err(), "{wrong:?}");
        }
        let part = Wish { tables: Some(0..1), ..Wish::whole(1..=2) };
        assert!(part.job(&shape).is_ok());
    }
}
