//! Modules of the language, for shells, tools that inspect stores, benchmarks and fuzzers.
//!
//! **Nothing here is stable.** Names, signatures and behaviour may change with any release,
//! including a patch release. Applications should use the crate's root, whose API is stable. A
//! module imports only modules of lower floors: [`syntax`], [`error`], [`script`] (0) <
//! [`catalog`], [`values`] (1) < [`analysis`] (2) < [`exec`] (3) < [`session`] (4).

/// Floor 2: analysis of WHERE clauses.
pub mod analysis {
    pub use crate::analysis::*;
}
/// Floor 1: schema definitions.
pub mod catalog {
    pub use crate::catalog::*;
}
/// Floor 0: error classes.
pub mod error {
    pub use crate::error::*;
}
/// Floor 3: execution of statements.
pub mod exec {
    pub use crate::exec::*;
}
/// Floor 0: the language of function bodies.
pub mod script {
    pub use crate::script::*;
}
/// Floor 4: the API of applications.
pub mod session {
    pub use crate::session::*;
}
/// Floor 0: CQL text to syntax trees and back. It has no access to the schema and does not resolve
/// names and types.
pub mod syntax {
    pub use crate::syntax::*;
}
/// Floor 1: terms, values and functions.
pub mod values {
    pub use crate::values::*;
}
