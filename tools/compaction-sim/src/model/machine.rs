//! The machine of a simulated store: how its device, its processor and its threads determine times.
//!
//! A job costs processor time, device time and waiting, one after the other, since each thread of
//! the engine reads, merges, writes and syncs in turn. Several threads share a large job. Threads
//! that work at the same time share the device evenly. They and the writers share the processor by
//! demand, if they need more than there is; a thread that waits for the device needs none. Threads
//! that only compact yield to others then, as the engine's do ([`Load`]).

/// Speeds and counts. The defaults, and where each was measured, are in
/// `results/2026-11-21-simulator.md` (The machine).
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Machine {
    /// Read bandwidth of the device in bytes per second.
    pub read_bandwidth: f64,
    /// Write bandwidth of the device in bytes per second.
    pub write_bandwidth: f64,
    /// Seconds to sync a table, without its bytes.
    pub sync_latency: f64,
    /// Seconds until a change of tables is durable and visible: the whole cost of a move, and the
    /// end of every flush and compaction.
    pub install: f64,
    /// Nanoseconds per byte of tables that a job has made obsolete: the compacting thread removes
    /// their files before it continues.
    pub remove_byte: f64,
    /// Seconds to read a block on an idle device.
    pub block_seconds: f64,
    /// Bytes of the block cache.
    pub cache: f64,
    /// Processor cores.
    pub cores: f64,
    /// Background threads, as in the engine's options; 0 does the work at the end of the write that
    /// made it necessary.
    pub threads: usize,
    /// Maximum number of immutable memtables, including the one that is being flushed.
    pub max_sealed: usize,
    /// Nanoseconds of processor time per operation of a writer.
    pub write_op: f64,
    /// Additional nanoseconds per byte of its key and value.
    pub write_byte: f64,
    /// Nanoseconds before a possible flush begins: the flushing thread wakes up, removes files and
    /// prepares the log first.
    pub before_flush: f64,
    /// Nanoseconds per flushed entry, and per byte of tables that a flush writes.
    pub flush: (f64, f64),
    /// Additional seconds that a flush waits because of other load on the machine.
    pub flush_wait: f64,
    /// Processor cost of compactions.
    pub merge: MergeCost,
    /// Write rate in bytes per second (keys and values); 0 for the maximum rate.
    pub ingest: f64,
    /// Whether all work takes no time.
    pub instant: bool,
    /// Variation of the times of flushes and of compactions: the standard deviation of their
    /// logarithm. The workload's seed decides which one takes longer.
    pub jitter: (f64, f64),
    /// Seconds that the store stays open after the last write; infinite until all work is done.
    pub stays_open: f64,
}

/// Variation of times: the standard deviation of the logarithm of positive values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogSpread {
    number: f64,
    sum: f64,
    squares: f64,
}

impl LogSpread {
    /// Adds a time, or its ratio to another.
    pub fn add(&mut self, factor: f64) {
        if factor > 0.0 {
            let log = factor.ln();
            self.number += 1.0;
            self.sum += log;
            self.squares += log * log;
        }
    }

    /// Returns the standard deviation; 0 if empty.
    pub fn deviation(&self) -> f64 {
        let mean = self.sum / self.number.max(1.0);
        (self.squares / self.number.max(1.0) - mean * mean).max(0.0).sqrt()
    }
}

impl FromIterator<f64> for LogSpread {
    fn from_iter<I: IntoIterator<Item = f64>>(factors: I) -> LogSpread {
        let mut spread = LogSpread::default();
        factors.into_iter().for_each(|f| spread.add(f));
        spread
    }
}

/// Processor nanoseconds of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct MergeCost {
    /// Per entry read.
    pub entry: f64,
    /// Per entry read, times the binary logarithm of the number of input runs.
    pub doubling: f64,
    /// Per byte of tables written.
    pub byte: f64,
}

impl MergeCost {
    /// Returns this cost times a factor.
    pub fn times(self, factor: f64) -> MergeCost {
        let MergeCost { entry, doubling, byte } = self;
        MergeCost { entry: entry * factor, doubling: doubling * factor, byte: byte * factor }
    }

