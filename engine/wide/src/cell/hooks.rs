//! The engine's hooks for cells: the counter merge operator, the compaction filter, table summaries
//! and filter prefixes.
//!
//! The compaction filter (model 2.3) relies on a guarantee of the store: no write is applied that
//! loses against existing data. So everything that a deletion covers was written before it. When
//! nothing older than the deletion is left outside of a compaction, the compaction may drop the
//! deletion together with everything that it covers.

use firn_kv::EntryKind as Kind;
use firn_kv::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, FilterDecision, FilterPrefix,
    MergeOperator, MergeResult, Summary, SummaryPass,
};

use crate::key::{BEYOND, is_inside, partition_len};

use super::stored::{CellDeletion, StoredCell, parse};
use super::value::{Cell, CellState};

/// Merge operator that adds up the increments of a counter.
#[derive(Debug)]
pub struct CounterMerge;

fn counter(bytes: &[u8]) -> Option<(i64, i64)> {
    match parse(bytes)? {
        StoredCell::Cell(Cell { timestamp, state: CellState::Counter(n) }) => Some((timestamp, n)),
        _ => None,
    }
}

/// Returns the sum of counters, with the newest of their timestamps.
fn sum<'a>(mut all: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let (timestamp, sum) = all.try_fold((i64::MIN, 0i64), |(t, sum), bytes| {
        let (timestamp, n) = counter(bytes)?;
        Some((t.max(timestamp), sum.wrapping_add(n)))
    })?;
    let mut out = vec![];
    Cell { timestamp, state: CellState::Counter(sum) }.encode(&mut out);
    Some(out)
}

impl MergeOperator for CounterMerge {
    fn name(&self) -> &str {
        "firn.counters"
    }

    fn full_merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> firn_kv::Result<MergeResult> {
        let folded = sum(base.into_iter().chain(operands.iter().copied()));
        folded.map(MergeResult::Value).ok_or_else(|| {
            firn_kv::Error::corruption("a counter's value or increment is none").keys(key, key)
        })
    }

    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        sum([older, newer].into_iter())
    }
}

/// Filter prefix: filters contain the partition parts of keys.
#[derive(Debug)]
pub struct PartitionPrefix {
    token_len: usize,
    name: String,
}

impl PartitionPrefix {
    /// Creates the prefix for keys with tokens of this many bytes.
    pub fn new(token_len: usize) -> PartitionPrefix {
        PartitionPrefix { token_len, name: format!("firn.partition.{token_len}") }
    }
}

impl FilterPrefix for PartitionPrefix {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn prefix_len(&self, key: &[u8]) -> usize {
        partition_len(key, self.token_len).unwrap_or(key.len())
    }

    fn shared_len(&self, from: &[u8], until: &[u8]) -> Option<usize> {
        let len = partition_len(from, self.token_len)?;
        let last = *until.get(len)?;
        let whole = until.starts_with(&from[..len])
            && (last < BEYOND || (last == BEYOND && until.len() == len + 1));
        (whole && from.len() > len).then_some(len)
    }
}

/// Compaction filter that drops data which no reader can see: expired cells, tombstones and
/// deletions past grace, and data that a deletion covers.
#[derive(Debug)]
pub struct StoredPurge {
    /// Time in seconds for which tombstones are retained.
    pub gc_grace: i64,
    /// Bytes of a token.
    pub token_len: usize,
}

impl CompactionFilter for StoredPurge {
    fn name(&self) -> &str {
        "firn.cells"
    }

    fn start(&self, job: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        let now = (job.now_micros / 1_000_000) as i64;
        let before = now.saturating_sub(self.gc_grace);
        Box::new(PurgeScan {
            now,
            before,
            token_len: self.token_len,
            containers: vec![],
            ranges: vec![],
            begun: 0,
            open: vec![],
            range_bytes: 0,
        })
    }

    fn expires_at(&self, summary: &[u8]) -> Option<u64> {
        let facts =
            CellFacts::decode(summary).filter(|f| f.entries > 0 && f.max_local < i64::MAX)?;
        let second = facts.max_local.saturating_add(self.gc_grace).saturating_add(1);
        u64::try_from(second).ok()?.checked_mul(1_000_000)
    }
}

/// Maximum bytes of range bounds of one partition that a compaction holds. Ranges beyond that are
/// retained, and the data that they cover too.
const MOST_RANGE_BYTES: usize = 4 << 20;

/// A range deletion of rows, with full keys as bounds.
struct HookRange {
    start: Vec<u8>,
    end: Vec<u8>,
    timestamp: i64,
}

