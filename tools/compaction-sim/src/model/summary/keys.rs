//! The keys that writes choose, and those that survive newer writes.

use std::sync::Arc;

use firn_kv::TreeOptions;

use super::part::{NARROW, SummaryPart, note_ages};
use super::population::Population;
use crate::model::size::{EntrySize, Sizes};
use crate::workload::SimWorkload;
use firn_workload::Distribution;

/// The constant properties of a simulated tree: its options, workload and entry sizes.
pub(super) struct KeyModel {
    pub(super) options: Arc<TreeOptions>,
    pub(super) workload: SimWorkload,
    pub(super) populations: Vec<Population>,
    /// The zones of each phase: their ranges and their shares of the choices.
    pub(super) zones: Vec<Vec<(f64, f64, f64)>>,
    pub(super) sizes: Sizes,
    /// Bytes of a put of each phase, relative to `sizes`: keys and values that follow each other
    /// compress better.
    pub(super) relative: Vec<f64>,
}

impl KeyModel {
    pub(super) fn keys(&self) -> f64 {
        self.workload.keys.max(1) as f64
    }

    /// Returns the parts of operations `from` to `to` of a phase: ranges, draws, puts and deletes.
    pub(super) fn written_parts(
        &self,
        phase: usize,
        from: u64,
        to: u64,
        at: (f64, f64),
    ) -> Vec<SummaryPart> {
        let p = self.workload.phases[phase];
        let (n, keys) = ((to - from) as f64, self.keys());
        let part = |lo: f64, hi: f64, draws: f64, deletes: f64| {
            let hi = hi.max(lo + NARROW);
            SummaryPart {
                phase,
                lo,
                hi,
                draws,
                puts: draws - deletes,
                deletes,
                put_at: at,
                deleted_at: at,
                ..SummaryPart::default()
            }
        };
        if let Some(live) = p.queue(self.workload.keys) {
            // Puts at the head, first one per operation, then one per two; deletes of the tail.
            let head = |j: u64| if j <= live { j } else { live + (j - live).div_ceil(2) };
            let tail = |j: u64| j.saturating_sub(live) / 2;
            let (h, t) = ((head(from), head(to)), (tail(from), tail(to)));
            let mut parts = vec![];
            if h.1 > h.0 {
                parts.push(part(h.0 as f64 / keys, h.1 as f64 / keys, (h.1 - h.0) as f64, 0.0));
            }
            if t.1 > t.0 {
                let gone = (t.1 - t.0) as f64;
                parts.push(part(t.0 as f64 / keys, t.1 as f64 / keys, gone, gone));
            }
            return parts;
        }
        let [puts, deletes, ranges] = p.written(from, self.workload.keys);
        let ranged = ranges * p.range as f64;
        let writes = puts + deletes + ranged;
        if writes <= 0.0 {
            return vec![];
        }
        match p.order {
            Distribution::Series(1) if !p.hashed => {
                let mut one = part(from as f64 / keys, to as f64 / keys, n * writes, n * deletes);
                (one.puts, one.ranged) = (n * puts, n * ranged);
                vec![one]
            }
            _ => {
                let zoned = |(zone, &(lo, hi, share)): (usize, &(f64, f64, f64))| {
                    let draws = n * writes * share;
                    let different = self.populations[phase].distinct(draws, hi - lo) / writes;
                    SummaryPart {
                        zone,
                        puts: different * puts,
                        deletes: different * deletes,
                        ranged: different * ranged,
                        ..part(lo, hi, draws, 0.0)
                    }
                };
                self.zones[phase].iter().enumerate().map(zoned).collect()
            }
        }
    }

    pub(super) fn is_queue(&self, phase: usize) -> bool {
        matches!(self.workload.phases[phase].order, Distribution::Queue { .. })
    }

