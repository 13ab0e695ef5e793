//! Connections to a server: arbitrary requests before or after STARTUP. The server responds or
//! closes the connection, and another client is served as before.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use arbitrary::Arbitrary;
use firn_server::{Options, Server};
use libfuzzer_sys::fuzz_target;

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let server = Server::start(Options::ephemeral()).expect("a server in memory starts");
    let session = server.session();
    for cql in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (a int, b text, c list<int>, PRIMARY KEY (a, b))",
        "INSERT INTO k.t (a, b, c) VALUES (1, 'x', [1, 2])",
    ] {
        session.execute(cql, ()).expect("the table is made");
    }
    server
});

const TEXTS: [&str; 8] = [
    "SELECT * FROM k.t",
    "SELECT * FROM k.t WHERE a = ? AND b = ?",
    "INSERT INTO k.t (a, b, c) VALUES (?, ?, ?)",
    "UPDATE k.t SET c = c + ? WHERE a = ? AND b = ? IF EXISTS",
    "USE k",
    "SELECT * FROM system.local",
    "CREATE TABLE k.t (a int PRIMARY KEY)",
    "SELECT cast(? AS text) FROM k.t",
];

#[derive(Arbitrary, Debug)]
enum Part {
    /// A request with any opcode and body.
    Any {
        opcode: u8,
        flags: u8,
        body: Vec<u8>,
    },
    /// A statement with arbitrary parameters.
    Query {
        text: u8,
        parameters: Vec<u8>,
    },
    Prepare {
        text: u8,
    },
    /// Bytes without a frame.
    Raw(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
struct Talk {
    version: u8,
    begins: bool,
    parts: Vec<Part>,
}

fn frame(version: u8, flags: u8, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![version, flags, 0, 1, opcode];
    out.extend((body.len() as u32).to_be_bytes());
    out.extend(body);
    out
}

const STARTUP: &[u8] = b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0";

fn long_string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

fuzz_target!(|talk: Talk| {
    let version = 3 + talk.version % 3;
    let Ok(mut socket) = TcpStream::connect(SERVER.address()) else { return };
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout is set");
    let mut bytes = vec![];
    if talk.begins {
        bytes.extend(frame(version, 0, 1, STARTUP));
    }
    let mut envelopes = vec![];
    let mut ends = vec![];
    for part in &talk.parts {
        let text = |n: u8| TEXTS[usize::from(n) % TEXTS.len()];
        envelopes.extend(match part {
            Part::Any { opcode, flags, body } => frame(version, *flags, *opcode, body),
            Part::Query { text: n, parameters } => {
                frame(version, 0, 7, &[long_string(text(*n)), parameters.clone()].concat())
            }
            Part::Prepare { text: n } => {
                let flags = if version == 5 { vec![0; 4] } else { vec![] };
                frame(version, 0, 9, &[long_string(text(*n)), flags].concat())
            }
            Part::Raw(raw) => raw.clone(),
        });
        ends.push(envelopes.len());
    }
    if version == 5 && talk.begins {
        firn_server::internals::wire::put_segments(&mut bytes, &envelopes, &ends, false);
    } else {
        bytes.extend(envelopes);
    }
    // The server may close the connection before everything is sent.
    let _ = socket.write_all(&bytes);
    let _ = socket.shutdown(Shutdown::Write);
    let mut rest = vec![];
    let ended = socket.read_to_end(&mut rest);
    let is_late = |e: &std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!ended.as_ref().is_err_and(is_late), "the server neither answers nor ends");
    let read = SERVER.session().execute("SELECT key FROM system.local", ());
    assert_eq!(read.expect("others are answered").len(), 1);
});
