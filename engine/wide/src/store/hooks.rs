//! Hooks of the store's trees, for the store, which opens its trees with them, and for tools that
//! repair stores, which write their names.
//!
//! Invariant: the names of a tree's hooks depend only on whether it is a family or an index,
//! whether its cells are counters, and the length of tokens. They do not depend on the retention of
//! tombstones.

use std::sync::Arc;

use firn_kv::{FilterKind, TreeOptions};

use crate::cell::{CounterMerge, PartitionPrefix, StoredFacts, StoredPurge};

/// Returns the options `tree` with the hooks of a family's or CQL table's tree. `counter`: its
/// cells are counters. `token_len`: bytes of a token. `gc_grace`: seconds for which tombstones are
/// retained.
///
/// ```
/// use firn_wide::internals::store::hooks;
/// let plain = hooks::family(Default::default(), false, 8, 864_000);
/// let counters = hooks::family(Default::default(), true, 8, 864_000);
/// assert!(plain.compaction_filter.is_some() && plain.merge_operator.is_none());
/// assert!(counters.compaction_filter.is_none() && counters.merge_operator.is_some());
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

/// Returns the options of an index's tree with its hooks.
pub fn index() -> TreeOptions {
    // Entries are read only by scans, and expired ones need no grace.
    let purge = StoredPurge { gc_grace: 0, token_len: 0 };
    TreeOptions {
        filter: vec![FilterKind::None],
        compaction_filter: Some(Arc::new(purge)),
        ..TreeOptions::default()
    }
}
