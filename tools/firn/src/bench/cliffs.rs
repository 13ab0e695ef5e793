//! `firn bench cliffs`: histories that could make an operation slow, and what it costs after them, as a ratio to what it costs without.
//!
//! Invariant: both figures of a ratio are of the same run and the same operation, on a store of their own; what is read is checked.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use firn_kv::env::Env;
use firn_kv::env::os::OsEnv;
use firn_kv::{Batch, Db, DbOptions, Tree, TreeOptions};
use firn_tools::output::{Done, Failure, count, listing, nanos, print_table, row};
use serde_json::json;

use super::directory;
use crate::store::Global;

/// What `firn bench cliffs` takes of its own.
#[derive(Args, Clone, Debug)]
pub struct CliffArgs {
    /// cliffs: how many times its normal cost an operation may take; above it the exit code is 1
    #[arg(long, value_name = "TIMES", default_value_t = 20.0)]
    bound: f64,
    /// cliffs: how long the histories are
    #[arg(long, value_name = "OPERATIONS", default_value = "10k", value_parser = firn_workload::spec::parse_count)]
    history: u64,
}

/// A history, and an operation before and after it.
struct Case {
    name: &'static str,
    /// The least cost of an operation without and with the history, in nanoseconds.
    normal: u64,
    after: u64,
}

impl Case {
    fn ratio(&self) -> f64 {
        self.after as f64 / self.normal.max(1) as f64
    }
}

struct Bench<'a> {
    env: Arc<dyn Env>,
    dir: &'a Path,
    n: u64,
    cases: Vec<Case>,
}

fn key(i: u64) -> Vec<u8> {
    format!("{i:016}").into_bytes()
}

fn expect(right: bool, what: &str) -> Done {
    if right { Ok(()) } else { Err(Failure::new(format!("a wrong answer: {what}"))) }
}

