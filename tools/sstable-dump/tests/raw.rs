//! `raw` on the golden files: every kind is printed, damage is rejected. `.ci/format-spec` checks
//! that the fields are right.
#![allow(clippy::disallowed_methods, reason = "temporary directories")]

use std::path::{Path, PathBuf};

use clap::Parser;
use firn_kv::OsEnv;
use firn_tools::output::{Done, Failure};
use serde_json::Value;
use sstable_dump::DumpCli;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format-spec/golden/v1")
}

fn raw(files: &[PathBuf], json: bool) -> (Done, String) {
    let mut args = vec!["sstable-dump".to_owned(), "raw".to_owned()];
    args.extend(json.then(|| "--json".to_owned()));
    args.extend(files.iter().map(|f| f.display().to_string()));
    let mut out = vec![];
    let done = sstable_dump::run(&DumpCli::parse_from(args), &mut out);
    (done, String::from_utf8(out).unwrap())
}

fn one(file: &str) -> Value {
    serde_json::from_str(&raw(&[golden().join(file)], true).1).unwrap()
}

#[test]
fn each_kind_of_file_is_shown() {
    let table = one("tables/00000035.sst");
    assert_eq!((&table["kind"], &table["footer"]["file_id"]), (&"table".into(), &35.into()));
    let entries = &table["data"]["blocks"][0]["content"]["entries"];
    assert_eq!((entries[0]["value"].as_str(), entries[0]["kind"].as_u64()), (Some(""), Some(1)));
    let log = one("logs/001-closed/00000001.wal");
    assert_eq!(log["records"].as_array().unwrap().iter().filter(|r| r["kind"] == 2).count(), 1);
    assert_eq!(log["damage"], Value::Array(vec![]));
    let manifest = one("stores/007/MANIFEST-000001");
    assert!(manifest["frames"][0]["edits"][0]["snapshot"]["store_id"].is_u64());
    assert_eq!(one("stores/007/CURRENT")["manifest"], "MANIFEST-000001");

    let (done, text) =
        raw(&[golden().join("stores/007/CURRENT"), golden().join("tables/00000035.sst")], false);
    assert!(
        done.is_ok()
            && text.contains("  manifest: MANIFEST-000001\n")
            && text.contains("    file_id: 35\n"),
        "{text}"
    );
}

#[test]
fn a_damaged_file_is_refused_and_the_next_one_is_shown() {
    let dir = std::env::temp_dir().join(format!("sstable-dump-raw-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let bad = dir.join("00000035.sst");
    let env = OsEnv::new();
    let mut bytes = env.read_all(&golden().join("tables/00000035.sst"), 1 << 20).unwrap();
    bytes[60] ^= 1;
    env.create(&bad).unwrap().append(&bytes).unwrap();
    let (done, text) = raw(&[bad, golden().join("logs/001-torn-last-record/00000001.wal")], true);
    std::fs::remove_dir_all(dir).unwrap();
    assert!(matches!(done, Err(Failure::Found)), "{done:?}");
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((&lines[0]["error_kind"], lines.len()), (&"corruption".into(), 2));
    assert_eq!(lines[1]["damage"].as_array().map(Vec::len), Some(1));
    assert!(matches!(raw(&[golden().join("expected.jsonl")], true).0, Err(Failure::Engine(_))));
}
