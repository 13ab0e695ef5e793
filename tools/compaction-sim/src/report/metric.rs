//! The metrics of a simulation. Each one is an entry of [`METRICS`], with its name, unit, meaning,
//! value and presentation.
//!
//! Tables, `--json`, CSV, figures, pages and comparisons are built from this list, so a new metric
//! appears in all of them. JSON and CSV have every metric by its name. The table of one outcome has
//! every known metric; consecutive ones with the same label share a line.

use firn_tools::output::{bytes, count, rate};

use crate::model::meter::SimOutcome;
use crate::model::ssd::{SsdWear, YEAR};

use crate::report::text::{seconds, time};
use MetricUnit::{Bytes, Count, Factor, Latency, Mean, Rate, Seconds, Seldom, Share};

/// Unit of a metric, which determines its text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// A whole count.
    Count,
    /// An average count.
    Mean,
    /// A count that is usually near zero.
    Seldom,
    /// A ratio.
    Factor,
    /// A part of a whole, 0 to 1.
    Share,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Seconds, often only nanoseconds.
    Latency,
    /// A count per second.
    Rate,
}

impl MetricUnit {
    /// Returns a value as text.
    ///
    /// ```
    /// use compaction_sim::report::metric::MetricUnit;
    /// assert_eq!(MetricUnit::Factor.text(5.628), "5.63");
    /// assert_eq!(MetricUnit::Latency.text(0.000_005), "5.00 us");
    /// ```
    pub fn text(self, v: f64) -> String {
        match self {
            MetricUnit::Count => count(v as u64),
            MetricUnit::Mean => format!("{v:.1}"),
            MetricUnit::Seldom => format!("{v:.4}"),
            MetricUnit::Factor => format!("{v:.2}"),
            MetricUnit::Share => format!("{:.1} %", 100.0 * v),
            MetricUnit::Bytes => bytes(v as u64),
            MetricUnit::Seconds => seconds(v),
            MetricUnit::Latency => time(v),
            MetricUnit::Rate => rate(v),
        }
    }

    /// Returns the unit of the value in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            MetricUnit::Count | MetricUnit::Mean | MetricUnit::Seldom => "number",
            MetricUnit::Factor => "factor",
            MetricUnit::Share => "share",
            MetricUnit::Bytes => "bytes",
            MetricUnit::Seconds | MetricUnit::Latency => "seconds",
            MetricUnit::Rate => "per second",
        }
    }
}

/// Figures that show a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricFigure {
    /// None.
    None,
    /// Its value over the size ratio.
    OverRatio,
    /// Its value over the size ratio, and against the other traded metrics.
    Traded,
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Unique name in JSON, CSV and the data of figures.
    pub name: &'static str,
    /// Label in tables and at axes. Neighbours with the same text before a colon share a line.
    pub words: &'static str,
    /// Its unit.
    pub unit: MetricUnit,
    /// Its meaning, in a sentence.
    pub about: &'static str,
    /// Returns its value; `None` if the outcome does not have it.
    pub of: fn(&SimOutcome) -> Option<f64>,
    /// Heading in a table of many outcomes; `None` if it is not in there.
    pub heading: Option<&'static str>,
    /// Whether the event log of a store has it too: then `compare` compares both.
    pub logged: bool,
    /// Figures that show it.
    pub figure: MetricFigure,
}

impl Metric {
    const fn new(
        name: &'static str,
        words: &'static str,
        unit: MetricUnit,
        about: &'static str,
        of: fn(&SimOutcome) -> Option<f64>,
    ) -> Metric {
        let (heading, logged, figure) = (None, false, MetricFigure::None);
        Metric { name, words, unit, about, of, heading, logged, figure }
    }

    const fn headed(self, heading: &'static str) -> Metric {
        Metric { heading: Some(heading), ..self }
    }

    const fn logged(self) -> Metric {
        Metric { logged: true, ..self }
    }

    const fn figure(self, figure: MetricFigure) -> Metric {
        Metric { figure, ..self }
    }

