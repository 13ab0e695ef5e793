//! Compares statements of CQL and Thrift calls with the engine operations that they consist of.
//!
//! Times are medians of short turns that alternate, so that both sides see the same machine.
//! Instructions, allocations
//! and copies are counted by valgrind, as in `micro-count`.

// A benchmark needs a clock.
#![allow(clippy::disallowed_methods)]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use firn_micro::layers::{LayerPair, PAIRS};
use firn_micro::valgrind::{self, MemoryUse};

const EXAMPLES: &str = "\
Examples:
  micro-layers                     times of every pair and their ratio
  micro-layers --count cql/insert  instructions, allocations and copies of those whose names contain this

Exit codes: 0 measured, 2 could not run (--count needs valgrind).";

/// Cost of CQL and Thrift over the engine.
#[derive(Parser)]
#[command(name = "micro-layers", after_help = EXAMPLES)]
struct LayersCli {
    /// Measure the pairs with this text in their names
    #[arg(default_value = "")]
    filter: String,
    /// Count instructions, allocations and copied bytes instead of measuring times
    #[arg(long)]
    count: bool,
    /// Run this number of operations of one side of the one pair that is named in full, and print nothing
    #[arg(long, value_name = "N", hide = true)]
    operations: Option<usize>,
    /// Run the engine's side
    #[arg(long, hide = true)]
    engine: bool,
}

/// Numbers of counted operations, and their texts.
const FEW: (usize, &str) = (1_000, "1000");
const MANY: (usize, &str) = (11_000, "11000");
/// Operations of one turn, and turns.
const TURN: usize = 200;
const TURNS: usize = 500;

fn side(pair: &mut LayerPair, engine: bool, from: usize, n: usize) -> Result<(), String> {
    for i in from..from + n {
        if engine { pair.engine(i) } else { pair.layered(i) }.map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Prints the median times of both sides and their ratio.
fn time(name: &str) -> Result<(), String> {
    let mut pair = LayerPair::new(name, TURN * TURNS).map_err(|e| e.to_string())?;
    let (mut of_engine, mut of_layer) = (vec![], vec![]);
    for turn in 0..TURNS {
        let mut nanos = |engine: bool| -> Result<f64, String> {
            let start = Instant::now();
            // The sides read different keys, or the second would find them in the processor's cache.
            let turn = if engine { turn } else { (turn + TURNS / 2) % TURNS };
            side(&mut pair, engine, turn * TURN, TURN)?;
            Ok(start.elapsed().as_nanos() as f64 / TURN as f64)
        };
        let (engine, layer) = match turn % 2 {
            0 => (nanos(true)?, nanos(false)?),
            _ => {
                let layer = nanos(false)?;
                (nanos(true)?, layer)
            }
        };
        of_engine.push(engine);
        of_layer.push(layer);
    }
    let (engine, layer) = (median(of_engine), median(of_layer));
    println!("{name}\t{engine:.0}\t{layer:.0}\t{:.2}", layer / engine);
    Ok(())
}

/// Counts of one side for each operation.
fn counts(name: &str, engine: bool) -> Result<[f64; 5], String> {
    let run = |n: &'static str| {
        let mut arguments = vec![name, "--operations", n];
        arguments.extend(engine.then_some("--engine"));
        arguments
    };
    let within = if engine { "*LayerPair*engine*" } else { "*LayerPair*layered*" };
    let instructions = valgrind::instructions(Some(within), &run(MANY.1))? as f64 / MANY.0 as f64;
    // Other tools count the preparation, too.
    let memory = |of| -> Result<[f64; 2], String> {
        let (few, many) = (valgrind::memory(of, &run(FEW.1))?, valgrind::memory(of, &run(MANY.1))?);
        let each = |few: u64, many: u64| many.saturating_sub(few) as f64 / (MANY.0 - FEW.0) as f64;
        Ok([each(few.0, many.0), each(few.1, many.1)])
    };
    let ([allocations, allocated], [copies, copied]) =
        (memory(MemoryUse::Heap)?, memory(MemoryUse::Copy)?);
    Ok([instructions, allocations, allocated, copies, copied])
}

fn count(name: &str) -> Result<(), String> {
    let (engine, layer) = (counts(name, true)?, counts(name, false)?);
    for (side, counts) in [("engine", engine), ("layer", layer)] {
        let [instructions, allocations, allocated, copies, copied] = counts;
        println!(
            "{name}\t{side}\t{instructions:.0}\t{:.2}\t{allocations:.1}\t{allocated:.0}\t{copies:.1}\t{copied:.0}",
            instructions / engine[0]
        );
    }
    Ok(())
}

fn run(cli: &LayersCli) -> Result<(), String> {
    if let Some(n) = cli.operations {
        let mut pair = LayerPair::new(&cli.filter, MANY.0).map_err(|e| e.to_string())?;
        return side(&mut pair, cli.engine, 0, n.min(MANY.0));
    }
    match cli.count {
        true => println!("pair\tside\tinstructions\tratio\tallocations\tbytes\tcopies\tbytes"),
        false => println!("pair\tengine ns\tlayer ns\tratio"),
    }
    for (name, ..) in PAIRS.iter().filter(|p| p.0.contains(&cli.filter)) {
        if cli.count { count(name)? } else { time(name)? }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&LayersCli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("micro-layers: {text}");
            ExitCode::from(2)
        }
    }
}
