//! Each file of a store in turn is missing, or belongs to another store, to a clone or to an older
//! time. The saved store always opens. It has no less than with `--without-manifest` unless the
//! tool says so. It is called complete only if it is.
#![allow(clippy::disallowed_methods)] // files under test are put where they do not belong

use super::support;

use std::fs;
use std::path::{Path, PathBuf};

use firn_kv::{Db, TreeOptions};
use support::{Room, arg, content, copy, dump, options, tree_options};

/// Writes pairs with these keys: some flushed and compacted, long values to a blob file, the last
/// only to the log, which fills more than one segment.
fn write(dir: &Path, keys: std::ops::Range<u32>, word: &str) {
    let db = Db::open_with(dir, options()).unwrap();
    let blobs = TreeOptions { blob_threshold: 256, ..tree_options() };
    let (a, b) = (db.tree("a", tree_options()).unwrap(), db.tree("b", blobs).unwrap());
    let len = keys.len() as u32;
    for (i, k) in keys.enumerate() {
        a.put(format!("key{k:05}"), format!("{word} {k} {}", "x".repeat(100))).unwrap();
        if k % 10 == 0 {
            b.put(format!("long{k:05}"), format!("{word} {k} {}", "y".repeat(300))).unwrap();
        }
        if i as u32 == len / 3 {
            a.flush().unwrap();
        }
        if i as u32 == len / 2 {
            b.flush().unwrap();
            a.flush().unwrap();
        }
    }
    db.sync().unwrap();
}

/// The stores between which files are exchanged.
struct Stores {
    own: PathBuf,
    older: PathBuf,
    clone: PathBuf,
    other: PathBuf,
}

impl Stores {
    fn new(room: &Room) -> Stores {
        let path = |name: &str| room.path(name);
        let s = Stores {
            own: path("own"),
            older: path("older"),
            clone: path("clone"),
            other: path("other"),
        };
        write(&s.own, 0..900, "first");
        copy(&s.own, &s.older);
        copy(&s.own, &s.clone);
        write(&s.own, 800..1500, "second");
        write(&s.clone, 850..1700, "clone");
        for start in [5000, 6000] {
            write(&s.other, start..start + 700, "other");
        }
        s
    }
}

fn names(dir: &Path) -> Vec<String> {
    let all = fs::read_dir(dir).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
    let mut all: Vec<String> = all.filter(|n| n != "LOCK" && n != "EVENTS.jsonl").collect();
    all.sort();
    all
}

/// Returns the part of a name that shows the kind of the file.
fn kind(name: &str) -> &str {
    if name.starts_with("MANIFEST") { "MANIFEST" } else { name.split('.').next_back().unwrap() }
}

/// Returns the file of this kind in `from` that replaces `name`: with the same name, or the newest.
fn replacement(from: &Path, name: &str) -> Option<PathBuf> {
    let all = names(from);
    let same = all.iter().find(|n| *n == name);
    let any = || all.iter().rfind(|n| kind(n) == kind(name));
    same.or_else(any).map(|n| from.join(n))
}

/// Saves the store in every way; `truth` is its complete content.
fn try_all(
    room: &Room,
    dir: &Path,
    case: &str,
    truth: &[(String, support::Pairs)],
    wrong: &mut Vec<String>,
) {
    let mut check = |holds: bool, words: String| {
        if !holds {
            wrong.push(words)
        }
    };
    let out = |how: &str| room.path(&format!("out-{how}"));
    let clean = |how: &str| drop(fs::remove_dir_all(out(how)));
    clean("bare");
    let (text, code) =
        dump(&["repair", &arg(dir), "--out", &arg(&out("bare")), "--without-manifest"]);
    check(code < 2, format!("{case}: without manifest: {text}"));
    let least = match code < 2 {
        true => content(&out("bare")).iter().map(|t| t.1.len()).sum::<usize>(),
        false => 0,
    };
    for how in ["salvage", "repair"] {
        clean(how);
        let (text, code) = dump(&[how, &arg(dir), "--out", &arg(&out(how))]);
        if code == 2 && how == "salvage" && text.contains("next: `sstable-dump repair") {
            check(!out(how).exists(), format!("{case}: it leaves something: {text}"));
            continue;
        }
        check(code < 2, format!("{case}: {how}: {text}"));
        if code > 1 {
            continue;
        }
        let found = content(&out(how));
        let n = found.iter().map(|t| t.1.len()).sum::<usize>();
        let says = code == 1 && text.contains("--without-manifest");
        check(n >= least || says, format!("{case}: {how}: {n} of {least}: {text}"));
        let lacks: Vec<_> = truth.iter().filter(|t| !found.contains(t)).map(|t| &t.0).collect();
        check(code == 1 || lacks.is_empty(), format!("{case}: {how}: {lacks:?} differ: {text}"));
    }
}

