//! Opening stores and trees the way a command needs them: reading commands never write and never make a store.

use std::ops::Bound;
use std::path::PathBuf;

use clap::Args;
use firn_kv::base::key::prefix_end;
use firn_kv::{Db, DbOptions, Tree};

use crate::escape;
use crate::output::{Color, Done, Failure, Style};

const EVERYWHERE: &str = "Options of every command";

/// What every command takes.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Directory of the store
    #[arg(long, visible_alias = "dir", global = true, help_heading = EVERYWHERE, value_name = "DIR", default_value = "firn-data")]
    pub db: PathBuf,
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
    /// When to use colours
    #[arg(long, global = true, help_heading = EVERYWHERE, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: Color,
}

impl Global {
    /// The colours to use.
    pub fn style(&self) -> Style {
        Style::new(self.color)
    }

    /// Opens the store for reading only: without its lock, without writing a byte, beside a writer too.
    pub fn open_to_read(&self) -> Done<Db> {
        Ok(Db::open_with(&self.db, DbOptions { create: false, read_only: true, ..DbOptions::default() })?)
    }

    /// Opens the store for writing; makes it if `create` is set and there is none.
    ///
    /// About `bytes` are to be written. Each open begins a new log segment, and most commands write a handful of keys: so small
    /// segments for little, to save space, and large ones for much, to save syncs.
    pub fn open_to_write(&self, create: bool, bytes: u64) -> Done<Db> {
        let wal_segment = bytes.clamp(1 << 20, 16 << 20);
        Ok(Db::open_with(&self.db, DbOptions { create, wal_segment, ..DbOptions::default() })?)
    }
}

/// The tree of this name; without a name the tree `default`, or else the only one that there is.
pub fn tree(db: &Db, name: Option<&str>) -> Done<Tree> {
    let names = db.tree_names();
    let list = || if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
    let chosen = match name {
        Some(name) if names.iter().any(|n| n == name) => name,
        Some(name) => {
            return Err(Failure::with_next(format!("the store has no tree {name:?}; {}", list()), "name one with --tree"));
        }
        None => match &names[..] {
            [only] => only,
            _ if names.iter().any(|n| n == DEFAULT_TREE) => DEFAULT_TREE,
            _ => return Err(Failure::with_next(format!("which tree? {}", list()), "name one with --tree NAME")),
        },
    };
    Ok(db.existing_tree(chosen)?)
}

/// The tree of a `load` that names none.
pub const DEFAULT_TREE: &str = "default";

/// A key from the command line: its bytes as they are, or hexadecimal.
pub fn key(text: &std::ffi::OsStr, hex: bool) -> Done<Vec<u8>> {
    let text = text.as_encoded_bytes();
    if !hex {
        return Ok(text.to_vec());
    }
    let mut out = vec![];
    escape::decode_hex(text, &mut out).map_err(|why| Failure::new(format!("the key {}: {why}", escape::words(text))))?;
    Ok(out)
}

/// A range of keys as the command line gives it.
#[derive(Args, Clone, Debug, Default)]
pub struct RangeArgs {
    /// The first key
    #[arg(long, value_name = "KEY")]
    pub from: Option<std::ffi::OsString>,
    /// The key behind the last one: it is not part of the range
    #[arg(long, value_name = "KEY")]
    pub to: Option<std::ffi::OsString>,
    /// Only keys that begin with this
    #[arg(long, value_name = "BYTES")]
    pub prefix: Option<std::ffi::OsString>,
}

/// A half-open range of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// Its first key; empty for the very first.
    pub from: Vec<u8>,
    /// The key behind its last; `None` for no bound.
    pub to: Option<Vec<u8>>,
}

impl RangeArgs {
    /// Whether nothing was given.
    pub fn is_empty(&self) -> bool {
        self.from.is_none() && self.to.is_none() && self.prefix.is_none()
    }

    /// The range that all of it together means.
    pub fn range(&self, hex: bool) -> Done<KeyRange> {
        let bytes = |k: &Option<std::ffi::OsString>| k.as_ref().map(|k| key(k, hex)).transpose();
        let mut range = KeyRange { from: bytes(&self.from)?.unwrap_or_default(), to: bytes(&self.to)? };
        if let Some(prefix) = bytes(&self.prefix)? {
            let end = prefix_end(&prefix);
            range.to = match (range.to, end) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            range.from = range.from.max(prefix);
        }
        Ok(range)
    }
}

impl KeyRange {
    /// For the engine.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(&self.from), self.to.as_ref().map_or(Bound::Unbounded, |k| Bound::Excluded(k.as_slice())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_meet() {
        let range = |from: Option<&str>, to: Option<&str>, prefix: Option<&str>| {
            let r = RangeArgs { from: from.map(Into::into), to: to.map(Into::into), prefix: prefix.map(Into::into) };
            let r = r.range(false).unwrap();
            (String::from_utf8(r.from).unwrap(), r.to.map(|t| String::from_utf8(t).unwrap()))
        };
        let owned = |a: &str, b: Option<&str>| (a.to_owned(), b.map(str::to_owned));
        assert_eq!(range(None, None, None), owned("", None));
        assert_eq!(range(Some("b"), Some("d"), None), owned("b", Some("d")));
        assert_eq!(range(Some("a"), Some("z"), Some("user:")), owned("user:", Some("user;")));
        assert_eq!(range(Some("user:5"), Some("user:7"), Some("user:")), owned("user:5", Some("user:7")));
        assert_eq!(key("00Ff".as_ref(), true).unwrap(), [0, 255]);
        assert!(key("0".as_ref(), true).is_err());
    }
}
