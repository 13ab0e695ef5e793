//! What a workload's run yields: counts, rates, latencies and the rate over time, as plain data
//! that serde writes.

use serde::{Deserialize, Serialize};

/// Kinds of operation that are counted and timed apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpKind {
    /// A point read.
    Read,
    /// A write of a key that may or may not exist.
    Write,
    /// A batch of writes; counted in entries, timed as a whole.
    Batch,
    /// A write of an existing key.
    Update,
    /// A write of a new key.
    Insert,
    /// A point read followed by a write of the same key.
    ReadModifyWrite,
    /// A delete.
    Delete,
    /// A cursor opened, positioned and walked.
    Scan,
    /// One entry of a scan over everything; not timed.
    Entry,
    /// A merge of an operand.
    Merge,
    /// A deletion of a range.
    DeleteRange,
}

impl OpKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [OpKind; 11] = [
        OpKind::Read,
        OpKind::Write,
        OpKind::Batch,
        OpKind::Update,
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

/// One kind of operation within a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutcomeClass {
    /// Which.
    pub kind: OpKind,
    /// How many.
    pub ops: u64,
    /// How many a second.
    pub ops_per_second: f64,
    /// How long they took; `None` where none was timed.
    pub latency: Option<LatencyFigures>,
}

/// The rate during one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// End of the interval, in seconds from the start.
    pub seconds: f64,
    /// Operations a second during it.
    pub ops_per_second: f64,
}

/// One run of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The phase, as it was asked for.
    pub workload: String,
    /// Threads; without the writer of readwhilewriting.
    pub threads: usize,
    /// Operations; without those of the writer of readwhilewriting, which are a class.
    pub ops: u64,
    /// From the first thread's start to the last thread's end.
    pub seconds: f64,
    /// `ops` over `seconds`.
    pub ops_per_second: f64,
    /// Bytes of keys and values that were written or read.
    pub bytes: u64,
    /// Reads that found their key, scans that found an entry.
    pub found: u64,
    /// Latencies of all timed operations together.
    pub latency: Option<LatencyFigures>,
    /// No operation took longer than this: the longest time between two looks at the clock by one
    /// thread, timed operation or not. 0 where the rate was bounded.
    pub ceiling_ns: u64,
    /// By kind of operation.
    pub classes: Vec<OutcomeClass>,
    /// The rate over time.
    pub series: Vec<Point>,
}

/// How far a run has got; given to the progress callback once per interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunProgress {
    /// Seconds from the start.
    pub seconds: f64,
    /// Operations done.
    pub ops: u64,
    /// Operations to be done.
    pub of: u64,
    /// Operations a second during the last interval.
    pub ops_per_second: f64,
}
