//! Integration tests of the data model, one module for each subject.

mod api;
mod attributes;
mod calls;
mod common;
mod comparators;
mod floors;
mod longest;
mod model;
mod public_api;
mod schema;
mod store;
mod threads;
mod thrift_vectors;
mod types;
mod validation;
mod vectors;
