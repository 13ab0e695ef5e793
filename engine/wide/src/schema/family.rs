//! A column family with a validated definition, resolved types, and ids.
//!
//! Invariants: all attributes of [`CfDef`] are consistent (model 2.5, 2.8, 2.11, 6). Class names
//! are written in full. A column occurs once. Every index has a name and an id.

use std::collections::{BTreeMap, BTreeSet};

use super::def::{CfDef, ColumnDef, FOREIGN_IDS, IndexType};
use super::rules;
use super::typing::{self, Registry, Type};
use crate::base::error::{Error, Result, invalid};
use crate::types::Wording;

/// Structure of a family's rows, with the types that order them. CQL tables, with partition key,
/// clustering, static and regular columns, may become another kind.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FamilyKind {
    /// Columns.
    Standard {
        /// Type of their names.
        comparator: Type,
    },
    /// Super columns, which contain columns.
    Super {
        /// Type of the names of super columns.
        comparator: Type,
        /// Type of the names of the columns in them.
        subcomparator: Type,
    },
}

/// A defined column.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaColumn {
    name: Vec<u8>,
    validator: Type,
    index: Option<Index>,
}

impl SchemaColumn {
    /// Returns the name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the type of its values.
    pub fn validator(&self) -> &Type {
        &self.validator
    }

    /// Returns its index. Counters have none: as in 1.1.12, a definition of one is accepted and
    /// stored, but not used.
    pub fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }
}

/// An index on the values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Id, from the same sequence as those of families, never reused: the kv tree is `ix-<id>`.
    pub id: u32,
    /// Name, unique in the keyspace.
    pub name: String,
    /// Kind of the index.
    pub kind: IndexType,
    /// Options of the index.
    pub options: BTreeMap<String, String>,
}

/// A column family.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    id: u32,
    def: CfDef,
    kind: FamilyKind,
    default_validator: Type,
    key_validator: Type,
    columns: BTreeMap<Vec<u8>, SchemaColumn>,
    has_views: bool,
    /// A class in its types that this program does not have.
    unregistered: Option<String>,
}

impl Family {
    /// Returns this family with a class that is unknown here.
    pub(super) fn with_unregistered(self, unregistered: Option<String>) -> Family {
        Family { unregistered, ..self }
    }

    /// Refuses the use of a family with a type that this program does not have. Its definition and
    /// stored bytes can still be inspected.
    ///
    /// # Errors
    /// `Configuration` with the family, the class, and how to provide it.
    pub fn check_registered(&self) -> Result<()> {
        let Some(class) = &self.unregistered else { return Ok(()) };
        Err(Error::Configuration(format!(
            "column family {} of keyspace {} is of the type {class}, which is unknown here: open the store with the program that \
             registers it (types::Registry); other families can be used",
            self.name(),
            self.keyspace()
        )))
    }

    /// Returns this family with or without materialized views of its table.
    pub(super) fn with_views(self, has_views: bool) -> Family {
        Family { has_views, ..self }
    }

    /// Reports whether it has materialized views, which only CQL maintains. Only tables have them.
    pub fn has_views(&self) -> bool {
        self.has_views
    }

    /// Returns the id, which is never reused: the kv tree is `cf-<id>`.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Reports whether it is a compact table of CQL, which defines it.
    pub fn is_table(&self) -> bool {
        self.id >= FOREIGN_IDS
    }

    /// Returns the name of its keyspace.
    pub fn keyspace(&self) -> &str {
        &self.def.keyspace
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.def.name
    }

    /// Returns the structure of its rows.
    pub fn kind(&self) -> &FamilyKind {
        &self.kind
    }

    /// Reports whether its rows consist of super columns.
    pub fn is_super(&self) -> bool {
        matches!(self.kind, FamilyKind::Super { .. })
    }

