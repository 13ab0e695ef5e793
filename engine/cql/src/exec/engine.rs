//! An open database: the store, the keyspaces and column families of `firn-wide`, and the tables
//! and types of CQL.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_kv::{Batch, Durability};
use firn_wide::internals::schema::{Family, KeyspaceSchema};
use firn_wide::internals::store::{CellStore, DroppedFamilies, FamilySpec, StoreFamily, TreeName};
use firn_wide::{KsDef, Partitioner, Wide};
use md5::{Digest, Md5};
use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

use super::lists::ListClock;
use super::rows::SchemaChange;
use super::source::SystemSource;
use super::{families, materialized};
use crate::catalog::{
    Catalog, CatalogDiff, FIRST_ID, KeyspaceEntry, LoadedCatalog, OrphanedTable, RECORD_PREFIX,
    ROLE_PREFIX, TableSchema,
};
use crate::error::{Error, Result, corrupt, invalid};

/// Receives schema-change events; servers forward them to drivers.
pub trait SchemaListener: Send + Sync {
    /// Reports a change. All sessions see it already.
    fn changed(&self, change: &SchemaChange);

    /// Reports that a role was dropped. Sessions logged in with it can do nothing any more.
    fn role_dropped(&self) {}
}

/// An open database. Clones are cheap and share it.
#[derive(Clone)]
pub struct Engine(Arc<EngineState>);

struct EngineState {
    wide: Wide,
    catalog: RwLock<Arc<Catalog>>,
    /// Version of the catalog. Each statement compares it.
    version: AtomicU64,
    /// Serial number of the `firn-wide` schema that the catalog was last compared with.
    seen: AtomicU64,
    /// Lock for schema changes.
    changes: Mutex<()>,
    /// Set while the holder of `changes` executes a definition, which may take long, and does not
    /// only refresh the catalog.
    defining: AtomicBool,
    lists: ListClock,
    /// Sources of additional rows of system tables.
    sources: RwLock<Vec<Arc<dyn SystemSource>>>,
    /// Receivers of schema changes.
    listeners: RwLock<Vec<Arc<dyn SchemaListener>>>,
    /// Version of the schema, with the version of the catalog from which it was computed.
    schema_version: Mutex<Option<(u64, Uuid)>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

fn random_bits(store: &CellStore) -> u128 {
    u128::from(store.random()) << 64 | u128::from(store.random())
}

/// Returns the keyspaces of `firn-wide` with their column families. It reuses the schemas of
/// families that have not changed since `before`.
fn keyspaces(wide: &Wide, before: Option<&Catalog>) -> Vec<KeyspaceEntry> {
    let table_of = |family: &Arc<Family>| {
        let known = before.and_then(|c| c.keyspace(family.keyspace())?.table(family.name()));
        let same = known.filter(|t| t.family().is_some_and(|f| Arc::ptr_eq(f, family)));
        same.map_or_else(|| Arc::new(TableSchema::of_family(family)), Arc::clone)
    };
    let each = |keyspace: &Arc<KeyspaceSchema>| {
        let def = keyspace.def();
        let mut replication: BTreeMap<String, String> = def.strategy_options;
        replication.insert("class".into(), def.strategy_class);
        KeyspaceEntry::with(def.name, replication, def.durable_writes)
            .with_families(keyspace.families().map(table_of))
    };
    wide.schema().keyspaces().map(each).collect()
}

impl Engine {
    /// Opens the tables of a database and loads its definitions.
    ///
    /// # Errors
    /// `Server` if the records cannot be decoded; errors of the engine.
    pub fn open(wide: Wide) -> Result<Engine> {
        let store = wide.store();
        let records = store.records(RECORD_PREFIX)?;
        let seen = AtomicU64::new(wide.definition_serial());
        let keyspaces_of_families = keyspaces(&wide, None);
        let recreated = recreated(store, &keyspaces_of_families)?;
        let load = |keyspaces_of_families| {
            let records = records.iter().map(|(k, v)| (&**k, &**v));
            Catalog::load(keyspaces_of_families, &recreated, records)
        };
        let mut loaded = load(keyspaces_of_families)?;
        if !store.db().is_read_only() && families::drop_unfinished(&wide, &loaded.catalog)? {
            loaded = load(keyspaces(&wide, None))?;
        }
        let LoadedCatalog { catalog, orphans } = loaded;
        check_dropped(store, &orphans)?;
        let stored = catalog;
        let catalog = families::without_dropped(
            &wide,
            stored.clone().without_foreign_permissions(&recreated),
        )?;
        if !store.db().is_read_only() {
            families::put(&wide, None, &catalog)?;
            let mut batch = Batch::new();
            let diff = stored.diff(&catalog);
            put_records(store, &mut batch, &diff)?;
            // Views of tables that were dropped through the Thrift interface. Their data was
            // dropped with the tables.
            for view in diff.dropped.iter().filter(|t| !t.is_own_family()) {
                store.note_dropped(&mut batch, DroppedFamilies::Family(view.id))?;
            }
            clean(store, batch, &catalog, &recreated, &orphans)?;
        }
        let specs = catalog.own_tables().map(|t| spec(t, wide.partitioner()));
        store.open_families(specs.collect())?;
        materialized::open(store, wide.partitioner(), &catalog)?;
        let version = AtomicU64::new(catalog.version());
        let catalog = RwLock::new(Arc::new(catalog));
        let lists = ListClock::new(random_bits(store));
        let state = Arc::new(EngineState {
            wide,
            catalog,
            version,
            seen,
            changes: Mutex::new(()),
            defining: AtomicBool::new(false),
            lists,
            sources: RwLock::default(),
            listeners: RwLock::default(),
            schema_version: Mutex::default(),
        });
        let known = Arc::downgrade(&state);
        state.wide.reserve_names(Arc::new(move |keyspace, name| {
            let catalog = known.upgrade().map(|state| state.catalog.read().clone());
            let home = catalog.as_ref().and_then(|c| c.keyspace(keyspace));
            home.and_then(|k| k.table(name)).is_some_and(|t| t.family().is_none())
        }));
        Ok(Engine(state))
    }

