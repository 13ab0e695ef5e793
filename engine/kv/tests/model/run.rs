//! Runs the steps of a history on a store and on the oracle, and compares the results.

use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use firn_crash::Cut;
use firn_kv::{
    Batch, BatchOp, Cursor, Db, Durability, ErrorKind, Range, Snapshot, Subscription, Transaction,
    Tree, TreeOptions,
};
use firn_testkit::history::{HistoryKey, HistoryOp, SLOTS, TREES, Write};
use firn_testkit::oracle::{self, Oracle};

use crate::model::compare::{Failure, Outcome, Pair, ensure, refused, same_item};
use crate::model::place::Place;
use crate::model::setup::{HOOKED, Setup};

#[path = "bulk.rs"]
mod bulk;
#[path = "changes.rs"]
mod changes;
#[path = "one_step.rs"]
mod one_step;
#[path = "reads.rs"]
mod reads;
#[path = "transactions.rs"]
mod transactions;
#[path = "whole.rs"]
mod whole;

/// Open iterator with the items that it must still return.
struct Iter {
    range: Range,
    _pins: Option<Rc<()>>,
    left: VecDeque<(HistoryKey, Vec<u8>)>,
}

/// Open cursor with all items that it can see, and its position.
struct Walker {
    cursor: Cursor,
    _pins: Option<Rc<()>>,
    items: Vec<(HistoryKey, Vec<u8>)>,
    at: Option<usize>,
}

/// Open snapshot and its sequence number. Iterators and cursors on it retain it (`pins`) after it
/// is dropped.
struct Frozen {
    snapshot: Snapshot,
    time: u64,
    pins: Rc<()>,
}

/// Name of the named snapshots.
const SNAPSHOT: &str = "of the model";

/// State that ends when the store closes.
#[derive(Default)]
struct Open {
    iters: [Option<Iter>; SLOTS],
    cursors: [Option<Walker>; SLOTS],
    snapshots: [Option<Frozen>; SLOTS],
    transactions: [Option<(Transaction, oracle::OracleTransaction)>; SLOTS],
    trees: [Option<Tree>; TREES],
    feed: Option<Subscription>,
    db: Option<Db>,
}

/// A store and its oracle.
pub struct Runner<'a> {
    setup: &'a Setup,
    open: Open,
    oracle: Oracle,
    variants: [u64; TREES],
    /// Snapshots taken, and whether each has a name.
    taken: Vec<(Weak<()>, bool)>,
    /// Number of checkpoints and exports. A crash may restore an old one, so each has a unique
    /// name.
    copies: usize,
    exports: [Option<bulk::Exported>; SLOTS],
    followed: changes::Followed,
    place: Place,
}

fn tree_name(tree: usize) -> String {
    format!("tree-{tree}")
}

fn collect<'a>(items: impl Iterator<Item = Pair<'a>>) -> Vec<(HistoryKey, Vec<u8>)> {
    items.map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
}

