//! The clock of a store: what expiry and the server's timestamps go by. Tests set it.

use std::sync::atomic::{AtomicI64, Ordering};

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since 1970.
    fn micros(&self) -> i64;
}

/// The clock of the environment that the store was opened in.
pub(super) struct EnvClock(pub std::sync::Arc<dyn firn_kv::Env>);

impl Clock for EnvClock {
    #[inline]
    fn micros(&self) -> i64 {
        self.0.wall_micros() as i64
    }
}

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Stands at this microsecond since 1970.
    pub fn new(micros: i64) -> ManualClock {
        ManualClock(AtomicI64::new(micros))
    }

    /// Puts it there.
    pub fn set(&self, micros: i64) {
        self.0.store(micros, Ordering::SeqCst);
    }

    /// Puts it forward.
    pub fn advance(&self, micros: i64) {
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Timestamps that grow strictly, and keep to the clock where it grows too.
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
