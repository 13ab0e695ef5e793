//! Thrift calls on the operations of the data model. Consistency levels are checked, and always
//! met: one node has all data.

use std::collections::BTreeMap;

use firn_cql::internals::catalog::{self, Resource};
use firn_cql::internals::syntax::ast::Permission;
use firn_wide::{
    CfDef, Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn, IndexClause,
    KeyRange, Keyspace, KsDef, RowMutation, SlicePredicate, SliceRange,
};

use super::convert::mutations;
use super::fault::{ThriftError, invalid};
use super::fields::{FromThrift, Result, ThriftFields};
use super::session::ThriftSession;
use super::writer::{Elements, structure};
use crate::node::{FAILED_LOGIN_DELAY, RequestTrace};

/// Version of the interface.
const VERSION: &str = "20.1.0";
/// `ANY`, which is invalid for reads.
const ANY: i32 = 6;
/// Levels of conditional updates.
const SERIAL: i32 = 9;
const LOCAL_SERIAL: i32 = 10;
/// The last consistency level.
const LAST_LEVEL: i32 = 11;

/// The use of a consistency level.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum LevelUse {
    Read,
    Write,
    /// A write to counters.
    Count,
    /// The condition of a conditional update.
    Condition,
    /// The write of a conditional update.
    Commit,
}

/// Refuses an unknown level, or one that is invalid for this use.
pub(super) fn check_level(level: Option<i32>, of: LevelUse) -> Result<()> {
    use LevelUse::*;
    match (level, of) {
        (Some(level), _) if !(0..=LAST_LEVEL).contains(&level) => {
            Err(invalid(format!("{level} is no consistency level")))
        }
        (Some(ANY), Read) => Err(invalid("ANY ConsistencyLevel is only supported for writes")),
        (Some(SERIAL | LOCAL_SERIAL) | None, Condition) => Ok(()),
        (_, Condition) => Err(invalid(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL",
        )),
        (Some(SERIAL | LOCAL_SERIAL), Write) => {
            Err(invalid("You must use conditional updates for serializable writes"))
        }
        (Some(SERIAL | LOCAL_SERIAL), Count) => {
            Err(invalid("Counter operations are inherently non-serializable"))
        }
        (Some(level @ (SERIAL | LOCAL_SERIAL)), Commit) => {
            let name = if level == SERIAL { "SERIAL" } else { "LOCAL_SERIAL" };
            Err(invalid(format!(
                "{name} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is accepted but I \
                 don't care how many replicas commit it for non-SERIAL reads\""
            )))
        }
        _ => Ok(()),
    }
}

/// Keyspaces of the system. They contain CQL tables and no column families.
const SYSTEM_KEYSPACES: [&str; 5] =
    ["system", "system_auth", "system_distributed", "system_schema", "system_traces"];

/// Returns the definition of a system keyspace of this name.
fn system_keyspace(name: &str) -> Option<KsDef> {
    if !SYSTEM_KEYSPACES.contains(&name) {
        return None;
    }
    let mut strategy_options = catalog::system_keyspace(name)?.replication.clone();
    let strategy_class = strategy_options.remove("class").unwrap_or_default();
    Some(KsDef { strategy_class, strategy_options, ..KsDef::new(name) })
}

/// Calls that are allowed before the login: clients make them as they connect.
const BEFORE_LOGIN: [&str; 7] = [
    "describe_cluster_name",
    "describe_partitioner",
    "describe_schema_versions",
    "describe_snitch",
    "describe_version",
    "set_cql_version",
    "trace_next_query",
];

impl ThriftSession {
    /// Returns the current keyspace, which has a column family of this name. System keyspaces have
    /// none.
    fn keyspace_of(&self, family: &str) -> Result<&Keyspace> {
        let none = || invalid(format!("unconfigured columnfamily {family}"));
        self.current()?.1.as_ref().ok_or_else(none)
    }

    /// Returns the keyspace if the client may read this column family at this level.
    pub(super) fn reading(&self, family: &str, level: Option<i32>) -> Result<&Keyspace> {
        check_level(level, LevelUse::Read)?;
        self.check_family(Permission::Select, family)?;
        if self.session.role().is_some() {
            // Thrift does not mask values: without permission to see them, the read is refused.
            let catalog = self.session.engine().catalog();
            let table = catalog.keyspace(self.name()?).and_then(|k| k.table(family));
            if table.is_some_and(|t| t.has_masks()) {
                self.check_family(Permission::Unmask, family)?;
            }
        }
        self.keyspace_of(family)
    }

