//! What a trace tells of its writes, in the few numbers that a
//! [`SimWorkload`](crate::workload::SimWorkload) has.
//!
//! A trace that begins with a load, in which next to every key is new, is a load and what comes
//! after it. The skew is that of the Zipfian distribution in which two writes are to the same key
//! as often; the number of keys is the one of which as many would have been written.
//!
//! Invariant: memory is bounded, whatever the trace: keys are known by hashes, and of more than a
//! quarter of a million every second, fourth, ... is watched.

use std::collections::{BTreeMap, VecDeque};

use firn_tools::output::{Style, bytes, count, print_table, row, table};
use firn_workload::rng::mix;
use serde::Serialize;

use crate::report::seconds;
use crate::size::ContentSize;
use crate::workload::{Pattern, SimPhase};

/// Keys that are watched, at most.
const MOST_KEYS: usize = 1 << 18;
/// A load is over when so many of so many writes in a row were to keys that had been written.
const REPEATS: (u32, u32) = (64, 256);
/// A skew below this is none that anybody would notice.
const LEAST_SKEW: f64 = 0.2;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceOp {
    Put,
    Delete,
    Other,
}

/// One operation of a trace.
pub(crate) struct TraceLine<'a> {
    pub(crate) op: TraceOp,
    pub(crate) key: &'a [u8],
    pub(crate) key_len: usize,
    pub(crate) value_len: u64,
    pub(crate) seconds: Option<f64>,
}

/// What a trace tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceSketch {
    /// Puts and deletes.
    pub writes: u64,
    /// Deletes among them.
    pub deletes: u64,
    /// Other operations, which change nothing.
    pub others: u64,
    /// Writes of the load that it begins with.
    pub load: u64,
    /// Different keys that were written.
    pub written_keys: f64,
    /// Keys that its writes after the load choose from.
    pub keys: f64,
    /// The skew of these, 0 for none.
    pub skew: f64,
    /// Whether every write was to a key behind all before.
    pub ascending: bool,
    /// Mean bytes of a key.
    pub key_len: usize,
    /// Shortest and longest value, in bytes, between which lengths that are even have the same mean
    /// and spread.
    pub value_len: (usize, usize),
    /// Seconds from its first operation to its last, where it tells.
    pub seconds: Option<f64>,
}

/// A key that is watched: writes in all, and those of the load.
#[derive(Clone, Copy, Default)]
struct Watched {
    writes: u64,
    loaded: bool,
}

/// Takes in operations.
#[derive(Default)]
pub(crate) struct Sketcher {
    sketch: TraceSketch,
    /// Keys by their hashes, of which the last `shift` bits are 0.
    keys: BTreeMap<u64, Watched>,
    shift: u32,
    /// Writes since the load, of keys that are watched, and of all.
    later: [u64; 2],
    /// Which of the last watched writes were repeats.
    repeats: VecDeque<bool>,
    repeated: u32,
    load_is_over: bool,
    highest: Vec<u8>,
    behind: u64,
    key_bytes: f64,
    /// Count, sum and sum of squares of the values' lengths.
    values: [f64; 3],
    times: Option<(f64, f64)>,
}

fn hash(key: &[u8]) -> u64 {
    key.chunks(8).fold(key.len() as u64, |h, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        mix(h ^ u64::from_le_bytes(word))
    })
}

impl Sketcher {
    pub(crate) fn take(&mut self, line: &TraceLine<'_>) {
        if let Some(t) = line.seconds.filter(|t| t.is_finite()) {
            let (first, last) = self.times.unwrap_or((t, t));
            self.times = Some((first.min(t), last.max(t)));
        }
        if line.op == TraceOp::Other {
            self.sketch.others += 1;
            return;
        }
        self.sketch.writes += 1;
        self.key_bytes += line.key_len as f64;
        if line.op == TraceOp::Delete {
            self.sketch.deletes += 1;
        } else {
            let n = line.value_len as f64;
            self.values = [self.values[0] + 1.0, self.values[1] + n, self.values[2] + n * n];
        }
        if line.key > &self.highest[..] || self.sketch.writes == 1 {
            self.highest.clear();
            self.highest.extend_from_slice(line.key);
            self.behind += 1;
        }
        let h = hash(line.key);
        let is_watched = h.trailing_zeros() >= self.shift;
        if is_watched && !self.load_is_over {
            let again = self.keys.contains_key(&h);
            self.repeats.push_back(again);
            self.repeated += u32::from(again);
            if self.repeats.len() > REPEATS.1 as usize {
                self.repeated -= u32::from(self.repeats.pop_front() == Some(true));
            }
            self.load_is_over = self.repeated >= REPEATS.0;
        }
        if self.load_is_over {
            self.later[1] += 1;
        } else {
            self.sketch.load += 1;
        }
        if !is_watched {
            return;
        }
        let loading = !self.load_is_over;
        let key = self.keys.entry(h).or_default();
        if loading {
            key.loaded = true;
        } else {
            key.writes += 1;
            self.later[0] += 1;
        }
        if self.keys.len() > MOST_KEYS {
            self.shift += 1;
            let shift = self.shift;
            self.keys.retain(|h, _| h.trailing_zeros() >= shift);
            self.later[0] = self.keys.values().map(|k| k.writes).sum();
        }
    }

