//! The option sets under which every history runs, and the hooks of the trees.

use std::sync::Arc;

use firn_kv::base::key::Kind;
use firn_kv::{
    Compression, DbOptions, Durability, FilterKind, FilterPrefix, Folded, Merge, Movement, Policy, Purge, PurgeJob, PurgePass,
    ReadMode, Result, Summary, SummaryPass, TreeOptions, Verdict,
};
use firn_testkit::history::TREES;
use firn_testkit::oracle::Fold;

/// Which trees have a merge hook.
pub const HOOKED: [bool; TREES] = [false, false, true, true];

/// One way to open a store.
pub struct Set {
    pub name: &'static str,
    /// On the real file system, not in memory.
    pub os: bool,
    pub db: DbOptions,
    pub tree: TreeOptions,
    /// Tree 2 has a merge hook that ends reads early.
    pub early: bool,
}

impl Set {
    /// The options of a tree. Variants other than 0 differ in what may be changed later.
    pub fn tree_options(&self, tree: usize, variant: usize) -> TreeOptions {
        let mut o = self.tree.clone();
        o.merge = match tree {
            2 if self.early => Some(Arc::new(Largest)),
            2 => Some(Arc::new(Tail)),
            3 => Some(Arc::new(Sum)),
            _ => None,
        };
        if tree == 2 && self.early {
            o.summary = Some(Arc::new(LargestHere));
        }
        if variant > 0 {
            o.policy = policies().swap_remove(variant % 6);
            o.block_size = [512, 4032, 16_384][variant % 3];
            o.compression = compressions().swap_remove(variant % 4);
            o.filter = filters().swap_remove(variant % 5);
            o.table_size = [64 << 10, 256 << 10][variant % 2];
        }
        o
    }

    /// How a tree folds, for the oracle.
    pub fn fold_of(&self, tree: usize) -> Option<Fold> {
        match tree {
            2 if self.early => Some(|base, op| Some(largest(base, &[op]))),
            2 => Some(|base, op| Some(tail(base, &[op]))),
            3 => Some(|base, op| sum(base, &[op])),
            _ => None,
        }
    }
}

fn policies() -> Vec<Policy> {
    vec![
        Policy::default(),
        Policy::Leveled { level0_runs: 2, ratio: 4, base: 128 << 10, movement: Movement::default() },
        Policy::LazyLeveled { ratio: 3 },
        Policy::Unified { scaling: vec![2, -2, 0], target_table: 64 << 10, base_shards: 2 },
        Policy::TimeWindow { window_secs: 3600, min_runs: 2 },
        // Without a bound, since what a bound drops cannot be foretold.
        Policy::Fifo { max_bytes: 0, max_age_secs: 0 },
    ]
}

fn compressions() -> Vec<Vec<Compression>> {
    use Compression::{Lz4, None};
    vec![vec![Lz4], vec![None], vec![None, Lz4], vec![Lz4, None]]
}

fn filters() -> Vec<Vec<FilterKind>> {
    use FilterKind::{Fuse8, Fuse16, None};
    vec![vec![Fuse8], vec![Fuse16], vec![None], vec![Fuse16, Fuse8, None], vec![None, Fuse8]]
}

