//! Tests stores where a link, a FIFO, a directory, a socket or a device replaces a file. No command
//! may block on it, write through it, or ignore the rest of the store because of it.
#![allow(clippy::disallowed_methods, missing_docs)] // files are replaced as an attacker would

use super::common;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use clap::Parser;
use common::Temp;
use firn_kv::{Compression, Db, DbOptions, TreeOptions};
use firn_tools::output::Failure;
use sstable_dump::DumpCli;

/// Time limit of a command, also on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// Kinds of files in a store.
const FILES: [&str; 7] = ["table", "values", "log", "MANIFEST", "CURRENT", "EVENTS.jsonl", "LOCK"];

/// Replacements of a file.
const ODD: [&str; 7] = ["link", "dangling", "loop", "fifo", "directory", "socket", "device"];

/// A store with tables, a blob file, two log segments and a CQL table.
fn store(t: &Temp) -> PathBuf {
    let dir = t.path("whole");
    let options =
        DbOptions { wal_segment: 64 << 10, background_threads: 0, ..DbOptions::default() };
    let db = Db::open_with(&dir, options).unwrap();
    let tree_options =
        || TreeOptions { compression: vec![Compression::None], ..TreeOptions::default() };
    let plain = db.tree("plain", tree_options()).unwrap();
    let long = db.tree("long", TreeOptions { blob_threshold: 256, ..tree_options() }).unwrap();
    for i in 0..500u32 {
        plain.put(format!("key{i:04}"), [b'x'; 200]).unwrap();
        if i % 50 == 0 {
            long.put(format!("long{i:04}"), [b'y'; 300]).unwrap();
        }
        if i == 250 {
            plain.flush().unwrap();
            long.flush().unwrap();
        }
    }
    db.close().unwrap();
    let cql = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; \
               CREATE TABLE k.t (id int PRIMARY KEY, v text); INSERT INTO k.t (id, v) VALUES (1, 'one');";
    let made = t.run("whole", &["cql", "-e", cql], b"");
    assert!(made.status.success(), "{made:?}");
    dir
}

/// Returns the name of the file of this kind.
fn name_of(dir: &Path, kind: &str) -> String {
    let mut all: Vec<String> =
        fs::read_dir(dir).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    let has_values =
        |n: &String| fs::read(dir.join(n)).unwrap().windows(250).any(|w| w == [b'y'; 250]);
    let is = |n: &&String| match kind {
        "table" => n.ends_with(".sst") && !has_values(n),
        "values" => n.ends_with(".sst") && has_values(n),
        "log" => n.ends_with(".wal"),
        _ => n.starts_with(kind),
    };
    all.iter().find(is).unwrap_or_else(|| panic!("{kind}: {all:?}")).clone()
}

/// Replaces the file; `canary` is outside of the store.
fn replace(file: &Path, odd: &str, canary: &Path) {
    fs::copy(file, canary).unwrap();
    fs::remove_file(file).unwrap();
    match odd {
        "link" => symlink(canary, file).unwrap(),
        "dangling" => symlink(canary.with_extension("nowhere"), file).unwrap(),
        "loop" => symlink(file.file_name().unwrap(), file).unwrap(),
        "fifo" => {
            assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
        }
        "directory" => fs::create_dir(file).unwrap(),
        "socket" => drop(UnixListener::bind(file).unwrap()),
        _ => symlink("/dev/zero", file).unwrap(),
    }
}

