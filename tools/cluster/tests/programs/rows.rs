//! Schema changes; rows written and read as tuples, structs and by column names.

use std::sync::Arc;

use firn_cql::{ErrorClass, FromRow, Named, ResultKind, RunOptions, Value};

use super::Session;
use super::done;

pub fn typed_rows(session: &Session) {
    done(
        session,
        "CREATE TABLE songs (album text, track int, title text, PRIMARY KEY (album, track))",
    );
    let insert =
        session.prepare("INSERT INTO songs (album, track, title) VALUES (?, ?, ?)").unwrap();
    assert_eq!(insert.text(), "INSERT INTO songs (album, track, title) VALUES (?, ?, ?)");
    assert_eq!(insert.keyspace().map(|k| &**k), Some("typed_rows"));
    let markers: Vec<_> =
        insert.markers().iter().map(|m| (&*m.name, m.column_type.to_string())).collect();
    assert_eq!(
        markers,
        [("album", "text"), ("track", "int"), ("title", "text")].map(|(n, t)| (n, t.to_owned()))
    );
    for (track, title) in [(2, "Dear Prudence"), (1, "Back in the U.S.S.R."), (3, "Glass Onion")] {
        let rows =
            session.run(&insert, ("The Beatles", track, title), &RunOptions::default()).unwrap();
        assert_eq!((rows.kind(), rows.len()), (&ResultKind::Void, 0));
    }
    let by = "SELECT track, title FROM songs WHERE album = ? AND track > ?";
    for _ in 0..2 {
        let rows = session.execute(by, ("The Beatles", 1)).unwrap();
        assert_eq!(*rows.kind(), ResultKind::Rows);
        let rows: Vec<(i32, String)> = rows.typed().unwrap();
        assert_eq!(rows, [(2, "Dear Prudence".to_owned()), (3, "Glass Onion".to_owned())]);
    }
    let select = session.prepare(by).unwrap();
    let columns: Vec<_> = select.columns().unwrap().iter().map(|c| c.name.clone()).collect();
    assert_eq!(columns, ["track", "title"]);
    let named = Named(&[("album", &"The Beatles"), ("track", &2)]);
    let rows = session.run(&select, named, &RunOptions::default()).unwrap();
    let row = rows.row(0).unwrap();
    assert_eq!(row.get::<String>("title").unwrap(), "Glass Onion");
    assert_eq!(row.find::<String>("writer").unwrap(), None);
    assert_eq!(row.get::<i64>("title").unwrap_err().class(), ErrorClass::Invalid);
    assert_eq!(row.get::<i64>("writer").unwrap_err().class(), ErrorClass::Invalid);
    let values = [Value::Text("The Beatles".into()), Value::Int(2)];
    assert_eq!(session.run(&select, &values[..], &RunOptions::default()).unwrap().len(), 1);
    assert_eq!(session.execute(by, ("Nobody", 0)).unwrap().len(), 0);
}

#[derive(Debug, PartialEq, FromRow)]
struct Item {
    id: i64,
    name: Option<String>,
    tags: Vec<String>,
    #[firn(rename = "n")]
    number: i32,
    #[firn(default)]
    note: String,
}

pub fn structs(session: &Session) {
    done(session, "CREATE TABLE items (id bigint PRIMARY KEY, name text, tags list<text>, n int)");
    done(session, "INSERT INTO items (id, name, tags, n) VALUES (1, 'snow', ['old', 'new'], 7)");
    done(session, "INSERT INTO items (id, n) VALUES (2, 8)");
    let mut items: Vec<Item> = done(session, "SELECT * FROM items").typed().unwrap();
    items.sort_by_key(|item| item.id);
    let item = |id, name: Option<&str>, tags: &[&str], number| Item {
        id,
        name: name.map(str::to_owned),
        tags: tags.iter().map(|t| (*t).to_owned()).collect(),
        number,
        note: String::new(),
    };
    assert_eq!(items, [item(1, Some("snow"), &["old", "new"], 7), item(2, None, &[], 8)]);
}

