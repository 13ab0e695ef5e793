//! Materialized views contain the rows computed from their bases: after random histories with
//! timestamps, TTLs, deletions, conditions and batches, with concurrent threads, and after crashes.

use super::common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_cql::internals::values::literal;
use firn_cql::{Rows, RunOptions, Session};
use firn_crash::{CrashEnv, Cut};
use firn_kv::{Db, DbOptions};
use firn_testkit::rng::Rng;
use firn_wide::{Options, Wide};

fn options() -> Options {
    let mut options = Options::default();
    options.store.db = DbOptions {
        background_threads: 0,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    options
}

fn open(env: &CrashEnv) -> Session {
    common::session_in(Wide::open_in(Arc::new(env.clone()), "db", options()).unwrap(), "k")
}

fn does(session: &Session, statement: &str) -> Rows {
    session.execute(statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"))
}

/// Returns rows as sorted literals.
fn told(rows: &Rows) -> Vec<String> {
    let line = |row: firn_cql::Row<'_>| {
        let each = rows.columns().iter().enumerate();
        each.map(|(i, c)| literal(&c.column_type.value_type, row.bytes(i)))
            .collect::<Vec<_>>()
            .join(" | ")
    };
    let mut all: Vec<String> = rows.iter().map(line).collect();
    all.sort();
    all
}

const BASE: &str = "CREATE TABLE t (p int, c int, v int, w text, s set<int>, m map<int, int>, l list<int>, st int static, \
                    PRIMARY KEY (p, c))";
/// Name, definition, the columns to compare, and the selected rows of the base.
const VIEWS: [(&str, &str, &str, &str); 6] = [
    (
        "by_v",
        "SELECT p, c, v, w, s, m, l FROM t WHERE p IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, p, c)",
        "p, c, v, w, s, m, l, writetime(w), ttl(w)",
        "v",
    ),
    (
        "swapped",
        "SELECT p, c, v, w FROM t WHERE c IS NOT NULL AND p IS NOT NULL PRIMARY KEY (c, p) WITH CLUSTERING ORDER BY (p DESC)",
        "p, c, v, w, writetime(v), ttl(v), writetime(w), ttl(w)",
        "",
    ),
    (
        "keys",
        "SELECT p, c FROM t WHERE c IS NOT NULL AND p IS NOT NULL PRIMARY KEY ((c, p))",
        "p, c",
        "",
    ),
    (
        "some",
        "SELECT p, c, s FROM t WHERE p IN (0, 2) AND c > 0 PRIMARY KEY (p, c) WITH CLUSTERING ORDER BY (c DESC)",
        "p, c, s",
        "some",
    ),
    (
        "by_w",
        "SELECT p, c, w, v FROM t WHERE p IS NOT NULL AND c >= 1 AND w IS NOT NULL PRIMARY KEY ((p, w), c)",
        "p, c, w, v, writetime(v), ttl(v)",
        "w",
    ),
    (
        "last",
        "SELECT p, c, v FROM t WHERE (c) < (2) AND p = 1 AND v IS NOT NULL PRIMARY KEY (p, c, v)",
        "p, c, v",
        "last",
    ),
];

fn create(session: &Session, view: usize) {
    let (name, of, ..) = VIEWS[view];
    does(session, &format!("CREATE MATERIALIZED VIEW {name} AS {of}"));
}

fn is_there(session: &Session, view: usize) -> bool {
    let catalog = session.engine().catalog();
    catalog.keyspace("k").unwrap().table(VIEWS[view].0).is_some()
}

/// Returns the expected rows of the view.
fn made(session: &Session, view: usize) -> Vec<String> {
    let (_, _, columns, of) = VIEWS[view];
    let rows = does(session, &format!("SELECT {columns}, p, c, v, w FROM t"));
    let lacks = |row: &firn_cql::Row<'_>, name: &str| {
        let at = rows.columns().iter().rposition(|c| c.name == name).unwrap();
        row.bytes(at).is_none()
    };
    let number = |row: &firn_cql::Row<'_>, name: &str| row.get::<i32>(name).unwrap();
    let shown = columns.split(", ").count();
    let mut all = vec![];
    for row in rows.iter() {
        let is_in = match of {
            // A row with only static cells has no clustering values.
            _ if lacks(&row, "c") => false,
            "v" => !lacks(&row, "v"),
            "w" => !lacks(&row, "w") && number(&row, "c") >= 1,
            "some" => [0, 2].contains(&number(&row, "p")) && number(&row, "c") > 0,
            "last" => !lacks(&row, "v") && number(&row, "p") == 1 && number(&row, "c") < 2,
            _ => true,
        };
        if is_in {
            let each = rows.columns().iter().enumerate().take(shown);
            let line = each
                .map(|(i, c)| literal(&c.column_type.value_type, row.bytes(i)))
                .collect::<Vec<_>>();
            all.push(line.join(" | "));
        }
    }
    all.sort();
    all
}

