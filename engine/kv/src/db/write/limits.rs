//! Checks the lengths of keys and values.

use crate::base::error::{Error, Result};
use crate::base::key::{MAX_KEY_LEN, MAX_VALUE_LEN};

/// Checks the length of a key.
#[inline]
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= MAX_KEY_LEN {
        return Ok(());
    }
    Err(Error::invalid(format!("a key of {} bytes; the limit is {MAX_KEY_LEN}", key.len())))
}

/// Checks the length of a value.
#[inline]
pub fn check_value(value: &[u8]) -> Result<()> {
    if value.len() <= MAX_VALUE_LEN {
        return Ok(());
    }
    Err(Error::invalid(format!("a value of {} bytes; the limit is {MAX_VALUE_LEN}", value.len())))
}
