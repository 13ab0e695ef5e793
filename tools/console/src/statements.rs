//! Runs CQL statements of the pages.
//!
//! Invariants: a statement that changes anything is refused unless the console may write. At most
//! [`MAX_RUNNING`] statements run at once, each for [`TIME_LIMIT`] and with [`MAX_RESULT`] bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use firn_cql::internals::syntax::ast::Statement;
use firn_cql::internals::syntax::parse;
use firn_cql::internals::values::literal;
use firn_cql::{Error, PagingState, ResultKind, Rows, RunOptions, Session};
use firn_kv::Env;
use firn_tools::output::{Done, Failure};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Maximum number of statements that run at once.
const MAX_RUNNING: usize = 4;
/// Time after which a statement is stopped.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Maximum bytes of a result.
const MAX_RESULT: usize = 8 << 20;
/// Maximum rows of a page.
const MAX_PAGE: usize = 1000;

/// Running statements: the time of their start, and the flag that stops them.
pub struct RunningStatements {
    env: Arc<dyn Env>,
    running: Mutex<Vec<(u64, Arc<AtomicBool>)>>,
}

/// A running statement, until dropped.
struct ConsoleStatement<'a>(&'a RunningStatements, Arc<AtomicBool>);

impl Drop for ConsoleStatement<'_> {
    fn drop(&mut self) {
        self.0.running.lock().retain(|(_, flag)| !Arc::ptr_eq(flag, &self.1));
    }
}

impl RunningStatements {
    /// Creates an empty list.
    pub fn new(env: Arc<dyn Env>) -> RunningStatements {
        RunningStatements { env, running: Mutex::default() }
    }

    fn begin(&self) -> Done<ConsoleStatement<'_>> {
        let mut running = self.running.lock();
        if running.len() >= MAX_RUNNING {
            return Err(Failure::with_next(
                format!("{MAX_RUNNING} statements are running"),
                "wait for one of them",
            ));
        }
        let flag = Arc::new(AtomicBool::new(false));
        running.push((self.env.monotonic_nanos(), flag.clone()));
        Ok(ConsoleStatement(self, flag))
    }

    /// Stops the statements that have run too long.
    pub fn stop_late(&self) {
        let running = self.running.lock();
        if running.is_empty() {
            return;
        }
        let limit = TIME_LIMIT.as_nanos() as u64;
        let now = self.env.monotonic_nanos();
        for (began, flag) in running.iter().filter(|(began, _)| now.saturating_sub(*began) > limit)
        {
            tracing::debug!(began, "a statement of the console is stopped");
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// Stops all statements.
    pub fn stop_all(&self) {
        self.running.lock().iter().for_each(|(_, flag)| flag.store(true, Ordering::Relaxed));
    }

    /// Runs the statement of a request: `statement`, `keyspace`, `page_size`, `paging`.
    ///
    /// # Errors
    /// Errors of the statement, and a change that is not allowed.
    pub fn run(&self, session: &Session, request: &Value, may_write: bool) -> Done<Value> {
        let text = request["statement"].as_str().unwrap_or_default();
        let page = request["page_size"].as_u64().unwrap_or(100);
        let bad = || Failure::new("the paging state is invalid: run the statement again");
        let paging = request["paging"].as_str().map(|text| BASE64_STANDARD.decode(text));
        let paging = paging.transpose().map_err(|_| bad())?.map(PagingState);
        if !may_write {
            refuse_change(text)?;
        }
        // A clone, so that USE does not change the keyspace of other requests.
        let session = session.clone();
        let running = self.begin()?;
        let how = RunOptions {
            page_size: Some((page as usize).clamp(1, MAX_PAGE)),
            paging,
            max_result_bytes: Some(MAX_RESULT),
            keyspace: request["keyspace"].as_str().filter(|k| !k.is_empty()).map(Arc::from),
            stop: Some(running.1.clone()),
            ..RunOptions::default()
        };
        let began = self.env.monotonic_nanos();
        let rows = session.execute_with(text, (), &how).map_err(refused)?;
        let nanos = self.env.monotonic_nanos().saturating_sub(began);
        Ok(result_json(&rows, nanos))
    }
}

/// Returns the failure of a statement.
pub fn refused(e: Error) -> Failure {
    match e {
        Error::Stopped => Failure::with_next(
            format!("the statement was stopped after {} seconds", TIME_LIMIT.as_secs()),
            "select fewer partitions, or use `firn cql`",
        ),
        e => match e.help() {
            Some(help) => Failure::with_next(e.text(), help.to_owned()),
            None => Failure::new(e.text()),
        },
    }
}

/// Refuses a statement that changes anything.
fn refuse_change(text: &str) -> Done {
    let parsed = parse(text).map_err(|e| refused(e.into()))?;
    let reads = matches!(
        parsed.statement,
        Statement::Select(_) | Statement::Describe(_) | Statement::Use(_) | Statement::ListRoles(_)
    );
    if reads {
        return Ok(());
    }
    Err(Failure::with_next(
        "this console is read-only, and the statement changes the store",
        "start it with --write (`firn console`) or --console-write (`firn serve`)",
    ))
}

fn result_json(rows: &Rows, nanos: u64) -> Value {
    let mut out = json!({"nanos": nanos, "warnings": rows.warnings()});
    match rows.kind() {
        ResultKind::Rows => {}
        ResultKind::SetKeyspace(name) => out["keyspace"] = name.as_str().into(),
        ResultKind::Schema(_) => out["done"] = "the schema was changed".into(),
        _ => out["done"] = "done".into(),
    }
    if *rows.kind() != ResultKind::Rows {
        return out;
    }
    let columns = rows.columns();
    let head = columns.iter().map(|c| json!({"name": c.name, "type": c.column_type.to_string()}));
    out["columns"] = head.collect();
    let row = |row: firn_cql::Row<'_>| -> Value {
        let cell = |(i, c): (usize, &firn_cql::ColumnSpec)| {
            row.bytes(i).map(|bytes| literal(&c.column_type.value_type, Some(bytes)))
        };
        columns.iter().enumerate().map(cell).collect()
    };
    out["rows"] = rows.iter().map(row).collect();
    out["paging"] = rows.paging().map(|p| BASE64_STANDARD.encode(&p.0)).into();
    out
}

