//! Plays a program under one schedule and judges the results.
//!
//! Everything runs in threads of the scheduler: opening, the program's threads, the store's
//! workers, closing and reopening.

use std::path::PathBuf;
use std::sync::Arc;

use firn_crash::{CrashEnv, Cut};
use firn_interleave::{Plan, Report};
use firn_kv::{
    Batch, Cursor, Db, DbOptions, Durability, Error, ErrorKind, MergeOperator, MergeResult,
    OpenFiles, Range, Result, Snapshot, Transaction, Tree, TreeOptions,
};
use firn_testkit::linear::{
    CallKind, KEYS, LinearChange, LinearHandle, LinearKey, LinearPairs, LinearRead, RecoveredState,
    TreeNumber, WriteNumber, check,
};

use crate::program::{AT_START, FOLDS, Kind, NAMES, Op, Program, SLOTS};
use crate::record::{Image, Record, bytes_of, key, key_of, pieces_of};

#[path = "one_step.rs"]
mod one_step;

const DIR: &str = "/db";
/// Maximum number of scheduling points; a schedule that exceeds it counts as a hang.
const MAX_STEPS: u64 = 400_000;

/// Merge operator that appends to values.
struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        Ok(MergeResult::Value([base.unwrap_or_default(), &operands.concat()].concat()))
    }
    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, newer].concat())
    }
}

/// Statistics of one schedule.
pub struct Played {
    pub report: Report,
    pub calls: usize,
    pub crashes: usize,
}

/// Plays a program under the schedule `plan_seed`.
pub fn play(program: &Arc<Program>, plan_seed: u64) -> std::result::Result<Played, String> {
    let record = Record::default();
    // Use a separate limit of open files: one schedule must not depend on another's files.
    let mut fresh = Program::clone(program);
    fresh.db.open_files = fresh.db.open_files.map(|f| OpenFiles::new(f.limit()));
    let (mine, p) = (record.clone(), Arc::new(fresh));
    let report =
        firn_interleave::run(Plan::of(plan_seed, MAX_STEPS), move || everything(&p, &mine));
    let report = report.map_err(|e| {
        let log = record.0.lock();
        let open: Vec<String> = log
            .calls
            .iter()
            .filter(|c| c.end.is_none())
            .map(|c| format!("  thread {}: {}", c.thread, c.words))
            .collect();
        format!("{e}\ncalls that had not returned:\n{}", open.join("\n"))
    })?;
    let log = record.0.lock();
    Ok(Played { report, calls: log.calls.len(), crashes: log.images.len() })
}

fn options_of(program: &Program, name: usize, variant: u32) -> TreeOptions {
    let mut o = program.trees[(name + variant as usize) % program.trees.len()].clone();
    o.merge_operator = (name as u32 == FOLDS).then(|| Arc::new(Append) as Arc<dyn MergeOperator>);
    o
}

fn everything(program: &Arc<Program>, record: &Record) {
    let env = CrashEnv::new(program.seed);
    let main = program.threads.len();
    let open = |env: &CrashEnv, dir: &str, options: &DbOptions| {
        Db::open_in(Arc::new(env.clone()), dir, options.clone())
            .unwrap_or_else(|e| panic!("{dir} cannot be opened: {e}"))
    };
    {
        let db = open(&env, DIR, &program.db);
        let mut first = Caller::new(main, db.clone(), program.clone(), record.clone(), env.clone());
        (0..AT_START)
            .for_each(|name| first.call(&Op { kind: Kind::Create, args: vec![name as u32] }));
        program.before.iter().for_each(|op| first.call(op));
        let threads: Vec<_> = program
            .threads
            .iter()
            .enumerate()
            .map(|(i, ops)| {
                let mut caller = Caller {
                    trees: first.trees.clone(),
                    ..Caller::new(i, db.clone(), program.clone(), record.clone(), env.clone())
                };
                let ops = ops.clone();
                firn_interleave::spawn(&format!("thread-{i}"), move || {
                    ops.iter().for_each(|op| caller.call(op));
                    caller.finish();
                })
            })
            .collect();
        for t in threads {
            t.join();
        }
        let closed = record.0.lock().closed;
        if !closed {
            first.probe_trees("the final state", &db);
        }
        if !closed && program.seed.is_multiple_of(3) {
            db.wait_idle().unwrap_or_else(|e| panic!("wait_idle: {e}"));
        }
        check_copies(program, record, &env);
    }
    // Close the store and reopen it with another number of threads: its state must be the same and
    // sound.
    let options =
        DbOptions { background_threads: (program.seed % 2) as usize, ..program.db.clone() };
    {
        let db = open(&env, DIR, &options);
        let caller = Caller::new(main, db.clone(), program.clone(), record.clone(), env.clone());
        caller.probe_trees("after closing and opening", &db);
        assert!(
            db.torn_log().is_none(),
            "the log of a store that was closed is torn: {:?}",
            db.torn_log()
        );
        let verified = db.verify(|_, _| {}).unwrap_or_else(|e| panic!("verify: {e}"));
        assert!(verified.errors.is_empty(), "verify after opening again: {:?}", verified.errors);
    }
    let images = std::mem::take(&mut record.0.lock().images);
    let calls = record.0.lock().calls.clone();
    if let Err(words) = check(&calls, None) {
        panic!("{words}");
    }
    for image in images {
        let env = image.disk;
        let none = DbOptions { background_threads: 0, ..program.db.clone() };
        let db = open(&env, DIR, &none);
        let whole = whole(program, &db);
        drop(db);
        let recovered =
            RecoveredState { from: image.from, until: image.until, power: image.power, whole };
        if let Err(words) = check(&calls, Some(&recovered)) {
            panic!("after {} {words}", if image.power { "a power cut" } else { "a crash" });
        }
        record.0.lock().images.push(Image { disk: CrashEnv::new(0), ..image });
    }
}

