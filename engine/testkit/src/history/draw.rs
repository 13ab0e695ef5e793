//! Draws histories from seeds: the frequencies of steps, and their keys, ranges and values.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{
    Filler, HistoryEnds, HistoryKey, HistoryOp, LONGEST_KEY, Move, SLOTS, Span, Step,
    StepKind as K, TREES, WEIGHTS, Write,
};
use crate::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrawSpace {
    Tiny,
    Prefixed,
    Odd,
    Growing,
    Wide,
}

/// An endless history: take as many steps as needed.
pub struct History {
    rng: Rng,
    spaces: [DrawSpace; TREES],
    /// Whether each tree accepts operands.
    hooked: [bool; TREES],
    alive: [bool; TREES],
    /// Slots in use.
    open: OpenSlots,
    exports: [bool; SLOTS],
    grown: u64,
    sum: u64,
}

/// Slots that end when the store closes.
#[derive(Default)]
struct OpenSlots {
    snapshots: [bool; SLOTS],
    iters: [bool; SLOTS],
    cursors: [bool; SLOTS],
    transactions: [bool; SLOTS],
}

impl History {
    /// Creates the history of this seed. `hooked` says which trees accept merge operands. No tree
    /// exists at the start.
    pub fn new(seed: u64, hooked: [bool; TREES]) -> History {
        let mut rng = Rng::new(seed);
        let all = [
            DrawSpace::Tiny,
            DrawSpace::Prefixed,
            DrawSpace::Odd,
            DrawSpace::Growing,
            DrawSpace::Wide,
        ];
        let first = rng.below(5) as usize;
        let spaces = std::array::from_fn(|i| all[(first + i) % all.len()]);
        let sum = WEIGHTS.iter().map(|(_, w)| w).sum();
        History {
            rng,
            spaces,
            hooked,
            alive: [false; TREES],
            open: OpenSlots::default(),
            exports: [false; SLOTS],
            grown: 0,
            sum,
        }
    }

