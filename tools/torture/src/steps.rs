//! Steps of a thread. A step is computed only from the seed, the cycle, the thread and its number.
//! So the number in the journal identifies the last step of a killed thread.

use firn_workload::rng::{Rng, mix};

use super::expected::{ExpectedChange, ExpectedOp};
use super::layout::{COUNTS, LayoutVersion, PLAIN, ROLES, ROWS, SUMS, TREES, TWINS};
use super::roles::{RoleChange, any_role};

/// Mode of writing of a step. Those from `Row` on use CQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepMode {
    /// A call for a single key.
    Single,
    /// A call for a single key, durable across a power cut.
    SingleSynced,
    /// A batch.
    Batch,
    /// A batch, durable across a power cut.
    BatchSynced,
    /// A transaction that reads the keys that it writes.
    Transaction,
    /// An atomic read and write: `insert_if_absent`, `compare_and_swap` or `update`.
    OneStep,
    /// `delete_range`.
    DeleteRange,
    /// `drop_range`.
    DropRange,
    /// `ingest`.
    Ingest,
    /// `export` of a range, its deletion, and an `import`: the content is the same at the end.
    ExportImport,
    /// A row, by a statement.
    Row,
    /// A row, by `INSERT IF NOT EXISTS`.
    RowNew,
    /// Rows, by `BEGIN BATCH`.
    RowBatch,
    /// Rows, by a `DELETE` of a range.
    RowRange,
    /// A counter, by an `UPDATE`.
    Count,
    /// A role, by a statement about it.
    Role,
}

/// Operation of a step that does not change the content of its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OtherOp {
    /// A read of a tree.
    Read(ReadOp),
    /// An operation on the store or on a whole tree.
    Admin(AdminOp),
    /// A CQL statement, or a connection to the server.
    Cql(CqlOp),
    /// An operation on a temporary tree.
    Scratch(ScratchOp),
}

/// A read of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[rustfmt::skip]
pub enum ReadOp { Get, MultiGet, Range, RangeBack, Prefix, Cursor, Snapshot, Walk, Twins, Bank }

/// An operation on the store or on a whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[rustfmt::skip]
pub enum AdminOp {
    Transfer, Stats, Verify, Size, Sync, Flush, Compact, CompactRange, Options, Checkpoint, Changes, ReadOnly,
    RowCompact,
}

/// A CQL statement, or a connection to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[rustfmt::skip]
pub enum CqlOp { Rows, RowIndex, RowAlter, Guest, Login, Visitor }

/// An operation on a temporary tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[rustfmt::skip]
pub enum ScratchOp { Write, Ingest, Drop }

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TortureStep {
    /// Changes the content of the store.
    Write { how: StepMode, changes: Vec<ExpectedChange> },
    /// Runs another operation, with its own random numbers, on this tree and shard.
    Other { op: OtherOp, tree: usize, shard: u32, seed: u64 },
}

impl TortureStep {
    /// Returns its changes once it is done.
    pub fn done(&self) -> &[ExpectedChange] {
        match self {
            TortureStep::Write { how: StepMode::ExportImport, .. } => &[],
            step => step.open(),
        }
    }

    /// Returns the changes that it may have made, all or none, if it was not done.
    pub fn open(&self) -> &[ExpectedChange] {
        match self {
            TortureStep::Write { changes, .. } => changes,
            TortureStep::Other { .. } => &[],
        }
    }

    /// Returns its kind, for statistics. `served`: it ran through a server.
    pub fn kind(&self, served: bool) -> String {
        let through = if served { ", served" } else { "" };
        let name = match self {
            TortureStep::Write { how, .. } => format!("{how:?}"),
            TortureStep::Other { op: OtherOp::Read(op), .. } => format!("{op:?}"),
            TortureStep::Other { op: OtherOp::Admin(op), .. } => format!("{op:?}"),
            TortureStep::Other { op: OtherOp::Cql(op), .. } => format!("{op:?}"),
            TortureStep::Other { op: OtherOp::Scratch(op), .. } => format!("Scratch{op:?}"),
        };
        name + through
    }

    /// Reports whether it uses CQL, so that it may run through a server.
    fn is_cql(&self) -> bool {
        match self {
            TortureStep::Write { how, .. } => *how >= StepMode::Row,
            TortureStep::Other { op, .. } => matches!(op, OtherOp::Cql(_)),
        }
    }
}

/// Parameters from which steps are drawn.
#[derive(Clone, Copy, Debug)]
pub struct StepSpace {
    /// Seed of the whole run.
    pub seed: u64,
    /// Number of the cycle.
    pub cycle: u64,
    /// Number of threads of the cycle.
    pub threads: u64,
    /// Number of shards.
    pub shards: u32,
    /// Maximum number of keys of a shard in a tree.
    pub keys: u32,
    /// Whether the cycle has a server.
    pub served: bool,
}

