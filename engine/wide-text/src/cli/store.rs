//! The backend of a session: the database of this process, or a server with Thrift's interface.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use firn_wide::internals::schema::Schema;
use firn_wide::{
    CfDef, Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn, Error,
    IndexClause, KeyRange, KeySlice, KsDef, Registry, SlicePredicate, Wide,
};

/// An error of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CliTrouble {
    /// `NotFoundException`.
    NotFound,
    /// `InvalidRequestException`, with the reason.
    Invalid(String),
    /// Any other error of the engine or of the connection.
    Other(String),
}

impl fmt::Display for CliTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CliTrouble::NotFound => f.write_str("not found"),
            CliTrouble::Invalid(why) | CliTrouble::Other(why) => f.write_str(why),
        }
    }
}

impl From<Error> for CliTrouble {
    fn from(e: Error) -> CliTrouble {
        match e {
            Error::NotFound => CliTrouble::NotFound,
            Error::InvalidRequest(why) => CliTrouble::Invalid(why),
            other => CliTrouble::Other(other.to_string()),
        }
    }
}

/// Result of an operation.
pub type CliResult<T = ()> = Result<T, CliTrouble>;

/// The operations of the Thrift interface that a session needs, under the same names. Those about
/// rows have the keyspace as first argument.
#[allow(missing_docs)] // they are those of `firn_wide::Wide` and `Keyspace`
pub trait CliStore {
    /// Connects to another server; returns the text to print. `None`: not supported.
    fn connect(
        &self,
        host: &str,
        port: u32,
        login: Option<&(String, String)>,
    ) -> CliResult<Option<String>>;
    /// Reports whether the backend is a server.
    fn is_remote(&self) -> bool {
        false
    }
    /// Returns the known types.
    fn registry(&self) -> Arc<Registry>;
    /// Returns unique microseconds since 1970.
    fn timestamp(&self) -> i64;
    /// Sets the consistency level of reads and writes by name.
    fn set_consistency(&self, level: &str);
    /// Returns the resolved schema.
    fn schema(&self) -> CliResult<Schema>;
    fn describe_keyspaces(&self) -> CliResult<Vec<KsDef>>;
    fn describe_keyspace(&self, name: &str) -> CliResult<KsDef>;
    fn describe_cluster_name(&self) -> CliResult<String>;
    fn describe_version(&self) -> CliResult<String>;
    fn describe_snitch(&self) -> CliResult<String>;
    fn describe_partitioner(&self) -> CliResult<String>;
    fn describe_schema_versions(&self) -> CliResult<BTreeMap<String, Vec<String>>>;
    fn system_add_keyspace(&self, def: &KsDef) -> CliResult<String>;
    fn system_update_keyspace(&self, def: &KsDef) -> CliResult<String>;
    fn system_drop_keyspace(&self, name: &str) -> CliResult<String>;
    fn system_add_column_family(&self, def: &CfDef) -> CliResult<String>;
    fn system_update_column_family(&self, def: &CfDef) -> CliResult<String>;
    fn system_drop_column_family(&self, keyspace: &str, name: &str) -> CliResult<String>;
    fn get(&self, keyspace: &str, key: &[u8], path: &ColumnPath) -> CliResult<ColumnOrSuperColumn>;
    fn get_slice(
        &self,
        keyspace: &str,
        key: &[u8],
        parent: &ColumnParent,
        predicate: &SlicePredicate,
    ) -> CliResult<Vec<ColumnOrSuperColumn>>;
    fn get_count(&self, keyspace: &str, key: &[u8], parent: &ColumnParent) -> CliResult<i32>;
    fn get_range_slices(
        &self,
        keyspace: &str,
        parent: &ColumnParent,
        predicate: &SlicePredicate,
        range: &KeyRange,
    ) -> CliResult<Vec<KeySlice>>;
    fn get_indexed_slices(
        &self,
        keyspace: &str,
        parent: &ColumnParent,
        clause: &IndexClause,
        predicate: &SlicePredicate,
    ) -> CliResult<Vec<KeySlice>>;
    fn insert(
        &self,
        keyspace: &str,
        key: &[u8],
        parent: &ColumnParent,
        column: &Column,
    ) -> CliResult;
    fn add(
        &self,
        keyspace: &str,
        key: &[u8],
        parent: &ColumnParent,
        column: &CounterColumn,
    ) -> CliResult;
    fn remove(&self, keyspace: &str, key: &[u8], path: &ColumnPath, timestamp: i64) -> CliResult;
    fn remove_counter(&self, keyspace: &str, key: &[u8], path: &ColumnPath) -> CliResult;
    fn truncate(&self, keyspace: &str, family: &str) -> CliResult;
}

/// The database of this process.
impl CliStore for Wide {
    fn connect(&self, _: &str, _: u32, _: Option<&(String, String)>) -> CliResult<Option<String>> {
        Ok(None)
    }

