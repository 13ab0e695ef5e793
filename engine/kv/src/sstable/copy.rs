//! Copies a data block unchanged from one table to another. Compactions do this with blocks that
//! nothing overlaps.
//!
//! Invariants:
//! - Only a *plain* block is copied: puts of distinct keys, none of which continues in a
//!   neighbouring block. So its flags hold in the other table too.
//! - Only the checksum is computed anew, because it includes file and offset.
//! - The separator is copied too, unless other keys may come before it. Then the block has one
//!   entry, and its key becomes the separator ([`WholeBlock::alone`]).
//! - The copy verifies the old checksum of the stored bytes, so it never makes damaged bytes look
//!   valid. A block with a valid checksum whose value cannot be decoded is copied unchanged.
//! - The copy checks the block's first and last key against a copied separator, so the new index is
//!   in order.

use super::block_access::{LoadedBytes, validate};
use super::format::StoredBlock;
use super::index::{BlockInfo, PLAIN};
use super::search::Block;
use super::table::Table;
use crate::base::error::Result;
use crate::base::key::Trailer;
use crate::base::options::Compression;
use crate::block_cache::InheritedBlock;

/// A plain block of a table.
pub struct WholeBlock<'a> {
    table: &'a Table,
    number: usize,
    decoded: Block<'a>,
    first: &'a [u8],
    info: BlockInfo,
    is_cached: bool,
    /// Stored bytes of the block, if available. Required if `decoded` is a stub.
    read: Option<StoredBlock<'a>>,
    /// Other bytes of the file that are in memory.
    loaded_bytes: Option<LoadedBytes<'a>>,
}

debug_by!(WholeBlock<'_>, "WholeBlock", number);

impl<'a> WholeBlock<'a> {
    /// Wraps block `number` of `table`, given its decoded form and first key. Returns `None` if it
    /// cannot be copied. `is_cached` says whether the decoded form is in the cache. `read` is the
    /// stored block; without it, the form must not be a stub. `loaded_bytes` is bytes of the file
    /// in memory.
    pub(super) fn new(
        table: &'a Table,
        number: usize,
        decoded: Block<'a>,
        first: &'a [u8],
        is_cached: bool,
        read: Option<StoredBlock<'a>>,
        loaded_bytes: Option<LoadedBytes<'a>>,
    ) -> Option<WholeBlock<'a>> {
        let plain =
            table.index.flags(number) & PLAIN != 0 && decoded.is_plain() && decoded.len() > 0;
        // The entries of an ingested table have a sequence number that is not in the file.
        (plain && table.lift() == 0).then(|| WholeBlock {
            table,
            number,
            decoded,
            first,
            info: table.index.info(number),
            is_cached,
            read,
            loaded_bytes,
        })
    }

    /// Prepares the block for a position where following keys may be below its separator. Returns
    /// it only if it has one entry; its key becomes the separator.
    pub fn alone(mut self) -> Option<WholeBlock<'a>> {
        self.info.separator = self.first.to_vec();
        (self.len() == 1).then_some(self)
    }

    /// Describes the cached block for its copy as block `new` of another table.
    pub(super) fn inherited(&self, new: u32) -> Option<InheritedBlock> {
        self.is_cached.then(|| self.table.inherited(self.number, new))
    }

    /// Returns the first key.
    pub fn first_key(&self) -> &'a [u8] {
        self.first
    }

    /// Returns a key at or above the block's last key and below the next block's first.
    pub fn separator(&self) -> &[u8] {
        &self.info.separator
    }

    /// Returns the number of entries, at least 1.
    pub fn len(&self) -> usize {
        self.decoded.len()
    }

    /// Reports false, because a block has an entry.
    pub fn is_empty(&self) -> bool {
        self.decoded.len() == 0
    }

    /// Returns the decoded size in bytes.
    pub(super) fn size(&self) -> usize {
        self.read.map_or(self.decoded.bytes().len(), |s| s.raw_len)
    }

    /// Returns the length of the prefix that all keys of the block share.
    pub(super) fn prefix_len(&self) -> usize {
        self.decoded.prefix().len()
    }

    /// Decodes the block into `out`, which must have its size. Returns a description of the fault
    /// if it cannot be decoded.
    pub(super) fn decode_into(&self, out: &mut [u8]) -> Result<(), &'static str> {
        match self.read {
            Some(stored) if self.decoded.bytes().len() < stored.raw_len => {
                stored.unpack(out).and_then(|()| validate(out))
            }
            _ => {
                out.copy_from_slice(self.decoded.bytes());
                Ok(())
            }
        }
    }

    /// Returns an upper bound of the size of the table's entries, in bytes.
    pub fn largest_entry(&self) -> u64 {
        self.table.properties().largest_entry
    }

    /// Returns the codec that the table was written with.
    pub(super) fn compression(&self) -> Compression {
        self.table.properties().compression
    }

    /// Writes the key of entry `i` into `key`. Returns its trailer and the length of its value.
    pub(super) fn entry(&self, i: usize, key: &mut Vec<u8>) -> (Trailer, usize) {
        let entry = self.decoded.entry(i);
        self.decoded.key_into(i, key);
        // A stub lacks the value and is shorter by its length.
        let missing = self.size() - self.decoded.bytes().len();
        (entry.trailer, entry.value.len() + missing)
    }

    /// Checks that the block's first and last key agree with the index. The copy's index gets the
    /// separator unchanged, and every search relies on the order there. `key` is scratch space.
    ///
    /// # Errors
    /// `Corruption`.
    pub(super) fn check_bounds(&self, key: &mut Vec<u8>) -> Result<()> {
        self.decoded.key_into(self.len() - 1, key);
        if self.first > key.as_slice() || key.as_slice() > self.separator() {
            let e = self
                .table
                .place(self.number)
                .corrupt("a block that ends behind its separator, or before it begins");
            return Err(e.keys(self.separator(), key));
        }
        Ok(())
    }

    /// Passes the verified stored bytes to `f`.
    pub(super) fn stored<R>(&self, f: impl FnOnce(StoredBlock<'_>) -> R) -> Result<R> {
        match self.read {
            Some(stored) => Ok(f(stored)),
            None => self.table.place(self.number).stored(self.loaded_bytes, |s| Ok(f(s))),
        }
    }
}
