//! Types whose comparators are unknown here, by name.

use super::comparator::Comparator;
use super::errors::{Malformed, TypeError};
use super::hex::{hex, hex_to_bytes};

/// A type that only another program or Cassandra has. Its values are bytes, in the order of their
/// stored forms; its text form is `0x…`.
#[derive(Debug)]
pub struct ForeignType(pub String);

impl Comparator for ForeignType {
    fn name(&self) -> &str {
        &self.0
    }

    fn validate(&self, _: &[u8]) -> Result<(), TypeError> {
        Ok(())
    }

    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(&self, form: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(form);
        Ok(())
    }

    fn from_text(&self, text: &str, out: &mut Vec<u8>) -> Result<(), TypeError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let wrong = |_| TypeError(format!("{text:?} is no value of {}: write 0x…", self.0));
        out.extend(hex_to_bytes(digits).map_err(wrong)?);
        Ok(())
    }

    fn to_text(&self, value: &[u8]) -> String {
        format!("0x{}", hex(value))
    }
}
