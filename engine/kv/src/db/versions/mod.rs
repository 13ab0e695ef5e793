//! Live files: manifest, trees, versions of trees, snapshots.

pub mod catalog;
pub mod live_blobs;
pub mod open_trees;
pub mod snapshots;
pub mod tree;
pub mod view;