pub fn selections(session: &Session) {
    done(
        session,
        "CREATE TABLE t (p int, c int, s text STATIC, v int, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)",
    );
    for (p, c) in (0..2).flat_map(|p| (0..5).map(move |c| (p, c))) {
        session.execute("INSERT INTO t (p, c, v) VALUES (?, ?, ?)", (p, c, 10 * p + c)).unwrap();
    }
    done(session, "UPDATE t SET s = 'one' WHERE p = 1");
    let ints = |cql: &str| -> Vec<i32> {
        done(session, cql).typed::<(i32,)>().unwrap().into_iter().map(|(n,)| n).collect()
    };
    assert_eq!(ints("SELECT v FROM t WHERE p = 1"), [14, 13, 12, 11, 10]);
    assert_eq!(ints("SELECT v FROM t WHERE p = 1 AND c >= 1 AND c < 3 ORDER BY c ASC"), [11, 12]);
    assert_eq!(
        ints("SELECT v FROM t WHERE p IN (0, 1) AND c IN (4, 0) ORDER BY c ASC LIMIT 3"),
        [0, 10, 4]
    );
    assert_eq!(ints("SELECT v FROM t WHERE v = 12 ALLOW FILTERING"), [12]);
    assert_eq!(
        done(session, "SELECT count(*), max(v) FROM t").typed::<(i64, i32)>().unwrap(),
        [(10, 14)]
    );
    let mut sums: Vec<(i32, i32)> =
        done(session, "SELECT p, sum(v) FROM t GROUP BY p").typed().unwrap();
    sums.sort();
    assert_eq!(sums, [(0, 10), (1, 60)]);
    assert_eq!(
        done(session, "SELECT DISTINCT s FROM t WHERE p = 1").typed::<(String,)>().unwrap(),
        [("one".to_owned(),)]
    );
    let json = "SELECT JSON p, c, s, v FROM t WHERE p = 1 AND c = 2";
    assert_eq!(
        done(session, json).typed::<(String,)>().unwrap(),
        [(r#"{"p": 1, "c": 2, "s": "one", "v": 12}"#.to_owned(),)]
    );
    session.execute("INSERT INTO t JSON ?", (r#"{"p": 3, "c": 1, "v": 31}"#,)).unwrap();
    assert_eq!(ints("SELECT v FROM t WHERE p = 3"), [31]);
    done(session, "DELETE FROM t WHERE p = 1 AND c > 0 AND c <= 3");
    assert_eq!(ints("SELECT v FROM t WHERE p = 1"), [14, 10]);
    let token = "SELECT p FROM t WHERE token(p) = token(?) LIMIT 1";
    assert_eq!(session.execute(token, (1,)).unwrap().typed::<(i32,)>().unwrap(), [(1,)]);
}

pub fn keyspaces(session: &Session) {
    done(session, "CREATE TABLE t (id int PRIMARY KEY, v text)");
    done(session, "DROP KEYSPACE IF EXISTS keyspaces_2");
    done(
        session,
        "CREATE KEYSPACE keyspaces_2 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    done(session, "CREATE TABLE keyspaces_2.t (id int PRIMARY KEY, v text)");
    done(session, "INSERT INTO t (id, v) VALUES (1, 'here')");
    let there = session.clone();
    let chosen = done(&there, "USE keyspaces_2");
    assert_eq!(*chosen.kind(), ResultKind::SetKeyspace("keyspaces_2".to_owned()));
    done(&there, "INSERT INTO t (id, v) VALUES (1, 'there')");
    let read = |session: &Session, how: &RunOptions| -> String {
        let rows = session.execute_with("SELECT v FROM t WHERE id = ?", (1,), how).unwrap();
        rows.row(0).unwrap().get("v").unwrap()
    };
    assert_eq!(session.keyspace().as_deref(), Some("keyspaces"));
    assert_eq!(
        (read(session, &RunOptions::default()), read(&there, &RunOptions::default())),
        ("here".into(), "there".into())
    );
    let second: Arc<str> = "keyspaces_2".into();
    let how = RunOptions { keyspace: Some(second.clone()), ..RunOptions::default() };
    assert_eq!(read(session, &how), "there");
    let prepared = session.prepare_in(Some(&second), "SELECT v FROM t WHERE id = 1").unwrap();
    assert_eq!(
        session.run(&prepared, (), &RunOptions::default()).unwrap().typed::<(String,)>().unwrap(),
        [("there".to_owned(),)]
    );
    let missing = session.execute("USE keyspaces_9", ()).unwrap_err();
    assert_eq!(missing.class(), ErrorClass::Invalid, "{missing}");
    assert_eq!(session.keyspace().as_deref(), Some("keyspaces"));
    done(session, "DROP KEYSPACE keyspaces_2");
}

pub fn definitions(session: &Session) {
    done(session, "CREATE TYPE place (street text, number int)");
    done(session, "CREATE TABLE t (id int PRIMARY KEY, a text, at place)");
    done(session, "CREATE INDEX ON t (a)");
    let insert = "INSERT INTO t (id, a) VALUES (?, ?)";
    session.execute(insert, (1, "x")).unwrap();
    assert_eq!(session.execute("SELECT id FROM t WHERE a = ?", ("x",)).unwrap().len(), 1);
    let all = session.prepare("SELECT * FROM t WHERE id = ?").unwrap();
    let names = || -> Vec<String> {
        let rows = session.run(&all, (1,), &RunOptions::default()).unwrap();
        rows.columns().iter().map(|c| c.name.clone()).collect()
    };
    assert_eq!(names(), ["id", "a", "at"]);
    done(session, "ALTER TABLE t ADD b int");
    done(session, "UPDATE t SET b = 5 WHERE id = 1");
    assert_eq!(names(), ["id", "a", "at", "b"]);
    let text: String =
        done(session, "DESCRIBE TABLE t").row(0).unwrap().get("create_statement").unwrap();
    assert!(text.starts_with("CREATE TABLE definitions.t ("), "{text}");
    // A table of the same name with other types: values use the new ones.
    done(session, "DROP TABLE t");
    done(session, "CREATE TABLE t (id int PRIMARY KEY, a bigint)");
    session.execute(insert, (1, 1_i64 << 40)).unwrap();
    assert_eq!(done(session, "SELECT a FROM t").typed::<(i64,)>().unwrap(), [(1 << 40,)]);
    done(session, "TRUNCATE t");
    assert!(done(session, "SELECT a FROM t").is_empty());
}
