//! What an open store holds: parts that own their state, and know nothing of what is done with
//! them. [`core`] puts them together.

pub mod budget;
pub mod catalog;
pub mod core;
pub mod counters;
pub mod events;
pub mod gate;
pub mod hands;
pub mod log;
pub mod looks;
pub mod memtable;
pub mod meters;
pub mod pace;
pub mod pins;
pub mod snapshots;
pub mod throttle;
pub mod tree;
pub mod trees;
pub mod values;
pub mod view;
pub mod work;
