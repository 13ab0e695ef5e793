//! Definitions that change while there is data, statements prepared before such changes, and
//! hostile bound values.

use super::common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use firn_cql::internals::values::literal;
use firn_cql::{BatchKind, BoundValue, Error, ErrorClass, Rows, RunOptions, Session};
use firn_crash::{CrashEnv, Cut};
use firn_kv::Env;
use firn_kv::{Compression, DbOptions, FilterKind, Policy, TreeOptions};
use firn_testkit::rng::Rng;
use firn_wide::internals::store::{Body, StoreSlice};
use firn_wide::{Options, Wide};

fn open(env: &CrashEnv) -> Session {
    open_with(env, Options::default())
}

fn open_with(env: &CrashEnv, options: Options) -> Session {
    common::session_in(Wide::open_in(Arc::new(env.clone()), "db", options).unwrap(), "k")
}

fn does(session: &Session, statement: &str) -> Rows {
    session.execute(statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"))
}

fn refused(session: &Session, statement: &str) -> (ErrorClass, String) {
    let error = session.execute(statement, ()).expect_err(statement);
    (error.class(), error.to_string())
}

/// Returns rows as joined literals.
fn told(rows: &Rows) -> String {
    let row = |row: firn_cql::Row<'_>| {
        let cells = row
            .columns()
            .iter()
            .enumerate()
            .map(|(i, c)| literal(&c.column_type.value_type, row.bytes(i)));
        cells.collect::<Vec<_>>().join(" ")
    };
    rows.iter().map(row).collect::<Vec<_>>().join(", ")
}

fn tree(session: &Session, table: &str) -> TreeOptions {
    let catalog = session.engine().catalog();
    let table = catalog.keyspace("k").unwrap().table(table).unwrap().clone();
    session.engine().family(&table).unwrap().tree().options()
}

#[test]
fn what_with_says_of_storage_reaches_the_tree_and_alter_changes_the_open_one() {
    let env = CrashEnv::new(1);
    let session = open(&env);
    does(&session, "CREATE TABLE t (p int PRIMARY KEY, v text)");
    let default = tree(&session, "t");
    assert_eq!(default.policy, Policy::default());
    assert_eq!(default.compression, [Compression::Lz4]);
    let insert = session.prepare("INSERT INTO t (p, v) VALUES (?, ?)").unwrap();
    let write = |session: &Session, round: i32| {
        for p in 0..200 {
            session.run(&insert, (p, format!("{round}")), &RunOptions::default()).unwrap();
        }
        let catalog = session.engine().catalog();
        let table = catalog.keyspace("k").unwrap().table("t").unwrap().clone();
        session.engine().family(&table).unwrap().tree().flush().unwrap();
    };
    let steps = [
        (
            "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 32, 'fanout_size': 5}",
            "leveled:ratio=5:level0_runs=4:base=160m:movement=least-overlap",
        ),
        (
            "{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', 'compaction_window_size': '2'}",
            "time-window:window_secs=7200:min_runs=4",
        ),
        (
            "{'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'L10, T4,N,-3', 'target_sstable_size': '512MiB'}",
            "unified:scaling=-8/2/0/-3:target_table=512m:base_shards=4",
        ),
        (
            "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': 6, 'bucket_high': 2}",
            "tiered:min_runs=6:max_runs=32:bucket=2",
        ),
        (
            "{'class': 'IncrementalCompactionStrategy', 'sstable_size_in_mb': 32, 'space_amplification_goal': 1.5}",
            "ics:min_runs=4:max_runs=32:bucket=2:goal=1.5",
        ),
        ("{'class': 'SizeTieredCompactionStrategy'}", "tiered:min_runs=3:max_runs=32:bucket=3"),
        (
            "{'class': 'org.apache.cassandra.db.compaction.LeveledCompactionStrategy'}",
            "leveled:ratio=10:level0_runs=4:base=1600m:movement=least-overlap",
        ),
    ];
    for (round, (compaction, policy)) in (0..).zip(steps) {
        does(&session, &format!("ALTER TABLE t WITH compaction = {compaction}"));
        write(&session, round);
        let now = tree(&session, "t").policy.to_string();
        assert_eq!(now, policy, "{compaction}");
        assert_eq!(told(&does(&session, "SELECT count(*) FROM t")), "200");
    }
    does(
        &session,
        "ALTER TABLE t WITH compression = {'enabled': false} AND bloom_filter_fp_chance = 1.0",
    );
    does(
        &session,
        "CREATE TABLE t2 (p int PRIMARY KEY) WITH compression = {'class': 'NoopCompressor'} AND bloom_filter_fp_chance = 0.0001",
    );
    drop(session);
    let session = open(&env);
    let (t, t2) = (tree(&session, "t"), tree(&session, "t2"));
    assert_eq!((t.compression, t.filter), (vec![Compression::None], vec![FilterKind::None]));
    assert_eq!((t.table_size, format!("{:?}", t.policy).contains("Leveled")), (160 << 20, true));
    assert_eq!((t2.compression, t2.filter), (vec![Compression::None], vec![FilterKind::Fuse16]));
    assert_eq!(told(&does(&session, "SELECT v FROM t WHERE p = 199")), "'6'");
}

