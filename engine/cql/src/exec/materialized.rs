//! Materialized views: computes the rows of a view from those of its base table.
//!
//! Invariants:
//! - A view row depends only on the cells of one base row. So the store can recompute it in each
//!   batch that changes the base row (`firn_wide`'s `store/materialized.rs`).
//! - Cells are copied unchanged, with timestamps and expiration.
//! - The row marker of the view row lives as long as the base's column that is only in the view's
//!   key, if there is one. Otherwise it lives as long as the base row.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_wide::Partitioner;
use firn_wide::internals::cell::{Cell, CellState, StoredCell};
use firn_wide::internals::key::Layout;
use firn_wide::internals::store::{CellStore, RowParts, StoredView, ViewPlace, ViewRows};

use crate::analysis::{Purpose, Restrictions, RowFilter, RowValues};
use crate::catalog::{
    Catalog, CatalogDiff, ColumnKind, KeyspaceEntry, PartitionKey, TableColumn, TableSchema,
    ViewSchema,
};
use crate::error::{Error, ErrorClass, Result, bail, bail_if, corrupt};
use crate::syntax::ast::Relation;
use crate::values::{Context, EvalEnv, Markers};

/// Source of a column of the view's key in the base row.
#[derive(Clone, Copy, Debug)]
enum KeySource {
    Partition(usize),
    Clustering(usize),
    /// The one value outside the base's key.
    Value,
}

/// Use of the cells of a base column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellUse {
    /// There is no such column.
    None,
    /// They only keep the row alive.
    KeepsRow,
    Copied,
    Key,
}

/// Computes the rows of one view.
struct MaterializedRows {
    base: Arc<TableSchema>,
    view: Arc<TableSchema>,
    key: Vec<KeySource>,
    /// Name part of the cells of the base column that is in the view's key.
    key_column: Option<Vec<u8>>,
    /// Layout of the base's rows.
    layout: Layout,
    filter: RowFilter,
    /// By column id.
    uses: Vec<CellUse>,
    all_columns: bool,
}

/// Key of a base row.
struct KeyValues<'r> {
    base: &'r TableSchema,
    partition: PartitionKey,
    clustering: Vec<Option<Vec<u8>>>,
}

impl RowValues for KeyValues<'_> {
    fn value(&self, column: usize) -> Option<&[u8]> {
        let TableColumn { kind, position, .. } = self.base.columns().get(column)?;
        match kind {
            ColumnKind::Partition => self.partition.part(*position),
            ColumnKind::Clustering => self.clustering.get(*position)?.as_deref(),
            _ => None,
        }
    }
}

/// Returns the prepared WHERE clause of a view, which restricts the base's key.
fn restrictions(
    catalog: &Catalog,
    partitioner: Partitioner,
    base: &Arc<TableSchema>,
    view: &ViewSchema,
) -> Result<(Restrictions, BTreeSet<String>)> {
    let mut context = Context::of_table(catalog, base, partitioner, Markers::new(0));
    view.with_relations(|relations| {
        let (mut not_null, mut others) = (BTreeSet::new(), vec![]);
        for relation in relations {
            match relation {
                Relation::NotNull { column } => {
                    not_null.insert(base.known_column(&column.text)?.name.clone());
                }
                other => others.push(other.clone()),
            }
        }
        let purpose = Purpose::Select { filtering: true, nearest: None };
        let all = Restrictions::prepare(purpose, false, base, &others, &mut context)?;
        if let Some(called) = context.calls.first() {
            let text = "can't be in a materialized view: it may be replaced or dropped";
            bail!("{called} {text}");
        }
        Ok((all, not_null))
    })
}

