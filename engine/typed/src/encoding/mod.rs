//! Keys of the standard library's types.

mod simple;
mod strings;
mod tuples;
