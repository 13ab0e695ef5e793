//! A compressed block with a wrong length.
#![no_main]

use firn_fuzz::block_of;
use firn_kv::internals::sstable::format::{BlockHeader, BlockKind, StoredBlock};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, bool, bool, &[u8])| {
    let (raw_len, near, zstd, bytes) = input;
    let raw_len = if near { raw_len % (bytes.len() as u32 * 255 + 2) } else { raw_len };
    let block = block_of(3, 9, 1, 1 + u8::from(zstd), raw_len, bytes);
    let Ok(header) = BlockHeader::read(&block) else { return };
    assert!(header.raw_len <= bytes.len() * 255);
    let stored = StoredBlock::check(&block, BlockKind::Data, 3, 9).expect("sealed");
    assert!(
        StoredBlock::check(&block, BlockKind::Data, 3, 10).is_err()
            && StoredBlock::check(&block, BlockKind::Index, 3, 9).is_err()
    );
    if let Ok(raw) = stored.to_vec() {
        assert_eq!(raw.len(), raw_len as usize);
    }
});
