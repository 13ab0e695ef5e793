//! Writes tables of parts: split as a job requires, with few separate ranges each.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_kv::internals::compaction::{OutputSplits, TableShape};
use firn_workload::rng::Rng;

use super::keys::KeyModel;
use super::part::{NARROW, PiecedEntries, SummaryPart, from_key, key_span, to_key};
use crate::model::blobs::{BlobShare, SimBlobOutput};
use crate::model::division::flush_starts;
use crate::model::exact::ExactTtl;
use crate::model::size::small_filter;
use crate::model::store::MadeRuns;

/// Random stream for the times of the first and last entry of a table, separate from other streams.
const SEQUENCE: u64 = 0x5e90;

/// Bytes of values that the engine writes into one blob file.
const BLOB_FILE: f64 = (256 << 20) as f64;

/// Maximum number of separate ranges of a table.
const STRETCHES: usize = 6;

/// Neighbours are joined if that moves at most this share of their entries.
const ALIKE: f64 = 0.01;

/// The parts of all tables, and the writer of new ones.
pub(super) struct SummaryTables {
    pub(super) model: KeyModel,
    by_id: BTreeMap<u64, Vec<SummaryPart>>,
    next_id: u64,
}

impl SummaryTables {
    pub(super) fn new(model: KeyModel) -> SummaryTables {
        SummaryTables { model, by_id: BTreeMap::new(), next_id: 1 }
    }

