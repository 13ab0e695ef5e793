//! Measures the length of table files with the engine's own table writer, which writes into files
//! that only count.
//!
//! [`CountedSize`] is such a file. [`Sizes`] measures the cost of an entry in a file on a sample,
//! so that tables that are known only by numbers have a size too.

use std::path::Path;

use firn_kv::fs::WriteFile;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::identity::TableIdentity;
use firn_kv::internals::base::key::{Kind, MAX_KEY_LEN, Trailer};
use firn_kv::internals::compaction::whole_bits;
use firn_kv::internals::sstable::{BlobOptions, BlobWriter, TableWriter, WriterOptions};
use firn_kv::{FilterKind, Result, TreeOptions};
use firn_workload::rng::{Rng, mix};

use crate::model::filters::OVERHEAD;

/// Name of the tree of a simulated store.
pub const TREE: &str = "sim";

/// A virtual file that only counts its length.
#[derive(Default)]
pub struct CountedSize(u64);

impl WriteFile for CountedSize {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0 += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0
    }
}

/// Creates a writer of a counted table, with the options that the engine would use. `filter_bits`
/// are the average bits of a fingerprint over its run.
pub fn counted_table(
    options: &TreeOptions,
    level: u8,
    id: u64,
    filter_bits: f64,
    now_micros: u64,
) -> TableWriter {
    let (filter, filter_dropped) = FilterKind::holding(whole_bits(filter_bits, id));
    let o = WriterOptions {
        tree: 1,
        tree_name: TREE.into(),
        // Values of the usual length: they are stored, and compress as those of a store do.
        log_end: 0x2a_3b4c,
        log_writer: 0x9E37_79B9_7F4A_7C15,
        level,
        block_size: options.block_size,
        compression: options.compression_at(level as usize),
        filter,
        filter_dropped,
        summary: options.summary.clone(),
        compaction_filter: options
            .compaction_filter
            .as_ref()
            .map_or_else(String::new, |h| h.name().to_owned()),
        created_micros: now_micros,
        ..WriterOptions::default()
    };
    TableWriter::new(Box::new(CountedSize::default()), Path::new("virtual"), id, o)
}

/// Creates a writer of a counted blob file, with the options that the engine would use.
pub fn counted_values(options: &TreeOptions, level: u8, id: u64, now_micros: u64) -> BlobWriter {
    let o = BlobOptions {
        version: FormatVersion::OLDEST,
        identity: TableIdentity::default(),
        tree: 1,
        level,
        compression: options.compression_at(level as usize),
        created_micros: now_micros,
        warm: None,
    };
    BlobWriter::new(Box::new(CountedSize::default()), Path::new("virtual"), id, o)
}

/// Maximum bytes of a simulated value.
pub(crate) const MOST_VALUE: usize = 16 << 20;

/// Checks the sizes of keys and values: a key begins with its number, and has no more bytes than
/// the engine accepts.
///
/// # Errors
/// A sentence about them.
pub(crate) fn check_entry(key: usize, value: usize) -> Result<(), String> {
    if (8..=MAX_KEY_LEN).contains(&key) && value <= MOST_VALUE {
        return Ok(());
    }
    Err(format!(
        "a key has 8 to {MAX_KEY_LEN} bytes, and a value {MOST_VALUE} at most, not {key} and {value}"
    ))
}

/// Returns the mean length of values between `least` and `most` bytes.
pub(crate) fn mean_len((least, most): (usize, usize)) -> f64 {
    f64::midpoint(least as f64, most as f64)
}

/// Properties of keys and values.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentSize {
    /// Bytes of a key, at least 8.
    pub key_len: usize,
    /// Shortest and longest value in bytes; lengths are uniform between them.
    pub value_len: (usize, usize),
    /// Share of a value's bytes that are random, 0 to 1; the rest are zeros.
    pub random: f64,
    /// Real bytes of values, used cyclically instead of generated ones; empty for none.
    pub sample: Vec<u8>,
}

impl ContentSize {
    /// Returns the mean bytes of a value.
    pub fn mean_value(&self) -> f64 {
        mean_len(self.value_len)
    }

