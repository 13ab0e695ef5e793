//! Tests of typed trees.

mod allocations;
mod derive;
mod files;
mod format;
mod model;
mod order;
mod tree;
