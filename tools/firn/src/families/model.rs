//! Opens a store with keyspaces for commands on column families, and formats their counts.

use firn_kv::DbOptions;
use firn_tools::output::{Done, things};
use firn_wide::Wide;
use firn_wide::internals::api::Counts;

use crate::store::Global;

/// Opens the database for writing; `bytes` is as in [`Global::open_to_write`].
pub fn open_to_write(global: &Global, create: bool, bytes: u64) -> Done<Wide> {
    open(global, global.to_write(create, bytes))
}

/// Opens the database with these options.
pub fn open(global: &Global, db: DbOptions) -> Done<Wide> {
    if !db.create {
        global.check_model()?;
    }
    global.wide(db)
}

/// Returns the numbers of rows and columns as text.
pub fn counted(counts: Counts) -> String {
    format!(
        "{} with {}",
        things(counts.rows, "row", "rows"),
        things(counts.columns, "column", "columns")
    )
}
