//! Summarises the writes and lookups of a trace in the few numbers of a
//! [`SimWorkload`](crate::workload::SimWorkload).
//!
//! If nearly every key is new at the beginning of a trace, that part is a load, and the rest
//! follows it. The skew is that of the Zipfian distribution in which two writes hit the same key
//! equally often. The number of keys is the one that gives as many written keys.
//!
//! Invariant: memory is bounded for any trace. Keys are stored as hashes, and beyond a quarter of a
//! million only every second, fourth, ... is watched.

use std::collections::{BTreeMap, VecDeque};

use firn_tools::output::{Style, bytes, count, print_table, rate, row, table};
use firn_workload::rng::mix;
use serde::Serialize;

use crate::model::size::{ContentSize, mean_len};
use crate::report::text::seconds;
use crate::workload::SimPhase;
use firn_workload::{Distribution, Extent, OperationMix, ValueSize, WorkloadDescription};

/// Maximum number of watched keys.
const MOST_KEYS: usize = 1 << 18;
/// The load ends when this many of this many consecutive writes hit written keys.
const REPEATS: (u32, u32) = (64, 256);
/// A smaller skew has no noticeable effect.
pub(crate) const LEAST_SKEW: f64 = 0.2;
/// The largest skew: that of [`Distribution::Zipfian`] is below 1.
pub(crate) const MOST_SKEW: f64 = 0.999;
/// Maximum repetitions in a line.
const MOST_COUNT: u64 = 1 << 20;
/// Maximum ratio of all keys to hit keys: a larger one has no noticeable effect.
const MOST_UNHIT: f64 = 1e4;

/// Kind of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TraceOp {
    Put,
    Delete,
    /// A lookup of a key.
    Read,
    /// The beginning of a scan.
    Scan,
    #[default]
    Other,
}

/// An operation of a trace.
pub(crate) struct TraceLine<'a> {
    pub(crate) op: TraceOp,
    pub(crate) key: &'a [u8],
    pub(crate) key_len: usize,
    pub(crate) value_len: u64,
    pub(crate) seconds: Option<f64>,
    /// Number of equal operations.
    pub(crate) count: u64,
    /// Seconds until a put expires; 0 for never.
    pub(crate) ttl_secs: u64,
}

impl Default for TraceLine<'_> {
    fn default() -> Self {
        TraceLine {
            op: TraceOp::Other,
            key: b"",
            key_len: 0,
            value_len: 0,
            seconds: None,
            count: 1,
            ttl_secs: 0,
        }
    }
}

/// Summary of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceSketch {
    /// Number of puts and deletes.
    pub writes: u64,
    /// Number of deletes among them.
    pub deletes: u64,
    /// Number of lookups.
    pub reads: u64,
    /// Keys from which lookups choose.
    pub read_keys: f64,
    /// Skew of that choice, 0 for none.
    pub read_skew: f64,
    /// Number of scans.
    pub scans: u64,
    /// Number of other operations.
    pub others: u64,
    /// Number of writes of the initial load.
    pub load: u64,
    /// Number of distinct written keys.
    pub written_keys: f64,
    /// Keys from which the writes after the load choose.
    pub keys: f64,
    /// Skew of that choice, 0 for none.
    pub skew: f64,
    /// Whether every write was to a key above all earlier ones.
    pub ascending: bool,
    /// Mean bytes of a key.
    pub key_len: usize,
    /// Shortest and longest value, in bytes, for which uniform lengths have the same mean and
    /// spread.
    pub value_len: (usize, usize),
    /// Seconds from its first operation to its last, if it has times.
    pub seconds: Option<f64>,
    /// Number of puts that expire.
    pub expiring: u64,
    /// Mean seconds until these expire.
    pub ttl_secs: u64,
}

/// A watched key: operations on it after the load, and whether the load had it.
#[derive(Clone, Copy, Default)]
struct Watched {
    times: u64,
    loaded: bool,
}

/// Keys by their hashes. Only those whose last `shift` bits are 0 are watched.
#[derive(Default)]
struct KeyWatch {
    keys: BTreeMap<u64, Watched>,
    shift: u32,
    /// Number of operations after the load on watched keys.
    watched: u64,
    /// Number of operations after the load on all keys.
    all: u64,
}

impl KeyWatch {
    /// Returns whether a key was seen before; `None` if it is not watched.
    fn seen(&self, key: u64) -> Option<bool> {
        (key.trailing_zeros() >= self.shift).then(|| self.keys.contains_key(&key))
    }

