//! `peers small` and `peers trees`: costs of each engine for an application that embeds it
//! ([`firn_workload::embedding`]).
//!
//! All engines have their default options, except the memory budget of `trees`. Each engine, and
//! each number of trees, is measured in its own process.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use clap::{Args, ValueEnum};
use firn_kv::{DbOptions, TreeOptions};
use firn_workload::Result;
use firn_workload::embedding::{Embedded, EmbeddingStep, EmbeddingTrees, small, trees};
use firn_workload::firn::FirnEmbedded;
use firn_workload::phase::parse_count;
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use redb::{Durability, ReadableDatabase, ReadableTableMetadata, TableDefinition};
use rocksdb::{DBWithThreadMode, IteratorMode, MultiThreaded, Options};
use serde::de::DeserializeOwned;

/// Engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Firn
    Firn,
    /// redb; each put is a transaction without a sync
    Redb,
    /// fjall
    Fjall,
    /// RocksDB
    Rocksdb,
}

/// Arguments of `peers small`.
#[derive(Args)]
pub struct SmallArgs {
    /// Engines
    #[arg(long, value_enum, value_delimiter = ',', default_value = "firn,redb,fjall,rocksdb")]
    engines: Vec<Kind>,
    /// Stores, all open at once
    #[arg(long, default_value = "1k", value_parser = parse_count)]
    stores: u64,
    /// Records of each
    #[arg(long, default_value = "100", value_parser = parse_count)]
    records: u64,
    /// Directory for the stores' data; each engine's directory in it is deleted before and after
    #[arg(long, default_value = "peers-data")]
    dir: PathBuf,
    /// Print the results of one engine as JSON
    #[arg(long, hide = true)]
    json: bool,
}

/// Arguments of `peers trees`.
#[derive(Args)]
pub struct TreeArgs {
    /// Engines
    #[arg(long, value_enum, value_delimiter = ',', default_value = "firn,redb,fjall,rocksdb")]
    engines: Vec<Kind>,
    /// Numbers of trees
    #[arg(long, value_delimiter = ',', default_value = "1,60,1k", value_parser = parse_count)]
    trees: Vec<u64>,
    /// Puts, scattered over all trees
    #[arg(long, default_value = "300k", value_parser = parse_count)]
    num: u64,
    /// Memory budget in MiB, for engines with such an option
    #[arg(long, default_value_t = 256)]
    budget: usize,
    /// Directory for the stores' data; each engine's directory in it is deleted before and after
    #[arg(long, default_value = "peers-data")]
    dir: PathBuf,
    /// Print the results of one engine as JSON
    #[arg(long, hide = true)]
    json: bool,
}

struct Redb(redb::Database);

