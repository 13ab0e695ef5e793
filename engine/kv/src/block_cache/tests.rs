//! Tests the whole cache: contents, bounds, and concurrent threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

const SMALL: bool = cfg!(miri);

/// Fills `out` with the contents of block `i` of table `t`.
fn contents(t: usize, i: usize, out: &mut [u8]) {
    for (k, b) in out.iter_mut().enumerate() {
        *b = (t * 31 + i * 7 + k * (1 + i % 5)) as u8;
    }
}

fn len_of(i: usize) -> usize {
    [4032, 4032, 100, 4032, 960, 5000, 4032, 4031][i % 8]
}

fn check(t: usize, i: usize, bytes: &[u8]) {
    let mut want = vec![0; len_of(i)];
    contents(t, i, &mut want);
    assert!(bytes == want, "block {i} of table {t}");
}

fn load(cache: &Cache, slots: &Arc<CacheSlots>, t: usize, i: usize) -> FrameRef {
    let mut frame = cache.allocate(len_of(i));
    contents(t, i, &mut frame);
    let stay = if i.is_multiple_of(3) { CacheStay::Round } else { CacheStay::ProbationQueue };
    cache.insert_for(stay, slots, i, frame.freeze())
}

fn rng(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 16) as usize
}

/// Advances the epoch until `done` returns true.
fn eventually(done: impl Fn() -> bool) -> bool {
    // Other tests of the process may be pinned for long.
    (0..2_000_000).any(|_| {
        epoch::pin().flush();
        std::thread::yield_now();
        done()
    })
}

#[test]
fn a_block_of_4032_bytes_fills_one_aligned_page() {
    let cache = Cache::new(1 << 20);
    let frames: Vec<_> = (0..20).map(|_| cache.allocate(4032)).collect();
    for f in &frames {
        assert_eq!((f.as_ptr() as usize) % 4096, 64);
        assert_eq!(f.len(), 4032);
    }
    assert_eq!(cache.usage().unlinked_bytes, 20 * 4096);
    assert_eq!(size_of::<FrameRef>(), 8);
    assert_eq!(size_of::<Option<FrameRef>>(), 8);
}

#[test]
fn what_is_inserted_is_found_and_the_first_one_wins() {
    let cache = Cache::new(1 << 20);
    let slots = Arc::new(CacheSlots::new(4));
    let guard = epoch::pin();
    assert!(slots.get(0, &guard).is_none());
    assert!(slots.get(4, &guard).is_none());
    let first = load(&cache, &slots, 1, 0);
    let mut other = cache.allocate(3);
    other.copy_from_slice(b"two");
    let other = other.freeze();
    let back = cache.insert(&slots, 0, other.clone());
    assert_eq!(back.as_ptr(), first.as_ptr());
    check(1, 0, slots.get(0, &guard).unwrap());
    // Out of range, already linked, or from another cache: returned unchanged.
    assert_eq!(&cache.insert(&slots, 4, other.clone())[..], b"two");
    cache.insert(&slots, 1, first.clone());
    assert!(slots.get(1, &guard).is_none());
    Cache::new(1 << 20).insert(&slots, 1, other.clone());
    assert!(slots.get(1, &guard).is_none());
    cache.insert(&slots, 1, other);
    assert_eq!(&slots.get(1, &guard).unwrap()[..], b"two");
    let stats = cache.usage();
    assert_eq!((stats.inserts, stats.frames, stats.evictions), (2, 2, 0));
}

#[test]
fn dropping_slots_lets_frames_go_after_the_epoch() {
    let cache = Cache::new(1 << 20);
    let slots = Arc::new(CacheSlots::new(20));
    let kept = load(&cache, &slots, 1, 7);
    (0..20).for_each(|i| drop(load(&cache, &slots, 1, i)));
    let guard = epoch::pin();
    let seen: Vec<&CacheFrame> = (0..20).map(|i| slots.get(i, &guard).unwrap()).collect();
    drop(slots);
    // The same number of new frames does not disturb what a pinned reader sees.
    let others = Arc::new(CacheSlots::new(20));
    (0..20).for_each(|i| drop(load(&cache, &others, 2, i)));
    (0..20).for_each(|i| check(1, i, seen[i]));
    drop(guard);
    drop(others);
    assert!(
        eventually(|| cache.usage().unlinked_bytes + cache.usage().frame_bytes == 4096),
        "{cache:?}"
    );
    check(1, 7, &kept);
    drop(cache);
    check(1, 7, &kept); // a frame outlives its cache
}

