//! Facts about a store, recovered from edits of manifests and from events.
//!
//! Invariant: an event is logged only after the change is durable. So a table that the event log
//! calls removed is removed. The last lines may be missing, so changes without an event may have
//! happened too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use firn_kv::Env as _;
use firn_kv::Result;
use firn_kv::internals::base::ops::TreeId;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::{Edit, ManifestState, PersistedOptions, TableMeta};
use firn_kv::internals::sstable::Properties;
use firn_tools::io;
use serde_json::Value;

use crate::store::names::{FileNames, true_name};
use crate::store::target::open_file;

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
    blob_files: BTreeSet<u64>,
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

impl RecoveredHistory {
    /// Reports whether the file of table `id` has the logged size.
    pub fn fits(&self, names: &FileNames, id: u64) -> bool {
        self.sizes.get(&id).is_none_or(|&n| {
            names
                .file_len(&table_path(names.dir(), id))
                .is_ok_and(|len| has_logged_size(names, id, len, n))
        })
    }

    /// Reports whether no source names any table.
    pub fn names_no_table(&self) -> bool {
        self.by_name.is_empty() && self.metas.is_empty()
    }

    /// Reports whether blob file `id` existed once and no table needs it any more, according to
    /// manifests.
    pub fn is_left_over(&self, id: u64) -> bool {
        let needed = |s: &ManifestState| s.trees.values().any(|t| t.values.contains_key(&id));
        self.blob_files.contains(&id) && !self.partial.as_ref().is_some_and(needed)
    }

    /// Adds the change of an edit of a manifest.
    pub fn take_edit(&mut self, edit: &Edit) {
        self.has_source = true;
        match edit {
            Edit::Snapshot(s) => {
                self.log_floor = self.log_floor.max(s.wal_floor);
                for t in s.trees.values() {
                    let facts = self.trees.entry(t.id).or_default();
                    (facts.name, facts.options) = (Some(t.name.clone()), Some(t.options.clone()));
                    facts.flushed = facts.flushed.max(t.flushed);
                    self.blob_files.extend(t.values.keys());
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
                self.blob_files.extend(values.iter().map(|v| v.id));
                for a in added {
                    self.dead.remove(&a.table.id);
                    self.metas.insert(a.table.id, (*a.table).clone());
                }
                let facts = self.trees.entry(*tree).or_default();
                facts.flushed = facts.flushed.max(flushed.unwrap_or(0));
            }
            Edit::Counters { wal_floor, .. } => self.log_floor = self.log_floor.max(*wal_floor),
            Edit::LogWriters { .. } | Edit::SetSubscription(_) | Edit::DropSubscription { .. } => {}
        }
    }

    /// Adds the change of an event, a line of the event log.
    pub fn take_event(&mut self, v: &Value) {
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
    /// `by_table` is the tree name in the newest of them. Names in `taken` belong to other trees.
    pub fn name_tree(
        &mut self,
        id: TreeId,
        tables: &BTreeSet<u64>,
        by_table: Option<String>,
        taken: &mut BTreeSet<String>,
    ) {
        let known = self.trees.get(&id).and_then(|t| t.name.clone());
        let logged = || {
            self.by_name.iter().find(|(_, its)| !its.is_disjoint(tables)).map(|(n, _)| n.clone())
        };
        let by_table = by_table.filter(|n| !n.is_empty() && !taken.contains(n));
        let Some(name) = known.or_else(logged).or(by_table) else { return };
        taken.insert(name.clone());
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
    pub fn foreign(&self, names: &FileNames) -> Result<BTreeSet<u64>> {
        let (mut foreign, mut known) = (BTreeSet::new(), 0);
        for (&id, &size) in &self.sizes {
            let Some(path) = names.table(id).filter(|path| io::is_file(path)) else { continue };
            if true_name(&path)? == table_path(Path::new(""), id).to_str().map(str::to_owned) {
                known += 1;
                if !has_logged_size(names, id, names.file_len(&table_path(names.dir(), id))?, size)
                {
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

/// Reports whether a file of `len` bytes may be table `id`, for which the log has `logged` bytes.
/// That number includes bytes of blob files.
fn has_logged_size(names: &FileNames, id: u64, len: u64, logged: u64) -> bool {
    len == logged || (len < logged && properties(names, id).is_some_and(|p| !p.values.is_empty()))
}

/// Returns the properties of table `id`, if it can be opened.
pub fn properties(names: &FileNames, id: u64) -> Option<Properties> {
    let (path, file) = names.open_file_of(id)?;
    open_file(file, &path, id, 0).ok().map(|t| t.properties().clone())
}
