//! An open database: the store, the keyspaces of the data model beneath, the tables and types of
//! CQL.

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

/// Who is told of definitions: drivers ask servers to be.
pub trait SchemaListener: Send + Sync {
    /// This was defined. It is seen by all sessions.
    fn changed(&self, change: &SchemaChange);

    /// A role was dropped: sessions that have logged in as it do nothing any more.
    fn role_dropped(&self) {}
}

/// An open database. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Engine(Arc<EngineState>);

struct EngineState {
    wide: Wide,
    catalog: RwLock<Arc<Catalog>>,
    /// The number of the definitions beneath that the catalog was last compared with.
    seen: AtomicU64,
    /// The lock for changes of definitions.
    changes: Mutex<()>,
    /// Whether who has that lock makes a definition, which may take long, and doesn't only look at
    /// those beneath.
    defining: AtomicBool,
    lists: ListClock,
    /// What adds rows to system tables.
    sources: RwLock<Vec<Arc<dyn SystemSource>>>,
    /// Who is told of definitions that were made.
    listeners: RwLock<Vec<Arc<dyn SchemaListener>>>,
    /// The version of the schema, with the number of the definitions that it was made of.
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

/// The keyspaces of the data model beneath, with its families: those that are as they were `before`
/// are not made anew.
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
    /// The definitions of an open database, with its tables opened.
    ///
    /// # Errors
    /// `Server` when the records can't be understood; errors of the engine beneath.
    pub fn open(wide: Wide) -> Result<Engine> {
        let store = wide.store();
        let records = store.records(RECORD_PREFIX)?;
        let seen = AtomicU64::new(wide.definition_serial());
        let beneath = keyspaces(&wide, None);
        let remade = remade(store, &beneath)?;
        let load = |beneath| {
            let records = records.iter().map(|(k, v)| (&**k, &**v));
            Catalog::load(beneath, &remade, records)
        };
        let mut loaded = load(beneath)?;
        if !store.db().is_read_only() && families::drop_unfinished(&wide, &loaded.catalog)? {
            loaded = load(keyspaces(&wide, None))?;
        }
        let LoadedCatalog { catalog, homeless } = loaded;
        check_dropped(store, &homeless)?;
        let stored = catalog;
        let catalog = families::without_dropped(&wide, stored.clone().without_strangers(&remade))?;
        if !store.db().is_read_only() {
            families::put(&wide, None, &catalog)?;
            let mut batch = Batch::new();
            let diff = stored.diff(&catalog);
            put_records(store, &mut batch, &diff)?;
            // Views of what the older interface dropped, whose own data went with it.
            for view in diff.dropped.iter().filter(|t| !t.is_own_family()) {
                store.note_dropped(&mut batch, DroppedFamilies::Family(view.id))?;
            }
            clean(store, batch, &catalog, &remade, &homeless)?;
        }
        let specs = catalog.own_tables().map(|t| spec(t, wide.partitioner()));
        store.open_families(specs.collect())?;
        materialized::open(store, wide.partitioner(), &catalog)?;
        let catalog = RwLock::new(Arc::new(catalog));
        let lists = ListClock::new(random_bits(store));
        let state = Arc::new(EngineState {
            wide,
            catalog,
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

    /// The database of the older interface that this is, too.
    pub fn wide(&self) -> &Wide {
        &self.0.wide
    }

    /// Closes the database for all its sessions, and says whether all that was written is safe:
    /// [`firn_kv::Db::close`].
    ///
    /// # Errors
    /// As [`firn_kv::Db::close`].
    pub fn close(&self) -> Result<()> {
        self.store().close()?;
        Ok(())
    }

    /// The store beneath.
    pub fn store(&self) -> &CellStore {
        self.0.wide.store()
    }

    /// Bits that nobody else has: for identities, not for secrets. Of an environment that repeats
    /// itself they are the same each time.
    pub fn random_bits(&self) -> u128 {
        random_bits(self.store())
    }

    /// Where new elements of lists go.
    pub(super) fn lists(&self) -> &ListClock {
        &self.0.lists
    }

    /// How keys are spread.
    pub fn partitioner(&self) -> Partitioner {
        self.0.wide.partitioner()
    }

    /// The definitions of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog.read().clone()
    }

    /// The definitions of now, where keyspaces and families that came, went or changed with the older
    /// interface are seen.
    ///
    /// # Errors
    /// Errors of the engine beneath.
    pub fn fresh_catalog(&self) -> Result<Arc<Catalog>> {
        if self.is_stale() {
            let told = {
                let _alone = self.0.changes.lock();
                self.refresh(None)?
            };
            told.iter().for_each(|change| self.tell(change));
        }
        Ok(self.catalog())
    }

    /// Sees keyspaces and families that came, went or changed with the older interface, unless
    /// somebody is making a definition, which may take long: then it is for who comes later. Costs
    /// next to nothing where there is nothing to see.
    ///
    /// # Errors
    /// Errors of the engine beneath.
    pub fn refresh_catalog(&self) -> Result<()> {
        if !self.is_stale() {
            return Ok(());
        }
        let alone = match self.0.changes.try_lock() {
            Some(alone) => alone,
            None if self.0.defining.load(Ordering::Acquire) => return Ok(()),
            None => self.0.changes.lock(),
        };
        let told = self.refresh(None)?;
        drop(alone);
        told.iter().for_each(|change| self.tell(change));
        Ok(())
    }

    /// Whether definitions beneath were changed since they were looked at.
    fn is_stale(&self) -> bool {
        self.0.seen.load(Ordering::Acquire) != self.0.wide.definition_serial()
    }

    /// Makes the catalog that of the keyspaces beneath, with their families, and gives what there is
    /// to tell. A keyspace that was dropped and made again is another one, without the tables of the one before.
    fn refresh(&self, stop: Option<&Arc<AtomicBool>>) -> Result<Vec<SchemaChange>> {
        let serial = self.0.wide.definition_serial();
        if serial == self.0.seen.load(Ordering::Acquire) {
            return Ok(vec![]);
        }
        let before = self.catalog();
        let now = keyspaces(&self.0.wide, Some(&before));
        let remade = remade(self.store(), &now)?;
        let after = before.over(now, &remade);
        let mut told = changes_of_keyspaces(&before, &after, &remade);
        told.extend(changes_of_families(&before, &after, &remade));
        if !told.is_empty() || !remade.is_empty() {
            self.carry_out(&before, after, &remade, stop)?;
        }
        self.0.seen.store(serial, Ordering::Release);
        Ok(told)
    }

    /// From now on this adds rows to system tables, too.
    pub fn add_source(&self, source: Arc<dyn SystemSource>) {
        self.0.sources.write().push(source);
    }

    /// From now on this is told of every definition that a statement of any session makes.
    pub fn add_listener(&self, listener: Arc<dyn SchemaListener>) {
        self.0.listeners.write().push(listener);
    }

    /// Tells of a definition that was made.
    pub(super) fn tell(&self, change: &SchemaChange) {
        let listeners = self.0.listeners.read().clone();
        listeners.iter().for_each(|l| l.changed(change));
    }

    /// Tells that a role was dropped.
    pub(super) fn tell_role_dropped(&self) {
        let listeners = self.0.listeners.read().clone();
        listeners.iter().for_each(|l| l.role_dropped());
    }

    /// What adds rows to system tables.
    pub(super) fn sources(&self) -> Vec<Arc<dyn SystemSource>> {
        self.0.sources.read().clone()
    }

    /// The identity of the database as a node: the same at each opening.
    pub fn host_id(&self) -> Uuid {
        let digest = Md5::new()
            .chain_update(b"firn host")
            .chain_update(self.store().db().identity().to_le_bytes());
        uuid::Builder::from_md5_bytes(digest.finalize().into()).into_uuid()
    }

    /// The version of the schema: a digest of all definitions, the same at each opening and equal
    /// for equal ones.
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
            // Roles are no part of the schema.
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

    /// Where a table's cells are.
    ///
    /// # Errors
    /// `Invalid` when it was dropped meanwhile, or is in another tree.
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

    /// Makes the definitions those of `change`, which tells what there is to do with those of now.
    /// `false`: nothing.
    ///
    /// # Errors
    /// Those of `change`; errors of the engine beneath; `Stopped` when `stop` is set while an index
    /// is built.
    pub fn change(
        &self,
        stop: Option<&Arc<AtomicBool>>,
        change: impl FnOnce(&Catalog) -> Result<Option<Catalog>>,
    ) -> Result<bool> {
        let alone = self.0.changes.lock();
        let told = self.refresh(stop)?;
        self.0.defining.store(true, Ordering::Release);
        let done = self.change_alone(stop, change);
        self.0.defining.store(false, Ordering::Release);
        drop(alone);
        told.iter().for_each(|change| self.tell(change));
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
        self.carry_out(&before, after, &BTreeSet::new(), stop)?;
        Ok(true)
    }

    /// Adds, changes and drops keyspaces beneath, drops families, and makes those of compact tables
    /// what they are. What is dropped goes before its tables: what a crash leaves is found when the
    /// database is opened.
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

    /// Trees are made and indexes and views built before their definitions are recorded and seen: one that
    /// can't be built, or is stopped, is refused, and a crash leaves trees that the next opening
    /// drops. `remade`: keyspaces of which what was kept in those of before goes.
    fn carry_out(
        &self,
        before: &Catalog,
        after: Catalog,
        remade: &BTreeSet<String>,
        stop: Option<&Arc<AtomicBool>>,
    ) -> Result<()> {
        let store = self.store();
        let building = stop.map_or_else(|| store.clone(), |stop| store.stoppable(stop.clone()));
        let diff = before.diff(&after);
        let is_new = |t: &&Arc<TableSchema>| before.tables().all(|b| b.id != t.id);
        // The tree of a family is there already.
        let of_here = |t: &&Arc<TableSchema>| !t.is_own_family();
        let mut made_here = diff.opened.iter().filter(is_new).filter(of_here);
        made_here.try_for_each(|t| store.check_new(t.id))?;
        let rewritten = families::rewritten(&diff);
        let is_filled = |t: &&Arc<TableSchema>| {
            t.view().is_some() || rewritten.iter().any(|(_, after)| after.id == t.id)
        };
        let filled = || diff.opened.iter().filter(is_new).filter(is_filled);
        // A tree that a crash leaves with rows in it must be known as one that nobody defined.
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
            self.take_back(before, &diff);
            families::take_back_rewrite(store, &rewritten);
            return Err(e);
        }
        // Families went beneath already, but those whose rows had to be read.
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
        for name in gone.map(|k| &k.name).chain(remade) {
            store.forget_dropped(&mut batch, DroppedFamilies::Keyspace(name))?;
        }
        store.db().with(Durability::Power).write(batch)?;
        let after = Arc::new(after);
        *self.0.catalog.write() = after.clone();
        materialized::relink(store, self.partitioner(), &after, &diff.dropped)?;
        for table in &dropped {
            store.drop_family(table.id)?;
        }
        for (before, _) in &rewritten {
            self.0.wide.system_drop_column_family(&before.keyspace, &before.name)?;
        }
        Ok(())
    }

    /// Makes the open trees those of the definitions of before again, as far as it can be done: the
    /// reason why not is told already. Nobody stops this, whatever handle the engine was opened
    /// with.
    fn take_back(&self, before: &Catalog, diff: &CatalogDiff) {
        let store = self.store().unstoppable();
        drop(materialized::relink(&store, self.partitioner(), before, &diff.opened));
        families::take_back(&self.0.wide, before, diff);
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

/// What happened to keyspaces: those that went, then those that came or were changed; a `remade`
/// one went and came.
fn changes_of_keyspaces(
    before: &Catalog,
    after: &Catalog,
    remade: &BTreeSet<String>,
) -> Vec<SchemaChange> {
    let told = |change, keyspace: &KeyspaceEntry| SchemaChange {
        change,
        target: "KEYSPACE",
        keyspace: keyspace.name.clone(),
        name: None,
        arguments: vec![],
    };
    let there = |catalog: &Catalog, name: &str| {
        catalog.keyspace(name).filter(|_| !remade.contains(name)).cloned()
    };
    let gone = before.keyspaces().filter(|k| there(after, &k.name).is_none());
    let mut all: Vec<SchemaChange> = gone.map(|k| told("DROPPED", k)).collect();
    all.extend(after.keyspaces().filter_map(|k| match there(before, &k.name) {
        None => Some(told("CREATED", k)),
        Some(before) => (!before.is_like(k)).then(|| told("UPDATED", k)),
    }));
    all
}

/// What happened to the families of keyspaces that are there: those that went, then those that came
/// or were changed. Those of a keyspace that went went with it.
fn changes_of_families(
    before: &Catalog,
    after: &Catalog,
    remade: &BTreeSet<String>,
) -> Vec<SchemaChange> {
    let told = |change, family: &TableSchema| SchemaChange {
        change,
        target: "TABLE",
        keyspace: family.keyspace.clone(),
        name: Some(family.name.clone()),
        arguments: vec![],
    };
    let mut all = vec![];
    for keyspace in after.keyspaces() {
        let before = before.keyspace(&keyspace.name).filter(|k| !remade.contains(&k.name));
        let families = |of: Option<&Arc<KeyspaceEntry>>| -> BTreeMap<u32, Arc<TableSchema>> {
            of.iter().flat_map(|k| k.families()).map(|f| (f.id, f.clone())).collect()
        };
        let (old, new) = (families(before), families(Some(keyspace)));
        let gone = old.iter().filter(|(id, _)| !new.contains_key(id));
        all.extend(gone.map(|(_, family)| told("DROPPED", family)));
        all.extend(new.iter().filter_map(|(id, family)| match old.get(id) {
            None => Some(told("CREATED", family)),
            Some(before) => (before != family).then(|| told("UPDATED", family)),
        }));
    }
    all
}

/// The keyspaces of these that were dropped and made again with the older interface, while what CQL
/// kept in them is still on record.
fn remade(store: &CellStore, keyspaces: &[KeyspaceEntry]) -> Result<BTreeSet<String>> {
    let mut remade = BTreeSet::new();
    for keyspace in keyspaces {
        if store.was_dropped(DroppedFamilies::Keyspace(&keyspace.name))? {
            remade.insert(keyspace.name.clone());
        }
    }
    Ok(remade)
}

/// That keyspaces that aren't there were dropped, with the older interface. One that was not lost
/// its record.
fn check_dropped(store: &CellStore, homeless: &[OrphanedTable]) -> Result<()> {
    for OrphanedTable { key, keyspace, .. } in homeless {
        if !store.was_dropped(DroppedFamilies::Keyspace(keyspace))? {
            let key = String::from_utf8_lossy(key);
            return Err(corrupt(format!(
                "system.schema, record {key}: its keyspace {keyspace} is not there, and nobody dropped it; make it again with `firn cli`, \
                 and what it held is there again"
            )));
        }
    }
    Ok(())
}

/// Carries out what a crash, or the older interface, has left undone, together with `batch`.
fn clean(
    store: &CellStore,
    mut batch: Batch,
    catalog: &Catalog,
    remade: &BTreeSet<String>,
    homeless: &[OrphanedTable],
) -> Result<()> {
    for keyspace in remade {
        store.forget_dropped(&mut batch, DroppedFamilies::Keyspace(keyspace))?;
    }
    for OrphanedTable { key, keyspace, table } in homeless {
        store.put_record(&mut batch, key.as_ref(), None)?;
        store.forget_dropped(&mut batch, DroppedFamilies::Keyspace(keyspace))?;
        if let Some(id) = table {
            store.note_dropped(&mut batch, DroppedFamilies::Family(*id))?;
        }
    }
    store.db().with(Durability::Power).write(batch)?;
    let tables: Vec<u32> = catalog.own_tables().map(|t| t.id).collect();
    let indexes: Vec<u32> =
        catalog.own_tables().flat_map(|t| t.indexes().iter().map(|i| i.id)).collect();
    let defined = |tree| match tree {
        TreeName::Schema => true,
        TreeName::Family(id) => tables.contains(&id),
        TreeName::Index(id) => indexes.contains(&id),
    };
    // What is left lost its definition: nobody can say here what it is.
    Ok(store.drop_undefined(FIRST_ID..u32::MAX, defined).map(|_left| ())?)
}
