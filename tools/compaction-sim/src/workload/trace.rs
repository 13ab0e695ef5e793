//! Traces of other stores as workloads: reads the operations and keys, in order, once into a
//! [`TraceSketch`].
//!
//! The header identifies RocksDB's binary traces, of queries and of blocks. The first matching line
//! identifies one of five text forms:
//! - CSV with a header that names `key`, and may name `op` (put by default), `value_size` in bytes
//!   and `time` in seconds; fields have no quotes;
//! - the output of RocksDB's `trace_analyzer -convert_to_human_readable_trace` for a query trace:
//!   key in hexadecimal digits, number of the operation, column family, bytes of the value,
//!   microseconds;
//! - the output of its `block_cache_trace_analyzer -human_readable_trace_file_path` for a trace of
//!   blocks: 21 columns without a header, microseconds first. It contains only lookups, and each
//!   counts once, however many blocks it reads;
//! - the output of YCSB's `basic` binding: `UPDATE usertable user42 [ field0=... ]`;
//! - Twitter's cache traces: seven columns without a header, `timestamp,key,key size,value
//!   size,client,operation,TTL`. A key may contain commas.
//!
//! The CSV files of Meta's CacheLib are CSV with a header: `key,op,size,op_count,key_size`, and later
//! `op_time,key,key_size,op,op_count,size,cache_hits,ttl`. Their columns have these names here, too:
//! `size` for `value_size`, `op_time` for `time`, `op_count` for the repetitions of an operation.
//!
//! A file may be compressed with gzip or Zstandard.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use firn_tools::io::Input;
use firn_tools::output::{Done, Failure, Progress};

use crate::workload::compressed::{MAGIC_LEN, decompressed};
use crate::workload::rocksdb_trace::{self, is_lookup, is_new};
use crate::workload::sketch::{Sketcher, TraceLine, TraceOp, TraceSketch};

/// The forms, for help texts.
pub const FORMS: &str = "\
CSV with a header as op,key,value_size,time (op, value_size and time may be missing; seconds; no quotes); RocksDB's binary
traces of queries and of blocks (DB::StartTrace, DB::StartBlockCacheTrace), and the texts that `trace_analyzer
-convert_to_human_readable_trace` and `block_cache_trace_analyzer -human_readable_trace_file_path=...` make of them; what
YCSB's basic binding prints (`ycsb run basic -p basicdb.verbose=true`); Twitter's cache traces (CSV of seven columns without a
header); the key-value traces of Meta's CacheLib (CSV with key, op, size, op_count). Files may be compressed: .gz, .zst. A get of
a cache is a lookup. A set, add, replace, cas, append, prepend, incr or decr is a put, whether it succeeded or not";

/// Maximum bytes of a line.
const MOST_LINE: u64 = 32 << 20;

/// Form of a trace.
enum TraceForm {
    /// Indexes of the columns: key, operation, value_size, time, count, key_size, ttl.
    Csv(usize, [Option<usize>; 6]),
    Twitter,
    RocksDb,
    RocksDbBlocks,
    Ycsb,
}

/// Columns of the text of a block trace, and the used ones: the time, the family, the caller, the
/// lookup, its key, and the bytes of the key.
const BLOCK_COLUMNS: usize = 21;
const BLOCK_FIELDS: [usize; 6] = [0, 4, 8, 10, 11, 19];
/// Bytes of a version after each key there.
const VERSION: usize = 8;

impl TraceForm {
    /// Returns the form whose first line this may be.
    fn of(line: &str) -> Option<TraceForm> {
        let columns: Vec<String> = line.split(',').map(|c| c.trim().to_lowercase()).collect();
        let at = |name: &str| columns.iter().position(|c| c == name);
        if let Some(key) = at("key") {
            let others = [
                at("op"),
                at("value_size").or(at("size")),
                at("time").or(at("op_time")),
                at("op_count"),
                at("key_size"),
                at("ttl"),
            ];
            return Some(TraceForm::Csv(key, others));
        }
        [TraceForm::Twitter, TraceForm::RocksDb, TraceForm::RocksDbBlocks, TraceForm::Ycsb]
            .into_iter()
            .find(|form| form.read(line, &mut vec![], &mut VecDeque::new()).is_some())
    }

