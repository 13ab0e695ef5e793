//! Floor 1: the layout of keys: the positions of cells and deletions of a partition in a family's
//! tree (model 2.1, 2.12).
//!
//! ```text
//! key        ::= partition place
//! partition  ::= token component(key)        token: of the length that the partitioner says; the key is escaped bytes
//! place      ::= 0x20                        deletion of the partition
//!              | 0x24 bound                  deletion of a range of rows: its start; the value has its end
//!              | 0x30 cell                   static cell
//!              | row ( 0x20 | cell )         deletion of the row, or a cell of it
//! row        ::= 0x40 component* 0x38        one component per clustering column: none in a Standard family, the super column's name
//! bound      ::= 0x40 component* ( 0x20 | 0x60 )     before or after all rows that begin with these components
//!              | 0x40 component* 0x38 ( component | 0x40 component* ) ( 0x20 | 0x60 )   in a family: all cells of this name, or
//!                                                        whose composite name begins with these components
//! cell       ::= component(name) 0x38 [ 0x20 | component(path) 0x38 ]    of a complex column: its deletion, or one element
//! component  ::= 0x40 bytes | 0x3F (empty) | 0x41 (empty, reversed type) | 0x3E (null)
//! ```
//! Invariants:
//! - Keys sort like the objects that they name, and a deletion sorts before everything that it
//!   covers.
//! - The partition part is found in any key without the types ([`partition_len`]). A deletion's
//!   container is its key without the last byte. Keys in a container continue it with a byte below
//!   [`BEYOND`]. (The escaped form of a key may be a prefix of another's, which then continues with
//!   0xFE.)
//! - No bytes make a function of this module panic.

mod layout;

pub use layout::{KeyNameList, KeyPlace, Layout};

use crate::types::NEXT;
use crate::types::escape::escaped_len;

/// Section of the deletion of a partition; also the last byte of the deletion of a row or of a
/// complex column.
pub const DELETION: u8 = 0x20;
/// Section of range deletions.
pub const RANGES: u8 = 0x24;
/// Section of static cells.
pub const STATIC: u8 = 0x30;
/// Ends a sequence of components.
pub const END: u8 = 0x38;
/// Section of rows.
pub const ROWS: u8 = 0x40;
/// Larger than every byte that continues a partition, a row or a complex column.
pub const BEYOND: u8 = 0x42;
/// Ends a bound before all rows with its components.
pub const BEFORE: u8 = 0x20;
/// Ends a bound after all rows with its components.
pub const AFTER: u8 = 0x60;

/// Returns the length of the partition part at the start of `key`, for tokens of this many bytes;
/// `None` if it has none.
#[inline]
pub fn partition_len(key: &[u8], token_len: usize) -> Option<usize> {
    if key.get(token_len) != Some(&NEXT) {
        return None;
    }
    Some(token_len + 1 + escaped_len(&key[token_len + 1..])?)
}

/// Reports whether `key` is in the container whose deletion has the key `prefix` and one byte more.
#[inline]
pub fn is_inside(key: &[u8], prefix: &[u8]) -> bool {
    key.starts_with(prefix) && key.get(prefix.len()).is_some_and(|&b| b < BEYOND)
}
