//! Does the steps of a history on a store and on the oracle, and compares.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use firn_kv::env::Env;
use firn_kv::env::mem::{Cut, MemEnv};
use firn_kv::env::os::OsEnv;
use firn_kv::{
    Batch, Cursor, Db, DbOptions, Durability, Error, ErrorKind, MAX_KEY_LEN, Range, Snapshot, Transaction, Tree, Value,
};
use firn_testkit::history::{Ends, Key, Move, Op, SLOTS, Span, Step, TREES, Write};
use firn_testkit::oracle::{self, Oracle};
use firn_testkit::rng::Rng;

use super::sets::{HOOKED, Set, fold_of};

/// Why a history failed.
#[derive(Debug)]
pub struct Failure(pub String);

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure(format!("an error: {e}"))
    }
}

type Outcome<T = ()> = std::result::Result<T, Failure>;

fn ensure(fine: bool, words: impl FnOnce() -> String) -> Outcome {
    if fine { Ok(()) } else { Err(Failure(words())) }
}

fn show(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "nothing".into(),
        Some(b) if b.len() <= 40 => format!("\"{}\"", b.escape_ascii()),
        Some(b) => format!("\"{}…{}\" ({} bytes)", b[..16].escape_ascii(), b[b.len() - 8..].escape_ascii(), b.len()),
    }
}

fn same(what: &str, got: Option<&[u8]>, want: Option<&[u8]>) -> Outcome {
    ensure(got == want, || format!("{what}: expected {}, got {}", show(want), show(got)))
}

type Pair<'a> = (&'a [u8], &'a [u8]);

fn same_pair(what: &str, got: Option<Pair<'_>>, want: Option<Pair<'_>>) -> Outcome {
    same(&format!("{what}, key"), got.map(|p| p.0), want.map(|p| p.0))?;
    same(&format!("{what}, value of {}", show(want.map(|p| p.0))), got.map(|p| p.1), want.map(|p| p.1))
}

fn same_item(what: &str, got: Option<firn_kv::Result<(Value, Value)>>, want: Option<Pair<'_>>) -> Outcome {
    let got = got.transpose()?;
    same_pair(what, got.as_ref().map(|(k, v)| (&**k, &**v)), want)
}

fn refused<T>(what: &str, got: firn_kv::Result<T>, kind: ErrorKind) -> Outcome {
    match got {
        Ok(_) => Err(Failure(format!("{what} was not refused"))),
        Err(e) => ensure(e.kind() == kind, || format!("{what}: expected an error of kind {kind:?}, got {e}")),
    }
}

/// Where the store is.
struct Place {
    mem: Option<MemEnv>,
    env: Arc<dyn Env>,
    dir: PathBuf,
}

impl Place {
    fn new(set: &Set, seed: u64) -> Place {
        if set.os {
            return Place { mem: None, env: OsEnv::new(), dir: fresh_dir(set.name) };
        }
        Place::of_image(MemEnv::new(seed))
    }

