//! Keys of the maximum length, and longer bounds. The tests cover range deletions that are cut
//! between tables, seeks, ranges, dropped ranges and exported files, before and after a reopening.
//! They also cover keys of about 65,535 bytes, where 16-bit lengths in memory and shared prefixes
//! in blocks overflow.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use firn_crash::{CrashEnv, Cut};
use firn_kv::Env;
use firn_kv::policy::Tiered;
use firn_kv::{Db, DbOptions, ErrorKind, MAX_KEY_LEN, Policy, Tree, TreeOptions};
use firn_testkit::rng::Rng;

fn open(env: &CrashEnv) -> (Db, Tree) {
    let options =
        DbOptions { memory_budget: 32 << 20, background_threads: 0, ..DbOptions::default() };
    let db = Db::open_in(Arc::new(env.clone()), "/db", options).unwrap();
    let policy =
        Policy::Tiered(Tiered { min_runs: 64, max_runs: 64, bucket: 2.0, ..Tiered::default() });
    let tree = TreeOptions {
        memtable_size: 8 << 20,
        table_size: 64 << 10,
        policy,
        ..TreeOptions::default()
    };
    let tree = db.tree("t", tree).unwrap();
    (db, tree)
}

/// Returns a key of the maximum length that begins with `m` and ends with `end`.
fn longest(end: &[u8]) -> Vec<u8> {
    [&vec![b'm'; MAX_KEY_LEN - end.len()], end].concat()
}