/// Checks the WHERE clause of a view.
///
/// # Errors
/// `Invalid` with Cassandra's text.
pub(super) fn check_clause(
    partitioner: Partitioner,
    catalog: &Catalog,
    keyspace: &str,
    name: &str,
) -> Result<()> {
    let table = catalog.keyspace(keyspace).and_then(|k| k.table(name));
    let Some((table, view)) = table.and_then(|t| Some((t, t.view()?))) else { return Ok(()) };
    let Some(base) = catalog.base_of(table) else { return Ok(()) };
    let (restrictions, not_null) = restrictions(catalog, partitioner, base, view)?;
    let is_free = |c: &&TableColumn| {
        let number = base.columns().iter().position(|b| b.name == c.name);
        !not_null.contains(&c.name) && !number.is_some_and(|n| restrictions.restricts(n))
    };
    let key = table.partition().iter().chain(table.clustering());
    let free: Vec<&str> = key.filter(is_free).map(|c| &*c.name).collect();
    bail_if!(
        !free.is_empty(),
        "Primary key columns {} must be restricted with 'IS NOT NULL' or otherwise",
        free.join(", ")
    );
    let others: Vec<&str> =
        restrictions.filtered_columns().map(|c| &*base.columns()[c].name).collect();
    bail_if!(
        !others.is_empty(),
        "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: {} restricted illegally)",
        others.join(",")
    );
    MaterializedRows::new(catalog, partitioner, base, table, view).map(|_| ())
}

impl MaterializedRows {
    fn new(
        catalog: &Catalog,
        partitioner: Partitioner,
        base: &Arc<TableSchema>,
        table: &Arc<TableSchema>,
        view: &ViewSchema,
    ) -> Result<MaterializedRows> {
        let (restrictions, _) = restrictions(catalog, partitioner, base, view)?;
        let env = EvalEnv { bound: &[], now: 0, random: &|| 0 };
        let source = |column: &TableColumn| {
            Ok(match base.column(&column.name).map(|c| (c.kind, c.position)) {
                Some((ColumnKind::Partition, position)) => KeySource::Partition(position),
                Some((ColumnKind::Clustering, position)) => KeySource::Clustering(position),
                Some((ColumnKind::Regular, _)) => KeySource::Value,
                _ => {
                    let text = "which its base has not";
                    return Err(corrupt!(
                        "the view {}.{} has a key column {}, {text}",
                        table.keyspace,
                        table.name,
                        column.name
                    ));
                }
            })
        };
        let key = table.partition().iter().chain(table.clustering());
        let count = base.regulars().map(|c| usize::from(c.id) + 1).max().unwrap_or(0);
        let mut uses = vec![CellUse::None; count];
        for column in base.regulars() {
            uses[usize::from(column.id)] = match table.column_by_id(column.id) {
                _ if view.key_column == Some(column.id) => CellUse::Key,
                Some(_) => CellUse::Copied,
                None => CellUse::KeepsRow,
            };
        }
        Ok(MaterializedRows {
            base: base.clone(),
            view: table.clone(),
            key: key.map(source).collect::<Result<_>>()?,
            key_column: view.key_column.map(|id| base.cell_name(base.column_by_id(id))),
            layout: base.layout(partitioner),
            filter: restrictions.whole_filter(&env)?,
            uses,
            all_columns: view.all_columns,
        })
    }

    fn find(&self, key: &[u8], row: &[u8], value: Option<&[u8]>) -> Result<Option<ViewPlace>> {
        let mut values =
            KeyValues { base: &self.base, partition: PartitionKey::default(), clustering: vec![] };
        values.partition.set(&self.base, key)?;
        let mut clustering = vec![Default::default(); self.layout.clustering().len()];
        // The components are between the section byte and the end byte.
        let components = row.get(1..row.len().saturating_sub(1)).unwrap_or_default();
        self.layout.read_row(components, &mut clustering)?;
        let there = |(value, there): (Vec<u8>, bool)| there.then_some(value);
        values.clustering = clustering.into_iter().map(there).collect();
        if !self.filter.accepts(&values)? {
            return Ok(None);
        }
        let part = |source: &KeySource| match source {
            KeySource::Partition(position) => values.partition.part(*position),
            KeySource::Clustering(position) => values.clustering.get(*position)?.as_deref(),
            KeySource::Value => value,
        };
        // A key contains no null.
        let Some(parts) = self.key.iter().map(part).collect::<Option<Vec<&[u8]>>>() else {
            return Ok(None);
        };
        let (partition, clustering) = parts.split_at(self.view.partition().len());
        if let [[]] = partition {
            return Ok(None); // no partition has an empty key
        }
        let mut key = vec![];
        self.view.put_partition_key(partition, &mut key)?;
        TableSchema::check_key(&key)?;
        TableSchema::check_clustering(clustering)?;
        Ok(Some(ViewPlace { key, clustering: clustering.iter().map(|c| c.to_vec()).collect() }))
    }

