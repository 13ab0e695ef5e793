//! A store is opened; its families are opened, changed and dropped.

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
use super::shared::{CellStore, HandleTerms, SharedStore, kind_record};
use super::stripes::Stripes;
use super::trees::{SCHEMA_TREE, TreeName};
use super::{family, hooks};

/// How a store is opened.
#[derive(Clone, Default)]
pub struct StoreOptions {
    /// The engine's options.
    pub db: DbOptions,
    /// The clock; the environment's when there is none.
    pub clock: Option<Arc<dyn Clock>>,
}

impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreOptions")
            .field("db", &self.db)
            .field("has_clock", &self.clock.is_some())
            .finish()
    }
}

/// Clocks of clients may be ahead by so much.
const CLOCK_TOLERANCE_MICROS: i64 = 60_000_000;

impl CellStore {
    /// Opens the store in `dir`, creating it when the directory is missing or empty.
    ///
    /// # Errors
    /// Those of [`Db::open_with`].
    pub fn open(dir: impl AsRef<Path>, options: StoreOptions) -> Result<CellStore> {
        CellStore::open_in(OsEnv::new(), dir, options)
    }

    /// Opens the store in `dir` of another environment.
    ///
    /// # Errors
    /// As [`open`](CellStore::open).
    pub fn open_in(
        env: Arc<dyn Env>,
        dir: impl AsRef<Path>,
        options: StoreOptions,
    ) -> Result<CellStore> {
        let clock = options.clock.unwrap_or_else(|| Arc::new(EnvClock(env.clone())));
        let db = Db::open_in(env.clone(), dir, options.db)?;
        let schema = db.tree(SCHEMA_TREE, TreeOptions::default())?;
        let stripes = Stripes::load(&schema)?;
        let shared = SharedStore {
            mark: Arc::default(),
            env,
            db,
            schema,
            clock,
            ticker: Ticker::default(),
            stripes,
            families: RwLock::default(),
        };
        Ok(CellStore(Arc::new(shared), HandleTerms::default()))
    }

    /// The same store, by a handle whose work can be stopped: what reads through it, be it a reader
    /// that it has given or the building of an index, ends with [`Error::Stopped`] at its next cell
    /// as soon as `stop` is true. Writes are not stopped. Whoever sets it sets it back.
    pub fn stoppable(&self, stop: Arc<AtomicBool>) -> CellStore {
        CellStore(self.0.clone(), HandleTerms { stop: Some(stop), ..self.1.clone() })
    }

    /// The same store, by a handle that nobody stops, whatever this one is: for what takes back a
    /// work that was stopped.
    pub fn unstoppable(&self) -> CellStore {
        CellStore(self.0.clone(), HandleTerms { stop: None, ..self.1.clone() })
    }

    /// The same store, by a handle that takes this second since 1970 for now: what it reads is
    /// alive or not, and what it writes expires and was deleted, as of then.
    pub fn as_of(&self, second: i64) -> CellStore {
        CellStore(self.0.clone(), HandleTerms { now: Some(second), ..self.1.clone() })
    }

    /// Closes the store for all its handles, and says whether all that was written is safe:
    /// [`Db::close`].
    ///
    /// # Errors
    /// As [`Db::close`].
    pub fn close(&self) -> Result<()> {
        Ok(self.0.db.close()?)
    }

    /// The engine's store beneath.
    pub fn db(&self) -> &Db {
        &self.0.db
    }

    /// The records of the tree of definitions whose keys begin so, in their order.
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

    /// A timestamp for a write: microseconds since 1970, larger than all that were given before.
    pub fn timestamp(&self) -> i64 {
        self.0.ticker.next(self.0.clock.micros())
    }

    /// By how many microseconds the newest timestamp that was written is ahead of the clock; `None`
    /// where it is not, by more than a few seconds. Then the clock went back, or a client gave the
    /// timestamp: later writes to such a cell have no effect until the clock has passed it.
    pub fn ahead_of_clock(&self) -> Option<i64> {
        let ahead = self.0.stripes.newest()?.checked_sub(self.0.clock.micros())?;
        (ahead > CLOCK_TOLERANCE_MICROS).then_some(ahead)
    }

