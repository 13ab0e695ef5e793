//! Iterators over the keys of a tree, with or without their values.

use crate::base::error::{Error, Result};
use crate::iterator::value::Value;

use crate::db::handle::snapshot::Snapshot;
use crate::db::handle::walk::{Here, NextStep, TreeWalk, WalkOverlay};
use crate::db::read::bounds::Entry;

/// Double-ended iterator over the keys of a range with their values. Items share ownership of the
/// buffers that hold their bytes.
///
/// An item is an error if a table cannot be read, if the merge operator fails, or if the tree was
/// dropped before the call ([`Closed`](crate::ErrorKind::Closed)). The iterator ends after an
/// error. If the tree is dropped later, the iterator continues to the end of its range.
pub struct Range {
    pub(in crate::db) walk: TreeWalk,
    pub(in crate::db) done: bool,
    /// Error returned as the first item: the tree was dropped or belongs to another store.
    refused: Option<Error>,
    /// Uncommitted writes of the transaction that reads.
    overlay: Option<Box<dyn WalkOverlay>>,
    _snapshot: Option<Snapshot>,
}

impl Range {
    /// Returns an iterator over the part that was not returned yet. It holds the snapshot.
    pub(in crate::db) fn new(
        walk: TreeWalk,
        refused: Option<Error>,
        snapshot: Option<Snapshot>,
    ) -> Range {
        Range { walk, done: false, refused, overlay: None, _snapshot: snapshot }
    }

    /// Returns an iterator over the keys only. It does not read, copy or pin values, in blocks,
    /// memtables or blob files.
    pub fn keys(mut self) -> Keys {
        self.walk.keys_only = true;
        let ends = [&mut self.walk.front, &mut self.walk.back];
        ends.into_iter().flatten().for_each(|v| v.show_keys_only());
        Keys(self)
    }

    /// Sets the error, if any, that is returned as the first item.
    pub(in crate::db) fn refuse(mut self, error: Option<Error>) -> Range {
        self.refused = error.or(self.refused);
        self
    }

    /// Adds the uncommitted writes of a transaction.
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

/// Double-ended iterator over keys: a [`Range`] without the values.
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
