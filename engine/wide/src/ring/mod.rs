//! Floor 0: partitioners, which compute the token of a key. Tokens order the partitions of a family
//! (model 2.4).
//!
//! The partition part of a key begins with the token: 8 bytes for Murmur3 (with inverted sign), 16
//! for Random. The order-preserving partitioners have no token: the key that follows is the order.
//! `CollatingOrderPreservingPartitioner` is refused by name. Its order is defined by the English
//! collation tables of one Java version, which cannot be reproduced by a short rule.

mod murmur3;

pub use murmur3::murmur3;

use std::fmt;

use md5::{Digest, Md5};

use num_bigint::BigInt;

use crate::types::{Type, TypeError, escape};

/// Package of the partitioners.
pub const PACKAGE: &str = "org.apache.cassandra.dht.";

/// Distribution of keys over the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Partitioner {
    /// `Murmur3Partitioner`: the first half of a 128-bit MurmurHash3.
    #[default]
    Murmur3,
    /// `RandomPartitioner`: the absolute value of the MD5 as a signed integer.
    Random,
    /// `ByteOrderedPartitioner`: the key itself.
    ByteOrdered,
    /// `OrderPreservingPartitioner`: the key itself, which must be UTF-8.
    OrderPreserving,
}

/// Meaning of a token that a client specifies as a bound of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenEnd {
    /// A token that keys may have, or a larger one.
    At(Token),
    /// Smaller than the tokens of all keys.
    BeforeAll,
    /// The smallest token, which no key has: the start and end of the ring.
    Ring,
}

/// A token. Tokens of one partitioner can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Token {
    /// Token of Murmur3.
    Long(i64),
    /// Token of Random: 0 to 2^127.
    Big(u128),
    /// Token of the order-preserving ones: a key.
    Key(Vec<u8>),
}

impl fmt::Display for Partitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Partitioner {
    /// All partitioners.
    pub const ALL: [Partitioner; 4] = [
        Partitioner::Murmur3,
        Partitioner::Random,
        Partitioner::ByteOrdered,
        Partitioner::OrderPreserving,
    ];

    /// Returns the partitioner with this class name, with or without its package.
    ///
    /// # Errors
    /// `Unable to find partitioner class '<full name>'` with the existing names.
    pub fn parse(name: &str) -> Result<Partitioner, TypeError> {
        let short = name.strip_prefix(PACKAGE).unwrap_or(name);
        if let Some(found) = Partitioner::ALL.into_iter().find(|p| p.name() == short) {
            return Ok(found);
        }
        let full = if name.contains('.') { name.to_owned() } else { format!("{PACKAGE}{name}") };
        let known = Partitioner::ALL.map(Partitioner::name).join(", ");
        Err(TypeError(format!("Unable to find partitioner class '{full}'; known are {known}")))
    }