#[test]
fn memory_stays_within_the_capacity() {
    let capacity = if SMALL { 256 << 10 } else { 4 << 20 };
    let cache = Cache::new(capacity);
    let slots = Arc::new(CacheSlots::new(if SMALL { 200 } else { 20_000 }));
    for i in 0..slots.len() {
        drop(load(&cache, &slots, 1, i));
        let stats = cache.usage();
        assert!(stats.resident <= capacity + capacity / 32 + 8192, "{stats:?}");
    }
    let stats = cache.usage();
    assert!(stats.evictions > 0 && stats.frame_bytes > 0, "{stats:?}");
}

#[test]
fn a_pinned_reader_cannot_make_garbage_grow() {
    let capacity = 512 << 10;
    let cache = Cache::new(capacity);
    let n = if SMALL { 300 } else { 3000 };
    let slots = Arc::new(CacheSlots::new(n));
    let guard = epoch::pin();
    for i in 0..n {
        check(1, i, &load(&cache, &slots, 1, i));
        let stats = cache.usage();
        assert!(stats.resident <= capacity + capacity / 32 + 2 * 8192, "{stats:?}");
    }
    assert!(cache.usage().refusals > 0);
    drop(guard);
    // The cache works again afterwards.
    assert!(eventually(|| {
        let i = n - 1;
        drop(load(&cache, &slots, 1, i));
        slots.get(i, &epoch::pin()).is_some()
    }));
}

#[test]
fn frames_that_are_held_are_not_evicted() {
    let cache = Cache::new(256 << 10);
    let slots = Arc::new(CacheSlots::new(1000));
    let held: Vec<_> = (0..8).map(|i| load(&cache, &slots, 1, i)).collect();
    (8..if SMALL { 200 } else { 1000 }).for_each(|i| drop(load(&cache, &slots, 1, i)));
    let guard = epoch::pin();
    (0..8).for_each(|i| assert_eq!(slots.get(i, &guard).unwrap().as_ptr(), held[i].as_ptr()));
}

#[test]
fn read_frames_survive_a_scan() {
    let cache = Cache::new(512 << 10); // 128 frames
    let hot = Arc::new(CacheSlots::new(40));
    let scan = Arc::new(CacheSlots::new(2000));
    let frame =
        |slots: &Arc<CacheSlots>, i| drop(cache.insert(slots, i, cache.allocate(4032).freeze()));
    (0..40).for_each(|i| frame(&hot, i));
    for i in 0..if SMALL { 200 } else { 2000 } {
        (0..40).for_each(|h| assert!(hot.get(h, &epoch::pin()).is_some()));
        frame(&scan, i);
    }
    let left = (0..40).filter(|&h| hot.get(h, &epoch::pin()).is_some()).count();
    assert_eq!(left, 40);
}

#[test]
fn memory_moves_between_size_classes_and_back_to_the_system() {
    let capacity = if SMALL { 256 << 10 } else { 2 << 20 };
    let cache = Cache::new(capacity);
    for len in [4032, 960, 7000, 4032, 200_000] {
        let slots = Arc::new(CacheSlots::new(3 * capacity / len));
        // Try several times, because other tests of the process may hold back the epoch.
        assert!(eventually(|| {
            for i in 0..slots.len() {
                drop(cache.insert(&slots, i, cache.allocate(len).freeze()));
            }
            let stats = cache.usage();
            assert!(stats.resident <= capacity + capacity / 32 + len + HEADER, "{len}: {stats:?}");
            let cached =
                (0..slots.len()).filter(|&i| slots.peek(i, &epoch::pin()).is_some()).count();
            cached * len > if len > 100_000 { 0 } else { capacity / 3 }
        }));
    }
    cache.set_capacity(0);
    assert!(eventually(|| {
        cache.set_capacity(0);
        cache.usage().resident == 0
    }));
    assert_eq!(cache.usage().frames, 0);
    let slots = Arc::new(CacheSlots::new(1));
    assert_eq!(load(&cache, &slots, 1, 0).len(), len_of(0));
    assert!(slots.get(0, &epoch::pin()).is_none(), "a cache of zero bytes caches no block");
}

