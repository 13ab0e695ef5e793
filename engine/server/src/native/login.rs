//! What a conversation begins with: OPTIONS and STARTUP.

use super::client::{Client, Dialect};
use crate::wire::{BodyCompression, Opcode, Version, WireError};
use firn_cql::internals::catalog::CQL_VERSION;

/// What a client may choose from.
const SUPPORTED: [(&str, &[&str]); 3] = [
    ("PROTOCOL_VERSIONS", &["3/v3", "4/v4", "5/v5"]),
    ("COMPRESSION", &["snappy", "lz4"]),
    ("CQL_VERSION", &[CQL_VERSION]),
];

/// Answers OPTIONS.
pub fn options(client: &Client, version: Version, stream: i16) {
    let compression = client.dialect.get().and_then(|d| d.compression);
    client.put(version, compression, stream, Opcode::Supported, (&[], None), |body| {
        body.supported(&SUPPORTED);
    });
}

/// Carries out STARTUP, and gives the language of the conversation. What the client says of itself,
/// whatever it is, is kept.
///
/// # Errors
/// No version of CQL, or one that is too old; a compression that there is not.
pub fn startup(
    client: &Client,
    version: Version,
    options: &[(&str, &str)],
) -> Result<Dialect, WireError> {
    let option = |name: &str| {
        options.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    };
    let wanted = option("CQL_VERSION")
        .ok_or_else(|| WireError::protocol("Missing value CQL_VERSION in STARTUP message"))?;
    // Newer ones are taken, as servers do: a driver may say 4.0.0.
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
    let throws_on_overload = option("THROW_ON_OVERLOAD") == Some("1");
    Ok(Dialect { version, compression, throws_on_overload })
}

/// The first number of a version.
fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}
