//! The predicted cost of a candidate: its use of each resource, and the three costs that policies
//! trade.

use firn_tools::output::bytes;
use serde::Serialize;

use crate::advise::candidates::PolicyCandidate;
use crate::advise::profile::{ExtrapolatedOutcome, HELD_UP, StoreProfile};
use crate::model::latency::{CountOdds, Percentiles, ReadCosts, ReadRun};
use crate::model::meter::READ_CPU;
use crate::report::text::time;

/// False positive rate of a filter: that of the engine's default.
const FILTER_ERROR: f64 = 1.0 / 256.0;
/// Bytes of a block.
const BLOCK: f64 = 4096.0;
/// Multiple of the live data that counts as a share of 1 if no disk size is given. Used to compare
/// policies with equal use of the other resources.
const ROOM: f64 = 3.0;
/// Weight of the sum of all shares relative to the largest one.
const REST: f64 = 0.1;

/// A resource that policies use, or a latency with a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvisedResource {
    /// Time of the device.
    Device,
    /// Processor cores.
    Cores,
    /// Space on the disk.
    Space,
    /// The bound of latency, for lookups.
    Lookups,
    /// The bound of latency, for the beginning of scans.
    Scans,
    /// The time that writers may be held up.
    Writers,
}

impl AdvisedResource {
    /// Returns its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            AdvisedResource::Device => "device",
            AdvisedResource::Cores => "cores",
            AdvisedResource::Space => "disk",
            AdvisedResource::Lookups => "lookups",
            AdvisedResource::Scans => "scans",
            AdvisedResource::Writers => "stalls",
        }
    }

    /// Returns its name in a sentence.
    pub fn subject(self) -> &'static str {
        match self {
            AdvisedResource::Device => "device time",
            AdvisedResource::Cores => "processor cores",
            AdvisedResource::Space => "space",
            AdvisedResource::Lookups => "the latency of lookups",
            AdvisedResource::Scans => "the latency of scans",
            AdvisedResource::Writers => "the stalls of writers",
        }
    }
}

/// Use of a resource by a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResourceUse {
    /// The resource.
    pub resource: AdvisedResource,
    /// The used share of it.
    pub share: f64,
    /// The used amount, with the digits of the table.
    pub amount: String,
}

impl ResourceUse {
    /// Returns its name and share, as in the table.
    pub(super) fn in_table(&self) -> String {
        format!("{} {}", self.resource.name(), percent(self.share))
    }

    /// Returns the sentence about a limit, at the end of which the use is a finding.
    fn limit(&self, q: &StoreProfile) -> String {
        let amount = &self.amount;
        match self.resource {
            AdvisedResource::Device => format!("the device is busy for {amount} of its time"),
            AdvisedResource::Cores => format!("{amount} of {:.0} cores are busy", q.machine.cores),
            AdvisedResource::Space => {
                let disk = bytes(q.disk.unwrap_or(0.0) as u64);
                format!("{amount} of tables, of {disk} of disk")
            }
            AdvisedResource::Lookups => format!("a lookup takes {amount} in the 99th percentile"),
            AdvisedResource::Scans => {
                format!("a scan takes {amount} to begin, in the 99th percentile")
            }
            AdvisedResource::Writers => format!("writers are held up for {amount} of the time"),
        }
    }
}

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
    /// The resource with the largest used share.
    pub scarcest: ResourceUse,
    /// Value by which the policies that fit are ranked, the lowest first: the share of the scarcest
    /// resource, and a tenth of the shares of device, processor and space together.
    pub strain: f64,
}