    fn take(&mut self, key: u64, loading: bool, count: u64) {
        let counted = if loading { 0 } else { count };
        self.all += counted;
        if self.seen(key).is_none() {
            return;
        }
        let of = self.keys.entry(key).or_default();
        of.loaded |= loading;
        of.times += counted;
        self.watched += counted;
        if self.keys.len() > MOST_KEYS {
            self.shift += 1;
            let shift = self.shift;
            self.keys.retain(|key, _| key.trailing_zeros() >= shift);
            self.watched = self.keys.values().map(|k| k.times).sum();
        }
    }

    /// Returns the number of keys per watched key.
    fn scale(&self) -> f64 {
        2f64.powi(self.shift as i32)
    }

    /// Returns the number of distinct keys.
    fn different(&self) -> f64 {
        self.keys.len() as f64 * self.scale()
    }

    /// Returns the keys from which operations after the load chose, and the skew of the choice.
    fn choice(&self) -> (f64, f64) {
        let loaded = self.keys.values().filter(|k| k.loaded).count() as f64;
        let touched = self.keys.values().filter(|k| k.times > 0).count() as f64;
        // If the load contained most of the keys, operations choose from it.
        let known = (loaded * 2.0 > self.keys.len() as f64).then_some(self.different());
        let times = self.watched as f64;
        if times <= 1.0 {
            return (self.different(), 0.0);
        }
        let pairs: f64 =
            self.keys.values().map(|k| k.times as f64 * k.times.saturating_sub(1) as f64).sum();
        // The same fraction of keys and of operations is watched.
        let same = pairs / (times * (times - 1.0)) / self.scale();
        fit(self.all as f64, touched * self.scale(), same, known)
    }
}

/// Collects operations.
#[derive(Default)]
pub(crate) struct Sketcher {
    sketch: TraceSketch,
    written: KeyWatch,
    read: KeyWatch,
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
    /// Sum of the times to live.
    ttls: f64,
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
        // Sums of counts fit: a line that says more counts as this many.
        let count = line.count.min(MOST_COUNT);
        let times = count as f64;
        match line.op {
            TraceOp::Put | TraceOp::Delete => self.sketch.writes += count,
            TraceOp::Read => {
                self.sketch.reads += count;
                self.key_bytes += line.key_len as f64 * times;
                return self.read.take(hash(line.key), false, count);
            }
            TraceOp::Scan => return self.sketch.scans += count,
            TraceOp::Other => return self.sketch.others += count,
        }
        self.key_bytes += line.key_len as f64 * times;
        if line.op == TraceOp::Delete {
            self.sketch.deletes += count;
        } else {
            let n = line.value_len as f64;
            let [puts, sum, squares] = self.values;
            self.values = [puts + times, sum + n * times, squares + n * n * times];
            if line.ttl_secs > 0 {
                self.sketch.expiring += count;
                self.ttls += line.ttl_secs as f64 * times;
            }
        }
        if line.key > &self.highest[..] || self.sketch.writes == count {
            self.highest.clear();
            self.highest.extend_from_slice(line.key);
            self.behind += 1;
        }
        let h = hash(line.key);
        if let (Some(again), false) = (self.written.seen(h), self.load_is_over) {
            self.repeats.push_back(again);
            self.repeated += u32::from(again);
            if self.repeats.len() > REPEATS.1 as usize {
                self.repeated -= u32::from(self.repeats.pop_front() == Some(true));
            }
            self.load_is_over = self.repeated >= REPEATS.0;
        }
        self.sketch.load += if self.load_is_over { 0 } else { count };
        self.written.take(h, !self.load_is_over, count);
    }

    pub(crate) fn end(mut self) -> TraceSketch {
        let mut s = std::mem::take(&mut self.sketch);
        s.written_keys = self.written.different();
        s.ascending = s.writes > 1 && self.behind as f64 >= 0.999 * s.writes as f64;
        s.key_len = (self.key_bytes / (s.writes + s.reads).max(1) as f64).round() as usize;
        let [n, sum, squares] = self.values;
        if n > 0.0 {
            let mean = sum / n;
            let spread = (3.0 * (squares / n - mean * mean).max(0.0)).sqrt().min(mean);
            s.value_len = ((mean - spread).round() as usize, (mean + spread).round() as usize);
        }
        s.seconds = self.times.map(|(first, last)| last - first).filter(|s| *s > 0.0);
        s.ttl_secs = (self.ttls / s.expiring.max(1) as f64).round() as u64;
        (s.keys, s.skew) = self.written.choice();
        (s.read_keys, s.read_skew) = self.read.choice();
        s
    }
}

