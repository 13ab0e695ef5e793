//! A table assembled from blocks with arbitrary contents: data, index, filter, tombstones,
//! properties, each with a valid checksum.
#![no_main]

use arbitrary::Arbitrary;
use firn_fuzz::{block_of, footer_of, probe};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Part<'a> {
    lz4: Option<u16>,
    bytes: &'a [u8],
}

#[derive(Arbitrary, Debug)]
struct Row<'a> {
    separator: &'a [u8],
    entries: u8,
    flags: u8,
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    id: u8,
    mapped: bool,
    data: Vec<(Part<'a>, Row<'a>)>,
    /// Instead of an index of the rows.
    index: Option<Part<'a>>,
    filter: Option<Part<'a>>,
    tombstones: Option<Part<'a>>,
    properties: Option<Part<'a>>,
    probes: Vec<&'a [u8]>,
}

fn add(file: &mut Vec<u8>, id: u64, kind: u8, part: &Part<'_>) -> u32 {
    let at = file.len() as u64;
    let (codec, raw_len) = part.lz4.map_or((0, part.bytes.len() as u32), |n| (1, n as u32));
    file.extend(block_of(id, at, kind, codec, raw_len, part.bytes));
    part.bytes.len() as u32 + 24
}

fuzz_target!(|input: Input<'_>| {
    let (id, mut file, mut index) = (input.id as u64, vec![], vec![]);
    let put = firn_kv::internals::util::coding::put_varint;
    put(&mut index, input.data.len() as u64);
    put(&mut index, 0);
    for (part, row) in &input.data {
        let len = add(&mut file, id, 1, part);
        put(&mut index, row.separator.len() as u64);
        index.extend_from_slice(row.separator);
        put(&mut index, len as u64);
        put(&mut index, row.entries as u64);
        index.push(row.flags & 15);
    }
    let data_len = file.len() as u64;
    let filter = input.filter.as_ref().map_or(0, |p| add(&mut file, id, 3, p));
    let tombstones = input.tombstones.as_ref().map_or(0, |p| add(&mut file, id, 4, p));
    let own = Part { lz4: None, bytes: &index };
    let index = add(&mut file, id, 2, input.index.as_ref().unwrap_or(&own));
    let properties =
        add(&mut file, id, 5, input.properties.as_ref().unwrap_or(&Part { lz4: None, bytes: &[] }));
    let footer = footer_of(
        id,
        file.len() as u64,
        data_len,
        [filter, tombstones, index, properties],
        &[0; 16],
    );
    file.extend_from_slice(&footer);
    if let Ok(t) = probe::open(file, id, input.mapped) {
        let mut probes = input.probes;
        probes.truncate(8);
        probes.extend([&b""[..], b"\xff"]);
        probe::interrogate(&t, &probes);
    }
});
