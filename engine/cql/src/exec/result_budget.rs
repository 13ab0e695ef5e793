//! Bounds the bytes of the results of all statements of a server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes by which a share grows at once.
const STEP: usize = 64 << 10;

/// A budget of bytes that the results of several statements share. Clones share one budget.
///
/// ```
/// use firn_cql::{ResultBudget, RunOptions, Session};
/// let budget = ResultBudget::new(64 << 20);
/// let how = RunOptions { result_budget: Some(budget.clone()), ..RunOptions::default() };
/// Session::in_memory()?.execute_with("SELECT key FROM system.local", (), &how)?;
/// assert_eq!(budget.used_bytes(), 0); // a small result is free
/// # Ok::<(), firn_cql::Error>(())
/// ```
#[derive(Clone)]
pub struct ResultBudget(Arc<ResultBudgetInner>);

struct ResultBudgetInner {
    most: usize,
    taken: AtomicUsize,
}

impl ResultBudget {
    /// Creates a budget of `most` bytes.
    pub fn new(most: usize) -> ResultBudget {
        ResultBudget(Arc::new(ResultBudgetInner { most, taken: AtomicUsize::new(0) }))
    }

    /// Returns the bytes that are taken now.
    pub fn used_bytes(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Returns the size of the budget in bytes.
    pub fn max_bytes(&self) -> usize {
        self.0.most
    }

    /// Returns a share that has taken nothing.
    #[doc(hidden)]
    pub fn share(&self) -> ResultShare {
        ResultShare { budget: self.clone(), bytes: AtomicUsize::new(0) }
    }
}

impl fmt::Debug for ResultBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResultBudget({} of {})", self.used_bytes(), self.max_bytes())
    }
}

/// The bytes that one result has taken of a [`ResultBudget`]. They return to it on drop.
#[derive(Debug)]
#[doc(hidden)]
pub struct ResultShare {
    budget: ResultBudget,
    bytes: AtomicUsize,
}

impl ResultShare {
    /// Grows to `bytes` at least. Returns false, and takes nothing, if the budget has not enough
    /// left.
    pub fn grow_to(&self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes.load(Ordering::Relaxed));
        if more == 0 {
            return true;
        }
        let more = more.checked_next_multiple_of(STEP).unwrap_or(more);
        let ResultBudgetInner { most, taken } = &*self.budget.0;
        let sum = |taken: usize| taken.checked_add(more).filter(|sum| sum <= most);
        let grown = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok();
        if grown {
            self.bytes.fetch_add(more, Ordering::Relaxed);
        }
        grown
    }
}

impl Drop for ResultShare {
    fn drop(&mut self) {
        self.budget.0.taken.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_grow_within_the_budget_and_return_their_bytes() {
        let budget = ResultBudget::new(10 * STEP);
        let (one, other) = (budget.share(), budget.share());
        assert!(one.grow_to(1) && one.grow_to(STEP) && budget.used_bytes() == STEP);
        assert!(other.grow_to(9 * STEP) && !one.grow_to(STEP + 1));
        assert!(!other.grow_to(usize::MAX) && budget.used_bytes() == 10 * STEP);
        drop(other);
        assert!(one.grow_to(STEP + 1) && budget.used_bytes() == 2 * STEP);
        drop(one);
        assert_eq!(budget.used_bytes(), 0);
    }
}
