//! Evidence in a store's directory about a store whose manifest is gone: what is left of
//! manifests, and the event log.
//!
//! Invariant: the event log is only written after what it tells of has become durable, so what it
//! calls removed is removed; but its last lines may be missing, so what it does not tell of may
//! have happened too.

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

use crate::manifest::replay_around;
use crate::names::{TreeNames, own_name};
use crate::target::open_file;
use crate::whose;

/// No event log is read beyond this.
const MAX_EVENTS: u64 = 64 << 20;

/// What is known of a tree.
#[derive(Clone, Debug, Default)]
pub struct TreeFacts {
    /// Its name.
    pub name: Option<String>,
    /// Its options.
    pub options: Option<PersistedOptions>,
    /// A position below which its records are in tables.
    pub flushed: u64,
}

/// What is known of a store.
#[derive(Default)]
pub struct RecoveredHistory {
    /// Trees by id.
    pub trees: BTreeMap<TreeId, TreeFacts>,
    /// Trees that were dropped.
    pub dropped: BTreeSet<TreeId>,
    /// Tables that belong to the store no more.
    pub dead: BTreeSet<u64>,
    /// Options with the hooks of trees without tables, by what is in them.
    pub hooks: BTreeMap<TreeId, PersistedOptions>,
    /// Tables by what a manifest said of them.
    pub metas: BTreeMap<u64, TableMeta>,
    /// Trees that had tables at some time, as manifests tell.
    with_tables: BTreeSet<TreeId>,
    /// Blob files of which a manifest told at some time.
    value_files: BTreeSet<u64>,
    /// Ingested tables and their sequence numbers.
    pub ingested: BTreeMap<u64, u64>,
    /// Which tables belong to a tree of this name.
    pub by_name: BTreeMap<String, BTreeSet<u64>>,
    /// Lengths of tables' files.
    sizes: BTreeMap<u64, u64>,
    /// Flushed positions by name.
    flushed_by_name: BTreeMap<String, u64>,
    /// The position below which no tree needed the log, when a flush or a manifest last said so.
    pub log_floor: u64,
    /// A state that is whole, and the number of its manifest: of the newest one, when it is sound
    /// and fits the tables.
    pub whole: Option<(ManifestState, u64)>,
    /// The last state that could be read in part.
    pub partial: Option<ManifestState>,
    /// Whether a part of a manifest or of the event log has been read.
    pub has_source: bool,
    /// What has been found.
    pub notes: Vec<String>,
}

/// Which manifests are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// The one that `CURRENT` names and older ones, as far as they fit the tables.
    All,
    /// The one of this number.
    Only(u64),
    /// None.
    None,
}

/// Gathers all there is in `dir`.
///
/// # Errors
/// `Incompatible` for files of a newer version, I/O errors; damage is none.
pub fn gather(env: &TreeNames, dir: &Path, sources: Sources) -> Result<RecoveredHistory> {
    let mut e = RecoveredHistory::default();
    if sources != Sources::None {
        e.read_manifests(env, dir, sources)?;
    }
    let told = ToldFacts::read(env, dir)?;
    match told.contradicts(env, dir)? {
        Some(what) => e.notes.push(format!(
            "EVENTS.jsonl tells of {what} here: it is of another store, and left out"
        )),
        None => told.each(&mut |line| e.take_event(line)),
    }
    Ok(e)
}

/// Tables that belong to the store no more, as its manifests and its event log say.
///
/// # Errors
/// What the system says of the files; damage is none.
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

