//! Workloads: streams of puts and deletes over a domain of keys, the same for the real engine and
//! for both models.
//!
//! A workload is a row of [`SimPhase`]s over `keys` keys, which lie evenly in the space of 64-bit
//! numbers: key `i` is written as the number `i` × 2^64 / `keys`. Equal seeds give equal
//! operations.

use std::fmt;
use std::str::FromStr;

use firn_workload::dist::Zipfian;
use firn_workload::keys::Permutation;
use firn_workload::rng::Rng;

use crate::size::ContentSize;

/// In which order keys are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Every key once, in random order; and again in another, when there are more operations than
    /// keys.
    Unique,
    /// Series of keys that each grow upwards, in turn; 1 is one ascending load.
    Series(u64),
    /// Any key, with even chance.
    Uniform,
    /// Few keys often, most seldom; popular ones lie anywhere. The skew is above 0 and below 1.
    Zipfian(f64),
    /// Ascending puts; when there are so many keys, each put is followed by the delete of the
    /// oldest one.
    Queue(u64),
    /// Deletes of every key once, in random order.
    Delete,
}

/// One part of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimPhase {
    /// Which keys.
    pub pattern: Pattern,
    /// How many operations.
    pub ops: u64,
    /// Share of deletes among operations of [`Pattern::Uniform`] and [`Pattern::Zipfian`].
    pub deletes: f64,
}

/// What is done to a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct SimWorkload {
    /// Number of keys in the domain.
    pub keys: u64,
    /// What happens, in order.
    pub phases: Vec<SimPhase>,
    /// What keys and values look like.
    pub content: ContentSize,
    /// Age in microseconds at which a put expires; 0 for never.
    pub ttl_micros: u64,
    /// The seed of all chance.
    pub seed: u64,
    /// How many operations fill a memtable, where that was recorded; else it is measured. For the
    /// summary model only.
    pub per_memtable: Option<u64>,
}

/// A workload by name, before it is known how large it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SimOpKind {
    /// Unique keys in random order.
    Insert,
    /// Unique keys, ascending.
    Sequential,
    /// A load of all keys, then overwrites of any.
    Uniform,
    /// A load of all keys, then overwrites of popular ones; the skew.
    Zipfian(f64),
    /// As `Uniform`, but a share of the overwrites are deletes.
    Deletes(f64),
    /// Several series in time order; how many.
    TimeSeries(u64),
    /// Ascending puts and deletes of the oldest; keys that live at a time, as a share of all.
    Queue(f64),
    /// A load, then deletes of a share of all keys.
    MassDelete(f64),
}

impl SimOpKind {
    /// The names, for help texts.
    pub const NAMES: &str = "insert, sequential, uniform, zipfian[:SKEW], deletes[:SHARE], timeseries[:SERIES], queue[:SHARE], massdelete[:SHARE]";

    /// Whether all that is written is held in the end, or one copy of a domain of keys; `None` where
    /// it is a share of what is written.
    pub fn holds_all(self) -> Option<bool> {
        match self {
            SimOpKind::Insert | SimOpKind::Sequential | SimOpKind::TimeSeries(_) => Some(true),
            SimOpKind::Uniform | SimOpKind::Zipfian(_) | SimOpKind::Deletes(_) => Some(false),
            SimOpKind::Queue(_) | SimOpKind::MassDelete(_) => None,
        }
    }

