//! The atomics, the lock and the epoch that the cache's protocol is made of, so that a model checker can stand in for them.
//!
//! Normally these are `std`'s atomics and `parking_lot`'s mutex; under `--cfg loom` they are loom's. The epoch is the crate's one
//! ([`sync`](crate::base::sync)).

pub(super) use crate::base::sync::epoch;

#[cfg(not(loom))]
mod real {
    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering, fence};
}
#[cfg(not(loom))]
pub(super) use real::*;

#[cfg(loom)]
mod model {
    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, Ordering, fence};

    /// loom's mutex with `parking_lot`'s interface.
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}
#[cfg(loom)]
pub(super) use model::*;
