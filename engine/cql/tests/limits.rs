//! Statements that are too deep, too long or too numerous are errors, which are found without
//! exhausting stack or memory.

use firn_cql::Script;
use firn_cql::internals::syntax::{
    MAX_CHANGES, MAX_DEPTH, MAX_LENGTH, MAX_MARKERS, MAX_TERMS, parse,
};

/// A statement with `n` repetitions of a text.
type Shape = fn(usize) -> String;

const NESTED: [(&str, Shape); 14] = [
    ("lists", |n| format!("UPDATE t SET v = {}{} WHERE k = 1", "[".repeat(n), "]".repeat(n))),
    ("sets", |n| format!("UPDATE t SET v = {}{} WHERE k = 1", "{".repeat(n), "}".repeat(n))),
    ("maps", |n| format!("UPDATE t SET v = {}1{} WHERE k = 1", "{1:".repeat(n), "}".repeat(n))),
    ("user-defined types", |n| {
        format!("UPDATE t SET v = {}1{} WHERE k = 1", "{a:".repeat(n), "}".repeat(n))
    }),
    ("tuples", |n| format!("UPDATE t SET v = {}1{} WHERE k = 1", "(".repeat(n), ")".repeat(n))),
    ("calls", |n| format!("UPDATE t SET v = {}{} WHERE k = 1", "f(".repeat(n), ")".repeat(n))),
    ("hints", |n| format!("UPDATE t SET v = {}1 WHERE k = 1", "(int)".repeat(n))),
    ("types", |n| format!("CREATE TABLE t (a {}int{})", "list<".repeat(n), ">".repeat(n))),
    ("types of hints", |n| {
        format!("UPDATE t SET v = ({}int{}) 1 WHERE k = 1", "set<".repeat(n), ">".repeat(n))
    }),
    ("relations", |n| format!("SELECT * FROM t WHERE {}a = 1{}", "(".repeat(n), ")".repeat(n))),
    ("selectors", |n| format!("SELECT {}a{} FROM t", "f(".repeat(n), ")".repeat(n))),
    ("fields", |n| format!("SELECT a{} FROM t", ".b".repeat(n))),
    ("negations", |n| format!("SELECT {}a FROM t", "- ".repeat(n))),
    ("operators", |n| format!("UPDATE t SET v = 1{} WHERE k = 1", " + 1".repeat(n))),
];

#[test]
fn nesting_is_capped() {
    for (what, shape) in NESTED {
        let near = MAX_DEPTH as usize - 3;
        // Relations in parentheses create no nodes.
        parse(&shape(near)).unwrap_or_else(|e| panic!("{what}: {e}"));
        for n in [MAX_DEPTH as usize + 1, 100_000] {
            let error = parse(&shape(n)).expect_err(what);
            let deep = error.to_string() == format!("this is nested more than {MAX_DEPTH} deep");
            // A type hint that is too deep is parsed as a tuple, with another error.
            assert!(deep || what == "types of hints", "{what}: {error}");
        }
    }
}

#[test]
fn operators_are_counted_through_parentheses() {
    // Each level is within the limit, but together they would form a tree of a thousand levels.
    let level = |inner: String| format!("({inner}{})", " + 1".repeat(40));
    let text = (0..40).fold("v".to_owned(), |inner, _| level(inner));
    assert!(parse(&format!("SELECT {text} FROM t")).is_err());
    // In sequence they are valid.
    let many = vec![format!("1{}", " + 1".repeat(40)); 1000].join(", ");
    assert!(parse(&format!("SELECT [{many}] FROM t")).is_ok());
}

