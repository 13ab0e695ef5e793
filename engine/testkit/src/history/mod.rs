//! Histories: random but reproducible sequences of operations on a store with a few trees.
//!
//! Invariants:
//! - A history depends only on its seed, so a failure is replayed from the seed and the number of
//!   the step.
//! - Every step is valid in every state (a read of a missing snapshot does nothing), so a history
//!   stays valid without some of its steps, and a failing one can be shrunk.
//! - This module does not depend on the tested store: steps are plain data.
//!
//!   Each tree has its own key space, chosen by the seed: few colliding keys, long keys with one
//!   shared prefix, arbitrary bytes of any length (the empty key, zeros, 0xff, the longest possible
//!   key), an increasing sequence, and widely distributed keys.

use std::fmt;
use std::ops::Bound;

use crate::rng::Rng;

mod draw;
mod script;

pub use draw::History;
pub use script::Script;

/// Maximum number of trees of a history.
pub const TREES: usize = 4;
/// Maximum number of snapshots, iterators, cursors, transactions and exported files, of each.
pub const SLOTS: usize = 3;
/// The longest key of histories.
pub const LONGEST_KEY: usize = (512 << 10) - 1;

/// A key.
pub type HistoryKey = Vec<u8>;

/// A value or an operand, generated from its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filler {
    /// Odd seeds give incompressible bytes, even ones compressible bytes.
    pub seed: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Filler {
    /// Returns the bytes.
    pub fn bytes(self) -> Vec<u8> {
        let mut out = vec![0; self.len as usize];
        if self.seed % 2 == 1 {
            Rng::new(u64::from(self.seed)).fill(&mut out);
        } else {
            let word = format!("{:08x}-", self.seed);
            out.iter_mut().zip(word.bytes().cycle()).for_each(|(o, b)| *o = b);
        }
        out
    }
}

/// A change of one tree.
#[derive(Clone, PartialEq, Eq)]
pub enum Write {
    /// Sets a key.
    Put(HistoryKey, Filler),
    /// Deletes a key.
    Delete(HistoryKey),
    /// Deletes the keys of a span; nothing if it is empty.
    DeleteRange(Span),
    /// Adds an operand.
    Merge(HistoryKey, Filler),
}

/// A range of keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Span {
    /// Start.
    pub from: Bound<HistoryKey>,
    /// End.
    pub to: Bound<HistoryKey>,
}

impl Span {
    /// Returns the span of all keys.
    pub fn all() -> Span {
        Span { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// Returns the bounds as slices.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice))
    }

    /// Reports whether it cannot contain a key.
    pub fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(a), Bound::Included(b)) => a > b,
            (Bound::Excluded(a), Bound::Excluded(b)) => {
                a >= b || (b.len() == a.len() + 1 && b.starts_with(a) && b.ends_with(&[0]))
            }
            (Bound::Included(a), Bound::Excluded(b)) | (Bound::Excluded(a), Bound::Included(b)) => {
                a >= b
            }
            (Bound::Unbounded, Bound::Excluded(b)) => b.is_empty(),
            _ => false,
        }
    }

    /// Reports whether it contains a key.
    pub fn contains(&self, key: &[u8]) -> bool {
        use std::ops::RangeBounds;
        RangeBounds::<[u8]>::contains(&self.bounds(), key)
    }
}

/// Direction of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryEnds {
    /// Ascending.
    Front,
    /// Descending.
    Back,
    /// From both ends, in an order given by the seed, until they meet.
    Both(u64),
}

/// A move of a cursor.
#[derive(Clone, PartialEq, Eq)]
pub enum Move {
    /// To the first key.
    First,
    /// To the last key.
    Last,
    /// To the first key at or after this one.
    Seek(HistoryKey),
    /// To the last key before this one.
    SeekBefore(HistoryKey),
    /// To the next key.
    Next,
    /// To the previous key.
    Prev,
}

