//! Refused statements: the error class is the same on both sides.

use firn_cql::{Error, ErrorClass, RunOptions, Value};

use super::Session;
use super::done;

pub fn classes_of_errors(session: &Session) {
    done(session, "CREATE TABLE t (id int PRIMARY KEY, v text)");
    let class = |cql: &str| session.execute(cql, ()).expect_err(cql).class();
    for (cql, of) in [
        ("SELEC * FROM t", ErrorClass::Syntax),
        ("SELECT * FROM t WHERE", ErrorClass::Syntax),
        ("", ErrorClass::Syntax),
        ("SELECT * FROM missing", ErrorClass::Invalid),
        ("SELECT nothing FROM t", ErrorClass::Invalid),
        ("SELECT * FROM missing_keyspace.t", ErrorClass::Invalid),
        ("SELECT * FROM t WHERE v = 'x'", ErrorClass::Invalid),
        ("INSERT INTO t (v) VALUES ('x')", ErrorClass::Invalid),
        ("INSERT INTO t (id, v) VALUES ('x', 'y')", ErrorClass::Invalid),
        ("INSERT INTO t (id, v) VALUES (1, 'y') USING TTL -1", ErrorClass::Invalid),
        ("INSERT INTO t (id) VALUES (?)", ErrorClass::Invalid),
        ("ALTER TABLE t DROP id", ErrorClass::Invalid),
        ("CREATE TABLE u (id int)", ErrorClass::Invalid),
        (
            "CREATE TABLE u (id int PRIMARY KEY) WITH compaction = {'class': 'NoStrategy'}",
            ErrorClass::Configuration,
        ),
        (
            "CREATE KEYSPACE ks WITH replication = {'class': 'NoStrategy'}",
            ErrorClass::Configuration,
        ),
        ("DROP TABLE missing", ErrorClass::Invalid),
    ] {
        assert_eq!(class(cql), of, "{cql}");
    }
    match session.execute("CREATE TABLE t (id int PRIMARY KEY)", ()) {
        Err(Error::AlreadyExists { keyspace, table }) => {
            assert_eq!((&*keyspace, table.as_deref()), ("classes_of_errors", Some("t")));
        }
        other => panic!("{other:?}"),
    }
    let again = "CREATE KEYSPACE classes_of_errors WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    match session.execute(again, ()) {
        Err(Error::AlreadyExists { keyspace, table: None }) => {
            assert_eq!(keyspace, "classes_of_errors")
        }
        other => panic!("{other:?}"),
    }
    // Values are checked before anything is sent: their number and types.
    let insert = session.prepare("INSERT INTO t (id, v) VALUES (?, ?)").unwrap();
    let how = RunOptions::default();
    for refused in [
        session.run(&insert, (1,), &how),
        session.run(&insert, (1, "x", 2), &how),
        session.run(&insert, ("one", "x"), &how),
        session.run(&insert, (1, vec![1]), &how),
        session.run(&insert, (1, Value::Int(7)), &how),
        session.execute("SELECT * FROM t", (1,)),
        session.run(&insert, (None::<i32>, "x"), &how),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Invalid, "{refused}");
    }
    for (cql, of) in [("SELEC", ErrorClass::Syntax), ("SELECT * FROM missing", ErrorClass::Invalid)]
    {
        assert_eq!(session.prepare(cql).unwrap_err().class(), of, "{cql}");
        assert_eq!(session.query(cql, ()).unwrap_err().class(), of, "{cql}");
    }
    assert!(done(session, "SELECT * FROM t").is_empty());
}