fn check(session: &Session, words: &str) {
    for (view, (name, _, columns, _)) in VIEWS.iter().enumerate() {
        if is_there(session, view) {
            let seen = told(&does(session, &format!("SELECT {columns} FROM {name}")));
            assert_eq!(seen, made(session, view), "{name} {words}");
            let count = told(&does(session, &format!("SELECT count(*) FROM {name}")));
            assert_eq!(count, [seen.len().to_string()], "{name} {words}");
        }
    }
    if is_there(session, 0) {
        let values = |text: &str| {
            let rows = does(session, text).typed::<(Option<i32>,)>().unwrap();
            rows.into_iter().filter_map(|(v,)| v).collect::<BTreeSet<i32>>()
        };
        let distinct = values("SELECT DISTINCT v FROM by_v");
        assert_eq!(distinct, values("SELECT v FROM t"), "{words}");
    }
}

fn changed(rng: &mut Rng, may_have_conditions: bool, has_timestamp: bool) -> String {
    let (p, c, n) = (rng.below(3), rng.below(4), rng.below(4));
    let mut using = vec![];
    let is_conditional = may_have_conditions && rng.one_in(8);
    if has_timestamp && !is_conditional {
        using.push(format!("TIMESTAMP {}", 10 + rng.below(30)));
    }
    let timestamp =
        if using.is_empty() { String::new() } else { format!(" USING {}", using.join(" AND ")) };
    if rng.one_in(3) {
        using.push(format!("TTL {}", 1 + rng.below(40)));
    }
    let using =
        if using.is_empty() { String::new() } else { format!(" USING {}", using.join(" AND ")) };
    let text = if rng.one_in(6) { "''".to_owned() } else { format!("'{n}'") };
    let v = if rng.one_in(6) { "null".to_owned() } else { n.to_string() };
    let row = format!("p = {p} AND c = {c}");
    match rng.below(16) {
        0..=2 => {
            let guard = if is_conditional { " IF NOT EXISTS" } else { "" };
            format!("INSERT INTO t (p, c, v, w) VALUES ({p}, {c}, {v}, {text}){guard}{using}")
        }
        3 => format!("INSERT INTO t (p, c) VALUES ({p}, {c}){using}"),
        4 => format!("INSERT INTO t (p, c, s, m) VALUES ({p}, {c}, {{{n}}}, {{{n}: 1}}){using}"),
        5 | 6 => {
            let guard = if is_conditional { " IF v = 1" } else { "" };
            format!("UPDATE t{using} SET v = {v} WHERE {row}{guard}")
        }
        7 => format!("UPDATE t{using} SET w = {text} WHERE {row}"),
        8 => {
            let (sign, key) = (if rng.one_in(2) { "+" } else { "-" }, rng.below(3));
            format!("UPDATE t{using} SET s = s {sign} {{{n}}}, m[{key}] = {v} WHERE {row}")
        }
        9 => format!("UPDATE t{using} SET l = [{n}], st = {v} WHERE {row}"),
        10 => format!("UPDATE t{using} SET l = l + [{n}], w = null WHERE {row}"),
        11 => format!("DELETE v, m[1] FROM t{timestamp} WHERE {row}"),
        12 => format!("DELETE s, w FROM t{timestamp} WHERE {row}"),
        13 => {
            let guard = if is_conditional { " IF EXISTS" } else { "" };
            format!("DELETE FROM t{timestamp} WHERE {row}{guard}")
        }
        14 => format!("DELETE FROM t{timestamp} WHERE p = {p} AND c >= {c} AND c < {}", c + n),
        _ => format!("DELETE FROM t{timestamp} WHERE p = {p}"),
    }
}

