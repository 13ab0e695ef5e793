//! The atomics and the epoch that the engine's lock-free protocols are made of, so that a model checker can stand in for them.
//!
//! Normally these are `std`'s atomics and `crossbeam-epoch`. Under `--cfg loom` they are loom's, with an epoch reduced to its contract:
//! what was deferred runs when nobody is pinned any more. All code of this crate that pins takes its guards from here, so that there is
//! one epoch only, and the type of the guard says so.
//!
//! All models of the crate run with
//! `RUSTFLAGS="--cfg loom" cargo test -p firn-kv --lib --release loom`.

#[cfg(not(loom))]
mod real {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
    pub(crate) use std::thread::yield_now;

    /// `crossbeam-epoch`'s default collector.
    pub mod epoch {
        /// A pinned thread. Only [`pin`] makes one, so it is always of the one collector, whose garbage the engine's is; a guard of
        /// another, or `crossbeam_epoch::unprotected`, is of another type.
        pub struct Guard(crossbeam_epoch::Guard);

        /// Pins the calling thread: what it loads meanwhile stays. Keep it short; everybody's garbage waits for it.
        #[inline]
        pub fn pin() -> Guard {
            Guard(crossbeam_epoch::pin())
        }

        impl Guard {
            #[inline]
            pub(crate) fn defer<R>(&self, f: impl FnOnce() -> R + Send + 'static) {
                self.0.defer(f);
            }

            #[inline]
            pub(crate) fn flush(&self) {
                self.0.flush();
            }

            #[inline]
            pub(crate) fn repin_after<R>(&mut self, f: impl FnOnce() -> R) -> R {
                self.0.repin_after(f)
            }
        }
    }
}
#[cfg(not(loom))]
pub(crate) use real::*;

#[cfg(loom)]
mod model {
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
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
            let due = if epoch.pinned == 0 { std::mem::take(&mut epoch.deferred) } else { Vec::new() };
            drop(epoch);
            due.into_iter().for_each(|f| f());
        }

        /// A pinned thread.
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

/// A model of `test`, bounded: at most so many times a thread is taken off its core where it would not have to wait.
#[cfg(all(test, loom))]
pub(crate) fn model(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(preemptions);
    b.check(test);
}
