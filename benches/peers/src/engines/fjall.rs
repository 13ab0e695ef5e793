//! fjall: one keyspace; LZ4 and a 10-bit Bloom filter on all levels instead of fjall's default
//! levels.

use firn_workload::{Direction, Result, Store, StoreBatch, StoreStats, process::disk_bytes};
use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use super::{Settings, Terms, built, lz4, mebibytes, walk};

/// A fjall database with one keyspace.
pub struct FjallStore {
    db: Database,
    tree: Keyspace,
    dir: PathBuf,
}

/// Opens the store in `dir`; creates it if missing.
pub fn open(dir: &Path, settings: &Settings) -> Result<FjallStore> {
    let db = Database::builder(dir)
        .cache_size(settings.cache as u64)
        .worker_threads(settings.background.max(1))
        .open()?;
    let tree = db.keyspace("default", || {
        let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
        let compression = if settings.lz4 { CompressionType::Lz4 } else { CompressionType::None };
        KeyspaceCreateOptions::default()
            .max_memtable_size(settings.memtable as u64)
            .filter_policy(FilterPolicy::all(bloom))
            .data_block_compression_policy(CompressionPolicy::all(compression))
    })?;
    Ok(FjallStore { db, tree, dir: dir.to_owned() })
}

/// Returns the conditions.
pub fn terms(settings: &Settings) -> Result<Terms> {
    Ok(Terms {
        built: built("fjall")?,
        memtable: mebibytes(settings.memtable),
        cache: mebibytes(settings.cache),
        background: settings.background.max(1).to_string(),
        compression: lz4(settings),
        filter: "10-bit bloom".into(),
        values: "in the tables".into(),
        put: "in the log, handed to the system",
        sync: "the log, synced by each writer",
        compact: "everything",
    })
}

impl Store for FjallStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.tree.insert(key, value)?;
        if sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
        let mut out = self.db.batch();
        batch.iter().for_each(|(key, value)| out.insert(&self.tree, key, value));
        Ok(out.commit()?)
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.tree.get(key)?.map(|value| f(&value)))
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.tree.remove(key)?)
    }

    #[inline]
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let entries = |from, to| self.tree.range::<&[u8], _>((from, to)).map(Guard::into_inner);
        match direction {
            Direction::Forward => walk(entries(start, Bound::Unbounded), limit, f),
            Direction::Reverse => walk(entries(Bound::Unbounded, start).rev(), limit, f),
        }
    }

    fn flush(&self) -> Result<()> {
        Ok(self.tree.rotate_memtable_and_wait()?)
    }

    fn compact(&self) -> Result<()> {
        self.flush()?;
        Ok(self.tree.major_compact()?)
    }

    fn stats(&self) -> Result<StoreStats> {
        Ok(StoreStats { disk_bytes: Some(disk_bytes(&self.dir)?), written_bytes: None })
    }
}