    /// Returns the keyspace if the client may write to this column family at this level.
    pub(super) fn writing(
        &self,
        family: &str,
        level: Option<i32>,
        of: LevelUse,
    ) -> Result<&Keyspace> {
        check_level(level, of)?;
        self.check_family(Permission::Modify, family)?;
        self.keyspace_of(family)
    }

    /// Reports whether a column family of the keyspace holds counters.
    fn is_counter(&self, family: &str) -> bool {
        let schema = self.wide().schema();
        self.name().is_ok_and(|name| schema.family(name, family).is_ok_and(|f| f.is_counter()))
    }

    /// Executes a call and appends its result: field 0 of a reply.
    ///
    /// # Errors
    /// The exceptions of the interface.
    pub fn call(&mut self, method: &str, f: &ThriftFields<'_>, out: &mut Vec<u8>) -> Result<()> {
        if method == "login" {
            return self.log_in(f);
        }
        if self.must_log_in() && !BEFORE_LOGIN.contains(&method) {
            return Err(invalid("You have not logged in"));
        }
        self.session.check_login()?;
        match method {
            "set_keyspace" => {
                let name: &str = f.read(1, "keyspace")?;
                let handle = match system_keyspace(name) {
                    Some(_) => None,
                    None => Some(self.wide().keyspace(name)?),
                };
                self.keyspace = Some((name.to_owned(), handle));
                Ok(())
            }
            "get" | "get_slice" | "get_count" | "multiget_slice" | "multiget_count"
            | "get_range_slices" | "get_paged_slice" | "get_indexed_slices" | "get_multi_slice" => {
                self.read(method, f, out)
            }
            "insert"
            | "add"
            | "cas"
            | "remove"
            | "remove_counter"
            | "batch_mutate"
            | "atomic_batch_mutate"
            | "truncate" => self.write(method, f, out),
            "execute_cql3_query" | "prepare_cql3_query" | "execute_prepared_cql3_query" => {
                self.cql(method, f, out)
            }
            "set_cql_version" => Ok(()),
            "execute_cql_query" | "prepare_cql_query" | "execute_prepared_cql_query" => {
                Err(invalid("CQL2 has been removed in Cassandra 3.0. Please use CQL3 instead"))
            }
            "trace_next_query" => {
                let identity = RequestTrace::identity(&self.env);
                self.traced = Some(identity);
                self.reply(out, &identity.as_bytes()[..])
            }
            name if name.starts_with("describe_") => self.describe(name, f, out),
            name if name.starts_with("system_") => self.define(name, f, out),
            other => Err(ThriftError::unknown(other)),
        }
    }

    fn log_in(&self, f: &ThriftFields<'_>) -> Result<()> {
        let request = f.structure(1, "auth_request")?;
        let credentials: BTreeMap<&str, &str> =
            request.read_or(1, "credentials", BTreeMap::new())?;
        // Without logins any login succeeds, as in Cassandra with AllowAllAuthenticator.
        if !self.login {
            return Ok(());
        }
        let of = |name: &str| credentials.get(name).copied().unwrap_or_default();
        let Some(queued) = self.logins.enter(self.peer.ip()) else {
            let text = "Too many clients log in at once; try again later";
            return Err(ThriftError::Authentication(text.to_owned()));
        };
        let done = self.session.log_in(of("username"), of("password"));
        drop(queued);
        if let Err(error) = done {
            tracing::warn!(client = %self.peer, role = of("username"), "a login was refused");
            self.env.sleep(FAILED_LOGIN_DELAY);
            return Err(error.into());
        }
        Ok(())
    }

