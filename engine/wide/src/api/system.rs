//! Definitions and descriptions: `system_*` and `describe_*`.
//!
//! Families are created and indexes built before their definitions are recorded, durably, and seen:
//! one that can't be built is refused, and a crash leaves trees that the next opening drops. What
//! is dropped is unseen before its data goes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_kv::{Batch, Durability};
use uuid::Uuid;

use super::range::{minimum_token, token_ranges};
use super::state::ApiState;
use super::{Keyspace, TokenRange, Wide};
use crate::base::error::{Error, Result};
use crate::schema::{CfDef, KsDef, Schema, SchemaDiff, TableNumbers, already_there};
use crate::store::DroppedFamilies;

/// The version of Thrift's interface that has all of the operations.
const API_VERSION: &str = "20.1.0";
/// The one endpoint of the ring.
const ENDPOINT: &str = "127.0.0.1";

impl Wide {
    /// Makes the definitions those of `change`. The new version.
    fn change(&self, change: impl FnOnce(&Schema) -> Result<Schema>) -> Result<Uuid> {
        let _alone = self.shared.changes.lock();
        let before = self.state();
        let schema = change(&before.schema)?;
        let diff = before.schema.diff(&schema);
        let store = &self.store;
        diff.added_families.iter().try_for_each(|f| store.check_new(f.id()))?;
        let after = match ApiState::open(
            schema,
            store,
            self.shared.partitioner,
            self.shared.memtable_size,
            Some(&before),
        ) {
            Ok(after) => after,
            Err(e) => {
                self.take_back(&before, &diff);
                return Err(e);
            }
        };
        let mut batch = Batch::new();
        for (key, value) in &diff.records {
            store.put_record(&mut batch, key.as_ref(), value.as_deref())?;
        }
        for family in &diff.dropped_families {
            store.note_dropped(&mut batch, DroppedFamilies::Family(family.id()))?;
        }
        let lacks = |schema: &Schema, name: &str| schema.keyspace(name).is_err();
        for gone in before.schema.keyspaces().filter(|k| lacks(&after.schema, k.name())) {
            store.note_dropped(&mut batch, DroppedFamilies::Keyspace(gone.name()))?;
        }
        store.db().with(Durability::Power).write(batch)?;
        let version = after.schema.version();
        *self.shared.state.write() = Arc::new(after);
        self.shared.serial.fetch_add(1, Ordering::Release);
        for family in &diff.dropped_families {
            store.drop_family(family.id())?;
        }
        Ok(version)
    }

    /// Makes the open families those of the definitions of before again, as far as it can be done:
    /// the reason why not is told already. Nobody stops this.
    fn take_back(&self, before: &ApiState, diff: &SchemaDiff) {
        let store = self.store.unstoppable();
        for family in diff.added_families.iter().filter(|f| store.family(f.id()).is_some()) {
            store.drop_family(family.id()).ok();
        }
        ApiState::open(
            before.schema.clone(),
            &store,
            self.shared.partitioner,
            self.shared.memtable_size,
            None,
        )
        .ok();
    }

    /// Adds a keyspace with its families. The new schema version.
    ///
    /// # Errors
    /// `InvalidRequest` for a definition that can't be; nothing is defined then.
    pub fn system_add_keyspace(&self, def: &KsDef) -> Result<Uuid> {
        self.change(|s| s.add_keyspace(def))
    }

    /// Changes a keyspace's own attributes. The new schema version.
    ///
    /// # Errors
    /// As [`system_add_keyspace`](Wide::system_add_keyspace); it must be there, and `cf_defs` must
    /// be empty.
    pub fn system_update_keyspace(&self, def: &KsDef) -> Result<Uuid> {
        self.change(|s| s.update_keyspace(def))
    }

    /// Drops a keyspace with all its families. The new schema version.
    ///
    /// # Errors
    /// `InvalidRequest` when there is none; errors of the engine.
    pub fn system_drop_keyspace(&self, name: &str) -> Result<Uuid> {
        self.change(|s| s.drop_keyspace(name))
    }

    /// Adds a family. The new schema version.
    ///
    /// # Errors
    /// As [`system_add_keyspace`](Wide::system_add_keyspace).
    pub fn system_add_column_family(&self, def: &CfDef) -> Result<Uuid> {
        let names = self.shared.names.read().clone();
        let is_taken = names.is_some_and(|is_taken| is_taken(&def.keyspace, &def.name));
        self.change(|s| {
            let changed = s.add_family(def)?;
            if is_taken { Err(already_there(&def.keyspace, &def.name)) } else { Ok(changed) }
        })
    }

