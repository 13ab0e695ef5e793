//! Histories: random but repeatable sequences of operations on a store of a few trees.
//!
//! Invariants:
//! - A history depends on its seed alone, so a failure is replayed from the seed and the number of the step.
//! - Every step means something in every state (a read of a snapshot that is not there does nothing), so a history stays one when
//!   steps are taken out of it, and a failing one can be made smaller.
//! - Nothing here knows the store that is tested: steps are plain data.
//!
//! Each tree has a key space of its own, chosen by the seed: few keys that collide all the time, long keys with one shared prefix,
//! odd bytes of any length (the empty key, zeros, 0xff, the longest key there may be), a growing sequence, and keys spread wide.

use std::fmt;
use std::ops::Bound;

use crate::rng::Rng;

/// How many trees a history uses at most.
pub const TREES: usize = 4;
/// How many snapshots, iterators, cursors and transactions are open at most, of each.
pub const SLOTS: usize = 3;
/// The longest key that histories use.
pub const LONGEST_KEY: usize = 65_535;

/// A key.
pub type Key = Vec<u8>;

/// A value or an operand, by what it is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filler {
    /// Odd seeds give bytes that do not compress, even ones give bytes that do.
    pub seed: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Filler {
    /// The bytes.
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
    Put(Key, Filler),
    /// Deletes a key.
    Delete(Key),
    /// Deletes the keys from the first to before the second; nothing when the first is not the smaller one.
    DeleteRange(Key, Key),
    /// Adds an operand.
    Merge(Key, Filler),
}

/// A range of keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub from: Bound<Key>,
    /// Where it ends.
    pub to: Bound<Key>,
}

impl Span {
    /// All keys.
    pub fn all() -> Span {
        Span { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// Its bounds as slices.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice))
    }

    /// Whether it can hold no key.
    pub fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(a), Bound::Included(b)) => a > b,
            (Bound::Excluded(a), Bound::Excluded(b)) => {
                a >= b || (b.len() == a.len() + 1 && b.starts_with(a) && b.ends_with(&[0]))
            }
            (Bound::Included(a), Bound::Excluded(b)) | (Bound::Excluded(a), Bound::Included(b)) => a >= b,
            (Bound::Unbounded, Bound::Excluded(b)) => b.is_empty(),
            _ => false,
        }
    }

    /// Whether a key lies in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        use std::ops::RangeBounds;
        RangeBounds::<[u8]>::contains(&self.bounds(), key)
    }
}

/// From where a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Ascending.
    Front,
    /// Descending.
    Back,
    /// From both, in an order that the seed gives, until they meet.
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
    Seek(Key),
    /// To the last key before this one.
    SeekBefore(Key),
    /// To the next key.
    Next,
    /// To the previous key.
    Prev,
}

/// What a step does. `tree`, `slot`: which of the [`TREES`] and [`SLOTS`]. `at`: the snapshot that is read, or the present.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Write { tree: usize, write: Write, power: bool },
    Batch { writes: Vec<(usize, Write)>, power: bool },
    Sync,
    Get { tree: usize, key: Key, at: Option<usize> },
    Contains { tree: usize, key: Key, at: Option<usize> },
    MultiGet { tree: usize, keys: Vec<Key> },
    Scan { tree: usize, span: Span, ends: Ends, limit: usize, at: Option<usize> },
    Prefix { tree: usize, prefix: Key, ends: Ends, limit: usize, at: Option<usize> },
    Walk { tree: usize, span: Span, moves: Vec<Move>, at: Option<usize> },
    FullScan { tree: usize },
    OpenIter { slot: usize, tree: usize, span: Span, at: Option<usize> },
    StepIter { slot: usize, front: usize, back: usize },
    CloseIter { slot: usize },
    OpenCursor { slot: usize, tree: usize, span: Span, at: Option<usize> },
    MoveCursor { slot: usize, moves: Vec<Move> },
    CloseCursor { slot: usize },
    TakeSnapshot { slot: usize },
    DropSnapshot { slot: usize },
    Flush { tree: usize },
    Compact { tree: usize },
    CompactRange { tree: usize, from: Key, to: Key },
    WaitIdle,
    Begin { slot: usize },
    TxGet { slot: usize, tree: usize, key: Key },
    TxScan { slot: usize, tree: usize, span: Span },
    TxPut { slot: usize, tree: usize, key: Key, value: Filler },
    TxDelete { slot: usize, tree: usize, key: Key },
    Commit { slot: usize, power: bool },
    Abort { slot: usize },
    Retry { tree: usize, key: Key, value: Filler, disturb: bool },
    Reopen,
    Crash,
    PowerCut { seed: Option<u64> },
    Checkpoint,
    ReadOnly,
    CreateTree { tree: usize },
    DropTree { tree: usize },
    ChangeOptions { tree: usize, variant: usize },
    Size { tree: usize, from: Key, to: Key },
    Stats,
    Verify,
    Advance { seconds: u64 },
    Refused { tree: usize },
}

