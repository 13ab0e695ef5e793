//! Values that expire, checked against a model with a virtual clock. After any writes, flushes,
//! compactions, drops and reopenings, every read shows exactly the live values.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::policy::{LazyLeveled, Leveled, Tiered, TimeWindow};
use firn_kv::{
    Batch, BatchOp, Db, DbOptions, ErrorKind, Policy, Snapshot, Subscription, TreeOptions, TtlTree,
    Value,
};
use firn_testkit::rng::Rng;

/// Values by key, each with its expiry time in microseconds.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;
type Entry = (Vec<u8>, Vec<u8>, Option<u64>);

fn decode_value(model: &Model, now: u64) -> Vec<Entry> {
    let all = model.iter().filter(|(_, (_, over))| over.is_none_or(|o| o > now));
    all.map(|(k, (v, over))| (k.clone(), v.clone(), *over)).collect()
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:03}").into_bytes()
}

fn options(rng: &mut Rng) -> TreeOptions {
    let policies = [
        Policy::Tiered(Tiered { min_runs: 2, max_runs: 3, bucket: 10.0, ..Tiered::default() }),
        Policy::Leveled(Leveled {
            level0_runs: 2,
            ratio: 2,
            base: 64 << 10,
            movement: Default::default(),
            ..Leveled::default()
        }),
        Policy::TimeWindow(TimeWindow { window_secs: 5, min_runs: 2, ..TimeWindow::default() }),
        Policy::LazyLeveled(LazyLeveled { ratio: 2, ..LazyLeveled::default() }),
    ];
    let policy = policies[rng.below(4) as usize].clone();
    TreeOptions { policy, block_size: 512, ..TreeOptions::default() }
}

struct Run {
    env: Arc<MemEnv>,
    db: Option<Db>,
    options: TreeOptions,
    tree: Option<TtlTree>,
    model: Model,
    snapshot: Option<(Snapshot, Model)>,
}

impl Run {
    fn new(rng: &mut Rng) -> Run {
        let options = options(rng);
        let mut run = Run {
            env: Arc::new(MemEnv::new(0)),
            db: None,
            options,
            tree: None,
            model: Model::new(),
            snapshot: None,
        };
        run.open();
        run
    }

    fn open(&mut self) {
        (self.snapshot, self.tree, self.db) = (None, None, None);
        let options = DbOptions { background_threads: 0, ..DbOptions::default() };
        let db = Db::open_in(self.env.clone(), "db", options).unwrap();
        self.tree = Some(db.ttl_tree("t", self.options.clone()).unwrap());
        self.db = Some(db);
    }

    fn now(&self) -> u64 {
        self.env.wall_micros()
    }

    fn found(&self, k: &[u8]) -> Option<Vec<u8>> {
        self.model
            .get(k)
            .filter(|(_, over)| over.is_none_or(|o| o > self.now()))
            .map(|(v, _)| v.clone())
    }

    fn set(&mut self, k: Vec<u8>, v: Vec<u8>, lifetime: Option<Duration>) {
        let over = lifetime.map(|t| self.now() + t.as_micros() as u64);
        self.model.insert(k, (v, over));
    }

