//! Integration tests of migrations, one module for each subject.

mod common;
mod floors;
mod follow;
mod from;
mod outward;
mod statements;
