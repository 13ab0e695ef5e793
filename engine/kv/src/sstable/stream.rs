//! Requests readahead from the device for the next blocks of a scan: blocks of a table, and values
//! in blob files, per file. It also decides which scans are long.
//!
//! Invariants:
//! - Nothing is requested before a scan has passed a few blocks, unless it is known to be long. So
//!   a seek reads only the blocks in which it is positioned.
//! - Requested ranges are within the file's blocks, and at most [`MOST`] bytes ahead of the scan.

use super::table::Table;
use crate::base::blob_ref::BlobHandle;
use crate::block_cache::CacheStay;
use crate::util::sorted_map::SortedMap;

/// Size of the first request in bytes.
const LEAST: u64 = 64 << 10;
/// Maximum bytes per request.
const MOST: u64 = 1 << 20;
/// Number of consecutive blocks that a scan must have read, or passed, before readahead starts.
const LONG: u32 = 2;
/// Maximum distance in blocks between two reads of one scan; those in between were in the cache.
const GAP: usize = 16;

/// A block that is about to be read: its number and location in the file.
#[derive(Clone, Copy, Debug)]
struct ComingBlock {
    number: usize,
    begin: u64,
    end: u64,
    /// End of the blocks of the file.
    file_end: u64,
}

/// Scan of the blocks of one file, in either direction.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Whether it scans all blocks.
    whole: bool,
    /// Block that was read last, and the number of reads in the same direction.
    last: Option<usize>,
    length: u32,
    forward: bool,
    /// File offset up to which readahead was requested; scanning backward, down to which.
    asked: u64,
    window: u64,
}

impl Stream {
    /// Starts a scan; `whole` says that it is known to be long.
    pub fn new(whole: bool) -> Stream {
        Stream { whole, forward: true, ..Stream::default() }
    }

    /// Records that block `i` is about to be read from the file. Returns whether readahead for it
    /// was requested, so that no separate request is needed.
    pub fn read(&mut self, table: &Table, i: usize) -> bool {
        let (begin, len) = table.index.place(i);
        let file_end = table.index.end();
        let block = ComingBlock { number: i, begin, end: begin + len as u64, file_end };
        self.come_to(block, |offset, len| table.will_need(offset, len))
    }

    /// Like [`read`](Self::read), with a function that requests readahead.
    fn come_to(&mut self, block: ComingBlock, ask: impl FnOnce(u64, u64)) -> bool {
        if let Some((offset, len)) = self.next(block) {
            ask(offset, len);
        }
        if self.forward { block.end <= self.asked } else { self.asked <= block.begin }
    }

    /// Returns offset and length of the readahead to request when a block is read.
    fn next(&mut self, block: ComingBlock) -> Option<(u64, u64)> {
        let ComingBlock { number, begin, end, file_end } = block;
        let before = self.last.replace(number);
        let direction = before.and_then(|b| match number.abs_diff(b) {
            1..=GAP => Some(number > b),
            _ => None,
        });
        if direction == Some(self.forward) && self.length > 0 {
            self.length = self.length.saturating_add(1);
        } else {
            self.forward = direction.unwrap_or(true);
            self.length = 1 + u32::from(direction.is_some());
            self.asked = if self.forward { begin } else { end };
            self.window = if self.whole { MOST } else { LEAST };
        }
        if self.length <= LONG && !self.whole {
            return None;
        }
        // For large blocks, request at least the next block too.
        let window = self.window.max(2 * (end - begin)).min(MOST);
        let ask = if self.forward {
            let from = self.asked.max(begin);
            let until = (from + window).min(file_end);
            (end + window / 2 > self.asked && from < until).then_some((from, until))
        } else {
            let until = self.asked.min(end);
            let from = until.saturating_sub(window);
            (begin < self.asked.saturating_add(window / 2) && from < until).then_some((from, until))
        };
        let (from, until) = ask?;
        self.asked = if self.forward { until } else { from };
        self.window = (2 * window).min(MOST);
        Some((from, until - from))
    }
}

