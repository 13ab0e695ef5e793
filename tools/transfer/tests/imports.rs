//! Imports into trees and tables: positions, resumption, refused rows.
#![allow(clippy::disallowed_methods, reason = "files of tests")]

use super::common::{Temp, message};

use std::cell::Cell;
use std::path::Path;

use firn_cql::Session;
use firn_cql::internals::catalog::TableSchema;
use firn_kv::{Db, Durability};
use firn_tools::output::Done;
use firn_transfer::form::ByteForm;
use firn_transfer::format::TransferFormat;
use firn_transfer::import::{ImportEnd, ImportReport, ImportSettings, import};
use firn_transfer::source::{RowSource, SourceOptions, open};
use firn_transfer::target::{
    KEYSPACE, NewTable, POSITIONS, PairColumns, RowTarget, TableSettings, TableTarget, TreeTarget,
};

const SETTINGS: ImportSettings =
    ImportSettings { chunk: 7, limit: None, skips_bad: false, resume: false };

fn source(path: &Path) -> Box<dyn RowSource> {
    let options = SourceOptions { header: true, ..Default::default() };
    open(path, TransferFormat::Csv, &options).unwrap()
}

/// Runs an import that ends after this number of chunks.
fn run(
    path: &Path,
    target: &mut dyn RowTarget,
    settings: ImportSettings,
    chunks: u64,
) -> Done<ImportReport> {
    let left = Cell::new(chunks);
    let is_stopped = || {
        left.set(left.get().saturating_sub(1));
        left.get() == 0
    };
    import(&mut *source(path), target, settings, &is_stopped)
}

/// Rows of a CSV file with columns `id` and `n`.
fn numbers(rows: u32) -> Vec<u8> {
    let mut text = String::from("id,n\n");
    (0..rows).for_each(|i| text += &format!("{i},{}\n", i * 2));
    text.into_bytes()
}

fn session() -> Session {
    let session = Session::in_memory().unwrap();
    for cql in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (id int PRIMARY KEY, n bigint)",
        "CREATE TABLE k.counted (id int PRIMARY KEY, n counter)",
    ] {
        session.execute(cql, ()).unwrap();
    }
    session
}

fn schema(session: &Session, table: &str) -> std::sync::Arc<TableSchema> {
    session.engine().catalog().keyspace("k").unwrap().table(table).unwrap().clone()
}

fn table_target(session: &Session, table: &str, path: &Path, skips_bad: bool) -> TableTarget {
    let columns: Vec<_> = source(path).columns().iter().cloned().map(Some).collect();
    let settings = TableSettings {
        columns: &columns,
        source: "numbers",
        lossy: false,
        skips_bad,
        durability: Durability::Process,
    };
    TableTarget::new(Some(session), &schema(session, table), &settings).unwrap()
}

fn count(session: &Session, cql: &str) -> usize {
    session.execute(cql, ()).unwrap().len()
}

fn sum(session: &Session, table: &str) -> i64 {
    let rows = session.execute(&format!("SELECT n FROM k.{table}"), ()).unwrap();
    let all: Vec<(i64,)> = rows.typed().unwrap();
    all.iter().map(|row| row.0).sum()
}

#[test]
fn a_table_is_resumed_exactly_once() {
    let temp = Temp::new("resumed-table");
    let path = temp.file("a.csv", &numbers(100));
    let session = session();
    for table in ["t", "counted"] {
        let mut settings = SETTINGS;
        let mut ends = vec![];
        loop {
            let mut target = table_target(&session, table, &path, false);
            let report = run(&path, &mut target, settings, 3).unwrap();
            ends.push((report.end, report.resumed, report.rows));
            if report.end == ImportEnd::Complete {
                break;
            }
            settings.resume = true;
        }
        assert_eq!(ends[1], (ImportEnd::Interrupted, 21, 21));
        assert_eq!(ends.last(), Some(&(ImportEnd::Complete, 84, 16)));
        assert_eq!(sum(&session, table), (0..100).map(|i| i * 2).sum::<i64>());
        assert!(session.engine().catalog().keyspace(KEYSPACE).is_none());
    }
}

