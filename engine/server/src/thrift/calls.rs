//! The calls of the interface over the data model's operations. Consistency levels are looked at and
//! met: one node has everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_cql::internals::catalog::Resource;
use firn_cql::internals::syntax::ast::Permission;
use firn_cql::{BatchLimits, Bound, Kind, Prepared, Rows, Run, Session, TombstoneLimits};
use firn_kv::Env;
use firn_wide::{
    CfDef, Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn, IndexClause,
    KeyRange, Keyspace, KsDef, SlicePredicate, SliceRange, Wide,
};
use uuid::Uuid;

use super::binary::{ThriftValue, element};
use super::convert::{FromThrift, ThriftFields, ToThrift, list_of, mutations};
use super::fault::{ThriftFault, invalid};
use crate::node::{ConnectionMeter, Node, RequestTrace};

type Result<T> = std::result::Result<T, ThriftFault>;
/// What a call gives: `None` is nothing.
type Answer = Result<Option<ThriftValue<'static>>>;

/// The version of the interface that these calls are of.
const VERSION: &str = "20.1.0";
/// The largest text of a statement that was compressed.
const MOST_TEXT: usize = 1 << 20;
/// Statements that one connection may have prepared.
const MOST_PREPARED: usize = 1024;
/// `ANY`, which reads can't have.
const ANY: i32 = 6;
/// The last level of consistency.
const LAST_LEVEL: i32 = 11;

/// A conversation.
pub struct ThriftSession {
    /// That with the database.
    session: Session,
    /// Whether the client must log in first.
    login: bool,
    keyspace: Option<String>,
    prepared: BTreeMap<i32, Prepared>,
    next: i32,
    /// How large batches of CQL may be.
    batch_limits: BatchLimits,
    tombstone_limits: TombstoneLimits,
    meter: ConnectionMeter,
    /// The identity of the trace of the next call.
    traced: Option<Uuid>,
    env: Arc<dyn Env>,
}

fn void<T>(done: std::result::Result<T, firn_wide::Error>) -> Answer {
    done?;
    Ok(None)
}

fn text(text: impl Into<String>) -> Answer {
    Ok(Some(ThriftValue::text(text)))
}

fn texts(all: impl IntoIterator<Item = String>) -> ThriftValue<'static> {
    ThriftValue::list(element::BYTES, all.into_iter().map(ThriftValue::text))
}

/// Refuses a level that there is not, and for reads one that only writes can have.
fn check_level(level: Option<i32>, reads: bool) -> Result<()> {
    match level {
        Some(ANY) if reads => Err(invalid("ANY ConsistencyLevel is only supported for writes")),
        Some(level) if !(0..=LAST_LEVEL).contains(&level) => {
            Err(invalid(format!("{level} is no consistency level")))
        }
        _ => Ok(()),
    }
}

impl ThriftSession {
    /// With this server's database, nobody having logged in.
    pub fn new(node: &Node, meter: ConnectionMeter) -> ThriftSession {
        ThriftSession {
            session: node.session.clone(),
            login: node.login,
            keyspace: None,
            prepared: BTreeMap::new(),
            next: 1,
            batch_limits: node.options.batches,
            tombstone_limits: node.options.tombstones,
            meter,
            traced: None,
            env: node.env.clone(),
        }
    }

    /// The identity of the trace of the call that comes now, where its client wants one.
    pub fn take_traced(&mut self) -> Option<Uuid> {
        self.traced.take()
    }

    fn wide(&self) -> &Wide {
        self.session.engine().wide()
    }

    fn name(&self) -> Result<&str> {
        self.keyspace
            .as_deref()
            .ok_or_else(|| invalid("You have not set a keyspace for this session"))
    }

    fn keyspace(&self) -> Result<Keyspace> {
        Ok(self.wide().keyspace(self.name()?)?)
    }

    fn check(&self, permission: Permission, resource: &Resource) -> Result<()> {
        self.session.engine().keep_up()?;
        let catalog = self.session.engine().catalog();
        Ok(catalog.check_may(self.session.role(), permission, resource)?)
    }