    /// Returns the type of the names of its columns, or of its super columns.
    pub fn comparator(&self) -> &Type {
        match &self.kind {
            FamilyKind::Standard { comparator } | FamilyKind::Super { comparator, .. } => {
                comparator
            }
        }
    }

    /// Returns the type of the names in its super columns.
    pub fn subcomparator(&self) -> Option<&Type> {
        match &self.kind {
            FamilyKind::Standard { .. } => None,
            FamilyKind::Super { subcomparator, .. } => Some(subcomparator),
        }
    }

    /// Returns the type of the names of its cells: of columns, in super columns or not.
    pub fn cell_comparator(&self) -> &Type {
        self.subcomparator().unwrap_or(self.comparator())
    }

    /// Returns the type of its row keys.
    pub fn key_validator(&self) -> &Type {
        &self.key_validator
    }

    /// Returns the type of values of columns without a definition.
    pub fn default_validator(&self) -> &Type {
        &self.default_validator
    }

    /// Reports whether its columns are counters.
    pub fn is_counter(&self) -> bool {
        self.default_validator.is_counter()
    }

    /// Returns the seconds for which tombstones are retained; not negative.
    pub fn gc_grace(&self) -> i64 {
        i64::from(self.def.gc_grace_seconds)
    }

    /// Returns the TTL in seconds of columns written without one; `None` for none.
    pub fn default_ttl(&self) -> Option<u32> {
        u32::try_from(self.def.default_time_to_live).ok().filter(|ttl| *ttl > 0)
    }

    /// Returns the defined columns, in the byte order of their names.
    pub fn columns(&self) -> impl Iterator<Item = &SchemaColumn> {
        self.columns.values()
    }

    /// Returns the definition of the column with this name.
    pub fn column(&self, name: &[u8]) -> Option<&SchemaColumn> {
        if self.columns.is_empty() {
            return None;
        }
        self.columns
            .get(name)
            .or_else(|| self.columns.get(&typing::respelled(self.cell_comparator(), name)?))
    }

    /// Returns the type of the values of this column.
    pub fn validator(&self, name: &[u8]) -> &Type {
        self.column(name).map_or(&self.default_validator, SchemaColumn::validator)
    }

    /// Returns the columns that have an index.
    pub fn indexes(&self) -> impl Iterator<Item = (&SchemaColumn, &Index)> {
        self.columns.values().filter_map(|c| Some((c, c.index()?)))
    }

    /// Reports whether there is an index.
    pub fn has_indexes(&self) -> bool {
        self.indexes().next().is_some()
    }

    /// Returns the definition: class names in full, with the id and the names of indexes.
    pub fn def(&self) -> &CfDef {
        &self.def
    }
}

/// Assigns ids to families and indexes.
pub trait Numbers {
    /// Returns the id of the family itself.
    fn family(&mut self) -> Result<u32>;
    /// Returns the id of the index on `column`, for this type of values.
    fn index(&mut self, column: &[u8], validator: &Type, def: &ColumnDef) -> Result<u32>;
}

/// Context of a definition: available types, and existing families.
pub struct SchemaContext<'a> {
    /// Available types.
    pub registry: &'a Registry,
    /// Existing family with this name.
    pub present: Option<&'a Family>,
    /// Names of indexes of the other families in the keyspace.
    pub index_names: BTreeSet<&'a str>,
    /// Whether the definition comes from the store. Then all its indexes have names, which may be
    /// longer than names that clients may set.
    pub is_stored: bool,
}

