//! TLS connections: each protocol version, with and without client certificates, incomplete
//! handshakes, large transfers in both directions at once, reloaded certificates.

#![allow(clippy::disallowed_methods, reason = "a client has no environment")]

use super::common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use firn_server::{Options, Server, TlsOptions};
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

type TlsPeer = Peer<StreamOwned<ClientConnection, TcpStream>>;

/// A certificate authority.
struct Authority {
    certificate: Certificate,
    key: KeyPair,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority { certificate: params.self_signed(&key).unwrap(), key }
    }

    fn signed(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.certificate, &self.key).unwrap(), key)
    }
}

/// A directory with the files of a server.
struct Files {
    dir: PathBuf,
    authority: Authority,
}

impl Files {
    fn new(name: &str) -> Files {
        let dir = std::env::temp_dir().join(format!("firn-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let files = Files { dir, authority: Authority::new("authority") };
        files.renew();
        files.write("clients.pem", &files.authority.certificate.pem());
        files
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).unwrap();
    }

    /// Writes a new certificate for the server.
    fn renew(&self) -> CertificateDer<'static> {
        let (certificate, key) = self.authority.signed("127.0.0.1");
        self.write("server.pem", &certificate.pem());
        self.write("key.pem", &key.serialize_pem());
        certificate.der().clone()
    }

    fn tls(&self) -> TlsOptions {
        TlsOptions::new(self.dir.join("server.pem"), self.dir.join("key.pem"))
    }

    fn start(&self, change: impl FnOnce(&mut Options)) -> Server {
        let mut options = Options::ephemeral();
        options.tls = Some(self.tls());
        change(&mut options);
        Server::start(options).unwrap()
    }

    fn config(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<(Certificate, KeyPair)>,
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        }
    }

    /// Connects a client that trusts the server's authority.
    fn connect(&self, server: &Server) -> (ClientConnection, TcpStream) {
        connect(server, self.config(rustls::ALL_VERSIONS, None))
    }

    fn peer(&self, server: &Server, version: u8) -> TlsPeer {
        let (connection, socket) = self.connect(server);
        ready(StreamOwned::new(connection, socket), version)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

fn connect(server: &Server, config: ClientConfig) -> (ClientConnection, TcpStream) {
    let socket = TcpStream::connect(server.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let name = "127.0.0.1".try_into().unwrap();
    (ClientConnection::new(Arc::new(config), name).unwrap(), socket)
}

fn ready(stream: StreamOwned<ClientConnection, TcpStream>, version: u8) -> TlsPeer {
    let mut peer = Peer::over(stream, version);
    peer.startup(&[("CQL_VERSION", "3.0.0")]);
    peer
}

fn with_table(server: &Server) {
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v blob)",
    ] {
        server.session().execute(cql, ()).unwrap();
    }
}

