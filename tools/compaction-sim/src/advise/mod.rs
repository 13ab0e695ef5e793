//! `advise`: recommends a policy for a store, with its cost and the first limit that breaks.
//!
//! It simulates the candidates ([`question`](crate::advise::question)) and compares bytes written, space,
//! and blocks read: the three costs that a policy can trade. It discards candidates that another
//! one beats in all three. The others must keep up, and fit the disk and the latency bound. Of
//! these it recommends the policy whose most used resource is used the least. Space is a resource
//! if the disk size is given. Otherwise space counts only among policies with about equal use of
//! device and processor.
//!
//! Reads are calculated, not simulated ([`latency`](crate::model::latency)). The time of the device per
//! block grows with its load, which includes these reads, as in a queue with one server.

pub mod candidates;
pub mod question;

use std::io::Write;
use std::path::Path;

use firn_kv::Policy;
use firn_tools::output::{Done, Failure, Style, bytes, count, print_table, row, table};
use firn_tools::shell;
use serde::Serialize;

use crate::advise::candidates::{PolicyCandidate, candidates};
use crate::advise::question::{CarriedOutcome, HELD_UP, StoreQuestion};
use crate::cli::AdviseArgs;
use crate::cli::batch::{simulate_all, simulate_each};
use crate::history::RecordedHistory;
use crate::history::replay;
use crate::model::latency::{CountOdds, Percentiles, ReadCosts, ReadRun};
use crate::model::meter::READ_CPU;
use crate::model::sim::Setup;
use crate::policy::NamedPolicy;
use crate::report::text::{percentiles, seconds, time};

/// False positive rate of a filter: that of the engine's default.
const FILTER_ERROR: f64 = 1.0 / 256.0;
/// Bytes of a block.
const BLOCK: f64 = 4096.0;
/// Multiple of the live data that counts as a share of 1 if no disk size is given. Used to compare
/// policies with equal use of the other resources.
const ROOM: f64 = 3.0;
/// Weight of the sum of all shares relative to the largest one.
const REST: f64 = 0.1;
/// Smallest disk that is bought for a store. For a smaller one the number of full writes a day
/// means nothing.
const LEAST_DISK: f64 = (16u64 << 30) as f64;
/// Seconds that a log must cover before its load is extrapolated to a day.
const DAY_FROM: f64 = 3600.0;
/// A candidate that is better by less does not count as better.
const TOLERANCE: f64 = 0.02;

/// Predicted cost of a candidate.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyCost {
    /// The policy, in the usual notation.
    pub policy: String,
    /// Bytes written to tables for each byte put.
    pub write_amplification: f64,
    /// Bytes written to the device per second.
    pub written_per_second: f64,
    /// Average number of runs that a scan reads.
    pub runs: f64,
    /// Peak bytes of tables, including unfinished outputs.
    pub peak_bytes: f64,
    /// Share of the time in which the device is busy.
    pub device: f64,
    /// Number of busy processor cores.
    pub cores: f64,
    /// Blocks that a lookup reads from the device.
    pub blocks_per_read: f64,
    /// First blocks of a scan that are read from the device.
    pub blocks_per_scan: f64,
    /// Seconds of a lookup.
    pub read_latency: Percentiles,
    /// Seconds of the beginning of a scan.
    pub scan_latency: Percentiles,
    /// Seconds of a write, if known.
    pub write_latency: Option<Percentiles>,
    /// Share of the time in which writers are slowed or stalled.
    pub held_up: f64,
    /// Seconds until a delete is gone: 99th percentile, and maximum.
    pub deletes: [f64; 2],
    /// Bytes that the device writes for each byte of the store, with its own garbage collection.
    /// `None` if no device is simulated, or if the store does not fit on it.
    pub device_write_amplification: Option<f64>,
    /// Seconds until the store has written the device's endurance; `None` if that is not given.
    pub endurance_seconds: Option<f64>,
    /// Options of the tree, in Rust.
    pub options: String,
    /// Text after `WITH` in CQL, if CQL has the policy.
    pub cql: Option<String>,
    /// Limits that it exceeds, as text; empty if it fits.
    pub unfit: Vec<String>,
}

