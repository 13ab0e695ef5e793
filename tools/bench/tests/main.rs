//! Integration tests of the benches, one module a subject.

mod command;
mod floors;
