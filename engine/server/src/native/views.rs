//! Contents of the system tables about a server: clients, prepared statements, traces, threads,
//! running tasks, latencies, options.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use firn_cql::internals::catalog::TableSchema;
use firn_cql::internals::exec::{SystemRows, SystemSource};
use firn_cql::{BatchKind, TableAccess, Value};
use firn_kv::stats::Latency;

use super::client::{Client, Clients};
use crate::node::{Node, RequestKind};

/// Source of the system tables about a server. It holds only weak references.
pub struct ServerViews {
    /// State shared by all connections.
    pub node: Weak<Node>,
    /// The connections.
    pub clients: Weak<Clients>,
}

impl SystemSource for ServerViews {
    fn fill(&self, rows: &mut SystemRows<'_>) {
        let (Some(node), Some(clients)) = (self.node.upgrade(), self.clients.upgrade()) else {
            return;
        };
        if rows.is("system_views", "clients") {
            clients.all().iter().for_each(|c| client(c, rows));
        } else if rows.is("system", "prepared_statements") {
            prepared(&node, rows);
        } else if rows.is("system", "compaction_history") {
            compactions(&node, rows);
        } else if rows.is("system_traces", "sessions") {
            sessions(&node, rows);
        } else if rows.is("system_traces", "events") {
            events(&node, rows);
        } else if rows.is("system_views", "thread_pools") {
            threads(&node, rows);
        } else if rows.is("system_views", "settings") {
            settings(&node, rows);
        } else if rows.is("system_views", "cql_metrics") {
            statements(&node, rows);
        } else if rows.is("system_views", "batch_metrics") {
            batches(&node, rows);
        } else if rows.is("system_views", "queries") {
            running(&node, rows);
        } else if let Some((_, access)) =
            LATENCIES.iter().find(|(table, _)| rows.is("system_views", table))
        {
            latencies(&node, *access, rows);
        }
    }
}

fn client(client: &Client, rows: &mut SystemRows<'_>) {
    let about = client.about.lock().clone();
    let option = |name: &str| about.get(name).cloned();
    let version = client.negotiated.get().map(|d| d.version as i32);
    let stage = if version.is_some() { "ready" } else { "established" };
    let encryption = client.encryption();
    // Show a name only after a successful login.
    rows.add(&[
        ("address", &client.peer.ip()),
        ("port", &i32::from(client.peer.port())),
        ("client_options", &about),
        ("connection_stage", &stage),
        ("driver_name", &option("DRIVER_NAME")),
        ("driver_version", &option("DRIVER_VERSION")),
        ("hostname", &client.peer.ip().to_string()),
        ("keyspace_name", &client.session.keyspace().map(|k| k.to_string())),
        ("protocol_version", &version),
        ("request_count", &(client.requests.load(Ordering::Relaxed) as i64)),
        ("ssl_cipher_suite", &encryption.as_ref().map(|(_, ciphers)| ciphers.clone())),
        ("ssl_enabled", &encryption.is_some()),
        ("ssl_protocol", &encryption.map(|(version, _)| version)),
        ("username", &client.session.role().unwrap_or("anonymous")),
    ]);
}

fn prepared(node: &Node, rows: &mut SystemRows<'_>) {
    for known in node.prepared.all() {
        let keyspace = known.prepared.keyspace().map(|k| k.to_string());
        rows.add(&[
            ("prepared_id", &known.prepared.id().to_vec()),
            ("logged_keyspace", &keyspace),
            ("query_string", &known.prepared.shown_text()),
        ]);
    }
}

/// Lists the compactions of existing tables. The number of merged versions of a row is unknown.
fn compactions(node: &Node, rows: &mut SystemRows<'_>) {
    let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let properties = BTreeMap::from([("compaction_type", "COMPACTION")]);
    let properties: BTreeMap<String, String> =
        properties.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let mut owners = BTreeMap::new();
    for past in node.compactions.iter().flat_map(|history| history.all()) {
        let owner = owners
            .entry(past.tree.clone())
            .or_insert_with(|| node.session.engine().owner_of(&past.tree));
        let Some((keyspace, table)) = owner else { continue };
        rows.add(&[
            ("id", &past.id),
            ("bytes_in", &whole(past.bytes_in)),
            ("bytes_out", &whole(past.bytes_out)),
            ("columnfamily_name", table),
            ("compacted_at", &Value::Timestamp(past.ended_millis)),
            ("compaction_properties", &properties),
            ("keyspace_name", keyspace),
        ]);
    }
}

fn sessions(node: &Node, rows: &mut SystemRows<'_>) {
    for traced in node.traces.all() {
        let parameters: BTreeMap<String, String> = traced.parameters.iter().cloned().collect();
        let took = i32::try_from(traced.took).unwrap_or(i32::MAX);
        rows.add(&[
            ("session_id", &traced.session),
            ("client", &traced.client.ip()),
            ("command", &"QUERY"),
            ("coordinator", &traced.coordinator.ip()),
            ("coordinator_port", &7000),
            ("duration", &took),
            ("parameters", &parameters),
            ("request", &traced.request),
            ("started_at", &Value::Timestamp(traced.started_millis)),
        ]);
    }
}

fn events(node: &Node, rows: &mut SystemRows<'_>) {
    for traced in node.traces.all() {
        for (number, (elapsed, activity, thread)) in traced.events.iter().enumerate() {
            rows.add(&[
                ("session_id", &traced.session),
                ("event_id", &traced.event_id(number, *elapsed)),
                ("activity", activity),
                ("source", &traced.coordinator.ip()),
                ("source_elapsed", &i32::try_from(*elapsed).unwrap_or(i32::MAX)),
                ("source_port", &7000),
                ("thread", thread),
            ]);
        }
    }
}

