//! Binary search in a decoded block, and in any sorted array of heads. This is the only module of
//! `sstable` with `unsafe`.
//!
//! [`Block`] is a view of a block's decoded bytes (layout: [`block`](super::block)). Only the
//! 16-byte header is parsed.
//!
//! Invariants:
//! - S1: only [`Block::new`] creates a [`BlockShape`]. It checks that header, heads, offsets and
//!   prefix are within `end` bytes. A [`Block`] only exists over at least `end` bytes. So a head or
//!   an offset with an index below `n` (`n + 1`) is in bounds, whatever the bytes contain.
//! - S2: the *values* of offsets and entries are never trusted for memory safety. Entries are read
//!   with checked slicing. Bytes may change after their validation (a map on a failing device).
//!   Then a read can return a wrong answer at worst, never access memory out of bounds.
//! - S3: after [`Block::validate`] every entry decodes, so the fallbacks for invalid entries are
//!   never taken.
//!
//! The only `unsafe` is the unchecked read of heads inside the two branchless binary searches.
//! Bounds checks there would cost as much as the search. Both keep `base + half - 1 < n` by
//! construction, and `n` heads are in bounds by S1 or by the slice's own length.

#![allow(unsafe_code)]

use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::ops::Range;

use super::block::{HEADER, PLAIN, UNIFORM, WIDE};
use crate::base::key::{Kind, MAX_KEY_LEN, MAX_SEQ, Trailer, head};
use crate::util::coding::{ByteReader, u32_at, u64_at};
use crate::util::prefetch::fetch_line;

/// Returns the index of the first element of sorted `heads` that is not below `h`.
#[inline]
pub(crate) fn lower_bound(heads: &[u64], h: u64) -> usize {
    let (mut base, mut len) = (0, heads.len());
    if len == 0 {
        return 0;
    }
    while len > 1 {
        let half = len / 2;
        // SAFETY: base + len <= heads.len() holds at the start and after each step, and 1 <= half <
        // len.
        let below = unsafe { *heads.get_unchecked(base + half - 1) } < h;
        base = select_unpredictable(below, base + half, base);
        len -= half;
    }
    base + (heads[base] < h) as usize
}

/// Prefetches the cache lines of a block that a search touches: header, heads, offsets and prefix
/// of a block of 4 KiB. The steps of the binary search then do not wait for one line after another.
#[inline]
pub(crate) fn prefetch(block: &[u8]) {
    for line in 0..7 {
        fetch_line(block.as_ptr().wrapping_add(64 * line));
    }
}

/// Offsets of the parts of a decoded block. A cursor stores it between steps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockShape {
    n: usize,
    prefix_len: usize,
    /// Start of the entries. Heads, offsets and prefix are before it.
    end: usize,
    flags: u8,
    /// Bytes of the trailer in each entry.
    width: usize,
    base: u64,
}

impl BlockShape {
    /// Returns the length of the prefix that all keys share.
    #[inline]
    pub fn prefix_len(&self) -> usize {
        self.prefix_len
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.n
    }
}

/// One entry of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockEntry<'a> {
    pub trailer: Trailer,
    /// Length of the key after the block's prefix.
    pub suffix_len: usize,
    /// The key after the prefix and the 8 bytes of the head.
    pub rest: &'a [u8],
    pub value: &'a [u8],
    /// End of the value, counted from the start of the block.
    end: usize,
}

impl BlockEntry<'_> {
    /// Reports whether it must come after an entry with the same head.
    fn is_after(&self, other: &BlockEntry<'_>) -> bool {
        let rest = match self.suffix_len.min(other.suffix_len) >= 8 {
            true => self.rest.cmp(other.rest),
            false => self.suffix_len.cmp(&other.suffix_len),
        };
        rest.then(other.trailer.cmp(&self.trailer)).is_ge()
    }

    /// Returns the range of the value in the block's bytes.
    #[inline]
    pub fn value_range(&self) -> Range<u32> {
        (self.end - self.value.len()) as u32..self.end as u32
    }
}

const NO_ENTRY: BlockEntry<'static> =
    BlockEntry { trailer: Trailer(0), suffix_len: 0, rest: &[], value: &[], end: 0 };

/// View of a decoded block.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8],
    shape: BlockShape,
}

