//! Results as Rust values: derived structs, errors of rows and statements, iteration over pages.

use super::common;

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_cql::{ErrorClass, FromRow, PagedRows, RunOptions, Session};
use firn_kv::MemEnv;
use firn_wide::{Options, Wide};

fn session() -> Session {
    common::session_in(
        Wide::open_in(Arc::new(MemEnv::new(1)), "db", Options::default()).unwrap(),
        "ks",
    )
}

fn does(session: &Session, statement: &str) {
    session.execute(statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"));
}

#[derive(Debug, PartialEq, FromRow)]
struct Song {
    id: i32,
    #[firn(rename = "Title")]
    title: String,
    r#type: Option<String>,
    tags: BTreeSet<String>,
    #[firn(default)]
    plays: i64,
    #[firn(default, rename = "length")]
    seconds: Option<i32>,
    #[firn(skip)]
    seen: bool,
}

fn songs() -> Session {
    let session = session();
    does(
        &session,
        r#"CREATE TABLE songs (id int PRIMARY KEY, "Title" text, type text, tags set<text>, plays bigint)"#,
    );
    does(
        &session,
        r#"INSERT INTO songs (id, "Title", type, tags, plays) VALUES (1, 'Blackbird', 'ballad', {'b', 'a'}, 7)"#,
    );
    does(&session, r#"INSERT INTO songs (id, "Title") VALUES (2, 'Hurt')"#);
    session
}

#[test]
fn a_struct_is_read_by_the_names_of_its_fields() {
    let read = songs().execute("SELECT * FROM songs", ()).unwrap().typed::<Song>().unwrap();
    let tags = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    let title = |t: &str| t.to_owned();
    let first = Song {
        id: 1,
        title: title("Blackbird"),
        r#type: Some(title("ballad")),
        tags,
        plays: 7,
        seconds: None,
        seen: false,
    };
    let second = Song {
        id: 2,
        title: title("Hurt"),
        r#type: None,
        tags: BTreeSet::new(),
        plays: 0,
        seconds: None,
        seen: false,
    };
    assert_eq!(read, [first, second]);
}

/// Returns the error of converting the rows of a statement to `T`.
fn why<T: FromRow + std::fmt::Debug>(session: &Session, statement: &str) -> String {
    session.execute(statement, ()).unwrap().typed::<T>().unwrap_err().to_string()
}

#[test]
fn what_a_row_can_not_be_read_as_is_said_with_the_column_and_both_types() {
    #[derive(Debug, FromRow)]
    #[allow(dead_code)]
    struct Plays {
        plays: i32,
    }
    #[derive(Debug, FromRow)]
    #[allow(dead_code)]
    struct Tags {
        tags: Vec<i32>,
    }
    let session = songs();
    assert_eq!(
        why::<Plays>(&session, "SELECT plays FROM songs WHERE id = 1"),
        "column plays of type bigint can't be read as i32: BigInt(7) can't be read as i32"
    );
    assert_eq!(
        why::<Plays>(&session, "SELECT plays FROM songs WHERE id = 2"),
        "column plays of type bigint can't be read as i32: null can't be read as i32; Option is for what may be null"
    );
    assert_eq!(
        why::<Tags>(&session, "SELECT tags FROM songs"),
        r#"column tags of type set<text> can't be read as Vec<i32>: Text("a") can't be read as i32"#
    );
    assert_eq!(
        why::<Song>(&session, "SELECT id, plays FROM songs"),
        "there is no column Title in the result, which has id, plays"
    );
    assert_eq!(
        why::<(i32, String)>(&session, "SELECT id FROM songs"),
        "there is no column 1 in the result, which has id"
    );
}

fn numbers(count: i32) -> Session {
    let session = session();
    does(&session, "CREATE TABLE t (p int, c int, v int, PRIMARY KEY (p, c))");
    let insert = session.prepare("INSERT INTO t (p, c, v) VALUES (?, ?, ?)").unwrap();
    for i in 0..count {
        session.run(&insert, (i % 3, i, i * 10), &RunOptions::default()).unwrap();
    }
    session
}

#[test]
fn a_walk_shows_what_one_page_would_and_holds_one_page() {
    let session = numbers(100);
    for cql in [
        "SELECT * FROM t",
        "SELECT * FROM t WHERE p IN (0, 2)",
        "SELECT * FROM t LIMIT 7",
        "SELECT * FROM t WHERE p = 9",
    ] {
        let whole = session.execute(cql, ()).unwrap().typed::<(i32, i32, i32)>().unwrap();
        for size in [1, 2, 7, 100, 101] {
            let how = RunOptions { page_size: Some(size), ..RunOptions::default() };
            let walk = session.query_with(cql, (), &how).unwrap();
            assert_eq!(walk.page().len(), size.min(whole.len()));
            assert_eq!(
                walk.typed::<(i32, i32, i32)>().collect::<Result<Vec<_>, _>>().unwrap(),
                whole,
                "{cql} in pages of {size}"
            );
            let mut walk =
                session.query_prepared(&session.prepare(cql).unwrap(), (), &how).unwrap();
            let mut came = vec![];
            while let Some(row) = walk.next() {
                let row = row.unwrap();
                assert!(walk.page().len() <= size);
                came.push((row.get("p").unwrap(), row.get("c").unwrap(), row.row().at(2).unwrap()));
            }
            assert_eq!(came, whole);
            assert!(walk.next().is_none());
        }
    }
    assert_eq!(session.query("INSERT INTO t (p, c) VALUES (?, ?)", (7, 7)).unwrap().count(), 0);
    assert_eq!(
        session.query("INSERT INTO t (p, c) VALUES (?, ?) IF NOT EXISTS", (7, 7)).unwrap().count(),
        1
    );
    assert_eq!(session.query("DESCRIBE TABLES", ()).unwrap().count(), 1);
}

#[test]
fn pages_that_nobody_sizes_have_a_thousand_rows() {
    let session = numbers(2500);
    let mut walk = session.query("SELECT v FROM t", ()).unwrap();
    let mut pages = vec![];
    let mut count = 0;
    while let Some(row) = walk.next() {
        row.unwrap();
        count += 1;
        let page = (walk.page().paging().cloned(), walk.page().len());
        if pages.last() != Some(&page) {
            pages.push(page);
        }
    }
    assert_eq!((count, PagedRows::PAGE), (2500, 1000));
    assert_eq!(pages.iter().map(|p| p.1).collect::<Vec<_>>(), [1000, 1000, 500]);
}

#[test]
fn what_is_written_behind_a_walk_is_not_seen_and_what_is_written_ahead_is() {
    let session = session();
    does(&session, "CREATE TABLE t (p int, c int, PRIMARY KEY (p, c))");
    (0..10).for_each(|c| does(&session, &format!("INSERT INTO t (p, c) VALUES (1, {})", c * 10)));
    let how = RunOptions { page_size: Some(2), ..RunOptions::default() };
    let mut walk =
        session.query_with("SELECT c FROM t WHERE p = ?", (1,), &how).unwrap().typed::<(i32,)>();
    let begin: Vec<i32> = walk.by_ref().take(4).map(|r| r.unwrap().0).collect();
    assert_eq!(begin, [0, 10, 20, 30]);
    does(&session, "INSERT INTO t (p, c) VALUES (1, 15)");
    does(&session, "INSERT INTO t (p, c) VALUES (1, 45)");
    does(&session, "DELETE FROM t WHERE p = 1 AND c = 60");
    // The last row of a page may be deleted: the next page begins after its key.
    does(&session, "DELETE FROM t WHERE p = 1 AND c = 30");
    assert_eq!(walk.map(|r| r.unwrap().0).collect::<Vec<_>>(), [40, 45, 50, 70, 80, 90]);
}

#[test]
fn errors_are_items_and_those_of_pages_are_the_last_ones() {
    let session = numbers(10);
    assert_eq!(
        session.query("SELECT x FROM t", ()).unwrap_err().to_string(),
        "Undefined column name x in table ks.t"
    );
    // Rows that cannot be converted are errors, and the iteration continues.
    does(&session, "INSERT INTO t (p, c, v) VALUES (0, 4, null)");
    let read: Vec<_> =
        session.query("SELECT v FROM t WHERE p = 0", ()).unwrap().typed::<(i32,)>().collect();
    assert_eq!(read.iter().filter(|r| r.is_err()).count(), 1);
    assert_eq!(read.len(), 5);
    let how = RunOptions { page_size: Some(4), ..RunOptions::default() };
    let mut walk = session.query_with("SELECT * FROM t", (), &how).unwrap();
    assert_eq!(walk.by_ref().take(4).filter(Result::is_ok).count(), 4);
    does(&session, "ALTER TABLE t ADD w int");
    assert_eq!(walk.next().unwrap().unwrap().row().columns().len(), 4);
    does(&session, "DROP TABLE t");
    assert_eq!(walk.by_ref().take(3).filter(Result::is_ok).count(), 3);
    assert_eq!(walk.next().unwrap().unwrap_err().to_string(), "table t does not exist");
    assert!(walk.next().is_none());
}

const FILTERS: &str = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. \
     If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING";

/// Returns the advice for a `SELECT` that is refused.
fn proposed(session: &Session, statement: &str) -> Option<String> {
    let error = session.execute(statement, ()).expect_err(statement);
    assert_eq!(error.class(), ErrorClass::Invalid);
    if let Some(help) = error.help() {
        assert_eq!(error.to_string(), format!("{}; {help}", error.text()));
    }
    error.help().map(str::to_owned)
}

#[test]
fn the_index_that_finds_the_rows_is_proposed_and_finds_them() {
    for (condition, on) in [
        ("v = 1", "v"),
        ("a = 1", "a"),
        ("c = 1", "c"),
        ("st = 1", "st"),
        ("s CONTAINS 1", "s"),
        ("m CONTAINS 'x'", "m"),
        ("m CONTAINS KEY 1", "KEYS(m)"),
        ("m[1] = 'x'", "ENTRIES(m)"),
        ("f = [1]", "FULL(f)"),
        ("\"V\" = 1", "\"V\""),
        ("a = 1 AND b = 1 AND v = 1", "v"),
    ] {
        let session = session();
        does(
            &session,
            "CREATE TABLE t (a int, b int, c int, d int, v int, \"V\" int, s set<int>, m map<int, text>, f frozen<list<int>>, st int static, \
             PRIMARY KEY ((a, b), d, c))",
        );
        let select = format!("SELECT * FROM t WHERE {condition}");
        let help =
            proposed(&session, &select).unwrap_or_else(|| panic!("{select}: nothing is proposed"));
        let index = help
            .strip_prefix("an index would find these rows: ")
            .unwrap_or_else(|| panic!("{select}: {help}"));
        assert_eq!(index, format!("CREATE INDEX ON ks.t ({on})"), "{select}");
        does(&session, index);
        does(&session, &select);
    }
    assert_eq!(numbers(1).execute("SELECT * FROM t WHERE v = 1", ()).unwrap_err().text(), FILTERS);
}

#[test]
fn where_no_index_is_enough_a_key_is_proposed_and_nothing_where_nothing_helps() {
    let session = session();
    does(&session, "CREATE TABLE t (k int, c int, v int, w int, l list<int>, PRIMARY KEY (k, c))");
    let keyed = "a table of the same columns with PRIMARY KEY";
    for (condition, wanted) in [
        ("v > 1", None),
        (
            "l CONTAINS 1 AND l CONTAINS 2",
            Some(
                "CREATE INDEX ON ks.t (l) would leave only the rows that it finds to be filtered"
                    .to_owned(),
            ),
        ),
        ("k > 1", None),
        (
            "v = 1 AND w = 2",
            Some(format!(
                "{keyed} ((v, w), k, c) would be read without, and CREATE INDEX ON ks.t (v) would leave only the rows that it finds to be \
                 filtered"
            )),
        ),
        ("k = 1 AND v > 2", Some(format!("{keyed} (k, v, c) would be read without"))),
        (
            "v = 1 AND c IN (1, 2)",
            Some(format!(
                "{keyed} ((v, c), k) would be read without, and CREATE INDEX ON ks.t (v) would leave only the rows that it finds to be filtered"
            )),
        ),
        (
            "token(k) > 1 AND v = 1",
            Some("an index would find these rows: CREATE INDEX ON ks.t (v)".to_owned()),
        ),
        ("x = 1", None),
    ] {
        assert_eq!(
            proposed(&session, &format!("SELECT * FROM t WHERE {condition}")),
            wanted,
            "{condition}"
        );
    }
    does(&session, "CREATE INDEX ON t (w)");
    assert_eq!(
        proposed(&session, "SELECT * FROM t WHERE v > 1 AND w = 2").unwrap(),
        format!(
            "{keyed} (w, v, k, c) would be read without, and an index that is there leaves only the rows that it finds to be filtered"
        )
    );
    // A table of counters cannot have an index.
    does(&session, "CREATE TABLE n (k int PRIMARY KEY, v counter)");
    assert_eq!(proposed(&session, "SELECT * FROM n WHERE v = 1"), None);
}

#[test]
fn vectors_are_lists_of_their_elements() {
    let session = session();
    does(
        &session,
        "CREATE TABLE v (k int PRIMARY KEY, near vector<float, 3>, words vector<text, 2>)",
    );
    let insert = "INSERT INTO v (k, near, words) VALUES (?, ?, ?)";
    let words = vec!["a".to_owned(), "bc".to_owned()];
    session.execute(insert, (1, vec![1.0f32, 2.5, -3.0], &words)).unwrap();
    let rows = session.execute("SELECT near, words FROM v", ()).unwrap();
    let read: Vec<(Vec<f32>, Vec<String>)> = rows.typed().unwrap();
    assert_eq!(read, [(vec![1.0, 2.5, -3.0], words.clone())]);
    let error = session.execute(insert, (1, vec![1.0f32], &words)).unwrap_err().to_string();
    assert!(
        error.ends_with("of type vector<float, 3>; expected 3 elements, but given 1"),
        "{error}"
    );
}
