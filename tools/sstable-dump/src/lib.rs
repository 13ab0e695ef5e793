//! `sstable-dump` as a library. Each subcommand has a module with a function that takes parsed
//! arguments and writes text to a writer. So tests run the commands in their own process.
//!
//! Invariants:
//! - Files are read through the engine's own decoders (`firn_kv::sstable`, `wal`, `manifest`),
//!   never by a second one.
//! - A store's directory is only read, without its lock. The exception is `repair --rename`, which
//!   takes the lock and renames files.
//! - A store that a program changes meanwhile is not reported as damaged ([`store::retry`]).
//! - For any bytes, a command ends with a result or with an error that names the position. It takes
//!   no more memory than [`MAX_BLOCK`](store::target::MAX_BLOCK) and a small multiple of the file's own metadata.

/// Methods of an [`Env`](firn_kv::Env) that only call those of the field `$inner`.
macro_rules! delegate {
    ($inner:ident: $(fn $name:ident($($arg:ident: $of:ty),*) -> $gives:ty;)*) => {
        $(fn $name(&self, $($arg: $of),*) -> $gives { self.$inner.$name($($arg),*) })*
    };
}

pub mod check;
pub mod dump;
pub mod history;
pub mod repair;
pub mod salvage;
pub mod schema;
pub mod store;

use std::io::Write;

use clap::{CommandFactory, Parser, Subcommand};
use firn_kv::{Error, ErrorKind};
use firn_tools::install;
use firn_tools::output::{Color, Done, Style};

const EXAMPLES: &str = "\
Exit codes: 0 success, 1 findings (damage, a missing key), 2 the command could not run.
Data goes to standard output, messages to standard error. Commands only read a store, without its lock, also while a program writes to it.
`salvage` and `repair` refuse a store that a program has open. Only `repair --rename` renames files in a store.

A PATH is a table or blob file (.sst), a log segment (.wal), a manifest (MANIFEST-…) or a store's directory.

Examples:
  sstable-dump check firn-data                       list all damage, with file, offset, block and keys
  sstable-dump salvage firn-data --out saved         save the readable data in a sound store, and list the losses
  sstable-dump repair firn-data --out repaired       the same without a manifest
  sstable-dump find firn-data apple                  print every version of a key, and which one a read returns
  sstable-dump space firn-data --delimiter /         print where the bytes are
  sstable-dump layout firn-data/00000012.sst         print a map of the bytes of a file
  sstable-dump raw firn-data/00000003.wal            print every field under its name in the format specification
  sstable-dump cassandra nb-1-big-Data.db            print a table of Cassandra, cell by cell
  sstable-dump COMMAND --help                        print the options of a command, with examples";

/// Inspect Firn's files, find damage, save the readable data
#[derive(Parser, Debug)]
#[command(name = "sstable-dump", version, after_help = EXAMPLES, max_term_width = 120)]
pub struct DumpCli {
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    json: bool,
    /// Choose when to use colours
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Color,
    #[command(subcommand)]
    command: DumpCommand,
}

