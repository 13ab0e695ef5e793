//! What `sstable-dump` does, as a library: one module a subcommand, each a function from parsed arguments to text on a writer, so that
//! tests run them in their own process.
//!
//! Invariants: files are read through the engine's own decoders (`firn_kv::sstable`, `wal`, `manifest`), never by a second one; a
//! store's directory is only read: no lock is taken and no byte written in it; whatever the bytes are, a command ends with an answer or
//! an error that names the place, and takes no more memory than [`target::MAX_BLOCK`] and a small multiple of the file's own metadata.

pub mod props;
pub mod target;

use std::io::Write;

use clap::{Parser, Subcommand};
use firn_kv::{Error, ErrorKind};
use firn_tools::output::{Color, Done, Style};

const EXAMPLES: &str = "\
Exit codes: 0 all is well, 1 something was found (damage, a missing key), 2 it could not run.
Data goes to standard output, talk to standard error. Stores are only read, without their lock, beside a writer too.

Examples:
  sstable-dump props firn-data/00000012.sst    what a table says about itself";

/// Look into Firn's files, find damage, save what can be saved.
#[derive(Parser, Debug)]
#[command(name = "sstable-dump", version, after_help = EXAMPLES, max_term_width = 120)]
pub struct Cli {
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    json: bool,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
enum Command {
    /// What tables say about themselves
    #[command(after_help = props::EXAMPLES)]
    Props(props::PropsArgs),
}

impl Cli {
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
pub fn run(cli: &Cli, out: &mut dyn Write) -> Done {
    let screen = &mut Screen { out, json: cli.json, style: cli.style() };
    match &cli.command {
        Command::Props(args) => props::run(screen, args),
    }
}

/// What a user can do about an error of the engine.
pub fn advice(e: &Error) -> Option<&'static str> {
    Some(match e.kind() {
        ErrorKind::Corruption => {
            "`sstable-dump check PATH` lists everything that is damaged, `sstable-dump salvage PATH --out NEW` saves what can be read"
        }
        ErrorKind::NotFound => "name a table, a log segment, a manifest or a store's directory that is there",
        ErrorKind::NoSpace => "free some space and run the command again; an unfinished output can be removed",
        ErrorKind::Incompatible => "use the version of sstable-dump that comes with the program that wrote the file",
        _ => return None,
    })
}
