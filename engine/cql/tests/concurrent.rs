//! Changes by many threads at once (model 3.2): a condition and its change are atomic, no increment
//! is lost, and one of many inserts wins.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

use firn_cql::{BatchKind, ResultKind, RunOptions, Session, Values};
use firn_kv::MemEnv;
use firn_testkit::rng::Rng;
use firn_wide::{Options, Wide};

const THREADS: i32 = 8;

fn session(table: &str) -> Session {
    let wide =
        Wide::open_in(std::sync::Arc::new(MemEnv::new(1)), "db", Options::default()).unwrap();
    let session = Session::new(wide).unwrap();
    session.execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ()).unwrap();
    session.execute("USE ks", ()).unwrap();
    session.execute(table, ()).unwrap();
    session
}

#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn on_each_thread(session: &Session, work: impl Fn(i32, Session) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (session, work) = (session.clone(), &work);
            scope.spawn(move || work(thread, session));
        }
    });
}

#[test]
fn conditional_updates_lose_no_increment() {
    let session = session("CREATE TABLE t (k int PRIMARY KEY, n int)");
    session.execute("INSERT INTO t (k, n) VALUES (0, 0)", ()).unwrap();
    let refused = AtomicU32::new(0);
    on_each_thread(&session, |_, session| {
        let mut seen = 0;
        for _ in 0..50 {
            loop {
                let told = session
                    .execute("UPDATE t SET n = ? WHERE k = 0 IF n = ?", (seen + 1, seen))
                    .unwrap();
                let row = told.row(0).unwrap();
                if row.get::<bool>("[applied]").unwrap() {
                    seen += 1;
                    break;
                }
                refused.fetch_add(1, Ordering::Relaxed);
                let now: i32 = row.get("n").unwrap();
                assert!(now > seen, "{now} came after {seen}");
                seen = now;
            }
        }
    });
    let n: i32 = session
        .execute("SELECT n FROM t WHERE k = 0", ())
        .unwrap()
        .row(0)
        .unwrap()
        .get("n")
        .unwrap();
    assert_eq!(n, THREADS * 50, "after {} refusals", refused.into_inner());
}

#[test]
fn counters_lose_no_increment() {
    let session =
        session("CREATE TABLE t (k int, c int, n counter, s counter static, PRIMARY KEY (k, c))");
    on_each_thread(&session, |thread, session| {
        for i in 0..200 {
            session
                .execute(
                    "UPDATE t SET n = n + ?, s = s - 1 WHERE k = 0 AND c = ?",
                    (i64::from(thread), i % 2),
                )
                .unwrap();
        }
    });
    let rows: Vec<(i32, i64, i64)> =
        session.execute("SELECT c, n, s FROM t WHERE k = 0", ()).unwrap().typed().unwrap();
    let sum = i64::from((0..THREADS).sum::<i32>()) * 100;
    assert_eq!(rows, [(0, sum, -200 * i64::from(THREADS)), (1, sum, -200 * i64::from(THREADS))]);
}

#[test]
fn one_insert_wins() {
    let session = session("CREATE TABLE t (k int PRIMARY KEY, v int)");
    let wins = AtomicU32::new(0);
    on_each_thread(&session, |thread, session| {
        for k in 0..50 {
            let told = session
                .execute("INSERT INTO t (k, v) VALUES (?, ?) IF NOT EXISTS", (k, thread))
                .unwrap();
            let row = told.row(0).unwrap();
            let won = row.get::<bool>("[applied]").unwrap();
            wins.fetch_add(u32::from(won), Ordering::Relaxed);
            let there: i32 = session
                .execute("SELECT v FROM t WHERE k = ?", (k,))
                .unwrap()
                .row(0)
                .unwrap()
                .get("v")
                .unwrap();
            let winner = if won { thread } else { row.get("v").unwrap() };
            assert_eq!(there, winner, "{k}");
        }
    });
    assert_eq!(wins.into_inner(), 50);
}

#[test]
fn elements_of_lists_are_all_kept() {
    let session = session("CREATE TABLE t (k int PRIMARY KEY, l list<int>)");
    on_each_thread(&session, |thread, session| {
        for i in 0..20 {
            let n = thread * 20 + i;
            let text = if i % 2 == 0 {
                "UPDATE t SET l = l + ? WHERE k = 0"
            } else {
                "UPDATE t SET l = ? + l WHERE k = 0"
            };
            session.execute(text, (vec![n, n + 1000],)).unwrap();
        }
    });
    let l: Vec<i32> =
        session.execute("SELECT l FROM t", ()).unwrap().row(0).unwrap().get("l").unwrap();
    let at = |n: i32| l.iter().position(|x| *x == n).unwrap_or_else(|| panic!("{n} is lost"));
    for n in 0..THREADS * 20 {
        assert!(at(n) + 1 == at(n + 1000), "what one statement wrote is together");
    }
    for thread in 0..THREADS {
        let mine = |parity: i32| {
            (0..20).filter(move |i| i % 2 == parity).map(move |i| thread * 20 + i).map(at)
        };
        assert!(mine(0).is_sorted(), "later elements come after");
        assert!(mine(1).is_sorted_by(|a, b| a > b), "elements prepended later come first");
    }
}

