//! Double-ended scan of one state of a tree; the iterators are built on it.
//!
//! Invariant: a scan sees one state. Its view and read point are loaded
//! [together](crate::db::versions::tree::TreeInner::consistent_view) and held until it ends.

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

/// Double-ended scan over the keys of a range.
pub struct TreeWalk {
    /// View that is scanned.
    pub view: Arc<TreeView>,
    /// Key range.
    pub range: VisibleRange,
    /// Read point.
    pub read: Seq,
    /// Whether values are not needed.
    pub keys_only: bool,
    /// Cursors of both ends, once they are open.
    pub front: Option<Visible>,
    pub back: Option<Visible>,
}

/// Adds the uncommitted writes of a transaction to a scan inside it.
pub trait WalkOverlay: Send + Sync {
    /// Advances one end. The entry counts as read by the transaction; without an entry, the whole
    /// range does.
    fn next(&mut self, walk: &mut TreeWalk, forward: bool) -> Result<NextStep>;
}

/// Next entry of a scan with an overlay.
pub enum NextStep {
    /// The entry at the scan's cursor.
    Seen,
    /// An entry of the overlay.
    Own(MapKey, MapKey),
    /// The end of the range.
    Nothing,
}

/// Current entry of an iterator.
pub enum Here<'a> {
    Seen(&'a Visible),
    Own(&'a [u8], &'a [u8]),
}

impl Here<'_> {
    /// Returns its key.
    pub fn key(&self) -> Value {
        match self {
            Here::Seen(v) => v.key().into(),
            Here::Own(key, _) => (*key).into(),
        }
    }

    /// Returns its key and value.
    pub fn entry(&self) -> Entry {
        let value = match self {
            Here::Seen(v) => v.pin_value(),
            Here::Own(_, value) => (*value).into(),
        };
        (self.key(), value)
    }
}

impl TreeWalk {
    /// Returns the cursor of one end, if it is open.
    pub fn end(&mut self, forward: bool) -> &mut Option<Visible> {
        if forward { &mut self.front } else { &mut self.back }
    }

    /// Opens the cursor of one end at the first entry from that end.
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

    /// Advances one end. Returns its entry, or `None` if it met the other end or reached the end of
    /// the range.
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