impl<'a> Block<'a> {
    /// Creates a view of `bytes`; returns `None` if header, heads, offsets and prefix do not fit.
    /// Touches one cache line.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Block<'a>> {
        let header = bytes.get(..HEADER)?;
        let n = u32_at(header, 0) as usize;
        let prefix_len = u16::from_le_bytes([header[4], header[5]]) as usize;
        let flags = header[6];
        let offset_len = if flags & WIDE != 0 { 4 } else { 2 };
        let end = HEADER + 8 * n + offset_len * (n + 1) + prefix_len;
        let shape = BlockShape {
            n,
            prefix_len,
            end,
            flags,
            width: header[7] as usize,
            base: u64_at(header, 8),
        };
        (end <= bytes.len() && bytes.len() <= u32::MAX as usize).then_some(Block { bytes, shape })
    }

    /// Recreates a view from a stored shape; the view is empty if `bytes` is too short for it.
    #[inline]
    pub fn resume(bytes: &'a [u8], shape: BlockShape) -> Block<'a> {
        if shape.end <= bytes.len() {
            Block { bytes, shape }
        } else {
            Block { bytes: &[], shape: BlockShape::default() }
        }
    }

    #[inline]
    pub fn shape(&self) -> BlockShape {
        self.shape
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.shape.n
    }

    /// Returns the whole block.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the prefix that all keys share.
    #[inline]
    pub fn prefix(&self) -> &'a [u8] {
        &self.bytes[self.shape.end - self.shape.prefix_len..self.shape.end]
    }

    /// Reports whether all entries are puts, and no user key occurs twice in the block or continues
    /// in a neighbouring block.
    pub fn is_plain(&self) -> bool {
        self.shape.flags & PLAIN != 0
    }

    /// Returns the trailer of all entries if they share one.
    pub fn uniform(&self) -> Option<Trailer> {
        (self.shape.flags & UNIFORM != 0).then_some(Trailer(self.shape.base))
    }

    /// Returns the header's flags, the width of a trailer code in bytes, and the base.
    pub fn coding(&self) -> (u8, usize, u64) {
        (self.shape.flags, self.shape.width, self.shape.base)
    }

    /// Returns the offset of entry `i` from the start of the entries (`i` may be `n`), and its
    /// trailer code.
    pub fn place_and_code(&self, i: usize) -> (usize, u64) {
        let start = self.offset(i);
        (
            start - self.shape.end,
            if self.shape.width == 0 || i >= self.shape.n { 0 } else { self.code(start) },
        )
    }

    /// Returns the head of entry `i`: the 8 bytes after the prefix. Returns 0 beyond the end.
    #[inline]
    pub fn head(&self, i: usize) -> u64 {
        if i < self.shape.n { u64_at(self.bytes, HEADER + 8 * i) } else { 0 }
    }

    /// Returns the offset of entry `i` from the start of the block; `i` may be `n`.
    #[inline]
    fn offset(&self, i: usize) -> usize {
        let table = HEADER + 8 * self.shape.n;
        let rel = if self.shape.flags & WIDE == 0 {
            let at = table + 2 * i;
            u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]) as usize
        } else {
            u32_at(self.bytes, table + 4 * i) as usize
        };
        self.shape.end + rel
    }

    /// Returns the trailer code in the entry that begins at `start`.
    #[inline]
    fn code(&self, start: usize) -> u64 {
        let width = self.shape.width.clamp(1, 8);
        match self.bytes.get(start..start + 8) {
            Some(word) => u64_at(word, 0) & u64::MAX >> (64 - 8 * width),
            None => self.bytes[start.min(self.bytes.len())..]
                .iter()
                .take(width)
                .rev()
                .fold(0, |v, &b| v << 8 | b as u64),
        }
    }

    // Without inlining, each step of a scan would pass the entry through memory.
    #[inline(always)]
    fn decode(&self, i: usize) -> Option<BlockEntry<'a>> {
        if i >= self.shape.n {
            return None;
        }
        let (start, end) = (self.offset(i), self.offset(i + 1));
        let bytes = self.bytes.get(start + self.shape.width..end)?;
        let trailer = match self.shape.width {
            0 => Trailer(self.shape.base),
            _ => {
                let code = self.code(start);
                Trailer(self.shape.base.wrapping_add(code >> 2) << 8 | ((code & 3) + 1))
            }
        };
        let (suffix_len, at) = match bytes.first() {
            // One byte in nearly all cases.
            Some(&b) if b < 0x80 => (b as usize, 1),
            _ => {
                let mut r = ByteReader::new(bytes);
                (r.len(MAX_KEY_LEN)?, r.position())
            }
        };
        let (rest, value) = bytes[at..].split_at_checked(suffix_len.saturating_sub(8))?;
        Some(BlockEntry { trailer, suffix_len, rest, value, end })
    }

    /// Returns the bytes after the head of an entry's key: its rest, its value, and the following
    /// entries.
    #[inline]
    pub fn after_head(&self, entry: &BlockEntry<'a>) -> &'a [u8] {
        let from = entry.value_range().start as usize - entry.rest.len();
        self.bytes.get(from..).unwrap_or_default()
    }

    /// Returns entry `i`.
    #[inline]
    pub fn entry(&self, i: usize) -> BlockEntry<'a> {
        self.decode(i).unwrap_or(NO_ENTRY)
    }

    /// Writes the user key of entry `i` into `out`, replacing its contents.
    pub fn key_into(&self, i: usize, out: &mut Vec<u8>) {
        let e = self.entry(i);
        out.clear();
        out.extend_from_slice(self.prefix());
        out.extend_from_slice(&self.head(i).to_be_bytes()[..e.suffix_len.min(8)]);
        out.extend_from_slice(e.rest);
    }

    /// Returns the index of the first head not below `h`.
    #[inline]
    fn lower_bound(&self, h: u64) -> usize {
        let n = self.shape.n;
        if n == 0 {
            return 0;
        }
        // SAFETY: S1: n heads of 8 bytes are within `bytes` from HEADER on.
        let heads = unsafe { self.bytes.as_ptr().add(HEADER) };
        // SAFETY: called with i < n only, so the 8 bytes at 8 * i are within those heads; no
        // alignment is assumed.
        let at =
            |i: usize| u64::from_le(unsafe { heads.add(8 * i).cast::<u64>().read_unaligned() });
        let (mut base, mut len) = (0, n);
        while len > 1 {
            let half = len / 2;
            base = select_unpredictable(at(base + half - 1) < h, base + half, base);
            len -= half;
        }
        base + (at(base) < h) as usize
    }

    /// Compares the key of entry `e` with `suffix`; both must have the same head.
    #[inline]
    fn cmp_equal_heads(e: &BlockEntry<'a>, suffix: &[u8]) -> Ordering {
        match suffix.get(8..) {
            Some(rest) if e.suffix_len >= 8 => e.rest.cmp(rest),
            _ => e.suffix_len.cmp(&suffix.len()),
        }
    }

    /// Returns the first entry at or after `(key, at)`, and whether it has this key.
    #[inline]
    pub fn seek(&self, key: &[u8], at: Trailer) -> (usize, bool) {
        let prefix = self.prefix();
        let Some(suffix) = key.strip_prefix(prefix) else {
            return if key < prefix { (0, false) } else { (self.shape.n, false) };
        };
        let h = head(suffix);
        let i = self.lower_bound(h);
        if i >= self.shape.n || self.head(i) != h {
            return (i, false);
        }
        let e = self.entry(i);
        match Self::cmp_equal_heads(&e, suffix) {
            Ordering::Equal if e.trailer <= at => (i, true),
            Ordering::Greater => (i, false),
            _ => self.seek_in_run(i + 1, suffix, h, at),
        }
    }

    /// Prefetches the entry that [`seek`](Self::seek) of `key` would read first.
    pub fn prefetch_entry(&self, key: &[u8]) {
        if let Some(suffix) = key.strip_prefix(self.prefix()) {
            let i = self.lower_bound(head(suffix));
            if i < self.shape.n {
                fetch_line(self.bytes.as_ptr().wrapping_add(self.offset(i)));
            }
        }
    }

    /// Continues a search at `from` inside a run of equal heads. Entry `from - 1` is before the
    /// target.
    fn seek_in_run(&self, from: usize, suffix: &[u8], h: u64, at: Trailer) -> (usize, bool) {
        let mut low = from;
        let mut high = if h == u64::MAX { self.shape.n } else { self.lower_bound(h + 1) };
        let end = high;
        while low < high {
            let mid = low + (high - low) / 2;
            let e = self.entry(mid);
            if Self::cmp_equal_heads(&e, suffix).then(at.cmp(&e.trailer)).is_lt() {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        (low, low < end && Self::cmp_equal_heads(&self.entry(low), suffix).is_eq())
    }

    /// Checks everything that the accessors rely on: offsets, lengths, kinds, and the order of the
    /// entries. Returns a description of the fault if the block is invalid.
    pub fn validate(&self) -> Result<(), &'static str> {
        let s = &self.shape;
        if s.n == 0 {
            return Err("a block without entries");
        }
        if s.flags & !(UNIFORM | PLAIN | WIDE) != 0
            || s.width > 8
            || (s.flags & UNIFORM != 0) != (s.width == 0)
        {
            return Err("unknown block flags");
        }
        if (s.width > 0 && s.base > MAX_SEQ)
            || (s.flags & UNIFORM != 0 && Trailer(s.base).kind().is_none())
        {
            return Err("a sequence number or kind out of bounds");
        }
        if self.offset(0) != s.end || self.offset(s.n) != self.bytes.len() {
            return Err("entries do not fill the block");
        }
        let (mut last, mut before) = (0, None::<BlockEntry<'_>>);
        for i in 0..s.n {
            let e = self.decode(i).ok_or("an entry that is cut off")?;
            let h = self.head(i);
            if h < last || (h == last && before.is_some_and(|b| b.is_after(&e))) {
                return Err("entries out of order");
            }
            last = h;
            let padding = if e.suffix_len < 8 { u64::MAX >> (8 * e.suffix_len) } else { 0 };
            if h & padding != 0 || s.prefix_len + e.suffix_len > MAX_KEY_LEN {
                return Err("a key's length does not fit its head");
            }
            if s.width > 0 && s.base + (self.code(self.offset(i)) >> 2) > MAX_SEQ {
                return Err("a sequence number out of bounds");
            }
            if e.trailer.kind().is_none()
                || (s.flags & PLAIN != 0 && e.trailer.kind() != Some(Kind::Put))
            {
                return Err("an entry of the wrong kind");
            }
            before = Some(e);
        }
        Ok(())
    }
}