    /// Returns the underlying `firn-wide` database.
    pub fn wide(&self) -> &Wide {
        &self.0.wide
    }

    /// Closes the database for all its sessions, and reports whether all writes are durable:
    /// [`firn_kv::Db::close`].
    ///
    /// # Errors
    /// Those of [`firn_kv::Db::close`].
    pub fn close(&self) -> Result<()> {
        self.store().close()?;
        Ok(())
    }

    /// Returns the underlying cell store.
    pub fn store(&self) -> &CellStore {
        self.0.wide.store()
    }

    /// Returns random bits for unique ids, not for secrets. A deterministic environment returns the
    /// same bits in each run.
    pub fn random_bits(&self) -> u128 {
        random_bits(self.store())
    }

    /// Returns the clock that assigns positions to new list elements.
    pub(super) fn lists(&self) -> &ListClock {
        &self.0.lists
    }

    /// Returns the partitioner.
    pub fn partitioner(&self) -> Partitioner {
        self.0.wide.partitioner()
    }

    /// Returns the current definitions.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog.read().clone()
    }

    /// Returns the version of the current definitions.
    pub(crate) fn catalog_version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Returns the current definitions, including changes of keyspaces and column families made
    /// through the Thrift interface.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn fresh_catalog(&self) -> Result<Arc<Catalog>> {
        if self.is_stale() {
            let events = {
                let _alone = self.0.changes.lock();
                self.refresh(None)?
            };
            events.iter().for_each(|change| self.report(change));
        }
        Ok(self.catalog())
    }

    /// Applies changes of keyspaces and column families that were made through the Thrift
    /// interface. Skips them while a definition is being executed, which may take long; a later
    /// call applies them. Costs next to nothing if there are none.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn refresh_catalog(&self) -> Result<()> {
        if !self.is_stale() {
            return Ok(());
        }
        let alone = match self.0.changes.try_lock() {
            Some(alone) => alone,
            None if self.0.defining.load(Ordering::Acquire) => return Ok(()),
            None => self.0.changes.lock(),
        };
        let events = self.refresh(None)?;
        drop(alone);
        events.iter().for_each(|change| self.report(change));
        Ok(())
    }

    /// Reports whether the `firn-wide` schema has changed since the last refresh.
    fn is_stale(&self) -> bool {
        self.0.seen.load(Ordering::Acquire) != self.0.wide.definition_serial()
    }

    /// Updates the catalog to the current keyspaces and column families, and returns the changes to
    /// report. A keyspace that was dropped and created again is a new one, without the tables of
    /// the old one.
    fn refresh(&self, stop: Option<&Arc<AtomicBool>>) -> Result<Vec<SchemaChange>> {
        let serial = self.0.wide.definition_serial();
        if serial == self.0.seen.load(Ordering::Acquire) {
            return Ok(vec![]);
        }
        let before = self.catalog();
        let now = keyspaces(&self.0.wide, Some(&before));
        let recreated = recreated(self.store(), &now)?;
        let after = before.over(now, &recreated);
        let mut events = changes_of_keyspaces(&before, &after, &recreated);
        events.extend(changes_of_families(&before, &after, &recreated));
        if !events.is_empty() || !recreated.is_empty() {
            self.apply_change(&before, after, &recreated, stop)?;
        }
        self.0.seen.store(serial, Ordering::Release);
        Ok(events)
    }

    /// Adds a source of rows of system tables.
    pub fn add_source(&self, source: Arc<dyn SystemSource>) {
        self.0.sources.write().push(source);
    }

    /// Adds a receiver of all schema changes made by statements of any session.
    pub fn add_listener(&self, listener: Arc<dyn SchemaListener>) {
        self.0.listeners.write().push(listener);
    }

    /// Reports a schema change to the listeners.
    pub(super) fn report(&self, change: &SchemaChange) {
        let listeners = self.0.listeners.read().clone();
        listeners.iter().for_each(|l| l.changed(change));
    }

    /// Reports to the listeners that a role was dropped.
    pub(super) fn report_role_dropped(&self) {
        let listeners = self.0.listeners.read().clone();
        listeners.iter().for_each(|l| l.role_dropped());
    }

    /// Returns the sources of additional rows of system tables.
    pub(super) fn sources(&self) -> Vec<Arc<dyn SystemSource>> {
        self.0.sources.read().clone()
    }

    /// Returns the host id of the database as a node. It is the same at each opening.
    pub fn host_id(&self) -> Uuid {
        let digest = Md5::new()
            .chain_update(b"firn host")
            .chain_update(self.store().db().identity().to_le_bytes());
        uuid::Builder::from_md5_bytes(digest.finalize().into()).into_uuid()
    }

    /// Returns the version of the schema: a digest of all definitions. Equal definitions have equal
    /// versions.
    pub fn schema_version(&self) -> Uuid {
        let catalog = self.catalog();
        let mut known = self.0.schema_version.lock();
        if let Some((of, version)) = *known
            && of == catalog.version()
        {
            return version;
        }
        let mut digest = Md5::new();
        for keyspace in catalog.keyspaces() {
            let KeyspaceEntry { name, replication, durable_writes, .. } = &**keyspace;
            digest.update(format!("{name:?} {replication:?} {durable_writes}\n"));
            keyspace.families().for_each(|family| digest.update(format!("{family:?}\n")));
        }
        for (key, value) in catalog.records() {
            // Roles do not belong to the schema.
            if key.starts_with(ROLE_PREFIX) {
                continue;
            }
            for part in [key, value] {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            }
        }
        let version = uuid::Builder::from_md5_bytes(digest.finalize().into()).into_uuid();
        *known = Some((catalog.version(), version));
        version
    }

    /// Returns the store family that contains a table's cells.
    ///
    /// # Errors
    /// `Invalid` if the table was dropped in the meantime, or moved to another tree.
    pub fn family(&self, table: &TableSchema) -> Result<StoreFamily> {
        let gone = || {
            let catalog = self.catalog();
            let there = catalog.keyspace(&table.keyspace).and_then(|k| k.table(&table.name));
            let moved = there.filter(|t| table.is_own_family() && t.form().is_none());
            invalid(match moved {
                Some(_) => format!("table {} was written anew meanwhile: ask again", table.name),
                None => format!("table {} does not exist", table.name),
            })
        };
        self.store().family(table.id).ok_or_else(gone)
    }

    /// Executes a schema change. `change` returns the new definitions, or `None` if there is
    /// nothing to do. Returns whether there was a change.
    ///
    /// # Errors
    /// Those of `change`; errors of the engine; `Stopped` if `stop` is set while an index is built.
    pub fn change(
        &self,
        stop: Option<&Arc<AtomicBool>>,
        change: impl FnOnce(&Catalog) -> Result<Option<Catalog>>,
    ) -> Result<bool> {
        let alone = self.0.changes.lock();
        let events = self.refresh(stop)?;
        self.0.defining.store(true, Ordering::Release);
        let done = self.change_alone(stop, change);
        self.0.defining.store(false, Ordering::Release);
        drop(alone);
        events.iter().for_each(|change| self.report(change));
        done
    }

    fn change_alone(
        &self,
        stop: Option<&Arc<AtomicBool>>,
        change: impl FnOnce(&Catalog) -> Result<Option<Catalog>>,
    ) -> Result<bool> {
        let before = self.catalog();
        let Some(after) = change(&before)? else { return Ok(false) };
        self.change_keyspaces(&before, &after)?;
        self.apply_change(&before, after, &BTreeSet::new(), stop)?;
        Ok(true)
    }

    /// Creates, alters and drops keyspaces of `firn-wide`, drops families, and updates the families
    /// of compact tables. A keyspace is dropped before its tables: after a crash, the next opening
    /// drops the rest.
    fn change_keyspaces(&self, before: &Catalog, after: &Catalog) -> Result<()> {
        for keyspace in after.keyspaces() {
            let mut strategy_options = keyspace.replication.clone();
            let strategy_class = strategy_options.remove("class").unwrap_or_default();
            let durable_writes = keyspace.durable_writes;
            let def = KsDef {
                strategy_class,
                strategy_options,
                durable_writes,
                ..KsDef::new(keyspace.name.clone())
            };
            match before.keyspace(&keyspace.name) {
                None => drop(self.0.wide.system_add_keyspace(&def)?),
                Some(b) if !b.is_like(keyspace) => drop(self.0.wide.system_update_keyspace(&def)?),
                Some(_) => {}
            }
        }
        for keyspace in before.keyspaces() {
            let Some(after) = after.keyspace(&keyspace.name) else {
                self.0.wide.system_drop_keyspace(&keyspace.name)?;
                continue;
            };
            for gone in keyspace.families().filter(|f| after.table(&f.name).is_none()) {
                self.0.wide.system_drop_column_family(&keyspace.name, &gone.name)?;
            }
        }
        families::put(&self.0.wide, Some(before), after)
    }

    /// Applies a schema change. Trees are created, and indexes and views built, before the
    /// definitions are recorded and visible. If building fails or is stopped, the change is
    /// refused. After a crash the next opening drops the unfinished trees. `recreated`: keyspaces that
    /// were dropped and created again, so that the CQL data of the old ones is dropped.
    fn apply_change(
        &self,
        before: &Catalog,
        after: Catalog,
        recreated: &BTreeSet<String>,
        stop: Option<&Arc<AtomicBool>>,
    ) -> Result<()> {
        let store = self.store();
        let building = stop.map_or_else(|| store.clone(), |stop| store.stoppable(stop.clone()));
        let diff = before.diff(&after);
        let is_new = |t: &&Arc<TableSchema>| before.tables().all(|b| b.id != t.id);
        // The tree of a column family exists already.
        let of_here = |t: &&Arc<TableSchema>| !t.is_own_family();
        let mut made_here = diff.opened.iter().filter(is_new).filter(of_here);
        made_here.try_for_each(|t| store.check_new(t.id))?;
        let rewritten = families::rewritten(&diff);
        let is_filled = |t: &&Arc<TableSchema>| {
            t.view().is_some() || rewritten.iter().any(|(_, after)| after.id == t.id)
        };
        let filled = || diff.opened.iter().filter(is_new).filter(is_filled);
        // Note these trees as dropped first, so that the opening after a crash drops them with
        // their rows.
        if filled().next().is_some() {
            let mut batch = Batch::new();
            for table in filled() {
                store.note_dropped(&mut batch, DroppedFamilies::Family(table.id))?;
            }
            store.db().write(batch)?;
        }
        let specs = diff.opened.iter().map(|t| spec(t, self.partitioner())).collect();
        let done = building.open_families(specs).map_err(Error::from).and_then(|_| {
            families::rewrite(&building, self.partitioner(), &rewritten)?;
            materialized::follow(&building, self.partitioner(), before, &after, &diff)
        });
        if let Err(e) = done {
            self.roll_back(before, &diff);
            families::roll_back_rewrite(store, &rewritten);
            return Err(e);
        }
        // Families are already dropped, except those whose rows had to be read.
        let dropped: Vec<_> = diff.dropped.iter().filter(of_here).collect();
        let mut batch = Batch::new();
        put_records(store, &mut batch, &diff)?;
        for table in filled() {
            store.forget_dropped(&mut batch, DroppedFamilies::Family(table.id))?;
        }
        for table in dropped.iter().copied().chain(rewritten.iter().map(|(before, _)| before)) {
            store.note_dropped(&mut batch, DroppedFamilies::Family(table.id))?;
        }
        let gone = before.keyspaces().filter(|k| after.keyspace(&k.name).is_none());
        for name in gone.map(|k| &k.name).chain(recreated) {
            store.forget_dropped(&mut batch, DroppedFamilies::Keyspace(name))?;
        }
        store.db().with_durability(Durability::Power).write(batch)?;
        let after = Arc::new(after);
        let mut catalog = self.0.catalog.write();
        *catalog = after.clone();
        self.0.version.store(after.version(), Ordering::Release);
        drop(catalog);
        materialized::relink(store, self.partitioner(), &after, &diff.dropped)?;
        for table in &dropped {
            store.drop_family(table.id)?;
        }
        for (before, _) in &rewritten {
            self.0.wide.system_drop_column_family(&before.keyspace, &before.name)?;
        }
        Ok(())
    }

    /// Reverts the open trees to the definitions of `before` as far as possible. The error that
    /// caused this is already reported. It cannot be stopped, even if the handle of the engine can.
    fn roll_back(&self, before: &Catalog, diff: &CatalogDiff) {
        let store = self.store().unstoppable();
        drop(materialized::relink(&store, self.partitioner(), before, &diff.opened));
        families::roll_back(&self.0.wide, before, diff);
        for table in diff.opened.iter().filter(|t| store.family(t.id).is_some()) {
            match before.tables().find(|b| b.id == table.id) {
                Some(before) => drop(store.open_family(spec(before, self.partitioner()))),
                None => drop(store.drop_family(table.id)),
            }
        }
    }
}

