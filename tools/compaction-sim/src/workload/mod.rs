//! Workloads: streams of puts and deletes over a domain of keys, the same for the real engine and
//! for both models.
//!
//! A workload is a sequence of [`SimPhase`]s over `keys` keys. It is made of a
//! [`WorkloadDescription`], as `firn bench` has it, and has the same operations, key by key. Inside the
//! simulator a key is a position: keys that are numbers are spread evenly over the 64-bit numbers,
//! so that key `i` has position `i` × 2^64 / `keys`; a hashed key is its own position.

pub mod choice;
pub(crate) mod compressed;
mod rocksdb_trace;
pub mod sketch;
pub mod trace;

use std::fmt;
use std::str::FromStr;

use firn_workload::dist::queue_length;
use firn_workload::outcome::OpKind;
use firn_workload::rng::mix;
use firn_workload::stream::{OperationStream, key_number, phase_seed};
use firn_workload::{Distribution, Extent, OperationMix, Phase, WorkloadDescription, WorkloadStep};

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
        d: &WorkloadDescription,
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

/// A standard workload by its name and parameter, before its size is known.
///
/// ```
/// use compaction_sim::workload::WorkloadName;
/// let zipfian: WorkloadName = "zipfian:0.9".parse()?;
/// assert_eq!(zipfian.phases(1000, 200).1[1].ops, 800);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadName {
    name: String,
    description: WorkloadDescription,
}

impl FromStr for WorkloadName {
    type Err = String;

    fn from_str(name: &str) -> Result<WorkloadName, String> {
        let description = WorkloadDescription::standard(name)?;
        SimWorkload::described(&description, vec![])?;
        Ok(WorkloadName { name: name.to_owned(), description })
    }
}

impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl WorkloadName {
    /// Returns the phases of a description, whose seeds are those of the workload.
    fn phases_of(d: &WorkloadDescription) -> Vec<SimPhase> {
        // The name was accepted, so its phases are simulated.
        let phases = SimWorkload::described(d, vec![]).map_or_else(|_| vec![], |w| w.phases);
        phases.into_iter().map(|p| SimPhase { seed: None, ..p }).collect()
    }

    /// Reports whether no key is written twice or deleted, so that all written data is live at the
    /// end.
    pub fn holds_all(&self) -> bool {
        let phases = Self::phases_of(&self.description);
        phases.len() == 1 && phases.iter().all(|p| !p.order.is_random() && p.queue(1).is_none())
    }

    /// Reports whether it loads a number of keys, and then writes any of them.
    pub fn overwrites(&self) -> bool {
        Self::phases_of(&self.description).last().is_some_and(|p| p.order.is_random())
    }

    /// Returns the phases for `ops` operations over `keys` keys, and the number of keys that it
    /// needs: `keys` if it overwrites them, otherwise as many as the operations write.
    pub fn phases(&self, ops: u64, keys: u64) -> (u64, Vec<SimPhase>) {
        const MANY: u64 = 1_000_000;
        let d = WorkloadDescription { keys: MANY, ..self.description.clone() };
        let mut phases = Self::phases_of(&d);
        let all = phases.iter().map(|p| p.ops).sum::<u64>().max(1);
        let keys = match self.overwrites() {
            true => keys,
            false => (u128::from(ops) * u128::from(MANY) / u128::from(all)) as u64,
        };
        let mut left = ops;
        let last = phases.len().saturating_sub(1);
        for (i, p) in phases.iter_mut().enumerate() {
            p.ops = if i == last { left } else { keys.min(left) };
            left -= p.ops;
        }
        (keys, phases)
    }
}

impl SimWorkload {
    /// Creates a named workload with this many operations and keys (if the workload uses a number
    /// of keys), whose puts never expire.
    pub fn of(name: &WorkloadName, ops: u64, keys: u64, content: ContentSize) -> SimWorkload {
        let (keys, phases) = name.phases(ops, keys);
        let hashed = phases.iter().any(|p| p.hashed);
        let content = ContentSize { numbers: if hashed { 0 } else { keys }, ..content };
        SimWorkload { keys, phases, content, ttl_micros: 0, seed: 1, per_memtable: None }
    }