    fn of_image(mem: MemEnv) -> Place {
        Place { env: Arc::new(mem.clone()), mem: Some(mem), dir: "/db".into() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.mem.is_none() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

fn fresh_dir(name: &str) -> PathBuf {
    static N: AtomicU32 = AtomicU32::new(0);
    let n = N.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("firn-model-{}-{name}-{n}", std::process::id()))
}

/// An open iterator with what it has yet to give.
struct Iter {
    range: Range,
    _pins: Option<Rc<()>>,
    left: VecDeque<(Key, Vec<u8>)>,
}

/// An open cursor with all that it may see, and where it stands.
struct Walker {
    cursor: Cursor,
    _pins: Option<Rc<()>>,
    items: Vec<(Key, Vec<u8>)>,
    at: Option<usize>,
}

/// An open snapshot and the time that it sees. Iterators and cursors opened on it keep it (`pins`) after its own end.
struct Frozen {
    snapshot: Snapshot,
    time: u64,
    pins: Rc<()>,
}

/// What goes when the store closes.
#[derive(Default)]
struct Open {
    iters: [Option<Iter>; SLOTS],
    cursors: [Option<Walker>; SLOTS],
    snapshots: [Option<Frozen>; SLOTS],
    transactions: [Option<(Transaction, oracle::Transaction)>; SLOTS],
    trees: [Option<Tree>; TREES],
    db: Option<Db>,
}

/// A store and its oracle.
pub struct Runner<'a> {
    set: &'a Set,
    open: Open,
    oracle: Oracle,
    variants: [usize; TREES],
    /// The snapshots that have been taken.
    taken: Vec<Weak<()>>,
    /// How many checkpoints there have been: a crash may bring an old one back, so each has a name of its own.
    copies: usize,
    place: Place,
}

fn tree_name(tree: usize) -> String {
    format!("tree-{tree}")
}

fn collect<'a>(items: impl Iterator<Item = Pair<'a>>) -> Vec<(Key, Vec<u8>)> {
    items.map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
}

