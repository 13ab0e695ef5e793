//! CQL programs: printable ASCII bytes are text, all others words of the language and of an
//! existing schema. Every statement succeeds or is refused, never with a server error. A `SELECT`
//! returns the same rows in pages as at once. A view has a row for each matching row of its base.
//! After reopening, every table has the same contents.
#![no_main]

use std::sync::Arc;

use firn_cql::internals::catalog::Catalog;
use firn_cql::{BoundValue, Error, ErrorClass, Rows, RunOptions, Script, Session};
use firn_kv::MemEnv;
use firn_wide::{Options, Wide};
use libfuzzer_sys::fuzz_target;

/// Maximum length of a program.
const LONGEST: usize = 2048;
/// Maximum number of statements of a program.
const STATEMENTS: usize = 24;

const SCHEMA: &str = "
CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; USE k;
CREATE TYPE u (x int, y text);
CREATE TABLE t (p int, a int, b text, s int STATIC, v int, w text, l list<int>, e set<text>, m map<text, int>, f u,
    z frozen<list<u>>, PRIMARY KEY (p, a, b)) WITH CLUSTERING ORDER BY (a DESC, b ASC);
CREATE TABLE q (p blob, r varint, d decimal, PRIMARY KEY ((p, r), d)); CREATE TABLE c (p int PRIMARY KEY, n counter);
CREATE INDEX i ON t (v); CREATE INDEX j ON t (e);
CREATE FUNCTION f(v int) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS 'v';
CREATE FUNCTION h(s int, v int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE rhai AS 's + v';
CREATE AGGREGATE g(int) SFUNC h STYPE int INITCOND 0;
CREATE MATERIALIZED VIEW mv AS SELECT v, p, a, b, w FROM t WHERE v IS NOT NULL AND p IS NOT NULL AND a IS NOT NULL AND b IS NOT NULL
    PRIMARY KEY (v, p, a, b);
CREATE TABLE vt (p int PRIMARY KEY, v vector<float, 2>, w text, n int);
CREATE INDEX iv ON vt (v) USING 'sai'; CREATE INDEX jv ON vt (n) USING 'sai';
CREATE CUSTOM INDEX kv ON vt (w) USING 'org.apache.cassandra.index.sasi.SASIIndex';
CREATE TABLE ct (p int, a text, n int, PRIMARY KEY (p, a)) WITH COMPACT STORAGE;
INSERT INTO vt (p, v, w, n) VALUES (1, [1, 2], 'w', 1); INSERT INTO vt (p, v, w, n) VALUES (2, [0, -1], 'word', 2);
INSERT INTO ct (p, a, n) VALUES (1, 'x', 1); INSERT INTO ct (p, a, n) VALUES (1, 'y', 2);
INSERT INTO t (p, a, b, s, v, w, l, e, m) VALUES (1, 1, 'x', 7, 1, 'w', [1, 2], {'a'}, {'a': 1});
INSERT INTO t (p, a, b, v, f) VALUES (1, 2, 'y', 2, {x: 1}); INSERT INTO t (p, a, b) VALUES (2, 1, '');
UPDATE t SET s = 9 WHERE p = 3; INSERT INTO q (p, r, d) VALUES (0x00, 1, 0.10); UPDATE c SET n = n + 1 WHERE p = 1;";

const WORDS: [&str; 128] = [
    "SELECT ",
    "* ",
    " FROM t ",
    " WHERE ",
    "p = 1 ",
    " AND ",
    "a = 1 ",
    "b = 'x' ",
    "ALLOW FILTERING",
    "; ",
    "INSERT INTO t (p, a, b, v) VALUES (",
    "UPDATE t SET ",
    "DELETE ",
    "1",
    ", ",
    ") ",
    " LIMIT ",
    " PER PARTITION LIMIT ",
    " ORDER BY a ",
    " DESC ",
    " ASC",
    " GROUP BY p",
    ", a ",
    "DISTINCT p, s",
    "count(*)",
    "token(p)",
    " > ",
    " < ",
    " >= ",
    " IN (",
    "(a, b) ",
    " CONTAINS ",
    "KEY ",
    "'a'",
    "NULL",
    "?",
    "{",
    "}",
    "[",
    "]",
    ":",
    "l = l + ",
    "e = e - ",
    "m['a'] = ",
    "l[0] ",
    "f.x ",
    "s = ",
    "v = ",
    "w = ",
    "writetime(v) ",
    "ttl(v)",
    "JSON ",
    "IF NOT EXISTS",
    " IF EXISTS",
    " IF v = 1",
    "USING TTL 5 ",
    "USING TIMESTAMP 3 ",
    "BEGIN BATCH ",
    "APPLY BATCH",
    "TRUNCATE t",
    "ALTER TABLE t ",
    "ADD ",
    "DROP ",
    "RENAME a TO ",
    "v int",
    "w text",
    " list<int>",
    " STATIC ",
    "CREATE TABLE ",
    "n2 ",
    "(p int PRIMARY KEY, v int)",
    "CREATE INDEX ON t (",
    "DROP INDEX i",
    "CREATE TYPE u2 (x u)",
    "ALTER TYPE u ",
    "x TO y2",
    "UPDATE c SET n = n + 1 ",
    " FROM c ",
    " FROM q ",
    "INSERT INTO q (p, r, d) VALUES (",
    "0x00",
    "1.00",
    "-1",
    "abs(v)",
    "NaN",
    "r = 1 ",
    "d = 1.0 ",
    "min(v)",
    "max(a)",
    "sum(v) ",
    "f(v)",
    "CAST(v AS text)",
    "now()",
    "currentTimestamp()",
    "m['a'..'z']",
    "g(v)",
    "toJson(m)",
    "'{\"p\":1,\"a\":1,\"b\":\"\"}'",
    "INSERT INTO t JSON ",
    "DEFAULT UNSET",
    "WITH default_time_to_live = 5",
    "CREATE OR REPLACE FUNCTION f(v int) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS '[v]'",
    "compaction = {'class': 'LeveledCompactionStrategy'}",
    "DROP TABLE t",
    "DROP FUNCTION f",
    "USE k",
    "DESCRIBE ",
    "TABLE t",
    "KEYSPACE k",
    "z = [{x: 1}] ",
    "(1, 'x')",
    "(2, '')",
    "(int) ",
    "1h2m",
    "-9223372036854775808",
    "DROP AGGREGATE g",
    "a IN (1, 2) ",
    "p IN (1, 2, 3) ",
    "v = 1 ",
    "e CONTAINS 'a' ",
    "s = 7 ",
    " != ",
    " + ",
    " / ",
    "FULL(z)",
    "KEYS(m)",
    "ENTRIES(m)",
    "a = 2 ",
];

/// Words of the bytes below 32.
const LATER: [&str; 32] = [
    " IS NOT NULL ",
    "INSERT INTO vt (p, v, w, n) VALUES (",
    " FROM vt ",
    "[1, 0.5]",
    " ORDER BY v ANN OF ",
    "similarity_euclidean(v, [1, 2])",
    " FROM mv ",
    "CREATE MATERIALIZED VIEW mw AS SELECT p, a, b, w, m FROM t WHERE w IS NOT NULL AND p IS NOT NULL AND a IS NOT NULL AND b IS NOT NULL PRIMARY KEY (w, p, a, b)",
    " FROM mw ",
    "\t",
    "\n",
    "DROP MATERIALIZED VIEW mv",
    "w LIKE 'w%' ",
    " USING 'sai'",
    " FROM ct ",
    "INSERT INTO ct (p, a, n) VALUES (",
    " BETWEEN ",
    " MASKED WITH mask_inner(1, 0)",
    "ALTER TABLE vt ALTER w ",
    "mask_hash(w)",
    "exp(d)",
    "log10(r)",
    "round(d)",
    "collection_sum(l)",
    "writetime(l)",
    "n > 0 ",
    "n = 1 ",
    "w = 'w' ",
    "UPDATE vt SET ",
    "UPDATE ct SET ",
    "v[0]",
    "DROP COMPACT STORAGE",
];

fn text_of(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &b in bytes {
        match b {
            128.. => text.push_str(WORDS[usize::from(b - 128)]),
            32.. => text.push(char::from(b)),
            _ => text.push_str(LATER[usize::from(b)]),
        }
        if text.len() > LONGEST {
            break;
        }
    }
    text
}

fn open(env: &MemEnv) -> Session {
    let mut options = Options::default();
    let db = &mut options.store.db;
    (db.background_threads, db.wal_segment, db.memory_budget) = (0, 1 << 20, 16 << 20);
    let wide = Wide::open_in(Arc::new(env.clone()), "/db", options).expect("a sound store");
    Session::new(wide).expect("sound definitions")
}

/// Returns values for the markers: null, unset, or the next bytes of the program.
fn values(count: usize, mut bytes: &[u8]) -> Vec<BoundValue> {
    let each = |_| {
        let (&head, rest) = bytes.split_first()?;
        let len = usize::from(head % 18).min(rest.len());
        bytes = &rest[len..];
        Some(match head {
            250.. => BoundValue::Unset,
            240..250 => BoundValue::Null,
            _ => BoundValue::Bytes(rest[..len].to_vec()),
        })
    };
    (0..count).map(each).map(|b| b.unwrap_or(BoundValue::Null)).collect()
}

fn check(error: Error, statement: &str) {
    assert!(error.class() != ErrorClass::Server, "{statement}\n{error}");
    assert!(!error.to_string().is_empty(), "{statement}");
}

/// Returns the rows of a statement, read in pages.
fn paged(
    session: &Session,
    statement: &str,
    values: &[BoundValue],
    page: usize,
    most: usize,
) -> Result<usize, Error> {
    let prepared = session.prepare(statement)?;
    let (mut rows, mut run) = (0, RunOptions { page_size: Some(page), ..RunOptions::default() });
    loop {
        let answer: Rows = session.run(&prepared, values.to_vec(), &run)?;
        assert!(answer.len() <= page, "{statement}: a page of {} rows", answer.len());
        rows += answer.len();
        run.paging = answer.paging().cloned();
        if run.paging.is_none() || rows > most {
            return Ok(rows);
        }
    }
}

fn execute(session: &Session, statement: &str, bytes: &[u8]) {
    let prepared = match session.prepare(statement) {
        Ok(prepared) => prepared,
        // A definition, or an invalid statement.
        Err(_) => return session.execute(statement, ()).map_or_else(|e| check(e, statement), drop),
    };
    let values = values(prepared.markers().len(), bytes);
    match session.run(&prepared, values.clone(), &RunOptions::default()) {
        // Pages include rows of groups and conditions, too, but only reads can run twice.
        Ok(all)
            if statement
                .trim_start()
                .get(..6)
                .is_some_and(|w| w.eq_ignore_ascii_case("select")) =>
        {
            let page = bytes.first().map_or(1, |b| usize::from(b % 3) + 1);
            match paged(session, statement, &values, page, all.len()) {
                Ok(rows) => assert_eq!(rows, all.len(), "{statement}: in pages of {page}"),
                Err(e) => assert!(
                    e.to_string().starts_with("Cannot page queries with both ORDER BY"),
                    "{statement}: {e}"
                ),
            }
        }
        Ok(_) => {}
        Err(error) => check(error, statement),
    }
}

/// Returns the contents of all tables.
fn content(session: &Session, catalog: &Catalog) -> Vec<(String, String)> {
    let each = |table: &Arc<firn_cql::internals::catalog::TableSchema>| {
        let statement = format!("SELECT * FROM \"{}\".\"{}\"", table.keyspace, table.name);
        let rows = session.execute(&statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"));
        let cells: Vec<_> = rows.iter().map(|row| format!("{row:?}")).collect();
        (statement, format!("{cells:?}"))
    };
    catalog.tables().map(each).collect()
}

/// Returns the number of rows whose `v` is not null; `None` without such a column or table.
fn with_value(session: &Session, table: &str) -> Option<usize> {
    let rows = session.execute(&format!("SELECT v FROM k.{table}"), ()).ok()?;
    Some(rows.iter().filter(|row| row.bytes(0).is_some()).count())
}

fuzz_target!(|bytes: &[u8]| {
    let env = MemEnv::new(1);
    let session = open(&env);
    for piece in Script::new(SCHEMA) {
        session.execute(&SCHEMA[piece.start..piece.end], ()).expect("the schema");
    }
    let text = text_of(bytes);
    for piece in Script::new(&text).take(STATEMENTS) {
        execute(&session, &text[piece.start..piece.end], bytes);
    }
    if let Some(rows) = with_value(&session, "mv") {
        assert_eq!(with_value(&session, "t"), Some(rows), "rows of the base and of the view");
    }
    let before = content(&session, &session.engine().catalog());
    drop(session);
    let session = open(&env);
    assert_eq!(content(&session, &session.engine().catalog()), before);
});
