//! Tables: columns, keys, and `ALTER TABLE`.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_wide::Type;

use super::check_not_system_new;
use crate::catalog::record::table_uuid;
use crate::catalog::resolve::resolve;
use crate::catalog::{
    Catalog, ColumnKind, ColumnType, DroppedColumn, KeyspaceEntry, MAX_TABLE_NAME, Resource,
    TableColumn, TableOptions, TableSchema, ViewSchema, is_unordered, is_valid_name,
};
use crate::error::{Error, Result, bail, bail_if, configuration, invalid, skip_if};
use crate::syntax::ast::{
    AlterTable, AstName, ColumnDefinition, CreateTable, Drop, QualifiedName, TableChange,
};

impl Catalog {
    /// Executes `CREATE TABLE` in this keyspace; `bits` are random.
    ///
    /// # Errors
    /// `AlreadyExists`, or errors of the definition.
    pub fn create_table(
        &self,
        statement: &CreateTable<'_>,
        keyspace: &str,
        bits: u128,
    ) -> Result<Option<Catalog>> {
        check_not_system_new(keyspace)?;
        let name = &*statement.name.name.text;
        let home = self.existing(keyspace)?;
        if home.table(name).is_some() {
            return skip_if(statement.if_not_exists, || Error::AlreadyExists {
                keyspace: keyspace.to_owned(),
                table: Some(name.to_owned()),
            });
        }
        bail_if!(
            !is_valid_name(name, MAX_TABLE_NAME),
            "Table name must not be empty, more than {MAX_TABLE_NAME} characters long, or contain non-alphanumeric-underscore \
                 characters (got '{name}')"
        );
        let mut next = self.clone();
        let mut table = new_table(home, statement)?;
        table.id = next.new_id()?;
        table.uuid =
            TableOptions::given_id(&statement.properties)?.unwrap_or_else(|| table_uuid(bits));
        Ok(Some(next.with_table(table)?))
    }

    /// Returns the table that a definition names; `None` if it is missing and `IF EXISTS` was
    /// given.
    pub(super) fn find_table(
        &self,
        keyspace: &str,
        name: &str,
        may_be_missing: bool,
    ) -> Result<Option<&Arc<TableSchema>>> {
        super::super::check_not_system(keyspace)?;
        match self.keyspace(keyspace).and_then(|k| k.table(name)) {
            None if may_be_missing => Ok(None),
            None => Err(invalid!("Table '{keyspace}.{name}' doesn't exist")),
            found => Ok(found),
        }
    }

    /// Executes `ALTER TABLE` in this keyspace, at this time in microseconds.
    ///
    /// # Errors
    /// Errors of the change.
    pub fn alter_table(
        &self,
        statement: &AlterTable<'_>,
        keyspace: &str,
        now: i64,
    ) -> Result<Option<Catalog>> {
        let Some(found) =
            self.find_table(keyspace, &statement.name.name.text, statement.if_exists)?
        else {
            return Ok(None);
        };
        found.check_own()?;
        bail_if!(
            found.view().is_some(),
            "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead"
        );
        let home = self.existing(keyspace)?;
        let has_views = home.views_of(found.id).next().is_some();
        let mut table = (**found).clone();
        match &statement.change {
            TableChange::Add { if_not_exists, columns } => {
                for column in columns {
                    add_column(home, &mut table, column, *if_not_exists)?;
                }
            }
            TableChange::Drop { if_exists, columns, timestamp } => {
                let given = timestamp.as_ref().map(|t| t.text.parse::<i64>());
                let at = given
                    .transpose()
                    .map_err(|_| invalid("Out of bound timestamp of a dropped column"))?
                    .unwrap_or(now);
                for column in columns {
                    drop_column(&mut table, &column.text, *if_exists, has_views, at)?;
                }
            }
            TableChange::DropCompactStorage if !table.compact => {
                bail!("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE");
            }
            TableChange::DropCompactStorage => {
                return self.without_compact_storage(table).map(Some);
            }
            TableChange::Rename { if_exists, pairs } => {
                for (from, to) in pairs {
                    rename_column(&mut table, from, to, *if_exists)?;
                }
            }
            TableChange::Retype { .. } => {
                bail!("Altering column types is no longer supported");
            }
            // The mask itself is set on the result later.
            TableChange::Mask { if_exists, column, .. } => {
                let name = &*column.text;
                if table.column(name).is_none() {
                    return skip_if(*if_exists, || {
                        invalid!(
                            "Column with name '{name}' doesn't exist on table '{}'",
                            table.name
                        )
                    });
                }
            }
            TableChange::With(properties) => {
                if properties.iter().any(|p| p.name.text == "id") {
                    return Err(configuration("Cannot alter table id."));
                }
                table.options = table.options.with(properties)?;
                check_ttl(&table)?;
            }
        }
        Ok(Some(self.with_views_altered(found, table, &statement.change)?))
    }