    fn read(&mut self, method: &str, f: &ThriftFields<'_>, out: &mut Vec<u8>) -> Result<()> {
        match method {
            "get" => {
                let path: ColumnPath = f.read(2, "column_path")?;
                let keyspace =
                    self.reading(&path.column_family, f.read(3, "consistency_level")?)?;
                let found = keyspace.get(f.read(1, "key")?, &path)?;
                self.reply(out, &found)
            }
            "get_slice" | "get_count" | "multiget_slice" | "multiget_count" => {
                let parent: ColumnParent = f.read(2, "column_parent")?;
                let predicate: SlicePredicate = f.read(3, "predicate")?;
                let level = f.read(4, "consistency_level")?;
                let keyspace = self.reading(&parent.column_family, level)?;
                if !method.starts_with("multiget") {
                    let key = f.read(1, "key")?;
                    if method == "get_count" {
                        let count = keyspace.get_count(key, &parent, &predicate)?;
                        return self.reply(out, &count);
                    }
                    let columns = keyspace.get_slice(key, &parent, &predicate)?;
                    return self.reply(out, &columns);
                }
                let keys: Vec<Vec<u8>> = f.read_or(1, "keys", vec![])?;
                if method == "multiget_count" {
                    let counts = keyspace.multiget_count(&keys, &parent, &predicate)?;
                    return self.reply(out, &counts);
                }
                let rows = keyspace.multiget_slice(&keys, &parent, &predicate)?;
                self.reply(out, &rows)
            }
            "get_range_slices" => {
                let parent: ColumnParent = f.read(1, "column_parent")?;
                let predicate: SlicePredicate = f.read(2, "predicate")?;
                let range: KeyRange = f.read(3, "range")?;
                let level = f.read(4, "consistency_level")?;
                let keyspace = self.reading(&parent.column_family, level)?;
                let rows = keyspace.get_range_slices(&parent, &predicate, &range)?;
                self.reply(out, &rows)
            }
            "get_paged_slice" => {
                let family: &str = f.read(1, "column_family")?;
                let range: KeyRange = f.read(2, "range")?;
                let start: &[u8] = f.read(3, "start_column")?;
                let keyspace = self.reading(family, f.read(4, "consistency_level")?)?;
                let rows = keyspace.get_paged_slice(family, &range, start)?;
                self.reply(out, &rows)
            }
            "get_indexed_slices" => {
                let parent: ColumnParent = f.read(1, "column_parent")?;
                let clause: IndexClause = f.read(2, "index_clause")?;
                let predicate: SlicePredicate = f.read(3, "column_predicate")?;
                let level = f.read(4, "consistency_level")?;
                let keyspace = self.reading(&parent.column_family, level)?;
                let rows = keyspace.get_indexed_slices(&parent, &clause, &predicate)?;
                self.reply(out, &rows)
            }
            _ => self.slices_of_one(&f.structure(1, "request")?, out),
        }
    }

    /// `get_multi_slice`: several slices of one row.
    fn slices_of_one(&mut self, f: &ThriftFields<'_>, out: &mut Vec<u8>) -> Result<()> {
        let parent: ColumnParent = f.read(2, "column_parent")?;
        let keyspace = self.reading(&parent.column_family, f.read(6, "consistency_level")?)?;
        let key: &[u8] = f.read(1, "key")?;
        let reversed = f.read_or(4, "reversed", false)?;
        let count = f.read_or(5, "count", 1000)?;
        let slices: Vec<ColumnSlice> = f.read_or(3, "column_slices", vec![])?;
        let ranges: Vec<_> = slices.into_iter().map(|slice| slice.0).collect();
        let columns = keyspace.get_multi_slice(key, &parent, &ranges, reversed, count)?;
        self.reply(out, &columns)
    }

    fn write(&mut self, method: &str, f: &ThriftFields<'_>, out: &mut Vec<u8>) -> Result<()> {
        match method {
            "insert" => {
                let parent: ColumnParent = f.read(2, "column_parent")?;
                let column: Column = f.read(3, "column")?;
                let level = f.read(4, "consistency_level")?;
                let keyspace = self.writing(&parent.column_family, level, LevelUse::Write)?;
                keyspace.insert(f.read(1, "key")?, &parent, &column)?;
            }
            "add" => {
                let parent: ColumnParent = f.read(2, "column_parent")?;
                let column: CounterColumn = f.read(3, "column")?;
                let level = f.read(4, "consistency_level")?;
                let keyspace = self.writing(&parent.column_family, level, LevelUse::Count)?;
                keyspace.add(f.read(1, "key")?, &parent, &column)?;
            }
            "remove" => {
                let path: ColumnPath = f.read(2, "column_path")?;
                let timestamp = f.read_or(3, "timestamp", 0)?;
                let level = f.read(4, "consistency_level")?;
                let keyspace = self.writing(&path.column_family, level, LevelUse::Write)?;
                keyspace.remove(f.read(1, "key")?, &path, timestamp)?;
            }
            "remove_counter" => {
                let path: ColumnPath = f.read(2, "path")?;
                let level = f.read(3, "consistency_level")?;
                let keyspace = self.writing(&path.column_family, level, LevelUse::Count)?;
                keyspace.remove_counter(f.read(1, "key")?, &path)?;
            }
            "truncate" => {
                let family: &str = f.read(1, "cfname")?;
                self.writing(family, None, LevelUse::Write)?.truncate(family)?;
            }
            "cas" => return self.compare_and_set(f, out),
            _ => {
                check_level(f.read(2, "consistency_level")?, LevelUse::Write)?;
                self.mutate(&mutations(f)?, method == "atomic_batch_mutate")?;
            }
        }
        Ok(())
    }

