//! The feed of a store's changes: the batches that were committed, in order, each whole, as the log
//! has them.
//!
//! Invariants:
//! - F1: each sequence number that is read is told once, in order: as one of a batch, or as one that
//!   is not in the log. There is no gap that is not told.
//! - F2: a change is told when readers see it, not before.
//! - F3: a feed takes no lock that writers take, but where a segment of the log ends.

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
use crate::db::inner::DbInner;
use crate::db::scheduler::gate::closed;
use crate::db::versions::tree::TreeInner;
use crate::db::write::batch::BatchOp;

/// Who waits for a change looks this often at first,
const SHORTEST_LOOK: Duration = Duration::from_micros(200);
/// and at last this often.
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// What was committed with consecutive sequence numbers: a batch, or a single operation, or
/// something that is not in the log ([`is_loaded`](Change::is_loaded)).
pub struct Change {
    first: Seq,
    last: Seq,
    /// The operations; `None` of what is not in the log.
    bytes: Option<Vec<u8>>,
    /// The trees that there are and that it has operations of, in order of their numbers.
    trees: Vec<Arc<TreeInner>>,
}

impl Change {
    /// The sequence numbers of its operations.
    pub fn seqs(&self) -> RangeInclusive<Seq> {
        self.first..=self.last
    }

    /// Whether it came in past the log: by [`ingest`](crate::Tree::ingest) or
    /// [`import`](crate::Tree::import), each of which has one number. It has no operations here:
    /// who follows must read the trees into which is loaded again.
    pub fn is_loaded(&self) -> bool {
        self.bytes.is_none()
    }

    /// The names and the numbers of the trees that it has operations of. A tree that is dropped and
    /// made again has another number: what was there under its name is gone.
    pub fn trees(&self) -> impl Iterator<Item = (&str, u32)> {
        self.trees.iter().map(|t| (t.name.as_str(), t.id))
    }

    /// Its operations, in the order in which they were added to the batch. Those of trees that have
    /// been dropped since are left out.
    pub fn ops(&self) -> ChangeOps<'_> {
        ChangeOps { change: self, ops: OpReader::new(self.bytes.as_deref().unwrap_or_default()) }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("seqs", &self.seqs()).finish_non_exhaustive()
    }
}

/// The operations of a [`Change`].
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

/// The changes of a store, in order: see [`Db::changes_since`].
pub struct ChangeFeed {
    handle: Arc<CloseHandle>,
    follower: LogFollower,
    /// What lies below in the log earlier openings have written.
    inherited: Lsn,
    /// The next sequence number to be told.
    next: Seq,
    /// What was read and lies behind what is not in the log.
    ahead: Option<FollowedRecord>,
}

impl fmt::Debug for ChangeFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeFeed").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Db {
    /// The changes of all trees with sequence numbers above `seq`, in order, each batch whole: those
    /// that the log still has, and then those that are written, as they are written. For replicas,
    /// caches and whoever else follows a store.
    ///
    /// As long as the feed lives it holds the log from where it has read: at most `most` bytes of
    /// it, which take space and time at the next opening. When it falls behind by more, a flush may
    /// let go of them, and the feed says `Lagged` from then on. Nothing holds the log while there is
    /// no feed: then it has what is not flushed yet, and some more.
    ///
    /// A change is told when readers see it. A power cut may take the last ones, where they were not
    /// written with [`Durability::Power`](crate::Durability): who must not be ahead of the store
    /// then calls [`sync`](Db::sync) before it makes its own state durable. What was loaded past the
    /// log is told without its content ([`Change::is_loaded`]), what hooks and policies drop in
    /// merges not at all.
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
    /// `Lagged` when the log does not begin early enough: the message says where it does.
    /// `InvalidArgument` for a `seq` above all that were given, `ReadOnly` for a store that takes no
    /// writes, and what reading the log gives.
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
        // What was loaded before the first record that there is has a number below it.
        if oldest > seq + 1 {
            return Err(lagged(seq + 1, Some(oldest)));
        }
        let at = from.unwrap_or_default();
        let follower = LogFollower::new(&inner.env, inner.versions.dir(), at, hold);
        let handle = self.handle.clone();
        let mut feed = ChangeFeed { handle, follower, inherited, next: seq + 1, ahead: None };
        feed.skip()?;
        feed.follower.hold().bound(most);
        Ok(feed)
    }
}

