//! A comparator of a user: text without regard to the case of letters, so that names have several spellings.

use std::sync::Arc;

use firn_wide::schema::Registry;
use firn_wide::schema::interim::{Comparator, Invalid};

#[derive(Debug)]
struct AnyCase;

impl Comparator for AnyCase {
    fn name(&self) -> &str {
        "com.example.AnyCase"
    }

    fn validate(&self, value: &[u8]) -> Result<(), Invalid> {
        if value.is_ascii() { Ok(()) } else { Err(Invalid("not ASCII".into())) }
    }

    fn encode(&self, value: &[u8], out: &mut Vec<u8>) {
        out.extend(value.iter().map(u8::to_ascii_lowercase));
        out.push(0);
    }

    fn decode(&self, from: &mut &[u8]) -> Option<Vec<u8>> {
        let end = from.iter().position(|b| *b == 0)?;
        let value = from[..end].to_vec();
        *from = &from[end + 1..];
        Some(value)
    }

    fn from_text(&self, text: &str) -> Result<Vec<u8>, Invalid> {
        Ok(text.as_bytes().to_vec())
    }

    fn to_text(&self, value: &[u8]) -> String {
        String::from_utf8_lossy(value).into_owned()
    }
}

/// The built-in types and `com.example.AnyCase`.
pub fn registry() -> Arc<Registry> {
    let mut registry = Registry::new();
    registry.add(Arc::new(AnyCase));
    Arc::new(registry)
}
