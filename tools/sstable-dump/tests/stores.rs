//! Repair and salvage of whole stores, and `find` compared with the store's own answers.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly

use super::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::{Db, Error, MergeOperator, MergeResult, TreeOptions};
use firn_testkit::rng::Rng;
use serde_json::Value;
use support::{Room, arg, content, copy, dump, options, tree_options};

/// Creates two trees: flushed, compacted, ingested, with range deletions, and writes only in the
/// log.
fn make(dir: &Path, seed: u64, ops: u32) -> Db {
    let db = Db::open_with(dir, options()).unwrap();
    let a = db.tree("a", tree_options()).unwrap();
    let b = db.tree("b", tree_options()).unwrap();
    let mut rng = Rng::new(seed);
    for i in 0..ops {
        let t = if rng.below(3) == 0 { &b } else { &a };
        let key = format!("key{:03}", rng.below(150));
        match rng.below(40) {
            0..=5 => t.delete(key.as_bytes()).unwrap(),
            6 => t
                .delete_range(key.as_bytes()..format!("key{:03}", rng.below(150)).as_bytes())
                .unwrap_or(()),
            7 if i % 3 == 0 => t.flush().unwrap(),
            8 if i % 11 == 0 => t.compact().unwrap(),
            _ => t.put(key.as_bytes(), format!("value {i}").as_bytes()).unwrap(),
        }
    }
    db
}

fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    all.retain(|p| {
        p.to_str().unwrap().ends_with(end)
            || p.file_name().unwrap().to_str().unwrap().starts_with(end)
    });
    all.sort();
    all
}

#[test]
fn a_store_without_its_manifest_is_rebuilt_whole() {
    let room = Room::new("repair");
    for seed in 0..12 {
        let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
        let _ = fs::remove_dir_all(&dir);
        let db = make(&dir, seed, 300 + 40 * seed as u32);
        copy(&dir, &bad);
        drop(db);
        let truth = content(&dir);
        for manifest in [true, false] {
            let _ = fs::remove_dir_all(&new);
            fs::remove_file(bad.join("CURRENT")).ok();
            if !manifest {
                files(&bad, "MANIFEST").iter().for_each(|m| fs::remove_file(m).unwrap());
            }
            let (text, code) = dump(&["repair", &arg(&bad), "--out", &arg(&new)]);
            assert_eq!(code, 0, "{text}");
            assert_eq!(content(&new), truth, "seed {seed}, manifest {manifest}: {text}");
        }
    }
}

/// Without the event log too: then tables have the names of trees, and only entries show
/// compactions.
#[test]
fn tables_and_log_alone_give_the_content() {
    let room = Room::new("bare");
    for seed in 0..12 {
        let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
        let _ = fs::remove_dir_all(&dir);
        let db = make(&dir, seed, 200 + 40 * seed as u32);
        copy(&dir, &bad);
        drop(db);
        let truth = content(&dir);
        for f in ["CURRENT", "EVENTS.jsonl"] {
            fs::remove_file(bad.join(f)).unwrap();
        }
        files(&bad, "MANIFEST").iter().for_each(|m| fs::remove_file(m).unwrap());
        let _ = fs::remove_dir_all(&new);
        let (text, code) = dump(&["repair", &arg(&bad), "--out", &arg(&new)]);
        assert_eq!(code, 1, "{text}");
        assert!(!text.contains("the name of tree 1"), "{text}");
        let found: Vec<_> = content(&new).into_iter().map(|t| t.1).collect();
        // A tree without data in any file is not found again.
        let truth: Vec<_> = truth.into_iter().map(|t| t.1).collect();
        assert_eq!(found, truth, "seed {seed}: {text}");
    }
}

