//! Steps of a thread that do not change the content of its shards: reads, maintenance, CQL, and
//! temporary trees.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firn_cql::Session;
use firn_kv::{Db, DbOptions, Error, ErrorKind, Tree, TreeOptions};
use firn_workload::rng::Rng;

use super::check::{
    KnownState, check_bank, check_scratch, check_shared, check_twins, check_value, check_walk,
    of_shard, shard_range, trees,
};
use super::error::{Checked, wrong};
use super::expected::ExpectedKeys;
use super::layout::{
    ACCOUNTS, BANK, COUNTS, LayoutVersion, NAMES, ROLES, ROWS, SCRATCH, SUMS, TREES, account, key,
    number, value,
};
use super::plan::tree_options;
use super::roles::any_role;
use super::steps::{AdminOp, CqlOp, OtherOp, ReadOp, ScratchOp, StepSpace};
use super::tables::{self, Tables};
use super::worker::{HeldSnapshot, SharedWork, TortureWorker};

/// Target of an operation, drawn from the seed of its step.
struct StepTarget {
    /// Number of the step.
    number: u64,
    tree: usize,
    shard: u32,
    index: u32,
    /// A range of keys.
    from: u32,
    to: u32,
    rng: Rng,
}

impl TortureWorker {
    /// Executes an operation of the step of this number.
    pub fn run_other(
        &mut self,
        op: OtherOp,
        tree: usize,
        shard: u32,
        seed: u64,
        (number, tables): (u64, &Tables),
    ) -> Checked {
        let mut rng = Rng::new(seed, 1);
        let index = self.shared.space.index(&mut rng);
        let (from, to) = self.shared.space.span(&mut rng);
        let target = StepTarget { number, tree, shard, index, from, to, rng };
        match op {
            OtherOp::Read(op) => self.read(op, target),
            OtherOp::Admin(op) => self.administer(op, target),
            OtherOp::Cql(op) => self.run_cql(op, target, tables),
            OtherOp::Scratch(op) => scratch(&self.shared, op, target, self.at(number)),
        }
    }

    fn read(&mut self, op: ReadOp, target: StepTarget) -> Checked {
        let StepTarget { number, tree, shard, index, from, to, mut rng } = target;
        let s = self.shared.clone();
        let t = &s.trees()[tree];
        let keys = self.keys(tree, shard);
        let span = key(shard, from)..key(shard, to);
        let in_span = || keys.range(from..to).map(|(i, v)| (shard, *i, *v));
        match op {
            ReadOp::Get => {
                let (k, expected) = (key(shard, index), keys.get(&index).copied());
                if rng.below(4) == 0 && t.contains(&k)? != expected.is_some() {
                    return wrong(format!(
                        "contains: {} shard {shard} key {index}: expected {expected:?}",
                        NAMES[tree]
                    ));
                }
                check_value("get", tree, shard, index, expected, t.get(&k)?.as_deref())
            }
            ReadOp::MultiGet => {
                let indexes: Vec<u32> =
                    (0..1 + rng.below(40)).map(|_| s.space.index(&mut rng)).collect();
                let asked: Vec<Vec<u8>> = indexes.iter().map(|i| key(shard, *i)).collect();
                let found = t.multi_get(&asked)?;
                indexes.iter().zip(found).try_for_each(|(i, got)| {
                    let expected = keys.get(i).copied();
                    check_value("multi_get", tree, shard, *i, expected, got.as_deref())
                })
            }
            ReadOp::Range => check_walk("range", tree, t.range(span), in_span()).map(drop),
            ReadOp::RangeBack => {
                let back: Vec<_> = in_span().collect();
                let walk = t.range(span).rev();
                check_walk("range backward", tree, walk, back.into_iter().rev()).map(drop)
            }
            ReadOp::Prefix => {
                let walk = t.prefix(&(shard as u16).to_be_bytes());
                check_walk("prefix", tree, walk, of_shard(shard, keys)).map(drop)
            }
            ReadOp::Cursor => cursor(t, tree, shard, keys, &mut rng, &s.space),
            ReadOp::Snapshot => {
                let snapshot = if rng.below(2) == 0 {
                    s.db.snapshot()
                } else {
                    s.db.snapshot_named("held by torture")
                };
                let keys = keys.clone();
                if self.held.len() < 4 {
                    let until = number + 1 + rng.below(3000);
                    self.held.push(HeldSnapshot { snapshot, tree, shard, keys, until });
                }
                Ok(())
            }
            ReadOp::Walk => walk(t, tree, &key(shard, index)),
            ReadOp::Twins => {
                check_twins("twins", &s.db.snapshot(), s.trees(), &key(shard, index), 500)
            }
            ReadOp::Bank => check_bank("bank", &s.db.snapshot(), &s.bank),
        }
    }

