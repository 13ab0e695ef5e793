//! Passwords: hashed with argon2id and a salt of their own; bcrypt's hashes, which servers have, are
//! understood too. Without the feature `passwords` only hashes that were made elsewhere are kept.

use crate::error::Result;

/// Whether this is a hash that can be compared with.
pub fn is_known(hash: &str) -> bool {
    hash.starts_with("$argon2id$") || ["$2a$", "$2b$", "$2y$"].iter().any(|p| hash.starts_with(p))
}

/// The hash of a password, with this salt.
///
/// # Errors
/// `Configuration` without the feature.
#[cfg(feature = "passwords")]
pub fn hash(password: &str, salt: u128) -> Result<String> {
    use argon2::password_hash::{PasswordHasher, SaltString};
    let wrong = |e| crate::error::invalid(format!("The password can't be hashed: {e}"));
    let salt = SaltString::encode_b64(&salt.to_be_bytes()).map_err(wrong)?;
    let made = argon2::Argon2::default().hash_password(password.as_bytes(), &salt);
    made.map(|hash| hash.to_string()).map_err(wrong)
}

/// The hash of a password, with this salt.
///
/// # Errors
/// `Configuration` without the feature.
#[cfg(not(feature = "passwords"))]
pub fn hash(_password: &str, _salt: u128) -> Result<String> {
    Err(crate::error::configuration(
        "passwords are hashed by the feature `passwords` of firn-cql, which this program was built without; HASHED PASSWORD takes a hash",
    ))
}

/// Whether a password is the one of this hash.
#[cfg(feature = "passwords")]
pub fn is_of(password: &str, hash: &str) -> bool {
    use argon2::password_hash::{PasswordHash, PasswordVerifier};
    if !hash.starts_with("$argon2id$") {
        return bcrypt::verify(password, hash).unwrap_or(false);
    }
    PasswordHash::new(hash).is_ok_and(|known| {
        argon2::Argon2::default().verify_password(password.as_bytes(), &known).is_ok()
    })
}

/// Whether a password is the one of this hash: nobody can say.
#[cfg(not(feature = "passwords"))]
pub fn is_of(_password: &str, _hash: &str) -> bool {
    false
}
