//! A sealed memtable becomes a run of tables.
//!
//! Invariants:
//! - Memtables of a tree are flushed oldest first, one at a time (`flushing` is held).
//! - The tables are durable before the manifest names them; the manifest names them before readers lose the memtable; the log is
//!   let go of last. A crash at any point finds each write in the log, or in a table, or in both.
//! - The log is durable up to the end of a memtable before the manifest names its tables, as far as anybody needs it: else a power cut
//!   could take an earlier write of another tree, or half of a batch, and leave this one; and positions of the log would be used
//!   twice. When all that lies before that end is in tables, the manifest lets go of it with the same edit, and a new writer begins
//!   behind it whatever is left of the log: then nothing is synced, and the system may never have to write those segments.

use std::path::Path;
use std::sync::Arc;

use crate::base::deletions::Deletions;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::base::key::{MAX_SEQ, head};
use crate::base::options::{FilterKind, TreeOptions};
use crate::base::sync::{MutexGuard, Ordering};
use crate::cache::FrameRef;
use crate::compaction::Cuts;
use crate::compaction::job::{Made, Outputs, run};
use crate::manifest::{AddedTable, Edit, TableMeta};
use crate::memtable::Memtable;
use crate::merge::emptied::emptied;
use crate::merge::merging::Source;
use crate::merge::retain::{Beneath, Outside, Rules};
use crate::merge::run::{TableHandle, table_path};
use crate::sstable::{TableFacts, TableOptions, TableWriter};

use super::core::{Catalog, Core};
use super::meters::Timed;
use super::pins::{PinKind, Task, nudge};
use super::tree::{TreeCore, build_version};
use super::view::{MemHandle, View};
use crate::wal::{Lsn, Unneeded};

/// Makes output tables in the Db's directory.
pub(super) struct NewTables<'a> {
    pub core: &'a Core,
    pub tree: &'a TreeCore,
    pub options: Arc<TreeOptions>,
    pub level: u8,
    pub task: Arc<Task>,
    pub during: &'a mut dyn FnMut() -> Result<()>,
}

impl Outputs for NewTables<'_> {
    fn create(&mut self) -> Result<TableWriter> {
        self.core.check_process()?;
        let id = self.core.new_file();
        self.task.creates(id);
        let path = table_path(&self.core.dir, id);
        let file = self.core.env.create(&path)?;
        let o = &self.options;
        let options = TableOptions {
            identity: self.core.new_identity(),
            tree: self.tree.id,
            level: self.level,
            block_size: o.block_size,
            compression: o.compression_at(self.level as usize),
            filter: self.filter(),
            filter_prefix: o.filter_prefix.clone(),
            summary: o.summary.clone(),
            merge: o.merge.as_ref().map_or_else(String::new, |h| h.name().to_owned()),
            purge: o.purge.as_ref().map_or_else(String::new, |h| h.name().to_owned()),
            created_micros: self.core.env.wall_micros(),
            warm: Some(self.core.cache.clone()),
        };
        Ok(TableWriter::new(file, &path, id, options))
    }

    fn progress(&mut self) -> Result<()> {
        (self.during)()
    }

    fn finished(&mut self, id: u64, frames: Vec<(u32, FrameRef)>) {
        self.core.opener.make_ready(id, frames);
    }
}

impl NewTables<'_> {
    /// The filter to make: none while the hook that says what belongs into it has not been handed in, or was not when the options
    /// were taken.
    fn filter(&self) -> FilterKind {
        let same = || self.tree.view.load_full().options.filter_prefix.is_some() == self.options.filter_prefix.is_some();
        if self.tree.is_hooked() && same() { self.options.filter_at(self.level as usize) } else { FilterKind::None }
    }

    /// Runs a job; its files are removed again when it fails.
    pub fn run(&mut self, sources: Vec<Source>, rules: Rules, cuts: &Cuts, oldest: Option<u64>) -> Result<Made> {
        let made = run(sources, rules, cuts, oldest, self).and_then(|made| {
            self.core.env.sync_dir(&self.core.dir)?;
            Ok(made)
        });
        if made.is_err() {
            remove_tables(self.core, &self.task.created());
        }
        made
    }
}

