//! Copies tables of a cluster into a store, and compares both sides. The cluster is Firn's own
//! server, or the one at `$FIRN_CLUSTER`, such as `cassandra://127.0.0.1:9042`.

#![allow(clippy::disallowed_methods, reason = "a test has no environment")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_cluster::Session;
use firn_cql::RunOptions;
use firn_cql::internals::catalog::TableSchema;
use firn_kv::{Env, OsEnv};
use firn_migrate::cells::CellQuery;
use firn_migrate::comparison::{TableComparison, verify_table};
use firn_migrate::copied::{CopyJournal, CopyPlan};
use firn_migrate::definitions::{DefinitionPhase, define};
use firn_migrate::from::{ClusterCopy, copy_table};
use firn_migrate::row_import::RowImporter;
use firn_migrate::source::source_schema;
use firn_migrate::token_ranges::TokenSpan;
use firn_migrate::verify::{CellDifference, DifferenceKind, VerifyCounts};
use firn_server::{Options, Server};
use firn_testkit::rng::Rng;
use firn_tools::output::Done;

/// The statements that create the tables, one for each feature.
const TABLES: &str = include_str!("data/tables.cql");

/// Two databases. The server, if it is ours, stops with them.
struct Sides {
    _server: Option<Server>,
    cluster: Session,
    store: firn_cql::Session,
}

impl Sides {
    /// Creates a cluster with all tables, in a keyspace of this name, and an empty store.
    fn new(keyspace: &str) -> Sides {
        let (server, url) = match std::env::var("FIRN_CLUSTER") {
            Ok(url) => (None, url),
            Err(_) => {
                let server = Server::start(Options::ephemeral()).unwrap();
                let url = format!("cassandra://{}", server.address());
                (Some(server), url)
            }
        };
        let cluster = Session::connect(&url).unwrap();
        let sides =
            Sides { _server: server, cluster, store: firn_cql::Session::in_memory().unwrap() };
        sides.at_cluster(&format!("DROP KEYSPACE IF EXISTS {keyspace}"));
        sides.at_cluster(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ));
        sides.at_cluster(&format!("USE {keyspace}"));
        for piece in firn_cql::Script::new(TABLES) {
            sides.at_cluster(&TABLES[piece.start..piece.end]);
        }
        sides
    }

    fn at_cluster(&self, cql: &str) {
        self.cluster.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
    }

    fn in_store(&self, cql: &str) {
        self.store.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
    }
}

impl Sides {
    /// Creates the cluster's schema in the store; returns its tables.
    fn define(&self, keyspace: &str) -> Vec<Arc<TableSchema>> {
        let schema = source_schema(&self.cluster, &[keyspace.to_owned()]).unwrap();
        assert_eq!(schema.left, []);
        let store = Session::from(self.store.clone());
        for definition in &schema.definitions {
            assert_ne!(definition.phase, DefinitionPhase::Never);
            define(&store, definition).unwrap_or_else(|e| panic!("{}: {e:?}", definition.text));
        }
        let catalog = self.store.engine().catalog();
        let find =
            |(k, t): &(String, String)| catalog.keyspace(k).unwrap().table(t).unwrap().clone();
        schema.tables.iter().map(find).collect()
    }

    fn query(&self, session: &Session, table: &Arc<TableSchema>) -> CellQuery {
        CellQuery::new(session, self.store.engine().partitioner(), table, None).unwrap()
    }