    /// Random bits of the environment that the store was opened in: for identities, not for
    /// secrets.
    pub fn random(&self) -> u64 {
        self.0.env.random()
    }

    /// Seconds since 1970: what expiry goes by.
    pub fn now(&self) -> i64 {
        self.1.now.unwrap_or_else(|| self.0.clock.micros().div_euclid(1_000_000))
    }

    /// Opens a family, creating it when it is not there. For a family that is open already, its
    /// indexes, grace and tree options become those of `spec`. Returns when all indexes have been
    /// built; others may write meanwhile.
    ///
    /// # Errors
    /// `InvalidRequest` when an open family has another layout or kind of cells; errors of the
    /// engine. `Stopped`, by a [`stoppable`](CellStore::stoppable) handle: then an index that is
    /// new is not built, and does not answer; who leaves it out of the `spec` of another call drops
    /// it, and another opening builds it.
    pub fn open_family(&self, spec: FamilySpec) -> Result<StoreFamily> {
        let id = spec.id;
        self.open_families(vec![spec])?.pop().ok_or_else(|| not_open(id))
    }

    /// Opens families in the order given, as [`open_family`](CellStore::open_family) does: any
    /// number for the price of one, for those that are not there are created at once, all with
    /// their indexes or none.
    ///
    /// # Errors
    /// Those of [`open_family`](CellStore::open_family), and `InvalidRequest` for a number that is
    /// there twice. Some may have been opened then, and new ones are empty:
    /// [`family`](CellStore::family) knows them.
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
        // Who asks for more waits for a sync of the log at the end.
        let mut trees = self.0.db.with(Durability::Process).trees(wanted)?.into_iter();
        // All are known before the first index is built: who takes them back finds them.
        let mut families = vec![];
        let mut of_indexes = vec![];
        for (spec, before) in specs.iter().zip(&before) {
            let tree = trees.next().ok_or_else(|| not_open(spec.id))?;
            families.push(self.take_up(spec, tree)?);
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

    /// The family of a tree that has been opened, if it is not open yet.
    fn take_up(&self, spec: &FamilySpec, tree: Tree) -> Result<StoreFamily> {
        let mut families = self.0.families.write();
        match families.get(&spec.id) {
            // What is asked for may be what there was before it was extended.
            Some(f) if f.0.counter == spec.counter && f.0.layout.extends(&spec.layout) => {
                Ok(f.clone())
            }
            Some(f) if f.0.counter == spec.counter && spec.layout.extends(&f.0.layout) => {
                let extended = f.with_layout(spec.layout.clone());
                families.insert(spec.id, extended.clone());
                drop(families);
                // Whoever has found it with the layout of before is done after this.
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

    /// The open family of this number.
    pub fn family(&self, id: u32) -> Option<StoreFamily> {
        self.0.families.read().get(&id).cloned()
    }

    /// Drops a family with its indexes. Its handles report errors from now on.
    ///
    /// # Errors
    /// `InvalidRequest` when it is not open; errors of the engine.
    pub fn drop_family(&self, id: u32) -> Result<()> {
        let family = self.0.families.write().remove(&id).ok_or_else(|| not_open(id))?;
        family.set_access(FamilyAccess::Dropped);
        // Who found it open has written then, and waits for nobody.
        self.0.stripes.pass_through();
        self.take_indexes(&family, &family.indexes(), &[], vec![])?;
        self.0.db.drop_tree(&TreeName::Family(id).to_string())?;
        self.forget_family(id)
    }

    /// Removes all that a family and its views hold, at once. Writes that come later count, whatever their
    /// timestamps.
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
        Ok(self.0.db.with(Durability::Process).write(batch)?)
    }
}

#[cold]
fn not_open(id: u32) -> Error {
    invalid(format!("family {id} is not open"))
}
