//! A table written from arbitrary entries: it must return them. Then bytes are changed, with new
//! checksums.
#![no_main]

use arbitrary::Arbitrary;
use firn_fuzz::{Sink, nowhere, probe, seal_table};
use firn_kv::internals::base::key::{Kind, MAX_SEQ, Trailer, compare};
use firn_kv::internals::range_del::tombstone::{Fragments, RangeTombstone};
use firn_kv::internals::sstable::{TableWriter, WriterOptions};
use firn_kv::{Compression, FilterKind};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    block: u8,
    raw: bool,
    filter: u8,
    mapped: bool,
    prefix: &'a [u8],
    entries: Vec<(&'a [u8], u32, u8, u16, u8)>,
    high: bool,
    deletions: Vec<(&'a [u8], &'a [u8], u8)>,
    changes: Vec<(u16, u8)>,
    seal: bool,
    probes: Vec<&'a [u8]>,
}

fuzz_target!(|input: Input<'_>| {
    let base = if input.high { MAX_SEQ - u32::MAX as u64 } else { 0 };
    let mut entries: Vec<(Vec<u8>, Trailer, Vec<u8>)> = vec![];
    for &(key, seq, kind, len, fill) in input.entries.iter().take(300) {
        let kind = [Kind::Put, Kind::Put, Kind::Delete, Kind::Merge][kind as usize % 4];
        let len = if kind == Kind::Delete {
            0
        } else {
            len as usize % if len & 0x8000 == 0 { 20 } else { 3000 }
        };
        entries.push((
            [input.prefix, key].concat(),
            Trailer::new(base + seq as u64, kind),
            vec![fill; len],
        ));
    }
    entries.sort_by(|a, b| compare(&a.0, a.1, &b.0, b.1));
    entries.dedup_by(|a, b| a.0 == b.0 && a.1.seq() == b.1.seq());
    let options = WriterOptions {
        block_size: 512 + input.block as usize * 16,
        compression: match (input.raw, input.block % 2) {
            (true, _) => Compression::None,
            (false, 0) => Compression::Lz4,
            (false, _) => Compression::Zstd,
        },
        filter: [FilterKind::None, FilterKind::Fuse8, FilterKind::Fuse16]
            [input.filter as usize % 3],
        ..WriterOptions::default()
    };
    let sink = Sink::default();
    let mut w = TableWriter::new(Box::new(sink.clone()), nowhere(), 1, options);
    for (key, trailer, value) in &entries {
        w.add(key, *trailer, value).expect("entries in order");
    }
    let deletions = input.deletions.iter().take(30);
    let tombstones = deletions
        .map(|&(s, e, seq)| RangeTombstone { start: s.to_vec(), end: e.to_vec(), seq: seq as u64 })
        .collect();
    let fragments = Fragments::build(tombstones);
    w.set_tombstones(&fragments, None);
    let facts = w.finish().expect("a table");
    let mut file = sink.content();
    assert_eq!((facts.size, facts.entries), (file.len() as u64, entries.len() as u64));
    let t = probe::open(file.clone(), 1, input.mapped).expect("a table");
    let mut probes = input.probes;
    probes.truncate(8);
    let own: Vec<Vec<u8>> = probes.iter().map(|p| [input.prefix, p].concat()).collect();
    probes.extend(own.iter().map(|k| k.as_slice()));
    probes.extend(entries.iter().take(20).map(|e| e.0.as_slice()));
    t.verify(None, |_| ()).expect("a sound table");
    assert_eq!(probe::interrogate(&t, &probes).expect("a sound table"), entries);
    assert_eq!(**t.tombstones(), fragments);
    if input.changes.is_empty() {
        return;
    }
    for &(at, bits) in &input.changes {
        let at = at as usize % file.len();
        file[at] ^= bits;
    }
    if input.seal {
        seal_table(&mut file, 1);
    }
    if let Ok(t) = probe::open(file, 1, input.mapped) {
        probe::interrogate(&t, &probes);
    }
});
