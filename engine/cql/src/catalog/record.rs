//! Stored form of the catalog: JSON records in the kv tree `system.schema`, which also has those of
//! the Thrift families.
//!
//! - `cql/head`: `{"format":1,"next_id":n}`, the id of the next table or index;
//! - `cql/table/<id, 10 digits>`: a table with its columns, dropped columns, indexes and options;
//! - `cql/type/<keyspace>/<name>`: a user-defined type;
//! - `cql/function/<keyspace>/<name>(<type>, …)`: a user-defined function;
//! - `cql/aggregate/<keyspace>/<name>(<type>, …)`: a user-defined aggregate;
//! - `cql/role/<name>`: a role, with the roles granted to it and its permissions.
//!
//! Keyspaces and column families have no records here: they are those of `firn-wide`. Types of
//! columns are stored as full class names, user types with their fields. Records are validated: one
//! that cannot be parsed or is inconsistent is reported as corruption, with its key.

mod functions;
mod gaps;
mod parts;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use gaps::RecordGaps;
use parts::{FORMAT, json, parse};

use super::{
    Catalog, ColumnKind, ColumnType, DroppedColumn, FIRST_ID, KeyspaceEntry, Resource, RoleEntry,
    TableColumn, TableIndex, TableOptions, TableSchema, TypeDef, ViewSchema,
};
use crate::error::{Result, corrupt};
use crate::syntax::ast::Permission;

