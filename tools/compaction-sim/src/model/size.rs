//! Measures the length of table files with the engine's own table writer, which writes into files
//! that only count.
//!
//! [`CountedSize`] is such a file. [`Sizes`] measures the cost of an entry in a file on a sample,
//! so that tables that are known only by numbers have a size too.

use std::path::Path;

use firn_kv::fs::WriteFile;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::identity::TableIdentity;
use firn_kv::internals::base::key::{Kind, MAX_KEY_LEN, Trailer, head};
use firn_kv::internals::compaction::whole_bits;
use firn_kv::internals::sstable::{BlobOptions, BlobWriter, TableWriter, WriterOptions};
use firn_kv::{FilterKind, Result, TreeOptions};
use firn_workload::ValueSize;
use firn_workload::rng::Rng;
use firn_workload::values::ValuePool;

use crate::model::filters::{OVERHEAD, fingerprints};

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

/// Returns the position of key `i` of `keys` in the 64-bit numbers.
pub fn place(i: u64, keys: u64) -> u64 {
    ((u128::from(i) << 64) / u128::from(keys.max(1))).min(u128::from(u64::MAX)) as u64
}

/// Returns the mean length of values between `least` and `most` bytes.
pub(crate) fn mean_len((least, most): (usize, usize)) -> f64 {
    f64::midpoint(least as f64, most as f64)
}

/// Properties of keys and values, which are those of `firn bench`.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentSize {
    /// Bytes of a key, at least 8.
    pub key_len: usize,
    /// Bytes of a value.
    pub value: ValueSize,
    /// Share of a value's bytes that are random, 0 to 1; the rest repeats.
    pub random: f64,
    /// Real bytes of values, used cyclically instead of generated ones; empty for none.
    pub sample: Vec<u8>,
    /// Number of keys, which contain the numbers below this; 0 if they contain their positions, as
    /// hashes.
    pub numbers: u64,
    /// Whether a value begins with 8 more bytes, for the time of its write.
    pub stamped: bool,
}

impl Default for ContentSize {
    fn default() -> Self {
        ContentSize {
            key_len: 16,
            value: ValueSize::Fixed(100),
            random: 0.5,
            sample: vec![],
            numbers: 0,
            stamped: false,
        }
    }
}

impl ContentSize {
    /// Returns the mean bytes of a value.
    pub fn mean_value(&self) -> f64 {
        self.value.mean() + if self.stamped { 8.0 } else { 0.0 }
    }

    /// Returns the position of a key: the inverse of [`key`](Self::key).
    pub fn place(&self, key: &[u8]) -> u64 {
        if self.numbers > 0 { place(head(key), self.numbers) } else { head(key) }
    }

    /// Returns the bytes of which values consist.
    pub fn pool(&self) -> ValuePool {
        if self.sample.is_empty() {
            ValuePool::new(self.value.max(), self.random, 1)
        } else {
            ValuePool::of(&self.sample, self.value.max())
        }
    }

    /// Writes the key at this position.
    pub fn key(&self, place: u64, out: &mut Vec<u8>) {
        let number = match self.numbers {
            0 => place,
            // The least number at or above the position.
            n => ((u128::from(place) * u128::from(n) + u128::from(u64::MAX)) >> 64) as u64,
        };
        out.clear();
        out.extend_from_slice(&number.to_be_bytes());
        out.resize(self.key_len.max(8), b'0');
    }

