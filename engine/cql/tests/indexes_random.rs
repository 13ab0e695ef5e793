//! Random queries of storage-attached indexes, compared with filtered scans of a table with the
//! same rows but without indexes. The queries have values, ranges, elements, several indexes and
//! pages. Rows are overwritten and deleted, indexes are created before and after the rows, and the
//! store is reopened. Nearest vectors are compared with a full sort.

use std::sync::Arc;
use std::time::Duration;

use firn_cql::{RunOptions, Session};
use firn_kv::MemEnv;
use firn_testkit::rng::Rng;
use firn_wide::{Options, Wide};

const INDEXES: [&str; 9] = ["a", "t", "s", "c", "l", "keys(m)", "values(m)", "entries(m)", "v"];

fn open(env: &MemEnv) -> Session {
    // Later writes have later timestamps.
    env.advance(Duration::from_secs(1));
    let wide = Wide::open_in(Arc::new(env.clone()), "db", Options::default()).unwrap();
    let session = Session::new(wide).unwrap();
    session
        .execute(
            "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            (),
        )
        .unwrap();
    session.execute("USE ks", ()).unwrap();
    session
}

/// Executes a statement on both tables.
fn both(session: &Session, statement: impl Fn(&str) -> String) {
    for table in ["plain", "indexed"] {
        let text = statement(table);
        session.execute(&text, ()).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}

fn change(session: &Session, rng: &mut Rng) {
    let (p, c) = (rng.below(6), rng.below(8));
    match rng.below(12) {
        0 => both(session, |t| format!("DELETE FROM {t} WHERE p = {p}")),
        1 => both(session, |t| format!("DELETE FROM {t} WHERE p = {p} AND c = {c}")),
        2 => both(session, |t| format!("DELETE a, v, m FROM {t} WHERE p = {p} AND c = {c}")),
        3 => {
            let s = rng.below(4);
            both(session, |t| format!("UPDATE {t} SET s = {s} WHERE p = {p}"));
        }
        _ => {
            let n: Vec<u64> = (0..8).map(|_| rng.below(5)).collect();
            let word = ["Ab", "aB", "abc", "b", "x"][n[0] as usize];
            both(session, |t| {
                format!(
                    "INSERT INTO {t} (p, c, a, t, l, m, v) VALUES ({p}, {c}, {}, '{word}', [{}, {}], {{'{}': {}, 'z': {}}}, [{}, {}])",
                    n[1],
                    n[2],
                    n[3],
                    n[4],
                    n[5],
                    n[6],
                    n[7],
                    n[1] + 1
                )
            });
        }
    }
}

fn condition(rng: &mut Rng) -> String {
    let n = rng.below(5);
    let sign = ["=", "<", "<=", ">", ">="][rng.below(5) as usize];
    match rng.below(9) {
        0 | 1 => format!("a {sign} {n}"),
        2 => format!("t = '{}'", ["Ab", "aB", "abc", "b", "none"][n as usize]),
        3 => format!("s {sign} {n}"),
        4 => format!("c {sign} {n}"),
        5 => format!("l CONTAINS {n}"),
        6 => format!("m CONTAINS KEY '{n}'"),
        7 => format!("m CONTAINS {n}"),
        _ => format!("m['{}'] = {n}", rng.below(5)),
    }
}

/// Returns the rows as text, in order, read in pages of this size.
fn ask(session: &Session, text: &str, page: Option<usize>) -> Vec<String> {
    let prepared = session.prepare(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let (mut all, mut paging) = (vec![], None);
    loop {
        let how = RunOptions { page_size: page, paging, ..RunOptions::default() };
        let rows = session.run(&prepared, (), &how).unwrap_or_else(|e| panic!("{text}: {e}"));
        let show = |row: firn_cql::Row<'_>| {
            (0..row.columns().len()).map(|i| format!("{:?} ", row.bytes(i))).collect::<String>()
        };
        all.extend(rows.iter().map(show));
        paging = rows.paging().cloned();
        if paging.is_none() {
            return all;
        }
    }
}

fn compare(session: &Session, rng: &mut Rng) {
    let mut conditions: Vec<String> = vec![];
    for _ in 0..1 + rng.below(3) {
        let next = condition(rng);
        let column = next.split([' ', '[']).next().unwrap().to_owned();
        // A column has only one condition, except for its elements.
        if !conditions.iter().any(|c| c.split([' ', '[']).next() == Some(&*column)) {
            conditions.push(next);
        }
    }
    if rng.one_in(4) {
        conditions.push(format!("p = {}", rng.below(6)));
    } else if rng.one_in(6) {
        conditions.push(format!("token(p) > {}", (rng.below(u64::MAX) as i64)));
    }
    let asked = conditions.join(" AND ");
    let limit = if rng.one_in(4) { format!(" LIMIT {}", 1 + rng.below(9)) } else { String::new() };
    let page = rng.one_in(2).then(|| 1 + rng.below(4) as usize);
    let wanted =
        ask(session, &format!("SELECT * FROM plain WHERE {asked}{limit} ALLOW FILTERING"), None);
    let found = ask(session, &format!("SELECT * FROM indexed WHERE {asked}{limit}"), page);
    assert_eq!(found, wanted, "{asked}{limit}, pages of {page:?}");
}

fn compare_nearest(session: &Session, rng: &mut Rng) {
    let vector = format!("[{}, {}]", rng.below(5), 1 + rng.below(5));
    let asked = if rng.one_in(2) { format!("WHERE a > {}", rng.below(4)) } else { String::new() };
    let similarity = |rows: &firn_cql::Rows| {
        rows.typed::<(i32, Option<i32>, Option<f32>)>().unwrap().into_iter().collect::<Vec<_>>()
    };
    let columns = format!("p, c, similarity_euclidean(v, {vector})");
    let run = |text: &str| {
        similarity(&session.execute(text, ()).unwrap_or_else(|e| panic!("{text}: {e}")))
    };
    let mut wanted = run(&format!("SELECT {columns} FROM plain {asked} ALLOW FILTERING"));
    wanted.retain(|row| row.2.is_some());
    wanted.sort_by(|x, y| y.2.unwrap().total_cmp(&x.2.unwrap()));
    let limit = 1 + rng.below(20) as usize;
    wanted.truncate(limit);
    let text =
        format!("SELECT {columns} FROM indexed {asked} ORDER BY v ANN OF {vector} LIMIT {limit}");
    assert_eq!(run(&text), wanted, "{text}");
}

#[test]
fn indexes_find_what_filtered_scans_find() {
    for seed in 0..4 {
        let (mut rng, env) = (Rng::new(seed), MemEnv::new(seed));
        let mut session = open(&env);
        both(&session, |t| {
            format!(
                "CREATE TABLE {t} (p int, c int, s int static, a int, t text, l list<int>, m map<text, int>, v vector<float, 2>, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c {})",
                if seed % 2 == 0 { "ASC" } else { "DESC" }
            )
        });
        for _ in 0..rng.below(200) {
            change(&session, &mut rng);
        }
        for target in INDEXES {
            let options = match target {
                "v" => " WITH OPTIONS = {'similarity_function': 'euclidean'}",
                _ => "",
            };
            session
                .execute(&format!("CREATE INDEX ON indexed ({target}) USING 'sai'{options}"), ())
                .unwrap();
        }
        for _ in 0..100 {
            change(&session, &mut rng);
            match rng.below(30) {
                0 => {
                    drop(session);
                    session = open(&env);
                }
                1 => {
                    let db = session.engine().store().db();
                    for tree in db.tree_names() {
                        db.existing_tree(&tree).unwrap().compact().unwrap();
                    }
                }
                _ => compare(&session, &mut rng),
            }
            compare_nearest(&session, &mut rng);
        }
    }
}

#[test]
fn parts_of_texts_are_found_as_a_program_finds_them() {
    let mut rng = Rng::new(5);
    let env = MemEnv::new(5);
    let mut session = open(&env);
    session.execute("CREATE TABLE t (k int PRIMARY KEY, w text, x text)", ()).unwrap();
    let word = |rng: &mut Rng| {
        (0..rng.below(5)).map(|_| ['a', 'b', 'B', 'é'][rng.below(4) as usize]).collect::<String>()
    };
    let mut rows: Vec<Option<String>> = vec![None; 60];
    for round in 0..6 {
        for _ in 0..40 {
            let k = rng.below(60) as usize;
            let text = word(&mut rng);
            if rng.one_in(5) {
                session.execute("DELETE FROM t WHERE k = ?", (k as i32,)).unwrap();
                rows[k] = None;
            } else {
                let values = (k as i32, &*text, &*text);
                session.execute("INSERT INTO t (k, w, x) VALUES (?, ?, ?)", values).unwrap();
                rows[k] = Some(text);
            }
        }
        if round == 2 {
            let class = "org.apache.cassandra.index.sasi";
            for (column, analyzer) in [("w", ""), ("x", "'case_sensitive': 'false', ")] {
                let text = format!(
                    "CREATE CUSTOM INDEX ON t ({column}) USING '{class}.SASIIndex' WITH OPTIONS = {{'mode': 'CONTAINS', {analyzer}'analyzer_class': '{class}.analyzer.NonTokenizingAnalyzer'}}"
                );
                session.execute(&text, ()).unwrap();
            }
        }
        if round < 2 {
            continue;
        }
        drop(session);
        session = open(&env);
        for _ in 0..60 {
            let term = word(&mut rng);
            if term.is_empty() {
                continue;
            }
            let (before, after) = (rng.one_in(2), rng.one_in(2));
            let sign = |is: bool| if is { "%" } else { "" };
            let pattern = format!("{}{term}{}", sign(before), sign(after));
            let holds = |text: &str, term: &str| match (before, after) {
                (true, true) => text.contains(term),
                (true, false) => text.ends_with(term),
                (false, true) => text.starts_with(term),
                (false, false) => text == term,
            };
            for (column, is_folded) in [("w", false), ("x", true)] {
                let fold = |t: &str| if is_folded { t.to_lowercase() } else { t.to_owned() };
                let wanted = (0..60).filter(|k| {
                    rows[*k].as_ref().is_some_and(|text| holds(&fold(text), &fold(&term)))
                });
                let text = format!("SELECT k FROM t WHERE {column} LIKE ?");
                let found = session.execute(&text, (&*pattern,)).unwrap();
                let mut found: Vec<usize> = found
                    .typed::<(i32,)>()
                    .unwrap()
                    .into_iter()
                    .map(|row| row.0 as usize)
                    .collect();
                found.sort_unstable();
                assert_eq!(found, wanted.collect::<Vec<_>>(), "{column} LIKE {pattern}");
            }
        }
    }
}

#[test]
fn ranges_with_many_rows_are_found_in_pages_and_as_a_whole() {
    let session = open(&MemEnv::new(9));
    session.execute("CREATE TABLE t (p int, c int, a int, PRIMARY KEY (p, c))", ()).unwrap();
    session.execute("CREATE INDEX ON t (a) USING 'sai'", ()).unwrap();
    let insert = session.prepare("INSERT INTO t (p, c, a) VALUES (?, ?, ?)").unwrap();
    const ROWS: i32 = 17_000;
    for i in 0..ROWS {
        session.run(&insert, (i % 50, i, i % 1000), &RunOptions::default()).unwrap();
    }
    let wanted = |least: i32| {
        ask(&session, &format!("SELECT p, c FROM t WHERE a >= {least} ALLOW FILTERING"), None)
    };
    let asked = |least: i32| format!("SELECT p, c FROM t WHERE a >= {least}");
    for (least, count, page) in [
        (0, ROWS, None),
        (0, ROWS, Some(5000)),
        (990, ROWS / 100, Some(7)),
        (990, ROWS / 100, None),
    ] {
        let found = ask(&session, &asked(least), page);
        assert_eq!(found.len(), count as usize);
        assert_eq!(found, wanted(least));
    }
    // Pages are so small that a scan is used; checking the first ones is sufficient.
    let prepared = session.prepare(&asked(0)).unwrap();
    let (mut paging, all) = (None, wanted(0));
    for start in (0..30).step_by(3) {
        let how = RunOptions { page_size: Some(3), paging, ..RunOptions::default() };
        let rows = session.run(&prepared, (), &how).unwrap();
        let shown = rows.iter().map(|r| format!("{:?} {:?} ", r.bytes(0), r.bytes(1)));
        assert_eq!(shown.collect::<Vec<_>>(), all[start..start + 3]);
        paging = rows.paging().cloned();
    }
}