impl<'a> Runner<'a> {
    pub fn new(set: &'a Set, seed: u64) -> Runner<'a> {
        let (open, oracle, place) = (Open::default(), Oracle::default(), Place::new(set, seed));
        Runner { set, open, oracle, variants: [0; TREES], taken: vec![], copies: 0, place }
    }

    /// Opens the store and its trees.
    pub fn open(&mut self) -> Outcome {
        let db = Db::open_in(self.place.env.clone(), &self.place.dir, self.set.db.clone())?;
        for tree in 0..TREES {
            if self.oracle.has(tree) {
                let options = self.set.tree_options(tree, self.variants[tree]);
                let hooked = options.merge.is_some() || options.summary.is_some();
                let name = tree_name(tree);
                self.open.trees[tree] = Some(if hooked { db.tree(&name, options)? } else { db.existing_tree(&name)? });
            }
        }
        self.open.db = Some(db);
        Ok(())
    }

    /// Closes all and the store.
    fn close(&mut self) {
        (0..SLOTS).for_each(|slot| self.drop_snapshot(slot));
        for t in self.open.transactions.iter_mut().filter_map(Option::take) {
            self.oracle.abort(t.1);
        }
        self.open = Open::default();
    }

    /// The last comparison of all.
    pub fn finish(&mut self) -> Outcome {
        self.verify()?;
        self.close();
        self.open()?;
        (0..TREES).try_for_each(|t| self.full_scan(t))?;
        self.stats()
    }

    fn db(&self) -> Outcome<&Db> {
        self.open.db.as_ref().ok_or_else(|| Failure("the store is closed".into()))
    }

    /// Does one step.
    pub fn step(&mut self, step: &Step) -> Outcome {
        match &step.op {
            Op::Write { tree, write, power } => self.write(*tree, write, *power),
            Op::Batch { writes, power } => self.batch(writes, *power),
            Op::Sync => Ok(self.db()?.sync()?),
            Op::WaitIdle => Ok(self.db()?.wait_idle()?),
            Op::TakeSnapshot { slot } => self.take_snapshot(*slot),
            Op::DropSnapshot { slot } => {
                self.drop_snapshot(*slot);
                Ok(())
            }
            Op::Reopen => {
                self.close();
                self.open()
            }
            Op::Crash => self.crash(&Cut::Process),
            Op::PowerCut { seed } => {
                self.db()?.sync()?;
                self.crash(&seed.map_or(Cut::PowerNone, Cut::PowerRandom))
            }
            Op::Checkpoint => self.checkpoint(),
            Op::ReadOnly => self.read_only(),
            Op::Stats => self.stats(),
            Op::Verify => self.verify(),
            Op::Advance { seconds } => {
                self.place.mem.iter().for_each(|m| m.advance(Duration::from_secs(*seconds)));
                Ok(())
            }
            op => self.tree_step(op),
        }
    }

    fn tree_step(&mut self, op: &Op) -> Outcome {
        match op {
            Op::StepIter { slot, front, back } => self.step_iter(*slot, *front, *back),
            Op::CloseIter { slot } => {
                self.open.iters[*slot] = None;
                Ok(())
            }
            Op::MoveCursor { slot, moves } => match &mut self.open.cursors[*slot] {
                Some(w) => w.walk(moves),
                None => Ok(()),
            },
            Op::CloseCursor { slot } => {
                self.open.cursors[*slot] = None;
                Ok(())
            }
            Op::Begin { .. }
            | Op::TxGet { .. }
            | Op::TxScan { .. }
            | Op::TxPut { .. }
            | Op::TxDelete { .. }
            | Op::Commit { .. }
            | Op::Abort { .. }
            | Op::Retry { .. } => self.transaction(op),
            Op::CreateTree { tree } => self.create_tree(*tree),
            Op::DropTree { tree } => self.drop_tree(*tree),
            Op::ChangeOptions { tree, variant } => self.change_options(*tree, *variant),
            op => self.read_step(op),
        }
    }

    fn read_step(&mut self, op: &Op) -> Outcome {
        let (Op::Get { tree, .. }
        | Op::Contains { tree, .. }
        | Op::MultiGet { tree, .. }
        | Op::Scan { tree, .. }
        | Op::Prefix { tree, .. }
        | Op::Walk { tree, .. }
        | Op::FullScan { tree }
        | Op::OpenIter { tree, .. }
        | Op::OpenCursor { tree, .. }
        | Op::Flush { tree }
        | Op::Compact { tree }
        | Op::CompactRange { tree, .. }
        | Op::Size { tree, .. }
        | Op::Refused { tree }) = op
        else {
            return Err(Failure(format!("nobody does {op:?}")));
        };
        let Some(t) = self.open.trees[*tree].clone() else {
            return refused("a tree that is not there", self.db()?.existing_tree(&tree_name(*tree)), ErrorKind::NotFound);
        };
        let n = *tree;
        match op {
            Op::Get { key, at, .. } => self.get(&t, n, key, *at),
            Op::Contains { key, at, .. } => self.contains(&t, n, key, *at),
            Op::MultiGet { keys, .. } => self.multi_get(&t, n, keys),
            Op::Scan { span, ends, limit, at, .. } => {
                let got = self.range(&t, span, *at);
                self.scan(n, span, got, *ends, *limit, *at)
            }
            Op::Prefix { prefix, ends, limit, at, .. } => self.prefix(&t, n, prefix, *ends, *limit, *at),
            Op::Walk { span, moves, at, .. } => self.walker(&t, n, span, *at)?.walk(moves),
            Op::FullScan { .. } => self.full_scan(n),
            Op::OpenIter { slot, span, at, .. } => {
                let left = self.items(n, span, *at).into();
                self.open.iters[*slot] = Some(Iter { range: self.range(&t, span, *at), _pins: self.pins(*at), left });
                Ok(())
            }
            Op::OpenCursor { slot, span, at, .. } => {
                self.open.cursors[*slot] = Some(self.walker(&t, n, span, *at)?);
                Ok(())
            }
            Op::Flush { .. } => Ok(t.flush()?),
            Op::Compact { .. } => Ok(t.compact()?),
            Op::CompactRange { from, to, .. } => Ok(t.compact_range(from, to)?),
            Op::Size { from, to, .. } => self.size(&t, n, from, to),
            _ => self.refusals(&t, n),
        }
    }

    /// The snapshot of a slot and the time that it sees.
    fn snapshot(&self, at: Option<usize>) -> (Option<&Snapshot>, u64) {
        match at.and_then(|i| self.open.snapshots[i].as_ref()) {
            Some(f) => (Some(&f.snapshot), f.time),
            None => (None, self.oracle.now()),
        }
    }

    fn pins(&self, at: Option<usize>) -> Option<Rc<()>> {
        at.and_then(|i| self.open.snapshots[i].as_ref()).map(|f| f.pins.clone())
    }

    fn items(&self, tree: usize, span: &Span, at: Option<usize>) -> Vec<(Key, Vec<u8>)> {
        collect(self.oracle.range(tree, span, self.snapshot(at).1))
    }

    fn write(&mut self, tree: usize, write: &Write, power: bool) -> Outcome {
        let Some(t) = &self.open.trees[tree] else { return Ok(()) };
        match write {
            Write::Put(k, v) if power => t.put_with(k, &v.bytes(), Durability::Power)?,
            Write::Put(k, v) => t.put(k, &v.bytes())?,
            Write::Delete(k) => t.delete(k)?,
            Write::DeleteRange(a, b) => t.delete_range(a, b)?,
            Write::Merge(k, v) if HOOKED[tree] => t.merge(k, &v.bytes())?,
            Write::Merge(k, v) => return refused("an operand", t.merge(k, &v.bytes()), ErrorKind::InvalidArgument),
        }
        self.oracle.write(tree, write);
        Ok(())
    }

    fn batch(&mut self, writes: &[(usize, Write)], power: bool) -> Outcome {
        let mut batch = Batch::new();
        for (tree, write) in writes {
            let Some(t) = &self.open.trees[*tree] else { continue };
            match write {
                Write::Put(k, v) => batch.put(t, k, &v.bytes())?,
                Write::Delete(k) => batch.delete(t, k)?,
                Write::DeleteRange(a, b) => batch.delete_range(t, a, b)?,
                Write::Merge(k, v) => batch.merge(t, k, &v.bytes())?,
            }
        }
        let db = self.db()?;
        if power {
            db.write_with(batch, Durability::Power)?
        } else {
            db.write(batch)?
        }
        for (tree, write) in writes {
            self.oracle.write(*tree, write);
        }
        Ok(())
    }

    fn get(&self, t: &Tree, tree: usize, key: &[u8], at: Option<usize>) -> Outcome {
        let (snapshot, time) = self.snapshot(at);
        let got = snapshot.map_or_else(|| t.get(key), |s| s.get(t, key))?;
        same("get", got.as_deref(), self.oracle.get(tree, key, time))
    }

    fn contains(&self, t: &Tree, tree: usize, key: &[u8], at: Option<usize>) -> Outcome {
        let (snapshot, time) = self.snapshot(at);
        let got = snapshot.map_or_else(|| t.contains(key), |s| s.contains(t, key))?;
        let want = self.oracle.get(tree, key, time).is_some();
        ensure(got == want, || format!("contains: expected {want}, got {got}"))
    }

    fn multi_get(&self, t: &Tree, tree: usize, keys: &[Key]) -> Outcome {
        let got = t.multi_get(keys)?;
        ensure(got.len() == keys.len(), || format!("{} answers for {} keys", got.len(), keys.len()))?;
        for (k, v) in keys.iter().zip(got) {
            same("multi_get", v.as_deref(), self.oracle.get(tree, k, self.oracle.now()))?;
        }
        Ok(())
    }

    fn range(&self, t: &Tree, span: &Span, at: Option<usize>) -> Range {
        self.snapshot(at).0.map_or_else(|| t.range::<&[u8]>(span.bounds()), |s| s.range::<&[u8]>(t, span.bounds()))
    }

    fn scan(&self, tree: usize, span: &Span, mut got: Range, ends: Ends, limit: usize, at: Option<usize>) -> Outcome {
        let mut want = self.oracle.range(tree, span, self.snapshot(at).1);
        let mut rng = Rng::new(if let Ends::Both(seed) = ends { seed } else { 0 });
        for _ in 0..limit {
            let front = match ends {
                Ends::Front => true,
                Ends::Back => false,
                Ends::Both(_) => rng.one_in(2),
            };
            let item = if front { want.next() } else { want.next_back() };
            let done = item.is_none();
            let what = if front { "forward" } else { "backward" };
            same_item(what, if front { got.next() } else { got.next_back() }, item)?;
            if done {
                same_item("behind the end", got.next_back(), None)?;
                return same_item("behind the end", got.next(), None);
            }
        }
        Ok(())
    }

    fn prefix(&self, t: &Tree, tree: usize, prefix: &[u8], ends: Ends, limit: usize, at: Option<usize>) -> Outcome {
        let got = self.snapshot(at).0.map_or_else(|| t.prefix(prefix), |s| s.prefix(t, prefix));
        let end = prefix.iter().rposition(|b| *b != 0xff).map(|i| {
            let mut end = prefix[..=i].to_vec();
            end[i] += 1;
            end
        });
        let to = end.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let span = Span { from: std::ops::Bound::Included(prefix.to_vec()), to };
        self.scan(tree, &span, got, ends, limit, at)
    }

    fn walker(&self, t: &Tree, tree: usize, span: &Span, at: Option<usize>) -> Outcome<Walker> {
        let cursor = match self.snapshot(at).0 {
            Some(s) => s.cursor::<&[u8]>(t, span.bounds())?,
            None => t.cursor::<&[u8]>(span.bounds())?,
        };
        Ok(Walker { cursor, _pins: self.pins(at), items: self.items(tree, span, at), at: None })
    }

    /// All keys of a tree from both ends, and each by itself.
    fn full_scan(&self, tree: usize) -> Outcome {
        let Some(t) = &self.open.trees[tree] else { return Ok(()) };
        let all = Span::all();
        self.scan(tree, &all, t.iter(), Ends::Front, usize::MAX, None)?;
        self.scan(tree, &all, t.iter(), Ends::Back, usize::MAX, None)?;
        for (k, v) in self.oracle.range(tree, &all, self.oracle.now()) {
            same("get in a full scan", t.get(k)?.as_deref(), Some(v))?;
        }
        Ok(())
    }

    fn step_iter(&mut self, slot: usize, front: usize, back: usize) -> Outcome {
        let Some(iter) = &mut self.open.iters[slot] else { return Ok(()) };
        for i in 0..front + back {
            let (got, want) = if i < front {
                (iter.range.next(), iter.left.pop_front())
            } else {
                (iter.range.next_back(), iter.left.pop_back())
            };
            let what = if i < front { "iterator forward" } else { "iterator backward" };
            same_item(what, got, want.as_ref().map(|(k, v)| (&k[..], &v[..])))?;
        }
        Ok(())
    }

    fn take_snapshot(&mut self, slot: usize) -> Outcome {
        let snapshot = self.db()?.snapshot();
        self.drop_snapshot(slot);
        let time = self.oracle.hold();
        ensure(snapshot.seq() == time, || format!("a snapshot at {} where {time} was expected", snapshot.seq()))?;
        let pins = Rc::new(());
        self.taken.retain(|t| t.strong_count() > 0);
        self.taken.push(Rc::downgrade(&pins));
        self.open.snapshots[slot] = Some(Frozen { snapshot, time, pins });
        Ok(())
    }

    fn drop_snapshot(&mut self, slot: usize) {
        if let Some(f) = self.open.snapshots[slot].take() {
            self.oracle.release(f.time);
        }
    }

    fn create_tree(&mut self, tree: usize) -> Outcome {
        let t = self.db()?.tree(&tree_name(tree), self.set.tree_options(tree, self.variants[tree]))?;
        if !self.oracle.has(tree) {
            self.oracle.create(tree, fold_of(tree));
        }
        self.open.trees[tree] = Some(t);
        Ok(())
    }

    fn drop_tree(&mut self, tree: usize) -> Outcome {
        let name = tree_name(tree);
        let Some(t) = self.open.trees[tree].take() else {
            return refused("dropping a tree that is not there", self.db()?.drop_tree(&name), ErrorKind::NotFound);
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

    fn change_options(&mut self, tree: usize, variant: usize) -> Outcome {
        if self.open.trees[tree].is_some() {
            self.variants[tree] = variant;
            let options = self.set.tree_options(tree, variant);
            let policy = options.policy.clone();
            let t = self.db()?.tree(&tree_name(tree), options)?;
            ensure(t.options().policy == policy, || "the policy was not changed".into())?;
        }
        Ok(())
    }

    fn size(&self, t: &Tree, tree: usize, from: &[u8], to: &[u8]) -> Outcome {
        let size = t.approximate_size(from, to)?;
        ensure(from < to || size == 0, || format!("an empty range of {size} bytes"))?;
        if self.set.db.background_threads == 0 {
            let stats = self.db()?.stats();
            let name = tree_name(tree);
            let all: u64 = stats.trees.iter().filter(|t| t.name == name).flat_map(|t| &t.runs).map(|r| r.bytes).sum();
            ensure(size <= all, || format!("a range of {size} bytes in tables of {all}"))?;
        }
        Ok(())
    }

    fn refusals(&self, t: &Tree, tree: usize) -> Outcome {
        let long = vec![b'k'; MAX_KEY_LEN + 1];
        refused("a long key", t.put(&long, b""), ErrorKind::InvalidArgument)?;
        refused("a long end", t.delete_range(b"", &long), ErrorKind::InvalidArgument)?;
        let again = Db::open_in(self.place.env.clone(), &self.place.dir, self.set.db.clone());
        refused("a second open", again, ErrorKind::Locked)?;
        let mut other = self.set.tree_options(tree, 0);
        other.merge = self.set.tree_options(5 - tree.max(2), 0).merge;
        if HOOKED[tree] {
            refused("another hook", self.db()?.tree(&tree_name(tree), other), ErrorKind::Incompatible)?;
        }
        Ok(())
    }

    fn stats(&self) -> Outcome {
        let stats = self.db()?.stats();
        let mut names: Vec<&str> = stats.trees.iter().map(|t| t.name.as_str()).collect();
        names.sort_unstable();
        let want: Vec<String> = (0..TREES).filter(|t| self.oracle.has(*t)).map(tree_name).collect();
        ensure(names == want, || format!("trees {names:?}, expected {want:?}"))?;
        let now = self.oracle.now();
        ensure(stats.seq == now, || format!("sequence number {}, expected {now}", stats.seq))?;
        let taken = self.taken.iter().filter(|t| t.strong_count() > 0).count();
        let holds = taken + self.open.transactions.iter().flatten().count();
        ensure(stats.snapshots.len() == holds, || format!("{} snapshots, expected {holds}", stats.snapshots.len()))?;
        for t in &stats.trees {
            for r in &t.runs {
                ensure(r.tables > 0 && r.bytes > 0, || format!("an empty run in {}: {r:?}", t.name))?;
                ensure(r.deletes <= r.entries, || format!("more deletes than entries: {r:?}"))?;
            }
        }
        ensure(stats.memory.budget == self.set.db.memory_budget as u64, || "another memory budget".into())
    }

    fn verify(&self) -> Outcome {
        let mut last = (0, 0);
        let found = self.db()?.verify(|done, all| last = (done, all))?;
        ensure(found.errors.is_empty(), || format!("verify found {:?}", found.errors))?;
        ensure(last.0 == last.1 && found.bytes == last.0, || format!("verify read {} of {} bytes", last.0, last.1))
    }

    /// The store stops as by a crash, and another is opened on what that leaves.
    fn crash(&mut self, cut: &Cut) -> Outcome {
        let next = match &self.place.mem {
            Some(mem) => Some(Place::of_image(mem.crash_image(0, cut))),
            // A copy is only an image of one moment when nobody works in the background.
            None if self.set.db.background_threads == 0 => {
                let next = Place { mem: None, env: OsEnv::new(), dir: fresh_dir(self.set.name) };
                copy_dir(&self.place.dir, &next.dir).map_err(|e| Failure(e.to_string()))?;
                Some(next)
            }
            None => None,
        };
        self.close();
        if let Some(next) = next {
            self.place = next;
        }
        self.open()
    }

    fn checkpoint(&mut self) -> Outcome {
        self.copies += 1;
        let dir = self.place.dir.with_extension(format!("copy{}", self.copies));
        self.db()?.checkpoint(&dir)?;
        let result = self.look_at_copy(&dir);
        let env = &self.place.env;
        for name in env.list(&dir)? {
            // A table that its last reader has let go may be removed by then: readers go when the epoch does.
            match env.remove(&dir.join(name)) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e.into()),
                _ => {}
            }
        }
        env.remove_dir(&dir)?;
        result
    }

    fn look_at_copy(&self, dir: &Path) -> Outcome {
        let db = Db::open_in(self.place.env.clone(), dir, self.set.db.clone())?;
        let trees = self.same_store("checkpoint", &db)?;
        ensure(db.stats().seq == self.oracle.now(), || "a checkpoint with another sequence number".into())?;
        if let Some((t, n)) = trees.iter().zip(0..).next() {
            t.put(b"only in the copy", b"")?;
            t.compact()?;
            ensure(t.contains(b"only in the copy")?, || format!("a write to the copy of tree {n} was lost"))?;
        }
        Ok(())
    }

    fn read_only(&self) -> Outcome {
        let options = DbOptions { read_only: true, ..self.set.db.clone() };
        let db = Db::open_in(self.place.env.clone(), &self.place.dir, options)?;
        let trees = self.same_store("read-only", &db)?;
        trees.iter().try_for_each(|t| refused("a write to a read-only store", t.put(b"k", b""), ErrorKind::ReadOnly))
    }

    /// Compares another store with the present state.
    fn same_store(&self, what: &str, db: &Db) -> Outcome<Vec<Tree>> {
        let mut trees = vec![];
        for tree in (0..TREES).filter(|t| self.oracle.has(*t)) {
            let t = db.tree(&tree_name(tree), self.set.tree_options(tree, self.variants[tree]))?;
            for ends in [Ends::Front, Ends::Back] {
                self.scan(tree, &Span::all(), t.iter(), ends, usize::MAX, None)
                    .map_err(|Failure(words)| Failure(format!("{what}, tree {tree}: {words}")))?;
            }
            trees.push(t);
        }
        ensure(db.tree_names().len() == trees.len(), || format!("{what}: trees {:?}", db.tree_names()))?;
        Ok(trees)
    }

    fn transaction(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Begin { slot } => {
                let tx = self.db()?.transaction();
                self.abort(*slot);
                self.open.transactions[*slot] = Some((tx, self.oracle.begin()));
                Ok(())
            }
            Op::Abort { slot } => {
                self.abort(*slot);
                Ok(())
            }
            Op::Commit { slot, power } => self.commit(*slot, *power),
            Op::Retry { tree, key, value, disturb } => self.retry(*tree, key, &value.bytes(), *disturb),
            op => self.in_transaction(op),
        }
    }

