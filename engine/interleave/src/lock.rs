//! Locks with `parking_lot`'s interface.
//!
//! Each wraps one of `parking_lot` and acquires it by trying: a thread of a run that fails waits
//! for a wakeup of the lock's address.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::run::{in_run, point, wait, wake};

/// A mutex.
#[derive(Debug, Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

/// Guard of a mutex.
pub struct MutexGuard<'a, T> {
    inner: Option<parking_lot::MutexGuard<'a, T>>,
    of: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// Creates a mutex with a value.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(parking_lot::Mutex::new(value))
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[track_caller]
    fn take(&self) -> parking_lot::MutexGuard<'_, T> {
        if !in_run() {
            return self.0.lock();
        }
        point();
        loop {
            match self.0.try_lock() {
                Some(g) => return g,
                None => drop(wait(self.key(), None)),
            }
        }
    }

    /// Waits for the mutex.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { inner: Some(self.take()), of: self }
    }

    /// Acquires the mutex if it is free.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        point();
        self.0.try_lock().map(|g| MutexGuard { inner: Some(g), of: self })
    }

    /// Returns the value; the exclusive reference makes locking unnecessary.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

const HELD: &str = "a guard lacks its lock only while it waits";

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().unwrap_or_else(|| unreachable!("{HELD}"))
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().unwrap_or_else(|| unreachable!("{HELD}"))
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.inner.take().is_some() {
            wake(self.of.key(), true);
        }
    }
}

/// Result of a timed wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Reports whether the wait timed out.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// Creates a condition variable.
    pub const fn new() -> Condvar {
        Condvar(parking_lot::Condvar::new())
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[track_caller]
    fn wait_until_woken<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        time: Option<Duration>,
    ) -> WaitTimeoutResult {
        if !in_run() {
            let inner = guard.inner.as_mut().unwrap_or_else(|| unreachable!("{HELD}"));
            return match time {
                Some(time) => WaitTimeoutResult(self.0.wait_for(inner, time).timed_out()),
                None => {
                    self.0.wait(inner);
                    WaitTimeoutResult(false)
                }
            };
        }
        guard.inner = None;
        wake(guard.of.key(), true);
        let woken = wait(self.key(), time);
        guard.inner = Some(guard.of.take());
        WaitTimeoutResult(!woken)
    }

    /// Releases the mutex until a notification, and acquires it again.
    #[track_caller]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_until_woken(guard, None);
    }

    /// As [`wait`](Condvar::wait), at most for `time`.
    #[track_caller]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        self.wait_until_woken(guard, Some(time))
    }

    /// Wakes one waiting thread.
    #[track_caller]
    pub fn notify_one(&self) {
        self.0.notify_one();
        wake(self.key(), false);
        point();
    }

    /// Wakes all waiting threads.
    #[track_caller]
    pub fn notify_all(&self) {
        self.0.notify_all();
        wake(self.key(), true);
        point();
    }
}

/// A reader-writer lock.
#[derive(Debug, Default)]
pub struct RwLock<T>(parking_lot::RwLock<T>);

/// Guard for reading.
pub struct RwLockReadGuard<'a, T> {
    inner: Option<parking_lot::RwLockReadGuard<'a, T>>,
    key: usize,
}

/// Guard for writing.
pub struct RwLockWriteGuard<'a, T> {
    inner: Option<parking_lot::RwLockWriteGuard<'a, T>>,
    key: usize,
}

impl<T> RwLock<T> {
    /// Creates a lock with a value.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(parking_lot::RwLock::new(value))
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits for read access.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let key = self.key();
        if !in_run() {
            return RwLockReadGuard { inner: Some(self.0.read()), key };
        }
        point();
        loop {
            match self.0.try_read() {
                Some(g) => return RwLockReadGuard { inner: Some(g), key },
                None => drop(wait(key, None)),
            }
        }
    }

    /// Waits for write access.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let key = self.key();
        if !in_run() {
            return RwLockWriteGuard { inner: Some(self.0.write()), key };
        }
        point();
        loop {
            match self.0.try_write() {
                Some(g) => return RwLockWriteGuard { inner: Some(g), key },
                None => drop(wait(key, None)),
            }
        }
    }

    /// Acquires read access if no writer has the lock.
    #[track_caller]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        point();
        self.0.try_read().map(|g| RwLockReadGuard { inner: Some(g), key: self.key() })
    }

    /// Acquires write access if the lock is free.
    #[track_caller]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        point();
        self.0.try_write().map(|g| RwLockWriteGuard { inner: Some(g), key: self.key() })
    }

    /// Returns the value; the exclusive reference makes locking unnecessary.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().unwrap_or_else(|| unreachable!("{HELD}"))
    }
}

impl<T> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.inner = None;
        wake(self.key, true);
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().unwrap_or_else(|| unreachable!("{HELD}"))
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().unwrap_or_else(|| unreachable!("{HELD}"))
    }
}

impl<T> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.inner = None;
        wake(self.key, true);
    }
}
