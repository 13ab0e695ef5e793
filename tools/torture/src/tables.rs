//! CQL part of a store under torture: rows with collections, two indexes, a view and a function on
//! them, counters, a temporary table ([`guest`](super::guest)), and roles.
//!
//! All columns of a row are computed from its version, like the bytes of a value. So a torn or
//! mixed row is recognized by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_cql::{ErrorClass, Row, Session};
use firn_kv::{Db, DbOptions, Env};
use firn_wide::internals::store::TreeName;
use firn_wide::{Options, StoreOptions, Wide};
use firn_workload::rng::{Rng, mix};

use super::client::TortureClient;
use super::error::{CheckError, Checked, wrong};
use super::expected::{ExpectedChange, ExpectedKeys, ExpectedOp};
use super::layout::{COUNTS, LayoutVersion, NAMES, ROLES, ROWS};
use super::roles;

const KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS torture WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const ROWS_TABLE: &str = "CREATE TABLE IF NOT EXISTS torture.rows (shard int, idx int, version bigint, n int, note text, tags set<int>, \
     parts map<int, text>, PRIMARY KEY (shard, idx))";
const INDEX: &str = "CREATE INDEX IF NOT EXISTS rows_n ON torture.rows (n)";
const RANGES: &str =
    "CREATE INDEX IF NOT EXISTS rows_version ON torture.rows (version) USING 'sai'";
/// View of the rows of a shard in another order. `n` is computed from the version, so a row moves
/// with it.
const VIEW: &str = "CREATE MATERIALIZED VIEW IF NOT EXISTS torture.rows_by_n AS SELECT * FROM torture.rows \
     WHERE shard IS NOT NULL AND n IS NOT NULL AND idx IS NOT NULL PRIMARY KEY (shard, n, idx)";
const FUNCTION: &str = "CREATE FUNCTION IF NOT EXISTS torture.plus(a int, b int) RETURNS NULL ON NULL INPUT RETURNS int \
     LANGUAGE rhai AS 'a + b'";
const AGGREGATE: &str =
    "CREATE AGGREGATE IF NOT EXISTS torture.total(int) SFUNC plus STYPE int INITCOND 0";
const COUNTS_TABLE: &str = "CREATE TABLE IF NOT EXISTS torture.counts (shard int, idx int, c counter, PRIMARY KEY (shard, idx))";

const INSERT: &str = "INSERT INTO torture.rows (shard, idx, version, n, note, tags, parts) VALUES (?, ?, ?, ?, ?, ?, ?)";
const INSERT_NEW: &str = "INSERT INTO torture.rows (shard, idx, version, n, note, tags, parts) VALUES (?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS";
const DELETE: &str = "DELETE FROM torture.rows WHERE shard = ? AND idx = ?";
const DELETE_RANGE: &str = "DELETE FROM torture.rows WHERE shard = ? AND idx >= ? AND idx < ?";
const SELECT: &str = "SELECT idx, version, n, note, tags, parts FROM torture.rows WHERE shard = ?";
const SELECT_ONE: &str =
    "SELECT idx, version, n, note, tags, parts FROM torture.rows WHERE shard = ? AND idx = ?";
const BY_INDEX: &str = "SELECT idx FROM torture.rows WHERE shard = ? AND n = ?";
const VIEW_READ: &str =
    "SELECT idx, version, n, note, tags, parts FROM torture.rows_by_n WHERE shard = ?";
const BY_VIEW: &str = "SELECT idx FROM torture.rows_by_n WHERE shard = ? AND n = ?";
const TOTAL: &str = "SELECT torture.total(n) FROM torture.rows_by_n WHERE shard = ? AND n = ?";
const BY_RANGE: &str =
    "SELECT idx FROM torture.rows WHERE shard = ? AND version >= ? AND version <= ?";
const COUNT: &str = "UPDATE torture.counts SET c = c + ? WHERE shard = ? AND idx = ?";
const SUMS_READ: &str = "SELECT idx, c FROM torture.counts WHERE shard = ?";

