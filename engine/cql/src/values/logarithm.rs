//! Exponentials and logarithms of decimals, computed as in Cassandra, to 32 digits or to the number
//! of digits of the argument if that is larger.
//!
//! Numbers are represented as integers with a fixed number of decimal places, 20 more than the
//! result needs.

use num_bigint::{BigInt, Sign};

use crate::error::{Result, invalid};

/// Minimum number of digits of a result.
const DIGITS: i64 = 32;
/// Maximum number of digits of a result: the time grows with its square.
const MOST_DIGITS: i64 = 1_000;
/// Additional digits of the computation.
const GUARD: i64 = 20;
/// Maximum number of digits of operands, and of zeros before or after the point.
const MAX_DIGITS: i64 = 100_000;
/// Number of times that an argument is halved before its exponential is computed, which is then
/// squared as often.
const HALVINGS: u32 = 8;

/// A decimal: its scale, and its digits as an integer.
pub type ScaledInteger = (i64, BigInt);

fn ten_to(n: i64) -> BigInt {
    BigInt::from(10).pow(n.clamp(0, MAX_DIGITS * 4) as u32)
}

fn digits(n: &BigInt) -> i64 {
    n.magnitude().to_string().len() as i64
}

/// Returns `n / 10^digits`; a multiplication if `digits` is negative.
fn shifted(n: &BigInt, digits: i64) -> BigInt {
    if digits > 0 { n / ten_to(digits) } else { n * ten_to(-digits) }
}

fn check_size((scale, n): &ScaledInteger) -> Result<()> {
    // Every digit has more than three bits.
    if scale.abs() > MAX_DIGITS || n.bits() as i64 > MAX_DIGITS * 3 {
        return Err(too_large());
    }
    Ok(())
}

fn too_large() -> crate::error::Error {
    invalid!("a number of more than {MAX_DIGITS} digits is not computed with")
}

/// Returns the number of digits of the result for this argument.
fn wanted(x: &ScaledInteger) -> i64 {
    digits(&x.1).clamp(DIGITS, MOST_DIGITS)
}

/// Rounds to this number of digits, half away from zero.
fn rounded((scale, n): ScaledInteger, wanted: i64) -> ScaledInteger {
    let excess = digits(&n) - wanted;
    if excess <= 0 {
        return (scale - excess, n * ten_to(-excess));
    }
    let half = ten_to(excess) / 2;
    let away = if n.sign() == Sign::Minus { n - half } else { n + half };
    let (scale, n) = (scale - excess, away / ten_to(excess));
    // Rounding has changed 999… to 1000….
    if digits(&n) > wanted { (scale - 1, n / 10) } else { (scale, n) }
}

/// Returns the inverse hyperbolic tangent of `z`, well below 1, computed by its series.
fn atanh(z: &BigInt, places: i64) -> BigInt {
    let one = ten_to(places);
    let square = z * z / &one;
    let (mut power, mut sum) = (z.clone(), z.clone());
    for odd in (3..).step_by(2) {
        power = power * &square / &one;
        if power == BigInt::ZERO {
            break;
        }
        sum += &power / odd;
    }
    sum
}

/// Returns the natural logarithm of 10.
fn ln_10(places: i64) -> BigInt {
    let one = ten_to(places);
    (atanh(&(&one / 3), places) * 3 + atanh(&(&one / 9), places)) * 2
}

/// Returns `e^x`.
///
/// # Errors
/// `Invalid` for a number that is too large.
pub fn exp(x: &ScaledInteger) -> Result<ScaledInteger> {
    check_size(x)?;
    let (scale, n) = x;
    if *n == BigInt::ZERO {
        return Ok((0, BigInt::from(1)));
    }
    let whole = (digits(n) - scale).max(0);
    if whole > digits(&BigInt::from(MAX_DIGITS)) {
        return Err(too_large());
    }
    let wanted = wanted(x);
    let places = wanted + GUARD + whole;
    let (one, ln_10) = (ten_to(places), ln_10(places));
    // x = power · ln 10 + rest
    let x = shifted(n, scale - places);
    let power = &x / &ln_10;
    let rest = (x - &power * &ln_10) >> HALVINGS;
    let power = i64::try_from(power).ok().filter(|p| p.abs() <= MAX_DIGITS);
    let power = power.ok_or_else(too_large)?;
    let (mut term, mut sum) = (one.clone(), one.clone());
    for i in 1.. {
        term = term * &rest / &one / i;
        if term == BigInt::ZERO {
            break;
        }
        sum += &term;
    }
    for _ in 0..HALVINGS {
        sum = &sum * &sum / &one;
    }
    Ok(rounded((places - power, sum), wanted))
}

