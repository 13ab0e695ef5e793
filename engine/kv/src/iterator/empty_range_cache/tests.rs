//! Tests of the empty-range cache: recording, proving, cutting and removing empty ranges.

use super::*;
use proptest::prelude::*;

/// Writers that have assigned this many sequence numbers.
struct Given(Number);

impl Writers for Given {
    fn hold(&self, f: &mut dyn FnMut(Seq)) {
        f(self.0.load(Ordering::Relaxed));
    }
}

fn at(last: Seq) -> (EmptyRangeCache, Arc<Given>) {
    let (empty_ranges, given) =
        (EmptyRangeCache::new(EmptyRangeBudget::new(0)), Arc::new(Given(Number::new(last))));
    let writers: Arc<dyn Writers> = given.clone();
    empty_ranges.set_writers(|| Arc::downgrade(&writers));
    (empty_ranges, given)
}

fn forward(empty_ranges: &EmptyRangeCache, key: &[u8], read: Seq) -> Option<Vec<u8>> {
    let mut to = vec![];
    empty_ranges.skip_empty_range(key, true, read, &mut to).then_some(to)
}

#[test]
fn what_a_reader_of_the_newest_state_finds_empty_is_sure_at_once() {
    let (empty_ranges, _given) = at(7);
    empty_ranges.learn(b"b", b"m", 7, 1000);
    assert_eq!(forward(&empty_ranges, b"a", 9), None);
    assert_eq!(forward(&empty_ranges, b"b", 7), Some(b"m".to_vec()));
    assert_eq!(forward(&empty_ranges, b"lzz", 9), Some(b"m".to_vec()));
    assert_eq!(forward(&empty_ranges, b"m", 9), None);
    assert_eq!(forward(&empty_ranges, b"c", 6), None, "an older reader may see keys deleted since");
    let mut to = vec![];
    assert!(empty_ranges.skip_empty_range(b"c", false, 9, &mut to) && to == b"b");
}

#[test]
fn the_nearest_empty_range_is_the_next_one_in_either_direction() {
    let (empty_ranges, _given) = at(7);
    let nearest = |key: &[u8], forward, read| {
        let mut to = vec![];
        empty_ranges.nearest(key, forward, read, &mut to).then_some(to)
    };
    assert_eq!(nearest(b"a", true, 9), None);
    empty_ranges.learn(b"d", b"f", 7, 1000);
    empty_ranges.learn(b"m", b"p", 7, 1000);
    for (key, behind, ahead) in [
        ("a", None, Some("d")),
        ("d", Some("f"), Some("m")),
        ("h", Some("f"), Some("m")),
        ("z", Some("p"), None),
    ] {
        let of = |key: Option<&str>| key.map(|key| key.as_bytes().to_vec());
        assert_eq!(nearest(key.as_bytes(), true, 9), of(ahead), "after {key}");
        assert_eq!(nearest(key.as_bytes(), false, 9), of(behind), "before {key}");
    }
    assert_eq!(nearest(b"a", true, 6), None, "it does not hold for a reader before it");
}

#[test]
fn beside_writers_two_readers_are_needed() {
    let (empty_ranges, given) = at(9);
    empty_ranges.learn(b"b", b"m", 7, 1000);
    assert_eq!(
        forward(&empty_ranges, b"c", 20),
        None,
        "numbers 8 and 9 may be puts that have not seen it"
    );
    given.0.store(30, Ordering::Relaxed);
    empty_ranges.cut(b"k");
    empty_ranges.learn(b"a", b"z", 8, 1000);
    assert_eq!(forward(&empty_ranges, b"c", 20), None);
    empty_ranges.learn(b"c", b"f", 9, 1000);
    assert_eq!(
        forward(&empty_ranges, b"d", 9),
        Some(b"f".to_vec()),
        "as far as both have found it empty"
    );
    assert_eq!(forward(&empty_ranges, b"k", 40), None);
}

