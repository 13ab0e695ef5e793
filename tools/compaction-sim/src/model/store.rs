//! The interface of a model of a tree's data. There are two: [`exact`](crate::model::exact) holds
//! every key, [`summary`](crate::model::summary) only numbers for each table. The simulator drives
//! both in the same way.

use firn_kv::Result;
use firn_kv::internals::compaction::{CompactionJob, LsmShape, TableShape};

use crate::model::blobs::{BlobShare, SimBlobFiles, SimBlobOutput};
use crate::workload::SimPhase;

/// Times of operations: `nanos` before the first, and `interval` between two.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimClock {
    /// Nanoseconds since the simulation's beginning.
    pub nanos: f64,
    /// Nanoseconds between two operations.
    pub interval: f64,
}

/// Wall clock at the beginning of a simulation, in microseconds since 1970: that of the engine's
/// in-memory environment.
pub const EPOCH_MICROS: u64 = 1_577_836_800_000_000;

impl SimClock {
    /// Returns the wall clock in microseconds at the `i`th operation from here, counted from 1.
    pub fn wall(&self, i: u64) -> u64 {
        // A time beyond the range of microseconds becomes the last one.
        EPOCH_MICROS.saturating_add(((self.nanos + self.interval * i as f64) / 1000.0) as u64)
    }
}

/// Result of [`SimStore::write`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Written {
    /// Number of operations done.
    pub ops: u64,
    /// Bytes of their keys and values.
    pub bytes: f64,
    /// Whether the memtable has no room for the next operation.
    pub full: bool,
    /// Whether there is no next operation.
    pub ended: bool,
    /// Whether the next phase waits for background work.
    pub paused: bool,
}

/// The place of a store in the phases of its workload.
#[derive(Clone, Debug)]
pub struct PhaseCursor {
    phases: Vec<SimPhase>,
    /// The phase that has begun, and its first nanosecond.
    begun: Option<(usize, f64)>,
    /// The phase that has paused before its beginning.
    paused: Option<usize>,
}

/// The next action of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PhaseTurn {
    /// This many operations of the phase.
    Operations(u64),
    /// The phase is over: the next one follows.
    Over,
    /// The phase waits until background work is done. It begins at the next call.
    Paused,
    /// There is no phase left.
    Ended,
}

impl PhaseCursor {
    /// Creates a cursor before the first phase.
    pub fn new(phases: &[SimPhase]) -> PhaseCursor {
        PhaseCursor { phases: phases.to_vec(), begun: None, paused: None }
    }

    /// Returns what comes next, after `done` operations of this phase, and `since` operations after
    /// the clock's beginning.
    pub fn enter(&mut self, phase: usize, done: u64, clock: &SimClock, since: u64) -> PhaseTurn {
        let Some(p) = self.phases.get(phase) else { return PhaseTurn::Ended };
        let now = clock.nanos + clock.interval * since as f64;
        let began = match self.begun {
            Some((begun, at)) if begun == phase => at,
            _ if p.waits && self.paused != Some(phase) => {
                self.paused = Some(phase);
                return PhaseTurn::Paused;
            }
            _ => {
                self.begun = Some((phase, now));
                now
            }
        };
        let mut left = p.ops.saturating_sub(done);
        if p.seconds > 0.0 {
            let nanos = (began + p.seconds * 1e9 - now).max(0.0);
            left = left.min((nanos / clock.interval.max(1e-3)).ceil() as u64);
        }
        if left == 0 { PhaseTurn::Over } else { PhaseTurn::Operations(left) }
    }
}

/// Output of a flush or a compaction.
#[derive(Clone, Debug, Default)]
pub struct MadeRuns {
    /// The tables, in key order.
    pub tables: Vec<TableShape>,
    /// The blob files that were written for them.
    pub values: Vec<SimBlobOutput>,
    /// References of the tables to blob files, by table.
    pub uses: Vec<(u64, Vec<BlobShare>)>,
    /// Number of entries written.
    pub entries: f64,
    /// Number of entries read.
    pub entries_in: f64,
    /// Bytes of keys and values written.
    pub raw_bytes: f64,
    /// Dropped deletes: their number, and their age in microseconds.
    pub vanished: Vec<(f64, u64)>,
}

impl MadeRuns {
    /// Returns the bytes of the tables and blob files.
    pub fn bytes(&self) -> u64 {
        let values = self.values.iter().map(|v| v.size);
        self.tables.iter().map(|t| t.size).chain(values).sum()
    }

    /// Adds the output of the next part of a compaction.
    pub fn append(&mut self, mut next: MadeRuns) {
        self.tables.append(&mut next.tables);
        self.values.append(&mut next.values);
        self.uses.append(&mut next.uses);
        self.entries += next.entries;
        self.entries_in += next.entries_in;
        self.raw_bytes += next.raw_bytes;
        self.vanished.append(&mut next.vanished);
    }
}

/// Live data: the content of the store after a full compaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveKeys {
    /// Number of keys with a value.
    pub keys: f64,
    /// Bytes of one copy of them in tables and blob files.
    pub bytes: f64,
}

/// A model of a tree's data: the memtable, the immutable memtables, and the tables' contents.
pub trait SimStore {
    /// Does at most `ops` operations of the workload.
    ///
    /// # Errors
    /// Errors of the engine's parts.
    fn write(&mut self, ops: u64, clock: SimClock) -> Result<Written>;
    /// Seals the memtable and starts another.
    ///
    /// # Errors
    /// Errors of the engine's parts.
    fn seal(&mut self) -> Result<()>;
    /// Returns the number of immutable memtables.
    fn sealed(&self) -> usize;
    /// Returns the entries of the oldest immutable memtable, older versions included.
    fn next_entries(&self) -> u64;
    /// Writes tables of the oldest immutable memtable, in this many pieces and with this many
    /// filter bits per key.
    ///
    /// # Errors
    /// Errors of the engine's parts.
    fn flush(&mut self, filter_bits: f64, now_micros: u64, pieces: usize) -> Result<MadeRuns>;
    /// Returns the output of a compaction of this shape, with these blob files and this many filter
    /// bits per key. The inputs stay until [`forget`](SimStore::forget).
    ///
    /// # Errors
    /// Errors of the engine's parts.
    fn merge(
        &mut self,
        shape: &LsmShape,
        job: &CompactionJob,
        values: &SimBlobFiles,
        filter_bits: f64,
        now_micros: u64,
    ) -> Result<MadeRuns>;
    /// Removes tables.
    fn forget(&mut self, tables: impl Iterator<Item = u64>);
    /// Returns the live data; expired data is not live, even if it is still in tables.
    fn live(&mut self, now_micros: u64) -> LiveKeys;
    /// Returns the deletes that are still in tables: their number, and their age in microseconds.
    fn tombstones(&self, now_micros: u64) -> Vec<(f64, u64)>;
}
