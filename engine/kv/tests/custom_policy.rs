//! Custom policies on the engine: they decide, they are not stored, and a wrong one costs nothing
//! but time. The model, the crash runs and the interleavings draw random custom policies.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex};

use firn_kv::policy::{
    CompactionPolicy, CompactionRequest, CustomPolicy, Leveled, LsmShape, Tiered,
};
use firn_kv::stats::TreeStats;
use firn_kv::{Compression, Db, DbOptions, Env, Event, MemEnv, TreeOptions};

/// A policy from functions of the shape.
struct Scripted {
    requests: fn(&LsmShape) -> Vec<CompactionRequest>,
    max_runs: fn(&LsmShape) -> Option<usize>,
    failure: Option<&'static str>,
}

impl CompactionPolicy for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn requests(&self, shape: &LsmShape) -> Vec<CompactionRequest> {
        (self.requests)(shape)
    }

    fn max_runs(&self, shape: &LsmShape) -> Option<usize> {
        (self.max_runs)(shape)
    }

    fn failure(&self) -> Option<String> {
        self.failure.map(str::to_owned)
    }
}

const IDLE: Scripted = Scripted { requests: |_| vec![], max_runs: |_| None, failure: None };

fn everything(shape: &LsmShape) -> Vec<CompactionRequest> {
    let n = shape.runs.len();
    if n < 2 { vec![] } else { vec![CompactionRequest::whole(0..=n - 1)] }
}

fn options(custom: Option<&CustomPolicy>) -> TreeOptions {
    TreeOptions {
        policy: Tiered { min_runs: 2, ..Tiered::default() }.into(),
        custom_policy: custom.cloned(),
        memtable_size: 64 << 10,
        table_size: 64 << 10,
        ..TreeOptions::default()
    }
}

type Events = Arc<Mutex<Vec<Event>>>;

fn open(env: &MemEnv, threads: usize) -> (Db, Events) {
    let events = Events::default();
    let sink = events.clone();
    let listener = move |e: &Event| sink.lock().unwrap().push(e.clone());
    let options = DbOptions {
        background_threads: threads,
        memory_budget: 4 << 20,
        read_compaction_percent: 0,
        listener: Some(Arc::new(listener)),
        ..DbOptions::default()
    };
    (Db::open_in(Arc::new(env.clone()), "/db", options).unwrap(), events)
}

/// Writes the key 0 to 9 in each of these rounds, and flushes.
fn flush_rounds(tree: &firn_kv::Tree, rounds: std::ops::Range<u8>) {
    for round in rounds {
        (0..10u8).for_each(|n| tree.put([n], [round]).unwrap());
        tree.flush().unwrap();
    }
    tree.db().wait_idle().unwrap();
}

fn stats(tree: &firn_kv::Tree) -> TreeStats {
    let stats = tree.db().stats();
    stats.trees.into_iter().find(|t| t.name == tree.name()).unwrap()
}

fn runs(tree: &firn_kv::Tree) -> usize {
    stats(tree).runs.len()
}

#[test]
fn a_custom_policy_decides_and_is_not_stored() {
    for threads in [0, 2] {
        let env = MemEnv::new(1);
        let idle = CustomPolicy::new(IDLE);
        let (db, events) = open(&env, threads);
        let tree = db.tree("t", options(Some(&idle))).unwrap();
        flush_rounds(&tree, 0..9);
        assert_eq!(runs(&tree), 9);
        // Opening without the policy changes nothing on an open tree.
        let again = db.tree("t", options(None)).unwrap();
        assert_eq!(again.options().custom_policy, Some(idle.clone()));
        assert_eq!(runs(&again), 9);
        drop((tree, again, db));
        // The next opening has the stored policy.
        let (db, _) = open(&env, threads);
        let tree = db.tree("t", options(None)).unwrap();
        db.wait_idle().unwrap();
        assert!(runs(&tree) < 9 && tree.options().custom_policy.is_none());
        assert_eq!(tree.options().policy, options(None).policy);
        // A policy can be set and removed while the tree is open.
        let all = CustomPolicy::new(Scripted { requests: everything, ..IDLE });
        tree.set_options(options(Some(&all))).unwrap();
        flush_rounds(&tree, 9..15);
        assert_eq!((runs(&tree), stats(&tree).debt), (1, 0));
        tree.set_options(options(Some(&idle))).unwrap();
        flush_rounds(&tree, 15..20);
        assert_eq!(runs(&tree), 6);
        tree.set_options(options(None)).unwrap();
        db.wait_idle().unwrap();
        assert!(runs(&tree) < 6);
        // A manual compaction works under every policy.
        tree.set_options(options(Some(&idle))).unwrap();
        tree.compact().unwrap();
        assert_eq!(runs(&tree), 1);
        (0..10u8).for_each(|n| assert_eq!(tree.get([n]).unwrap().as_deref(), Some(&[19][..])));
        assert!(idle.failure().is_none() && all.failure().is_none());
        drop((tree, db));
        let failed = |e: &Event| matches!(e, Event::PolicyFailed { .. });
        assert!(!events.lock().unwrap().iter().any(failed));
        let log = env.read_all(Path::new("/db/EVENTS.jsonl"), 1 << 20).unwrap();
        let log = String::from_utf8(log).unwrap();
        assert!(log.contains("\"custom_policy\":\"scripted\""), "{log}");
    }
}

