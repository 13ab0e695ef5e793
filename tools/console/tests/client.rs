//! A store with a console, and a client of its HTTP port.
#![allow(clippy::disallowed_methods, reason = "temporary directories")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firn_console::{Console, ConsoleOptions, ConsoleStore, HttpLogin};
use firn_cql::Session;
use serde_json::Value;

/// A directory that is removed at the end of the test.
pub struct TestDir(pub PathBuf);

impl TestDir {
    pub fn new(name: &str) -> TestDir {
        let dir = std::env::temp_dir().join(format!("firn-console-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&dir).ok();
        TestDir(dir)
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Options of a console at a free port.
pub fn options(login: HttpLogin, may_write: bool) -> ConsoleOptions {
    ConsoleOptions { login, may_write, ..ConsoleOptions::at(SocketAddr::from(([127, 0, 0, 1], 0))) }
}

/// Starts a console.
pub fn start(store: ConsoleStore, login: HttpLogin, may_write: bool) -> Console {
    Console::start(Arc::new(store), options(login, may_write)).unwrap()
}

/// Creates a keyspace with a table of some rows.
pub fn fill(session: &Session) {
    for text in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.items (id int PRIMARY KEY, name text, tags set<text>)",
    ] {
        session.execute(text, ()).unwrap();
    }
    let insert = session.prepare("INSERT INTO shop.items (id, name) VALUES (?, ?)").unwrap();
    for id in 0..500 {
        session.run(&insert, (id, format!("item {id}")), &Default::default()).unwrap();
    }
}

/// A response.
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// Returns the JSON of a successful response.
    #[track_caller]
    pub fn good(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()
    }

    /// Asserts that the request was refused with these words.
    #[track_caller]
    pub fn said(&self, status: u16, words: &str) {
        assert_eq!(self.status, status, "{}", self.body);
        assert!(self.body.contains(words), "{words:?} is not in {}", self.body);
    }
}

/// Connects, and sends a request.
pub fn send(at: SocketAddr, request: &str) -> TcpStream {
    let mut socket = TcpStream::connect(at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    socket
}

/// Sends a request, and reads the whole response.
pub fn request(at: SocketAddr, line: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut text = format!("{line} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text.push_str(&format!("Host: {at}\r\n"));
    }
    headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    let mut answer = String::new();
    send(at, &text).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

/// Gets a path.
pub fn get(at: SocketAddr, path: &str) -> Reply {
    request(at, &format!("GET {path}"), &[], "")
}

/// Returns the token of the page.
pub fn token(page: &str) -> String {
    let rest = page.split_once("name=\"firn-token\" content=\"").unwrap().1;
    rest.split_once('"').unwrap().0.to_owned()
}

/// Posts JSON with the token of the page.
pub fn post(at: SocketAddr, path: &str, body: &Value) -> Reply {
    let token = token(&get(at, "/").body);
    request(at, &format!("POST {path}"), &[("X-Firn-Token", &token)], &body.to_string())
}
