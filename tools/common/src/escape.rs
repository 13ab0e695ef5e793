//! Bytes as text and back: the escapes of TSV fields, and hexadecimal.
//!
//! Invariant: [`decode`] reverses [`encode`] for any bytes, and the output of [`encode`] has no tab
//! and no line end, so any record is one line of two columns.
//!
//! | byte | written as |
//! |---|---|
//! | tab, line feed, carriage return, backslash | `\t`, `\n`, `\r`, `\\` |
//! | for a terminal also: other control bytes, and bytes that are no UTF-8 | `\xNN` |
//! | any other | as it is |

/// Format of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Escapes only characters that would break a line or a column.
    Plain,
    /// Also escapes terminal control characters and unprintable bytes.
    Terminal,
    /// Two hexadecimal digits a byte.
    Hex,
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn push_hex(byte: u8, out: &mut Vec<u8>) {
    out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

fn push_x(byte: u8, out: &mut Vec<u8>) {
    out.extend(b"\\x");
    push_hex(byte, out);
}

/// Appends `bytes` to `out`.
pub fn encode(bytes: &[u8], show: Show, out: &mut Vec<u8>) {
    match show {
        Show::Hex => bytes.iter().for_each(|&b| push_hex(b, out)),
        Show::Plain => escape(bytes, out),
        Show::Terminal => {
            for chunk in bytes.utf8_chunks() {
                for c in chunk.valid().chars() {
                    let mut buf = [0; 4];
                    let c_bytes = c.encode_utf8(&mut buf).as_bytes();
                    if c.is_control() && !matches!(c, '\t' | '\n' | '\r') {
                        c_bytes.iter().for_each(|&b| push_x(b, out));
                    } else {
                        escape(c_bytes, out);
                    }
                }
                chunk.invalid().iter().for_each(|&b| push_x(b, out));
            }
        }
    }
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(i) = rest.iter().position(|b| matches!(b, b'\t' | b'\n' | b'\r' | b'\\')) {
        out.extend_from_slice(&rest[..i]);
        out.push(b'\\');
        out.push(match rest[i] {
            b'\t' => b't',
            b'\n' => b'n',
            b'\r' => b'r',
            _ => b'\\',
        });
        rest = &rest[i + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends the bytes of the TSV field `text` to `out`; the error has the reason.
pub fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = text;
    while let Some(i) = rest.iter().position(|&b| b == b'\\') {
        out.extend_from_slice(&rest[..i]);
        let (byte, len) = match rest.get(i + 1) {
            Some(b't') => (b'\t', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b'\\') => (b'\\', 2),
            Some(b'x') => match rest.get(i + 2..i + 4).map(pair) {
                Some(Some(byte)) => (byte, 4),
                _ => return Err("\\x without two hexadecimal digits behind it".into()),
            },
            Some(other) => return Err(format!("the unknown escape \\{}", other.escape_ascii())),
            None => return Err("a single backslash at the end".into()),
        };
        out.push(byte);
        rest = &rest[i + len..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

fn digit(b: u8) -> Option<u8> {
    char::from(b).to_digit(16).map(|d| d as u8)
}

fn pair(text: &[u8]) -> Option<u8> {
    match text {
        &[a, b] => Some(digit(a)? << 4 | digit(b)?),
        _ => None,
    }
}

/// Appends the bytes of hexadecimal digits to `out`; the error has the reason.
pub fn decode_hex(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    if !text.len().is_multiple_of(2) {
        return Err("an odd number of hexadecimal digits".into());
    }
    for two in text.chunks_exact(2) {
        out.push(pair(two).ok_or_else(|| {
            format!("{:?} are no hexadecimal digits", String::from_utf8_lossy(two))
        })?);
    }
    Ok(())
}

/// Formats `bytes` in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    encode(bytes, Show::Hex, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Formats `bytes` for a message, as for a terminal.
pub fn words(bytes: &[u8]) -> String {
    let mut out = vec![];
    encode(bytes, Show::Terminal, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_what_the_table_says() {
        let mut out = vec![];
        encode(b"a\tb\nc\rd\\e\x00\xff", Show::Plain, &mut out);
        assert_eq!(out, b"a\\tb\\nc\\rd\\\\e\x00\xff");
        assert_eq!(words("ü\x1b[0m\u{85}".as_bytes()), "ü\\x1b[0m\\xc2\\x85");
        assert_eq!(words(b"\xff\\"), "\\xff\\\\");
        assert_eq!(hex(b"\x00a\xff"), "0061ff");
    }

    #[test]
    fn what_is_no_escape_is_refused() {
        for bad in ["\\", "a\\q", "\\x", "\\x1", "\\xzz", "\\\\\\"] {
            assert!(decode(bad.as_bytes(), &mut vec![]).is_err(), "{bad}");
        }
        for bad in ["0", "0g", "é1"] {
            assert!(decode_hex(bad.as_bytes(), &mut vec![]).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_round_trip(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\\'), Just(b'\n')], 0..60)) {
            for show in [Show::Plain, Show::Terminal] {
                let (mut text, mut back) = (vec![], vec![]);
                encode(&bytes, show, &mut text);
                prop_assert!(!text.iter().any(|b| matches!(b, b'\t' | b'\n' | b'\r')));
                prop_assert_eq!(decode(&text, &mut back), Ok(()));
                prop_assert_eq!(&back, &bytes);
            }
            let mut back = vec![];
            prop_assert_eq!(decode_hex(hex(&bytes).as_bytes(), &mut back), Ok(()));
            prop_assert_eq!(&back, &bytes);
        }
    }
}
