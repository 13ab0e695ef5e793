//! Guarantees of policies over random histories, in the engine and in both models: the space of
//! lazy leveling, the space of expired data, that no key is lost, and the age of deletes.

use compaction_sim::history::course::CourseMoment;
use compaction_sim::history::parse;
use compaction_sim::model::machine::Machine;
use compaction_sim::model::meter::SimOutcome;
use compaction_sim::model::sim::run;
use compaction_sim::model::size::ContentSize;
use compaction_sim::validate::engine::{run_in_memory, simulated_in_memory};
use compaction_sim::validate::small_tree;
use compaction_sim::workload::{SimPhase, SimWorkload};
use firn_kv::policy::{LazyLeveled, TimeWindow};
use firn_kv::{Compression, Policy, TreeOptions};
use firn_testkit::rng::Rng;
use firn_workload::{Distribution, ValueSize};

const MEMTABLE: u64 = 64 << 10;
/// Nanoseconds between two writes.
const INTERVAL: u64 = 1_000_000;

/// A history: the options of a tree, and the operations on it.
struct RandomHistory {
    options: TreeOptions,
    workload: SimWorkload,
}

impl RandomHistory {
    fn new(rng: &mut Rng, policy: Policy, kind: &str, ops: u64) -> RandomHistory {
        let from = 20 + rng.below(100) as usize;
        let keys = ops / (2 + rng.below(6));
        let value = ValueSize::Uniform(from, from + rng.below(100) as usize);
        let content = ContentSize { value, ..ContentSize::default() };
        let seed = rng.below(1 << 40);
        RandomHistory {
            options: TreeOptions {
                policy,
                compression: vec![Compression::None],
                memtable_size: MEMTABLE as usize,
                table_size: MEMTABLE << rng.below(3),
                ..TreeOptions::default()
            },
            workload: SimWorkload {
                seed,
                ..SimWorkload::of(&kind.parse().unwrap(), ops, keys, content)
            },
        }
    }

    fn simulate(&self, exact: bool) -> SimOutcome {
        simulated_in_memory(&self.options, &self.workload, INTERVAL, exact).unwrap().0
    }

    /// Returns the engine's course, without threads.
    fn done_by_engine(&self) -> Vec<CourseMoment> {
        let (_, log) = run_in_memory(&self.options, &self.workload, INTERVAL).unwrap();
        parse(&log, None).unwrap().course
    }

    fn words(&self) -> String {
        format!("{}, {:?}, {:?}", self.options.policy, self.workload, self.options.table_size)
    }
}

fn overwrites(rng: &mut Rng) -> String {
    match rng.below(3) {
        0 => "insert".to_owned(),
        1 => "uniform".to_owned(),
        _ => format!("zipfian:{}", 0.5 + 0.4 * rng.unit()),
    }
}

/// Newer runs have at most 2 / T of the last one, or the T memtables that level 0 may have anyway.
/// The last one is at most one copy. The run that has just been flushed comes in addition.
#[test]
fn lazy_leveling_keeps_its_space() {
    let mut rng = Rng::new(11);
    for _ in 0..10 {
        let ratio = 2 + rng.below(8) as u32;
        let kind = overwrites(&mut rng);
        let h = RandomHistory::new(
            &mut rng,
            LazyLeveled { ratio, ..LazyLeveled::default() }.into(),
            &kind,
            40_000,
        );
        let debt = ((u64::from(ratio) + 2) * MEMTABLE) as f64;
        let bound = |live: f64| live * (1.0 + 2.0 / f64::from(ratio)) * 1.02 + debt;
        let models = [true, false].map(|exact| h.simulate(exact));
        for o in &models {
            assert!(o.flushes > 20, "{}", h.words());
            for p in &o.points {
                // Live data grows with writes that are not flushed yet: no reason to allow less.
                assert!(p.bytes as f64 <= bound(p.live_bytes), "{}: {p:?}", h.words());
            }
        }
        for m in h.done_by_engine() {
            assert!(m.bytes as f64 <= bound(models[0].live_bytes), "{}: {m:?}", h.words());
        }
    }
}

