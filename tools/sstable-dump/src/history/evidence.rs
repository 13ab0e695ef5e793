//! Recovers facts about a store without a manifest from the remains of manifests and from the event
//! log.
//!
//! Invariant: an event is logged only after the change is durable. So a table that the event log
//! calls removed is removed. The last lines may be missing, so changes without an event may have
//! happened too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use firn_kv::Env as _;
use firn_kv::internals::base::ops::{NO_TREE, OpReader, TreeId};
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::{
    self, Edit, ManifestState, PersistedOptions, TableMeta, TreeState, manifest_name,
    manifest_number,
};
use firn_kv::internals::sstable::Properties;
use firn_kv::internals::wal::{self, recover};
use firn_kv::{Error, ErrorKind, Result};
use firn_tools::io;
use firn_tools::output::things;
use serde_json::Value;

use crate::dump::manifest::replay_around;
use crate::history::owner;
use crate::store::names::{TreeNames, own_name};
use crate::store::target::open_file;

/// Maximum number of bytes read of an event log.
const MAX_EVENTS: u64 = 64 << 20;

/// Recovered facts about a tree.
#[derive(Clone, Debug, Default)]
pub struct TreeFacts {
    /// Name of the tree.
    pub name: Option<String>,
    /// Options of the tree.
    pub options: Option<PersistedOptions>,
    /// Position below which the tree's records are in tables.
    pub flushed: u64,
}

/// Recovered facts about a store.
#[derive(Default)]
pub struct RecoveredHistory {
    /// Trees by id.
    pub trees: BTreeMap<TreeId, TreeFacts>,
    /// Dropped trees.
    pub dropped: BTreeSet<TreeId>,
    /// Obsolete tables.
    pub dead: BTreeSet<u64>,
    /// Options with hooks, from the content of trees without tables.
    pub hooks: BTreeMap<TreeId, PersistedOptions>,
    /// Metadata of tables from manifests.
    pub metas: BTreeMap<u64, TableMeta>,
    /// Trees that had tables at some time, according to manifests.
    with_tables: BTreeSet<TreeId>,
    /// Blob files that a manifest once listed.
    value_files: BTreeSet<u64>,
    /// Ingested tables and their sequence numbers.
    pub ingested: BTreeMap<u64, u64>,
    /// Tables by the name of their tree.
    pub by_name: BTreeMap<String, BTreeSet<u64>>,
    /// Sizes of table files.
    sizes: BTreeMap<u64, u64>,
    /// Flushed positions by tree name.
    flushed_by_name: BTreeMap<String, u64>,
    /// Position below which no tree needed the log, from the last flush event or manifest.
    pub log_floor: u64,
    /// The complete state and the number of its manifest: the newest manifest, if it is sound and
    /// fits the tables.
    pub whole: Option<(ManifestState, u64)>,
    /// The last state that could be read in part.
    pub partial: Option<ManifestState>,
    /// Whether any part of a manifest or of the event log could be read.
    pub has_source: bool,
    /// Notes for the report.
    pub notes: Vec<String>,
}

/// Selection of the trusted manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// The manifest that `CURRENT` names and older ones, as far as they fit the tables.
    All,
    /// The manifest with this number.
    Only(u64),
    /// No manifest.
    None,
}

/// Recovers the history of the store in `dir`.
///
/// # Errors
/// `Incompatible` for files of a newer version; I/O errors. Damage is no error.
pub fn gather(env: &TreeNames, dir: &Path, sources: Sources) -> Result<RecoveredHistory> {
    let mut e = RecoveredHistory::default();
    if sources != Sources::None {
        e.read_manifests(env, dir, sources)?;
    }
    let told = ToldFacts::read(env, dir)?;
    match told.contradicts(env, dir)? {
        Some(what) => {
            e.notes.push(format!("EVENTS.jsonl is of another store, and left out: it names {what}"))
        }
        None => told.each(&mut |line| e.take_event(line)),
    }
    Ok(e)
}