    /// The phases for `ops` operations over `keys` keys, and the number of keys that this takes.
    pub fn phases(self, ops: u64, keys: u64) -> (u64, Vec<SimPhase>) {
        let phase = |pattern, ops, deletes| SimPhase { pattern, ops, deletes };
        let load = |then: SimPhase| {
            let first = keys.min(ops);
            (keys, vec![phase(Pattern::Unique, first, 0.0), SimPhase { ops: ops - first, ..then }])
        };
        match self {
            SimOpKind::Insert => (ops, vec![phase(Pattern::Unique, ops, 0.0)]),
            SimOpKind::Sequential => (ops, vec![phase(Pattern::Series(1), ops, 0.0)]),
            SimOpKind::TimeSeries(series) => {
                (ops, vec![phase(Pattern::Series(series.max(1)), ops, 0.0)])
            }
            SimOpKind::Uniform => load(phase(Pattern::Uniform, 0, 0.0)),
            SimOpKind::Zipfian(skew) => load(phase(Pattern::Zipfian(skew), 0, 0.0)),
            SimOpKind::Deletes(share) => load(phase(Pattern::Uniform, 0, share)),
            SimOpKind::Queue(share) => {
                let live = ((ops as f64 * share) as u64).clamp(1, ops);
                (live + (ops - live).div_ceil(2), vec![phase(Pattern::Queue(live), ops, 0.0)])
            }
            SimOpKind::MassDelete(share) => {
                let puts = (ops as f64 / (1.0 + share)) as u64;
                (
                    puts,
                    vec![
                        phase(Pattern::Unique, puts, 0.0),
                        phase(Pattern::Delete, ops - puts, 0.0),
                    ],
                )
            }
        }
    }
}

impl FromStr for SimOpKind {
    type Err = String;

    fn from_str(text: &str) -> Result<SimOpKind, String> {
        let (name, given) = text.split_once(':').map_or((text, None), |(n, p)| (n, Some(p)));
        let number = |default: f64, lo: f64, hi: f64| -> Result<f64, String> {
            let v = given.map_or(Ok(default), |p| {
                p.parse().map_err(|_| format!("{p:?} in {text:?} is no number"))
            })?;
            if v > lo && v < hi {
                Ok(v)
            } else {
                Err(format!("{v} in {text:?} must lie between {lo} and {hi}"))
            }
        };
        match name {
            "insert" => Ok(SimOpKind::Insert),
            "sequential" => Ok(SimOpKind::Sequential),
            "uniform" => Ok(SimOpKind::Uniform),
            "zipfian" => Ok(SimOpKind::Zipfian(number(0.99, 0.0, 1.0)?)),
            "deletes" => Ok(SimOpKind::Deletes(number(0.2, 0.0, 1.0)?)),
            "timeseries" => Ok(SimOpKind::TimeSeries(number(1000.0, 0.0, 1e12)? as u64)),
            "queue" => Ok(SimOpKind::Queue(number(0.1, 0.0, 1.0)?)),
            "massdelete" => Ok(SimOpKind::MassDelete(number(0.5, 0.0, 1.0)?)),
            _ => Err(format!("no workload is called {name:?}; there are {}", SimOpKind::NAMES)),
        }
    }
}

impl fmt::Display for SimOpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimOpKind::Insert => write!(f, "insert"),
            SimOpKind::Sequential => write!(f, "sequential"),
            SimOpKind::Uniform => write!(f, "uniform"),
            SimOpKind::Zipfian(v) => write!(f, "zipfian:{v}"),
            SimOpKind::Deletes(v) => write!(f, "deletes:{v}"),
            SimOpKind::TimeSeries(v) => write!(f, "timeseries:{v}"),
            SimOpKind::Queue(v) => write!(f, "queue:{v}"),
            SimOpKind::MassDelete(v) => write!(f, "massdelete:{v}"),
        }
    }
}

impl SimWorkload {
    /// Operations in all.
    pub fn ops(&self) -> u64 {
        self.phases.iter().map(|p| p.ops).sum()
    }

    /// Bytes of key and value of an average put.
    pub fn put_bytes(&self) -> f64 {
        self.content.key_len as f64 + self.content.mean_value()
    }
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimOp {
    /// The key's place in the space of keys.
    pub place: u64,
    /// Whether it is a delete.
    pub delete: bool,
}

/// The operations of a workload, one by one.
pub struct SimOps {
    workload: SimWorkload,
    phase: usize,
    done: u64,
    rng: Rng,
    order: Permutation,
    zipf: Zipfian,
}

impl SimOps {
    /// From the beginning.
    pub fn new(workload: &SimWorkload) -> SimOps {
        let mut ops = SimOps {
            workload: workload.clone(),
            phase: 0,
            done: 0,
            rng: Rng::new(workload.seed, 0),
            order: Permutation::new(1, 0),
            zipf: Zipfian::new(1, 0.5),
        };
        ops.enter();
        ops
    }