#[test]
fn options_of_storage_that_cannot_be_are_refused() {
    let session = open(&CrashEnv::new(1));
    does(&session, "CREATE TABLE t (p int PRIMARY KEY)");
    for (option, why) in [
        (
            "compaction = {'class': 'LeveledCompactionStrategy', 'nonsense': 1}",
            "Properties specified [nonsense] are not understood by LeveledCompactionStrategy",
        ),
        (
            "compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 1}",
            "Min compaction threshold cannot be less than 2 (got 1)",
        ),
        (
            "compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 40}",
            "Min compaction threshold (got 40) cannot be greater than max compaction threshold (got 32)",
        ),
        (
            "compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 'x'}",
            "Invalid value x for 'min_threshold' compaction sub-option - must be an integer",
        ),
        (
            "compaction = {'class': 'SizeTieredCompactionStrategy', 'bucket_high': 0.1}",
            "bucket_high value (0.1) is less than or equal to the bucket_low value (0.5)",
        ),
        (
            "compaction = {'class': 'IncrementalCompactionStrategy', 'space_amplification_goal': 2.5}",
            "space_amplification_goal must be greater than 1 and at most 2, but was 2.5",
        ),
        (
            "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'WEEKS'}",
            "WEEKS is not valid for compaction_window_unit",
        ),
        (
            "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 0}",
            "sstable_size_in_mb must be at least 1, but was 0",
        ),
        (
            "compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'Q4'}",
            "Scaling parameter Q4 must be an integer, N, or L or T followed by a fan-out of at least 2",
        ),
        (
            "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 17}",
            "chunk_length_in_kb must be a power of 2",
        ),
    ] {
        assert_eq!(
            refused(&session, &format!("ALTER TABLE t WITH {option}")),
            (ErrorClass::Configuration, why.to_owned())
        );
    }
}

#[test]
fn what_was_dropped_stays_away_also_after_reopening() {
    let env = CrashEnv::new(1);
    let mut session = open(&env);
    does(&session, "CREATE TABLE t (p int, c int, v int, m map<int, text>, PRIMARY KEY (p, c))");
    does(&session, "CREATE INDEX i ON t (v)");
    does(&session, "INSERT INTO t (p, c, v, m) VALUES (1, 1, 5, {1: 'a'})");
    does(&session, "INSERT INTO t (p, c, v) VALUES (1, 2, 5)");
    for round in 0..3 {
        does(&session, "DROP INDEX i");
        does(&session, "ALTER TABLE t DROP (v, m)");
        does(&session, "ALTER TABLE t ADD (v int, m map<int, text>)");
        does(&session, "CREATE INDEX i ON t (v)");
        if round == 1 {
            drop(session);
            // The clock of this environment does not move, but timestamps have increased.
            env.sleep(Duration::from_secs(1));
            session = open(&env);
        }
        assert_eq!(told(&does(&session, "SELECT * FROM t")), "1 1 null null, 1 2 null null");
        assert_eq!(told(&does(&session, "SELECT c FROM t WHERE v = 5")), "");
        does(&session, "UPDATE t SET v = 5, m[2] = 'b' WHERE p = 1 AND c = 2");
        assert_eq!(told(&does(&session, "SELECT c, m FROM t WHERE v = 5")), "2 {2: 'b'}");
    }
    // A row written only by UPDATE disappears with its only column.
    does(&session, "UPDATE t SET v = 7 WHERE p = 9 AND c = 9");
    does(&session, "DROP INDEX i");
    does(&session, "ALTER TABLE t DROP v");
    does(&session, "DROP TABLE t");
    does(&session, "CREATE TABLE t (p int, c int, v int, m map<int, text>, PRIMARY KEY (p, c))");
    assert_eq!(told(&does(&session, "SELECT * FROM t")), "");
    does(&session, "INSERT INTO t (p, c, v) VALUES (1, 1, 1)");
    does(&session, "DROP KEYSPACE k");
    drop(session);
    let session = open(&env);
    assert_eq!(refused(&session, "SELECT * FROM t").1, "table t does not exist");
    does(&session, "CREATE TABLE t (p int, c int, v int, m map<int, text>, PRIMARY KEY (p, c))");
    assert_eq!(told(&does(&session, "SELECT * FROM t")), "");
}

#[test]
fn what_was_written_after_the_timestamp_of_a_drop_is_there_again() {
    let env = CrashEnv::new(1);
    let mut session = open(&env);
    does(
        &session,
        "CREATE TABLE t (p int, c int, v int, l list<int>, m map<int, text>, s int static, PRIMARY KEY (p, c))",
    );
    for at in [10, 20, 30] {
        does(
            &session,
            &format!(
                "UPDATE t USING TIMESTAMP {at} SET v = {at}, m[{at}] = 'm', l = l + [{at}] WHERE p = 1 AND c = {at}"
            ),
        );
    }
    does(
        &session,
        "UPDATE t USING TIMESTAMP 10 SET l = l + [1], m[1] = 'old' WHERE p = 1 AND c = 30",
    );
    does(&session, "UPDATE t USING TIMESTAMP 20 SET s = 1 WHERE p = 1");
    does(&session, "UPDATE t USING TIMESTAMP 20 SET s = 2 WHERE p = 2");
    does(&session, "ALTER TABLE t DROP (v, l, m, s) USING TIMESTAMP 20");
    does(&session, "ALTER TABLE t ADD (v int, l list<int>, m map<int, text>)");
    does(&session, "ALTER TABLE t ADD s int static");
    let all = "1 30 null [30] {30: 'm'} 30";
    for _ in 0..2 {
        // A row without other values disappears with its values, a partition with its static cells.
        assert_eq!(told(&does(&session, "SELECT * FROM t")), all);
        assert_eq!(told(&does(&session, "SELECT p FROM t WHERE p = 2")), "");
        drop(session);
        env.sleep(Duration::from_secs(1));
        session = open(&env);
    }
    // An index finds exactly the existing values.
    does(&session, "CREATE INDEX i ON t (v)");
    does(&session, "CREATE INDEX j ON t (m)");
    assert_eq!(told(&does(&session, "SELECT c FROM t WHERE v = 20")), "");
    assert_eq!(told(&does(&session, "SELECT c FROM t WHERE v = 30")), "30");
    assert_eq!(told(&does(&session, "SELECT c FROM t WHERE m CONTAINS 'old'")), "");
    assert_eq!(told(&does(&session, "SELECT c FROM t WHERE m CONTAINS 'm'")), "30");
    // The first element of a list, and a condition, use the existing values.
    does(&session, "UPDATE t USING TIMESTAMP 40 SET l[0] = 31 WHERE p = 1 AND c = 30");
    assert_eq!(told(&does(&session, "SELECT l FROM t")), "[31]");
    assert_eq!(
        told(&does(&session, "UPDATE t SET v = 1 WHERE p = 1 AND c = 20 IF v = 20")),
        "false"
    );
    // A later drop with an earlier timestamp restores nothing.
    for index in ["i", "j"] {
        does(&session, &format!("DROP INDEX {index}"));
    }
    does(&session, "ALTER TABLE t DROP v USING TIMESTAMP 1");
    does(&session, "ALTER TABLE t ADD v int");
    assert_eq!(told(&does(&session, "SELECT c, v FROM t")), "30 30");
    does(&session, "ALTER TABLE t DROP v");
    does(&session, "ALTER TABLE t ADD v int");
    assert_eq!(told(&does(&session, "SELECT c, v FROM t")), "30 null");
}

