//! Tests `firn export --cassandra`: the exported files are imported again, cell by cell. Real nodes
//! have read such files (`docs/cassandra-files.md`).
#![allow(clippy::disallowed_methods, missing_docs)] // the tests read and damage what a user would name

use super::common;
mod drawn;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::{Ran, Temp};
use drawn::DrawnTable;
use firn_cassandra::{NodeCellState, NodeEvent, NodeFolder, NodeHeader, NodeTable, counter_sum};
use firn_cql::Session;
use firn_testkit::rng::Rng;
use firn_wide::internals::ring::murmur3;
use firn_wide::internals::store::ManualClock;
use firn_wide::{Options, StoreOptions};
use serde_json::Value;

/// Time of the writes to the stores of tests, in microseconds since 1970.
const NOW: i64 = 1_795_660_000_000_000;

fn open(temp: &Temp, db: &str) -> Session {
    let clock = Arc::new(ManualClock::new(NOW));
    let store = StoreOptions { clock: Some(clock), ..StoreOptions::default() };
    let options = Options { store, ..Options::default() };
    Session::open_with(temp.path(db), options).unwrap()
}

fn run(temp: &Temp, db: &str, args: &[&str]) -> Ran {
    Ran::of(temp.run(db, args, b""))
}

/// Returns the folders of tables below a folder, sorted.
fn folders(dir: &Path) -> Vec<PathBuf> {
    let list = |dir: &Path| -> Vec<PathBuf> {
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect()
    };
    let mut all: Vec<PathBuf> = list(dir).iter().flat_map(|keyspace| list(keyspace)).collect();
    all.sort();
    all
}

/// Content of the files of an export by table: headers, and events in order.
type Exported = BTreeMap<String, (Vec<NodeHeader>, Vec<NodeEvent>)>;

fn read(dir: &Path) -> Exported {
    let mut all = Exported::new();
    for folder in folders(dir) {
        let mut files: Vec<PathBuf> =
            fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
        files.retain(|f| NodeFolder::is_data(f));
        files.sort_by_key(|f| (f.as_os_str().len(), f.clone()));
        let name = folder.file_name().unwrap().to_str().unwrap().rsplit_once('-').unwrap().0;
        let (headers, events) = all.entry(name.to_owned()).or_default();
        for file in files {
            let parts = NodeFolder::of(&file).unwrap();
            let table = NodeTable::open(&parts).unwrap();
            let mut reader = table.read(&parts).unwrap();
            headers.push(table.header.clone());
            while let Some(mut event) = reader.advance().unwrap() {
                match &mut event {
                    NodeEvent::Partition(p) => p.position = 0,
                    NodeEvent::Marker(m) => m.position = 0,
                    NodeEvent::Row(r) => {
                        r.position = 0;
                        for cell in r.columns.iter_mut().flat_map(|c| &mut c.cells) {
                            // Each store counts as another node.
                            if let NodeCellState::Live(v) = &mut cell.state
                                && name == "counted"
                            {
                                *v = counter_sum([&**v]).unwrap().to_be_bytes().to_vec();
                            }
                        }
                    }
                }
                events.push(event);
            }
        }
    }
    all
}

/// Returns the answers to `SELECT`s of all data, with timestamps and times to live.
fn answers(session: &Session, drawn: &DrawnTable) -> Vec<String> {
    let select = |columns: &str, table: &str| {
        let all = session.execute(&format!("SELECT JSON {columns} FROM way.{table}"), ());
        let texts: Vec<(String,)> = all.unwrap().typed().unwrap();
        texts.into_iter().map(|t| t.0).collect::<Vec<_>>()
    };
    let times =
        ["s", "sl", "v", "w", "l", "m", "u", "fl"].map(|c| format!("writetime({c}), ttl({c})"));
    let columns = format!("a, b, c, d, s, sl, v, w, l, m, u, fl, {}", times.join(", "));
    [
        select(&columns, "wide"),
        select("*", "counted"),
        select("*", "keyed"),
        select(&drawn.select(), "drawn"),
    ]
    .concat()
}

const TABLES: [&str; 5] = [
    "CREATE KEYSPACE way WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE way.place (street text, number int, tags frozen<set<text>>)",
    "CREATE TABLE way.wide (a int, b text, c int, d text, s text static, sl list<int> static, v text, w bigint, l list<int>, m map<text, frozen<tuple<int, text>>>, u place, fl frozen<list<int>>, gone int, PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND bloom_filter_fp_chance = 0.1",
    "CREATE TABLE way.counted (k int, c int, n counter, s counter static, PRIMARY KEY (k, c))",
    "CREATE TABLE way.keyed (k text, t frozen<tuple<int, text>>, f frozen<map<int, frozen<place>>>, vec vector<float, 2>, PRIMARY KEY (k, t))",
];

