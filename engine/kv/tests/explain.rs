//! RecordedReads read costs match the work of the reads. RecordedReads reads return the same results as
//! others. Their counts agree with the written data, the cache contents and the tables' metadata.

use super::append;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::explain::{
    EntryLocation, MAX_READS, Origin, ReadCost, ReadTarget, RecordedReads, Skipped,
};
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::sstable::Table;
use firn_kv::policy::Tiered;
use firn_kv::{Compression, Db, DbOptions, FilterPrefix, Policy, ReadMode, Tree, TreeOptions};
use firn_testkit::rng::Rng;

use append::Append;

fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn open(env: &Arc<MemEnv>) -> Db {
    let options =
        DbOptions { background_threads: 0, read_mode: ReadMode::Pread, ..DbOptions::default() };
    Db::open_in(env.clone(), "db", options).unwrap()
}

/// Options that let runs accumulate: nothing is compacted unless the test requests it.
fn piling() -> TreeOptions {
    let policy =
        Policy::Tiered(Tiered { min_runs: 32, max_runs: 64, bucket: 3.0, ..Tiered::default() });
    TreeOptions { policy, block_size: 512, ..TreeOptions::default() }
}

fn recorded<T>(tree: &Tree, read: impl FnOnce() -> T) -> (T, RecordedReads) {
    let recording = tree.db().record_reads();
    let given = read();
    (given, recording.finish())
}

/// Returns the cost of the only read that was recorded.
fn cost<T>(tree: &Tree, read: impl FnOnce() -> T) -> (T, ReadCost) {
    let (given, mut recorded) = recorded(tree, read);
    assert_eq!((recorded.reads.len(), recorded.more), (1, 0), "{recorded:?}");
    (given, recorded.reads.remove(0))
}

fn walk(
    tree: &Tree,
    from: &[u8],
    until: &[u8],
    limit: usize,
    reverse: bool,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut c = tree.cursor(from..until).unwrap();
    if reverse {
        c.last().unwrap()
    } else {
        c.first().unwrap()
    }
    let mut all = vec![];
    while c.is_valid() && all.len() < limit {
        all.push((c.key().to_vec(), c.value().to_vec()));
        if all.len() < limit {
            if reverse { c.prev().unwrap() } else { c.next().unwrap() }
        }
    }
    all
}