#[test]
fn a_definition_with_values_is_refused_before_it_is_made() {
    let session = open(&CrashEnv::new(1));
    let why = session.execute("CREATE TABLE t (k int PRIMARY KEY)", (1,)).unwrap_err();
    assert_eq!(
        why.to_string(),
        "Invalid amount of bind variables; there are no bind markers, and 1 came"
    );
    assert_eq!(refused(&session, "SELECT * FROM t").1, "table t does not exist");
    let why = session.execute("USE other", (1,)).unwrap_err();
    assert_eq!(why.text(), "Invalid amount of bind variables");
}

#[test]
fn what_describe_says_makes_the_same_definitions_again() {
    let session = open(&CrashEnv::new(1));
    for statement in [
        r#"CREATE TYPE zz (x int)"#,
        r#"CREATE TYPE "Cap" (q frozen<zz>, "F g" text, tu tuple<int,frozen<zz>>)"#,
        r#"CREATE TYPE aa (c frozen<"Cap">, l list<frozen<map<text,frozen<"Cap">>>>)"#,
        r#"CREATE TABLE one (k int PRIMARY KEY, a frozen<aa>, "Key" text, "select" "Cap", d 'org.apache.cassandra.db.marshal.DateType', c 'LongType', m map<frozen<zz>, frozen<list<set<int>>>>) WITH comment = 'it''s; a "test" $$ // x'"#,
        r#"CREATE TABLE "Two" ("K" int, c text, "D" uuid, s text static, n int, PRIMARY KEY (("K", c), "D")) WITH CLUSTERING ORDER BY ("D" DESC) AND compression = {'enabled': false} AND extensions = {'a': 0xff} AND speculative_retry = '50ms' AND caching = {'keys':'NONE'}"#,
        r#"CREATE TABLE cnt (k int, c int, s counter static, n counter, PRIMARY KEY (k, c))"#,
        r#"CREATE INDEX ON "Two" ("K")"#,
        r#"CREATE INDEX ON "Two" (s)"#,
        r#"CREATE INDEX "my_Idx" ON "Two" (n)"#,
        r#"CREATE INDEX ON one (KEYS(m))"#,
        r#"CREATE INDEX ent ON one (ENTRIES(m))"#,
        r#"CREATE INDEX ON one (a)"#,
        r#"ALTER TABLE one DROP c"#,
        r#"ALTER TABLE one ADD c bigint"#,
    ] {
        does(&session, statement);
    }
    let described = |session: &Session| {
        let rows = does(session, "DESCRIBE SCHEMA");
        rows.iter().map(|r| r.get::<String>("create_statement").unwrap()).collect::<Vec<_>>()
    };
    let wanted = described(&session);
    assert_eq!(wanted.len(), 1 + 3 + 3 + 6);
    let other =
        Session::new(Wide::open_in(Arc::new(CrashEnv::new(2)), "db", Options::default()).unwrap())
            .unwrap();
    wanted.iter().for_each(|statement| drop(does(&other, statement)));
    assert_eq!(described(&other), wanted);
}

#[test]
fn an_index_that_cannot_be_built_is_refused_and_leaves_nothing() {
    let env = CrashEnv::new(1);
    let session = open(&env);
    does(&session, "CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c))");
    let long = "x".repeat(530_000);
    does(&session, "INSERT INTO t (p, c, v) VALUES (1, 1, 'short')");
    does(&session, &format!("INSERT INTO t (p, c, v) VALUES (1, 2, '{long}')"));
    let (class, why) = refused(&session, "CREATE INDEX ON t (v)");
    assert_eq!(class, ErrorClass::Invalid);
    assert!(why.starts_with("Cannot index value of size 530000: "), "{why}");
    assert!(!told(&does(&session, "DESCRIBE TABLE t")).contains("INDEX"));
    // Neither the open database nor a reopened one has it.
    does(&session, &format!("INSERT INTO t (p, c, v) VALUES (1, 3, '{long}')"));
    drop(session);
    env.advance(Duration::from_secs(1));
    let session = open(&env);
    does(&session, "DELETE FROM t WHERE p = 1 AND c > 1");
    does(&session, "CREATE INDEX ON t (v)");
    assert_eq!(told(&does(&session, "SELECT c FROM t WHERE v = 'short'")), "1");
    let (class, why) =
        refused(&session, &format!("INSERT INTO t (p, c, v) VALUES (1, 2, '{long}')"));
    assert!(
        class == ErrorClass::Invalid && why.starts_with("Cannot index value of size 530000: "),
        "{why}"
    );
    does(&session, "INSERT INTO t (p, c, v) VALUES (1, 2, 'short')");
    assert_eq!(told(&does(&session, "SELECT c FROM t WHERE v = 'short'")), "1, 2");
}

