//! Storage of a test store: in memory, of either kind, or on the real file system; encrypted or
//! not.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use firn_crash::{CrashEnv, Cut};
use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::OsEnv;

use crate::encrypted::Encrypted;
use crate::model::setup::Setup;

fn over(setup: &Setup, env: Arc<dyn Env>) -> Arc<dyn Env> {
    if setup.encrypted { Arc::new(Encrypted::new(env, [9; 32])) } else { env }
}

/// Location and environment of a store.
pub struct Place {
    /// In-memory environment with a virtual clock and simulated crashes.
    pub mem: Option<CrashEnv>,
    os: bool,
    pub env: Arc<dyn Env>,
    pub dir: PathBuf,
}

impl Place {
    pub fn new(setup: &Setup) -> Place {
        if setup.os {
            return Place {
                mem: None,
                os: true,
                env: over(setup, OsEnv::new()),
                dir: fresh_dir(setup.seed),
            };
        }
        if setup.plain {
            return Place {
                mem: None,
                os: false,
                env: over(setup, Arc::new(MemEnv::plain())),
                dir: "/db".into(),
            };
        }
        let mem = CrashEnv::new(setup.seed);
        mem.set_memory(setup.memory);
        Place::of_image(setup, mem)
    }

    pub fn of_image(setup: &Setup, mem: CrashEnv) -> Place {
        Place {
            env: over(setup, Arc::new(mem.clone())),
            mem: Some(mem),
            os: false,
            dir: "/db".into(),
        }
    }

    /// Returns the store as a crash leaves it, if this kind of storage supports that.
    pub fn after_crash(&self, setup: &Setup, cut: &Cut) -> std::io::Result<Option<Place>> {
        match &self.mem {
            Some(mem) => Ok(Some(Place::of_image(setup, mem.crash_image(0, cut)))),
            // A copy of the directory shows one moment only if no background thread works.
            None if self.os && setup.db.background_threads == 0 => {
                let next = Place::new(setup);
                copy_dir(&self.dir, &next.dir)?;
                Ok(Some(next))
            }
            None => Ok(None),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.os {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

fn fresh_dir(seed: u64) -> PathBuf {
    static N: AtomicU32 = AtomicU32::new(0);
    let n = N.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("firn-model-{}-{seed}-{n}", std::process::id()))
}

fn copy_dir(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        match std::fs::copy(entry.path(), to.join(entry.file_name())) {
            // A table may be removed at any time after its last reader releases it.
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}
