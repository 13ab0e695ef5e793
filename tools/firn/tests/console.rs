//! Tests `firn console` and `firn serve --console`: addresses, passwords, writes, and what is
//! refused. The pages are tested in `tools/console`.
#![cfg(unix)] // it is ended as by Ctrl-C
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "processes that are talked to")]

use super::common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use common::{Ran, Temp};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A running command.
pub struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        // A process that has ended cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Serving {
    /// Starts a command that prints a line of JSON.
    pub fn start(t: &Temp, args: &[&str]) -> (Serving, Value) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(args)
            .current_dir(&t.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (Serving(child), serde_json::from_str(&line).unwrap())
    }

    /// Ends it without notice.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Ends it as by Ctrl-C.
    #[track_caller]
    pub fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

fn http(at: &str, request: &str) -> String {
    let at = at.trim_start_matches("http://").trim_end_matches('/');
    let mut socket = TcpStream::connect(at).unwrap();
    let text = request.replace("HOST", at).replace('\n', "\r\n");
    socket.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// Posts a statement with the token of the page; returns the response.
fn cql(at: &str, statement: &str) -> String {
    let page = http(at, "GET / HTTP/1.1\nHost: HOST\n\n");
    let token = page.split_once("firn-token\" content=\"").unwrap().1.split('"').next().unwrap();
    let body = serde_json::json!({"statement": statement}).to_string();
    let head = format!("Host: HOST\nX-Firn-Token: {token}\nContent-Length: {}", body.len());
    http(at, &format!("POST /api/cql HTTP/1.1\n{head}\n\n{body}"))
}

#[test]
fn a_console_reads_or_writes_a_store() {
    let t = Temp::new("console", "store");
    let script = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; \
         CREATE TABLE k.t (id int PRIMARY KEY);";
    t.firn(&["cql", "-e", script]).good();
    let insert = "INSERT INTO k.t (id) VALUES (7)";
    for (args, answer) in [(&[][..], "read-only"), (&["--write"][..], "done")] {
        let args = [&["console", "db", "--listen", "127.0.0.1:0", "--json"], args].concat();
        let (console, line) = Serving::start(&t, &args);
        let at = line["console"].as_str().unwrap();
        assert!(cql(at, insert).contains(answer), "{args:?}");
        console.stop();
    }
    let rows = t.firn(&["cql", "-e", "SELECT id FROM k.t"]).good();
    assert!(rows.contains(" 7"), "{rows}");
}

#[test]
fn a_server_has_a_console() {
    let t = Temp::new("console", "serve");
    std::fs::write(t.path("password"), "secret\n").unwrap();
    let common = ["serve", "--ephemeral", "--console", "0"];
    let (server, line) = Serving::start(&t, &common);
    let at = format!("127.0.0.1:{}", line["console"]);
    assert!(http(&at, "GET /api/store HTTP/1.1\nHost: HOST\n\n").contains("\"cql\":true"));
    assert!(cql(&at, "CREATE ROLE r").contains("read-only"));
    server.stop();
    let more = ["--console-password", "password", "--console-write"];
    let (server, line) = Serving::start(&t, &[&common[..], &more].concat());
    let at = format!("127.0.0.1:{}", line["console"]);
    assert!(http(&at, "GET / HTTP/1.1\nHost: HOST\n\n").starts_with("HTTP/1.1 401"));
    let login = "GET / HTTP/1.1\nHost: HOST\nAuthorization: Basic YTpzZWNyZXQ=\n\n";
    assert!(http(&at, login).starts_with("HTTP/1.1 200"));
    server.stop();
}

#[test]
fn an_unsafe_or_impossible_console_is_refused() {
    let t = Temp::new("console", "refused");
    let refused = |args: &[&str], parts: &[&str]| {
        Ran::of(t.firn_with(args, b"")).said(2, parts);
    };
    refused(&["console", "nothing"], &["nothing is no store", "firn console DIR"]);
    assert!(!t.path("nothing").exists());
    t.firn(&["put", "a", "b"]).good();
    let far = ["console", "db", "--listen", "0.0.0.0:0"];
    refused(&far, &["requires no login", "--console-password"]);
    std::fs::write(t.path("empty"), "\n").unwrap();
    let empty = ["console", "db", "--console-password", "empty"];
    refused(&empty, &["empty has no password", "first line"]);
    let far = ["serve", "--ephemeral", "--console", "0.0.0.0:0"];
    refused(&far, &["requires no login", "--console-password"]);
    refused(&["serve", "--console-write"], &["--console"]);
}
