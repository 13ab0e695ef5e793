//! Values that expire: [`TtlTree`], a tree whose puts may have a lifetime, and its hooks.
//!
//! It is a layer over [`Tree`] and no option of it: each value has its deadline before it, reads
//! look at the clock of the store's `Env`, and merges drop what is over. So trees without lifetimes
//! pay nothing, and nobody reads a value without its deadline being looked at.
//!
//! Invariants:
//! - A stored value is 8 bytes, little-endian, of microseconds since 1970, and then what the user
//!   gave; [`NEVER`] for those that stay. From that time on no read shows it.
//! - A merge drops what is over only where nothing older of the key can be left: else that would
//!   come back. Until then it keeps a deadline, one that is over by any clock, and lets the value
//!   go. Whole tables of which all is over are dropped unread ([`CompactionFilter::gone_at`]).
//! - Both hooks are named in the manifest, so nobody opens the tree without them by mistake and
//!   writes values without a deadline.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::base::hooks::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, FilterDecision, Summary,
    SummaryPass,
};
use crate::base::key::Kind;
use crate::base::options::TreeOptions;
use crate::iterator::value::Value;

use crate::db::handle::handles::{Db, Tree};
use crate::db::handle::range::Range;
use crate::db::read::bounds::KeyBounds;

/// Bytes of the deadline before each value.
const HEAD: usize = 8;
/// The deadline of what stays.
const NEVER: u64 = u64::MAX;
/// What a merge leaves of a value that has expired, where something older of its key may lie: a
/// deadline that is over by any clock.
const GONE: [u8; HEAD] = [0; HEAD];

/// The deadline of a stored value; `None` when it is none.
fn deadline(stored: &[u8]) -> Option<u64> {
    stored.first_chunk().map(|head| u64::from_le_bytes(*head))
}

fn encode(deadline: u64, value: &[u8]) -> Vec<u8> {
    [&deadline.to_le_bytes(), value].concat()
}

/// A value of a [`TtlTree`]: derefs to what was put. It pins its block or memtable, as a [`Value`]
/// does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TtlValue(Value);

impl TtlValue {
    /// When it expires, in microseconds since 1970; `None` for never.
    pub fn expires_micros(&self) -> Option<u64> {
        deadline(&self.0).filter(|d| *d < NEVER)
    }
}

impl Deref for TtlValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.get(HEAD..).unwrap_or_default()
    }
}

impl AsRef<[u8]> for TtlValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// A tree whose values may have a lifetime ([`Db::ttl_tree`]).
///
/// A value is there until its lifetime is over by the clock of the store's
/// [`Env`](crate::env::Env), and for all readers at once: also for snapshots, transactions and
/// iterators that were made before, though an iterator keeps to the time at which it was made. A
/// clock that is set back brings back what has not been merged away yet.
///
/// The space of an expired value comes back with merges: the first one that meets it lets the value
/// go and keeps the key; that goes with the merge that reaches the oldest run, or at once with
/// their table when all of it is over. Nothing is merged for it alone.
///
/// ```
/// use std::time::Duration;
/// use firn_kv::{Db, TreeOptions};
/// let db = Db::in_memory()?;
/// let sessions = db.ttl_tree("sessions", TreeOptions::default())?;
/// sessions.put_for("token", "ann", Duration::from_secs(3600))?;
/// sessions.put_for("stale", "bob", Duration::ZERO)?;
/// assert_eq!(&*sessions.get("token")?.unwrap(), b"ann");
/// assert!(sessions.get("stale")?.is_none());
/// assert_eq!(sessions.len()?, 1);
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TtlTree {
    tree: Tree,
}

impl Db {
    /// The tree `name` of values that may expire, with these options, created when it is not there:
    /// as [`tree`](Db::tree) otherwise.
    ///
    /// # Errors
    /// As [`tree`](Db::tree): `Incompatible` for a tree that was made without lifetimes.
    /// `InvalidArgument` for options with a merge, purge or summary hook.
    pub fn ttl_tree(&self, name: &str, options: TreeOptions) -> Result<TtlTree> {
        if options.merge.is_some() || options.purge.is_some() || options.summary.is_some() {
            return Err(Error::invalid(
                "a tree of values that expire has its own purge and summary hooks, and no merge hook",
            ));
        }
        let hooks = TreeOptions {
            purge: Some(Arc::new(TtlHooks)),
            summary: Some(Arc::new(LastDeadline)),
            ..options
        };
        Ok(TtlTree { tree: self.tree(name, hooks)? })
    }
}

impl TtlTree {
    /// The tree beneath, for all that has nothing to do with values: deletes, flushes, compactions,
    /// options, statistics. Its values have their deadlines before them: read and written through
    /// it, or in snapshots, transactions and batches, they go through [`live`](TtlTree::live),
    /// [`live_in`](TtlTree::live_in) and [`timed`](TtlTree::timed).
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    fn now(&self) -> u64 {
        self.tree.handle.inner.env.wall_micros()
    }

