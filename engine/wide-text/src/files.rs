//! Interprets a store's files for tools: the column family of a tree, and the meaning of an entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_wide::internals::api::PARTITIONER;
use firn_wide::internals::cell::{CellState, StoredCell};
use firn_wide::internals::key::{
    AFTER, BEFORE, DELETION, END, KeyNameList, KeyPlace, Layout, RANGES, ROWS, STATIC,
};
use firn_wide::internals::schema::{Family, RECORD_PREFIX, Schema, register_scripts};
use firn_wide::internals::store::{Body, TreeName};
use firn_wide::internals::types::{NEXT, NULL};
use firn_wide::{Error, Partitioner, Registry, Result, Type};

use crate::text;

/// A column family with the layout of its keys.
#[derive(Clone, Debug)]
pub struct DescribedFile {
    /// Its definition.
    pub def: Arc<Family>,
    /// Its layout.
    pub layout: Layout,
}

/// The column families of a store, as far as their records can be read.
#[derive(Clone, Debug, Default)]
pub struct FileCatalog {
    families: BTreeMap<u32, DescribedFile>,
    partitioner: Option<Partitioner>,
    problems: Vec<String>,
}

impl FileCatalog {
    /// Reads the records of the tree `system.schema`. Omits a column family if its record cannot be
    /// read, or if `registry` lacks its types.
    pub fn read(records: &[(Vec<u8>, Vec<u8>)], registry: &Arc<Registry>) -> FileCatalog {
        let mut catalog = FileCatalog::default();
        let written =
            records.iter().find(|(k, _)| k == PARTITIONER).map(|(_, v)| String::from_utf8_lossy(v));
        let partitioner = match written.as_deref().map(Partitioner::parse) {
            Some(Ok(p)) => p,
            Some(Err(e)) => {
                catalog.problems.push(e.to_string());
                return catalog;
            }
            None => return catalog,
        };
        catalog.partitioner = Some(partitioner);
        // Values are read without running the scripts of their types.
        let mut with_scripts = Registry::clone(registry);
        let all = records.iter().map(|(k, v)| (&**k, &**v));
        if let Err(e) = register_scripts(&mut with_scripts, all, &[]) {
            catalog.problems.push(e.to_string());
        }
        let registry = &Arc::new(with_scripts);
        let is_family = |k: &[u8]| k.starts_with(b"schema/family/");
        let schema: Vec<_> = records.iter().filter(|(k, _)| k.starts_with(RECORD_PREFIX)).collect();
        // One by one, so that an unreadable record does not affect the others.
        for (key, _) in schema.iter().filter(|(k, _)| is_family(k)) {
            let with_it = schema.iter().filter(|(k, _)| !is_family(k) || k == key);
            match Schema::from_records(registry.clone(), with_it.map(|(k, v)| (&**k, &**v))) {
                Ok(schema) => {
                    for def in schema.families() {
                        if let Err(e) = def.check_registered() {
                            catalog.problems.push(e.to_string());
                            continue;
                        }
                        catalog.families.insert(
                            def.id(),
                            DescribedFile { def: def.clone(), layout: layout(def, partitioner) },
                        );
                    }
                }
                Err(e) => catalog.problems.push(e.to_string()),
            }
        }
        catalog
    }

    /// Returns the column family of a tree with this name; `None` for other trees.
    pub fn of_tree(&self, name: &str) -> Option<&DescribedFile> {
        let Some(TreeName::Family(id)) = TreeName::parse(name) else { return None };
        self.families.get(&id)
    }

    /// Returns the column families.
    pub fn families(&self) -> impl Iterator<Item = &DescribedFile> {
        self.families.values()
    }

    /// Returns the partitioner; `None` if no record names it.
    pub fn partitioner(&self) -> Option<Partitioner> {
        self.partitioner
    }

    /// Returns the records that could not be read, with reasons.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

fn layout(def: &Family, partitioner: Partitioner) -> Layout {
    match def.subcomparator() {
        None => Layout::standard(partitioner, def.comparator().clone()),
        Some(sub) => Layout::super_columns(partitioner, def.comparator().clone(), sub.clone()),
    }
}

/// An entry of a column family's tree.
#[derive(Clone, Debug)]
pub struct FileEntry<'a> {
    /// The partition part of its key.
    pub partition: &'a [u8],
    /// The key of the partition.
    pub key: Vec<u8>,
    /// Its position in the partition.
    pub place: KeyPlace<'a>,
    /// Its contents.
    pub body: Body<'a>,
}