#[test]
fn a_smaller_capacity_takes_effect() {
    let cache = Cache::new(8 << 20);
    let n = if SMALL { 100 } else { 1900 };
    let slots = Arc::new(CacheSlots::new(n));
    (0..n).for_each(|i| drop(load(&cache, &slots, 1, i)));
    let small = cache.usage().resident / 3;
    assert!(eventually(|| {
        cache.set_capacity(small);
        cache.usage().resident <= small
    }));
    for i in 0..n {
        if let Some(f) = slots.get(i, &epoch::pin()) {
            check(1, i, f);
        }
    }
}

/// A pinned reader delays the release of memory. That must not cause further evictions.
#[test]
fn a_slightly_smaller_capacity_evicts_little_beside_a_pinned_reader() {
    let capacity = if SMALL { 1 << 20 } else { 8 << 20 };
    let cache = Cache::new(capacity);
    let slots = Arc::new(CacheSlots::new(capacity / 4096 * 2));
    (0..slots.len()).for_each(|i| drop(load(&cache, &slots, 1, i)));
    let before = cache.usage();
    assert!(before.resident > capacity / 2, "{before:?}");
    let pinned = epoch::pin();
    // Memory that other tests hold back is not memory of frames.
    let mut smaller = before.frame_bytes;
    for _ in 0..8 {
        smaller -= capacity / 64;
        cache.set_capacity(smaller);
    }
    let after = cache.usage();
    // The new capacity is an eighth smaller; eviction happens in sweeps.
    assert!(after.frame_bytes > before.frame_bytes / 2, "{before:?} {after:?}");
    assert!(after.frame_bytes < before.frame_bytes, "{before:?} {after:?}");
    drop(pinned);
    assert!(eventually(|| {
        cache.set_capacity(smaller);
        cache.usage().resident <= smaller
    }));
}

/// The same holds for a referenced frame in every chunk, because of which no chunk becomes empty.
#[test]
fn a_slightly_smaller_capacity_evicts_little_beside_frames_that_are_held() {
    let capacity = if SMALL { 1 << 20 } else { 8 << 20 };
    let cache = Cache::new(capacity);
    let slots = Arc::new(CacheSlots::new(capacity / 4096));
    let loaded = (0..slots.len()).map(|i| (i, load(&cache, &slots, 1, i)));
    let held: Vec<_> = loaded.filter(|(i, _)| i.is_multiple_of(5)).collect();
    let before = cache.usage();
    assert!(before.resident > capacity / 2, "{before:?}");
    let smaller = before.resident - capacity / 64;
    for i in 0..100 {
        cache.set_capacity(smaller);
        drop(cache.allocate(len_of(i)));
    }
    let after = cache.usage();
    assert!(after.frame_bytes > before.frame_bytes * 3 / 4, "{before:?} {after:?}");
    held.iter().for_each(|(i, frame)| check(1, *i, frame));
    drop(held);
    assert!(eventually(|| {
        cache.set_capacity(smaller);
        cache.allocate(4032);
        cache.usage().resident <= smaller + capacity / 32
    }));
}

#[test]
fn what_is_handed_over_is_the_same_frame_in_another_table() {
    let (cache, other) = (Cache::new(1 << 20), Cache::new(1 << 20));
    let old = Arc::new(CacheSlots::new(8));
    let new = Arc::new(CacheSlots::new(8));
    let frames: Vec<_> = (0..6).map(|i| load(&cache, &old, 1, i)).collect();
    load(&other, &old, 1, 6);
    let first = load(&cache, &new, 2, 2);
    let held = cache.usage().resident;
    let block = |i: u32| InheritedBlock { from: old.clone(), old: i, new: i };
    // Block 2 has another frame already, 6 is from another cache, 7 is not cached, and there is no
    // block 9.
    cache.hand_over(&new, [0, 1, 2, 6, 7, 9].map(block));
    let guard = epoch::pin();
    for (i, frame) in frames.iter().enumerate().take(2) {
        assert!(old.get(i, &guard).is_none());
        assert_eq!(new.get(i, &guard).unwrap().as_ptr(), frame.as_ptr());
        check(1, i, frame);
    }
    assert_eq!(new.get(2, &guard).unwrap().as_ptr(), first.as_ptr());
    assert!(old.get(2, &guard).is_none() && new.get(6, &guard).is_none());
    assert!(old.get(5, &guard).is_some() && old.get(6, &guard).is_some());
    let stats = cache.usage();
    assert_eq!((stats.frames, stats.inserts, stats.resident), (6, 7, held));
    drop((guard, frames, first, old));
    assert!(eventually(|| cache.usage().unlinked_bytes == 0 && cache.usage().frames == 3));
    // Frames that were moved can be evicted from their new table.
    assert!(eventually(|| {
        cache.set_capacity(0);
        cache.usage().frames == 0
    }));
    assert!((0..8).all(|i| new.get(i, &epoch::pin()).is_none()));
}

