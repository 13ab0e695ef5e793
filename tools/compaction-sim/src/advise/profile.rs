//! An operator's knowledge of a store: its size, the write rate, the reads, and the machine. Also
//! the simulation of a store with that size.
//!
//! A store of terabytes has too many memtables to simulate each. Instead two smaller stores are
//! simulated, which differ by a factor of eight. Their machines and loads are smaller by the same
//! factor as the stores, so all times stay the same. Write amplification and number of runs grow by
//! the same amount with every such factor, because levels do. So the results are extrapolated to
//! the real store. The ratio of space to live data does not depend on the factor.

use firn_kv::{Policy, TreeOptions};
use firn_tools::output::{Done, Failure};

use crate::cli::AdviseArgs;
use crate::history::course::{self, CourseMoment};
use crate::model::latency::Percentiles;
use crate::model::machine::Machine;
use crate::model::meter::SimOutcome;
use crate::model::sim::Setup;
use crate::model::size::{ContentSize, check_entry};
use crate::model::ssd::SsdShape;
use crate::policy::NamedPolicy;
use crate::workload::{SimPhase, SimWorkload, WorkloadName};
use firn_workload::{Distribution, ValueSize};

/// Maximum number of memtables of a simulated store.
const MEMTABLES: f64 = 2048.0;
/// Size ratio of the two simulated stores.
const COARSER: f64 = 8.0;
/// Multiple of the live data that is written after the store is full.
const TURNS: f64 = 1.5;
/// Multiple of the live data that is written if everything expires.
const LIVES: f64 = 2.2;

/// Number of memtables of live data below which a store is small: it has few compactions, and
/// policies differ little.
pub(super) const LEAST_MEMTABLES: f64 = 16.0;
/// Minimum number of memtables that are written to a simulated store, however small it is, so that
/// its figures are those of a long time.
const LEAST_WRITTEN: f64 = 64.0;
/// Bytes of the largest store that is simulated.
const MOST_HELD: f64 = 1e18;

/// Share of the time that writers may be held up in a store that keeps up.
pub const HELD_UP: f64 = 0.01;

/// Facts about a store.
#[derive(Clone, Debug)]
pub struct StoreProfile {
    /// Bytes of live keys and values.
    pub held: f64,
    /// Bytes of keys and values written per second.
    pub ingest: f64,
    /// Seconds until written data expires; 0 for never.
    pub ttl: f64,
    /// Choice of keys.
    pub kind: WorkloadName,
    /// Bytes of a key and of a value.
    pub entry: (usize, usize),
    /// Lookups of a key per second.
    pub reads: f64,
    /// Scans per second.
    pub scans: f64,
    /// Bytes of a memtable.
    pub memtable: f64,
    /// Bytes of the disk; `None` if it is to be bought.
    pub disk: Option<f64>,
    /// Bound for the 99th percentile of read latency in seconds; `None` for any.
    pub p99: Option<f64>,
    /// Present policy, and the bytes of its tables; `None` for a new store.
    pub present: Option<(Policy, u64)>,
    /// The device, if its own garbage collection is simulated.
    pub ssd: Option<SsdShape>,
    /// Seconds that the log covers, if a log gives the write rate.
    pub seconds: Option<f64>,
    /// The machine.
    pub machine: Machine,
}

/// Facts about a store in its log.
#[derive(Clone, Debug, Default)]
pub struct RecordedStore {
    /// Bytes of live keys and values, as far as its compactions show.
    pub held: Option<f64>,
    /// Bytes of keys and values written per second.
    pub ingest: f64,
    /// Skew of its writes, 0 for none.
    pub skew: f64,
    /// Share of deletes, if it is significant.
    pub deletes: Option<f64>,
    /// Bytes of a value.
    pub value: Option<usize>,
    /// Bytes of a memtable.
    pub memtable: Option<f64>,
    /// Its policy, and the bytes of its tables.
    pub present: Option<(Policy, u64)>,
    /// Seconds that the log covers.
    pub seconds: f64,
}

/// Predicted effect of a policy on the store of a question.
#[derive(Clone, Debug)]
pub struct ExtrapolatedOutcome {
    /// Bytes written to tables for each byte that the user wrote, once the store is full.
    pub written: f64,
    /// Average number of runs.
    pub runs: f64,
    /// Peak bytes of tables over the live data.
    pub peak: f64,
    /// Processor seconds per byte written to tables.
    pub cpu_per_byte: f64,
    /// Share of the time in which writers were slowed or stalled.
    pub held_up: f64,
    /// Seconds until a delete is gone, 99th percentile and maximum; 0 without deletes.
    pub deletes: [f64; 2],
    /// Latency of a write. Unknown for an extrapolated store, whose memtables fill faster than
    /// those of the smaller one.
    pub write_latency: Option<Percentiles>,
}