impl Bench<'_> {
    /// An empty store.
    fn fresh(&self) -> Done<(Db, Tree)> {
        directory::make_room(self.dir)?;
        let db = Db::open_with(self.dir, DbOptions::default())?;
        directory::mark(self.dir)?;
        let tree = db.tree("t", TreeOptions::default())?;
        Ok((db, tree))
    }

    /// Nanoseconds of one operation: the median of nine rounds, so that a busy neighbour counts for little.
    fn time(&self, each: u64, mut op: impl FnMut(u64) -> Done) -> Done<u64> {
        let mut rounds = vec![];
        for round in 0..9 {
            let from = self.env.monotonic_nanos();
            (round * each..(round + 1) * each).try_for_each(&mut op)?;
            rounds.push((self.env.monotonic_nanos() - from) / each);
        }
        rounds.sort_unstable();
        Ok(rounds[4])
    }

    fn note(&mut self, name: &'static str, normal: u64, after: u64) {
        eprintln!("{name}");
        self.cases.push(Case { name, normal, after });
    }

    fn range_deletions(&mut self) -> Done {
        let n = self.n;
        let (_db, t) = self.fresh()?;
        t.put(&key(n), b"v")?;
        let get = |_| expect(t.get(&key(n))?.is_some(), "a key that no deletion covers");
        let normal = self.time(200, get)?;
        let add = |i: u64| t.delete_range(&key(i % n), &key(i % n + 1));
        let first = self.time(20, |i| Ok(add(i)?))?;
        (0..n).try_for_each(add)?;
        let after = self.time(200, |i| {
            add(i)?;
            get(i)
        })?;
        let last = self.time(20, |i| Ok(add(i)?))?;
        self.note("a get and a range deletion by turns, after many of them", normal + first, after);
        self.note("a range deletion after many", first, last);

        let (_db, t) = self.fresh()?;
        t.put(&key(2 * n + 1), b"v")?;
        let get = |_| expect(t.get(&key(2 * n + 1))?.is_some(), "a key that no deletion covers");
        let normal = self.time(200, get)?;
        (0..n).try_for_each(|i| t.delete_range(&key(i), &key(2 * n - i)))?;
        let after = self.time(200, |_| expect(t.get(&key(n))?.is_none(), "a key that all deletions cover"))?;
        self.note("a get beneath nested range deletions", normal, after);
        t.flush()?;
        let after = self.time(200, |_| expect(t.get(&key(n))?.is_none(), "a key that all deletions cover"))?;
        self.note("the same in a table", normal, after);
        Ok(())
    }

    fn queue(&mut self) -> Done {
        let n = self.n;
        let (_db, t) = self.fresh()?;
        (0..2 * n).try_for_each(|i| t.put(&key(i), b"v"))?;
        let first = |i: u64| expect(t.iter().next().transpose()?.is_some_and(|(k, _)| *k == *key(i)), "the head of a queue");
        let normal = self.time(50, |_| first(0))?;
        (0..n).try_for_each(|i| t.delete(&key(i)))?;
        first(n)?;
        let after = self.time(50, |_| first(n))?;
        self.note("the head of a queue after many deletes", normal, after);
        t.flush()?;
        let after = self.time(50, |_| first(n))?;
        self.note("the same in a table", normal, after);
        Ok(())
    }

    fn versions(&mut self) -> Done {
        let (_db, t) = self.fresh()?;
        t.put(b"a", b"v")?;
        t.put(b"b", b"v")?;
        let get = |_| expect(t.get(b"b")?.is_some(), "a key of many versions");
        let last = |_| expect(t.iter().next_back().is_some(), "the last key");
        let (get_normal, last_normal) = (self.time(200, get)?, self.time(50, last)?);
        (0..self.n).try_for_each(|_| t.put(b"b", b"v"))?;
        let (get_after, last_after) = (self.time(200, get)?, self.time(50, last)?);
        self.note("a get of a key of many versions", get_normal, get_after);
        self.note("the last key, of many versions", last_normal, last_after);
        Ok(())
    }

    fn trees(&mut self) -> Done {
        let n = (self.n / 20).max(10);
        let (db, _) = self.fresh()?;
        let options = || TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() };
        let make = |from: u64| move |i: u64| format!("{:06}", from + i);
        let (db, name) = (&db, make(0));
        let made = self.time(2, |i| db.tree(&name(i), options()).map(drop).map_err(Into::into))?;
        let put = self.time(2, |i| Ok(db.existing_tree(&name(i))?.put(b"k", b"v")?))?;
        let flush = self.time(2, |i| Ok(db.existing_tree(&name(i))?.flush()?))?;
        (18..n).try_for_each(|i| db.tree(&name(i), options()).map(drop))?;
        let name = make(n);
        let made_after = self.time(2, |i| db.tree(&name(i), options()).map(drop).map_err(Into::into))?;
        let put_after = self.time(2, |i| Ok(db.existing_tree(&name(i))?.put(b"k", b"v")?))?;
        let flush_after = self.time(2, |i| Ok(db.existing_tree(&name(i))?.flush()?))?;
        self.note("a tree is made after many", made, made_after);
        self.note("the first put into it", put, put_after);
        self.note("its flush", flush, flush_after);
        let trees: Vec<Tree> = (0..n).map(|i| db.existing_tree(&make(0)(i))).collect::<Result<_, _>>()?;
        let write = |count: usize| {
            let mut batch = Batch::new();
            trees
                .iter()
                .cycle()
                .take(n as usize)
                .enumerate()
                .try_for_each(|(i, _)| batch.put(&trees[i % count], b"k", b"v"))?;
            db.write(batch).map_err(Failure::from)
        };
        let (one, many) = (self.time(1, |_| write(1))?, self.time(1, |_| write(n as usize))?);
        self.note("a batch over many trees, against one over one", one, many);
        Ok(())
    }

    fn snapshots(&mut self) -> Done {
        let (db, t) = self.fresh()?;
        t.put(b"k", b"v")?;
        let take = |_| {
            drop(db.snapshot());
            Ok(())
        };
        let normal = self.time(50, take)?;
        let mut held = vec![];
        for i in 0..self.n {
            t.put(&key(i), b"v")?;
            held.push(db.snapshot());
        }
        let after = self.time(50, take)?;
        self.note("a snapshot taken and dropped beside many", normal, after);
        Ok(())
    }
}

/// Runs it.
pub fn run(global: &Global, args: &CliffArgs) -> Done {
    if args.history < 100 {
        return Err(Failure::new("--history must be 100 at least"));
    }
    let mut bench = Bench { env: OsEnv::new(), dir: &global.db, n: args.history, cases: vec![] };
    bench.range_deletions()?;
    bench.queue()?;
    bench.versions()?;
    bench.trees()?;
    bench.snapshots()?;
    let worst = bench.cases.iter().map(Case::ratio).fold(0.0, f64::max);
    if global.json {
        let case = |c: &Case| json!({ "name": c.name, "normal_nanos": c.normal, "after_nanos": c.after, "ratio": c.ratio() });
        let cases: Vec<_> = bench.cases.iter().map(case).collect();
        println!("{}", json!({ "history": args.history, "bound": args.bound, "worst": worst, "cases": cases }));
    } else {
        println!("histories of {} operations", count(args.history));
        let mut table = listing(&["operation", "normally", "after", "times"], "lrrr");
        for c in &bench.cases {
            row(&mut table, [c.name.to_owned(), nanos(c.normal), nanos(c.after), format!("{:.1}", c.ratio())]);
        }
        print!("{}", print_table(&table, global.style()));
    }
    if worst <= args.bound {
        return Ok(());
    }
    Err(Failure::Found)
}
