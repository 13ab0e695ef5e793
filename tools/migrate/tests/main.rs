//! Integration tests of migrations, one module a subject.

mod common;
mod floors;
mod follow;
mod from;
mod outward;
mod statements;