/// Decodes an entry of a column family's tree.
///
/// # Errors
/// `Corrupt` for an invalid entry.
pub fn read_entry<'a>(layout: &Layout, key: &'a [u8], value: &'a [u8]) -> Result<FileEntry<'a>> {
    let (partition, at, mut place) = split(layout, key)?;
    let stored = StoredCell::decode(value)?;
    let misplaced = || {
        Error::Corrupt(format!(
            "a cell or deletion is in an impossible place, at the key \"{}\"",
            key.escape_ascii()
        ))
    };
    let body = match (at, stored) {
        (FileAt::Partition, StoredCell::Deletion(d)) => Body::PartitionDeletion(d),
        (FileAt::Row, StoredCell::Deletion(d)) => Body::RowDeletion(d),
        (FileAt::Cell, StoredCell::Cell(c)) => Body::Cell(c),
        (FileAt::Cell, StoredCell::Deletion(d)) if place.path == Some(&[DELETION]) => {
            place.path = None;
            Body::ComplexDeletion(d)
        }
        (FileAt::Range(start), StoredCell::Range(deletion, end)) => {
            Body::RangeDeletion { start, end, deletion }
        }
        _ => return Err(misplaced()),
    };
    let mut raw = vec![];
    layout.key_of(partition, &mut raw)?;
    Ok(FileEntry { partition, key: raw, place, body })
}

enum FileAt<'a> {
    Partition,
    /// The start bound.
    Range(&'a [u8]),
    Row,
    Cell,
}

/// Splits a key. In the deletion of a complex column, the path is the marker byte.
fn split<'a>(layout: &Layout, key: &'a [u8]) -> Result<(&'a [u8], FileAt<'a>, KeyPlace<'a>)> {
    let (partition, at) = key.split_at(layout.partition_len(key)?);
    let mut place = KeyPlace { is_static: false, row: &[], name: &[], path: None };
    let row = match at.first() {
        Some(&DELETION) if at.len() == 1 => return Ok((partition, FileAt::Partition, place)),
        Some(&RANGES) => return Ok((partition, FileAt::Range(&at[1..]), place)),
        Some(&STATIC) => 1,
        _ => layout.row_len(at)?,
    };
    place.is_static = at.first() == Some(&STATIC);
    place.row = if place.is_static { &[] } else { &at[1..row - 1] };
    let rest = &at[row..];
    if rest == [DELETION] {
        return Ok((partition, FileAt::Row, place));
    }
    let name = layout.name_len(rest)?;
    place.name = &rest[..name];
    place.path = match &rest[name + 1..] {
        [] => None,
        [DELETION] => Some(&[DELETION]),
        path => path.split_last().map(|(_, path)| path),
    };
    Ok((partition, FileAt::Cell, place))
}

/// An entry as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypedText {
    /// Row key.
    pub key: String,
    /// Super column, if the entry is in one.
    pub super_column: Option<String>,
    /// Column, unless it is a deletion.
    pub column: Option<String>,
    /// The timestamp.
    pub timestamp: i64,
    /// TTL, and its expiration in seconds.
    pub ttl: Option<(u32, i64)>,
    /// Time of a deletion or tombstone in seconds.
    pub deleted: Option<i64>,
    /// Value; for a counter, its number or increment.
    pub value: Option<String>,
    /// Type of the entry: `column`, `counter`, `tombstone`, `row deletion`, `super column
    /// deletion`, `range deletion`.
    pub what: &'static str,
}

impl DescribedFile {
    /// Formats an entry of the column family's tree.
    ///
    /// # Errors
    /// `Corrupt` for an invalid entry.
    pub fn typed(&self, key: &[u8], value: &[u8]) -> Result<TypedText> {
        let entry = read_entry(&self.layout, key, value)?;
        let mut typed = self.place(&entry.key, &entry.place)?;
        match entry.body {
            Body::Cell(c) => {
                typed.timestamp = c.timestamp;
                let mut name = vec![];
                self.layout.name_of(entry.place.name, &mut name)?;
                let shown = |v| Some(text::show(self.def.validator(&name), v).text.into_owned());
                (typed.what, typed.value) = match c.state {
                    CellState::Live(v) => ("column", shown(v)),
                    CellState::Expiring { value, ttl, expires } => {
                        typed.ttl = Some((ttl, expires));
                        ("column", shown(value))
                    }
                    CellState::Tombstone { deleted } => {
                        typed.deleted = Some(deleted);
                        ("tombstone", None)
                    }
                    CellState::Counter(n) => ("counter", Some(n.to_string())),
                };
            }
            Body::PartitionDeletion(d) | Body::RowDeletion(d) | Body::ComplexDeletion(d) => {
                (typed.timestamp, typed.deleted) = (d.timestamp, Some(d.local));
                let in_row =
                    matches!(entry.body, Body::RowDeletion(_)) && typed.super_column.is_some();
                typed.what = if in_row { "super column deletion" } else { "row deletion" };
            }
            Body::RangeDeletion { start, end, deletion } => {
                (typed.timestamp, typed.deleted) = (deletion.timestamp, Some(deletion.local));
                let show =
                    |b| bound(&self.layout, b).map(|b| b.words()).unwrap_or_else(|| "?".into());
                typed.super_column = Some(format!("{} to {}", show(start), show(end)));
                typed.what = "range deletion";
            }
        }
        Ok(typed)
    }

