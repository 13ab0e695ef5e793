//! The `sstable-dump` command: looks into Firn's files, finds damage, saves what can be saved. All
//! of it is in the library.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use firn_tools::io::stdout;
use firn_tools::output::finish;
use firn_tools::start::prepare;
use sstable_dump::{DumpCli, advice};

fn main() -> ExitCode {
    prepare();
    let cli = DumpCli::parse();
    let mut out = stdout();
    let done = sstable_dump::run(&cli, &mut out);
    // What was printed before a failure is worth having too.
    let flushed = out.flush();
    let done = done.and_then(|()| Ok(flushed?));
    finish(done, cli.style(), advice)
}
