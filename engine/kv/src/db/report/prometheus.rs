//! Formats statistics for Prometheus, in its text format, version 0.0.4.
//!
//! Invariants: every family has one `HELP` and one `TYPE` line, directly before all of its samples.
//! Counters end in `_total`. Times are in seconds and sizes in bytes. Buckets of histograms are
//! cumulative. This needs no crate, so there is no cargo feature for it.

use std::fmt::{Display, Write};

use crate::db::observe::meters::Latency;
use crate::db::report::stats::{Stats, TreeStats};

/// Labels of a sample.
type Labels<'a> = [(&'a str, &'a str)];

/// Builder of a text in this format. A server can add its own metrics to those of its store.
///
/// ```
/// let mut text = firn_kv::stats::PrometheusText::default();
/// text.counter("firn_cups_total", "Cups of tea.", 3);
/// assert!(text.into_string().ends_with("\nfirn_cups_total 3\n"));
/// ```
#[derive(Debug, Default)]
pub struct PrometheusText(String);

impl PrometheusText {
    /// Returns the whole text.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Begins a family, whose samples must follow. `help` must not contain backslashes or line
    /// ends.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail. No help text has characters that need escaping.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Adds a sample of the family.
    pub fn sample(&mut self, name: &str, labels: &Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if i == 0 { '{' } else { ',' });
            for c in text.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// Adds a counter without labels: a family and its sample.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    /// Adds a gauge without labels: a family and its sample.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    /// Adds a family whose samples differ by one label.
    pub fn each(
        &mut self,
        (name, kind): (&str, &str),
        help: &str,
        label: &str,
        samples: &[(&str, u64)],
    ) {
        self.family(name, kind, help);
        samples.iter().for_each(|(text, value)| self.sample(name, &[(label, text)], value));
    }

    /// Adds the samples of one histogram of the family, with this label.
    pub fn histogram(&mut self, name: &str, label: (&str, &str), l: &Latency) {
        let bucket = format!("{name}_bucket");
        for (bound, count) in Latency::BOUNDS.iter().zip(l.within) {
            self.sample(&bucket, &[label, ("le", &seconds(*bound).to_string())], count);
        }
        self.sample(&bucket, &[label, ("le", "+Inf")], l.timed);
        self.sample(&format!("{name}_sum"), &[label], seconds(l.sum));
        self.sample(&format!("{name}_count"), &[label], l.timed);
    }

    /// Adds the samples of one summary of the family, with these labels: median and 99th
    /// percentile.
    pub fn summary(&mut self, name: &str, labels: &Labels<'_>, l: &Latency) {
        for (quantile, nanos) in [("0.5", l.p50), ("0.99", l.p99)] {
            let labels: Vec<_> = labels.iter().copied().chain([("quantile", quantile)]).collect();
            self.sample(name, &labels, seconds(nanos));
        }
        self.sample(&format!("{name}_sum"), labels, seconds(l.sum));
        self.sample(&format!("{name}_count"), labels, l.timed);
    }

