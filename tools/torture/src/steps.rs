//! Steps of a thread. A step is computed only from the seed, the cycle, the thread and its number.
//! So the number in the journal identifies the last step of a killed thread.

use firn_workload::rng::{Rng, mix};

use super::expected::ExpectedChange;
use super::layout::{COUNTS, LayoutVersion, PLAIN, ROWS, SUMS, TREES, TWINS};
use super::roles::{RoleChange, any_role};

/// Mode of writing of a step.
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
pub enum TortureLook {
    Get,
    MultiGet,
    Range,
    RangeBack,
    Prefix,
    Cursor,
    Snapshot,
    Walk,
    Twins,
    Transfer,
    Bank,
    Stats,
    Verify,
    Size,
    Sync,
    Flush,
    Compact,
    CompactRange,
    Options,
    Checkpoint,
    Changes,
    ReadOnly,
    ScratchWrite,
    ScratchIngest,
    ScratchDrop,
    Rows,
    RowIndex,
    RowCompact,
    RowAlter,
    Guest,
    Login,
    Visitor,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TortureStep {
    /// Changes the content of the store.
    Write { how: StepMode, changes: Vec<ExpectedChange> },
    /// Runs another operation, with its own random numbers, on this tree and shard.
    Look { look: TortureLook, tree: usize, shard: u32, draw: u64 },
}

impl TortureStep {
    /// Returns its changes once it is done.
    pub fn done(&self) -> &[ExpectedChange] {
        match self {
            TortureStep::Write { how: StepMode::ExportImport, .. } | TortureStep::Look { .. } => {
                &[]
            }
            TortureStep::Write { changes, .. } => changes,
        }
    }

    /// Returns the changes that it may have made, all or none, if it was not done.
    pub fn open(&self) -> &[ExpectedChange] {
        match self {
            TortureStep::Write { changes, .. } => changes,
            TortureStep::Look { .. } => &[],
        }
    }

    /// Returns its kind, for statistics. `served`: it ran through a server.
    pub fn kind(&self, served: bool) -> String {
        let through = if served { ", served" } else { "" };
        match self {
            TortureStep::Write { how, .. } => format!("{how:?}{through}"),
            TortureStep::Look { look, .. } => format!("{look:?}{through}"),
        }
    }

