//! Making a backup: a checkpoint, the tables that the repository has not, the manifest, the record.
//!
//! Blob files go as tables do. A table is checked block by block before it is copied: rot of the store is told and not kept.

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
use crate::names::{self, BACKUPS, KeptFile, MANIFESTS, TABLES, within};
use crate::pacing::Pacing;
use crate::place::put;
use crate::record::{BackupHead, BackupRecord, TableCopy};
use crate::repository::{BackupRepository, PART, hasher};
use crate::staging::Staging;

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupMade {
    /// Its name.
    pub id: String,
    /// What it is.
    pub head: BackupHead,
    /// How many tables were copied; the others were there.
    pub copied_tables: u64,
    /// The bytes of those tables.
    pub copied_bytes: u64,
}

/// What a backup would copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupPlan {
    /// Tables of the store.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of them would be copied.
    pub new_tables: u64,
    /// The bytes of those.
    pub new_bytes: u64,
}

/// The tables (and blob files) that the repository has: their sizes by their names.
type Present = BTreeMap<String, u64>;

/// The copy of a table in the repository, when it is known without reading the table.
fn known(present: &Present, file: &KeptFile) -> Option<String> {
    let start = names::table_start(file)?;
    let mut from = present.range(start..);
    from.by_ref()
        .take_while(|(name, _)| names::is_of(name, file))
        .find(|(_, size)| **size == file.size)
        .map(|(name, _)| name.clone())
}

/// What a file that is kept holds.
enum KeptContent {
    Table(Arc<TableMeta>),
    Values(Arc<BlobFileMeta>),
}

impl KeptContent {
    fn file(&self) -> KeptFile {
        match self {
            KeptContent::Table(t) => KeptFile { number: t.id, identity: t.identity, size: t.size },
            KeptContent::Values(v) => KeptFile { number: v.id, identity: v.identity, size: v.size },
        }
    }
}

/// The tables and blob files of a store, by number.
fn files_of(state: &ManifestState) -> Vec<KeptContent> {
    let tables = state.trees.values().flat_map(|t| t.tables()).cloned().map(KeptContent::Table);
    let values = state.trees.values().flat_map(|t| t.values.values()).cloned();
    let mut all: Vec<_> = tables.chain(values.map(KeptContent::Values)).collect();
    all.sort_by_key(|f| f.file().number);
    all
}

impl BackupRepository {
    fn present(&self) -> Result<Present> {
        Ok(self.place.list(TABLES)?.into_iter().map(|f| (f.name, f.size)).collect())
    }

    /// Makes a backup of `db`, which is open for writing; `dir` is its directory, and the
    /// repository's environment is its own. Writers go on meanwhile. All that was written before the
    /// call is in it.
    ///
    /// In `dir` a checkpoint is made, by hard links, and removed at the end. Several backups may be
    /// made at once, of one store or of several.
    ///
    /// # Errors
    /// Those of [`Db::checkpoint`]; `Corruption` when a table of the store is damaged; `Locked`
    /// while backups are pruned; what the place says. There is no backup then. What was copied stays:
    /// the next one finds it, and a prune removes it.
    pub fn create(&self, db: &Db, dir: &Path, pacing: &mut Pacing<'_>) -> Result<BackupMade> {
        self.begin()?;
        let mut lease = RunLease::announce(&self.env, &self.place, RunKind::Backup, false)?;
        let staging = Staging::begin(&self.env, dir)?;
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
        Ok(BackupMade { id: head.id.clone(), head, copied_tables, copied_bytes })
    }

    /// What [`create`](BackupRepository::create) would copy of the store in `dir`, which may be open
    /// elsewhere; nothing is written. What is only in the log, and would be flushed first, is not
    /// counted.
    ///
    /// # Errors
    /// Those of reading the manifest, and what the place says.
    pub fn plan(&self, dir: &Path) -> Result<BackupPlan> {
        let present = if self.is_there()? { self.present()? } else { Present::new() };
        let (state, _) = load(&*self.env, dir)?;
        let mut plan = BackupPlan::default();
        for file in files_of(&state).iter().map(KeptContent::file) {
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
            // A checkpoint has an id of its own.
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
        // A prune that took this run for one that is over may have begun between the two.
        if let Err(e) = lease.check() {
            self.place.remove(&[name])?;
            return Err(e);
        }
        Ok(record.head)
    }

    /// Checks each block of a table or of a blob file, and gives the hash of its bytes.
    fn check(
        &self,
        opener: &Arc<TableOpener>,
        dir: &Path,
        content: &KeptContent,
        lease: &mut RunLease,
    ) -> Result<u128> {
        match content {
            KeptContent::Table(meta) => {
                let table = opener.table_alone(meta)?;
                table.verify(None, |_| ())?;
            }
            KeptContent::Values(facts) => {
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
        kept: &KeptFile,
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
        kept: &KeptFile,
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

/// What opens the tables of a checkpoint, one at a time.
fn opener(env: &Arc<dyn Env>, dir: &Path) -> Arc<TableOpener> {
    let options = DbOptions { read_mode: ReadMode::Pread, ..DbOptions::default() };
    Arc::new(TableOpener::new(env.clone(), dir, Cache::new(1 << 20), &options))
}
