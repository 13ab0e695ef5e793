//! A history of operations on a store in memory, compared with a map.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use arbitrary::Arbitrary;
use firn_crash::{CrashEnv, Cut};
use firn_kv::{
    Batch, Compression, Db, DbOptions, FilterKind, MergeOperator, MergeResult, Policy, ReadMode,
    Result, Snapshot, Tree, TreeOptions,
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// One of few keys: bits choose a prefix, a byte and a tail.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Key(u16);

impl Key {
    fn bytes(self) -> Vec<u8> {
        let mut k = match self.0 >> 6 & 3 {
            0 => vec![],
            1 => b"prefix".to_vec(),
            2 => b"a much longer prefix that many keys have, over and over".to_vec(),
            _ => vec![0xff; 9],
        };
        k.extend((self.0 & 0x20 == 0).then_some((self.0 & 0x1f) as u8 * 8));
        k.resize(k.len() + (self.0 >> 8 & 3) as usize, (self.0 >> 10 & 1) as u8);
        k
    }
}

/// A value: its length and its fill byte.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Value(u16, u8);

impl Value {
    fn bytes(self) -> Vec<u8> {
        let len = if self.0 & 0x8000 == 0 { self.0 % 40 } else { self.0 % 9000 } as usize;
        (0..len)
            .map(|i| {
                if self.1 & 1 == 0 {
                    self.1
                } else {
                    (i as u8).wrapping_mul(self.1) ^ (i >> 5) as u8
                }
            })
            .collect()
    }
}

/// One write.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Write {
    /// A put.
    Put(bool, Key, Value),
    /// A delete.
    Delete(bool, Key),
    /// A range deletion.
    DeleteRange(bool, Key, Key),
    /// A merge operand.
    Merge(bool, Key, u8),
}

/// One step of a history.
#[derive(Arbitrary, Clone, Debug)]
#[allow(missing_docs)]
pub enum Step {
    Write(Write),
    Fill(bool, Key, u8, Value),
    Batch(Vec<Write>),
    Get(bool, Key),
    Scan { tree: bool, from: Key, until: Key, inclusive: bool, both: u8 },
    Prefix(bool, Key),
    Cursor(bool, Vec<Move>),
    Snapshot,
    Look(Key),
    Release,
    Transaction(bool, Key, Key, Value),
    Flush(bool),
    Compact(bool),
    CompactRange(bool, Key, Key),
    Sync,
    Reopen,
    Kill,
    Power(u64, bool),
    Verify,
}

/// A move of a cursor.
#[derive(Arbitrary, Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Move {
    First,
    Last,
    Next,
    Prev,
    Seek(Key),
    SeekBefore(Key),
}

/// A history and the options it runs under.
#[derive(Arbitrary, Debug)]
#[allow(missing_docs)]
pub struct History {
    block: u8,
    raw: bool,
    wide_filter: bool,
    pread: bool,
    policy: [u8; 8],
    steps: Vec<Step>,
}

/// Tree `false` joins operands; tree `true` adds them up and has no value at zero.
struct Join;
struct Sum;

fn sum(base: Option<&[u8]>, operands: &[&[u8]]) -> u8 {
    base.into_iter()
        .chain(operands.iter().copied())
        .fold(0, |s, b| s.wrapping_add(b.first().copied().unwrap_or(0)))
}

impl MergeOperator for Join {
    fn name(&self) -> &str {
        "join"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        Ok(MergeResult::Value([base.unwrap_or_default(), &operands.concat()].concat()))
    }

    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, newer].concat())
    }
}

impl MergeOperator for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        Ok(match sum(base, operands) {
            0 => MergeResult::Absent,
            s => MergeResult::Value(vec![s]),
        })
    }
}

/// Returns a policy that drops only deleted data, drawn from the bytes of `choice`.
fn policy(choice: [u8; 8]) -> Policy {
    let mut bytes = choice.into_iter();
    let policy = Policy::draw(&mut |n| u64::from(bytes.next().unwrap_or(0)) % n);
    if policy.drops_live_data() { Policy::default() } else { policy }
}

