//! Pruning: removes old backups and all files that no backup needs, including those left by
//! crashes.
//!
//! Order: first records, durably; then files without a record. So after a crash every record still
//! has its files.

use std::collections::{BTreeMap, BTreeSet};

use firn_kv::Result;

use crate::leases::{RunKind, RunLease};
use crate::names::{BACKUPS, MANIFESTS, RUNNING, TABLES, UNFINISHED, hash_of, within};
use crate::record::BackupRecord;
use crate::repository::BackupRepository;
use crate::storage::StoredFile;

/// Files that are removed between two renewals of the lease.
const AT_ONCE: usize = 1000;
const DAY_MICROS: u64 = 24 * 3600 * 1_000_000;

/// Retention rule: a backup stays if either part retains it, counted for each store separately.
/// With neither, all backups stay, and only leftovers are removed. The newest backup of each store
/// stays, unless `newest` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepRule {
    /// Number of newest backups that stay.
    pub newest: Option<u64>,
    /// Age in days below which a backup stays.
    pub days: Option<u64>,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

impl KeepRule {
    /// Returns the rule that retains this number of newest backups.
    pub const fn newest(count: u64) -> KeepRule {
        KeepRule { newest: Some(count), days: None, _non_exhaustive: () }
    }

    /// Reports whether a backup stays that is the `nth` newest of its store, counted from 0.
    fn keeps(&self, nth: u64, made_micros: u64, now_micros: u64) -> bool {
        let age = now_micros.saturating_sub(made_micros);
        let young = |days: u64| age < days.saturating_mul(DAY_MICROS);
        let all = self.newest.is_none() && self.days.is_none();
        all || nth < self.newest.unwrap_or(1) || self.days.is_some_and(young)
    }
}

/// The removed files, or those that would be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneReport {
    /// Removed backups, oldest first.
    pub removed: Vec<String>,
    /// Remaining backups, oldest first.
    pub kept: Vec<String>,
    /// Removed tables, manifests and unfinished files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl BackupRepository {
    /// Removes the backups that `rule` does not retain, and all files that no backup needs. With
    /// `alone`, the caller guarantees that no other run is active; then the leases of others are
    /// leftovers, too.
    ///
    /// # Errors
    /// `Locked` during a backup or another prune; `Corruption` if a record is damaged: its files
    /// are unknown, so nothing is removed; errors of the storage.
    pub fn prune(&self, rule: KeepRule, alone: bool) -> Result<PruneReport> {
        if !self.is_there()? {
            return Ok(PruneReport::default());
        }
        let mut lease = RunLease::announce(&self.env, &self.place, RunKind::Prune, alone)?;
        // The remaining leases of others have expired. Remove them first: a paused run that
        // continues detects this before its record is written.
        let over: Vec<String> = self
            .place
            .list(RUNNING)?
            .into_iter()
            .map(|f| within(RUNNING, &f.name))
            .filter(|name| name != lease.file())
            .collect();
        self.place.remove(&over)?;
        let (report, records, files) = self.sort_out(rule)?;
        for batch in records.chunks(AT_ONCE).chain(files.chunks(AT_ONCE)) {
            lease.check()?;
            self.place.remove(batch)?;
        }
        Ok(report)
    }

    /// Returns what [`prune`](BackupRepository::prune) would remove.
    ///
    /// # Errors
    /// As for `prune`, except `Locked`: files being written count as leftovers.
    pub fn plan_prune(&self, rule: KeepRule) -> Result<PruneReport> {
        if !self.is_there()? {
            return Ok(PruneReport::default());
        }
        Ok(self.sort_out(rule)?.0)
    }

    /// Determines the files to remove: records, then other files.
    fn sort_out(&self, rule: KeepRule) -> Result<(PruneReport, Vec<String>, Vec<String>)> {
        let mut report = PruneReport::default();
        let records: Vec<BackupRecord> =
            self.list()?.into_iter().map(|b| b.record).collect::<Result<_>>()?;
        let now = self.env.wall_micros();
        let mut newer: BTreeMap<&str, u64> = BTreeMap::new();
        let mut needed = BTreeSet::new();
        for record in records.iter().rev() {
            let head = &record.head;
            let nth = newer.entry(&head.store).or_default();
            if rule.keeps(*nth, head.made_micros, now) {
                needed.insert((MANIFESTS, head.manifest.as_str()));
                needed.extend(record.tables.iter().map(|t| (TABLES, t.name.as_str())));
                report.kept.push(head.id.clone());
            } else {
                report.removed.push(head.id.clone());
            }
            *nth += 1;
        }
        report.kept.reverse();
        report.removed.reverse();
        let gone = report.removed.iter().map(|id| within(BACKUPS, id)).collect();
        let mut files = vec![];
        for folder in [MANIFESTS, TABLES, UNFINISHED] {
            for StoredFile { name, size } in self.place.list(folder)? {
                // Unknown names belong to others.
                let ours = folder == UNFINISHED || hash_of(&name).is_some();
                if ours && !needed.contains(&(folder, name.as_str())) {
                    report.files += 1;
                    report.bytes = report.bytes.saturating_add(size);
                    files.push(within(folder, &name));
                }
            }
        }
        Ok((report, gone, files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_part_of_a_rule_keeps() {
        let keeps = |newest, days, nth, age_days: u64| {
            KeepRule { newest, days, ..KeepRule::default() }.keeps(nth, 0, age_days * DAY_MICROS)
        };
        assert!(keeps(None, None, 9, 900));
        assert!(keeps(Some(2), None, 1, 900) && !keeps(Some(2), None, 2, 0));
        assert!(keeps(None, Some(7), 9, 6) && !keeps(None, Some(7), 1, 7));
        assert!(keeps(None, Some(7), 0, 900), "the newest stays");
        assert!(!keeps(Some(0), Some(7), 0, 900) && !keeps(Some(0), None, 0, 0));
        assert!(keeps(Some(1), Some(7), 0, 900) && keeps(Some(1), Some(7), 5, 1));
        assert!(keeps(None, Some(u64::MAX), 9, 900_000));
    }
}
