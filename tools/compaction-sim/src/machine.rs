//! The machine that a simulated store runs on: what its device, its processor and its threads do to
//! time.
//!
//! A job costs processor time and device time, one after the other, since the engine's jobs read,
//! merge and write in one thread. Jobs that run at the same time share the device evenly. They and
//! the writers share the processor when there are more threads at work than cores; threads that
//! only compact give way then, as the engine's do ([`Load`]).

/// Speeds and numbers. The defaults, with where each was measured, are in
/// `results/2026-11-21-simulator.md` (The machine).
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Machine {
    /// Bytes a second that the device reads.
    pub read_bandwidth: f64,
    /// Bytes a second that the device writes.
    pub write_bandwidth: f64,
    /// Seconds until the outputs of a job are synced, besides their bytes.
    pub sync_latency: f64,
    /// Seconds until the device has read a block, when nobody else uses it.
    pub block_seconds: f64,
    /// Bytes of memory for blocks.
    pub cache: f64,
    /// Processor cores.
    pub cores: f64,
    /// Background threads, as in the engine's options; 0 does the work at the end of the write that
    /// made it necessary.
    pub threads: usize,
    /// Memtables that may wait for their flush, the one that is being flushed included.
    pub max_sealed: usize,
    /// Nanoseconds of processor time for each operation of a writer.
    pub write_op: f64,
    /// Nanoseconds besides for each byte of its key and value.
    pub write_byte: f64,
    /// Nanoseconds until a flush begins that could: whoever flushes wakes up, removes files and
    /// prepares the log first.
    pub before_flush: f64,
    /// Nanoseconds for each entry that is flushed, and for each byte of tables that a flush writes.
    pub flush: (f64, f64),
    /// What merges take of the processor.
    pub merge: MergeCost,
    /// Bytes a second that the writers bring (keys and values); 0 for as many as they can.
    pub ingest: f64,
    /// Whether all work takes no time at all.
    pub instant: bool,
    /// How much the times of flushes and of merges vary: the standard deviation of their logarithm.
    /// Which one takes longer hangs on the workload's seed.
    pub jitter: (f64, f64),
    /// Seconds that the store stays open after the last write; infinite until all work is done.
    pub stays_open: f64,
}

/// Nanoseconds of processor time that a merge takes.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct MergeCost {
    /// For each entry read.
    pub entry: f64,
    /// For each entry read, times the logarithm to base 2 of the number of runs that are merged.
    pub doubling: f64,
    /// For each byte of tables written.
    pub byte: f64,
}

impl MergeCost {
    /// Nanoseconds of a merge of so many runs.
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
            sync_latency: 0.001,
            block_seconds: 100e-6,
            cache: 0.0,
            cores: 2.0,
            threads: 2,
            max_sealed: 1,
            write_op: 490.0,
            write_byte: 0.0,
            before_flush: 0.0,
            flush: (48.0, 0.9),
            merge: MergeCost { entry: 34.0, doubling: 12.0, byte: 0.9 },
            ingest: 0.0,
            instant: false,
            jitter: (0.0, 0.0),
            stays_open: f64::INFINITY,
        }
    }
}

/// What a piece of work costs when it is alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineCost {
    /// Processor time in nanoseconds.
    pub cpu: f64,
    /// Device time in nanoseconds.
    pub device: f64,
    /// Nanoseconds that it waits, whoever else is at work.
    pub wait: f64,
}

impl MachineCost {
    /// So many times as much.
    pub fn times(self, factor: f64) -> MachineCost {
        let MachineCost { cpu, device, wait } = self;
        MachineCost { cpu: cpu * factor, device: device * factor, wait: wait * factor }
    }
}

/// Who is at work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Writers, as cores that they use when they need not share any.
    pub writers: f64,
    /// Flushes.
    pub flushes: usize,
    /// Merges.
    pub merges: usize,
}

/// How often each byte is taken to be written where a rate is to be found that a machine bears.
pub const CALM_WRITES: f64 = 20.0;

/// How much the times of flushes and merges varied on a machine with other work ([`Machine::jitter`]).
pub const JITTER: (f64, f64) = (0.6, 0.3);

/// The weight of a thread that gives way, as the engine's compactions do, beside one that does not.
const GIVES_WAY: f64 = 0.1;

impl Load {
    /// Jobs at work.
    pub fn jobs(&self) -> usize {
        self.flushes + self.merges
    }

    /// The shares of a core that a writer or a flush has, and that a merge has. One background
    /// thread alone gives way to nobody.
    fn shares(&self, cores: f64, threads: usize) -> (f64, f64) {
        let weight = if threads > 1 { GIVES_WAY } else { 1.0 };
        let (first, last) = (self.writers + self.flushes as f64, self.merges as f64);
        let share = (cores / (first + weight * last)).min(1.0);
        let rest = if last > 0.0 {
            ((cores - share * first) / last).clamp(weight * share, 1.0)
        } else {
            1.0
        };
        (share, rest)
    }
}

impl Machine {
    /// The cost of a flush.
    pub fn flush_cost(&self, entries: f64, bytes_out: u64) -> MachineCost {
        self.cost(self.flush.0 * entries + self.flush.1 * bytes_out as f64, 0, bytes_out)
    }

