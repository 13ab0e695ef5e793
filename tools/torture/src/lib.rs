//! `firn torture`: runs random work on a store, kills it at random moments, and compares it with
//! its expected content.
//!
//! `supervise` starts a process for each cycle (`child`), kills it, and reports. `plan` draws the
//! settings of a cycle, `steps` the operations of its threads. `work` executes them: `writes` and
//! `others`, with CQL in `tables` and `roles`. A `client` sends CQL to a session or to the server
//! of the cycle (`served`). `journal` and `expected` outlive the process, and `check` compares.
//!
//! Checks:
//! - At each open, every key of every tree with known content, byte for byte. So no acknowledged
//!   write is lost, no data is invented, and unacknowledged steps are complete or absent.
//! - During the work, each read, range, cursor and snapshot of the threads.
//! - Batches and transactions of all threads, by invariants: two trees that are always alike, and a
//!   constant sum of money.
//! - Concurrent checkpoints, by opening them.
//!
//! Acknowledgements of a server count like those of a session. Misbehaving clients must not break
//! other connections, and a stopping server must not leave an answer incomplete.

mod check;
mod child;
mod client;
mod error;
mod expected;
mod guest;
mod journal;
mod layout;
mod others;
mod plan;
mod roles;
mod served;
mod steps;
mod supervise;
mod tables;
mod work;
mod worker;
mod writes;

use std::path::Path;

use clap::Args;
use firn_kv::Result;
use firn_kv::{Env, OsEnv};
use firn_tools::options::StoreArgs;
use firn_tools::output::{Done, Failure};
use serde_json::json;

use error::CheckError;
use plan::{Faults, TortureSettings};

/// Directory of the store within that of the run.
const STORE: &str = "store";
/// Directory of a checkpoint with which the next cycle continues.
const NEXT: &str = "next";

/// Text after the options in `firn torture --help`.
pub const EXAMPLES: &str = "\
Each cycle is a separate process. It opens the store with randomly drawn options and compares all of it with the expected state. Its
threads write, read, range, snapshot, transact, ingest, drop ranges, flush, compact, change options, create and drop trees, use CQL on
tables with an index, counters and roles, and make checkpoints. Then the process is killed (seven times in ten), dies at an operation on
its files, or closes the store. In half of the cycles a server runs over the store, and most CQL statements use connections to it, with
and without logins. Other clients disconnect in the middle of a request or do not read. Some of the cycles that close stop their server
while all threads work.

The expected state is next to the store, in DIR, and a later run continues with it. --seed repeats options and steps; the moments of
kills and the order of threads depend on the machine (less with --threads 1).

After a difference, the run ends with exit code 1, prints the expected and the found data, and leaves DIR unchanged.

Examples:
  firn --db /tmp/torture torture                            one minute
  firn --db /tmp/torture torture --seconds 7200             continue for two hours
  firn --db /tmp/full torture --faults full --seed 7        with a disk that is sometimes full
  firn --db /tmp/bad torture --faults all --keep            with failing syncs and writes; copies the store before each opening";

/// Arguments of `firn torture`.
#[derive(Args, Clone, Debug)]
pub struct TortureArgs {
    /// Run for this many seconds
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Run at most this many cycles
    #[arg(long, value_name = "N")]
    cycles: Option<u64>,
    /// Use this random seed (for a new directory) [default: a random one]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Use at most this many threads per cycle (for a new directory)
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// Use this many keys per shard and tree (for a new directory)
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    keys: u32,
    /// Use this many shards, the parts of the keys that one thread writes (for a new directory)
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    shards: u32,
    /// Let the threads of a cycle work for at most this many milliseconds (for a new directory)
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u64).range(50..=3_600_000))]
    millis: u64,
    /// Inject these disk failures (for a new directory)
    #[arg(long, value_enum, default_value = "none")]
    faults: Faults,
    /// Fail if a thread takes more than this many seconds for one step
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    patience: u64,
    /// Copy the store before each opening, to DIR/before
    #[arg(long)]
    keep: bool,
    /// Run this cycle as a child process
    #[arg(long, value_name = "N", hide = true)]
    cycle: Option<u64>,
}

/// Runs `firn torture`.
pub fn run(store: &StoreArgs, args: &TortureArgs) -> Done {
    let env = OsEnv::new();
    let settings = settings(&*env, &store.db, args)?;
    let Some(cycle) = args.cycle else { return supervise::run(store, args, &settings, &*env) };
    match child::run(&settings, &store.db, cycle) {
        Ok(()) => Ok(()),
        Err(error) => {
            let what = match error {
                CheckError::Wrong(what) => what,
                CheckError::Failed(e) => format!("the torture itself cannot go on: {e}"),
            };
            println!("{}", json!({ "event": "wrong", "what": what }));
            Err(Failure::Found)
        }
    }
}

/// Returns the settings of the run in `dir`: its stored ones, or those of the arguments for a new
/// run.
fn settings(env: &dyn Env, dir: &Path, args: &TortureArgs) -> Done<TortureSettings> {
    let path = dir.join("torture.json");
    if env.file_len(&path).is_ok() {
        let text = env.read_all(&path, 1 << 16)?;
        let settings =
            serde_json::from_slice(&text).ok().and_then(|v| TortureSettings::from_json(&v));
        return settings.ok_or_else(|| {
            Failure::with_next(
                format!("{} is not of a run of firn torture", path.display()),
                "name another directory with --db",
            )
        });
    }
    if env.list(dir).is_ok_and(|names| !names.is_empty()) {
        return Err(Failure::with_next(
            format!("{} is not empty, and no run of firn torture was begun in it", dir.display()),
            "name an empty or a new directory with --db; everything in it will be overwritten",
        ));
    }
    let settings = TortureSettings {
        seed: args.seed.unwrap_or_else(|| env.random() >> 24),
        shards: args.shards.max(args.threads as u32),
        keys: args.keys,
        threads: args.threads,
        millis: args.millis,
        faults: args.faults,
    };
    env.create_dir_all(dir)?;
    env.create(&path)?.append(format!("{}\n", settings.to_json()).as_bytes())?;
    Ok(settings)
}

/// Removes a store if it exists: its directory and the files in it.
fn remove_store(env: &dyn Env, dir: &Path) -> Result<()> {
    let Ok(names) = env.list(dir) else { return Ok(()) };
    for name in names {
        env.remove(&dir.join(name))?;
    }
    env.remove_dir(dir)
}