    /// Executes the mutations of a batch.
    pub(super) fn mutate(&self, rows: &[RowMutation], is_atomic: bool) -> Result<()> {
        let Some(first) = rows.first() else { return self.name().map(|_| ()) };
        for row in rows {
            self.check_family(Permission::Modify, &row.column_family)?;
            if is_atomic && self.is_counter(&row.column_family) {
                return Err(invalid("Counter mutations are not allowed in atomic batches"));
            }
        }
        Ok(self.keyspace_of(&first.column_family)?.batch_mutate(rows)?)
    }

    /// `cas`: writes if the row has the expected columns; without expected columns, if the row is
    /// empty.
    fn compare_and_set(&mut self, f: &ThriftFields<'_>, out: &mut Vec<u8>) -> Result<()> {
        let family: &str = f.read(2, "column_family")?;
        let expected: Vec<ExpectedColumn> = f.read_or(3, "expected", vec![])?;
        let updates: Vec<ExpectedColumn> = f.read_or(4, "updates", vec![])?;
        check_level(f.read(5, "serial_consistency_level")?, LevelUse::Condition)?;
        self.check_family(Permission::Select, family)?;
        let level = f.read(6, "commit_consistency_level")?;
        let keyspace = self.writing(family, level, LevelUse::Commit)?;
        if self.wide().schema().family(self.name()?, family).is_ok_and(|f| f.is_super()) {
            return Err(invalid("CAS does not support supercolumns"));
        }
        let (key, parent): (&[u8], _) = (f.read(1, "key")?, ColumnParent::new(family));
        let row = keyspace.family(family)?.row(key);
        let predicate = match expected.is_empty() {
            true => SliceRange { count: 1, ..SliceRange::default() }.into(),
            false => SlicePredicate::names(expected.iter().map(|c| c.name.clone())),
        };
        let mut found = vec![];
        let done = keyspace.update(&[key], |batch| {
            found = keyspace.get_slice(key, &parent, &predicate)?;
            let now = |name: &[u8]| {
                found.iter().filter_map(ColumnOrSuperColumn::column).find(|c| c.name == name)
            };
            let holds = match expected.is_empty() {
                true => found.is_empty(),
                false => expected.iter().all(|e| now(&e.name).is_some_and(|c| c.value == e.value)),
            };
            if holds {
                for column in &updates {
                    batch.insert(&row, &column.name[..], &column.value[..]);
                }
            }
            Ok(holds)
        })?;
        let columns = || found.iter().filter_map(ColumnOrSuperColumn::column);
        let result = structure(|w| {
            w.field(1, &done);
            w.field(2, &(!done).then_some(Elements(columns)));
        });
        self.reply(out, &result)
    }