fn spec(table: &TableSchema, partitioner: Partitioner) -> FamilySpec {
    let indexes = table.indexes().iter().filter_map(|index| index.spec(table));
    FamilySpec {
        id: table.id,
        layout: table.stored_layout(partitioner),
        counter: table.is_counter(),
        gc_grace: table.options.gc_grace(),
        indexes: indexes.collect(),
        tree: table.options.tree(),
        has_views: false,
    }
}

fn put_records(store: &CellStore, batch: &mut Batch, diff: &CatalogDiff) -> Result<()> {
    for (key, value) in &diff.records {
        store.put_record(batch, key.as_ref(), value.as_deref())?;
    }
    Ok(())
}

/// Returns the changes of keyspaces: first dropped ones, then created and altered ones. A keyspace
/// in `recreated` was dropped and created.
fn changes_of_keyspaces(
    before: &Catalog,
    after: &Catalog,
    recreated: &BTreeSet<String>,
) -> Vec<SchemaChange> {
    let event = |change, keyspace: &KeyspaceEntry| {
        SchemaChange::new(change, "KEYSPACE", &keyspace.name, None)
    };
    let there = |catalog: &Catalog, name: &str| {
        catalog.keyspace(name).filter(|_| !recreated.contains(name)).cloned()
    };
    let gone = before.keyspaces().filter(|k| there(after, &k.name).is_none());
    let mut all: Vec<SchemaChange> = gone.map(|k| event("DROPPED", k)).collect();
    all.extend(after.keyspaces().filter_map(|k| match there(before, &k.name) {
        None => Some(event("CREATED", k)),
        Some(before) => (!before.is_like(k)).then(|| event("UPDATED", k)),
    }));
    all
}

