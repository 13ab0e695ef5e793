//! Opens stores and trees as a command needs them.
//!
//! Invariant: commands that read never write and never create a store.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Once};

use clap::Args;
use firn_cql::{Session, with_scripts};
use firn_kv::MemEnv;
use firn_kv::fs::FileTerms;
use firn_kv::internals::manifest::{CURRENT, Manifest, ManifestState};
use firn_kv::{Db, DbOptions, Env, Error, ErrorKind, OsEnv, Tree};
use firn_replication::STATE_TREE;
use firn_tools::io;
use firn_tools::options::{DEFAULT_STORE, EVERYWHERE, StoreArgs};
use firn_tools::output::{Done, Failure, Style, things};
use firn_tools::shell;
use firn_wide::Wide;
use firn_wide::internals::store::{CellStore, SCHEMA_TREE, TreeName};
use serde_json::Value;

use firn_console::names::StoreNames;

/// Arguments of every command.
#[derive(Args, Clone, Debug)]
pub struct Global {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Open for writing despite a damaged log, and discard the writes after the damage
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub accept_log_loss: bool,
    /// Set the permission bits of created files, in octal: 0600 to 0666
    ///
    /// Directories also get the execute bit for each class that may read or write files. The umask
    /// applies as usual.
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "MODE", value_parser = file_mode, default_value = "0600")]
    pub file_mode: u32,
    /// Continue if the file system cannot sync directories; a power cut may then remove whole files
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub unsynced_dirs: bool,
    /// Whether the command line names the store.
    #[arg(skip)]
    pub names_store: bool,
}

/// Parses permission bits in the notation of `chmod`.
fn file_mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| mode & !0o666 == 0 && mode & 0o600 == 0o600)
        .ok_or_else(|| {
            "it must let the owner read and write, and nobody execute: 0600, 0640, 0660, 0644"
                .into()
        })
}

/// Returns the failure to report for an error of the database in `dir`.
pub fn wide_failure(e: firn_wide::Error, dir: &Path) -> Failure {
    match e {
        firn_wide::Error::Store(e) => Failure::Engine(e),
        other => Failure::new(format!("cannot open {}: {other}", dir.display())),
    }
}

/// Opens the database of keyspaces, families and tables in `dir`.
pub fn open_wide(dir: &Path, db: DbOptions) -> Done<Wide> {
    let store = firn_wide::StoreOptions { db, clock: None, ..firn_wide::StoreOptions::default() };
    let options = with_scripts(firn_wide::Options { store, ..Default::default() });
    Wide::open_with(dir, options).map_err(|e| wide_failure(e, dir))
}

impl Global {
    /// Returns the colours to use.
    pub fn style(&self) -> Style {
        self.store.style()
    }

    /// Prints a result as one line of JSON if the command line asks for it.
    pub fn print_json(&self, result: Value) -> Done {
        if self.store.json {
            writeln!(io::stdout(), "{result}")?;
        }
        Ok(())
    }

    /// Returns the first words of suggested commands for this store: `firn`, with `--db DIR` unless
    /// the store is the default one.
    pub fn firn(&self) -> String {
        match self.store.db == Path::new(DEFAULT_STORE) {
            true => "firn".to_owned(),
            false => format!("firn --db {}", shell::path(&self.store.db)),
        }
    }

    /// Opens the store for reading only: without its lock and without writing. A writer may have it
    /// open.
    pub fn open_to_read(&self) -> Done<Db> {
        let db = Db::open_with(&self.store.db, self.to_read())?;
        self.note_log_damage(&db);
        Ok(db)
    }

    /// Opens the store for reading only, and returns the displayed names of its trees as well.
    pub fn open_named(&self) -> Done<(Db, StoreNames)> {
        let (db, names) = self.open_named_quietly()?;
        self.note_log_damage(&db);
        Ok((db, names))
    }

    /// Like [`open_named`](Global::open_named), without the message about a damaged log. If the
    /// store has keyspaces, all trees are opened with their hooks. If their definitions are
    /// unreadable, trees are opened without hooks and have no displayed names.
    pub fn open_named_quietly(&self) -> Result<(Db, StoreNames), Error> {
        if self.holding().ok() == Some(StoreContent::Model)
            && let Ok(session) = self.model(self.to_read())
        {
            return Ok((session.engine().store().db().clone(), StoreNames::of_session(&session)));
        }
        Ok((Db::open_with(&self.store.db, self.to_read())?, StoreNames::default()))
    }

