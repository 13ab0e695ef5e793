//! Stores with random damage, compared with their former content. A store that `check` calls sound
//! opens and has all data. The stores that `salvage` and `repair` write open, are sound, and their
//! losses are reported.
//!
//! A case depends only on its seed. `FIRN_DAMAGE_SEED` runs one case and prints its steps.
//! Otherwise [`CASES`] times `FIRN_TEST_EFFORT` cases run, starting at `FIRN_DAMAGE_FROM` (0), and
//! more until `FIRN_DAMAGE_SECONDS` (0) have passed.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly, and the time is bounded

use super::support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use firn_cql::Session;
use firn_kv::OsEnv;
use firn_kv::internals::manifest::Manifest;
use firn_kv::internals::wal::{LogItem, SegmentReader, segment_number};
use firn_kv::{Db, DbOptions, TreeOptions};
use firn_testkit::effort::times_effort;
use firn_testkit::rng::Rng;
use serde_json::Value;
use sstable_dump::check::opening::known_hooks;
use support::{Room, arg, copy, dump, options, tree_options, wide_options};

/// Minimum number of cases: a number, so that a fast machine runs the same ones as a slow one.
const CASES: u64 = 50;

/// Seeds outside that range that once found a fault.
const FOUND: [u64; 1] = [1091];

/// Values by tree name and key.
type Content = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// A store, an earlier version of it, and its content.
struct Subject {
    dir: PathBuf,
    /// The same store at an earlier time.
    old: PathBuf,
    truth: Content,
}

fn db_options() -> DbOptions {
    DbOptions { create: false, ..options() }
}

/// Returns the content that users see after an opening for writing. Omits the store's own records,
/// which are renewed after a loss.
fn content(dir: &Path) -> firn_kv::Result<Content> {
    let db = Db::open_with(dir, db_options())?;
    let state = Manifest::load(&*OsEnv::new(), dir)?.map(|(s, _)| s).unwrap_or_default();
    let mut all = Content::new();
    for t in state.trees.values() {
        let options = known_hooks(&t.options).expect("hooks that are known");
        for pair in db.tree(&t.name, options)?.iter() {
            let (k, v) = pair?;
            // Trees with lost definitions have another name.
            let name = t.name.strip_prefix("lost.").unwrap_or(&t.name);
            let own_record = name == "system.schema" && k.starts_with(&[0]);
            if !own_record && !name.starts_with("ix-") {
                all.insert((name.to_owned(), k.to_vec()), v.to_vec());
            }
        }
    }
    Ok(all)
}

/// Creates trees of bytes: flushed, compacted, with range deletions, and with writes only in the
/// log. Values of at least `blob_threshold` bytes are in blob files, unless it is 0.
fn plain(room: &Room, seed: u64, blob_threshold: usize) -> Subject {
    let (dir, old) = (room.path(&format!("plain{seed}")), room.path(&format!("plain{seed}-old")));
    let db = Db::open_with(&dir, options()).unwrap();
    let tree_options = || TreeOptions { blob_threshold, ..tree_options() };
    let trees = [db.tree("a", tree_options()).unwrap(), db.tree("b", tree_options()).unwrap()];
    let mut rng = Rng::new(seed);
    for i in 0..1600 {
        let t = &trees[usize::from(rng.below(3) == 0)];
        let key = format!("key{:03}", rng.below(400));
        match rng.below(120) {
            0..=5 => t.delete(key.as_bytes()).unwrap(),
            6 => t.delete_range(key.as_bytes()..format!("{key}5").as_bytes()).unwrap(),
            7 => t.flush().unwrap(),
            8 if i % 5 == 0 => t.compact().unwrap(),
            n => {
                let len = if blob_threshold > 0 && n % 3 == 0 { 10 } else { 60 };
                t.put(key.as_bytes(), format!("value {i} {}", "x".repeat(len)).as_bytes()).unwrap();
            }
        }
        if i == 1000 {
            copy(&dir, &old);
        }
    }
    db.sync().unwrap();
    drop((trees, db));
    Subject { truth: content(&dir).unwrap(), dir, old }
}

