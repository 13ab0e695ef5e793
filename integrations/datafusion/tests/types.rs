//! Values of every type are those of CQL.

use datafusion::arrow::datatypes::DataType;
use firn_cql::Session;
use firn_datafusion::{FirnCatalog, SqlScanOptions};
use firn_transfer::arrow::{column_type, read};

use crate::common::{context, database, flush, lines, run, small};

/// Type of a column, and values of it.
const TYPES: &[(&str, &[&str])] = &[
    ("ascii", &["''", "'abc'", "'~'"]),
    ("bigint", &["0", "-9223372036854775808", "9223372036854775807"]),
    ("blob", &["0x", "0x00", "0xff00"]),
    ("boolean", &["true", "false"]),
    ("date", &["'1970-01-01'", "'0001-01-01'", "'9999-12-31'"]),
    ("decimal", &["0", "-1.50", "123456789012345678901234567890.000001", "1e-30"]),
    ("double", &["0.0", "-0.0", "1.7976931348623157e308", "NaN", "-Infinity"]),
    ("duration", &["0s", "1y2mo3d4h5m6s7ns", "-3d"]),
    ("float", &["0.5", "-3.4028235e38", "Infinity"]),
    ("inet", &["'127.0.0.1'", "'2001:db8::1'"]),
    ("int", &["0", "-2147483648", "2147483647"]),
    ("smallint", &["-32768", "32767"]),
    ("text", &["''", "'a'", "'Ünïcode 🦀'"]),
    ("time", &["'00:00:00'", "'23:59:59.999999999'"]),
    ("timestamp", &["0", "-1", "'2026-11-30T12:00:00.123Z'"]),
    ("timeuuid", &["50554d6e-29bb-11e5-b345-feff819cdc9f"]),
    ("tinyint", &["-128", "127"]),
    ("uuid", &["00000000-0000-0000-0000-000000000000", "123e4567-e89b-42d3-a456-426614174000"]),
    ("varint", &["0", "-170141183460469231731687303715884105729", "99999999999999999999"]),
    ("list<int>", &["[1, 2]", "[]"]),
    ("set<text>", &["{'a', 'b'}", "{}"]),
    ("map<text, int>", &["{'a': 1, 'b': 2}", "{}"]),
    ("frozen<list<frozen<set<int>>>>", &["[{1}, {}]"]),
    ("tuple<int, text>", &["(1, 'a')", "(null, 'b')"]),
    ("frozen<pair>", &["{a: 1, b: 'x'}", "{a: null, b: 'y'}"]),
    ("pair", &["{a: 1, b: 'x'}"]),
    ("vector<float, 2>", &["[1.5, -2]"]),
];

/// Creates a table with a column of each type, and rows with each value, and with nulls.
fn all_types() -> Session {
    let columns: Vec<String> =
        TYPES.iter().enumerate().map(|(i, (of, _))| format!("c{i} {of}")).collect();
    let table = format!("CREATE TABLE ks.t (k int PRIMARY KEY, {})", columns.join(", "));
    let session = database(&["CREATE TYPE ks.pair (a int, b text)"]);
    session.execute("USE ks", ()).unwrap();
    session.execute(&table, ()).unwrap();
    for row in 0..TYPES.iter().map(|(_, values)| values.len()).max().unwrap() {
        for (i, (of, values)) in TYPES.iter().enumerate() {
            let Some(value) = values.get(row) else { continue };
            let text = format!("INSERT INTO ks.t (k, c{i}) VALUES ({row}, {value})");
            session.execute(&text, ()).unwrap_or_else(|e| panic!("{of} {value}: {e}"));
        }
    }
    session.execute("INSERT INTO ks.t (k) VALUES (1000)", ()).unwrap();
    session
}

