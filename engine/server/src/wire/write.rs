//! Writers of the specification's notations (section 3). They truncate texts that exceed their
//! length field: those are names and messages.

use std::net::IpAddr;

/// Returns the longest prefix of a text that has at most this many bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Appends a `[short]`.
pub fn put_short(out: &mut Vec<u8>, n: u16) {
    out.extend_from_slice(&n.to_be_bytes());
}

/// Appends an `[int]`.
pub fn put_int(out: &mut Vec<u8>, n: i32) {
    out.extend_from_slice(&n.to_be_bytes());
}

/// Appends a count as `[int]`; it always fits.
pub fn put_count(out: &mut Vec<u8>, n: usize) {
    put_int(out, i32::try_from(n).unwrap_or(i32::MAX));
}

/// Appends a count as `[short]`; it always fits.
pub fn put_short_count(out: &mut Vec<u8>, n: usize) {
    put_short(out, u16::try_from(n).unwrap_or(u16::MAX));
}

/// Appends a `[string]`.
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    let text = cut(text, usize::from(u16::MAX));
    put_short_count(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// Appends a `[long string]`.
pub fn put_long_string(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, Some(text.as_bytes()));
}

/// Appends a `[string list]`.
pub fn put_string_list<'a>(out: &mut Vec<u8>, all: impl ExactSizeIterator<Item = &'a str>) {
    put_short_count(out, all.len());
    all.for_each(|text| put_string(out, text));
}

/// Appends `[bytes]`; `None` is null.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_count(out, bytes.len());
            out.extend_from_slice(bytes);
        }
        None => put_int(out, -1),
    }
}

/// Appends a `[short bytes]`.
pub fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_short_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends an `[inet]`.
pub fn put_inet(out: &mut Vec<u8>, ip: IpAddr, port: u16) {
    match ip {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(16);
            out.extend_from_slice(&ip.octets());
        }
    }
    put_int(out, i32::from(port));
}
