//! Which keys the writes of a recorded history were to, found from what its memtables and its
//! merges left out.
//!
//! A log has no keys. It says how many versions each memtable took in and how many entries were
//! left of them, and what merges read and kept. Many draws from few keys, and from many keys of
//! which few are popular, may leave the same in a memtable; in merges of several memtables they do
//! not. So for each skew the number of keys follows from the memtables, and the skew is the one
//! under which a simulation's merges keep as much as was recorded.
//!
//! The first memtables may be a load, in which no key comes twice: it ends where overwrites begin.
//! Then the writes after it are taken to choose from what it brought, unless merges contradict.

use firn_tools::output::Done;
use serde::Serialize;

use crate::sketch::{LEAST_SKEW, MOST_SKEW, Ranks};

/// Overwrites within memtables from which on their number says something: it varies by three
/// percent then.
const TELLING: u64 = 1000;
/// What merges may keep more or less of what they read than under a choice that they agree with.
const AGREES: f64 = 0.05;
/// How often a search halves what is left.
const HALVINGS: usize = 14;

/// Which keys the writes of a history were to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct KeyChoice {
    /// Writes at the beginning, each to another key.
    pub load: u64,
    /// Keys that the writes after it choose from.
    pub keys: f64,
    /// The skew of their choice, 0 for none.
    pub skew: f64,
}

/// What went into a memtable, and what its flush wrote.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FlushedVersions {
    pub(crate) versions: u64,
    pub(crate) entries: u64,
}

impl FlushedVersions {
    fn overwritten(&self) -> u64 {
        self.versions.saturating_sub(self.entries)
    }

    /// The sum over memtables, however large the numbers of a log are.
    pub(crate) fn sum(of: &[FlushedVersions], f: fn(&FlushedVersions) -> u64) -> u64 {
        of.iter().map(f).fold(0, u64::saturating_add)
    }

    /// The share of versions that were overwritten.
    fn share(of: &[FlushedVersions]) -> f64 {
        let all = FlushedVersions::sum(of, |m| m.versions).max(1) as f64;
        FlushedVersions::sum(of, FlushedVersions::overwritten) as f64 / all
    }
}

/// How many memtables the load has: those until the first in which half as much is overwritten as
/// in the last half of all.
pub(crate) fn loaded(memtables: &[FlushedVersions]) -> usize {
    let later = FlushedVersions::share(&memtables[memtables.len() / 2..]);
    let is_later = |m: &FlushedVersions| FlushedVersions::share(&[*m]) * 2.0 > later;
    memtables.iter().position(is_later).unwrap_or(0)
}

/// The choice of keys of a history with these memtables, whose merges kept `kept` of the bytes that
/// they read; `keeps` simulates what they would keep under a choice.
///
/// # Errors
/// Those of `keeps`.
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

/// The choice without skew: of as many keys as make merges keep what they kept.
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
