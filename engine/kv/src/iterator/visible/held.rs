//! State of an iterator over visible entries.

use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::hooks::MergeOperator;
use crate::base::key::{Seq, Trailer, head};
use crate::counters::read_debt::SeekCost;
use crate::iterator::empty_range_cache::{EmptyRangeCache, MIN_STEPS};
use crate::iterator::merging::{MergeSource, Merging};
use crate::iterator::run_cursor::BlobLocation;
use crate::iterator::shadow::RangeShadow;
use crate::iterator::value::Value;
use crate::sstable::BlobStreams;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::iterator::visible::range::VisibleRange;

/// Number of versions or deletes passed by steps before a seek is tried.
pub(super) const PATIENCE: u32 = 8;
/// Initial capacity of the key buffer in bytes; most keys fit.
const USUAL: usize = 64;

/// The only source, in the allocation of its list.
pub(super) struct LoneSource(Box<[MergeSource; 1]>);

impl Deref for LoneSource {
    type Target = MergeSource;

    #[inline]
    fn deref(&self) -> &MergeSource {
        let [source] = &*self.0;
        source
    }
}

impl DerefMut for LoneSource {
    #[inline]
    fn deref_mut(&mut self) -> &mut MergeSource {
        let [source] = &mut *self.0;
        source
    }
}

pub(super) enum VisibleInner {
    One(LoneSource),
    Many(Merging<MergeSource>),
}

impl VisibleInner {
    fn new(sources: Vec<MergeSource>) -> VisibleInner {
        if sources.len() != 1 {
            let mut many = Merging::new(sources);
            many.defer_values();
            return VisibleInner::Many(many);
        }
        match Box::try_from(sources) {
            Ok(one) => VisibleInner::One(LoneSource(one)),
            Err(many) => VisibleInner::Many(Merging::new(many)),
        }
    }
}

impl VisibleInner {
    #[inline]
    pub(super) fn current(&self) -> &MergeSource {
        match self {
            VisibleInner::One(s) => s,
            VisibleInner::Many(m) => m.current(),
        }
    }

    pub(super) fn pass_deletes(&mut self, forward: bool, bound: Option<&[u8]>) -> Result<()> {
        match self {
            VisibleInner::One(s) => s.pass_deletes(forward, bound).map(|_| ()),
            VisibleInner::Many(m) => m.pass_deletes(forward, bound),
        }
    }

