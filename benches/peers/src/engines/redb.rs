//! redb: each put is a transaction, each read opens a read transaction.
//!
//! redb has one writer at a time and no log. Without a sync ([`Durability::None`]) a commit is in
//! the process's memory. A killed process loses everything since the last commit with a sync, and
//! the next opening repairs the file. So after a crash, the data that redb found must be compared,
//! too. Its compaction only shrinks the file and requires exclusive access: the step `compact` does
//! nothing here.

use firn_workload::{Direction, Result, Store, StoreBatch, StoreStats, process::disk_bytes};
use redb::{
    Builder, Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition,
    WriteTransaction,
};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use super::{Settings, Terms, built, mebibytes};

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("default");

/// A redb database with one table.
pub struct RedbStore {
    db: Database,
    dir: PathBuf,
}

/// Opens the store in `dir`; creates it if missing.
pub fn open(dir: &Path, settings: &Settings) -> Result<RedbStore> {
    let db = Builder::new().set_cache_size(settings.cache).create(dir.join("redb"))?;
    let store = RedbStore { db, dir: dir.to_owned() };
    store.write(Durability::None, |_| Ok(()))?;
    Ok(store)
}

/// Returns the conditions.
pub fn terms(settings: &Settings) -> Result<Terms> {
    Ok(Terms {
        built: built("redb")?,
        memtable: "none".into(),
        cache: format!("{}, a tenth of it for writes", mebibytes(settings.cache)),
        background: "none".into(),
        compression: "none".into(),
        filter: "none".into(),
        values: "in the tree".into(),
        put: "a transaction in the process's memory",
        sync: "a commit, synced by each writer",
        compact: "nothing",
    })
}

impl RedbStore {
    fn write(
        &self,
        durability: Durability,
        f: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut txn: WriteTransaction = self.db.begin_write()?;
        txn.set_durability(durability)?;
        f(&mut txn.open_table(TABLE)?)?;
        Ok(txn.commit()?)
    }

    fn read(&self) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>> {
        Ok(self.db.begin_read()?.open_table(TABLE)?)
    }
}

impl Store for RedbStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let durability = if sync { Durability::Immediate } else { Durability::None };
        self.write(durability, |table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
        self.write(Durability::None, |table| {
            for (key, value) in batch.iter() {
                table.insert(key, value)?;
            }
            Ok(())
        })
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.read()?.get(key)?.map(|value| f(value.value())))
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(Durability::None, |table| {
            table.remove(key)?;
            Ok(())
        })
    }

    #[inline]
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        mut f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let table = self.read()?;
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let mut entries = match direction {
            Direction::Forward => table.range::<&[u8]>((start, Bound::Unbounded))?,
            Direction::Reverse => table.range::<&[u8]>((Bound::Unbounded, start))?,
        };
        let mut count = 0;
        while count < limit {
            let entry = match direction {
                Direction::Forward => entries.next(),
                Direction::Reverse => entries.next_back(),
            };
            let Some(entry) = entry else { break };
            let (key, value) = entry?;
            f(key.value(), value.value());
            count += 1;
        }
        Ok(count)
    }

    fn flush(&self) -> Result<()> {
        // The next commit with a sync makes unsynced commits durable.
        self.write(Durability::Immediate, |_| Ok(()))
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<StoreStats> {
        Ok(StoreStats { disk_bytes: Some(disk_bytes(&self.dir)?), written_bytes: None })
    }
}
