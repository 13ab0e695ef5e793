//! The command itself: exit codes, output streams, closed pipes.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly

use super::support;

use std::fs;
use std::process::{Command, Output};

use support::{Room, arg, table};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sstable-dump")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn exit_codes() {
    let room = Room::new("cli");
    let path = room.path("00000001.sst");
    table(&path, 50, 512);
    let good = run(&["check", &arg(&path)]);
    assert_eq!(good.status.code(), Some(0));
    assert!(
        text(&good.stdout).contains("sound")
            && good.stderr.is_empty()
            && !text(&good.stdout).contains('\x1b')
    );
    let mut bytes = fs::read(&path).unwrap();
    bytes[600] ^= 1;
    fs::write(&path, bytes).unwrap();
    let bad = run(&["check", &arg(&path), "--json"]);
    assert_eq!(bad.status.code(), Some(1));
    let v: serde_json::Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!((&v["sound"], &v["errors"][0]["offset"]), (&false.into(), &517.into()));
    let none = run(&["check", &arg(&room.path("none.sst"))]);
    assert_eq!((none.status.code(), none.stdout.is_empty()), (Some(2), true));
    assert!(text(&none.stderr).contains(" next:"), "{}", text(&none.stderr));
    assert_eq!(run(&["what"]).status.code(), Some(2));
    let coloured = run(&["check", &arg(&path), "--color", "always"]);
    assert!(text(&coloured.stdout).contains('\x1b'));
}

/// A misnamed table is read by its content, with a note on standard error.
#[test]
fn a_table_under_a_wrong_name() {
    let room = Room::new("wrong");
    let (path, other) = (room.path("00000001.sst"), room.path("00000007.sst"));
    table(&path, 50, 512);
    fs::copy(&path, &other).unwrap();
    for command in ["layout", "props", "scan", "filters"] {
        let (right, wrong) =
            (run(&[command, &arg(&path), "--json"]), run(&[command, &arg(&other), "--json"]));
        assert_eq!(wrong.status.code(), Some(0), "{command}: {}", text(&wrong.stderr));
        assert_eq!(
            text(&right.stdout),
            text(&wrong.stdout).replace("00000007", "00000001"),
            "{command}"
        );
        assert!(right.stderr.is_empty(), "{command}");
        assert!(
            text(&wrong.stderr).contains("this file holds table 1, not table 7"),
            "{command}: {}",
            text(&wrong.stderr)
        );
    }
    let raw = run(&["raw", &arg(&other), "--json"]);
    assert_ne!(raw.status.code(), Some(0), "to the specification it is no table 7");
}

#[test]
fn every_command_has_help_with_examples() {
    let help = text(&run(&["--help"]).stdout);
    let commands = [
        "check",
        "find",
        "salvage",
        "repair",
        "manifest",
        "wal",
        "space",
        "filters",
        "recompress",
        "layout",
        "props",
        "scan",
    ];
    for c in commands.into_iter().chain(["from-json"]) {
        assert!(help.contains(&format!("  {c} ")), "{c}");
        let out = run(&[c, "--help"]);
        assert_eq!(out.status.code(), Some(0));
        assert!(
            text(&out.stdout).contains("Examples:")
                && text(&out.stdout).contains(&format!("sstable-dump {c} ")),
            "{c}"
        );
    }
}

#[test]
fn the_output_of_scan_makes_the_same_file() {
    let room = Room::new("round");
    for (n, block) in [(0, 512), (1, 512), (300, 512), (300, 4096)] {
        let (path, json, back) = (
            room.path("00000001.sst"),
            room.path("t.jsonl"),
            room.path(&format!("{n}-{block}/00000001.sst")),
        );
        let _ = fs::remove_file(&path);
        table(&path, n, block);
        let out = run(&["scan", &arg(&path), "--all-versions", "--json"]);
        fs::write(&json, out.stdout).unwrap();
        let out = run(&["from-json", &arg(&json), "--out", &arg(&back)]);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        assert_eq!(fs::read(&path).unwrap(), fs::read(&back).unwrap());
    }
    let bad = room.path("bad.jsonl");
    let cases = [
        "{",
        "{\"key\":\"a\"}",
        "{\"key\":\"b\",\"seq\":1,\"value\":\"\"}\n{\"key\":\"a\",\"seq\":1,\"value\":\"\"}",
        "{\"key_hex\":\"zz\",\"seq\":1}",
    ];
    for case in cases {
        fs::write(&bad, case).unwrap();
        let out = room.path("bad/00000001.sst");
        let done = run(&["from-json", &arg(&bad), "--out", &arg(&out)]);
        assert_eq!(done.status.code(), Some(2), "{case}");
        assert!(text(&done.stderr).contains("line ") && !out.exists(), "{}", text(&done.stderr));
    }
}

#[test]
fn completions_and_pages() {
    let script = text(&run(&["completions", "bash"]).stdout);
    let all = [
        "check",
        "find",
        "salvage",
        "repair",
        "manifest",
        "wal",
        "space",
        "filters",
        "recompress",
        "layout",
        "props",
    ];
    firn_testkit::shell::completes(
        &script,
        "sstable-dump",
        &[&all[..], &["raw", "scan", "from-json"]].concat(),
    );
    assert!(text(&run(&["man", "check"]).stdout).contains("  sstable\\-dump check "));
}
