//! Floor 1: the schema: keyspaces, column families, columns and indexes (model 2.5, 2.6, 2.9 to
//! 2.11, 6).
//!
//! - [`KsDef`], [`CfDef`], [`ColumnDef`]: definitions in the form that clients use, with types as
//!   names.
//! - [`Schema`]: validated and resolved definitions: [`KeyspaceSchema`], [`Family`],
//!   [`SchemaColumn`], [`Index`]. It is immutable: a change returns a new one, or an error with
//!   Cassandra's text. A store has the current one in an `Arc`.
//! - [`Schema::records`], [`Schema::from_records`], [`Schema::diff`]: the stored form.
//!
//! Invariants of a [`Schema`]:
//! - Names of keyspaces are unique regardless of case; names of indexes are unique in a keyspace.
//! - Ids of families and indexes are unique, below the next id, and never reused. So an object that
//!   is dropped and created again is a new one.
//! - A family that is also a CQL table has ids assigned by CQL ([`FOREIGN_IDS`]); only CQL changes
//!   it.

mod change;
mod comparators;
mod def;
mod family;
mod record;
mod rules;
mod state;
mod storage;
mod typing;

pub use change::{SchemaDiff, TableNumbers, already_there};
pub use comparators::{COMPARATORS, ComparatorRecord, language_of, register_scripts};
pub use def::{CfDef, ColumnDef, FOREIGN_IDS, IndexType, KsDef};
pub use family::{Family, FamilyKind, Index, SchemaColumn};
pub use record::RECORD_PREFIX;
pub use rules::MAX_TTL;
pub use state::{KeyspaceSchema, Schema};
pub use storage::{filter_of_chance, leveled, size_tiered};
pub use typing::{NO_SUCH_TYPE, OWN_TYPES, Registry, Type, UnknownType, lookup};
