//! Token ranges, and threads that process them.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use firn_kv::Env;
use firn_tools::output::{Done, Failure};
use firn_wide::Partitioner;
use firn_wide::internals::store::Partitions;
use parking_lot::Mutex;

/// Interval of progress reports to the caller.
const LOOK: Duration = Duration::from_millis(50);

/// Splits all partitions into this many ranges with equally many tokens, in order; into one range
/// if tokens are keys.
pub fn token_ranges(partitioner: Partitioner, count: u16) -> Vec<Partitions> {
    let count = if partitioner.token_len() == 0 { 1 } else { u128::from(count.max(1)) };
    let len = partitioner.token_len();
    // The first eight bytes of a token in keys, which are evenly distributed: over their whole
    // range, or for 16-byte tokens over the lower half.
    let bits = if len > 8 { 63 } else { 64 };
    let bound = |n: u128| {
        let first = ((n << bits) / count) as u64;
        let mut bytes = first.to_be_bytes().to_vec();
        bytes.truncate(len);
        bytes
    };
    let range = |n: u128| Partitions {
        from: if n == 0 { Bound::Unbounded } else { Bound::Included(bound(n)) },
        until: if n + 1 == count { Bound::Unbounded } else { Bound::Excluded(bound(n + 1)) },
    };
    (0..count).map(range).collect()
}

/// Processes one item, by its number.
pub type RangeWork = Arc<dyn Fn(usize) -> Done + Send + Sync>;

/// One worker thread: when it ends, even by a panic, nobody waits for it.
struct RangeWorker {
    running: Arc<AtomicUsize>,
    failed: Arc<Mutex<Option<Failure>>>,
}

impl RangeWorker {
    fn new(running: &Arc<AtomicUsize>, failed: &Arc<Mutex<Option<Failure>>>) -> RangeWorker {
        running.fetch_add(1, Ordering::AcqRel);
        RangeWorker { running: running.clone(), failed: failed.clone() }
    }
}

impl Drop for RangeWorker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let defect = || Failure::new("a thread of the migration panicked, which is a defect");
            self.failed.lock().get_or_insert_with(defect);
        }
        self.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Processes `count` items, each once, in `threads` threads, and calls `look` meanwhile. Ends at
/// the first failure, and when `stop` is set: each thread then finishes its item. No thread runs
/// after the return.
///
/// # Errors
/// The first failure, a thread that cannot be started, and a panic.
pub fn in_parallel(
    env: &Arc<dyn Env>,
    threads: usize,
    count: usize,
    stop: &Arc<AtomicBool>,
    work: RangeWork,
    mut look: impl FnMut(),
) -> Done {
    let next = Arc::new(AtomicUsize::new(0));
    let running = Arc::new(AtomicUsize::new(0));
    let failed: Arc<Mutex<Option<Failure>>> = Arc::default();
    let mut handles = vec![];
    for _ in 0..threads.clamp(1, count.max(1)) {
        let worker = RangeWorker::new(&running, &failed);
        let (next, stop, work) = (next.clone(), stop.clone(), work.clone());
        let body = move || {
            while !stop.load(Ordering::Relaxed) && worker.failed.lock().is_none() {
                let number = next.fetch_add(1, Ordering::AcqRel);
                if number >= count {
                    break;
                }
                if let Err(e) = work(number) {
                    worker.failed.lock().get_or_insert(e);
                }
            }
        };
        match env.spawn("firn-migrate", Box::new(body)) {
            Ok(handle) => handles.push(handle),
            Err(e) => {
                failed.lock().get_or_insert(e.into());
                break;
            }
        }
    }
    while running.load(Ordering::Acquire) > 0 {
        env.sleep(LOOK);
        look();
    }
    handles.into_iter().for_each(|handle| handle.join());
    let first = failed.lock().take();
    first.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use firn_kv::OsEnv;

    use super::*;

    #[test]
    fn a_thread_that_panics_fails_the_work_and_is_not_waited_for() {
        let env: Arc<dyn Env> = OsEnv::new();
        let done = Arc::new(AtomicUsize::new(0));
        let counted = done.clone();
        let work: RangeWork = Arc::new(move |number| {
            assert_ne!(number, 3, "a panic of a test");
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        let ended = in_parallel(&env, 2, 1000, &Arc::default(), work, || ()).unwrap_err();
        assert!(format!("{ended:?}").contains("a thread of the migration panicked"), "{ended:?}");
        assert!((2..1000).contains(&done.load(Ordering::Relaxed)));
    }

    #[test]
    fn ranges_have_each_token_once() {
        for partitioner in [Partitioner::Murmur3, Partitioner::Random, Partitioner::ByteOrdered] {
            let ranges = token_ranges(partitioner, 7);
            let mut found = vec![0; ranges.len()];
            for n in 0..1000_u32 {
                let mut place = vec![];
                partitioner.put_token(&n.to_be_bytes(), &mut place).unwrap();
                place.extend_from_slice(&[0x40, 1, 2]);
                let holds = |r: &&Partitions| {
                    let after = match &r.from {
                        Bound::Included(from) => place >= *from,
                        _ => true,
                    };
                    let before = match &r.until {
                        Bound::Excluded(until) => place < *until,
                        _ => true,
                    };
                    after && before
                };
                assert_eq!(ranges.iter().filter(holds).count(), 1);
                found[ranges.iter().position(|r| holds(&r)).unwrap()] += 1;
            }
            assert!(found.iter().all(|n| *n > 0), "{found:?}");
        }
    }
}
