//! The machine that a simulated store runs on: what its device, its processor and its threads do to time.
//!
//! A job costs processor time and device time, one after the other, since the engine's jobs read, merge and write in one thread. Jobs
//! that run at the same time share the device evenly, and the processor when there are more threads at work than cores.

/// Speeds and numbers. Defaults are those of a small virtual machine with a flash disk, measured with this engine.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Machine {
    /// Bytes a second that the device reads.
    pub read_bandwidth: f64,
    /// Bytes a second that the device writes.
    pub write_bandwidth: f64,
    /// Seconds until a file is synced, besides its bytes.
    pub sync_latency: f64,
    /// Processor cores.
    pub cores: f64,
    /// Background threads, as in the engine's options; 0 does the work at the end of the write that made it necessary.
    pub threads: usize,
    /// Memtables that may wait for their flush.
    pub max_sealed: usize,
    /// Nanoseconds of processor time for each operation of a writer.
    pub write_op: f64,
    /// Nanoseconds for each entry that is flushed, and for each byte of tables that a flush writes.
    pub flush: (f64, f64),
    /// Nanoseconds for each entry that a merge reads, and for each byte of tables that it reads or writes.
    pub merge: (f64, f64),
    /// Bytes a second that the writers bring (keys and values); 0 for as many as they can.
    pub ingest: f64,
    /// Whether all work takes no time at all.
    pub instant: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            read_bandwidth: 2e9,
            write_bandwidth: 1e9,
            sync_latency: 0.002,
            cores: 2.0,
            threads: 2,
            max_sealed: 1,
            write_op: 700.0,
            flush: (110.0, 1.2),
            merge: (70.0, 1.0),
            ingest: 0.0,
            instant: false,
        }
    }
}

/// What a piece of work costs when it is alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Processor time in nanoseconds.
    pub cpu: f64,
    /// Device time in nanoseconds.
    pub device: f64,
}

impl Machine {
    /// The cost of a flush.
    pub fn flush_cost(&self, entries: f64, bytes_out: u64) -> Cost {
        self.cost(self.flush.0 * entries + self.flush.1 * bytes_out as f64, 0, bytes_out)
    }

    /// The cost of a merge.
    pub fn merge_cost(&self, entries_in: f64, bytes_in: u64, bytes_out: u64) -> Cost {
        self.cost(self.merge.0 * entries_in + self.merge.1 * (bytes_in + bytes_out) as f64, bytes_in, bytes_out)
    }

    fn cost(&self, cpu: f64, read: u64, written: u64) -> Cost {
        if self.instant {
            return Cost::default();
        }
        let device = read as f64 / self.read_bandwidth + written as f64 / self.write_bandwidth + self.sync_latency;
        Cost { cpu, device: device * 1e9 }
    }

    /// The nanoseconds that a cost takes while `jobs` run, beside `writers` that use a core each.
    pub fn nanos(&self, cost: Cost, jobs: usize, writers: usize) -> f64 {
        let crowd = ((jobs + writers) as f64 / self.cores).max(1.0);
        cost.cpu * crowd + cost.device * jobs.max(1) as f64
    }

    /// The nanoseconds from one operation of `bytes` to the next: at least what its work takes, at least what the rate of ingestion
    /// says, and the engine's delay on top of its work.
    pub fn interval(&self, bytes: f64, delay_per_kib: u64, jobs: usize) -> f64 {
        let crowd = ((jobs + 1) as f64 / self.cores).max(1.0);
        let work = self.write_op * crowd + bytes * delay_per_kib as f64 / 1024.0;
        let arrives = if self.ingest > 0.0 { bytes / self.ingest * 1e9 } else { 0.0 };
        work.max(arrives).max(0.001)
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
            merge: (0.0, 1.0),
            ..Machine::default()
        };
        let cost = m.merge_cost(0.0, 500_000_000, 500_000_000);
        assert_eq!((cost.cpu, cost.device), (1e9, 1e9));
        assert_eq!(m.nanos(cost, 1, 1), 2e9);
        assert_eq!(m.nanos(cost, 2, 1), 1.5e9 + 2e9);
        assert_eq!(Machine { instant: true, ..m }.merge_cost(1.0, 1, 1), Cost::default());
    }

    #[test]
    fn writers_are_slowed_by_work_by_arrivals_and_by_delays() {
        let m = Machine { write_op: 1000.0, cores: 2.0, ..Machine::default() };
        assert_eq!(m.interval(1024.0, 0, 1), 1000.0);
        assert_eq!(m.interval(1024.0, 5000, 1), 6000.0);
        assert_eq!(Machine { ingest: 1024e3, ..m }.interval(1024.0, 5000, 1), 1e6);
        assert_eq!(m.interval(1024.0, 0, 3), 2000.0);
    }
}