/// The kinds of step, for weights and for counting what a history has covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
#[rustfmt::skip]
pub enum Kind {
    Put, PutLarge, PutPower, Delete, DeleteRange, Merge, Batch, BatchPower, Sync,
    Get, Contains, MultiGet, Forward, Backward, BothEnds, Prefix, PrefixBack, PrefixBoth, Walk, FullScan,
    OpenIter, StepIter, CloseIter, OpenCursor, MoveCursor, CloseCursor,
    TakeSnapshot, DropSnapshot, SnapshotGet, SnapshotScan, SnapshotWalk,
    Flush, Compact, CompactRange, WaitIdle,
    Begin, TxGet, TxScan, TxPut, TxDelete, Commit, Abort, Retry,
    Reopen, Crash, PowerCut, Checkpoint, ReadOnly,
    CreateTree, DropTree, ChangeOptions, Size, Stats, Verify, Advance, Refused,
}

/// How often each kind is drawn, relative to the sum.
#[rustfmt::skip]
pub const WEIGHTS: &[(Kind, u64)] = &[
    (Kind::Put, 3400), (Kind::PutLarge, 60), (Kind::PutPower, 20), (Kind::Delete, 900), (Kind::DeleteRange, 90),
    (Kind::Merge, 900), (Kind::Batch, 250), (Kind::BatchPower, 5), (Kind::Sync, 5),
    (Kind::Get, 1200), (Kind::Contains, 150), (Kind::MultiGet, 100),
    (Kind::Forward, 150), (Kind::Backward, 150), (Kind::BothEnds, 80),
    (Kind::Prefix, 80), (Kind::PrefixBack, 80), (Kind::PrefixBoth, 40), (Kind::Walk, 200), (Kind::FullScan, 8),
    (Kind::OpenIter, 60), (Kind::StepIter, 250), (Kind::CloseIter, 40),
    (Kind::OpenCursor, 60), (Kind::MoveCursor, 250), (Kind::CloseCursor, 40),
    (Kind::TakeSnapshot, 60), (Kind::DropSnapshot, 55), (Kind::SnapshotGet, 200), (Kind::SnapshotScan, 80), (Kind::SnapshotWalk, 60),
    (Kind::Flush, 30), (Kind::Compact, 6), (Kind::CompactRange, 10), (Kind::WaitIdle, 5),
    (Kind::Begin, 100), (Kind::TxGet, 150), (Kind::TxScan, 40), (Kind::TxPut, 200), (Kind::TxDelete, 50),
    (Kind::Commit, 90), (Kind::Abort, 20), (Kind::Retry, 30),
    (Kind::Reopen, 4), (Kind::Crash, 4), (Kind::PowerCut, 4), (Kind::Checkpoint, 2), (Kind::ReadOnly, 3),
    (Kind::CreateTree, 10), (Kind::DropTree, 4), (Kind::ChangeOptions, 8), (Kind::Size, 20), (Kind::Stats, 15), (Kind::Verify, 2),
    (Kind::Advance, 10), (Kind::Refused, 10),
];

/// One step of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What kind was drawn.
    pub kind: Kind,
    /// What to do.
    pub op: Op,
}

