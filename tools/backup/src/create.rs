//! Creates a backup: a checkpoint, new tables, the manifest, the record.
//!
//! Blob files are treated like tables. A table is checked block by block before it is copied:
//! corruption of the store is reported and never copied.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_kv::internals::base::blob_ref::BlobFileMeta;
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::iterator::opener::{TableOpener, table_path};
use firn_kv::internals::manifest::{Manifest, ManifestState, TableMeta, manifest_name};
use firn_kv::{Db, DbOptions, Env, Error, ErrorKind, ReadMode, Result};
use xxhash_rust::xxh3::xxh3_128;

use crate::leases::{RunKind, RunLease};
use crate::names::{self, BACKUPS, MANIFESTS, RecordedFile, TABLES, within};
use crate::pacing::Pacing;
use crate::record::{BackupHead, BackupRecord, TableCopy};
use crate::repository::{BackupRepository, PART, hasher};
use crate::staging::Staging;
use crate::storage::put;

/// Result of a created backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupSummary {
    /// Its name.
    pub id: String,
    /// Header of its record.
    pub head: BackupHead,
    /// Number of copied tables; the others were in the repository.
    pub copied_tables: u64,
    /// Bytes of those tables.
    pub copied_bytes: u64,
}

/// The data that a backup would copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupPlan {
    /// Tables of the store.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of tables to copy.
    pub new_tables: u64,
    /// Bytes of those.
    pub new_bytes: u64,
}

/// The tables and blob files in the repository, with their sizes.
type Present = BTreeMap<String, u64>;

/// Returns the repository's copy of a table, if it is known without reading the table.
fn known(present: &Present, file: &RecordedFile) -> Option<String> {
    let start = names::table_start(file)?;
    let mut from = present.range(start..);
    from.by_ref()
        .take_while(|(name, _)| names::is_of(name, file))
        .find(|(_, size)| **size == file.size)
        .map(|(name, _)| name.clone())
}

/// Metadata of a file to back up.
enum RecordedContent {
    Table(Arc<TableMeta>),
    Values(Arc<BlobFileMeta>),
}

impl RecordedContent {
    fn file(&self) -> RecordedFile {
        match self {
            RecordedContent::Table(t) => {
                RecordedFile { number: t.id, identity: t.identity, size: t.size }
            }
            RecordedContent::Values(v) => {
                RecordedFile { number: v.id, identity: v.identity, size: v.size }
            }
        }
    }
}

/// Returns the tables and blob files of a store, by number.
fn files_of(state: &ManifestState) -> Vec<RecordedContent> {
    let tables = state.trees.values().flat_map(|t| t.tables()).cloned().map(RecordedContent::Table);
    let values = state.trees.values().flat_map(|t| t.values.values()).cloned();
    let mut all: Vec<_> = tables.chain(values.map(RecordedContent::Values)).collect();
    all.sort_by_key(|f| f.file().number);
    all
}

impl BackupRepository {
    fn present(&self) -> Result<Present> {
        Ok(self.place.list(TABLES)?.into_iter().map(|f| (f.name, f.size)).collect())
    }

    /// Creates a backup of `db`, which is open for writing and uses the repository's environment.
    /// Writers continue meanwhile. The backup contains all writes before the call.
    ///
    /// It creates a checkpoint in the directory of the store, by hard links, and removes it at the
    /// end. Several backups may run at once, of one store or of several.
    ///
    /// # Errors
    /// Errors of [`Db::checkpoint`]; `Corruption` if a table of the store is damaged; `Locked`
    /// during a prune; errors of the repository. Then there is no backup. Copied tables stay: the
    /// next backup uses them, or a prune removes them.
    pub fn create(&self, db: &Db, pacing: &mut Pacing<'_>) -> Result<BackupSummary> {
        self.begin()?;
        let mut lease = RunLease::announce(&self.env, &self.place, RunKind::Backup, false)?;
        let staging = Staging::begin(&self.env, db.dir())?;
        db.checkpoint(&staging.dir)?;
        let copy = staging.dir.as_path();
        let (state, number) = load(&*self.env, copy)?;
        let present = self.present()?;
        let files = files_of(&state);
        let named: Vec<Option<String>> = files.iter().map(|f| known(&present, &f.file())).collect();
        let new = || files.iter().zip(&named).filter(|(_, name)| name.is_none());
        pacing.begin(&*self.env, new().map(|(f, _)| f.file().size).sum());
        let opener = opener(&self.env, copy);
        let (mut copies, mut copied_tables, mut copied_bytes) = (vec![], 0, 0);
        for (content, name) in files.iter().zip(named) {
            let file = content.file();
            let name = match name {
                Some(name) => name,
                None => {
                    let hash = self.check(&opener, copy, content, &mut lease)?;
                    let name = names::table_name(&file, hash);
                    if present.get(&name) != Some(&file.size) {
                        self.copy(copy, &file, hash, &mut lease, pacing)?;
                        (copied_tables, copied_bytes) =
                            (copied_tables + 1, copied_bytes + file.size);
                    }
                    name
                }
            };
            copies.push(TableCopy { number: file.number, name, size: file.size });
        }
        let head = self.record_it(&state, number, copy, copies, &mut lease)?;
        Ok(BackupSummary { id: head.id.clone(), head, copied_tables, copied_bytes })
    }

