//! Compact tables. Each is stored in a column family of `firn-wide`, so that the Thrift interface
//! can access it. This module updates the family with the table's definition, and rewrites the rows
//! when `DROP COMPACT STORAGE` changes their layout.
//!
//! Invariant: the definition of a compact table is valid only together with its family. The family
//! is created before the table's record and dropped before it. A crash between the two steps is
//! repaired when the database is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_kv::ErrorKind;
use firn_wide::internals::key::{END, Layout};
use firn_wide::internals::store::{CellStore, DroppedFamilies, MovedPlaces, TreeName};
use firn_wide::internals::types::NEXT;
use firn_wide::{Partitioner, Wide};

use crate::catalog::{Catalog, CatalogDiff, TableSchema};
use crate::error::Result;

/// Updates the families of compact tables to these definitions, where they differ from `before`.
///
/// # Errors
/// Errors of the engine.
pub(super) fn put(wide: &Wide, before: Option<&Catalog>, after: &Catalog) -> Result<()> {
    let has_views = |catalog: &Catalog, table: &TableSchema| {
        catalog.keyspace(&table.keyspace).is_some_and(|k| k.views_of(table.id).next().is_some())
    };
    for table in after.own_tables().filter(|t| t.is_own_family()) {
        let was = before.and_then(|c| c.keyspace(&table.keyspace)?.table(&table.name));
        let viewed = has_views(after, table);
        let is_same = |b: &&Arc<TableSchema>| {
            Arc::ptr_eq(b, table) && before.is_some_and(|c| has_views(c, b) == viewed)
        };
        if was.filter(is_same).is_none() {
            put_one(wide, table, viewed)?;
        }
    }
    Ok(())
}

fn put_one(wide: &Wide, table: &TableSchema, has_views: bool) -> Result<()> {
    let (def, mut numbers) = table.as_family();
    numbers.has_views = has_views;
    let schema = wide.schema();
    let there = schema.keyspace(&table.keyspace)?.family(&table.name);
    let is_same = there.is_some_and(|family| {
        let indexes = family.indexes().map(|(column, index)| (column.name().to_vec(), index.id));
        family.def() == &def
            && family.has_views() == has_views
            && indexes.collect::<BTreeMap<_, _>>() == numbers.indexes
    });
    if !is_same {
        wide.system_put_table(&def, &numbers)?;
    }
    Ok(())
}

/// Reverts the families of tables to the definitions of `before`, as far as possible.
pub(super) fn roll_back(wide: &Wide, before: &Catalog, diff: &CatalogDiff) {
    for table in diff.opened.iter().filter(|t| t.is_own_family()) {
        if before.tables().all(|b| b.id != table.id) {
            drop(wide.system_drop_column_family(&table.keyspace, &table.name));
        }
    }
    drop(put(wide, None, before));
}

/// Drops families of compact tables without a record that are empty or noted as dropped: their
/// creation or drop was interrupted. Other families without a record have lost it; they remain as
/// families. Returns whether any was dropped.
///
/// # Errors
/// Errors of the engine.
pub(super) fn drop_unfinished(wide: &Wide, catalog: &Catalog) -> Result<bool> {
    let mut any = false;
    let schema = wide.schema();
    let defined: BTreeSet<u32> = catalog.own_tables().map(|t| t.id).collect();
    for family in schema.families().filter(|f| f.is_table() && !defined.contains(&f.id())) {
        let store = wide.store();
        let noted = store.was_dropped(DroppedFamilies::Family(family.id()))?;
        let tree = store.family(family.id()).map(|f| f.tree().clone());
        if noted || tree.map_or(Ok(true), |tree| tree.is_empty())? {
            wide.system_drop_column_family(family.keyspace(), family.name())?;
            any = true;
        }
    }
    Ok(any)
}