    fn note_log_damage(&self, db: &Db) {
        if let Some(torn) = db.torn_log().filter(|t| t.proof.is_some()) {
            eprintln!(
                "{} the log is damaged, and {} after the damage are not read: `firn verify` shows details, `sstable-dump salvage` saves them",
                self.style().bold("note:"),
                things(torn.operations_beyond, "operation", "operations")
            );
        }
    }

    /// Opens the store for writing; creates it if `create` is set and there is none.
    ///
    /// `bytes` is the estimated size of the writes. It selects the size of log segments: each open
    /// begins a new segment, and most commands write a few keys. Small segments save space for few
    /// writes; large ones save syncs for many writes.
    ///
    /// If the store has keyspaces, all trees are opened with their hooks. Flushes and compactions
    /// must write the same data as with the data model.
    pub fn open_to_write(&self, create: bool, bytes: u64) -> Done<Db> {
        let options = self.to_write(create, bytes);
        self.check_no_replica()?;
        match self.holding()? {
            StoreContent::Model => Ok(self.model(options)?.engine().store().db().clone()),
            StoreContent::Nothing | StoreContent::Keys => {
                Ok(Db::open_with(&self.store.db, options)?)
            }
        }
    }

    /// Returns options for writing, as in [`open_to_write`](Global::open_to_write).
    pub fn to_write(&self, create: bool, bytes: u64) -> DbOptions {
        DbOptions { create, wal_segment: bytes.clamp(64 << 10, 16 << 20), ..self.defaults() }
    }

    /// Returns options with the user's flags.
    pub fn defaults(&self) -> DbOptions {
        DbOptions {
            accept_log_loss: self.accept_log_loss,
            file_mode: self.file_mode,
            unsynced_dirs: self.unsynced_dirs,
            ..DbOptions::default()
        }
    }

    /// Returns the system's files, with the user's flags for the permissions of new files.
    pub fn env(&self) -> Arc<dyn Env> {
        let env = OsEnv::new();
        let mut terms = FileTerms::default();
        (terms.file_mode, terms.unsynced_dirs) = (self.file_mode, self.unsynced_dirs);
        env.with_terms(terms).unwrap_or(env)
    }

    /// Returns options for reading only.
    pub fn to_read(&self) -> DbOptions {
        DbOptions { create: false, read_only: true, ..DbOptions::default() }
    }

    /// Returns the type of content of the directory, from its manifest alone.
    pub fn holding(&self) -> Done<StoreContent> {
        match self.manifest()? {
            None => Ok(StoreContent::Nothing),
            Some(state) if state.tree_named(SCHEMA_TREE).is_some() => Ok(StoreContent::Model),
            Some(state) if state.trees.is_empty() => Ok(StoreContent::Nothing),
            Some(_) => Ok(StoreContent::Keys),
        }
    }

    /// Returns the state in the manifest; `None` if there is no store.
    fn manifest(&self) -> Done<Option<ManifestState>> {
        let env = OsEnv::new();
        let is_there =
            env.list(&self.store.db).is_ok_and(|names| names.iter().any(|n| n == CURRENT));
        let found = if is_there { Manifest::load(&*env, &self.store.db)? } else { None };
        Ok(found.map(|(state, _)| state))
    }

    /// Reports whether the store is a replica of another one.
    pub fn is_replica(&self) -> Done<bool> {
        Ok(self.manifest()?.is_some_and(|state| state.tree_named(STATE_TREE).is_some()))
    }

    /// Refuses to write to a replica: it would no longer be a copy of its primary.
    pub fn check_no_replica(&self) -> Done {
        if !self.is_replica()? {
            return Ok(());
        }
        Err(Failure::with_next(
            format!("{} is a replica, so it cannot be written to", self.store.db.display()),
            format!("write to its primary; or `{} promote` makes it independent", self.firn()),
        ))
    }

    /// Opens the database of keyspaces, families and tables with these options.
    pub fn wide(&self, db: DbOptions) -> Done<Wide> {
        if !db.read_only {
            self.check_no_replica()?;
        }
        open_wide(&self.store.db, db)
    }

