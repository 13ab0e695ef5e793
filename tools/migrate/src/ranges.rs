//! Ranges of tokens, and threads that work through them.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use firn_kv::Env;
use firn_tools::output::{Done, Failure};
use firn_wide::Partitioner;
use firn_wide::internals::store::Partitions;
use parking_lot::Mutex;

/// How often the caller is told how far it is.
const LOOK: Duration = Duration::from_millis(50);

/// All partitions as this many ranges of as many tokens each, in order; as one range where tokens
/// are keys.
pub fn token_ranges(partitioner: Partitioner, count: u16) -> Vec<Partitions> {
    let count = if partitioner.token_len() == 0 { 1 } else { u128::from(count.max(1)) };
    let len = partitioner.token_len();
    // The first eight bytes of a token as keys have it, which are spread evenly: over all of them,
    // or where they are of sixteen bytes over the lower half.
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

/// What works on one thing, by its number.
pub type RangeWork = Arc<dyn Fn(usize) -> Done + Send + Sync>;

/// Lets `threads` work on `count` things, each once, and calls `look` meanwhile. Ends at the first
/// failure, and when `stop` is set: each thread then ends what it is at.
///
/// # Errors
/// The first failure, and a thread that can't be started.
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
        let (next, running, failed) = (next.clone(), running.clone(), failed.clone());
        let (stop, work) = (stop.clone(), work.clone());
        running.fetch_add(1, Ordering::AcqRel);
        let body = move || {
            while !stop.load(Ordering::Relaxed) && failed.lock().is_none() {
                let number = next.fetch_add(1, Ordering::AcqRel);
                if number >= count {
                    break;
                }
                if let Err(e) = work(number) {
                    failed.lock().get_or_insert(e);
                }
            }
            running.fetch_sub(1, Ordering::AcqRel);
        };
        handles.push(env.spawn("firn-migrate", Box::new(body))?);
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
    use super::*;

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
