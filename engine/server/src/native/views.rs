//! What system tables show of a server: its clients, prepared statements, traces, threads, options.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::atomic::Ordering;

use firn_cql::Value;
use firn_cql::internals::exec::{SystemRows, SystemSource};

use super::client::{Client, Clients};
use crate::node::Node;

/// What system tables show of a server. It does not keep the server alive.
pub struct ServerViews {
    /// What all connections share.
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
        } else if rows.is("system_traces", "sessions") {
            sessions(&node, rows);
        } else if rows.is("system_traces", "events") {
            events(&node, rows);
        } else if rows.is("system_views", "thread_pools") {
            threads(&node, rows);
        } else if rows.is("system_views", "settings") {
            settings(&node, rows);
        }
    }
}

fn client(client: &Client, rows: &mut SystemRows<'_>) {
    let about = client.about.lock().clone();
    let said = |name: &str| about.get(name).cloned();
    let version = client.dialect.get().map(|d| d.version as i32);
    let stage = if version.is_some() { "ready" } else { "established" };
    let encryption = client.encryption();
    // A name that a client has not proved is none of its.
    rows.add(&[
        ("address", &client.peer.ip()),
        ("port", &i32::from(client.peer.port())),
        ("client_options", &about),
        ("connection_stage", &stage),
        ("driver_name", &said("DRIVER_NAME")),
        ("driver_version", &said("DRIVER_VERSION")),
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
            ("query_string", &known.prepared.text()),
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

fn settings(node: &Node, rows: &mut SystemRows<'_>) {
    let options = &node.options;
    let idle = options.idle_timeout.map_or("never".to_owned(), |t| format!("{}ms", t.as_millis()));
    let all = [
        ("native_transport_idle_timeout", idle),
        ("native_transport_max_concurrent_connections", options.max_connections.to_string()),
        ("native_transport_max_frame_size", options.max_frame.to_string()),
        ("native_transport_max_request_data_in_flight", options.max_in_flight.to_string()),
        ("native_transport_port", options.address.port().to_string()),
        ("prepared_statements_cache_size", options.max_prepared.to_string()),
        ("rpc_address", options.address.ip().to_string()),
    ];
    all.iter().for_each(|(name, value)| rows.add(&[("name", name), ("value", value)]));
}
