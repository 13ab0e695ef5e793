//! Opens a store; opens, changes and drops its families.

use crate::base::error::{Error, Result, invalid};
use firn_kv::Env;
use firn_kv::OsEnv;
use firn_kv::{Batch, Db, DbOptions, Durability, Tree, TreeOptions};
use parking_lot::RwLock;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8};

use super::clock::{Clock, EnvClock, Ticker};

use super::family::{FamilyAccess, FamilySpec, FamilyState, Indexes, OpenFamily, StoreFamily};
use super::index::new_indexes;
use super::shared::{CellStore, HandleSettings, SharedStore, kind_record};
use super::stripes::Stripes;
use super::trees::{SCHEMA_TREE, TreeName};
use super::{family, hooks};

/// Options of a store.
#[derive(Clone, Default)]
pub struct StoreOptions {
    /// Options of the engine.
    pub db: DbOptions,
    /// Clock; `None` for that of the environment.
    pub clock: Option<Arc<dyn Clock>>,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreOptions")
            .field("db", &self.db)
            .field("has_clock", &self.clock.is_some())
            .finish()
    }
}

/// Tolerance for clients' clocks that are ahead.
const CLOCK_TOLERANCE_MICROS: i64 = 60_000_000;

impl CellStore {
    /// Opens the store in `dir`, and creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// Those of [`Db::open_with`].
    pub fn open(dir: impl AsRef<Path>, options: StoreOptions) -> Result<CellStore> {
        CellStore::open_in(OsEnv::new(), dir, options)
    }

    /// Opens the store in `dir` of another environment.
    ///
    /// # Errors
    /// Those of [`open`](CellStore::open).
    pub fn open_in(
        env: Arc<dyn Env>,
        dir: impl AsRef<Path>,
        options: StoreOptions,
    ) -> Result<CellStore> {
        let db = Db::open_in(env.clone(), dir, options.db)?;
        CellStore::in_db(env, db, options.clock)
    }

    /// Opens the store in an open engine of the environment `env`. Without a `clock` it uses that of
    /// the environment.
    ///
    /// # Errors
    /// Those of [`Db::tree`].
    pub fn in_db(env: Arc<dyn Env>, db: Db, clock: Option<Arc<dyn Clock>>) -> Result<CellStore> {
        let clock = clock.unwrap_or_else(|| Arc::new(EnvClock(env.clone())));
        let schema = db.tree(SCHEMA_TREE, TreeOptions::default())?;
        let stripes = Stripes::load(&schema)?;
        let shared = SharedStore {
            mark: Arc::default(),
            env,
            writer: db.with_durability(Durability::Process),
            db,
            schema,
            clock,
            ticker: Ticker::default(),
            stripes,
            families: RwLock::default(),
        };
        Ok(CellStore(Arc::new(shared), HandleSettings::default()))
    }

    /// Returns a handle of this store whose operations can be stopped. Once `stop` is true, its
    /// readers and index builds end with [`Error::Stopped`] at their next cell. Writes are not
    /// stopped. The setter resets the flag.
    pub fn stoppable(&self, stop: Arc<AtomicBool>) -> CellStore {
        CellStore(self.0.clone(), HandleSettings { stop: Some(stop), ..self.1.clone() })
    }

    /// Returns a handle of this store that cannot be stopped, even if this one can: for reverting
    /// stopped operations.
    pub fn unstoppable(&self) -> CellStore {
        CellStore(self.0.clone(), HandleSettings { stop: None, ..self.1.clone() })
    }

    /// Returns a handle of this store with a fixed current time, in seconds since 1970. It applies
    /// to the liveness of cells that are read, and to expiration and deletion times of writes.
    pub fn as_of(&self, second: i64) -> CellStore {
        CellStore(self.0.clone(), HandleSettings { now: Some(second), ..self.1.clone() })
    }

    /// Closes the store for all its handles, and reports whether all writes are durable:
    /// [`Db::close`].
    ///
    /// # Errors
    /// Those of [`Db::close`].
    pub fn close(&self) -> Result<()> {
        Ok(self.0.db.close()?)
    }