#[test]
fn each_protocol_version_works_over_each_tls_version() {
    let files = Files::new("versions");
    let server = files.start(|_| {});
    with_table(&server);
    for (tls, reported, suite) in [
        (&rustls::version::TLS12, "TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES"),
        (&rustls::version::TLS13, "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ] {
        for version in [3, 4, 5] {
            let (connection, socket) = connect(&server, files.config(&[tls], None));
            let mut peer = ready(StreamOwned::new(connection, socket), version);
            peer.good("INSERT INTO ks.t (k, v) VALUES (1, 0x0102)");
            assert!(peer.good("SELECT * FROM ks.t WHERE k = 1").has(&[0, 0, 0, 2, 1, 2]));
            // On a worker.
            assert!(peer.good("SELECT * FROM ks.t").has(&[0, 0, 0, 2, 1, 2]));
            let clients =
                "SELECT ssl_enabled, ssl_protocol, ssl_cipher_suite FROM system_views.clients";
            let answer = peer.good(clients);
            assert!(answer.has(reported.as_bytes()) && answer.has(suite.as_bytes()), "{answer:?}");
        }
    }
    // Key updates during the connection.
    let mut peer = files.peer(&server, 5);
    for _ in 0..3 {
        peer.socket.conn.refresh_traffic_keys().unwrap();
        assert!(peer.good("SELECT * FROM ks.t").has(&[0, 0, 0, 2, 1, 2]));
    }
    // A stopping server sends close_notify instead of just closing.
    server.stop().unwrap();
    let mut rest = vec![];
    assert_eq!(peer.socket.read_to_end(&mut rest).unwrap(), 0);
}

#[test]
fn clients_without_a_required_certificate_are_refused() {
    let files = Files::new("clients");
    let server = files.start(|options| {
        let clients = Some(files.dir.join("clients.pem"));
        options.tls = Some(TlsOptions { clients, ..files.tls() });
    });
    let outcome = |own: Option<(Certificate, KeyPair)>, tls| {
        let (connection, socket) = connect(&server, files.config(&[tls], own));
        let mut stream = StreamOwned::new(connection, socket);
        let hello = frame(4, 0, 1, OPTIONS, &[]);
        let mut header = [0; 9];
        stream.write_all(&hello).and_then(|()| stream.read_exact(&mut header)).map(|()| header[4])
    };
    for tls in [&rustls::version::TLS12, &rustls::version::TLS13] {
        assert_eq!(outcome(Some(files.authority.signed("client")), tls).unwrap(), SUPPORTED);
        outcome(None, tls).unwrap_err();
        outcome(Some(Authority::new("stranger").signed("client")), tls).unwrap_err();
    }
    assert_eq!(
        outcome(Some(files.authority.signed("client")), &rustls::version::TLS13).unwrap(),
        SUPPORTED
    );
}

#[test]
fn a_stalled_handshake_times_out_and_does_not_block_others() {
    let files = Files::new("half");
    let server = files.start(|options| options.login_timeout = Duration::from_millis(300));
    let mut hello = vec![];
    files.connect(&server).0.write_tls(&mut hello).unwrap();
    let begin = |bytes: &[u8]| {
        let mut socket = TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.write_all(bytes).unwrap();
        socket
    };
    let mut stuck: Vec<_> =
        [0, 1, 5, hello.len() / 2, hello.len()].iter().map(|len| begin(&hello[..*len])).collect();
    let mut peer = files.peer(&server, 4);
    peer.good("SELECT key FROM system.local");
    for socket in &mut stuck {
        let mut rest = vec![];
        socket.read_to_end(&mut rest).unwrap();
    }
    // A finished handshake is not enough for the setup.
    let (connection, socket) = files.connect(&server);
    let mut stream = StreamOwned::new(connection, socket);
    stream.flush().unwrap();
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    // A handshake in single bytes succeeds if it is in time.
    let server = files.start(|_| {});
    let (mut connection, mut socket) = files.connect(&server);
    while connection.is_handshaking() {
        let mut bytes = vec![];
        while connection.wants_write() {
            connection.write_tls(&mut bytes).unwrap();
        }
        bytes.iter().for_each(|byte| socket.write_all(&[*byte]).unwrap());
        if connection.is_handshaking() {
            connection.read_tls(&mut socket).unwrap();
            connection.process_new_packets().unwrap();
        }
    }
    ready(StreamOwned::new(connection, socket), 5).good("SELECT key FROM system.local");
    assert_eq!(peer.good("SELECT key FROM system.local").kind(), 2);
}

#[test]
fn a_client_of_another_protocol_is_refused_without_harm() {
    let files = Files::new("other");
    let server = files.start(|options| options.thrift = Some("127.0.0.1:0".parse().unwrap()));
    let mut good = files.peer(&server, 5);
    let framed =
        [&int(20)[..], &[0x80, 1, 0, 1], &long_string("describe_version"), &int(0), &[0]].concat();
    for (address, bytes) in [
        (server.address(), frame(4, 0, 1, OPTIONS, &[])),
        (server.address(), frame(5, 0, 1, STARTUP, &map(&[("CQL_VERSION", "3.0.0")]))),
        (server.address(), b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        (server.thrift_address().unwrap(), framed),
        // Begins like a handshake, but is not one.
        (server.address(), [&[0x16, 3, 1, 0, 200][..], &[7; 200]].concat()),
    ] {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.write_all(&bytes).unwrap();
        let mut answer = vec![];
        // The server may close before everything was read.
        if socket.read_to_end(&mut answer).is_ok() {
            assert!(answer.is_empty() || answer[0] == 0x15, "an alert or nothing: {answer:?}");
        }
        good.good("SELECT key FROM system.local");
    }
    // A TLS client on a plain port.
    let mut options = Options::ephemeral();
    options.thrift = Some("127.0.0.1:0".parse().unwrap());
    let plain = Server::start(options).unwrap();
    for address in [plain.address(), plain.thrift_address().unwrap()] {
        let (mut connection, _) = files.connect(&server);
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        connection.complete_io(&mut socket).unwrap_err();
    }
    Peer::ready(plain.address(), 4).good("SELECT key FROM system.local");
}

#[test]
fn a_refused_client_that_keeps_sending_can_read_the_reason() {
    let files = Files::new("refusal");
    let server = files.start(|options| {
        options.max_frame = 64 << 10;
        options.login_timeout = Duration::from_secs(600);
    });
    for (version, len) in [(4, 4 << 20), (5, 1 << 20)] {
        let mut peer = files.peer(&server, version);
        peer.send(2, QUERY, &vec![7; len]);
        assert_eq!(peer.receive().unwrap().error().0, 0x0a);
        let mut rest = vec![];
        assert_eq!(peer.socket.read_to_end(&mut rest).unwrap(), 0);
    }
}

#[test]
fn calls_of_thrift_are_encrypted_too() {
    let files = Files::new("thrift");
    let server = files.start(|options| options.thrift = Some("127.0.0.1:0".parse().unwrap()));
    let (connection, _) = files.connect(&server);
    let socket = TcpStream::connect(server.thrift_address().unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
    let call = [&[0x80, 1, 0, 1][..], &long_string("describe_version"), &int(7), &[0]].concat();
    stream.write_all(&[&int(call.len() as i32)[..], &call].concat()).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(answer) as usize];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.windows(6).any(|w| w == b"20.1.0"), "{answer:?}");
}

/// One end of a TLS connection, read and written by two threads.
struct BothWays {
    connection: Mutex<ClientConnection>,
    socket: TcpStream,
}

impl BothWays {
    fn write(&self, bytes: &[u8]) {
        for chunk in bytes.chunks(10_000) {
            let mut out = vec![];
            {
                let mut connection = self.connection.lock().unwrap();
                connection.writer().write_all(chunk).unwrap();
                while connection.wants_write() {
                    connection.write_tls(&mut out).unwrap();
                }
            }
            (&self.socket).write_all(&out).unwrap();
        }
    }
}

/// The reading half, with received bytes that are not decrypted: it decrypts them after all
/// decrypted bytes were read.
struct Incoming(Arc<BothWays>, Vec<u8>);

impl Read for Incoming {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.0.connection.lock().unwrap().reader().read(into) {
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.1.is_empty() {
                let mut chunk = [0; 4096];
                let len = (&self.0.socket).read(&mut chunk)?;
                self.1.extend_from_slice(&chunk[..len]);
            }
            let mut connection = self.0.connection.lock().unwrap();
            let taken = connection.read_tls(&mut &*self.1)?;
            connection.process_new_packets().map_err(std::io::Error::other)?;
            self.1.drain(..taken);
        }
    }
}

