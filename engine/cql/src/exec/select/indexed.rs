//! Reads by index: the index with the fewest entries, ranges of values, and nearest vectors.
//!
//! Invariants:
//! - Rows come in the order of a scan, except for nearest vectors. So a page continues after a row
//!   whichever index found it.
//! - Memory is bounded.
//! - An index entry only locates a row: conditions are checked on the row itself.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Bound as End;

use firn_wide::internals::key::BEYOND;
use firn_wide::internals::store::{IndexRange, Partitions};

use super::collect::CollectStep;
use super::plan::NearestRows;
use super::read::{Execution, place_of};
use crate::analysis::{IndexLookup, IndexUse};
use crate::catalog::{IndexTarget, TextTest};
use crate::error::{Result, bail, bail_if};
use crate::exec::row::Row;
use crate::values::vector::{Similarity, is_zero};
use crate::values::{BoundValue, EvalEnv};

/// Maximum number of entries counted in each of several indexes to find the one with the fewest.
const COUNTED: usize = 256;
/// Maximum number of rows of a value range that are held for sorting.
const HELD: usize = 1 << 14;
/// If a value range has more rows than this, and this many times the rows that are needed, a scan
/// finds the needed rows sooner. Then the index is not used.
const SCANNED_FROM: std::ops::RangeInclusive<u64> = 1 << 14..=1 << 18;
const SCANNED_TIMES: u64 = 64;
/// Maximum number of nearest rows that a statement may request.
const MOST_NEAREST: u64 = 1000;

/// Encoded partition key and position of a row.
type FoundPlace = (Vec<u8>, Vec<u8>);

/// A candidate for the nearest rows. The smallest is the nearest.
struct NearRow {
    similarity: f32,
    place: FoundPlace,
}

impl PartialEq for NearRow {
    fn eq(&self, other: &NearRow) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for NearRow {}

impl PartialOrd for NearRow {
    fn partial_cmp(&self, other: &NearRow) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NearRow {
    fn cmp(&self, other: &NearRow) -> Ordering {
        let nearer = other.similarity.total_cmp(&self.similarity);
        nearer.then_with(|| self.place.cmp(&other.place))
    }
}

/// Reports whether a partition is in a range of partitions.
fn is_in(range: &Partitions, partition: &[u8]) -> bool {
    !matches!(&range.from, End::Included(from) if partition < &**from)
        && !matches!(&range.until, End::Excluded(until) if partition >= &**until)
}

fn bounds(lookup: &IndexLookup) -> IndexRange<'_> {
    match lookup {
        IndexLookup::Equal(value) => (End::Included(&**value), End::Included(&**value)),
        IndexLookup::Range { from, until, .. } => {
            (from.as_ref().map(|v| &**v), until.as_ref().map(|v| &**v))
        }
    }
}

impl Execution<'_> {
    /// Reads the rows found by one of these index lookups.
    pub(super) fn by_indexes(
        &mut self,
        indexes: Vec<IndexUse>,
        keys: Option<&[Vec<u8>]>,
        env: &EvalEnv<'_>,
    ) -> Result<()> {
        let Some(index) = self.most_selective(indexes)? else { return Ok(()) };
        match &index.lookup {
            IndexLookup::Equal(value) => self.by_index(&index, value, keys, env),
            // A partition has fewer values than an index.
            IndexLookup::Range { .. } if keys.is_some() => self.by_keys(keys.unwrap_or_default()),
            IndexLookup::Range { test, .. } => {
                let most = self.out.wanted().saturating_mul(SCANNED_TIMES);
                let most = most.clamp(*SCANNED_FROM.start(), *SCANNED_FROM.end());
                match self.by_walk(&index, test.as_ref(), most, env)? {
                    true => Ok(()),
                    false => self.by_range(env),
                }
            }
        }
    }

