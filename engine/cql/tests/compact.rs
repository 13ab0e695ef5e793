//! Compact tables, which are column families of the Thrift interface. Tests definitions through
//! both interfaces, indexes and views with Thrift writes, crashes between the two records of a
//! table, and rows after `DROP COMPACT STORAGE`.

use super::both;
use super::common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_cql::{RunOptions, Session};
use firn_crash::{CrashEnv, Cut};
use firn_testkit::rng::Rng;
use firn_wide::{CfDef, ManualClock, Wide};

use both::{Both, Ends, KEYS, Shape, check, expected, letter, long, shapes, values};
use common::Heard;

const STATIC: &str =
    "CREATE TABLE users (key text PRIMARY KEY, name text, age bigint) WITH COMPACT STORAGE";

fn shape(name: &str) -> Shape {
    shapes().into_iter().find(|s| s.def.name == name).unwrap()
}

fn text(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

#[test]
fn an_index_of_statements_follows_what_the_older_interface_writes() {
    let mut both = Both::new(1);
    both.ask(STATIC);
    both.ask("INSERT INTO users (key, name, age) VALUES ('a', 'bob', 1)");
    both.ask("CREATE INDEX by_name ON users (name)");
    both.ask("CREATE CUSTOM INDEX by_age ON users (age) USING 'StorageAttachedIndex'");
    for (n, key) in ["b", "c"].iter().enumerate() {
        let row = both.family("users").row(*key);
        row.insert("name", "bob").unwrap();
        row.insert("age", (n as i64 + 2).to_be_bytes().to_vec()).unwrap();
        row.insert("unknown", "to statements").unwrap();
    }
    let asked = |both: &Both| {
        let mut keys = both.rows("SELECT key FROM users WHERE name = 'bob'").concat();
        keys.sort();
        keys
    };
    for _ in 0..2 {
        assert_eq!(asked(&both), [text("a"), text("b"), text("c")]);
        assert_eq!(both.family("users").find().eq("name", "bob").rows().unwrap().len(), 3);
        assert_eq!(both.rows("SELECT key FROM users WHERE age > 1").len(), 2);
        let names: Vec<_> = both.ask("SELECT * FROM users").columns().to_vec();
        assert_eq!(names.len(), 3);
        both.reopen();
    }
    both.clock.advance(1_000_000);
    both.family("users").row("b").delete("name").unwrap();
    both.family("users").row("c").delete_all().unwrap();
    assert_eq!(asked(&both), [text("a")]);
    let twice = both.refusal("CREATE CUSTOM INDEX ON users (name) USING 'StorageAttachedIndex'");
    assert!(twice.starts_with("Cannot create more than one index on the same column"), "{twice}");
    both.ask("DROP INDEX by_name");
    assert!(both.family("users").find().eq("name", "bob").rows().is_err());
    both.ask("ALTER TABLE users DROP name");
    let def = both.wide.describe_keyspace("rec").unwrap().cf_defs.remove(0);
    assert_eq!(def.column_metadata.len(), 1);
    // The cells exist, but their column is unknown.
    assert_eq!(both.family("users").row("a").slice().count().unwrap(), 2);
}

#[test]
fn the_older_interface_drops_compact_tables_and_does_not_change_them() {
    for is_open in [true, false] {
        let mut both = Both::new(2);
        let heard = Arc::new(Heard::default());
        both.session.engine().add_listener(heard.clone());
        both.ask(
            "CREATE TABLE t (k text, c text, v text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
        );
        both.ask("CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)");
        both.ask("INSERT INTO t (k, c, v) VALUES ('k', 'c', 'v')");
        let mut def = both.wide.describe_keyspace("rec").unwrap().cf_defs.remove(0);
        def.comment = "mine".into();
        let refused = both.wide.system_update_column_family(&def).unwrap_err().to_string();
        assert!(refused.ends_with("was made by CREATE TABLE: ALTER TABLE changes it"), "{refused}");
        let taken = both.wide.system_add_column_family(&CfDef::new("rec", "t")).unwrap_err();
        assert!(taken.to_string().starts_with("Cannot add already existing"), "{taken}");
        assert!(!heard.take().is_empty());
        if is_open {
            both.wide.system_drop_column_family("rec", "t").unwrap();
        } else {
            both.wide.close().unwrap();
            let wide = both.open_wide();
            wide.system_drop_column_family("rec", "t").unwrap();
            wide.close().unwrap();
            both.open_again();
        }
        for name in ["t", "w"] {
            let gone = both.refusal(&format!("SELECT * FROM {name}"));
            assert_eq!(gone, format!("table {name} does not exist"));
        }
        if is_open {
            assert_eq!(heard.take(), ["DROPPED TABLE rec t"]);
        }
        // Both interfaces can use the name.
        both.wide.system_add_column_family(&CfDef::new("rec", "t")).unwrap();
        assert_eq!(both.rows("SELECT * FROM t").len(), 0);
        both.ask("DROP TABLE t");
        both.ask("CREATE TABLE t (k text PRIMARY KEY, v text) WITH COMPACT STORAGE");
        both.family("t").row("k").insert("v", "w").unwrap();
        assert_eq!(both.rows("SELECT v FROM t"), [[text("w")]]);
        both.reopen();
        assert_eq!(both.rows("SELECT v FROM t"), [[text("w")]]);
    }
}

#[test]
fn options_of_a_table_stay_in_force_while_the_older_interface_defines_families() {
    let mut both = Both::new(3);
    both.ask(
        "CREATE TABLE t (k text, c text, v text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE AND gc_grace_seconds = 77
         AND comment = 'x' AND compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_size': 3}",
    );
    let policy = |both: &Both| format!("{:?}", both::family_tree(both, "t").options().policy);
    let before = policy(&both);
    assert!(before.starts_with("TimeWindow"), "{before}");
    both.wide.system_add_column_family(&CfDef::new("rec", "other")).unwrap();
    assert_eq!(policy(&both), before);
    both.wide.close().unwrap();
    let wide = both.open_wide();
    let id = wide.schema().family("rec", "t").unwrap().id();
    let alone = wide.store().family(id).unwrap().tree().options().policy;
    assert_eq!(format!("{alone:?}"), before);
    let def = wide.describe_keyspace("rec").unwrap().cf_defs.swap_remove(1);
    assert_eq!((&*def.comment, def.gc_grace_seconds), ("x", 77));
    wide.close().unwrap();
    both.open_again();
    // Options and types that families do not support.
    both.ask(
        "CREATE TABLE u (k int, c frozen<map<text, int>>, d vector<float, 2>, v duration, PRIMARY KEY (k, c, d)) WITH COMPACT STORAGE
         AND compaction = {'class': 'UnifiedCompactionStrategy', 'min_threshold': '1', 'max_threshold': '1'}
         AND compression = {'class': 'ZstdCompressor'} AND bloom_filter_fp_chance = 1.0 AND caching = {'keys': 'NONE'}",
    );
    both.ask("INSERT INTO u (k, c, d, v) VALUES (1, {'a': 1}, [1, 2], 3s)");
    both.ask("CREATE TABLE w (k int PRIMARY KEY, v int) WITH COMPACT STORAGE AND compression = {'enabled': false}");
    both.reopen();
    assert_eq!(both.rows("SELECT v FROM u WHERE k = 1 AND c = {'a': 1}").len(), 1);
    both.ask("ALTER TABLE t WITH comment = 'y'");
    let defs = both.wide.describe_keyspace("rec").unwrap().cf_defs;
    let def = defs.iter().find(|def| def.name == "t").unwrap();
    assert_eq!((&*def.comment, policy(&both)), ("y", before));
}

/// Compares the view of `t_comp` by value with the expected rows.
fn check_view(both: &Both, done: &[both::Did], words: &str) {
    let select = "SELECT value, key, column1, column2, writetime(value) FROM viewed";
    // The value is part of the view's key, which has no write time.
    let mut found: Vec<_> = both.rows(&select.replace(", writetime(value)", ""));
    let mut wanted = vec![];
    for (number, key) in KEYS.iter().enumerate() {
        for (cell, value, _) in expected(done, number) {
            let place = [letter(cell / both::GROUP).into_bytes(), long(cell % both::GROUP)];
            let row = [value.into_bytes(), key.as_bytes().to_vec()].into_iter().chain(place);
            wanted.push(row.map(Some).collect::<Vec<_>>());
        }
    }
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted, "{words}");
}

