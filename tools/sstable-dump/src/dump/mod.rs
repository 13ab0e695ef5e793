//! Commands that print the content of files.

pub mod cassandra;
pub mod filters;
pub mod find;
pub mod from_json;
pub mod layout;
pub mod manifest;
pub mod props;
pub mod raw;
pub mod recompress;
pub mod scan;
pub mod space;
pub mod text;
pub mod wal;