/// Returns the tables that the manifests and the event log call obsolete.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn removed(names: &TreeNames, dir: &Path) -> Result<BTreeSet<u64>> {
    let mut e = RecoveredHistory::default();
    for number in names.list(dir)?.iter().filter_map(|n| manifest_number(n)) {
        if let Ok((log, _)) = manifest::read_around(names, dir, number) {
            log.frames.iter().flat_map(|f| &f.edits).for_each(|edit| e.take_edit(edit));
        }
    }
    let told = ToldFacts::read(names, dir)?;
    if told.contradicts(names, dir)?.is_none() {
        told.each(&mut |line| e.take_event(line));
    }
    Ok(e.dead)
}

/// Returns the reason if `state` is older than the files.
///
/// The proof is a table with a number that the state has not assigned, and one of these:
/// - Tables that the state names are missing.
/// - The event log, which is written after the manifest is durable, has the table.
/// - The table has sequence numbers above the state's last one, and the log does not contain them.
///
/// A flush that a crash interrupted proves nothing, because the log has all its entries. A log with
/// operations on trees of unassigned numbers is a proof by itself. So is a log in which an opening
/// continued that the manifest does not know.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn outdated(names: &TreeNames, dir: &Path, state: &ManifestState) -> Result<Option<String>> {
    // A stray file of another store or of a clone says nothing about the age of this one.
    let (openings, told) = (openings(names, dir, state)?, ToldFacts::read(names, dir)?);
    let events = match told.contradicts(names, dir)? {
        None => told.evidence,
        Some(_) => RecoveredHistory::default(),
    };
    let all_told: BTreeSet<u64> =
        events.by_name.values().flatten().chain(&events.dead).copied().collect();
    let live = state.trees.values().flat_map(|t| t.tables());
    let gone = live.filter(|m| names.table(m.id).is_none_or(|path| !io::exists(&path))).count();
    // An opening without log writes is known only from the event log. An unknown opening may be a
    // clone's. Its table does not outweigh a manifest most of whose files are here.
    let is_fit = names.own_files(state) >= gone && gone > 0;
    let is_known = |id: u64, opening: u64| {
        opening == 0
            || !is_fit
            || openings.is_empty()
            || openings.contains(&opening)
            || all_told.contains(&id)
    };
    let is_newer = |id: &u64| {
        *id >= state.next_file
            && owner::writer(names, *id).is_none_or(|w| w == state.id)
            && properties(names, *id).is_none_or(|p| is_known(*id, p.log_writer))
    };
    let newer: Vec<u64> = names.finished().into_iter().filter(is_newer).collect();
    let (mut first, mut last, mut unknown_tree) = (None, 0, None);
    // The reader of the log reports its damage.
    let _ = recover(names, dir, state.wal_floor, &mut |seq, _, payload| {
        first.get_or_insert(seq);
        let mut n = 0;
        for (tree, _) in OpReader::new(payload).flatten() {
            unknown_tree =
                unknown_tree.or((tree >= state.next_tree && tree != NO_TREE).then_some(tree));
            n += 1;
        }
        last = last.max(seq.saturating_add(n));
        Ok(())
    });
    if let Some(tree) = unknown_tree {
        return Ok(Some(format!(
            "the manifest is of an older time than the log, or its end is lost: the log has operations on tree {tree}, which it does not know"
        )));
    }
    if let Some(number) = names.later_segment(state)? {
        return Ok(Some(format!(
            "the manifest is of an older time than the log, or its end is lost: it does not know the opening of this store that went on \
             with the log in segment {number}"
        )));
    }
    if newer.is_empty() {
        return Ok(None);
    }
    let mut proof = vec![];
    if gone > 0 {
        proof.push(format!(
            "{} gone",
            things(gone as u64, "table that it names is", "tables that it names are")
        ));
    }
    let told =
        newer.iter().filter(|id| all_told.contains(id) && events.fits(names, dir, **id)).count();
    if told > 0 {
        proof.push(format!("the event log has {}", things(told as u64, "newer one", "newer ones")));
    }
    let is_lost = |p: &Properties| {
        let logged = first.is_some_and(|f| f <= p.min_seq) && p.max_seq < last;
        p.max_seq > state.last_seq && !logged
    };
    let behind =
        newer.iter().filter(|&&id| properties(names, id).is_some_and(|p| is_lost(&p))).count();
    if behind > 0 {
        proof.push(format!(
            "{} sequence numbers above its last, not in the log",
            things(behind as u64, "has", "have")
        ));
    }
    Ok((!proof.is_empty()).then(|| {
        format!(
            "the manifest is of an older time than the tables, or its end is lost: {} not known to it, and {}",
            things(newer.len() as u64, "newer table is", "newer tables are"),
            proof.join(", ")
        )
    }))
}

