//! Estimates the bytes that a snapshot retains, as an upper bound from the metadata of a tree's
//! tables.
//!
//! Each entry that is newer than the snapshot may hide one older entry of average size. If a newer
//! entry is a range deletion, the bound is everything that the snapshot sees. There may be very
//! many snapshots, so tables are sorted once and each snapshot takes two binary searches.

use crate::base::key::Seq;
use crate::manifest::TableMeta;
use crate::util::sort::sort_by_key;

use crate::db::versions::view::TreeVersion;

/// Prefix sums over the tables of a tree, for estimates of snapshots.
pub struct SnapshotSpace {
    /// Ordered by least sequence number: sums over the tables up to this one, which a snapshot
    /// sees.
    seen: Vec<(Seq, Seen)>,
    /// Ordered by greatest sequence number, descending: sums over the tables up to this one, which
    /// are newer than a snapshot.
    newer: Vec<(Seq, Newer)>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    bytes: u64,
    entries: u64,
}

#[derive(Clone, Copy, Default)]
struct Newer {
    entries: u64,
    ingested: u64,
    ranges: bool,
}

impl SnapshotSpace {
    /// Collects the tables of a version; `None` when there are none.
    pub fn of(version: &TreeVersion) -> Option<SnapshotSpace> {
        let mut tables: Vec<&TableMeta> = version.tables().map(|t| &*t.meta).collect();
        if tables.is_empty() {
            return None;
        }
        sort_by_key(&mut tables, |m| m.min_seq);
        let mut sum = Seen::default();
        let seen = tables.iter().map(|m| {
            sum = Seen { bytes: sum.bytes + m.size, entries: sum.entries + m.entries };
            (m.min_seq, sum)
        });
        let seen = seen.collect();
        sort_by_key(&mut tables, |m| std::cmp::Reverse(m.max_seq));
        let mut sum = Newer::default();
        let newer = tables.iter().map(|m| {
            *(if m.ingested_seq > 0 { &mut sum.ingested } else { &mut sum.entries }) += m.entries;
            sum.ranges |= m.range_deletes > 0;
            (m.max_seq, sum)
        });
        let newer = newer.collect();
        Some(SnapshotSpace { seen, newer })
    }

    /// Returns the bytes retained by a snapshot at `seq`, when `read` is the newest visible state.
    pub fn at(&self, seq: Seq, read: Seq) -> u64 {
        let last = |n: usize| n.checked_sub(1);
        let seen = last(self.seen.partition_point(|s| s.0 <= seq))
            .map_or(Seen::default(), |i| self.seen[i].1);
        let newer = last(self.newer.partition_point(|n| n.0 > seq))
            .map_or(Newer::default(), |i| self.newer[i].1);
        // Every entry has its own sequence number, except for those of an ingestion.
        let hidden = newer.entries.min(read.saturating_sub(seq)) + newer.ingested;
        let hidden =
            (u128::from(seen.bytes) * u128::from(hidden) / u128::from(seen.entries.max(1))) as u64;
        if newer.ranges { seen.bytes } else { hidden.min(seen.bytes) }
    }
}
