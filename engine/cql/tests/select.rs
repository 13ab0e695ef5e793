//! Data-driven tests of `SELECT`: statements and their results, in `data/select/*.txt`, with one
//! database for each file.
//!
//! - `cql`: the statements of the input, each ended by `;`; rows are shown as literals, errors with
//!   their class;
//! - `columns`: like `cql`, with the names and types of the columns before the rows;
//! - `pages SIZE`: like `cql` in pages of this size, which are shown separately; once in a file the
//!   database is reopened after the first one;
//! - `bound VALUE | VALUE | …`: one statement with these values bound to its markers: numbers,
//!   texts, `[a, b]`, `(a, b)`, `null`, `unset`;
//! - `reopen`: closes the database and opens it again.

use firn_cql::internals::values::literal;
use firn_cql::{PagingState, ResultKind, Rows, RunOptions, Script, Session, Value};
use firn_kv::MemEnv;
use firn_testkit::datadriven::{Case, files, walk};
use firn_wide::{Options, Wide};
use std::path::Path;
use std::sync::Arc;

struct World {
    env: MemEnv,
    session: Option<Session>,
    reopened: bool,
}

fn open(env: &MemEnv) -> Session {
    let wide = Wide::open_in(Arc::new(env.clone()), "db", Options::default()).unwrap();
    Session::new(wide).unwrap()
}

fn shown(rows: &Rows, with_columns: bool) -> String {
    match rows.kind() {
        ResultKind::Rows => {
            let mut lines = vec![];
            if with_columns {
                let column = |c: &firn_cql::ColumnSpec| format!("{} {}", c.name, c.column_type);
                lines.push(rows.columns().iter().map(column).collect::<Vec<_>>().join(" | "));
            }
            for row in rows.iter() {
                let value = |(i, c): (usize, &firn_cql::ColumnSpec)| {
                    literal(&c.column_type.value_type, row.bytes(i))
                };
                lines.push(
                    rows.columns().iter().enumerate().map(value).collect::<Vec<_>>().join(" | "),
                );
            }
            if rows.is_empty() {
                lines.push("none".into());
            }
            lines.extend(rows.warnings().iter().map(|w| format!("warning: {w}")));
            lines.join("\n")
        }
        _ => String::new(),
    }
}

impl World {
    fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        let keyspace = self.session().keyspace();
        self.session = None;
        self.session = Some(open(&self.env));
        if let Some(keyspace) = keyspace {
            self.session().execute(&format!("USE \"{keyspace}\""), ()).unwrap();
        }
    }

    fn run(&mut self, case: &Case) -> String {
        let words: Vec<_> = case.words().collect();
        match case.directive.as_str() {
            "cql" => self.each(&case.input, |s, text| {
                s.session().execute(text, ()).map(|r| shown(&r, false))
            }),
            "columns" => self.each(&case.input, |s, text| {
                s.session().execute(text, ()).map(|r| shown(&r, true))
            }),
            "pages" => {
                let size = words[0].parse().unwrap();
                self.each(&case.input, |s, text| s.pages(text, size))
            }
            "bound" => {
                let values: Vec<Value> = words.join(" ").split(" | ").map(value).collect();
                self.each(&case.input, |s, text| {
                    s.session().execute(text, values.clone()).map(|r| shown(&r, false))
                })
            }
            "reopen" => {
                self.reopen();
                String::new()
            }
            other => panic!("{}:{}: unknown directive {other}", case.file.display(), case.line),
        }
    }

    fn each(
        &mut self,
        script: &str,
        mut run: impl FnMut(&mut World, &str) -> firn_cql::Result<String>,
    ) -> String {
        let mut out = vec![];
        for piece in Script::new(script) {
            match run(self, &script[piece.start..piece.end]) {
                Ok(text) if text.is_empty() => {}
                Ok(text) => out.push(text),
                Err(e) => out.push(format!("{}: {e}", e.class().name())),
            }
        }
        out.join("\n")
    }

    /// Returns the pages of a statement, after comparing them with its rows without paging.
    fn pages(&mut self, text: &str, size: usize) -> firn_cql::Result<String> {
        let mut paging: Option<PagingState> = None;
        let (mut pages, mut lines) = (vec![], vec![]);
        loop {
            // The state is valid after reopening.
            if size == 1 && pages.len() == 1 && !std::mem::replace(&mut self.reopened, true) {
                self.reopen();
            }
            let prepared = self.session().prepare(text)?;
            let how = RunOptions { page_size: Some(size), paging, ..RunOptions::default() };
            let rows = self.session().run(&prepared, (), &how)?;
            assert!(rows.len() <= size, "{text}: a page of {}", rows.len());
            let page = shown(&rows.clone().with_warnings(vec![]), false);
            if !rows.is_empty() {
                lines.push(page.clone());
            }
            pages.push(page);
            paging = rows.paging().cloned();
            if paging.is_none() {
                break;
            }
        }
        let whole = self.session().execute(text, ())?;
        let joined = if lines.is_empty() { "none".into() } else { lines.join("\n") };
        assert_eq!(
            joined,
            shown(&whole.with_warnings(vec![]), false),
            "{text}: pages and the whole differ"
        );
        Ok(pages.join("\n-\n"))
    }
}

