//! What the server and its store count, in the text format of Prometheus.

use firn_cql::TableAccess;
use firn_kv::stats::PrometheusText;

use super::Node;
use super::metrics::RequestKind;

/// How statements use tables, and what the samples call it.
const ACCESSES: [(TableAccess, &str); 3] =
    [(TableAccess::Read, "read"), (TableAccess::Scan, "scan"), (TableAccess::Write, "write")];

impl Node {
    /// Appends what is counted here, and behind it what the store counts.
    pub fn tell_metrics(&self, t: &mut PrometheusText) {
        self.tell_requests(t);
        self.tell_tables(t);
        let (received, sent) = self.metrics.bytes();
        t.counter("firn_server_received_bytes_total", "Bytes of requests that came.", received);
        t.counter("firn_server_sent_bytes_total", "Bytes of answers that went.", sent);
        t.gauge(
            "firn_server_in_flight_bytes",
            "Bytes of requests that wait for a worker or run there.",
            self.flight.taken(),
        );
        t.gauge(
            "firn_server_in_flight_bound_bytes",
            "How many there may be before clients are not read from.",
            self.options.max_in_flight,
        );
        t.gauge(
            "firn_server_results_bytes",
            "Bytes that results take which are made or sent, beyond 64 KiB each.",
            self.results.taken(),
        );
        t.gauge(
            "firn_server_receiving_bytes",
            "Bytes of large requests of which a part is here.",
            self.receiving.held(),
        );
        let (workers, busy, waiting, _) = self.workers.counts();
        t.gauge("firn_server_workers", "Threads for requests that may take their time.", workers);
        t.gauge("firn_server_workers_busy", "Those of them that have one.", busy);
        t.gauge("firn_server_requests_waiting", "Requests that wait for such a thread.", waiting);
        let (statements, bytes, evicted) = self.prepared.counts();
        t.gauge(
            "firn_server_prepared_statements",
            "Prepared statements that are kept.",
            statements,
        );
        t.gauge("firn_server_prepared_bytes", "Bytes of their texts and plans.", bytes);
        t.counter(
            "firn_server_prepared_evicted_total",
            "Prepared statements that had to go because there were too many.",
            evicted,
        );
        self.session.engine().wide().db().stats().tell(t);
    }

    fn tell_requests(&self, t: &mut PrometheusText) {
        const NAME: &str = "firn_server_request_seconds";
        t.family(
            NAME,
            "histogram",
            "How long requests took from when they came until they were answered, to within an eighth.",
        );
        for (kind, name) in RequestKind::NAMED {
            t.histogram(NAME, ("kind", name), &self.metrics.latency(kind));
        }
        t.each(
            ("firn_server_errors_total", "counter"),
            "Errors that were answered.",
            "error",
            &self.metrics.errors().collect::<Vec<_>>(),
        );
    }

    fn tell_tables(&self, t: &mut PrometheusText) {
        const NAME: &str = "firn_server_table_seconds";
        t.family(
            NAME,
            "summary",
            "How long statements took that read partitions of a table, scanned or wrote it; since the start.",
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
