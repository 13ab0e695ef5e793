//! Reports why a family's tombstones and expired cells are not purged (model 2.3, 5.3), using table
//! summaries without reading the tables.
//!
//! A compaction purges data past its grace if nothing older can be left: neither in a table outside
//! of the compaction, nor for a snapshot. Memtables contain only data newer than every table, so
//! they block nothing; the report does not include them.

use firn_kv::TableInfo;

use firn_kv::stats::{Pin, PinKind, SnapshotInfo};

use super::{CellStore, StoreFamily};
use crate::base::error::{Error, Result};
use crate::cell::CellFacts;

/// Purgeable data of a family, and the reasons why the rest is retained.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PurgeReport {
    /// Time of the report, in seconds since 1970.
    pub now: i64,
    /// Time in seconds for which tombstones are retained.
    pub gc_grace: i64,
    /// Name of the family's tree in the engine.
    pub tree: String,
    /// Bytes in memtables, which are newer than all tables.
    pub memtable_bytes: u64,
    /// Tables, newest run first.
    pub tables: Vec<TablePurge>,
    /// Holders of files of compacted tables: readers of old snapshots, and running jobs.
    pub holders: Vec<Pin>,
}

/// A table in a [`PurgeReport`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TablePurge {
    /// Number of its file.
    pub id: u64,
    /// Level of its run.
    pub level: u8,
    /// Bytes of its file.
    pub bytes: u64,
    /// Summary of its content. `None` if unknown: a program without the hooks of families has
    /// written it from the log. The next compaction of this table adds it.
    pub facts: Option<CellFacts>,
    /// State of the grace of its tombstones and cells with TTLs; `Some` if unknown.
    pub grace: Grace,
    /// Possible holders of older data that its tombstones hide. Empty: the next compaction of this
    /// table purges data past grace.
    pub blocked_by: Vec<Blocker>,
}

/// State of the grace of a table's droppable data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// It contains no tombstone, no deletion, and no cell that expires.
    Nothing,
    /// No tombstone may be dropped before this second since 1970. A cell whose TTL is longer than
    /// the grace may be dropped earlier, when it has expired: its grace counts from its writing.
    Until(i64),
    /// Some may be dropped; the summary does not show when the rest may.
    Some,
    /// The whole table has expired or consists of tombstones past grace.
    Whole,
}

/// A possible holder of data that a table's tombstones hide.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blocker {
    /// A table of another run, with keys in the same range and older data. A compaction of both
    /// purges.
    Table {
        /// Number of its file.
        id: u64,
        /// Its smallest timestamp, if known.
        min_timestamp: Option<i64>,
    },
    /// A snapshot taken before the whole table was written. It must be dropped first.
    Snapshot(SnapshotInfo),
}

impl TablePurge {
    /// Returns the share of entries that can be dropped at some time: tombstones, deletions, and
    /// cells with a TTL; 0 if unknown.
    pub fn droppable_ratio(&self) -> f64 {
        self.facts.map_or(0.0, |f| f.droppable as f64 / f.entries.max(1) as f64)
    }
}

impl CellStore {
    /// Reports for each table of a family which data can be dropped, and why it has not been.
    /// `gc_grace` is in seconds.
    ///
    /// # Errors
    /// `InvalidRequest` if the family has been dropped; `Corrupt` if a table's summary cannot be
    /// decoded; errors of the engine.
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
    // First second whose tombstones are retained.
    let kept = now.saturating_sub(gc_grace);
    match facts {
        f if f.droppable == 0 => Grace::Nothing,
        f if f.max_local < kept => Grace::Whole,
        f if f.min_local < kept => Grace::Some,
        f => Grace::Until(f.min_local.saturating_add(gc_grace).saturating_add(1)),
    }
}

/// Returns the holders of older data with the same keys, which the engine checks before it drops a
/// tombstone.
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
