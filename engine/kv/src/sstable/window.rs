//! Reads several stored blocks of a scan with one system call. The call is a third of the cost of a
//! block that is not cached.
//!
//! Invariants:
//! - A seek reads only the blocks in which it is positioned.
//! - A scan reads ahead at most as many bytes as it has passed, and at most [`MOST`] at once. So it
//!   reads at most as many unused bytes as it passed.
//! - No block is read ahead that is cached at that time, or that is [long](LONGEST).
//! - A block that was read ahead is checked on access, like any block. After a failed check it is
//!   read again.

use std::ops::Range;

use super::block_access::LoadedBytes;
use super::stream::Stride;
use super::table::Table;

/// Maximum bytes per read: about the size of the processor's first-level cache.
const MOST: u64 = 32 << 10;
/// Maximum stored length in bytes of a block that is read ahead. Longer blocks are read alone,
/// because the call is a small part of their cost.
const LONGEST: usize = 5 << 10;

/// Read-ahead buffer of a scan.
#[derive(Debug, Default)]
pub(super) struct BlockWindow {
    begin: u64,
    bytes: Vec<u8>,
    /// Whether a read failed. From then on each block is read alone, so that no unreadable range is
    /// requested repeatedly.
    has_failed: bool,
}

impl BlockWindow {
    /// Prepares the read of block `i` of `table` by a scan with the given `stride`. Reads it into
    /// the buffer unless it is there, if other blocks are read with it.
    pub fn come_to(&mut self, table: &Table, i: usize, stride: &Stride) {
        let (offset, len) = table.index.place(i);
        if self.has_failed || self.loaded_bytes().get(offset, len).is_some() {
            return;
        }
        let Some((forward, passed)) = stride.passed() else { return self.forget() };
        let blocks = stretch(table, i, forward, passed);
        if blocks.len() < 2 {
            return;
        }
        let (last, last_len) = table.index.place(blocks.end - 1);
        self.begin = table.index.place(blocks.start).0;
        let len = (last - self.begin) as usize + last_len;
        self.bytes.reserve_exact(len.saturating_sub(self.bytes.len()));
        self.bytes.resize(len, 0);
        if table.place(i).file.read_at(self.begin, &mut self.bytes).is_err() {
            // The later read of the single block reports the error, if it fails too.
            self.has_failed = true;
            self.forget();
        }
    }

    /// Frees the buffer.
    pub fn forget(&mut self) {
        self.bytes = vec![];
    }

    /// Returns the buffered bytes.
    pub fn loaded_bytes(&self) -> LoadedBytes<'_> {
        LoadedBytes::new(self.begin, &self.bytes)
    }
}

