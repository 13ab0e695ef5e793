//! What an operator knows of a store: how much it holds, what comes in, what is asked of it, and
//! the machine. And how a store of that size is simulated.
//!
//! A store of terabytes has too many memtables to simulate each. Smaller stores are simulated
//! instead, two of them, eight times apart, on machines and under loads that are smaller by as
//! much: so all times stay what they are. What a policy writes and how many runs it leaves grows by
//! the same with every such factor, as its levels do; so what comes out is carried on to the store
//! that there is. Space, over what is held, does not depend on it.

use firn_kv::{Policy, TreeOptions};
use firn_tools::output::{Done, Failure, bytes};

use crate::cli::AdviseArgs;
use crate::latency::Percentiles;
use crate::machine::Machine;
use crate::meter::SimOutcome;
use crate::policy::NamedPolicy;
use crate::sim::Setup;
use crate::size::{ContentSize, check_entry};
use crate::ssd::SsdShape;
use crate::workload::{Pattern, SimOpKind, SimPhase, SimWorkload};

/// Memtables that a simulated store holds at most.
const MEMTABLES: f64 = 2048.0;
/// How many times less the smaller one of two holds.
const COARSER: f64 = 8.0;
/// How many times what the store holds is written after it has been filled.
const TURNS: f64 = 1.5;
/// How many times what lives at a time is written where everything expires.
const LIVES: f64 = 2.2;

/// Memtables that a store holds at least, to be simulated: with fewer nothing is merged.
const LEAST_MEMTABLES: f64 = 16.0;
/// Bytes of the smallest memtable that the engine has.
const LEAST_MEMTABLE: u64 = 64 << 10;
/// Bytes of the largest store that is simulated.
const MOST_HELD: f64 = 1e18;

/// The share of the time that writers may be held up, in a store that keeps up.
pub const HELD_UP: f64 = 0.01;

/// What is known of a store.
#[derive(Clone, Debug)]
pub struct StoreQuestion {
    /// Bytes of keys and values that it holds.
    pub held: f64,
    /// Bytes of keys and values that are written in a second.
    pub ingest: f64,
    /// Seconds after which what was written expires; 0 for never.
    pub ttl: f64,
    /// How keys are chosen.
    pub kind: SimOpKind,
    /// Bytes of a key and of a value.
    pub entry: (usize, usize),
    /// Lookups of a key, and scans, in a second.
    pub reads: f64,
    /// See `reads`.
    pub scans: f64,
    /// Bytes of a memtable.
    pub memtable: f64,
    /// Bytes of the disk; `None` where it is to be bought.
    pub disk: Option<f64>,
    /// Seconds that a read may take in 99 of 100 cases; `None` for any.
    pub p99: Option<f64>,
    /// The policy that it has, and the bytes of its tables; `None` of one that is not there yet.
    pub present: Option<(Policy, u64)>,
    /// The device, where its own garbage collection is asked for.
    pub ssd: Option<SsdShape>,
    /// Seconds that the log tells of, where a log says what is written.
    pub seconds: Option<f64>,
    /// The machine.
    pub machine: Machine,
}

/// What the log of a store tells of it.
#[derive(Clone, Debug, Default)]
pub struct KnownStore {
    /// Bytes of keys and values that it holds, as far as its merges show.
    pub held: Option<f64>,
    /// Bytes of keys and values written in a second.
    pub ingest: f64,
    /// The skew of its writes, 0 for none.
    pub skew: f64,
    /// Share of deletes, where there are any to speak of.
    pub deletes: Option<f64>,
    /// Bytes of a value.
    pub value: Option<usize>,
    /// Bytes of a memtable.
    pub memtable: Option<f64>,
    /// Its policy, and the bytes of its tables.
    pub present: Option<(Policy, u64)>,
    /// Seconds that the log tells of.
    pub seconds: f64,
}

/// What a policy would do to the store of a question.
#[derive(Clone, Debug)]
pub struct CarriedOutcome {
    /// Bytes written to tables for each byte that the user wrote, once the store is full.
    pub written: f64,
    /// Runs, on average.
    pub runs: f64,
    /// The most bytes of tables over what the store holds.
    pub peak: f64,
    /// Seconds of the processor for each byte written to tables.
    pub cpu_per_byte: f64,
    /// The share of the time that writers were slowed or stood still.
    pub held_up: f64,
    /// Seconds that a delete is still there, 99th percentile and at most; 0 without deletes.
    pub deletes: [f64; 2],
    /// How long a write takes; not known of a store that is carried on, whose memtables fill faster
    /// than those of the smaller one.
    pub write_latency: Option<Percentiles>,
}

impl StoreQuestion {
    fn bytes(&self) -> f64 {
        (self.entry.0 + self.entry.1) as f64
    }

    /// Whether what is written is not written again, and goes by its age.
    pub fn is_series(&self) -> bool {
        self.kind.holds_all() == Some(true)
    }

    /// How large the stores are that are simulated, over that of the question, the largest first:
    /// one where it can be simulated as it is, else two.
    pub fn scales(&self) -> Vec<f64> {
        let scale = MEMTABLES * self.memtable / self.held;
        if scale >= 1.0 { vec![1.0] } else { vec![scale, scale / COARSER] }
    }

    /// The machine and the load, so many times theirs.
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

