//! Plain data: the shape of a tree ([`LsmShape`]).
//!
//! A tree consists of sorted *runs*, ordered newest first: by level ascending, then by number
//! descending. The tables of a run are sorted and disjoint in user keys. A flush adds a run at
//! level 0 with a number higher than all earlier ones. The effect of a compaction on a shape is in
//! [`job`](super::job).

use crate::util::nested::nested;
use crate::util::sort::sort_by;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::tables::RunTables;
pub use super::tables::TableShape;

/// Deepest level that a policy uses.
pub const MAX_LEVEL: u8 = 62;

/// Smallest and largest key of a range, both inclusive.
pub type TableKeys = (Arc<[u8]>, Arc<[u8]>);
/// Borrowed form of [`TableKeys`].
pub(super) type Bounds<'a> = (&'a Arc<[u8]>, &'a Arc<[u8]>);

/// Snapshot of a tree's structure, as far as a compaction policy needs it.
///
/// Releases may add fields. A test of a policy writes `..LsmShape::default()` after those that it
/// sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LsmShape {
    /// Current time in microseconds since the epoch.
    pub now_micros: u64,
    /// Size in bytes at which a memtable is flushed.
    pub memtable_size: u64,
    /// Target size of an output table in bytes.
    pub table_size: u64,
    /// Maximum age of a tombstone before it is pushed down, in seconds; 0 for no bound.
    pub tombstone_age_secs: u64,
    /// Whether an entry may affect keys in other tables, as a compaction filter may define.
    pub has_compaction_filter: bool,
    /// Cost that readers paid for several runs since the last read-triggered compaction. The unit
    /// is entries that a merge could have written instead.
    pub read_debt: u64,
    /// Bytes that read-triggered compactions may write now.
    pub read_compaction_bytes: u64,
    /// The runs, newest first: by level ascending, then by number descending. They are shared, so
    /// building and copying a shape with many tables is cheap. Use [`Arc::make_mut`] to change one.
    pub runs: Vec<Arc<RunShape>>,
    /// Number of the next flushed run; higher than every number in use.
    pub next_run: u64,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

/// One sorted run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunShape {
    /// Level, 0 to 255.
    pub level: u8,
    /// Number, unique within a level; a higher number is newer.
    pub number: u64,
    /// Tables, sorted and disjoint in user keys; at least one.
    pub tables: RunTables,
}

impl RunShape {
    /// Returns the total size of the tables in bytes.
    pub fn size(&self) -> u64 {
        self.tables.size()
    }

    /// Returns the indexes of the tables that may have keys in `lo..=hi`, by two binary searches.
    pub fn overlapping(&self, lo: &[u8], hi: &[u8]) -> Range<usize> {
        let start = self.tables.partition_point(|t| &*t.last < lo);
        let end = self.tables.partition_point(|t| &*t.first <= hi);
        start..end.max(start)
    }

    /// Returns the position of this run in the order of runs.
    #[inline]
    pub fn place(&self) -> ShapePlace {
        ShapePlace { level: self.level, number: self.number }
    }
}

/// Position of a run in the order of runs. A smaller position is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShapePlace {
    /// The level.
    pub level: u8,
    /// Number within the level; a higher number is newer.
    pub number: u64,
}

impl Ord for ShapePlace {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.level.cmp(&other.level).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for ShapePlace {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the ids of two overlapping tables, if there are any.
pub(super) fn first_overlap(tables: &[&TableShape]) -> Option<(u64, u64)> {
    let mut sorted = tables.to_vec();
    sort_by(&mut sorted, |a, b| a.first.cmp(&b.first).then(a.id.cmp(&b.id)));
    sorted.windows(2).find(|w| w[1].first <= w[0].last).map(|w| (w[0].id, w[1].id))
}

/// Returns the smallest key range that covers all tables, or `None` if there are none.
pub(super) fn key_span<'a>(tables: impl Iterator<Item = &'a TableShape>) -> Option<Bounds<'a>> {
    tables.fold(None, |range, t| match range {
        None => Some((&t.first, &t.last)),
        Some((lo, hi)) => Some((lo.min(&t.first), hi.max(&t.last))),
    })
}

/// Iterates over the tables of runs, in their order.
pub(super) fn tables_of(runs: &[Arc<RunShape>]) -> impl Iterator<Item = &TableShape> {
    nested(runs, |r| &r.tables)
}

impl LsmShape {
    /// Iterates over all tables, newest run first.
    pub fn tables(&self) -> impl Iterator<Item = &TableShape> {
        tables_of(&self.runs)
    }

    /// Returns the total size of the tables in bytes.
    pub fn size(&self) -> u64 {
        self.runs.iter().map(|r| r.size()).sum()
    }

