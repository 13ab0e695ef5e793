//! A simple model of a family: all operations ever made, to which each read applies the rules of
//! the data model (2.2, 2.3).

use std::collections::BTreeMap;

use firn_kv::Durability;
use firn_wide::Type;
use firn_wide::internals::cell::{Cell, CellState};
use firn_wide::internals::store::{
    Body, CellStore, Partitions, SliceReader, StoreFamily, StoreMutation, StoreSlice,
};

use firn_testkit::rng::Rng;

/// Value of a cell in the oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    Live(Vec<u8>),
    Expiring(Vec<u8>, u32, i64),
    Tombstone(i64),
}

/// An operation on one partition.
#[derive(Clone, Debug)]
pub enum Do {
    Cell(Vec<u8>, Held),
    Partition,
    Row(Vec<u8>),
    Complex(Vec<u8>),
    Range(Vec<u8>, Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct Step {
    pub key: u8,
    pub timestamp: i64,
    pub what: Do,
}

/// Position, value, timestamp, TTL.
pub type Shown = (Vec<u8>, Vec<u8>, i64, Option<u32>);

#[derive(Clone, Default)]
pub struct Oracle {
    pub steps: Vec<Step>,
}

fn rank(held: &Held) -> (u8, i64, Vec<u8>, u32) {
    match held {
        Held::Live(v) => (0, 0, v.clone(), 0),
        Held::Expiring(v, ttl, expires) => (1, *expires, v.clone(), *ttl),
        Held::Tombstone(deleted) => (2, *deleted, vec![], 0),
    }
}

impl Oracle {
    /// Returns the live cells of a partition at second `now`.
    pub fn read(&self, key: u8, now: i64) -> Vec<Shown> {
        let mine = || self.steps.iter().filter(move |s| s.key == key);
        let mut cells: BTreeMap<&Vec<u8>, (i64, &Held)> = BTreeMap::new();
        for s in mine() {
            if let Do::Cell(place, held) = &s.what {
                let best = cells.entry(place).or_insert((s.timestamp, held));
                if (s.timestamp, rank(held)) > (best.0, rank(best.1)) {
                    *best = (s.timestamp, held);
                }
            }
        }
        let dead = |place: &Vec<u8>, timestamp: i64| {
            mine().any(|s| {
                let covers = match &s.what {
                    Do::Cell(..) => false,
                    Do::Partition => true,
                    Do::Row(row) => place.starts_with(row),
                    // A simple cell with the same name is not an element.
                    Do::Complex(column) => place.starts_with(column) && place.len() > column.len(),
                    Do::Range(start, end) => start <= place && place < end,
                };
                covers && timestamp <= s.timestamp
            })
        };
        let live = cells.into_iter().filter(|(place, (t, _))| !dead(place, *t));
        live.filter_map(|(place, (t, held))| match held {
            Held::Live(v) => Some((place.clone(), v.clone(), t, None)),
            Held::Expiring(v, ttl, expires) if *expires > now => {
                Some((place.clone(), v.clone(), t, Some(*ttl)))
            }
            _ => None,
        })
        .collect()
    }
}

/// Adds the operation to a mutation.
pub fn mutate(m: &mut StoreMutation, f: &StoreFamily, s: &Step) {
    match &s.what {
        Do::Cell(place, Held::Live(v)) => m.put(f, place, s.timestamp, v),
        Do::Cell(place, Held::Expiring(value, ttl, expires)) => {
            let state = CellState::Expiring { value, ttl: *ttl, expires: *expires };
            m.put_cell(f, place, Cell { timestamp: s.timestamp, state })
        }
        Do::Cell(place, Held::Tombstone(deleted)) => m.put_cell(
            f,
            place,
            Cell { timestamp: s.timestamp, state: CellState::Tombstone { deleted: *deleted } },
        ),
        Do::Partition => m.delete_partition(f, s.timestamp),
        Do::Row(row) => m.delete_row(f, row, s.timestamp),
        Do::Complex(column) => m.delete_complex(f, column, s.timestamp),
        Do::Range(start, end) => m.delete_range(f, start, end, s.timestamp),
    };
}

/// Writes some steps in one call.
pub fn apply(store: &CellStore, f: &StoreFamily, steps: &[Step]) {
    let mutations: Vec<StoreMutation> = steps
        .iter()
        .map(|s| {
            let mut m = StoreMutation::new(&[s.key]);
            mutate(&mut m, f, s);
            m
        })
        .collect();
    store.apply(&mutations, Durability::Process).unwrap();
}

pub fn place_in(f: &StoreFamily, rng: &mut Rng) -> Vec<u8> {
    let mut place = vec![];
    let name = [0, rng.below(3) as u8];
    if rng.one_in(6) {
        f.layout().put_static(&name, &mut place).unwrap();
    } else {
        let row = [rng.below(5) as u8];
        f.layout().put_cell(&[&row], if rng.one_in(8) { b"" } else { &name }, &mut place).unwrap();
    }
    // Column 2 is complex.
    if place.ends_with(&[0x40, 0, 2, 0x38]) {
        f.layout().put_path(&Type::Bytes, &[rng.below(4) as u8], &mut place).unwrap();
    }
    place
}

/// Returns a random operation on a table with one clustering component.
pub fn step(f: &StoreFamily, rng: &mut Rng, timestamp: i64, now: i64, value_len: usize) -> Step {
    let row = [rng.below(5) as u8];
    let value = |rng: &mut Rng| {
        let mut v = vec![b'a' + rng.below(3) as u8];
        v.resize(1 + rng.below(1 + value_len as u64) as usize, b'x');
        v
    };
    let layout = f.layout();
    let mut place = vec![];
    let what = match rng.below(20) {
        0 => Do::Partition,
        1..3 => {
            layout.put_row(&[&row], &mut place).unwrap();
            Do::Row(place)
        }
        3 => {
            layout.put_cell(&[&row], &[0, 2], &mut place).unwrap();
            Do::Complex(place)
        }
        4 => {
            let mut end = vec![];
            layout.put_bound(&[&row], rng.one_in(2), &mut place).unwrap();
            layout.put_bound(&[&[row[0] + rng.below(3) as u8]], rng.one_in(2), &mut end).unwrap();
            Do::Range(place, end)
        }
        5..8 => Do::Cell(place_in(f, rng), Held::Tombstone(now)),
        8..11 => {
            let ttl = 1 + rng.below(40) as u32;
            Do::Cell(place_in(f, rng), Held::Expiring(value(rng), ttl, now + ttl as i64))
        }
        _ => Do::Cell(place_in(f, rng), Held::Live(value(rng))),
    };
    Step { key: rng.below(3) as u8, timestamp, what }
}

/// Returns the rest of a reader's partition.
pub fn drain(reader: &mut SliceReader) -> Vec<Shown> {
    let mut out = vec![];
    while let Some(item) = reader.next().unwrap() {
        let Body::Cell(cell) = item.body else { panic!("{item:?}") };
        let mut place = vec![];
        item.place.put(&mut place);
        out.push((place, cell.value().to_vec(), cell.timestamp, cell.ttl()));
    }
    out
}

fn row_of(f: &StoreFamily, place: &[u8]) -> Vec<u8> {
    let n = if place[0] == 0x30 { 1 } else { f.layout().row_len(place).unwrap() };
    place[..n].to_vec()
}

fn rows_of(f: &StoreFamily, cells: &[Shown]) -> Vec<Vec<u8>> {
    let mut rows: Vec<Vec<u8>> = cells.iter().map(|(p, ..)| row_of(f, p)).collect();
    rows.dedup();
    rows
}

fn slice_in(f: &StoreFamily, rng: &mut Rng) -> StoreSlice {
    let bound = |rng: &mut Rng| match rng.below(4) {
        0 => vec![],
        1 => {
            let mut b = vec![];
            f.layout().put_bound(&[&[rng.below(5) as u8]], rng.one_in(2), &mut b).unwrap();
            b
        }
        2 => vec![0x40],
        _ => place_in(f, rng),
    };
    StoreSlice::between(bound(rng), bound(rng))
}

fn check_slice(
    reads: &dyn Fn(u8, &StoreSlice) -> SliceReader,
    f: &StoreFamily,
    key: u8,
    want: &[Shown],
    slice: &StoreSlice,
) {
    let inside = |p: &Vec<u8>| *p >= slice.from && (slice.until.is_empty() || *p < slice.until);
    let mut want: Vec<Shown> = want.iter().filter(|(p, ..)| inside(p)).cloned().collect();
    assert_eq!(drain(&mut reads(key, slice)), want, "{slice:?}");
    assert_eq!(reads(key, slice).count_rows(usize::MAX).unwrap(), rows_of(f, &want).len());
    want.reverse();
    let back = slice.clone().reversed();
    assert_eq!(drain(&mut reads(key, &back)), want, "{back:?}");
    assert_eq!(reads(key, &back).count_cells(usize::MAX).unwrap(), want.len());
    let mut reader = reads(key, &back);
    let mut rows = vec![];
    while let Some(item) = reader.next().unwrap() {
        assert!(item.new_row);
        let mut place = vec![];
        item.place.put(&mut place);
        rows.push(row_of(f, &place));
        reader.skip_row().unwrap();
    }
    assert_eq!(rows, rows_of(f, &want));
}

/// Compares all reads with the oracle.
pub fn check(store: &CellStore, f: &StoreFamily, oracle: &Oracle, rng: &mut Rng, now: i64) {
    assert_eq!(store.now(), now);
    let view = store.view();
    let by_view = rng.one_in(2);
    let reads = |key: u8, slice: &StoreSlice| {
        if by_view {
            view.read(f, &[key], slice).unwrap()
        } else {
            store.read(f, &[key], slice).unwrap()
        }
    };
    let mut all = vec![];
    for key in 0..3u8 {
        let want = oracle.read(key, now);
        check_slice(&reads, f, key, &want, &StoreSlice::all());
        for _ in 0..4 {
            check_slice(&reads, f, key, &want, &slice_in(f, rng));
        }
        let places: Vec<Vec<u8>> = (0..6).map(|_| place_in(f, rng)).collect();
        let many = store.get_many(f, &[key], &places).unwrap();
        for (place, found) in places.iter().zip(many) {
            let want = want.iter().find(|(p, ..)| p == place).map(|(_, v, t, _)| (v.clone(), *t));
            assert_eq!(found.map(|c| (c.value().to_vec(), c.cell().timestamp)), want, "{place:?}");
            let one =
                if by_view { view.get(f, &[key], place) } else { store.get(f, &[key], place) };
            assert_eq!(
                one.unwrap().map(|c| (c.value().to_vec(), c.cell().timestamp)),
                want,
                "{place:?}"
            );
        }
        all.push((vec![key], want));
    }
    let slice = if rng.one_in(2) { StoreSlice::all() } else { slice_in(f, rng) };
    let inside = |p: &Vec<u8>| *p >= slice.from && (slice.until.is_empty() || *p < slice.until);
    for back in [false, true] {
        let slice = if back { slice.clone().reversed() } else { slice.clone() };
        let mut reader = store.scan(f, &Partitions::all(), &slice).unwrap();
        let mut seen = vec![];
        while reader.next_partition().unwrap() {
            let key = reader.key().to_vec();
            // Sometimes leave a partition before its end.
            let mut cells = if rng.one_in(5) { vec![] } else { drain(&mut reader) };
            if !cells.is_empty() {
                let (_, want) = all.iter().find(|(k, _)| *k == key).unwrap();
                let mut want: Vec<Shown> =
                    want.iter().filter(|(p, ..)| inside(p)).cloned().collect();
                if back {
                    cells.reverse();
                }
                assert_eq!(cells, std::mem::take(&mut want));
            }
            seen.push(reader.partition().to_vec());
        }
        assert!(seen.is_sorted_by(|a, b| a < b));
        let with_cells = all.iter().filter(|(_, cells)| !cells.is_empty()).count();
        assert!(seen.len() >= with_cells && seen.len() <= 3);
    }
}
