//! Models of the coalescer: threads change a number, and the task copies it.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::util::coalescer::Coalescer;

#[test]
fn loom_the_last_change_is_seen() {
    loom::model(|| {
        let shared = Arc::new((Coalescer::default(), AtomicU64::new(0), AtomicU64::new(0)));
        let change = |shared: &(Coalescer, AtomicU64, AtomicU64)| {
            let (up_to_date, number, copy) = shared;
            number.fetch_add(1, Ordering::Relaxed);
            up_to_date
                .after_change(|| copy.store(number.load(Ordering::Relaxed), Ordering::Relaxed));
        };
        let other = shared.clone();
        let thread = thread::spawn(move || {
            change(&other);
            change(&other);
        });
        change(&shared);
        thread.join().unwrap();
        assert_eq!(shared.2.load(Ordering::Relaxed), 3);
    });
}