    pub(crate) fn end(mut self) -> TraceSketch {
        let mut s = std::mem::take(&mut self.sketch);
        let scale = 2f64.powi(self.shift as i32);
        s.written_keys = self.keys.len() as f64 * scale;
        s.ascending = s.writes > 1 && self.behind as f64 >= 0.999 * s.writes as f64;
        s.key_len = (self.key_bytes / s.writes.max(1) as f64).round() as usize;
        let [n, sum, squares] = self.values;
        if n > 0.0 {
            let mean = sum / n;
            let spread = (3.0 * (squares / n - mean * mean).max(0.0)).sqrt().min(mean);
            s.value_len = ((mean - spread).round() as usize, (mean + spread).round() as usize);
        }
        s.seconds = self.times.map(|(first, last)| last - first).filter(|s| *s > 0.0);
        let loaded = self.keys.values().filter(|k| k.loaded).count() as f64;
        let touched = self.keys.values().filter(|k| k.writes > 0).count() as f64;
        // A load that brought most of what is written brought what the writes choose from.
        let known = (loaded * 2.0 > self.keys.len() as f64).then_some(s.written_keys);
        let writes = self.later[0] as f64;
        let pairs: f64 =
            self.keys.values().map(|k| k.writes as f64 * k.writes.saturating_sub(1) as f64).sum();
        (s.keys, s.skew) = if writes > 1.0 {
            // Watched keys are so many of all, and so are the writes to them.
            let same = pairs / (writes * (writes - 1.0)) / scale;
            fit(self.later[1] as f64, touched * scale, same, known)
        } else {
            (s.written_keys, 0.0)
        };
        s
    }
}

/// The keys and the skew of which `writes` hit `touched` keys, and two of them the same one with
/// the chance `same`.
fn fit(writes: f64, touched: f64, same: f64, known: Option<f64>) -> (f64, f64) {
    let keys_at = |skew: f64| {
        known.unwrap_or_else(|| {
            let (mut lo, mut hi) = (touched.max(1.0).ln(), (touched.max(1.0) * 1e4).ln());
            for _ in 0..40 {
                let middle = f64::midpoint(lo, hi);
                if Ranks::new(middle.exp(), skew).touched(writes) < touched {
                    lo = middle;
                } else {
                    hi = middle;
                }
            }
            hi.exp()
        })
    };
    let (mut lo, mut hi) = (0.0, 0.999);
    for _ in 0..30 {
        let middle = f64::midpoint(lo, hi);
        if Ranks::new(keys_at(middle), middle).same() < same { lo = middle } else { hi = middle }
    }
    let skew = if hi < LEAST_SKEW { 0.0 } else { hi };
    (keys_at(skew), skew)
}

/// Zipfian ranks in parts: how many ranks, and the chance of each of them.
struct Ranks(Vec<(f64, f64)>);

impl Ranks {
    fn new(keys: f64, skew: f64) -> Ranks {
        // The first one by one, then in parts that grow by a few percent.
        let (mut parts, mut from) = (vec![], 1.0);
        while from <= keys {
            let to = if from < 64.0 { from + 1.0 } else { (from * 1.04).floor() }.min(keys + 1.0);
            let (n, middle) = (to - from, (from + to - 1.0) / 2.0);
            parts.push((n, middle.powf(-skew)));
            from = to;
            if n < 1.0 {
                break;
            }
        }
        let all: f64 = parts.iter().map(|(n, w)| n * w).sum();
        parts.iter_mut().for_each(|(_, w)| *w /= all);
        Ranks(parts)
    }

    /// Keys that so many writes hit.
    fn touched(&self, writes: f64) -> f64 {
        self.0.iter().map(|(n, p)| n * -(writes * (-p).ln_1p()).exp_m1()).sum()
    }