#[test]
fn markers_terms_and_bytes_are_capped() {
    let markers =
        |n: u32| format!("SELECT * FROM t WHERE k IN ({})", vec!["?"; n as usize].join(","));
    assert_eq!(parse(&markers(MAX_MARKERS)).unwrap().markers as u32, MAX_MARKERS);
    let error = parse(&markers(MAX_MARKERS + 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Too many markers(?). 65536 markers exceed the allowed maximum of 65535"
    );

    let terms =
        |n: u32| format!("SELECT * FROM t WHERE k IN ({})", vec!["1"; n as usize].join(","));
    let batch =
        |n: usize| format!("BEGIN BATCH {} APPLY BATCH", "DELETE FROM t WHERE k = 1;".repeat(n));
    assert!(parse(&batch(MAX_CHANGES)).is_ok());
    assert_eq!(
        parse(&batch(MAX_CHANGES + 1)).unwrap_err().to_string(),
        format!("a batch has at most {MAX_CHANGES} changes")
    );
    assert!(parse(&terms(MAX_TERMS)).is_ok());
    assert_eq!(
        parse(&terms(MAX_TERMS + 1)).unwrap_err().to_string(),
        format!("a statement has at most {MAX_TERMS} terms")
    );

    let long = format!("USE k{}", " ".repeat(MAX_LENGTH));
    let error = parse(&long).unwrap_err();
    assert!(error.to_string().starts_with("the text has 67108869 bytes"), "{error}");
    let pieces: Vec<_> = Script::new(&long).collect();
    assert!(pieces.len() == 1 && pieces[0].parse().is_err());
}

#[test]
fn long_statements_are_parsed_in_linear_time() {
    // Assignments to many columns are compared with each other; a list is read once.
    let assignments: Vec<String> = (0..50_000).map(|i| format!("c{i} = {i}")).collect();
    assert!(parse(&format!("UPDATE t SET {} WHERE k = 1", assignments.join(", "))).is_ok());
    // A type is tried and rejected in each of these parentheses.
    assert!(
        parse(&format!("UPDATE t SET v = [{}] WHERE k = 1", vec!["(byte(1))"; 100_000].join(", ")))
            .is_ok()
    );
    let columns: Vec<String> = (0..50_000).map(|i| format!("c{i} int")).collect();
    assert!(parse(&format!("CREATE TABLE t ({})", columns.join(", "))).is_ok());
}

#[test]
fn numbers_have_a_hundred_thousand_digits_at_most() {
    use firn_cql::{BoundValue, Session};
    const MOST: usize = 100_000;
    let session = Session::in_memory().unwrap();
    session
        .execute(
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            (),
        )
        .unwrap();
    session
        .execute("CREATE TABLE k.t (a int PRIMARY KEY, v varint, d decimal, l list<varint>)", ())
        .unwrap();
    let nines = |n: usize| "9".repeat(n);
    // Numbers with millions of digits are refused after counting them.
    for n in [MOST, MOST + 1, 3_000_000] {
        let digits = nines(n);
        let refused = format!("a number has {MOST} digits at most, and this one has {n}");
        for (what, text) in [
            ("varint", format!("INSERT INTO k.t (a, v) VALUES (1, {digits})")),
            ("negative", format!("INSERT INTO k.t (a, v) VALUES (1, -{digits})")),
            ("decimal", format!("INSERT INTO k.t (a, d) VALUES (1, 0.{})", &digits[1..])),
            ("exponent", format!("INSERT INTO k.t (a, d) VALUES (1, {}e7)", &digits[1..])),
            ("inside", format!("INSERT INTO k.t (a, l) VALUES (1, [1, {digits}])")),
            ("JSON", format!("INSERT INTO k.t JSON '{{\"a\": 1, \"v\": {digits}}}'")),
            ("JSON text", format!("INSERT INTO k.t JSON '{{\"a\": 1, \"v\": \"{digits}\"}}'")),
            ("JSON decimal", format!("INSERT INTO k.t JSON '{{\"a\": 1, \"d\": {digits}}}'")),
            ("hint", format!("INSERT INTO k.t (a, v) VALUES (1, (varint) {digits})")),
            ("condition", format!("UPDATE k.t SET v = 1 WHERE a = 1 IF v = {digits}")),
        ] {
            match session.execute(&text, ()) {
                Ok(_) => assert!(n <= MOST, "{what} of {n} digits is taken"),
                Err(e) => {
                    assert!(n > MOST, "{what}: {}", e.text().chars().take(200).collect::<String>());
                    let text = e.text();
                    assert!(text.contains("digits at most") && text.len() < 300, "{what}: {text}");
                    let is_whole = !["decimal", "exponent"].contains(&what);
                    assert!(!is_whole || text.contains(&refused), "{what}: {text}");
                }
            }
        }
    }
    // Values bound as bytes are stored and shown as bytes, but not used in computations.
    let large = BoundValue::Bytes(vec![0x7f; 2_000_000]);
    let decimal = BoundValue::Bytes([&[0, 0, 0, 1][..], &[0x7f; 2_000_000]].concat());
    let values = vec![BoundValue::Bytes(vec![0, 0, 0, 2]), large, decimal];
    let insert = session.prepare("INSERT INTO k.t (a, v, d) VALUES (?, ?, ?)").unwrap();
    session.run(&insert, values, &Default::default()).unwrap();
    let shown: String = session
        .execute("SELECT JSON v, d FROM k.t WHERE a = 2", ())
        .unwrap()
        .row(0)
        .unwrap()
        .get("[json]")
        .unwrap();
    assert!(shown.starts_with("{\"v\": \"0x7f7f"), "{}", &shown[..40]);
    for text in ["v + 1", "d * 2", "exp(v)", "cast(v AS double)", "sum(v)", "abs(d)"] {
        let refused = session.execute(&format!("SELECT {text} FROM k.t WHERE a = 2"), ());
        let refused = refused.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("can't be computed with"), "{text}: {refused}");
    }
}