    /// Parses a line; returns `None` if it does not have this form. `key` is a buffer for the key,
    /// `lookups` has the last ones of a block trace.
    fn read<'a>(
        &self,
        line: &str,
        key: &'a mut Vec<u8>,
        lookups: &mut VecDeque<u64>,
    ) -> Option<TraceLine<'a>> {
        key.clear();
        match self {
            TraceForm::Csv(at, others) => {
                let fields: Vec<&str> = line.split(',').map(str::trim).collect();
                let [op, size, time, count, key_size, ttl] =
                    others.map(|at| at.and_then(|at| fields.get(at)).copied());
                key.extend_from_slice(fields.get(*at)?.as_bytes());
                let op = op.map_or(TraceOp::Put, operation);
                // Programs also write whole numbers as 100.0.
                let number = |text: Option<&str>| match text {
                    None | Some("") => Some(None),
                    Some(text) => text.parse::<f64>().ok().map(Some),
                };
                // Casts saturate. Negative numbers and NaN fit no column of counts.
                let positive = |text: Option<&str>, missing: u64| {
                    let n = number(text)?;
                    n.map_or(Some(missing), |n| (n >= 0.0).then_some(n as u64))
                };
                Some(TraceLine {
                    op,
                    value_len: positive(size, 0)?,
                    count: positive(count, 1)?,
                    ttl_secs: positive(ttl, 0)?,
                    key_len: positive(key_size, key.len() as u64)? as usize,
                    key,
                    seconds: number(time)?,
                })
            }
            TraceForm::Twitter => {
                let (seconds, rest) = line.split_once(',')?;
                // From the end, because a key may contain commas.
                let mut fields = rest.rsplitn(6, ',');
                let (ttl, op, client) = (fields.next()?, fields.next()?, fields.next()?);
                let (value_len, key_len) = (fields.next()?, fields.next()?);
                key.extend_from_slice(fields.next()?.as_bytes());
                client.parse::<u64>().ok()?;
                let op = Some(operation(op)).filter(|op| *op != TraceOp::Other)?;
                Some(TraceLine {
                    op,
                    key_len: key_len.parse().ok()?,
                    key,
                    value_len: value_len.parse().ok()?,
                    ttl_secs: ttl.parse().ok()?,
                    seconds: Some(seconds.parse::<u64>().ok()? as f64),
                    ..TraceLine::default()
                })
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
                    0 | 8 => TraceOp::Read,
                    6 | 7 => TraceOp::Scan,
                    _ => TraceOp::Other,
                };
                Some(TraceLine {
                    op,
                    key_len: digits.len().div_ceil(2),
                    key,
                    value_len,
                    seconds: Some(micros as f64 / 1e6),
                    ..TraceLine::default()
                })
            }
            TraceForm::RocksDbBlocks => {
                let fields: Vec<&str> = line.split(',').collect();
                if fields.len() != BLOCK_COLUMNS {
                    return None;
                }
                let mut numbers = [0u64; BLOCK_FIELDS.len()];
                for (number, at) in numbers.iter_mut().zip(BLOCK_FIELDS) {
                    *number = fields[at].parse().ok()?;
                }
                let [micros, family, caller, lookup, id, key_len] = numbers;
                let counts = is_lookup(caller) && is_new(lookups, lookup);
                let op = if counts { TraceOp::Read } else { TraceOp::Other };
                key.extend([family.to_be_bytes(), id.to_be_bytes()].concat());
                let key_len = (key_len as usize).saturating_sub(VERSION);
                Some(TraceLine {
                    op,
                    key,
                    key_len,
                    seconds: Some(micros as f64 / 1e6),
                    ..TraceLine::default()
                })
            }
            TraceForm::Ycsb => {
                let (op, rest) = line.split_once(' ')?;
                let op = match op {
                    "INSERT" | "UPDATE" => TraceOp::Put,
                    "DELETE" => TraceOp::Delete,
                    "READ" => TraceOp::Read,
                    "SCAN" => TraceOp::Scan,
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
                Some(TraceLine { op, key_len: key.len(), key, value_len, ..TraceLine::default() })
            }
        }
    }
}