/// Progress of a scan from block to block in one direction, cached or not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stride {
    /// Block that it reached last; `None` if none of this table.
    last: Option<usize>,
    forward: Option<bool>,
    /// Number of blocks passed, and their stored bytes.
    blocks: u32,
    bytes: u64,
    /// Whether it caches all blocks that it reads.
    keeps_all: bool,
}

/// A scan is long after this number of blocks,
const LONG_BLOCKS: u32 = 128;
/// or after this number of blocks, if they have
const LARGE_BLOCKS: u32 = 32;
/// at least this number of bytes.
const LONG_BYTES: u64 = 1 << 20;

impl Stride {
    /// Records that the scan reaches block `i` of `len` stored bytes.
    #[inline]
    pub fn come_to(&mut self, i: usize, len: usize) {
        let before = self.last.replace(i);
        let forward = before.map_or(self.forward, |b| Some(i > b));
        let goes_on = before.is_none_or(|b| i.abs_diff(b) == 1)
            && (self.forward.is_none() || forward == self.forward);
        if !goes_on {
            (self.blocks, self.bytes) = (0, 0);
        }
        self.forward = forward;
        self.blocks = self.blocks.saturating_add(1);
        self.bytes = self.bytes.saturating_add(len as u64);
    }

    /// Returns the state for continuing the scan in the adjacent table.
    pub fn beyond(&self) -> Stride {
        Stride { last: None, ..*self }
    }

    /// Caches all blocks that the scan reads, however long it is.
    pub fn keep_all(&mut self) {
        self.keeps_all = true;
    }

    /// Returns how long the current block of `table` stays in the cache; `None` if it is not
    /// cached. Call it once per block.
    pub fn keeps(&self, table: &Table) -> Option<CacheStay> {
        match self.is_long() {
            _ if self.keeps_all => Some(CacheStay::Round),
            false => Some(CacheStay::ProbationQueue),
            true => table.admits_passing().then_some(CacheStay::Round),
        }
    }

    /// Returns the direction of the scan, and the bytes that it has passed, including the current
    /// block. Returns `None` at first, because it may be a seek.
    pub fn passed(&self) -> Option<(bool, u64)> {
        Some((self.forward?, self.bytes)).filter(|_| self.blocks > LONG)
    }

    /// Reports whether the scan is so long that it is unlikely to return soon.
    fn is_long(&self) -> bool {
        self.blocks >= LONG_BLOCKS || (self.blocks >= LARGE_BLOCKS && self.bytes >= LONG_BYTES)
    }
}

/// Scan of values in blob files, with one stream per file.
#[derive(Debug, Default)]
pub struct BlobStreams(SortedMap<u64, Stream>);