/// Returns the number of keys and the skew for which `writes` hit `touched` keys, and two of them
/// the same one with probability `same`.
fn fit(writes: f64, touched: f64, same: f64, known: Option<f64>) -> (f64, f64) {
    let keys_at = |skew: f64| known.unwrap_or_else(|| Ranks::keys_hit(writes, touched, skew));
    let (mut lo, mut hi) = (0.0, MOST_SKEW);
    for _ in 0..30 {
        let middle = f64::midpoint(lo, hi);
        if Ranks::new(keys_at(middle), middle).same() < same { lo = middle } else { hi = middle }
    }
    let skew = if hi < LEAST_SKEW { 0.0 } else { hi };
    (keys_at(skew), skew)
}

/// Zipfian ranks in groups: number of ranks, and probability of each of them.
pub(crate) struct Ranks(Vec<(f64, f64)>);

impl Ranks {
    fn new(keys: f64, skew: f64) -> Ranks {
        // Single ranks first, then groups that grow by a few percent.
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

    /// Returns the number of keys of which this many writes with this skew hit `touched`.
    pub(crate) fn keys_hit(writes: f64, touched: f64, skew: f64) -> f64 {
        let (mut lo, mut hi) = (touched.max(1.0).ln(), (touched.max(1.0) * MOST_UNHIT).ln());
        for _ in 0..40 {
            let middle = f64::midpoint(lo, hi);
            if Ranks::new(middle.exp(), skew).touched(writes) < touched {
                lo = middle;
            } else {
                hi = middle;
            }
        }
        hi.exp()
    }

    /// Returns the skew with which this many writes hit `touched` of `keys`.
    pub(crate) fn skew_hit(writes: f64, touched: f64, keys: f64) -> f64 {
        let (mut lo, mut hi) = (0.0, MOST_SKEW);
        for _ in 0..30 {
            let middle = f64::midpoint(lo, hi);
            if Ranks::new(keys, middle).touched(writes) > touched {
                lo = middle;
            } else {
                hi = middle;
            }
        }
        hi
    }

    /// Returns the expected number of keys that this many writes hit.
    fn touched(&self, writes: f64) -> f64 {
        self.0.iter().map(|(n, p)| n * -(writes * (-p).ln_1p()).exp_m1()).sum()
    }

    /// Returns the probability that two writes hit the same key.
    fn same(&self) -> f64 {
        self.0.iter().map(|(n, p)| n * p * p).sum()
    }
}

impl TraceSketch {
    /// Returns the number of keys and the phases of an equivalent workload.
    pub fn phases(&self) -> (u64, Vec<SimPhase>) {
        let phase = SimPhase::of;
        if self.ascending {
            return (self.writes, vec![phase(Distribution::Series(1), self.writes, 0.0)]);
        }
        let keys = (self.keys.max(self.written_keys).round() as u64).max(1);
        let later = self.writes - self.load;
        let mut phases = vec![phase(Distribution::Unique, self.load, 0.0)];
        if later > 0 {
            let order = match self.skew {
                skew if skew > 0.0 => Distribution::Zipfian { theta: skew },
                _ => Distribution::Uniform,
            };
            let share = (self.deletes as f64 / later as f64).min(1.0);
            phases.push(phase(order, later, share));
        }
        phases.retain(|p| p.ops > 0);
        (keys, phases)
    }

    /// Returns an equivalent workload for the engine and the simulator that puts about `most` bytes
    /// of keys and values, or fewer if the trace has fewer. A larger trace is scaled down: keys and
    /// operations by the same factor.
    ///
    /// # Errors
    /// If the trace has no write.
    pub fn description(&self, most: u64) -> Result<WorkloadDescription, String> {
        if self.writes == 0 {
            return Err("the trace has no write: there is nothing to compact".to_owned());
        }
        let (lo, hi) = self.value_len;
        let puts = (self.writes - self.deletes) as f64;
        let key_size = self.key_len.max(8);
        let bytes = puts * (mean_len(self.value_len) + key_size as f64);
        let factor = (most as f64 / bytes.max(1.0)).min(1.0);
        let scaled = |n: f64| (n * factor).round().max(1.0) as u64;
        let (keys, phases) = self.phases();
        let mut d = WorkloadDescription {
            about: format!(
                "A trace of {} writes and {} reads, as its summary",
                count(self.writes),
                count(self.reads + self.scans)
            ),
            keys: scaled(keys as f64),
            key_size,
            value_size: Some(ValueSize::Uniform(lo, hi)),
            ..WorkloadDescription::default()
        };
        let last = phases.len().saturating_sub(1);
        let mut steps = vec![];
        for (i, phase) in phases.iter().enumerate() {
            let name = if i < last { "load" } else { "trace" };
            // The reads belong to the phase after the load.
            let reads = |n: u64| if i == last { n as f64 / phase.ops as f64 } else { 0.0 };
            let (gets, scans) = (reads(self.reads), reads(self.scans));
            let mix = OperationMix {
                operations: Extent::Operations(scaled(phase.ops as f64 * (1.0 + gets + scans))),
                distribution: phase.order,
                puts: 1.0 - phase.deletes,
                deletes: phase.deletes,
                gets,
                scans,
                ..OperationMix::default()
            };
            d.phase.insert(name.to_owned(), mix);
            steps.push(name);
        }
        d.steps = steps.join(", wait, ");
        d.check()?;
        Ok(d)
    }

