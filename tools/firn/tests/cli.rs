//! Tests the `firn` binary from the command line: formats, exit codes, messages, and files on disk.
// These tests make the files that a user would name on the command line.
#![allow(clippy::disallowed_methods, missing_docs)]

use super::common;

use common::Temp;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

impl Temp {
    fn file(&self, name: &str, content: &[u8]) -> String {
        fs::write(self.path(name), content).unwrap();
        self.path(name).display().to_string()
    }

    /// Runs `firn --db db ARGS` in this directory.
    fn firn_bytes(&self, args: &[&str]) -> Ran {
        self.firn_on("db", args, b"")
    }

    fn firn_on(&self, db: &str, args: &[&str], input: &[u8]) -> Ran {
        let out = self.run(db, args, input);
        let code = out.status.code().unwrap_or(-1);
        Ran { code, out: out.stdout, err: String::from_utf8_lossy(&out.stderr).into_owned() }
    }

    /// Returns the names and contents of all files of a directory.
    fn content(&self, dir: &str) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.path(dir)).unwrap();
        entries
            .map(|e| {
                let e = e.unwrap();
                (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())
            })
            .collect()
    }
}

#[derive(Debug)]
struct Ran {
    code: i32,
    out: Vec<u8>,
    err: String,
}

impl Ran {
    /// Asserts success; returns standard output.
    #[track_caller]
    fn good(self) -> Vec<u8> {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    #[track_caller]
    fn text(self) -> String {
        String::from_utf8(self.good()).unwrap()
    }

    #[track_caller]
    fn json(self) -> serde_json::Value {
        serde_json::from_slice(&self.good()).unwrap()
    }

    /// Asserts that it exited with `code` and printed all of `words` on standard error.
    #[track_caller]
    fn said(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for w in words {
            assert!(self.err.contains(w), "{w:?} is not in {:?}", self.err);
        }
    }
}

const COMMANDS: [&str; 14] = [
    "load",
    "get",
    "scan",
    "put",
    "delete",
    "stats",
    "trees",
    "set-options",
    "verify",
    "checkpoint",
    "compact",
    "upgrade",
    "cli",
    "bench",
];

#[test]
fn every_command_helps_with_examples() {
    let t = Temp::new("cli", "help");
    let top = t.firn_bytes(&["--help"]).text();
    for command in COMMANDS {
        assert!(top.contains(&format!("  {command} ")), "{command}");
        let help = t.firn_bytes(&[command, "--help"]).text();
        assert!(
            help.contains("Examples:") && help.contains(&format!("  firn {command}")),
            "{help}"
        );
        assert!(help.lines().all(|l| l.chars().count() <= 130), "{help}");
    }
    assert!(top.contains("Exit codes"));
    t.firn_bytes(&["frobnicate"]).said(2, &["unrecognized subcommand"]);
    assert!(!t.path("db").exists());
}

/// Returns keys and values that are difficult for text formats, in key order.
fn odd_records() -> Vec<(Vec<u8>, Vec<u8>)> {
    let all: Vec<u8> = (0..=255).collect();
    let mut records: Vec<(Vec<u8>, Vec<u8>)> = vec![
        (b"".to_vec(), b"under the empty key".to_vec()),
        (b"a\tb".to_vec(), b"tab\there".to_vec()),
        (b"line\nend".to_vec(), b"\r\n".to_vec()),
        (b"back\\slash".to_vec(), b"\\n is not a line end".to_vec()),
        (b"quote\"".to_vec(), b"a, \"b\"".to_vec()),
        ("grüße 雪".as_bytes().to_vec(), b"\x00\x01\x7f".to_vec()),
        (b"\xff\xfe".to_vec(), all.clone()),
        (all, b"".to_vec()),
        (b"ends with cr\r".to_vec(), b"\r".to_vec()),
    ];
    records.extend((0..3000).map(|i: u32| {
        (format!("key{i:05}").into_bytes(), vec![(i % 251) as u8; (i % 40) as usize])
    }));
    records.sort();
    records
}

#[test]
fn any_bytes_survive_load_and_scan() {
    let t = Temp::new("cli", "roundtrip");
    let hex: Vec<u8> = odd_records()
        .iter()
        .flat_map(|(k, v)| {
            let hex = |b: &[u8]| b.iter().map(|b| format!("{b:02x}")).collect::<String>();
            format!("{}\t{}\n", hex(k), hex(v)).into_bytes()
        })
        .collect();
    t.firn_on("first", &["load", "--hex", "-"], &hex).good();
    assert_eq!(t.firn_on("first", &["scan", "--hex"], b"").good(), hex);
    for format in ["tsv", "csv", "json"] {
        let scanned = t.firn_on("first", &["scan", "--format", format], b"").good();
        let lines = if format == "csv" { 0 } else { odd_records().len() };
        assert!(lines == 0 || scanned.iter().filter(|b| **b == b'\n').count() == lines);
        let file = t.file(&format!("all.{format}"), &scanned);
        let loaded = t.firn_on(format, &["load", &file, "--json", "--chunk", "100"], b"").json();
        assert_eq!(loaded["loaded"], odd_records().len());
        assert_eq!(
            t.firn_on(format, &["scan", "--format", format], b"").good(),
            scanned,
            "{format}"
        );
        assert_eq!(t.firn_on(format, &["scan", "--hex"], b"").good(), hex, "{format}");
    }
}

#[test]
fn columns_are_chosen() {
    let t = Temp::new("cli", "columns");
    let csv = t.file("people.csv", b"id,name,age\n1,ann,33\n2,bob,44\n");
    t.firn_bytes(&["load", &csv, "--key", "name", "--value", "age"]).good();
    assert_eq!(t.firn_bytes(&["scan"]).text(), "ann\t33\nbob\t44\n");
    t.firn_bytes(&["load", &csv, "--tree", "objects"]).good();
    assert_eq!(
        t.firn_bytes(&["get", "2", "--tree", "objects"]).text(),
        "{\"age\":\"44\",\"name\":\"bob\"}\n"
    );
    t.firn_bytes(&["load", &csv, "--key", "nam"]).said(2, &["no column \"nam\"", "id, name, age"]);
    let json = b"{\"id\":7,\"x\":[1]}\n{\"id\":8,\"x\":null}\n";
    t.firn_on("db", &["load", "-", "--format", "json", "--key", "id", "--tree", "lines"], json)
        .good();
    assert_eq!(
        t.firn_bytes(&["scan", "--tree", "lines"]).text(),
        "7\t{\"id\":7,\"x\":[1]}\n8\t{\"id\":8,\"x\":null}\n"
    );
    let trees = t.firn_bytes(&["trees"]).text();
    let names: Vec<&str> = trees.lines().map(|l| l.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, ["tree", "default", "objects", "lines"]);
    t.firn_bytes(&["load", "dump.tsv.gz"]).said(2, &["zcat dump.tsv.gz"]);
    t.firn_bytes(&["get", "x", "--tree", "nowhere"])
        .said(2, &["no tree \"nowhere\"", "default, objects, lines"]);
}

#[test]
fn a_bad_line_stops_or_is_skipped() {
    let t = Temp::new("cli", "bad");
    let mut text: Vec<u8> = (1..=25).flat_map(|i| format!("k{i:02}\tv\n").into_bytes()).collect();
    text.extend(b"no tab here\n");
    text.extend(b"k26\tv\n\\q\tv\nk27\tv\n");
    let file = t.file("bad.tsv", &text);
    let ran = t.firn_on("stop", &["load", &file, "--chunk", "10", "--json"], b"");
    ran.said(1, &["line 26", "no tab", "loaded 20 records", "ends after line 20", "--bad skip"]);
    let summary: serde_json::Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(
        (&summary["loaded"], &summary["complete"], &summary["bad"][0]["line"]),
        (&20.into(), &false.into(), &26.into())
    );
    assert_eq!(t.firn_on("stop", &["scan"], b"").text().lines().count(), 20);
    let ran = t.firn_on("skip", &["load", &file, "--chunk", "10", "--bad", "skip"], b"");
    ran.said(0, &["line 26", "line 28", "skipped 2 bad lines", "loaded 27 records"]);
    assert!(t.firn_bytes(&["load", "--help"]).text().contains("skipped lines are no failure"));
    assert_eq!(t.firn_on("skip", &["scan"], b"").text().lines().count(), 27);
    let long = t.file("long.tsv", &[&[b'k'; 530_000][..], b"\tv\n"].concat());
    t.firn_on("long", &["load", &long], b"").said(1, &["line 1", "530000 bytes"]);
}

#[test]
fn reading_a_missing_store_creates_none() {
    let t = Temp::new("cli", "nowhere");
    for args in [
        &["get", "k"][..],
        &["scan"],
        &["stats"],
        &["verify"],
        &["trees"],
        &["delete", "k"],
        &["compact"],
        &["upgrade"],
        &["checkpoint", "c"],
    ] {
        let ran = t.firn_bytes(args);
        ran.said(2, &["error:", "next:", "--db"]);
        assert!(ran.out.is_empty(), "{ran:?}");
    }
    t.firn_bytes(&["load", "nothing.tsv"]).said(2, &["nothing.tsv"]);
    t.firn_bytes(&["bench", "readrandom", "--keep"]).said(2, &["no store of an earlier bench"]);
    assert_eq!(fs::read_dir(&t.0).unwrap().count(), 0);
}

#[test]
fn foreign_directories_are_left_alone() {
    let t = Temp::new("cli", "foreign");
    fs::create_dir(t.path("db")).unwrap();
    fs::write(t.path("db/notes.txt"), "mine").unwrap();
    let before = t.content("db");
    let file = t.file("a.tsv", b"a\t1\n");
    for args in [
        &["load", &file][..],
        &["get", "k"],
        &["verify"],
        &["bench", "--keys", "100"],
        &["delete", "k"],
    ] {
        t.firn_bytes(args).said(2, &["error:"]);
        assert_eq!(t.content("db"), before, "{args:?}");
    }
}

#[test]
fn reading_writes_nothing() {
    let t = Temp::new("cli", "readonly");
    let file = t.file("a.tsv", b"a\t1\nb\t2\n");
    t.firn_bytes(&["load", &file]).good();
    t.firn_bytes(&["compact"]).good();
    t.firn_on("db", &["load", "-"], b"c\t3\nd\t4\n").good();
    // A delete stays in the log: readers must replay it and must not remove it.
    t.firn_bytes(&["delete", "d"]).good();
    let before = t.content("db");
    for args in [
        &["get", "a", "b"][..],
        &["scan"],
        &["stats"],
        &["stats", "--json"],
        &["verify"],
        &["trees"],
    ] {
        assert!(!t.firn_bytes(args).good().is_empty(), "{args:?}");
    }
    assert_eq!(t.content("db"), before);
    assert_eq!(t.firn_bytes(&["scan"]).text(), "a\t1\nb\t2\nc\t3\n");
    let stats = t.firn_bytes(&["stats", "--json"]).json();
    assert_eq!(
        (&stats["trees"][0]["name"], &stats["trees"][0]["runs"][0]["entries"]),
        (&"default".into(), &2.into())
    );
    assert_eq!((&stats["trees"][0]["runs"][1]["entries"], &stats["seq"]), (&2.into(), &5.into()));
    assert!(t.firn_bytes(&["stats"]).text().contains("default"));
    let metrics = t.firn_bytes(&["stats", "--prometheus"]).text();
    assert!(
        metrics.contains("\nfirn_sequence_number 5\n")
            && metrics.contains("\nfirn_tree_runs{tree=\"default\"} "),
        "{metrics}"
    );
    assert_eq!(stats["trees"][0]["reads"]["blocks_read"], 0);
}

#[test]
fn get_prints_values() {
    let t = Temp::new("cli", "get");
    t.firn_on("db", &["load", "-"], b"a\tone\\ntwo\nb\t\nc\\t\t3\n").good();
    assert_eq!(t.firn_bytes(&["get", "a"]).text(), "one\ntwo\n");
    assert_eq!(t.firn_bytes(&["get", "a", "--raw"]).text(), "one\ntwo");
    assert_eq!(t.firn_bytes(&["get", "a", "b"]).text(), "a\tone\\ntwo\nb\t\n");
    assert_eq!(t.firn_bytes(&["get", "--hex", "6309"]).text(), "33\n");
    assert_eq!(
        t.firn_bytes(&["get", "a", "--json"]).json(),
        serde_json::json!({"key": "a", "value": "one\ntwo"})
    );
    let ran = t.firn_bytes(&["get", "a", "zebra"]);
    ran.said(1, &["not found: zebra"]);
    assert_eq!(ran.out, b"a\tone\\ntwo\n");
}

#[test]
fn scan_takes_ranges() {
    let t = Temp::new("cli", "scan");
    let text: Vec<u8> = (0..100).flat_map(|i| format!("k{i:02}\tv{i}\n").into_bytes()).collect();
    t.firn_on("db", &["load", "-"], &text).good();
    let scan = |args: &[&str]| -> String {
        let args: Vec<&str> = ["scan", "--keys-only"].iter().chain(args).copied().collect();
        t.firn_bytes(&args).text().trim_end().replace('\n', " ")
    };
    assert_eq!(scan(&["--from", "k10", "--to", "k13"]), "k10 k11 k12");
    assert_eq!(scan(&["--prefix", "k9", "--limit", "2"]), "k90 k91");
    assert_eq!(scan(&["--prefix", "k9", "--reverse", "--limit", "2"]), "k99 k98");
    assert_eq!(scan(&["--from", "k98", "--reverse"]), "k99 k98");
    assert_eq!(scan(&["--to", "k01"]), "k00");
    let backwards = ["scan", "--from", "k50", "--to", "k40"];
    t.firn_bytes(&backwards).said(2, &["ends where it begins, or before", "--from below --to"]);
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(
        t.firn_bytes(&["scan", "--json", "--limit", "1"]).text(),
        "{\"key\":\"k00\",\"value\":\"v0\"}\n"
    );
    assert_eq!(
        t.firn_bytes(&["scan", "--format", "csv", "--limit", "1"]).text(),
        "key,value\nk00,v0\n"
    );
}

#[test]
fn deletes_and_compactions_keep_the_rest() {
    let t = Temp::new("cli", "delete");
    let text: Vec<u8> = (0..100).flat_map(|i| format!("k{i:02}\tv{i}\n").into_bytes()).collect();
    t.firn_on("db", &["load", "-"], &text).good();
    t.firn_bytes(&["delete"]).said(2, &["no keys to delete are given"]);
    t.firn_bytes(&["delete", "k00", "nowhere"]).said(0, &["deleted 2 keys", "if they were there"]);
    t.firn_bytes(&["delete", "nowhere"]).said(0, &["deleted 1 key", "if it was there"]);
    t.firn_bytes(&["delete", "--from", "k10", "--to", "k20", "--yes"]).good();
    t.firn_bytes(&["delete", "--prefix", "k3", "-y"]).good();
    t.firn_bytes(&["delete", "--from", "k95", "-y"]).good();
    let left = (0..95).filter(|i| *i != 0 && !(10..20).contains(i) && !(30..40).contains(i));
    let left: String = left.map(|i| format!("k{i:02}\tv{i}\n")).collect();
    assert_eq!(t.firn_bytes(&["scan"]).text(), left);
    t.firn_bytes(&["compact", "--json"]).json();
    assert_eq!(t.firn_bytes(&["scan"]).text(), left);
    let stats = t.firn_bytes(&["stats", "--json"]).json();
    assert_eq!(stats["trees"][0]["runs"][0]["entries"], left.lines().count());
    t.firn_bytes(&["checkpoint", "copy"]).said(0, &["copy holds 1 table"]);
    t.firn_bytes(&["checkpoint", "copy"]).said(2, &["not empty"]);
    t.firn_bytes(&["upgrade"]).said(0, &["format version 1", "nothing to do"]);
    let versions = t.firn_bytes(&["upgrade", "--json"]).json();
    assert_eq!(versions, serde_json::json!({"format_version_before": 1, "format_version": 1}));
    t.firn_bytes(&["delete", "--prefix", "k", "-y"]).good();
    assert_eq!(t.firn_bytes(&["scan"]).text(), "");
    assert_eq!(t.firn_on("copy", &["scan"], b"").text(), left);
    assert!(t.firn_on("copy", &["verify"], b"").text().contains("sound"));
}

#[test]
fn damage_is_found_and_named() {
    let t = Temp::new("cli", "damage");
    let text: Vec<u8> = (0..5000)
        .flat_map(|i| format!("key{i:05}\tvalue {}\n", i * 7919 % 5000).into_bytes())
        .collect();
    t.firn_on("db", &["load", "-"], &text).good();
    t.firn_bytes(&["compact"]).good();
    let sound = t.firn_bytes(&["verify", "--json"]).json();
    assert_eq!(
        (&sound["sound"], &sound["entries"], &sound["tables"]),
        (&true.into(), &5000.into(), &1.into())
    );
    let table = t.content("db").into_keys().find(|n| n.ends_with(".sst")).unwrap();
    let mut bytes = fs::read(t.path("db").join(&table)).unwrap();
    bytes[5000] ^= 0x40;
    fs::write(t.path("db").join(&table), &bytes).unwrap();
    let before = t.content("db");
    let ran = t.firn_bytes(&["verify"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let words = String::from_utf8(ran.out).unwrap();
    assert!(
        words.contains(&table)
            && words.contains("offset")
            && words.contains("backup")
            && words.contains("1 error"),
        "{words}"
    );
    let ran = t.firn_bytes(&["verify", "--json"]);
    assert_eq!(ran.code, 1);
    let found: serde_json::Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(
        (&found["sound"], &found["errors"][0]["kind"]),
        (&false.into(), &"corruption".into())
    );
    assert!(
        found["errors"][0]["file"].as_str().unwrap().ends_with(&table)
            && found["errors"][0]["offset"].is_u64()
    );
    t.firn_bytes(&["scan"]).said(1, &["corruption", &table, "firn --db db verify"]);
    assert_eq!(t.content("db"), before);
}

#[test]
fn all_damage_is_found_at_once() {
    let t = Temp::new("cli", "damages");
    for i in 0..3 {
        let tree = format!("t{i}");
        let text: Vec<u8> =
            (0..500).flat_map(|i| format!("key{i:05}\tvalue\n").into_bytes()).collect();
        t.firn_on("db", &["load", "-", "--tree", &tree], &text).good();
    }
    let tables: Vec<String> = t.content("db").into_keys().filter(|n| n.ends_with(".sst")).collect();
    assert_eq!(tables.len(), 3);
    let cut = fs::read(t.path("db").join(&tables[0])).unwrap();
    fs::write(t.path("db").join(&tables[0]), &cut[..cut.len() - 10]).unwrap();
    fs::remove_file(t.path("db").join(&tables[2])).unwrap();
    let ran = t.firn_bytes(&["verify", "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let found: serde_json::Value = serde_json::from_slice(&ran.out).unwrap();
    let files: Vec<&str> =
        found["errors"].as_array().unwrap().iter().map(|e| e["file"].as_str().unwrap()).collect();
    assert!(
        files.len() == 2 && files[0].ends_with(&tables[0]) && files[1].ends_with(&tables[2]),
        "{found}"
    );
    assert_eq!((&found["tables"], &found["entries"]), (&1.into(), &500.into()));
    assert_eq!(found["errors"][1]["keys"], serde_json::json!(["key00000", "key00499"]));
    assert!(String::from_utf8(t.firn_bytes(&["verify"]).out).unwrap().contains("2 errors"));
    assert_eq!(t.firn_bytes(&["get", "key00001", "--tree", "t1"]).text(), "value\n");
    t.firn_bytes(&["get", "key00001", "--tree", "t0"]).said(2, &["error:", "firn --db db verify"]);
}

/// A missing live table is damage for every command, and so is a missing `CURRENT` next to tables.
#[test]
fn a_missing_file_is_damage() {
    let t = Temp::new("cli", "missing");
    t.firn_on("db", &["load", "-"], b"apple\tred\n").good();
    t.firn_bytes(&["compact"]).good();
    let table = t.content("db").into_keys().find(|n| n.ends_with(".sst")).unwrap();
    fs::rename(t.path("db").join("CURRENT"), t.path("CURRENT")).unwrap();
    t.firn_bytes(&["get", "apple"])
        .said(2, &["this file is missing", "sstable-dump repair", "firn --db db verify"]);
    assert_eq!(t.firn_bytes(&["verify"]).code, 1);
    fs::rename(t.path("CURRENT"), t.path("db").join("CURRENT")).unwrap();
    fs::rename(t.path("db").join(&table), t.path("db").join("kept.sst")).unwrap();
    for (code, command) in
        [(2, &["get", "apple"][..]), (1, &["scan"]), (2, &["delete", "apple"]), (2, &["compact"])]
    {
        t.firn_bytes(command).said(
            code,
            &["a live table is missing", &table, "checkpoint or a backup", "sstable-dump salvage"],
        );
    }
    fs::rename(t.path("db").join("kept.sst"), t.path("db").join(&table)).unwrap();
    t.firn_bytes(&["get", "apple"]).good();
}

/// Ctrl-C stops a load after the current chunk.
#[cfg(unix)]
#[test]
fn an_interrupted_load_says_how_to_continue() {
    let t = Temp::new("cli", "interrupt");
    let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["--db", "db", "load", "-", "--chunk", "10"])
        .current_dir(&t.0)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = (0..).map(|i| format!("key{i:09}\tvalue\n").into_bytes());
    let mut more = move || input.write_all(&lines.by_ref().take(1000).collect::<Vec<_>>().concat());
    // With the first chunk in the store, the command waits for the signal.
    while t.firn_bytes(&["get", "key000000000"]).code != 0 {
        more().unwrap();
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    while more().is_ok() {}
    let out = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(130), "{err}");
    assert!(err.contains("at the end of a chunk; load the file again"), "{err}");
    assert!(t.firn_bytes(&["verify"]).text().contains("sound"));
}

#[test]
fn a_command_without_arguments_takes_the_store() {
    let t = Temp::new("cli", "argument");
    let run = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_firn")).args(args).current_dir(&t.0).output();
        let out = out.unwrap();
        let said = [out.stdout, out.stderr].concat();
        (out.status.code().unwrap(), String::from_utf8_lossy(&said).into_owned())
    };
    t.firn_bytes(&["put", "a", "b"]).good();
    for command in ["stats", "trees", "verify", "compact"] {
        let (code, said) = run(&[command, "db"]);
        assert_eq!(code, 0, "{command}: {said}");
    }
    let (code, said) = run(&["--db", "db", "verify", "db"]);
    assert!(code == 2 && said.contains("named twice"), "{said}");
    t.firn_bytes(&["put", "c", "d"]).good();
    let report: serde_json::Value =
        serde_json::from_str(&run(&["verify", "db", "--json"]).1).unwrap();
    assert_eq!(report["log_records"], 1);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let t = Temp::new("cli", "pipe");
    let text: Vec<u8> =
        (0..50_000).flat_map(|i| format!("key{i:05}\tvalue\n").into_bytes()).collect();
    t.firn_on("db", &["load", "-"], &text).good();
    let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["--db", "db", "scan"])
        .current_dir(&t.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), &out.stderr[..]), (Some(0), &b""[..]));
}

