//! Recycles arena memory. The first touch of a page is expensive on a virtual machine, so the pool
//! retains mappings.
//!
//! Invariants:
//! - A mapping is leased to one arena at a time and returns to the pool when the arena is dropped.
//! - At most `max_spares` idle mappings exist. The smallest is released first; of equal ones, the
//!   oldest.
//! - `bytes` counts the bytes that may be resident of every mapping, leased or spare: the part that
//!   its arenas were allowed to fill. It also counts memtable memory outside the arenas.

use super::arena::Mapping;
use crate::base::error::Result;
use crate::util::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A store of memory mappings for memtables, shared by the trees of a Db.
pub struct ArenaPool {
    max_spares: usize,
    spares: Mutex<Vec<HeldMemory>>,
    bytes: AtomicUsize,
}

debug_by!(ArenaPool, "ArenaPool", max_spares);

struct HeldMemory {
    mapping: Mapping,
    capacity: usize,
    /// Bytes that may be resident.
    touched: AtomicUsize,
}

impl HeldMemory {
    fn touched(&self) -> usize {
        self.touched.load(Relaxed)
    }
}

impl ArenaPool {
    /// Creates a pool with at most `max_spares` idle mappings.
    pub fn new(max_spares: usize) -> Arc<ArenaPool> {
        Arc::new(ArenaPool { max_spares, spares: Mutex::new(vec![]), bytes: AtomicUsize::new(0) })
    }

    /// Returns the bytes that may be resident of all mappings, leased and idle, plus the filters of
    /// memtables.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Returns the bytes that may be resident of the idle mappings.
    pub fn spare_bytes(&self) -> usize {
        self.spares.lock().iter().map(HeldMemory::touched).sum()
    }

    /// Ensures that a resident spare mapping of this capacity exists. Call it in the background,
    /// ahead of need. Does nothing if there is one, or if the pool retains none.
    ///
    /// # Errors
    /// `Exhausted` when the operating system provides no memory.
    pub fn prepare(&self, capacity: usize) -> Result<()> {
        if self.max_spares == 0 || self.spares.lock().iter().any(|h| h.capacity == capacity) {
            return Ok(());
        }
        let mut held = self.map(capacity, mapped(capacity))?;
        self.touch(&held, capacity);
        held.mapping.populate(capacity);
        self.give_back(held);
        Ok(())
    }

    /// Unmaps the idle mappings. Returns whether there were any.
    pub fn trim(&self) -> bool {
        let spares = std::mem::take(&mut *self.spares.lock());
        self.bytes.fetch_sub(spares.iter().map(HeldMemory::touched).sum(), Relaxed);
        !spares.is_empty()
    }

    /// Leases memory for a memtable of this capacity.
    pub(super) fn lease(self: &Arc<Self>, capacity: usize) -> Result<Lease> {
        let spare = {
            let mut spares = self.spares.lock();
            spares.iter().rposition(|h| h.capacity == capacity).map(|i| spares.remove(i))
        };
        let held = match spare {
            Some(held) => held,
            None => self.map(capacity, mapped(capacity))?,
        };
        Ok(Lease { held: Some(held), beside: 0, pool: self.clone() })
    }

    /// Leases memory like [`lease`](Self::lease), but with no resident pages.
    pub(super) fn lease_fresh(self: &Arc<Self>, capacity: usize) -> Result<Lease> {
        Ok(Lease {
            held: Some(self.map(capacity, mapped(capacity))?),
            beside: 0,
            pool: self.clone(),
        })
    }

    /// Leases memory of exactly this many bytes.
    pub(super) fn lease_exact(self: &Arc<Self>, len: usize) -> Result<Lease> {
        Ok(Lease { held: Some(self.map(0, len)?), beside: 0, pool: self.clone() })
    }

    fn map(&self, capacity: usize, len: usize) -> Result<HeldMemory> {
        let held =
            HeldMemory { mapping: Mapping::new(len)?, capacity, touched: AtomicUsize::new(0) };
        if Mapping::is_small(held.mapping.len()) {
            self.touch(&held, held.mapping.len());
        }
        Ok(held)
    }

    /// Counts the bytes below `to`, which are about to be touched.
    fn touch(&self, held: &HeldMemory, to: usize) {
        let before = held.touched.fetch_max(to, Relaxed);
        if to > before {
            self.bytes.fetch_add(to - before, Relaxed);
            held.mapping.fill(before, to);
        }
    }

    fn give_back(&self, held: HeldMemory) {
        let surplus = {
            let mut spares = self.spares.lock();
            // The newest goes last, because it is most likely in the processor's cache.
            let smallest =
                |spares: &Vec<HeldMemory>| (0..spares.len()).min_by_key(|&i| spares[i].touched());
            spares.push(held);
            let surplus = if spares.len() > self.max_spares { smallest(&spares) } else { None };
            surplus.map(|i| spares.remove(i))
        };
        if let Some(old) = surplus {
            self.bytes.fetch_sub(old.touched(), Relaxed);
        }
    }
}

/// Returns the address space in bytes for a capacity: twice the capacity, because reservations for
/// possible splits exceed the actual splits. Pages beyond the capacity are almost never touched. At
/// most 4 GiB - 64 KiB.
pub(super) fn mapped(capacity: usize) -> usize {
    capacity.saturating_mul(2).min(u32::MAX as usize & !0xffff)
}

/// A mapping in use.
pub(super) struct Lease {
    held: Option<HeldMemory>,
    /// Bytes of other memory, outside the mapping.
    beside: usize,
    pool: Arc<ArenaPool>,
}

impl Lease {
    fn held(&self) -> &HeldMemory {
        self.held
            .as_ref()
            .unwrap_or_else(|| unreachable!("a lease holds its mapping until it is dropped"))
    }

    #[cfg(not(loom))]
    pub fn mapping(&self) -> &Mapping {
        &self.held().mapping
    }

    /// Announces that the bytes below `to` are about to be filled.
    pub fn touch(&self, to: usize) {
        self.pool.touch(self.held(), to);
    }

    /// Counts other memory of the same owner as long as the lease lives.
    pub fn with(mut self, beside: usize) -> Lease {
        self.beside += beside;
        self.pool.bytes.fetch_add(beside, Relaxed);
        self
    }

    /// Returns the bytes that may be resident, including the owner's other memory.
    pub fn bytes(&self) -> usize {
        self.held().touched() + self.beside
    }

    /// Returns the pool that the mapping returns to.
    pub fn pool(&self) -> &Arc<ArenaPool> {
        &self.pool
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.bytes.fetch_sub(self.beside, Relaxed);
        if let Some(held) = self.held.take() {
            // Creating a small one is as fast as reusing it.
            if Mapping::is_small(held.mapping.len()) {
                self.pool.bytes.fetch_sub(held.touched(), Relaxed);
            } else {
                self.pool.give_back(held);
            }
        }
    }
}
