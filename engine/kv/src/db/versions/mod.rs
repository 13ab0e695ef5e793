//! Version set: the live files of a store, its trees, and its snapshots.
//!
//! Invariants:
//! - The catalog says which files are live. It changes under its lock, together with the manifest.
//! - Trees are added and removed under the lock of the catalog, and the lock of the trees.

pub mod catalog;
pub mod live_blobs;
pub mod open_trees;
pub mod snapshots;
pub mod subscription_point;
pub mod tree;
pub mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::format_version::{AtomicFormatVersion, FormatVersion};
use crate::base::identity::TableIdentity;
use crate::base::ops::TreeId;
use crate::env::{Env, FileLock};
use crate::iterator::opener::TableOpener;
use crate::util::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, rank};

use catalog::TreeCatalog;
use open_trees::OpenTrees;
use snapshots::Snapshots;
use tree::{TreeInner, TreeParts};

/// Live files, trees and snapshots of an open store.
pub struct VersionSet {
    env: Arc<dyn Env>,
    dir: PathBuf,
    /// Id of the store, which never changes. It is copied here because the lock of the catalog is
    /// held over syncs.
    store: u64,
    /// Format version of new files, as in the current manifest.
    format: AtomicFormatVersion,
    opener: Arc<TableOpener>,
    catalog: Mutex<TreeCatalog, rank::Catalog>,
    trees: RwLock<OpenTrees, rank::Trees>,
    snapshots: Snapshots,
    tree_parts: TreeParts,
    /// Excludes other processes.
    lock: Mutex<Option<Box<dyn FileLock>>, rank::Directory>,
}

/// Lock of the catalog, held.
pub type LockedCatalog<'a> = MutexGuard<'a, TreeCatalog, rank::Catalog>;

impl VersionSet {
    /// Combines what an opening found.
    pub fn new(
        dir: PathBuf,
        opener: Arc<TableOpener>,
        catalog: TreeCatalog,
        trees: OpenTrees,
        tree_parts: TreeParts,
        lock: Option<Box<dyn FileLock>>,
    ) -> VersionSet {
        VersionSet {
            env: tree_parts.env.clone(),
            dir,
            store: catalog.state().id,
            format: AtomicFormatVersion::new(catalog.state().format),
            opener,
            catalog: Mutex::new(catalog),
            trees: RwLock::new(trees),
            snapshots: Snapshots::default(),
            tree_parts,
            lock: Mutex::new(lock),
        }
    }

    /// Returns the directory of the store.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the id of the store.
    pub fn store(&self) -> u64 {
        self.store
    }

    /// Returns the format version of new files.
    pub fn format(&self) -> FormatVersion {
        self.format.get()
    }

    /// Sets the format version of new files. The current manifest has it.
    pub fn set_format(&self, format: FormatVersion) {
        self.format.set(format);
    }

    /// Returns the opener of tables.
    pub fn opener(&self) -> &Arc<TableOpener> {
        &self.opener
    }

    /// Takes the lock of the catalog, which is held over writes of the manifest.
    pub fn lock_catalog(&self) -> LockedCatalog<'_> {
        self.catalog.lock()
    }

    /// Returns the trees.
    pub fn trees(&self) -> RwLockReadGuard<'_, OpenTrees, rank::Trees> {
        self.trees.read()
    }

    /// Returns the trees for a change.
    pub fn trees_mut(&self) -> RwLockWriteGuard<'_, OpenTrees, rank::Trees> {
        self.trees.write()
    }

    /// Returns the tree with this id, unless it was dropped.
    pub fn tree(&self, id: TreeId) -> Option<Arc<TreeInner>> {
        self.trees.read().by_id(id).cloned()
    }

    /// Returns the live snapshots.
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Returns the parts of the store that each tree refers to.
    pub fn tree_parts(&self) -> &TreeParts {
        &self.tree_parts
    }

    /// Returns a new file number. Numbers are assigned in memory; the next edit records them in the
    /// manifest.
    pub fn new_file(&self) -> u64 {
        self.catalog.lock().take_file()
    }

    /// Returns a new identity for a table that this store is about to write.
    pub fn new_identity(&self) -> TableIdentity {
        TableIdentity { store: self.store, unique: self.env.random() }
    }

    /// Returns the id of the newest writer of the log in the manifest; 0 in a new store.
    pub fn last_writer_id(&self) -> u64 {
        self.catalog.lock().state().writers.last().map_or(0, |w| w.id)
    }

    /// Releases the lock that excludes other processes.
    pub fn unlock_directory(&self) {
        drop(self.lock.lock().take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::options::DbOptions;
    use crate::block_cache::Cache;
    use crate::db::observe::meters::Meters;
    use crate::db::observe::pins::Pins;
    use crate::env::mem::MemEnv;
    use crate::iterator::empty_range_cache::EmptyRangeBudget;
    use crate::manifest::{FoundManifest, ManifestState};

    fn version_set(lock: Option<Box<dyn FileLock>>, env: &Arc<dyn Env>) -> VersionSet {
        let state = ManifestState { id: 77, next_file: 5, ..ManifestState::default() };
        let found = FoundManifest { state, number: 0, end: None };
        let cache = Cache::within(1 << 20, 1 << 19);
        let dir = PathBuf::from("/db");
        let opener = Arc::new(TableOpener::new(env.clone(), &dir, cache, &DbOptions::default()));
        let parts = TreeParts {
            env: env.clone(),
            meters: Meters::new(env.clone()),
            pins: Pins::new(env.clone()),
            empty_ranges: EmptyRangeBudget::new(1 << 16),
            work: Arc::default(),
        };
        let catalog = TreeCatalog::new(env.clone(), dir.clone(), found);
        VersionSet::new(dir, opener, catalog, OpenTrees::default(), parts, lock)
    }

    #[test]
    fn files_and_identities_are_never_given_twice() {
        let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
        let versions = version_set(None, &env);
        assert_eq!((versions.new_file(), versions.new_file()), (5, 6));
        let (a, b) = (versions.new_identity(), versions.new_identity());
        assert_eq!((a.store, b.store), (77, 77));
        assert_ne!(a.unique, b.unique);
        assert_eq!((versions.store(), versions.last_writer_id()), (77, 0));
        assert!(versions.tree(0).is_none());
    }

    #[test]
    fn the_directory_is_locked_until_it_is_released() {
        let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
        env.create_dir_all(Path::new("/db")).unwrap();
        let file = Path::new("/db/LOCK");
        let versions = version_set(Some(env.lock(file).unwrap()), &env);
        assert!(env.lock(file).is_err());
        versions.unlock_directory();
        env.lock(file).unwrap();
    }
}
