//! Avoids writes of several cores to one cache line. [`CachePadded`] gives a value its own lines,
//! and stripes are copies of a value of which each thread uses one.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of stripes. With 64 threads, four share one. Even then, passing its cache line between
/// cores costs less time than the counted operations.
pub const STRIPES: usize = 16;

/// Value in cache lines of its own. Readers of neighbouring data do not wait for its frequent
/// writes. It takes two lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Returns the stripe of this thread, below [`STRIPES`]. Threads that start one after the other get
/// different ones.
#[inline]
pub fn own_stripe() -> usize {
    let own = OWN.get();
    if own < STRIPES { own } else { first_stripe() }
}

#[cold]
fn first_stripe() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    let own = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
    OWN.set(own);
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a stripe is a real thread's")]
    fn a_thread_keeps_its_stripe_and_threads_have_different_ones() {
        assert_eq!(own_stripe(), own_stripe());
        let of = |_| std::thread::scope(|s| s.spawn(own_stripe).join().unwrap());
        let stripes: BTreeSet<usize> = (0..4 * STRIPES).map(of).collect();
        assert!(stripes.len() > STRIPES / 2 && stripes.iter().all(|s| *s < STRIPES));
    }
}
