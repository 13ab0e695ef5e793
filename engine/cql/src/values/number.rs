//! Numbers of all types, computed with as Java does: whole numbers wrap, decimals divide to 34
//! digits.

use firn_wide::Type;
use num_bigint::BigInt;

use crate::error::{Result, invalid};
use crate::syntax::ast::Operator;

/// The digits that a division of decimals gives.
const PRECISION: usize = 34;
/// Decimals with more digits or zeros than this are refused in computations.
const MAX_SCALE: i64 = 100_000;

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    Whole(BigInt),
    Double(f64),
    /// Scale, integer.
    Decimal(i64, BigInt),
}

/// Whether values of the type are numbers.
pub fn is_number(of: &Type) -> bool {
    is_whole(of) || matches!(of, Type::Float | Type::Double | Type::Decimal)
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

/// The type of a sum of these two; `None` when one is no number.
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
    bytes
        .try_into()
        .map_err(|_| invalid(format!("a number has {} bytes instead of {N}", bytes.len())))
}

impl Number {
    /// The number that these bytes are.
    pub fn decode(of: &Type, bytes: &[u8]) -> Result<Number> {
        Ok(match of {
            Type::Float => Number::Double(f64::from(f32::from_be_bytes(fixed(bytes)?))),
            Type::Double => Number::Double(f64::from_be_bytes(fixed(bytes)?)),
            Type::Decimal => {
                let (scale, integer) = bytes
                    .split_first_chunk::<4>()
                    .ok_or_else(|| invalid("a decimal has less than 4 bytes"))?;
                let scale = i64::from(i32::from_be_bytes(*scale));
                if scale.abs() > MAX_SCALE {
                    return Err(invalid(format!(
                        "a decimal of scale {scale} can't be computed with; the limit is {MAX_SCALE}"
                    )));
                }
                Number::Decimal(scale, BigInt::from_signed_bytes_be(integer))
            }
            _ => Number::Whole(BigInt::from_signed_bytes_be(bytes)),
        })
    }

    /// Its bytes as this type; what is too large wraps (whole numbers) or is infinite.
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
            Type::Integer => self.whole(None)?.to_signed_bytes_be(),
            _ => whole(&self.whole(Some(of))?, rank(of) as usize),
        })
    }

    /// As a double: the nearest one.
    pub fn double(&self) -> f64 {
        match self {
            Number::Whole(n) => n.to_string().parse().unwrap_or(f64::NAN),
            Number::Double(n) => *n,
            // The text is read exactly.
            Number::Decimal(scale, n) => format!("{n}e{}", -scale).parse().unwrap_or(f64::NAN),
        }
    }

    /// The scale and integer of a decimal.
    ///
    /// # Errors
    /// `Invalid` for what is no number, or without an end.
    pub fn decimal(&self) -> Result<(i64, BigInt)> {
        match self {
            Number::Whole(n) => Ok((0, n.clone())),
            Number::Decimal(scale, n) => Ok((*scale, n.clone())),
            Number::Double(n) if !n.is_finite() => Err(invalid("Infinite or NaN")),
            Number::Double(n) => {
                let text = if n.fract() == 0.0 && n.abs() < 1e7 {
                    format!("{n:?}")
                } else {
                    format!("{n}")
                };
                let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
                let digits = format!("{whole}{fraction}");
                let integer = digits
                    .parse()
                    .map_err(|_| invalid(format!("unable to make BigDecimal from '{n}'")))?;
                Ok((fraction.len() as i64, integer))
            }
        }
    }

    /// Without its fraction; doubles that are too large become the largest, as Java casts them.
    fn whole(&self, of: Option<&Type>) -> Result<BigInt> {
        Ok(match self {
            Number::Whole(n) => n.clone(),
            Number::Double(n) => match of.map(rank) {
                Some(8) => BigInt::from(*n as i64),
                Some(_) => BigInt::from(*n as i32),
                None => {
                    let (scale, integer) = self.decimal()?;
                    integer / ten_to(scale)
                }
            },
            Number::Decimal(scale, n) if *scale >= 0 => n / ten_to(*scale),
            Number::Decimal(scale, n) => n * ten_to(-scale),
        })
    }
}

fn ten_to(n: i64) -> BigInt {
    BigInt::from(10).pow(n.clamp(0, MAX_SCALE * 4) as u32)
}

/// `left operator right`, both of type `of`, which the result is of.
pub fn compute(
    operator: Operator,
    of: &Type,
    left: &[u8],
    lt: &Type,
    right: &[u8],
    rt: &Type,
) -> Result<Vec<u8>> {
    let (left, right) = (Number::decode(lt, left)?, Number::decode(rt, right)?);
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
            let (scale, integer) = decimals(operator, left.decimal()?, right.decimal()?)
                .ok_or_else(|| by_zero(operator, lt, rt))?;
            Number::Decimal(scale, integer)
        }
        _ => {
            let (l, r) = (left.whole(None)?, right.whole(None)?);
            if r == BigInt::ZERO && matches!(operator, Operator::Divide | Operator::Modulo) {
                return Err(by_zero(operator, lt, rt));
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

fn by_zero(operator: Operator, left: &Type, right: &Type) -> crate::error::Error {
    let (l, r) = (left.cql_name(), right.cql_name());
    invalid(format!("the operation '{l} {} {r}' failed: / by zero", operator.sign()))
}

fn decimals(
    operator: Operator,
    left: (i64, BigInt),
    right: (i64, BigInt),
) -> Option<(i64, BigInt)> {
    let scale = left.0.max(right.0);
    let aligned = |of: &(i64, BigInt)| &of.1 * ten_to(scale - of.0);
    Some(match operator {
        Operator::Add => (scale, aligned(&left) + aligned(&right)),
        Operator::Subtract => (scale, aligned(&left) - aligned(&right)),
        Operator::Multiply => (left.0 + right.0, left.1 * right.1),
        Operator::Modulo if right.1 == BigInt::ZERO => return None,
        Operator::Modulo => (scale, aligned(&left) % aligned(&right)),
        Operator::Divide if right.1 == BigInt::ZERO => return None,
        Operator::Divide => divide(left, right),
    })
}

/// To [`PRECISION`] digits, half up; without the zeros that an exact quotient doesn't need.
fn divide(left: (i64, BigInt), right: (i64, BigInt)) -> (i64, BigInt) {
    let wanted = left.0 - right.0;
    let digits = |n: &BigInt| n.magnitude().to_string().len() as i64;
    let more = (PRECISION as i64 + 1 + digits(&right.1) - digits(&left.1)).max(0);
    let mut scale = wanted + more;
    let shifted = left.1 * ten_to(more);
    let (mut quotient, exact) = (&shifted / &right.1, &shifted % &right.1 == BigInt::ZERO);
    let excess = digits(&quotient) - PRECISION as i64;
    if excess > 0 && !exact {
        let unit = ten_to(excess);
        let half: BigInt = &unit / 2;
        let away = if quotient.sign() == num_bigint::Sign::Minus { -half } else { half };
        quotient = (quotient + away) / unit;
        scale -= excess;
    }
    while scale > wanted && &quotient % 10 == BigInt::ZERO {
        quotient /= 10;
        scale -= 1;
    }
    (scale, quotient)
}