    fn step(&mut self, rng: &mut Rng) {
        let (tree, db) = (self.tree.clone().unwrap(), self.db.clone().unwrap());
        let (k, v) = (key(rng.below(60)), vec![b'v'; rng.below(40) as usize]);
        let lifetime = (!rng.one_in(4)).then(|| Duration::from_secs(rng.below(20)));
        match rng.below(26) {
            0..=7 => {
                match lifetime {
                    Some(lifetime) => tree.put_with_ttl(&k, &v, lifetime).unwrap(),
                    None => tree.put(&k, &v).unwrap(),
                }
                self.set(k, v, lifetime);
            }
            8 => {
                tree.delete(&k).unwrap();
                self.model.remove(&k);
            }
            9 => {
                let until = key(rng.below(60));
                tree.tree().delete_range(k.clone()..until.clone()).unwrap();
                self.model.retain(|x, _| *x < k || *x >= until);
            }
            10 => {
                let given = tree.insert_if_absent(&k, &v, lifetime).unwrap();
                assert_eq!(given.as_deref(), self.found(&k).as_deref());
                if given.is_none() {
                    self.set(k, v, lifetime);
                }
            }
            11 => {
                let old = if rng.one_in(2) { self.found(&k) } else { None };
                let swapped =
                    tree.compare_and_swap(&k, old.as_deref(), Some((&v, lifetime))).unwrap();
                match swapped {
                    Ok(()) => {
                        assert_eq!(old, self.found(&k));
                        self.set(k, v, lifetime);
                    }
                    Err(other) => assert_eq!(
                        (other.as_deref(), old != self.found(&k)),
                        (self.found(&k).as_deref(), true)
                    ),
                }
            }
            12 => {
                let before = tree
                    .update(&k, |old| old.map(|old| ([&**old, b"!"].concat(), lifetime)))
                    .unwrap();
                assert_eq!(before.as_deref(), self.found(&k).as_deref());
                match before {
                    Some(old) => self.set(k, [&*old, b"!"].concat(), lifetime),
                    None => drop(self.model.remove(&k)),
                }
            }
            13 => {
                let popped = tree.pop_first().unwrap().map(|(k, v)| (k.to_vec(), v.to_vec()));
                let first = decode_value(&self.model, self.now()).into_iter().next();
                assert_eq!(popped, first.clone().map(|(k, v, _)| (k, v)));
                // All entries before the popped one are gone. They had already expired.
                self.model.retain(|x, _| first.as_ref().is_some_and(|(k, ..)| x > k));
            }
            14 => {
                let mut batch = Batch::new();
                for n in 0..3 {
                    let k = key(rng.below(60));
                    batch.put(tree.tree(), &k, tree.encode_value([n], lifetime)).unwrap();
                    self.set(k, vec![n], lifetime);
                }
                db.write(batch).unwrap();
            }
            15 => {
                let mut tx = db.transaction();
                assert_eq!(
                    tree.decode_value(tx.get(tree.tree(), &k).unwrap()).unwrap().as_deref(),
                    self.found(&k).as_deref()
                );
                tx.put(tree.tree(), &k, tree.encode_value(&v, lifetime)).unwrap();
                self.set(k, v, lifetime);
                let seen = tree
                    .decode_range(tx.iter(tree.tree()))
                    .map(|e| told(e.unwrap()))
                    .collect::<Vec<_>>();
                assert_eq!(seen, decode_value(&self.model, self.now()));
                tx.commit().unwrap();
            }
            16..=18 => tree.tree().flush().unwrap(),
            19 => tree.tree().compact().unwrap(),
            20 => tree.tree().compact_range(k..).unwrap(),
            21 | 22 => self.env.advance(Duration::from_secs(rng.below(8))),
            23 => {
                self.snapshot = if self.snapshot.is_some() {
                    None
                } else {
                    Some((db.snapshot(), self.model.clone()))
                }
            }
            24 => db.wait_idle().unwrap(),
            _ => {
                drop((tree, db));
                self.open();
            }
        }
    }

    fn check(&self) {
        let (tree, now) = (self.tree.as_ref().unwrap(), self.now());
        let expected = decode_value(&self.model, now);
        assert_eq!(tree.iter().map(|e| told(e.unwrap())).collect::<Vec<_>>(), expected);
        let mut back: Vec<Entry> = tree.iter().rev().map(|e| told(e.unwrap())).collect();
        back.reverse();
        assert_eq!(back, expected);
        let keys: Vec<Vec<u8>> = (0..60).map(key).collect();
        let got = tree.multi_get(&keys).unwrap();
        for (k, several) in keys.iter().zip(got) {
            let one = tree.get(k).unwrap();
            assert_eq!(
                (one.as_deref(), several.as_deref()),
                (self.found(k).as_deref(), self.found(k).as_deref())
            );
            assert_eq!(tree.contains(k).unwrap(), one.is_some());
        }
        assert_eq!(
            (tree.len().unwrap(), tree.is_empty().unwrap()),
            (expected.len() as u64, expected.is_empty())
        );
        assert_eq!(tree.first().unwrap().map(told), expected.first().cloned());
        assert_eq!(tree.last().unwrap().map(told), expected.last().cloned());
        assert!(
            tree.keys().map(|k| k.unwrap()).eq(expected.iter().map(|(k, ..)| Value::from(&k[..])))
        );
        let within: Vec<Entry> = tree.range(key(10)..key(40)).map(|e| told(e.unwrap())).collect();
        assert!(within.iter().eq(expected.iter().filter(|(k, ..)| (key(10)..key(40)).contains(k))));
        assert_eq!(
            tree.prefix("key01").count(),
            expected.iter().filter(|(k, ..)| k.starts_with(b"key01")).count()
        );
        if let Some((snapshot, model)) = &self.snapshot {
            let seen: Vec<Entry> =
                tree.decode_range(snapshot.iter(tree.tree())).map(|e| told(e.unwrap())).collect();
            assert_eq!(
                seen,
                decode_value(model, now),
                "a snapshot must show its entries that have not expired"
            );
        }
    }
}

