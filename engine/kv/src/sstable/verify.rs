//! Reads a whole table and checks its consistency, bypassing caches and maps. It stops at the first
//! error or reports all of them.
//!
//! Checks:
//! - the checksum and structure of every block;
//! - the order of all entries across blocks;
//! - that the index's separators, counts and flags agree with the blocks;
//! - that the filter has the kind that the properties state and contains every key;
//! - that all counts and bounds in the properties match the entries.

use std::ops::ControlFlow;

use super::properties::Properties;
use super::search::Block;
use super::stream::Stream;
use super::table::Table;
use crate::base::blob_ref::{BlobHandle, BlobUse, count_use};
use crate::base::error::{Error, Result};
use crate::base::hooks::FilterPrefix;
use crate::base::key::{Kind, Seq, Trailer, compare};
use crate::base::options::{Compression, FilterKind};
use crate::util::hash::key_hash;
use crate::util::sorted_map::SortedMap;

/// Amount of data that [`Table::verify`] read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Number of data blocks.
    pub blocks: u64,
    /// Number of point entries.
    pub entries: u64,
    /// Bytes of data blocks in the file.
    pub bytes: u64,
    /// Bytes of decoded data blocks.
    pub raw_bytes: u64,
    /// Whether every key was looked up in the filter.
    pub filter_checked: bool,
}

/// State carried from block to block.
struct VerifyWalk<'a> {
    prefix: Option<&'a dyn FilterPrefix>,
    seen: Properties,
    first: bool,
    key: Vec<u8>,
    last: Vec<u8>,
    last_trailer: Trailer,
    /// Blobs that entries refer to, by number of the blob file.
    blobs: SortedMap<u64, BlobUse>,
}

impl Table {
    /// Checks the whole file. `prefix` is the tree's filter prefix. Without it, the filter of a
    /// table written with one is not checked. `progress` receives the number of bytes that each
    /// step read.
    ///
    /// # Errors
    /// `Corruption` with file and offset of the first fault. I/O errors of the file.
    pub fn verify(
        &self,
        prefix: Option<&dyn FilterPrefix>,
        progress: impl FnMut(u64),
    ) -> Result<VerifyReport> {
        let mut first = None;
        let report = self.verify_each(prefix, progress, &mut |e| {
            first = Some(e);
            ControlFlow::Break(())
        });
        first.map_or(Ok(report), Err)
    }

    /// Like [`verify`](Table::verify), but continues after an error as long as `found` returns
    /// `Continue`. Errors about a data block name its key range. Counts and bounds are compared
    /// with the properties only if every block was readable.
    pub fn verify_each(
        &self,
        prefix: Option<&dyn FilterPrefix>,
        mut progress: impl FnMut(u64),
        found: &mut dyn FnMut(Error) -> ControlFlow<()>,
    ) -> VerifyReport {
        let filter_checked = self.filter.is_some()
            && prefix.map_or("", |p| p.name()) == self.properties().filter_prefix;
        let mut walk = VerifyWalk {
            prefix,
            seen: Properties { min_seq: Seq::MAX, ..Properties::default() },
            first: true,
            key: vec![],
            last: vec![],
            last_trailer: Trailer::NEWEST,
            blobs: SortedMap::new(),
        };
        let mut report = VerifyReport { filter_checked, ..VerifyReport::default() };
        let (mut raw, mut whole) = (vec![], true);
        let mut stream = Stream::new(true);
        for i in 0..self.index.len() {
            stream.read(self, i);
            let len = self.index.place(i).1 as u64;
            let checked = self
                .load_into(i, None, &mut raw)
                .and_then(|codec| self.verify_codec(i, codec))
                .and_then(|()| self.verify_block(i, &raw, filter_checked, &mut walk));
            match checked {
                Ok(()) => {
                    report.blocks += 1;
                    report.bytes += len;
                    report.raw_bytes += raw.len() as u64;
                }
                Err(e) => {
                    whole = false;
                    if found(self.with_keys(i, e)).is_break() {
                        return report;
                    }
                }
            }
            progress(len);
        }
        report.entries = walk.seen.entries;
        if whole && let Err(e) = self.verify_properties(walk) {
            let _ = found(e);
        }
        progress(self.file.len() - self.index.end());
        report
    }

    fn verify_codec(&self, i: usize, codec: Compression) -> Result<()> {
        match (codec == Compression::None) == self.index.info(i).raw {
            true => Ok(()),
            false => {
                Err(self.place(i).corrupt("a block of another compression than the index says"))
            }
        }
    }

