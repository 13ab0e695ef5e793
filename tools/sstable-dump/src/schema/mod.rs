//! Definitions of the data model: the types of a tree, lost records, and the names of trees by their content.

pub mod definitions;
pub mod lost_records;
pub mod matching;
pub mod records;
pub mod typed;