/// The action of a step. `tree`, `slot`: index into the [`TREES`] and [`SLOTS`]. `at`: the snapshot
/// to read, or the present.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum HistoryOp {
    Write { tree: usize, write: Write, power: bool },
    Batch { writes: Vec<(usize, Write)>, power: bool },
    Sync,
    Pop { tree: usize, back: bool },
    InsertIfAbsent { tree: usize, key: HistoryKey, value: Filler },
    Swap { tree: usize, key: HistoryKey, right: bool, value: Option<Filler> },
    Update { tree: usize, key: HistoryKey, value: Option<Filler> },
    Clear { tree: usize },
    Get { tree: usize, key: HistoryKey, at: Option<usize> },
    Edges { tree: usize, at: Option<usize> },
    Contains { tree: usize, key: HistoryKey, at: Option<usize> },
    MultiGet { tree: usize, keys: Vec<HistoryKey> },
    Scan { tree: usize, span: Span, ends: HistoryEnds, limit: usize, at: Option<usize> },
    Prefix { tree: usize, prefix: HistoryKey, ends: HistoryEnds, limit: usize, at: Option<usize> },
    Walk { tree: usize, span: Span, moves: Vec<Move>, at: Option<usize> },
    FullScan { tree: usize },
    OpenIter { slot: usize, tree: usize, span: Span, at: Option<usize> },
    StepIter { slot: usize, front: usize, back: usize },
    CloseIter { slot: usize },
    OpenCursor { slot: usize, tree: usize, span: Span, at: Option<usize> },
    MoveCursor { slot: usize, moves: Vec<Move> },
    CloseCursor { slot: usize },
    TakeSnapshot { slot: usize, named: bool },
    DropSnapshot { slot: usize },
    Flush { tree: usize },
    Compact { tree: usize },
    CompactRange { tree: usize, from: HistoryKey, to: HistoryKey },
    DropRange { tree: usize, from: HistoryKey, to: HistoryKey },
    Ingest { tree: usize, pairs: Vec<(HistoryKey, Filler)> },
    Export { slot: usize, tree: usize, span: Span },
    Import { slot: usize, tree: usize },
    Tables { tree: usize },
    WaitIdle,
    Begin { slot: usize },
    TxGet { slot: usize, tree: usize, key: HistoryKey },
    TxScan { slot: usize, tree: usize, span: Span, back: bool, limit: usize },
    TxPut { slot: usize, tree: usize, key: HistoryKey, value: Filler },
    TxDelete { slot: usize, tree: usize, key: HistoryKey },
    TxDeleteRange { slot: usize, tree: usize, span: Span },
    Commit { slot: usize, power: bool },
    Abort { slot: usize },
    Retry { tree: usize, key: HistoryKey, value: Filler, disturb: bool },
    Reopen,
    Crash,
    PowerCut { seed: Option<u64> },
    Checkpoint,
    ReadOnly,
    CreateTree { tree: usize },
    DropTree { tree: usize },
    ChangeOptions { tree: usize, variant: u64 },
    Size { tree: usize, from: HistoryKey, to: HistoryKey },
    Stats,
    Verify,
    Advance { seconds: u64 },
    Refused { tree: usize },
}

/// The types of steps, for weights and for measuring the coverage of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
#[rustfmt::skip]
pub enum StepKind {
    Put, PutLarge, PutPower, Delete, DeleteRange, Merge, Batch, BatchPower, Sync,
    Pop, InsertIfAbsent, Swap, Update, Clear, Edges, SnapshotEdges,
    Get, Contains, MultiGet, Forward, Backward, BothEnds, Prefix, PrefixBack, PrefixBoth, Walk, FullScan,
    OpenIter, StepIter, CloseIter, OpenCursor, MoveCursor, CloseCursor,
    TakeSnapshot, TakeNamed, DropSnapshot, SnapshotGet, SnapshotScan, SnapshotWalk,
    Flush, Compact, CompactRange, DropRange, WaitIdle, Ingest, Export, Import, Tables,
    Begin, TxGet, TxScan, TxPut, TxDelete, TxDeleteRange, Commit, Abort, Retry,
    Reopen, Crash, PowerCut, Checkpoint, ReadOnly,
    CreateTree, DropTree, ChangeOptions, Size, Stats, Verify, Advance, Refused,
}

