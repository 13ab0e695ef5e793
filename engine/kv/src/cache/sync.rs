//! The atomics, the lock and the epoch that the cache's protocol is made of, so that a model checker can stand in for them.
//!
//! They are the crate's ([`sync`](crate::base::sync)), but under `--cfg loom` the lock is loom's too.

pub(super) use crate::base::sync::{AtomicPtr, AtomicU32, Ordering, epoch, fence};
#[cfg(not(loom))]
pub(super) use crate::base::sync::{Mutex, MutexGuard};

#[cfg(loom)]
mod model {
    pub(crate) use loom::sync::MutexGuard;

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
