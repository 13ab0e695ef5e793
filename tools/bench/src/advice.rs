//! Advice from a bench's results: pure functions from numbers to sentences, each with its reason
//! and a command.

use crate::Setting;
use crate::run::Bench;
use firn_tools::output::{bytes, nanos, rate};

/// Numbers of one step.
#[derive(Clone, Debug, Default)]
pub struct StepFacts {
    /// Its name.
    pub step: String,
    /// Operations per second, for a workload.
    pub rate: Option<f64>,
    /// Median and 99.9th percentile in nanoseconds, and an upper bound of the slowest operation.
    pub latency: Option<(u64, u64, u64)>,
    /// Whether it wrote.
    pub wrote: bool,
    /// Duration in seconds.
    pub seconds: f64,
    /// Seconds of write slowdown because compaction was behind.
    pub paced: f64,
    /// Seconds of write stalls waiting for a memtable.
    pub stalled: f64,
    /// Runs afterwards.
    pub runs: usize,
}

/// Numbers of a whole bench.
#[derive(Clone, Debug, Default)]
pub struct AdviceFacts {
    /// `--db DIR ` if it is not the default directory, for commands to copy.
    pub db: String,
    /// Its steps.
    pub steps: Vec<StepFacts>,
    /// Bytes of tables written for each byte put; 0 if nothing was put.
    pub write_amplification: f64,
    /// Bytes on disk, without the log, for each live byte.
    pub space_of_raw: f64,
    /// Uncompressed bytes of all tables.
    pub raw_bytes: u64,
    /// Capacity of the block cache.
    pub cache_capacity: u64,
    /// The memory budget.
    pub budget: u64,
    /// Peak private memory of the process.
    pub peak_memory: u64,
    /// Bytes that compaction still has to rewrite.
    pub debt: u64,
}

impl AdviceFacts {
    /// Collects the numbers of `bench`.
    pub fn of(setting: &Setting<'_>, bench: &Bench) -> AdviceFacts {
        let step = |m: &crate::run::MeasuredRun| StepFacts {
            step: m.step.clone(),
            rate: m.outcome.as_ref().map(|o| o.ops_per_second),
            latency: m
                .outcome
                .as_ref()
                .and_then(|o| Some((o.latency?.p50_ns, o.latency?.p999_ns, o.ceiling_ns))),
            wrote: m.user_bytes() > 0,
            seconds: m.seconds,
            paced: (m.after.slowdown_nanos - m.before.slowdown_nanos) as f64 / 1e9,
            stalled: (m.after.stalled_nanos - m.before.stalled_nanos) as f64 / 1e9,
            runs: m.after.read_amplification(),
        };
        let db = if setting.store.db == std::path::Path::new("firn-data") {
            String::new()
        } else {
            format!("--db {} ", setting.store.db.display())
        };
        let mut facts = AdviceFacts {
            db,
            steps: bench.steps.iter().map(step).collect(),
            budget: bench.description.store.memory_budget,
            peak_memory: bench
                .steps
                .iter()
                .filter_map(|m| m.usage)
                .map(|u| u.rss_anon)
                .max()
                .unwrap_or(0),
            ..AdviceFacts::default()
        };
        if let Some(last) = bench.steps.last() {
            let s = &last.after;
            if s.user_bytes > 0 {
                facts.write_amplification = s.write_amplification();
            }
            facts.space_of_raw = s.table_bytes() as f64 / bench.live_bytes.max(1) as f64;
            facts.raw_bytes = s.trees.iter().flat_map(|t| &t.runs).map(|r| r.raw_bytes).sum();
            facts.cache_capacity = s.memory.cache_capacity;
            facts.debt = s.trees.iter().map(|t| t.debt).sum();
        }
        facts
    }
}

