//! Hexadecimal encoding of bytes.

use super::errors::{TypeError, error};

/// Returns the hexadecimal digits of these bytes, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digits = |b: &u8| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]];
    let mut out = String::with_capacity(2 * bytes.len());
    out.extend(bytes.iter().flat_map(digits));
    out
}

/// Decodes a hexadecimal text in either case.
///
/// # Errors
/// Errors for an odd length (`An hex string representing bytes must have an even length`) or
/// another character (`Non-hex characters in <text>`).
pub fn hex_to_bytes(text: &str) -> Result<Vec<u8>, TypeError> {
    if !text.len().is_multiple_of(2) {
        return error("An hex string representing bytes must have an even length");
    }
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let pairs = text.as_bytes().chunks_exact(2).map(|p| Some(digit(p[0])? << 4 | digit(p[1])?));
    pairs.collect::<Option<_>>().ok_or_else(|| TypeError(format!("Non-hex characters in {text}")))
}
