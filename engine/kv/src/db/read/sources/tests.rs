//! Tests how many entries readers step over in empty ranges, first and repeatedly.

use std::ops::Bound;
use std::sync::Arc;

use crate::base::options::{DbOptions, TreeOptions};
use crate::compaction::policy::{Policy, Tiered};
use crate::env::mem::MemEnv;
use crate::iterator::visible::VisibleRange;
use crate::util::sync::epoch;

use crate::db::read::sources::visible;
use crate::db::{Db, Tree};

const N: u32 = 1_000;
/// Maximum number of entries for a scan that seeks past empty ranges.
const FEW: u64 = 70;

fn open() -> (Db, Tree) {
    let options = DbOptions { background_threads: 0, ..DbOptions::default() };
    let db = Db::open_in(Arc::new(MemEnv::new(1)), "/db", options).unwrap();
    let policy =
        Policy::Tiered(Tiered { min_runs: 32, max_runs: 64, bucket: 3.0, ..Tiered::default() });
    let tree = db.tree("t", TreeOptions { policy, ..TreeOptions::default() }).unwrap();
    (db, tree)
}

fn key(prefix: u8, i: u32) -> Vec<u8> {
    [&[prefix][..], &i.to_be_bytes()].concat()
}

/// Returns the number of entries that a scan steps over from one end of `[from, until)`, which has
/// no visible keys.
fn passed(tree: &Tree, from: &[u8], until: Option<&[u8]>, forward: bool) -> u64 {
    let end = until.map_or(Bound::Unbounded, Bound::Excluded);
    let range = VisibleRange::new(Bound::Included(from), end);
    let guard = epoch::pin();
    let (view, read) = tree.inner.consistent_view(tree.handle.inner.commit.visible(), &guard);
    let mut seen = visible(view, range, read).unwrap();
    if forward { seen.first() } else { seen.last() }.unwrap();
    assert!(!seen.valid());
    seen.passed().0
}

/// Creates keys with three prefixes; tests delete those of the second one.
fn filled() -> (Db, Tree) {
    let (db, tree) = open();
    for i in 0..N {
        (1..=3).for_each(|prefix| tree.put(key(prefix, i), b"v").unwrap());
    }
    (db, tree)
}

#[test]
fn a_scan_that_ends_in_a_covered_range_passes_it_once() {
    type Emptying = fn(&Tree);
    let cases: [(&str, Emptying, bool); 5] = [
        ("one deletion", |t| t.delete_range([2]..[3]).unwrap(), false),
        (
            "two that overlap",
            |t| {
                t.delete_range(key(2, 0)..key(2, 600)).unwrap();
                t.delete_range(key(2, 400)..key(2, N)).unwrap();
            },
            false,
        ),
        ("one of more than is looked at", |t| t.delete_range([1]..[4]).unwrap(), false),
        (
            "one over deletes",
            |t| {
                (0..N).step_by(3).for_each(|i| t.delete(key(2, i)).unwrap());
                t.delete_range([2]..[3]).unwrap();
            },
            false,
        ),
        ("one of all, and nothing behind it", |t| t.clear().unwrap(), true),
    ];
    for (name, delete, open_end) in cases {
        for in_table in [false, true] {
            for forward in [true, false] {
                let case = format!("{name}, in a table: {in_table}, forward: {forward}");
                let (db, tree) = filled();
                // The snapshot retains its versions; one table holds them and newer entries.
                let before = db.snapshot();
                delete(&tree);
                if in_table {
                    tree.put(key(0, 0), b"v").unwrap();
                    tree.flush().unwrap();
                }
                let until = if open_end { None } else { Some(&[3][..]) };
                let first = passed(&tree, &[2], until, forward);
                assert!(first > u64::from(N) / 2, "{first}: {case}");
                for forward in [forward, !forward] {
                    let again = passed(&tree, &[2], until, forward);
                    assert!(again < FEW, "{again}, then forward {forward}: {case}");
                }
                assert_eq!(before.prefix(&tree, [2]).count(), N as usize, "{case}");
                tree.put(key(2, N / 2), b"w").unwrap();
                assert_eq!(tree.prefix([2]).count(), 1, "{case}");
                assert_eq!(tree.prefix([2]).rev().count(), 1, "{case}");
            }
        }
    }
}

/// Scans from inside a covered range, each from a little further away than the last one.
#[test]
fn a_scan_that_begins_in_a_covered_range_passes_it_once() {
    for forward in [true, false] {
        let (_db, tree) = filled();
        tree.delete_range([2]..[3]).unwrap();
        let all = (0..N).map(|i| match forward {
            true => passed(&tree, &key(2, N - i), Some(&[3]), true),
            false => passed(&tree, &[2], Some(&key(2, i)), false),
        });
        let all: u64 = all.sum();
        assert!(all < 2 * u64::from(N), "{all} passed, forward: {forward}");
    }
}
