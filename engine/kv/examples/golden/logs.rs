//! Write-ahead logs, one folder each, of small segments: sealed, torn, recycled.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::Result;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::key::Kind;
use firn_kv::internals::base::ops::{Op, OpReader, encode};
use firn_kv::internals::wal::format::SEGMENT_HEADER;
use firn_kv::internals::wal::{Lsn, Wal, recover};
use firn_testkit::rng::Rng;
use serde_json::{Value, json};

use super::made::{Made, hex, slug};

const SEGMENT: u64 = 4096;
/// Id of the store that owns the logs.
const STORE: u64 = 0x8000_0000_0000_5705;

/// A log in the making, and its expected content.
pub struct Log {
    pub env: MemEnv,
    dir: PathBuf,
    /// `None` after closing.
    wal: Option<Wal>,
    rng: Rng,
    seq: u64,
    /// For each record: its position, the position after it, and its expected content.
    records: Vec<(Lsn, Lsn, Value)>,
}

fn operations(rng: &mut Rng, n: u64) -> (Vec<u8>, Vec<Value>) {
    let (mut bytes, mut told) = (vec![], vec![]);
    for _ in 0..n {
        let tree = *rng.choose(&[1, 2, 300, u32::MAX]).unwrap_or(&1);
        let key = format!("key{}", rng.below(50)).into_bytes();
        let mut value = vec![0; rng.below(60) as usize];
        rng.fill(&mut value);
        let kind = 1 + rng.below(4) as u8;
        let op = match Kind::from_u8(kind) {
            Some(Kind::Delete) => Op::Point { kind: Kind::Delete, key: &key, value: b"" },
            Some(kind) => Op::Point { kind, key: &key, value: &value },
            None => Op::DeleteRange { start: &key, end: &value },
        };
        encode(&mut bytes, tree, op);
        told.push(json!([
            kind,
            tree,
            hex(&key),
            if kind == 2 { String::new() } else { hex(&value) }
        ]));
    }
    (bytes, told)
}

impl Log {
    pub fn new(seed: u64) -> Result<Log> {
        let (env, dir) = (MemEnv::new(seed), PathBuf::from("/log"));
        env.create_dir_all(&dir)?;
        let end = recover(&env, &dir, 0, &mut |_, _, _| Ok(()))?;
        let wal =
            Wal::create(Arc::new(env.clone()), &dir, STORE, FormatVersion::OLDEST, &end, SEGMENT)?;
        Ok(Log { env, dir, wal: Some(wal), rng: Rng::new(seed), seq: 1, records: vec![] })
    }

    pub fn append(&mut self, operations_in_it: u64) -> Result<()> {
        let (seq, (bytes, told)) = (self.seq, operations(&mut self.rng, operations_in_it));
        let wal = self.wal()?;
        let at = wal.end();
        let end = wal.append(seq, &[&bytes])?;
        self.records.push((at, end, json!([self.seq, told])));
        self.seq += operations_in_it;
        Ok(())
    }

    pub fn sync(&mut self) -> Result<()> {
        let wal = self.wal()?;
        wal.syncer().sync(wal.end())
    }

    fn wal(&mut self) -> Result<&mut Wal> {
        self.wal.as_mut().ok_or_else(|| firn_kv::Error::invalid("the log is closed"))
    }

    pub fn retire(&mut self, floor: Lsn) -> Result<()> {
        self.wal()?.retire(floor).remove()
    }

    pub fn close(&mut self) -> Result<()> {
        self.wal.take().map_or(Ok(()), Wal::close)
    }

    /// Opens the log again with a new writer.
    pub fn reopen(&mut self) -> Result<()> {
        let end = recover(&self.env, &self.dir, 0, &mut |_, _, _| Ok(()))?;
        self.wal = Some(Wal::create(
            Arc::new(self.env.clone()),
            &self.dir,
            STORE,
            FormatVersion::OLDEST,
            &end,
            SEGMENT,
        )?);
        Ok(())
    }

    /// Prepares the next segment, as a worker does.
    pub fn prepare(&mut self) -> Result<()> {
        self.wal()?.prepare_next().map_or(Ok(()), |job| job.run(&|| false))
    }

