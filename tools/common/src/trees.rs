//! Opens trees by name.

use std::sync::Arc;

use firn_kv::{Db, Error, ErrorKind, MergeOperator, Result, Tree, TreeOptions};

use crate::options;

/// Opens the tree of this name with its options; creates it with default options if it is missing.
///
/// # Errors
/// Errors of [`Db::tree`].
pub fn there_or_new(db: &Db, name: &str) -> Result<Tree> {
    match db.existing_tree(name) {
        Err(e) if e.kind() == ErrorKind::NotFound => db.tree(name, TreeOptions::default()),
        other => other,
    }
}

/// As [`there_or_new`], with these options, given by names and texts of [`options::set`], and this
/// merge operator. Other options are unchanged.
///
/// # Errors
/// `InvalidArgument` for an invalid option; errors of [`Db::tree`].
pub fn with_options(
    db: &Db,
    name: &str,
    changes: &[(&str, &str)],
    merge: Option<Arc<dyn MergeOperator>>,
) -> Result<Tree> {
    if changes.is_empty() && merge.is_none() {
        return there_or_new(db, name);
    }
    let mut options = match db.existing_tree(name) {
        Err(e) if e.kind() == ErrorKind::NotFound => TreeOptions::default(),
        other => other?.options(),
    };
    changes
        .iter()
        .try_for_each(|(option, text)| options::set(&mut options, option, text))
        .map_err(Error::invalid)?;
    options.merge_operator = merge.or(options.merge_operator);
    let tree = db.tree(name, options.clone())?;
    if !changes.is_empty() {
        tree.set_options(options)?;
    }
    Ok(tree)
}
