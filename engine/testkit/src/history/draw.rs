//! Draws histories from seeds: how often each kind of step comes, and with which keys, ranges and
//! values.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{
    Ends, Filler, Key, Kind, LONGEST_KEY, Move, Op, SLOTS, Span, Step, TREES, WEIGHTS, Write,
};
use crate::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    exports: [bool; SLOTS],
    grown: u64,
    sum: u64,
}

impl History {
    /// The history of this seed. `hooked` says which trees take merge operands. No tree is there at
    /// the start.
    pub fn new(seed: u64, hooked: [bool; TREES]) -> History {
        let mut rng = Rng::new(seed);
        let all = [Space::Tiny, Space::Prefixed, Space::Odd, Space::Growing, Space::Wide];
        let first = rng.below(5) as usize;
        let spaces = std::array::from_fn(|i| all[(first + i) % all.len()]);
        let sum = WEIGHTS.iter().map(|(_, w)| w).sum();
        let no = [false; SLOTS];
        let alive = [false; TREES];
        let (snapshots, iters, cursors, transactions, exports) = (no, no, no, no, no);
        History {
            rng,
            spaces,
            hooked,
            alive,
            snapshots,
            iters,
            cursors,
            transactions,
            exports,
            grown: 0,
            sum,
        }
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
                    // About where 16 bits end, too: shorter lengths and shared prefixes are kept in
                    // so many.
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

    /// A span to be deleted: one without an end only now and then. What ends with the greatest key
    /// of all takes two operations, for which nobody here could tell the time: so none ends with
    /// one of the greatest length, or has no end where such keys are drawn.
    fn deleted_span(&mut self, tree: usize) -> Span {
        let (a, b) = self.two_keys(tree);
        let rare = self.rng.below(40);
        let from = match rare {
            0 => Bound::Unbounded,
            1..8 if a.len() < LONGEST_KEY => Bound::Excluded(a),
            _ => Bound::Included(a),
        };
        let to = match rare {
            1 if self.spaces[tree] != Space::Odd => Bound::Unbounded,
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
            Kind::SnapshotGet
            | Kind::SnapshotScan
            | Kind::SnapshotWalk
            | Kind::SnapshotEdges
            | Kind::DropSnapshot
                if no(self.snapshots) =>
            {
                Kind::TakeSnapshot
            }
            Kind::StepIter | Kind::CloseIter if no(self.iters) => Kind::OpenIter,
            Kind::MoveCursor | Kind::CloseCursor if no(self.cursors) => Kind::OpenCursor,
            Kind::TxGet
            | Kind::TxScan
            | Kind::TxPut
            | Kind::TxDelete
            | Kind::TxDeleteRange
            | Kind::Commit
            | Kind::Abort
                if no(self.transactions) =>
            {
                Kind::Begin
            }
            Kind::Import if no(self.exports) => Kind::Export,
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
            Kind::DeleteRange => Write::DeleteRange(self.deleted_span(tree)),
            Kind::Merge => Write::Merge(key, self.value()),
            _ => Write::Put(key, self.value()),
        };
        Op::Write { tree, write, power: kind == Kind::PutPower }
    }

    /// What reads and writes as one step.
    fn step_op(&mut self, kind: Kind) -> Op {
        let tree = self.tree();
        let key = self.key(tree);
        let value = (!self.rng.one_in(4)).then(|| self.value());
        match kind {
            Kind::Clear if self.spaces[tree] != Space::Odd => Op::Clear { tree },
            Kind::InsertIfAbsent => Op::InsertIfAbsent { tree, key, value: self.value() },
            Kind::Swap => Op::Swap { tree, key, right: !self.rng.one_in(3), value },
            Kind::Update => Op::Update { tree, key, value },
            _ => Op::Pop { tree, back: self.rng.one_in(3) },
        }
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
            Kind::TxScan => {
                let limit =
                    if self.rng.one_in(3) { usize::MAX } else { self.rng.below(5) as usize };
                Op::TxScan { slot, tree, span: self.span(tree), back: self.rng.one_in(3), limit }
            }
            Kind::TxPut => Op::TxPut { slot, tree, key, value: self.value() },
            Kind::TxDelete => Op::TxDelete { slot, tree, key },
            Kind::TxDeleteRange => Op::TxDeleteRange { slot, tree, span: self.deleted_span(tree) },
            Kind::Retry => {
                Op::Retry { tree, key, value: self.value(), disturb: self.rng.one_in(2) }
            }
            _ => {
                self.transactions[slot] = false;
                if kind == Kind::Abort {
                    Op::Abort { slot }
                } else {
                    Op::Commit { slot, power: self.rng.one_in(20) }
                }
            }
        }
    }

