//! Custom policies: the interface of a policy outside the engine, and the checks of its requests.
//!
//! A custom policy sees the shape of a tree and returns [`CompactionRequest`]s. The engine turns
//! them into jobs, checks each with [`CompactionJob::check`], and adds the rules of all policies:
//! overdue tombstones, expired tables, blob garbage and read-triggered compaction.
//!
//! Invariants:
//!
//! 1. No request breaks the order of versions: a custom policy can be slow, but not wrong.
//! 2. Finitely many requests lead to a shape in which no request is valid, while nothing is
//!    flushed. Each job moves at least one table to an older position, and none to a newer one.
//! 3. A policy that panics, or requests an impossible job, decides nothing from then on.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::adopt::Picked;
use super::job::{CompactionJob, CompactionReason};
use super::policy::Policy;
use super::shape::{LsmShape, MAX_LEVEL, RunShape, ShapePlace};
use super::strategy::{SpaceBound, Strategy};
use super::view::PickContext;
use crate::util::panics::panic_text;

/// A compaction policy outside the engine ([`TreeOptions::custom_policy`]). The simulator
/// `compaction-sim` runs the same object.
///
/// A policy is a function of the shape. It holds no handle of a store, does no I/O, and returns
/// soon: the engine calls it under a lock of the tree, after each flush and compaction.
///
/// ```
/// use firn_kv::policy::{CompactionPolicy, CompactionRequest, CustomPolicy, LsmShape};
/// use firn_kv::{Db, TreeOptions};
///
/// /// Merges two adjacent runs of about the same size, like a binary counter.
/// struct Binomial;
///
/// impl CompactionPolicy for Binomial {
///     fn name(&self) -> &str {
///         "binomial"
///     }
///
///     fn requests(&self, shape: &LsmShape) -> Vec<CompactionRequest> {
///         let alike = |i: &usize| shape.runs[*i].size() * 2 > shape.runs[i + 1].size();
///         let pairs = (0..shape.runs.len().saturating_sub(1)).filter(alike);
///         pairs.map(|i| CompactionRequest::whole(i..=i + 1)).collect()
///     }
/// }
///
/// # let dir = std::env::temp_dir().join(format!("firn-doc-custom-{}", std::process::id()));
/// let db = Db::open(&dir)?;
/// let policy = CustomPolicy::new(Binomial);
/// let options = TreeOptions { custom_policy: Some(policy.clone()), ..TreeOptions::default() };
/// let tree = db.tree("t", options)?;
/// for round in 0..4u8 {
///     tree.put([round], "value")?;
///     tree.flush()?;
/// }
/// db.wait_idle()?;
/// assert_eq!((db.stats().trees[0].runs.len(), policy.failure()), (1, None));
/// # drop((tree, db)); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
///
/// [`TreeOptions::custom_policy`]: crate::TreeOptions::custom_policy
pub trait CompactionPolicy: Send + Sync + 'static {
    /// Returns the name for reports and events.
    fn name(&self) -> &str;

    /// Returns the compactions that the policy wants, the most urgent first. The engine starts the
    /// first that no running job blocks, and asks again.
    fn requests(&self, shape: &LsmShape) -> Vec<CompactionRequest>;

    /// Returns the number of runs at which writers are slowed down; `None` (the default) for no
    /// limit. Writers reach the maximum slowdown at twice that number and four.
    fn max_runs(&self, _shape: &LsmShape) -> Option<usize> {
        None
    }

    /// Reports whether the passage of time alone can change the requests. The engine then also
    /// asks while nothing is written.
    fn is_time_dependent(&self) -> bool {
        false
    }

    /// Returns the reason why the policy cannot decide, such as an error of a script. The engine
    /// asks after each call, and does not use the policy from then on.
    fn failure(&self) -> Option<String> {
        None
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

    /// Checks that the request is possible, now or when running jobs are done.
    ///
    /// # Errors
    /// The reason: runs or tables that do not exist, one run that would stay in its place, or an
    /// order of versions that would break.
    ///
    /// ```
    /// use firn_kv::policy::{CompactionRequest, LsmShape};
    /// let request = CompactionRequest::whole(0..=1);
    /// assert_eq!(request.check(&LsmShape::default()).unwrap_err(), "runs 0 to 1 of 0 do not exist");
    /// ```
    pub fn check(&self, shape: &LsmShape) -> Result<(), String> {
        self.job(&PickContext::new(shape, false)).map(drop)
    }

    /// Returns the job, which [`CompactionJob::check`] accepts unless a table is busy.
    fn job(&self, view: &PickContext<'_>) -> Result<CompactionJob, String> {
        let (newest, oldest) = (*self.runs.start(), *self.runs.end());
        let runs = view.shape.runs.get(newest..=oldest).filter(|runs| !runs.is_empty());
        let runs = runs
            .ok_or_else(|| format!("runs {newest} to {oldest} of {} do not exist", view.len()))?;
        let picked = self.picked(newest, runs)?;
        let place = view.run(oldest).place();
        let output = match self.level {
            Some(level) if level > MAX_LEVEL => {
                return Err(format!("level {level} is deeper than {MAX_LEVEL}"));
            }
            Some(level) => ShapePlace { level, ..place },
            None => view.below(oldest),
        };
        if picked.len() == 1 && output == view.run(newest).place() {
            return Err(format!("run {newest} alone would stay at its level: give a deeper one"));
        }
        let job = view.joined(&picked, output, CompactionReason::CustomPolicy, 1.0);
        job.check_with(view.shape, &|_, _| false)?;
        Ok(job)
    }

    /// Returns the input tables of each run; runs without any are left out.
    fn picked(&self, newest: usize, runs: &[Arc<RunShape>]) -> Result<Vec<Picked>, String> {
        let all = 0..runs[0].tables.len();
        let tables = self.tables.clone().unwrap_or(all);
        let chosen = runs[0].tables.get(tables.clone()).filter(|tables| !tables.is_empty());
        let chosen = chosen.ok_or_else(|| {
            format!(
                "tables {} to {} of {} in run {newest} do not exist",
                tables.start,
                tables.end,
                runs[0].tables.len()
            )
        })?;
        let mut picked = vec![(newest, tables)];
        let (mut lo, mut hi) = (&chosen[0].first, &chosen[chosen.len() - 1].last);
        for (r, run) in (newest + 1..).zip(&runs[1..]) {
            let tables = match self.tables {
                Some(_) => run.overlapping(lo, hi),
                None => 0..run.tables.len(),
            };
            if let (Some(first), Some(last)) =
                (run.tables.get(tables.start), run.tables[..tables.end].last())
                && !tables.is_empty()
            {
                (lo, hi) = (lo.min(&first.first), hi.max(&last.last));
                picked.push((r, tables));
            }
        }
        Ok(picked)
    }
}

