//! Metrics of the server and its store in the text format of Prometheus.

use firn_cql::TableAccess;
use firn_kv::stats::PrometheusText;

use super::Node;
use super::metrics::RequestKind;

/// Accesses of statements to tables, with their label values.
const ACCESSES: [(TableAccess, &str); 3] =
    [(TableAccess::Read, "read"), (TableAccess::Scan, "scan"), (TableAccess::Write, "write")];

/// Name, help and value of a metric.
type NodeMetric = (&'static str, &'static str, fn(&Node) -> u64);

/// Metrics of the server without labels. Names of counters end in `_total`.
#[rustfmt::skip]
const METRICS: [NodeMetric; 12] = [
    ("firn_server_received_bytes_total", "Bytes of received requests.", |n| n.metrics.bytes().0),
    ("firn_server_sent_bytes_total", "Bytes of sent responses.", |n| n.metrics.bytes().1),
    ("firn_server_in_flight_bytes", "Bytes of requests that wait for a worker or run there.",
     |n| n.flight.taken() as u64),
    ("firn_server_in_flight_bound_bytes",
     "Bound of these bytes; above it the server does not read from clients.",
     |n| n.options.max_in_flight as u64),
    ("firn_server_results_bytes", "Bytes of results being built or sent, beyond 64 KiB each.",
     |n| n.results.used_bytes() as u64),
    ("firn_server_receiving_bytes", "Bytes of large requests that have partly arrived.",
     |n| n.receiving.held() as u64),
    ("firn_server_workers", "Threads for slow requests.", |n| n.workers.counts().0 as u64),
    ("firn_server_workers_busy", "Threads that run a slow request.",
     |n| n.workers.counts().1 as u64),
    ("firn_server_requests_waiting", "Slow requests that wait for a thread.",
     |n| n.workers.counts().2 as u64),
    ("firn_server_prepared_statements", "Prepared statements in the cache.",
     |n| n.prepared.counts().0 as u64),
    ("firn_server_prepared_bytes", "Bytes of their texts and plans.",
     |n| n.prepared.counts().1 as u64),
    ("firn_server_prepared_evicted_total",
     "Prepared statements evicted because of the memory limit.", |n| n.prepared.counts().2),
];

impl Node {
    /// Appends the metrics of the server, then those of the store.
    pub fn export_metrics(&self, t: &mut PrometheusText) {
        self.export_requests(t);
        self.export_tables(t);
        for (name, help, value) in METRICS {
            match name.ends_with("_total") {
                true => t.counter(name, help, value(self)),
                false => t.gauge(name, help, value(self)),
            }
        }
        self.session.engine().wide().db().stats().export(t);
    }

    fn export_requests(&self, t: &mut PrometheusText) {
        const NAME: &str = "firn_server_request_seconds";
        t.family(
            NAME,
            "histogram",
            "Latency of requests from arrival to response, to within an eighth.",
        );
        for (kind, name) in RequestKind::NAMED {
            t.histogram(NAME, ("kind", name), &self.metrics.latency(kind));
        }
        t.each(
            ("firn_server_errors_total", "counter"),
            "Errors sent to clients.",
            "error",
            &self.metrics.errors().collect::<Vec<_>>(),
        );
    }

    fn export_tables(&self, t: &mut PrometheusText) {
        const NAME: &str = "firn_server_table_seconds";
        t.family(
            NAME,
            "summary",
            "Latency of statements that read partitions of a table, scanned or wrote it; since the start.",
        );
        for meter in self.metrics.tables() {
            for (access, name) in ACCESSES {
                let latency = meter.latency(access);
                if latency.timed > 0 {
                    let labels =
                        [("keyspace", &*meter.keyspace), ("table", &meter.table), ("access", name)];
                    t.summary(NAME, &labels, &latency);
                }
            }
        }
    }
}
