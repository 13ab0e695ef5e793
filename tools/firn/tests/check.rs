//! Tests `firn check`: a store with each kind of finding, and a store without findings.
#![allow(missing_docs)]

use super::common;

use std::fmt::Write as _;
use std::sync::Arc;

use common::{Ran, Temp};
use firn_wide::{CfDef, Comparator, KsDef, Malformed, Options, Registry, TypeError, Wide};
use serde_json::Value;

const KEYSPACE: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2};\nUSE shop;\n";

const SCHEMA: &str = "
CREATE TABLE items (id int PRIMARY KEY, name text, price int, tags set<text>, sizes list<int>);
CREATE TABLE sales (item int, at timestamp, amount int, note text, PRIMARY KEY (item, at));
CREATE TABLE hits (page text PRIMARY KEY, n counter);
CREATE INDEX by_price ON items (price);
CREATE CUSTOM INDEX by_name ON items (name) USING 'org.apache.cassandra.index.sasi.SASIIndex';
CREATE CUSTOM INDEX by_note ON sales (note) USING 'StorageAttachedIndex';
CREATE MATERIALIZED VIEW by_amount AS SELECT * FROM sales
  WHERE item IS NOT NULL AND at IS NOT NULL AND amount IS NOT NULL PRIMARY KEY (amount, item, at);
CREATE FUNCTION half (n int) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS 'n / 2';
CREATE FUNCTION plus (s int, n int) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS 's + n';
CREATE AGGREGATE total (int) SFUNC plus STYPE int INITCOND 0;
CREATE TABLE old (p int, c int, v int, PRIMARY KEY (p, c)) WITH COMPACT STORAGE;
CREATE TABLE secret (p int PRIMARY KEY, v text MASKED WITH DEFAULT);
CREATE TABLE brief (p int PRIMARY KEY, v int) WITH default_time_to_live = 500000000;
CREATE TABLE near (p int PRIMARY KEY, v vector<float, 3>);
CREATE TABLE merged (p int PRIMARY KEY) WITH compaction = {'class': 'UnifiedCompactionStrategy'};
CREATE TABLE pairs (p int PRIMARY KEY, v 'CompositeType(UTF8Type,Int32Type)');
CREATE TABLE large (p text, c int, v blob, m map<int, int>, PRIMARY KEY (p, c));
";

const STATEMENTS: &str = "
SELECT * FROM items;
SELECT * FROM items WHERE price = 3;
SELECT * FROM sales WHERE amount = 3 ALLOW FILTERING;
SELECT * FROM sales WHERE item = 1 AND amount = 3 ALLOW FILTERING;
SELECT * FROM sales WHERE item = 1 AND at BETWEEN '2020-01-01' AND '2030-01-01';
SELECT half(price), total(price) FROM items WHERE id = 1;
SELECT abs(price), to_json(name) FROM items WHERE id = 1;
SELECT writetime(tags) FROM items WHERE id = 1;
UPDATE items SET sizes[0] = 3 WHERE id = 1;
UPDATE items SET sizes = sizes + [4] WHERE id = 1;
UPDATE items SET price = 4 WHERE id = 1 IF price = 3;
UPDATE hits SET n = n + 1 WHERE page = 'a';
SELECT unixTimestampOf(now()) FROM sales WHERE item = 1;
INSERT INTO sales (item, at) VALUES (2, '2026-01-01') USING TTL 600000000;
";

impl Temp {
    fn check(&self, args: &[&str]) -> (i32, Value) {
        let done = Ran::of(self.firn_with(&[&["check", "--json"], args].concat(), b""));
        let report =
            serde_json::from_str(&done.1).unwrap_or_else(|e| panic!("{e}: {}{}", done.1, done.2));
        (done.0, report)
    }

    fn shop_cql(&self, args: &[&str], script: &str) {
        Ran::of(self.run("shop", &[&["cql"], args].concat(), script.as_bytes())).good();
    }
}

/// Returns gravity, rule and place of each finding.
fn told(report: &Value) -> Vec<(String, String, String)> {
    let text = |f: &Value, of: &str| f[of].as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|f| (text(f, "gravity"), text(f, "rule"), text(f, "place"))).collect()
}

