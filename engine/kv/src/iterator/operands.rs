//! Gathers the merge operands of one key, one memtable at a time, and combines long sequences.
//!
//! See [`memtable::combined`](crate::memtable::combined) for the stored data and its correctness.

use std::sync::Arc;

use crate::base::hooks::MergeOperator;
use crate::base::key::{MAX_VALUE_LEN, Seq};
use crate::memtable::combined::{CombinedOperand, MIN_STEPS};
use crate::memtable::{HeldMemtable, MemCursor};

/// Operands of one key that a read has met in one memtable, newest first.
#[derive(Debug, Default)]
pub struct OperandRun {
    /// Identity of the memtable; its cursor keeps it alive.
    source: Option<usize>,
    /// The memtable, once the sequence is long enough to be combined.
    table: Option<HeldMemtable>,
    stored: Option<Arc<CombinedOperand>>,
    newest: Seq,
    oldest: Seq,
    /// Index of its first operand in the list of all operands.
    from: usize,
    steps: usize,
}

impl OperandRun {
    /// Records the operand at `seq`, at which the cursor is positioned. If a stored combination
    /// begins with it, pushes that and returns the oldest sequence number that it covers. Otherwise
    /// the caller pushes the operand.
    pub fn meet(
        &mut self,
        cursor: &MemCursor,
        key: &[u8],
        seq: Seq,
        operands: &mut Vec<Vec<u8>>,
        merge: Option<&dyn MergeOperator>,
    ) -> Option<Seq> {
        let source = Some(cursor.table_id());
        if self.source != source {
            self.finish(key, operands, merge);
            self.source = source;
            self.stored = cursor.combined(key);
            (self.newest, self.from, self.steps) = (seq, operands.len(), 0);
        }
        self.oldest = seq;
        if let Some(stored) = self.stored.take_if(|s| s.newest == seq) {
            operands.push(stored.operand.clone());
            self.oldest = stored.oldest;
            return Some(stored.oldest);
        }
        self.steps += 1;
        if self.steps == MIN_STEPS {
            self.table = Some(cursor.hold_table());
        }
        None
    }

    /// Ends the sequence. Combines a long one into one operand, which is stored for later reads.
    pub fn finish(
        &mut self,
        key: &[u8],
        operands: &mut Vec<Vec<u8>>,
        merge: Option<&dyn MergeOperator>,
    ) {
        self.source = None;
        let (Some(table), Some(merge)) = (self.table.take(), merge) else { return };
        let mut oldest_first = operands[self.from..].iter().rev();
        let Some(mut all) = oldest_first.next().cloned() else { return };
        for newer in oldest_first {
            match merge.partial_merge(key, &all, newer) {
                Some(joined) if joined.len() <= MAX_VALUE_LEN => all = joined,
                _ => return,
            }
        }
        operands.truncate(self.from);
        operands.push(all.clone());
        let (newest, oldest) = (self.newest, self.oldest);
        table.store_combined(key, CombinedOperand { newest, oldest, operand: all });
    }
}
