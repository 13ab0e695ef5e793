//! Walking a memtable that others are adding to.
//!
//! Invariants (beside C1 to C5 of [`base::cursor`](crate::base::cursor)):
//! - M1: on entering a leaf the cursor copies and sorts the leaf's slots and notes the leaf that
//!   follows: one picture (S2 of the skiplist). It goes on at that follower, whose bound is above
//!   all that was copied, whatever is split meanwhile; so every entry that was there when the
//!   cursor entered the leaf is met exactly once, in order. Later ones may or may not be met.
//! - M2: backwards, the leaf before is searched by the bound of the current one, and entered below
//!   that bound.
//! - M3: `slots` are in order of their heads, and those that share the head `at.sorted` are sorted.
//!   The cursor stands on one of these.

use super::arena::{ArenaEntry, ArenaRecord, EntryBody, LEAF, Leaf, Ref, word};
use super::filter::KeyFilter;
use super::shared::{HeldMemtable, MemHold, MemValue, SharedMemtable};
use super::skiplist::{InsertTarget, SkipList, SortSlot, Spot};
use super::{Memtable, Prefixes};
use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::hooks::FilterPrefix;
use crate::base::key::Trailer;
use std::sync::Arc;

/// How many entries ahead are asked into the cache while walking.
const AHEAD: usize = 6;

/// A cursor over a memtable, which it keeps alive. It meets every entry that was added before it
/// was positioned.
pub struct MemCursor {
    table: Arc<MemHold>,
    /// The entries of the current leaf. Empty when the cursor is invalid.
    slots: Vec<SortSlot>,
    pos: usize,
    at: CursorPlace,
}

debug_by!(MemCursor, "MemCursor", pos);

/// What the cursor knows of the leaf that it has copied.
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

/// Copies the leaf of a target; with the number of slots that come before the target, of which
/// those with its head are sorted.
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

    /// The value of the entry, kept beyond the cursor without a copy. Only while the cursor is
    /// valid.
    pub fn pin(&self) -> MemValue {
        MemValue { table: self.table.clone(), entry: self.slots[self.pos].entry }
    }

    /// Keeps the memtable alive beyond the cursor.
    pub fn hold_table(&self) -> HeldMemtable {
        HeldMemtable(self.table.clone())
    }

    /// Whether this is the cursor's memtable.
    pub fn is_over(&self, table: &HeldMemtable) -> bool {
        std::ptr::eq::<Memtable>(&**self.table, &**table.0)
    }

    #[inline]
    fn entry(&self) -> ArenaEntry<'_> {
        self.table.list.arena().entry(self.slots[self.pos].entry)
    }

    /// Before the first slot that is not before the target, in the target's leaf.
    fn search(&mut self, target: &InsertTarget<'_>) {
        let list = &self.table.list;
        let spot = list.find(target);
        (self.at, self.pos) = load_at(list, &mut self.slots, &spot, target);
    }

    /// Stands on the slot at `pos` (M3).
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

    /// To the first entry of the leaves that follow.
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

    /// To the last entry of the leaves that come before.
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
    /// From now on it can be asked for prefixes, those of all that is in it included: for a
    /// memtable that was filled before anybody knew the hook, as that of a log that is replayed.
    /// Takes as long as a scan. No add may run meanwhile.
    ///
    /// # Errors
    /// Those of its cursor, which has none.
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

    /// A cursor over all point entries. Those added after it was positioned may or may not be met.
    pub fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor::new(MemHold::lone(self.clone()))
    }
}

impl SharedMemtable {
    /// A [cursor](Memtable::cursor) by what the calling thread holds the memtable by.
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