    fn verify_block(
        &self,
        i: usize,
        raw: &[u8],
        filter: bool,
        walk: &mut VerifyWalk<'_>,
    ) -> Result<()> {
        let bad = |what: &str| self.place(i).corrupt(what);
        let block = Block::new(raw).ok_or_else(|| bad("a data block that is cut off"))?;
        let info = self.index.info(i);
        let before = i.checked_sub(1).map(|b| self.index.info(b));
        let (mut deletes, mut puts, mut repeats) =
            (0, 0, before.as_ref().is_some_and(|b| b.continues) || info.continues);
        for pos in 0..block.len() {
            let e = block.entry(pos);
            block.key_into(pos, &mut walk.key);
            let again = !walk.first && walk.key == walk.last;
            if !walk.first && compare(&walk.last, walk.last_trailer, &walk.key, e.trailer).is_ge() {
                return Err(bad("entries out of order").keys(&walk.last, &walk.key));
            }
            if pos == 0
                && before
                    .as_ref()
                    .is_some_and(|b| b.continues != again || (!again && b.separator >= walk.key))
            {
                return Err(
                    bad("a block that begins before the index says").keys(&walk.key, &walk.key)
                );
            }
            repeats |= again;
            let hashed =
                walk.prefix.map_or(walk.key.len(), |p| p.prefix_len(&walk.key).min(walk.key.len()));
            if filter && !self.may_contain(key_hash(&walk.key[..hashed])) {
                return Err(bad("a key that the filter denies").keys(&walk.key, &walk.key));
            }
            deletes += (e.trailer.kind() == Some(Kind::Delete)) as u64;
            puts += (e.trailer.kind() == Some(Kind::Put)) as u64;
            let len = match e.trailer.kind() {
                Some(Kind::Blob) => {
                    let Some(r) = BlobHandle::decode(e.value) else {
                        return Err(bad("an entry refers to no value").keys(&walk.key, &walk.key));
                    };
                    count_use(&mut walk.blobs, &r);
                    r.len as usize
                }
                _ => e.value.len(),
            };
            walk.count(e.trailer, len);
        }
        let n = block.len() as u64;
        let plain = !repeats && puts == n;
        if walk.last > info.separator || (info.continues && walk.last != info.separator) {
            return Err(
                bad("a block that ends behind its separator").keys(&info.separator, &walk.last)
            );
        }
        let sound = info.entries as u64 == n
            && info.dense == (2 * deletes > n)
            && info.plain == plain
            && block.is_plain() == plain;
        if !sound {
            return Err(bad("a block that is not what the index says"));
        }
        Ok(())
    }

    fn verify_properties(&self, mut walk: VerifyWalk<'_>) -> Result<()> {
        let (p, seen) = (self.properties(), &mut walk.seen);
        if let (Some(a), Some(z)) =
            (self.tombstones().as_slice().first(), self.tombstones().as_slice().last())
        {
            if walk.first || a.start < seen.first_key {
                seen.first_key = a.start.clone();
            }
            if walk.first || z.end > walk.last {
                walk.last = z.end.clone();
            }
        }
        for t in self.tombstones().to_tombstones() {
            seen.range_deletes += 1;
            seen.min_seq = seen.min_seq.min(t.seq);
            seen.max_seq = seen.max_seq.max(t.seq);
        }
        if seen.entries + seen.range_deletes == 0 {
            seen.min_seq = 0;
        }
        let same = [
            ("entries", p.entries, seen.entries),
            ("deletes", p.deletes, seen.deletes),
            ("merges", p.merges, seen.merges),
            ("range deletes", p.range_deletes, seen.range_deletes),
            ("key bytes", p.raw_key_bytes, seen.raw_key_bytes),
            ("value bytes", p.raw_value_bytes, seen.raw_value_bytes),
            ("data blocks", p.data_blocks, self.index.len() as u64),
            ("largest entry", p.largest_entry, seen.largest_entry),
            ("smallest sequence number", p.min_seq, seen.min_seq),
            ("largest sequence number", p.max_seq, seen.max_seq),
        ];
        for (what, report, found) in same {
            if report != found {
                let m = format!("the properties tell of {report} {what}, the table has {found}");
                return Err(Error::corruption(m)
                    .at(&self.path, self.index.end())
                    .block("properties"));
            }
        }
        if !walk.blobs.values().eq(&p.values) {
            let e = Error::corruption("the table refers to other values than its properties tell");
            return Err(e.at(&self.path, self.index.end()).block("properties"));
        }
        if !self.filter_forgotten
            && (p.filter, p.filter_dropped)
                != self.filter.as_ref().map_or((FilterKind::None, 0), |f| (f.kind(), f.dropped()))
        {
            let e =
                Error::corruption("the table's filter is not the one that the properties tell of");
            return Err(e.at(&self.path, self.index.end()).block("properties"));
        }
        if p.first_key != seen.first_key || p.last_key != walk.last {
            let e = Error::corruption("the table's bounds are not what the properties tell")
                .at(&self.path, self.index.end());
            return Err(e.block("properties").keys(&seen.first_key, &walk.last));
        }
        Ok(())
    }
}

impl VerifyWalk<'_> {
    /// Counts the entry whose key is in `key`.
    fn count(&mut self, trailer: Trailer, value_len: usize) {
        let s = &mut self.seen;
        if self.first {
            s.first_key = self.key.clone();
        }
        s.entries += 1;
        s.deletes += (trailer.kind() == Some(Kind::Delete)) as u64;
        s.merges += (trailer.kind() == Some(Kind::Merge)) as u64;
        s.raw_key_bytes += self.key.len() as u64;
        s.raw_value_bytes += value_len as u64;
        s.largest_entry = s.largest_entry.max((self.key.len() + value_len) as u64);
        s.min_seq = s.min_seq.min(trailer.seq());
        s.max_seq = s.max_seq.max(trailer.seq());
        std::mem::swap(&mut self.key, &mut self.last);
        self.last_trailer = trailer;
        self.first = false;
    }
}