#[test]
fn a_wrong_policy_is_reported_once_and_the_stored_one_goes_on() {
    let wrong = [
        (Scripted { requests: |_| panic!("lost count"), ..IDLE }, "requests panicked: lost count"),
        (Scripted { max_runs: |_| panic!("none"), ..IDLE }, "max_runs panicked: none"),
        (Scripted { failure: Some("line 3: no"), ..IDLE }, "line 3: no"),
        (
            Scripted { requests: |_| vec![CompactionRequest::whole(7..=9)], ..IDLE },
            "request 0: runs 7 to 9 of",
        ),
        (
            Scripted {
                requests: |_| vec![CompactionRequest::whole(RangeInclusive::new(1, 0))],
                ..IDLE
            },
            "request 0: runs 1 to 0 of",
        ),
        (
            Scripted {
                requests: |shape| {
                    let level = Some(0);
                    shape
                        .runs
                        .iter()
                        .take(1)
                        .map(|_| CompactionRequest { runs: 0..=0, tables: None, level })
                        .collect()
                },
                ..IDLE
            },
            "request 0: run 0 alone would stay at its level",
        ),
    ];
    for threads in [0, 2] {
        for (policy, reason) in &wrong {
            let env = MemEnv::new(1);
            let (db, events) = open(&env, threads);
            let custom = CustomPolicy::new(Scripted { ..*policy });
            let trees = ["a", "b"].map(|name| db.tree(name, options(Some(&custom))).unwrap());
            trees.iter().for_each(|tree| flush_rounds(tree, 0..9));
            for tree in &trees {
                assert!(runs(tree) < 9, "{reason}");
                (0..10u8)
                    .for_each(|n| assert_eq!(tree.get([n]).unwrap().as_deref(), Some(&[8][..])));
            }
            assert!(custom.failure().unwrap().starts_with(reason), "{custom:?} {reason}");
            drop((trees, db));
            let events = events.lock().unwrap();
            let failed = events.iter().filter_map(|e| match e {
                Event::PolicyFailed { policy, reason, .. } => Some((policy, reason)),
                _ => None,
            });
            let failed: Vec<_> = failed.collect();
            assert!(
                matches!(failed[..], [(policy, text)] if policy == "scripted" && text.starts_with(reason)),
                "{failed:?}"
            );
            let log = env.read_all(Path::new("/db/EVENTS.jsonl"), 1 << 20).unwrap();
            assert_eq!(String::from_utf8(log).unwrap().matches("policy failed").count(), 1);
        }
    }
}

#[test]
fn tombstones_leave_in_time_under_a_policy_that_wants_nothing() {
    let env = MemEnv::new(1);
    let (db, _) = open(&env, 0);
    let custom = CustomPolicy::new(IDLE);
    let tree =
        db.tree("t", TreeOptions { tombstone_age_secs: 10, ..options(Some(&custom)) }).unwrap();
    flush_rounds(&tree, 0..1);
    tree.delete([3]).unwrap();
    tree.flush().unwrap();
    assert_eq!(runs(&tree), 2);
    env.advance(std::time::Duration::from_secs(20));
    tree.put([4], [0]).unwrap();
    db.wait_idle().unwrap();
    let stats = stats(&tree);
    assert_eq!(stats.runs.iter().map(|r| r.deletes).sum::<u64>(), 0, "{stats:?}");
    assert_eq!(tree.get([3]).unwrap(), None);
}

#[test]
fn a_policy_with_one_run_per_level_holds_its_shape() {
    /// Two runs at level 0, and one run at each level below, ten times as large as the one above.
    struct MiniLeveled;
    impl CompactionPolicy for MiniLeveled {
        fn name(&self) -> &str {
            "mini-leveled"
        }

        fn requests(&self, shape: &LsmShape) -> Vec<CompactionRequest> {
            let runs = &shape.runs;
            let top = runs.iter().filter(|r| r.level == 0).count();
            let below = runs.get(top).filter(|r| r.level == 1).is_some();
            if top >= 2 {
                let to = if below { top } else { top - 1 };
                return vec![CompactionRequest {
                    level: Some(1),
                    ..CompactionRequest::whole(0..=to)
                }];
            }
            let mut wanted = vec![];
            for i in top..runs.len() {
                let level = runs[i].level;
                let size = shape.memtable_size * 4 * 10u64.pow(u32::from(level) - 1);
                if runs[i].size() > size {
                    let next = runs.get(i + 1).filter(|r| r.level == level + 1).is_some();
                    wanted.push(CompactionRequest {
                        runs: i..=if next { i + 1 } else { i },
                        tables: Some(0..1),
                        level: Some(level + 1),
                    });
                }
            }
            wanted
        }

        fn max_runs(&self, _: &LsmShape) -> Option<usize> {
            Some(12)
        }
    }
    let env = MemEnv::new(1);
    let (db, _) = open(&env, 2);
    let custom = CustomPolicy::new(MiniLeveled);
    let stored = Leveled::default().into();
    let tree = db
        .tree(
            "t",
            TreeOptions {
                policy: stored,
                compression: vec![Compression::None],
                ..options(Some(&custom))
            },
        )
        .unwrap();
    for i in 0..20_000u32 {
        tree.put((i.wrapping_mul(2_654_435_761) % 9000).to_be_bytes(), [i as u8; 100]).unwrap();
    }
    db.wait_idle().unwrap();
    let stats = stats(&tree);
    let levels: Vec<u8> = stats.runs.iter().map(|r| r.level).collect();
    assert!(custom.failure().is_none(), "{custom:?}");
    assert!(levels.contains(&2) && levels.iter().filter(|l| **l == 0).count() < 2, "{levels:?}");
    assert!((1..=2).all(|l| levels.iter().filter(|x| **x == l).count() <= 1), "{levels:?}");
    assert_eq!(tree.iter().filter(|item| item.is_ok()).count(), 9000);
}