/// A custom policy that a tree can use, or several. Clones are the same policy.
///
/// If the policy panics or requests an impossible job, the stored [`Policy`] of each tree decides
/// from then on, [`failure`](CustomPolicy::failure) has the reason, and one
/// [`Event::PolicyFailed`](crate::Event::PolicyFailed) reports it.
#[derive(Clone)]
pub struct CustomPolicy(Arc<CustomState>);

struct CustomState {
    policy: Box<dyn CompactionPolicy>,
    name: String,
    failure: OnceLock<String>,
    is_reported: AtomicBool,
}

impl CustomPolicy {
    /// Creates a policy for [`TreeOptions::custom_policy`](crate::TreeOptions::custom_policy).
    pub fn new(policy: impl CompactionPolicy) -> CustomPolicy {
        CustomPolicy(Arc::new(CustomState {
            name: policy.name().to_owned(),
            policy: Box::new(policy),
            failure: OnceLock::new(),
            is_reported: AtomicBool::new(false),
        }))
    }

    /// Returns the name of the policy.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the reason for which the policy decides nothing any more.
    pub fn failure(&self) -> Option<&str> {
        self.0.failure.get().map(String::as_str)
    }

    /// Returns the failure to the first caller only.
    pub(crate) fn take_failure(&self) -> Option<&str> {
        self.failure().filter(|_| !self.0.is_reported.swap(true, Ordering::Relaxed))
    }

    fn fail(&self, reason: String) {
        self.0.failure.get_or_init(|| reason);
    }

    /// Calls the policy. Returns `None` if it panics or cannot decide.
    fn call<R>(&self, call: &str, of: impl FnOnce(&dyn CompactionPolicy) -> R) -> Option<R> {
        let policy = &*self.0.policy;
        let done = catch_unwind(AssertUnwindSafe(|| {
            let result = of(policy);
            (result, policy.failure())
        }));
        match done {
            Ok((result, None)) => Some(result),
            Ok((_, Some(reason))) => {
                self.fail(reason);
                None
            }
            Err(panic) => {
                self.fail(format!("{call} panicked: {}", panic_text(&*panic)));
                None
            }
        }
    }
}