impl<'a> Runner<'a> {
    pub fn new(setup: &'a Setup) -> Runner<'a> {
        let (open, oracle, place) = (Open::default(), Oracle::default(), Place::new(setup));
        let exports = Default::default();
        Runner {
            setup,
            open,
            oracle,
            variants: [0; TREES],
            taken: vec![],
            copies: 0,
            exports,
            followed: Default::default(),
            place,
        }
    }

    /// Opens the store and its trees.
    pub fn open(&mut self) -> Outcome {
        let db = Db::open_in(self.place.env.clone(), &self.place.dir, self.setup.db.clone())?;
        for tree in 0..TREES {
            if self.oracle.has(tree) {
                let options = self.setup.tree_options(tree, self.variants[tree]);
                let hooked = [
                    options.merge_operator.is_some(),
                    options.summary.is_some(),
                    options.compaction_filter.is_some(),
                    options.filter_prefix.is_some(),
                ]
                .contains(&true);
                let name = tree_name(tree);
                self.open.trees[tree] =
                    Some(if hooked { db.tree(&name, options)? } else { db.existing_tree(&name)? });
            }
        }
        self.open.db = Some(db);
        Ok(())
    }

    /// Leaks all open handles, because the code that panicked may hold locks.
    pub fn abandon(&mut self) {
        std::mem::forget(std::mem::take(&mut self.open));
    }

    /// Closes all handles and the store.
    fn close(&mut self) {
        drop(self.let_go());
    }

    /// Releases all handles and removes them from the oracle.
    fn let_go(&mut self) -> Open {
        for f in self.open.snapshots.iter().flatten() {
            self.oracle.release(f.time);
        }
        let mut open = std::mem::take(&mut self.open);
        for t in open.transactions.iter_mut().filter_map(Option::take) {
            self.oracle.abort(t.1);
        }
        open
    }

    /// Closes the store and opens it again while handles of the old store exist. They must report
    /// that the store is closed, or continue with the data that they hold.
    fn reopen(&mut self) -> Outcome {
        let mut old = self.let_go();
        let db = old.db.take().ok_or_else(|| Failure("the store is closed".into()))?;
        db.close()?;
        db.close()?;
        self.open()?;
        for t in old.trees.iter().flatten() {
            refused("reading a closed store", t.get(b"1"), ErrorKind::Closed)?;
            refused("writing to a closed store", t.put(b"1", b""), ErrorKind::Closed)?;
            refused("flushing a closed store", t.flush(), ErrorKind::Closed)?;
            refused("merging a closed store", t.compact(), ErrorKind::Closed)?;
            for f in old.snapshots.iter().flatten() {
                refused(
                    "a snapshot of a closed store",
                    f.snapshot.get(t, b"1"),
                    ErrorKind::Closed,
                )?;
            }
        }
        refused("a checkpoint of a closed store", db.checkpoint("/nowhere"), ErrorKind::Closed)?;
        refused(
            "a tree of a closed store",
            db.tree("new", TreeOptions::default()),
            ErrorKind::Closed,
        )?;
        // Compactions delete the files that the remaining handles use.
        self.open.trees.iter().flatten().try_for_each(Tree::compact)?;
        for it in old.iters.iter_mut().flatten() {
            for want in std::mem::take(&mut it.left) {
                match it.range.next() {
                    Some(Err(e)) if e.kind() == ErrorKind::Closed => break,
                    got => {
                        same_item("an iterator of a closed store", got, Some((&want.0, &want.1)))?
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the final comparison of all data.
    pub fn finish(&mut self) -> Outcome {
        self.verify()?;
        for tree in self.open.trees.iter().flatten() {
            let failure = tree.options().custom_policy.and_then(|p| p.failure().map(str::to_owned));
            ensure(failure.is_none(), || format!("a random policy failed: {failure:?}"))?;
        }
        self.close();
        self.open()?;
        (0..TREES).try_for_each(|t| self.full_scan(t))?;
        self.stats()
    }

    fn db(&self) -> Outcome<&Db> {
        self.open.db.as_ref().ok_or_else(|| Failure("the store is closed".into()))
    }

    /// Runs one step.
    pub fn step(&mut self, op: &HistoryOp) -> Outcome {
        match op {
            HistoryOp::Write { tree, write, power } => self.write(*tree, write, *power),
            HistoryOp::Batch { writes, power } => self.batch(writes, *power),
            HistoryOp::Sync => Ok(self.db()?.sync()?),
            HistoryOp::WaitIdle => {
                let db = self.db()?;
                let pause = db.pause_background()?;
                db.set_background_rate(Some(1 << 30))?;
                db.wait_idle()?;
                drop(pause);
                Ok(db.wait_idle()?)
            }
            HistoryOp::TakeSnapshot { slot, named } => self.take_snapshot(*slot, *named),
            HistoryOp::DropSnapshot { slot } => {
                self.drop_snapshot(*slot);
                Ok(())
            }
            HistoryOp::Reopen => {
                self.reopen()?;
                ensure(self.db()?.torn_log().is_none(), || {
                    format!(
                        "the log of a closed store is torn: {:?}",
                        self.open.db.as_ref().map(Db::torn_log)
                    )
                })
            }
            HistoryOp::Crash => self.crash(&Cut::Process),
            HistoryOp::PowerCut { seed } => {
                self.db()?.sync()?;
                self.crash(&seed.map_or(Cut::PowerNone, Cut::PowerRandom))
            }
            HistoryOp::Checkpoint => self.checkpoint(),
            HistoryOp::ReadOnly => self.read_only(),
            HistoryOp::Stats => {
                self.follow()?;
                self.stats()
            }
            HistoryOp::Verify => self.verify(),
            HistoryOp::Advance { seconds } => {
                self.place.mem.iter().for_each(|m| m.advance(Duration::from_secs(*seconds)));
                Ok(())
            }
            op => self.tree_step(op),
        }
    }

    fn tree_step(&mut self, op: &HistoryOp) -> Outcome {
        match op {
            HistoryOp::StepIter { slot, front, back } => self.step_iter(*slot, *front, *back),
            HistoryOp::CloseIter { slot } => {
                self.open.iters[*slot] = None;
                Ok(())
            }
            HistoryOp::MoveCursor { slot, moves } => match &mut self.open.cursors[*slot] {
                Some(w) => w.walk(moves),
                None => Ok(()),
            },
            HistoryOp::CloseCursor { slot } => {
                self.open.cursors[*slot] = None;
                Ok(())
            }
            HistoryOp::Begin { .. }
            | HistoryOp::TxGet { .. }
            | HistoryOp::TxScan { .. }
            | HistoryOp::TxPut { .. }
            | HistoryOp::TxDelete { .. }
            | HistoryOp::TxDeleteRange { .. }
            | HistoryOp::Commit { .. }
            | HistoryOp::Abort { .. }
            | HistoryOp::Retry { .. } => self.transaction(op),
            HistoryOp::CreateTree { tree } => self.create_tree(*tree),
            HistoryOp::DropTree { tree } => self.drop_tree(*tree),
            HistoryOp::ChangeOptions { tree, variant } => self.change_options(*tree, *variant),
            HistoryOp::Pop { .. }
            | HistoryOp::InsertIfAbsent { .. }
            | HistoryOp::Swap { .. }
            | HistoryOp::Update { .. }
            | HistoryOp::Clear { .. } => self.one_step(op),
            op => self.read_step(op),
        }
    }

    fn read_step(&mut self, op: &HistoryOp) -> Outcome {
        let (HistoryOp::Get { tree, .. }
        | HistoryOp::Edges { tree, .. }
        | HistoryOp::Contains { tree, .. }
        | HistoryOp::MultiGet { tree, .. }
        | HistoryOp::Scan { tree, .. }
        | HistoryOp::Prefix { tree, .. }
        | HistoryOp::Walk { tree, .. }
        | HistoryOp::FullScan { tree }
        | HistoryOp::OpenIter { tree, .. }
        | HistoryOp::OpenCursor { tree, .. }
        | HistoryOp::Flush { tree }
        | HistoryOp::Compact { tree }
        | HistoryOp::CompactRange { tree, .. }
        | HistoryOp::DropRange { tree, .. }
        | HistoryOp::Ingest { tree, .. }
        | HistoryOp::Export { tree, .. }
        | HistoryOp::Import { tree, .. }
        | HistoryOp::Tables { tree }
        | HistoryOp::Size { tree, .. }
        | HistoryOp::Refused { tree }) = op
        else {
            return Err(Failure(format!("unhandled step {op:?}")));
        };
        let Some(t) = self.open.trees[*tree].clone() else {
            return refused(
                "a missing tree",
                self.db()?.existing_tree(&tree_name(*tree)),
                ErrorKind::NotFound,
            );
        };
        let n = *tree;
        match op {
            HistoryOp::Get { key, at, .. } => self.get(&t, n, key, *at),
            HistoryOp::Edges { at, .. } => self.edges(&t, n, *at),
            HistoryOp::Contains { key, at, .. } => self.contains(&t, n, key, *at),
            HistoryOp::MultiGet { keys, .. } => self.multi_get(&t, n, keys),
            HistoryOp::Scan { span, ends, limit, at, .. } => {
                let got = self.range(&t, span, *at);
                self.scan(n, span, got, *ends, *limit, *at)
            }
            HistoryOp::Prefix { prefix, ends, limit, at, .. } => {
                self.prefix(&t, n, prefix, *ends, *limit, *at)
            }
            HistoryOp::Walk { span, moves, at, .. } => self.walker(&t, n, span, *at)?.walk(moves),
            HistoryOp::FullScan { .. } => self.full_scan(n),
            HistoryOp::OpenIter { slot, span, at, .. } => {
                let left = self.items(n, span, *at).into();
                self.open.iters[*slot] =
                    Some(Iter { range: self.range(&t, span, *at), _pins: self.pins(*at), left });
                Ok(())
            }
            HistoryOp::OpenCursor { slot, span, at, .. } => {
                self.open.cursors[*slot] = Some(self.walker(&t, n, span, *at)?);
                Ok(())
            }
            HistoryOp::Flush { .. } => Ok(t.flush()?),
            HistoryOp::Compact { .. } => Ok(t.compact()?),
            HistoryOp::CompactRange { from, to, .. } => Ok(t.compact_range(from..=to)?),
            HistoryOp::DropRange { from, to, .. } => self.drop_range(&t, n, from, to),
            HistoryOp::Ingest { pairs, .. } => self.ingest(&t, n, pairs),
            HistoryOp::Export { slot, span, .. } => self.export(&t, n, *slot, span),
            HistoryOp::Import { slot, .. } => self.import(&t, n, *slot),
            HistoryOp::Tables { .. } => self.tables(&t, n),
            HistoryOp::Size { from, to, .. } => self.size(&t, n, from, to),
            _ => self.refusals(&t, n),
        }
    }

    fn write(&mut self, tree: usize, write: &Write, power: bool) -> Outcome {
        let Some(t) = &self.open.trees[tree] else { return Ok(()) };
        match write {
            Write::Put(k, v) if power => t.with_durability(Durability::Power).put(k, &v.bytes())?,
            Write::Put(k, v) => t.put(k, &v.bytes())?,
            Write::Delete(k) => t.delete(k)?,
            Write::DeleteRange(span) => t.delete_range(span.bounds())?,
            Write::Merge(k, v) if HOOKED[tree] => t.merge(k, &v.bytes())?,
            Write::Merge(k, v) => {
                return refused("an operand", t.merge(k, &v.bytes()), ErrorKind::InvalidArgument);
            }
        }
        self.oracle.write(tree, write);
        Ok(())
    }

    fn batch(&mut self, writes: &[(usize, Write)], power: bool) -> Outcome {
        let mut batch = if power { Batch::with_capacity(writes.len() * 16) } else { Batch::new() };
        let mut n = 0;
        for (tree, write) in writes {
            let Some(t) = &self.open.trees[*tree] else { continue };
            match write {
                Write::Put(k, v) => batch.put(t, k, &v.bytes())?,
                Write::Delete(k) => batch.delete(t, k)?,
                Write::DeleteRange(span) => batch.delete_range(t, span.bounds())?,
                Write::Merge(k, v) => batch.merge(t, k, &v.bytes())?,
            }
            n += usize::from(!matches!(write, Write::DeleteRange(span) if span.is_empty()));
        }
        let told = batch.iter().map(|op| match op {
            BatchOp::Put { tree, key, .. }
            | BatchOp::Delete { tree, key }
            | BatchOp::Merge { tree, key, .. } => (tree, key),
            BatchOp::DeleteRange { tree, start, .. } => (tree, start),
            other => panic!("{other:?}"),
        });
        let there = writes.iter().filter(|(t, _)| self.open.trees[*t].is_some()).filter_map(
            |(t, w)| match w {
                Write::Put(k, _) | Write::Delete(k) | Write::Merge(k, _) => {
                    Some((tree_name(*t), Some(k)))
                }
                Write::DeleteRange(span) => (!span.is_empty()).then(|| (tree_name(*t), None)),
            },
        );
        for ((tree, key), (wanted_tree, wanted)) in told.zip(there) {
            ensure(tree == wanted_tree && wanted.is_none_or(|k| k == key), || {
                "a batch lists other operations".into()
            })?;
        }
        ensure(
            batch.len() == n && batch.is_empty() == (n == 0) && (batch.size() > 0) == (n > 0),
            || format!("a batch of {n} writes reports {} and {} bytes", batch.len(), batch.size()),
        )?;
        let db = self.db()?;
        if power {
            db.with_durability(Durability::Power).write(batch)?
        } else {
            db.write(batch)?
        }
        for (tree, write) in writes {
            self.oracle.write(*tree, write);
        }
        Ok(())
    }

    fn take_snapshot(&mut self, slot: usize, named: bool) -> Outcome {
        let snapshot =
            if named { self.db()?.snapshot_named(SNAPSHOT) } else { self.db()?.snapshot() };
        self.drop_snapshot(slot);
        let time = self.oracle.hold();
        ensure(snapshot.seq() == time, || {
            format!("a snapshot at {} expected {time}", snapshot.seq())
        })?;
        let pins = Rc::new(());
        self.taken.retain(|t| t.0.strong_count() > 0);
        self.taken.push((Rc::downgrade(&pins), named));
        self.open.snapshots[slot] = Some(Frozen { snapshot, time, pins });
        Ok(())
    }

    fn drop_snapshot(&mut self, slot: usize) {
        if let Some(f) = self.open.snapshots[slot].take() {
            self.oracle.release(f.time);
        }
    }

    fn create_tree(&mut self, tree: usize) -> Outcome {
        // Opens the tree together with all existing ones.
        let all: Vec<usize> = (0..self.open.trees.len())
            .filter(|&t| t == tree || self.open.trees[t].is_some())
            .collect();
        let options = |t: usize| (tree_name(t), self.setup.tree_options(t, self.variants[t]));
        let opened = self.db()?.trees(all.iter().map(|&t| options(t)))?;
        refused(
            "a tree twice",
            self.db()?.trees([tree, tree].map(options)),
            ErrorKind::InvalidArgument,
        )?;
        if !self.oracle.has(tree) {
            self.oracle.create(tree, self.setup.fold_of(tree));
        }
        for (t, opened) in all.into_iter().zip(opened) {
            ensure(opened.name() == tree_name(t), || {
                format!("tree {}, expected {}", opened.name(), tree_name(t))
            })?;
            self.open.trees[t] = Some(opened);
        }
        Ok(())
    }

    fn drop_tree(&mut self, tree: usize) -> Outcome {
        let name = tree_name(tree);
        let Some(t) = self.open.trees[tree].take() else {
            return refused(
                "dropping a missing tree",
                self.db()?.drop_tree(&name),
                ErrorKind::NotFound,
            );
        };
        for slot in 0..SLOTS {
            if let Some((_, tx)) = self.open.transactions[slot].take() {
                self.oracle.abort(tx);
            }
        }
        self.db()?.drop_tree(&name)?;
        self.oracle.drop_tree(tree);
        refused("reading a dropped tree", t.get(b"1"), ErrorKind::Closed)?;
        refused("writing a dropped tree", t.put(b"1", b""), ErrorKind::Closed)?;
        refused("flushing a dropped tree", t.flush(), ErrorKind::Closed)
    }

    fn change_options(&mut self, tree: usize, variant: u64) -> Outcome {
        if self.open.trees[tree].is_some() {
            self.variants[tree] = variant;
            let options = self.setup.tree_options(tree, variant);
            let (policy, custom) = (options.policy.clone(), options.custom_policy.clone());
            let handle = self.open.trees[tree].clone();
            let t = match handle.filter(|_| variant % 2 == 1) {
                Some(t) => t,
                None => {
                    // Opening an existing tree leaves its options as they are.
                    let before = self.open.trees[tree].as_ref().map(|t| t.options().policy);
                    let t = self.db()?.tree(&tree_name(tree), options.clone())?;
                    ensure(Some(t.options().policy) == before, || {
                        "opening a tree changed its policy".into()
                    })?;
                    t
                }
            };
            t.set_options(options)?;
            // Each open handle sees the change.
            let now = t.options();
            ensure(now.policy == policy && now.custom_policy == custom, || {
                "the policy was not changed".into()
            })?;
            let (name, names) = (t.name(), t.db().tree_names());
            ensure(names.iter().any(|n| n == name), || {
                format!("the tree {name} is not among {names:?}")
            })?;
        }
        Ok(())
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        self.remove_exports();
    }
}
