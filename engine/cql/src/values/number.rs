//! Numbers of all types, with Java's arithmetic: integers wrap around, and decimals divide to 32
//! digits.

use firn_wide::Type;
use firn_wide::internals::types::{MAX_DIGITS, has_many_digits};
use num_bigint::BigInt;

use crate::error::{Error, ErrorClass, Result, bail_if, invalid};
use crate::syntax::ast::Operator;

/// Minimum number of digits of a quotient of decimals, and of its decimal places.
const DIGITS: i64 = 32;
/// Maximum number of decimal places of a quotient of decimals.
const MAX_QUOTIENT_SCALE: i64 = 1_000;
/// Maximum number of digits or zeros of decimals in computations.
const MAX_SCALE: i64 = 100_000;

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    Whole(BigInt),
    Double(f64),
    /// Scale, integer.
    Decimal(i64, BigInt),
}

/// Reports whether values of the type are numbers.
pub fn is_number(of: &Type) -> bool {
    is_whole(of) || matches!(of, Type::Float | Type::Double | Type::Decimal)
}

/// Returns the signatures of a function that every type of numbers has, for errors.
pub fn signatures(function: &str) -> String {
    const NAMES: [&str; 9] =
        ["tinyint", "smallint", "int", "bigint", "counter", "varint", "decimal", "float", "double"];
    NAMES.map(|n| format!("system.{function} : ({n}) -> {n}")).join(", ")
}

/// Returns the error for an argument that is no number.
pub fn no_signature(function: &str) -> Error {
    let text = "none of its type signatures match (known type signatures:";
    invalid!("Invalid call to function {function}, {text} {})", signatures(function))
}

fn is_whole(of: &Type) -> bool {
    matches!(
        of,
        Type::Byte | Type::Short | Type::Int32 | Type::Long | Type::Counter | Type::Integer
    )
}

fn rank(of: &Type) -> u32 {
    match of {
        Type::Byte => 1,
        Type::Short => 2,
        Type::Int32 => 4,
        Type::Long | Type::Counter => 8,
        _ => u32::MAX,
    }
}

/// Returns the type of a sum; `None` if a type is not a number.
pub fn result_type(left: &Type, right: &Type) -> Option<Type> {
    if !is_number(left) || !is_number(right) {
        return None;
    }
    let either = |f: fn(&Type) -> bool| f(left) || f(right);
    Some(if either(|t| *t == Type::Decimal) {
        Type::Decimal
    } else if either(|t| matches!(t, Type::Float | Type::Double)) {
        match () {
            () if either(|t| *t == Type::Integer) => Type::Decimal,
            () if either(|t| matches!(t, Type::Double | Type::Long | Type::Counter)) => {
                Type::Double
            }
            () => Type::Float,
        }
    } else {
        let wider = if rank(left) >= rank(right) { left } else { right };
        if *wider == Type::Counter { Type::Long } else { wider.clone() }
    })
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| invalid!("a number has {} bytes instead of {N}", bytes.len()))
}

/// Refuses integers that are too large for fast computation.
fn check_digits(integer: &[u8]) -> Result<()> {
    bail_if!(
        has_many_digits(integer),
        "a number of more than {MAX_DIGITS} digits can't be computed with; this one has {} bytes",
        integer.len()
    );
    Ok(())
}

impl Number {
    /// Decodes a number.
    pub fn decode(of: &Type, bytes: &[u8]) -> Result<Number> {
        Ok(match of {
            Type::Float => Number::Double(f64::from(f32::from_be_bytes(fixed(bytes)?))),
            Type::Double => Number::Double(f64::from_be_bytes(fixed(bytes)?)),
            Type::Decimal => {
                let (scale, integer) = bytes
                    .split_first_chunk::<4>()
                    .ok_or_else(|| invalid("a decimal has less than 4 bytes"))?;
                let scale = i64::from(i32::from_be_bytes(*scale));
                bail_if!(
                    scale.abs() > MAX_SCALE,
                    "a decimal of scale {scale} can't be computed with; the limit is {MAX_SCALE}"
                );
                check_digits(integer)?;
                Number::Decimal(scale, BigInt::from_signed_bytes_be(integer))
            }
            Type::Integer => {
                check_digits(bytes)?;
                Number::Whole(BigInt::from_signed_bytes_be(bytes))
            }
            _ => Number::Whole(BigInt::from_signed_bytes_be(bytes)),
        })
    }