    /// Returns these definitions with this compact table as an ordinary one. Its rows and its
    /// indexes get new trees.
    fn without_compact_storage(&self, mut table: TableSchema) -> Result<Catalog> {
        let mut next = self.next();
        let before = table.id;
        table.compact = false;
        table.id = next.new_id()?;
        for index in &mut table.indexes {
            index.id = next.new_id()?;
        }
        table.arrange();
        let mut home = (**self.existing(&table.keyspace)?).clone();
        for known in home.tables.values_mut() {
            if known.view().is_some_and(|view| view.base == before) {
                let view = Arc::make_mut(known);
                view.view = view.view.take().map(|v| ViewSchema { base: table.id, ..v });
            }
        }
        home.tables.insert(table.name.clone(), Arc::new(table));
        Ok(next.with_keyspace(home))
    }

    /// Executes `DROP TABLE` in this keyspace.
    ///
    /// # Errors
    /// `Invalid` if it does not exist.
    pub fn drop_table(
        &self,
        statement: &Drop<QualifiedName<'_>>,
        keyspace: &str,
    ) -> Result<Option<Catalog>> {
        let name = &*statement.name.name.text;
        let Some(found) = self.find_table(keyspace, name, statement.if_exists)? else {
            return Ok(None);
        };
        bail_if!(
            found.view().is_some(),
            "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead."
        );
        let mut home = (**self.existing(keyspace)?).clone();
        if home.views_of(found.id).next().is_some() {
            bail!("Cannot drop a table when materialized views still depend on it ({keyspace})");
        }
        home.tables.remove(name);
        let gone = Resource::Table(keyspace.to_owned(), name.to_owned());
        Ok(Some(self.with_keyspace(home).without_permissions(|resource| *resource == gone)))
    }
}

/// Returns the names of the columns of the partition key, and of the clustering columns.
fn primary_key<'s>(statement: &'s CreateTable<'_>) -> Result<(Vec<&'s str>, Vec<&'s str>)> {
    let name = &statement.name.name.text;
    let inline: Vec<&str> =
        statement.columns.iter().filter(|c| c.primary_key).map(|c| &*c.name.text).collect();
    let (partition, clustering): (Vec<&str>, Vec<&str>) =
        match (&inline[..], &statement.primary_keys[..]) {
            ([one], []) => (vec![one], vec![]),
            ([], [key]) => (
                key.partition.iter().map(|n| &*n.text).collect(),
                key.clustering.iter().map(|n| &*n.text).collect(),
            ),
            ([], []) => {
                bail!("No PRIMARY KEY specifed for table '{name}' (exactly one required)");
            }
            _ => {
                bail!("Multiple PRIMARY KEY specified for table '{name}' (exactly one required)");
            }
        };
    let mut seen = BTreeSet::new();
    for column in partition.iter().chain(&clustering) {
        if !statement.columns.iter().any(|c| c.name.text == *column) {
            bail!("Unknown column '{column}' referenced in PRIMARY KEY for table '{name}'");
        }
        if !seen.insert(column) {
            bail!("Duplicate column '{column}' in PRIMARY KEY clause for table '{name}'");
        }
    }
    Ok((partition, clustering))
}

/// Returns a new table in this keyspace, without an id and a uuid.
pub fn new_table(home: &KeyspaceEntry, statement: &CreateTable<'_>) -> Result<TableSchema> {
    let name = statement.name.name.text.to_string();
    let mut seen = BTreeSet::new();
    if let Some(twice) = statement.columns.iter().find(|c| !seen.insert(&*c.name.text)) {
        bail!("Duplicate column '{}' declaration for table '{name}'", twice.name.text);
    }
    let (partition, clustering) = primary_key(statement)?;
    let mut table = TableSchema {
        id: 0,
        uuid: uuid::Uuid::nil(),
        keyspace: home.name.clone(),
        name,
        options: TableOptions::default().with(&statement.properties)?,
        compact: statement.compact_storage,
        columns: vec![],
        partition: partition.len(),
        clustering: clustering.len(),
        next_column: 1,
        dropped: vec![],
        indexes: vec![],
        view: None,
        family: None,
        form: None,
    };
    let in_key = |names: &[&str], kind, table: &mut TableSchema| -> Result<()> {
        for name in names {
            let Some(definition) = statement.columns.iter().find(|c| c.name.text == *name) else {
                continue;
            };
            let of = key_type(home, definition)?;
            let name = (*name).to_owned();
            table.columns.push(TableColumn::of_key(kind, name, of, false));
        }
        Ok(())
    };
    in_key(&partition, ColumnKind::Partition, &mut table)?;
    in_key(&clustering, ColumnKind::Clustering, &mut table)?;
    let rest = statement
        .columns
        .iter()
        .filter(|c| !partition.contains(&&*c.name.text) && !clustering.contains(&&*c.name.text));
    for definition in rest {
        push_column(home, &mut table, definition)?;
    }
    clustering_order(&mut table, statement)?;
    bail_if!(
        table.has_statics() && table.clustering == 0,
        "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
    );
    if table.is_counter() && table.columns.iter().any(|c| !c.is_primary_key() && !c.is_counter()) {
        bail!("Cannot mix counter and non counter columns in the same table");
    }
    check_ttl(&table)?;
    table.arrange();
    if table.compact {
        check_compact(&table)?;
    }
    Ok(table)
}

