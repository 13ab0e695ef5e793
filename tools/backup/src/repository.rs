//! A repository of backups: parts common to all runs.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use firn_kv::internals::manifest::{self, ManifestState};
use firn_kv::{Env, Error, ErrorKind, MemEnv, Result};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::names::{
    self, BACKUPS, MANIFESTS, MARKER, MARKER_START, MARKER_TEXT, hash_of, made_micros, within,
};
use crate::record::{BackupRecord, MAX_RECORD};
use crate::storage::{BackupStorage, put};

/// Bytes that are read or written at once.
pub const PART: usize = 4 << 20;
/// Largest manifest to read: no store writes a larger one.
const MAX_MANIFEST: u64 = 1 << 30;

/// A repository of backups, which may still be empty. See the [crate](crate).
#[derive(Clone)]
pub struct BackupRepository {
    /// Environment of stores, clock and randomness.
    pub(crate) env: Arc<dyn Env>,
    pub(crate) place: Arc<dyn BackupStorage>,
}

impl fmt::Debug for BackupRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BackupRepository").field(&self.place.address()).finish()
    }
}

/// An existing backup.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedBackup {
    /// Its name.
    pub id: String,
    /// Its record, or the error of reading it.
    pub record: Result<BackupRecord>,
}

impl BackupRepository {
    /// Uses the repository at `place`. Stores to back up and to restore are in `env`. Reads and
    /// writes nothing yet.
    pub fn new(env: Arc<dyn Env>, place: Arc<dyn BackupStorage>) -> BackupRepository {
        BackupRepository { env, place }
    }