impl PolicyCost {
    /// Returns the cost of a candidate with this outcome.
    pub(super) fn of(
        q: &StoreProfile,
        candidate: &PolicyCandidate,
        o: &ExtrapolatedOutcome,
    ) -> PolicyCost {
        let cost = PolicyCost::at(q, candidate, o, 1.0);
        let limits = cost.limits(q, 1.0);
        let unfit = limits.iter().filter(|used| used.share > 1.0).map(|used| used.limit(q));
        let unfit = unfit.collect();
        let most = limits.into_iter().max_by(|a, b| a.share.total_cmp(&b.share));
        let scarcest = most.unwrap_or_else(|| cost.scarcest.clone());
        let shares = cost.shares(q).iter().map(|used| used.share).sum::<f64>();
        let strain = scarcest.share + REST * shares;
        PolicyCost { unfit, scarcest, strain, ..cost }
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
            scarcest: ResourceUse {
                resource: AdvisedResource::Device,
                share: device,
                amount: percent(device),
            },
            strain: 0.0,
        }
    }

    /// Returns the use of each limited resource at this multiple of the load.
    pub(super) fn limits(&self, q: &StoreProfile, load: f64) -> Vec<ResourceUse> {
        let [device, cores, space] = self.shares(q);
        let mut all = vec![device, cores];
        if q.disk.is_some() {
            all.push(space);
        }
        if let Some(bound) = q.p99 {
            let mut latency = |resource, p99: f64| {
                all.push(ResourceUse { resource, share: p99 / bound, amount: time(p99) });
            };
            if q.reads > 0.0 {
                latency(AdvisedResource::Lookups, self.read_latency.p99);
            }
            if q.scans > 0.0 {
                latency(AdvisedResource::Scans, self.scan_latency.p99);
            }
        }
        if load == 1.0 && self.held_up > HELD_UP {
            all.push(ResourceUse {
                resource: AdvisedResource::Writers,
                share: self.held_up / HELD_UP,
                amount: percent(self.held_up),
            });
        }
        all
    }

    /// Returns the largest use at this multiple of the load, and the sentence about its limit.
    pub(super) fn first_limit(&self, q: &StoreProfile, load: f64) -> Option<(f64, String)> {
        let limits = self.limits(q, load).into_iter();
        let most = limits.max_by(|a, b| a.share.total_cmp(&b.share))?;
        Some((most.share, most.limit(q)))
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

    /// Returns the use of device, processor, and space. Without a disk size, the space is compared
    /// with a multiple of the live data.
    fn shares(&self, q: &StoreProfile) -> [ResourceUse; 3] {
        let of = |resource, share, amount| ResourceUse { resource, share, amount };
        let room = self.peak_bytes / q.disk.unwrap_or(ROOM * q.held);
        let cores = self.cores / q.machine.cores;
        [
            of(AdvisedResource::Device, self.device, percent(self.device)),
            of(AdvisedResource::Cores, cores, format!("{:.2}", self.cores)),
            of(AdvisedResource::Space, room, bytes(self.peak_bytes as u64)),
        ]
    }

    /// Returns the use of one resource; `None` if the question does not limit it.
    pub fn used(&self, q: &StoreProfile, resource: AdvisedResource) -> Option<ResourceUse> {
        let all = self.limits(q, 1.0).into_iter().chain(self.shares(q));
        all.into_iter().find(|used| used.resource == resource)
    }

    /// Returns the use of each resource that decides against another policy: the strain of the
    /// other policy less that of this one is the sum of their differences.
    pub(super) fn gains(&self, other: &PolicyCost, q: &StoreProfile) -> Vec<Gain> {
        let pairs = self.shares(q).into_iter().zip(other.shares(q));
        let mut gains: Vec<Gain> = pairs
            .map(|(mine, theirs)| Gain { by: REST * (theirs.share - mine.share), mine, theirs })
            .collect();
        let (mine, theirs) = (self.scarcest.clone(), other.scarcest.clone());
        let by = theirs.share - mine.share;
        let is_same = mine.resource == theirs.resource;
        match gains.iter_mut().find(|gain| is_same && gain.mine.resource == mine.resource) {
            Some(gain) => gain.by += by,
            None => gains.push(Gain { by, mine, theirs }),
        }
        gains
    }
}

/// Difference of a policy to another one in the use of a resource.
#[derive(Clone, Debug)]
pub(super) struct Gain {
    /// How much less the strain is.
    pub by: f64,
    /// The use of the policy.
    pub mine: ResourceUse,
    /// The use of the other policy: of the same resource, or of its scarcest one.
    pub theirs: ResourceUse,
}

impl Gain {
    /// Reports whether both policies use the same resource.
    pub fn is_of_one(&self) -> bool {
        self.mine.resource == self.theirs.resource
    }

    /// Reports whether the table shows the difference.
    pub fn is_shown(&self) -> bool {
        if self.is_of_one() {
            self.mine.amount != self.theirs.amount
        } else {
            percent(self.mine.share) != percent(self.theirs.share)
        }
    }
}

/// Returns a share in percent, with the digits of the table.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
