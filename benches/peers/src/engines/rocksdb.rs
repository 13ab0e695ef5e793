//! RocksDB: pinned reads, options created once, and raw iterators, which do not copy.

use firn_workload::{Direction, Result, Store, StoreBatch, StoreStats, process::disk_bytes};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, FlushOptions, Options, ReadOptions,
    WriteBatch, WriteOptions,
};
use std::path::{Path, PathBuf};

use super::{Settings, Terms, built, lz4, mebibytes, values};

/// A RocksDB with one column family.
pub struct RocksStore {
    db: DB,
    dir: PathBuf,
    read: ReadOptions,
    write: WriteOptions,
    synced: WriteOptions,
}

/// Opens the store in `dir`; creates it if missing.
pub fn open(dir: &Path, settings: &Settings) -> Result<RocksStore> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(settings.cache));
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(settings.memtable);
    options.set_max_background_jobs(i32::try_from(settings.background)?);
    let compression = if settings.lz4 { DBCompressionType::Lz4 } else { DBCompressionType::None };
    options.set_compression_type(compression);
    if settings.apart > 0 {
        options.set_enable_blob_files(true);
        options.set_min_blob_size(u64::try_from(settings.apart)?);
        options.set_blob_compression_type(compression);
        options.set_enable_blob_gc(true);
    }
    let mut synced = WriteOptions::default();
    synced.set_sync(true);
    Ok(RocksStore {
        db: DB::open(&options, dir)?,
        dir: dir.to_owned(),
        read: ReadOptions::default(),
        write: WriteOptions::default(),
        synced,
    })
}

/// Returns the conditions.
pub fn terms(settings: &Settings) -> Result<Terms> {
    Ok(Terms {
        built: built("librocksdb-sys")?,
        memtable: mebibytes(settings.memtable),
        cache: mebibytes(settings.cache),
        background: settings.background.to_string(),
        compression: lz4(settings),
        filter: "10-bit bloom".into(),
        values: values(settings),
        put: "in the log, handed to the system",
        sync: "the log, synced for a group of writers",
        compact: "everything",
    })
}

impl RocksStore {
    /// Sets an option that can be changed while the store is open.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        Ok(self.db.set_options(&[(name, value)])?)
    }
}

impl Store for RocksStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        Ok(self.db.put_opt(key, value, if sync { &self.synced } else { &self.write })?)
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
        let mut out = WriteBatch::default();
        batch.iter().for_each(|(key, value)| out.put(key, value));
        Ok(self.db.write_opt(out, &self.write)?)
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.db.get_pinned_opt(key, &self.read)?.map(|value| f(&value)))
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete_opt(key, &self.write)?)
    }

    #[inline]
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        mut f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let mut at = self.db.raw_iterator();
        match (direction, from) {
            (Direction::Forward, Some(key)) => at.seek(key),
            (Direction::Forward, None) => at.seek_to_first(),
            (Direction::Reverse, Some(key)) => at.seek_for_prev(key),
            (Direction::Reverse, None) => at.seek_to_last(),
        }
        let mut count = 0;
        while count < limit {
            let Some((key, value)) = at.item() else { break };
            f(key, value);
            count += 1;
            match direction {
                Direction::Forward => at.next(),
                Direction::Reverse => at.prev(),
            }
        }
        at.status()?;
        Ok(count)
    }

    fn flush(&self) -> Result<()> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        Ok(self.db.flush_opt(&options)?)
    }

    fn compact(&self) -> Result<()> {
        self.flush()?;
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn stats(&self) -> Result<StoreStats> {
        Ok(StoreStats { disk_bytes: Some(disk_bytes(&self.dir)?), written_bytes: None })
    }
}
