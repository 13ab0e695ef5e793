//! Bulk loading, the way out again, and ranges dropped whole, of a tree's handle.

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

/// The file number that exported tables carry.
const EXPORTED: u64 = 0;

impl Tree {
    /// Loads pairs in strictly ascending key order as one atomic step, much faster than writing
    /// them: they go straight into tables. They replace what the keys had before. Durable against
    /// power cuts when it returns. Gives the number of pairs.
    ///
    /// # Errors
    /// `InvalidArgument` for keys out of order or over the limits, `Conflict` when other threads
    /// never stop writing in the same key range, else as [`put`](Tree::put). Nothing has been
    /// loaded then.
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

    /// As [`ingest`](Tree::ingest), of pairs that may turn out to be missing: with the first error
    /// nothing has been loaded.
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
    /// That of the pairs, else as [`ingest`](Tree::ingest).
    pub fn try_ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<u64> {
        self.inner.check_live()?;
        ingest::ingest_entries(&self.handle.inner, &self.inner, pairs.into_iter())
    }

    /// Loads a file made by [`export`](Tree::export), as [`ingest`](Tree::ingest) does.
    ///
    /// # Errors
    /// As [`ingest`](Tree::ingest), and corruption of the file, before anything is loaded.
    pub fn import(&self, file: impl AsRef<Path>) -> Result<u64> {
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

    /// Writes the keys of a range with their values, as they are now, into one table file that
    /// [`import`](Tree::import) and `sstable-dump` read. The file must not exist. Gives the number
    /// of pairs.
    ///
    /// # Errors
    /// `InvalidArgument` when the file exists, else as [`get`](Tree::get), and I/O errors; no part
    /// of the file stays then.
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
            while c.valid() {
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

    /// Deletes every key of a range and gives the space back as far as that is possible at once:
    /// tables that lie wholly in the range are dropped without being read, unless a snapshot may
    /// still see them or a merge is reading them. What other threads write into the range after the
    /// deletion stays.
    ///
    /// # Errors
    /// As [`put`](Tree::put) and [`flush`](Tree::flush).
    pub fn drop_range(&self, range: impl KeyBounds) -> Result<()> {
        self.drop_within(&range)
    }

    fn drop_within(&self, range: &dyn KeyBounds) -> Result<()> {
        let older = self.tables_within(&key_range(range));
        let deletion = self.delete_range_numbered(range)?;
        let freed = self
            .flush()
            .and_then(|()| ingest::drop_tables(&self.handle.inner, &self.inner, &older, deletion));
        // The keys were deleted, as readers may have seen; a tree that was dropped since has no
        // space to give back, and a store that was closed does it later.
        if self.inner.is_dropped() || self.handle.inner.gate.is_closing() { Ok(()) } else { freed }
    }

    /// The tables that lie wholly in a range now.
    pub(in crate::db) fn tables_within(&self, range: &VisibleRange) -> HashSet<u64> {
        let view = self.inner.view.load_full();
        let within = |t: &&Arc<TableHandle>| {
            range.contains(&t.meta.first_key) && range.contains(&t.meta.last_key)
        };
        view.version.tables().filter(within).map(|t| t.meta.id).collect()
    }
}
