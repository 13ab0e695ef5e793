//! Checkpoints (a second Db made of hard links), verification, and size estimates.
//!
//! Invariant of a checkpoint: it holds exactly the writes before one position of the log, in all
//! trees that there were then. For that all memtables are sealed at one moment under the write
//! lock, with the catalogue's lock held, so that no tree is made meanwhile; no tree of those
//! flushes, ingests or is dropped until the state has been copied; and trees that are made later
//! are left out.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::manifest::{CURRENT, CURRENT_NEW, Manifest, manifest_number};
use crate::merge::run::table_path;
use crate::merge::visible::VisibleRange;

use super::bounds::{KeyBounds, key_range};
use super::core::Core;
use super::flush::table_number;
use super::open::{create_dir, new_id};
use super::pins::PinKind;
use super::{Db, Tree};

/// What [`Db::verify`] has looked at.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verified {
    /// Table files read.
    pub tables: u64,
    /// Blocks whose checksums were checked.
    pub blocks: u64,
    /// Entries whose order, bounds and filter membership were checked.
    pub entries: u64,
    /// Bytes read.
    pub bytes: u64,
    /// All that is wrong: each damaged block of each table, with its tree, its place, and the keys
    /// that it may have held.
    pub errors: Vec<Error>,
}

impl Db {
    /// Makes a copy of the Db in `dir` (which must not exist, or be empty) that opens as a Db of
    /// its own. Tables are hard-linked, so it costs a flush and some directory entries; it must lie
    /// on the same file system. Writers go on meanwhile.
    ///
    /// # Errors
    /// `InvalidArgument` when `dir` is not empty, `ReadOnly` for a Db opened read-only, and I/O
    /// errors; what was made of the checkpoint by then is removed again as far as possible, and
    /// what stays has no `CURRENT` file.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.core().checkpoint(dir.as_ref())
    }

    /// Reads every live table, bypassing the caches, and checks everything that can be checked:
    /// each block's checksum and place, order and bounds of keys, filters, counts. `progress` is
    /// told the bytes read so far and in all.
    ///
    /// # Errors
    /// Only errors of the tool itself; what is wrong with the files is listed in the result.
    pub fn verify(&self, mut progress: impl FnMut(u64, u64)) -> Result<Verified> {
        let core = self.core();
        core.check_open()?;
        let trees = core.trees.read().to_vec();
        let handles: Vec<_> = trees
            .iter()
            .flat_map(|t| {
                let v = t.view.load_full();
                let tables: Vec<_> = v.version.runs.iter().flat_map(|r| r.tables.clone()).collect();
                tables.into_iter().map(move |h| (t.clone(), h, v.options.filter_prefix.clone()))
            })
            .collect();
        let _task = core.watch.pins.begin(
            PinKind::Verify,
            None,
            String::new(),
            handles.iter().map(|h| h.1.clone()).collect(),
        );
        let all: u64 = handles.iter().map(|(_, h, _)| h.meta.size).sum();
        let mut v = Verified::default();
        for (tree, h, prefix) in handles {
            let mut read = v.bytes;
            let step = |bytes| {
                read += bytes;
                progress(read, all);
            };
            let (known, errors) = (v.errors.len(), &mut v.errors);
            let mut note = |e: Error| {
                // Nothing of a table that cannot be opened can be read.
                let e = if e.key_range().is_none() {
                    e.keys(&h.meta.first_key, &h.meta.last_key)
                } else {
                    e
                };
                errors.push(e.of_tree(&tree.name));
                ControlFlow::Continue(())
            };
            match h.table() {
                Ok(table) => {
                    let r = table.verify_each(prefix.as_deref(), step, &mut note);
                    v.tables += 1;
                    v.blocks += r.blocks;
                    v.entries += r.entries;
                    if v.errors.len() == known && r.entries != h.meta.entries {
                        let words = format!(
                            "the manifest says {} entries, the table has {}",
                            h.meta.entries, r.entries
                        );
                        v.errors.push(Error::corruption(words).of_tree(&tree.name).at(h.path(), 0));
                    }
                }
                Err(e) => drop(note(e)),
            }
            v.bytes += h.meta.size;
            progress(v.bytes, all);
        }
        Ok(v)
    }
}

impl Tree {
    /// About how many bytes of table files hold the keys of a range. Memtables are not counted.
    ///
    /// # Errors
    /// Corruption and I/O errors of opening tables at the ends of the range.
    pub fn approximate_size(&self, range: impl KeyBounds) -> Result<u64> {
        self.size_within(&key_range(range))
    }