impl StoreProfile {
    /// Returns the bytes of a key and its value.
    pub fn bytes(&self) -> f64 {
        (self.entry.0 + self.entry.1) as f64
    }

    /// Reports whether data is never overwritten, and expires by age.
    pub fn is_series(&self) -> bool {
        self.kind.holds_all()
    }

    /// Reports whether the store has so few memtables of live data that policies differ little.
    pub fn is_small(&self) -> bool {
        self.held < LEAST_MEMTABLES * self.memtable
    }

    /// Returns the policy of a store that needs no other: the present one, or the default.
    pub fn usual_policy(&self) -> Policy {
        self.present.as_ref().map_or_else(Policy::default, |(policy, _)| policy.clone())
    }

    /// Returns the sizes of the simulated stores, relative to that of the question, the largest
    /// first: one if it can be simulated at its size, else two.
    pub fn scales(&self) -> Vec<f64> {
        let scale = MEMTABLES * self.memtable / self.held;
        if scale >= 1.0 { vec![1.0] } else { vec![scale, scale / COARSER] }
    }

    /// Returns the machine and the load, scaled by this factor.
    fn machine_at(&self, scale: f64) -> Machine {
        let m = self.machine;
        Machine {
            read_bandwidth: m.read_bandwidth * scale,
            write_bandwidth: m.write_bandwidth * scale,
            cache: m.cache * scale,
            write_op: m.write_op / scale,
            flush: (m.flush.0 / scale, m.flush.1 / scale),
            flush_wait: m.flush_wait / scale,
            sync_latency: m.sync_latency / scale,
            install: m.install / scale,
            remove_byte: m.remove_byte / scale,
            merge: m.merge.times(1.0 / scale),
            ingest: self.ingest * scale,
            ..m
        }
    }

    /// Returns the simulation of a policy, for a store scaled by this factor.
    ///
    /// # Errors
    /// Options that do not fit together.
    pub fn setup(&self, named: NamedPolicy, table: u64, scale: f64) -> Done<Setup> {
        let options = named.set_in(TreeOptions {
            memtable_size: self.memtable as usize,
            table_size: table,
            ..TreeOptions::default()
        });
        let content = ContentSize {
            key_len: self.entry.0,
            value: ValueSize::Fixed(self.entry.1),
            random: 1.0,
            ..ContentSize::default()
        };
        let held = (self.held * scale / self.bytes()).max(1.0);
        let least = LEAST_WRITTEN * self.memtable / self.bytes();
        let (keys, phases) = if self.is_series() {
            let ops = if self.ttl > 0.0 { (held * LIVES).max(least) } else { held };
            self.kind.phases(ops as u64, held as u64)
        } else {
            // The live data of other workloads is a share of the written data.
            let overwrites = self.kind.overwrites();
            let ops = (held * (1.0 + TURNS)).max(if overwrites { least } else { 0.0 });
            let (keys, mut phases) = self.kind.phases(ops as u64, held as u64);
            // The load is in order and at full speed: the following part matters.
            if let Some(SimPhase { order, .. }) = phases.first_mut()
                && *order == Distribution::Unique
            {
                *order = Distribution::Series(1);
            }
            (keys, phases)
        };
        let workload =
            SimWorkload { keys, phases, content, ttl_micros: 0, seed: 1, per_memtable: None }
                .expiring((self.ttl * 1e6) as u64);
        let machine = self.machine_at(scale);
        Ok(Setup::new(options, workload, machine))
    }

    /// Returns the same with the device, if one is given, with its capacity scaled.
    ///
    /// # Errors
    /// Options that do not fit together.
    pub fn setup_on_device(&self, named: NamedPolicy, table: u64, scale: f64) -> Done<Setup> {
        let smaller = |ssd: SsdShape| SsdShape { capacity: ssd.capacity * scale, ..ssd };
        Ok(Setup { ssd: self.ssd.map(smaller), ..self.setup(named, table, scale)? })
    }

