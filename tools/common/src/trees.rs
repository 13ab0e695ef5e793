//! Trees by their names.

use firn_kv::{Db, ErrorKind, Result, Tree, TreeOptions};

/// The tree of this name, with the options that it has; made with the default ones where it is not there.
///
/// # Errors
/// Those of [`Db::tree`].
pub fn there_or_new(db: &Db, name: &str) -> Result<Tree> {
    match db.existing_tree(name) {
        Err(e) if e.kind() == ErrorKind::NotFound => db.tree(name, TreeOptions::default()),
        other => other,
    }
}
