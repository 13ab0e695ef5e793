//! Shared parts of point lookups: the hash for filters, and the versions of a key in one source.

use crate::base::cursor::Cursor;
use crate::base::error::{Error, Result};
use crate::base::hooks::MergeOperator;
use crate::base::key::{Kind, Seq, Trailer};
use crate::base::options::TreeOptions;
use crate::iterator::operands::OperandRun;
use crate::memtable::{MemCursor, SharedMemtable};
use crate::util::hash::key_hash;

/// Returns the hash of the part of a key that filters hold.
#[inline]
pub fn filter_hash(options: &TreeOptions, key: &[u8]) -> u64 {
    match &options.filter_prefix {
        None => key_hash(key),
        Some(p) => key_hash(&key[..p.prefix_len(key).min(key.len())]),
    }
}

pub fn unknown_kind(key: &[u8], t: Trailer) -> Error {
    Error::corruption(format!("an entry of unknown kind {}", t.0 as u8)).keys(key, key)
}

/// Collects the versions of one key in one source, newest first, until a base is found. Calls `met`
/// with each version. Returns true if older sources need not be searched.
pub fn versions(
    c: &mut impl Cursor,
    key: &[u8],
    read: Seq,
    cover: Seq,
    ops: &mut Vec<Vec<u8>>,
    base: &mut Option<Vec<u8>>,
    met: impl FnMut(Trailer),
) -> Result<bool> {
    versions_by(c, key, read, cover, ops, base, met, |_, _, _| None)
}

/// Collects the versions of one key in a memtable, as [`versions`] does. Long runs of operands are
/// combined.
pub fn memtable_versions(
    table: &SharedMemtable,
    merge: &dyn MergeOperator,
    key: &[u8],
    read: Seq,
    cover: Seq,
    ops: &mut Vec<Vec<u8>>,
    base: &mut Option<Vec<u8>>,
) -> Result<bool> {
    let mut run = OperandRun::default();
    let meet = |c: &MemCursor, seq, ops: &mut Vec<Vec<u8>>| run.meet(c, key, seq, ops, Some(merge));
    let done = versions_by(&mut table.cursor(), key, read, cover, ops, base, |_| (), meet)?;
    run.finish(key, ops, Some(merge));
    Ok(done)
}

/// Implements [`versions`]. `combined` may push one operand in place of several; then it returns
/// the oldest sequence number of these.
#[allow(clippy::too_many_arguments)]
fn versions_by<C: Cursor>(
    c: &mut C,
    key: &[u8],
    read: Seq,
    cover: Seq,
    ops: &mut Vec<Vec<u8>>,
    base: &mut Option<Vec<u8>>,
    mut met: impl FnMut(Trailer),
    mut combined: impl FnMut(&C, Seq, &mut Vec<Vec<u8>>) -> Option<Seq>,
) -> Result<bool> {
    c.seek(key, Trailer::at(read))?;
    while c.valid() && c.key() == key {
        let t = c.trailer();
        met(t);
        if t.seq() < cover {
            return Ok(true);
        }
        match t.kind() {
            Some(Kind::Merge) => {
                if let Some(oldest) = combined(c, t.seq(), ops) {
                    c.seek(key, Trailer::at(oldest.saturating_sub(1)))?;
                    continue;
                }
                ops.push(c.value().to_vec());
            }
            Some(Kind::Put) => {
                *base = Some(c.value().to_vec());
                return Ok(true);
            }
            Some(Kind::Delete) => return Ok(true),
            Some(Kind::Blob) => {
                let words = "a tree with a merge operator has a value in a blob file";
                return Err(Error::corruption(words).keys(key, key));
            }
            None => return Err(unknown_kind(key, t)),
        }
        c.next()?;
    }
    Ok(cover > 0)
}
