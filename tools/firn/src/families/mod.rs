//! Commands for keyspaces and column families: `firn define`, `demo`, `export`, `import` and
//! `purge-report`.

pub mod define;
pub mod demo;
pub mod json;
pub mod model;
pub mod purge;