fn told((key, value): (Value, firn_kv::TtlValue)) -> Entry {
    (key.to_vec(), value.to_vec(), value.expires_micros())
}

#[test]
fn reads_show_what_is_live_whatever_was_merged() {
    let seeds: u64 =
        std::env::var("FIRN_TTL_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let mut run = Run::new(&mut rng);
        for step in 0..150 {
            let before = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                run.step(&mut rng);
                run.check();
            }));
            assert!(before.is_ok(), "seed {seed}, step {step}");
        }
    }
}

fn store() -> (Arc<MemEnv>, Db) {
    let env = Arc::new(MemEnv::new(0));
    let db =
        Db::open_in(env.clone(), "db", DbOptions { background_threads: 0, ..DbOptions::default() })
            .unwrap();
    (env, db)
}

#[test]
fn what_a_dropped_put_hid_stays_hidden() {
    let (env, db) = store();
    let policy =
        Policy::Tiered(Tiered { min_runs: 2, max_runs: 2, bucket: 1.1, ..Tiered::default() });
    let tree = db
        .ttl_tree("t", TreeOptions { policy, memtable_size: 64 << 10, ..TreeOptions::default() })
        .unwrap();
    // Below is a large old run, which the compaction of two small runs does not include.
    let (mut rng, mut value) = (Rng::new(1), [0; 100]);
    for n in 0..5000 {
        rng.fill(&mut value);
        tree.put(format!("{n:05}"), value).unwrap();
    }
    tree.tree().compact().unwrap();
    tree.put_with_ttl("00007", [2; 1000], Duration::from_secs(1)).unwrap();
    tree.tree().flush().unwrap();
    env.advance(Duration::from_secs(2));
    tree.put("x", "y").unwrap();
    tree.tree().flush().unwrap();
    db.wait_idle().unwrap();
    let tables = tree.tree().tables().unwrap();
    assert_eq!(tables.len(), 2, "the two small runs must be merged");
    assert!(tree.get("00007").unwrap().is_none());
    // The value is gone. The remaining entry is expired under any clock, even one that is set back.
    assert_eq!(*tree.tree().get("00007").unwrap().unwrap(), [0; 8]);
    tree.tree().compact().unwrap();
    assert!(tree.get("00007").unwrap().is_none() && tree.tree().get("00007").unwrap().is_none());
    assert_eq!(tree.len().unwrap(), 5000);
}

#[test]
fn space_comes_back_and_whole_tables_go_unread() {
    let (env, db) = store();
    let tree = db.ttl_tree("t", TreeOptions { block_size: 512, ..TreeOptions::default() }).unwrap();
    (0..1000u32).for_each(|n| {
        tree.put_with_ttl(n.to_be_bytes(), n.to_le_bytes(), Duration::from_secs(10)).unwrap()
    });
    tree.tree().flush().unwrap();
    assert_eq!(db.stats().space.live, db.stats().table_bytes());
    env.advance(Duration::from_secs(11));
    assert!(tree.is_empty().unwrap() && db.stats().space.live > 0);
    db.wait_idle().unwrap();
    let stats = db.stats();
    assert_eq!(
        (stats.space.live, stats.drops, stats.compactions),
        (0, 1, 0),
        "the table must be dropped without being read"
    );
}