#[test]
fn recorded_reads_answer_as_others_do() {
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let db = open(&Arc::new(MemEnv::new(seed)));
        let tree = db.tree("t", piling()).unwrap();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for n in 0..1500u64 {
            let k = key(rng.below(400));
            match rng.below(60) {
                0 => {
                    let end = key(rng.below(400));
                    tree.delete_range(&k..&end).unwrap();
                    model.retain(|m, _| !(k <= *m && *m < end));
                }
                1 => tree.flush().unwrap(),
                2..15 => {
                    tree.delete(&k).unwrap();
                    model.remove(&k);
                }
                _ => {
                    let value = n.to_le_bytes().repeat(4);
                    tree.put(&k, &value).unwrap();
                    model.insert(k, value);
                }
            }
        }
        let snapshot = db.snapshot();
        tree.put(&key(3), b"newer").unwrap();
        for n in 0..420 {
            let k = key(n);
            let (value, e) = cost(&tree, || snapshot.get(&tree, &k).unwrap());
            assert_eq!(value.as_deref(), model.get(&k).map(Vec::as_slice), "{seed} {n}");
            assert_eq!(
                (e.found, e.target.clone()),
                (u64::from(value.is_some()), ReadTarget::Key(k.clone()))
            );
            // The blocks that were read are now cached, and the second read visits the same blocks.
            let again = cost(&tree, || snapshot.get(&tree, &k).unwrap()).1.total();
            assert!(again.blocks.iter().all(|b| b.origin == Origin::Cache), "{again:?}");
            assert_eq!(again.blocks.len(), e.total().blocks.len());
            // A negative filter skips the search of its source. A false positive costs one block
            // and no entry.
            let wrong =
                e.sources.iter().filter(|s| s.filters.iter().any(|f| f.right == Some(false)));
            assert!(wrong.clone().all(|s| s.entries.all() == 0));
        }
        for _ in 0..40 {
            let (a, b) = (key(rng.below(400)), key(rng.below(420)));
            let (from, until) = (a.clone().min(b.clone()), a.max(b));
            let limit = 1 + rng.below(200) as usize;
            for reverse in [false, true] {
                let plain = walk(&tree, &from, &until, limit, reverse);
                let (given, e) = cost(&tree, || walk(&tree, &from, &until, limit, reverse));
                assert_eq!(given, plain, "{seed} {reverse}");
                assert_eq!(e.found, plain.len() as u64);
                assert_eq!(
                    e.target,
                    ReadTarget::Range { from: from.clone(), until: Some(until.clone()) }
                );
                assert!(e.total().entries.puts >= e.found);
                let of_tables =
                    e.sources.iter().flat_map(|s| &s.tables).map(|(_, e)| e.all()).sum::<u64>();
                let of_runs =
                    e.sources.iter().filter(|s| matches!(s.location, EntryLocation::Run { .. }));
                assert_eq!(of_tables, of_runs.map(|s| s.entries.all()).sum::<u64>());
            }
        }
        let keys: Vec<_> = (0..50).map(key).collect();
        let plain = tree.multi_get(&keys).unwrap();
        let (given, all) = recorded(&tree, || tree.multi_get(&keys).unwrap());
        assert_eq!(given, plain);
        assert_eq!(all.reads.len(), 50);
        let (n, e) =
            cost(&tree, || tree.iter().rev().fold(0, |n, item| n + usize::from(item.is_ok())));
        assert_eq!((n, n as u64), (tree.iter().count(), e.found));
        tree.compact().unwrap();
        let e = cost(&tree, || tree.get(&key(7)).unwrap()).1;
        assert!(e.searched() <= 1 && e.sources.len() <= 2, "{e:?}");
    }
}

#[test]
fn a_cold_read_reads_what_a_warm_one_finds() {
    let env = Arc::new(MemEnv::new(1));
    let db = open(&env);
    let tree =
        db.tree("t", TreeOptions { compression: vec![Compression::Lz4], ..piling() }).unwrap();
    for run in 0..3 {
        for n in (run..3000).step_by(3) {
            tree.put(&key(n), &[b'v'; 40]).unwrap();
        }
        tree.flush().unwrap();
    }
    drop((tree, db));
    let db = open(&env);
    let tree = db.tree("t", piling()).unwrap();
    // The key is in the oldest run. The newer runs have it within their bounds, so their filters
    // are checked.
    let cold = cost(&tree, || tree.get(&key(300)).unwrap()).1;
    assert_eq!(
        cold.sources.iter().map(|s| s.skipped).collect::<Vec<_>>(),
        [Some(Skipped::Empty), Some(Skipped::Filter), Some(Skipped::Filter), None]
    );
    let all = cold.total();
    assert_eq!(all.opened.len(), 3);
    assert_eq!(
        all.filters.iter().map(|f| (f.maybe, f.right)).collect::<Vec<_>>(),
        [(false, Some(true)), (false, Some(true)), (true, Some(true))]
    );
    assert_eq!(
        (all.blocks.len(), all.blocks[0].origin, all.blocks[0].decompressed),
        (1, Origin::File, true)
    );
    assert_eq!((all.entries.puts, all.entries.all()), (1, 1));
    // The file has this block, and the block has the key.
    let (id, path) = (all.blocks[0].table, table_path(Path::new("db"), all.blocks[0].table));
    let table =
        Table::open(env.open_read(&path, false).unwrap(), &path, id, Cache::new(1 << 20)).unwrap();
    let block = table.blocks().nth(table.locate(&key(300)).unwrap()).unwrap();
    assert_eq!((block.offset, u64::from(block.len)), (all.blocks[0].offset, all.blocks[0].stored));
    // Now the block is cached.
    let warm = cost(&tree, || tree.get(&key(300)).unwrap()).1.total();
    assert_eq!(
        (warm.opened.len(), warm.blocks[0].origin, warm.blocks[0].decompressed),
        (0, Origin::Cache, false)
    );
    // A scan reads each of its blocks once, and a second scan reads none.
    let blocks =
        |e: &ReadCost, o: Origin| e.total().blocks.iter().filter(|b| b.origin == o).count();
    let cold = cost(&tree, || walk(&tree, &key(1000), &key(2000), usize::MAX, false)).1;
    let warm = cost(&tree, || walk(&tree, &key(1000), &key(2000), usize::MAX, false)).1;
    assert_eq!((cold.found, warm.found), (1000, 1000));
    assert!(blocks(&cold, Origin::File) > 60 && blocks(&cold, Origin::Cache) == 0, "{cold:?}");
    assert_eq!(
        (blocks(&warm, Origin::File), blocks(&warm, Origin::Cache)),
        (0, blocks(&cold, Origin::File))
    );
    assert!(cold.total().seeks >= 3);
    // Each read reports its own blocks, even if a second recorded read continues after it.
    let (_, both) = recorded(&tree, || {
        walk(&tree, &key(2400), &key(2401), 1, false);
        walk(&tree, &key(2400), &key(2500), 100, false);
    });
    let told: Vec<usize> = both.reads.iter().map(|r| r.total().blocks.len()).collect();
    assert!(told[0] <= 3 && told[1] > 6, "{told:?}");
}

