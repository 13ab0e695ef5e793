//! Statements that are too deep, too long or too many are errors, found without running out of
//! stack or memory.

use firn_cql::Script;
use firn_cql::internals::syntax::{MAX_DEPTH, MAX_LENGTH, MAX_MARKERS, MAX_TERMS, parse};

/// A statement around `n` pieces of text.
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
        // Relations in parentheses leave no node behind.
        parse(&shape(near)).unwrap_or_else(|e| panic!("{what}: {e}"));
        for n in [MAX_DEPTH as usize + 1, 100_000] {
            let error = parse(&shape(n)).expect_err(what);
            let deep = error.to_string() == format!("this is nested more than {MAX_DEPTH} deep");
            // A hint that is too deep is taken for a tuple, and that is another error.
            assert!(deep || what == "types of hints", "{what}: {error}");
        }
    }
}

#[test]
fn operators_are_counted_through_parentheses() {
    // Each level alone is within the cap, together they would make a tree of a thousand levels.
    let level = |inner: String| format!("({inner}{})", " + 1".repeat(40));
    let text = (0..40).fold("v".to_owned(), |inner, _| level(inner));
    assert!(parse(&format!("SELECT {text} FROM t")).is_err());
    // Side by side they do no harm.
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
    // Assignments to many columns are checked against each other; a list is read once.
    let assignments: Vec<String> = (0..50_000).map(|i| format!("c{i} = {i}")).collect();
    assert!(parse(&format!("UPDATE t SET {} WHERE k = 1", assignments.join(", "))).is_ok());
    // A type is tried in each of these parentheses, and is none.
    assert!(
        parse(&format!("UPDATE t SET v = [{}] WHERE k = 1", vec!["(byte(1))"; 100_000].join(", ")))
            .is_ok()
    );
    let columns: Vec<String> = (0..50_000).map(|i| format!("c{i} int")).collect();
    assert!(parse(&format!("CREATE TABLE t ({})", columns.join(", "))).is_ok());
}