    fn family(&self, name: &str) -> Result<Resource> {
        Ok(Resource::Table(self.name()?.to_owned(), name.to_owned()))
    }

    /// The keyspace, when this family of it may be read at this level.
    fn reading(&self, family: &str, level: Option<i32>) -> Result<Keyspace> {
        check_level(level, true)?;
        let resource = self.family(family)?;
        self.check(Permission::Select, &resource)?;
        // Nothing is masked here: who may not see a value can't read it.
        let catalog = self.session.engine().catalog();
        let table = catalog.keyspace(self.name()?).and_then(|k| k.table(family));
        if table.is_some_and(|t| t.has_masks()) {
            self.check(Permission::Unmask, &resource)?;
        }
        self.keyspace()
    }

    /// The keyspace, when this family of it may be written to at this level.
    fn writing(&self, family: &str, level: Option<i32>) -> Result<Keyspace> {
        check_level(level, false)?;
        self.check(Permission::Modify, &self.family(family)?)?;
        self.keyspace()
    }

    /// Carries out a call.
    ///
    /// # Errors
    /// What the interface throws.
    pub fn call(&mut self, method: &str, f: ThriftFields<'_>) -> Answer {
        if method == "login" {
            return self.log_in(f);
        }
        if self.login && self.session.role().is_none() {
            return Err(invalid("You have not logged in"));
        }
        match method {
            "set_keyspace" => {
                let name = f.need_text(1, "keyspace")?;
                self.wide().keyspace(&name)?;
                self.keyspace = Some(name);
                Ok(None)
            }
            "get" | "get_slice" | "get_count" | "multiget_slice" | "multiget_count"
            | "get_range_slices" | "get_paged_slice" | "get_indexed_slices" | "get_multi_slice" => {
                self.read(method, f)
            }
            "insert"
            | "add"
            | "cas"
            | "remove"
            | "remove_counter"
            | "batch_mutate"
            | "atomic_batch_mutate"
            | "truncate" => self.write(method, f),
            "execute_cql3_query" | "prepare_cql3_query" | "execute_prepared_cql3_query" => {
                self.cql(method, f)
            }
            "set_cql_version" => Ok(None),
            "execute_cql_query" | "prepare_cql_query" | "execute_prepared_cql_query" => {
                Err(invalid("CQL2 has been removed in Cassandra 3.0. Please use CQL3 instead"))
            }
            "trace_next_query" => {
                let identity = RequestTrace::identity(&self.env);
                self.traced = Some(identity);
                Ok(Some(ThriftValue::bytes(identity.as_bytes().to_vec())))
            }
            name if name.starts_with("describe_") => self.describe(name, f),
            name if name.starts_with("system_") => self.define(name, f),
            other => Err(ThriftFault::unknown(other)),
        }
    }

    fn log_in(&self, f: ThriftFields<'_>) -> Answer {
        let request = f.need_struct(1, "auth_request")?;
        let credentials = request.texts(1, "credentials")?.unwrap_or_default();
        // Without roles everybody may come in, as with servers that ask nobody.
        if !self.login {
            return Ok(None);
        }
        let of = |name: &str| credentials.get(name).map_or("", String::as_str);
        self.session.log_in(of("username"), of("password"))?;
        Ok(None)
    }

