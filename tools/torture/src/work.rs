//! One thread of a cycle: executes its steps, writes its journal, and compares all reads with the
//! expected content.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firn_cql::Session;
use firn_kv::Env;
use firn_kv::{
    Batch, Db, DbOptions, Durability, Error, ErrorKind, Readable, Snapshot, Tree, TreeOptions,
};
use firn_workload::rng::Rng;

use super::check::{
    KnownState, check_bank, check_scratch, check_shared, check_twins, check_value, check_walk,
    of_shard, shard_range, trees,
};
use super::expected::{ExpectedChange, ExpectedKeys, Shard, touched};
use super::journal::TortureJournal;
use super::layout::{
    ACCOUNTS, BANK, COUNTS, LayoutVersion, NAMES, ROLES, ROWS, SCRATCH, SUMS, TREES, account, key,
    number, value,
};
use super::plan::tree_options;
use super::roles::any_role;
use super::served::{Served, SilentVisitor};
use super::steps::{StepMode, StepSpace, TortureLook, TortureStep};
use super::tables::{self, Tables};
use super::trouble::{CheckTrouble, Checked, wrong};

/// State shared by the threads of a cycle.
pub struct SharedWork {
    /// The store.
    pub db: Db,
    /// The part of it with known content.
    pub known: KnownState,
    /// The accounts.
    pub bank: Tree,
    /// Parameters from which steps are drawn.
    pub space: StepSpace,
    /// Stops all threads.
    pub stop: AtomicBool,
    /// Set before the store is closed while the threads work.
    pub closing: AtomicBool,
    /// Server over the store, if the cycle has one.
    pub served: Option<Served>,
    /// Whether disk failures are injected, so that calls may fail.
    pub failing: bool,
    /// Number of begun drops of each temporary tree.
    pub drops: [AtomicU64; 2],
    /// Directory of the run, for files of the threads.
    pub dir: PathBuf,
    /// Environment of the store.
    pub env: Arc<dyn Env>,
}

/// A thread of the cycle.
pub struct TortureWorker {
    shared: Arc<SharedWork>,
    thread: u64,
    journal: TortureJournal,
    /// Expected content of the shards of this thread.
    shards: BTreeMap<u32, Shard>,
    held: Vec<HeldSnapshots>,
    /// The tables over the thread's own connection, if the cycle has a server.
    connected: Option<Arc<Tables>>,
    visitors: Vec<SilentVisitor>,
}

/// A snapshot, and the content of one shard of one tree when it was taken.
struct HeldSnapshots {
    snapshot: Snapshot,
    tree: usize,
    shard: u32,
    keys: ExpectedKeys,
    until: u64,
}

impl SharedWork {
    fn trees(&self) -> &[Tree] {
        &self.known.trees
    }

    /// Returns the tables over a new connection to the server, if there is one.
    fn connect(&self) -> Checked<Option<Arc<Tables>>> {
        let Some(served) = &self.served else { return Ok(None) };
        Ok(Some(Arc::new(Tables::over(served.speaker()?))))
    }

    /// Reports whether an error is due to the planned close of the store.
    fn is_closed(&self, e: &Error) -> bool {
        e.kind() == ErrorKind::Closed && self.closing.load(Ordering::SeqCst)
    }
}

impl TortureWorker {
    /// Creates a thread that writes these shards.
    pub fn new(
        shared: Arc<SharedWork>,
        thread: u64,
        journal: TortureJournal,
        shards: BTreeMap<u32, Shard>,
    ) -> Checked<TortureWorker> {
        let (held, connected, visitors) = (vec![], shared.connect()?, vec![]);
        Ok(TortureWorker { shared, thread, journal, shards, held, connected, visitors })
    }

