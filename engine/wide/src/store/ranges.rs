//! Range deletions of rows: their storage in a partition, and lookups.
//!
//! A partition stores its range deletions as fragments: the key has the start bound, the value has
//! the deletion and the end bound.
//!
//! Invariants:
//! - R1: fragments of a partition do not overlap. Where deletions overlap, the fragment has the
//!   newest one. So at most one fragment covers a position, and one seek finds it: the cost is
//!   logarithmic in the number of fragments.
//! - R2: the writer of a range holds the stripe of its partition, so it sees all fragments. A
//!   write takes one step for each fragment that it removes, and for each newer one that it finds
//!   inside its range. Each fragment is removed only once.

use std::collections::BinaryHeap;

use firn_kv::{Batch, Cursor};

use crate::base::error::{Error, Result};
use crate::cell::{CellDeletion, StoredCell};
use crate::key::RANGES;

use super::CellStore;
use super::family::StoreFamily;
use super::moment::StoreMoment;

/// Number of fragments that a reader skips before it seeks.
const STEPS: u32 = 8;

/// A range of positions, and its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RangeFragment {
    pub start: Vec<u8>,
    pub end: Vec<u8>,
    pub deletion: CellDeletion,
}

/// Returns start, end (as positions) and deletion of a fragment's entry.
pub(super) fn range_at<'a>(
    key: &'a [u8],
    partition: usize,
    value: &'a [u8],
) -> Result<(&'a [u8], &'a [u8], CellDeletion)> {
    match (key.get(partition + 1..), StoredCell::decode(value)?) {
        (Some(start), StoredCell::Range(deletion, end)) => Ok((start, end, deletion)),
        _ => Err(Error::Corrupt(format!(
            "no deletion of a range at the key \"{}\"",
            key.escape_ascii()
        ))),
    }
}

/// Converts ranges to fragments, in ascending order: each position has the newest of the deletions
/// that cover it. Takes O(n log n).
pub(super) fn fragments(mut ranges: Vec<RangeFragment>) -> Vec<RangeFragment> {
    if ranges.len() < 2 {
        return ranges;
    }
    ranges.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    let mut out: Vec<RangeFragment> = Vec::with_capacity(ranges.len());
    let mut open: BinaryHeap<(CellDeletion, &[u8])> = BinaryHeap::new();
    let (mut at, mut next): (&[u8], usize) = (&[], 0);
    loop {
        while open.peek().is_some_and(|(_, end)| *end <= at) {
            open.pop();
        }
        if open.is_empty() {
            let Some(range) = ranges.get(next) else { return out };
            at = &range.start;
        }
        while let Some(range) = ranges.get(next).filter(|r| *r.start <= *at) {
            open.push((range.deletion, &range.end));
            next += 1;
        }
        let Some(&(deletion, end)) = open.peek() else { continue };
        if end <= at {
            continue;
        }
        let until = ranges.get(next).map_or(end, |r| end.min(&r.start));
        match out.last_mut() {
            Some(last) if last.deletion == deletion && *last.end == *at => {
                last.end = until.to_vec();
            }
            _ => out.push(RangeFragment { start: at.to_vec(), end: until.to_vec(), deletion }),
        }
        at = until;
    }
}

/// Finds the fragment that covers a position, for positions in ascending or descending order.
/// Caches the last fragment, or the last gap between two, so that adjacent positions need only a
/// comparison.
pub(super) struct RangeLookup {
    /// At the fragment that was found, or after the gap that was found.
    cursor: Cursor,
    seek: Vec<u8>,
    is_known: bool,
    from: Vec<u8>,
    /// `None`: to the end of the partition.
    until: Option<Vec<u8>>,
    deletion: Option<CellDeletion>,
    passed: u64,
}

impl RangeLookup {
    /// Creates a lookup with a cursor whose range contains the fragments of the partitions to be
    /// read.
    pub(super) fn new(cursor: Cursor) -> RangeLookup {
        RangeLookup {
            cursor,
            seek: vec![],
            is_known: false,
            from: vec![],
            until: None,
            deletion: None,
            passed: 0,
        }
    }

    /// Invalidates the cache: the next position is in another partition.
    pub(super) fn leave(&mut self) {
        self.is_known = false;
    }

