//! Seeded histories over a few trees, run beside a model of the state after each operation. The
//! tests of crashes and of faults share them.
//!
//! Invariant: a step is one operation that happens as a whole or not at all. `states[k]` is the
//! state after the first `k` steps.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_kv::Env;
use firn_kv::policy::Movement;
use firn_kv::policy::{LazyLeveled, Leveled, Tiered, Unified};
use firn_kv::{
    Batch, Compression, Db, DbOptions, Durability, ErrorKind, FilterKind, MergeOperator,
    MergeResult, OpenFiles, Policy, Result, Snapshot, Tree, TreeOptions,
};
use firn_testkit::rng::Rng;

use crate::draw;

/// Directory of the store.
pub const DIR: &str = "/data/db";
/// Maximum number of open table files.
pub const FILES: u64 = 3;
/// Possible names of trees.
pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Contents of a tree.
pub type Map = BTreeMap<Vec<u8>, Arc<[u8]>>;
/// Contents of a store. Copies share unchanged trees.
pub type Trees = BTreeMap<&'static str, Arc<Map>>;

/// One change to one tree.
#[derive(Clone, Debug)]
pub enum Change {
    Put(&'static str, Vec<u8>, Vec<u8>),
    Delete(&'static str, Vec<u8>),
    Merge(&'static str, Vec<u8>, Vec<u8>),
    DeleteRange(&'static str, Vec<u8>, Vec<u8>),
}

/// Atomic read-modify-write operation on a tree.
#[derive(Clone, Debug)]
pub enum One {
    PopFirst,
    PopLast,
    InsertIfAbsent(Vec<u8>, Vec<u8>),
    /// Sets a key to a value, or deletes it, if it has the expected current value.
    CompareAndSwap(Vec<u8>, Option<Vec<u8>>),
    /// Appends to the current value if it is short; deletes the key if the value is long.
    Update(Vec<u8>, Vec<u8>),
}

/// One operation of a history.
#[derive(Clone, Debug)]
pub enum Step {
    Open,
    Write(Vec<Change>, Durability),
    One(&'static str, One),
    Sync,
    Flush(&'static str),
    Compact(&'static str),
    /// Creates trees with one call.
    Create(Vec<&'static str>),
    Drop(&'static str),
    Checkpoint(u32),
    Ingest(&'static str, Vec<(Vec<u8>, Vec<u8>)>),
    DropRange(&'static str, Vec<u8>, Vec<u8>),
    /// Exports a tree into the file of this number and imports it into another tree, or into
    /// itself.
    Copy(&'static str, &'static str, u32),
    /// Changes the options of an open tree.
    Options(&'static str, u64),
    /// Takes a named snapshot. It is released when the store closes or after [`SNAPSHOTS`] further
    /// snapshots.
    Snapshot,
    Reopen,
}

/// Maximum number of snapshots held at once.
const SNAPSHOTS: usize = 2;

/// Merge operator that appends: the result shows order and number of the operands.
pub struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        let mut v = base.unwrap_or_default().to_vec();
        operands.iter().for_each(|o| v.extend_from_slice(o));
        Ok(MergeResult::Value(v))
    }
    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, newer].concat())
    }
}

/// Returns store options with the smallest permitted sizes.
pub fn db_options() -> DbOptions {
    DbOptions {
        memory_budget: 1 << 20,
        background_threads: 0,
        wal_segment: 64 << 10,
        event_log: false,
        open_files: Some(OpenFiles::new(FILES)),
        ..DbOptions::default()
    }
}

/// Returns the options of a tree; each name has its own policy.
pub fn tree_options(name: &str) -> TreeOptions {
    let policy = match name {
        "a" => {
            Policy::Tiered(Tiered { min_runs: 2, max_runs: 4, bucket: 4.0, ..Tiered::default() })
        }
        "b" => Policy::Leveled(Leveled {
            level0_runs: 2,
            ratio: 2,
            base: 64 << 10,
            movement: Movement::default(),
            ..Leveled::default()
        }),
        "c" => Policy::LazyLeveled(LazyLeveled { ratio: 2, ..LazyLeveled::default() }),
        _ => Policy::Unified(Unified {
            scaling: vec![2, -2],
            target_table: 64 << 10,
            base_shards: 2,
            ..Unified::default()
        }),
    };
    TreeOptions {
        compression: if name == "a" { vec![Compression::None] } else { vec![Compression::Lz4] },
        filter: if name == "b" { vec![FilterKind::None] } else { vec![FilterKind::Fuse8] },
        block_size: 512,
        table_size: 64 << 10,
        memtable_size: 64 << 10,
        policy,
        merge_operator: Some(Arc::new(Append)),
        ..TreeOptions::default()
    }
}

impl Change {
    pub fn tree(&self) -> &'static str {
        match self {
            Change::Put(t, ..)
            | Change::Delete(t, _)
            | Change::Merge(t, ..)
            | Change::DeleteRange(t, ..) => t,
        }
    }

    /// Returns the key, or the first key of a range.
    fn key(&self) -> &[u8] {
        match self {
            Change::Put(_, k, _)
            | Change::Delete(_, k)
            | Change::Merge(_, k, _)
            | Change::DeleteRange(_, k, _) => k,
        }
    }

    fn apply(&self, map: &mut Map) {
        match self {
            Change::Put(_, k, v) => drop(map.insert(k.clone(), v.as_slice().into())),
            Change::Delete(_, k) => drop(map.remove(k)),
            Change::Merge(_, k, v) => {
                let old = map.get(k).map(|v| v.to_vec()).unwrap_or_default();
                map.insert(k.clone(), [old, v.clone()].concat().into());
            }
            Change::DeleteRange(_, a, z) => map.retain(|k, _| k < a || k >= z),
        }
    }
}

/// Returns the value that [`One::Update`] computes.
fn updated(old: Option<&[u8]>, more: &[u8]) -> Option<Vec<u8>> {
    old.filter(|v| v.len() < 200).map(|v| [v, more].concat())
}

impl One {
    fn apply(&self, map: &mut Map) {
        match self {
            One::PopFirst => drop(map.pop_first()),
            One::PopLast => drop(map.pop_last()),
            One::InsertIfAbsent(k, v) => {
                map.entry(k.clone()).or_insert_with(|| v.as_slice().into());
            }
            One::CompareAndSwap(k, Some(v)) => drop(map.insert(k.clone(), v.as_slice().into())),
            One::CompareAndSwap(k, None) => drop(map.remove(k)),
            One::Update(k, more) => match updated(map.get(k).map(|v| &v[..]), more) {
                Some(v) => drop(map.insert(k.clone(), v.into())),
                None => drop(map.remove(k)),
            },
        }
    }

    fn run(&self, tree: &Tree) -> Result<()> {
        match self {
            One::PopFirst => tree.pop_first().map(|_| ()),
            One::PopLast => tree.pop_last().map(|_| ()),
            One::InsertIfAbsent(k, v) => tree.insert_if_absent(k, v).map(|_| ()),
            One::CompareAndSwap(k, new) => {
                let old = tree.get(k)?;
                let swapped = tree.compare_and_swap(k, old.as_deref(), new.as_deref())?;
                assert!(
                    swapped.is_ok(),
                    "the value of {} changed without a concurrent writer",
                    k.escape_ascii()
                );
                Ok(())
            }
            One::Update(k, more) => {
                let done = tree.update(k, |old| updated(old, more))?;
                assert_eq!(done.new.as_deref(), updated(done.old.as_deref(), more).as_deref());
                Ok(())
            }
        }
    }
}

impl Step {
    /// Applies the step to the model.
    pub fn apply(&self, trees: &mut Trees) {
        match self {
            Step::Write(changes, _) => {
                for c in changes {
                    c.apply(Arc::make_mut(trees.get_mut(c.tree()).unwrap()));
                }
            }
            Step::One(t, one) => one.apply(Arc::make_mut(trees.get_mut(t).unwrap())),
            Step::Create(names) => trees.extend(names.iter().map(|t| (*t, Arc::default()))),
            Step::Drop(t) => drop(trees.remove(t)),
            Step::Ingest(t, pairs) => {
                let pairs = pairs.iter().map(|(k, v)| (k.clone(), v.as_slice().into()));
                Arc::make_mut(trees.get_mut(t).unwrap()).extend(pairs);
            }
            Step::DropRange(t, a, z) => Change::DeleteRange(t, a.clone(), z.clone())
                .apply(Arc::make_mut(trees.get_mut(t).unwrap())),
            Step::Copy(from, to, _) => {
                let pairs = trees[from].clone();
                Arc::make_mut(trees.get_mut(to).unwrap())
                    .extend(pairs.iter().map(|(k, v)| (k.clone(), v.clone())));
            }
            _ => {}
        }
    }

    /// Reports whether this step and all writes before it survive a power cut after the step has
    /// returned. `before` is the state before the step. A flush makes only the earlier writes of
    /// its own tree durable, so it is not included.
    pub fn is_durable(&self, before: &Trees) -> bool {
        match self {
            Step::Write(_, durability) => *durability == Durability::Power,
            Step::One(..)
            | Step::Flush(_)
            | Step::Compact(_)
            | Step::Options(..)
            | Step::Snapshot => false,
            // An empty tree exports no table.
            Step::Copy(from, ..) => !before[from].is_empty(),
            _ => true,
        }
    }

    /// Reports whether the step changes or creates this tree.
    pub fn touches(&self, tree: &str) -> bool {
        match self {
            Step::Write(changes, _) => changes.iter().any(|c| c.tree() == tree),
            Step::Create(names) => names.contains(&tree),
            Step::One(t, _) | Step::Ingest(t, _) | Step::DropRange(t, ..) | Step::Copy(_, t, _) => {
                *t == tree
            }
            _ => false,
        }
    }
}

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("key{:02}", rng.below(40)).into_bytes()
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(20) {
        0 => 20_000 + rng.below(20_000),
        1..=4 => 2000 + rng.below(7000),
        5 => 0,
        _ => 1 + rng.below(60),
    };
    let mut v = vec![0; len as usize];
    // Half of the long values are incompressible.
    if rng.one_in(2) {
        rng.fill(&mut v)
    } else {
        v.fill(b'a' + rng.below(26) as u8)
    }
    v
}

fn change(rng: &mut Rng, trees: &Trees) -> Change {
    let names: Vec<_> = trees.keys().copied().collect();
    let t = *rng.choose(&names).unwrap();
    match rng.below(10) {
        0 | 1 => Change::Delete(t, key(rng)),
        2 | 3 => Change::Merge(t, key(rng), format!("+{}", rng.below(100)).into_bytes()),
        4 => {
            let (a, z) = (key(rng), key(rng));
            Change::DeleteRange(t, a.clone().min(z.clone()), a.max(z))
        }
        _ => Change::Put(t, key(rng), value(rng)),
    }
}

fn one(rng: &mut Rng) -> One {
    match rng.below(5) {
        0 => One::PopFirst,
        1 => One::PopLast,
        2 => One::InsertIfAbsent(key(rng), value(rng)),
        3 if rng.one_in(3) => One::CompareAndSwap(key(rng), None),
        3 => One::CompareAndSwap(key(rng), Some(value(rng))),
        _ => One::Update(key(rng), value(rng)),
    }
}

/// Draws a step that is possible in the current state.
pub fn step(rng: &mut Rng, trees: &Trees, n: u32) -> Step {
    let names: Vec<_> = trees.keys().copied().collect();
    let missing: Vec<_> = NAMES.into_iter().filter(|t| !trees.contains_key(t)).collect();
    let Some(&tree) = rng.choose(&names) else {
        return Step::Create(vec![NAMES[rng.below(4) as usize]]);
    };
    match rng.below(60) {
        0..=3 => Step::Flush(tree),
        4 => Step::Compact(tree),
        5 | 6 => Step::Sync,
        7 if !missing.is_empty() => Step::Create(missing),
        8 | 9 if !missing.is_empty() => Step::Create(vec![*rng.choose(&missing).unwrap()]),
        10 if names.len() > 1 => Step::Drop(tree),
        11 if rng.one_in(2) => Step::Checkpoint(n),
        12 => Step::Reopen,
        13 => {
            let pairs: BTreeMap<_, _> =
                (0..1 + rng.below(12)).map(|_| (key(rng), value(rng))).collect();
            Step::Ingest(tree, pairs.into_iter().collect())
        }
        14 if rng.one_in(2) => {
            let (a, z) = (key(rng), key(rng));
            let end = [&a.clone().max(z.clone())[..], b"x"].concat();
            Step::DropRange(tree, a.min(z), end)
        }
        15 if rng.one_in(2) => Step::Copy(tree, rng.choose(&names).unwrap(), n),
        16 => Step::Options(tree, rng.next_u64()),
        17 if rng.one_in(2) => Step::Snapshot,
        18..=20 => Step::One(tree, one(rng)),
        d => {
            let n = if d < 40 { 1 } else { 2 + rng.below(4) };
            let durability = if rng.one_in(4) { Durability::Power } else { Durability::Process };
            Step::Write((0..n).map(|_| change(rng, trees)).collect(), durability)
        }
    }
}

/// A store with its trees, opened with all hooks.
pub struct Store {
    env: Arc<dyn Env>,
    options: DbOptions,
    open: Option<(Db, BTreeMap<String, Tree>)>,
    snapshots: Vec<Snapshot>,
}

impl Store {
    /// Returns a store that is not open yet.
    pub fn closed(env: Arc<dyn Env>) -> Store {
        Self::closed_with(env, db_options())
    }

    /// Returns a store that is not open yet, with other options.
    pub fn closed_with(env: Arc<dyn Env>, options: DbOptions) -> Store {
        Store { env, options, open: None, snapshots: vec![] }
    }

    /// Opens the store in `dir` and all its trees.
    pub fn open(env: Arc<dyn Env>, dir: &str) -> Result<Store> {
        Self::open_with(env, dir, db_options())
    }

    /// Opens the store in `dir` and all its trees, with other options.
    pub fn open_with(env: Arc<dyn Env>, dir: &str, options: DbOptions) -> Result<Store> {
        let db = Db::open_in(env.clone(), dir, options.clone())?;
        let mut trees = BTreeMap::new();
        for name in db.tree_names() {
            trees.insert(name.clone(), db.tree(&name, tree_options(&name))?);
        }
        Ok(Store { env, options, open: Some((db, trees)), snapshots: vec![] })
    }

    pub fn db(&self) -> &Db {
        &self.open.as_ref().unwrap().0
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub fn tree(&self, name: &str) -> &Tree {
        &self.open.as_ref().unwrap().1[name]
    }

    /// Returns the names of the trees.
    pub fn names(&self) -> Vec<String> {
        self.open.as_ref().unwrap().1.keys().cloned().collect()
    }

    /// Closes the store if it is open. Snapshots and trees still exist at that moment.
    pub fn close(&mut self) -> Result<()> {
        let closed = self.open.as_ref().map_or(Ok(()), |(db, _)| db.close());
        self.snapshots.clear();
        self.open = None;
        closed
    }

    /// Runs a step.
    pub fn run(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Open | Step::Reopen => {
                // An earlier call already reported the cause of a read-only state.
                let closed = self
                    .close()
                    .or_else(|e| if e.kind() == ErrorKind::ReadOnly { Ok(()) } else { Err(e) });
                *self = Store::open_with(self.env.clone(), DIR, self.options.clone())?;
                closed
            }
            Step::Write(changes, durability) => self.write(changes, *durability),
            Step::One(t, one) => one.run(self.tree(t)),
            Step::Sync => {
                let _pause = self.db().pause_background()?;
                self.db().sync()
            }
            Step::Flush(t) => self.tree(t).flush(),
            Step::Compact(t) => self.tree(t).compact(),
            Step::Create(names) => {
                let trees = self.db().trees(names.iter().map(|t| (t, tree_options(t))))?;
                let names = names.iter().map(|t| t.to_string());
                self.open.as_mut().unwrap().1.extend(names.zip(trees));
                Ok(())
            }
            Step::Drop(t) => {
                self.db().drop_tree(t)?;
                self.open.as_mut().unwrap().1.remove(*t);
                Ok(())
            }
            Step::Checkpoint(n) => self.db().checkpoint(checkpoint_dir(*n)).map(|_| ()),
            Step::Ingest(t, pairs) => {
                self.tree(t).ingest(pairs.iter().map(|(k, v)| (k, v))).map(|_| ())
            }
            Step::DropRange(t, a, z) => self.tree(t).drop_range(a..z),
            Step::Copy(from, to, n) => self.copy(from, to, &export_file(*n)),
            Step::Options(t, seed) => {
                let drawn = draw::tree(&mut Rng::new(*seed));
                self.db().set_background_rate((seed % 2 == 0).then_some(1 << 20))?;
                self.tree(t).set_options(TreeOptions {
                    merge_operator: tree_options(t).merge_operator,
                    ..drawn
                })
            }
            Step::Snapshot => {
                let snapshot = self.db().snapshot_named("of the history");
                assert!(self.snapshots.last().is_none_or(|s| s.seq() <= snapshot.seq()));
                if let Some(last) = self.snapshots.last() {
                    self.follow(last.seq(), snapshot.seq())?;
                }
                self.snapshots.push(snapshot);
                if self.snapshots.len() > SNAPSHOTS {
                    self.snapshots.remove(0);
                }
                Ok(())
            }
        }
    }

    /// Checks the change feed between two moments: each sequence number appears once, unless the
    /// log no longer has all of them.
    fn follow(&self, from: u64, to: u64) -> Result<()> {
        let mut feed = match self.db().changes_since(from, 1 << 30) {
            Err(e) if e.kind() == ErrorKind::Lagged => return Ok(()),
            feed => feed?,
        };
        let mut seq = from;
        while let Some(change) = feed.next(Duration::ZERO)? {
            let first = *change.seqs().start();
            // A batch may have begun before `from`.
            assert!(
                first == seq + 1 || (seq == from && first <= seq),
                "change {first} follows {seq}"
            );
            seq = *change.seqs().end();
        }
        assert!(seq >= to, "changes up to {seq}, not to {to}");
        Ok(())
    }

    fn copy(&self, from: &str, to: &str, file: &str) -> Result<()> {
        // An earlier life of the store, or an earlier attempt, may have left the file.
        match self.env.remove(Path::new(file)) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let out = self.tree(from).export(.., file)?;
        let n = self.tree(to).import(file)?;
        assert_eq!(n, out, "of {out} exported pairs {n} were imported");
        Ok(())
    }

    fn write(&self, changes: &[Change], durability: Durability) -> Result<()> {
        match (changes, durability) {
            ([Change::Put(t, k, v)], d) => self.tree(t).with_durability(d).put(k, v),
            ([Change::Delete(t, k)], Durability::Process) => self.tree(t).delete(k),
            ([Change::Merge(t, k, v)], Durability::Process) => self.tree(t).merge(k, v),
            ([Change::DeleteRange(t, a, z)], Durability::Process) => {
                self.tree(t).delete_range(a..z)
            }
            _ if changes.iter().all(|c| matches!(c, Change::Put(..) | Change::Delete(..))) => {
                self.db().with_durability(durability).transact(|tx| {
                    changes.iter().try_for_each(|c| match c {
                        Change::Put(t, k, v) => tx.put(self.tree(t), k, v),
                        other => tx.delete(self.tree(other.tree()), other.key()),
                    })
                })
            }
            _ => {
                let mut batch = Batch::new();
                for c in changes {
                    match c {
                        Change::Put(t, k, v) => batch.put(self.tree(t), k, v)?,
                        Change::Delete(t, k) => batch.delete(self.tree(t), k)?,
                        Change::Merge(t, k, v) => batch.merge(self.tree(t), k, v)?,
                        Change::DeleteRange(t, a, z) => batch.delete_range(self.tree(t), a..z)?,
                    }
                }
                assert!(batch.size() >= changes.len());
                self.db().with_durability(durability).write(batch)
            }
        }
    }

    /// Returns the whole contents.
    pub fn content(&self) -> Result<Content> {
        let mut all = vec![];
        for tree in self.open.as_ref().unwrap().1.values() {
            let entries = self
                .db()
                .reader()
                .existing_tree(tree.name())?
                .iter()
                .map(|i| i.map(|(k, v)| (k.to_vec(), v.to_vec())))
                .collect::<Result<_>>()?;
            all.push((tree.name().to_string(), entries));
        }
        Ok(all)
    }
}

/// The trees by name, each with its entries in order.
pub type Content = Vec<(String, Vec<(Vec<u8>, Vec<u8>)>)>;

/// Returns the directory of the checkpoint of step `n`.
pub fn checkpoint_dir(n: u32) -> String {
    format!("/data/copy{n}")
}

/// Returns the export file of step `n`.
pub fn export_file(n: u32) -> String {
    format!("/data/export{n}")
}

/// Reports whether the contents equal the model.
pub fn same(content: &Content, trees: &Trees) -> bool {
    content.len() == trees.len()
        && content.iter().zip(trees).all(|((name, entries), (want, map))| {
            name == want
                && entries.len() == map.len()
                && entries.iter().zip(&**map).all(|((k, v), (wk, wv))| k == wk && v[..] == wv[..])
        })
}

/// Describes the first difference between the contents and the model.
pub fn difference(content: &Content, trees: &Trees) -> String {
    let names: Vec<_> = content.iter().map(|(n, _)| n.as_str()).collect();
    if names != trees.keys().copied().collect::<Vec<_>>() {
        return format!("trees {names:?} instead of {:?}", trees.keys());
    }
    for ((name, entries), map) in content.iter().zip(trees.values()) {
        let got: BTreeMap<_, _> = entries.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        let mut keys: Vec<_> = got.keys().chain(map.keys()).collect();
        keys.sort();
        for k in keys {
            let (g, w) = (got.get(k), map.get(k));
            if g.map(|v| &v[..]) != w.map(|v| &v[..]) {
                let words = |v: Option<&[u8]>| {
                    v.map_or("nothing".into(), |v| {
                        format!("{} bytes {}", v.len(), v[..v.len().min(24)].escape_ascii())
                    })
                };
                let (g, w) = (words(g.map(|v| &v[..])), words(w.map(|v| &v[..])));
                return format!("tree {name}, key {}: {g} instead of {w}", k.escape_ascii());
            }
        }
    }
    "no difference".into()
}