    /// Executes steps until the stop flag is set. Returns an error if the store is wrong.
    pub fn run(mut self) -> Checked {
        for number in 0u64.. {
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            let step = self.shared.space.step(self.thread, number);
            self.journal.begin(number)?;
            match self.take(&step, number) {
                Ok(()) => {
                    self.apply(step.done());
                    self.journal.done(number)?;
                }
                // The next open determines the outcome of the step.
                Err(CheckTrouble::Failed(e)) if self.shared.is_closed(&e) => return Ok(()),
                // Disk failures must not end a connection.
                Err(CheckTrouble::Failed(e))
                    if self.shared.failing && e.kind() != ErrorKind::Closed =>
                {
                    match self.refused(&e, &step) {
                        // The disk is temporarily full. The refused step may be repeated.
                        true if self.journal.refuse(number)? => {
                            self.shared.env.sleep(std::time::Duration::from_millis(1))
                        }
                        _ => return self.look_again(step.open()),
                    }
                }
                Err(CheckTrouble::Failed(e)) => {
                    return wrong(format!("{}: {step:?} failed: {e}", self.at(number)));
                }
                Err(CheckTrouble::Wrong(words)) => {
                    return wrong(format!("{}: {words}", self.at(number)));
                }
            }
            self.release(number)?;
        }
        self.release(u64::MAX)
    }

    fn at(&self, step: u64) -> LayoutVersion {
        LayoutVersion::new(self.shared.space.cycle, self.thread, step)
    }

    /// Reports whether a failed call certainly changed nothing, and the store continues.
    fn refused(&self, e: &Error, step: &TortureStep) -> bool {
        match step {
            TortureStep::Look { .. } => {
                self.shared.db.sync().is_ok() || e.kind() == ErrorKind::NoSpace
            }
            // These write and flush, so the flush may have failed.
            TortureStep::Write { how: StepMode::DropRange | StepMode::ExportImport, .. } => false,
            TortureStep::Write { .. } => e.kind() == ErrorKind::NoSpace,
        }
    }

