//! Content of the statement log: sizes but no values, batches, pages, errors, no passwords.

use std::path::PathBuf;
use std::sync::Arc;

use firn_cql::{
    BatchKind, BoundValue, LoggedSize, LoggedStatement, RanStatement, Rows, RunOptions, Session,
    StatementLog,
};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// A file that is removed on drop.
struct LogFileName(PathBuf);

impl Drop for LogFileName {
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn name(of: &str) -> LogFileName {
    LogFileName(std::env::temp_dir().join(format!("firn-statements-{of}-{}", std::process::id())))
}

#[allow(clippy::disallowed_methods, reason = "a test's own file")]
fn lines(file: &LogFileName) -> (String, Vec<LoggedStatement>) {
    let text = std::fs::read_to_string(&file.0).unwrap();
    let read = text.lines().map(|line| LoggedStatement::parse(line).unwrap()).collect();
    (text, read)
}

#[test]
fn a_line_has_what_ran_and_the_sizes_of_its_values() {
    let file = name("sizes");
    let log = Arc::new(StatementLog::append(&file.0).unwrap());
    let session = Session::in_memory().unwrap();
    session.execute(KEYSPACE, ()).unwrap();
    session.log_statements(log.clone()).unwrap();
    assert!(session.log_statements(log.clone()).is_err(), "a session has one log");
    session.execute("USE k", ()).unwrap();
    session
        .execute("CREATE TABLE t (p int, c int, v text, s set<int>, PRIMARY KEY (p, c))", ())
        .unwrap();
    let insert = "INSERT INTO t (p, c, v, s) VALUES (?, ?, ?, ?)";
    let clone = session.clone();
    for c in 0..5 {
        clone.execute(insert, (1, c, "a secret", vec![1, 2, 3])).unwrap();
    }
    let unset = session.prepare(insert).unwrap();
    let values = [1, 9].map(|n: i32| BoundValue::Bytes(n.to_be_bytes().to_vec()));
    let values = [&values[..], &[BoundValue::Null, BoundValue::Unset]].concat();
    session.run(&unset, &values, &RunOptions::default()).unwrap();
    let paged = RunOptions { page_size: Some(4), ..RunOptions::default() };
    let found = session.query_with("SELECT v FROM t WHERE p = 1", (), &paged).unwrap();
    assert_eq!(found.count(), 6);
    assert!(session.execute("SELECT nothing FROM t", ()).is_err());
    assert!(session.execute("SELCT", ()).is_err());
    log.flush().unwrap();

    let (text, read) = lines(&file);
    assert!(!text.contains("secret"), "{text}");
    let texts: Vec<&str> = read.iter().map(|l| l.statement.as_deref().unwrap()).collect();
    assert_eq!(texts[0], "USE k");
    assert!(texts[1].starts_with("CREATE TABLE t"));
    assert_eq!(texts[2..8], [insert; 6]);
    assert_eq!(texts[8..10], ["SELECT v FROM t WHERE p = 1"; 2]);
    assert_eq!(texts[10..], ["SELECT nothing FROM t", "SELCT"]);
    assert_eq!(read[0].keyspace, None);
    assert!(read[1..].iter().all(|l| l.keyspace.as_deref() == Some("k")));
    assert!(read.iter().all(|l| l.time.len() > 20 && l.micros.is_some()), "{read:?}");
    // A set of three ints: a count, and a length and four bytes for each.
    let sizes = [LoggedSize::Bytes(4), LoggedSize::Bytes(4), LoggedSize::Bytes(8)];
    let set = LoggedSize::Elements(4 + 3 * 8, 3);
    assert_eq!(read[2].values, [sizes[0], sizes[1], sizes[2], set].map(Some));
    assert_eq!(read[7].values, [Some(sizes[0]), Some(sizes[1]), None, None]);
    assert_eq!((set.bytes(), set.elements(), sizes[0].elements()), (28, Some(3), None));
    let pages: Vec<_> = read[8..10].iter().map(|l| (l.rows, l.bytes, l.later_page)).collect();
    assert_eq!(pages, [(Some(4), Some(32), false), (Some(2), Some(8), true)]);
    let errors: Vec<_> = read[10..].iter().map(|l| l.error.as_deref()).collect();
    assert_eq!(errors, [Some("InvalidRequest"), Some("SyntaxException")]);
}

#[test]
fn a_batch_is_a_line_with_its_statements() {
    let file = name("batch");
    let session = Session::in_memory().unwrap();
    session.execute(KEYSPACE, ()).unwrap();
    session.execute("CREATE TABLE k.t (p int PRIMARY KEY, v text)", ()).unwrap();
    session.log_statements(Arc::new(StatementLog::append(&file.0).unwrap())).unwrap();
    let put = session.prepare("INSERT INTO k.t (p, v) VALUES (?, ?)").unwrap();
    let values = |p: i32| {
        vec![
            BoundValue::Bytes(p.to_be_bytes().to_vec()),
            BoundValue::Bytes(b"twelve bytes".to_vec()),
        ]
    };
    let members: Vec<_> = (0..3).map(|p| (&put, values(p))).collect();
    session.batch(BatchKind::Unlogged, &members, &RunOptions::default()).unwrap();
    let one = "BEGIN BATCH INSERT INTO k.t (p, v) VALUES (8, 'a'); DELETE FROM k.t WHERE p = 9; APPLY BATCH";
    session.execute(one, ()).unwrap();
    session.close().unwrap();

    let (_, read) = lines(&file);
    assert_eq!(read.len(), 2, "closing writes what waits: {read:?}");
    assert_eq!(read[0].batch.as_deref(), Some("UNLOGGED"));
    assert_eq!((read[0].members.len(), read[0].partitions), (3, Some(3)));
    assert_eq!(read[0].members[2].values[1], Some(LoggedSize::Bytes(12)));
    assert_eq!((read[1].statement.as_deref(), read[1].partitions), (Some(one), Some(2)));
}

#[test]
fn passwords_and_texts_without_end_are_not_written() {
    let file = name("passwords");
    let session = Session::in_memory().unwrap();
    session.log_statements(Arc::new(StatementLog::append(&file.0).unwrap())).unwrap();
    for statement in [
        "CREATE ROLE ann WITH LOGIN = true AND HASHED PASSWORD = '$2a$10$hidden'",
        "CREATE ROLE bob WITH password = 'hidden' AND LOGIN",
        "SELECT 'password' FROM system.local",
    ] {
        let _ = session.execute(statement, ());
    }
    let _ = session.execute(&format!("SELECT '{}' FROM system.local", "x".repeat(2 << 20)), ());
    drop(session);

    let (text, read) = lines(&file);
    assert!(!text.contains("hidden"), "{text}");
    let first = read[0].statement.as_deref().unwrap();
    assert!(first.starts_with("CREATE ROLE ann") && first.contains("'***'"), "{first}");
    assert_eq!(read[1].statement, None, "what can't be read is not written");
    assert!(read[2].statement.is_some());
    assert_eq!((read.len(), read[3].statement.as_deref()), (4, None));
}

#[test]
fn a_line_that_is_none_is_refused() {
    for wrong in ["", "{}", "null", "[1]", "{\"values\": [-1]}", "{\"time\": 3}", "SELECT 1"] {
        assert!(LoggedStatement::parse(wrong).is_err(), "{wrong}");
    }
    // Fields of later versions are ignored.
    let newer = "{\"statement\": \"USE k\", \"colour\": \"blue\"}";
    assert_eq!(LoggedStatement::parse(newer).unwrap().statement.as_deref(), Some("USE k"));
}

#[test]
fn others_write_the_same_lines() {
    let file = name("others");
    let log = StatementLog::append(&file.0).unwrap();
    let start = log.start();
    let ran = RanStatement { keyspace: None, text: "USE k", markers: &[], values: &[] };
    log.ran(start, None, &[ran], false, Ok(&Rows::void()));
    log.ran(start, None, &[ran], false, Err("Lost"));
    drop(log);
    let again = StatementLog::append(&file.0).unwrap();
    again.ran(again.start(), Some(BatchKind::Counter), &[ran, ran], true, Ok(&Rows::void()));
    drop(again);

    let (_, read) = lines(&file);
    let told: Vec<_> = read.iter().map(|l| (l.error.as_deref(), l.members.len())).collect();
    assert_eq!(told, [(None, 0), (Some("Lost"), 0), (None, 2)]);
    assert_eq!((read[2].batch.as_deref(), read[2].later_page), (Some("COUNTER"), true));
}
