//! `firn bench cliffs`: histories that could make an operation slow ([`firn_workload::cliffs`]), and what it costs after them.

use clap::Args;
use firn_kv::{Batch, Db, DbOptions, Snapshot, Tree, TreeOptions};
use firn_tools::output::{Done, Failure, count, listing, nanos, print_table, row};
use firn_workload::Result;
use firn_workload::cliffs::{Case, Subject, run as histories};
use serde_json::json;

use super::directory;
use super::run::failure;
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

/// A store with one tree, which makes others.
struct Firn {
    db: Db,
    tree: Tree,
}

impl Subject for Firn {
    type Snapshot<'a> = Snapshot;

    fn put(&self, key: &[u8]) -> Result<()> {
        Ok(self.tree.put(key, b"v")?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.tree.delete(key)?)
    }

    fn delete_range(&self, from: &[u8], until: &[u8]) -> Result<()> {
        Ok(self.tree.delete_range(from, until)?)
    }

    fn has(&self, key: &[u8]) -> Result<bool> {
        Ok(self.tree.get(key)?.is_some())
    }

    fn end(&self, first: bool) -> Result<Option<Vec<u8>>> {
        let mut all = self.tree.iter();
        let end = if first { all.next() } else { all.next_back() };
        Ok(end.transpose()?.map(|(key, _)| key.to_vec()))
    }

    fn flush(&self) -> Result<()> {
        Ok(self.tree.flush()?)
    }

    fn snapshot(&self) -> Snapshot {
        self.db.snapshot()
    }

    fn make_tree(&self, name: &str) -> Result<()> {
        // Many trees share what memory there is.
        self.db.tree(name, TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() })?;
        Ok(())
    }

    fn put_in_trees(&self, names: &[String]) -> Result<()> {
        let mut batch = Batch::new();
        names.iter().try_for_each(|n| batch.put(&self.db.existing_tree(n)?, b"k", b"v"))?;
        Ok(self.db.write(batch)?)
    }

    fn flush_tree(&self, name: &str) -> Result<()> {
        Ok(self.db.existing_tree(name)?.flush()?)
    }
}

fn words(f: Failure) -> String {
    match f {
        Failure::Failed { what, .. } => what,
        Failure::Engine(e) => e.to_string(),
        Failure::Found | Failure::PipeClosed => "the directory cannot be used".to_owned(),
    }
}

/// Runs it.
pub fn run(global: &Global, args: &CliffArgs) -> Done {
    if args.history < 100 {
        return Err(Failure::new("--history must be 100 at least"));
    }
    let fresh = || {
        directory::make_room(&global.db).map_err(words)?;
        let db = Db::open_with(&global.db, DbOptions::default())?;
        directory::mark(&global.db).map_err(words)?;
        let tree = db.tree("t", TreeOptions::default())?;
        Ok(Firn { db, tree })
    };
    let mut cases: Vec<Case> = vec![];
    histories(args.history, fresh, |c| {
        eprintln!("{}", c.name);
        cases.push(c);
    })
    .map_err(failure)?;
    let worst = cases.iter().map(Case::ratio).fold(0.0, f64::max);
    if global.json {
        let case = |c: &Case| json!({ "name": c.name, "normal_nanos": c.normal, "after_nanos": c.after, "ratio": c.ratio() });
        let cases: Vec<_> = cases.iter().map(case).collect();
        println!("{}", json!({ "history": args.history, "bound": args.bound, "worst": worst, "cases": cases }));
    } else {
        println!("histories of {} operations", count(args.history));
        let mut table = listing(&["operation", "normally", "after", "times"], "lrrr");
        for c in &cases {
            row(&mut table, [c.name.to_owned(), nanos(c.normal), nanos(c.after), format!("{:.1}", c.ratio())]);
        }
        print!("{}", print_table(&table, global.style()));
    }
    if worst <= args.bound {
        return Ok(());
    }
    Err(Failure::Found)
}
