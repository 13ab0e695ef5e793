//! Clock of a store, used for expiration and for the server's timestamps. Tests can set it.

use std::sync::atomic::{AtomicI64, Ordering};

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the microseconds since 1970.
    fn micros(&self) -> i64;
}

/// Clock of the environment in which the store was opened.
pub(super) struct EnvClock(pub std::sync::Arc<dyn firn_kv::Env>);

impl Clock for EnvClock {
    #[inline]
    fn micros(&self) -> i64 {
        self.0.wall_micros() as i64
    }
}

/// A clock that changes only when it is set.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Creates a clock at this microsecond since 1970.
    pub fn new(micros: i64) -> ManualClock {
        ManualClock(AtomicI64::new(micros))
    }

    /// Sets the time.
    pub fn set(&self, micros: i64) {
        self.0.store(micros, Ordering::SeqCst);
    }

    /// Advances the time.
    pub fn advance(&self, micros: i64) {
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Source of strictly increasing timestamps, which follow the clock while it increases.
#[derive(Default)]
pub(super) struct Ticker(AtomicI64);

impl Ticker {
    pub fn next(&self, micros: i64) -> i64 {
        let mut last = self.0.load(Ordering::Relaxed);
        loop {
            let next = micros.max(last.saturating_add(1));
            match self.0.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return next,
                Err(now) => last = now,
            }
        }
    }
}