#[test]
fn a_crash_while_definitions_change_leaves_tables_and_indexes_that_fit_their_rows() {
    // Small segments, so that copies are cheap.
    let db = DbOptions { wal_segment: 256 << 10, ..DbOptions::default() };
    let options = || Options {
        store: firn_wide::StoreOptions {
            db: db.clone(),
            clock: None,
            ..firn_wide::StoreOptions::default()
        },
        ..Options::default()
    };
    let env = CrashEnv::new(1);
    let session = open_with(&env, options());
    does(&session, "CREATE TABLE t (p int PRIMARY KEY, v int, w int)");
    for p in 0..20 {
        does(&session, &format!("INSERT INTO t (p, v, w) VALUES ({p}, {}, {})", p % 2, p % 3));
    }
    env.start_journal();
    does(&session, "CREATE INDEX ON t (v)");
    does(&session, "CREATE TABLE u (p int PRIMARY KEY, v int)");
    does(&session, "DROP INDEX t_v_idx");
    does(&session, "CREATE INDEX ON t (w)");
    does(&session, "DROP TABLE u");
    let (ops, mut rng, mut seen) = (env.journal_len(), Rng::new(3), BTreeSet::new());
    for _ in 0..60 {
        let cut = match rng.below(3) {
            0 => Cut::Process,
            1 => Cut::PowerNone,
            _ => Cut::PowerRandom(rng.next_u64()),
        };
        let image = env.crash_image(rng.below(ops as u64 + 1) as usize, &cut);
        let session = open_with(&image, options());
        let described = told(&does(&session, "DESCRIBE KEYSPACE k"));
        seen.insert(["TABLE k.u", "t_v_idx", "t_w_idx"].map(|what| described.contains(what)));
        // Objects without a definition are created again, possibly with the same ids.
        does(&session, "CREATE TABLE IF NOT EXISTS u (p int PRIMARY KEY, v int)");
        does(&session, "CREATE INDEX IF NOT EXISTS t_w_idx ON t (w)");
        does(&session, "CREATE INDEX IF NOT EXISTS t_v_idx ON t (v)");
        for (condition, count) in [("v = 1", 10), ("w = 1", 7)] {
            assert_eq!(
                does(&session, &format!("SELECT p FROM t WHERE {condition}")).len(),
                count,
                "{condition} {seen:?}"
            );
        }
        assert_eq!(does(&session, "SELECT * FROM u").len(), 0);
    }
    assert!(seen.len() >= 3, "{seen:?}");
}

#[test]
fn a_prepared_statement_has_the_id_that_servers_give_it() {
    let session = Session::in_memory().unwrap();
    let other = Arc::from("other");
    for keyspace in ["one", "other"] {
        let text = format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        );
        session.execute(&text, ()).unwrap();
        session
            .execute(&format!("CREATE TABLE {keyspace}.p (a int PRIMARY KEY, b int)"), ())
            .unwrap();
    }
    session.execute("USE one", ()).unwrap();
    let hex = |text: &str, keyspace| {
        let id = session.prepare_in(keyspace, text).unwrap().id();
        id.iter().map(|b| format!("{b:02x}")).collect::<String>()
    };
    // If all table names have a keyspace, the current keyspace has no effect.
    for (text, wanted) in [
        ("SELECT * FROM one.p WHERE a=?", "805e0a1056e1336e0308303ddf3242dc"),
        ("INSERT INTO one.p (a,b) VALUES (?,?)", "ef99e17bd18b3bcb7885838f566de6a9"),
        (
            "BEGIN BATCH DELETE FROM one.p WHERE a=1; UPDATE one.p SET b=2 WHERE a=3 APPLY BATCH",
            "203af32869b1e554d21e9a1295a2fb45",
        ),
    ] {
        assert_eq!(
            (hex(text, None), hex(text, Some(&other))),
            (wanted.into(), wanted.into()),
            "{text}"
        );
    }
    let text = "SELECT * FROM p WHERE a=?";
    let ids = (hex(text, None), hex(text, Some(&other)));
    assert_eq!(
        ids,
        ("e2a3ac409e8e087df3dc11aee35ae52a".into(), "4a4f2e957e1f5c3b6f144ea2a57edebf".into())
    );
    // A definition is parsed when it runs.
    let definition = "CREATE TABLE one.q (a int PRIMARY KEY)";
    assert_ne!(hex(definition, None), hex(definition, Some(&other)));
    let mixed = "BEGIN BATCH DELETE FROM one.p WHERE a=1; UPDATE p SET b=2 WHERE a=3 APPLY BATCH";
    assert_ne!(hex(mixed, None), hex(mixed, Some(&other)));
}

#[test]
fn prepared_statements_outlive_changes_or_say_what_is_missing() {
    let session = open(&CrashEnv::new(1));
    does(&session, "CREATE TABLE t (p int PRIMARY KEY, v int)");
    let insert = session.prepare("INSERT INTO t (p, v) VALUES (?, ?)").unwrap();
    let all = session.prepare("SELECT * FROM t").unwrap();
    let some = session.prepare("SELECT v FROM t WHERE p = ?").unwrap();
    let how = RunOptions::default();
    session.run(&insert, (1, 1), &how).unwrap();
    assert_eq!(told(&session.run(&all, (), &how).unwrap()), "1 1");
    does(&session, "ALTER TABLE t ADD w text");
    assert_eq!(told(&session.run(&all, (), &how).unwrap()), "1 1 null");
    does(&session, "ALTER TABLE t DROP v");
    assert_eq!(
        session.run(&some, (1,), &how).unwrap_err().to_string(),
        "Undefined column name v in table k.t"
    );
    assert_eq!(
        session.run(&insert, (1, 1), &how).unwrap_err().to_string(),
        "Undefined column name v in table k.t"
    );
    does(&session, "ALTER TABLE t ADD v int");
    assert_eq!(told(&session.run(&some, (1,), &how).unwrap()), "null");
    session.run(&insert, (1, 3), &how).unwrap();
    assert_eq!(told(&session.run(&some, (1,), &how).unwrap()), "3");
    does(&session, "ALTER TABLE t RENAME p TO q");
    assert_eq!(session.run(&some, (1,), &how).unwrap_err().class(), ErrorClass::Invalid);
    does(&session, "DROP TABLE t");
    assert_eq!(session.run(&all, (), &how).unwrap_err().to_string(), "table t does not exist");
    // Another table with this name, where the marker has another type.
    does(&session, "CREATE TABLE t (p text PRIMARY KEY, v text)");
    let bytes = vec![BoundValue::Bytes(vec![0, 0, 0, 1]), BoundValue::Bytes(vec![0xFF])];
    assert_eq!(session.run(&insert, bytes, &how).unwrap_err().class(), ErrorClass::Invalid);
    session.run(&insert, ("x", "y"), &how).unwrap();
    assert_eq!(told(&session.run(&all, (), &how).unwrap()), "'x' 'y'");
    assert_eq!(session.prepared(&[7; 16]).unwrap_err().class(), ErrorClass::Unprepared);
    assert_eq!(session.prepared(&[7; 3]).unwrap_err().class(), ErrorClass::Unprepared);
    assert!(session.prepared(&insert.id()).is_ok());
}

