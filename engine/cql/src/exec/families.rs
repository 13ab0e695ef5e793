//! Compact tables are column families beneath, so that the older interface sees them: these follow
//! what is defined here, and are written anew where a table's storage is compact no more.
//!
//! Invariant: the definition of a compact table counts only together with its family. Its family
//! is made before the record of the table and dropped before it: what a crash leaves between the
//! two is finished when the database is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_kv::ErrorKind;
use firn_wide::internals::key::{END, Layout};
use firn_wide::internals::store::{CellStore, DroppedFamilies, MovedPlaces, TreeName};
use firn_wide::internals::types::NEXT;
use firn_wide::{Partitioner, Wide};

use crate::catalog::{Catalog, CatalogDiff, TableSchema};
use crate::error::Result;

/// Makes the families of compact tables what these definitions say, where they were not so `before`.
///
/// # Errors
/// Errors of the engine beneath.
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

/// Makes the families of tables those of the definitions of before again, as far as it can be done.
pub(super) fn take_back(wide: &Wide, before: &Catalog, diff: &CatalogDiff) {
    for table in diff.opened.iter().filter(|t| t.is_own_family()) {
        if before.tables().all(|b| b.id != table.id) {
            drop(wide.system_drop_column_family(&table.keyspace, &table.name));
        }
    }
    drop(put(wide, None, before));
}

/// Drops the families of compact tables that have no record and hold nothing, or were noted as
/// dropped: they were being made, or dropped. Others lost their record, and stay as families.
/// Whether there were any.
///
/// # Errors
/// Errors of the engine beneath.
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

/// These definitions without the compact tables whose families the older interface dropped. One
/// whose family was lost with its definition only, and not its data, stays.
///
/// # Errors
/// Errors of the engine beneath.
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

/// Where the cells of a family are in the table that it becomes.
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
        // What stands before the first component of the name of a cell.
        let lead: &[u8] = match self.before.takes_prefixes() {
            true => &[END, NEXT],
            false => &[END],
        };
        [&[*section], rest.strip_prefix(lead).unwrap_or(rest)].concat()
    }
}

/// The tables of a change whose storage is compact no more, before it and after it.
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

/// Lets tables be written to again whose rows were put into others, which are given up.
pub(super) fn take_back_rewrite(
    store: &CellStore,
    rewritten: &[(Arc<TableSchema>, Arc<TableSchema>)],
) {
    let families = rewritten.iter().filter_map(|(before, _)| store.family(before.id));
    families.for_each(|family| store.take_back_move(&family));
}

/// Puts the rows of tables whose storage is compact no more into the trees that they have now.
///
/// # Errors
/// Errors of the engine beneath; `Stopped`.
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
