//! Workloads: streams of puts and deletes over a domain of keys, the same for the real engine and
//! for both models.
//!
//! A workload is a sequence of [`SimPhase`]s over `keys` keys. It is made of a
//! [`Description`], as `firn bench` has it, and has the same operations, key by key. Inside the
//! simulator a key is a position: keys that are numbers are spread evenly over the 64-bit numbers,
//! so that key `i` has position `i` × 2^64 / `keys`; a hashed key is its own position.

pub mod choice;
mod rocksdb_trace;
pub mod sketch;
pub mod trace;

use std::fmt;
use std::str::FromStr;

use firn_workload::dist::queue_length;
use firn_workload::outcome::OpKind;
use firn_workload::stream::{OperationStream, key_number, phase_seed};
use firn_workload::{Description, Distribution, Extent, OperationMix, Phase, Step};

use crate::model::size::{ContentSize, KeySeries, place};

/// A part of a workload: operations of one mix. The shares add up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimPhase {
    /// Choice of keys.
    pub order: Distribution,
    /// Number of operations.
    pub ops: u64,
    /// Seconds after which it ends, even with fewer operations; 0 for no bound.
    pub seconds: f64,
    /// Share of operations that write nothing.
    pub reads: f64,
    /// Share of puts of new keys.
    pub inserts: f64,
    /// Share of puts.
    pub puts: f64,
    /// Share of deletes. A queue has its own.
    pub deletes: f64,
    /// Share of range deletions.
    pub range_deletes: f64,
    /// Keys of a range deletion.
    pub range: u64,
    /// Whether keys are hashes of their numbers.
    pub hashed: bool,
    /// Number of keys at its beginning to choose from; 0 for all.
    pub items: u64,
    /// Random seed, if it is not that of the workload and of the phase's number.
    pub seed: Option<u64>,
    /// Whether it begins only when all background work is done.
    pub waits: bool,
}

impl SimPhase {
    /// Creates a phase of puts and deletes; `deletes` is the share of the latter.
    pub fn of(order: Distribution, ops: u64, deletes: f64) -> SimPhase {
        SimPhase {
            order,
            ops,
            seconds: 0.0,
            reads: 0.0,
            inserts: 0.0,
            puts: 1.0 - deletes,
            deletes,
            range_deletes: 0.0,
            range: 0,
            hashed: false,
            items: 0,
            seed: None,
            waits: false,
        }
    }

    /// Returns the phase of a description that is at this place of its writing phases, with `items`
    /// keys to choose from.
    fn of_phase(
        d: &Description,
        phase: &Phase,
        earlier: u64,
        items: u64,
        waits: bool,
    ) -> Result<SimPhase, String> {
        let mix = &phase.mix;
        let refuse = |what: &str| Err(format!("phase {}: {what}", phase.name));
        if mix.merges > 0.0 {
            return refuse("merges are not simulated");
        }
        if mix.inserts > 0.0 && !mix.hashed {
            return refuse("inserts are simulated only with hashed keys: set hashed = true");
        }
        if mix.writer {
            return refuse("a writer beside readers is not simulated");
        }
        let rate = mix.rate.or(d.rate);
        let (ops, seconds) = match phase.extent() {
            Extent::Seconds(seconds) => match rate {
                Some(rate) => (((rate * seconds) as u64).max(1), 0.0),
                None => (u64::MAX / 4, seconds),
            },
            _ => (phase.total_ops(d.keys), 0.0),
        };
        let order = d.distribution.filter(|_| mix.distribution.is_random());
        // Each thread writes its own stretch.
        let order = match order.unwrap_or(mix.distribution) {
            Distribution::Sequential => Distribution::Series(phase.threads as u64),
            other => other,
        };
        let share = |kinds: &[OpKind]| mix.share_of(kinds);
        Ok(SimPhase {
            order,
            ops,
            seconds,
            reads: share(&[OpKind::Read, OpKind::MissingRead, OpKind::Scan]),
            inserts: share(&[OpKind::Insert]),
            puts: share(&[OpKind::Write, OpKind::ReadModifyWrite]),
            deletes: share(&[OpKind::Delete]),
            range_deletes: share(&[OpKind::DeleteRange]),
            range: mix.range,
            hashed: mix.hashed,
            items: if items == d.keys { 0 } else { items },
            seed: Some(phase_seed(d.seed, &phase.name, earlier)),
            waits,
        })
    }

    /// Returns the mix of its operations, as the stream of them needs it.
    fn mix(&self) -> OperationMix {
        OperationMix {
            distribution: self.order,
            gets: self.reads,
            inserts: self.inserts,
            puts: self.puts,
            deletes: self.deletes,
            range_deletes: self.range_deletes,
            ..OperationMix::default()
        }
    }

    /// Returns the share of puts and inserts, of deletes, and of range deletions at operation
    /// `done`, over `keys` keys.
    pub(crate) fn written(&self, done: u64, keys: u64) -> [f64; 3] {
        match self.queue(keys) {
            Some(live) if done < live => [1.0, 0.0, 0.0],
            Some(_) => [0.5, 0.5, 0.0],
            None => [self.puts + self.inserts, self.deletes, self.range_deletes],
        }
    }

