//! Metrics of the server and its store in the text format of Prometheus.

use firn_cql::TableAccess;
use firn_kv::stats::PrometheusText;

use super::Node;
use super::metrics::RequestKind;

/// Accesses of statements to tables, with their label values.
const ACCESSES: [(TableAccess, &str); 3] =
    [(TableAccess::Read, "read"), (TableAccess::Scan, "scan"), (TableAccess::Write, "write")];

impl Node {
    /// Appends the metrics of the server, then those of the store.
    pub fn tell_metrics(&self, t: &mut PrometheusText) {
        self.tell_requests(t);
        self.tell_tables(t);
        let (received, sent) = self.metrics.bytes();
        t.counter("firn_server_received_bytes_total", "Bytes of received requests.", received);
        t.counter("firn_server_sent_bytes_total", "Bytes of sent responses.", sent);
        t.gauge(
            "firn_server_in_flight_bytes",
            "Bytes of requests that wait for a worker or run there.",
            self.flight.taken(),
        );
        t.gauge(
            "firn_server_in_flight_bound_bytes",
            "Bound of these bytes; above it the server does not read from clients.",
            self.options.max_in_flight,
        );
        t.gauge(
            "firn_server_results_bytes",
            "Bytes of results being built or sent, beyond 64 KiB each.",
            self.results.taken(),
        );
        t.gauge(
            "firn_server_receiving_bytes",
            "Bytes of large requests that have partly arrived.",
            self.receiving.held(),
        );
        let (workers, busy, waiting, _) = self.workers.counts();
        t.gauge("firn_server_workers", "Threads for slow requests.", workers);
        t.gauge("firn_server_workers_busy", "Threads that run a slow request.", busy);
        t.gauge("firn_server_requests_waiting", "Slow requests that wait for a thread.", waiting);
        let (statements, bytes, evicted) = self.prepared.counts();
        t.gauge("firn_server_prepared_statements", "Prepared statements in the cache.", statements);
        t.gauge("firn_server_prepared_bytes", "Bytes of their texts and plans.", bytes);
        t.counter(
            "firn_server_prepared_evicted_total",
            "Prepared statements evicted because of the memory limit.",
            evicted,
        );
        self.session.engine().wide().db().stats().tell(t);
    }

    fn tell_requests(&self, t: &mut PrometheusText) {
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

    fn tell_tables(&self, t: &mut PrometheusText) {
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
