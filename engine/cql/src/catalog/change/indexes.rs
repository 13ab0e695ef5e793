//! Indexes: valid targets, and names.

use std::collections::BTreeMap;

use firn_wide::Type;

use crate::catalog::{
    Catalog, ColumnKind, IndexClass, IndexTarget, KeyspaceEntry, MAX_NAME, MAX_TABLE_NAME,
    TableColumn, TableIndex, TableSchema, has_duration, is_valid_name,
};
use crate::error::{Result, bail, bail_if, invalid, skip_if};
use crate::syntax::ast::{CreateIndex, Drop, IndexPartText, PropertyValue, QualifiedName};

impl Catalog {
    /// Executes `CREATE INDEX` in this keyspace.
    ///
    /// # Errors
    /// `Invalid` if the target cannot be indexed.
    pub fn create_index(
        &self,
        statement: &CreateIndex<'_>,
        keyspace: &str,
    ) -> Result<Option<Catalog>> {
        let Some(found) = self.find_table(keyspace, &statement.table.name.text, false)? else {
            return Ok(None);
        };
        found.check_own()?;
        let home = self.existing(keyspace)?;
        if let Some(name) = &statement.name
            && home.index(&name.text).is_some()
        {
            return skip_if(statement.if_not_exists, || {
                invalid!("Index '{}' already exists", name.text)
            });
        }
        bail_if!(found.is_counter(), "Secondary indexes on counter tables aren't supported");
        if found.view().is_some() {
            bail!("Secondary indexes on materialized views aren't supported");
        }
        let [target] = &statement.targets[..] else {
            let names: Vec<_> = statement.targets.iter().map(|t| &*t.column.text).collect();
            let class = statement.class.as_deref().and_then(IndexClass::named);
            return Err(match class {
                Some(IndexClass::StorageAttached) => invalid!(
                    "A storage-attached index cannot be created over multiple columns: {}",
                    names.join(", ")
                ),
                _ => invalid("Only CUSTOM indexes support multiple columns"),
            });
        };
        let column = found.known_column(&target.column.text)?;
        if statement.custom || statement.class.is_some() {
            check_file_name(&column.name)?;
        }
        let what = index_target(found, column, target.part)?;
        let name = match &statement.name {
            Some(name) if !is_valid_name(&name.text, MAX_TABLE_NAME) => {
                bail!("Index name {} is not valid", name.text);
            }
            Some(name) => name.text.to_string(),
            None => free_index_name(home, &found.name, &column.name),
        };
        let options = statement.properties.iter().filter_map(|p| match &p.value {
            PropertyValue::Map(pairs) => {
                Some(pairs.iter().map(|(k, v)| (k.text.to_string(), v.text.to_string())))
            }
            _ => None,
        });
        let options: BTreeMap<String, String> = options.flatten().collect();
        if !statement.custom && statement.class.is_none() && !options.is_empty() {
            bail!("Cannot specify options for a non-CUSTOM index");
        }
        bail_if!(options.contains_key("target"), "Cannot specify target as a CUSTOM option");
        let class = IndexClass::checked(statement.custom, statement.class.as_deref())?;
        let mut next = self.clone();
        let mut table = (**found).clone();
        let column_name = column.name.clone();
        let made = TableIndex {
            id: next.new_id()?,
            name,
            column: column_name,
            target: what,
            class,
            options,
        };
        let same = |i: &&TableIndex| (&i.column, i.target) == (&made.column, made.target);
        for other in found.indexes().iter().filter(same) {
            if (&other.class, &other.options) == (&made.class, &made.options) {
                return skip_if(statement.if_not_exists, || {
                    invalid!("Index {} is a duplicate of existing index {}", made.name, other.name)
                });
            }
            bail_if!(
                found.compact,
                "Cannot create more than one index on the same column of a COMPACT STORAGE table: {}",
                made.column
            );
            bail_if!(
                [other, &made].iter().all(|i| i.answers_as() == IndexClass::StorageAttached),
                "Cannot create more than one storage-attached index on the same column: {}",
                made.column
            );
        }
        made.check_options(column)?;
        table.indexes.push(made);
        Ok(Some(next.with_table(table)?))
    }