/// Checks that checkpoints open with the contents at their creation, and that exports contain the
/// exported pairs.
fn check_copies(program: &Program, record: &Record, env: &CrashEnv) {
    let (checkpoints, exports, imports) = {
        let log = record.0.lock();
        (log.checkpoints.clone(), log.exports.clone(), log.imports.clone())
    };
    let none = DbOptions { background_threads: 0, event_log: false, ..program.db.clone() };
    for call in checkpoints {
        let db = Db::open_in(Arc::new(env.clone()), format!("/copy-{call}"), none.clone());
        let db = db.unwrap_or_else(|e| panic!("the checkpoint does not open: {e}"));
        record.saw(call, LinearRead::Whole(whole(program, &db)));
    }
    if exports.is_empty() {
        return;
    }
    let db = Db::open_in(Arc::new(env.clone()), "/scratch", none)
        .unwrap_or_else(|e| panic!("scratch: {e}"));
    for (n, (call, handle, from, to)) in exports.into_iter().enumerate() {
        let tree = db.tree(
            &format!("{n}"),
            TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() },
        );
        let tree = tree.unwrap_or_else(|e| panic!("scratch: {e}"));
        tree.import(format!("/export-{call}"))
            .unwrap_or_else(|e| panic!("the exported file cannot be imported: {e}"));
        let pairs = pairs(tree.iter());
        for (importer, _, into) in imports.iter().filter(|i| i.1 == call) {
            let mut log = record.0.lock();
            if let CallKind::Write(changes) = &mut log.calls[*importer].what {
                // The imported pieces are those that were exported.
                changes
                    .extend(pairs.iter().map(|(k, v)| (*into, LinearChange::Set(*k, v.clone()))));
            }
        }
        record.saw(call, LinearRead::Range(handle, from, to, pairs));
    }
}

fn pairs(range: Range) -> LinearPairs {
    range
        .map(|item| {
            let (k, v) = item.unwrap_or_else(|e| panic!("an item of a range: {e}"));
            (key_of(&k), pieces_of(&v))
        })
        .collect()
}

/// Returns the whole contents of a store.
fn whole(program: &Program, db: &Db) -> Vec<(TreeNumber, LinearPairs)> {
    let read = |name: &String| {
        let n =
            NAMES.iter().position(|k| k == name).unwrap_or_else(|| panic!("unknown tree {name:?}"));
        let tree = db
            .tree(name, options_of(program, n, 0))
            .unwrap_or_else(|e| panic!("tree {name:?}: {e}"));
        let up = pairs(tree.iter());
        let mut down = pairs_back(tree.iter());
        down.reverse();
        assert_eq!(up, down, "the tree {name:?} forward and backward");
        (n as TreeNumber, up)
    };
    db.tree_names().iter().map(read).collect()
}

fn pairs_back(range: Range) -> LinearPairs {
    range
        .rev()
        .map(|item| {
            let (k, v) = item.unwrap_or_else(|e| panic!("an item of a range: {e}"));
            (key_of(&k), pieces_of(&v))
        })
        .collect()
}

#[derive(Clone)]
struct Held {
    tree: Tree,
    handle: LinearHandle,
    /// Time at which the handle was obtained.
    since: u64,
}

struct Taken {
    snapshot: Snapshot,
    call: usize,
    at: u64,
}

struct Walk {
    range: Range,
    call: usize,
    handle: LinearHandle,
    seen: LinearPairs,
    done: bool,
}

struct Tx {
    tx: Transaction,
    call: usize,
    at: u64,
    reads: Vec<LinearRead>,
    writes: Vec<(LinearHandle, LinearChange)>,
}

/// One thread of a program.
struct Caller {
    thread: usize,
    db: Db,
    program: Arc<Program>,
    record: Record,
    env: CrashEnv,
    trees: [Option<Held>; NAMES.len()],
    snapshots: [Option<Taken>; SLOTS],
    walks: [Option<Walk>; SLOTS],
    txs: [Option<Tx>; SLOTS],
}