    fn read(&self, method: &str, f: ThriftFields<'_>) -> Answer {
        let slices = |rows: BTreeMap<Vec<u8>, Vec<ColumnOrSuperColumn>>| {
            let pair =
                |(key, columns): (Vec<u8>, Vec<_>)| (ThriftValue::bytes(key), list_of(&columns));
            Ok(Some(ThriftValue::map(element::BYTES, element::LIST, rows.into_iter().map(pair))))
        };
        match method {
            "get" => {
                let path: ColumnPath = f.made(2, "column_path")?;
                let keyspace = self.reading(&path.column_family, f.int(3, "consistency_level")?)?;
                Ok(Some(keyspace.get(&f.need_bytes(1, "key")?, &path)?.to_thrift()))
            }
            "get_slice" | "get_count" | "multiget_slice" | "multiget_count" => {
                let parent: ColumnParent = f.made(2, "column_parent")?;
                let predicate: SlicePredicate = f.made(3, "predicate")?;
                let level = f.int(4, "consistency_level")?;
                let keyspace = self.reading(&parent.column_family, level)?;
                if !method.starts_with("multiget") {
                    let key = f.need_bytes(1, "key")?;
                    return Ok(Some(match method {
                        "get_slice" => list_of(&keyspace.get_slice(&key, &parent, &predicate)?),
                        _ => ThriftValue::I32(keyspace.get_count(&key, &parent, &predicate)?),
                    }));
                }
                let keys = f.bytes_list(1, "keys")?.unwrap_or_default();
                if method == "multiget_slice" {
                    return slices(keyspace.multiget_slice(&keys, &parent, &predicate)?);
                }
                let counts = keyspace.multiget_count(&keys, &parent, &predicate)?;
                let pair = |(key, n)| (ThriftValue::bytes(key), ThriftValue::I32(n));
                let all = counts.into_iter().map(pair);
                Ok(Some(ThriftValue::map(element::BYTES, element::I32, all)))
            }
            "get_range_slices" => {
                let parent: ColumnParent = f.made(1, "column_parent")?;
                let predicate: SlicePredicate = f.made(2, "predicate")?;
                let range: KeyRange = f.made(3, "range")?;
                let level = f.int(4, "consistency_level")?;
                let keyspace = self.reading(&parent.column_family, level)?;
                Ok(Some(list_of(&keyspace.get_range_slices(&parent, &predicate, &range)?)))
            }
            "get_paged_slice" => {
                let family = f.need_text(1, "column_family")?;
                let range: KeyRange = f.made(2, "range")?;
                let start = f.need_bytes(3, "start_column")?;
                let keyspace = self.reading(&family, f.int(4, "consistency_level")?)?;
                Ok(Some(list_of(&keyspace.get_paged_slice(&family, &range, &start)?)))
            }
            "get_indexed_slices" => {
                let parent: ColumnParent = f.made(1, "column_parent")?;
                let clause: IndexClause = f.made(2, "index_clause")?;
                let predicate: SlicePredicate = f.made(3, "column_predicate")?;
                let level = f.int(4, "consistency_level")?;
                let keyspace = self.reading(&parent.column_family, level)?;
                Ok(Some(list_of(&keyspace.get_indexed_slices(&parent, &clause, &predicate)?)))
            }
            _ => self.slices_of_one(f.need_struct(1, "request")?),
        }
    }

    /// `get_multi_slice`: several slices of one row, no column twice.
    fn slices_of_one(&self, f: ThriftFields<'_>) -> Answer {
        let parent: ColumnParent = f.made(2, "column_parent")?;
        let keyspace = self.reading(&parent.column_family, f.int(6, "consistency_level")?)?;
        let key = f.need_bytes(1, "key")?;
        let reversed = f.flag(4, "reversed")?.unwrap_or(false);
        let count = f.int(5, "count")?.unwrap_or(1000);
        let ranges = f.list(3, "column_slices", |value| {
            let slice = ThriftFields::of("ColumnSlice", value)?;
            let (start, finish) = (slice.bytes(1, "start")?, slice.bytes(2, "finish")?);
            let (start, finish) = (start.unwrap_or_default(), finish.unwrap_or_default());
            Ok(SliceRange { start, finish, reversed, count })
        })?;
        let mut all: Vec<ColumnOrSuperColumn> = vec![];
        for range in ranges.unwrap_or_default() {
            for column in keyspace.get_slice(&key, &parent, &range.into())? {
                if all.len() < count.max(0) as usize
                    && !all.iter().any(|c| c.name() == column.name())
                {
                    all.push(column);
                }
            }
        }
        Ok(Some(list_of(&all)))
    }

