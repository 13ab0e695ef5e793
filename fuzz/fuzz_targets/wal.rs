//! A directory with one to three WAL segments of arbitrary bytes, with or without valid checksums:
//! recovery and the scan of the tools.
#![no_main]

use std::path::Path;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::internals::base::ops::OpReader;
use firn_kv::internals::wal::{LogItem, SegmentReader, recover, segment_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [how, from @ .., _, _] = input else { return };
    let (Some(&from), Some(rest)) = (from.first(), input.get(2..)) else { return };
    let (env, dir) = (MemEnv::new(0), Path::new("/db"));
    let segments = 1 + (how & 1) as usize + (how >> 1 & 1) as usize;
    if env.create_dir_all(dir).is_err() {
        return;
    }
    for (i, part) in rest.chunks(rest.len().div_ceil(segments).max(1)).enumerate() {
        let number = 1 + i as u64;
        let mut bytes = part.to_vec();
        if how & 4 != 0 {
            firn_fuzz::seal_segment(&mut bytes, number);
        }
        let _ = env.write_file(&dir.join(segment_name(number)), &bytes);
        walk(&env, dir, number, part.len() as u64);
    }
    let from = if how & 8 != 0 { u64::MAX - from as u64 } else { from as u64 * 8 };
    let go = || {
        let mut seen = vec![];
        let done = recover(&env, dir, from, &mut |seq, end, payload| {
            assert!(seen.last().is_none_or(|&(_, e)| e < end));
            OpReader::new(payload).count();
            seen.push((seq, end));
            Ok(())
        });
        if let Ok(r) = &done {
            assert!(
                r.end >= from
                    && seen.last().is_none_or(|s| s.1 <= r.end)
                    && r.records == seen.len() as u64
            );
        }
        (seen, done.map_err(|e| e.to_string()))
    };
    assert_eq!(go(), go());
});

fn walk(env: &MemEnv, dir: &Path, number: u64, len: u64) {
    let Ok(mut r) = SegmentReader::open(env, dir, number) else { return };
    let mut at = 0;
    while let Ok(Some(item)) = r.next() {
        let (offset, size) = match item {
            LogItem::Record(r) => (r.offset, r.size.min(len - r.offset)),
            LogItem::Damage(d) => (d.offset, d.len),
        };
        assert!(offset >= at && size > 0 && offset + size <= len);
        at = offset + size;
    }
}