#[rustfmt::skip]
const WRITES: [(StepMode, u64); 16] = [
    (StepMode::Single, 5000), (StepMode::SingleSynced, 20), (StepMode::Batch, 900), (StepMode::BatchSynced, 5),
    (StepMode::Transaction, 150), (StepMode::OneStep, 200), (StepMode::DeleteRange, 60), (StepMode::DropRange, 3),
    (StepMode::Ingest, 8), (StepMode::ExportImport, 2), (StepMode::Row, 600), (StepMode::RowNew, 60),
    (StepMode::RowBatch, 60), (StepMode::RowRange, 20), (StepMode::Count, 200), (StepMode::Role, 30),
];

#[rustfmt::skip]
const OTHERS: [(OtherOp, u64); 32] = [
    (OtherOp::Read(ReadOp::Get), 2000), (OtherOp::Read(ReadOp::MultiGet), 200), (OtherOp::Read(ReadOp::Range), 120),
    (OtherOp::Read(ReadOp::RangeBack), 80), (OtherOp::Read(ReadOp::Prefix), 40), (OtherOp::Read(ReadOp::Cursor), 60),
    (OtherOp::Read(ReadOp::Snapshot), 60), (OtherOp::Read(ReadOp::Walk), 20), (OtherOp::Read(ReadOp::Twins), 40),
    (OtherOp::Admin(AdminOp::Transfer), 400), (OtherOp::Read(ReadOp::Bank), 20),
    (OtherOp::Admin(AdminOp::Stats), 10), (OtherOp::Admin(AdminOp::Verify), 1), (OtherOp::Admin(AdminOp::Size), 20),
    (OtherOp::Admin(AdminOp::Sync), 5), (OtherOp::Admin(AdminOp::Flush), 6), (OtherOp::Admin(AdminOp::Compact), 1),
    (OtherOp::Admin(AdminOp::CompactRange), 3), (OtherOp::Admin(AdminOp::Options), 3),
    (OtherOp::Admin(AdminOp::Checkpoint), 2), (OtherOp::Admin(AdminOp::Changes), 10),
    (OtherOp::Admin(AdminOp::ReadOnly), 2), (OtherOp::Scratch(ScratchOp::Write), 200),
    (OtherOp::Scratch(ScratchOp::Ingest), 16), (OtherOp::Scratch(ScratchOp::Drop), 12),
    (OtherOp::Cql(CqlOp::Rows), 60), (OtherOp::Cql(CqlOp::RowIndex), 60), (OtherOp::Admin(AdminOp::RowCompact), 3),
    (OtherOp::Cql(CqlOp::RowAlter), 1), (OtherOp::Cql(CqlOp::Guest), 60), (OtherOp::Cql(CqlOp::Login), 15),
    (OtherOp::Cql(CqlOp::Visitor), 15),
];

fn pick<T: Copy>(weights: &[(T, u64)], mut n: u64) -> Option<T> {
    for (what, weight) in weights {
        if n < *weight {
            return Some(*what);
        }
        n -= weight;
    }
    None
}

impl StepSpace {
    /// Returns the step of this number of a thread.
    pub fn step(&self, thread: u64, number: u64) -> TortureStep {
        let mut rng = Rng::new(mix(self.seed ^ mix(self.cycle)) ^ thread << 48, number);
        let own = (u64::from(self.shards) - thread).div_ceil(self.threads);
        let shard = (thread + rng.below(own) * self.threads) as u32;
        let writes: u64 = WRITES.iter().map(|w| w.1).sum();
        let others: u64 = OTHERS.iter().map(|w| w.1).sum();
        let n = rng.below(writes + others);
        if let Some(how) = pick(&WRITES, n) {
            let version = LayoutVersion::new(self.cycle, thread, number);
            return TortureStep::Write {
                how,
                changes: self.changes(how, &mut rng, shard, version),
            };
        }
        // A number beyond the weights of the writes selects another operation.
        let op = pick(&OTHERS, n - writes).unwrap_or(OtherOp::Read(ReadOp::Get));
        TortureStep::Other { op, tree: rng.below(TREES as u64) as usize, shard, seed: rng.bits() }
    }

    /// Reports whether a step of this number runs through the server of the cycle. Most CQL steps
    /// do; the others run within the process at the same time.
    pub fn is_served(&self, step: &TortureStep, number: u64) -> bool {
        self.served && step.is_cql() && !number.is_multiple_of(4)
    }

    /// Draws a key. Most draws select hot keys, so that keys are overwritten often.
    pub fn index(&self, rng: &mut Rng) -> u32 {
        let keys = u64::from(self.keys);
        (if rng.below(4) == 0 { rng.below(keys) } else { rng.below(keys.div_ceil(8)) }) as u32
    }

    /// Draws a range of keys, mostly a short one.
    pub fn span(&self, rng: &mut Rng) -> (u32, u32) {
        let from = self.index(rng);
        let most = match rng.below(16) {
            0 => self.keys,
            1..4 => self.keys.div_ceil(16),
            _ => 12,
        };
        (from, from + rng.below(u64::from(most)) as u32 + 1)
    }