impl Write for Incoming {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn large_requests_and_responses_do_not_block_each_other() {
    let files = Files::new("large");
    let server = files.start(|_| {});
    with_table(&server);
    let (mut connection, mut socket) = files.connect(&server);
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).unwrap();
    }
    connection.set_buffer_limit(None);
    let both = Arc::new(BothWays { connection: Mutex::new(connection), socket });
    let mut peer = Peer::over(Incoming(both.clone(), vec![]), 4);
    peer.startup(&[("CQL_VERSION", "3.0.0")]);
    let ids = peer.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)");
    let row = |k: i32| (0..150_000 + k).map(|n| (n * 31 + k) as u8).collect::<Vec<_>>();
    const ROWS: i32 = 40;
    let puts: Vec<_> =
        (0..ROWS).map(|k| peer.execute_body(&ids, &[value(&int(k)), value(&row(k))], 0)).collect();
    // Each row is written, then read by a worker (all rows) and by the connection's thread (one).
    let sender = both.clone();
    let sending = std::thread::spawn(move || {
        for (k, put) in puts.iter().enumerate() {
            sender.write(&frame(4, 0, 1, EXECUTE, put));
            for (stream, text) in [
                (2, format!("SELECT v FROM ks.t WHERE k = {k}")),
                (3, format!("SELECT v FROM ks.t WHERE k IN ({k}, {})", k / 2)),
            ] {
                let body = [long_string(&text), plain(4)].concat();
                sender.write(&frame(4, 0, stream, QUERY, &body));
            }
        }
    });
    let mut seen = [0; 4];
    while seen != [0, ROWS, ROWS, ROWS] {
        let answer = peer.receive().unwrap();
        assert_eq!(answer.opcode, RESULT, "{:?}", answer.error());
        let stream = answer.stream as usize;
        if stream == 2 {
            // In the order of the requests.
            assert!(answer.body.ends_with(&value(&row(seen[2]))), "{}", seen[2]);
        }
        seen[stream] += 1;
    }
    sending.join().unwrap();
}

