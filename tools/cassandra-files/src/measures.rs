//! Statistics of a table: minimum and maximum times, partition sizes, and the times at which
//! tombstones can be purged (`FORMAT.md`, "Statistics.db").

use std::collections::BTreeMap;

use crate::format::NO_DELETION;
use crate::rows::{NodeCell, NodeCellState, NodeDeletion, NodeExpiry, NodeRow};

/// Numbers of histogram buckets: sizes up to 3.5 TB, and up to 4 billion cells.
const SIZES: usize = 155;
const COUNTS: usize = 118;
/// Minimum width of a bin of deletions in seconds, and the maximum number of bins.
const BIN_SECONDS: i64 = 60;
const MOST_BINS: usize = 100;

/// Minimum and maximum of some numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Ends(Option<(i64, i64)>);

impl Ends {
    fn take(&mut self, n: i64) {
        let (least, most) = self.0.unwrap_or((n, n));
        self.0 = Some((least.min(n), most.max(n)));
    }
}

/// Histogram whose bounds grow by a fifth.
#[derive(Debug)]
struct ValueCounts {
    bounds: Vec<i64>,
    counts: Vec<i64>,
}

impl ValueCounts {
    fn new(count: usize) -> ValueCounts {
        // The integer nearest to 1.2 times the previous one (never a tie), and at least one more.
        let next = |last: &i64| Some(((last * 12 + 5) / 10).max(last + 1));
        let bounds: Vec<i64> = std::iter::successors(Some(1), next).take(count).collect();
        ValueCounts { counts: vec![0; bounds.len() + 1], bounds }
    }

    fn add(&mut self, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.counts[self.bounds.partition_point(|b| *b < value)] += 1;
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.counts.len() as u32).to_be_bytes());
        for (i, count) in self.counts.iter().enumerate() {
            out.extend_from_slice(&self.bounds[i.saturating_sub(1)].to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
    }
}

/// Statistics of the written partitions.
#[derive(Debug)]
pub(crate) struct TableMeasures {
    sizes: ValueCounts,
    cell_counts: ValueCounts,
    timestamps: Ends,
    seconds: Ends,
    ttls: Ends,
    /// Numbers of deletions and expirations, by second.
    bins: BTreeMap<i64, u64>,
    has_old_counters: bool,
    columns: u64,
    rows: u64,
    cells_of_partition: u64,
}

impl Default for TableMeasures {
    fn default() -> TableMeasures {
        TableMeasures {
            sizes: ValueCounts::new(SIZES),
            cell_counts: ValueCounts::new(COUNTS),
            timestamps: Ends::default(),
            seconds: Ends::default(),
            ttls: Ends::default(),
            bins: BTreeMap::new(),
            has_old_counters: false,
            columns: 0,
            rows: 0,
            cells_of_partition: 0,
        }
    }
}

impl TableMeasures {
    pub(crate) fn deletion(&mut self, d: NodeDeletion) {
        self.timestamps.take(d.timestamp);
        self.second(d.local);
    }

    fn second(&mut self, second: i64) {
        self.seconds.take(second);
        if second == NO_DELETION.local {
            return;
        }
        let bin = second.saturating_add(BIN_SECONDS - 1).div_euclid(BIN_SECONDS) * BIN_SECONDS;
        *self.bins.entry(bin.min(NodeDeletion::LAST_SECOND)).or_default() += 1;
        if self.bins.len() > MOST_BINS {
            self.join_bins();
        }
    }

    /// Joins the two nearest bins.
    fn join_bins(&mut self) {
        let pairs = self.bins.keys().zip(self.bins.keys().skip(1));
        let Some((&a, &b)) = pairs.min_by_key(|(a, b)| **b - **a) else { return };
        let (of_a, of_b) = (self.bins.remove(&a), self.bins.remove(&b));
        let (of_a, of_b) = (of_a.unwrap_or_default(), of_b.unwrap_or_default());
        let all = i128::from(of_a) + i128::from(of_b);
        let mean =
            (i128::from(a) * i128::from(of_a) + i128::from(b) * i128::from(of_b)) / all.max(1);
        *self.bins.entry(mean as i64).or_default() += of_a + of_b;
    }

