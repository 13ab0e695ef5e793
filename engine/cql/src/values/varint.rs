//! Value of the type `varint`. It wraps the number type of another crate, so that a new version of
//! that crate does not change this crate's API.

use std::fmt;
use std::num::TryFromIntError;
use std::str::FromStr;

use num_bigint::BigInt;

use crate::error::{Error, invalid};

/// A whole number of any size, as CQL's `varint` stores it.
///
/// Numbers of up to 128 bits convert from and to Rust's own types. A larger one converts from and to
/// its digits, and to the bytes of its two's complement. The feature `num-bigint-04` adds conversions
/// from and to `BigInt` of `num-bigint` 0.4.
///
/// ```
/// use firn_cql::VarInt;
/// let n: VarInt = "-18446744073709551617".parse()?;
/// assert_eq!(i128::try_from(&n), Ok(-(1_i128 << 64) - 1));
/// assert!(i64::try_from(&n).is_err());
/// assert_eq!(VarInt::from_signed_bytes_be(&n.to_signed_bytes_be()), n);
/// assert_eq!(VarInt::from(7_i64).to_string(), "7");
/// # Ok::<(), firn_cql::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarInt(pub(crate) BigInt);

impl VarInt {
    /// Returns the number with these bytes: its two's complement, big-endian. No bytes are 0.
    pub fn from_signed_bytes_be(bytes: &[u8]) -> VarInt {
        VarInt(BigInt::from_signed_bytes_be(bytes))
    }

    /// Returns the shortest two's complement, big-endian: at least one byte.
    pub fn to_signed_bytes_be(&self) -> Vec<u8> {
        self.0.to_signed_bytes_be()
    }
}

impl fmt::Debug for VarInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for VarInt {
    /// Writes the decimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for VarInt {
    type Err = Error;

    /// Parses decimal digits with an optional sign.
    ///
    /// # Errors
    /// `Invalid` for any other text.
    fn from_str(text: &str) -> Result<VarInt, Error> {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(invalid(format!("{text:?} is not a whole number")));
        }
        text.parse().map(VarInt).map_err(|_| invalid(format!("{text:?} is not a whole number")))
    }
}

macro_rules! integers {
    ($($rust:ty),+) => {$(
        impl From<$rust> for VarInt {
            fn from(n: $rust) -> VarInt {
                VarInt(BigInt::from(n))
            }
        }

        impl TryFrom<&VarInt> for $rust {
            type Error = TryFromIntError;

            /// Fails if the number is outside the range of the type.
            fn try_from(n: &VarInt) -> Result<$rust, TryFromIntError> {
                let outside = |_| i8::try_from(i16::MAX).map(|_| ()).unwrap_err();
                <$rust>::try_from(&n.0).map_err(outside)
            }
        }
    )+};
}

integers!(i32, i64, i128, u32, u64, u128);

#[cfg(feature = "num-bigint-04")]
impl From<BigInt> for VarInt {
    fn from(n: BigInt) -> VarInt {
        VarInt(n)
    }
}

#[cfg(feature = "num-bigint-04")]
impl From<VarInt> for BigInt {
    fn from(n: VarInt) -> BigInt {
        n.0
    }
}