#[derive(Clone, Copy, Debug)]
enum Space {
    Tiny,
    Prefixed,
    Odd,
    Growing,
    Wide,
}

/// An endless history: take as many steps as are wanted.
pub struct History {
    rng: Rng,
    spaces: [Space; TREES],
    /// Which trees take operands.
    hooked: [bool; TREES],
    alive: [bool; TREES],
    snapshots: [bool; SLOTS],
    iters: [bool; SLOTS],
    cursors: [bool; SLOTS],
    transactions: [bool; SLOTS],
    grown: u64,
    sum: u64,
}

impl History {
    /// The history of this seed. `hooked` says which trees take merge operands. No tree is there at the start.
    pub fn new(seed: u64, hooked: [bool; TREES]) -> History {
        let mut rng = Rng::new(seed);
        let all = [Space::Tiny, Space::Prefixed, Space::Odd, Space::Growing, Space::Wide];
        let first = rng.below(5) as usize;
        let spaces = std::array::from_fn(|i| all[(first + i) % all.len()]);
        let sum = WEIGHTS.iter().map(|(_, w)| w).sum();
        let no = [false; SLOTS];
        let alive = [false; TREES];
        History { rng, spaces, hooked, alive, snapshots: no, iters: no, cursors: no, transactions: no, grown: 0, sum }
    }

    fn key(&mut self, tree: usize) -> Key {
        let r = &mut self.rng;
        match self.spaces[tree] {
            Space::Tiny => format!("{:x}", r.below(40)).into_bytes(),
            Space::Prefixed => {
                let n = if r.one_in(2) { r.below(600) } else { 100 + r.below(20) };
                let mut k = vec![b'p'; 180];
                k.extend_from_slice(format!("{n:03}").as_bytes());
                k
            }
            Space::Odd => {
                if r.one_in(2000) {
                    return vec![*r.choose(&[0, b'k', 0xff]).unwrap_or(&0); LONGEST_KEY - r.below(2) as usize];
                }
                let len = if r.one_in(10) { r.below(11) } else { r.below(5) };
                (0..len).map(|_| *r.choose(&[0, 0, 1, b'a', 0xfe, 0xff, 0xff]).unwrap_or(&0)).collect()
            }
            Space::Growing => {
                let back = if r.one_in(3) { r.below(800) } else { r.below(10) };
                if back < 4 {
                    self.grown += 1;
                }
                self.grown.saturating_sub(back).to_be_bytes().to_vec()
            }
            Space::Wide => {
                let n = if r.one_in(3) { r.below(50) } else { r.below(1500) };
                let mut k = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes().to_vec();
                k.extend_from_slice(format!("-{n}").as_bytes());
                k
            }
        }
    }

    fn value(&mut self) -> Filler {
        let r = &mut self.rng;
        let len = match r.below(1000) {
            0..60 => 0,
            60..500 => r.below(20),
            500..950 => 60 + r.below(80),
            950..999 => 200 + r.below(800),
            _ => 5000 + r.below(1000),
        };
        Filler { seed: r.next_u64() as u32, len: len as u32 }
    }

    fn large(&mut self) -> Filler {
        let r = &mut self.rng;
        let len = match r.below(400) {
            0 => (1 << 20) + r.below(1 << 20),
            1..12 => 70_000 + r.below(60_000),
            _ => 3000 + r.below(6000),
        };
        Filler { seed: r.next_u64() as u32, len: len as u32 }
    }

    fn tree(&mut self) -> usize {
        let i = self.rng.below(TREES as u64) as usize;
        let alive = (0..TREES).map(|n| (i + n) % TREES).find(|&n| self.alive[n]);
        if self.rng.one_in(200) { i } else { alive.unwrap_or(i) }
    }

    fn merge_tree(&mut self) -> usize {
        let i = self.rng.below(TREES as u64) as usize;
        (0..TREES).map(|n| (i + n) % TREES).find(|&n| self.hooked[n] && self.alive[n]).unwrap_or(i)
    }

