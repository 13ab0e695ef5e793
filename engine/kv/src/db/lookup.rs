//! What all who look up one key have in common: the hash that filters are asked for, and the
//! versions of a key in one source.

use crate::base::cursor::Cursor;
use crate::base::error::{Error, Result};
use crate::base::hash::key_hash;
use crate::base::key::{Kind, Seq, Trailer};
use crate::base::options::TreeOptions;

/// Hash of the part of a key that filters hold.
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

/// The versions of one key in one source, newest first, until a base is met; `met` is told of each.
/// True when there is nothing older to look for.
pub fn versions(
    c: &mut impl Cursor,
    key: &[u8],
    read: Seq,
    cover: Seq,
    ops: &mut Vec<Vec<u8>>,
    base: &mut Option<Vec<u8>>,
    mut met: impl FnMut(Trailer),
) -> Result<bool> {
    c.seek(key, Trailer::at(read))?;
    while c.valid() && c.key() == key {
        let t = c.trailer();
        met(t);
        if t.seq() < cover {
            return Ok(true);
        }
        match t.kind() {
            Some(Kind::Merge) => ops.push(c.value().to_vec()),
            Some(Kind::Put) => {
                *base = Some(c.value().to_vec());
                return Ok(true);
            }
            Some(Kind::Delete) => return Ok(true),
            Some(Kind::Apart) => {
                let words = "a tree with a merge hook has a value in a value file";
                return Err(Error::corruption(words).keys(key, key));
            }
            None => return Err(unknown_kind(key, t)),
        }
        c.next()?;
    }
    Ok(cover > 0)
}
