//! Values with a time to live: [`TtlTree`], a tree whose puts may have a lifetime, and its hooks.
//!
//! `TtlTree` is a layer over [`Tree`], not an option of it. It stores a deadline before each value.
//! Reads compare it with the clock of the store's `Env`, and compactions drop expired values. So
//! trees without lifetimes pay nothing, and no read skips the check of the deadline.
//!
//! Invariants:
//! - A stored value is 8 bytes, little-endian, of microseconds since 1970, followed by the user's
//!   value. Values that never expire have [`NEVER`]. From the deadline on no read returns the
//!   value.
//! - A compaction drops an expired entry only if no older version of the key can remain, because
//!   that version would reappear. Otherwise it drops the value and stores a deadline that is
//!   expired by any clock. A table whose entries have all expired is dropped without being read
//!   ([`CompactionFilter::expires_at`]).
//! - The manifest records the names of both hooks. So the tree cannot be opened without them by
//!   mistake, which would allow values without a deadline.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::base::hooks::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, FilterDecision, Summary,
    SummaryPass, TTL_FILTER,
};
use crate::base::key::Kind;
use crate::base::options::TreeOptions;
use crate::iterator::value::{Value, equals_bytes};

use crate::db::handle::handles::{Db, Tree};
use crate::db::handle::range::Range;
use crate::db::read::bounds::KeyBounds;

/// Length in bytes of the deadline before each value.
const HEAD: usize = 8;
/// Deadline of values that never expire.
const NEVER: u64 = u64::MAX;
/// Replacement by compaction for an expired value whose key may have older versions: a deadline
/// that is expired by any clock.
const GONE: [u8; HEAD] = [0; HEAD];

/// Returns the deadline of a stored value; `None` if the bytes are too short for one.
fn deadline(stored: &[u8]) -> Option<u64> {
    stored.first_chunk().map(|head| u64::from_le_bytes(*head))
}

/// Divides a stored value into its deadline, `None` if it never expires, and the user's value.
pub(super) fn decode(stored: &[u8]) -> (Option<u64>, &[u8]) {
    (deadline(stored).filter(|d| *d < NEVER), stored.get(HEAD..).unwrap_or_default())
}

fn encode(deadline: u64, value: &[u8]) -> Vec<u8> {
    [&deadline.to_le_bytes(), value].concat()
}

/// A value of a [`TtlTree`]. It dereferences to the bytes that the user put. It pins its block or
/// memtable, as a [`Value`] does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TtlValue(Value);

impl TtlValue {
    /// Returns the deadline in microseconds since 1970; `None` if the value never expires.
    pub fn expires_micros(&self) -> Option<u64> {
        decode(&self.0).0
    }
}

impl Deref for TtlValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        decode(&self.0).1
    }
}

equals_bytes!(TtlValue);

impl AsRef<[u8]> for TtlValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// A tree whose values may have a lifetime ([`Db::ttl_tree`]).
///
/// A value exists until its deadline, by the clock of the store's [`Env`](crate::env::Env). It
/// expires for all readers at once, including older snapshots, transactions and iterators. An
/// iterator, however, uses the time of its creation throughout. If the clock is set back, expired
/// values reappear unless a compaction has removed them.
///
/// Compactions reclaim the space of expired values. The first compaction that reads an expired
/// value drops the value but retains the key. The key is dropped by the compaction that reaches the
/// oldest run. A table in which everything has expired is dropped without being read, as soon as no
/// snapshot may see it, no older table that stays overlaps it, and no job uses it. A table that has
/// not been opened yet waits for that, except under [`TimeWindow`](crate::policy::TimeWindow). No
/// compaction rewrites tables only to reclaim expired values.
///
/// ```
/// use std::time::Duration;
/// use firn_kv::{Db, TreeOptions};
/// let db = Db::in_memory()?;
/// let sessions = db.ttl_tree("sessions", TreeOptions::default())?;
/// sessions.put_with_ttl("token", "ann", Duration::from_secs(3600))?;
/// sessions.put_with_ttl("stale", "bob", Duration::ZERO)?;
/// assert_eq!(sessions.get("token")?.unwrap(), "ann");
/// assert!(sessions.get("stale")?.is_none());
/// assert_eq!(sessions.len()?, 1);
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TtlTree {
    tree: Tree,
}