/// Returns the natural logarithm of a positive number, with this number of places.
fn ln_fixed((scale, n): &ScaledInteger, places: i64) -> BigInt {
    let one = ten_to(places);
    // x = mantissa · 10^power, with the mantissa between 0.5 and 5.
    let mut power = digits(n) - 1 - scale;
    let mut mantissa = shifted(n, scale + power - places);
    if mantissa >= &one * 5 {
        power += 1;
        mantissa /= 10;
    }
    let z = (&mantissa - &one) * &one / (mantissa + &one);
    let ln = atanh(&z, places) * 2;
    // Near 1, where many places are needed, the power is 0.
    if power == 0 { ln } else { ln + ln_10(places) * power }
}

/// Returns the number of places for a logarithm with `wanted` digits. Near 1 the logarithm has
/// leading zeros.
fn places((scale, n): &ScaledInteger, wanted: i64) -> i64 {
    let over = n - ten_to((*scale).max(0));
    let nothing = if *scale > 0 { (scale - digits(&over)).max(0) } else { 0 };
    wanted + GUARD + nothing
}

fn check_positive(x: &ScaledInteger, what: &str) -> Result<()> {
    check_size(x)?;
    match x.1.sign() {
        Sign::Plus => Ok(()),
        _ => Err(invalid!("{what} of number zero or less")),
    }
}

/// Returns the natural logarithm.
///
/// # Errors
/// `Invalid` for a number that is not positive, or too large.
pub fn ln(x: &ScaledInteger) -> Result<ScaledInteger> {
    check_positive(x, "Natural log")?;
    if x.0 >= 0 && x.1 == ten_to(x.0) {
        return Ok((0, BigInt::ZERO));
    }
    let wanted = wanted(x);
    let places = places(x, wanted);
    Ok(rounded((places, ln_fixed(x, places)), wanted))
}

/// Returns the logarithm to the base 10. The result for powers of 10 is an integer.
///
/// # Errors
/// `Invalid` for a number that is not positive, or too large.
pub fn log_10(x: &ScaledInteger) -> Result<ScaledInteger> {
    check_positive(x, "Log10")?;
    let (scale, n) = x;
    let zeros = digits(n) - 1;
    if *n == ten_to(zeros) && (*scale <= 0 || zeros == *scale) {
        return Ok((0, BigInt::from(zeros - scale)));
    }
    let wanted = wanted(x);
    let places = places(x, wanted);
    // The divisor needs as many digits as the result.
    let divisor = wanted + GUARD;
    let ln = ln_fixed(x, places) * ten_to(divisor);
    Ok(rounded((places, ln / ln_10(divisor)), wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> ScaledInteger {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        (fraction.len() as i64, format!("{whole}{fraction}").parse().unwrap())
    }

    #[test]
    fn a_logarithm_undoes_an_exponential() {
        for text in ["0.5", "-3.25", "12345.678", "-77777", "0.000000000000000000000000000001", "1"]
        {
            let x = decimal(text);
            let back = ln(&exp(&x).unwrap()).unwrap();
            // An exponential near 1 has lost digits of a small argument.
            let lost = (digits(&back.1) - back.0).min(0).abs();
            let off = shifted(&back.1, back.0 - 60) - shifted(&x.1, x.0 - 60);
            let unit = shifted(&x.1, x.0 - 60) / ten_to(DIGITS - 8 - lost.min(DIGITS - 8));
            assert!(off.magnitude() <= unit.magnitude(), "{text}: {back:?}");
        }
    }

    #[test]
    fn near_one_all_digits_are_there() {
        let x = decimal("1.00000000000000000000000000000000000000000000000001");
        let (scale, n) = ln(&x).unwrap();
        assert_eq!((scale, n.to_string()), (101, format!("{}5", "9".repeat(50))));
        let below = decimal("0.99999999999999999999999999999999999999999999999999");
        assert_eq!(ln(&below).unwrap().1.to_string(), format!("-1{}", "0".repeat(49)));
    }

    #[test]
    fn what_is_too_large_or_has_none_is_refused() {
        let one = BigInt::from(1);
        for x in [(0, ten_to(7)), (0, ten_to(MAX_DIGITS + 1)), (MAX_DIGITS + 1, one.clone())] {
            exp(&x).unwrap_err();
        }
        for x in [(0, BigInt::ZERO), (3, -one)] {
            assert!(ln(&x).unwrap_err().to_string().contains("zero or less"));
            assert!(log_10(&x).unwrap_err().to_string().contains("zero or less"));
        }
    }
}
