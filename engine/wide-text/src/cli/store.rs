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

/// Defines the operations: those of the database, and those about rows of a keyspace.
macro_rules! operations {
    (
        $(fn $of_wide:ident($($a:ident: $ta:ty),*) -> $ra:ty $(= |$found:ident| $convert:expr)?;)*
        keyspace:
        $(fn $of_keyspace:ident($($b:ident: $tb:ty),*) -> $rb:ty;)*
    ) => {
        /// The operations of the Thrift interface that a session needs, under the same names. Those
        /// about rows have the keyspace as first argument.
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
            /// Counts the columns of a row, or of a super column.
            fn get_count(&self, keyspace: &str, key: &[u8], parent: &ColumnParent) -> CliResult<i32>;
            $(fn $of_wide(&self, $($a: $ta),*) -> CliResult<$ra>;)*
            $(fn $of_keyspace(&self, keyspace: &str, $($b: $tb),*) -> CliResult<$rb>;)*
        }

        /// The database of this process.
        impl CliStore for Wide {
            fn connect(
                &self,
                _: &str,
                _: u32,
                _: Option<&(String, String)>,
            ) -> CliResult<Option<String>> {
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

            fn get_count(&self, keyspace: &str, key: &[u8], parent: &ColumnParent) -> CliResult<i32> {
                Ok(self.keyspace(keyspace)?.get_count(key, parent, &SlicePredicate::all())?)
            }

            $(fn $of_wide(&self, $($a: $ta),*) -> CliResult<$ra> {
                let found = Wide::$of_wide(self, $($a),*);
                $(let $found = found; let found = $convert;)?
                Ok(found)
            })*
            $(fn $of_keyspace(&self, keyspace: &str, $($b: $tb),*) -> CliResult<$rb> {
                Ok(self.keyspace(keyspace)?.$of_keyspace($($b),*)?)
            })*
        }
    };
}

operations! {
    fn describe_keyspaces() -> Vec<KsDef>;
    fn describe_keyspace(name: &str) -> KsDef = |found| found?;
    fn describe_cluster_name() -> String = |name| name.to_owned();
    fn describe_version() -> String = |version| version.to_owned();
    fn describe_snitch() -> String = |class| class.to_owned();
    fn describe_partitioner() -> String;
    fn describe_schema_versions() -> BTreeMap<String, Vec<String>>;
    fn system_add_keyspace(def: &KsDef) -> String = |version| version?.to_string();
    fn system_update_keyspace(def: &KsDef) -> String = |version| version?.to_string();
    fn system_drop_keyspace(name: &str) -> String = |version| version?.to_string();
    fn system_add_column_family(def: &CfDef) -> String = |version| version?.to_string();
    fn system_update_column_family(def: &CfDef) -> String = |version| version?.to_string();
    fn system_drop_column_family(keyspace: &str, name: &str) -> String = |version| version?.to_string();

    keyspace:
    fn get(key: &[u8], path: &ColumnPath) -> ColumnOrSuperColumn;
    fn get_slice(key: &[u8], parent: &ColumnParent, predicate: &SlicePredicate) -> Vec<ColumnOrSuperColumn>;
    fn get_range_slices(parent: &ColumnParent, predicate: &SlicePredicate, range: &KeyRange) -> Vec<KeySlice>;
    fn get_indexed_slices(parent: &ColumnParent, clause: &IndexClause, predicate: &SlicePredicate) -> Vec<KeySlice>;
    fn insert(key: &[u8], parent: &ColumnParent, column: &Column) -> ();
    fn add(key: &[u8], parent: &ColumnParent, column: &CounterColumn) -> ();
    fn remove(key: &[u8], path: &ColumnPath, timestamp: i64) -> ();
    fn remove_counter(key: &[u8], path: &ColumnPath) -> ();
    fn truncate(family: &str) -> ();
}