/// A log that has lost its end is damage for `verify` and for `sstable-dump check`. A flipped bit
/// in the mark of a clean close is not.
#[test]
fn a_log_that_was_cut_off_is_damage() {
    let t = Temp::new("cli", "cut-log");
    t.firn_bytes(&["put", "a", "1", "b", "2"]).good();
    let name = t.content("db").into_keys().find(|n| n.ends_with(".wal")).unwrap();
    let log = t.path("db").join(name);
    let whole = fs::read(&log).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 4;
    fs::write(&log, flipped).unwrap();
    assert_eq!(t.firn_bytes(&["verify"]).code, 0);
    assert_eq!(t.firn_bytes(&["get", "b"]).text(), "2\n");
    fs::write(&log, &whole[..80]).unwrap();
    t.firn_bytes(&["verify"]).said(1, &[]);
    let found = String::from_utf8(t.firn_bytes(&["verify"]).out).unwrap();
    assert!(found.contains("has been cut off") && found.contains("a backup"), "{found}");
}

/// The exit code is right even if the reader of the output stops early.
#[test]
fn a_closed_pipe_makes_no_store_sound() {
    let t = Temp::new("cli", "pipe-verify");
    t.firn_on("db", &["load", "-"], b"apple\tred\n").good();
    t.firn_bytes(&["compact"]).good();
    let table = t.content("db").into_keys().find(|n| n.ends_with(".sst")).unwrap();
    fs::remove_file(t.path("db").join(table)).unwrap();
    let mut verify = Command::new(env!("CARGO_BIN_EXE_firn"))
        .arg("--db")
        .arg(t.path("db"))
        .arg("verify")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(verify.stdout.take());
    assert_eq!(verify.wait().unwrap().code(), Some(1));
}