/// Checks the restrictions of compact tables: single-cell columns, and at most one column besides
/// clustering columns.
fn check_compact(table: &TableSchema) -> Result<()> {
    if table.columns.iter().any(|c| c.of.multicell) {
        bail!("Non-frozen collections and UDTs are not supported with COMPACT STORAGE");
    }
    bail_if!(table.has_statics(), "Static columns are not supported in COMPACT STORAGE tables");
    let rest: Vec<&str> = table.regulars().map(|c| c.name.as_str()).collect();
    match (table.clustering, rest.len()) {
        (0, 0) => Err(invalid("No definition found that is not part of the PRIMARY KEY")),
        (1.., 2..) => Err(invalid!(
            "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY (got: {})",
            rest.join(", ")
        )),
        _ => Ok(()),
    }
}

fn clustering_order(table: &mut TableSchema, statement: &CreateTable<'_>) -> Result<()> {
    let ordered = &statement.clustering_order;
    let names: Vec<&str> = ordered.iter().map(|o| &*o.column.text).collect();
    let declared: Vec<&str> = table.clustering().iter().map(|c| c.name.as_str()).collect();
    if let Some((_, twice)) = names.iter().enumerate().find(|(i, n)| names[..*i].contains(n)) {
        bail!(
            "Duplicate column '{twice}' in CLUSTERING ORDER BY clause for table '{}'",
            table.name
        );
    }
    let others: Vec<&str> = names.iter().filter(|n| !declared.contains(n)).copied().collect();
    bail_if!(
        !others.is_empty(),
        "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not clustering columns",
        others.join(", ")
    );
    // Columns at the end may be omitted.
    if let Some((name, wanted)) = names.iter().zip(&declared).find(|(name, d)| name != d) {
        return Err(invalid(match names.contains(wanted) {
            true => format!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns ({wanted} must appear before {name})"
            ),
            false => format!("Missing CLUSTERING ORDER for column {wanted}"),
        }));
    }
    for (column, order) in table.columns[table.partition..].iter_mut().zip(ordered) {
        column.descending = order.descending;
    }
    Ok(())
}

fn check_ttl(table: &TableSchema) -> Result<()> {
    if table.is_counter() && table.options.default_ttl() > 0 {
        bail!("Cannot set default_time_to_live on a table with counters");
    }
    Ok(())
}

/// Returns the type of a column of the primary key.
fn key_type(home: &KeyspaceEntry, definition: &ColumnDefinition<'_>) -> Result<ColumnType> {
    let (of, name) = (resolve(home, &definition.of, false)?, &definition.name.text);
    bail_if!(definition.is_static, "Static column '{name}' cannot be part of the PRIMARY KEY");
    if of.multicell {
        return Err(invalid(match &of.value_type {
            Type::Udt(u) => {
                format!(
                    "Invalid non-frozen user-defined type \"{}.{}\" for PRIMARY KEY column '{name}'",
                    u.keyspace, u.name
                )
            }
            _ => format!("Invalid non-frozen collection type {of} for PRIMARY KEY column '{name}'"),
        }));
    }
    let unsupported = match &of.value_type {
        Type::Counter => "counter",
        whole if is_unordered(whole) => "duration",
        _ => return Ok(of),
    };
    Err(invalid!("{unsupported} type is not supported for PRIMARY KEY column '{name}'"))
}

