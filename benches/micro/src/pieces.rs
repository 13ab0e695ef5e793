//! Work items that criterion times and `micro-count` counts in instructions. Both use this code, so
//! both measure the same work.

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
    /// Environment that holds the table.
    pub env: Arc<dyn Env>,
    /// The opened table.
    pub table: Arc<Table>,
    /// Block cache of the table.
    pub cache: Arc<Cache>,
    /// Keys of the table, sorted.
    pub keys: Vec<BenchKey>,
}

/// Writes and opens a table with puts of `keys`, which must be sorted.
///
/// # Errors
/// Errors of the engine.
pub fn table(keys: Vec<BenchKey>, options: WriterOptions) -> Result<Sorted> {
    let (env, dir) = (crate::memory(), Path::new("/tables"));
    write_table(&*env, dir, 1, options, &keys, |_| Trailer::new(0, Kind::Put))?;
    let path = table_path(dir, 1);
    let cache = Cache::new(256 << 20);
    let table = Table::open(env.open_read(&path, true)?, &path, 1, cache.clone())?;
    Ok(Sorted { env, table, cache, keys })
}

/// Writes and opens a table with one uncompressed, mapped block, filled up to `block_size`. A read
/// of it costs as much as the search in the block.
///
/// # Errors
/// Errors of the engine.
pub fn one_block(block_size: usize) -> Result<Sorted> {
    let n = (block_size - 64) / (crate::ENTRY + 3);
    let options =
        WriterOptions { block_size, compression: Compression::None, ..WriterOptions::default() };
    table(crate::sorted(n, 1), options)
}

/// Returns memory for memtables of this capacity in bytes. All of it has been touched.
///
/// # Errors
/// Errors of the operating system.
pub fn arenas(capacity: usize) -> Result<Arc<ArenaPool>> {
    let pool = ArenaPool::new(1);
    pool.prepare(capacity)?;
    Ok(pool)
}

/// Returns a sufficient capacity in bytes for `n` entries.
pub fn capacity(n: usize) -> usize {
    (n * 256).max(1 << 20)
}

/// Adds one put like the write path: it first reserves room, then adds the entry. `seq` is the
/// sequence number.
///
/// # Panics
/// Panics if the memtable is full.
#[inline]
pub fn insert(table: &Memtable, key: &[u8], seq: u64, value: &[u8]) {
    assert!(table.reserve(Memtable::cost(key.len(), value.len())), "the memtable is full");
    table.add(key, Trailer::new(seq, Kind::Put), value);
}

/// Creates a memtable with puts of `keys`.
///
/// # Errors
/// Errors of the operating system.
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
    /// The open database.
    pub db: Db,
    /// The only tree of the database.
    pub tree: Tree,
    /// The directory. It is dropped last.
    pub dir: BenchDir,
}

/// Opens a store for writes. Its policy drops flushed data, so that it does not grow with the
/// measuring time.
///
/// # Errors
/// Errors of the engine.
pub fn store_for_writes() -> Result<BenchStore> {
    let dir = BenchDir::new();
    let options = DbOptions { memory_budget: 1 << 30, event_log: false, ..DbOptions::default() };
    let db = Db::open_in(OsEnv::new(), dir.path(), options)?;
    let policy = Policy::Fifo(Fifo { max_bytes: 1, max_age_secs: 0, ..Fifo::default() });
    let tree = db.tree("t", TreeOptions { policy, ..TreeOptions::default() })?;
    Ok(BenchStore { db, tree, dir })
}

/// Opens a store with puts of `keys`, all in the memtable.
///
/// # Errors
/// Errors of the engine.
pub fn store_in_memory(keys: &[BenchKey]) -> Result<BenchStore> {
    let (store, values) = (store_for_writes()?, BenchValues::new());
    for (i, key) in keys.iter().enumerate() {
        store.tree.put(key, values.get(i))?;
    }
    Ok(store)
}

/// Opens a store with these options and with puts of `keys`. The puts are compacted to one run
/// whose blocks use `compression`.
///
/// # Errors
/// Errors of the engine.
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
    let tree = db.existing_tree("t")?;
    tree.set_options(TreeOptions { memtable_size: 64 << 10, ..large })?;
    Ok(BenchStore { db, tree, dir })
}