#[test]
fn user_types_grow_and_are_renamed_under_their_data() {
    let env = CrashEnv::new(1);
    let session = open(&env);
    does(&session, "CREATE TYPE u (x int, y text)");
    does(&session, "CREATE TYPE o (a frozen<u>, l list<frozen<u>>)");
    does(
        &session,
        "CREATE TABLE t (p int PRIMARY KEY, f frozen<u>, n u, l list<frozen<u>>, m map<text, frozen<u>>, o frozen<o>)",
    );
    does(&session, "CREATE TABLE keyed (p frozen<u>, c frozen<u>, v int, PRIMARY KEY (p, c))");
    does(
        &session,
        "INSERT INTO t (p, f, n, l, m, o) VALUES (1, {x: 1}, {y: 'b'}, [{x: 3}], {'a': {y: 'c'}}, {a: {x: 4}, l: [{x: 5}]})",
    );
    does(&session, "INSERT INTO keyed (p, c, v) VALUES ({x: 1}, {x: 2, y: 'z'}, 1)");
    // Types of partition keys cannot get new fields.
    let why = "Cannot add new field zz of type int to user type k.u as the type is being used in partition key by the following tables: k.keyed";
    assert_eq!(refused(&session, "ALTER TYPE u ADD zz int"), (ErrorClass::Invalid, why.to_owned()));
    does(&session, "ALTER TYPE u RENAME x TO first AND y TO second");
    let found =
        does(&session, "SELECT * FROM keyed WHERE p = {first: 1} AND c = {first: 2, second: 'z'}");
    assert_eq!(told(&found), "{first: 1, second: null} {first: 2, second: 'z'} 1");
    does(&session, "DROP TABLE keyed");
    does(&session, "ALTER TYPE u ADD zz int");
    drop(session);
    let session = open(&env);
    let u = |first: &str, second: &str| format!("{{first: {first}, second: {second}, zz: null}}");
    let (one, b, three, c) = (u("1", "null"), u("null", "'b'"), u("3", "null"), u("null", "'c'"));
    let o = format!("{{a: {}, l: [{}]}}", u("4", "null"), u("5", "null"));
    assert_eq!(
        told(&does(&session, "SELECT f, n, l, m, o FROM t")),
        format!("{one} {b} [{three}] {{'a': {c}}} {o}")
    );
    does(&session, "UPDATE t SET n.zz = 9, n.first = 8 WHERE p = 1");
    assert_eq!(told(&does(&session, "SELECT n, n.zz FROM t")), "{first: 8, second: 'b', zz: 9} 9");
    does(&session, "UPDATE t SET n = {zz: 1} WHERE p = 1");
    assert_eq!(told(&does(&session, "SELECT n FROM t")), "{first: null, second: null, zz: 1}");
    let (class, text) = refused(&session, "DROP TYPE u");
    assert_eq!(class, ErrorClass::Invalid);
    assert!(text.starts_with("Cannot drop user type 'k.u' as it is still used by"), "{text}");
}

#[test]
fn clustering_columns_indexes_and_views_grow_with_their_type() {
    let env = CrashEnv::new(1);
    let session = open(&env);
    does(&session, "CREATE TYPE u (x int)");
    does(
        &session,
        "CREATE TABLE t (p int, c frozen<list<frozen<u>>>, d frozen<u>, s set<frozen<u>>, PRIMARY KEY (p, c, d)) WITH CLUSTERING ORDER BY (c ASC, d DESC)",
    );
    does(
        &session,
        "CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE p IS NOT NULL AND c IS NOT NULL AND d IS NOT NULL PRIMARY KEY (p, d, c)",
    );
    does(&session, "CREATE INDEX ON t (d)");
    does(&session, "CREATE INDEX ON t (s)");
    does(&session, "INSERT INTO t (p, c, d, s) VALUES (1, [{x: 1}], {x: 2}, {{x: 3}})");
    let before = session.prepare("INSERT INTO t (p, c, d) VALUES (2, ?, ?)").unwrap();
    does(&session, "ALTER TYPE u ADD y text");
    // A value bound for the old type is valid for the new one.
    let list = [0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 4, 0, 0, 0, 5];
    let values =
        vec![BoundValue::Bytes(list.to_vec()), BoundValue::Bytes(vec![0, 0, 0, 4, 0, 0, 0, 6])];
    session.run(&before, values, &RunOptions::default()).unwrap();
    does(
        &session,
        "INSERT INTO t (p, c, d, s) VALUES (1, [{x: 1, y: 'b'}], {x: 2, y: 'a'}, {{x: 3, y: 'c'}})",
    );
    let check = |session: &Session| {
        let found = |cql: &str| told(&does(session, cql));
        let (old, new) = ("{x: 2, y: null}", "{x: 2, y: 'a'}");
        assert_eq!(found("SELECT d FROM t WHERE p = 1"), format!("{old}, {new}"));
        // The view is sorted by `d`, descending like its base.
        assert_eq!(found("SELECT d FROM w WHERE p = 1"), format!("{new}, {old}"));
        assert_eq!(found("SELECT d FROM t WHERE p = 2"), "{x: 6, y: null}");
        assert_eq!(found("SELECT d FROM t WHERE d = {x: 2}"), old);
        assert_eq!(found("SELECT d FROM t WHERE d = {x: 2, y: 'a'}"), new);
        assert_eq!(found("SELECT d FROM t WHERE s CONTAINS {x: 3}"), old);
        assert_eq!(found("SELECT d FROM t WHERE s CONTAINS {x: 3, y: 'c'}"), new);
        assert_eq!(found("SELECT d FROM t WHERE p = 1 AND c > [{x: 1}]"), new);
    };
    check(&session);
    drop(session);
    let session = open(&env);
    check(&session);
    does(&session, "DELETE FROM t WHERE p = 1 AND c = [{x: 1, y: null}] AND d = {x: 2}");
    assert_eq!(told(&does(&session, "SELECT d FROM w")), "{x: 2, y: 'a'}, {x: 6, y: null}");
}

