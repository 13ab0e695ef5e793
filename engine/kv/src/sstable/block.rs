//! Data block format: a layout of entries that can be searched without parsing.
//!
//! Decoded form (before compression, and in memory), all integers little-endian:
//! ```text
//! 0   u32  n: number of entries, at least 1
//! 4   u16  prefix_len: length of a prefix that all user keys of the block share: the longest one,
//!          up to 65,535 bytes
//! 6   u8   flags: 1 UNIFORM, 2 PLAIN, 4 WIDE; others 0
//! 7   u8   width: bytes of the trailer in each entry: 0 with UNIFORM, else 1 to 8
//! 8   u64  base: with UNIFORM the trailer (seq << 8 | kind) of every entry, otherwise the smallest
//!          sequence number
//! 16  n x u64       heads: the 8 bytes after the prefix of each user key as a big-endian number,
//!                   padded with zero bytes
//!     (n + 1) x u16 offsets (u32 with WIDE) of the entries and of their end, counted from the
//!                   start of the entries
//!     prefix_len    the prefix
//!     entries: [(seq - base) << 2 | kind - 1, in `width` bytes]
//!              [varint length of the key after the prefix]
//!              [the key's bytes after prefix and head] [value, up to the next offset]
//! ```
//! Entries are in the engine's order: user key ascending, then newest first. So heads are
//! ascending. Entries with equal heads are ordered by the rest of their keys if both keys have 8
//! bytes or more after the prefix. Otherwise they are ordered by key length. Equal keys are ordered
//! by trailer, larger first.
//!
//! - PLAIN: all entries are puts, and no user key occurs twice in the block. No user key continues
//!   from or into a neighbouring block.
//! - WIDE: the entries take more than 65,535 bytes. This is a block of one large entry.
//!
//! Invariants of the builder:
//! - B1: [`BlockBuilder::fit`] never returns less than [`BlockBuilder::finish`] then writes. So a
//!   block that is cut in time fits its frame.
//! - B2: the builder collects at most [`MAX_RAW_KEYS`] bytes of keys before it cuts a block, even
//!   if they share a long prefix.

use crate::base::key::{Kind, Trailer, common_prefix, head};
use crate::util::coding::{put_varint, varint_len};

/// Length of the block header in bytes.
pub(crate) const HEADER: usize = 16;
/// Flag: all entries have the trailer in `base`.
pub(crate) const UNIFORM: u8 = 1;
/// Flag: puts only, no key twice.
pub(crate) const PLAIN: u8 = 2;
/// Flag: offsets are `u32`.
pub(crate) const WIDE: u8 = 4;
/// Maximum length of a shared prefix in bytes. The rest of longer keys is stored in their entries.
const MAX_PREFIX: usize = u16::MAX as usize;
/// Maximum bytes of keys, prefixes included, before a block is cut. It bounds the memory of the
/// builder for long keys.
pub(crate) const MAX_RAW_KEYS: usize = 8 << 20;

/// Returns the part of a block's decoded size that counts towards the target block size. The prefix
/// is stored once per block; at most a quarter of the target counts for it. Otherwise blocks of
/// keys with a long shared prefix would have one entry each, and every entry would store the
/// prefix.
#[inline]
pub(crate) fn counted(size: usize, prefix: usize, aim: usize) -> usize {
    size - prefix.saturating_sub(aim / 4)
}

/// Collects the entries of one block.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    values: Vec<u8>,
    value_ends: Vec<u32>,
    trailers: Vec<Trailer>,
    prefix: usize,
    /// Bytes of keys in the entries, given `prefix`.
    key_bytes: usize,
    min_seq: u64,
    max_seq: u64,
    uniform: bool,
    repeats: bool,
    puts: usize,
    deletes: usize,
}

/// Size of a block with one more entry.
#[derive(Clone, Copy)]
pub(crate) struct Fit {
    /// Upper bound of the decoded size in bytes.
    pub size: usize,
    /// Length of the shared prefix.
    pub prefix: usize,
    key_bytes: usize,
}

/// Summary of a finished block.
#[derive(Clone, Copy)]
pub(crate) struct BlockFacts {
    pub entries: u32,
    pub dense: bool,
    pub plain: bool,
}

/// Returns the bytes of a key in its entry: its length, and the bytes after prefix and head.
#[inline]
fn key_cost(suffix_len: usize) -> usize {
    varint_len(suffix_len as u64) + suffix_len.saturating_sub(8)
}

/// Returns the bytes of a trailer's code if sequence numbers differ by at most `span`.
#[inline]
fn width_of(span: u64) -> usize {
    (71 - (span << 2 | 3).leading_zeros() as usize) / 8
}

impl BlockBuilder {
    pub fn is_empty(&self) -> bool {
        self.trailers.is_empty()
    }

    fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.key_ends[i - 1] as usize };
        &self.keys[start..self.key_ends[i] as usize]
    }

    /// Returns the last entry's key and trailer.
    #[inline]
    pub fn last(&self) -> Option<(&[u8], Trailer)> {
        let n = self.trailers.len();
        (n > 0).then(|| (self.key(n - 1), self.trailers[n - 1]))
    }

    /// Returns the first key.
    pub fn first_key(&self) -> &[u8] {
        if self.is_empty() { &[] } else { self.key(0) }
    }

    /// Returns the approximate number of bytes collected.
    pub fn raw_size(&self) -> usize {
        self.key_bytes + self.values.len() + 12 * self.trailers.len()
    }

    /// Returns the bytes of keys collected.
    pub fn raw_keys(&self) -> usize {
        self.keys.len()
    }

    /// Returns the size of the block with this entry added.
    #[inline]
    pub fn fit(&self, key: &[u8], trailer: Trailer, value_len: usize) -> Fit {
        let n = self.trailers.len();
        let (prefix, key_bytes) = if n == 0 {
            (key.len().min(MAX_PREFIX), 0)
        } else {
            let prefix = common_prefix(self.key(0), key).min(self.prefix);
            let bytes = if prefix == self.prefix {
                self.key_bytes
            } else {
                (0..n).map(|i| key_cost(self.key(i).len() - prefix)).sum()
            };
            (prefix, bytes)
        };
        let key_bytes = key_bytes + key_cost(key.len() - prefix);
        let (low, high) = if n == 0 {
            (trailer.seq(), trailer.seq())
        } else {
            (self.min_seq.min(trailer.seq()), self.max_seq.max(trailer.seq()))
        };
        let same = n == 0 || (self.uniform && trailer == self.trailers[0]);
        let trailers = if same { 0 } else { (n + 1) * width_of(high - low) };
        let entries = key_bytes + trailers + self.values.len() + value_len;
        let width = if entries > u16::MAX as usize { 4 } else { 2 };
        Fit { size: HEADER + 8 * (n + 1) + width * (n + 2) + prefix + entries, prefix, key_bytes }
    }

    /// Adds an entry, given the result of [`fit`](Self::fit) for it.
    #[inline]
    pub fn add(&mut self, fit: Fit, key: &[u8], trailer: Trailer, value: &[u8]) {
        let seq = trailer.seq();
        if let Some((last, _)) = self.last() {
            self.repeats |= last == key;
            self.uniform &= trailer == self.trailers[0];
            self.min_seq = self.min_seq.min(seq);
            self.max_seq = self.max_seq.max(seq);
        } else {
            self.repeats = false;
            self.uniform = true;
            (self.min_seq, self.max_seq) = (seq, seq);
        }
        self.prefix = fit.prefix;
        self.key_bytes = fit.key_bytes;
        match trailer.kind() {
            Some(Kind::Put) => self.puts += 1,
            Some(Kind::Delete) => self.deletes += 1,
            _ => {}
        }
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len() as u32);
        self.values.extend_from_slice(value);
        self.value_ends.push(self.values.len() as u32);
        self.trailers.push(trailer);
    }

    /// Writes the block into `out`, replacing its contents, and starts the next block. `alone` says
    /// that the first key does not continue from the previous block and the last one does not
    /// continue in the next.
    pub fn finish(&mut self, alone: bool, out: &mut Vec<u8>) -> BlockFacts {
        let n = self.trailers.len();
        let plain = alone && !self.repeats && self.puts == n;
        let width = if self.uniform { 0 } else { width_of(self.max_seq - self.min_seq) };
        let entries = self.key_bytes + self.values.len() + n * width;
        let wide = entries > u16::MAX as usize;
        let flags = if self.uniform { UNIFORM } else { 0 }
            | if plain { PLAIN } else { 0 }
            | if wide { WIDE } else { 0 };
        let base =
            if self.uniform { self.trailers.first().map_or(0, |t| t.0) } else { self.min_seq };
        out.clear();
        out.reserve(HEADER + 12 * (n + 1) + self.prefix + entries);
        out.extend_from_slice(&(n as u32).to_le_bytes());
        out.extend_from_slice(&(self.prefix as u16).to_le_bytes());
        out.extend_from_slice(&[flags, width as u8]);
        out.extend_from_slice(&base.to_le_bytes());
        for i in 0..n {
            out.extend_from_slice(&head(&self.key(i)[self.prefix..]).to_le_bytes());
        }
        self.put_offsets(wide, width, out);
        out.extend_from_slice(&self.first_key()[..self.prefix]);
        let mut value_start = 0;
        for i in 0..n {
            out.extend_from_slice(&self.code(self.trailers[i]).to_le_bytes()[..width]);
            let suffix = &self.key(i)[self.prefix..];
            put_varint(out, suffix.len() as u64);
            out.extend_from_slice(suffix.get(8..).unwrap_or_default());
            let value_end = self.value_ends[i] as usize;
            out.extend_from_slice(&self.values[value_start..value_end]);
            value_start = value_end;
        }
        let facts = BlockFacts { entries: n as u32, dense: 2 * self.deletes > n, plain };
        self.clear();
        facts
    }

    /// Encodes a trailer for a block with differing trailers.
    #[inline]
    fn code(&self, t: Trailer) -> u64 {
        (t.seq() - self.min_seq) << 2 | ((t.0 & 0xff).wrapping_sub(1) & 3)
    }

    fn put_offsets(&self, wide: bool, width: usize, out: &mut Vec<u8>) {
        let mut at = 0;
        let mut value_start = 0;
        for i in 0..=self.trailers.len() {
            if wide {
                out.extend_from_slice(&(at as u32).to_le_bytes());
            } else {
                out.extend_from_slice(&(at as u16).to_le_bytes());
            }
            let Some(&value_end) = self.value_ends.get(i) else { break };
            let value_end = value_end as usize;
            at += width + key_cost(self.key(i).len() - self.prefix) + value_end - value_start;
            value_start = value_end;
        }
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.key_ends.clear();
        self.values.clear();
        self.value_ends.clear();
        self.trailers.clear();
        (self.prefix, self.key_bytes, self.puts, self.deletes) = (0, 0, 0, 0);
    }
}
