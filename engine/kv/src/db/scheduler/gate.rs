//! Controls whether an open store accepts calls. The state is open; read-only, from the start or
//! since a failure; closing; or closed.
//!
//! Invariants:
//! - The state never moves back toward open.
//! - The first failure is recorded, and all later calls return that one.
//! - The holder of a permit may write files of the store. Closing waits until all permits are
//!   dropped.

use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::util::sync::{AtomicBool, AtomicU64, Mutex, Ordering, rank};

use crate::db::observe::events::Events;
use crate::db::scheduler::queue::BackgroundQueue;
use crate::env::Env;

/// State that decides whether a store accepts calls.
pub struct CloseGate {
    env: Arc<dyn Env>,
    events: Arc<Events>,
    work: Arc<BackgroundQueue>,
    closing: AtomicBool,
    closed: AtomicBool,
    /// Number of permits in use.
    permits: AtomicU64,
    /// First failure after which the store is read-only.
    first_failure: Mutex<Option<Error>, rank::FirstFailure>,
    /// Whether writes are refused. Can be read without the lock of `first_failure`.
    is_read_only_by_error: AtomicBool,
}

/// Permission to write files of the store. Closing waits until it is dropped.
pub struct WritePermit<'a>(&'a CloseGate);

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        self.0.permits.fetch_sub(1, Ordering::SeqCst);
        if self.0.is_closing() {
            self.0.work.signal_done();
        }
    }
}

impl CloseGate {
    /// Creates the gate of an open store. Failures are reported to `events`; waiters of `work` are
    /// woken.
    pub fn new(env: Arc<dyn Env>, events: Arc<Events>, work: Arc<BackgroundQueue>) -> CloseGate {
        CloseGate {
            env,
            events,
            work,
            closing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            permits: AtomicU64::new(0),
            first_failure: Mutex::new(None),
            is_read_only_by_error: AtomicBool::new(false),
        }
    }

    /// Returns an error in a child process made by `fork()`: the store is its parent's. Called
    /// before locks are taken, which a thread of the parent may have held.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.env.is_forked() { Err(forked()) } else { Ok(()) }
    }

    /// Returns an error if the store accepts no writes.
    #[inline]
    pub fn check_writable(&self) -> Result<()> {
        if self.is_read_only_by_error.load(Ordering::Relaxed) {
            return Err(self.read_only_cause());
        }
        Ok(())
    }

    /// Returns the error for a write to a store that accepts none.
    #[cold]
    pub fn read_only_cause(&self) -> Error {
        match &*self.first_failure.lock() {
            _ if self.is_closed() => closed(),
            Some(e) if e.kind() == ErrorKind::ReadOnly => e.clone(),
            Some(e) => Error::new(
                ErrorKind::ReadOnly,
                format!("the store has been read-only since a failure: {e}"),
            ),
            None => opened_read_only(),
        }
    }

    /// Makes the store read-only because of `e`, and returns the error for the caller. The first
    /// cause is remembered and reported, before any call is refused for it.
    pub fn fail(&self, e: Error) -> Error {
        {
            let mut first_failure = self.first_failure.lock();
            if first_failure.is_none() {
                self.events.note(|| Event::BecameReadOnly { error: e.clone() });
                *first_failure = Some(e.clone());
                self.is_read_only_by_error.store(true, Ordering::Relaxed);
            }
        }
        self.work.wake_waiting();
        // A lack of space that makes the store read-only is not transient: the caller must not
        // assume that the call did nothing.
        if e.is_transient() { self.read_only_cause() } else { e }
    }

    /// Records work that lacked space or another resource, and wakes threads that wait for it. Any
    /// other error is returned.
    pub fn postpone(&self, e: Error) -> Result<()> {
        if !e.is_transient() {
            return Err(e);
        }
        self.check_writable()?;
        if self.work.postponed().lock().note(&e) {
            self.events.note(|| Event::Postponed { error: e.clone() });
        }
        self.work.signal_done();
        Ok(())
    }

    /// Makes the store read-only from the start.
    pub fn set_read_only(&self) {
        *self.first_failure.lock() = Some(opened_read_only());
        self.refuse_writes();
    }

    /// Refuses writes from now on. Their error is the first failure, or that of a closed store.
    pub fn refuse_writes(&self) {
        self.is_read_only_by_error.store(true, Ordering::Relaxed);
    }

    /// Issues a permit to write files.
    ///
    /// # Errors
    /// `Closed` once the store is closing.
    pub fn acquire_permit(&self) -> Result<WritePermit<'_>> {
        self.permits.fetch_add(1, Ordering::SeqCst);
        let acquire_permit = WritePermit(self);
        // Sequentially consistent order: either this load sees the closing, or closing sees the
        // permit and waits for it.
        if self.closing.load(Ordering::SeqCst) { Err(closed()) } else { Ok(acquire_permit) }
    }

    /// Reports whether any permit is in use.
    pub fn has_permits(&self) -> bool {
        self.permits.load(Ordering::SeqCst) > 0
    }

    /// Reports whether the store is closing or closed.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Reports whether the store is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns an error if the store is closed.
    pub fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// Begins closing: no new permits are given.
    pub fn begin_closing(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Marks the store as closed.
    pub fn set_closed(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// Returns the error for a call to a store that is closing or closed.
#[cold]
pub fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store has been closed")
}

/// Returns the error for a write to a store that was opened read-only.
#[cold]
pub fn opened_read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the store was opened read-only; open it for writing")
}

