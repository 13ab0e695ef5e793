//! `--connect`: options of shells and benches that connect to a server or a cluster.
//!
//! Invariant: a password is never on the command line. It is asked for, or read from a file or the
//! environment.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
#[cfg(feature = "cluster")]
use firn_cluster::ClusterUrl;
#[cfg(feature = "cluster")]
use firn_cql::{Error, ErrorClass};
use firn_server::TlsTrust;
use firn_server::client::ClientOptions;
use firn_tools::io::{self, Input, secret};
use firn_tools::output::{Done, Failure};

use crate::store::Global;

/// Environment variable of the password, for programs that start a shell.
const PASSWORD_VARIABLE: &str = "FIRN_PASSWORD";
/// Advice if a server requires a login, or refuses one.
pub const LOG_IN: &str = "log in with --user NAME: the password is asked for, or read from --password-file or $FIRN_PASSWORD";
/// Advice if the TLS handshake fails.
pub const NOT_ENCRYPTED: &str = "give --tls-ca the certificate that signed the server's, and --connect the name or address in the server's certificate; \
                                 without --tls-ca the connection is plain";
/// Limit on the size of a password file.
const MAX_PASSWORD: u64 = 64 << 10;
/// Prefix of the URL of a cluster.
const URL: &str = "cassandra://";
/// Prefix of the URL of a cluster with TLS.
const TLS_URL: &str = "cassandra+tls://";
/// Heading of these options in help texts.
const HEADING: &str = "A server instead of a store";

/// Arguments of shells that connect to a server.
#[derive(Args, Clone, Debug)]
pub struct ConnectArgs {
    /// Connect to a server, Firn's or Cassandra's, instead of opening a store; with CQL also to a
    /// cluster, by its URL
    #[arg(long, value_name = "HOST[:PORT]|cassandra://…", help_heading = HEADING)]
    connect: Option<String>,
    /// Log in as this role; its password is asked for, or read from --password-file or
    /// $FIRN_PASSWORD
    #[arg(short, long, value_name = "NAME", requires = "connect", help_heading = HEADING)]
    user: Option<String>,
    /// Read the password from the first line of this file
    #[arg(long, value_name = "FILE", requires = "user", help_heading = HEADING)]
    password_file: Option<PathBuf>,
    /// Encrypt the connection; the server's certificate must be signed by one of this file (PEM)
    #[arg(long, value_name = "FILE", requires = "connect", help_heading = HEADING)]
    tls_ca: Option<PathBuf>,
    /// Present this client certificate, if the server requires one (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"], help_heading = HEADING)]
    tls_certificate: Option<PathBuf>,
    /// Use this private key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate", help_heading = HEADING)]
    tls_key: Option<PathBuf>,
    /// Time out after this many seconds without a part of the answer; a URL has its own option for
    /// this
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..), help_heading = HEADING)]
    request_timeout: u64,
}

/// Reports whether `text` is a URL of a cluster.
fn is_url(text: &str) -> bool {
    text.starts_with(URL) || text.starts_with(TLS_URL)
}

/// Target of `--connect`.
pub enum ConnectTarget {
    /// A server at an address.
    Server(ClientOptions),
    /// A cluster, by a URL.
    #[cfg(feature = "cluster")]
    Cluster(ClusterUrl),
}

/// Returns the failure to report if a cluster cannot be reached.
#[cfg(feature = "cluster")]
pub fn not_connected(e: &Error) -> Failure {
    let text = e.text().into_owned();
    match e.class() {
        ErrorClass::BadCredentials => Failure::with_next(text, LOG_IN),
        _ => Failure::Failed { what: text, next: e.help().map(str::to_owned) },
    }
}

impl ConnectArgs {
    /// Returns the server that the arguments name; `None` if they name none. `port` is the default
    /// port.
    ///
    /// # Errors
    /// The arguments also name a store, `--connect` is a URL, or the password is not available.
    pub fn options(&self, global: &Global, port: u16) -> Done<Option<ClientOptions>> {
        let Some(connect) = &self.connect else { return Ok(None) };
        if global.names_store {
            return Err(Failure::with_next(
                "statements can't go to a store (--db) and to a server (--connect)",
                "leave one of them out",
            ));
        }
        if is_url(connect) {
            return Err(Failure::with_next(
                "the URL of a cluster works only with CQL",
                "`firn cql --connect` takes one; here write HOST or HOST:PORT",
            ));
        }
        let mut options = ClientOptions::new(with_port(connect, port)?);
        if let Some(user) = &self.user {
            options.login = Some((user.clone(), password(user, self.password_file.as_deref())?));
        }
        options.request_timeout = Some(Duration::from_secs(self.request_timeout));
        options.tls = self.tls_ca.clone().map(|authorities| TlsTrust {
            authorities,
            certificate: self.tls_certificate.clone().zip(self.tls_key.clone()),
        });
        Ok(Some(options))
    }

    /// Returns the server or cluster that the arguments name; `None` if they name none.
    ///
    /// # Errors
    /// As for [`options`](ConnectArgs::options), and an invalid URL.
    pub fn target(&self, global: &Global, port: u16) -> Done<Option<ConnectTarget>> {
        #[cfg(feature = "cluster")]
        if !global.names_store && self.connect.as_ref().is_some_and(|c| is_url(c)) {
            return Ok(self.cluster()?.map(ConnectTarget::Cluster));
        }
        #[cfg(not(feature = "cluster"))]
        if self.connect.as_ref().is_some_and(|c| is_url(c)) {
            return Err(without_driver());
        }
        Ok(self.options(global, port)?.map(ConnectTarget::Server))
    }

