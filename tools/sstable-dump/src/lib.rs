//! `sstable-dump` as a library: one module a subcommand, each a function from parsed
//! arguments to text on a writer, so that tests run them in their own process.
//!
//! Invariants: files are read through the engine's own decoders (`firn_kv::sstable`, `wal`,
//! `manifest`), never by a second one; a store's directory is only read, without its lock, but for
//! `repair --rename`, which holds it and renames; a store that moves on beside a tool is not called
//! damaged ([`beside`]); whatever the bytes are, a command ends with an answer or an error that names
//! the place, and takes no more memory than [`target::MAX_BLOCK`] and a small multiple of the file's
//! own metadata.

pub mod ages;
pub mod beside;
pub mod blobs;
pub mod cassandra;
pub mod check;
pub mod current;
pub mod definitions;
pub mod evidence;
pub mod filters;
pub mod find;
pub mod findings;
pub mod finish;
pub mod from_json;
pub mod layout;
pub mod logcopy;
pub mod losses;
pub mod manifest;
pub mod matching;
pub mod mend;
pub mod merged;
pub mod names;
pub mod newstore;
pub mod opening;
pub mod props;
pub mod raw;
pub mod recompress;
pub mod records;
pub mod recovered;
pub mod renames;
pub mod repair;
pub mod rescue;
pub mod salvage;
pub mod scan;
pub mod shadow;
pub mod space;
pub mod survey;
pub mod target;
pub mod text;
pub mod typed;
pub mod unnamed;
pub mod wal;
pub mod whose;

use std::io::Write;

use clap::{CommandFactory, Parser, Subcommand};
use firn_kv::{Error, ErrorKind};
use firn_tools::install;
use firn_tools::output::{Color, Done, Style};

const EXAMPLES: &str = "\
Exit codes: 0 all is well, 1 something was found (damage, a missing key), 2 it could not run.
Data goes to standard output, talk to standard error. Stores are only read, without their lock, beside a writer too, but for `salvage`
and `repair`, which refuse a store that a program has open. Only `repair --rename` renames files in one.

A PATH is a table or blob file (.sst), a log segment (.wal), a manifest (MANIFEST-…) or a store's directory.

Examples:
  sstable-dump check firn-data                       everything that is wrong, with file, offset, block and keys
  sstable-dump salvage firn-data --out saved         a sound store of what can be read, and what was lost
  sstable-dump repair firn-data --out repaired       the same when the manifest is gone
  sstable-dump find firn-data apple                  every version of a key, and which one a read returns
  sstable-dump space firn-data --delimiter /         where the bytes are
  sstable-dump layout firn-data/00000012.sst         a file as a map of its bytes
  sstable-dump raw firn-data/00000003.wal            every field as the format specification names it
  sstable-dump cassandra nb-1-big-Data.db            a table of Cassandra, cell by cell
  sstable-dump COMMAND --help                        what a command takes, with examples";