    fn open_op(&mut self, kind: Kind) -> Op {
        let tree = self.tree();
        let (iter, cursor) =
            (self.filled(|h| h.iters).unwrap_or(0), self.filled(|h| h.cursors).unwrap_or(0));
        match kind {
            Kind::OpenIter => {
                let slot = self.slot();
                self.iters[slot] = true;
                Op::OpenIter { slot, tree, span: self.span(tree), at: self.maybe_at() }
            }
            Kind::StepIter => Op::StepIter {
                slot: iter,
                front: self.rng.below(6) as usize,
                back: self.rng.below(6) as usize,
            },
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
        if kind != Kind::DropSnapshot {
            let slot = self.slot();
            self.snapshots[slot] = true;
            return Op::TakeSnapshot { slot, named: kind == Kind::TakeNamed };
        }
        let slot = self.filled(|h| h.snapshots).unwrap_or(0);
        self.snapshots[slot] = false;
        Op::DropSnapshot { slot }
    }

    fn bulk_op(&mut self, kind: Kind) -> Op {
        let tree = self.tree();
        match kind {
            Kind::Ingest => {
                // Now and then none, or enough for several tables.
                let n = if self.rng.one_in(12) { 400 } else { self.rng.below(30) };
                let pairs: BTreeMap<Key, Filler> =
                    (0..n).map(|_| (self.key(tree), self.value())).collect();
                Op::Ingest { tree, pairs: pairs.into_iter().collect() }
            }
            Kind::Export => {
                let slot = self.slot();
                self.exports[slot] = true;
                Op::Export { slot, tree, span: self.span(tree) }
            }
            Kind::Import => Op::Import { slot: self.filled(|h| h.exports).unwrap_or(0), tree },
            _ => {
                let (from, to) = self.two_keys(tree);
                Op::DropRange { tree, from, to }
            }
        }
    }

    fn life_op(&mut self, kind: Kind) -> Op {
        match kind {
            Kind::CreateTree => {
                let i = self.rng.below(TREES as u64) as usize;
                let tree =
                    (0..TREES).map(|n| (i + n) % TREES).find(|&n| !self.alive[n]).unwrap_or(i);
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
                    _ => Op::PowerCut {
                        seed: if self.rng.one_in(2) { None } else { Some(self.rng.next_u64()) },
                    },
                }
            }
        }
    }

    fn read_op(&mut self, kind: Kind, tree: usize) -> Op {
        let snapshot = self.filled(|h| h.snapshots);
        match kind {
            Kind::Get => Op::Get { tree, key: self.key(tree), at: None },
            Kind::SnapshotGet if self.rng.one_in(4) => {
                Op::Contains { tree, key: self.key(tree), at: snapshot }
            }
            Kind::SnapshotGet => Op::Get { tree, key: self.key(tree), at: snapshot },
            Kind::Contains => Op::Contains { tree, key: self.key(tree), at: None },
            Kind::MultiGet => {
                let n = self.rng.below(9);
                Op::MultiGet { tree, keys: (0..n).map(|_| self.key(tree)).collect() }
            }
            Kind::SnapshotScan if self.rng.one_in(4) => {
                let ends = self.ends(kind);
                Op::Prefix {
                    tree,
                    prefix: self.prefix(tree),
                    ends,
                    limit: self.limit(),
                    at: snapshot,
                }
            }
            Kind::Forward | Kind::Backward | Kind::BothEnds | Kind::SnapshotScan => {
                let at = if kind == Kind::SnapshotScan { snapshot } else { None };
                Op::Scan {
                    tree,
                    span: self.span(tree),
                    ends: self.ends(kind),
                    limit: self.limit(),
                    at,
                }
            }
            Kind::Prefix | Kind::PrefixBack | Kind::PrefixBoth => {
                let ends = self.ends(kind);
                Op::Prefix { tree, prefix: self.prefix(tree), ends, limit: self.limit(), at: None }
            }
            Kind::Edges => Op::Edges { tree, at: None },
            Kind::SnapshotEdges => Op::Edges { tree, at: snapshot },
            Kind::Walk => {
                Op::Walk { tree, span: self.span(tree), moves: self.moves(tree), at: None }
            }
            Kind::SnapshotWalk => {
                Op::Walk { tree, span: self.span(tree), moves: self.moves(tree), at: snapshot }
            }
            Kind::FullScan => Op::FullScan { tree },
            Kind::Flush => Op::Flush { tree },
            Kind::Compact => Op::Compact { tree },
            Kind::CompactRange => {
                let (from, to) = self.two_keys(tree);
                Op::CompactRange { tree, from, to }
            }
            Kind::ChangeOptions => Op::ChangeOptions { tree, variant: self.rng.below(64) },
            Kind::Size => {
                let (from, to) = self.two_keys(tree);
                Op::Size { tree, from, to }
            }
            Kind::Tables => Op::Tables { tree },
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