impl PolicyCost {
    fn of(q: &StoreQuestion, candidate: &PolicyCandidate, o: &CarriedOutcome) -> PolicyCost {
        let cost = PolicyCost::at(q, candidate, o, 1.0);
        let unfit = cost.limits(q, 1.0).into_iter().filter(|(_, used)| *used > 1.0);
        PolicyCost { unfit: unfit.map(|(what, _)| what).collect(), ..cost }
    }

    /// Calculates the cost at this multiple of the load.
    fn at(
        q: &StoreQuestion,
        candidate: &PolicyCandidate,
        o: &CarriedOutcome,
        load: f64,
    ) -> PolicyCost {
        let (m, ingest) = (&q.machine, q.ingest * load);
        let growth = if q.ttl > 0.0 && q.is_series() { load } else { 1.0 };
        let peak = o.peak * q.held * growth;
        let missed = (1.0 - m.cache / peak.max(1.0)).clamp(0.0, 1.0);
        let run = ReadRun { entries: 1.0, covers: 1.0, errs: FILTER_ERROR };
        let reads = ReadCosts::of(&vec![run; o.runs.round().max(1.0) as usize], missed);
        let blocks_per_read = reads.hit.mean();
        // Also valid for a fractional number of runs.
        let blocks_per_scan = o.runs.max(1.0) * missed;
        let blocks = load * (q.reads * blocks_per_read + q.scans * blocks_per_scan);
        let written = ingest * o.written;
        let read = (written - ingest).max(0.0) + blocks * BLOCK;
        let device = written / m.write_bandwidth + read / m.read_bandwidth;
        let ops = ingest / (q.entry.0 + q.entry.1) as f64;
        let cores = written * o.cpu_per_byte
            + ops * m.write_op / 1e9
            + load * (q.reads + q.scans * o.runs.max(1.0)) * READ_CPU;
        // A queue with one server.
        let block = m.block_seconds / (1.0 - device).max(1e-3);
        let took = |blocks: &CountOdds| blocks.percentiles(&CountOdds::default(), block, READ_CPU);
        PolicyCost {
            policy: candidate.policy.to_string(),
            write_amplification: o.written,
            written_per_second: written,
            runs: o.runs,
            peak_bytes: peak,
            device,
            cores,
            blocks_per_read,
            blocks_per_scan,
            read_latency: took(&reads.hit),
            scan_latency: took(&reads.scan),
            write_latency: o.write_latency,
            held_up: o.held_up,
            deletes: o.deletes,
            device_write_amplification: None,
            endurance_seconds: None,
            options: candidate.options(q.memtable as u64),
            cql: candidate.cql.clone(),
            unfit: vec![],
        }
    }

    /// Returns the used share of each resource, with a sentence that states it. Figures have the
    /// digits of the table.
    fn limits(&self, q: &StoreQuestion, load: f64) -> Vec<(String, f64)> {
        let mut all = vec![
            (format!("the device is busy for {} of its time", percent(self.device)), self.device),
            (
                format!("{:.2} of {:.0} cores are busy", self.cores, q.machine.cores),
                self.cores / q.machine.cores,
            ),
        ];
        if let Some(disk) = q.disk {
            let words = format!(
                "{} of tables, of {} of disk",
                bytes(self.peak_bytes as u64),
                bytes(disk as u64)
            );
            all.push((words, self.peak_bytes / disk));
        }
        if let Some(bound) = q.p99 {
            if q.reads > 0.0 {
                all.push((
                    format!(
                        "a lookup takes {} in the 99th percentile",
                        seconds(self.read_latency.p99)
                    ),
                    self.read_latency.p99 / bound,
                ));
            }
            if q.scans > 0.0 {
                all.push((
                    format!(
                        "a scan takes {} to begin, in the 99th percentile",
                        seconds(self.scan_latency.p99)
                    ),
                    self.scan_latency.p99 / bound,
                ));
            }
        }
        if load == 1.0 && self.held_up > HELD_UP {
            all.push((
                format!("writers are held up for {} of the time", percent(self.held_up)),
                self.held_up / HELD_UP,
            ));
        }
        all
    }