/// Returns a statement on the base.
fn statement(rng: &mut Rng) -> String {
    if !rng.one_in(6) {
        let has_timestamp = !rng.one_in(5);
        return changed(rng, true, has_timestamp);
    }
    let own = rng.one_in(2);
    let using =
        if own { String::new() } else { format!(" USING TIMESTAMP {}", 10 + rng.below(30)) };
    let all: Vec<_> = (0..1 + rng.below(4)).map(|_| changed(rng, false, own) + ";").collect();
    format!("BEGIN BATCH{using} {} APPLY BATCH", all.join(" "))
}

#[test]
fn a_view_is_what_a_select_over_its_base_makes() {
    let mut rows = 0;
    for seed in 0..8 {
        let env = CrashEnv::new(seed);
        let mut rng = Rng::new(seed);
        let mut session = open(&env);
        does(&session, BASE);
        let mut has_more = false;
        for step in 0..130 {
            let text = statement(&mut rng);
            does(&session, &text);
            match rng.below(40) {
                0 | 1 => env.advance(Duration::from_secs(1 + rng.below(20))),
                2..=7 => {
                    let view = rng.below(VIEWS.len() as u64) as usize;
                    match is_there(&session, view) {
                        true if rng.one_in(3) => {
                            does(&session, &format!("DROP MATERIALIZED VIEW {}", VIEWS[view].0));
                        }
                        true => {}
                        false => create(&session, view),
                    }
                }
                8 => {
                    let db = session.engine().store().db();
                    let trees = db.tree_names();
                    let trees = trees.iter().filter(|n| n.starts_with("cf-"));
                    trees.for_each(|n| db.existing_tree(n).unwrap().compact().unwrap());
                }
                9 => {
                    session.close().unwrap();
                    session = open(&env);
                }
                10 if rng.one_in(3) => drop(does(&session, "TRUNCATE t")),
                11 if !has_more => {
                    does(&session, "ALTER TABLE t ADD more int");
                    has_more = true;
                }
                _ => {}
            }
            check(&session, &format!("of seed {seed} after step {step}: {text}"));
        }
        rows += told(&does(&session, "SELECT p, c FROM t")).len();
    }
    assert!(rows > 20, "histories that end in {rows} rows in all test little");
}