/// Returns a statement about the wide table.
fn statement(rng: &mut Rng) -> String {
    let timestamp = 1_700_000_000_000_000 + rng.below(500);
    let mut using = format!("USING TIMESTAMP {timestamp}");
    let deletes = using.clone();
    if rng.one_in(3) {
        using.push_str([" AND TTL 1000", " AND TTL 300000000"][rng.below(2) as usize]);
    }
    let (c, d) = (rng.below(6), ["", "x", "yy"][rng.below(3) as usize]);
    let key = format!("a = {} AND b = '{}'", rng.below(3), ["", "one"][rng.below(2) as usize]);
    let row = format!("{key} AND c = {c} AND d = '{d}'");
    let n = rng.below(100);
    match rng.below(12) {
        0..4 => {
            let sets = [
                "s = 'by row'",
                "w = 7",
                "l = [1, 2]",
                "m = {'k': (1, null)}",
                "fl = [5]",
                "gone = 1",
                "u = {number: 1}",
            ];
            let set = sets[rng.below(7) as usize];
            format!("UPDATE way.wide {using} SET {set}, v = 'v{n}' WHERE {row}")
        }
        4 => format!("UPDATE way.wide {using} SET s = 's{n}', sl = sl + [{n}] WHERE {key}"),
        5 => format!(
            "UPDATE way.wide {using} SET l = l + [{n}], m['q'] = (null, null), u.street = 'x' WHERE {row}"
        ),
        6 => format!("DELETE v, m['k'], u.number, l, s FROM way.wide {deletes} WHERE {row}"),
        7 => format!("DELETE FROM way.wide {deletes} WHERE {row}"),
        8 => {
            let to = c + rng.below(3);
            let ranges = [
                format!("c >= {c} AND c < {to}"),
                format!("c > {c}"),
                format!("c = {c} AND d >= 'x'"),
                format!("(c, d) > ({c}, 'x') AND (c, d) <= ({to}, 'yy')"),
            ];
            format!(
                "DELETE FROM way.wide {deletes} WHERE {key} AND {}",
                ranges[rng.below(4) as usize]
            )
        }
        9 if rng.one_in(4) => format!("DELETE FROM way.wide {deletes} WHERE {key}"),
        _ => {
            let insert = "INSERT INTO way.wide (a, b, c, d, w)";
            let (a, b) = (rng.below(3), ["", "one"][rng.below(2) as usize]);
            format!("{insert} VALUES ({a}, '{b}', {c}, '{d}', {n}) {using}")
        }
    }
}

fn fill(session: &Session, seed: u64, count: usize) {
    TABLES.iter().for_each(|t| drop(session.execute(t, ()).unwrap()));
    let mut rng = Rng::new(seed);
    for i in 0..count {
        let text = statement(&mut rng);
        session.execute(&text, ()).unwrap_or_else(|e| panic!("{text}: {e}"));
        if i % 10 == 0 {
            let n = rng.below(9) as i64 - 4;
            let counts =
                format!("UPDATE way.counted SET n = n + {n}, s = s + 1 WHERE k = {n} AND c = 1");
            let counts = counts.replace(", s = s + 1", "");
            session.execute(&counts, ()).unwrap();
            session
                .execute(&format!("UPDATE way.counted SET s = s + 1 WHERE k = {n}"), ())
                .unwrap();
            let keyed = format!(
                "INSERT INTO way.keyed (k, t, f, vec) VALUES ('{n}', ({n}, null), {{1: {{number: {n}}}}}, [1.5, {n}])"
            );
            session.execute(&keyed, ()).unwrap();
        }
    }
    session.execute("DELETE FROM way.counted WHERE k = 1", ()).unwrap();
    session.execute("ALTER TABLE way.wide DROP gone", ()).unwrap();
}

