//! Tests tables against a sorted vector, damaged tables, and forged tables.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use crate::util::sync::epoch;
use proptest::prelude::*;

use super::block::counted;
use super::*;
use crate::base::cursor::Cursor;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::facts::TableFacts;
use crate::base::hooks::{FilterPrefix, Summary, SummaryPass};
use crate::base::key::{Kind, Seq, Trailer, compare};
use crate::base::options::{Compression, FilterKind};
use crate::block_cache::Cache;
use crate::counters::reads::{ReadCounters, SAMPLED};
use crate::env::mem::MemEnv;
use crate::env::{Env, FileMap, ReadFile, WriteFile};
use crate::range_del::tombstone::{Fragments, RangeTombstone};
use crate::util::checksum::checksum;
use crate::util::coding::u32_at;
use crate::util::hash::key_hash;

const ID: u64 = 7;

#[derive(Clone, Default)]
struct Disk(Arc<Mutex<Vec<u8>>>);

impl WriteFile for Disk {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
    fn len(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }
}

struct Bytes {
    bytes: Vec<u8>,
    map: bool,
}

impl ReadFile for Bytes {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let from = self.bytes.get(offset as usize..offset as usize + buf.len());
        buf.copy_from_slice(from.ok_or_else(|| Error::corruption("short").at("t", offset))?);
        Ok(())
    }
    fn map(&self) -> Option<Arc<dyn FileMap>> {
        if self.map { Some(Arc::new(self.bytes.clone())) } else { None }
    }
}

/// A file that counts its reads.
struct CountedFile(Bytes, AtomicUsize);

impl CountedFile {
    /// Returns the number of reads since the last call.
    fn reads(&self) -> usize {
        self.1.swap(0, Relaxed)
    }
}

impl ReadFile for CountedFile {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.1.fetch_add(1, Relaxed);
        self.0.read_at(offset, buf)
    }
    fn map(&self) -> Option<Arc<dyn FileMap>> {
        None
    }
}

type Entry = (Vec<u8>, Trailer, Vec<u8>);

/// Creates the file of table [`ID`] with `entries` entries in uncompressed blocks of 4 KiB. Each
/// entry's key is its number.
pub(super) fn stored_as_it_is(entries: u32, value: impl Fn(u32) -> Vec<u8>) -> Arc<dyn ReadFile> {
    let (env, path) = (MemEnv::new(1), path());
    let (block_size, compression) = (4032, Compression::None);
    let options = WriterOptions { block_size, compression, ..WriterOptions::default() };
    let mut w = TableWriter::new(env.create(path).unwrap(), path, ID, options);
    for i in 0..entries {
        w.add(&i.to_be_bytes(), Trailer::new(1, Kind::Put), &value(i)).unwrap();
    }
    w.finish().unwrap();
    env.open_read(path, false).unwrap()
}

/// Opens such a file.
pub(super) fn open_file(file: Arc<dyn ReadFile>, cache: usize) -> Arc<Table> {
    Table::open(file, path(), ID, Cache::new(cache)).unwrap()
}

fn path() -> &'static Path {
    Path::new("000007.sst")
}

fn open_as(bytes: Vec<u8>, map: bool, id: u64) -> Result<Arc<Table>> {
    static CACHE: OnceLock<Arc<Cache>> = OnceLock::new();
    let cache = CACHE.get_or_init(|| Cache::new(2 << 20)).clone();
    Table::open(Arc::new(Bytes { bytes, map }), path(), id, cache)
}

fn open(bytes: &[u8], map: bool) -> Result<Arc<Table>> {
    open_as(bytes.to_vec(), map, ID)
}

fn write(
    options: &WriterOptions,
    entries: &[Entry],
    tombstones: &Fragments,
) -> (Vec<u8>, TableFacts) {
    write_as(ID, options, entries, tombstones)
}

fn write_as(
    id: u64,
    options: &WriterOptions,
    entries: &[Entry],
    tombstones: &Fragments,
) -> (Vec<u8>, TableFacts) {
    let disk = Disk::default();
    let mut w = TableWriter::new(Box::new(disk.clone()), path(), id, options.clone());
    for (k, t, v) in entries {
        w.add(k, *t, v).unwrap();
        assert_eq!(w.last_key(), k);
    }
    w.set_tombstones(tombstones, (!tombstones.is_empty()).then_some(5));
    let estimate = w.estimated_size();
    let facts = w.finish().unwrap();
    let bytes = disk.0.lock().unwrap().clone();
    assert_eq!(facts.size, bytes.len() as u64);
    assert!(
        options.compression != Compression::None || estimate + 4096 + facts.size / 4 > facts.size
    );
    (bytes, facts)
}

/// Reads all entries forwards with a cursor.
fn read_all(table: &Arc<Table>, fill: bool) -> Result<Vec<Entry>> {
    let mut c = table.cursor(fill);
    let mut out = vec![];
    c.first()?;
    while c.valid() {
        out.push((c.key().to_vec(), c.trailer(), c.value().to_vec()));
        c.next()?;
    }
    Ok(out)
}

struct First(usize);

impl FilterPrefix for First {
    fn name(&self) -> &str {
        "first"
    }
    fn prefix_len(&self, key: &[u8]) -> usize {
        key.len().min(self.0)
    }
}

struct Longest;
struct LongestPass(usize);

impl Summary for Longest {
    fn name(&self) -> &str {
        "longest"
    }
    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(LongestPass(0))
    }
}

