//! `firn-bench` from the user's view: it measures like `firn bench`, and does not touch unknown
//! stores.
#![allow(
    clippy::disallowed_methods,
    reason = "a temporary directory, and a file that no bench has made"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use firn_kv::{Db, TreeOptions};

/// A directory that is removed after the test.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Temp {
        let dir = std::env::temp_dir().join(format!("firn-bench-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&dir).ok();
        std::fs::create_dir_all(&dir).unwrap();
        Temp(dir)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn bench(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firn-bench")).arg("--db").arg(dir).args(args).output().unwrap()
}

#[test]
fn it_measures_and_goes_on_with_its_own_store() {
    let t = Temp::new("own");
    let small = ["fillrandom,readrandom", "--keys", "2000", "--memtable-size", "1m", "--json"];
    for _ in 0..2 {
        let ran = bench(&t.0, &small);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let said: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        let steps: Vec<_> =
            said["steps"].as_array().unwrap().iter().map(|s| s["step"].as_str().unwrap()).collect();
        assert_eq!(steps, ["fillrandom", "readrandom"]);
    }
    let kept = bench(&t.0, &["readrandom", "--keep", "--keys", "2000"]);
    assert!(kept.status.success(), "{}", String::from_utf8_lossy(&kept.stderr));
}

#[test]
fn it_replaces_no_store_in_which_it_knows_not_all() {
    let t = Temp::new("other");
    assert!(bench(&t.0, &["fillseq", "--keys", "100"]).status.success());
    // A tree as created by the data model: `firn bench` would inspect it, this command does not
    // touch it.
    let db = Db::open(&t.0).unwrap();
    db.tree("system.schema", TreeOptions::default()).unwrap().put("k", "v").unwrap();
    drop(db);
    let ran = bench(&t.0, &["fillseq", "--keys", "100"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.code() == Some(2)
            && said.contains("system.schema")
            && said.contains("left alone"),
        "{said}"
    );
    assert!(Db::open(&t.0).unwrap().existing_tree("system.schema").unwrap().contains("k").unwrap());
}

#[test]
fn options_of_other_benches_are_refused() {
    let t = Temp::new("options");
    let ran = bench(&t.0, &["small", "--keys", "5"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(2) && said.contains("small does not take --keys"), "{said}");
}
