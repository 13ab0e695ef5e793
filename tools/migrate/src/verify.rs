//! Compares both sides of a migration by row and cell, as CQL returns them.
//!
//! Invariants: both are read in the order of the ring and merged, so each row is compared once. No
//! difference is ignored: it is reported, or counted in one of the numbers of [`VerifyCounts`] for
//! data that cannot be compared.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use firn_cql::Result;
use firn_cql::internals::catalog::TableSchema;
use firn_kv::Env;
use firn_tools::output::things;
use firn_wide::Type;
use serde_json::{Value, json};

use crate::cells::{CellQuery, CellReader, CqlRow, ReportedCell, cell_text, row_text, value_text};
use crate::definitions::full_name;
use crate::token_ranges::TokenSpan;

/// The type of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// A table that only Firn has.
    TableOnlyInFirn,
    /// A table that only the cluster has.
    TableOnlyInCluster,
    /// A row that only Firn has.
    RowOnlyInFirn,
    /// A row that only the cluster has.
    RowOnlyInCluster,
    /// A cell that only Firn has, in a row of both.
    CellOnlyInFirn,
    /// A cell that only the cluster has, in a row of both.
    CellOnlyInCluster,
    /// The values of a cell.
    Value,
    /// The write times of a cell.
    WriteTime,
    /// The remaining TTL of a cell.
    TimeToLive,
}

impl DifferenceKind {
    /// Returns the name in JSON, and the words for one and for several.
    fn words(self) -> [&'static str; 3] {
        match self {
            DifferenceKind::TableOnlyInFirn => {
                ["table_only_in_firn", "table only in Firn", "tables only in Firn"]
            }
            DifferenceKind::TableOnlyInCluster => {
                ["table_only_in_cluster", "table only in the cluster", "tables only in the cluster"]
            }
            DifferenceKind::RowOnlyInFirn => {
                ["row_only_in_firn", "row only in Firn", "rows only in Firn"]
            }
            DifferenceKind::RowOnlyInCluster => {
                ["row_only_in_cluster", "row only in the cluster", "rows only in the cluster"]
            }
            DifferenceKind::CellOnlyInFirn => {
                ["cell_only_in_firn", "cell only in Firn", "cells only in Firn"]
            }
            DifferenceKind::CellOnlyInCluster => {
                ["cell_only_in_cluster", "cell only in the cluster", "cells only in the cluster"]
            }
            DifferenceKind::Value => ["value", "other value", "other values"],
            DifferenceKind::WriteTime => ["write_time", "other write time", "other write times"],
            DifferenceKind::TimeToLive => {
                ["time_to_live", "other time to live", "other times to live"]
            }
        }
    }

    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        self.words()[0]
    }

    /// Formats a number of differences.
    pub fn describe(self, n: u64) -> String {
        let [_, one, many] = self.words();
        things(n, one, many)
    }
}

/// A difference between the sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellDifference {
    /// The table's name in CQL.
    pub table: String,
    /// The row's key in CQL; empty for a table.
    pub row: String,
    /// The column or part of a column, for a cell.
    pub cell: Option<String>,
    /// The type of the difference.
    pub kind: DifferenceKind,
    /// Firn's value.
    pub firn: String,
    /// The cluster's value.
    pub cluster: String,
}

impl CellDifference {
    /// Returns the difference of a table, with its name in CQL, that only one side has.
    pub fn of_table(table: String, kind: DifferenceKind) -> CellDifference {
        let (row, firn, cluster) = Default::default();
        CellDifference { table, row, cell: None, kind, firn, cluster }
    }

    /// Formats the difference.
    pub fn describe(&self) -> String {
        let at = match &self.cell {
            Some(cell) => format!("{}: {}, {cell}", self.table, self.row),
            None if self.row.is_empty() => format!("the table {}", self.table),
            None => format!("{}: {}", self.table, self.row),
        };
        match self.kind {
            DifferenceKind::TableOnlyInFirn | DifferenceKind::RowOnlyInFirn => {
                format!("{at} is only in Firn")
            }
            DifferenceKind::TableOnlyInCluster | DifferenceKind::RowOnlyInCluster => {
                format!("{at} is only in the cluster")
            }
            DifferenceKind::CellOnlyInFirn => format!("{at} is only in Firn: {}", self.firn),
            DifferenceKind::CellOnlyInCluster => {
                format!("{at} is only in the cluster: {}", self.cluster)
            }
            DifferenceKind::Value => {
                format!("{at} is {} in Firn, {} in the cluster", self.firn, self.cluster)
            }
            DifferenceKind::WriteTime => {
                format!(
                    "{at} was written at {} in Firn, at {} in the cluster",
                    self.firn, self.cluster
                )
            }
            DifferenceKind::TimeToLive => {
                format!("{at} has to live {} in Firn, {} in the cluster", self.firn, self.cluster)
            }
        }
    }

