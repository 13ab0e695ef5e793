//! Configuration of a history: options of the store and its trees, hooks, and storage. All are
//! drawn from the history's seed.

use std::sync::Arc;

use firn_kv::{DbOptions, Durability, FilterAllocation, OpenFiles, Policy, ReadMode, TreeOptions};
use firn_testkit::history::TREES;
use firn_testkit::oracle::Fold;
use firn_testkit::rng::Rng;

use crate::draw;
use crate::model::hooks::{
    Count, First4, Largest, LargestHere, Sum, Tail, Unseen, largest, sum, tail,
};

/// Trees that have a merge operator.
pub const HOOKED: [bool; TREES] = [false, false, true, true];

/// Options to open a store, and its storage.
#[derive(Debug)]
pub struct Setup {
    pub seed: u64,
    /// Whether the store is on the real file system instead of in memory.
    pub os: bool,
    /// Whether the memory storage is that of `Db::in_memory`.
    pub plain: bool,
    /// Whether the store is encrypted.
    pub encrypted: bool,
    /// Reported memory of the machine in bytes. Below some size the store handles logs and tables
    /// differently.
    pub memory: Option<u64>,
    pub db: DbOptions,
    /// Whether memtables and tables are too large for a history to fill.
    roomy: bool,
    /// Whether tree 2 has a merge operator that ends reads early.
    early: bool,
    purges: bool,
    prefixes: [bool; TREES],
    counts: [bool; TREES],
}

impl Setup {
    /// Returns the setup of a seed.
    pub fn of(seed: u64) -> Setup {
        let mut rng = Rng::new(seed ^ 0x5e7);
        let mut db = draw::db(&mut rng);
        let (os, roomy) = (rng.one_in(10), rng.one_in(12));
        if rng.one_in(3) {
            db.read_mode = ReadMode::Auto;
        }
        if rng.one_in(2) {
            db.background_threads = 0;
        }
        if os {
            // With stronger durability, each write would wait for the device.
            db.durability = Durability::Process;
        }
        if roomy {
            (db.memory_budget, db.wal_segment) = (64 << 20, 4 << 20);
        }
        let memory = rng.one_in(4).then_some(64 << 10);
        let (early, purges) = (rng.one_in(3), rng.one_in(4));
        let some = |rng: &mut Rng| std::array::from_fn(|_| rng.one_in(4));
        let (prefixes, counts) = (some(&mut rng), some(&mut rng));
        // These are drawn from a separate generator, because scripts depend on all other draws.
        let mut rng = Rng::new(seed ^ 0xe9c);
        let (plain, encrypted) = (!os && rng.one_in(6), rng.one_in(5));
        let mut rng = Rng::new(seed ^ 0xf11e);
        db.open_files = rng.one_in(2).then(|| OpenFiles::new(rng.range(1..17)));
        Setup { seed, os, plain, encrypted, memory, db, roomy, early, purges, prefixes, counts }
    }

    /// Returns the options of a tree, drawn again for each variant. The hooks stay the same.
    pub fn tree_options(&self, tree: usize, variant: u64) -> TreeOptions {
        let mut rng = Rng::new(
            self.seed.wrapping_mul(64).wrapping_add(variant).wrapping_mul(TREES as u64)
                + tree as u64,
        );
        let mut o = draw::tree(&mut rng);
        // These are drawn from a separate generator, because scripts depend on all other draws.
        let mut rng = Rng::new(rng.next_u64() ^ 0xa9a7);
        if rng.one_in(2) {
            o.blob_threshold = *rng.choose(&[16, 40, 200]).unwrap();
            o.blob_gc_percent = *rng.choose(&[1, 30, 90]).unwrap();
        }
        if rng.one_in(3) {
            o.filter_allocation = FilterAllocation::Monkey;
        }
        if self.roomy {
            (o.memtable_size, o.table_size) = (2 << 20, 1 << 20);
        }
        o.merge_operator = match tree {
            2 if self.early => Some(Arc::new(Largest)),
            2 => Some(Arc::new(Tail)),
            3 => Some(Arc::new(Sum)),
            _ => None,
        };
        if self.prefixes[tree] {
            o.filter_prefix = Some(Arc::new(First4));
        }
        if self.purges {
            o.compaction_filter = Some(Arc::new(Unseen));
        }
        if self.counts[tree] {
            o.summary = Some(Arc::new(Count));
        }
        if tree == 2 && self.early {
            o.summary = Some(Arc::new(LargestHere));
        }
        o
    }

    /// Returns the merge operation of a tree, for the oracle.
    pub fn fold_of(&self, tree: usize) -> Option<Fold> {
        match tree {
            2 if self.early => Some(|base, op| Some(largest(base, &[op]))),
            2 => Some(|base, op| Some(tail(base, &[op]))),
            3 => Some(|base, op| sum(base, &[op])),
            _ => None,
        }
    }
}

#[test]
fn every_choice_is_drawn() {
    use std::collections::BTreeSet;
    let mut met = BTreeSet::new();
    for seed in 1..=100 {
        let s = Setup::of(seed);
        let db = (
            s.db.background_threads.min(1),
            s.db.read_mode,
            s.db.durability,
            s.os,
            s.memory.is_some(),
        );
        met.extend([
            format!("threads {}", db.0),
            format!("{:?}", db.1),
            format!("{:?}", db.2),
            format!("os {}", db.3),
        ]);
        met.extend([
            format!("short of memory {}", db.4),
            format!("roomy {}, early {}, purges {}", s.roomy, s.early, s.purges),
        ]);
        met.insert(format!("event log {}", s.db.event_log));
        met.insert(format!("few files {}", s.db.open_files.is_some()));
        met.extend([format!("plain {}", s.plain), format!("encrypted {}", s.encrypted)]);
        for tree in 0..TREES {
            let o = s.tree_options(tree, 0);
            assert!(o.check().is_ok(), "{o:?}");
            met.insert(o.policy.description().name.to_owned());
            met.insert(format!("custom policy {}", o.custom_policy.is_some()));
            met.extend([
                format!("{:?}", o.compression),
                format!("{:?}", o.filter),
                format!("blocks of {}", o.block_size),
            ]);
            met.extend([
                format!("prefixes {}", s.prefixes[tree]),
                format!("counts {}", s.counts[tree]),
            ]);
            let again = s.tree_options(tree, 7);
            assert!(
                format!("{again:?}") != format!("{o:?}")
                    && again.merge_operator.is_some() == o.merge_operator.is_some()
            );
        }
    }
    // Covers both values of each flag, three read modes, all policies, four compressions and four
    // filters. Also covers five block sizes and most of the eight kinds of stores.
    assert!(met.len() >= 2 * 12 + 3 + Policy::ALL.len() + 4 + 4 + 5 + 4, "{met:?}");
}