#[test]
fn a_view_of_cells_that_are_rows_follows_both_interfaces() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut both = Both::new(seed);
        let shape = shape("t_comp");
        shape.make(&both);
        let mut done = vec![];
        let view = "CREATE MATERIALIZED VIEW viewed AS SELECT * FROM t_comp WHERE key IS NOT NULL AND column1 IS NOT NULL
                    AND column2 IS NOT NULL AND value IS NOT NULL PRIMARY KEY (value, key, column1, column2)";
        let groups = "CREATE MATERIALIZED VIEW grouped AS SELECT * FROM t_comp WHERE key IS NOT NULL AND column1 IS NOT NULL
                      AND column2 IS NOT NULL PRIMARY KEY (column1, key, column2)";
        let made_at = rng.below(40);
        for step in 0..120 {
            if step == made_at {
                both.ask(view);
                both.ask(groups);
            }
            let timestamp = 1 + rng.below(60) as i64;
            let did = shape.random(&mut rng, timestamp);
            shape.carry_out(&both.family("t_comp"), &both.session, &did, rng.below(2) == 0);
            done.push(did);
            if step > made_at && step % 7 == 0 {
                if rng.below(4) == 0 {
                    both.reopen();
                }
                check_view(&both, &done, &format!("seed {seed}, step {step}"));
                let of = |table: &str| {
                    let mut rows = both.rows(&format!(
                        "SELECT key, column1, column2, value, writetime(value) FROM {table}"
                    ));
                    rows.sort();
                    rows
                };
                assert_eq!(of("grouped"), of("t_comp"), "seed {seed}, step {step}");
            }
        }
        check(&both, &shape, &done, &mut rng);
        both.ask("ALTER TABLE t_comp DROP COMPACT STORAGE");
        check_view(&both, &done, "an ordinary table");
        both.ask(
            "UPDATE t_comp SET value = 'new' WHERE key = 'k' AND column1 = 'z' AND column2 = 1",
        );
        let found = both.rows("SELECT key FROM viewed WHERE value = 'new'");
        assert_eq!(found, [[text("k")]]);
    }
}

