//! A temporary table under torture, with an index, a view, a vector index and a function. Several
//! threads create, change and drop it at once.

use std::collections::BTreeSet;

use firn_cql::{ErrorClass, Row};
use firn_workload::rng::Rng;

use super::client::StatementError;
use super::error::{Checked, wrong};
use super::layout::LayoutVersion;
use super::tables::Tables;

const GUEST: &str = "CREATE TABLE IF NOT EXISTS torture.guest (id bigint PRIMARY KEY, version bigint, n int, v vector<float, 3>)";
const GUEST_OBJECTS: [&str; 8] = [
    "CREATE INDEX IF NOT EXISTS guest_n ON torture.guest (n)",
    "DROP INDEX IF EXISTS torture.guest_n",
    "CREATE INDEX IF NOT EXISTS guest_v ON torture.guest (v) USING 'sai'",
    "DROP INDEX IF EXISTS torture.guest_v",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS torture.guest_by_n AS SELECT id, n, version FROM torture.guest \
     WHERE n IS NOT NULL AND id IS NOT NULL PRIMARY KEY (n, id)",
    "DROP MATERIALIZED VIEW IF EXISTS torture.guest_by_n",
    "CREATE OR REPLACE FUNCTION torture.twice(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS 'a * 2'",
    "DROP FUNCTION IF EXISTS torture.twice",
];
const BASE_READ: &str = "SELECT id, n, version FROM torture.guest";
const VIEW_READ: &str = "SELECT id, n, version FROM torture.guest_by_n";

type GuestRow = (i64, Option<i32>, Option<i64>);

impl Tables {
    /// Creates, fills, alters, queries or drops the temporary table, concurrently with other
    /// threads.
    pub fn guest(&self, rng: &mut Rng, version: LayoutVersion) -> Checked {
        let id = rng.below(1000);
        let (n, version) = (id % 10, version.0);
        let statement = match rng.below(24) {
            0 | 1 => "DROP TABLE IF EXISTS torture.guest".to_owned(),
            2 => "TRUNCATE torture.guest".to_owned(),
            3 => "ALTER TABLE torture.guest WITH gc_grace_seconds = 1".to_owned(),
            4 | 5 => format!("SELECT version FROM torture.guest WHERE id = {id}"),
            6 => format!("SELECT id FROM torture.guest WHERE n = {n}"),
            7 => format!("SELECT id FROM torture.guest_by_n WHERE n = {n}"),
            8 => format!("SELECT id FROM torture.guest ORDER BY v ANN OF [{n}, 1, 2] LIMIT 3"),
            9 => format!("SELECT torture.twice(n) FROM torture.guest WHERE id = {id}"),
            10 => format!("DELETE FROM torture.guest WHERE id = {id}"),
            11 => format!("UPDATE torture.guest SET n = {} WHERE id = {id}", id % 7),
            12 | 13 => GUEST.to_owned(),
            14..18 => GUEST_OBJECTS[rng.below(GUEST_OBJECTS.len() as u64) as usize].to_owned(),
            _ => format!(
                "INSERT INTO torture.guest (id, version, n, v) VALUES ({id}, {version}, {n}, [1, {n}, {id}])"
            ),
        };
        match self.0.execute(&statement) {
            // The table does not exist, or another thread was faster.
            Err(e) if e.is(ErrorClass::Invalid) || e.is(ErrorClass::AlreadyExists) => Ok(()),
            Err(StatementError::Refused(code, text)) => {
                wrong(format!("{statement}: code {code:#06x}: {text}"))
            }
            done => Ok(done.map(drop)?),
        }
    }

    /// Compares the view with the temporary table, if both exist. No writer may be active.
    pub fn check_guest(&self, what: &str) -> Checked {
        let row = |r: &Row<'_>| Ok::<GuestRow, StatementError>((r.at(0)?, r.at(1)?, r.at(2)?));
        let read = |text| match self.0.read(text, (), Some(100), row) {
            Err(e) if e.is(ErrorClass::Invalid) => Ok(None),
            rows => rows.map(|rows| Some(rows.into_iter().collect::<BTreeSet<_>>())),
        };
        let (Some(mut base), Some(view)) = (read(BASE_READ)?, read(VIEW_READ)?) else {
            return Ok(());
        };
        base.retain(|(_, n, _)| n.is_some());
        match base.symmetric_difference(&view).next() {
            None => Ok(()),
            Some(row) => wrong(format!("{what}: the guest or its view alone has the row {row:?}")),
        }
    }
}