/// Returns the changes of families in the remaining keyspaces: first dropped ones, then created and
/// altered ones. Families of dropped keyspaces are not reported.
fn changes_of_families(
    before: &Catalog,
    after: &Catalog,
    recreated: &BTreeSet<String>,
) -> Vec<SchemaChange> {
    let event = |change, family: &TableSchema| {
        SchemaChange::new(change, "TABLE", &family.keyspace, Some(&family.name))
    };
    let mut all = vec![];
    for keyspace in after.keyspaces() {
        let before = before.keyspace(&keyspace.name).filter(|k| !recreated.contains(&k.name));
        let families = |of: Option<&Arc<KeyspaceEntry>>| -> BTreeMap<u32, Arc<TableSchema>> {
            of.iter().flat_map(|k| k.families()).map(|f| (f.id, f.clone())).collect()
        };
        let (old, new) = (families(before), families(Some(keyspace)));
        let gone = old.iter().filter(|(id, _)| !new.contains_key(id));
        all.extend(gone.map(|(_, family)| event("DROPPED", family)));
        all.extend(new.iter().filter_map(|(id, family)| match old.get(id) {
            None => Some(event("CREATED", family)),
            Some(before) => (before != family).then(|| event("UPDATED", family)),
        }));
    }
    all
}

/// Returns the keyspaces that were dropped and created again through the Thrift interface while
/// records of their CQL tables still exist.
fn recreated(store: &CellStore, keyspaces: &[KeyspaceEntry]) -> Result<BTreeSet<String>> {
    let mut recreated = BTreeSet::new();
    for keyspace in keyspaces {
        if store.was_dropped(DroppedFamilies::Keyspace(&keyspace.name))? {
            recreated.insert(keyspace.name.clone());
        }
    }
    Ok(recreated)
}