    /// Returns the cluster that the arguments name, by its URL or the address of a node; `None` if
    /// they name none.
    ///
    /// # Errors
    /// The URL is invalid or contains a password, the arguments have TLS options, or the password
    /// is not available.
    #[cfg(feature = "cluster")]
    pub fn cluster(&self) -> Done<Option<ClusterUrl>> {
        let Some(connect) = &self.connect else { return Ok(None) };
        if self.tls_ca.is_some() {
            return Err(Failure::with_next(
                "--tls-ca is for a server, and this is a cluster",
                "write it into the URL: cassandra+tls://HOST?tls_ca=FILE, with tls_certificate=FILE and tls_key=FILE if the nodes require them",
            ));
        }
        cluster_url(connect, self.user.as_deref(), self.password_file.as_deref()).map(Some)
    }

    /// Refuses a cluster.
    #[cfg(not(feature = "cluster"))]
    pub fn cluster(&self) -> Done {
        self.connect.as_ref().map_or(Ok(()), |_| Err(without_driver()))
    }
}

/// Returns the cluster of a URL or of the address of a node. The login is separate from the URL.
///
/// # Errors
/// The URL is invalid or contains a password, or the password is not available.
#[cfg(feature = "cluster")]
pub fn cluster_url(text: &str, user: Option<&str>, file: Option<&Path>) -> Done<ClusterUrl> {
    let text = match is_url(text) {
        true => text.to_owned(),
        false => format!("{URL}{text}"),
    };
    let url = ClusterUrl::parse(&text).map_err(|e| not_connected(&e))?;
    if url.has_password() {
        return Err(Failure::with_next(
            "other users of this machine can see a password on the command line",
            format!("leave it out of the URL, and {LOG_IN}"),
        ));
    }
    let Some(user) = user.map(str::to_owned).or_else(|| url.user().map(str::to_owned)) else {
        return Ok(url);
    };
    let password = password(&user, file)?;
    Ok(url.with_login(user, password))
}

/// Returns the password of a role: from a file, the environment or the terminal.
///
/// # Errors
/// A file that cannot be read, and no terminal.
pub fn password(user: &str, file: Option<&Path>) -> Done<String> {
    if let Some(file) = file {
        return first_line(file);
    }
    if let Ok(password) = std::env::var(PASSWORD_VARIABLE) {
        return Ok(password);
    }
    if !io::stdin_is_terminal() || !io::stderr_is_terminal() {
        return Err(Failure::with_next(
            format!("the password of {user} can only be asked for at a terminal"),
            format!("name a file with --password-file, or set {PASSWORD_VARIABLE}"),
        ));
    }
    let failed = |e: std::io::Error| Failure::new(format!("cannot read from the terminal: {e}"));
    secret(&format!("Password of {user}: ")).map_err(failed)
}

/// Returns a failure that names the build with the driver for clusters.
#[cfg(not(feature = "cluster"))]
pub fn without_driver() -> Failure {
    Failure::with_next(
        "this build of firn has no driver for clusters",
        "`cargo install --path tools/firn --features full` builds one; `firn cql --connect HOST:PORT` connects to one node without it",
    )
}

fn first_line(file: &Path) -> Done<String> {
    use std::io::Read;
    let failed = |e: std::io::Error| Failure::file("read", file, &e);
    let mut text = String::new();
    Input::open(file)
        .map_err(failed)?
        .take(MAX_PASSWORD)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Completes an address to `HOST:PORT`. Users write `db.example`, `db.example:9142`, `::1` or
/// `[::1]:9142`.
pub fn with_port(text: &str, port: u16) -> Done<String> {
    let wrong = || {
        Failure::with_next(
            format!("{text:?} is not the address of a server"),
            format!("write HOST or HOST:PORT, as 127.0.0.1:{port} or [::1]:{port}"),
        )
    };
    let host = match text.rsplit_once(':') {
        // An IPv6 address contains several colons.
        Some((front, _)) if front.contains(':') && !text.starts_with('[') => text,
        Some((host, digits)) if !digits.contains(']') => {
            let good = !host.is_empty() && digits.parse::<u16>().is_ok_and(|n| n > 0);
            return if good { Ok(text.to_owned()) } else { Err(wrong()) };
        }
        _ => text,
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match (bare.is_empty(), bare.contains(':')) {
        (true, _) => Err(wrong()),
        (false, true) => Ok(format!("[{bare}]:{port}")),
        (false, false) => Ok(format!("{bare}:{port}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_be_left_out() {
        let read = |text: &str| with_port(text, 9042).map_err(|_| ());
        for (text, address) in [
            ("localhost", "localhost:9042"),
            ("10.0.0.1:9142", "10.0.0.1:9142"),
            ("::1", "[::1]:9042"),
            ("[::1]", "[::1]:9042"),
            ("[::1]:9142", "[::1]:9142"),
        ] {
            assert_eq!(read(text), Ok(address.to_owned()), "{text}");
        }
        for wrong in ["", ":9042", "host:", "host:x", "host:0", "host:70000", "[]"] {
            assert_eq!(read(wrong), Err(()), "{wrong}");
        }
    }
}
