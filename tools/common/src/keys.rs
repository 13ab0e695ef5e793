//! Keys and key ranges of a command line.

use std::ops::Bound;

use clap::Args;
use firn_kv::internals::base::key::prefix_end;

use crate::escape;
use crate::output::{Done, Failure};

/// Parses a key of the command line: its bytes, or hexadecimal.
pub fn key(text: &std::ffi::OsStr, hex: bool) -> Done<Vec<u8>> {
    let text = text.as_encoded_bytes();
    if !hex {
        return Ok(text.to_vec());
    }
    let mut out = vec![];
    escape::decode_hex(text, &mut out)
        .map_err(|why| Failure::new(format!("the key {}: {why}", escape::words(text))))?;
    Ok(out)
}

/// Key range arguments.
#[derive(Args, Clone, Debug, Default)]
pub struct RangeArgs {
    /// First key
    #[arg(long, value_name = "KEY")]
    pub from: Option<std::ffi::OsString>,
    /// End key, exclusive
    #[arg(long, value_name = "KEY")]
    pub to: Option<std::ffi::OsString>,
    /// Only keys with this prefix
    #[arg(long, value_name = "BYTES")]
    pub prefix: Option<std::ffi::OsString>,
}

/// A half-open range of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRangeArg {
    /// First key; empty for the lowest.
    pub from: Vec<u8>,
    /// End key, exclusive; `None` for no bound.
    pub to: Option<Vec<u8>>,
}

impl RangeArgs {
    /// Reports whether no argument was given.
    pub fn is_empty(&self) -> bool {
        self.from.is_none() && self.to.is_none() && self.prefix.is_none()
    }

    /// Returns the intersection of the arguments.
    pub fn range(&self, hex: bool) -> Done<KeyRangeArg> {
        let bytes = |k: &Option<std::ffi::OsString>| k.as_ref().map(|k| key(k, hex)).transpose();
        let mut range =
            KeyRangeArg { from: bytes(&self.from)?.unwrap_or_default(), to: bytes(&self.to)? };
        if let Some(prefix) = bytes(&self.prefix)? {
            let end = prefix_end(&prefix);
            range.to = match (range.to, end) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            range.from = range.from.max(prefix);
        }
        if range.is_empty() {
            return Err(Failure::with_next(
                "no key can be in this range: it ends where it begins, or before",
                "give --from below --to: --from is the first key, --to the first one after the range",
            ));
        }
        Ok(range)
    }
}

impl KeyRangeArg {
    /// Reports whether the range cannot contain a key.
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    /// Returns the bounds for the engine.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (
            Bound::Included(&self.from),
            self.to.as_ref().map_or(Bound::Unbounded, |k| Bound::Excluded(k.as_slice())),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_meet() {
        let range = |from: Option<&str>, to: Option<&str>, prefix: Option<&str>| {
            let r = RangeArgs {
                from: from.map(Into::into),
                to: to.map(Into::into),
                prefix: prefix.map(Into::into),
            };
            let r = r.range(false).unwrap();
            (String::from_utf8(r.from).unwrap(), r.to.map(|t| String::from_utf8(t).unwrap()))
        };
        let owned = |a: &str, b: Option<&str>| (a.to_owned(), b.map(str::to_owned));
        assert_eq!(range(None, None, None), owned("", None));
        assert_eq!(range(Some("b"), Some("d"), None), owned("b", Some("d")));
        assert_eq!(range(Some("a"), Some("z"), Some("user:")), owned("user:", Some("user;")));
        assert_eq!(
            range(Some("user:5"), Some("user:7"), Some("user:")),
            owned("user:5", Some("user:7"))
        );
        assert_eq!(key("00Ff".as_ref(), true).unwrap(), [0, 255]);
        assert!(key("0".as_ref(), true).is_err());
    }
}
