//! Materialized views: after each write, of any kind, a view contains exactly the rows computed
//! from its base.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use firn_kv::{Durability, MemEnv};
use firn_testkit::rng::Rng;
use firn_wide::Result;
use firn_wide::Type;
use firn_wide::internals::key::Layout;
use firn_wide::internals::store::{
    CellStore, Partitions, RowParts, StoreFamily, StoreMutation, StoreSlice, StoredView, ViewPlace,
    ViewRows,
};

use super::{cell, open, row, spec, table};

/// The column whose value is the key of the view's partitions.
const GROUP: &[u8] = &[0, 1];
/// The part of its cells' positions after the row.
const GROUP_PART: &[u8] = &[0x40, 0, 1, 0x38];
const OTHER: &[u8] = &[0, 2];

/// Groups rows by the value of a column; a row exists while that value does, with all of its cells.
struct ByGroup(Layout);

impl ViewRows for ByGroup {
    fn key_column(&self) -> Option<&[u8]> {
        Some(GROUP_PART)
    }

    fn place(&self, key: &[u8], row: &[u8], value: Option<&[u8]>) -> Result<Option<ViewPlace>> {
        let mut clustering = vec![key.to_vec()];
        self.0.clustering_of(&row[1..], &mut clustering)?;
        let value = value.filter(|v| !v.is_empty());
        Ok(value.map(|value| ViewPlace { key: value.to_vec(), clustering }))
    }

    fn cells(&self, live: &RowParts) -> Result<RowParts> {
        Ok(live.clone())
    }
}

struct Pair {
    store: CellStore,
    base: StoreFamily,
    view: StoreFamily,
}

fn pair(env: &MemEnv, build: bool) -> Pair {
    let store = open(env);
    let base = store.open_family(spec(1, table())).unwrap();
    let layout = Layout::table(table().partitioner(), vec![Type::Bytes, Type::Bytes]);
    let view = store.open_family(spec(2, layout)).unwrap();
    let rows = Arc::new(ByGroup(table()));
    store.set_views(&base, table(), vec![StoredView { family: view.clone(), rows }]).unwrap();
    if build {
        store.build_view(&base, 2).unwrap();
    }
    assert!(store.is_view_built(2).unwrap());
    Pair { store, base, view }
}

/// Rows of a family by position, with their cells.
type Seen = BTreeMap<(Vec<u8>, Vec<u8>), BTreeMap<Vec<u8>, (i64, Vec<u8>)>>;

fn seen(store: &CellStore, f: &StoreFamily) -> Seen {
    let mut reader = store.scan(f, &Partitions::all(), &StoreSlice::all()).unwrap();
    let mut all = Seen::new();
    while reader.next_partition().unwrap() {
        let key = reader.key().to_vec();
        while let Some(item) = reader.next().unwrap() {
            let cell = item.cell().unwrap();
            let to = all.entry((key.clone(), item.place.row.to_vec())).or_default();
            to.insert(item.place.name.to_vec(), (cell.timestamp, cell.value().to_vec()));
        }
    }
    all
}

/// Returns the expected view.
fn made(pair: &Pair) -> Seen {
    let group = [&[0x40], GROUP].concat();
    let mut all = Seen::new();
    for ((key, row), cells) in seen(&pair.store, &pair.base) {
        let Some((_, value)) = cells.get(&group).filter(|(_, value)| !value.is_empty()) else {
            continue;
        };
        let mut whole = vec![];
        Type::Bytes.put_component(&key, &mut whole).unwrap();
        whole.extend_from_slice(&row);
        all.insert((value.clone(), whole), cells);
    }
    all
}

fn check(pair: &Pair, words: &str) {
    // Remains of an expired row may exist after the value that identified it is gone.
    let group = [&[0x40], GROUP].concat();
    let mut view = seen(&pair.store, &pair.view);
    view.retain(|_, cells| cells.contains_key(&group));
    assert_eq!(view, made(pair), "{words}");
}

fn change(rng: &mut Rng, f: &StoreFamily, m: &mut StoreMutation) {
    let at = [rng.below(4) as u8];
    let timestamp = rng.below(40) as i64;
    let group = [b'g', rng.below(3) as u8];
    let value = if rng.below(8) == 0 { &[][..] } else { &group[..] };
    match rng.below(12) {
        0..=3 => m.put(f, &cell(f, &at, GROUP), timestamp, value),
        4 => m.put_ttl(f, &cell(f, &at, GROUP), timestamp, value, 1 + rng.below(40) as u32),
        5 | 6 => m.put(f, &cell(f, &at, OTHER), timestamp, &group),
        7 => m.put_ttl(f, &cell(f, &at, OTHER), timestamp, &group, 1 + rng.below(40) as u32),
        8 => m.delete(f, &cell(f, &at, GROUP), timestamp),
        9 => m.delete_row(f, &row(f, &at), timestamp),
        10 => {
            let (mut from, mut until) = (vec![], vec![]);
            f.layout().put_bound(&[[rng.below(4) as u8]], false, &mut from).unwrap();
            f.layout().put_bound(&[[rng.below(4) as u8]], true, &mut until).unwrap();
            m.delete_range(f, &from, &until, timestamp)
        }
        _ => m.delete_partition(f, timestamp),
    };
}

#[test]
fn a_view_contains_the_rows_of_its_base() {
    for seed in 0..20 {
        let env = MemEnv::new(seed);
        let mut now = pair(&env, true);
        let mut rng = Rng::new(seed);
        for step in 0..120 {
            let keys: BTreeSet<u8> = (0..=rng.below(2)).map(|_| rng.below(3) as u8).collect();
            let mut all = vec![];
            for key in keys {
                let mut m = StoreMutation::new(&[b'k', key]);
                (0..=rng.below(3)).for_each(|_| change(&mut rng, &now.base, &mut m));
                all.push(m);
            }
            if let ([m], 0) = (&all[..], rng.below(2)) {
                let key = m.key().to_vec();
                let work = |_: &_| Ok((all.clone(), ()));
                now.store.update(&[&key[..]], Durability::Process, work).unwrap();
            } else {
                now.store.apply(&all, Durability::Process).unwrap();
            }
            drop(all);
            match rng.below(40) {
                0 => env.advance(Duration::from_secs(rng.below(30))),
                1 => now.base.tree().compact().unwrap(),
                2 => now.view.tree().compact().unwrap(),
                3 => now.store.build_view(&now.base, 2).unwrap(),
                4 => now.store.truncate(&now.base).unwrap(),
                5 => {
                    drop(now);
                    now = pair(&env, false);
                }
                _ => {}
            }
            check(&now, &format!("seed {seed}, step {step}"));
        }
    }
}

#[test]
fn a_value_goes_the_short_way_only_where_no_view_follows() {
    let env = MemEnv::new(3);
    let now = pair(&env, true);
    for n in 0..20u8 {
        let at = cell(&now.base, &[n], GROUP);
        now.store.put(&now.base, b"k", &at, 10 + i64::from(n), b"g", Durability::Process).unwrap();
        check(&now, "a value by itself");
    }
    assert_eq!(seen(&now.store, &now.view).len(), 20);
    // A row that moves leaves nothing in its old position, whatever the timestamp is.
    let at = cell(&now.base, &[3], GROUP);
    now.store.put(&now.base, b"k", &at, 90, b"h", Durability::Process).unwrap();
    check(&now, "moved");
    assert_eq!(now.view.tree().iter().count(), 20, "a cell of each row, and nothing else");
}