#[track_caller]
fn assert_told(report: &Value, wanted: &[(&str, &str, &str)]) {
    let all = told(report);
    for (gravity, rule, place) in wanted {
        let is_it = |(g, r, p): &(String, String, String)| g == gravity && r == rule && p == place;
        assert!(all.iter().any(is_it), "{gravity} {rule} {place} is not in {all:#?}");
    }
}

fn finding<'r>(report: &'r Value, rule: &str) -> &'r Value {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|f| f["rule"] == rule);
    found.unwrap_or_else(|| panic!("{rule} is not in {report:#}"))
}

#[test]
fn each_kind_of_definition_and_statement_is_found() {
    let t = Temp::new("check", "kinds");
    // Statements that ran while the table existed.
    let script = format!(
        "{KEYSPACE}{SCHEMA}INSERT INTO items (id, name, price, tags, sizes) VALUES (1, 'a', 3, {{'x'}}, [1]);\n{STATEMENTS}"
    );
    t.shop_cql(&["--log", "asked"], &script);
    let (code, five) = t.check(&["--for", "cassandra-5", "shop", "--statements", "asked"]);
    assert_eq!(code, 1, "{five:#}");
    assert_told(
        &five,
        &[
            ("refused", "view", "shop.by_amount"),
            ("refused", "sasi", "shop.items"),
            ("refused", "function", "shop.half"),
            ("refused", "aggregate", "shop.total"),
            ("refused", "mask", "shop.secret"),
            ("refused", "between", "shop.sales"),
            ("refused", "calls-function", "shop.items"),
            ("refused", "native-function", "shop.sales"),
            ("refused", "time-to-live", "shop.sales"),
            ("refused", "time-to-live", "shop.brief"),
            ("refused", "compact-storage", "shop.old"),
            ("does badly", "reads-all", "shop.items"),
            ("does badly", "asks-every-node", "shop.items"),
            ("does badly", "filters", "shop.sales"),
            ("does badly", "reads-list", "shop.items"),
            ("differs", "filters-partition", "shop.sales"),
            ("differs", "condition", "shop.items"),
            ("differs", "not-twice", "shop.items"),
            ("differs", "not-twice", "shop.hits"),
            ("differs", "view-follows", "shop.by_amount"),
            ("differs", "index-cost", "shop.items"),
            ("differs", "composite", "shop.pairs"),
        ],
    );
    let rules: Vec<String> = told(&five).into_iter().map(|(_, rule, _)| rule).collect();
    for fine in ["storage-attached", "vector", "compaction", "one-replica", "counters"] {
        assert!(!rules.iter().any(|r| r == fine), "{fine}: {five:#}");
    }
    // Each finding has advice, the worst come first, and a statement is shown.
    let findings = five["findings"].as_array().unwrap();
    assert!(findings.iter().all(|f| f["next"].as_str().is_some_and(|next| next.len() > 10)));
    let order = ["refused", "does badly", "not judged", "differs"];
    let places: Vec<_> =
        findings.iter().map(|f| order.iter().position(|o| f["gravity"] == *o).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(
        finding(&five, "filters")["at"],
        "SELECT * FROM sales WHERE amount = 3 ALLOW FILTERING"
    );

    let (_, four) = t.check(&["--for", "cassandra-4", "shop", "--statements", "asked"]);
    assert_told(
        &four,
        &[
            ("refused", "storage-attached", "shop.sales"),
            ("refused", "vector", "shop.near"),
            ("refused", "compaction", "shop.merged"),
            ("refused", "native-function", "shop.items"),
            ("refused", "mask", "shop.secret"),
        ],
    );
    let (_, scylla) = t.check(&["--for", "scylla", "shop", "--statements", "asked"]);
    assert_told(
        &scylla,
        &[
            ("refused", "storage-attached", "shop.sales"),
            ("refused", "sasi", "shop.items"),
            ("refused", "mask", "shop.secret"),
            ("refused", "compact-storage", "shop.old"),
            ("refused", "compaction", "shop.merged"),
            ("not judged", "counters", "shop.hits"),
            ("not judged", "vector", "shop.near"),
        ],
    );
    let rules: Vec<String> = told(&scylla).into_iter().map(|(_, rule, _)| rule).collect();
    assert!(!rules.iter().any(|r| r == "view" || r == "asks-every-node"), "{rules:?}");
    // The text output has the same findings.
    let text = Ran::of(t.firn_with(&["check", "--for", "scylla", "shop"], b""));
    let printed = text.said(1, &[]);
    assert!(printed.contains("refused: shop.items: the index by_name on name"), "{printed}");
    assert!(printed.contains("shop for ScyllaDB: "), "{printed}");
}

#[test]
fn sizes_are_measured_with_the_key_where_they_are() {
    let t = Temp::new("check", "sizes");
    let mut script = format!("{KEYSPACE}{SCHEMA}");
    writeln!(
        script,
        "INSERT INTO large (p, c, v) VALUES ('a value', 1, 0x{});",
        "00".repeat(2 << 20)
    )
    .unwrap();
    for n in 0..700 {
        let entries: Vec<String> = (0..100).map(|i| format!("{}: 1", n * 100 + i)).collect();
        writeln!(
            script,
            "UPDATE large SET m = m + {{{}}} WHERE p = 'a map' AND c = 1;",
            entries.join(", ")
        )
        .unwrap();
    }
    for c in 0..1200 {
        writeln!(script, "INSERT INTO large (p, c, v) VALUES ('deleted', {c}, 0x00);").unwrap();
        writeln!(script, "DELETE FROM large WHERE p = 'deleted' AND c = {c};").unwrap();
    }
    for c in 0..30 {
        writeln!(
            script,
            "INSERT INTO large (p, c, v) VALUES ('wide', {c}, 0x{});",
            "11".repeat(100 << 10)
        )
        .unwrap();
    }
    script.push_str(
        "INSERT INTO sales (item, at, amount) VALUES (7, '2026-01-01', 3) USING TTL 600000000;\n",
    );
    t.shop_cql(&[], &script);
    let (code, report) = t.check(&["--for", "cassandra-5", "shop"]);
    assert_eq!(code, 1);
    let found = |rule: &str| {
        let f = finding(&report, rule);
        (f["at"].as_str().unwrap().to_owned(), f["measured"].as_u64().unwrap())
    };
    assert_eq!(found("cell_bytes"), ("p = 'a value'".to_owned(), 2 << 20));
    assert_eq!(found("collection_elements"), ("p = 'a map'".to_owned(), 70_000));
    assert_eq!(found("partition_tombstones"), ("p = 'deleted'".to_owned(), 1200));
    // The data of a view is measured too.
    assert_told(&report, &[("refused", "last_expiry", "shop.sales")]);
    let (at, second) = found("last_expiry");
    assert!(at == "amount = 3" && second > 2_147_483_646, "{at} {second}");
    assert!(finding(&report, "cell_bytes")["what"].as_str().unwrap().contains("column v"));
    let tables = report["tables"].as_array().unwrap();
    let large = tables.iter().find(|table| table["table"] == "large").unwrap();
    assert_eq!((&large["partitions"], &large["rows"]), (&3.into(), &32.into()), "{large:#}");
    let widest = &large["greatest"]["partition_bytes"];
    assert_eq!(widest["key"], "p = 'wide'");
    let wide = widest["figure"].as_u64().unwrap();
    assert!((30 * (100 << 10)..31 * (100 << 10)).contains(&wide), "{wide}");

    // Figures within the bounds of another target are no finding.
    let (_, scylla) = t.check(&["--for", "scylla", "shop"]);
    let rules: Vec<String> = told(&scylla).into_iter().map(|(_, rule, _)| rule).collect();
    assert!(!rules.iter().any(|r| r == "partition_tombstones" || r == "last_expiry"), "{rules:?}");
    assert_eq!(finding(&scylla, "collection_elements")["limit"], 10_000);
    let (_, unread) = t.check(&["--for", "cassandra-5", "shop", "--definitions"]);
    assert_eq!(unread["tables"], serde_json::json!([]));
}

#[test]
fn a_sample_stands_for_the_whole() {
    let t = Temp::new("check", "sample");
    let mut script = format!("{KEYSPACE}CREATE TABLE t (p int PRIMARY KEY, v text);\n");
    for p in 0..4000 {
        writeln!(script, "INSERT INTO t (p, v) VALUES ({p}, 'twenty bytes of text');").unwrap();
    }
    t.shop_cql(&[], &script);
    let partitions = |args: &[&str]| {
        let (code, report) = t.check(&[&["--for", "scylla", "shop"], args].concat());
        assert_eq!(code, 0, "{report:#}");
        report["tables"][0]["partitions"].as_u64().unwrap()
    };
    assert_eq!(partitions(&[]), 4000);
    assert_eq!(partitions(&["--sample", "100%"]), 4000);
    let tenth = partitions(&["--sample", "10"]);
    assert!((300..500).contains(&tenth), "{tenth}");
    for wrong in ["0", "101", "-3", "x", "NaN"] {
        let done =
            Ran::of(t.firn_with(&["check", "--for", "scylla", "shop", "--sample", wrong], b""));
        assert_eq!(done.0, 2, "{wrong}: {}", done.2);
    }
}

#[test]
fn values_that_were_bound_are_judged_by_their_sizes() {
    let t = Temp::new("check", "bound");
    let script = format!(
        "{KEYSPACE}CREATE TABLE t (p int, c int, v blob, m map<int, int>, PRIMARY KEY (p, c));"
    );
    t.shop_cql(&[], &script);
    let insert = "INSERT INTO shop.t (p, c, v) VALUES (?, ?, ?)";
    let member =
        |bytes: u64| format!("{{\"statement\": \"{insert}\", \"values\": [4, 4, {bytes}]}}");
    let batch = |kind: &str, count: usize, bytes: u64, partitions: u64| {
        let members = vec![member(bytes); count].join(", ");
        format!(
            "{{\"time\": \"t\", \"batch\": \"{kind}\", \"members\": [{members}], \"partitions\": {partitions}}}"
        )
    };
    let log = [
        member(2 << 20),
        batch("LOGGED", 3, 3 << 10, 3),
        batch("LOGGED", 3, 30 << 10, 3),
        // A batch of one partition may be larger.
        batch("LOGGED", 3, 90 << 10, 1),
        batch("UNLOGGED", 12, 10, 12),
        "{\"statement\": \"SELECT * FROM t WHERE p IN ?\", \"keyspace\": \"shop\", \"values\": [[1600, 200]]}".to_owned(),
        "{\"statement\": \"SELECT v FROM t WHERE p IN ?\", \"keyspace\": \"shop\", \"values\": [[16, 2]]}".to_owned(),
        "{\"statement\": \"UPDATE shop.t SET m = ? WHERE p = 1 AND c = 1\", \"values\": [[900000, 70000]]}".to_owned(),
        "{\"statement\": \"SELCT\"}".to_owned(),
        "{\"statement\": \"SELECT * FROM gone\", \"keyspace\": \"shop\"}".to_owned(),
        "{\"statement\": \"SELECT nothing FROM t WHERE p = 1\", \"keyspace\": \"shop\"}".to_owned(),
        "{\"statement\": \"SELECT * FROM system.local\"}".to_owned(),
        "{\"statement\": \"SELECT oops FROM t\", \"keyspace\": \"shop\", \"error\": \"InvalidRequest\"}".to_owned(),
        format!("{{\"statement\": \"{insert}\", \"values\": [{0}, {0}, {0}], \"rows\": {0}}}", u64::MAX),
        "{\"cut off".to_owned(),
    ];
    let judged = |target: &str| {
        let text = log.join("\n");
        let args = ["check", "--json", "--for", target, "shop", "--statements", "-"];
        let done = Ran::of(t.firn_with(&args, text.as_bytes()));
        serde_json::from_str::<Value>(&done.1)
            .unwrap_or_else(|e| panic!("{e}: {}{}", done.1, done.2))
    };
    let five = judged("cassandra-5");
    assert_told(
        &five,
        &[
            ("does badly", "value-bytes", "shop.t"),
            ("refused", "write-bytes", "shop.t"),
            ("does badly", "batch-bytes", "shop.t"),
            ("refused", "batch-bytes", "shop.t"),
            ("does badly", "batch-partitions", "shop.t"),
            ("does badly", "in-values", "shop.t"),
            ("does badly", "in-unbounded", "shop.t"),
            ("does badly", "value-elements", "shop.t"),
            ("not judged", "unreadable", "a statement"),
            ("not judged", "no-table", "shop.gone"),
            ("not judged", "refused-here", "shop.t"),
            ("not judged", "no-line", "-"),
        ],
    );
    let findings = five["findings"].as_array().unwrap();
    let heavy = findings.iter().find(|f| f["rule"] == "batch-bytes" && f["gravity"] == "refused");
    assert_eq!(heavy.unwrap()["measured"], 3 * (8 + (30 << 10)) + 9 * 20);
    assert_eq!(five["statements"], 1 + 3 * 3 + 12 + 7 + 1);
    assert_eq!(five["statements_failed"], 1);
    let scylla = judged("scylla");
    assert_told(&scylla, &[("refused", "in-values", "shop.t")]);
    let rules: Vec<String> = told(&scylla).into_iter().map(|(_, rule, _)| rule).collect();
    assert!(!rules.iter().any(|r| r == "batch-bytes" || r == "batch-partitions"), "{rules:?}");
    assert_eq!(finding(&scylla, "in-values")["measured"], 200);

    // A script is judged like a log.
    let batch = |p: i32, condition: &str| {
        format!(
            "USE shop; BEGIN BATCH INSERT INTO t (p, c) VALUES (1, 1) {condition}; UPDATE t SET v = 0x00 WHERE p = {p} AND c = 2; APPLY BATCH;"
        )
    };
    let rules = |script: &str| {
        let args = ["check", "--json", "--for", "cassandra-5", "shop", "--statements", "-"];
        let done = Ran::of(t.firn_with(&args, script.as_bytes()));
        let report = serde_json::from_str(&done.1).unwrap();
        told(&report).into_iter().map(|(gravity, rule, _)| (gravity, rule)).collect::<Vec<_>>()
    };
    let spans = ("refused".to_owned(), "conditions-span".to_owned());
    assert!(rules(&batch(2, "IF NOT EXISTS")).contains(&spans));
    assert!(!rules(&batch(1, "IF NOT EXISTS")).contains(&spans));
    assert!(!rules(&batch(2, "")).contains(&spans));
    assert_eq!(rules("USE shop; BEGIN BATCH APPLY BATCH; ;;"), []);
}

#[test]
fn families_of_the_interface_before_are_found() {
    let t = Temp::new("check", "families");
    let script = "create keyspace Old; use Old; create column family Plain; create column family Deep with column_type = 'Super'; \
                  set Plain[utf8('k')][utf8('n')] = utf8('v'); set Deep[utf8('k')][utf8('s')][utf8('n')] = utf8('v');";
    Ran::of(t.run("shop", &["cli", "-e", script], b"")).good();
    let (code, report) = t.check(&["--for", "cassandra-5", "shop"]);
    assert_eq!(code, 1, "{report:#}");
    assert_told(
        &report,
        &[
            ("refused", "family", "\"Old\".\"Plain\""),
            ("refused", "super-columns", "\"Old\".\"Deep\""),
        ],
    );
    let cells: Vec<_> = report["tables"].as_array().unwrap().iter().map(|t| &t["cells"]).collect();
    assert_eq!(cells, [&Value::from(1), &Value::from(1)], "{report:#}");
}

/// A comparator that only its program has.
struct Mine;

impl Comparator for Mine {
    fn name(&self) -> &str {
        "com.example.Mine"
    }
    fn validate(&self, _: &[u8]) -> Result<(), TypeError> {
        Ok(())
    }
    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
        out.extend(value.iter().map(|byte| !byte));
        Ok(())
    }
    fn decode(&self, form: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend(form.iter().map(|byte| !byte));
        Ok(())
    }
    fn from_text(&self, _: &str, _: &mut Vec<u8>) -> Result<(), TypeError> {
        Ok(())
    }
    fn to_text(&self, _: &[u8]) -> String {
        String::new()
    }
}

