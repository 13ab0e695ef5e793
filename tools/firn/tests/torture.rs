//! Tests that `firn torture` continues an earlier run, and reports an error in the store.

#![allow(clippy::disallowed_methods, reason = "temporary directories")]

use serde_json::Value;

use super::common;
use common::Temp;

const SHORT: [&str; 11] = [
    "torture",
    "--seed",
    "11",
    "--millis",
    "150",
    "--keys",
    "64",
    "--shards",
    "8",
    "--seconds",
    "300",
];

fn torture(t: &Temp, more: &[&str]) -> (Option<i32>, Value) {
    let args: Vec<&str> = SHORT.iter().chain(more).chain(&["--json"]).copied().collect();
    let done = t.run("run", &args, b"");
    let out = String::from_utf8(done.stdout).unwrap();
    let said = serde_json::from_str(&out)
        .unwrap_or_else(|e| panic!("{e}: {out}\n{}", String::from_utf8_lossy(&done.stderr)));
    (done.status.code(), said)
}

#[test]
fn a_run_continues_and_counts_its_steps() {
    let t = Temp::new("torture", "goes-on");
    let (code, first) = torture(&t, &["--cycles", "6", "--faults", "all"]);
    assert_eq!(code, Some(0), "{first}");
    assert_eq!((first["cycles"].as_u64(), &first["wrong"]), (Some(6), &Value::Null));
    let (code, second) = torture(&t, &["--cycles", "3"]);
    assert_eq!((code, second["settings"]["faults"].as_str()), (Some(0), Some("all")), "{second}");
    assert!(
        first["steps"].as_u64() > Some(0) && first["killed_working"].as_u64() > Some(0),
        "{first}"
    );
}

#[test]
fn statements_go_through_a_server_too_and_it_stops_while_threads_work() {
    let t = Temp::new("torture", "served");
    let (code, said) = torture(&t, &["--cycles", "40"]);
    assert_eq!((code, &said["wrong"]), (Some(0), &Value::Null), "{said}");
    let count = |name: &str| said[name].as_u64().unwrap();
    // These follow from the seed; the amount of work does not.
    assert!((5..35).contains(&count("served_cycles")) && count("stopped_at_work") > 0, "{said}");
    let kinds: Vec<&String> = said["counts"].as_object().unwrap().keys().collect();
    let served = kinds.iter().filter(|kind| kind.ends_with(", served")).count();
    assert!(served >= 4 && served < kinds.len() / 2, "{said}");
}

#[test]
fn a_role_that_somebody_made_is_found_and_named() {
    let t = Temp::new("torture", "odd-role");
    assert_eq!(torture(&t, &["--cycles", "3"]).0, Some(0));
    let made = t.run("run/store", &["cql", "-e", "CREATE ROLE r1_9 WITH LOGIN = true"], b"");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (code, said) = torture(&t, &["--cycles", "1"]);
    assert_eq!(code, Some(1), "{said}");
    let what = said["wrong"]["what"].as_str().unwrap();
    assert!(what.contains("role 9 with [login]"), "{what}");
}

#[test]
fn a_lost_key_is_found_and_named() {
    let t = Temp::new("torture", "lost-key");
    assert_eq!(torture(&t, &["--cycles", "3"]).0, Some(0));
    // Not deleted by a step of the test: another process deletes keys of the first shards.
    let gone = t.run(
        "run/store",
        &["delete", "--tree", "plain", "--hex", "--from", "0000", "--to", "0004", "-y"],
        b"",
    );
    assert!(gone.status.success(), "{}", String::from_utf8_lossy(&gone.stderr));
    let (code, said) = torture(&t, &["--cycles", "1"]);
    assert_eq!(code, Some(1), "{said}");
    let what = said["wrong"]["what"].as_str().unwrap();
    assert!(what.contains("plain shard"), "{what}");
    assert!(t.path("run/failure.txt").exists());
}

#[test]
fn other_directories_are_left_alone() {
    let t = Temp::new("torture", "alone");
    std::fs::create_dir_all(t.path("run/letters")).unwrap();
    let done = t.run("run", &SHORT, b"");
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("is not empty"));
}
