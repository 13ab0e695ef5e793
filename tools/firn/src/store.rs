//! Opening stores and trees the way a command needs them: reading commands never write and never
//! make a store.

use std::path::Path;
use std::sync::{Arc, Once};

use clap::Args;
use firn_cql::{Session, with_scripts};
use firn_kv::MemEnv;
use firn_kv::fs::FileTerms;
use firn_kv::internals::manifest::{CURRENT, Manifest};
use firn_kv::{Db, DbOptions, Env, Error, ErrorKind, OsEnv, Tree};
use firn_tools::io;
use firn_tools::options::{DEFAULT_STORE, EVERYWHERE, StoreArgs};
use firn_tools::output::{Done, Failure, Style, things};
use firn_tools::shell;
use firn_wide::Wide;
use firn_wide::internals::store::{CellStore, SCHEMA_TREE, TreeName};

use crate::names::StoreNames;

/// What every command takes.
#[derive(Args, Clone, Debug)]
pub struct Global {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Open for writing though a damaged log has cut off writes, and lose them
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub accept_log_loss: bool,
    /// Permission bits of files that the command creates, in octal: 0600 to 0666
    ///
    /// Directories may also be entered by those who may read or write files. The umask takes bits
    /// away as always.
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "MODE", value_parser = file_mode, default_value = "0600")]
    pub file_mode: u32,
    /// Go on where the file system cannot sync a directory: a power cut may then take whole files
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub unsynced_dirs: bool,
    /// Whether the command line names the store.
    #[arg(skip)]
    pub names_store: bool,
}

/// Permission bits as `chmod` takes them.
fn file_mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| mode & !0o666 == 0 && mode & 0o600 == 0o600)
        .ok_or_else(|| {
            "it must let the owner read and write, and nobody execute: 0600, 0640, 0660, 0644"
                .into()
        })
}

/// What a command says when the database in `dir` fails.
pub fn wide_failure(e: firn_wide::Error, dir: &Path) -> Failure {
    match e {
        firn_wide::Error::Store(e) => Failure::Engine(e),
        other => Failure::new(format!("cannot open {}: {other}", dir.display())),
    }
}

/// Opens the database of keyspaces, families and tables that is in `dir`.
pub fn open_wide(dir: &Path, db: DbOptions) -> Done<Wide> {
    let store = firn_wide::StoreOptions { db, clock: None };
    let options = with_scripts(firn_wide::Options { store, ..Default::default() });
    Wide::open_with(dir, options).map_err(|e| wide_failure(e, dir))
}

impl Global {
    /// The colours to use.
    pub fn style(&self) -> Style {
        self.store.style()
    }

    /// Returns the words that commands printed for this store begin with: `firn`, and where its
    /// directory is not the default one, `--db DIR`.
    pub fn firn(&self) -> String {
        match self.store.db == Path::new(DEFAULT_STORE) {
            true => "firn".to_owned(),
            false => format!("firn --db {}", shell::path(&self.store.db)),
        }
    }

    /// Opens the store for reading only: without its lock, without writing a byte, beside a writer
    /// too.
    pub fn open_to_read(&self) -> Done<Db> {
        let db = Db::open_with(&self.store.db, self.to_read())?;
        self.tell_of_log(&db);
        Ok(db)
    }

    /// The same, with what its trees are called by people.
    pub fn open_named(&self) -> Done<(Db, StoreNames)> {
        let (db, names) = self.open_named_quietly()?;
        self.tell_of_log(&db);
        Ok((db, names))
    }

    /// The same without a word about a damaged log. Where there are families and tables, all trees
    /// are opened with their hooks; where their definitions can't be read, without, and nobody
    /// knows what they are called.
    pub fn open_named_quietly(&self) -> Result<(Db, StoreNames), Error> {
        if self.holding().ok() == Some(Holding::Model)
            && let Ok(session) = self.model(self.to_read())
        {
            return Ok((session.engine().store().db().clone(), StoreNames::of_session(&session)));
        }
        Ok((Db::open_with(&self.store.db, self.to_read())?, StoreNames::default()))
    }