impl PartialEq for CustomPolicy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for CustomPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomPolicy").field(&self.0.name).finish()
    }
}

impl Strategy for CustomPolicy {
    /// Returns the jobs of the requests up to the first that can start.
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        let requests = self.call("requests", |policy| policy.requests(view.shape));
        let mut jobs = Vec::new();
        for (i, request) in requests.into_iter().flatten().enumerate() {
            match request.job(view) {
                Ok(job) => {
                    let starts = view.admits(&job);
                    jobs.push(job);
                    if starts {
                        break;
                    }
                }
                Err(reason) => {
                    self.fail(format!("request {i}: {reason}"));
                    break;
                }
            }
        }
        jobs
    }

    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        self.call("max_runs", |policy| policy.max_runs(view.shape)).flatten()
    }

    fn space(&self, _memtable: u64, _flushed: u64) -> SpaceBound {
        SpaceBound { steady: f64::INFINITY, peak: 1.0, flushed: 0, max_bytes: u64::MAX }
    }

    fn ages(&self) -> bool {
        self.call("is_time_dependent", |policy| policy.is_time_dependent()).unwrap_or(false)
    }
}

/// Policy that decides for a tree: its custom policy, or else its stored one.
#[derive(Clone, Copy, Debug)]
pub struct ActivePolicy<'a> {
    stored: &'a Policy,
    custom: Option<&'a CustomPolicy>,
}

impl<'a> ActivePolicy<'a> {
    /// Creates the policy of a tree with this stored policy and this custom one.
    pub fn new(stored: &'a Policy, custom: Option<&'a CustomPolicy>) -> ActivePolicy<'a> {
        ActivePolicy { stored, custom }
    }

    /// Returns the decision of the custom policy, or of the stored one if there is no custom policy
    /// or it fails.
    #[inline]
    pub(super) fn decide<R>(self, decision: impl Fn(&dyn Strategy) -> R) -> R {
        // Without a custom policy this is one branch.
        match self.custom {
            None => decision(self.stored.strategy()),
            Some(custom) => self.decide_by(custom, decision),
        }
    }

    #[cold]
    fn decide_by<R>(self, custom: &CustomPolicy, decision: impl Fn(&dyn Strategy) -> R) -> R {
        if custom.failure().is_none() {
            let decided = decision(custom);
            if custom.failure().is_none() {
                return decided;
            }
        }
        decision(self.stored.strategy())
    }

    /// Reports whether the passage of time alone can make a job due.
    pub fn ages(self) -> bool {
        self.decide(|policy| policy.ages())
    }

    /// Reports whether tables wait to be dropped as a whole when they expire.
    pub fn expires(self) -> bool {
        self.decide(|policy| policy.expires())
    }
}

