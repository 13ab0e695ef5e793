//! The files of a store: a pool in memory or in the origin private file system.

use std::fmt;
use std::sync::Arc;

use firn_browser_pool::{MemoryFiles, PoolEnv, PoolStorage};
use firn_kv::{Env, Result};

use crate::opfs::OpfsFiles;

/// Files that a store has for itself.
pub(crate) struct StoreFiles {
    env: Arc<PoolEnv>,
    /// The files, unless they are in memory.
    opfs: Option<Arc<OpfsFiles>>,
}

impl fmt::Debug for StoreFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFiles").field("opfs", &self.opfs).finish_non_exhaustive()
    }
}

impl StoreFiles {
    pub(crate) fn memory() -> Result<StoreFiles> {
        let env = PoolEnv::open(Arc::new(MemoryFiles::default()))?;
        Ok(StoreFiles { env: Arc::new(env), opfs: None })
    }

    /// Opens the pool of this name; creates it if it is missing.
    pub(crate) async fn opfs(name: &str) -> Result<StoreFiles> {
        let opfs = Arc::new(OpfsFiles::open(name).await?);
        opfs.grow(PoolEnv::MIN_FILES).await?;
        let env = Arc::new(PoolEnv::open(opfs.clone())?);
        let files = StoreFiles { env, opfs: Some(opfs) };
        files.reserve().await?;
        Ok(files)
    }

    pub(crate) fn env(&self) -> Arc<dyn Env> {
        self.env.clone()
    }

    /// Opens files in advance.
    pub(crate) async fn reserve(&self) -> Result<()> {
        let Some(opfs) = &self.opfs else { return Ok(()) };
        let wanted = self.env.wanted_files();
        if opfs.count() < wanted {
            opfs.grow(wanted).await?;
            self.env.add_free();
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        if let Some(opfs) = &self.opfs {
            opfs.close();
        }
    }

    /// Deletes the pool of this name.
    pub(crate) async fn delete(name: &str) -> Result<()> {
        OpfsFiles::remove(name).await
    }
}
