//! TLS files: certificates and keys in PEM.
//!
//! Invariant: new files are used only if all of them are valid and consistent; otherwise the
//! previous ones stay.

use std::fmt;
use std::net::TcpStream;
use std::path::PathBuf;

use firn_kv::Env;

use super::connection::Transport;

/// TLS settings of a server (TLS 1.2 and 1.3). All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The server's certificate, followed by the certificates that sign it, except the root.
    pub certificate: PathBuf,
    /// Private key: PKCS#8, PKCS#1 or SEC1, without a password.
    pub key: PathBuf,
    /// Certificate authorities for clients' certificates. `None`: clients need no certificate.
    pub clients: Option<PathBuf>,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

impl TlsOptions {
    /// Returns the settings with this certificate and private key, for clients without certificates.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> TlsOptions {
        TlsOptions {
            certificate: certificate.into(),
            key: key.into(),
            clients: None,
            _non_exhaustive: (),
        }
    }
}

impl fmt::Display for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS 1.2 and 1.3, with {}", self.certificate.display())?;
        match &self.clients {
            Some(clients) => write!(f, "; clients have a certificate of {}", clients.display()),
            None => Ok(()),
        }
    }
}

/// TLS settings of a client (TLS 1.2 and 1.3). All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsTrust {
    /// Certificate authorities for the server's certificate, which must be valid for the name or
    /// address that the client connects to.
    pub authorities: PathBuf,
    /// The client's own certificate and key, if the server requires one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Prepares a TLS connection to this host; the handshake follows.
///
/// # Errors
/// Always: this build has no TLS.
#[cfg(not(feature = "tls"))]
pub fn encrypted_to(_: &dyn Env, _: &TlsTrust, _: &str, _: TcpStream) -> Result<Transport, String> {
    Err("this program was built without TLS: build it with the feature `tls`".to_owned())
}

#[cfg(feature = "tls")]
pub use files::encrypted_to;

/// TLS configuration of new connections.
#[cfg(feature = "tls")]
pub struct TlsAcceptor {
    options: TlsOptions,
    config: parking_lot::RwLock<std::sync::Arc<rustls::ServerConfig>>,
}

/// Uninhabited: this build has no TLS.
#[cfg(not(feature = "tls"))]
pub enum TlsAcceptor {}

#[cfg(not(feature = "tls"))]
impl TlsAcceptor {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: &dyn Env, _: &TlsOptions) -> Result<TlsAcceptor, String> {
        Err("this program was built without TLS: build it with the feature `tls`".to_owned())
    }

    /// Never called.
    pub fn reload(&self, _: &dyn Env) -> Result<(), String> {
        match *self {}
    }

    /// Never called.
    pub fn accept(&self, _: TcpStream) -> Result<Transport, String> {
        match *self {}
    }
}

#[cfg(feature = "tls")]
mod files {
    use std::path::Path;
    use std::sync::Arc;

    use parking_lot::RwLock;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::server::WebPkiClientVerifier;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

    use super::super::tls::TlsChannel;
    use super::{Env, TcpStream, TlsAcceptor, TlsOptions, TlsTrust, Transport};

    /// Largest file to read: thousands of certificates.
    const MAX_FILE: u64 = 16 << 20;

    fn read(env: &dyn Env, path: &Path, what: &str) -> Result<Vec<u8>, String> {
        let len = env.file_len(path).map_err(|e| format!("the {what} can't be read: {e}"))?;
        if len > MAX_FILE {
            return Err(format!("the {what}, {}, is larger than {MAX_FILE} bytes", path.display()));
        }
        env.read_all(path, MAX_FILE).map_err(|e| format!("the {what} can't be read: {e}"))
    }

