//! Checkpoints (a second Db made of hard links).
//!
//! Invariant of a checkpoint: it holds exactly the writes before one position of the log, in all
//! trees that there were then. For that all memtables are sealed at one moment under the write
//! lock, with the catalogue's lock held, so that no tree is made meanwhile; no tree of those
//! flushes, ingests or is dropped until the state has been copied; and trees that are made later
//! are left out.

use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::env::Env;
use crate::manifest::{CURRENT, CURRENT_NEW, Manifest, ManifestState, TreeState, manifest_number};
use crate::merge::run::table_path;

use super::fresh::{create_dir, new_id};
use super::open::hold;
use super::outputs::table_number;
use super::state::core::DbInner;
use super::state::pins::PinKind;

impl DbInner {
    pub fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.check_process()?;
        self.gate.check_writable()?;
        let _pass = self.pass()?;
        create_dir(&*self.env, dir)?;
        let env = hold(self.env.clone(), dir)?;
        if let Some(n) = env.list(dir)?.first() {
            return Err(Error::invalid(format!(
                "the directory is not empty ({n}); name an empty or a new one"
            ))
            .in_file(dir));
        }
        let _task =
            self.watch.pins.begin(PinKind::Checkpoint, None, dir.display().to_string(), vec![]);
        let copied = self.copy_to(&*env, dir);
        if copied.is_err() {
            // Only names of a Db's own files, as at open: the directory was empty, but a stranger
            // may have put something there.
            let ours = |n: &&String| {
                table_number(n).is_some()
                    || manifest_number(n).is_some()
                    || [CURRENT, CURRENT_NEW].contains(&n.as_str())
            };
            // First what makes a Db of it.
            let _ = env.remove(&dir.join(CURRENT));
            for name in env.list(dir).unwrap_or_default().iter().filter(ours) {
                let _ = env.remove(&dir.join(name));
            }
        }
        copied
    }

    /// `env` holds the new directory open, too.
    fn copy_to(&self, env: &dyn Env, dir: &Path) -> Result<()> {
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
            self.visible.wait_below(w.newest() + 1);
            for t in trees.iter().filter(|t| t.view.load_full().active.is_touched()) {
                self.seal(&w, t)?;
            }
            break (locks, w.end(), c.state().next_tree);
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
            let mut state = ManifestState::clone(c.state());
            // Of what was written to trees that have been made since, some is in tables and some in
            // a log that the copy has not.
            state.trees.retain(|id, _| *id < next_tree);
            for id in state.trees.values().flat_map(TreeState::files) {
                env.hard_link(&table_path(&self.dir, id), &table_path(dir, id))?;
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
        env.sync_dir(dir)?;
        Manifest::create(env, dir, 1, &state)?;
        self.events.note(|| Event::CheckpointMade { dir: dir.to_path_buf() });
        if state.trees.is_empty() && env.list(dir)?.is_empty() {
            return Err(Error::new(ErrorKind::Io, "the checkpoint is empty").in_file(dir));
        }
        Ok(())
    }
}