    /// Two keys of a tree, in order most of the time, near each other half of the time.
    fn two_keys(&mut self, tree: usize) -> (Key, Key) {
        let a = self.key(tree);
        let b = match self.spaces[tree] {
            Space::Growing | Space::Prefixed if self.rng.one_in(2) => {
                let mut b = a.clone();
                let last = b.len() - 1;
                b[last] = b[last].saturating_add(self.rng.below(9) as u8);
                b
            }
            _ => self.key(tree),
        };
        if b < a && !self.rng.one_in(20) { (b, a) } else { (a, b) }
    }

    fn span(&mut self, tree: usize) -> Span {
        let (a, b) = self.two_keys(tree);
        let mut bound = |k| match self.rng.below(5) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(k),
            _ => Bound::Included(k),
        };
        Span { from: bound(a), to: bound(b) }
    }

    fn prefix(&mut self, tree: usize) -> Key {
        let mut k = self.key(tree);
        let keep = match self.spaces[tree] {
            Space::Prefixed => 179 + self.rng.below(5),
            Space::Growing => 6 + self.rng.below(3),
            _ => self.rng.below(k.len() as u64 + 1),
        };
        k.truncate(keep as usize);
        k
    }

    fn moves(&mut self, tree: usize) -> Vec<Move> {
        let n = 1 + self.rng.below(12);
        let mut out = vec![];
        let mut run = Move::Next;
        for _ in 0..n {
            let m = match self.rng.below(10) {
                0 => Move::First,
                1 => Move::Last,
                2..4 => Move::Seek(self.key(tree)),
                4..6 => Move::SeekBefore(self.key(tree)),
                6 => {
                    run = if run == Move::Next { Move::Prev } else { Move::Next };
                    run.clone()
                }
                _ => run.clone(),
            };
            out.push(m);
        }
        if self.rng.one_in(20) {
            out.extend(std::iter::repeat_n(run, 40));
        }
        out
    }

    fn ends(&mut self, kind: Kind) -> Ends {
        match kind {
            Kind::Backward | Kind::PrefixBack => Ends::Back,
            Kind::BothEnds | Kind::PrefixBoth => Ends::Both(self.rng.next_u64()),
            Kind::SnapshotScan if self.rng.one_in(2) => Ends::Back,
            _ => Ends::Front,
        }
    }

    fn limit(&mut self) -> usize {
        if self.rng.one_in(10) { usize::MAX } else { self.rng.below(40) as usize }
    }

    fn a_write(&mut self, tree: usize) -> Write {
        let key = self.key(tree);
        match self.rng.below(20) {
            0..4 => Write::Delete(key),
            4 => {
                let (a, b) = self.two_keys(tree);
                Write::DeleteRange(a, b)
            }
            5..10 if self.hooked[tree] => Write::Merge(key, self.value()),
            _ => Write::Put(key, self.value()),
        }
    }

    /// A snapshot to read at, half of the time, when there is one.
    fn maybe_at(&mut self) -> Option<usize> {
        if self.rng.one_in(2) { None } else { self.filled(|h| h.snapshots) }
    }

    fn filled(&mut self, of: fn(&History) -> [bool; SLOTS]) -> Option<usize> {
        let slots = of(self);
        let i = self.rng.below(SLOTS as u64) as usize;
        (0..SLOTS).map(|n| (i + n) % SLOTS).find(|&n| slots[n])
    }

    fn slot(&mut self) -> usize {
        self.rng.below(SLOTS as u64) as usize
    }

    /// The kind to draw instead where `kind` needs something that is not there.
    fn enabled(&mut self, kind: Kind) -> Kind {
        if !self.alive.contains(&true) {
            return Kind::CreateTree;
        }
        let no = |slots: [bool; SLOTS]| !slots.contains(&true);
        match kind {
            Kind::SnapshotGet | Kind::SnapshotScan | Kind::SnapshotWalk | Kind::DropSnapshot if no(self.snapshots) => {
                Kind::TakeSnapshot
            }
            Kind::StepIter | Kind::CloseIter if no(self.iters) => Kind::OpenIter,
            Kind::MoveCursor | Kind::CloseCursor if no(self.cursors) => Kind::OpenCursor,
            Kind::TxGet | Kind::TxScan | Kind::TxPut | Kind::TxDelete | Kind::Commit | Kind::Abort if no(self.transactions) => {
                Kind::Begin
            }
            Kind::CreateTree if !self.alive.contains(&false) => Kind::Put,
            k => k,
        }
    }

    fn close_all(&mut self) {
        (self.snapshots, self.iters) = ([false; SLOTS], [false; SLOTS]);
        (self.cursors, self.transactions) = ([false; SLOTS], [false; SLOTS]);
    }

    fn op(&mut self, kind: Kind) -> Op {
        use Kind as K;
        match kind {
            K::Put | K::PutLarge | K::PutPower | K::Delete | K::DeleteRange | K::Merge | K::Batch | K::BatchPower => {
                self.write_op(kind)
            }
            K::Begin | K::TxGet | K::TxScan | K::TxPut | K::TxDelete | K::Commit | K::Abort | K::Retry => self.tx_op(kind),
            K::OpenIter | K::StepIter | K::CloseIter | K::OpenCursor | K::MoveCursor | K::CloseCursor => self.open_op(kind),
            K::TakeSnapshot | K::DropSnapshot => self.snapshot_op(kind),
            K::Reopen | K::Crash | K::PowerCut | K::CreateTree | K::DropTree => self.life_op(kind),
            K::Sync => Op::Sync,
            K::WaitIdle => Op::WaitIdle,
            K::Checkpoint => Op::Checkpoint,
            K::ReadOnly => Op::ReadOnly,
            K::Stats => Op::Stats,
            K::Verify => Op::Verify,
            K::Advance => Op::Advance { seconds: 1 + self.rng.below(2000) },
            _ => {
                let tree = self.tree();
                self.read_op(kind, tree)
            }
        }
    }

    fn write_op(&mut self, kind: Kind) -> Op {
        let tree = if kind == Kind::Merge { self.merge_tree() } else { self.tree() };
        if matches!(kind, Kind::Batch | Kind::BatchPower) {
            let n = if self.rng.one_in(20) { 50 } else { 1 + self.rng.below(6) };
            let writes = (0..n).map(|_| {
                let t = self.tree();
                (t, self.a_write(t))
            });
            return Op::Batch { writes: writes.collect(), power: kind == Kind::BatchPower };
        }
        let key = self.key(tree);
        let write = match kind {
            Kind::PutLarge => Write::Put(key, self.large()),
            Kind::Delete => Write::Delete(key),
            Kind::DeleteRange => {
                let (a, b) = self.two_keys(tree);
                Write::DeleteRange(a, b)
            }
            Kind::Merge => Write::Merge(key, self.value()),
            _ => Write::Put(key, self.value()),
        };
        Op::Write { tree, write, power: kind == Kind::PutPower }
    }

    fn tx_op(&mut self, kind: Kind) -> Op {
        let tree = self.tree();
        let key = self.key(tree);
        let slot = self.filled(|h| h.transactions).unwrap_or(0);
        match kind {
            Kind::Begin => {
                let slot = self.slot();
                self.transactions[slot] = true;
                Op::Begin { slot }
            }
            Kind::TxGet => Op::TxGet { slot, tree, key },
            Kind::TxScan => Op::TxScan { slot, tree, span: self.span(tree) },
            Kind::TxPut => Op::TxPut { slot, tree, key, value: self.value() },
            Kind::TxDelete => Op::TxDelete { slot, tree, key },
            Kind::Retry => Op::Retry { tree, key, value: self.value(), disturb: self.rng.one_in(2) },
            _ => {
                self.transactions[slot] = false;
                if kind == Kind::Abort { Op::Abort { slot } } else { Op::Commit { slot, power: self.rng.one_in(20) } }
            }
        }
    }

    fn open_op(&mut self, kind: Kind) -> Op {
        let tree = self.tree();
        let (iter, cursor) = (self.filled(|h| h.iters).unwrap_or(0), self.filled(|h| h.cursors).unwrap_or(0));
        match kind {
            Kind::OpenIter => {
                let slot = self.slot();
                self.iters[slot] = true;
                Op::OpenIter { slot, tree, span: self.span(tree), at: self.maybe_at() }
            }
            Kind::StepIter => Op::StepIter { slot: iter, front: self.rng.below(6) as usize, back: self.rng.below(6) as usize },
            Kind::CloseIter => {
                self.iters[iter] = false;
                Op::CloseIter { slot: iter }
            }
            Kind::OpenCursor => {
                let slot = self.slot();
                self.cursors[slot] = true;
                Op::OpenCursor { slot, tree, span: self.span(tree), at: self.maybe_at() }
            }
            Kind::MoveCursor => Op::MoveCursor { slot: cursor, moves: self.moves(tree) },
            _ => {
                self.cursors[cursor] = false;
                Op::CloseCursor { slot: cursor }
            }
        }
    }

    fn snapshot_op(&mut self, kind: Kind) -> Op {
        if kind == Kind::TakeSnapshot {
            let slot = self.slot();
            self.snapshots[slot] = true;
            return Op::TakeSnapshot { slot };
        }
        let slot = self.filled(|h| h.snapshots).unwrap_or(0);
        self.snapshots[slot] = false;
        Op::DropSnapshot { slot }
    }

    fn life_op(&mut self, kind: Kind) -> Op {
        match kind {
            Kind::CreateTree => {
                let i = self.rng.below(TREES as u64) as usize;
                let tree = (0..TREES).map(|n| (i + n) % TREES).find(|&n| !self.alive[n]).unwrap_or(i);
                self.alive[tree] = true;
                Op::CreateTree { tree }
            }
            Kind::DropTree => {
                let tree = self.tree();
                self.alive[tree] = false;
                self.transactions = [false; SLOTS];
                Op::DropTree { tree }
            }
            _ => {
                self.close_all();
                match kind {
                    Kind::Reopen => Op::Reopen,
                    Kind::Crash => Op::Crash,
                    _ => Op::PowerCut { seed: if self.rng.one_in(2) { None } else { Some(self.rng.next_u64()) } },
                }
            }
        }
    }

    fn read_op(&mut self, kind: Kind, tree: usize) -> Op {
        let snapshot = self.filled(|h| h.snapshots);
        match kind {
            Kind::Get => Op::Get { tree, key: self.key(tree), at: None },
            Kind::SnapshotGet if self.rng.one_in(4) => Op::Contains { tree, key: self.key(tree), at: snapshot },
            Kind::SnapshotGet => Op::Get { tree, key: self.key(tree), at: snapshot },
            Kind::Contains => Op::Contains { tree, key: self.key(tree), at: None },
            Kind::MultiGet => {
                let n = self.rng.below(9);
                Op::MultiGet { tree, keys: (0..n).map(|_| self.key(tree)).collect() }
            }
            Kind::SnapshotScan if self.rng.one_in(4) => {
                let ends = self.ends(kind);
                Op::Prefix { tree, prefix: self.prefix(tree), ends, limit: self.limit(), at: snapshot }
            }
            Kind::Forward | Kind::Backward | Kind::BothEnds | Kind::SnapshotScan => {
                let at = if kind == Kind::SnapshotScan { snapshot } else { None };
                Op::Scan { tree, span: self.span(tree), ends: self.ends(kind), limit: self.limit(), at }
            }
            Kind::Prefix | Kind::PrefixBack | Kind::PrefixBoth => {
                let ends = self.ends(kind);
                Op::Prefix { tree, prefix: self.prefix(tree), ends, limit: self.limit(), at: None }
            }
            Kind::Walk => Op::Walk { tree, span: self.span(tree), moves: self.moves(tree), at: None },
            Kind::SnapshotWalk => Op::Walk { tree, span: self.span(tree), moves: self.moves(tree), at: snapshot },
            Kind::FullScan => Op::FullScan { tree },
            Kind::Flush => Op::Flush { tree },
            Kind::Compact => Op::Compact { tree },
            Kind::CompactRange => {
                let (from, to) = self.two_keys(tree);
                Op::CompactRange { tree, from, to }
            }
            Kind::ChangeOptions => Op::ChangeOptions { tree, variant: self.rng.below(64) as usize },
            Kind::Size => {
                let (from, to) = self.two_keys(tree);
                Op::Size { tree, from, to }
            }
            _ => Op::Refused { tree },
        }
    }
}

