//! An `Arc` that can be replaced while it is read; it holds the current view. A module with
//! `unsafe` code.
//!
//! The safety argument:
//! 1. The word always holds one counted reference, from `Arc::into_raw`. A replacement swaps one
//!    for another.
//! 2. The replaced reference is dropped after the epoch. So a value loaded by a pinned reader stays
//!    alive, with a count of at least one, until the reader unpins. That makes `&'g T` sound, and
//!    an increment of the count too.
//! 3. A replacement releases and a load acquires, so a reader sees the whole value.
//! 4. All guards must belong to one collector. The type of the guard ensures that (`sync`).
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::util::sync::epoch::{self, Guard};
use crate::util::sync::{AtomicPtr, Ordering};

#[cfg(all(test, loom))]
mod loom_tests;

/// An atomically replaceable `Arc<T>`. A read under a pinned epoch costs one load, without a lock
/// or a reference count.
pub struct Shared<T: Send + Sync + 'static> {
    word: AtomicPtr<T>,
    owns: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> Shared<T> {
    /// Creates the pointer with `value`.
    pub fn new(value: Arc<T>) -> Self {
        Shared { word: AtomicPtr::new(Arc::into_raw(value).cast_mut()), owns: PhantomData }
    }

    /// Returns the current value, valid as long as `guard` is pinned.
    #[inline]
    pub fn load<'g>(&self, _guard: &'g Guard) -> &'g T {
        // SAFETY: never null (1), alive until unpinned (2), published whole (3).
        unsafe { &*self.word.load(Ordering::Acquire) }
    }

    /// Returns a counted reference to the current value, for a caller that is already pinned.
    #[inline]
    pub fn get_arc(&self, _guard: &Guard) -> Arc<T> {
        let raw = self.word.load(Ordering::Acquire);
        // SAFETY: `raw` is from `Arc::into_raw` (1) and its count is at least one while we are
        // pinned (2).
        unsafe {
            Arc::increment_strong_count(raw);
            Arc::from_raw(raw)
        }
    }

    /// Returns a counted reference to the current value.
    pub fn load_full(&self) -> Arc<T> {
        self.get_arc(&epoch::pin())
    }

    /// Replaces the current value with `value`. The old value is released after the epoch.
    /// Concurrent callers must agree among themselves on the order.
    pub fn replace(&self, value: Arc<T>) {
        let old = self.word.swap(Arc::into_raw(value).cast_mut(), Ordering::AcqRel);
        // SAFETY: the word's reference is ours now (1); it is dropped only after the epoch (2).
        let old = unsafe { Arc::from_raw(old) };
        let guard = epoch::pin();
        guard.defer(move || drop(old));
        guard.flush();
    }
}

impl<T: Send + Sync + 'static> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the word's reference is ours (1). A reader may still be pinned with a `&T`, so it
        // is dropped after the epoch (2).
        let last = unsafe { Arc::from_raw(self.word.load(Ordering::Relaxed)) };
        let guard = epoch::pin();
        guard.defer(move || drop(last));
        guard.flush();
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&*self.load_full()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts itself while alive. Its two numbers must always agree.
    struct Probe(Arc<AtomicUsize>, Box<u64>, Box<u64>);

    impl Probe {
        fn new(alive: &Arc<AtomicUsize>, n: u64) -> Arc<Probe> {
            alive.fetch_add(1, Ordering::Relaxed);
            Arc::new(Probe(alive.clone(), Box::new(n), Box::new(!n)))
        }

        fn check(&self) -> u64 {
            assert_eq!(*self.1, !*self.2);
            *self.1
        }
    }

    impl Drop for Probe {
        fn drop(&mut self) {
            *self.1 = 0;
            *self.2 = 0;
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Advances the epoch until `done`. Other tests of the process share the collector and may be
    /// pinned.
    fn eventually(done: impl Fn() -> bool) -> bool {
        // Other tests of the process pin the epoch too, and may not run for some time.
        (0..if cfg!(miri) { 100_000 } else { 10_000_000 }).any(|_| {
            epoch::pin().flush();
            std::thread::yield_now();
            done()
        })
    }

    #[test]
    fn replaced_values_live_as_long_as_they_are_seen() {
        let alive = Arc::new(AtomicUsize::new(0));
        let shared = Shared::new(Probe::new(&alive, 1));
        let guard = epoch::pin();
        let first = shared.load(&guard);
        let kept = shared.get_arc(&guard);
        shared.replace(Probe::new(&alive, 2));
        assert_eq!((first.check(), shared.load(&guard).check()), (1, 2));
        drop(kept);
        assert_eq!(first.check(), 1, "pinned");
        drop(guard);
        assert!(eventually(|| alive.load(Ordering::Relaxed) == 1));
        let full = shared.load_full();
        drop(shared);
        assert_eq!(full.check(), 2);
        drop(full);
        assert!(eventually(|| alive.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn values_within_values_go_however_many_have_gathered() {
        let alive = Arc::new(AtomicUsize::new(0));
        let of = |n| Arc::new(Shared::new(Probe::new(&alive, n)));
        let outer = Shared::new(of(0));
        let guard = epoch::pin();
        (1..if cfg!(miri) { 100 } else { 20_000 }).for_each(|n| outer.replace(of(n)));
        drop(guard);
        drop(outer);
        assert!(eventually(|| alive.load(Ordering::Relaxed) == 0));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "an application's own threads")]
    fn readers_beside_a_writer_see_whole_values_in_order() {
        let alive = Arc::new(AtomicUsize::new(0));
        let shared = Shared::new(Probe::new(&alive, 0));
        let last = if cfg!(miri) { 30 } else { 20_000 };
        std::thread::scope(|s| {
            for counted in [false, true] {
                let shared = &shared;
                s.spawn(move || {
                    let mut seen = 0;
                    while seen < last {
                        let now = if counted {
                            shared.load_full().check()
                        } else {
                            shared.load(&epoch::pin()).check()
                        };
                        assert!(now >= seen);
                        seen = now;
                    }
                });
            }
            (1..=last).for_each(|n| shared.replace(Probe::new(&alive, n)));
        });
        drop(shared);
        assert!(eventually(|| alive.load(Ordering::Relaxed) == 0));
    }
}
