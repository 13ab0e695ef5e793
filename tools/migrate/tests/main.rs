//! Integration tests of migrations, one module for each subject.

mod cluster_export;
mod common;
mod floors;
mod follow;
mod from;
mod statements;
