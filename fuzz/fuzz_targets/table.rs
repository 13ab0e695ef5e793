//! A table file with arbitrary bytes, unchanged or with valid checksums.
#![no_main]

use firn_fuzz::{probe, seal_table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [how, rest @ ..] = input else { return };
    let mut file = rest.to_vec();
    if how & 1 != 0 {
        seal_table(&mut file, 1);
    }
    if let Ok(t) = probe::open(file, 1, how & 2 != 0) {
        probe::interrogate(&t, &[b"", b"a", &rest[..rest.len().min(9)], b"\xff\xff"]);
    }
});
