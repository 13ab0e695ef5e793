//! The store compared with simple oracles: convergence, deletions and expiration, counters,
//! indexes, crashes.

mod counters;
mod crash;
mod deletions;
mod families;
mod indexes;
mod model;
mod moved;
mod oracle;
mod parts;
mod purge;
mod ranges;
mod views;

use std::sync::Arc;

use firn_kv::MemEnv;
use firn_kv::policy::Tiered;
use firn_kv::{DbOptions, Policy, TreeOptions};
use firn_wide::internals::key::Layout;
use firn_wide::internals::store::{CellStore, FamilySpec, StoreFamily};
use firn_wide::{Partitioner, StoreOptions, Type};

fn options() -> StoreOptions {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    StoreOptions { db, clock: None, ..StoreOptions::default() }
}

fn open(env: &MemEnv) -> CellStore {
    CellStore::open_in(Arc::new(env.clone()), "/store", options()).unwrap()
}

fn spec(id: u32, layout: Layout) -> FamilySpec {
    let policy =
        Policy::Tiered(Tiered { min_runs: 4, max_runs: 8, bucket: 3.0, ..Tiered::default() });
    let tree = TreeOptions {
        memtable_size: 64 << 10,
        table_size: 64 << 10,
        policy,
        ..TreeOptions::default()
    };
    FamilySpec {
        id,
        layout,
        counter: false,
        gc_grace: 864_000,
        indexes: vec![],
        tree,
        has_views: false,
    }
}

fn standard() -> Layout {
    Layout::standard(Partitioner::Murmur3, Type::Bytes)
}

fn super_columns() -> Layout {
    Layout::super_columns(Partitioner::Murmur3, Type::Bytes, Type::Bytes)
}

fn table() -> Layout {
    Layout::table(Partitioner::Murmur3, vec![Type::Bytes])
}

/// Returns the position of a column of a Standard family.
fn column(f: &StoreFamily, name: &[u8]) -> Vec<u8> {
    let mut place = vec![];
    f.layout().put_cell(&[], name, &mut place).unwrap();
    place
}

/// Returns the position of a cell in a row with one clustering component.
fn cell(f: &StoreFamily, row: &[u8], name: &[u8]) -> Vec<u8> {
    let mut place = vec![];
    f.layout().put_cell(&[row], name, &mut place).unwrap();
    place
}

fn row(f: &StoreFamily, row: &[u8]) -> Vec<u8> {
    let mut place = vec![];
    f.layout().put_row(&[row], &mut place).unwrap();
    place
}

/// The keys have different lengths, so that positions begin elsewhere in the next key.
#[test]
fn leaving_the_last_row_of_a_partition_leaves_no_other_partition_out() {
    use firn_kv::Durability;
    use firn_wide::internals::store::{Partitions, StoreMutation, StoreSlice};
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(7, Layout::table(Partitioner::ByteOrdered, vec![]))).unwrap();
    let keys: Vec<Vec<u8>> = (1..40u8).map(|i| vec![i; 1 + usize::from(i) / 2 % 3]).collect();
    for key in &keys {
        let mut m = StoreMutation::new(key);
        for id in [1u16, 2, 3] {
            let mut place = vec![];
            f.layout().put_cell(&[], &id.to_be_bytes(), &mut place).unwrap();
            m.put(&f, &place, 1, b"v");
        }
        store.apply(&[m], Durability::Process).unwrap();
    }
    let mut reader = store.scan(&f, &Partitions::all(), &StoreSlice::rows()).unwrap();
    let mut seen = vec![];
    while reader.next_partition().unwrap() {
        assert!(reader.next().unwrap().is_some_and(|i| i.new_row));
        reader.skip_row().unwrap();
        assert!(reader.next().unwrap().is_none());
        seen.push(reader.key().to_vec());
    }
    assert_eq!(seen, keys);
}
