//! A sealed memtable becomes a run of tables, and small ones of several trees do at once: to make
//! the log, the names of tables and the manifest durable costs the same for many as for one.
//!
//! Invariants:
//! - Memtables of a tree are flushed oldest first, one at a time (`flushing` is held).
//! - The tables are durable before the manifest names them; the manifest names them before readers
//!   lose the memtable; the log is let go of last. A crash at any point finds each write in the
//!   log, or in a table, or in both.
//! - The log is durable up to the end of a memtable before the manifest names its tables, as far as
//!   anybody needs it: else a power cut could take an earlier write of another tree, or half of a
//!   batch, and leave this one; and positions of the log would be used twice. When all that lies
//!   before that end is in tables, the manifest lets go of it with the same edit, and a new writer
//!   begins behind it whatever is left of the log: then nothing is synced, and the system may never
//!   have to write those segments.

use std::path::Path;
use std::sync::Arc;

use crate::base::deletions::Deletions;
use crate::base::error::Result;
use crate::base::events::Event;
use crate::base::facts::TableFacts;
use crate::base::key::{MAX_SEQ, head};
use crate::base::options::{FilterKind, TreeOptions};
use crate::base::sync::{AtomicU64, Ordering};
use crate::cache::FrameRef;
use crate::compaction::Cuts;
use crate::manifest::TableMeta;
use crate::memtable::Memtable;
use crate::merge::emptied::emptied;
use crate::merge::job::{MadeTables, Outputs, run};
use crate::merge::merging::MergeSource;
use crate::merge::retain::{Beneath, Outside, Rules};
use crate::merge::run::table_path;
use crate::sstable::{TableWriter, WriterOptions};

use super::core::Core;
use super::install::{VersionChange, without};
use super::meters::TimedCall;
use super::pins::{PinKind, PinnedTask};
use super::throttle::Account;
use super::tree::{Flushing, TreeCore};
use super::view::{MemHandle, TreeView};
use crate::wal::{Lsn, Unneeded};

/// Makes output tables in the Db's directory.
pub(super) struct NewTables<'a> {
    pub core: &'a Core,
    pub tree: &'a TreeCore,
    pub options: Arc<TreeOptions>,
    pub level: u8,
    pub task: Arc<PinnedTask>,
    /// Called now and then, with the entries of the input passed since.
    pub during: &'a mut dyn FnMut(u64) -> Result<()>,
    /// Where the bytes that it writes are counted.
    pub written: Option<Arc<AtomicU64>>,
}

impl Outputs for NewTables<'_> {
    fn create(&mut self) -> Result<TableWriter> {
        self.core.check_process()?;
        let id = self.core.new_file();
        self.task.creates(id);
        let path = table_path(&self.core.dir, id);
        let mut file = self.core.env.create(&path)?;
        if let Some(written) = &self.written {
            file = Account::watch(written, file);
        }
        let o = &self.options;
        let options = WriterOptions {
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

    fn progress(&mut self, entries: u64) -> Result<()> {
        (self.during)(entries)
    }

    fn finished(&mut self, id: u64, frames: Vec<(u32, FrameRef)>) {
        self.core.opener.make_ready(id, frames);
    }
}

impl NewTables<'_> {
    /// The filter to make: none while the hook that says what belongs into it has not been handed
    /// in, or was not when the options were taken.
    fn filter(&self) -> FilterKind {
        let same = || {
            self.tree.view.load_full().options.filter_prefix.is_some()
                == self.options.filter_prefix.is_some()
        };
        if self.tree.is_hooked() && same() {
            self.options.filter_at(self.level as usize)
        } else {
            FilterKind::None
        }
    }

    /// Runs a job; its files are removed again when it fails. Their names are not durable yet.
    pub fn run(
        &mut self,
        sources: Vec<MergeSource>,
        rules: Rules,
        cuts: &Cuts,
        oldest: Option<u64>,
    ) -> Result<MadeTables> {
        run(sources, rules, cuts, oldest, self)
            .inspect_err(|_| remove_tables(self.core, &self.task.created()))
    }
}

/// Removes files that were written but never named by the manifest. What stays is collected at the
/// next open.
pub(super) fn remove_tables(core: &Core, ids: &[u64]) {
    for &id in ids {
        core.opener.forget(id);
        let _ = core.env.remove(&table_path(&core.dir, id));
    }
}

/// The manifest's facts of a table that has been written now. `newest_micros` is that of the
/// inputs.
pub(super) fn meta(facts: &TableFacts, now: u64, newest_micros: u64) -> TableMeta {
    TableMeta { facts: facts.clone(), created_micros: now, newest_micros, ingested_seq: 0 }
}

/// The flush of one memtable.
struct Flush<'a> {
    tree: &'a TreeCore,
    view: Arc<TreeView>,
    sealed: Arc<MemHandle>,
    /// Where it ends in the log.
    end: Lsn,
    entries: u64,
    tables: Vec<TableMeta>,
}

