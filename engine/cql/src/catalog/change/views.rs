//! Materialized views: checks of their definitions, and restrictions on changes of their base
//! tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::record::table_uuid;
use crate::catalog::view::clause_text;
use crate::catalog::{
    Catalog, ColumnKind, KeyspaceEntry, MAX_TABLE_NAME, Resource, TableColumn, TableOptions,
    TableSchema, ViewSchema, check_not_system, has_duration, is_valid_name,
};
use crate::error::{Error, Result, bail, bail_if, configuration, invalid};
use crate::syntax::ast::{
    AlterView, AstName, CreateView, Drop, QualifiedName, Relation, SelectorKind, SelectorPrimary,
    TableChange,
};

fn names(columns: &[&str]) -> String {
    columns.join(", ")
}

/// Returns the columns that a view selects, in no order; all of them if none is named.
fn selected<'b>(base: &'b TableSchema, statement: &CreateView<'_>) -> Result<Vec<&'b TableColumn>> {
    let view = &statement.name.name.text;
    let mut all: Vec<&TableColumn> = vec![];
    for selected in &statement.selection {
        if selected.alias.is_some() {
            bail!("Cannot use aliases when defining a materialized view (got {selected})");
        }
        let SelectorKind::Primary(SelectorPrimary::Column(name)) = &selected.selector.kind else {
            bail!(
                "Can only select columns by name when defining a materialized view (got {selected})"
            );
        };
        all.push(base.known_column(&name.text)?);
    }
    if statement.selection.is_empty() {
        all.extend(base.columns());
    }
    match all.iter().find(|c| c.is_static()) {
        Some(c) => {
            Err(invalid!("Cannot include static column '{}' in materialized view '{view}'", c.name))
        }
        None => Ok(all),
    }
}

fn check_key_type(column: &TableColumn) -> Result<()> {
    let (of, name) = (&column.of.value_type, &column.name);
    if column.of.multicell {
        let what = if column.of.is_collection() { "collection" } else { "user-defined" };
        let of = of.full_name();
        bail!("Invalid non-frozen {what} type '{of}' for PRIMARY KEY column '{name}'");
    }
    bail_if!(has_duration(of), "duration type is not supported for PRIMARY KEY column '{name}'");
    Ok(())
}

/// Returns the columns of the view's key: partition key and clustering columns.
fn key_columns<'b>(
    base: &'b TableSchema,
    statement: &CreateView<'_>,
    selected: &[&TableColumn],
) -> Result<Vec<&'b TableColumn>> {
    let view = &statement.name.name.text;
    let mut all: Vec<&TableColumn> = vec![];
    let key = &statement.primary_key;
    for AstName { text, .. } in key.partition.iter().chain(&key.clustering) {
        let found = base.column(text).filter(|c| selected.iter().any(|s| s.name == c.name));
        let column = found.ok_or_else(|| {
            invalid!(
                "Unknown column '{text}' referenced in PRIMARY KEY for materialized view '{view}'"
            )
        })?;
        if all.iter().any(|c| c.name == column.name) {
            bail!("Duplicate column '{text}' in PRIMARY KEY clause for materialized view '{view}'");
        }
        check_key_type(column)?;
        all.push(column);
    }
    let declared: Vec<&str> = statement.clustering_order.iter().map(|o| &*o.column.text).collect();
    if !declared.is_empty() && declared.iter().ne(key.clustering.iter().map(|n| &n.text)) {
        bail!("Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive");
    }
    let of_base = base.columns().iter().filter(|c| c.is_primary_key());
    let missing: Vec<&str> =
        of_base.filter(|c| all.iter().all(|a| a.name != c.name)).map(|c| &*c.name).collect();
    bail_if!(
        !missing.is_empty(),
        "Cannot create materialized view '{view}' without primary key columns {} from base table '{}'",
        names(&missing),
        base.name
    );
    let own: Vec<&str> = all.iter().filter(|c| !c.is_primary_key()).map(|c| &*c.name).collect();
    bail_if!(
        own.len() > 1,
        "Cannot include more than one non-primary key column in materialized view primary key (got {})",
        names(&own)
    );
    Ok(all)
}