#[test]
fn tombstones_are_counted_where_they_lie() {
    for reverse in [false, true] {
        let db = open(&Arc::new(MemEnv::new(2)));
        let tree = db.tree("t", piling()).unwrap();
        // While a transaction tracks conflicts, flushes retain point deletes and do not replace
        // them by a range deletion.
        let _running = db.transaction();
        for n in 0..20_000 {
            tree.put(&key(n), b"v").unwrap();
        }
        tree.flush().unwrap();
        for n in 10..19_990 {
            tree.delete(&key(n)).unwrap();
        }
        tree.flush().unwrap();
        let newest = |tree: &Tree| tree.tables().unwrap().iter().map(|t| t.id).max().unwrap();
        let deletes = newest(&tree);
        let (from, until) = if reverse { (0, 19_990) } else { (10, 20_000) };
        let e = cost(&tree, || walk(&tree, &key(from), &key(until), 1, reverse)).1;
        // Each tombstone hides a put; the scan steps over both, one by one.
        assert_eq!((e.found, e.total().entries.tombstones()), (1, 19_980));
        let of = |e: &ReadCost, id: u64| e.total().tables.iter().find(|(t, _)| *t == id).unwrap().1;
        assert_eq!(of(&e, deletes).tombstones(), 19_980);
        assert!(e.total().entries.puts > 19_980);

        // Without hidden puts the scan skips whole blocks of tombstones, and all are counted.
        let alone = db.tree("alone", piling()).unwrap();
        for n in 0..20_000 {
            alone.delete(&key(n)).unwrap();
        }
        alone.put(&key(20_000), b"v").unwrap();
        alone.put(b"first", b"v").unwrap();
        alone.flush().unwrap();
        let deletes = newest(&alone);
        for _ in 0..2 {
            let e = cost(&alone, || walk(&alone, &key(0)[..3], b"z", 1, reverse)).1;
            let e = if reverse {
                cost(&alone, || walk(&alone, b"a", &key(20_000), 1, true)).1
            } else {
                e
            };
            let of = of(&e, deletes);
            assert_eq!(
                (e.found, of.tombstones(), of.skipped_deletes > 15_000),
                (1, 20_000, true),
                "{reverse} {of:?}"
            );
        }
    }
}

