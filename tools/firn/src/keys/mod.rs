//! Commands that read and write keys and values: `firn get`, `scan`, `put`, `delete` and `load`, and
//! the formats of loaded files.

pub mod edit;
pub mod fields;
pub mod load;
mod load_rows;
pub mod read;
pub mod record;
