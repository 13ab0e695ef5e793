//! Locks with [ranks](crate::util::rank), which check the order in which a thread takes them.
//!
//! They wrap the locks of `parking_lot`, or those of the scheduler under `--cfg interleave`.
//!
//! Debug builds check if the variable `FIRN_CHECK_LOCKS` is set; `.cargo/config.toml` sets it for
//! all runs in this workspace. Other programs may use one Db within a hook of another, and ranks do
//! not distinguish Dbs. In release builds ranks are only types, which cost nothing. Under `--cfg
//! loom` and `--cfg interleave` nothing is checked: there the threads are coroutines of one system
//! thread, and the counts of held locks are thread-local.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[cfg(interleave)]
use firn_interleave as raw;
#[cfg(not(interleave))]
use parking_lot as raw;

use crate::util::rank::{Leaf, LockRank};

/// Locks that a thread holds: a count for each rank.
#[cfg(all(debug_assertions, not(any(loom, interleave))))]
mod held {
    use std::cell::Cell;
    use std::marker::PhantomData;
    use std::sync::LazyLock;

    use crate::util::rank::{Leaf, LockRank, NAMES, may_be_several};

    thread_local! {
        static COUNTS: [Cell<u32>; NAMES.len()] = const { [const { Cell::new(0) }; NAMES.len()] };
    }

    static IS_CHECKED: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("FIRN_CHECK_LOCKS").is_some());

    /// Reports whether a violation panics.
    fn panics() -> bool {
        *IS_CHECKED && !std::thread::panicking()
    }

    /// Token for a lock of this rank that is held or requested.
    pub(super) struct Held<R: LockRank>(PhantomData<R>);

    impl<R: LockRank> Held<R> {
        /// Registers a request for a lock of this rank.
        ///
        /// # Panics
        /// If the thread holds a lock that must be taken after it.
        #[track_caller]
        pub fn ask() -> Held<R> {
            check(R::ORDER, if may_be_several(R::ORDER) { R::ORDER + 1 } else { R::ORDER });
            Held::got()
        }

        /// Registers a lock that was taken without waiting.
        pub fn got() -> Held<R> {
            COUNTS.with(|c| c[R::ORDER].set(c[R::ORDER].get() + 1));
            Held(PhantomData)
        }

        /// Checks that the lock may be released for some time and taken again.
        #[track_caller]
        pub fn ask_again(&self) {
            check(R::ORDER, R::ORDER + 1);
        }
    }

    /// Runs work of another thread on this one, as if this thread held no locks.
    pub fn elsewhere<T>(f: impl FnOnce() -> T) -> T {
        let own: [u32; NAMES.len()] = COUNTS.with(|c| std::array::from_fn(|i| c[i].replace(0)));
        let done = f();
        COUNTS.with(|c| c.iter().zip(own).for_each(|(c, n)| c.set(n)));
        done
    }

    /// Checks that the calling thread may pin the epoch.
    ///
    /// # Panics
    /// If it holds a lock that the freeing of garbage may take.
    #[track_caller]
    pub(crate) fn check_pin() {
        let under_leaf = COUNTS.with(|c| c[Leaf::ORDER].get() > 0);
        assert!(
            !under_leaf || !panics(),
            "the epoch is pinned under a lock under which none is taken (util/rank.rs)"
        );
    }

    impl<R: LockRank> Drop for Held<R> {
        fn drop(&mut self) {
            COUNTS.with(|c| c[R::ORDER].set(c[R::ORDER].get().saturating_sub(1)));
        }
    }

    #[track_caller]
    fn check(wanted: usize, first_wrong: usize) {
        let met = COUNTS.with(|c| (first_wrong..NAMES.len()).find(|&i| c[i].get() > 0));
        if let Some(met) = met.filter(|_| panics()) {
            panic!(
                "the lock {} is asked for under {}, which comes after it (util/rank.rs)",
                NAMES[wanted], NAMES[met]
            );
        }
    }
}

#[cfg(not(all(debug_assertions, not(any(loom, interleave)))))]
mod held {
    use std::marker::PhantomData;