/// A pinned reader prevents the recycling of memory, not the eviction of frames.
#[test]
fn what_is_handed_over_can_be_evicted_at_once() {
    let cache = Cache::new(1 << 20);
    let (old, new) = (Arc::new(CacheSlots::new(8)), Arc::new(CacheSlots::new(8)));
    (0..8).for_each(|i| drop(load(&cache, &old, 1, i)));
    let guard = epoch::pin();
    cache.hand_over(&new, (0..8).map(|i| InheritedBlock { from: old.clone(), old: i, new: i }));
    assert_eq!(cache.usage().frames, 8);
    cache.set_capacity(0);
    assert_eq!(cache.usage().frames, 0);
    drop(guard);
}

/// Readers, inserters, evictions, tables dropped while they are read, references that outlive
/// evictions.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test simulates an application's threads")]
fn threads_always_see_the_right_bytes() {
    const TABLES: usize = 3;
    let blocks = if SMALL { 40 } else { 1000 };
    let rounds = if SMALL { 60 } else { 60_000 };
    let cache = Cache::new(if SMALL { 64 << 10 } else { 2 << 20 });
    let fresh = || Arc::new(CacheSlots::new(blocks));
    let tables: Vec<parking_lot::Mutex<Arc<CacheSlots>>> =
        (0..TABLES).map(|_| parking_lot::Mutex::new(fresh())).collect();
    let (hits, misses, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|s| {
        let workers: Vec<_> = (1..=3u64)
            .map(|id| {
                let (cache, tables, hits, misses) = (&cache, &tables, &hits, &misses);
                s.spawn(move || {
                    let mut seed = id << 40 | 0x7f4a_7c15;
                    let mut kept: Vec<(usize, usize, FrameRef)> = vec![];
                    for _ in 0..rounds {
                        let (t, r) = (rng(&mut seed) % TABLES, rng(&mut seed));
                        let i = if r % 4 == 0 {
                            rng(&mut seed) % blocks
                        } else {
                            rng(&mut seed) % (blocks / 10)
                        };
                        let table = tables[t].lock().clone();
                        let guard = epoch::pin();
                        let found = table.get(i, &guard);
                        drop(table);
                        if let Some(frame) = found {
                            check(t, i, frame);
                            hits.fetch_add(1, Ordering::Relaxed);
                            if r % 16 == 1 {
                                kept.push((t, i, frame.to_ref()));
                            }
                            continue;
                        }
                        drop(guard);
                        let table = tables[t].lock().clone();
                        let frame = load(cache, &table, t, i);
                        check(t, i, &frame);
                        misses.fetch_add(1, Ordering::Relaxed);
                        if kept.len() > 10 {
                            let (t, i, frame) = kept.swap_remove(r % kept.len());
                            check(t, i, &frame);
                        }
                    }
                })
            })
            .collect();
        s.spawn(|| {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                let old = std::mem::replace(&mut *tables[n % TABLES].lock(), fresh());
                drop(old);
                cache.set_capacity(if n % 2 == 0 { 1 << 20 } else { 2 << 20 });
                (0..2000).for_each(|_| std::thread::yield_now());
            }
        });
        let ended: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert!(hits.into_inner() > 0 && misses.into_inner() > 0);
    drop(tables);
    assert!(
        eventually(|| cache.usage().unlinked_bytes == 0 && cache.usage().frames == 0),
        "{cache:?}"
    );
    cache.set_capacity(0);
    assert_eq!(cache.usage().resident, 0);
}