    fn tell_of_log(&self, db: &Db) {
        if let Some(torn) = db.torn_log().filter(|t| t.proof.is_some()) {
            eprintln!(
                "{} the log is damaged, and {} behind the damage are not read: `firn verify` says more, `sstable-dump salvage` saves them",
                self.style().bold("note:"),
                things(torn.operations_beyond, "operation", "operations")
            );
        }
    }

    /// Opens the store for writing; makes it if `create` is set and there is none.
    ///
    /// About `bytes` are to be written. Each open begins a new log segment, and most commands write
    /// a handful of keys: so small segments for little, to save space, and large ones for much, to
    /// save syncs.
    ///
    /// Where there are families and tables, all trees are opened with their hooks: what a flush or
    /// a merge writes must be what the data model would have written.
    pub fn open_to_write(&self, create: bool, bytes: u64) -> Done<Db> {
        let options = self.to_write(create, bytes);
        match self.holding()? {
            Holding::Model => Ok(self.model(options)?.engine().store().db().clone()),
            Holding::Nothing | Holding::Keys => Ok(Db::open_with(&self.store.db, options)?),
        }
    }

    /// Options for writing, as in [`open_to_write`](Global::open_to_write).
    pub fn to_write(&self, create: bool, bytes: u64) -> DbOptions {
        DbOptions { create, wal_segment: bytes.clamp(64 << 10, 16 << 20), ..self.defaults() }
    }

    /// Options as the user's flags have them.
    pub fn defaults(&self) -> DbOptions {
        DbOptions {
            accept_log_loss: self.accept_log_loss,
            file_mode: self.file_mode,
            unsynced_dirs: self.unsynced_dirs,
            ..DbOptions::default()
        }
    }

    /// The system's files, with the permissions of new ones that the user's flags have.
    pub fn env(&self) -> Arc<dyn Env> {
        let env = OsEnv::new();
        let terms = FileTerms { file_mode: self.file_mode, unsynced_dirs: self.unsynced_dirs };
        env.with_terms(terms).unwrap_or(env)
    }

    /// Options for reading only.
    pub fn to_read(&self) -> DbOptions {
        DbOptions { create: false, read_only: true, ..DbOptions::default() }
    }

    /// What the directory holds, by its manifest alone.
    pub fn holding(&self) -> Done<Holding> {
        let env = OsEnv::new();
        let is_there =
            env.list(&self.store.db).is_ok_and(|names| names.iter().any(|n| n == CURRENT));
        match if is_there { Manifest::load(&*env, &self.store.db)? } else { None } {
            None => Ok(Holding::Nothing),
            Some((state, _)) if state.tree_named(SCHEMA_TREE).is_some() => Ok(Holding::Model),
            Some((state, _)) if state.trees.is_empty() => Ok(Holding::Nothing),
            Some(_) => Ok(Holding::Keys),
        }
    }

    /// Opens the database of keyspaces, families and tables in this way.
    pub fn wide(&self, db: DbOptions) -> Done<Wide> {
        open_wide(&self.store.db, db)
    }

    /// The same, with the tables of CQL.
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

    /// Opens the database for writing, or makes it, with the partitioner of what is put into it:
    /// `whose` says what that is.
    pub fn model_as(&self, partitioner: String, whose: &str) -> Done<Session> {
        let store = firn_wide::StoreOptions { db: self.to_write(true, 16 << 20), clock: None };
        let options =
            firn_wide::Options { partitioner: Some(partitioner), store, ..Default::default() };
        let wide = Wide::open_with(&self.store.db, with_scripts(options)).map_err(|e| match e {
            firn_wide::Error::Configuration(_) => Failure::with_next(
                e.to_string(),
                format!("the partitioner is that of {whose}: name another directory with --db, of a new store or one that has it"),
            ),
            other => wide_failure(other, &self.store.db),
        })?;
        Session::new(wide)
            .map_err(|e| Failure::new(format!("cannot open {}: {e}", self.store.db.display())))
    }

    /// Whether a shell has to begin with nothing: a store without keyspaces, or none yet. It then
    /// speaks to an [`empty`] database, and the first statement that makes a keyspace makes the
    /// store: so a name mistyped makes none.
    pub fn begins_empty(&self) -> Done<bool> {
        let names = OsEnv::new().list(&self.store.db).unwrap_or_default();
        let foreign = !names.is_empty() && !names.iter().any(|n| n == CURRENT);
        Ok(!foreign && !io::is_file(&self.store.db) && self.holding()? != Holding::Model)
    }

