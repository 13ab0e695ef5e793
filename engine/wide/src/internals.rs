//! The rooms of the model, for CQL, for the tools that look into stores, the benches and the
//! fuzzers.
//!
//! **Nothing here is promised.** Names, signatures and behaviour change with any release, also with
//! a patch; an application takes what it needs from the crate's root, where names stay. Rooms are
//! modules of the crate; a module imports only lower floors: [`base`], [`types`], [`ring`] (0) <
//! [`key`], [`cell`] (where cells know keys), [`schema`] (1) < [`store`] (2) < [`api`] (3).

/// Floor 3: Thrift's operations and the builder.
pub mod api {
    pub use crate::api::*;
}
/// Floor 0: errors.
pub mod base {
    pub use crate::base::*;
}
/// Floor 1: what a family stores, and what compactions may forget of it.
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
/// Floor 1: definitions, resolved, and their stored form.
pub mod schema {
    pub use crate::schema::*;
}
/// Floor 2: one open store.
pub mod store {
    pub use crate::store::*;
}
/// Floor 0: comparators and validators.
pub mod types {
    pub use crate::types::*;
}