impl Db {
    /// Opens the tree `name` of values that may expire, with these options, and creates it if it
    /// does not exist. In other respects it works like [`tree`](Db::tree).
    ///
    /// # Errors
    /// As [`tree`](Db::tree): `Incompatible` for a tree that was created without lifetimes.
    /// `InvalidArgument` for options with a merge operator, compaction filter or summary hook.
    pub fn ttl_tree(&self, name: &str, options: TreeOptions) -> Result<TtlTree> {
        if options.merge_operator.is_some()
            || options.compaction_filter.is_some()
            || options.summary.is_some()
        {
            return Err(Error::invalid(
                "a tree of values that expire has its own compaction filter and summary hook, and no merge operator",
            ));
        }
        let hooks = TreeOptions {
            compaction_filter: Some(Arc::new(TtlHooks)),
            summary: Some(Arc::new(LastDeadline)),
            ..options
        };
        Ok(TtlTree { tree: self.tree(name, hooks)? })
    }
}

impl Tree {
    /// Divides a stored value into its deadline in microseconds since 1970 and the value that was
    /// put. Values of trees other than a [`TtlTree`] have no deadline. Tools use it, which read a
    /// tree without its hooks.
    pub fn split_deadline<'a>(&self, stored: &'a [u8]) -> (Option<u64>, &'a [u8]) {
        if self.inner.is_ttl() { decode(stored) } else { (None, stored) }
    }
}

impl TtlTree {
    /// Returns the underlying tree, for everything that does not concern values: deletes, flushes,
    /// compactions, options, statistics. Its values begin with their deadlines. Code that reads or
    /// writes them through this tree, or in snapshots, transactions and batches, converts them with
    /// [`decode_value`](TtlTree::decode_value), [`decode_range`](TtlTree::decode_range) and
    /// [`encode_value`](TtlTree::encode_value).
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    fn now(&self) -> u64 {
        self.tree.handle.inner.env.wall_micros()
    }

    /// Returns the stored form of a value whose lifetime begins now, for use in a batch or
    /// transaction. With `None` the value never expires.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use firn_kv::{Batch, Db, Readable, TreeOptions};
    /// # let db = Db::in_memory()?;
    /// let leases = db.ttl_tree("leases", TreeOptions::default())?;
    /// let mut batch = Batch::new();
    /// batch.put(leases.tree(), "job 1", leases.encode_value("worker 7", Some(Duration::from_secs(30))))?;
    /// db.write(batch)?;
    /// let tx = db.transaction();
    /// let lease = leases.decode_value(tx.get(leases.tree(), "job 1")?)?;
    /// assert_eq!(lease.unwrap(), "worker 7");
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn encode_value(&self, value: impl AsRef<[u8]>, lifetime: Option<Duration>) -> Vec<u8> {
        let until = |t: Duration| {
            self.now().saturating_add(u64::try_from(t.as_micros()).unwrap_or(NEVER)).min(NEVER - 1)
        };
        encode(lifetime.map_or(NEVER, until), value.as_ref())
    }

    /// Returns the user's value of a stored value; `None` if it has expired.
    ///
    /// # Errors
    /// `Corruption` if it has no deadline: it was not written through a `TtlTree`.
    pub fn decode_value(&self, stored: Option<Value>) -> Result<Option<TtlValue>> {
        stored.map_or(Ok(None), |stored| live_at(stored, self.now()))
    }

    /// Returns the entries that are live now, out of an iterator over the tree in a snapshot or
    /// transaction.
    pub fn decode_range(&self, entries: Range) -> TtlRange {
        TtlRange { entries, now: self.now() }
    }