    /// Returns the difference as JSON.
    pub fn json(&self) -> Value {
        json!({
            "table": self.table, "row": self.row, "cell": self.cell, "kind": self.kind.name(),
            "firn": self.firn, "cluster": self.cluster,
        })
    }
}

/// Statistics of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyCounts {
    /// Rows that both sides have.
    pub rows: u64,
    /// Cells that both sides have.
    pub cells: u64,
    /// Differences by type.
    pub differences: BTreeMap<DifferenceKind, u64>,
    /// List elements with another write time: not every list can be written at a cluster with the
    /// times of its elements. Another TTL is a difference.
    pub list_times: u64,
    /// Cells for which the cluster does not return write time and TTL.
    pub unknown_times: u64,
    /// Counters, whose write times are those of the copy.
    pub counters: u64,
    /// Cells and rows that only one side had, and that expired meanwhile.
    pub expired: u64,
}

impl VerifyCounts {
    /// Adds the statistics of another part.
    pub fn add(&mut self, other: &VerifyCounts) {
        self.rows += other.rows;
        self.cells += other.cells;
        for (kind, n) in &other.differences {
            *self.differences.entry(*kind).or_default() += n;
        }
        self.list_times += other.list_times;
        self.unknown_times += other.unknown_times;
        self.counters += other.counters;
        self.expired += other.expired;
    }

    /// Returns the number of differences.
    pub fn total(&self) -> u64 {
        self.differences.values().sum()
    }

    /// Formats the numbers of uncompared data.
    pub fn uncompared(&self) -> Vec<String> {
        let mut all = vec![];
        let mut say = |n: u64, one: &str, many: &str| {
            if n > 0 {
                all.push(things(n, one, many));
            }
        };
        say(
            self.list_times,
            "element of a list has another write time: CQL can't write each list with the times of its elements",
            "elements of lists have another write time: CQL can't write each list with the times of its elements",
        );
        say(
            self.unknown_times,
            "cell of a collection or user type was compared by its value alone: the cluster does not tell its write time",
            "cells of collections or user types were compared by their values alone: the cluster does not tell their write times",
        );
        say(
            self.counters,
            "counter was compared by its value alone: its write time is that of the copy",
            "counters were compared by their values alone: their write times are those of the copy",
        );
        say(
            self.expired,
            "row or cell was up on one side while the other was read",
            "rows and cells were up on one side while the other was read",
        );
        all
    }

    /// Returns the statistics as JSON.
    pub fn json(&self) -> Value {
        let differences: BTreeMap<&str, u64> =
            self.differences.iter().map(|(kind, n)| (kind.name(), *n)).collect();
        json!({
            "rows": self.rows, "cells": self.cells, "differences": differences,
            "uncompared": {
                "list_times": self.list_times, "untold_times": self.unknown_times,
                "counters": self.counters, "expired": self.expired,
            },
        })
    }
}

/// A table on both sides.
pub struct VerifiedTable<'a> {
    /// Firn's query.
    pub firn: &'a CellQuery,
    /// The cluster's query.
    pub cluster: &'a CellQuery,
    /// Whether static columns are compared.
    pub has_statics: bool,
    /// Tolerance for TTLs, in seconds.
    pub drift: i64,
    /// The clock.
    pub env: &'a dyn Env,
}

impl std::fmt::Debug for VerifiedTable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerifiedTable").field("firn", &self.firn).finish_non_exhaustive()
    }
}

/// Findings, and their receiver.
struct DifferenceFindings<'a> {
    schema: &'a TableSchema,
    drift: i64,
    /// The current second.
    second: i64,
    counts: VerifyCounts,
    tell: &'a mut dyn FnMut(CellDifference),
}

impl VerifiedTable<'_> {
    /// Compares a token span, until `stop` is set; `tell` receives each difference.
    ///
    /// # Errors
    /// Errors of a side.
    pub fn compare(
        &self,
        span: TokenSpan,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(CellDifference),
    ) -> Result<VerifyCounts> {
        let mut findings = DifferenceFindings {
            schema: self.firn.schema(),
            drift: self.drift,
            second: 0,
            counts: VerifyCounts::default(),
            tell,
        };
        let (mut ours, mut theirs) =
            (self.firn.read(self.env, span), self.cluster.read(self.env, span));
        let next = |reader: &mut CellReader<'_>| -> Result<Option<CqlRow>> {
            loop {
                match reader.advance()? {
                    Some(row) if row.clustering.is_none() && !self.has_statics => {}
                    other => return Ok(other),
                }
            }
        };
        let (mut a, mut b) = (next(&mut ours)?, next(&mut theirs)?);
        loop {
            findings.second = (self.env.wall_micros() / 1_000_000) as i64;
            let order = match (&a, &b) {
                (None, None) => return Ok(findings.counts),
                _ if stop.load(Relaxed) => return Ok(findings.counts),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => (&a.order, &a.place).cmp(&(&b.order, &b.place)),
            };
            match (order, &a, &b) {
                (Ordering::Less, Some(a), _) => findings.lonely(a, DifferenceKind::RowOnlyInFirn),
                (Ordering::Greater, _, Some(b)) => {
                    findings.lonely(b, DifferenceKind::RowOnlyInCluster);
                }
                (_, Some(a), Some(b)) => findings.rows(a, b),
                _ => {}
            }
            if order.is_le() {
                a = next(&mut ours)?;
            }
            if order.is_ge() {
                b = next(&mut theirs)?;
            }
        }
    }
}