impl SummaryPass for LongestPass {
    fn add(&mut self, key: &[u8], _: Kind, _: &[u8]) {
        self.0 = self.0.max(key.len());
    }
    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![4 => Just(Kind::Put), 1 => Just(Kind::Delete), 1 => Just(Kind::Merge)]
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0u8..3, 0..14),
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 0..24),
        any::<[u8; 16]>().prop_map(|k| k.to_vec()),
        (0u16..200).prop_map(|i| [
            b"a long prefix that all of these share/".as_slice(),
            &i.to_be_bytes()
        ]
        .concat()),
        (0u16..50).prop_map(|i| i.to_be_bytes().to_vec()),
    ]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..40),
        3 => (any::<u8>(), 0usize..300).prop_map(|(b, n)| vec![b; n]),
        1 => (any::<u8>(), 0usize..100_000).prop_map(|(b, n)| vec![b; n]),
    ]
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let seqs = prop_oneof![Just(1u64), Just(3), Just(200), Just(1 << 55)];
    let some = (
        prop::collection::vec((keys(), prop_oneof![4 => 1usize..3, 1 => 1usize..200]), 0..60),
        seqs,
        any::<bool>(),
    );
    some.prop_flat_map(|(keys, stride, one_seq)| {
        let mut all = vec![];
        for (i, (key, versions)) in keys.into_iter().enumerate() {
            for v in 0..if one_seq { 1 } else { versions } {
                let seq = if one_seq {
                    9
                } else {
                    (i as u64 * 211 + v as u64).wrapping_mul(stride) & ((1 << 56) - 1)
                };
                all.push((Just(key.clone()), Just(seq), kinds(), values()));
            }
        }
        all
    })
    .prop_map(|all| {
        let mut all: Vec<Entry> = all
            .into_iter()
            .map(|(k, s, kind, v)| {
                (k, Trailer::new(s, kind), if kind == Kind::Delete { vec![] } else { v })
            })
            .collect();
        all.sort_by(|a, b| compare(&a.0, a.1, &b.0, b.1));
        all.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
        all
    })
}

fn codecs() -> Vec<Compression> {
    Compression::ALL.into_iter().filter(|c| c.is_available()).collect()
}

fn options() -> impl Strategy<Value = WriterOptions> {
    let filter =
        prop::sample::select(vec![FilterKind::None, FilterKind::Fuse8, FilterKind::Fuse16]);
    (
        prop::sample::select(vec![512, 700, 4032, 65_536]),
        prop::sample::select(codecs()),
        (filter, 0u8..8),
        prop::option::of(0usize..5),
    )
        .prop_map(|(block_size, compression, (filter, filter_dropped), prefix)| {
            WriterOptions {
                block_size,
                compression,
                filter,
                filter_dropped,
                filter_prefix: prefix.map(|n| Arc::new(First(n)) as Arc<dyn FilterPrefix>),
                summary: Some(Arc::new(Longest)),
                merge_operator: "add".into(),
                created_micros: 11,
                tree: 3,
                level: 2,
                ..WriterOptions::default()
            }
        })
}

fn hash_of(options: &WriterOptions, key: &[u8]) -> u64 {
    key_hash(&key[..options.filter_prefix.as_ref().map_or(key.len(), |p| p.prefix_len(key))])
}

