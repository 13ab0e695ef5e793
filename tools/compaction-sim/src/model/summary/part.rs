//! Parts of runs: evenly filled ranges of keys, and the pieces in which a compaction merges them.

use firn_kv::internals::base::key::head;
use firn_kv::internals::compaction::TableShape;

use crate::model::size::EntrySize;

/// Minimum width of a piece of the key space.
pub(super) const NARROW: f64 = 1e-13;

/// Upper bound on the parts of one range and of its neighbours.
const OVERLAID: usize = 16;

/// An evenly filled range of keys with the writes of one phase of the workload.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SummaryPart {
    pub(super) phase: usize,
    /// Index of its run among the inputs of a compaction.
    pub(super) run: usize,
    pub(super) lo: f64,
    pub(super) hi: f64,
    /// Number of writes, counting repeated keys.
    pub(super) draws: f64,
    pub(super) puts: f64,
    pub(super) deletes: f64,
    /// Keys that range deletions have deleted. They have no entries.
    pub(super) ranged: f64,
    /// Index of its zone: a range of keys that the phase chooses evenly.
    pub(super) zone: usize,
    /// Times of its first and last put, in microseconds.
    pub(super) put_at: (f64, f64),
    /// Times of its first and last delete.
    pub(super) deleted_at: (f64, f64),
}

impl SummaryPart {
    pub(super) fn width(&self) -> f64 {
        (self.hi - self.lo).max(NARROW)
    }

    /// Returns its share in `[lo, hi)`.
    pub(super) fn cut(&self, lo: f64, hi: f64) -> SummaryPart {
        let (lo, hi) = (lo.max(self.lo), hi.min(self.hi));
        let share = ((hi - lo) / self.width()).clamp(0.0, 1.0);
        SummaryPart {
            lo,
            hi,
            draws: self.draws * share,
            puts: self.puts * share,
            deletes: self.deletes * share,
            ranged: self.ranged * share,
            ..*self
        }
    }

    /// Returns the part written from then on, assuming writes evenly spread in time.
    pub(super) fn since(&self, micros: f64) -> SummaryPart {
        let (from, to) = self.put_at;
        let share = ((to - micros) / (to - from).max(1.0)).clamp(0.0, 1.0);
        SummaryPart {
            draws: self.draws * share,
            puts: self.puts * share,
            deletes: self.deletes * share,
            ranged: self.ranged * share,
            put_at: (from.max(micros), to),
            ..*self
        }
    }

    /// Adds another part of the same phase.
    pub(super) fn join(&mut self, other: &SummaryPart) {
        let span = |a: (f64, f64), n: f64, b: (f64, f64), m: f64| match (n > 0.0, m > 0.0) {
            (true, true) => (a.0.min(b.0), a.1.max(b.1)),
            (false, true) => b,
            _ => a,
        };
        self.put_at = span(self.put_at, self.puts, other.put_at, other.puts);
        self.deleted_at = span(self.deleted_at, self.deletes, other.deleted_at, other.deletes);
        self.lo = self.lo.min(other.lo);
        self.hi = self.hi.max(other.hi);
        self.draws += other.draws;
        self.puts += other.puts;
        self.deletes += other.deletes;
        self.ranged += other.ranged;
    }
}

/// Records the ages of `n` deletes that were spread evenly between two times.
pub(super) fn note_ages(into: &mut Vec<(f64, u64)>, n: f64, at: (f64, f64), now: f64) {
    pub(super) const BUCKETS: usize = 4;
    for i in 0..BUCKETS {
        let when = at.0 + (at.1 - at.0) * (i as f64 + 0.5) / BUCKETS as f64;
        into.push((n / BUCKETS as f64, (now - when).max(0.0) as u64));
    }
}

pub(super) fn key_span(parts: &[SummaryPart]) -> Option<(f64, f64)> {
    let full = || parts.iter().filter(|p| p.puts + p.deletes > 0.0);
    full().next()?;
    Some((full().map(|p| p.lo).fold(f64::MAX, f64::min), full().map(|p| p.hi).fold(0.0, f64::max)))
}

pub(super) fn key_range(t: &TableShape) -> (f64, f64) {
    (from_key(&t.first), from_key(&t.last))
}

pub(super) fn to_key(x: f64) -> u64 {
    // The cast saturates at both ends.
    (x * 2f64.powi(64)) as u64
}

pub(super) fn from_key(key: &[u8]) -> f64 {
    head(key) as f64 / 2f64.powi(64)
}

/// Adds drawn operations to the last part of their phase and kind.
pub(super) fn remember(parts: &mut Vec<SummaryPart>, p: SummaryPart) {
    match parts
        .iter_mut()
        .rev()
        .find(|q| q.zone == p.zone && q.phase == p.phase && (q.deletes > 0.0) == (p.deletes > 0.0))
    {
        Some(q) => q.join(&p),
        None => parts.push(p),
    }
}

/// Joins sorted ranges into as few disjoint ones as possible.
pub(super) fn union(sorted: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = vec![];
    for (lo, hi) in sorted {
        match out.last_mut() {
            Some(last) if lo <= last.1 + NARROW => last.1 = last.1.max(hi),
            _ => out.push((lo, hi)),
        }
    }
    out
}

/// Parts in a piece of the key space, the cost of entries there, and whether no older run is below.
pub(super) type PiecedEntries = (Vec<SummaryPart>, EntrySize, bool);

/// A piece of the key space with the parts of each run there, newest run first.
pub(super) type RunPiece = (f64, f64, Vec<Vec<SummaryPart>>);

/// Splits the runs, newest first, at every bound of a part or of `also`: pieces in key order. The
/// parts of a run are sorted, but those of one table may overlap.
pub(super) fn key_pieces(runs: &[Vec<SummaryPart>], also: &[(f64, f64)]) -> Vec<RunPiece> {
    let mut bounds: Vec<f64> = runs.iter().flatten().flat_map(|p| [p.lo, p.hi]).collect();
    let (Some(lo), Some(hi)) = (
        bounds.iter().copied().min_by(f64::total_cmp),
        bounds.iter().copied().max_by(f64::total_cmp),
    ) else {
        return vec![];
    };
    bounds.extend(also.iter().flat_map(|c| [c.0, c.1]).filter(|&b| b > lo && b < hi));
    bounds.sort_by(f64::total_cmp);
    bounds.dedup_by(|a, b| *a - *b < NARROW);
    let mut at = vec![0usize; runs.len()];
    let mut out = Vec::with_capacity(bounds.len());
    for w in bounds.windows(2) {
        let (lo, hi) = (w[0], w[1]);
        let inside = |p: &&SummaryPart| p.lo < hi - NARROW / 2.0 && p.hi > lo + NARROW / 2.0;
        let mut here = Vec::with_capacity(runs.len());
        for (run, at) in runs.iter().zip(&mut at) {
            while run.get(*at).is_some_and(|p| p.hi <= lo + NARROW / 2.0) {
                *at += 1;
            }
            let parts: Vec<SummaryPart> =
                run[*at..].iter().take(OVERLAID).filter(inside).map(|p| p.cut(lo, hi)).collect();
            if !parts.is_empty() {
                here.push(parts);
            }
        }
        if !here.is_empty() {
            out.push((lo, hi, here));
        }
    }
    out
}
