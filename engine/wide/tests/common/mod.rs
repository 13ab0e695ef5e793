//! A custom comparator: case-insensitive text, so that names have several spellings.

use std::sync::Arc;

use firn_wide::{Comparator, Malformed, Registry, TypeError};

struct AnyCase;

impl Comparator for AnyCase {
    fn name(&self) -> &str {
        "com.example.AnyCase"
    }

    fn validate(&self, value: &[u8]) -> Result<(), TypeError> {
        if value.is_ascii() { Ok(()) } else { Err(TypeError("not ASCII".into())) }
    }

    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
        self.validate(value)?;
        out.extend(value.iter().map(u8::to_ascii_lowercase));
        Ok(())
    }

    fn decode(&self, form: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(form);
        Ok(())
    }

    fn from_text(&self, text: &str, out: &mut Vec<u8>) -> Result<(), TypeError> {
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn to_text(&self, value: &[u8]) -> String {
        String::from_utf8_lossy(value).into_owned()
    }
}

/// Returns the built-in types and `com.example.AnyCase`.
pub fn registry() -> Arc<Registry> {
    let mut registry = Registry::new();
    registry.register(Arc::new(AnyCase));
    Arc::new(registry)
}
