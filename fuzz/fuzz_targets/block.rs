//! A decoded data block with arbitrary bytes.
#![no_main]

use firn_fuzz::{block_of, footer_of, probe};
use firn_kv::internals::base::key::MAX_KEY_LEN;
use firn_kv::internals::sstable::block_entries;
use firn_kv::internals::util::coding::put_varint;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|block: &[u8]| {
    let Ok(entries) = block_entries(block) else { return };
    let entries: Vec<_> = entries.map(|(k, t, v)| (k, t, v.to_vec())).collect();
    assert!(entries.iter().all(|e| e.0.len() <= MAX_KEY_LEN && e.1.kind().is_some()));
    // The same block as the only one of a table.
    let mut file = block_of(1, 0, 1, 0, block.len() as u32, block);
    let data_len = file.len() as u64;
    let mut index = vec![1, 0];
    let last = entries.last().map_or(&[][..], |e| &e.0);
    put_varint(&mut index, last.len() as u64);
    index.extend_from_slice(last);
    put_varint(&mut index, data_len);
    put_varint(&mut index, entries.len() as u64);
    index.push(8 | (block[6] >> 1 & 1));
    let at = file.len() as u64;
    file.extend(block_of(1, at, 2, 0, index.len() as u32, &index));
    let at = file.len() as u64;
    file.extend(block_of(1, at, 5, 0, 0, &[]));
    let footer =
        footer_of(1, file.len() as u64, data_len, [0, 0, index.len() as u32 + 24, 24], &[0; 16]);
    file.extend_from_slice(&footer);
    for mapped in [false, true] {
        let t = probe::open(file.clone(), 1, mapped).expect("a table with a sound block");
        let mut keys: Vec<&[u8]> =
            entries.iter().step_by(7).take(16).map(|e| e.0.as_slice()).collect();
        keys.extend([&b""[..], b"\xff\xff", &block[..8]]);
        probe::interrogate(&t, &keys);
    }
});