#[test]
fn what_is_put_beside_two_readers_is_cut_from_what_they_prove() {
    let (empty_ranges, given) = at(9);
    empty_ranges.learn(b"b", b"m", 7, 1000);
    given.0.store(10, Ordering::Relaxed);
    empty_ranges.cut(b"k");
    // A reader from before the put still finds the whole range empty.
    empty_ranges.learn(b"b", b"m", 9, 1000);
    assert_eq!(forward(&empty_ranges, b"c", 40), Some(b"k".to_vec()));
    assert_eq!(forward(&empty_ranges, b"k", 40), None);
    assert_eq!(forward(&empty_ranges, b"k1", 40), Some(b"m".to_vec()));
}

#[test]
fn joined_empty_ranges_hold_from_the_newest_since() {
    for newest_first in [false, true] {
        let (empty_ranges, given) = at(7);
        let older = || empty_ranges.learn(b"b", b"m", 7, 1000);
        if !newest_first {
            older();
        }
        given.0.store(10, Ordering::Relaxed);
        empty_ranges.learn(b"m", b"z", 10, 1000);
        if newest_first {
            given.0.store(7, Ordering::Relaxed);
            older();
        }
        assert_eq!(
            forward(&empty_ranges, b"c", 7),
            None,
            "before 10 nothing is known of keys after m"
        );
        assert_eq!(forward(&empty_ranges, b"c", 10), Some(b"z".to_vec()));
    }
}

#[test]
fn puts_cut_and_walks_join() {
    let (empty_ranges, _given) = at(7);
    empty_ranges.learn(b"b", b"m", 7, 1000);
    empty_ranges.cut(b"e");
    assert_eq!(forward(&empty_ranges, b"c", 9), Some(b"e".to_vec()));
    assert_eq!(forward(&empty_ranges, b"e", 9), None);
    assert_eq!(forward(&empty_ranges, b"f", 9), Some(b"m".to_vec()));
    empty_ranges.learn(b"c", b"g", 7, 100);
    assert_eq!(forward(&empty_ranges, b"b", 9), Some(b"m".to_vec()));
    empty_ranges.invalidate(b"a", b"z");
    assert!(empty_ranges.is_empty());
}

#[test]
fn puts_into_an_empty_range_wear_it_out() {
    let (empty_ranges, _given) = at(7);
    empty_ranges.learn(b"a", b"z", 7, 8 * MIN_STEPS);
    (b'b'..b'y').for_each(|k| empty_ranges.cut(&[k]));
    assert!(forward(&empty_ranges, b"x", 9).is_none());
    assert!(empty_ranges.count.load(Ordering::Relaxed) < 8);
}

/// Checks order, disjointness and counts.
fn check(empty_ranges: &EmptyRangeCache) {
    let known = empty_ranges.known.load_full();
    let all: Vec<EmptyRange> = known.confirmed.iter().map(EmptyRange::of).collect();
    assert!(all.iter().all(|g| g.first < g.rest.until && g.rest.steps >= MIN_STEPS));
    assert!(all.windows(2).all(|g| g[0].rest.until < g[1].first));
    assert_eq!(
        (known.count, known.bytes),
        (all.len() as u64, all.iter().map(EmptyRange::bytes).sum())
    );
    assert!(known.candidates.len() <= MAX_CANDIDATES && known.bytes <= empty_ranges.room.bytes);
}

