//! Reads the event logs of real stores as workloads and machines for simulation.
//!
//! A log has the entries and bytes of each flush, and the sizes of each compaction before and
//! after. These give the input of the simulator: entries of a memtable, bytes of an entry in a
//! table, the share of deletes, whether keys came in order, and the keys of the writes
//! ([`choice`](crate::workload::choice)). `compare` and `replay` simulate that workload under the
//! recorded policy or others.
//!
//! A log also has the duration of each flush and compaction, and the time that writers were slowed
//! or stalled so far. These give the speeds of the machine as that store used it
//! ([`RecordedHistory::fitted`]), whatever else it did. They predict how long writers are held up.

#[doc(hidden)]
pub mod course;
pub(crate) mod replay;

use std::sync::Arc;

use firn_kv::{Compression, FilterKind, Policy, TreeOptions};
use firn_tools::output::{Done, Failure};
use serde_json::Value;

use crate::advise::profile::RecordedStore;
use crate::history::course::CourseMoment;
use crate::model::machine::{LogSpread, Machine, MachineCost, WorkBytes, side_by_side};
use crate::model::meter::SimOutcome;
use crate::model::sim::{self, Setup};
use crate::model::size::{ContentSize, KeySeries, Sizes, place};
use crate::workload::choice::{FlushedVersions, KeyChoice, choice, loaded};
use crate::workload::{SimPhase, SimWorkload};
use firn_workload::{Distribution, ValueSize};

/// Number of simulations that correct a machine's speeds.
const FITS: usize = 8;

/// Multiple of the default machine's write time above which it cannot be the write itself.
const SLOW: f64 = 6.0;

/// Contents of a log about one tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedHistory {
    /// The tree.
    pub tree: String,
    /// Its policy, if the log has its opening.
    pub policy: Option<Policy>,
    /// Its sizes: memtable, table.
    pub sizes: Option<(u64, u64)>,
    /// Its bound on the age of deletes.
    pub tombstone_age_secs: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Sums over flushes: entries, deletes, bytes of tables, bytes of keys and values.
    pub flushed: [u64; 4],
    /// Heads of the first and last key of each flush.
    pub ranges: Vec<(u64, u64)>,
    /// Number of compactions, moves, drops.
    pub jobs: [u64; 3],
    /// Sums over compactions: bytes read, bytes written, entries read, entries written.
    pub merged: [u64; 4],
    /// Microseconds of all flushes, and of all compactions.
    pub micros: (u64, u64),
    /// Microseconds of each flush, and the entries that it wrote.
    pub each: Vec<(u64, u64)>,
    /// Content of the memtable of each flush; the number of entries replaces the number of versions
    /// if the log lacks it.
    pub(crate) memtables: Vec<FlushedVersions>,
    /// Processor nanoseconds of the compactions on the default machine.
    pub default_nanos: f64,
    /// Each compaction.
    pub merges: Vec<RecordedMerge>,
    /// Microseconds in which a flush could have begun but did not.
    pub waited: u64,
    /// Microseconds from the opening of the tree to its last flush.
    pub elapsed: u64,
    /// Microseconds, until the last flush, in which writers of all trees were slowed, and waited
    /// for a memtable.
    pub held_up: [u64; 2],
    /// Maximum number of immutable memtables, and number of background threads.
    pub opened: Option<(u64, u64)>,
    /// Microseconds from the last flush to the last event.
    pub after: u64,
    /// Its course; empty if the log lacks it.
    pub course: Vec<CourseMoment>,
    /// Number of runs after the last event.
    pub last_runs: u64,
}

/// A compaction in a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedMerge {
    /// Its duration in nanoseconds.
    pub took: f64,
    /// Its processor nanoseconds on the default machine.
    pub default_nanos: f64,
    /// Number of tables that it wrote.
    pub tables: usize,
    /// Number of pieces in which it ran.
    pub pieces: usize,
}

/// Sums counters that restart at every opening.
#[derive(Default)]
struct Since {
    at: Option<u64>,
    held_up: [u64; 2],
}

/// Maximum of any count in an event: it covers whole files, and microseconds of centuries.
const MOST_COUNTED: u64 = 1 << 53;