    /// Returns the lookup with the fewest entries, counted up to a limit.
    fn most_selective(&self, mut indexes: Vec<IndexUse>) -> Result<Option<IndexUse>> {
        if indexes.len() < 2 {
            return Ok(indexes.pop());
        }
        let (mut least, mut best) = (COUNTED, None);
        for index in indexes {
            let known = self.plan.table.indexes().iter().find(|i| i.id == index.id);
            // Map entries are looked up by key and value, so few rows match.
            let count = match known.is_some_and(|i| i.target == IndexTarget::Entries) {
                true => 0,
                false => self.count(&index, least)?,
            };
            if best.is_none() || count < least {
                (least, best) = (count, Some(index));
            }
        }
        Ok(best)
    }

    /// Counts the entries of a lookup, up to `most`.
    fn count(&self, index: &IndexUse, most: usize) -> Result<usize> {
        let mut walk = self.view.walk_index(&self.family, index.id, bounds(&index.lookup))?;
        let mut count = 0;
        while count < most && walk.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Reads the rows whose values are in a range. Returns false, without reading rows, if there
    /// are more than `most`.
    fn by_walk(
        &mut self,
        index: &IndexUse,
        test: Option<&TextTest>,
        most: u64,
        env: &EvalEnv<'_>,
    ) -> Result<bool> {
        let Some(range) = self.partitions(None, env)? else { return Ok(true) };
        let mut after: Option<FoundPlace> = None;
        if let Some(from) = &self.from {
            let mut part = vec![];
            self.family.layout().put_partition(&from.key, &mut part)?;
            let row = from.row.as_ref().filter(|_| !index.finds_partitions);
            after = Some((part, row.map_or_else(|| vec![BEYOND], |row| place_of(row))));
        }
        let (mut found, mut count) = self.find(index, test, &range, after.as_ref())?;
        if count > most {
            return Ok(false);
        }
        let from = self.from.take();
        if let Some(from) = from.as_ref().filter(|_| index.finds_partitions)
            && self.partition(&from.key, Some(from))? == CollectStep::Stop
        {
            return Ok(true);
        }
        let mut left = from.map(|f| (f.key, f.left_in_partition));
        let (mut key, mut place) = (vec![], vec![]);
        let mut at: Option<Vec<u8>> = None;
        let (mut statics, mut is_done) = (Row::none(), false);
        loop {
            for (partition, row) in &found {
                if at.as_ref() != Some(partition) {
                    key.clear();
                    self.family.layout().key_of(partition, &mut key)?;
                    (at, is_done) = (Some(partition.clone()), false);
                    if !index.finds_partitions {
                        statics = self.statics(&key)?;
                        let left = left.take().filter(|(k, _)| *k == key).map(|(_, left)| left);
                        self.out.enter(&key, left)?;
                    }
                }
                let step = match index.finds_partitions {
                    true => self.partition(&key, None)?,
                    false if is_done => continue,
                    false => self.hit(&key, row, &statics, &mut place)?,
                };
                match step {
                    CollectStep::Stop => return Ok(true),
                    CollectStep::NextPartition => is_done = true,
                    CollectStep::More => {}
                }
            }
            if count == found.len() as u64 {
                return Ok(true);
            }
            after = found.into_iter().next_back();
            (found, count) = self.find(index, test, &range, after.as_ref())?;
        }
    }

    /// Returns the range of partitions to read: the named one, or those of a token range.
    fn partitions(
        &self,
        keys: Option<&[Vec<u8>]>,
        env: &EvalEnv<'_>,
    ) -> Result<Option<Partitions>> {
        let Some(range) = self.plan.restrictions.partitions(env)? else { return Ok(None) };
        let Some(keys) = keys else { return Ok(Some(range)) };
        let Some(key) = keys.first() else { return Ok(None) };
        let mut part = vec![];
        self.family.layout().put_partition(key, &mut part)?;
        let mut until = part.clone();
        until.push(0);
        let only = Partitions { from: End::Included(part.clone()), until: End::Excluded(until) };
        Ok(is_in(&range, &part).then_some(only))
    }

    /// Returns the first rows after a position that entries refer to, up to the maximum held, and
    /// the number of rows. A row with several entries may be counted more than once.
    fn find(
        &self,
        index: &IndexUse,
        test: Option<&TextTest>,
        range: &Partitions,
        after: Option<&FoundPlace>,
    ) -> Result<(BTreeSet<FoundPlace>, u64)> {
        let mut walk = self.view.walk_index(&self.family, index.id, bounds(&index.lookup))?;
        let (mut found, mut count) = (BTreeSet::new(), 0);
        while let Some(entry) = walk.next()? {
            let here = (entry.partition, entry.row);
            if !is_in(range, entry.partition)
                || after.is_some_and(|(partition, row)| here <= (&**partition, &**row))
                || test.is_some_and(|test| !test.holds(entry.value))
            {
                continue;
            }
            count += u64::from(found.insert((entry.partition.to_vec(), entry.row.to_vec())));
            if found.len() > HELD {
                found.pop_last();
            }
        }
        Ok((found, count))
    }

    /// Reads the rows with the nearest vectors, the nearest first.
    pub(super) fn by_nearness(
        &mut self,
        nearest: &NearestRows,
        keys: Option<&[Vec<u8>]>,
        limit: Option<u64>,
        env: &EvalEnv<'_>,
    ) -> Result<()> {
        let name = &self.plan.table.columns()[nearest.column].name;
        let wanted = match nearest.of.eval(env)? {
            BoundValue::Bytes(bytes) => bytes,
            BoundValue::Null => {
                bail!("Unsupported null value for column {name}");
            }
            BoundValue::Unset => {
                bail!("Unsupported unset value for column {name}");
            }
        };
        let limit = limit.unwrap_or(MOST_NEAREST);
        bail_if!(
            limit > MOST_NEAREST,
            "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than {MOST_NEAREST}. LIMIT was {limit}"
        );
        if nearest.similarity == Similarity::Cosine && is_zero(&wanted) {
            bail!("Zero vectors have no cosine similarity to others");
        }
        let Some(range) = self.partitions(keys, env)? else { return Ok(()) };
        let all = (End::Unbounded, End::Unbounded);
        let mut walk = self.view.walk_index(&self.family, nearest.index, all)?;
        let mut best: BinaryHeap<NearRow> = BinaryHeap::new();
        let (mut key, mut buffer) = (vec![], vec![]);
        while let Some(entry) = walk.next()? {
            let similarity = nearest.similarity.of(&wanted, entry.value)?;
            // A zero vector has no angle to another one.
            if similarity.is_nan() || !is_in(&range, entry.partition) {
                continue;
            }
            let is_full = best.len() as u64 >= limit;
            if is_full && best.peek().is_some_and(|w| similarity < w.similarity) {
                continue;
            }
            let place = (entry.partition.to_vec(), entry.row.to_vec());
            let row = NearRow { similarity, place };
            if is_full && best.peek().is_some_and(|worst| row >= *worst) {
                continue;
            }
            key.clear();
            self.family.layout().key_of(entry.partition, &mut key)?;
            if self.has_vector(&key, entry.row, nearest.column, entry.value, &mut buffer)? {
                best.push(row);
            }
            if best.len() as u64 > limit {
                best.pop();
            }
        }
        for near in best.into_sorted_vec() {
            let (partition, row) = near.place;
            key.clear();
            self.family.layout().key_of(&partition, &mut key)?;
            let statics = self.statics(&key)?;
            self.out.enter(&key, None)?;
            if self.hit(&key, &row, &statics, &mut buffer)? == CollectStep::Stop {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reports whether a row meets the conditions and has this vector.
    fn has_vector(
        &mut self,
        key: &[u8],
        row: &[u8],
        column: usize,
        vector: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<bool> {
        let statics = self.statics(key)?;
        let Some(row) = self.row_at(key, row, buffer)? else { return Ok(false) };
        self.out.enter(key, None)?;
        Ok(self.out.value_of_accepted(&statics, Some(&row), column)?.as_deref() == Some(vector))
    }
}
