//! Families as JSON, out and in (model 1.1), and as `sstabledump` shows tables (model 5.1).
//!
//! - [`export`], [`import`]: the article's two notations. The full one holds all that there is to a
//!   family, so that an empty family that it is read into is the same in every read and gives the
//!   same text again:
//!   ```text
//!   {"UserProfile": {
//!     "phatduckk": {
//!       "": {"timestamp": 7, "deleted": 1250558004},                                  the row was deleted (names are never empty)
//!       "email": {"name": "email", "value": "phatduckk@example.com", "timestamp": 8},
//!       "phone": {"name": "phone", "timestamp": 9, "deleted": 1250558004},            a tombstone
//!       "visit": {"name": "visit", "value": "x", "timestamp": 9, "ttl": 60, "expires": 1250558064}}}}
//!   ```
//!   A super column is `{"name": …, "value": {its deletion and columns}}`, a counter
//!   `{"name": …, "counter": n, "timestamp": …}`. What a deletion covers, and the value of what has
//!   expired, is not written: it can't be read any more. The short notation holds names and values
//!   of what is alive.
//! - [`bytes_of`]: a text as the bytes of a type, for whoever has rows from elsewhere.
//! - [`Dump`]: rows as `sstabledump` prints them.
//!
//! Nothing here grows with what is read or written, but a chunk of rows and the longest text.
//!
//! A name that stands twice in a row is reported with its line, and the later value counts. Where a
//! `TimeUUIDType` is expected, a word such as `timeuuid_1` stands for a new UUID, the same one
//! wherever the word stands in the document; where it stands twice in one row, for another one the
//! second time. All that is in the [`ImportReport`].
//!
//! How bytes become text: text types and `BytesType` as they are where that is text, other types as
//! CQL writes them, and what that would not give back exactly as `0x` and hexadecimal digits.

mod dump;
mod emit;
mod export;
mod import;
mod lex;
mod reading;
mod report;
mod times;

use std::borrow::Cow;
use std::fmt;
use std::io;

pub use dump::Dump;
pub use emit::Emit;
pub use export::{Notation, dump, export};
pub use import::import;
pub use reading::ImportOptions;
pub use report::ImportReport;
pub use times::Times;

use firn_wide::internals::base::error::invalid;
use firn_wide::{Error, Type};

use crate::text::{self, Ticks};

/// Why JSON could not be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum JsonFailure {
    /// A document that is wrong, or holds what its family refuses.
    Syntax {
        /// The line, from 1.
        line: u64,
        /// The character in the line, from 1.
        column: u64,
        /// What is wrong.
        why: String,
    },
    /// The document could not be read or written.
    Io(io::Error),
    /// The database refused.
    Data(Error),
}

impl fmt::Display for JsonFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonFailure::Syntax { line, column, why } => {
                write!(f, "line {line}, column {column}: {why}")
            }
            JsonFailure::Io(e) => e.fmt(f),
            JsonFailure::Data(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for JsonFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            JsonFailure::Syntax { .. } => None,
            JsonFailure::Io(e) => Some(e),
            JsonFailure::Data(e) => Some(e),
        }
    }
}

impl From<io::Error> for JsonFailure {
    fn from(e: io::Error) -> JsonFailure {
        JsonFailure::Io(e)
    }
}

impl From<Error> for JsonFailure {
    fn from(e: Error) -> JsonFailure {
        JsonFailure::Data(e)
    }
}

/// The bytes of a type that a text means; of text types and `BytesType` the text itself, byte for
/// byte.
///
/// # Errors
/// `InvalidRequest` for a text that isn't of the type.
pub fn bytes_of<'a>(of: &Type, written: &'a [u8]) -> Result<Cow<'a, [u8]>, Error> {
    match (of.unreversed(), std::str::from_utf8(written)) {
        (Type::Utf8 | Type::Ascii | Type::Bytes, _) => Ok(written.into()),
        (of, Ok(written)) => {
            let mut out = vec![];
            text::read(of, written, &mut Ticks(0), &mut out)?;
            Ok(out.into())
        }
        (_, Err(_)) => Err(invalid("a text that is not UTF-8")),
    }
}
