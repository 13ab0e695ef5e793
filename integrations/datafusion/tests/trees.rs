//! Trees as tables of keys and values.

use std::ops::Bound;
use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use firn_datafusion::{ByteForm, FirnTree, QuerySnapshots};
use firn_kv::{Db, TreeOptions};
use proptest::prelude::*;
use tokio::runtime::Runtime;

use crate::common::{PARTITIONS, lines, small, text};

/// Creates a context with a tree of a store as the table `t`, in several files.
fn context(db: &Db, name: &str, forms: [ByteForm; 2]) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(PARTITIONS).with_batch_size(16);
    let context = SessionContext::new_with_config(config);
    let tree = db.existing_tree(name).unwrap();
    let table = FirnTree::new(&QuerySnapshots::new(db), &tree, forms, small());
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

/// Creates a store with the keys 0, 2, 4, … to 998 in several files.
fn numbers() -> Db {
    let db = Db::in_memory().unwrap();
    let tree = db.tree("numbers", TreeOptions::default()).unwrap();
    for part in 0..5_u64 {
        for n in part * 100..(part + 1) * 100 {
            tree.put((n * 2).to_be_bytes(), format!("v{}", n % 10)).unwrap();
        }
        tree.flush().unwrap();
    }
    db
}

#[test]
fn conditions_on_keys_are_ranges() {
    let db = numbers();
    let context = context(&db, "numbers", [ByteForm::U64, ByteForm::Utf8]);
    let tree = db.existing_tree("numbers").unwrap();
    let runtime = Runtime::new().unwrap();
    let bound = prop_oneof![
        (0..1002_u64).prop_map(Bound::Included),
        (0..1002_u64).prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ];
    let condition = |op: &str, bound: Bound<u64>| match bound {
        Bound::Included(n) => format!("key {op}= {n}"),
        Bound::Excluded(n) => format!("key {op} {n}"),
        Bound::Unbounded => "true".to_owned(),
    };
    let mut runner = proptest::test_runner::TestRunner::default();
    let strategy = prop::collection::vec((bound.clone(), bound), 1..3);
    runner
        .run(&strategy, |pairs| {
            let conditions: Vec<String> = pairs
                .iter()
                .map(|(low, high)| {
                    format!("{} AND {}", condition(">", *low), condition("<", *high))
                })
                .collect();
            let sql = format!("SELECT key FROM t WHERE {}", conditions.join(" AND "));
            let mut expected: Vec<String> = vec![];
            for entry in tree.iter() {
                let n = u64::from_be_bytes(entry.unwrap().0.to_array().unwrap());
                let is_in =
                    |pair: &(Bound<u64>, Bound<u64>)| std::ops::RangeBounds::contains(pair, &n);
                if pairs.iter().all(is_in) {
                    expected.push(n.to_string());
                }
            }
            expected.sort();
            assert_eq!(runtime.block_on(lines(&context, &sql)), expected, "{sql}");
            Ok(())
        })
        .unwrap();
    runtime.block_on(async {
        assert_eq!(lines(&context, "SELECT * FROM t WHERE key = 10").await, ["10|v5"]);
        assert!(lines(&context, "SELECT * FROM t WHERE key = 11").await.is_empty());
        assert!(lines(&context, "SELECT * FROM t WHERE key < -1").await.is_empty());
        assert_eq!(lines(&context, "SELECT count(*) FROM t").await, ["500"]);
        let groups = "SELECT value, count(*) FROM t GROUP BY value HAVING value < 'v2'";
        assert_eq!(lines(&context, groups).await, ["v0|50", "v1|50"]);
        let plan = text(&context, "EXPLAIN SELECT * FROM t WHERE key > 500 AND value = 'v1'").await;
        assert!(plan.contains("filters=[key > Int64(500)]"), "{plan}");
        let whole = text(&context, "EXPLAIN SELECT * FROM t").await;
        assert!(!whole.contains("partitions=1"), "{whole}");
    });
}

#[tokio::test]
async fn a_key_without_its_form_fails_the_query() {
    let db = numbers();
    let wrong = context(&db, "numbers", [ByteForm::Utf8, ByteForm::U32]);
    let frame = wrong.sql("SELECT value FROM t").await.unwrap();
    let error = frame.collect().await.unwrap_err().to_string();
    assert!(error.contains("the tree numbers") && error.contains("choose another form"), "{error}");
    assert_eq!(lines(&wrong, "SELECT count(*) FROM t").await, ["500"], "no column is read");
    let bytes = context(&db, "numbers", [ByteForm::Binary, ByteForm::Binary]);
    let one = "SELECT count(*) FROM t WHERE key >= x'00000000000003e0'";
    assert_eq!(lines(&bytes, one).await, ["4"]);
}