/// A window is dropped as a whole when all of it has expired. So the store has at most the time to
/// live and two windows of writes, and the output of compactions in the open one.
#[test]
fn expired_windows_return_their_space() {
    let mut rng = Rng::new(12);
    for _ in 0..6 {
        let window_secs = 1 + rng.below(3);
        let ttl = window_secs * (1 + rng.below(4));
        let policy =
            TimeWindow { window_secs, min_runs: 2 + rng.below(4) as u32, ..TimeWindow::default() };
        let ops = (2 * ttl + 8 * window_secs) * 1_000_000_000 / INTERVAL;
        let mut h = RandomHistory::new(&mut rng, policy.into(), "insert", ops);
        h.workload = h.workload.expiring(ttl * 1_000_000);
        let per_second = 1e9 / INTERVAL as f64 * (h.workload.put_bytes() + 40.0);
        let most = (ttl + 2 * window_secs) as f64 * per_second + 2.0 * MEMTABLE as f64;
        let all = ops as f64 * h.workload.put_bytes();
        assert!(most < all, "the history is long enough");
        for exact in [true, false] {
            let o = h.simulate(exact);
            assert!(o.drops > 0, "{}", h.words());
            for p in &o.points {
                assert!(p.bytes as f64 <= most, "{}: {p:?}, at most {most}", h.words());
            }
            // Expired data is not live.
            let lives = ttl as f64 * 1e9 / INTERVAL as f64 * (h.workload.put_bytes() + 40.0);
            assert!(o.live_bytes <= lives, "{}: {} of {lives}", h.words(), o.live_bytes);
            assert!(o.live_bytes > lives * 0.5, "{}: {} of {lives}", h.words(), o.live_bytes);
        }
        let course = h.done_by_engine();
        assert!(course.len() > 5, "{}", h.words());
        for m in course {
            assert!(m.bytes as f64 <= most, "{}: {m:?}, at most {most}", h.words());
        }
    }
}

/// Tables and the memtable always contain a copy of all live data.
#[test]
fn space_amplification_is_never_below_one() {
    let mut rng = Rng::new(13);
    for descriptor in Policy::ALL.iter().filter(|d| d.name != "fifo") {
        for _ in 0..3 {
            let kind = match rng.below(4) {
                0 => format!("deletes:{}", 0.4 * rng.unit()),
                1 => format!("timeseries:{}", 1 + rng.below(50)),
                _ => overwrites(&mut rng),
            };
            let policy: Policy = descriptor.name.parse().unwrap();
            let h = RandomHistory::new(&mut rng, policy, &kind, 30_000);
            for exact in [true, false] {
                for p in &h.simulate(exact).points {
                    let space = (p.bytes + MEMTABLE) as f64 / p.live_bytes.max(1.0);
                    assert!(space > 0.99, "{}, {exact}: {p:?}", h.words());
                }
            }
        }
    }
}

/// No delete exceeds the bound by more than a quarter of it, a memtable's time and a second. A
/// second is the interval at which a policy is called while there are no other events.
#[test]
fn deletes_are_as_old_as_declared() {
    let mut rng = Rng::new(14);
    for descriptor in Policy::ALL.iter().filter(|d| !["fifo", "time-window"].contains(&d.name)) {
        let secs = 3 + rng.below(4);
        let share = 0.05 + 0.3 * rng.unit();
        let policy: Policy = descriptor.name.parse().unwrap();
        let mut h =
            RandomHistory::new(&mut rng, policy, &format!("deletes:{share}"), 15_000 + secs * 2000);
        h.options.tombstone_age_secs = secs;
        // Later puts, which do not renew any delete.
        let ops = 3 * secs * 1_000_000_000 / INTERVAL;
        h.workload.phases.push(SimPhase::of(Distribution::Uniform, ops, 0.0));
        let fill = MEMTABLE as f64 / h.workload.put_bytes() * INTERVAL as f64 / 1e9;
        for exact in [true, false] {
            let o = h.simulate(exact);
            let most = 1.25 * secs as f64 + fill + 1.5;
            let [.., oldest] = o.tombstone_age;
            assert!(oldest > 0.0 && oldest <= most, "{}, {exact}: {oldest} s", h.words());
            assert!(o.tombstones < 1.0, "{}, {exact}: {}", h.words(), o.tombstones);
        }
        let (stats, _) = run_in_memory(&h.options, &h.workload, INTERVAL).unwrap();
        let left: u64 = stats.trees[0].runs.iter().map(|r| r.deletes).sum();
        assert_eq!(left, 0, "{}", h.words());
    }
}

/// Compactions beside writes leave small runs between the large ones, and runs begin at different
/// keys even if they were split alike. No compaction may become a single step because of that. The
/// workload has only inserts, so that all space beyond the data is that of compactions.
#[test]
fn incremental_merges_beside_writes_take_room_for_a_few_tables() {
    for exact in [true, false] {
        let space = |policy: &str| {
            let mut setup = small_tree(policy, "insert", 400_000, 128 << 10, exact).unwrap();
            setup.options.memtable_size = 64 << 10;
            setup.machine = Machine { threads: 2, ingest: 4e6, ..Machine::default() };
            run(&setup, &mut |_| ()).unwrap().max_space_amplification
        };
        let [tiered, steps] = ["tiered:4", "ics:4"].map(space);
        println!("exact {exact}: size-tiered {tiered:.2}, incremental {steps:.2}");
        assert!(tiered > 1.9 && steps < 1.2, "exact {exact}: {tiered:.2}, {steps:.2}");
    }
}