struct Run {
    env: CrashEnv,
    options: DbOptions,
    tree_options: [TreeOptions; 2],
    open: Option<(Db, [Tree; 2])>,
    now: [Map; 2],
    /// States since the last sync, oldest first: the possible states after a power cut.
    past: Vec<[Map; 2]>,
    snapshots: Vec<(Snapshot, [Map; 2])>,
}

/// Runs a history.
pub fn run(h: History) {
    let tree = |merge: Arc<dyn MergeOperator>| TreeOptions {
        compression: vec![if h.raw { Compression::None } else { Compression::Lz4 }],
        filter: vec![if h.wide_filter { FilterKind::Fuse16 } else { FilterKind::Fuse8 }],
        block_size: 512 + h.block as usize * 16,
        table_size: 64 << 10,
        memtable_size: 64 << 10,
        policy: policy(h.policy),
        merge_operator: Some(merge),
        ..TreeOptions::default()
    };
    let options = DbOptions {
        memory_budget: 2 << 20,
        background_threads: 0,
        read_mode: if h.pread { ReadMode::Pread } else { ReadMode::Mmap },
        wal_segment: 64 << 10,
        ..DbOptions::default()
    };
    let tree_options = [tree(Arc::new(Join)), tree(Arc::new(Sum))];
    let (now, past) = Default::default();
    let mut r = Run {
        env: CrashEnv::new(1),
        options,
        tree_options,
        open: None,
        now,
        past,
        snapshots: vec![],
    };
    r.open();
    r.sync();
    for step in h.steps.iter().take(400) {
        r.step(step);
    }
    r.look_at_all();
    r.step(&Step::Verify);
    r.reopen(r.env.clone());
    r.look_at_all();
}

fn dump<'a>(
    items: impl Iterator<Item = Result<(firn_kv::Value, firn_kv::Value)>> + 'a,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    items.map(|i| i.map(|(k, v)| (k.to_vec(), v.to_vec())).expect("a scan")).collect()
}

fn expected(map: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
}

impl Run {
    fn open(&mut self) {
        let db =
            Db::open_in(Arc::new(self.env.clone()), "/db", self.options.clone()).expect("opening");
        let tree =
            |i: usize| db.tree(["join", "sum"][i], self.tree_options[i].clone()).expect("a tree");
        let trees = [tree(0), tree(1)];
        self.open = Some((db, trees));
    }

    fn reopen(&mut self, env: CrashEnv) {
        self.snapshots.clear();
        self.open = None;
        self.env = env;
        self.open();
    }

    fn db(&self) -> &Db {
        &self.open.as_ref().expect("open").0
    }

    fn tree(&self, t: bool) -> &Tree {
        &self.open.as_ref().expect("open").1[t as usize]
    }

    fn sync(&mut self) {
        self.db().sync().expect("a sync");
        self.past = vec![self.now.clone()];
    }

    fn wrote(&mut self) {
        self.past.push(self.now.clone());
        if self.past.len() > 40 {
            self.sync();
        }
    }

    fn apply(&mut self, w: Write) {
        match w {
            Write::Put(t, k, v) => {
                self.now[t as usize].insert(k.bytes(), v.bytes());
            }
            Write::Delete(t, k) => {
                self.now[t as usize].remove(&k.bytes());
            }
            Write::DeleteRange(t, a, b) => {
                let (a, b) = (a.bytes(), b.bytes());
                self.now[t as usize].retain(|k, _| *k < a || *k >= b);
            }
            Write::Merge(t, k, n) => {
                let map = &mut self.now[t as usize];
                let base = map.get(&k.bytes()).cloned();
                let folded = if t {
                    Sum.full_merge(&[], base.as_deref(), &[&[n]])
                } else {
                    Join.full_merge(&[], base.as_deref(), &[&[n]])
                };
                match folded {
                    Ok(MergeResult::Value(v)) => map.insert(k.bytes(), v),
                    _ => map.remove(&k.bytes()),
                };
            }
        }
    }

