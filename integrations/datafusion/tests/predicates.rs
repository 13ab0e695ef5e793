//! Pushed conditions select the same rows as DataFusion's own evaluation.

use std::sync::{Arc, LazyLock};

use datafusion::catalog::{
    CatalogProvider, MemTable, MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider,
};
use datafusion::prelude::SessionContext;
use firn_cql::Session;
use firn_datafusion::FirnCatalog;
use proptest::prelude::*;
use tokio::runtime::Runtime;

use crate::common::{context, database, flush, lines, run, small};

/// A table with composite keys, in both orders, and a copy of it in DataFusion's memory.
struct Tables {
    runtime: Runtime,
    context: SessionContext,
    _session: Session,
}

fn tables() -> Tables {
    let session = database(&[
        "CREATE TABLE ks.t (a int, b text, c int, d text, e timestamp, s int STATIC, v int, u uuid, \
         PRIMARY KEY ((a, b), c, d, e)) WITH CLUSTERING ORDER BY (c DESC, d ASC, e DESC)",
    ]);
    let insert = "INSERT INTO ks.t (a, b, c, d, e, v, u) VALUES (?, ?, ?, ?, ?, ?, uuid())";
    for i in 0..400_i32 {
        let [a, c] = [i % 4, i / 7 % 5];
        let (b, d) = (["", "x", "y"][i as usize % 3], ["", "p", "q", "ü"][i as usize / 5 % 4]);
        // An empty part of a partition key is valid if it has several parts.
        let e = i64::from(i % 3 - 1) * 86_400_000;
        let v = (i % 11 != 0).then_some(i % 5);
        session.execute(insert, (a, b, c, d, firn_cql::Value::Timestamp(e), v)).unwrap();
    }
    session.execute("INSERT INTO ks.t (a, b, s) VALUES (7, 'alone', 1)", ()).unwrap();
    flush(&session);
    let runtime = Runtime::new().unwrap();
    let context = context(FirnCatalog::new(&session).with_options(small()));
    runtime.block_on(async {
        let batches = run(&context, "SELECT * FROM t").await;
        let rows = session.execute("SELECT * FROM ks.t", ()).unwrap().len();
        assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), rows);
        let copy = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
        let catalog = Arc::new(MemoryCatalogProvider::new());
        let schema = Arc::new(MemorySchemaProvider::new());
        schema.register_table("t".to_owned(), Arc::new(copy)).unwrap();
        catalog.register_schema("ks", schema).unwrap();
        context.register_catalog("copy", catalog);
    });
    Tables { runtime, context, _session: session }
}

static TABLES: LazyLock<Tables> = LazyLock::new(tables);

/// Returns a condition on one column.
fn comparison() -> impl Strategy<Value = String> {
    let op = prop::sample::select(vec!["=", "=", "=", "<", "<=", ">", ">=", "<>"]);
    let int = (-1..6_i32).prop_map(|n| n.to_string());
    let text = prop::sample::select(vec!["''", "'x'", "'y'", "'p'", "'q'", "'ü'", "'zz'"]);
    let time = prop::sample::select(vec![
        "'1970-01-01T00:00:00Z'",
        "'1969-12-31T00:00:00Z'",
        "'1970-01-01T12:00:00Z'",
        "now()",
    ]);
    let literal = move |column: &'static str| -> BoxedStrategy<String> {
        match column {
            "b" | "d" => text.clone().prop_map(str::to_owned).boxed(),
            "e" => time.clone().prop_map(str::to_owned).boxed(),
            _ => int.clone().boxed(),
        }
    };
    let column = prop::sample::select(vec!["a", "a", "b", "b", "c", "d", "e", "v", "s"]);
    column.prop_flat_map(move |column| {
        let one = literal(column);
        let compared =
            (op.clone(), one.clone(), any::<bool>()).prop_map(move |(op, value, turn)| {
                if turn {
                    format!("{value} {op} {column}")
                } else {
                    format!("{column} {op} {value}")
                }
            });
        let list = prop::collection::vec(one.clone(), 1..6)
            .prop_map(move |values| format!("{column} IN ({})", values.join(", ")));
        let between = (one.clone(), one.clone())
            .prop_map(move |(low, high)| format!("{column} BETWEEN {low} AND {high}"));
        let either = (one.clone(), one)
            .prop_map(move |(x, y)| format!("({column} = {x} OR {column} = {y})"));
        let null = Just(format!("{column} IS NOT NULL"));
        prop_oneof![6 => compared, 2 => list, 1 => between, 1 => either, 1 => null]
    })
}

/// Returns a condition on several columns. Many name the whole partition key.
fn condition() -> impl Strategy<Value = String> {
    let keys = prop_oneof![
        Just(vec![]),
        (0..4, prop::sample::select(vec!["", "x", "y"]))
            .prop_map(|(a, b)| vec![format!("a = {a}"), format!("b = '{b}'")]),
        prop::collection::vec(0..5_i32, 1..6).prop_map(|list| {
            let list: Vec<String> = list.iter().map(i32::to_string).collect();
            vec![format!("a IN ({})", list.join(", ")), "b IN ('x', 'y')".to_owned()]
        }),
    ];
    (keys, prop::collection::vec(comparison(), 0..4)).prop_map(|(keys, others)| {
        let all: Vec<String> = keys.into_iter().chain(others).collect();
        if all.is_empty() { "true".to_owned() } else { all.join(" AND ") }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn conditions_select_the_same_rows_with_and_without_pushdown(
        wanted in condition(),
        columns in prop::sample::select(vec!["*", "a, b, c", "v", "e, d", "count(*)", "u"]),
    ) {
        let Tables { runtime, context, .. } = &*TABLES;
        runtime.block_on(async {
            let of = |catalog: &str| format!("SELECT {columns} FROM {catalog}.ks.t WHERE {wanted}");
            let pushed = lines(context, &of("firn")).await;
            let own = lines(context, &of("copy")).await;
            assert_eq!(pushed, own, "{}", of("firn"));
            if columns != "count(*)" {
                let limited = lines(context, &format!("{} LIMIT 7", of("firn"))).await;
                assert_eq!(limited.len(), own.len().min(7), "{}", of("firn"));
                assert!(limited.iter().all(|line| own.contains(line)));
            }
        });
    }
}

#[test]
fn uuids_are_found_by_their_bytes() {
    let session = database(&[
        "CREATE TABLE ks.u (id uuid, t timeuuid, v int, PRIMARY KEY (id, t))",
        "INSERT INTO ks.u (id, t, v) VALUES (123e4567-e89b-42d3-a456-426614174000, 50554d6e-29bb-11e5-b345-feff819cdc9f, 1)",
        "INSERT INTO ks.u (id, t, v) VALUES (123e4567-e89b-42d3-a456-426614174000, 50554d6f-29bb-11e5-b345-feff819cdc9f, 2)",
        "INSERT INTO ks.u (id, t, v) VALUES (223e4567-e89b-42d3-a456-426614174000, 50554d6e-29bb-11e5-b345-feff819cdc9f, 3)",
    ]);
    let context = context(FirnCatalog::new(&session));
    let sql = "SELECT v FROM u WHERE id = x'123e4567e89b42d3a456426614174000'";
    TABLES.runtime.block_on(async {
        assert_eq!(lines(&context, sql).await, ["1", "2"]);
        let plan = crate::common::text(&context, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains("filters=[") && plan.contains("partitions=1"), "{plan}");
        let one = format!("{sql} AND t = x'50554d6f29bb11e5b345feff819cdc9f'");
        assert_eq!(lines(&context, &one).await, ["2"]);
    });
}