impl ChangeFeed {
    /// The next change; waits for it for so long at most. `None` when there was none.
    ///
    /// # Errors
    /// `Lagged` when the feed was behind by more than it may hold: begin again with what a reader
    /// sees now. `Closed` when the store was closed, and what reading the log gives.
    #[allow(clippy::should_implement_trait, reason = "it waits, and goes on after an end")]
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

    /// The sequence number up to which everything has been told: what to give to
    /// [`Db::changes_since`] to go on.
    pub fn seq(&self) -> Seq {
        self.next - 1
    }

    /// The names and numbers of the trees that there are now. Making and dropping trees takes no
    /// sequence number, so no change tells of it: who follows keeps the number of each tree, and lets
    /// go of what it has of a tree that is not among these, or that has another number.
    pub fn trees(&self) -> Vec<(String, u32)> {
        self.handle.inner.versions.trees().iter().map(|t| (t.name.clone(), t.id)).collect()
    }

    /// Passes what lies below the first number that is wanted.
    fn skip(&mut self) -> Result<()> {
        let inner = self.handle.inner.clone();
        while let Some(record) = self.read(&inner)? {
            let last = last_of(&record)?;
            if last >= self.next {
                // Of a batch in the middle of which it was to begin, all is told.
                self.next = self.next.min(record.seq);
                self.ahead = Some(record);
                break;
            }
        }
        Ok(())
    }

    fn read(&mut self, inner: &DbInner) -> Result<Option<FollowedRecord>> {
        let read = self.follower.next(|| log_position(&inner.commit));
        // It was let go of under the reader's hands, which explains whatever was met.
        if self.follower.hold().is_lost() {
            return Err(lagged(self.next, oldest_change(inner)?));
        }
        match read {
            // Of what nobody needed any more a power cut may have taken a part.
            Err(e) if e.kind() == ErrorKind::Corruption && self.follower.at() < self.inherited => {
                Err(lagged(self.next, None))
            }
            read => read,
        }
    }

    /// The next change, if it can be seen.
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
            // Numbers are in the order of the log: what is not here is nowhere in it.
            let last = self.ahead.as_ref().map_or(visible, |r| visible.min(r.seq - 1));
            self.next = last + 1;
            return Ok(Some(Change { first, last, bytes: None, trees: vec![] }));
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
        Ok(Some(Change { first: record.seq, last, bytes: Some(record.payload), trees }))
    }
}

/// The number of a record's last operation.
fn last_of(record: &FollowedRecord) -> Result<Seq> {
    let mut count = 0;
    for op in OpReader::new(&record.payload) {
        op.ok_or_else(|| Error::corruption("a record of the log does not decode"))?;
        count += 1;
    }
    Ok(record.seq + u64::max(count, 1) - 1)
}

fn lagged(wanted: Seq, oldest: Option<Seq>) -> Error {
    let has =
        oldest.map_or(String::new(), |oldest| format!(" (the oldest that it has is {oldest})"));
    Error::new(
        ErrorKind::Lagged,
        format!(
            "the log does not have all changes from {wanted} on any more{has}: copy what a snapshot sees, and follow from its sequence number"
        ),
    )
}

/// Holds all of the log that there is, and gives its segments, and up to where they are those of
/// earlier openings.
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

/// The segments of the log, and where it ends.
fn log_position(commit: &CommitPipeline) -> Result<(Vec<SegmentPlace>, Lsn)> {
    let mut w = commit.lock();
    let end = w.end();
    let places = w.log().map(|wal| wal.places());
    Ok((places.ok_or_else(closed)?, end))
}

/// The oldest change that the log has, if it has any.
fn oldest_change(db: &DbInner) -> Result<Option<Seq>> {
    for place in log_position(&db.commit)?.0 {
        if let Some(first) = first_of(&*db.env, db.versions.dir(), place)? {
            return Ok(Some(first));
        }
    }
    Ok(None)
}
