//! `firn bench queue`: the first read after many deletions, without earlier readers or compactions,
//! compared with the same read in a tree without deletions; and a published recipe of scans among
//! deletions.
//!
//! Each read runs once in its own tree, so a result is the median of one tree per round.

use clap::{Args, ValueEnum};
use firn_kv::policy::Tiered;
use firn_kv::{Db, DbOptions, Policy, Tree, TreeOptions};
use firn_tools::io::Stopwatch;
use firn_tools::output::{Done, Failure, count, listing, nanos, print_table, rate, row};
use firn_workload::firn::FirnStore;
use firn_workload::keys::Permutation;
use firn_workload::recipe::{Scans, scans_among_deletions};
use serde_json::json;

use crate::Setting;
use crate::directory;
use crate::run::failure;

/// Options of `firn bench queue`.
#[derive(Args, Clone, Debug)]
pub struct QueueArgs {
    /// queue: Deletions before the searched key
    #[arg(long, value_name = "DELETIONS", default_value = "100k", value_parser = firn_workload::phase::parse_count)]
    deletions: u64,
    /// queue: Trees per result
    #[arg(long, value_name = "ROUNDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// queue: Orders of deletions
    #[arg(long, value_name = "ORDERS", value_enum, value_delimiter = ',', default_values_t = DeleteOrder::value_variants().iter().copied())]
    orders: Vec<DeleteOrder>,
    /// queue: Number of queues of the order `queues`
    #[arg(long, value_name = "QUEUES", default_value = "10", value_parser = firn_workload::phase::parse_count)]
    queues: u64,
    /// queue: Keys of the published recipe; 0 skips it
    #[arg(long, value_name = "KEYS", default_value = "1m", value_parser = firn_workload::phase::parse_count)]
    recipe: u64,
    /// queue: Duration of each step of the recipe
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    recipe_seconds: u64,
}

/// Location of puts and deletes at the time of the read.
#[derive(Clone, Copy, PartialEq)]
enum QueueState {
    Memory,
    DeletesInMemory,
    Tables,
    Reopened,
}

const STATES: [(QueueState, &str); 4] = [
    (QueueState::Memory, "all in memory"),
    (QueueState::DeletesInMemory, "deletes in memory, puts in tables"),
    (QueueState::Tables, "both in tables, nothing merged"),
    (QueueState::Reopened, "deletes in the log, reopened"),
];

/// Order of deletes.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum DeleteOrder {
    /// From the head
    Head,
    /// From the tail
    Tail,
    /// Several queues in turn, each from its head
    Queues,
    /// In any order
    Any,
    /// From the head, but one in 1,000 stays
    Survivors,
}

impl DeleteOrder {
    fn words(self, queues: u64) -> String {
        match self {
            DeleteOrder::Head => "from the head".into(),
            DeleteOrder::Tail => "from the tail".into(),
            DeleteOrder::Queues => format!("{} queues in turn", count(queues)),
            DeleteOrder::Any => "in any order".into(),
            DeleteOrder::Survivors => "one in 1,000 stays".into(),
        }
    }
}

struct QueueCase {
    order: String,
    state: &'static str,
    forward: bool,
    normal: u64,
    first: u64,
}

impl QueueCase {
    fn ratio(&self) -> f64 {
        self.first as f64 / self.normal.max(1) as f64
    }
}

fn key(queue: u64, i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&queue.to_be_bytes());
    key[8..].copy_from_slice(&i.to_be_bytes());
    key
}

/// Disables compaction, so that runs accumulate.
fn options(deletions: u64) -> TreeOptions {
    let policy =
        Policy::Tiered(Tiered { min_runs: 64, max_runs: 64, bucket: 2.0, ..Tiered::default() });
    TreeOptions {
        policy,
        memtable_size: (64 << 20) + 512 * deletions as usize,
        ..TreeOptions::default()
    }
}

fn open(setting: &Setting<'_>) -> Done<Db> {
    Ok(Db::open_with(
        &setting.store.db,
        DbOptions { memory_budget: 4 << 30, ..DbOptions::default() },
    )?)
}

struct QueueHistory {
    n: u64,
    order: DeleteOrder,
    queues: u64,
    state: QueueState,
}

impl QueueHistory {
    fn queues(&self) -> u64 {
        if self.order == DeleteOrder::Queues { self.queues } else { 1 }
    }

    /// Returns the number of keys of each queue that are or may be deleted: those between the
    /// first, 0, and the last.
    fn each(&self) -> u64 {
        self.n / self.queues()
    }

    fn fill(&self, tree: &Tree) -> Done {
        for i in 0..self.each() + 2 {
            (0..self.queues()).try_for_each(|q| tree.put(&key(q, i), &[b'v'; 100]))?;
        }
        if self.state == QueueState::DeletesInMemory || self.state == QueueState::Tables {
            tree.flush()?;
        }
        Ok(())
    }

