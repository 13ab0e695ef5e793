//! Tests of the empty-range cache: recording, proving, cutting and removing gaps.

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
    let (gaps, given) =
        (EmptyRangeCache::new(EmptyRangeBudget::new(0)), Arc::new(Given(Number::new(last))));
    let writers: Arc<dyn Writers> = given.clone();
    gaps.set_writers(|| Arc::downgrade(&writers));
    (gaps, given)
}

fn forward(gaps: &EmptyRangeCache, key: &[u8], read: Seq) -> Option<Vec<u8>> {
    let mut to = vec![];
    gaps.skip_empty_range(key, true, read, &mut to).then_some(to)
}

#[test]
fn what_a_reader_of_the_newest_state_finds_empty_is_sure_at_once() {
    let (gaps, _given) = at(7);
    gaps.learn(b"b", b"m", 7, 1000);
    assert_eq!(forward(&gaps, b"a", 9), None);
    assert_eq!(forward(&gaps, b"b", 7), Some(b"m".to_vec()));
    assert_eq!(forward(&gaps, b"lzz", 9), Some(b"m".to_vec()));
    assert_eq!(forward(&gaps, b"m", 9), None);
    assert_eq!(forward(&gaps, b"c", 6), None, "an older reader may see keys deleted since");
    let mut to = vec![];
    assert!(gaps.skip_empty_range(b"c", false, 9, &mut to) && to == b"b");
}

#[test]
fn the_nearest_gap_is_the_next_one_in_either_direction() {
    let (gaps, _given) = at(7);
    let nearest = |key: &[u8], forward, read| {
        let mut to = vec![];
        gaps.nearest(key, forward, read, &mut to).then_some(to)
    };
    assert_eq!(nearest(b"a", true, 9), None);
    gaps.learn(b"d", b"f", 7, 1000);
    gaps.learn(b"m", b"p", 7, 1000);
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
    let (gaps, given) = at(9);
    gaps.learn(b"b", b"m", 7, 1000);
    assert_eq!(forward(&gaps, b"c", 20), None, "numbers 8 and 9 may be puts that have not seen it");
    given.0.store(30, Ordering::Relaxed);
    gaps.cut(b"k");
    gaps.learn(b"a", b"z", 8, 1000);
    assert_eq!(forward(&gaps, b"c", 20), None);
    gaps.learn(b"c", b"f", 9, 1000);
    assert_eq!(forward(&gaps, b"d", 9), Some(b"f".to_vec()), "as far as both have found it empty");
    assert_eq!(forward(&gaps, b"k", 40), None);
}

#[test]
fn what_is_put_beside_two_readers_is_cut_from_what_they_prove() {
    let (gaps, given) = at(9);
    gaps.learn(b"b", b"m", 7, 1000);
    given.0.store(10, Ordering::Relaxed);
    gaps.cut(b"k");
    // A reader from before the put still finds the whole range empty.
    gaps.learn(b"b", b"m", 9, 1000);
    assert_eq!(forward(&gaps, b"c", 40), Some(b"k".to_vec()));
    assert_eq!(forward(&gaps, b"k", 40), None);
    assert_eq!(forward(&gaps, b"k1", 40), Some(b"m".to_vec()));
}

#[test]
fn gaps_that_join_hold_for_readers_of_the_newest_of_them() {
    for newest_first in [false, true] {
        let (gaps, given) = at(7);
        let older = || gaps.learn(b"b", b"m", 7, 1000);
        if !newest_first {
            older();
        }
        given.0.store(10, Ordering::Relaxed);
        gaps.learn(b"m", b"z", 10, 1000);
        if newest_first {
            given.0.store(7, Ordering::Relaxed);
            older();
        }
        assert_eq!(forward(&gaps, b"c", 7), None, "before 10 nothing is known of keys after m");
        assert_eq!(forward(&gaps, b"c", 10), Some(b"z".to_vec()));
    }
}

#[test]
fn puts_cut_and_walks_join() {
    let (gaps, _given) = at(7);
    gaps.learn(b"b", b"m", 7, 1000);
    gaps.cut(b"e");
    assert_eq!(forward(&gaps, b"c", 9), Some(b"e".to_vec()));
    assert_eq!(forward(&gaps, b"e", 9), None);
    assert_eq!(forward(&gaps, b"f", 9), Some(b"m".to_vec()));
    gaps.learn(b"c", b"g", 7, 100);
    assert_eq!(forward(&gaps, b"b", 9), Some(b"m".to_vec()));
    gaps.invalidate(b"a", b"z");
    assert!(gaps.is_empty());
}

#[test]
fn puts_into_a_gap_wear_it_out() {
    let (gaps, _given) = at(7);
    gaps.learn(b"a", b"z", 7, 8 * WORTH);
    (b'b'..b'y').for_each(|k| gaps.cut(&[k]));
    assert!(forward(&gaps, b"x", 9).is_none());
    assert!(gaps.count.load(Ordering::Relaxed) < 8);
}

