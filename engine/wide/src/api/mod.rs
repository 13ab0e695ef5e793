//! Floor 3: operations on the [`store`], with the names and forms of Thrift's interface 19
//! (Cassandra 1.1, model 2.6), and an idiomatic [builder](ColumnFamily).
//!
//! - [`Wide`]: the open database: schema changes (`system_*`) and descriptions (`describe_*`).
//! - [`Keyspace`]: reads and writes in the keyspace that `set_keyspace` selects.
//! - [`ColumnFamily`], [`Row`], [`Batch`], [`Find`]: the idiomatic interface for Rust. [`Chunks`]:
//!   bulk writes.
//!
//! Invariants:
//! - A refused call has written nothing. The writes of a call, over rows and families, become
//!   visible and durable atomically.
//! - The result of a call is from one snapshot.
//! - Every call uses the schema at its start.
//!
//! ```
//! use firn_wide::{CfDef, Column, ColumnParent, ColumnPath, KsDef, SlicePredicate, Wide};
//! # let dir = std::env::temp_dir().join(format!("firn-doc-wide-mod-1-{}", std::process::id()));
//! let wide = Wide::open(&dir)?;
//! wide.system_add_keyspace(&KsDef::new("BloggyAppy"))?;
//! wide.system_add_column_family(&CfDef::new("BloggyAppy", "Authors"))?;
//!
//! let bloggy = wide.keyspace("BloggyAppy")?;
//! bloggy.insert(b"Arin Sarkissian", &ColumnParent::new("Authors"), &Column::new("twitter", "phatduckk", 1))?;
//! bloggy.insert(b"Arin Sarkissian", &ColumnParent::new("Authors"), &Column::new("numPosts", "11", 1))?;
//!
//! let twitter = bloggy.get(b"Arin Sarkissian", &ColumnPath::new("Authors").column("twitter"))?;
//! assert_eq!(twitter.column().unwrap().value, b"phatduckk");
//! let all = bloggy.get_slice(b"Arin Sarkissian", &ColumnParent::new("Authors"), &SlicePredicate::all())?;
//! assert_eq!(all.iter().map(|c| c.name()).collect::<Vec<_>>(), [&b"numPosts"[..], b"twitter"]);
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
mod check;
mod chunks;
mod comparators;
mod data;
mod handles;
mod range;
mod read;
mod state;
mod system;
mod value;
mod write;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_kv::Env;
use firn_kv::OsEnv;
use firn_kv::{Batch as KvBatch, Db, Durability, TreeOptions};
use parking_lot::{Mutex, RwLock};

pub use builder::{Batch, ColumnFamily, Columns, Find, Row, RowIter, Rows, Slice};
pub use check::MAX_SHORT;
pub use chunks::{Chunks, Counts};
pub use data::*;
pub use handles::{Keyspace, NameInUse, Wide};
pub use value::{FromBytes, ToBytes};

use crate::base::error::{Error, Result};
use crate::ring::Partitioner;
use crate::schema::{COMPARATORS, FOREIGN_IDS, RECORD_PREFIX, Schema, register_scripts};
use crate::store::{CellStore, StoreOptions, TreeName};
use crate::types::{ComparatorLanguage, Registry};
use handles::SharedApi;
use state::ApiState;

/// Key of the partitioner's name in `system.schema`.
pub const PARTITIONER: &[u8] = b"wide/partitioner";
/// Key of the cluster's name.
const CLUSTER_NAME: &[u8] = b"wide/cluster_name";

/// Script languages.
#[derive(Clone, Default)]
pub struct Languages(pub Vec<Arc<dyn ComparatorLanguage>>);

impl std::fmt::Debug for Languages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|language| language.name())).finish()
    }
}