    /// Opens the database with the tables of CQL.
    pub fn model(&self, db: DbOptions) -> Done<Session> {
        let wide = self.wide(db)?;
        if !wide.store().db().is_read_only()
            && let Some(words) = clock_words(wide.store())
        {
            eprintln!("{} {words}", self.style().bold("note:"));
        }
        Session::new(wide)
            .map_err(|e| Failure::new(format!("cannot open {}: {e}", self.store.db.display())))
    }

    /// Opens or creates the database for writing, with the partitioner of the imported data.
    /// `whose` names the source of that data in errors.
    pub fn model_as(&self, partitioner: String, whose: &str) -> Done<Session> {
        self.check_no_replica()?;
        let store = firn_wide::StoreOptions {
            db: self.to_write(true, 16 << 20),
            clock: None,
            ..firn_wide::StoreOptions::default()
        };
        let options =
            firn_wide::Options { partitioner: Some(partitioner), store, ..Default::default() };
        let wide = Wide::open_with(&self.store.db, with_scripts(options)).map_err(|e| match e {
            firn_wide::Error::Configuration(_) => Failure::with_next(
                e.to_string(),
                format!("the store must have the partitioner of {whose}: name another directory with --db, for a new store or one with that partitioner"),
            ),
            other => wide_failure(other, &self.store.db),
        })?;
        Session::new(wide)
            .map_err(|e| Failure::new(format!("cannot open {}: {e}", self.store.db.display())))
    }

    /// Reports whether a shell begins without keyspaces: the store has none, or there is no store.
    /// The shell then uses an [`empty`] database, and the first statement that creates a keyspace
    /// creates the store. So a mistyped directory creates none.
    pub fn begins_empty(&self) -> Done<bool> {
        let names = OsEnv::new().list(&self.store.db).unwrap_or_default();
        let foreign = !names.is_empty() && !names.iter().any(|n| n == CURRENT);
        Ok(!foreign && !io::is_file(&self.store.db) && self.holding()? != StoreContent::Model)
    }

