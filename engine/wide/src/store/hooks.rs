//! The hooks of the store's trees, in one place: for the store, which opens its trees with them,
//! and for the tools that save stores, which write their names.
//!
//! Invariant: what names a tree's hooks is that it is a family's or an index's, whether its cells
//! are counters, and how long tokens are; how long tombstones are kept is no part of any name.

use std::sync::Arc;

use firn_kv::{FilterKind, TreeOptions};

use crate::cell::{CounterMerge, PartitionPrefix, StoredFacts, StoredPurge};

/// The options `tree` with the hooks of a family's or CQL table's tree: `counter` says whether its
/// cells are counters, `token_len` how many bytes a token has, `gc_grace` for how many seconds
/// tombstones are kept.
///
/// ```
/// use firn_wide::internals::store::hooks;
/// let plain = hooks::family(Default::default(), false, 8, 864_000);
/// let counters = hooks::family(Default::default(), true, 8, 864_000);
/// assert!(plain.purge.is_some() && plain.merge.is_none());
/// assert!(counters.purge.is_none() && counters.merge.is_some());
/// ```
pub fn family(tree: TreeOptions, counter: bool, token_len: usize, gc_grace: i64) -> TreeOptions {
    TreeOptions {
        filter_prefix: Some(Arc::new(PartitionPrefix::new(token_len))),
        summary: Some(Arc::new(StoredFacts)),
        merge_operator: counter.then(|| Arc::new(CounterMerge) as _),
        compaction_filter: (!counter).then(|| Arc::new(StoredPurge { gc_grace, token_len }) as _),
        ..tree
    }
}

/// The options of an index's tree with its hooks.
pub fn index() -> TreeOptions {
    // Entries are only ever met in scans; one that has expired needs no grace.
    let purge = StoredPurge { gc_grace: 0, token_len: 0 };
    TreeOptions {
        filter: vec![FilterKind::None],
        compaction_filter: Some(Arc::new(purge)),
        ..TreeOptions::default()
    }
}