/// Validates a definition and creates its family.
pub fn resolve(
    def: &CfDef,
    around: &SchemaContext<'_>,
    numbers: &mut dyn Numbers,
) -> Result<Family> {
    let mut def = def.clone();
    rules::check_attributes(&mut def)?;
    let kind = resolve_kind(&mut def, around.registry)?;
    let default_validator = parse_in_place(&mut def.default_validation_class, around.registry)?;
    let key_validator = parse_in_place(&mut def.key_validation_class, around.registry)?;
    let mut family = Family {
        id: 0,
        def,
        kind,
        default_validator,
        key_validator,
        columns: BTreeMap::new(),
        has_views: false,
        unregistered: None,
    };
    if family.key_validator.is_counter() {
        return Err(invalid("CounterColumnType is not a valid key validator"));
    }
    if family.is_counter() && family.default_ttl().is_some() {
        return Err(invalid("Cannot set default_time_to_live on a table with counters"));
    }
    let mut metadata = resolve_metadata(&mut family, around)?;
    default_index_names(&family, &mut metadata, around)?;
    check_columns(&family, &metadata, around)?;
    family.id = numbers.family()?;
    for (column, validator) in &metadata {
        let index = match (column.index_type, &column.index_name) {
            (Some(kind), Some(name)) if !validator.is_counter() => {
                let id = numbers.index(&column.name, validator, column)?;
                Some(Index { id, name: name.clone(), kind, options: column.index_options.clone() })
            }
            _ => None,
        };
        family.columns.insert(
            column.name.clone(),
            SchemaColumn { name: column.name.clone(), validator: validator.clone(), index },
        );
    }
    family.def.id = Some(family.id);
    family.def.column_metadata = metadata.into_iter().map(|(column, _)| column).collect();
    Ok(family)
}

fn parse_in_place(class: &mut String, registry: &Registry) -> Result<Type> {
    let parsed = typing::parse(class, registry)?;
    *class = parsed.full_name();
    Ok(parsed)
}

fn resolve_kind(def: &mut CfDef, registry: &Registry) -> Result<FamilyKind> {
    let comparator = parse_in_place(&mut def.comparator_type, registry)?;
    if comparator.is_counter() {
        return Err(invalid("CounterColumnType is not a valid comparator"));
    }
    match (&*def.column_type, &def.subcomparator_type) {
        ("Standard", None) => Ok(FamilyKind::Standard { comparator }),
        ("Standard", Some(given)) => {
            let given = typing::parse(given, registry)?.full_name();
            Err(invalid(format!(
                "Subcolumn comparator ({given}) is invalid for standard column family {}",
                def.name
            )))
        }
        ("Super", given) => {
            let subcomparator = typing::parse(given.as_deref().unwrap_or("BytesType"), registry)?;
            if subcomparator.is_counter() {
                return Err(invalid("CounterColumnType is not a valid sub-column comparator"));
            }
            def.subcomparator_type = Some(subcomparator.full_name());
            Ok(FamilyKind::Super { comparator, subcomparator })
        }
        (other, _) => Err(invalid(format!("Invalid column type {other}"))),
    }
}

/// Returns the columns with their types, each once and with its name in stored spelling, in the
/// order of the definition.
fn resolve_metadata(
    family: &mut Family,
    around: &SchemaContext<'_>,
) -> Result<Vec<(ColumnDef, Type)>> {
    let mut metadata: Vec<(ColumnDef, Type)> = Vec::new();
    let mut places: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for mut column in std::mem::take(&mut family.def.column_metadata) {
        let validator = parse_in_place(&mut column.validation_class, around.registry)?;
        rules::name_built_in_index(&mut column);
        typing::check_name(family.cell_comparator(), &column.name)?;
        if let Some(name) = typing::respelled(family.cell_comparator(), &column.name) {
            column.name = name;
        }
        match places.get(&column.name) {
            Some(&place) => metadata[place] = (column, validator),
            None => {
                places.insert(column.name.clone(), metadata.len());
                metadata.push((column, validator));
            }
        }
    }
    Ok(metadata)
}

