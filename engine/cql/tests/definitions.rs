//! Data-driven tests of definitions: statements and their results, in `data/definitions/*.txt`,
//! with one database for each file.
//!
//! - `cql`: the statements of the input, each ended by `;`; an error is shown with its class, and
//!   ends the input;
//! - `reopen`: closes the database and opens it again;
//! - `ids`: the ids of a table's columns, its dropped columns and its indexes.
//!
//! After every `cql` the stored records must load to the definitions in use.

use firn_cql::internals::catalog::{Catalog, KeyspaceEntry, OrphanedTable};
use firn_cql::{ResultKind, Rows, Script, Session};
use firn_kv::MemEnv;
use firn_testkit::datadriven::{Case, files, walk};
use firn_wide::{Options, Wide};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

struct World {
    env: MemEnv,
    session: Option<Session>,
}

fn open(env: &MemEnv) -> Session {
    let wide = Wide::open_in(Arc::new(env.clone()), "db", Options::default()).unwrap();
    Session::new(wide).unwrap()
}

fn shown(rows: &Rows) -> String {
    match rows.kind() {
        ResultKind::Void => "ok".into(),
        ResultKind::SetKeyspace(name) => format!("in {name}"),
        ResultKind::Schema(change) => {
            let name = change.name.as_ref().map_or(String::new(), |n| format!(".{n}"));
            format!(
                "{} {} {}{name}",
                change.change.to_lowercase(),
                change.target.to_lowercase(),
                change.keyspace
            )
        }
        ResultKind::Rows => {
            let statements = rows.columns().iter().position(|c| c.name == "create_statement");
            let line = |row: firn_cql::Row<'_>| match statements {
                Some(at) => row.at::<String>(at).unwrap(),
                None => (0..rows.columns().len())
                    .map(|i| row.at::<String>(i).unwrap())
                    .collect::<Vec<_>>()
                    .join(" | "),
            };
            rows.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

impl World {
    fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    fn run(&mut self, case: &Case) -> String {
        match case.directive.as_str() {
            "cql" => {
                let out = self.cql(&case.input);
                self.check_records();
                out
            }
            "reopen" => {
                let keyspace = self.session().keyspace();
                self.session = None;
                self.session = Some(open(&self.env));
                match keyspace {
                    Some(k) => shown(&self.session().execute(&format!("USE \"{k}\""), ()).unwrap()),
                    None => String::new(),
                }
            }
            "ids" => self.ids(case.words().next().unwrap()),
            other => panic!("{}:{}: unknown directive {other}", case.file.display(), case.line),
        }
    }

    fn cql(&self, script: &str) -> String {
        let mut out = vec![];
        for piece in Script::new(script) {
            match self.session().execute(&script[piece.start..piece.end], ()) {
                Ok(rows) => out.push(shown(&rows)),
                Err(e) => out.push(format!("{}: {e}", e.class().name())),
            }
        }
        out.join("\n")
    }

    fn check_records(&self) {
        let now = self.session().engine().catalog();
        let keyspaces = now
            .keyspaces()
            .map(|k| KeyspaceEntry::with(k.name.clone(), k.replication.clone(), k.durable_writes));
        let records = now.records();
        let read =
            Catalog::load(keyspaces, &BTreeSet::new(), records.iter().map(|(k, v)| (&**k, &**v)))
                .unwrap()
                .catalog;
        assert_eq!(read.records(), records);
        for (a, b) in now.tables().zip(read.tables()) {
            assert_eq!(a, b);
        }
        assert!(now.keyspaces().eq(read.keyspaces()));
    }

    fn ids(&self, table: &str) -> String {
        let catalog = self.session().engine().catalog();
        let keyspace = self.session().keyspace().unwrap();
        let table = catalog.keyspace(&keyspace).unwrap().table(table).unwrap().clone();
        let columns = table
            .columns()
            .iter()
            .filter(|c| !c.is_primary_key())
            .map(|c| format!("{} {} {}", c.id, c.name, c.of));
        let dropped =
            table.dropped().iter().map(|d| format!("{} {} {} dropped", d.id, d.name, d.of));
        let stored = |i: &firn_cql::internals::catalog::TableIndex| {
            if i.is_stored(&table) { "stored" } else { "declared" }
        };
        let indexes = table
            .indexes()
            .iter()
            .map(|i| format!("index {} on {}, {}", i.name, i.column, stored(i)));
        columns.chain(dropped).chain(indexes).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn definitions() {
    for file in
        files(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/definitions").as_path())
    {
        let env = MemEnv::new(1);
        let session = Some(open(&env));
        let mut world = World { env, session };
        walk(&file, |case| world.run(case));
    }
}

#[test]
fn the_longest_names_of_tables_views_and_indexes_are_those_of_servers() {
    let env = MemEnv::new(1);
    let session = open(&env);
    let run = |cql: &str| session.execute(cql, ()).map(drop).map_err(|e| e.to_string());
    run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        .unwrap();
    let names = |first: &str| [222, 223].map(|len| format!("{first}{}", "x".repeat(len - 1)));
    let [table, too_long] = names("t");
    let refused = run(&format!("CREATE TABLE ks.{too_long} (a int PRIMARY KEY, b int)"));
    assert!(refused.unwrap_err().contains("more than 222 characters long"));
    run(&format!("CREATE TABLE ks.{table} (a int PRIMARY KEY, b int, c int, d int)")).unwrap();
    let [view, too_long] = names("v");
    let create_view = |name: &str| {
        let select = format!("SELECT * FROM ks.{table} WHERE a IS NOT NULL AND b IS NOT NULL");
        run(&format!("CREATE MATERIALIZED VIEW ks.{name} AS {select} PRIMARY KEY (b, a)"))
    };
    assert!(create_view(&too_long).unwrap_err().contains("more than 222 characters long"));
    create_view(&view).unwrap();
    let [index, too_long] = names("i");
    assert!(run(&format!("CREATE INDEX {too_long} ON ks.{table} (b)")).is_err());
    run(&format!("CREATE INDEX {index} ON ks.{table} (b)")).unwrap();
    // Generated names can be given explicitly.
    run(&format!("CREATE INDEX ON ks.{table} (c)")).unwrap();
    run(&format!("CREATE INDEX ON ks.{table} (d)")).unwrap();
    run(&format!("INSERT INTO ks.{table} (a, b, c) VALUES (1, 2, 3)")).unwrap();
    let described = session.execute("DESCRIBE KEYSPACE ks", ()).unwrap();
    let statements: Vec<String> = described
        .iter()
        .map(|row| row.get::<String>("create_statement").unwrap())
        .filter(|s| !s.starts_with("CREATE KEYSPACE"))
        .collect();
    session.close().unwrap();
    drop(session);
    let session = open(&env);
    let found = |name: &str| {
        let rows = session.execute(&format!("SELECT a FROM ks.{name} WHERE b = 2"), ()).unwrap();
        rows.typed::<(i32,)>().unwrap()
    };
    assert_eq!([found(&table), found(&view)], [vec![(1,)], vec![(1,)]]);
    // The output of DESCRIBE creates the same tables again.
    session.execute(&format!("DROP MATERIALIZED VIEW ks.{view}"), ()).unwrap();
    session.execute(&format!("DROP TABLE ks.{table}"), ()).unwrap();
    session.execute("USE ks", ()).unwrap();
    for statement in &statements {
        session.execute(statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
    let again = session.execute("DESCRIBE KEYSPACE ks", ()).unwrap();
    assert_eq!(again.iter().count(), statements.len() + 1);
}

#[test]
fn tables_of_old_releases_are_made_with_a_word_about_their_options() {
    let session = open(&MemEnv::new(1));
    let run = |cql: &str| session.execute(cql, ()).unwrap().warnings().join("; ");
    run(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    let warned = run(
        "CREATE TABLE k.t (a int PRIMARY KEY) WITH caching = 'ALL' AND index_interval = 64 AND replicate_on_write = 'true'",
    );
    assert_eq!(
        warned,
        "Option index_interval of table t belongs to Cassandra 2.0: it is read as min_index_interval; \
         Option replicate_on_write of table t belongs to Cassandra 2.0: it is left out; \
         Options of table t that are stored and shown, but have no effect here: min_index_interval, caching"
    );
    assert_eq!(run("ALTER TABLE k.t WITH caching = 'KEYS_ONLY'"), "");
}

#[test]
fn records_without_their_keyspace_are_told_and_odd_ones_refused() {
    let session = open(&MemEnv::new(1));
    let definitions = [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE k.u (a int)",
        "CREATE TABLE k.t (a int PRIMARY KEY, b frozen<u>)",
    ];
    definitions.iter().for_each(|cql| drop(session.execute(cql, ()).unwrap()));
    let catalog = session.engine().catalog();
    let mut records = catalog.records();
    let load = |records: &BTreeMap<Vec<u8>, Vec<u8>>| {
        Catalog::load([], &BTreeSet::new(), records.iter().map(|(k, v)| (&**k, &**v)))
    };
    let loaded = load(&records).unwrap();
    let table = catalog.tables().next().unwrap();
    let of =
        |key: String, table| OrphanedTable { key: key.into_bytes(), keyspace: "k".into(), table };
    let key = format!("cql/table/{:010}", table.id);
    assert_eq!(loaded.orphans, [of(key.clone(), Some(table.id)), of("cql/type/k/u".into(), None)]);
    assert_eq!(loaded.catalog.tables().count(), 0);
    let record = records.remove(key.as_bytes()).unwrap();
    // The record of a table that is not a view has the form from before views existed.
    assert!(!String::from_utf8_lossy(&record).contains("view"));
    records.insert(format!("cql/table/+{}", table.id).into_bytes(), record);
    assert!(
        load(&records)
            .unwrap_err()
            .to_string()
            .contains("its number is not written as it should be")
    );
}
