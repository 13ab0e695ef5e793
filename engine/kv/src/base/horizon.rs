//! The horizon: the newest sequence number that readers may see. Writers move it on in the order of
//! their numbers.
//!
//! Invariants:
//! - H1: it only grows, and moves over whole groups of numbers: a reader sees all of a batch or
//!   none.
//! - H2: [`publish`](Horizon::publish) releases and [`now`](Horizon::now) acquires, and each
//!   publisher has acquired what the ones before it released; so whoever sees a number sees
//!   everything that was done before that number or a lower one was published.
//!
//! `loom_tests` enumerates it together with the view's pointer.

use super::key::Seq;
use super::sync::{AtomicU64, Ordering, spin_loop, yield_now};

#[cfg(all(test, loom))]
mod loom_tests;

/// The newest sequence number that may be read.
#[derive(Debug)]
pub struct Horizon(AtomicU64);

impl Horizon {
    /// Everything up to `seq` may be read.
    pub fn new(seq: Seq) -> Self {
        Horizon(AtomicU64::new(seq))
    }

    /// Everything up to `seq` may be read from now on: what an opening found, before there are
    /// readers.
    pub fn start(&self, seq: Seq) {
        self.0.store(seq, Ordering::Release);
    }

    /// The newest sequence number that may be read.
    #[inline]
    pub fn now(&self) -> Seq {
        self.0.load(Ordering::Acquire)
    }

    /// Waits until every number below `first` may be read. Their writers need nothing from the
    /// caller, so this is short.
    #[inline]
    pub fn wait_below(&self, first: Seq) {
        let mut tries = 0u32;
        while self.now() + 1 != first {
            tries += 1;
            if tries < 64 { spin_loop() } else { yield_now() }
        }
    }

    /// Lets the `count` numbers from `first` on be read, after all lower ones.
    #[inline]
    pub fn publish(&self, first: Seq, count: u64) {
        self.wait_below(first);
        self.0.store(first + count - 1, Ordering::Release);
    }
}