    fn key(&mut self, tree: usize) -> HistoryKey {
        let r = &mut self.rng;
        match self.spaces[tree] {
            DrawSpace::Tiny => format!("{:x}", r.below(40)).into_bytes(),
            DrawSpace::Prefixed => {
                let n = if r.one_in(2) { r.below(600) } else { 100 + r.below(20) };
                let mut k = vec![b'p'; 180];
                k.extend_from_slice(format!("{n:03}").as_bytes());
                k
            }
            DrawSpace::Odd => {
                if r.one_in(2000) {
                    // Includes lengths near the 16-bit limit: shorter lengths and shared prefixes
                    // are stored in 16 bits.
                    let len = r.choose(&[
                        65_534,
                        65_535,
                        65_536,
                        65_543,
                        LONGEST_KEY - 1,
                        LONGEST_KEY,
                        LONGEST_KEY,
                    ]);
                    return vec![
                        *r.choose(&[0, b'k', 0xff]).unwrap_or(&0);
                        *len.unwrap_or(&LONGEST_KEY)
                    ];
                }
                let len = if r.one_in(10) { r.below(11) } else { r.below(5) };
                (0..len)
                    .map(|_| *r.choose(&[0, 0, 1, b'a', 0xfe, 0xff, 0xff]).unwrap_or(&0))
                    .collect()
            }
            DrawSpace::Growing => {
                let back = if r.one_in(3) { r.below(800) } else { r.below(10) };
                if back < 4 {
                    self.grown += 1;
                }
                self.grown.saturating_sub(back).to_be_bytes().to_vec()
            }
            DrawSpace::Wide => {
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

    /// Draws two keys of a tree, mostly in order, and half of the time near each other.
    fn two_keys(&mut self, tree: usize) -> (HistoryKey, HistoryKey) {
        let a = self.key(tree);
        let b = match self.spaces[tree] {
            DrawSpace::Growing | DrawSpace::Prefixed if self.rng.one_in(2) => {
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

    fn prefix(&mut self, tree: usize) -> HistoryKey {
        let mut k = self.key(tree);
        let keep = match self.spaces[tree] {
            DrawSpace::Prefixed => 179 + self.rng.below(5),
            DrawSpace::Growing => 6 + self.rng.below(3),
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

    fn ends(&mut self, kind: K) -> HistoryEnds {
        match kind {
            K::Backward | K::PrefixBack => HistoryEnds::Back,
            K::BothEnds | K::PrefixBoth => HistoryEnds::Both(self.rng.next_u64()),
            K::SnapshotScan if self.rng.one_in(2) => HistoryEnds::Back,
            _ => HistoryEnds::Front,
        }
    }

    /// Draws a span to delete, sometimes without an end. A span that ends with the greatest key
    /// takes two operations, whose times cannot be predicted here. So no span ends with a key of
    /// maximum length, or is unbounded in trees with such keys.
    fn deleted_span(&mut self, tree: usize) -> Span {
        let (a, b) = self.two_keys(tree);
        let rare = self.rng.below(40);
        let from = match rare {
            0 => Bound::Unbounded,
            1..8 if a.len() < LONGEST_KEY => Bound::Excluded(a),
            _ => Bound::Included(a),
        };
        let to = match rare {
            1 if self.spaces[tree] != DrawSpace::Odd => Bound::Unbounded,
            8..20 if b.len() < LONGEST_KEY => Bound::Included(b),
            _ => Bound::Excluded(b),
        };
        Span { from, to }
    }

    fn limit(&mut self) -> usize {
        if self.rng.one_in(10) { usize::MAX } else { self.rng.below(40) as usize }
    }

    fn a_write(&mut self, tree: usize) -> Write {
        let key = self.key(tree);
        match self.rng.below(20) {
            0..4 => Write::Delete(key),
            4 => Write::DeleteRange(self.deleted_span(tree)),
            5..10 if self.hooked[tree] => Write::Merge(key, self.value()),
            _ => Write::Put(key, self.value()),
        }
    }

    /// Draws a snapshot to read at, half of the time, if there is one.
    fn maybe_at(&mut self) -> Option<usize> {
        if self.rng.one_in(2) { None } else { self.filled(|h| h.open.snapshots) }
    }

    fn filled(&mut self, of: fn(&History) -> [bool; SLOTS]) -> Option<usize> {
        let slots = of(self);
        let i = self.rng.below(SLOTS as u64) as usize;
        (0..SLOTS).map(|n| (i + n) % SLOTS).find(|&n| slots[n])
    }

    fn slot(&mut self) -> usize {
        self.rng.below(SLOTS as u64) as usize
    }

    /// Returns the step type to draw instead of `kind` if it requires missing state.
    fn enabled(&mut self, kind: K) -> K {
        if !self.alive.contains(&true) {
            return K::CreateTree;
        }
        let no = |slots: [bool; SLOTS]| !slots.contains(&true);
        match kind {
            K::SnapshotGet
            | K::SnapshotScan
            | K::SnapshotWalk
            | K::SnapshotEdges
            | K::DropSnapshot
                if no(self.open.snapshots) =>
            {
                K::TakeSnapshot
            }
            K::StepIter | K::CloseIter if no(self.open.iters) => K::OpenIter,
            K::MoveCursor | K::CloseCursor if no(self.open.cursors) => K::OpenCursor,
            K::TxGet
            | K::TxScan
            | K::TxPut
            | K::TxDelete
            | K::TxDeleteRange
            | K::Commit
            | K::Abort
                if no(self.open.transactions) =>
            {
                K::Begin
            }
            K::Import if no(self.exports) => K::Export,
            K::CreateTree if !self.alive.contains(&false) => K::Put,
            k => k,
        }
    }

    fn op(&mut self, kind: K) -> HistoryOp {
        match kind {
            K::Put
            | K::PutLarge
            | K::PutPower
            | K::Delete
            | K::DeleteRange
            | K::Merge
            | K::Batch
            | K::BatchPower => self.write_op(kind),
            K::Begin | K::TxGet | K::TxScan | K::TxPut | K::TxDelete | K::TxDeleteRange => {
                self.tx_op(kind)
            }
            K::Commit | K::Abort | K::Retry => self.tx_op(kind),
            K::Pop | K::InsertIfAbsent | K::Swap | K::Update | K::Clear => self.step_op(kind),
            K::OpenIter
            | K::StepIter
            | K::CloseIter
            | K::OpenCursor
            | K::MoveCursor
            | K::CloseCursor => self.open_op(kind),
            K::TakeSnapshot | K::TakeNamed | K::DropSnapshot => self.snapshot_op(kind),
            K::Ingest | K::Export | K::Import | K::DropRange => self.bulk_op(kind),
            K::Reopen | K::Crash | K::PowerCut | K::CreateTree | K::DropTree => self.life_op(kind),
            K::Sync => HistoryOp::Sync,
            K::WaitIdle => HistoryOp::WaitIdle,
            K::Checkpoint => HistoryOp::Checkpoint,
            K::ReadOnly => HistoryOp::ReadOnly,
            K::Stats => HistoryOp::Stats,
            K::Verify => HistoryOp::Verify,
            K::Advance => HistoryOp::Advance { seconds: 1 + self.rng.below(2000) },
            _ => {
                let tree = self.tree();
                self.read_op(kind, tree)
            }
        }
    }

    fn write_op(&mut self, kind: K) -> HistoryOp {
        let tree = if kind == K::Merge { self.merge_tree() } else { self.tree() };
        if matches!(kind, K::Batch | K::BatchPower) {
            let n = if self.rng.one_in(20) { 50 } else { 1 + self.rng.below(6) };
            let writes = (0..n).map(|_| {
                let t = self.tree();
                (t, self.a_write(t))
            });
            return HistoryOp::Batch { writes: writes.collect(), power: kind == K::BatchPower };
        }
        let key = self.key(tree);
        let write = match kind {
            K::PutLarge => Write::Put(key, self.large()),
            K::Delete => Write::Delete(key),
            K::DeleteRange => Write::DeleteRange(self.deleted_span(tree)),
            K::Merge => Write::Merge(key, self.value()),
            _ => Write::Put(key, self.value()),
        };
        HistoryOp::Write { tree, write, power: kind == K::PutPower }
    }

    /// Draws an atomic read-modify-write operation.
    fn step_op(&mut self, kind: K) -> HistoryOp {
        let tree = self.tree();
        let key = self.key(tree);
        let value = (!self.rng.one_in(4)).then(|| self.value());
        match kind {
            K::Clear if self.spaces[tree] != DrawSpace::Odd => HistoryOp::Clear { tree },
            K::InsertIfAbsent => HistoryOp::InsertIfAbsent { tree, key, value: self.value() },
            K::Swap => HistoryOp::Swap { tree, key, right: !self.rng.one_in(3), value },
            K::Update => HistoryOp::Update { tree, key, value },
            _ => HistoryOp::Pop { tree, back: self.rng.one_in(3) },
        }
    }

    fn tx_op(&mut self, kind: K) -> HistoryOp {
        let tree = self.tree();
        let key = self.key(tree);
        let slot = self.filled(|h| h.open.transactions).unwrap_or(0);
        match kind {
            K::Begin => {
                let slot = self.slot();
                self.open.transactions[slot] = true;
                HistoryOp::Begin { slot }
            }
            K::TxGet => HistoryOp::TxGet { slot, tree, key },
            K::TxScan => {
                let limit =
                    if self.rng.one_in(3) { usize::MAX } else { self.rng.below(5) as usize };
                HistoryOp::TxScan {
                    slot,
                    tree,
                    span: self.span(tree),
                    back: self.rng.one_in(3),
                    limit,
                }
            }
            K::TxPut => HistoryOp::TxPut { slot, tree, key, value: self.value() },
            K::TxDelete => HistoryOp::TxDelete { slot, tree, key },
            K::TxDeleteRange => {
                HistoryOp::TxDeleteRange { slot, tree, span: self.deleted_span(tree) }
            }
            K::Retry => {
                HistoryOp::Retry { tree, key, value: self.value(), disturb: self.rng.one_in(2) }
            }
            _ => {
                self.open.transactions[slot] = false;
                if kind == K::Abort {
                    HistoryOp::Abort { slot }
                } else {
                    HistoryOp::Commit { slot, power: self.rng.one_in(20) }
                }
            }
        }
    }

    fn open_op(&mut self, kind: K) -> HistoryOp {
        let tree = self.tree();
        let (iter, cursor) = (
            self.filled(|h| h.open.iters).unwrap_or(0),
            self.filled(|h| h.open.cursors).unwrap_or(0),
        );
        match kind {
            K::OpenIter => {
                let slot = self.slot();
                self.open.iters[slot] = true;
                HistoryOp::OpenIter { slot, tree, span: self.span(tree), at: self.maybe_at() }
            }
            K::StepIter => HistoryOp::StepIter {
                slot: iter,
                front: self.rng.below(6) as usize,
                back: self.rng.below(6) as usize,
            },
            K::CloseIter => {
                self.open.iters[iter] = false;
                HistoryOp::CloseIter { slot: iter }
            }
            K::OpenCursor => {
                let slot = self.slot();
                self.open.cursors[slot] = true;
                HistoryOp::OpenCursor { slot, tree, span: self.span(tree), at: self.maybe_at() }
            }
            K::MoveCursor => HistoryOp::MoveCursor { slot: cursor, moves: self.moves(tree) },
            _ => {
                self.open.cursors[cursor] = false;
                HistoryOp::CloseCursor { slot: cursor }
            }
        }
    }

    fn snapshot_op(&mut self, kind: K) -> HistoryOp {
        if kind != K::DropSnapshot {
            let slot = self.slot();
            self.open.snapshots[slot] = true;
            return HistoryOp::TakeSnapshot { slot, named: kind == K::TakeNamed };
        }
        let slot = self.filled(|h| h.open.snapshots).unwrap_or(0);
        self.open.snapshots[slot] = false;
        HistoryOp::DropSnapshot { slot }
    }

    fn bulk_op(&mut self, kind: K) -> HistoryOp {
        let tree = self.tree();
        match kind {
            K::Ingest => {
                // Sometimes none, or enough for several tables.
                let n = if self.rng.one_in(12) { 400 } else { self.rng.below(30) };
                let pairs: BTreeMap<HistoryKey, Filler> =
                    (0..n).map(|_| (self.key(tree), self.value())).collect();
                HistoryOp::Ingest { tree, pairs: pairs.into_iter().collect() }
            }
            K::Export => {
                let slot = self.slot();
                self.exports[slot] = true;
                HistoryOp::Export { slot, tree, span: self.span(tree) }
            }
            K::Import => HistoryOp::Import { slot: self.filled(|h| h.exports).unwrap_or(0), tree },
            _ => {
                let (from, to) = self.two_keys(tree);
                HistoryOp::DropRange { tree, from, to }
            }
        }
    }

    fn life_op(&mut self, kind: K) -> HistoryOp {
        match kind {
            K::CreateTree => {
                let i = self.rng.below(TREES as u64) as usize;
                let tree =
                    (0..TREES).map(|n| (i + n) % TREES).find(|&n| !self.alive[n]).unwrap_or(i);
                self.alive[tree] = true;
                HistoryOp::CreateTree { tree }
            }
            K::DropTree => {
                let tree = self.tree();
                self.alive[tree] = false;
                self.open.transactions = [false; SLOTS];
                HistoryOp::DropTree { tree }
            }
            _ => {
                self.open = OpenSlots::default();
                match kind {
                    K::Reopen => HistoryOp::Reopen,
                    K::Crash => HistoryOp::Crash,
                    _ => HistoryOp::PowerCut {
                        seed: if self.rng.one_in(2) { None } else { Some(self.rng.next_u64()) },
                    },
                }
            }
        }
    }

    fn read_op(&mut self, kind: K, tree: usize) -> HistoryOp {
        let snapshot = self.filled(|h| h.open.snapshots);
        match kind {
            K::Get => HistoryOp::Get { tree, key: self.key(tree), at: None },
            K::SnapshotGet if self.rng.one_in(4) => {
                HistoryOp::Contains { tree, key: self.key(tree), at: snapshot }
            }
            K::SnapshotGet => HistoryOp::Get { tree, key: self.key(tree), at: snapshot },
            K::Contains => HistoryOp::Contains { tree, key: self.key(tree), at: None },
            K::MultiGet => {
                let n = self.rng.below(9);
                HistoryOp::MultiGet { tree, keys: (0..n).map(|_| self.key(tree)).collect() }
            }
            K::SnapshotScan if self.rng.one_in(4) => {
                let ends = self.ends(kind);
                HistoryOp::Prefix {
                    tree,
                    prefix: self.prefix(tree),
                    ends,
                    limit: self.limit(),
                    at: snapshot,
                }
            }
            K::Forward | K::Backward | K::BothEnds | K::SnapshotScan => {
                let at = if kind == K::SnapshotScan { snapshot } else { None };
                HistoryOp::Scan {
                    tree,
                    span: self.span(tree),
                    ends: self.ends(kind),
                    limit: self.limit(),
                    at,
                }
            }
            K::Prefix | K::PrefixBack | K::PrefixBoth => {
                let ends = self.ends(kind);
                HistoryOp::Prefix {
                    tree,
                    prefix: self.prefix(tree),
                    ends,
                    limit: self.limit(),
                    at: None,
                }
            }
            K::Edges => HistoryOp::Edges { tree, at: None },
            K::SnapshotEdges => HistoryOp::Edges { tree, at: snapshot },
            K::Walk => {
                HistoryOp::Walk { tree, span: self.span(tree), moves: self.moves(tree), at: None }
            }
            K::SnapshotWalk => HistoryOp::Walk {
                tree,
                span: self.span(tree),
                moves: self.moves(tree),
                at: snapshot,
            },
            K::FullScan => HistoryOp::FullScan { tree },
            K::Flush => HistoryOp::Flush { tree },
            K::Compact => HistoryOp::Compact { tree },
            K::CompactRange => {
                let (from, to) = self.two_keys(tree);
                HistoryOp::CompactRange { tree, from, to }
            }
            K::ChangeOptions => HistoryOp::ChangeOptions { tree, variant: self.rng.below(64) },
            K::Size => {
                let (from, to) = self.two_keys(tree);
                HistoryOp::Size { tree, from, to }
            }
            K::Tables => HistoryOp::Tables { tree },
            _ => HistoryOp::Refused { tree },
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
        let kind = self.enabled(drawn.map_or(K::Get, |(k, _)| *k));
        Some(Step { kind, op: self.op(kind) })
    }
}
