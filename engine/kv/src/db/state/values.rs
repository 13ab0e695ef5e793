//! The value files of a tree: how much of them tables still refer to, and which are given up.
//!
//! Invariant: once no table refers to those that are given up, what nobody refers to is within the
//! bound of the tree's options. So merges end that go by it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::manifest::TreeState;

/// What the value files of a tree hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveValues {
    /// The numbers of the files.
    pub files: Arc<BTreeSet<u64>>,
    /// Bytes of all of them.
    pub size: u64,
    /// Bytes of them that tables refer to.
    pub live: u64,
    /// The files that are given up: what tables refer to in them is to be written again.
    pub given_up: Arc<BTreeSet<u64>>,
}

impl LiveValues {
    /// Those of a tree. Under a policy that never merges none is given up: nobody would write it
    /// again.
    pub fn of(state: &TreeState) -> LiveValues {
        if state.values.is_empty() {
            return LiveValues::default();
        }
        let percent =
            if state.options.policy.merges() { state.options.values_garbage } else { 100 };
        let uses = state.uses();
        let live_of = |id: &u64| uses.get(id).map_or(0, |u| u.bytes);
        // What a file has beside values is no garbage: a new one would have it too.
        let mut files: Vec<(u64, u64, u64)> =
            state.values.values().map(|v| (v.id, v.bytes, live_of(&v.id))).collect();
        let (bytes, live) = files.iter().fold((0, 0), |(s, l), f| (s + f.1, l + f.2));
        // Most garbage for what has to be written first; shares are compared without division.
        files.sort_by(|a, b| {
            let share = |f: &(u64, u64, u64), g: &(u64, u64, u64)| {
                u128::from(f.1.saturating_sub(f.2)) * u128::from(g.1)
            };
            share(b, a).cmp(&share(a, b)).then(a.0.cmp(&b.0))
        });
        let (mut left, mut given_up) = (bytes, BTreeSet::new());
        for (id, bytes, own) in files {
            let garbage = u128::from(left - live.min(left));
            if garbage * 100 <= u128::from(left) * u128::from(percent) {
                break;
            }
            given_up.insert(id);
            left -= bytes - own.min(bytes);
        }
        let size = state.values.values().map(|v| v.size).sum();
        let files = Arc::new(state.values.keys().copied().collect());
        LiveValues { files, size, live, given_up: Arc::new(given_up) }
    }
}
