//! Limits the rate of compactions, and stops them during a pause
//! ([`throttle`](crate::db::scheduler::throttle), T2 and T3).

use std::time::Duration;

use crate::base::error::Result;

use crate::db::inner::DbInner;
use crate::db::scheduler::gate::closed;
use crate::db::scheduler::throttle::Account;

/// Longest sleep in nanoseconds of a wait for the rate, before the state is checked again.
const SLICE: u64 = 10_000_000;
/// Longest sleep during a pause, before the state is checked again.
const LOOK: Duration = Duration::from_millis(50);

impl DbInner {
    /// Charges the work of a compaction for `entries` entries, and waits until the rate allows it.
    /// `during` is called while it waits.
    pub fn throttle(
        &self,
        account: &mut Account,
        entries: u64,
        during: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let until =
            self.scheduler.throttle.count(self.env.monotonic_nanos(), account.take(Some(entries)));
        loop {
            if self.gate.is_closing() {
                return Err(closed());
            }
            during()?;
            let now = self.env.monotonic_nanos();
            // A change of the rate starts a new account.
            let until = until.min(self.scheduler.throttle.due());
            if now >= until {
                return Ok(());
            }
            self.env.sleep(Duration::from_nanos((until - now).min(SLICE)));
        }
    }

    /// Charges the rest of a compaction; the next compaction waits for it. For an incomplete
    /// compaction, this is the bytes written since its last step.
    pub fn count_rest(&self, account: &mut Account, whole: bool) {
        let entries = (!whole).then_some(0);
        self.scheduler.throttle.count(self.env.monotonic_nanos(), account.take(entries));
    }

    /// Waits while there is a pause; `during` is called periodically.
    pub fn stand_still(&self, during: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if !self.scheduler.throttle.is_paused() {
            return Ok(());
        }
        self.scheduler.throttle.stand_still(
            || self.gate.is_closing(),
            || {
                during()?;
                // The end of a pause signals, as new work does.
                let mut signals = self.scheduler.work.hold();
                if self.scheduler.throttle.is_paused() {
                    signals.wait_wake(LOOK);
                }
                Ok(())
            },
        )
    }
}