    /// Empty token: nothing is checked.
    pub(super) struct Held<R>(PhantomData<R>);

    impl<R> Held<R> {
        #[inline]
        pub fn ask() -> Held<R> {
            Held(PhantomData)
        }

        #[inline]
        pub fn got() -> Held<R> {
            Held(PhantomData)
        }

        #[inline]
        pub fn ask_again(&self) {}
    }

    /// Runs work of another thread on this one.
    #[inline]
    pub fn elsewhere<T>(f: impl FnOnce() -> T) -> T {
        f()
    }

    const _: () = assert!(
        size_of::<Held<super::Leaf>>() == 0 && !std::mem::needs_drop::<Held<super::Leaf>>()
    );
}

use held::Held;
#[cfg(all(debug_assertions, not(any(loom, interleave))))]
pub(crate) use held::check_pin;
pub use held::elsewhere;

/// Mutex of rank `R`.
pub(crate) struct Mutex<T, R = Leaf> {
    raw: raw::Mutex<T>,
    rank: PhantomData<fn() -> R>,
}

/// Guard of a [`Mutex`].
pub(crate) struct MutexGuard<'a, T, R: LockRank = Leaf> {
    raw: raw::MutexGuard<'a, T>,
    held: Held<R>,
}

impl<T, R: LockRank> Mutex<T, R> {
    /// Creates a lock around a value.
    pub const fn new(value: T) -> Mutex<T, R> {
        Mutex { raw: raw::Mutex::new(value), rank: PhantomData }
    }

    /// Waits for the lock and takes it.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T, R> {
        let held = Held::ask();
        MutexGuard { raw: self.raw.lock(), held }
    }

    /// Takes the lock if it is free.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, R>> {
        self.raw.try_lock().map(|raw| MutexGuard { raw, held: Held::got() })
    }
}

impl<T: Default, R: LockRank> Default for Mutex<T, R> {
    fn default() -> Mutex<T, R> {
        Mutex::new(T::default())
    }
}

impl<T: fmt::Debug, R> fmt::Debug for Mutex<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl<T, R: LockRank> Deref for MutexGuard<'_, T, R> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T, R: LockRank> DerefMut for MutexGuard<'_, T, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.raw
    }
}

/// Condition variable for a lock of any rank. A waiting thread holds no other lock that comes later
/// in the order, because it takes the lock again.
#[derive(Debug, Default)]
pub(crate) struct Condvar(raw::Condvar);

impl Condvar {
    /// Creates a condition variable.
    pub const fn new() -> Condvar {
        Condvar(raw::Condvar::new())
    }

    /// Releases the lock until a notification, and takes it again.
    #[track_caller]
    pub fn wait<T, R: LockRank>(&self, guard: &mut MutexGuard<'_, T, R>) {
        guard.held.ask_again();
        self.0.wait(&mut guard.raw);
    }

    /// Waits like [`wait`](Condvar::wait), for at most `time`. Reports whether the time ran out.
    #[track_caller]
    pub fn wait_for<T, R: LockRank>(
        &self,
        guard: &mut MutexGuard<'_, T, R>,
        time: Duration,
    ) -> bool {
        guard.held.ask_again();
        self.0.wait_for(&mut guard.raw, time).timed_out()
    }

    /// Wakes all waiting threads.
    #[track_caller]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Lock of rank `R` for many readers or one writer.
pub(crate) struct RwLock<T, R = Leaf> {
    raw: raw::RwLock<T>,
    rank: PhantomData<fn() -> R>,
}

/// Read guard of a [`RwLock`].
pub(crate) struct RwLockReadGuard<'a, T, R: LockRank = Leaf> {
    raw: raw::RwLockReadGuard<'a, T>,
    _held: Held<R>,
}

/// Write guard of a [`RwLock`].
pub(crate) struct RwLockWriteGuard<'a, T, R: LockRank = Leaf> {
    raw: raw::RwLockWriteGuard<'a, T>,
    _held: Held<R>,
}

