//! Modules of the data model, for CQL, tools that inspect stores, benchmarks and fuzzers.
//!
//! **Nothing here is stable.** Names, signatures and behaviour may change with any release,
//! including a patch release. Applications should use the crate's root, whose API is stable. A
//! module imports only modules of lower floors: [`base`], [`types`], [`ring`] (0) < [`key`],
//! [`cell`] (which uses keys), [`schema`] (1) < [`store`] (2) < [`api`] (3).

/// Floor 3: Thrift's operations and the builder.
pub mod api {
    pub use crate::api::*;
}
/// Floor 0: errors.
pub mod base {
    pub use crate::base::*;
}
/// Floor 1: cells of families, and compaction filters.
pub mod cell {
    pub use crate::cell::*;
}
/// Floor 1: the layout of keys.
pub mod key {
    pub use crate::key::*;
}
/// Floor 0: partitioners and tokens.
pub mod ring {
    pub use crate::ring::*;
}
/// Floor 1: resolved definitions, and their stored form.
pub mod schema {
    pub use crate::schema::*;
}
/// Floor 2: an open store.
pub mod store {
    pub use crate::store::*;
}
/// Floor 0: comparators and validators.
pub mod types {
    pub use crate::types::*;
}