#[test]
fn who_opens_a_store_without_statements_may_not_write_to_a_table_with_views() {
    let mut both = Both::new(5);
    both.ask("CREATE TABLE t (k text, c text, v text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE");
    both.ask("CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)");
    both.family("t").row("k").insert("c", "v").unwrap();
    both.wide.close().unwrap();
    let wide = both.open_wide();
    let family = wide.keyspace("rec").unwrap().family("t").unwrap();
    for refused in [
        family.row("k").insert("d", "v"),
        family.row("k").delete("c"),
        family.row("k").delete_all(),
        family.truncate(),
    ] {
        assert!(refused.unwrap_err().to_string().contains("materialized views"));
    }
    assert_eq!(family.row("k").slice().count().unwrap(), 1);
    wide.close().unwrap();
    both.open_again();
    both.family("t").row("k").insert("d", "v").unwrap();
    assert_eq!(both.rows("SELECT k FROM w WHERE c = 'd'"), [[text("k")]]);
    both.ask("DROP MATERIALIZED VIEW w");
    both.wide.close().unwrap();
    let wide = both.open_wide();
    wide.keyspace("rec").unwrap().family("t").unwrap().row("k").insert("e", "v").unwrap();
    wide.close().unwrap();
}

#[test]
fn what_was_written_and_deleted_is_in_the_ordinary_table_with_its_times() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mut both = Both::new(seed);
        for name in ["t_flat", "t_down", "t_comp"] {
            let shape = shape(name);
            shape.make(&both);
            let mut done = vec![];
            for step in 0..160 {
                if step == 80 {
                    if rng.below(2) == 0 {
                        both::family_tree(&both, name).flush().unwrap();
                    }
                    both.ask(&format!("ALTER TABLE {name} DROP COMPACT STORAGE"));
                    assert!(both.wide.keyspace("rec").unwrap().family(name).is_err());
                }
                let timestamp = 1 + rng.below(60) as i64;
                let did = shape.random(&mut rng, timestamp);
                match step < 80 {
                    true => {
                        let by_statement = rng.below(2) == 0;
                        shape.carry_out(&both.family(name), &both.session, &did, by_statement);
                    }
                    false => shape.carry_out_by_statement(&both.session, &did),
                }
                done.push(did);
                if step % 20 == 19 {
                    both::check_rows(&both, &shape, &done, &mut rng);
                }
            }
        }
        both.reopen();
        assert_eq!(both.rows("SELECT count(*) FROM t_flat").len(), 1);
    }
}