    /// What is simulated under a policy, of a store so many times the size.
    ///
    /// # Errors
    /// Options that do not fit.
    pub fn setup(&self, named: NamedPolicy, table: u64, scale: f64) -> Done<Setup> {
        let options = TreeOptions {
            policy: named.policy,
            memtable_size: self.memtable as usize,
            table_size: table,
            ..TreeOptions::default()
        };
        let content = ContentSize {
            key_len: self.entry.0,
            value_len: (self.entry.1, self.entry.1),
            random: 1.0,
            sample: vec![],
        };
        let held = (self.held * scale / self.bytes()).max(1.0);
        let (keys, phases) = if self.is_series() {
            let lives = if self.ttl > 0.0 { LIVES } else { 1.0 };
            self.kind.phases((held * lives) as u64, held as u64)
        } else {
            let (keys, mut phases) = self.kind.phases((held * (1.0 + TURNS)) as u64, held as u64);
            // Filled in order, as fast as it goes: what comes then is what is asked for.
            if let Some(SimPhase { pattern, .. }) = phases.first_mut()
                && *pattern == Pattern::Unique
            {
                *pattern = Pattern::Series(1);
            }
            (keys, phases)
        };
        let workload = SimWorkload {
            keys,
            phases,
            content,
            ttl_micros: (self.ttl * 1e6) as u64,
            seed: 1,
            per_memtable: None,
        };
        let machine = self.machine_at(scale);
        Ok(Setup { idea: named.idea, ..Setup::new(options, workload, machine) })
    }

    /// The same with the device, where one is asked for: of a smaller store one that shows less.
    ///
    /// # Errors
    /// Options that do not fit.
    pub fn setup_on_device(&self, named: NamedPolicy, table: u64, scale: f64) -> Done<Setup> {
        let smaller = |ssd: SsdShape| SsdShape { capacity: ssd.capacity * scale, ..ssd };
        Ok(Setup { ssd: self.ssd.map(smaller), ..self.setup(named, table, scale)? })
    }

    /// What the simulations at [`scales`](StoreQuestion::scales) say of the store itself.
    pub fn carry(&self, found: &[SimOutcome]) -> CarriedOutcome {
        let fine = &found[0];
        let scale = self.scales()[0];
        let held_up = (fine.slowdown_seconds + fine.stalled_seconds) / fine.seconds.max(1e-9);
        // Of a store that does not keep up nothing follows for a larger one, but that it does not.
        let steps = if held_up > HELD_UP { 0.0 } else { -scale.ln() / COARSER.ln() };
        let carried = |of: &dyn Fn(&SimOutcome) -> f64| {
            let more = found.get(1).map_or(0.0, |coarse| of(fine) - of(coarse));
            of(fine) + steps * more.max(0.0)
        };
        let bytes = (fine.flush_bytes + fine.merge_written) as f64;
        CarriedOutcome {
            written: carried(&|o| late_writes(o, self.bytes())),
            runs: carried(&|o| o.mean_runs),
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
    /// The question that the options ask, with what is known where they say nothing.
    ///
    /// # Errors
    /// What is missing, or out of bounds.
    pub fn question(&self, known: Option<KnownStore>) -> Done<StoreQuestion> {
        let machine = self.machine.machine();
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
            return Err(Failure::with_next(
                "it is not said what is written",
                "give --ingest, as 50M/s",
            ));
        }
        let ttl = self.ttl.unwrap_or(0.0);
        let is_series = match self.workload {
            Some(kind) => kind.holds_all() == Some(true),
            None => held.is_none() && ttl > 0.0,
        };
        let held = match held {
            _ if is_series && ttl > 0.0 => ingest * ttl,
            Some(held) => held,
            None => {
                return Err(Failure::with_next(
                    "it is not said how much is held",
                    "give --live, as 2T, or --ttl, as 30d",
                ));
            }
        };
        let kind = match (self.workload, deletes) {
            (Some(kind), _) => kind,
            (None, _) if is_series => SimOpKind::TimeSeries(1000),
            (None, Some(share)) => SimOpKind::Deletes(share),
            (None, None) if known.skew > 0.0 => SimOpKind::Zipfian(known.skew),
            (None, None) => SimOpKind::Uniform,
        };
        check_entry(entry.0, entry.1).map_err(Failure::new)?;
        check_held(held, memtable)?;
        Ok(StoreQuestion {
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

/// Whether a store that holds so much can be simulated with such memtables.
///
/// # Errors
/// A sentence, with options that can be.
fn check_held(held: f64, memtable: f64) -> Done {
    let least = LEAST_MEMTABLES * memtable;
    if (least..=MOST_HELD).contains(&held) {
        return Ok(());
    }
    let (what, next) = if held > MOST_HELD {
        (format!("{held:.1e} bytes are more than 1e18"), "give a smaller --live".to_owned())
    } else {
        let what = format!(
            "{} are held, less than the {} memtables of {} from which on policies differ",
            bytes(held as u64),
            LEAST_MEMTABLES,
            bytes(memtable as u64)
        );
        // Whole KiB, of which the engine takes 64 at least.
        let fits = (held / LEAST_MEMTABLES / 1024.0).floor() as u64;
        let live = format!("--live {}M", (least / 1048576.0).ceil() as u64);
        let next = if fits * 1024 >= LEAST_MEMTABLE {
            format!(
                "give --memtable-size {fits}K to see it with smaller ones, or what it will hold: {live}"
            )
        } else {
            format!("give what it will hold, at least {live}")
        };
        (what, next)
    };
    Err(Failure::with_next(what, next))
}

/// Bytes written to tables for each byte of the user, in the second half of a simulation: its
/// first fills the store.
fn late_writes(o: &SimOutcome, bytes_per_op: f64) -> f64 {
    let half = o.points.iter().find(|p| p.ops * 2 >= o.ops);
    let (Some(from), Some(to)) = (half, o.points.last()) else { return o.write_amplification };
    let written = (to.flushed + to.merged) as f64 - (from.flushed + from.merged) as f64;
    if to.ops > from.ops {
        written / ((to.ops - from.ops) as f64 * bytes_per_op)
    } else {
        o.write_amplification
    }
}
