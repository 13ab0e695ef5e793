//! Iterators over the keys of a tree, with their values or without.

use crate::base::error::{Error, Result};
use crate::iterator::value::Value;

use crate::db::handle::snapshot::Snapshot;
use crate::db::handle::walk::{Here, NextStep, TreeWalk, WalkOverlay};
use crate::db::read::bounds::Entry;

/// An iterator over the keys of a range with their values, from both ends. Items own handles on
/// what holds their bytes.
///
/// An item is an error where a table cannot be read or the merge operator refuses, and for a tree that
/// has been dropped before ([`Closed`](crate::ErrorKind::Closed)); nothing comes after it. An
/// iterator that was made before its tree was dropped goes on to its end.
pub struct Range {
    pub(in crate::db) walk: TreeWalk,
    pub(in crate::db) done: bool,
    /// What is given instead of the first item: the tree was dropped, or is not this store's.
    refused: Option<Error>,
    /// What the transaction that is read in has written itself.
    overlay: Option<Box<dyn WalkOverlay>>,
    _snapshot: Option<Snapshot>,
}

impl Range {
    /// Over what has not been walked yet. It holds the snapshot.
    pub(in crate::db) fn new(
        walk: TreeWalk,
        refused: Option<Error>,
        snapshot: Option<Snapshot>,
    ) -> Range {
        Range { walk, done: false, refused, overlay: None, _snapshot: snapshot }
    }

    /// Only the keys of it: values are not touched, so those of blocks and memtables are not pinned,
    /// nothing is copied, and values that lie apart are not read.
    pub fn keys(mut self) -> Keys {
        self.walk.keys_only = true;
        let ends = [&mut self.walk.front, &mut self.walk.back];
        ends.into_iter().flatten().for_each(|v| v.show_keys_only());
        Keys(self)
    }

    /// The same, which gives an error instead of its first item, if there is one.
    pub(in crate::db) fn refuse(mut self, error: Option<Error>) -> Range {
        self.refused = error.or(self.refused);
        self
    }

    /// The same with what a transaction has written.
    pub(in crate::db) fn with_overlay(mut self, overlay: Box<dyn WalkOverlay>) -> Range {
        self.overlay = Some(overlay);
        self
    }

    fn step<T>(&mut self, forward: bool, take: impl FnOnce(Here<'_>) -> T) -> Result<Option<T>> {
        let Range { walk, overlay, done, .. } = self;
        let here = match overlay {
            None => walk.step(forward)?,
            Some(overlay) => match overlay.next(walk, forward)? {
                NextStep::Own(key, value) => return Ok(Some(take(Here::Own(&key, &value)))),
                NextStep::Seen => walk.end(forward).as_ref().map(Here::Seen),
                NextStep::Nothing => None,
            },
        };
        *done = here.is_none();
        Ok(here.map(take))
    }

    fn item<T>(&mut self, forward: bool, take: impl FnOnce(Here<'_>) -> T) -> Option<Result<T>> {
        if self.done {
            return None;
        }
        if let Some(e) = self.refused.take() {
            self.done = true;
            return Some(Err(e));
        }
        let item = self.step(forward, take);
        if item.is_err() {
            self.done = true;
        }
        item.transpose()
    }
}

impl Iterator for Range {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.item(true, |here| here.entry())
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.item(false, |here| here.entry())
    }
}

impl std::iter::FusedIterator for Range {}

/// An iterator over keys, from both ends: a [`Range`] without the values.
pub struct Keys(pub(in crate::db) Range);

impl Iterator for Keys {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.item(true, |here| here.key())
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.item(false, |here| here.key())
    }
}

impl std::iter::FusedIterator for Keys {}