    /// Formats a key of the column family's tree; `None` if it is invalid.
    pub fn key_words(&self, key: &[u8]) -> Option<String> {
        let (partition, _, place) = split(&self.layout, key).ok()?;
        let mut raw = vec![];
        self.layout.key_of(partition, &mut raw).ok()?;
        let typed = self.place(&raw, &place).ok()?;
        Some(
            [Some(typed.key), typed.super_column, typed.column]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" / "),
        )
    }

    fn place(&self, key: &[u8], place: &KeyPlace<'_>) -> Result<TypedText> {
        let mut typed = TypedText {
            key: text::show_name(self.def.key_validator(), key).into_owned(),
            ..TypedText::default()
        };
        let mut parts = vec![];
        if !place.row.is_empty() {
            self.layout.clustering_of(place.row, &mut parts)?;
            let shown = parts
                .iter()
                .zip(self.layout.clustering())
                .map(|(raw, of)| text::show_name(of, raw));
            typed.super_column = Some(shown.collect::<Vec<_>>().join(":"));
        }
        if !place.name.is_empty() {
            let mut name = vec![];
            self.layout.name_of(place.name, &mut name)?;
            typed.column = Some(text::show_name(self.def.cell_comparator(), &name).into_owned());
        }
        Ok(typed)
    }

    /// Returns the key in the column family's tree of a row deletion, a super column deletion or a
    /// column, named as in [`TypedText`].
    ///
    /// # Errors
    /// `InvalidRequest` for a text that is invalid for its type, or a column of a Super family
    /// without its super column.
    pub fn tree_key(
        &self,
        key: &str,
        super_column: Option<&str>,
        column: Option<&str>,
    ) -> Result<Vec<u8>> {
        let times = &mut text::Ticks(0);
        let mut read = |of: &Type, written: &str| -> Result<Vec<u8>> {
            let mut out = vec![];
            text::read(of, written, times, &mut out)?;
            Ok(out)
        };
        let mut out = vec![];
        self.layout.put_partition(&read(self.def.key_validator(), key)?, &mut out)?;
        let row = super_column.map(|s| read(self.def.comparator(), s)).transpose()?;
        if row.is_some() != self.def.is_super() && (row.is_some() || column.is_some()) {
            let name = self.def.name();
            return Err(firn_wide::internals::base::error::invalid(if row.is_some() {
                format!("{name} is a Standard family: it has no super columns")
            } else {
                format!("{name} is a Super family: name the super column too")
            }));
        }
        let row = row.as_deref();
        match (column, row) {
            (Some(column), _) => self.layout.put_cell(
                row.as_slice(),
                &read(self.def.cell_comparator(), column)?,
                &mut out,
            )?,
            (None, Some(_)) => {
                self.layout.put_row(row.as_slice(), &mut out)?;
                out.push(DELETION);
            }
            (None, None) => out.push(DELETION),
        }
        Ok(out)
    }
}

/// The section after all rows.
const AFTER_ROWS: u8 = ROWS + 1;

/// A bound of a range deletion.
pub(super) struct BoundText {
    /// Its components.
    pub parts: Vec<String>,
    /// Whether it is after everything with this prefix.
    pub after: bool,
}

impl BoundText {
    fn words(&self) -> String {
        format!("{} {}", if self.after { "after" } else { "before" }, self.parts.join(":"))
    }
}

/// Decodes a bound between rows, or between the cells of a column family; `None` if it is invalid.
pub(super) fn bound(layout: &Layout, place: &[u8]) -> Option<BoundText> {
    // A range without a bound on one side has only the rows section there.
    if let [ROWS | AFTER_ROWS] = place {
        return Some(BoundText { parts: vec![], after: place == [AFTER_ROWS] });
    }
    let mut rest = place.strip_prefix(&[ROWS])?;
    let mut parts = vec![];
    put_parts(layout.clustering(), &mut rest, &mut parts)?;
    if let (KeyNameList::Typed(of), [END, in_row @ ..]) = (layout.names(), rest) {
        rest = in_row;
        match (of, rest) {
            // A prefix of a composite name.
            (Type::Composite(types), [NEXT, components @ ..]) => {
                rest = components;
                put_parts(types, &mut rest, &mut parts)?;
                // A name with the byte that ends it.
                if let [BEFORE | END | AFTER, side @ (BEFORE | AFTER)] = rest {
                    return Some(BoundText { parts, after: *side == AFTER });
                }
            }
            _ => put_parts(std::slice::from_ref(of), &mut rest, &mut parts)?,
        }
    }
    match rest {
        [BEFORE] => Some(BoundText { parts, after: false }),
        [AFTER] => Some(BoundText { parts, after: true }),
        _ => None,
    }
}

/// Reads the components that are present, at most one for each type.
fn put_parts(types: &[Type], rest: &mut &[u8], parts: &mut Vec<String>) -> Option<()> {
    for of in types {
        if !rest.first().is_some_and(|&b| b == NEXT || (NULL..=NEXT + 1).contains(&b)) {
            break;
        }
        let mut raw = vec![];
        of.take_component(rest, &mut raw).ok()?;
        parts.push(text::show_name(of, &raw).into_owned());
    }
    Some(())
}