    fn living(&mut self, timestamp: i64, expiry: Option<NodeExpiry>) {
        self.timestamps.take(timestamp);
        self.ttls.take(expiry.map_or(0, |e| e.ttl.into()));
        self.second(expiry.map_or(NO_DELETION.local, |e| e.expires));
    }

    pub(crate) fn row(&mut self, row: &NodeRow, is_old_counter: impl Fn(usize, &[u8]) -> bool) {
        if let Some(l) = row.liveness {
            self.living(l.timestamp, l.expiry);
        }
        row.deletion.into_iter().for_each(|d| self.deletion(d));
        for column in &row.columns {
            column.deletion.into_iter().for_each(|d| self.deletion(d));
            self.columns += u64::from(!column.cells.is_empty());
            for cell in &column.cells {
                self.cell(cell);
                if let NodeCellState::Live(v) = &cell.state {
                    self.has_old_counters |= is_old_counter(column.column, v);
                }
            }
        }
        self.rows += 1;
    }

    fn cell(&mut self, cell: &NodeCell) {
        self.cells_of_partition += 1;
        match &cell.state {
            NodeCellState::Live(_) => self.living(cell.timestamp, None),
            NodeCellState::Expiring(_, e) => self.living(cell.timestamp, Some(*e)),
            NodeCellState::Deleted(second) => {
                self.timestamps.take(cell.timestamp);
                self.ttls.take(0);
                self.second(*second);
            }
        }
    }

    pub(crate) fn end_of_partition(&mut self, size: u64) {
        self.sizes.add(size);
        self.cell_counts.add(std::mem::take(&mut self.cells_of_partition));
    }

    /// Returns the part of `Statistics.db`. `ratio`: the compression ratio.
    pub(crate) fn bytes(&self, ratio: Option<f64>) -> Vec<u8> {
        /// A position in no commit log: segment and offset.
        const NOWHERE: [u8; 12] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        let mut out = vec![];
        self.sizes.put(&mut out);
        self.cell_counts.put(&mut out);
        out.extend_from_slice(&NOWHERE);
        let (least, most) = self.timestamps.0.unwrap_or((i64::MIN, i64::MAX));
        out.extend_from_slice(&least.to_be_bytes());
        out.extend_from_slice(&most.to_be_bytes());
        let none = NO_DELETION.local;
        let (seconds, ttls) = (self.seconds.0.unwrap_or((none, none)), self.ttls.0);
        let ttls = ttls.unwrap_or_default();
        // All of them fit into 32 bits.
        for n in [seconds.0, seconds.1, ttls.0, ttls.1] {
            out.extend_from_slice(&(n as i32).to_be_bytes());
        }
        out.extend_from_slice(&ratio.unwrap_or(-1.0).to_be_bytes());
        let bins = (self.bins.len() as u32).to_be_bytes();
        out.extend_from_slice(&bins);
        out.extend_from_slice(&bins);
        for (second, count) in &self.bins {
            out.extend_from_slice(&(*second as f64).to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
        let level = 0_u32;
        out.extend_from_slice(&level.to_be_bytes());
        let repaired_at = 0_u64;
        out.extend_from_slice(&repaired_at.to_be_bytes());
        // No minimum and maximum clustering values.
        out.extend_from_slice(&[0; 8]);
        out.push(self.has_old_counters.into());
        out.extend_from_slice(&self.columns.to_be_bytes());
        out.extend_from_slice(&self.rows.to_be_bytes());
        out.extend_from_slice(&NOWHERE);
        let intervals_of_logs = 0_u32;
        out.extend_from_slice(&intervals_of_logs.to_be_bytes());
        // No repair, no transient replica, no known host.
        out.extend_from_slice(&[0; 3]);
        out
    }
}
