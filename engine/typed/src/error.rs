//! [`Error`] of typed trees.

use std::fmt;

use crate::reader::DecodeError;

/// Result with the crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a typed tree.
///
/// It converts to the engine's error, so `?` works in closures of `Db::transact`: a failed decoding
/// is a corruption there, and a failed encoding an invalid argument.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Error of the engine.
    Engine(firn_kv::Error),
    /// A stored key or value is not an encoding of the tree's type.
    Decode {
        /// Name of the tree.
        tree: String,
        /// The stored key.
        key: Vec<u8>,
        /// The part of the entry that was decoded.
        part: EntryPart,
        /// Type, offset and reason.
        source: DecodeError,
    },
    /// A value cannot be encoded. Nothing was written.
    Encode {
        /// Name of the tree.
        tree: String,
        /// The reason.
        source: EncodeError,
    },
}

/// Part of an entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryPart {
    /// The key.
    Key,
    /// The value.
    Value,
}

impl fmt::Display for EntryPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EntryPart::Key => "key",
            EntryPart::Value => "value",
        })
    }
}

/// Error of encoding a value, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError(pub String);

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot encode the value: {}", self.0)
    }
}

impl std::error::Error for EncodeError {}

impl From<firn_kv::Error> for Error {
    fn from(error: firn_kv::Error) -> Error {
        Error::Engine(error)
    }
}

impl From<Error> for firn_kv::Error {
    fn from(error: Error) -> firn_kv::Error {
        match error {
            Error::Engine(e) => e,
            Error::Decode { tree, key, part, source } => {
                firn_kv::Error::corruption(source.to_string())
                    .context(format_args!("the {part}"))
                    .of_tree(&tree)
                    .keys(&key, &key)
            }
            Error::Encode { tree, source } => {
                firn_kv::Error::invalid(source.to_string()).of_tree(&tree)
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Engine(e) => e.fmt(f),
            Error::Decode { tree, key, part, source } => write!(
                f,
                "the {part}: {source} (tree {tree:?}, key \"{}\"); open the tree with its types",
                key.escape_ascii()
            ),
            Error::Encode { tree, source } => write!(f, "{source} (tree {tree:?})"),
        }
    }
}

/// It has no source: its text includes that of its cause, so a printed chain repeats nothing.
impl std::error::Error for Error {}