/// Runs `firn`; returns its output and exit code, or `None` if it had to be killed.
fn firn(t: &Temp, args: &[&str]) -> Option<(String, i32)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args([&["--db", "s"], args].concat())
        .current_dir(&t.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut waited = Duration::ZERO;
    while child.try_wait().unwrap().is_none() {
        if waited > LONGEST {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
        waited += Duration::from_millis(5);
    }
    let done = child.wait_with_output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    Some((String::from_utf8_lossy(&text).into_owned(), done.status.code().unwrap_or(-1)))
}

/// Runs `sstable-dump` in the same way.
fn dump(t: &Temp, args: &[&str]) -> Option<(String, i32)> {
    let paths = |a: &&str| {
        if ["s", "new"].contains(a) { t.path(a).display().to_string() } else { (*a).to_owned() }
    };
    let args: Vec<String> =
        std::iter::once("sstable-dump".into()).chain(args.iter().map(paths)).collect();
    let (tell, output) = mpsc::channel();
    std::thread::spawn(move || {
        let mut out = vec![];
        let done = sstable_dump::run(&DumpCli::parse_from(args), &mut out);
        let text = String::from_utf8_lossy(&out).into_owned();
        let _ = tell.send(match done {
            Ok(()) | Err(Failure::PipeClosed) => (text, 0),
            Err(Failure::Found) => (text, 1),
            Err(e) => (format!("{text}{e:?}"), 2),
        });
    });
    output.recv_timeout(LONGEST).ok()
}

#[test]
fn special_files_in_place_of_store_files() {
    let t = Temp::new("odd", "files");
    let (whole, s, canary, new) = (store(&t), t.path("s"), t.path("canary"), t.path("new"));
    let mut wrong = vec![];
    for kind in FILES {
        let name = name_of(&whole, kind);
        for odd in ODD {
            let fresh = || {
                fs::remove_dir_all(&s).ok();
                fs::create_dir(&s).unwrap();
                for f in fs::read_dir(&whole).unwrap().map(|f| f.unwrap()) {
                    fs::copy(f.path(), s.join(f.file_name())).unwrap();
                }
                replace(&s.join(&name), odd, &canary);
                fs::read(&canary).unwrap()
            };
            let before = fresh();
            let case = format!("{kind} {odd}");
            let mut run = |args: &[&str]| {
                let is_dump = ["check", "salvage", "repair"].contains(&args[0]);
                fs::remove_dir_all(&new).ok();
                let done = if is_dump { dump(&t, args) } else { firn(&t, args) };
                let Some((text, code)) = done else {
                    wrong.push(format!("{case}: {args:?} hangs"));
                    return (String::new(), -1);
                };
                if code < 0 || text.contains("panicked") {
                    wrong.push(format!("{case}: {args:?}: {code}: {text}"));
                }
                if fs::read(&canary).unwrap() != before || canary.with_extension("nowhere").exists()
                {
                    wrong.push(format!("{case}: {args:?} writes through a link"));
                }
                (text, code)
            };
            let (verified, sound) = run(&["verify"]);
            let (checked, also) = run(&["check", "s"]);
            let (saved, salvage) = run(&["salvage", "s", "--out", "new"]);
            let (rebuilt, repair) = run(&["repair", "s", "--out", "new"]);
            let mut more: Vec<(&[&str], String, i32)> = vec![];
            // None of them may block, which a FIFO could cause.
            let others: &[&[&str]] = &[
                &["put", "--tree", "plain", "a", "b"],
                &["scan", "--tree", "plain", "--limit", "5"],
                &["trees"],
                &["stats"],
                &["cql", "-e", "SELECT * FROM k.t;"],
                &["backup", "create", "--to", "backups"],
            ];
            for args in &others[..if odd == "fifo" { others.len() } else { 1 }] {
                let (text, code) = run(args);
                more.push((args, text, code));
            }
            // For a missing segment the engine names its neighbour.
            let names = verified.contains(&name) || (kind == "log" && verified.contains(".wal"));
            if sound != also || (sound == 1) != (names && sound != 0) {
                wrong.push(format!("{case}: verify: {sound}, check: {also}:\n{verified}{checked}"));
            }
            if sound != 0 && !checked.contains(&name) {
                wrong.push(format!("{case}: check names another file: {checked}"));
            }
            if salvage.min(repair) > 1 {
                wrong.push(format!("{case}: nothing is saved:\n{saved}\n{rebuilt}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// CQL reads work in a store that cannot be written: a table of another tree is lost, the user
/// requests it, or the file system is read-only.
#[test]
fn cql_is_read_where_the_store_cannot_be_written_to() {
    let t = Temp::new("odd", "readonly");
    let whole = store(&t);
    let s = t.path("s");
    let copy = || {
        fs::remove_dir_all(&s).ok();
        fs::create_dir(&s).unwrap();
        for f in fs::read_dir(&whole).unwrap().map(|f| f.unwrap()) {
            fs::copy(f.path(), s.join(f.file_name())).unwrap();
        }
    };
    let read = ["cql", "-e", "SELECT v FROM k.t WHERE id = 1;"];
    copy();
    let before = fs::read_dir(&s).unwrap().count();
    let (text, code) = firn(&t, &[&read[..], &["--read-only"]].concat()).unwrap();
    assert!(code == 0 && text.contains("one") && !text.contains("note:"), "{text}");
    assert_eq!(fs::read_dir(&s).unwrap().count(), before);
    fs::remove_file(s.join(name_of(&s, "table"))).unwrap();
    let (text, code) = firn(&t, &read).unwrap();
    assert!(code == 0 && text.contains("one") && text.contains("for reading only: "), "{text}");
    let write = "INSERT INTO k.t (id, v) VALUES (2, 'two');";
    let (text, code) = firn(&t, &["cql", "-e", write]).unwrap();
    assert!(code == 1 && text.contains("read-only"), "{code} {text}");
    copy();
    let here = s.display();
    let script = format!(
        "mount --bind {here} {here} && mount -o remount,ro,bind {here} && \
         exec {} --db {here} cql -e 'SELECT v FROM k.t WHERE id = 1;'",
        env!("CARGO_BIN_EXE_firn")
    );
    let mounted = Command::new("unshare").args(["-rm", "sh", "-c", &script]).output();
    match mounted {
        Ok(done) if String::from_utf8_lossy(&done.stderr).contains("for reading only") => {
            let text = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success() && text.contains("one"), "{text}");
        }
        // Not every machine allows mounts in a test.
        other => eprintln!("skipped: {other:?}"),
    }
}

/// A limit on file sizes causes an error that names it; a closed pipe causes none.
#[test]
fn limits_and_closed_pipes_end_no_command_by_a_signal() {
    let t = Temp::new("odd", "limits");
    let pairs: String =
        (0..40_000).map(|i| format!("key{i}\tvalue {i} {}\n", "x".repeat(60))).collect();
    fs::write(t.path("pairs.tsv"), pairs).unwrap();
    let firn = env!("CARGO_BIN_EXE_firn");
    let shell = |script: &str| {
        let done = Command::new("bash").args(["-c", script]).current_dir(&t.0).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, text) = shell(&format!("ulimit -f 1000; exec {firn} --db big load pairs.tsv"));
    assert!(code == Some(2) && text.contains("ulimit"), "{code:?} {text}");
    let (code, text) = shell(&format!("{firn} --db big verify"));
    assert_eq!(code, Some(0), "{text}");
    // Their output goes to a pipe without a reader.
    for command in ["load pairs.tsv", "cql -e 'HELP;'", "--help", "stats", "trees"] {
        let script = format!("set -o pipefail; {firn} --db whole {command} | true");
        let (code, text) = shell(&script);
        assert!(code.is_some_and(|c| c <= 2) && !text.contains("panicked"), "{command}: {text}");
    }
}