    /// Returns what [`create`](BackupRepository::create) would copy of the store in `dir`, which
    /// may be open elsewhere; writes nothing. Data that is only in the log, and would be flushed
    /// first, is not counted.
    ///
    /// # Errors
    /// Errors of reading the manifest, and of the repository.
    pub fn plan(&self, dir: &Path) -> Result<BackupPlan> {
        let present = if self.is_there()? { self.present()? } else { Present::new() };
        let (state, _) = load(&*self.env, dir)?;
        let mut plan = BackupPlan::default();
        for file in files_of(&state).iter().map(RecordedContent::file) {
            (plan.tables, plan.bytes) = (plan.tables + 1, plan.bytes + file.size);
            if known(&present, &file).is_none() {
                (plan.new_tables, plan.new_bytes) =
                    (plan.new_tables + 1, plan.new_bytes + file.size);
            }
        }
        Ok(plan)
    }

    /// Writes manifest and record.
    fn record_it(
        &self,
        state: &ManifestState,
        number: u64,
        copy: &Path,
        tables: Vec<TableCopy>,
        lease: &mut RunLease,
    ) -> Result<BackupHead> {
        let manifest = self.env.read_all(&copy.join(manifest_name(number)), 1 << 30)?;
        let ((id, made_micros), hash) = (self.new_id()?, xxh3_128(&manifest));
        let head = BackupHead {
            made_micros,
            // A checkpoint has its own id.
            store: format!("{:016x}", state.parent.unwrap_or(state.id)),
            seq: state.last_seq,
            trees: state.trees.len() as u64,
            tables: tables.len() as u64,
            bytes: tables.iter().map(|t| t.size).sum(),
            manifest: names::manifest_name(&id, hash),
            manifest_number: number,
            manifest_size: manifest.len() as u64,
            id,
        };
        put(&*self.place, &within(MANIFESTS, &head.manifest), &manifest)?;
        let record = BackupRecord { head, tables };
        let text = record.encode()?;
        lease.check()?;
        let name = within(BACKUPS, &record.head.id);
        put(&*self.place, &name, text.as_bytes())?;
        // A prune may have expired this run and begun in between.
        if let Err(e) = lease.check() {
            self.place.remove(&[name])?;
            return Err(e);
        }
        Ok(record.head)
    }

    /// Checks each block of a table or blob file, and returns the hash of its bytes.
    fn check(
        &self,
        opener: &Arc<TableOpener>,
        dir: &Path,
        content: &RecordedContent,
        lease: &mut RunLease,
    ) -> Result<u128> {
        match content {
            RecordedContent::Table(meta) => {
                let table = opener.table_alone(meta)?;
                table.verify(None, |_| ())?;
            }
            RecordedContent::Values(facts) => {
                opener.blob_handle(facts).file()?.verify_all()?;
            }
        }
        let mut hash = hasher();
        self.each_part_of_file(dir, &content.file(), |part| {
            hash.update(part);
            lease.keep()
        })?;
        Ok(hash.digest128())
    }

    fn copy(
        &self,
        dir: &Path,
        kept: &RecordedFile,
        hash: u128,
        lease: &mut RunLease,
        pacing: &mut Pacing<'_>,
    ) -> Result<()> {
        let mut file = self.place.create(&within(TABLES, &names::table_name(kept, hash)))?;
        let mut copied = hasher();
        self.each_part_of_file(dir, kept, |part| {
            copied.update(part);
            file.append(part)?;
            pacing.step(&*self.env, part.len() as u64)?;
            lease.keep()
        })?;
        if copied.digest128() != hash {
            let words = "the table was read twice, and not the same twice: look at the device, then run it again";
            return Err(Error::corruption(words).in_file(table_path(dir, kept.number)));
        }
        file.finish()
    }

    fn each_part_of_file(
        &self,
        dir: &Path,
        kept: &RecordedFile,
        mut f: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let file = self.env.open_read(&table_path(dir, kept.number), false)?;
        let mut part = vec![0; PART.min(usize::try_from(kept.size).unwrap_or(PART))];
        let mut at = 0;
        while at < kept.size {
            let len = (kept.size - at).min(part.len() as u64) as usize;
            file.read_at(at, &mut part[..len])?;
            f(&part[..len])?;
            at += len as u64;
        }
        Ok(())
    }
}

fn load(env: &dyn Env, dir: &Path) -> Result<(ManifestState, u64)> {
    Manifest::load(env, dir)?.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "there is no store to make a backup of").in_file(dir)
    })
}

/// Returns an opener for the tables of a checkpoint, one at a time.
fn opener(env: &Arc<dyn Env>, dir: &Path) -> Arc<TableOpener> {
    let options = DbOptions { read_mode: ReadMode::Pread, ..DbOptions::default() };
    Arc::new(TableOpener::new(env.clone(), dir, Cache::new(1 << 20), &options))
}