/// Returns the outcome of a call on a tree or store that another thread may drop or close at the
/// same time.
fn or_closed(result: Result<CallKind>, handles: &[LinearHandle]) -> CallKind {
    match result {
        Ok(what) => what,
        Err(e) if is_store_closed(&e) => CallKind::Nothing,
        Err(e) if e.kind() == ErrorKind::Closed => {
            CallKind::Read(vec![LinearRead::Closed(handles.to_vec())])
        }
        Err(e) => panic!("an error: {e} ({:?})", e.kind()),
    }
}

/// Accepts a compaction that conflicts with a pause by another thread.
fn or_paused(done: Result<()>) -> Result<()> {
    done.or_else(|e| if e.kind() == ErrorKind::Conflict { Ok(()) } else { Err(e) })
}

fn is_closed(e: &Error) -> bool {
    e.kind() == ErrorKind::Closed
}

fn is_store_closed(e: &Error) -> bool {
    is_closed(e) && e.message().starts_with("the store has been closed")
}

fn bounds(a: u32, z: u32) -> (LinearKey, LinearKey) {
    (a.min(z) as LinearKey, a.max(z) as LinearKey)
}

impl Caller {
    fn new(thread: usize, db: Db, program: Arc<Program>, record: Record, env: CrashEnv) -> Caller {
        let (trees, snapshots, walks, txs) = Default::default();
        Caller { thread, db, program, record, env, trees, snapshots, walks, txs }
    }

    fn held(&self, tree: u32) -> Option<Held> {
        self.trees[tree as usize].clone()
    }

    fn probe_trees(&self, words: &str, db: &Db) {
        let call = self.record.begin(self.thread, words.into(), CallKind::Nothing);
        let whole = whole(&self.program, db);
        self.record.end(call, CallKind::Read(vec![LinearRead::Whole(whole)]), false);
    }

    /// Ends all iterators, snapshots and transactions that are still open.
    fn finish(&mut self) {
        (0..SLOTS).for_each(|s| self.close_walk(s));
        self.snapshots = Default::default();
        self.txs = Default::default();
    }

    fn close_walk(&mut self, slot: usize) {
        if let Some(w) = self.walks[slot].take()
            && (w.done || !w.seen.is_empty())
        {
            let until =
                if w.done { KEYS as LinearKey } else { w.seen.last().map_or(0, |(k, _)| k + 1) };
            self.record.saw(w.call, LinearRead::Range(w.handle, 0, until, w.seen));
        }
    }

    /// Records a call around `work`, which returns its effect. Until the call returns, it may have
    /// had the effect `intent`.
    fn note(
        &self,
        op: &Op,
        intent: CallKind,
        durable: bool,
        work: impl FnOnce() -> CallKind,
    ) -> usize {
        let call = self.record.begin(self.thread, op.to_string(), intent);
        let what = work();
        self.record.end(call, what, durable);
        call
    }

    fn write(
        &self,
        op: &Op,
        changes: Vec<(LinearHandle, LinearChange)>,
        durable: bool,
        work: impl FnOnce() -> Result<()>,
    ) {
        let handles: Vec<LinearHandle> = changes.iter().map(|c| c.0).collect();
        let what = CallKind::Write(changes);
        let durable = durable || self.program.db.durability == Durability::Power;
        self.note(op, what.clone(), durable, || or_closed(work().map(|()| what), &handles));
    }

    fn look(&self, op: &Op, handle: LinearHandle, work: impl FnOnce() -> Result<LinearRead>) {
        self.note(op, CallKind::Nothing, false, || {
            or_closed(work().map(|l| CallKind::Read(vec![l])), &[handle])
        });
    }

    fn nothing(
        &self,
        op: &Op,
        handle: LinearHandle,
        durable: bool,
        work: impl FnOnce() -> Result<()>,
    ) {
        self.note(op, CallKind::Nothing, durable, || {
            or_closed(work().map(|()| CallKind::Nothing), &[handle])
        });
    }

    fn bind(&mut self, name: u32, tree: Tree, handle: LinearHandle) {
        let since = self.record.now();
        self.trees[name as usize] = Some(Held { tree, handle, since });
    }

    fn put(&self, op: &Op, piece: WriteNumber, len: u32) -> Option<()> {
        let t = self.held(op.args[0])?;
        let (k, v) = (key(op.args[1]), bytes_of(piece, len));
        let power = op.kind == Kind::PutPower;
        self.write(
            op,
            vec![(t.handle, LinearChange::Put(op.args[1] as LinearKey, piece))],
            power,
            || match power {
                true => t.tree.with_durability(Durability::Power).put(&k, &v),
                false => t.tree.put(&k, &v),
            },
        );
        Some(())
    }

    fn call(&mut self, op: &Op) {
        // A call on a tree or slot that does not exist does nothing.
        let _ = self
            .write_call(op)
            .or_else(|| self.one_step_call(op))
            .or_else(|| self.read_call(op))
            .or_else(|| self.slot_call(op))
            .or_else(|| self.other_call(op));
    }

