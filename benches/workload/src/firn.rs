//! Driver for Firn of all measurements here, used by `firn bench` and `peers`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use firn_kv::{Db, DbOptions, Durability, MergeOperator, MergeResult, Tree, TreeOptions, TtlTree};

use crate::cliffs::Subject;
use crate::embedding::Embedded;
use crate::process::disk_bytes;
use crate::store::{Direction, Result, Store, StoreBatch, StoreStats, fold};

/// A Firn store with one tree for workloads and histories. The handles have the durability of
/// unsynced writes.
pub struct FirnStore {
    /// The store.
    pub db: Db,
    /// The tree.
    pub tree: Tree,
    /// Directory of the store.
    pub dir: PathBuf,
    /// The same tree with a time to live, and that time of each put.
    ttl: Option<(TtlTree, Duration)>,
}

impl FirnStore {
    /// Opens the store in `dir`, which may be empty, and its tree `name`.
    pub fn open(
        dir: &Path,
        options: DbOptions,
        name: &str,
        tree: TreeOptions,
    ) -> Result<FirnStore> {
        let db = Db::open_with(dir, options)?;
        let tree = db.tree(name, tree)?;
        Ok(FirnStore::of(db, tree, dir))
    }

    /// Returns the driver of an open store in `dir` and one of its trees.
    pub fn of(db: Db, tree: Tree, dir: &Path) -> FirnStore {
        FirnStore { db, tree, dir: dir.to_owned(), ttl: None }
    }

    /// Opens the store like [`open`](Self::open); puts expire after `ttl_secs` seconds, if these are
    /// not 0. Scans then see expired entries until a compaction drops them.
    pub fn open_with_ttl(
        dir: &Path,
        options: DbOptions,
        name: &str,
        tree: TreeOptions,
        ttl_secs: u64,
    ) -> Result<FirnStore> {
        if ttl_secs == 0 {
            return FirnStore::open(dir, options, name, tree);
        }
        let db = Db::open_with(dir, options)?;
        let with_ttl = db.ttl_tree(name, tree)?;
        let tree = with_ttl.tree().clone();
        let ttl = Some((with_ttl, Duration::from_secs(ttl_secs)));
        Ok(FirnStore { db, tree, dir: dir.to_owned(), ttl })
    }
}

impl Store for FirnStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        if let Some((tree, ttl)) = &self.ttl {
            let value = tree.encode_value(value, Some(*ttl));
            let tree = match sync {
                true => &self.tree.with_durability(Durability::Power),
                false => &self.tree,
            };
            return Ok(tree.put(key, value)?);
        }
        Ok(if sync {
            self.tree.with_durability(Durability::Power).put(key, value)
        } else {
            self.tree.put(key, value)
        }?)
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
        let mut b = firn_kv::Batch::new();
        for (key, value) in batch.iter() {
            match &self.ttl {
                Some((tree, ttl)) => {
                    b.put(&self.tree, key, tree.encode_value(value, Some(*ttl)))?;
                }
                None => b.put(&self.tree, key, value)?,
            };
        }
        Ok(self.db.write(b)?)
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        match &self.ttl {
            Some((tree, _)) => Ok(tree.get(key)?.map(|value| f(&value))),
            None => Ok(self.tree.get(key)?.map(|value| f(&value))),
        }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.tree.delete(key)?)
    }

    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        Ok(self.tree.merge(key, operand)?)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        Ok(self.tree.delete_range(from..to)?)
    }

    #[inline]
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        mut f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let mut cursor = self.tree.cursor(..)?;
        let forward = direction == Direction::Forward;
        match from {
            None if forward => cursor.first()?,
            None => cursor.last()?,
            Some(key) => {
                cursor.seek(key)?;
                // A reverse scan begins at the key itself, if it exists, otherwise before it.
                let stands_on_it = cursor.is_valid() && cursor.key() == key;
                if !forward && !stands_on_it {
                    cursor.seek_before(key)?;
                }
            }
        }
        let mut seen = 0;
        while seen < limit && cursor.is_valid() {
            f(cursor.key(), cursor.value());
            seen += 1;
            if seen == limit {
                break;
            }
            if forward { cursor.next()? } else { cursor.prev()? }
        }
        Ok(seen)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.tree.flush()?)
    }

    fn compact(&self) -> Result<()> {
        self.tree.compact()?;
        Ok(self.db.wait_idle()?)
    }

    fn stats(&self) -> Result<StoreStats> {
        let s = self.db.stats();
        let written = s.wal_bytes + s.flush_bytes + s.compaction_written;
        Ok(StoreStats { disk_bytes: disk_bytes(&self.dir).ok(), written_bytes: Some(written) })
    }
}

