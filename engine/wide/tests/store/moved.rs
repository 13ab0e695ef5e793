//! Copies a family to another one: cells and deletions with their times, without losing an accepted
//! write.

use firn_kv::{Durability, MemEnv};
use firn_testkit::rng::Rng;
use firn_wide::internals::key::Layout;
use firn_wide::internals::store::{
    CellStore, MovedPlaces, Partitions, StoreFamily, StoreMutation, StoreSlice,
};
use firn_wide::{Error, Partitioner, Result, Type};

use super::{open, spec, standard, table};

/// The section, the end of the row, and the start and end of a column's name.
const ROWS: u8 = 0x40;
const END: u8 = 0x38;
const COLUMN: [u8; 4] = [0x40, 0, 1, END];

/// Maps the cells of a Standard family to rows of a table with one clustering column.
struct Rows {
    fails: bool,
}

impl MovedPlaces for Rows {
    fn cell(&self, place: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.fails {
            return Err(Error::Corrupt("asked for".into()));
        }
        let name = place.strip_prefix(&[ROWS, END]).unwrap();
        Ok(Some([&[ROWS], name, &COLUMN].concat()))
    }

    fn bound(&self, bound: &[u8]) -> Vec<u8> {
        let rest = &bound[1..];
        [&[ROWS], rest.strip_prefix(&[END]).unwrap_or(rest)].concat()
    }
}

/// Key, name, timestamp and value of a cell.
type SeenCell = (Vec<u8>, Vec<u8>, i64, Vec<u8>);

/// Returns a family's live cells.
fn seen(store: &CellStore, f: &StoreFamily) -> Vec<SeenCell> {
    let mut reader = store.scan(f, &Partitions::all(), &StoreSlice::all()).unwrap();
    let mut all = vec![];
    while reader.next_partition().unwrap() {
        let key = reader.key().to_vec();
        while let Some(item) = reader.next().unwrap() {
            let cell = item.cell().unwrap();
            // The name in the family, the row in the table.
            let name = [item.place.row, item.place.name].concat();
            let name = name.strip_suffix(&COLUMN[..3]).unwrap_or(&name).to_vec();
            all.push((key.clone(), name, cell.timestamp, cell.value().to_vec()));
        }
    }
    all
}

fn change(rng: &mut Rng, f: &StoreFamily, m: &mut StoreMutation, of_table: bool) {
    let timestamp = 1 + rng.below(50) as i64;
    let name = [b'a' + rng.below(6) as u8];
    let rows = Layout::rows_of_cells(Partitioner::Murmur3, vec![Type::Bytes], 0, false);
    let layout = if of_table { f.layout() } else { &rows };
    let mut place = vec![];
    layout.put_row(&[name], &mut place).unwrap();
    if of_table {
        place.extend(COLUMN);
    }
    match rng.below(10) {
        0..=4 => m.put(f, &place, timestamp, &[b'v', rng.below(9) as u8]),
        5 => m.put_ttl(f, &place, timestamp, b"t", 1 + rng.below(30) as u32),
        6 | 7 => m.delete(f, &place, timestamp),
        8 => {
            let until = [name[0] + rng.below(3) as u8];
            let (mut start, mut end) = (vec![], vec![]);
            layout.put_bound(&[name], false, &mut start).unwrap();
            layout.put_bound(&[until], true, &mut end).unwrap();
            m.delete_range(f, &start, &end, timestamp)
        }
        _ => m.delete_partition(f, timestamp),
    };
}

#[test]
fn a_moved_family_has_the_same_content_and_behaviour() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let env = MemEnv::new(seed);
        let mut store = open(&env);
        // The twin is a table from the start.
        let [mut from, mut twin] =
            [(1, standard()), (2, table())].map(|(id, l)| store.open_family(spec(id, l)).unwrap());
        let both =
            |rng: &mut Rng, store: &CellStore, f: (&StoreFamily, bool), twin: &StoreFamily| {
                let key = [b'k', rng.below(4) as u8];
                let mut again = rng.clone();
                for (rng, family, of_table) in [(rng, f.0, f.1), (&mut again, twin, true)] {
                    let mut m = StoreMutation::new(&key);
                    (0..1 + seed % 3).for_each(|_| change(rng, family, &mut m, of_table));
                    store.apply(&[m], Durability::Process).unwrap();
                }
            };
        for step in 0..80 {
            both(&mut rng, &store, (&from, false), &twin);
            if step % 20 == 19 {
                [&from, &twin].iter().for_each(|f| f.tree().flush().unwrap());
                env.advance(std::time::Duration::from_secs(rng.below(8)));
            }
        }
        if seed % 4 == 0 {
            drop((from, twin, store));
            store = open(&env);
            from = store.open_family(spec(1, standard())).unwrap();
            twin = store.open_family(spec(2, table())).unwrap();
        }
        assert_eq!(seen(&store, &from), seen(&store, &twin), "seed {seed}, before");
        let to = store.open_family(spec(3, table())).unwrap();
        // A failed or reverted copy leaves the family unchanged.
        let failed = store.move_all(&from, &to, &Rows { fails: true });
        assert!(failed.is_err() || seen(&store, &from).is_empty(), "seed {seed}");
        both(&mut rng, &store, (&from, false), &twin);
        let to = store.open_family(spec(4, table())).unwrap();
        store.move_all(&from, &to, &Rows { fails: false }).unwrap();
        let mut m = StoreMutation::new(b"k");
        change(&mut rng.clone(), &from, &mut m, false);
        let refused = store.apply(&[m.clone()], Durability::Process).unwrap_err().to_string();
        assert!(refused.contains("is written anew"), "{refused}");
        assert_eq!(seen(&store, &from), seen(&store, &to), "seed {seed}, moved");
        if seed % 2 == 0 {
            store.drop_family(1).unwrap();
        }
        for step in 0..60 {
            both(&mut rng, &store, (&to, true), &twin);
            assert_eq!(seen(&store, &to), seen(&store, &twin), "seed {seed}, step {step}");
        }
        if seed % 2 == 1 {
            store.abandon_move(&from);
            store.apply(&[m], Durability::Process).unwrap();
        }
    }
}

#[test]
fn rows_of_any_number_are_moved_with_their_keys() {
    let store = open(&MemEnv::new(1));
    let from = store.open_family(spec(1, standard())).unwrap();
    let to = store.open_family(spec(2, table())).unwrap();
    store.move_all(&from, &to, &Rows { fails: false }).unwrap();
    assert!(seen(&store, &to).is_empty());
    store.abandon_move(&from);
    for n in 0..5000u32 {
        let mut place = vec![];
        from.layout().put_cell(&[], &n.to_be_bytes(), &mut place).unwrap();
        let key = if n % 5 == 0 { vec![b'x'; n as usize % 7 + 1] } else { b"big".to_vec() };
        store.put(&from, &key, &place, n.into(), b"v", Durability::Process).unwrap();
    }
    store.move_all(&from, &to, &Rows { fails: false }).unwrap();
    let all = seen(&store, &to);
    assert_eq!(all.len(), 5000);
    assert_eq!(all, seen(&store, &from));
}