#[cfg(test)]
mod tests {
    use firn_kv::OsEnv;

    use super::*;

    fn session() -> Session {
        let session = Session::in_memory().unwrap();
        for text in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.t (id int PRIMARY KEY, v text)",
            "INSERT INTO k.t (id, v) VALUES (1, 'a')",
            "INSERT INTO k.t (id) VALUES (2)",
            "INSERT INTO k.t (id) VALUES (3)",
        ] {
            session.execute(text, ()).unwrap();
        }
        session
    }

    #[test]
    fn a_read_only_console_refuses_every_change() {
        let (session, running) = (session(), RunningStatements::new(OsEnv::new()));
        let run = |text: &str, may_write| {
            running.run(&session, &json!({"statement": text}), may_write).map_err(|e| e.words())
        };
        for text in [
            "INSERT INTO k.t (id) VALUES (9)",
            "UPDATE k.t SET v = 'x' WHERE id = 1",
            "DELETE FROM k.t WHERE id = 1",
            "TRUNCATE k.t",
            "DROP TABLE k.t",
            "CREATE ROLE r",
            "BEGIN BATCH DELETE FROM k.t WHERE id = 1 APPLY BATCH",
        ] {
            assert!(run(text, false).unwrap_err().contains("read-only"), "{text}");
        }
        assert_eq!(run("SELECT * FROM k.t", false).unwrap()["rows"].as_array().unwrap().len(), 3);
        assert_eq!(run("USE k", false).unwrap()["keyspace"], "k");
        assert!(run("DESCRIBE TABLES", false).is_ok());
        assert_eq!(run("INSERT INTO k.t (id) VALUES (9)", true).unwrap()["done"], "done");
        assert!(run("SELEC", false).is_err());
        assert!(running.running.lock().is_empty());
    }

    #[test]
    fn a_result_comes_in_pages() {
        let (session, running) = (session(), RunningStatements::new(OsEnv::new()));
        let mut request =
            json!({"statement": "SELECT id, v FROM t", "keyspace": "k", "page_size": 2});
        let first = running.run(&session, &request, false).unwrap();
        assert_eq!(first["columns"][0], json!({"name": "id", "type": "int"}));
        assert_eq!(first["rows"].as_array().unwrap().len(), 2);
        assert_eq!(first["rows"][0], json!(["1", "'a'"]));
        request["paging"] = first["paging"].clone();
        let second = running.run(&session, &request, false).unwrap();
        assert_eq!(second["rows"], json!([["3", null]]));
        assert_eq!(second["paging"], Value::Null);
        request["paging"] = "%".into();
        assert!(running.run(&session, &request, false).is_err());
    }
}
