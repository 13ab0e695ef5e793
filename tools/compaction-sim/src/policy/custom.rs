//! Policies outside the engine: the interface that a simulation needs, and the shortest notation
//! for a policy.
//!
//! [`SimPolicy`] is a trait over the plain data that the engine's policies see. A custom policy
//! returns [`CompactionRequest`]es. This module decides which can start, and in which order, and
//! rejects those that break the order of versions, using the engine's own [`CompactionJob::check`].
//! So a custom policy can be slow, but not wrong. Features that the engine adds to all its policies
//! (overdue deletes, expired tables) are not available to a custom policy.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use firn_kv::Policy;
use firn_kv::internals::compaction::shape::{MAX_LEVEL, ShapePlace};
use firn_kv::internals::compaction::{
    Action, CompactionInput, CompactionJob, CompactionReason, LsmShape, OutputSplits, RunShape,
    fits, pick, run_limits, steps,
};

/// The interface of a simulated policy. [`Policy`] implements it and chooses jobs by itself; a
/// custom policy only requests compactions.
///
/// ```
/// use compaction_sim::policy::custom::{CompactionRequest, SimPolicy};
/// use firn_kv::internals::compaction::LsmShape;
///
/// /// Allows as many runs as the square root of the number of memtables in the tree.
/// #[derive(Debug)]
/// struct SquareRoot;
///
/// impl SimPolicy for SquareRoot {
///     fn requests(&self, shape: &LsmShape) -> Vec<CompactionRequest> {
///         let most = (shape.size() as f64 / shape.memtable_size as f64).sqrt() as usize;
///         let few = shape.runs.len() <= most.max(2);
///         if few { vec![] } else { vec![CompactionRequest::whole(0..=most.max(2) / 2)] }
///     }
/// }
/// ```
pub trait SimPolicy: fmt::Debug + Send + Sync {
    /// Returns all compactions that it wants, the most urgent first. Those that cannot start now
    /// are ignored.
    fn requests(&self, _: &LsmShape) -> Vec<CompactionRequest> {
        Vec::new()
    }

    /// Returns the job that starts now: for a custom policy the first of its requests that can.
    fn choose(&self, shape: &LsmShape) -> Option<CompactionJob> {
        self.requests(shape).iter().find_map(|request| request.job(shape).ok())
    }

    /// Reports whether the job may start while compactions with these input sizes run; by default
    /// always.
    fn has_room(&self, _: &LsmShape, _merging: &[u64], _: &CompactionJob) -> bool {
        true
    }

    /// Returns the jobs that together carry out a chosen one, each installed before the next
    /// begins. The default is the job itself.
    fn steps(&self, _: &LsmShape, job: CompactionJob) -> Vec<CompactionJob> {
        vec![job]
    }

    /// Returns the numbers of runs at which writers are slowed and slowed the most; by default
    /// there are none.
    fn limits(&self, _: &LsmShape) -> (usize, usize) {
        (usize::MAX, usize::MAX)
    }

    /// Reports whether it may want a job only because time has passed.
    fn is_clocked(&self) -> bool {
        false
    }

    /// Returns its error, if one occurred.
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

/// A compaction that a custom policy wants: adjacent runs by their indexes, 0 the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionRequest {
    /// The runs.
    pub runs: RangeInclusive<usize>,
    /// Tables of the newest run that take part, together with the overlapping tables of the others.
    /// `None` for all tables of all runs.
    pub tables: Option<Range<usize>>,
    /// Level of the output. `None` for one below the oldest run if the order of runs allows it,
    /// else that of the oldest run.
    pub level: Option<u8>,
}

impl CompactionRequest {
    /// Creates the compaction of whole runs.
    pub fn whole(runs: RangeInclusive<usize>) -> CompactionRequest {
        CompactionRequest { runs, tables: None, level: None }
    }

    /// Returns the engine's job.
    ///
    /// # Errors
    /// Why there is none: runs or tables that do not exist, one run that would stay in its place,
    /// an order of versions that would break, or a running job that it must wait for.
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

    /// Returns the inputs of the job; runs without input tables are left out.
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

    /// A level, and the first and last keys of its tables.
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
    fn requests_become_jobs_that_the_engine_would_take() {
        let shape = shape(&[
            (0, &[("a", "m"), ("n", "z")]),
            (0, &[("a", "z")]),
            (1, &[("a", "k"), ("l", "p"), ("q", "z")]),
        ]);
        let text = |request: CompactionRequest| request.job(&shape).map(|job| job.to_string());
        assert_eq!(
            text(CompactionRequest::whole(0..=1)).as_deref(),
            Ok("merge (level-runs 1.00) L0#3[0 1] + L0#2[10] -> L1#2")
        );
        assert_eq!(
            text(CompactionRequest { level: Some(2), ..CompactionRequest::whole(0..=2) })
                .as_deref(),
            Ok("merge (level-runs 1.00) L0#3[0 1] + L0#2[10] + L1#1[20..22] -> L2#1")
        );
        assert_eq!(
            text(CompactionRequest::whole(2..=2)).as_deref(),
            Ok("move (level-runs 1.00) L1#1[20..22] -> L2#1")
        );
        for wrong in [
            CompactionRequest::whole(0..=3),
            CompactionRequest { level: Some(1), ..CompactionRequest::whole(2..=2) },
            CompactionRequest { level: Some(63), ..CompactionRequest::whole(0..=2) },
            CompactionRequest { tables: Some(3..4), ..CompactionRequest::whole(0..=2) },
            // The run between would be newer than the versions that it hides.
            CompactionRequest { level: Some(2), ..CompactionRequest::whole(0..=1) },
        ] {
            assert!(wrong.job(&shape).is_err(), "{wrong:?}");
        }
        let part = CompactionRequest { tables: Some(0..1), ..CompactionRequest::whole(1..=2) };
        assert!(part.job(&shape).is_ok());
    }
}