    /// Returns the costs that a policy trades; less is better.
    fn traded(&self, q: &StoreQuestion) -> [f64; 3] {
        let asked = q.reads + q.scans;
        let blocks = if asked > 0.0 {
            (q.reads * self.blocks_per_read + q.scans * self.blocks_per_scan) / asked
        } else {
            self.runs
        };
        [self.write_amplification, self.peak_bytes, blocks]
    }

    /// Returns the resource with the largest used share: the words of
    /// [`limits`](PolicyCost::limits), and the share.
    fn scarcest(&self, q: &StoreQuestion) -> (String, f64) {
        let all = self.limits(q, 1.0).into_iter();
        all.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
    }

    /// Returns the shares that decide between policies with equally used resources: device,
    /// processor, and space. There is enough space if no disk size is given.
    fn shares(&self, q: &StoreQuestion) -> [(String, f64); 3] {
        let room = self.peak_bytes / q.disk.unwrap_or(ROOM * q.held);
        [
            (
                format!("keeps the device busy for {} of its time", percent(self.device)),
                self.device,
            ),
            (format!("uses {:.2} cores", self.cores), self.cores / q.machine.cores),
            (format!("takes {} at most", bytes(self.peak_bytes as u64)), room),
        ]
    }

    /// Returns the share of the most used resource. Among equals, less total use gives a lower
    /// value.
    fn strain(&self, q: &StoreQuestion) -> f64 {
        self.scarcest(q).1 + REST * self.shares(q).iter().map(|s| s.1).sum::<f64>()
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// An answer: all candidates, the ones that no other beats, and the recommended one.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Costs of the candidates: the front first, then by bytes written.
    pub costs: Vec<PolicyCost>,
    /// Number of candidates in the front.
    pub front: usize,
    /// Index of the recommended candidate in `costs`.
    pub chosen: usize,
    /// Reason, as text.
    pub because: String,
    /// First limit that breaks at twice the load.
    pub doubled: String,
}

/// Answers a question.
///
/// # Errors
/// Errors of the simulator.
pub fn answer(q: &StoreQuestion) -> Done<Advice> {
    let candidates = candidates(q);
    let scales = q.scales();
    let mut cases: Vec<(String, Setup)> = vec![];
    for c in &candidates {
        for &scale in &scales {
            cases.push((c.policy.to_string(), q.setup(named(c), c.table, scale)?));
        }
    }
    let found = simulate_all("advise", &cases)?;
    let carried: Vec<CarriedOutcome> = found.chunks(scales.len()).map(|all| q.carry(all)).collect();
    let mut costs: Vec<(usize, PolicyCost)> =
        candidates.iter().zip(&carried).map(|(c, o)| PolicyCost::of(q, c, o)).enumerate().collect();
    wear_out(q, &candidates, scales[0], &mut costs)?;
    let beaten: Vec<bool> = costs.iter().map(|(_, c)| is_beaten(c, &costs, q)).collect();
    costs.sort_by(|(i, a), (j, b)| {
        let key = |i: usize, c: &PolicyCost| (beaten[i], c.write_amplification);
        let (a, b) = (key(*i, a), key(*j, b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let front = beaten.iter().filter(|b| !**b).count();
    let best = (0..costs.len()).min_by(|&a, &b| {
        let key = |i: usize| (costs[i].1.unfit.len(), costs[i].1.strain(q));
        let (a, b) = (key(a), key(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let chosen = best.ok_or_else(|| Failure::new("there is no candidate"))?;
    let of = costs[chosen].0;
    let doubled = PolicyCost::at(q, &candidates[of], &carried[of], 2.0);
    let doubled = doubled_text(&doubled, q);
    let costs: Vec<PolicyCost> = costs.into_iter().map(|(_, c)| c).collect();
    let because = because(&costs, chosen, q);
    Ok(Advice { costs, front, chosen, because, doubled })
}

fn named(c: &PolicyCandidate) -> NamedPolicy {
    NamedPolicy { name: c.policy.to_string(), policy: c.policy.clone(), idea: None, ages: false }
}

/// Simulates the candidates once more with the device, if one is given. A policy whose tables
/// exceed the device at any time does not fit.
fn wear_out(
    q: &StoreQuestion,
    candidates: &[PolicyCandidate],
    scale: f64,
    costs: &mut [(usize, PolicyCost)],
) -> Done {
    let Some(ssd) = q.ssd else { return Ok(()) };
    let case = |c: &PolicyCandidate| {
        Ok((c.policy.to_string(), q.setup_on_device(named(c), c.table, scale)?))
    };
    let cases = candidates.iter().map(case).collect::<Done<Vec<_>>>()?;
    for ((_, cost), found) in costs.iter_mut().zip(simulate_each("device", &cases)?) {
        match found {
            Ok(o) => {
                cost.device_write_amplification = o.wear.map(|w| w.device_write_amplification);
                cost.endurance_seconds =
                    (ssd.endurance > 0.0).then_some(ssd.endurance / cost.written_per_second);
            }
            Err(e) => cost.unfit.push(format!("on the device: {}", e.message())),
        }
    }
    Ok(())
}

/// Reports whether another candidate is no worse in all traded costs, and better in one.
fn is_beaten(c: &PolicyCost, all: &[(usize, PolicyCost)], q: &StoreQuestion) -> bool {
    let mine = c.traded(q);
    all.iter().any(|(_, other)| {
        let theirs = other.traded(q);
        let no_worse = mine.iter().zip(&theirs).all(|(m, t)| *t <= *m);
        let better = mine.iter().zip(&theirs).any(|(m, t)| *t < *m * (1.0 - TOLERANCE));
        no_worse && better
    })
}

fn because(costs: &[PolicyCost], chosen: usize, q: &StoreQuestion) -> String {
    let c = &costs[chosen];
    if !c.unfit.is_empty() {
        return format!("no policy fits; this one lacks the least: {}", c.unfit.join("; "));
    }
    let fit: Vec<&PolicyCost> = costs.iter().filter(|c| c.unfit.is_empty()).collect();
    // Put it next to the least of all, because the table has both.
    let beside = |of: fn(&PolicyCost) -> f64, shown: fn(f64) -> String| {
        let least = costs.iter().min_by(|a, b| of(a).total_cmp(&of(b)));
        let mine = shown(of(c));
        match least.map(|l| (l, shown(of(l)))) {
            Some((l, other)) if other != mine => format!("{mine} ({}: {other})", short(&l.policy)),
            _ => format!("{mine} (the least of all)"),
        }
    };
    format!(
        "{} of {} policies fit{}; it writes {} bytes for each byte put, takes {} at most, has {} runs",
        fit.len(),
        costs.len(),
        decided(c, &fit, q),
        beside(|c| c.write_amplification, |x| format!("{x:.1}")),
        beside(|c| c.peak_bytes, |x| bytes(x as u64)),
        beside(|c| c.runs, |x| format!("{x:.1}")),
    )
}

/// Returns the reason why `c` was chosen among the fitting candidates.
fn decided(c: &PolicyCost, fit: &[&PolicyCost], q: &StoreQuestion) -> String {
    let (words, mine) = c.scarcest(q);
    let others = fit.iter().filter(|o| o.policy != c.policy);
    let Some(next) = others.clone().min_by(|a, b| a.strain(q).total_cmp(&b.strain(q))) else {
        return format!(", and only this one: {words}");
    };
    let Some(least) = others.min_by(|a, b| a.scarcest(q).1.total_cmp(&b.scarcest(q).1)) else {
        return String::new();
    };
    let (other_words, other) = least.scarcest(q);
    if percent(mine) != percent(other) && mine < other {
        return format!(
            ". Among the policies that fit, it uses its scarcest resource the least: {words}"
        );
    }
    // Others use theirs as little, or less: name the difference to the nearest of them.
    let rival = if percent(mine) == percent(other) { next } else { least };
    let gains = c.shares(q).into_iter().zip(rival.shares(q));
    let gain = gains.max_by(|(a, b), (c, d)| (b.1 - a.1).total_cmp(&(d.1 - c.1)));
    let gain =
        gain.filter(|(mine, theirs)| theirs.1 > mine.1).map_or_else(String::new, |(m, t)| {
            format!("; compared with {} it {}, which {}", short(&rival.policy), m.0, t.0)
        });
    if percent(mine) == percent(other) {
        format!(". None that fits uses its scarcest resource less: {words}{gain}")
    } else {
        let least = short(&least.policy);
        format!(". Its scarcest resource: {words}; that of {least}: {other_words}{gain}")
    }
}

/// Returns a policy's name with its first parameter, as in the table.
fn short(policy: &str) -> String {
    policy.split(':').take(2).collect::<Vec<_>>().join(":")
}

fn doubled_text(cost: &PolicyCost, q: &StoreQuestion) -> String {
    let mut limits = cost.limits(q, 2.0);
    limits.sort_by(|a, b| b.1.total_cmp(&a.1));
    match limits.first() {
        Some((what, used)) if *used > 1.0 => format!("breaks: {what}"),
        Some((what, used)) => {
            format!("holds; the scarcest resource is {:.0} % used: {what}", 100.0 * used)
        }
        None => "holds".to_owned(),
    }
}

/// Returns the command that sets the policy of a tree, given by name.
pub type SetPolicy<'a> = dyn Fn(&str, &str) -> String + 'a;

/// Returns the directory of a store that is named by its directory or its event log.
pub fn directory(store: &Path) -> &Path {
    let is_log = store.file_name().is_some_and(|name| name == "EVENTS.jsonl");
    match store.parent().filter(|_| is_log) {
        Some(dir) if dir.as_os_str().is_empty() => Path::new("."),
        Some(dir) => dir,
        None => store,
    }
}

/// Returns the command of `firn` that sets the policy of a tree of the store in `dir`.
pub fn set_policy(dir: &Path, tree: &str, policy: &str) -> String {
    let (dir, tree) = (shell::path(dir), shell::quote(tree));
    format!("firn --db {dir} set-options {tree} {}", shell::quote(&format!("policy={policy}")))
}

/// Runs `advise`, with the log of the store at a path if one is given.
///
/// # Errors
/// A log that cannot be read, a question without enough information, and errors of the simulator.
/// [`Failure::Found`] if no policy fits.
pub fn run(
    args: &AdviseArgs,
    store: Option<&Path>,
    by: &SetPolicy<'_>,
    (json, style): (bool, Style),
    out: &mut dyn Write,
) -> Done {
    if store.is_none() && args.tree.is_some() {
        return Err(Failure::with_next("--tree needs a store", "name the store's directory"));
    }
    let history = store.map(|path| replay::load(path, args.tree.as_deref())).transpose()?;
    let known = history.as_ref().map(|h| h.known(args.key_size)).transpose()?;
    let q = args.question(known)?;
    let advice = answer(&q)?;
    let seen = history.as_ref().map(|h| SeenLoad::of(h, &q));
    if json {
        let mut told = serde_json::json!(advice);
        told["seen"] = serde_json::json!(seen);
        writeln!(out, "{told}")?;
    } else {
        let seen = seen.map_or_else(String::new, |seen| seen.words(by, &advice, style));
        write!(out, "{seen}{}", tell(&advice, &q, style))?;
    }
    if advice.costs[advice.chosen].unfit.is_empty() { Ok(()) } else { Err(Failure::Found) }
}

/// The recorded load of a store, and the recorded results.
#[derive(Clone, Debug, Serialize)]
pub struct SeenLoad {
    /// The tree.
    pub tree: String,
    /// Seconds that the log covers.
    pub seconds: f64,
    /// Bytes of keys and values written per second.
    pub ingest: f64,
    /// Number of writes per second.
    pub entries: f64,
    /// Share of the writes that are deletes.
    pub deletes: f64,
    /// Policy of the tree.
    pub policy: String,
    /// Bytes written to tables for each byte put.
    pub write_amplification: f64,
    /// Average number of runs.
    pub runs: f64,
    /// Peak bytes of tables.
    pub peak_bytes: u64,
    /// Share of the time in which writers were slowed or stalled.
    pub held_up: f64,
}

impl SeenLoad {
    fn of(h: &RecordedHistory, q: &StoreQuestion) -> SeenLoad {
        let o = h.outcome();
        let seconds = (h.elapsed as f64 / 1e6).max(1e-6);
        let [entries, deletes, ..] = h.flushed.map(|n| n as f64);
        SeenLoad {
            tree: h.tree.clone(),
            seconds,
            ingest: q.ingest,
            entries: o.ops as f64 / seconds,
            deletes: deletes / entries.max(1.0),
            policy: h.policy.as_ref().map_or_else(|| "unknown".to_owned(), Policy::to_string),
            write_amplification: o.write_amplification,
            runs: o.mean_runs,
            peak_bytes: o.peak_bytes,
            held_up: (o.slowdown_seconds + o.stalled_seconds) / seconds,
        }
    }

    /// Returns the comparison as text. `by` returns the command that sets the policy of a tree.
    fn words(&self, by: &SetPolicy<'_>, advice: &Advice, style: Style) -> String {
        let mut text = String::new();
        let mut line = |head: &str, body: String| {
            text += &format!("{}  {body}\n", style.heading(format_args!("{head:<9}")));
        };
        line(
            "seen",
            format!(
                "tree {:?}, {}: {}/s in {} writes a second, {:.1} % of them deletes",
                self.tree,
                seconds(self.seconds),
                bytes(self.ingest as u64),
                count(self.entries as u64),
                100.0 * self.deletes
            ),
        );
        line(
            "now",
            format!(
                "{}: {:.1} bytes written for each byte put, {:.1} runs, {} at most, writers held \
                 up for {:.1} % of the time",
                self.policy,
                self.write_amplification,
                self.runs,
                bytes(self.peak_bytes),
                100.0 * self.held_up
            ),
        );
        let chosen = &advice.costs[advice.chosen];
        let present = advice.costs.iter().find(|c| c.policy == self.policy);
        line(
            "change",
            match present {
                _ if chosen.policy == self.policy => "none: it has that policy".to_owned(),
                Some(c) => format!(
                    "simulated alike: {:.1} bytes for each byte put become {:.1}, {:.1} runs \
                     become {:.1}, {} of tables become {}",
                    c.write_amplification,
                    chosen.write_amplification,
                    c.runs,
                    chosen.runs,
                    bytes(c.peak_bytes as u64),
                    bytes(chosen.peak_bytes as u64)
                ),
                None => "the log does not say which policy the tree has".to_owned(),
            },
        );
        if chosen.policy != self.policy {
            line("by", by(&self.tree, &chosen.policy));
        }
        text
    }
}

/// Returns the bytes written to the device, and its endurance, as text.
fn wear(c: &PolicyCost, q: &StoreQuestion) -> String {
    let mut text = match q.seconds {
        Some(s) if s < DAY_FROM => format!(
            "{}/s; the log covers {}, too little for a daily figure",
            bytes(c.written_per_second as u64),
            seconds(s)
        ),
        _ => format!("{} a day", bytes((c.written_per_second * 86_400.0) as u64)),
    };
    let room = q.disk.unwrap_or(1.2 * c.peak_bytes);
    let by_day = q.seconds.is_none_or(|s| s >= DAY_FROM);
    if by_day && (q.disk.is_some() || room >= LEAST_DISK) {
        let times = c.written_per_second * 86_400.0 / room;
        text += &format!(", {times:.2} times a disk of {}", bytes(room as u64));
    }
    if let Some(factor) = c.device_write_amplification {
        text += &format!("; the device writes {factor:.2} times that");
    }
    if let Some(s) = c.endurance_seconds {
        text += &format!("; its endurance lasts for {}", seconds(s));
    }
    text
}

/// Returns an answer as text.
fn tell(advice: &Advice, q: &StoreQuestion, style: Style) -> String {
    let c = &advice.costs[advice.chosen];
    let mut text = String::new();
    let mut line = |head: &str, body: String| {
        text += &format!("{}  {body}\n", style.heading(format_args!("{head:<9}")));
    };
    let ttl =
        if q.ttl > 0.0 { format!(", expires after {}", seconds(q.ttl)) } else { String::new() };
    line(
        "question",
        format!(
            "{} of live data, {}/s written ({}){ttl}",
            bytes(q.held as u64),
            bytes(q.ingest as u64),
            q.kind
        ),
    );
    line("choose", c.policy.clone());
    line("because", advice.because.clone());
    line(
        "disk",
        format!(
            "at most {} of tables ({:.2} times the live data); {}",
            bytes(c.peak_bytes as u64),
            c.peak_bytes / q.held,
            if q.disk.is_some() {
                "leave a fifth free"
            } else {
                "buy a fifth more, or name --disk"
            }
        ),
    );
    line(
        "device",
        format!(
            "{:.0} % busy: {}/s written, {:.1} bytes for each byte put",
            100.0 * c.device,
            bytes(c.written_per_second as u64),
            c.write_amplification
        ),
    );
    line("wear", wear(c, q));
    line("cores", format!("{:.2} of {:.0}", c.cores, q.machine.cores));
    if q.reads + q.scans > 0.0 {
        line(
            "reads",
            format!(
                "{:.2} and {:.2} blocks from the device for a lookup and a scan",
                c.blocks_per_read, c.blocks_per_scan
            ),
        );
        line("lookups", percentiles(&c.read_latency));
        line("scans", percentiles(&c.scan_latency));
    }
    if let Some(took) = &c.write_latency {
        line("writes", percentiles(took));
    }
    if c.deletes[1] > 0.0 {
        line(
            "deletes",
            format!(
                "gone after {} in 99 of 100 cases, {} at most",
                seconds(c.deletes[0]),
                seconds(c.deletes[1])
            ),
        );
    }
    if q.ttl > 0.0 && q.is_series() {
        let longer = (c.peak_bytes / q.held - 1.0).max(0.0) * q.ttl;
        line("expired", format!("data takes space for at most {} longer", seconds(longer)));
    }
    line("doubled", advice.doubled.clone());
    line("in Rust", c.options.clone());
    match &c.cql {
        Some(cql) => line("in CQL", format!("WITH {cql}")),
        None => {
            let has_cql = |c: &&PolicyCost| c.cql.is_some();
            let other = advice.costs.iter().filter(has_cql).min_by(|a, b| {
                let key = |c: &PolicyCost| (c.unfit.len(), c.strain(q));
                let (a, b) = (key(a), key(b));
                a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
            });
            if let Some(cql) = other.and_then(|c| c.cql.as_ref()) {
                line("in CQL", format!("no equivalent; the best policy that CQL has: WITH {cql}"));
            }
        }
    }
    let header = [
        "",
        "write amp",
        "at most",
        "runs",
        "blocks/get",
        "blocks/scan",
        "device",
        "cores",
        "scan p99",
    ];
    let mut t = table(&header);
    for (i, c) in advice.costs.iter().enumerate() {
        let mark = match i {
            i if i == advice.chosen => "*",
            _ if !c.unfit.is_empty() => "!",
            i if i >= advice.front => "-",
            _ => " ",
        };
        row(
            &mut t,
            [
                format!("{mark} {}", short(&c.policy)),
                format!("{:.1}", c.write_amplification),
                bytes(c.peak_bytes as u64),
                format!("{:.1}", c.runs),
                format!("{:.2}", c.blocks_per_read),
                format!("{:.2}", c.blocks_per_scan),
                percent(c.device),
                format!("{:.2}", c.cores),
                time(c.scan_latency.p99),
            ],
        );
    }
    text.push('\n');
    text.push_str(&print_table(&t, style));
    text.push_str("\n* chosen, - another is no worse in anything, ! does not fit\n");
    text
}