#[test]
fn range_deletions_are_named_with_what_they_cover() {
    let db = open(&Arc::new(MemEnv::new(3)));
    let tree = db.tree("t", piling()).unwrap();
    for n in 0..10_000 {
        tree.put(&key(n), b"v").unwrap();
    }
    tree.flush().unwrap();
    tree.delete_range(&key(100)..&key(9_000)).unwrap();
    let seq = db.stats().seq;
    for _ in 0..2 {
        let e = cost(&tree, || tree.get(&key(500)).unwrap()).1;
        assert_eq!((e.found, e.total().covered_by), (0, Some(seq)));
        assert_eq!(
            e.sources.last().unwrap().skipped,
            Some(Skipped::Decided).filter(|_| e.sources.len() > 1)
        );
        for reverse in [false, true] {
            let (from, until) = if reverse { (0, 9_000) } else { (100, 9_001) };
            let e = cost(&tree, || walk(&tree, &key(from), &key(until), 1, reverse)).1;
            let all = e.total();
            assert_eq!(
                (e.found, all.range_deletions, all.covered_by),
                (1, 1, Some(seq)),
                "{reverse}"
            );
            // A backward scan must reach the previous key to know that it has seen all versions of
            // a key.
            assert_eq!(
                (all.entries.covered_entries(), all.entries.puts - all.entries.covered),
                (8_900, 1 + u64::from(reverse)),
                "{reverse}"
            );
        }
        // Repeat with a table instead of the memtable.
        tree.flush().unwrap();
    }
}

/// Filter prefix: the first byte of keys.
struct First;

impl FilterPrefix for First {
    fn name(&self) -> &str {
        "first"
    }
    fn prefix_len(&self, key: &[u8]) -> usize {
        key.len().min(1)
    }
    fn shared_len(&self, from: &[u8], until: &[u8]) -> Option<usize> {
        (from.len() > 1 && from.first() == until.first()).then_some(1)
    }
}

#[test]
fn operands_old_versions_and_prefixes_are_counted() {
    let env = Arc::new(MemEnv::new(4));
    let db = open(&env);
    let options = TreeOptions {
        merge_operator: Some(Arc::new(Append)),
        filter_prefix: Some(Arc::new(First)),
        ..piling()
    };
    let tree = db.tree("t", options).unwrap();
    tree.put(b"k", b"0").unwrap();
    tree.flush().unwrap();
    for n in [b"1", b"2", b"3"] {
        tree.merge(b"k", n).unwrap();
    }
    let snapshot = db.snapshot();
    tree.merge(b"k", b"4").unwrap();
    let (value, e) = cost(&tree, || snapshot.get(&tree, b"k").unwrap());
    assert_eq!((value.as_deref(), e.searched()), (Some(&b"0123"[..]), 2));
    assert_eq!((e.total().entries.operands, e.total().entries.puts), (3, 1));
    // A cursor visits the operand that is invisible to its snapshot.
    let (_, e) = cost(&tree, || {
        let mut c = snapshot.cursor(&tree, ..).unwrap();
        c.first().unwrap();
        assert_eq!(c.value(), b"0123");
    });
    assert_eq!((e.found, e.total().entries.operands - e.total().entries.unseen), (1, 3));
    // A range with one prefix checks filters, and skips tables without that prefix.
    for k in [b"aa", b"zz"] {
        tree.put(k, b"v").unwrap();
    }
    tree.flush().unwrap();
    let e = cost(&tree, || walk(&tree, b"k0", b"k9", 9, false)).1;
    assert_eq!(
        e.sources.iter().map(|s| s.skipped).collect::<Vec<_>>(),
        [Some(Skipped::Empty), None, Some(Skipped::Bounds)]
    );
    let e = cost(&tree, || walk(&tree, b"m0", b"m9", 9, false)).1;
    assert_eq!(e.sources[1].skipped, Some(Skipped::Prefix));
    assert_eq!(
        e.sources[1].filters.iter().map(|f| (f.maybe, f.right)).collect::<Vec<_>>(),
        [(false, None)]
    );
}

#[test]
fn a_recording_is_bounded_and_ends() {
    let db = open(&Arc::new(MemEnv::new(5)));
    let tree = db.tree("t", piling()).unwrap();
    tree.put(b"k", b"v").unwrap();
    let (outer, inner) = (db.record_reads(), db.record_reads());
    tree.get(b"k").unwrap();
    assert_eq!(inner.finish().reads.len(), 1);
    for _ in 0..MAX_READS {
        tree.get(b"k").unwrap();
    }
    let told = outer.finish();
    assert_eq!((told.reads.len(), told.more), (MAX_READS, 1));
    let recording = db.record_reads();
    drop(db.record_reads());
    tree.get(b"k").unwrap();
    assert_eq!(recording.finish().reads.len(), 1);
    // A cursor that outlives the recording reports its cost so far.
    let recording = db.record_reads();
    let mut c = tree.cursor(..).unwrap();
    c.first().unwrap();
    let told = recording.finish();
    assert_eq!((told.reads[0].found, c.key()), (1, &b"k"[..]));
    c.next().unwrap();
    assert!(!c.is_valid());
}

