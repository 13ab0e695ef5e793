//! The CQL tables of a store under torture: rows with collections and an index, counters, and a
//! table that comes and goes.
//!
//! A row's columns are all computed from its version, as a value's bytes are, so a row that was
//! torn or mixed is seen by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_cql::{Class, Prepared, Row, Rows, Run, Session};
use firn_kv::DbOptions;
use firn_kv::Env;
use firn_wide::internals::store::TreeName;
use firn_wide::{Options, StoreOptions, Wide};
use firn_workload::rng::{Rng, mix};

use super::check::{CheckTrouble, Checked, wrong};
use super::expected::{ExpectedChange, ExpectedKeys};
use super::layout::{COUNTS, LayoutVersion, NAMES, ROWS};

const KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS torture WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const ROWS_TABLE: &str = "CREATE TABLE IF NOT EXISTS torture.rows (shard int, idx int, version bigint, n int, note text, tags set<int>, \
     parts map<int, text>, PRIMARY KEY (shard, idx))";
const INDEX: &str = "CREATE INDEX IF NOT EXISTS rows_n ON torture.rows (n)";
const COUNTS_TABLE: &str = "CREATE TABLE IF NOT EXISTS torture.counts (shard int, idx int, c counter, PRIMARY KEY (shard, idx))";
/// The table that comes and goes.
const GUEST: &str =
    "CREATE TABLE IF NOT EXISTS torture.guest (id bigint PRIMARY KEY, version bigint, n int)";

/// The tables, with the statements that are used of them.
pub struct Tables {
    session: Session,
    insert: Prepared,
    insert_new: Prepared,
    delete: Prepared,
    delete_range: Prepared,
    select: Prepared,
    select_one: Prepared,
    by_index: Prepared,
    count: Prepared,
    counts: Prepared,
}

fn failed(e: firn_cql::Error) -> CheckTrouble {
    match e {
        firn_cql::Error::Wide(firn_wide::Error::Store(e)) => CheckTrouble::Failed(e),
        other => {
            CheckTrouble::Wrong(format!("a statement failed: {}: {other}", other.class().name()))
        }
    }
}

/// What a row of a version holds.
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

/// Opens the store as one of column families.
pub fn open(env: Arc<dyn Env>, dir: &std::path::Path, db: DbOptions) -> Checked<Wide> {
    let options = Options { store: StoreOptions { db, clock: None }, ..Options::default() };
    Wide::open_in(env, dir, options).map_err(|e| failed(e.into()))
}

impl Tables {
    /// The tables of a store, made where they are not there.
    pub fn new(wide: Wide) -> Checked<Tables> {
        let session = Session::new(wide).map_err(failed)?;
        for definition in [KEYSPACE, ROWS_TABLE, INDEX, COUNTS_TABLE] {
            session.execute(definition, ()).map_err(failed)?;
        }
        let prepare = |text: &str| session.prepare(text).map_err(failed);
        let insert = "INSERT INTO torture.rows (shard, idx, version, n, note, tags, parts) VALUES (?, ?, ?, ?, ?, ?, ?)";
        Ok(Tables {
            insert: prepare(insert)?,
            insert_new: prepare(&format!("{insert} IF NOT EXISTS"))?,
            delete: prepare("DELETE FROM torture.rows WHERE shard = ? AND idx = ?")?,
            delete_range: prepare(
                "DELETE FROM torture.rows WHERE shard = ? AND idx >= ? AND idx < ?",
            )?,
            select: prepare(
                "SELECT idx, version, n, note, tags, parts FROM torture.rows WHERE shard = ?",
            )?,
            select_one: prepare(
                "SELECT idx, version, n, note, tags, parts FROM torture.rows WHERE shard = ? AND idx = ?",
            )?,
            by_index: prepare("SELECT idx FROM torture.rows WHERE shard = ? AND n = ?")?,
            count: prepare("UPDATE torture.counts SET c = c + ? WHERE shard = ? AND idx = ?")?,
            counts: prepare("SELECT idx, c FROM torture.counts WHERE shard = ?")?,
            session,
        })
    }

    /// Gives the rows another strategy of compaction.
    pub fn alter(&self, rng: &mut Rng) -> Checked {
        let compaction = match rng.below(4) {
            0 => format!("'SizeTieredCompactionStrategy', 'min_threshold': '{}'", 2 + rng.below(4)),
            1 => "'LeveledCompactionStrategy'".to_owned(),
            2 => {
                "'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', 'compaction_window_size': '1'".to_owned()
            }
            _ => "'UnifiedCompactionStrategy'".to_owned(),
        };
        self.execute(&format!(
            "ALTER TABLE torture.rows WITH compaction = {{'class': {compaction}}}"
        ))?;
        Ok(())
    }

