//! Tests `firn live` with a program that writes: the page shows the final state of the store, and a
//! browser displays it.
#![cfg(unix)] // it is ended as by Ctrl-C
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a process that is talked to, and its page")]

use super::common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Ran, Temp};
use firn_testkit::browser;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        // A process that has ended cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the data of a page.
fn data(page: &Path) -> Value {
    let html = fs::read_to_string(page).unwrap();
    let from = html.split_once("const data = ").unwrap().1;
    serde_json::Deserializer::from_str(from).into_iter().next().unwrap().unwrap()
}

const LOOK: &str = r#"<pre id="found"></pre><script>
el("found").textContent = JSON.stringify({ fault: el("fault").textContent, sizes: document.querySelectorAll(".size").length,
  stopped: document.querySelectorAll(".curve").length, at: +el("at").value, max: +el("at").max });
</script>"#;

#[test]
fn a_page_follows_a_writer() {
    let t = Temp::new("live", "follows");
    Ran::of(t.run("db", &["load", "-"], b"a\t1\n")).good();
    let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["live", "db", "--every", "0.1", "--json"])
        .current_dir(&t.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut watching = Watching(child);
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["state"], "written");
    let page = t.path("live.html");
    assert!(data(&page)["live"]["every"].as_f64() > Some(0.0));
    for round in 0..3 {
        let input: String =
            (0..2000).map(|i| format!("key{:07}\t{round}\n", i * 7 + round)).collect();
        Ran::of(t.run("db", &["load", "-"], input.as_bytes())).good();
        Ran::of(t.run("db", &["compact"], b"")).good();
    }
    kill_process(Pid::from_child(&watching.0), Signal::INT).unwrap();
    let last: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(last["state"], "complete");
    assert!(watching.0.wait().unwrap().success());
    let told = data(&page);
    assert_eq!(told["live"], Value::Null);
    let [case] = &told["cases"].as_array().unwrap()[..] else { panic!("{told}") };
    let frames = case["frames"].as_array().unwrap();
    let did: Vec<&str> = frames.iter().map(|f| f["did"].as_str().unwrap()).collect();
    assert!(did.iter().any(|d| d.starts_with("flush of 2,000 entries")), "{did:?}");
    assert!(did.iter().any(|d| d.starts_with("merge")), "{did:?}");
    let times: Vec<f64> = frames.iter().map(|f| f["t"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    // At the end it shows the state of the store.
    let stats: Value =
        serde_json::from_str(&Ran::of(t.run("db", &["stats", "--json"], b"")).good()).unwrap();
    let sum = |runs: &Value| -> u64 {
        runs.as_array().unwrap().iter().map(|r| r["bytes"].as_u64().unwrap()).sum()
    };
    let drawn = sum(&frames.last().unwrap()["runs"]);
    assert_eq!(drawn, sum(&stats["trees"][0]["runs"]), "{stats}");
    assert_eq!(frames.last().unwrap()["ops"], 6000);
    let html = fs::read_to_string(&page).unwrap() + LOOK;
    fs::write(&page, html).unwrap();
    if let Some(found) = browser::found(&page, 1000) {
        let v: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(v["fault"], "", "{v}");
        assert!(v["sizes"].as_u64() > Some(0) && v["stopped"].as_u64() > Some(1), "{v}");
    }
}

#[test]
fn what_cannot_be_watched_is_said() {
    let t = Temp::new("live", "refused");
    Ran::of(t.firn_with(&["live", "nothing"], b""))
        .said(2, &["nothing is no store", "firn live DIR"]);
    assert!(!t.path("live.html").exists() && !t.path("nothing").exists());
    Ran::of(t.run("db", &["load", "-"], b"a\t1\n")).good();
    Ran::of(t.firn_with(&["live", "db", "--tree", "other"], b""))
        .said(2, &["no tree \"other\"", "firn trees"]);
    Ran::of(t.firn_with(&["live", "db", "--every", "0"], b"")).said(2, &["a tenth of a second"]);
}