#[test]
fn a_client_that_never_reads_does_not_block_others() {
    let files = Files::new("slow");
    let server = files.start(|_| {});
    with_table(&server);
    let put = "INSERT INTO ks.t (k, v) VALUES (1, ?)";
    server.session().execute(put, (vec![7_u8; 1 << 20],)).unwrap();
    let mut slow = files.peer(&server, 4);
    for (stream, text) in [(1, "SELECT v FROM ks.t WHERE k = 1"), (2, "SELECT v FROM ks.t")] {
        let body = [long_string(text), plain(4)].concat();
        // The responses exceed the buffers of the system and the outbox.
        for _ in 0..12 {
            slow.send(stream, QUERY, &body);
        }
    }
    let mut other = files.peer(&server, 5);
    for _ in 0..50 {
        assert_eq!(other.good("SELECT k FROM ks.t").kind(), 2);
    }
    // When the client reads at last, all delayed responses are complete.
    for _ in 0..24 {
        assert!(slow.receive().unwrap().body.ends_with(&[7; 1 << 20]));
    }
    for _ in 0..24 {
        let body = [long_string("SELECT v FROM ks.t"), plain(4)].concat();
        slow.send(1, QUERY, &body);
    }
    server.stop().unwrap();
}

#[test]
fn certificates_are_reloaded_and_invalid_ones_are_ignored() {
    let files = Files::new("reload");
    let server = files.start(|_| {});
    let shown = || {
        let mut peer = files.peer(&server, 4);
        peer.good("SELECT key FROM system.local");
        let all = peer.socket.conn.peer_certificates().unwrap();
        all[0].clone().into_owned()
    };
    let first = shown();
    let mut old = files.peer(&server, 4);
    let second = files.renew();
    assert_eq!(shown(), first, "nobody has said so yet");
    server.reload_certificates().unwrap();
    assert!(second != first && shown() == second);
    assert_eq!(old.good("SELECT key FROM system.local").kind(), 2);
    // The key of another certificate.
    let (_, key) = files.authority.signed("127.0.0.1");
    files.write("key.pem", &key.serialize_pem());
    let e = server.reload_certificates().unwrap_err().to_string();
    assert!(e.contains("key.pem") && e.contains("is none of the TLS certificate"), "{e}");
    assert_eq!(shown(), second);
    assert_eq!(old.good("SELECT key FROM system.local").kind(), 2);
    Server::start(Options::ephemeral()).unwrap().reload_certificates().unwrap();
}

