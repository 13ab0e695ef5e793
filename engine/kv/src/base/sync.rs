//! What threads meet in: locks, atomics, the epoch, and the start of threads; so that a model
//! checker or a scheduler can stand in for it. All code of this crate takes from here what it
//! synchronises with (counters that nobody decides by may be `std`'s), and all that pins takes its
//! guards from here, so that there is one epoch only, and the type of the guard says so.
//!
//! - Locks have ranks ([`rank`]): debug builds check the order in which they are taken.
//! - Normally these are `parking_lot`'s locks, `std`'s atomics and `crossbeam-epoch`.
//! - Under `--cfg loom` the atomics and the epoch, which the lock-free protocols are made of, are
//!   loom's, the epoch reduced to its contract: what was deferred runs when nobody is pinned any
//!   more. All models of the crate run with `RUSTFLAGS="--cfg loom" cargo test -p firn-kv --lib
//!   --release loom`.
//! - Under `--cfg interleave` all of it is `firn-interleave`'s: a whole Db runs by a seeded
//!   schedule (`tests/interleave.rs`).

pub(crate) use super::lock::{Condvar, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
pub(crate) use super::rank;
#[cfg(not(interleave))]
pub(crate) use std::sync::atomic::AtomicBool;

/// The lock of protocols that loom models: loom's under `--cfg loom`, otherwise the one that
/// everything takes.
pub(crate) mod modelled {
    #[cfg(not(loom))]
    pub(crate) use super::{Mutex, MutexGuard};

    #[cfg(loom)]
    pub(crate) use loom::sync::MutexGuard;

    #[cfg(not(loom))]
    use super::Condvar as RawCondvar;
    #[cfg(loom)]
    use loom::sync::Condvar as RawCondvar;

    /// A condition to wait for, under a lock of these.
    pub(crate) struct WakeUp(RawCondvar);

    impl WakeUp {
        pub(crate) fn new() -> WakeUp {
            WakeUp(RawCondvar::new())
        }

        /// Gives the lock up until somebody notifies, and takes it again.
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

        /// Lets all who wait go on.
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// loom's mutex with the interface of the others.
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

/// The scheduler's epoch.
#[cfg(interleave)]
pub use firn_interleave::epoch;

#[cfg(not(any(loom, interleave)))]
mod real {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use std::thread::yield_now;

    /// `crossbeam-epoch`'s default collector.
    pub mod epoch {
        use std::cell::Cell;

        thread_local! {
            static FLUSHING: Cell<bool> = const { Cell::new(false) };
        }

        /// A pinned thread. Only [`pin`] makes one, so it is always of the one collector, whose
        /// garbage the engine's is; a guard of another, or `crossbeam_epoch::unprotected`, is of
        /// another type.
        #[derive(Debug)]
        pub struct Guard(crossbeam_epoch::Guard);

        /// Pins the calling thread: what it loads meanwhile stays. Keep it short; everybody's
        /// garbage waits for it.
        #[inline]
        #[cfg_attr(debug_assertions, track_caller)]
        pub fn pin() -> Guard {
            #[cfg(debug_assertions)]
            crate::base::lock::check_pin();
            Guard(crossbeam_epoch::pin())
        }

        impl Guard {
            #[inline]
            pub(crate) fn defer<R>(&self, f: impl FnOnce() -> R + Send + 'static) {
                self.0.defer(f);
            }

            /// Lets the epoch move on and what is due go. What goes may let go of more, and ask for
            /// a flush in its turn: that one is left to the next, else flushes would be nested as
            /// deep as there is garbage.
            pub(crate) fn flush(&self) {
                // A thread that ends has no more of this.
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

    /// The epoch of the models.
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

/// A model of `test`, bounded: at most so many times a thread is taken off its core where it would
/// not have to wait.
#[cfg(all(test, loom))]
pub(crate) fn model(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(preemptions);
    b.check(test);
}