/// Executes one statement with these bytes as bound values.
fn bound(session: &Session, statement: &str, values: &[&[u8]]) -> Result<Rows, Error> {
    let prepared = session.prepare(statement).unwrap_or_else(|e| panic!("{statement}: {e}"));
    session.run(
        &prepared,
        values.iter().map(|b| BoundValue::Bytes(b.to_vec())).collect::<Vec<_>>(),
        &RunOptions::default(),
    )
}

#[test]
fn bytes_that_are_no_value_are_refused_wherever_they_are_bound() {
    let session = open(&CrashEnv::new(1));
    does(&session, "CREATE TYPE u (x int, y text)");
    let wrong: [(&str, &[&[u8]]); 22] = [
        ("int", &[&[1], &[0; 5]]),
        ("bigint", &[&[0; 7], &[0; 9]]),
        ("smallint", &[&[], &[0; 3]]),
        ("tinyint", &[&[], &[0; 2]]),
        ("float", &[&[0; 3]]),
        ("double", &[&[0; 4]]),
        ("boolean", &[&[0, 0]]),
        ("text", &[&[0xFF], &[0xC0, 0x80], &[0xED, 0xA0, 0x80], &[0xE2, 0x82]]),
        ("ascii", &[&[0x80]]),
        ("uuid", &[&[0; 15], &[0; 17]]),
        ("timeuuid", &[&[0; 15], &[0; 16]]),
        ("timestamp", &[&[0; 7]]),
        ("date", &[&[], &[0; 3]]),
        ("time", &[&[], &[0; 4]]),
        ("inet", &[&[0; 5]]),
        ("decimal", &[&[0; 3]]),
        ("duration", &[&[0], &[0x80]]),
        (
            "list<int>",
            &[&[0], &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1], &[0x7F, 0xFF, 0xFF, 0xFF], &[0xFF; 4]],
        ),
        ("set<text>", &[&[0, 0, 0, 1, 0, 0, 0, 1, 0xFF], &[0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF]]),
        ("map<int, int>", &[&[0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1]]),
        ("tuple<int, int>", &[&[0, 0, 0, 4, 0, 0], &[0, 0, 0, 9, 1], &[0, 0, 0, 1, 1]]),
        ("frozen<u>", &[&[0, 0, 0, 4, 0], &[0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0xFF]]),
    ];
    for (of, values) in wrong {
        does(&session, "DROP TABLE IF EXISTS t");
        does(&session, &format!("CREATE TABLE t (p int PRIMARY KEY, v {of})"));
        for value in values {
            let error = bound(&session, "INSERT INTO t (p, v) VALUES (1, ?)", &[value])
                .expect_err(&format!("{of} {value:?}"));
            assert_eq!(error.class(), ErrorClass::Invalid, "{of} {value:?}: {error}");
            if !of.contains(['<', '(']) {
                let found =
                    bound(&session, "SELECT * FROM t WHERE v = ? ALLOW FILTERING", &[value]);
                assert_eq!(
                    found.expect_err(&format!("{of} {value:?}")).class(),
                    ErrorClass::Invalid
                );
            }
        }
        assert_eq!(told(&does(&session, "SELECT p, v FROM t")), "", "{of}");
    }
    does(&session, "CREATE TABLE w (p int, c text, PRIMARY KEY (p, c))");
    let select = session.prepare("SELECT * FROM w WHERE p = ? AND c > ?").unwrap();
    for count in [0, 1, 3, 70_000] {
        let error = session
            .run(&select, vec![BoundValue::Null; count], &RunOptions::default())
            .unwrap_err();
        assert_eq!(error.text(), "Invalid amount of bind variables");
        assert_eq!(error.help().unwrap(), format!("2 are wanted, p int, c text, and {count} came"));
    }
    assert_eq!(
        bound(&session, "SELECT * FROM w WHERE p = ? AND c > ?", &[&[0; 4], &[0xFF]])
            .unwrap_err()
            .class(),
        ErrorClass::Invalid
    );
    assert_eq!(
        bound(&session, "INSERT INTO w (p, c) VALUES (?, ?)", &[&[0; 4], &[0xFF]])
            .unwrap_err()
            .class(),
        ErrorClass::Invalid
    );
    assert_eq!(
        bound(&session, "SELECT * FROM w LIMIT ?", &[&[0; 3]]).unwrap_err().class(),
        ErrorClass::Invalid
    );
    assert_eq!(
        bound(&session, "INSERT INTO w (p, c) VALUES (1, 'a') USING TTL ?", &[&[0; 5]])
            .unwrap_err()
            .class(),
        ErrorClass::Invalid
    );
}

