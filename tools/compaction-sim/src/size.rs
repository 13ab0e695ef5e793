//! The length of table files: the engine's own table writer, writing into files that only count.
//!
//! [`CountedSize`] is such a file; [`Sizes`] measures on a sample of entries what one entry costs
//! in a file, so that tables of which only numbers are known have a size too.

use std::path::Path;

use firn_kv::fs::WriteFile;
use firn_kv::internals::base::identity::TableIdentity;
use firn_kv::internals::base::key::{Kind, MAX_KEY_LEN, Trailer};
use firn_kv::internals::compaction::whole_bits;
use firn_kv::internals::sstable::{BlobOptions, BlobWriter, TableWriter, WriterOptions};
use firn_kv::{FilterKind, Result, TreeOptions};
use firn_workload::rng::{Rng, mix};

use crate::filters::OVERHEAD;

/// The name of the tree of a simulated store.
pub const TREE: &str = "sim";

/// A file that is not there; it knows how long it would be.
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

/// A writer of a table that is only counted, with the options that the engine would give it.
/// `filter_bits` are those of a fingerprint on average over its run.
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
        // Any of the usual length: they are stored, and compress as those of a store do.
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

/// A writer of a blob file that is only counted, with the options that the engine would give it.
pub fn counted_values(options: &TreeOptions, level: u8, id: u64, now_micros: u64) -> BlobWriter {
    let o = BlobOptions {
        identity: TableIdentity::default(),
        tree: 1,
        level,
        compression: options.compression_at(level as usize),
        created_micros: now_micros,
        warm: None,
    };
    BlobWriter::new(Box::new(CountedSize::default()), Path::new("virtual"), id, o)
}

/// Bytes of a value that is simulated, at most.
pub(crate) const MOST_VALUE: usize = 16 << 20;

/// Whether there can be keys and values of so many bytes: a key begins with its place among all,
/// and has no more bytes than the engine takes.
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

/// Bytes of an average value, where they have from `least` to `most`.
pub(crate) fn mean_len((least, most): (usize, usize)) -> f64 {
    f64::midpoint(least as f64, most as f64)
}

/// What keys and values look like.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentSize {
    /// Bytes of a key, at least 8.
    pub key_len: usize,
    /// Shortest and longest value in bytes; lengths are even between them.
    pub value_len: (usize, usize),
    /// Share of a value's bytes that are random, 0 to 1; the rest are zeros.
    pub random: f64,
    /// Real values, taken in turn instead of made ones; empty for none.
    pub sample: Vec<u8>,
}

impl ContentSize {
    /// Bytes of an average value.
    pub fn mean_value(&self) -> f64 {
        mean_len(self.value_len)
    }

    /// The length of the value of operation `id`.
    pub fn len_of(&self, id: u64) -> usize {
        let (lo, hi) = self.value_len;
        if hi > lo { lo + (mix(id ^ 0x51_7c_c1_b7) % (hi - lo + 1) as u64) as usize } else { lo }
    }

    /// Writes the key of a place among all keys.
    pub fn key(&self, place: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&place.to_be_bytes());
        out.resize(self.key_len.max(8), b'.');
    }

    /// Writes the value of operation `id`, written at `stamp` (microseconds): the stamp, then what
    /// the operation's number says.
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

/// Bytes of a file for each entry, where entries are many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EntrySize {
    /// A put of an average value; of one that lies apart what refers to it.
    pub put: f64,
    /// Bytes of blob files for each put.
    pub apart: f64,
    /// A delete.
    pub delete: f64,
    /// Bits of the filter for each key.
    pub filter_bits: f64,
    /// Bytes of the pinned index for each put.
    pub index: f64,
}

impl EntrySize {
    /// With a filter of so many bits for each key.
    pub fn with_filter(self, bits: f64) -> EntrySize {
        let more = (bits - self.filter_bits) * OVERHEAD / 8.0;
        let (put, delete) = (self.put + more, self.delete + more);
        EntrySize { put, delete, filter_bits: bits, ..self }
    }
}

/// What entries cost in files: flushed, merged, and at the bottom, where sequence numbers are gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// In a table that was flushed: sequence numbers of one memtable.
    pub flushed: EntrySize,
    /// In a merged table with something beneath: sequence numbers from far apart.
    pub merged: EntrySize,
    /// In a merged table with nothing beneath.
    pub bottom: EntrySize,
}

/// A number of a blob file as long as most have in a store of some size.
const FIRST_VALUES: u64 = 1000;

/// Entries of a sample: enough for the last block and the fixed parts to vanish.
const SAMPLE: u64 = 20_000;

impl Sizes {
    /// Measures tables of `content` as the tree writes them. `memtable` and `total` are operations:
    /// how far sequence numbers spread in a memtable and in all. Keys lie anywhere and come at any
    /// time, or grow in series.
    ///
    /// # Errors
    /// What the table writer refuses.
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
            let (put, apart) = sample(options, content, level, spread, series, Kind::Put)?;
            let (delete, _) = sample(options, content, level, spread, series, Kind::Delete)?;
            let filter_bits = options.filter_at(level.into()).bits().into();
            Ok(EntrySize { put, apart, delete, filter_bits, index: 41.0 / per_block })
        };
        let (flushed, merged, bottom) = (at(0, memtable)?, at(1, total)?, at(2, 0)?);
        // Where nothing else lies between the entries of a block merges copy it as it is.
        let is_copied = |s: KeySeries| memtable as f64 / s.series as f64 >= 2.0 * per_block;
        if options.summary.is_none() && series.is_some_and(is_copied) {
            let copied = |size: EntrySize| flushed.with_filter(size.filter_bits);
            return Ok(Sizes { flushed, merged: copied(merged), bottom: copied(bottom) });
        }
        Ok(Sizes { flushed, merged, bottom })
    }
}

/// Keys that grow upwards in several series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeySeries {
    /// How many series take turns.
    pub series: u64,
    /// From one key of a series to the next, as numbers of 64 bits.
    pub step: u64,
}

/// Bytes of a table and of blob files for each entry.
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
    let apart = values.size() as f64 / entries as f64;
    Ok((writer.finish()?.size as f64 / entries as f64, apart))
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
