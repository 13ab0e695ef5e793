//! Reads RocksDB's binary traces, as written by `DB::StartTrace` and `DB::StartBlockCacheTrace`,
//! operation by operation.
//!
//! A trace is a sequence of records: a time in microseconds (64 bits), a type (8), the payload's
//! length (32), the payload; numbers are little-endian. The first has type 1 and contains
//! `feedcafedeadbeef`: directly in a trace of queries, after its length in one of block accesses.
//!
//! - A query's payload begins with a map of 64 bits: each set bit is a field that follows, in the
//!   order of the bits. (Version 0.1 has no map.) A write is a whole `WriteBatch`.
//! - A block access names the lookup that caused it. A lookup is counted once, however many blocks
//!   it reads; accesses by scans, compactions and others are not counted.
//!
//! Invariants: nothing is allocated for a length that exceeds the file. For any bytes, errors are
//! reported with their position.

use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;

use firn_tools::output::{Done, Failure};

use crate::workload::sketch::{Sketcher, TraceLine, TraceOp};

const MAGIC: &[u8] = b"feedcafedeadbeef";
/// Bytes before a record's payload.
const HEAD: usize = 13;
/// Offset of the type in these.
const KIND: usize = 8;
/// Maximum bytes of a payload: no program writes larger batches.
const MOST_PAYLOAD: u32 = 1 << 30;
/// Number of lookups whose accesses may be interleaved.
const LOOKUPS: usize = 64;

const BEGIN: u8 = 1;
const END: u8 = 2;
const WRITE: u8 = 3;
const GET: u8 = 4;
const SEEK: u8 = 5;
const SEEK_FOR_PREV: u8 = 6;
const INDEX_BLOCK: u8 = 7;
const DATA_BLOCK: u8 = 9;
const RANGE_DELETION_BLOCK: u8 = 11;
const IO: u8 = 12;
const MULTI_GET: u8 = 13;

/// Bytes of a file that [`is_begun_by`] needs.
pub(crate) const FIRST: usize = HEAD + 1 + MAGIC.len();

/// Reports whether a file that begins with these bytes is a binary trace.
pub(crate) fn is_begun_by(first: &[u8]) -> bool {
    first.get(KIND) == Some(&BEGIN)
        && first.get(HEAD..).is_some_and(|payload| {
            payload.starts_with(MAGIC) || payload.get(1..).is_some_and(|p| p.starts_with(MAGIC))
        })
}

/// Subject of a trace.
#[derive(Clone, Copy)]
enum TraceSubject {
    /// Queries; whether payloads have a map of their fields.
    Queries {
        mapped: bool,
    },
    Blocks,
}

/// Reads a whole trace; calls `at` with the number of bytes read.
///
/// # Errors
/// Damage, with its position.
pub(crate) fn read(
    input: &mut impl Read,
    path: &Path,
    sketcher: &mut Sketcher,
    at: &mut dyn FnMut(u64),
) -> Done {
    let mut reader = TraceReader { sketcher, traced: None, key: vec![], lookups: VecDeque::new() };
    let (mut offset, mut records, mut payload) = (0u64, 0u64, vec![]);
    loop {
        let mut head = vec![];
        let file = |e: std::io::Error| Failure::file("read", path, &e);
        input.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(file)?;
        if head.is_empty() {
            return Ok(());
        }
        let wrong = |what: &str| {
            Failure::with_next(
                format!(
                    "{} is damaged at byte {offset}, after {records} records: {what}",
                    path.display()
                ),
                format!("use the part before it: head -c {offset} {}", path.display()),
            )
        };
        let mut fields = TraceFields(&head);
        let (Some(micros), Some(kind), Some(len)) =
            (fields.fixed64(), fields.byte(), fields.fixed32())
        else {
            return Err(wrong("the file ends within a record"));
        };
        if len > MOST_PAYLOAD {
            return Err(wrong(&format!("a record claims {len} bytes, which none has")));
        }
        payload.clear();
        input.by_ref().take(u64::from(len)).read_to_end(&mut payload).map_err(file)?;
        if payload.len() < len as usize {
            return Err(wrong("the file ends within a record"));
        }
        let seconds = micros as f64 / 1e6;
        reader.record(kind, seconds, &payload).map_err(|what| wrong(&what))?;
        offset += (HEAD + payload.len()) as u64;
        records += 1;
        if records.is_multiple_of(1 << 12) {
            at(offset);
        }
    }
}