    fn registry(&self) -> Arc<Registry> {
        Wide::registry(self)
    }

    fn timestamp(&self) -> i64 {
        Wide::timestamp(self)
    }

    fn set_consistency(&self, _: &str) {}

    fn schema(&self) -> CliResult<Schema> {
        Ok(Wide::schema(self))
    }

    fn describe_keyspaces(&self) -> CliResult<Vec<KsDef>> {
        Ok(Wide::describe_keyspaces(self))
    }

    fn describe_keyspace(&self, name: &str) -> CliResult<KsDef> {
        Ok(Wide::describe_keyspace(self, name)?)
    }

    fn describe_cluster_name(&self) -> CliResult<String> {
        Ok(Wide::describe_cluster_name(self).to_owned())
    }

    fn describe_version(&self) -> CliResult<String> {
        Ok(Wide::describe_version(self).to_owned())
    }

    fn describe_snitch(&self) -> CliResult<String> {
        Ok(Wide::describe_snitch(self).to_owned())
    }

    fn describe_partitioner(&self) -> CliResult<String> {
        Ok(Wide::describe_partitioner(self))
    }

    fn describe_schema_versions(&self) -> CliResult<BTreeMap<String, Vec<String>>> {
        Ok(Wide::describe_schema_versions(self))
    }

    fn system_add_keyspace(&self, def: &KsDef) -> CliResult<String> {
        Ok(Wide::system_add_keyspace(self, def)?.to_string())
    }

    fn system_update_keyspace(&self, def: &KsDef) -> CliResult<String> {
        Ok(Wide::system_update_keyspace(self, def)?.to_string())
    }

    fn system_drop_keyspace(&self, name: &str) -> CliResult<String> {
        Ok(Wide::system_drop_keyspace(self, name)?.to_string())
    }

    fn system_add_column_family(&self, def: &CfDef) -> CliResult<String> {
        Ok(Wide::system_add_column_family(self, def)?.to_string())
    }

    fn system_update_column_family(&self, def: &CfDef) -> CliResult<String> {
        Ok(Wide::system_update_column_family(self, def)?.to_string())
    }

    fn system_drop_column_family(&self, keyspace: &str, name: &str) -> CliResult<String> {
        Ok(Wide::system_drop_column_family(self, keyspace, name)?.to_string())
    }

    fn get(&self, keyspace: &str, key: &[u8], path: &ColumnPath) -> CliResult<ColumnOrSuperColumn> {
        Ok(self.keyspace(keyspace)?.get(key, path)?)
    }

    fn get_slice(
        &self,
        keyspace: &str,
        key: &[u8],
        parent: &ColumnParent,
        predicate: &SlicePredicate,
    ) -> CliResult<Vec<ColumnOrSuperColumn>> {
        Ok(self.keyspace(keyspace)?.get_slice(key, parent, predicate)?)
    }

    fn get_count(&self, keyspace: &str, key: &[u8], parent: &ColumnParent) -> CliResult<i32> {
        Ok(self.keyspace(keyspace)?.get_count(key, parent, &SlicePredicate::all())?)
    }

    fn get_range_slices(
        &self,
        keyspace: &str,
        parent: &ColumnParent,
        predicate: &SlicePredicate,
        range: &KeyRange,
    ) -> CliResult<Vec<KeySlice>> {
        Ok(self.keyspace(keyspace)?.get_range_slices(parent, predicate, range)?)
    }

    fn get_indexed_slices(
        &self,
        keyspace: &str,
        parent: &ColumnParent,
        clause: &IndexClause,
        predicate: &SlicePredicate,
    ) -> CliResult<Vec<KeySlice>> {
        Ok(self.keyspace(keyspace)?.get_indexed_slices(parent, clause, predicate)?)
    }

    fn insert(
        &self,
        keyspace: &str,
        key: &[u8],
        parent: &ColumnParent,
        column: &Column,
    ) -> CliResult {
        Ok(self.keyspace(keyspace)?.insert(key, parent, column)?)
    }

    fn add(
        &self,
        keyspace: &str,
        key: &[u8],
        parent: &ColumnParent,
        column: &CounterColumn,
    ) -> CliResult {
        Ok(self.keyspace(keyspace)?.add(key, parent, column)?)
    }

    fn remove(&self, keyspace: &str, key: &[u8], path: &ColumnPath, timestamp: i64) -> CliResult {
        Ok(self.keyspace(keyspace)?.remove(key, path, timestamp)?)
    }

    fn remove_counter(&self, keyspace: &str, key: &[u8], path: &ColumnPath) -> CliResult {
        Ok(self.keyspace(keyspace)?.remove_counter(key, path)?)
    }

    fn truncate(&self, keyspace: &str, family: &str) -> CliResult {
        Ok(self.keyspace(keyspace)?.truncate(family)?)
    }
}