    /// Creates the workload of a description. Its values have the bytes of `sample`, if that is not
    /// empty.
    ///
    /// # Errors
    /// A step that is not simulated.
    pub fn described(d: &WorkloadDescription, sample: Vec<u8>) -> Result<SimWorkload, String> {
        let (mut phases, mut sizes) = (vec![], vec![]);
        let (mut earlier, mut items, mut waits) = (0, d.keys, false);
        for step in d.steps()? {
            let phase = match step {
                WorkloadStep::Run(phase) => phase,
                WorkloadStep::Wait => {
                    waits = !phases.is_empty();
                    continue;
                }
                WorkloadStep::Flush | WorkloadStep::Compact => {
                    return Err(format!("the step {step} is not simulated"));
                }
            };
            // Reads change no table: read-triggered compactions are not simulated.
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

    /// Returns the same with another seed.
    pub fn with_seed(mut self, seed: u64) -> SimWorkload {
        for phase in &mut self.phases {
            phase.seed =
                phase.seed.map(|own| own.wrapping_sub(mix(self.seed)).wrapping_add(mix(seed)));
        }
        self.seed = seed;
        self
    }

    /// Returns the same with puts that expire at this age in microseconds; 0 for never.
    pub fn expiring(self, ttl_micros: u64) -> SimWorkload {
        let content = ContentSize { stamped: ttl_micros > 0, ..self.content };
        SimWorkload { ttl_micros, content, ..self }
    }

    /// Returns the number of operations; the largest number for several phases that end by time.
    pub fn ops(&self) -> u64 {
        self.phases.iter().fold(0, |sum, p| sum.saturating_add(p.ops))
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

    fn name(text: &str) -> WorkloadName {
        text.parse().unwrap()
    }

    fn ops(of: &str, n: u64, keys: u64) -> (u64, Vec<SimOp>) {
        let content = ContentSize { value: ValueSize::Fixed(10), ..ContentSize::default() };
        let workload = SimWorkload::of(&name(of), n, keys, content);
        assert_eq!(workload.ops(), n);
        (workload.keys, SimOps::new(&workload).collect())
    }

    #[test]
    fn every_workload_has_its_operations_and_is_repeatable() {
        for (name, _) in firn_workload::description::STANDARD {
            let Ok(of) = name.parse::<WorkloadName>() else { continue };
            assert_eq!(of.to_string().parse(), Ok(of.clone()));
            let (_, phases) = of.phases(5000, 1000);
            assert_eq!(phases.iter().map(|p| p.ops).sum::<u64>(), 5000, "{name}");
            assert_eq!(ops(name, 5000, 1000).1, ops(name, 5000, 1000).1, "{name}");
        }
        assert!(["insert", "sequential", "timeseries:7"].into_iter().all(|n| name(n).holds_all()));
        assert!(["uniform", "queue", "deletes"].into_iter().all(|n| !name(n).holds_all()));
        let timed = "steps = 'fillseq@1s, overwrite@1s, overwrite@1s, overwrite@1s, overwrite@1s'";
        let timed = SimWorkload::described(&timed.parse().unwrap(), vec![]).unwrap();
        assert!(timed.ops() > 1 << 62);
        // The simulator has no merges, and no step that compacts everything.
        assert!("db_bench".parse::<WorkloadName>().is_err());
    }

    #[test]
    fn the_simulator_has_the_operations_of_the_bench() {
        let d: WorkloadDescription =
            "keys = 500\nvalue-size = '5-20'\nsteps = 'filluniquerandom, churn@900%'\n\
             [phase.churn]\ndistribution = 'zipfian'\ngets = 1\nputs = 1\ndeletes = 0.3"
                .parse()
                .unwrap();
        let store = firn_workload::map::MapStore::default();
        let runner = firn_workload::Runner::new(d.config()).unwrap();
        for step in d.steps().unwrap() {
            if let WorkloadStep::Run(phase) = step {
                runner.run(&store, &phase, |_| ()).unwrap();
            }
        }
        let workload = SimWorkload::described(&d, vec![]).unwrap();
        let (mut expected, mut key) = (std::collections::BTreeMap::new(), vec![]);
        for op in SimOps::new(&workload) {
            workload.content.key(op.place, &mut key);
            match op.delete {
                true => _ = expected.remove(&key),
                false => _ = expected.insert(key.clone(), op.len as usize),
            }
        }
        let real = store.entries().into_iter().map(|(key, value)| (key, value.len()));
        assert!(real.eq(expected), "keys and lengths of values");
    }

    #[test]
    fn what_is_unique_is_unique_and_a_queue_deletes_what_was_put() {
        for kind in ["insert", "sequential", "timeseries:10"] {
            let (_, all) = ops(kind, 5000, 0);
            assert_eq!(all.iter().map(|o| o.place).collect::<HashSet<_>>().len(), 5000, "{kind}");
        }
        let (_, all) = ops("queue:0.1", 5000, 0);
        let mut live = HashSet::new();
        for op in all {
            assert!(if op.delete { live.remove(&op.place) } else { live.insert(op.place) });
        }
        assert!((200..=300).contains(&live.len()), "a tenth of all keys: {}", live.len());
    }
}
