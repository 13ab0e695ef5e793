//! TLS connections to a cluster: trusted and untrusted certificates. The cluster is Firn's server.

#![allow(clippy::disallowed_methods, reason = "a test has no environment")]

use std::path::PathBuf;

use firn_cluster::{ClusterUrl, Session};
use firn_cql::ErrorClass;
use firn_server::{Options, Server, TlsOptions};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair,
};

/// A directory with certificates of an authority, and of another one.
struct Files {
    dir: PathBuf,
    authority: (Certificate, KeyPair),
}

impl Files {
    fn new(name: &str) -> Files {
        let dir =
            std::env::temp_dir().join(format!("firn-cluster-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let files = Files { dir, authority: Files::authority("authority") };
        files.write("ca.pem", &files.authority.0.pem());
        files.write("other.pem", &Files::authority("another").0.pem());
        files.write("none.pem", "no certificate");
        for (file, name) in [("node", "127.0.0.1"), ("named", "node.example"), ("client", "ann")] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            let (by, by_key) = &files.authority;
            let certificate = params.signed_by(&key, by, by_key).unwrap();
            files.write(&format!("{file}.pem"), &certificate.pem());
            files.write(&format!("{file}.key"), &key.serialize_pem());
        }
        files
    }

    fn authority(name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.self_signed(&key).unwrap(), key)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn serve(&self, certificate: &str, wants_certificates: bool) -> Server {
        let mut options = Options::ephemeral();
        let file = |end: &str| self.dir.join(format!("{certificate}.{end}"));
        let mut tls = TlsOptions::new(file("pem"), file("key"));
        tls.clients = wants_certificates.then(|| self.dir.join("ca.pem"));
        options.tls = Some(tls);
        Server::start(options).unwrap()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

#[track_caller]
fn assert_asks(url: &str) {
    let session = Session::connect(url).unwrap_or_else(|e| panic!("{url}: {e}"));
    let rows: Vec<(String,)> =
        session.execute("SELECT key FROM system.local", ()).unwrap().typed().unwrap();
    assert_eq!(rows, [("local".to_owned(),)]);
    session.close().unwrap();
}

#[track_caller]
fn assert_refused(url: &str, class: ErrorClass, text: &str, help: &str) {
    let refused = Session::connect(url).unwrap_err();
    let reported = refused.help().unwrap_or_default();
    assert_eq!(refused.class(), class, "{refused}");
    assert!(
        refused.to_string().contains(text) && reported.contains(help),
        "{refused} ({reported})"
    );
}

#[test]
fn nodes_are_trusted_by_their_authority_and_their_address() {
    let files = Files::new("nodes");
    let server = files.serve("node", false);
    let (at, ca, other) = (server.address(), files.path("ca.pem"), files.path("other.pem"));
    assert_asks(&format!("cassandra+tls://{at}?tls_ca={ca}"));
    assert_asks(&format!("cassandra://{at}?tls=true&tls_ca={ca}"));
    let short = "connect_timeout=3&request_timeout=3";
    let class = ErrorClass::Unanswered;
    assert_refused(
        &format!("cassandra+tls://{at}?tls_ca={other}&{short}"),
        class,
        "UnknownIssuer",
        "tls_ca",
    );
    // Ignoring the name does not ignore the authority.
    let any_name = format!("cassandra+tls://{at}?tls_ca={other}&tls_hostname=false&{short}");
    assert_refused(&any_name, class, "UnknownIssuer", "tls_ca");
    assert_refused(&format!("cassandra://{at}?{short}"), class, "cannot connect", "tls=true");
    let plain = Server::start(Options::ephemeral()).unwrap();
    let url = format!("cassandra+tls://{}?tls_ca={ca}&{short}", plain.address());
    assert_refused(&url, class, "cannot connect", "speaks TLS");
    plain.stop().unwrap();
    server.stop().unwrap();

    let server = files.serve("named", false);
    let at = server.address();
    let url = format!("cassandra+tls://{at}?tls_ca={ca}&{short}");
    assert_refused(&url, class, "cannot connect", "tls_hostname=false");
    assert_asks(&format!("{url}&tls_hostname=false"));
    server.stop().unwrap();
}

#[test]
fn a_client_has_a_certificate_where_nodes_want_one() {
    let files = Files::new("clients");
    let server = files.serve("node", true);
    let url = format!(
        "cassandra+tls://{}?tls_ca={}&connect_timeout=3&request_timeout=3",
        server.address(),
        files.path("ca.pem")
    );
    let own = |certificate: &str, key: &str| {
        let (certificate, key) = (files.path(certificate), files.path(key));
        format!("{url}&tls_certificate={certificate}&tls_key={key}")
    };
    assert_asks(&own("client.pem", "client.key"));
    assert_refused(&url, ErrorClass::Unanswered, "cannot connect", "");
    let class = ErrorClass::Configuration;
    assert_refused(&own("client.pem", "node.key"), class, "tls_certificate", "tls_key");
    assert_refused(&own("none.pem", "client.key"), class, "has no certificate", "BEGIN");
    assert_refused(&own("client.pem", "none.pem"), class, "has no private key", "PKCS#8");
    assert_refused(&own("gone.pem", "client.key"), class, "cannot read", "PEM");
    server.stop().unwrap();
}

#[test]
fn options_of_tls_belong_together() {
    for (options, text) in [
        ("cassandra://a?tls_ca=ca.pem", "does not ask for it"),
        ("cassandra+tls://a?tls=false", "does not ask for it"),
        ("cassandra://a?tls=maybe", "neither true nor false"),
        ("cassandra+tls://a?tls_ca=ca.pem&tls_key=key.pem", "belong together"),
    ] {
        let refused = ClusterUrl::parse(options).unwrap_err().to_string();
        assert!(refused.contains(text), "{options}: {refused}");
    }
    let class = ErrorClass::Configuration;
    assert_refused("cassandra+tls://127.0.0.1:1", class, "names no authority", "tls_ca=FILE");
}