    fn enter(&mut self) {
        let keys = self.workload.keys.max(1);
        self.order = Permutation::new(
            keys,
            self.workload.seed.wrapping_mul(31).wrapping_add(self.phase as u64),
        );
        if let Some(SimPhase { pattern: Pattern::Zipfian(skew), .. }) =
            self.workload.phases.get(self.phase)
        {
            self.zipf = Zipfian::new(keys, *skew);
        }
    }

    fn next_in(&mut self, phase: SimPhase) -> (u64, bool) {
        let keys = self.workload.keys.max(1);
        let j = self.done;
        match phase.pattern {
            Pattern::Unique => {
                if j > 0 && j.is_multiple_of(keys) {
                    self.order = Permutation::new(keys, self.rng.bits());
                }
                (self.order.at(j % keys), false)
            }
            Pattern::Series(n) => ((j % n) * (keys / n) + (j / n) % (keys / n).max(1), false),
            Pattern::Uniform => (self.rng.below(keys), self.rng.unit() < phase.deletes),
            Pattern::Zipfian(_) => {
                let rank = self.zipf.sample(&mut self.rng);
                (self.order.at(rank), self.rng.unit() < phase.deletes)
            }
            Pattern::Queue(live) if j < live => (j, false),
            Pattern::Queue(live) => {
                let turn = j - live;
                if turn.is_multiple_of(2) { (live + turn / 2, false) } else { (turn / 2, true) }
            }
            Pattern::Delete => (self.order.at(j % keys), true),
        }
    }
}

impl Iterator for SimOps {
    type Item = SimOp;

    fn next(&mut self) -> Option<SimOp> {
        loop {
            let phase = *self.workload.phases.get(self.phase)?;
            if self.done < phase.ops {
                let (key, delete) = self.next_in(phase);
                self.done += 1;
                return Some(SimOp { place: place(key, self.workload.keys), delete });
            }
            self.phase += 1;
            self.done = 0;
            self.enter();
        }
    }
}

/// Where key `i` of `keys` lies in the space of 64-bit numbers.
pub fn place(i: u64, keys: u64) -> u64 {
    ((u128::from(i) << 64) / u128::from(keys.max(1))).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn ops(kind: SimOpKind, n: u64, keys: u64) -> (u64, Vec<SimOp>) {
        let (keys, phases) = kind.phases(n, keys);
        let content = ContentSize { key_len: 16, value_len: (10, 10), random: 1.0, sample: vec![] };
        let workload =
            SimWorkload { keys, phases, content, ttl_micros: 0, seed: 1, per_memtable: None };
        assert_eq!(workload.ops(), n);
        (keys, SimOps::new(&workload).collect())
    }

    #[test]
    fn every_workload_has_its_operations_and_is_repeatable() {
        for name in [
            "insert",
            "sequential",
            "uniform",
            "zipfian:0.8",
            "deletes",
            "timeseries:7",
            "queue:0.2",
            "massdelete:0.3",
        ] {
            let kind: SimOpKind = name.parse().unwrap();
            assert_eq!(kind.to_string().split(':').next(), name.split(':').next());
            let (_, all) = ops(kind, 5000, 1000);
            assert_eq!(all.len(), 5000, "{name}");
            assert_eq!(all, ops(kind, 5000, 1000).1, "{name}");
        }
        assert!(
            "zipfian:1.5".parse::<SimOpKind>().is_err() && "nonsense".parse::<SimOpKind>().is_err()
        );
    }

    #[test]
    fn what_is_unique_is_unique_and_a_queue_deletes_what_was_put() {
        for kind in [SimOpKind::Insert, SimOpKind::Sequential, SimOpKind::TimeSeries(10)] {
            let (_, all) = ops(kind, 5000, 0);
            assert_eq!(all.iter().map(|o| o.place).collect::<HashSet<_>>().len(), 5000, "{kind}");
        }
        let (_, all) = ops(SimOpKind::Queue(0.1), 5000, 0);
        let mut live = HashSet::new();
        for op in all {
            assert!(if op.delete { live.remove(&op.place) } else { live.insert(op.place) });
        }
        assert!((499..=501).contains(&live.len()));
    }
}