    /// Returns the nanoseconds of a compaction of this many runs.
    pub fn nanos(&self, runs: usize, entries_in: f64, bytes_out: f64) -> f64 {
        (self.entry + self.doubling * (runs.max(1) as f64).log2()) * entries_in
            + self.byte * bytes_out
    }
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            read_bandwidth: 800e6,
            write_bandwidth: 350e6,
            sync_latency: 0.0006,
            install: 0.0008,
            remove_byte: 0.37,
            block_seconds: 100e-6,
            cache: 0.0,
            cores: 2.0,
            threads: 2,
            max_sealed: 1,
            write_op: 490.0,
            write_byte: 0.0,
            before_flush: 0.0,
            flush: (48.0, 0.9),
            flush_wait: 0.0,
            merge: MergeCost { entry: 34.0, doubling: 12.0, byte: 0.9 },
            ingest: 0.0,
            instant: false,
            jitter: (0.0, 0.0),
            stays_open: f64::INFINITY,
        }
    }
}

/// Cost of a piece of work when it runs alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineCost {
    /// Processor time in nanoseconds.
    pub cpu: f64,
    /// Device time in nanoseconds.
    pub device: f64,
    /// Nanoseconds that it waits for the syncs of its tables.
    pub syncs: f64,
    /// Additional nanoseconds that it waits, for its turn and for the change of tables.
    pub wait: f64,
    /// Threads that share all of it except the additional waiting.
    pub threads: f64,
}

impl Default for MachineCost {
    fn default() -> Self {
        MachineCost { cpu: 0.0, device: 0.0, syncs: 0.0, wait: 0.0, threads: 1.0 }
    }
}

impl MachineCost {
    /// Returns this cost times a factor.
    pub fn times(self, factor: f64) -> MachineCost {
        let MachineCost { cpu, device, syncs, wait, threads } = self;
        let [cpu, device, syncs, wait] = [cpu, device, syncs, wait].map(|nanos| nanos * factor);
        MachineCost { cpu, device, syncs, wait, threads }
    }

    /// Returns the cores that it uses alone: none while it waits.
    pub fn cores(&self) -> f64 {
        let alone = self.wait + (self.syncs + self.cpu + self.device) / self.threads;
        if alone > 0.0 { self.cpu / alone } else { 0.0 }
    }
}

/// Amount of work for a job's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkBytes {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Tables written.
    pub tables: usize,
}

/// Returns the average number of busy threads for a job in pieces. Threads that find no last piece
/// wait for the others.
pub(crate) fn side_by_side(pieces: usize, threads: usize) -> f64 {
    let (pieces, threads) = (pieces.max(1), threads.max(1));
    pieces as f64 / pieces.div_ceil(threads) as f64
}

/// The running work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Writers, in cores that they use if they need not share any.
    pub writers: f64,
    /// Jobs of threads that yield to no other, in cores.
    pub firm: f64,
    /// Jobs of threads that yield, in cores.
    pub yielding: f64,
    /// Threads of jobs.
    pub threads: f64,
}

/// Assumed write amplification for finding a rate that a machine sustains.
pub const CALM_WRITES: f64 = 20.0;

/// Variation of the times of flushes and compactions on a machine with other work
/// ([`Machine::jitter`]).
pub const JITTER: (f64, f64) = (0.6, 0.3);

/// Relative increase of a sync's time for each other thread that writes tables: the file system
/// also makes their writes durable. Measured between 0.1 and 0.5.
const SYNCS_BESIDE: f64 = 0.25;

/// Weight of a yielding thread, as the engine's compactions are, relative to another one.
const YIELDING_WEIGHT: f64 = 0.1;

impl Load {
    /// Adds a job.
    pub fn add(&mut self, cost: MachineCost, yields: bool) {
        self.threads += cost.threads;
        let kind = if yields { &mut self.yielding } else { &mut self.firm };
        *kind += cost.cores();
    }

    /// Returns the share of its demand that a firm thread gets, and that a yielding one gets.
    fn shares(&self, cores: f64) -> (f64, f64) {
        let (first, last) = (self.writers + self.firm, self.yielding);
        let share = (cores / (first + YIELDING_WEIGHT * last).max(1e-9)).min(1.0);
        let rest = if last > 0.0 {
            ((cores - share * first) / last).clamp(YIELDING_WEIGHT * share, 1.0)
        } else {
            1.0
        };
        (share, rest)
    }
}