impl Flush<'_> {
    fn ids(&self) -> Vec<u64> {
        self.tables.iter().map(|t| t.id).collect()
    }

    fn change(&self) -> VersionChange<'_> {
        let number = self.tables.first().map_or(0, |t| t.id);
        let added = self.tables.iter().map(|t| (0, number, t.clone())).collect();
        VersionChange {
            tree: self.tree,
            removed: vec![],
            added,
            flushed: Some((&self.sealed, self.end)),
        }
    }
}

impl Core {
    /// Flushes the oldest sealed memtable of `tree`. False when there is none.
    pub fn flush_oldest(&self, tree: &TreeCore) -> Result<bool> {
        let one = tree.flushing.lock();
        self.flush_oldest_locked(tree, &one)
    }

    /// As [`flush_oldest`](Core::flush_oldest), for a caller that holds the tree's `flushing` lock.
    pub fn flush_oldest_locked(&self, tree: &TreeCore, one: &Flushing<'_>) -> Result<bool> {
        self.flush_together(&[(tree, one)])
    }

    /// Flushes the oldest sealed memtable of each of these trees, whose `flushing` locks the caller
    /// holds: all of them, or after an error none. False when there is none.
    pub fn flush_together(&self, trees: &[(&TreeCore, &Flushing<'_>)]) -> Result<bool> {
        let mut all: Vec<Flush> = vec![];
        let mut has_forgotten = false;
        for &(tree, _) in trees {
            let view = tree.view.load_full();
            let Some(sealed) = view.sealed.last().cloned() else { continue };
            sealed.wait_for_writers();
            if tree.is_dropped() {
                self.forget(tree, &sealed);
                has_forgotten = true;
                continue;
            }
            // Without an end the log is kept from where it begins.
            debug_assert!(sealed.end.get().is_some(), "a sealed memtable has an end");
            let end = sealed.end.get().copied().unwrap_or(sealed.start());
            all.push(Flush { tree, view, sealed, end, entries: 0, tables: vec![] });
        }
        if all.is_empty() {
            return Ok(has_forgotten);
        }
        let _pass = self.pass()?;
        self.check_writable()?;
        let from = self.watch.meters.now();
        all.iter().for_each(|f| f.tree.fill.flush_began(from));
        for f in &all {
            self.events.note(|| Event::FlushBegun {
                tree: f.tree.name.clone(),
                memory: f.sealed.mem.used() as u64,
            });
        }
        let written = self
            .write_all(&mut all)
            .inspect_err(|_| all.iter().for_each(|f| remove_tables(self, &f.ids())));
        let installed =
            written.and_then(|()| self.install(all.iter().map(Flush::change).collect()));
        if let Err(e) = &installed {
            for f in &all {
                self.events
                    .note(|| Event::FlushFailed { tree: f.tree.name.clone(), error: e.clone() });
            }
        }
        let floor = installed?;
        let nanos = self.watch.meters.since(TimedCall::Flush, from);
        let memory: usize = all.iter().map(|f| f.sealed.mem.used()).sum();
        for f in &all {
            f.tree.fill.flush_ended(from + nanos, memory);
            self.end_fill(f.tree);
            self.tell_of(f, from, nanos / all.len() as u64);
        }
        // Writers have been given their room already.
        drop(all);
        let unneeded = self.write.lock().wal.as_mut().map(|wal| wal.retire(floor));
        match unneeded.map_or(Ok(()), Unneeded::remove) {
            // What stays is removed after the next opening.
            Err(e) if e.is_transient() => {}
            removed => removed.map_err(|e| self.latch(e))?,
        }
        self.bound_log().map(|_| ()).or_else(|e| self.put_off(e))?;
        Ok(true)
    }

    /// Writes the tables of these flushes, and makes durable what must be before the manifest names
    /// them.
    fn write_all(&self, all: &mut [Flush<'_>]) -> Result<()> {
        let now = self.env.wall_micros();
        for f in &mut *all {
            let made = self.write_memtable(f.tree, &f.view, &f.sealed, now)?;
            f.entries = made.entries;
            f.tables = made.tables.iter().map(|facts| meta(facts, now, now)).collect();
        }
        if all.iter().any(|f| !f.tables.is_empty()) {
            self.env.sync_dir(&self.dir)?;
        }
        // The log up to where they end, unless no tree needs anything before that once they are in
        // tables. What is written from now on lies behind, so that stays so.
        let done: Vec<_> = all.iter().map(|f| (f.tree.id, &*f.sealed)).collect();
        let end = all.iter().map(|f| f.end).max().unwrap_or(0);
        let floor = self.write.lock().wal_floor(&done);
        if floor < end { self.sync_to(end) } else { Ok(()) }
    }

    /// Counts a flush that has been done, and notes it. `nanos`: what it took, of several that were
    /// done together its part.
    fn tell_of(&self, f: &Flush<'_>, from: u64, nanos: u64) {
        let (tree, tables, sealed) = (f.tree, &f.tables, &f.sealed);
        let bytes: u64 = tables.iter().map(|t| t.size).sum();
        let (deletes, raw) =
            tables.iter().fold((0, 0), |(d, r), t| (d + t.deletes, r + t.raw_bytes));
        let ends =
            [tables.first().map(|t| head(&t.first_key)), tables.last().map(|t| head(&t.last_key))];
        let waited = sealed.sealed_at.get().map_or(0, |&at| from.saturating_sub(at));
        self.counters.flushed(sealed.mem.used() as u64, bytes, nanos);
        self.events.note(|| Event::FlushEnded {
            tree: tree.name.clone(),
            entries: f.entries,
            deletes,
            bytes_out: bytes,
            raw_bytes: raw,
            tables: f.ids(),
            heads: ends.into_iter().flatten().collect(),
            flushed: f.end,
            memory: sealed.mem.used() as u64,
            micros: nanos / 1000,
            waited_micros: waited / 1000,
            paced_micros: self.pace.slept.load(Ordering::Relaxed) / 1000,
            stalled_micros: self.pace.stalled.load(Ordering::Relaxed) / 1000,
        });
    }

    /// Flushes what the log gave back to a tree, when its segments are many, or take more than the
    /// limit, full or not: every opening that writes begins one, and a store that is opened often
    /// for a few writes must not keep them all. Not before the tree has its hooks.
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

    /// Flushes what earlier openings have left in the log, in an opening that begins to write:
    /// before many more segments are there than [`shorten_log`](Core::shorten_log) allows, whoever
    /// opens which of the trees, and however soon the store is closed again.
    pub fn shorten_inherited_log(&self) -> Result<()> {
        let shorten = || {
            if self.bound_log()? {
                while self.flush_some()? {}
            }
            Ok(())
        };
        shorten().or_else(|e| self.put_off(e))
    }

    /// A tree that is seldom written must not keep in the log what all others write: memtables that
    /// need more than [`log_limit`](crate::base::options::DbOptions::log_limit) of it are sealed,
    /// however little they hold, and those that need the segments of earlier openings when there
    /// are too many of them. Whether any was.
    fn bound_log(&self) -> Result<bool> {
        let limit = self.options.log_limit();
        let w = self.write.lock();
        let floor = w.end().saturating_sub(limit).max(w.inherited_too_many());
        let old = w.waiting.range(..(floor, 0));
        let trees = self.trees.read();
        let old: Vec<_> =
            old.filter_map(|&(start, id)| Some((start, trees.by_id(id)?.clone()))).collect();
        drop(trees);
        let mut any = false;
        for (start, t) in old {
            let active = &t.view.load_full().active;
            // Those that are sealed already are on their way.
            if !t.is_dropped() && active.is_touched() && active.start() == start {
                self.seal(&w, &t)?;
                any = true;
            }
        }
        Ok(any)
    }

    fn write_memtable(
        &self,
        tree: &TreeCore,
        view: &TreeView,
        sealed: &MemHandle,
        now: u64,
    ) -> Result<MadeTables> {
        if sealed.mem.is_empty() {
            return Ok(MadeTables::default());
        }
        let snapshots = self.snapshots.list();
        let read = self.snapshots.oldest_compared().unwrap_or(MAX_SEQ);
        let own = std::slice::from_ref(&sealed.mem);
        let emptied =
            emptied(&sealed.mem, own, &view.version.runs, view.options.merge.clone(), read);
        let tombstones = if emptied.is_empty() {
            sealed.mem.fragments(&snapshots)
        } else {
            let own = sealed.mem.deletions();
            let emptied = emptied
                .iter()
                .map(|s| &s.deletion)
                .map(|t| (t.start.as_slice(), t.end.as_slice(), t.seq));
            Deletions::build(own.iter().flat_map(|d| d.iter()).chain(emptied)).fragments(&snapshots)
        };
        let rules = Rules {
            tombstones: Arc::new(tombstones),
            snapshots,
            beneath: Beneath::new(vec![]),
            outside: Outside::new(vec![], None),
            merge: view.options.merge.clone(),
            purge: None,
            zero_seqs: false,
        };
        let cuts = Cuts { size: view.options.table_size, at: vec![] };
        let mut go_on = |_| Ok(());
        let task = self.watch.pins.begin(
            PinKind::Flush,
            Some((tree.id, &tree.name)),
            String::new(),
            vec![],
        );
        let mut out = NewTables {
            core: self,
            tree,
            options: view.options.clone(),
            level: 0,
            task,
            during: &mut go_on,
            written: None,
        };
        out.run(vec![MergeSource::Mem(Memtable::cursor(&sealed.mem))], rules, &cuts, Some(now))
    }

    /// Drops the memtable of a tree that is gone.
    fn forget(&self, tree: &TreeCore, sealed: &MemHandle) {
        sealed.set_flushed();
        self.write.lock().release(tree.id, sealed);
        self.memory.release(sealed);
        tree.change_view(|v| TreeView { sealed: without(v, Some(sealed)), ..v.clone() });
    }
}

/// The number in a table's file name; `None` for names that are no table's.
pub(super) fn table_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".sst")?.parse().ok()?;
    (table_path(Path::new(""), number) == Path::new(name)).then_some(number)
}
