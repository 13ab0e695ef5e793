//! Iterates over a memtable during concurrent adds.
//!
//! Invariants (in addition to C1 to C5 of [`base::cursor`](crate::base::cursor)):
//! - M1: on entering a leaf the cursor copies and sorts the leaf's slots and records the leaf's
//!   successor: one consistent snapshot (S2 of the skiplist). It continues at that successor, whose
//!   bound is above everything copied, regardless of later splits. So it returns every entry that
//!   existed when it entered the leaf exactly once, in order. It may or may not return later ones.
//! - M2: backwards, the cursor searches the previous leaf by the current leaf's bound, and enters
//!   it below that bound.
//! - M3: `slots` are sorted by head, and those with head `at.sorted` are fully sorted. The cursor
//!   is positioned at one of these.

use super::arena::{ArenaEntry, ArenaRecord, EntryBody, LEAF, Leaf, Ref, word};
use super::combined::CombinedOperand;
use super::filter::KeyFilter;
use super::shared::{HeldMemtable, MemHold, MemValue, SharedMemtable};
use super::skiplist::{InsertTarget, SkipList, SortSlot, Spot};
use super::{Memtable, Prefixes};
use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::hooks::FilterPrefix;
use crate::base::key::Trailer;
use std::sync::Arc;

/// Number of entries to prefetch during iteration.
const AHEAD: usize = 6;

/// A cursor over a memtable, which it keeps alive. It returns every entry that was added before it
/// was positioned.
pub struct MemCursor {
    table: Arc<MemHold>,
    /// The entries of the current leaf. Empty when the cursor is invalid.
    slots: Vec<SortSlot>,
    pos: usize,
    at: CursorPlace,
}

debug_by!(MemCursor, "MemCursor", pos);

/// Metadata of the copied leaf.
#[derive(Clone, Copy, Default)]
struct CursorPlace {
    low: Option<Ref<ArenaRecord>>,
    next: Option<Ref<Leaf>>,
    prefix: usize,
    sorted: Option<u64>,
}

/// Copies a leaf.
fn load(list: &SkipList, slots: &mut Vec<SortSlot>, leaf: &Leaf, body: &EntryBody) -> CursorPlace {
    list.sort_heads_into(slots, body);
    CursorPlace { low: leaf.low, next: body.next(), prefix: body.prefix as usize, sorted: None }
}

/// Copies the leaf of a target and returns the number of slots before the target. Slots with the
/// target's head are fully sorted.
fn load_at(
    list: &SkipList,
    slots: &mut Vec<SortSlot>,
    spot: &Spot<'_>,
    target: &InsertTarget<'_>,
) -> (CursorPlace, usize) {
    let at = load(list, slots, spot.leaf, spot.body);
    let head = word(target.key, at.prefix);
    list.sort_ties(slots, head);
    (CursorPlace { sorted: Some(head), ..at }, list.rank(slots, at.prefix, target))
}

impl MemCursor {
    fn new(table: Arc<MemHold>) -> MemCursor {
        MemCursor { table, slots: Vec::with_capacity(LEAF), pos: 0, at: CursorPlace::default() }
    }

    /// Returns a handle to the entry's value that outlives the cursor, without a copy. Requires a
    /// valid cursor.
    pub fn pin(&self) -> MemValue {
        MemValue { table: self.table.clone(), entry: self.slots[self.pos].entry }
    }

    /// Returns a handle that keeps the memtable alive beyond the cursor.
    pub fn hold_table(&self) -> HeldMemtable {
        HeldMemtable(self.table.clone())
    }

    /// Returns a number that identifies the memtable as long as a cursor over it exists.
    pub fn table_id(&self) -> usize {
        std::ptr::from_ref::<Memtable>(&self.table).addr()
    }

    /// Returns the [combined](super::combined) operands of a key, if a read has stored them.
    pub fn combined(&self, key: &[u8]) -> Option<Arc<CombinedOperand>> {
        self.table.combined.get(key)
    }