    /// Checks, after a failure that may have ended all writes, that acknowledged data is still
    /// readable, except the data of the open step.
    fn look_again(&self, open: &[ExpectedChange]) -> Checked {
        for (shard, expected) in &self.shards {
            if open.iter().all(|c| c.shard() != *shard) {
                match self.shared.known.check_shard("after a failure of the disk", *shard, expected)
                {
                    // Reads may fail too while the disk does.
                    Err(CheckTrouble::Failed(e)) if e.kind() != ErrorKind::Corruption => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, changes: &[ExpectedChange]) {
        for c in changes {
            if let Some(shard) = self.shards.get_mut(&c.shard()) {
                c.apply(shard);
            }
        }
    }

    fn keys(&self, tree: usize, shard: u32) -> &ExpectedKeys {
        &self.shards[&shard][tree]
    }

    /// Compares the snapshots that are due with the content at the time they were taken.
    fn release(&mut self, number: u64) -> Checked {
        self.visitors.retain(|visitor| visitor.until > number);
        let (due, held) =
            std::mem::take(&mut self.held).into_iter().partition(|h| h.until <= number);
        self.held = held;
        for h in due {
            let HeldSnapshots { snapshot, tree, shard, keys, .. } = h;
            let walk = snapshot.range(&self.shared.trees()[tree], shard_range(shard));
            match check_walk("in a snapshot", tree, walk, of_shard(shard, &keys)) {
                Err(CheckTrouble::Failed(e))
                    if self.shared.failing && e.kind() != ErrorKind::Corruption => {}
                Err(CheckTrouble::Failed(e)) if self.shared.is_closed(&e) => {}
                Err(CheckTrouble::Failed(e)) => {
                    return wrong(format!("{}: reading a snapshot failed: {e}", self.at(number)));
                }
                Err(CheckTrouble::Wrong(words)) => {
                    return wrong(format!("{}: {words}", self.at(number)));
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }

    fn take(&mut self, step: &TortureStep, number: u64) -> Checked {
        let is_served = self.shared.space.is_served(step, number);
        let tables = if is_served { &self.connected } else { &self.shared.known.tables };
        let Some(tables) = tables.clone() else {
            return wrong("the store was opened without its tables");
        };
        match step {
            TortureStep::Write { how, changes } => self.write(*how, changes, &tables),
            TortureStep::Look { look, tree, shard, draw } => {
                self.look(*look, *tree, *shard, Rng::new(*draw, 1), (number, &tables))
            }
        }
    }

    fn write(&self, how: StepMode, changes: &[ExpectedChange], tables: &Tables) -> Checked {
        let s = &*self.shared;
        match (how, changes) {
            (StepMode::Single, [change]) => single(s.trees(), change)?,
            (StepMode::SingleSynced, [change]) => match change {
                ExpectedChange::Set { tree, shard, index, version } => {
                    let v = value(*tree, *shard, *index, *version);
                    s.trees()[*tree].with(Durability::Power).put(&key(*shard, *index), &v)?;
                }
                other => {
                    s.db.with(Durability::Power)
                        .write(batch(s.trees(), std::slice::from_ref(other))?)?
                }
            },
            (StepMode::BatchSynced, _) => {
                s.db.with(Durability::Power).write(batch(s.trees(), changes)?)?
            }
            (StepMode::Transaction, _) => self.transaction(changes)?,
            (StepMode::OneStep, [change]) => self.one_step(change)?,
            (StepMode::DeleteRange, [ExpectedChange::UnsetRange { tree, shard, from, to }]) => {
                s.trees()[*tree].delete_range(&key(*shard, *from)..&key(*shard, *to))?;
            }
            (StepMode::DropRange, [ExpectedChange::UnsetRange { tree, shard, from, to }]) => {
                s.trees()[*tree].drop_range(&key(*shard, *from)..&key(*shard, *to))?;
            }
            (StepMode::Ingest, [ExpectedChange::Set { tree, .. }, ..]) => {
                let pairs = changes.iter().filter_map(|c| match c {
                    ExpectedChange::Set { tree, shard, index, version } => {
                        Some((key(*shard, *index), value(*tree, *shard, *index, *version)))
                    }
                    _ => None,
                });
                s.trees()[*tree].ingest(pairs)?;
            }
            (StepMode::ExportImport, [ExpectedChange::UnsetRange { tree, shard, from, to }]) => {
                let file = s.dir.join(format!("exported-{}", self.thread));
                // A killed thread leaves its file.
                let _ = s.env.remove(&file);
                let (tree, from, to) = (&s.trees()[*tree], key(*shard, *from), key(*shard, *to));
                let exported = tree.export(from.clone()..to.clone(), &file)?;
                tree.delete_range(&from..&to)?;
                // An import of no entries is refused.
                let imported = if exported > 0 { tree.import(&file)? } else { 0 };
                s.env.remove(&file)?;
                if exported != imported {
                    return wrong(format!("{exported} keys were exported, {imported} imported"));
                }
            }
            (StepMode::RowNew, [change]) => {
                let is_new = matches!(change, ExpectedChange::SetNew { shard, index, .. } if !self.keys(ROWS, *shard).contains_key(index));
                tables.write_new(change, is_new)?;
            }
            (StepMode::Row | StepMode::RowBatch | StepMode::RowRange | StepMode::Count, _) => {
                tables.write(changes)?
            }
            (StepMode::Role, [change]) => {
                tables.write_role(change, self.keys(ROLES, change.shard()))?
            }
            _ => s.db.write(batch(s.trees(), changes)?)?,
        }
        Ok(())
    }

    /// Writes a change by a call that first reads the value. It must be the expected one, because
    /// no other thread writes the key.
    fn one_step(&self, change: &ExpectedChange) -> Checked {
        let (tree, shard, index, new) = match change {
            ExpectedChange::Set { tree, shard, index, version } => {
                (*tree, *shard, *index, Some(value(*tree, *shard, *index, *version)))
            }
            ExpectedChange::Unset { tree, shard, index } => (*tree, *shard, *index, None),
            other => return wrong(format!("{other:?} is no change of one key")),
        };
        let (t, k) = (&self.shared.trees()[tree], key(shard, index));
        let expected = self.keys(tree, shard).get(&index).copied();
        let found = match (expected, &new) {
            (None, Some(new)) => t.insert_if_absent(&k, new)?,
            (Some(_), Some(new)) => t.update(&k, |_| Some(new.clone()))?.old,
            (_, None) => {
                let found = t.get(&k)?;
                if t.compare_and_swap(&k, found.as_deref(), None)?.is_err() {
                    return wrong(format!(
                        "somebody else has written key {index} of shard {shard}"
                    ));
                }
                found
            }
        };
        check_value("in one step", tree, shard, index, expected, found.as_deref())
    }

    /// Writes changes by a transaction that first reads the keys. No other thread writes these
    /// keys, so it never conflicts.
    fn transaction(&self, changes: &[ExpectedChange]) -> Checked {
        let s = &*self.shared;
        let mut shards = touched(changes, |shard| self.shards.get(&shard));
        let mut tx = s.db.transaction();
        for c in changes {
            let (ExpectedChange::Set { tree, shard, index, .. }
            | ExpectedChange::Unset { tree, shard, index }) = c
            else {
                continue;
            };
            let k = key(*shard, *index);
            let got = tx.get(&s.trees()[*tree], &k)?;
            let expected = shards.get(shard).and_then(|s| s[*tree].get(index)).copied();
            check_value("in a transaction", *tree, *shard, *index, expected, got.as_deref())?;
            match c {
                ExpectedChange::Set { version, .. } => {
                    tx.put(&s.trees()[*tree], &k, &value(*tree, *shard, *index, *version))?
                }
                _ => tx.delete(&s.trees()[*tree], &k)?,
            }
            if let Some(shard) = shards.get_mut(shard) {
                c.apply(shard);
            }
        }
        Ok(tx.commit()?)
    }

    fn look(
        &mut self,
        look: TortureLook,
        tree: usize,
        shard: u32,
        mut rng: Rng,
        (number, tables): (u64, &Tables),
    ) -> Checked {
        let s = self.shared.clone();
        let t = &s.trees()[tree];
        let index = s.space.index(&mut rng);
        let keys = self.keys(tree, shard);
        let (from, to) = s.space.span(&mut rng);
        let span = key(shard, from)..key(shard, to);
        let in_span = || keys.range(from..to).map(|(i, v)| (shard, *i, *v));
        match look {
            TortureLook::Get => {
                let (k, expected) = (key(shard, index), keys.get(&index).copied());
                if rng.below(4) == 0 && t.contains(&k)? != expected.is_some() {
                    return wrong(format!(
                        "contains: {} shard {shard} key {index}: expected {expected:?}",
                        NAMES[tree]
                    ));
                }
                check_value("get", tree, shard, index, expected, t.get(&k)?.as_deref())?;
            }
            TortureLook::MultiGet => {
                let indexes: Vec<u32> =
                    (0..1 + rng.below(40)).map(|_| s.space.index(&mut rng)).collect();
                let asked: Vec<Vec<u8>> = indexes.iter().map(|i| key(shard, *i)).collect();
                for (i, got) in indexes.iter().zip(t.multi_get(&asked)?) {
                    check_value(
                        "multi_get",
                        tree,
                        shard,
                        *i,
                        keys.get(i).copied(),
                        got.as_deref(),
                    )?;
                }
            }
            TortureLook::Range => {
                check_walk("range", tree, t.range(span), in_span())?;
            }
            TortureLook::RangeBack => {
                let back: Vec<_> = in_span().collect();
                check_walk("range backward", tree, t.range(span).rev(), back.into_iter().rev())?;
            }
            TortureLook::Prefix => {
                check_walk(
                    "prefix",
                    tree,
                    t.prefix(&(shard as u16).to_be_bytes()),
                    of_shard(shard, keys),
                )?;
            }
            TortureLook::Cursor => cursor(t, tree, shard, keys, &mut rng, &s.space)?,
            TortureLook::Snapshot => {
                let snapshot = if rng.below(2) == 0 {
                    s.db.snapshot()
                } else {
                    s.db.snapshot_named("held by torture")
                };
                let keys = keys.clone();
                if self.held.len() < 4 {
                    self.held.push(HeldSnapshots {
                        snapshot,
                        tree,
                        shard,
                        keys,
                        until: number + 1 + rng.below(3000),
                    });
                }
            }
            TortureLook::Walk => walk(t, tree, &key(shard, index))?,
            TortureLook::Twins => {
                check_twins("twins", &s.db.snapshot(), s.trees(), &key(shard, index), 500)?
            }
            TortureLook::Transfer => transfer(&s, &mut rng)?,
            TortureLook::Bank => check_bank("bank", &s.db.snapshot(), &s.bank)?,
            TortureLook::Stats => {
                let stats = s.db.stats();
                let names = s.db.tree_names();
                if NAMES[..TREES].iter().any(|n| !names.iter().any(|m| m == n))
                    || stats.trees.len() < TREES
                {
                    return wrong(format!("stats: trees are missing: {names:?}"));
                }
                t.tables()?;
            }
            TortureLook::Verify => {
                let found = s.db.verify(|_, _| {})?;
                // An error here is not a disk failure: a failing operation is returned as an error
                // of the call.
                if let Some(e) =
                    found.errors.first().filter(|e| !s.failing || e.kind() == ErrorKind::Corruption)
                {
                    return wrong(format!("verify: {e}"));
                }
            }
            TortureLook::Size => {
                t.approximate_size(&span.start..&span.end)?;
            }
            TortureLook::Sync => s.db.sync()?,
            TortureLook::Flush => t.flush()?,
            TortureLook::Compact => t.compact()?,
            TortureLook::CompactRange => t.compact_range(&span.start..=&span.end)?,
            TortureLook::Options => {
                let options = tree_options(&mut rng, tree);
                if rng.below(2) == 0 {
                    t.set_options(options)?
                } else {
                    s.db.tree(NAMES[tree], options.clone())?.set_options(options)?
                }
            }
            TortureLook::Checkpoint => self.checkpoint(&mut rng)?,
            TortureLook::Changes => follow(&s.db, &mut rng)?,
            TortureLook::ReadOnly => {
                let options = DbOptions { create: false, read_only: true, ..DbOptions::default() };
                let other = Db::open_in(firn_kv::OsEnv::new(), s.dir.join(super::STORE), options)?;
                let known = KnownState { trees: opened(&other)?, tables: None };
                known.check_shard("opened for reading, beside", shard, &self.shards[&shard])?;
            }
            TortureLook::Rows => {
                let (rows, counts) = (self.keys(ROWS, shard), self.keys(COUNTS, shard));
                tables.check_shard("select", shard, rows, counts)?;
                tables.check_roles("select", [(shard, self.keys(ROLES, shard))], false).map(drop)?
            }
            TortureLook::RowIndex => {
                tables.check_index(shard, self.keys(ROWS, shard), rng.below(32) as i32)?
            }
            TortureLook::RowCompact => Tables::compact(&s.db, &mut rng)?,
            TortureLook::RowAlter => tables.alter(&mut rng)?,
            TortureLook::Guest => tables.guest(&mut rng, self.at(number))?,
            TortureLook::Login => {
                // If the server requires no login, the client within the process logs in.
                let is_open = s.served.as_ref().is_some_and(|served| !served.wants_login());
                let own = s.known.tables.as_deref().filter(|_| is_open).unwrap_or(tables);
                let (roles, rows) = (self.keys(ROLES, shard), self.keys(ROWS, shard));
                own.log_in(shard, any_role(&mut rng), roles, rows)?
            }
            TortureLook::Visitor => match (&s.served, rng.below(4)) {
                (Some(_), 0) => self.connected = s.connect()?,
                (Some(served), _) if self.visitors.len() < 4 => {
                    self.visitors.extend(served.visit(&mut rng, number))
                }
                _ => {}
            },
            TortureLook::ScratchWrite | TortureLook::ScratchIngest | TortureLook::ScratchDrop => {
                scratch(&s, look, shard, self.at(number), &mut rng)?
            }
        }
        Ok(())
    }

    /// Makes a checkpoint during other work, opens it, and compares its known content.
    fn checkpoint(&self, rng: &mut Rng) -> Checked {
        let s = &*self.shared;
        let dir = s.dir.join(format!("checkpoint-{}", self.thread));
        super::remove_store(&*s.env, &dir)?;
        s.db.checkpoint(&dir)?;
        let threads = rng.below(2) as usize;
        let options = DbOptions {
            create: false,
            background_threads: threads,
            memory_budget: 8 << 20,
            wal_segment: 1 << 20,
            ..DbOptions::default()
        };
        let copy = match tables::open(firn_kv::OsEnv::new(), &dir, options) {
            Ok(copy) => copy,
            Err(e) => return wrong(format!("the checkpoint {} does not open: {e}", dir.display())),
        };
        let db = copy.store().db().clone();
        let tables = Tables::new(Session::new(copy)?)?;
        let known = KnownState { trees: opened(&db)?, tables: Some(Arc::new(tables)) };
        for (shard, expected) in &self.shards {
            known.check_shard("in a checkpoint", *shard, expected)?;
        }
        check_shared("in a checkpoint", &db, &known.trees)?;
        drop((known, db));
        Ok(super::remove_store(&*s.env, &dir)?)
    }
}

/// Returns the trees of a reopened store, with their hooks.
fn opened(db: &Db) -> Checked<Vec<Tree>> {
    for (t, tree) in trees(db)?.iter().enumerate() {
        db.tree(
            NAMES[t],
            TreeOptions { merge_operator: super::layout::merge_of(t), ..tree.options() },
        )?;
    }
    trees(db)
}

fn single(trees: &[Tree], change: &ExpectedChange) -> Checked {
    match change {
        ExpectedChange::Set { tree, shard, index, version } => {
            trees[*tree].put(&key(*shard, *index), &value(*tree, *shard, *index, *version))?;
        }
        ExpectedChange::Unset { tree, shard, index } => {
            trees[*tree].delete(&key(*shard, *index))?
        }
        ExpectedChange::Add { shard, index, by, .. } => {
            trees[SUMS].merge(&key(*shard, *index), &by.to_le_bytes())?
        }
        ExpectedChange::UnsetRange { tree, shard, from, to } => {
            trees[*tree].delete_range(&key(*shard, *from)..&key(*shard, *to))?
        }
        ExpectedChange::SetNew { .. } | ExpectedChange::Role { .. } => {
            return wrong("rows and roles are not written to trees");
        }
    }
    Ok(())
}

fn batch(trees: &[Tree], changes: &[ExpectedChange]) -> Checked<Batch> {
    let mut b = Batch::new();
    for c in changes {
        match c {
            ExpectedChange::Set { tree, shard, index, version } => {
                b.put(
                    &trees[*tree],
                    &key(*shard, *index),
                    &value(*tree, *shard, *index, *version),
                )?;
            }
            ExpectedChange::Unset { tree, shard, index } => {
                b.delete(&trees[*tree], &key(*shard, *index))?
            }
            ExpectedChange::Add { shard, index, by, .. } => {
                b.merge(&trees[SUMS], &key(*shard, *index), &by.to_le_bytes())?
            }
            ExpectedChange::UnsetRange { tree, shard, from, to } => {
                b.delete_range(&trees[*tree], &key(*shard, *from)..&key(*shard, *to))?;
            }
            ExpectedChange::SetNew { .. } | ExpectedChange::Role { .. } => {
                return wrong("rows and roles are not written to trees");
            }
        }
    }
    Ok(b)
}

/// Moves a cursor over a shard, forward and backward.
fn cursor(
    t: &Tree,
    tree: usize,
    shard: u32,
    keys: &ExpectedKeys,
    rng: &mut Rng,
    space: &StepSpace,
) -> Checked {
    let mut c = t.cursor(shard_range(shard))?;
    // Expected position: a key, or invalid.
    let mut at: Option<u32> = None;
    for _ in 0..20 {
        match (rng.below(6), at) {
            (0, _) => {
                c.first()?;
                at = keys.keys().next().copied();
            }
            (1, _) => {
                c.last()?;
                at = keys.keys().next_back().copied();
            }
            (2, Some(i)) => {
                c.next()?;
                at = keys.range(i + 1..).next().map(|(i, _)| *i);
            }
            (3, Some(i)) => {
                c.prev()?;
                at = keys.range(..i).next_back().map(|(i, _)| *i);
            }
            (4, _) => {
                let i = space.index(rng);
                c.seek_before(&key(shard, i))?;
                at = keys.range(..i).next_back().map(|(i, _)| *i);
            }
            _ => {
                let i = space.index(rng);
                c.seek(&key(shard, i))?;
                at = keys.range(i..).next().map(|(i, _)| *i);
            }
        }
        match at {
            Some(i) if c.valid() && c.key() == key(shard, i) => {
                check_value("cursor", tree, shard, i, keys.get(&i).copied(), Some(c.value()))?;
            }
            None if !c.valid() => {}
            _ => {
                let is = if c.valid() {
                    format!("at a key of {} bytes", c.key().len())
                } else {
                    "nowhere".to_owned()
                };
                return wrong(format!(
                    "cursor: {} shard {shard}: should be at {at:?}, and is {is}",
                    NAMES[tree]
                ));
            }
        }
    }
    Ok(())
}

/// Scans keys of all threads: they are in order, and each has a value that was written for it.
fn walk(t: &Tree, tree: usize, from: &[u8]) -> Checked {
    let mut before: Option<Vec<u8>> = None;
    for item in t.range(from..).take(1000) {
        let (k, v) = item?;
        if before.as_deref().is_some_and(|b| b >= &*k) {
            return wrong(format!("walk: {}: keys are out of order", NAMES[tree]));
        }
        if tree != SUMS {
            check_scratch("walk", &k, &v)?;
        }
        before = Some(k.to_vec());
    }
    Ok(())
}

/// Transfers money between two accounts; does nothing if another thread was faster.
fn transfer(s: &SharedWork, rng: &mut Rng) -> Checked {
    let (a, b, amount) =
        (account(rng.below(ACCOUNTS)), account(rng.below(ACCOUNTS)), rng.below(100));
    let mut tx = s.db.transaction();
    let (Some(from), Some(to)) = (tx.get(&s.bank, &a)?, tx.get(&s.bank, &b)?) else {
        return wrong(format!("an account of {BANK} is gone"));
    };
    if a != b {
        tx.put(&s.bank, &a, &number(&from)?.wrapping_sub(amount).to_le_bytes())?;
        tx.put(&s.bank, &b, &number(&to)?.wrapping_add(amount).to_le_bytes())?;
    }
    match tx.commit() {
        Err(e) if e.kind() == ErrorKind::Conflict => Ok(()),
        done => Ok(done?),
    }
}

/// Writes, fills or drops a temporary tree. Operations on a tree dropped meanwhile may fail as
/// closed, and in no other way.
fn scratch(
    s: &SharedWork,
    look: TortureLook,
    shard: u32,
    version: LayoutVersion,
    rng: &mut Rng,
) -> Checked {
    let which = rng.below(SCRATCH.len() as u64) as usize;
    let name = SCRATCH[which];
    let gone = |e: &Error| matches!(e.kind(), ErrorKind::Closed | ErrorKind::NotFound);
    if look == TortureLook::ScratchDrop {
        s.drops[which].fetch_add(1, Ordering::SeqCst);
        return match s.db.drop_tree(name) {
            Err(e) if gone(&e) => Ok(()),
            done => Ok(done?),
        };
    }
    let drops = s.drops[which].load(Ordering::SeqCst);
    let mut work = || -> Result<(Tree, Vec<u32>), Error> {
        let options = TreeOptions {
            memtable_size: 256 << 10,
            table_size: 256 << 10,
            ..TreeOptions::default()
        };
        let tree = s.db.tree(name, options)?;
        let from = s.space.keys + rng.below(500) as u32 * 8;
        let indexes: Vec<u32> = if look == TortureLook::ScratchIngest {
            (from..from + 40).collect()
        } else {
            vec![from]
        };
        let pair = |i: &u32| (key(shard, *i), value(0, shard, *i, version.0));
        if look == TortureLook::ScratchIngest {
            tree.ingest(indexes.iter().map(pair))?;
        } else {
            let (k, v) = pair(&from);
            tree.put(&k, &v)?;
        }
        Ok((tree, indexes))
    };
    let (tree, indexes) = match work() {
        Err(e) if gone(&e) => return Ok(()),
        done => done?,
    };
    for i in indexes {
        let got = match tree.get(&key(shard, i)) {
            Err(e) if gone(&e) => return Ok(()),
            got => got?,
        };
        if s.drops[which].load(Ordering::SeqCst) == drops {
            check_value("in a temporary tree", 0, shard, i, Some(version.0), got.as_deref())?;
        }
    }
    Ok(())
}

/// Follows the last changes: each number once, in order, unless the log lacks some of them.
fn follow(db: &Db, rng: &mut Rng) -> Checked<()> {
    let from = db.stats().seq.saturating_sub(rng.below(1000));
    let mut feed = match db.changes_since(from, 16 << 20) {
        Err(e) if e.kind() == ErrorKind::Lagged => return Ok(()),
        feed => feed?,
    };
    let mut seq = from;
    for _ in 0..500 {
        let change = match feed.next(Duration::from_millis(1)) {
            Err(e) if e.kind() == ErrorKind::Lagged => return Ok(()),
            change => change?,
        };
        let Some(change) = change else { break };
        let (first, last) = (*change.seqs().start(), *change.seqs().end());
        // A batch may have begun before.
        if first != seq + 1 && (seq != from || first > seq) {
            return wrong(format!("the feed returns {first} after {seq}"));
        }
        seq = last;
    }
    Ok(())
}