/// Reports whether the numbers of an event are possible. Those of a damaged line could overflow
/// sums.
fn can_be(event: &Value) -> bool {
    let is_job = matches!(event["event"].as_str(), Some("flush" | "compaction"));
    let mut fields = event.as_object().into_iter().flatten();
    !is_job || fields.all(|(_, value)| value.as_u64().is_none_or(|n| n <= MOST_COUNTED))
}

/// Reads the events of a tree. Skips lines that are no events (a torn last one), or have impossible
/// numbers.
///
/// # Errors
/// If the log has no flush, or has several trees and none is named.
pub fn parse(text: &str, tree: Option<&str>) -> Done<RecordedHistory> {
    let events: Vec<Value> =
        text.lines().filter_map(|l| serde_json::from_str(l).ok()).filter(can_be).collect();
    let mut names: Vec<&str> = events
        .iter()
        .filter(|e| e["event"] == "flush")
        .filter_map(|e| e["tree"].as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    let name = match (tree, &names[..]) {
        (Some(tree), _) => tree,
        (None, [one]) => one,
        (None, []) => {
            return Err(Failure::with_next(
                "the event log has no flush",
                "write more than a memtable, or use `compaction-sim advise --live 1M --ingest \
                 1M/s` with your numbers",
            ));
        }
        (None, many) => {
            return Err(Failure::with_next(
                format!("the event log has several trees: {}", many.join(", ")),
                "name one of them with --tree",
            ));
        }
    };
    let mut h = RecordedHistory { tree: name.to_owned(), ..RecordedHistory::default() };
    let mut since = Since::default();
    h.course = course::of_events(events.iter().filter(|e| e["tree"] == name));
    for e in events.iter().filter(|e| e["tree"] == name || e["event"] == "open") {
        let n = |field: &str| e[field].as_u64().unwrap_or(0);
        h.after = since.at.filter(|_| h.flushes > 0).map_or(0, |at| n("at").saturating_sub(at));
        match e["event"].as_str().unwrap_or_default() {
            "open" => {
                since = Since::default();
                h.opened = e["max_sealed"].as_u64().zip(e["background_threads"].as_u64());
            }
            "tree" => {
                since.at = e["at"].as_u64();
                h.policy = e["policy"].as_str().and_then(|text| text.parse().ok());
                h.sizes = Some((n("memtable_size"), n("table_size")));
                h.tombstone_age_secs = n("tombstone_age_secs");
            }
            "flush" => {
                h.last_runs = n("runs");
                h.flushes += 1;
                for (sum, field) in
                    h.flushed.iter_mut().zip(["entries", "deletes", "bytes_out", "raw_bytes"])
                {
                    *sum += n(field);
                }
                if let (Some(lo), Some(hi)) = (e["heads"][0].as_u64(), e["heads"][1].as_u64()) {
                    h.ranges.push((lo, hi));
                }
                h.micros.0 += n("micros");
                h.each.push((n("micros"), n("entries")));
                h.memtables.push(FlushedVersions {
                    versions: n("versions").max(n("entries")),
                    entries: n("entries"),
                });
                // It could begin when its memtable was sealed and the previous flush was done.
                let since_last = n("at").saturating_sub(n("micros") + since.at.unwrap_or(0));
                h.waited += n("waited_micros").min(since_last);
                h.elapsed += since.at.map_or(0, |at| n("at").saturating_sub(at));
                let held_up = [n("slowdown_micros"), n("stalled_micros")];
                for ((sum, now), before) in h.held_up.iter_mut().zip(held_up).zip(since.held_up) {
                    *sum += now.saturating_sub(before);
                }
                since = Since { at: e["at"].as_u64(), held_up };
                h.after = 0;
            }
            "compaction" => {
                h.last_runs = n("runs");
                let job = e["job"].as_str().unwrap_or_default();
                let kind =
                    ["merge", "move", "drop"].iter().position(|k| job.starts_with(k)).unwrap_or(0);
                h.jobs[kind] += 1;
                if kind == 0 {
                    h.micros.1 += n("micros");
                    let runs = job.matches(" + L").count() + 1;
                    let nanos = Machine::default().merge.nanos(
                        runs,
                        n("entries_in") as f64,
                        n("bytes_out") as f64,
                    );
                    h.default_nanos += nanos;
                    h.merges.push(RecordedMerge {
                        took: n("micros") as f64 * 1000.0,
                        default_nanos: nanos,
                        tables: e["tables"].as_array().map_or(1, Vec::len),
                        pieces: n("subcompactions").max(1) as usize,
                    });
                }
                for (sum, field) in
                    h.merged.iter_mut().zip(["bytes_in", "bytes_out", "entries_in", "entries_out"])
                {
                    *sum += n(field);
                }
            }
            _ => {}
        }
    }
    if h.flushes == 0 || h.flushed[0] == 0 {
        return Err(Failure::new(format!("the event log has no flush of {name:?}")));
    }
    Ok(h)
}

impl RecordedHistory {
    /// Reports whether the key range of each of the first flushes follows that of the previous one.
    fn is_ascending(&self, flushes: usize) -> bool {
        let ranges = &self.ranges[..flushes.min(self.ranges.len())];
        ranges.len() > 1 && ranges.windows(2).all(|w| w[0].1 <= w[1].0)
    }

    /// Returns the number of versions in memtables: all writes, even those that reached no table.
    fn versions(&self) -> u64 {
        FlushedVersions::sum(&self.memtables, |m| m.versions)
    }

    /// Returns the number of versions per written entry.
    fn versions_per_entry(&self) -> f64 {
        self.versions() as f64 / self.flushed[0].max(1) as f64
    }

    /// Returns a simulation of this history, before the keys of the writes are known.
    ///
    /// # Errors
    /// Recorded options that are out of bounds, and errors of the engine's parts.
    fn setup(&self, policy: Policy, machine: Machine) -> Done<Setup> {
        let (memtable, table_size) = self.sizes.unwrap_or((64 << 20, 64 << 20));
        let options = TreeOptions {
            policy,
            memtable_size: memtable as usize,
            table_size,
            tombstone_age_secs: self.tombstone_age_secs,
            compression: vec![Compression::None],
            filter: vec![FilterKind::Fuse8],
            ..TreeOptions::default()
        };
        options.check()?;
        let [entries, deletes, written, _] = self.flushed;
        let per_flush = (entries / self.flushes).max(1);
        // Use values of a length that gives entries in tables the recorded size, whatever their
        // compression was.
        let puts = (entries - deletes.min(entries)).max(1);
        let content = |len: usize| ContentSize {
            value: ValueSize::Fixed(len),
            random: 0.0,
            ..ContentSize::default()
        };
        let mut value = written as f64 / puts as f64;
        let in_order = self.is_ascending(self.ranges.len());
        let series = in_order.then(|| KeySeries { series: 1, step: place(1, self.versions()) });
        for _ in 0..3 {
            let content = content(value as usize);
            let size = Sizes::measure(&options, &content, per_flush, entries, series)?.flushed;
            let put = size.put + size.fixed / per_flush as f64;
            value = (value + written as f64 / puts as f64 - put).clamp(0.0, 1e7);
        }
        let workload = SimWorkload {
            keys: 1,
            phases: vec![],
            content: content(value as usize),
            ttl_micros: 0,
            seed: 1,
            per_memtable: Some(self.per_memtable()),
        };
        Ok(Setup::new(options, workload, machine))
    }

    /// Returns the average number of versions in a memtable.
    fn per_memtable(&self) -> u64 {
        (self.versions() / self.flushes).max(1)
    }

    /// Lets the writes of a simulation choose their keys by `choice`.
    fn choose(&self, choice: &KeyChoice, workload: &mut SimWorkload) {
        let [entries, deletes, ..] = self.flushed;
        // The last memtable stays as it is.
        let ops = self.versions().saturating_add(self.per_memtable() / 2);
        let unique = choice.keys >= entries as f64 * 1e3;
        let order = match () {
            () if self.is_ascending(self.ranges.len()) => Distribution::Series(1),
            () if unique && deletes == 0 => Distribution::Unique,
            () if choice.skew > 0.0 => Distribution::Zipfian { theta: choice.skew },
            () => Distribution::Uniform,
        };
        let drawn = order.is_random();
        let load = if drawn { choice.load.min(ops - 1) } else { 0 };
        let in_order = self.is_ascending(loaded(&self.memtables));
        let loading = if in_order { Distribution::Series(1) } else { Distribution::Unique };
        let share = deletes as f64 / entries.saturating_sub(load).max(1) as f64;
        workload.phases =
            vec![SimPhase::of(loading, load, 0.0), SimPhase::of(order, ops - load, share.min(1.0))];
        workload.phases.retain(|p| p.ops > 0);
        workload.keys = if drawn { choice.keys.max(load as f64) as u64 } else { ops }.max(1);
    }

    /// Returns the facts about the store in the log; its keys have this many bytes.
    ///
    /// # Errors
    /// As [`choice`](RecordedHistory::choice).
    pub fn known(&self, key_size: usize) -> Done<RecordedStore> {
        let [entries, deletes, _, user] = self.flushed.map(|n| n as f64);
        let each = user / entries.max(1.0);
        let choice = self.choice(&self.policy.clone().unwrap_or_default())?;
        // Not more than the writes, however many keys there are to choose from.
        let held = choice.keys.max(choice.load as f64).min(entries) * each;
        Ok(RecordedStore {
            held: Some(held),
            ingest: user * self.versions_per_entry() / (self.elapsed as f64 / 1e6).max(1e-6),
            skew: choice.skew,
            deletes: Some(deletes / entries.max(1.0)).filter(|share| *share > 0.01),
            value: Some((each - key_size as f64).max(1.0) as usize),
            memtable: self.sizes.map(|(memtable, _)| memtable as f64),
            present: self
                .policy
                .clone()
                .zip(self.sizes)
                .map(|(policy, (_, table))| (policy, table)),
            seconds: self.elapsed as f64 / 1e6,
        })
    }

    /// Recalculates the amplification per byte that users wrote: simulated entries are only as long
    /// as the compressed ones in tables.
    pub fn count_users_bytes(&self, o: &mut SimOutcome) {
        let raw = self.flushed[3] as f64 * self.versions_per_entry();
        if raw > 0.0 && o.ops > 0 {
            let written = o.user_bytes * o.write_amplification;
            o.user_bytes = raw * o.ops as f64 / self.versions() as f64;
            o.write_amplification = written / o.user_bytes;
        }
    }

    /// Returns the duration of each flush relative to the mean speed of all flushes.
    fn flush_factors(&self) -> Arc<[f64]> {
        let mean = self.micros.0 as f64 / self.flushed[0].max(1) as f64;
        let factor = |&(micros, entries): &(u64, u64)| {
            if mean > 0.0 { micros as f64 / (mean * entries.max(1) as f64) } else { 1.0 }
        };
        self.each.iter().map(factor).collect()
    }

    /// Returns the recorded durations, with all contention: nanoseconds of a write, of a flushed
    /// entry, and of a compaction relative to its time on the default machine's processor.
    fn speeds(&self) -> [f64; 3] {
        let (entries, versions) = (self.flushed[0].max(1) as f64, self.versions().max(1) as f64);
        let writing = self.elapsed.saturating_sub(self.held_up[0] + self.held_up[1]);
        let merge = if self.default_nanos > 0.0 {
            self.micros.1 as f64 * 1000.0 / self.default_nanos
        } else {
            1.0
        };
        [writing as f64 * 1000.0 / versions, self.micros.0 as f64 * 1000.0 / entries, merge]
    }

    /// Returns a machine with these speeds without contention, and with this many nanoseconds
    /// before a flush begins, for the writers of this simulation.
    fn machine(
        &self,
        [write, flush, merge]: [f64; 3],
        before: f64,
        cores: f64,
        of: &Setup,
    ) -> Machine {
        let d = Machine::default();
        // Writers that need much longer than a write takes wait for something that is not in the
        // log: they come at a rate, and use no core meanwhile.
        let ingest = match of.machine.ingest {
            known if known > 0.0 => known,
            _ if write > SLOW * d.write_op => of.workload.put_bytes() / write * 1e9,
            _ => 0.0,
        };
        // The time of a flush beyond its processor work is waiting: for syncs first.
        let [entries, _, written, _] = self.flushed;
        let flush_cpu = flush.min(d.flush.0 + d.flush.1 * written as f64 / entries.max(1) as f64);
        let waits = (flush - flush_cpu) * entries as f64 / self.flushes.max(1) as f64 / 1e9;
        let syncs = d.sync_latency + d.install;
        let slow = (waits / syncs).min(1.0);
        Machine {
            read_bandwidth: f64::INFINITY,
            write_bandwidth: f64::INFINITY,
            sync_latency: d.sync_latency * slow,
            install: d.install * slow,
            flush_wait: (waits - syncs).max(0.0),
            cores,
            threads: self.opened.map_or(d.threads, |o| o.1 as usize),
            max_sealed: self.opened.map_or(d.max_sealed, |o| o.0.max(1) as usize),
            before_flush: before,
            write_op: if ingest > 0.0 { d.write_op } else { write.max(1.0) },
            write_byte: 0.0,
            flush: (flush_cpu, 0.0),
            merge: d.merge.times(merge),
            ingest,
            instant: false,
            jitter: (0.0, 0.0),
            stays_open: self.after as f64 / 1e6,
            ..d
        }
    }

    /// Returns the spread of compaction times relative to their times alone on this machine.
    fn merge_spread(&self, machine: &Machine) -> f64 {
        let scale = machine.merge.entry / Machine::default().merge.entry;
        let merge = |m: &RecordedMerge| {
            let usual =
                machine.merge_cost(1, 0.0, WorkBytes { tables: m.tables, ..WorkBytes::default() });
            let threads = side_by_side(m.pieces, m.pieces.min(machine.threads));
            let cost = MachineCost { cpu: scale * m.default_nanos, threads, ..usual };
            m.took / machine.alone(cost).max(1.0)
        };
        self.merges.iter().map(merge).collect::<LogSpread>().deviation()
    }

    /// Returns the simulation of this history on a machine with this many cores. Its speeds are
    /// those at which everything takes as long as recorded. A few simulations determine the
    /// contention.
    ///
    /// # Errors
    /// As [`choice`](RecordedHistory::choice).
    pub fn fitted(&self, policy: &Policy, cores: f64) -> Done<Setup> {
        let choice = self.choice(policy)?;
        let mut setup = self.setup(policy.clone(), Machine::default())?;
        self.choose(&choice, &mut setup.workload);
        Ok(self.fitted_to(setup, cores)?.0)
    }

    /// Does the same as [`fitted`](RecordedHistory::fitted), if more is known about the workload
    /// than the log has. Also returns the random variation of flushes and compactions
    /// ([`Machine::jitter`]), without the variation by contention.
    ///
    /// # Errors
    /// Errors of the simulator.
    pub fn fitted_to(&self, mut setup: Setup, cores: f64) -> Done<(Setup, (f64, f64))> {
        let recorded = self.speeds();
        let waited = self.waited as f64 * 1000.0 / self.flushes.max(1) as f64;
        let (mut alone, mut before) = (recorded, waited);
        let given = setup.clone();
        setup.machine = self.machine(alone, before, cores, &given);
        let factors = self.flush_factors();
        let spread = factors.iter().copied().collect::<LogSpread>().deviation();
        // The random part of it, without contention.
        let mut chance = 1.0;
        let mut jitter = (spread, 0.0);
        for _ in 0..FITS {
            setup.flush_factors = tempered(&factors, chance);

            let o = sim::run(&setup, &mut |_| ())?;
            let per = |took: f64, of: f64| if of > 0.0 { took / of } else { 0.0 };
            // A memtable has the same number of entries in both, however many writes it took.
            let entries = o.flushes as f64 * self.flushed[0] as f64 / self.flushes.max(1) as f64;
            let simulated = [
                per(o.writing_seconds * 1e9, entries),
                per(o.flush_seconds * 1e9, entries),
                per(o.merge_seconds, o.merge_cpu_seconds / alone[2]),
            ];
            for ((alone, recorded), simulated) in alone.iter_mut().zip(recorded).zip(simulated) {
                *alone *=
                    if simulated > 0.0 && recorded > 0.0 { recorded / simulated } else { 1.0 };
            }
            before =
                (before + waited - per(o.flush_waited_seconds * 1e9, o.flushes as f64)).max(0.0);
            setup.machine = self.machine(alone, before, cores, &given);
            let less = |all: f64, shared: f64| (all * all - shared * shared).max(0.0).sqrt();
            if spread > 0.0 {
                let shared = less(o.flush_spread.deviation(), chance * spread);
                chance = less(spread, shared) / spread;
            }
            let merges = self.merge_spread(&setup.machine);
            jitter = (chance * spread, less(merges, o.merge_spread.deviation()));
        }
        Ok((setup, jitter))
    }

    /// Finds the keys of the writes.
    ///
    /// # Errors
    /// Recorded options that are out of bounds, and errors of the simulator.
    pub fn choice(&self, policy: &Policy) -> Done<KeyChoice> {
        let [read, written, entries_in, entries_out] = self.merged;
        let all = KeyChoice { load: 0, keys: self.flushed[0] as f64 * 1e4, skew: 0.0 };
        let all_kept = entries_out as f64 >= entries_in as f64 * 0.999;
        if self.is_ascending(self.ranges.len()) || (all_kept && self.versions_per_entry() < 1.001) {
            return Ok(all);
        }
        let kept = (read > 0).then_some(written as f64 / read as f64);
        let mut setup = self.setup(policy.clone(), Machine::default())?;
        setup.machine = self.machine(self.speeds(), 0.0, f64::INFINITY, &setup);
        choice(&self.memtables, all.keys, kept, &mut |choice| {
            self.choose(choice, &mut setup.workload);
            let o = sim::run(&setup, &mut |_| ())?;
            Ok(o.merge_written as f64 / (o.merge_read as f64).max(1.0))
        })
    }

    /// Returns the record in the form of a simulation's outcome. Fields that a log lacks (live
    /// data, reads, deletes) are zero.
    pub fn outcome(&self) -> SimOutcome {
        let [_, _, flushed, raw] = self.flushed;
        let written = (flushed + self.merged[1]) as f64;
        let user_bytes = raw as f64 * self.versions_per_entry();
        let whole = course::phases(&self.course, 1).pop().unwrap_or_default();
        let mut o = SimOutcome {
            ops: self.versions(),
            user_bytes,
            flush_raw_bytes: raw as f64,
            seconds: (self.elapsed + self.after) as f64 / 1e6,
            flushes: self.flushes,
            merges: self.jobs[0],
            moves: self.jobs[1],
            drops: self.jobs[2],
            flush_bytes: flushed,
            merge_read: self.merged[0],
            merge_written: self.merged[1],
            write_amplification: written / user_bytes.max(1.0),
            rewrite_amplification: written / (flushed as f64).max(1.0),
            mean_runs: whole.mean_runs,
            max_runs: self.course.iter().map(|m| m.runs).max().unwrap_or(0),
            runs: self.course.last().map_or(0, |m| m.runs),
            bytes: whole.bytes,
            peak_bytes: whole.peak,
            slowdown_seconds: self.held_up[0] as f64 / 1e6,
            stalled_seconds: self.held_up[1] as f64 / 1e6,
            flush_seconds: self.micros.0 as f64 / 1e6,
            merge_seconds: self.micros.1 as f64 / 1e6,
            ops_per_second: self.versions() as f64 / (self.elapsed as f64 / 1e6).max(1e-9),
            ..SimOutcome::default()
        };
        // A log does not have the time at which each byte was merged, but the sum of bytes written.
        o.points = self.course.iter().map(|m| m.point()).collect();
        o
    }
}

/// Raises the factors to the power of this share, and scales them to a mean of 1.
fn tempered(factors: &[f64], share: f64) -> Arc<[f64]> {
    let all: Vec<f64> = factors.iter().map(|f| f.max(1e-9).powf(share)).collect();
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    all.iter().map(|f| f / mean).collect()
}
