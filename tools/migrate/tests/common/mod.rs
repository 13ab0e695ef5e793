//! Two stores side by side: their contents as events, in a form that can be compared.

#![allow(clippy::disallowed_methods, reason = "a test has no environment")]

use std::path::PathBuf;
use std::sync::LazyLock;

use firn_cassandra::{NodeCellState, NodeEvent, NodeRow, counter_sum};
use firn_cql::Session;
use firn_kv::OsEnv;
use firn_table_events::ExportedTable;
use firn_testkit::rng::Rng;
use firn_wide::internals::store::Partitions;

/// A directory that is removed after the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("firn-migrate-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&dir).ok();
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Start of the tests, in seconds since 1970.
static BEGAN: LazyLock<i64> = LazyLock::new(|| (OsEnv::new().wall_micros() / 1_000_000) as i64);

/// Formats an expiration as thousands of seconds since the start of the tests: drawn ones differ by
/// more, and a side may be some seconds late.
fn until(expires: i64) -> String {
    format!("until {} ks", (expires - *BEGAN) / 1000)
}

/// Removes the allowed differences: the second of a deletion, and the remaining seconds of a TTL at
/// the time of sending.
fn row_text(table: &ExportedTable, mut row: NodeRow) -> String {
    let columns = table.numbered(row.is_static);
    let names: Vec<_> =
        columns.iter().map(|c| c.map(|c| (c.name.clone(), c.of.to_string()))).collect();
    let mut out = format!("row {:?} {}", row.clustering, row.is_static);
    if let Some(l) = row.liveness {
        out.push_str(&format!(" marker {} {:?}", l.timestamp, l.expiry.map(|e| until(e.expires))));
    }
    out.push_str(&format!(" deleted {:?}", row.deletion.map(|d| d.timestamp)));
    for column in &mut row.columns {
        let (name, of) = names[column.column].clone().unwrap();
        let is_list = of.starts_with("list<");
        let deletion = column.deletion.filter(|_| !is_list).map(|d| d.timestamp);
        out.push_str(&format!("\n    {name} {deletion:?}"));
        for cell in &column.cells {
            let state = match &cell.state {
                NodeCellState::Live(v) if of == "counter" => format!("{:?}", counter_sum([&**v])),
                NodeCellState::Live(v) => format!("{v:?}"),
                NodeCellState::Expiring(v, e) => format!("{v:?} {}", until(e.expires)),
                NodeCellState::Deleted(_) if is_list => continue,
                NodeCellState::Deleted(_) => "deleted".to_owned(),
            };
            match is_list || of == "counter" {
                true => out.push_str(&format!("\n        {state}")),
                false => {
                    out.push_str(&format!("\n        {:?} {} {state}", cell.path, cell.timestamp))
                }
            }
        }
    }
    out
}

/// Returns the contents of a table without the allowed differences.
pub fn content(session: &Session, keyspace: &str, name: &str) -> Vec<String> {
    let engine = session.engine();
    let catalog = engine.fresh_catalog().unwrap();
    let schema = catalog.keyspace(keyspace).unwrap().table(name).unwrap().clone();
    let family = engine.family(&schema).unwrap();
    let view = engine.store().view();
    let table = ExportedTable::new(schema, family, view, engine.partitioner(), [7; 16]).unwrap();
    let mut out: Vec<String> = vec![];
    table
        .each(&Partitions::all(), &mut |event| {
            match event {
                NodeEvent::Partition(p) => {
                    out.push(format!(
                        "partition {:?} {:?}",
                        p.key,
                        p.deletion.map(|d| d.timestamp)
                    ));
                }
                NodeEvent::Row(row) => {
                    let text = row_text(&table, row.clone());
                    // An empty list was deleted, or never existed.
                    let is_nothing = text.lines().count() > 1
                        && text
                            .lines()
                            .skip(1)
                            .all(|l| l.trim_start().starts_with('l') && l.ends_with("None"))
                        && text.contains("deleted None\n")
                        && !text.contains("marker");
                    if !is_nothing {
                        out.push(text);
                    }
                }
                NodeEvent::Marker(m) => {
                    let side =
                        |s: &Option<(firn_cassandra::NodeBound, firn_cassandra::NodeDeletion)>| {
                            s.as_ref().map(|(_, d)| d.timestamp)
                        };
                    // Two adjacent ranges with the same timestamp have no bound between them.
                    if side(&m.close) != side(&m.open) {
                        let bound = m.open.as_ref().or(m.close.as_ref()).map(|s| &s.0.clustering);
                        let inclusive = match (&m.open, &m.close) {
                            (Some(open), _) => open.0.inclusive,
                            (None, Some(close)) => !close.0.inclusive,
                            (None, None) => false,
                        };
                        let sides = (side(&m.close), side(&m.open));
                        out.push(format!("marker {bound:?} {inclusive} {sides:?}"));
                    }
                }
            }
            Ok(())
        })
        .unwrap();
    out
}