/// Separated values are blocks of blob files. A read that returns a value reports its block with
/// the file, the offset and the origin. A read of keys alone reports none.
#[test]
fn blob_reads_are_recorded_with_their_file() {
    for (read_mode, compression) in [
        (ReadMode::Pread, Compression::Lz4),
        (ReadMode::Pread, Compression::None),
        (ReadMode::Mmap, Compression::None),
    ] {
        let env = Arc::new(MemEnv::new(1));
        let options = DbOptions { background_threads: 0, read_mode, ..DbOptions::default() };
        let tree_options =
            TreeOptions { compression: vec![compression], blob_threshold: 100, ..piling() };
        let db = Db::open_in(env.clone(), "db", options.clone()).unwrap();
        let tree = db.tree("t", tree_options.clone()).unwrap();
        for n in 0..40 {
            // Half of the values are stored inline.
            tree.put(&key(n), &vec![n as u8; if n % 2 == 0 { 3000 } else { 30 }]).unwrap();
        }
        tree.flush().unwrap();
        drop((tree, db));
        let db = Db::open_in(env.clone(), "db", options).unwrap();
        let tree = db.tree("t", tree_options).unwrap();
        let table = tree.tables().unwrap()[0].id;
        let names = env.list(Path::new("db")).unwrap();
        let ids = names.iter().filter_map(|n| n.strip_suffix(".sst")?.parse::<u64>().ok());
        let file = ids.clone().find(|id| *id != table).unwrap();
        assert_eq!(ids.count(), 2);
        let cold = cost(&tree, || tree.get(&key(4)).unwrap()).1.total();
        let [value] = &cold.values[..] else { panic!("{cold:?}") };
        let is_packed = compression != Compression::None;
        let first = if read_mode == ReadMode::Mmap { Origin::Map } else { Origin::File };
        assert_eq!(
            (value.table, value.origin, value.decompressed),
            (file, first, is_packed && first == Origin::File)
        );
        assert!(if is_packed { value.stored < 1000 } else { value.stored > 3000 }, "{value:?}");
        assert!(cold.blocks.iter().all(|b| b.table == table) && cold.blocks.len() == 1);
        let again = if first == Origin::Map { Origin::Map } else { Origin::Cache };
        let warm = cost(&tree, || tree.get(&key(4)).unwrap()).1.total();
        assert_eq!((warm.values[0].origin, warm.values[0].decompressed), (again, false));
        assert_eq!(warm.values[0].offset, value.offset);
        assert!(cost(&tree, || tree.get(&key(5)).unwrap()).1.total().values.is_empty());
        for reverse in [false, true] {
            let (shown, walked) = cost(&tree, || walk(&tree, &key(4), &key(12), 100, reverse));
            assert_eq!(shown.len(), 8);
            let values = walked.total().values;
            assert!(values.iter().all(|v| v.table == file), "{values:?}");
            let offsets: Vec<u64> = values.iter().map(|v| v.offset).collect();
            assert_eq!(offsets.len(), 4, "{values:?}");
            assert!(if reverse { offsets.is_sorted_by(|a, b| a > b) } else { offsets.is_sorted() });
        }
        let keys = recorded(&tree, || tree.keys().count());
        assert_eq!(keys.0, 40);
        assert!(keys.1.reads.iter().all(|r| r.total().values.is_empty()), "{keys:?}");
        // The totals of an operation include these blocks.
        let sum = db.with_read_context(|context| {
            tree.get(&key(20)).unwrap();
            context.sum()
        });
        assert_eq!(sum.blocks_cached + sum.blocks_mapped + sum.blocks_read, 2, "{sum:?}");
    }
}