/// Returns the kind of an operation by its name in CSV files.
fn operation(name: &str) -> TraceOp {
    match name.to_lowercase().as_str() {
        "put" | "insert" | "update" | "merge" | "set" | "set_lease" | "add" | "replace" | "cas"
        | "append" | "prepend" | "incr" | "decr" => TraceOp::Put,
        "delete" | "remove" | "del" => TraceOp::Delete,
        "get" | "gets" | "get_lease" | "read" | "lookup" => TraceOp::Read,
        "scan" | "seek" => TraceOp::Scan,
        _ => TraceOp::Other,
    }
}

/// Reads a trace, which may be compressed; `-` is standard input.
///
/// # Errors
/// A file that cannot be read, that is damaged or has no known form, or that has no operation.
pub fn read(path: &Path) -> Done<TraceSketch> {
    let file = |e: std::io::Error| Failure::file("read", path, &e);
    let mut input = Input::open(path).map_err(file)?;
    let (bar, done) = (Progress::bytes("trace", input.len), input.counter());
    let mut first = vec![];
    input.by_ref().take(MAGIC_LEN as u64).read_to_end(&mut first).map_err(file)?;
    let mut input = decompressed(&first.clone(), Cursor::new(first).chain(input));
    let mut first = vec![];
    input.by_ref().take(rocksdb_trace::FIRST as u64).read_to_end(&mut first).map_err(file)?;
    let is_binary = rocksdb_trace::is_begun_by(&first);
    let mut input = BufReader::with_capacity(1 << 16, Cursor::new(first).chain(input));
    let mut sketcher = Sketcher::default();
    let is_known = if is_binary {
        rocksdb_trace::read(&mut input, path, &mut sketcher, &mut |_| bar.at(done.get()))?;
        true
    } else {
        read_lines(&mut input, path, &mut sketcher, &mut || bar.at(done.get()))?
    };
    let sketch = sketcher.end();
    if !is_known {
        let what = format!("{} is no trace in a form that is known", path.display());
        return Err(Failure::with_next(what, FORMS.replace('\n', " ")));
    }
    if sketch.writes + sketch.reads + sketch.scans == 0 {
        let what = format!("{} has neither writes nor reads", path.display());
        return Err(Failure::with_next(what, "trace a store while it is used"));
    }
    Ok(sketch)
}