impl Iterator for History {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let mut n = self.rng.below(self.sum);
        let drawn = WEIGHTS.iter().find(|(_, w)| {
            let here = n < *w;
            n = n.saturating_sub(*w);
            here
        });
        let kind = self.enabled(drawn.map_or(Kind::Get, |(k, _)| *k));
        Some(Step { kind, op: self.op(kind) })
    }
}

/// A key as it is printed: escaped, long runs shortened.
fn show(key: &[u8]) -> String {
    if key.len() <= 24 {
        return format!("\"{}\"", key.escape_ascii());
    }
    format!("\"{}…{}\" ({} bytes)", key[..4].escape_ascii(), key[key.len() - 12..].escape_ascii(), key.len())
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Put(k, v) => write!(f, "Put({}, {} bytes, seed {})", show(k), v.len, v.seed),
            Write::Delete(k) => write!(f, "Delete({})", show(k)),
            Write::DeleteRange(a, b) => write!(f, "DeleteRange({}, {})", show(a), show(b)),
            Write::Merge(k, v) => write!(f, "Merge({}, {} bytes, seed {})", show(k), v.len, v.seed),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |b: &Bound<Key>| match b {
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

/// Takes steps out of a failing history as long as it still fails, in ever smaller chunks, with at most `tries` tries.
pub fn shrink(mut steps: Vec<Step>, tries: usize, mut fails: impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    let mut left = tries;
    let mut chunk = steps.len().div_ceil(2);
    while chunk > 0 && left > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at < steps.len() && left > 0 {
            let end = (at + chunk).min(steps.len());
            let rest: Vec<Step> = steps[..at].iter().chain(&steps[end..]).cloned().collect();
            left -= 1;
            if fails(&rest) {
                steps = rest;
                shorter = true;
            } else {
                at = end;
            }
        }
        if chunk == 1 && !shorter {
            break;
        }
        chunk = if chunk == 1 { 1 } else { chunk / 2 };
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_history_and_every_kind_occurs() {
        let steps: Vec<Step> = History::new(3, [false, false, true, true]).take(60_000).collect();
        assert!(steps.iter().eq(History::new(3, [false, false, true, true]).take(60_000).collect::<Vec<_>>().iter()));
        for (kind, _) in WEIGHTS {
            assert!(steps.iter().any(|s| s.kind == *kind), "{kind:?}");
        }
    }

    #[test]
    fn shrinking_keeps_what_fails() {
        let steps: Vec<Step> = History::new(5, [true; TREES]).take(500).collect();
        let bad = |s: &[Step]| {
            let flush = s.iter().position(|s| s.kind == Kind::DeleteRange);
            flush.is_some_and(|i| s[i..].iter().any(|s| s.kind == Kind::Merge))
        };
        let small = shrink(steps, 1000, bad);
        assert_eq!(small.iter().map(|s| s.kind).collect::<Vec<_>>(), [Kind::DeleteRange, Kind::Merge]);
    }

    #[test]
    fn spans_know_when_they_are_empty() {
        use Bound::*;
        let span = |from, to| Span { from, to };
        let k = |s: &str| s.as_bytes().to_vec();
        assert!(span(Excluded(k("a")), Excluded(k("a\0"))).is_empty());
        assert!(!span(Excluded(k("a")), Included(k("a\0"))).is_empty());
        assert!(!span(Included(k("a")), Included(k("a"))).is_empty());
        assert!(span(Included(k("b")), Excluded(k("a"))).is_empty() && span(Unbounded, Excluded(vec![])).is_empty());
        assert!(Span::all().contains(b"") && !span(Excluded(vec![]), Unbounded).contains(b""));
    }
}
