//! Ordered maps and sets in one sorted vector.
//!
//! A lookup takes a binary search. An insertion after the last key appends; any other insertion and
//! each removal moves all later entries. This suits maps with growing ids as keys, and maps
//! with few entries. They need a tenth of the code of the standard B-trees, which each type of key
//! and value compiles anew.

use std::borrow::Borrow;
use std::fmt;

use super::sort::sort_by;

/// An ordered map in one sorted vector.
#[derive(Clone, PartialEq, Eq)]
pub struct SortedMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        SortedMap(Vec::new())
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// Creates an empty map.
    pub const fn new() -> Self {
        SortedMap(Vec::new())
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        match self.0.last() {
            Some((last, _)) if last.borrow() < key => Err(self.0.len()),
            _ => self.0.binary_search_by(|(k, _)| k.borrow().cmp(key)),
        }
    }

    /// Returns the value of `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|i| &self.0[i].1)
    }

    /// Returns the value of `key` for a change.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|i| &mut self.0[i].1)
    }

    /// Reports whether `key` has a value.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Sets the value of `key`, and returns the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(i) => Some(std::mem::replace(&mut self.0[i].1, value)),
            Err(i) => {
                self.0.insert(i, (key, value));
                None
            }
        }
    }

    /// Returns the value of `key`; inserts the result of `new` first if it has none.
    pub fn get_or_insert_with(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        let i = self.find(&key).unwrap_or_else(|i| {
            self.0.insert(i, (key, new()));
            i
        });
        &mut self.0[i].1
    }

    /// Returns the value of `key`; inserts the default first if it has none.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.get_or_insert_with(key, V::default)
    }

    /// Removes the entry of `key`, and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|i| self.0.remove(i).1)
    }

    /// Retains the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(k, v)| keep(k, v));
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the first entry.
    pub fn first(&self) -> Option<(&K, &V)> {
        self.0.first().map(|(k, v)| (k, v))
    }

    /// Returns the last entry.
    pub fn last(&self) -> Option<(&K, &V)> {
        self.0.last().map(|(k, v)| (k, v))
    }

    /// Returns the entries with keys from `key` on.
    pub fn from<Q: Ord + ?Sized>(&self, key: &Q) -> impl DoubleEndedIterator<Item = (&K, &V)>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key).unwrap_or_else(|i| i);
        self.0[at..].iter().map(|(k, v)| (k, v))
    }
}

impl<K, V> SortedMap<K, V> {
    /// Returns the entries in order of their keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> + ExactSizeIterator + Clone {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator + Clone {
        self.0.iter().map(|(k, _)| k)
    }

    /// Returns the values in order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.0.iter().map(|(_, v)| v)
    }

    /// Returns the values for changes, in order of their keys.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, v)| v)
    }

    /// Returns the values in order of their keys.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> {
        self.0.into_iter().map(|(_, v)| v)
    }
}

impl<K: Ord, V> std::ops::Index<&K> for SortedMap<K, V> {
    type Output = V;

    /// Returns the value of `key`. Panics if it has none.
    fn index(&self, key: &K) -> &V {
        &self.0[self.find(key).unwrap_or(usize::MAX)].1
    }
}

impl<K, V> IntoIterator for SortedMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a SortedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = std::iter::Map<std::slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(k, v)| (k, v))
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    /// The last of several values for a key stays.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut entries: Vec<(K, V)> = entries.into_iter().collect();
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            sort_by(&mut entries, |a, b| a.0.cmp(&b.0));
            entries.dedup_by(|next, before| {
                let is_same = next.0 == before.0;
                if is_same {
                    std::mem::swap(next, before);
                }
                is_same
            });
        }
        SortedMap(entries)
    }
}

impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(k, v)| _ = self.insert(k, v));
    }
}

/// An ordered set in one sorted vector.
#[derive(Clone, PartialEq, Eq)]
pub struct SortedSet<K>(Vec<K>);

impl<K> Default for SortedSet<K> {
    fn default() -> Self {
        SortedSet(Vec::new())
    }
}

impl<K: fmt::Debug> fmt::Debug for SortedSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.0).finish()
    }
}

