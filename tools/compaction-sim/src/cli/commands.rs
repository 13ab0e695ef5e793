//! The commands: `run` and `sweep` here, the others in their own files.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use firn_kv::TreeOptions;
use firn_tools::install;
use firn_tools::output::{Done, Failure};

use crate::cli::batch::{simulate, simulate_all};
use crate::cli::{RunArgs, SimCli, SimCommand, SweepArgs, TraceArgs, filter_named};
use crate::history::replay;
use crate::model::machine::JITTER;
use crate::model::meter::SimOutcome;
use crate::model::sim::Setup;
use crate::policy;
use crate::report::output::write_outcomes;
use crate::{advise, report, reproduce, validate};

/// Runs a command line.
///
/// # Errors
/// Why the command failed.
pub fn execute(cli: &SimCli, out: &mut dyn Write) -> Done {
    match &cli.command {
        SimCommand::Run(args) => run(args, cli, out),
        SimCommand::Sweep(args) => sweep(args, cli, out),
        SimCommand::Replay(args) => replay::replay(args, cli, out),
        SimCommand::Compare(args) => match &args.events {
            Some(events) => replay::compare(args, events, cli, out),
            None => validate::measured::compare(args, cli, out),
        },
        SimCommand::Trace(args) => trace(args, cli, out),
        SimCommand::Validate(args) => validate::run(args, cli, out),
        SimCommand::Advise(args) => {
            let dir = advise::directory(args.events.as_deref().unwrap_or(Path::new(".")));
            let by = |tree: &str, policy: &str| advise::set_policy(dir, tree, policy);
            advise::run(args, args.events.as_deref(), &by, (cli.json, cli.style()), out)
        }
        SimCommand::Reproduce(args) => reproduce::run(args, cli.json, out),
        SimCommand::Metrics => Ok(write!(out, "{}", report::metrics(cli.json, cli.style()))?),
        SimCommand::Completions(args) => install::completions(args, SimCli::command(), out),
        SimCommand::Man(args) => install::man(args, SimCli::command(), out),
    }
}

fn trace(args: &TraceArgs, cli: &SimCli, out: &mut dyn Write) -> Done {
    let sketch = crate::workload::trace::read(&args.trace)?;
    let options = (sketch.writes > 0).then(|| sketch.options());
    if cli.json {
        let mut v = serde_json::json!(sketch);
        v["options"] = serde_json::json!(options);
        return Ok(writeln!(out, "{v}")?);
    }
    let file = args.trace.display();
    write!(out, "{}", sketch.words(cli.style()))?;
    if let Some(options) = options {
        writeln!(out, "\ncompaction-sim run --trace {file}\ncompaction-sim run {options}")?;
    }
    Ok(())
}

fn run(args: &RunArgs, cli: &SimCli, out: &mut dyn Write) -> Done {
    let (policy, setup) = args.setup()?;
    if args.seeds > 1 {
        return run_seeds(args, &policy, &setup, cli, out);
    }
    let mut outcome = simulate(&policy, &setup)?;
    (outcome.policy, outcome.workload) = (policy.clone(), args.model.words());
    let all = vec![(policy, outcome)];
    write_outcomes(&all, cli.json, &args.pictures, cli.style(), out)
}

/// Returns a case with each of this many seeds.
fn with_seeds(name: &str, setup: &Setup, seeds: u64) -> Vec<(String, Setup)> {
    let case = |i: u64| {
        let mut setup = setup.clone();
        if seeds > 1 {
            setup.machine.jitter = JITTER;
        }
        let seed = setup.workload.seed.wrapping_add(i);
        setup.workload = setup.workload.with_seed(seed);
        (name.to_owned(), setup)
    };
    (0..seeds).map(case).collect()
}

/// Simulates with several seeds: prints an interval for each figure.
fn run_seeds(
    args: &RunArgs,
    policy: &str,
    setup: &Setup,
    cli: &SimCli,
    out: &mut dyn Write,
) -> Done {
    let cases = with_seeds(policy, setup, args.seeds);
    let outcomes = simulate_all("seeds", &cases)?;
    let named = |((name, _), mut o): (&(String, Setup), SimOutcome)| {
        (o.policy, o.workload) = (name.clone(), args.model.words());
        (name.clone(), o)
    };
    let all: Vec<(String, SimOutcome)> = cases.iter().zip(outcomes).map(named).collect();
    if cli.json {
        return write_outcomes(&all, cli.json, &args.pictures, cli.style(), out);
    }
    write!(out, "{}", report::spread(&all, cli.style()))?;
    Ok(())
}

fn sweep(args: &SweepArgs, cli: &SimCli, out: &mut dyn Write) -> Done {
    let seeds = |(name, setup): (String, Setup)| with_seeds(&name, &setup, args.seeds);
    let cases: Vec<(String, Setup)> = grid(args)?.into_iter().flat_map(seeds).collect();
    let all = simulate_all("sweep", &cases)?;
    let named = |((name, _), mut o): (&(String, Setup), SimOutcome)| {
        (o.policy, o.workload) = (name.clone(), args.model.words());
        (name.clone(), o)
    };
    let all: Vec<(String, SimOutcome)> = cases.iter().zip(all).map(named).collect();
    write_outcomes(&all, cli.json, &args.pictures, cli.style(), out)
}

/// Returns the cases of a sweep: every policy with every ratio, memtable, table size and filter.
fn grid(args: &SweepArgs) -> Done<Vec<(String, Setup)>> {
    fn or<T: Clone>(given: &[T], one: T) -> Vec<(T, bool)> {
        if given.is_empty() {
            vec![(one, false)]
        } else {
            given.iter().map(|g| (g.clone(), given.len() > 1)).collect()
        }
    }
    let d = args.model.description()?;
    let base = args.model.options(&d.store)?;
    let mut cases = vec![];
    for policy in &args.policies {
        let ratios = if policy::has_ratio(policy) { &args.ratios[..] } else { &[] };
        for (ratio, _) in or(ratios, 0) {
            for (memtable, shown) in or(&args.memtable_sizes, d.store.memtable_size) {
                let mut name = if ratio > 0 {
                    policy::at_ratio(policy, ratio).map_err(Failure::new)?
                } else {
                    policy.clone()
                };
                let text = name.clone();
                name += &if shown {
                    format!(" m={}", firn_tools::output::bytes(memtable))
                } else {
                    String::new()
                };
                for (table, shown) in or(&args.table_sizes, d.store.table_size) {
                    let part = if shown {
                        format!(" t={}", firn_tools::output::bytes(table))
                    } else {
                        String::new()
                    };
                    for (filter, shown) in or(&args.filters, d.store.filter.clone()) {
                        let options = TreeOptions {
                            memtable_size: memtable as usize,
                            table_size: table,
                            filter: vec![filter_named(&filter)],
                            ..base.clone()
                        };
                        let named = policy::parse(&text, &options).map_err(Failure::new)?;
                        let last = if shown { format!(" {filter}") } else { String::new() };
                        let setup =
                            args.model.setup(&d, &named, &options, args.pictures.html.is_some())?;
                        cases.push((format!("{name}{part}{last}"), setup));
                    }
                }
            }
        }
    }
    Ok(cases)
}
