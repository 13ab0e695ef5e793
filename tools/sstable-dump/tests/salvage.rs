//! Salvage of damaged tables: each block destroyed, the footer, the index, the file truncated
//! anywhere, a run of zeros, two files' blocks swapped. The saved entries must be a part of the
//! original ones, and the reported losses the rest. Then the same for a store of two tables.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly

use super::support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use firn_kv::Db;
use firn_kv::internals::sstable::format::FOOTER;
use firn_kv::internals::util::checksum::checksum;
use serde_json::Value;
use support::{Room, arg, content, dump, options, table, tree_options};

/// Returns the entries of a table, as lines.
fn entries(path: &Path) -> Vec<String> {
    let (text, code) = dump(&["scan", &arg(path), "--all-versions", "--json"]);
    assert_eq!(code, 0, "{text}");
    text.lines().filter(|l| l.starts_with("{\"key\"")).map(str::to_owned).collect()
}

fn blocks(path: &Path) -> Vec<Value> {
    let (text, _) = dump(&["layout", &arg(path), "--json"]);
    let v: Value = serde_json::from_str(&text).unwrap();
    v["parts"].as_array().unwrap().clone()
}

/// Salvages and compares the report with the truth. Returns the report and the saved entries.
fn salvage(room: &Room, damaged: &[u8], truth: &[String]) -> (Value, Vec<String>) {
    let (bad, good) = (room.path("bad/00000001.sst"), room.path("good/00000001.sst"));
    fs::create_dir_all(bad.parent().unwrap()).unwrap();
    fs::create_dir_all(good.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&good);
    fs::write(&bad, damaged).unwrap();
    let (text, code) = dump(&["salvage", &arg(&bad), "--out", &arg(&good), "--json"]);
    let v: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let losses = v["losses"].as_array().unwrap();
    assert_eq!(code, i32::from(!losses.is_empty()), "{text}");
    let saved = if v["to"].is_null() { vec![] } else { entries(&good) };
    assert_eq!(v["entries"].as_u64().unwrap(), saved.len() as u64);
    let (have, all): (BTreeSet<&String>, BTreeSet<&String>) =
        (saved.iter().collect(), truth.iter().collect());
    assert!(have.is_subset(&all), "something was made up");
    let gone: Vec<&&String> = all.difference(&have).collect();
    let data: Vec<&Value> = losses.iter().filter(|l| l["what"] == "data").collect();
    match gone.is_empty() {
        true => assert!(data.iter().all(|l| l["entries"] == 0 || l["entries"].is_null()), "{text}"),
        false => assert!(!data.is_empty(), "{gone:?} {text}"),
    }
    let told: Option<u64> = data.iter().map(|l| l["entries"].as_u64()).sum();
    if let Some(told) = told {
        assert_eq!(told, gone.len() as u64, "{text}");
    }
    for line in gone {
        let entry: Value = serde_json::from_str(line).unwrap();
        let key = entry["key"].as_str().unwrap();
        let within = |l: &&Value| match l["keys"].as_array() {
            Some(k) => k[0].as_str().unwrap() <= key && key <= k[1].as_str().unwrap(),
            None => true,
        };
        assert!(data.iter().any(within), "{key} is lost, and no loss covers it: {text}");
    }
    if !v["to"].is_null() {
        assert_eq!(dump(&["check", &arg(&good)]).1, 0);
    }
    (v, saved)
}

#[test]
fn nothing_is_lost_of_a_sound_table() {
    let room = Room::new("sound");
    let path = room.path("00000001.sst");
    table(&path, 100, 512);
    let (v, saved) = salvage(&room, &fs::read(&path).unwrap(), &entries(&path));
    assert_eq!((v["losses"].as_array().unwrap().len(), saved.len()), (0, 114));
    let (mut was, mut is) =
        (fs::read(&path).unwrap(), fs::read(room.path("good/00000001.sst")).unwrap());
    // The new file is another table: its own number differs, and with it the footer's checksum.
    for table in [&mut was, &mut is] {
        let footer = table.len() - FOOTER;
        table[footer + 48..footer + 60].fill(0);
    }
    assert_eq!(was, is, "a sound table is written again as it was");
}

