//! Commands that work on a whole store: `firn compact`, `firn checkpoint`, `firn upgrade`.

use std::path::PathBuf;

use clap::Args;
use firn_kv::{Db, Tree};
use serde_json::json;

use crate::store::Global;
use firn_tools::io::Stopwatch;
use firn_tools::keys::RangeArgs;
use firn_tools::output::{self, Done, Progress, things};

pub const COMPACT_EXAMPLES: &str = "\
Flushes the memtables, compacts the tables of every tree into one sorted run, and drops entries that no reader can see. It reads and
writes everything in the range once; meanwhile the store needs space for old and new tables.

Examples:
  firn compact
  firn compact --tree fruit
  firn compact --from a --to b           only tables that may have keys of this range
  firn compact --prefix user:";

/// Arguments of `firn compact`.
#[derive(Args, Clone, Debug)]
pub struct CompactArgs {
    #[command(flatten)]
    range: RangeArgs,
    /// Compact this tree, or KEYSPACE.TABLE [default: all of them]
    #[arg(long, value_name = "NAME")]
    tree: Option<String>,
    /// Read keys as hexadecimal
    #[arg(long)]
    hex: bool,
}

/// Runs `firn compact`.
pub fn compact(global: &Global, args: &CompactArgs) -> Done {
    let range = args.range.range(args.hex)?;
    let db = global.open_to_write(false, 0)?;
    let trees = trees_named(global, &db, args.tree.as_deref())?;
    let before = db.stats().table_bytes();
    let watch = Stopwatch::start();
    for tree in &trees {
        let progress = Progress::operations("compact", None);
        progress.say(format!(
            "tree {:?}, {} in tables",
            tree.name(),
            output::bytes(db.stats().table_bytes())
        ));
        if args.range.is_empty() {
            tree.compact()?;
        } else {
            tree.compact_range(range.bounds())?;
        }
    }
    let stats = db.stats();
    let (after, seconds) = (stats.table_bytes(), watch.seconds());
    global.print_json(json!({
        "seconds": seconds, "table_bytes_before": before, "table_bytes_after": after,
        "read_bytes": stats.compaction_read, "written_bytes": stats.compaction_written,
    }))?;
    eprintln!(
        "compacted {} in {seconds:.2} s: {} of tables before, {} after",
        things(trees.len() as u64, "tree", "trees"),
        output::bytes(before),
        output::bytes(after)
    );
    Ok(())
}

fn trees_named(global: &Global, db: &Db, name: Option<&str>) -> Done<Vec<Tree>> {
    match name {
        Some(_) => Ok(vec![global.tree(db, name)?]),
        None => db.tree_names().iter().map(|n| Ok(db.existing_tree(n)?)).collect(),
    }
}

pub const CHECKPOINT_EXAMPLES: &str = "\
Creates a second store with the same content. Tables are shared by hard links, so this takes little time and space. Afterwards the two
stores are independent. DIR must be new or empty and on the same file system.

Examples:
  firn checkpoint backup-monday
  firn --db backup-monday verify
  firn checkpoint /data/copy && tar -C /data -cf copy.tar copy";

/// Arguments of `firn checkpoint`.
#[derive(Args, Clone, Debug)]
pub struct CheckpointArgs {
    /// Create the new store in this directory
    #[arg(value_name = "DIR")]
    into: PathBuf,
}

/// Runs `firn checkpoint`.
pub fn checkpoint(global: &Global, args: &CheckpointArgs) -> Done {
    let db = global.open_to_write(false, 0)?;
    let watch = Stopwatch::start();
    db.checkpoint(&args.into)?;
    let (stats, seconds) = (db.stats(), watch.seconds());
    let tables: u64 = stats.trees.iter().flat_map(|t| &t.runs).map(|r| r.tables as u64).sum();
    global.print_json(json!({
            "dir": args.into.display().to_string(), "tables": tables, "table_bytes": stats.table_bytes(),
            "seq": stats.seq, "seconds": seconds,
        }))?;
    eprintln!(
        "{} holds {} ({}) of {}, made in {seconds:.2} s",
        args.into.display(),
        things(tables, "table", "tables"),
        output::bytes(stats.table_bytes()),
        things(stats.trees.len() as u64, "tree", "trees"),
    );
    Ok(())
}

pub const UPGRADE_EXAMPLES: &str = "\
A store keeps its format version until this command raises it, so that the previous version of firn can still open it. There is no way
back: afterwards older versions refuse the store. New files get the new version at once; `firn compact` converts the tables. If the store
has the newest version already, nothing changes.

Examples:
  firn checkpoint before-upgrade && firn upgrade
  firn upgrade firn-data --json | jq .format_version";

/// Arguments of `firn upgrade`.
#[derive(Args, Clone, Debug)]
pub struct UpgradeArgs {}

/// Runs `firn upgrade`.
pub fn upgrade(global: &Global, _: &UpgradeArgs) -> Done {
    let db = global.open_to_write(false, 0)?;
    let before = db.format_version();
    let now = db.upgrade_format()?;
    global.print_json(json!({"format_version_before": before, "format_version": now}))?;
    if before == now {
        eprintln!("the store has format version {now}, the newest of this program: nothing to do");
    } else {
        eprintln!(
            "raised the store from format version {before} to {now}: older versions of firn refuse it now; \
             `firn compact` converts its tables"
        );
    }
    Ok(())
}
