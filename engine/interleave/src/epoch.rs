//! The epoch reduced to its contract: what was deferred runs when nobody is pinned any more.

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
    /// Outside of a run nobody is known who might be pinned, so what is deferred is kept for ever.
    Outside,
}

/// Pins the calling thread.
#[inline]
pub fn pin() -> Guard {
    Guard(if enter() { Pinned::Here } else { Pinned::Outside })
}

impl Guard {
    /// Runs `f` when nobody who is pinned now is so any more.
    pub fn defer<R>(&self, f: impl FnOnce() -> R + Send + 'static) {
        match self.0 {
            Pinned::Here => epoch(|s| s.deferred.push(Box::new(move || drop(f())))),
            Pinned::Outside => std::mem::forget(f),
        }
    }

    /// Lets the epoch move on; here it always has.
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
