//! Entries of a range, and the values of many keys.

use firn_kv::{Range, Result, Value};

use crate::{Unpacker, put_bytes, put_len};

/// Length that marks a key without a value.
const NO_VALUE: [u8; 4] = u32::MAX.to_le_bytes();

/// Appends the next entries of a range to `out`: at most `max_entries`, and none after `out` has
/// `max_bytes` bytes. Returns their number; 0 at the end of the range.
///
/// # Errors
/// The error of the range. Entries before it are in `out`, and their number is lost.
pub fn pack(
    range: &mut Range,
    reverse: bool,
    max_entries: usize,
    max_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<usize> {
    for count in 0..max_entries {
        if count > 0 && out.len() >= max_bytes {
            return Ok(count);
        }
        let next = if reverse { range.next_back() } else { range.next() };
        let Some((key, value)) = next.transpose()? else { return Ok(count) };
        put_len(out, key.len());
        put_len(out, value.len());
        out.extend_from_slice(&key);
        out.extend_from_slice(&value);
    }
    Ok(max_entries)
}

/// Reads packed keys.
///
/// # Errors
/// `Invalid` if the bytes are not packed keys.
pub fn keys(packed: &[u8]) -> firn_cql::Result<Vec<&[u8]>> {
    let (mut packed, mut keys) = (Unpacker::new(packed), vec![]);
    while !packed.is_at_end() {
        keys.push(packed.bytes()?);
    }
    Ok(keys)
}

/// Packs the values of keys, in their order.
pub fn pack_values(values: &[Option<Value>]) -> Vec<u8> {
    let mut out = vec![];
    for value in values {
        match value {
            Some(value) => put_bytes(&mut out, value),
            None => out.extend_from_slice(&NO_VALUE),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use firn_kv::{Db, TreeOptions};

    use super::*;

    #[test]
    fn a_chunk_ends_at_each_bound() {
        let db = Db::in_memory().unwrap();
        let tree = db.tree("t", TreeOptions::default()).unwrap();
        for n in 0..10u8 {
            tree.put([n], [n; 20]).unwrap();
        }
        let mut range = tree.iter();
        let mut out = vec![];
        assert_eq!(pack(&mut range, false, 3, 1000, &mut out).unwrap(), 3);
        assert_eq!(out.len(), 3 * (8 + 1 + 20));
        assert_eq!(out[..10], [1, 0, 0, 0, 20, 0, 0, 0, 0, 0]);
        // At least one entry, whatever the bound of bytes.
        let mut out = vec![];
        assert_eq!(pack(&mut range, true, 100, 0, &mut out).unwrap(), 1);
        assert_eq!(out[8], 9);
        let mut out = vec![];
        assert_eq!(pack(&mut range, false, 100, 1 << 20, &mut out).unwrap(), 6);
        assert_eq!(pack(&mut range, false, 100, 1 << 20, &mut out).unwrap(), 0);
    }

    #[test]
    fn keys_are_read_and_values_written() {
        assert_eq!(keys(&[1, 0, 0, 0, 7, 0, 0, 0, 0]).unwrap(), [&[7][..], &[]]);
        assert!(keys(&[2, 0, 0, 0, 7]).is_err());
        assert!(keys(&[2, 0]).is_err());
        assert_eq!(pack_values(&[None]), [0xff; 4]);
    }
}