    /// Returns the number of fragments read so far.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns the deletion that covers a position of a partition, if any.
    ///
    /// # Errors
    /// Errors of the engine, and `Corrupt`.
    pub(super) fn covering(
        &mut self,
        partition: &[u8],
        place: &[u8],
    ) -> Result<Option<CellDeletion>> {
        let is_behind = self.is_known && self.until.as_ref().is_some_and(|until| **until <= *place);
        let is_in = self.is_known && !is_behind && *self.from <= *place;
        let is_found = is_in || (is_behind && self.step(partition, place)?);
        if !is_found {
            self.seek(partition, place)?;
        }
        Ok(self.deletion)
    }

    /// Steps forward to a position. Returns false if it is far.
    fn step(&mut self, partition: &[u8], place: &[u8]) -> Result<bool> {
        if self.deletion.is_some() {
            self.cursor.next()?;
        }
        for _ in 0..STEPS {
            if self.look(partition, place)? {
                return Ok(true);
            }
            self.cursor.next()?;
        }
        Ok(false)
    }

    fn seek(&mut self, partition: &[u8], place: &[u8]) -> Result<()> {
        self.seek.clear();
        self.seek.extend_from_slice(partition);
        self.seek.push(RANGES);
        let section = self.seek.len();
        self.seek.extend_from_slice(place);
        // Before the first bound after the position.
        self.seek.push(0);
        self.is_known = true;
        self.from.clear();
        self.cursor.seek_before(&self.seek)?;
        if !self.is_inside(partition) {
            self.cursor.seek(&self.seek[..section])?;
        }
        while !self.look(partition, place)? {
            self.cursor.next()?;
        }
        Ok(())
    }

    fn is_inside(&self, partition: &[u8]) -> bool {
        self.cursor.is_valid()
            && self.cursor.key().strip_prefix(partition).is_some_and(|p| p.first() == Some(&RANGES))
    }

    /// Examines the fragment at the cursor. Returns false if it ends before the position.
    fn look(&mut self, partition: &[u8], place: &[u8]) -> Result<bool> {
        if !self.is_inside(partition) {
            (self.until, self.deletion) = (None, None);
            return Ok(true);
        }
        let (start, end, deletion) =
            range_at(self.cursor.key(), partition.len(), self.cursor.value())?;
        self.passed += 1;
        let mut until = self.until.take().unwrap_or_default();
        until.clear();
        if place < start {
            until.extend_from_slice(start);
            (self.until, self.deletion) = (Some(until), None);
            return Ok(true);
        }
        until.extend_from_slice(end);
        self.from.clear();
        self.from.extend_from_slice(if place < end { start } else { end });
        let covers = place < end;
        (self.until, self.deletion) = (Some(until), covers.then_some(deletion));
        Ok(covers)
    }
}

impl CellStore {
    /// Returns the range deletion that covers the position `key[partition..]`.
    pub(super) fn covering_range(
        &self,
        at: StoreMoment<'_>,
        family: &StoreFamily,
        key: &[u8],
        partition: usize,
    ) -> Result<Option<CellDeletion>> {
        let (partition, place) = key.split_at(partition);
        RangeLookup::new(section(at, family, partition)?).covering(partition, place)
    }
}

/// Returns a cursor over the fragments of a partition.
pub(super) fn section(
    at: StoreMoment<'_>,
    family: &StoreFamily,
    partition: &[u8],
) -> Result<Cursor> {
    let bound = |section: u8| [partition, &[section]].concat();
    at.cursor(family.tree(), bound(RANGES)..bound(RANGES + 1))
}