/// Returns these definitions without the compact tables whose families were dropped through the
/// Thrift interface. A table stays if its family has lost only its definition, not its data.
///
/// # Errors
/// Errors of the engine.
pub(super) fn without_dropped(wide: &Wide, catalog: Catalog) -> Result<Catalog> {
    let (schema, store) = (wide.schema(), wide.store());
    let mut gone = vec![];
    for table in catalog.own_tables().filter(|t| t.is_own_family()) {
        let has_family = schema
            .keyspace(&table.keyspace)
            .is_ok_and(|k| k.family(&table.name).is_some_and(|f| f.id() == table.id));
        if has_family {
            continue;
        }
        let has_tree = match store.db().existing_tree(&TreeName::Family(table.id).to_string()) {
            Err(e) if e.kind() == ErrorKind::NotFound => false,
            tree => tree.map(|_| true)?,
        };
        if !has_tree || store.was_dropped(DroppedFamilies::Family(table.id))? {
            gone.push(table.id);
        }
    }
    Ok(if gone.is_empty() { catalog } else { catalog.without_tables(|t| gone.contains(&t.id)) })
}

/// Maps the positions of a family's cells to those in the table that replaces it.
struct TablePlaces {
    before: Arc<TableSchema>,
    after: Arc<TableSchema>,
    rows: Layout,
    layout: Layout,
}

impl MovedPlaces for TablePlaces {
    fn cell(&self, place: &[u8]) -> firn_wide::Result<Option<Vec<u8>>> {
        let row_len = self.rows.row_len(place)?;
        let mut values = vec![Default::default(); self.rows.clustering().len()];
        self.rows.read_row(&place[1..row_len - 1], &mut values)?;
        let there: Vec<&Vec<u8>> =
            values.iter().take_while(|(_, there)| *there).map(|(value, _)| value).collect();
        let column = self.before.column_at(&place[row_len..]);
        let column = column.map_err(|e| firn_wide::Error::Corrupt(e.text().into_owned()))?;
        let known = column.map(|id| self.after.column_by_id(id));
        if known == Some(None) {
            return Ok(None); // no column of the table has this name
        }
        let mut out = vec![];
        self.layout.put_row(&there, &mut out)?;
        out.extend(self.after.cell_name(known.flatten()));
        Ok(Some(out))
    }

    fn bound(&self, bound: &[u8]) -> Vec<u8> {
        let Some((section, rest)) = bound.split_first() else { return vec![] };
        // The bytes before the first component of a cell name.
        let lead: &[u8] = match self.before.takes_prefixes() {
            true => &[END, NEXT],
            false => &[END],
        };
        [&[*section], rest.strip_prefix(lead).unwrap_or(rest)].concat()
    }
}

/// Returns the tables whose storage stops being compact, before and after the change.
pub(super) fn rewritten(diff: &CatalogDiff) -> Vec<(Arc<TableSchema>, Arc<TableSchema>)> {
    let families = diff.dropped.iter().filter(|t| t.is_own_family());
    let pair = |before: &Arc<TableSchema>| {
        let is_it = |t: &&Arc<TableSchema>| {
            (&t.keyspace, &t.name) == (&before.keyspace, &before.name) && t.form().is_none()
        };
        Some((before.clone(), diff.opened.iter().find(is_it)?.clone()))
    };
    families.filter_map(pair).collect()
}

/// Makes tables writable again after a rewrite of their rows was abandoned.
pub(super) fn roll_back_rewrite(
    store: &CellStore,
    rewritten: &[(Arc<TableSchema>, Arc<TableSchema>)],
) {
    let families = rewritten.iter().filter_map(|(before, _)| store.family(before.id));
    families.for_each(|family| store.abandon_move(&family));
}

/// Copies the rows of tables whose storage stops being compact to their new trees.
///
/// # Errors
/// Errors of the engine; `Stopped`.
pub(super) fn rewrite(
    building: &CellStore,
    partitioner: Partitioner,
    rewritten: &[(Arc<TableSchema>, Arc<TableSchema>)],
) -> Result<()> {
    for (before, after) in rewritten {
        let (Some(from), Some(to)) = (building.family(before.id), building.family(after.id)) else {
            continue;
        };
        let places = TablePlaces {
            before: before.clone(),
            after: after.clone(),
            rows: before.layout(partitioner),
            layout: after.layout(partitioner),
        };
        building.move_all(&from, &to, &places)?;
    }
    Ok(())
}
