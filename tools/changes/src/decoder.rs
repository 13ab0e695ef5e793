//! Converts changes of a store into events.
//!
//! Invariants:
//! - Each operation on a tree that is no table, and each changed row, range and partition of a
//!   table, is one event. Indexes, materialized views and the schema itself have no events.
//! - The events of a change have its position, and are in the order of its operations. Those of a
//!   table are in its order. All but the last one of a change have the field `more`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use firn_cql::Session;
use firn_cql::internals::catalog::TableSchema;
use firn_kv::{BatchOp, Change, ChangePosition, Db, DecodedOp, Snapshot};
use firn_table_events::cql_trouble;
use firn_tools::json::put_field;
use firn_tools::output::Done;

use crate::event::{ChangeEvent, ChangeKind, ChangeSource, JsonFields};
use crate::rows::{ChangedTable, TableOps};

/// Converter of a store's changes.
pub struct ChangeDecoder {
    tables: Option<DecodedTables>,
    hex: bool,
    only: Vec<String>,
}

/// Tables of a store with the data model.
struct DecodedTables {
    session: Session,
    /// Version of the schema of `by_tree`.
    version: u64,
    by_tree: BTreeMap<String, ChangedTable>,
    /// Names of the known trees.
    trees: BTreeSet<String>,
    /// Number of dropped trees that no change has reported yet.
    dropped: u64,
}

impl fmt::Debug for ChangeDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeDecoder").finish_non_exhaustive()
    }
}

impl ChangeDecoder {
    /// Creates the decoder of a store of trees. Keys and values are text if they are UTF-8, else in
    /// hexadecimal; with `hex` always so.
    pub fn of_trees(hex: bool) -> ChangeDecoder {
        ChangeDecoder { tables: None, hex, only: vec![] }
    }

    /// Creates the decoder of a store with the data model: its tables have events of rows.
    ///
    /// # Errors
    /// Errors of reading the schema.
    pub fn of_tables(session: Session) -> Done<ChangeDecoder> {
        let trees = session.engine().store().db().tree_names().into_iter().collect();
        let by_tree = BTreeMap::new();
        let mut tables = DecodedTables { session, version: 0, by_tree, trees, dropped: 0 };
        tables.refresh()?;
        Ok(ChangeDecoder { tables: Some(tables), hex: false, only: vec![] })
    }

    /// Restricts the events to these trees, tables (`keyspace.table`) and keyspaces. An empty list
    /// restricts nothing.
    #[must_use]
    pub fn only(mut self, names: &[String]) -> ChangeDecoder {
        self.only = names.to_vec();
        self
    }

    /// Passes an event for each key and row of a snapshot of `db` to `take`. `position` is that of
    /// the snapshot.
    ///
    /// # Errors
    /// Errors of `take`, of reading, and of corrupt rows.
    pub fn snapshot(
        &mut self,
        db: &Db,
        snapshot: &Snapshot,
        position: ChangePosition,
        take: &mut dyn FnMut(ChangeEvent) -> Done,
    ) -> Done {
        let ChangeDecoder { tables, only, .. } = self;
        if let Some(tables) = tables {
            return tables.snapshot(snapshot, only, position, take);
        }
        for name in db.tree_names() {
            if !self.is_wanted(&name) {
                continue;
            }
            let tree = db.existing_tree(&name)?;
            for entry in snapshot.iter(&tree) {
                let (key, stored) = entry?;
                let (expires, value) = tree.split_deadline(&stored);
                take(ChangeEvent {
                    position,
                    source: ChangeSource::Tree(name.clone()),
                    kind: ChangeKind::Read,
                    timestamp: None,
                    key: self.field("key", &key),
                    columns: self.field("value", value),
                    facts: expires
                        .map(|at| ("expires".to_owned(), at.to_string()))
                        .into_iter()
                        .collect(),
                })?;
            }
        }
        Ok(())
    }