    /// What is said when a statement is refused by such a database, once.
    pub fn tell_empty(&self) {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| {
            let what = match self.holding() {
                Ok(Holding::Keys) => "is a store of keys and values, which has no keyspaces yet: CREATE KEYSPACE makes one",
                _ => "is no store yet: the first CREATE KEYSPACE makes it",
            };
            eprintln!("{} {} {what}", self.style().bold("note:"), self.store.db.display());
        });
    }

    /// Refuses to go on where there are no families and tables: to open them would make them.
    pub fn check_model(&self) -> Done {
        if self.holding()? != Holding::Keys {
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

    /// What is said when a tree of families is read without what knows its values.
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
                        "the tree {tree:?} holds the counters of {of}, which are no plain values"
                    ),
                    next,
                )
            }
            other => other,
        }
    }

    /// The name of a tree that users name as it is, or as the KEYSPACE.TABLE (family, index) that is
    /// in it; the same name where there is neither.
    pub fn tree_name(&self, db: &Db, name: &str) -> String {
        match db.tree_names().iter().any(|n| n == name) {
            true => name.to_owned(),
            false => self.path_to_tree(name),
        }
    }

    /// The name of the tree that holds the table, family or index of this path; the same name where
    /// there is none, as always in a store without keyspaces.
    pub fn path_to_tree(&self, path: &str) -> String {
        let names = Some(path).filter(|path| path.contains('.')).map(|_| self.names());
        names.and_then(|names| names.tree_at(path)).unwrap_or_else(|| path.to_owned())
    }

    /// What the trees of a store with keyspaces are called; nothing where it has none, or where that
    /// can't be read.
    fn names(&self) -> StoreNames {
        match self.holding() {
            Ok(Holding::Model) => self.open_named_quietly().map(|(_, n)| n).unwrap_or_default(),
            _ => StoreNames::default(),
        }
    }

    /// The tree of this name or KEYSPACE.TABLE; without a name the tree `default`, or else the only
    /// one that there is.
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

    /// The trees that there are, and what is in them.
    fn tree_list(&self, trees: &[String]) -> String {
        if trees.is_empty() {
            return "it has none".to_owned();
        }
        let names = self.names();
        let all: Vec<String> = trees.iter().map(|t| names.both(t)).collect();
        format!("it has {}", all.join(", "))
    }

    /// Whether a tree is one of the data model's.
    pub fn is_own_tree(&self, name: &str) -> Done<bool> {
        Ok(TreeName::parse(name).is_some() && self.holding()? == Holding::Model)
    }

    /// Refuses to write by hand into a tree in which the data model keeps what it must understand
    /// later.
    pub fn check_own_tree(&self, name: &str) -> Done {
        if !self.is_own_tree(name)? {
            return Ok(());
        }
        let next = "write with `firn cql`, `firn cli`, `firn import` or `firn load --keyspace … --family …`; `firn trees` lists the trees";
        let names = self.names();
        let of = names.of_tree(name).map_or_else(String::new, |words| format!(" ({words})"));
        let what = format!(
            "the tree {name:?}{of} belongs to the keyspaces of this store: bytes put in or taken out by hand would break them"
        );
        Err(Failure::with_next(what, next))
    }
}

/// What is said of a store with writes that are newer than the clock. Timestamps a century ahead are
/// a client's own numbers.
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

/// A database without anything in it, in memory.
pub fn empty() -> Done<Wide> {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 16 << 20,
        wal_segment: 1 << 20,
        ..DbOptions::default()
    };
    let options = firn_wide::Options {
        store: firn_wide::StoreOptions { db, clock: None },
        ..Default::default()
    };
    let env = std::sync::Arc::new(MemEnv::new(OsEnv::new().random()));
    Wide::open_in(env, "empty", options).map_err(|e| wide_failure(e, Path::new("empty")))
}

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// No store, or one without trees.
    Nothing,
    /// Trees of keys and values.
    Keys,
    /// Keyspaces too.
    Model,
}

/// The tree of a `load` that names none.
pub const DEFAULT_TREE: &str = "default";
