//! Traces of other stores as workloads: who wrote which key, in order, is read once and told as the
//! few numbers that a [`SimWorkload`](crate::workload::SimWorkload) has.
//!
//! Three forms are known by their first line that is one:
//! - CSV with a header that names `key`, and may name `op` (put if it does not), `value_size` in
//!   bytes and `time` in seconds; fields have no quotes;
//! - what RocksDB's `trace_analyzer -convert_to_human_readable_trace` writes of a query trace: key
//!   in hexadecimal digits, number of the operation, column family, bytes of the value,
//!   microseconds;
//! - what YCSB's `basic` binding prints: `UPDATE usertable user42 [ field0=... ]`.
//!
//! A trace that begins with a load, in which next to every key is new, is a load and what comes
//! after it. The skew is that of the Zipfian distribution in which two writes are to the same key
//! as often; the number of keys is the one of which as many would have been written.
//!
//! Invariant: memory is bounded, whatever the trace: keys are known by hashes, and of more than a
//! quarter of a million every second, fourth, ... is watched.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use firn_tools::io::Input;
use firn_tools::output::{Done, Failure, Progress, Style, bytes, count, print_table, row, table};
use firn_workload::rng::mix;
use serde::Serialize;

use crate::report::seconds;
use crate::size::ContentSize;
use crate::workload::{Pattern, SimPhase};

/// Keys that are watched, at most.
const MOST_KEYS: usize = 1 << 18;
/// Bytes of a line, at most.
const MOST_LINE: u64 = 32 << 20;
/// A load is over when so many of so many writes in a row were to keys that had been written.
const REPEATS: (u32, u32) = (64, 256);
/// A skew below this is none that anybody would notice.
const LEAST_SKEW: f64 = 0.2;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TraceOp {
    Put,
    Delete,
    Other,
}

/// One operation of a trace.
struct TraceLine<'a> {
    op: TraceOp,
    key: &'a [u8],
    key_len: usize,
    value_len: u64,
    seconds: Option<f64>,
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
struct Sketcher {
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
    fn take(&mut self, line: &TraceLine<'_>) {
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

    fn end(mut self) -> TraceSketch {
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

/// In what form a trace is.
enum TraceForm {
    /// Places of the columns: key, operation, value_size, time.
    Csv(usize, [Option<usize>; 3]),
    RocksDb,
    Ycsb,
}

impl TraceForm {
    /// The form of which this may be the first line.
    fn of(line: &str) -> Option<TraceForm> {
        let columns: Vec<String> = line.split(',').map(|c| c.trim().to_lowercase()).collect();
        let at = |name: &str| columns.iter().position(|c| c == name);
        if let Some(key) = at("key") {
            return Some(TraceForm::Csv(key, ["op", "value_size", "time"].map(at)));
        }
        [TraceForm::RocksDb, TraceForm::Ycsb].into_iter().find(|form| {
            let mut digits = vec![];
            form.read(line, &mut digits).is_some()
        })
    }

    /// What a line tells; `None` for one that is not of this form. `key` is room for the key.
    fn read<'a>(&self, line: &str, key: &'a mut Vec<u8>) -> Option<TraceLine<'a>> {
        key.clear();
        match self {
            TraceForm::Csv(at, others) => {
                let fields: Vec<&str> = line.split(',').map(str::trim).collect();
                let [op, size, time] = others.map(|at| at.and_then(|at| fields.get(at)).copied());
                key.extend_from_slice(fields.get(*at)?.as_bytes());
                let op = match op.map(str::to_lowercase).as_deref() {
                    None
                    | Some("put" | "set" | "insert" | "update" | "merge" | "add" | "replace") => {
                        TraceOp::Put
                    }
                    Some("delete" | "remove" | "del") => TraceOp::Delete,
                    Some(_) => TraceOp::Other,
                };
                let value_len = size.and_then(|s| s.parse().ok()).unwrap_or(0);
                let seconds = time.and_then(|t| t.parse().ok());
                Some(TraceLine { op, key_len: key.len(), key, value_len, seconds })
            }
            TraceForm::RocksDb => {
                let mut fields = line.split_ascii_whitespace();
                let digits = fields.next()?;
                let digits = digits.strip_prefix("0x").unwrap_or(digits);
                let rest: Vec<u64> =
                    fields.map(|f| f.parse().ok()).collect::<Option<Vec<u64>>>()?;
                let [op, _, value_len, micros] = rest[..] else { return None };
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return None;
                }
                key.extend(digits.bytes().map(|b| b.to_ascii_uppercase()));
                let op = match op {
                    1 | 5 => TraceOp::Put,
                    2 | 3 => TraceOp::Delete,
                    _ => TraceOp::Other,
                };
                let key_len = digits.len().div_ceil(2);
                Some(TraceLine { op, key_len, key, value_len, seconds: Some(micros as f64 / 1e6) })
            }
            TraceForm::Ycsb => {
                let (op, rest) = line.split_once(' ')?;
                let op = match op {
                    "INSERT" | "UPDATE" => TraceOp::Put,
                    "DELETE" => TraceOp::Delete,
                    "READ" | "SCAN" => TraceOp::Other,
                    _ => return None,
                };
                let mut fields = rest.splitn(3, ' ');
                let (_, name) = (fields.next()?, fields.next()?);
                key.extend_from_slice(name.as_bytes());
                // " [ field0=... field1=... ]": the values, without their names.
                let values = fields.next().unwrap_or_default().trim();
                let values = values.strip_prefix('[').unwrap_or(values);
                let values = values.strip_suffix(']').unwrap_or(values).trim();
                let names: usize = values
                    .split(' ')
                    .filter_map(|f| f.split_once('='))
                    .filter(|(name, _)| name.starts_with("field"))
                    .map(|(name, _)| name.len() + 2)
                    .sum();
                let value_len = (values.len() + 1).saturating_sub(names.max(1)) as u64;
                Some(TraceLine { op, key_len: key.len(), key, value_len, seconds: None })
            }
        }
    }
}