    /// Returns the share of the keys of an older part that `newer` runs leave unchanged, in a piece
    /// of the key space. The effect of the older part's own run (`beside`) is already in it.
    pub(super) fn survives(
        &self,
        older: &SummaryPart,
        beside: &[SummaryPart],
        newer: &[SummaryPart],
        width: f64,
    ) -> f64 {
        let keys = self.keys() * width;
        let mut share = 1.0;
        for n in newer {
            let population = &self.populations[n.phase];
            let queue = self.is_queue(n.phase);
            if n.phase == older.phase && !queue {
                let (one, both) = (
                    population.distinct(n.draws, width),
                    population.distinct(n.draws + older.draws, width),
                );
                let alone = population.distinct(older.draws, width);
                share *= if alone > 0.0 { ((both - one) / alone).clamp(0.0, 1.0) } else { 1.0 };
            } else if matches!(population, Population::New) {
                // New keys hide no others.
            } else if n.phase > older.phase || (queue && n.deletes > 0.0) {
                let before: f64 = beside
                    .iter()
                    .filter(|b| b.phase == n.phase && n.phase != older.phase)
                    .map(|b| b.draws)
                    .sum();
                let left = |draws: f64| (1.0 - population.distinct(draws, width) / keys).max(0.0);
                let had = left(before);
                share *=
                    if had > 0.0 { (left(before + n.draws) / had).clamp(0.0, 1.0) } else { 0.0 };
            }
        }
        share
    }

    /// Merges the parts that the runs, newest first, have in one piece. The result has one part per
    /// phase (for a queue one for puts and one for deletes), newest first. Calls `keeps` with the
    /// retained rest of each part.
    pub(super) fn merge_piece(
        &self,
        runs: &[Vec<SummaryPart>],
        lo: f64,
        hi: f64,
        mut keeps: impl FnMut(&SummaryPart),
    ) -> Vec<SummaryPart> {
        let width = (hi - lo).max(NARROW);
        let mut merged: Vec<SummaryPart> = vec![];
        for run in runs {
            let newer = merged.clone();
            for p in run {
                let share = self.survives(p, run, &newer, width);
                let kept = SummaryPart {
                    puts: p.puts * share,
                    deletes: p.deletes * share,
                    ranged: p.ranged * share,
                    ..*p
                };
                keeps(&kept);
                let queue = self.is_queue(p.phase);
                let same = |m: &&mut SummaryPart| {
                    m.phase == p.phase && (!queue || (m.deletes > 0.0) == (p.deletes > 0.0))
                };
                match merged.iter_mut().find(same) {
                    Some(m) => m.join(&kept),
                    None => merged.push(kept),
                }
            }
        }
        merged
    }

    /// Recalculates the distinct keys of a part that was drawn in portions.
    pub(super) fn recount(&self, p: &mut SummaryPart) {
        let sum = (p.puts + p.deletes + p.ranged).max(1e-9);
        let all = self.populations[p.phase].distinct(p.draws, p.width()) / sum;
        (p.puts, p.deletes, p.ranged) = (all * p.puts, all * p.deletes, all * p.ranged);
    }

    pub(super) fn part_bytes(&self, p: &SummaryPart, size: &EntrySize) -> f64 {
        p.puts * size.put * self.relative[p.phase] + p.deletes * size.delete
    }

    /// Returns the average bytes of a value in a blob file.
    pub(super) fn stored_value(&self) -> f64 {
        let content = &self.workload.content;
        let share = content.value.share_from(self.options.blob_from());
        (self.sizes.flushed.blob / share.max(1e-9)).max(1.0)
    }

    /// Drops entries that a compaction may drop if no older run is below: deletes, and expired
    /// puts.
    pub(super) fn drop_obsolete(
        &self,
        parts: &mut [SummaryPart],
        now: f64,
        vanished: &mut Vec<(f64, u64)>,
    ) {
        for p in parts {
            p.ranged = 0.0;
            if p.deletes > 0.0 {
                note_ages(vanished, p.deletes, p.deleted_at, now);
                p.deletes = 0.0;
            }
            let limit = now - self.workload.ttl_micros as f64;
            if self.workload.ttl_micros > 0 && p.put_at.0 < limit {
                let share = ((limit - p.put_at.0) / (p.put_at.1 - p.put_at.0).max(1.0)).min(1.0);
                p.puts *= 1.0 - share;
                p.put_at.0 = limit.min(p.put_at.1);
            }
        }
    }
}
