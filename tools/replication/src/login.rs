//! Proof that both sides know the password: HMAC-SHA-256 over the other side's random number.
//!
//! Invariant: the password is not sent, and a recorded proof is useless for another connection.

use firn_kv::Env;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Length of a nonce and of a proof.
pub const PROOF_LEN: usize = 32;

/// Random number of one side, or a proof.
pub type Proof = [u8; PROOF_LEN];

/// Side of a connection.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    Primary,
    Replica,
}

/// Returns a new random number.
pub fn nonce(env: &dyn Env) -> Proof {
    let mut nonce = Proof::default();
    for part in nonce.chunks_mut(8) {
        part.copy_from_slice(&env.random().to_le_bytes()[..part.len()]);
    }
    nonce
}

fn mac(password: &str, side: Side, nonces: [&Proof; 2], name: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(password.as_bytes()).ok()?;
    mac.update(match side {
        Side::Primary => b"firn primary",
        Side::Replica => b"firn replica",
    });
    nonces.into_iter().for_each(|nonce| mac.update(nonce));
    mac.update(name.as_bytes());
    Some(mac)
}

/// Returns the proof of a side, over the nonces of primary and replica and the replica's name.
pub fn prove(password: &str, side: Side, nonces: [&Proof; 2], name: &str) -> Proof {
    mac(password, side, nonces, name).map_or(Proof::default(), |m| m.finalize().into_bytes().into())
}

/// Checks a proof in constant time.
pub fn is_proven(
    password: &str,
    side: Side,
    nonces: [&Proof; 2],
    name: &str,
    proof: &Proof,
) -> bool {
    mac(password, side, nonces, name).is_some_and(|m| m.verify_slice(proof).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_password_side_numbers_and_name_only() {
        let (a, b) = ([1; PROOF_LEN], [2; PROOF_LEN]);
        let proof = prove("secret", Side::Replica, [&a, &b], "r");
        assert!(is_proven("secret", Side::Replica, [&a, &b], "r", &proof));
        assert!(!is_proven("Secret", Side::Replica, [&a, &b], "r", &proof));
        assert!(!is_proven("secret", Side::Primary, [&a, &b], "r", &proof));
        assert!(!is_proven("secret", Side::Replica, [&b, &a], "r", &proof));
        assert!(!is_proven("secret", Side::Replica, [&a, &b], "s", &proof));
    }
}
