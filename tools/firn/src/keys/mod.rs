//! Commands that read and write keys and values: `firn get`, `scan`, `put`, `delete` and `load`.

pub mod edit;
pub mod load;
mod load_rows;
pub mod read;