    /// Returns its value as text; `None` if the outcome has none.
    pub fn text(&self, o: &SimOutcome) -> Option<String> {
        (self.of)(o).map(|v| self.unit.text(v))
    }

    /// Returns the label of its line in a table, and its part of that line.
    pub fn line(&self) -> (&'static str, Option<&'static str>) {
        self.words.split_once(": ").map_or((self.words, None), |(label, part)| (label, Some(part)))
    }
}

/// Returns a figure that no log has: live data, filters, and the cost of reads.
fn simulated(o: &SimOutcome, figure: f64) -> Option<f64> {
    (o.live_bytes > 0.0).then_some(figure)
}

/// Returns a figure that exists only with blob files.
fn with_blobs(o: &SimOutcome, figure: f64) -> Option<f64> {
    (o.value_bytes_written > 0).then_some(figure)
}

/// Returns a figure about deletes, if there were any.
fn deleted(o: &SimOutcome, figure: f64) -> Option<f64> {
    (o.tombstone_age[2] > 0.0).then_some(figure)
}

/// Returns a figure about the device, if one is simulated.
fn worn(o: &SimOutcome, of: fn(&SsdWear) -> f64) -> Option<f64> {
    o.wear.as_ref().map(of)
}

/// All metrics, in the order of presentation: the ones for decisions come first.
pub const METRICS: &[Metric] = &[
    Metric::new(
        "write_amplification",
        "write amplification",
        Factor,
        "Bytes that flushes and compactions wrote to tables, for each byte of keys and values \
         that the user wrote.",
        |o| Some(o.write_amplification),
    )
    .headed("write amp")
    .figure(MetricFigure::Traded),
    Metric::new(
        "space_amplification",
        "space amplification: current",
        Factor,
        "Bytes of tables at the end, over the bytes that one copy of all live keys takes.",
        |o| simulated(o, o.space_amplification),
    )
    .headed("space amp"),
    Metric::new(
        "max_space_amplification",
        "space amplification: max",
        Factor,
        "The peak of this after the first tenth of the operations, including unfinished outputs \
         of jobs.",
        |o| simulated(o, o.max_space_amplification),
    )
    .headed("max")
    .figure(MetricFigure::Traded),
    Metric::new("bytes", "space: current", Bytes, "Bytes of tables at the end.", |o| {
        Some(o.bytes as f64)
    }),
    Metric::new(
        "peak_bytes",
        "space: peak",
        Bytes,
        "The peak bytes of tables, including unfinished outputs of jobs.",
        |o| Some(o.peak_bytes as f64),
    )
    .headed("peak"),
    Metric::new(
        "mean_runs",
        "runs: mean",
        Mean,
        "Sorted runs that a read may have to search: mean over all writes.",
        |o| Some(o.mean_runs),
    )
    .headed("runs")
    .figure(MetricFigure::Traded),
    Metric::new(
        "max_runs",
        "runs: max",
        Count,
        "The maximum number of runs after any flush.",
        |o| Some(o.max_runs as f64),
    )
    .headed("max"),
    Metric::new("runs", "runs: current", Count, "Runs at the end.", |o| Some(o.runs as f64)),
    Metric::new(
        "slowdown_seconds",
        "write stalls: delayed",
        Seconds,
        "How long writers were delayed, because flushes or compactions could not keep up.",
        |o| Some(o.slowdown_seconds),
    )
    .headed("delayed")
    .logged(),
    Metric::new(
        "stalled_seconds",
        "write stalls: stopped",
        Seconds,
        "How long writers were stopped, because every memtable was full.",
        |o| Some(o.stalled_seconds),
    )
    .headed("stopped")
    .logged(),
    Metric::new(
        "held_up",
        "write stalls: share of time",
        Share,
        "The share of the time in which writers were delayed or stopped.",
        |o| Some((o.slowdown_seconds + o.stalled_seconds) / o.seconds.max(1e-9)),
    )
    .figure(MetricFigure::OverRatio),
    Metric::new(
        "ops_per_second",
        "writes a second",
        Rate,
        "Writes a second while writes went on.",
        |o| Some(o.ops_per_second),
    )
    .headed("writes/s"),
    Metric::new(
        "write_latency_p50",
        "writes: p50",
        Latency,
        "How long half of the writes take at most.",
        |o| simulated(o, o.write_latency.p50),
    ),
    Metric::new(
        "write_latency_p99",
        "writes: p99",
        Latency,
        "How long 99 of 100 of the writes take at most.",
        |o| simulated(o, o.write_latency.p99),
    ),
    Metric::new(
        "write_latency_p999",
        "writes: p99.9",
        Latency,
        "How long 999 of 1000 of the writes take at most.",
        |o| simulated(o, o.write_latency.p999),
    )
    .headed("put p99.9"),
    Metric::new(
        "write_latency_most",
        "writes: max",
        Latency,
        "How long all of the writes take at most.",
        |o| simulated(o, o.write_latency.most),
    ),
    Metric::new(
        "hit_latency_p50",
        "lookups of existing keys: p50",
        Latency,
        "How long half of the lookups of existing keys take at most.",
        |o| simulated(o, o.hit_latency.p50),
    ),
    Metric::new(
        "hit_latency_p99",
        "lookups of existing keys: p99",
        Latency,
        "How long 99 of 100 of the lookups of existing keys take at most.",
        |o| simulated(o, o.hit_latency.p99),
    ),
    Metric::new(
        "hit_latency_p999",
        "lookups of existing keys: p99.9",
        Latency,
        "How long 999 of 1000 of the lookups of existing keys take at most.",
        |o| simulated(o, o.hit_latency.p999),
    )
    .headed("get p99.9"),
    Metric::new(
        "hit_latency_most",
        "lookups of existing keys: max",
        Latency,
        "How long all but one in a million of the lookups of existing keys take at most.",
        |o| simulated(o, o.hit_latency.most),
    ),
    Metric::new(
        "miss_latency_p50",
        "lookups of missing keys: p50",
        Latency,
        "How long half of the lookups of missing keys take at most.",
        |o| simulated(o, o.miss_latency.p50),
    ),
    Metric::new(
        "miss_latency_p99",
        "lookups of missing keys: p99",
        Latency,
        "How long 99 of 100 of the lookups of missing keys take at most.",
        |o| simulated(o, o.miss_latency.p99),
    ),
    Metric::new(
        "miss_latency_p999",
        "lookups of missing keys: p99.9",
        Latency,
        "How long 999 of 1000 of the lookups of missing keys take at most.",
        |o| simulated(o, o.miss_latency.p999),
    ),
    Metric::new(
        "miss_latency_most",
        "lookups of missing keys: max",
        Latency,
        "How long all but one in a million of the lookups of missing keys take at most.",
        |o| simulated(o, o.miss_latency.most),
    ),
    Metric::new(
        "scan_latency_p50",
        "start of scans: p50",
        Latency,
        "How long half of the scans, until they have begun, take at most.",
        |o| simulated(o, o.scan_latency.p50),
    ),
    Metric::new(
        "scan_latency_p99",
        "start of scans: p99",
        Latency,
        "How long 99 of 100 of the scans, until they have begun, take at most.",
        |o| simulated(o, o.scan_latency.p99),
    ),
    Metric::new(
        "scan_latency_p999",
        "start of scans: p99.9",
        Latency,
        "How long 999 of 1000 of the scans, until they have begun, take at most.",
        |o| simulated(o, o.scan_latency.p999),
    ),
    Metric::new(
        "scan_latency_most",
        "start of scans: max",
        Latency,
        "How long all but one in a million of the scans, until they have begun, take at most.",
        |o| simulated(o, o.scan_latency.most),
    ),
    Metric::new(
        "hit_blocks",
        "blocks read: found",
        Seldom,
        "Blocks that a lookup of an existing key reads from the device, on average over the time.",
        |o| simulated(o, o.hit_blocks),
    ),
    Metric::new(
        "miss_blocks",
        "blocks read: not found",
        Seldom,
        "The same for a missing key.",
        |o| simulated(o, o.miss_blocks),
    ),
    Metric::new(
        "scan_blocks",
        "blocks read: scan",
        Seldom,
        "The same for a scan until it has begun.",
        |o| simulated(o, o.scan_blocks),
    ),
    Metric::new(
        "seconds",
        "time",
        Seconds,
        "Seconds from the first write to the end of the last job.",
        |o| Some(o.seconds),
    ),
    Metric::new(
        "tombstone_age_p50",
        "age of deletes: p50",
        Seconds,
        "Time from a delete until it is gone or, if it still exists, to the end: half of them.",
        |o| deleted(o, o.tombstone_age[0]),
    ),
    Metric::new(
        "tombstone_age_p99",
        "age of deletes: p99",
        Seconds,
        "The same for 99 of 100.",
        |o| deleted(o, o.tombstone_age[1]),
    )
    .headed("del p99"),
    Metric::new("tombstone_age_max", "age of deletes: max", Seconds, "The same for all.", |o| {
        deleted(o, o.tombstone_age[2])
    }),
    Metric::new(
        "tombstones",
        "remaining deletes",
        Count,
        "Deletes that are still in tables at the end.",
        |o| deleted(o, o.tombstones),
    ),
    Metric::new("ops", "operations", Count, "Operations that were written.", |o| {
        Some(o.ops as f64)
    }),
    Metric::new(
        "user_bytes",
        "written by the user",
        Bytes,
        "Bytes of keys and values that were written.",
        |o| Some(o.user_bytes),
    ),
    Metric::new(
        "flush_bytes",
        "written by flushes",
        Bytes,
        "Bytes of tables that flushes wrote.",
        |o| Some(o.flush_bytes as f64),
    )
    .logged(),
    Metric::new(
        "flush_raw_bytes",
        "keys and values of flushes",
        Bytes,
        "Bytes of keys and values in them, before they are compressed.",
        |o| Some(o.flush_raw_bytes),
    ),
    Metric::new(
        "merge_read",
        "read by compactions",
        Bytes,
        "Bytes of tables that compactions read.",
        |o| Some(o.merge_read as f64),
    )
    .logged(),
    Metric::new(
        "merge_written",
        "written by compactions",
        Bytes,
        "Bytes of tables that compactions wrote.",
        |o| Some(o.merge_written as f64),
    )
    .logged(),
    Metric::new(
        "value_bytes_written",
        "of these to blob files",
        Bytes,
        "Bytes of blob files among those that flushes and compactions wrote.",
        |o| with_blobs(o, o.value_bytes_written as f64),
    ),
    Metric::new(
        "value_bytes",
        "blob files: bytes",
        Bytes,
        "Bytes of blob files at the end.",
        |o| with_blobs(o, o.value_bytes as f64),
    ),
    Metric::new("blob_files", "blob files: number", Count, "Blob files at the end.", |o| {
        with_blobs(o, o.blob_files as f64)
    }),
    Metric::new(
        "rewrite_amplification",
        "written for each byte flushed",
        Factor,
        "Bytes written to tables for each that was flushed: the part of the policy alone.",
        |o| Some(o.rewrite_amplification),
    ),
    Metric::new("flushes", "jobs: flushes", Count, "Flushes that were done.", |o| {
        Some(o.flushes as f64)
    })
    .logged(),
    Metric::new("merges", "jobs: compactions", Count, "Compactions that were done.", |o| {
        Some(o.merges as f64)
    })
    .logged(),
    Metric::new("moves", "jobs: moves", Count, "Jobs that only moved tables.", |o| {
        Some(o.moves as f64)
    })
    .logged(),
    Metric::new("drops", "jobs: drops", Count, "Jobs that only dropped tables.", |o| {
        Some(o.drops as f64)
    })
    .logged(),
    Metric::new("flush_seconds", "flushes took: time", Seconds, "The time of all flushes.", |o| {
        Some(o.flush_seconds)
    }),
    Metric::new(
        "flush_cpu_seconds",
        "flushes took: processor",
        Seconds,
        "Their processor time.",
        |o| simulated(o, o.flush_cpu_seconds),
    ),
    Metric::new(
        "merge_seconds",
        "compactions took: time",
        Seconds,
        "The time of all compactions.",
        |o| Some(o.merge_seconds),
    ),
    Metric::new(
        "merge_cpu_seconds",
        "compactions took: processor",
        Seconds,
        "Their processor time.",
        |o| simulated(o, o.merge_cpu_seconds),
    ),
    Metric::new("tables", "tables", Count, "Tables at the end.", |o| simulated(o, o.tables as f64)),
    Metric::new("live_bytes", "live", Bytes, "Bytes that one copy of all live keys takes.", |o| {
        simulated(o, o.live_bytes)
    }),
    Metric::new(
        "tables_per_read",
        "tables that may hold a key",
        Factor,
        "Tables whose range holds a key that is looked up, at the end.",
        |o| simulated(o, o.tables_per_read),
    ),
    Metric::new(
        "blocks_per_miss",
        "blocks read for a missing key",
        Seldom,
        "Blocks that are read for it because of false positives of filters, at the end, without a \
         cache.",
        |o| simulated(o, o.blocks_per_miss),
    ),
    Metric::new("filter_bytes", "in memory: filters", Bytes, "Bytes of filters at the end.", |o| {
        simulated(o, o.filter_bytes)
    })
    .headed("filters"),
    Metric::new(
        "index_bytes",
        "in memory: indexes",
        Bytes,
        "Approximate bytes of pinned indexes at the end.",
        |o| simulated(o, o.index_bytes),
    ),
    Metric::new(
        "device_bytes",
        "written by the device",
        Bytes,
        "Bytes that the device wrote: those of the store, and those that its garbage collection \
         moved.",
        |o| worn(o, |w| w.host_bytes + w.moved_bytes),
    ),
    Metric::new(
        "device_write_amplification",
        "device write amplification",
        Factor,
        "Both over the bytes of the store.",
        |o| worn(o, |w| w.device_write_amplification),
    )
    .headed("device amp"),
    Metric::new(
        "drive_writes_per_day",
        "drive writes a day",
        Factor,
        "How often the store wrote the full capacity of the device, in a day.",
        |o| worn(o, |w| w.drive_writes_per_day),
    ),
    Metric::new(
        "device_fullest",
        "device full at most",
        Share,
        "The peak bytes of the store on the device, over its capacity.",
        |o| worn(o, |w| w.fullest),
    ),
    Metric::new(
        "endurance_seconds",
        "endurance lasts for",
        Seconds,
        "Time until the store has written the endurance that the vendor states.",
        |o| worn(o, |w| w.years * YEAR).filter(|s| *s > 0.0),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_names_of_their_own_and_say_what_they_mean() {
        let mut names: Vec<&str> = METRICS.iter().map(|m| m.name).collect();
        let mut words: Vec<&str> = METRICS.iter().map(|m| m.words).collect();
        for of in [&mut names, &mut words] {
            of.sort_unstable();
            of.dedup();
            assert_eq!(of.len(), METRICS.len());
        }
        assert!(METRICS.iter().all(|m| m.about.ends_with('.') && m.about.len() > 10));
    }

    /// A figure that a log lacks is unknown, not zero.
    #[test]
    fn of_an_outcome_without_live_keys_only_what_is_written_is_known() {
        let o = SimOutcome { ops: 5, ..SimOutcome::default() };
        let known: Vec<&str> =
            METRICS.iter().filter(|m| m.text(&o).is_some()).map(|m| m.name).collect();
        assert!(METRICS.iter().filter(|m| m.logged).all(|m| known.contains(&m.name)));
        assert!(!known.contains(&"filter_bytes") && !known.contains(&"device_bytes"));
    }
}