    /// The cost of a merge of so many runs.
    pub fn merge_cost(
        &self,
        runs: usize,
        entries_in: f64,
        bytes_in: u64,
        bytes_out: u64,
    ) -> MachineCost {
        self.cost(self.merge.nanos(runs, entries_in, bytes_out as f64), bytes_in, bytes_out)
    }

    fn cost(&self, cpu: f64, read: u64, written: u64) -> MachineCost {
        if self.instant {
            return MachineCost::default();
        }
        let device = read as f64 / self.read_bandwidth + written as f64 / self.write_bandwidth;
        MachineCost { cpu, device: device * 1e9, wait: self.sync_latency * 1e9 }
    }

    /// The nanoseconds that a flush (else a merge) takes under this load, of which it is a part.
    pub fn nanos(&self, cost: MachineCost, is_flush: bool, load: Load) -> f64 {
        let (first, last) = load.shares(self.cores, self.threads);
        cost.wait
            + cost.cpu / if is_flush { first } else { last }
            + cost.device * load.jobs().max(1) as f64
    }

    /// A rate in bytes a second, of puts of so many bytes, that this machine bears well: at which one
    /// job at a time that writes each byte [`CALM_WRITES`] times is busy all the time, and half of
    /// that. Few policies write more, so their writers seldom wait.
    pub fn calm_rate(&self, put_bytes: f64) -> f64 {
        let device = 1e9 / self.read_bandwidth + 1e9 / self.write_bandwidth;
        let processor = self.merge.nanos(4, 1.0, put_bytes) / put_bytes.max(1.0);
        1e9 / (CALM_WRITES * (device + processor).max(1e-6)) / 2.0
    }

    /// How many cores a writer uses whose operations are delayed by so many nanoseconds each.
    pub fn writers(&self, bytes: f64, delay: f64) -> f64 {
        let work = self.write_work(bytes);
        work / (work + delay).max(self.arrival(bytes)).max(0.001)
    }

    /// The nanoseconds from one operation of `bytes` to the next under this load: at least what its
    /// work takes, at least what the rate of ingestion says, and the engine's `delay` on top of its
    /// work.
    pub fn interval(&self, bytes: f64, delay: f64, load: Load) -> f64 {
        self.service(bytes, delay, load).max(self.arrival(bytes)).max(0.001)
    }

    /// The nanoseconds that an operation takes when its turn has come.
    pub fn service(&self, bytes: f64, delay: f64, load: Load) -> f64 {
        let (share, _) = load.shares(self.cores, self.threads);
        self.write_work(bytes) / share + delay
    }

    /// The share of its time that a job is at the device, under this load, of which it is a part.
    pub fn device_share(&self, cost: MachineCost, is_flush: bool, load: Load) -> f64 {
        let all = self.nanos(cost, is_flush, load);
        if all > 0.0 { cost.device * load.jobs().max(1) as f64 / all } else { 0.0 }
    }

    fn write_work(&self, bytes: f64) -> f64 {
        self.write_op + self.write_byte * bytes
    }

    /// Nanoseconds from one operation that comes to the next; 0 where they come as fast as they can.
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
            merge: MergeCost { entry: 1.0, doubling: 1.0, byte: 1.0 },
            ..Machine::default()
        };
        let cost = m.merge_cost(4, 1e8, 500_000_000, 500_000_000);
        assert_eq!((cost.cpu, cost.device), (0.8e9, 1e9));
        let load = Load { writers: 1.0, flushes: 0, merges: 1 };
        assert_eq!(m.nanos(cost, false, load), 1.8e9);
        assert_eq!(
            m.nanos(cost, false, Load { merges: 2, ..load }),
            1.6e9 + 2e9,
            "the writer keeps nearly all of its core"
        );
        assert_eq!(Machine { instant: true, ..m }.merge_cost(2, 1.0, 1, 1), MachineCost::default());
    }

    #[test]
    fn merges_give_way_where_they_have_threads_of_their_own() {
        let shares = |writers, flushes, merges, threads| {
            Load { writers, flushes, merges }.shares(2.0, threads)
        };
        assert_eq!(shares(1.0, 0, 1, 2), (1.0, 1.0));
        assert_eq!(shares(0.5, 1, 1, 2), (1.0, 0.5));
        let (first, last) = shares(1.0, 1, 1, 2);
        assert!((last / first - GIVES_WAY).abs() < 1e-9 && (first * 2.0 + last - 2.0).abs() < 1e-9);
        let (first, last) = shares(2.0, 0, 1, 1);
        assert!((first - last).abs() < 1e-9);
    }

    #[test]
    fn writers_are_slowed_by_work_by_arrivals_and_by_delays() {
        let m = Machine { write_op: 1000.0, cores: 2.0, threads: 1, ..Machine::default() };
        let load = |merges| Load { writers: 1.0, flushes: 0, merges };
        assert_eq!(m.interval(1024.0, 0.0, load(1)), 1000.0);
        assert_eq!(m.interval(1024.0, 5000.0, load(1)), 6000.0);
        assert_eq!(Machine { ingest: 1024e3, ..m }.interval(1024.0, 5000.0, load(1)), 1e6);
        assert_eq!(m.interval(1024.0, 0.0, load(3)), 2000.0);
        assert_eq!((m.writers(1024.0, 0.0), m.writers(1024.0, 3000.0)), (1.0, 0.25));
    }
}