#[test]
fn a_file_of_another_store_clone_or_time() {
    let room = Room::new("identity");
    let stores = Stores::new(&room);
    let (own, bad) = (&stores.own, room.path("bad"));
    let truth = content(&{
        copy(own, &bad);
        bad.clone()
    });
    let (all, mut wrong) = (names(own), vec![]);
    for events in [true, false] {
        for name in &all {
            let froms = [None, Some(&stores.older), Some(&stores.clone), Some(&stores.other)];
            for from in froms {
                // Without the event log, other sources show the live tables.
                if !events && from.is_some() && !name.ends_with(".wal") && kind(name) != "MANIFEST"
                {
                    continue;
                }
                copy(own, &bad);
                let with = from.map(|from| replacement(from, name));
                match with {
                    None => fs::remove_file(bad.join(name)).unwrap(),
                    Some(None) => continue,
                    Some(Some(with)) => drop(fs::copy(with, bad.join(name)).unwrap()),
                }
                if !events {
                    let _ = fs::remove_file(bad.join("EVENTS.jsonl"));
                }
                let from = from.map_or("missing".into(), |f| f.file_name().unwrap().to_owned());
                let case = format!("{name} {}, events {events}", from.display());
                try_all(&room, &bad, &case, &truth, &mut wrong);
            }
        }
        // Replaces manifest and CURRENT together, as a wrong line of a restore script does.
        for from in [&stores.older, &stores.clone, &stores.other] {
            copy(own, &bad);
            for name in names(own).iter().filter(|n| n.starts_with("MANIFEST")) {
                fs::remove_file(bad.join(name)).unwrap();
            }
            for name in names(from).iter().filter(|n| n.starts_with("MANIFEST") || *n == "CURRENT")
            {
                fs::copy(from.join(name), bad.join(name)).unwrap();
            }
            if !events {
                let _ = fs::remove_file(bad.join("EVENTS.jsonl"));
            }
            try_all(
                &room,
                &bad,
                &format!("both {}, events {events}", from.display()),
                &truth,
                &mut wrong,
            );
        }
    }
    assert!(wrong.is_empty(), "{} cases: {}", wrong.len(), wrong.join("\n"));
}

/// A table that a clone wrote is not newer than the manifest: most files of the manifest are here.
#[test]
fn a_table_of_a_clone_does_not_outweigh_the_manifest() {
    let room = Room::new("outweigh");
    let (own, clone) = (room.path("own"), room.path("clone"));
    let round = |db: &Db, name: &str, n: u32| {
        let t = db.tree(name, tree_options()).unwrap();
        (0..400).for_each(|i| t.put(format!("{n} {i:05}"), "v").unwrap());
        t.flush().unwrap();
    };
    let db = Db::open_with(&own, options()).unwrap();
    (0..3).for_each(|n| round(&db, "rnd", n));
    drop(db);
    copy(&own, &clone);
    let newest = |dir: &Path| names(dir).into_iter().rfind(|n| n.ends_with(".sst")).unwrap();
    let reopened = |dir: &Path, more: u32| {
        let db = Db::open_with(dir, options()).unwrap();
        (0..more).for_each(|n| round(&db, "rnd", 10 + n));
        drop(db);
        newest(dir)
    };
    let (lost, stray) = (reopened(&own, 1), reopened(&clone, 2));
    assert!(stray > lost);
    for left in [stray.clone(), lost.clone()] {
        let bad = room.path("bad");
        copy(&own, &bad);
        fs::remove_file(bad.join(&lost)).unwrap();
        fs::copy(clone.join(&stray), bad.join(&left)).unwrap();
        let (text, code) = dump(&["check", &arg(&bad)]);
        assert!(code == 1 && !text.contains("outdated"), "{text}");
        for how in ["salvage", "repair"] {
            let out = room.path(&format!("{how}-{left}"));
            let (text, code) = dump(&[how, &arg(&bad), "--out", &arg(&out)]);
            assert!(code == 1 && text.contains("lost: 400 entries"), "{text}");
            assert!(text.contains("--without-manifest") || text.contains("holds table"), "{text}");
            // The log has the data of the lost table.
            assert_eq!(content(&out), content(&own), "{text}");
        }
    }
}

