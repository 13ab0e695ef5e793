//! Restoring a backup: its tables, then a manifest, and at last what makes a store of the directory.
//!
//! The store has an id of its own and is, like a checkpoint, a descendant of the one that was backed
//! up: its tables stay theirs, and its log begins anew.

use std::path::Path;

use firn_kv::internals::db::{create_dir, new_id};
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::Manifest;
use firn_kv::{Db, DbOptions, Error, ErrorKind, Result};

use crate::names::{TABLES, hash_of, within};
use crate::pacing::Pacing;
use crate::record::{BackupHead, TableCopy};
use crate::repository::{BackupRepository, hasher};

/// A store that was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// The backup.
    pub head: BackupHead,
    /// Blocks that the engine has checked in it.
    pub blocks: u64,
    /// Entries that it has found.
    pub entries: u64,
}

impl BackupRepository {
    /// Makes a store of the backup `id` in `into`, a new or an empty directory of the repository's
    /// environment. Each table is compared with its hash on the way; then the engine opens the store
    /// for reading and verifies all of it.
    ///
    /// # Errors
    /// `NotFound` when there is no such backup, or not any more, `InvalidArgument` when `into` is
    /// not empty, `Corruption` when something of the backup is missing or damaged, and what place
    /// and environment say. There is no store in `into` then: what was written of it is removed
    /// again as far as possible, and what stays has no `CURRENT`.
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

    /// What a backup that was pruned meanwhile misses is no damage.
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
                Error::corruption("its bytes are not what was written").in_file(self.shown(&name))
            );
        }
        file.sync()
    }
}

/// An error about a part of a backup, with what to do.
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