    /// Returns the length of the queue, if it is one, over `keys` keys.
    pub(crate) fn queue(&self, keys: u64) -> Option<u64> {
        match self.order {
            Distribution::Queue { share } => Some(queue_length(keys, share)),
            _ => None,
        }
    }
}

/// Operations on a tree.
#[derive(Clone, Debug)]
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
    |ops, _| (ops, vec![phase(Distribution::Unique, ops, 0.0)]);

    /// Unique keys, ascending.
    "sequential" Sequential, holds Some(true),
    |ops, _| (ops, vec![phase(Distribution::Series(1), ops, 0.0)]);

    /// A load of all keys, then overwrites of any.
    "uniform" Uniform, holds Some(false),
    |ops, keys| loaded(ops, keys, Distribution::Uniform, 0.0);

    /// A load of all keys, then overwrites of popular ones; the parameter is the skew.
    "zipfian" Zipfian(skew: f64 = 0.99, below 1.0), holds Some(false),
    |ops, keys| loaded(ops, keys, Distribution::Zipfian { theta: skew }, 0.0);

    /// As `uniform`, but a share of the overwrites are deletes.
    "deletes" Deletes(share: f64 = 0.2, below 1.0), holds Some(false),
    |ops, keys| loaded(ops, keys, Distribution::Uniform, share);

    /// Several interleaved series in time order; the parameter is their number.
    "timeseries" TimeSeries(series: u64 = 1000.0, below 1e12), holds Some(true),
    |ops, _| (ops, vec![phase(Distribution::Series(series.max(1)), ops, 0.0)]);

    /// Ascending puts and deletes of the oldest; the parameter is the live share of all keys.
    "queue" Queue(share: f64 = 0.1, below 1.0), holds None,
    |ops, _| {
        let live = ((ops as f64 * share) as u64).clamp(1, ops);
        let keys = live + (ops - live).div_ceil(2);
        let share = live as f64 / keys as f64;
        (keys, vec![phase(Distribution::Queue { share }, ops, 0.0)])
    };

    /// A load, then deletes of a share of all keys.
    "massdelete" MassDelete(share: f64 = 0.5, below 1.0), holds None,
    |ops, _| {
        let puts = (ops as f64 / (1.0 + share)) as u64;
        let deletes = phase(Distribution::Unique, ops - puts, 1.0);
        (puts, vec![phase(Distribution::Unique, puts, 0.0), deletes])
    };
}

fn phase(order: Distribution, ops: u64, deletes: f64) -> SimPhase {
    SimPhase::of(order, ops, deletes)
}

/// Returns a load of all keys, and the rest of the operations in a pattern.
fn loaded(ops: u64, keys: u64, then: Distribution, deletes: f64) -> (u64, Vec<SimPhase>) {
    let load = keys.min(ops);
    (keys, vec![phase(Distribution::Unique, load, 0.0), phase(then, ops - load, deletes)])
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
        let content = ContentSize { numbers: keys, ..content };
        SimWorkload { keys, phases, content, ttl_micros: 0, seed: 1, per_memtable: None }
    }

    /// Creates the workload of a description. Its values have the bytes of `sample`, if that is not
    /// empty.
    ///
    /// # Errors
    /// A step that is not simulated.
    pub fn described(d: &Description, sample: Vec<u8>) -> Result<SimWorkload, String> {
        let (mut phases, mut sizes) = (vec![], vec![]);
        let (mut earlier, mut items, mut waits) = (0, d.keys, false);
        for step in d.steps()? {
            let phase = match step {
                Step::Run(phase) => phase,
                Step::Wait => {
                    waits = !phases.is_empty();
                    continue;
                }
                Step::Flush | Step::Compact => {
                    return Err(format!("the step {step} is not simulated"));
                }
            };
            // What only reads changes no table: read-triggered compactions are not simulated.
            if phase.mix.only_reads() {
                continue;
            }
            let known = if phase.mix.hashed { items } else { d.keys };
            let sim = SimPhase::of_phase(d, &phase, earlier, known, std::mem::take(&mut waits))?;
            if sim.inserts > 0.0 {
                let own = OperationStream::new(&sim.mix(), None, known, 0);
                items = known.saturating_add(own.inserts_before(sim.ops));
            }
            sizes.push((phase.name.clone(), phase.mix.value_size(d.value_size)));
            phases.push(sim);
            earlier += 1;
        }
        let Some((_, value)) = sizes.first().cloned() else {
            return Err("no phase writes: there is nothing to compact".into());
        };
        if let Some((name, other)) = sizes.iter().find(|(_, size)| *size != value) {
            return Err(format!(
                "phase {name} has values of {other} bytes, earlier ones of {value}: give one value-size for all"
            ));
        }
        let hashed = phases.iter().any(|p: &SimPhase| p.hashed);
        if hashed && phases.iter().any(|p| !p.hashed) {
            return Err("phases with hashed and with plain keys are not simulated together".into());
        }
        let content = ContentSize {
            key_len: d.key_size,
            value,
            random: d.random_share,
            sample,
            numbers: if hashed { 0 } else { d.keys },
            stamped: d.store.ttl_secs > 0,
        };
        Ok(SimWorkload {
            keys: items,
            phases,
            content,
            ttl_micros: d.store.ttl_secs.saturating_mul(1_000_000),
            seed: d.seed,
            per_memtable: None,
        })
    }

    /// Returns the same with puts that expire at this age in microseconds; 0 for never.
    pub fn expiring(self, ttl_micros: u64) -> SimWorkload {
        let content = ContentSize { stamped: ttl_micros > 0, ..self.content };
        SimWorkload { ttl_micros, content, ..self }
    }

    /// Returns the number of operations.
    pub fn ops(&self) -> u64 {
        self.phases.iter().map(|p| p.ops).sum()
    }

    /// Returns the series in which its keys ascend, if all do.
    pub fn series(&self) -> Option<KeySeries> {
        let of = |p: &SimPhase| match p.order {
            Distribution::Series(series) if p.deletes == 0.0 && !p.hashed => {
                Some(KeySeries { series, step: place(1, self.keys) })
            }
            _ => None,
        };
        self.phases.iter().map(of).reduce(|a, b| a.and(b)).flatten()
    }

    /// Returns the bytes of key and value of an average put.
    pub fn put_bytes(&self) -> f64 {
        self.content.key_len as f64 + self.content.mean_value()
    }
}

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimOp {
    /// Position of the key in the key space.
    pub place: u64,
    /// Whether it is a delete.
    pub delete: bool,
    /// Bytes of the value; 0 for a delete.
    pub len: u32,
    /// Number of the operation in its phase, which determines the value.
    pub number: u64,
}

