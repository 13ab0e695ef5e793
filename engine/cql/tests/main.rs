//! Integration tests of CQL, one module for each subject.

mod auto_traits;
mod both;
mod changes;
mod common;
mod compact;
mod concurrent;
mod definitions;
mod families;
mod floors;
#[cfg(feature = "rhai")]
mod functions;
mod golden;
mod histories;
mod indexes_random;
mod keys_only;
mod limits;
mod living;
mod longest;
mod lost;
mod materialized;
#[cfg(feature = "derive")]
#[path = "../examples/music.rs"]
#[allow(dead_code, reason = "a program, of which the tests are run here")]
mod music;
mod productions;
mod public_api;
mod released;
mod reproducible;
#[cfg(feature = "passwords")]
mod roles;
#[cfg(feature = "derive")]
mod rows;
mod select;
mod select_random;
mod servers;
mod statement_cache;
mod statement_log;
mod stored;
mod system;
mod text;
mod trees;
mod values;
mod vectors;
mod windows;
