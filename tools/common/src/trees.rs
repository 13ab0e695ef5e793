//! Trees by their names.

use std::sync::Arc;

use firn_kv::{Db, Error, ErrorKind, MergeOperator, Result, Tree, TreeOptions};

use crate::options;

/// The tree of this name, with the options that it has; made with the default ones where it is not
/// there.
///
/// # Errors
/// Those of [`Db::tree`].
pub fn there_or_new(db: &Db, name: &str) -> Result<Tree> {
    match db.existing_tree(name) {
        Err(e) if e.kind() == ErrorKind::NotFound => db.tree(name, TreeOptions::default()),
        other => other,
    }
}

/// As [`there_or_new`], with these options, by the names and texts of [`options::set`], and this
/// merge operator; what is not given stays as it is.
///
/// # Errors
/// `InvalidArgument` for an option that can't be; those of [`Db::tree`].
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
    db.tree(name, options)
}