struct PurgeScan {
    now: i64,
    /// Tombstones before this second are past grace.
    before: i64,
    token_len: usize,
    /// Deletions of the containers at the current position, from the outermost: prefix and
    /// timestamp.
    containers: Vec<(Vec<u8>, i64)>,
    /// Range deletions of the current partition, sorted by start. Those of several tables may
    /// overlap.
    ranges: Vec<HookRange>,
    /// Number of ranges that begin at or before the current key, and those of them that end after
    /// it.
    begun: usize,
    open: Vec<usize>,
    range_bytes: usize,
}

impl PurgeScan {
    /// Reports whether a deletion covers an entry. Keys ascend, so each range is opened and closed
    /// once.
    fn is_covered(&mut self, key: &[u8], timestamp: i64) -> bool {
        if self.containers.iter().any(|(_, t)| timestamp <= *t) {
            return true;
        }
        if self.ranges.is_empty() {
            return false;
        }
        while let Some(range) = self.ranges.get(self.begun).filter(|r| *r.start <= *key) {
            if key < &*range.end {
                self.open.push(self.begun);
            }
            self.begun += 1;
        }
        let ranges = &self.ranges;
        self.open.retain(|&i| key < &*ranges[i].end);
        self.open.iter().any(|&i| timestamp <= ranges[i].timestamp)
    }

    /// Leaves the containers that do not contain `key`.
    fn enter(&mut self, key: &[u8]) {
        while self.containers.last().is_some_and(|(prefix, _)| !is_inside(key, prefix)) {
            self.containers.pop();
        }
        if let Some(r) = self.ranges.first()
            && partition_len(&r.start, self.token_len)
                .is_none_or(|n| !is_inside(key, &r.start[..n]))
        {
            self.ranges.clear();
            self.open.clear();
            (self.begun, self.range_bytes) = (0, 0);
        }
    }

    /// Records a range. Returns false if it is not recorded.
    fn note_range(&mut self, key: &[u8], deletion: CellDeletion, end: &[u8]) -> bool {
        let Some(n) = partition_len(key, self.token_len) else { return false };
        let Some(start) = key.get(n + 1..) else { return false };
        let full = |bound: &[u8]| [&key[..n], bound].concat();
        let range = HookRange { start: full(start), end: full(end), timestamp: deletion.timestamp };
        let bytes = range.start.len() + range.end.len() + size_of::<HookRange>();
        if self.range_bytes + bytes > MOST_RANGE_BYTES {
            return false;
        }
        self.range_bytes += bytes;
        self.ranges.push(range);
        true
    }

    fn past_grace(&self, second: i64) -> bool {
        second < self.before
    }

    fn judge_cell(&self, cell: Cell<'_>, alone: bool) -> FilterDecision {
        match cell.state {
            CellState::Tombstone { deleted } if alone && self.past_grace(deleted) => {
                FilterDecision::Drop
            }
            CellState::Expiring { ttl, expires, value } if expires <= self.now => {
                if alone && self.past_grace(expires.saturating_sub(ttl as i64)) {
                    return FilterDecision::Drop;
                }
                if value.is_empty() {
                    return FilterDecision::Keep;
                }
                let mut cut = vec![];
                Cell {
                    timestamp: cell.timestamp,
                    state: CellState::Expiring { value: &[], ttl, expires },
                }
                .encode(&mut cut);
                FilterDecision::Replace(cut)
            }
            _ => FilterDecision::Keep,
        }
    }
}

impl CompactionFilterPass for PurgeScan {
    fn filter(&mut self, key: &[u8], kind: Kind, value: &[u8], alone: bool) -> FilterDecision {
        if kind != Kind::Put {
            return FilterDecision::Keep;
        }
        let Some(stored) = parse(value) else { return FilterDecision::Keep };
        self.enter(key);
        if self.is_covered(key, stored.timestamp()) {
            return FilterDecision::Drop;
        }
        let deletion = match stored {
            StoredCell::Cell(cell) => return self.judge_cell(cell, alone),
            StoredCell::Deletion(d) => {
                self.containers.push((key[..key.len().saturating_sub(1)].to_vec(), d.timestamp));
                d
            }
            StoredCell::Range(d, end) => {
                if !self.note_range(key, d, end) {
                    return FilterDecision::Keep;
                }
                d
            }
        };
        if alone && self.past_grace(deletion.local) {
            FilterDecision::Drop
        } else {
            FilterDecision::Keep
        }
    }

    fn reach(&mut self, key: &[u8], value: &[u8], end: &mut Vec<u8>) -> bool {
        let (container, bound) = match parse(value) {
            Some(StoredCell::Deletion(_)) => (key.len().checked_sub(1), &[BEYOND][..]),
            Some(StoredCell::Range(_, bound)) => (partition_len(key, self.token_len), bound),
            Some(StoredCell::Cell(_)) | None => return false,
        };
        let Some(n) = container else { return false };
        end.extend_from_slice(&key[..n]);
        end.extend_from_slice(bound);
        true
    }
}

/// Table summary that collects [`CellFacts`].
#[derive(Debug)]
pub struct StoredFacts;

