//! A merge keeps to its rate, and stands still while there is a pause
//! ([`throttle`](super::state::throttle), T2 and T3).

use std::time::Duration;

use crate::base::error::Result;

use super::state::core::DbInner;
use super::state::gate::closed;
use super::state::throttle::Account;

/// How long one who waits for the rate sleeps at a time, so that he sees what has changed.
const SLICE: u64 = 10_000_000;
/// How long one who stands still sleeps at a time, so that he sees what has changed.
const LOOK: Duration = Duration::from_millis(50);

impl DbInner {
    /// Counts what a merge has done while it passed so many entries, and waits until that is
    /// allowed; `during` is called while it does.
    pub(super) fn throttle(
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
            // Another rate begins a new account.
            let until = until.min(self.throttle.due());
            if now >= until {
                return Ok(());
            }
            self.env.sleep(Duration::from_nanos((until - now).min(SLICE)));
        }
    }

    /// Counts the rest of a merge; whoever comes next waits for it. Of one that is not whole that
    /// is what it has written since its last step.
    pub(super) fn count_rest(&self, account: &mut Account, whole: bool) {
        let entries = (!whole).then_some(0);
        self.throttle.count(self.env.monotonic_nanos(), account.take(entries));
    }

    /// Stands still as long as there is a pause; `during` is called now and then.
    pub fn stand_still(&self, during: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if !self.throttle.is_paused() {
            return Ok(());
        }
        self.throttle.stand_still(
            || self.gate.is_closing(),
            || {
                during()?;
                // Whoever ends a pause signals, as whoever has work does.
                let mut signals = self.work.hold();
                if self.throttle.is_paused() {
                    signals.wait_wake(LOOK);
                }
                Ok(())
            },
        )
    }
}
