//! Floor 1: the schema: which keyspaces, column families, columns and indexes there are (model 2.5,
//! 2.6, 2.9 to 2.11, 6).
//!
//! - [`KsDef`], [`CfDef`], [`ColumnDef`]: definitions as clients give and get them, types by name.
//! - [`Schema`]: what is defined, checked and resolved: [`KeyspaceSchema`], [`Family`],
//!   [`SchemaColumn`], [`Index`]. It never changes: every change makes a new one or refuses with
//!   the text of the article's servers. A store keeps the present one behind an `Arc`.
//! - [`Schema::records`], [`Schema::from_records`], [`Schema::diff`]: the stored form.
//!
//! Invariants of a [`Schema`]: keyspaces are unique whatever the case; names of indexes are unique
//! in a keyspace; the numbers of families and indexes are unique, below the next one to be given,
//! and never reused, so that what is dropped and created again is another thing. A family that is a
//! table of CQL too has numbers that CQL gives ([`FOREIGN_IDS`]); CQL alone changes it.

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