    /// Returns the parts of a table.
    pub(super) fn parts(&self, table: u64) -> &[SummaryPart] {
        self.by_id.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Returns the parts of all tables.
    pub(super) fn all_parts(&self) -> impl Iterator<Item = &SummaryPart> {
        self.by_id.values().flatten()
    }

    pub(super) fn forget(&mut self, tables: impl Iterator<Item = u64>) {
        tables.for_each(|id| _ = self.by_id.remove(&id));
    }

    /// Returns the first keys of all pieces of a flush but the first.
    pub(super) fn piece_starts(&self, all: &[PiecedEntries], pieces: usize) -> Vec<Arc<[u8]>> {
        let stretch = |(parts, size, _): &PiecedEntries| {
            let bytes: f64 = parts.iter().map(|p| self.model.part_bytes(p, size)).sum();
            key_span(parts).map(|(lo, hi)| ((to_key(lo), to_key(hi)), bytes))
        };
        flush_starts(&all.iter().filter_map(stretch).collect::<Vec<_>>(), pieces)
    }

    /// Adds tables made of pieces, split as the job requires. The pieces are in key order; each has
    /// the cost of entries, and whether no older run is below.
    pub(super) fn tables_of(
        &mut self,
        pieces: Vec<PiecedEntries>,
        cut: &OutputSplits,
        place: SummaryPlace,
    ) -> MadeRuns {
        let mut made = MadeRuns::default();
        let mut open = OpenRun::default();
        let mut ends = cut.at.iter().map(|k| from_key(k)).peekable();
        for (parts, size, alone) in pieces {
            let Some((lo, hi)) = key_span(&parts) else { continue };
            let mut from = lo;
            while from < hi {
                while ends.peek().is_some_and(|&e| e <= from) {
                    ends.next();
                    made.tables.extend(self.close(&mut open, place, from));
                }
                let until = ends.peek().copied().filter(|&e| e < hi).unwrap_or(hi);
                let bytes: f64 =
                    parts.iter().map(|p| self.model.part_bytes(&p.cut(from, until), &size)).sum();
                let room = cut.size as f64 - open.bytes;
                let (to, full) = if bytes > room && until - from > NARROW {
                    (from + (until - from) * (room / bytes).clamp(0.0, 1.0), true)
                } else {
                    (until, false)
                };
                // Parts without entries still show the effect on older parts.
                let queue = |p: &&SummaryPart| self.model.is_queue(p.phase);
                let kept = parts
                    .iter()
                    .filter(|p| p.puts + p.deletes > 0.0 || !queue(p))
                    .map(|p| p.cut(from, to));
                let stretch = KeyStretch { lo: from, hi: to, parts: kept.collect() };
                open.bytes +=
                    stretch.parts.iter().map(|p| self.model.part_bytes(p, &size)).sum::<f64>();
                open.filter_bits = size.filter_bits;
                open.zeroed = (open.zeroed.0 || alone, open.zeroed.1 && alone);
                open.stretches.push(stretch);
                if open.stretches.len() > 2 * STRETCHES {
                    self.join_alike(&mut open.stretches);
                }
                from = to.max(from + NARROW);
                if full {
                    made.tables.extend(self.close(&mut open, place, from));
                }
            }
        }
        made.tables.extend(self.close(&mut open, place, 1.0));
        let entries = |t: &TableShape| t.entries as f64;
        made.entries = made.tables.iter().map(entries).sum();
        let per_delete = self.model.workload.content.key_len as f64;
        made.raw_bytes = made
            .tables
            .iter()
            .map(|t| {
                (t.entries - t.deletes) as f64 * self.model.workload.put_bytes()
                    + t.deletes as f64 * per_delete
            })
            .sum();
        made
    }

    fn close(&mut self, open: &mut OpenRun, place: SummaryPlace, end: f64) -> Option<TableShape> {
        let mut done = std::mem::take(open);
        self.join_alike(&mut done.stretches);
        let parts: Vec<SummaryPart> = done.stretches.into_iter().flat_map(|s| s.parts).collect();
        let (lo, hi) = key_span(&parts)?;
        let sum = |f: fn(&SummaryPart) -> f64| parts.iter().map(f).sum::<f64>();
        let (puts, deletes) = (sum(|p| p.puts), sum(|p| p.deletes));
        let entries = (puts + deletes).round() as u64;
        if entries == 0 {
            return None;
        }
        let oldest =
            parts.iter().filter(|p| p.deletes > 0.5).map(|p| p.deleted_at.0).min_by(f64::total_cmp);
        let id = self.next_id;
        self.next_id += 1;
        // The number of deletes among the entries is random. Tables with the same average share
        // have different shares, and a policy that uses the share finds the table with the largest.
        let spread = (deletes * puts / (puts + deletes).max(1.0)).sqrt();
        let counted = (deletes + Rng::new(self.model.workload.seed, id).normal() * spread)
            .round()
            .max(0.0) as u64;
        let counted = if deletes < 0.5 { 0 } else { counted.clamp(1, entries) };
        // A table's range equals that of its parts: so a job's overlap by keys equals the overlap
        // of its parts.
        let first = to_key(lo);
        let last = to_key(hi.min(end)).saturating_sub(1).max(first);
        let newest_put = parts.iter().map(|p| p.put_at.1).fold(0.0, f64::max);
        let seqs = seqs(&parts, &mut Rng::new(self.model.workload.seed ^ SEQUENCE, id));
        let shape = TableShape {
            id,
            size: (done.bytes
                + self.model.sizes.flushed.fixed
                + small_filter(entries, done.filter_bits))
            .max(1.0) as u64,
            entries,
            deletes: counted,
            range_deletes: 0,
            first: Arc::from(&first.to_be_bytes()[..]),
            last: Arc::from(&last.to_be_bytes()[..]),
            min_seq: if done.zeroed.0 { 0 } else { seqs.0 },
            max_seq: if done.zeroed.1 { 0 } else { seqs.1 },
            created_micros: place.now_micros,
            newest_micros: place.newest_micros,
            oldest_tombstone_micros: oldest.map(|_| place.oldest.unwrap_or(place.now_micros)),
            expires_micros: (self.model.workload.ttl_micros > 0 && deletes < 0.5).then(|| {
                // The cast saturates.
                ExactTtl(self.model.workload.ttl_micros).expires_at(newest_put as u64)
            }),
            blob_bytes: 0,
            blob_relocation_bytes: 0,
            held_back: false,
            busy: false,
            _non_exhaustive: (),
        };
        self.by_id.insert(id, parts);
        Some(shape)
    }

    /// Adds blob files with these bytes of values to the output. Divides their references, and the
    /// references `stays` to other files, among the tables by their puts.
    pub(super) fn put_blob(&mut self, made: &mut MadeRuns, bytes: f64, stays: &[BlobShare]) {
        let puts = |t: &TableShape| (t.entries - t.deletes) as f64;
        let all = made.tables.iter().map(puts).sum::<f64>();
        if all <= 0.0 || (bytes <= 0.0 && stays.is_empty()) {
            return;
        }
        let files = (bytes / BLOB_FILE).ceil();
        let each = bytes / files.max(1.0);
        for _ in 0..files as u64 {
            made.values.push(SimBlobOutput { id: self.next_id, size: each as u64, bytes: each });
            self.next_id += 1;
        }
        let stored = self.model.stored_value();
        let mut before = 0.0;
        for t in &made.tables {
            let share = puts(t) / all;
            let of = |u: &BlobShare| BlobShare {
                values: u.values * share,
                bytes: u.bytes * share,
                ..*u
            };
            let mut uses: Vec<BlobShare> = stays.iter().map(of).collect();
            // The files come in key order, as the tables do.
            let (from, to) = (before, before + bytes * share);
            for (i, file) in made.values.iter().enumerate() {
                let begins = each * i as f64;
                let bytes = to.min(begins + each) - from.max(begins);
                if bytes > 0.0 {
                    uses.push(BlobShare { file: file.id, values: bytes / stored, bytes });
                }
            }
            before = to;
            made.uses.push((t.id, uses));
        }
    }

    /// Joins neighbours that are equally full, and then those that differ least, until few are
    /// left.
    fn join_alike(&self, stretches: &mut Vec<KeyStretch>) {
        loop {
            let moved = stretches.windows(2).map(|w| w[0].moved(&w[1])).enumerate();
            let Some((i, least)) = moved.min_by(|a, b| a.1.total_cmp(&b.1)) else { return };
            if least > ALIKE && stretches.len() <= STRETCHES {
                return;
            }
            let next = stretches.remove(i + 1);
            self.join(&mut stretches[i], next);
        }
    }

    /// Joins two ranges.
    fn join(&self, into: &mut KeyStretch, next: KeyStretch) {
        let (lo, hi) = (into.lo, next.hi);
        let distinct =
            |p: &SummaryPart| self.model.populations[p.phase].distinct(p.draws, p.width());
        let mut counts: Vec<f64> = into.parts.iter().map(distinct).collect();
        for p in next.parts {
            match into.parts.iter().position(|q| {
                q.zone == p.zone && q.phase == p.phase && (q.deletes > 0.0) == (p.deletes > 0.0)
            }) {
                Some(i) => {
                    counts[i] += distinct(&p);
                    into.parts[i].join(&p);
                }
                None => {
                    counts.push(distinct(&p));
                    into.parts.push(p);
                }
            }
        }
        for (p, count) in into.parts.iter_mut().zip(counts) {
            p.draws = self.model.populations[p.phase].draws(count, hi - lo);
            (p.lo, p.hi) = (lo, hi);
        }
        (into.lo, into.hi) = (lo, hi);
    }
}

/// An evenly filled range of a table.
struct KeyStretch {
    lo: f64,
    hi: f64,
    parts: Vec<SummaryPart>,
}

impl KeyStretch {
    fn entries(&self) -> f64 {
        self.parts.iter().map(|p| p.puts + p.deletes).sum()
    }