/// Adds a static or regular column with a new id. A column that was dropped gets its old id again,
/// so that values written after the drop's timestamp become visible.
fn push_column(
    home: &KeyspaceEntry,
    table: &mut TableSchema,
    definition: &ColumnDefinition<'_>,
) -> Result<()> {
    let of = resolve(home, &definition.of, false)?;
    if let Type::Udt(u) = &of.value_type
        && of.multicell
        && home.user_type(&u.name).is_some_and(|t| t.fields.iter().any(|f| f.1.multicell))
    {
        bail!("Non-frozen UDTs with nested non-frozen collections are not supported");
    }
    let kind = if definition.is_static { ColumnKind::Static } else { ColumnKind::Regular };
    let name = definition.name.text.to_string();
    let id = match table.dropped.iter().rev().find(|d| d.name == name) {
        Some(before) => before.id,
        None => {
            let id = table.next_column;
            let all_given = || {
                invalid!("table {} has given all its {id} numbers of columns", table.shown_name())
            };
            table.next_column = id.checked_add(1).ok_or_else(all_given)?;
            id
        }
    };
    let column = TableColumn { id, name, kind, position: 0, of, descending: false, mask: None };
    table.columns.push(column);
    Ok(())
}

fn add_column(
    home: &KeyspaceEntry,
    table: &mut TableSchema,
    definition: &ColumnDefinition<'_>,
    if_not_exists: bool,
) -> Result<()> {
    let name = &*definition.name.text;
    bail_if!(table.compact, "Cannot add new column to a COMPACT STORAGE table");
    if table.column(name).is_some() {
        return skip_if(if_not_exists, || invalid!("Column with name '{name}' already exists"));
    }
    bail_if!(
        definition.is_static && table.clustering == 0,
        "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
    );
    let of = resolve(home, &definition.of, false)?;
    if let Some(before) = table.dropped.iter().rev().find(|d| d.name == name) {
        bail_if!(
            before.of != of,
            "Cannot re-add a previously dropped column '{name}' of type {of}, incompatible with previous type {}",
            before.of
        );
        if before.is_static != definition.is_static {
            let (now, then) =
                if before.is_static { ("regular", "static") } else { ("static", "regular") };
            bail!(
                "Cannot re-add a previously dropped column '{name}' of kind {now}, incompatible with previous kind {then}"
            );
        }
        bail_if!(
            of.value_type.is_counter(),
            "Cannot re-add previously dropped counter column {name}"
        );
    }
    if of.value_type.is_counter() != table.is_counter() {
        let (not, non) = if table.is_counter() { ("non ", "") } else { ("", "non ") };
        return Err(configuration!(
            "{}.{}: Cannot have a {not}counter column (\"{name}\") in a {non}counter table",
            table.keyspace,
            table.name
        ));
    }
    push_column(home, table, definition)?;
    table.arrange();
    Ok(())
}

fn drop_column(
    table: &mut TableSchema,
    name: &str,
    if_exists: bool,
    has_views: bool,
    at: i64,
) -> Result<()> {
    let Some(column) = table.column(name).cloned() else {
        return skip_if(if_exists, || {
            invalid!("Column {name} was not found in table '{}'", table.shown_name())
        });
    };
    bail_if!(column.is_primary_key(), "Cannot drop PRIMARY KEY column {name}");
    if matches!(column.of.value_type, Type::Udt(_)) && column.of.multicell {
        bail!("Cannot drop non-frozen column {name} of user type {}", column.of);
    }
    let dependent: Vec<&str> =
        table.indexes.iter().filter(|i| i.column == name).map(|i| i.name.as_str()).collect();
    bail_if!(
        !dependent.is_empty(),
        "Cannot drop column {name} because it has dependent secondary indexes ({})",
        dependent.join(", ")
    );
    if has_views {
        bail!("Cannot drop column {name} on base table {} with materialized views", table.name);
    }
    bail_if!(
        table.compact && table.regulars().count() == 1,
        "Cannot drop {name}, the only column of a COMPACT STORAGE table that is not of its PRIMARY KEY"
    );
    table.columns.retain(|c| c.name != name);
    table.arrange();
    let is_static = column.is_static();
    table.dropped.push(DroppedColumn {
        id: column.id,
        name: column.name,
        of: column.of,
        is_static,
        dropped: at,
    });
    Ok(())
}

fn rename_column(
    table: &mut TableSchema,
    from: &AstName<'_>,
    to: &AstName<'_>,
    if_exists: bool,
) -> Result<()> {
    let (from, to) = (&*from.text, &*to.text);
    let Some(column) = table.column(from) else {
        return skip_if(if_exists, || {
            invalid!("Column {from} was not found in table '{}'", table.shown_name())
        });
    };
    bail_if!(!column.is_primary_key(), "Cannot rename non PRIMARY KEY column {from}");
    bail_if!(
        table.column(to).is_some(),
        "Cannot rename column {from} to {to} in table '{}'; another column with that name already exists",
        table.shown_name()
    );
    if table.indexes.iter().any(|i| i.column == from) {
        bail!("Can't rename column {from} because it has dependent secondary indexes");
    }
    if let Some(column) = table.columns.iter_mut().find(|c| c.name == from) {
        column.name = to.to_owned();
    }
    Ok(())
}
