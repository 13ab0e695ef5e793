//! The `sstable-dump` command: inspects Firn's files, finds damage, saves the readable data. The
//! library contains the implementation.

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use firn_tools::io::stdout;
use firn_tools::output::finish;
use firn_tools::start::prepare;
use sstable_dump::{DumpCli, advice};

fn main() -> ExitCode {
    prepare();
    let matches = firn_tools::help::wrapped(DumpCli::command()).get_matches();
    let cli = DumpCli::from_arg_matches(&matches)
        .unwrap_or_else(|e| e.format(&mut DumpCli::command()).exit());
    let mut out = stdout();
    let done = sstable_dump::run(&cli, &mut out);
    // Output before a failure is useful too.
    let flushed = out.flush();
    let done = done.and_then(|()| Ok(flushed?));
    finish(done, cli.style(), advice)
}
