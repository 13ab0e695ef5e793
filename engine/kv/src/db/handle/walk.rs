//! A walk over a state of a tree from both ends, which iterators are made of.
//!
//! Invariant: a walk sees one state: its view and its read point are of [one
//! moment](crate::db::versions::tree::TreeInner::at_one_moment), and held until the end.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::iterator::value::Value;
use crate::iterator::visible::{Visible, VisibleRange};
use crate::util::version_map::MapKey;

use crate::db::observe::meters::LatencyOp;
use crate::db::read::bounds::Entry;
use crate::db::read::sources::visible;
use crate::db::versions::view::TreeView;

/// A walk over the keys of a range.
pub struct TreeWalk {
    /// What is walked over.
    pub view: Arc<TreeView>,
    /// Which keys.
    pub range: VisibleRange,
    /// As who reads at this number sees them.
    pub read: Seq,
    /// Whether their values are not asked for.
    pub keys_only: bool,
    /// The cursors of both ends, once they have begun.
    pub front: Option<Visible>,
    pub back: Option<Visible>,
}

/// What changes what a walk gives: what the transaction has written that it reads in.
pub trait WalkOverlay: Send + Sync {
    /// The next entry from one end. It counts as read; where there is none, all of the range does.
    fn next(&mut self, walk: &mut TreeWalk, forward: bool) -> Result<NextStep>;
}

/// The next entry of a walk with an overlay.
pub enum NextStep {
    /// What the walk's cursor stands on.
    Seen,
    /// An entry of the overlay's own.
    Own(MapKey, MapKey),
    /// There is none.
    Nothing,
}

/// An entry that an iterator stands on.
pub enum Here<'a> {
    Seen(&'a Visible),
    Own(&'a [u8], &'a [u8]),
}

impl Here<'_> {
    /// Its key.
    pub fn key(&self) -> Value {
        match self {
            Here::Seen(v) => v.key().into(),
            Here::Own(key, _) => (*key).into(),
        }
    }

    /// Its key and value.
    pub fn entry(&self) -> Entry {
        let value = match self {
            Here::Seen(v) => v.pin_value(),
            Here::Own(_, value) => (*value).into(),
        };
        (self.key(), value)
    }
}

impl TreeWalk {
    /// The cursor of one end, once that has begun.
    pub fn end(&mut self, forward: bool) -> &mut Option<Visible> {
        if forward { &mut self.front } else { &mut self.back }
    }

    /// Opens the cursor of one end, on the first entry from there.
    pub fn open(&mut self, forward: bool) -> Result<&mut Visible> {
        let slot = if forward { &mut self.front } else { &mut self.back };
        let turn = self.view.meters.begin();
        let v = slot.insert(visible(&self.view, self.range.clone(), self.read)?);
        if self.keys_only {
            v.show_keys_only();
        }
        let done = if forward { v.first() } else { v.last() };
        self.view.meters.end(LatencyOp::Seek, turn);
        done.map(|()| v)
    }

    /// Moves one end on. Where it stands, unless it has met the other or has come to its end.
    pub fn step(&mut self, forward: bool) -> Result<Option<Here<'_>>> {
        match self.end(forward) {
            Some(v) if forward => v.next()?,
            Some(v) => v.prev()?,
            None => drop(self.open(forward)?),
        }
        let (Some(here), other) =
            (if forward { (&self.front, &self.back) } else { (&self.back, &self.front) })
        else {
            return Ok(None);
        };
        let met = match other {
            Some(o) if o.valid() && here.valid() => {
                if forward {
                    here.key() >= o.key()
                } else {
                    here.key() <= o.key()
                }
            }
            _ => false,
        };
        Ok((!met && here.valid()).then_some(Here::Seen(here)))
    }
}
