//! Stored form of the schema: JSON records in the kv tree `system.schema`, written in the batch of
//! the change.
//!
//! - `schema/head`: `{"format":1,"next_id":n}`, the id of the next family or index;
//! - `schema/keyspace/<name>`: attributes of a keyspace;
//! - `schema/family/<id, 10 digits>`: definition of a family ([`CfDef`], classes in full) and the
//!   ids of its indexes by the hexadecimal name of their column; `"has_views":true` if CQL
//!   maintains materialized views of it. Ids from 2^31 on belong to compact tables of CQL, which
//!   have their own records too.
//!
//! Each record has its format version. Records are validated: one that cannot be parsed, violates
//! the rules or is inconsistent is [`Error::Corrupt`] with its key.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::def::{CfDef, ColumnDef, FOREIGN_IDS, KsDef};
use super::family::{self, Family, Numbers, SchemaContext};
use md5::{Digest, Md5};
use uuid::Uuid;

use super::state::{FIRST_ID, KeyspaceSchema, Schema};
use super::typing::{Registry, Type};
use super::{rules, typing};
use crate::base::error::{Error, Result};
use crate::types::{ForeignType, hex};

/// Prefix of the keys of all records.
pub const RECORD_PREFIX: &[u8] = b"schema/";
const HEAD: &str = "schema/head";
const KEYSPACE: &str = "schema/keyspace/";
const FAMILY: &str = "schema/family/";
/// Version of the records that this code writes and reads.
const FORMAT: u32 = 1;