fn at(c: &TableCursor) -> Option<Entry> {
    c.valid().then(|| {
        assert_eq!(c.head(), crate::base::key::head(c.key()));
        assert_eq!(&*c.pin_value(), c.value());
        (c.key().to_vec(), c.trailer(), c.value().to_vec())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_table_is_the_sorted_vector(
        entries in entries(), options in options(), map: bool, fill: bool,
        probes in prop::collection::vec((keys(), 0u64..40_000), 0..30), walk in prop::collection::vec(any::<(bool, u8)>(), 0..60),
    ) {
        let (bytes, facts) = write(&options, &entries, &Fragments::default());
        let table = open(&bytes, map).unwrap();
        prop_assert_eq!(facts.entries, entries.len() as u64);
        prop_assert_eq!(table.properties().summary_bytes.clone(), entries.iter().map(|e| e.0.len()).max().unwrap_or(0).to_le_bytes().to_vec());
        let report = table.verify(options.filter_prefix.as_deref(), |_| {}).unwrap();
        prop_assert_eq!(report.entries, facts.entries);
        prop_assert!(!report.filter_checked || options.filter != FilterKind::None);
        prop_assert!(table.memory() > 0);

        let guard = epoch::pin();
        let known = entries.iter().map(|e| (e.0.clone(), e.1.seq()));
        let around = entries.iter().map(|e| (e.0.clone(), e.1.seq().saturating_sub(1)));
        for (key, read) in known.chain(around).chain(probes.iter().cloned()) {
            let versions = &entries[entries.partition_point(|e| e.0 < key)..];
            let want = versions.iter().take_while(|e| e.0 == key).find(|e| e.1.seq() <= read);
            for hash in [None, Some(hash_of(&options, &key))] {
                let hit = table.get(&key, hash, read, &guard).unwrap();
                prop_assert_eq!(hit.as_ref().map(|h| (h.trailer, h.value())), want.map(|e| (e.1, &e.2[..])));
                if let Some(h) = hit { prop_assert_eq!(&*h.pin(), h.value()); }
            }
            let mut c = table.cursor(fill);
            let i = entries.partition_point(|e| compare(&e.0, e.1, &key, Trailer::at(read)) == Ordering::Less);
            c.seek(&key, Trailer::at(read)).unwrap();
            prop_assert_eq!(at(&c), entries.get(i).cloned());
            c.next().unwrap();
            prop_assert_eq!(at(&c), entries.get(i + 1).cloned());
            let i = entries.partition_point(|e| e.0 < key);
            c.seek_before(&key).unwrap();
            prop_assert_eq!(at(&c), i.checked_sub(1).map(|i| entries[i].clone()));
        }

        prop_assert_eq!(read_all(&table, fill).unwrap(), entries.clone());
        let mut c = table.cursor(fill);
        c.last().unwrap();
        for e in entries.iter().rev() {
            prop_assert_eq!(at(&c), Some(e.clone()));
            c.prev().unwrap();
        }
        prop_assert!(!c.valid());
        c.next().unwrap();
        prop_assert!(!c.valid());

        c.first().unwrap();
        let mut i = 0usize;
        for (forward, steps) in walk {
            for _ in 0..steps {
                if i >= entries.len() { break }
                if forward { c.next().unwrap() } else { c.prev().unwrap() }
                i = if forward { i + 1 } else { i.wrapping_sub(1) };
                prop_assert_eq!(at(&c), entries.get(i).cloned());
            }
        }
    }

    #[test]
    fn what_blocks_say_of_themselves_is_so(entries in entries(), options in options()) {
        let (bytes, _) = write(&options, &entries, &Fragments::default());
        let table = open(&bytes, true).unwrap();
        let mut c = table.cursor(false);
        c.first().unwrap();
        for (i, e) in entries.iter().enumerate() {
            if let Some(bound) = c.plain_up_to() {
                prop_assert!(e.1.kind() == Some(Kind::Put) && e.1.seq() <= bound);
                prop_assert!(i == 0 || entries[i - 1].0 != e.0);
                prop_assert!(i + 1 == entries.len() || entries[i + 1].0 != e.0);
            }
            c.next().unwrap();
        }
        let blocks: Vec<BlockInfo> = table.blocks().collect();
        prop_assert_eq!(blocks.iter().map(|b| b.entries as u64).sum::<u64>(), entries.len() as u64);
        let mut end = 0;
        for b in &blocks {
            prop_assert_eq!(b.offset, end);
            let h = format::BlockHeader::read(&bytes[end as usize..]).unwrap();
            prop_assert_eq!((h.stored_len + format::BLOCK_HEADER) as u32, b.len);
            let stored = format::StoredBlock::check(&bytes[b.offset as usize..][..b.len as usize], h.kind, ID, b.offset).unwrap();
            let prefix = usize::from(u16::from_le_bytes(stored.to_vec().unwrap()[4..6].try_into().unwrap()));
            prop_assert!(counted(h.raw_len, prefix, options.block_size) <= options.block_size || b.entries == 1);
            prop_assert_eq!(table.offset_of(&b.separator) <= b.offset, true);
            end += b.len as u64;
        }
    }
}

#[test]
fn keys_that_share_a_long_beginning_share_blocks() {
    let row: Vec<u8> =
        (0..60_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let entry = |i: u32| {
        ([&row[..], &i.to_be_bytes()].concat(), Trailer::new(7, Kind::Put), vec![b'v'; 10])
    };
    let entries: Vec<Entry> = (0..300).map(entry).collect();
    let (bytes, facts) = write(&WriterOptions::default(), &entries, &Fragments::default());
    let table = open(&bytes, true).unwrap();
    let blocks = table.blocks().count();
    assert!(
        blocks <= 5 && bytes.len() < (blocks + 2) * 65_536,
        "{blocks} blocks, {} bytes",
        bytes.len()
    );
    assert_eq!(facts.entries, 300);
    let mut c = table.cursor(false);
    c.first().unwrap();
    for e in &entries {
        assert_eq!(at(&c).as_ref(), Some(e));
        c.next().unwrap();
    }
}

#[test]
fn a_file_can_be_walked_without_its_index() {
    let options = WriterOptions { block_size: 512, ..WriterOptions::default() };
    let (bytes, _) = write(&options, &small(100), &some_tombstones());
    let (mut at, mut found, mut kinds) = (0, vec![], vec![]);
    while let Ok(h) = format::BlockHeader::read(&bytes[at..]) {
        let end = at + format::BLOCK_HEADER + h.stored_len;
        let raw = format::StoredBlock::check(&bytes[at..end], h.kind, ID, at as u64)
            .unwrap()
            .to_vec()
            .unwrap();
        if h.kind == format::BlockKind::Data {
            found.extend(block_entries(&raw).unwrap().map(|(k, t, v)| (k, t, v.to_vec())));
        } else {
            kinds.push(h.kind.name());
        }
        at = end;
    }
    assert_eq!(found, small(100));
    assert_eq!(kinds, ["filter", "tombstones", "index", "properties"]);
    assert_eq!(at + format::FOOTER, bytes.len());
}

fn small(n: u32) -> Vec<Entry> {
    let entry = |i: u32| {
        let kind = if i % 9 == 4 { Kind::Delete } else { Kind::Put };
        let value = if kind == Kind::Put { vec![b'v'; (i % 40) as usize] } else { vec![] };
        (format!("key{:05}", i / 2).into_bytes(), Trailer::new(1000 - i as u64, kind), value)
    };
    (0..n).map(entry).collect()
}

fn some_tombstones() -> Fragments {
    let t = |a: &str, z: &str, seq| RangeTombstone { start: a.into(), end: z.into(), seq };
    Fragments::build(vec![
        t("key00003", "key00020", 2000),
        t("key00010", "zzz", 50),
        t("a", "b", 3),
    ])
}

/// Reads everything that a table's API exposes.
fn read_everything(bytes: Vec<u8>, map: bool) -> Result<(Vec<Entry>, Fragments, Properties)> {
    let table = open_as(bytes, map, ID)?;
    table.verify(None, |_| {})?;
    let entries = read_all(&table, true)?;
    for (key, t, value) in &entries {
        let guard = epoch::pin();
        let hit = table.get(key, Some(key_hash(key)), t.seq(), &guard)?;
        assert!(hit.is_some_and(|h| h.trailer == *t && h.value() == value));
    }
    Ok((entries, (**table.tombstones()).clone(), table.properties().clone()))
}

fn assert_placed(e: &Error) {
    assert!(matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Incompatible), "{e}");
    assert!(e.file().is_some() && e.offset().is_some(), "{e}");
}

#[test]
fn every_flipped_bit_is_found() {
    for compression in codecs() {
        let options = WriterOptions { block_size: 512, compression, ..WriterOptions::default() };
        let (bytes, _) = write(&options, &small(60), &some_tombstones());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_placed(
                &read_everything(damaged, bit % 3 == 0).expect_err("a flipped bit goes unnoticed"),
            );
        }
    }
}

#[test]
fn every_truncation_is_found() {
    let (bytes, _) = write(
        &WriterOptions { block_size: 512, ..WriterOptions::default() },
        &small(60),
        &some_tombstones(),
    );
    for len in 0..bytes.len() {
        assert_placed(&open(&bytes[..len], len % 2 == 0).expect_err("a truncated file opens"));
    }
}

#[test]
fn a_damaged_block_spares_the_others() {
    for (map, compression) in
        [(true, Compression::None), (false, Compression::None), (true, Compression::Lz4)]
    {
        let options = WriterOptions { block_size: 512, compression, ..WriterOptions::default() };
        let entries = small(200);
        let (mut bytes, _) = write(&options, &entries, &Fragments::default());
        let bad = open(&bytes, map).unwrap().blocks().nth(1).unwrap();
        bytes[bad.offset as usize + 40] ^= 1;
        let table = open(&bytes, map).unwrap();
        let guard = epoch::pin();
        let (mut good, mut errors) = (0, 0);
        for (key, t, value) in &entries {
            match table.get(key, None, t.seq(), &guard) {
                Ok(hit) => {
                    assert_eq!(hit.unwrap().value(), value);
                    good += 1;
                }
                Err(e) => {
                    assert_eq!(
                        (e.offset(), e.block_kind(), e.file()),
                        (Some(bad.offset), Some("data"), Some(path()))
                    );
                    errors += 1;
                }
            }
        }
        assert!(good > 100 && errors > 5);
        let mut c = table.cursor(false);
        c.first().unwrap();
        let e = loop {
            if let Err(e) = c.next() {
                break e;
            }
            assert!(c.valid());
        };
        assert_eq!(e.offset(), Some(bad.offset));
        assert!(!c.valid());
        assert!(table.verify(None, |_| {}).is_err());
    }
}

#[test]
fn blocks_in_the_wrong_place_are_refused() {
    let options = WriterOptions {
        block_size: 512,
        compression: Compression::None,
        ..WriterOptions::default()
    };
    let entries: Vec<Entry> = (0..60)
        .map(|i| (format!("k{i:03}").into_bytes(), Trailer::new(1, Kind::Put), vec![7; 100]))
        .collect();
    let (bytes, _) = write(&options, &entries, &Fragments::default());
    let blocks: Vec<BlockInfo> = open(&bytes, true).unwrap().blocks().collect();
    let pair = blocks.windows(2).find(|w| w[0].len == w[1].len).unwrap();
    let (a, b) = (&pair[0], &pair[1]);
    let mut swapped = bytes.clone();
    let len = a.len as usize;
    swapped[a.offset as usize..][..len].copy_from_slice(&bytes[b.offset as usize..][..len]);
    swapped[b.offset as usize..][..len].copy_from_slice(&bytes[a.offset as usize..][..len]);
    assert_placed(&read_all(&open(&swapped, true).unwrap(), true).unwrap_err());

    let (other, _) = write_as(ID + 1, &options, &entries, &Fragments::default());
    let mut mixed = bytes.clone();
    mixed[a.offset as usize..][..len].copy_from_slice(&other[a.offset as usize..][..len]);
    assert_placed(&read_all(&open(&mixed, false).unwrap(), true).unwrap_err());
    assert!(
        open_as(other, true, ID).err().unwrap().message().contains("this is table 8, not table 7")
    );
}

#[test]
fn a_newer_version_is_incompatible() {
    let (mut bytes, _) = write(&WriterOptions::default(), &small(10), &Fragments::default());
    let at = bytes.len() - 12;
    bytes[at] = 2;
    let e = open(&bytes, true).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Incompatible);
    assert!(
        e.message().contains("version 2, of a newer version")
            && e.message().contains("reads version 1"),
        "{e}"
    );
}