    /// Makes a family's definition this one. Returns when new indexes have been built over what is
    /// there. The new schema version.
    ///
    /// # Errors
    /// As [`system_add_keyspace`](Wide::system_add_keyspace); `InvalidRequest` also for what can't
    /// change, and `Stopped`, by a [`stoppable`](Wide::stoppable) handle: the definition is what it
    /// was then, and of the index nothing is left.
    pub fn system_update_column_family(&self, def: &CfDef) -> Result<Uuid> {
        self.change(|s| s.update_family(def))
    }

    /// Makes a family of a compact table of CQL, or makes its definition this one: for CQL, which
    /// has given the numbers, and sets the options of the tree. Without promises, as
    /// [`schema`](Wide::schema).
    ///
    /// # Errors
    /// As [`system_update_column_family`](Wide::system_update_column_family).
    pub fn system_put_table(&self, def: &CfDef, numbers: &TableNumbers) -> Result<Uuid> {
        self.change(|s| s.put_table(def, numbers))
    }

    /// Drops a family with its rows and indexes. The new schema version.
    ///
    /// # Errors
    /// `InvalidRequest` when there is none; errors of the engine.
    pub fn system_drop_column_family(&self, keyspace: &str, name: &str) -> Result<Uuid> {
        self.change(|s| s.drop_family(keyspace, name))
    }

    /// The definitions of all keyspaces, by name.
    pub fn describe_keyspaces(&self) -> Vec<KsDef> {
        self.state().schema.keyspaces().map(|k| k.def()).collect()
    }

    /// The definition of a keyspace.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub fn describe_keyspace(&self, name: &str) -> Result<KsDef> {
        self.state().schema.keyspace(name).map(|k| k.def()).map_err(|_| Error::NotFound)
    }

    /// The name that was given to the database.
    pub fn describe_cluster_name(&self) -> &str {
        &self.shared.cluster_name
    }

    /// The version of Thrift's interface whose operations these are.
    pub fn describe_version(&self) -> &'static str {
        API_VERSION
    }

    /// The version of the schema and who has it.
    pub fn describe_schema_versions(&self) -> BTreeMap<String, Vec<String>> {
        BTreeMap::from([(self.state().schema.version().to_string(), vec![ENDPOINT.into()])])
    }

    /// The partitioner's class.
    pub fn describe_partitioner(&self) -> String {
        self.shared.partitioner.full_name()
    }

    /// The class that would tell which nodes are near: there is one.
    pub fn describe_snitch(&self) -> &'static str {
        "org.apache.cassandra.locator.SimpleSnitch"
    }

    /// The one node's part of the ring: all of it.
    ///
    /// # Errors
    /// `InvalidRequest` when there is no such keyspace.
    pub fn describe_ring(&self, keyspace: &str) -> Result<Vec<TokenRange>> {
        self.state().schema.keyspace(keyspace)?;
        let token = minimum_token(self.shared.partitioner).to_owned();
        Ok(vec![TokenRange {
            start_token: token.clone(),
            end_token: token,
            endpoints: vec![ENDPOINT.into()],
        }])
    }

    /// The one node by its token.
    pub fn describe_token_map(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(minimum_token(self.shared.partitioner).to_owned(), ENDPOINT.into())])
    }
}

impl Keyspace {
    /// Tokens that divide the rows after `start_token`, up to `end_token`, into parts of about this
    /// many rows, with both of these.
    ///
    /// # Errors
    /// `InvalidRequest` for a family that isn't there, or tokens that are none; errors of the
    /// engine. It reads all keys of the range.
    pub fn describe_splits(
        &self,
        column_family: &str,
        start_token: &str,
        end_token: &str,
        keys_per_split: i32,
    ) -> Result<Vec<String>> {
        let (table, partitioner) = (self.table(column_family)?, self.wide.shared.partitioner);
        let ranges = token_ranges(partitioner, start_token, end_token)?;
        let mut splits = vec![start_token.to_owned()];
        let view = self.store().view();
        let mut rows = 0;
        for range in &ranges {
            let mut reader = view.scan(&table.cells, range, &crate::store::StoreSlice::rows())?;
            while reader.next_partition()? {
                rows += 1;
                if rows >= keys_per_split.max(1) {
                    splits.push(partitioner.token_text(&partitioner.token(reader.key())?));
                    rows = 0;
                }
            }
        }
        if splits.len() > 1 && rows == 0 {
            splits.pop();
        }
        splits.push(end_token.to_owned());
        Ok(splits)
    }
}