    /// Returns the properties of its keys and values; those that a trace lacks come from `other`.
    pub fn content(&self, other: ContentSize) -> ContentSize {
        let (lo, hi) = self.value_len;
        let value = ValueSize::Uniform(lo, hi);
        ContentSize { key_len: self.key_len.max(8), value, ..other }
    }

    /// Returns the bytes of keys and values written per second, if it has times.
    pub fn ingest(&self) -> Option<f64> {
        let value = mean_len(self.value_len);
        let puts = (self.writes - self.deletes) as f64;
        Some((puts * value + self.writes as f64 * self.key_len as f64) / self.seconds?)
    }

    /// Returns the summary as text.
    pub fn words(&self, style: Style) -> String {
        let mut t = table(&["", "value"]);
        let mut line = |name: &str, value: String| row(&mut t, [name.to_owned(), value]);
        line("writes", count(self.writes));
        line("deletes among them", count(self.deletes));
        line("lookups", count(self.reads));
        line("scans, others", format!("{}, {}", count(self.scans), count(self.others)));
        if self.writes > 0 {
            line("load at the beginning", count(self.load));
            line("keys written", count(self.written_keys as u64));
            line("keys to choose from, after the load", count(self.keys as u64));
            line("skew of the choice (Zipfian)", format!("{:.2}", self.skew));
            line("in the order of keys", if self.ascending { "yes" } else { "no" }.to_owned());
            line("bytes of a value", format!("{} to {}", self.value_len.0, self.value_len.1));
        }
        if self.reads > 0 {
            line("keys that lookups choose from", count(self.read_keys as u64));
            line("skew of their choice (Zipfian)", format!("{:.2}", self.read_skew));
        }
        line("bytes of a key", self.key_len.to_string());
        if self.expiring > 0 {
            let after = seconds(self.ttl_secs as f64);
            line("puts that expire", format!("{}, after {after} on average", count(self.expiring)));
        }
        if let Some(took) = self.seconds {
            line("time", seconds(took));
            line("lookups a second", rate(self.reads as f64 / took));
            line("scans a second", rate(self.scans as f64 / took));
        }
        if let Some(ingest) = self.ingest() {
            line("written a second", bytes(ingest as u64));
        }
        print_table(&t, style)
    }

    /// Returns the closest options of `run`.
    pub fn options(&self) -> String {
        let later = self.writes - self.load;
        let share = if later > 0 { self.deletes as f64 / later as f64 } else { 0.0 };
        let short = |x: f64| (100.0 * x).round() / 100.0;
        let workload = match () {
            () if self.ascending => "sequential".to_owned(),
            () if later == 0 => "insert".to_owned(),
            () if self.skew > 0.0 => format!("zipfian:{}", short(self.skew).min(0.99)),
            () if share > 0.0 => format!("deletes:{}", short(share).clamp(0.01, 0.99)),
            () => "uniform".to_owned(),
        };
        let (lo, hi) = self.value_len;
        let data = self.writes as f64 * (self.key_len as f64 + mean_len(self.value_len));
        let (keys, _) = self.phases();
        let mut text = format!(
            "--workload {workload} --data {} --keys {keys} --key-size {} --value-size {lo}-{hi}",
            data as u64,
            self.key_len.max(8)
        );
        if let Some(ingest) = self.ingest() {
            text += &format!(" --ingest {}", ingest as u64);
        }
        if self.expiring * 2 > self.writes - self.deletes {
            text += &format!(" --ttl-secs {}", self.ttl_secs.max(1));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_length_is_too_much_to_tell() {
        let mut s = Sketcher::default();
        let line = |seconds| TraceLine {
            op: TraceOp::Put,
            key: b"k",
            key_len: usize::MAX,
            value_len: u64::MAX,
            seconds: Some(seconds),
            ..TraceLine::default()
        };
        s.take(&line(0.0));
        s.take(&line(1.0));
        let s = s.end();
        assert!(s.options().contains("--ingest") && s.ingest().unwrap() > 1e19, "{s:?}");
        assert!(s.content(ContentSize::default()).mean_value() > 1e19);
    }

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
                ..TraceLine::default()
            });
            assert!(s.written.keys.len() <= MOST_KEYS);
        }
        let s = s.end();
        assert!((s.written_keys / keys as f64 - 1.0).abs() < 0.02, "{s:?}");
        assert!(s.skew < 0.25, "{s:?}");
    }
}
