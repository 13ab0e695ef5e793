//! Export and import of column families as JSON (model 1.1), and in the form of `sstabledump`
//! (model 5.1).
//!
//! - [`export`], [`import`]: the article's two notations. The full one has the complete contents of
//!   a column family. After import into an empty family, every read returns the same, and so does
//!   another export:
//!   ```text
//!   {"UserProfile": {
//!     "phatduckk": {
//!       "": {"timestamp": 7, "deleted": 1250558004},                                  the row was deleted (names are never empty)
//!       "email": {"name": "email", "value": "phatduckk@example.com", "timestamp": 8},
//!       "phone": {"name": "phone", "timestamp": 9, "deleted": 1250558004},            a tombstone
//!       "visit": {"name": "visit", "value": "x", "timestamp": 9, "ttl": 60, "expires": 1250558064}}}}
//!   ```
//!   A super column is `{"name": …, "value": {its deletion and columns}}`, a counter
//!   `{"name": …, "counter": n, "timestamp": …}`. Data covered by a deletion, and values of
//!   expired cells, are not written: they can't be read any more. The short notation has names and
//!   values of live columns.
//! - [`bytes_of`]: converts a text to the bytes of a type, for rows from other sources.
//! - [`Dump`]: rows as `sstabledump` prints them.
//!
//! Memory use does not grow with the document, except for a chunk of rows and the longest text.
//!
//! A duplicate name in a row is reported with its line, and the later value wins. Where a
//! `TimeUUIDType` is expected, a word such as `timeuuid_1` stands for a new UUID, the same one
//! everywhere in the document. A word that repeats in one row stands for another UUID the second
//! time. The [`ImportReport`] has all of this.
//!
//! Conversion of bytes to text: text types, and `BytesType` values that are text, are unchanged.
//! Other types are as in CQL. Values that would not read back exactly are `0x` and hexadecimal
//! digits.

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

/// An error of reading or writing JSON.
#[derive(Debug)]
#[non_exhaustive]
pub enum JsonFailure {
    /// An invalid document, or contents that its column family refuses.
    Syntax {
        /// Line, from 1.
        line: u64,
        /// Character in the line, from 1.
        column: u64,
        /// The reason.
        why: String,
    },
    /// The document could not be read or written.
    Io(io::Error),
    /// An error of the database.
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

/// It has no source: its text includes that of its cause, so a printed chain repeats nothing.
impl std::error::Error for JsonFailure {}

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

/// Parses a text of a type; for text types and `BytesType`, returns its bytes unchanged.
///
/// # Errors
/// `InvalidRequest` for a text that is invalid for the type.
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