/// Inputs of a finished compaction that were not removed yet, and outputs of an unfinished one.
#[test]
fn obsolete_tables_stay_deleted() {
    let room = Room::new("dead");
    let (dir, before, new) = (room.path("s"), room.path("before"), room.path("new"));
    let db = Db::open_with(&dir, options()).unwrap();
    let t = db.tree("t", tree_options()).unwrap();
    for i in 0..40 {
        t.put(format!("key{i:02}").as_bytes(), b"old").unwrap();
    }
    t.flush().unwrap();
    for i in 0..40 {
        t.put(format!("key{i:02}").as_bytes(), b"new").unwrap();
    }
    (0..20).for_each(|i| t.delete(format!("key{:02}", 2 * i + 1).as_bytes()).unwrap());
    t.flush().unwrap();
    copy(&dir, &before);
    let inputs = files(&before, ".sst");
    // A third flush retains sequence numbers in the output.
    t.put(b"key00", b"newest").unwrap();
    t.compact().unwrap();
    let outputs = files(&dir, ".sst");
    drop((t, db));
    let truth = content(&dir);
    for kept in 0..1 << inputs.len() {
        let bad = room.path("bad");
        copy(&dir, &bad);
        for (i, f) in inputs.iter().enumerate() {
            if kept & (1 << i) != 0 {
                fs::copy(f, bad.join(f.file_name().unwrap())).unwrap();
            }
        }
        fs::remove_file(bad.join("CURRENT")).unwrap();
        files(&bad, "MANIFEST").iter().for_each(|m| fs::remove_file(m).unwrap());
        let _ = fs::remove_dir_all(&new);
        let (text, code) = dump(&["repair", &arg(&bad), "--out", &arg(&new)]);
        assert_eq!(code, 0, "{text}");
        assert_eq!(content(&new), truth, "{kept}: {text}");
    }
    assert!(!outputs.is_empty());
}