#[test]
fn each_block_destroyed() {
    let room = Room::new("blocks");
    let path = room.path("00000001.sst");
    table(&path, 100, 512);
    let (bytes, truth) = (fs::read(&path).unwrap(), entries(&path));
    let blocks = blocks(&path);
    assert!(blocks.len() > 8);
    for b in &blocks {
        let (at, len) =
            (b["offset"].as_u64().unwrap() as usize, b["len"].as_u64().unwrap() as usize);
        // Damages its content, its header, or all of it.
        for (from, to) in [(at + len / 2, at + len / 2 + 1), (at, at + 8), (at, at + len)] {
            let mut bad = bytes.clone();
            bad[from..to].iter_mut().for_each(|x| *x ^= 0x5a);
            let (v, saved) = salvage(&room, &bad, &truth);
            let lost = if b["what"] == "data" { b["entries"].as_u64().unwrap() } else { 0 };
            assert_eq!(saved.len() as u64 + lost, truth.len() as u64, "{b} {v}");
            let range_lost =
                v["losses"].as_array().unwrap().iter().any(|l| l["what"] == "tombstones");
            assert_eq!(range_lost, b["what"] == "tombstones", "{v}");
            assert_eq!(dump(&["check", &arg(&room.path("bad/00000001.sst"))]).1, 1);
        }
    }
}

#[test]
fn any_two_blocks_destroyed() {
    let room = Room::new("pairs");
    let path = room.path("00000001.sst");
    table(&path, 60, 512);
    let (bytes, truth) = (fs::read(&path).unwrap(), entries(&path));
    let blocks = blocks(&path);
    for (i, a) in blocks.iter().enumerate() {
        for b in &blocks[i + 1..] {
            let mut bad = bytes.clone();
            for x in [a, b] {
                let (at, len) =
                    (x["offset"].as_u64().unwrap() as usize, x["len"].as_u64().unwrap() as usize);
                bad[at..at + len].fill(0);
            }
            salvage(&room, &bad, &truth);
        }
    }
}

#[test]
fn cut_off_anywhere() {
    let room = Room::new("cut");
    let path = room.path("00000001.sst");
    table(&path, 40, 512);
    let (bytes, truth) = (fs::read(&path).unwrap(), entries(&path));
    let blocks = blocks(&path);
    for len in 0..bytes.len() {
        let (_, saved) = salvage(&room, &bytes[..len], &truth);
        // Every complete block is saved.
        let whole: u64 = blocks
            .iter()
            .filter(|b| {
                b["what"] == "data"
                    && b["offset"].as_u64().unwrap() + b["len"].as_u64().unwrap() <= len as u64
            })
            .map(|b| b["entries"].as_u64().unwrap())
            .sum();
        assert_eq!(saved.len() as u64, whole, "cut at {len}");
    }
}

#[test]
fn runs_of_zeros() {
    let room = Room::new("zeros");
    let path = room.path("00000001.sst");
    table(&path, 60, 512);
    let (bytes, truth) = (fs::read(&path).unwrap(), entries(&path));
    for len in [1, 16, 512, 1500] {
        for at in (0..bytes.len() - len).step_by(307) {
            let mut bad = bytes.clone();
            bad[at..at + len].fill(0);
            salvage(&room, &bad, &truth);
        }
    }
}