/// Keyspaces, types and tables of all kinds.
pub const SCHEMA: &[&str] = &[
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE k.address (street text, zip int, tags frozen<set<text>>)",
    "CREATE TABLE k.wide (p int, q text, c int, d text, e int, s text static, sm map<int, text> static, v text, i int, \
     l list<int>, m map<text, int>, st set<int>, fl frozen<list<int>>, ad address, fa frozen<address>, \
     PRIMARY KEY ((p, q), c, d, e)) WITH CLUSTERING ORDER BY (c ASC, d DESC, e ASC) AND default_time_to_live = 77777",
    "CREATE TABLE k.flat (p int PRIMARY KEY, v text, l list<text>)",
    "CREATE TABLE k.keys (p int, c text, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)",
    "CREATE TABLE k.counts (p int, c int, sn counter static, n counter, o counter, PRIMARY KEY (p, c))",
    "CREATE INDEX flat_v ON k.flat (v)",
    "CREATE MATERIALIZED VIEW k.by_v AS SELECT * FROM k.flat WHERE v IS NOT NULL AND p IS NOT NULL PRIMARY KEY (v, p)",
];

/// The tables of [`SCHEMA`].
pub const TABLES: [(&str, &str); 4] =
    [("k", "counts"), ("k", "flat"), ("k", "keys"), ("k", "wide")];