/// Checks that each missing keyspace was dropped through the Thrift interface. Otherwise its record
/// is lost.
fn check_dropped(store: &CellStore, orphans: &[OrphanedTable]) -> Result<()> {
    for OrphanedTable { key, keyspace, .. } in orphans {
        if !store.was_dropped(DroppedFamilies::Keyspace(keyspace))? {
            let key = String::from_utf8_lossy(key);
            return Err(corrupt!(
                "system.schema, record {key}: its keyspace {keyspace} does not exist, but was not dropped; create it again with `firn cli` \
                 to get its tables back"
            ));
        }
    }
    Ok(())
}

/// Completes the work that a crash or the Thrift interface has left, in one batch with `batch`.
fn clean(
    store: &CellStore,
    mut batch: Batch,
    catalog: &Catalog,
    recreated: &BTreeSet<String>,
    orphans: &[OrphanedTable],
) -> Result<()> {
    for keyspace in recreated {
        store.forget_dropped(&mut batch, DroppedFamilies::Keyspace(keyspace))?;
    }
    for OrphanedTable { key, keyspace, table } in orphans {
        store.put_record(&mut batch, key.as_ref(), None)?;
        store.forget_dropped(&mut batch, DroppedFamilies::Keyspace(keyspace))?;
        if let Some(id) = table {
            store.note_dropped(&mut batch, DroppedFamilies::Family(*id))?;
        }
    }
    store.db().with_durability(Durability::Power).write(batch)?;
    let tables: Vec<u32> = catalog.own_tables().map(|t| t.id).collect();
    let indexes: Vec<u32> =
        catalog.own_tables().flat_map(|t| t.indexes().iter().map(|i| i.id)).collect();
    let defined = |tree| match tree {
        TreeName::Schema => true,
        TreeName::Family(id) => tables.contains(&id),
        TreeName::Index(id) => indexes.contains(&id),
    };
    // The remaining trees have lost their definitions, so their content is unknown.
    Ok(store.drop_undefined(FIRST_ID..u32::MAX, defined).map(|_left| ())?)
}