#[test]
fn blocks_of_two_files_swapped() {
    let room = Room::new("swap");
    let (path, other) = (room.path("00000001.sst"), room.path("00000002.sst"));
    table(&path, 60, 512);
    table(&other, 60, 512);
    let (a, b, truth) = (fs::read(&path).unwrap(), fs::read(&other).unwrap(), entries(&path));
    let of =
        |b: &Value| (b["offset"].as_u64().unwrap() as usize, b["len"].as_u64().unwrap() as usize);
    let blocks = blocks(&path);
    let mut swapped = 0;
    for x in blocks.iter().filter(|x| x["what"] == "data").map(of) {
        // Another file's block in the same place, and this file's own blocks in other places.
        let mut bad = a.clone();
        bad[x.0..x.0 + x.1].copy_from_slice(&b[x.0..x.0 + x.1]);
        let (_, saved) = salvage(&room, &bad, &truth);
        assert!(saved.len() < truth.len());
        for y in blocks.iter().map(of).filter(|y| y.1 == x.1 && y.0 > x.0) {
            let mut bad = a.clone();
            bad[x.0..x.0 + x.1].copy_from_slice(&a[y.0..y.0 + y.1]);
            bad[y.0..y.0 + y.1].copy_from_slice(&a[x.0..x.0 + x.1]);
            salvage(&room, &bad, &truth);
            swapped += 1;
        }
    }
    assert!(swapped > 0, "no two blocks are of one length");
}

/// Creates a store of two trees with one table each; returns the first tree's table.
fn two_tables(dir: &Path) -> PathBuf {
    let db = Db::open_with(dir, options()).unwrap();
    for name in ["a", "b"] {
        let tree = db.tree(name, tree_options()).unwrap();
        (0..40).for_each(|i| tree.put(format!("{name}{i:03}"), format!("value {i}")).unwrap());
        tree.flush().unwrap();
    }
    drop(db);
    let mut all: Vec<_> = fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "sst"));
    all.sort();
    assert_eq!(all.len(), 2);
    all.remove(0)
}

#[test]
fn no_bit_of_a_footer_costs_another_table() {
    let room = Room::new("footer-bits");
    let (dir, new) = (room.path("s"), room.path("new"));
    let table = two_tables(&dir);
    let truth = content(&dir);
    let sound = fs::read(&table).unwrap();
    let footer = sound.len() - FOOTER;
    let try_one = |bit: usize, command: &[&str]| {
        let mut bad = sound.clone();
        bad[footer + bit / 8] ^= 1 << (bit % 8);
        fs::write(&table, bad).unwrap();
        let (dir, new) = (arg(&dir), arg(&new));
        let (text, code) = dump(&[&command[..1], &[&dir, "--out", &new], &command[1..]].concat());
        assert!(code < 2, "bit {bit}, {command:?}: {text}");
        let saved = content(Path::new(&new));
        // The blocks are sound, so nothing is lost with the footer.
        assert_eq!(saved, truth, "bit {bit}, {command:?}: {text}");
        fs::remove_dir_all(&new).unwrap();
    };
    (0..FOOTER * 8).for_each(|bit| try_one(bit, &["salvage"]));
    let version = 60 * 8..64 * 8;
    for bit in version.clone() {
        try_one(bit, &["repair"]);
        try_one(bit, &["repair", "--without-manifest"]);
    }
    for bit in version {
        let mut bad = sound.clone();
        bad[footer + bit / 8] ^= 1 << (bit % 8);
        fs::write(&table, bad).unwrap();
        let (text, code) = dump(&["check", &arg(&dir)]);
        assert!(code == 1 && text.contains("damaged:") && !text.contains("newer"), "{text}");
    }
}

#[test]
fn a_table_of_a_newer_version_is_not_damaged() {
    let room = Room::new("newer");
    let (dir, new) = (room.path("s"), room.path("new"));
    let table = two_tables(&dir);
    let mut bytes = fs::read(&table).unwrap();
    let at = bytes.len() - FOOTER;
    bytes[at + 60] = 2;
    let id = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let crc = checksum(id, at as u64, &[&bytes[at..at + 56], &bytes[at + 60..]]);
    bytes[at + 56..at + 60].copy_from_slice(&crc.to_le_bytes());
    fs::write(&table, bytes).unwrap();
    let (text, code) = dump(&["check", &arg(&dir)]);
    assert!(code == 1 && text.contains("newer:") && !text.contains("damaged"), "{text}");
    for command in ["salvage", "repair"] {
        let (text, code) = dump(&[command, &arg(&dir), "--out", &arg(&new)]);
        assert!(code == 2 && text.contains("of a newer version"), "{text}");
        assert!(!new.exists(), "half a store is left");
    }
}
