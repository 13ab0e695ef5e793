//! `firn bench cliffs`: histories that could make an operation slow ([`firn_workload::cliffs`]),
//! and its cost after them.

use clap::Args;
use firn_kv::{DbOptions, TreeOptions};
use firn_tools::output::{Done, Failure, count, listing, nanos, print_table, row};
use firn_workload::cliffs::{CliffCase, run as histories};
use firn_workload::firn::FirnStore;
use serde_json::json;

use crate::Setting;
use crate::directory;
use crate::run::{failure, words};

/// Options of `firn bench cliffs`.
#[derive(Args, Clone, Debug)]
pub struct CliffArgs {
    /// cliffs: Maximum cost of an operation as a multiple of normal; above it the exit code is 1
    #[arg(long, value_name = "TIMES", default_value_t = 20.0, value_parser = parse_bound)]
    bound: f64,
    /// cliffs: Length of the histories
    #[arg(long, value_name = "OPERATIONS", default_value = "10k", value_parser = firn_workload::phase::parse_count)]
    history: u64,
}

fn parse_bound(text: &str) -> Result<f64, String> {
    let bound = text.parse().ok().filter(|b: &f64| b.is_finite() && *b > 0.0);
    bound.ok_or_else(|| "a number above 0".into())
}

/// Runs the bench.
pub fn run(setting: &Setting<'_>, args: &CliffArgs) -> Done {
    if args.history < 100 {
        return Err(Failure::new("--history must be 100 at least"));
    }
    let fresh = || {
        setting.make_room(&setting.store.db).map_err(words)?;
        let store =
            FirnStore::open(&setting.store.db, DbOptions::default(), "t", TreeOptions::default())?;
        directory::mark(&setting.store.db).map_err(words)?;
        Ok(store)
    };
    let mut cases: Vec<CliffCase> = vec![];
    histories(args.history, fresh, |c| {
        eprintln!("{}", c.name);
        cases.push(c);
    })
    .map_err(failure)?;
    if let Some(models) = &setting.models {
        let dir = &setting.store.db;
        let mut fresh = || setting.make_room(dir).map(|()| dir.clone());
        (models.cliffs)(args.history, &mut fresh, &mut |c| {
            eprintln!("{}", c.name);
            cases.push(c);
        })?;
    }
    let counted = cases.iter().filter(|c| !c.is_linear);
    let worst = counted.map(CliffCase::ratio).fold(0.0, f64::max);
    if setting.store.json {
        let case = |c: &CliffCase| json!({ "name": c.name, "normal_nanos": c.normal, "after_nanos": c.after, "ratio": c.ratio(), "is_linear": c.is_linear });
        let cases: Vec<_> = cases.iter().map(case).collect();
        println!(
            "{}",
            json!({ "history": args.history, "bound": args.bound, "worst": worst, "cases": cases })
        );
    } else {
        println!("histories of {} operations", count(args.history));
        let mut table = listing(&["operation", "normally", "after", "times"], "lrrr");
        for c in &cases {
            row(
                &mut table,
                [
                    c.name.to_owned(),
                    nanos(c.normal),
                    nanos(c.after),
                    format!("{:.1}{}", c.ratio(), if c.is_linear { " *" } else { "" }),
                ],
            );
        }
        print!("{}", print_table(&table, setting.store.style()));
        if cases.iter().any(|c| c.is_linear) {
            println!(
                "* The read steps over each deletion until its grace is over, so the bound does not apply."
            );
        }
    }
    if worst <= args.bound {
        return Ok(());
    }
    Err(Failure::Found)
}