impl<'a> From<&'a Policy> for ActivePolicy<'a> {
    fn from(stored: &'a Policy) -> ActivePolicy<'a> {
        ActivePolicy { stored, custom: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::job::apply;
    use crate::compaction::shape::TableShape;
    use crate::compaction::{pick, run_limits};

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

    struct Asks(fn(&LsmShape) -> Vec<CompactionRequest>);

    impl CompactionPolicy for Asks {
        fn name(&self) -> &str {
            "asks"
        }

        fn requests(&self, shape: &LsmShape) -> Vec<CompactionRequest> {
            (self.0)(shape)
        }

        fn max_runs(&self, _: &LsmShape) -> Option<usize> {
            Some(usize::MAX)
        }
    }

    #[test]
    fn requests_become_jobs_that_the_engine_takes() {
        let shape = shape(&[
            (0, &[("a", "m"), ("n", "z")]),
            (0, &[("a", "z")]),
            (1, &[("a", "k"), ("l", "p"), ("q", "z")]),
        ]);
        let view = PickContext::new(&shape, true);
        let text = |request: CompactionRequest| request.job(&view).map(|job| job.to_string());
        assert_eq!(
            text(CompactionRequest::whole(0..=1)).as_deref(),
            Ok("merge (custom-policy 1.00) L0#3[0 1] + L0#2[10] -> L1#2")
        );
        assert_eq!(
            text(CompactionRequest { level: Some(2), ..CompactionRequest::whole(0..=2) })
                .as_deref(),
            Ok("merge (custom-policy 1.00) L0#3[0 1] + L0#2[10] + L1#1[20..22] -> L2#1")
        );
        assert_eq!(
            text(CompactionRequest::whole(2..=2)).as_deref(),
            Ok("move (custom-policy 1.00) L1#1[20..22] -> L2#1")
        );
        for wrong in [
            CompactionRequest::whole(0..=3),
            CompactionRequest { level: Some(1), ..CompactionRequest::whole(2..=2) },
            CompactionRequest { level: Some(63), ..CompactionRequest::whole(0..=2) },
            CompactionRequest { tables: Some(3..4), ..CompactionRequest::whole(0..=2) },
            // The run between would be newer than the versions that it hides.
            CompactionRequest { level: Some(2), ..CompactionRequest::whole(0..=1) },
        ] {
            assert!(wrong.check(&shape).is_err(), "{wrong:?}");
        }
        let part = CompactionRequest { tables: Some(0..1), ..CompactionRequest::whole(1..=2) };
        assert_eq!(part.check(&shape), Ok(()));
    }

    #[test]
    fn a_failed_policy_leaves_the_decision_to_the_stored_one() {
        let runs: Vec<RunKeys<'_>> = vec![(0, &[("a", "z")]); 40];
        let (stored, shape) = (Policy::default(), shape(&runs));
        let expected = pick(&stored, &shape);
        assert!(expected.is_some());
        for (asks, reason) in [
            (Asks(|_| panic!("no idea")), "requests panicked: no idea"),
            (Asks(|_| vec![CompactionRequest::whole(0..=99)]), "request 0: runs 0 to 99 of 40"),
        ] {
            let custom = CustomPolicy::new(asks);
            let active = ActivePolicy::new(&stored, Some(&custom));
            assert_eq!(run_limits(active, &shape), (usize::MAX, usize::MAX));
            assert_eq!(pick(active, &shape), expected);
            let failure = custom.take_failure().unwrap_or_default();
            assert!(failure.starts_with(reason), "{failure}");
            assert_eq!((custom.take_failure(), custom.failure().is_some()), (None, true));
            assert_eq!(run_limits(active, &shape), run_limits(&stored, &shape));
        }
        let content = CustomPolicy::new(Asks(|_| vec![]));
        let active = ActivePolicy::new(&stored, Some(&content));
        assert_eq!((pick(active, &shape), content.failure()), (None, None));
    }

    #[test]
    fn a_policy_that_asks_for_everything_ends() {
        let everything = |shape: &LsmShape| {
            let n = shape.runs.len();
            let pairs = (0..n).flat_map(|i| (i..n).map(move |j| (i, j)));
            let any =
                pairs.flat_map(|(i, j)| {
                    [None, Some(0..1)].into_iter().flat_map(move |tables| {
                        (0..=MAX_LEVEL).map(Some).chain([None]).map(move |level| {
                            CompactionRequest { runs: i..=j, tables: tables.clone(), level }
                        })
                    })
                });
            any.filter(|request| request.check(shape).is_ok()).take(1).collect()
        };
        let custom = CustomPolicy::new(Asks(everything));
        let stored = Policy::default();
        let active = ActivePolicy::new(&stored, Some(&custom));
        let mut shape = shape(&[
            (0, &[("a", "m"), ("n", "z")]),
            (0, &[("b", "c"), ("d", "e")]),
            (3, &[("a", "k"), ("l", "p"), ("q", "z")]),
        ]);
        let mut jobs = 0;
        while let Some(job) = pick(active, &shape) {
            let taken: Vec<TableShape> = job.taken(&shape).cloned().collect();
            let mut outputs: Vec<TableShape> = vec![];
            for (i, part) in job.parts(&shape).iter().enumerate() {
                let tables: Vec<&TableShape> = part.taken(&shape).collect();
                outputs.push(TableShape {
                    id: 1000 + jobs * 10 + i as u64,
                    first: tables.iter().map(|t| t.first.clone()).min().unwrap(),
                    last: tables.iter().map(|t| t.last.clone()).max().unwrap(),
                    ..TableShape::default()
                });
            }
            assert!(!taken.is_empty());
            apply(&mut shape, &job, outputs).unwrap();
            assert_eq!(shape.check(), Ok(()));
            jobs += 1;
            assert!(jobs < 1000);
        }
        assert!(jobs > 3 && custom.failure().is_none());
    }
}