    /// Returns the content that a reader from `from` on must find, up to `until`.
    pub fn content(&self, from: Lsn, until: Lsn) -> Value {
        let kept = self.records.iter().filter(|r| r.0 >= from && r.1 <= until);
        let records: Vec<_> = kept.map(|r| r.2.clone()).collect();
        json!({"from": from, "records": records})
    }

    pub fn all(&self) -> Value {
        self.content(0, Lsn::MAX)
    }

    /// Returns the position after all but the last `n` records.
    pub fn end_without(&self, n: usize) -> Lsn {
        self.records.len().checked_sub(n + 1).map_or(0, |i| self.records[i].1)
    }

    /// Returns the segment of the record at `lsn`, and the record's offset in it.
    pub fn place(&self, lsn: Lsn) -> Result<(PathBuf, usize)> {
        let mut found = recover(&self.env, &self.dir, 0, &mut |_, _, _| Ok(()))?.segments;
        found.retain(|s| s.base.is_some_and(|b| b <= lsn));
        let s = found
            .last()
            .ok_or_else(|| firn_kv::Error::invalid("no segment holds this position"))?;
        Ok((
            self.dir.join(firn_kv::internals::wal::segment_name(s.number)),
            (SEGMENT_HEADER + lsn - s.base.unwrap_or(0)) as usize,
        ))
    }

    /// Modifies a segment.
    pub fn change(&self, path: &Path, how: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut bytes = self.env.read_file(path)?;
        how(&mut bytes);
        self.env.write_file(path, &bytes)
    }

    /// Adds the files of the log as the folder `name`.
    pub fn put(&self, made: &mut Made, name: &str) -> Result<()> {
        for path in self.env.files() {
            let file = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            made.file(format!("{name}/{file}"), self.env.read_file(&path)?);
        }
        Ok(())
    }
}

/// Adds sound logs: with one segment or many, synced or not, sealed or not, with recycled segments,
/// with a torn end.
pub fn sound(seed: u64, made: &mut Made) -> Result<()> {
    let dir = |what: &str| format!("logs/{seed:03}-{}", slug(what));
    let mut tell = |what: &str, log: &Log, content: Value| {
        made.sound(dir(what), "log", what, content);
        log.put(made, &dir(what))
    };

    let mut log = Log::new(seed)?;
    (0..5).try_for_each(|i| log.append(1 + i % 3))?;
    tell("never synced", &log, log.all())?;
    log.close()?;
    tell("closed", &log, log.all())?;

    let mut log = Log::new(seed + 1)?;
    for i in 0..60 {
        log.append(1 + i % 5)?;
        if i % 7 == 0 {
            log.sync()?;
        }
    }
    log.append(90)?; // exceeds the size of a segment
    log.append(2)?;
    tell("many segments", &log, log.all())?;
    let from = log.end_without(20);
    tell("many segments, from a position", &log, log.content(from, u64::MAX))?;

    let mut log = Log::new(seed + 2)?;
    for i in 0..80 {
        log.append(1 + i % 4)?;
        if i % 20 == 19 {
            log.sync()?;
            log.prepare()?;
            let floor = log.end_without(6);
            log.retire(floor)?;
        }
    }
    let from = log.end_without(6);
    tell("recycled segments", &log, log.content(from, u64::MAX))?;

    let mut log = Log::new(seed + 3)?;
    (0..9).try_for_each(|_| log.append(2))?;
    log.reopen()?;
    (0..9).try_for_each(|_| log.append(2))?;
    tell("two writers", &log, log.all())?;
    log.close()?;
    log.reopen()?;
    log.append(2)?;
    tell("a writer after a clean close", &log, log.all())?;

    let mut log = Log::new(seed + 4)?;
    (0..3).try_for_each(|_| log.append(3))?;
    log.sync()?;
    (0..4).try_for_each(|_| log.append(3))?;
    let (path, at) = log.place(log.end_without(1))?;
    log.change(&path, |b| b[at + 40..].fill(0))?;
    tell("torn last record", &log, log.content(0, log.end_without(1)))?;
    let (path, at) = log.place(log.end_without(3))?;
    log.change(&path, |b| b[at + 9] ^= 4)?;
    tell("records beyond a gap that was not synced", &log, log.content(0, log.end_without(3)))
}