impl Machine {
    /// Returns the cost of a flush of this many entries.
    pub fn flush_cost(&self, entries: f64, work: WorkBytes) -> MachineCost {
        let cpu = self.flush.0 * entries + self.flush.1 * work.written as f64;
        let cost = self.cost(cpu, work);
        if self.instant {
            cost
        } else {
            MachineCost { wait: cost.wait + self.flush_wait * 1e9, ..cost }
        }
    }

    /// Returns the cost of a compaction of this many runs.
    pub fn merge_cost(&self, runs: usize, entries_in: f64, work: WorkBytes) -> MachineCost {
        self.cost(self.merge.nanos(runs, entries_in, work.written as f64), work)
    }

    /// Returns the cost of a move or a drop.
    pub fn move_cost(&self) -> MachineCost {
        self.cost(0.0, WorkBytes::default())
    }

    /// Returns the cost of removing the files of this many bytes of tables.
    pub fn removal_cost(&self, bytes: u64) -> MachineCost {
        let cpu = if self.instant { 0.0 } else { self.remove_byte * bytes as f64 };
        MachineCost { cpu, ..MachineCost::default() }
    }

    fn cost(&self, cpu: f64, work: WorkBytes) -> MachineCost {
        if self.instant {
            return MachineCost::default();
        }
        let device =
            work.read as f64 / self.read_bandwidth + work.written as f64 / self.write_bandwidth;
        let syncs = self.sync_latency * work.tables as f64 * 1e9;
        let (device, wait) = (device * 1e9, self.install * 1e9);
        MachineCost { cpu, device, syncs, wait, threads: 1.0 }
    }

    /// Returns the nanoseconds of a job that runs alone.
    pub fn alone(&self, cost: MachineCost) -> f64 {
        self.nanos(cost, false, Load { threads: cost.threads, ..Load::default() })
    }

    /// Returns the nanoseconds of a job under this load, which includes the job.
    pub fn nanos(&self, cost: MachineCost, yields: bool, load: Load) -> f64 {
        let (first, last) = load.shares(self.cores);
        let cpu = cost.cpu / if yields { last } else { first };
        let beside = (load.threads - cost.threads).max(0.0);
        let slower = 1.0 + SYNCS_BESIDE * beside;
        cost.wait * slower
            + (cost.syncs * slower + cpu + cost.device * load.threads.max(1.0)) / cost.threads
    }

    /// Returns a write rate in bytes per second, for puts of this size, that the machine sustains
    /// easily. At twice this rate a single job that writes each byte [`CALM_WRITES`] times is
    /// always busy. Few policies write more, so their writers seldom wait.
    pub fn calm_rate(&self, put_bytes: f64) -> f64 {
        let device = 1e9 / self.read_bandwidth + 1e9 / self.write_bandwidth;
        let processor = self.merge.nanos(4, 1.0, put_bytes) / put_bytes.max(1.0);
        1e9 / (CALM_WRITES * (device + processor).max(1e-6)) / 2.0
    }

    /// Returns the number of cores that a writer uses if each operation is delayed by these
    /// nanoseconds.
    pub fn writers(&self, bytes: f64, delay: f64) -> f64 {
        let work = self.write_work(bytes);
        work / (work + delay).max(self.arrival(bytes)).max(0.001)
    }

    /// Returns the nanoseconds between two operations of `bytes` under this load. It is at least
    /// the time of the work plus the engine's `delay`, and at least the interval of the ingestion
    /// rate.
    pub fn interval(&self, bytes: f64, delay: f64, load: Load) -> f64 {
        self.service(bytes, delay, load).max(self.arrival(bytes)).max(0.001)
    }

    /// Returns the nanoseconds of an operation, once it is its turn.
    pub fn service(&self, bytes: f64, delay: f64, load: Load) -> f64 {
        let (share, _) = load.shares(self.cores);
        self.write_work(bytes) / share + delay
    }

    /// Returns the share of its time that a job uses the device, under this load, which includes
    /// the job.
    pub fn device_share(&self, cost: MachineCost, yields: bool, load: Load) -> f64 {
        let all = self.nanos(cost, yields, load);
        if all > 0.0 { cost.device * load.threads.max(1.0) / cost.threads / all } else { 0.0 }
    }

    fn write_work(&self, bytes: f64) -> f64 {
        self.write_op + self.write_byte * bytes
    }