#[test]
fn lists_name_a_million_keys_or_rows_at_most() {
    use firn_cql::Session;
    let session = Session::in_memory().unwrap();
    let run = |cql: &str| session.execute(cql, ());
    run(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )
    .unwrap();
    run("CREATE TABLE k.t (a int, b int, c int, PRIMARY KEY ((a, b), c))").unwrap();
    let list = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let select =
        |n: usize| format!("SELECT c FROM k.t WHERE a IN ({}) AND b IN ({})", list(n), list(1024));
    assert!(run(&select(16)).unwrap().is_empty());
    let refused = run(&select(1025)).unwrap_err().to_string();
    assert!(refused.contains("the IN lists name more than 1048576 keys or rows"), "{refused}");
}

#[test]
fn distinct_static_columns_are_read_without_the_deleted_rows_behind_them() {
    use firn_cql::{RunOptions, Session, TombstoneLimits};
    let session = Session::in_memory().unwrap();
    let run = |cql: &str| session.execute(cql, ()).unwrap();
    run(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run("CREATE TABLE k.t (p int, c int, s int STATIC, PRIMARY KEY (p, c))");
    for p in 0..3 {
        run(&format!("UPDATE k.t SET s = {p} WHERE p = {p}"));
        for c in 0..100 {
            run(&format!("INSERT INTO k.t (p, c) VALUES ({p}, {c})"));
            run(&format!("DELETE FROM k.t WHERE p = {p} AND c = {c}"));
        }
    }
    run("INSERT INTO k.t (p, c) VALUES (3, 1)");
    let limits = Some(TombstoneLimits { warn: 5, fail: 50, ..TombstoneLimits::default() });
    let count = |text: &str| {
        let statement = session.prepare(text).unwrap();
        let run = RunOptions { tombstone_limits: limits, ..RunOptions::default() };
        session.run(&statement, (), &run).map(|rows| rows.len())
    };
    for (text, rows) in [
        ("SELECT DISTINCT s FROM k.t WHERE p = 1", 1),
        ("SELECT DISTINCT p, s FROM k.t WHERE p IN (0, 1, 2, 3)", 4),
        ("SELECT DISTINCT p, s FROM k.t", 4),
        ("SELECT DISTINCT p, s FROM k.t WHERE s = 2 ALLOW FILTERING", 1),
        ("SELECT DISTINCT p, s FROM k.t WHERE s = 7 ALLOW FILTERING", 0),
        ("SELECT DISTINCT p, s FROM k.t LIMIT 2", 2),
        ("SELECT DISTINCT p, writetime(s) FROM k.t", 4),
        ("SELECT DISTINCT p, s, count(*) FROM k.t GROUP BY p", 4),
    ] {
        assert_eq!(count(text).unwrap(), rows, "{text}");
    }
    // Reads that return rows skip the deleted ones.
    count("SELECT p, s FROM k.t WHERE p = 1").unwrap_err();
}
