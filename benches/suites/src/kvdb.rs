//! [`KeyValueDB`] of Substrate and Parity: numbered columns, each a tree of a Firn store.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use ::kvdb::{
    DBKey, DBKeyValue, DBOp, DBTransaction, DBValue, IoStats, IoStatsKind, KeyValueDB, end_prefix,
};
use firn_kv::{Batch, Db, Error, Range, Tree, TreeOptions, Value};

/// A store with a fixed number of columns.
pub struct Columns {
    db: Db,
    columns: Vec<Tree>,
    counts: Mutex<Counts>,
}

struct Counts {
    overall: IoStats,
    since_previous: IoStats,
}

impl Counts {
    fn add(&mut self, f: impl Fn(&mut IoStats)) {
        f(&mut self.overall);
        f(&mut self.since_previous);
    }
}

impl Columns {
    /// Opens the columns `0..n` of the store in `dir`, which is created if missing.
    ///
    /// # Errors
    /// Errors of opening a store and of creating trees.
    pub fn open(dir: &Path, n: u32) -> io::Result<Columns> {
        Columns::of(Db::open(dir).map_err(failed)?, n)
    }

    /// Opens the columns `0..n` of an empty store in memory.
    ///
    /// # Errors
    /// Errors of opening a store and of creating trees.
    pub fn in_memory(n: u32) -> io::Result<Columns> {
        Columns::of(Db::in_memory().map_err(failed)?, n)
    }

    fn of(db: Db, n: u32) -> io::Result<Columns> {
        let columns = (0..n)
            .map(|i| db.tree(&format!("col{i}"), TreeOptions::default()))
            .collect::<Result<_, _>>();
        let counts =
            Mutex::new(Counts { overall: IoStats::empty(), since_previous: IoStats::empty() });
        Ok(Columns { db, columns: columns.map_err(failed)?, counts })
    }

    fn column(&self, col: u32) -> io::Result<&Tree> {
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, format!("there is no column {col}"));
        self.columns.get(col as usize).ok_or_else(missing)
    }

    fn count(&self, f: impl Fn(&mut IoStats)) {
        self.counts.lock().unwrap_or_else(|e| e.into_inner()).add(f);
    }

    fn read(&self, key: &[u8], value: Option<&Value>) {
        let bytes = (key.len() + value.map_or(0, |v| v.len())) as u64;
        self.count(|c| {
            c.reads += 1;
            c.bytes_read += bytes;
        });
    }
}

fn failed(e: Error) -> io::Error {
    io::Error::other(e)
}

fn pairs<'a>(range: io::Result<Range>) -> Box<dyn Iterator<Item = io::Result<DBKeyValue>> + 'a> {
    match range {
        Ok(range) => Box::new(range.map(|pair| {
            let (key, value) = pair.map_err(failed)?;
            Ok((DBKey::from_slice(&key), value.to_vec()))
        })),
        Err(e) => Box::new(std::iter::once(Err(e))),
    }
}

impl KeyValueDB for Columns {
    fn get(&self, col: u32, key: &[u8]) -> io::Result<Option<DBValue>> {
        let value = self.column(col)?.get(key).map_err(failed)?;
        self.read(key, value.as_ref());
        Ok(value.map(|v| v.to_vec()))
    }

    fn get_by_prefix(&self, col: u32, prefix: &[u8]) -> io::Result<Option<DBValue>> {
        let first = self.column(col)?.prefix(prefix).next().transpose().map_err(failed)?;
        self.read(prefix, first.as_ref().map(|(_, v)| v));
        Ok(first.map(|(_, v)| v.to_vec()))
    }

    fn write(&self, transaction: DBTransaction) -> io::Result<()> {
        let (mut batch, mut bytes) = (Batch::new(), 0);
        for op in &transaction.ops {
            let tree = self.column(op.col())?;
            bytes += op.key().len() as u64;
            match op {
                DBOp::Insert { key, value, .. } => {
                    bytes += value.len() as u64;
                    batch.put(tree, key, value)
                }
                DBOp::Delete { key, .. } => batch.delete(tree, key),
                DBOp::DeletePrefix { prefix, .. } => match end_prefix(prefix) {
                    Some(end) => batch.delete_range(tree, &prefix[..]..&end[..]),
                    None => batch.delete_range(tree, &prefix[..]..),
                },
            }
            .map_err(failed)?;
        }
        self.db.write(batch).map_err(failed)?;
        let writes = transaction.ops.len() as u64;
        self.count(|c| {
            c.transactions += 1;
            c.writes += writes;
            c.bytes_written += bytes;
        });
        Ok(())
    }

    fn iter<'a>(&'a self, col: u32) -> Box<dyn Iterator<Item = io::Result<DBKeyValue>> + 'a> {
        pairs(self.column(col).map(Tree::iter))
    }

    fn iter_with_prefix<'a>(
        &'a self,
        col: u32,
        prefix: &'a [u8],
    ) -> Box<dyn Iterator<Item = io::Result<DBKeyValue>> + 'a> {
        pairs(self.column(col).map(|tree| tree.prefix(prefix)))
    }

    fn io_stats(&self, kind: IoStatsKind) -> IoStats {
        let mut counts = self.counts.lock().unwrap_or_else(|e| e.into_inner());
        let mut stats = match kind {
            IoStatsKind::Overall => counts.overall.clone(),
            IoStatsKind::SincePrevious => {
                std::mem::replace(&mut counts.since_previous, IoStats::empty())
            }
        };
        stats.span = stats.started.elapsed();
        stats
    }
}