    fn abort(&mut self, slot: usize) {
        if let Some((_, tx)) = self.open.transactions[slot].take() {
            self.oracle.abort(tx);
        }
    }

    fn commit(&mut self, slot: usize, power: bool) -> Outcome {
        let Some((mut tx, model)) = self.open.transactions[slot].take() else { return Ok(()) };
        if power {
            tx.set_durability(Durability::Power);
        }
        let fine = self.oracle.commit(model);
        match tx.commit() {
            Ok(()) => ensure(fine, || "a commit that should have met a conflict".into()),
            Err(e) if e.kind() == ErrorKind::Conflict => ensure(!fine, || format!("a conflict where none was expected: {e}")),
            Err(e) => Err(e.into()),
        }
    }

    fn in_transaction(&mut self, op: &Op) -> Outcome {
        let (Op::TxGet { slot, tree, .. }
        | Op::TxScan { slot, tree, .. }
        | Op::TxPut { slot, tree, .. }
        | Op::TxDelete { slot, tree, .. }) = op
        else {
            return Err(Failure(format!("nobody does {op:?}")));
        };
        let (Some(t), Some((tx, model))) = (&self.open.trees[*tree], &mut self.open.transactions[*slot]) else { return Ok(()) };
        match op {
            Op::TxGet { key, .. } => {
                let want = model.get(&self.oracle, *tree, key);
                same("get in a transaction", tx.get(t, key)?.as_deref(), want.as_deref())
            }
            Op::TxScan { span, .. } => {
                let want = model.range(&self.oracle, *tree, span);
                let got = tx.range::<&[u8]>(t, span.bounds())?;
                let mut got = got.iter().map(|(k, v)| (k.as_slice(), &**v));
                for (k, v) in &want {
                    same_pair("range in a transaction", got.next(), Some((k, v)))?;
                }
                same_pair("the end of a range in a transaction", got.next(), None)
            }
            Op::TxPut { key, value, .. } => {
                let value = value.bytes();
                tx.put(t, key, &value)?;
                model.put(*tree, key, Some(value));
                Ok(())
            }
            Op::TxDelete { key, .. } => {
                tx.delete(t, key)?;
                model.put(*tree, key, None);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads and replaces a key in the retrying loop; `disturb`: somebody writes the key during the first try.
    fn retry(&mut self, tree: usize, key: &[u8], value: &[u8], disturb: bool) -> Outcome {
        let Some(t) = &self.open.trees[tree] else { return Ok(()) };
        let mut tries = 0;
        let seen = self.db()?.transact(3, |tx| {
            tries += 1;
            let seen = tx.get(t, key)?.map(|v| v.to_vec());
            if disturb && tries == 1 {
                t.put(key, b"disturbed")?;
            }
            tx.put(t, key, value)?;
            Ok(seen)
        })?;
        ensure(tries == 1 + usize::from(disturb), || format!("{tries} tries"))?;
        let before = self.oracle.get(tree, key, self.oracle.now());
        let want = if disturb { Some(&b"disturbed"[..]) } else { before };
        same("get in the retrying loop", seen.as_deref(), want)?;
        for v in disturb.then_some(&b"disturbed"[..]).into_iter().chain([value]) {
            let mut tx = self.oracle.begin();
            tx.put(tree, key, Some(v.to_vec()));
            self.oracle.commit(tx);
        }
        Ok(())
    }
}

impl Walker {
    fn walk(&mut self, moves: &[Move]) -> Outcome {
        let n = self.items.len();
        for m in moves {
            self.at = match m {
                Move::First => {
                    self.cursor.first()?;
                    Some(0)
                }
                Move::Last => {
                    self.cursor.last()?;
                    n.checked_sub(1)
                }
                Move::Seek(k) => {
                    self.cursor.seek(k)?;
                    Some(self.items.partition_point(|(i, _)| i < k))
                }
                Move::SeekBefore(k) => {
                    self.cursor.seek_before(k)?;
                    self.items.partition_point(|(i, _)| i < k).checked_sub(1)
                }
                Move::Next => {
                    self.cursor.next()?;
                    self.at.map(|i| i + 1)
                }
                Move::Prev => {
                    self.cursor.prev()?;
                    self.at.and_then(|i| i.checked_sub(1))
                }
            }
            .filter(|i| *i < n);
            let got = self.cursor.valid().then(|| (self.cursor.key(), self.cursor.value()));
            let want = self.at.and_then(|i| self.items.get(i)).map(|(k, v)| (&k[..], &v[..]));
            same_pair(&format!("cursor after {m:?}"), got, want)?;
        }
        Ok(())
    }
}

fn copy_dir(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        match std::fs::copy(entry.path(), to.join(entry.file_name())) {
            // A table that its last reader has let go may be removed at any time.
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}