    /// Returns the class name without its package.
    pub fn name(self) -> &'static str {
        match self {
            Partitioner::Murmur3 => "Murmur3Partitioner",
            Partitioner::Random => "RandomPartitioner",
            Partitioner::ByteOrdered => "ByteOrderedPartitioner",
            Partitioner::OrderPreserving => "OrderPreservingPartitioner",
        }
    }

    /// Returns the class name with its package.
    pub fn full_name(self) -> String {
        format!("{PACKAGE}{}", self.name())
    }

    /// Reports whether partitions are in the order of their keys, so that ranges of keys are
    /// meaningful.
    pub fn preserves_order(self) -> bool {
        matches!(self, Partitioner::ByteOrdered | Partitioner::OrderPreserving)
    }

    /// Returns the number of token bytes at the start of a key.
    #[inline]
    #[doc(hidden)]
    pub fn token_len(self) -> usize {
        match self {
            Partitioner::Murmur3 => 8,
            Partitioner::Random => 16,
            _ => 0,
        }
    }

    /// Returns the token of a key.
    ///
    /// # Errors
    /// Errors for a key that is not UTF-8 with `OrderPreservingPartitioner`.
    #[doc(hidden)]
    pub fn token(self, key: &[u8]) -> Result<Token, TypeError> {
        Ok(match self {
            Partitioner::Murmur3 => Token::Long(murmur3::token(key)),
            Partitioner::Random => Token::Big(random(key)),
            Partitioner::ByteOrdered => Token::Key(key.to_vec()),
            Partitioner::OrderPreserving => {
                check_utf8(key)?;
                Token::Key(key.to_vec())
            }
        })
    }

    /// Appends the byte-comparable token of a key: [`token_len`](Partitioner::token_len) bytes.
    ///
    /// # Errors
    /// Those of [`token`](Partitioner::token).
    #[inline]
    #[doc(hidden)]
    pub fn put_token(self, key: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
        match self {
            Partitioner::Murmur3 => put_long(murmur3::token(key), out),
            Partitioner::Random => out.extend_from_slice(&random(key).to_be_bytes()),
            Partitioner::ByteOrdered => {}
            Partitioner::OrderPreserving => check_utf8(key)?,
        }
        Ok(())
    }

    /// Appends a bound before (or after) every partition with this token, for comparison with
    /// partition parts.
    #[doc(hidden)]
    pub fn put_token_bound(self, token: &Token, after: bool, out: &mut Vec<u8>) {
        match token {
            Token::Long(n) => put_long(*n, out),
            Token::Big(n) => out.extend_from_slice(&n.to_be_bytes()),
            // A component as in keys; the empty key is before all.
            Token::Key(key) if key.is_empty() => out.push(crate::types::EMPTY),
            Token::Key(key) => {
                out.push(crate::types::NEXT);
                escape::put_escaped(key, out);
            }
        }
        // The component of a key begins with 3F or 40; the byte after it is at most 60.
        if after {
            out.push(0x61);
        }
    }

    /// Returns the CQL type of tokens.
    #[doc(hidden)]
    pub fn token_type(self) -> Type {
        match self {
            Partitioner::Murmur3 => Type::Long,
            Partitioner::Random => Type::Integer,
            Partitioner::ByteOrdered => Type::Bytes,
            Partitioner::OrderPreserving => Type::Utf8,
        }
    }

    /// Returns the bytes of a token, as a value of [`token_type`](Partitioner::token_type).
    #[doc(hidden)]
    pub fn token_bytes(self, token: Token) -> Vec<u8> {
        match token {
            Token::Long(n) => n.to_be_bytes().to_vec(),
            Token::Big(n) => BigInt::from(n).to_signed_bytes_be(),
            Token::Key(key) => key,
        }
    }

    /// Decodes a token that is a bound of a range.
    ///
    /// # Errors
    /// Errors for bytes that are not a value of [`token_type`](Partitioner::token_type), and for
    /// empty bytes if that is a number.
    #[doc(hidden)]
    pub fn read_token(self, bytes: &[u8]) -> Result<TokenEnd, TypeError> {
        let wrong = || TypeError(format!("{} bytes are no token of {}", bytes.len(), self.name()));
        let token = match self {
            Partitioner::Murmur3 => {
                Token::Long(bytes.try_into().map(i64::from_be_bytes).map_err(|_| wrong())?)
            }
            Partitioner::Random if bytes.is_empty() => return Err(wrong()),
            Partitioner::Random => {
                let n = BigInt::from_signed_bytes_be(bytes);
                if n == BigInt::from(-1) {
                    return Ok(TokenEnd::Ring);
                }
                if n < BigInt::ZERO {
                    return Ok(TokenEnd::BeforeAll);
                }
                Token::Big(n.try_into().unwrap_or(u128::MAX))
            }
            _ => Token::Key(bytes.to_vec()),
        };
        Ok(match &token {
            Token::Long(i64::MIN) => TokenEnd::Ring,
            Token::Key(key) if key.is_empty() => TokenEnd::Ring,
            _ => TokenEnd::At(token),
        })
    }

    /// Parses a token: a decimal number, hex (ByteOrdered), or the key itself (OrderPreserving).
    ///
    /// # Errors
    /// Errors for other texts.
    #[doc(hidden)]
    pub fn parse_token(self, text: &str) -> Result<Token, TypeError> {
        let wrong = || TypeError(format!("'{text}' is not a token of {}", self.name()));
        Ok(match self {
            Partitioner::Murmur3 => Token::Long(text.parse().map_err(|_| wrong())?),
            Partitioner::Random => {
                let n: u128 = text.parse().map_err(|_| wrong())?;
                Token::Big(Some(n).filter(|n| *n <= 1 << 127).ok_or_else(wrong)?)
            }
            Partitioner::ByteOrdered => {
                Token::Key(crate::types::hex_to_bytes(text).map_err(|_| wrong())?)
            }
            Partitioner::OrderPreserving => Token::Key(text.as_bytes().to_vec()),
        })
    }

    /// Returns a token as text; [`parse_token`](Partitioner::parse_token) parses it.
    #[doc(hidden)]
    pub fn token_text(self, token: &Token) -> String {
        match (self, token) {
            (Partitioner::OrderPreserving, Token::Key(key)) => {
                String::from_utf8_lossy(key).into_owned()
            }
            (_, other) => other.to_string(),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Long(n) => n.fmt(f),
            Token::Big(n) => n.fmt(f),
            Token::Key(key) => key.iter().try_for_each(|b| write!(f, "{b:02x}")),
        }
    }
}

fn put_long(n: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(n as u64 ^ 1 << 63).to_be_bytes());
}

fn random(key: &[u8]) -> u128 {
    let digest: [u8; 16] = Md5::digest(key).into();
    i128::from_be_bytes(digest).unsigned_abs()
}

fn check_utf8(key: &[u8]) -> Result<(), TypeError> {
    match std::str::from_utf8(key) {
        Ok(_) => Ok(()),
        Err(_) => Err(TypeError("a key must be UTF-8 under OrderPreservingPartitioner".into())),
    }
}