/// Returns the openings of the store in the manifest and the log. Returns none without a log, so
/// that openings after the manifest remain unknown.
fn openings(names: &TreeNames, dir: &Path, state: &ManifestState) -> Result<BTreeSet<u64>> {
    let mut all: BTreeSet<u64> =
        wal::writers(names, dir)?.iter().map(|w| w.id).filter(|id| *id != 0).collect();
    if !all.is_empty() {
        all.extend(state.writers.iter().map(|w| w.id));
    }
    Ok(all)
}

fn properties(names: &TreeNames, id: u64) -> Option<Properties> {
    let (path, file) = names.open_file_of(id)?;
    open_file(file, &path, id, 0).ok().map(|t| t.properties().clone())
}

/// Returns the reason if `state` belongs to another store than the files. No table or blob file
/// that it names is here, others are, and these carry the id of another store.
///
/// If all files with an id, log segments included, belong to other stores, the ids are proof. If
/// one has the state's own id, a file of another store is proof only if this manifest has assigned
/// its number. A manifest that is merely older has not assigned the numbers of newer tables.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn foreign(names: &TreeNames, dir: &Path, state: &ManifestState) -> Result<Option<String>> {
    if names.own_files(state) > 0 {
        return Ok(None);
    }
    let live = state.trees.values().flat_map(TreeState::files).count();
    let finished = names.finished();
    let contradicts = |id: &u64| {
        *id < state.next_file && owner::writer(names, *id).is_some_and(|w| w != state.id)
    };
    let stores = owner::stores(names, dir)?;
    let others = !stores.is_empty() && !stores.contains(&state.id);
    let is_foreign = others || live > 0 && finished.iter().any(contradicts);
    if !is_foreign {
        return Ok(None);
    }
    let ids: Vec<String> =
        stores.iter().filter(|id| **id != state.id).map(|id| format!("{id:016x}")).collect();
    Ok(Some(format!(
        "this manifest is of another store (id {:016x}): of the {} that it names none is here, and of the {} here it names none; there are \
         files of store {}",
        state.id,
        things(live as u64, "file", "files"),
        things(finished.len() as u64, "file", "files"),
        ids.join(", "),
    )))
}

/// Applies [`foreign`] to the manifest with this number, as far as it can be read.
fn foreign_manifest(names: &TreeNames, dir: &Path, number: u64) -> Result<Option<String>> {
    let Ok((log, _)) = manifest::read_around(names, dir, number) else { return Ok(None) };
    let state = log.replay().unwrap_or_else(|_| replay_around(&log.frames).0);
    if state.id == 0 { Ok(None) } else { foreign(names, dir, &state) }
}