/// All sets. Memtables and tables are tiny unless said otherwise, so that histories reach the files.
pub fn all() -> Vec<Set> {
    let db = |threads| DbOptions {
        background_threads: threads,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    let tiny = || TreeOptions { memtable_size: 64 << 10, table_size: 64 << 10, ..TreeOptions::default() };
    let policy = |i: usize| TreeOptions { policy: policies().swap_remove(i), ..tiny() };
    let set = |name, db, tree| Set { name, os: false, db, tree, early: false };
    let pread = |o| DbOptions { read_mode: ReadMode::Pread, ..o };
    vec![
        set("inline", db(0), tiny()),
        set("one_thread", db(1), tiny()),
        set("two_threads", db(2), tiny()),
        set("leveled", db(0), policy(1)),
        set("leveled_threads", pread(db(2)), TreeOptions { compression: compressions().swap_remove(1), ..policy(1) }),
        set("lazy", db(0), TreeOptions { block_size: 512, ..policy(2) }),
        set(
            "unified",
            pread(db(0)),
            TreeOptions {
                policy: Policy::Unified { scaling: vec![2], target_table: 64 << 10, base_shards: 4 },
                filter: filters().swap_remove(3),
                ..tiny()
            },
        ),
        set("unified_threads", db(2), TreeOptions { block_size: 16_384, ..policy(3) }),
        set("window", db(0), policy(4)),
        set("fifo", db(1), policy(5)),
        set(
            "no_filter",
            db(0),
            TreeOptions {
                block_size: 16_384,
                filter: filters().swap_remove(2),
                compression: vec![Compression::None],
                ..tiny()
            },
        ),
        set(
            "wide_filter",
            db(2),
            TreeOptions { filter: filters().swap_remove(1), compression: compressions().swap_remove(2), ..policy(2) },
        ),
        set(
            "prefix_filter",
            db(0),
            TreeOptions { filter_prefix: Some(Arc::new(First4)), summary: Some(Arc::new(Count)), block_size: 512, ..policy(1) },
        ),
        Set { os: true, ..set("os_map", db(2), TreeOptions { compression: vec![Compression::None], ..tiny() }) },
        Set { os: true, ..set("os_pread", pread(db(0)), policy(1)) },
        set("small_budget", DbOptions { memory_budget: 1 << 20, ..db(1) }, tiny()),
        set(
            "roomy",
            DbOptions { memory_budget: 64 << 20, wal_segment: 4 << 20, ..db(2) },
            TreeOptions { memtable_size: 2 << 20, table_size: 1 << 20, ..TreeOptions::default() },
        ),
        set("tombstone_age", db(0), TreeOptions { tombstone_age_secs: 300, ..tiny() }),
        set("power_log", DbOptions { wal_segment: 64 << 10, durability: Durability::Power, ..db(1) }, policy(3)),
        set(
            "quiet",
            DbOptions { event_log: false, ..pread(db(0)) },
            TreeOptions {
                policy: Policy::Unified { scaling: vec![-4], target_table: 64 << 10, base_shards: 1 },
                compression: compressions().swap_remove(3),
                table_size: 256 << 10,
                ..tiny()
            },
        ),
        Set { early: true, ..set("early_merge", db(0), tiny()) },
        set("purge", db(1), TreeOptions { purge: Some(Arc::new(Unseen)), tombstone_age_secs: 300, ..policy(1) }),
    ]
}

/// The last 300 bytes of all that was put and merged. Operands combine.
struct Tail;

fn tail(base: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
    let all = [base.unwrap_or_default(), &operands.concat()].concat();
    all[all.len().saturating_sub(300)..].to_vec()
}

impl Merge for Tail {
    fn name(&self) -> &str {
        "tail"
    }
    fn fold(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Folded> {
        Ok(Folded::Value(tail(base, operands)))
    }
    fn combine(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(tail(Some(older), &[newer]))
    }
}

/// The sum of all bytes modulo 16, as so many bytes; a key whose sum is 0 has no value. Operands do not combine.
struct Sum;

fn sum(base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
    let bytes = operands.iter().flat_map(|o| o.iter()).chain(base.unwrap_or_default());
    let n = bytes.map(|b| usize::from(*b)).sum::<usize>() % 16;
    (n > 0).then(|| vec![1; n])
}

impl Merge for Sum {
    fn name(&self) -> &str {
        "sum"
    }
    fn fold(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Folded> {
        Ok(sum(base, operands).map_or(Folded::Absent, Folded::Value))
    }
}

/// Filters hold the first four bytes of keys.
struct First4;

impl FilterPrefix for First4 {
    fn name(&self) -> &str {
        "first4"
    }
    fn prefix_len(&self, key: &[u8]) -> usize {
        key.len().min(4)
    }
}

/// Counts entries.
struct Count;

struct Counting(u64);

impl Summary for Count {
    fn name(&self) -> &str {
        "count"
    }
    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(Counting(0))
    }
}

impl SummaryPass for Counting {
    fn add(&mut self, _: &[u8], _: Kind, _: &[u8]) {
        self.0 += 1;
    }
    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }
}

/// The largest of all that was put and merged: the one hook here that can tell that older tables do not matter.
struct Largest;

fn largest(base: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
    operands.iter().copied().chain(base).max().unwrap_or_default().to_vec()
}

/// As much of a value as a summary keeps.
const SHOWN: usize = 64;

fn shown(value: &[u8]) -> &[u8] {
    &value[..value.len().min(SHOWN)]
}

impl Merge for Largest {
    fn name(&self) -> &str {
        "largest"
    }
    fn fold(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Folded> {
        Ok(Folded::Value(largest(base, operands)))
    }
    fn combine(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(older.max(newer).to_vec())
    }
    fn decided(&self, _: &[u8], newest: &[&[u8]], older_summary: &[u8]) -> bool {
        // A table that holds puts or deletes ends the fold, so it must be looked into, small as they may be.
        let [1, most @ ..] = older_summary else { return false };
        newest.iter().any(|v| shown(v) > most)
    }
}

/// Whether a table has operands only, and the largest of them, cut short.
struct LargestHere;

struct LargestSoFar(bool, Vec<u8>);

impl Summary for LargestHere {
    fn name(&self) -> &str {
        "largest here"
    }
    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(LargestSoFar(true, vec![]))
    }
}

impl SummaryPass for LargestSoFar {
    fn add(&mut self, _: &[u8], kind: Kind, value: &[u8]) {
        self.0 &= kind == Kind::Merge;
        if shown(value) > self.1.as_slice() {
            self.1 = shown(value).to_vec();
        }
    }
    fn finish(self: Box<Self>) -> Vec<u8> {
        [&[u8::from(self.0)], self.1.as_slice()].concat()
    }
}

/// Purges what no reader can tell from what was there: deletes with nothing beneath, and puts replaced by themselves.
/// (What expires and does vanish: `tests/hooks.rs`.)
struct Unseen;

impl Purge for Unseen {
    fn name(&self) -> &str {
        "unseen"
    }
    fn start(&self, _: PurgeJob) -> Box<dyn PurgePass> {
        Box::new(UnseenPass(vec![]))
    }
}

/// Holds the last key judged: keys come in order.
struct UnseenPass(Vec<u8>);

impl PurgePass for UnseenPass {
    fn judge(&mut self, key: &[u8], kind: Kind, value: &[u8], alone: bool) -> Verdict {
        assert!(self.0.as_slice() <= key, "keys are shown in order");
        self.0 = key.to_vec();
        match kind {
            Kind::Delete if alone => Verdict::Drop,
            Kind::Put if value.len().is_multiple_of(2) => Verdict::Replace(value.to_vec()),
            _ => Verdict::Keep,
        }
    }
}
