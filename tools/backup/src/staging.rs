//! The checkpoint that a backup is copied from: a directory in the store's directory, where hard
//! links are possible. It is removed after the backup.
//!
//! A directory `backup-…` is the checkpoint, and its run locks the file `backup-….lock` beside it.
//! Unlocked ones are left from a crash; the next backup removes them. The engine ignores both.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::{Env, ErrorKind, Result};

use firn_kv::fs::FileLock;

const START: &str = "backup-";
const LOCK: &str = ".lock";
/// Attempts with another name if a lock is taken.
const TRIES: usize = 8;

/// Directory for a checkpoint that is copied elsewhere. Dropping it removes the checkpoint.
pub struct Staging {
    env: Arc<dyn Env>,
    /// Path of the checkpoint, which creates it.
    pub dir: PathBuf,
    lock_file: PathBuf,
    lock: Option<Box<dyn FileLock>>,
}

impl std::fmt::Debug for Staging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staging").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Staging {
    /// Chooses a name in the store's directory, and removes the leftovers of crashes.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn begin(env: &Arc<dyn Env>, store: &Path) -> Result<Staging> {
        for name in env.list(store)? {
            // A crash may have left one without the other.
            let of = name.strip_suffix(LOCK).unwrap_or(&name);
            if is_staging(of) {
                // A concurrent backup may remove it as well; ignore its error.
                drop(Staging::lock(env, store, of));
            }
        }
        let mut tries = 0;
        loop {
            let name = format!("{START}{:016x}", env.random());
            match Staging::lock(env, store, &name) {
                // A concurrent backup took the file for a leftover before it was locked.
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
        // Files that cannot be removed now are removed before the next backup.
        for name in self.env.list(&self.dir).unwrap_or_default() {
            let _ = self.env.remove(&self.dir.join(name));
        }
        let _ = self.env.remove_dir(&self.dir);
        self.lock = None;
        let _ = self.env.remove(&self.lock_file);
    }
}
