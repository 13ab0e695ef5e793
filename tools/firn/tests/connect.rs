//! Tests the shells on a server: logins, lost connections, invalid servers, and features that only
//! a server has. Tests of features that a store has too are in `cql.rs`.
#![allow(clippy::disallowed_methods, missing_docs)] // the tests make the files that a user would name

use super::common;

use common::{Ran, Temp};
use firn_cql::Session;
use firn_server::{Options, Server};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

const KEYSPACE: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};";

fn server() -> (Server, String) {
    let server = Server::start(Options::ephemeral()).unwrap();
    let address = server.address().to_string();
    (server, address)
}

impl Temp {
    fn at(&self, address: &str, args: &[&str]) -> Ran {
        Ran::of(self.firn_with(&[&["cql", "--connect", address], args].concat(), b""))
    }
}

#[test]
fn a_server_is_named_instead_of_a_store() {
    let t = Temp::new("connect", "named");
    for args in [
        &["--db", "x", "cql", "--connect", "localhost"][..],
        &["cql", "--connect", "localhost", "--db", "x"],
    ] {
        Ran::of(t.firn_with(args, b"")).said(2, &["can't go to a store (--db) and to a server"]);
    }
    t.at("nowhere:x", &["-e", "USE x"]).said(2, &["\"nowhere:x\" is not the address of a server"]);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    t.at(&free, &["-e", "USE x"]).said(2, &["cannot connect to", &free, "serve"]);
    assert!(fs::read_dir(&t.0).unwrap().next().is_none(), "no store was made");
    Ran::of(t.firn_with(&["cql", "--user", "ann"], b"")).said(2, &["--connect"]);
}

/// Creates a database where ann must log in with this password, and has all permissions.
fn with_ann(password: &str) -> Session {
    let session = Session::in_memory().unwrap();
    let role = format!(
        "CREATE ROLE ann WITH PASSWORD = '{password}' AND LOGIN = true AND SUPERUSER = true"
    );
    session.execute(&role, ()).unwrap();
    session
}

#[test]
fn logins_come_from_files_and_the_environment() {
    let t = Temp::new("connect", "logins");
    let server = Server::start_with_session(with_ann("secret one"), Options::ephemeral()).unwrap();
    let address = server.address().to_string();
    let ask = "SELECT role FROM system_auth.roles";
    t.at(&address, &["-e", ask]).said(2, &["wants a name and a password", "--user NAME"]);
    t.at(&address, &["-e", ask, "--user", "ann"])
        .said(2, &["the password of ann can only be asked for at a terminal", "FIRN_PASSWORD"]);
    fs::write(t.path("wrong"), "a guess").unwrap();
    fs::write(t.path("right"), "secret one\n").unwrap();
    let with = |file: &str| t.at(&address, &["-e", ask, "--user", "ann", "--password-file", file]);
    with("wrong").said(2, &["Provided username and/or password are incorrect"]);
    with("absent").said(2, &["cannot read absent"]);
    assert!(with("right").good().contains(" ann\n"));
    let done = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["cql", "--connect", &address, "-u", "ann", "-e", ask])
        .env("FIRN_PASSWORD", "secret one")
        .output()
        .unwrap();
    assert!(Ran::of(done).good().contains(" ann\n"));
    // Another role logs in over the same shell. The first role remains logged in if this fails.
    let script = format!(
        "CREATE ROLE bob WITH PASSWORD = 'two' AND LOGIN = true; {KEYSPACE} USE shop; LOGIN bob 'wrong'; CREATE TABLE t (k int PRIMARY KEY); LOGIN bob 'two'; SELECT * FROM t;"
    );
    t.at(&address, &["-e", &script, "--user", "ann", "--password-file", "right"]).said(
        1,
        &[
            "Provided username and/or password are incorrect",
            "logged in as bob",
            "User bob has no SELECT permission on <table shop.t>",
            "2 of 7 statements failed",
        ],
    );
}

/// A shell that is fed line by line.
struct Fed(Child);