    /// Encodes the number in this type. Numbers out of range wrap around (integers) or become
    /// infinite.
    pub fn encode(&self, of: &Type) -> Result<Vec<u8>> {
        let whole = |n: &BigInt, size: usize| {
            let bytes = n.to_signed_bytes_be();
            let fill = if n.sign() == num_bigint::Sign::Minus { 0xFF } else { 0 };
            let mut out = vec![fill; size.saturating_sub(bytes.len())];
            out.extend_from_slice(&bytes[bytes.len().saturating_sub(size)..]);
            out
        };
        Ok(match of {
            Type::Float => (self.double() as f32).to_be_bytes().to_vec(),
            Type::Double => self.double().to_be_bytes().to_vec(),
            Type::Decimal => {
                let (scale, integer) = self.decimal()?;
                let scale =
                    i32::try_from(scale).map_err(|_| invalid("a decimal has too large a scale"))?;
                [&scale.to_be_bytes()[..], &integer.to_signed_bytes_be()].concat()
            }
            // As in Java, non-integers are converted through 64 bits.
            Type::Integer => match self {
                Number::Whole(n) => n.to_signed_bytes_be(),
                other => {
                    let bits = whole(&other.whole(&Type::Long), 8);
                    BigInt::from_signed_bytes_be(&bits).to_signed_bytes_be()
                }
            },
            _ => whole(&self.whole(of), rank(of) as usize),
        })
    }

    /// Returns the nearest double.
    pub fn double(&self) -> f64 {
        match self {
            Number::Whole(n) => n.to_string().parse().unwrap_or(f64::NAN),
            Number::Double(n) => *n,
            // The text is converted exactly.
            Number::Decimal(scale, n) => format!("{n}e{}", -scale).parse().unwrap_or(f64::NAN),
        }
    }

    /// Returns the scale and integer of a decimal; for a double, those of the text that Java
    /// prints.
    ///
    /// # Errors
    /// `Invalid` for NaN and infinity.
    pub fn decimal(&self) -> Result<(i64, BigInt)> {
        match self {
            Number::Whole(n) => Ok((0, n.clone())),
            Number::Decimal(scale, n) => Ok((*scale, n.clone())),
            Number::Double(n) if !n.is_finite() => Err(invalid("Infinite or NaN")),
            Number::Double(n) => {
                let is_plain = *n == 0.0 || (1e-3..1e7).contains(&n.abs());
                let text = match is_plain {
                    true => format!("{n:?}"),
                    false => format!("{n:e}"),
                };
                // For a single digit Java prints the nearest two digits.
                let two = format!("{n:.1e}");
                let has_one = !is_plain && !text.contains('.');
                let text = if has_one && two.parse() == Ok(*n) { two } else { text };
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
                let wrong = || invalid!("unable to make BigDecimal from '{n}'");
                let integer = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
                let exponent: i64 = exponent.parse().map_err(|_| wrong())?;
                Ok((fraction.len() as i64 - exponent, integer))
            }
        }
    }

    /// Returns the number without its fraction. As in Java, doubles out of range become the
    /// maximum.
    pub fn whole(&self, of: &Type) -> BigInt {
        match self {
            Number::Whole(n) => n.clone(),
            Number::Double(n) if rank(of) < 8 => BigInt::from(*n as i32),
            Number::Double(n) => BigInt::from(*n as i64),
            Number::Decimal(scale, n) if *scale >= 0 => n / ten_to(*scale),
            Number::Decimal(scale, n) => n * ten_to(-scale),
        }
    }
}

/// Converts a number from one type to another.
///
/// # Errors
/// `Invalid` for a number that the type cannot represent.
pub fn cast(from: &Type, to: &Type, bytes: &[u8]) -> Result<Vec<u8>> {
    let number = match (Number::decode(from, bytes)?, from, to) {
        // A float has a shorter text than the double of the same value.
        (Number::Double(n), Type::Float, Type::Decimal) => {
            Number::Double((n as f32).to_string().parse().unwrap_or(n))
        }
        (number, ..) => number,
    };
    number.encode(to)
}

fn ten_to(n: i64) -> BigInt {
    BigInt::from(10).pow(n.clamp(0, MAX_SCALE * 4) as u32)
}