/// Returns the sentences, most important first; the last one always says how to continue.
pub fn advise(f: &AdviceFacts) -> Vec<String> {
    let rules = [
        held_back,
        slowest_write,
        before_and_after,
        does_not_fit,
        amplified,
        too_much_memory,
        in_debt,
    ];
    let mut out: Vec<String> = rules.iter().filter_map(|rule| rule(f)).collect();
    if out.is_empty() {
        out.push(
            "nothing stands out: writers were not delayed, and space, memory and amplification are within their bounds".into(),
        );
    }
    out.push(format!(
        "`firn {0}stats` shows the runs that are left, `firn {0}scan --limit 5` some of the data, `firn {0}verify` checks every \
         block; `firn {0}bench ycsb` and `--policy lazy-leveled` or `leveled` measure other loads and other trade-offs",
        f.db
    ));
    out
}

/// Writers that were delayed by compactions or flushes.
fn held_back(f: &AdviceFacts) -> Option<String> {
    let worst =
        f.steps.iter().max_by(|a, b| (a.paced + a.stalled).total_cmp(&(b.paced + b.stalled)))?;
    let (held, all) = (worst.paced + worst.stalled, worst.seconds.max(1e-9));
    if held < all * 0.05 {
        return None;
    }
    let share = held * 100.0 / all;
    Some(if worst.paced >= worst.stalled {
        format!(
            "{}: writers were held back {held:.1} s ({share:.0} % of the time) because compaction was behind; a policy that \
             rewrites less (--policy lazy-leveled, tiered:8) or fewer, larger flushes (--memtable-size 256m --memory-budget 1g) leave it less to do",
            worst.step
        )
    } else {
        format!(
            "{}: writers waited {held:.1} s ({share:.0} % of the time) for a memtable to be flushed; the device or the processor is \
             the limit: try --memory-budget 1g for more memtables, --compression none if the processor is busy",
            worst.step
        )
    })
}

/// Writes whose slowest took far longer than the median.
fn slowest_write(f: &AdviceFacts) -> Option<String> {
    let writes = f.steps.iter().filter(|s| s.wrote);
    let (step, p50, worst) = writes
        .filter_map(|s| s.latency.map(|(p50, _, worst)| (&s.step, p50, worst)))
        .max_by_key(|(_, _, worst)| *worst)?;
    (worst > 20_000_000 && worst > p50.saturating_mul(1000)).then(|| {
        format!(
            "{step}: half of the writes took less than {}, but the slowest may have taken {}; `firn {}bench {step} --series \
             over-time.csv` shows when, and EVENTS.jsonl in the store what the engine did then",
            nanos(p50),
            nanos(worst),
            f.db
        )
    })
}

/// The same workload before and after a compaction.
fn before_and_after(f: &AdviceFacts) -> Option<String> {
    let compacted = f.steps.iter().position(|s| s.step == "compact")?;
    let (before, after) = f.steps.split_at(compacted);
    let pairs = before.iter().filter(|b| !b.wrote).filter_map(|b| {
        let a = after.iter().find(|a| a.step == b.step)?;
        Some((b, a, a.rate? / b.rate?.max(1e-9)))
    });
    let (b, a, gain) = pairs.max_by(|x, y| x.2.total_cmp(&y.2))?;
    (gain > 1.5 && b.runs > a.runs).then(|| {
        format!(
            "{}: {} a second over {} runs, {} a second over {}; if reads matter more than writes, --policy leveled or lazy-leveled keeps \
             runs few, and `firn {}compact` merges them at once",
            b.step,
            rate(b.rate.unwrap_or(0.0)),
            b.runs,
            rate(a.rate.unwrap_or(0.0)),
            a.runs,
            f.db
        )
    })
}

/// Data that does not fit into the cache.
fn does_not_fit(f: &AdviceFacts) -> Option<String> {
    (f.raw_bytes > f.cache_capacity && f.cache_capacity > 0).then(|| {
        format!(
            "tables hold {} uncompressed, the block cache at most {}: reads of random keys decode blocks again and again; a larger \
             --memory-budget ({} would hold all of it) makes them faster",
            bytes(f.raw_bytes),
            bytes(f.cache_capacity),
            bytes((f.raw_bytes + (f.budget.saturating_sub(f.cache_capacity))).div_ceil(1 << 28) << 28)
        )
    })
}

