//! Change feed of a store: returns the committed batches in order, each whole, from the write-ahead
//! log.
//!
//! Invariants:
//! - F1: a feed reports each sequence number from its start on exactly once, in order. The
//!   number belongs to a batch, or to a change that reports it as missing from the log. The feed
//!   skips no number silently.
//! - F2: a feed reports a change only after readers can see it.
//! - F3: a feed takes the write lock only when it is created, at the end of a log segment, and when
//!   the log has no record of the next number (an ingestion, or a dropped tree).

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::Seq;
use crate::base::ops::OpReader;
use crate::db::commit::CommitPipeline;
use crate::db::jobs::background;
use crate::util::sort::sort;
use crate::wal::Lsn;
use crate::wal::tail::{FollowedRecord, LogFollower, LogHold, SegmentPlace, first_of};

use crate::db::handle::handles::{CloseHandle, Db};
use crate::db::handle::ttl;
use crate::db::inner::DbInner;
use crate::db::scheduler::gate::closed;
use crate::db::versions::tree::TreeInner;
use crate::db::write::batch::BatchOp;

/// First interval of the poll for a change.
const SHORTEST_LOOK: Duration = Duration::from_micros(200);
/// Longest interval of the poll for a change. The interval doubles up to this.
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// A committed range of consecutive sequence numbers: a batch, a single operation, or data that is
/// not in the log ([`is_loaded`](Change::is_loaded)).
pub struct Change {
    first: Seq,
    last: Seq,
    /// Encoded operations; `None` if they are not in the log.
    bytes: Option<Vec<u8>>,
    is_drop: bool,
    /// Existing trees that the operations refer to, in order of their numbers.
    trees: Vec<Arc<TreeInner>>,
}

impl Change {
    /// Returns the sequence numbers of the operations.
    pub fn seqs(&self) -> RangeInclusive<Seq> {
        self.first..=self.last
    }

    /// Reports whether the change bypassed the log: [`ingest`](crate::Tree::ingest),
    /// [`import`](crate::Tree::import), or a drop of a tree that is not known as such
    /// ([`is_drop`](Change::is_drop)), each of which has one number. The change has no operations
    /// then and names no tree. The consumer of the feed must copy all trees again, or compare
    /// [`ChangeFeed::trees`] and copy those that it expects to be ingested into.
    pub fn is_loaded(&self) -> bool {
        self.bytes.is_none() && !self.is_drop
    }

    /// Reports whether the change is known to be only the drop of trees ([`Db::drop_tree`]). The
    /// store knows this of the last 4,096 drops since it was opened. For an older one,
    /// [`is_loaded`](Change::is_loaded) is true.
    ///
    /// ```
    /// use std::time::Duration;
    /// use firn_kv::{Db, TreeOptions};
    /// let db = Db::in_memory()?;
    /// db.tree("t", TreeOptions::default())?;
    /// let mut feed = db.changes_since(0, 64 << 20)?;
    /// db.drop_tree("t")?;
    /// let change = feed.next(Duration::ZERO)?.unwrap();
    /// assert!(change.is_drop() && !change.is_loaded());
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn is_drop(&self) -> bool {
        self.is_drop
    }

    /// Returns the names and numbers of the trees that the operations refer to. A tree that was
    /// dropped and created again has another number, and its earlier content is gone.
    pub fn trees(&self) -> impl Iterator<Item = (&str, u32)> {
        self.trees.iter().map(|t| (t.name.as_str(), t.id))
    }

    /// Returns the operations, in the order in which they were added to the batch. Operations on
    /// trees that have been dropped since are omitted.
    pub fn ops(&self) -> ChangeOps<'_> {
        ChangeOps { change: self, ops: OpReader::new(self.encoded()) }
    }

    /// Returns the operations as [`ops`](Change::ops) does, but the values of a
    /// [`TtlTree`](crate::TtlTree) as they were put, with their deadlines.
    pub fn decoded_ops(&self) -> impl Iterator<Item = DecodedOp<'_>> {
        self.ops().map(|op| match op {
            BatchOp::Put { tree, key, value } if self.is_ttl(tree) => {
                let (expires_micros, value) = ttl::decode(value);
                DecodedOp { op: BatchOp::Put { tree, key, value }, expires_micros }
            }
            op => DecodedOp { op, expires_micros: None },
        })
    }

    /// Returns the encoded operations.
    pub(super) fn encoded(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }

    fn is_ttl(&self, tree: &str) -> bool {
        self.trees.iter().any(|t| t.name == tree && t.is_ttl())
    }
}