#[test]
fn exports_are_imported_unchanged() {
    let mut dropped = 0;
    for seed in 0..8 {
        let temp = Temp::new("export", &format!("trip-{seed}"));
        let session = open(&temp, "db");
        fill(&session, seed, 60 + 60 * seed as usize);
        let mut rng = Rng::new(1000 + seed);
        let drawn = DrawnTable::new(&mut rng);
        drawn.fill(&session, &mut rng, 100);
        let said = answers(&session, &drawn);
        session.close().unwrap();
        drop(session);
        let compression = if seed % 2 == 0 { "lz4" } else { "none" };
        let export = ["export", "--cassandra", "nb", "out", "--compression", compression, "--json"];
        let output: Value = serde_json::from_str(&run(&temp, "db", &export).good()).unwrap();
        let out = temp.path("out");
        let (first, mut import) =
            (read(&out), vec!["import", "--schema", "out/schema.cql", "--cassandra"]);
        let places: Vec<String> = folders(&out).iter().map(|p| p.display().to_string()).collect();
        import.extend(places.iter().map(String::as_str));
        run(&temp, "copy", &import).good();
        let copy = open(&temp, "copy");
        assert_eq!(answers(&copy, &drawn), said, "seed {seed}");
        copy.close().unwrap();
        drop(copy);
        run(&temp, "copy", &["export", "--cassandra", "nb", "again"]).good();
        assert_eq!(read(&temp.path("again")), first, "seed {seed}");
        // The reported figures match the files.
        let cells = |r: &NodeEvent| match r {
            NodeEvent::Row(r) => r.columns.iter().map(|c| c.cells.len() as u64).sum(),
            _ => 0,
        };
        for table in output["tables"].as_array().unwrap() {
            let (_, events) = &first[table["table"].as_str().unwrap()];
            let partitions = events.iter().filter(|e| matches!(e, NodeEvent::Partition(_))).count();
            let found = (partitions as u64, events.iter().map(cells).sum::<u64>());
            let said = (&table["partitions"], &table["cells"]);
            assert_eq!(said, (&found.0.into(), &found.1.into()), "seed {seed}, {table}");
        }
        let wide =
            output["tables"].as_array().unwrap().iter().find(|t| t["table"] == "wide").unwrap();
        dropped += wide["left_out"]["cells_of_dropped_columns"].as_u64().unwrap();
    }
    assert!(dropped > 0);
}

/// No file has an entry that the file itself deletes: nodes rely on this.
#[test]
fn cells_under_a_deletion_are_left_out() {
    let temp = Temp::new("export", "covered");
    let session = open(&temp, "db");
    TABLES.iter().for_each(|t| drop(session.execute(t, ()).unwrap()));
    for (text, at) in [
        ("INSERT INTO way.wide (a, b, c, d, v, l, s) VALUES (1, '', 1, 'x', 'v', [1, 2], 's')", 10),
        ("INSERT INTO way.wide (a, b, c, d, v) VALUES (1, '', 1, 'newer', 'v')", 30),
        ("INSERT INTO way.wide (a, b, c, d, v) VALUES (1, '', 2, 'x', 'v')", 5),
        ("DELETE FROM way.wide WHERE a = 1 AND b = '' AND c = 1", 20),
        ("DELETE FROM way.wide WHERE a = 1 AND b = '' AND c = 1 AND d = 'x'", 15),
        ("DELETE FROM way.wide WHERE a = 1 AND b = '' AND c > 7", 6),
        ("DELETE FROM way.wide WHERE a = 1 AND b = ''", 8),
    ] {
        let using = format!("USING TIMESTAMP {at}");
        let text = match text.starts_with("INSERT") {
            true => format!("{text} {using}"),
            false => text.replace(" WHERE", &format!(" {using} WHERE")),
        };
        session.execute(&text, ()).unwrap();
    }
    session.close().unwrap();
    drop(session);
    let output =
        run(&temp, "db", &["export", "--cassandra", "nb", "out", "--tables", "way.wide", "--json"]);
    let output: Value = serde_json::from_str(&output.good()).unwrap();
    // v and two elements of l, and v of the second row.
    assert_eq!(output["tables"][0]["left_out"]["deleted_cells"], 4, "{output}");
    let (_, events) = &read(&temp.path("out"))["wide"];
    let kinds: Vec<String> = events
        .iter()
        .map(|e| match e {
            NodeEvent::Partition(p) => format!("partition {}", p.deletion.unwrap().timestamp),
            NodeEvent::Row(r) if r.is_static => "static".to_owned(),
            NodeEvent::Row(r) => {
                format!("row {}", String::from_utf8_lossy(r.clustering[1].as_ref().unwrap()))
            }
            NodeEvent::Marker(m) => {
                format!("range {}", m.open.as_ref().or(m.close.as_ref()).unwrap().1.timestamp)
            }
        })
        .collect();
    assert_eq!(kinds, ["partition 8", "static", "range 20", "row newer", "range 20"]);
}