    fn write(&mut self, w: Write) {
        match w {
            Write::Put(t, k, v) => self.tree(t).put(&k.bytes(), &v.bytes()),
            Write::Delete(t, k) => self.tree(t).delete(&k.bytes()),
            Write::DeleteRange(t, a, b) => self.tree(t).delete_range(&a.bytes()..&b.bytes()),
            Write::Merge(t, k, n) => self.tree(t).merge(&k.bytes(), &[n]),
        }
        .expect("a write");
        self.apply(w);
        self.wrote();
    }

    fn batch(&mut self, writes: &[Write]) {
        let mut b = Batch::new();
        for &w in writes {
            match w {
                Write::Put(t, k, v) => b.put(self.tree(t), &k.bytes(), &v.bytes()),
                Write::Delete(t, k) => b.delete(self.tree(t), &k.bytes()),
                Write::DeleteRange(t, x, y) => b.delete_range(self.tree(t), &x.bytes()..&y.bytes()),
                Write::Merge(t, k, n) => b.merge(self.tree(t), &k.bytes(), &[n]),
            }
            .expect("a batch");
            self.apply(w);
        }
        self.db().write(b).expect("a batch");
        self.wrote();
    }

    fn look_at_all(&self) {
        for t in [false, true] {
            let want = expected(&self.now[t as usize]);
            assert_eq!(dump(self.tree(t).iter()), want);
            let mut back = dump(self.tree(t).iter().rev());
            back.reverse();
            assert_eq!(back, want);
        }
        for (s, maps) in &self.snapshots {
            for t in [false, true] {
                assert_eq!(
                    dump(s.range(self.tree(t), ..)),
                    expected(&maps[t as usize]),
                    "a snapshot"
                );
            }
        }
    }

    fn power_cut(&mut self, cut: Cut) {
        let image = self.env.crash_image(0, &cut);
        self.reopen(image);
        let seen: Vec<Map> =
            [false, true].map(|t| dump(self.tree(t).iter()).into_iter().collect()).to_vec();
        let found = self.past.iter().rposition(|p| p[..] == seen[..]);
        self.now = found
            .map(|i| self.past[i].clone())
            .expect("the state after a power cut is one that was, since the last sync");
        self.sync();
    }

    fn cursor(&self, t: bool, moves: &[Move]) {
        let keys: Vec<_> = self.now[t as usize].iter().collect();
        let mut c = self.tree(t).cursor(..).expect("a cursor");
        let mut at: Option<usize> = None;
        for m in moves.iter().take(100) {
            match *m {
                Move::First => c.first(),
                Move::Last => c.last(),
                Move::Next => c.next(),
                Move::Prev => c.prev(),
                Move::Seek(k) => c.seek(&k.bytes()),
                Move::SeekBefore(k) => c.seek_before(&k.bytes()),
            }
            .expect("a move");
            at = match *m {
                Move::First => Some(0),
                Move::Last => keys.len().checked_sub(1),
                Move::Next => at.map(|i| i + 1),
                Move::Prev => at.and_then(|i| i.checked_sub(1)),
                Move::Seek(k) => Some(keys.partition_point(|e| e.0[..] < k.bytes()[..])),
                Move::SeekBefore(k) => {
                    keys.partition_point(|e| e.0[..] < k.bytes()[..]).checked_sub(1)
                }
            }
            .filter(|&i| i < keys.len());
            let want = at.map(|i| (&keys[i].0[..], &keys[i].1[..]));
            assert_eq!(c.is_valid().then(|| (c.key(), c.value())), want, "{m:?}");
        }
    }

    fn scan(&self, t: bool, from: Key, until: Key, inclusive: bool, mut both: u8) {
        let (from, until) = (from.bytes(), until.bytes());
        let end =
            if inclusive { Bound::Included(until.clone()) } else { Bound::Excluded(until.clone()) };
        let map = &self.now[t as usize];
        let inside = |k: &Vec<u8>| *k >= from && (*k < until || (inclusive && *k == until));
        let want: Vec<_> = expected(map).into_iter().filter(|(k, _)| inside(k)).collect();
        let range = (Bound::Included(from.clone()), end);
        assert_eq!(dump(self.tree(t).range(range.clone())), want);
        let mut it = self.tree(t).range(range);
        let (mut front, mut back) = (vec![], vec![]);
        loop {
            both = both.rotate_left(1);
            let item = if both & 1 == 0 { it.next() } else { it.next_back() };
            let Some(item) = item else { break };
            let (k, v) = item.expect("a scan");
            if both & 1 == 0 { &mut front } else { &mut back }.push((k.to_vec(), v.to_vec()));
        }
        back.reverse();
        front.extend(back);
        assert_eq!(front, want, "from both ends");
    }