    /// Returns the share of entries that would move if both were joined.
    fn moved(&self, next: &KeyStretch) -> f64 {
        let (a, b, gap) = (self.hi - self.lo, next.hi - next.lo, (next.lo - self.hi).max(0.0));
        let (n, m) = (self.entries(), next.entries());
        let density = (n + m) / (a + b + gap).max(NARROW);
        ((n - density * a).abs() + (m - density * b).abs() + density * gap)
            / (2.0 * (n + m)).max(1e-9)
    }
}

/// A table under construction.
struct OpenRun {
    stretches: Vec<KeyStretch>,
    bytes: f64,
    filter_bits: f64,
    /// Whether some of it, and whether all of it, has no older run below.
    zeroed: (bool, bool),
}

impl Default for OpenRun {
    fn default() -> OpenRun {
        OpenRun { stretches: vec![], bytes: 0.0, filter_bits: 0.0, zeroed: (false, true) }
    }
}

/// Times of new tables and of their inputs.
#[derive(Clone, Copy)]
pub(super) struct SummaryPlace {
    pub(super) now_micros: u64,
    pub(super) newest_micros: u64,
    pub(super) oldest: Option<u64>,
}

/// Returns the smallest and the largest sequence number in a table. They ascend with time, and only
/// their order is used. Entries come at random times of an interval. The fewer they are, the later
/// comes the first, and the earlier the last.
fn seqs(parts: &[SummaryPart], chance: &mut Rng) -> (u64, u64) {
    let mut wait = |n: f64, (from, to): (f64, f64)| {
        ((from - to) * chance.unit_above_zero().ln() / n.max(1.0)).min(to - from)
    };
    let (mut first, mut last) = (f64::MAX, 0f64);
    for p in parts {
        for (n, at) in [(p.puts, p.put_at), (p.deletes, p.deleted_at)] {
            if n > 0.0 {
                first = first.min(at.0 + wait(n, at));
                last = last.max(at.1 - wait(n, at));
            }
        }
    }
    // In microseconds; the casts saturate.
    let seq = |micros: f64| (micros * 1024.0) as u64;
    (seq(first), seq(last).max(seq(first)))
}
