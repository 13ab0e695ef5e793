//! Floor 3: the operations of the article's era over the [`store`], in the form of Thrift's
//! interface 19 (Cassandra 1.1, model 2.6), and beside them an idiomatic [builder](ColumnFamily).
//!
//! - [`Wide`]: the open database: definitions (`system_*`) and what describes it (`describe_*`).
//! - [`Keyspace`]: what `set_keyspace` chooses: reads and writes.
//! - [`ColumnFamily`], [`Row`], [`Batch`], [`Find`]: what a Rust developer reaches for first.
//!   [`Chunks`]: many rows at once.
//!
//! Invariants:
//! - A call that is refused has written nothing. A call's writes, over rows and families, become
//!   visible and durable together.
//! - What one call returns is of one state.
//! - Every call works with the definitions of the moment when it began.
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
pub use handles::{Keyspace, NamesElsewhere, Wide};
pub use value::{FromBytes, ToBytes};

use crate::base::error::{Error, Result};
use crate::ring::Partitioner;
use crate::schema::{COMPARATORS, FOREIGN_IDS, RECORD_PREFIX, Schema, register_scripts};
use crate::store::{CellStore, StoreOptions, TreeName};
use crate::types::{ComparatorLanguage, Registry};
use handles::SharedApi;
use state::ApiState;

/// The key of the partitioner's name in `system.schema`.
pub const PARTITIONER: &[u8] = b"wide/partitioner";
/// The key of the cluster's name.
const CLUSTER_NAME: &[u8] = b"wide/cluster_name";

/// Languages of scripts.
#[derive(Clone, Default)]
pub struct Languages(pub Vec<Arc<dyn ComparatorLanguage>>);

impl std::fmt::Debug for Languages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|language| language.name())).finish()
    }
}

/// How a database is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How row keys are spread: the partitioner's class name, short or in full. It is fixed when
    /// the database is created, and must be the same later. `None`: what the database has; a new
    /// one gets `Murmur3Partitioner`.
    pub partitioner: Option<String>,
    /// The answer of `describe_cluster_name`. `None`: what it is; of a new database `Firn`.
    pub cluster_name: Option<String>,
    /// How durable a write is before the call returns.
    pub durability: Durability,
    /// Memory that each family may fill before it is written to a table, in bytes, 64 KiB to 2 GiB.
    /// `None`: the engine's 64 MiB.
    pub memtable_size: Option<usize>,
    /// The types that definitions can name, custom comparators among them.
    pub registry: Arc<Registry>,
    /// The languages that comparators in the store may be written in. (The `rhai` of functions of
    /// CQL is one: `firn_cql::with_scripts` adds it.)
    pub languages: Languages,
    /// The options of the engine beneath, and the clock.
    pub store: StoreOptions,
}

impl Wide {
    /// Opens the database in `dir`, creating it when the directory is missing or empty.
    ///
    /// # Errors
    /// As [`open_with`](Wide::open_with).
    pub fn open(dir: impl AsRef<Path>) -> Result<Wide> {
        Wide::open_with(dir, Options::default())
    }

    /// Opens the database in `dir` in this way.
    ///
    /// # Errors
    /// `Configuration` when the database has another partitioner; `Corrupt` when its records can't
    /// be read, or that of the partitioner was lost and `options` names none; errors of the engine.
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Wide> {
        Wide::open_in(OsEnv::new(), dir, options)
    }