    fn write(&self, method: &str, f: ThriftFields<'_>) -> Answer {
        match method {
            "insert" => {
                let parent: ColumnParent = f.made(2, "column_parent")?;
                let column: Column = f.made(3, "column")?;
                let keyspace =
                    self.writing(&parent.column_family, f.int(4, "consistency_level")?)?;
                void(keyspace.insert(&f.need_bytes(1, "key")?, &parent, &column))
            }
            "add" => {
                let parent: ColumnParent = f.made(2, "column_parent")?;
                let column: CounterColumn = f.made(3, "column")?;
                let keyspace =
                    self.writing(&parent.column_family, f.int(4, "consistency_level")?)?;
                void(keyspace.add(&f.need_bytes(1, "key")?, &parent, &column))
            }
            "remove" => {
                let path: ColumnPath = f.made(2, "column_path")?;
                let timestamp = f.long(3, "timestamp")?.unwrap_or_default();
                let keyspace = self.writing(&path.column_family, f.int(4, "consistency_level")?)?;
                void(keyspace.remove(&f.need_bytes(1, "key")?, &path, timestamp))
            }
            "remove_counter" => {
                let path: ColumnPath = f.made(2, "path")?;
                let keyspace = self.writing(&path.column_family, f.int(3, "consistency_level")?)?;
                void(keyspace.remove_counter(&f.need_bytes(1, "key")?, &path))
            }
            "truncate" => {
                let family = f.need_text(1, "cfname")?;
                void(self.writing(&family, None)?.truncate(&family))
            }
            "cas" => self.compare_and_set(f),
            _ => {
                check_level(f.int(2, "consistency_level")?, false)?;
                let rows = mutations(f)?;
                for row in &rows {
                    self.check(Permission::Modify, &self.family(&row.column_family)?)?;
                }
                void(self.keyspace()?.batch_mutate(&rows))
            }
        }
    }

