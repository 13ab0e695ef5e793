//! Handles of the engine in Python objects.

use std::ops::Deref;
use std::sync::{PoisonError, RwLock};

use pyo3::{PyResult, Python};

use crate::error::closed;
use crate::merge;

/// A handle that is dropped without the interpreter's lock: the last handle of a store closes it,
/// which waits for the device.
pub struct Handle<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Handle<T> {
    /// Wraps a handle.
    pub fn new(held: T) -> Handle<T> {
        Handle(Some(held))
    }
}

impl<T: Send + 'static> Deref for Handle<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(held) => held,
            None => unreachable!("only drop takes it"),
        }
    }
}

impl<T: Send + 'static> Drop for Handle<T> {
    #[allow(clippy::disallowed_methods)] // a thread that is no store's
    fn drop(&mut self) {
        let held = self.0.take();
        if merge::is_folding() {
            // The interpreter collects garbage on any thread. On a thread of the store, closing
            // would wait for itself.
            std::thread::spawn(move || drop(held));
            return;
        }
        // Python objects are dropped with the interpreter's lock held; otherwise there is nothing
        // to release.
        Python::try_attach(|py| py.detach(|| drop(held)));
    }
}

/// A handle that Python can close.
pub struct Closable<T: Clone + Send + Sync + 'static> {
    open: Handle<RwLock<Option<T>>>,
    /// Its name in messages.
    name: &'static str,
}

impl<T: Clone + Send + Sync + 'static> Closable<T> {
    /// Wraps an open handle.
    pub fn new(name: &'static str, open: T) -> Closable<T> {
        Closable { open: Handle::new(RwLock::new(Some(open))), name }
    }

    /// Returns the handle. The lock is held only here, so that closing does not wait for a call.
    ///
    /// # Errors
    /// It is closed.
    pub fn get(&self) -> PyResult<T> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| closed(self.name))
    }

    /// Closes it, and returns the handle if it was open.
    pub fn take(&self) -> Option<T> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).take()
    }
}
