//! A blob file with arbitrary bytes, unchanged or with valid checksums, and arbitrary blob handles
//! for it.
#![no_main]

use std::path::Path;

use firn_fuzz::{probe, seal_table};
use firn_kv::internals::base::blob_ref::BlobHandle;
use firn_kv::internals::counters::reads::ReadCounters;
use firn_kv::internals::sstable::values::blob_block;
use firn_kv::internals::sstable::{BlobFile, Maps};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [how, len, rest @ ..] = input else { return };
    let (reference, rest) = rest.split_at((*len as usize).min(rest.len()));
    let _ = blob_block(rest);
    let mut file = rest.to_vec();
    if how & 1 != 0 {
        seal_table(&mut file, 1);
    }
    let (file, cache) = probe::file(file, how & 2 != 0);
    let Ok(values) = BlobFile::open(file, Path::new("/t"), 1, cache, Maps::new(how & 4 != 0))
    else {
        return;
    };
    let reads = ReadCounters::default();
    let blocks = (0..4u32).map(|i| BlobHandle {
        file: 1,
        number: i,
        offset: u64::from(i) * u64::from(*len),
        stored: u32::from(*len) + 24,
        len: u32::from(*how),
    });
    for r in BlobHandle::decode(reference).into_iter().chain(blocks) {
        let mut copy = vec![];
        let got = values.get(&r, &reads, None).map(|v| v.to_vec());
        if let (Ok(got), Ok(())) = (&got, values.read_into(&r, &mut copy)) {
            assert_eq!(*got, copy);
            assert_eq!(got.len(), r.len as usize);
        }
        let _ = values.verify(&r, b"a");
    }
    assert!(values.memory() > 0);
});