#[derive(Deserialize)]
struct Versioned {
    format: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadRecord {
    format: u32,
    next_id: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyspaceRecord {
    format: u32,
    name: String,
    strategy_class: String,
    strategy_options: BTreeMap<String, String>,
    durable_writes: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyRecord {
    format: u32,
    id: u32,
    definition: CfDef,
    indexes: BTreeMap<String, u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_views: bool,
}

/// The ids in a record.
impl Numbers for &FamilyRecord {
    fn family(&mut self) -> Result<u32> {
        Ok(self.id)
    }

    fn index(&mut self, column: &[u8], _: &Type, _: &ColumnDef) -> Result<u32> {
        let column = hex(column);
        self.indexes
            .get(&column)
            .copied()
            .ok_or_else(|| Error::Corrupt(format!("the index on column {column} has no number")))
    }
}

/// A key and its record.
pub type SchemaRecord = (Vec<u8>, Vec<u8>);

/// Returns the head record of a schema.
pub fn head(schema: &Schema) -> SchemaRecord {
    record(HEAD.into(), &HeadRecord { format: FORMAT, next_id: schema.next_id })
}

/// Returns the record of a keyspace.
pub fn keyspace(keyspace: &KeyspaceSchema) -> SchemaRecord {
    let value = KeyspaceRecord {
        format: FORMAT,
        name: keyspace.name.clone(),
        strategy_class: keyspace.strategy_class.clone(),
        strategy_options: keyspace.strategy_options.clone(),
        durable_writes: keyspace.durable_writes,
    };
    record(format!("{KEYSPACE}{}", keyspace.name), &value)
}

/// Returns the record of a family.
pub fn family(family: &Family) -> SchemaRecord {
    let indexes = family.indexes().map(|(column, index)| (hex(column.name()), index.id)).collect();
    let value = FamilyRecord {
        format: FORMAT,
        id: family.id(),
        definition: family.def().clone(),
        indexes,
        has_views: family.has_views(),
    };
    record(family_key(family.id()), &value)
}

fn family_key(id: u32) -> String {
    format!("{FAMILY}{id:010}")
}

fn record(key: String, value: &impl Serialize) -> SchemaRecord {
    // Strings, integers, finite fractions and maps keyed by strings can always be encoded as JSON.
    (key.into_bytes(), serde_json::to_vec(value).unwrap_or_default())
}

fn corrupt(key: &str, what: impl std::fmt::Display) -> Error {
    Error::Corrupt(format!("system.schema, record {key}: {what}"))
}

fn read<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T> {
    let versioned: Versioned = serde_json::from_slice(value).map_err(|e| corrupt(key, e))?;
    if versioned.format != FORMAT {
        let format = versioned.format;
        return Err(corrupt(
            key,
            format_args!(
                "its format is {format}; this version of Firn reads {FORMAT}. Use the version that wrote it"
            ),
        ));
    }
    serde_json::from_slice(value).map_err(|e| corrupt(key, e))
}

/// Loads the schema in these records; no records mean an empty schema.
pub fn load<'a>(
    registry: Arc<Registry>,
    records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<Schema> {
    let mut schema = Schema::new(registry);
    let (mut head, mut families) = (None, Vec::new());
    let mut any = false;
    for (key, value) in records {
        any = true;
        let shown = String::from_utf8_lossy(key);
        if shown == HEAD {
            head = Some(read::<HeadRecord>(&shown, value)?);
        } else if let Some(name) = shown.strip_prefix(KEYSPACE) {
            add_keyspace(&mut schema, &shown, name, read(&shown, value)?)?;
        } else if shown.starts_with(FAMILY) {
            families.push(read::<FamilyRecord>(&shown, value)?);
            if families.last().is_some_and(|f| family_key(f.id) != shown) {
                return Err(corrupt(&shown, "it describes a family of another number"));
            }
        } else {
            return Err(corrupt(&shown, "no such record is known"));
        }
    }
    match head {
        Some(head) => schema.next_id = head.next_id,
        None if any => return Err(corrupt(HEAD, "it is missing")),
        None => {}
    }
    let mut ids = BTreeSet::new();
    for record in &families {
        add_family(&mut schema, record, &mut ids)?;
    }
    Ok(schema)
}

fn add_keyspace(schema: &mut Schema, key: &str, name: &str, record: KeyspaceRecord) -> Result<()> {
    if record.name != name {
        return Err(corrupt(key, format_args!("it describes the keyspace {:?}", record.name)));
    }
    let keyspace = KeyspaceSchema {
        name: record.name,
        strategy_class: record.strategy_class,
        strategy_options: record.strategy_options,
        durable_writes: record.durable_writes,
        families: BTreeMap::new(),
    };
    keyspace.check().map_err(|e| corrupt(key, e))?;
    rules::check_unique(&keyspace.name, schema.keyspaces().map(|k| k.name()))
        .map_err(|e| corrupt(key, e))?;
    schema.keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
    Ok(())
}

fn add_family(schema: &mut Schema, record: &FamilyRecord, ids: &mut BTreeSet<u32>) -> Result<()> {
    let key = family_key(record.id);
    let Some(keyspace) = schema.keyspaces.get_mut(&record.definition.keyspace) else {
        return Err(corrupt(
            &key,
            format_args!("its keyspace {:?} has no record", record.definition.keyspace),
        ));
    };
    if keyspace.families.contains_key(&record.definition.name) {
        return Err(corrupt(
            &key,
            format_args!("there are two families {:?}", record.definition.name),
        ));
    }
    let index_names = keyspace.index_names(&record.definition.name);
    let (registry, unregistered) = with_unknown_types(&record.definition, &schema.registry);
    let around = SchemaContext { registry: &registry, present: None, index_names, is_stored: true };
    let family =
        family::resolve(&record.definition, &around, &mut &*record).map_err(|e| match e {
            Error::Corrupt(what) => corrupt(&key, what),
            other => corrupt(&key, other),
        })?;
    let family = family.with_views(record.has_views).with_unregistered(unregistered);
    for id in std::iter::once(family.id()).chain(family.indexes().map(|(_, index)| index.id)) {
        let was_given = id < schema.next_id || family.is_table();
        if !was_given || !ids.insert(id) {
            return Err(corrupt(&key, format_args!("the number {id} was never given, or twice")));
        }
    }
    Arc::make_mut(keyspace).families.insert(family.name().to_owned(), Arc::new(family));
    Ok(())
}

/// Returns the types of a family as its definition names them.
fn classes(def: &CfDef) -> impl Iterator<Item = &String> {
    let own = [&def.comparator_type, &def.default_validation_class, &def.key_validation_class];
    own.into_iter()
        .chain(&def.subcomparator_type)
        .chain(def.column_metadata.iter().map(|c| &c.validation_class))
}

/// Returns the words of a class name that may be names of types.
fn words(class: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '$');
    // Aliases, properties and hexadecimal field names are on the left of a sign.
    let pieces = class.split(move |c| !is_part(c) && !matches!(c, '=' | '>' | ':'));
    let words = pieces.filter_map(|piece| piece.rsplit(['>', ':']).next());
    words.filter(move |word| !word.is_empty() && word.chars().all(is_part))
}

/// Returns a registry with all types that a stored family needs. Missing types are not corruption,
/// because the program may lack them. They are replaced by bytes in the order of their stored
/// forms; one of them is returned.
fn with_unknown_types<'r>(
    def: &CfDef,
    registry: &'r Arc<Registry>,
) -> (Cow<'r, Registry>, Option<String>) {
    let mut with = Cow::Borrowed(&**registry);
    let mut unknown = None;
    for class in classes(def) {
        if typing::lookup(class, &with).is_ok() {
            continue;
        }
        for word in words(class) {
            if !Registry::is_built_in(word) && with.get(word).is_none() {
                with.to_mut().register(Arc::new(ForeignType(word.to_owned())));
                unknown.get_or_insert_with(|| word.to_owned());
            }
        }
    }
    (with, unknown)
}

impl Schema {
    /// Returns the version: a digest of all records, equal for equal schemas.
    pub fn version(&self) -> Uuid {
        let mut digest = Md5::new();
        for (key, value) in self.records() {
            for part in [key, value] {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            }
        }
        uuid::Builder::from_md5_bytes(digest.finalize().into()).into_uuid()
    }

