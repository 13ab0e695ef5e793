//! A persistent (copy-on-write) ordered map.
//!
//! A clone costs nothing, because versions share their nodes. A change of one of two copies copies
//! the nodes on the path to the change. So an iterator returns the entries present at its start,
//! whatever is written later.
//!
//! Invariants:
//! - The map is an AVL tree: keys ascend from left to right, and the heights of a node's two sides
//!   differ by at most one. So no path is longer than about 1.44 times the logarithm of the number
//!   of keys, whatever the keys are.
//! - Every change splits the tree at a key and joins trees ("Just Join for Parallel Ordered Sets",
//!   Blelloch and others), each in O(log n).

use std::cmp::Ordering;
use std::sync::Arc;

/// Key, shared between versions.
pub type MapKey = Arc<[u8]>;

type Link<V> = Option<Arc<MapNode<V>>>;

/// Ordered map from keys to values.
#[derive(Clone)]
pub struct VersionMap<V>(Link<V>);

#[derive(Clone)]
struct MapNode<V> {
    key: MapKey,
    value: V,
    height: u8,
    /// Subtrees of the keys before and after this one.
    sides: [Link<V>; 2],
}

impl<V> Default for VersionMap<V> {
    fn default() -> Self {
        VersionMap(None)
    }
}

impl<V: Clone> VersionMap<V> {
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        self.end(false, |k| k <= key).filter(|(k, _)| &***k == key).map(|(_, v)| v)
    }

    /// Returns the first (with `forward`) or last entry for whose key `within` holds. With
    /// `forward`, `within` must hold for a suffix of the keys, otherwise for a prefix.
    pub fn end(&self, forward: bool, within: impl Fn(&[u8]) -> bool) -> Option<(&MapKey, &V)> {
        let (mut at, mut found) = (&self.0, None);
        while let Some(n) = at {
            steps::count();
            let is_within = within(&n.key);
            if is_within {
                found = Some((&n.key, &n.value));
            }
            at = &n.sides[usize::from(is_within != forward)];
        }
        found
    }

    /// Inserts a value and returns the value that it replaces.
    pub fn insert(&mut self, key: &[u8], value: V) -> Option<V> {
        let (left, found, right) = split(self.0.take(), key);
        let node = Arc::new(MapNode { key: key.into(), value, height: 1, sides: [None, None] });
        self.0 = Some(join(left, node, right));
        found.map(|n| Arc::unwrap_or_clone(n).value)
    }

    pub fn remove(&mut self, key: &[u8]) {
        // Return early, because a split copies nodes.
        if self.get(key).is_none() {
            return;
        }
        let (left, _, right) = split(self.0.take(), key);
        self.0 = concat(left, right);
    }

    /// Removes and returns the entries in `[from, until)`, which must not be an empty range;
    /// without `until`, all entries from `from` on.
    pub fn take(&mut self, from: &[u8], until: Option<&[u8]>) -> VersionMap<V> {
        let (left, rest) = split_before(self.0.take(), from);
        let (taken, right) = match until {
            Some(until) => split_before(rest, until),
            None => (rest, None),
        };
        self.0 = concat(left, right);
        VersionMap(taken)
    }

    pub fn iter(&self) -> Iter<'_, V> {
        let mut iter = Iter(vec![]);
        iter.descend(&self.0);
        iter
    }
}

/// Iterator over the entries of a map, in order.
pub struct Iter<'a, V>(Vec<&'a MapNode<V>>);

impl<'a, V> Iter<'a, V> {
    fn descend(&mut self, mut at: &'a Link<V>) {
        while let Some(n) = at {
            self.0.push(n);
            at = &n.sides[0];
        }
    }
}

impl<'a, V> Iterator for Iter<'a, V> {
    type Item = (&'a MapKey, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let n = self.0.pop()?;
        steps::count();
        self.descend(&n.sides[1]);
        Some((&n.key, &n.value))
    }
}

fn height<V>(link: &Link<V>) -> u8 {
    link.as_ref().map_or(0, |n| n.height)
}

impl<V: Clone> MapNode<V> {
    fn measure(&mut self) {
        self.height = 1 + height(&self.sides[0]).max(height(&self.sides[1]));
    }
}

/// Joins two trees and a node between them into one tree.
fn join<V: Clone>(left: Link<V>, mut node: Arc<MapNode<V>>, right: Link<V>) -> Arc<MapNode<V>> {
    let (l, r) = (height(&left), height(&right));
    match (left, right) {
        // The lower tree joins at the node on the edge of the higher one with about its height.
        (Some(mut top), right) if l > r + 1 => {
            let n = Arc::make_mut(&mut top);
            n.sides[1] = Some(join(n.sides[1].take(), node, right));
            balance(top)
        }
        (left, Some(mut top)) if r > l + 1 => {
            let n = Arc::make_mut(&mut top);
            n.sides[0] = Some(join(left, node, n.sides[0].take()));
            balance(top)
        }
        (left, right) => {
            let n = Arc::make_mut(&mut node);
            n.sides = [left, right];
            n.measure();
            node
        }
    }
}

/// Restores the balance of a node after one side grew by one.
fn balance<V: Clone>(mut top: Arc<MapNode<V>>) -> Arc<MapNode<V>> {
    steps::count();
    let n = Arc::make_mut(&mut top);
    n.measure();
    for side in [0, 1] {
        if height(&n.sides[side]) > height(&n.sides[1 - side]) + 1 {
            // If the inner side of the child is higher, its node must first become the child.
            if let Some(child) =
                n.sides[side].take_if(|c| height(&c.sides[1 - side]) > height(&c.sides[side]))
            {
                n.sides[side] = Some(rotate(child, 1 - side));
            }
            return rotate(top, side);
        }
    }
    top
}

