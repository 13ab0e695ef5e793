//! Converts changes of a store into events.
//!
//! Invariants:
//! - Each operation on a tree that is no table, and each changed row, range and partition of a
//!   table, is one event. Indexes, materialized views and the schema itself have no events.
//! - The events of a change have its position, and are in the order of its operations. Those of a
//!   table are in its order.

use std::collections::BTreeMap;
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
}

/// Tables of a store with the data model.
struct DecodedTables {
    session: Session,
    /// Version of the schema of `by_tree`.
    version: u64,
    by_tree: BTreeMap<String, ChangedTable>,
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
        ChangeDecoder { tables: None, hex }
    }

    /// Creates the decoder of a store with the data model: its tables have events of rows.
    pub fn of_tables(session: Session) -> ChangeDecoder {
        let tables = DecodedTables { session, version: 0, by_tree: BTreeMap::new() };
        ChangeDecoder { tables: Some(tables), hex: false }
    }

    /// Passes an event for each key and row of a snapshot of `db` to `take`. `position` is that of
    /// the snapshot. Nobody else may write meanwhile.
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
        if let Some(tables) = &mut self.tables {
            tables.refresh()?;
            let mut all: Vec<_> = tables.by_tree.values().collect();
            all.sort_by_key(|table| (&table.schema().keyspace, &table.schema().name));
            return all.into_iter().try_for_each(|table| table.snapshot(position, take));
        }
        for name in db.tree_names() {
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
        let event = |source, kind, key: JsonFields, columns: JsonFields| ChangeEvent {
            position,
            source,
            kind,
            timestamp: None,
            key,
            columns,
            facts: vec![],
        };
        if change.is_loaded() {
            return take(event(ChangeSource::Store, ChangeKind::Load, vec![], vec![]));
        }
        if let Some(tables) = &mut self.tables {
            return tables.events(change, position, take);
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
            let expires = expires_micros.map(|at| ("expires".to_owned(), at.to_string()));
            made.facts.extend(expires);
            take(made)?;
        }
        Ok(())
    }
}

impl DecodedTables {
    fn events(
        &mut self,
        change: &Change,
        position: ChangePosition,
        take: &mut dyn FnMut(ChangeEvent) -> Done,
    ) -> Done {
        if change.trees().any(|(name, _)| !self.by_tree.contains_key(name)) {
            self.refresh()?;
        }
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
            let table = self.by_tree.get(name);
            if let Some(table) = table {
                table.events(ops, position, take)?;
            }
        }
        Ok(())
    }

    /// Reads the schema again if it has changed.
    fn refresh(&mut self) -> Done {
        let engine = self.session.engine();
        let catalog = engine.fresh_catalog().map_err(|e| cql_trouble(&e))?;
        if catalog.version() == self.version && !self.by_tree.is_empty() {
            return Ok(());
        }
        let is_known = |known: &ChangedTable, schema: &TableSchema| {
            known.schema().id == schema.id && known.schema().columns() == schema.columns()
        };
        let mut before = std::mem::take(&mut self.by_tree);
        for schema in catalog.tables().filter(|table| catalog.base_of(table).is_none()) {
            let family = engine.family(schema).map_err(|e| cql_trouble(&e))?;
            let tree = family.tree().name().to_owned();
            let known = before.remove(&tree).filter(|known| is_known(known, schema));
            let table = match known {
                Some(known) => known,
                None => ChangedTable::new(engine, schema.clone(), family)?,
            };
            self.by_tree.insert(tree, table);
        }
        self.version = catalog.version();
        Ok(())
    }
}
