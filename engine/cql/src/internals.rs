//! The rooms of the language, for the shells, the tools that look into stores, the benches and the
//! fuzzers.
//!
//! **Nothing here is promised.** Names, signatures and behaviour change with any release, also with
//! a patch; an application takes what it needs from the crate's root, where names stay. Rooms are
//! modules of the crate; a module imports only lower floors: [`syntax`], [`error`], [`script`] (0) <
//! [`catalog`], [`values`] (1) < [`analysis`] (2) < [`exec`] (3) < [`session`] (4).

/// Floor 2: what a WHERE clause asks for.
pub mod analysis {
    pub use crate::analysis::*;
}
/// Floor 1: what is defined.
pub mod catalog {
    pub use crate::catalog::*;
}
/// Floor 0: the classes of errors.
pub mod error {
    pub use crate::error::*;
}
/// Floor 3: statements carried out.
pub mod exec {
    pub use crate::exec::*;
}
/// Floor 0: the language of bodies.
pub mod script {
    pub use crate::script::*;
}
/// Floor 4: what an application uses.
pub mod session {
    pub use crate::session::*;
}
/// Floor 0: text to a syntax tree and back. It knows of no schema; names and types are only
/// spelled, not looked up.
pub mod syntax {
    pub use crate::syntax::*;
}
/// Floor 1: terms, values, functions.
pub mod values {
    pub use crate::values::*;
}