    fn copy(&self, table: &Arc<TableSchema>) -> RowImporter<'_> {
        let env = OsEnv::new();
        let query = self.query(&self.cluster, table);
        let mut taker = RowImporter::new(&self.store, table.clone(), 77_000_000).unwrap();
        let mut reader = query.read(&*env, TokenSpan::default());
        while let Some(row) = reader.advance().unwrap() {
            taker.take(&row).unwrap();
        }
        taker.flush().unwrap();
        taker
    }

    /// Compares the results of a statement on both sides as bytes; returns the number of rows.
    fn same_at_both(&self, cql: &str) -> usize {
        let rows = |session: &Session| {
            let rows = session.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
            let of = |row: firn_cql::Row<'_>| {
                (0..row.columns().len())
                    .map(|i| row.bytes(i).map(<[u8]>::to_vec))
                    .collect::<Vec<_>>()
            };
            rows.iter().map(of).collect::<Vec<_>>()
        };
        let (here, there) = (rows(&self.store.clone().into()), rows(&self.cluster));
        assert_eq!(here, there, "{cql}");
        here.len()
    }

    fn verify(&self, table: &Arc<TableSchema>) -> (VerifyCounts, Vec<CellDifference>) {
        let sides = TableComparison {
            firn: self.store.clone().into(),
            cluster: self.cluster.clone(),
            partitioner: self.store.engine().partitioner(),
            condition: None,
            has_statics: true,
            threads: 2,
            drift: 5,
            most: 10,
            stop: Arc::default(),
            env: OsEnv::new(),
        };
        verify_table(&Arc::new(sides), table, |_| {}).unwrap()
    }
}

#[test]
fn tables_of_every_kind_come_whole() {
    let sides = Sides::new("every_kind");
    let tables = sides.define("every_kind");
    assert_eq!(tables.len(), 4);
    for table in &tables {
        let (before, _) = sides.verify(table);
        assert!(before.total() > 0 && before.rows == 0, "{}: {before:?}", table.name);
        let taker = sides.copy(table);
        println!("{}: {:?}", table.name, taker.counts);
        let (counts, found) = sides.verify(table);
        println!("{counts:?}");
        assert_eq!(found, [], "{}", table.name);
        assert_eq!((counts.total(), counts.expired), (0, 0));
        assert_eq!(counts.cells, taker.counts.cells, "{}", table.name);
        // A second copy changes nothing.
        sides.copy(table);
        assert_eq!(sides.verify(table).0, counts);
    }
    // Compares data that the tool's own reader does not read: whole values, and the times that CQL
    // returns.
    let mut compared = 0;
    for table in ["every", "lines", "many", "plays"] {
        compared += sides.same_at_both(&format!("SELECT * FROM every_kind.{table}"));
    }
    for (table, column) in [
        ("every", "t"),
        ("every", "b"),
        ("every", "fu"),
        ("lines", "v"),
        ("lines", "st"),
        ("lines", "sm"),
        ("many", "m"),
        ("many", "s"),
        ("many", "l"),
        ("many", "p"),
        ("many", "p.number"),
        ("many", "mp[5]"),
        ("plays", "n"),
    ] {
        compared +=
            sides.same_at_both(&format!("SELECT writetime({column}) FROM every_kind.{table}"));
    }
    assert!(compared > 40, "{compared}");
    let left =
        sides.store.execute("SELECT n, skipped, total FROM every_kind.plays WHERE album = 'a'", ());
    let left: Vec<(i64, Option<i64>, i64)> = left.unwrap().typed().unwrap();
    assert_eq!(left, [(3, Some(1), 5), (1, None, 5)]);
}