#[test]
fn an_ordinary_table_keeps_what_a_compact_one_had() {
    let mut both = Both::new(6);
    both.ask("CREATE TYPE rec.pair (a int, b int)");
    both.ask("CREATE TABLE s (a int, b text, v frozen<list<int>>, w pair_free, PRIMARY KEY ((a, b))) WITH COMPACT STORAGE".replace("w pair_free", "w frozen<pair>").as_str());
    both.ask("CREATE INDEX by_w ON s (w)");
    both.ask("CREATE TABLE n (k int, c frozen<pair>, d text, PRIMARY KEY (k, c, d)) WITH COMPACT STORAGE");
    both.ask("CREATE TABLE p (k int PRIMARY KEY, x counter, y counter) WITH COMPACT STORAGE");
    both.ask("INSERT INTO s (a, b, v, w) VALUES (1, 'x', [1, 2], {a: 1, b: 2}) USING TTL 100");
    both.ask("INSERT INTO s (a, b, v) VALUES (2, 'y', [3])");
    both.ask("INSERT INTO n (k, c, d) VALUES (1, {a: 1, b: 2}, 'z')");
    both.ask("INSERT INTO n (k, c) VALUES (1, {a: 1, b: 3})");
    both.ask("ALTER TYPE rec.pair ADD c text");
    both.ask("INSERT INTO n (k, c) VALUES (1, {a: 1, b: 3, c: 'three'})");
    both.ask("UPDATE p SET x = x + 5 WHERE k = 1");
    both.ask("UPDATE p SET y = y + 1 WHERE k = 2");
    both.ask("DELETE FROM p WHERE k = 2");
    let all = |both: &Both| ["s", "n", "p"].map(|t| both.rows(&format!("SELECT * FROM {t}")));
    let before = all(&both);
    assert_eq!(before.iter().map(Vec::len).collect::<Vec<_>>(), [2, 3, 1]);
    both.reopen();
    assert_eq!(all(&both), before);
    for table in ["s", "n", "p"] {
        both.ask(&format!("ALTER TABLE {table} DROP COMPACT STORAGE"));
        assert_eq!(all(&both), before, "{table}");
    }
    both.reopen();
    assert_eq!(all(&both), before);
    assert_eq!(both.rows("SELECT b FROM s WHERE w = {a: 1, b: 2}"), [[text("x")]]);
    assert_eq!(both.rows("SELECT ttl(v) FROM s WHERE a = 1 AND b = 'x'").len(), 1);
    both.clock.advance(200_000_000);
    assert_eq!(both.rows("SELECT b FROM s"), [[text("y")]]);
    both.ask("ALTER TABLE s ADD more set<int>");
    both.ask("UPDATE s SET more = more + {1} WHERE a = 2 AND b = 'y'");
    both.ask("ALTER TABLE n ADD st int static");
    both.ask("UPDATE p SET x = x + 1 WHERE k = 1");
    assert_eq!(both.rows("SELECT x FROM p WHERE k = 1"), [[Some(long(6))]]);
    assert!(both.wide.describe_keyspace("rec").unwrap().cf_defs.is_empty());
}