#[tokio::test]
async fn values_of_all_types_convert_back_to_those_of_cql() {
    let session = all_types();
    flush(&session);
    let context = context(FirnCatalog::new(&session).with_options(small()));
    let batches = run(&context, "SELECT * FROM t ORDER BY k").await;
    let mut found = vec![];
    for batch in &batches {
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            for (i, array) in batch.columns().iter().enumerate() {
                let of = column_type("ks", "pair", schema.field(i)).unwrap();
                found.push((i, read(array, row, &of, false).unwrap()));
            }
        }
    }
    let rows = session.execute("SELECT * FROM ks.t", ()).unwrap();
    let mut expected: Vec<_> = rows.iter().collect();
    expected.sort_by_key(|row| row.at::<i32>(0).unwrap());
    let width = rows.columns().len();
    assert_eq!(found.len(), expected.len() * width);
    for ((i, value), expected) in
        found.iter().zip(expected.iter().flat_map(|row| (0..width).map(|i| row.bytes(i))))
    {
        let column = &rows.columns()[*i];
        // The empty collection that is not frozen, and the empty value, are null in CQL and in SQL.
        assert_eq!(value.as_deref(), expected, "{} {}", column.name, column.column_type);
    }
}

#[tokio::test]
async fn decimals_are_numbers_with_a_scale() {
    let session = database(&[
        "CREATE TABLE ks.t (k int PRIMARY KEY, d decimal, v varint)",
        "INSERT INTO ks.t (k, d, v) VALUES (1, 1.25, 7)",
        "INSERT INTO ks.t (k, d, v) VALUES (2, -0.5, 8)",
    ]);
    let mut options = SqlScanOptions::default();
    options.decimal_scale = Some(2);
    let catalog = FirnCatalog::new(&session).with_options(options);
    let context = context(catalog);
    assert_eq!(lines(&context, "SELECT sum(d), sum(v) FROM t").await, ["0.75|15"]);
    session.execute("INSERT INTO ks.t (k, d) VALUES (3, 0.001)", ()).unwrap();
    let refused = context.sql("SELECT d FROM t").await.unwrap().collect().await.unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("ks.t") && refused.contains("column d"), "{refused}");
    assert_eq!(lines(&context, "SELECT sum(v) FROM t").await, ["15"], "a column that is not read");
}

#[tokio::test]
async fn tables_of_all_kinds_are_read() {
    let session = database(&[
        "CREATE TABLE ks.counts (k int PRIMARY KEY, n counter)",
        "UPDATE ks.counts SET n = n + 5 WHERE k = 1",
        "CREATE TABLE ks.wide (k int, c int, s text STATIC, v int, PRIMARY KEY (k, c))",
        "INSERT INTO ks.wide (k, s) VALUES (1, 'alone')",
        "INSERT INTO ks.wide (k, c, s) VALUES (2, 1, 'both')",
        "CREATE TABLE ks.base (k int PRIMARY KEY, n int)",
        "CREATE MATERIALIZED VIEW ks.by_n AS SELECT * FROM ks.base \
         WHERE k IS NOT NULL AND n IS NOT NULL PRIMARY KEY (n, k)",
        "INSERT INTO ks.base (k, n) VALUES (1, 2)",
        "CREATE TABLE ks.\"MixedCase\" (\"K\" int PRIMARY KEY)",
        "INSERT INTO ks.\"MixedCase\" (\"K\") VALUES (9)",
        "CREATE TABLE ks.none (k int PRIMARY KEY)",
    ]);
    let context = context(FirnCatalog::new(&session));
    assert_eq!(lines(&context, "SELECT * FROM counts").await, ["1|5"]);
    assert_eq!(lines(&context, "SELECT * FROM wide").await, ["1||alone|", "2|1|both|"]);
    assert_eq!(lines(&context, "SELECT count(*) FROM wide").await, ["2"]);
    assert_eq!(lines(&context, "SELECT n, k FROM by_n").await, ["2|1"]);
    assert_eq!(lines(&context, "SELECT \"K\" FROM \"MixedCase\"").await, ["9"]);
    assert_eq!(lines(&context, "SELECT count(*), max(k) FROM none").await, ["0|"]);
    let keyspaces = "SELECT keyspace_name FROM firn.system_schema.tables WHERE table_name = 'wide'";
    assert_eq!(lines(&context, keyspaces).await, ["ks"]);
    let schema = context.table("wide").await.unwrap();
    assert_eq!(*schema.schema().field(3).data_type(), DataType::Int32);
    assert!(
        context.sql("SELECT * FROM missing").await.unwrap_err().to_string().contains("missing")
    );
}
