//! One thread of a cycle: executes its steps, writes its journal, and compares all reads with the
//! expected content.

use std::sync::atomic::Ordering;

use firn_kv::{Error, ErrorKind};

use super::check::{check_walk, of_shard, shard_range};
use super::error::{CheckError, Checked, wrong};
use super::expected::ExpectedChange;
use super::steps::{StepMode, TortureStep};
use super::worker::{HeldSnapshot, TortureWorker};

impl TortureWorker {
    /// Executes steps until the stop flag is set. Returns an error if the store is wrong.
    pub fn run(mut self) -> Checked {
        for number in 0u64.. {
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            let step = self.shared.space.step(self.thread, number);
            self.journal.begin(number)?;
            match self.execute(&step, number) {
                Ok(()) => {
                    self.apply(step.done());
                    self.journal.done(number)?;
                }
                // The next open determines the outcome of the step.
                Err(CheckError::Failed(e)) if self.shared.is_closed(&e) => return Ok(()),
                // Disk failures must not end a connection.
                Err(CheckError::Failed(e))
                    if self.shared.failing && e.kind() != ErrorKind::Closed =>
                {
                    match self.refused(&e, &step) {
                        // The disk is temporarily full. The refused step may be repeated.
                        true if self.journal.refuse(number)? => {
                            self.shared.env.sleep(std::time::Duration::from_millis(1))
                        }
                        _ => return self.check_readable(step.open()),
                    }
                }
                Err(CheckError::Failed(e)) => {
                    return wrong(format!("{}: {step:?} failed: {e}", self.at(number)));
                }
                Err(CheckError::Wrong(words)) => {
                    return wrong(format!("{}: {words}", self.at(number)));
                }
            }
            self.release(number)?;
        }
        self.release(u64::MAX)
    }

    /// Reports whether a failed call certainly changed nothing, and the store continues.
    fn refused(&self, e: &Error, step: &TortureStep) -> bool {
        match step {
            TortureStep::Other { .. } => {
                self.shared.db.sync().is_ok() || e.kind() == ErrorKind::NoSpace
            }
            // These write and flush, so the flush may have failed.
            TortureStep::Write { how: StepMode::DropRange | StepMode::ExportImport, .. } => false,
            TortureStep::Write { .. } => e.kind() == ErrorKind::NoSpace,
        }
    }

    /// Checks, after a failure that may have ended all writes, that acknowledged data is still
    /// readable, except the data of the open step.
    fn check_readable(&self, open: &[ExpectedChange]) -> Checked {
        for (shard, expected) in &self.shards {
            if open.iter().all(|c| c.shard != *shard) {
                match self.shared.known.check_shard("after a failure of the disk", *shard, expected)
                {
                    // Reads may fail too while the disk does.
                    Err(CheckError::Failed(e)) if e.kind() != ErrorKind::Corruption => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, changes: &[ExpectedChange]) {
        for c in changes {
            if let Some(shard) = self.shards.get_mut(&c.shard) {
                c.apply(shard);
            }
        }
    }

    /// Compares the snapshots that are due with the content at the time they were taken.
    fn release(&mut self, number: u64) -> Checked {
        self.visitors.retain(|visitor| visitor.until > number);
        let (due, held) =
            std::mem::take(&mut self.held).into_iter().partition(|h| h.until <= number);
        self.held = held;
        for h in due {
            let HeldSnapshot { snapshot, tree, shard, keys, .. } = h;
            let walk = snapshot.range(&self.shared.trees()[tree], shard_range(shard));
            match check_walk("in a snapshot", tree, walk, of_shard(shard, &keys)) {
                Err(CheckError::Failed(e))
                    if self.shared.failing && e.kind() != ErrorKind::Corruption => {}
                Err(CheckError::Failed(e)) if self.shared.is_closed(&e) => {}
                Err(CheckError::Failed(e)) => {
                    return wrong(format!("{}: reading a snapshot failed: {e}", self.at(number)));
                }
                Err(CheckError::Wrong(words)) => {
                    return wrong(format!("{}: {words}", self.at(number)));
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }

    fn execute(&mut self, step: &TortureStep, number: u64) -> Checked {
        let is_served = self.shared.space.is_served(step, number);
        let tables = if is_served { &self.connected } else { &self.shared.known.tables };
        let Some(tables) = tables.clone() else {
            return wrong("the store was opened without its tables");
        };
        match step {
            TortureStep::Write { how, changes } => self.write(*how, changes, &tables),
            TortureStep::Other { op, tree, shard, seed } => {
                self.run_other(*op, *tree, *shard, *seed, (number, &tables))
            }
        }
    }
}