#[test]
fn cli_runs_scripts_from_files_pipes_and_the_command_line() {
    let t = Temp::new("cli", "wide");
    let schema = t.file(
        "schema.txt",
        b"-- Music\ncreate keyspace Music;\nuse Music;\ncreate column family users\n  with comparator = UTF8Type;\n",
    );
    let made = t.firn_bytes(&["cli", "-f", &schema]).text();
    assert!(
        made.contains("... schemas agree across the cluster\nAuthenticated to keyspace: Music\n"),
        "{made}"
    );
    let set = t
        .firn_on(
            "db",
            &["cli", "-k", "music"],
            b"set users[ann][name] = Ann; set users[bob][name] = Bob\n",
        )
        .text();
    assert_eq!(set.matches("Value inserted.\n").count(), 2, "{set}");
    let got = t
        .firn_bytes(&["cli", "--keyspace", "Music", "-e", "get users[ann];\nexit; get users[bob];"])
        .text();
    assert!(
        got.starts_with("=> (column=name, value=Ann, timestamp=")
            && got.contains("Returned 1 results."),
        "{got}"
    );
    assert!(!got.contains("Bob"), "{got}");
    let echoed = t.firn_bytes(&["cli", "--echo", "-e", "use\n Music; count users[bob];"]).text();
    assert_eq!(
        echoed,
        "[default@unknown] use\n...\t Music;\nAuthenticated to keyspace: Music\n[default@Music] count users[bob];\n1 columns\n"
    );
}