fn table(name: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

impl Redb {
    fn open(dir: &Path, cache: Option<usize>) -> Result<Redb> {
        fs::create_dir_all(dir)?;
        let mut builder = redb::Builder::new();
        if let Some(bytes) = cache {
            builder.set_cache_size(bytes);
        }
        Ok(Redb(builder.create(dir.join("redb"))?))
    }

    fn write(
        &self,
        durability: Durability,
        name: Option<&str>,
        pair: Option<(&[u8], &[u8])>,
    ) -> Result<()> {
        let mut write = self.0.begin_write()?;
        write.set_durability(durability)?;
        if let Some(name) = name {
            let mut table = write.open_table(table(name))?;
            if let Some((key, value)) = pair {
                table.insert(key, value)?;
            }
        }
        Ok(write.commit()?)
    }
}

impl Embedded for Redb {
    type Tree = String;

    fn tree(&self, name: &str) -> Result<String> {
        self.write(Durability::None, Some(name), None)?;
        Ok(name.to_owned())
    }
    fn put(&self, tree: &String, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(Durability::None, Some(tree), Some((key, value)))
    }
    fn count(&self, tree: &String) -> Result<u64> {
        let table = self.0.begin_read()?.open_table(table(tree))?;
        let walked =
            redb::ReadableTable::iter(&table)?.try_fold(0, |n, pair| pair.map(|_| n + 1))?;
        assert_eq!(walked, table.len()?);
        Ok(walked)
    }
    fn close(self) -> Result<()> {
        // The next write with a sync makes unsynced writes durable.
        self.write(Durability::Immediate, None, None)
    }
}

struct Fjall(Database);

impl Fjall {
    fn open(dir: &Path, cache: Option<usize>) -> Result<Fjall> {
        // fjall bounds each memtable separately, and their log.
        let builder = Database::builder(dir);
        let builder = match cache {
            Some(bytes) => builder.cache_size(bytes as u64),
            None => builder,
        };
        Ok(Fjall(builder.open()?))
    }
}

impl Embedded for Fjall {
    type Tree = Keyspace;

    fn tree(&self, name: &str) -> Result<Keyspace> {
        Ok(self.0.keyspace(name, KeyspaceCreateOptions::default)?)
    }
    fn put(&self, tree: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(tree.insert(key, value)?)
    }
    fn count(&self, tree: &Keyspace) -> Result<u64> {
        let mut n = 0;
        for guard in tree.iter() {
            guard.into_inner()?;
            n += 1;
        }
        Ok(n)
    }
}

struct Rocks(DBWithThreadMode<MultiThreaded>);

impl Rocks {
    fn open(dir: &Path, budget: Option<usize>) -> Result<Rocks> {
        let mut options = Options::default();
        options.create_if_missing(true);
        if let Some(bytes) = budget {
            options.set_db_write_buffer_size(bytes * 3 / 4);
        }
        let names = DBWithThreadMode::<MultiThreaded>::list_cf(&options, dir)
            .unwrap_or_else(|_| vec!["default".into()]);
        Ok(Rocks(DBWithThreadMode::open_cf(&options, dir, names)?))
    }
}

impl Embedded for Rocks {
    type Tree = String;

    fn tree(&self, name: &str) -> Result<String> {
        if self.0.cf_handle(name).is_none() {
            self.0.create_cf(name, &Options::default())?;
        }
        Ok(name.to_owned())
    }
    fn put(&self, tree: &String, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put_cf(
            &self.0.cf_handle(tree).ok_or("a column family is missing")?,
            key,
            value,
        )?)
    }
    fn count(&self, tree: &String) -> Result<u64> {
        let family = self.0.cf_handle(tree).ok_or("a column family is missing")?;
        self.0
            .iterator_cf(&family, IteratorMode::Start)
            .try_fold(0, |n, pair| pair.map(|_| n + 1).map_err(Into::into))
    }
}

impl Kind {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned())
    }

    fn small(self, dirs: &[PathBuf], records: u64) -> Result<Vec<EmbeddingStep>> {
        match self {
            Kind::Firn => small(dirs, records, |d| {
                FirnEmbedded::open(d, DbOptions::default(), TreeOptions::default())
            }),
            Kind::Redb => small(dirs, records, |d| Redb::open(d, None)),
            Kind::Fjall => small(dirs, records, |d| Fjall::open(d, None)),
            Kind::Rocksdb => small(dirs, records, |d| Rocks::open(d, None)),
        }
    }

    fn trees(self, dir: &Path, n: u64, puts: u64, budget: usize) -> Result<EmbeddingTrees> {
        let options = DbOptions { memory_budget: budget, ..DbOptions::default() };
        Ok(match self {
            Kind::Firn => {
                trees(dir, n, puts, 1, |d| {
                    FirnEmbedded::open(d, options.clone(), TreeOptions::default())
                })?
                .0
            }
            Kind::Redb => trees(dir, n, puts, 1, |d| Redb::open(d, Some(budget)))?.0,
            Kind::Fjall => trees(dir, n, puts, 1, |d| Fjall::open(d, Some(budget)))?.0,
            Kind::Rocksdb => trees(dir, n, puts, 1, |d| Rocks::open(d, Some(budget)))?.0,
        })
    }
}