    /// Extrapolates the outcomes at [`scales`](StoreProfile::scales) to the store itself.
    pub fn extrapolate(&self, found: &[SimOutcome]) -> ExtrapolatedOutcome {
        let fine = &found[0];
        let scale = self.scales()[0];
        let held_up = (fine.slowdown_seconds + fine.stalled_seconds) / fine.seconds.max(1e-9);
        // A store that does not keep up gives no numbers for a larger one, except that it will not
        // either.
        let steps = if held_up > HELD_UP { 0.0 } else { -scale.ln() / COARSER.ln() };
        let extrapolated = |of: &dyn Fn(&SimOutcome) -> f64| {
            let more = found.get(1).map_or(0.0, |coarse| of(fine) - of(coarse));
            of(fine) + steps * more.max(0.0)
        };
        let bytes = (fine.flush_bytes + fine.merge_written) as f64;
        ExtrapolatedOutcome {
            written: extrapolated(&|o| {
                let late = late_writes(&course::of_outcome(o), self.bytes());
                late.unwrap_or(o.write_amplification)
            }),
            runs: extrapolated(&|o| o.mean_runs),
            peak: fine.peak_bytes as f64 / (self.held * scale),
            cpu_per_byte: scale * (fine.flush_cpu_seconds + fine.merge_cpu_seconds)
                / bytes.max(1.0),
            held_up,
            deletes: [fine.tombstone_age[1], fine.tombstone_age[2]],
            write_latency: (scale == 1.0).then_some(fine.write_latency),
        }
    }
}

impl AdviseArgs {
    /// Returns the question in the options; known facts replace missing options.
    ///
    /// # Errors
    /// Missing or out-of-bounds options.
    pub fn profile(&self, known: Option<RecordedStore>) -> Done<StoreProfile> {
        let machine = self.machine.machine(self.background_threads);
        let known = known.unwrap_or_default();
        let ssd = self.machine.ssd();
        if let Some(ssd) = &ssd {
            ssd.check().map_err(Failure::new)?;
        }
        let value = known.value.unwrap_or(self.value_size);
        let entry = (self.key_size, value);
        let held = self.live.map(|n| n as f64).or(known.held);
        let is_seen = machine.ingest <= 0.0 && known.ingest > 0.0;
        let ingest = if is_seen { known.ingest } else { machine.ingest };
        let deletes = self.deletes.or(known.deletes);
        let memtable = match self.memtable_size {
            Some(size) => size as f64,
            None => known.memtable.unwrap_or((64 << 20) as f64),
        };
        if ingest <= 0.0 {
            return Err(Failure::with_next("the write rate is missing", "give --ingest, as 50M/s"));
        }
        let ttl = self.ttl.unwrap_or(0.0);
        let is_series = match &self.workload {
            Some(kind) => kind.holds_all(),
            None => held.is_none() && ttl > 0.0,
        };
        let held = match held {
            _ if is_series && ttl > 0.0 => ingest * ttl,
            Some(held) => held,
            None => {
                return Err(Failure::with_next(
                    "the size of the live data is missing",
                    "give --live, as 2T, or --ttl, as 30d",
                ));
            }
        };
        let kind = match (&self.workload, deletes) {
            (Some(kind), _) => kind.to_string(),
            (None, _) if is_series => "timeseries:1000".to_owned(),
            (None, Some(share)) => format!("deletes:{share}"),
            (None, None) if known.skew > 0.0 => format!("zipfian:{}", known.skew),
            (None, None) => "uniform".to_owned(),
        };
        let kind = kind.parse().map_err(Failure::new)?;
        check_entry(entry.0, entry.1).map_err(Failure::new)?;
        check_held(held, entry, is_series && ttl > 0.0)?;
        Ok(StoreProfile {
            held,
            ingest,
            ttl,
            kind,
            entry,
            reads: self.reads,
            scans: self.scans,
            memtable,
            disk: self.disk.map(|n| n as f64).or(ssd.map(|ssd| ssd.capacity)),
            p99: self.p99,
            present: known.present,
            ssd,
            seconds: is_seen.then_some(known.seconds),
            machine,
        })
    }
}

/// Checks whether a store of this size can be simulated.
///
/// # Errors
/// A sentence with options that work.
fn check_held(held: f64, (key, value): (usize, usize), is_series: bool) -> Done {
    let entry = (key + value) as f64;
    let (more, less) = if is_series {
        ("give a larger --ingest or --ttl".to_owned(), "give a smaller --ingest or --ttl")
    } else {
        (format!("give --live {entry:.0} or more"), "give a smaller --live")
    };
    if held > MOST_HELD {
        let what = format!("{held:.1e} bytes of live data are more than 1e18");
        return Err(Failure::with_next(what, less));
    }
    if held < entry {
        let what = format!("{held:.0} bytes of live data are less than one entry of {entry:.0}");
        return Err(Failure::with_next(what, more));
    }
    Ok(())
}

/// Returns the bytes written to tables for each byte of the user, in the second half of a history:
/// the first half fills the store. `None` if nothing was put in it.
pub fn late_writes(course: &[CourseMoment], bytes_per_op: f64) -> Option<f64> {
    let to = course.last()?;
    let from = course.iter().find(|m| m.done * 2 >= to.done)?;
    let put = (to.done - from.done) as f64 * bytes_per_op;
    (put > 0.0).then(|| (to.written - from.written) as f64 / put)
}