#[test]
fn orders_of_a_program_are_found_without_the_program() {
    let t = Temp::new("check", "comparator");
    let mut registry = Registry::new();
    registry.register(Arc::new(Mine));
    let options = Options { registry: Arc::new(registry), ..Options::default() };
    let wide = Wide::open_with(t.path("shop"), options).unwrap();
    let of =
        |name: &str, class: &str| CfDef { comparator_type: class.into(), ..CfDef::new("K", name) };
    let families = vec![
        of("Plain", "com.example.Mine"),
        of("Deep", "CompositeType(ReversedType(com.example.Mine),UTF8Type)"),
    ];
    wide.system_add_keyspace(&KsDef { cf_defs: families, ..KsDef::new("K") }).unwrap();
    let row = wide.keyspace("K").unwrap().family("Plain").unwrap().row("a row");
    for name in ["b", "abc", "c"] {
        row.insert(name, "a value").unwrap();
    }
    wide.store().close().unwrap();
    drop((row, wide));
    let (code, report) = t.check(&["--for", "scylla", "shop"]);
    assert_eq!(code, 1, "{report:#}");
    let (plain, deep) = ("\"K\".\"Plain\"", "\"K\".\"Deep\"");
    assert_told(&report, &[("refused", "comparator", plain), ("refused", "comparator", deep)]);
    let tables = report["tables"].as_array().unwrap();
    let sizes = tables.iter().find(|table| table["table"] == "Plain").unwrap();
    assert_eq!((&sizes["partitions"], &sizes["cells"]), (&1.into(), &3.into()), "{sizes:#}");
}

