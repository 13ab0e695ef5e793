//! Bulk loading, export and dropping of key ranges.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use scopeguard::ScopeGuard;

use crate::base::cursor::Cursor as _;
use crate::base::error::{Error, Result};
use crate::base::key::{Kind, Trailer};
use crate::db::jobs::ingest;
use crate::iterator::table_handle::TableHandle;
use crate::iterator::visible::VisibleRange;
use crate::sstable::{Table, TableWriter, WriterOptions};

use crate::db::handle::handles::Tree;
use crate::db::observe::pins::PinKind;
use crate::db::read::bounds::{KeyBounds, key_range};

/// File number of exported tables.
const EXPORTED: u64 = 0;

impl Tree {
    /// Loads pairs in strictly ascending key order, atomically, much faster than writes: it builds
    /// tables directly. The pairs replace existing values. The load is durable against power
    /// failure when the call returns. Returns the number of pairs.
    ///
    /// # Errors
    /// `InvalidArgument` for keys out of order or over the limits; `Conflict` if other threads keep
    /// writing in the same key range; otherwise those of [`put`](Tree::put). After an error nothing
    /// was loaded.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-ingest-{}", std::process::id()));
    /// use firn_kv::{Db, TreeOptions};
    /// let tree = Db::open(&dir)?.tree("t", TreeOptions::default())?;
    /// let n = tree.ingest((0..1000u32).map(|i| (i.to_be_bytes(), b"value")))?;
    /// assert_eq!((n, tree.iter().count()), (1000, 1000));
    /// # drop(tree); std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        self.try_ingest(pairs.into_iter().map(Ok))
    }

    /// Loads pairs like [`ingest`](Tree::ingest), from an iterator that can fail. After the first
    /// error nothing was loaded.
    ///
    /// ```
    /// use firn_kv::{Db, Error, TreeOptions};
    /// let tree = Db::in_memory()?.tree("t", TreeOptions::default())?;
    /// let lines = ["a 1", "b 2", "c"];
    /// let pairs = lines.iter().map(|l| l.split_once(' ').ok_or_else(|| Error::invalid(format!("no value: {l}"))));
    /// assert_eq!(tree.try_ingest(pairs).unwrap_err().message(), "no value: c");
    /// assert!(tree.is_empty()?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The iterator's error; otherwise those of [`ingest`](Tree::ingest).
    pub fn try_ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<u64> {
        self.handle.check_writer()?;
        self.inner.check_live()?;
        ingest::ingest_entries(&self.handle.inner, &self.inner, pairs.into_iter())
    }

    /// Loads a file written by [`export`](Tree::export), like [`ingest`](Tree::ingest).
    ///
    /// # Errors
    /// Those of [`ingest`](Tree::ingest), and corruption of the file, before anything is loaded.
    pub fn import(&self, file: impl AsRef<Path>) -> Result<u64> {
        self.handle.check_writer()?;
        self.inner.check_live()?;
        let inner = &self.handle.inner;
        let source = inner.env.open_read(file.as_ref(), false)?;
        let table = Table::open(source, file.as_ref(), EXPORTED, inner.memory.cache().clone())
            .map_err(|e| e.context("this is no file that `export` made"))?;
        table.verify(None, |_| {})?;
        let mut c = table.cursor(false);
        c.first()?;
        let pairs = std::iter::from_fn(|| {
            let pair = c.valid().then(|| (c.key().to_vec(), c.value().to_vec()))?;
            if c.trailer().kind() != Some(Kind::Put) {
                let words = "this is no file that `export` made: it has more than values";
                return Some(Err(Error::corruption(words).in_file(file.as_ref())));
            }
            Some(c.next().map(|()| pair))
        });
        ingest::ingest_entries(inner, &self.inner, pairs)
    }

    /// Writes the current keys and values of a range to a table file, which
    /// [`import`](Tree::import) and `sstable-dump` can read. The file must not exist. Returns the
    /// number of pairs.
    ///
    /// # Errors
    /// `InvalidArgument` if the file exists; otherwise those of [`get`](Tree::get), and I/O errors.
    /// After an error the incomplete file is deleted.
    pub fn export(&self, range: impl KeyBounds, file: impl AsRef<Path>) -> Result<u64> {
        self.export_within(key_range(range), file.as_ref())
    }

    fn export_within(&self, range: VisibleRange, file: &Path) -> Result<u64> {
        let inner = &self.handle.inner;
        if inner.env.file_len(file).is_ok() {
            return Err(Error::invalid("the file exists; name a new one").in_file(file));
        }
        let mut c = self.cursor(range)?;
        let _task = inner.observer.pins().begin(
            PinKind::Export,
            Some((self.inner.id, self.name())),
            file.display().to_string(),
            vec![],
        );
        let options = WriterOptions {
            version: inner.versions.format(),
            identity: inner.versions.new_identity(),
            created_micros: inner.env.wall_micros(),
            ..WriterOptions::default()
        };
        let mut w = TableWriter::new(inner.env.create(file)?, file, EXPORTED, options);
        let in_part = scopeguard::guard((), |()| {
            let _ = inner.env.remove(file);
        });
        let write = || {
            let mut n = 0;
            c.first()?;
            while c.is_valid() {
                w.add(c.key(), Trailer::new(0, Kind::Put), c.value())?;
                n += 1;
                c.next()?;
            }
            w.finish()?;
            if let Some(dir) = file.parent() {
                inner.env.sync_dir(if dir.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    dir
                })?;
            }
            Ok(n)
        };
        write().inspect(|_| ScopeGuard::into_inner(in_part))
    }

    /// Deletes all keys of a range and frees its space as far as possible at once. It drops tables
    /// inside the range without reading them, unless a snapshot may see them or a compaction reads
    /// them. Later writes of other threads to the range are retained.
    ///
    /// # Errors
    /// Those of [`put`](Tree::put) and [`flush`](Tree::flush).
    pub fn drop_range(&self, range: impl KeyBounds) -> Result<()> {
        self.drop_within(&range)
    }

    fn drop_within(&self, range: &dyn KeyBounds) -> Result<()> {
        let older = self.tables_within(&key_range(range));
        let deletion = self.delete_range_numbered(range)?;
        let freed = self
            .flush()
            .and_then(|()| ingest::drop_tables(&self.handle.inner, &self.inner, &older, deletion));
        // The deletion is visible now. A tree dropped meanwhile has no space to free, and a closed
        // store frees it later.
        if self.inner.is_dropped() || self.handle.inner.gate.is_closing() { Ok(()) } else { freed }
    }

    /// Returns the tables that are completely inside a range.
    pub(in crate::db) fn tables_within(&self, range: &VisibleRange) -> HashSet<u64> {
        let view = self.inner.view.load_full();
        let within = |t: &&Arc<TableHandle>| {
            range.contains(&t.meta.first_key) && range.contains(&t.meta.last_key)
        };
        view.version.tables().filter(within).map(|t| t.meta.id).collect()
    }
}