/// Returns the key columns of a view and its base, as one reader sees them.
fn keys(session: &Session, table: &str) -> Vec<(i32, i32)> {
    let all = session.prepare(&format!("SELECT p, c FROM {table}")).unwrap();
    let rows =
        session.query_prepared(&all, (), &RunOptions::default()).unwrap().typed::<(i32, i32)>();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn views_follow_what_many_threads_do() {
    let mut options = options();
    options.store.db.background_threads = 2;
    let wide = Wide::open_in(Arc::new(CrashEnv::new(1)), "db", options).unwrap();
    let session = common::session_in(wide, "k");
    does(&session, BASE);
    (0..3).for_each(|view| create(&session, view));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // A row that moves is in one position, and in a batch with another row.
                let all = keys(&session, "by_v");
                let once: BTreeSet<_> = all.iter().copied().collect();
                assert_eq!(once.len(), all.len(), "a row is in two places: {all:?}");
                let pair = [(9, 1), (9, 2)].map(|key| once.contains(&key));
                assert_eq!(pair[0], pair[1], "half a batch");
            }
        });
        let catalog = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                (3..VIEWS.len()).for_each(|view| create(&session, view));
                for (name, ..) in &VIEWS[3..] {
                    does(&session, &format!("DROP MATERIALIZED VIEW {name}"));
                }
            }
            (3..VIEWS.len()).for_each(|view| create(&session, view));
        });
        let writers: Vec<_> = (0..6u64)
            .map(|thread| {
                let session = session.clone();
                scope.spawn(move || {
                    let mut rng = Rng::new(thread);
                    for i in 0..150 {
                        does(&session, &statement(&mut rng));
                        if i % 5 == 0 {
                            does(
                                &session,
                                &format!(
                                    "BEGIN BATCH UPDATE t SET v = {i} WHERE p = 9 AND c = 1; UPDATE t SET v = {thread} WHERE p = 9 \
                                     AND c = 2; APPLY BATCH"
                                ),
                            );
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        catalog.join().unwrap();
    });
    assert_eq!((0..VIEWS.len()).filter(|view| is_there(&session, *view)).count(), VIEWS.len());
    check(&session, "after threads");
}

#[test]
fn a_crash_leaves_no_view_out_of_step() {
    let (mut with, mut without) = (0, 0);
    for seed in 0..6 {
        let env = CrashEnv::new(seed);
        let mut rng = Rng::new(seed);
        let session = open(&env);
        does(&session, BASE);
        (0..40).for_each(|_| drop(does(&session, &changed(&mut rng, false, false))));
        env.start_journal();
        for _ in 0..3 {
            create(&session, 0);
            create(&session, 3);
            (0..5).for_each(|_| drop(does(&session, &statement(&mut rng))));
            does(&session, "DROP MATERIALIZED VIEW by_v");
            (0..3).for_each(|_| drop(does(&session, &statement(&mut rng))));
            does(&session, "DROP MATERIALIZED VIEW some");
        }
        let ops = env.journal_len();
        for _ in 0..25 {
            let at = rng.below(ops as u64 + 1) as usize;
            let cut = match rng.below(3) {
                0 => Cut::Process,
                1 => Cut::PowerNone,
                _ => Cut::PowerRandom(rng.next_u64()),
            };
            let session = open(&env.crash_image(at, &cut));
            check(&session, &format!("of seed {seed} after a crash at {at} of {ops}, {cut:?}"));
            for view in [0, 3] {
                if is_there(&session, view) {
                    with += 1;
                } else {
                    without += 1;
                    create(&session, view);
                }
            }
            (0..4).for_each(|_| drop(does(&session, &statement(&mut rng))));
            check(&session, &format!("of seed {seed} some time after a crash at {at}"));
        }
    }
    assert!(with > 50 && without > 50, "{with} views were there, {without} were not");
}

#[test]
fn a_view_is_made_anew_after_a_loss() {
    let env = CrashEnv::new(5);
    let mut rng = Rng::new(5);
    let session = open(&env);
    does(&session, BASE);
    (0..VIEWS.len()).for_each(|view| create(&session, view));
    (0..60).for_each(|_| drop(does(&session, &changed(&mut rng, false, false))));
    let id = session.engine().catalog().keyspace("k").unwrap().table("by_v").unwrap().id;
    session.close().unwrap();
    drop(session);
    let db = Db::open_in(Arc::new(env.clone()), "db", options().store.db).unwrap();
    let tree = db.existing_tree(&format!("cf-{id}")).unwrap();
    tree.delete_range(..).unwrap();
    tree.put(b"rubbish", b"that nobody reads").unwrap();
    firn_wide::internals::store::loss::forget_built(&db, None).unwrap();
    db.close().unwrap();
    drop((tree, db));
    let session = open(&env);
    check(&session, "after a loss");
    assert!(!told(&does(&session, "SELECT p FROM by_v")).is_empty());
}

#[test]
fn a_view_that_somebody_stops_is_not_there_and_can_be_made_later() {
    let env = CrashEnv::new(7);
    let mut rng = Rng::new(7);
    let session = open(&env);
    does(&session, BASE);
    (0..60).for_each(|_| drop(does(&session, &changed(&mut rng, false, false))));
    let how = RunOptions { stop: Some(Arc::new(AtomicBool::new(true))), ..RunOptions::default() };
    let text = format!("CREATE MATERIALIZED VIEW by_v AS {}", VIEWS[0].1);
    let error = session.execute_with(&text, (), &how).unwrap_err().to_string();
    assert!(error.contains("stopped"), "{error}");
    assert!(!is_there(&session, 0) && session.execute("SELECT * FROM by_v", ()).is_err());
    (0..20).for_each(|_| drop(does(&session, &statement(&mut rng))));
    create(&session, 0);
    check(&session, "that was stopped before");
}

#[test]
fn what_was_written_before_a_view_is_in_it_wherever_its_columns_come_from() {
    let session = open(&CrashEnv::new(1));
    for text in [
        "CREATE TYPE key (a int, b text)",
        "CREATE TYPE u (a int, b text)",
        "CREATE TABLE b (k int PRIMARY KEY, o int, f frozen<key>, x u, tu tuple<int, text>)",
        "INSERT INTO b (k, o, f, x, tu) VALUES (1, 5, {a: 1, b: 'x'}, {a: 2}, (3, 'y'))",
        "UPDATE b USING TIMESTAMP 100 SET o = 7 WHERE k = 2",
        "ALTER TABLE b DROP o USING TIMESTAMP 50",
        "CREATE MATERIALIZED VIEW by_f AS SELECT * FROM b WHERE k IS NOT NULL AND f IS NOT NULL PRIMARY KEY (f, k)",
        "CREATE MATERIALIZED VIEW all_of AS SELECT * FROM b WHERE k IS NOT NULL PRIMARY KEY (k)",
    ] {
        does(&session, text);
    }
    assert_eq!(
        told(&does(&session, "SELECT k, f, x, tu FROM by_f WHERE f = {a: 1, b: 'x'}")),
        ["1 | {a: 1, b: 'x'} | {a: 2, b: null} | (3, 'y')"]
    );
    assert_eq!(told(&does(&session, "SELECT k FROM all_of")), ["1"]);
    // A column that is added again shows values newer than the timestamp of its drop.
    does(&session, "ALTER TABLE b ADD o int");
    assert_eq!(told(&does(&session, "SELECT k, o FROM all_of")), ["1 | 5", "2 | 7"]);
    does(&session, "ALTER TYPE u ADD c int");
    does(&session, "UPDATE b SET x.c = 9 WHERE k = 1");
    assert_eq!(
        told(&does(&session, "SELECT k, x FROM by_f")),
        ["1 | {a: 2, b: null, c: 9}"],
        "a type that grows"
    );
}

#[test]
fn a_value_that_is_too_long_for_a_key_is_refused_with_all_of_its_batch() {
    let session = open(&CrashEnv::new(1));
    does(&session, "CREATE TABLE t (p int PRIMARY KEY, w text)");
    let long = "x".repeat(66_000);
    session.execute("INSERT INTO t (p, w) VALUES (0, ?)", (long.clone(),)).unwrap();
    let view = "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE p IS NOT NULL AND w IS NOT NULL PRIMARY KEY (w, p)";
    let error = session.execute(view, ()).unwrap_err().to_string();
    assert!(error.contains("is longer than maximum of 65535"), "{error}");
    assert!(session.execute("SELECT * FROM v", ()).is_err(), "it is not there");
    does(&session, "DELETE FROM t WHERE p = 0");
    does(&session, view);
    let batch = "BEGIN BATCH INSERT INTO t (p, w) VALUES (1, 'a'); INSERT INTO t (p, w) VALUES (2, ?); APPLY BATCH";
    let error = session.execute(batch, (long,)).unwrap_err().to_string();
    assert!(error.contains("is longer than maximum of 65535"), "{error}");
    assert!(told(&does(&session, "SELECT * FROM t")).is_empty());
    does(&session, "INSERT INTO t (p, w) VALUES (3, 'b')");
    assert_eq!(told(&does(&session, "SELECT * FROM v")), ["'b' | 3"]);
}

/// A range without a lower bound sorts after others whose bounds have small bytes. Its deletion
/// must be found when older data is written.
#[test]
fn what_is_older_than_a_range_without_a_lower_end_is_in_no_view() {
    let wide = Wide::open_in(Arc::new(CrashEnv::new(1)), "db", Options::default()).unwrap();
    let session = common::session_in(wide, "ks");
    for text in [
        "CREATE TABLE t (k int, c text, v int, PRIMARY KEY (k, c))",
        "CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
        "DELETE FROM t USING TIMESTAMP 40 WHERE k = 1 AND c < '9'",
        "DELETE FROM t USING TIMESTAMP 30 WHERE k = 1 AND c >= '5' AND c <= '6'",
        "INSERT INTO t (k, c, v) VALUES (1, '1', 1) USING TIMESTAMP 10",
        "INSERT INTO t (k, c, v) VALUES (1, '2', 1) USING TIMESTAMP 50",
    ] {
        session.execute(text, ()).unwrap();
    }
    for table in ["t", "w"] {
        let found = session.execute(&format!("SELECT c FROM {table}"), ()).unwrap();
        assert_eq!(found.typed::<(String,)>().unwrap(), [("2".to_owned(),)], "{table}");
    }
}