/// An operation of a [`Change`] with its deadline: [`Change::decoded_ops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedOp<'a> {
    /// The operation. The value of a put is without its deadline.
    pub op: BatchOp<'a>,
    /// Deadline of the value in microseconds since 1970; `None` if it never expires.
    pub expires_micros: Option<u64>,
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("seqs", &self.seqs()).finish_non_exhaustive()
    }
}

/// Iterator over the operations of a [`Change`].
#[derive(Clone)]
pub struct ChangeOps<'a> {
    change: &'a Change,
    ops: OpReader<'a>,
}

impl fmt::Debug for ChangeOps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeOps").field("change", self.change).finish_non_exhaustive()
    }
}

impl<'a> Iterator for ChangeOps<'a> {
    type Item = BatchOp<'a>;

    fn next(&mut self) -> Option<BatchOp<'a>> {
        loop {
            let (id, op) = self.ops.next()??;
            if let Ok(at) = self.change.trees.binary_search_by_key(&id, |t| t.id) {
                return Some(BatchOp::of(&self.change.trees[at].name, op));
            }
        }
    }
}

/// Feed of a store's changes, in order: see [`Db::changes_since`].
pub struct ChangeFeed {
    handle: Arc<CloseHandle>,
    follower: LogFollower,
    /// Position in the log up to which earlier openings wrote it.
    inherited: Lsn,
    /// Next sequence number to report.
    next: Seq,
    /// Record that was read ahead: it follows numbers that are missing from the log.
    ahead: Option<FollowedRecord>,
}