fn value(text: &str) -> Value {
    match text {
        "null" => Value::Null,
        "unset" => Value::Unset,
        text if text.starts_with('[') => {
            let inner = text.trim_start_matches('[').trim_end_matches(']');
            Value::List(inner.split(", ").filter(|t| !t.is_empty()).map(value).collect())
        }
        text if text.starts_with('(') => {
            let inner = text.trim_start_matches('(').trim_end_matches(')');
            Value::Tuple(inner.split(", ").map(value).collect())
        }
        text => text.parse().map_or_else(|_| Value::Text(text.into()), Value::Int),
    }
}

#[test]
fn select() {
    for file in files(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/select").as_path()) {
        let env = MemEnv::new(1);
        let session = Some(open(&env));
        let mut world = World { env, session, reopened: false };
        walk(&file, |case| world.run(case));
    }
}

/// Refuses states that are not from a page of the same table, with any byte changed.
#[test]
fn a_wrong_paging_state_is_refused() {
    let env = MemEnv::new(1);
    let session = open(&env);
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.a (k int, c int, PRIMARY KEY (k, c))",
        "CREATE TABLE ks.b (k int, c int, PRIMARY KEY (k, c))",
        "INSERT INTO ks.a (k, c) VALUES (1, 1)",
        "INSERT INTO ks.a (k, c) VALUES (1, 2)",
    ] {
        session.execute(text, ()).unwrap();
    }
    let prepared = session.prepare("SELECT * FROM ks.a").unwrap();
    let page = |text: &str, state: Option<Vec<u8>>| {
        let how = RunOptions {
            page_size: Some(1),
            paging: state.map(PagingState),
            ..RunOptions::default()
        };
        session.run(&session.prepare(text).unwrap(), (), &how)
    };
    let first = session
        .run(&prepared, (), &RunOptions { page_size: Some(1), ..RunOptions::default() })
        .unwrap();
    let good = first.paging().unwrap().0.clone();
    assert_eq!(page("SELECT * FROM ks.a", Some(good.clone())).unwrap().len(), 1);
    let refused = |text: &str, state: Vec<u8>| {
        let error = page(text, Some(state)).unwrap_err();
        assert_eq!(error.to_string(), "Invalid value for the paging state");
    };
    refused("SELECT * FROM ks.b", good.clone());
    refused("SELECT * FROM ks.a WHERE k = 2", good.clone());
    for i in 0..good.len() {
        let mut bad = good.clone();
        bad[i] ^= 1;
        refused("SELECT * FROM ks.a", bad);
        refused("SELECT * FROM ks.a", good[..i].to_vec());
    }
}

#[test]
fn a_select_that_is_stopped_says_so_at_the_next_row() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let session = open(&MemEnv::new(1));
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.a (k int, c int, PRIMARY KEY (k, c))",
        "INSERT INTO ks.a (k, c) VALUES (1, 1)",
    ] {
        session.execute(text, ()).unwrap();
    }
    let stop = Arc::new(AtomicBool::new(true));
    let how = RunOptions { stop: Some(stop.clone()), ..RunOptions::default() };
    for text in [
        "SELECT * FROM ks.a",
        "SELECT count(*) FROM ks.a WHERE k = 1",
        "SELECT * FROM ks.a WHERE c = 2 ALLOW FILTERING",
    ] {
        let stopped = session.execute_with(text, (), &how);
        assert!(matches!(stopped, Err(firn_cql::Error::Stopped)), "{text}: {stopped:?}");
    }
    stop.store(false, Ordering::Relaxed);
    assert_eq!(session.execute_with("SELECT * FROM ks.a", (), &how).unwrap().len(), 1);
}