#[test]
fn cli_stops_at_the_first_failure_without_go_on() {
    let t = Temp::new("cli", "wide-failures");
    let script = t.file(
        "s.txt",
        b"create keyspace K; use K;\nget\n  nosuch;\ncreate column family Raw;\nset Raw[a][b] = zz;\ncount Raw[a];\n",
    );
    let stopped = t.firn_bytes(&["cli", "-f", &script]);
    stopped.said(1, &["s.txt:2: line 3, column 9: met ';', expected '[' or 'where'"]);
    assert!(!String::from_utf8_lossy(&stopped.out).contains("Value inserted."));
    let went_on = t.firn_on("other", &["cli", "-f", &script, "--go-on"], b"");
    went_on.said(1, &["s.txt:2: "]);
    assert!(String::from_utf8_lossy(&went_on.out).ends_with("1 columns\n"));
    let strict = t.firn_on("strict", &["cli", "-f", &script, "--go-on", "--strict"], b"");
    strict.said(
        1,
        &[
            "Line 3 => Syntax error at position 0: no viable alternative at input 'get'",
            "Line 5 => org.apache.cassandra",
        ],
    );
    t.firn_bytes(&["cli", "-f", "absent.txt"]).said(2, &["cannot read absent.txt"]);
    t.firn_bytes(&["cli", "-k", "Nope"]).said(2, &["Keyspace 'Nope' not found.", "show keyspaces"]);
    t.firn_bytes(&["cli", "-f", "a", "-e", "b"]).said(2, &["cannot be used with"]);
}