    /// Returns the nanoseconds between two arriving operations; 0 at the maximum rate.
    pub fn arrival(&self, bytes: f64) -> f64 {
        if self.ingest > 0.0 { bytes / self.ingest * 1e9 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_share_what_there_is() {
        let m = Machine {
            cores: 2.0,
            write_bandwidth: 1e9,
            read_bandwidth: 1e9,
            sync_latency: 0.0,
            install: 0.0,
            merge: MergeCost { entry: 1.0, doubling: 1.0, byte: 1.0 },
            ..Machine::default()
        };
        let work = WorkBytes { read: 500_000_000, written: 500_000_000, tables: 1 };
        let cost = m.merge_cost(4, 1e8, work);
        assert_eq!((cost.cpu, cost.device, cost.wait), (0.8e9, 1e9, 0.0));
        let mut load = Load { writers: 1.0, ..Load::default() };
        load.add(cost, true);
        assert!((load.yielding - 0.8 / 1.8).abs() < 1e-9, "the rest of its time it has no core");
        assert_eq!(m.nanos(cost, true, load), 1.8e9);
        (0..3).for_each(|_| load.add(cost, true));
        let all = m.nanos(cost, true, load);
        assert!(all > 0.8e9 * 1.7 + 4e9, "the writer keeps nearly all of its core: {all}");
        assert!(all < 0.8e9 * 2.0 + 4e9, "merges get what the writer leaves: {all}");
        let still = Machine { instant: true, ..m };
        assert_eq!(still.merge_cost(2, 1.0, work), MachineCost::default());
        assert_eq!(still.removal_cost(1 << 30), MachineCost::default());
    }

    #[test]
    fn a_spread_is_that_of_logarithms() {
        let spread: LogSpread = [1.0, 0.0, std::f64::consts::E.powi(2)].into_iter().collect();
        assert!((spread.deviation() - 1.0).abs() < 1e-9);
        assert_eq!(LogSpread::default().deviation(), 0.0);
    }

    #[test]
    fn pieces_share_a_job() {
        let m = Machine { sync_latency: 0.002, install: 0.001, ..Machine::default() };
        let at = |(pieces, threads)| {
            let cost = m.merge_cost(2, 1e6, WorkBytes { read: 0, written: 0, tables: 6 });
            m.alone(MachineCost { threads: side_by_side(pieces, threads), ..cost })
        };
        let cpu = (m.merge.entry + m.merge.doubling) * 1e6;
        let two_thirds = "two begin, and one of them does the third";
        for (pieces, nanos, why) in [
            ((1, 1), cpu + 13e6, "alone"),
            ((2, 2), cpu / 2.0 + 7e6, "side by side"),
            ((3, 2), cpu / 1.5 + 9e6, two_thirds),
            ((3, 3), cpu / 3.0 + 5e6, "side by side"),
        ] {
            assert!((at(pieces) - nanos).abs() < 1.0, "{pieces:?}, {why}: {}", at(pieces));
        }
    }

    #[test]
    fn merges_give_way_where_they_have_threads_of_their_own() {
        let shares =
            |writers, firm, yielding| Load { writers, firm, yielding, threads: 1.0 }.shares(2.0);
        assert_eq!(shares(1.0, 0.0, 1.0), (1.0, 1.0));
        assert_eq!(shares(0.5, 1.0, 1.0), (1.0, 0.5));
        let (first, last) = shares(1.0, 1.0, 1.0);
        assert!(
            (last / first - YIELDING_WEIGHT).abs() < 1e-9
                && (first * 2.0 + last - 2.0).abs() < 1e-9
        );
        assert_eq!(shares(2.0, 1.0, 0.0).0, 2.0 / 3.0);
    }

    #[test]
    fn writers_are_slowed_by_work_by_arrivals_and_by_delays() {
        let m = Machine { write_op: 1000.0, cores: 2.0, threads: 1, ..Machine::default() };
        let load = |firm| Load { writers: 1.0, firm, yielding: 0.0, threads: firm };
        assert_eq!(m.interval(1024.0, 0.0, load(1.0)), 1000.0);
        assert_eq!(m.interval(1024.0, 5000.0, load(1.0)), 6000.0);
        assert_eq!(Machine { ingest: 1024e3, ..m }.interval(1024.0, 5000.0, load(1.0)), 1e6);
        assert_eq!(m.interval(1024.0, 0.0, load(3.0)), 2000.0);
        assert_eq!((m.writers(1024.0, 0.0), m.writers(1024.0, 3000.0)), (1.0, 0.25));
    }
}