/// Reads a text trace. Returns whether it has a known form. Programs print other lines among those
/// of a trace; a CSV file with a line that does not fit its header is refused.
fn read_lines(
    input: &mut impl BufRead,
    path: &Path,
    sketcher: &mut Sketcher,
    at: &mut dyn FnMut(),
) -> Done<bool> {
    let file = |e: std::io::Error| Failure::file("read", path, &e);
    let mut form: Option<TraceForm> = None;
    let (mut line, mut key, mut lookups) = (vec![], vec![], VecDeque::new());
    let mut lines = 0u64;
    loop {
        line.clear();
        if input.by_ref().take(MOST_LINE).read_until(b'\n', &mut line).map_err(file)? == 0 {
            return Ok(form.is_some());
        }
        lines += 1;
        if lines.is_multiple_of(1 << 12) {
            at();
        }
        // A line that is not text is no line of a trace.
        let Ok(text) = std::str::from_utf8(&line) else { continue };
        let text = text.trim();
        if form.is_none() {
            form = TraceForm::of(text);
            // A header is no operation.
            if matches!(form, Some(TraceForm::Csv(..))) {
                continue;
            }
        }
        match form.as_ref().and_then(|f| f.read(text, &mut key, &mut lookups)) {
            Some(line) => sketcher.take(&line),
            None if matches!(form, Some(TraceForm::Csv(..))) && !text.is_empty() => {
                let what = format!("line {lines} of {} does not fit its header", path.display());
                return Err(Failure::with_next(
                    what,
                    "each has a key; value_size is a number of bytes, time one of seconds, and \
                     fields have no quotes",
                ));
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::size::ContentSize;
    use crate::workload::{SimOp, SimOps, SimPhase, SimWorkload};
    use firn_workload::{Distribution, ValueSize};

    const ZIPF: Distribution = Distribution::Zipfian { theta: 0.8 };

    fn ops(keys: u64, phases: Vec<SimPhase>) -> Vec<SimOp> {
        let value = ValueSize::Fixed(9);
        let content = ContentSize { key_len: 8, value, ..ContentSize::default() };
        let workload =
            SimWorkload { keys, phases, content, ttl_micros: 0, seed: 5, per_memtable: None };
        SimOps::new(&workload).collect()
    }

    fn sketch(text: &str) -> Done<TraceSketch> {
        sketch_of(text.as_bytes())
    }

    fn sketch_of(content: &[u8]) -> Done<TraceSketch> {
        let dir = std::env::temp_dir();
        let thread = std::thread::current().id();
        let name = format!("firn-trace-{}-{thread:?}", std::process::id());
        let path = dir.join(name);
        firn_tools::io::write(&path, content).unwrap();
        let sketch = read(&path);
        firn_tools::io::remove(&path).unwrap();
        sketch
    }

    /// Returns the same writes in each form.
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
        let load = SimPhase::of(Distribution::Unique, 20_000, 0.0);
        let all = ops(20_000, vec![load, SimPhase::of(ZIPF, 60_000, 0.1)]);
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
        for skew in [0.9, 0.0] {
            let order = match skew {
                0.0 => Distribution::Uniform,
                theta => Distribution::Zipfian { theta },
            };
            let all = ops(50_000, vec![SimPhase::of(order, 60_000, 0.0)]);
            let s = sketch(&forms(&all)[0]).unwrap();
            near(s.skew, skew, 0.06, "skew");
            near(s.keys / 50_000.0, 1.0, 0.25, "keys");
        }
        let s =
            sketch(&forms(&ops(9000, vec![SimPhase::of(Distribution::Series(1), 9000, 0.0)]))[0])
                .unwrap();
        assert!(s.ascending && s.options().contains("sequential"), "{s:?}");
        let s = sketch(&forms(&ops(9000, vec![SimPhase::of(Distribution::Unique, 9000, 0.0)]))[1])
            .unwrap();
        assert_eq!((s.load, s.ascending), (9000, false));
        assert!(s.options().contains("--workload insert"), "{s:?}");
    }

    /// RocksDB 11.8 wrote both. The first has 40 puts, 2 deletes, a range deletion, a batch of 2
    /// puts and a delete, 10 lookups, 3 seeks and a lookup of 2 keys. The second has 20 lookups,
    /// one of 2 keys in one block, a scan and a compaction.
    const REAL: [&[u8]; 2] = [
        include_bytes!("../../tests/data/rocksdb-query.trace"),
        include_bytes!("../../tests/data/rocksdb-blocks.trace"),
    ];

    fn taken(mut bytes: &[u8]) -> Result<Sketcher, String> {
        let mut sketcher = Sketcher::default();
        assert!(rocksdb_trace::is_begun_by(bytes));
        rocksdb_trace::read(&mut bytes, Path::new("t"), &mut sketcher, &mut |_| ())
            .map_err(|e| format!("{e:?}"))?;
        Ok(sketcher)
    }

    #[test]
    fn rocksdbs_own_traces_are_read() {
        let [queries, blocks] = REAL.map(|bytes| taken(bytes).unwrap().end());
        assert_eq!((queries.writes, queries.deletes, queries.reads), (45, 3, 12));
        assert_eq!((queries.scans, queries.others, queries.key_len), (3, 1, 8));
        assert_eq!(queries.written_keys, 40.0);
        near(queries.read_keys, 4.0, 1.1, "keys that are looked up");
        let (least, most) = queries.value_len;
        assert!(least < 20 && most > 20 && most < 30 && queries.seconds.is_some());
        assert_eq!((blocks.writes, blocks.reads, blocks.key_len), (0, 21, 8));
    }

    #[test]
    fn damage_is_reported_with_its_place() {
        for bytes in REAL {
            for len in rocksdb_trace::FIRST..bytes.len() {
                // A prefix of whole records is a trace.
                if let Err(e) = taken(&bytes[..len]) {
                    assert!(e.contains("at byte") && e.contains("head -c"), "{e}");
                }
            }
            let cut = taken(&bytes[..bytes.len() - 20]).err().unwrap_or_default();
            assert!(cut.contains("ends within a record"), "{cut}");
            for at in 0..bytes.len() {
                for with in [0u8, 1, 0x7f, 0xff] {
                    let mut bytes = bytes.to_vec();
                    bytes[at] = with;
                    if rocksdb_trace::is_begun_by(&bytes) {
                        drop(taken(&bytes));
                    }
                }
            }
        }
        let mut long = REAL[0].to_vec();
        long.truncate(0x68);
        long.extend([0; 8].iter().chain(&[3, 0xff, 0xff, 0xff, 0xff]));
        let refused = taken(&long).err().unwrap_or_default();
        assert!(refused.contains("at byte 104, after 1 records"), "{refused}");
    }

    #[test]
    fn a_lookup_counts_once_however_many_blocks_it_asks_for() {
        let line = |time: u64, kind: u64, caller: u64, lookup: u64, key: u64| {
            format!(
                "{time},7,{kind},4096,0,default,1,11,{caller},0,{lookup},{key},40,1,1,40,0,0,17,24,0\n"
            )
        };
        let mut text = String::new();
        for i in 0..1000 {
            // An index block and a data block of one lookup; a concurrent compaction.
            let key = i * i % 100;
            text += &line(i * 1000, 7, 1, i + 1, key);
            text += &line(i * 1000 + 1, 9, 1, i + 1, key);
            text += &line(i * 1000 + 2, 9, 10, 0, 0);
        }
        let s = sketch(&text).unwrap();
        assert_eq!((s.reads, s.writes, s.key_len), (1000, 0, 16));
        near(s.read_keys, 22.0, 1.1, "squares modulo 100");
    }

    #[test]
    fn a_size_of_a_csv_file_is_a_number_or_the_file_is_refused() {
        let s =
            sketch("op,key,value_size,time\nput,a,100.0,1\ndelete,b,,2\n\nput,c,100\n").unwrap();
        assert_eq!((s.writes, s.value_len, s.seconds), (3, (100, 100), Some(1.0)));
        for wrong in ["put,a,1k,0", "put,a,-5,0", "put,a,\"100\",0", "put,a,1,noon", "put"] {
            let text = format!("op,key,value_size,time\nput,a,100,0\n{wrong}\nput,b,100,1\n");
            let refused = format!("{:?}", sketch(&text).unwrap_err());
            assert!(refused.contains("line 3 of"), "{wrong}: {refused}");
        }
    }

    /// Hand-made lines in the format that the repository of the traces documents.
    const TWITTER: &str = "\
0,nz:u:eeW511W3dcH3de3d15ec,22,304,4,get,0
0,q:q:1:8WTfjZU14ee,17,213,4,set,86400
1,a,b,c,5,10,7,gets,0
1,a,b,c,5,30,7,cas,3600
2,k1,2,8,1,incr,0
2,k1,2,0,1,delete,0
2,k2,2,50,1,add,600
3,k3,2,60,1,replace,0
3,k3,2,5,1,append,0
4,k3,2,5,1,prepend,0
9,k3,2,1,1,decr,0
";

    #[test]
    fn twitters_cache_traces_are_read() {
        let s = sketch(TWITTER).unwrap();
        assert_eq!((s.writes, s.deletes, s.reads, s.others), (9, 1, 2, 0));
        assert_eq!((s.expiring, s.ttl_secs), (3, (86_400 + 3600 + 600) / 3));
        assert_eq!((s.seconds, s.written_keys), (Some(9.0), 5.0));
        assert!(!s.options().contains("ttl-secs"), "fewer than half of the puts expire");
        // A damaged line, and one of another program, count as nothing.
        let odd = format!("# cluster 52\n{TWITTER}5,k,1,-2,1,set,0\n5,k,1,2,1,touch,0\n5,k,1,2\n");
        assert_eq!(sketch(&odd).unwrap(), s);
    }

    #[test]
    fn cachelibs_traces_are_read() {
        // Formats of 202206, 202210 and 202401: the later ones have more columns, in another order.
        let first = "key,op,size,op_count,key_size\n\
                     1668757755,SET,82,1,40\n1668757755,GET,82,3,40\n1665497896,GET_LEASE,0,18,78\n\
                     1665497896,SET_LEASE,169,1,78\n1665497896,DELETE,0,2,78\n";
        let s = sketch(first).unwrap();
        assert_eq!((s.writes, s.deletes, s.reads, s.seconds), (4, 2, 21, None));
        assert_eq!((s.written_keys, s.key_len), (2.0, 72));
        let second = "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n\
                      564726470,798057486,83,GET,1,62,1,0\n564726472,798057486,83,SET,1,62,,7200\n\
                      564726480,5,83,SET,2,64,,3600\n";
        let s = sketch(second).unwrap();
        assert_eq!((s.writes, s.reads, s.key_len, s.seconds), (3, 1, 83, Some(10.0)));
        assert_eq!((s.expiring, s.ttl_secs), (3, 4800));
        assert!(s.options().ends_with("--ttl-secs 4800"), "{}", s.options());
        let third =
            second.replace("ttl\n", "ttl,usecase,sub_usecase\n").replace("00\n", "00,3,4\n");
        assert_eq!(sketch(&third.replace(",1,0\n", ",1,0,3,4\n")).unwrap(), s);
    }

    #[test]
    fn compressed_traces_are_the_same() {
        use std::io::Write;
        let plain = sketch(TWITTER).unwrap();
        let gzip = |text: &str| {
            let mut w = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
            w.write_all(text.as_bytes()).unwrap();
            w.finish().unwrap()
        };
        let level = ruzstd::encoding::CompressionLevel::Uncompressed;
        let zstd = |text: &str| ruzstd::encoding::compress_to_vec(text.as_bytes(), level);
        let (half, rest) = TWITTER.split_at(TWITTER.len() / 2);
        for whole in [gzip(TWITTER), zstd(TWITTER)] {
            assert_eq!(sketch_of(&whole).unwrap(), plain);
            for len in [5, whole.len() / 2, whole.len() - 1] {
                assert!(sketch_of(&whole[..len]).is_err(), "{len} of {} bytes", whole.len());
            }
        }
        for parts in [[gzip(half), gzip(rest)], [zstd(half), zstd(rest)]] {
            assert_eq!(sketch_of(&parts.concat()).unwrap(), plain);
        }
    }

    #[test]
    fn a_trace_becomes_a_workload_of_the_engine() {
        let load = SimPhase::of(Distribution::Unique, 20_000, 0.0);
        let all = ops(20_000, vec![load, SimPhase::of(ZIPF, 60_000, 0.1)]);
        let s = sketch(&forms(&all)[0]).unwrap();
        let whole = s.description(u64::MAX).unwrap();
        assert_eq!((whole.keys, whole.steps.as_str()), (20_000, "load, wait, trace"));
        let written = |d: &firn_workload::WorkloadDescription| {
            SimWorkload::described(d, vec![]).unwrap().ops() as f64
        };
        near(written(&whole), 80_000.0, 100.0, "writes");
        // Half of the bytes: half of the keys and of the operations.
        let half = s.description(74_000 * 116 / 2).unwrap();
        near(half.keys as f64, 10_000.0, 200.0, "keys of a half");
        near(written(&half), 40_000.0, 800.0, "writes of a half");
        let s = sketch("key,op\na,get\n").unwrap();
        assert!(s.description(1).unwrap_err().contains("no write"));
    }

    #[test]
    fn what_is_no_trace_is_refused_and_nothing_panics() {
        for text in ["", "hello\nworld\n", "a,b,c\n1,2,3\n", "key,op\na,none\n"] {
            assert!(sketch(text).is_err(), "{text:?}");
        }
        let odd = "key,value_size,time\n\n,,\nk\nk,99999999999999999999,nan\nk,18446744073709551615,1e300\n";
        let s = sketch(odd).unwrap();
        assert_eq!(s.writes, 5);
        let (_, phases) = s.phases();
        assert!(phases.iter().all(|p| (0.0..=1.0).contains(&p.deletes)));
    }
}
