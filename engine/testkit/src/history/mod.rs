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
pub use script::{HistoryOp, Script};

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

/// Defines the types of steps with their weights.
macro_rules! kinds {
    ($($kind:ident $weight:literal,)*) => {
        /// The types of steps, for weights and for measuring the coverage of a history.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum StepKind { $($kind),* }

        /// Weight of each type.
        pub const WEIGHTS: &[(StepKind, u64)] = &[$((StepKind::$kind, $weight)),*];
    };
}

kinds! {
    Put 3400, PutLarge 60, PutPower 20, Delete 900, DeleteRange 90, Merge 900, Batch 250,
    BatchPower 5, Sync 5, Pop 150, InsertIfAbsent 80, Swap 100, Update 100, Clear 6, Edges 30,
    SnapshotEdges 20, Get 1200, Contains 150, MultiGet 100, Forward 150, Backward 150, BothEnds 80,
    Prefix 80, PrefixBack 80, PrefixBoth 40, Walk 200, FullScan 8, OpenIter 60, StepIter 250,
    CloseIter 40, OpenCursor 60, MoveCursor 250, CloseCursor 40, TakeSnapshot 40, TakeNamed 20,
    DropSnapshot 55, SnapshotGet 200, SnapshotScan 80, SnapshotWalk 60, Flush 30, Compact 6,
    CompactRange 10, DropRange 10, WaitIdle 5, Ingest 30, Export 15, Import 15, Tables 20,
    Begin 100, TxGet 150, TxScan 40, TxPut 200, TxDelete 50, TxDeleteRange 20, Commit 90, Abort 20,
    Retry 30, Reopen 4, Crash 4, PowerCut 4, Checkpoint 2, ReadOnly 3, CreateTree 10, DropTree 4,
    ChangeOptions 8, Size 20, Stats 15, Verify 2, Advance 10, Refused 10,
}

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