/// Options of a database.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Class name of the partitioner, short or in full. It is fixed when the database is created,
    /// and must be the same later. `None`: the partitioner of the database; a new one gets
    /// `Murmur3Partitioner`.
    pub partitioner: Option<String>,
    /// Result of `describe_cluster_name`. `None`: the stored name; `Firn` for a new database.
    pub cluster_name: Option<String>,
    /// Durability of a write before the call returns.
    pub durability: Durability,
    /// Memtable size of each family in bytes, 64 KiB to 2 GiB. `None`: the engine's default of 64
    /// MiB.
    pub memtable_size: Option<usize>,
    /// Types that definitions can name, including custom comparators.
    pub registry: Arc<Registry>,
    /// Script languages for comparators. (One of them is `rhai`, also used by CQL functions:
    /// `firn_cql::with_scripts` adds it.)
    pub languages: Languages,
    /// Options of the engine, and the clock.
    pub store: StoreOptions,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

impl Wide {
    /// Opens the database in `dir`, and creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// Those of [`open_with`](Wide::open_with).
    pub fn open(dir: impl AsRef<Path>) -> Result<Wide> {
        Wide::open_with(dir, Options::default())
    }

    /// Opens the database in `dir` with these options.
    ///
    /// # Errors
    /// `Configuration` if the database has another partitioner; `Corrupt` if its records cannot be
    /// read, or if the partitioner's record is lost and `options` names none; errors of the engine.
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Wide> {
        Wide::open_in(OsEnv::new(), dir, options)
    }

    /// Opens the database in `dir` of another environment.
    ///
    /// # Errors
    /// Those of [`open_with`](Wide::open_with).
    pub fn open_in(env: Arc<dyn Env>, dir: impl AsRef<Path>, options: Options) -> Result<Wide> {
        let store = CellStore::open_in(env, dir, options.store.clone())?;
        Wide::of_store(store, &options)
    }