#[test]
fn what_a_stopped_definition_takes_back_is_stopped_by_nobody() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let stop = Arc::new(AtomicBool::new(false));
    let wide = Wide::open_in(Arc::new(MemEnv::new(1)), "db", Options::default()).unwrap();
    let session = Session::new(wide.stoppable(stop.clone())).unwrap();
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.a (k int PRIMARY KEY, v text, w text)",
        "CREATE INDEX by_v ON ks.a (v)",
        "INSERT INTO ks.a (k, v, w) VALUES (1, 'x', 'y')",
    ] {
        session.execute(text, ()).unwrap();
    }
    let (catalog, find) = (session.engine().catalog(), "SELECT k FROM ks.a WHERE v = 'x'");
    let table = catalog.tables().next().unwrap();
    let family = session.engine().family(table).unwrap();
    stop.store(true, Ordering::Relaxed);
    // The index is left unbuilt. The definition would build both, and is stopped at the first.
    wide.stoppable(stop.clone()).store().rebuild_index(&family, table.indexes()[0].id).unwrap_err();
    let stopped = session.execute("CREATE INDEX by_w ON ks.a (w)", ());
    assert!(matches!(stopped, Err(firn_cql::Error::Stopped)), "{stopped:?}");
    stop.store(false, Ordering::Relaxed);
    assert_eq!(session.execute(find, ()).unwrap().len(), 1);
    session.execute("CREATE INDEX by_w ON ks.a (w)", ()).unwrap();
}

#[test]
fn a_definition_that_is_stopped_leaves_no_index() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let env = MemEnv::new(1);
    let session = open(&env);
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.a (k int PRIMARY KEY, v text)",
    ] {
        session.execute(text, ()).unwrap();
    }
    for k in 0..50 {
        session.execute("INSERT INTO ks.a (k, v) VALUES (?, 'x')", (k,)).unwrap();
    }
    let trees = || session.engine().store().db().tree_names();
    let (find, before) = ("SELECT k FROM ks.a WHERE v = 'x'", trees());
    let unindexed = session.execute(find, ()).unwrap_err().to_string();
    let stop = Arc::new(AtomicBool::new(true));
    let how = RunOptions { stop: Some(stop.clone()), ..RunOptions::default() };
    let stopped = session.execute_with("CREATE INDEX by_v ON ks.a (v)", (), &how);
    assert!(matches!(stopped, Err(firn_cql::Error::Stopped)), "{stopped:?}");
    assert_eq!(trees(), before);
    assert_eq!(session.execute(find, ()).unwrap_err().to_string(), unindexed);
    stop.store(false, Ordering::Relaxed);
    session.execute_with("CREATE INDEX by_v ON ks.a (v)", (), &how).unwrap();
    assert_eq!(session.execute(find, ()).unwrap().len(), 50);
    session.close().unwrap();
    assert!(session.execute(find, ()).is_err() && session.execute("TRUNCATE ks.a", ()).is_err());
    assert_eq!(open(&env).execute(find, ()).unwrap().len(), 50);
}

#[test]
fn pages_with_one_view_read_one_state() {
    let env = MemEnv::new(1);
    let session = open(&env);
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.a (k int, c int, s int STATIC, v int, PRIMARY KEY (k, c))",
        "CREATE INDEX ON ks.a (v)",
    ] {
        session.execute(text, ()).unwrap();
    }
    for k in 0..20 {
        let text = "INSERT INTO ks.a (k, c, s, v) VALUES (?, 1, 2, ?) USING TTL 1000";
        session.execute(text, (k, k)).unwrap();
    }
    let second = session.engine().store().now();
    let view = session.engine().store().as_of(second).view();
    session.execute("TRUNCATE ks.a", ()).unwrap();
    session.execute("INSERT INTO ks.a (k, c, v) VALUES (1, 1, 100)", ()).unwrap();
    let how = RunOptions { page_size: Some(3), view: Some(view), ..RunOptions::default() };
    let of = |text: &str| -> Vec<i32> {
        let rows = session.query_with(text, (), &how).unwrap().typed::<(i32,)>();
        let mut all: Vec<i32> = rows.map(|row| row.unwrap().0).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(of("SELECT v FROM ks.a"), (0..20).collect::<Vec<_>>());
    assert_eq!(of("SELECT v FROM ks.a WHERE k IN (1, 2, 100)"), [1, 2]);
    assert_eq!(of("SELECT v FROM ks.a WHERE k = 1 AND c = 1"), [1]);
    assert_eq!(of("SELECT s FROM ks.a WHERE k = 1"), [2]);
    assert_eq!(session.execute("SELECT v FROM ks.a", ()).unwrap().len(), 1);
    let refused = session.query_with("SELECT v FROM ks.a WHERE v = 1", (), &how).unwrap_err();
    assert!(refused.to_string().contains("cannot use an index"), "{refused}");
}