    #[inline]
    fn entry(&self) -> ArenaEntry<'_> {
        self.table.list.arena().entry(self.slots[self.pos].entry)
    }

    /// Moves to the first slot at or after the target, in the target's leaf.
    fn search(&mut self, target: &InsertTarget<'_>) {
        let list = &self.table.list;
        let spot = list.find(target);
        (self.at, self.pos) = load_at(list, &mut self.slots, &spot, target);
    }

    /// Establishes M3 for the slot at `pos`.
    #[inline]
    fn stand(&mut self) {
        let Some(&SortSlot { head, .. }) = self.slots.get(self.pos) else { return };
        if self.at.sorted != Some(head) {
            self.at.sorted = Some(head);
            let is_tie = |at: usize| self.slots.get(at).is_some_and(|s| s.head == head);
            if is_tie(self.pos + 1) || is_tie(self.pos.wrapping_sub(1)) {
                self.table.list.sort_ties(&mut self.slots, head);
            }
        }
    }

    /// Moves to the first entry of the following leaves.
    #[inline(never)]
    fn next_leaf(&mut self) {
        let list = &self.table.list;
        self.slots.clear();
        self.pos = 0;
        // Only the first leaf can be empty, so this is one step, or two at the very start.
        while let Some(next) = self.at.next
            && self.slots.is_empty()
        {
            let leaf = list.arena().get(next);
            self.at = load(list, &mut self.slots, leaf, leaf.body(list.arena()));
        }
        for s in self.slots.iter().take(AHEAD) {
            list.arena().prefetch_entry(s.entry);
        }
        self.stand();
    }

    /// Moves to the last entry of the preceding leaves.
    #[inline(never)]
    fn prev_leaf(&mut self) {
        let list = &self.table.list;
        while let Some(low) = self.at.low {
            let spot = list.find_before(low);
            let bound = list.arena().entry(low);
            let target = InsertTarget::new(bound.key(), bound.trailer());
            (self.at, self.pos) = load_at(list, &mut self.slots, &spot, &target);
            if self.pos > 0 {
                self.pos -= 1;
                self.stand();
                return;
            }
        }
        self.slots.clear();
    }
}

impl Memtable {
    /// Adds prefix lookups to a memtable that was filled before the hook was known, for example by
    /// log replay. Covers all present entries. Takes as long as a scan. No add may run meanwhile.
    ///
    /// # Errors
    /// Errors of the cursor, which has none.
    pub fn learn_prefixes(self: &Arc<Self>, hook: Arc<dyn FilterPrefix>) -> Result<()> {
        if self.prefixes.get().is_some() {
            return Ok(());
        }
        let prefixes = Prefixes { hook, filter: Some(KeyFilter::new(self.capacity)) };
        let mut cursor = self.cursor();
        cursor.first()?;
        while cursor.valid() {
            prefixes.add(cursor.key(), &self.filter);
            cursor.next()?;
        }
        let _ = self.prefixes.set(prefixes);
        Ok(())
    }

    /// Returns a cursor over all point entries. It may or may not return entries added after it was
    /// positioned.
    pub fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor::new(MemHold::lone(self.clone()))
    }
}

impl SharedMemtable {
    /// Returns a [cursor](Memtable::cursor) that uses the calling thread's reference count.
    pub fn cursor(&self) -> MemCursor {
        MemCursor::new(self.hold())
    }
}

impl Cursor for MemCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.pos < self.slots.len()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry().key()
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.entry().trailer()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entry().value()
    }

    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()> {
        self.search(&InsertTarget::new(key, at));
        if self.pos == self.slots.len() {
            self.next_leaf();
        } else {
            self.stand();
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.search(&InsertTarget::new(key, Trailer::NEWEST));
        match self.pos {
            0 => self.prev_leaf(),
            _ => {
                self.pos -= 1;
                self.stand();
            }
        }
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        let list = &self.table.list;
        let leaf = list.first();
        self.at = load(list, &mut self.slots, leaf, leaf.body(list.arena()));
        self.pos = 0;
        if self.slots.is_empty() {
            self.next_leaf();
        } else {
            self.stand();
        }
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        let list = &self.table.list;
        let spot = list.find_last();
        self.at = load(list, &mut self.slots, spot.leaf, spot.body);
        match self.slots.len() {
            0 => self.prev_leaf(),
            n => {
                self.pos = n - 1;
                self.stand();
            }
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        self.pos += 1;
        if let Some(s) = self.slots.get(self.pos + AHEAD - 1) {
            self.table.list.arena().prefetch_entry(s.entry);
        }
        if self.pos == self.slots.len() {
            self.next_leaf();
        } else {
            self.stand();
        }
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        match self.pos {
            0 => self.prev_leaf(),
            _ => {
                self.pos -= 1;
                self.stand();
                if let Some(i) = self.pos.checked_sub(AHEAD) {
                    self.table.list.arena().prefetch_entry(self.slots[i].entry);
                }
            }
        }
        Ok(())
    }
}