/// The writes of a workload, one by one. Range deletions are left out.
pub struct SimOps {
    workload: SimWorkload,
    phase: usize,
    done: u64,
    stream: OperationStream,
}

impl SimOps {
    /// Creates it at the beginning.
    pub fn new(workload: &SimWorkload) -> SimOps {
        let stream = OperationStream::new(&OperationMix::default(), None, 1, 0);
        let mut ops = SimOps { workload: workload.clone(), phase: 0, done: 0, stream };
        ops.enter();
        ops
    }

    fn enter(&mut self) {
        let Some(p) = self.workload.phases.get(self.phase) else { return };
        let earlier = self.phase as u64;
        let seed = p.seed.unwrap_or_else(|| phase_seed(self.workload.seed, "", earlier));
        self.stream = OperationStream::new(&p.mix(), None, self.items(p), seed);
    }

    fn items(&self, p: &SimPhase) -> u64 {
        if p.items > 0 { p.items } else { self.workload.keys }.max(1)
    }

    /// Returns the number of the current phase, and of its operations so far.
    pub(crate) fn at(&self) -> (usize, u64) {
        (self.phase, self.done)
    }

    /// Continues with the next phase.
    pub(crate) fn leave(&mut self) {
        self.phase += 1;
        self.done = 0;
        self.enter();
    }

    /// Returns the next operation of the current phase, which may write nothing; `None` at the
    /// phase's end.
    pub(crate) fn step(&mut self) -> Option<Option<SimOp>> {
        let p = *self.workload.phases.get(self.phase)?;
        if self.done >= p.ops {
            return None;
        }
        let number = self.done;
        self.done += 1;
        let items = self.items(&p).saturating_add(self.stream.inserts_before(number));
        let mut op = self.stream.at(number, items);
        let delete = match op.kind {
            OpKind::Write | OpKind::Insert => false,
            OpKind::Delete => true,
            _ => return Some(None),
        };
        let place = match p.hashed {
            true => key_number(op.item, true),
            false => place(op.item, self.workload.keys),
        };
        let size = &self.workload.content.value;
        let len = if delete { 0 } else { size.sample(&mut op.draws) };
        let stamp = if self.workload.content.stamped && !delete { 8 } else { 0 };
        Some(Some(SimOp { place, delete, len: (len + stamp) as u32, number }))
    }
}

impl Iterator for SimOps {
    type Item = SimOp;

    fn next(&mut self) -> Option<SimOp> {
        loop {
            match self.step() {
                Some(Some(op)) => return Some(op),
                Some(None) => {}
                None if self.phase + 1 >= self.workload.phases.len() => return None,
                None => self.leave(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_workload::ValueSize;
    use std::collections::HashSet;

    fn ops(kind: SimOpKind, n: u64, keys: u64) -> (u64, Vec<SimOp>) {
        let content = ContentSize { value: ValueSize::Fixed(10), ..ContentSize::default() };
        let workload = SimWorkload::of(kind, n, keys, content);
        assert_eq!(workload.ops(), n);
        (workload.keys, SimOps::new(&workload).collect())
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
