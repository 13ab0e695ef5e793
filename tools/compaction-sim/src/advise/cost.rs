//! The predicted cost of a candidate: its use of each resource, and the three costs that policies
//! trade.

use firn_tools::output::bytes;
use serde::Serialize;

use crate::advise::candidates::PolicyCandidate;
use crate::advise::profile::{ExtrapolatedOutcome, HELD_UP, StoreProfile};
use crate::model::latency::{CountOdds, Percentiles, ReadCosts, ReadRun};
use crate::model::meter::READ_CPU;
use crate::report::text::seconds;

/// False positive rate of a filter: that of the engine's default.
const FILTER_ERROR: f64 = 1.0 / 256.0;
/// Bytes of a block.
const BLOCK: f64 = 4096.0;
/// Multiple of the live data that counts as a share of 1 if no disk size is given. Used to compare
/// policies with equal use of the other resources.
const ROOM: f64 = 3.0;
/// Weight of the sum of all shares relative to the largest one.
const REST: f64 = 0.1;

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
    pub(super) fn of(
        q: &StoreProfile,
        candidate: &PolicyCandidate,
        o: &ExtrapolatedOutcome,
    ) -> PolicyCost {
        let cost = PolicyCost::at(q, candidate, o, 1.0);
        let unfit = cost.limits(q, 1.0).into_iter().filter(|(_, used)| *used > 1.0);
        PolicyCost { unfit: unfit.map(|(what, _)| what).collect(), ..cost }
    }

    /// Calculates the cost at this multiple of the load.
    pub(super) fn at(
        q: &StoreProfile,
        candidate: &PolicyCandidate,
        o: &ExtrapolatedOutcome,
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
    pub(super) fn limits(&self, q: &StoreProfile, load: f64) -> Vec<(String, f64)> {
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
    pub(super) fn traded(&self, q: &StoreProfile) -> [f64; 3] {
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
    pub(super) fn scarcest(&self, q: &StoreProfile) -> (String, f64) {
        let all = self.limits(q, 1.0).into_iter();
        all.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
    }

    /// Returns the shares that decide between policies with equally used resources: device,
    /// processor, and space. There is enough space if no disk size is given.
    pub(super) fn shares(&self, q: &StoreProfile) -> [(String, f64); 3] {
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
    pub(super) fn strain(&self, q: &StoreProfile) -> f64 {
        self.scarcest(q).1 + REST * self.shares(q).iter().map(|s| s.1).sum::<f64>()
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