    /// What is stored for a value with this lifetime from now on (`None`: for good), to be put into
    /// a batch or transaction.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use firn_kv::{Batch, Db, Readable, TreeOptions};
    /// # let db = Db::in_memory()?;
    /// let leases = db.ttl_tree("leases", TreeOptions::default())?;
    /// let mut batch = Batch::new();
    /// batch.put(leases.tree(), "job 1", leases.timed("worker 7", Some(Duration::from_secs(30))))?;
    /// db.write(batch)?;
    /// let tx = db.transaction();
    /// let lease = leases.live(tx.get(leases.tree(), "job 1")?)?;
    /// assert_eq!(&*lease.unwrap(), b"worker 7");
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn timed(&self, value: impl AsRef<[u8]>, lifetime: Option<Duration>) -> Vec<u8> {
        let until = |t: Duration| {
            self.now().saturating_add(u64::try_from(t.as_micros()).unwrap_or(NEVER)).min(NEVER - 1)
        };
        encode(lifetime.map_or(NEVER, until), value.as_ref())
    }

    /// What a reader is shown of a stored value: nothing when it has expired.
    ///
    /// # Errors
    /// `Corruption` when it has no deadline: something else was written to the tree.
    pub fn live(&self, stored: Option<Value>) -> Result<Option<TtlValue>> {
        stored.map_or(Ok(None), |stored| live_at(stored, self.now()))
    }

    /// Of the entries of a walk over the tree, in a snapshot or transaction, those that are live
    /// now.
    pub fn live_in(&self, entries: Range) -> TtlRange {
        TtlRange { entries, now: self.now() }
    }

    /// Sets `key` to `value` for good.
    ///
    /// # Errors
    /// This and all other writes: as [`Tree::put`]. A value may be 8 bytes shorter than elsewhere.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.tree.put(key, self.timed(value, None))
    }

    /// Sets `key` to `value` for a time: from its end on there is no value, also none that was
    /// there before.
    ///
    /// # Errors
    /// As [`put`](TtlTree::put).
    pub fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Duration,
    ) -> Result<()> {
        self.tree.put(key, self.timed(value, Some(lifetime)))
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As [`put`](TtlTree::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.tree.delete(key)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// This and all other reads: as [`Tree::get`], and `Corruption` for a value that was written
    /// without a deadline.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<TtlValue>> {
        self.live(self.tree.get(key)?)
    }

    /// The values of several keys, all of one moment.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<TtlValue>>> {
        let (stored, now) = (self.tree.multi_get(keys)?, self.now());
        stored.into_iter().map(|v| v.map_or(Ok(None), |v| live_at(v, now))).collect()
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The keys of a range with their values, in order, from both ends. What has expired is stepped
    /// over.
    pub fn range(&self, range: impl KeyBounds) -> TtlRange {
        self.live_in(self.tree.range(range))
    }

    /// The keys that start with `prefix`, with their values, in order, from both ends.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TtlRange {
        self.live_in(self.tree.prefix(prefix))
    }

    /// All keys with their values, in order, from both ends.
    pub fn iter(&self) -> TtlRange {
        self.range(..)
    }

    /// All keys, in order, from both ends. Their values are looked at.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = Result<Value>> + use<> {
        self.iter().map(|item| item.map(|(key, _)| key))
    }

    /// The smallest key with its value. It walks over what has expired before it, each time: some
    /// 0.1 us a key, until a merge drops those, or [`pop_first`](TtlTree::pop_first) takes them
    /// out. Where a queue of what expires is looked at without being popped, keys that begin with
    /// the deadline and a [`range`](TtlTree::range) from now on leave out all of that.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn first(&self) -> Result<Option<(Value, TtlValue)>> {
        self.iter().next().transpose()
    }

    /// The greatest key with its value; it walks as [`first`](TtlTree::first) does.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn last(&self) -> Result<Option<(Value, TtlValue)>> {
        self.iter().next_back().transpose()
    }

    /// Whether there is no key.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }

    /// How many keys there are. It walks over all of them.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn len(&self) -> Result<u64> {
        self.iter().try_fold(0, |n, item| item.map(|_| n + 1))
    }

    /// Takes the smallest key out, as one step: no two callers get the same. What has expired
    /// before it goes with it.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get) and [`put`](TtlTree::put).
    pub fn pop_first(&self) -> Result<Option<(Value, TtlValue)>> {
        while let Some((key, stored)) = self.tree.pop_first()? {
            if let Some(value) = self.live(Some(stored))? {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }

    /// Sets `key` to `value` for a time (`None`: for good) unless it has a value. Gives the value
    /// that was there and stays.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get) and [`put`](TtlTree::put).
    pub fn insert_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Option<Duration>,
    ) -> Result<Option<TtlValue>> {
        Ok(self.compare_and_swap(key, None, Some((value.as_ref(), lifetime)))?.err().flatten())
    }

    /// Sets `key` to `new`, a value with its lifetime (`None`: for good), or deletes it, if its
    /// value is `old` (`None`: if it has none). When it is another one, nothing is written, and
    /// that is given as the inner `Err`.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get) and [`put`](TtlTree::put).
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        old: Option<&[u8]>,
        new: Option<(&[u8], Option<Duration>)>,
    ) -> Result<std::result::Result<(), Option<TtlValue>>> {
        let key = key.as_ref();
        let new = new.map(|(value, lifetime)| self.timed(value, lifetime));
        let mut stored = self.tree.get(key)?;
        loop {
            let found = self.live(stored.clone())?;
            if found.as_deref() != old {
                return Ok(Err(found));
            }
            match self.tree.compare_and_swap(key, stored.as_deref(), new.as_deref())? {
                Ok(()) => return Ok(Ok(())),
                Err(other) => stored = other,
            }
        }
    }

    /// Sets `key` to what `f` makes of its value: a value with its lifetime, or nothing, as one
    /// step; `f` is called again when others have changed the value meanwhile. Gives the value
    /// before.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get) and [`put`](TtlTree::put).
    pub fn update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        mut f: impl FnMut(Option<&TtlValue>) -> Option<(V, Option<Duration>)>,
    ) -> Result<Option<TtlValue>> {
        let key = key.as_ref();
        let mut stored = self.tree.get(key)?;
        loop {
            let found = self.live(stored.clone())?;
            let new = f(found.as_ref()).map(|(value, lifetime)| self.timed(value, lifetime));
            match self.tree.compare_and_swap(key, stored.as_deref(), new.as_deref())? {
                Ok(()) => return Ok(found),
                Err(other) => stored = other,
            }
        }
    }
}