/// Look into Firn's files, find damage, save what can be saved.
#[derive(Parser, Debug)]
#[command(name = "sstable-dump", version, after_help = EXAMPLES, max_term_width = 120)]
pub struct DumpCli {
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    json: bool,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Color,
    #[command(subcommand)]
    command: DumpCommand,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
enum DumpCommand {
    /// Verify files or a whole store, and name all damage
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Every version of a key, and which one a read returns
    #[command(after_help = find::EXAMPLES)]
    Find(find::FindArgs),
    /// Write what can be read of something damaged into something sound
    #[command(after_help = salvage::EXAMPLES)]
    Salvage(salvage::SalvageArgs),
    /// Rebuild a store whose manifest is gone
    #[command(after_help = repair::EXAMPLES)]
    Repair(repair::RepairArgs),
    /// A manifest's edits, and the state at its end
    #[command(after_help = manifest::EXAMPLES)]
    Manifest(manifest::ManifestArgs),
    /// Log segments: records, marks, how the log ends
    #[command(after_help = wal::EXAMPLES)]
    Wal(wal::WalArgs),
    /// Where the bytes are, by prefix or range of keys
    #[command(after_help = space::EXAMPLES)]
    Space(space::SpaceArgs),
    /// Measure filters' false positives
    #[command(after_help = filters::EXAMPLES)]
    Filters(filters::FiltersArgs),
    /// What if a table had other blocks: size and cost of reads
    #[command(after_help = recompress::EXAMPLES)]
    Recompress(recompress::RecompressArgs),
    /// A file as a map of its bytes
    #[command(after_help = layout::EXAMPLES)]
    Layout(layout::LayoutArgs),
    /// What tables say about themselves
    #[command(after_help = props::EXAMPLES)]
    Props(props::PropsArgs),
    /// Every field of files, as the format specification names it
    #[command(after_help = raw::EXAMPLES)]
    Raw(raw::RawArgs),
    /// The entries of a table
    #[command(after_help = scan::EXAMPLES)]
    Scan(scan::DumpScanArgs),
    /// The files of Cassandra's tables, cell by cell
    #[command(after_help = cassandra::EXAMPLES)]
    Cassandra(cassandra::CassandraDumpArgs),
    /// Make a table of what scan --json printed
    #[command(after_help = from_json::EXAMPLES)]
    FromJson(from_json::FromJsonArgs),
    /// Print completions for a shell
    #[command(after_help = install::completions_examples("sstable-dump"))]
    Completions(install::CompletionsArgs),
    /// Print or write manual pages
    #[command(after_help = install::man_examples("sstable-dump", "check"))]
    Man(install::ManArgs),
}

impl DumpCli {
    /// The colours to use.
    pub fn style(&self) -> Style {
        Style::new(self.color)
    }
}

/// Where a command prints, and how.
pub struct Screen<'a> {
    /// Standard output, or a test's.
    pub out: &'a mut dyn Write,
    /// JSON instead of text.
    pub json: bool,
    /// Colours.
    pub style: Style,
}

/// Runs a command.
pub fn run(cli: &DumpCli, out: &mut dyn Write) -> Done {
    let screen = &mut Screen { out, json: cli.json, style: cli.style() };
    match &cli.command {
        DumpCommand::Layout(args) => layout::run(screen, args),
        DumpCommand::Check(args) => check::run(screen, args),
        DumpCommand::Manifest(args) => manifest::run(screen, args),
        DumpCommand::Wal(args) => wal::run(screen, args),
        DumpCommand::Salvage(args) => salvage::run(screen, args),
        DumpCommand::Repair(args) => repair::run(screen, args),
        DumpCommand::Find(args) => find::run(screen, args),
        DumpCommand::Space(args) => space::run(screen, args),
        DumpCommand::Filters(args) => filters::run(screen, args),
        DumpCommand::Recompress(args) => recompress::run(screen, args),
        DumpCommand::Props(args) => props::run(screen, args),
        DumpCommand::Raw(args) => raw::run(screen, args),
        DumpCommand::Scan(args) => scan::run(screen, args),
        DumpCommand::Cassandra(args) => cassandra::run(screen, args),
        DumpCommand::FromJson(args) => from_json::run(screen, args),
        DumpCommand::Completions(args) => {
            install::completions(args, DumpCli::command(), screen.out)
        }
        DumpCommand::Man(args) => install::man(args, DumpCli::command(), screen.out),
    }
}

/// What a user can do about an error of the engine.
pub fn advice(e: &Error) -> Option<&'static str> {
    Some(match e.kind() {
        ErrorKind::Corruption => {
            "`sstable-dump check PATH` lists everything that is damaged, `sstable-dump salvage PATH --out NEW` saves what can be read"
        }
        ErrorKind::NotFound => {
            "name a table, a log segment, a manifest or a store's directory that is there"
        }
        ErrorKind::NoSpace => {
            "free some space and run the command again; an unfinished output can be removed"
        }
        ErrorKind::Incompatible => {
            "use the version of sstable-dump that comes with the program that wrote the file"
        }
        _ => return None,
    })
}