impl Fed {
    fn new(address: &str) -> Fed {
        let child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["cql", "--connect", address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Fed(child)
    }

    /// Feeds a statement, and reads until the output contains `until`.
    fn feed(&mut self, line: &str, until: &str) {
        self.0.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut out = BufReader::new(self.0.stdout.as_mut().unwrap());
        let mut all = String::new();
        while !all.contains(until) {
            assert!(out.read_line(&mut all).unwrap() > 0, "it ended: {all}");
        }
    }

    fn end(mut self) -> (Option<i32>, String) {
        drop(self.0.stdin.take());
        let mut said = String::new();
        self.0.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
        (self.0.wait().unwrap().code(), said)
    }
}

#[test]
fn a_server_that_comes_again_is_found_again() {
    let t = Temp::new("connect", "again");
    let mut options = Options::directory(t.path("db"));
    options.address.set_port(0);
    let first = Server::start(options.clone()).unwrap();
    options.address = first.address();
    let mut shell = Fed::new(&options.address.to_string());
    shell.feed(&format!("{KEYSPACE} USE shop; CREATE TABLE t (k int PRIMARY KEY);"), "");
    shell.feed("SELECT count(*) FROM t;", "(1 rows)");
    first.stop().unwrap();
    drop(first);
    let second = Server::start(options.clone()).unwrap();
    // The keyspace is still the chosen one.
    shell.feed("INSERT INTO t (k) VALUES (7); SELECT * FROM t;", "(1 rows)");
    second.stop().unwrap();
    drop(second);
    let (code, said) = {
        shell.0.stdin.as_mut().unwrap().write_all(b"SELECT * FROM t;\n").unwrap();
        shell.end()
    };
    assert_eq!(code, Some(1), "{said}");
    let again = format!("note: connected to {} again", options.address);
    assert_eq!(said.matches(&again).count(), 1, "{said}");
    assert!(said.contains("Unreachable: cannot connect to"), "{said}");
}

#[test]
fn a_connection_that_breaks_within_a_statement_is_reported() {
    let t = Temp::new("connect", "breaks");
    // Accepts the connection and answers two statements, the second one with a value of an unknown
    // class. Then ends within the answer of the third one.
    let class = "com.example.Of(org.apache.cassandra.db.marshal.FloatType , 3)";
    let rows = [
        &b"\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\x01k\0\x01t\0\x01v\0\0\0"[..],
        &[class.len() as u8],
        class.as_bytes(),
        b"\0\0\0\x01\0\0\0\x02\xca\xfe",
    ]
    .concat();
    let rows = [&[0x84, 0, 0, 3, 8, 0, 0, 0, rows.len() as u8][..], &rows].concat();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move || {
        for socket in listener.incoming() {
            let (mut socket, mut request) = (socket.unwrap(), [0; 4096]);
            assert!(socket.read(&mut request).unwrap() > 0);
            let version = request[0];
            if version > 4 {
                let text = b"\0\0\0\x0a\0\x02no";
                socket.write_all(&[&[0x84, 0, 0, 0, 0, 0, 0, 0, 8][..], text].concat()).unwrap();
                continue;
            }
            socket.write_all(&[0x84, 0, 0, 1, 2, 0, 0, 0, 0]).unwrap();
            for answer in
                [&[0x84, 0, 0, 2, 8, 0, 0, 0, 4, 0, 0, 0, 1][..], &rows, &[0x84, 0, 0, 4, 8, 0, 0]]
            {
                if socket.read(&mut request).unwrap() > 0 {
                    socket.write_all(answer).unwrap();
                }
            }
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    let shown = t.at(&address, &["-e", "SELECT 1 FROM t; SELECT 2 FROM t;"]).said(
        1,
        &[
            "ConnectionLost: the connection to the server is lost: it was closed within an answer",
            "it is unknown",
        ],
    );
    assert!(shown.contains("\n 0xcafe (com.example.Of(FloatType , 3))\n"), "{shown}");
    // A peer that is not a server.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move || {
        for socket in listener.incoming() {
            socket.unwrap().write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    t.at(&address, &["-e", "SELECT 1"])
        .said(2, &["breaks the rules of the protocol", "another protocol"]);
}

#[test]
fn features_of_servers_only() {
    let t = Temp::new("connect", "server");
    let (_server, address) = server();
    let script = format!(
        "{KEYSPACE} CREATE TABLE shop.t (k int PRIMARY KEY); TRACING ON; SELECT * FROM shop.t; TRACING OFF; SHOW VERSION"
    );
    let out = t.at(&address, &["-e", &script]).said(0, &["tracing is on", "tracing is off"]);
    for part in [
        "\nTracing session: ",
        " activity ",
        "| source_elapsed |",
        "Execute CQL3 query |",
        " Request complete |",
        "| Cassandra 5.0.9 | CQL spec 3.4.7 | native protocol v5]",
    ] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
    let id = out.split("Tracing session: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let again = t.at(&address, &["-e", &format!("SHOW SESSION {id}")]).good();
    assert!(again.contains("Execute CQL3 query |") && again.contains(" Request complete |"));
    let levels =
        "CONSISTENCY; CONSISTENCY quorum; SERIAL CONSISTENCY LOCAL_SERIAL; SELECT * FROM shop.t";
    t.at(&address, &["-e", levels]).said(
        0,
        &[
            "the consistency is ONE",
            "the consistency is QUORUM",
            "serial consistency is LOCAL_SERIAL",
        ],
    );
    t.at(&address, &["-e", "CONSISTENCY most"]).said(1, &["the levels are ANY, ONE"]);
    t.at(&address, &["-e", "SERIAL CONSISTENCY one"]).said(1, &["SERIAL and LOCAL_SERIAL"]);
    // A store has no server that would write traces.
    Ran::of(t.run("db", &["cql", "-e", "TRACING ON"], b"")).said(1, &["firn serve"]);
}

#[cfg(unix)]
#[test]
fn at_a_terminal_a_server_completes_and_asks_for_passwords() {
    let t = Temp::new("connect", "terminal");
    let session = with_ann("secret");
    for statement in [
        KEYSPACE.trim_end_matches(';'),
        "CREATE TABLE shop.vegetables (k int PRIMARY KEY)",
        "INSERT INTO shop.vegetables (k) VALUES (4711)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    let server = Server::start_with_session(session, Options::ephemeral()).unwrap();
    let mut shell = Command::new(env!("CARGO_BIN_EXE_firn"));
    shell
        .args(["cql", "--connect", &server.address().to_string(), "-u", "ann", "-k", "shop"])
        .current_dir(&t.0)
        .env_remove("PAGER")
        .env("FIRN_HISTORY", t.path("history"))
        .env("TERM", "xterm")
        .env("NO_COLOR", "1");
    let mut p = rexpect::session::spawn_command(shell, Some(120_000)).unwrap();
    p.exp_string("Password of ann: ").unwrap();
    p.send_line("secret").unwrap();
    let greeting = p.exp_string("ann@cql:shop> ").unwrap();
    assert!(
        greeting.contains("native protocol v5] at ") && !greeting.contains("secret"),
        "{greeting}"
    );
    p.send("SELECT * FROM vege\t;\r").unwrap();
    p.flush().unwrap();
    p.exp_string("4711").unwrap();
    p.exp_string("ann@cql:shop> ").unwrap();
    p.send_line("EXIT").unwrap();
    p.exp_eof().unwrap();
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_a_statement_that_runs_on_a_server() {
    let t = Temp::new("connect", "stop");
    // A server that answers only the statement about its version.
    let (server, real) = server();
    drop(server);
    let listener = TcpListener::bind(&real).unwrap();
    let (tell, asked) = std::sync::mpsc::channel();
    let serve = move || {
        for socket in listener.incoming() {
            let (mut socket, mut request) = (socket.unwrap(), [0; 4096]);
            let mut turn = 0u8;
            while socket.read(&mut request).is_ok_and(|n| n > 0) {
                turn += 1;
                let void = [0x84, 0, 0, turn, 8, 0, 0, 0, 4, 0, 0, 0, 1];
                match (request[0], turn) {
                    (5, _) => {
                        let text = b"\0\0\0\x0a\0\x02no";
                        let head = [0x84, 0, 0, 0, 0, 0, 0, 0, 8];
                        socket.write_all(&[&head[..], text].concat()).unwrap();
                        break;
                    }
                    (_, 1) => socket.write_all(&[0x84, 0, 0, 1, 2, 0, 0, 0, 0]).unwrap(),
                    _ if request.windows(4).any(|w| w == b"slow") => tell.send(()).unwrap(),
                    _ => socket.write_all(&void).unwrap(),
                }
            }
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    let mut shell = Command::new(if cfg!(target_os = "linux") { "env" } else { "sh" });
    if cfg!(target_os = "linux") {
        shell.args(["--default-signal=INT", "sh"]);
    }
    let line = format!("{} cql --connect {real}", env!("CARGO_BIN_EXE_firn"));
    shell.args(["-c", &line]).current_dir(&t.0).env("FIRN_HISTORY", t.path("history"));
    shell.env("TERM", "xterm").env("NO_COLOR", "1").env_remove("PAGER");
    let mut p = rexpect::session::spawn_command(shell, Some(120_000)).unwrap();
    p.exp_string("cql> ").unwrap();
    p.send("INSERT slow;\r").unwrap();
    p.flush().unwrap();
    p.exp_string("slow;").unwrap();
    asked.recv().unwrap();
    p.send_control('c').unwrap();
    p.exp_string("stopped").unwrap();
    p.exp_string("cql> ").unwrap();
    // The next statement reconnects.
    p.send("INSERT quick;\r").unwrap();
    p.flush().unwrap();
    p.exp_string("connected to").unwrap();
    p.exp_string("cql> ").unwrap();
    p.send("EXIT\r").unwrap();
    p.flush().unwrap();
    p.exp_eof().unwrap();
}

/// Masks the parts that differ between runs: versions of definitions, timestamps, times.
fn masked(text: &str) -> String {
    let is_version = |line: &str| line.len() == 36 && line.matches('-').count() == 4;
    let digits = |line: &str, before: &str| match line.split_once(before) {
        Some((head, tail)) => {
            format!("{head}{before}{}", tail.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => line.to_owned(),
    };
    // A store has the version of the command's time, a server the last one.
    let is_interface = |line: &str| ["19.33.0", "20.1.0"].contains(&line);
    let line = |line: &str| match is_version(line) || is_interface(line) {
        true => "a version\n".to_owned(),
        false => digits(&digits(line, "timestamp="), "Elapsed time: ") + "\n",
    };
    text.lines().map(line).collect()
}

/// Returns the statements of the recorded transcript of cassandra-cli, and of a session of the
/// tests.
fn statements(file: &str) -> String {
    let path = format!("{}/../../engine/wide-text/tests/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).unwrap();
    let mut out = String::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some((_, statement)) =
            line.strip_prefix("[default@").and_then(|l| l.split_once("] "))
        {
            out.extend([statement, "\n"]);
        } else if file.starts_with("cli_sessions") {
            // A word begins a case, `----` ends its statements.
            match line {
                "lenient" | "strict" => inside = true,
                "----" => inside = false,
                // Statements that only a server needs.
                statement if statement.starts_with("connect ") => {}
                statement if inside => out.extend([statement, "\n"]),
                _ => {}
            }
        }
    }
    out
}

#[test]
fn cassandra_cli_prints_the_same_on_a_server_and_a_store() {
    let t = Temp::new("connect", "families");
    for (number, (file, strict)) in [
        ("vectors/cli.txt", true),
        ("vectors/cli.txt", false),
        ("cli_sessions/lenient.txt", false),
        ("cli_sessions/likes.txt", false),
        ("cli_sessions/likes.txt", true),
        ("cli_sessions/supers.txt", false),
    ]
    .into_iter()
    .enumerate()
    {
        let script = statements(file);
        assert!(script.lines().count() > 10, "{file}");
        fs::write(t.path("script.txt"), script).unwrap();
        let mut options = Options::ephemeral();
        options.thrift = Some("127.0.0.1:0".parse().unwrap());
        let server = Server::start(options).unwrap();
        let address = server.thrift_address().unwrap().to_string();
        let flags = ["-f", "script.txt", "--go-on", "--echo", "--strict"];
        let flags = if strict { &flags[..] } else { &flags[..4] };
        let here = Ran::of(t.run(&format!("db{number}"), &[&["cli"], flags].concat(), b""));
        let there = Ran::of(t.firn_with(&[&["cli", "--connect", &address], flags].concat(), b""));
        let note = |text: &str| -> String {
            text.lines().filter(|l| !l.starts_with("note: ")).map(|l| format!("{l}\n")).collect()
        };
        assert_eq!((here.0, masked(&note(&here.2))), (there.0, masked(&there.2)), "{file}");
        let (here, there) = (masked(&here.1), masked(&there.1));
        let differ = here.lines().zip(there.lines()).position(|(a, b)| a != b);
        let line = differ.unwrap_or(0);
        let near = |text: &str| {
            text.lines().skip(line.saturating_sub(6)).take(12).collect::<Vec<_>>().join("\n")
        };
        assert!(here == there, "{file}:\n{}\n--- on the server:\n{}", near(&here), near(&there));
    }
}

#[test]
fn cassandra_cli_finds_its_server_again_and_connects_to_others() {
    let t = Temp::new("connect", "families-again");
    let mut options = Options::ephemeral();
    options.thrift = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::start_with_session(with_ann("secret"), options).unwrap();
    let address = server.thrift_address().unwrap();
    let cli = |args: &[&str], script: &str| {
        Ran::of(t.firn_with(&[&["cli"], args].concat(), script.as_bytes()))
    };
    let at = address.to_string();
    cli(&["--connect", &at], "show keyspaces;").said(2, &["You have not logged in", "--user NAME"]);
    fs::write(t.path("password"), "secret\n").unwrap();
    fs::write(t.path("wrong"), "guess\n").unwrap();
    cli(&["--connect", &at, "-u", "ann", "--password-file", "wrong"], "show keyspaces;")
        .said(2, &["Provided username and/or password are incorrect"]);
    let good = ["--connect", &at, "-u", "ann", "--password-file", "password"];
    let script = format!(
        "create keyspace K; use K; create column family F with comparator = UTF8Type and key_validation_class = UTF8Type;\n\
         set F[a][b] = utf8('first');\nconsistencylevel as QUORUM;\nconnect {}/{} ann 'secret';\nuse K;\nget F[a][b] as utf8;\nconnect {0}/1;\nget F[a][b];",
        address.ip(),
        address.port()
    );
    let ran = cli(&good, &script);
    let output = format!("Connected to: \"Firn\" on {}/{}", address.ip(), address.port());
    assert!(ran.1.contains(&output) && ran.1.contains("value=first"), "{}{}", ran.1, ran.2);
    // A failed connection to another server leaves the current one.
    ran.said(1, &["cannot connect to 127.0.0.1:1"]);
    let value = cli(&[&good[..], &["-k", "K"]].concat(), "get F[a][b] as utf8;").good();
    assert!(value.contains("value=first"), "{value}");
    // The port of the other protocol is refused.
    let native = server.address().to_string();
    cli(&["--connect", &native], "show keyspaces;").said(2, &["a port of its own"]);
    Ran::of(t.firn_with(&["--db", "x", "cli", "--connect", &at], b""))
        .said(2, &["can't go to a store (--db) and to a server"]);
    drop(server);
    cli(&good, "show keyspaces;").said(2, &["cannot connect to", "--thrift"]);
}

#[cfg(feature = "cluster")]
#[test]
fn a_url_names_a_cluster() {
    let t = Temp::new("connect", "url");
    let (server, address) = server();
    // The first node is down, so the other one is used.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let url = format!("cassandra://{free},{address}");
    let made = "CREATE TABLE shop.t (id int PRIMARY KEY, v set<text>, d duration);
        INSERT INTO shop.t (id, v, d) VALUES (1, {'a', 'b'}, 1h2m);
        USE shop; SELECT * FROM t;";
    let shown = t.at(&url, &["-e", &format!("{KEYSPACE} {made}")]).good();
    assert!(shown.contains("  1 | 1h2m | {'a', 'b'}"), "{shown}");
    let shop = format!("{url}/shop?consistency=ONE&compression=lz4");
    fs::write(t.path("rows.csv"), "id,d\n7,2d\n8,\n").unwrap();
    let copied = "COPY t (id, d) FROM 'rows.csv' WITH HEADER = true; SELECT id, d FROM t;";
    let rows = t.at(&shop, &["--json", "-e", copied]).good();
    for row in ["{\"id\": 7, \"d\": \"2d\"}", "{\"id\": 8, \"d\": null}"] {
        assert!(rows.contains(row), "{rows}");
    }
    let set = "CONSISTENCY; CONSISTENCY QUORUM; SERIAL CONSISTENCY SERIAL; CONSISTENCY MOST;";
    t.at(&shop, &["-e", set]).said(
        1,
        &[
            "the consistency is ONE",
            "the consistency is QUORUM",
            "the serial consistency is SERIAL",
            "there is no level MOST",
        ],
    );
    t.at(&shop, &["-e", "TRACING ON;"]).said(1, &["with `firn cql --connect HOST`"]);
    t.at(&shop, &["-e", "SELECT * FORM t"]).said(1, &["SyntaxException", "FORM"]);
    assert!(t.at(&shop, &["-e", "SHOW VERSION"]).good().contains("native protocol v4"));
    // Error messages.
    let with = |url: &str, args: &[&str], said: &[&str]| {
        t.at(url, &[&["-e", "USE x"], args].concat()).said(2, said);
    };
    with("cassandra://ann:p@h", &[], &["a password on the command line", "--user NAME"]);
    with("cassandra://h?ssl=true", &[], &["\"ssl\"", "there are consistency"]);
    with(&format!("cassandra://{free}"), &[], &["cannot connect to", &free]);
    with(&format!("{url}/missing"), &[], &["'missing' does not exist"]);
    with(&url, &["--tls-ca", "ca.pem"], &["--tls-ca is for a server", "tls_ca=FILE"]);
    let cli = ["cli", "--connect", &url, "-e", "x"];
    Ran::of(t.firn_with(&cli, b"")).said(2, &["URL of a cluster works only with CQL"]);
    let both = ["--db", "x", "cql", "--connect", &url];
    Ran::of(t.firn_with(&both, b"")).said(2, &["can't go to a store (--db) and to a server"]);
    server.stop().unwrap();
}

#[cfg(all(feature = "cluster", feature = "tls"))]
#[test]
fn a_url_asks_for_tls() {
    use firn_server::{Options, Server, TlsOptions};
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    let t = Temp::new("connect", "tls-url");
    let names = vec!["127.0.0.1".to_owned()];
    let CertifiedKey { cert, key_pair } = generate_simple_self_signed(names).unwrap();
    let (certificate, key) = (t.path("node.pem"), t.path("node.key"));
    std::fs::write(&certificate, cert.pem()).unwrap();
    std::fs::write(&key, key_pair.serialize_pem()).unwrap();
    let mut options = Options::ephemeral();
    options.tls = Some(TlsOptions::new(certificate, key));
    let server = Server::start(options).unwrap();
    let at = server.address();
    let url = format!("cassandra+tls://{at}?tls_ca=node.pem");
    t.at(&url, &["-e", "SELECT key FROM system.local"]).good();
    t.at(&format!("cassandra+tls://{at}"), &["-e", "USE x"]).said(2, &["tls_ca=FILE"]);
    server.stop().unwrap();
}

#[cfg(feature = "cluster")]
#[test]
fn a_cluster_wants_a_login_too() {
    let t = Temp::new("connect", "cluster-login");
    let server = Server::start_with_session(with_ann("secret one"), Options::ephemeral()).unwrap();
    let url = format!("cassandra://ann@{}", server.address());
    let anybody = format!("cassandra://{}", server.address());
    let ask = "SELECT role FROM system_auth.roles";
    t.at(&anybody, &["-e", ask]).said(2, &["wants a login", "--user NAME"]);
    t.at(&url, &["-e", ask]).said(2, &["the password of ann can only be asked for at a terminal"]);
    fs::write(t.path("wrong"), "a guess").unwrap();
    fs::write(t.path("right"), "secret one\n").unwrap();
    let user = ["-e", ask, "-u", "ann", "--password-file"];
    t.at(&anybody, &[&user[..], &["wrong"]].concat())
        .said(2, &["password are incorrect", "--user NAME"]);
    assert!(t.at(&anybody, &[&user[..], &["right"]].concat()).good().contains(" ann\n"));
    let done = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["cql", "--connect", &url, "-e", ask])
        .env("FIRN_PASSWORD", "secret one")
        .output()
        .unwrap();
    assert!(Ran::of(done).good().contains(" ann\n"));
    server.stop().unwrap();
}