    fn write_call(&mut self, op: &Op) -> Option<()> {
        let a = &op.args;
        match op.kind {
            Kind::Put | Kind::PutPower => self.put(op, self.record.piece(), a[2])?,
            Kind::Delete => {
                let t = self.held(a[0])?;
                self.write(
                    op,
                    vec![(t.handle, LinearChange::Delete(a[1] as LinearKey))],
                    false,
                    || t.tree.delete(&key(a[1])),
                );
            }
            Kind::Merge => {
                let (t, piece) = (self.held(FOLDS)?, self.record.piece());
                let change = LinearChange::Append(a[0] as LinearKey, piece);
                self.write(op, vec![(t.handle, change)], false, || {
                    t.tree.merge(&key(a[0]), &bytes_of(piece, a[1]))
                });
            }
            Kind::DeleteRange | Kind::DropRange => {
                let (t, (from, to)) = (self.held(a[0])?, bounds(a[1], a[2]));
                let (k, z) = (key(from.into()), key(to.into()));
                // Durable when its flush is done.
                let drops = op.kind == Kind::DropRange;
                self.write(
                    op,
                    vec![(t.handle, LinearChange::DeleteRange(from, to))],
                    drops && from < to,
                    || match drops {
                        true => t.tree.drop_range(&k..&z),
                        false => t.tree.delete_range(&k..&z),
                    },
                );
            }
            Kind::Batch | Kind::BatchDelete => {
                let (t, u) = (self.held(a[0])?, self.held(a[2])?);
                let piece = self.record.piece();
                let (from, to) = if op.kind == Kind::Batch { (0, 0) } else { bounds(a[3], a[4]) };
                let mut batch = Batch::new();
                let mut changes = vec![(t.handle, LinearChange::Put(a[1] as LinearKey, piece))];
                let (k, v) = (key(a[1]), bytes_of(piece, 30));
                let filled = batch.put(&t.tree, &k, &v).and_then(|()| match op.kind {
                    Kind::Batch if a[2] == FOLDS => {
                        changes.push((u.handle, LinearChange::Append(a[3] as LinearKey, piece)));
                        batch.merge(&u.tree, &key(a[3]), &v)
                    }
                    Kind::Batch => {
                        changes.push((u.handle, LinearChange::Put(a[3] as LinearKey, piece)));
                        batch.put(&u.tree, &key(a[3]), &v)
                    }
                    _ => {
                        changes.push((u.handle, LinearChange::DeleteRange(from, to)));
                        batch.delete_range(&u.tree, &key(from.into())..&key(to.into()))
                    }
                });
                filled.unwrap_or_else(|e| panic!("a batch: {e}"));
                let power = a[1] % 8 == 0;
                self.write(op, changes, power, || match power {
                    true => self.db.with_durability(Durability::Power).write(batch),
                    false => self.db.write(batch),
                });
            }
            Kind::Ingest => {
                let (t, piece) = (self.held(a[0])?, self.record.piece());
                let keys = a[1]..(a[1] + a[2]).min(KEYS as u32);
                let changes: Vec<_> = keys
                    .clone()
                    .map(|k| (t.handle, LinearChange::Put(k as LinearKey, piece)))
                    .collect();
                let what = CallKind::Write(changes);
                self.note(op, what.clone(), true, || {
                    match t.tree.ingest(keys.map(|k| (key(k), bytes_of(piece, 50)))) {
                        // Other writers never stopped writing to the range.
                        Err(e) if e.kind() == ErrorKind::Conflict => CallKind::Nothing,
                        other => or_closed(other.map(|_| what), &[t.handle]),
                    }
                });
            }
            _ => return None,
        }
        Some(())
    }