    fn delete(&self, tree: &Tree) -> Done {
        let each = self.each();
        let all: Box<dyn Iterator<Item = u64>> = match self.order {
            DeleteOrder::Head | DeleteOrder::Queues => Box::new(1..=each),
            DeleteOrder::Tail => Box::new((1..=each).rev()),
            DeleteOrder::Any => {
                let order = Permutation::new(each, 1);
                Box::new((0..each).map(move |i| order.at(i) + 1))
            }
            DeleteOrder::Survivors => Box::new((1..=each).filter(|i| i % 1000 != 0)),
        };
        for i in all {
            (0..self.queues()).try_for_each(|q| tree.delete(&key(q, i)))?;
        }
        if self.state == QueueState::Tables {
            tree.flush()?;
        }
        Ok(())
    }

    /// Returns the nanoseconds of the first read.
    fn look(&self, tree: &Tree, forward: bool) -> Done<u64> {
        let (queue, last) = (self.queues() / 2, self.each() + 1);
        let watch = Stopwatch::start();
        let found = match forward {
            true => tree.range(key(queue, 1)..).next(),
            false => tree.range(key(queue, 0)..key(queue, last)).next_back(),
        };
        let took = watch.nanos();
        found.transpose()?.ok_or_else(|| Failure::new("a read has found nothing"))?;
        Ok(took)
    }

    /// Measures one read in a new tree and store, with or without deletes.
    fn round(&self, setting: &Setting<'_>, with_deletes: bool, forward: bool) -> Done<u64> {
        setting.make_room(&setting.store.db)?;
        let db = open(setting)?;
        directory::mark(&setting.store.db)?;
        let tree = db.tree("t", options(self.n))?;
        self.fill(&tree)?;
        if with_deletes {
            self.delete(&tree)?;
        } else if self.state == QueueState::Tables {
            tree.flush()?;
        }
        if self.state != QueueState::Reopened {
            return self.look(&tree, forward);
        }
        drop((tree, db));
        let db = open(setting)?;
        self.look(&db.tree("t", options(self.n))?, forward)
    }

    fn median(
        &self,
        setting: &Setting<'_>,
        rounds: u64,
        with_deletes: bool,
        forward: bool,
    ) -> Done<u64> {
        let mut all = (0..rounds)
            .map(|_| self.round(setting, with_deletes, forward))
            .collect::<Done<Vec<u64>>>()?;
        all.sort_unstable();
        Ok(all[all.len() / 2])
    }
}

/// Runs the recipe on its own tree.
fn recipe(setting: &Setting<'_>, args: &QueueArgs) -> Done<Vec<Scans>> {
    setting.make_room(&setting.store.db)?;
    let db = open(setting)?;
    directory::mark(&setting.store.db)?;
    let tree = db.tree("t", options(0))?;
    let store = FirnStore::of(db, tree, &setting.store.db);
    scans_among_deletions(&store, args.recipe, args.recipe_seconds).map_err(failure)
}

/// Runs the bench.
pub fn run(setting: &Setting<'_>, args: &QueueArgs) -> Done {
    if args.deletions < 100 {
        return Err(Failure::new("--deletions must be 100 at least"));
    }
    if !(1..=args.deletions / 10).contains(&args.queues) {
        return Err(Failure::new(format!(
            "--queues must be 1 to {}, a tenth of --deletions",
            args.deletions / 10
        )));
    }
    let mut cases = vec![];
    for &order in &args.orders {
        let words = order.words(args.queues);
        for (state, state_name) in STATES {
            let history = QueueHistory { n: args.deletions, order, queues: args.queues, state };
            for forward in [true, false] {
                let normal = history.median(setting, args.rounds, false, forward)?;
                let first = history.median(setting, args.rounds, true, forward)?;
                eprintln!("{words}, {state_name}: {} and {}", nanos(normal), nanos(first));
                cases.push(QueueCase {
                    order: words.clone(),
                    state: state_name,
                    forward,
                    normal,
                    first,
                });
            }
        }
    }
    let scans = if args.recipe > 0 { recipe(setting, args)? } else { vec![] };
    if setting.store.json {
        let case = |c: &QueueCase| json!({"order": c.order, "state": c.state, "forward": c.forward, "normal_nanos": c.normal, "first_nanos": c.first, "ratio": c.ratio()});
        let cases: Vec<_> = cases.iter().map(case).collect();
        println!("{}", json!({"deletions": args.deletions, "cases": cases, "recipe": scans}));
        return Ok(());
    }
    println!(
        "the first look behind {} deletions; normally: where nothing was deleted",
        count(args.deletions)
    );
    let mut table =
        listing(&["deleted", "where", "direction", "normally", "first look", "times"], "lllrrr");
    for c in &cases {
        let direction = if c.forward { "forward" } else { "backward" };
        let times = format!("{:.1}", c.ratio());
        row(
            &mut table,
            [
                c.order.clone(),
                c.state.to_owned(),
                direction.to_owned(),
                nanos(c.normal),
                nanos(c.first),
                times,
            ],
        );
    }
    print!("{}", print_table(&table, setting.store.style()));
    if !scans.is_empty() {
        println!("\nscans of 100 keys by 8 threads, {} keys", count(args.recipe));
        let mut table = listing(&["deletions", "direction", "scans"], "rlr");
        for s in scans {
            let direction = if s.forward { "forward" } else { "backward" };
            row(
                &mut table,
                [
                    count(s.deletions),
                    direction.to_owned(),
                    format!("{}/s", rate(s.scans_per_second)),
                ],
            );
        }
        print!("{}", print_table(&table, setting.store.style()));
    }
    Ok(())
}
