//! No input makes a command panic, loop or take more memory than it may: random bytes, and real
//! files with random damage.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly

use super::support;

use std::fs;
use std::path::Path;

use firn_kv::Db;
use proptest::prelude::*;
use support::{Room, arg, copy, dump, options, table, tree_options};

/// Runs every command that reads a file.
fn all(path: &Path, room: &Room) {
    let p = arg(path);
    let out = room.path("out");
    let _ = fs::remove_dir_all(&out);
    let name = path.file_name().unwrap().to_str().unwrap();
    fs::create_dir_all(&out).unwrap();
    let saved = arg(&out.join(name));
    let commands: &[&[&str]] = &[
        &["layout", &p, "--blocks"],
        &["layout", &p, "--json"],
        &["props", &p],
        &["scan", &p, "--all-versions"],
        &["scan", &p, "--reverse", "--json"],
        &["check", &p],
        &["space", &p],
        &["filters", &p, "--probes", "100"],
        &["recompress", &p, "--blocks", "512"],
        &["manifest", &p],
        &["wal", &p, "--ops"],
        &["salvage", &p, "--out", &saved],
        &["from-json", &p, "--out", &arg(&out.join("00000009.sst"))],
    ];
    for c in commands {
        let (text, code) = dump(c);
        assert!((0..=2).contains(&code), "{text}");
    }
}

/// Runs every command that reads a store.
fn all_of_store(dir: &Path, room: &Room) {
    let p = arg(dir);
    let out = room.path("new");
    let commands: &[&[&str]] = &[
        &["check", &p],
        &["manifest", &p],
        &["wal", &p, "--records"],
        &["find", &p, "key00001"],
        &["space", &p],
        &["filters", &p, "--probes", "10"],
        &["salvage", &p, "--out", &arg(&out)],
        &["repair", &p, "--out", &arg(&out)],
        &["repair", &p, "--without-manifest", "--out", &arg(&out)],
    ];
    for c in commands {
        let _ = fs::remove_dir_all(&out);
        let (text, code) = dump(c);
        assert!((0..=2).contains(&code), "{text}");
        assert!(!text.contains("the new store is not sound"), "{c:?}: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600), kind in 0..3usize, magic: bool) {
        let room = Room::new("random");
        let name = ["00000001.sst", "00000001.wal", "MANIFEST-000001"][kind];
        let mut bytes = bytes;
        if magic && bytes.len() > 70 {
            let n = bytes.len();
            match kind {
                0 => {
                    bytes[..8].copy_from_slice(b"FnB1\x01\0\0\0");
                    bytes[n - 12..].copy_from_slice(b"\x01\0\0\0FirnSST\n");
                }
                1 => bytes[..8].copy_from_slice(b"FIRNWAL\n"),
                _ => bytes[..8].copy_from_slice(b"FIRNMAN\n"),
            }
        }
        let path = room.path(name);
        fs::write(&path, bytes).unwrap();
        all(&path, &room);
    }

    #[test]
    fn damaged_tables(at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in 0usize..40) {
        let room = Room::new("mutant");
        let path = room.path("00000001.sst");
        table(&path, 30, 512);
        let mut bytes = fs::read(&path).unwrap();
        for (i, x) in at {
            let i = i.index(bytes.len());
            bytes[i] ^= x;
        }
        bytes.truncate(bytes.len() - cut.saturating_sub(20));
        fs::write(&path, bytes).unwrap();
        all(&path, &room);
    }

    #[test]
    fn damaged_stores(at in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..6), cut: bool) {
        let room = Room::new("mutants");
        let (dir, bad) = (room.path("s"), room.path("bad"));
        make_store(&dir);
        copy(&dir, &bad);
        let mut names: Vec<_> = fs::read_dir(&bad).unwrap().map(|f| f.unwrap().path()).collect();
        names.sort();
        for (file, i, x) in at {
            let path = &names[file.index(names.len())];
            let mut bytes = fs::read(path).unwrap();
            if bytes.is_empty() {
                continue;
            }
            let i = i.index(bytes.len());
            if cut && x % 4 == 0 {
                bytes.truncate(i);
            } else {
                bytes[i] ^= x;
            }
            fs::write(path, bytes).unwrap();
        }
        all_of_store(&bad, &room);
    }
}

fn make_store(dir: &Path) {
    let db = Db::open_with(dir, options()).unwrap();
    let t = db.tree("t", tree_options()).unwrap();
    for round in 0..4u32 {
        for i in 0..30u32 {
            t.put(
                format!("key{:05}", i * 7 % 31).as_bytes(),
                format!("value {round} {i}").as_bytes(),
            )
            .unwrap();
        }
        t.delete(b"key00003").unwrap();
        t.delete_range("key00010".."key00012").unwrap();
        if round < 3 {
            t.flush().unwrap();
        }
    }
}

/// Nothing is allocated for a size that a file only claims.
#[test]
fn claims_of_size_are_not_believed() {
    let room = Room::new("claims");
    let path = room.path("00000001.sst");
    let mut block = b"FnB1\x02\x01\0\0".to_vec();
    block.extend_from_slice(&40u32.to_le_bytes());
    block.extend_from_slice(&u32::MAX.to_le_bytes());
    block.extend_from_slice(&[0; 60]);
    fs::write(&path, block.repeat(50)).unwrap();
    all(&path, &room);
    assert_eq!(dump(&["check", &arg(&path)]).1, 1);
}
