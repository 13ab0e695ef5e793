//! Tables that are opened when first needed, and runs of them.
//!
//! Invariants:
//! - A [`Run`]'s tables are sorted by key and disjoint in user keys; all versions of a key lie in one table.
//! - A [`TableHandle`] keeps its file alive: the file is removed when the last handle goes, if it was made
//!   obsolete before and the Db is still open; else the next open removes it.
//! - Opening a table costs by its index and filter, and happens on first use, so opening a Db costs by its live files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::key::{Seq, Trailer, head};
use crate::base::options::ReadMode;
use crate::cache::Cache;
use crate::env::Env;
use crate::manifest::TableMeta;
use crate::sstable::{Table, TableCursor, TableValue, WholeBlock};

/// What is needed to open tables of one Db.
pub struct TableOpener {
    /// The door to the files.
    pub env: Arc<dyn Env>,
    /// The Db's directory.
    pub dir: PathBuf,
    /// The cache of decoded blocks.
    pub cache: Arc<Cache>,
    /// Map or pread.
    pub mode: ReadMode,
    /// Set when the Db has been closed: somebody else may have the directory now.
    pub closed: AtomicBool,
}

impl TableOpener {
    /// Opens tables of the Db in `dir`.
    pub fn new(env: Arc<dyn Env>, dir: &Path, cache: Arc<Cache>, mode: ReadMode) -> TableOpener {
        TableOpener { env, dir: dir.to_path_buf(), cache, mode, closed: AtomicBool::new(false) }
    }
}

/// The name of a table's file.
pub fn table_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id:08}.sst"))
}

/// A live table file: its facts at once, its content on first use.
pub struct TableHandle {
    /// The facts kept in the manifest.
    pub meta: Arc<TableMeta>,
    opener: Arc<TableOpener>,
    table: OnceLock<Arc<Table>>,
    obsolete: AtomicBool,
}

impl TableHandle {
    /// A handle for the table with these facts.
    pub fn new(meta: Arc<TableMeta>, opener: Arc<TableOpener>) -> Arc<TableHandle> {
        Arc::new(TableHandle { meta, opener, table: OnceLock::new(), obsolete: AtomicBool::new(false) })
    }

    /// The table, opened if it was not yet.
    #[inline]
    pub fn table(&self) -> Result<&Arc<Table>> {
        match self.table.get() {
            Some(t) => Ok(t),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Arc<Table>> {
        let path = self.path();
        let file = self.opener.env.open_read(&path, self.opener.mode == ReadMode::Mmap)?;
        let table = Table::open_ingested(file, &path, self.meta.id, self.opener.cache.clone(), self.meta.ingested_seq)?;
        Ok(self.table.get_or_init(|| table))
    }

    /// The table, if it has been opened.
    pub fn opened(&self) -> Option<&Arc<Table>> {
        self.table.get()
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        table_path(&self.opener.dir, self.meta.id)
    }

    /// Lets the file be removed when the last handle goes: it has left the manifest.
    pub fn make_obsolete(&self) {
        self.obsolete.store(true, Ordering::Relaxed);
    }

    /// Whether the table may hold keys in `[start, end]`; `None` is unbounded.
    pub fn overlaps(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        start.is_none_or(|s| self.meta.last_key.as_slice() >= s) && end.is_none_or(|e| self.meta.first_key.as_slice() <= e)
    }
}

impl Drop for TableHandle {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() && !self.opener.closed.load(Ordering::Acquire) {
            // A file that cannot be removed now is collected as garbage at the next open.
            let _ = self.opener.env.remove(&self.path());
        }
    }
}

/// A sorted run.
pub struct Run {
    /// Its level.
    pub level: u8,
    /// Its number: newer runs of a level have larger ones.
    pub number: u64,
    /// Its tables, sorted.
    pub tables: Vec<Arc<TableHandle>>,
    last_heads: Vec<u64>,
}

impl Run {
    /// A run of tables that are sorted and disjoint.
    pub fn new(level: u8, number: u64, tables: Vec<Arc<TableHandle>>) -> Run {
        let last_heads = tables.iter().map(|t| head(&t.meta.last_key)).collect();
        Run { level, number, tables, last_heads }
    }

