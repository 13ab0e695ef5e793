//! Exact conversion between the bytes of a type and JSON text.
//!
//! - Text types, and `BytesType` values that are text without control characters: unchanged.
//! - Other types: as [`Type::to_text`] writes them (in CQL's form), if that reads back as the same
//!   bytes; integers of up to 15 digits and booleans without quotes.
//! - Everything else, and texts that could be mistaken for it: `0x` and hexadecimal digits.
//!
//!   Reading accepts any text of the type, and for every type `0x` with an even number of digits as
//!   bytes.

use std::borrow::Cow;

use firn_wide::internals::types::{hex, hex_to_bytes};
use firn_wide::{TimeSource, Type, TypeError, Wording, uuids};

/// A value as JSON text.
#[derive(Clone, Debug)]
pub struct JsonText<'a> {
    /// The text, without quotes and escapes.
    pub text: Cow<'a, str>,
    /// Whether it is a number or a boolean, without quotes.
    pub bare: bool,
}

/// Returns the bytes of a text with `0x`; `None` for other texts.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    hex_to_bytes(text.strip_prefix("0x")?).ok()
}

fn to_hex(bytes: &[u8]) -> String {
    format!("0x{}", hex(bytes))
}

/// Time source for texts of [`show`], which never need it.
struct ZeroTimeSource;

impl TimeSource for ZeroTimeSource {
    fn millis(&mut self) -> i64 {
        0
    }

    fn time_uuid(&mut self) -> [u8; 16] {
        [0; 16]
    }

    fn time_uuid_at(&mut self, _: i64) -> [u8; 16] {
        [0; 16]
    }
}

/// Time source for texts like `now`: each time is a microsecond after the previous one.
#[derive(Debug)]
pub struct Ticks(pub i64);

impl TimeSource for Ticks {
    fn millis(&mut self) -> i64 {
        self.0.div_euclid(1000)
    }

    fn time_uuid(&mut self) -> [u8; 16] {
        self.0 = self.0.wrapping_add(1);
        uuids::time_uuid(self.0, 0, 0, 0)
    }

    fn time_uuid_at(&mut self, millis: i64) -> [u8; 16] {
        self.0 = self.0.wrapping_add(1);
        // The counter makes UUIDs of one millisecond unique.
        uuids::time_uuid(millis.saturating_mul(1000), 0, 0, self.0 as u64)
    }
}

/// Formats a value.
pub fn show<'a>(of: &Type, bytes: &'a [u8]) -> JsonText<'a> {
    let of = of.unreversed();
    let plain = |text: Cow<'a, str>| JsonText { text, bare: false };
    if bytes.is_empty() {
        return plain("".into());
    }
    if let (Type::Utf8 | Type::Ascii | Type::Bytes, Ok(text)) = (of, std::str::from_utf8(bytes)) {
        let as_it_is = match of {
            Type::Ascii => text.is_ascii(),
            Type::Bytes => {
                !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
            }
            _ => true,
        };
        return plain(if as_it_is && from_hex(text).is_none() {
            text.into()
        } else {
            to_hex(bytes).into()
        });
    }
    if *of == Type::Bytes {
        return plain(to_hex(bytes).into());
    }
    let text = of.to_text(bytes, Wording::Cql);
    let mut back = vec![];
    let exact = from_hex(&text).is_none()
        && of.from_text(&text, Wording::Cql, &mut ZeroTimeSource, &mut back).is_ok()
        && back == bytes;
    if !exact {
        return plain(to_hex(bytes).into());
    }
    let whole = matches!(
        of,
        Type::Long | Type::Int32 | Type::Short | Type::Byte | Type::Integer | Type::Counter
    );
    let bare = (whole && text.len() <= 15) || *of == Type::Boolean;
    JsonText { text: text.into(), bare }
}

/// Parses a text.
///
/// # Errors
/// The type's reason for an invalid text.
pub fn read(of: &Type, text: &str, times: &mut Ticks, out: &mut Vec<u8>) -> Result<(), TypeError> {
    match (from_hex(text), of.unreversed()) {
        (Some(bytes), _) => out.extend(bytes),
        (None, Type::Bytes | Type::Utf8) => out.extend_from_slice(text.as_bytes()),
        (None, of) => of.from_text(text, Wording::Cql, times, out)?,
    }
    Ok(())
}

/// Formats a name: like a value, but an empty name is distinct from no name.
pub fn show_name<'a>(of: &Type, bytes: &'a [u8]) -> Cow<'a, str> {
    if bytes.is_empty() { "0x".into() } else { show(of, bytes).text }
}