    /// Reports whether it uses CQL, so that it may run through a server.
    fn is_cql(&self) -> bool {
        match self {
            TortureStep::Write { how, .. } => matches!(
                how,
                StepMode::Row
                    | StepMode::RowNew
                    | StepMode::RowBatch
                    | StepMode::RowRange
                    | StepMode::Count
                    | StepMode::Role
            ),
            TortureStep::Look { look, .. } => matches!(
                look,
                TortureLook::Rows
                    | TortureLook::RowIndex
                    | TortureLook::RowAlter
                    | TortureLook::Guest
                    | TortureLook::Login
                    | TortureLook::Visitor
            ),
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

const WRITES: [(StepMode, u64); 16] = [
    (StepMode::Single, 5000),
    (StepMode::SingleSynced, 20),
    (StepMode::Batch, 900),
    (StepMode::BatchSynced, 5),
    (StepMode::Transaction, 150),
    (StepMode::OneStep, 200),
    (StepMode::DeleteRange, 60),
    (StepMode::DropRange, 3),
    (StepMode::Ingest, 8),
    (StepMode::ExportImport, 2),
    (StepMode::Row, 600),
    (StepMode::RowNew, 60),
    (StepMode::RowBatch, 60),
    (StepMode::RowRange, 20),
    (StepMode::Count, 200),
    (StepMode::Role, 30),
];

const LOOKS: [(TortureLook, u64); 32] = [
    (TortureLook::Get, 2000),
    (TortureLook::MultiGet, 200),
    (TortureLook::Range, 120),
    (TortureLook::RangeBack, 80),
    (TortureLook::Prefix, 40),
    (TortureLook::Cursor, 60),
    (TortureLook::Snapshot, 60),
    (TortureLook::Walk, 20),
    (TortureLook::Twins, 40),
    (TortureLook::Transfer, 400),
    (TortureLook::Bank, 20),
    (TortureLook::Stats, 10),
    (TortureLook::Verify, 1),
    (TortureLook::Size, 20),
    (TortureLook::Sync, 5),
    (TortureLook::Flush, 6),
    (TortureLook::Compact, 1),
    (TortureLook::CompactRange, 3),
    (TortureLook::Options, 3),
    (TortureLook::Checkpoint, 2),
    (TortureLook::Changes, 10),
    (TortureLook::ReadOnly, 2),
    (TortureLook::ScratchWrite, 200),
    (TortureLook::ScratchIngest, 16),
    (TortureLook::ScratchDrop, 12),
    (TortureLook::Rows, 60),
    (TortureLook::RowIndex, 60),
    (TortureLook::RowCompact, 3),
    (TortureLook::RowAlter, 1),
    (TortureLook::Guest, 60),
    (TortureLook::Login, 15),
    (TortureLook::Visitor, 15),
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
        let looks: u64 = LOOKS.iter().map(|w| w.1).sum();
        let n = rng.below(writes + looks);
        if let Some(how) = pick(&WRITES, n) {
            let version = LayoutVersion::new(self.cycle, thread, number);
            return TortureStep::Write {
                how,
                changes: self.changes(how, &mut rng, shard, version),
            };
        }
        // A number beyond the weights of the writes selects one of the looks.
        let look = pick(&LOOKS, n - writes).unwrap_or(TortureLook::Get);
        TortureStep::Look { look, tree: rng.below(TREES as u64) as usize, shard, draw: rng.bits() }
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
        match rng.below(10) {
            0..3 => ExpectedChange::Unset { tree, shard, index },
            3..9 if tree == SUMS => {
                ExpectedChange::Add { tree, shard, index, by: rng.bits() >> 50 }
            }
            _ => ExpectedChange::Set { tree, shard, index, version: version.0 },
        }
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
        match how {
            StepMode::Row => vec![self.single(rng, ROWS, shard, version)],
            StepMode::RowNew => {
                vec![ExpectedChange::SetNew { shard, index: self.index(rng), version: version.0 }]
            }
            StepMode::RowBatch => {
                // Two changes of one row in one batch have the same timestamp, so their order would
                // not decide.
                let mut indexes: Vec<u32> =
                    (0..2 + rng.below(20)).map(|_| self.index(rng)).collect();
                indexes.sort_unstable();
                indexes.dedup();
                let change = |index| match rng.below(4) {
                    0 => ExpectedChange::Unset { tree: ROWS, shard, index },
                    _ => ExpectedChange::Set { tree: ROWS, shard, index, version: version.0 },
                };
                indexes.into_iter().map(change).collect()
            }
            StepMode::RowRange => {
                let (from, to) = self.span(rng);
                vec![ExpectedChange::UnsetRange { tree: ROWS, shard, from, to }]
            }
            StepMode::Role => {
                let index = any_role(rng);
                let change = RoleChange::draw(rng, index);
                vec![ExpectedChange::Role { shard, index, change }]
            }
            StepMode::OneStep => vec![self.single(rng, plain, shard, version)],
            StepMode::Count => vec![ExpectedChange::Add {
                tree: COUNTS,
                shard,
                index: self.index(rng),
                by: rng.bits() >> 50,
            }],
            StepMode::Single | StepMode::SingleSynced => {
                vec![self.single(rng, tree, shard, version)]
            }
            StepMode::Batch | StepMode::BatchSynced | StepMode::Transaction => {
                let most = if rng.below(50) == 0 { 300 } else { 12 };
                let mut changes = vec![];
                for _ in 0..1 + rng.below(most) {
                    match rng.below(if how == StepMode::Transaction { 2 } else { 3 }) {
                        // Transactions have no merge operands.
                        0 => match self.single(rng, tree, shard, version) {
                            ExpectedChange::Add { shard, index, .. }
                                if how == StepMode::Transaction =>
                            {
                                changes.push(ExpectedChange::Set {
                                    tree,
                                    shard,
                                    index,
                                    version: version.0,
                                });
                            }
                            change => changes.push(change),
                        },
                        1 => {
                            let change = self.single(rng, TWINS[0], shard, version);
                            changes.push(twin(&change));
                            changes.push(change);
                        }
                        _ if rng.below(8) == 0 => {
                            let (from, to) = self.span(rng);
                            let change =
                                ExpectedChange::UnsetRange { tree: TWINS[0], shard, from, to };
                            changes.push(twin(&change));
                            changes.push(change);
                        }
                        _ => changes.push(self.single(rng, plain, shard, version)),
                    }
                }
                changes
            }
            StepMode::DeleteRange | StepMode::DropRange => {
                let (from, to) = self.span(rng);
                vec![ExpectedChange::UnsetRange { tree, shard, from, to }]
            }
            StepMode::Ingest => {
                let step = 1 + rng.below(5) as u32;
                let (from, count) = (self.index(rng), rng.below(200) as u32);
                (0..count)
                    .map(|i| from + i * step)
                    .filter(|i| *i < self.keys)
                    .map(|index| ExpectedChange::Set {
                        tree: plain,
                        shard,
                        index,
                        version: version.0,
                    })
                    .collect()
            }
            StepMode::ExportImport => {
                let (from, to) = self.span(rng);
                vec![ExpectedChange::UnsetRange { tree: plain, shard, from, to }]
            }
        }
    }
}

/// Returns the same change in the other twin tree.
fn twin(change: &ExpectedChange) -> ExpectedChange {
    let mut other = change.clone();
    if let ExpectedChange::Set { tree, .. }
    | ExpectedChange::Unset { tree, .. }
    | ExpectedChange::UnsetRange { tree, .. } = &mut other
    {
        *tree = TWINS[1];
    }
    other
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn steps_repeat_keep_to_their_shards_and_cover_everything() {
        let space =
            StepSpace { seed: 5, cycle: 2, threads: 3, shards: 16, keys: 100, served: true };
        let (mut hows, mut looks) = (BTreeSet::new(), BTreeSet::new());
        for number in 0..40_000 {
            let thread = number % 3;
            let step = space.step(thread, number);
            assert_eq!(step, space.step(thread, number));
            match step {
                TortureStep::Write { how, changes } => {
                    hows.insert(how);
                    assert!(
                        changes
                            .iter()
                            .all(|c| c.shard() < 16 && u64::from(c.shard()) % 3 == thread)
                    );
                }
                TortureStep::Look { look, shard, .. } => {
                    looks.insert(look);
                    assert!(shard < 16 && u64::from(shard) % 3 == thread);
                }
            }
        }
        assert_eq!((hows.len(), looks.len()), (WRITES.len(), LOOKS.len()));
    }
}
