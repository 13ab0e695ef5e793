//! Firn, with the tree's default options.
//!
//! Its one memory budget covers what the others are given as a cache and as up to two memtables.

use firn_kv::{Batch as FirnBatch, Compression, Db, DbOptions, Durability, Tree, TreeOptions};
use firn_workload::{Batch, Direction, Result, Store, StoreStats, process::disk_bytes};
use std::path::{Path, PathBuf};

use super::Settings;

/// A Firn store with one tree.
pub struct FirnStore {
    db: Db,
    tree: Tree,
    dir: PathBuf,
}

/// Opens a new store in `dir`.
pub fn open(dir: &Path, settings: &Settings) -> Result<FirnStore> {
    let options = DbOptions {
        memory_budget: settings.cache + 2 * settings.memtable,
        background_threads: settings.background,
        ..DbOptions::default()
    };
    let compression = if settings.lz4 { Compression::Lz4 } else { Compression::None };
    let db = Db::open_with(dir, options)?;
    let tree = db.tree(
        "default",
        TreeOptions { compression: vec![compression], memtable_size: settings.memtable, ..TreeOptions::default() },
    )?;
    Ok(FirnStore { db, tree, dir: dir.to_owned() })
}

impl Store for FirnStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        Ok(if sync { self.tree.put_with(key, value, Durability::Power) } else { self.tree.put(key, value) }?)
    }

    fn write_batch(&self, batch: &Batch) -> Result<()> {
        let mut out = FirnBatch::new();
        batch.iter().try_for_each(|(key, value)| out.put(&self.tree, key, value))?;
        Ok(self.db.write(out)?)
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.tree.get(key)?.map(|value| f(&value)))
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.tree.delete(key)?)
    }

    #[inline]
    fn scan(&self, from: Option<&[u8]>, direction: Direction, limit: u64, mut f: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut at = self.tree.cursor::<&[u8]>(..)?;
        match (direction, from) {
            (Direction::Forward, Some(key)) => at.seek(key)?,
            (Direction::Forward, None) => at.first()?,
            (Direction::Reverse, Some(key)) => {
                at.seek(key)?;
                if !at.valid() || at.key() != key {
                    at.seek_before(key)?;
                }
            }
            (Direction::Reverse, None) => at.last()?,
        }
        let mut count = 0;
        while count < limit && at.valid() {
            f(at.key(), at.value());
            count += 1;
            match direction {
                Direction::Forward => at.next()?,
                Direction::Reverse => at.prev()?,
            }
        }
        Ok(count)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.tree.flush()?)
    }

    fn compact(&self) -> Result<()> {
        Ok(self.tree.compact()?)
    }

    fn stats(&self) -> Result<StoreStats> {
        let stats = self.db.stats();
        Ok(StoreStats {
            disk_bytes: Some(disk_bytes(&self.dir)?),
            written_bytes: Some(stats.flush_bytes + stats.compaction_written),
        })
    }
}