    fn single(
        &self,
        rng: &mut Rng,
        tree: usize,
        shard: u32,
        version: LayoutVersion,
    ) -> ExpectedChange {
        let index = self.index(rng);
        let op = match rng.below(10) {
            0..3 => ExpectedOp::Unset { index },
            3..9 if tree == SUMS => ExpectedOp::Add { index, by: rng.bits() >> 50 },
            _ => ExpectedOp::Set { index, version: version.0 },
        };
        ExpectedChange { tree, shard, op }
    }

    fn changes(
        &self,
        how: StepMode,
        rng: &mut Rng,
        shard: u32,
        version: LayoutVersion,
    ) -> Vec<ExpectedChange> {
        let single = [PLAIN[0], PLAIN[1], SUMS];
        let tree = single[rng.below(3) as usize];
        let plain = PLAIN[rng.below(2) as usize];
        let change = |tree, op| ExpectedChange { tree, shard, op };
        let LayoutVersion(number) = version;
        match how {
            StepMode::Row => vec![self.single(rng, ROWS, shard, version)],
            StepMode::RowNew => {
                let index = self.index(rng);
                vec![change(ROWS, ExpectedOp::SetNew { index, version: number })]
            }
            StepMode::RowBatch => {
                // Two changes of one row in one batch have the same timestamp, so their order would
                // not decide.
                let mut indexes: Vec<u32> =
                    (0..2 + rng.below(20)).map(|_| self.index(rng)).collect();
                indexes.sort_unstable();
                indexes.dedup();
                let op = |index| match rng.below(4) {
                    0 => ExpectedOp::Unset { index },
                    _ => ExpectedOp::Set { index, version: number },
                };
                indexes.into_iter().map(op).map(|op| change(ROWS, op)).collect()
            }
            StepMode::RowRange => vec![change(ROWS, self.range(rng))],
            StepMode::Role => {
                let index = any_role(rng);
                vec![change(
                    ROLES,
                    ExpectedOp::Role { index, change: RoleChange::draw(rng, index) },
                )]
            }
            StepMode::OneStep => vec![self.single(rng, plain, shard, version)],
            StepMode::Count => {
                let index = self.index(rng);
                vec![change(COUNTS, ExpectedOp::Add { index, by: rng.bits() >> 50 })]
            }
            StepMode::Single | StepMode::SingleSynced => {
                vec![self.single(rng, tree, shard, version)]
            }
            StepMode::Batch | StepMode::BatchSynced | StepMode::Transaction => {
                let is_transaction = how == StepMode::Transaction;
                let most = if rng.below(50) == 0 { 300 } else { 12 };
                let mut changes = vec![];
                for _ in 0..1 + rng.below(most) {
                    match rng.below(if is_transaction { 2 } else { 3 }) {
                        0 => {
                            let mut single = self.single(rng, tree, shard, version);
                            // Transactions have no merge operands.
                            if is_transaction && let ExpectedOp::Add { index, .. } = single.op {
                                single.op = ExpectedOp::Set { index, version: number };
                            }
                            changes.push(single);
                        }
                        1 => changes.extend(twins(self.single(rng, TWINS[0], shard, version))),
                        _ if rng.below(8) == 0 => {
                            changes.extend(twins(change(TWINS[0], self.range(rng))));
                        }
                        _ => changes.push(self.single(rng, plain, shard, version)),
                    }
                }
                changes
            }
            StepMode::DeleteRange | StepMode::DropRange => vec![change(tree, self.range(rng))],
            StepMode::Ingest => {
                let step = 1 + rng.below(5) as u32;
                let (from, count) = (self.index(rng), rng.below(200) as u32);
                let indexes = (0..count).map(|i| from + i * step).filter(|i| *i < self.keys);
                let op = |index| change(plain, ExpectedOp::Set { index, version: number });
                indexes.map(op).collect()
            }
            StepMode::ExportImport => vec![change(plain, self.range(rng))],
        }
    }

    /// Draws the removal of a range of keys.
    fn range(&self, rng: &mut Rng) -> ExpectedOp {
        let (from, to) = self.span(rng);
        ExpectedOp::UnsetRange { from, to }
    }
}

/// Returns a change of the first twin tree, preceded by the same one of the other.
fn twins(change: ExpectedChange) -> [ExpectedChange; 2] {
    [ExpectedChange { tree: TWINS[1], ..change }, change]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn steps_repeat_keep_to_their_shards_and_cover_everything() {
        let space =
            StepSpace { seed: 5, cycle: 2, threads: 3, shards: 16, keys: 100, served: true };
        let (mut hows, mut others) = (BTreeSet::new(), BTreeSet::new());
        for number in 0..40_000 {
            let thread = number % 3;
            let step = space.step(thread, number);
            assert_eq!(step, space.step(thread, number));
            match step {
                TortureStep::Write { how, changes } => {
                    hows.insert(how);
                    assert!(
                        changes.iter().all(|c| c.shard < 16 && u64::from(c.shard) % 3 == thread)
                    );
                }
                TortureStep::Other { op, shard, .. } => {
                    others.insert(op);
                    assert!(shard < 16 && u64::from(shard) % 3 == thread);
                }
            }
        }
        assert_eq!((hows.len(), others.len()), (WRITES.len(), OTHERS.len()));
    }
}