    /// Returns the length of the value of operation `id`.
    pub fn len_of(&self, id: u64) -> usize {
        let (lo, hi) = self.value_len;
        if hi > lo { lo + (mix(id ^ 0x51_7c_c1_b7) % (hi - lo + 1) as u64) as usize } else { lo }
    }

    /// Writes the key with this number.
    pub fn key(&self, place: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&place.to_be_bytes());
        out.resize(self.key_len.max(8), b'.');
    }

    /// Writes the value of operation `id`, written at `stamp` (microseconds): the stamp, then bytes
    /// that depend on the operation's number.
    pub fn value(&self, id: u64, len: usize, stamp: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&stamp.to_le_bytes()[..len.min(8)]);
        if !self.sample.is_empty() {
            let from = (mix(id) % self.sample.len() as u64) as usize;
            let turns = self.sample[from..].iter().chain(self.sample.iter().cycle());
            out.extend(turns.take(len.saturating_sub(8)));
            return;
        }
        let random = ((len.saturating_sub(8)) as f64 * self.random) as usize;
        let mut x = id;
        while out.len() < 8 + random {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            out.extend_from_slice(&mix(x).to_le_bytes());
        }
        out.truncate(8 + random);
        out.resize(len.max(out.len().min(len)), 0);
        out.truncate(len);
    }
}

/// Bytes of a file per entry, for many entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EntrySize {
    /// A put of an average value, or of its reference if the value is in a blob file.
    pub put: f64,
    /// Bytes of blob files per put.
    pub blob: f64,
    /// A delete.
    pub delete: f64,
    /// Filter bits per key.
    pub filter_bits: f64,
    /// Bytes of the pinned index per put.
    pub index: f64,
}

impl EntrySize {
    /// Returns the size with this many filter bits per key.
    pub fn with_filter(self, bits: f64) -> EntrySize {
        let more = (bits - self.filter_bits) * OVERHEAD / 8.0;
        let (put, delete) = (self.put + more, self.delete + more);
        EntrySize { put, delete, filter_bits: bits, ..self }
    }
}

/// Bytes of entries in files: flushed, compacted, and in the last level, without sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// In a flushed table: sequence numbers of one memtable.
    pub flushed: EntrySize,
    /// In a compacted table with older runs below: sequence numbers from a wide range.
    pub merged: EntrySize,
    /// In a compacted table without older runs below.
    pub bottom: EntrySize,
}

/// A file number as long as most blob files have in a store of some size.
const FIRST_VALUES: u64 = 1000;

/// Entries of a sample: enough to make the last block and the fixed parts negligible.
const SAMPLE: u64 = 20_000;

impl Sizes {
    /// Measures tables of `content` as the tree writes them. `memtable` and `total` are numbers of
    /// operations: the spread of sequence numbers in a memtable and overall. Keys are random, or
    /// ascend in series.
    ///
    /// # Errors
    /// Errors of the table writer.
    pub fn measure(
        options: &TreeOptions,
        content: &ContentSize,
        memtable: u64,
        total: u64,
        series: Option<KeySeries>,
    ) -> Result<Sizes> {
        let per_block = (options.block_size as f64
            / (content.mean_value() + content.key_len as f64 + 4.0))
            .max(1.0);
        let at = |level: u8, spread: u64| -> Result<EntrySize> {
            let (put, blob) = sample(options, content, level, spread, series, Kind::Put)?;
            let (delete, _) = sample(options, content, level, spread, series, Kind::Delete)?;
            let filter_bits = options.filter_at(level.into()).bits().into();
            Ok(EntrySize { put, blob, delete, filter_bits, index: 41.0 / per_block })
        };
        let (flushed, merged, bottom) = (at(0, memtable)?, at(1, total)?, at(2, 0)?);
        // If no other entries are between those of a block, compactions copy it.
        let is_copied = |s: KeySeries| memtable as f64 / s.series as f64 >= 2.0 * per_block;
        if options.summary.is_none() && series.is_some_and(is_copied) {
            let copied = |size: EntrySize| flushed.with_filter(size.filter_bits);
            return Ok(Sizes { flushed, merged: copied(merged), bottom: copied(bottom) });
        }
        Ok(Sizes { flushed, merged, bottom })
    }
}