    fn describe(&mut self, method: &str, f: &ThriftFields<'_>, out: &mut Vec<u8>) -> Result<()> {
        match method {
            "describe_keyspaces" => {
                let own = SYSTEM_KEYSPACES.iter().filter_map(|name| system_keyspace(name));
                let mut all: Vec<KsDef> = own.chain(self.wide().describe_keyspaces()).collect();
                all.sort_by(|a, b| a.name.cmp(&b.name));
                self.reply(out, &all)
            }
            "describe_keyspace" => {
                let name: &str = f.read(1, "keyspace")?;
                let found = system_keyspace(name)
                    .map_or_else(|| self.wide().describe_keyspace(name), Ok)?;
                self.reply(out, &found)
            }
            "describe_cluster_name" => {
                let name = self.wide().describe_cluster_name().to_owned();
                self.reply(out, &name)
            }
            "describe_version" => self.reply(out, VERSION),
            "describe_partitioner" => self.reply(out, &self.wide().describe_partitioner()),
            "describe_snitch" => self.reply(out, &self.wide().describe_snitch()),
            "describe_schema_versions" => self.reply(out, &self.wide().describe_schema_versions()),
            "describe_ring" | "describe_local_ring" => {
                let ring = self.wide().describe_ring(f.read(1, "keyspace")?)?;
                self.reply(out, &ring)
            }
            "describe_token_map" => self.reply(out, &self.wide().describe_token_map()),
            "describe_splits" | "describe_splits_ex" => {
                let family: &str = f.read(1, "cfName")?;
                let start = f.read(2, "start_token")?;
                let end = f.read(3, "end_token")?;
                let each = f.read_or(4, "keys_per_split", 1)?;
                let keyspace = self.keyspace_of(family)?;
                let splits = keyspace.describe_splits(family, start, end, each)?;
                if method == "describe_splits" {
                    return self.reply(out, &splits);
                }
                let parts = || {
                    splits.windows(2).map(|ends| {
                        structure(move |w| {
                            w.field(1, &ends[0]);
                            w.field(2, &ends[1]);
                            w.field(3, &i64::from(each));
                        })
                    })
                };
                self.reply(out, &Elements(parts))
            }
            other => Err(ThriftError::unknown(other)),
        }
    }

    fn define(&mut self, method: &str, f: &ThriftFields<'_>, out: &mut Vec<u8>) -> Result<()> {
        let wide = self.wide();
        let inside = |name: &str| Resource::Keyspace(name.to_owned());
        let version = match method {
            "system_add_keyspace" => {
                self.check(Permission::Create, &Resource::AllKeyspaces)?;
                wide.system_add_keyspace(&f.read::<KsDef>(1, "ks_def")?)?
            }
            "system_update_keyspace" => {
                let def: KsDef = f.read(1, "ks_def")?;
                self.check(Permission::Alter, &inside(&def.name))?;
                wide.system_update_keyspace(&def)?
            }
            "system_drop_keyspace" => {
                let name: &str = f.read(1, "keyspace")?;
                self.check(Permission::Drop, &inside(name))?;
                wide.system_drop_keyspace(name)?
            }
            "system_add_column_family" => {
                let def: CfDef = f.read(1, "cf_def")?;
                self.check(Permission::Create, &inside(&def.keyspace))?;
                wide.system_add_column_family(&def)?
            }
            "system_update_column_family" => {
                let def: CfDef = f.read(1, "cf_def")?;
                let table = Resource::Table(def.keyspace.clone(), def.name.clone());
                self.check(Permission::Alter, &table)?;
                wide.system_update_column_family(&def)?
            }
            "system_drop_column_family" => {
                let name: &str = f.read(1, "column_family")?;
                self.check(Permission::Drop, &self.family(name)?)?;
                wide.system_drop_column_family(self.name()?, name)?
            }
            other => return Err(ThriftError::unknown(other)),
        };
        // Schema listeners are notified before the reply.
        self.session.engine().fresh_catalog()?;
        self.reply(out, &version.to_string())
    }
}

/// A column of which only name and value matter.
struct ExpectedColumn {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl FromThrift for ExpectedColumn {
    const NAME: &'static str = "Column";

    fn from_fields(f: &ThriftFields<'_>) -> Result<ExpectedColumn> {
        let value: Option<Vec<u8>> = f.read(2, "value")?;
        let value = value.ok_or_else(|| invalid("Column value is required"))?;
        Ok(ExpectedColumn { name: f.read(1, "name")?, value })
    }
}

/// Start and end of a slice of `get_multi_slice`.
struct ColumnSlice((Vec<u8>, Vec<u8>));

impl FromThrift for ColumnSlice {
    const NAME: &'static str = "ColumnSlice";

    fn from_fields(f: &ThriftFields<'_>) -> Result<ColumnSlice> {
        Ok(ColumnSlice((f.read_or(1, "start", vec![])?, f.read_or(2, "finish", vec![])?)))
    }
}
