//! The reasons why a family's tombstones and expired cells are not purged (model 2.3, 5.3): a
//! report from what is known of each table, without reading them.
//!
//! A compaction purges what is past its grace when nothing older can be left beneath it: not in a
//! table outside of the compaction, and not for a snapshot. Memtables only hold what is newer than
//! every table, so they block nothing; what is in them is not in the report.

use firn_kv::TableInfo;

use firn_kv::stats::{Pin, PinKind, SnapshotInfo};

use super::{CellStore, StoreFamily};
use crate::base::error::{Error, Result};
use crate::cell::CellFacts;

/// The purgeable part of a family, and what keeps the rest.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PurgeReport {
    /// The second since 1970 of the report.
    pub now: i64,
    /// How long tombstones are kept, in seconds.
    pub gc_grace: i64,
    /// The name of the family's tree in the engine.
    pub tree: String,
    /// Bytes in memtables: newer than all tables.
    pub memtable_bytes: u64,
    /// The tables, newest run first.
    pub tables: Vec<TablePurge>,
    /// What keeps the files of tables that were merged already: readers of old states, and work in
    /// progress.
    pub holders: Vec<Pin>,
}

/// One table of a [`PurgeReport`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TablePurge {
    /// Number of its file.
    pub id: u64,
    /// Level of its run.
    pub level: u8,
    /// Bytes of its file.
    pub bytes: u64,
    /// What is in it. `None` when nobody knows: a program that does not know of families has
    /// written it from the log. The next compaction of this table will know.
    pub facts: Option<CellFacts>,
    /// How far its tombstones and cells with a time to live are past their grace; `Some` when
    /// nobody knows.
    pub grace: Grace,
    /// What may lie beneath them elsewhere. Empty: the next compaction of this table purges what is
    /// past grace.
    pub blocked_by: Vec<Blocker>,
}

/// How far the grace of what a table could lose has gone by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// It holds no tombstone, no deletion, and nothing that expires.
    Nothing,
    /// No tombstone may go before this second since 1970. (A cell with a time to live may go
    /// earlier, as soon as it has expired, where that time was longer than the grace, which counts
    /// from its writing.)
    Until(i64),
    /// Some may go; of the rest the facts don't say when.
    Some,
    /// All of the table has expired or is a tombstone past grace.
    Whole,
}

/// Something outside of a table that may hold what its tombstones hide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// A table of another run, with keys in the same range and something that was written earlier.
    /// A compaction of both purges.
    Table {
        /// Number of its file.
        id: u64,
        /// Its smallest timestamp, where it is known.
        min_timestamp: Option<i64>,
    },
    /// A snapshot that was taken before all of the table was written. It has to be dropped first.
    Snapshot(SnapshotInfo),
}

impl TablePurge {
    /// The share of what is in it that could go some day: tombstones, deletions, and cells with a
    /// time to live; 0 when it is not known.
    pub fn droppable_ratio(&self) -> f64 {
        self.facts.map_or(0.0, |f| f.droppable as f64 / f.entries.max(1) as f64)
    }
}

impl CellStore {
    /// Says of each table of a family what it could lose, and why it has not yet. `gc_grace` is in
    /// seconds.
    ///
    /// # Errors
    /// `InvalidRequest` when the family has been dropped; `Corrupt` when a table's facts can't be
    /// read; errors of the engine.
    pub fn purge_report(&self, family: &StoreFamily, gc_grace: i64) -> Result<PurgeReport> {
        self.check_open(family)?;
        let tree = family.tree();
        let infos = tree.tables()?;
        let all = infos
            .iter()
            .map(|t| Ok((t, facts_of(t)?)))
            .collect::<Result<Vec<(&TableInfo, Option<CellFacts>)>>>()?;
        let (stats, now) = (self.db().stats(), self.now());
        let of_table = |(table, facts): &(&TableInfo, Option<CellFacts>)| {
            let grace = facts.as_ref().map_or(Grace::Some, |f| grace(f, now, gc_grace));
            let blocked_by = if grace == Grace::Nothing {
                vec![]
            } else {
                blockers(table, &all, &stats.snapshots)
            };
            TablePurge {
                id: table.id,
                level: table.level,
                bytes: table.bytes,
                facts: *facts,
                grace,
                blocked_by,
            }
        };
        let tables = all.iter().map(of_table).collect();
        let own = stats.trees.iter().find(|t| t.name == tree.name());
        let holds =
            |pin: &Pin| pin.kind != PinKind::Snapshot && pin.bytes > 0 && pin.tree == tree.name();
        Ok(PurgeReport {
            now,
            gc_grace,
            tree: tree.name().to_owned(),
            memtable_bytes: own.map_or(0, |t| t.memtable_bytes),
            tables,
            holders: stats.pins.into_iter().filter(holds).collect(),
        })
    }
}

fn facts_of(table: &TableInfo) -> Result<Option<CellFacts>> {
    if table.summary.is_empty() {
        return Ok(None);
    }
    CellFacts::decode(&table.summary).map(Some).ok_or_else(|| {
        Error::Corrupt(format!(
            "table {:08}.sst: its facts have {} bytes",
            table.id,
            table.summary.len()
        ))
    })
}

fn grace(facts: &CellFacts, now: i64, gc_grace: i64) -> Grace {
    // The first second of which a tombstone is kept.
    let kept = now.saturating_sub(gc_grace);
    match facts {
        f if f.droppable == 0 => Grace::Nothing,
        f if f.max_local < kept => Grace::Whole,
        f if f.min_local < kept => Grace::Some,
        f => Grace::Until(f.min_local.saturating_add(gc_grace).saturating_add(1)),
    }
}

/// What the engine asks before it lets a tombstone go: who outside may hold something older under
/// the same keys.
fn blockers(
    table: &TableInfo,
    all: &[(&TableInfo, Option<CellFacts>)],
    snapshots: &[SnapshotInfo],
) -> Vec<Blocker> {
    let may_hold_older = |other: &TableInfo| {
        (other.level, other.run) != (table.level, table.run)
            && other.min_seq <= table.max_seq
            && other.first_key <= table.last_key
            && table.first_key <= other.last_key
    };
    let tables = all.iter().filter(|(other, _)| may_hold_older(other));
    let tables = tables.map(|(other, facts)| Blocker::Table {
        id: other.id,
        min_timestamp: facts.map(|f| f.min_timestamp),
    });
    let snapshots = snapshots.iter().filter(|s| s.seq < table.max_seq);
    tables.chain(snapshots.cloned().map(Blocker::Snapshot)).collect()
}