#[test]
fn a_demo_fills_a_store_that_can_be_asked() {
    let t = Temp::new("cli", "demo");
    let ran = t.firn_bytes(&["demo", "bloggy"]);
    ran.said(0, &["cli -k BloggyAppy"]);
    let output = ran.text();
    for line in [
        "        tags: \"movie,horror,\",",
        "        | by Arin Sarkissian (@phatduckk), 2009-08-18 01:13:24+0000",
    ] {
        assert!(output.lines().any(|l| l == line), "{line}");
    }
    t.firn_bytes(&["demo", "bloggy"]).said(2, &["BloggyAppy already", "another directory"]);
    let got = t
        .firn_bytes(&[
            "cli",
            "-k",
            "BloggyAppy",
            "-e",
            "get Authors['Arin Sarkissian']['twitter'] as ascii;",
        ])
        .text();
    assert!(got.contains("value=phatduckk"), "{got}");
    t.firn_bytes(&["demo", "songs", "--json"]).said(2, &["no JSON"]);
    t.firn_bytes(&["demo", "songs"]).said(0, &["cli -k Music"]);
}

#[test]
fn purge_report_lists_blockers_and_compact_purges() {
    let t = Temp::new("cli", "purge");
    t.firn_bytes(&["demo", "bloggy"]).good();
    let change = "update column family Authors with gc_grace = 0; del Authors['Author 2'];";
    t.firn_bytes(&["cli", "-k", "BloggyAppy", "-e", change]).good();
    let before = t.content("db");
    let reports = t.firn_bytes(&["purge-report", "--keyspace", "BloggyAppy", "--json"]).json();
    assert_eq!(t.content("db"), before, "a report writes nothing");
    assert_eq!(
        (reports.as_array().unwrap().len(), &reports[0]["family"], &reports[0]["gc_grace"]),
        (4, &"Authors".into(), &0.into())
    );
    // Grace counts in seconds: the second of the deletion must pass.
    std::thread::park_timeout(std::time::Duration::from_millis(1100));
    t.firn_bytes(&["compact"]).good();
    let report = t
        .firn_bytes(&["purge-report", "--keyspace", "BloggyAppy", "--family", "Authors", "--json"])
        .json();
    assert_eq!(
        (&report[0]["tables"][0]["entries"], report[0]["tables"].as_array().unwrap().len()),
        (&4.into(), 1)
    );
    let text =
        t.firn_bytes(&["purge-report", "--keyspace", "BloggyAppy", "--family", "Authors"]).text();
    assert!(text.starts_with("Authors: 1 table in the tree cf-1"), "{text}");
    t.firn_bytes(&["purge-report", "--keyspace", "Nope"]).said(2, &["Nope does not exist"]);
    t.firn_bytes(&["purge-report", "--keyspace", "BloggyAppy", "--family", "Nope"])
        .said(2, &["Nope"]);
}