/// Removes files that were written but never named by the manifest. What stays is collected at the next open.
pub(super) fn remove_tables(core: &Core, ids: &[u64]) {
    for &id in ids {
        core.opener.forget(id);
        let _ = core.env.remove(&table_path(&core.dir, id));
    }
}

/// The manifest's facts of a table that has been written now. `newest_micros` is that of the inputs.
pub(super) fn meta(facts: &TableFacts, now: u64, newest_micros: u64) -> TableMeta {
    TableMeta {
        id: facts.id,
        identity: facts.identity,
        size: facts.size,
        entries: facts.entries,
        deletes: facts.deletes,
        merges: facts.merges,
        range_deletes: facts.range_deletes,
        raw_bytes: facts.raw_bytes,
        first_key: facts.first_key.clone(),
        last_key: facts.last_key.clone(),
        min_seq: facts.min_seq,
        max_seq: facts.max_seq,
        created_micros: now,
        newest_micros,
        ingested_seq: 0,
        oldest_tombstone_micros: facts.oldest_tombstone_micros,
    }
}

impl Core {
    /// Flushes the oldest sealed memtable of `tree`. False when there is none.
    pub fn flush_oldest(&self, tree: &TreeCore) -> Result<bool> {
        let one = tree.flushing.lock();
        self.flush_oldest_locked(tree, &one)
    }

    /// As [`flush_oldest`](Core::flush_oldest), for a caller that holds the tree's `flushing` lock.
    pub fn flush_oldest_locked(&self, tree: &TreeCore, _one: &MutexGuard<'_, ()>) -> Result<bool> {
        let view = tree.view.load_full();
        let Some(sealed) = view.sealed.last() else { return Ok(false) };
        sealed.settle();
        if tree.is_dropped() {
            self.forget(tree, sealed);
            return Ok(true);
        }
        self.check_writable()?;
        self.events.note(|| Event::FlushBegun { tree: tree.name.clone(), memory: sealed.mem.used() as u64 });
        let flushed = self.flush_sealed(tree, &view, sealed);
        if let Err(e) = &flushed {
            self.events.note(|| Event::FlushFailed { tree: tree.name.clone(), error: e.clone() });
        }
        let floor = flushed?;
        let unneeded = self.write.lock().wal.as_mut().map(|wal| wal.retire(floor));
        match unneeded.map_or(Ok(()), Unneeded::remove) {
            // What stays is removed after the next opening.
            Err(e) if e.is_transient() => {}
            removed => removed.map_err(|e| self.latch(e))?,
        }
        self.bound_log().or_else(|e| self.put_off(e))?;
        Ok(true)
    }

    /// Writes a sealed memtable into tables, and makes them live in its place. Gives the position below which the log is not needed.
    fn flush_sealed(&self, tree: &TreeCore, view: &View, sealed: &Arc<MemHandle>) -> Result<Lsn> {
        let from = self.watch.meters.now();
        tree.fill.flush_began(from);
        let now = self.env.wall_micros();
        let made = self.write_memtable(tree, view, sealed, now)?;
        // Without an end the log is kept from where it begins.
        debug_assert!(sealed.end.get().is_some(), "a sealed memtable has an end");
        let end = sealed.end.get().copied().unwrap_or(sealed.start());
        self.sync_before(tree, sealed, end)?;
        let tables: Vec<TableMeta> = made.tables.iter().map(|f| meta(f, now, now)).collect();
        let bytes: u64 = tables.iter().map(|t| t.size).sum();
        let number = tables.first().map_or(0, |t| t.id);
        let ids: Vec<u64> = tables.iter().map(|t| t.id).collect();
        let (deletes, raw) = tables.iter().fold((0, 0), |(d, r), t| (d + t.deletes, r + t.raw_bytes));
        let ends = [tables.first().map(|t| head(&t.first_key)), tables.last().map(|t| head(&t.last_key))];
        let added = tables.into_iter().map(|t| (0, number, t)).collect();
        let floor = self.install(tree, vec![], added, Some((sealed, end)))?;
        let nanos = self.watch.meters.since(Timed::Flush, from);
        let waited = sealed.sealed_at.get().map_or(0, |&at| from.saturating_sub(at));
        tree.fill.flush_ended(from + nanos, sealed.mem.used());
        self.counters.flushed(sealed.mem.used() as u64, bytes, nanos);
        self.events.note(|| Event::FlushEnded {
            tree: tree.name.clone(),
            entries: made.entries,
            deletes,
            bytes_out: bytes,
            raw_bytes: raw,
            tables: ids,
            heads: ends.into_iter().flatten().collect(),
            flushed: end,
            memory: sealed.mem.used() as u64,
            micros: nanos / 1000,
            waited_micros: waited / 1000,
            paced_micros: self.pace.slept.load(Ordering::Relaxed) / 1000,
            stalled_micros: self.pace.stalled.load(Ordering::Relaxed) / 1000,
        });
        Ok(floor)
    }