/// Changes the content of the only block of `kind` and recomputes its checksum.
fn resealed(mut bytes: Vec<u8>, kind: format::BlockKind, change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut at = 0;
    while bytes[at + 4] != kind as u8 {
        at += format::BLOCK_HEADER + u32_at(&bytes, at + 8) as usize;
    }
    let end = at + format::BLOCK_HEADER + u32_at(&bytes, at + 8) as usize;
    change(&mut bytes[at + format::BLOCK_HEADER..end]);
    let crc =
        checksum(ID, at as u64, &[&bytes[at..at + 20], &bytes[at + format::BLOCK_HEADER..end]]);
    bytes[at + 20..at + 24].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn verification_finds_wrong_flags_and_kinds() {
    let options = WriterOptions { compression: Compression::None, ..WriterOptions::default() };
    let (bytes, _) = write(&options, &small(3), &Fragments::default());
    assert!(open(&bytes, false).unwrap().verify(None, |_| ()).is_ok());
    let not_raw =
        resealed(bytes.clone(), format::BlockKind::Index, |b| b[b.len() - 1] &= !index::RAW);
    let wider = resealed(bytes, format::BlockKind::Properties, |b| {
        let at = b.windows(7).position(|w| w == b"\x06filter").unwrap();
        b[at + 8] = 2;
    });
    for (bytes, what) in [(not_raw, "another compression"), (wider, "filter is not the one")] {
        let table = open(&bytes, false).unwrap();
        assert_eq!(read_all(&table, false).unwrap(), small(3));
        let e = table.verify(None, |_| ()).unwrap_err();
        assert!(e.to_string().contains(what), "{e}");
        assert_placed(&e);
    }
}

/// Flips every bit of a data block and recomputes the checksum. A cursor then returns keys in
/// ascending order, or an error with file and offset. So a scan that seeks past the last key cannot
/// loop.
#[test]
fn no_flipped_bit_makes_keys_descend() {
    let key = |i: u32| match i % 3 {
        0 => format!("k{:04}", i / 3).into_bytes(),
        // Keys with equal heads after the prefix of their block.
        _ => format!("k{:04} with a long common part {}", i / 3, i % 3).into_bytes(),
    };
    let mut entries: Vec<Entry> =
        (0..120).map(|i| (key(i), Trailer::new(1000, Kind::Put), vec![b'v'; 20])).collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let block = 600;
    let options =
        WriterOptions { compression: Compression::None, block_size: block, ..Default::default() };
    let (bytes, _) = write(&options, &entries, &Fragments::default());
    let blocks = open(&bytes, false).unwrap().blocks().count();
    assert!(blocks > 5);
    let (mut refused, mut at) = (0, 0);
    while bytes[at + 4] == format::BlockKind::Data as u8 {
        let body = at + format::BLOCK_HEADER;
        let end = body + u32_at(&bytes, at + 8) as usize;
        for i in body..end {
            let mut wrong = bytes.clone();
            wrong[i] ^= 1 << (i % 8);
            let crc = checksum(ID, at as u64, &[&wrong[at..at + 20], &wrong[body..end]]);
            wrong[at + 20..at + 24].copy_from_slice(&crc.to_le_bytes());
            let table = open(&wrong, i % 2 == 0).unwrap();
            match read_all(&table, false) {
                Ok(read) => {
                    let is_before = |a: &Entry, b: &Entry| (&a.0, b.1) < (&b.0, a.1);
                    assert!(read.is_sorted_by(is_before), "keys descend after a flip at {i}");
                }
                Err(e) => {
                    assert_placed(&e);
                    refused += 1;
                }
            }
        }
        at = end;
    }
    assert!(refused > 1000, "{refused} flips were refused");
}

#[test]
fn entries_out_of_order_are_refused() {
    let mut w = TableWriter::new(Box::new(Disk::default()), path(), ID, WriterOptions::default());
    w.add(b"b", Trailer::new(5, Kind::Put), b"").unwrap();
    w.add(b"b", Trailer::new(4, Kind::Put), b"").unwrap();
    for (key, t) in [
        (b"a", Trailer::new(9, Kind::Put)),
        (b"b", Trailer::new(4, Kind::Put)),
        (b"b", Trailer::new(5, Kind::Put)),
        (b"c", Trailer(9 << 8)),
    ] {
        assert_eq!(w.add(key, t, b"").unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    w.add(b"b", Trailer::new(3, Kind::Put), b"").unwrap();
    assert_eq!(w.finish().unwrap().entries, 3);
}

#[test]
fn a_block_is_copied_only_where_its_separator_is_true() {
    let entries: Vec<Entry> = (0..60)
        .map(|i| (format!("k{i:03}").into_bytes(), Trailer::new(1, Kind::Put), vec![7; 100]))
        .collect();
    let options = WriterOptions {
        block_size: 512,
        compression: Compression::None,
        ..WriterOptions::default()
    };
    let copy_all = |bytes: &[u8]| -> Result<Vec<u8>> {
        let table = open(bytes, true)?;
        let disk = Disk::default();
        let mut w = TableWriter::new(Box::new(disk.clone()), path(), ID, options.clone());
        let mut c = table.cursor(false);
        c.first()?;
        while c.valid() {
            if let Some(block) = c.whole_block()
                && w.copy(&block)?
            {
                c.pass_block()?;
            } else {
                w.add(c.key(), c.trailer(), c.value())?;
                c.next()?;
            }
        }
        w.finish()?;
        let bytes = disk.0.lock().unwrap().clone();
        open(&bytes, true)?.verify(None, |_| {})?;
        Ok(bytes)
    };
    let (sound, _) = write(&options, &entries, &Fragments::default());
    assert_eq!(open(&sound, true).unwrap().blocks().nth(2).unwrap().separator, b"k011");
    assert_eq!(read_all(&open(&copy_all(&sound).unwrap(), true).unwrap(), false).unwrap(), entries);
    // Tables with a sorted but wrong index: blocks end before or after their separator.
    for (from, to, what) in [
        (b"\x0211", b"\x0209", "ends behind its separator"),
        (b"\x0211", b"\x0213", "begins before the index says"),
    ] {
        let lying = resealed(sound.clone(), format::BlockKind::Index, |b| {
            let at = b.windows(3).position(|w| w == from).unwrap();
            b[at..at + 3].copy_from_slice(to);
        });
        let e = copy_all(&lying).expect_err("a block with a wrong separator is copied");
        assert!(e.to_string().contains(what), "{e}");
        assert!(e.file().is_some() && e.key_range().is_some(), "{e}");
    }
}

/// A cursor that defers values returns the same entries. It reports an undecodable value when the
/// value is requested; its key is available.
#[test]
fn a_damaged_deferred_value_fails_only_when_requested() {
    let kinds = [Kind::Put, Kind::Delete, Kind::Merge];
    let entries: Vec<Entry> = (0..40u32)
        .map(|i| {
            let mut seed = i;
            let mut byte = |n: u32| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if n % 100 < 60 { (seed >> 24) as u8 } else { 0 }
            };
            let value: Vec<u8> = (0..i * 500).map(&mut byte).collect();
            let key = [vec![b'k'; if i % 9 == 0 { 600 } else { 3 }], i.to_be_bytes().to_vec()];
            (key.concat(), Trailer::new(u64::from(i), kinds[i as usize % 3]), value)
        })
        .collect();
    let (mut sorted, mut damaged) = (entries, 0);
    sorted.sort();
    let (bytes, _) = write(&WriterOptions::default(), &sorted, &Fragments::default());
    let table = open(&bytes, false).unwrap();
    for fill in [false, true] {
        let mut c = table.cursor(fill);
        c.defer_values();
        for backward in [false, true] {
            let walked = if backward {
                sorted.iter().rev().collect()
            } else {
                sorted.iter().collect::<Vec<_>>()
            };
            if backward { c.last() } else { c.first() }.unwrap();
            for (n, (key, trailer, value)) in walked.into_iter().enumerate() {
                assert_eq!((c.key(), c.trailer()), (&key[..], *trailer));
                if n % 3 > 0 {
                    c.complete().unwrap();
                    assert_eq!(c.value(), value);
                    assert_eq!(&c.pin_value()[..], value);
                }
                if backward { c.prev() } else { c.next() }.unwrap();
            }
            assert!(!c.valid());
        }
    }
    // Make the end of each large block undecodable, and recompute its checksum.
    let mut bytes = bytes;
    for b in table.blocks().filter(|b| b.entries == 1 && b.len > 5000 && !b.raw) {
        let (from, to) = (b.offset as usize, b.offset as usize + b.len as usize);
        bytes[to - 200..to].fill(0xff);
        let crc = checksum(ID, b.offset, &[&bytes[from..from + 20], &bytes[from + 24..to]]);
        bytes[from + 20..from + 24].copy_from_slice(&crc.to_le_bytes());
        damaged += 1;
    }
    assert!(damaged > 5);
    let table = open(&bytes, false).unwrap();
    let (mut c, mut wrong) = (table.cursor(true), 0);
    c.defer_values();
    let mut at = 0;
    c.first().unwrap();
    while at < sorted.len() {
        if !c.valid() {
            // Its key is too long for its value to be deferred.
            at += 1;
        } else {
            assert_eq!(c.key(), &sorted[at].0[..]);
            if let Err(e) = c.complete() {
                assert_placed(&e);
                assert!(!c.valid());
                wrong += 1;
            } else {
                assert_eq!(c.value(), &sorted[at].2[..]);
            }
            at += 1;
        }
        let Some((next, ..)) = sorted.get(at) else { break };
        if c.seek(next, Trailer::NEWEST).is_err() {
            wrong += 1;
        }
    }
    assert_eq!(wrong, damaged);
}

/// Returns a table of puts with keys of the given length, and its file. Values have 10,000 bytes,
/// of which half can be compressed away, so each has its own block.
fn large_values(n: u32, key_len: usize, codec: Compression) -> (Arc<Table>, Arc<CountedFile>) {
    let entry = |i: u32| {
        let key = [vec![b'k'; key_len - 4], i.to_be_bytes().to_vec()].concat();
        let some = (0..5000u32).map(|at| key_hash(&(at + i).to_le_bytes()) as u8);
        let value = some.chain([0; 5000]).collect();
        (key, Trailer::new(u64::from(i) + 1, Kind::Put), value)
    };
    let entries: Vec<Entry> = (0..n).map(entry).collect();
    let options = WriterOptions { compression: codec, ..WriterOptions::default() };
    let (bytes, _) = write(&options, &entries, &Fragments::default());
    let file = Arc::new(CountedFile(Bytes { bytes, map: false }, AtomicUsize::new(0)));
    let table = Table::open(file.clone(), path(), ID, Cache::new(16 << 20)).unwrap();
    file.reads();
    (table, file)
}

/// `tests/long_walks.rs` counts how many blocks are cached. Here other tests read at the same time,
/// and some insertions find no memory.
#[test]
fn long_walks_past_a_full_cache_tell_where_a_block_is_damaged() {
    let entry = |i: u32| (i.to_be_bytes().to_vec(), Trailer::new(1, Kind::Put), vec![7; 100]);
    let entries: Vec<Entry> = (0..60_000).map(entry).collect();
    let (bytes, _) = write(&WriterOptions::default(), &entries, &Fragments::default());
    let open = |bytes: Vec<u8>| {
        let cache = Cache::new(256 << 10);
        let file = Arc::new(Bytes { bytes, map: false });
        (Table::open(file, path(), ID, cache.clone()).unwrap(), cache)
    };
    let mut spoiled = bytes.clone();
    let block = open(bytes).0.blocks().nth(1400).unwrap();
    spoiled[block.offset as usize + 40] ^= 1;
    for (fill, keep_all) in [(true, false), (true, true), (false, false)] {
        let (table, cache) = open(spoiled.clone());
        let (mut c, mut seen) = (table.cursor(fill), 0);
        if keep_all {
            c.keep_all();
        }
        c.first().unwrap();
        let e = loop {
            assert!(c.key() == entries[seen].0 && c.value() == entries[seen].2);
            assert!(c.pin_value()[..] == entries[seen].2);
            seen += 1;
            if let Err(e) = c.next() {
                break e;
            }
        };
        assert_placed(&e);
        assert!(e.key_range().is_some(), "{e}");
        assert!(seen > 1400 * 30 && !c.valid());
        let put = cache.usage().inserts;
        match (fill, keep_all) {
            (true, false) => assert!((1..600).contains(&put), "{put}"),
            (true, true) => assert!((1..=1401).contains(&put), "{put}"),
            (false, _) => assert_eq!(put, 0),
        }
    }
}

#[test]
fn a_block_is_read_once_whether_its_value_can_wait_or_not() {
    let mut codecs = vec![Compression::None, Compression::Lz4];
    codecs.extend(cfg!(feature = "zstd").then_some(Compression::Zstd));
    for codec in codecs {
        for (key_len, fill) in [(10, false), (10, true), (600, false), (600, true)] {
            let (table, file) = large_values(4, key_len, codec);
            let mut c = table.cursor(fill);
            c.defer_values();
            c.first().unwrap();
            while c.valid() {
                assert_eq!(file.reads(), 1);
                c.complete().unwrap();
                assert_eq!(c.value().len(), 10_000);
                c.next().unwrap();
            }
        }
    }
}

#[test]
fn a_block_is_copied_as_it_was_read_also_when_its_value_was_wanted() {
    let (table, file) = large_values(4, 10, Compression::Lz4);
    let mut c = table.cursor(false);
    c.defer_values();
    c.first().unwrap();
    for wanted in [false, true, true, false] {
        if wanted {
            c.complete().unwrap();
        }
        let (number, _) = c.place();
        let block = c.whole_block().unwrap();
        let mut decoded = vec![0; block.size()];
        block.decode_into(&mut decoded).unwrap();
        let stored = block.stored(|s| s.to_vec()).unwrap().unwrap();
        assert_eq!(file.reads(), 1);
        assert!(
            stored == decoded && stored == table.place(number).raw(|b| Ok(b.to_vec())).unwrap()
        );
        file.reads();
        c.next().unwrap();
    }
    assert!(!c.valid());
}

/// A block of which only the stub is cached counts as cached if it is skipped, and as read if its
/// value is requested.
#[test]
fn a_block_counts_once_for_each_reader() {
    const BLOCKS: u32 = 2 * SAMPLED;
    let (mut table, file) = large_values(BLOCKS, 10, Compression::None);
    let reads = Arc::new(ReadCounters::default());
    Arc::get_mut(&mut table).unwrap().count_reads(reads.clone());
    let walk = |wants: bool| {
        let mut c = table.cursor(true);
        c.defer_values();
        c.first().unwrap();
        while c.valid() {
            if wants {
                c.complete().unwrap();
            }
            c.next().unwrap();
        }
        drop(c);
        let report = reads.report();
        (report.blocks_read, report.blocks_cached, file.reads())
    };
    let (all, each) = (BLOCKS as usize, u64::from(BLOCKS));
    assert_eq!(walk(false), (each, 0, all));
    assert_eq!(walk(false), (each, each, 0));
    assert_eq!(walk(true), (2 * each, each, all));
    assert_eq!(walk(true), (2 * each, 2 * each, 0));
}

#[test]
fn bounds_and_counts_include_the_tombstones() {
    let (bytes, facts) = write(&WriterOptions::default(), &small(60), &some_tombstones());
    assert_eq!((&facts.first_key[..], &facts.last_key[..]), (&b"a"[..], &b"zzz"[..]));
    assert_eq!((facts.min_seq, facts.max_seq, facts.oldest_tombstone_micros), (3, 2000, Some(5)));
    assert_eq!(facts.range_deletes, some_tombstones().to_tombstones().count() as u64);
    let (entries, tombstones, p) = read_everything(bytes, true).unwrap();
    assert_eq!(entries, small(60));
    assert_eq!(tombstones, some_tombstones());
    assert_eq!(Properties::decode(&p.encode()), Some(p));
    let (bytes, facts) = write(&WriterOptions::default(), &[], &some_tombstones());
    assert_eq!((&facts.first_key[..], facts.entries), (&b"a"[..], 0));
    assert!(read_everything(bytes, false).unwrap().0.is_empty());
    let (bytes, _) = write(&WriterOptions::default(), &[], &Fragments::default());
    assert!(read_everything(bytes, true).unwrap().0.is_empty());
}

#[test]
fn a_key_with_versions_over_many_blocks() {
    let mut entries: Vec<Entry> = vec![(b"a".to_vec(), Trailer::new(1, Kind::Put), vec![0; 300])];
    entries.extend(
        (0..5000u64)
            .rev()
            .map(|s| (b"hot".to_vec(), Trailer::new(s + 1, Kind::Merge), s.to_le_bytes().to_vec())),
    );
    entries.extend(
        (0..5000u64).rev().map(|s| {
            (b"hotter".to_vec(), Trailer::new(s + 1, Kind::Put), s.to_le_bytes().to_vec())
        }),
    );
    let (bytes, _) = write(
        &WriterOptions { block_size: 512, ..WriterOptions::default() },
        &entries,
        &Fragments::default(),
    );
    let table = open(&bytes, true).unwrap();
    table.verify(None, |_| {}).unwrap();
    let guard = epoch::pin();
    for key in [b"hot".as_slice(), b"hotter"] {
        for read in (0..5010u64 as Seq).step_by(7) {
            let hit = table.get(key, None, read, &guard).unwrap();
            assert_eq!(hit.map(|h| h.trailer.seq()), (read > 0).then_some(read.min(5000)));
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_are_no_table(mut bytes in prop::collection::vec(any::<u8>(), 0..300), magic: bool) {
        if magic && bytes.len() >= 12 {
            let at = bytes.len() - 12;
            bytes[at..].copy_from_slice(b"\x01\0\0\0FirnSST\n");
        }
        assert_placed(&open(&bytes, true).err().unwrap());
    }

    #[test]
    fn random_blocks_are_read_without_panic(mut raw in prop::collection::vec(any::<u8>(), 16..400), n in 0u32..20, prefix in 0u16..20, flags in 0u8..16, width in 0u8..10, key: Vec<u8>) {
        raw[..4].copy_from_slice(&n.to_le_bytes());
        raw[4..6].copy_from_slice(&prefix.to_le_bytes());
        raw[6] = flags;
        raw[7] = width;
        if let Some(block) = search::Block::new(&raw) {
            let _ = block.validate();
            for i in 0..block.len() {
                let e = block.entry(i);
                prop_assert!(e.value_range().len() == e.value.len());
                let mut out = vec![];
                block.key_into(i, &mut out);
            }
            prop_assert!(block.seek(&key, Trailer::NEWEST).0 <= block.len());
        }
    }
}

/// Blocks that zstd shrinks more than 255-fold are stored as LZ4, whose maximum ratio readers know.
#[cfg(feature = "zstd")]
#[test]
fn no_block_is_larger_than_its_stored_bytes_let_expect() {
    let options = WriterOptions { compression: Compression::Zstd, ..WriterOptions::default() };
    let put = |i: u8, value: Vec<u8>| (vec![i], Trailer::new(5, Kind::Put), value);
    let mixed = (0..4000u32).flat_map(|i| (i * i % 251).to_le_bytes()).collect();
    let entries = [put(1, vec![0; 1 << 20]), put(2, mixed)];
    let (bytes, _) = write(&options, &entries, &Fragments::default());
    let table = open(&bytes, false).unwrap();
    let codec =
        |b: BlockInfo| format::BlockHeader::read(&bytes[b.offset as usize..]).unwrap().codec;
    let codecs: Vec<_> = table.blocks().map(codec).collect();
    assert_eq!(codecs, [Compression::Lz4, Compression::Zstd]);
    assert_eq!(read_all(&table, true).unwrap(), entries);
}

/// Replaces the header of the block at `at`, with a valid checksum.
fn forge(bytes: &[u8], at: u64, len: u32, codec: Option<u8>, raw_len: u64) -> Vec<u8> {
    let mut forged = bytes.to_vec();
    let block = &mut forged[at as usize..][..len as usize];
    block[5] = codec.unwrap_or(block[5]);
    block[12..16].copy_from_slice(&u32::try_from(raw_len).unwrap().to_le_bytes());
    let crc = checksum(ID, at, &[&block[..20], &block[24..]]);
    block[20..24].copy_from_slice(&crc.to_le_bytes());
    forged
}

/// Readers do not trust a length that only the header of a block declares. This holds for the parts
/// that are read when a table is opened, and for its data.
#[test]
fn a_raw_length_that_the_stored_bytes_do_not_have_is_refused_before_it_is_allocated() {
    let codecs = codecs().into_iter().filter(|&c| c != Compression::None);
    for compression in codecs {
        let options = WriterOptions { compression, block_size: 64, ..WriterOptions::default() };
        let key = |i: u64| [vec![b'k'; 2000], i.to_be_bytes().to_vec()].concat();
        let entries: Vec<Entry> =
            (0..3000).map(|i| (key(i * i), Trailer::new(5, Kind::Put), vec![b'v'; 100])).collect();
        let (bytes, _) = write(&options, &entries, &some_tombstones());
        let at = bytes.len() - format::FOOTER;
        let footer = format::Footer::decode(bytes[at..].try_into().unwrap(), path(), ID, at as u64);
        let f = footer.unwrap();
        let parts = [
            (f.data_len, f.filter_len),
            (f.tombstones_at(), f.tombstones_len),
            (f.index_at(), f.index_len),
            (f.properties_at(), f.properties_len),
        ];
        for (at, len) in parts {
            let header = format::BlockHeader::read(&bytes[at as usize..]).unwrap();
            let most = 255 * header.stored_len as u64;
            for (codec, raw) in [
                (None, header.raw_len as u64 + 1),
                (Some(compression as u8), most),
                (Some(compression as u8), most + 1),
                (Some(compression as u8), u32::MAX.into()),
            ] {
                let e = open(&forge(&bytes, at, len, codec, raw), false).unwrap_err();
                assert_eq!(
                    e.kind(),
                    ErrorKind::Corruption,
                    "{compression:?} {header:?} {raw}: {e}"
                );
            }
        }
        // The maximum index, in a file that is large enough for it.
        let stored = vec![0x5a; format::MAX_BLOCK / 255 + 1];
        let block =
            format::StoredBlock { raw_len: format::MAX_BLOCK, codec: compression, bytes: &stored };
        let e = block.to_vec().unwrap_err();
        assert!(e.contains("another length than its header says"), "{e}");
        // Data blocks, which are decoded into frames of the cache.
        let len = open(&bytes, false).unwrap().blocks().next().unwrap().len;
        let forged = forge(&bytes, 0, len as u32, None, (255 * (len - 24)) as u64);
        let e = read_all(&open(&forged, false).unwrap(), true).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    }
}

/// A Zstandard frame must declare its length; one without it is damaged.
#[cfg(feature = "zstd")]
#[test]
fn a_frame_without_its_length_is_refused() {
    use ::zstd::zstd_safe::{CCtx, CParameter};
    let raw = vec![7; 1000];
    for states in [true, false] {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::ContentSizeFlag(states)).unwrap();
        let mut bytes = Vec::with_capacity(1000);
        context.compress2(&mut bytes, &raw).unwrap();
        let block = format::StoredBlock { raw_len: 1000, codec: Compression::Zstd, bytes: &bytes };
        assert_eq!(block.to_vec().ok(), states.then_some(raw.clone()));
    }
}

/// A build without zstd reports that it lacks zstd, and reports no damage.
#[cfg(not(feature = "zstd"))]
#[test]
fn without_zstd_it_is_refused() {
    use crate::base::options::TreeOptions;
    let options = TreeOptions { compression: vec![Compression::Zstd], ..TreeOptions::default() };
    let e = options.check().unwrap_err();
    assert!(e.kind() == ErrorKind::Incompatible && e.to_string().contains("zstd"), "{e}");
}