/// Adds the operands of mergerandom.
#[derive(Debug)]
pub struct StoreSums;

impl MergeOperator for StoreSums {
    fn name(&self) -> &str {
        "firn.bench.sums"
    }

    fn full_merge(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> firn_kv::Result<MergeResult> {
        Ok(MergeResult::Value(fold(base, operands.iter().copied()).to_vec()))
    }

    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(fold(None, [older, newer]).to_vec())
    }
}

impl Subject for FirnStore {
    type Snapshot<'a> = firn_kv::Snapshot;

    fn put(&self, key: &[u8]) -> Result<()> {
        Ok(self.tree.put(key, b"v")?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.tree.delete(key)?)
    }

    fn delete_range(&self, from: &[u8], until: &[u8]) -> Result<()> {
        Ok(self.tree.delete_range(from..until)?)
    }

    fn has(&self, key: &[u8]) -> Result<bool> {
        Ok(self.tree.get(key)?.is_some())
    }

    fn end(&self, first: bool) -> Result<Option<Vec<u8>>> {
        let mut all = self.tree.iter();
        let end = if first { all.next() } else { all.next_back() };
        Ok(end.transpose()?.map(|(key, _)| key.to_vec()))
    }

    fn flush(&self) -> Result<()> {
        Ok(self.tree.flush()?)
    }

    fn snapshot(&self) -> firn_kv::Snapshot {
        self.db.snapshot()
    }

    fn make_tree(&self, name: &str) -> Result<()> {
        // Many trees share the memory budget.
        self.db.tree(name, TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() })?;
        Ok(())
    }

    fn put_in_trees(&self, names: &[String]) -> Result<()> {
        let mut batch = firn_kv::Batch::new();
        names.iter().try_for_each(|n| batch.put(&self.db.existing_tree(n)?, b"k", b"v"))?;
        Ok(self.db.write(batch)?)
    }

    fn flush_tree(&self, name: &str) -> Result<()> {
        Ok(self.db.existing_tree(name)?.flush()?)
    }
}

/// A Firn store as embedded by an application, with the options of its trees.
pub struct FirnEmbedded {
    /// The store.
    pub db: Db,
    tree: TreeOptions,
}

impl FirnEmbedded {
    /// Opens the store in `dir`, which may be empty.
    pub fn open(dir: &Path, options: DbOptions, tree: TreeOptions) -> Result<FirnEmbedded> {
        Ok(FirnEmbedded { db: Db::open_with(dir, options)?, tree })
    }
}

impl Embedded for FirnEmbedded {
    type Tree = Tree;

    fn tree(&self, name: &str) -> Result<Tree> {
        Ok(self.db.tree(name, self.tree.clone())?)
    }

    fn trees(&self, names: &[String]) -> Result<Vec<Tree>> {
        Ok(self.db.trees(names.iter().map(|n| (n, self.tree.clone())))?)
    }

    fn put(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(tree.put(key, value)?)
    }

    fn count(&self, tree: &Tree) -> Result<u64> {
        tree.iter().try_fold(0, |n, pair| pair.map(|_| n + 1).map_err(Into::into))
    }
}