/// Returns a new view of a table, without an id and a uuid.
fn new_view(base: &TableSchema, statement: &CreateView<'_>) -> Result<TableSchema> {
    let selected = selected(base, statement)?;
    let key = key_columns(base, statement, &selected)?;
    if statement.relations.iter().any(|r| matches!(r, Relation::Token { .. })) {
        bail!("Cannot use token relation when defining a materialized view");
    }
    let options = TableOptions::default().with(&statement.properties)?;
    bail_if!(
        options.default_ttl() > 0,
        "Cannot set default_time_to_live for a materialized view. Data in a materialized view always expire at the same time than \
             the corresponding data in the parent table."
    );
    let partition = statement.primary_key.partition.len();
    let mut columns: Vec<TableColumn> = vec![];
    for (i, column) in key.iter().enumerate() {
        let ordered = i.checked_sub(partition).and_then(|i| statement.clustering_order.get(i));
        let kind = if i < partition { ColumnKind::Partition } else { ColumnKind::Clustering };
        let inherited = column.descending && kind == ColumnKind::Clustering;
        columns.push(TableColumn {
            id: 0,
            kind,
            position: 0,
            descending: ordered.map_or(inherited, |o| o.descending),
            ..(*column).clone()
        });
    }
    let mut seen: BTreeSet<&str> = key.iter().map(|c| &*c.name).collect();
    let others = selected.into_iter().filter(|c| seen.insert(&c.name));
    // Columns have the ids of the base's columns, because cells are copied unchanged.
    columns.extend(others.cloned());
    let view = ViewSchema {
        base: base.id,
        base_name: base.name.clone(),
        all_columns: statement.selection.is_empty(),
        where_clause: clause_text(&statement.relations),
        key_column: key.iter().find(|c| !c.is_primary_key()).map(|c| c.id),
    };
    let mut table = TableSchema {
        id: 0,
        uuid: uuid::Uuid::nil(),
        keyspace: base.keyspace.clone(),
        name: statement.name.name.text.to_string(),
        options,
        compact: false,
        columns,
        partition,
        clustering: key.len() - partition,
        next_column: base.next_column,
        dropped: vec![],
        indexes: vec![],
        view: Some(view),
        family: None,
        form: None,
    };
    table.arrange();
    Ok(table)
}

impl Catalog {
    /// Executes `CREATE MATERIALIZED VIEW` in this keyspace; `bits` are random. The analysis checks
    /// its WHERE clause.
    ///
    /// # Errors
    /// `AlreadyExists`, or errors of the definition.
    pub fn create_view(
        &self,
        statement: &CreateView<'_>,
        keyspace: &str,
        bits: u128,
    ) -> Result<Option<Catalog>> {
        if statement.table.keyspace.as_ref().is_some_and(|k| k.text != keyspace) {
            bail!("Cannot create a materialized view on a table in a different keyspace");
        }
        check_not_system(keyspace)?;
        let (name, base) = (&*statement.name.name.text, &*statement.table.name.text);
        let home = self.existing(keyspace)?;
        let missing = || invalid!("Base table '{base}' doesn't exist");
        let found = home.table(base).filter(|t| t.view().is_none()).ok_or_else(missing)?;
        found.check_own()?;
        match home.table(name) {
            Some(other) if other.view().is_none() => {
                bail!(
                    "Cannot create materialized view '{name}' - a table with the same name already exists"
                );
            }
            Some(_) if statement.if_not_exists => return Ok(None),
            Some(_) => {
                return Err(Error::AlreadyExists {
                    keyspace: keyspace.to_owned(),
                    table: Some(name.to_owned()),
                });
            }
            None => {}
        }
        bail_if!(found.is_counter(), "Materialized views are not supported on counter tables");
        bail_if!(
            found.options.gc_grace() == 0,
            "Cannot create materialized view '{name}' for base table '{base}' with gc_grace_seconds of 0, since this value is used to \
                 TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire before being replayed."
        );
        let mut table = new_view(found, statement)?;
        if !is_valid_name(name, MAX_TABLE_NAME) {
            let what = "Table name must not be";
            return Err(configuration(match name.len() > MAX_TABLE_NAME {
                true => format!(
                    "{keyspace}.{name}: {what} more than {MAX_TABLE_NAME} characters long (got \"{name}\")"
                ),
                false => format!(
                    "{keyspace}.{name}: {what} empty or not contain non-alphanumeric-underscore characters (got \"{name}\")"
                ),
            }));
        }
        let mut next = self.clone();
        table.id = next.new_id()?;
        table.uuid =
            TableOptions::given_id(&statement.properties)?.unwrap_or_else(|| table_uuid(bits));
        Ok(Some(next.with_table(table)?))
    }

    /// Returns the view that a definition names; `None` if it is missing and `IF EXISTS` was given.
    fn find_view(
        &self,
        keyspace: &str,
        name: &str,
        may_be_missing: bool,
    ) -> Result<Option<&Arc<TableSchema>>> {
        check_not_system(keyspace)?;
        let found = self.keyspace(keyspace).and_then(|k| k.table(name));
        match found.filter(|t| t.view().is_some()) {
            None if may_be_missing => Ok(None),
            None => Err(invalid!("Materialized view '{keyspace}.{name}' doesn't exist")),
            found => Ok(found),
        }
    }

