//! Synchronization primitives of the crate: locks, atomics and the epoch, replaceable by a model
//! checker or a scheduler.
//!
//! All code of this crate takes its primitives from here, except counters that affect no decision;
//! those may be `std`'s. All code that pins takes its guards from here too. So there is exactly one
//! epoch, and the type of the guard proves it.
//!
//! - Locks have ranks ([`rank`]): debug builds check the order in which they are taken.
//! - Normally these are the locks of `parking_lot`, the atomics of `std`, and `crossbeam-epoch`.
//! - Under `--cfg loom` the atomics and the epoch are loom's. The lock-free protocols use only
//!   these. The epoch is reduced to its contract: deferred functions run when no thread is pinned
//!   any more. All models of the crate run with `RUSTFLAGS="--cfg loom" cargo test -p firn-kv --lib
//!   --release loom`.
//! - Under `--cfg interleave` all of it is `firn-interleave`'s: a whole Db runs by a seeded
//!   schedule (`tests/interleave.rs`).

pub(crate) use crate::util::lock::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
pub(crate) use crate::util::rank;
#[cfg(not(interleave))]
pub(crate) use std::sync::atomic::AtomicBool;

/// Locks of protocols that loom models: loom's under `--cfg loom`, otherwise the ordinary ones.
pub(crate) mod modelled {
    #[cfg(not(loom))]
    pub(crate) use super::{Mutex, MutexGuard};

    #[cfg(loom)]
    pub(crate) use loom::sync::MutexGuard;

    #[cfg(not(loom))]
    use super::Condvar as RawCondvar;
    #[cfg(loom)]
    use loom::sync::Condvar as RawCondvar;

    /// Condition variable for locks of this module.
    pub(crate) struct WakeUp(RawCondvar);

    impl WakeUp {
        pub(crate) fn new() -> WakeUp {
            WakeUp(RawCondvar::new())
        }

        /// Releases the lock until a notification, and takes it again.
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            #[cfg(not(loom))]
            {
                let mut guard = guard;
                self.0.wait(&mut guard);
                guard
            }
            #[cfg(loom)]
            self.0.wait(guard).unwrap()
        }

        /// Wakes all waiting threads.
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Mutex of loom with the interface of the others.
    #[cfg(loom)]
    pub(crate) struct Mutex<T, R = super::rank::Leaf>(
        loom::sync::Mutex<T>,
        std::marker::PhantomData<fn() -> R>,
    );

    #[cfg(loom)]
    impl<T, R> Mutex<T, R> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value), std::marker::PhantomData)
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

#[cfg(interleave)]
pub(crate) use firn_interleave::{
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence},
    yield_now, yield_now as spin_loop,
};

/// Epoch of the scheduler.
#[cfg(interleave)]
pub use firn_interleave::epoch;

#[cfg(not(any(loom, interleave)))]
mod real {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use std::thread::yield_now;

    /// Default collector of `crossbeam-epoch`.
    pub mod epoch {
        use std::cell::Cell;

        thread_local! {
            static FLUSHING: Cell<bool> = const { Cell::new(false) };
        }

        /// A pinned thread. Only [`pin`] creates one, so it always belongs to the one collector
        /// that holds the engine's garbage. A guard of another collector, or
        /// `crossbeam_epoch::unprotected`, has another type.
        #[derive(Debug)]
        pub struct Guard(crossbeam_epoch::Guard);

        /// Pins the calling thread: values that it loads stay alive until it unpins. Pin for a
        /// short time only, because the garbage of all threads waits for it.
        #[inline]
        #[cfg_attr(debug_assertions, track_caller)]
        pub fn pin() -> Guard {
            #[cfg(debug_assertions)]
            crate::util::lock::check_pin();
            Guard(crossbeam_epoch::pin())
        }

        impl Guard {
            #[inline]
            pub(crate) fn defer<R>(&self, f: impl FnOnce() -> R + Send + 'static) {
                self.0.defer(f);
            }

            /// Advances the epoch and frees the garbage that is due. A destructor may release more
            /// and request a flush too. That nested flush is skipped and left to the next one;
            /// otherwise flushes would nest as deeply as the garbage.
            pub(crate) fn flush(&self) {
                // A thread that is ending no longer has this thread-local.
                if FLUSHING.try_with(|f| f.replace(true)) == Ok(false) {
                    self.0.flush();
                    let _ = FLUSHING.try_with(|f| f.set(false));
                }
            }

            #[inline]
            pub(crate) fn repin_after<R>(&mut self, f: impl FnOnce() -> R) -> R {
                self.0.repin_after(f)
            }
        }
    }
}
#[cfg(not(any(loom, interleave)))]
pub(crate) use real::*;

#[cfg(loom)]
mod model {
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use loom::thread::yield_now;
    pub(crate) use loom::thread::yield_now as spin_loop;

    /// Epoch of the models.
    pub mod epoch {
        use loom::sync::Mutex;

        type Deferred = Box<dyn FnOnce() + Send>;

        #[derive(Default)]
        struct State {
            pinned: usize,
            deferred: Vec<Deferred>,
        }

        loom::lazy_static! {
            static ref EPOCH: Mutex<State> = Mutex::new(State::default());
        }

        fn enter() {
            EPOCH.lock().unwrap().pinned += 1;
        }

        fn leave() {
            let mut epoch = EPOCH.lock().unwrap();
            epoch.pinned -= 1;
            let due =
                if epoch.pinned == 0 { std::mem::take(&mut epoch.deferred) } else { Vec::new() };
            drop(epoch);
            due.into_iter().for_each(|f| f());
        }

        /// A pinned thread.
        #[derive(Debug)]
        pub struct Guard(());

        /// Pins the calling thread.
        pub fn pin() -> Guard {
            enter();
            Guard(())
        }

        impl Guard {
            pub(crate) fn defer<R>(&self, f: impl FnOnce() -> R + Send + 'static) {
                EPOCH.lock().unwrap().deferred.push(Box::new(move || drop(f())));
            }

            pub(crate) fn flush(&self) {}

            pub(crate) fn repin_after<R>(&mut self, f: impl FnOnce() -> R) -> R {
                leave();
                let result = f();
                enter();
                result
            }
        }

        impl Drop for Guard {
            fn drop(&mut self) {
                leave();
            }
        }
    }
}
#[cfg(loom)]
pub(crate) use model::*;

/// Model-checks `test`, with at most `preemptions` preemptions of threads that could go on.
#[cfg(all(test, loom))]
pub(crate) fn model(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(preemptions);
    b.check(test);
}
