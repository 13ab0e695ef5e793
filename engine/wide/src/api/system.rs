//! Schema changes and descriptions: `system_*` and `describe_*`.
//!
//! Families are created and indexes built before their definitions are recorded durably and become
//! visible. If building fails, the change is refused; after a crash the next opening drops
//! unfinished trees. A dropped object becomes invisible before its data is dropped.

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

/// Version of Thrift's interface with all of the operations.
const API_VERSION: &str = "20.1.0";
/// The only endpoint of the ring.
const ENDPOINT: &str = "127.0.0.1";

impl Wide {
    /// Applies a schema change and returns the new version.
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
                self.revert_families(&before, &diff);
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
        store.db().with_durability(Durability::Power).write(batch)?;
        let version = after.schema.version();
        *self.shared.state.write() = Arc::new(after);
        self.shared.serial.fetch_add(1, Ordering::Release);
        for family in &diff.dropped_families {
            store.drop_family(family.id())?;
        }
        Ok(version)
    }

    /// Reverts the open families to the definitions of `before`, as far as possible. The error that
    /// caused this is already reported. It cannot be stopped.
    fn revert_families(&self, before: &ApiState, diff: &SchemaDiff) {
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

    /// Creates a keyspace with its families. Returns the new schema version.
    ///
    /// # Errors
    /// `InvalidRequest` for an invalid definition. Then nothing is defined.
    pub fn system_add_keyspace(&self, def: &KsDef) -> Result<Uuid> {
        self.change(|s| s.add_keyspace(def))
    }

    /// Changes the attributes of a keyspace. Returns the new schema version.
    ///
    /// # Errors
    /// Those of [`system_add_keyspace`](Wide::system_add_keyspace). The keyspace must exist, and
    /// `cf_defs` must be empty.
    pub fn system_update_keyspace(&self, def: &KsDef) -> Result<Uuid> {
        self.change(|s| s.update_keyspace(def))
    }

    /// Drops a keyspace with all its families. Returns the new schema version.
    ///
    /// # Errors
    /// `InvalidRequest` if there is none; errors of the engine.
    pub fn system_drop_keyspace(&self, name: &str) -> Result<Uuid> {
        self.change(|s| s.drop_keyspace(name))
    }

    /// Creates a family. Returns the new schema version.
    ///
    /// # Errors
    /// Those of [`system_add_keyspace`](Wide::system_add_keyspace).
    pub fn system_add_column_family(&self, def: &CfDef) -> Result<Uuid> {
        let names = self.shared.names.read().clone();
        let is_taken = names.is_some_and(|is_taken| is_taken(&def.keyspace, &def.name));
        self.change(|s| {
            let changed = s.add_family(def)?;
            if is_taken { Err(already_there(&def.keyspace, &def.name)) } else { Ok(changed) }
        })
    }

    /// Changes the definition of a family. Returns the new schema version, after new indexes have
    /// been built over the existing data.
    ///
    /// # Errors
    /// Those of [`system_add_keyspace`](Wide::system_add_keyspace); `InvalidRequest` also for
    /// attributes that cannot change; `Stopped` with a [`stoppable`](Wide::stoppable) handle. Then
    /// the definition is unchanged, and nothing remains of the index.
    pub fn system_update_column_family(&self, def: &CfDef) -> Result<Uuid> {
        self.change(|s| s.update_family(def))
    }

    /// Creates or changes the family of a compact table of CQL. CQL has assigned the ids, and sets
    /// the options of the tree. Without stability promises, like [`schema`](Wide::schema).
    ///
    /// # Errors
    /// Those of [`system_update_column_family`](Wide::system_update_column_family).
    #[doc(hidden)]
    pub fn system_put_table(&self, def: &CfDef, numbers: &TableNumbers) -> Result<Uuid> {
        self.change(|s| s.put_table(def, numbers))
    }

    /// Drops a family with its rows and indexes. Returns the new schema version.
    ///
    /// # Errors
    /// `InvalidRequest` if there is none; errors of the engine.
    pub fn system_drop_column_family(&self, keyspace: &str, name: &str) -> Result<Uuid> {
        self.change(|s| s.drop_family(keyspace, name))
    }

    /// Returns the definitions of all keyspaces by name.
    pub fn describe_keyspaces(&self) -> Vec<KsDef> {
        self.state().schema.keyspaces().map(|k| k.def()).collect()
    }

    /// Returns the definition of a keyspace.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn describe_keyspace(&self, name: &str) -> Result<KsDef> {
        self.state().schema.keyspace(name).map(|k| k.def()).map_err(|_| Error::NotFound)
    }

    /// Returns the cluster name of the database.
    pub fn describe_cluster_name(&self) -> &str {
        &self.shared.cluster_name
    }

    /// Returns the version of Thrift's interface that is implemented.
    pub fn describe_version(&self) -> &'static str {
        API_VERSION
    }

    /// Returns the version of the schema and its endpoints.
    pub fn describe_schema_versions(&self) -> BTreeMap<String, Vec<String>> {
        BTreeMap::from([(self.state().schema.version().to_string(), vec![ENDPOINT.into()])])
    }

    /// Returns the partitioner's class.
    pub fn describe_partitioner(&self) -> String {
        self.shared.partitioner.full_name()
    }

    /// Returns the class of the snitch. There is only one node.
    pub fn describe_snitch(&self) -> &'static str {
        "org.apache.cassandra.locator.SimpleSnitch"
    }

    /// Returns the only node's part of the ring, which is all of it.
    ///
    /// # Errors
    /// `InvalidRequest` if there is no such keyspace.
    pub fn describe_ring(&self, keyspace: &str) -> Result<Vec<TokenRange>> {
        self.state().schema.keyspace(keyspace)?;
        let token = minimum_token(self.shared.partitioner).to_owned();
        Ok(vec![TokenRange {
            start_token: token.clone(),
            end_token: token,
            endpoints: vec![ENDPOINT.into()],
        }])
    }

    /// Returns the only node by its token.
    pub fn describe_token_map(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(minimum_token(self.shared.partitioner).to_owned(), ENDPOINT.into())])
    }
}

impl Keyspace {
    /// Returns tokens that split the rows after `start_token`, up to `end_token`, into parts of
    /// about this many rows. Both given tokens are included.
    ///
    /// # Errors
    /// `InvalidRequest` for an unknown family or invalid tokens; errors of the engine. It reads all
    /// keys of the range.
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
