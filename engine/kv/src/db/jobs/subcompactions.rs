//! Runs large jobs as parallel subcompactions: by the job's owner, and by helper threads that the
//! Db lends it.
//!
//! Invariants:
//! - The key ranges of subcompactions are disjoint and cover all keys. All versions of a key are in
//!   one of them.
//! - The job's owner runs subcompactions itself, so the job ends even without helpers. The owner
//!   finishes after all helpers have exited, so no thread works for a job that is over.
//! - A Db has one helper slot fewer than background threads
//!   ([`SubcompactionSlots`], H1). With one thread or none every job runs on one thread: equal
//!   histories give equal directories.
//! - The owner asks for helpers at each progress check while subcompactions are left to start.
//!   Slots become free when other jobs return them, or after a pause.
//! - A flush is split only if writers wait for it. At its progress checks it takes slots from
//!   compactions, whose helpers yield at theirs. No thread holds a lock at a progress check.
//! - After an error no subcompaction starts, and running ones stop at their next progress check.
//!   The first error is reported. A panic counts as a failure. A panicking owner also waits for its
//!   helpers. So no job succeeds without one of its subcompactions.
//! - A helper of background work has low priority as workers do, and stops for a pause as they do
//!   ([`throttle`](crate::db::scheduler::throttle), T4). A helper that would start in a pause
//!   exits.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{MAX_KEY_LEN, successor};
use crate::compaction::{piece_ends, pieces_of};
use crate::db::scheduler::Scheduler;
use crate::db::scheduler::gate::CloseGate;
use crate::env::{Thread, start_thread};
use crate::iterator::visible::VisibleRange;
use crate::util::sync::{Condvar, Mutex};

use crate::db::inner::DbInner;
use crate::db::scheduler::slots::{FlushPriority, SubcompactionSlots};
use crate::db::versions::tree::Holder;

/// Longest wait for helpers before the state is checked again.
const LOOK: Duration = Duration::from_millis(10);

/// Called by a subcompaction at each progress check, about every 256 KiB of output. An error stops
/// it.
pub type During<'a> = dyn FnMut() -> Result<()> + 'a;

/// Splits all keys into at most `pieces` ranges of about equal bytes. Each mark is a key with the
/// bytes since the previous mark of the same source.
pub fn divide(marks: Vec<(Vec<u8>, u64)>, pieces: usize) -> Vec<VisibleRange> {
    let (mut ranges, mut from) = (vec![], vec![]);
    for key in piece_ends(marks, pieces) {
        // A key of maximal length has no successor, so such a boundary is skipped and one range is
        // saved.
        if let Some(until) = Some(&key).filter(|k| k.len() < MAX_KEY_LEN).and_then(|k| successor(k))
        {
            let from = std::mem::replace(&mut from, until.clone());
            ranges.push(VisibleRange { from, until: Some(until) });
        }
    }
    ranges.push(VisibleRange { from, until: None });
    ranges
}

/// Job that is split into subcompactions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DividedJob {
    /// A flush that writers wait for.
    Flush,
    /// A merging compaction, by the holder of its tables.
    Merge(Holder),
}

/// Job and the state of its subcompactions.
struct DividedWork<T, W> {
    work: W,
    state: Mutex<DividedState<T>>,
    /// Signalled when a helper exits.
    gone: Condvar,
    /// Priority over compactions; `Some` while a flush has subcompactions left to start.
    wanted: Mutex<Option<FlushPriority>>,
}

struct DividedState<T> {
    /// Index of the next subcompaction to start.
    next: usize,
    /// Result of each subcompaction.
    done: Vec<Option<T>>,
    /// Number of subcompactions that are done.
    ended: usize,
    failed: Option<Error>,
    helpers: usize,
}