/// A mark that closes a log takes no position in it: if the segment of the next opening is missing,
/// the copy does not claim more than it has.
#[test]
fn a_store_without_one_of_its_log_segments_is_saved_into_one_that_opens() {
    let room = Room::new("openings");
    let (own, bad, out) = (room.path("own"), room.path("bad"), room.path("out"));
    for opening in 0..4u32 {
        let db = Db::open_with(&own, options()).unwrap();
        let t = db.tree("a", tree_options()).unwrap();
        (0..30).for_each(|i| t.put(format!("a{opening} {i:03}"), "value").unwrap());
        let u = db.tree("users", tree_options()).unwrap();
        (0..30).for_each(|i| u.put(format!("u{opening} {i:03}"), "value").unwrap());
        if opening % 2 == 1 {
            u.flush().unwrap();
        }
        db.close().unwrap();
    }
    let truth = content(&{
        copy(&own, &bad);
        bad.clone()
    });
    let segments: Vec<String> = names(&own).into_iter().filter(|n| n.ends_with(".wal")).collect();
    assert!(segments.len() > 2, "{segments:?}");
    for name in segments {
        copy(&own, &bad);
        fs::remove_file(bad.join(&name)).unwrap();
        for how in ["salvage", "repair"] {
            fs::remove_dir_all(&out).ok();
            let (text, code) = dump(&[how, &arg(&bad), "--out", &arg(&out)]);
            assert!(code < 2, "{name} {how}: {text}");
            let found = content(&out);
            assert!(code == 1 || found == truth, "{name} {how}: {text}");
            let (text, code) = dump(&["check", &arg(&out)]);
            assert_eq!(code, 0, "{name} {how}: {text}");
        }
    }
}

/// Bytes appended after the mark that closes the log are no part of it: nothing is lost.
#[test]
fn bytes_behind_a_closed_log_are_no_loss() {
    let room = Room::new("behind");
    for (i, garbage) in [&b"x"[..], &[0; 300], &[0xff; 70_000]].into_iter().enumerate() {
        let (dir, new) = (room.path(&format!("s{i}")), room.path(&format!("new{i}")));
        write(&dir, 0..300, "first");
        let truth = content(&dir);
        let mut segments: Vec<_> =
            names(&dir).into_iter().filter(|name| name.ends_with(".wal")).collect();
        segments.sort();
        let last = dir.join(segments.pop().unwrap());
        let mut bytes = fs::read(&last).unwrap();
        bytes.extend_from_slice(garbage);
        fs::write(&last, bytes).unwrap();
        let (text, code) = dump(&["check", &arg(&dir)]);
        assert!(code == 0 && !text.contains("lost"), "{text}");
        assert_eq!(dump(&["repair", &arg(&dir), "--out", &arg(&new)]).1, 0);
        assert_eq!(content(&new), truth);
    }
}

/// The manifest is outdated, so only flushes show from where the log is needed. A log without its
/// beginning is not called complete. A log that the store itself has shortened is, although a tree
/// has not been flushed for long.
#[test]
fn a_log_without_its_beginning_differs_from_a_shortened_one() {
    for is_shortened in [false, true] {
        let room = Room::new("beginning");
        let (own, older, bad) = (room.path("own"), room.path("older"), room.path("bad"));
        let db = Db::open_with(&own, options()).unwrap();
        let (a, b) = (db.tree("a", tree_options()).unwrap(), db.tree("b", tree_options()).unwrap());
        let put = |tree: &firn_kv::Tree, from: u32, n: u32| {
            (from..from + n).for_each(|i| tree.put(format!("{i:05}"), [b'v'; 100]).unwrap());
        };
        put(&a, 0, 10);
        a.flush().unwrap();
        copy(&own, &older);
        put(&a, 10, 10);
        a.flush().unwrap();
        put(&b, 0, 1000);
        if is_shortened {
            // An entry that is overwritten before a flush leaves no sequence number as evidence.
            put(&b, 0, 10);
            b.flush().unwrap();
            put(&b, 1000, 10);
        }
        db.sync().unwrap();
        drop((a, b, db));
        let segments: Vec<String> =
            names(&own).into_iter().filter(|n| n.ends_with(".wal")).collect();
        assert_eq!(segments[0] != "00000001.wal", is_shortened, "{segments:?}");
        copy(&own, &bad);
        let truth = content(&bad);
        for events in [true, false] {
            copy(&own, &bad);
            if !is_shortened {
                fs::remove_file(bad.join("00000001.wal")).unwrap();
            }
            if !events {
                fs::remove_file(bad.join("EVENTS.jsonl")).unwrap();
            }
            for name in names(&own).iter().filter(|n| n.starts_with("MANIFEST")) {
                fs::remove_file(bad.join(name)).unwrap();
            }
            for name in
                names(&older).iter().filter(|n| n.starts_with("MANIFEST") || *n == "CURRENT")
            {
                fs::copy(older.join(name), bad.join(name)).unwrap();
            }
            let out = room.path(&format!("out-{events}"));
            let (text, code) = dump(&["repair", &arg(&bad), "--out", &arg(&out)]);
            let is_doubted = text.contains("not known: whether the first segments of the log");
            if is_shortened {
                assert_eq!(content(&out), truth, "{text}");
                assert_eq!((code, is_doubted), (i32::from(!events), !events), "{text}");
            } else {
                assert!(code == 1 && is_doubted, "{text}");
            }
        }
    }
}
