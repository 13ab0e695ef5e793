//! The same operations in any order, with flushes, compactions and reopening at any point, have the
//! same result.

use std::time::Duration;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::Policy;
use firn_kv::policy::{Leveled, Tiered};
use firn_testkit::rng::Rng;

use super::oracle::{Oracle, Step, apply, check, step};
use super::{open, spec, table};

fn now(env: &MemEnv) -> i64 {
    (env.wall_micros() / 1_000_000) as i64
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for i in (1..items.len()).rev() {
        items.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

fn converges(seed: u64) {
    let mut rng = Rng::new(seed);
    let env = MemEnv::new(seed);
    let store = open(&env);
    let f = store.open_family(spec(1, table())).unwrap();
    let began = now(&env);
    let count = 40 + rng.below(160);
    let steps: Vec<Step> = (0..count)
        .map(|_| {
            let timestamp = rng.below(30) as i64 - 3;
            let written = began - rng.below(30) as i64;
            step(&f, &mut rng, timestamp, written, 3)
        })
        .collect();
    let oracle = Oracle { steps: steps.clone() };
    drop((f, store));
    for order in 0..3 {
        let env = MemEnv::new(seed);
        let mut store = open(&env);
        let mut f = store.open_family(spec(1, table())).unwrap();
        let mut steps = steps.clone();
        shuffle(&mut steps, &mut rng);
        let mut rest = &steps[..];
        let mut done = Oracle::default();
        while !rest.is_empty() {
            let (some, more) = rest.split_at(rest.len().min(1 + rng.below(6) as usize));
            apply(&store, &f, some);
            done.steps.extend_from_slice(some);
            rest = more;
            match rng.below(12) {
                0 => f.tree().flush().unwrap(),
                1 => f.tree().compact().unwrap(),
                2 => {
                    drop((f, store));
                    store = open(&env);
                    f = store.open_family(spec(1, table())).unwrap();
                }
                3 => check(&store, &f, &done, &mut rng, now(&env)),
                _ => {}
            }
        }
        check(&store, &f, &oracle, &mut rng, now(&env));
        env.advance(Duration::from_secs(20));
        check(&store, &f, &oracle, &mut rng, now(&env));
        f.tree().compact().unwrap();
        check(&store, &f, &oracle, &mut rng, now(&env));
        assert!(order < 3);
    }
}

#[test]
fn any_order_of_arrival_reads_the_same() {
    for seed in 0..60 {
        converges(seed);
    }
}

/// Time passes, writes are late by less than the grace, and compactions purge; readers see no
/// difference.
fn forgets(seed: u64, policy: Policy, value_len: usize, count: usize) -> u64 {
    const GRACE: u64 = 30;
    let mut rng = Rng::new(seed);
    let env = MemEnv::new(seed);
    let spec = || {
        let mut spec = spec(1, table());
        spec.gc_grace = GRACE as u32;
        spec.tree.policy = policy.clone();
        spec
    };
    let mut store = open(&env);
    let mut f = store.open_family(spec()).unwrap();
    let mut oracle = Oracle::default();
    let mut purged = 0;
    for _ in 0..count {
        let second = now(&env);
        let late = if rng.one_in(3) { rng.below(GRACE - 2) as i64 } else { 0 };
        let s = step(&f, &mut rng, second - late, second, value_len);
        apply(&store, &f, std::slice::from_ref(&s));
        oracle.steps.push(s);
        match rng.below(60) {
            0..4 => f.tree().flush().unwrap(),
            4 => f.tree().compact().unwrap(),
            5 => {
                purged += store.db().stats().dropped_by_filter;
                drop((f, store));
                store = open(&env);
                f = store.open_family(spec()).unwrap();
            }
            6..16 => env.advance(Duration::from_secs(rng.below(12))),
            16..18 => check(&store, &f, &oracle, &mut rng, now(&env)),
            _ => {}
        }
    }
    check(&store, &f, &oracle, &mut rng, now(&env));
    purged + store.db().stats().dropped_by_filter
}

#[test]
fn compactions_drop_only_invisible_data() {
    let tiered =
        Policy::Tiered(Tiered { min_runs: 2, max_runs: 4, bucket: 2.0, ..Tiered::default() });
    let leveled =
        Policy::Leveled(Leveled { level0_runs: 2, ratio: 2, base: 64 << 10, ..Leveled::default() });
    let mut purged = 0;
    for seed in 0..20 {
        purged += forgets(seed, tiered.clone(), 3, 400);
        purged += forgets(100 + seed, leveled.clone(), 3, 400);
    }
    // Many tables in a run, and partitions in several of them.
    purged += forgets(7, leveled, 6000, 600);
    assert!(purged > 1000, "{purged}");
}