#[test]
fn times_that_files_have_no_room_for_are_moved_and_said() {
    let temp = Temp::new("export", "moved");
    let session = open(&temp, "db");
    TABLES.iter().for_each(|t| drop(session.execute(t, ()).unwrap()));
    let insert =
        "INSERT INTO way.keyed (k, t, vec) VALUES ('k', (1, 'x'), [1, 2]) USING TTL 600000000";
    session.execute(insert, ()).unwrap();
    session.close().unwrap();
    drop(session);
    let done = run(
        &temp,
        "db",
        &["export", "--cassandra", "nb", "out", "--keyspace", "way", "--tables", "keyed"],
    );
    done.said(0, &["way.keyed: 2 times of deletions or ends of times to live moved"]);
    let (_, events) = &read(&temp.path("out"))["keyed"];
    let NodeEvent::Row(row) = &events[1] else { panic!("{events:?}") };
    let expiry = row.liveness.unwrap().expiry.unwrap();
    assert_eq!((expiry.ttl, expiry.expires), (600_000_000, i64::from(i32::MAX) - 1));
}

#[test]
fn files_end_when_they_are_large_and_nothing_is_half_there() {
    let temp = Temp::new("export", "large");
    let session = open(&temp, "db");
    TABLES.iter().for_each(|t| drop(session.execute(t, ()).unwrap()));
    let insert =
        session.prepare("INSERT INTO way.wide (a, b, c, d, v) VALUES (?, 'b', 1, 'd', ?)").unwrap();
    for a in 0..60 {
        session.run(&insert, (a, "x".repeat(50_000)), &Default::default()).unwrap();
    }
    session.close().unwrap();
    drop(session);
    let export = |more: &[&str]| {
        run(
            &temp,
            "db",
            &[&["export", "--cassandra", "nb", "out", "--tables", "way.wide"], more].concat(),
        )
    };
    export(&["--dry-run"])
        .said(0, &["way.wide has 60 partitions, 60 rows, 60 cells and 0 deletions"]);
    assert!(!temp.path("out").exists());
    fs::create_dir(temp.path("out.unfinished")).unwrap();
    export(&[]).said(2, &["out.unfinished exists, left by an interrupted export", "remove it"]);
    fs::remove_dir(temp.path("out.unfinished")).unwrap();
    fs::create_dir(temp.path("out")).unwrap();
    export(&["--max-size", "1m"])
        .said(0, &["60 partitions, 60 rows, 60 cells and 0 deletions of way.wide into 3 files"]);
    let (headers, events) = &read(&temp.path("out"))["wide"];
    assert_eq!((headers.len(), events.len()), (3, 120));
    assert!(!temp.path("out.unfinished").exists());
    export(&[]).said(2, &["out is there already", "new or empty"]);
    for (tables, why) in [
        ("way.none", "there is no table way.none"),
        ("wide", "the keyspace of the table \"wide\" is not known"),
    ] {
        let args = ["export", "--cassandra", "nb", "other", "--tables", tables];
        run(&temp, "db", &args).said(2, &[why]);
    }
    run(&temp, "db", &["export", "--cassandra", "nb", "other", "--keyspace", "no"])
        .said(2, &["no keyspace \"no\""]);
    run(&temp, "db", &["export", "--cassandra", "nb"]).said(2, &["DIR"]);
    assert!(!temp.path("other").exists() && !temp.path("other.unfinished").exists());
}

#[test]
fn an_export_that_is_killed_leaves_nothing_that_looks_whole() {
    let temp = Temp::new("export", "killed");
    let session = open(&temp, "db");
    fill(&session, 1, 300);
    session.close().unwrap();
    drop(session);
    let mut killed = 0;
    for round in 0..12_u32 {
        fs::remove_dir_all(temp.path("out")).ok();
        fs::remove_dir_all(temp.path("out.unfinished")).ok();
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["--db", "db", "export", "--cassandra", "nb", "out"])
            .current_dir(&temp.0)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Kills later from round to round; the number of files at that time is random.
        let stage = temp.path("out.unfinished/way");
        let seen = || fs::read_dir(&stage).map_or(0, |all| all.count() as u32);
        while child.try_wait().unwrap().is_none() && seen() < round % 4 {}
        child.kill().ok();
        child.wait().unwrap();
        if temp.path("out").exists() {
            assert_eq!(read(&temp.path("out")).len(), 3);
        } else {
            killed += 1;
        }
    }
    assert!(killed > 0);
}