    /// Flushes what the log gave back to a tree, when its segments are many, or take more than the limit, full or not: every opening that
    /// writes begins one, and a store that is opened often for a few writes must not keep them all. Not before the tree has its hooks.
    pub fn shorten_log(&self, tree: &TreeCore) -> Result<()> {
        {
            let w = self.write.lock();
            if !w.is_log_long(self.options.log_limit())
                || !tree.view.load_full().active.is_touched()
                || self.check_writable().is_err()
            {
                return Ok(());
            }
            self.seal(&w, tree)?;
        }
        if self.options.background_threads == 0 {
            while self.flush_oldest(tree)? {}
        }
        self.signal_work();
        Ok(())
    }

    /// A tree that is seldom written must not keep in the log what all others write: memtables that need more than
    /// [`log_limit`](crate::base::options::DbOptions::log_limit) of it are sealed, however little they hold.
    fn bound_log(&self) -> Result<()> {
        let limit = self.options.log_limit();
        let w = self.write.lock();
        let floor = w.end().saturating_sub(limit);
        let old = w.waiting.range(..(floor, 0));
        let trees = self.trees.read();
        let old: Vec<_> = old.filter_map(|&(start, id)| Some((start, trees.by_id(id)?.clone()))).collect();
        drop(trees);
        for (start, t) in old {
            let active = &t.view.load_full().active;
            // Those that are sealed already are on their way.
            if !t.is_dropped() && active.is_touched() && active.start() == start {
                self.seal(&w, &t)?;
            }
        }
        Ok(())
    }

    /// Makes the log durable up to `end`, where `sealed` ends, unless no tree needs anything before that once `sealed` is in tables. What
    /// is written from now on lies behind `end`, so that stays so.
    fn sync_before(&self, tree: &TreeCore, sealed: &MemHandle, end: Lsn) -> Result<()> {
        let floor = self.write.lock().wal_floor(Some((tree.id, sealed)));
        if floor < end { self.sync_to(end) } else { Ok(()) }
    }

    fn write_memtable(&self, tree: &TreeCore, view: &View, sealed: &MemHandle, now: u64) -> Result<Made> {
        if sealed.mem.is_empty() {
            return Ok(Made::default());
        }
        let snapshots = self.snapshots.list();
        let read = self.snapshots.oldest_compared().unwrap_or(MAX_SEQ);
        let own = std::slice::from_ref(&sealed.mem);
        let emptied = emptied(&sealed.mem, own, &view.version.runs, view.options.merge.clone(), read);
        let tombstones = if emptied.is_empty() {
            sealed.mem.fragments(&snapshots)
        } else {
            let own = sealed.mem.deletions();
            let emptied = emptied.iter().map(|s| &s.deletion).map(|t| (t.start.as_slice(), t.end.as_slice(), t.seq));
            Deletions::build(own.iter().flat_map(|d| d.iter()).chain(emptied)).fragments(&snapshots)
        };
        let rules = Rules {
            tombstones: Arc::new(tombstones),
            snapshots,
            beneath: Beneath::new(vec![]),
            outside: Outside::new(vec![], None),
            merge: view.options.merge.clone(),
            purge: None,
            settle: false,
        };
        let cuts = Cuts { size: view.options.table_size, at: vec![] };
        let mut go_on = || Ok(());
        let task = self.watch.pins.begin(PinKind::Flush, Some((tree.id, &tree.name)), String::new(), vec![]);
        let mut out = NewTables { core: self, tree, options: view.options.clone(), level: 0, task, during: &mut go_on };
        out.run(vec![Source::Mem(Memtable::cursor(&sealed.mem))], rules, &cuts, Some(now))
    }

