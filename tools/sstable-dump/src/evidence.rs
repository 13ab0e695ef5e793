//! What a store's directory still tells of the store when its manifest is gone: what is left of manifests, and the event log.
//!
//! Invariant: the event log is only written after what it tells of has become durable, so what it calls removed is removed; but its last
//! lines may be missing, so what it does not tell of may have happened too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use firn_kv::base::ops::TreeId;
use firn_kv::env::Env as _;
use firn_kv::manifest::{self, Edit, PersistedOptions, State, TableMeta, manifest_name, manifest_number};
use firn_kv::merge::run::table_path;
use firn_kv::{Error, ErrorKind, Result};
use firn_tools::output::things;
use serde_json::Value;

use crate::manifest::replay_around;
use crate::names::{Names, own_name};

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
pub struct Evidence {
    /// Trees by id.
    pub trees: BTreeMap<TreeId, TreeFacts>,
    /// Trees that were dropped.
    pub dropped: BTreeSet<TreeId>,
    /// Tables that belong to the store no more.
    pub dead: BTreeSet<u64>,
    /// Tables by what a manifest said of them.
    pub metas: BTreeMap<u64, TableMeta>,
    /// Ingested tables and their sequence numbers.
    pub ingested: BTreeMap<u64, u64>,
    /// Which tables belong to a tree of this name.
    pub by_name: BTreeMap<String, BTreeSet<u64>>,
    /// Lengths of tables' files.
    sizes: BTreeMap<u64, u64>,
    /// Flushed positions by name.
    flushed_by_name: BTreeMap<String, u64>,
    /// A state that is whole: that of the newest manifest, when it is sound.
    pub whole: Option<State>,
    /// The last state that could be read in part.
    pub partial: Option<State>,
    /// What has been found.
    pub notes: Vec<String>,
}

/// Gathers all there is in `dir`; manifests only with `manifests`.
///
/// # Errors
/// `Incompatible` for files of a newer version, I/O errors; damage is none.
pub fn gather(env: &Names, dir: &Path, manifests: bool) -> Result<Evidence> {
    let mut e = Evidence::default();
    if manifests {
        e.read_manifests(env, dir)?;
    }
    for name in ["EVENTS.old.jsonl", "EVENTS.jsonl"] {
        match env.read_all(&dir.join(name), MAX_EVENTS) {
            Ok(bytes) => e.read_events(&bytes),
            Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::Corruption) => {}
            Err(err) => return Err(err),
        }
    }
    Ok(e)
}

impl Evidence {
    fn read_manifests(&mut self, env: &Names, dir: &Path) -> Result<()> {
        let mut numbers: Vec<u64> = env.list(dir)?.iter().filter_map(|n| manifest_number(n)).collect();
        numbers.sort_unstable();
        let named = match manifest::current(env, dir) {
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::Corruption => {
                self.notes.push("CURRENT is damaged".into());
                None
            }
            Err(e) => return Err(e),
        };
        // The one that CURRENT names counts; one of a higher number is a new manifest in the making.
        let newest = named.filter(|n| numbers.contains(n)).or(numbers.last().copied());
        for &number in numbers.iter().filter(|n| Some(**n) <= newest) {
            let sound = manifest::read(env, dir, number).and_then(|log| log.replay());
            if let (Ok(state), true) = (&sound, Some(number) == newest) {
                let name = manifest_name(number);
                match env.outdated(state) {
                    Some(words) => self.notes.push(format!("{name}: {words}")),
                    None => {
                        self.notes.push(format!("{name} is sound: the store's state is all known"));
                        self.whole = Some(state.clone());
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
            self.partial = Some(replay_around(&log.frames).0).filter(|s| s.next_file > 0).or(self.partial.take());
        }
        Ok(())
    }

    fn take_edit(&mut self, edit: &Edit) {
        match edit {
            Edit::Snapshot(s) => {
                for t in s.trees.values() {
                    let facts = self.trees.entry(t.id).or_default();
                    (facts.name, facts.options) = (Some(t.name.clone()), Some(t.options.clone()));
                    facts.flushed = facts.flushed.max(t.flushed);
                    t.tables().for_each(|m| {
                        self.metas.insert(m.id, (**m).clone());
                    });
                }
            }
            Edit::CreateTree { id, name, options, flushed } => {
                let facts = TreeFacts { name: Some(name.clone()), options: Some(options.clone()), flushed: *flushed };
                self.trees.insert(*id, facts);
            }
            Edit::DropTree { id } => {
                self.dropped.insert(*id);
            }
            Edit::SetOptions { id, options } => self.trees.entry(*id).or_default().options = Some(options.clone()),
            Edit::Tables { tree, removed, added, flushed } => {
                self.dead.extend(removed);
                for a in added {
                    self.dead.remove(&a.table.id);
                    self.metas.insert(a.table.id, (*a.table).clone());
                }
                let facts = self.trees.entry(*tree).or_default();
                facts.flushed = facts.flushed.max(flushed.unwrap_or(0));
            }
            Edit::Counters { .. } => {}
        }
    }

    fn read_events(&mut self, bytes: &[u8]) {
        for line in bytes.split(|&b| b == b'\n') {
            let Ok(v) = serde_json::from_slice::<Value>(line) else { continue };
            let list = |name: &str| -> Vec<u64> {
                v.get(name).and_then(Value::as_array).map_or_else(Vec::new, |l| l.iter().filter_map(Value::as_u64).collect())
            };
            let number = |name: &str| v.get(name).and_then(Value::as_u64);
            let name = v.get("tree").and_then(Value::as_str).unwrap_or_default().to_owned();
            match v.get("event").and_then(Value::as_str).unwrap_or_default() {
                "tree" | "tree dropped" if number("id").and_then(|i| TreeId::try_from(i).ok()).is_none() => {}
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
    }

    /// Gives the tree `id`, to which these tables belong, what the events tell of it by its name alone.
    pub fn name_tree(&mut self, id: TreeId, tables: &BTreeSet<u64>) {
        let known = self.trees.get(&id).and_then(|t| t.name.clone());
        let name = known.or_else(|| self.by_name.iter().find(|(_, its)| !its.is_disjoint(tables)).map(|(n, _)| n.clone()));
        let Some(name) = name else { return };
        let flushed = self.flushed_by_name.get(&name).copied().unwrap_or(0);
        let facts = self.trees.entry(id).or_default();
        facts.flushed = facts.flushed.max(flushed);
        facts.name = Some(name);
    }

    /// The tree that a table belongs to, by what is said of it.
    pub fn tree_of(&self, table: u64) -> Option<TreeId> {
        let by_state = self.partial.as_ref().and_then(|s| s.trees.values().find(|t| t.tables().any(|m| m.id == table)));
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

    /// Sound tables that are not those that is told of under their numbers, but of another store or time. When that seems to be so of half
    /// of them, it is rather the telling that is of another store.
    ///
    /// # Errors
    /// What the system says of the files.
    pub fn foreign(&self, names: &Names, dir: &Path) -> Result<BTreeSet<u64>> {
        let (mut foreign, mut known) = (BTreeSet::new(), 0);
        for (&id, &size) in &self.sizes {
            let Some(path) = names.table(id).filter(|path| path.is_file()) else { continue };
            if own_name(&path)? == table_path(Path::new(""), id).to_str().map(str::to_owned) {
                known += 1;
                if names.file_len(&table_path(dir, id))? != size {
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

/// An error about a directory that holds nothing of a store.
pub fn nothing(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is nothing of a store in this directory").in_file(dir)
}