#[test]
fn missing_and_invalid_files_are_named() {
    let files = Files::new("bad");
    files.write("empty.pem", "");
    files.write("cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB");
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
    files.write("locked.pem", locked);
    let good = files.tls();
    let at = |name: &str| files.dir.join(name);
    for (tls, wanted) in [
        (
            TlsOptions { certificate: at("none.pem"), ..good.clone() },
            "the TLS certificate can't be read",
        ),
        (TlsOptions { certificate: at("empty.pem"), ..good.clone() }, "has no certificate"),
        (TlsOptions { certificate: at("cut.pem"), ..good.clone() }, "is no PEM"),
        (
            TlsOptions { key: at("none.pem"), ..good.clone() },
            "the key of the TLS certificate can't be read",
        ),
        (TlsOptions { key: at("server.pem"), ..good.clone() }, "has no private key"),
        (TlsOptions { key: at("locked.pem"), ..good.clone() }, "has a password"),
        (TlsOptions { clients: Some(at("empty.pem")), ..good.clone() }, "has no certificate"),
    ] {
        let mut options = Options::ephemeral();
        options.tls = Some(tls);
        let e = options.check().unwrap_err().to_string();
        assert!(e.contains(wanted) && e.contains(".pem"), "{e}");
        assert_eq!(Server::start(options).unwrap_err().to_string(), e);
    }
}

#[test]
fn the_client_encrypts_and_looks_at_certificates() {
    use firn_server::TlsTrust;
    use firn_server::client::{ClientOptions, ClientRun, CqlClient, FamilyClient};

    let files = Files::new("client");
    let server = files.start(|options| options.thrift = Some("127.0.0.1:0".parse().unwrap()));
    let trust = |authorities: &str| TlsTrust {
        authorities: files.dir.join(authorities),
        certificate: None,
    };
    let options = |server: &Server, tls: Option<TlsTrust>| {
        let mut options = ClientOptions::new(server.address().to_string());
        options.tls = tls;
        options
    };
    let mut client = CqlClient::connect(&options(&server, Some(trust("clients.pem")))).unwrap();
    let long = "y".repeat(300_000);
    for _ in 0..3 {
        let asked = format!("SELECT cluster_name FROM system.local -- {long}");
        let rows = client.query(&asked, &ClientRun::default()).unwrap().rows;
        assert_eq!(rows.typed::<(String,)>().unwrap(), [("Firn".to_owned(),)]);
        assert!(client.is_open());
    }
    let mut families = options(&server, Some(trust("clients.pem")));
    families.address = server.thrift_address().unwrap().to_string();
    let name = FamilyClient::connect(&families).unwrap().describe("cluster_name").unwrap();
    assert_eq!(name, "Firn");
    // Another authority has signed it; the port has no TLS; it only has TLS; no such file.
    files.write("others.pem", &Authority::new("somebody else").certificate.pem());
    let refused = |server: &Server, tls: Option<TlsTrust>| {
        CqlClient::connect(&options(server, tls)).unwrap_err().to_string()
    };
    let other = refused(&server, Some(trust("others.pem")));
    assert!(other.contains("no TLS connection was agreed on"), "{other}");
    let plain = Server::start(Options::ephemeral()).unwrap();
    let reported = refused(&plain, Some(trust("clients.pem")));
    assert!(reported.contains("the server speaks no TLS at this port"), "{reported}");
    assert!(!refused(&server, None).is_empty());
    let missing = refused(&server, Some(trust("none.pem")));
    assert!(missing.contains("server certificate authorities can't be read"), "{missing}");
    server.stop().unwrap();
    assert!(!client.is_open());
    // If client certificates are required, too.
    let strict = files.start(|options| {
        options.tls =
            Some(TlsOptions { clients: Some(files.dir.join("clients.pem")), ..files.tls() });
    });
    assert!(!refused(&strict, Some(trust("clients.pem"))).is_empty());
    let (certificate, key) = files.authority.signed("ann");
    files.write("ann.pem", &certificate.pem());
    files.write("ann.key", &key.serialize_pem());
    let own = Some((files.dir.join("ann.pem"), files.dir.join("ann.key")));
    let both = TlsTrust { certificate: own, ..trust("clients.pem") };
    CqlClient::connect(&options(&strict, Some(both))).unwrap();
}
