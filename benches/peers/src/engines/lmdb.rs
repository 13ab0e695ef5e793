//! LMDB: each write is a transaction that is passed to the operating system through a writable
//! shared map. Each read opens a read transaction, like a program with occasional reads.
//!
//! The map has 64 GiB of address space; the file is as large but sparse, so its size on disk is
//! counted in blocks.

use firn_workload::{Direction, Result, Store, StoreBatch, StoreStats, process::disk_bytes};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithTls};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use super::{Terms, built, walk};

const MAP_SIZE: usize = 64 << 30;

/// An LMDB environment with one database.
pub struct LmdbStore<'e> {
    env: &'e Env<WithTls>,
    db: Database<'e, Bytes, Bytes>,
    dir: PathBuf,
}

/// Opens the environment in `dir`; creates it if missing.
pub fn open(dir: &Path) -> Result<Env<WithTls>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_SIZE).max_readers(1024);
    // SAFETY: the directory belongs to this process alone, so no other process maps or changes the
    // file. Without syncs and with a writable map, a crash of the machine may corrupt it, but no
    // measurement outlives that.
    let env = unsafe {
        options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC | EnvFlags::WRITE_MAP);
        options.open(dir)?
    };
    Ok(env)
}

/// Returns the conditions.
pub fn terms() -> Result<Terms> {
    Ok(Terms {
        built: built("lmdb-master-sys")?,
        memtable: "none".into(),
        cache: "the system's".into(),
        background: "none".into(),
        compression: "none".into(),
        filter: "none".into(),
        values: "in the tree".into(),
        put: "a transaction in a map, the system's to write",
        sync: "the map, synced by each writer",
        compact: "nothing",
    })
}

impl<'e> LmdbStore<'e> {
    /// Opens the unnamed database of `env`, which is in `dir`.
    pub fn new(env: &'e Env<WithTls>, dir: &Path) -> Result<Self> {
        let txn = env.write_txn()?;
        let opened = env.create_databases_and_commit(txn, |opener, txn| {
            opener.create_database::<Bytes, Bytes>(txn, None).map(CommitOrAbort::<_, ()>::Commit)
        })?;
        Ok(LmdbStore { env, db: opened.unwrap_commit(), dir: dir.to_owned() })
    }
}

impl Store for LmdbStore<'_> {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        self.db.put(&mut txn, key, value)?;
        txn.commit()?;
        if sync {
            self.env.force_sync()?;
        }
        Ok(())
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        batch.iter().try_for_each(|(key, value)| self.db.put(&mut txn, key, value))?;
        Ok(txn.commit()?)
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let txn = self.env.read_txn()?;
        Ok(self.db.get(&txn, key)?.map(f))
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        self.db.delete(&mut txn, key)?;
        Ok(txn.commit()?)
    }

    #[inline]
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let txn = self.env.read_txn()?;
        match (direction, from) {
            (Direction::Forward, Some(key)) => {
                walk(self.db.range(&txn, &(Bound::Included(key), Bound::Unbounded))?, limit, f)
            }
            (Direction::Forward, None) => walk(self.db.iter(&txn)?, limit, f),
            (Direction::Reverse, Some(key)) => {
                walk(self.db.rev_range(&txn, &(Bound::Unbounded, Bound::Included(key)))?, limit, f)
            }
            (Direction::Reverse, None) => walk(self.db.rev_iter(&txn)?, limit, f),
        }
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