/// Whether `state` is that of an older time than the files; in words, if so. The proof is a table
/// with a number that it has not given out, together with one of these: tables that it names are
/// gone; the event log, which is written when a manifest is durable, tells of the table; the table
/// has sequence numbers behind the last one, which the log does not give back. A flush that a crash
/// ended proves nothing: the log has all of it. A log that tells of trees with numbers not given
/// out is a proof by itself, and so is one with which an opening went on that the manifest does not
/// name.
///
/// # Errors
/// What the files say; damage is none.
pub fn outdated(names: &TreeNames, dir: &Path, state: &ManifestState) -> Result<Option<String>> {
    // A stray file of another store, or of a clone, tells nothing of this one's time.
    let (openings, told) = (openings(names, dir, state)?, ToldFacts::read(names, dir)?);
    let events = match told.contradicts(names, dir)? {
        None => told.evidence,
        Some(_) => RecoveredHistory::default(),
    };
    let all_told: BTreeSet<u64> =
        events.by_name.values().flatten().chain(&events.dead).copied().collect();
    let live = state.trees.values().flat_map(|t| t.tables());
    let gone = live.filter(|m| names.table(m.id).is_none_or(|path| !io::exists(&path))).count();
    // An opening that wrote nothing to the log is known by the event log alone. One that nothing
    // tells of may be a clone's: its table does not outweigh a manifest most of whose files are here.
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
            && whose::writer(names, *id).is_none_or(|w| w == state.id)
            && properties(names, *id).is_none_or(|p| is_known(*id, p.log_writer))
    };
    let newer: Vec<u64> = names.finished().into_iter().filter(is_newer).collect();
    let (mut first, mut last, mut unknown_tree) = (None, 0, None);
    // What is wrong with the log is said where it is read.
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
        proof.push(format!(
            "the event log tells of {}",
            things(told as u64, "newer one", "newer ones")
        ));
    }
    let is_lost = |p: &Properties| {
        let logged = first.is_some_and(|f| f <= p.min_seq) && p.max_seq < last;
        p.max_seq > state.last_seq && !logged
    };
    let behind =
        newer.iter().filter(|&&id| properties(names, id).is_some_and(|p| is_lost(&p))).count();
    if behind > 0 {
        proof.push(format!(
            "{} sequence numbers behind its last, not in the log",
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

/// The openings of the store that the manifest or the log tells of; none where there is no log, so
/// that those are unknown that came after the manifest.
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

/// Whether `state` is of another store than the files: none of the tables and blob files that it
/// names is here, others are, and these carry the id of another store. In words, if so.
///
/// The ids decide where all files with an id are of other stores; log segments carry one too. Where
/// the state's own id is among them, a file of another store is proof if it has a number that this
/// manifest has given out: one that is only older has not given out the numbers of newer tables.
///
/// # Errors
/// What the system says of the files; damage is none.
pub fn foreign(names: &TreeNames, dir: &Path, state: &ManifestState) -> Result<Option<String>> {
    if names.own_files(state) > 0 {
        return Ok(None);
    }
    let live = state.trees.values().flat_map(TreeState::files).count();
    let finished = names.finished();
    let contradicts = |id: &u64| {
        *id < state.next_file && whose::writer(names, *id).is_some_and(|w| w != state.id)
    };
    let stores = whose::stores(names, dir)?;
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

/// As [`foreign`], of the manifest of this number, as far as it can be read.
fn foreign_manifest(names: &TreeNames, dir: &Path, number: u64) -> Result<Option<String>> {
    let Ok((log, _)) = manifest::read_around(names, dir, number) else { return Ok(None) };
    let state = log.replay().unwrap_or_else(|_| replay_around(&log.frames).0);
    if state.id == 0 { Ok(None) } else { foreign(names, dir, &state) }
}

/// Manifests beside that of `number` that are of other stores, and how much of those is here.
///
/// # Errors
/// What the system says of the directory.
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
            "this manifest is of another store than {}: two stores lie in one directory, and {} of the {} of this one are here",
            manifest_name(number),
            names.own_files(&found),
            things(live, "file", "files"),
        );
        all.push(Error::corruption(words).in_file(dir.join(manifest_name(other))));
    }
    Ok(all)
}

/// What the event log tells of the store that was opened last: what stands before it may be another
/// one's, whose file this was.
///
/// Lines are read one by one, each time that they are needed: as values they take ten times as much
/// memory as text.
struct ToldFacts {
    text: Vec<u8>,
    /// Where in the text this store's lines begin.
    from: usize,
    /// Only these lines.
    evidence: RecoveredHistory,
    /// The store, where they say it.
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
                // One that cannot be read tells nothing.
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

    /// Shows every line.
    fn each(&self, show: &mut dyn FnMut(&Value)) {
        let text = self.text.get(self.from..).unwrap_or_default();
        let lines = text.split(|&b| b == b'\n');
        lines.filter_map(|l| serde_json::from_slice::<Value>(l).ok()).for_each(|v| show(&v));
    }

    /// What contradicts the files in what is told, if anything: none of them is of the store that
    /// it is about; more than half of them have other lengths; or some are called removed and none
    /// is told of that is not. A crash leaves files that have been removed, but not without others
    /// that have not.
    fn contradicts(&self, names: &TreeNames, dir: &Path) -> Result<Option<&'static str>> {
        if let Some(store) = self.store {
            let stores = whose::stores(names, dir)?;
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
            .then_some("other tables than those that are"))
    }
}

