//! Table index: the locations of the data blocks and their key ranges.
//!
//! Index block:
//! ```text
//! varint  number of data blocks
//! varint  length of the prefix that all separators share, and the prefix
//! per data block: varint length of the separator after the prefix, and those bytes
//!                 varint length of the physical block, header included
//!                 varint number of entries
//!                 u8 flags: 1 PLAIN, 2 DENSE (more than half of the entries are deletes),
//!                           4 CONTINUES (the next block begins with a version of the key that
//!                           this one ends with), 8 RAW (stored without compression)
//! ```
//! The offset of a block is the sum of the lengths before it. A block's separator is at or above
//! its last user key and below the first user key of the next block. If the block CONTINUES, the
//! separator is its last user key. So neighbouring separators may then be equal. Separators never
//! decrease.
//!
//! Invariants in memory:
//! - I1: heads are the 8 bytes after the common prefix. A search touches nothing else unless heads
//!   are equal.
//! - I2: every block is within the file's data; [`BlockIndex::decode`] refuses anything else.
//! - I3: a block is marked *barren* once a cursor has found only deletes in it. The mark is not in
//!   the file. With the mark, later cursors skip the block without decoding it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::search::lower_bound;
use crate::base::key::{MAX_KEY_LEN, common_prefix, head};
use crate::util::coding::{ByteReader, put_bytes, put_varint};
use crate::util::prefetch::fetch_line;

/// Flag: puts only, no key twice, none shared with a neighbour.
pub(crate) const PLAIN: u8 = 1;
/// Flag: more than half of the entries are deletes.
pub(crate) const DENSE: u8 = 2;
/// Flag: the next block begins with the key that this one ends with.
pub(crate) const CONTINUES: u8 = 4;
/// Flag: stored without compression.
pub(crate) const RAW: u8 = 8;

/// Collects the index while a table is written.
#[derive(Default)]
pub(crate) struct IndexBuilder {
    separators: Vec<u8>,
    ends: Vec<usize>,
    rows: Vec<(u32, u32, u8)>,
}

/// Appends a short key at or above `last` and below `next` to `out`. `next` must be larger than
/// `last`.
fn put_separator(last: &[u8], next: &[u8], out: &mut Vec<u8>) {
    let c = common_prefix(last, next);
    if c >= last.len() || c >= next.len() {
        out.extend_from_slice(last);
    } else if next.len() > c + 1 {
        out.extend_from_slice(&next[..=c]);
    } else if last[c] + 1 < next[c] {
        out.extend_from_slice(&last[..c]);
        out.push(last[c] + 1);
    } else {
        out.extend_from_slice(last);
    }
}

impl IndexBuilder {
    /// Adds a block that ends with the key `last`; `next` is the first key of the next block.
    pub fn add(&mut self, last: &[u8], next: Option<&[u8]>, len: u32, entries: u32, flags: u8) {
        match next {
            Some(next) if flags & CONTINUES == 0 => put_separator(last, next, &mut self.separators),
            _ => self.separators.extend_from_slice(last),
        }
        self.close(len, entries, flags);
    }

    /// Adds a block with a given separator.
    pub fn add_separated(&mut self, separator: &[u8], len: u32, entries: u32, flags: u8) {
        self.separators.extend_from_slice(separator);
        self.close(len, entries, flags);
    }

    fn close(&mut self, len: u32, entries: u32, flags: u8) {
        self.ends.push(self.separators.len());
        self.rows.push((len, entries, flags));
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the separator of the block added last.
    pub fn last_separator(&self) -> Option<&[u8]> {
        let (&end, before) = self.ends.split_last()?;
        Some(&self.separators[before.last().copied().unwrap_or(0)..end])
    }

    /// Returns the approximate length of the finished block in bytes.
    pub fn estimate(&self) -> usize {
        self.separators.len() + 6 * self.rows.len()
    }

    /// Returns the index block.
    pub fn finish(&self) -> Vec<u8> {
        let separator =
            |i: usize| &self.separators[if i == 0 { 0 } else { self.ends[i - 1] }..self.ends[i]];
        let n = self.rows.len();
        let prefix = if n == 0 {
            &[]
        } else {
            &separator(0)[..common_prefix(separator(0), separator(n - 1))]
        };
        let mut out = Vec::with_capacity(self.estimate() + 32);
        put_varint(&mut out, n as u64);
        put_bytes(&mut out, prefix);
        for (i, &(len, entries, flags)) in self.rows.iter().enumerate() {
            put_bytes(&mut out, &separator(i)[prefix.len()..]);
            put_varint(&mut out, len as u64);
            put_varint(&mut out, entries as u64);
            out.push(flags);
        }
        out
    }
}

/// Index entry of one data block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Offset of the physical block in the file.
    pub offset: u64,
    /// Length in the file, header included.
    pub len: u32,
    /// Number of entries.
    pub entries: u32,
    /// Separator: at or above every key of this block and of the blocks before it.
    pub separator: Vec<u8>,
    /// All entries are puts, with distinct keys that no neighbouring block has.
    pub plain: bool,
    /// More than half of the entries are deletes.
    pub dense: bool,
    /// The next block begins with a version of the key that this one ends with.
    pub continues: bool,
    /// Stored without compression.
    pub raw: bool,
}