    fn transaction(&mut self, t: bool, read: Key, write: Key, v: Value) {
        let db = self.db().clone();
        let mut txn = db.transaction();
        let seen = txn.get(self.tree(t), &read.bytes()).expect("a read").map(|v| v.to_vec());
        assert_eq!(seen.as_ref(), self.now[t as usize].get(&read.bytes()));
        txn.put(self.tree(t), &write.bytes(), &v.bytes()).expect("a put");
        assert_eq!(
            txn.get(self.tree(t), &write.bytes()).expect("a read").as_deref(),
            Some(&v.bytes()[..])
        );
        txn.commit().expect("a commit");
        self.apply(Write::Put(t, write, v));
        self.wrote();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write(w) => self.write(*w),
            Step::Fill(t, k, n, v) => {
                for i in 0..(*n as u16 % 32) {
                    self.write(Write::Put(*t, Key(k.0.wrapping_add(i)), *v));
                }
            }
            Step::Batch(w) => self.batch(&w[..w.len().min(40)]),
            Step::Get(t, k) => {
                let got = self.tree(*t).get(&k.bytes()).expect("a read");
                assert_eq!(got.as_deref(), self.now[*t as usize].get(&k.bytes()).map(|v| &v[..]));
            }
            Step::Scan { tree, from, until, inclusive, both } => {
                self.scan(*tree, *from, *until, *inclusive, *both)
            }
            Step::Prefix(t, k) => {
                let p = k.bytes();
                let want: Vec<_> = expected(&self.now[*t as usize])
                    .into_iter()
                    .filter(|(k, _)| k.starts_with(&p))
                    .collect();
                assert_eq!(dump(self.tree(*t).prefix(&p)), want);
            }
            Step::Cursor(t, moves) => self.cursor(*t, moves),
            Step::Snapshot if self.snapshots.len() < 4 => {
                self.snapshots.push((self.db().snapshot(), self.now.clone()))
            }
            Step::Snapshot => {}
            Step::Look(k) => {
                for (s, maps) in &self.snapshots {
                    for t in [false, true] {
                        let got = s.get(self.tree(t), &k.bytes()).expect("a read");
                        assert_eq!(
                            got.as_deref(),
                            maps[t as usize].get(&k.bytes()).map(|v| &v[..]),
                            "a snapshot"
                        );
                    }
                }
            }
            Step::Release => drop(self.snapshots.pop()),
            Step::Transaction(t, r, w, v) => self.transaction(*t, *r, *w, *v),
            Step::Flush(t) => self.tree(*t).flush().expect("a flush"),
            Step::Compact(t) => self.tree(*t).compact().expect("a compaction"),
            Step::CompactRange(t, a, b) => {
                let (a, b) = (a.bytes(), b.bytes());
                self.tree(*t)
                    .compact_range(a.as_slice().min(&b)..=a.as_slice().max(&b))
                    .expect("a compaction");
            }
            Step::Sync => self.sync(),
            Step::Reopen => {
                self.reopen(self.env.clone());
                self.past = vec![self.now.clone()];
            }
            Step::Kill => {
                let image = self.env.fork();
                self.reopen(image);
            }
            Step::Power(_, true) => self.power_cut(Cut::PowerNone),
            Step::Power(seed, false) => self.power_cut(Cut::PowerRandom(*seed)),
            Step::Verify => {
                let v = self.db().verify(|_, _| ()).expect("verifying");
                assert!(v.errors.is_empty(), "{:?}", v.errors);
            }
        }
    }
}