    /// Prints, once, why an empty database refused a statement.
    pub fn note_empty(&self) {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| {
            let what = match self.holding() {
                Ok(StoreContent::Keys) => "is a store of keys and values, which has no keyspaces yet: CREATE KEYSPACE makes one",
                _ => "is no store yet: the first CREATE KEYSPACE makes it",
            };
            eprintln!("{} {} {what}", self.style().bold("note:"), self.store.db.display());
        });
    }

    /// Fails if the store has only keys and values: opening it as a model would create keyspaces.
    pub fn check_model(&self) -> Done {
        if self.holding()? != StoreContent::Keys {
            return Ok(());
        }
        let next = "`firn trees` lists what is there; `firn define`, `firn cli` and `firn cql` make keyspaces";
        Err(Failure::with_next(
            format!(
                "{} is a store of keys and values: it has no keyspaces",
                self.store.db.display()
            ),
            next,
        ))
    }

    /// Replaces the error of reading a tree of families without its hooks by a better one.
    pub fn of_families(&self, failure: Failure, tree: &str) -> Failure {
        match failure {
            Failure::Engine(e)
                if e.kind() == ErrorKind::Incompatible
                    && e.file().is_none()
                    && TreeName::parse(tree).is_some() =>
            {
                let names = self.open_named().map(|(_, names)| names).unwrap_or_default();
                let of =
                    names.of_tree(tree).map_or("a table or a family".to_owned(), str::to_owned);
                let next = "read it with `firn cql` or `firn cli`, or `firn export`";
                Failure::with_next(
                    format!(
                        "the tree {tree:?} has the counters of {of}, which are not plain values"
                    ),
                    next,
                )
            }
            other => other,
        }
    }

    /// Returns the name of the tree that `name` refers to: a tree name, or the KEYSPACE.TABLE
    /// (family, index) in it. Returns `name` itself if there is neither.
    pub fn tree_name(&self, db: &Db, name: &str) -> String {
        match db.tree_names().iter().any(|n| n == name) {
            true => name.to_owned(),
            false => self.path_to_tree(name),
        }
    }

    /// Returns the name of the tree that holds the table, family or index of this path. Returns the
    /// path itself if there is none, as always in a store without keyspaces.
    pub fn path_to_tree(&self, path: &str) -> String {
        let names = Some(path).filter(|path| path.contains('.')).map(|_| self.names());
        names.and_then(|names| names.tree_at(path)).unwrap_or_else(|| path.to_owned())
    }

    /// Returns the displayed names of the trees; empty if the store has no keyspaces or they are
    /// unreadable.
    fn names(&self) -> StoreNames {
        match self.holding() {
            Ok(StoreContent::Model) => {
                self.open_named_quietly().map(|(_, n)| n).unwrap_or_default()
            }
            _ => StoreNames::default(),
        }
    }

    /// Returns the tree of this name or KEYSPACE.TABLE. Without a name, it is the tree `default`,
    /// or else the only tree.
    pub fn tree(&self, db: &Db, name: Option<&str>) -> Done<Tree> {
        let names = db.tree_names();
        let name = name.map(|name| self.tree_name(db, name));
        let chosen = match &name {
            Some(name) if names.contains(name) => name,
            Some(name) => {
                return Err(Failure::with_next(
                    format!("the store has no tree {name:?}; {}", self.tree_list(&names)),
                    "name one of these, or a KEYSPACE.TABLE",
                ));
            }
            None => match &names[..] {
                [only] => only,
                _ if names.iter().any(|n| n == DEFAULT_TREE) => DEFAULT_TREE,
                _ => {
                    return Err(Failure::with_next(
                        format!("which tree? {}", self.tree_list(&names)),
                        "name one with --tree NAME",
                    ));
                }
            },
        };
        Ok(db.existing_tree(chosen)?)
    }

    /// Lists the trees and their content.
    fn tree_list(&self, trees: &[String]) -> String {
        if trees.is_empty() {
            return "it has none".to_owned();
        }
        let names = self.names();
        let all: Vec<String> = trees.iter().map(|t| names.both(t)).collect();
        format!("it has {}", all.join(", "))
    }

    /// Reports whether a tree belongs to the data model.
    pub fn is_own_tree(&self, name: &str) -> Done<bool> {
        Ok(TreeName::parse(name).is_some() && self.holding()? == StoreContent::Model)
    }

    /// Fails if the tree belongs to the data model, which could not read bytes put there by hand.
    pub fn check_own_tree(&self, name: &str) -> Done {
        let next = "write with `firn cql`, `firn cli`, `firn import` or `firn load --keyspace … --family …`; `firn trees` lists the trees";
        self.refuse_own_tree(name, "changing its keys by hand would corrupt them", next)
    }

    /// Fails with this reason and advice if the tree belongs to the data model.
    pub fn refuse_own_tree(&self, name: &str, why: &str, next: &str) -> Done {
        if !self.is_own_tree(name)? {
            return Ok(());
        }
        let names = self.names();
        let of = names.of_tree(name).map_or_else(String::new, |words| format!(" ({words})"));
        let what = format!("the tree {name:?}{of} belongs to the keyspaces of this store: {why}");
        Err(Failure::with_next(what, next))
    }
}

/// Returns the message about a store with writes newer than the clock. Timestamps a century ahead
/// do not count: they are a client's own numbers.
pub fn clock_words(store: &CellStore) -> Option<String> {
    let seconds = store.ahead_of_clock()? / 1_000_000;
    let ahead = match seconds {
        s if s < 7_200 => format!("{} minutes", s / 60),
        s if s < 172_800 => format!("{} hours", s / 3_600),
        s => format!("{} days", s / 86_400),
    };
    (seconds < 100 * 365 * 86_400).then(|| {
        format!(
            "the newest write in this store is {ahead} ahead of the clock: the clock went back, or a client gave the timestamp. \
             Until the clock has passed it, writes to the same cells have no effect: set the clock right, or write USING TIMESTAMP"
        )
    })
}

/// Creates an empty database in memory.
pub fn empty() -> Done<Wide> {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 16 << 20,
        wal_segment: 1 << 20,
        ..DbOptions::default()
    };
    let options = firn_wide::Options {
        store: firn_wide::StoreOptions { db, clock: None, ..firn_wide::StoreOptions::default() },
        ..Default::default()
    };
    let env = std::sync::Arc::new(MemEnv::new(OsEnv::new().random()));
    Wide::open_in(env, "empty", options).map_err(|e| wide_failure(e, Path::new("empty")))
}

/// Content of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreContent {
    /// No store, or one without trees.
    Nothing,
    /// Trees of keys and values.
    Keys,
    /// Keyspaces too.
    Model,
}

/// Tree of a `load` without a tree name.
pub const DEFAULT_TREE: &str = "default";
