//! Where a store is: in memory or on the real file system.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use firn_kv::env::Env;
use firn_kv::env::mem::MemEnv;
use firn_kv::env::os::OsEnv;

use crate::setup::Setup;

/// Where the store is.
pub struct Place {
    pub mem: Option<MemEnv>,
    pub env: Arc<dyn Env>,
    pub dir: PathBuf,
}

impl Place {
    pub fn new(setup: &Setup) -> Place {
        if setup.os {
            return Place { mem: None, env: OsEnv::new(), dir: fresh_dir(setup.seed) };
        }
        let mem = MemEnv::new(setup.seed);
        mem.set_memory(setup.memory);
        Place::of_image(mem)
    }

    pub fn of_image(mem: MemEnv) -> Place {
        Place { env: Arc::new(mem.clone()), mem: Some(mem), dir: "/db".into() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.mem.is_none() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

pub fn fresh_dir(seed: u64) -> PathBuf {
    static N: AtomicU32 = AtomicU32::new(0);
    let n = N.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("firn-model-{}-{seed}-{n}", std::process::id()))
}

pub fn copy_dir(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        match std::fs::copy(entry.path(), to.join(entry.file_name())) {
            // A table that its last reader has let go may be removed at any time.
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}
