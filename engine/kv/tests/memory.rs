//! Measures the process's memory as the operating system reports it. Many trees stay within the
//! budget, and idle trees use little memory.
//!
//! Each case runs in a separate process, because allocations of other tests would be counted.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "the test reads the process's memory from the operating system"
)]

use std::path::PathBuf;

use firn_kv::{Batch, Db, DbOptions, Tree, TreeOptions};
use firn_testkit::process;
use firn_testkit::rng::Rng;

/// Memory that the process uses beyond the budget, in bytes. It covers the heap before the store is
/// opened, stacks, and buffers of tables that are being written.
const SLACK: u64 = 6 << 20;
const CASE: &str = "FIRN_MEMORY_CASE";

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        Dir(std::env::temp_dir().join(format!("firn-{name}-{}", std::process::id())))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the anonymous memory of this process in bytes.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Runs one test of this file again, with one case, in a separate process.
fn apart(test: &str, case: u64) {
    process::check(process::command(test).env(CASE, case.to_string()));
}

fn case() -> Option<u64> {
    std::env::var(CASE).ok().map(|c| c.parse().unwrap())
}

fn make(db: &Db, n: usize) -> Vec<Tree> {
    db.trees((0..n).map(|i| (format!("t{i}"), TreeOptions::default()))).unwrap()
}

#[test]
fn any_number_of_trees_stays_within_the_budget() {
    let Some(case) = case() else {
        return (0..4)
            .for_each(|c| apart("memory::any_number_of_trees_stays_within_the_budget", c));
    };
    let mut rng = Rng::new(case);
    let budget = (16u64 << 20) << rng.below(2);
    let n = [1, 60, 300, 1 + rng.below(100) as usize][case as usize];
    let (dir, longest) = (Dir::new("memory"), 64 << rng.below(7));
    let db =
        Db::open_with(&dir.0, DbOptions { memory_budget: budget as usize, ..DbOptions::default() })
            .unwrap();
    let (trees, value) = (make(&db, n), vec![7; longest]);
    let (mut written, mut most) = (0, 0);
    let mut puts = 0u64;
    while written < 2 * budget && puts < 150_000 {
        let mut batch = Batch::new();
        for _ in 0..rng.below(8) + 1 {
            // A few trees receive most of the data.
            let t = if rng.one_in(2) { rng.below(n as u64) % 4 } else { rng.below(n as u64) }
                as usize
                % n;
            let len = rng.below(longest as u64 + 1) as usize;
            batch.put(&trees[t], &rng.next_u64().to_be_bytes(), &value[..len]).unwrap();
            written += 8 + len as u64;
            puts += 1;
        }
        db.write(batch).unwrap();
        if puts % 64 < 8 {
            most = anonymous().max(most);
        }
    }
    let said = db.stats().memory;
    assert!(
        most <= budget + budget / 10 + SLACK,
        "{n} trees, values up to {longest}, budget {budget}: {most} bytes of anonymous memory; the store reports {said:?}"
    );
    assert!(said.memtables <= budget, "{said:?}");
}

/// Tests what the docs of [`DbOptions::memory_budget`] promise for budgets that are too small.
/// Trees exceed such a budget by their minimum, and puts do not cause one flush each.
#[test]
fn thousands_of_trees_take_what_they_need_at_least() {
    const NAME: &str = "memory::thousands_of_trees_take_what_they_need_at_least";
    let Some(case) = case() else { return (0..3).for_each(|c| apart(NAME, c)) };
    let (n, budget, puts) =
        [(10_000, 64 << 20, 100_000), (3_000, 16 << 20, 60_000), (1_000, 8 << 20, 60_000)]
            [case as usize];
    let (mut rng, dir) = (Rng::new(case), Dir::new("memory-thousands"));
    let db =
        Db::open_with(&dir.0, DbOptions { memory_budget: budget as usize, ..DbOptions::default() })
            .unwrap();
    let trees = make(&db, n);
    let mut over = 0;
    for i in 0..puts {
        trees[rng.below(n as u64) as usize].put(rng.next_u64().to_be_bytes(), [7; 100]).unwrap();
        // Collecting statistics of thousands of trees takes as long as hundreds of puts.
        if i % 512 == 0 {
            // Compactions remove tables at unpredictable times.
            let least = n as u64 * (7 << 10) + budget / 2 + db.stats().memory.tables;
            over = anonymous().saturating_sub(least.max(budget)).max(over);
        }
    }
    let stats = db.stats();
    assert!(
        over <= budget / 10 + SLACK,
        "{n} trees, budget {budget}: {over} bytes over the limit; the store reports {:?}",
        stats.memory
    );
    assert!(
        stats.flushes <= puts / 10,
        "{n} trees, budget {budget}: {} flushes for {puts} puts",
        stats.flushes
    );
}