#[test]
fn counters_cannot_begin_again_after_an_interruption() {
    let temp = Temp::new("counters");
    let path = temp.file("a.csv", &numbers(100));
    let session = session();
    run(&path, &mut table_target(&session, "counted", &path, false), SETTINGS, 1).unwrap();
    let again = run(&path, &mut table_target(&session, "counted", &path, false), SETTINGS, 9);
    let said = message(again.unwrap_err());
    assert!(said.contains("was interrupted, and has added to counters"), "{said}");
    // A plain table may.
    run(&path, &mut table_target(&session, "t", &path, false), SETTINGS, 1).unwrap();
    let again = run(&path, &mut table_target(&session, "t", &path, false), SETTINGS, 99).unwrap();
    assert_eq!((again.end, again.rows), (ImportEnd::Complete, 100));
    let nothing = ImportSettings { resume: true, ..SETTINGS };
    let said = run(&path, &mut table_target(&session, "t", &path, false), nothing, 9);
    assert!(message(said.unwrap_err()).contains("no interrupted import"));
}

#[test]
fn bad_rows_end_an_import_or_are_left_out() {
    let temp = Temp::new("bad-rows");
    let text = "id,n\n1,10\n2,x\n3,30\n4\n,50\n6,60\n";
    let path = temp.file("a.csv", text.as_bytes());
    let session = session();
    let report = run(&path, &mut table_target(&session, "t", &path, false), SETTINGS, 99).unwrap();
    assert_eq!((report.end, report.rows), (ImportEnd::BadRow, 1));
    let (place, why) = &report.refused[0];
    assert_eq!(place.to_string(), "line 3");
    assert!(why.starts_with("column n: "), "{why}");
    // After a correction it continues at the corrected row.
    let corrected = temp.file("b.csv", text.replace("2,x", "2,20").as_bytes());
    let settings = ImportSettings { resume: true, ..SETTINGS };
    let report = run(&corrected, &mut table_target(&session, "t", &path, false), settings, 99);
    let report = report.unwrap();
    assert_eq!((report.end, report.resumed, report.rows), (ImportEnd::BadRow, 1, 2));
    let settings = ImportSettings { skips_bad: true, resume: true, ..SETTINGS };
    let report = run(&corrected, &mut table_target(&session, "t", &path, true), settings, 99);
    let report = report.unwrap();
    assert_eq!((report.end, report.rows, report.skipped), (ImportEnd::Complete, 1, 2));
    assert!(report.refused[1].1.contains("column id: a column of the key is null"));
    assert_eq!((count(&session, "SELECT id FROM k.t"), sum(&session, "t")), (4, 120));
}

#[test]
fn a_row_that_the_store_refuses_does_not_take_others_along() {
    let temp = Temp::new("refused-rows");
    let session = session();
    session.execute("CREATE TABLE k.texts (id text PRIMARY KEY, n bigint)", ()).unwrap();
    let long = "x".repeat(70_000);
    let text = format!("id,n\na,1\nb,2\n{long},3\nd,4\n");
    let path = temp.file("a.csv", text.as_bytes());
    let report =
        run(&path, &mut table_target(&session, "texts", &path, false), SETTINGS, 99).unwrap();
    assert_eq!((report.end, report.rows), (ImportEnd::BadRow, 2));
    assert_eq!(report.refused[0].0.to_string(), "line 4");
    let settings = ImportSettings { skips_bad: true, resume: true, ..SETTINGS };
    let report = run(&path, &mut table_target(&session, "texts", &path, true), settings, 99);
    let report = report.unwrap();
    assert_eq!((report.end, report.resumed, report.rows), (ImportEnd::Complete, 2, 1));
    assert_eq!(sum(&session, "texts"), 7);
}