    /// Writes the value of operation `number` of a phase, of `len` bytes, written at `stamp`
    /// (microseconds). `pool` is that of [`pool`](Self::pool).
    pub fn value(&self, pool: &ValuePool, number: u64, len: usize, stamp: u64, out: &mut Vec<u8>) {
        out.clear();
        if self.stamped {
            out.extend_from_slice(&stamp.to_le_bytes()[..len.min(8)]);
        }
        out.extend_from_slice(pool.value(number, self.value.max(), len - out.len()));
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
    /// Bytes of a table beyond those of its entries.
    pub fixed: f64,
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

/// Returns the bytes of a filter with this many keys beyond those of a large filter.
pub(crate) fn small_filter(keys: u64, bits: f64) -> f64 {
    if bits > 0.0 { (fingerprints(keys) as f64 - OVERHEAD * keys as f64) * bits / 8.0 } else { 0.0 }
}

/// A file number as long as most blob files have in a store of some size.
const FIRST_VALUES: u64 = 1000;

/// Entries of a sample: enough to make the last block negligible.
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
        let pool = content.pool();
        // A memtable has a part of the keys, and the last level all of them.
        let space = if content.numbers > 0 { content.numbers as f64 } else { 2f64.powi(64) };
        let dense = if content.numbers > 0 { 1.0 } else { space / total.max(1) as f64 };
        let apart = (space / memtable.max(1) as f64).max(dense);
        let at = |level: u8, spread: u64, gap: f64, writes: u64| -> Result<EntrySize> {
            let keys = SampleKeys { level, spread, series, gap, writes };
            let many = keys.entries(content);
            let few = (many / 4).max(1);
            let of = |kind, n| sample(options, content, &pool, &keys, n, kind);
            // Two tables give the bytes of an entry, and those that each table has besides. A small
            // filter has more bits per key.
            let bits = options.filter_at(level.into()).bits().into();
            let line = |kind| -> Result<(f64, f64, f64)> {
                let ((a, _), (b, blob)) = (of(kind, few)?, of(kind, many)?);
                let (a, b) = (a - small_filter(few, bits), b - small_filter(many, bits));
                let each = (b - a) / (many - few).max(1) as f64;
                Ok((each, (b - each * many as f64).max(0.0), blob / many as f64))
            };
            let ((put, fixed, blob), (delete, ..)) = (line(Kind::Put)?, line(Kind::Delete)?);
            Ok(EntrySize { put, blob, delete, fixed, filter_bits: bits, index: 41.0 / per_block })
        };
        let some = (memtable as f64 * total as f64).sqrt() as u64;
        let flushed = at(0, memtable, apart, memtable)?;
        let merged = at(1, total, (apart * dense).sqrt(), some)?;
        let bottom = at(2, 0, dense, total)?;
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

/// The golden ratio: the fractions of its multiples are spread evenly.
const GOLDEN_RATIO: f64 = 1.618_033_988_749_895;

/// The keys of a sample.
struct SampleKeys {
    level: u8,
    /// Spread of sequence numbers; 0 if they were dropped.
    spread: u64,
    series: Option<KeySeries>,
    /// Mean distance between two keys that are numbers.
    gap: f64,
    /// Number of writes in a table over all keys.
    writes: u64,
}

impl SampleKeys {
    /// Returns the number of entries of the sample.
    fn entries(&self, content: &ContentSize) -> u64 {
        let each = content.mean_value() + content.key_len.max(20) as f64;
        let entries = (SAMPLE as f64 * 120.0 / each).clamp(200.0, SAMPLE as f64) as u64;
        match content.numbers {
            0 => entries,
            // As many as there are at this distance.
            numbers => entries.min((numbers as f64 / self.gap) as u64).max(200.min(numbers)),
        }
    }
}

/// Returns the bytes of a table of this many entries, and of its blob files.
fn sample(
    options: &TreeOptions,
    content: &ContentSize,
    pool: &ValuePool,
    keys: &SampleKeys,
    entries: u64,
    kind: Kind,
) -> Result<(f64, f64)> {
    let SampleKeys { level, spread, series, gap, writes } = *keys;
    let mut rng = Rng::new(7, u64::from(level));
    let filter_bits = options.filter_at(level.into()).bits().into();
    let mut writer = counted_table(options, level, 1, filter_bits, 0);
    let mut values = counted_values(options, level, FIRST_VALUES, 0);
    let (mut key, mut value) = (vec![], vec![]);
    let numbers = content.numbers;
    let space = if numbers > 0 { numbers as f64 } else { 2f64.powi(64) };
    let gap = gap.min(space / entries as f64);
    let mut next = (space - gap * entries as f64).max(0.0) as u64 / 2;
    let first = next as f64;
    for i in 0..entries {
        // Different numbers, which leave room for those that follow.
        let number = (first + gap * (i as f64 + rng.unit())) as u64;
        let anywhere = match numbers {
            0 => number,
            _ => place(number.clamp(next, (numbers - entries + i).max(next)), numbers),
        };
        next = number.max(next) + 1;
        // The table has consecutive entries of each series.
        let in_series = series.map(|s| {
            let each = (writes / s.series).clamp(1, entries);
            let (nth, of, all) = (i % each, i / each, entries.div_ceil(each));
            let step = s.step.min(u64::MAX / (all * each));
            let apart = (u64::MAX / step / all).max(each);
            ((of * apart + nth) * step, nth.saturating_mul(s.series).saturating_add(of))
        });
        let seq = match in_series {
            _ if spread == 0 => 0,
            None => 1 + rng.below(spread),
            Some((_, write)) => 1 + write % spread,
        };
        content.key(in_series.map_or(anywhere, |(key, _)| key), &mut key);
        match kind {
            Kind::Put => {
                let stamp = 1_577_836_800_000_000 + rng.below(1 << 40);
                // Any number of entries has the mean length.
                let len = content.value.quantile((i as f64 * GOLDEN_RATIO).fract())
                    + if content.stamped { 8 } else { 0 };
                // Values of ascending keys follow each other.
                let number = in_series.map_or_else(|| rng.below(1 << 40), |(_, write)| write);
                content.value(pool, number, len, stamp, &mut value);
            }
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
    let blob = values.size() as f64;
    Ok((writer.finish()?.size as f64, blob))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_costs_its_bytes_and_a_little() {
        let content = ContentSize { random: 1.0, ..ContentSize::default() };
        let options =
            TreeOptions { compression: vec![firn_kv::Compression::None], ..TreeOptions::default() };
        let sizes = Sizes::measure(&options, &content, 1000, 1 << 30, None).unwrap();
        assert!(sizes.bottom.put > 116.0 && sizes.bottom.put < sizes.flushed.put);
        assert!(sizes.flushed.put < sizes.merged.put && sizes.merged.put < 140.0, "{sizes:?}");
        assert!(sizes.bottom.delete > 8.0 && sizes.bottom.delete < 40.0, "{sizes:?}");
    }

    #[test]
    fn keys_in_series_cost_less() {
        let value = ValueSize::Fixed(60);
        let content = ContentSize { value, random: 1.0, ..ContentSize::default() };
        let options =
            TreeOptions { compression: vec![firn_kv::Compression::None], ..TreeOptions::default() };
        let of = |series| Sizes::measure(&options, &content, 1 << 16, 1 << 30, series).unwrap();
        let [any, long, short] = [None, Some(100), Some(10_000)]
            .map(|n| of(n.map(|series| KeySeries { series, step: 1 << 20 })));
        assert!(short.bottom.put + 0.9 < any.bottom.put, "{any:?} {short:?}");
        assert!(long.flushed.put + 0.9 < any.flushed.put, "{any:?} {long:?}");
        assert_eq!((long.merged, long.bottom), (long.flushed, long.flushed), "copied");
    }

    /// A table with a few neighbouring entries of each series compresses better than one with whole
    /// series, whose values and sequence numbers are more distant.
    #[test]
    fn a_memtable_of_many_series_compresses_well() {
        let (value, numbers) = (ValueSize::Fixed(30), 330_000);
        let content = ContentSize { value, random: 0.25, numbers, ..ContentSize::default() };
        let options =
            TreeOptions { compression: vec![firn_kv::Compression::Lz4], ..TreeOptions::default() };
        let series = Some(KeySeries { series: 1000, step: place(1, numbers) });
        let sizes = Sizes::measure(&options, &content, 21_000, numbers, series).unwrap();
        assert!(sizes.flushed.put < sizes.merged.put * 0.8, "{sizes:?}");
        assert!((28.0..34.0).contains(&sizes.flushed.put), "{sizes:?}");
    }

    #[test]
    fn tables_of_any_size_have_the_bytes_of_their_entries() {
        let options =
            TreeOptions { compression: vec![firn_kv::Compression::None], ..TreeOptions::default() };
        let gap = 2f64.powi(44);
        for (numbers, level, spread, gap) in
            [(0, 0, 1 << 20, gap), (50_000, 2, 0, 1.0), (50_000, 0, 400, 125.0)]
        {
            let content = ContentSize { numbers, ..ContentSize::default() };
            let memtable = if level == 0 { spread } else { 400 };
            let sizes = Sizes::measure(&options, &content, memtable, 1 << 20, None).unwrap();
            let size = if level == 0 { sizes.flushed } else { sizes.bottom };
            for n in [300u64, 1000, 5000, 20_000] {
                let keys = SampleKeys { level, spread, series: None, gap, writes: n };
                let pool = content.pool();
                let (real, _) = sample(&options, &content, &pool, &keys, n, Kind::Put).unwrap();
                let ours = size.put * n as f64 + size.fixed + small_filter(n, size.filter_bits);
                let fits =
                    n as f64 * gap <= if numbers > 0 { numbers as f64 } else { 2f64.powi(64) };
                assert!(
                    !fits || (ours / real - 1.0).abs() < 0.01,
                    "{numbers}, level {level}, {n} entries: {ours}, not {real}"
                );
            }
        }
    }

    #[test]
    fn a_value_has_its_length_and_its_stamp() {
        let value = ValueSize::Uniform(8, 500);
        let content = ContentSize { value, stamped: true, ..ContentSize::default() };
        let (pool, mut v) = (content.pool(), vec![]);
        for len in [8, 9, 100, 500] {
            content.value(&pool, 3, len, 0x0102, &mut v);
            assert_eq!((v.len(), v[0], v[1]), (len, 2, 1));
        }
    }

    #[test]
    fn keys_are_the_numbers_of_their_positions() {
        for numbers in [1, 7, 1000, 1_000_003] {
            let content = ContentSize { numbers, ..ContentSize::default() };
            let mut key = vec![];
            for i in (0..numbers).step_by(1 + numbers as usize / 500) {
                content.key(place(i, numbers), &mut key);
                assert_eq!(key[..8], i.to_be_bytes(), "{i} of {numbers}");
                assert_eq!(content.place(&key), place(i, numbers), "{i} of {numbers}");
            }
        }
    }

    #[test]
    fn keys_that_are_close_cost_less() {
        let options =
            TreeOptions { compression: vec![firn_kv::Compression::None], ..TreeOptions::default() };
        let of = |numbers| {
            let content = ContentSize { numbers, ..ContentSize::default() };
            Sizes::measure(&options, &content, 10_000, 1 << 30, None).unwrap()
        };
        let (dense, sparse, hashed) = (of(10_000), of(1 << 40), of(0));
        assert!(dense.flushed.put + 2.0 < sparse.flushed.put, "{dense:?} {sparse:?}");
        assert!(sparse.flushed.put < hashed.flushed.put, "{sparse:?} {hashed:?}");
    }
}