/// Prefix of the keys of all records.
pub const RECORD_PREFIX: &[u8] = b"cql/";
const HEAD: &str = "cql/head";
const TABLE: &str = "cql/table/";
const TYPE: &str = "cql/type/";
const ROLE: &str = "cql/role/";
/// Prefix of the keys of the records of roles.
pub const ROLE_PREFIX: &[u8] = ROLE.as_bytes();

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogHeadRecord {
    format: u32,
    next_id: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TypeRecord {
    format: u32,
    fields: Vec<(String, ColumnType)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableRecord<'a> {
    format: u32,
    keyspace: String,
    name: String,
    uuid: String,
    compact: bool,
    next_column: u16,
    columns: Cow<'a, [TableColumn]>,
    dropped: Cow<'a, [DroppedColumn]>,
    indexes: Cow<'a, [TableIndex]>,
    options: Cow<'a, TableOptions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    view: Option<ViewSchema>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleRecord {
    format: u32,
    can_login: bool,
    is_superuser: bool,
    salted_hash: Option<String>,
    member_of: BTreeSet<String>,
    /// By the path of the resource.
    permissions: BTreeMap<String, Vec<String>>,
}

/// A schema change in the form in which the store applies it.
#[derive(Debug, Default)]
pub struct CatalogDiff {
    /// Records to write, or to delete.
    pub records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// New and changed tables, in their new form. Column families are opened and dropped by
    /// `firn-wide`.
    pub opened: Vec<Arc<TableSchema>>,
    /// Dropped tables.
    pub dropped: Vec<Arc<TableSchema>>,
}

impl TableSchema {
    fn record(&self) -> (Vec<u8>, Vec<u8>) {
        let record = TableRecord {
            format: FORMAT,
            keyspace: self.keyspace.clone(),
            name: self.name.clone(),
            uuid: self.uuid.to_string(),
            compact: self.compact,
            next_column: self.next_column,
            columns: (&self.columns[..]).into(),
            dropped: (&self.dropped[..]).into(),
            indexes: (&self.indexes[..]).into(),
            options: Cow::Borrowed(&self.options),
            view: self.view.clone(),
        };
        (table_key(self.id).into_bytes(), json(&record))
    }
}

impl RoleEntry {
    fn record(&self) -> (Vec<u8>, Vec<u8>) {
        let words = |all: &BTreeSet<Permission>| all.iter().map(|p| p.word().to_owned()).collect();
        let record = RoleRecord {
            format: FORMAT,
            can_login: self.can_login,
            is_superuser: self.is_superuser,
            salted_hash: self.salted_hash.clone(),
            member_of: self.member_of.clone(),
            permissions: self.permissions.iter().map(|(r, all)| (r.path(), words(all))).collect(),
        };
        (format!("{ROLE}{}", self.name).into_bytes(), json(&record))
    }
}

fn load_role(key: &str, name: &str, value: &[u8]) -> Result<RoleEntry> {
    let wrong = |what: &str| corrupt!("system.schema, record {key}: {what}");
    let record: RoleRecord = parse(key, value)?;
    let mut permissions = BTreeMap::new();
    for (path, words) in &record.permissions {
        let resource = Resource::of_path(path).ok_or_else(|| wrong("an unknown resource"))?;
        let known = |word: &String| Permission::ALL.into_iter().find(|p| p.word() == word);
        let all: Option<BTreeSet<Permission>> = words.iter().map(known).collect();
        permissions.insert(resource, all.ok_or_else(|| wrong("an unknown permission"))?);
    }
    Ok(RoleEntry {
        name: name.to_owned(),
        id: RoleEntry::next_id(),
        can_login: record.can_login,
        is_superuser: record.is_superuser,
        salted_hash: record.salted_hash,
        member_of: record.member_of,
        permissions,
    })
}

fn table_key(id: u32) -> String {
    format!("{TABLE}{id:010}")
}

fn load_table(key: &str, id: u32, value: &[u8]) -> Result<TableSchema> {
    let wrong = |what: &str| corrupt!("system.schema, record {key}: {what}");
    let record: TableRecord<'_> = parse(key, value)?;
    let columns = record.columns.into_owned();

    let of_kind = |kind| columns.iter().filter(|c| c.kind == kind).count();
    let (partition, clustering) = (of_kind(ColumnKind::Partition), of_kind(ColumnKind::Clustering));
    let names: BTreeSet<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    let ids: BTreeSet<u16> = columns.iter().filter(|c| !c.is_primary_key()).map(|c| c.id).collect();
    if partition == 0
        || names.len() != columns.len()
        || ids.len() + partition + clustering != columns.len()
    {
        return Err(wrong("columns that don't fit together"));
    }
    if ids.iter().any(|i| *i == 0 || *i >= record.next_column) {
        return Err(wrong("a column with a number that wasn't given"));
    }
    let indexes = record.indexes.into_owned();

    if indexes.iter().any(|i| !columns.iter().any(|c| c.name == i.column)) {
        return Err(wrong("an index on a column that isn't there"));
    }
    let mut table = TableSchema {
        id,
        uuid: record.uuid.parse().map_err(|_| wrong("no uuid"))?,
        keyspace: record.keyspace,
        name: record.name,
        options: record.options.into_owned(),
        compact: record.compact,
        columns,
        partition,
        clustering,
        next_column: record.next_column,
        dropped: record.dropped.into_owned(),
        indexes,
        view: record.view,
        family: None,
        form: None,
    };
    table.arrange();
    Ok(table)
}

/// Definitions loaded from records.
#[derive(Debug)]
pub struct LoadedCatalog {
    /// Definitions in existing keyspaces.
    pub catalog: Catalog,
    /// Records of tables and types in other keyspaces.
    pub orphans: Vec<OrphanedTable>,
}

/// Record of a table or type whose keyspace does not exist, or was dropped and created again.
#[derive(Debug, PartialEq, Eq)]
pub struct OrphanedTable {
    /// Key of the record.
    pub key: Vec<u8>,
    /// Keyspace that it names.
    pub keyspace: String,
    /// Id of the table; `None` for a type.
    pub table: Option<u32>,
}

impl Catalog {
    /// Returns the definitions in these records, over these keyspaces. Records of `recreated`
    /// keyspaces belong to earlier keyspaces of these names, and are orphaned.
    ///
    /// # Errors
    /// `Server` with the key of a record that cannot be read or contradicts another one.
    pub fn load<'a>(
        keyspaces: impl IntoIterator<Item = KeyspaceEntry>,
        recreated: &BTreeSet<String>,
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<LoadedCatalog> {
        let mut all: BTreeMap<String, KeyspaceEntry> =
            keyspaces.into_iter().map(|k| (k.name.clone(), k)).collect();
        let is_same = |name: &str| !recreated.contains(name);
        let mut roles = BTreeMap::new();
        let mut next_id = FIRST_ID;
        let mut largest = 0;
        let mut orphans = vec![];
        for (raw, value) in records {
            let key = String::from_utf8_lossy(raw).into_owned();
            let left_out = |keyspace: &str, table| OrphanedTable {
                key: raw.to_vec(),
                keyspace: keyspace.to_owned(),
                table,
            };
            let wrong = |what: &str| corrupt!("system.schema, record {key}: {what}");
            if key == HEAD {
                next_id = parse::<CatalogHeadRecord>(&key, value)?.next_id;
            } else if let Some(id) = key.strip_prefix(TABLE) {
                let id = id.parse().map_err(|_| wrong("no number"))?;
                if table_key(id) != key {
                    return Err(wrong("its number is not written as it should be"));
                }
                let table = load_table(&key, id, value)?;
                largest = table
                    .indexes
                    .iter()
                    .map(|i| i.id)
                    .chain([table.id, largest])
                    .max()
                    .unwrap_or(largest);
                let Some(keyspace) = all.get_mut(&table.keyspace).filter(|k| is_same(&k.name))
                else {
                    orphans.push(left_out(&table.keyspace, Some(table.id)));
                    continue;
                };
                let before = keyspace.tables.insert(table.name.clone(), Arc::new(table));
                if before.is_some_and(|t| t.family().is_none()) {
                    return Err(wrong("another table has the same name"));
                }
            } else if let Some((keyspace, name)) =
                key.strip_prefix(TYPE).and_then(|k| k.split_once('/'))
            {
                let record: TypeRecord = parse(&key, value)?;
                let def = TypeDef { name: name.to_owned(), fields: record.fields };
                match all.get_mut(keyspace).filter(|k| is_same(&k.name)) {
                    Some(keyspace) => drop(keyspace.types.insert(name.to_owned(), Arc::new(def))),
                    None => orphans.push(left_out(keyspace, None)),
                }
            } else if let Some(found) = functions::load(&key, value)? {
                match all.get_mut(found.keyspace()).filter(|k| is_same(&k.name)) {
                    Some(keyspace) => found.put(keyspace),
                    None => orphans.push(left_out(found.keyspace(), None)),
                }
            } else if let Some(name) = key.strip_prefix(ROLE) {
                roles.insert(name.to_owned(), Arc::new(load_role(&key, name, value)?));
            } else {
                return Err(wrong("unknown kind of record"));
            }
        }
        all.values().try_for_each(functions::check)?;
        if next_id < FIRST_ID || largest >= next_id {
            return Err(corrupt!(
                "system.schema, record {HEAD}: number {largest} was given, the next is {next_id}"
            ));
        }
        let keyspaces = all.into_iter().map(|(name, k)| (name, Arc::new(k))).collect();
        let catalog = Catalog { keyspaces, roles, next_id, version: 0 };
        Ok(LoadedCatalog { catalog, orphans })
    }

    /// Like [`load`](Catalog::load), for each table separately, so that one damaged record does not
    /// affect the others.
    ///
    /// # Errors
    /// Those of `load`, for each table.
    pub fn load_each(
        keyspaces: &[KeyspaceEntry],
        records: &[(Vec<u8>, Vec<u8>)],
    ) -> impl Iterator<Item = Result<Arc<TableSchema>>> {
        let is_table = |key: &[u8]| key.starts_with(TABLE.as_bytes());
        let of_cql = || records.iter().filter(|(key, _)| key.starts_with(RECORD_PREFIX));
        of_cql().filter(move |(key, _)| is_table(key)).filter_map(move |(key, _)| {
            let with_it = of_cql().filter(|(k, _)| !is_table(k) || k == key);
            let with_it = with_it.map(|(k, v)| (&**k, &**v));
            let loaded = Catalog::load(keyspaces.iter().cloned(), &BTreeSet::new(), with_it);
            loaded.map(|l| l.catalog.own_tables().next().cloned()).transpose()
        })
    }

    /// Returns all records by key.
    pub fn records(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.records_where(|_| true)
    }

    /// Returns all records except those of tables shared with `other`. Encoding thousands of tables
    /// at each change would be slow.
    fn records_beside(&self, other: &Catalog) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.records_where(|of| {
            let there = other.keyspace(&of.keyspace).and_then(|k| k.table(&of.name));
            !there.is_some_and(|there| Arc::ptr_eq(there, of))
        })
    }

    fn records_where(
        &self,
        wanted: impl Fn(&Arc<TableSchema>) -> bool,
    ) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let tables = self.own_tables().filter(|t| wanted(t));
        let mut records: BTreeMap<_, _> = tables.map(|t| t.record()).collect();
        for keyspace in self.keyspaces() {
            for def in keyspace.types() {
                let fields = def.fields.clone();
                let key = format!("{TYPE}{}/{}", keyspace.name, def.name);
                records.insert(key.into_bytes(), json(&TypeRecord { format: FORMAT, fields }));
            }
        }
        records.extend(self.keyspaces().flat_map(|k| functions::records(k)));
        records.extend(self.roles().map(|r| r.record()));
        let head = CatalogHeadRecord { format: FORMAT, next_id: self.next_id };
        records.insert(HEAD.as_bytes().to_vec(), json(&head));
        records
    }

    /// Returns the changes that turn these definitions into `newer`.
    pub fn diff(&self, newer: &Catalog) -> CatalogDiff {
        let (old, new) = (self.records_beside(newer), newer.records_beside(self));
        let gone = old.keys().filter(|k| !new.contains_key(*k)).map(|k| (k.clone(), None));
        let changed = new
            .iter()
            .filter(|(k, v)| old.get(*k) != Some(v))
            .map(|(k, v)| (k.clone(), Some(v.clone())));
        let before: BTreeMap<u32, &Arc<TableSchema>> =
            self.own_tables().map(|t| (t.id, t)).collect();
        let after: BTreeSet<u32> = newer.own_tables().map(|t| t.id).collect();
        let is_same = |b: &&Arc<TableSchema>, t: &Arc<TableSchema>| Arc::ptr_eq(b, t) || *b == t;
        let opened = newer
            .own_tables()
            .filter(|t| before.get(&t.id).is_none_or(|b| !is_same(b, t)))
            .cloned();
        CatalogDiff {
            records: gone.chain(changed).collect(),
            opened: opened.collect(),
            dropped: before
                .into_iter()
                .filter(|(id, _)| !after.contains(id))
                .map(|(_, t)| t.clone())
                .collect(),
        }
    }
}

/// Returns a new uuid for a table: version 4 from these random bits.
pub(super) fn table_uuid(bits: u128) -> Uuid {
    uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
}
