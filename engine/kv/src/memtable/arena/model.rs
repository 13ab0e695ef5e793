//! The arena for loom: every node and entry has its own cell, so that loom sees each access and
//! detects unordered ones.
//!
//! Same interface as `memory`; references are indices into a table. The table's own lock is
//! deliberately invisible to loom: it must not order any access.

use super::super::pool::Lease;
use super::reference::sealed::Sealed;
use super::reference::{ArenaRecord, Ref, SkipNode, record_size};
use crate::base::error::Result;
use crate::base::key::Trailer;
use crate::env::LogSlice;
use std::any::Any;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Mutex;

struct Tracked<T>(loom::cell::UnsafeCell<T>);

/// A node of any type that can copy itself.
trait Boxed: Any {
    fn copied(&self) -> Box<dyn Boxed>;
}

impl<T: Sealed + 'static> Boxed for Tracked<T> {
    fn copied(&self) -> Box<dyn Boxed> {
        Box::new(Tracked(loom::cell::UnsafeCell::new(self.0.with(|p| {
            // SAFETY: boxes never move; loom panics if the write did not come before.
            unsafe { &*p }.copied()
        }))))
    }
}

#[derive(Clone)]
struct Bytes(Trailer, Vec<u8>, Vec<u8>);

impl Sealed for Bytes {
    fn copied(&self) -> Self {
        self.clone()
    }
}

/// The memory of one memtable.
pub(in super::super) struct Arena {
    nodes: Mutex<Vec<Box<dyn Boxed>>>,
    /// Number of entries, and bytes.
    counts: Mutex<(u64, usize)>,
    lease: Lease,
}

// SAFETY: boxes are only added, and loom checks the accesses to their contents.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    pub fn new(lease: Lease) -> Arena {
        Arena { nodes: Mutex::default(), counts: Mutex::default(), lease }
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    pub fn copied(&self, lease: Lease) -> Result<Arena> {
        let nodes = self.nodes.lock().unwrap().iter().map(|n| n.copied()).collect();
        Ok(Arena {
            nodes: Mutex::new(nodes),
            counts: Mutex::new(*self.counts.lock().unwrap()),
            lease,
        })
    }

    pub fn used(&self) -> usize {
        self.counts.lock().unwrap().1
    }

    pub fn entries(&self) -> u64 {
        self.counts.lock().unwrap().0
    }

    fn put<T: Sealed + 'static>(&self, value: T) -> NonZeroU32 {
        let mut table = self.nodes.lock().unwrap();
        table.push(Box::new(Tracked(loom::cell::UnsafeCell::new(value))));
        NonZeroU32::new(table.len() as u32).unwrap()
    }

    fn look<T: 'static>(&self, at: u32) -> &T {
        let cell: *const Tracked<T> = {
            let table = self.nodes.lock().unwrap();
            let node: &dyn Any = &*table[at as usize - 1];
            node.downcast_ref().unwrap()
        };
        // SAFETY: boxes never move until the arena is dropped; loom panics if the write did not
        // come before.
        unsafe { (*cell).0.with(|p| &*p) }
    }

    pub fn alloc<T: SkipNode>(&self, value: T) -> Ref<T> {
        self.counts.lock().unwrap().1 += size_of::<T>();
        Ref::new(self.put(value))
    }

    pub fn get<T: SkipNode>(&self, r: Ref<T>) -> &T {
        self.look(r.ordinal())
    }

    pub fn add(
        &self,
        key: &[u8],
        trailer: Trailer,
        value: &[u8],
        counted: bool,
    ) -> Ref<ArenaRecord> {
        {
            let mut counts = self.counts.lock().unwrap();
            counts.0 += counted as u64;
            counts.1 += record_size(key.len(), value.len());
        }
        Ref::new(self.put(Bytes(trailer, key.to_vec(), value.to_vec())))
    }

    pub fn add_reference(
        &self,
        key: &[u8],
        trailer: Trailer,
        payload: &LogSlice,
        value: Range<usize>,
    ) -> Ref<ArenaRecord> {
        self.add(key, trailer, &payload.bytes()[value], true)
    }

    pub fn entry(&self, r: Ref<ArenaRecord>) -> ArenaEntry<'_> {
        ArenaEntry(self.look(r.ordinal()))
    }

    pub fn prefetch_entry(&self, _: Ref<ArenaRecord>) {}

    pub fn prefetch_node<T: SkipNode>(&self, _: Ref<T>) {}

    pub fn owns(&self, _: &[u8]) -> bool {
        true
    }
}

/// A view of an entry.
#[derive(Clone, Copy)]
pub(in super::super) struct ArenaEntry<'a>(&'a Bytes);

impl<'a> ArenaEntry<'a> {
    pub fn trailer(&self) -> Trailer {
        self.0.0
    }

    pub fn key(&self) -> &'a [u8] {
        &self.0.1
    }

    pub fn value(&self) -> &'a [u8] {
        &self.0.2
    }
}