#[test]
fn a_table_that_could_not_be_written_anew_is_as_it_was() {
    let both = Both::new(9);
    both.ask("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE");
    for n in 0..50 {
        both.ask(&format!("INSERT INTO t (k, c, v) VALUES ({}, {n}, 'v')", n % 3));
    }
    let stop = Arc::new(AtomicBool::new(true));
    let how = RunOptions { stop: Some(stop.clone()), ..RunOptions::default() };
    let change = "ALTER TABLE t DROP COMPACT STORAGE";
    let stopped = both.session.execute_with(change, (), &how);
    assert!(matches!(stopped, Err(firn_cql::Error::Stopped)), "{stopped:?}");
    both.ask("INSERT INTO t (k, c, v) VALUES (1, 99, 'v')");
    let key = 1i32.to_be_bytes().to_vec();
    assert_eq!(both.family("t").row(key).slice().count().unwrap(), 18);
    stop.store(false, Ordering::Relaxed);
    both.session.execute_with(change, (), &how).unwrap();
    assert_eq!(both.rows("SELECT * FROM t").len(), 51);
    assert!(both.wide.keyspace("rec").unwrap().family("t").is_err());
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn no_write_is_lost_that_was_taken_while_a_table_was_written_anew() {
    let both = Both::new(7);
    for round in 0..8 {
        let name = format!("t{round}");
        both.ask(&format!(
            "CREATE TABLE {name} (k text, c bigint, v text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE"
        ));
        let is_over = &AtomicBool::new(false);
        let (session, wide, name) = (&both.session, &both.wide, &name);
        let taken: BTreeSet<(String, i64)> = std::thread::scope(|scope| {
            let ends = Ends(is_over);
            let writers: Vec<_> = (0..4)
                .map(|thread: i64| {
                    scope.spawn(move || {
                        let mut taken = vec![];
                        let mut n = thread;
                        while !is_over.load(Ordering::Relaxed) || n < 400 {
                            n += 4;
                            let key = KEYS[n as usize % 3];
                            let refused = if thread == 0 {
                                wide.keyspace("rec")
                                    .and_then(|k| {
                                        k.family(name)?
                                            .row(key)
                                            .insert(n.to_be_bytes().to_vec(), "v")
                                    })
                                    .map_err(|e| e.to_string())
                            } else {
                                let text = format!(
                                    "INSERT INTO {name} (k, c, v) VALUES ('{key}', {n}, 'v')"
                                );
                                session.execute(&text, ()).map(drop).map_err(|e| e.to_string())
                            };
                            match refused {
                                Ok(()) => taken.push((key.to_owned(), n)),
                                Err(e) => assert!(
                                    e.contains("written anew")
                                        || e.contains("has been dropped")
                                        || e.contains("unconfigured"),
                                    "{e}"
                                ),
                            }
                        }
                        taken
                    })
                })
                .collect();
            let read = || {
                (0..20).for_each(|_| {
                    // A read of the old tree may fail while it is dropped.
                    session.execute(&format!("SELECT count(*) FROM {name}"), ()).ok();
                });
            };
            read();
            both.ask(&format!("ALTER TABLE {name} DROP COMPACT STORAGE"));
            read();
            drop(ends);
            writers.into_iter().flat_map(|w| w.join().unwrap()).collect()
        });
        let rows = both.ask(&format!("SELECT k, c FROM {name}"));
        let found: BTreeSet<(String, i64)> =
            rows.typed::<(String, i64)>().unwrap().into_iter().collect();
        assert_eq!(found, taken);
    }
}

/// Rows of tables, by table name.
type Content = Vec<(String, Vec<Vec<Option<Vec<u8>>>>)>;

/// Returns all definitions and rows, and checks that both interfaces agree on them.
fn agreed(wide: &Wide, session: &Session) -> Content {
    let catalog = session.engine().catalog();
    let mut all = vec![];
    for table in catalog.tables() {
        let family = wide.schema().family("rec", &table.name).ok().map(|f| f.id());
        assert_eq!(family, table.form().map(|_| table.id), "{}", table.name);
        let rows = session.execute(&format!("SELECT * FROM rec.{}", table.name), ()).unwrap();
        let mut rows = values(&rows);
        rows.sort();
        all.push((table.name.clone(), rows));
    }
    for family in wide.schema().families() {
        assert!(
            catalog.keyspace("rec").unwrap().table(family.name()).is_some(),
            "{}",
            family.name()
        );
    }
    all
}

#[test]
fn a_crash_between_the_records_of_a_table_leaves_both_interfaces_of_one_mind() {
    let script = [
        "CREATE TABLE t (k text, c text, v text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
        "INSERT INTO t (k, c, v) VALUES ('k', 'a', 'v')",
        "INSERT INTO t (k, c, v) VALUES ('k', 'b', 'w')",
        "CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
        "CREATE TABLE s (k text PRIMARY KEY, v text) WITH COMPACT STORAGE",
        "INSERT INTO s (k, v) VALUES ('k', 'v')",
        "CREATE INDEX by_v ON s (v)",
        "ALTER TABLE t DROP COMPACT STORAGE",
        "DROP INDEX by_v",
        "INSERT INTO t (k, c, v) VALUES ('l', 'a', 'v')",
        "DROP TABLE s",
        "DROP MATERIALIZED VIEW w",
        "DROP TABLE t",
    ];
    let (env, clock) = (CrashEnv::new(4), Arc::new(ManualClock::new(1_763_800_000_000_000)));
    let (wide, session) = Both::open(&env, &clock);
    wide.system_add_keyspace(&firn_wide::KsDef::new("rec")).unwrap();
    session.execute("USE rec", ()).unwrap();
    env.start_journal();
    // State after each statement, and the journal position at its completion.
    let mut after = vec![(0, agreed(&wide, &session))];
    for statement in script {
        session.execute(statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"));
        wide.db().sync().unwrap();
        after.push((env.journal_len(), agreed(&wide, &session)));
    }
    let mut crasher = env.crasher();
    let mut images = 0;
    loop {
        for cut in [Cut::Process, Cut::PowerNone, Cut::PowerRandom(crasher.at() as u64)] {
            let (wide, session) = Both::open(&crasher.image(&cut), &clock);
            let found = agreed(&wide, &session);
            // All completed statements are there, and the next one is there completely or not at
            // all.
            let done = after.iter().rposition(|(at, _)| *at <= crasher.at()).unwrap();
            let may_be = after[done..].iter().take(2).any(|(_, all)| *all == found);
            assert!(may_be, "{cut:?} at {}: {found:?}, after {done} statements", crasher.at());
            // Both interfaces still work.
            wide.system_add_column_family(&CfDef::new("rec", "more")).unwrap();
            session
                .execute(
                    "CREATE TABLE rec.again (k text PRIMARY KEY, v text) WITH COMPACT STORAGE",
                    (),
                )
                .unwrap();
            agreed(&wide, &session);
            images += 1;
        }
        if !crasher.advance() {
            break;
        }
    }
    assert!(images > 100, "{images}");
}