    /// Returns the use of cells of this column id with this timestamp.
    fn use_of(&self, id: u16, timestamp: i64) -> CellUse {
        let found = self.uses.get(usize::from(id)).copied().unwrap_or(CellUse::None);
        let is_there = |id| {
            let column = self.base.column_by_id(id)?;
            Some(self.base.dropped_until(column).is_none_or(|until| timestamp > until))
        };
        if found == CellUse::None || is_there(id) == Some(true) { found } else { CellUse::None }
    }

    fn made(&self, parts: &RowParts) -> Result<RowParts> {
        let (mut out, mut keeping) = (RowParts::new(), vec![]);
        for (part, stored) in parts {
            let StoredCell::Cell(cell) = StoredCell::decode(stored)? else {
                return Err(corrupt("a deletion is in the position of a cell"));
            };
            let keeps_row = match self.base.column_at(part)? {
                None => self.key_column.is_none(),
                Some(id) => match self.use_of(id, cell.timestamp) {
                    CellUse::None => false,
                    CellUse::Copied => {
                        // Collection elements have a path after the name; column families have
                        // none.
                        let place = match self.base.form() {
                            Some(_) => self.view.cell_name(self.view.column_by_id(id)),
                            None => part.clone(),
                        };
                        out.insert(place, stored.clone());
                        false
                    }
                    CellUse::KeepsRow => self.key_column.is_none() && !self.all_columns,
                    CellUse::Key => true,
                },
            };
            if keeps_row {
                keeping.push(cell);
            }
        }
        match marker(&keeping) {
            Some(marker) => {
                let mut stored = vec![];
                marker.encode(&mut stored);
                out.insert(self.view.cell_name(None), stored);
            }
            None if self.key_column.is_some() => out.clear(),
            None => {}
        }
        Ok(out)
    }
}