#[test]
fn there_are_never_many_and_the_useful_ones_stay() {
    let (empty_ranges, given) = at(7);
    let key = |i: u32| i.to_be_bytes();
    let fill = || {
        for i in 0..2_000 {
            empty_ranges.learn(&key(10 * i), &key(10 * i + 5), 7, 1000 + u64::from(i));
            check(&empty_ranges);
        }
    };
    fill();
    let part = empty_ranges.room.part(empty_ranges.room.used.load(Ordering::Relaxed));
    assert_eq!(part, MIN_BUDGET / 2);
    let count = empty_ranges.count.load(Ordering::Relaxed);
    assert!((200..400).contains(&count), "{count}");
    assert!(
        (1_850..2_000).all(|i| forward(&empty_ranges, &key(10 * i), 7).is_some()),
        "those that spare most"
    );
    given.0.store(100, Ordering::Relaxed);
    fill();
    assert!(empty_ranges.count.load(Ordering::Relaxed) <= 400 + MAX_CANDIDATES as u64);
    given.0.store(7, Ordering::Relaxed);
    // Saves little, but is new.
    empty_ranges.learn(&key(50_000), &key(50_005), 7, 200);
    assert!(forward(&empty_ranges, &key(50_001), 9).is_some());
    empty_ranges.learn(&[b'x'; MAX_BOUND_LEN + 1], b"y", 9, 1 << 40);
    assert!(
        forward(&empty_ranges, &[b'x'; MAX_BOUND_LEN + 2], 9).is_none(),
        "keys that are too long are not cached"
    );
}

#[test]
fn trees_that_want_many_come_to_equal_parts_and_give_back_what_they_had() {
    let room = EmptyRangeBudget::new(0);
    let all: Vec<EmptyRangeCache> = (0..3).map(|_| EmptyRangeCache::new(room.clone())).collect();
    for round in 0..4u32 {
        for empty_ranges in &all {
            for i in 0..2_000u32 {
                empty_ranges.note(
                    &(10 * i + round).to_be_bytes(),
                    &(10 * i + round + 1).to_be_bytes(),
                    7,
                    1000 + u64::from(i),
                );
            }
            check(empty_ranges);
            assert!(room.used.load(Ordering::Relaxed) <= room.bytes);
        }
    }
    for empty_ranges in &all {
        let has = empty_ranges.known.load_full().bytes;
        assert!((room.bytes / 8..room.bytes * 2 / 5).contains(&has), "{has} of {}", room.bytes);
    }
    drop(all);
    assert_eq!(room.used.load(Ordering::Relaxed), 0);
}

proptest! {
    /// Compares with a plain list of empty ranges and their start times: no skip passes a visible
    /// key.
    #[test]
    fn skips_pass_no_put(
        ops in prop::collection::vec((0u8..5, 0u8..60, 1u8..12, 0u8..3), 1..200),
    ) {
        let (empty_ranges, given) = at(1);
        let mut empty: Vec<Option<Seq>> = vec![Some(0); 80];
        for (what, first, len, back) in ops {
            let (now, until) = (given.0.load(Ordering::Relaxed), first + len);
            match what {
                0 | 1 => {
                    // A put, then possibly its deletion.
                    given.0.store(now + 1, Ordering::Relaxed);
                    empty_ranges.cut(&[first]);
                    empty[usize::from(first)] = None;
                    if what == 1 {
                        given.0.store(now + 2, Ordering::Relaxed);
                        empty[usize::from(first)] = Some(now + 2);
                    }
                }
                2 => {
                    given.0.store(now + 1, Ordering::Relaxed);
                    empty_ranges.invalidate(&[first], &[until]);
                    empty[usize::from(first)..usize::from(until)].fill(None);
                }
                _ => {
                    // A reader, possibly at an older read point, moves as far as it finds nothing.
                    let read = now.saturating_sub(u64::from(back));
                    let found = empty[usize::from(first)..usize::from(until)].iter().take_while(|e| e.is_some_and(|s| s <= read));
                    let end = first + found.count() as u8;
                    if end > first {
                        empty_ranges.learn(&[first], &[end], read, 1000);
                    }
                }
            }
            check(&empty_ranges);
            for at in 0..72u8 {
                for read in [given.0.load(Ordering::Relaxed), now] {
                    if let Some(to) = forward(&empty_ranges, &[at], read) {
                        let passed = &empty[usize::from(at)..usize::from(to[0])];
                        prop_assert!(passed.iter().all(|e| e.is_some_and(|s| s <= read)), "from {at} to {to:?} at {read}");
                    }
                }
            }
        }
    }
}