impl BlobStreams {
    /// Records that the value of `r` is about to be read from its file, whose values end at
    /// `file_end`. `ask` requests readahead. Returns whether readahead for this value was
    /// requested.
    pub(super) fn read(
        &mut self,
        r: &BlobHandle,
        file_end: u64,
        ask: impl FnOnce(u64, u64),
    ) -> bool {
        let (begin, end) = (r.offset, r.offset + u64::from(r.stored));
        let block = ComingBlock { number: r.number as usize, begin, end, file_end };
        let stream = self.0.get_or_insert_with(r.file, || Stream::new(false));
        stream.come_to(block, ask)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::base::cursor::Cursor;
    use crate::base::error::Result;
    use crate::base::key::Trailer;
    use crate::env::{FileMap, ReadFile};
    use crate::sstable::tests::{open_file, stored_as_it_is};

    /// A file that records readahead requests.
    struct Noting {
        file: Arc<dyn ReadFile>,
        asked: Mutex<Vec<(u64, u64)>>,
    }

    impl ReadFile for Noting {
        fn len(&self) -> u64 {
            self.file.len()
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            self.file.read_at(offset, buf)
        }
        fn map(&self) -> Option<Arc<dyn FileMap>> {
            self.file.map()
        }
        fn will_need(&self, offset: u64, len: u64) {
            self.asked.lock().unwrap().push((offset, len));
        }
    }

    /// A table of about 4 MiB.
    fn table() -> (Arc<Noting>, Arc<Table>) {
        let file = stored_as_it_is(40_000, |_| vec![7; 100]);
        let file = Arc::new(Noting { file, asked: Mutex::default() });
        (file.clone(), open_file(file, 64 << 10))
    }

    #[test]
    fn a_walk_is_long_until_it_turns_or_jumps() {
        let walk = |s: &mut Stride, blocks: &mut dyn Iterator<Item = usize>, len| {
            blocks.for_each(|i| s.come_to(i, len));
            s.is_long()
        };
        for forward in [true, false] {
            let (mut s, at) = (Stride::default(), |i: usize| if forward { i } else { 1000 - i });
            assert!(!walk(&mut s, &mut (0..127).map(at), 100));
            assert!(walk(&mut s, &mut (127..130).map(at), 100));
            assert!(walk(&mut s.beyond(), &mut std::iter::once(at(0)), 100));
            assert!(!walk(&mut s.clone(), &mut std::iter::once(at(128)), 100), "it turns");
            assert!(!walk(&mut s, &mut std::iter::once(at(200)), 100), "it jumps");
            let mut large = Stride::default();
            assert!(!walk(&mut large, &mut (0..31).map(at), 1 << 20));
            assert!(walk(&mut large, &mut (31..32).map(at), 1 << 20));
        }
    }

    #[test]
    fn a_seek_asks_for_nothing_beside_its_blocks() {
        let (file, table) = table();
        for i in (0..40_000u32).step_by(997) {
            let mut c = table.cursor(true);
            c.seek(&i.to_be_bytes(), Trailer::NEWEST).unwrap();
            for _ in 0..10 {
                c.next().unwrap();
            }
        }
        assert_eq!(*file.asked.lock().unwrap(), []);
    }

    #[test]
    fn the_device_is_asked_for_what_is_not_cached() {
        let (file, table) = table();
        let guard = crate::util::sync::epoch::pin();
        let (i, key) = (table.locate(&70u32.to_be_bytes()).unwrap(), 70u32.to_be_bytes());
        table.ask_device(i, &guard);
        let (offset, len) = table.index.place(i);
        assert_eq!(*file.asked.lock().unwrap(), [(offset, len as u64)]);
        assert!(table.get(&key, None, u64::MAX >> 8, &guard).unwrap().is_some());
        table.ask_device(i, &guard);
        assert_eq!(file.asked.lock().unwrap().len(), 1, "it is cached now");
    }

    #[test]
    fn a_walk_knows_which_blocks_were_asked_for() {
        let (_, table) = table();
        let blocks = || 0..table.index.len();
        let mut whole = Stream::new(true);
        assert!(blocks().all(|i| whole.read(&table, i)));
        let mut long = Stream::new(false);
        let alone = blocks().filter(|&i| !long.read(&table, i)).count();
        assert_eq!(alone, LONG as usize);
        let mut back = Stream::new(false);
        let alone = blocks().rev().filter(|&i| !back.read(&table, i)).count();
        assert_eq!(alone, LONG as usize);
    }

    #[test]
    fn a_long_walk_asks_for_each_byte_once_and_not_far_ahead() {
        for (fill, forward) in [(true, true), (true, false), (false, true), (false, false)] {
            let (file, table) = table();
            let mut c = table.cursor(fill);
            if forward { c.first() } else { c.last() }.unwrap();
            while c.valid() {
                if forward { c.next() } else { c.prev() }.unwrap();
            }
            let mut asked = file.asked.lock().unwrap().clone();
            assert!(asked.iter().all(|&(_, len)| len <= MOST), "{asked:?}");
            if !forward {
                asked.reverse();
            }
            assert!(asked.windows(2).all(|w| w[0].0 + w[0].1 == w[1].0), "{asked:?}");
            let (first, last) = (asked[0], asked[asked.len() - 1]);
            let missed = table.index.end() - (last.0 + last.1 - first.0);
            assert!(missed <= if fill { 4 * 4096 } else { 0 }, "{missed} of {}", table.index.end());
        }
    }
}
