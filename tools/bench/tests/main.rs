//! Integration tests of the benches, one module for each subject.

mod command;
mod floors;