    /// Executes `DROP INDEX` in this keyspace.
    ///
    /// # Errors
    /// `Invalid` if it does not exist.
    pub fn drop_index(
        &self,
        statement: &Drop<QualifiedName<'_>>,
        keyspace: &str,
    ) -> Result<Option<Catalog>> {
        let name = &*statement.name.name.text;
        super::super::check_not_system(keyspace)?;
        let Some((table, index)) = self.keyspace(keyspace).and_then(|k| k.index(name)) else {
            return skip_if(statement.if_exists, || {
                invalid!("Index '{keyspace}.{name}' doesn't exist'")
            });
        };
        table.check_own()?;
        let mut changed = (**table).clone();
        changed.indexes.retain(|i| i.id != index.id);
        Ok(Some(self.with_table(changed)?))
    }
}

/// Refuses column names that are not valid in file names, because Cassandra names index files by
/// columns.
fn check_file_name(column: &str) -> Result<()> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    bail_if!(
        column.chars().count() > MAX_NAME,
        "Column '{column}' is longer than the permissible name length of {MAX_NAME} characters"
    );
    match column.chars().all(is_word) {
        true => Ok(()),
        false => Err(invalid!("Column '{column}' contains non-alphanumeric-underscore characters")),
    }
}

fn index_target(
    table: &TableSchema,
    column: &TableColumn,
    part: IndexPartText,
) -> Result<IndexTarget> {
    let name = &column.name;
    bail_if!(
        table.compact && column.is_primary_key(),
        "Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables"
    );
    bail_if!(
        table.compact_value().is_some(),
        "Secondary indexes are not supported on compact value column of COMPACT STORAGE tables"
    );
    if column.kind == ColumnKind::Partition && table.partition == 1 {
        bail!("Cannot create secondary index on the only partition key column {name}");
    }
    if has_duration(&column.of.value_type) {
        let what = match column.of.value_type {
            _ if column.of.is_collection() => "collections containing durations",
            Type::Tuple(_) => "tuples containing durations",
            Type::Udt(_) => "UDTs containing durations",
            Type::Vector(..) => "vectors containing durations",
            _ => "duration columns",
        };
        bail!("Secondary indexes are not supported on {what}");
    }

    if !column.of.is_collection() {
        if matches!(column.of.value_type, Type::Udt(_)) && column.of.multicell {
            bail!("Cannot create index on non-frozen UDT column {name}");
        }
        return match part {
            IndexPartText::Simple => Ok(IndexTarget::Simple),
            _ => Err(invalid!(
                "Cannot create {}() index on {name}. Non-collection columns only support simple indexes",
                part.word()
            )),
        };
    }
    if !column.of.multicell {
        return match part {
            IndexPartText::Full => Ok(IndexTarget::Full),
            _ => Err(invalid!(
                "Cannot create {}() index on frozen column {name}. Frozen collections are immutable and must be fully indexed by using the 'full({name})' modifier",
                part.word()
            )),
        };
    }
    match part {
        IndexPartText::Full => {
            Err(invalid("full() indexes can only be created on frozen collections"))
        }
        IndexPartText::Simple | IndexPartText::Values => Ok(IndexTarget::Values),
        _ if !matches!(column.of.value_type, Type::Map(_)) => Err(invalid!(
            "Cannot create index on {} of column {name} with non-map type",
            part.word()
        )),
        IndexPartText::Keys => Ok(IndexTarget::Keys),
        IndexPartText::Entries => Ok(IndexTarget::Entries),
    }
}

/// Returns `table_column_idx`, with a number if the name is in use. A long name is truncated, so
/// that `CREATE INDEX` accepts it again.
fn free_index_name(home: &KeyspaceEntry, table: &str, column: &str) -> String {
    let clean: String = column.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let base = format!("{table}_{clean}");
    let named = |end: String| {
        let most = base.len().min(MAX_TABLE_NAME - end.len());
        format!("{}{end}", base.get(..most).unwrap_or(&base))
    };
    let mut name = named("_idx".to_owned());
    let mut n = 0;
    while home.index(&name).is_some() {
        n += 1;
        name = named(format!("_idx_{n}"));
    }
    name
}