    fn administer(&self, op: AdminOp, target: StepTarget) -> Checked {
        let StepTarget { tree, shard, from, to, mut rng, .. } = target;
        let s = &*self.shared;
        let t = &s.trees()[tree];
        let (from, to) = (key(shard, from), key(shard, to));
        match op {
            AdminOp::Transfer => transfer(s, &mut rng)?,
            AdminOp::Stats => {
                let stats = s.db.stats();
                let names = s.db.tree_names();
                if NAMES[..TREES].iter().any(|n| !names.iter().any(|m| m == n))
                    || stats.trees.len() < TREES
                {
                    return wrong(format!("stats: trees are missing: {names:?}"));
                }
                t.tables()?;
            }
            AdminOp::Verify => {
                let found = s.db.verify(|_, _| {})?;
                // An error here is not a disk failure: a failing operation is returned as an error
                // of the call.
                if let Some(e) =
                    found.errors.first().filter(|e| !s.failing || e.kind() == ErrorKind::Corruption)
                {
                    return wrong(format!("verify: {e}"));
                }
            }
            AdminOp::Size => {
                t.approximate_size(&from..&to)?;
            }
            AdminOp::Sync => s.db.sync()?,
            AdminOp::Flush => t.flush()?,
            AdminOp::Compact => t.compact()?,
            AdminOp::CompactRange => t.compact_range(&from..=&to)?,
            AdminOp::Options => {
                let options = tree_options(&mut rng, tree);
                if rng.below(2) == 0 {
                    t.set_options(options)?
                } else {
                    s.db.tree(NAMES[tree], options.clone())?.set_options(options)?
                }
            }
            AdminOp::Checkpoint => self.checkpoint(&mut rng)?,
            AdminOp::Changes => follow(&s.db, &mut rng)?,
            AdminOp::ReadOnly => {
                let options = DbOptions { create: false, read_only: true, ..DbOptions::default() };
                let other = Db::open_in(firn_kv::OsEnv::new(), s.dir.join(super::STORE), options)?;
                let known = KnownState { trees: opened(&other)?, tables: None };
                known.check_shard("opened for reading, beside", shard, &self.shards[&shard])?;
            }
            AdminOp::RowCompact => Tables::compact(&s.db, &mut rng)?,
        }
        Ok(())
    }

    fn run_cql(&mut self, op: CqlOp, target: StepTarget, tables: &Tables) -> Checked {
        let StepTarget { number, shard, mut rng, .. } = target;
        let s = self.shared.clone();
        let [rows, counts, roles] = [ROWS, COUNTS, ROLES].map(|part| self.keys(part, shard));
        match op {
            CqlOp::Rows => {
                tables.check_shard("select", shard, rows, counts)?;
                tables.check_roles("select", [(shard, roles)], false).map(drop)
            }
            CqlOp::RowIndex => tables.check_index(shard, rows, rng.below(32) as i32),
            CqlOp::RowAlter => tables.alter(&mut rng),
            CqlOp::Guest => tables.guest(&mut rng, self.at(number)),
            CqlOp::Login => {
                // If the server requires no login, the client within the process logs in.
                let is_open = s.served.as_ref().is_some_and(|served| !served.wants_login());
                let own = s.known.tables.as_deref().filter(|_| is_open).unwrap_or(tables);
                own.log_in(shard, any_role(&mut rng), roles, rows)
            }
            CqlOp::Visitor => {
                match (&s.served, rng.below(4)) {
                    (Some(_), 0) => self.connected = s.connect()?,
                    (Some(served), _) if self.visitors.len() < 4 => {
                        self.visitors.extend(served.visit(&mut rng, number))
                    }
                    _ => {}
                }
                Ok(())
            }
        }
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
            Some(i) if c.is_valid() && c.key() == key(shard, i) => {
                check_value("cursor", tree, shard, i, keys.get(&i).copied(), Some(c.value()))?;
            }
            None if !c.is_valid() => {}
            _ => {
                let is = if c.is_valid() {
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
fn scratch(s: &SharedWork, op: ScratchOp, target: StepTarget, version: LayoutVersion) -> Checked {
    let StepTarget { shard, mut rng, .. } = target;
    let which = rng.below(SCRATCH.len() as u64) as usize;
    let name = SCRATCH[which];
    let gone = |e: &Error| matches!(e.kind(), ErrorKind::Closed | ErrorKind::NotFound);
    if op == ScratchOp::Drop {
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
        let indexes: Vec<u32> =
            if op == ScratchOp::Ingest { (from..from + 40).collect() } else { vec![from] };
        let pair = |i: &u32| (key(shard, *i), value(0, shard, *i, version.0));
        if op == ScratchOp::Ingest {
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

/// Continues a subscription, which survives each restart: each number once, in order, from the
/// acknowledged one on, unless it lags.
fn subscribed(db: &Db, rng: &mut Rng) -> Checked<()> {
    let name = format!("torture-{}", rng.below(3));
    let mut changes = match db.subscribe(&name, 4 << 20) {
        // Another thread uses it.
        Err(e) if e.kind() == ErrorKind::Locked => return Ok(()),
        changes => changes?,
    };
    if changes.is_snapshot_due() {
        let snapshot = changes.snapshot()?;
        changes.acknowledge(snapshot.seq())?;
    }
    let mut seq = changes.position().seq;
    let listed = db.subscriptions().into_iter().any(|s| s.name == name && s.seq <= seq);
    if !listed {
        return wrong(format!("the subscription {name} is not listed"));
    }
    for _ in 0..500 {
        let change = match changes.next(Duration::from_millis(1)) {
            Err(e) if e.kind() == ErrorKind::Lagged => return Ok(()),
            change => change?,
        };
        let Some(change) = change else { break };
        let (first, last) = (*change.seqs().start(), *change.seqs().end());
        if first != seq + 1 {
            return wrong(format!("the subscription {name} returns {first} after {seq}"));
        }
        seq = last;
        if rng.below(3) == 0 {
            match changes.acknowledge(seq) {
                Err(e) if e.kind() == ErrorKind::Lagged => return Ok(()),
                done => done?,
            }
        }
    }
    if rng.below(50) == 0 { Ok(db.drop_subscription(&name)?) } else { Ok(()) }
}

/// Follows the last changes: each number once, in order, unless the log lacks some of them.
fn follow(db: &Db, rng: &mut Rng) -> Checked<()> {
    if rng.below(4) == 0 {
        return subscribed(db, rng);
    }
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