impl<T, R: LockRank> RwLock<T, R> {
    /// Creates a lock around a value.
    pub const fn new(value: T) -> RwLock<T, R> {
        RwLock { raw: raw::RwLock::new(value), rank: PhantomData }
    }

    /// Waits for the lock and takes it for reading.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T, R> {
        let held = Held::ask();
        RwLockReadGuard { raw: self.raw.read(), _held: held }
    }

    /// Waits for the lock and takes it for writing.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T, R> {
        let held = Held::ask();
        RwLockWriteGuard { raw: self.raw.write(), _held: held }
    }

    /// Takes the lock for writing if it is free.
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T, R>> {
        self.raw.try_write().map(|raw| RwLockWriteGuard { raw, _held: Held::got() })
    }
}

impl<T: Default, R: LockRank> Default for RwLock<T, R> {
    fn default() -> RwLock<T, R> {
        RwLock::new(T::default())
    }
}

impl<T, R: LockRank> Deref for RwLockReadGuard<'_, T, R> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T, R: LockRank> Deref for RwLockWriteGuard<'_, T, R> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T, R: LockRank> DerefMut for RwLockWriteGuard<'_, T, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.raw
    }
}

#[cfg(all(test, debug_assertions, not(any(loom, interleave))))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::util::rank::{Catalog, Flushing, Generation, Write};

    /// Returns the panic message if `f` panics.
    fn refused(f: impl FnOnce()) -> Option<String> {
        let e = catch_unwind(AssertUnwindSafe(f)).err()?;
        Some(*e.downcast::<String>().unwrap())
    }

    #[test]
    fn locks_that_are_taken_the_wrong_way_round_are_refused() {
        let (catalog, write): (Mutex<(), Catalog>, RwLock<(), Write>) = Default::default();
        let (one, other): (Mutex<()>, Mutex<()>) = Default::default();
        {
            let _c = catalog.lock();
            let _w = write.read();
            let _leaf = one.lock();
        }
        let words =
            "the lock Catalog is asked for under Write, which comes after it (util/rank.rs)";
        let _w = write.write();
        assert_eq!(refused(|| drop(catalog.lock())).as_deref(), Some(words));
        assert!(refused(|| drop(write.read())).is_some(), "a second lock of its rank");
        assert!(refused(|| drop(catalog.try_lock())).is_none(), "a try_lock does not wait");
        assert!(refused(|| drop((one.lock(), other.lock()))).is_some(), "a leaf under a leaf");
        assert!(refused(|| drop(one.lock())).is_none());
        drop(_w);
        assert!(refused(|| drop(catalog.lock())).is_none(), "nothing is held any more");
    }

    #[test]
    fn what_is_tried_counts_and_memtables_of_several_trees_are_flushed_at_once() {
        let (one, other): (Mutex<(), Flushing>, Mutex<(), Flushing>) = Default::default();
        let catalog: Mutex<(), Catalog> = Default::default();
        let both = (one.lock(), other.lock());
        let tried = catalog.try_lock();
        drop(both);
        assert!(refused(|| drop(one.lock())).is_some(), "under a lock from try_lock");
        drop(tried);
        drop(one.lock());
    }

    #[test]
    fn nobody_pins_the_epoch_under_a_leaf() {
        let (write, leaf): (Mutex<(), Write>, Mutex<()>) = Default::default();
        let _w = write.lock();
        assert!(refused(|| drop(crate::util::epoch::pin())).is_none());
        let _leaf = leaf.lock();
        assert!(catch_unwind(|| drop(crate::util::epoch::pin())).is_err());
    }

    #[test]
    fn nobody_waits_under_a_lock_that_comes_later() {
        let (generation, leaf): (Mutex<(), Generation>, Mutex<()>) = Default::default();
        let changed = Condvar::new();
        let mut g = generation.lock();
        assert!(changed.wait_for(&mut g, Duration::from_nanos(1)));
        let _leaf = leaf.lock();
        let wait = || assert!(!changed.wait_for(&mut g, Duration::from_nanos(1)));
        assert!(refused(wait).is_some());
    }
}
