//! Bf-Tree: a B-tree whose inner nodes are in memory, and whose leaves are read and written through
//! a buffer of small pages. The crate's defaults hold, with these exceptions. The buffer has the
//! cache's size. Snapshots are on, keys have up to 32 bytes (16 by default), and records as few as 2.
//! The log's buffer has 1 MiB, which the crate's documentation names as its default; its code has
//! 1 GiB and writes all of that at each flush of the log.
//!
//! A closed tree is a snapshot, which the next opening takes as its file. A killed process leaves
//! none, and the crate's recovery from its log is unfinished, so the next opening fails. Bf-Tree has
//! no batches, no reverse scans, no synced writes, no empty values and no records above 1952 bytes.
//! The driver returns an error for them.

use bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField, WalConfig};
use firn_workload::{Direction, Result, Store, StoreBatch, StoreStats, process::disk_bytes};
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Settings, Terms, built, mebibytes};

/// Bytes of the longest key.
const KEY: usize = 32;
/// Bytes that hold each record: the longest by default has 1952.
const RECORD: usize = 2048;
/// The least key: scans need a start, and keys are never empty.
const LEAST: &[u8] = &[0];

thread_local! {
    /// Target of reads, which copy.
    static COPY: RefCell<[u8; RECORD]> = const { RefCell::new([0; RECORD]) };
}

/// A Bf-Tree with its files.
pub struct BfTreeStore {
    tree: BfTree,
    dir: PathBuf,
}

/// Names of the files in a store's directory.
fn live(dir: &Path) -> PathBuf {
    dir.join("tree")
}

fn closed(dir: &Path) -> PathBuf {
    dir.join("snapshot")
}

fn log(dir: &Path) -> PathBuf {
    dir.join("log")
}

/// Returns the bytes of the buffer: the largest power of two within the cache, as the crate
/// requires.
fn buffer(settings: &Settings) -> usize {
    1 << settings.cache.max(1 << 20).ilog2()
}

/// Opens the store in `dir`, with or without a log; creates it if missing.
pub fn open(dir: &Path, settings: &Settings, logged: bool) -> Result<BfTreeStore> {
    let wal = logged.then(|| {
        let mut wal = WalConfig::new(log(dir));
        wal.segment_size(1 << 20);
        Arc::new(wal)
    });
    let tree = if closed(dir).exists() {
        fs::rename(closed(dir), live(dir))?;
        BfTree::new_from_cpr_snapshot(live(dir), true, None, Some(buffer(settings)), wal)
    } else if live(dir).exists() {
        return Err(
            "Bf-Tree cannot open the tree of a killed process: its crate's recovery from the \
             log is unfinished"
                .into(),
        );
    } else {
        let mut config = Config::new(live(dir), buffer(settings));
        config.use_snapshot(true).cb_min_record_size(2).cb_max_key_len(KEY);
        if let Some(wal) = wal {
            config.enable_write_ahead_log(wal);
        }
        BfTree::with_config(config, None)
    };
    let tree = tree.map_err(|e| format!("Bf-Tree refuses its configuration: {e:?}"))?;
    Ok(BfTreeStore { tree, dir: dir.to_owned() })
}

/// Returns the conditions.
pub fn terms(settings: &Settings, logged: bool) -> Result<Terms> {
    Ok(Terms {
        built: built("bf-tree")?,
        memtable: "none".into(),
        cache: format!("{}, of reads and writes", mebibytes(buffer(settings))),
        background: if logged { "1, for the log" } else { "none" }.into(),
        compression: "none".into(),
        filter: "none".into(),
        values: "in the tree".into(),
        put: if logged {
            "in the log, handed to the system once a millisecond; but nothing recovers from it"
        } else {
            "in the process's memory; a kill loses it all since the last close"
        },
        sync: "refused: the log is never synced",
        compact: "nothing",
    })
}

impl Drop for BfTreeStore {
    fn drop(&mut self) {
        self.tree.cpr_snapshot(closed(&self.dir));
        // Errors leave files that nobody opens.
        let _ = fs::remove_file(live(&self.dir));
        let _ = fs::remove_file(log(&self.dir));
    }
}

impl Store for BfTreeStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        if sync {
            return Err("Bf-Tree has no synced writes".into());
        }
        match self.tree.insert(key, value) {
            LeafInsertResult::Success => Ok(()),
            LeafInsertResult::InvalidKV(reason) => {
                Err(format!("Bf-Tree refuses the record: {reason}").into())
            }
        }
    }

    fn write_batch(&self, _batch: &StoreBatch) -> Result<()> {
        Err("Bf-Tree has no batches".into())
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        COPY.with_borrow_mut(|copy| match self.tree.read(key, copy) {
            LeafReadResult::Found(len) => Ok(Some(f(&copy[..len as usize]))),
            LeafReadResult::Deleted | LeafReadResult::NotFound => Ok(None),
            LeafReadResult::InvalidKey => Err("Bf-Tree refuses the key".into()),
        })
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.tree.delete(key);
        Ok(())
    }

    #[inline]
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        mut f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        if direction == Direction::Reverse {
            return Err("Bf-Tree has no reverse scans".into());
        }
        if limit == 0 {
            return Ok(0);
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut entries = self
            .tree
            .scan_with_count(from.unwrap_or(LEAST), limit, ScanReturnField::KeyAndValue)
            .map_err(|e| format!("Bf-Tree refuses the scan: {e:?}"))?;
        COPY.with_borrow_mut(|copy| {
            let mut count = 0;
            while let Some((key, value)) = entries.next(copy) {
                f(&copy[..key], &copy[key..key + value]);
                count += 1;
            }
            Ok(count)
        })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<StoreStats> {
        Ok(StoreStats { disk_bytes: Some(disk_bytes(&self.dir)?), written_bytes: None })
    }
}