    /// Index of the first table whose last key is at or after `key`: the only one that can hold it.
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        let h = head(key);
        let mut i = self.last_heads.partition_point(|&l| l < h);
        while i < self.last_heads.len() && self.last_heads[i] == h && self.tables[i].meta.last_key.as_slice() < key {
            i += 1;
        }
        i
    }

    /// The table that can hold `key`.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<&Arc<TableHandle>> {
        let t = self.tables.get(self.lower_bound(key))?;
        (t.meta.first_key.as_slice() <= key).then_some(t)
    }

    /// Size of the files in bytes.
    pub fn size(&self) -> u64 {
        self.tables.iter().map(|t| t.meta.size).sum()
    }

    /// The newest sequence number in the run.
    pub fn max_seq(&self) -> u64 {
        self.tables.iter().map(|t| t.meta.max_seq).max().unwrap_or(0)
    }
}

/// Whether `key` lies on this side of `edge`: before it going forward, at or after it going backward.
#[inline]
pub fn is_inside(key: &[u8], forward: bool, edge: Option<&[u8]>) -> bool {
    edge.is_none_or(|e| (key < e) == forward)
}

/// A cursor over a run: the cursor of the table it stands in, and the way to its neighbours.
pub struct RunCursor {
    run: Arc<Run>,
    at: usize,
    table: Option<TableCursor>,
    fill_cache: bool,
}

impl RunCursor {
    /// A cursor over `run`; `fill_cache` says whether blocks it decodes are kept for others.
    pub fn new(run: Arc<Run>, fill_cache: bool) -> RunCursor {
        RunCursor { run, at: usize::MAX, table: None, fill_cache }
    }

    fn enter(&mut self, i: usize) -> Result<Option<&mut TableCursor>> {
        if i != self.at || self.table.is_none() {
            self.table = None;
            let Some(handle) = self.run.tables.get(i) else { return Ok(None) };
            self.table = Some(handle.table()?.cursor(self.fill_cache));
            self.at = i;
        }
        Ok(self.table.as_mut())
    }

