//! Shared parts of point lookups: the hash for filters, and the versions of a key in one source.

use crate::base::cursor::Cursor;
use crate::base::error::{Error, Result};
use crate::base::key::{Kind, Seq, Trailer};
use crate::base::options::TreeOptions;
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
/// with each version, and `combined` with the cursor at each operand. `combined` may push one
/// operand in place of several; then it returns the oldest sequence number of these. Returns true
/// if older sources need not be searched.
#[allow(clippy::too_many_arguments)]
pub fn versions<C: Cursor>(
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