/// Returns a value that fills a small table, even one whose first and last key have the maximum
/// length. The manifest repeats both keys, so such a table is cut at eight times their length.
fn large() -> Vec<u8> {
    let mut value = vec![0; 9 << 20];
    Rng::new(1).fill(&mut value);
    value
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn own(item: firn_kv::Result<(firn_kv::Value, firn_kv::Value)>) -> (Vec<u8>, Vec<u8>) {
    item.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()
}

fn check(tree: &Tree, map: &Map) {
    assert!(tree.iter().map(own).eq(map.clone()), "forwards");
    assert!(tree.iter().rev().map(own).eq(map.clone().into_iter().rev()), "backwards");
    for key in map.keys() {
        assert_eq!(tree.get(key).unwrap().as_deref(), map.get(key).map(Vec::as_slice));
    }
}

#[test]
fn a_range_deletion_is_split_after_a_key_of_maximal_length() {
    for end in [&b"m"[..], b"\xff", b"n\xff\xff", b"\0"] {
        let env = CrashEnv::new(1);
        let (db, tree) = open(&env);
        let key = longest(end);
        // Older entries on both sides of the cut: the deletion must also hide those in the
        // neighbouring table.
        let mut beyond = key[..key.iter().rposition(|&b| b != 0xff).unwrap() + 1].to_vec();
        *beyond.last_mut().unwrap() += 1;
        for old in [&b"b"[..], &key, &beyond, b"mo", b"y"] {
            tree.put(old, b"old").unwrap();
        }
        tree.flush().unwrap();
        tree.delete_range("a".."z").unwrap();
        tree.put(&key, &large()).unwrap();
        tree.put(b"n", b"new").unwrap();
        tree.flush().unwrap();
        assert!(tree.tables().unwrap().len() > 2, "the deletion is cut between tables");
        let map: Map = [(key.clone(), large()), (b"n".to_vec(), b"new".to_vec())].into();
        check(&tree, &map);
        assert_eq!(tree.get(&beyond).unwrap(), None);
        assert!(db.verify(|_, _| {}).unwrap().errors.is_empty());
        drop((tree, db));
        let (db, tree) = open(&env);
        check(&tree, &map);
        tree.compact().unwrap();
        check(&tree, &map);
        let export = Path::new("/export.sst");
        assert_eq!(tree.export(.., export).unwrap(), 2);
        db.checkpoint("/copy").unwrap();
        drop((tree, db));
        let (db, tree) = open(&env.crash_image(0, &Cut::PowerNone));
        check(&tree, &map);
        drop((tree, db));
        let copy = Db::open_in(Arc::new(env.clone()), "/copy", DbOptions::default()).unwrap();
        check(&copy.existing_tree("t").unwrap(), &map);
        let other = copy.tree("other", TreeOptions::default()).unwrap();
        other.import(export).unwrap();
        check(&other, &map);
    }
}

#[test]
fn bounds_may_be_longer_than_any_key() {
    let env = CrashEnv::new(1);
    let (db, tree) = open(&env);
    let (greatest, key) = (vec![0xff; MAX_KEY_LEN], longest(b"m"));
    let over = |k: &[u8]| [k, b"\0"].concat();
    let mut map = Map::new();
    for k in [&b"a"[..], &key, b"n", &greatest] {
        tree.put(k, b"v").unwrap();
        map.insert(k.to_vec(), b"v".to_vec());
    }
    for round in 0..3 {
        if round == 1 {
            tree.flush().unwrap();
        }
        if round == 2 {
            tree.compact().unwrap();
        }
        check(&tree, &map);
        for bound in [&key, &greatest] {
            let long = over(bound);
            assert_eq!(tree.get(&long).unwrap(), None);
            assert_eq!(
                tree.multi_get(&[long.as_slice(), bound]).unwrap()[1].as_deref(),
                Some(&b"v"[..])
            );
            let after = map.range::<Vec<u8>, _>((Bound::Excluded(bound), Bound::Unbounded)).count();
            assert_eq!(
                tree.range((Bound::Excluded(bound.as_slice()), Bound::Unbounded)).count(),
                after
            );
            assert_eq!(
                tree.range((Bound::Excluded(bound.as_slice()), Bound::Unbounded)).rev().count(),
                after
            );
            assert_eq!(tree.range(long.clone()..).count(), after);
            assert_eq!(tree.range(..long.clone()).count(), map.len() - after);
            assert_eq!(tree.range(..=long.clone()).rev().count(), map.len() - after);
            assert_eq!(tree.range(..=bound.clone()).count(), map.len() - after);
            assert_eq!(tree.prefix(&long).count(), 0);
            let mut c = tree.cursor(..).unwrap();
            c.seek(&long).unwrap();
            assert_eq!(c.is_valid(), after > 0);
            c.seek_before(&long).unwrap();
            assert_eq!(c.key(), bound.as_slice());
            tree.approximate_size(bound..&long).unwrap();
            tree.compact_range(bound..=&long).unwrap();
            let file = env.list(Path::new("/")).unwrap().len();
            assert_eq!(
                tree.export(long..=vec![0xff; MAX_KEY_LEN + 9], format!("/export{round}-{file}"))
                    .unwrap(),
                after as u64
            );
        }
        let mut tx = db.transaction();
        assert_eq!(tx.range(&tree, over(&key)..=over(&greatest)).count(), 2);
        tx.put(&tree, b"a", b"v").unwrap();
        tx.commit().unwrap();
        // Writes accept only valid keys as bounds.
        for (start, end) in [(over(&key), greatest.clone()), (b"a".to_vec(), over(&greatest))] {
            assert_eq!(
                tree.delete_range(&start..&end).unwrap_err().kind(),
                ErrorKind::InvalidArgument
            );
            assert_eq!(
                tree.drop_range(&start..&end).unwrap_err().kind(),
                ErrorKind::InvalidArgument
            );
        }
    }
    drop((tree, db));
    check(&open(&env).1, &map);
}

/// Returns a key of `len` bytes. It first differs at `at` from all other such keys of its length.
fn about(len: usize, at: usize, byte: u8) -> Vec<u8> {
    let mut key = vec![b'p'; len];
    key[at] = byte;
    key
}

#[test]
fn keys_that_share_more_than_a_prefix_can_be_long() {
    let env = CrashEnv::new(1);
    let (db, tree) = open(&env);
    let mut map = Map::new();
    let mut snapshots = vec![];
    // Write twice, so that each key has an older version.
    for round in 0..2u8 {
        for len in [65_534, 65_535, 65_536, 65_544, MAX_KEY_LEN] {
            for at in
                [0, 65_533, 65_534, 65_535, len - 9, len - 1].into_iter().filter(|&at| at < len)
            {
                for byte in [b'a', 0xff] {
                    let key = about(len, at, byte);
                    let value =
                        [&[round, byte][..], &at.to_le_bytes(), &len.to_le_bytes()].concat();
                    tree.put(&key, &value).unwrap();
                    map.insert(key, value);
                }
            }
        }
        snapshots.push((db.snapshot(), map.clone()));
        check(&tree, &map);
        for _ in 0..2 {
            for (snapshot, then) in &snapshots {
                assert!(snapshot.range(&tree, ..).map(own).eq(then.clone()));
            }
            tree.flush().unwrap();
        }
    }
    let seeks = |tree: &Tree, map: &Map| {
        let mut c = tree.cursor(..).unwrap();
        for key in map.keys() {
            for probe in [
                key.clone(),
                key[..key.len() - 1].to_vec(),
                [key, &b"\0"[..]].concat(),
                about(key.len(), 65_533, b'q'),
            ] {
                c.seek(&probe).unwrap();
                let want = map.range(probe.clone()..).next();
                assert_eq!(
                    c.is_valid().then(|| (c.key(), c.value())),
                    want.map(|(k, v)| (k.as_slice(), v.as_slice()))
                );
                c.seek_before(&probe).unwrap();
                let want = map.range(..probe.clone()).next_back();
                assert_eq!(
                    c.is_valid().then(|| (c.key(), c.value())),
                    want.map(|(k, v)| (k.as_slice(), v.as_slice()))
                );
            }
        }
        for n in [1, 65_533, 65_535, 65_536, 300_000] {
            let prefix = vec![b'p'; n];
            let want = map.keys().filter(|k| k.starts_with(&prefix)).count();
            assert!(want > 0);
            assert_eq!(
                (tree.prefix(&prefix).count(), tree.prefix(&prefix).rev().count()),
                (want, want)
            );
        }
    };
    seeks(&tree, &map);
    tree.compact().unwrap();
    seeks(&tree, &map);
    drop(snapshots);
    // Delete all keys between two keys that differ only in their last bytes. Later writes stay.
    let (from, to) =
        (about(MAX_KEY_LEN, MAX_KEY_LEN - 9, b'a'), about(MAX_KEY_LEN, MAX_KEY_LEN - 9, 0xff));
    tree.delete_range(&from..&to).unwrap();
    let gone: Vec<Vec<u8>> = map.range(from.clone()..to.clone()).map(|(k, _)| k.clone()).collect();
    assert_eq!(gone.len(), 3);
    gone.iter().for_each(|k| assert!(map.remove(k).is_some()));
    tree.put(&from, b"again").unwrap();
    map.insert(from, b"again".to_vec());
    check(&tree, &map);
    drop((tree, db));
    let (db, tree) = open(&env.crash_image(0, &Cut::PowerNone));
    check(&tree, &map);
    tree.compact().unwrap();
    seeks(&tree, &map);
    assert!(db.verify(|_, _| {}).unwrap().errors.is_empty());
}

#[test]
fn an_error_shows_the_beginning_of_a_long_key() {
    let env = CrashEnv::new(1);
    let (db, tree) = open(&env);
    tree.put(&longest(b"m"), b"v").unwrap();
    tree.flush().unwrap();
    drop((tree, db));
    let path =
        env.list(Path::new("/db")).unwrap().into_iter().find(|f| f.ends_with(".sst")).unwrap();
    let path = Path::new("/db").join(path);
    let mut bytes = env.read_file(&path).unwrap();
    bytes[40] ^= 1;
    env.remove(&path).unwrap();
    env.create(&path).unwrap().append(&bytes).unwrap();
    let report = open(&env).0.verify(|_, _| {}).unwrap();
    assert!(
        !report.errors.is_empty() && report.errors.iter().all(|e| e.to_string().len() < 2000),
        "{:?}",
        report.errors
    );
}

/// Small tables of long keys: the bounds in the manifest stay a fraction of the data. So the
/// manifest does not reach its limit long before the device is full, and the store opens.
#[test]
fn bounds_of_tables_are_a_fraction_of_the_data() {
    let env = CrashEnv::new(1);
    let (db, tree) = open(&env);
    let mut rng = Rng::new(2);
    for i in 0..100u32 {
        let mut key = vec![0; 256 << 10];
        rng.fill(&mut key);
        key[..4].copy_from_slice(&i.to_be_bytes());
        tree.put(&key, b"").unwrap();
    }
    tree.compact().unwrap();
    let tables = tree.tables().unwrap();
    let bounds: usize = tables.iter().map(|t| t.first_key.len() + t.last_key.len()).sum();
    let bytes: u64 = tables.iter().map(|t| t.bytes).sum();
    assert!(bytes > 25 << 20 && tables.len() > 2);
    // The last table may have any size.
    assert!(
        (bounds as u64) < bytes / 8 + (1 << 20),
        "{bounds} bytes of bounds for {bytes} bytes of data in {} tables",
        tables.len()
    );
    db.checkpoint("/copy").unwrap();
    let manifest = env
        .list(Path::new("/copy"))
        .unwrap()
        .into_iter()
        .find(|name| name.starts_with("MANIFEST"))
        .unwrap();
    let len = env.file_len(&Path::new("/copy").join(manifest)).unwrap();
    assert!(len < bytes / 4, "{len} bytes");
}