/// Rotates the child on one side into the place of the top.
fn rotate<V: Clone>(mut top: Arc<MapNode<V>>, side: usize) -> Arc<MapNode<V>> {
    let n = Arc::make_mut(&mut top);
    let Some(mut child) = n.sides[side].take() else { return top };
    let c = Arc::make_mut(&mut child);
    n.sides[side] = c.sides[1 - side].take();
    n.measure();
    c.sides[1 - side] = Some(top);
    c.measure();
    child
}

/// Splits a tree into the entries before a key, its node, and the entries after it.
fn split<V: Clone>(link: Link<V>, key: &[u8]) -> (Link<V>, Link<V>, Link<V>) {
    let Some(mut top) = link else { return (None, None, None) };
    steps::count();
    let n = Arc::make_mut(&mut top);
    let [left, right] = [n.sides[0].take(), n.sides[1].take()];
    match key.cmp(&n.key) {
        Ordering::Equal => (left, Some(top), right),
        Ordering::Less => {
            let (before, found, after) = split(left, key);
            (before, found, Some(join(after, top, right)))
        }
        Ordering::Greater => {
            let (before, found, after) = split(right, key);
            (Some(join(left, top, before)), found, after)
        }
    }
}

/// Splits a tree into the entries before a key, and the rest.
fn split_before<V: Clone>(link: Link<V>, key: &[u8]) -> (Link<V>, Link<V>) {
    let (before, found, after) = split(link, key);
    match found {
        Some(node) => (before, Some(join(None, node, after))),
        None => (before, after),
    }
}

/// Joins two trees; all keys of the first come before those of the second.
fn concat<V: Clone>(left: Link<V>, right: Link<V>) -> Link<V> {
    match left {
        Some(left) => {
            let (rest, last) = split_last(left);
            Some(join(rest, last, right))
        }
        None => right,
    }
}

fn split_last<V: Clone>(mut top: Arc<MapNode<V>>) -> (Link<V>, Arc<MapNode<V>>) {
    let n = Arc::make_mut(&mut top);
    match n.sides[1].take() {
        None => (n.sides[0].take(), top),
        Some(right) => {
            let left = n.sides[0].take();
            let (rest, last) = split_last(right);
            (Some(join(left, top, rest)), last)
        }
    }
}

/// Counts visited nodes, for tests of the cost.
pub(crate) mod steps {
    #[cfg(test)]
    thread_local! {
        pub static MET: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    #[inline]
    pub fn count() {
        #[cfg(test)]
        MET.set(MET.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Checks order and balance, and returns the height.
    fn check(link: &Link<u32>, from: Option<&[u8]>, until: Option<&[u8]>) -> u8 {
        let Some(n) = link else { return 0 };
        assert!(from.is_none_or(|f| f < &*n.key) && until.is_none_or(|u| &*n.key < u));
        let [l, r] =
            [check(&n.sides[0], from, Some(&n.key)), check(&n.sides[1], Some(&n.key), until)];
        assert!(l.abs_diff(r) <= 1 && n.height == 1 + l.max(r));
        n.height
    }

    fn listed(map: &VersionMap<u32>) -> Vec<(Vec<u8>, u32)> {
        check(&map.0, None, None);
        map.iter().map(|(k, v)| (k.to_vec(), *v)).collect()
    }

    proptest! {
        #[test]
        fn every_version_is_what_a_map_of_its_own_would_be(
            steps in prop::collection::vec((0u8..5, 0u16..200, 0u16..200), 0..300),
        ) {
            let (mut map, mut plain) = (VersionMap::default(), BTreeMap::new());
            let mut versions = vec![];
            for (i, (what, a, b)) in steps.into_iter().enumerate() {
                let (a, b) = (a.to_be_bytes(), b.to_be_bytes());
                match what {
                    0 | 1 => {
                        prop_assert_eq!(map.insert(&a, i as u32), plain.insert(a.to_vec(), i as u32));
                    }
                    2 => {
                        map.remove(&a);
                        plain.remove(&a[..]);
                    }
                    3 => versions.push((map.clone(), plain.clone())),
                    _ if i % 8 == 0 => {
                        let until = Some(&b[..]).filter(|_| a < b);
                        let is_in = |k: &[u8]| &a[..] <= k && until.is_none_or(|u| k < u);
                        let taken: Vec<_> = plain.clone().into_iter().filter(|(k, _)| is_in(k)).collect();
                        plain.retain(|k, _| !is_in(k));
                        prop_assert_eq!(listed(&map.take(&a, until)), taken);
                    }
                    _ => {}
                }
                prop_assert_eq!(map.get(&b), plain.get(&b[..]));
                let pair = |e: Option<(&MapKey, &u32)>| e.map(|(k, v)| (k.to_vec(), *v));
                let own = |e: Option<(&Vec<u8>, &u32)>| e.map(|(k, v)| (k.clone(), *v));
                prop_assert_eq!(pair(map.end(true, |k| k >= &b[..])), own(plain.range(b.to_vec()..).next()));
                prop_assert_eq!(pair(map.end(false, |k| k < &b[..])), own(plain.range(..b.to_vec()).next_back()));
            }
            versions.push((map, plain));
            for (map, plain) in versions {
                prop_assert_eq!(listed(&map), plain.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