    /// Tables may hold range tombstones only, so the next entry may lie several tables on.
    fn skip_forward(&mut self) -> Result<()> {
        while self.table.as_ref().is_some_and(|t| !t.valid()) {
            match self.enter(self.at + 1)? {
                Some(t) => t.first()?,
                None => break,
            }
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<()> {
        while self.table.as_ref().is_some_and(|t| !t.valid()) {
            if self.at == 0 {
                self.table = None;
                break;
            }
            if let Some(t) = self.enter(self.at - 1)? {
                t.last()?;
            }
        }
        Ok(())
    }

    /// Whether it stands on the first entry of a block.
    #[inline]
    pub fn is_at_start(&self) -> bool {
        self.table.as_ref().is_some_and(|t| t.is_at_start())
    }

    /// The block at whose start it stands: see [`TableCursor::whole_block`].
    #[inline]
    pub fn whole_block(&self) -> Option<WholeBlock<'_>> {
        self.table.as_ref().and_then(|t| t.whole_block())
    }

    /// To the first entry behind the current block.
    pub fn pass_block(&mut self) -> Result<()> {
        if let Some(t) = &mut self.table {
            t.pass_block()?;
        }
        self.skip_forward()
    }

    /// Passes over whole blocks of deletes: see [`TableCursor::pass_deletes`]. True when it moved.
    pub fn pass_deletes(&mut self, forward: bool, limit: Option<&[u8]>) -> Result<bool> {
        let mut moved = false;
        while let Some(t) = &mut self.table
            && t.pass_deletes(forward, limit)?
        {
            moved = true;
            if !t.valid() {
                if forward { self.skip_forward() } else { self.skip_backward() }?;
            }
        }
        Ok(moved)
    }

    /// Passes over all entries older than `seq` up to the first one that is not, or that lies beyond `edge`: at or after it going
    /// forward, before it going backward. Tables that hold nothing newer are not read. True when it moved.
    pub fn pass_older(&mut self, seq: Seq, forward: bool, edge: Option<&[u8]>) -> Result<bool> {
        let mut moved = false;
        while self.valid() && self.trailer().seq() < seq && is_inside(self.key(), forward, edge) {
            moved = true;
            let older = |t: &Arc<TableHandle>| t.meta.max_seq < seq;
            if !self.run.tables.get(self.at).is_some_and(older) {
                if forward { self.next() } else { self.prev() }?;
                continue;
            }
            // The first table in the way that reaches beyond the edge or holds something newer.
            let (before, after) = (&self.run.tables[..self.at], &self.run.tables[self.at..]);
            let stop = if forward {
                let ends = |t: &Arc<TableHandle>| !is_inside(&t.meta.last_key, true, edge);
                after.iter().position(|t| ends(t) || !older(t)).map(|i| self.at + i)
            } else {
                let begins = |t: &Arc<TableHandle>| !is_inside(&t.meta.first_key, false, edge);
                if begins(&after[0]) { Some(self.at) } else { before.iter().rposition(|t| begins(t) || !older(t)) }
            };
            self.jump(stop, seq, forward, edge)?;
        }
        Ok(moved)
    }

    /// To the edge in table `stop` if all of that table is older than `seq`, else to where the table begins.
    fn jump(&mut self, stop: Option<usize>, seq: Seq, forward: bool, edge: Option<&[u8]>) -> Result<()> {
        let Some(i) = stop else {
            self.table = None;
            return Ok(());
        };
        let older = self.run.tables[i].meta.max_seq < seq;
        if let Some(t) = self.enter(i)? {
            match edge.filter(|_| older) {
                Some(key) if forward => t.seek(key, Trailer::NEWEST),
                Some(key) => t.seek_before(key),
                None if forward => t.first(),
                None => t.last(),
            }?;
        }
        if forward { self.skip_forward() } else { self.skip_backward() }
    }

    /// When the block it stands in holds only puts of distinct keys: a bound on their sequence numbers.
    #[inline]
    pub fn plain_up_to(&self) -> Option<Seq> {
        self.table.as_ref().and_then(|t| t.plain_up_to())
    }

    /// An owned handle of the value it stands on; `None` when it stands nowhere.
    pub fn pin_value(&self) -> Option<TableValue> {
        self.table.as_ref().map(|t| t.pin_value())
    }
}

impl Cursor for RunCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.table.as_ref().is_some_and(|t| t.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.table.as_ref().map_or(&[], |t| t.key())
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.table.as_ref().map_or(Trailer(0), |t| t.trailer())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.table.as_ref().map_or(&[], |t| t.value())
    }

    #[inline]
    fn head(&self) -> u64 {
        self.table.as_ref().map_or(0, |t| t.head())
    }

    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()> {
        let i = self.run.lower_bound(key);
        if let Some(t) = self.enter(i)? {
            t.seek(key, at)?;
        }
        self.skip_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let n = self.run.tables.len();
        let i = self.run.lower_bound(key).min(n.saturating_sub(1));
        if let Some(t) = self.enter(i)? {
            t.seek_before(key)?;
        }
        self.skip_backward()
    }

    fn first(&mut self) -> Result<()> {
        if let Some(t) = self.enter(0)? {
            t.first()?;
        }
        self.skip_forward()
    }

    fn last(&mut self) -> Result<()> {
        if let Some(t) = self.enter(self.run.tables.len().wrapping_sub(1))? {
            t.last()?;
        }
        self.skip_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match &mut self.table {
            Some(t) => {
                t.next()?;
                if t.valid() { Ok(()) } else { self.skip_forward() }
            }
            None => Ok(()),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        match &mut self.table {
            Some(t) => {
                t.prev()?;
                if t.valid() { Ok(()) } else { self.skip_backward() }
            }
            None => Ok(()),
        }
    }
}
