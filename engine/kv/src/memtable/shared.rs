//! A memtable with per-stripe reference counts, so that many threads can read it.
//!
//! Every value and every cursor holds a reference to its memtable. The count rises with a get and
//! falls when the value is dropped. A single count would be a cache line that moves between cores
//! twice per get, and would limit the throughput of all cores. So there is one count per
//! [stripe](STRIPES), each of which holds the memtable, and a thread uses its own.
//!
//! The counts are created at the first read, because most memtables of a store with many trees are
//! never read. A small memtable has one count for all readers: sixteen would take more memory than
//! the memtable.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::arena::{ArenaRecord, Ref};
use super::{FoundEntry, Memtable};
use crate::util::stripe::{CachePadded, STRIPES, own_stripe};

/// Maximum capacity in bytes of a memtable with one count: sixteen take 4 KiB of unaccounted
/// memory.
const SMALL: usize = 128 << 10;

/// The reference to a memtable for the readers of one stripe. Its `Arc` count is stored before it.
/// The alignment separates the two, and separates it from all others.
pub(super) struct MemHold(CachePadded<Arc<Memtable>>);

impl Deref for MemHold {
    type Target = Memtable;

    #[inline]
    fn deref(&self) -> &Memtable {
        &self.0
    }
}

impl MemHold {
    /// Creates a reference for a single reader.
    pub(super) fn lone(table: Arc<Memtable>) -> Arc<MemHold> {
        Arc::new(MemHold(CachePadded(table)))
    }
}

/// A memtable that a reader keeps alive.
pub struct HeldMemtable(pub(super) Arc<MemHold>);

debug_by!(HeldMemtable, "HeldMemtable");

impl Deref for HeldMemtable {
    type Target = Memtable;

    fn deref(&self) -> &Memtable {
        &self.0
    }
}

/// A value in a memtable that it keeps alive; derefs to the bytes.
#[derive(Clone)]
pub struct MemValue {
    pub(super) table: Arc<MemHold>,
    pub(super) entry: Ref<ArenaRecord>,
}

debug_by!(MemValue, "MemValue");

impl Deref for MemValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.table.list.arena().entry(self.entry).value()
    }
}

/// A memtable with its readers' reference counts.
pub struct SharedMemtable {
    table: Arc<Memtable>,
    /// One count, or one for each stripe.
    holds: OnceLock<Box<[Arc<MemHold>]>>,
}

debug_by!(SharedMemtable, "SharedMemtable", table);

impl Deref for SharedMemtable {
    type Target = Arc<Memtable>;

    #[inline]
    fn deref(&self) -> &Arc<Memtable> {
        &self.table
    }
}

impl SharedMemtable {
    /// Wraps a memtable that has no readers yet.
    pub fn new(table: Arc<Memtable>) -> SharedMemtable {
        SharedMemtable { table, holds: OnceLock::new() }
    }

    /// Returns the calling thread's count.
    #[inline]
    pub(super) fn hold(&self) -> Arc<MemHold> {
        let holds = self.holds.get_or_init(|| self.make_holds());
        holds[own_stripe() & (holds.len() - 1)].clone()
    }

    #[cold]
    fn make_holds(&self) -> Box<[Arc<MemHold>]> {
        const { assert!(STRIPES.is_power_of_two()) };
        let holds = if self.table.capacity() <= SMALL { 1 } else { STRIPES };
        (0..holds).map(|_| MemHold::lone(self.table.clone())).collect()
    }

    /// Returns a handle to a value found here, without a copy. Panics if it was found in another
    /// memtable.
    #[inline]
    pub fn pin(&self, found: &FoundEntry<'_>) -> MemValue {
        assert!(self.list.arena().owns(found.key), "a value of another memtable");
        MemValue { table: self.hold(), entry: found.entry }
    }
}
