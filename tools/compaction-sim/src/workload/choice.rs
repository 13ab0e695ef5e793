//! Finds the keys of the writes in a recorded history, from the entries that memtables and
//! compactions removed.
//!
//! A log has no keys. It has the number of versions in each memtable and of entries in its flush,
//! and the sizes of compactions before and after. Many writes to few keys may give the same
//! memtables as skewed writes to many keys. Compactions of several memtables differ in the two
//! cases. So for each skew the number of keys follows from the memtables. The skew is the one whose
//! simulated compactions retain as much as the recorded ones.
//!
//! The first memtables may be a load, in which each key is unique; it ends when overwrites begin.
//! Later writes are assumed to choose among its keys, unless compactions contradict.

use firn_tools::output::Done;
use serde::Serialize;

use crate::workload::sketch::{LEAST_SKEW, MOST_SKEW, Ranks};

/// Number of overwrites in memtables from which on it is significant: it then varies by three
/// percent.
const TELLING: u64 = 1000;
/// Maximum difference between the retained shares of compactions that still counts as agreement.
const AGREES: f64 = 0.05;
/// Number of bisection steps of a search.
const HALVINGS: usize = 14;

/// The keys that the writes of a history chose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct KeyChoice {
    /// Number of writes at the beginning, each to another key.
    pub load: u64,
    /// Number of keys from which later writes choose.
    pub keys: f64,
    /// Skew of their choice, 0 for none.
    pub skew: f64,
}

/// Versions in a memtable, and entries in its flush.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FlushedVersions {
    pub(crate) versions: u64,
    pub(crate) entries: u64,
}

impl FlushedVersions {
    fn overwritten(&self) -> u64 {
        self.versions.saturating_sub(self.entries)
    }

    /// Returns a saturating sum over memtables, since a log may have any numbers.
    pub(crate) fn sum(of: &[FlushedVersions], f: fn(&FlushedVersions) -> u64) -> u64 {
        of.iter().map(f).fold(0, u64::saturating_add)
    }

    /// Returns the share of versions that were overwritten.
    fn share(of: &[FlushedVersions]) -> f64 {
        let all = FlushedVersions::sum(of, |m| m.versions).max(1) as f64;
        FlushedVersions::sum(of, FlushedVersions::overwritten) as f64 / all
    }
}

/// Returns the number of memtables of the load: those before the first whose overwritten share is
/// half of that in the last half of all memtables.
pub(crate) fn loaded(memtables: &[FlushedVersions]) -> usize {
    let later = FlushedVersions::share(&memtables[memtables.len() / 2..]);
    let is_later = |m: &FlushedVersions| FlushedVersions::share(&[*m]) * 2.0 > later;
    memtables.iter().position(is_later).unwrap_or(0)
}

/// Finds the choice of keys of a history with these memtables, whose compactions retained the share
/// `kept` of their input bytes. `keeps` simulates that share for a choice.
///
/// # Errors
/// Errors of `keeps`.
pub(crate) fn choice(
    memtables: &[FlushedVersions],
    most_keys: f64,
    kept: Option<f64>,
    keeps: &mut dyn FnMut(&KeyChoice) -> Done<f64>,
) -> Done<KeyChoice> {
    let (first, later) = memtables.split_at(loaded(memtables));
    let load = FlushedVersions::sum(first, |m| m.versions);
    let few = FlushedVersions::sum(later, FlushedVersions::overwritten) < TELLING;
    if let (true, Some(kept)) = (few, kept) {
        return evenly(0, memtables, most_keys, kept, keeps);
    }
    let n = later.len() as f64;
    let versions = FlushedVersions::sum(later, |m| m.versions) as f64 / n;
    let entries = FlushedVersions::sum(later, |m| m.entries) as f64 / n;
    if load > 0 {
        let skew = Ranks::skew_hit(versions, entries, load as f64);
        let skew = if skew < LEAST_SKEW { 0.0 } else { skew };
        let known = KeyChoice { load, keys: load as f64, skew };
        match kept {
            Some(kept) if (keeps(&known)? - kept).abs() > AGREES => {}
            _ => return Ok(known),
        }
    }
    let at = |skew: f64| {
        let keys = Ranks::keys_hit(versions, entries, skew).max(load as f64);
        KeyChoice { load, keys, skew }
    };
    let Some(kept) = kept else { return Ok(at(0.0)) };
    let (mut lo, mut hi) = (0.0, MOST_SKEW);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(lo, hi);
        if keeps(&at(middle))? < kept { lo = middle } else { hi = middle }
    }
    if hi < LEAST_SKEW { evenly(load, memtables, most_keys, kept, keeps) } else { Ok(at(hi)) }
}

/// Finds the choice without skew: the number of keys whose compactions retain the recorded share.
fn evenly(
    load: u64,
    memtables: &[FlushedVersions],
    most_keys: f64,
    kept: f64,
    keeps: &mut dyn FnMut(&KeyChoice) -> Done<f64>,
) -> Done<KeyChoice> {
    let entries = FlushedVersions::sum(memtables, |m| m.entries) as f64;
    let least = (entries / memtables.len().max(1) as f64).max(load as f64).max(2.0);
    let (mut lo, mut hi) = (least.ln(), most_keys.max(least).ln());
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(lo, hi);
        let choice = KeyChoice { load, keys: middle.exp(), skew: 0.0 };
        if keeps(&choice)? < kept { lo = middle } else { hi = middle }
    }
    Ok(KeyChoice { load, keys: hi.exp(), skew: 0.0 })
}
