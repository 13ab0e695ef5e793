//! Applies received changes to the store of a replica, in groups.
//!
//! Invariant: a group is one batch with the position behind its last change. So the store is always a
//! state of the primary.

use firn_kv::internals::base::ops::{Op, OpReader};
use firn_kv::internals::replication::add_ops;
use firn_kv::{Batch, ChangePosition, Db, MAX_BATCH_OPS, Result};

use crate::replica::Reopening;
use crate::state::ReplicaTrees;

/// Size from which a group is written.
const GROUP_BYTES: usize = 1 << 20;

/// Applies changes to an open store.
pub struct Applier {
    db: Db,
    trees: ReplicaTrees,
    group: Batch,
    /// Sequence number of the last change in the group.
    last: u64,
    /// Whether a handle of the store must be opened again because of the group.
    is_reopening: bool,
}

impl Applier {
    /// Begins to apply changes behind the position of the replica.
    pub fn new(db: Db, trees: ReplicaTrees) -> Applier {
        let last = trees.position().seq;
        Applier { db, trees, group: Batch::new(), last, is_reopening: false }
    }

    /// Returns the position up to which everything was applied.
    pub fn position(&self) -> ChangePosition {
        self.trees.position()
    }

    /// Returns the sequence number up to which everything was applied.
    pub fn seq(&self) -> u64 {
        self.trees.position().seq
    }

    /// Changes the trees to these definitions.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn define(&mut self, definitions: &[u8], reopening: &Reopening) -> Result<()> {
        self.write(reopening)?;
        self.trees.define(definitions)
    }

    /// Adds a change to the group, and writes the group if it is large. Changes that the store has are
    /// skipped.
    ///
    /// # Errors
    /// `Corruption` for a change that does not decode, and errors of the store.
    pub fn add(
        &mut self,
        (first, last): (u64, u64),
        ops: &[u8],
        reopening: &Reopening,
    ) -> Result<()> {
        if last <= self.last {
            return Ok(());
        }
        if first != self.last + 1 || last < first {
            return Err(firn_kv::Error::corruption(format!(
                "the primary sent the changes {first} to {last} behind {}",
                self.last
            )));
        }
        let count = usize::try_from(last - first).unwrap_or(usize::MAX).saturating_add(1);
        if self.group.size() + ops.len() > GROUP_BYTES
            || self.group.len().saturating_add(count) >= MAX_BATCH_OPS
        {
            self.write(reopening)?;
        }
        add_ops(&mut self.group, ops, |id| self.trees.tree(id))?;
        self.is_reopening |= self.needs_reopening(ops, reopening);
        self.last = last;
        Ok(())
    }

    fn needs_reopening(&self, ops: &[u8], reopening: &Reopening) -> bool {
        let Some(rule) = reopening.rule() else { return false };
        OpReader::new(ops).flatten().any(|(id, op)| {
            let key = match op {
                Op::Point { key, .. } => key,
                Op::DeleteRange { start, .. } => start,
            };
            self.trees.tree(id).is_some_and(|tree| rule(tree.name(), key))
        })
    }

    /// Writes the group.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn write(&mut self, reopening: &Reopening) -> Result<()> {
        if self.last == self.seq() {
            return Ok(());
        }
        let group = std::mem::take(&mut self.group);
        if !std::mem::take(&mut self.is_reopening) {
            return self.trees.write(group, self.last);
        }
        reopening.around(&self.db, || self.trees.write(group, self.last))
    }

    /// Makes the applied changes durable, and returns the last sequence number.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn sync(&self) -> Result<u64> {
        self.db.sync()?;
        Ok(self.seq())
    }
}