/// Weight of each type.
#[rustfmt::skip]
pub const WEIGHTS: &[(StepKind, u64)] = &[
    (StepKind::Put, 3400), (StepKind::PutLarge, 60), (StepKind::PutPower, 20), (StepKind::Delete, 900), (StepKind::DeleteRange, 90),
    (StepKind::Merge, 900), (StepKind::Batch, 250), (StepKind::BatchPower, 5), (StepKind::Sync, 5),
    (StepKind::Pop, 150), (StepKind::InsertIfAbsent, 80), (StepKind::Swap, 100), (StepKind::Update, 100), (StepKind::Clear, 6), (StepKind::Edges, 30),
    (StepKind::SnapshotEdges, 20), (StepKind::Get, 1200), (StepKind::Contains, 150), (StepKind::MultiGet, 100),
    (StepKind::Forward, 150), (StepKind::Backward, 150), (StepKind::BothEnds, 80),
    (StepKind::Prefix, 80), (StepKind::PrefixBack, 80), (StepKind::PrefixBoth, 40), (StepKind::Walk, 200), (StepKind::FullScan, 8),
    (StepKind::OpenIter, 60), (StepKind::StepIter, 250), (StepKind::CloseIter, 40),
    (StepKind::OpenCursor, 60), (StepKind::MoveCursor, 250), (StepKind::CloseCursor, 40),
    (StepKind::TakeSnapshot, 40), (StepKind::TakeNamed, 20), (StepKind::DropSnapshot, 55), (StepKind::SnapshotGet, 200),
    (StepKind::SnapshotScan, 80), (StepKind::SnapshotWalk, 60),
    (StepKind::Flush, 30), (StepKind::Compact, 6), (StepKind::CompactRange, 10), (StepKind::DropRange, 10), (StepKind::WaitIdle, 5),
    (StepKind::Ingest, 30), (StepKind::Export, 15), (StepKind::Import, 15), (StepKind::Tables, 20),
    (StepKind::Begin, 100), (StepKind::TxGet, 150), (StepKind::TxScan, 40), (StepKind::TxPut, 200), (StepKind::TxDelete, 50), (StepKind::TxDeleteRange, 20),
    (StepKind::Commit, 90), (StepKind::Abort, 20), (StepKind::Retry, 30),
    (StepKind::Reopen, 4), (StepKind::Crash, 4), (StepKind::PowerCut, 4), (StepKind::Checkpoint, 2), (StepKind::ReadOnly, 3),
    (StepKind::CreateTree, 10), (StepKind::DropTree, 4), (StepKind::ChangeOptions, 8), (StepKind::Size, 20), (StepKind::Stats, 15), (StepKind::Verify, 2),
    (StepKind::Advance, 10), (StepKind::Refused, 10),
];

/// One step of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The drawn type.
    pub kind: StepKind,
    /// The action.
    pub op: HistoryOp,
}

/// Formats a key: escaped, long runs shortened.
fn show(key: &[u8]) -> String {
    if key.len() <= 24 {
        return format!("\"{}\"", key.escape_ascii());
    }
    format!(
        "\"{}…{}\" ({} bytes)",
        key[..4].escape_ascii(),
        key[key.len() - 12..].escape_ascii(),
        key.len()
    )
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Put(k, v) => write!(f, "Put({}, {} bytes, seed {})", show(k), v.len, v.seed),
            Write::Delete(k) => write!(f, "Delete({})", show(k)),
            Write::DeleteRange(span) => write!(f, "DeleteRange({span:?})"),
            Write::Merge(k, v) => write!(f, "Merge({}, {} bytes, seed {})", show(k), v.len, v.seed),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |b: &Bound<HistoryKey>| match b {
            Bound::Included(k) => format!("={}", show(k)),
            Bound::Excluded(k) => show(k),
            Bound::Unbounded => String::new(),
        };
        write!(f, "[{}..{}]", bound(&self.from), bound(&self.to))
    }
}

impl fmt::Debug for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Move::First => f.write_str("first"),
            Move::Last => f.write_str("last"),
            Move::Seek(k) => write!(f, "seek {}", show(k)),
            Move::SeekBefore(k) => write!(f, "seek_before {}", show(k)),
            Move::Next => f.write_str("next"),
            Move::Prev => f.write_str("prev"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_history_and_every_kind_occurs() {
        let steps: Vec<Step> = History::new(3, [false, false, true, true]).take(60_000).collect();
        assert!(steps.iter().eq(
            History::new(3, [false, false, true, true]).take(60_000).collect::<Vec<_>>().iter()
        ));
        for (kind, _) in WEIGHTS {
            assert!(steps.iter().any(|s| s.kind == *kind), "{kind:?}");
        }
    }

    #[test]
    fn spans_know_when_they_are_empty() {
        use Bound::*;
        let span = |from, to| Span { from, to };
        let k = |s: &str| s.as_bytes().to_vec();
        assert!(span(Excluded(k("a")), Excluded(k("a\0"))).is_empty());
        assert!(!span(Excluded(k("a")), Included(k("a\0"))).is_empty());
        assert!(!span(Included(k("a")), Included(k("a"))).is_empty());
        assert!(
            span(Included(k("b")), Excluded(k("a"))).is_empty()
                && span(Unbounded, Excluded(vec![])).is_empty()
        );
        assert!(Span::all().contains(b"") && !span(Excluded(vec![]), Unbounded).contains(b""));
    }
}