impl RecoveredHistory {
    /// Whether the file of table `id` is as long as is told of it.
    fn fits(&self, names: &TreeNames, dir: &Path, id: u64) -> bool {
        self.sizes.get(&id).is_none_or(|&n| {
            names.file_len(&table_path(dir, id)).is_ok_and(|len| is_as_told(names, id, len, n))
        })
    }

    /// Whether nothing tells which tables there were.
    pub fn tells_nothing(&self) -> bool {
        self.by_name.is_empty() && self.metas.is_empty()
    }

    /// Whether blob file `id` was there once, and no table needs it any more, as manifests tell.
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
            // Its id decides before anything of a manifest is believed.
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
        // The one that CURRENT names counts; one of a higher number is a new manifest in the
        // making. A CURRENT that names another store's is that store's too.
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

    /// Whether anything tells of tables of this tree, be they live or not.
    pub fn has_tables_of(&self, tree: TreeId, name: &str) -> bool {
        self.with_tables.contains(&tree) || self.by_name.get(name).is_some_and(|t| !t.is_empty())
    }

    /// Gives the tree `id`, to which these tables belong, what the events tell of it by its name
    /// alone. `by_table` is the name that its newest table has; a name that is in `given` is that of
    /// another tree.
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

    /// The tree that a table belongs to, by what is said of it.
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

    /// Tables that belonged to the store when it was last told of them.
    pub fn live(&self) -> BTreeSet<u64> {
        let all = self.by_name.values().flatten().chain(self.metas.keys());
        all.copied().filter(|id| !self.dead.contains(id)).collect()
    }

    /// Sound tables that are not those that is told of under their numbers, but of another store or
    /// time. When that seems to be so of half of them, it is rather the telling that is of another
    /// store.
    ///
    /// # Errors
    /// What the system says of the files.
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

    /// The sequence number of an ingested table, 0 for others.
    pub fn ingested_seq(&self, id: u64) -> u64 {
        let by_meta = self.metas.get(&id).map_or(0, |m| m.ingested_seq);
        if by_meta > 0 { by_meta } else { self.ingested.get(&id).copied().unwrap_or(0) }
    }
}

/// Whether a file of `len` bytes may be table `id`, of which it is told that `told` bytes were
/// written: those of blob files are among them.
fn is_as_told(names: &TreeNames, id: u64, len: u64, told: u64) -> bool {
    len == told || (len < told && properties(names, id).is_some_and(|p| !p.values.is_empty()))
}

/// The store whose opening this line of the event log tells of.
fn opened_store(line: &Value) -> Option<u64> {
    let is_open = line.get("event").and_then(Value::as_str) == Some("open");
    u64::from_str_radix(line.get("store").filter(|_| is_open)?.as_str()?, 16).ok()
}

/// An error about a directory that holds nothing of a store.
pub fn nothing(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is nothing of a store in this directory").in_file(dir)
}