/// Runs this program with these arguments and parses its JSON output.
fn apart<T: DeserializeOwned>(args: &[String]) -> Result<T> {
    let out = Command::new(env::current_exe()?).args(args).stderr(Stdio::inherit()).output()?;
    if !out.status.success() {
        return Err(format!("`peers {}` failed: {}", args.join(" "), out.status).into());
    }
    Ok(serde_json::from_slice(&out.stdout)?)
}

fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

/// Runs `peers small`.
pub fn run_small(args: &SmallArgs) -> Result<()> {
    let of = |kind: Kind| args.dir.join(format!("peers-small-{}", kind.name()));
    if let ([kind], true) = (&args.engines[..], args.json) {
        let dir = of(*kind);
        super::clear(&dir)?;
        let dirs: Vec<_> = (0..args.stores).map(|i| dir.join(format!("{i:06}"))).collect();
        dirs.iter().try_for_each(fs::create_dir_all)?;
        let steps = kind.small(&dirs, args.records)?;
        super::clear(&dir)?;
        println!("{}", serde_json::to_string(&steps)?);
        return Ok(());
    }
    println!("{} stores of {} records, all open at once; each costs:\n", args.stores, args.records);
    println!(
        "| engine | step | time | processor | memory then | threads then | disk then |\n|---|---|---:|---:|---:|---:|---:|"
    );
    for kind in &args.engines {
        let dir = args.dir.display().to_string();
        let (stores, records) = (args.stores.to_string(), args.records.to_string());
        let order = [
            "small",
            "--json",
            "--engines",
            &kind.name(),
            "--stores",
            &stores,
            "--records",
            &records,
            "--dir",
            &dir,
        ];
        let steps: Vec<EmbeddingStep> = match apart(&order.map(String::from)) {
            Ok(steps) => steps,
            Err(e) => {
                println!("| {} | {e} |", kind.name());
                continue;
            }
        };
        for s in &steps {
            let micros = |nanos: u64| format!("{} us", nanos / 1000);
            let (wall, cpu) = (micros(s.wall_nanos), micros(s.cpu_nanos));
            println!(
                "| {} | {} | {wall} | {cpu} | {} | {:.2} | {} |",
                kind.name(),
                s.name,
                bytes(s.memory),
                s.threads,
                bytes(s.disk)
            );
        }
    }
    Ok(())
}

/// Runs `peers trees`.
pub fn run_trees(args: &TreeArgs) -> Result<()> {
    if let ([kind], [n], true) = (&args.engines[..], &args.trees[..], args.json) {
        let dir = args.dir.join(format!("peers-trees-{}", kind.name()));
        super::clear(&dir)?;
        fs::create_dir_all(&dir)?;
        let costs = kind.trees(&dir, *n, args.num, args.budget << 20)?;
        super::clear(&dir)?;
        println!("{}", serde_json::to_string(&costs)?);
        return Ok(());
    }
    println!("{} puts scattered over all trees, budget {} MiB\n", args.num, args.budget);
    println!(
        "| trees | engine | make | open | idle | an idle tree | full | puts/s |\n|---:|---|---:|---:|---:|---:|---:|---:|"
    );
    for n in &args.trees {
        for kind in &args.engines {
            let (dir, trees) = (args.dir.display().to_string(), n.to_string());
            let (num, budget) = (args.num.to_string(), args.budget.to_string());
            let order = [
                "trees",
                "--json",
                "--engines",
                &kind.name(),
                "--trees",
                &trees,
                "--num",
                &num,
                "--budget",
                &budget,
                "--dir",
                &dir,
            ];
            match apart::<EmbeddingTrees>(&order.map(String::from)) {
                Ok(c) => println!(
                    "| {n} | {} | {:.2} s | {:.3} s | {} | {} | {} | {:.0} |",
                    kind.name(),
                    c.make_seconds,
                    c.open_seconds,
                    bytes(c.idle_bytes),
                    bytes(c.idle_bytes / n.max(&1)),
                    bytes(c.full_bytes),
                    c.puts_per_second,
                ),
                Err(e) => println!("| {n} | {} | {e} |", kind.name()),
            }
        }
    }
    Ok(())
}
