//! Commands for whole stores and trees: `firn trees`, `set-options`, `drop-tree`, `compact`,
//! `checkpoint`, `backup`, `verify` and `advise`.

pub mod advise;
pub mod backup;
pub mod trees;
pub mod verify;
pub mod whole;
