//! What keeps threads on different cores from writing to one cache line: a line of its own for what
//! is written often, and several copies of a thing, of which each thread uses one.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many copies there are: with 64 threads four share one, and a count in it is still passed on
/// in less time than they need for what they count.
pub const STRIPES: usize = 16;

/// What is written often, in lines of its own: whoever only reads what lies beside it does not wait.
/// Two lines, for processors fetch them in pairs.
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

/// The copy of this thread, below [`STRIPES`]: threads that are started one after the other have
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