    fn certificates(
        env: &dyn Env,
        path: &Path,
        what: &str,
    ) -> Result<Vec<CertificateDer<'static>>, String> {
        let bytes = read(env, path, what)?;
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let all = all.map_err(|e| format!("the {what}, {}, is no PEM: {e}", path.display()))?;
        if all.is_empty() {
            return Err(format!(
                "the {what}, {}, has no certificate: a PEM file has lines -----BEGIN CERTIFICATE-----",
                path.display()
            ));
        }
        Ok(all)
    }

    fn key(env: &dyn Env, path: &Path) -> Result<PrivateKeyDer<'static>, String> {
        let what = "key of the TLS certificate";
        let bytes = read(env, path, what)?;
        PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| {
            let locked = bytes.windows(9).any(|w| w == b"ENCRYPTED");
            let why = match e {
                _ if locked => {
                    "has a password: take it off (openssl pkey -in FILE -out FILE)".to_owned()
                }
                rustls::pki_types::pem::Error::NoItemsFound => {
                    "has no private key: a PEM file has a line -----BEGIN PRIVATE KEY-----"
                        .to_owned()
                }
                e => format!("is no PEM: {e}"),
            };
            format!("the {what}, {}, {why}", path.display())
        })
    }

    fn roots(env: &dyn Env, path: &Path, what: &str) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        for root in certificates(env, path, what)? {
            roots.add(root).map_err(|e| format!("the {what}, {}: {e}", path.display()))?;
        }
        Ok(roots)
    }

    /// Prepares a TLS connection to this host; the handshake follows.
    ///
    /// # Errors
    /// A file that cannot be read, is not PEM or lacks the expected content; an invalid host name.
    pub fn encrypted_to(
        env: &dyn Env,
        trust: &TlsTrust,
        host: &str,
        socket: TcpStream,
    ) -> Result<Transport, String> {
        let roots = roots(env, &trust.authorities, "file of server certificate authorities")?;
        let builder =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|e| e.to_string())?
                .with_root_certificates(roots);
        let config = match &trust.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key_file)) => {
                let chain = certificates(env, certificate, "TLS certificate")?;
                let own = builder.with_client_auth_cert(chain, key(env, key_file)?);
                own.map_err(|e| format!("the TLS certificate {}: {e}", certificate.display()))?
            }
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            format!("{host:?} is no name or address that a certificate could be for")
        })?;
        let connection =
            ClientConnection::new(Arc::new(config), name).map_err(|e| e.to_string())?;
        Ok(Transport::encrypted(socket, TlsChannel::new(connection.into())))
    }

    fn config(env: &dyn Env, options: &TlsOptions) -> Result<ServerConfig, String> {
        let chain = certificates(env, &options.certificate, "TLS certificate")?;
        let key = key(env, &options.key)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?;
        let builder = match &options.clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let what = "file of client certificate authorities";
                let roots = roots(env, path, what)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                let verifier = verifier.build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|e| format!("the {what}, {}: {e}", path.display()))?,
                )
            }
        };
        let (certificate, key_file) = (options.certificate.display(), options.key.display());
        builder.with_single_cert(chain, key).map_err(|e| match e {
            rustls::Error::InconsistentKeys(_) => format!(
                "the key {key_file} is none of the TLS certificate {certificate}: take the two that were made together, \
                 the server's own certificate first in its file"
            ),
            e => format!("the TLS certificate {certificate} can't be used with the key {key_file}: {e}"),
        })
    }

    impl TlsAcceptor {
        /// Loads these files.
        ///
        /// # Errors
        /// A file that cannot be read, is not PEM or lacks the expected content; a key that does
        /// not match the certificate.
        pub fn new(env: &dyn Env, options: &TlsOptions) -> Result<TlsAcceptor, String> {
            let config = RwLock::new(Arc::new(config(env, options)?));
            Ok(TlsAcceptor { options: options.clone(), config })
        }

        /// Reloads the files for new connections.
        ///
        /// # Errors
        /// As [`new`](TlsAcceptor::new). The previous configuration stays.
        pub fn reload(&self, env: &dyn Env) -> Result<(), String> {
            let fresh = Arc::new(config(env, &self.options)?);
            *self.config.write() = fresh;
            Ok(())
        }

        /// Prepares a TLS connection with a client; the handshake follows.
        ///
        /// # Errors
        /// Invalid settings.
        pub fn accept(&self, socket: TcpStream) -> Result<Transport, String> {
            let connection = ServerConnection::new(self.config.read().clone());
            let connection = connection.map_err(|e| e.to_string())?.into();
            Ok(Transport::encrypted(socket, TlsChannel::new(connection)))
        }
    }
}
