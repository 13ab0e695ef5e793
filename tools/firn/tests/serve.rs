//! Tests `firn serve` as a process: its output, and its reaction to signals.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "files, and a process that is sent signals")]

use super::common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use common::{Ran, Temp};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A server in memory, with its output.
struct Served {
    child: Child,
    at: Value,
    log: BufReader<ChildStderr>,
}

impl Served {
    fn start(dir: &Path, args: &[&str]) -> Served {
        Served::run(dir, &[&["serve", "--ephemeral", "--log", "info"], args].concat())
    }

    fn run(dir: &Path, args: &[&str]) -> Served {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(args)
            .current_dir(dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Served { child, at: serde_json::from_str(&line).unwrap(), log }
    }

    fn connect(&self, what: &str) -> TcpStream {
        let port = self.at[what].as_u64().unwrap() as u16;
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket
    }

    /// Returns the server's answer to these bytes, until it closes the connection.
    fn ask(&self, what: &str, bytes: &[u8]) -> Vec<u8> {
        let mut socket = self.connect(what);
        socket.write_all(bytes).unwrap();
        let mut answer = vec![];
        // It may close the connection before reading everything.
        let _ = socket.read_to_end(&mut answer);
        answer
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns the next line of its log that contains `wanted`.
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    fn said(&mut self, wanted: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ends without {wanted:?}");
            if line.contains(wanted) {
                return line;
            }
        }
    }

    fn stop(mut self) {
        self.signal(Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

const TLS: [&str; 4] = ["--tls-certificate", "server.pem", "--tls-key", "key.pem"];

#[test]
fn health_and_metrics_are_served() {
    let dir = Temp::new("serve", "watch");
    let server = Served::start(&dir.0, &["--metrics", "127.0.0.1:0"]);
    let get = |path: &str| {
        let answer = server.ask("metrics", format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes());
        String::from_utf8(answer).unwrap()
    };
    let health = get("/health");
    assert!(health.starts_with("HTTP/1.1 200 OK\r\n"), "{health}");
    assert!(health.ends_with("\r\n\r\n{\"status\":\"serving\"}\n"), "{health}");
    assert!(get("/metrics").contains("\nfirn_server_connections{protocol=\"native\"} 0\n"));
    server.stop();
}

#[test]
fn a_configuration_is_looked_at_without_a_server() {
    let dir = Temp::new("serve", "check");
    let check =
        |args: &[&str]| Ran::of(dir.run("store", &[&["serve", "--check"], args].concat(), b""));
    let output = check(&[]).good();
    assert!(output.contains("metrics          nowhere\nencrypted        nothing\n"), "{output}");
    let output = check(&["--metrics", "127.0.0.1:9100", "--thrift", "127.0.0.1:9160"]).good();
    assert!(
        output.contains("metrics          http://127.0.0.1:9100/metrics, and /health\n"),
        "{output}"
    );
    assert!(output.contains("and for Thrift   127.0.0.1:9160\n"), "{output}");
    assert!(output.contains("largest batch    50.0 KiB, over several partitions\n"), "{output}");
    assert!(check(&["--max-batch", "0"]).good().contains("largest batch    any\n"));
    assert!(check(&["--max-tombstones", "0"]).good().contains("tombstones       any\n"));
    let given = [
        (
            ["--max-tombstones", "5k"],
            "tombstones       5,000 at most in a read",
            "\"max_tombstones\":5000",
        ),
        (["--max-connections", "7"], "connections      7 at most", "\"max_connections\":7"),
        (["--max-request", "2m"], "largest request  2.00 MiB", "\"max_request_bytes\":2097152"),
        (["--max-result", "9m"], "largest result   9.00 MiB", "\"max_result_bytes\":9437184"),
        (
            ["--max-results-memory", "1g"],
            "all results      1.00 GiB of memory",
            "\"max_results_memory_bytes\":1073741824",
        ),
        (["--max-batch", "9k"], "largest batch    9.00 KiB", "\"max_batch_bytes\":9216"),
        (["--max-in-flight", "32m"], "in flight        32.0", "\"max_in_flight_bytes\":33554432"),
        (["--idle-timeout", "9"], "closed after 9 s", "\"idle_timeout_seconds\":9"),
        (["--workers", "3"], "workers          3", "\"workers\":3"),
        (["--durability", "power"], "survives a power cut", "\"durability\":\"power\""),
        (["--log", "debug"], "log              debug", "\"log\":\"debug\""),
    ];
    let shows = |args: &[&str], line: &str| {
        let all = check(args).good();
        assert!(all.contains(line), "{line:?} is not in\n{all}");
    };
    for (option, line, json) in given {
        shows(&option, line);
        shows(&[&option[..], &["--json"]].concat(), json);
    }
    // If the process may open few files, the output has the number of accepted connections.
    #[cfg(target_os = "linux")]
    {
        let firn = env!("CARGO_BIN_EXE_firn");
        let script = format!("ulimit -n 128; {firn} --db store serve --check --workers 16");
        let done = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let output = String::from_utf8(done.stdout).unwrap();
        assert!(output.contains("connections      67 at most"), "{output}");
        assert!(output.contains("not 1024: this process may open 128 files"), "{output}");
    }
    shows(&["--login"], "clients that log in, within their role's permissions\n");
    shows(&["--insecure", "--no-login"], "everything; from other machines, too\n");
    shows(&["--ephemeral"], "serves           memory\na write survives nothing");
    check(&TLS[..2]).said(2, &["--tls-key <FILE>"]);
    check(&["--tls-clients", "server.pem"]).said(2, &["--tls-certificate <FILE>"]);
}

#[test]
#[cfg(not(feature = "tls"))]
fn a_build_without_tls_names_the_feature() {
    let dir = Temp::new("serve", "without-tls");
    let done = Ran::of(dir.run("store", &[&["serve"], &TLS[..]].concat(), b""));
    done.said(2, &["built without TLS", "feature `tls`"]);
}

#[test]
fn the_examples_of_a_service_and_a_container_start_what_there_is() {
    let dir = Temp::new("serve", "examples");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let read = |name: &str| std::fs::read_to_string(examples.join(name)).unwrap();
    let check = |words: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(words)
            .arg("--check")
            .current_dir(&dir.0)
            .output()
            .unwrap();
        Ran::of(done).good()
    };
    let unit = read("firn.service").replace("%S/firn/store", "store");
    let line = unit.lines().find_map(|l| l.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<_> = line.split(' ').filter(|word| *word != "$FIRN_OPTIONS").collect();
    assert_eq!(words[0], "/usr/local/bin/firn");
    let output = check(&words[1..]);
    assert!(output.contains("metrics          http://127.0.0.1:9100/metrics"), "{output}");
    let file = read("Dockerfile").replace("/data/store", "store");
    let list = |name: &str| -> Vec<String> {
        let line = file.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        serde_json::from_str(line).unwrap()
    };
    let (entry, command) = (list("ENTRYPOINT "), list("CMD "));
    assert_eq!(entry[0], "firn");
    let words: Vec<_> = entry[1..].iter().chain(&command).map(String::as_str).collect();
    let output = check(&words);
    assert!(output.contains("listens at       0.0.0.0:9042\n"), "{output}");
    // Without a role it does not start, and names the reason.
    let e = Ran::of(dir.run("store", &words[2..], b""));
    e.said(2, &["0.0.0.0 can be reached from other machines", "make roles", "--insecure"]);
    // The refusal leaves a store of keys and values as it was.
    Ran::of(dir.run("fruit", &["put", "apple", "red"], b"")).good();
    let e = Ran::of(dir.run("fruit", &["serve", "--listen", "0.0.0.0:0"], b""));
    e.said(2, &["0.0.0.0 can be reached from other machines"]);
    let trees = Ran::of(dir.run("fruit", &["trees"], b"")).good();
    assert!(!trees.contains("system.schema"), "{trees}");
    // The health check uses the address of the metrics.
    let probe = list("  CMD ");
    assert!(
        probe[2].contains("/dev/tcp/127.0.0.1/9100") && command.contains(&"127.0.0.1:9100".into())
    );
    if Command::new("bash").arg("-c").arg("true").status().is_ok() {
        let mut server = Served::start(&dir.0, &["--metrics", "127.0.0.1:0"]);
        let probe = probe[2].replace("9100", &server.at["metrics"].to_string());
        let asks = || Command::new("bash").args(["-c", &probe]).status().unwrap().success();
        assert!(asks());
        server.signal(Signal::TERM);
        assert!(server.child.wait().unwrap().success());
        assert!(!asks());
    }
}

/// Tests with certificates.
#[cfg(feature = "tls")]
mod tls {
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    fn certify(dir: &Temp) {
        let CertifiedKey { cert, key_pair } =
            generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(dir.path("server.pem"), cert.pem()).unwrap();
        std::fs::write(dir.path("key.pem"), key_pair.serialize_pem()).unwrap();
    }

    /// OPTIONS of version 4.
    const OPTIONS: [u8; 9] = [4, 0, 0, 1, 5, 0, 0, 0, 0];
    /// First bytes of a client that uses TLS.
    const HELLO: [u8; 9] = [0x16, 3, 1, 0, 5, 1, 0, 0, 1];

    #[test]
    fn a_signal_reloads_certificates_and_bad_ones_are_logged() {
        let dir = Temp::new("serve", "signal");
        certify(&dir);
        let mut server = Served::start(&dir.0, &TLS);
        server.signal(Signal::HUP);
        server.said("the certificates were read again");
        std::fs::write(dir.path("key.pem"), "").unwrap();
        server.signal(Signal::HUP);
        let line = server.said("the old certificates remain in use");
        assert!(line.contains("ERROR") && line.contains("key.pem, has no private key"), "{line}");
        certify(&dir);
        server.signal(Signal::HUP);
        server.said("the certificates were read again");
        server.stop();
        // Without certificates there is nothing to reload, and the server continues.
        let mut server = Served::start(&dir.0, &[]);
        server.signal(Signal::HUP);
        server.said("the certificates were read again");
        assert_eq!(server.ask("port", &[OPTIONS, [9; 9]].concat())[4], 6);
        server.stop();
    }

    #[test]
    fn clients_of_another_protocol_are_logged() {
        let dir = Temp::new("serve", "otherwise");
        certify(&dir);
        let ports = [&TLS[..], &["--thrift", "127.0.0.1:0"]].concat();
        let mut server = Served::start(&dir.0, &ports);
        for port in ["port", "thrift"] {
            server.ask(port, &OPTIONS);
            let line = server.said("the client speaks no TLS");
            assert!(line.contains("WARN") && line.contains("client=127.0.0.1:"), "{line}");
        }
        server.stop();
        let mut server = Served::start(&dir.0, &["--thrift", "127.0.0.1:0"]);
        for port in ["port", "thrift"] {
            server.ask(port, &HELLO);
            let line = server.said("a client speaks TLS, and this port does not");
            assert!(line.contains("WARN") && line.contains("--tls-certificate"), "{line}");
        }
        server.stop();
    }

    #[test]
    fn a_configuration_with_certificates_is_looked_at_without_a_server() {
        let dir = Temp::new("serve", "check-tls");
        certify(&dir);
        let check =
            |args: &[&str]| Ran::of(dir.run("store", &[&["serve", "--check"], args].concat(), b""));
        let output = check(&[&TLS[..], &["--tls-clients", "server.pem"]].concat()).good();
        assert!(output.contains("TLS 1.2 and 1.3, with server.pem; clients have"), "{output}");
        let missing = ["--tls-certificate", "none.pem", "--tls-key", "key.pem"];
        check(&missing).said(2, &["the TLS certificate can't be read", "none.pem"]);
        // A certificate does not replace a login.
        let far = [&TLS[..], &["--tls-clients", "server.pem", "--listen", "0.0.0.0:0"]].concat();
        let served = Ran::of(dir.run("store", &[&["serve"], &far[..]].concat(), b""));
        served.said(2, &["0.0.0.0 can be reached from other machines", "--insecure"]);
    }

    #[test]
    fn the_shells_encrypt() {
        let dir = Temp::new("serve", "shells");
        certify(&dir);
        let ports = [&TLS[..], &["--thrift", "127.0.0.1:0"]].concat();
        let server = Served::start(&dir.0, &ports);
        let ask = |shell: &str, port: &str, more: &[&str]| {
            let at = format!("localhost:{}", server.at[port]);
            let statement = match shell {
                "cql" => "SELECT cluster_name FROM system.local",
                _ => "show cluster name;",
            };
            let args = [&[shell, "--connect", &at, "-e", statement], more].concat();
            Ran::of(dir.firn_with(&args, b""))
        };
        for (shell, port) in [("cql", "port"), ("cli", "thrift")] {
            let output = ask(shell, port, &["--tls-ca", "server.pem"]).good();
            assert!(output.contains("Firn"), "{output}");
            let output = ask(shell, port, &["--tls-ca", "none.pem"]);
            output.said(2, &["file of server certificate authorities can't be read"]);
            assert_eq!(ask(shell, port, &[]).0, 2);
            // The certificate is for another name.
            let other = format!("127.0.0.1:{}", server.at[port]);
            let args = [shell, "--connect", &other, "-e", "x", "--tls-ca", "server.pem"];
            let output = Ran::of(dir.firn_with(&args, b""));
            output
                .said(2, &["is not encrypted", "the name or address in the server's certificate"]);
            ask(shell, port, &["--tls-key", "key.pem"]).said(2, &["--tls-certificate <FILE>"]);
        }
        server.stop();
    }
}

/// A read-only server changes no byte, refuses writes, and is healthy.
#[test]
fn a_server_for_reading_only_writes_nothing() {
    let t = Temp::new("serve", "read-only");
    let script =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE k.t (id int PRIMARY KEY, v text); INSERT INTO k.t (id, v) VALUES (1, 'pear');";
    t.firn(&["cql", "-e", script]).good();
    let files = || {
        let all = std::fs::read_dir(t.path("db")).unwrap().map(|f| f.unwrap().path());
        let mut all: Vec<_> = all.map(|p| (std::fs::read(&p).unwrap(), p)).collect();
        all.sort();
        all
    };
    let before = files();
    let db = t.path("db").display().to_string();
    let args = ["--db", &db, "--json", "serve", "--read-only", "--listen", "127.0.0.1:0"];
    let metrics = ["--metrics", "127.0.0.1:0"];
    let mut served = Served::run(&t.path(""), &[&args[..], &metrics].concat());
    let at = format!("127.0.0.1:{}", served.at["port"]);
    let cql =
        |statement: &str| Ran::of(t.firn_with(&["cql", "--connect", &at, "-e", statement], b""));
    assert!(cql("SELECT v FROM k.t;").good().contains("pear"));
    for refused in [
        "INSERT INTO k.t (id, v) VALUES (2, 'plum');",
        "INSERT INTO k.t (id, v) VALUES (2, 'plum') IF NOT EXISTS;",
        "TRUNCATE k.t;",
        "CREATE TABLE k.u (id int PRIMARY KEY);",
        "DROP TABLE k.t;",
        "CREATE ROLE ann;",
        "BEGIN BATCH DELETE FROM k.t WHERE id = 1; APPLY BATCH;",
    ] {
        cql(refused).said(1, &["opened read-only"]);
    }
    assert!(cql("SELECT v FROM k.t;").good().contains("pear"));
    let health = served.ask("metrics", b"GET /health HTTP/1.0\r\n\r\n");
    let health = String::from_utf8(health).unwrap();
    assert!(health.contains(" 200 ") && health.contains("\"read_only\":true"), "{health}");
    assert_eq!(files(), before);
    // A writer may open the store meanwhile.
    t.firn(&["cql", "-e", "INSERT INTO k.t (id, v) VALUES (2, 'plum');"]).good();
    served.signal(Signal::TERM);
    assert!(served.child.wait().unwrap().success());
    Ran::of(t.run("nothing", &["serve", "--read-only"], b"")).said(2, &["no store"]);
}