struct TraceReader<'a> {
    sketcher: &'a mut Sketcher,
    traced: Option<TraceSubject>,
    /// Buffer for a key with its family.
    key: Vec<u8>,
    /// The last lookups with an access.
    lookups: VecDeque<u64>,
}

/// Error for missing or excess bytes.
const SHORT: &str = "a field is cut off";

impl TraceReader<'_> {
    fn record(&mut self, kind: u8, seconds: f64, payload: &[u8]) -> Result<(), String> {
        let mut fields = TraceFields(payload);
        let known = match (self.traced, kind) {
            (_, IO) => {
                return Err("it is a trace of files' reads and writes, which has no keys".into());
            }
            (None, BEGIN) => {
                self.traced = Some(header(payload)?);
                return Ok(());
            }
            (None, _) => return Err("it does not begin with a header".into()),
            (Some(TraceSubject::Queries { .. }), END) => return Ok(()),
            (Some(TraceSubject::Queries { mapped }), WRITE) => {
                self.write(&mut fields, mapped, seconds)
            }
            (Some(TraceSubject::Queries { mapped }), GET) => self.get(&mut fields, mapped, seconds),
            (Some(TraceSubject::Queries { .. }), MULTI_GET) => self.multi_get(&mut fields, seconds),
            (Some(TraceSubject::Queries { .. }), SEEK | SEEK_FOR_PREV) => {
                self.take(TraceOp::Scan, 0, &[], 0, seconds);
                Some(())
            }
            (Some(TraceSubject::Blocks), INDEX_BLOCK..=RANGE_DELETION_BLOCK) => {
                self.access(kind, &mut fields, seconds)
            }
            (Some(_), _) => return Err(format!("{kind} is no type of record")),
        };
        known.ok_or_else(|| SHORT.to_owned())
    }

    fn take(&mut self, op: TraceOp, family: u32, key: &[u8], value_len: u64, seconds: f64) {
        // Families may have equal keys, but not in the same tree.
        self.key.clear();
        self.key.extend_from_slice(&family.to_be_bytes());
        self.key.extend_from_slice(key);
        let (key_len, seconds) = (key.len(), Some(seconds));
        let key = &self.key;
        let line = TraceLine { op, key, key_len, value_len, seconds, ..TraceLine::default() };
        self.sketcher.take(&line);
    }

    fn write(&mut self, fields: &mut TraceFields<'_>, mapped: bool, seconds: f64) -> Option<()> {
        if mapped && fields.fixed64()? != 1 << 1 {
            return None;
        }
        let batch = if mapped { fields.prefixed()? } else { fields.0 };
        let mut batch = TraceFields(batch);
        let (_seq, count) = (batch.fixed64()?, batch.fixed32()?);
        let mut found = 0;
        while !batch.0.is_empty() {
            let tag = batch.byte()?;
            let family = match tag {
                0x4 | 0x5 | 0x6 | 0x8 | 0xe | 0x10 | 0x17 | 0x19 => batch.varint()?,
                _ => 0,
            };
            let (op, key, value_len) = match tag {
                0x0 | 0x4 | 0x7 | 0x8 => (TraceOp::Delete, batch.prefixed()?, 0),
                // Puts, merges, references to blobs, entities, values with a time.
                0x1 | 0x2 | 0x5 | 0x6 | 0x10 | 0x11 | 0x16..=0x19 => {
                    (TraceOp::Put, batch.prefixed()?, batch.prefixed()?.len() as u64)
                }
                0xe | 0xf => {
                    batch.prefixed()?;
                    batch.prefixed()?;
                    (TraceOp::Other, &[][..], 0)
                }
                // No operation: data for the log, and marks of transactions.
                0x3 | 0xa | 0xb | 0xc => {
                    batch.prefixed()?;
                    continue;
                }
                0x15 => {
                    batch.prefixed()?;
                    batch.prefixed()?;
                    continue;
                }
                0x9 | 0xd | 0x12 | 0x13 => continue,
                _ => return None,
            };
            found += 1;
            self.take(op, family, key, value_len, seconds);
        }
        (found == count).then_some(())
    }

    fn get(&mut self, fields: &mut TraceFields<'_>, mapped: bool, seconds: f64) -> Option<()> {
        if mapped && fields.fixed64()? != (1 << 2) | (1 << 3) {
            return None;
        }
        let (family, key) = (fields.fixed32()?, fields.prefixed()?);
        self.take(TraceOp::Read, family, key, 0, seconds);
        Some(())
    }

    fn multi_get(&mut self, fields: &mut TraceFields<'_>, seconds: f64) -> Option<()> {
        if fields.fixed64()? != (1 << 8) | (1 << 9) | (1 << 10) {
            return None;
        }
        let count = fields.fixed32()?;
        let (mut families, mut keys) =
            (TraceFields(fields.prefixed()?), TraceFields(fields.prefixed()?));
        for _ in 0..count {
            let (family, key) = (families.fixed32()?, keys.prefixed()?);
            self.take(TraceOp::Read, family, key, 0, seconds);
        }
        Some(())
    }

    fn access(&mut self, kind: u8, fields: &mut TraceFields<'_>, seconds: f64) -> Option<()> {
        let _block = fields.prefixed()?;
        let (_size, family) = (fields.fixed64()?, fields.fixed64()?);
        let _name = fields.prefixed()?;
        let (_level, _table) = (fields.fixed32()?, fields.fixed64()?);
        let (caller, _hit, _no_insert) = (fields.byte()?, fields.byte()?, fields.byte()?);
        if !is_lookup(u64::from(caller)) {
            return Some(());
        }
        let (lookup, _snapshot) = (fields.fixed64()?, fields.byte()?);
        // After the key there are 8 bytes of its version.
        let key = fields.prefixed()?;
        let key = key.get(..key.len().checked_sub(8)?)?;
        if kind == DATA_BLOCK {
            let (_useful, _keys, _exists) = (fields.fixed64()?, fields.fixed64()?, fields.byte()?);
        }
        if is_new(&mut self.lookups, lookup) {
            self.take(TraceOp::Read, family as u32, key, 0, seconds);
        }
        Some(())
    }
}