#[test]
fn limits_and_checks_write_nothing_more() {
    let temp = Temp::new("limits");
    let path = temp.file("a.csv", &numbers(100));
    let session = session();
    let settings = ImportSettings { limit: Some(10), ..SETTINGS };
    let report = run(&path, &mut table_target(&session, "t", &path, false), settings, 99).unwrap();
    assert_eq!((report.end, report.rows), (ImportEnd::Complete, 10));
    assert_eq!(count(&session, "SELECT id FROM k.t"), 10);
    let columns: Vec<_> = source(&path).columns().iter().cloned().map(Some).collect();
    let settings = TableSettings {
        columns: &columns,
        source: "numbers",
        lossy: false,
        skips_bad: false,
        durability: Durability::Process,
    };
    let mut target = TableTarget::new(None, &schema(&session, "t"), &settings).unwrap();
    assert_eq!(run(&path, &mut target, SETTINGS, 99).unwrap().rows, 100);
    assert_eq!(count(&session, "SELECT id FROM k.t"), 10);
}

#[test]
fn columns_must_fit_the_table() {
    let temp = Temp::new("columns");
    let session = session();
    for (head, wanted) in [
        ("id,m", "has no column \"m\" of the source"),
        ("n", "the source has no column \"id\""),
        ("id,ID", "two columns of the source are the column id"),
    ] {
        let path = temp.file("a.csv", format!("{head}\n").as_bytes());
        let columns: Vec<_> = source(&path).columns().iter().cloned().map(Some).collect();
        let settings = TableSettings {
            columns: &columns,
            source: "numbers",
            lossy: false,
            skips_bad: false,
            durability: Durability::Process,
        };
        let target = TableTarget::new(Some(&session), &schema(&session, "t"), &settings);
        let said = message(target.err().unwrap());
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_tree_is_resumed_exactly_once() {
    let temp = Temp::new("resumed-tree");
    let path = temp.file("a.csv", &numbers(100));
    let db = Db::open(temp.path("db")).unwrap();
    let target = |source_name: &str| {
        let forms = [ByteForm::U32, ByteForm::Utf8];
        let pairs = PairColumns::new(source(&path).columns(), Some("id"), &[], forms).unwrap();
        TreeTarget::new(Some(&db), "pairs", source_name, pairs, Durability::Process).unwrap()
    };
    run(&path, &mut target("a"), SETTINGS, 3).unwrap();
    let tree = db.existing_tree("pairs").unwrap();
    assert_eq!(tree.iter().count(), 21);
    let settings = ImportSettings { resume: true, ..SETTINGS };
    let said = message(run(&path, &mut target("b"), settings, 3).unwrap_err());
    assert!(said.contains("the interrupted import was of a, not of b"), "{said}");
    // The rows before the position are not written again.
    tree.put(0_u32.to_be_bytes(), "changed").unwrap();
    let report = run(&path, &mut target("a"), settings, 99).unwrap();
    assert_eq!((report.end, report.resumed, report.rows), (ImportEnd::Complete, 21, 79));
    assert_eq!(tree.iter().count(), 100);
    assert_eq!(tree.get(0_u32.to_be_bytes()).unwrap().unwrap(), b"changed"[..]);
    assert_eq!(tree.get(99_u32.to_be_bytes()).unwrap().unwrap(), b"198"[..]);
    assert!(!db.tree_names().iter().any(|n| n == POSITIONS));
}

#[test]
fn keys_of_new_tables_are_parsed() {
    let key = |text: &str| NewTable::parse_key(text).map(|t| (t.partition, t.clustering));
    let names = |all: &[&str]| all.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    assert_eq!(key("id"), Ok((names(&["id"]), vec![])));
    assert_eq!(key("day, hour,at"), Ok((names(&["day"]), names(&["hour", "at"]))));
    assert_eq!(key("(a,b),c"), Ok((names(&["a", "b"]), names(&["c"]))));
    assert!(key("").is_err() && key("(a").is_err() && key("()").is_err());
}
