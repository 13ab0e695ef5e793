//! Restores a backup: its tables, then a manifest, and finally the file that makes the directory a
//! store.
//!
//! The store has its own id and is, like a checkpoint, a descendant of the backed-up store: its
//! tables keep the identity of that store, and its log begins anew.

use std::path::Path;

use firn_kv::internals::db::{create_dir, new_id};
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::Manifest;
use firn_kv::{Db, DbOptions, Error, ErrorKind, Result};

use crate::names::{TABLES, hash_of, within};
use crate::pacing::Pacing;
use crate::record::{BackupHead, TableCopy};
use crate::repository::{BackupRepository, hasher};

/// Result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The header of the backup.
    pub head: BackupHead,
    /// Number of blocks that the engine has verified.
    pub blocks: u64,
    /// Number of entries found.
    pub entries: u64,
}

impl BackupRepository {
    /// Restores the backup `id` to `into`, a new or empty directory of the repository's
    /// environment. It verifies the hash of each table during the copy. Then the engine opens the
    /// store for reading and verifies all of it.
    ///
    /// # Errors
    /// `NotFound` if there is no such backup (any more), `InvalidArgument` if `into` is not empty,
    /// `Corruption` if a file of the backup is missing or damaged; errors of the storage and the
    /// environment. Then `into` has no store: files are removed as far as possible, and the
    /// remaining ones have no `CURRENT`.
    pub fn restore(&self, id: &str, into: &Path, pacing: &mut Pacing<'_>) -> Result<RestoreReport> {
        self.is_there()?;
        let record = self.record(id)?;
        let mut state = self.state(&record).map_err(|e| self.unless_removed(e, id))?;
        create_dir(&*self.env, into)?;
        if let Some(name) = self.env.list(into)?.first() {
            let words = format!(
                "the directory is not empty ({name}); restore into a new one. If a restore into it was interrupted, remove it first"
            );
            return Err(Error::invalid(words).in_file(into));
        }
        pacing.begin(&*self.env, record.head.bytes);
        let mut written = 0;
        let filled = record.tables.iter().try_for_each(|table| {
            written += 1;
            self.fill(table, into, pacing).map_err(|e| of_backup(e, id))
        });
        if let Err(e) = filled {
            for table in &record.tables[..written] {
                let _ = self.env.remove(&table_path(into, table.number));
            }
            let _ = self.env.remove_dir(into);
            return Err(self.unless_removed(e, id));
        }
        self.env.sync_dir(into)?;
        state.id = new_id(&*self.env);
        state.created_micros = self.env.wall_micros();
        Manifest::create(&*self.env, into, 1, &state)?;
        let options = DbOptions { create: false, read_only: true, ..DbOptions::default() };
        let found = Db::open_in(self.env.clone(), into, options)?.verify(|_, _| ())?;
        match found.errors.into_iter().next() {
            Some(e) => Err(of_backup(e, id)),
            None => Ok(RestoreReport {
                head: record.head,
                blocks: found.blocks,
                entries: found.entries,
            }),
        }
    }

    /// Replaces the error if the backup was pruned meanwhile: then missing files are no damage.
    fn unless_removed(&self, e: Error, id: &str) -> Error {
        match self.record(id) {
            Err(gone) if gone.kind() == ErrorKind::NotFound => {
                gone.context("it was removed while it was restored")
            }
            _ => e,
        }
    }

    fn fill(&self, table: &TableCopy, into: &Path, pacing: &mut Pacing<'_>) -> Result<()> {
        let name = within(TABLES, &table.name);
        let mut file = self.env.create(&table_path(into, table.number))?;
        let mut hash = hasher();
        self.each_part(&name, table.size, |part| {
            hash.update(part);
            file.append(part)?;
            pacing.step(&*self.env, part.len() as u64)
        })?;
        if Some(hash.digest128()) != hash_of(&table.name) {
            return Err(
                Error::corruption("its bytes do not match its hash").in_file(self.shown(&name))
            );
        }
        file.sync()
    }
}

/// Adds advice to an error about a part of a backup.
fn of_backup(e: Error, id: &str) -> Error {
    match e.kind() {
        ErrorKind::Corruption | ErrorKind::NotFound => {
            let file = e.file().map(Path::to_path_buf);
            let words = format!(
                "the backup {id} can't be restored ({}); `firn backup verify` says what to do, and which backups are whole",
                e.message()
            );
            let e = Error::corruption(words);
            file.map_or(e.clone(), |f| e.in_file(f))
        }
        _ => e,
    }
}
