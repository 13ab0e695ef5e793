//! Vectors: a fixed number of elements without nulls.
//!
//! If all values of the element type have one length, the elements are concatenated. Otherwise each
//! element is preceded by its length as an unsigned varint, which has as many leading ones in its
//! first byte as further bytes. A vector of the first kind is itself of fixed length.

use super::errors::{TypeError, error};
use super::{Type, varint};

impl Type {
    /// Returns the fixed length of values, as vectors use it. As in Cassandra, `smallint`,
    /// `tinyint`, `date` and `time` have none.
    fn fixed_len(&self) -> Option<usize> {
        match self {
            Type::Empty => Some(0),
            Type::Boolean => Some(1),
            Type::Int32 | Type::Float => Some(4),
            Type::Long | Type::Double | Type::Timestamp | Type::Date => Some(8),
            Type::Uuid | Type::TimeUuid | Type::LexicalUuid => Some(16),
            Type::Vector(element, count) => {
                element.fixed_len().map(|len| len.saturating_mul(*count as usize))
            }
            Type::Reversed(inner) => inner.fixed_len(),
            _ => None,
        }
    }
}

/// Returns the elements of a vector with this number of elements. They are not validated.
///
/// # Errors
/// Errors for too few or too many bytes, with Cassandra's texts.
pub fn vector_elements<'a>(
    element: &Type,
    count: u32,
    value: &'a [u8],
) -> Result<Vec<&'a [u8]>, TypeError> {
    let shown = || format!("vector<{}, {count}>", element.cql_name());
    let short = || TypeError(format!("Not enough bytes to read a {}", shown()));
    if value.is_empty() {
        return error("Invalid empty vector value");
    }
    let count_there = count as usize;
    // An element has at least one byte, so a wrong count allocates little memory.
    let mut elements = Vec::with_capacity(count_there.min(value.len()));
    let mut rest = value;
    match element.fixed_len() {
        Some(0) => return error("Invalid empty vector value"),
        Some(len) => {
            if len.saturating_mul(count_there) > value.len() {
                return Err(short());
            }
            while elements.len() < count_there {
                let (part, after) = rest.split_at_checked(len).ok_or_else(short)?;
                elements.push(part);
                rest = after;
            }
        }
        None => {
            while elements.len() < count_there {
                let len = take_len(&mut rest).ok_or_else(short)?;
                let (part, after) = rest.split_at_checked(len).ok_or_else(short)?;
                elements.push(part);
                rest = after;
            }
        }
    }
    match rest.len() {
        0 => Ok(elements),
        more => error(format!("Unexpected {more} extraneous bytes after {} value", shown())),
    }
}

/// Appends an element of a vector.
pub fn put_vector_element(element: &Type, value: &[u8], out: &mut Vec<u8>) {
    if element.fixed_len().is_none() {
        varint::put_unsigned(value.len() as u64, out);
    }
    out.extend_from_slice(value);
}

fn take_len(rest: &mut &[u8]) -> Option<usize> {
    let (len, taken) = varint::take_unsigned(rest, 0)?;
    *rest = &rest[taken..];
    usize::try_from(len).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_back() {
        for n in [0u64, 1, 127, 128, 16_383, 16_384, 1 << 21, 1 << 35, u32::MAX.into()] {
            let mut out = vec![];
            varint::put_unsigned(n, &mut out);
            let mut rest = &out[..];
            assert_eq!((take_len(&mut rest), rest), (Some(n as usize), &[][..]), "{n}");
            assert_eq!(take_len(&mut &out[..out.len() - 1]), None);
        }
    }

    #[test]
    fn elements_are_distinguished_or_refused() {
        let parts = |of: &Type, n, bytes: &'static [u8]| vector_elements(of, n, bytes);
        assert_eq!(parts(&Type::Utf8, 2, b"\x01a\x02bc").unwrap(), [&b"a"[..], b"bc"]);
        assert_eq!(parts(&Type::Int32, 2, b"\0\0\0\x01\0\0\0\x02").unwrap().len(), 2);
        let pair = Type::Vector(Type::Byte.into(), 1);
        assert_eq!(parts(&pair, 1, b"\x02\x01\x01").unwrap(), [&b"\x01\x01"[..]]);
        for (of, n, bytes, text) in [
            (Type::Utf8, 2, &b""[..], "Invalid empty vector value"),
            (Type::Empty, 2, b"x", "Invalid empty vector value"),
            (Type::Int32, 2, b"\0\0\0\x01", "Not enough bytes to read a vector<int, 2>"),
            (Type::Utf8, 2, b"\x01a\x03b", "Not enough bytes to read a vector<text, 2>"),
            (Type::Utf8, u32::MAX, b"\0", "Not enough bytes to read a vector<text, 4294967295>"),
            (
                Type::Byte,
                1,
                b"\x01ab",
                "Unexpected 1 extraneous bytes after vector<tinyint, 1> value",
            ),
            (Type::Long, u32::MAX, b"ab", "Not enough bytes to read a vector<bigint, 4294967295>"),
        ] {
            assert_eq!(parts(&of, n, bytes).unwrap_err().0, text);
        }
    }
}
