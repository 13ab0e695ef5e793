//! Which bench a command line means, and which options that one takes.
//!
//! Invariant: an option that the bench would not look at is refused, so that nobody takes a figure for what it is not.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::{BenchArgs, Model};
use firn_tools::output::{Done, Failure};

/// A bench that has options of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Workloads, one after the other.
    Workloads,
    Ltm,
    Cliffs,
    Queue,
    Trees,
    Small,
    /// `--model wide`
    Wide,
    /// `--model cql`
    Cql,
}

/// Those that are named in the place of workloads.
const ALONE: [(&str, Shape); 5] =
    [("ltm", Shape::Ltm), ("cliffs", Shape::Cliffs), ("queue", Shape::Queue), ("trees", Shape::Trees), ("small", Shape::Small)];

/// The options of `bench` on the command line, by their long names.
pub fn given(bench: &Command, matches: &ArgMatches) -> Vec<String> {
    let is_given = |a: &&clap::Arg| matches.value_source(a.get_id().as_str()) == Some(ValueSource::CommandLine);
    bench.get_arguments().filter(is_given).filter_map(|a| a.get_long().map(str::to_owned)).collect()
}

impl Shape {
    /// Which bench is meant.
    pub fn of(args: &BenchArgs) -> Done<Shape> {
        let shape = |w: &String| ALONE.iter().find(|(name, _)| w.trim().eq_ignore_ascii_case(name));
        let of_model = match args.model {
            Model::Kv => None,
            Model::Wide => Some(("--model wide", Shape::Wide)),
            Model::Cql => Some(("--model cql", Shape::Cql)),
        };
        let allowed = usize::from(of_model.is_none());
        match of_model.or_else(|| args.workloads.iter().find_map(shape).copied()) {
            None => Ok(Shape::Workloads),
            Some((_, shape)) if args.workloads.len() <= allowed => Ok(shape),
            Some((name, _)) => Err(Failure::with_next(
                format!("{name} is a bench of its own and takes no workloads beside it"),
                "run it alone",
            )),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Shape::Workloads => "a bench of workloads",
            Shape::Wide => "--model wide",
            Shape::Cql => "--model cql",
            named => ALONE.iter().find(|(_, shape)| *shape == named).map_or("", |(name, _)| name),
        }
    }

    fn takes(self) -> &'static [&'static str] {
        match self {
            Shape::Workloads => &[
                "num",
                "reads",
                "key-size",
                "value-size",
                "threads",
                "distribution",
                "durability",
                "policy",
                "budget",
                "rate",
                "memtable",
                "compression",
                "read-mode",
                "seed",
                "keep",
                "series",
                "html",
            ],
            Shape::Ltm => &[
                "limit",
                "seconds",
                "num",
                "key-size",
                "value-size",
                "threads",
                "distribution",
                "durability",
                "policy",
                "budget",
                "rate",
                "memtable",
                "compression",
                "read-mode",
                "seed",
                "keep",
            ],
            Shape::Cliffs => &["bound", "history"],
            Shape::Queue => &["deletions", "rounds", "orders", "queues", "recipe", "recipe-seconds"],
            Shape::Trees => &["trees", "num", "budget", "memtable", "durability", "seed"],
            Shape::Small => &["stores", "records"],
            Shape::Wide => &["rows", "columns", "budget", "durability", "seed"],
            Shape::Cql => &["rows", "budget", "durability"],
        }
    }

    /// Refuses options that this bench does not take.
    pub fn check(self, given: &[String]) -> Done {
        let takes = self.takes();
        // `--apart` is what `trees` tells its own processes.
        let is_taken = |name: &str| name == "model" || name == "apart" || takes.contains(&name);
        let Some(other) = given.iter().find(|name| !is_taken(name)) else { return Ok(()) };
        let all: Vec<_> = takes.iter().map(|name| format!("--{name}")).collect();
        Err(Failure::with_next(format!("{} does not take --{other}", self.name()), format!("it takes {}", all.join(", "))))
    }
}
