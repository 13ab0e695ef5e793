//! The checkpoint that a backup is copied from: a directory in the store's own, where hard links are
//! possible, which goes when the backup is done.
//!
//! A directory `backup-…` is the checkpoint, and the file `backup-….lock` beside it is locked by its
//! run. Those that nobody holds are what a crash left; the next backup removes them. The engine
//! touches none of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::{Env, ErrorKind, Result};

use firn_kv::fs::FileLock;

const START: &str = "backup-";
const LOCK: &str = ".lock";
/// How often another name is tried where somebody holds the lock.
const TRIES: usize = 8;

/// A directory for a checkpoint.
pub struct Staging {
    env: Arc<dyn Env>,
    /// The directory of the checkpoint, which makes it.
    pub dir: PathBuf,
    lock_file: PathBuf,
    lock: Option<Box<dyn FileLock>>,
}

impl Staging {
    /// Finds a name in the directory of a store, and removes what crashes have left.
    pub fn begin(env: &Arc<dyn Env>, store: &Path) -> Result<Staging> {
        for name in env.list(store)? {
            // A crash may have left the one without the other.
            let of = name.strip_suffix(LOCK).unwrap_or(&name);
            if is_staging(of) {
                // Who else is at it removes it, and its end is nobody's error.
                drop(Staging::lock(env, store, of));
            }
        }
        let mut tries = 0;
        loop {
            let name = format!("{START}{:016x}", env.random());
            match Staging::lock(env, store, &name) {
                // A backup beside this one took the file for a leftover before it was locked.
                Err(e) if e.kind() == ErrorKind::Locked && tries < TRIES => tries += 1,
                staging => return staging,
            }
        }
    }

    fn lock(env: &Arc<dyn Env>, store: &Path, name: &str) -> Result<Staging> {
        let lock_file = store.join(format!("{name}{LOCK}"));
        let lock = Some(env.lock(&lock_file)?);
        Ok(Staging { env: env.clone(), dir: store.join(name), lock_file, lock })
    }
}

fn is_staging(name: &str) -> bool {
    name.strip_prefix(START)
        .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What can't be removed now is removed before the next backup.
        for name in self.env.list(&self.dir).unwrap_or_default() {
            let _ = self.env.remove(&self.dir.join(name));
        }
        let _ = self.env.remove_dir(&self.dir);
        self.lock = None;
        let _ = self.env.remove(&self.lock_file);
    }
}