    /// Returns the underlying engine.
    pub fn db(&self) -> &Db {
        &self.0.db
    }

    /// Returns the records of the schema tree with this key prefix, in order.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn records(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let all = self
            .0
            .schema
            .prefix(prefix)
            .map(|record| record.map(|(key, value)| (key.to_vec(), value.to_vec())));
        Ok(all.collect::<firn_kv::Result<_>>()?)
    }

    /// Returns a timestamp for a write: microseconds since 1970, larger than all earlier ones.
    pub fn timestamp(&self) -> i64 {
        self.0.ticker.next(self.0.clock.micros())
    }

    /// Returns the microseconds by which the newest written timestamp is ahead of the clock; `None`
    /// if it is not ahead by more than the tolerance. If it is, the clock went back or a client set
    /// the timestamp. Later writes to such a cell have no effect until the clock has passed it.
    pub fn ahead_of_clock(&self) -> Option<i64> {
        let ahead = self.0.stripes.newest()?.checked_sub(self.0.clock.micros())?;
        (ahead > CLOCK_TOLERANCE_MICROS).then_some(ahead)
    }

    /// Returns random bits of the store's environment, for unique ids, not for secrets.
    pub fn random(&self) -> u64 {
        self.0.env.random()
    }

    /// Returns the current time for expiration, in seconds since 1970.
    pub fn now(&self) -> i64 {
        self.1.now.unwrap_or_else(|| self.0.clock.micros().div_euclid(1_000_000))
    }

    /// Opens a family, and creates it if it is missing. If the family is already open, its indexes,
    /// grace and tree options become those of `spec`. Returns when all indexes have been built;
    /// others may write meanwhile.
    ///
    /// # Errors
    /// `InvalidRequest` if the open family has another layout or kind of cells; errors of the
    /// engine. `Stopped` with a [`stoppable`](CellStore::stoppable) handle: then a new index is not
    /// built, and queries of it are refused. Another call without it in `spec` drops it, and
    /// another opening builds it.
    pub fn open_family(&self, spec: FamilySpec) -> Result<StoreFamily> {
        let id = spec.id;
        self.open_families(vec![spec])?.pop().ok_or_else(|| not_open(id))
    }

    /// Opens families in this order, like [`open_family`](CellStore::open_family). Missing ones are
    /// created in one step, all with their indexes or none, so any number has the cost of one.
    ///
    /// # Errors
    /// Those of [`open_family`](CellStore::open_family), and `InvalidRequest` for a duplicate id.
    /// Some families may be open then; new ones are empty and returned by
    /// [`family`](CellStore::family).
    pub fn open_families(&self, specs: Vec<FamilySpec>) -> Result<Vec<StoreFamily>> {
        if specs.iter().any(|spec| spec.counter && !spec.indexes.is_empty()) {
            return Err(invalid("a family of counters can't have indexes"));
        }
        let before: Vec<Indexes> = specs
            .iter()
            .map(|spec| self.family(spec.id).map_or_else(Indexes::default, |f| f.indexes()))
            .collect();
        let wanted = specs.iter().zip(&before).flat_map(|(spec, before)| {
            let options = hooks::family(
                spec.tree.clone(),
                spec.counter,
                spec.layout.token_len(),
                spec.gc_grace.into(),
            );
            let new = new_indexes(before, &spec.indexes);
            let indexes = new.map(|index| (TreeName::Index(index.id).to_string(), hooks::index()));
            std::iter::once((TreeName::Family(spec.id).to_string(), options)).chain(indexes)
        });
        // With a higher durability the log is synced once at the end.
        let wanted: Vec<(String, TreeOptions)> = wanted.collect();
        let trees = self.0.writer.trees(wanted.iter().cloned())?;
        for (tree, (_, options)) in trees.iter().zip(&wanted) {
            match tree.set_options(options.clone()) {
                // A store that is open for reading keeps its options.
                Err(e) if e.kind() == firn_kv::ErrorKind::ReadOnly => {}
                done => done?,
            }
        }
        let mut trees = trees.into_iter();
        // Register all families before the first index is built, so that a revert finds them.
        let mut families = vec![];
        let mut of_indexes = vec![];
        for (spec, before) in specs.iter().zip(&before) {
            let tree = trees.next().ok_or_else(|| not_open(spec.id))?;
            families.push(self.register_family(spec, tree)?);
            of_indexes
                .push(trees.by_ref().take(new_indexes(before, &spec.indexes).count()).collect());
        }
        for (((family, spec), before), trees) in
            families.iter().zip(&specs).zip(&before).zip(of_indexes)
        {
            self.take_indexes(family, before, &spec.indexes, trees)?;
        }
        Ok(families)
    }

    /// Registers the family of an opened tree, if it is not open yet.
    fn register_family(&self, spec: &FamilySpec, tree: Tree) -> Result<StoreFamily> {
        let mut families = self.0.families.write();
        match families.get(&spec.id) {
            // The requested layout may be an earlier one, from before an extension.
            Some(f) if f.0.counter == spec.counter && f.0.layout.extends(&spec.layout) => {
                Ok(f.clone())
            }
            Some(f) if f.0.counter == spec.counter && spec.layout.extends(&f.0.layout) => {
                let extended = f.with_layout(spec.layout.clone());
                families.insert(spec.id, extended.clone());
                drop(families);
                // Wait for writers that have found it with the old layout.
                self.0.stripes.pass_through();
                Ok(extended)
            }
            Some(_) => Err(invalid(format!("family {} is open with another layout", spec.id))),
            None => {
                let f = self.new_family(spec, tree)?;
                families.insert(spec.id, f.clone());
                Ok(f)
            }
        }
    }

    fn new_family(&self, spec: &FamilySpec, tree: Tree) -> Result<StoreFamily> {
        let mut kinds = 0;
        for kind in [family::PARTITIONS, family::RANGES, family::ROWS, family::COMPLEX] {
            if self.0.schema.contains(&kind_record(spec.id, kind))? {
                kinds |= kind;
            }
        }
        Ok(StoreFamily(Arc::new(OpenFamily {
            id: spec.id,
            owner: self.0.mark.clone(),
            layout: spec.layout.clone(),
            counter: spec.counter,
            tree,
            state: Arc::new(FamilyState {
                kinds: AtomicU8::new(kinds),
                recorded: AtomicU8::new(kinds),
                has_views: AtomicBool::new(spec.has_views),
                ..FamilyState::default()
            }),
        })))
    }

    /// Returns the open family with this id.
    pub fn family(&self, id: u32) -> Option<StoreFamily> {
        self.0.families.read().get(&id).cloned()
    }

    /// Drops a family with its indexes. Its handles report errors from now on.
    ///
    /// # Errors
    /// `InvalidRequest` if it is not open; errors of the engine.
    pub fn drop_family(&self, id: u32) -> Result<()> {
        let family = self.0.families.write().remove(&id).ok_or_else(|| not_open(id))?;
        family.set_access(FamilyAccess::Dropped);
        // Wait for writers that found it open. They wait for nothing else.
        self.0.stripes.pass_through();
        self.take_indexes(&family, &family.indexes(), &[], vec![])?;
        self.0.db.drop_tree(&TreeName::Family(id).to_string())?;
        self.forget_family(id)
    }

    /// Deletes all data of a family and its views in one step. Later writes are visible whatever
    /// their timestamps are.
    ///
    /// # Errors
    /// `InvalidRequest` for a family that has been dropped or belongs to another store; errors of
    /// the engine.
    pub fn truncate(&self, family: &StoreFamily) -> Result<()> {
        let _all = self.0.stripes.lock_all();
        self.check_open(family)?;
        let views = family.views();
        if family.has_views() {
            views.rows()?;
        }
        let mut batch = Batch::new();
        for tree in std::iter::once(&family.0.tree)
            .chain(family.indexes().iter().map(|i| &i.tree))
            .chain(views.all.iter().map(|v| v.family.tree()))
        {
            batch.delete_range(tree, ..)?;
        }
        Ok(self.0.writer.write(batch)?)
    }
}

#[cold]
fn not_open(id: u32) -> Error {
    invalid(format!("family {id} is not open"))
}