/// High write or space amplification.
fn amplified(f: &AdviceFacts) -> Option<String> {
    if f.write_amplification > 8.0 {
        return Some(format!(
            "every byte put was written {:.1} times to tables; --policy lazy-leveled or tiered, or a larger --memtable-size, writes less",
            f.write_amplification
        ));
    }
    (f.space_of_raw > 2.0).then(|| {
        format!(
            "tables take {:.1} times the live data: old versions wait for a compaction; `firn {}compact` drops them, --policy \
             leveled keeps them few",
            f.space_of_raw, f.db
        )
    })
}

/// A process that exceeds its memory budget.
fn too_much_memory(f: &AdviceFacts) -> Option<String> {
    let allowed = f.budget + f.budget / 10;
    (f.peak_memory > allowed + (16 << 20)).then(|| {
        format!(
            "the process had {} of its own memory, the budget is {}",
            bytes(f.peak_memory),
            bytes(f.budget)
        )
    })
}

/// Pending compaction work.
fn in_debt(f: &AdviceFacts) -> Option<String> {
    (f.debt > 64 << 20).then(|| {
        format!(
            "compaction still wants to rewrite {}: add the step `wait` before reads to measure them without it",
            bytes(f.debt)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> AdviceFacts {
        let write = StepFacts {
            step: "fillrandom".into(),
            rate: Some(1e6),
            latency: Some((800, 4_000, 3_000_000)),
            wrote: true,
            seconds: 1.0,
            runs: 3,
            ..StepFacts::default()
        };
        let read = StepFacts {
            step: "readrandom".into(),
            rate: Some(1e6),
            seconds: 1.0,
            runs: 3,
            ..StepFacts::default()
        };
        AdviceFacts {
            steps: vec![write, read],
            write_amplification: 1.5,
            space_of_raw: 1.1,
            raw_bytes: 50 << 20,
            cache_capacity: 100 << 20,
            budget: 256 << 20,
            peak_memory: 200 << 20,
            ..AdviceFacts::default()
        }
    }

    /// Returns the first sentence after a change of the numbers.
    fn first(change: impl FnOnce(&mut AdviceFacts)) -> String {
        let mut f = quiet();
        change(&mut f);
        let out = advise(&f);
        assert!(out.len() >= 2 && out[out.len() - 1].contains("stats"));
        out[0].clone()
    }

    #[test]
    fn each_figure_has_its_sentence() {
        assert!(first(|_| ()).contains("nothing stands out"));
        assert!(
            first(|f| f.steps[0].paced = 0.3)
                .contains("30 % of the time) because compaction was behind")
        );
        assert!(first(|f| f.steps[0].stalled = 0.5).contains("for a memtable"));
        assert!(
            first(|f| f.steps[0].latency = Some((800, 4_000, 99_000_000)))
                .contains("fillrandom: half of the writes")
        );
        assert!(first(|f| f.raw_bytes = 1 << 30).contains("the block cache at most 100 MiB"));
        assert!(first(|f| f.write_amplification = 9.0).contains("written 9.0 times"));
        assert!(first(|f| f.space_of_raw = 3.0).contains("3.0 times the live data"));
        assert!(first(|f| f.peak_memory = 400 << 20).contains("the budget is 256 MiB"));
        assert!(first(|f| f.debt = 1 << 30).contains("still wants to rewrite 1.00 GiB"));
        let compacted = |f: &mut AdviceFacts| {
            f.steps.push(StepFacts { step: "compact".into(), runs: 1, ..StepFacts::default() });
            f.steps.push(StepFacts { rate: Some(3e6), runs: 1, ..f.steps[1].clone() });
        };
        assert!(first(compacted).contains("1.00 M a second over 3 runs, 3.00 M a second over 1"));
    }
}
