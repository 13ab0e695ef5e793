//! Tests the memtable against ordered maps, single-threaded and with many threads.

use super::*;
use crate::base::cursor::Cursor;
use crate::base::key::{MAX_KEY_LEN, MAX_SEQ};
use crate::util::epoch::pin;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

type Oracle = BTreeMap<(Vec<u8>, Reverse<Trailer>), Vec<u8>>;

fn table(capacity: usize) -> Arc<Memtable> {
    Memtable::new(&ArenaPool::new(1), capacity).unwrap()
}

fn add(t: &Memtable, oracle: &mut Oracle, key: &[u8], trailer: Trailer, value: &[u8]) {
    assert!(t.reserve(Memtable::cost(key.len(), value.len())));
    t.add(key, trailer, value);
    assert!(oracle.insert((key.to_vec(), Reverse(trailer)), value.to_vec()).is_none());
}

fn here(c: &MemCursor) -> Option<(Vec<u8>, Trailer, Vec<u8>)> {
    c.valid().then(|| (c.key().to_vec(), c.trailer(), c.value().to_vec()))
}

fn row(e: (&(Vec<u8>, Reverse<Trailer>), &Vec<u8>)) -> (Vec<u8>, Trailer, Vec<u8>) {
    (e.0.0.clone(), e.0.1.0, e.1.clone())
}

/// Checks both directions in full, then every operation around each of the probes.
fn check(t: &Arc<Memtable>, oracle: &Oracle, probes: &[Vec<u8>]) {
    assert_eq!(t.entries(), oracle.len() as u64);
    let mut c = t.cursor();
    assert!(!c.valid());
    c.first().unwrap();
    for e in oracle.iter().map(row) {
        assert_eq!(here(&c), Some(e));
        c.next().unwrap();
    }
    assert!(!c.valid());
    c.prev().unwrap();
    assert!(!c.valid(), "C3");
    c.last().unwrap();
    for e in oracle.iter().rev().map(row) {
        assert_eq!(here(&c), Some(e));
        c.prev().unwrap();
    }
    c.next().unwrap();
    assert!(!c.valid(), "C3");
    let newest = oracle.keys().map(|k| k.1.0.seq()).max().unwrap_or(0);
    for key in probes {
        for read in [0, newest / 3, newest / 2, newest, MAX_SEQ] {
            let from = (key.clone(), Reverse(Trailer::at(read)));
            let want = oracle.range(from.clone()..).next().map(row);
            let found = t.get(key, read);
            let visible = want.clone().filter(|w| w.0 == *key);
            assert_eq!(
                found.map(|f| (f.trailer, f.value.to_vec())),
                visible.map(|(_, t, v)| (t, v))
            );
            c.seek(key, Trailer::at(read)).unwrap();
            assert_eq!(here(&c), want);
            c.prev().unwrap();
            if want.is_some() {
                assert_eq!(
                    here(&c),
                    oracle.range((Unbounded, Excluded(from))).next_back().map(row)
                );
            }
        }
        c.seek_before(key).unwrap();
        let mut at = (key.clone(), Reverse(Trailer::NEWEST));
        for _ in 0..3 {
            let want = oracle.range((Unbounded, Excluded(at.clone()))).next_back();
            assert_eq!(here(&c), want.map(row));
            let Some((k, _)) = want else { break };
            at = k.clone();
            c.prev().unwrap();
        }
        if c.valid() {
            let after = (c.key().to_vec(), Reverse(c.trailer()));
            c.next().unwrap();
            assert_eq!(here(&c), oracle.range((Excluded(after), Unbounded)).next().map(row));
        }
    }
}