/// Returns the blocks of `table` that a scan reads at once after it has passed `passed` bytes.
/// Block `i` is the first or the last.
fn stretch(table: &Table, i: usize, forward: bool, passed: u64) -> Range<usize> {
    let is_short = |i: usize| table.index.place(i).1 <= LONGEST && !table.index.is_large(i);
    let mut blocks = i..i + 1;
    if !is_short(i) {
        return blocks;
    }
    let mut bytes = table.index.place(i).1 as u64;
    loop {
        let next = if forward { Some(blocks.end) } else { blocks.start.checked_sub(1) };
        let Some(next) = next.filter(|&n| n < table.index.len()) else { return blocks };
        bytes += table.index.place(next).1 as u64;
        let is_here = table.address(next) != 0 || table.is_mapped(next);
        if bytes > passed.min(MOST) || is_here || !is_short(next) {
            return blocks;
        }
        blocks = blocks.start.min(next)..blocks.end.max(next + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::base::cursor::Cursor;
    use crate::base::error::{Error, ErrorKind, Result};
    use crate::base::key::Trailer;
    use crate::block_cache::CacheStay;
    use crate::env::{FileMap, ReadFile};
    use crate::sstable::format::BLOCK_HEADER;
    use crate::sstable::tests::{open_file, stored_as_it_is};

    const ENTRIES: u32 = 20_000;

    /// A file that records its reads. It can refuse reads of more than a block, or return wrong
    /// bytes.
    struct Reads {
        file: Arc<dyn ReadFile>,
        noted: Mutex<Vec<(u64, usize)>>,
        refuses: AtomicBool,
        lies: AtomicBool,
    }

    impl ReadFile for Reads {
        fn len(&self) -> u64 {
            self.file.len()
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            self.noted.lock().unwrap().push((offset, buf.len()));
            if self.refuses.load(Ordering::Relaxed) && buf.len() > LONGEST {
                return Err(Error::new(ErrorKind::Io, "refused"));
            }
            self.file.read_at(offset, buf)?;
            if self.lies.load(Ordering::Relaxed) {
                buf.iter_mut().for_each(|b| *b ^= 1);
            }
            Ok(())
        }
        fn map(&self) -> Option<Arc<dyn FileMap>> {
            None
        }
        fn will_need(&self, _: u64, _: u64) {}
    }

    /// A table of 2 MiB; every 1000th value has the given length.
    fn table(value: usize) -> (Arc<Reads>, Arc<Table>) {
        let len = |i| if i % 1000 == 0 { value } else { 100 };
        let file = stored_as_it_is(ENTRIES, |i| vec![i as u8; len(i)]);
        let (refuses, lies) = (AtomicBool::new(false), AtomicBool::new(false));
        let file = Arc::new(Reads { file, noted: Mutex::default(), refuses, lies });
        let table = open_file(file.clone(), 64 << 20);
        file.noted.lock().unwrap().clear();
        (file, table)
    }

    /// Scans all entries and checks each.
    fn walk(c: &mut impl Cursor, forward: bool) {
        if forward { c.first() } else { c.last() }.unwrap();
        for i in 0..ENTRIES {
            let i = if forward { i } else { ENTRIES - 1 - i };
            assert!(c.valid() && c.key() == i.to_be_bytes() && c.value()[0] == i as u8);
            if forward { c.next() } else { c.prev() }.unwrap();
        }
        assert!(!c.valid());
    }

    fn take(file: &Reads) -> Vec<(u64, usize)> {
        std::mem::take(&mut *file.noted.lock().unwrap())
    }

    #[test]
    fn a_walk_reads_each_byte_once_and_several_blocks_at_once() {
        for (forward, fill_cache) in [(true, true), (true, false), (false, true), (false, false)] {
            let (file, table) = table(20_000);
            walk(&mut table.cursor(fill_cache), forward);
            let mut reads = take(&file);
            assert!(reads.iter().all(|&(_, len)| len as u64 <= MOST), "{reads:?}");
            assert!(5 * reads.len() < table.index.len(), "{} reads", reads.len());
            if !forward {
                reads.reverse();
            }
            assert_eq!(reads[0].0, 0);
            let end = |&(at, len): &(u64, usize)| at + len as u64;
            assert!(reads.windows(2).all(|w| end(&w[0]) == w[1].0), "{reads:?}");
            assert_eq!(reads.last().map(end), Some(table.index.end()));
            // Long blocks are read alone.
            let long =
                (0..table.index.len()).map(|i| table.index.place(i)).filter(|p| p.1 > LONGEST);
            assert!(long.clone().count() > 10 && long.clone().all(|place| reads.contains(&place)));
            // No read exceeds the bytes passed.
            if !forward {
                reads.reverse();
            }
            let mut passed = 0;
            for (n, &(_, len)) in reads.iter().enumerate() {
                assert!(n < 2 || len <= LONGEST || len <= passed + LONGEST, "{n}: {reads:?}");
                passed += len;
            }
        }
    }

    #[test]
    fn a_seek_and_few_steps_read_what_they_stand_in() {
        let (file, table) = table(100);
        for i in (0..ENTRIES).step_by(997) {
            let mut c = table.cursor(true);
            c.seek(&i.to_be_bytes(), Trailer::NEWEST).unwrap();
            for _ in 0..10 {
                c.next().unwrap();
            }
            assert!(take(&file).iter().all(|&(_, len)| len <= LONGEST));
        }
    }

    #[test]
    fn what_is_cached_is_not_read() {
        let (file, table) = table(100);
        let cached: Vec<usize> = (0..table.index.len()).filter(|i| i % 7 == 3).collect();
        for &i in &cached {
            table.load(i, None, CacheStay::Round).unwrap();
        }
        take(&file);
        walk(&mut table.cursor(false), true);
        let reads = take(&file);
        let all: u64 = reads.iter().map(|&(_, len)| len as u64).sum();
        let cached: u64 = cached.iter().map(|&i| table.index.place(i).1 as u64).sum();
        assert_eq!(all + cached, table.index.end());
        assert!(reads.iter().any(|&(_, len)| len > 4 * LONGEST), "{reads:?}");
    }

    #[test]
    fn where_several_blocks_cannot_be_read_at_once_each_is_alone() {
        for forward in [true, false] {
            let (file, table) = table(100);
            file.refuses.store(true, Ordering::Relaxed);
            walk(&mut table.cursor(true), forward);
            let refused = take(&file).iter().filter(|&&(_, len)| len > LONGEST).count();
            assert_eq!(refused, 1, "it is not requested again");
        }
    }

    #[test]
    fn a_walk_that_turns_and_jumps_uses_each_byte_where_it_lies() {
        let (file, table) = table(20_000);
        let mut c = table.cursor(false);
        let (mut at, mut forward, mut state) = (0i64, true, 12345u64);
        c.first().unwrap();
        for _ in 0..2000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let draw = state >> 33;
            match draw % 8 {
                0 => forward = !forward,
                1 => {
                    at = (draw / 8) as i64 % i64::from(ENTRIES);
                    c.seek(&(at as u32).to_be_bytes(), Trailer::NEWEST).unwrap();
                }
                _ => {}
            }
            for _ in 0..draw % 300 {
                let next = if forward { at + 1 } else { at - 1 };
                if !(0..i64::from(ENTRIES)).contains(&next) {
                    forward = !forward;
                    break;
                }
                if forward { c.next() } else { c.prev() }.unwrap();
                at = next;
                assert!(c.valid() && c.key() == (at as u32).to_be_bytes());
                assert_eq!(c.value()[0], at as u8);
            }
        }
        assert!(take(&file).iter().any(|&(_, len)| len > 4 * LONGEST));
    }

    #[test]
    fn a_block_that_is_copied_is_not_read_again() {
        let (file, table) = table(100);
        let mut c = table.cursor(false);
        c.first().unwrap();
        let (mut blocks, mut copied) = (0, vec![]);
        while c.valid() {
            let block = c.whole_block().unwrap();
            let before = take(&file).len();
            block.stored(|s| copied.extend_from_slice(s.bytes)).unwrap();
            // The first blocks are read alone, the last may be.
            assert!(take(&file).is_empty() || before == 1, "block {blocks}");
            c.pass_block().unwrap();
            blocks += 1;
        }
        assert_eq!(blocks, table.index.len());
        let mut all = vec![0; table.index.end() as usize];
        file.file.read_at(0, &mut all).unwrap();
        let mut at = 0;
        for i in 0..blocks {
            let (offset, len) = table.index.place(i);
            let stored = &all[offset as usize + BLOCK_HEADER..offset as usize + len];
            assert_eq!(&copied[at..at + stored.len()], stored, "block {i}");
            at += stored.len();
        }
    }

    #[test]
    fn what_was_wrong_is_read_anew() {
        let (file, table) = table(100);
        let mut c = table.cursor(false);
        c.first().unwrap();
        while c.place().0 < 20 {
            c.next().unwrap();
        }
        file.lies.store(true, Ordering::Relaxed);
        let wrong = loop {
            if let Err(e) = c.next() {
                break e;
            }
        };
        assert_eq!(wrong.kind(), ErrorKind::Corruption);
        let key = (ENTRIES / 2).to_be_bytes();
        assert!(c.seek(&key, Trailer::NEWEST).is_err());
        file.lies.store(false, Ordering::Relaxed);
        walk(&mut c, true);
    }
}
