//! A change server on a store, and a consumer of it.
#![allow(clippy::disallowed_methods, reason = "a client of a port")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use firn_changes::{ChangeClient, ChangeLines, ChangeServer, ChangeServerOptions};
use firn_cql::Session;
use firn_server::http::HttpLogin;
use serde_json::Value;

/// Executes statements.
#[track_caller]
pub fn cql(session: &Session, statements: &[&str]) {
    for text in statements {
        session.execute(text, ()).unwrap_or_else(|e| panic!("{text}: {}", e.text()));
    }
}

/// Returns a store in memory with a keyspace `k` and a table `k.t`.
pub fn store() -> Session {
    let session = Session::in_memory().unwrap();
    cql(
        &session,
        &[
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.t (id int PRIMARY KEY, v int)",
        ],
    );
    session
}

/// Starts a server at a free port.
pub fn serve(session: &Session, login: HttpLogin, origins: &[&str]) -> ChangeServer {
    let options = ChangeServerOptions {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        login,
        origins: origins.iter().map(|&o| o.to_owned()).collect(),
    };
    ChangeServer::start(session, options).unwrap()
}

/// A consumer of a server without logins.
pub struct Consumer {
    pub client: ChangeClient,
    pub lines: ChangeLines,
}

impl Consumer {
    /// Connects. A connection that has just been closed may take a moment to be noticed.
    #[track_caller]
    pub fn new(server: &ChangeServer, name: &str, parameters: &[(&str, &str)]) -> Consumer {
        let client = ChangeClient::new(&server.address().to_string(), None);
        let parameters: Vec<_> = parameters.iter().map(|&(n, v)| (n, v.to_owned())).collect();
        for _ in 0..500 {
            match client.stream(name, &parameters) {
                Ok(lines) => return Consumer { client, lines },
                Err(firn_changes::ClientFailure::Refused(409, _)) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(e) => panic!("{e:?}"),
            }
        }
        panic!("{name} has another consumer");
    }

    /// Returns the next event that is no heartbeat.
    #[track_caller]
    pub fn next(&mut self) -> Value {
        loop {
            let line = self.lines.next_line().unwrap().expect("the stream has ended");
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["op"] != "heartbeat" {
                return event;
            }
        }
    }

    /// Returns the operations and the ids of the next events of rows.
    #[track_caller]
    pub fn take(&mut self, count: usize) -> Vec<(String, i64)> {
        let one = |event: Value| {
            let op = event["op"].as_str().unwrap_or_default().to_owned();
            (op, event["key"]["id"].as_i64().unwrap_or(-1))
        };
        (0..count).map(|_| one(self.next())).collect()
    }
}

/// Sends a request of raw text, and returns the status and the response.
pub fn request(at: SocketAddr, head: &str, body: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let host = if head.contains("Host:") { String::new() } else { format!("Host: {at}\r\n") };
    let (line, headers) = head.split_once('\n').unwrap_or((head, ""));
    let headers: String = headers.lines().map(|line| format!("{line}\r\n")).collect();
    let len = body.len();
    let text = format!("{line} HTTP/1.1\r\n{host}{headers}Content-Length: {len}\r\n\r\n{body}");
    socket.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}
