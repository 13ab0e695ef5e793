//! Verifies a repository: each record, each manifest as the engine reads it, and each table to its
//! last byte, once regardless of the number of its backups.

use std::collections::{BTreeMap, BTreeSet};

use firn_kv::{Error, ErrorKind, Result};

use crate::names::{TABLES, hash_of, within};
use crate::pacing::Pacing;
use crate::record::TableCopy;
use crate::repository::{BackupRepository, hasher};

/// A problem of a repository.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupFinding {
    /// The error, with the file of the repository.
    pub error: Error,
    /// The backups that cannot be restored because of it, oldest first.
    pub backups: Vec<String>,
    /// Advice.
    pub advice: &'static str,
}

/// Result of a verification.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupVerdict {
    /// Backups.
    pub backups: u64,
    /// Tables of those backups, each counted once.
    pub tables: u64,
    /// Bytes of tables read.
    pub bytes: u64,
    /// All problems.
    pub findings: Vec<BackupFinding>,
}

impl BackupVerdict {
    /// Reports whether all verified backups can be restored.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

const OF_A_TABLE: &str = "remove that file, if it is there, and run `firn backup create`: as long as the store has the table, it is copied again, \
                          and all these backups are whole. Else copy it from another copy of the repository; the other backups can be restored";
const OF_A_RECORD: &str = "copy that file from another copy of the repository, or remove the file `backups/ID` to give this backup up; the others \
                           can be restored";

impl BackupRepository {
    /// Reads and verifies all files of the backup `id`, or of all backups. Writes nothing.
    ///
    /// # Errors
    /// `NotFound` if there is no such backup, or no repository; errors of the storage. Problems of
    /// backups are listed in the result.
    pub fn verify(&self, id: Option<&str>, pacing: &mut Pacing<'_>) -> Result<BackupVerdict> {
        // A wrong name, or an unmounted disk, must not look like a valid repository.
        if !self.is_there()? {
            return Err(self.no_backups());
        }
        let listed = self.list()?;
        let chosen: Vec<_> = match id {
            None => listed,
            Some(id) => {
                let one: Vec<_> = listed.into_iter().filter(|b| b.id == id).collect();
                if one.is_empty() {
                    self.record(id)?;
                }
                one
            }
        };
        let mut verdict = BackupVerdict { backups: chosen.len() as u64, ..Default::default() };
        let mut needed: BTreeMap<String, (TableCopy, Vec<String>)> = BTreeMap::new();
        for backup in chosen {
            let state = backup.record.and_then(|record| self.state(&record).map(|_| record));
            match state {
                Ok(record) => {
                    for table in record.tables {
                        let of = needed.entry(table.name.clone()).or_insert((table, vec![]));
                        of.1.push(backup.id.clone());
                    }
                }
                Err(error) if is_damage(&error) => verdict.findings.push(BackupFinding {
                    error,
                    backups: vec![backup.id],
                    advice: OF_A_RECORD,
                }),
                Err(e) => return Err(e),
            }
        }
        let there: BTreeMap<String, u64> =
            self.place.list(TABLES)?.into_iter().map(|f| (f.name, f.size)).collect();
        pacing.begin(&*self.env, needed.values().map(|(t, _)| t.size).sum());
        for (name, (table, backups)) in needed {
            verdict.tables += 1;
            match self.check_table(&table, there.get(&name).copied(), pacing) {
                Ok(()) => verdict.bytes += table.size,
                Err(e) if is_damage(&e) => verdict.findings.push(BackupFinding {
                    error: e.in_file(self.shown(&within(TABLES, &name))),
                    backups,
                    advice: OF_A_TABLE,
                }),
                Err(e) => return Err(e),
            }
        }
        self.forget_removed(&mut verdict)?;
        Ok(verdict)
    }

    fn check_table(
        &self,
        table: &TableCopy,
        size: Option<u64>,
        pacing: &mut Pacing<'_>,
    ) -> Result<()> {
        match size {
            None => return Err(Error::corruption("a table that backups need is not there")),
            Some(size) if size != table.size => {
                let words = format!("a table has {size} bytes, and not {}", table.size);
                return Err(Error::corruption(words));
            }
            Some(_) => {}
        }
        let mut hash = hasher();
        self.each_part(&within(TABLES, &table.name), table.size, |part| {
            hash.update(part);
            pacing.step(&*self.env, part.len() as u64)
        })?;
        if Some(hash.digest128()) == hash_of(&table.name) {
            return Ok(());
        }
        Err(Error::corruption("the bytes of a table do not match its hash"))
    }

    /// Removes findings about backups that were pruned meanwhile.
    fn forget_removed(&self, verdict: &mut BackupVerdict) -> Result<()> {
        if verdict.findings.is_empty() {
            return Ok(());
        }
        let left: BTreeSet<String> = self.list()?.into_iter().map(|b| b.id).collect();
        verdict.findings.retain_mut(|f| {
            f.backups.retain(|id| left.contains(id));
            !f.backups.is_empty()
        });
        Ok(())
    }
}

fn is_damage(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Corruption | ErrorKind::NotFound | ErrorKind::Incompatible)
}