    /// The chance that two writes hit the same key.
    fn same(&self) -> f64 {
        self.0.iter().map(|(n, p)| n * p * p).sum()
    }
}

impl TraceSketch {
    /// The number of keys and the phases of a workload like this.
    pub fn phases(&self) -> (u64, Vec<SimPhase>) {
        let phase = |pattern, ops, deletes| SimPhase { pattern, ops, deletes };
        if self.ascending {
            return (self.writes, vec![phase(Pattern::Series(1), self.writes, 0.0)]);
        }
        let keys = (self.keys.max(self.written_keys).round() as u64).max(1);
        let later = self.writes - self.load;
        let mut phases = vec![phase(Pattern::Unique, self.load, 0.0)];
        if later > 0 {
            let pattern =
                if self.skew > 0.0 { Pattern::Zipfian(self.skew) } else { Pattern::Uniform };
            phases.push(phase(pattern, later, self.deletes as f64 / later as f64));
        }
        phases.retain(|p| p.ops > 0);
        phases.iter_mut().for_each(|p| p.deletes = p.deletes.min(1.0));
        (keys, phases)
    }

    /// What its keys and values look like, where those of `other` are not told by a trace.
    pub fn content(&self, other: ContentSize) -> ContentSize {
        ContentSize { key_len: self.key_len.max(8), value_len: self.value_len, ..other }
    }

    /// Bytes of keys and values that it writes a second, where it tells.
    pub fn ingest(&self) -> Option<f64> {
        let value = (self.value_len.0 + self.value_len.1) as f64 / 2.0;
        let puts = (self.writes - self.deletes) as f64;
        Some((puts * value + self.writes as f64 * self.key_len as f64) / self.seconds?)
    }

    /// What it tells, for people.
    pub fn words(&self, style: Style) -> String {
        let mut t = table(&["", "value"]);
        let mut line = |name: &str, value: String| row(&mut t, [name.to_owned(), value]);
        line("writes", count(self.writes));
        line("deletes among them", count(self.deletes));
        line("reads and others", count(self.others));
        line("load at the beginning", count(self.load));
        line("keys written", count(self.written_keys as u64));
        line("keys to choose from, after the load", count(self.keys as u64));
        line("skew of the choice (Zipfian)", format!("{:.2}", self.skew));
        line("in the order of keys", if self.ascending { "yes" } else { "no" }.to_owned());
        line("bytes of a key", self.key_len.to_string());
        line("bytes of a value", format!("{} to {}", self.value_len.0, self.value_len.1));
        if let (Some(took), Some(ingest)) = (self.seconds, self.ingest()) {
            line("time", seconds(took));
            line("written a second", bytes(ingest as u64));
        }
        print_table(&t, style)
    }

    /// The options of `run` that come nearest.
    pub fn options(&self) -> String {
        let later = self.writes - self.load;
        let share = if later > 0 { self.deletes as f64 / later as f64 } else { 0.0 };
        let workload = match () {
            () if self.ascending => "sequential".to_owned(),
            () if later == 0 => "insert".to_owned(),
            () if self.skew > 0.0 => format!("zipfian:{:.2}", self.skew),
            () if share > 0.0 => format!("deletes:{:.2}", share.min(0.99)),
            () => "uniform".to_owned(),
        };
        let (lo, hi) = self.value_len;
        let data = self.writes as f64 * (self.key_len as f64 + (lo + hi) as f64 / 2.0);
        let (keys, _) = self.phases();
        let mut text = format!(
            "--workload {workload} --data {} --keys {keys} --key-size {} --value-size {lo}-{hi}",
            data as u64,
            self.key_len.max(8)
        );
        if let Some(ingest) = self.ingest() {
            text += &format!(" --ingest {}", ingest as u64);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_what_is_left_tells_the_same() {
        let mut s = Sketcher::default();
        let keys = MOST_KEYS as u64 * 3;
        let ops = (0..keys).chain((0..keys).map(|i| mix(i) % keys));
        for i in ops {
            let key = i.to_be_bytes();
            s.take(&TraceLine {
                op: TraceOp::Put,
                key: &key,
                key_len: 8,
                value_len: 1,
                seconds: None,
            });
            assert!(s.keys.len() <= MOST_KEYS);
        }
        let s = s.end();
        assert!((s.written_keys / keys as f64 - 1.0).abs() < 0.02, "{s:?}");
        assert!(s.skew < 0.25, "{s:?}");
    }
}