    /// Opens the database in an open engine of the environment `env`. If `db` only
    /// [reads](firn_kv::Db::reader), so does the database. `options.store.db` is ignored. Closing the
    /// database closes `db`.
    ///
    /// ```
    /// use firn_kv::{Db, OsEnv};
    /// use firn_wide::{KsDef, Options, Wide};
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-wide-in-{}", std::process::id()));
    /// let db = Db::open(&dir)?;
    /// let wide = Wide::in_db(OsEnv::new(), db.clone(), Options::default())?;
    /// wide.system_add_keyspace(&KsDef::new("k"))?;
    /// let seen = Wide::in_db(OsEnv::new(), db.reader(), Options::default())?;
    /// assert!(seen.system_add_keyspace(&KsDef::new("other")).is_err());
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_wide::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`open_with`](Wide::open_with). A handle that only reads needs an existing database.
    pub fn in_db(env: Arc<dyn Env>, db: firn_kv::Db, options: Options) -> Result<Wide> {
        let store = CellStore::in_db(env, db, options.store.clock.clone())?;
        Wide::of_store(store, &options)
    }

    fn of_store(store: CellStore, options: &Options) -> Result<Wide> {
        let partitioner = fixed_partitioner(&store, options.partitioner.as_deref())?;
        let cluster_name = recorded_text(&store, CLUSTER_NAME, options.cluster_name.as_deref())?
            .unwrap_or_else(|| "Firn".into());
        let registry = Arc::new(with_scripts(&store, options)?);
        let schema = stored_schema(&store, registry.clone())?;
        if !store.db().is_read_only() {
            drop_orphans(&store, &schema)?;
        }
        let memtable_size = options.memtable_size.unwrap_or(TreeOptions::default().memtable_size);
        let state = ApiState::open(schema, &store, partitioner, memtable_size, None)?;
        let shared = Arc::new(SharedApi {
            partitioner,
            cluster_name,
            durability: options.durability,
            memtable_size,
            registry: RwLock::new(registry),
            languages: options.languages.0.clone(),
            state: RwLock::new(Arc::new(state)),
            serial: AtomicU64::new(0),
            changes: Mutex::new(()),
            names: RwLock::new(None),
        });
        Ok(Wide { shared, store })
    }

    /// Returns a handle of this database whose operations can be stopped. Once `stop` is true,
    /// reads through it and index builds end with [`Error::Stopped`] at their next cell. A
    /// definition that is stopped while it builds an index has no effect. Operations that only
    /// write are not stopped. Keyspaces obtained from this handle can be stopped too. The setter
    /// resets `stop`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use firn_wide::{CfDef, ColumnParent, Error, KsDef, SlicePredicate, Wide};
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-wide-stop-{}", std::process::id()));
    /// let wide = Wide::open(&dir)?;
    /// wide.system_add_keyspace(&KsDef::new("k"))?;
    /// wide.system_add_column_family(&CfDef::new("k", "f"))?;
    /// wide.keyspace("k")?.family("f")?.row("r").insert("c", "v")?;
    /// let stop = Arc::new(AtomicBool::new(false)); // another thread may set it
    /// let keyspace = wide.stoppable(stop.clone()).keyspace("k")?;
    /// stop.store(true, Ordering::Relaxed);
    /// let read = keyspace.get_slice(b"r", &ColumnParent::new("f"), &SlicePredicate::all());
    /// assert!(matches!(read, Err(Error::Stopped)));
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stoppable(&self, stop: Arc<AtomicBool>) -> Wide {
        Wide { shared: self.shared.clone(), store: self.store.stoppable(stop) }
    }

    /// Closes the database for all its handles, and reports whether all writes are durable:
    /// [`firn_kv::Db::close`]. Dropping the last handle closes it too but ignores errors.
    ///
    /// ```
    /// use firn_wide::Wide;
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-wide-close-{}", std::process::id()));
    /// let wide = Wide::open(&dir)?;
    /// wide.close()?;
    /// let again = Wide::open(&dir)?; // beside the old handle
    /// # drop(again); std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_wide::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`firn_kv::Db::close`]: the database is closed even then.
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }

    /// Returns the keyspace with this name: Thrift's `set_keyspace`.
    ///
    /// # Errors
    /// `InvalidRequest` if there is none.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.state().schema.keyspace(name)?;
        Ok(Keyspace { wide: self.clone(), name: name.into() })
    }

    /// Returns the current resolved schema, for tools and without stability promises
    /// ([`internals::schema`](crate::internals::schema)). Applications use
    /// [`describe_keyspace`](Wide::describe_keyspace).
    #[doc(hidden)]
    pub fn schema(&self) -> Schema {
        self.state().schema.clone()
    }

    /// Returns the number of schema changes since the database was opened. Caches of schema data
    /// compare it, which is cheap, to see whether they are stale. Without stability promises, like
    /// [`schema`](Wide::schema).
    #[doc(hidden)]
    pub fn definition_serial(&self) -> u64 {
        self.shared.serial.load(Ordering::Acquire)
    }

    /// Reserves names of a higher layer: from now on no family is created with a name in a keyspace
    /// for which `is_taken` returns true. It may be called during schema changes. Without stability
    /// promises, like [`schema`](Wide::schema).
    #[doc(hidden)]
    pub fn reserve_names(&self, is_taken: Arc<NameInUse>) {
        *self.shared.names.write() = Some(is_taken);
    }

    /// Returns the types that definitions can name.
    pub fn registry(&self) -> Arc<Registry> {
        self.shared.registry.read().clone()
    }

    /// Returns the durability of writes before a call returns.
    pub fn durability(&self) -> Durability {
        self.shared.durability
    }

    /// Returns the underlying engine, with its statistics, checkpoints and checks.
    ///
    /// ```
    /// use firn_wide::Wide;
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-wide-db-{}", std::process::id()));
    /// let wide = Wide::open(&dir)?;
    /// assert!(wide.db().verify(|_, _| {})?.errors.is_empty());
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_wide::Error>(())
    /// ```
    pub fn db(&self) -> &Db {
        self.store.db()
    }

    /// Returns the underlying store, without stability promises
    /// ([`internals::store`](crate::internals::store)).
    #[doc(hidden)]
    pub fn store(&self) -> &CellStore {
        &self.store
    }

    /// Returns the partitioner.
    pub fn partitioner(&self) -> Partitioner {
        self.shared.partitioner
    }

    /// Returns a timestamp for a write: microseconds since 1970, larger than all earlier ones.
    pub fn timestamp(&self) -> i64 {
        self.store.timestamp()
    }

    fn state(&self) -> Arc<ApiState> {
        self.shared.state.read().clone()
    }
}