#[test]
fn trees_at_rest_cost_little() {
    const TREES: usize = 500;
    let Some(_) = case() else { return apart("memory::trees_at_rest_cost_little", 0) };
    let dir = Dir::new("memory-idle");
    let db = Db::open_with(&dir.0, DbOptions::default()).unwrap();
    make(&db, TREES);
    drop(db);
    let before = anonymous();
    let db = Db::open_with(&dir.0, DbOptions::default()).unwrap();
    let trees: Vec<Tree> =
        (0..TREES).map(|i| db.existing_tree(&format!("t{i}")).unwrap()).collect();
    let each = anonymous().saturating_sub(before) / TREES as u64;
    assert!(each < 16 << 10, "{each} bytes per tree");
    let said = db.stats().memory.memtables / TREES as u64;
    assert!(said < 1024, "{said} bytes per tree, as reported by the store");
    // One small put into each tree takes only a small allocation.
    trees.iter().for_each(|t| t.put(b"k", b"v").unwrap());
    let each = anonymous().saturating_sub(before) / TREES as u64;
    assert!(each < 32 << 10, "{each} bytes per tree after one write to each");
}

/// An allocator retains freed memory, and allocations of other sizes may never reuse it.
#[test]
fn memory_that_many_memtables_have_outgrown_is_given_back() {
    const TREES: usize = 2000;
    let Some(_) = case() else {
        return apart("memory::memory_that_many_memtables_have_outgrown_is_given_back", 0);
    };
    let dir = Dir::new("memory-outgrown");
    let db = Db::open_with(&dir.0, DbOptions { memory_budget: 128 << 20, ..DbOptions::default() })
        .unwrap();
    let trees = make(&db, TREES);
    let (idle, before) = (anonymous(), db.stats().memory.memtables);
    trees.iter().for_each(|t| t.put(b"first", [7; 1000]).unwrap());
    for k in 0..5u8 {
        trees.iter().for_each(|t| t.put([k], [7; 2500]).unwrap());
    }
    let (more, said) = (anonymous().saturating_sub(idle), db.stats().memory.memtables - before);
    assert_eq!(db.stats().flushes, 0, "all data is still in memory");
    assert!(
        more <= said + said / 10 + (4 << 20),
        "{more} more bytes of anonymous memory; the store reports {said}"
    );
}

#[test]
fn an_opening_stays_within_the_budget_whatever_the_log_holds() {
    const NAME: &str = "memory::an_opening_stays_within_the_budget_whatever_the_log_holds";
    const MAKE: &str = "FIRN_MEMORY_MAKE";
    let Some(case) = case() else { return (0..3).for_each(|c| apart(NAME, c)) };
    let mut rng = Rng::new(case);
    let n = [1, 60, 1 + rng.below(200) as usize][case as usize];
    let budget = (16usize << 20) << rng.below(2);
    if let Ok(dir) = std::env::var(MAKE) {
        // All data stays in the log.
        let options =
            DbOptions { memory_budget: 1 << 30, background_threads: 0, ..DbOptions::default() };
        let db = Db::open_with(dir, options).unwrap();
        let trees = make(&db, n);
        let mut written = 0;
        while written < 3 * budget {
            let t = rng.below(n as u64) as usize;
            let len = rng.below(2000) as usize;
            trees[t].put(rng.next_u64().to_be_bytes(), vec![7; len]).unwrap();
            written += 8 + len;
        }
        assert_eq!(db.stats().flushes, 0);
        return;
    }
    let dir = Dir::new("memory-replay");
    process::check(process::command(NAME).env(CASE, case.to_string()).env(MAKE, &dir.0));
    let done = std::sync::atomic::AtomicBool::new(false);
    let (db, most) = std::thread::scope(|s| {
        let most = s.spawn(|| {
            let mut most = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                most = anonymous().max(most);
                std::thread::park_timeout(std::time::Duration::from_millis(2));
            }
            most
        });
        let options = DbOptions { memory_budget: budget, ..DbOptions::default() };
        let db = Db::open_with(&dir.0, options);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        (db.unwrap(), most.join().unwrap())
    });
    let budget = budget as u64;
    let said = db.stats().memory;
    assert!(
        most <= budget + budget / 10 + SLACK,
        "{n} trees, budget {budget}: {most} bytes of anonymous memory; the store reports {said:?}"
    );
}
