//! Result of a workload: counts, rates, latencies and the rate over time, as plain serializable
//! data.

use serde::{Deserialize, Serialize};

/// Types of operations that are counted and timed separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpKind {
    /// A point read.
    Read,
    /// A point read of a key that does not exist.
    MissingRead,
    /// A write of a key that may or may not exist.
    Write,
    /// A batch of writes; counted in entries, timed as a whole.
    Batch,
    /// A write of a new key.
    Insert,
    /// A point read followed by a write of the same key.
    ReadModifyWrite,
    /// A delete.
    Delete,
    /// A cursor opened, positioned and iterated.
    Scan,
    /// One entry of a scan over everything; not timed.
    Entry,
    /// A merge of an operand.
    Merge,
    /// A deletion of a range.
    DeleteRange,
}

impl OpKind {
    /// All types, in the order of their numbers.
    pub const ALL: [OpKind; 11] = [
        OpKind::Read,
        OpKind::MissingRead,
        OpKind::Write,
        OpKind::Batch,
        OpKind::Insert,
        OpKind::ReadModifyWrite,
        OpKind::Delete,
        OpKind::Scan,
        OpKind::Entry,
        OpKind::Merge,
        OpKind::DeleteRange,
    ];
}

/// Latencies in nanoseconds, from a histogram with an error of at most 1 %. One operation in
/// [`sample_every`](crate::Config::sample_every) is timed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyFigures {
    /// Number of operations that were timed.
    pub samples: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Slowest of the timed operations.
    pub max_ns: u64,
}

/// One type of operation within a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutcomeClass {
    /// The type.
    pub kind: OpKind,
    /// Number of operations.
    pub ops: u64,
    /// Operations per second.
    pub ops_per_second: f64,
    /// Latencies; `None` if none was timed.
    pub latency: Option<LatencyFigures>,
}

/// The rate during one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// End of the interval, in seconds from the start.
    pub seconds: f64,
    /// Operations per second during it.
    pub ops_per_second: f64,
}

/// One run of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The requested phase.
    pub workload: String,
    /// Number of threads, without the writer of readwhilewriting.
    pub threads: usize,
    /// Number of operations, without those of the writer of readwhilewriting, which are a class.
    pub ops: u64,
    /// Seconds from the first thread's start to the last thread's end.
    pub seconds: f64,
    /// `ops` over `seconds`.
    pub ops_per_second: f64,
    /// Bytes of keys and values that were written or read.
    pub bytes: u64,
    /// Reads that found their key, scans that found an entry.
    pub found: u64,
    /// Latencies of all timed operations together.
    pub latency: Option<LatencyFigures>,
    /// Upper bound of the time of any operation: the longest time between two clock readings of a
    /// thread. 0 with a bounded rate.
    pub ceiling_ns: u64,
    /// Results by type of operation.
    pub classes: Vec<OutcomeClass>,
    /// The rate over time.
    pub series: Vec<Point>,
}

/// Progress of a run, passed to the callback once per interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunProgress {
    /// Seconds from the start.
    pub seconds: f64,
    /// Operations done.
    pub ops: u64,
    /// Total operations.
    pub of: u64,
    /// Operations per second during the last interval.
    pub ops_per_second: f64,
}