#[test]
fn what_is_too_large_is_refused_and_what_is_not_comes_back() {
    let session = open(&CrashEnv::new(1));
    does(
        &session,
        "CREATE TABLE t (p text, c text, v blob, l list<int>, s set<int>, f frozen<list<int>>, PRIMARY KEY (p, c))",
    );
    let key = |n: usize| "k".repeat(n);
    let insert = "INSERT INTO t (p, c) VALUES (?, ?)";
    bound(&session, insert, &[key(65_535).as_bytes(), key(65_535).as_bytes()]).unwrap();
    assert_eq!(
        bound(
            &session,
            "SELECT * FROM t WHERE p = ? AND c > ?",
            &[key(40_000).as_bytes(), key(40_000).as_bytes()]
        )
        .unwrap()
        .len(),
        0
    );
    does(&session, "CREATE TABLE u (p text, c text, d text, PRIMARY KEY (p, c, d))");
    let of_two = "INSERT INTO u (p, c, d) VALUES (?, ?, ?)";
    bound(&session, of_two, &[b"p", key(65_534).as_bytes(), b"d"]).unwrap();
    let (long, short) = (key(65_536), key(65_535));
    let json = format!(r#"INSERT INTO t JSON '{{"p": "p", "c": "{long}"}}'"#);
    let too_long: [(&str, &[&[u8]]); 8] = [
        (insert, &[long.as_bytes(), b"c"]),
        (insert, &[b"p", long.as_bytes()]),
        (of_two, &[b"p", short.as_bytes(), b"d"]),
        (&json, &[]),
        ("INSERT INTO t (p, c) VALUES (?, ?) IF NOT EXISTS", &[b"p", long.as_bytes()]),
        (
            "BEGIN BATCH UPDATE t SET v = 0x WHERE p = ? AND c = ? APPLY BATCH",
            &[b"p", long.as_bytes()],
        ),
        ("DELETE v FROM t WHERE p = ? AND c = ?", &[b"p", long.as_bytes()]),
        ("SELECT * FROM t WHERE p = ?", &[long.as_bytes()]),
    ];
    for (statement, values) in too_long {
        let error = bound(&session, statement, values).expect_err(statement);
        assert_eq!(
            (error.class(), &*error.to_string()),
            (ErrorClass::Invalid, "Key length of 65536 is longer than maximum of 65535")
        );
    }
    // No row has such a value, but querying it is allowed.
    assert_eq!(
        bound(&session, "SELECT * FROM t WHERE p = ? AND c = ?", &[b"p", long.as_bytes()])
            .unwrap()
            .len(),
        0
    );
    assert_eq!(told(&does(&session, "SELECT count(*) FROM t")), "1");
    // An element longer than the maximum key of the engine.
    let set = "CREATE TABLE e (p int PRIMARY KEY, s set<text>)";
    does(&session, set);
    let add = |n: usize| {
        session.execute(&format!("UPDATE e SET s = s + {{'{}'}} WHERE p = 1", key(n)), ())
    };
    add(70_000).unwrap();
    assert_eq!(add(600_000).unwrap_err().class(), ErrorClass::Invalid);
    assert_eq!(
        does(&session, "SELECT s FROM e").typed::<(Vec<String>,)>().unwrap()[0].0,
        [key(70_000)]
    );
    // A statement of 2 MB.
    let text = format!("UPDATE t SET v = 0x{} WHERE p = 'p' AND c = 'v'", "ab".repeat(1 << 20));
    does(&session, &text);
    let read: Vec<(Vec<u8>,)> =
        does(&session, "SELECT v FROM t WHERE p = 'p' AND c = 'v'").typed().unwrap();
    assert!(read[0].0.len() == 1 << 20 && read[0].0.iter().all(|b| *b == 0xAB));
    let many = (0..20_000).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    does(
        &session,
        &format!(
            "UPDATE t SET l = [{many}], s = {{{many}}}, f = [{many}] WHERE p = 'p' AND c = 'l'"
        ),
    );
    let rows = does(&session, "SELECT l, s, f FROM t WHERE p = 'p' AND c = 'l'");
    let read: Vec<(Vec<i32>, Vec<i32>, Vec<i32>)> = rows.typed().unwrap();
    let all: Vec<i32> = (0..20_000).collect();
    assert!(read[0].0 == all && read[0].1 == all && read[0].2 == all);
    does(&session, "UPDATE t SET l[19999] = 7, s = s - {5} WHERE p = 'p' AND c = 'l'");
    assert_eq!(
        refused(&session, "UPDATE t SET l[20000] = 7 WHERE p = 'p' AND c = 'l'").0,
        ErrorClass::Invalid
    );
}

#[test]
fn truncate_leaves_nothing_whatever_the_keys() {
    for partitioner in ["ByteOrderedPartitioner", "Murmur3Partitioner", "RandomPartitioner"] {
        let options = Options { partitioner: Some(partitioner.into()), ..Options::default() };
        let session =
            Session::new(Wide::open_in(Arc::new(CrashEnv::new(1)), "db", options).unwrap())
                .unwrap();
        does(
            &session,
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        does(&session, "CREATE TABLE k.t (p blob PRIMARY KEY, v blob)");
        does(&session, "CREATE INDEX ON k.t (v)");
        let long = [0xFF; 100];
        bound(&session, "INSERT INTO k.t (p, v) VALUES (?, ?)", &[&long, &long]).unwrap();
        bound(&session, "INSERT INTO k.t (p, v) VALUES (?, ?)", &[&[0], &[]]).unwrap();
        does(&session, "TRUNCATE k.t");
        assert_eq!(told(&does(&session, "SELECT * FROM k.t")), "", "{partitioner}");
        assert!(
            bound(&session, "SELECT * FROM k.t WHERE p = ?", &[&long]).unwrap().is_empty(),
            "{partitioner}"
        );
        assert!(
            bound(&session, "SELECT * FROM k.t WHERE v = ?", &[&long]).unwrap().is_empty(),
            "{partitioner}"
        );
    }
}

#[test]
fn a_run_goes_by_the_second_that_it_says_is_now() {
    let session = open(&CrashEnv::new(12));
    does(&session, "CREATE TABLE t (k int, c int, v text, l list<int>, PRIMARY KEY (k, c))");
    let clock = session.engine().store().now();
    let at = |second: i64, cql: &str| {
        let run = RunOptions { now_in_seconds: Some(second as u32), ..RunOptions::default() };
        session.execute_with(cql, (), &run)
    };
    let lives =
        |second: i64, cql: &str| at(second, cql).unwrap().typed::<(Option<i32>,)>().unwrap();
    at(clock - 50, "INSERT INTO t (k, c, v) VALUES (1, 1, 'a') USING TTL 100").unwrap();
    let (one, all) = ("SELECT ttl(v) FROM t WHERE k = 1 AND c = 1", "SELECT ttl(v) FROM t");
    for cql in [one, all] {
        for (second, left) in [(-50, 100), (0, 50), (49, 1)] {
            assert_eq!(lives(clock + second, cql), [(Some(left),)], "{cql} at {second}");
        }
        assert_eq!(lives(clock + 50, cql), [], "{cql}");
        assert_eq!(session.execute(cql, ()).unwrap().typed::<(i32,)>().unwrap(), [(50,)]);
    }
    // Conditions, and operations that read before they write.
    let applied = |rows: Rows| rows.row(0).unwrap().get::<bool>("[applied]").unwrap();
    let update = "UPDATE t SET v = 'b' WHERE k = 1 AND c = 1 IF v = 'a'";
    assert!(!applied(at(clock + 50, update).unwrap()));
    assert!(applied(at(clock + 49, update).unwrap()));
    at(clock, "UPDATE t USING TTL 100 SET l = [1] WHERE k = 2 AND c = 1").unwrap();
    let element = "UPDATE t SET l[0] = 2 WHERE k = 2 AND c = 1";
    assert!(at(clock + 100, element).is_err());
    at(clock + 99, element).unwrap();
    // A batch of statements and of prepared statements.
    let batch = "BEGIN BATCH INSERT INTO t (k, c, v) VALUES (3, 1, 'a') USING TTL 100 APPLY BATCH";
    at(clock - 30, batch).unwrap();
    let put = session.prepare("INSERT INTO t (k, c, v) VALUES (4, 1, 'a') USING TTL 100").unwrap();
    let run = RunOptions { now_in_seconds: Some((clock - 30) as u32), ..RunOptions::default() };
    session.batch(BatchKind::Logged, &[(&put, vec![])], &run).unwrap();
    for key in [3, 4] {
        let rows = does(&session, &format!("SELECT ttl(v) FROM t WHERE k = {key}"));
        assert_eq!(rows.typed::<(i32,)>().unwrap(), [(70,)], "{key}");
    }
    // Data deleted at that time can be purged.
    let told = |second: i64, key: i32| {
        at(second, &format!("DELETE FROM t WHERE k = {key} AND c = 1")).unwrap();
        let engine = session.engine();
        let family = engine.family(engine.catalog().tables().next().unwrap()).unwrap();
        let slice = StoreSlice::all().raw();
        let mut reader = engine.store().read(&family, &key.to_be_bytes(), &slice).unwrap();
        let item = reader.next().unwrap().unwrap();
        let Body::RowDeletion(deletion) = item.body else { panic!("{:?}", item.body) };
        deletion.local
    };
    assert_eq!((told(7, 5), told(1 << 31, 6)), (7, 1 << 31));
    // Functions return the clock's time.
    let now = at(5, "SELECT toUnixTimestamp(now()) FROM t LIMIT 1").unwrap();
    assert!(now.typed::<(i64,)>().unwrap()[0].0 >= clock * 1000);
}

#[test]
fn a_keyspace_that_the_older_interface_drops_and_makes_again_is_another_one() {
    let env = CrashEnv::new(14);
    let session = open(&env);
    let heard = Arc::new(common::Heard::default());
    session.engine().add_listener(heard.clone());
    let keyspace = firn_wide::KsDef::new("old");
    let (wide, engine) = (session.engine().wide().clone(), session.engine().clone());
    let anew = || {
        wide.system_drop_keyspace("old").unwrap();
        wide.system_add_keyspace(&keyspace).unwrap();
    };
    let fill = |session: &Session| {
        does(session, "CREATE TYPE old.u (a int)");
        does(session, "CREATE TABLE old.t (k int PRIMARY KEY, v int)");
        does(session, "CREATE INDEX ON old.t (v)");
        does(session, "INSERT INTO old.t (k, v) VALUES (1, 1)");
        does(session, "CREATE ROLE IF NOT EXISTS ann");
        does(session, "GRANT SELECT ON KEYSPACE old TO ann");
        does(session, "GRANT SELECT ON old.t TO ann");
    };
    let is_empty = |session: &Session| {
        let (class, text) = refused(session, "SELECT * FROM old.t");
        assert_eq!((class, &*text), (ErrorClass::Invalid, "table t does not exist"));
        for of in ["tables", "types", "indexes"] {
            let rows = format!("SELECT * FROM system_schema.{of} WHERE keyspace_name = 'old'");
            assert!(does(session, &rows).is_empty(), "{of}");
        }
        assert!(does(session, "LIST ALL PERMISSIONS OF ann").is_empty());
    };
    wide.system_add_keyspace(&keyspace).unwrap();
    fill(&session);
    let read = session.prepare("SELECT v FROM old.t WHERE k = 1").unwrap();
    let put = session.prepare("INSERT INTO old.t (k, v) VALUES (2, 2)").unwrap();
    assert_eq!(session.run(&read, (), &RunOptions::default()).unwrap().len(), 1);
    // During the session's next operation: whatever it is, it sees the new keyspace.
    let looks: [&dyn Fn(); 4] = [
        &|| drop(session.run(&read, (), &RunOptions::default()).unwrap_err()),
        &|| {
            drop(
                session
                    .batch(BatchKind::Logged, &[(&put, vec![])], &RunOptions::default())
                    .unwrap_err(),
            )
        },
        &|| drop(session.prepare("SELECT v FROM old.t WHERE k = 3").unwrap_err()),
        &|| drop(does(&session, "CREATE TABLE old.t (k int PRIMARY KEY, w text)")),
    ];
    for look in looks {
        heard.take();
        anew();
        look();
        assert_eq!(heard.take()[..2], ["DROPPED KEYSPACE old ", "CREATED KEYSPACE old "]);
        session.execute("DROP TABLE IF EXISTS old.t", ()).unwrap();
        is_empty(&session);
        fill(&session);
        assert_eq!(does(&session, "SELECT * FROM old.t").len(), 1);
        drop(does(&session, "DROP INDEX old.t_v_idx"));
    }
    // Nothing is read until the next opening. Then the state is unchanged, and new objects remain.
    anew();
    drop((session, engine, wide, read, put));
    let alone = Wide::open_in(Arc::new(env.clone()), "db", Options::default()).unwrap();
    alone.system_update_keyspace(&firn_wide::KsDef { durable_writes: false, ..keyspace }).unwrap();
    drop(alone);
    let session = open(&env);
    is_empty(&session);
    fill(&session);
    drop(session);
    for _ in 0..2 {
        let session = open(&env);
        assert_eq!(does(&session, "SELECT * FROM old.t").len(), 1);
        assert_eq!(does(&session, "LIST ALL PERMISSIONS OF ann").len(), 2);
    }
}
