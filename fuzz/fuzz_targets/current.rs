//! `CURRENT` with arbitrary bytes, and with arbitrary lines and a valid checksum.
#![no_main]

use std::path::Path;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::internals::manifest::{CURRENT, Manifest, manifest_name, manifest_number};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (env, dir) = (MemEnv::new(0), Path::new("/db"));
    if env.create_dir_all(dir).is_err() {
        return;
    }
    let text = String::from_utf8_lossy(input);
    if let Some(n) = manifest_number(&text) {
        assert_eq!(manifest_name(n), text);
    }
    for bytes in [input.to_vec(), firn_fuzz::current_of(&text).into_bytes()] {
        let _ = env.write_file(&dir.join(CURRENT), &bytes);
        assert!(Manifest::load(&env, dir).is_err(), "no manifest is there");
    }
});