/// Subcommands of `sstable-dump`.
#[derive(Subcommand, Debug)]
enum DumpCommand {
    /// Verify files or a whole store, and list all damage
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Print every version of a key, and which one a read returns
    #[command(after_help = dump::find::EXAMPLES)]
    Find(dump::find::FindArgs),
    /// Save the readable data of a damaged file or store
    #[command(after_help = salvage::EXAMPLES)]
    Salvage(salvage::SalvageArgs),
    /// Rebuild a store without a manifest
    #[command(after_help = repair::EXAMPLES)]
    Repair(repair::RepairArgs),
    /// Print a manifest's edits, and the state at its end
    #[command(after_help = dump::manifest::EXAMPLES)]
    Manifest(dump::manifest::ManifestArgs),
    /// Print log segments: records, marks, how the log ends
    #[command(after_help = dump::wal::EXAMPLES)]
    Wal(dump::wal::WalArgs),
    /// Print where the bytes are, by prefix or range of keys
    #[command(after_help = dump::space::EXAMPLES)]
    Space(dump::space::SpaceArgs),
    /// Measure the false positive rates of filters
    #[command(after_help = dump::filters::EXAMPLES)]
    Filters(dump::filters::FiltersArgs),
    /// Estimate the size and read cost of a table with other blocks
    #[command(after_help = dump::recompress::EXAMPLES)]
    Recompress(dump::recompress::RecompressArgs),
    /// Print a map of the bytes of a file
    #[command(after_help = dump::layout::EXAMPLES)]
    Layout(dump::layout::LayoutArgs),
    /// Print the properties of tables and blob files
    #[command(after_help = dump::props::EXAMPLES)]
    Props(dump::props::PropsArgs),
    /// Print every field of files under its name in the format specification
    #[command(after_help = dump::raw::EXAMPLES)]
    Raw(dump::raw::RawArgs),
    /// Print the entries of a table
    #[command(after_help = dump::scan::EXAMPLES)]
    Scan(dump::scan::DumpScanArgs),
    /// Print the files of Cassandra's tables, cell by cell
    #[command(after_help = dump::cassandra::EXAMPLES)]
    Cassandra(dump::cassandra::CassandraDumpArgs),
    /// Build a table from the output of scan --json
    #[command(after_help = dump::from_json::EXAMPLES)]
    FromJson(dump::from_json::FromJsonArgs),
    /// Print completions for a shell
    #[command(after_help = install::completions_examples("sstable-dump"))]
    Completions(install::CompletionsArgs),
    /// Print or write manual pages
    #[command(after_help = install::man_examples("sstable-dump", "check"))]
    Man(install::ManArgs),
}

impl DumpCli {
    /// Returns the style with the chosen colours.
    pub fn style(&self) -> Style {
        Style::new(self.color)
    }
}

/// Output of a command and its form.
pub struct Screen<'a> {
    /// Standard output, or the buffer of a test.
    pub out: &'a mut dyn Write,
    /// Whether to print JSON instead of text.
    pub json: bool,
    /// Colours.
    pub style: Style,
}

/// Runs a command.
pub fn run(cli: &DumpCli, out: &mut dyn Write) -> Done {
    let screen = &mut Screen { out, json: cli.json, style: cli.style() };
    match &cli.command {
        DumpCommand::Layout(args) => dump::layout::run(screen, args),
        DumpCommand::Check(args) => check::run(screen, args),
        DumpCommand::Manifest(args) => dump::manifest::run(screen, args),
        DumpCommand::Wal(args) => dump::wal::run(screen, args),
        DumpCommand::Salvage(args) => salvage::run(screen, args),
        DumpCommand::Repair(args) => repair::run(screen, args),
        DumpCommand::Find(args) => dump::find::run(screen, args),
        DumpCommand::Space(args) => dump::space::run(screen, args),
        DumpCommand::Filters(args) => dump::filters::run(screen, args),
        DumpCommand::Recompress(args) => dump::recompress::run(screen, args),
        DumpCommand::Props(args) => dump::props::run(screen, args),
        DumpCommand::Raw(args) => dump::raw::run(screen, args),
        DumpCommand::Scan(args) => dump::scan::run(screen, args),
        DumpCommand::Cassandra(args) => dump::cassandra::run(screen, args),
        DumpCommand::FromJson(args) => dump::from_json::run(screen, args),
        DumpCommand::Completions(args) => {
            install::completions(args, DumpCli::command(), screen.out)
        }
        DumpCommand::Man(args) => install::man(args, DumpCli::command(), screen.out),
    }
}

/// Returns advice for the user about an error of the engine.
pub fn advice(e: &Error) -> Option<&'static str> {
    Some(match e.kind() {
        ErrorKind::Corruption => {
            "`sstable-dump check PATH` lists everything that is damaged, `sstable-dump salvage PATH --out NEW` saves the readable data"
        }
        ErrorKind::NotFound => "name an existing table, log segment, manifest or store directory",
        ErrorKind::NoSpace => {
            "free some space and run the command again; an unfinished output can be removed"
        }
        ErrorKind::Incompatible => {
            "use the version of sstable-dump that comes with the program that wrote the file"
        }
        _ => return None,
    })
}
