//! Tests `firn bench` from the command line: measurements, output, and treatment of existing
//! stores.
#![allow(clippy::disallowed_methods, missing_docs)] // these tests make and read the files that a user would name

use super::common;

use common::{Ran, Temp};
use serde_json::Value;
use std::fs;

fn steps(bench: &Value) -> Vec<String> {
    bench["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["step"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_bench_larger_than_memory_counts_device_io() {
    let t = Temp::new("bench", "ltm");
    let small = ["--keys", "3000", "--memtable-size", "1m", "--seconds", "1"];
    let all = t.json(&[&["bench", "ltm", "--limit", "0", "--json"][..], &small].concat());
    assert_eq!(
        steps(&all),
        [
            "fillrandom",
            "wait",
            "readrandom",
            "readrandom:2",
            "seekrandom",
            "multi_get of 64",
            "readseq"
        ]
    );
    assert!(
        all["steps"]
            .as_array()
            .unwrap()
            .iter()
            .all(|s| s["device_written_bytes"].is_u64() && s["operations"] != 0)
    );
    t.firn(&["bench", "ltm", "readrandom"]).said(2, &["takes no workloads beside it"]);
    // Runs inside a cgroup if one can be created, else prints advice.
    let limited = t.firn(&[&["bench", "ltm", "--limit", "256m", "--json"][..], &small].concat());
    match limited.0 {
        0 => assert!(limited.1.contains("\"limit\": 268435456"), "{}", limited.1),
        _ => drop(limited.said(2, &["no control group", "systemd-run", "--limit 0"])),
    }
}

#[test]
fn bench_measures_and_concludes() {
    let t = Temp::new("bench", "bench");
    let drawn = ["--series", "series.csv", "--html", "page.html"];
    let all = t.json(
        &[&["bench", "--keys", "2000", "--memtable-size", "1m", "--json"][..], &drawn].concat(),
    );
    let names = steps(&all);
    assert!(
        names.len() > 10 && names[0] == "fillrandom" && names.contains(&"compact".to_owned()),
        "{names:?}"
    );
    assert!(all["steps"][0]["outcome"]["ops_per_second"].as_f64().unwrap() > 0.0);
    assert!((1..=2000).contains(&all["live_keys"].as_u64().unwrap()));
    assert!(!all["advice"].as_array().unwrap().is_empty());
    let series = fs::read_to_string(t.path("series.csv")).unwrap();
    assert!(
        series.starts_with("step,workload,seconds,") && series.lines().count() >= 10,
        "{series}"
    );
    let page = fs::read_to_string(t.path("page.html")).unwrap();
    assert!(
        page.contains("\"frames\":[{")
            && page.contains("\"did\":\"compact\"")
            && !page.contains("/*DATA*/")
    );
    let rows = page.split("\"rows\":").nth(1).unwrap();
    let rows: Vec<Vec<String>> =
        serde_json::Deserializer::from_str(rows).into_iter().next().unwrap().unwrap();
    assert_eq!(rows.iter().map(|r| r[0].clone()).collect::<Vec<_>>(), names);
    // A later bench continues with the store of an earlier one, or replaces it.
    let kept = t.json(&[
        "bench",
        "readrandom:2",
        "--keep",
        "--keys",
        "2000",
        "--memtable-size",
        "1m",
        "--json",
    ]);
    assert_eq!(kept["live_keys"], all["live_keys"]);
    assert_eq!(t.firn(&["scan", "--limit", "3", "--keys-only", "--hex"]).good().lines().count(), 3);
    let text = t
        .firn(&[
            "bench",
            "fillseq",
            "readseq",
            "--keys",
            "500",
            "--memtable-size",
            "1m",
            "--policy",
            "lazy-leveled:3",
        ])
        .good();
    assert!(
        text.contains("ops/s") && text.contains("Next steps") && text.contains("fillseq"),
        "{text}"
    );
    assert_eq!(t.firn(&["scan", "--keys-only", "--hex"]).good().lines().count(), 500);
    fs::write(t.path("db/notes.txt"), "mine").unwrap();
    t.firn(&["bench", "--keys", "100"]).said(2, &["notes.txt", "left alone"]);
    assert_eq!(t.firn(&["scan", "--keys-only", "--hex"]).good().lines().count(), 500);
}

#[test]
fn bench_knows_ycsb_and_refuses_unknown_workloads() {
    let t = Temp::new("bench", "ycsb");
    let args = [
        "bench",
        "ycsb,mixgraph,deleterandom",
        "--keys",
        "1000",
        "--value-size",
        "50",
        "--threads",
        "2",
        "--json",
    ];
    let ran = t.json(&args);
    assert_eq!(steps(&ran)[..3], ["ycsb-load:2", "ycsb-a:2", "ycsb-b:2"]);
    assert_eq!(steps(&ran).len(), 9);
    t.firn(&["bench", "fillrand"]).said(2, &["no phase is called \"fillrand\"", "fillrandom"]);
    t.firn(&["bench", "--policy", "lazy-leveled:1"]).said(2, &["ratio"]);
    t.firn(&["bench", "--keys", "0"]).said(2, &["number of keys"]);
}

#[test]
fn bench_merges_and_deletes_ranges() {
    let t = Temp::new("bench", "merges");
    let small = ["--keys", "3000", "--memtable-size", "1m", "--json"];
    let ran = t.json(
        &[&["bench", "mergerandom,compact,readseq,fillseq,deleterange@5,readmissing"][..], &small]
            .concat(),
    );
    let outcomes: Vec<&Value> =
        ran["steps"].as_array().unwrap().iter().map(|s| &s["outcome"]).collect();
    assert_eq!(
        (&outcomes[0]["classes"][0]["kind"], &outcomes[0]["ops"]),
        (&"merge".into(), &3000.into())
    );
    // Two thirds of the keys were found, and counters have their own values.
    assert!((1500..2500).contains(&outcomes[2]["ops"].as_u64().unwrap()), "{ran}");
    assert_eq!(
        (&outcomes[4]["classes"][0]["kind"], &outcomes[4]["ops"]),
        (&"delete-range".into(), &5.into())
    );
    assert!((2400..3000).contains(&ran["live_keys"].as_u64().unwrap()), "{ran}");
    t.firn(&["bench", "readrandom", "--keep"]).said(2, &["merge operator \"firn.bench.sums\""]);
}

#[test]
fn benches_of_shapes_measure_every_case() {
    let t = Temp::new("bench", "shapes");
    // Each number of trees runs in its own process. Several numbers must not make each process
    // measure several.
    for (numbers, expected) in [("1,3,3", vec![1, 3, 3]), ("2", vec![2])] {
        let all = t.json(&["bench", "trees", "--trees", numbers, "--keys", "2000", "--json"]);
        let made: Vec<u64> =
            all["cases"].as_array().unwrap().iter().map(|c| c["trees"].as_u64().unwrap()).collect();
        assert_eq!(made, expected);
        assert!(
            all["cases"]
                .as_array()
                .unwrap()
                .iter()
                .all(|c| c["puts_per_second"].as_f64().unwrap() > 0.0),
            "{all}"
        );
    }
    let text = t.firn(&["bench", "trees", "--trees", "1,2", "--keys", "2k"]).good();
    assert!(text.contains("2,000 puts of 116 bytes") && text.lines().count() >= 4, "{text}");
    let small = t.json(&["bench", "small", "--stores", "3", "--records", "5", "--json"]);
    assert!((small["stores"] == 3) && small["steps"].as_array().unwrap().len() >= 7, "{small}");
    let quick =
        ["--deletions", "1000", "--rounds", "1", "--recipe", "3000", "--recipe-seconds", "1"];
    let queue = t.json(&[&["bench", "queue", "--json"][..], &quick].concat());
    assert!(queue["cases"].as_array().unwrap().len() >= 40, "{queue}");
    let one = t.json(&[&["bench", "queue", "--orders", "any", "--json"][..], &quick].concat());
    assert!(one["cases"].as_array().unwrap().iter().all(|c| c["order"] == "in any order"), "{one}");
    let many = t.json(
        &[&["bench", "queue", "--orders", "queues", "--queues", "100", "--json"][..], &quick]
            .concat(),
    );
    assert!(
        many["cases"].as_array().unwrap().iter().all(|c| c["order"] == "100 queues in turn"),
        "{many}"
    );
    t.firn(&[&["bench", "queue", "--queues", "101"][..], &quick].concat())
        .said(2, &["1 to 100, a tenth of --deletions"]);
    let cliffs = t.json(&["bench", "cliffs", "--history", "200", "--bound", "1e9", "--json"]);
    assert!(cliffs["cases"].as_array().unwrap().len() >= 10, "{cliffs}");
}

#[test]
fn bench_leaves_a_loaded_store_alone() {
    let t = Temp::new("bench", "loaded");
    t.firn(&["put", "a", "1"]).good();
    t.firn(&["bench", "--keys", "100"]).said(2, &["no bench has made", "--db"]);
    assert_eq!(t.firn(&["scan"]).good(), "a\t1\n");
}

#[test]
fn a_bench_does_not_delete_user_keys() {
    let t = Temp::new("bench", "mine");
    let bench = ["bench", "fillseq", "--keys", "100"];
    t.firn(&bench).good();
    // Completes a removal that was interrupted.
    fs::remove_file(t.path("db/CURRENT")).unwrap();
    t.firn(&bench).good();
    t.firn(&["put", "k", "v", "--tree", "mine"]).good();
    t.firn(&bench).said(2, &["holds the tree \"mine\", which no bench has made", "--db"]);
    t.firn(&["bench", "cliffs", "--history", "100"]).said(2, &["the tree \"mine\""]);
    assert_eq!(t.firn(&["get", "k", "--tree", "mine"]).good(), "v\n");
    // The only tree belongs to the bench, so it is not the default tree.
    let other = |args: &[&str]| Ran::of(t.run("other", args, b""));
    other(&bench).good();
    other(&["put", "k", "v"]).said(0, &["\"default\""]);
    other(&bench).said(2, &["the tree \"default\""]);
    assert_eq!(other(&["get", "k"]).good(), "v\n");
}

#[test]
fn unused_options_of_a_bench_are_refused() {
    let t = Temp::new("bench", "options");
    for (args, takes) in [
        (&["trees", "--html", "x.html"][..], "--trees, --keys"),
        (&["small", "--keep"], "--stores, --records"),
        (&["queue", "--series", "x.csv"], "--deletions"),
        (&["cliffs", "--stores", "1"], "--bound, --history"),
        (&["ltm", "--reads", "5"], "--limit, --seconds"),
        (&["fillseq", "--rows", "2000"], "--keys, --key-size"),
        (&["--model", "wide", "--keep"], "--rows, --columns"),
        (&["--model", "cql", "--threads", "1"], "--rows, --memory-budget"),
    ] {
        let option = args.iter().rfind(|a| a.starts_with("--")).unwrap();
        t.firn(&[&["bench"], args].concat()).said(2, &[&format!(" does not take {option}"), takes]);
    }
    for args in [
        &["trees", "small"][..],
        &["fillseq", "cliffs"],
        &["ltm", "ltm"],
        &["--model", "wide", "fillseq"],
    ] {
        t.firn(&[&["bench"], args].concat())
            .said(2, &["takes no workloads beside it", "run it alone"]);
    }
    t.firn(&["bench", "cliffs", "--bound", "0"]).said(2, &["a number above 0"]);
    t.firn(&["bench", "cliffs", "--bound", "nan"]).said(2, &["a number above 0"]);
    t.firn(&["bench", ""]).said(2, &["no phase is named"]);
    t.firn(&["bench", "fillseq", "--keys", "100", "--html", "nowhere/x.html"])
        .said(2, &["cannot create nowhere/x.html"]);
    // Each is refused before anything is created.
    assert!(!t.path("db").exists());
    fs::write(t.path("file"), "").unwrap();
    Ran::of(t.run("file", &["bench"], b"")).said(2, &["file is no directory", "--db DIR"]);
}

#[cfg(feature = "cluster")]
#[test]
fn statements_are_measured_at_a_cluster_and_beside_it() {
    use firn_server::{Options, Server};
    let t = Temp::new("bench", "cluster");
    let server = Server::start(Options::ephemeral()).unwrap();
    let url = format!("cassandra://{}?consistency=ONE", server.address());
    let bench = ["bench", "--model", "cql", "--rows", "1000", "--connect", &url];
    let told = t.json(&[&bench[..], &["--replication", "3", "--json"]].concat());
    assert_eq!(told["options"]["nodes"], server.address().to_string());
    assert_eq!(
        (&told["options"]["consistency"], &told["options"]["replication"]),
        (&"ONE".into(), &3.into())
    );
    let lines = told["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 5);
    assert!(
        lines
            .iter()
            .all(|l| l["ns"].as_f64().unwrap() > 0.0 && l["beside_ns"].as_f64().unwrap() > 0.0)
    );
    // The bench leaves nothing at the cluster, and does not change other data there.
    let rows = |cql: &str| server.session().execute(cql, ());
    assert!(rows("DESCRIBE KEYSPACE bench").is_err());
    rows("CREATE KEYSPACE bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").unwrap();
    t.firn(&bench).said(2, &["has a keyspace bench", "DROP KEYSPACE bench"]);
    assert!(rows("DESCRIBE KEYSPACE bench").is_ok());
    server.stop().unwrap();
    let other = |args: &[&str], said: &str| {
        t.firn(&[&["bench"], args].concat()).said(2, &[said]);
    };
    other(&["--connect", &url], "does not take --connect");
    other(&["--model", "cql", "--connect", &url, "--tls-ca", "x"], "does not take --tls-ca");
    other(&["--model", "cql", "--connect", &url], "cannot connect to");
}