    /// Executes `ALTER MATERIALIZED VIEW` in this keyspace.
    ///
    /// # Errors
    /// Errors of the change.
    pub fn alter_view(&self, statement: &AlterView<'_>, keyspace: &str) -> Result<Option<Catalog>> {
        let name = &*statement.name.name.text;
        let Some(found) = self.find_view(keyspace, name, statement.if_exists)? else {
            return Ok(None);
        };
        if statement.properties.iter().any(|p| p.name.text == "id") {
            return Err(configuration("Cannot alter table id."));
        }
        let mut table = (**found).clone();
        table.options = table.options.with(&statement.properties)?;
        bail_if!(
            table.options.gc_grace() == 0,
            "Cannot alter gc_grace_seconds of a materialized view to 0, since this value is used to TTL undelivered updates. Setting \
                 gc_grace_seconds too low might cause undelivered updates to expire before being replayed."
        );
        bail_if!(
            table.options.default_ttl() > 0,
            "Forbidden default_time_to_live detected for a materialized view. Data in a materialized view always expire at the same \
                 time than the corresponding data in the parent table. default_time_to_live must be set to zero, see CASSANDRA-12868 for \
                 more information"
        );
        Ok(Some(self.with_table(table)?))
    }

    /// Executes `DROP MATERIALIZED VIEW` in this keyspace.
    ///
    /// # Errors
    /// `Invalid` if it does not exist.
    pub fn drop_view(
        &self,
        statement: &Drop<QualifiedName<'_>>,
        keyspace: &str,
    ) -> Result<Option<Catalog>> {
        let name = &*statement.name.name.text;
        if self.find_view(keyspace, name, statement.if_exists)?.is_none() {
            return Ok(None);
        }
        let mut home = (**self.existing(keyspace)?).clone();
        home.tables.remove(name);
        let gone = Resource::Table(keyspace.to_owned(), name.to_owned());
        Ok(Some(self.with_keyspace(home).without_permissions(|resource| *resource == gone)))
    }

    /// Returns these definitions with an altered table, and with the resulting changes of its
    /// views.
    pub(super) fn with_views_altered(
        &self,
        before: &TableSchema,
        table: TableSchema,
        change: &TableChange<'_>,
    ) -> Result<Catalog> {
        let home = self.existing(&table.keyspace)?;
        let mut views: Vec<TableSchema> =
            home.views_of(table.id).map(|view| (**view).clone()).collect();
        let has_views = !views.is_empty();
        match change {
            TableChange::With(_) if has_views && table.options.gc_grace() == 0 => {
                bail!(
                    "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, since this value is used to TTL \
                     undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire before being \
                     replayed."
                );
            }
            TableChange::Rename { pairs, .. } => {
                for (from, to) in pairs {
                    views.iter_mut().try_for_each(|view| rename(view, from, to))?;
                }
            }
            _ => {}
        }
        let added = table.regulars().filter(|c| before.column(&c.name).is_none());
        let added: Vec<&TableColumn> =
            added.filter(|_| matches!(change, TableChange::Add { .. })).collect();
        for view in &mut views {
            view.next_column = table.next_column;
            if view.view.as_ref().is_some_and(|v| v.all_columns) {
                view.columns.extend(added.iter().map(|c| (*c).clone()));
                view.arrange();
            }
        }
        let mut home: KeyspaceEntry = (**home).clone();
        for table in views.into_iter().chain([table]) {
            home.tables.insert(table.name.clone(), Arc::new(table));
        }
        Ok(self.with_keyspace(home))
    }
}

/// Renames a column of a view's key as in its base.
fn rename(table: &mut TableSchema, from: &AstName<'_>, to: &AstName<'_>) -> Result<()> {
    let clause = match &table.view {
        Some(view) => view.with_relations(|relations| {
            let mut relations = relations.to_vec();
            for name in
                relations.iter_mut().flat_map(Relation::columns_mut).filter(|n| n.text == from.text)
            {
                name.text = to.text.to_string().into();
            }
            Ok(clause_text(&relations))
        })?,
        None => return Ok(()),
    };
    for column in table.columns.iter_mut().filter(|c| c.name == from.text) {
        column.name = to.text.to_string();
    }
    if let Some(view) = &mut table.view {
        view.where_clause = clause;
    }
    Ok(())
}
