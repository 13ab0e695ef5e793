//! A published recipe of scans among deletions, from RocksDB's article about
//! `min_tombstones_for_range_conversion`.
//!
//! Eight threads scan 100 keys from random keys of a compacted store, forward and backward. They do
//! this first without deletions, and then after 2,000 scans of the first 2,000 keys, in random
//! order, each of which deleted the 100 keys that it found.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

use crate::keys::{KeyBuf, Permutation};
use crate::rng::Rng;
use crate::store::{Direction, Result, Store};

/// Bytes of a key.
const KEY: usize = 16;
/// Keys of one scan, and of one deletion.
const LENGTH: u64 = 100;
const LOOKS: u64 = 2_000;
const THREADS: u64 = 8;

/// Result of one step of the recipe.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scans {
    /// Number of earlier deletions.
    pub deletions: u64,
    /// Whether the scans were forward.
    pub forward: bool,
    /// Scans per second of all threads.
    pub scans_per_second: f64,
}

fn delete(store: &impl Store, keys: u64) -> Result<u64> {
    let looks = LOOKS.min(keys);
    let (order, mut key) = (Permutation::new(looks, 1), KeyBuf::new(KEY));
    let (mut found, mut deletions) = (vec![], 0);
    for i in 0..looks {
        found.clear();
        store.scan(Some(key.set(order.at(i))), Direction::Forward, LENGTH, |k, _| {
            found.push(k.to_vec())
        })?;
        found.iter().try_for_each(|k| store.delete(k))?;
        deletions += found.len() as u64;
    }
    store.flush()?;
    Ok(deletions)
}

fn scan(store: &impl Store, keys: u64, seconds: u64, direction: Direction) -> Result<f64> {
    let (begin, done) = (Instant::now(), AtomicU64::new(0));
    let work = |thread: u64| -> Result<()> {
        let (mut rng, mut key) = (Rng::new(2, thread), KeyBuf::new(KEY));
        while begin.elapsed().as_secs() < seconds {
            store.scan(Some(key.set(rng.below(keys))), direction, LENGTH, |_, _| {})?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|s| {
        let work = &work;
        let workers: Vec<_> = (0..THREADS).map(|thread| s.spawn(move || work(thread))).collect();
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| "a thread has panicked")?)
    })?;
    Ok(done.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64())
}

/// Runs the recipe with `keys` keys on an empty store; each of its four steps takes `seconds`.
///
/// # Errors
/// Errors of the store.
pub fn scans_among_deletions(store: &impl Store, keys: u64, seconds: u64) -> Result<Vec<Scans>> {
    let mut key = KeyBuf::new(KEY);
    (0..keys).try_for_each(|i| store.put(key.set(i), &[b'v'; 100], false))?;
    store.compact()?;
    let mut all = vec![];
    let mut step = |deletions| -> Result<()> {
        for (forward, direction) in [(true, Direction::Forward), (false, Direction::Reverse)] {
            all.push(Scans {
                deletions,
                forward,
                scans_per_second: scan(store, keys, seconds, direction)?,
            });
        }
        Ok(())
    };
    step(0)?;
    step(delete(store, keys)?)?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::MapStore;

    #[test]
    fn each_look_deletes_what_it_found() {
        let store = MapStore::default();
        let all = scans_among_deletions(&store, 250_000, 1).unwrap();
        let forward = |s: &Scans| (s.deletions, s.forward);
        assert_eq!(
            all.iter().map(forward).collect::<Vec<_>>(),
            [(0, true), (0, false), (200_000, true), (200_000, false)]
        );
        assert!(all.iter().all(|s| s.scans_per_second > 0.0));
        let mut first = None;
        store.scan(None, Direction::Forward, 1, |k, _| first = Some(k.to_vec())).unwrap();
        assert!(first.unwrap().as_slice() > KeyBuf::new(KEY).set(2_000));
    }
}