    /// Opens the database in `dir` of another environment.
    ///
    /// # Errors
    /// As [`open_with`](Wide::open_with).
    pub fn open_in(env: Arc<dyn Env>, dir: impl AsRef<Path>, options: Options) -> Result<Wide> {
        let store = CellStore::open_in(env, dir, options.store.clone())?;
        let partitioner = fixed_partitioner(&store, options.partitioner.as_deref())?;
        let cluster_name = kept_text(&store, CLUSTER_NAME, options.cluster_name.as_deref())?
            .unwrap_or_else(|| "Firn".into());
        let registry = Arc::new(with_scripts(&store, &options)?);
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
            languages: options.languages.0,
            state: RwLock::new(Arc::new(state)),
            serial: AtomicU64::new(0),
            changes: Mutex::new(()),
            names: RwLock::new(None),
        });
        Ok(Wide { shared, store })
    }

    /// The same database, by a handle whose work can be stopped: what reads through it, or builds
    /// an index, ends with [`Error::Stopped`] at its next cell as soon as `stop` is true. A
    /// definition that is stopped while it builds an index leaves all as it was. What only writes
    /// is not stopped. Keyspaces that this handle gives are like it. Whoever sets `stop` sets it
    /// back.
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

    /// Closes the database for all its handles, and says whether all that was written is safe:
    /// [`firn_kv::Db::close`]. Dropping the last handle closes it too, and keeps the error to
    /// itself.
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
    /// As [`firn_kv::Db::close`]: the database is closed all the same.
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }

    /// The keyspace of this name: Thrift's `set_keyspace`.
    ///
    /// # Errors
    /// `InvalidRequest` when there is none.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.state().schema.keyspace(name)?;
        Ok(Keyspace { wide: self.clone(), name: name.into() })
    }

    /// All definitions, as they are now, resolved: for tools, and without promises
    /// ([`internals::schema`](crate::internals::schema)). An application asks
    /// [`describe_keyspace`](Wide::describe_keyspace).
    pub fn schema(&self) -> Schema {
        self.state().schema.clone()
    }

    /// How often definitions were changed since the database was opened: who keeps what it made of
    /// them sees by it, at the cost of a look at a number, that it must look at them again. Without
    /// promises, as [`schema`](Wide::schema).
    pub fn definition_serial(&self) -> u64 {
        self.shared.serial.load(Ordering::Acquire)
    }

    /// From now on no family is made of a name in a keyspace of which this says that a layer above
    /// has given it to something of its own. It may be asked while definitions are changed. Without
    /// promises, as [`schema`](Wide::schema).
    pub fn reserve_names(&self, is_taken: Arc<NamesElsewhere>) {
        *self.shared.names.write() = Some(is_taken);
    }

    /// The types that definitions can name.
    pub fn registry(&self) -> Arc<Registry> {
        self.shared.registry.read().clone()
    }

    /// How durable writes are before the call returns.
    pub fn durability(&self) -> Durability {
        self.shared.durability
    }

    /// The engine beneath: its statistics, checkpoints and checks.
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

    /// The store beneath, without promises ([`internals::store`](crate::internals::store)).
    pub fn store(&self) -> &CellStore {
        &self.store
    }

    /// How row keys are spread.
    pub fn partitioner(&self) -> Partitioner {
        self.shared.partitioner
    }

    /// A timestamp for a write: microseconds since 1970, larger than all that were given before.
    pub fn timestamp(&self) -> i64 {
        self.store.timestamp()
    }

    fn state(&self) -> Arc<ApiState> {
        self.shared.state.read().clone()
    }
}

/// The text on record under a key: the given one, which is recorded where there is none or another.
fn kept_text(store: &CellStore, key: &[u8], given: Option<&str>) -> Result<Option<String>> {
    let kept = store.schema_tree().get(key)?;
    let kept =
        kept.map(|v| std::str::from_utf8(&v).map(str::to_owned)).transpose().map_err(|_| {
            Error::Corrupt(format!("system.schema, record {}: not UTF-8", key.escape_ascii()))
        })?;
    if let Some(given) = given
        && kept.as_deref() != Some(given)
    {
        let mut batch = KvBatch::new();
        store.put_record(&mut batch, key, Some(given.as_bytes()))?;
        store.db().write(batch)?;
    }
    Ok(given.map(str::to_owned).or(kept))
}

/// The partitioner that the database has, or gets now.
fn fixed_partitioner(store: &CellStore, given: Option<&str>) -> Result<Partitioner> {
    let parse =
        |name: &str| Partitioner::parse(name).map_err(|why| Error::Configuration(why.to_string()));
    let wanted = given.map(parse).transpose()?;
    let Some(kept) = kept_text(store, PARTITIONER, None)? else {
        // It is on record before anything else but the store's own records, which begin with 0.
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
        store.db().with(Durability::Power).write(batch)?;
        return Ok(partitioner);
    };
    let has = parse(&kept)?;
    match wanted {
        Some(wanted) if wanted != has => Err(Error::Configuration(format!(
            "the database was created with {has}, which can't be changed to {wanted}; open it with the former"
        ))),
        _ => Ok(has),
    }
}

/// The registry of the options with the scripts of the store.
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

/// Drops what a crash left of families and indexes that were being dropped or made.
fn drop_orphans(store: &CellStore, schema: &Schema) -> Result<()> {
    let defined = |tree| match tree {
        TreeName::Schema => true,
        TreeName::Family(id) => schema.family_by_id(id).is_some(),
        TreeName::Index(id) => {
            schema.families().any(|f| f.indexes().any(|(_, index)| index.id == id))
        }
    };
    // What is left lost its definition: nobody can say here what it is.
    store.drop_undefined(0..FOREIGN_IDS, defined).map(|_left| ())
}
