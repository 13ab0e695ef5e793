//! Comparators defined by scripts: a function returns the sort key of each value. A higher layer
//! provides the language.
//!
//! ```text
//! form ::= escaped(key of the function) value
//! ```
//! Values with equal keys are distinguished by their own bytes, and can be decoded without the
//! script.

use std::fmt;
use std::sync::Arc;

use super::comparator::Comparator;
use super::errors::{Malformed, TypeError};
use super::escape::{escaped_len, put_escaped};
use super::hex::{hex, hex_to_bytes};

/// A language for comparators.
pub trait ComparatorLanguage: Send + Sync {
    /// Returns its name, as stored in definitions.
    fn name(&self) -> &str;

    /// Compiles a script.
    ///
    /// # Errors
    /// Errors in the script.
    fn compile(&self, script: &str) -> Result<Arc<dyn OrderFunction>, TypeError>;
}

/// A function that orders values. It must always return the same bytes for a value.
pub trait OrderFunction: Send + Sync {
    /// Returns the sort key of a value, which is never empty. Keys are compared as unsigned bytes,
    /// shorter first.
    ///
    /// # Errors
    /// The reason why the value is invalid.
    fn key(&self, value: &[u8]) -> Result<Vec<u8>, TypeError>;
}

/// A comparator whose order is defined by a function of a script.
pub struct ScriptComparator {
    name: String,
    order: Result<Arc<dyn OrderFunction>, String>,
}

impl ScriptComparator {
    /// Creates the comparator with this name. If the script cannot be compiled here, values can be
    /// read, but not written.
    pub fn new(
        name: &str,
        script: &str,
        language: Option<&dyn ComparatorLanguage>,
    ) -> ScriptComparator {
        let order = match language {
            Some(language) => language.compile(script).map_err(|e| e.0),
            None => Err("this program has no such language".to_owned()),
        };
        ScriptComparator { name: name.to_owned(), order }
    }

    fn key(&self, value: &[u8]) -> Result<Vec<u8>, TypeError> {
        let failed = |why: &str| TypeError(format!("the script of {} failed: {why}", self.name));
        match &self.order {
            Ok(order) => order.key(value).map_err(|e| failed(&e.0)),
            Err(why) => Err(failed(why)),
        }
    }
}

impl fmt::Debug for ScriptComparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScriptComparator").field(&self.name).finish()
    }
}

impl Comparator for ScriptComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn validate(&self, value: &[u8]) -> Result<(), TypeError> {
        if value.is_empty() { Ok(()) } else { self.key(value).map(|_| ()) }
    }

    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
        put_escaped(&self.key(value)?, out);
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(&self, form: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let key = escaped_len(form).ok_or(Malformed)?;
        out.extend_from_slice(form.get(key..).ok_or(Malformed)?);
        Ok(())
    }

    fn from_text(&self, text: &str, out: &mut Vec<u8>) -> Result<(), TypeError> {
        match text.strip_prefix("0x").map(hex_to_bytes) {
            Some(Ok(bytes)) => out.extend(bytes),
            _ => out.extend_from_slice(text.as_bytes()),
        }
        Ok(())
    }

    fn to_text(&self, value: &[u8]) -> String {
        match std::str::from_utf8(value) {
            Ok(text)
                if !text.chars().any(char::is_control)
                    && text.strip_prefix("0x").is_none_or(|d| hex_to_bytes(d).is_err()) =>
            {
                text.to_owned()
            }
            _ => format!("0x{}", hex(value)),
        }
    }
}