fn live_at(stored: Value, now: u64) -> Result<Option<TtlValue>> {
    match deadline(&stored) {
        Some(deadline) => Ok((deadline > now).then_some(TtlValue(stored))),
        None => Err(Error::corruption(
            "a value without a deadline in a tree of values that expire; put it through its `TtlTree`",
        )),
    }
}

/// An iterator over the live entries of a [`TtlTree`], from both ends, as of the time at which it
/// was made.
#[derive(Debug)]
pub struct TtlRange {
    entries: Range,
    now: u64,
}

impl TtlRange {
    fn item(
        &mut self,
        next: impl Fn(&mut Range) -> Option<Result<(Value, Value)>>,
    ) -> Option<Result<(Value, TtlValue)>> {
        loop {
            let item = next(&mut self.entries)?
                .and_then(|(key, stored)| Ok((key, live_at(stored, self.now)?)));
            match item {
                Ok((_, None)) => {}
                Ok((key, Some(value))) => return Some(Ok((key, value))),
                Err(e) => return Some(Err(e)),
            }
        }
    }
}

impl Iterator for TtlRange {
    type Item = Result<(Value, TtlValue)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.item(Range::next)
    }
}

impl DoubleEndedIterator for TtlRange {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.item(Range::next_back)
    }
}

impl std::iter::FusedIterator for TtlRange {}

/// Lets go what has expired.
struct TtlHooks;

impl CompactionFilter for TtlHooks {
    fn name(&self) -> &str {
        "firn.ttl"
    }

    fn start(&self, job: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(TtlSweep { now: job.now_micros })
    }

    fn gone_at(&self, summary: &[u8]) -> Option<u64> {
        summary.try_into().ok().map(u64::from_le_bytes).filter(|last| *last < NEVER)
    }
}

struct TtlSweep {
    now: u64,
}

impl CompactionFilterPass for TtlSweep {
    fn judge(&mut self, _: &[u8], kind: Kind, value: &[u8], alone: bool) -> FilterDecision {
        match deadline(value) {
            Some(over) if kind == Kind::Put && over <= self.now => match (alone, value == GONE) {
                (true, _) => FilterDecision::Drop,
                (false, true) => FilterDecision::Keep,
                // What lies beneath stays hidden, and a clock that is set back shows no key without
                // its value.
                (false, false) => FilterDecision::Replace(GONE.to_vec()),
            },
            _ => FilterDecision::Keep,
        }
    }
}

/// The last deadline of a table, in 8 bytes, little-endian.
struct LastDeadline;

impl Summary for LastDeadline {
    fn name(&self) -> &str {
        "firn.ttl"
    }

    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(Last(0))
    }
}

struct Last(u64);

impl SummaryPass for Last {
    fn add(&mut self, _: &[u8], kind: Kind, value: &[u8]) {
        // A delete is wanted as long as something lies beneath it, which whoever drops the table
        // looks at.
        if kind != Kind::Delete {
            self.0 = self.0.max(deadline(value).unwrap_or(NEVER));
        }
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }
}