/// Reports whether the caller of a block access is a lookup of one or several keys.
pub(crate) fn is_lookup(caller: u64) -> bool {
    matches!(caller, 1 | 2)
}

/// Reports whether this lookup is not among the last ones.
pub(crate) fn is_new(last: &mut VecDeque<u64>, lookup: u64) -> bool {
    if last.contains(&lookup) {
        return false;
    }
    last.push_back(lookup);
    if last.len() > LOOKUPS {
        last.pop_front();
    }
    true
}

/// Parses a header.
fn header(payload: &[u8]) -> Result<TraceSubject, String> {
    if !payload.starts_with(MAGIC) {
        let mut fields = TraceFields(payload);
        return match fields.prefixed() {
            Some(MAGIC) => Ok(TraceSubject::Blocks),
            _ => Err("its header is none of a trace".into()),
        };
    }
    let text = String::from_utf8_lossy(payload);
    match text.split('\t').find_map(|part| part.strip_prefix("Trace Version: ")) {
        Some("0.1") => Ok(TraceSubject::Queries { mapped: false }),
        Some("0.2") => Ok(TraceSubject::Queries { mapped: true }),
        Some(other) => {
            Err(format!("it is of version {other}; those that are known are 0.1 and 0.2"))
        }
        None => Err("its header names no version".into()),
    }
}

/// The unread rest of some bytes.
struct TraceFields<'a>(&'a [u8]);

impl<'a> TraceFields<'a> {
    fn next(&mut self, n: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.next(1).map(|b| b[0])
    }

    fn fixed32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.next(4)?.try_into().ok()?))
    }

    fn fixed64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.next(8)?.try_into().ok()?))
    }

    /// Reads seven bits per byte, the lowest first.
    fn varint(&mut self) -> Option<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).ok();
            }
        }
        None
    }

    /// Reads bytes that follow their length.
    fn prefixed(&mut self) -> Option<&'a [u8]> {
        let len = self.varint()?;
        self.next(len as usize)
    }
}