    /// `cas`: writes when the row has what is expected; of nothing expected, when it has nothing.
    fn compare_and_set(&self, f: ThriftFields<'_>) -> Answer {
        let family = f.need_text(2, "column_family")?;
        let expected = f.list(3, "expected", Expected::from_value)?.unwrap_or_default();
        let updates = f.list(4, "updates", Expected::from_value)?.unwrap_or_default();
        if updates.is_empty() {
            return Err(invalid("Must specify updates"));
        }
        self.check(Permission::Select, &self.family(&family)?)?;
        let keyspace = self.writing(&family, f.int(6, "commit_consistency_level")?)?;
        let (key, parent) = (f.need_bytes(1, "key")?, ColumnParent::new(family.clone()));
        let row = keyspace.family(&family)?.row(&key[..]);
        let predicate = match expected.is_empty() {
            true => SliceRange { count: 1, ..SliceRange::default() }.into(),
            false => SlicePredicate::names(expected.iter().map(|c| c.name.clone())),
        };
        let mut found = vec![];
        let done = keyspace.update(&[&key[..]], |batch| {
            found = keyspace.get_slice(&key, &parent, &predicate)?;
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
        let mut fields = vec![(1, ThriftValue::Bool(done))];
        if !done {
            let columns: Vec<Column> = found.iter().filter_map(|c| c.column().cloned()).collect();
            fields.push((2, list_of(&columns)));
        }
        Ok(Some(ThriftValue::Struct(fields)))
    }

    fn describe(&self, method: &str, f: ThriftFields<'_>) -> Answer {
        let wide = self.wide();
        match method {
            "describe_keyspaces" => Ok(Some(list_of(&wide.describe_keyspaces()))),
            "describe_keyspace" => {
                let name = f.need_text(1, "keyspace")?;
                Ok(Some(wide.describe_keyspace(&name)?.to_thrift()))
            }
            "describe_cluster_name" => text(wide.describe_cluster_name()),
            "describe_version" => text(VERSION),
            "describe_partitioner" => text(wide.describe_partitioner()),
            "describe_snitch" => text(wide.describe_snitch()),
            "describe_schema_versions" => {
                let pair = |(version, nodes)| (ThriftValue::text(version), texts(nodes));
                let all = wide.describe_schema_versions().into_iter().map(pair);
                Ok(Some(ThriftValue::map(element::BYTES, element::LIST, all)))
            }
            "describe_ring" | "describe_local_ring" => {
                Ok(Some(list_of(&wide.describe_ring(&f.need_text(1, "keyspace")?)?)))
            }
            "describe_token_map" => Ok(Some(super::convert::texts(&wide.describe_token_map()))),
            "describe_splits" | "describe_splits_ex" => {
                let family = f.need_text(1, "cfName")?;
                let (start, end) = (f.need_text(2, "start_token")?, f.need_text(3, "end_token")?);
                let each = f.int(4, "keys_per_split")?.unwrap_or(1);
                let splits = self.keyspace()?.describe_splits(&family, &start, &end, each)?;
                if method == "describe_splits" {
                    return Ok(Some(texts(splits)));
                }
                let part = |ends: &[String]| {
                    ThriftValue::Struct(vec![
                        (1, ThriftValue::text(ends[0].clone())),
                        (2, ThriftValue::text(ends[1].clone())),
                        (3, ThriftValue::I64(i64::from(each))),
                    ])
                };
                Ok(Some(ThriftValue::list(element::STRUCT, splits.windows(2).map(part))))
            }
            other => Err(ThriftFault::unknown(other)),
        }
    }

    fn define(&self, method: &str, f: ThriftFields<'_>) -> Answer {
        let wide = self.wide();
        let inside = |name: &str| Resource::Keyspace(name.to_owned());
        let version = match method {
            "system_add_keyspace" => {
                self.check(Permission::Create, &Resource::AllKeyspaces)?;
                wide.system_add_keyspace(&f.made::<KsDef>(1, "ks_def")?)?
            }
            "system_update_keyspace" => {
                let def: KsDef = f.made(1, "ks_def")?;
                self.check(Permission::Alter, &inside(&def.name))?;
                wide.system_update_keyspace(&def)?
            }
            "system_drop_keyspace" => {
                let name = f.need_text(1, "keyspace")?;
                self.check(Permission::Drop, &inside(&name))?;
                wide.system_drop_keyspace(&name)?
            }
            "system_add_column_family" => {
                let def: CfDef = f.made(1, "cf_def")?;
                self.check(Permission::Create, &inside(&def.keyspace))?;
                wide.system_add_column_family(&def)?
            }
            "system_update_column_family" => {
                let def: CfDef = f.made(1, "cf_def")?;
                let table = Resource::Table(def.keyspace.clone(), def.name.clone());
                self.check(Permission::Alter, &table)?;
                wide.system_update_column_family(&def)?
            }
            "system_drop_column_family" => {
                let name = f.need_text(1, "column_family")?;
                self.check(Permission::Drop, &self.family(&name)?)?;
                wide.system_drop_column_family(self.name()?, &name)?
            }
            other => return Err(ThriftFault::unknown(other)),
        };
        // Who listens is told before this is answered.
        self.session.engine().fresh_catalog()?;
        text(version.to_string())
    }

    fn statement(&self, f: ThriftFields<'_>) -> Result<String> {
        let query = f.need_bytes(1, "query")?;
        // 1 is GZIP by name, and zlib's form.
        let query = match f.int(2, "compression")? {
            Some(1) => miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&query, MOST_TEXT)
                .map_err(|_| invalid("Error deflating query string."))?,
            _ => query,
        };
        String::from_utf8(query).map_err(|_| invalid("Cannot decode query string as UTF8"))
    }

    fn cql(&mut self, method: &str, f: ThriftFields<'_>) -> Answer {
        let how = Run {
            keyspace: self.keyspace.as_deref().map(Into::into),
            batch_limits: Some(self.batch_limits),
            tombstone_limits: Some(self.tombstone_limits),
            ..Run::default()
        };
        match method {
            "prepare_cql3_query" => {
                let statement = self.statement(f)?;
                let prepared = self.session.prepare_in(how.keyspace.as_ref(), &statement)?;
                if self.prepared.len() >= MOST_PREPARED {
                    self.prepared.pop_first();
                }
                let id = self.next;
                self.next = self.next.wrapping_add(1);
                let markers = prepared.markers();
                let count = ThriftValue::I32(i32::try_from(markers.len()).unwrap_or(i32::MAX));
                let types = texts(markers.iter().map(|m| m.of.of.full_name()));
                let names = texts(markers.iter().map(|m| m.name.clone()));
                self.prepared.insert(id, prepared);
                Ok(Some(ThriftValue::Struct(vec![
                    (1, ThriftValue::I32(id)),
                    (2, count),
                    (3, types),
                    (4, names),
                ])))
            }
            "execute_prepared_cql3_query" => {
                let id = f.int(1, "itemId")?.unwrap_or_default();
                let prepared = self.prepared.get(&id).cloned();
                let unknown = || invalid(format!("Prepared query with ID {id} not found"));
                let values = f.bytes_list(2, "values")?.unwrap_or_default();
                let bound: Vec<Bound> = values.into_iter().map(Bound::Bytes).collect();
                let rows = self.session.run(&prepared.ok_or_else(unknown)?, bound, &how)?;
                Ok(Some(self.result(&rows)))
            }
            _ => {
                let statement = self.statement(f)?;
                let prepared = self.session.prepare_in(how.keyspace.as_ref(), &statement)?;
                let rows = self.session.run(&prepared, (), &how)?;
                Ok(Some(self.result(&rows)))
            }
        }
    }

    /// A result as the interface has it: `USE` counts for its other calls, too.
    fn result(&mut self, rows: &Rows) -> ThriftValue<'static> {
        if let Some((kind, partitions)) = rows.batch() {
            self.meter.batch(kind, partitions);
        }
        if let Kind::SetKeyspace(name) = rows.kind() {
            self.keyspace = Some(name.clone());
        }
        if *rows.kind() != Kind::Rows {
            return ThriftValue::Struct(vec![(1, ThriftValue::I32(2))]);
        }
        let columns = rows.columns();
        let of = |kind: &dyn Fn(usize) -> String| {
            let pair = |i: usize| {
                let name = columns[i].name.clone().into_bytes();
                (ThriftValue::bytes(name), ThriftValue::text(kind(i)))
            };
            ThriftValue::map(element::BYTES, element::BYTES, (0..columns.len()).map(pair))
        };
        let row = |row: firn_cql::Row<'_>| {
            let cell = |i: usize| {
                let mut fields =
                    vec![(1, ThriftValue::bytes(columns[i].name.clone().into_bytes()))];
                fields.extend(row.bytes(i).map(|b| (2, ThriftValue::bytes(b.to_vec()))));
                fields.push((3, ThriftValue::I64(-1)));
                ThriftValue::Struct(fields)
            };
            let cells = ThriftValue::list(element::STRUCT, (0..columns.len()).map(cell));
            ThriftValue::Struct(vec![(1, ThriftValue::bytes(vec![])), (2, cells)])
        };
        let schema = ThriftValue::Struct(vec![
            (1, of(&|_| "UTF8Type".to_owned())),
            (2, of(&|i| columns[i].of.of.full_name())),
            (3, ThriftValue::text("UTF8Type")),
            (4, ThriftValue::text("UTF8Type")),
        ]);
        let rows = ThriftValue::list(element::STRUCT, rows.iter().map(row));
        ThriftValue::Struct(vec![(1, ThriftValue::I32(1)), (2, rows), (4, schema)])
    }
}

/// A column of which only name and value count.
struct Expected {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl FromThrift for Expected {
    const NAME: &'static str = "Column";

    fn from_fields(f: ThriftFields<'_>) -> Result<Expected> {
        let value = f.bytes(2, "value")?;
        let value = value.ok_or_else(|| invalid("Column value is required"))?;
        Ok(Expected { name: f.need_bytes(1, "name")?, value })
    }
}