/// The tables and the roles, with the client that accesses them.
pub struct Tables(pub(super) TortureClient);

/// Returns the columns of a row at a version.
fn columns(
    shard: u32,
    index: u32,
    version: u64,
) -> (i32, String, BTreeSet<i32>, BTreeMap<i32, String>) {
    let seed = mix(version ^ u64::from(shard) << 40 ^ u64::from(index) << 8);
    let tags = (0..seed % 5).map(|i| (seed >> (8 * i)) as u8 as i32).collect();
    let parts = (0..seed >> 8 & 3).map(|i| (i as i32, format!("part {i} of {version}"))).collect();
    ((seed >> 16) as i32 & 31, "note ".repeat((seed >> 32) as usize & 31), tags, parts)
}

/// Opens the store as a database of column families.
pub fn open(env: Arc<dyn Env>, dir: &std::path::Path, db: DbOptions) -> Checked<Wide> {
    let options = Options {
        store: StoreOptions { db, clock: None, ..StoreOptions::default() },
        ..Options::default()
    };
    Ok(Wide::open_in(env, dir, options).map_err(firn_cql::Error::from)?)
}

/// Returns the page size for reading the rows of a shard; `None`: all at once.
fn page_of(shard: u32) -> Option<usize> {
    [None, Some(7), Some(100)][shard as usize % 3]
}

impl Tables {
    /// Creates the missing tables of a store, and the role with all permissions.
    pub fn new(session: Session) -> Checked<Tables> {
        let client = TortureClient::session(session);
        let others = [INDEX, RANGES, VIEW, FUNCTION, AGGREGATE, &roles::make_master()];
        for definition in [KEYSPACE, ROWS_TABLE, COUNTS_TABLE].iter().chain(&others) {
            client.execute(definition)?;
        }
        Ok(Tables(client))
    }

    /// Accesses existing tables through this client.
    pub fn over(client: TortureClient) -> Tables {
        Tables(client)
    }

    /// Changes the compaction strategy of the rows.
    pub fn alter(&self, rng: &mut Rng) -> Checked {
        let compaction = match rng.below(5) {
            0 => format!("'SizeTieredCompactionStrategy', 'min_threshold': '{}'", 2 + rng.below(4)),
            1 => "'LeveledCompactionStrategy'".to_owned(),
            2 => {
                "'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', 'compaction_window_size': '1'".to_owned()
            }
            3 => "'IncrementalCompactionStrategy', 'sstable_size_in_mb': '1'".to_owned(),
            _ => "'UnifiedCompactionStrategy'".to_owned(),
        };
        let alter = format!("ALTER TABLE torture.rows WITH compaction = {{'class': {compaction}}}");
        self.0.execute(&alter)?;
        Ok(())
    }