/// Minimum stored length in bytes of a large block with one entry.
const LARGE: usize = 4 << 10;

/// Heads per group. A search picks a group by its last head, then searches the group.
const GROUP: usize = 64;

/// The index in memory.
pub(crate) struct BlockIndex {
    prefix: Box<[u8]>,
    heads: Box<[u64]>,
    /// The last head of each group of [`GROUP`]. They are few enough to stay in the processor's
    /// first-level cache.
    tops: Box<[u64]>,
    /// Offset of each block, and the end of the last one.
    offsets: Box<[u64]>,
    entries: Box<[u32]>,
    flags: Box<[u8]>,
    /// Separators without the common prefix, concatenated, and their ends.
    suffixes: Box<[u8]>,
    ends: Box<[u32]>,
    /// One bit per block; empty if no block is DENSE.
    barren: Box<[AtomicU64]>,
}

impl BlockIndex {
    /// Decodes an index block of a table with `data_len` bytes of data blocks. Returns `None` if it
    /// is invalid.
    pub fn decode(block: &[u8], data_len: u64) -> Option<BlockIndex> {
        BlockIndex::parse(block, data_len).filter(|i| i.end() == data_len)
    }

    /// Like [`decode`](Self::decode), for a table with at most `data_len` bytes of data blocks.
    fn parse(block: &[u8], data_len: u64) -> Option<BlockIndex> {
        let mut r = ByteReader::new(block);
        let n = r.len(r.remaining() / 4)?;
        let prefix = r.bytes().filter(|p| p.len() <= MAX_KEY_LEN)?;
        let mut heads = Vec::with_capacity(n);
        let mut offsets = Vec::with_capacity(n + 1);
        let (mut entries, mut flags, mut ends) =
            (Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n));
        let mut suffixes: Vec<u8> = Vec::with_capacity(block.len().saturating_sub(4 * n));
        let mut at = 0u64;
        let mut last: &[u8] = &[];
        let mut continued = false;
        for i in 0..n {
            let separator = r.bytes().filter(|s| prefix.len() + s.len() <= MAX_KEY_LEN)?;
            if i > 0 && (separator < last || (separator == last && !continued)) {
                return None;
            }
            offsets.push(at);
            at = at.checked_add(r.varint()?).filter(|&a| a <= data_len)?;
            entries.push(u32::try_from(r.varint()?).ok()?);
            let f = r.u8().filter(|f| f & !(PLAIN | DENSE | CONTINUES | RAW) == 0)?;
            flags.push(f);
            heads.push(head(separator));
            suffixes.extend_from_slice(separator);
            ends.push(u32::try_from(suffixes.len()).ok()?);
            last = separator;
            continued = f & CONTINUES != 0;
        }
        let words = if flags.iter().any(|f| f & DENSE != 0) { n.div_ceil(64) } else { 0 };
        offsets.push(at);
        (r.is_empty() && !continued).then(|| BlockIndex {
            prefix: prefix.into(),
            tops: heads.chunks(GROUP).filter_map(|g| g.last().copied()).collect(),
            heads: heads.into(),
            offsets: offsets.into(),
            entries: entries.into(),
            flags: flags.into(),
            suffixes: suffixes.into(),
            ends: ends.into(),
            barren: (0..words).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Returns the number of data blocks.
    #[inline]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Returns the common prefix of all separators.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns the separator of block `i` after the prefix.
    #[inline]
    pub fn suffix(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.suffixes[start..self.ends[i] as usize]
    }

    /// Compares the separator of block `i` with a key.
    pub fn compare_separator(&self, i: usize, key: &[u8]) -> std::cmp::Ordering {
        match key.strip_prefix(&*self.prefix) {
            Some(suffix) => self.suffix(i).cmp(suffix),
            None => (*self.prefix).cmp(key),
        }
    }

    /// Returns the first block whose separator is not below `key`. It holds the newest version of
    /// `key`, if the table has any. Returns `len()` if there is no such block.
    #[inline]
    pub fn find(&self, key: &[u8]) -> usize {
        let Some(suffix) = key.strip_prefix(&*self.prefix) else {
            return if key < &*self.prefix { 0 } else { self.len() };
        };
        let h = head(suffix);
        let start = (GROUP * lower_bound(&self.tops, h)).min(self.heads.len());
        let group = &self.heads[start..self.heads.len().min(start + GROUP)];
        // Fetch all lines of the group at once, so that the search steps do not wait for one line
        // after another.
        for line in group.chunks(8) {
            fetch_line(line.as_ptr().cast());
        }
        let i = start + lower_bound(group, h);
        if i < self.heads.len() && self.heads[i] == h {
            self.search_equal_heads(i, h, suffix)
        } else {
            i
        }
    }

    /// Searches the run of separators with the head `h`, which begins at `i`.
    fn search_equal_heads(&self, i: usize, h: u64, suffix: &[u8]) -> usize {
        if self.suffix(i) >= suffix {
            return i;
        }
        let mut low = i + 1;
        let mut high = low + self.heads[low..].partition_point(|&x| x == h);
        while low < high {
            let mid = low + (high - low) / 2;
            if self.suffix(mid) < suffix {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        low
    }

    /// Returns the last block with versions of block `i`'s last key.
    pub fn last_of_run(&self, i: usize) -> usize {
        i + self.flags[i..].iter().take_while(|&&f| f & CONTINUES != 0).count()
    }

    /// Returns offset and length of block `i` in the file.
    #[inline]
    pub fn place(&self, i: usize) -> (u64, usize) {
        (self.offsets[i], (self.offsets[i + 1] - self.offsets[i]) as usize)
    }

    /// Returns the flags of block `i`.
    #[inline]
    pub fn flags(&self, i: usize) -> u8 {
        self.flags[i]
    }

    /// Reports whether all blocks are PLAIN.
    pub fn is_plain(&self) -> bool {
        self.flags.iter().all(|f| f & PLAIN != 0)
    }

    /// Reports whether most entries of block `i` are deletes and no key of it continues in a
    /// neighbouring block. Only such a block can be barren.
    #[inline]
    pub fn is_dense(&self, i: usize) -> bool {
        self.flags[i] & (DENSE | CONTINUES) == DENSE
            && (i == 0 || self.flags[i - 1] & CONTINUES == 0)
    }

    /// Reports whether block `i` is marked as barren.
    #[inline]
    pub fn is_barren(&self, i: usize) -> bool {
        self.barren
            .get(i / 64)
            .is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (i % 64) != 0)
    }

    /// Marks block `i` as barren.
    pub fn set_barren(&self, i: usize) {
        if let Some(word) = self.barren.get(i / 64) {
            word.fetch_or(1 << (i % 64), Ordering::Relaxed);
        }
    }

    /// Reports whether any block is stored without compression.
    pub fn any_raw(&self) -> bool {
        self.flags.iter().any(|f| f & RAW != 0)
    }

    /// Returns the offset after the last block.
    pub fn end(&self) -> u64 {
        self.offsets[self.len()]
    }

    /// Returns the number of entries of block `i`.
    pub fn entries(&self, i: usize) -> u32 {
        self.entries[i]
    }

    /// Reports whether block `i` has a single entry and is large enough to be read without decoding
    /// its value.
    #[inline]
    pub fn is_large(&self, i: usize) -> bool {
        self.entries[i] == 1 && self.place(i).1 >= LARGE
    }

    /// Returns all index data of block `i`.
    pub fn info(&self, i: usize) -> BlockInfo {
        let (offset, len) = self.place(i);
        let has = |flag| self.flags[i] & flag != 0;
        BlockInfo {
            offset,
            len: len as u32,
            entries: self.entries[i],
            separator: [&self.prefix, self.suffix(i)].concat(),
            plain: has(PLAIN),
            dense: has(DENSE),
            continues: has(CONTINUES),
            raw: has(RAW),
        }
    }

    /// Returns the bytes of memory held.
    pub fn memory(&self) -> usize {
        self.prefix.len()
            + (8 + 8 + 4 + 1 + 4) * self.len()
            + 8
            + self.suffixes.len()
            + 8 * (self.tops.len() + self.barren.len())
    }
}

/// Returns the data blocks listed in a decoded index block. `end` is an upper bound of the data's
/// length. Returns `None` if the index block is invalid.
pub fn decode(block: &[u8], end: u64) -> Option<Vec<BlockInfo>> {
    let index = BlockIndex::parse(block, end)?;
    Some((0..index.len()).map(|i| index.info(i)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn separators_separate(a in prop::collection::vec(0u8..4, 0..6), b in prop::collection::vec(0u8..4, 0..6)) {
            let (last, next) = if a < b { (a, b) } else { (b, a) };
            prop_assume!(last < next);
            let mut s = vec![];
            put_separator(&last, &next, &mut s);
            prop_assert!(s >= last && s < next && s.len() <= last.len().max(1), "{last:?} {s:?} {next:?}");
        }

        #[test]
        fn any_bytes_are_an_index_or_refused(block: Vec<u8>, len in 0u64..100, key: Vec<u8>) {
            if let Some(index) = BlockIndex::decode(&block, len) {
                prop_assert!(index.find(&key) <= index.len());
            }
        }

        #[test]
        fn find_gives_the_first_separator_not_below(mut keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..12), 1..40), probe in prop::collection::vec(0u8..3, 0..12), prefix in prop::collection::vec(0u8..3, 0..12)) {
            keys.sort();
            keys.dedup();
            let keys: Vec<Vec<u8>> = keys.into_iter().map(|k| [prefix.clone(), k].concat()).collect();
            let mut b = IndexBuilder::default();
            keys.iter().for_each(|k| b.add(k, None, 30, 1, 0));
            let index = BlockIndex::decode(&b.finish(), 30 * keys.len() as u64).unwrap();
            for probe in [probe.clone(), [prefix, probe].concat()] {
                prop_assert_eq!(index.find(&probe), keys.partition_point(|k| *k < probe));
            }
        }
    }
}