/// Returns the manifests of other stores besides the manifest `number`, with the number of their
/// files that are here.
///
/// # Errors
/// I/O errors of the directory.
pub fn other_stores(
    names: &TreeNames,
    dir: &Path,
    number: u64,
    state: &ManifestState,
) -> Result<Vec<Error>> {
    let mut all = vec![];
    for other in names.list(dir)?.iter().filter_map(|n| manifest_number(n)).filter(|n| *n != number)
    {
        let Ok(found) = manifest::read(names, dir, other).and_then(|log| log.replay()) else {
            continue;
        };
        if found.id == state.id {
            continue;
        }
        let live = found.trees.values().flat_map(TreeState::files).count() as u64;
        let words = format!(
            "this manifest is of another store than {}: two stores are in one directory, and {} of the {} of this one are here",
            manifest_name(number),
            names.own_files(&found),
            things(live, "file", "files"),
        );
        all.push(Error::corruption(words).in_file(dir.join(manifest_name(other))));
    }
    Ok(all)
}

/// Event log of the store that was opened last. Earlier lines may belong to another store that used
/// the same file.
///
/// Lines are parsed again on each use, because parsed values take ten times the memory of the text.
struct ToldFacts {
    text: Vec<u8>,
    /// Offset in the text at which the lines of this store begin.
    from: usize,
    /// History from these lines alone.
    evidence: RecoveredHistory,
    /// Id of the store, if the lines contain it.
    store: Option<u64>,
}

impl ToldFacts {
    fn read(env: &TreeNames, dir: &Path) -> Result<ToldFacts> {
        let mut text = vec![];
        for name in ["EVENTS.old.jsonl", "EVENTS.jsonl"] {
            match env.read_all(&dir.join(name), MAX_EVENTS) {
                Ok(bytes) => {
                    text.extend(bytes);
                    text.push(b'\n');
                }
                // An unreadable log contributes nothing.
                Err(e) if e.kind() == ErrorKind::Incompatible => return Err(e),
                Err(_) => {}
            }
        }
        let (mut store, mut from, mut at) = (None, 0, 0);
        for line in text.split(|&b| b == b'\n') {
            if let Some(opened) =
                serde_json::from_slice(line).ok().and_then(|v: Value| opened_store(&v))
                && store.replace(opened).is_some_and(|before| before != opened)
            {
                from = at;
            }
            at += line.len() + 1;
        }
        let mut told = ToldFacts { text, from, evidence: RecoveredHistory::default(), store };
        let mut evidence = RecoveredHistory::default();
        told.each(&mut |line| evidence.take_event(line));
        told.evidence = evidence;
        Ok(told)
    }

    /// Calls `show` for every line.
    fn each(&self, show: &mut dyn FnMut(&Value)) {
        let text = self.text.get(self.from..).unwrap_or_default();
        let lines = text.split(|&b| b == b'\n');
        lines.filter_map(|l| serde_json::from_slice::<Value>(l).ok()).for_each(|v| show(&v));
    }

    /// Returns the contradiction between the log and the files, if there is one:
    /// - No file belongs to the store of the log.
    /// - More than half of the files have other sizes.
    /// - Some files are removed according to the log, and none is live. After a crash removed files
    ///   may remain, but live ones remain too.
    fn contradicts(&self, names: &TreeNames, dir: &Path) -> Result<Option<&'static str>> {
        if let Some(store) = self.store {
            let stores = owner::stores(names, dir)?;
            if !stores.is_empty() && !stores.contains(&store) {
                return Ok(Some("another store than the files"));
            }
        }
        let RecoveredHistory { by_name, dead, .. } = &self.evidence;
        let finished = names.finished();
        let wrong = finished.iter().filter(|id| !self.evidence.fits(names, dir, **id)).count();
        let told: BTreeSet<u64> = by_name.values().flatten().copied().collect();
        let is_live = |id: &u64| told.contains(id) && !dead.contains(id);
        let all_removed =
            finished.iter().any(|id| dead.contains(id)) && !finished.iter().any(is_live);
        Ok((wrong * 2 > finished.len() || all_removed)
            .then_some("other tables than those that exist"))
    }
}

