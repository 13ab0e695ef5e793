//! The `compaction-sim` command. The library contains the implementation.

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use compaction_sim::cli::SimCli;
use compaction_sim::cli::commands::execute;
use firn_tools::io::stdout;
use firn_tools::output::finish;
use firn_tools::start::prepare;

fn main() -> ExitCode {
    prepare();
    let matches = firn_tools::help::wrapped(SimCli::command()).get_matches();
    let cli = SimCli::from_arg_matches(&matches)
        .unwrap_or_else(|e| e.format(&mut SimCli::command()).exit());
    let mut out = stdout();
    let done = execute(&cli, &mut out);
    let flushed = out.flush();
    let done = done.and_then(|()| Ok(flushed?));
    finish(done, cli.style(), |_| None)
}
