//! Implements interfaces of other stores on Firn, to run the published tests of these interfaces.
//!
//! No tests are copied: they come from the packages of the registry. It is a separate workspace, so
//! that building Firn does not build them.

pub mod kvdb;