    /// Applies `f` to the tables that `meant` selects. Runs without such tables stay shared.
    #[doc(hidden)]
    pub fn change(
        &mut self,
        meant: impl Fn(&TableShape) -> bool,
        mut f: impl FnMut(&mut TableShape),
    ) {
        for run in self.runs.iter_mut().filter(|r| r.tables.iter().any(&meant)) {
            Arc::make_mut(run).tables.iter_mut().filter(|t| meant(t)).for_each(&mut f);
        }
    }

    /// Checks that the shape is legal: runs in order, tables sorted and disjoint, ids unique.
    ///
    /// # Errors
    /// A sentence that describes the first violation.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), String> {
        if let Some(w) = self.runs.windows(2).find(|w| w[0].place() >= w[1].place()) {
            return Err(format!(
                "run L{}#{} is not newer than L{}#{}",
                w[0].level, w[0].number, w[1].level, w[1].number
            ));
        }
        let mut ids = HashSet::new();
        for run in &self.runs {
            if run.tables.is_empty() {
                return Err(format!("run L{}#{} is empty", run.level, run.number));
            }
            if run.number >= self.next_run {
                return Err(format!(
                    "run L{}#{} is not below the next number {}",
                    run.level, run.number, self.next_run
                ));
            }
            if let Some(w) = run.tables.windows(2).find(|w| w[1].first <= w[0].last) {
                return Err(format!(
                    "tables {} and {} overlap in run L{}#{}",
                    w[0].id, w[1].id, run.level, run.number
                ));
            }
            for t in &run.tables {
                if t.first > t.last {
                    return Err(format!("table {} ends before it begins", t.id));
                }
                if !ids.insert(t.id) {
                    return Err(format!("table {} is there twice", t.id));
                }
            }
        }
        Ok(())
    }
}

/// Adds a flushed run of these tables (sorted, disjoint, at least one) and returns its number.
pub fn flush(shape: &mut LsmShape, tables: Vec<TableShape>) -> u64 {
    let number = shape.next_run;
    shape.next_run += 1;
    shape.runs.insert(0, Arc::new(RunShape { level: 0, number, tables: tables.into() }));
    number
}

/// Returns a key in `first..next`. Requires `first < next`.
pub(super) fn before(next: &[u8], first: &Arc<[u8]>) -> Arc<[u8]> {
    let mut key = next.to_vec();
    match key.pop() {
        Some(b) if b > 0 => key.push(b - 1),
        _ => {}
    }
    if key[..] < first[..] || key[..] >= *next { first.clone() } else { key.into() }
}

/// Returns at most `n - 1` keys that split `first..=last` into `n` parts of equal width. The width
/// is measured on the 8 bytes after the common prefix, read as a number. The keys are ascending,
/// above `first` and not above `last`. A key is shortened if this moves it by at most an eighth of
/// a part.
pub fn split(first: &[u8], last: &[u8], n: usize) -> Vec<Arc<[u8]>> {
    let prefix = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        (0..8).fold(0u64, |n, i| n << 8 | u64::from(key.get(prefix + i).copied().unwrap_or(0)))
    };
    let (lo, hi) = (number(first), number(last));
    let mut keys: Vec<Arc<[u8]>> = Vec::new();
    if n < 2 || lo >= hi {
        return keys;
    }
    let width = u128::from(hi - lo);
    let slack = (width / n as u128 / 8) as u64;
    let mut previous = lo;
    for i in 1..n as u128 {
        let exact = lo + (width * i / n as u128) as u64;
        let short = (1..=8u32)
            .map(|b| (b, exact & (u64::MAX << (64 - 8 * b))))
            .find(|&(_, v)| v > previous && exact - v <= slack);
        let Some((bytes, v)) = short else { continue };
        let mut key = first[..prefix].to_vec();
        key.extend_from_slice(&v.to_be_bytes()[..bytes as usize]);
        previous = v;
        if key[..] > *first && key[..] <= *last {
            keys.push(key.into());
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_split_is_ascending_and_inside(a: Vec<u8>, b: Vec<u8>, n in 0usize..200) {
            let (first, last) = if a <= b { (a, b) } else { (b, a) };
            let keys = split(&first, &last, n);
            prop_assert!(keys.len() < n.max(1));
            prop_assert!(keys.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(keys.iter().all(|k| k[..] > first[..] && k[..] <= last[..]));
        }
    }

    #[test]
    fn a_split_is_even_after_the_common_prefix() {
        let keys = split(b"user/\x00", b"user/\xff\xff", 4);
        let tails: Vec<u8> = keys.iter().map(|k| k[5]).collect();
        assert_eq!(tails, [0x3f, 0x7f, 0xbf]);
        assert!(split(b"a", b"a", 4).is_empty() && split(b"a", b"b", 1).is_empty());
    }
}
