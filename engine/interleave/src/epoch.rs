//! Epoch-based reclamation reduced to its contract: deferred functions run when no thread is pinned
//! any more.

use crate::run::{epoch, in_run};

type DeferredCall = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct EpochState {
    pinned: usize,
    deferred: Vec<DeferredCall>,
}

fn enter() -> bool {
    if in_run() {
        epoch(|s| s.pinned += 1);
    }
    in_run()
}

fn leave() {
    let due = epoch(|s| {
        s.pinned -= 1;
        if s.pinned == 0 { std::mem::take(&mut s.deferred) } else { vec![] }
    });
    due.into_iter().for_each(|f| f());
}

/// A pinned thread.
pub struct Guard(Pinned);

enum Pinned {
    /// In the epoch of the run.
    Here,
    /// Outside of a run, pinned threads are unknown, so deferred functions never run.
    Outside,
}

/// Pins the calling thread.
#[inline]
pub fn pin() -> Guard {
    Guard(if enter() { Pinned::Here } else { Pinned::Outside })
}

impl Guard {
    /// Runs `f` when no currently pinned thread is pinned any more.
    pub fn defer<R>(&self, f: impl FnOnce() -> R + Send + 'static) {
        match self.0 {
            Pinned::Here => epoch(|s| s.deferred.push(Box::new(move || drop(f())))),
            Pinned::Outside => std::mem::forget(f),
        }
    }

    /// Advances the epoch; a no-op here.
    pub fn flush(&self) {}

    /// Runs `f` unpinned.
    pub fn repin_after<R>(&mut self, f: impl FnOnce() -> R) -> R {
        match self.0 {
            Pinned::Outside => f(),
            Pinned::Here => {
                leave();
                let result = f();
                enter();
                result
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Pinned::Here = self.0 {
            leave();
        }
    }
}
