//! Finds tables in a store's directory that its manifest does not name.
//!
//! A crash leaves such tables: inputs of an installed compaction, or outputs of an uninstalled one.
//! The store has all their data. But a manifest of a clone, or a misplaced one, does not name the
//! store's own tables either; these have data that is nowhere else.
//!
//! Invariant: a table is skipped without a report only in two cases. Either the new store has all
//! its keys, or the manifest or event log says that it was removed and nothing of its tree is lost.

use std::collections::BTreeSet;
use std::path::Path;

use firn_kv::Tree;
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::Kind;
use firn_kv::internals::base::ops::TreeId;
use firn_kv::internals::manifest::ManifestState;
use firn_kv::internals::sstable::Table;
use firn_tools::output::{Done, things};

use crate::check::opening;
use crate::history::gather;
use crate::store::names::FileNames;
use crate::store::target::open_file;

/// Describes tables in `dir` with keys that the new store in `out` lacks, if that was made from a
/// manifest that does not name them. A new store made from the tables has examined all of them.
/// `damaged_trees` are the trees with losses.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn describe_unlisted(
    names: &FileNames,
    out: &Path,
    state: &ManifestState,
    damaged_trees: &BTreeSet<TreeId>,
) -> Done<Vec<String>> {
    let Some(live) = names.live() else { return Ok(vec![]) };
    let removed = gather::removed(names)?;
    let of_values = names.blob_file_ids();
    let is_unnamed = |id: &u64| !live.contains(id) && !of_values.contains(id);
    let (mut db, mut words) = (None, vec![]);
    for id in names.finished().into_iter().filter(is_unnamed) {
        let Some((path, file)) = names.open_file_of(id) else { continue };
        let Ok(table) = open_file(file, &path, id, 0) else { continue };
        // An input of a compaction is useful if one of the outputs is lost.
        if removed.contains(&id) && !damaged_trees.contains(&table.properties().tree) {
            continue;
        }
        if db.is_none() {
            db = opening::open(out).ok();
        }
        let its = state.trees.get(&table.properties().tree);
        let tree =
            its.and_then(|t| opening::open_tree(db.as_ref()?, &t.name, Some(&t.options)).ok());
        let (all, lacking) = lacking(&table, tree.as_ref());
        if lacking > 0 {
            words.push(format!(
                "whether {} of table {id}, which the manifest does not name, had been deleted or are lost: the new store lacks {lacking} of its \
                 {}; {} is left out (`sstable-dump repair --without-manifest` takes it)",
                if lacking == 1 { "a key" } else { "keys" },
                things(all, "key", "keys"),
                path.display()
            ));
        }
    }
    Ok(words)
}

/// Returns the number of keys with values in the table, and how many of them the tree lacks, as far
/// as the table can be read.
fn lacking(table: &std::sync::Arc<Table>, tree: Option<&Tree>) -> (u64, u64) {
    let (mut all, mut lacking) = (0, 0);
    let mut last: Option<Vec<u8>> = None;
    let mut c = table.cursor(false);
    let mut moved = c.first();
    while moved.is_ok() && c.valid() {
        if last.as_deref() != Some(c.key()) {
            last = Some(c.key().to_vec());
            // The newest version of a key counts.
            if c.trailer().kind() != Some(Kind::Delete) {
                all += 1;
                let found = tree.and_then(|t| t.get(c.key()).ok()).flatten();
                lacking += u64::from(found.is_none());
            }
        }
        moved = c.next();
    }
    (all, lacking)
}