/// Reports whether a filter may contain a key.
fn holds(filter: &[u8], key: &[u8]) -> bool {
    let [first, second] = murmur3(key);
    let bits = 8 * (filter.len() as i64 - 8);
    (0..u64::from(filter[3])).all(|i| {
        let bit =
            (second.wrapping_add(i.wrapping_mul(first)) as i64 % bits).unsigned_abs() as usize;
        filter[8 + bit / 8] & 1 << (bit % 8) != 0
    })
}

#[test]
fn filters_are_those_of_nodes() {
    let real =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../cassandra-files/tests/data/nb/blocks");
    let keys = |name: &str| {
        let parts = NodeFolder::of(&real.join(name)).unwrap();
        let mut reader = NodeTable::open(&parts).unwrap().read(&parts).unwrap();
        let mut keys = vec![];
        while let Some(event) = reader.advance().unwrap() {
            keys.extend(if let NodeEvent::Partition(p) = event { Some(p.key) } else { None });
        }
        keys
    };
    for file in ["nb-1-big", "nb-2-big"] {
        let filter = fs::read(real.join(format!("{file}-Filter.db"))).unwrap();
        let keys = keys(&format!("{file}-Data.db"));
        assert!(!keys.is_empty() && keys.iter().all(|key| holds(&filter, key)), "{file}");
    }
    let temp = Temp::new("export", "filter");
    let session = open(&temp, "db");
    TABLES.iter().for_each(|t| drop(session.execute(t, ()).unwrap()));
    for k in 0..500 {
        session
            .execute(&format!("INSERT INTO way.keyed (k, t) VALUES ('{k}', (1, 'x'))"), ())
            .unwrap();
    }
    session.close().unwrap();
    drop(session);
    run(&temp, "db", &["export", "--cassandra", "nb", "out", "--tables", "way.keyed"]).good();
    let filter = fs::read(folders(&temp.path("out"))[0].join("nb-1-big-Filter.db")).unwrap();
    let found = |from: u32, to: u32| {
        (from..to).filter(|k| holds(&filter, k.to_string().as_bytes())).count()
    };
    assert_eq!(found(0, 500), 500);
    // The false positive rate is 1 %.
    assert!(found(500, 5500) < 150, "{}", found(500, 5500));
}

#[test]
fn omitted_data_is_reported() {
    let temp = Temp::new("export", "behind");
    let session = open(&temp, "db");
    TABLES.iter().for_each(|t| drop(session.execute(t, ()).unwrap()));
    for text in [
        "CREATE TABLE way.old (k int PRIMARY KEY, v int) WITH COMPACT STORAGE",
        "CREATE TABLE way.based (k int PRIMARY KEY, v int)",
        "CREATE MATERIALIZED VIEW way.by_v AS SELECT * FROM way.based WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)",
        "CREATE INDEX by_n ON way.based (v)",
        "INSERT INTO way.based (k, v) VALUES (1, 2)",
        "UPDATE way.counted SET n = n + 1 WHERE k = 1 AND c = 1",
    ] {
        session.execute(text, ()).unwrap();
    }
    session.close().unwrap();
    drop(session);
    run(
        &temp,
        "db",
        &["cli", "-e", "use way; create column family Fam with comparator = UTF8Type;"],
    )
    .good();
    let done = run(&temp, "db", &["export", "--cassandra", "nb", "out"]);
    done.said(
        0,
        &[
            "note: way.counted: load counters only into a table that does not have them yet",
            "note: 1 view left to the node",
            "note: 2 compact tables and families left out: way.\"Fam\", way.old",
        ],
    );
    let schema = fs::read_to_string(temp.path("out/schema.cql")).unwrap();
    for (text, is_there) in [
        ("CREATE TYPE way.place", true),
        ("CREATE TABLE way.based", true),
        ("CREATE MATERIALIZED VIEW way.by_v", true),
        ("CREATE INDEX by_n", true),
        ("way.old", false),
        ("Fam", false),
    ] {
        assert_eq!(schema.contains(text), is_there, "{text} in\n{schema}");
    }
    for table in ["way.old", "way.by_v", "way.Fam"] {
        let args = ["export", "--cassandra", "nb", "other", "--tables", table];
        run(&temp, "db", &args).said(2, &["there is no table", "that can be exported"]);
    }
}