#[cold]
fn forked() -> Error {
    let words = "this process was made by fork(), and the store belongs to the one that opened it; open stores after the fork";
    Error::new(ErrorKind::ReadOnly, words)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::env::mem::MemEnv;

    fn gate() -> CloseGate {
        let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
        let events = Arc::new(Events::open(env.clone(), Path::new("/"), false, None));
        CloseGate::new(env, events, Arc::default())
    }

    fn error(kind: ErrorKind, words: &str) -> Error {
        Error::new(kind, words.to_owned())
    }

    #[test]
    fn the_first_failure_is_reported_to_all_later_writers() {
        let gate = gate();
        gate.check_writable().unwrap();
        let first = gate.fail(error(ErrorKind::Corruption, "first"));
        assert_eq!(first.kind(), ErrorKind::Corruption);
        gate.fail(error(ErrorKind::Io, "second"));
        let refused = gate.check_writable().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly);
        assert!(refused.to_string().contains("first"), "{refused}");
    }

    #[test]
    fn a_lack_of_space_that_ends_writing_is_no_longer_transient() {
        let e = gate().fail(error(ErrorKind::NoSpace, "full"));
        assert!(!e.is_transient() && e.to_string().contains("full"), "{e}");
    }

    #[test]
    fn only_transient_failures_are_postponed() {
        let gate = gate();
        gate.postpone(error(ErrorKind::NoSpace, "full")).unwrap();
        assert_eq!(gate.work.postponed().lock().check(0).unwrap_err().kind(), ErrorKind::NoSpace);
        let damaged = gate.postpone(error(ErrorKind::Corruption, "damaged")).unwrap_err();
        assert_eq!(damaged.kind(), ErrorKind::Corruption);
        gate.fail(damaged);
        // A read-only store postpones nothing.
        assert!(gate.postpone(error(ErrorKind::NoSpace, "full")).is_err());
    }

    #[test]
    fn a_closing_store_issues_no_permits_and_waits_for_those_issued() {
        let gate = gate();
        let permit = gate.acquire_permit().unwrap();
        gate.begin_closing();
        assert!(gate.has_permits());
        assert_eq!(gate.acquire_permit().err().unwrap().kind(), ErrorKind::Closed);
        drop(permit);
        assert!(!gate.has_permits());
        gate.set_closed();
        assert_eq!(gate.check_open().unwrap_err().kind(), ErrorKind::Closed);
    }
}