/// Creates CQL tables with an index and counters.
fn tables(room: &Room) -> Subject {
    let (dir, old) = (room.path("cql"), room.path("cql-old"));
    let s = Session::open_with(&dir, wide_options()).unwrap();
    let run = |cql: &str| drop(s.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}")));
    run(
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run("CREATE TABLE shop.items (id int, at int, name text, PRIMARY KEY (id, at))");
    run("CREATE INDEX items_name ON shop.items (name)");
    run("CREATE TABLE shop.hits (page text PRIMARY KEY, n counter)");
    let flush = |step: usize| {
        let db = s.engine().store().db().clone();
        let some = db.tree_names().into_iter().enumerate().filter(|(i, _)| i % 3 != step % 3);
        some.for_each(|(_, name)| db.existing_tree(&name).unwrap().flush().unwrap());
    };
    for i in 0..240 {
        run(&format!(
            "INSERT INTO shop.items (id, at, name) VALUES ({}, {i}, 'n{}')",
            i % 20,
            i % 7
        ));
        run(&format!("UPDATE shop.hits SET n = n + 2 WHERE page = 'p{}'", i % 5));
        match i {
            80 => run("DELETE FROM shop.items WHERE id = 3"),
            100 => flush(0),
            120 => copy(&dir, &old),
            200 => flush(1),
            _ => {}
        }
    }
    s.engine().store().db().sync().unwrap();
    drop(s);
    Subject { truth: content(&dir).unwrap(), dir, old }
}

fn names(dir: &Path) -> Vec<String> {
    let all = fs::read_dir(dir).unwrap().map(|f| f.unwrap());
    let mut all: Vec<String> = all
        .filter(|f| f.path().is_file())
        .map(|f| f.file_name().to_str().unwrap().to_owned())
        .collect();
    all.retain(|n| n != "LOCK");
    all.sort();
    all
}

/// Returns the number of the last segment with records. Damage from there on may be a torn end,
/// which cannot be distinguished.
fn last_segment(dir: &Path) -> u64 {
    let numbers = names(dir).into_iter().filter_map(|n| segment_number(&n));
    let used = |n: &u64| {
        let mut r = SegmentReader::open(&*OsEnv::new(), dir, *n).unwrap();
        matches!(r.next().unwrap(), Some(LogItem::Record(_)))
    };
    numbers.filter(used).max().unwrap_or(0)
}

/// An earlier damage may have put a directory there.
fn make_way(path: &Path) {
    if path.is_dir() {
        fs::remove_dir(path).unwrap();
    }
}

/// Damage that was done to a store.
#[derive(Default)]
struct Done {
    words: Vec<String>,
    /// Files whose content the store no longer has in full.
    touched: BTreeSet<String>,
    /// Whether a table of another store is there: nothing in the table shows its store.
    foreign: bool,
}

fn damage(rng: &mut Rng, dir: &Path, s: &Subject, other: &Subject, done: &mut Done) {
    let all = names(dir);
    let pick = |rng: &mut Rng, all: &[String]| all[rng.below(all.len() as u64) as usize].clone();
    let name = pick(rng, &all);
    let path = dir.join(&name);
    let bytes = fs::read(&path).unwrap();
    let len = bytes.len() as u64;
    let mut words = |what: String| done.words.push(what);
    let mut touched = vec![name.clone()];
    match rng.below(16) {
        0 => {
            fs::remove_file(&path).unwrap();
            words(format!("{name} is removed"));
        }
        1 | 2 => {
            let to = rng.below(len + 1);
            fs::write(&path, &bytes[..to as usize]).unwrap();
            words(format!("{name} is cut off at {to} of {len}"));
        }
        3..=5 if len > 0 => {
            let (at, mut bytes) = (rng.below(len) as usize, bytes);
            bytes[at] ^= 1 << rng.below(8);
            fs::write(&path, bytes).unwrap();
            words(format!("{name} has a flipped bit at {at}"));
        }
        6 if len > 0 => {
            let (at, mut bytes) = (rng.below(len) as usize, bytes);
            let to = (at + 1 + rng.below(4096) as usize).min(bytes.len());
            bytes[at..to].fill(0);
            fs::write(&path, bytes).unwrap();
            words(format!("{name} has zeros from {at} to {to}"));
        }
        7 => {
            let to = pick(rng, &all);
            fs::copy(&path, dir.join(&to)).unwrap();
            words(format!("{name} is copied over {to}"));
            touched = vec![to];
        }
        8 => {
            let to = pick(rng, &all);
            let there = fs::read(dir.join(&to)).unwrap();
            fs::write(&path, there).unwrap();
            fs::write(dir.join(&to), bytes).unwrap();
            words(format!("{name} and {to} are swapped"));
            touched.push(to);
        }
        9 => {
            let to = ["lost+found/#77", "00000099.sst", "what is this", "00000098.wal"]
                [rng.below(4) as usize];
            fs::create_dir_all(dir.join("lost+found")).unwrap();
            make_way(&dir.join(to));
            fs::rename(&path, dir.join(to)).unwrap();
            words(format!("{name} is called {to}"));
            if to.ends_with(".wal") {
                touched.push(to.to_owned());
            }
        }
        10 => {
            for old in names(&s.old).iter().filter(|n| n.starts_with("MANIFEST") || *n == "CURRENT")
            {
                make_way(&dir.join(old));
                fs::copy(s.old.join(old), dir.join(old)).unwrap();
            }
            words("CURRENT and manifest are those of an earlier time".into());
            touched = vec!["CURRENT".into()];
        }
        11 => {
            let theirs: Vec<String> =
                names(&other.dir).into_iter().filter(|n| segment_number(n).is_none()).collect();
            let theirs = pick(rng, &theirs);
            make_way(&dir.join(&theirs));
            fs::copy(other.dir.join(&theirs), dir.join(&theirs)).unwrap();
            words(format!("{theirs} is that of another store"));
            done.foreign |= theirs.ends_with(".sst");
            touched = vec![theirs];
        }
        12 => {
            fs::write(&path, b"").unwrap();
            words(format!("{name} is empty"));
        }
        13 => {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            words(format!("{name} is a directory"));
        }
        14 => {
            let more: Vec<u8> = (0..rng.below(2000)).map(|_| rng.below(256) as u8).collect();
            fs::write(&path, [bytes, more].concat()).unwrap();
            words(format!("{name} has bytes after its end"));
        }
        _ => {
            make_way(&dir.join(format!("{name}.bak")));
            fs::copy(&path, dir.join(format!("{name}.bak"))).unwrap();
            words(format!("{name} has a copy"));
            touched.clear();
        }
    }
    done.touched.extend(touched);
}

/// Returns all files with their content.
fn files(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let all = fs::read_dir(dir).unwrap().map(|f| f.unwrap().path());
    all.map(|path| (path.clone(), fs::read(&path).ok())).collect()
}

/// Returns the JSON output of a command; `Null` if it could not run.
fn json(args: &[&str]) -> (Value, String, i32) {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let (text, code) = dump(&args);
    let end = text.find("\nerror: ").map_or(text.len(), |at| at + 1);
    (serde_json::from_str(&text[..end]).unwrap_or_default(), text, code)
}

/// Returns the number of keys that differ.
fn differing(truth: &Content, found: &Content) -> usize {
    let keys: BTreeSet<_> = truth.keys().chain(found.keys()).collect();
    keys.into_iter().filter(|k| truth.get(*k) != found.get(*k)).count()
}

fn list(v: &Value) -> &[Value] {
    v.as_array().map_or(&[], Vec::as_slice)
}

/// Damages a store and compares the output of the tools with the truth. The error describes the
/// difference.
fn case(room: &Room, subjects: &[Subject], seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let i = rng.below(subjects.len() as u64) as usize;
    let (s, other) = (&subjects[i], &subjects[(i + 1) % subjects.len()]);
    let (bad, trial, new) = (room.path("bad"), room.path("trial"), room.path("new"));
    copy(&s.dir, &bad);
    let mut done = Done::default();
    for _ in 0..1 + rng.below(3) {
        damage(&mut rng, &bad, s, other, &mut done);
    }
    let what = format!("seed {seed}, store {i}: {}", done.words.join("; "));
    let tail = last_segment(&s.dir);
    // The end of the log's last segment may be gone without a trace.
    let torn = done.touched.iter().any(|n| segment_number(n).is_some_and(|n| n >= tail));
    let err = |words: String| Err(format!("{what}: {words}"));
    if std::env::var_os("FIRN_DAMAGE_SEED").is_some() {
        eprintln!("{what}\n{}", dump(&["check", &arg(&bad)]).0);
    }

    let before = files(&bad);
    let (v, text, _) = json(&["check", &arg(&bad)]);
    if files(&bad) != before {
        return err(format!("check has changed it\n{text}"));
    }
    copy(&bad, &trial);
    let opened = Db::open_with(&trial, db_options()).map(drop);
    if v["opens"] != opened.is_ok() && !(v.is_null() && opened.is_err()) {
        return err(format!(
            "check says \"opens\": {}, and an opening for writing {opened:?}\n{text}",
            v["opens"]
        ));
    }
    if v["sound"] == true {
        match content(&trial) {
            Err(e) => return err(format!("it is called sound, and does not open: {e}")),
            Ok(found) if found != s.truth && !torn => {
                return err(format!(
                    "it is called sound, and {} keys differ\n{text}",
                    differing(&s.truth, &found)
                ));
            }
            Ok(_) => {}
        }
    } else if done.touched.is_empty() {
        return err(format!("nothing is wrong with it, and yet it is not called sound\n{text}"));
    }
    for how in [&["salvage"][..], &["repair"], &["repair", "--without-manifest"]] {
        if done.foreign && how[0] == "repair" {
            continue;
        }
        fs::remove_dir_all(&new).ok();
        let args: Vec<String> = how
            .iter()
            .map(|s| (*s).to_owned())
            .chain([arg(&bad), "--out".into(), arg(&new)])
            .collect();
        let (v, text, code) = json(&args.iter().map(String::as_str).collect::<Vec<_>>());
        if v.is_null() && how[0] == "salvage" && text.contains("repair") {
            // The manifest cannot be trusted, which only `repair` handles.
            continue;
        }
        if code > 1 || v["sound"] != true {
            return err(format!("{how:?} made nothing that is sound\n{text}"));
        }
        let found = content(&new)
            .map_err(|e| format!("{what}: {how:?} made what does not open: {e}\n{text}"))?;
        let differ = differing(&s.truth, &found) as u64;
        let (losses, unknown) = (list(&v["losses"]), list(&v["unknown"]));
        if code == 0 && unknown.is_empty() && differ > 0 && !torn {
            return err(format!(
                "{how:?} says that nothing is lost, and {differ} keys differ\n{text}"
            ));
        }
        let reported: Option<u64> = losses.iter().map(|l| l["entries"].as_u64()).sum();
        let plain = losses.iter().all(|l| l["what"] != "tombstones");
        if let Some(reported) =
            reported.filter(|reported| unknown.is_empty() && plain && !torn && *reported < differ)
        {
            return err(format!(
                "{how:?} reports {reported} lost entries, and {differ} keys differ\n{text}"
            ));
        }
    }
    Ok(())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn reports_about_damaged_stores_are_true() {
    let room = Room::new("damage");
    let subjects = [plain(&room, 1, 0), plain(&room, 2, 0), tables(&room)];
    try_cases(&room, &subjects, &FOUND);
}

#[test]
fn reports_about_damaged_stores_with_blob_files_are_true() {
    let room = Room::new("damage-apart");
    try_cases(&room, &[plain(&room, 1, 64), plain(&room, 2, 64)], &[]);
}

fn try_cases(room: &Room, subjects: &[Subject], found: &[u64]) {
    if let Some(seed) = number("FIRN_DAMAGE_SEED") {
        case(room, subjects, seed).unwrap_or_else(|e| panic!("{e}"));
        return;
    }
    let end = Instant::now() + Duration::from_secs(number("FIRN_DAMAGE_SECONDS").unwrap_or(0));
    let from = number("FIRN_DAMAGE_FROM").unwrap_or(0);
    let (mut seed, mut wrong) = (from, vec![]);
    for &found in found {
        wrong.extend(case(room, subjects, found).err());
    }
    while wrong.len() < 5 && (Instant::now() < end || seed < from + times_effort(CASES)) {
        wrong.extend(case(room, subjects, seed).err());
        seed += 1;
    }
    eprintln!("{} cases", seed - from);
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), seed - from, wrong.join("\n\n"));
}