/// A snapshot that may see an expired table delays the drop of that table, but no other compaction
/// of the tree.
#[test]
fn a_snapshot_over_expired_tables_delays_no_other_compaction() {
    let (env, db) = store();
    let policy =
        Policy::Tiered(Tiered { min_runs: 2, max_runs: 3, bucket: 10.0, ..Tiered::default() });
    let tree = db.ttl_tree("t", TreeOptions { policy, ..TreeOptions::default() }).unwrap();
    tree.put_with_ttl(key(0), "short", Duration::from_secs(1)).unwrap();
    tree.tree().flush().unwrap();
    let snapshot = db.snapshot();
    env.advance(Duration::from_secs(2));
    for n in 1..40 {
        tree.put(key(n), "for ever").unwrap();
        tree.tree().flush().unwrap();
    }
    let runs = |db: &Db| db.stats().trees[0].runs.len();
    assert!(runs(&db) <= 5, "{} runs", runs(&db));
    assert_eq!(tree.iter().count(), 39);
    drop(snapshot);
    assert!(tree.get(key(0)).unwrap().is_none());
}

#[test]
fn a_tree_is_of_values_that_expire_or_it_is_not() {
    let (_env, db) = store();
    let tree = db.ttl_tree("t", TreeOptions::default()).unwrap();
    assert_eq!(db.tree("t", TreeOptions::default()).unwrap_err().kind(), ErrorKind::Incompatible);
    db.tree("other", TreeOptions::default()).unwrap();
    assert_eq!(
        db.ttl_tree("other", TreeOptions::default()).unwrap_err().kind(),
        ErrorKind::Incompatible
    );
    let hooked = tree.tree().options();
    assert_eq!(db.ttl_tree("third", hooked).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // A value without an expiry time is an error, not a result.
    tree.tree().put("k", "short").unwrap();
    assert_eq!(tree.get("k").unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(tree.iter().next().unwrap().unwrap_err().kind(), ErrorKind::Corruption);
    // The longest lifetime is valid.
    tree.put_with_ttl("long", "v", Duration::MAX).unwrap();
    assert!(tree.get("long").unwrap().unwrap().expires_micros().is_some());
}

#[test]
fn a_change_feed_decodes_values_with_deadlines() {
    let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
    let db = Db::open_in(env.clone(), "/db", DbOptions::default()).unwrap();
    let tree = db.ttl_tree("sessions", TreeOptions::default()).unwrap();
    let plain = db.tree("plain", TreeOptions::default()).unwrap();
    let mut changes = db.subscribe("cache", 1 << 30).unwrap();
    tree.put_with_ttl("a", "1", Duration::from_secs(60)).unwrap();
    tree.put("b", "2").unwrap();
    tree.delete("a").unwrap();
    plain.put("c", "3").unwrap();
    let check = |db: &Db, changes: &mut Subscription| {
        let mut ops = vec![];
        while let Some(change) = changes.next(Duration::ZERO).unwrap() {
            for decoded in change.decoded_ops() {
                let expires = decoded.expires_micros.is_some();
                ops.push(match decoded.op {
                    BatchOp::Put { tree, key, value } => format!(
                        "{tree} {}={} {expires}",
                        String::from_utf8_lossy(key),
                        String::from_utf8_lossy(value)
                    ),
                    BatchOp::Delete { tree, .. } => format!("{tree} {expires}"),
                    op => panic!("{op:?}"),
                });
            }
        }
        assert_eq!(
            ops,
            ["sessions a=1 true", "sessions b=2 false", "sessions false", "plain c=3 false"]
        );
        assert_eq!(db.tree_names().len(), 2);
    };
    check(&db, &mut changes);
    drop((changes, tree, plain, db));
    // Also if the tree was not opened with its hooks.
    let db = Db::open_in(env.clone(), "/db", DbOptions::default()).unwrap();
    check(&db, &mut db.subscribe("cache", 1 << 30).unwrap());
    let stored = db.existing_tree("sessions").unwrap();
    let b = stored.get("b").unwrap().unwrap();
    assert_eq!(stored.split_deadline(&b), (None, &b"2"[..]));
    assert!(b.len() > 1 && db.existing_tree("plain").unwrap().split_deadline(&b) == (None, &*b));
}
