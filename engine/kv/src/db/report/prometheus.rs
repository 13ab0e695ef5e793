//! Formats statistics for Prometheus, in its text format, version 0.0.4.
//!
//! Invariants: every family has one `HELP` and one `TYPE` line, directly before all of its samples.
//! Counters end in `_total`. Times are in seconds and sizes in bytes. Buckets of histograms are
//! cumulative. This needs no crate, so there is no cargo feature for it.

use std::fmt::{Display, Write};

use crate::db::observe::meters::Latency;
use crate::db::report::metrics::{
    MetricValue, READ_METRICS, RESOURCE_METRICS, StoreMetric, TREE_METRICS, WRITE_METRICS,
};
use crate::db::report::stats::Stats;

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

    /// Adds the metrics of a table: of a store, or of each tree with its name.
    fn metrics<T>(&mut self, table: &[StoreMetric<T>], items: &[(Option<&str>, &T)]) {
        for StoreMetric { name, help, label, samples } in table {
            let all = items.iter().flat_map(|(tree, of)| {
                samples.iter().map(move |(text, _, value)| (*tree, *text, value(of)))
            });
            let all: Vec<_> = all.collect();
            if all.iter().any(|(.., value)| *value == MetricValue::Unknown) {
                continue;
            }
            self.family(name, if name.ends_with("_total") { "counter" } else { "gauge" }, help);
            for (tree, text, value) in all {
                let own = Some((*label, text)).filter(|_| !label.is_empty());
                let labels: Vec<_> =
                    tree.map(|tree| ("tree", tree)).into_iter().chain(own).collect();
                self.sample(name, &labels, value);
            }
        }
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
        self.export(&mut t);
        t.into_string()
    }

    /// Appends all statistics to a text.
    #[doc(hidden)]
    pub fn export(&self, t: &mut PrometheusText) {
        let trees: Vec<_> = self.trees.iter().map(|tree| (Some(&*tree.name), tree)).collect();
        let reads: Vec<_> = trees.iter().map(|(name, tree)| (*name, &tree.reads)).collect();
        t.metrics(WRITE_METRICS, &[(None, self)]);
        t.metrics(READ_METRICS, &reads);
        t.metrics(RESOURCE_METRICS, &[(None, self)]);
        t.metrics(TREE_METRICS, &trees);
        self.export_latencies(t);
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