/// Returns a marker that lives as long as any of these cells.
fn marker(keeping: &[Cell<'_>]) -> Option<Cell<'static>> {
    let timestamp = keeping.iter().map(|c| c.timestamp).max()?;
    let ends = keeping.iter().map(|c| match c.state {
        CellState::Expiring { ttl, expires, .. } => Some((expires, ttl)),
        _ => None,
    });
    let state = match ends.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max()) {
        Some((expires, ttl)) => CellState::Expiring { value: &[], ttl, expires },
        None => CellState::Live(&[]),
    };
    Some(Cell { timestamp, state })
}

/// Converts an error to one of the store.
fn wide_error(e: Error) -> firn_wide::Error {
    match e.class() {
        ErrorClass::Invalid => firn_wide::Error::InvalidRequest(e.text().into_owned()),
        _ => firn_wide::Error::Corrupt(e.text().into_owned()),
    }
}

impl ViewRows for MaterializedRows {
    fn key_column(&self) -> Option<&[u8]> {
        self.key_column.as_deref()
    }

    fn place(
        &self,
        key: &[u8],
        row: &[u8],
        value: Option<&[u8]>,
    ) -> firn_wide::Result<Option<ViewPlace>> {
        self.find(key, row, value).map_err(wide_error)
    }

    fn cells(&self, parts: &RowParts) -> firn_wide::Result<RowParts> {
        self.made(parts).map_err(wide_error)
    }
}

/// Registers the views of a table, by these definitions, with the store, so that writes update
/// them.
pub(super) fn link(
    store: &CellStore,
    partitioner: Partitioner,
    catalog: &Catalog,
    home: &KeyspaceEntry,
    base: &Arc<TableSchema>,
) -> Result<()> {
    let Some(family) = store.family(base.id) else { return Ok(()) };
    let mut views = vec![];
    for table in home.views_of(base.id) {
        let Some((view, family)) = table.view().zip(store.family(table.id)) else { continue };
        let rows = MaterializedRows::new(catalog, partitioner, base, table, view)?;
        views.push(StoredView { family, rows: Arc::new(rows) });
    }
    Ok(store.set_views(&family, base.layout(partitioner), views)?)
}

/// Links all views, and builds those that data loss or a crash left unbuilt.
pub(super) fn open(store: &CellStore, partitioner: Partitioner, catalog: &Catalog) -> Result<()> {
    for home in catalog.keyspaces() {
        for base in home.tables().filter(|t| home.views_of(t.id).next().is_some()) {
            link(store, partitioner, catalog, home, base)?;
            let Some(family) = store.family(base.id) else { continue };
            for view in home.views_of(base.id) {
                if !store.is_view_built(view.id)? && !store.db().is_read_only() {
                    store.build_view(&family, view.id)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the keyspace and base table of each view that a change affects, by these definitions.
fn concerned<'c>(
    catalog: &'c Catalog,
    tables: &[Arc<TableSchema>],
) -> Vec<(&'c Arc<KeyspaceEntry>, &'c Arc<TableSchema>)> {
    let bases: BTreeSet<u32> = tables.iter().map(|t| t.view().map_or(t.id, |v| v.base)).collect();
    let of = |home: &'c Arc<KeyspaceEntry>| home.tables().map(move |t| (home, t));
    catalog.keyspaces().flat_map(of).filter(|(_, t)| bases.contains(&t.id)).collect()
}

/// Links the views of new and changed tables, and builds the new views through `building`, before
/// the change is recorded.
pub(super) fn follow(
    building: &CellStore,
    partitioner: Partitioner,
    before: &Catalog,
    after: &Catalog,
    diff: &CatalogDiff,
) -> Result<()> {
    for (home, base) in concerned(after, &diff.opened) {
        if home.views_of(base.id).next().is_none() {
            continue;
        }
        link(building, partitioner, after, home, base)?;
        let Some(family) = building.family(base.id) else { continue };
        for view in home.views_of(base.id) {
            let Some(old) = before.tables().find(|t| t.id == view.id) else {
                building.build_view(&family, view.id)?;
                continue;
            };
            // A value written before the column was dropped may be newer than the drop's timestamp.
            let comes_back = |c: &TableColumn| {
                old.column_by_id(c.id).is_none() && base.dropped().iter().any(|d| d.id == c.id)
            };
            if view.regulars().any(comes_back) {
                building.unstoppable().build_view(&family, view.id)?;
            }
        }
    }
    Ok(())
}

/// Links the views of these tables again, by these definitions: after views were dropped, or to
/// revert a failed change.
pub(super) fn relink(
    store: &CellStore,
    partitioner: Partitioner,
    catalog: &Catalog,
    tables: &[Arc<TableSchema>],
) -> Result<()> {
    for table in tables.iter().filter(|t| t.view().is_some()) {
        if catalog.base_of(table).is_none()
            && let Some(family) = table.view().and_then(|view| store.family(view.base))
        {
            store.set_views(&family, family.layout().clone(), vec![])?;
        }
    }
    for (home, base) in concerned(catalog, tables) {
        let had_views = tables.iter().any(|t| t.view().is_some_and(|view| view.base == base.id));
        if had_views || home.views_of(base.id).next().is_some() {
            link(store, partitioner, catalog, home, base)?;
        }
    }
    Ok(())
}