fn threads(node: &Node, rows: &mut SystemRows<'_>) {
    let (count, running, waiting, done) = node.workers.counts();
    let small = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    rows.add(&[
        ("name", &"Native-Transport-Requests"),
        ("active_tasks", &small(running)),
        ("active_tasks_limit", &small(count)),
        ("blocked_tasks", &0_i64),
        ("blocked_tasks_all_time", &0_i64),
        ("completed_tasks", &(done as i64)),
        ("pending_tasks", &small(waiting)),
    ]);
}

/// Tables of latencies. There is one node: coordinator and local latencies are the same.
const LATENCIES: [(&str, TableAccess); 6] = [
    ("coordinator_read_latency", TableAccess::Read),
    ("coordinator_scan_latency", TableAccess::Scan),
    ("coordinator_write_latency", TableAccess::Write),
    ("local_read_latency", TableAccess::Read),
    ("local_scan_latency", TableAccess::Scan),
    ("local_write_latency", TableAccess::Write),
];

/// Lists every table, even those without reads or writes.
fn latencies(node: &Node, access: TableAccess, rows: &mut SystemRows<'_>) {
    let catalog = node.session.engine().catalog();
    let none = |t: &Arc<TableSchema>| ((t.keyspace.clone(), t.name.clone()), Latency::default());
    let mut all: BTreeMap<(String, String), Latency> = catalog.tables().map(none).collect();
    for meter in node.metrics.tables() {
        let name = (meter.keyspace.clone(), meter.table.clone());
        all.insert(name, meter.latency(access));
    }
    let seconds = node.nanos_since(node.started).max(1) as f64 / 1e9;
    let millis = |nanos: u64| nanos as f64 / 1e6;
    for ((keyspace, table), latency) in &all {
        rows.add(&[
            ("keyspace_name", keyspace),
            ("table_name", table),
            ("count", &i64::try_from(latency.timed).unwrap_or(i64::MAX)),
            ("max_ms", &millis(latency.max)),
            ("p50th_ms", &millis(latency.p50)),
            ("p99th_ms", &millis(latency.p99)),
            ("per_second", &(latency.timed as f64 / seconds)),
        ]);
    }
}

fn statements(node: &Node, rows: &mut SystemRows<'_>) {
    let (count, _, evicted) = node.prepared.counts();
    let of = |kind| node.metrics.latency(kind).timed as f64;
    let (prepared, plain) = (of(RequestKind::Execute), of(RequestKind::Query));
    let all = [
        ("prepared_statements_count", count as f64),
        ("prepared_statements_evicted", evicted as f64),
        ("prepared_statements_executed", prepared),
        ("prepared_statements_ratio", prepared / (prepared + plain).max(1.0)),
        ("regular_statements_executed", plain),
    ];
    all.iter().for_each(|(name, value)| rows.add(&[("name", name), ("value", value)]));
}

fn batches(node: &Node, rows: &mut SystemRows<'_>) {
    for (name, kind) in [
        ("partitions_per_logged_batch", BatchKind::Logged),
        ("partitions_per_unlogged_batch", BatchKind::Unlogged),
        ("partitions_per_counter_batch", BatchKind::Counter),
    ] {
        let quantiles = node.metrics.batches(kind);
        rows.add(&[
            ("name", &name),
            ("max", &i64::try_from(quantiles.max).unwrap_or(i64::MAX)),
            ("p50th", &(quantiles.p50 as f64)),
            ("p999th", &(quantiles.p999 as f64)),
            ("p99th", &(quantiles.p99 as f64)),
        ]);
    }
}

fn running(node: &Node, rows: &mut SystemRows<'_>) {
    let micros = |nanos: u64| i64::try_from(nanos / 1000).unwrap_or(i64::MAX);
    for request in node.running.all() {
        let queued = request.began.saturating_sub(request.arrived);
        rows.add(&[
            ("thread_id", &request.thread),
            ("queued_micros", &micros(queued)),
            ("running_micros", &micros(node.nanos_since(request.began))),
            ("task", &request.text),
        ]);
    }
}

fn settings(node: &Node, rows: &mut SystemRows<'_>) {
    let options = &node.options;
    let idle = options.idle_timeout.map_or("never".to_owned(), |t| format!("{}ms", t.as_millis()));
    let kibibytes = |n: usize| match n {
        usize::MAX => "none".to_owned(),
        n => format!("{}KiB", n >> 10),
    };
    let all = [
        ("batch_size_fail_threshold", kibibytes(options.batches.fail_bytes)),
        ("batch_size_warn_threshold", kibibytes(options.batches.warn_bytes)),
        ("native_transport_idle_timeout", idle),
        ("native_transport_max_concurrent_connections", options.max_connections.to_string()),
        ("native_transport_max_frame_size", options.max_frame.to_string()),
        ("native_transport_max_request_data_in_flight", options.max_in_flight.to_string()),
        ("native_transport_port", options.address.port().to_string()),
        ("prepared_statements_cache_size", options.max_prepared.to_string()),
        ("rpc_address", options.address.ip().to_string()),
        (
            "unlogged_batch_across_partitions_warn_threshold",
            options.batches.warn_partitions.to_string(),
        ),
    ];
    all.iter().for_each(|(name, value)| rows.add(&[("name", name), ("value", value)]));
}
