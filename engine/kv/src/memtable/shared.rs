//! A memtable that many threads read: each counts what it holds of it in a line of its own.
//!
//! Every value and every cursor keeps its memtable alive, by a count that goes up with a get and
//! down again when the value goes. One count for all would be a line that moves from core to core
//! twice with each get, and then no number of cores gets faster than that line moves. So there are
//! as many counts as there are [stripes](STRIPES), each of which holds the memtable, and a thread
//! counts in its own. They are made when somebody reads first: most memtables of a store with many
//! trees are never read. All readers of a small one have one count: sixteen would take more than it
//! does.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::arena::{ArenaRecord, Ref};
use super::{FoundEntry, Memtable};
use crate::base::stripe::{CachePadded, STRIPES, own_stripe};

/// A memtable of at most so many bytes has one count: sixteen take 4 KiB, which nobody counts.
const SMALL: usize = 128 << 10;

/// What holds a memtable for the readers of one stripe. The count of those lies before it, and its
/// alignment keeps the two apart, and from all others.
pub(super) struct MemHold(CachePadded<Arc<Memtable>>);

impl Deref for MemHold {
    type Target = Memtable;

    #[inline]
    fn deref(&self) -> &Memtable {
        &self.0
    }
}

impl MemHold {
    /// For a reader who comes alone.
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

/// A memtable with what its readers hold it by.
pub struct SharedMemtable {
    table: Arc<Memtable>,
    /// One, or one for each stripe.
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
    /// One that nobody reads yet.
    pub fn new(table: Arc<Memtable>) -> SharedMemtable {
        SharedMemtable { table, holds: OnceLock::new() }
    }

    /// What the calling thread counts in.
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

    /// Keeps a value that was found here, without a copy. Panics if it was found in another
    /// memtable.
    #[inline]
    pub fn pin(&self, found: &FoundEntry<'_>) -> MemValue {
        assert!(self.list.arena().owns(found.value), "a value of another memtable");
        MemValue { table: self.hold(), entry: found.entry }
    }
}