/// Sets the names of unnamed indexes: the existing one, or `<family>_<column>_idx`. Named ones are
/// unchanged.
fn default_index_names(
    family: &Family,
    metadata: &mut [(ColumnDef, Type)],
    around: &SchemaContext<'_>,
) -> Result<()> {
    for (column, _) in metadata.iter_mut().filter(|(c, _)| c.index_type.is_some()) {
        let had = around.present.and_then(|f| {
            f.def.column_metadata.iter().find(|c| c.name == column.name)?.index_name.as_deref()
        });
        match (had, &column.index_name) {
            (Some(had), Some(given)) if had != given => {
                return Err(invalid(format!(
                    "Can't modify index name: was '{had}' changed to '{given}'."
                )));
            }
            (Some(had), _) => column.index_name = Some(had.to_owned()),
            (None, Some(given)) if given.len() > rules::MAX_NAME_LEN && !around.is_stored => {
                return Err(invalid(format!("Illegal index name {given}")));
            }
            (None, Some(_)) => {}
            (None, None) => {
                let mut name = format!(
                    "{}_{}_idx",
                    family.name(),
                    family.cell_comparator().to_text(&column.name, Wording::Cli)
                );
                name.retain(|c| c.is_ascii_alphanumeric() || c == '_');
                column.index_name = Some(name);
            }
        }
    }
    Ok(())
}

fn check_columns(
    family: &Family,
    metadata: &[(ColumnDef, Type)],
    around: &SchemaContext<'_>,
) -> Result<()> {
    let mut index_names = around.index_names.clone();
    for (column, validator) in metadata {
        if validator.is_counter() != family.is_counter() {
            let name = family.cell_comparator().to_text(&column.name, Wording::Cli);
            return Err(invalid(if family.is_counter() {
                format!("Cannot add a non counter column ({name}) in a counter column family")
            } else {
                format!("Cannot add a counter column ({name}) in a non counter column family")
            }));
        }
        if family.def.key_alias.as_ref() == Some(&column.name) {
            let alias = String::from_utf8_lossy(&column.name);
            return Err(invalid(format!("Cannot have key alias equals to a column name: {alias}")));
        }
        match (column.index_type, &column.index_name) {
            (None, None) => {}
            (None, Some(_)) => return Err(invalid("Index name cannot be set without index type")),
            (Some(kind), name) => {
                check_index(family, column, kind)?;
                let name = name.as_deref().unwrap_or_default();
                if !rules::is_word(name) {
                    return Err(invalid(format!("Illegal index name {name}")));
                }
                if !index_names.insert(name) {
                    return Err(invalid(format!("Duplicate index name {name}")));
                }
            }
        }
    }
    Ok(())
}

fn check_index(family: &Family, column: &ColumnDef, kind: IndexType) -> Result<()> {
    if family.is_super() {
        return Err(invalid("Secondary indexes are not supported on super column families"));
    }
    match (kind, column.index_options.get("class_name")) {
        (IndexType::Keys, _) => Ok(()),
        (IndexType::Custom, None) => Err(invalid("Required index option missing: class_name")),
        (IndexType::Custom, Some(class)) => {
            Err(invalid(format!("Unable to find custom indexer class '{class}'")))
        }
        (IndexType::Composites, _) => Err(invalid(
            "COMPOSITES indexes are on CQL tables only; KEYS is the index of a column family",
        )),
    }
}

/// Refuses changes that make it a different family: another kind of rows, another order of names,
/// or counters instead of columns or vice versa.
pub fn check_compatible(new: &Family, old: &Family) -> Result<()> {
    if std::mem::discriminant(&new.kind) != std::mem::discriminant(&old.kind)
        || new.is_counter() != old.is_counter()
    {
        return Err(invalid("types do not match."));
    }
    if !typing::is_compatible(new.comparator(), old.comparator()) {
        return Err(invalid("comparators do not match or are not compatible."));
    }
    match (new.subcomparator(), old.subcomparator()) {
        (Some(new), Some(old)) if !typing::is_compatible(new, old) => {
            Err(invalid("subcolumncomparators do not match or are note compatible."))
        }
        _ => Ok(()),
    }
}