/// Threads set the timestamp of each change: the largest one wins, whatever the order. A batch is
/// read completely or not at all, also with pages.
#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn the_greatest_timestamp_wins_and_batches_are_whole() {
    let session = session("CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))");
    let (clock, done, all) = (
        AtomicI64::new(1),
        AtomicBool::new(false),
        Mutex::new(BTreeMap::<(i32, i32), (i64, Option<i32>)>::new()),
    );
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let all = session.prepare("SELECT c, v FROM t WHERE k = 9").unwrap();
            let mut seen = 0;
            while !done.load(Ordering::Relaxed) {
                // A batch is complete in a page.
                let rows =
                    session.query_prepared(&all, (), &RunOptions::default()).unwrap().typed();
                let rows: Vec<(i32, i32)> = rows.collect::<Result<_, _>>().unwrap();
                assert!(
                    rows.iter().all(|(_, v)| *v == rows[0].1) && [0, 3].contains(&rows.len()),
                    "half a batch: {rows:?}"
                );
                seen = rows.first().map_or(seen, |(_, v)| *v);
            }
            seen
        });
        let catalog = scope.spawn(|| {
            // Statements are recompiled while definitions change.
            while !done.load(Ordering::Relaxed) {
                session.execute("CREATE TABLE short (k int PRIMARY KEY)", ()).unwrap();
                session.execute("DROP TABLE short", ()).unwrap();
                assert!(
                    session
                        .engine()
                        .fresh_catalog()
                        .unwrap()
                        .keyspace("ks")
                        .unwrap()
                        .table("t")
                        .is_some()
                );
            }
        });
        on_each_thread(&session, |thread, session| {
            let put = session.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)").unwrap();
            let batch = "BEGIN BATCH INSERT INTO t (k, c, v) VALUES (9, 0, ?); INSERT INTO t (k, c, v) VALUES (9, 1, ?); \
                         UPDATE t SET v = ? WHERE k = 9 AND c = 2; APPLY BATCH";
            let mut rng = Rng::new(thread as u64);
            for i in 0..60 {
                let (k, c) = (rng.below(3) as i32, rng.below(4) as i32);
                let at = clock.fetch_add(1, Ordering::Relaxed);
                let how = RunOptions { timestamp: Some(at), ..RunOptions::default() };
                let value = (i % 5 != 4).then_some(thread * 100 + i);
                match value {
                    Some(v) => drop(session.run(&put, (k, c, v), &how).unwrap()),
                    None => drop(
                        session
                            .execute_with("DELETE v FROM t WHERE k = ? AND c = ?", (k, c), &how)
                            .unwrap(),
                    ),
                }
                let mut all = all.lock().unwrap();
                let newest = all.entry((k, c)).or_insert((at, value));
                *newest = if at > newest.0 { (at, value) } else { *newest };
                drop(all);
                if i % 2 == 0 {
                    session.execute_with(batch, (i, i, i), &how).unwrap();
                } else {
                    let row = |c: i32| (&put, (9, c, i).bind(put.markers()).unwrap());
                    session.batch(BatchKind::Logged, &[0, 1, 2].map(row), &how).unwrap();
                }
            }
        });
        done.store(true, Ordering::Relaxed);
        catalog.join().unwrap();
        reader.join().unwrap();
    });
    let want: Vec<(i32, i32, i32)> =
        all.lock().unwrap().iter().filter_map(|((k, c), (_, v))| Some((*k, *c, (*v)?))).collect();
    // Page by page.
    let (mut got, mut paging) = (vec![], None);
    loop {
        let how = RunOptions { page_size: Some(3), paging, ..RunOptions::default() };
        let page = session.execute_with("SELECT k, c, v FROM t", (), &how).unwrap();
        assert!(page.len() <= 3 && page.warnings().is_empty());
        got.extend(
            page.typed::<(i32, i32, Option<i32>)>()
                .unwrap()
                .into_iter()
                .filter_map(|(k, c, v)| Some((k, c, v?))),
        );
        paging = page.paging().cloned();
        if paging.is_none() {
            break;
        }
    }
    got.retain(|(k, ..)| *k < 9);
    got.sort();
    assert_eq!(got, want);
}

#[test]
fn a_change_of_indexes_says_of_which_table() {
    let session = session("CREATE TABLE t (k int PRIMARY KEY, n int)");
    let (dropped, named) = (AtomicU32::new(0), AtomicU32::new(0));
    on_each_thread(&session, |thread, session| {
        let statement = match thread {
            0 => "CREATE INDEX IF NOT EXISTS t_n ON t (n)",
            _ => "DROP INDEX IF EXISTS t_n",
        };
        while dropped.load(Ordering::Relaxed) < 40 {
            let done = session.execute(statement, ()).unwrap();
            if let ResultKind::Schema(change) = done.kind()
                && thread > 0
            {
                dropped.fetch_add(1, Ordering::Relaxed);
                named.fetch_add(u32::from(change.name.as_deref() == Some("t")), Ordering::Relaxed);
            }
        }
    });
    assert_eq!(named.into_inner(), dropped.into_inner());
}
