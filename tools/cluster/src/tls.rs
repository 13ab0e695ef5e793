//! TLS connections (TLS 1.2 and 1.3), with rustls and ring.
//!
//! Invariant: an authority in the file `tls_ca` signed the node's certificate. The certificate
//! contains the node's address, unless `tls_hostname=false`.

use std::path::Path;
use std::sync::Arc;

use firn_cql::{Error, ErrorClass, Result};
use firn_kv::OsEnv;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::address::TlsChoice;

/// Largest file to read: thousands of certificates.
const MOST: u64 = 16 << 20;

fn wrong(text: String, help: &str) -> Error {
    Error::Refused { class: ErrorClass::Configuration, text, help: Some(help.to_owned()) }
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>> {
    OsEnv::new().read_all(path, MOST).map_err(|e| {
        wrong(format!("{option}: cannot read {}: {e}", path.display()), "name a file of PEM")
    })
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let bytes = read(option, path)?;
    let all: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = all.map_err(|e| format!("is no PEM: {e}"));
    let found = found.and_then(|all| match all.is_empty() {
        true => Err("has no certificate".to_owned()),
        false => Ok(all),
    });
    found.map_err(|why| {
        wrong(
            format!("{option}: {} {why}", path.display()),
            "a certificate begins with BEGIN CERTIFICATE",
        )
    })
}

fn key(option: &str, path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(&read(option, path)?).map_err(|e| {
        let text = format!("{option}: {} has no private key: {e}", path.display());
        wrong(text, "it is PKCS#8, PKCS#1 or SEC1 without a password")
    })
}

/// Verifies certificates without their names.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let found =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match found {
            // The name is checked last, so all other checks have passed.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Builds the TLS configuration of connections.
///
/// # Errors
/// `Configuration` for a file that is missing or has no certificate or key.
pub(crate) fn config(choice: &TlsChoice) -> Result<Arc<ClientConfig>> {
    let Some(authorities) = &choice.authorities else {
        return Err(wrong(
            "the URL asks for TLS and names no authority".to_owned(),
            "add tls_ca=FILE, a PEM file with the authorities that sign the nodes' certificates",
        ));
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls_ca", authorities)? {
        let refused =
            |e| wrong(format!("tls_ca: {}: {e}", authorities.display()), "name a file of PEM");
        roots.add(certificate).map_err(refused)?;
    }
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier =
        verifier.build().map_err(|e| wrong(format!("tls_ca: {e}"), "name a file of PEM"))?;
    let broken = |e| wrong(format!("TLS: {e}"), "report this as a bug in Firn");
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(broken)?;
    let builder = match choice.checks_names {
        true => builder.with_webpki_verifier(verifier),
        false => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(verifier))),
    };
    let made = match &choice.certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key_file)) => {
            let chain = certificates("tls_certificate", certificate)?;
            let own = builder.with_client_auth_cert(chain, key("tls_key", key_file)?);
            own.map_err(|e| {
                wrong(format!("tls_certificate: {e}"), "tls_key is the key of that certificate")
            })?
        }
    };
    Ok(Arc::new(made))
}
