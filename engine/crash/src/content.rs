//! A file in memory: its present content and the content after a power cut.
//!
//! Invariants:
//! - Bytes at and after the length are zero in every page, so growing a file shows zeros.
//! - Outside `dirty` and `lost`, the present and the durable content are equal up to the shorter
//!   length.
//! - Copies share pages until one of them writes: a copy costs one reference count per page.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rng::CrashRng;

const PAGE: u64 = 4096;
/// Bytes that a disk writes atomically.
const SECTOR: u64 = 512;

type ContentPage = [u8; PAGE as usize];

/// Bytes in shared pages; an absent page is zeros.
#[derive(Clone, Default)]
pub(crate) struct FileContent {
    pages: Vec<Option<Arc<ContentPage>>>,
    len: u64,
}

/// Splits a byte range at page boundaries: page number, start in the page, start in the range,
/// length.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let n = (PAGE - at % PAGE).min(end - at);
        let piece =
            ((at / PAGE) as usize, (at % PAGE) as usize, (at - offset) as usize, n as usize);
        at += n;
        Some(piece)
    })
}

impl FileContent {
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Fills `buf` from `offset`; returns `false` if the content ends earlier.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> bool {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len) {
            return false;
        }
        for (page, start, at, n) in pieces(offset, buf.len() as u64) {
            match self.pages.get(page).and_then(Option::as_ref) {
                Some(p) => buf[at..at + n].copy_from_slice(&p[start..start + n]),
                None => buf[at..at + n].fill(0),
            }
        }
        true
    }

    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(0, &mut bytes);
        bytes
    }

    fn page_mut(&mut self, page: usize) -> &mut ContentPage {
        if self.pages.len() <= page {
            self.pages.resize(page + 1, None);
        }
        Arc::make_mut(self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE as usize])))
    }

    /// Writes at any offset; grows the content if needed.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, start, at, n) in pieces(offset, bytes.len() as u64) {
            self.page_mut(page)[start..start + n].copy_from_slice(&bytes[at..at + n]);
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.pages.truncate(len.div_ceil(PAGE) as usize);
            let page = (len / PAGE) as usize;
            if !len.is_multiple_of(PAGE) && self.pages.get(page).is_some_and(Option::is_some) {
                self.page_mut(page)[(len % PAGE) as usize..].fill(0);
            }
        }
        self.len = len;
    }

    /// Copies the bytes `start..end`, clipped to both lengths, from another content.
    fn copy_range(&mut self, from: &FileContent, start: u64, end: u64) {
        let end = end.min(self.len).min(from.len);
        if start >= end {
            return;
        }
        for (page, at, _, n) in pieces(start, end - start) {
            match from.pages.get(page).and_then(Option::as_ref) {
                Some(p) => self.page_mut(page)[at..at + n].copy_from_slice(&p[at..at + n]),
                None if self.pages.get(page).is_some_and(Option::is_some) => {
                    self.page_mut(page)[at..at + n].fill(0)
                }
                None => {}
            }
        }
    }

    /// Takes all pages that overlap `start..end` by reference.
    fn share_pages(&mut self, from: &FileContent, start: u64, end: u64) {
        let end = end.min(from.len);
        for (page, ..) in pieces(start, end.saturating_sub(start)) {
            if self.pages.len() <= page {
                self.pages.resize(page + 1, None);
            }
            self.pages[page] = from.pages.get(page).cloned().flatten();
        }
    }
}

/// A set of byte ranges, disjoint and not touching: start to end.
#[derive(Clone, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn add(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        while let Some((&s, &e)) = self.0.range(..=end).next_back() {
            if e < start {
                break;
            }
            self.0.remove(&s);
            (start, end) = (start.min(s), end.max(e));
        }
        self.0.insert(start, end);
    }

    fn remove(&mut self, start: u64, end: u64) {
        while let Some((&s, &e)) = self.0.range(..end).next_back() {
            if e <= start || start >= end {
                break;
            }
            self.0.remove(&s);
            if s < start {
                self.0.insert(s, start);
            }
            if e > end {
                self.0.insert(end, e);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(s, e)| (*s, *e))
    }
}

/// One file: its present content, its durable content, and their differences.
#[derive(Clone, Default)]
pub(crate) struct CrashFile {
    now: FileContent,
    durable: FileContent,
    /// Ranges changed since the last sync.
    dirty: Ranges,
    /// Ranges changed before a failed sync, and not since: no later sync makes them durable.
    lost: Ranges,
}

impl CrashFile {
    pub fn now(&self) -> &FileContent {
        &self.now
    }

    /// Writes bytes.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.changed(offset, offset + bytes.len() as u64);
        self.now.write(offset, bytes);
    }

    pub fn set_len(&mut self, len: u64) {
        self.changed(len.min(self.now.len), len.max(self.now.len));
        self.now.set_len(len);
    }

    fn changed(&mut self, start: u64, end: u64) {
        self.dirty.add(start, end);
        self.lost.remove(start, end);
    }

    pub fn sync(&mut self) {
        self.durable.set_len(self.now.len);
        for (start, end) in self.dirty.iter() {
            if self.lost.is_empty() {
                self.durable.share_pages(&self.now, start, end);
            } else {
                self.durable.copy_range(&self.now, start, end);
            }
        }
        self.dirty = Ranges::default();
    }

    /// Records a failed sync: the system no longer knows that these bytes are dirty.
    pub fn sync_failed(&mut self) {
        for (start, end) in std::mem::take(&mut self.dirty).iter() {
            self.lost.add(start, end);
        }
    }

    /// Reports whether a power cut would lose nothing.
    pub fn is_durable(&self) -> bool {
        self.dirty.is_empty() && self.lost.is_empty() && self.now.len == self.durable.len
    }

    /// Makes everything reach the disk.
    pub fn keep_all(&mut self) {
        self.durable = self.now.clone();
        self.forget_unsynced();
    }

    /// Makes only synced data reach the disk.
    pub fn keep_synced(&mut self) {
        self.now = self.durable.clone();
        self.forget_unsynced();
    }

    /// Makes a random subset of the unsynced sectors reach the disk, and a random part of the
    /// length change.
    pub fn keep_random(&mut self, rng: &mut CrashRng) {
        let (short, long) =
            (self.durable.len.min(self.now.len), self.durable.len.max(self.now.len));
        let len = match rng.below(4) {
            0 => self.durable.len,
            1 => self.now.len,
            2 => (rng.between(short, long) / SECTOR * SECTOR).max(short),
            _ => rng.between(short, long),
        };
        let mut disk = self.durable.clone();
        disk.set_len(len);
        let odds = [1, 4, 7][rng.below(3) as usize];
        let mut sector = None;
        let mut kept = false;
        let mut unsynced = self.dirty.clone();
        for (start, end) in self.lost.iter() {
            unsynced.add(start, end);
        }
        for (start, end) in unsynced.iter() {
            for s in start / SECTOR..end.div_ceil(SECTOR) {
                if sector != Some(s) {
                    sector = Some(s);
                    kept = rng.below(8) < odds;
                }
                if kept {
                    disk.copy_range(&self.now, s * SECTOR, (s + 1) * SECTOR);
                }
            }
        }
        self.now = disk;
        self.keep_all();
    }

    fn forget_unsynced(&mut self) {
        self.dirty = Ranges::default();
        self.lost = Ranges::default();
    }
}