    fn execute(&self, text: &str) -> Checked<Rows> {
        self.session.execute(text, ()).map_err(failed)
    }

    fn run(&self, statement: &Prepared, values: impl firn_cql::Values) -> Checked<Rows> {
        self.session.run(statement, values, &Run::default()).map_err(failed)
    }

    /// Flushes and merges the tables.
    pub fn compact(&self, rng: &mut Rng) -> Checked {
        let db = self.session.engine().store().db().clone();
        let is_ours = |n: &&String| {
            matches!(TreeName::parse(n), Some(TreeName::Family(_) | TreeName::Index(_)))
        };
        for name in db.tree_names().iter().filter(is_ours) {
            let Ok(tree) = db.existing_tree(name) else { continue };
            let done = if rng.below(4) == 0 { tree.compact() } else { tree.flush() };
            match done {
                // The table that comes and goes has gone.
                Err(e) if e.kind() == firn_kv::ErrorKind::Closed => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Makes the changes of a step: one of them by a statement, several by a batch.
    pub fn write(&self, changes: &[ExpectedChange]) -> Checked {
        let [one] = changes else {
            let statements: String = changes.iter().map(text).collect();
            self.execute(&format!("BEGIN BATCH {statements} APPLY BATCH"))?;
            return Ok(());
        };
        match *one {
            ExpectedChange::Set { shard, index, version, .. } => {
                self.run(&self.insert, row(shard, index, version))?
            }
            ExpectedChange::SetNew { shard, index, version } => {
                self.run(&self.insert_new, row(shard, index, version))?
            }
            ExpectedChange::Unset { shard, index, .. } => {
                self.run(&self.delete, (shard as i32, index as i32))?
            }
            ExpectedChange::UnsetRange { shard, from, to, .. } => {
                self.run(&self.delete_range, (shard as i32, from as i32, to as i32))?
            }
            ExpectedChange::Add { shard, index, by, .. } => {
                self.run(&self.count, (by as i64, shard as i32, index as i32))?
            }
        };
        Ok(())
    }

    /// The same, of an insert that only does something where there is no row.
    pub fn write_new(&self, change: &ExpectedChange, is_new: bool) -> Checked {
        let ExpectedChange::SetNew { shard, index, version } = *change else {
            return self.write(std::slice::from_ref(change));
        };
        let rows = self.run(&self.insert_new, row(shard, index, version))?;
        let applied: bool = rows.row(0).map_or(Ok(false), |r| r.at(0)).map_err(failed)?;
        if applied != is_new {
            return wrong(format!(
                "INSERT IF NOT EXISTS, shard {shard} key {index}: applied is {applied}, and should be {is_new}"
            ));
        }
        Ok(())
    }

    /// The version of a row.
    pub fn version(&self, what: &str, shard: u32, index: u32) -> Checked<Option<u64>> {
        let rows = self.run(&self.select_one, (shard as i32, index as i32))?;
        rows.row(0)
            .map(|r| parsed(what, shard, &r))
            .transpose()
            .map(|of| of.map(|(_, version)| version))
    }

    /// The sum of a counter.
    pub fn sum(&self, shard: u32, index: u32) -> Checked<Option<u64>> {
        Ok(self.sums(shard)?.get(&index).copied())
    }

    fn sums(&self, shard: u32) -> Checked<ExpectedKeys> {
        let rows = self.run(&self.counts, (shard as i32,))?;
        let one = |r: Row<'_>| Ok((r.at::<i32>(0)? as u32, r.at::<i64>(1)? as u64));
        rows.iter().map(one).collect::<firn_cql::Result<ExpectedKeys>>().map_err(failed)
    }

    /// Compares a shard of both tables with what is expected.
    pub fn check_shard(
        &self,
        what: &str,
        shard: u32,
        rows: &ExpectedKeys,
        counts: &ExpectedKeys,
    ) -> Checked {
        let found = self.run(&self.select, (shard as i32,))?;
        let found = found.iter().map(|r| parsed(what, shard, &r)).collect::<Checked<Vec<_>>>()?;
        differ(what, ROWS, shard, rows, &found)?;
        let sums: Vec<(u32, u64)> = self.sums(shard)?.into_iter().collect();
        differ(what, COUNTS, shard, counts, &sums)
    }

    /// Compares what the index finds with what is expected.
    pub fn check_index(&self, shard: u32, rows: &ExpectedKeys, n: i32) -> Checked {
        let found = self.run(&self.by_index, (shard as i32, n))?;
        let mut found = found
            .iter()
            .map(|r| r.at::<i32>(0))
            .collect::<firn_cql::Result<Vec<i32>>>()
            .map_err(failed)?;
        found.sort_unstable();
        let right =
            rows.iter().filter(|(i, v)| columns(shard, **i, **v).0 == n).map(|(i, _)| *i as i32);
        if !right.clone().eq(found.iter().copied()) {
            let right: Vec<i32> = right.collect();
            return wrong(format!(
                "the index finds of shard {shard}, n = {n}, the rows {found:?}, and should find {right:?}"
            ));
        }
        Ok(())
    }

    /// Makes, fills, alters or drops the table that comes and goes, beside others who do.
    pub fn guest(&self, rng: &mut Rng, version: LayoutVersion) -> Checked {
        let id = rng.below(1000);
        let statement = match rng.below(12) {
            0 => "DROP TABLE IF EXISTS torture.guest".to_owned(),
            1 => "TRUNCATE torture.guest".to_owned(),
            2 => "CREATE INDEX IF NOT EXISTS guest_n ON torture.guest (n)".to_owned(),
            3 => "DROP INDEX IF EXISTS torture.guest_n".to_owned(),
            4 => "ALTER TABLE torture.guest WITH gc_grace_seconds = 1".to_owned(),
            5 | 6 => format!("SELECT version FROM torture.guest WHERE id = {id}"),
            7 => format!("DELETE FROM torture.guest WHERE id = {id}"),
            8 | 9 => GUEST.to_owned(),
            _ => format!(
                "INSERT INTO torture.guest (id, version, n) VALUES ({id}, {}, {})",
                version.0,
                id % 10
            ),
        };
        match self.session.execute(&statement, ()) {
            // It is not there, or somebody else was quicker.
            Err(e) if matches!(e.class(), Class::Invalid | Class::AlreadyExists) => Ok(()),
            Err(firn_cql::Error::Wide(firn_wide::Error::Store(e))) => Err(CheckTrouble::Failed(e)),
            Err(e) => wrong(format!("{statement}: {}: {e}", e.class().name())),
            Ok(_) => Ok(()),
        }
    }
}

type TortureColumns = (i32, i32, i64, i32, String, BTreeSet<i32>, BTreeMap<i32, String>);

fn row(shard: u32, index: u32, version: u64) -> TortureColumns {
    let (n, note, tags, parts) = columns(shard, index, version);
    (shard as i32, index as i32, version as i64, n, note, tags, parts)
}

/// A change as a statement.
fn text(change: &ExpectedChange) -> String {
    match *change {
        ExpectedChange::Set { shard, index, version, .. }
        | ExpectedChange::SetNew { shard, index, version } => {
            let (n, note, tags, parts) = columns(shard, index, version);
            let tags: Vec<String> = tags.iter().map(i32::to_string).collect();
            let parts: Vec<String> = parts.iter().map(|(k, v)| format!("{k}: '{v}'")).collect();
            format!(
                "INSERT INTO torture.rows (shard, idx, version, n, note, tags, parts) VALUES ({shard}, {index}, {version}, {n}, '{note}', \
                 {{{}}}, {{{}}}); ",
                tags.join(", "),
                parts.join(", "),
            )
        }
        ExpectedChange::Unset { shard, index, .. } => {
            format!("DELETE FROM torture.rows WHERE shard = {shard} AND idx = {index}; ")
        }
        ExpectedChange::UnsetRange { shard, from, to, .. } => {
            format!(
                "DELETE FROM torture.rows WHERE shard = {shard} AND idx >= {from} AND idx < {to}; "
            )
        }
        ExpectedChange::Add { shard, index, by, .. } => {
            format!(
                "UPDATE torture.counts SET c = c + {by} WHERE shard = {shard} AND idx = {index}; "
            )
        }
    }
}

/// The columns of a row as they are read.
type TableRead =
    (i32, Option<i64>, Option<i32>, Option<String>, BTreeSet<i32>, BTreeMap<i32, String>);

/// Number and version of a row, all of whose columns are of that version.
fn parsed(what: &str, shard: u32, r: &Row<'_>) -> Checked<(u32, u64)> {
    let read = || -> firn_cql::Result<TableRead> {
        Ok((r.at(0)?, r.at(1)?, r.at(2)?, r.at(3)?, r.at(4)?, r.at(5)?))
    };
    let (index, version, n, note, tags, parts) = read().map_err(failed)?;
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