/// Draws a statement of any type, with its own timestamp; sometimes on counters.
pub fn statement(rng: &mut Rng, timestamp: i64) -> String {
    let n = |rng: &mut Rng, most: u64| rng.below(most);
    let (p, q) = (n(rng, 8), n(rng, 2));
    let (c, d, e) = (n(rng, 4), n(rng, 3), n(rng, 3));
    let partition = format!("p = {p} AND q = 'q{q}'");
    let row = format!("{partition} AND c = {c} AND d = 'd{d}' AND e = {e}");
    let ttl = match n(rng, 4) {
        0 => 5_000 + 7_000 * n(rng, 3),
        _ => 0,
    };
    let using = format!("USING TIMESTAMP {timestamp} AND TTL {ttl}");
    let at = format!("USING TIMESTAMP {timestamp}");
    let v = n(rng, 1000);
    match n(rng, 26) {
        0 => format!("DELETE FROM k.wide {at} WHERE {partition}"),
        1 => format!("DELETE FROM k.wide {at} WHERE {row}"),
        2 => format!("DELETE FROM k.wide {at} WHERE {partition} AND c > {c}"),
        3 => format!(
            "DELETE FROM k.wide {at} WHERE {partition} AND c = {c} AND d >= 'd{d}' AND d < 'd9'"
        ),
        4 => format!(
            "DELETE FROM k.wide {at} WHERE {partition} AND c = {c} AND d = 'd{d}' AND e <= {e}"
        ),
        5 => format!("DELETE v, m FROM k.wide {at} WHERE {row}"),
        6 => format!("DELETE m['m{}'], st[{}], ad.zip FROM k.wide {at} WHERE {row}", v % 4, v % 5),
        7 => format!("DELETE s, sm[{}] FROM k.wide {at} WHERE {partition}", v % 3),
        8 | 9 => format!(
            "INSERT INTO k.wide (p, q, c, d, e, s, v, i, m, st, ad, fa) VALUES ({p}, 'q{q}', {c}, 'd{d}', {e}, 's{v}', 'v{v}', {v}, {{'m1': 1, 'm2': {v}}}, {{1, {v}}}, {{street: 'a{v}', zip: {v}, tags: {{'t'}}}}, {{street: 'b', zip: null, tags: null}}) {using}"
        ),
        10 => format!(
            "INSERT INTO k.wide (p, q, c, d, e) VALUES ({p}, 'q{q}', {c}, 'd{d}', {e}) {using}"
        ),
        11 => format!("UPDATE k.wide {using} SET v = 'w{v}', fl = [{v}] WHERE {row}"),
        12 => format!(
            "UPDATE k.wide {using} SET m['m{}'] = {v}, st = st + {{{}}} WHERE {row}",
            v % 4,
            v % 5
        ),
        13 => format!("UPDATE k.wide {using} SET ad.zip = {v} WHERE {row}"),
        14 => {
            format!("UPDATE k.wide {using} SET sm[{}] = 'x{v}', s = 't' WHERE {partition}", v % 3)
        }
        15 => format!("UPDATE k.wide {using} SET l = [{v}, {}] WHERE {row}", v + 1),
        16 => format!("UPDATE k.wide {at} SET l = l + [{v}] WHERE {row}"),
        17 => format!("UPDATE k.wide {at} SET i = {v}, m = {{'m3': 3}} WHERE {row}"),
        18 => {
            format!("INSERT INTO k.flat (p, v, l) VALUES ({v}, 'v{}', ['a', 'b']) {using}", v % 7)
        }
        19 => format!("DELETE FROM k.flat {at} WHERE p = {v}"),
        20 => format!("INSERT INTO k.keys (p, c) VALUES ({p}, 'c{v}') {using}"),
        21 => format!("DELETE FROM k.keys {at} WHERE p = {p} AND c < 'c{v}' AND c >= 'c{}'", v / 2),
        22 => format!("UPDATE k.counts SET sn = sn + {v} WHERE p = {p}"),
        23 => format!("UPDATE k.counts SET n = n + {v} WHERE p = {p} AND c = {c}"),
        _ => format!("UPDATE k.counts SET n = n - {v}, o = o + 2 WHERE p = {p} AND c = {}", v % 40),
    }
}

/// Creates the tables, and executes this many statements.
pub fn fill(session: &Session, rng: &mut Rng, statements: i64) {
    LazyLock::force(&BEGAN);
    for definition in SCHEMA {
        session.execute(definition, ()).unwrap();
    }
    write(session, rng, 1_000_000, statements);
}

/// Executes this many statements, with timestamps from `from` on, some of them out of order.
pub fn write(session: &Session, rng: &mut Rng, from: i64, statements: i64) {
    for number in 0..statements {
        let back = if rng.one_in(5) { rng.below(200) as i64 } else { 0 };
        let statement = statement(rng, from + number * 10 - back);
        session.execute(&statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
}

/// As [`write`]; the timestamps rise and are unique.
pub fn write_cells(session: &Session, rng: &mut Rng, from: i64, statements: i64) {
    for number in 0..statements {
        let statement = statement(rng, from + number * 10);
        session.execute(&statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
}

/// Asserts that both sides have the same contents.
#[track_caller]
pub fn assert_same(source: &Session, target: &Session, what: &str) {
    for (keyspace, table) in TABLES {
        let (here, there) = (content(source, keyspace, table), content(target, keyspace, table));
        for (a, b) in here.iter().zip(&there) {
            assert_eq!(a, b, "{what}, {table}");
        }
        assert_eq!(here.len(), there.len(), "{what}, {table}");
    }
}
