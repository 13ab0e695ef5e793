//! Creates checkpoints: a second Db made of hard links to the same tables.
//!
//! Invariant: a checkpoint holds exactly the writes before one position of the log, in all trees
//! that existed then. To ensure this:
//! - All memtables are sealed at one moment under the write lock. The catalog lock is held, so
//!   that no tree is created in the meantime.
//! - None of these trees flushes, ingests or is dropped until the state has been copied.
//! - Trees that are created later are left out.
//!
//! The copy opens because files are linked under the catalog lock, so every file of the manifest
//! exists, and was durable before the manifest named it. `CURRENT` is renamed last.

use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::base::key::Seq;
use crate::db::jobs::flush;
use crate::db::write::seal;
use crate::env::Env;
use crate::iterator::opener::table_path;
use crate::manifest::{CURRENT, CURRENT_NEW, Manifest, ManifestState, TreeState, manifest_number};

use crate::db::inner::DbInner;
use crate::db::jobs::outputs::table_number;
use crate::db::observe::pins::PinKind;
use crate::db::open::create_dir::{create_dir, new_id};
use crate::db::open::hold;

pub fn create_checkpoint(db: &DbInner, dir: &Path) -> Result<Seq> {
    db.gate.check_process()?;
    db.gate.check_writable()?;
    let _permit = db.gate.acquire_permit()?;
    create_dir(&*db.env, dir)?;
    let env = hold(db.env.clone(), dir)?;
    if let Some(n) = env.list(dir)?.first() {
        return Err(Error::invalid(format!(
            "the directory is not empty ({n}); name an empty or a new one"
        ))
        .in_file(dir));
    }
    let _task =
        db.observer.pins().begin(PinKind::Checkpoint, None, dir.display().to_string(), vec![]);
    let copied = copy_to(db, &*env, dir);
    if copied.is_err() {
        // Removes only names of a Db's own files, as at open: the directory was empty, but
        // another program may have created files in it.
        let ours = |n: &&String| {
            table_number(n).is_some()
                || manifest_number(n).is_some()
                || [CURRENT, CURRENT_NEW].contains(&n.as_str())
        };
        // Removes `CURRENT` first, because it makes the directory a Db.
        let _ = env.remove(&dir.join(CURRENT));
        for name in env.list(dir).unwrap_or_default().iter().filter(ours) {
            let _ = env.remove(&dir.join(name));
        }
    }
    copied
}

/// Copies the state, and returns its last sequence number. `env` holds the new directory open too.
fn copy_to(db: &DbInner, env: &dyn Env, dir: &Path) -> Result<Seq> {
    let mut trees = db.versions.trees().to_vec();
    let (locks, end, last_seq, next_tree) = loop {
        let locks: Vec<_> = trees.iter().map(|t| t.flushing.lock()).collect();
        let c = db.versions.lock_catalog();
        let now = db.versions.trees().to_vec();
        if now.len() != trees.len() || !now.iter().zip(&trees).all(|(a, b)| Arc::ptr_eq(a, b)) {
            // A tree was created or dropped in the meantime, so a lock is missing or
            // superfluous.
            drop((c, locks));
            trees = now;
            continue;
        }
        let w = db.commit.lock();
        // Every write of the copy is visible before any later write happens.
        db.commit.visible().wait_below(w.newest() + 1);
        for t in trees.iter().filter(|t| t.view.load_full().active.is_touched()) {
            seal::seal_memtable(db, &w, t)?;
        }
        break (locks, w.end(), w.newest(), c.state().next_tree);
    };
    for (t, one) in trees.iter().zip(&locks) {
        // Flushes only memtables that were sealed before `end`: they are sealed in order of
        // their ends.
        while t
            .view
            .load_full()
            .sealed
            .last()
            .is_some_and(|m| m.end.get().is_some_and(|e| *e <= end))
        {
            flush::flush_oldest_locked(db, t, one)?;
        }
    }
    let state = {
        let c = db.versions.lock_catalog();
        let mut state = ManifestState::clone(c.state());
        // Trees created since then have some writes in tables and some in log that the copy
        // lacks.
        state.trees.retain(|id, _| *id < next_tree);
        for id in state.trees.values().flat_map(TreeState::files) {
            env.hard_link(&table_path(db.versions.dir(), id), &table_path(dir, id))?;
        }
        state.last_seq = last_seq;
        // The copy starts with its own log, after all writes that its tables hold.
        state.wal_floor = end;
        state.writers.clear();
        state.subscriptions.clear();
        // It is a separate store from now on. Its tables retain the identity of the stores that
        // wrote them.
        state.parent = Some(state.id);
        state.id = new_id(&*db.env);
        state.created_micros = db.env.wall_micros();
        state
    };
    drop(locks);
    env.sync_dir(dir)?;
    Manifest::create(env, dir, 1, &state)?;
    db.observer.note(|| Event::CheckpointMade { dir: dir.to_path_buf() });
    if state.trees.is_empty() && env.list(dir)?.is_empty() {
        return Err(Error::new(ErrorKind::Io, "the checkpoint is empty").in_file(dir));
    }
    Ok(last_seq)
}