/// Keys that ascend in several series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeySeries {
    /// Number of interleaved series.
    pub series: u64,
    /// Distance between two keys of a series, as 64-bit numbers.
    pub step: u64,
}

/// Returns the bytes of a table and of blob files per entry.
fn sample(
    options: &TreeOptions,
    content: &ContentSize,
    level: u8,
    spread: u64,
    series: Option<KeySeries>,
    kind: Kind,
) -> Result<(f64, f64)> {
    let entries = (SAMPLE as f64 * 120.0 / (content.mean_value() + content.key_len.max(20) as f64))
        .clamp(200.0, SAMPLE as f64) as u64;
    let mut rng = Rng::new(7, u64::from(level));
    let filter_bits = options.filter_at(level.into()).bits().into();
    let mut writer = counted_table(options, level, 1, filter_bits, 0);
    let mut values = counted_values(options, level, FIRST_VALUES, 0);
    let (mut key, mut value) = (vec![], vec![]);
    for i in 0..entries {
        let anywhere = u64::MAX / entries * i + rng.below(u64::MAX / entries);
        let seq = match series {
            _ if spread == 0 => 0,
            None => 1 + rng.below(spread),
            // A memtable has a few of each series.
            Some(s) => 1 + s.series.saturating_mul(i) % spread,
        };
        let in_series = |s: KeySeries| s.step.min(u64::MAX / entries) * i;
        content.key(series.map_or(anywhere, in_series), &mut key);
        let id = rng.bits();
        match kind {
            Kind::Put => content.value(
                id,
                content.len_of(id),
                1_577_836_800_000_000 + rng.below(1 << 40),
                &mut value,
            ),
            _ => value.clear(),
        }
        if kind == Kind::Put && value.len() >= options.blob_from() {
            let place = values.add(&key, seq, &value)?;
            value.clear();
            place.encode(&mut value);
            writer.add(&key, Trailer::new(seq, Kind::Blob), &value)?;
        } else {
            writer.add(&key, Trailer::new(seq, kind), &value)?;
        }
    }
    let blob = values.size() as f64 / entries as f64;
    Ok((writer.finish()?.size as f64 / entries as f64, blob))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_costs_its_bytes_and_a_little() {
        let content =
            ContentSize { key_len: 16, value_len: (100, 100), random: 1.0, sample: vec![] };
        let options =
            TreeOptions { compression: vec![firn_kv::Compression::None], ..TreeOptions::default() };
        let sizes = Sizes::measure(&options, &content, 1000, 1 << 30, None).unwrap();
        assert!(sizes.bottom.put > 116.0 && sizes.bottom.put < sizes.flushed.put);
        assert!(sizes.flushed.put < sizes.merged.put && sizes.merged.put < 140.0, "{sizes:?}");
        assert!(sizes.bottom.delete > 8.0 && sizes.bottom.delete < 40.0, "{sizes:?}");
    }

    #[test]
    fn keys_in_series_cost_less() {
        let content = ContentSize { key_len: 16, value_len: (60, 60), random: 1.0, sample: vec![] };
        let options =
            TreeOptions { compression: vec![firn_kv::Compression::None], ..TreeOptions::default() };
        let of = |series| Sizes::measure(&options, &content, 1 << 16, 1 << 30, series).unwrap();
        let [any, long, short] = [None, Some(100), Some(10_000)]
            .map(|n| of(n.map(|series| KeySeries { series, step: 1 << 40 })));
        assert!(short.bottom.put + 0.9 < any.bottom.put, "{any:?} {short:?}");
        assert!(long.flushed.put + 0.9 < any.flushed.put, "{any:?} {long:?}");
        assert_eq!((long.merged, long.bottom), (long.flushed, long.flushed), "copied");
    }

    #[test]
    fn a_value_has_its_length_and_its_stamp() {
        let content = ContentSize { key_len: 16, value_len: (8, 500), random: 0.5, sample: vec![] };
        let mut v = vec![];
        for len in [8, 9, 100, 500] {
            content.value(3, len, 0x0102, &mut v);
            assert_eq!((v.len(), v[0], v[1]), (len, 2, 1));
        }
    }
}