/// Checks order, disjointness and counts.
fn check(gaps: &EmptyRangeCache) {
    let known = gaps.known.load_full();
    let all: Vec<EmptyRange> = known.sure.iter().map(EmptyRange::of).collect();
    assert!(all.iter().all(|g| g.first < g.rest.until && g.rest.steps >= WORTH));
    assert!(all.windows(2).all(|g| g[0].rest.until < g[1].first));
    assert_eq!(
        (known.count, known.bytes),
        (all.len() as u64, all.iter().map(EmptyRange::bytes).sum())
    );
    assert!(known.tried.len() <= MOST_TRIED && known.bytes <= gaps.room.bytes);
}

#[test]
fn there_are_never_many_and_the_useful_ones_stay() {
    let (gaps, given) = at(7);
    let key = |i: u32| i.to_be_bytes();
    let fill = || {
        for i in 0..2_000 {
            gaps.learn(&key(10 * i), &key(10 * i + 5), 7, 1000 + u64::from(i));
            check(&gaps);
        }
    };
    fill();
    let part = gaps.room.part(gaps.room.used.load(Ordering::Relaxed));
    assert_eq!(part, LEAST / 2);
    let count = gaps.count.load(Ordering::Relaxed);
    assert!((200..400).contains(&count), "{count}");
    assert!(
        (1_850..2_000).all(|i| forward(&gaps, &key(10 * i), 7).is_some()),
        "those that spare most"
    );
    given.0.store(100, Ordering::Relaxed);
    fill();
    assert!(gaps.count.load(Ordering::Relaxed) <= 400 + MOST_TRIED as u64);
    given.0.store(7, Ordering::Relaxed);
    // Saves little, but is new.
    gaps.learn(&key(50_000), &key(50_005), 7, 200);
    assert!(forward(&gaps, &key(50_001), 9).is_some());
    gaps.learn(&[b'x'; LONGEST + 1], b"y", 9, 1 << 40);
    assert!(
        forward(&gaps, &[b'x'; LONGEST + 2], 9).is_none(),
        "keys that are too long are not cached"
    );
}

#[test]
fn trees_that_want_many_come_to_equal_parts_and_give_back_what_they_had() {
    let room = EmptyRangeBudget::new(0);
    let all: Vec<EmptyRangeCache> = (0..3).map(|_| EmptyRangeCache::new(room.clone())).collect();
    for round in 0..4u32 {
        for gaps in &all {
            for i in 0..2_000u32 {
                gaps.note(
                    &(10 * i + round).to_be_bytes(),
                    &(10 * i + round + 1).to_be_bytes(),
                    7,
                    1000 + u64::from(i),
                );
            }
            check(gaps);
            assert!(room.used.load(Ordering::Relaxed) <= room.bytes);
        }
    }
    for gaps in &all {
        let has = gaps.known.load_full().bytes;
        assert!((room.bytes / 8..room.bytes * 2 / 5).contains(&has), "{has} of {}", room.bytes);
    }
    drop(all);
    assert_eq!(room.used.load(Ordering::Relaxed), 0);
}

proptest! {
    /// Compares with a plain list of empty ranges and their start times: no skip passes a visible
    /// key.
    #[test]
    fn leaps_pass_nothing_that_was_put(
        ops in prop::collection::vec((0u8..5, 0u8..60, 1u8..12, 0u8..3), 1..200),
    ) {
        let (gaps, given) = at(1);
        let mut empty: Vec<Option<Seq>> = vec![Some(0); 80];
        for (what, first, len, back) in ops {
            let (now, until) = (given.0.load(Ordering::Relaxed), first + len);
            match what {
                0 | 1 => {
                    // A put, then possibly its deletion.
                    given.0.store(now + 1, Ordering::Relaxed);
                    gaps.cut(&[first]);
                    empty[usize::from(first)] = None;
                    if what == 1 {
                        given.0.store(now + 2, Ordering::Relaxed);
                        empty[usize::from(first)] = Some(now + 2);
                    }
                }
                2 => {
                    given.0.store(now + 1, Ordering::Relaxed);
                    gaps.invalidate(&[first], &[until]);
                    empty[usize::from(first)..usize::from(until)].fill(None);
                }
                _ => {
                    // A reader, possibly at an older read point, moves as far as it finds nothing.
                    let read = now.saturating_sub(u64::from(back));
                    let found = empty[usize::from(first)..usize::from(until)].iter().take_while(|e| e.is_some_and(|s| s <= read));
                    let end = first + found.count() as u8;
                    if end > first {
                        gaps.learn(&[first], &[end], read, 1000);
                    }
                }
            }
            check(&gaps);
            for at in 0..72u8 {
                for read in [given.0.load(Ordering::Relaxed), now] {
                    if let Some(to) = forward(&gaps, &[at], read) {
                        let passed = &empty[usize::from(at)..usize::from(to[0])];
                        prop_assert!(passed.iter().all(|e| e.is_some_and(|s| s <= read)), "from {at} to {to:?} at {read}");
                    }
                }
            }
        }
    }
}
