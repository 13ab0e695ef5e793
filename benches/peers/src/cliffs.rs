//! `peers cliffs`: costs of operations after histories that could make them slow, in RocksDB and
//! Firn. The other engines have no range deletions.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use firn_kv::{DbOptions, TreeOptions};
use firn_workload::Result;
use firn_workload::cliffs::{CliffCase, Subject, run};
use firn_workload::firn::FirnStore;
use firn_workload::phase::parse_count;
use rocksdb::{
    DBWithThreadMode, FlushOptions, IteratorMode, MultiThreaded, Options, SnapshotWithThreadMode,
    WriteBatch,
};

#[derive(Args)]
pub struct Cliffs {
    /// Length of the histories
    #[arg(long, default_value = "10k", value_parser = parse_count)]
    history: u64,
    /// Directory for the stores' data; each store's directory in it is deleted before and after
    #[arg(long, default_value = "peers-data")]
    dir: PathBuf,
}

type Rocks = DBWithThreadMode<MultiThreaded>;

struct RocksStore(Rocks);

impl Subject for RocksStore {
    type Snapshot<'a> = SnapshotWithThreadMode<'a, Rocks>;

    fn put(&self, key: &[u8]) -> Result<()> {
        Ok(self.0.put(key, b"v")?)
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.0.delete(key)?)
    }
    fn delete_range(&self, from: &[u8], until: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.delete_range(from, until);
        Ok(self.0.write(batch)?)
    }
    fn has(&self, key: &[u8]) -> Result<bool> {
        Ok(self.0.get_pinned(key)?.is_some())
    }
    fn end(&self, first: bool) -> Result<Option<Vec<u8>>> {
        let mut all = self.0.iterator(if first { IteratorMode::Start } else { IteratorMode::End });
        Ok(all.next().transpose()?.map(|(key, _)| key.into_vec()))
    }
    fn flush(&self) -> Result<()> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        Ok(self.0.flush_opt(&options)?)
    }
    fn snapshot(&self) -> SnapshotWithThreadMode<'_, Rocks> {
        self.0.snapshot()
    }
    fn make_tree(&self, name: &str) -> Result<()> {
        Ok(self.0.create_cf(name, &Options::default())?)
    }
    fn put_in_trees(&self, names: &[String]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for n in names {
            batch.put_cf(&self.0.cf_handle(n).ok_or("a column family is missing")?, b"k", b"v");
        }
        Ok(self.0.write(batch)?)
    }
    fn flush_tree(&self, name: &str) -> Result<()> {
        Ok(self.0.flush_cf(&self.0.cf_handle(name).ok_or("a column family is missing")?)?)
    }
}

/// Runs all cases of one engine, each history in an empty directory.
fn cases<S: Subject>(
    dir: &Path,
    n: u64,
    open: impl Fn(&Path) -> Result<S>,
) -> Result<Vec<CliffCase>> {
    let mut cases = vec![];
    let fresh = || {
        super::clear(dir)?;
        fs::create_dir_all(dir)?;
        open(dir)
    };
    run(n, fresh, |c| {
        eprintln!("{}: {}", dir.display(), c.name);
        cases.push(c);
    })?;
    super::clear(dir)?;
    Ok(cases)
}

/// Runs the bench.
pub fn main(args: &Cliffs) -> Result<()> {
    let firn = cases(&args.dir.join("peers-firn"), args.history, |dir| {
        FirnStore::open(dir, DbOptions::default(), "t", TreeOptions::default())
    })?;
    let rocks = cases(&args.dir.join("peers-rocksdb"), args.history, |dir| {
        let mut options = Options::default();
        options.create_if_missing(true);
        Ok(RocksStore(Rocks::open(&options, dir)?))
    })?;
    println!(
        "| operation | Firn normally | after | times | RocksDB normally | after | times |\n|---|---:|---:|---:|---:|---:|---:|"
    );
    let micros = |nanos: u64| format!("{:.2} us", nanos as f64 / 1000.0);
    for (f, r) in firn.iter().zip(&rocks) {
        let three = |c: &CliffCase| {
            format!("{} | {} | {:.1}", micros(c.normal), micros(c.after), c.ratio())
        };
        println!("| {} | {} | {} |", f.name, three(f), three(r));
    }
    Ok(())
}
