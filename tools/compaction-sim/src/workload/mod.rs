//! Workloads: streams of puts and deletes over a domain of keys, the same for the real engine and
//! for both models.
//!
//! A workload is a sequence of [`SimPhase`]s over `keys` keys, spread evenly over the 64-bit
//! numbers: key `i` is written as the number `i` × 2^64 / `keys`. Equal seeds give equal
//! operations.

pub mod choice;
mod rocksdb_trace;
pub mod sketch;
pub mod trace;

use std::fmt;
use std::str::FromStr;

use firn_workload::dist::Zipfian;
use firn_workload::keys::Permutation;
use firn_workload::rng::Rng;

use crate::model::size::{ContentSize, KeySeries};

/// Order in which keys are used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Every key once, in random order; again in another order if there are more operations than
    /// keys.
    Unique,
    /// Interleaved series of ascending keys; 1 is one ascending load.
    Series(u64),
    /// Any key, uniformly.
    Uniform,
    /// Few keys often, most seldom; popular ones are scattered. The skew is above 0 and below 1.
    Zipfian(f64),
    /// Ascending puts; once there are this many keys, a delete of the oldest one follows each put.
    Queue(u64),
    /// Deletes of every key once, in random order.
    Delete,
}

/// A part of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimPhase {
    /// Order of keys.
    pub pattern: Pattern,
    /// Number of operations.
    pub ops: u64,
    /// Share of deletes among operations of [`Pattern::Uniform`] and [`Pattern::Zipfian`].
    pub deletes: f64,
}

/// Operations on a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct SimWorkload {
    /// Number of keys in the domain.
    pub keys: u64,
    /// The phases, in order.
    pub phases: Vec<SimPhase>,
    /// Properties of keys and values.
    pub content: ContentSize,
    /// Age in microseconds at which a put expires; 0 for never.
    pub ttl_micros: u64,
    /// Random seed.
    pub seed: u64,
    /// Number of operations that fill a memtable, if recorded; else it is measured. Only for the
    /// summary model.
    pub per_memtable: Option<u64>,
}

/// Declares the named workloads. Each entry has a description, a name and its parameter with
/// default and upper bound, whether all written data is live at the end (`None` if it is a share of
/// it), and its phases.
macro_rules! workloads {
    ($(
        $(#[doc = $about:literal])+
        $name:literal $kind:ident $(($parameter:ident: $ty:ident = $default:literal, below $most:literal))?,
        holds $holds:expr,
        |$ops:pat_param, $keys:pat_param| $phases:expr;
    )*) => {
        /// A workload by name, before its size is known.
        ///
        /// ```
        /// use compaction_sim::workload::SimOpKind;
        /// assert_eq!("zipfian:0.9".parse(), Ok(SimOpKind::Zipfian(0.9)));
        /// assert!(SimOpKind::help().contains("zipfian[:SKEW]"));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum SimOpKind {
            $($(#[doc = $about])+ $kind $(($ty))?,)*
        }

        impl SimOpKind {
            /// The names.
            pub const NAMES: &[&str] = &[$($name),*];

            /// Returns the names with their parameters.
            pub fn syntaxes() -> Vec<String> {
                let of = |name: &str, parameter: &str| match parameter {
                    "" => name.to_owned(),
                    _ => format!("{name}[:{}]", parameter.to_uppercase()),
                };
                vec![$(of($name, concat!($(stringify!($parameter))?))),*]
            }

            /// Returns the names with their parameters and meanings, a line each.
            pub fn help() -> String {
                let about = [$([$($about),+].concat()),*];
                let line = |(syntax, about): (String, String)| format!("  {syntax:22}{about}\n");
                SimOpKind::syntaxes().into_iter().zip(about).map(line).collect()
            }

            /// Reports whether all written data is live at the end, or one copy of a domain of
            /// keys. `None` if it is a share of the written data.
            pub fn holds_all(self) -> Option<bool> {
                match self {
                    $(SimOpKind::$kind { .. } => $holds,)*
                }
            }

            /// Returns the phases for `ops` operations over `keys` keys, and the number of keys
            /// that it needs.
            pub fn phases(self, ops: u64, keys: u64) -> (u64, Vec<SimPhase>) {
                match self {
                    $(SimOpKind::$kind $(($parameter))? => {
                        let ($ops, $keys) = (ops, keys);
                        $phases
                    })*
                }
            }
        }

        impl FromStr for SimOpKind {
            type Err = String;

            fn from_str(text: &str) -> Result<SimOpKind, String> {
                let (name, given) =
                    text.split_once(':').map_or((text, None), |(name, given)| (name, Some(given)));
                let kind = match name {
                    $($name => SimOpKind::$kind $((parameter(text, given, $default, $most)? as $ty))?,)*
                    _ => {
                        let names = SimOpKind::syntaxes().join(", ");
                        return Err(format!("no workload is called {name:?}; there are {names}"));
                    }
                };
                if given.is_some() && kind.to_string() == name {
                    return Err(format!("{name:?} has no parameter, and {text:?} gives one"));
                }
                Ok(kind)
            }
        }

        impl fmt::Display for SimOpKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(SimOpKind::$kind $(($parameter))? => {
                        f.write_str($name)?;
                        $(write!(f, ":{}", $parameter)?;)?
                    })*
                }
                Ok(())
            }
        }
    };
}