impl<T, W: Fn(&DbInner, usize, &mut During<'_>) -> Result<T>> DividedWork<T, W> {
    /// Runs subcompactions while any are left to start.
    fn work(&self, inner: &DbInner, during: &mut During<'_>) {
        while let Some(i) = self.begin() {
            let mut step = || {
                self.check()?;
                during()
            };
            match Error::catch("a flush or a merge", || (self.work)(inner, i, &mut step)) {
                Ok(done) => {
                    let mut state = self.state.lock();
                    state.done[i] = Some(done);
                    state.ended += 1;
                }
                Err(e) => self.fail(e),
            }
        }
    }

    fn begin(&self) -> Option<usize> {
        let mut state = self.state.lock();
        if state.failed.is_some() || state.next == state.done.len() {
            return None;
        }
        state.next += 1;
        let (i, is_last) = (state.next - 1, state.next == state.done.len());
        drop(state);
        if is_last {
            self.want_no_more();
        }
        Some(i)
    }

    /// Reports whether one more helper would find a subcompaction to start.
    fn lacks_helper(&self) -> bool {
        let state = self.state.lock();
        state.failed.is_none() && state.helpers + 1 < state.done.len() - state.ended
    }

    fn check(&self) -> Result<()> {
        match &self.state.lock().failed {
            Some(e) => {
                Err(Error::new(ErrorKind::Closed, format!("another subcompaction failed: {e}")))
            }
            None => Ok(()),
        }
    }
}

impl<T, W> DividedWork<T, W> {
    fn fail(&self, e: Error) {
        self.state.lock().failed.get_or_insert(e);
        self.want_no_more();
    }

    fn want_no_more(&self) {
        let wanted = self.wanted.lock().take();
        drop(wanted);
    }
}

/// Waits on drop, also in a panic, until all helpers have exited.
struct WaitForHelpers<'a, T, W>(&'a DividedWork<T, W>);

impl<T, W> Drop for WaitForHelpers<'_, T, W> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        while state.helpers > 0 {
            self.0.gone.wait_for(&mut state, LOOK);
        }
    }
}

/// Counts a helper as running until it is dropped, also in a panic.
struct HelperGuard<T, W>(Arc<DividedWork<T, W>>, Arc<SubcompactionSlots>);

impl<T, W> Drop for HelperGuard<T, W> {
    fn drop(&mut self) {
        self.1.give_back();
        self.0.state.lock().helpers -= 1;
        self.0.gone.notify_all();
    }
}

/// Returns the number of subcompactions for a job over `bytes`, each of at least `least` bytes.
pub fn count_subcompactions(scheduler: &Scheduler, bytes: u64, least: u64) -> usize {
    pieces_of(bytes, least, scheduler.workers())
}