    /// Adds a family with one sample for each tree.
    fn trees(
        &mut self,
        (name, kind): (&str, &str),
        help: &str,
        trees: &[TreeStats],
        value: impl Fn(&TreeStats) -> u64,
    ) {
        let samples: Vec<(&str, u64)> = trees.iter().map(|t| (t.name.as_str(), value(t))).collect();
        self.each((name, kind), help, "tree", &samples);
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

impl Stats {
    /// Returns all statistics in the text format of Prometheus, version 0.0.4, to be served as
    /// `text/plain; version=0.0.4`. Counters start at the opening of the store. Sampled counters
    /// are scaled up to estimates, which their help states. Histograms of gets, seeks and writes
    /// hold only the timed ones.
    ///
    /// ```
    /// use firn_kv::{Db, TreeOptions};
    /// let db = Db::in_memory()?;
    /// db.tree("fruit", TreeOptions::default())?.put("apple", "red")?;
    /// let text = db.stats().prometheus();
    /// assert!(text.contains("\nfirn_operations_written_total 1\n"));
    /// assert!(text.contains("\nfirn_tree_runs{tree=\"fruit\"} 0\n"));
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn prometheus(&self) -> String {
        let mut t = PrometheusText::default();
        self.tell(&mut t);
        t.into_string()
    }

    /// Appends all statistics to a text.
    pub fn tell(&self, t: &mut PrometheusText) {
        self.export_writes(t);
        self.export_reads(t);
        self.export_space(t);
        self.export_trees(t);
        self.export_latencies(t);
    }

    fn export_writes(&self, t: &mut PrometheusText) {
        t.counter("firn_operations_written_total", "Operations written.", self.ops_written);
        t.counter("firn_user_bytes_total", "Bytes of keys and values written.", self.user_bytes);
        t.gauge("firn_sequence_number", "The newest sequence number that may be read.", self.seq);
        t.counter("firn_flushes_total", "Flushes done.", self.flushes);
        t.counter(
            "firn_flush_bytes_total",
            "Bytes of tables written by flushes.",
            self.flush_bytes,
        );
        t.counter("firn_flush_seconds_total", "Time spent in flushes.", seconds(self.flush_nanos));
        let jobs = [("merge", self.compactions), ("move", self.moves), ("drop", self.drops)];
        t.each(
            ("firn_compactions_total", "counter"),
            "Compactions done, by what they do with tables.",
            "action",
            &jobs,
        );
        t.counter(
            "firn_compaction_read_bytes_total",
            "Bytes of tables read by compactions.",
            self.compaction_read,
        );
        t.counter(
            "firn_compaction_written_bytes_total",
            "Bytes of tables written by compactions.",
            self.compaction_written,
        );
        t.counter(
            "firn_compaction_seconds_total",
            "Time spent in compactions.",
            seconds(self.compaction_nanos),
        );
        let dropped = [
            ("shadowed", self.dropped_shadowed),
            ("delete", self.dropped_deletes),
            ("covered", self.dropped_covered),
            ("purged", self.dropped_by_filter),
        ];
        t.each(
            ("firn_dropped_entries_total", "counter"),
            "Entries dropped by flushes and compactions.",
            "why",
            &dropped,
        );
        t.counter(
            "firn_write_slowdown_seconds_total",
            "Time that writers slept because compactions were late.",
            seconds(self.slowdown_nanos),
        );
        t.counter(
            "firn_write_stall_seconds_total",
            "Time that writers waited for a memtable.",
            seconds(self.stalled_nanos),
        );
    }

    fn export_reads(&self, t: &mut PrometheusText) {
        let trees = &self.trees;
        let mut each =
            |name, help, of: fn(&TreeStats) -> u64| t.trees((name, "counter"), help, trees, of);
        each("firn_gets_total", "Gets of a key, estimated.", |t| t.reads.gets);
        each("firn_gets_found_total", "Gets that found a value, estimated.", |t| t.reads.found);
        each("firn_gets_in_memtables_total", "Gets that a memtable answered, estimated.", |t| {
            t.reads.in_memtables
        });
        each("firn_filter_probes_total", "Filter probes (estimated).", |t| t.reads.filter_probes);
        each(
            "firn_filter_negatives_total",
            "Filter probes with a negative result (estimated).",
            |t| t.reads.filter_negatives,
        );
        each(
            "firn_filter_false_positives_total",
            "Filter probes that were positive for an absent key (estimated).",
            |t| t.reads.filter_false_positives,
        );
        each(
            "firn_blocks_cached_total",
            "Blocks that readers found in the cache, estimated.",
            |t| t.reads.blocks_cached,
        );
        each(
            "firn_blocks_mapped_total",
            "Blocks that readers were served from maps, estimated.",
            |t| t.reads.blocks_mapped,
        );
        each("firn_blocks_read_total", "Blocks that were read from files for readers.", |t| {
            t.reads.blocks_read
        });
        each(
            "firn_read_bytes_total",
            "Bytes of blocks that were read from files for readers.",
            |t| t.reads.bytes_read,
        );
        t.counter("firn_cache_inserts_total", "Blocks put into the cache.", self.cache.inserts);
        t.counter(
            "firn_cache_evictions_total",
            "Blocks evicted from the cache.",
            self.cache.evictions,
        );
        t.counter(
            "firn_cache_refusals_total",
            "Blocks not cached because no memory was free in time.",
            self.cache.refusals,
        );
        t.gauge("firn_cache_blocks", "Blocks in the cache.", self.cache.frames);
    }

    fn export_space(&self, t: &mut PrometheusText) {
        let m = &self.memory;
        let parts = [
            ("memtables", m.memtables),
            ("cache", m.cache),
            ("tables", m.tables),
            ("jobs", m.jobs),
        ];
        t.each(("firn_memory_bytes", "gauge"), "Memory in use, by what it is for.", "part", &parts);
        t.gauge("firn_memory_budget_bytes", "Configured memory budget.", m.budget);
        t.gauge(
            "firn_cache_capacity_bytes",
            "Current capacity of the block cache.",
            m.cache_capacity,
        );
        t.gauge("firn_log_bytes", "Bytes of retained log segments.", self.wal_bytes);
        let states = [
            ("live", self.space.live),
            ("pinned", self.space.pinned),
            ("writing", self.space.writing),
        ];
        t.each(("firn_space_bytes", "gauge"), "Bytes of table files.", "state", &states);
        let f = &self.files;
        let open = [("store", f.open), ("shared", f.shared_open)];
        t.each(
            ("firn_open_files", "gauge"),
            "Open files of tables: this store's, and of all that share the bound.",
            "of",
            &open,
        );
        let bound = if f.most == u64::MAX { "+Inf".to_owned() } else { f.most.to_string() };
        t.gauge(
            "firn_open_files_bound",
            "How many of those that share the bound may be open.",
            bound,
        );
        t.counter(
            "firn_files_reopened_total",
            "Files of tables that were opened again, having been closed to stay within the bound.",
            f.reopened,
        );
        t.gauge(
            "firn_writable",
            "Whether the store takes writes: 0 when a failure has made it read-only, and when it was opened so.",
            u64::from(self.refusal.is_none()),
        );
        t.gauge("firn_locked_keys", "Keys that transactions have locked.", self.locked_keys);
        t.gauge(
            "firn_lock_waits",
            "Transactions that wait for the lock of a key.",
            self.lock_waits,
        );
        if let Some(free) = self.disk_free {
            t.gauge("firn_disk_free_bytes", "Free bytes on the store's file system.", free);
        }
        t.gauge("firn_snapshots", "Live snapshots.", self.snapshots.len());
    }

    fn export_trees(&self, t: &mut PrometheusText) {
        let trees = &self.trees;
        let mut each =
            |name, help, of: fn(&TreeStats) -> u64| t.trees((name, "gauge"), help, trees, of);
        each(
            "firn_tree_runs",
            "Sorted runs of tables, each of which a read may have to look into.",
            |t| t.runs.len() as u64,
        );
        each("firn_tree_tables", "Tables.", |t| t.runs.iter().map(|r| r.tables as u64).sum());
        each("firn_tree_bytes", "Bytes of table files.", |t| t.runs.iter().map(|r| r.bytes).sum());
        each("firn_tree_raw_bytes", "Bytes of keys and values in tables, uncompressed.", |t| {
            t.runs.iter().map(|r| r.raw_bytes).sum()
        });
        each("firn_tree_entries", "Entries in tables.", |t| t.runs.iter().map(|r| r.entries).sum());
        each("firn_tree_deletes", "Deletes among them.", |t| {
            t.runs.iter().map(|r| r.deletes).sum()
        });
        each("firn_tree_blob_files", "Blob files.", |t| t.values.files);
        each("firn_tree_blob_bytes", "Bytes of blob files.", |t| t.values.bytes);
        each(
            "firn_tree_blob_live_bytes",
            "Bytes of blob files that tables refer to; the rest is garbage.",
            |t| t.values.live_bytes,
        );
        each("firn_tree_memtable_bytes", "Bytes in memtables.", |t| t.memtable_bytes);
        each("firn_tree_sealed_memtables", "Memtables that wait for their flush.", |t| {
            t.sealed as u64
        });
        each(
            "firn_tree_pending_compaction_bytes",
            "Bytes that the compaction policy still has to rewrite (estimated).",
            |t| t.debt,
        );
    }

    fn export_latencies(&self, t: &mut PrometheusText) {
        const NAME: &str = "firn_latency_seconds";
        let sampled = self.latencies.sampled;
        let help = format!(
            "How long operations took; of gets, seeks and writes one in {sampled} is timed."
        );
        t.family(NAME, "histogram", &help);
        for (operation, l) in self.latencies.named() {
            t.histogram(NAME, ("operation", operation), &l);
        }
    }
}