/// Facts about the cells and deletions of a table. All bounds are meaningless while `entries` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CellFacts {
    /// Number of cells and deletions.
    pub entries: u64,
    /// Number of cell tombstones, deletions of containers, and cells with a TTL: entries that can
    /// be dropped at some time.
    pub droppable: u64,
    /// Smallest timestamp.
    pub min_timestamp: i64,
    /// Largest timestamp.
    pub max_timestamp: i64,
    /// Earliest second of a local deletion or expiry; `i64::MAX` if there is none.
    pub min_local: i64,
    /// Latest second of a local deletion or expiry; `i64::MAX` if a cell never expires.
    pub max_local: i64,
}

impl CellFacts {
    const NONE: CellFacts = CellFacts {
        entries: 0,
        droppable: 0,
        min_timestamp: i64::MAX,
        max_timestamp: i64::MIN,
        min_local: i64::MAX,
        max_local: i64::MIN,
    };

    /// Reads the stored form. Returns `None` for invalid bytes.
    #[doc(hidden)]
    pub fn decode(bytes: &[u8]) -> Option<CellFacts> {
        let (words, rest) = bytes.as_chunks::<8>();
        let [entries, droppable, min_timestamp, max_timestamp, min_local, max_local] = *words
        else {
            return None;
        };
        let n = i64::from_le_bytes;
        rest.is_empty().then(|| CellFacts {
            entries: u64::from_le_bytes(entries),
            droppable: u64::from_le_bytes(droppable),
            min_timestamp: n(min_timestamp),
            max_timestamp: n(max_timestamp),
            min_local: n(min_local),
            max_local: n(max_local),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let bounds = [self.min_timestamp, self.max_timestamp, self.min_local, self.max_local];
        let mut out = [self.entries.to_le_bytes(), self.droppable.to_le_bytes()].concat();
        out.extend(bounds.iter().flat_map(|n| n.to_le_bytes()));
        out
    }
}

impl Summary for StoredFacts {
    fn name(&self) -> &str {
        "firn.facts"
    }

    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(CellFacts::NONE)
    }
}

impl SummaryPass for CellFacts {
    fn add(&mut self, _: &[u8], kind: Kind, value: &[u8]) {
        let Some(stored) = parse(value) else {
            if kind != Kind::Delete {
                // Its lifetime is unknown.
                self.max_local = i64::MAX;
            }
            return;
        };
        let local = match stored {
            StoredCell::Cell(c) => match c.state {
                CellState::Live(_) | CellState::Counter(_) => None,
                CellState::Expiring { expires, .. } => Some(expires),
                CellState::Tombstone { deleted } => Some(deleted),
            },
            StoredCell::Deletion(d) | StoredCell::Range(d, _) => Some(d.local),
        };
        self.entries += 1;
        self.droppable += local.is_some() as u64;
        self.min_timestamp = self.min_timestamp.min(stored.timestamp());
        self.max_timestamp = self.max_timestamp.max(stored.timestamp());
        self.min_local = self.min_local.min(local.unwrap_or(i64::MAX));
        self.max_local = self.max_local.max(local.unwrap_or(i64::MAX));
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RANGES;

    /// Ranges beyond the bound are retained, and the data that they cover too.
    #[test]
    fn a_pass_holds_a_bounded_part_of_the_ranges_of_a_partition() {
        let partition = [&[0; 8][..], &[0x40], b"k\0"].concat();
        let bound = |i: u32| [&[0x40][..], &i.to_be_bytes(), &[7; 1000]].concat();
        let purge = StoredPurge { gc_grace: 0, token_len: 8 };
        let mut pass = purge.start(CompactionFilterContext::new(1_000_000_000));
        let mut stored = vec![];
        CellDeletion { timestamp: 5, local: 1 }.encode_range(&bound(0), &mut stored);
        let mut dropped = 0;
        for i in 0..10_000 {
            let key = [&partition[..], &[RANGES], &bound(2 * i)].concat();
            stored.truncate(17);
            stored.extend_from_slice(&bound(2 * i + 1));
            match pass.filter(&key, Kind::Put, &stored, true) {
                FilterDecision::Drop if dropped == i => dropped += 1,
                FilterDecision::Keep => {}
                other => panic!("range {i} of {dropped}: {other:?}"),
            }
        }
        // Both bounds of a range take 2 KiB.
        assert!((1500..2100).contains(&dropped), "{dropped}");
        let mut cell = vec![];
        Cell { timestamp: 4, state: CellState::Live(b"v") }.encode(&mut cell);
        for i in 0..10_000 {
            let key = [&partition[..], &bound(2 * i), &[0]].concat();
            let verdict = pass.filter(&key, Kind::Put, &cell, true);
            assert_eq!(verdict == FilterDecision::Drop, i < dropped, "the cell of range {i}");
        }
    }
}