    fn is_wanted(&self, tree: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == tree)
    }

    /// Returns a key or value as a field.
    fn field(&self, name: &str, bytes: &[u8]) -> JsonFields {
        let mut object = serde_json::Map::new();
        put_field(&mut object, name, bytes, self.hex);
        object.into_iter().map(|(name, value)| (name, value.to_string())).collect()
    }

    /// Passes the events of a change to `take`. `position` is that behind the change.
    ///
    /// # Errors
    /// Errors of `take`, of reading the schema, and of corrupt rows.
    pub fn events(
        &mut self,
        change: &Change,
        position: ChangePosition,
        take: &mut dyn FnMut(ChangeEvent) -> Done,
    ) -> Done {
        let mut last: Option<ChangeEvent> = None;
        self.each_event(change, position, &mut |event| match last.replace(event) {
            Some(mut before) => {
                before.mark_more();
                take(before)
            }
            None => Ok(()),
        })?;
        last.map_or(Ok(()), take)
    }

    fn each_event(
        &mut self,
        change: &Change,
        position: ChangePosition,
        take: &mut dyn FnMut(ChangeEvent) -> Done,
    ) -> Done {
        let event = |source, kind, key: JsonFields, columns: JsonFields| ChangeEvent {
            position,
            source,
            kind,
            timestamp: None,
            key,
            columns,
            facts: vec![],
        };
        let ChangeDecoder { tables, only, .. } = self;
        if change.is_loaded() || change.is_drop() {
            let is_known = match tables {
                Some(tables) if change.is_drop() => tables.drops(change, only, position, take)?,
                _ => false,
            };
            return match is_known {
                true => Ok(()),
                false => take(event(ChangeSource::Store, ChangeKind::Load, vec![], vec![])),
            };
        }
        if let Some(tables) = tables {
            return tables.events(change, only, position, take);
        }
        let field = |name: &str, bytes: &[u8]| self.field(name, bytes);
        for DecodedOp { op, expires_micros } in change.decoded_ops() {
            let of = |tree: &str| ChangeSource::Tree(tree.to_owned());
            let mut made = match op {
                BatchOp::Put { tree, key, value } => {
                    event(of(tree), ChangeKind::Put, field("key", key), field("value", value))
                }
                BatchOp::Delete { tree, key } => {
                    event(of(tree), ChangeKind::Delete, field("key", key), vec![])
                }
                BatchOp::Merge { tree, key, operand } => {
                    let operand = field("operand", operand);
                    event(of(tree), ChangeKind::Merge, field("key", key), operand)
                }
                BatchOp::DeleteRange { tree, start: [], end: None } => {
                    event(of(tree), ChangeKind::Truncate, vec![], vec![])
                }
                BatchOp::DeleteRange { tree, start, end } => {
                    let mut key = field("from", start);
                    key.extend(end.into_iter().flat_map(|end| field("to", end)));
                    event(of(tree), ChangeKind::DeleteRange, key, vec![])
                }
                _ => continue,
            };
            if !matches!(&made.source, ChangeSource::Tree(tree) if self.is_wanted(tree)) {
                continue;
            }
            let expires = expires_micros.map(|at| ("expires".to_owned(), at.to_string()));
            made.facts.extend(expires);
            take(made)?;
        }
        Ok(())
    }
}

impl DecodedTables {
    fn snapshot(
        &mut self,
        snapshot: &Snapshot,
        only: &[String],
        position: ChangePosition,
        take: &mut dyn FnMut(ChangeEvent) -> Done,
    ) -> Done {
        self.refresh()?;
        let engine = self.session.engine();
        // Earlier drops have no change after the snapshot.
        self.trees = engine.store().db().tree_names().into_iter().collect();
        self.by_tree.retain(|tree, _| self.trees.contains(tree));
        self.dropped = 0;
        let mut all: Vec<_> = self.by_tree.values().filter(|table| table.is_wanted(only)).collect();
        all.sort_by_key(|table| (&table.schema().keyspace, &table.schema().name));
        all.into_iter().try_for_each(|table| table.at(engine, snapshot)?.snapshot(position, take))
    }

    /// Passes an event for each known table that was dropped since the last call to `take`. Returns
    /// false if the change drops a tree that was never known, so that it may have been a table.
    fn drops(
        &mut self,
        change: &Change,
        only: &[String],
        position: ChangePosition,
        take: &mut dyn FnMut(ChangeEvent) -> Done,
    ) -> Done<bool> {
        let present: BTreeSet<String> =
            self.session.engine().store().db().tree_names().into_iter().collect();
        for tree in self.trees.difference(&present) {
            self.dropped += 1;
            if let Some(table) = self.by_tree.remove(tree).filter(|table| table.is_wanted(only)) {
                table.dropped(position, take)?;
            }
        }
        self.trees = present;
        let (first, last) = change.seqs().into_inner();
        let left = self.dropped.checked_sub(last - first + 1);
        self.dropped = left.unwrap_or(0);
        Ok(left.is_some())
    }

    fn events(
        &mut self,
        change: &Change,
        only: &[String],
        position: ChangePosition,
        take: &mut dyn FnMut(ChangeEvent) -> Done,
    ) -> Done {
        self.refresh()?;
        // Tables in the order in which the change names them.
        let mut changed: Vec<(&str, TableOps<'_>)> = vec![];
        for op in change.ops() {
            let tree = match op {
                BatchOp::Put { tree, .. }
                | BatchOp::Delete { tree, .. }
                | BatchOp::Merge { tree, .. }
                | BatchOp::DeleteRange { tree, .. } => tree,
                _ => continue,
            };
            let number = changed.iter().position(|(name, _)| *name == tree).unwrap_or_else(|| {
                changed.push((tree, TableOps::default()));
                changed.len() - 1
            });
            changed[number].1.add(&op);
        }
        for (name, ops) in changed {
            let table = self.by_tree.get(name).filter(|table| table.is_wanted(only));
            if let Some(table) = table {
                table.events(ops, position, take)?;
            }
        }
        Ok(())
    }

    /// Reads the schema again if it has changed. Dropped tables remain until their change is
    /// reported.
    fn refresh(&mut self) -> Done {
        let engine = self.session.engine();
        let catalog = engine.fresh_catalog().map_err(|e| cql_trouble(&e))?;
        if catalog.version() == self.version && !self.by_tree.is_empty() {
            return Ok(());
        }
        let is_known = |known: &ChangedTable, schema: &TableSchema| {
            known.schema().id == schema.id && known.schema().columns() == schema.columns()
        };
        self.trees.extend(engine.store().db().tree_names());
        for schema in catalog.tables().filter(|table| catalog.base_of(table).is_none()) {
            let family = engine.family(schema).map_err(|e| cql_trouble(&e))?;
            let tree = family.tree().name().to_owned();
            if !self.by_tree.get(&tree).is_some_and(|known| is_known(known, schema)) {
                self.by_tree.insert(tree, ChangedTable::new(engine, schema.clone(), family)?);
            }
        }
        self.version = catalog.version();
        Ok(())
    }
}