fn adversarial_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = || prop_oneof![Just(0u8), Just(0), Just(1), Just(0xff)];
    let tail = move || prop::collection::vec(byte(), 0..7);
    prop_oneof![
        4 => tail(),
        2 => tail().prop_map(|t| [&[7; 24][..], &t].concat()),
        2 => tail().prop_map(|t| [&[7; 32][..], &t].concat()),
        2 => (tail(), tail()).prop_map(|(a, b)| [&a[..], &[0; 13], &b].concat()),
        1 => any::<Vec<u8>>(),
        1 => any::<u64>().prop_map(|n| [&[7; 29][..], &n.to_be_bytes()].concat()),
        1 => (0u64..40).prop_map(|n| [&[9; 15][..], &n.to_be_bytes(), b"column"].concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 64 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_btree_map(
        keys in prop::collection::vec((adversarial_key(), 1u8..=3), 0..if cfg!(miri) { 60 } else { 500 }),
        strangers in prop::collection::vec(adversarial_key(), 0..20),
    ) {
        let t = table(1 << 20);
        let mut oracle = Oracle::new();
        for (i, (key, kind)) in keys.iter().enumerate() {
            let trailer = Trailer::new(i as u64 + 1, Kind::from_u8(*kind).unwrap());
            add(&t, &mut oracle, key, trailer, format!("{i}").as_bytes());
        }
        let mut probes: Vec<_> = keys.into_iter().map(|(k, _)| k).take(if cfg!(miri) { 10 } else { 100 }).collect();
        probes.extend(strangers);
        check(&t, &oracle, &probes);
    }
}

#[test]
fn the_versions_of_one_key_span_leaves() {
    let n = if cfg!(miri) { 40 } else { 1000 };
    for descending in [false, true] {
        let t = table(1 << 20);
        let mut oracle = Oracle::new();
        for key in [&b"a"[..], b"kex", b"key\0", b"z"] {
            add(&t, &mut oracle, key, Trailer::new(5000, Kind::Put), b"neighbour");
        }
        for i in 0..n {
            // Not in the order of sequence numbers: writers overtake each other.
            let i = if descending { n - i } else { (i * 7) % n + 1 };
            add(&t, &mut oracle, b"key", Trailer::new(i, Kind::Put), &i.to_le_bytes());
        }
        for read in 1..=n {
            let found = t.get(b"key", read).unwrap();
            assert_eq!((found.trailer.seq(), found.value), (read, &read.to_le_bytes()[..]));
        }
        assert!(t.get(b"key", 0).is_none());
        check(&t, &oracle, &[b"key".to_vec(), b"kex".to_vec(), b"key\0".to_vec()]);
    }
}

#[test]
fn ordered_loads_of_keys_with_a_long_common_prefix() {
    let n = if cfg!(miri) { 50 } else { 3000u64 };
    for (prefix, backwards) in [(0, false), (24, false), (32, false), (32, true), (3, true)] {
        let t = table(2 << 20);
        let mut oracle = Oracle::new();
        let mut keys = vec![];
        for i in 0..n {
            let i = if backwards { n - i } else { i };
            let key = [&vec![b'p'; prefix][..], &i.to_be_bytes()].concat();
            add(&t, &mut oracle, &key, Trailer::new(i + 1, Kind::Put), b"v");
            keys.push(key);
        }
        keys.extend([vec![], vec![b'p'; 24], vec![b'p'; 32], vec![b'q']]);
        keys.truncate(400.min(keys.len()));
        check(&t, &oracle, &keys);
    }
}

#[test]
fn extreme_entries() {
    let t = table(if cfg!(miri) { 1 << 20 } else { 8 << 20 });
    let mut oracle = Oracle::new();
    let long = vec![b'k'; 65_535];
    for (i, len) in [0, 1, 65_534, 65_535, 65_536, 300_000].into_iter().enumerate() {
        let value = vec![i as u8; len];
        add(&t, &mut oracle, &long[..i], Trailer::new(i as u64, Kind::Put), &value);
    }
    add(&t, &mut oracle, &long, Trailer::new(MAX_SEQ, Kind::Merge), b"");
    add(&t, &mut oracle, b"", Trailer::new(77, Kind::Delete), b"");
    let mut probes = vec![vec![], b"kk".to_vec(), long];
    for (i, len) in [65_534, 65_535, 65_536, MAX_KEY_LEN - 1, MAX_KEY_LEN].into_iter().enumerate() {
        let key = [&vec![b'k'; len - 1][..], b"x"].concat();
        for value in [0, 9, 65_534, 65_535] {
            add(
                &t,
                &mut oracle,
                &key,
                Trailer::new(1000 + 5 * value + i as u64, Kind::Put),
                &vec![b'v'; value as usize],
            );
        }
        probes.push(key);
    }
    check(&t, &oracle, &probes);
    assert_eq!(t.deletes(), 1);
    assert!(
        Memtable::new(&ArenaPool::new(0), MIN_CAPACITY - 1).is_err()
            && Memtable::new(&ArenaPool::new(0), MAX_CAPACITY + 1).is_err()
    );
}

#[test]
fn a_value_outlives_the_table() {
    let pool = ArenaPool::new(1);
    let t = Memtable::new(&pool, MIN_CAPACITY).unwrap();
    assert!(t.is_empty() && t.reserve(Memtable::cost(1, 5)));
    t.add(b"k", Trailer::new(1, Kind::Put), b"value");
    let t = SharedMemtable::new(t);
    let pinned = t.pin(&t.get(b"k", 1).unwrap());
    let mut c = t.cursor();
    c.seek(b"", Trailer::NEWEST).unwrap();
    let by_cursor = c.pin();
    drop((t, c));
    assert_eq!(pool.spare_bytes(), 0, "still in use");
    assert_eq!((&*pinned, &*by_cursor), (&b"value"[..], &b"value"[..]));
    drop((pinned, by_cursor));
    assert_eq!((pool.spare_bytes(), pool.bytes()), (MIN_CAPACITY, MIN_CAPACITY));
}

#[test]
#[should_panic(expected = "another memtable")]
fn a_value_cannot_be_pinned_by_another_table() {
    let (a, b) = (table(MIN_CAPACITY), table(MIN_CAPACITY));
    a.add(b"k", Trailer::new(1, Kind::Put), b"v");
    SharedMemtable::new(b).pin(&a.get(b"k", 1).unwrap());
}

/// Every way of filling a table ends with a refusal, never with a panic, and leaves little unused.
#[test]
fn reservations_cover_what_adds_take() {
    let pool = ArenaPool::new(1);
    let capacity = if cfg!(miri) { MIN_CAPACITY } else { 1 << 20 };
    let mut seed = 9u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for (round, (key_len, value_len)) in
        [(16, 100), (8, 0), (16, 100), (8, 0), (9, 3000)].into_iter().enumerate()
    {
        // The pool returns the last round's memory with its old content.
        let t = Memtable::new(&pool, capacity).unwrap();
        let mut n = 0u64;
        let cost = Memtable::cost(key_len, value_len);
        while t.reserve(cost) {
            n += 1;
            let i = if round < 2 { n } else { random() };
            let mut key = vec![0; key_len];
            key[..8].copy_from_slice(&i.to_be_bytes());
            t.add(&key, Trailer::new(n, Kind::Put), &vec![1; value_len]);
        }
        let used = t.list.arena().used();
        let fill = used as f64 / capacity as f64;
        assert!(used <= capacity + cost + arena::SPLIT && fill > 0.7, "round {round}: {fill}");
        assert_eq!(t.entries(), n);
        assert!(!t.reserve(usize::MAX));
        assert_eq!(pool.bytes(), capacity + t.filter.memory());
    }
}

#[test]
fn the_worst_history_stays_within_its_reservation() {
    let t = table(1 << 20);
    let mut reserved = EMPTY;
    let mut n = 0u64;
    // Full leaves first, then one more entry into each of them: every add causes a split.
    let leaves = if cfg!(miri) { 20 } else { 300 };
    let full: Vec<u64> = (0..leaves * LEAF as u64).map(|i| i * 2).collect();
    let one_more = (0..leaves).map(|leaf| leaf * LEAF as u64 * 2 + 1);
    for i in full.into_iter().chain(one_more) {
        n += 1;
        reserved += Memtable::cost(8, 0);
        t.add(&i.to_be_bytes(), Trailer::new(n, Kind::Put), b"");
        assert!(t.list.arena().used() <= reserved, "{n}");
    }
}

#[test]
fn the_pool_keeps_what_it_may() {
    let pool = ArenaPool::new(2);
    pool.prepare(MIN_CAPACITY).unwrap();
    pool.prepare(MIN_CAPACITY).unwrap();
    assert_eq!((pool.bytes(), pool.spare_bytes()), (MIN_CAPACITY, MIN_CAPACITY));
    let tables: Vec<_> = (0..4).map(|_| Memtable::new(&pool, MIN_CAPACITY).unwrap()).collect();
    let other = Memtable::new(&pool, 2 * MIN_CAPACITY).unwrap();
    let filters = 6 * other.filter.memory() / 2;
    assert_eq!((pool.bytes(), pool.spare_bytes()), (6 * MIN_CAPACITY + filters, 0));
    drop(tables);
    assert_eq!(
        (pool.bytes(), pool.spare_bytes()),
        (4 * MIN_CAPACITY + other.filter.memory(), 2 * MIN_CAPACITY)
    );
    drop(other);
    assert_eq!((pool.bytes(), pool.spare_bytes()), (3 * MIN_CAPACITY, 3 * MIN_CAPACITY));
    pool.trim();
    assert_eq!((pool.bytes(), pool.spare_bytes()), (0, 0));
}

/// Makes room for adds of this cost, like the owner of a memtable.
fn make_room(t: &mut Arc<Memtable>, cost: usize, most: usize) -> bool {
    while !t.reserve(cost) {
        match t.room_for(cost, most, 0) {
            MemtableRoom::Full => return false,
            MemtableRoom::Extend(bytes) => t.extend(bytes),
            MemtableRoom::Grow(capacity) => *t = t.grown(capacity, cost, false).unwrap(),
        }
    }
    true
}

#[test]
fn a_memtable_grows_from_nothing_and_keeps_what_it_has() {
    let most = if cfg!(miri) { MIN_CAPACITY } else { 4 << 20 };
    let pool = ArenaPool::new(1);
    let hook: Arc<dyn FilterPrefix> = Arc::new(First(2));
    let mut t = Memtable::empty(&pool, Some(hook)).unwrap();
    assert!(t.is_empty() && !t.reserve(Memtable::cost(1, 1)));
    assert!(t.cursor().first().is_ok() && t.get(b"k", MAX_SEQ).is_none());
    assert!(pool.bytes() < 1024, "{}", pool.bytes());
    let (mut oracle, mut capacities, mut n) = (Oracle::new(), vec![], 0u64);
    let mut before: Option<(Arc<Memtable>, u64)> = None;
    loop {
        n += 1;
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let one = RangeTombstone { start: key.to_vec(), end: [&key[..], b"x"].concat(), seq: n };
        let cost =
            Memtable::cost(8, 100) + if n.is_multiple_of(64) { Memtable::cost(8, 9) } else { 0 };
        let small = t.clone();
        let most_taken = t.taken() + t.price(t.room_for(cost, most, 0), cost, false);
        if !make_room(&mut t, cost, most) {
            break;
        }
        if !Arc::ptr_eq(&small, &t) {
            capacities.push(t.capacity());
            assert_eq!(
                (t.entries(), t.deletes(), t.range_deletes()),
                (small.entries(), small.deletes(), small.range_deletes())
            );
            before = Some((small, n));
        }
        let trailer = Trailer::new(n, if n.is_multiple_of(3) { Kind::Delete } else { Kind::Put });
        t.add(&key, trailer, &[n as u8; 100]);
        oracle.insert((key.to_vec(), Reverse(trailer)), vec![n as u8; 100]);
        if n.is_multiple_of(64) {
            t.add_tombstone(&one);
            assert_eq!(t.newest_covering(&key, MAX_SEQ, &pin()), Some(n));
        }
        // Except for a split by the last add: the next one makes room for it.
        assert!(t.taken() + arena::SPLIT >= t.list.arena().used(), "used memory is counted");
        assert!(t.taken() <= most_taken, "the memory exceeds the predicted price");
        // One piece, and the smallest arena.
        assert!(
            t.taken()
                <= 2 * (t.used() + cost) + arena::Mapping::piece(2 * t.capacity()) + (8 << 10),
            "{} {}",
            t.taken(),
            t.used()
        );
    }
    assert!(t.used() > most / 2, "{}", t.used());
    let expected: &[usize] =
        if cfg!(miri) { &[4 << 10, MIN_CAPACITY] } else { &[4 << 10, 32 << 10, 256 << 10, most] };
    assert_eq!(capacities, expected);
    let probes: Vec<_> = oracle.keys().map(|k| k.0.clone()).step_by(oracle.len() / 20).collect();
    check(&t, &oracle, &probes);
    assert!(
        oracle
            .keys()
            .all(|(k, _)| t.may_contain(key_hash(k)) && t.may_contain_prefix(key_hash(&k[..2])))
    );
    // A reader of the smaller one still finds the old entries.
    let (small, at) = before.unwrap();
    assert_eq!(small.entries(), at - 1);
    check(&small, &oracle.into_iter().filter(|(k, _)| k.1.0.seq() < at).collect(), &probes);
}

#[test]
fn a_memtable_grows_as_far_as_one_write_demands() {
    let pool = ArenaPool::new(1);
    let mut t = Memtable::empty(&pool, None).unwrap();
    let cost = Memtable::cost(3, 5 * MIN_CAPACITY);
    assert!(make_room(&mut t, cost, MIN_CAPACITY));
    t.add(b"key", Trailer::new(1, Kind::Put), &vec![7; 5 * MIN_CAPACITY]);
    assert_eq!(t.get(b"key", 1).unwrap().value.len(), 5 * MIN_CAPACITY);
    assert!(!make_room(&mut t, cost, MIN_CAPACITY), "only an empty memtable exceeds its size");
    let e = Memtable::empty(&pool, None).unwrap().grown(MAX_CAPACITY + 1, 1, false).err().unwrap();
    assert_eq!(e.kind(), crate::ErrorKind::InvalidArgument);
}

#[test]
fn what_is_taken_back_was_not_reserved() {
    let t = table(MIN_CAPACITY);
    for _ in 0..1000 {
        assert!(t.reserve(MIN_CAPACITY / 2));
        t.unreserve(MIN_CAPACITY / 2);
    }
}

#[test]
fn range_tombstones() {
    let t = table(MIN_CAPACITY);
    assert!(t.deletions().is_empty());
    let mut all = vec![];
    for i in 0..100u8 {
        let one = RangeTombstone { start: vec![i], end: vec![i + i % 5 + 1], seq: 200 - i as u64 };
        assert!(t.reserve(Memtable::cost(one.start.len(), one.end.len())));
        t.add_tombstone(&one);
        all.push(one);
        let want: Deletions = all.iter().collect();
        for (key, read) in
            (0..110).flat_map(|k| [MAX_SEQ, 200 - k as u64, 199 - k as u64].map(|read| ([k], read)))
        {
            let newest = want.newest_covering(&key, read);
            assert_eq!(t.newest_covering(&key, read, &pin()), newest);
            assert_eq!(
                t.deletions().iter().filter_map(|d| d.newest_covering(&key, read)).max(),
                newest
            );
        }
        assert!(t.deletions().len() <= 6, "{}", t.deletions().len());
    }
    assert_eq!(t.fragments(&[150]), all.iter().collect::<Deletions>().fragments(&[150]));
    assert_eq!((t.range_deletes(), t.entries(), t.is_empty()), (100, 0, false));
}

/// Four writers with interleaving keys, and readers in both directions. A read sees all writes
/// finished before it began, in order and without duplicates.
#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn writers_and_readers_at_once() {
    const WRITERS: u64 = 4;
    let each: u64 = if cfg!(miri) { 30 } else { 5_000 };
    let t = table(8 << 20);
    let done: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    // Writers 0 and 1 scatter, 2 ascends, 3 writes versions of few keys.
    let key = |w: u64, i: u64| match w {
        0 | 1 => [(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes(), w.to_be_bytes()].concat(),
        2 => [&[0x80; 20][..], &i.to_be_bytes()].concat(),
        _ => vec![0x80, (i % 3) as u8],
    };
    let seq = |w: u64, i: u64| i * WRITERS + w + 1;
    std::thread::scope(|s| {
        for (w, done) in done.iter().enumerate() {
            let (t, w) = (&t, w as u64);
            s.spawn(move || {
                for i in 0..each {
                    let k = key(w, i);
                    assert!(t.reserve(Memtable::cost(k.len(), 8)));
                    t.add(&k, Trailer::new(seq(w, i), Kind::Put), &i.to_le_bytes());
                    done.store(i + 1, std::sync::atomic::Ordering::Release);
                }
            });
        }
        for forward in [true, false] {
            let (t, done) = (&t, &done);
            s.spawn(move || {
                loop {
                    let before: Vec<u64> =
                        done.iter().map(|d| d.load(std::sync::atomic::Ordering::Acquire)).collect();
                    for (w, &n) in before.iter().enumerate() {
                        for i in n.saturating_sub(50)..n {
                            let found = t.get(&key(w as u64, i), seq(w as u64, i)).unwrap();
                            assert_eq!(found.value, i.to_le_bytes());
                        }
                    }
                    let mut met = [0u64; WRITERS as usize];
                    let mut last: Option<(Vec<u8>, Trailer)> = None;
                    let mut c = t.cursor();
                    if forward {
                        c.first().unwrap()
                    } else {
                        c.last().unwrap()
                    }
                    while c.valid() {
                        if let Some((k, at)) = &last {
                            let order = crate::base::key::compare(k, *at, c.key(), c.trailer());
                            assert_eq!(
                                order,
                                if forward {
                                    std::cmp::Ordering::Less
                                } else {
                                    std::cmp::Ordering::Greater
                                }
                            );
                        }
                        let (w, i) =
                            ((c.trailer().seq() - 1) % WRITERS, (c.trailer().seq() - 1) / WRITERS);
                        assert_eq!((c.key(), c.value()), (&key(w, i)[..], &i.to_le_bytes()[..]));
                        met[w as usize] += (i < before[w as usize]) as u64;
                        last = Some((c.key().to_vec(), c.trailer()));
                        if forward { c.next().unwrap() } else { c.prev().unwrap() }
                    }
                    assert_eq!(met[..], before[..]);
                    if before.iter().all(|&n| n == each) {
                        break;
                    }
                }
            });
        }
    });
    let mut oracle = Oracle::new();
    for (w, i) in (0..WRITERS).flat_map(|w| (0..each).map(move |i| (w, i))) {
        oracle.insert(
            (key(w, i), Reverse(Trailer::new(seq(w, i), Kind::Put))),
            i.to_le_bytes().to_vec(),
        );
    }
    check(&t, &oracle, &[vec![0x80], vec![0x80, 1], vec![0x80, 3], vec![0x80; 20]]);
    let all = oracle.range((Included((vec![], Reverse(Trailer::NEWEST))), Unbounded)).count();
    assert_eq!(all as u64, WRITERS * each);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn tombstones_beside_readers() {
    let t = table(1 << 20);
    let n = if cfg!(miri) { 10 } else { 300u64 };
    std::thread::scope(|s| {
        for w in 0..2u64 {
            let t = &t;
            s.spawn(move || {
                for i in 0..n {
                    t.add_tombstone(&RangeTombstone {
                        start: vec![w as u8],
                        end: vec![w as u8 + 1],
                        seq: 1 + i * 2 + w,
                    });
                    assert!(
                        t.newest_covering(&[w as u8], MAX_SEQ, &pin()) >= Some(1 + i * 2 + w),
                        "its own write"
                    );
                }
            });
        }
    });
    let all = t.deletions();
    let all = Deletions::build(all.iter().flat_map(|d| d.iter())).all_fragments();
    assert_eq!(all.as_slice().iter().map(|f| f.seqs.len() as u64).sum::<u64>(), 2 * n);
}

#[test]
fn the_same_history_has_the_same_shape() {
    let build = || {
        let t = table(1 << 20);
        for i in 0..if cfg!(miri) { 60 } else { 3000u64 } {
            t.add(
                &i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(),
                Trailer::new(i, Kind::Put),
                b"v",
            );
        }
        (t.used(), t.list.heights())
    };
    assert_eq!(build(), build());
}

struct First(usize);

impl FilterPrefix for First {
    fn name(&self) -> &str {
        "first"
    }
    fn prefix_len(&self, key: &[u8]) -> usize {
        self.0.min(key.len())
    }
}

#[test]
fn prefixes_are_known_whether_the_hook_came_first_or_last() {
    let hook: Arc<dyn FilterPrefix> = Arc::new(First(4));
    let pool = ArenaPool::new(1);
    let early =
        Memtable::empty(&pool, Some(hook.clone())).unwrap().grown(1 << 20, 1 << 20, false).unwrap();
    let late = Memtable::new(&pool, 1 << 20).unwrap();
    let key = |i: u32| [&i.to_be_bytes()[..], b"/name"].concat();
    let hash = |i: u32| key_hash(&i.to_be_bytes());
    let fill = |t: &Memtable, from: u32, until: u32| {
        for i in from..until {
            assert!(t.reserve(Memtable::cost(9, 3)));
            t.add(&key(i), Trailer::new(i as u64 + 1, Kind::Put), b"abc");
        }
    };
    fill(&early, 0, 3000);
    fill(&late, 0, 2000);
    assert!(
        (0..9000).all(|i| late.may_contain_prefix(hash(i))),
        "what nobody asked for is not denied"
    );
    late.learn_prefixes(hook.clone()).unwrap();
    late.learn_prefixes(hook).unwrap();
    fill(&late, 2000, 3000);
    for t in [early, late] {
        assert!(
            (0..3000).all(|i| t.may_contain_prefix(hash(i)) && t.may_contain(key_hash(&key(i))))
        );
        let wrong = (3000..9000).filter(|i| t.may_contain_prefix(hash(*i))).count();
        assert!(wrong < 600, "{wrong} of 6,000");
    }
}