#[test]
fn the_article_is_a_script() {
    let t = Temp::new("cli", "article");
    let script =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../engine/wide-text/examples/article.txt");
    let output = t.firn_bytes(&["cli", "-f", script]).text();
    let after = |of: &str| -> Vec<String> {
        output
            .match_indices(of)
            .map(|(at, _)| {
                output[at + of.len()..].split(',').next().unwrap().trim_end_matches(')').to_owned()
            })
            .collect()
    };
    let supers =
        ["Bob", "John", "Kim", "Tod", "friend1", "William", "joey", "homeAddress", "workAddress"];
    assert_eq!(after("(super_column="), supers);
    let names = after("=> (column=");
    let profiles = ["age", "email", "gender", "phone", "username", "email", "phone", "username"];
    assert_eq!(names[..8], profiles);
    assert_eq!(names[8..], ["3", "123", "976", "832416", "123", "3", "832416", "976"]);
    assert_eq!(after("     (column=")[..4], ["city", "state", "street", "zip"]);
}

#[test]
fn the_answer_about_likes_is_a_script() {
    let t = Temp::new("cli", "answer");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../engine/wide-text/examples/likes.txt");
    let output = t.firn_bytes(&["cli", "-f", script]).text();
    let counted = "=> (counter=dislikes, value=0)\n=> (counter=likes, value=1)\n=> (counter=views, value=3)\n";
    assert!(output.contains(counted), "{output}");
    let at = |part: &str| output.find(part).unwrap_or_else(|| panic!("{part} in {output}"));
    let song = "=> (column=722e5680-4d40-11e0-8001-000000000002, value=";
    // Nothing at first, then a dislike, then a like.
    assert!(
        at("Value was not found") < at(&format!("{song}1,"))
            && at(&format!("{song}1,")) < at(&format!("{song}2,"))
    );
    assert!(
        at("RowKey: 722e5680-4d40-11e0-8001-000000000001\n=> (column=user_name, value=eve")
            < at("Value was not found")
    );
    at(
        "RowKey: 722e5680-4d40-11e0-8001-000000000003\n=> (column=comment, value=what kind of guitar is it?",
    );
    // The command of that time refused the last of its families.
    let strict = t.firn_on("strict", &["cli", "--strict", "-f", script], b"");
    strict.said(1, &["cannot parse 'likes' as hex bytes"]);
    assert!(!String::from_utf8_lossy(&strict.out).contains("Value"), "{strict:?}");
}