/// Returns the recorded text for a key. A given text is recorded if it differs.
fn recorded_text(store: &CellStore, key: &[u8], given: Option<&str>) -> Result<Option<String>> {
    let recorded = store.schema_tree().get(key)?;
    let recorded =
        recorded.map(|v| std::str::from_utf8(&v).map(str::to_owned)).transpose().map_err(|_| {
            Error::Corrupt(format!("system.schema, record {}: not UTF-8", key.escape_ascii()))
        })?;
    if let Some(given) = given
        && recorded.as_deref() != Some(given)
    {
        let mut batch = KvBatch::new();
        store.put_record(&mut batch, key, Some(given.as_bytes()))?;
        store.db().write(batch)?;
    }
    Ok(given.map(str::to_owned).or(recorded))
}

/// Returns the recorded partitioner of the database, or chooses and records one.
fn fixed_partitioner(store: &CellStore, given: Option<&str>) -> Result<Partitioner> {
    let parse =
        |name: &str| Partitioner::parse(name).map_err(|why| Error::Configuration(why.to_string()));
    let wanted = given.map(parse).transpose()?;
    let Some(recorded) = recorded_text(store, PARTITIONER, None)? else {
        // It is the first record after the store's own records, whose keys begin with 0.
        let is_new =
            || Ok::<_, Error>(store.schema_tree().range([1]..).next().transpose()?.is_none());
        let partitioner = match wanted {
            Some(partitioner) => partitioner,
            None if is_new()? => Partitioner::default(),
            None => {
                return Err(Error::Corrupt(
                    "system.schema, record wide/partitioner: it is missing, though there are definitions; `sstable-dump salvage` finds \
                     the partitioner by what is in the store, or open it with the one that it was created with"
                        .into(),
                ));
            }
        };
        let mut batch = KvBatch::new();
        store.separate_copies(&mut batch)?;
        store.put_record(&mut batch, PARTITIONER, Some(partitioner.full_name().as_bytes()))?;
        store.db().with_durability(Durability::Power).write(batch)?;
        return Ok(partitioner);
    };
    let has = parse(&recorded)?;
    match wanted {
        Some(wanted) if wanted != has => Err(Error::Configuration(format!(
            "the database was created with {has}, which can't be changed to {wanted}; open it with the former"
        ))),
        _ => Ok(has),
    }
}

/// Returns the registry of the options, extended by the scripts of the store.
fn with_scripts(store: &CellStore, options: &Options) -> Result<Registry> {
    let records = store.records(COMPARATORS.as_bytes())?;
    let mut registry = Registry::clone(&options.registry);
    let records = records.iter().map(|(key, value)| (&**key, &**value));
    register_scripts(&mut registry, records, &options.languages.0)?;
    Ok(registry)
}

fn stored_schema(store: &CellStore, registry: Arc<Registry>) -> Result<Schema> {
    let records = store.records(RECORD_PREFIX)?;
    Schema::from_records(registry, records.iter().map(|(k, v)| (&**k, &**v)))
}

/// Drops remains of families and indexes whose creation or drop was interrupted by a crash.
fn drop_orphans(store: &CellStore, schema: &Schema) -> Result<()> {
    let defined = |tree| match tree {
        TreeName::Schema => true,
        TreeName::Family(id) => schema.family_by_id(id).is_some(),
        TreeName::Index(id) => {
            schema.families().any(|f| f.indexes().any(|(_, index)| index.id == id))
        }
    };
    // The remaining trees have lost their definitions, so their content is unknown.
    store.drop_undefined(0..FOREIGN_IDS, defined).map(|_left| ())
}