    /// Returns all records by key: the input of [`Schema::from_records`]. A schema in which nothing
    /// was ever defined has none.
    pub fn records(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.records_where(|_| true)
    }

    /// Returns all records except those of families shared with `other`. Encoding thousands of
    /// families at each change would be slow.
    pub(super) fn records_beside(&self, other: &Schema) -> Vec<SchemaRecord> {
        self.records_where(|of| {
            let there = other.keyspaces.get(of.keyspace()).and_then(|k| k.family(of.name()));
            !there.is_some_and(|there| Arc::ptr_eq(there, of))
        })
    }

    fn records_where(&self, wanted: impl Fn(&Arc<Family>) -> bool) -> Vec<SchemaRecord> {
        if self.keyspaces.is_empty() && self.next_id == FIRST_ID {
            return Vec::new();
        }
        let mut records = vec![head(self)];
        records.extend(self.keyspaces().map(|k| keyspace(k)));
        records.extend(self.families().filter(|f| wanted(f)).map(|f| family(f)));
        records.sort();
        records
    }

    /// Returns the names of all classes in the types of families, including built-in ones. A
    /// registry needs them for [`from_records`](Schema::from_records) of the same records.
    ///
    /// # Errors
    /// `Corrupt` with the key of a record that cannot be parsed.
    pub fn class_names<'a>(
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for (key, value) in records {
            let shown = String::from_utf8_lossy(key);
            if !shown.starts_with(FAMILY) {
                continue;
            }
            let record: FamilyRecord = read(&shown, value)?;
            names.extend(classes(&record.definition).flat_map(|c| words(c)).map(str::to_owned));
        }
        Ok(names)
    }

    /// Returns records that are missing for [`from_records`](Schema::from_records) to load these
    /// ones, for tools that repair stores:
    ///
    /// - the head, if it is missing, with a next id above those of all families and above
    ///   `largest`;
    /// - a new record of each keyspace without one that contains a family or is in `named`.
    ///
    /// A record that cannot be parsed is skipped.
    pub fn lacking<'a>(
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        mut named: BTreeSet<String>,
        largest: u32,
    ) -> Vec<SchemaRecord> {
        let (mut has_head, mut any, mut largest) = (false, false, largest);
        let mut there = BTreeSet::new();
        for (key, value) in records {
            any = true;
            let shown = String::from_utf8_lossy(key);
            if shown == HEAD {
                has_head = true;
            } else if let Some(name) = shown.strip_prefix(KEYSPACE) {
                there.insert(name.to_owned());
            } else if let Ok(family) = read::<FamilyRecord>(&shown, value) {
                let numbers = family.indexes.values().chain([&family.id]);
                largest = numbers.copied().filter(|n| *n < FOREIGN_IDS).fold(largest, u32::max);
                named.insert(family.definition.keyspace);
            }
        }
        let mut schema = Schema::new(Arc::default());
        for name in there.iter().chain(named.difference(&there)) {
            let KsDef { name, strategy_class, strategy_options, durable_writes, .. } =
                KsDef::new(name);
            let format = FORMAT;
            let new =
                KeyspaceRecord { format, name, strategy_class, strategy_options, durable_writes };
            // Skip invalid names, and names that differ from another one only in case: nothing
            // could be loaded with them.
            drop(add_keyspace(&mut schema, KEYSPACE, &new.name.clone(), new));
        }
        let added = schema.keyspaces().filter(|k| !there.contains(k.name()));
        let mut lacking: Vec<_> = added.map(|k| keyspace(k)).collect();
        if !has_head && (any || !lacking.is_empty() || largest >= FIRST_ID) {
            schema.next_id = largest + 1;
            lacking.push(head(&schema));
        }
        lacking
    }

    /// Loads the schema in these records, which are all those of the tree whose key begins with
    /// [`RECORD_PREFIX`].
    ///
    /// # Errors
    /// `Corrupt` with the key of a record that cannot be parsed or contradicts another one. A
    /// family with types missing in the registry is loaded, but [refuses](Family::check_registered)
    /// to be used.
    pub fn from_records<'a>(
        registry: Arc<Registry>,
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<Schema> {
        load(registry, records)
    }
}
