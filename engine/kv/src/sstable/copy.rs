//! A data block that goes from one table into another as it is: what a compaction does with blocks
//! that nothing overlaps.
//!
//! Invariants: only a *plain* block is copied (puts of distinct keys, none of which goes on in a
//! neighbour), so its flags hold in the other table too; only the checksum, which knows file and
//! offset, is made anew. So does its separator, but where other keys may come before that: then the
//! block has one entry, whose key becomes the separator ([`WholeBlock::alone`]). The stored bytes
//! are checked against the old checksum on the way, so a copy never makes rot look sound (one whose
//! value can't be decoded, under a checksum that is right, stays as it was), and the keys at the
//! block's ends against a separator that stays, so the new index is in order.

use super::format::StoredBlock;
use super::index::{BlockInfo, PLAIN};
use super::search::Block;
use super::table::{BytesAtHand, Table, validate};
use crate::base::error::Result;
use crate::base::key::Trailer;
use crate::base::options::Compression;
use crate::cache::InheritedBlock;

/// A plain block of a table.
pub struct WholeBlock<'a> {
    table: &'a Table,
    number: usize,
    decoded: Block<'a>,
    first: &'a [u8],
    info: BlockInfo,
    is_cached: bool,
    /// The block as it is stored, where that has been kept: always where `decoded` is a stub.
    read: Option<StoredBlock<'a>>,
    /// What else of the file need not be read.
    at_hand: Option<BytesAtHand<'a>>,
}

debug_by!(WholeBlock<'_>, "WholeBlock", number);

impl<'a> WholeBlock<'a> {
    /// Block `number` of `table`, whose decoded form and first key are given; `None` when it is not
    /// one that can be copied. `is_cached`: whether that form is the cache's. `read`: the block as
    /// it is stored, without which the form must not be a stub. `at_hand`: bytes of the file.
    pub(super) fn new(
        table: &'a Table,
        number: usize,
        decoded: Block<'a>,
        first: &'a [u8],
        is_cached: bool,
        read: Option<StoredBlock<'a>>,
        at_hand: Option<BytesAtHand<'a>>,
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
            at_hand,
        })
    }

    /// The same block for a place where keys may follow that lie before its separator: if it has one
    /// entry only, whose key is its separator now.
    pub fn alone(mut self) -> Option<WholeBlock<'a>> {
        self.info.separator = self.first.to_vec();
        (self.len() == 1).then_some(self)
    }

    /// What becomes of the block in the cache when it is block `new` of another table.
    pub(super) fn inherited(&self, new: u32) -> Option<InheritedBlock> {
        self.is_cached.then(|| self.table.inherited(self.number, new))
    }

    /// The first key.
    pub fn first_key(&self) -> &'a [u8] {
        self.first
    }

    /// A key at or above the block's last and below the first of the block behind it.
    pub fn separator(&self) -> &[u8] {
        &self.info.separator
    }

    /// Number of entries, at least 1.
    pub fn len(&self) -> usize {
        self.decoded.len()
    }

    /// Never: a block has an entry.
    pub fn is_empty(&self) -> bool {
        self.decoded.len() == 0
    }

    /// Decoded size in bytes.
    pub(super) fn size(&self) -> usize {
        self.read.map_or(self.decoded.bytes().len(), |s| s.raw_len)
    }

    /// Length of the prefix that all of its keys share.
    pub(super) fn prefix_len(&self) -> usize {
        self.decoded.prefix().len()
    }

    /// Puts the decoded block into `out`, which has its size. What is wrong, if it can't be decoded.
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

    /// Bytes that no entry of the table is longer than.
    pub fn largest_entry(&self) -> u64 {
        self.table.properties().largest_entry
    }

    /// How the table wanted its blocks stored.
    pub(super) fn compression(&self) -> Compression {
        self.table.properties().compression
    }

    /// Puts the key of entry `i` into `key`; gives its trailer and the length of its value.
    pub(super) fn entry(&self, i: usize, key: &mut Vec<u8>) -> (Trailer, usize) {
        let entry = self.decoded.entry(i);
        self.decoded.key_into(i, key);
        // A stub has no value, and is shorter by that.
        let missing = self.size() - self.decoded.bytes().len();
        (entry.trailer, entry.value.len() + missing)
    }

    /// Checks that the block's first and last key are where the index says that they are: the
    /// separator goes into the copy's index as it is, and order there is what every search relies
    /// on. `key` is scratch space.
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

    /// Gives the stored bytes, checked, to `f`.
    pub(super) fn stored<R>(&self, f: impl FnOnce(StoredBlock<'_>) -> R) -> Result<R> {
        match self.read {
            Some(stored) => Ok(f(stored)),
            None => self.table.place(self.number).stored(self.at_hand, |s| Ok(f(s))),
        }
    }
}