    /// Drops the memtable of a tree that is gone.
    fn forget(&self, tree: &TreeCore, sealed: &MemHandle) {
        sealed.set_flushed();
        self.write.lock().release(tree.id, sealed);
        self.memory.release(sealed);
        tree.change_view(|v| View { sealed: without(v, Some(sealed)), ..v.clone() });
    }

    /// Makes a change of tables durable and visible: `removed` leave, `added` (level, run, facts) come, and the memtable that they
    /// were made of goes, with the position that the tree is flushed to. Gives the position below which the log is not needed.
    pub(super) fn install(
        &self,
        tree: &TreeCore,
        removed: Vec<u64>,
        added: Vec<(u8, u64, TableMeta)>,
        flushed: Option<(&MemHandle, Lsn)>,
    ) -> Result<Lsn> {
        let mut gone: Vec<Arc<TableHandle>> = vec![];
        let floor;
        {
            let mut c = self.catalog.lock();
            let made: Vec<u64> = added.iter().map(|(_, _, t)| t.id).filter(|id| !removed.contains(id)).collect();
            // The floor that is set below must not get into a manifest without the tables for which it is.
            if let Err(e) = check_known(&c, tree).and_then(|()| self.make_manifest_ready(&mut c)) {
                drop(c);
                // What was written for it will never have a name; tables that move have left with the tree.
                remove_tables(self, &made);
                return Err(e);
            }
            let added: Vec<_> =
                added.into_iter().map(|(level, run, m)| AddedTable { level, run, table: Arc::new(m) }).collect();
            let edit = Edit::Tables {
                tree: tree.id,
                removed: removed.clone(),
                added: added.clone(),
                flushed: flushed.map(|(_, end)| end),
            };
            let before = c.state.wal_floor;
            floor = before.max(self.write.lock().wal_floor(flushed.map(|(m, _)| (tree.id, m))));
            c.state.set_wal_floor(floor);
            if let Err(e) = self.log_edits(&mut c, vec![edit]) {
                // The memtable is still needed, and with it its log.
                c.state.set_wal_floor(before);
                drop(c);
                // When the store is latched the manifest may name the tables; the next open decides.
                if self.check_writable().is_ok() {
                    remove_tables(self, &made);
                }
                return Err(e);
            }
            let mut files = tree.files.lock();
            for AddedTable { table, .. } in added {
                let reads = files.reads.clone();
                files.handles.entry(table.id).or_insert_with(|| TableHandle::new(table, self.opener.clone(), reads));
            }
            if let Some(state) = c.state.trees.get(&tree.id) {
                for id in removed.iter().filter(|id| !c.state.has_table(**id)) {
                    let handle = files.handles.remove(id);
                    debug_assert!(handle.is_some(), "table {id} leaves and has no handle");
                    gone.extend(handle);
                }
                let before = tree.view.load_full().version.clone();
                let version = Arc::new(build_version(&before, state, &files).map_err(|e| self.latch(e))?);
                if let Some((m, _)) = flushed {
                    m.set_flushed();
                    self.write.lock().release(tree.id, m);
                    self.memory.release(m);
                }
                tree.change_view(|v| View { sealed: without(v, flushed.map(|(m, _)| m)), version, ..v.clone() });
            }
        }
        self.watch.pins.retire(tree.id, &gone);
        if flushed.is_some() {
            // The memory of the memtable, else kept by the view that named it until somebody comes by.
            nudge();
        }
        self.tables_changed(tree);
        self.rebalance();
        self.signal_done();
        self.call_workers_for([tree]);
        Ok(floor)
    }
}

/// An error when the tree has left the manifest. Asked under the lock under which trees are dropped.
pub(super) fn check_known(c: &Catalog, tree: &TreeCore) -> Result<()> {
    if c.state.trees.contains_key(&tree.id) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Closed, format!("the tree {:?} has been dropped", tree.name)))
}

/// The sealed memtables of a view but one.
fn without(v: &View, gone: Option<&MemHandle>) -> Vec<Arc<MemHandle>> {
    v.sealed.iter().filter(|m| !gone.is_some_and(|g| std::ptr::eq(&***m, g))).cloned().collect()
}

/// The number in a table's file name; `None` for names that are no table's.
pub(super) fn table_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".sst")?.parse().ok()?;
    (table_path(Path::new(""), number) == Path::new(name)).then_some(number)
}