impl fmt::Debug for ChangeFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeFeed").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Db {
    /// Returns a feed of the changes of all trees with sequence numbers above `seq`, in order, each
    /// batch whole. It begins with the changes that are still in the log and continues with new
    /// ones as they are written. It serves replicas, caches and other consumers that follow a
    /// store.
    ///
    /// While the feed exists, it pins the log from its read position on: at most `most` bytes. They
    /// take disk space, and time at the next opening. If the feed falls behind by more, a flush may
    /// release that part of the log, and every later call fails with `Lagged`. Without a feed
    /// nothing pins the log. It then holds little more than the unflushed writes.
    ///
    /// A change is reported once readers can see it. A power cut may lose the last changes if they
    /// were not written with [`Durability::Power`](crate::Durability). A consumer that must not be
    /// ahead of the store therefore calls [`sync`](Db::sync) before it makes its own state durable.
    /// Data that bypassed the log is reported without its content ([`Change::is_loaded`]). Entries
    /// that hooks and policies drop in compactions are not reported.
    ///
    /// ```
    /// use std::time::Duration;
    /// use firn_kv::{Batch, BatchOp, Db, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let tree = db.tree("t", TreeOptions::default())?;
    /// let mut feed = db.changes_since(0, 64 << 20)?;
    /// tree.put("k", "v")?;
    /// let change = feed.next(Duration::ZERO)?.unwrap();
    /// assert_eq!(change.seqs(), 1..=1);
    /// let op = change.ops().next().unwrap();
    /// assert_eq!(op, BatchOp::Put { tree: "t", key: b"k", value: b"v" });
    /// assert!(feed.next(Duration::ZERO)?.is_none());
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Lagged` when the log begins too late: the message contains its oldest sequence number.
    /// `InvalidArgument` for a `seq` above the newest sequence number, `ReadOnly` for a store that
    /// accepts no writes, and errors of reading the log.
    pub fn changes_since(&self, seq: Seq, most: u64) -> Result<ChangeFeed> {
        let inner = self.inner();
        let (hold, segments, inherited) = pin_log(inner)?;
        let newest = inner.commit.read_point();
        if seq > newest {
            return Err(Error::invalid(format!(
                "there are no changes above {seq}: the newest sequence number is {newest}"
            )));
        }
        let (mut from, mut oldest) = (None, newest + 1);
        for place in segments.iter().rev() {
            let Some(first) = first_of(&*inner.env, inner.versions.dir(), *place)? else {
                from.get_or_insert(place.base);
                continue;
            };
            (from, oldest) = (Some(place.base), first);
            if first <= seq + 1 {
                break;
            }
        }
        // Data loaded before the oldest record has a number below that of the record.
        if oldest > seq + 1 {
            return Err(lagged(seq + 1, Some(oldest)));
        }
        let at = from.unwrap_or_default();
        ChangeFeed::begin(&self.handle, (hold, inherited), at, seq, most)
    }
}

impl ChangeFeed {
    /// Begins a feed of the changes above `seq`. Their records begin at the log position `at` or
    /// behind it.
    pub(super) fn at(
        handle: &Arc<CloseHandle>,
        at: Lsn,
        seq: Seq,
        most: u64,
    ) -> Result<ChangeFeed> {
        let (hold, segments, inherited) = pin_log(&handle.inner)?;
        if segments.first().is_none_or(|s| s.base > at) {
            return Err(lagged(seq + 1, oldest_change(&handle.inner)?));
        }
        ChangeFeed::begin(handle, (hold, inherited), at, seq, most)
    }

    fn begin(
        handle: &Arc<CloseHandle>,
        (hold, inherited): (Arc<LogHold>, Lsn),
        at: Lsn,
        seq: Seq,
        most: u64,
    ) -> Result<ChangeFeed> {
        let inner = &handle.inner;
        // The feed needs nothing before its start.
        hold.move_to(at);
        let follower = LogFollower::new(&inner.env, inner.versions.dir(), at, hold);
        let handle = handle.clone();
        let mut feed = ChangeFeed { handle, follower, inherited, next: seq + 1, ahead: None };
        feed.skip()?;
        feed.follower.hold().bound(most);
        Ok(feed)
    }

    /// Returns the log position behind everything that was reported. The records of all later
    /// changes are behind it.
    pub(super) fn position(&self) -> Lsn {
        self.ahead.as_ref().map_or(self.follower.at(), |record| record.begin)
    }

    /// Returns the next change. Waits for it for at most `wait`; `None` if none came.
    ///
    /// # Errors
    /// `Lagged` when the feed fell behind by more than it may pin: start again from a current
    /// snapshot. `Closed` when the store was closed, and errors of reading the log.
    #[allow(clippy::should_implement_trait, reason = "it waits, and continues after `None`")]
    pub fn next(&mut self, wait: Duration) -> Result<Option<Change>> {
        let inner = self.handle.inner.clone();
        let began = inner.env.monotonic_nanos();
        let mut look = SHORTEST_LOOK;
        loop {
            inner.gate.check_open()?;
            if let Some(change) = self.take(&inner)? {
                return Ok(Some(change));
            }
            let waited = Duration::from_nanos(inner.env.monotonic_nanos().saturating_sub(began));
            let Some(left) = wait.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Ok(None);
            };
            inner.env.sleep(left.min(look));
            look = (look * 2).min(LONGEST_LOOK);
        }
    }

    /// Returns the sequence number up to which everything has been reported. Pass it to
    /// [`Db::changes_since`] to resume.
    pub fn seq(&self) -> Seq {
        self.next - 1
    }

    /// Returns the names and numbers of the present trees. No change reports the creation of a tree.
    /// Dropping one is reported as a change without operations ([`Change::is_drop`]). A consumer
    /// should record the number of each tree. It discards its copy of a tree that is missing here or
    /// has another number.
    pub fn trees(&self) -> Vec<(String, u32)> {
        self.handle.inner.versions.trees().iter().map(|t| (t.name.clone(), t.id)).collect()
    }

    /// Skips records below the first requested number.
    fn skip(&mut self) -> Result<()> {
        let inner = self.handle.inner.clone();
        while let Some(record) = self.read(&inner)? {
            let last = last_of(&record)?;
            if last >= self.next {
                // If the feed starts in the middle of a batch, it reports the whole batch.
                self.next = self.next.min(record.seq);
                self.ahead = Some(record);
                break;
            }
        }
        Ok(())
    }

    fn read(&mut self, inner: &DbInner) -> Result<Option<FollowedRecord>> {
        let read = self.follower.next(|| log_position(&inner.commit));
        // A lost hold explains any result: the log was released during the read.
        if self.follower.hold().is_lost() {
            return Err(lagged(self.next, oldest_change(inner)?));
        }
        match read {
            // A power cut may have removed a part of the old log that was no longer needed.
            Err(e) if e.kind() == ErrorKind::Corruption && self.follower.at() < self.inherited => {
                Err(lagged(self.next, None))
            }
            read => read,
        }
    }

    /// Returns the next change, if readers can see it.
    fn take(&mut self, inner: &DbInner) -> Result<Option<Change>> {
        let visible = inner.commit.read_point();
        if self.next > visible {
            return Ok(None);
        }
        if self.ahead.is_none() {
            self.ahead = self.read(inner)?;
        }
        let first = self.next;
        let Some(record) = self.ahead.take_if(|r| r.seq <= first) else {
            // Numbers ascend in the log, so a number missing here is nowhere in it.
            let last = self.ahead.as_ref().map_or(visible, |r| visible.min(r.seq - 1));
            self.next = last + 1;
            let is_drop = inner.versions.lock_catalog().are_drops(first..=last);
            return Ok(Some(Change { first, last, bytes: None, is_drop, trees: vec![] }));
        };
        let last = last_of(&record)?;
        self.next = last + 1;
        let open = inner.versions.trees();
        let mut ids: Vec<_> =
            OpReader::new(&record.payload).flatten().map(|(tree, _)| tree).collect();
        sort(&mut ids);
        ids.dedup();
        let trees = ids.into_iter().filter_map(|id| open.by_id(id).cloned()).collect();
        drop(open);
        let bytes = Some(record.payload);
        Ok(Some(Change { first: record.seq, last, bytes, is_drop: false, trees }))
    }
}

/// Returns the sequence number of a record's last operation.
fn last_of(record: &FollowedRecord) -> Result<Seq> {
    let mut count = 0;
    for op in OpReader::new(&record.payload) {
        op.ok_or_else(|| Error::corruption("a record of the log does not decode"))?;
        count += 1;
    }
    Ok(record.seq + u64::max(count, 1) - 1)
}

pub(super) fn lagged(wanted: Seq, oldest: Option<Seq>) -> Error {
    let has =
        oldest.map_or(String::new(), |oldest| format!(" (the oldest that it has is {oldest})"));
    Error::new(
        ErrorKind::Lagged,
        format!(
            "the log does not have all changes from {wanted} on any more{has}: copy what a snapshot sees, and follow from its sequence number"
        ),
    )
}

/// Pins the whole log. Returns its segments, and the position up to which earlier openings wrote
/// them.
fn pin_log(db: &DbInner) -> Result<(Arc<LogHold>, Vec<SegmentPlace>, Lsn)> {
    db.gate.check_process()?;
    db.gate.check_writable()?;
    let mut w = db.commit.lock();
    if !w.has_begun() {
        w = background::begin_log(db, w)?;
    }
    let wal = w.log().ok_or_else(closed)?;
    let (hold, places) = wal.hold();
    Ok((hold, places, wal.inherited().1))
}

/// Returns the segments of the log and the position of its end.
fn log_position(commit: &CommitPipeline) -> Result<(Vec<SegmentPlace>, Lsn)> {
    let mut w = commit.lock();
    let end = w.end();
    let places = w.log().map(|wal| wal.places());
    Ok((places.ok_or_else(closed)?, end))
}

/// Returns the sequence number of the oldest change in the log; `None` if it has none.
fn oldest_change(db: &DbInner) -> Result<Option<Seq>> {
    for place in log_position(&db.commit)?.0 {
        if let Some(first) = first_of(&*db.env, db.versions.dir(), place)? {
            return Ok(Some(first));
        }
    }
    Ok(None)
}
