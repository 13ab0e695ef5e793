//! The machine that a simulated store runs on: what its device, its processor and its threads do to
//! time.
//!
//! A job costs processor time, device time and waiting, one after the other, since each thread of
//! the engine's reads, merges, writes and syncs in turn. A large job is done by several threads at
//! once. Threads that are at work at the same time share the device evenly. They and the writers
//! share the processor when they want more of it than there is, as far as they want it: who waits
//! for the device does not. Threads that only compact give way then, as the engine's do ([`Load`]).

/// Speeds and numbers. The defaults, with where each was measured, are in
/// `results/2026-11-21-simulator.md` (The machine).
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Machine {
    /// Bytes a second that the device reads.
    pub read_bandwidth: f64,
    /// Bytes a second that the device writes.
    pub write_bandwidth: f64,
    /// Seconds until a table is synced, besides its bytes.
    pub sync_latency: f64,
    /// Seconds until a change of tables is durable and shown: all of a move, and the end of every
    /// flush and merge.
    pub install: f64,
    /// Nanoseconds for each byte of tables that a job has made useless: the thread that compacts
    /// removes their files before it does anything else.
    pub remove_byte: f64,
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
    /// Seconds that a flush waits besides, for whatever else it shares the machine with.
    pub flush_wait: f64,
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

/// How much times vary: the standard deviation of the logarithm of what is above 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogSpread {
    number: f64,
    sum: f64,
    squares: f64,
}

impl LogSpread {
    /// Counts a time, or what it is over another.
    pub fn add(&mut self, factor: f64) {
        if factor > 0.0 {
            let log = factor.ln();
            self.number += 1.0;
            self.sum += log;
            self.squares += log * log;
        }
    }

    /// The standard deviation; 0 of none.
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
    /// So many times as much.
    pub fn times(self, factor: f64) -> MergeCost {
        let MergeCost { entry, doubling, byte } = self;
        MergeCost { entry: entry * factor, doubling: doubling * factor, byte: byte * factor }
    }

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

/// What a piece of work costs when it is alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineCost {
    /// Processor time in nanoseconds.
    pub cpu: f64,
    /// Device time in nanoseconds.
    pub device: f64,
    /// Nanoseconds that it waits for the syncs of its tables.
    pub syncs: f64,
    /// Nanoseconds that it waits besides, for its turn and for the change of tables.
    pub wait: f64,
    /// Threads that share all of it but what it waits besides.
    pub threads: f64,
}

impl Default for MachineCost {
    fn default() -> Self {
        MachineCost { cpu: 0.0, device: 0.0, syncs: 0.0, wait: 0.0, threads: 1.0 }
    }
}

impl MachineCost {
    /// So many times as much.
    pub fn times(self, factor: f64) -> MachineCost {
        let MachineCost { cpu, device, syncs, wait, threads } = self;
        let [cpu, device, syncs, wait] = [cpu, device, syncs, wait].map(|nanos| nanos * factor);
        MachineCost { cpu, device, syncs, wait, threads }
    }

    /// Cores that it uses when it is alone: none while it waits.
    pub fn cores(&self) -> f64 {
        let alone = self.wait + (self.syncs + self.cpu + self.device) / self.threads;
        if alone > 0.0 { self.cpu / alone } else { 0.0 }
    }
}

/// What of a job's tables a machine has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkBytes {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Tables written.
    pub tables: usize,
}

/// Threads of so many that are busy on average with a job in pieces: those that find no last piece
/// wait for the others.
pub(crate) fn side_by_side(pieces: usize, threads: usize) -> f64 {
    let (pieces, threads) = (pieces.max(1), threads.max(1));
    pieces as f64 / pieces.div_ceil(threads) as f64
}

/// Who is at work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Writers, as cores that they use when they need not share any.
    pub writers: f64,
    /// Jobs of threads that give way to nobody, in the same way.
    pub firm: f64,
    /// Jobs of threads that give way, in the same way.
    pub yielding: f64,
    /// Threads of jobs.
    pub threads: f64,
}

/// How often each byte is taken to be written where a rate is to be found that a machine bears.
pub const CALM_WRITES: f64 = 20.0;

/// How much the times of flushes and merges varied on a machine with other work ([`Machine::jitter`]).
pub const JITTER: (f64, f64) = (0.6, 0.3);

/// How much longer a sync takes for each thread beside it that writes tables too: the file system
/// makes what they have written durable with it. Between 0.1 and 0.5 where it was measured.
const SYNCS_BESIDE: f64 = 0.25;

/// The weight of a thread that gives way, as the engine's compactions do, beside one that does not.
const GIVES_WAY: f64 = 0.1;

impl Load {
    /// Adds a job.
    pub fn add(&mut self, cost: MachineCost, gives_way: bool) {
        self.threads += cost.threads;
        let kind = if gives_way { &mut self.yielding } else { &mut self.firm };
        *kind += cost.cores();
    }

    /// The shares of what it wants that one has who gives way to nobody, and that one has who does.
    fn shares(&self, cores: f64) -> (f64, f64) {
        let (first, last) = (self.writers + self.firm, self.yielding);
        let share = (cores / (first + GIVES_WAY * last).max(1e-9)).min(1.0);
        let rest = if last > 0.0 {
            ((cores - share * first) / last).clamp(GIVES_WAY * share, 1.0)
        } else {
            1.0
        };
        (share, rest)
    }
}

impl Machine {
    /// The cost of a flush of so many entries.
    pub fn flush_cost(&self, entries: f64, work: WorkBytes) -> MachineCost {
        let cpu = self.flush.0 * entries + self.flush.1 * work.written as f64;
        let cost = self.cost(cpu, work);
        if self.instant {
            cost
        } else {
            MachineCost { wait: cost.wait + self.flush_wait * 1e9, ..cost }
        }
    }

    /// The cost of a merge of so many runs.
    pub fn merge_cost(&self, runs: usize, entries_in: f64, work: WorkBytes) -> MachineCost {
        self.cost(self.merge.nanos(runs, entries_in, work.written as f64), work)
    }

    /// The cost of a move or a drop.
    pub fn move_cost(&self) -> MachineCost {
        self.cost(0.0, WorkBytes::default())
    }

    /// The cost of removing the files of so many bytes of tables.
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

    /// The nanoseconds that a job takes when it is alone.
    pub fn alone(&self, cost: MachineCost) -> f64 {
        self.nanos(cost, false, Load { threads: cost.threads, ..Load::default() })
    }

    /// The nanoseconds that a job takes under this load, of which it is a part.
    pub fn nanos(&self, cost: MachineCost, gives_way: bool, load: Load) -> f64 {
        let (first, last) = load.shares(self.cores);
        let cpu = cost.cpu / if gives_way { last } else { first };
        let beside = (load.threads - cost.threads).max(0.0);
        let slower = 1.0 + SYNCS_BESIDE * beside;
        cost.wait * slower
            + (cost.syncs * slower + cpu + cost.device * load.threads.max(1.0)) / cost.threads
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
        let (share, _) = load.shares(self.cores);
        self.write_work(bytes) / share + delay
    }

    /// The share of its time that a job is at the device, under this load, of which it is a part.
    pub fn device_share(&self, cost: MachineCost, gives_way: bool, load: Load) -> f64 {
        let all = self.nanos(cost, gives_way, load);
        if all > 0.0 { cost.device * load.threads.max(1.0) / cost.threads / all } else { 0.0 }
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
        assert!((last / first - GIVES_WAY).abs() < 1e-9 && (first * 2.0 + last - 2.0).abs() < 1e-9);
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