/// A statement that damages the copy, with the expected difference: type, position, and values of
/// both sides.
type Damage = (&'static str, &'static str, DifferenceKind, &'static str);

const DAMAGES: [Damage; 13] = [
    (
        "every",
        "UPDATE every USING TIMESTAMP 3000 SET b = 10 WHERE k = 2 AND c = 'only updated'",
        DifferenceKind::Value,
        "every: k = 2, c = 'only updated', b is 10 in Firn, 9 in the cluster",
    ),
    (
        "every",
        "UPDATE every USING TIMESTAMP 3001 SET b = 9 WHERE k = 2 AND c = 'only updated'",
        DifferenceKind::WriteTime,
        "every: k = 2, c = 'only updated', b was written at 3001 in Firn, at 3000 in the cluster",
    ),
    (
        "every",
        "UPDATE every USING TIMESTAMP 2000 AND TTL 600000 SET t = 'lives a while' WHERE k = 1 AND c = 'all'",
        DifferenceKind::TimeToLive,
        "every: k = 1, c = 'all', t has to live ",
    ),
    (
        "every",
        "DELETE FROM every WHERE k = 3 AND c = 'key alone'",
        DifferenceKind::RowOnlyInCluster,
        "every: k = 3, c = 'key alone' is only in the cluster",
    ),
    (
        "every",
        "INSERT INTO every (k, c) VALUES (5, 'too many')",
        DifferenceKind::RowOnlyInFirn,
        "every: k = 5, c = 'too many' is only in Firn",
    ),
    (
        "every",
        "DELETE t FROM every WHERE k = 4 AND c = 'gone in part'",
        DifferenceKind::CellOnlyInCluster,
        "every: k = 4, c = 'gone in part', t is only in the cluster: 'stays'",
    ),
    (
        "many",
        "UPDATE many USING TIMESTAMP 10000 SET m['b'] = 3 WHERE k = 'whole'",
        DifferenceKind::Value,
        "many: k = 'whole', m['b'] is 3 in Firn, 2 in the cluster",
    ),
    (
        "many",
        "UPDATE many USING TIMESTAMP 10001 SET s = s + {2} WHERE k = 'whole'",
        DifferenceKind::WriteTime,
        "many: k = 'whole', s[2] was written at 10001 in Firn, at 10000 in the cluster",
    ),
    (
        "many",
        "UPDATE many USING TIMESTAMP 1 SET m['new'] = 0 WHERE k = 'whole'",
        DifferenceKind::CellOnlyInFirn,
        "many: k = 'whole', m['new'] is only in Firn: 0",
    ),
    (
        "many",
        "UPDATE many USING TIMESTAMP 11001 AND TTL 500000 SET p.number = 2 WHERE k = 'whole'",
        DifferenceKind::WriteTime,
        "many: k = 'whole', p.number was written at 11001 in Firn, at 11000 in the cluster",
    ),
    (
        "many",
        "UPDATE many SET l[1] = 'another' WHERE k = 'whole'",
        DifferenceKind::Value,
        "many: k = 'whole', l[1] is 'another' in Firn, 'x' in the cluster",
    ),
    (
        "lines",
        "UPDATE lines USING TIMESTAMP 20001 SET st = 'of all' WHERE a = 1 AND b = 'x'",
        DifferenceKind::WriteTime,
        "lines: a = 1, b = 'x', static, st was written at 20001 in Firn, at 20000 in the cluster",
    ),
    (
        "plays",
        "UPDATE plays SET n = n + 1 WHERE album = 'a' AND song = 's'",
        DifferenceKind::Value,
        "plays: album = 'a', song = 's', n is 4 in Firn, 3 in the cluster",
    ),
];

#[test]
fn each_damage_of_a_copy_is_found() {
    for (name, damage, kind, output) in DAMAGES {
        let sides = Sides::new("damaged");
        let tables = sides.define("damaged");
        tables.iter().for_each(|table| drop(sides.copy(table)));
        sides.in_store("USE damaged");
        sides.in_store(damage);
        for table in &tables {
            let (counts, found) = sides.verify(table);
            assert_eq!(counts.total(), u64::from(table.name == name), "{damage}: {found:?}");
            let Some(only) = found.first() else { continue };
            assert_eq!(only.kind, kind, "{damage}");
            let said = only.describe();
            assert!(said.starts_with(&format!("damaged.{output}")), "{damage}: {said}");
        }
    }
}

#[test]
fn data_that_cql_cannot_express_is_counted_separately() {
    let sides = Sides::new("split");
    let tables = sides.define("split");
    tables.iter().for_each(|table| drop(sides.copy(table)));
    // Like a list that was written to a cluster as one.
    sides.in_store("UPDATE split.many USING TIMESTAMP 12600 SET l = ['first', 'x', 'y', 'x', 'z'] WHERE k = 'whole'");
    let many = tables.iter().find(|t| t.name == "many").unwrap();
    let (counts, found) = sides.verify(many);
    assert_eq!((found.len(), counts.list_times), (1, 5), "{found:?}");
    assert_eq!(counts.uncompared().len(), 1);
    // An element that lives longer is a difference, and not only another time.
    assert_eq!(found[0].kind, DifferenceKind::TimeToLive);
    assert!(found[0].describe().contains("l[0] has to live for ever in Firn"), "{found:?}");
    sides.in_store("DELETE l FROM split.many USING TIMESTAMP 12600 WHERE k = 'whole'");
    sides.at_cluster("DELETE l FROM split.many USING TIMESTAMP 12600 WHERE k = 'whole'");
    // One side may have no trace of an almost expired cell.
    sides.in_store("INSERT INTO split.many (k, plain) VALUES ('soon', 1) USING TTL 3");
    let (counts, found) = sides.verify(many);
    assert_eq!((found, counts.expired), (vec![], 1));
}

/// A copy with its journal in its own directory.
struct Copied {
    env: Arc<dyn Env>,
    journal: PathBuf,
}

impl Copied {
    fn new(name: &str) -> Copied {
        let dir = std::env::temp_dir().join(format!("firn-copied-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Copied { env: OsEnv::new(), journal: dir.join("journal") }
    }

    fn open(&self, sides: &Sides, resume: bool) -> Done<Arc<ClusterCopy>> {
        let plan = CopyPlan {
            store: "store".to_owned(),
            tables: vec![],
            nodes: vec!["here".to_owned()],
            condition: None,
            began: 77_000_000,
        };
        Ok(Arc::new(ClusterCopy {
            cluster: sides.cluster.clone(),
            store: sides.store.clone(),
            condition: None,
            threads: 3,
            rate: None,
            stop: Arc::default(),
            env: self.env.clone(),
            journal: CopyJournal::open(&self.env, &self.journal, &plan, resume)?,
        }))
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        std::fs::remove_dir_all(self.journal.parent().unwrap()).unwrap();
    }
}

/// Number of times that the copy of a table is killed.
const CUTS: u32 = 6;

#[test]
fn a_copy_that_breaks_off_anywhere_goes_on_and_is_equal_in_the_end() {
    let sides = Sides::new("broken_off");
    let insert =
        sides.cluster.prepare("INSERT INTO many (k, m, l, plain) VALUES (?, ?, ?, ?)").unwrap();
    let add =
        sides.cluster.prepare("UPDATE plays SET n = n + ? WHERE album = ? AND song = 's'").unwrap();
    for n in 0..400 {
        let (k, m) = (format!("k{n}"), BTreeMap::from([(format!("m{n}"), n)]));
        let list: Vec<String> = (0..n % 5).map(|i| format!("l{i}")).collect();
        sides.cluster.run(&insert, (&*k, m, list, n), &RunOptions::default()).unwrap();
        sides.cluster.run(&add, (i64::from(n), &*k), &RunOptions::default()).unwrap();
    }
    let tables = sides.define("broken_off");
    let copied = Copied::new("broken-off");
    let mut rng = Rng::new(7);
    let (mut resume, mut stopped) = (false, 0);
    for name in ["many", "plays"] {
        let table = tables.iter().find(|t| t.name == name).unwrap();
        // From here on the journal has lines of this table.
        let begins = std::fs::metadata(&copied.journal).map_or(0, |record| record.len());
        let mut cuts = 0;
        let counts = loop {
            let copy = copied.open(&sides, resume).unwrap();
            resume = true;
            // Slowly, so that it can be stopped midway.
            let rate = (cuts == 0).then_some(2_000);
            let copy = ClusterCopy { rate, ..Arc::try_unwrap(copy).unwrap() };
            let (stop, mut first) = (copy.stop.clone(), None);
            let done = copy_table(&Arc::new(copy), table, |at| {
                let first = *first.get_or_insert(at.done);
                stop.store(cuts == 0 && at.done > first + 20, Ordering::Relaxed);
            });
            match done {
                Ok(counts) if cuts == CUTS => break counts,
                Ok(_) => {
                    // As if killed before the journal has everything that is in the store.
                    let record = std::fs::read(&copied.journal).unwrap();
                    let begun = record[begins as usize..].iter().position(|b| *b == b'\n');
                    let least = begins + begun.unwrap() as u64 + 200;
                    let mut keep = rng.range(least..record.len() as u64);
                    if cuts + 1 == CUTS {
                        // Adds to counters in spans that are copied again.
                        keep = least;
                        let more =
                            "UPDATE plays SET n = n + 1000 WHERE album = 'k7' AND song = 's'";
                        sides.at_cluster(more);
                    }
                    std::fs::write(&copied.journal, &record[..keep as usize]).unwrap();
                    cuts += 1;
                }
                Err(_) => stopped += 1,
            }
        };
        let (verified, found) = sides.verify(table);
        assert_eq!(found, [], "{name}");
        assert_eq!(counts.cells, verified.cells);
        sides.same_at_both(&format!("SELECT * FROM broken_off.{name}"));
    }
    assert!(stopped > 1, "{stopped}");
    // A copy without `resume` is refused, and so is a resumed copy of other data.
    assert!(copied.open(&sides, false).is_err());
    let other = CopyPlan {
        store: "store".to_owned(),
        tables: vec![],
        nodes: vec!["there".to_owned()],
        condition: None,
        began: 1,
    };
    assert!(CopyJournal::open(&copied.env, &copied.journal, &other, true).is_err());
    std::fs::write(&copied.journal, "{\"nodes\": 7}\n").unwrap();
    assert!(copied.open(&sides, true).is_err());
    // Tables with rows are refused if a copy would duplicate data.
    std::fs::remove_file(&copied.journal).unwrap();
    let again = copied.open(&sides, false).unwrap();
    for table in &tables {
        let done = copy_table(&again, table, |_| {});
        assert_eq!(
            done.is_err(),
            ["many", "plays"].contains(&&*table.name),
            "{}: {done:?}",
            table.name
        );
    }
}

#[test]
fn definitions_come_in_an_order_in_which_they_can_be_made() {
    let sides = Sides::new("defined");
    for statement in [
        r#"CREATE TYPE "Z inner" (v int)"#,
        r#"CREATE TYPE a_outer (z frozen<"Z inner">, many map<int, frozen<"Z inner">>)"#,
        "CREATE TABLE typed (k int PRIMARY KEY, o frozen<a_outer>, v text, w text) WITH compaction = {'class': 'LeveledCompactionStrategy'}",
        "CREATE INDEX by_v ON typed (v)",
        "CREATE INDEX by_m ON many (keys(m))",
        "CREATE MATERIALIZED VIEW typed_by_v AS SELECT k, v FROM typed WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)",
        "INSERT INTO typed (k, v, w) VALUES (1, 'one', 'w') USING TIMESTAMP 5",
    ] {
        sides.at_cluster(statement);
    }
    let tables = sides.define("defined");
    assert_eq!(tables.len(), 5);
    tables.iter().for_each(|table| drop(sides.copy(table)));
    for cql in [
        "SELECT * FROM typed_by_v",
        "SELECT k FROM typed WHERE v = 'one'",
        "SELECT k FROM many WHERE m CONTAINS KEY 'c'",
    ] {
        let cql = cql.replace("FROM ", "FROM defined.");
        assert_eq!(sides.same_at_both(&cql), 1, "{cql}");
    }
    let described = |session: &Session, table: &str| -> Vec<String> {
        let rows = session.execute(&format!("DESCRIBE TABLE defined.{table}"), ()).unwrap();
        let rows: Vec<(String, String, String, String)> = rows.typed().unwrap();
        rows.into_iter().map(|r| r.3).collect()
    };
    if sides._server.is_some() {
        for table in &tables {
            let here = described(&sides.store.clone().into(), &table.name);
            assert_eq!(here, described(&sides.cluster, &table.name));
        }
    }
    // A single table; and unknown names.
    let only = source_schema(&sides.cluster, &["defined.typed".to_owned()]).unwrap();
    assert_eq!(only.tables, [("defined".to_owned(), "typed".to_owned())]);
    let kinds: Vec<&str> = only.definitions.iter().map(|d| &*d.kind).collect();
    assert_eq!(
        kinds,
        ["keyspace", "type", "type", "type", "type", "table", "index", "materialized_view"]
    );
    for missing in ["defined.nothing", "nothing", "nothing.typed"] {
        assert!(source_schema(&sides.cluster, &[missing.to_owned()]).is_err(), "{missing}");
    }
}
