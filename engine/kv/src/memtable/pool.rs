//! Recycling of arena memory: the first touch of a page is the dearest thing on a virtual machine, so mappings are kept.
//!
//! Invariants: a mapping is leased to one arena at a time and comes back when that is dropped; at most `max_spares` idle mappings
//! are kept, the oldest going first; `bytes` counts the capacity of every mapping that exists, leased or spare.

use super::arena::Mapping;
use crate::base::error::Result;
use crate::base::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A store of memory mappings for memtables, shared by the trees of a Db.
pub struct ArenaPool {
    max_spares: usize,
    spares: Mutex<Vec<Held>>,
    bytes: AtomicUsize,
}

struct Held {
    mapping: Mapping,
    capacity: usize,
}

impl ArenaPool {
    /// A pool that keeps at most `max_spares` idle mappings.
    pub fn new(max_spares: usize) -> Arc<ArenaPool> {
        Arc::new(ArenaPool { max_spares, spares: Mutex::new(vec![]), bytes: AtomicUsize::new(0) })
    }

    /// Bytes of capacity of all mappings, in use and idle.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Bytes of capacity of the idle mappings.
    pub fn spare_bytes(&self) -> usize {
        self.spares.lock().iter().map(|h| h.capacity).sum()
    }

    /// Makes sure that a spare mapping for this capacity is there, resident: call it in the background, ahead of need. Does
    /// nothing when there is one, or when the pool may keep none.
    ///
    /// # Errors
    /// `Exhausted` when the operating system gives no memory.
    pub fn prepare(&self, capacity: usize) -> Result<()> {
        if self.max_spares == 0 || self.spares.lock().iter().any(|h| h.capacity == capacity) {
            return Ok(());
        }
        let mut held = self.map(capacity)?;
        held.mapping.populate(capacity);
        self.give_back(held);
        Ok(())
    }

    /// Unmaps the idle mappings.
    pub fn trim(&self) {
        let spares = std::mem::take(&mut *self.spares.lock());
        self.bytes.fetch_sub(spares.iter().map(|h| h.capacity).sum(), Relaxed);
    }

    pub(super) fn lease(self: &Arc<Self>, capacity: usize) -> Result<Lease> {
        let spare = {
            let mut spares = self.spares.lock();
            spares.iter().rposition(|h| h.capacity == capacity).map(|i| spares.remove(i))
        };
        let held = match spare {
            Some(held) => held,
            None => self.map(capacity)?,
        };
        Ok(Lease { held: Some(held), pool: self.clone() })
    }

    fn map(&self, capacity: usize) -> Result<Held> {
        let mapping = Mapping::new(mapped(capacity))?;
        self.bytes.fetch_add(capacity, Relaxed);
        Ok(Held { mapping, capacity })
    }

    fn give_back(&self, held: Held) {
        let surplus = {
            let mut spares = self.spares.lock();
            spares.push(held);
            (spares.len() > self.max_spares).then(|| spares.remove(0))
        };
        if let Some(old) = surplus {
            self.bytes.fetch_sub(old.capacity, Relaxed);
        }
    }
}

/// How much address space stands behind a capacity: twice as much, because what is reserved for splits that might happen exceeds
/// what does happen; pages beyond the capacity are as good as never touched. 4 GiB - 64 KiB at most.
pub(super) fn mapped(capacity: usize) -> usize {
    capacity.saturating_mul(2).min(u32::MAX as usize & !0xffff)
}

/// A mapping in use.
pub(super) struct Lease {
    held: Option<Held>,
    pool: Arc<ArenaPool>,
}

impl Lease {
    #[cfg(not(loom))]
    pub fn mapping(&self) -> &Mapping {
        self.held.as_ref().map_or_else(|| unreachable!("a lease holds its mapping until it is dropped"), |h| &h.mapping)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.pool.give_back(held);
        }
    }
}
