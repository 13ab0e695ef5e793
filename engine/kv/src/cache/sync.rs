//! The atomics, the lock and the epoch that the cache's protocol is made of, so that a model checker can stand in for them.
//!
//! Normally these are `std`'s atomics, `parking_lot`'s mutex and `crossbeam-epoch`. Under `--cfg loom` they are loom's, with an
//! epoch reduced to its contract: what was deferred runs when nobody is pinned any more.

#[cfg(not(loom))]
mod real {
    pub(crate) use crossbeam_epoch as epoch;
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

    pub(crate) mod epoch {
        use super::Mutex;

        type Deferred = Box<dyn FnOnce() + Send>;

        loom::lazy_static! {
            static ref EPOCH: Mutex<(usize, Vec<Deferred>)> = Mutex::new((0, Vec::new()));
        }

        /// A pinned thread.
        pub struct Guard(());

        pub(crate) fn pin() -> Guard {
            EPOCH.lock().0 += 1;
            Guard(())
        }

        impl Guard {
            pub(crate) fn defer<R>(&self, f: impl FnOnce() -> R + Send + 'static) {
                EPOCH.lock().1.push(Box::new(move || drop(f())));
            }

            pub(crate) fn flush(&self) {}
        }

        impl Drop for Guard {
            fn drop(&mut self) {
                let mut epoch = EPOCH.lock();
                epoch.0 -= 1;
                let due = if epoch.0 == 0 { std::mem::take(&mut epoch.1) } else { Vec::new() };
                drop(epoch);
                due.into_iter().for_each(|f| f());
            }
        }
    }
}
#[cfg(loom)]
pub(super) use model::*;