/// Runs `number` subcompactions of a job; `work` runs the one with the given index. `during` is
/// called at each progress check of the caller's own subcompactions, and while the caller waits for
/// helpers. Returns the results in order.
///
/// # Errors
/// Returns the first error of a subcompaction, or of `during`.
pub fn run_divided<T, W>(
    db: &DbInner,
    number: usize,
    job: DividedJob,
    during: &mut During<'_>,
    work: W,
) -> Result<Vec<T>>
where
    T: Send + 'static,
    W: Fn(&DbInner, usize, &mut During<'_>) -> Result<T> + Send + Sync + 'static,
{
    let done = (0..number).map(|_| None).collect();
    let state = DividedState { next: 0, done, ended: 0, failed: None, helpers: 0 };
    let wanted = (job == DividedJob::Flush && number > 1).then(|| db.scheduler.slots().want());
    let pieces = Arc::new(DividedWork {
        work,
        state: Mutex::new(state),
        gone: Condvar::default(),
        wanted: Mutex::new(wanted),
    });
    let mut helpers = vec![];
    let waits = WaitForHelpers(&pieces);
    start_helpers(db, &pieces, job, &mut helpers);
    pieces.work(db, &mut || {
        during()?;
        start_helpers(db, &pieces, job, &mut helpers);
        Ok(())
    });
    loop {
        let mut state = pieces.state.lock();
        if state.helpers > 0 {
            pieces.gone.wait_for(&mut state, LOOK);
        }
        if state.helpers == 0 {
            break;
        }
        drop(state);
        if let Err(e) = during() {
            pieces.fail(e);
        }
    }
    drop(waits);
    helpers.into_iter().for_each(|thread| thread.join());
    let mut state = pieces.state.lock();
    match state.failed.take() {
        Some(e) => Err(e),
        None => {
            let done: Option<Vec<T>> = state.done.drain(..).collect();
            done.ok_or_else(|| Error::new(ErrorKind::Io, "a subcompaction was not done"))
        }
    }
}

/// Starts as many helpers as the job lacks and the Db has slots for.
fn start_helpers<T, W>(
    db: &DbInner,
    pieces: &Arc<DividedWork<T, W>>,
    job: DividedJob,
    helpers: &mut Vec<Box<dyn Thread>>,
) where
    T: Send + 'static,
    W: Fn(&DbInner, usize, &mut During<'_>) -> Result<T> + Send + Sync + 'static,
{
    while pieces.lacks_helper()
        && let Some(helper) = start_helper(db, pieces, job)
    {
        helpers.push(helper);
    }
}

/// Starts one helper thread for a job, if a slot is free.
fn start_helper<T, W>(
    db: &DbInner,
    pieces: &Arc<DividedWork<T, W>>,
    job: DividedJob,
) -> Option<Box<dyn Thread>>
where
    T: Send + 'static,
    W: Fn(&DbInner, usize, &mut During<'_>) -> Result<T> + Send + Sync + 'static,
{
    let inner = db.me.get()?.upgrade()?;
    let taken = match job {
        DividedJob::Flush => db.scheduler.slots().take_for_flush(),
        DividedJob::Merge(_) => db.scheduler.slots().take_for_compaction(),
    };
    if !taken {
        return None;
    }
    pieces.state.lock().helpers += 1;
    let helper = HelperGuard(pieces.clone(), db.scheduler.slots().clone());
    let work = move || match job {
        DividedJob::Flush => helper.0.work(&inner, &mut || Ok(())),
        DividedJob::Merge(holder @ Holder::Caller) => {
            helper.0.work(&inner, &mut || yield_slot(&inner.scheduler, &inner.gate, holder))
        }
        DividedJob::Merge(holder @ Holder::Background) => {
            inner.env.lower_priority();
            if let Some(_running) = inner.scheduler.throttle().begin() {
                helper.0.work(&inner, &mut || yield_slot(&inner.scheduler, &inner.gate, holder));
            }
        }
    };
    // A failed thread start makes the job slower, not impossible.
    start_thread(&*db.env, "firn-helper", work).ok()
}

/// Yields the slot of a compaction's helper to flushes that want slots, and waits during a
/// pause.
fn yield_slot(scheduler: &Scheduler, gate: &CloseGate, holder: Holder) -> Result<()> {
    let is_paused = || holder == Holder::Background && scheduler.throttle().is_paused();
    if !is_paused() && !scheduler.slots().are_wanted() {
        return Ok(());
    }
    scheduler.slots().give_back();
    loop {
        let paused = if is_paused() { scheduler.wait_during_pause(&mut || Ok(())) } else { Ok(()) };
        // Returns at a pause at the latest, because the pause waits for all threads that have
        // not stopped.
        if scheduler.slots().come_back(|| gate.is_closing() || paused.is_err(), is_paused) {
            return paused;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(marks: &[(&str, u64)]) -> Vec<(Vec<u8>, u64)> {
        marks.iter().map(|&(k, bytes)| (k.as_bytes().to_vec(), bytes)).collect()
    }

    fn bounds(ranges: &[VisibleRange]) -> Vec<Option<&[u8]>> {
        let mut from: &[u8] = &[];
        for r in ranges {
            assert_eq!(r.from, from);
            from = r.until.as_deref().unwrap_or_default();
            assert!(from > r.from.as_slice() || r.until.is_none());
        }
        ranges.iter().map(|r| r.until.as_deref()).collect()
    }

    #[test]
    fn ranges_have_as_many_bytes() {
        let sources = marks(&[("b", 10), ("d", 10), ("a", 10), ("c", 10), ("e", 5)]);
        assert_eq!(bounds(&divide(sources.clone(), 1)), [None]);
        assert_eq!(bounds(&divide(sources.clone(), 2)), [Some(&b"c\0"[..]), None]);
        assert_eq!(bounds(&divide(sources, 3)), [Some(&b"b\0"[..]), Some(b"c\0"), None]);
        assert_eq!(bounds(&divide(vec![], 3)), [None]);
    }

    #[test]
    fn one_key_is_not_divided() {
        assert_eq!(bounds(&divide(marks(&[("a", 10), ("a", 10)]), 4)), [Some(&b"a\0"[..]), None]);
        assert_eq!(bounds(&divide(marks(&[("", 10), ("", 0)]), 2)), [None]);
        let longest = vec![(vec![b'x'; MAX_KEY_LEN], 10), (b"y".to_vec(), 10)];
        assert_eq!(bounds(&divide(longest, 2)), [None]);
    }
}
