//! Tests `firn serve --otlp` with a collector that decodes what arrives.
#![cfg(all(unix, feature = "otel"))]
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a server process, and a collector in a thread")]

use super::common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use common::{Ran, Temp};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // A process that has ended cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts a server; returns its addresses too.
    fn start(t: &Temp, args: &[&str]) -> (Server, Value) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(args)
            .current_dir(&t.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (Server(child), serde_json::from_str(&line).unwrap())
    }

    /// Stops it; returns its messages.
    #[track_caller]
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

/// Path and body of a request.
type Arrived = (String, Vec<u8>);

fn take(mut socket: TcpStream) -> Arrived {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let (mut line, mut len) = (String::new(), 0);
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        if header.trim().is_empty() {
            break;
        }
        if let Some(n) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            len = n.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body).unwrap();
    socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    (path, body)
}

/// Starts a collector; returns its URL and the requests.
fn collector() -> (String, Receiver<Arrived>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (send, arrived) = channel();
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            if send.send(take(socket)).is_err() {
                return;
            }
        }
    });
    (url, arrived)
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |a: &KeyValue| {
        let value = match a.value.as_ref()?.value.as_ref()? {
            any_value::Value::StringValue(text) => text.clone(),
            any_value::Value::IntValue(n) => n.to_string(),
            other => format!("{other:?}"),
        };
        Some((a.key.clone(), value))
    };
    attributes.iter().filter_map(text).collect()
}

/// Runs a server, statements of a client, and returns the decoded spans and metric requests.
fn serve(name: &str, more: &[&str]) -> (Vec<Span>, Vec<ExportMetricsServiceRequest>) {
    let t = Temp::new("otlp", name);
    let script = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; \
         CREATE TABLE k.t (id int PRIMARY KEY, v text);";
    t.firn(&["cql", "-e", script]).good();
    let (url, arrived) = collector();
    let args = ["--db", "db", "serve", "--listen", "127.0.0.1:0", "--json", "--otlp", &url];
    let (server, at) = Server::start(&t, &[&args[..], more].concat());
    let address = format!("127.0.0.1:{}", at["port"]);
    // The server flushes memtables of this size when it stops.
    let long = "x".repeat(400_000);
    let script = "CONSISTENCY QUORUM; \
         INSERT INTO k.t (id, v) VALUES (1, 'secret'); INSERT INTO k.t (id, v) VALUES (2, 'b'); \
         SELECT id FROM k.t; SELECT id / 0 FROM k.t;";
    let mut script = script.to_owned();
    for id in 10..60 {
        script.push_str(&format!("INSERT INTO k.t (id, v) VALUES ({id}, '{long}');"));
    }
    Ran::of(t.firn_with(&["cql", "--connect", &address], script.as_bytes()));
    server.stop();
    let (mut spans, mut metrics) = (vec![], vec![]);
    while let Ok((path, body)) = arrived.try_recv() {
        match &*path {
            "/v1/traces" => {
                let request = ExportTraceServiceRequest::decode(&*body).unwrap();
                for of in request.resource_spans {
                    let resource = texts(&of.resource.unwrap().attributes);
                    assert_eq!(resource["service.name"], "firn");
                    spans.extend(of.scope_spans.into_iter().flat_map(|scope| scope.spans));
                }
            }
            "/v1/metrics" => metrics.push(ExportMetricsServiceRequest::decode(&*body).unwrap()),
            path => panic!("a request for {path}"),
        }
    }
    (spans, metrics)
}

#[test]
fn statements_and_metrics_reach_a_collector() {
    let (spans, metrics) = serve("all", &[]);
    let statements: Vec<_> = spans.iter().filter(|s| s.name == "statement").collect();
    let of_table: Vec<_> = statements
        .iter()
        .map(|s| texts(&s.attributes))
        .filter(|a| a.get("db.collection.name").is_some_and(|t| t == "k.t"))
        .collect();
    assert!(
        of_table.iter().filter(|a| a["firn.consistency"] == "QUORUM").count() >= 4,
        "{of_table:?}"
    );
    assert!(of_table.iter().any(|a| a["db.response.returned_rows"] == "2"), "{of_table:?}");
    assert!(of_table.iter().any(|a| a.contains_key("error.type")), "{of_table:?}");
    let flush = spans.iter().find(|s| s.name == "flush").unwrap();
    assert!(texts(&flush.attributes)["tree"].starts_with("cf-"), "{flush:?}");
    assert!(
        flush.events.iter().any(|e| texts(&e.attributes).contains_key("bytes_out")),
        "{flush:?}"
    );
    // Texts with values of the user are not sent.
    assert!(!format!("{spans:?}").contains("secret"));
    assert!(statements.iter().all(|s| s.end_time_unix_nano >= s.start_time_unix_nano));
    let last = &metrics.last().unwrap().resource_metrics[0].scope_metrics[0].metrics;
    let named = |name: &str| last.iter().find(|m| m.name == name).unwrap();
    let Some(Data::Sum(sum)) = &named("firn_operations_written_total").data else { panic!() };
    assert!(sum.is_monotonic && !sum.data_points.is_empty());
    let Some(Data::Histogram(requests)) = &named("firn_server_request_seconds").data else {
        panic!()
    };
    assert!(requests.data_points.iter().any(|p| p.count > 0));
    let Some(Data::Summary(tables)) = &named("firn_server_table_seconds").data else { panic!() };
    let labels = texts(&tables.data_points[0].attributes);
    assert_eq!((&*labels["keyspace"], &*labels["table"]), ("k", "t"));
    assert!(last.len() > 50, "{} metrics", last.len());
}

#[test]
fn statements_can_be_left_out() {
    let (spans, metrics) = serve("none", &["--otlp-statements", "0"]);
    assert!(spans.iter().all(|s| s.name != "statement"), "{spans:?}");
    assert!(spans.iter().any(|s| s.name == "flush"), "{spans:?}");
    assert!(!metrics.is_empty());
}

#[test]
fn a_wrong_url_is_refused_and_a_missing_collector_delays_nothing() {
    let t = Temp::new("otlp", "wrong");
    let wrong = ["serve", "--ephemeral", "--otlp", "https://a"];
    Ran::of(t.firn_with(&wrong, b"")).said(2, &["http://", "127.0.0.1:4318"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (server, _) = Server::start(&t, &["serve", "--ephemeral", "--otlp", &url]);
    let said = server.stop();
    assert!(said.contains("metrics were not sent"), "{said}");
}
