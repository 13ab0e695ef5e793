//! What gaps know: how they are noted, proven, cut and forgotten.

use super::*;
use std::sync::atomic::AtomicU64 as Number;

/// Writers who have given out so many numbers.
struct Given(Number);

impl Writers for Given {
    fn hold(&self, f: &mut dyn FnMut(Seq)) {
        f(self.0.load(Ordering::Relaxed));
    }
}

fn at(last: Seq) -> (Gaps, Arc<Given>) {
    let (gaps, given) = (Gaps::default(), Arc::new(Given(Number::new(last))));
    let writers: Arc<dyn Writers> = given.clone();
    gaps.set_writers(|| Arc::downgrade(&writers));
    (gaps, given)
}

fn forward(gaps: &Gaps, key: &[u8], read: Seq) -> Option<Vec<u8>> {
    let mut to = vec![];
    gaps.leap(key, true, read, &mut to).then_some(to)
}

#[test]
fn what_a_reader_of_the_newest_state_finds_empty_is_sure_at_once() {
    let (gaps, _given) = at(7);
    gaps.learn(b"b", b"m", 7, 1000);
    assert_eq!(forward(&gaps, b"a", 9), None);
    assert_eq!(forward(&gaps, b"b", 7), Some(b"m".to_vec()));
    assert_eq!(forward(&gaps, b"lzz", 9), Some(b"m".to_vec()));
    assert_eq!(forward(&gaps, b"m", 9), None);
    assert_eq!(forward(&gaps, b"c", 6), None, "a reader before it may see what was deleted since");
    let mut to = vec![];
    assert!(gaps.leap(b"c", false, 9, &mut to) && to == b"b");
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
    // A reader from before the put finds it all empty still.
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
        assert_eq!(forward(&gaps, b"c", 7), None, "before 10 nobody knows of what lies behind m");
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
    gaps.cut_range(b"a", b"z");
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

#[test]
fn there_are_never_many_and_the_useful_ones_stay() {
    let (gaps, given) = at(7);
    let key = |i: u32| i.to_be_bytes();
    (0..200).for_each(|i| gaps.learn(&key(10 * i), &key(10 * i + 5), 7, 1000 + u64::from(i)));
    given.0.store(100, Ordering::Relaxed);
    (0..200).for_each(|i| gaps.learn(&key(10 * i), &key(10 * i + 5), 7, 1000 + u64::from(i)));
    assert!(gaps.count.load(Ordering::Relaxed) as usize <= 2 * MOST);
    given.0.store(7, Ordering::Relaxed);
    // Little, but again and again.
    (0..2000).for_each(|_| gaps.learn(&key(5000), &key(5005), 7, 200));
    assert!(forward(&gaps, &key(5001), 9).is_some());
    gaps.learn(&[b'x'; LONGEST + 1], b"y", 9, 1 << 40);
    assert!(forward(&gaps, &[b'x'; LONGEST + 2], 9).is_none(), "keys that are too long are not kept");
}
