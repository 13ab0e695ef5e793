//! Traces of other stores as workloads: who wrote which key, in order, is read once into a
//! [`TraceSketch`].
//!
//! Three forms are known by their first line that is one:
//! - CSV with a header that names `key`, and may name `op` (put if it does not), `value_size` in
//!   bytes and `time` in seconds; fields have no quotes;
//! - what RocksDB's `trace_analyzer -convert_to_human_readable_trace` writes of a query trace: key
//!   in hexadecimal digits, number of the operation, column family, bytes of the value,
//!   microseconds;
//! - what YCSB's `basic` binding prints: `UPDATE usertable user42 [ field0=... ]`.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use firn_tools::io::Input;
use firn_tools::output::{Done, Failure, Progress};

use crate::sketch::{Sketcher, TraceLine, TraceOp, TraceSketch};

/// Bytes of a line, at most.
const MOST_LINE: u64 = 32 << 20;

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
    use crate::size::ContentSize;
    use crate::workload::{Pattern, SimOp, SimOps, SimPhase, SimWorkload};

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
        let thread = std::thread::current().id();
        let name = format!("firn-trace-{}-{thread:?}", std::process::id());
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
            "op,key,value_size,time\n".to_owned() + csv.collect::<String>().as_str(),
            rocksdb.collect(),
            "***************** properties *****************\n".to_owned()
                + ycsb.collect::<String>().as_str(),
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