impl DifferenceFindings<'_> {
    fn found(
        &mut self,
        row: &CqlRow,
        cell: Option<&ReportedCell>,
        kind: DifferenceKind,
        (firn, cluster): (String, String),
    ) {
        *self.counts.differences.entry(kind).or_default() += 1;
        let schema = self.schema;
        (self.tell)(CellDifference {
            table: full_name(&schema.keyspace, &schema.name),
            row: row_text(schema, row),
            cell: cell.map(|c| cell_text(schema, c)),
            kind,
            firn,
            cluster,
        });
    }

    /// Reports whether a cell may have expired while the other side was read.
    fn is_up(&self, cell: &ReportedCell) -> bool {
        cell.expires.is_some_and(|expires| expires <= self.second.saturating_add(self.drift))
    }

    /// Records a row that only one side has.
    fn lonely(&mut self, row: &CqlRow, kind: DifferenceKind) {
        if !row.cells.is_empty() && row.cells.iter().all(|c| self.is_up(c)) {
            self.counts.expired += 1;
            return;
        }
        self.found(row, None, kind, (String::new(), String::new()));
    }

    fn rows(&mut self, a: &CqlRow, b: &CqlRow) {
        self.counts.rows += 1;
        let (ours, theirs) = (by_place(a), by_place(b));
        let places: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        for place in places {
            match (ours.get(place), theirs.get(place)) {
                (Some(ours), Some(theirs)) => self.cells(a, ours, theirs),
                (Some(only), None) | (None, Some(only)) if self.is_up(only) => {
                    self.counts.expired += 1;
                }
                (Some(only), None) => {
                    let texts = (value_text(self.schema, only), String::new());
                    self.found(a, Some(only), DifferenceKind::CellOnlyInFirn, texts);
                }
                (None, Some(only)) => {
                    let texts = (String::new(), value_text(self.schema, only));
                    self.found(a, Some(only), DifferenceKind::CellOnlyInCluster, texts);
                }
                (None, None) => {}
            }
        }
    }

    fn cells(&mut self, row: &CqlRow, ours: &ReportedCell, theirs: &ReportedCell) {
        self.counts.cells += 1;
        let schema = self.schema;
        if ours.value != theirs.value {
            let texts = (value_text(schema, ours), value_text(schema, theirs));
            self.found(row, Some(ours), DifferenceKind::Value, texts);
        }
        let column = &schema.columns()[ours.column];
        if column.is_counter() {
            self.counts.counters += 1;
            return;
        }
        let (Some(written), Some(theirs_written)) = (ours.written, theirs.written) else {
            self.counts.unknown_times += 1;
            return;
        };
        let lives_alike = match (ours.expires, theirs.expires) {
            (None, None) => true,
            (Some(a), Some(b)) => a.abs_diff(b) <= self.drift.unsigned_abs(),
            _ => false,
        };
        if written == theirs_written && lives_alike {
            return;
        }
        let of_list = ours.path.is_some() && matches!(column.of.value_type, Type::List(_));
        if of_list && written != theirs_written {
            self.counts.list_times += 1;
        } else if written != theirs_written {
            let texts = (written.to_string(), theirs_written.to_string());
            self.found(row, Some(ours), DifferenceKind::WriteTime, texts);
        }
        if !lives_alike {
            let left = |cell: &ReportedCell| match cell.expires {
                None => "for ever".to_owned(),
                Some(expires) => format!("{} s", expires.saturating_sub(self.second)),
            };
            let texts = (left(ours), left(theirs));
            self.found(row, Some(ours), DifferenceKind::TimeToLive, texts);
        }
    }
}

/// Returns the cells of a row by column and part.
fn by_place(row: &CqlRow) -> BTreeMap<(usize, Option<&[u8]>), &ReportedCell> {
    row.cells.iter().map(|c| ((c.column, c.path.as_deref()), c)).collect()
}