/// Returns `left operator right` for these types; the result has the type `of`.
///
/// # Errors
/// `FunctionFailure` if there is no result.
pub fn compute(
    operator: Operator,
    of: &Type,
    left: &[u8],
    lt: &Type,
    right: &[u8],
    rt: &Type,
) -> Result<Vec<u8>> {
    let (left, right) = (Number::decode(lt, left)?, Number::decode(rt, right)?);
    let failed = |why: &str| {
        let (l, r, sign) = (lt.cql_name(), rt.cql_name(), operator.sign());
        let text = format!("the operation '{l} {sign} {r}' failed: {why}");
        Error::refused(ErrorClass::FunctionFailure, text)
    };
    let result = match of {
        Type::Float | Type::Double => {
            let (l, r) = (left.double(), right.double());
            Number::Double(match operator {
                Operator::Add => l + r,
                Operator::Subtract => l - r,
                Operator::Multiply => l * r,
                Operator::Divide => l / r,
                Operator::Modulo => l % r,
            })
        }
        Type::Decimal => {
            // As in Cassandra, integers except varints are converted to doubles first.
            let exact = |number: Number, of: &Type| match number {
                Number::Whole(_) if *of != Type::Integer => {
                    Number::Double(number.double()).decimal()
                }
                Number::Double(n) if n.is_nan() => {
                    Err(failed("A NaN cannot be converted into a decimal"))
                }
                Number::Double(n) if n.is_infinite() => {
                    Err(failed("An infinite number cannot be converted into a decimal"))
                }
                number => number.decimal(),
            };
            let (l, r) = (exact(left, lt)?, exact(right, rt)?);
            if r.1 == BigInt::ZERO {
                match operator {
                    Operator::Divide => return Err(failed("BigInteger divide by zero")),
                    Operator::Modulo if l.1 == BigInt::ZERO => {
                        return Err(failed("Division undefined"));
                    }
                    Operator::Modulo => return Err(failed("Division by zero")),
                    _ => {}
                }
            }
            let (scale, integer) = decimals(operator, l, r);
            Number::Decimal(scale, integer)
        }
        _ => {
            let (l, r) = (left.whole(of), right.whole(of));
            if r == BigInt::ZERO && matches!(operator, Operator::Divide | Operator::Modulo) {
                return Err(failed(match of {
                    Type::Integer => "BigInteger divide by zero",
                    _ => "/ by zero",
                }));
            }
            Number::Whole(match operator {
                Operator::Add => l + r,
                Operator::Subtract => l - r,
                Operator::Multiply => l * r,
                Operator::Divide => l / r,
                Operator::Modulo => l % r,
            })
        }
    };
    result.encode(of)
}

/// Computes with decimals. The divisor must not be zero.
fn decimals(operator: Operator, left: (i64, BigInt), right: (i64, BigInt)) -> (i64, BigInt) {
    let scale = left.0.max(right.0);
    let aligned = |of: &(i64, BigInt)| &of.1 * ten_to(scale - of.0);
    match operator {
        Operator::Add => (scale, aligned(&left) + aligned(&right)),
        Operator::Subtract => (scale, aligned(&left) - aligned(&right)),
        Operator::Multiply => (left.0 + right.0, left.1 * right.1),
        Operator::Modulo => remainder(left, right),
        Operator::Divide => divide(left, right),
    }
}

/// Returns the remainder of an integer division. The scale of the quotient is as near as possible
/// to the difference of both scales.
fn remainder(left: (i64, BigInt), right: (i64, BigInt)) -> (i64, BigInt) {
    let common = left.0.max(right.0);
    let (l, r) = (&left.1 * ten_to(common - left.0), &right.1 * ten_to(common - right.0));
    let (mut quotient, rest) = (&l / &r, l % r);
    let wanted = left.0 - right.0;
    let mut scale = 0;
    while scale > wanted && &quotient % 10 == BigInt::ZERO && quotient != BigInt::ZERO {
        quotient /= 10;
        scale -= 1;
    }
    if scale < wanted || quotient == BigInt::ZERO {
        scale = wanted;
    }
    let scale = left.0.max(scale + right.0);
    (scale, rest / ten_to(common - scale))
}

/// Divides with rounding half up, to at least [`DIGITS`] digits, and removes trailing zeros.
fn divide(left: (i64, BigInt), right: (i64, BigInt)) -> (i64, BigInt) {
    let digits = |n: &BigInt| n.magnitude().to_string().len() as i64;
    let first = (digits(&left.1) - left.0) - (digits(&right.1) - right.0);
    let mut scale = (DIGITS - first).max(left.0).max(right.0).clamp(DIGITS, MAX_QUOTIENT_SCALE);
    let shift = scale - left.0 + right.0;
    let (above, below) = (left.1 * ten_to(shift), right.1 * ten_to(-shift));
    let twice: BigInt = &above * 2;
    let away = if twice.sign() == below.sign() { below.clone() } else { -below.clone() };
    let mut quotient: BigInt = (twice + away) / (below * 2);
    if quotient == BigInt::ZERO {
        return (0, quotient);
    }
    while &quotient % 10 == BigInt::ZERO {
        quotient /= 10;
        scale -= 1;
    }
    (scale, quotient)
}
