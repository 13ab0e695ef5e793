//! Selects the bench of a command line, and the options that it accepts.
//!
//! Invariant: an option that the bench does not use is refused, so that results are not misread.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use crate::BenchArgs;
use firn_tools::output::{Done, Failure};

/// A bench with its own options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchShape {
    /// Workloads, in sequence.
    Workloads,
    Ltm,
    Cliffs,
    Queue,
    Trees,
    Small,
}

/// Benches that are named in place of workloads.
const ALONE: [(&str, BenchShape); 5] = [
    ("ltm", BenchShape::Ltm),
    ("cliffs", BenchShape::Cliffs),
    ("queue", BenchShape::Queue),
    ("trees", BenchShape::Trees),
    ("small", BenchShape::Small),
];

/// Options of workloads and of the store.
const WORKLOAD: &[&str] = &[
    "workload",
    "steps",
    "keys",
    "key-size",
    "value-size",
    "random-share",
    "distribution",
    "rate",
    "threads",
    "seed",
    "memtable-size",
    "table-size",
    "compression",
    "filter",
    "filter-allocation",
    "blob-threshold",
    "blob-gc-percent",
    "tombstone-age-secs",
    "ttl-secs",
    "background-threads",
    "memory-budget",
    "background-rate",
    "read-compaction-percent",
    "durability",
    "policy",
    "data",
    "read-mode",
    "keep",
];

/// Returns the options of `bench` on the command line, by long name, without those of every
/// command.
pub fn given(bench: &Command, matches: &ArgMatches) -> Vec<String> {
    let is_given = |a: &&clap::Arg| {
        !a.is_global_set()
            && matches.value_source(a.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    bench.get_arguments().filter(is_given).filter_map(|a| a.get_long().map(str::to_owned)).collect()
}

impl BenchShape {
    /// Returns the selected bench.
    pub fn of(args: &BenchArgs) -> Done<BenchShape> {
        let shape = |w: &String| ALONE.iter().find(|(name, _)| w.trim().eq_ignore_ascii_case(name));
        match args.workloads.iter().find_map(shape).copied() {
            None => Ok(BenchShape::Workloads),
            Some((_, shape)) if args.workloads.len() == 1 => Ok(shape),
            Some((name, _)) => Err(not_alone(name)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            BenchShape::Workloads => "a bench of workloads",
            named => ALONE.iter().find(|(_, shape)| *shape == named).map_or("", |(name, _)| name),
        }
    }

    fn takes(self) -> Vec<&'static str> {
        match self {
            BenchShape::Workloads => [WORKLOAD, &["reads", "series", "html"]].concat(),
            BenchShape::Ltm => [WORKLOAD, &["limit", "seconds"]].concat(),
            BenchShape::Cliffs => vec!["bound", "history"],
            BenchShape::Queue => {
                vec!["deletions", "rounds", "orders", "queues", "recipe", "recipe-seconds"]
            }
            BenchShape::Trees => {
                vec!["trees", "keys", "memory-budget", "memtable-size", "durability", "seed"]
            }
            BenchShape::Small => vec!["stores", "records"],
        }
    }

    /// Returns an error for options that this bench does not accept.
    pub fn check(self, given: &[String]) -> Done {
        refuse_others(self.name(), &self.takes(), given)
    }
}

/// Returns the failure of a bench that must run alone.
pub fn not_alone(name: &str) -> Failure {
    Failure::with_next(
        format!("{name} is a bench of its own and takes no workloads beside it"),
        "run it alone",
    )
}

/// Returns an error for options that the bench of this name does not accept.
///
/// # Errors
/// The first other option, and the options that the bench accepts.
pub fn refuse_others(name: &str, takes: &[&str], given: &[String]) -> Done {
    // `--apart` is passed by `trees` to its child processes.
    let is_taken = |option: &str| option == "apart" || takes.contains(&option);
    let Some(other) = given.iter().find(|option| !is_taken(option)) else { return Ok(()) };
    let all: Vec<_> = takes.iter().map(|option| format!("--{option}")).collect();
    Err(Failure::with_next(
        format!("{name} does not take --{other}"),
        format!("it takes {}", all.join(", ")),
    ))
}
