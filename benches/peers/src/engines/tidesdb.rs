//! TidesDB: one column family; each put and each read is a transaction of its own, as its authors'
//! documentation has it (feature `tidesdb`, which builds its C library with CMake and links the
//! system's LZ4).
//!
//! TidesDB has three modes of its log. Without syncs (`none`, its default) a put is in a buffer of
//! the process when it returns. With `interval` it was handed to the system, and the log is synced
//! once a second. With `full` it is on the device. In the first two modes the driver syncs a put by a
//! call that syncs only the current log. If the memtable was sealed in between, the put is in the
//! previous log, and is durable only after the flush of that memtable.
//!
//! By default a value of 1024 bytes or more goes to a value log. With `interval` and `full` that file
//! is open with `O_DSYNC`, so each put of such a value waits for the device.
//!
//! Its crate returns keys and values as copies.

use firn_workload::{Direction, Result, Store, StoreBatch, StoreStats, process::disk_bytes};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tidesdb::{
    ColumnFamily, ColumnFamilyConfig, CompressionAlgorithm, Config, Error, ErrorCode, LogLevel,
    SyncMode, TidesDB, Transaction,
};

use super::{Settings, Terms, mebibytes};

const FAMILY: &str = "default";
/// A key before all others: the bound of a compaction of all keys, which needs one.
const LEAST: &[u8] = &[0];

/// A TidesDB database with one column family.
pub struct TidesStore<'d> {
    db: &'d TidesDB,
    family: ColumnFamily<'d>,
    /// Whether each put is synced anyway.
    full: bool,
    dir: PathBuf,
}

/// Returns the number of threads for flushes, and that for compactions.
fn threads(settings: &Settings) -> (i32, i32) {
    let flushes = (settings.background / 2).max(1);
    let compactions = settings.background.saturating_sub(flushes).max(1);
    (flushes as i32, compactions as i32)
}

/// Opens the database in `dir`; creates it if missing.
pub fn open(dir: &Path, settings: &Settings, mode: SyncMode) -> Result<TidesDB> {
    let (flushes, compactions) = threads(settings);
    let mut config = Config::new(dir)
        .log_level(LogLevel::Error)
        .num_flush_threads(flushes)
        .num_compaction_threads(compactions)
        .memtable_write_buffer_size(settings.memtable)
        .block_cache_size(settings.cache)
        .memtable_sync_mode(mode);
    if settings.apart > 0 {
        config = config.value_separation_threshold(settings.apart);
    }
    let db = TidesDB::open(config)?;
    if !db.list_column_families()?.iter().any(|name| name == FAMILY) {
        let compression =
            if settings.lz4 { CompressionAlgorithm::Lz4 } else { CompressionAlgorithm::None };
        let config = ColumnFamilyConfig::default().compression_algorithm(compression);
        db.create_column_family(FAMILY, config)?;
    }
    Ok(db)
}

/// Returns the conditions.
pub fn terms(settings: &Settings, mode: SyncMode) -> Terms {
    let (flushes, compactions) = threads(settings);
    let separated = match settings.apart {
        0 => Config::default().value_separation_threshold,
        least => least,
    };
    let (put, sync) = match mode {
        SyncMode::None => (
            "in a buffer of the process for the log; a kill can lose it",
            "the log in use, synced by each writer",
        ),
        SyncMode::Interval => (
            "in the log, handed to the system; synced once a second",
            "the log in use, synced by each writer",
        ),
        SyncMode::Full => {
            ("on the device: each put is synced", "the log, one sync for all waiting writers")
        }
    };
    Terms {
        built: format!("libtidesdb {}", tidesdb::TIDESDB_LINKED_VERSION),
        memtable: format!("{}, of its nodes too", mebibytes(settings.memtable)),
        cache: mebibytes(settings.cache),
        background: format!("{flushes} for flushes, {compactions} for compactions, 1 for the log"),
        compression: super::lz4(settings),
        filter: "bloom, 1 % false".into(),
        values: format!(
            "of {separated} B and more in a value log{}",
            if mode == SyncMode::None { "" } else { ", each synced" }
        ),
        put,
        sync,
        compact: "everything",
    }
}

/// Repeats a call while it reports contention, which its authors call temporary.
fn retried<T>(mut call: impl FnMut() -> tidesdb::Result<T>) -> tidesdb::Result<T> {
    loop {
        match call() {
            Err(Error::TidesDB { code: ErrorCode::Locked, .. }) => {
                thread::sleep(Duration::from_micros(100));
            }
            other => return other,
        }
    }
}

impl<'d> TidesStore<'d> {
    /// Opens the column family of `db`, which is in `dir`.
    pub fn new(db: &'d TidesDB, dir: &Path, mode: SyncMode) -> Result<Self> {
        let family = db.get_column_family(FAMILY)?;
        Ok(TidesStore { db, family, full: mode == SyncMode::Full, dir: dir.to_owned() })
    }

    #[inline]
    fn write(&self, f: impl Fn(&Transaction<'_>) -> tidesdb::Result<()>) -> Result<()> {
        Ok(retried(|| {
            let mut txn = self.db.begin_transaction()?;
            f(&txn)?;
            txn.commit()
        })?)
    }
}

impl Store for TidesStore<'_> {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.write(|txn| txn.put(&self.family, key, value))?;
        if sync && !self.full {
            retried(|| self.db.sync_wal())?;
        }
        Ok(())
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
        self.write(|txn| {
            batch.iter().try_for_each(|(key, value)| txn.put(&self.family, key, value))
        })
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        match retried(|| self.db.begin_transaction()?.get(&self.family, key)) {
            Ok(value) => Ok(Some(f(&value))),
            Err(Error::TidesDB { code: ErrorCode::NotFound, .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(|txn| txn.delete(&self.family, key))
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.write(|txn| txn.delete_range(&self.family, from, Some(to)))
    }

    #[inline]
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        mut f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let txn = self.db.begin_transaction()?;
        let mut iter = retried(|| txn.new_iterator(&self.family))?;
        retried(|| match (direction, from) {
            (Direction::Forward, None) => iter.seek_to_first(),
            (Direction::Reverse, None) => iter.seek_to_last(),
            (Direction::Forward, Some(key)) => iter.seek(key),
            (Direction::Reverse, Some(key)) => iter.seek_for_prev(key),
        })?;
        let mut count = 0;
        while count < limit && iter.is_valid() {
            let (key, value) = iter.key_value()?;
            f(&key, &value);
            count += 1;
            retried(|| match direction {
                Direction::Forward => iter.next(),
                Direction::Reverse => iter.prev(),
            })?;
        }
        Ok(count)
    }

    fn flush(&self) -> Result<()> {
        Ok(retried(|| self.db.flush_memtable())?)
    }

    fn compact(&self) -> Result<()> {
        self.flush()?;
        Ok(retried(|| self.family.compact_range(Some(LEAST), None))?)
    }

    fn stats(&self) -> Result<StoreStats> {
        Ok(StoreStats { disk_bytes: Some(disk_bytes(&self.dir)?), written_bytes: None })
    }
}
