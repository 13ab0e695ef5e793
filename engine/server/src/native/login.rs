//! Setup of a connection: OPTIONS, STARTUP, and AUTH_RESPONSE if clients must log in.

use firn_cql::internals::catalog::CQL_VERSION;

use super::client::{Client, NegotiatedProtocol};
use crate::node::{FAILED_LOGIN_DELAY, Node};
use crate::wire::{BodyCompression, ErrorCode, Opcode, Version, WireError};

/// Authenticator class that drivers know: it requires a name and a password.
const AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

/// Options that a client may choose from.
const SUPPORTED: [(&str, &[&str]); 3] = [
    ("PROTOCOL_VERSIONS", &["3/v3", "4/v4", "5/v5"]),
    ("COMPRESSION", &["snappy", "lz4"]),
    ("CQL_VERSION", &[CQL_VERSION]),
];

/// Answers OPTIONS.
pub fn options(client: &Client, version: Version, stream: i16) {
    let compression = client.negotiated.get().and_then(|d| d.compression);
    client.put(version, compression, stream, Opcode::Supported, (&[], None), |body| {
        body.supported(&SUPPORTED);
    });
}

/// Carries out STARTUP and returns the negotiated protocol properties. It stores all options of the
/// client, whatever they are.
///
/// # Errors
/// A missing or too old version of CQL; an unknown compression.
pub fn startup(
    client: &Client,
    version: Version,
    options: &[(&str, &str)],
) -> Result<NegotiatedProtocol, WireError> {
    let option = |name: &str| {
        options.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    };
    let wanted = option("CQL_VERSION")
        .ok_or_else(|| WireError::protocol("Missing value CQL_VERSION in STARTUP message"))?;
    // Newer versions are accepted, as in Cassandra: a driver may send 4.0.0.
    if major(wanted).is_none_or(|major| major < 3) {
        return Err(WireError::protocol(format!(
            "CQL version {wanted} is not supported by the binary protocol (supported version are >= 3.0.0)"
        )));
    }
    let compression = match option("COMPRESSION").filter(|c| !c.is_empty()) {
        None => None,
        Some(name) => match BodyCompression::named(name) {
            Some(BodyCompression::Snappy) if version == Version::V5 => {
                let text = "Unsupported compression type snappy in version 5";
                return Err(WireError::protocol(text));
            }
            None => {
                let text = format!("Unknown compression algorithm: {name}");
                return Err(WireError::protocol(text));
            }
            known => known,
        },
    };
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    *client.about.lock() = options.iter().map(owned).collect();
    let refuses_on_overload = option("THROW_ON_OVERLOAD") == Some("1");
    Ok(NegotiatedProtocol { version, compression, refuses_on_overload })
}

/// Requests a name and a password.
pub fn ask(client: &Client, version: Version, stream: i16) {
    client.put(version, None, stream, Opcode::Authenticate, (&[], None), |body| {
        body.authenticate(AUTHENTICATOR);
    });
}

/// Logs a client in by its response: `[role] 0 name 0 password`.
///
/// # Errors
/// A wrong name or password; malformed bytes; `Overloaded` while many others log in.
pub fn log_in(node: &Node, client: &Client, token: Option<&[u8]>) -> Result<(), WireError> {
    let mut parts = token.unwrap_or_default().rsplitn(3, |b| *b == 0);
    let (password, name) = (parts.next(), parts.next());
    let text =
        |part: Option<&[u8]>| part.and_then(|p| std::str::from_utf8(p).ok()).map(str::to_owned);
    let (Some(password), Some(name), Some(_)) = (text(password), text(name), parts.next()) else {
        return Err(WireError::protocol("The answer to AUTHENTICATE is no name and password"));
    };
    let Some(queued) = node.logins.enter(client.peer.ip()) else {
        let text = "Too many clients log in at once; try again later";
        return Err(WireError::new(ErrorCode::Overloaded, text));
    };
    let done = client.session.log_in(&name, &password);
    drop(queued);
    done.map_err(|e| {
        tracing::warn!(client = %client.peer, role = name, "a login was refused");
        node.env.sleep(FAILED_LOGIN_DELAY);
        WireError::new(ErrorCode::Credentials, e.text().into_owned())
    })
}

/// Returns the first number of a version.
fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}
