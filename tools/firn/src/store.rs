//! Opening stores and trees the way a command needs them: reading commands never write and never make a store.

use std::path::PathBuf;

use clap::Args;
use firn_kv::{Db, DbOptions, Tree};
use firn_tools::output::{Color, Done, Failure, Style};
use firn_wide::store::SCHEMA_TREE;

use crate::cli::wide_failure;

const EVERYWHERE: &str = "Options of every command";

/// What every command takes.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Directory of the store
    #[arg(long, visible_alias = "dir", global = true, help_heading = EVERYWHERE, value_name = "DIR", default_value = "firn-data")]
    pub db: PathBuf,
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
    /// When to use colours
    #[arg(long, global = true, help_heading = EVERYWHERE, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: Color,
}

impl Global {
    /// The colours to use.
    pub fn style(&self) -> Style {
        Style::new(self.color)
    }

    /// Opens the store for reading only: without its lock, without writing a byte, beside a writer too.
    pub fn open_to_read(&self) -> Done<Db> {
        Ok(Db::open_with(&self.db, DbOptions { create: false, read_only: true, ..DbOptions::default() })?)
    }

    /// Opens the store for writing; makes it if `create` is set and there is none.
    ///
    /// About `bytes` are to be written. Each open begins a new log segment, and most commands write a handful of keys: so small
    /// segments for little, to save space, and large ones for much, to save syncs.
    pub fn open_to_write(&self, create: bool, bytes: u64) -> Done<Db> {
        let wal_segment = bytes.clamp(1 << 20, 16 << 20);
        Ok(Db::open_with(&self.db, DbOptions { create, wal_segment, ..DbOptions::default() })?)
    }

    /// Opens the store for compaction: where there are column families, with the hooks that say what may be merged and forgotten.
    pub fn open_to_compact(&self) -> Done<Db> {
        if !self.open_to_read()?.tree_names().iter().any(|name| name == SCHEMA_TREE) {
            return self.open_to_write(false, 0);
        }
        let db = DbOptions { create: false, wal_segment: 1 << 20, ..DbOptions::default() };
        let options = firn_wide::Options { store: firn_wide::store::Options { db, clock: None }, ..Default::default() };
        let wide = firn_wide::Wide::open_with(&self.db, options).map_err(|e| wide_failure(e, &self.db))?;
        Ok(wide.store().db().clone())
    }
}

/// The tree of this name; without a name the tree `default`, or else the only one that there is.
pub fn tree(db: &Db, name: Option<&str>) -> Done<Tree> {
    let names = db.tree_names();
    let list = || if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
    let chosen = match name {
        Some(name) if names.iter().any(|n| n == name) => name,
        Some(name) => {
            return Err(Failure::with_next(format!("the store has no tree {name:?}; {}", list()), "name one with --tree"));
        }
        None => match &names[..] {
            [only] => only,
            _ if names.iter().any(|n| n == DEFAULT_TREE) => DEFAULT_TREE,
            _ => return Err(Failure::with_next(format!("which tree? {}", list()), "name one with --tree NAME")),
        },
    };
    Ok(db.existing_tree(chosen)?)
}

/// The tree of a `load` that names none.
pub const DEFAULT_TREE: &str = "default";
