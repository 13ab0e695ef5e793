//! Typed calls allocate no more than the engine's calls with the same bytes.

use std::hint::black_box;

use allocation_counter::measure;
use firn_kv::Db;
use firn_typed::{Postcard, TypedTree};

/// Returns the number of allocations of a call, from 1,000 calls. The engine allocates a block of a
/// memtable or a list of garbage now and then: these are less than one in 20 calls.
fn per_call(mut call: impl FnMut(u64)) -> u64 {
    call(0);
    let all = measure(|| (0..1000).for_each(&mut call)).count_total;
    assert!(all % 1000 < 50, "{all} allocations of 1,000 calls");
    all / 1000
}

#[test]
fn integers_are_put_and_read_without_an_allocation() {
    let typed: TypedTree<u64, u64> = TypedTree::open(&Db::in_memory().unwrap(), "t").unwrap();
    assert_eq!(per_call(|n| typed.put(&n, &n).unwrap()), 0);
    assert_eq!(per_call(|n| assert_eq!(typed.get(&n).unwrap(), Some(n))), 0);
}

#[test]
fn strings_and_short_tuples_are_not_copied() {
    let db = Db::in_memory().unwrap();
    let names: TypedTree<String, String> = TypedTree::open(&db, "names").unwrap();
    let long = "x".repeat(1000);
    names.put(&long, &long).unwrap();
    assert_eq!(per_call(|_| assert!(names.contains(&long).unwrap())), 0);
    assert_eq!(
        per_call(|_| assert_eq!(names.get_with(&long, |name| name.len()).unwrap(), Some(1000))),
        0
    );
    assert_eq!(per_call(|_| assert!(names.get(&long).unwrap().is_some())), 1, "the String itself");

    let pairs: TypedTree<(String, u64), Postcard<(u8, char)>> =
        TypedTree::open(&db, "pairs").unwrap();
    pairs.put(&("ann", 7), &(1, 'ä')).unwrap();
    assert_eq!(per_call(|_| assert_eq!(pairs.get(&("ann", 7)).unwrap(), Some((1, 'ä')))), 0);
}

#[test]
fn a_scan_with_views_allocates_as_the_engine_does() {
    let db = Db::in_memory().unwrap();
    let tree: TypedTree<(String, u64), String> = TypedTree::open(&db, "t").unwrap();
    for n in 0..1000u64 {
        tree.put(&("ann", n), "a value").unwrap();
    }
    let typed = || {
        let sum = tree.iter().map_views(|key, value| key.1 + value.len() as u64);
        black_box(sum.map(Result::unwrap).sum::<u64>());
    };
    let raw = || {
        let sum = tree.tree().iter().map(|item| item.unwrap().1.len());
        black_box(sum.sum::<usize>());
    };
    raw();
    assert_eq!(measure(typed).count_total, measure(raw).count_total);
}