#[test]
fn a_store_that_fits_is_said_to() {
    let t = Temp::new("check", "fits");
    let script = format!(
        "{KEYSPACE}CREATE TABLE songs (album text, track int, title text, PRIMARY KEY (album, track));\n\
         INSERT INTO songs (album, track, title) VALUES ('Help!', 1, 'Help!');\n\
         SELECT title FROM songs WHERE album = 'Help!';"
    );
    t.shop_cql(&["--log", "asked"], &script);
    let args = ["check", "--for", "cassandra-5", "shop", "--statements", "asked"];
    let printed = Ran::of(t.firn_with(&args, b"")).good();
    assert!(printed.contains("shop for Cassandra 5: nothing stands in the way"), "{printed}");
    assert!(printed.contains("1 table; 1 partition with"), "{printed}");
    // The same store, named by --db. A missing store, or one without keyspaces, cannot be checked.
    Ran::of(t.run("shop", &["check", "--for", "cassandra-5"], b"")).good();
    Ran::of(t.run("shop", &["check", "--for", "cassandra-5", "shop"], b"")).said(2, &["twice"]);
    Ran::of(t.firn_with(&["check", "--for", "scylla", "nowhere"], b"")).said(2, &["is no store"]);
    Ran::of(t.run("keys", &["put", "a", "b"], b"")).good();
    Ran::of(t.run("keys", &["check", "--for", "scylla"], b"")).said(2, &["no keyspaces"]);
    Ran::of(t.firn_with(&["check", "shop"], b"")).said(2, &["--for"]);
    // A log that cannot be written is reported.
    let statement = "SELECT * FROM system.local";
    Ran::of(t.run("shop", &["cql", "-e", statement, "--log", "nowhere/asked"], b""))
        .said(2, &["nowhere/asked"]);
    if cfg!(target_os = "linux") {
        Ran::of(t.run("shop", &["cql", "-e", statement, "--log", "/dev/full"], b""))
            .said(2, &["/dev/full"]);
    }
    let missing = ["check", "--for", "scylla", "shop", "--statements", "nothing"];
    Ran::of(t.firn_with(&missing, b"")).said(2, &["nothing"]);
}
