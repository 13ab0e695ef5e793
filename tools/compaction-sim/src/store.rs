//! The interface of a model of a tree's data. There are two: [`exact`](crate::exact)
//! holds every key, [`summary`](crate::summary) only numbers for each table. The simulator drives
//! either in the same way.

use firn_kv::Result;
use firn_kv::internals::compaction::{CompactionJob, LsmShape, TableShape};

use crate::blobs::{BlobShare, SimBlobFiles, SimBlobOutput};

/// When operations happen: `nanos` before the first, and so many between two.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimClock {
    /// Nanoseconds since the simulation's beginning.
    pub nanos: f64,
    /// Nanoseconds from one operation to the next.
    pub interval: f64,
}

/// The wall clock at which a simulation begins, in microseconds since 1970: that of the engine's
/// in-memory environment.
pub const EPOCH_MICROS: u64 = 1_577_836_800_000_000;

impl SimClock {
    /// The wall clock in microseconds when the `i`th operation from here is made, counted from 1.
    pub fn wall(&self, i: u64) -> u64 {
        // A time that no number of microseconds holds is the last one.
        EPOCH_MICROS.saturating_add(((self.nanos + self.interval * i as f64) / 1000.0) as u64)
    }
}

/// What a call of [`SimStore::write`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Written {
    /// Operations done.
    pub ops: u64,
    /// Bytes of their keys and values.
    pub bytes: f64,
    /// Whether the memtable has no room for the next operation.
    pub full: bool,
    /// Whether there is no next operation.
    pub ended: bool,
}

/// The tables that a flush or a merge made, with what is told of them.
#[derive(Clone, Debug, Default)]
pub struct MadeRuns {
    /// The tables, in key order.
    pub tables: Vec<TableShape>,
    /// The blob files that were written for them.
    pub values: Vec<SimBlobOutput>,
    /// What tables refer to in blob files, by table.
    pub uses: Vec<(u64, Vec<BlobShare>)>,
    /// Entries written.
    pub entries: f64,
    /// Entries read.
    pub entries_in: f64,
    /// Bytes of keys and values written.
    pub raw_bytes: f64,
    /// Deletes that vanished: how many, and their age in microseconds.
    pub vanished: Vec<(f64, u64)>,
}

impl MadeRuns {
    /// Bytes of the tables and blob files.
    pub fn bytes(&self) -> u64 {
        let values = self.values.iter().map(|v| v.size);
        self.tables.iter().map(|t| t.size).chain(values).sum()
    }

    /// Adds what the next part of a merge made.
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

/// What a user would find if everything were merged.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveKeys {
    /// Keys with a value.
    pub keys: f64,
    /// Bytes that one copy of them takes in tables and blob files.
    pub bytes: f64,
}

/// A model of a tree's data: the memtable, those that wait for their flush, and the tables'
/// contents.
pub trait SimStore {
    /// Does at most `ops` operations of the workload.
    ///
    /// # Errors
    /// What the engine's parts refuse.
    fn write(&mut self, ops: u64, clock: SimClock) -> Result<Written>;
    /// Ends the memtable's time of taking writes and starts another.
    ///
    /// # Errors
    /// What the engine's parts refuse.
    fn seal(&mut self) -> Result<()>;
    /// How many memtables wait.
    fn sealed(&self) -> usize;
    /// Entries of the oldest memtable that waits, older versions included.
    fn next_entries(&self) -> u64;
    /// Makes tables of the oldest memtable that waits, in so many pieces and with so many bits
    /// for each key in their filters.
    ///
    /// # Errors
    /// What the engine's parts refuse.
    fn flush(&mut self, filter_bits: f64, now_micros: u64, pieces: usize) -> Result<MadeRuns>;
    /// The output of a merge on this shape, beside these blob files, with so many bits for each key
    /// in its filters. The inputs stay until [`forget`](SimStore::forget).
    ///
    /// # Errors
    /// What the engine's parts refuse.
    fn merge(
        &mut self,
        shape: &LsmShape,
        job: &CompactionJob,
        values: &SimBlobFiles,
        filter_bits: f64,
        now_micros: u64,
    ) -> Result<MadeRuns>;
    /// Tables that are gone.
    fn forget(&mut self, tables: impl Iterator<Item = u64>);
    /// What lives now: what has expired does not, wherever it still lies.
    fn live(&mut self, now_micros: u64) -> LiveKeys;
    /// Deletes that are still in tables: how many, and their age in microseconds.
    fn tombstones(&self, now_micros: u64) -> Vec<(f64, u64)>;
}
