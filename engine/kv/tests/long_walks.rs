//! Scans over more data than the cache holds. Blocks that other readers use stay cached. A repeated
//! scan finds some of its blocks again. All scans return all entries.
//!
//! The test runs in a process of its own, because the cache reuses a frame only when no thread of
//! the process is reading.

use std::path::Path;
use std::sync::Arc;

use firn_kv::internals::base::cursor::Cursor;
use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::sstable::{Table, TableWriter, WriterOptions};
use firn_kv::{Compression, Db, DbOptions, Env, MemEnv, Tree, TreeOptions};
use firn_testkit::own_process;
use firn_testkit::rng::Rng;

/// Number of entries, and length of their values in bytes; LZ4 compresses these to about half.
#[derive(Clone, Copy)]
struct Stored {
    number: u32,
    len: usize,
}

impl Stored {
    fn key(i: u32) -> Vec<u8> {
        i.to_be_bytes().to_vec()
    }

    fn value(self, i: u32) -> Vec<u8> {
        let mut value = vec![0; self.len];
        Rng::new(u64::from(i)).fill(&mut value[..self.len / 2]);
        value
    }

    /// Returns keys that are stored in a few blocks.
    fn hot(self) -> impl Iterator<Item = u32> {
        (0..self.number).step_by(if self.len > 4096 { 25 } else { 1000 })
    }

    fn look(self, tree: &Tree, i: u32) {
        let found = tree.get(Stored::key(i)).unwrap().unwrap();
        assert!(found[..] == self.value(i)[..]);
    }

    fn walk(self, tree: &Tree, backward: bool) {
        let mut c = tree.cursor(..).unwrap();
        if backward { c.last() } else { c.first() }.unwrap();
        for n in 0..self.number {
            let i = if backward { self.number - 1 - n } else { n };
            assert!(c.is_valid() && c.key() == Stored::key(i));
            if i % 7 == 0 {
                assert!(c.value() == self.value(i));
            }
            // Step once in the opposite direction, in the middle of the scan.
            if n == self.number / 2 {
                for back in [true, false] {
                    if back == backward { c.next() } else { c.prev() }.unwrap();
                }
                assert!(c.key() == Stored::key(i));
            }
            if backward { c.prev() } else { c.next() }.unwrap();
        }
        assert!(!c.is_valid());
    }
}

#[test]
fn a_long_walk_leaves_a_full_cache_to_others() {
    own_process!();
    for (len, deferred) in [(100, false), (10_000, false), (10_000, true)] {
        let (put, blocks) = put_by_a_walk(len, deferred);
        // The first 128 blocks count as a short scan; afterwards one block in 16 is cached.
        let expected = 128 + (blocks - 128) / 16;
        assert!(put > expected / 2 && put < 2 * expected, "{put} of {blocks} for {expected}");
    }
    beside_gets();
}

/// Scans values of this length with a cache for a few blocks. Returns the number of blocks that
/// were cached, and the number of all blocks.
fn put_by_a_walk(len: usize, deferred: bool) -> (u64, u64) {
    let stored = Stored { number: if len > 4096 { 3000 } else { 100_000 }, len };
    let (env, path): (Arc<dyn Env>, _) = (Arc::new(MemEnv::new(1)), Path::new("/t"));
    let options = WriterOptions { compression: Compression::Lz4, ..WriterOptions::default() };
    let mut w = TableWriter::new(env.create(path).unwrap(), path, 3, options);
    for i in 0..stored.number {
        w.add(&Stored::key(i), Trailer::new(1, Kind::Put), &stored.value(i)).unwrap();
    }
    w.finish().unwrap();
    let cache = Cache::new(if len > 4096 { 1 << 20 } else { 256 << 10 });
    let table = Table::open(env.open_read(path, false).unwrap(), path, 3, cache.clone()).unwrap();
    let mut c = table.cursor(true);
    if deferred {
        c.defer_values();
    }
    c.first().unwrap();
    for i in 0..stored.number {
        c.complete().unwrap();
        assert!(c.key() == Stored::key(i) && c.value() == stored.value(i));
        c.next().unwrap();
    }
    assert!(!c.valid());
    (cache.usage().inserts, table.blocks().count() as u64)
}

fn beside_gets() {
    for stored in [Stored { number: 120_000, len: 100 }, Stored { number: 1500, len: 10_000 }] {
        let all = stored.number as usize * (stored.len + 16);
        let options = DbOptions {
            memory_budget: all / 3,
            wal_segment: 1 << 20,
            background_threads: 0,
            ..DbOptions::default()
        };
        let env: Arc<dyn Env> = Arc::new(MemEnv::new(1));
        let db = Db::open_in(env, Path::new("/db"), options).unwrap();
        let options = TreeOptions { memtable_size: 1 << 20, ..TreeOptions::default() };
        let tree = db.tree("t", options).unwrap();
        for i in 0..stored.number {
            tree.put(Stored::key(i), stored.value(i)).unwrap();
        }
        tree.compact().unwrap();
        let read = || db.stats().reads.blocks_read;
        let before = read();
        stored.walk(&tree, false);
        // Blocks that the fill left in the cache count as hits.
        let blocks = read() - before;
        let mut gone = 0;
        for backward in [false, true, false, true] {
            for i in stored.hot().chain(stored.hot()) {
                stored.look(&tree, i);
            }
            let before = read();
            stored.walk(&tree, backward);
            let missed = read() - before;
            assert!(missed > blocks / 4 && missed < blocks, "{missed} of {blocks}");
            let before = read();
            stored.hot().for_each(|i| stored.look(&tree, i));
            gone += read() - before;
        }
        let hot = 4 * stored.hot().count() as u64;
        assert!(gone <= hot / 4, "{gone} of {hot}");
        // This reader knows the keys already, and then reads all values.
        assert_eq!(tree.keys().count(), stored.number as usize);
        stored.hot().chain(stored.hot()).for_each(|i| stored.look(&tree, i));
        stored.walk(&tree, false);
        let before = read();
        stored.hot().for_each(|i| stored.look(&tree, i));
        let (gone, hot) = (read() - before, hot / 4);
        assert!(gone <= hot / 4, "{gone} of {hot} after a walk of keys");
        // Short scans cache the blocks that they read.
        let before = read();
        for _ in 0..50 {
            let mut c = tree.cursor(..).unwrap();
            c.seek(&Stored::key(stored.number / 3)).unwrap();
            for i in stored.number / 3..stored.number / 3 + 5 {
                assert!(c.key() == Stored::key(i) && c.value() == stored.value(i));
                c.next().unwrap();
            }
        }
        assert!(read() - before <= 100, "{} reads", read() - before);
    }
}
