//! Durable change feed: a [`Subscription`] has a name, and a position in the manifest.
//!
//! A subscription pins the log from its position on, up to a bound in bytes, across restarts and
//! power cuts. Its consumer acknowledges the changes that it has processed.
//!
//! Invariants:
//! - B1: a change is reported only when its log is durable. So the store never returns to a state
//!   before a reported change, unless the log is damaged or removed.
//! - B2: after a restart, the subscription continues behind the last acknowledgement in the
//!   manifest. Each change that was not acknowledged is reported again.
//! - B3: if the log has lost a change that was not acknowledged, or a reported one, every call
//!   fails with `Lagged` until the consumer begins again with a snapshot.
//!
//! Spec: `format-spec/README.md`, "Manifest".

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::Seq;
use crate::db::jobs::background;
use crate::db::write::durable;
use crate::manifest::{Edit, MAX_SUBSCRIPTIONS, SnapshotDue, SubscriptionState};
use crate::wal::Lsn;
use crate::wal::tail::LogHold;

use crate::db::handle::changes::{Change, ChangeFeed, lagged};
use crate::db::handle::handles::{CloseHandle, Db};
use crate::db::handle::snapshot::{ReadPoint, Snapshot};
use crate::db::inner::DbInner;
use crate::db::scheduler::gate::closed;
use crate::db::versions::catalog::TreeCatalog;
use crate::db::versions::subscription_point::SubscriptionPoint;

/// Maximum number of remembered positions between the acknowledged change and the last one.
const MAX_MARKS: usize = 64;

/// Position of a consumer in the changes of a store. A consumer stores it together with the
/// effects of the changes up to it, and [resumes](Subscription::resume) there.
///
/// As text it is the [identity](Db::identity) of the store in hexadecimal digits, a hyphen, and the
/// sequence number:
///
/// ```
/// use firn_kv::ChangePosition;
/// let position = ChangePosition { store: 0xfe, seq: 12 };
/// assert_eq!(position.to_string(), "00000000000000fe-12");
/// assert_eq!("00000000000000fe-12".parse::<ChangePosition>()?, position);
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangePosition {
    /// Identity of the store.
    pub store: u64,
    /// Sequence number of the last change.
    pub seq: Seq,
}

impl fmt::Display for ChangePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.store, self.seq)
    }
}

impl FromStr for ChangePosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<ChangePosition> {
        let read = |text: &str| {
            let (store, seq) = text.split_once('-')?;
            let store = u64::from_str_radix(store, 16).ok().filter(|_| store.len() == 16)?;
            Some(ChangePosition { store, seq: seq.parse().ok()? })
        };
        read(text).ok_or_else(|| {
            Error::invalid(format!(
                "{text:?} is no position of a change feed: a position has 16 hexadecimal digits, a hyphen and a number"
            ))
        })
    }
}

/// State of a subscription: [`Db::subscriptions`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionInfo {
    /// Name of the subscription.
    pub name: String,
    /// Sequence number up to which the consumer has acknowledged all changes.
    pub seq: Seq,
    /// Number of sequence numbers that are not acknowledged yet.
    pub behind: u64,
    /// Bytes of log between the position in the manifest and the end of the log. It pins these.
    pub retained_bytes: u64,
    /// Maximum number of bytes of log that it pins.
    pub max_log_bytes: u64,
    /// Whether the consumer must copy a snapshot before it continues.
    pub is_snapshot_due: bool,
}