    /// Flushes and compacts the tables.
    pub fn compact(db: &Db, rng: &mut Rng) -> Checked {
        let is_ours = |n: &&String| {
            matches!(TreeName::parse(n), Some(TreeName::Family(_) | TreeName::Index(_)))
        };
        for name in db.tree_names().iter().filter(is_ours) {
            let Ok(tree) = db.existing_tree(name) else { continue };
            let done = if rng.below(4) == 0 { tree.compact() } else { tree.flush() };
            match done {
                // The temporary table has been dropped.
                Err(e) if e.kind() == firn_kv::ErrorKind::Closed => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Executes the changes of a step: one change by a statement, several by a batch.
    pub fn write(&self, changes: &[ExpectedChange]) -> Checked {
        let [one] = changes else {
            let statements: String = changes.iter().map(text).collect();
            self.0.execute(&format!("BEGIN BATCH {statements} APPLY BATCH"))?;
            return Ok(());
        };
        let shard = one.shard as i32;
        match one.op {
            ExpectedOp::Set { index, version } => {
                self.0.run(INSERT, row(one.shard, index, version))?
            }
            ExpectedOp::SetNew { index, version } => {
                self.0.run(INSERT_NEW, row(one.shard, index, version))?
            }
            ExpectedOp::Unset { index } => self.0.run(DELETE, (shard, index as i32))?,
            ExpectedOp::UnsetRange { from, to } => {
                self.0.run(DELETE_RANGE, (shard, from as i32, to as i32))?
            }
            ExpectedOp::Add { index, by } => self.0.run(COUNT, (by as i64, shard, index as i32))?,
            ExpectedOp::Role { index, change } => {
                self.0.execute(&change.statement(one.shard, index))?
            }
        };
        Ok(())
    }

    /// Executes an insert that has an effect only if there is no row.
    pub fn write_new(&self, change: &ExpectedChange, is_new: bool) -> Checked {
        let (ExpectedOp::SetNew { index, version }, shard) = (change.op, change.shard) else {
            return self.write(std::slice::from_ref(change));
        };
        let rows = self.0.run(INSERT_NEW, row(shard, index, version))?;
        let applied: bool = rows.row(0).map_or(Ok(false), |r| r.at(0))?;
        if applied != is_new {
            return wrong(format!(
                "INSERT IF NOT EXISTS, shard {shard} key {index}: applied is {applied}, and should be {is_new}"
            ));
        }
        Ok(())
    }

    /// Changes a role. `states` are the states of its shard's roles, which decide whether the store
    /// must refuse the statement.
    pub fn write_role(&self, change: &ExpectedChange, states: &ExpectedKeys) -> Checked {
        let (ExpectedOp::Role { index, change }, shard) = (change.op, change.shard) else {
            return self.write(std::slice::from_ref(change));
        };
        let statement = change.statement(shard, index);
        let is_refused = !change.apply(index, &mut states.clone());
        match self.0.execute(&statement) {
            Err(e) if is_refused && e.is(ErrorClass::Invalid) => Ok(()),
            Ok(_) if is_refused => wrong(format!("{statement}: it should have been refused")),
            done => Ok(done.map(drop)?),
        }
    }

    /// Returns the version of a row.
    pub fn version(&self, what: &str, shard: u32, index: u32) -> Checked<Option<u64>> {
        let rows = self.0.run(SELECT_ONE, (shard as i32, index as i32))?;
        rows.row(0)
            .map(|r| parsed(what, shard, &r))
            .transpose()
            .map(|of| of.map(|(_, version)| version))
    }

    /// Returns the sum of a counter.
    pub fn sum(&self, shard: u32, index: u32) -> Checked<Option<u64>> {
        let sums = self.sums(shard)?;
        Ok(sums.iter().find(|(i, _)| *i == index).map(|(_, sum)| *sum))
    }

    /// Returns the state of a role.
    pub fn role(&self, shard: u32, index: u32) -> Checked<Option<u64>> {
        Ok(roles::read_roles(&self.0)?.get(&(shard, index)).copied())
    }

    fn sums(&self, shard: u32) -> Checked<Vec<(u32, u64)>> {
        self.0.read(SUMS_READ, (shard as i32,), page_of(shard), |r| {
            Ok((r.at::<i32>(0)? as u32, r.at::<i64>(1)? as u64))
        })
    }

    /// Compares a shard of both tables with the expected state.
    pub fn check_shard(
        &self,
        what: &str,
        shard: u32,
        rows: &ExpectedKeys,
        counts: &ExpectedKeys,
    ) -> Checked {
        self.check_rows(what, shard, rows)?;
        let parse = |r: &Row<'_>| parsed(what, shard, r);
        let mut seen = self.0.read(VIEW_READ, (shard as i32,), page_of(shard), parse)?;
        seen.sort_unstable();
        differ(&format!("{what}, in the view"), ROWS, shard, rows, &seen)?;
        differ(what, COUNTS, shard, counts, &self.sums(shard)?)
    }

    fn check_rows(&self, what: &str, shard: u32, rows: &ExpectedKeys) -> Checked {
        let parse = |r: &Row<'_>| parsed(what, shard, r);
        let found = self.0.read(SELECT, (shard as i32,), page_of(shard), parse)?;
        differ(what, ROWS, shard, rows, &found)
    }

    /// Compares the roles of some shards with the expected state, and returns their number. With
    /// `all`, no other roles may exist.
    pub fn check_roles<'s>(
        &self,
        what: &str,
        shards: impl IntoIterator<Item = (u32, &'s ExpectedKeys)>,
        all: bool,
    ) -> Checked<u64> {
        let (mut found, mut n) = (roles::read_roles(&self.0)?, 0);
        for (shard, expected) in shards {
            let own = |((s, i), state): (&(u32, u32), &u64)| (*s == shard).then_some((*i, *state));
            let own: Vec<_> = found.iter().filter_map(own).collect();
            differ(what, ROLES, shard, expected, &own)?;
            found.retain(|(s, _), _| *s != shard);
            n += expected.len() as u64;
        }
        match found.first_key_value().filter(|_| all) {
            Some(((shard, index), _)) => {
                wrong(format!("{what}: there is a role {index} of a shard {shard}, which is none"))
            }
            None => Ok(n),
        }
    }

    /// Logs in as a role of a shard, and reads its rows: each succeeds if the role permits it.
    pub fn log_in(
        &self,
        shard: u32,
        index: u32,
        states: &ExpectedKeys,
        rows: &ExpectedKeys,
    ) -> Checked {
        let may = roles::may_read(index, states);
        let Some(own) = roles::log_in(&self.0, shard, index)? else {
            return match may {
                Some(_) => wrong(format!("role {index} of shard {shard} can't log in")),
                None => Ok(()),
            };
        };
        match (own.run(SELECT_ONE, (shard as i32, 0)), may) {
            (Err(e), Some(false)) if e.is(ErrorClass::Unauthorized) => Ok(()),
            (Ok(_), Some(true)) => Tables(own).check_rows("as a role", shard, rows),
            (Ok(_), _) => wrong(format!(
                "role {index} of shard {shard} could log in and read, and should not: {may:?}"
            )),
            (Err(e), _) => Err(e.into()),
        }
    }

    /// Compares the rows found by `n` with the expected ones, through the index and the view, and
    /// the rows found by a range of versions.
    pub fn check_index(&self, shard: u32, rows: &ExpectedKeys, n: i32) -> Checked {
        let right: Vec<(i32, u64)> = rows
            .iter()
            .filter(|(i, v)| columns(shard, **i, **v).0 == n)
            .map(|(i, v)| (*i as i32, *v))
            .collect();
        let all: Vec<i32> = right.iter().map(|(i, _)| *i).collect();
        let (shard, size) = (shard as i32, page_of(shard));
        let number = |r: &Row<'_>| Ok::<_, CheckError>(r.at::<i32>(0)?);
        let found = |how, mut found: Vec<i32>, right: &[i32]| -> Checked {
            found.sort_unstable();
            if found == right {
                return Ok(());
            }
            wrong(format!(
                "{how} finds of shard {shard}, beside n = {n}, the rows {found:?}, and should find {right:?}"
            ))
        };
        found("the index", self.0.read(BY_INDEX, (shard, n), size, number)?, &all)?;
        found("the view", self.0.read(BY_VIEW, (shard, n), size, number)?, &all)?;
        if let (Some((_, a)), Some((_, b))) = (right.first(), right.last()) {
            let between = a.min(b)..=a.max(b);
            let asked = (shard, **between.start() as i64, **between.end() as i64);
            let is_within = rows.iter().filter(|(_, v)| between.contains(v));
            let within: Vec<i32> = is_within.map(|(i, _)| *i as i32).collect();
            found("a range of versions", self.0.read(BY_RANGE, asked, size, number)?, &within)?;
        }
        let totals = self.0.run(TOTAL, (shard, n))?;
        let total: Option<i32> = totals.row(0).map(|r| r.at(0)).transpose()?;
        let right = n * all.len() as i32;
        if total != Some(right) {
            return wrong(format!(
                "the total of n = {n} of shard {shard} is {total:?}, and should be {right}"
            ));
        }
        Ok(())
    }
}

type TortureColumns = (i32, i32, i64, i32, String, BTreeSet<i32>, BTreeMap<i32, String>);

fn row(shard: u32, index: u32, version: u64) -> TortureColumns {
    let (n, note, tags, parts) = columns(shard, index, version);
    (shard as i32, index as i32, version as i64, n, note, tags, parts)
}

/// Returns a change as a statement.
fn text(change: &ExpectedChange) -> String {
    let shard = change.shard;
    match change.op {
        ExpectedOp::Set { index, version } | ExpectedOp::SetNew { index, version } => {
            let (n, note, tags, parts) = columns(shard, index, version);
            let parts: Vec<String> = parts.iter().map(|(k, v)| format!("{k}: '{v}'")).collect();
            format!(
                "INSERT INTO torture.rows (shard, idx, version, n, note, tags, parts) VALUES ({shard}, {index}, {version}, {n}, '{note}', \
                 {tags:?}, {{{}}}); ",
                parts.join(", "),
            )
        }
        ExpectedOp::Unset { index } => {
            format!("DELETE FROM torture.rows WHERE shard = {shard} AND idx = {index}; ")
        }
        ExpectedOp::UnsetRange { from, to } => format!(
            "DELETE FROM torture.rows WHERE shard = {shard} AND idx >= {from} AND idx < {to}; "
        ),
        ExpectedOp::Add { index, by } => format!(
            "UPDATE torture.counts SET c = c + {by} WHERE shard = {shard} AND idx = {index}; "
        ),
        ExpectedOp::Role { index, change } => change.statement(shard, index),
    }
}

/// Columns of a row as read.
type TableRead =
    (i32, Option<i64>, Option<i32>, Option<String>, BTreeSet<i32>, BTreeMap<i32, String>);

/// Returns the number and version of a row. All of its columns must be of that version.
fn parsed(what: &str, shard: u32, r: &Row<'_>) -> Checked<(u32, u64)> {
    let read = || -> firn_cql::Result<TableRead> {
        Ok((r.at(0)?, r.at(1)?, r.at(2)?, r.at(3)?, r.at(4)?, r.at(5)?))
    };
    let (index, version, n, note, tags, parts) = read()?;
    let index = index as u32;
    if let (Some(version), Some(n), Some(note)) = (version, n, &note)
        && columns(shard, index, version as u64) == (n, note.clone(), tags.clone(), parts.clone())
    {
        return Ok((index, version as u64));
    }
    let is = version.map_or_else(
        || "no version".to_owned(),
        |v| format!("the version of {}", LayoutVersion(v as u64)),
    );
    wrong(format!(
        "{what}: row {index} of shard {shard} has {is}, and other columns than that wrote: n {n:?}, note {note:?}, tags {tags:?}, parts {parts:?}"
    ))
}

fn differ(
    what: &str,
    table: usize,
    shard: u32,
    expected: &ExpectedKeys,
    found: &[(u32, u64)],
) -> Checked {
    let say = |of: Option<(u32, u64)>| match of {
        None => "the end".to_owned(),
        Some((i, n)) if table == COUNTS => format!("counter {i} with {n}"),
        Some((i, bits)) if table == ROLES => roles::describe_role(i, bits),
        Some((i, v)) => format!("row {i} that {} wrote", LayoutVersion(v)),
    };
    let mut expected = expected.iter().map(|(i, v)| (*i, *v));
    let mut found = found.iter().copied();
    loop {
        match (expected.next(), found.next()) {
            (None, None) => return Ok(()),
            (a, b) if a == b => {}
            (a, b) => {
                return wrong(format!(
                    "{what}: {} shard {shard}: next should be {}, and is {}",
                    NAMES[table],
                    say(a),
                    say(b)
                ));
            }
        }
    }
}