    /// Sets `key` to a `value` that never expires.
    ///
    /// # Errors
    /// For all writes: as [`Tree::put`]. The maximum length of a value is 8 bytes less than in
    /// other trees.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.tree.put(key, self.encode_value(value, None))
    }

    /// Sets `key` to `value` for `lifetime`. Afterwards the key has no value; an earlier value does
    /// not reappear.
    ///
    /// # Errors
    /// As [`put`](TtlTree::put).
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Duration,
    ) -> Result<()> {
        self.tree.put(key, self.encode_value(value, Some(lifetime)))
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As [`put`](TtlTree::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.tree.delete(key)
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// For all reads: as [`Tree::get`], and `Corruption` for a value that was written without a
    /// deadline.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<TtlValue>> {
        self.decode_value(self.tree.get(key)?)
    }

    /// Returns the values of several keys, all read from one state of the tree and at one time.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<TtlValue>>> {
        let (stored, now) = (self.tree.multi_get(keys)?, self.now());
        stored.into_iter().map(|v| v.map_or(Ok(None), |v| live_at(v, now))).collect()
    }

    /// Reports whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns a double-ended iterator over the keys of a range with their values, in order. It
    /// skips expired values.
    pub fn range(&self, range: impl KeyBounds) -> TtlRange {
        self.decode_range(self.tree.range(range))
    }

    /// Returns a double-ended iterator over the keys that start with `prefix`, with their values.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TtlRange {
        self.decode_range(self.tree.prefix(prefix))
    }

    /// Returns a double-ended iterator over all keys with their values, in order.
    pub fn iter(&self) -> TtlRange {
        self.range(..)
    }

    /// Returns a double-ended iterator over all keys, in order. It reads their values.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = Result<Value>> + use<> {
        self.iter().map(|item| item.map(|(key, _)| key))
    }

    /// Returns the smallest key with its value. Each call scans the expired entries before it, at
    /// about 0.1 us a key. These entries remain until a compaction drops them or
    /// [`pop_first`](TtlTree::pop_first) removes them. To peek at a queue of expiring entries
    /// without popping, begin the keys with the deadline, and use a [`range`](TtlTree::range) from
    /// the present time on. That skips all expired entries.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn first(&self) -> Result<Option<(Value, TtlValue)>> {
        self.iter().next().transpose()
    }

    /// Returns the greatest key with its value. It scans expired entries as
    /// [`first`](TtlTree::first) does.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn last(&self) -> Result<Option<(Value, TtlValue)>> {
        self.iter().next_back().transpose()
    }

    /// Reports whether the tree has no keys.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }

    /// Returns the number of keys. It scans all of them.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get).
    pub fn len(&self) -> Result<u64> {
        self.iter().try_fold(0, |n, item| item.map(|_| n + 1))
    }

    /// Removes and returns the smallest key atomically: no two callers get the same key. It also
    /// removes the expired entries before that key.
    ///
    /// # Errors
    /// As [`get`](TtlTree::get) and [`put`](TtlTree::put).
    pub fn pop_first(&self) -> Result<Option<(Value, TtlValue)>> {
        while let Some((key, stored)) = self.tree.pop_first()? {
            if let Some(value) = self.decode_value(Some(stored))? {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }

    /// Sets `key` to `value` for `lifetime` (`None`: it never expires), unless it has a value.
    /// Returns the existing value, which stays unchanged.
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

    /// Replaces the value of `key` if it is `old` (`None`: no value). The key gets `new`, a value
    /// with its lifetime (`None`: it never expires), or is deleted if `new` is `None`. If the
    /// present value differs, nothing is written, and the inner `Err` holds it.
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
        let new = new.map(|(value, lifetime)| self.encode_value(value, lifetime));
        let mut stored = self.tree.get(key)?;
        loop {
            let found = self.decode_value(stored.clone())?;
            if found.as_deref() != old {
                return Ok(Err(found));
            }
            match self.tree.compare_and_swap(key, stored.as_deref(), new.as_deref())? {
                Ok(()) => return Ok(Ok(())),
                Err(other) => stored = other,
            }
        }
    }

    /// Sets `key` atomically to the result of `f` for its present value: a value with its lifetime,
    /// or `None` to delete it. Calls `f` again if another writer changed the value meanwhile.
    /// Returns the previous value.
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
            let found = self.decode_value(stored.clone())?;
            let new = f(found.as_ref()).map(|(value, lifetime)| self.encode_value(value, lifetime));
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

/// Double-ended iterator over the entries of a [`TtlTree`] that were live when it was created.
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

/// Compaction filter that drops expired values.
struct TtlHooks;

impl CompactionFilter for TtlHooks {
    fn name(&self) -> &str {
        TTL_FILTER
    }

    fn start(&self, job: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(TtlSweep { now: job.now_micros })
    }

    fn expires_at(&self, summary: &[u8]) -> Option<u64> {
        summary.try_into().ok().map(u64::from_le_bytes).filter(|last| *last < NEVER)
    }
}

struct TtlSweep {
    now: u64,
}

impl CompactionFilterPass for TtlSweep {
    fn filter(&mut self, _: &[u8], kind: Kind, value: &[u8], alone: bool) -> FilterDecision {
        match deadline(value) {
            Some(over) if kind == Kind::Put && over <= self.now => match (alone, value == GONE) {
                (true, _) => FilterDecision::Drop,
                (false, true) => FilterDecision::Keep,
                // The key still hides older versions. If the clock is set back, no read returns the
                // key without its value.
                (false, false) => FilterDecision::Replace(GONE.to_vec()),
            },
            _ => FilterDecision::Keep,
        }
    }
}

/// Summary of a table: its last deadline in 8 bytes, little-endian.
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
        // Ignore deletes. They are needed while older versions exist, and the engine checks that
        // before it drops the table.
        if kind != Kind::Delete {
            self.0 = self.0.max(deadline(value).unwrap_or(NEVER));
        }
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }
}