workloads! {
    /// Unique keys in random order.
    "insert" Insert, holds Some(true),
    |ops, _| (ops, vec![phase(Pattern::Unique, ops, 0.0)]);

    /// Unique keys, ascending.
    "sequential" Sequential, holds Some(true),
    |ops, _| (ops, vec![phase(Pattern::Series(1), ops, 0.0)]);

    /// A load of all keys, then overwrites of any.
    "uniform" Uniform, holds Some(false),
    |ops, keys| loaded(ops, keys, Pattern::Uniform, 0.0);

    /// A load of all keys, then overwrites of popular ones; the parameter is the skew.
    "zipfian" Zipfian(skew: f64 = 0.99, below 1.0), holds Some(false),
    |ops, keys| loaded(ops, keys, Pattern::Zipfian(skew), 0.0);

    /// As `uniform`, but a share of the overwrites are deletes.
    "deletes" Deletes(share: f64 = 0.2, below 1.0), holds Some(false),
    |ops, keys| loaded(ops, keys, Pattern::Uniform, share);

    /// Several interleaved series in time order; the parameter is their number.
    "timeseries" TimeSeries(series: u64 = 1000.0, below 1e12), holds Some(true),
    |ops, _| (ops, vec![phase(Pattern::Series(series.max(1)), ops, 0.0)]);

    /// Ascending puts and deletes of the oldest; the parameter is the live share of all keys.
    "queue" Queue(share: f64 = 0.1, below 1.0), holds None,
    |ops, _| {
        let live = ((ops as f64 * share) as u64).clamp(1, ops);
        (live + (ops - live).div_ceil(2), vec![phase(Pattern::Queue(live), ops, 0.0)])
    };

    /// A load, then deletes of a share of all keys.
    "massdelete" MassDelete(share: f64 = 0.5, below 1.0), holds None,
    |ops, _| {
        let puts = (ops as f64 / (1.0 + share)) as u64;
        let deletes = phase(Pattern::Delete, ops - puts, 0.0);
        (puts, vec![phase(Pattern::Unique, puts, 0.0), deletes])
    };
}

fn phase(pattern: Pattern, ops: u64, deletes: f64) -> SimPhase {
    SimPhase { pattern, ops, deletes }
}

/// Returns a load of all keys, and the rest of the operations in a pattern.
fn loaded(ops: u64, keys: u64, then: Pattern, deletes: f64) -> (u64, Vec<SimPhase>) {
    let load = keys.min(ops);
    (keys, vec![phase(Pattern::Unique, load, 0.0), phase(then, ops - load, deletes)])
}

/// Parses the parameter after the name of a workload.
fn parameter(text: &str, given: Option<&str>, default: f64, most: f64) -> Result<f64, String> {
    let value = match given {
        Some(given) => given.parse().map_err(|_| format!("{given:?} in {text:?} is no number"))?,
        None => default,
    };
    if value > 0.0 && value < most {
        Ok(value)
    } else {
        Err(format!("{value} in {text:?} must be between 0 and {most}"))
    }
}

impl SimWorkload {
    /// Creates a named workload with this many operations and keys (if the workload uses a number
    /// of keys), whose puts never expire.
    pub fn of(kind: SimOpKind, ops: u64, keys: u64, content: ContentSize) -> SimWorkload {
        let (keys, phases) = kind.phases(ops, keys);
        SimWorkload { keys, phases, content, ttl_micros: 0, seed: 1, per_memtable: None }
    }

    /// Returns the number of operations.
    pub fn ops(&self) -> u64 {
        self.phases.iter().map(|p| p.ops).sum()
    }

    /// Returns the series in which its keys ascend, if all do.
    pub fn series(&self) -> Option<KeySeries> {
        let of = |p: &SimPhase| match p.pattern {
            Pattern::Series(series) => Some(KeySeries { series, step: place(1, self.keys) }),
            _ => None,
        };
        self.phases.iter().map(of).reduce(|a, b| a.and(b)).flatten()
    }

    /// Returns the bytes of key and value of an average put.
    pub fn put_bytes(&self) -> f64 {
        self.content.key_len as f64 + self.content.mean_value()
    }
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimOp {
    /// Position of the key in the key space.
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
    /// Creates it at the beginning.
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

/// Returns the position of key `i` of `keys` in the 64-bit numbers.
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
        for name in SimOpKind::NAMES {
            let kind: SimOpKind = name.parse().unwrap();
            assert_eq!(kind.to_string().split(':').next(), Some(*name));
            assert_eq!(kind.to_string().parse(), Ok(kind));
            let (_, all) = ops(kind, 5000, 1000);
            assert_eq!(all.len(), 5000, "{name}");
            assert_eq!(all, ops(kind, 5000, 1000).1, "{name}");
        }
        assert!(
            ["zipfian:1.5", "zipfian:x", "nonsense", "insert:3"]
                .iter()
                .all(|wrong| wrong.parse::<SimOpKind>().is_err())
        );
        assert_eq!("queue:0.2".parse(), Ok(SimOpKind::Queue(0.2)));
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