/// Adds logs that a reader must reject.
pub fn damaged(seed: u64, made: &mut Made) -> Result<()> {
    let mut log = Log::new(seed)?;
    (0..6).try_for_each(|_| log.append(2))?;
    log.close()?;
    let (path, at) = log.place(log.end_without(4))?;
    let sound = log.env.read_file(&path)?;
    let size = (log.end_without(3) - log.end_without(4)) as usize;
    let mut rng = Rng::new(seed);
    let padding = 8; // the last bytes of a record may be padding, which no reader checks
    let hit = at + rng.below((size - padding) as u64) as usize;
    let bit = 1 << rng.below(8);
    // An operation of unknown kind under a valid checksum counts as damaged, like a flipped bit. An
    // unknown record kind or version counts as newer.
    for (what, verdict, kind) in [
        ("a flipped bit", "damaged", 0),
        ("zeroed", "damaged", 1),
        ("two records swapped", "damaged", 2),
    ] {
        log.env.write_file(&path, &sound)?;
        log.change(&path, |b| match kind {
            0 => b[hit] ^= bit,
            1 => b[at..at + size].fill(0),
            _ => {
                let first = SEGMENT_HEADER as usize;
                let other: Vec<u8> = b[first..first + 40].to_vec();
                b[at..at + 40].copy_from_slice(&other);
            }
        })?;
        let name = format!("damaged/log-{seed:03}-{}", slug(what));
        log.put(made, &name)?;
        made.refused(name, "log", what, verdict);
    }
    Ok(())
}

/// Adds logs with valid checksums and invalid structure.
pub fn sealed_damage(seed: u64, made: &mut Made) -> Result<()> {
    use firn_kv::internals::util::checksum::checksum;
    let mut log = Log::new(seed)?;
    (0..3).try_for_each(|_| log.append(1))?;
    let (path, at) = log.place(0)?;
    let number = firn_kv::internals::wal::segment_number(
        path.file_name().and_then(|n| n.to_str()).unwrap_or_default(),
    )
    .unwrap_or(0);
    let sound = log.env.read_file(&path)?;
    let put = |b: &mut [u8], at: usize, v: u32| b[at..at + 4].copy_from_slice(&v.to_le_bytes());
    for (what, verdict) in [
        ("version 2", "newer"),
        ("a record of kind 3", "newer"),
        ("an operation of no kind", "damaged"),
    ] {
        log.env.write_file(&path, &sound)?;
        log.change(&path, |b| {
            match what {
                "version 2" => put(b, 8, 2),
                "a record of kind 3" => put(b, at + 12, 3),
                _ => b[at + 32] = 9,
            }
            let sealed = SEGMENT_HEADER as usize - 4;
            let crc = checksum(number, 0, &[&b[..sealed]]);
            put(b, sealed, crc);
            let len = u32::from_le_bytes([b[at + 4], b[at + 5], b[at + 6], b[at + 7]]) as usize;
            let crc = checksum(number, at as u64, &[&b[at + 4..at + 32 + len]]);
            put(b, at, crc);
        })?;
        let name = format!("damaged/log-{seed:03}-{}", slug(what));
        log.put(made, &name)?;
        made.refused(name, "log", what, verdict);
    }
    Ok(())
}

/// Returns a log's content as the engine reads it.
#[allow(dead_code)] // see `tables::read`
pub fn read(env: &dyn Env, dir: &Path, from: Lsn) -> Result<Value> {
    let mut records = vec![];
    recover(env, dir, from, &mut |seq, _, payload| {
        let op = |op: Option<(u32, Op<'_>)>| match op {
            Some((tree, Op::Point { kind, key, value })) => {
                json!([kind as u8, tree, hex(key), hex(value)])
            }
            Some((tree, Op::DeleteRange { start, end })) => json!([4, tree, hex(start), hex(end)]),
            None => Value::Null,
        };
        records.push(json!([seq, OpReader::new(payload).map(op).collect::<Vec<_>>()]));
        Ok(())
    })?;
    Ok(json!({"from": from, "records": records}))
}
