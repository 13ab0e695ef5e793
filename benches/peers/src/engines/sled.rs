//! sled: one tree with default options, and the cache size of the others.
//!
//! A put without a sync returns when its record is in a buffer of the process, which sled writes
//! when it is full and every 500 ms; a killed process loses it. After each buffer sled waits until
//! its pages are written (`sync_file_range`), and no option disables this. Its sync does no more
//! than that: unlike the others', it flushes neither the file system's journal nor the device's
//! cache. So its rows with syncs are not comparable. It compresses only with zstd, and not by
//! default.

use firn_workload::{Direction, Result, Store, StoreBatch, StoreStats, process::disk_bytes};
use sled::{Batch, Config, Db};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use super::{Settings, Terms, built, mebibytes, walk};

/// A sled database, of which the default tree is used.
pub struct SledStore {
    db: Db,
    dir: PathBuf,
}

/// Opens the store in `dir`; creates it if missing.
pub fn open(dir: &Path, settings: &Settings) -> Result<SledStore> {
    let db = Config::new().path(dir).cache_capacity(settings.cache as u64).open()?;
    Ok(SledStore { db, dir: dir.to_owned() })
}

/// Returns the conditions.
pub fn terms(settings: &Settings) -> Result<Terms> {
    Ok(Terms {
        built: built("sled")?,
        memtable: "none".into(),
        cache: mebibytes(settings.cache),
        background: "its own".into(),
        compression: "none".into(),
        filter: "none".into(),
        values: "in the tree".into(),
        put: "in a buffer of the process, written within 500 ms",
        sync: "the log, written, no cache flushed",
        compact: "nothing",
    })
}

impl Store for SledStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.db.insert(key, value)?;
        if sync {
            self.db.flush()?;
        }
        Ok(())
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
        let mut out = Batch::default();
        batch.iter().for_each(|(key, value)| out.insert(key, value));
        Ok(self.db.apply_batch(out)?)
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.db.get(key)?.map(|value| f(&value)))
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.remove(key)?;
        Ok(())
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
        match direction {
            Direction::Forward => {
                walk(self.db.range::<&[u8], _>((start, Bound::Unbounded)), limit, f)
            }
            Direction::Reverse => {
                walk(self.db.range::<&[u8], _>((Bound::Unbounded, start)).rev(), limit, f)
            }
        }
    }

    fn flush(&self) -> Result<()> {
        self.db.flush()?;
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<StoreStats> {
        Ok(StoreStats { disk_bytes: Some(disk_bytes(&self.dir)?), written_bytes: None })
    }
}