/// A crash leaves any prefix of an output file of a compaction or flush.
#[test]
fn unfinished_tables_are_left_out() {
    let room = Room::new("unfinished");
    let (dir, before, bad, new) =
        (room.path("s"), room.path("before"), room.path("bad"), room.path("new"));
    let db = Db::open_with(&dir, options()).unwrap();
    let t = db.tree("t", tree_options()).unwrap();
    for value in ["old", "new"] {
        for i in 0..60 {
            t.put(format!("key{i:02}").as_bytes(), value.as_bytes()).unwrap();
        }
        t.flush().unwrap();
    }
    copy(&dir, &before);
    t.compact().unwrap();
    let names = |d: &Path| {
        files(d, ".sst").iter().map(|f| f.file_name().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let was = names(&before);
    let made: Vec<_> = names(&dir).into_iter().filter(|n| !was.contains(n)).collect();
    assert!(!made.is_empty());
    drop((t, db));
    let truth = content(&dir);
    for f in ["CURRENT", "EVENTS.jsonl"] {
        fs::remove_file(before.join(f)).unwrap();
    }
    files(&before, "MANIFEST").iter().for_each(|m| fs::remove_file(m).unwrap());
    for name in &made {
        let bytes = fs::read(dir.join(name)).unwrap();
        for len in (0..bytes.len()).step_by(211).chain([bytes.len() - 64, bytes.len() - 1]) {
            copy(&before, &bad);
            fs::write(bad.join(name), &bytes[..len]).unwrap();
            let _ = fs::remove_dir_all(&new);
            let (text, _) = dump(&["repair", &arg(&bad), "--out", &arg(&new)]);
            let found: Vec<_> = content(&new).into_iter().map(|t| t.1).collect();
            let wanted: Vec<_> = truth.iter().map(|t| t.1.clone()).collect();
            assert_eq!(found, wanted, "{len} of {}: {text}", bytes.len());
        }
    }
}

/// A store in use is neither disturbed nor reported as damaged.
#[test]
fn looking_at_a_live_store() {
    let room = Room::new("live");
    let dir = room.path("s");
    let db =
        Db::open_with(&dir, firn_kv::DbOptions { wal_segment: 64 << 10, ..Default::default() })
            .unwrap();
    let small = TreeOptions { memtable_size: 64 << 10, ..tree_options() };
    let t = db.tree("t", small).unwrap();
    t.put(b"first", b"value").unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            for i in 0..100_000u64 {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                t.put(format!("key{:05}", i * 7919 % 20_000).as_bytes(), &[b'x'; 50]).unwrap();
            }
        });
        for _ in 0..4 {
            for command in
                [&["check", &arg(&dir)][..], &["find", &arg(&dir), "first"], &["space", &arg(&dir)]]
            {
                let (text, code) = dump(command);
                // A file may vanish under a command that does not retry; that is reported, and is
                // no damage.
                assert!(
                    code == 0 || (code == 2 && text.contains("not found")),
                    "{command:?}: {text}"
                );
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(t.get(b"first").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn each_table_of_a_store_destroyed_or_missing() {
    let room = Room::new("tables");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    let db = make(&dir, 3, 1500);
    copy(&dir, &bad);
    drop(db);
    for f in files(&bad, ".sst") {
        let bytes = fs::read(&f).unwrap();
        for damage in 0..3 {
            match damage {
                0 => fs::remove_file(&f).unwrap(),
                1 => fs::write(&f, &bytes[..bytes.len() / 2]).unwrap(),
                _ => fs::write(&f, vec![0; bytes.len()]).unwrap(),
            }
            assert_eq!(dump(&["check", &arg(&bad)]).1, 1);
            let _ = fs::remove_dir_all(&new);
            let (text, code) = dump(&["salvage", &arg(&bad), "--out", &arg(&new)]);
            assert_eq!(code, 1, "{text}");
            assert!(text.contains(f.file_name().unwrap().to_str().unwrap()), "{text}");
            content(&new);
        }
        fs::write(&f, &bytes).unwrap();
    }
    let _ = fs::remove_dir_all(&new);
    let (text, code) = dump(&["salvage", &arg(&bad), "--out", &arg(&new)]);
    assert_eq!(code, 0, "{text}");
}

/// A file that cannot be read, here a directory under its name: one loss, and the rest is saved.
#[test]
fn a_table_that_cannot_be_read() {
    let room = Room::new("unreadable");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    let db = make(&dir, 5, 1500);
    copy(&dir, &bad);
    drop(db);
    let table = files(&bad, ".sst").remove(0);
    fs::remove_file(&table).unwrap();
    fs::create_dir(&table).unwrap();
    for command in ["check", "salvage", "repair"] {
        let _ = fs::remove_dir_all(&new);
        let out = ["--out".to_owned(), arg(&new)];
        let args = [command.to_owned(), arg(&bad)]
            .into_iter()
            .chain(out.into_iter().filter(|_| command != "check"));
        let (text, code) = dump(&args.collect::<Vec<_>>());
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(table.file_name().unwrap().to_str().unwrap()), "{text}");
        if command != "check" {
            content(&new);
        }
    }
}

/// Destroys every record of the log in turn: the records before and after it are all there, and the
/// loss is counted.
#[test]
fn a_log_is_read_past_its_damage() {
    let room = Room::new("log");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    let db = Db::open_with(&dir, options()).unwrap();
    let t = db.tree("t", tree_options()).unwrap();
    for i in 0..12 {
        t.put(format!("key{i:02}").as_bytes(), b"value").unwrap();
        db.sync().unwrap();
    }
    drop((t, db));
    let log = files(&dir, ".wal").pop().unwrap();
    let name = log.file_name().unwrap().to_owned();
    let (text, _) = dump(&["wal", &arg(&log), "--json"]);
    let records: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .filter(|v: &Value| v["mark"] == false)
        .collect();
    assert_eq!(records.len(), 12);
    for (i, r) in records.iter().enumerate() {
        copy(&dir, &bad);
        let mut bytes = fs::read(&log).unwrap();
        let at = r["offset"].as_u64().unwrap() as usize;
        bytes[at + 33] ^= 1;
        fs::write(bad.join(&name), &bytes).unwrap();
        let (text, code) = dump(&["check", &arg(&bad)]);
        assert_eq!(code, 1, "{text}");
        let _ = fs::remove_dir_all(&new);
        let (text, code) = dump(&["salvage", &arg(&bad), "--out", &arg(&new)]);
        assert_eq!(code, 1, "{text}");
        // The sequence numbers around them show how many there were.
        if 0 < i && i < 11 {
            assert!(text.contains("lost: 1 operation of the log"), "{text}");
        }
        let keys: Vec<String> =
            content(&new)[0].1.iter().map(|(k, _)| String::from_utf8(k.clone()).unwrap()).collect();
        let all: Vec<String> = (0..12).filter(|k| *k != i).map(|k| format!("key{k:02}")).collect();
        assert_eq!(keys, all);
    }
}

#[test]
fn find_says_what_the_store_says() {
    let room = Room::new("find");
    for seed in 0..6 {
        let dir = room.path(&format!("s{seed}"));
        let db = make(&dir, 100 + seed, 700);
        for name in ["a", "b"] {
            let tree = db.existing_tree(name).unwrap();
            for k in 0..150 {
                let key = format!("key{k:03}");
                let (text, _) = dump(&["find", &arg(&dir), &key, "--tree", name, "--json"]);
                let v: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} {text}"));
                let told = v["versions"].as_array().unwrap().iter().find(|v| v["returned"] == true);
                let told = told.map(|v| v["value"].as_str().unwrap().as_bytes().to_vec());
                let got = tree.get(key.as_bytes()).unwrap().map(|v| v.to_vec());
                assert_eq!(told, got, "{text}");
            }
        }
        let (text, code) = dump(&["check", &arg(&dir)]);
        assert_eq!(code, 0, "{text}");
    }
}

struct Concat;

impl MergeOperator for Concat {
    fn name(&self) -> &str {
        "concat"
    }

    fn full_merge(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<MergeResult, Error> {
        Ok(MergeResult::Value([base.unwrap_or_default(), &operands.concat()].concat()))
    }
}

#[test]
fn a_tree_with_a_merge_hook_is_rebuilt_with_its_name() {
    let room = Room::new("merge");
    let (dir, new) = (room.path("s"), room.path("new"));
    let with_hook = || TreeOptions { merge_operator: Some(Arc::new(Concat)), ..tree_options() };
    let db = Db::open_with(&dir, options()).unwrap();
    let t = db.tree("t", with_hook()).unwrap();
    for i in 0..30u8 {
        t.merge(b"key", &[b'a' + i % 26]).unwrap();
        if i % 10 == 9 {
            t.flush().unwrap();
        }
        if i == 20 {
            t.compact().unwrap();
        }
    }
    let truth = t.get(b"key").unwrap().unwrap().to_vec();
    drop((t, db));
    fs::remove_file(dir.join("CURRENT")).unwrap();
    files(&dir, "MANIFEST").iter().for_each(|m| fs::remove_file(m).unwrap());
    let (text, code) = dump(&["repair", &arg(&dir), "--out", &arg(&new)]);
    assert_eq!(code, 0, "{text}");
    let db = Db::open_with(&new, options()).unwrap();
    let t = db.tree("t", with_hook()).unwrap();
    assert_eq!(t.get(b"key").unwrap().unwrap().to_vec(), truth, "{text}");
}

/// A damaged closing mark costs nothing, whichever bit is damaged: no advice to restore an older
/// log file. A mark with a wrong length looks like a truncated record.
#[test]
fn a_damaged_mark_of_a_close_is_no_loss() {
    let room = Room::new("mark");
    let dir = room.path("s");
    let db = Db::open_with(&dir, options()).unwrap();
    let t = db.tree("t", tree_options()).unwrap();
    t.put(b"a", b"1").unwrap();
    drop((t, db));
    let (log, truth) = (dir.join("00000001.wal"), content(&dir));
    let bytes = fs::read(&log).unwrap();
    let mark = bytes.len() - 32;
    for bit in (0..32 * 8).filter(|bit| !(32..64).contains(bit)).step_by(5) {
        let mut flipped = bytes.clone();
        flipped[mark + bit / 8] ^= 1 << (bit % 8);
        fs::write(&log, flipped).unwrap();
        let (text, code) = dump(&["check", &arg(&dir)]);
        assert!(code == 0 && !text.contains("cut off"), "bit {bit}: {text}");
        let out = room.path(&format!("saved-{bit}"));
        let (text, code) = dump(&["salvage", &arg(&dir), "--out", &arg(&out)]);
        assert!(code == 0 && text.contains("nothing is lost"), "bit {bit}: {text}");
        assert_eq!(content(&out), truth, "bit {bit}");
    }
    fs::write(&log, &bytes[..mark - 8]).unwrap();
    let (text, code) = dump(&["check", &arg(&dir)]);
    assert!(code == 1 && text.contains("cut off"), "{text}");
}