impl RecoveredHistory {
    /// Reports whether the file of table `id` has the logged size.
    fn fits(&self, names: &TreeNames, dir: &Path, id: u64) -> bool {
        self.sizes.get(&id).is_none_or(|&n| {
            names.file_len(&table_path(dir, id)).is_ok_and(|len| is_as_told(names, id, len, n))
        })
    }

    /// Reports whether no source names any table.
    pub fn tells_nothing(&self) -> bool {
        self.by_name.is_empty() && self.metas.is_empty()
    }

    /// Reports whether blob file `id` existed once and no table needs it any more, according to
    /// manifests.
    pub fn is_left_over(&self, id: u64) -> bool {
        let needed = |s: &ManifestState| s.trees.values().any(|t| t.values.contains_key(&id));
        self.value_files.contains(&id) && !self.partial.as_ref().is_some_and(needed)
    }

    fn read_manifests(&mut self, env: &TreeNames, dir: &Path, sources: Sources) -> Result<()> {
        let mut numbers: Vec<u64> =
            env.list(dir)?.iter().filter_map(|n| manifest_number(n)).collect();
        numbers.sort_unstable();
        let named = match manifest::current(env, dir) {
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Io) => {
                self.notes.push(format!("CURRENT cannot be read: {}", e.message()));
                None
            }
            Err(e) => return Err(e),
        };
        if let Sources::Only(number) = sources {
            numbers.retain(|n| *n == number);
        } else {
            // Check the id of a manifest before using anything in it.
            let mut own = vec![];
            for number in numbers {
                match foreign_manifest(env, dir, number)? {
                    Some(words) => {
                        self.notes.push(format!("{} is left out: {words}", manifest_name(number)));
                    }
                    None => own.push(number),
                }
            }
            numbers = own;
        }
        // The manifest that CURRENT names counts; one with a higher number is unfinished. If
        // CURRENT names a manifest of another store, CURRENT belongs to that store too.
        let newest = match sources {
            Sources::Only(_) => numbers.first().copied(),
            _ => named.filter(|n| numbers.contains(n)).or(numbers.last().copied()),
        };
        for &number in numbers.iter().filter(|n| Some(**n) <= newest) {
            let name = manifest_name(number);
            let sound = match manifest::read(env, dir, number).and_then(|log| log.replay()) {
                Err(e) if e.kind() == ErrorKind::Io => {
                    self.notes.push(format!("{name} cannot be read: {}", e.message()));
                    continue;
                }
                sound => sound,
            };
            if let (Ok(state), true) = (&sound, Some(number) == newest) {
                match outdated(env, dir, state)? {
                    Some(words) => self.notes.push(format!("{name}: {words}")),
                    None => {
                        self.notes.push(format!("{name} is sound: the store's state is all known"));
                        self.whole = Some((state.clone(), number));
                    }
                }
            }
            let (log, gaps) = match manifest::read_around(env, dir, number) {
                Ok(found) => found,
                Err(e) if e.kind() == ErrorKind::Corruption => continue,
                Err(e) => return Err(e),
            };
            if sound.is_err() {
                let lost: u64 = gaps.iter().map(|g| g.len).sum();
                let frames = things(log.frames.len() as u64, "frame", "frames");
                self.notes.push(format!(
                    "{}: {frames} can be read, {} are lost",
                    manifest_name(number),
                    things(lost, "byte", "bytes")
                ));
            }
            log.frames.iter().flat_map(|f| &f.edits).for_each(|e| self.take_edit(e));
            self.partial = Some(replay_around(&log.frames).0)
                .filter(|s| s.next_file > 0)
                .or(self.partial.take());
        }
        Ok(())
    }

    fn take_edit(&mut self, edit: &Edit) {
        self.has_source = true;
        match edit {
            Edit::Snapshot(s) => {
                self.log_floor = self.log_floor.max(s.wal_floor);
                for t in s.trees.values() {
                    let facts = self.trees.entry(t.id).or_default();
                    (facts.name, facts.options) = (Some(t.name.clone()), Some(t.options.clone()));
                    facts.flushed = facts.flushed.max(t.flushed);
                    self.value_files.extend(t.values.keys());
                    self.with_tables.extend(t.tables().next().map(|_| t.id));
                    t.tables().for_each(|m| {
                        self.metas.insert(m.id, (**m).clone());
                    });
                }
            }
            Edit::CreateTree { id, name, options, flushed } => {
                let facts = TreeFacts {
                    name: Some(name.clone()),
                    options: Some(options.clone()),
                    flushed: *flushed,
                };
                self.trees.insert(*id, facts);
            }
            Edit::DropTree { id } => {
                self.dropped.insert(*id);
            }
            Edit::SetOptions { id, options } => {
                self.trees.entry(*id).or_default().options = Some(options.clone())
            }
            Edit::Tables { tree, removed, added, flushed, values } => {
                self.dead.extend(removed);
                self.with_tables.extend(added.first().map(|_| *tree));
                self.value_files.extend(values.iter().map(|v| v.id));
                for a in added {
                    self.dead.remove(&a.table.id);
                    self.metas.insert(a.table.id, (*a.table).clone());
                }
                let facts = self.trees.entry(*tree).or_default();
                facts.flushed = facts.flushed.max(flushed.unwrap_or(0));
            }
            Edit::Counters { wal_floor, .. } => self.log_floor = self.log_floor.max(*wal_floor),
            Edit::LogWriters { .. } => {}
        }
    }

    fn take_event(&mut self, v: &Value) {
        self.has_source = true;
        let list = |name: &str| -> Vec<u64> {
            v.get(name)
                .and_then(Value::as_array)
                .map_or_else(Vec::new, |l| l.iter().filter_map(Value::as_u64).collect())
        };
        let number = |name: &str| v.get(name).and_then(Value::as_u64);
        let name = v.get("tree").and_then(Value::as_str).unwrap_or_default().to_owned();
        match v.get("event").and_then(Value::as_str).unwrap_or_default() {
            "tree" | "tree dropped"
                if number("id").and_then(|i| TreeId::try_from(i).ok()).is_none() => {}
            "tree" => {
                let id = number("id").unwrap_or(0) as TreeId;
                self.by_name.remove(&name);
                self.flushed_by_name.remove(&name);
                self.trees.entry(id).or_default().name.get_or_insert(name);
            }
            "tree dropped" => {
                self.dropped.insert(number("id").unwrap_or(0) as TreeId);
                self.by_name.remove(&name);
                self.flushed_by_name.remove(&name);
            }
            "flush" => {
                if let ([id], Some(bytes)) = (&list("tables")[..], number("bytes_out")) {
                    self.sizes.insert(*id, bytes);
                }
                if let Some(f) = number("flushed") {
                    self.flushed_by_name.insert(name.clone(), f);
                }
                self.log_floor = self.log_floor.max(number("log_floor").unwrap_or(0));
                self.by_name.entry(name).or_default().extend(list("tables"));
            }
            "compaction" | "drop" => {
                self.dead.extend(list("removed"));
                list("tables").iter().for_each(|id| {
                    self.dead.remove(id);
                });
                self.by_name.entry(name).or_default().extend(list("tables"));
            }
            "ingest" => {
                if let Some(seq) = number("seq") {
                    self.ingested.extend(list("tables").into_iter().map(|id| (id, seq)));
                }
                self.by_name.entry(name).or_default().extend(list("tables"));
            }
            _ => {}
        }
    }

    /// Reports whether any source mentions tables of this tree, live or not.
    pub fn has_tables_of(&self, tree: TreeId, name: &str) -> bool {
        self.with_tables.contains(&tree) || self.by_name.get(name).is_some_and(|t| !t.is_empty())
    }

    /// Adds to tree `id` the events that mention it only by name. `tables` are its tables,
    /// `by_table` is the tree name in the newest of them. Names in `given` belong to other trees.
    pub fn name_tree(
        &mut self,
        id: TreeId,
        tables: &BTreeSet<u64>,
        by_table: Option<String>,
        given: &mut BTreeSet<String>,
    ) {
        let known = self.trees.get(&id).and_then(|t| t.name.clone());
        let told = || {
            self.by_name.iter().find(|(_, its)| !its.is_disjoint(tables)).map(|(n, _)| n.clone())
        };
        let by_table = by_table.filter(|n| !n.is_empty() && !given.contains(n));
        let Some(name) = known.or_else(told).or(by_table) else { return };
        given.insert(name.clone());
        let flushed = self.flushed_by_name.get(&name).copied().unwrap_or(0);
        let facts = self.trees.entry(id).or_default();
        facts.flushed = facts.flushed.max(flushed);
        facts.name = Some(name);
    }

    /// Returns the tree of a table, according to manifests and events.
    pub fn tree_of(&self, table: u64) -> Option<TreeId> {
        let by_state = self
            .partial
            .as_ref()
            .and_then(|s| s.trees.values().find(|t| t.tables().any(|m| m.id == table)));
        let by_name = || {
            let name = self.by_name.iter().find(|(_, its)| its.contains(&table))?.0;
            self.trees.iter().find(|(_, t)| t.name.as_ref() == Some(name)).map(|(id, _)| *id)
        };
        by_state.map(|t| t.id).or_else(by_name)
    }

    /// Returns the tables that were live in the last recorded state.
    pub fn live(&self) -> BTreeSet<u64> {
        let all = self.by_name.values().flatten().chain(self.metas.keys());
        all.copied().filter(|id| !self.dead.contains(id)).collect()
    }

    /// Returns sound tables that differ from the logged ones with their numbers: tables of another
    /// store or time. If half of the tables differ, the log belongs to another store, and the
    /// result is empty.
    ///
    /// # Errors
    /// I/O errors.
    pub fn foreign(&self, names: &TreeNames, dir: &Path) -> Result<BTreeSet<u64>> {
        let (mut foreign, mut known) = (BTreeSet::new(), 0);
        for (&id, &size) in &self.sizes {
            let Some(path) = names.table(id).filter(|path| io::is_file(path)) else { continue };
            if own_name(&path)? == table_path(Path::new(""), id).to_str().map(str::to_owned) {
                known += 1;
                if !is_as_told(names, id, names.file_len(&table_path(dir, id))?, size) {
                    foreign.insert(id);
                }
            }
        }
        Ok(if foreign.len() * 2 < known { foreign } else { BTreeSet::new() })
    }

    /// Returns the sequence number of an ingested table, 0 for others.
    pub fn ingested_seq(&self, id: u64) -> u64 {
        let by_meta = self.metas.get(&id).map_or(0, |m| m.ingested_seq);
        if by_meta > 0 { by_meta } else { self.ingested.get(&id).copied().unwrap_or(0) }
    }
}

/// Reports whether a file of `len` bytes may be table `id`, for which the log has `told` bytes.
/// That number includes bytes of blob files.
fn is_as_told(names: &TreeNames, id: u64, len: u64, told: u64) -> bool {
    len == told || (len < told && properties(names, id).is_some_and(|p| !p.values.is_empty()))
}

/// Returns the store id if this line of the event log is an opening.
fn opened_store(line: &Value) -> Option<u64> {
    let is_open = line.get("event").and_then(Value::as_str) == Some("open");
    u64::from_str_radix(line.get("store").filter(|_| is_open)?.as_str()?, 16).ok()
}

/// Returns the error for a directory without files of a store.
pub fn nothing(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is nothing of a store in this directory").in_file(dir)
}
