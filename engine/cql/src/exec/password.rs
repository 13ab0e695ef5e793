//! Password hashing with argon2id and a random salt. Cassandra's bcrypt hashes are accepted too.
//! Without the feature `passwords`, hashes computed elsewhere can be stored, but not checked.
//!
//! Invariant: a hash that costs more than `MOST_MEMORY`, `MOST_PASSES` or `MOST_BCRYPT` is refused
//! at its definition and matches no password.

#[cfg(feature = "passwords")]
mod slots;

use crate::error::Result;

/// Maximum memory of an argon2 hash computed elsewhere, in KiB: 64 MiB.
const MOST_MEMORY: u32 = 64 << 10;
/// Maximum number of its passes over that memory, and of its lanes.
const MOST_PASSES: u32 = 16;
/// Maximum cost of a bcrypt hash, which is the logarithm of its rounds: about a second.
const MOST_BCRYPT: u32 = 14;

/// Reports whether the hash has a supported format.
pub fn is_known(hash: &str) -> bool {
    hash.starts_with("$argon2id$") || ["$2a$", "$2b$", "$2y$"].iter().any(|p| hash.starts_with(p))
}

/// Reports whether comparing with the hash costs more memory or time than a login may.
pub fn is_costly(hash: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
    if !hash.starts_with("$argon2id$") {
        let cost = hash.split('$').nth(2).unwrap_or_default();
        return number(cost) > MOST_BCRYPT;
    }
    let parameters = hash.split('$').find(|part| part.starts_with("m=")).unwrap_or_default();
    parameters.split(',').any(|parameter| match parameter.split_once('=') {
        Some(("m", kibibytes)) => number(kibibytes) > MOST_MEMORY,
        Some(("t" | "p", times)) => number(times) > MOST_PASSES,
        _ => false,
    })
}

/// Returns the hash of a password with this salt.
///
/// # Errors
/// `Configuration` without the feature.
#[cfg(feature = "passwords")]
pub fn hash(password: &str, salt: u128) -> Result<String> {
    use argon2::password_hash::{Output, ParamsString, PasswordHash, SaltString};
    use argon2::{Algorithm, Params, Version};
    let wrong = |e| crate::error::invalid(format!("The password can't be hashed: {e}"));
    let salt = SaltString::encode_b64(&salt.to_be_bytes()).map_err(wrong)?;
    let params = Params::default();
    let output = slots::HashSlots::shared().for_statement(|memory| {
        slots::argon2id(&params, Version::V0x13, password, salt.as_salt(), 32, memory)
    });
    Ok(PasswordHash {
        algorithm: Algorithm::Argon2id.ident(),
        version: Some(Version::V0x13.into()),
        params: ParamsString::try_from(&params).map_err(wrong)?,
        salt: Some(salt.as_salt()),
        hash: Some(Output::new(&output.map_err(wrong)?).map_err(wrong)?),
    }
    .to_string())
}

/// Returns the hash of a password with this salt.
///
/// # Errors
/// `Configuration` without the feature.
#[cfg(not(feature = "passwords"))]
pub fn hash(_password: &str, _salt: u128) -> Result<String> {
    Err(crate::error::configuration(
        "hashing passwords needs the feature `passwords` of firn-cql, which this build lacks; use HASHED PASSWORD with a hash",
    ))
}

/// Reports whether the password has this hash. Waits while the maximum number of passwords is being
/// hashed.
#[cfg(feature = "passwords")]
pub fn is_of(password: &str, hash: &str) -> bool {
    use argon2::password_hash::PasswordHash;
    if is_costly(hash) {
        return false;
    }
    slots::HashSlots::shared().for_login(|memory| {
        if !hash.starts_with("$argon2id$") {
            return bcrypt::verify(password, hash).unwrap_or(false);
        }
        PasswordHash::new(hash).is_ok_and(|known| slots::is_of(password, &known, memory))
    })
}

/// Reports whether the password has this hash: always false without the feature.
#[cfg(not(feature = "passwords"))]
pub fn is_of(_password: &str, _hash: &str) -> bool {
    false
}