    fn read_call(&mut self, op: &Op) -> Option<()> {
        let a = &op.args;
        let value = |v: Option<firn_kv::Value>| v.map(|v| pieces_of(&v));
        match op.kind {
            Kind::Get => {
                let t = self.held(a[0])?;
                self.look(op, t.handle, || {
                    Ok(LinearRead::Get(t.handle, a[1] as LinearKey, value(t.tree.get(&key(a[1]))?)))
                });
            }
            Kind::Contains => {
                let t = self.held(a[0])?;
                self.look(op, t.handle, || {
                    Ok(LinearRead::Contains(
                        t.handle,
                        a[1] as LinearKey,
                        t.tree.contains(&key(a[1]))?,
                    ))
                });
            }
            Kind::MultiGet => {
                let (t, (from, to)) = (self.held(a[0])?, bounds(a[1], a[2]));
                self.look(op, t.handle, || {
                    let keys: Vec<_> = (from..to).map(|k| key(k.into())).collect();
                    let values = t.tree.multi_get(&keys)?;
                    let pairs =
                        (from..to).zip(values).filter_map(|(k, v)| Some((k, value(v)?))).collect();
                    Ok(LinearRead::Range(t.handle, from, to, pairs))
                });
            }
            Kind::Range | Kind::RangeBack | Kind::Prefix | Kind::Iter => {
                let t = self.held(a[0])?;
                let (from, to) = match op.kind {
                    Kind::Iter => (0, KEYS as LinearKey),
                    Kind::Prefix => ((a[1] / 4 * 4) as LinearKey, (a[1] / 4 * 4 + 4) as LinearKey),
                    _ => bounds(a[1], a[2]),
                };
                self.look(op, t.handle, || {
                    let range = match op.kind {
                        Kind::Iter => t.tree.iter(),
                        Kind::Prefix => t.tree.prefix(&key(a[1])[..1]),
                        _ => t.tree.range(key(from.into())..key(to.into())),
                    };
                    let back = op.kind == Kind::RangeBack;
                    let items: Result<Vec<_>> =
                        if back { range.rev().collect() } else { range.collect() };
                    let mut pairs: LinearPairs =
                        items?.iter().map(|(k, v)| (key_of(k), pieces_of(v))).collect();
                    if back {
                        pairs.reverse();
                    }
                    Ok(LinearRead::Range(t.handle, from, to, pairs))
                });
            }
            Kind::Cursor => {
                let (t, (from, to)) = (self.held(a[0])?, bounds(a[1], a[2]));
                self.look(op, t.handle, || {
                    let cursor = t.tree.cursor(key(from.into())..key(to.into()))?;
                    Ok(LinearRead::Range(t.handle, from, to, walk(cursor, a[1] % 2 == 0)?))
                });
            }
            Kind::Export => {
                let (t, (from, to)) = (self.held(a[0])?, bounds(a[1], a[2]));
                let path = PathBuf::from(format!("/export-{}", self.record.0.lock().calls.len()));
                let mut made = false;
                let call = self.note(op, CallKind::Nothing, false, || {
                    let done = t.tree.export(key(from.into())..key(to.into()), &path);
                    made = done.is_ok();
                    or_closed(done.map(|_| CallKind::Read(vec![])), &[t.handle])
                });
                if made {
                    self.record.0.lock().exports.push((call, t.handle, from, to));
                }
            }
            Kind::Import => {
                let t = self.held(a[0])?;
                let from = self.record.0.lock().exports.first()?.0;
                let mut done = false;
                let call = self.note(op, CallKind::Nothing, true, || {
                    match t.tree.import(format!("/export-{from}")) {
                        Err(e) if e.kind() == ErrorKind::Conflict => CallKind::Nothing,
                        other => {
                            done = other.is_ok();
                            or_closed(other.map(|_| CallKind::Write(vec![])), &[t.handle])
                        }
                    }
                });
                if done {
                    self.record.0.lock().imports.push((call, from, t.handle));
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn slot_call(&mut self, op: &Op) -> Option<()> {
        let a = &op.args;
        let slot = a.first().copied().unwrap_or(0) as usize % SLOTS;
        match op.kind {
            Kind::Snapshot | Kind::SnapshotNamed => {
                let mut snapshot = None;
                let call = self.note(op, CallKind::Nothing, false, || {
                    snapshot = Some(match op.kind {
                        Kind::Snapshot => self.db.snapshot(),
                        _ => self.db.snapshot_named("of a thread"),
                    });
                    CallKind::Read(vec![])
                });
                self.snapshots[slot] =
                    Some(Taken { snapshot: snapshot?, call, at: self.record.now() });
            }
            Kind::SnapshotGet | Kind::SnapshotContains => {
                let (t, s) = (self.held(a[1])?, self.snapshots[slot].as_ref()?);
                let seen = match op.kind {
                    Kind::SnapshotGet => s.snapshot.get(&t.tree, &key(a[2])).map(|v| {
                        LinearRead::Get(t.handle, a[2] as LinearKey, v.map(|v| pieces_of(&v)))
                    }),
                    _ => s
                        .snapshot
                        .contains(&t.tree, &key(a[2]))
                        .map(|yes| LinearRead::Contains(t.handle, a[2] as LinearKey, yes)),
                };
                self.saw_at(s.call, s.at, &t, seen);
            }
            Kind::SnapshotRange | Kind::SnapshotPrefix | Kind::SnapshotCursor => {
                let (t, s) = (self.held(a[1])?, self.snapshots[slot].as_ref()?);
                let (from, to) = match op.kind {
                    Kind::SnapshotPrefix => {
                        ((a[2] / 4 * 4) as LinearKey, (a[2] / 4 * 4 + 4) as LinearKey)
                    }
                    _ => bounds(a[2], a[3]),
                };
                let bytes = key(from.into())..key(to.into());
                let items = |range: Range| -> Result<LinearPairs> {
                    range.map(|i| i.map(|(k, v)| (key_of(&k), pieces_of(&v)))).collect()
                };
                let seen = match op.kind {
                    Kind::SnapshotRange => items(s.snapshot.range(&t.tree, bytes)),
                    Kind::SnapshotPrefix => items(s.snapshot.prefix(&t.tree, &key(a[2])[..1])),
                    _ => s.snapshot.cursor(&t.tree, bytes).and_then(|c| walk(c, a[2] % 2 == 0)),
                };
                self.saw_at(
                    s.call,
                    s.at,
                    &t,
                    seen.map(|pairs| LinearRead::Range(t.handle, from, to, pairs)),
                );
            }
            Kind::SnapshotDrop => self.snapshots[slot] = None,
            Kind::IterOpen => {
                let t = self.held(a[1])?;
                self.close_walk(slot);
                let mut range = None;
                let call = self.note(op, CallKind::Nothing, false, || {
                    range = Some(t.tree.iter());
                    CallKind::Read(vec![])
                });
                self.walks[slot] =
                    Some(Walk { range: range?, call, handle: t.handle, seen: vec![], done: false });
            }
            Kind::IterStep => {
                let w = self.walks[slot].as_mut()?;
                for _ in 0..a[1] {
                    match w.range.next() {
                        Some(Ok((k, v))) => w.seen.push((key_of(&k), pieces_of(&v))),
                        None => {
                            w.done = true;
                            break;
                        }
                        Some(Err(e)) if is_store_closed(&e) => {
                            self.close_walk(slot);
                            break;
                        }
                        Some(Err(e)) if is_closed(&e) && w.seen.is_empty() => {
                            let w = self.walks[slot].take()?;
                            self.record.saw(w.call, LinearRead::Closed(vec![w.handle]));
                            break;
                        }
                        Some(Err(e)) => panic!("an item of an iterator: {e}"),
                    }
                }
            }
            Kind::IterClose => self.close_walk(slot),
            Kind::Begin => {
                let mut tx = None;
                let call = self.note(op, CallKind::Nothing, false, || {
                    tx = Some(self.db.transaction());
                    CallKind::Read(vec![])
                });
                self.txs[slot] = Some(Tx {
                    tx: tx?,
                    call,
                    at: self.record.now(),
                    reads: vec![],
                    writes: vec![],
                });
            }
            Kind::TxGet | Kind::TxRange | Kind::TxPut | Kind::TxDelete => {
                let t = self.held(a[1])?;
                let mut x = self.txs[slot].take()?;
                self.in_tx(op, &t, &mut x);
                self.txs[slot] = Some(x);
            }
            Kind::Commit => {
                let mut x = self.txs[slot].take()?;
                let power = a[0] == 0;
                if power {
                    x.tx = x.tx.with_durability(Durability::Power);
                }
                let handles: Vec<LinearHandle> = x
                    .writes
                    .iter()
                    .map(|w| w.0)
                    .chain(x.reads.iter().filter_map(LinearRead::handle))
                    .collect();
                let what = match x.writes.is_empty() {
                    true => CallKind::Nothing,
                    false => CallKind::Commit(x.reads, x.writes),
                };
                let durable = power || self.program.db.durability == Durability::Power;
                self.note(op, what.clone(), durable, || match x.tx.commit() {
                    Err(e) if e.kind() == ErrorKind::Conflict => CallKind::Nothing,
                    other => or_closed(other.map(|()| what), &handles),
                });
            }
            Kind::Abort => self.txs[slot] = None,
            _ => return None,
        }
        Some(())
    }

    /// Records an observation of the state at an earlier call, through a handle that may be younger
    /// than that call.
    fn saw_at(&self, call: usize, at: u64, t: &Held, seen: Result<LinearRead>) {
        match seen {
            // The tree may be younger than the snapshot. Other observations show when the tree was
            // dropped.
            Ok(look) if t.since < at => self.record.saw(call, look),
            Ok(_) => {}
            Err(e) if is_closed(&e) => {}
            Err(e) => panic!("a read of a snapshot: {e}"),
        }
    }

    fn in_tx(&self, op: &Op, t: &Held, x: &mut Tx) {
        let a = &op.args;
        let own = |x: &Tx, from: LinearKey, to: LinearKey| {
            x.writes.iter().any(|(h, c)| {
                *h == t.handle
                    && matches!(c, LinearChange::Put(k, _) | LinearChange::Delete(k) if (from..to).contains(k))
            })
        };
        let look = match op.kind {
            Kind::TxGet => x.tx.get(&t.tree, &key(a[2])).map(|v| {
                let k = a[2] as LinearKey;
                (k, k + 1, LinearRead::Get(t.handle, k, v.map(|v| pieces_of(&v))))
            }),
            Kind::TxRange => {
                let (from, mut to) = bounds(a[2], a[3]);
                // Keys that the iterator does not reach are not part of the read set.
                let limit = if a[3] % 2 == 0 { 1 } else { KEYS };
                let items = x.tx.range(&t.tree, key(from.into())..key(to.into())).take(limit);
                items.collect::<Result<Vec<_>>>().map(|items| {
                    let pairs: LinearPairs =
                        items.iter().map(|(k, v)| (key_of(k), pieces_of(v))).collect();
                    if pairs.len() == limit {
                        to = pairs.last().map_or(to, |(k, _)| k + 1);
                    }
                    (from, to, LinearRead::Range(t.handle, from, to, pairs))
                })
            }
            Kind::TxPut => {
                let piece = self.record.piece();
                let put = x.tx.put(&t.tree, &key(a[2]), &bytes_of(piece, 20));
                put.unwrap_or_else(|e| panic!("a put in a transaction: {e}"));
                x.writes.push((t.handle, LinearChange::Put(a[2] as LinearKey, piece)));
                return;
            }
            _ => {
                x.tx.delete(&t.tree, &key(a[2]))
                    .unwrap_or_else(|e| panic!("a delete in a transaction: {e}"));
                x.writes.push((t.handle, LinearChange::Delete(a[2] as LinearKey)));
                return;
            }
        };
        match look {
            // The reads include the transaction's own writes. Tests with one thread check those.
            Ok((from, to, look)) if t.since < x.at && !own(x, from, to) => {
                self.record.saw(x.call, look.clone());
                x.reads.push(look);
            }
            Ok(_) => {}
            Err(e) if is_closed(&e) => {}
            Err(e) => panic!("a read in a transaction: {e}"),
        }
    }

    fn other_call(&mut self, op: &Op) -> Option<()> {
        let a = &op.args;
        match op.kind {
            Kind::Transact => {
                let (t, piece) = (self.held(a[0])?, self.record.piece());
                let k = a[1] as LinearKey;
                let change = (t.handle, LinearChange::Put(k, piece));
                let mut seen = None;
                self.note(op, CallKind::Commit(vec![], vec![change.clone()]), false, || {
                    let done = self.db.transact(|tx| {
                        seen = tx.get(&t.tree, &key(a[1]))?.map(|v| pieces_of(&v));
                        tx.put(&t.tree, &key(a[1]), &bytes_of(piece, 25))
                    });
                    match done {
                        Err(e) if e.kind() == ErrorKind::Conflict => CallKind::Nothing,
                        other => or_closed(
                            other.map(|()| {
                                CallKind::Commit(
                                    vec![LinearRead::Get(t.handle, k, seen.take())],
                                    vec![change],
                                )
                            }),
                            &[t.handle],
                        ),
                    }
                });
            }
            Kind::Flush => {
                let t = self.held(a[0])?;
                self.nothing(op, t.handle, false, || t.tree.flush());
            }
            Kind::Compact => {
                let t = self.held(a[0])?;
                self.nothing(op, t.handle, false, || or_paused(t.tree.compact()));
            }
            Kind::CompactRange => {
                let (t, (from, to)) = (self.held(a[0])?, bounds(a[1], a[2]));
                self.nothing(op, t.handle, false, || {
                    or_paused(t.tree.compact_range(&key(from.into())..=&key(to.into())))
                });
            }
            Kind::WaitIdle => {
                self.nothing(op, 0, false, || self.db.wait_idle());
            }
            Kind::Pause => {
                self.nothing(op, 0, false, || {
                    let pause = self.db.pause_background()?;
                    self.db.set_background_rate((a[0] < 3).then_some(1 << 30))?;
                    self.db.wait_idle()?;
                    drop(pause);
                    Ok(())
                });
            }
            Kind::Sync => {
                // The sync makes every call durable that had returned before it began.
                let before: Vec<usize> = {
                    let log = self.record.0.lock();
                    (0..log.calls.len()).filter(|i| log.calls[*i].end.is_some()).collect()
                };
                self.nothing(op, 0, true, || self.db.sync());
                let now = self.record.now();
                let mut log = self.record.0.lock();
                for i in before {
                    log.calls[i].durable.get_or_insert(now);
                }
            }
            Kind::Stats => {
                let s = self.db.stats();
                assert!(s.trees.len() <= NAMES.len());
            }
            Kind::Verify => {
                let errors = match self.db.verify(|_, _| {}) {
                    Ok(v) => v.errors.into_iter().filter(|e| !is_store_closed(e)).collect(),
                    Err(e) if is_store_closed(&e) => vec![],
                    Err(e) => vec![e],
                };
                assert!(errors.is_empty(), "verify: {errors:?}");
            }
            Kind::Checkpoint => {
                let n = self.record.0.lock().calls.len();
                let mut done = Ok(());
                let call = self.note(op, CallKind::Nothing, false, || {
                    done = self.db.checkpoint(format!("/copy-{n}")).map(drop);
                    CallKind::Read(vec![])
                });
                assert_eq!(call, n);
                match done {
                    Ok(()) => self.record.0.lock().checkpoints.push(call),
                    Err(e) if is_store_closed(&e) => {}
                    Err(e) => panic!("a checkpoint: {e}"),
                }
            }
            Kind::Tables => {
                let t = self.held(a[0])?;
                self.nothing(op, t.handle, false, || {
                    t.tree
                        .tables()?
                        .iter()
                        .for_each(|i| assert!(i.first_key <= i.last_key, "{i:?}"));
                    Ok(())
                });
            }
            Kind::Size => {
                let (t, (from, to)) = (self.held(a[0])?, bounds(a[1], a[2]));
                self.nothing(op, t.handle, false, || {
                    t.tree.approximate_size(&key(from.into())..&key(to.into())).map(drop)
                });
            }
            Kind::Create | Kind::Options => {
                let variant = if op.kind == Kind::Options { a[1] } else { 0 };
                let (name, handle) = (a[0], self.record.handle());
                if op.kind == Kind::Options && self.trees[name as usize].is_none() {
                    return None;
                }
                let mut made = None;
                // A new tree is durable, but options of an existing tree need not be. Concurrent
                // threads cannot tell which case it was.
                let durable = self.thread == self.program.threads.len();
                self.note(op, CallKind::Create(name as TreeNumber, handle), durable, || {
                    let options = options_of(&self.program, name as usize, variant);
                    match self.db.tree(NAMES[name as usize], options) {
                        Ok(tree) => {
                            made = Some(tree);
                            CallKind::Create(name as TreeNumber, handle)
                        }
                        // Another thread dropped the tree while this one opened it.
                        Err(e) if is_closed(&e) => CallKind::Nothing,
                        Err(e) => panic!("an error: {e}"),
                    }
                });
                self.bind(name, made?, handle);
            }
            Kind::Open => {
                let (name, handle) = (a[0], self.record.handle());
                let mut made = None;
                self.note(op, CallKind::Nothing, false, || {
                    match self.db.existing_tree(NAMES[name as usize]) {
                        Ok(tree) => {
                            made = Some(tree);
                            CallKind::Open(name as TreeNumber, handle)
                        }
                        Err(e) if e.kind() == ErrorKind::NotFound => {
                            CallKind::Missing(name as TreeNumber)
                        }
                        Err(e) if is_store_closed(&e) => CallKind::Nothing,
                        Err(e) => panic!("an error: {e}"),
                    }
                });
                self.bind(name, made?, handle);
            }
            Kind::Drop => {
                let name = a[0] as TreeNumber;
                self.note(op, CallKind::Drop(name), true, || {
                    match self.db.drop_tree(NAMES[name as usize]) {
                        Ok(()) => CallKind::Drop(name),
                        Err(e) if is_store_closed(&e) => CallKind::Nothing,
                        Err(e) if e.kind() == ErrorKind::NotFound => CallKind::Missing(name),
                        Err(e) => panic!("an error: {e}"),
                    }
                });
            }
            Kind::Names => {
                self.note(op, CallKind::Nothing, false, || {
                    let names = self.db.tree_names();
                    let number = |n: &String| {
                        NAMES.iter().position(|k| k == n).unwrap_or_else(|| panic!("a tree {n:?}"))
                    };
                    CallKind::Read(vec![LinearRead::Names(
                        names.iter().map(|n| number(n) as TreeNumber).collect(),
                    )])
                });
            }
            Kind::Close => self.close(op),
            Kind::Crash => {
                let (power, cut) = match a[0] {
                    1 | 2 => (false, Cut::Process),
                    3 => (true, Cut::PowerNone),
                    4 => (true, Cut::PowerData { keep_entries: true, keep_data: false }),
                    _ => (true, Cut::PowerRandom(self.program.seed)),
                };
                let from = self.record.now();
                let disk = self.env.crash_image(0, &cut);
                let until = self.record.now();
                self.record.0.lock().images.push(Image { from, until, power, disk });
            }
            _ => return None,
        }
        Some(())
    }
}

impl Caller {
    /// Closes the store while other threads use it. The first thread that closes it reopens it at
    /// once, while all old handles still exist. Acknowledged writes of other threads must be
    /// present. Further calls on old handles must not change them.
    fn close(&mut self, op: &Op) {
        self.note(op, CallKind::Nothing, false, || {
            self.db.close().unwrap_or_else(|e| panic!("closing: {e}"));
            CallKind::Nothing
        });
        if std::mem::replace(&mut self.record.0.lock().closed, true) {
            return;
        }
        let options = DbOptions { background_threads: 0, ..self.program.db.clone() };
        let db = Db::open_in(Arc::new(self.env.clone()), DIR, options)
            .unwrap_or_else(|e| panic!("opening again: {e}"));
        assert!(
            db.torn_log().is_none(),
            "the log of a store that was closed is torn: {:?}",
            db.torn_log()
        );
        self.probe_trees("the state after a close", &db);
        for name in db.tree_names() {
            let tree = db.existing_tree(&name).unwrap_or_else(|e| panic!("tree {name:?}: {e}"));
            tree.compact().unwrap_or_else(|e| panic!("compacting {name:?}: {e}"));
        }
        db.close().unwrap_or_else(|e| panic!("closing again: {e}"));
    }
}

/// Returns the pairs that a cursor visits.
fn walk(mut c: Cursor, forward: bool) -> Result<LinearPairs> {
    let mut pairs = vec![];
    if forward {
        c.first()?
    } else {
        c.last()?
    }
    while c.is_valid() {
        pairs.push((key_of(c.key()), pieces_of(c.value())));
        if forward { c.next()? } else { c.prev()? }
    }
    if !forward {
        pairs.reverse();
    }
    Ok(pairs)
}