/// Merges range deletions into the stored fragments of a partition, and adds the changes to a
/// batch. The caller holds the partition's stripe.
pub(super) fn put_ranges(
    family: &StoreFamily,
    partition: &[u8],
    ranges: Vec<RangeFragment>,
    batch: &mut Batch,
) -> Result<()> {
    let mut cursor = section(StoreMoment::Now, family, partition)?;
    let mut change = RangeChange::default();
    // The fragment that extends beyond the last range, and whether it is stored unchanged.
    let mut rest: Option<(RangeFragment, bool)> = None;
    for range in fragments(ranges) {
        if let Some(ended) = rest.take_if(|(old, _)| old.end <= range.start) {
            change.keep(ended);
        }
        if rest.is_none() {
            seek_end_behind(&mut cursor, partition, &range.start)?;
        }
        let mut at = range.start.clone();
        while at < range.end {
            let (old, is_stored) = match rest.take() {
                Some(rest) => rest,
                None if cursor.is_valid() => {
                    let (start, end, deletion) =
                        range_at(cursor.key(), partition.len(), cursor.value())?;
                    if *start >= *range.end {
                        break;
                    }
                    let old = RangeFragment { start: start.to_vec(), end: end.to_vec(), deletion };
                    cursor.next()?;
                    (old, true)
                }
                None => break,
            };
            if old.deletion >= range.deletion {
                if old.start > at {
                    change.put(&at, &old.start, range.deletion);
                }
                at = old.end.clone();
                match old.end > range.end {
                    true => rest = Some((old, is_stored)),
                    false => change.keep((old, is_stored)),
                }
                continue;
            }
            if old.start < range.start {
                change.put(&old.start, &range.start, old.deletion);
            } else if is_stored {
                change.removed.push(old.start.clone());
            }
            if old.end > range.end {
                rest = Some((RangeFragment { start: range.end.clone(), ..old }, false));
                break;
            }
        }
        if at < range.end {
            change.put(&at, &range.end, range.deletion);
        }
    }
    if let Some(rest) = rest {
        change.keep(rest);
    }
    change.write(family, partition, batch)
}

/// Moves a cursor over a partition's fragments to the first one that ends after a position.
fn seek_end_behind(cursor: &mut Cursor, partition: &[u8], place: &[u8]) -> Result<()> {
    cursor.seek_before([partition, &[RANGES], place, &[0]].concat())?;
    if !cursor.is_valid() {
        return Ok(cursor.first()?);
    }
    let (_, end, _) = range_at(cursor.key(), partition.len(), cursor.value())?;
    if end <= place {
        cursor.next()?;
    }
    Ok(())
}

/// Changes of a partition's fragments.
#[derive(Default)]
struct RangeChange {
    /// Start bounds of removed fragments.
    removed: Vec<Vec<u8>>,
    /// In ascending order.
    put: Vec<RangeFragment>,
}

impl RangeChange {
    fn put(&mut self, start: &[u8], end: &[u8], deletion: CellDeletion) {
        self.put.push(RangeFragment { start: start.to_vec(), end: end.to_vec(), deletion });
    }

    /// Retains a fragment unchanged.
    fn keep(&mut self, (fragment, is_stored): (RangeFragment, bool)) {
        if !is_stored {
            self.put.push(fragment);
        }
    }

    fn write(self, family: &StoreFamily, partition: &[u8], batch: &mut Batch) -> Result<()> {
        let mut key = [partition, &[RANGES]].concat();
        let mut value = vec![];
        for start in self.removed {
            key.truncate(partition.len() + 1);
            key.extend_from_slice(&start);
            batch.delete(family.tree(), &key)?;
        }
        for fragment in self.put {
            key.truncate(partition.len() + 1);
            key.extend_from_slice(&fragment.start);
            value.clear();
            fragment.deletion.encode_range(&fragment.end, &mut value);
            batch.put(family.tree(), &key, &value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(start: u8, end: u8, timestamp: i64) -> RangeFragment {
        let deletion = CellDeletion { timestamp, local: timestamp };
        RangeFragment { start: vec![start], end: vec![end], deletion }
    }

    proptest! {
        /// Fragments ascend, do not overlap, and cover each position with its newest deletion.
        #[test]
        fn fragments_have_the_newest_deletion_of_each_place(
            ranges in prop::collection::vec((0u8..40, 1u8..20, 0i64..6), 0..30)
        ) {
            let ranges: Vec<_> = ranges.iter().map(|&(s, len, t)| range(s, s + len, t)).collect();
            let found = fragments(ranges.clone());
            prop_assert!(found.iter().all(|f| f.start < f.end));
            prop_assert!(found.windows(2).all(|w| w[0].end <= w[1].start));
            for place in 0u8..64 {
                let newest = |all: &[RangeFragment]| {
                    let covering =
                        all.iter().filter(|r| *r.start <= [place][..] && [place][..] < *r.end);
                    covering.map(|r| r.deletion).max()
                };
                prop_assert_eq!(newest(&found), newest(&ranges));
            }
            prop_assert!(found.len() <= (2 * ranges.len()).saturating_sub(1));
        }
    }
}