    /// Returns the existing backups, oldest first; none if the storage is empty.
    ///
    /// # Errors
    /// `InvalidArgument` if the storage has something else, `Incompatible` if a newer version wrote
    /// it; errors of the storage.
    pub fn list(&self) -> Result<Vec<ListedBackup>> {
        if !self.is_there()? {
            return Ok(vec![]);
        }
        let mut all = vec![];
        for file in self.place.list(BACKUPS)? {
            if made_micros(&file.name).is_none() {
                continue;
            }
            match self.record(&file.name) {
                // It was removed meanwhile.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) if !matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Incompatible) => {
                    return Err(e);
                }
                record => all.push(ListedBackup { id: file.name, record }),
            }
        }
        Ok(all)
    }

    /// Returns the newest backup with a valid record.
    ///
    /// # Errors
    /// `NotFound` if there is none, `InvalidArgument` if there are backups of several stores, so
    /// that "newest" is ambiguous; and as [`list`](BackupRepository::list).
    pub fn newest(&self) -> Result<BackupRecord> {
        let records: Vec<_> = self.list()?.into_iter().filter_map(|b| b.record.ok()).collect();
        let Some(newest) = records.last() else { return Err(self.no_backups()) };
        if records.iter().any(|r| r.head.store != newest.head.store) {
            return Err(Error::invalid(
                "there are backups of several stores; name one: `firn backup list` shows the store of each",
            )
            .in_file(self.place.address()));
        }
        Ok(newest.clone())
    }

    /// Returns the record of a backup.
    ///
    /// # Errors
    /// `NotFound` if there is no such backup, `Corruption` if its record is damaged; errors of the
    /// storage.
    pub fn record(&self, id: &str) -> Result<BackupRecord> {
        if made_micros(id).is_none() {
            return Err(self.no_backup(id));
        }
        let name = within(BACKUPS, id);
        let bytes = self.whole(&name, MAX_RECORD).map_err(|e| match e.kind() {
            ErrorKind::NotFound => self.no_backup(id),
            _ => e,
        })?;
        BackupRecord::decode(id, &bytes).map_err(|e| e.in_file(self.shown(&name)))
    }

    pub(crate) fn no_backups(&self) -> Error {
        Error::new(ErrorKind::NotFound, "there is no backup; `firn backup create` makes one")
            .in_file(self.place.address())
    }

    fn no_backup(&self, id: &str) -> Error {
        Error::new(
            ErrorKind::NotFound,
            format!("there is no backup {id:?}; `firn backup list` lists those that are there"),
        )
        .in_file(self.place.address())
    }

    /// Returns the state of a backup's store, verified against its record.
    pub(crate) fn state(&self, record: &BackupRecord) -> Result<ManifestState> {
        let head = &record.head;
        let name = within(MANIFESTS, &head.manifest);
        let unfit = |what: &str| {
            Error::corruption(format!(
                "the manifest of the backup {} {what}: this backup can't be restored; copy the file from another copy of the repository",
                head.id
            ))
            .in_file(self.shown(&name))
        };
        let bytes = self.whole(&name, MAX_MANIFEST).map_err(|e| match e.kind() {
            ErrorKind::NotFound => unfit("is not there"),
            _ => e,
        })?;
        let found = (bytes.len() as u64, Some(xxh3_128(&bytes)));
        if found != (head.manifest_size, hash_of(&head.manifest)) {
            return Err(unfit("does not match its hash"));
        }
        // The engine reads it as from a store.
        let (mem, dir) = (MemEnv::plain(), Path::new("/"));
        mem.write_file(&dir.join(manifest::manifest_name(head.manifest_number)), &bytes)?;
        let log = manifest::read(&mem, dir, head.manifest_number)
            .map_err(|e| e.in_file(self.shown(&name)))?;
        if log.end != log.len {
            return Err(unfit("does not end where it should"));
        }
        let state = log.replay().map_err(|e| e.in_file(self.shown(&name)))?;
        let mut live: Vec<(u64, u64)> =
            state.trees.values().flat_map(|t| t.tables()).map(|t| (t.id, t.size)).collect();
        live.extend(state.trees.values().flat_map(|t| t.values.values()).map(|v| (v.id, v.size)));
        live.sort_unstable();
        if !live.iter().copied().eq(record.tables.iter().map(|t| (t.number, t.size))) {
            return Err(unfit("names other tables than its record"));
        }
        Ok(state)
    }

    /// Reports whether there is a repository.
    pub(crate) fn is_there(&self) -> Result<bool> {
        let address = self.place.address();
        let text = match self.whole(MARKER, 4096) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                if self.place.is_empty()? {
                    return Ok(false);
                }
                let words = format!(
                    "there is something that is no repository of backups (it has no file {MARKER}); name an empty or a new place"
                );
                return Err(Error::invalid(words).in_file(address));
            }
            text => text?,
        };
        if text == MARKER_TEXT.as_bytes() {
            return Ok(true);
        }
        let version = std::str::from_utf8(&text).ok().and_then(|t| t.strip_prefix(MARKER_START));
        match version.and_then(|v| v.trim_end().parse().ok()) {
            Some(newer) if newer > 1 => {
                Err(Error::newer("the repository of backups", newer, 1).in_file(self.shown(MARKER)))
            }
            _ => Err(Error::corruption(format!(
                "the file {MARKER} is damaged: it should be the line `{}`",
                MARKER_TEXT.trim_end()
            ))
            .in_file(address)),
        }
    }

    /// Returns a name for a new backup. It sorts after all existing ones, even if the clock was set
    /// back.
    pub(crate) fn new_id(&self) -> Result<(String, u64)> {
        let newest = self.place.list(BACKUPS)?.iter().filter_map(|f| made_micros(&f.name)).max();
        let made = self.env.wall_micros().max(newest.map_or(0, |newest| newest.saturating_add(1)));
        Ok((names::new_id(&*self.env, made), made))
    }

    /// Creates a repository if there is none.
    pub(crate) fn begin(&self) -> Result<()> {
        if self.is_there()? {
            return Ok(());
        }
        put(&*self.place, MARKER, MARKER_TEXT.as_bytes())
    }

    /// Returns the path of a file of the repository for messages.
    pub(crate) fn shown(&self, name: &str) -> String {
        format!("{}/{name}", self.place.address().trim_end_matches('/'))
    }

    /// Reads a whole file of at most `cap` bytes.
    fn whole(&self, name: &str, cap: u64) -> Result<Vec<u8>> {
        let size = self.place.size(name)?;
        if size > cap {
            return Err(Error::corruption(format!("it has {size} bytes, and never over {cap}"))
                .in_file(self.shown(name)));
        }
        let mut bytes = Vec::with_capacity(size as usize);
        self.each_part(name, size, |part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Reads the first `size` bytes of a file part by part.
    pub(crate) fn each_part(
        &self,
        name: &str,
        size: u64,
        mut f: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut at = 0;
        while at < size {
            let len = (size - at).min(PART as u64);
            f(&self.place.read(name, at, len as usize)?)?;
            at += len;
        }
        Ok(())
    }
}

/// Returns a hasher for a file's bytes.
pub fn hasher() -> Xxh3 {
    Xxh3::new()
}
