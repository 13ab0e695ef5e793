//! Background work: queue, worker slots, rate limits, write slowdowns, and the gate that closes the
//! store.

pub mod gate;
pub mod queue;
pub mod slots;
pub mod throttle;
pub mod write_controller;

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::Result;
use crate::db::observe::events::Events;
use crate::env::Env;

use gate::{CloseGate, closed};
use queue::BackgroundQueue;
use slots::SubcompactionSlots;
use throttle::{Account, Throttle};
use write_controller::WriteController;

/// Longest sleep in nanoseconds of a wait for the rate, before the state is checked again.
const SLICE: u64 = 10_000_000;
/// Longest sleep during a pause, before the state is checked again.
const PAUSE_CHECK: Duration = Duration::from_millis(50);

/// Background work of an open store.
pub struct Scheduler {
    env: Arc<dyn Env>,
    gate: Arc<CloseGate>,
    /// Number of worker threads; 0 if callers do the work.
    workers: usize,
    read_only: bool,
    queue: Arc<BackgroundQueue>,
    slots: Arc<SubcompactionSlots>,
    throttle: Throttle,
    writes: WriteController,
}

impl Scheduler {
    /// Creates the scheduler of a store with this number of workers. Compactions read and write at
    /// most `rate` bytes a second.
    pub fn new(
        env: Arc<dyn Env>,
        gate: Arc<CloseGate>,
        events: Arc<Events>,
        queue: Arc<BackgroundQueue>,
        workers: usize,
        read_only: bool,
        rate: Option<u64>,
    ) -> Scheduler {
        Scheduler {
            writes: WriteController::new(env.clone(), events),
            env,
            gate,
            workers,
            read_only,
            queue,
            slots: Arc::new(SubcompactionSlots::new(workers.saturating_sub(1))),
            throttle: Throttle::new(rate),
        }
    }

    /// Returns the queue of background work.
    pub fn queue(&self) -> &Arc<BackgroundQueue> {
        &self.queue
    }

    /// Returns the slots of threads that help with subcompactions.
    pub fn slots(&self) -> &Arc<SubcompactionSlots> {
        &self.slots
    }

    /// Returns the rate limit and the pauses of compactions.
    pub fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// Returns the slowdown of writers.
    #[inline]
    pub fn writes(&self) -> &WriteController {
        &self.writes
    }

    /// Returns the number of worker threads; 0 if callers do the work.
    #[inline]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Reports whether all workers are running. A read-only store has none.
    pub fn has_all_workers(&self) -> bool {
        self.read_only || self.queue.running_workers().count_ones() == self.workers as u32
    }

    /// Charges the work of a compaction for `entries` entries, and waits until the rate allows it.
    /// `during` is called while it waits.
    pub fn wait_for_rate(
        &self,
        account: &mut Account,
        entries: u64,
        during: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let until = self.throttle.count(self.env.monotonic_nanos(), account.take(Some(entries)));
        loop {
            if self.gate.is_closing() {
                return Err(closed());
            }
            during()?;
            let now = self.env.monotonic_nanos();
            // A change of the rate starts a new account.
            let until = until.min(self.throttle.due());
            if now >= until {
                return Ok(());
            }
            self.env.sleep(Duration::from_nanos((until - now).min(SLICE)));
        }
    }

    /// Charges the rest of a compaction; the next compaction waits for it. For an incomplete
    /// compaction, this is the bytes written since its last step.
    pub fn charge_rest(&self, account: &mut Account, whole: bool) {
        let entries = (!whole).then_some(0);
        self.throttle.count(self.env.monotonic_nanos(), account.take(entries));
    }

    /// Waits while there is a pause; `during` is called periodically.
    pub fn wait_during_pause(&self, during: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if !self.throttle.is_paused() {
            return Ok(());
        }
        self.throttle.stop_during_pause(
            || self.gate.is_closing(),
            || {
                during()?;
                // The end of a pause signals, as new work does.
                let mut signals = self.queue.hold();
                if self.throttle.is_paused() {
                    signals.wait_wake(PAUSE_CHECK);
                }
                Ok(())
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::base::error::ErrorKind;
    use crate::env::mem::MemEnv;

    fn scheduler(workers: usize, read_only: bool, rate: Option<u64>) -> Scheduler {
        let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
        let events = Arc::new(Events::open(env.clone(), Path::new("/"), false, None));
        let queue: Arc<BackgroundQueue> = Arc::default();
        let gate = Arc::new(CloseGate::new(env.clone(), events.clone(), queue.clone()));
        Scheduler::new(env, gate, events, queue, workers, read_only, rate)
    }

    #[test]
    fn a_store_without_workers_or_for_reading_lacks_none() {
        assert!(scheduler(0, false, None).has_all_workers());
        assert!(scheduler(2, true, None).has_all_workers());
        let two = scheduler(2, false, None);
        assert!(!two.has_all_workers());
        two.queue().hold().mark_running(0);
        two.queue().hold().mark_running(1);
        assert!(two.has_all_workers());
        two.queue().hold().mark_exited(0);
        assert!(!two.has_all_workers());
    }

    #[test]
    fn compactions_wait_for_the_rate_until_the_store_closes() {
        let s = scheduler(1, false, Some(1 << 20));
        // 8 MiB at 1 MiB a second take 8 seconds, which nobody waits for here.
        let mut account = Account::new(8 << 20, 8);
        let calls = AtomicUsize::new(0);
        let closing = s.wait_for_rate(&mut account, 8, &mut || {
            if calls.fetch_add(1, Ordering::Relaxed) == 2 {
                s.gate.begin_closing();
            }
            Ok(())
        });
        assert_eq!(closing.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(account.passed(), 8 << 20);
        assert_eq!(calls.into_inner(), 3);
    }

    #[test]
    fn a_pause_ends_when_it_is_resumed() {
        let s = scheduler(1, false, None);
        s.wait_during_pause(&mut || panic!("there is no pause")).unwrap();
        s.throttle().pause();
        assert!(s.throttle().begin().is_none(), "no compaction begins in a pause");
        s.wait_during_pause(&mut || {
            s.throttle().resume();
            Ok(())
        })
        .unwrap();
        assert!(s.throttle().begin().is_some());
    }
}