    pub(super) fn pass_older(
        &mut self,
        seq: Seq,
        forward: bool,
        edge: Option<&[u8]>,
    ) -> Result<u64> {
        match self {
            VisibleInner::One(s) => s.pass_older(seq, forward, edge),
            VisibleInner::Many(m) => m.pass_older(seq, forward, edge),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Nowhere,
    Alone,
    Entry,
    Held,
    Blob,
    HeldBlob,
}

impl At {
    /// Reports whether the inner cursor is positioned at the shown entry.
    #[inline]
    pub(super) fn is_on_entry(self) -> bool {
        matches!(self, At::Alone | At::Entry | At::Blob)
    }
}

/// An iterator over the entries visible to a reader.
pub struct Visible {
    pub(super) inner: VisibleInner,
    pub(super) read: Seq,
    pub(super) shadow: RangeShadow,
    pub(super) merge: Option<Arc<dyn MergeOperator>>,
    pub(super) range: VisibleRange,
    pub(super) from_head: u64,
    pub(super) until_head: u64,
    pub(super) trusting: bool,
    pub(super) at: At,
    pub(super) forward: bool,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// The value read from a blob file, unless only keys are requested.
    pub(super) blob: Option<Value>,
    pub(super) keys_only: bool,
    /// Readahead streams of blob files.
    pub(super) ahead: BlobStreams,
    /// Whether the newest version of the held key is a blob.
    pub(super) is_blob: bool,
    pub(super) operands: Vec<Vec<u8>>,
    /// Counts the shown keys, if the read is recorded.
    pub(super) shown: Option<Arc<AtomicU64>>,
    /// Shared empty-range cache; `None` if nothing was deleted.
    pub(super) empty_ranges: Option<Arc<EmptyRangeCache>>,
    pub(super) start: Vec<u8>,
    /// Whether the next walk begins at `start`.
    pub(super) begun: bool,
    /// Minimum number of steps for which a walk is recorded, and maximum number of steps of a walk.
    pub(super) worth: u64,
    pub(super) most: u64,
    /// Total steps of long walks.
    pub(super) passed: u64,
    /// Whether operands were met that fold to no value.
    pub(super) folded_away: bool,
    /// Cost that this iterator pays for its sources.
    pub(super) seek_cost: SeekCost,
}

debug_by!(Visible, "Visible", read);

impl Visible {
    /// Creates an iterator over the entries in `range` of `sources` (newest first) that a reader at
    /// `read` sees. It is initially not positioned.
    pub fn new(
        sources: Vec<MergeSource>,
        read: Seq,
        shadow: RangeShadow,
        merge: Option<Arc<dyn MergeOperator>>,
        range: VisibleRange,
    ) -> Visible {
        let trusting = shadow.is_empty();
        Visible {
            inner: VisibleInner::new(sources),
            read,
            shadow,
            merge,
            from_head: head(&range.from),
            until_head: range.until.as_deref().map_or(u64::MAX, head),
            range,
            trusting,
            at: At::Nowhere,
            forward: true,
            key: vec![],
            value: vec![],
            blob: None,
            keys_only: false,
            ahead: BlobStreams::default(),
            is_blob: false,
            operands: vec![],
            shown: None,
            empty_ranges: None,
            start: vec![],
            begun: false,
            worth: MIN_STEPS,
            most: u64::MAX,
            passed: 0,
            folded_away: false,
            seek_cost: SeekCost::default(),
        }
    }

    /// Sets the counter of shown keys. The sources must not take the unchecked fast path.
    pub fn counting(self, shown: Arc<AtomicU64>) -> Visible {
        Visible { shown: Some(shown), ..self }
    }

    /// Sets the cost account of this iterator for its sources.
    pub fn pay(&mut self, seek_cost: SeekCost) {
        self.seek_cost = seek_cost;
    }

    /// Requests keys only: from now on blobs are not read.
    pub fn show_keys_only(&mut self) {
        self.keys_only = true;
        each!(&mut self.inner, c => c.defer_values());
    }

    /// Loads the value of the inner cursor's entry, unless only keys are requested.
    #[inline]
    pub(super) fn complete(&mut self) -> Result<()> {
        if self.keys_only { Ok(()) } else { each!(&mut self.inner, c => c.complete()) }
    }

    /// Returns the blob location of the inner cursor's entry; `None` if only keys are requested.
    pub(super) fn blob_location(&self) -> Option<BlobLocation> {
        if self.keys_only { None } else { self.inner.current().blob() }
    }

    /// Reads a blob: that of the held key, or of the inner cursor's entry.
    pub(super) fn fetch_blob(&mut self, place: Option<BlobLocation>, is_held: bool) -> Result<()> {
        let Some(place) = place else {
            self.blob = None;
            return Ok(());
        };
        let key = if is_held { &self.key } else { each!(&self.inner, c => c.key()) };
        self.blob = Some(place.fetch(key, &mut self.ahead)?);
        Ok(())
    }

    #[inline]
    pub(super) fn note_shown(&self) {
        if let Some(shown) = &self.shown {
            shown.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sets the empty-range cache: from now on the iterator skips known empty ranges and records
    /// new ones.
    pub fn use_empty_ranges(&mut self, empty_ranges: Arc<EmptyRangeCache>) {
        self.empty_ranges = Some(empty_ranges);
    }

    /// Makes the iterator record even small empty ranges, and stop a walk after about `most` steps;
    /// it is then not positioned. Afterwards it is good for one walk only. It does not pay read
    /// costs, because it serves no reader.
    pub fn look_no_further(&mut self, most: u64) {
        self.seek_cost = SeekCost::default();
        (self.worth, self.most) = (PATIENCE.into(), most);
    }

    /// Returns the approximate number of entries passed in long walks since
    /// [`forget_passed`](Self::forget_passed). Also reports whether they included operands that
    /// fold to no value.
    pub fn passed(&self) -> (u64, bool) {
        (self.passed, self.folded_away)
    }

    /// Resets the counts of passed entries.
    pub fn forget_passed(&mut self) {
        (self.passed, self.folded_away) = (0, false);
    }

    /// Reports whether the iterator is positioned at a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.at != At::Nowhere
    }

    /// Returns the current key. Requires a valid position.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.at.is_on_entry() { each!(&self.inner, c => c.key()) } else { &self.key }
    }

    /// Returns the current value. Requires a valid position.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.at {
            At::Alone | At::Entry => each!(&self.inner, c => c.value()),
            At::Blob | At::HeldBlob => self.blob.as_deref().unwrap_or_default(),
            At::Held | At::Nowhere => &self.value,
        }
    }

    /// Returns the value as an owned handle. It is not copied if it is in a memtable, or in a block
    /// that is cached or mapped.
    pub fn pin_value(&self) -> Value {
        if let (At::Blob | At::HeldBlob, Some(value)) = (self.at, &self.blob) {
            return value.clone();
        }
        if !matches!(self.at, At::Alone | At::Entry) {
            return self.value().into();
        }
        self.inner.current().pin_value().unwrap_or_else(|| self.value().into())
    }

    /// Reports whether the inner cursor's entry is a put that the reader sees and the only entry of
    /// its key.
    #[inline]
    pub(super) fn plain(&self) -> bool {
        match &self.inner {
            VisibleInner::One(s) => {
                matches!(&**s, MergeSource::Run(r) if r.plain_up_to().is_some_and(|s| s <= self.read))
            }
            VisibleInner::Many(m) => m.is_alone(self.read),
        }
    }

    #[inline]
    pub(super) fn hold_key(&mut self) {
        self.key.clear();
        let k = each!(&self.inner, c => c.key());
        // Reserve room for later keys too: most iterators hold a few keys of similar length.
        self.key.reserve(k.len().max(USUAL));
        self.key.extend_from_slice(k);
    }

    /// Skips the remaining entries of the held key.
    pub(super) fn skip_held(&mut self) -> Result<()> {
        let h = head(&self.key);
        let mut passed = 0;
        each!(&mut self.inner, c => {
            while c.valid() && c.head() == h && c.key() == self.key.as_slice() {
                passed += 1;
                if passed > PATIENCE {
                    return c.seek(&self.key, Trailer(0));
                }
                c.next()?;
            }
        });
        Ok(())
    }

    #[inline]
    pub(super) fn beyond(&self) -> bool {
        let h = each!(&self.inner, c => c.head());
        if h < self.until_head {
            return false;
        }
        self.range.until.as_deref().is_some_and(|u| each!(&self.inner, c => c.key()) >= u)
    }

    #[inline]
    pub(super) fn before(&self) -> bool {
        let h = each!(&self.inner, c => c.head());
        h <= self.from_head && self.range.begins_after(each!(&self.inner, c => c.key()))
    }
}