/// Reads a trace; `-` is standard input.
///
/// # Errors
/// A file that cannot be read, that is in no form that is known, or that writes nothing.
pub fn read(path: &Path) -> Done<TraceSketch> {
    let file = |e: &std::io::Error| Failure::file("read", path, e);
    let input = Input::open(path).map_err(|e| file(&e))?;
    let (bar, done) = (Progress::bytes("trace", input.len), input.counter());
    let mut input = BufReader::with_capacity(1 << 16, input);
    let (mut form, mut sketcher) = (None, Sketcher::default());
    let (mut line, mut key) = (vec![], vec![]);
    let mut lines = 0u64;
    loop {
        line.clear();
        let n =
            input.by_ref().take(MOST_LINE).read_until(b'\n', &mut line).map_err(|e| file(&e))?;
        if n == 0 {
            break;
        }
        lines += 1;
        if lines.is_multiple_of(1 << 12) {
            bar.at(done.get());
        }
        // What is no text is no line of a trace.
        let Ok(text) = std::str::from_utf8(&line) else { continue };
        let text = text.trim();
        match &form {
            None => {
                form = TraceForm::of(text);
                let first = form.as_ref().filter(|f| !matches!(f, TraceForm::Csv(..)));
                if let Some(line) = first.and_then(|form| form.read(text, &mut key)) {
                    sketcher.take(&line);
                }
            }
            Some(form) => {
                if let Some(line) = form.read(text, &mut key) {
                    sketcher.take(&line);
                }
            }
        }
    }
    let sketch = sketcher.end();
    let next = "CSV with a header as op,key,value_size,time; the text that RocksDB's trace_analyzer makes of a query trace; or what YCSB's basic binding prints";
    match (form, sketch.writes) {
        (None, _) => Err(Failure::with_next(
            format!("{} is no trace in a form that is known", path.display()),
            next,
        )),
        (Some(_), 0) => Err(Failure::with_next(
            format!("{} has no write: there is nothing to compact", path.display()),
            next,
        )),
        _ => Ok(sketch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{SimOp, SimOps, SimWorkload};

    fn ops(keys: u64, phases: Vec<SimPhase>) -> Vec<SimOp> {
        let content = ContentSize { key_len: 8, value_len: (9, 9), random: 0.0, sample: vec![] };
        let workload =
            SimWorkload { keys, phases, content, ttl_micros: 0, seed: 5, per_memtable: None };
        SimOps::new(&workload).collect()
    }

    fn phase(pattern: Pattern, ops: u64, deletes: f64) -> SimPhase {
        SimPhase { pattern, ops, deletes }
    }

    fn sketch(text: &str) -> Done<TraceSketch> {
        let dir = std::env::temp_dir();
        let name = format!("firn-trace-{}-{:x}", std::process::id(), hash(text.as_bytes()));
        let path = dir.join(name);
        firn_tools::io::write(&path, text.as_bytes()).unwrap();
        let sketch = read(&path);
        firn_tools::io::remove(&path).unwrap();
        sketch
    }

    /// The same writes in each form.
    fn forms(ops: &[SimOp]) -> [String; 3] {
        let csv = ops.iter().enumerate().map(|(i, o)| {
            let op = if o.delete { "delete" } else { "put" };
            format!("{op},{:016x},100,{}\n", o.place, i as f64 / 1000.0)
        });
        let rocksdb = ops.iter().enumerate().map(|(i, o)| {
            let (op, size) = if o.delete { (2, 0) } else { (1, 100) };
            format!(
                "0x{:016X} {op} 0 {size} {}\n",
                o.place,
                1_600_000_000_000_000 + i as u64 * 1000
            )
        });
        let ycsb = ops.iter().map(|o| {
            if o.delete {
                format!("DELETE usertable user{}\n", o.place)
            } else {
                let value = "x".repeat(50);
                format!("UPDATE usertable user{} [ field0={value} field1={value} ]\n", o.place)
            }
        });
        [
            "op,key,value_size,time\n".to_owned() + &csv.collect::<String>(),
            rocksdb.collect(),
            "***************** properties *****************\n".to_owned()
                + &ycsb.collect::<String>(),
        ]
    }

    fn near(got: f64, want: f64, within: f64, what: &str) {
        assert!((got - want).abs() <= within, "{what}: {got}, not {want}");
    }

    #[test]
    fn every_form_tells_load_keys_skew_and_deletes() {
        let load = phase(Pattern::Unique, 20_000, 0.0);
        let all = ops(20_000, vec![load, phase(Pattern::Zipfian(0.8), 60_000, 0.1)]);
        for (text, what) in forms(&all).iter().zip(["csv", "rocksdb", "ycsb"]) {
            let s = sketch(text).unwrap();
            assert_eq!((s.writes, s.value_len), (80_000, (100, 100)), "{what}");
            near(s.load as f64, 20_000.0, 200.0, what);
            near(s.keys, 20_000.0, 1.0, what);
            near(s.skew, 0.8, 0.03, what);
            near(s.deletes as f64, 6_000.0, 300.0, what);
            match what {
                "ycsb" => assert_eq!(s.seconds, None),
                _ => near(s.ingest().unwrap(), 100_000.0, 20_000.0, what),
            }
            let (keys, phases) = s.phases();
            assert_eq!(keys, 20_000, "{what}");
            assert_eq!(phases.iter().map(|p| p.ops).sum::<u64>(), 80_000, "{what}");
        }
    }

    #[test]
    fn without_a_load_the_keys_are_found_that_were_not_all_written() {
        for (skew, pattern) in [(0.9, Pattern::Zipfian(0.9)), (0.0, Pattern::Uniform)] {
            let all = ops(50_000, vec![phase(pattern, 60_000, 0.0)]);
            let s = sketch(&forms(&all)[0]).unwrap();
            near(s.skew, skew, 0.06, "skew");
            near(s.keys / 50_000.0, 1.0, 0.25, "keys");
        }
        let s = sketch(&forms(&ops(9000, vec![phase(Pattern::Series(1), 9000, 0.0)]))[0]).unwrap();
        assert!(s.ascending && s.options().contains("sequential"), "{s:?}");
        let s = sketch(&forms(&ops(9000, vec![phase(Pattern::Unique, 9000, 0.0)]))[1]).unwrap();
        assert_eq!((s.load, s.ascending), (9000, false));
        assert!(s.options().contains("--workload insert"), "{s:?}");
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
                seconds: None,
            });
            assert!(s.keys.len() <= MOST_KEYS);
        }
        let s = s.end();
        near(s.written_keys / keys as f64, 1.0, 0.02, "keys");
        assert!(s.skew < 0.25, "{s:?}");
    }

    #[test]
    fn what_is_no_trace_is_refused_and_nothing_panics() {
        for text in
            ["", "hello\nworld\n", "a,b,c\n1,2,3\n", "READ usertable user1 [ <all fields>]\n"]
        {
            assert!(sketch(text).is_err(), "{text:?}");
        }
        let odd = "key,value_size,time\n\n,,\nk\nk,99999999999999999999,nan\nk,18446744073709551615,1e300\n";
        let s = sketch(odd).unwrap();
        assert_eq!(s.writes, 5);
        let (_, phases) = s.phases();
        assert!(phases.iter().all(|p| (0.0..=1.0).contains(&p.deletes)));
    }
}