impl<K: Ord> SortedSet<K> {
    /// Creates an empty set.
    pub const fn new() -> Self {
        SortedSet(Vec::new())
    }

    fn find(&self, key: &K) -> Result<usize, usize> {
        match self.0.last() {
            Some(last) if last < key => Err(self.0.len()),
            _ => self.0.binary_search(key),
        }
    }

    /// Reports whether the set contains `key`.
    pub fn contains(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    /// Adds `key`. Returns false if it was there.
    pub fn insert(&mut self, key: K) -> bool {
        let at = self.find(&key);
        if let Err(i) = at {
            self.0.insert(i, key);
        }
        at.is_err()
    }

    /// Removes `key`. Returns false if it was not there.
    pub fn remove(&mut self, key: &K) -> bool {
        let at = self.find(key);
        if let Ok(i) = at {
            self.0.remove(i);
        }
        at.is_ok()
    }

    /// Retains the keys for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&K) -> bool) {
        self.0.retain(keep);
    }
}

impl<K> std::ops::Deref for SortedSet<K> {
    type Target = [K];

    fn deref(&self) -> &[K] {
        &self.0
    }
}

impl<K> IntoIterator for SortedSet<K> {
    type Item = K;
    type IntoIter = std::vec::IntoIter<K>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K> IntoIterator for &'a SortedSet<K> {
    type Item = &'a K;
    type IntoIter = std::slice::Iter<'a, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<K: Ord> FromIterator<K> for SortedSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut keys: Vec<K> = keys.into_iter().collect();
        if !keys.is_sorted_by(|a, b| a < b) {
            sort_by(&mut keys, K::cmp);
            keys.dedup();
        }
        SortedSet(keys)
    }
}

impl<K: Ord> Extend<K> for SortedSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        keys.into_iter().for_each(|k| _ = self.insert(k));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn a_map_and_a_set_do_what_the_standard_ones_do() {
        let (mut map, mut set) = (SortedMap::new(), SortedSet::new());
        let (mut model, mut members) = (BTreeMap::new(), BTreeSet::new());
        let mut seed = 1_u64;
        for step in 0..20_000_u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (seed >> 33) % 300;
            match (seed >> 50) % 4 {
                0 => {
                    assert_eq!(map.remove(&key), model.remove(&key));
                    assert_eq!(set.remove(&key), members.remove(&key));
                }
                1 => {
                    let new = || step;
                    assert_eq!(
                        map.get_or_insert_with(key, new),
                        model.entry(key).or_insert_with(new)
                    );
                }
                _ => {
                    assert_eq!(map.insert(key, step), model.insert(key, step));
                    assert_eq!(set.insert(key), members.insert(key));
                }
            }
            assert_eq!(map.get(&key), model.get(&key));
            assert_eq!(map.contains_key(&key), model.contains_key(&key));
            assert_eq!(set.contains(&key), members.contains(&key));
            assert_eq!((map.len(), set.len()), (model.len(), members.len()));
            if step % 500 == 0 {
                assert!(map.iter().eq(model.iter()) && set.iter().eq(members.iter()));
                assert!(map.keys().eq(model.keys()) && map.values().eq(model.values()));
                assert!(map.from(&key).eq(model.range(key..)));
                assert_eq!(map.first(), model.first_key_value());
                assert_eq!(map.last(), model.last_key_value());
                let odd = |k: &u64| k % 7 != 1;
                map.retain(|k, _| odd(k));
                model.retain(|k, _| odd(k));
                set.retain(odd);
                members.retain(odd);
            }
        }
    }

    #[test]
    fn of_several_values_for_a_key_the_last_one_stays() {
        let entries = [(3, 'a'), (1, 'b'), (3, 'c'), (2, 'd'), (1, 'e'), (3, 'f')];
        let map: SortedMap<u8, char> = entries.into_iter().collect();
        let model: BTreeMap<u8, char> = entries.into_iter().collect();
        assert!(map.iter().eq(model.iter()), "{map:?}");
        let set: SortedSet<u8> = entries.iter().map(|e| e.0).collect();
        assert_eq!(*set, [1, 2, 3]);
    }
}