/// A durable change feed: see [`Db::subscribe`].
pub struct Subscription {
    handle: Arc<CloseHandle>,
    name: String,
    max_log_bytes: u64,
    point: Arc<SubscriptionPoint>,
    /// `None` if the log behind the position has been released.
    feed: Option<ChangeFeed>,
    /// Sequence numbers of reported changes with the log positions behind them, ascending. The
    /// first one is not above the acknowledged number.
    marks: VecDeque<(Seq, Lsn)>,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("name", &self.name)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the subscription `name`, and creates it if it does not exist. A subscription is a
    /// [change feed](Db::changes_since) with a durable position. It serves consumers outside the
    /// store: replicas, indexes, caches.
    ///
    /// The store retains the log from the position on, across restarts and power cuts, even while
    /// no program has the subscription open. It retains at most `max_log_bytes` for this. They
    /// take disk space, and an opening opens each of their segments. Beyond the bound, a flush
    /// releases the log, and the consumer must [copy a snapshot](Subscription::snapshot) first. A
    /// new subscription begins at the present state. While a store has subscriptions, each flush
    /// syncs the log.
    ///
    /// A call for an existing subscription sets its bound. At most 256 subscriptions may exist. A
    /// [checkpoint](Db::checkpoint) and a backup have none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use firn_kv::{Db, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let tree = db.tree("t", TreeOptions::default())?;
    /// tree.put("a", "1")?;
    /// let mut changes = db.subscribe("index", 1 << 30)?;
    /// if changes.is_snapshot_due() {
    ///     let snapshot = changes.snapshot()?;
    ///     // Copy it, then acknowledge it.
    ///     changes.acknowledge(snapshot.seq())?;
    /// }
    /// tree.put("b", "2")?;
    /// while let Some(change) = changes.next(Duration::ZERO)? {
    ///     assert_eq!(change.ops().count(), 1);
    ///     // Process it, then acknowledge it.
    ///     changes.acknowledge(*change.seqs().end())?;
    /// }
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Locked` when another handle uses the subscription. `InvalidArgument` for a name that has
    /// not 1 to 255 bytes, and for too many subscriptions. `ReadOnly` for a store that accepts no
    /// writes, and errors of reading the log and writing the manifest.
    pub fn subscribe(&self, name: &str, max_log_bytes: u64) -> Result<Subscription> {
        let inner = self.inner();
        if name.is_empty() || name.len() > 255 {
            return Err(Error::invalid(format!(
                "a subscription's name has 1 to 255 bytes, this one {}",
                name.len()
            )));
        }
        self.handle.check_writer()?;
        begin_log(inner)?;
        let point = loop {
            let there = {
                let mut c = inner.versions.lock_catalog();
                open_existing(inner, &mut c, name, max_log_bytes)?
            };
            // `None` when another thread has created it meanwhile.
            let made = there.map_or_else(|| create(inner, name, max_log_bytes), |p| Ok(Some(p)))?;
            if let Some(point) = made {
                break point;
            }
        };
        let seq = point.seq();
        let at = point.position();
        let marks = [(seq, at)].into();
        let handle = self.handle.clone();
        let mut subscription =
            Subscription { handle, name: name.to_owned(), max_log_bytes, point, feed: None, marks };
        if !subscription.point.is_lagged() {
            subscription.feed = match ChangeFeed::at(&self.handle, at, seq, max_log_bytes) {
                Err(e) if e.kind() == ErrorKind::Lagged => {
                    subscription.point.release();
                    None
                }
                feed => Some(feed?),
            };
        }
        Ok(subscription)
    }

    /// Returns the subscriptions of the store, in the order of their names.
    pub fn subscriptions(&self) -> Vec<SubscriptionInfo> {
        let inner = self.inner();
        let c = inner.versions.lock_catalog();
        let (newest, end) = {
            let w = inner.commit.lock();
            (w.newest(), w.end())
        };
        let info = |before: &SubscriptionState| {
            let point = c.subscription(&before.name);
            let now = point.map_or_else(|| before.clone(), |point| point.state(before));
            let is_lagged = point.is_some_and(|point| point.is_lagged());
            SubscriptionInfo {
                name: now.name,
                seq: now.seq,
                behind: newest.saturating_sub(now.seq),
                retained_bytes: if is_lagged { 0 } else { end.saturating_sub(before.position) },
                max_log_bytes: now.max_log_bytes,
                is_snapshot_due: now.snapshot_due != SnapshotDue::No,
            }
        };
        c.state().subscriptions.values().map(info).collect()
    }

    /// Drops a subscription and releases its part of the log. A handle of it fails with `NotFound`
    /// from now on.
    ///
    /// # Errors
    /// `NotFound` when there is no such subscription, and errors of writing the manifest.
    pub fn drop_subscription(&self, name: &str) -> Result<()> {
        self.handle.check_writer()?;
        let inner = self.inner();
        begin_log(inner)?;
        let mut c = inner.versions.lock_catalog();
        if !c.state().subscriptions.contains_key(name) {
            return Err(missing(name));
        }
        let edit = Edit::DropSubscription { name: name.to_owned() };
        durable::log_edits(inner, &mut c, vec![edit])?;
        c.remove_subscription(name);
        Ok(())
    }
}

impl Subscription {
    /// Returns the name of the subscription.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reports whether the consumer must copy a [snapshot](Subscription::snapshot) before it
    /// continues. This is so for a new subscription, until its first acknowledgement, and after the
    /// log has lost changes that it needs. A consumer that wants later changes only acknowledges
    /// the [position](Subscription::position) of a new subscription.
    pub fn is_snapshot_due(&self) -> bool {
        self.feed.is_none() || self.point.is_snapshot_due()
    }

    /// Begins again at the present state, and returns a snapshot of it. The following changes are
    /// those above the snapshot's sequence number. [Acknowledge](Subscription::acknowledge) that
    /// number when the copy is complete: until then a snapshot remains due.
    ///
    /// # Errors
    /// `NotFound` if the subscription was dropped, and errors of syncing the log and writing the
    /// manifest.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let inner = &self.handle.inner;
        self.check_there()?;
        let (hold, at) = pin_end(inner, self.max_log_bytes)?;
        let point = Arc::new(ReadPoint::new(self.handle.clone(), &self.name, false));
        let snapshot = Snapshot { point };
        // B1 also holds for the snapshot.
        inner.commit.sync_log()?;
        let seq = snapshot.seq();
        {
            let mut c = inner.versions.lock_catalog();
            self.check_there()?;
            self.point.restart(seq, at, hold);
            durable::log_subscriptions(inner, &mut c)?;
        }
        self.feed = Some(ChangeFeed::at(&self.handle, at, seq, self.max_log_bytes)?);
        self.marks = [(seq, at)].into();
        Ok(snapshot)
    }

    /// Returns the next change, once it is durable. Waits for it for at most `wait`; `None` if none
    /// came.
    ///
    /// # Errors
    /// `Lagged` when the log has lost changes: begin again with a
    /// [snapshot](Subscription::snapshot). `NotFound` if the subscription was dropped, `Closed`
    /// when the store was closed, and errors of reading and syncing the log.
    #[allow(clippy::should_implement_trait, reason = "it waits, and continues after `None`")]
    pub fn next(&mut self, wait: Duration) -> Result<Option<Change>> {
        self.check_there()?;
        let inner = self.handle.inner.clone();
        let feed = match &mut self.feed {
            Some(feed) if !self.point.is_lagged() => feed,
            _ => return Err(lagged(self.point.seq() + 1, None)),
        };
        let Some(change) = feed.next(wait)? else { return Ok(None) };
        let at = feed.position();
        inner.commit.sync_beyond(at)?;
        if self.marks.len() == MAX_MARKS {
            let mut n = 0;
            self.marks.retain(|_| {
                n += 1;
                n % 2 == 1
            });
        }
        self.marks.push_back((*change.seqs().end(), at));
        Ok(Some(change))
    }

    /// Returns the position behind the last reported change.
    pub fn position(&self) -> ChangePosition {
        let seq = self.feed.as_ref().map_or_else(|| self.point.seq(), ChangeFeed::seq);
        ChangePosition { store: self.handle.inner.versions.store(), seq }
    }

    /// Returns the names and numbers of the present trees, as [`ChangeFeed::trees`] does.
    pub fn trees(&self) -> Vec<(String, u32)> {
        self.handle.inner.versions.trees().iter().map(|t| (t.name.clone(), t.id)).collect()
    }

    /// Acknowledges all changes up to this sequence number: they have been processed, and need not
    /// be reported again. A number between those of a batch acknowledges the changes before it.
    ///
    /// The acknowledgement reaches the manifest with its next edit, for example at a flush, at the
    /// latest when the store is closed, or when it would release a quarter of `max_log_bytes`. It
    /// costs a sync only in the last two cases. After a crash, the subscription may report
    /// acknowledged changes again. A consumer that must process each change exactly once stores the
    /// [position](Subscription::position) with the effects of the change, and
    /// [resumes](Subscription::resume) there.
    ///
    /// # Errors
    /// `InvalidArgument` for a number above that of the last reported change. `Lagged` and
    /// `NotFound` as [`next`](Subscription::next), and errors of writing the manifest.
    pub fn acknowledge(&mut self, seq: Seq) -> Result<()> {
        self.check_there()?;
        if self.feed.is_none() || self.point.is_lagged() {
            return Err(lagged(self.point.seq() + 1, None));
        }
        let reported = self.position().seq;
        if seq > reported {
            return Err(Error::invalid(format!(
                "the change {seq} cannot be acknowledged: the last reported one is {reported}"
            )));
        }
        if seq < self.point.seq() {
            return Ok(());
        }
        while self.marks.get(1).is_some_and(|&(mark, _)| mark <= seq) {
            self.marks.pop_front();
        }
        let Some(&(_, at)) = self.marks.front() else { return Ok(()) };
        if self.point.acknowledge(seq, at) > self.max_log_bytes / 4 {
            self.persist()
        } else {
            Ok(())
        }
    }

    /// Writes the acknowledged position to the manifest now. This costs a sync.
    ///
    /// # Errors
    /// Errors of writing the manifest.
    pub fn persist(&mut self) -> Result<()> {
        let inner = &self.handle.inner;
        durable::log_subscriptions(inner, &mut inner.versions.lock_catalog())
    }

    /// Continues behind the position that the consumer stored with its effects, and acknowledges
    /// it. So each change takes effect exactly once.
    ///
    /// # Errors
    /// `InvalidArgument` for a position of another store, or above the newest change. `Lagged` if
    /// the position is below the acknowledged one, or the log has lost changes. In each case, begin
    /// again with a [snapshot](Subscription::snapshot).
    pub fn resume(&mut self, position: ChangePosition) -> Result<()> {
        self.check_there()?;
        let (store, seq) = (self.handle.inner.versions.store(), self.point.seq());
        if position.store != store {
            return Err(Error::invalid(format!(
                "the position {position} is one of another store: this one is {store:016x}; begin again with a snapshot"
            )));
        }
        if self.feed.is_none() || self.point.is_lagged() || position.seq < seq {
            return Err(lagged(position.seq + 1, Some(seq + 1)));
        }
        let newest = self.handle.inner.commit.read_point();
        if position.seq > newest {
            return Err(Error::invalid(format!(
                "the position {position} is above the newest change {newest}: the store is older than the consumer; begin again with a snapshot"
            )));
        }
        let at = self.point.position();
        self.feed = Some(ChangeFeed::at(&self.handle, at, position.seq, self.max_log_bytes)?);
        self.marks = [(seq, at)].into();
        self.acknowledge(position.seq)
    }

    fn check_there(&self) -> Result<()> {
        self.handle.inner.gate.check_open()?;
        if self.point.is_dropped() { Err(missing(&self.name)) } else { Ok(()) }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.point.close();
    }
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no subscription {name:?}"))
}

/// Begins to write, so that the log and the positions of subscriptions exist.
fn begin_log(db: &DbInner) -> Result<()> {
    db.gate.check_process()?;
    db.gate.check_writable()?;
    let w = db.commit.lock();
    if !w.has_begun() {
        drop(background::begin_log(db, w)?);
    }
    Ok(())
}

/// Opens an existing subscription, and sets its bound.
fn open_existing(
    db: &DbInner,
    c: &mut TreeCatalog,
    name: &str,
    max_log_bytes: u64,
) -> Result<Option<Arc<SubscriptionPoint>>> {
    let Some(before) = c.state().subscriptions.get(name).cloned() else { return Ok(None) };
    let point = c.subscription(name).ok_or_else(closed)?.clone();
    if !point.open() {
        return Err(Error::new(
            ErrorKind::Locked,
            format!("the subscription {name:?} is in use by another handle"),
        ));
    }
    if before.max_log_bytes != max_log_bytes {
        let now = SubscriptionState { max_log_bytes, ..point.state(&before) };
        let logged = durable::log_edits(db, c, vec![Edit::SetSubscription(now)]);
        logged.inspect_err(|_| point.close())?;
        point.set_bound(max_log_bytes);
    }
    Ok(Some(point))
}

/// Creates a subscription that begins at the present end of the log, and opens it. Returns `None`
/// if it exists.
fn create(db: &DbInner, name: &str, max_log_bytes: u64) -> Result<Option<Arc<SubscriptionPoint>>> {
    let (hold, position) = pin_end(db, max_log_bytes)?;
    let seq = db.commit.read_point();
    db.commit.sync_log()?;
    let mut c = db.versions.lock_catalog();
    if c.state().subscriptions.contains_key(name) {
        return Ok(None);
    }
    if c.state().subscriptions.len() >= MAX_SUBSCRIPTIONS {
        return Err(Error::invalid(format!(
            "the store has {MAX_SUBSCRIPTIONS} subscriptions, as many as it may have; drop one"
        )));
    }
    let name = name.to_owned();
    let state =
        SubscriptionState { name, seq, position, max_log_bytes, snapshot_due: SnapshotDue::New };
    let point = Arc::new(SubscriptionPoint::new(&state, hold));
    durable::log_edits(db, &mut c, vec![Edit::SetSubscription(state.clone())])?;
    point.open();
    c.add_subscription(&state.name, point.clone());
    Ok(Some(point))
}

/// Pins the log from its present end on, once readers see everything before. Returns the position.
fn pin_end(db: &DbInner, max_log_bytes: u64) -> Result<(Arc<LogHold>, Lsn)> {
    let (hold, end, newest) = {
        let mut w = db.commit.lock();
        let (end, newest) = (w.end(), w.newest());
        let wal = w.log().ok_or_else(closed)?;
        (wal.add_hold(LogHold::durable(end, max_log_bytes)), end, newest)
    };
    db.commit.visible().wait_below(newest + 1);
    Ok((hold, end))
}
