//! The pieces that are both timed (by criterion) and counted in instructions (by `micro-count`):
//! one making of each, so that both speak of the same work.

use std::path::Path;
use std::sync::Arc;

use firn_kv::Env;
use firn_kv::OsEnv;
use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::memtable::{ArenaPool, Memtable};
use firn_kv::internals::sstable::{Table, WriterOptions};
use firn_kv::policy::Fifo;
use firn_kv::{Compression, Db, DbOptions, Policy, Result, Tree, TreeOptions};

use crate::{BenchDir, BenchKey, BenchValues, write_table};

/// A table that was written and opened, with its keys in order.
pub struct Sorted {
    /// Where it lies.
    pub env: Arc<dyn Env>,
    /// The table.
    pub table: Arc<Table>,
    /// Its cache.
    pub cache: Arc<Cache>,
    /// Its keys.
    pub keys: Vec<BenchKey>,
}

/// A table of puts of `keys`, which must be sorted.
///
/// # Errors
/// What the engine says.
pub fn table(keys: Vec<BenchKey>, options: WriterOptions) -> Result<Sorted> {
    let (env, dir) = (crate::memory(), Path::new("/tables"));
    write_table(&*env, dir, 1, options, &keys, |_| Trailer::new(0, Kind::Put))?;
    let path = table_path(dir, 1);
    let cache = Cache::new(256 << 20);
    let table = Table::open(env.open_read(&path, true)?, &path, 1, cache.clone())?;
    Ok(Sorted { env, table, cache, keys })
}

/// A table whose only block is stored as it is, mapped, and filled up to `block_size`: what a read
/// of it costs is the search in the block.
///
/// # Errors
/// What the engine says.
pub fn one_block(block_size: usize) -> Result<Sorted> {
    let n = (block_size - 64) / (crate::ENTRY + 3);
    let options =
        WriterOptions { block_size, compression: Compression::None, ..WriterOptions::default() };
    table(crate::sorted(n, 1), options)
}

/// Memory for memtables of this capacity in bytes, touched.
///
/// # Errors
/// What the operating system says.
pub fn arenas(capacity: usize) -> Result<Arc<ArenaPool>> {
    let pool = ArenaPool::new(1);
    pool.prepare(capacity)?;
    Ok(pool)
}

/// A capacity for `n` entries.
pub fn capacity(n: usize) -> usize {
    (n * 256).max(1 << 20)
}

/// Adds one put as the write path does: room first, then the entry. `seq` is its sequence number.
///
/// # Panics
/// When the memtable is full.
#[inline]
pub fn insert(table: &Memtable, key: &[u8], seq: u64, value: &[u8]) {
    assert!(table.reserve(Memtable::cost(key.len(), value.len())), "the memtable is full");
    table.add(key, Trailer::new(seq, Kind::Put), value);
}

/// A memtable with puts of `keys`.
///
/// # Errors
/// What the operating system says.
pub fn memtable(keys: &[BenchKey]) -> Result<Arc<Memtable>> {
    let (values, capacity) = (BenchValues::new(), capacity(keys.len()));
    let table = Memtable::new(&arenas(capacity)?, capacity)?;
    for (i, key) in keys.iter().enumerate() {
        insert(&table, key, i as u64 + 1, values.get(i));
    }
    Ok(table)
}

/// A store on the real file system, alone in its directory.
pub struct BenchStore {
    /// The store.
    pub db: Db,
    /// Its one tree.
    pub tree: Tree,
    /// The directory, which goes last.
    pub dir: BenchDir,
}

/// Opens a store for writing to: what is flushed is dropped, so that it does not grow with the time
/// of measuring.
///
/// # Errors
/// What the engine says.
pub fn store_for_writes() -> Result<BenchStore> {
    let dir = BenchDir::new();
    let options = DbOptions { memory_budget: 1 << 30, event_log: false, ..DbOptions::default() };
    let db = Db::open_in(OsEnv::new(), dir.path(), options)?;
    let policy = Policy::Fifo(Fifo { max_bytes: 1, max_age_secs: 0 });
    let tree = db.tree("t", TreeOptions { policy, ..TreeOptions::default() })?;
    Ok(BenchStore { db, tree, dir })
}

/// Opens a store with puts of `keys`, all in the memtable.
///
/// # Errors
/// What the engine says.
pub fn store_in_memory(keys: &[BenchKey]) -> Result<BenchStore> {
    let (store, values) = (store_for_writes()?, BenchValues::new());
    for (i, key) in keys.iter().enumerate() {
        store.tree.put(key, values.get(i))?;
    }
    Ok(store)
}

/// Opens a store with puts of `keys`, compacted to one run whose blocks are stored with
/// `compression`, with these options.
///
/// # Errors
/// What the engine says.
pub fn store_on_disk(
    keys: &[BenchKey],
    compression: Compression,
    options: DbOptions,
) -> Result<BenchStore> {
    let (dir, values) = (BenchDir::new(), BenchValues::new());
    let large = TreeOptions { compression: vec![compression], ..TreeOptions::default() };
    let tree =
        Db::open_in(OsEnv::new(), dir.path(), DbOptions::default())?.tree("t", large.clone())?;
    for (i, key) in keys.iter().enumerate() {
        tree.put(key, values.get(i))?;
    }
    tree.compact()?;
    drop(tree);
    let db = Db::open_in(OsEnv::new(), dir.path(), DbOptions { event_log: false, ..options })?;
    let tree = db.tree("t", TreeOptions { memtable_size: 64 << 10, ..large })?;
    Ok(BenchStore { db, tree, dir })
}