    fn size_within(&self, range: &VisibleRange) -> Result<u64> {
        self.core.check_live()?;
        let start = range.from.as_slice();
        let ends_by = |key: &[u8]| range.until.as_deref().is_some_and(|end| end <= key);
        let view = self.core.view.load_full();
        let mut sum = 0;
        for t in view.version.runs.iter().flat_map(|r| &r.tables) {
            let (first, last) = (t.meta.first_key.as_slice(), t.meta.last_key.as_slice());
            if last < start || ends_by(first) || range.is_empty() {
                continue;
            }
            let from = if first < start { t.table()?.offset_of(start) } else { 0 };
            let to = match &range.until {
                Some(end) if ends_by(last) => t.table()?.offset_of(end),
                _ => t.meta.size,
            };
            sum += to.saturating_sub(from);
        }
        Ok(sum)
    }
}

impl Core {
    fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.check_process()?;
        self.check_writable()?;
        let _pass = self.pass()?;
        create_dir(&*self.env, dir)?;
        if let Some(n) = self.env.list(dir)?.first() {
            return Err(Error::invalid(format!(
                "the directory is not empty ({n}); name an empty or a new one"
            ))
            .in_file(dir));
        }
        let _task =
            self.watch.pins.begin(PinKind::Checkpoint, None, dir.display().to_string(), vec![]);
        let copied = self.copy_to(dir);
        if copied.is_err() {
            // Only names of a Db's own files, as at open: the directory was empty, but a stranger
            // may have put something there.
            let ours = |n: &&String| {
                table_number(n).is_some()
                    || manifest_number(n).is_some()
                    || [CURRENT, CURRENT_NEW].contains(&n.as_str())
            };
            // First what makes a Db of it.
            let _ = self.env.remove(&dir.join(CURRENT));
            for name in self.env.list(dir).unwrap_or_default().iter().filter(ours) {
                let _ = self.env.remove(&dir.join(name));
            }
        }
        copied
    }

    fn copy_to(&self, dir: &Path) -> Result<()> {
        let mut trees = self.trees.read().to_vec();
        let (locks, end, next_tree) = loop {
            let locks: Vec<_> = trees.iter().map(|t| t.flushing.lock()).collect();
            let c = self.catalog.lock();
            let now = self.trees.read().to_vec();
            if now.len() != trees.len() || !now.iter().zip(&trees).all(|(a, b)| Arc::ptr_eq(a, b)) {
                // One was made or dropped meanwhile, whose lock is missing or one too many.
                drop((c, locks));
                trees = now;
                continue;
            }
            let w = self.write.lock();
            // What the copy has can be read before anything happens that it has not.
            self.visible.wait_below(w.next_seq);
            for t in trees.iter().filter(|t| t.view.load_full().active.is_touched()) {
                self.seal(&w, t)?;
            }
            break (locks, w.end(), c.state.next_tree);
        };
        for (t, one) in trees.iter().zip(&locks) {
            // Only what was sealed until now: memtables are sealed in order of their ends.
            while t
                .view
                .load_full()
                .sealed
                .last()
                .is_some_and(|m| m.end.get().is_some_and(|e| *e <= end))
            {
                self.flush_oldest_locked(t, one)?;
            }
        }
        let state = {
            let c = self.catalog.lock();
            let mut state = c.state.clone();
            // Of what was written to trees that have been made since, some is in tables and some in
            // a log that the copy has not.
            state.trees.retain(|id, _| *id < next_tree);
            for t in state.trees.values().flat_map(|t| &t.runs).flat_map(|r| &r.tables) {
                self.env.hard_link(&table_path(&self.dir, t.id), &table_path(dir, t.id))?;
            }
            state.last_seq = self.read_point();
            // The copy starts with a log of its own, behind everything that its tables hold.
            state.wal_floor = end;
            state.writers.clear();
            // It is a store of its own from now on; its tables stay those of the stores that wrote
            // them.
            state.parent = Some(state.id);
            state.id = new_id(&*self.env);
            state.created_micros = self.env.wall_micros();
            state
        };
        drop(locks);
        self.env.sync_dir(dir)?;
        Manifest::create(&*self.env, dir, 1, &state)?;
        self.events.note(|| Event::CheckpointMade { dir: dir.to_path_buf() });
        if state.trees.is_empty() && self.env.list(dir)?.is_empty() {
            return Err(Error::new(ErrorKind::Io, "the checkpoint is empty").in_file(dir));
        }
        Ok(())
    }
}
