//! Decimals: the encoding `<4-byte scale><integer>`, the byte-comparable form with base-100
//! exponent and mantissa (OSS50; model 2.1), and text.
//!
//! The form begins with a header byte, which has the sign and the length of the exponent. The
//! exponent follows (inverted for negative numbers), then the mantissa in [0.01, 1) as digits of
//! base 100, each with 0x80 added, and 00. The digits of a negative mantissa are rounded down, so
//! that all after the first are positive. Zero is the single byte 80. An integer of zero bytes
//! counts as zero; no Cassandra version can read it.

use num_bigint::{BigInt, BigUint, Sign};

/// Maximum number of zeros of a positive power of ten that is written out; for larger powers the
/// scale is negative.
const PLAIN_ZEROS: i64 = 20;

/// Maximum number of digits of a number in text form: conversion takes time quadratic in the
/// digits.
pub const MAX_DIGITS: usize = 100_000;
/// Bytes of the largest integer with this number of digits.
const MAX_DIGIT_BYTES: usize = 41_525;

/// Reports whether an integer of these bytes has too many digits for the text form.
pub fn has_many_digits(integer: &[u8]) -> bool {
    integer.len() > MAX_DIGIT_BYTES
}

fn parts(value: &[u8]) -> Option<(i64, BigInt)> {
    let (scale, integer) = value.split_first_chunk::<4>()?;
    Some((i64::from(i32::from_be_bytes(*scale)), BigInt::from_signed_bytes_be(integer)))
}

/// Appends the form; returns `None` for values that are too short.
pub(super) fn put(value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (mut scale, integer) = parts(value)?;
    let (sign, mut magnitude) = integer.into_parts();
    if sign == Sign::NoSign {
        out.push(0x80);
        return Some(());
    }
    if scale & 1 != 0 {
        magnitude *= 10u8;
        scale += 1;
    }
    let mut digits = magnitude.to_radix_be(100);
    let exponent = digits.len() as i64 - scale / 2;
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let negative = sign == Sign::Minus;
    let modulated = if negative { -exponent } else { exponent };
    let bytes = modulated.to_be_bytes();
    let len = 8 - (modulated.unsigned_abs().leading_zeros() / 8) as usize;
    let base = if negative { 0x40 } else { 0xC0 };
    out.push(if modulated < 0 { base - len as u8 } else { base + len as u8 });
    out.extend_from_slice(&bytes[8 - len..]);
    let last = digits.len() - 1;
    for (i, &d) in digits.iter().enumerate() {
        out.push(match (negative, i == 0) {
            (false, _) => 0x80 + d,
            (true, true) => 0x80 - d - u8::from(i != last),
            (true, false) => 0x80 + 100 - d - u8::from(i != last),
        });
    }
    out.push(0);
    Some(())
}

/// Parses a header other than that of zero: the sign, and the length and the sign of the exponent.
fn header(byte: u8) -> Option<(bool, usize, bool)> {
    let negative = byte < 0x80;
    let len = i16::from(byte) - if negative { 0x40 } else { 0xC0 };
    (len.abs() <= 8).then_some((negative, usize::from(len.unsigned_abs()), len < 0))
}

/// Returns the length of the form at the start of `bytes`.
pub(super) fn form_len(bytes: &[u8]) -> Option<usize> {
    if *bytes.first()? == 0x80 {
        return Some(1);
    }
    let (_, len, _) = header(bytes[0])?;
    Some(1 + len + memchr::memchr(0, bytes.get(1 + len..)?)? + 1)
}

/// Decodes a form, and appends the value in canonical spelling.
pub(super) fn take(form: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if form == [0x80] {
        out.extend_from_slice(&[0; 5]);
        return Some(());
    }
    let (negative, len, below) = header(*form.first()?)?;
    let raw = form
        .get(1..1 + len)?
        .iter()
        .fold(if below { -1i64 } else { 0 }, |n, &b| n << 8 | i64::from(b));
    let exponent = if negative { raw.checked_neg()? } else { raw };
    let mantissa = form.get(1 + len..form.len() - 1)?;
    let last = mantissa.len().checked_sub(1)?;
    let mut digits = Vec::with_capacity(mantissa.len());
    for (i, &b) in mantissa.iter().enumerate() {
        let digit = match (negative, i == 0) {
            (false, _) => i16::from(b) - 0x80,
            (true, true) => 0x80 - i16::from(b) - i16::from(i != last),
            (true, false) => 0x80 + 100 - i16::from(b) - i16::from(i != last),
        };
        digits.push(u8::try_from(digit).ok().filter(|d| *d < 100)?);
    }
    let scale = (digits.len() as i64).checked_sub(exponent)?.checked_mul(2)?;
    if scale.unsigned_abs() > 1 << 33 {
        return None;
    }
    let magnitude = BigUint::from_radix_be(&digits, 100)?;
    spell(
        scale,
        BigInt::from_biguint(if negative { Sign::Minus } else { Sign::Plus }, magnitude),
        out,
    )
}

/// Appends a decimal without trailing zeros in its fraction. Integers have no exponent, up to
/// [`PLAIN_ZEROS`] zeros.
fn spell(mut scale: i64, mut integer: BigInt, out: &mut Vec<u8>) -> Option<()> {
    if integer.magnitude().bits() == 0 {
        scale = 0;
    } else {
        // A form has at most one zero at its end (base 100), and no digit of the mantissa is lost.
        while &integer % 10u8 == BigInt::ZERO {
            integer /= 10u8;
            scale -= 1;
        }
    }
    if (-PLAIN_ZEROS..0).contains(&scale) {
        integer *= BigInt::from(10u8).pow(scale.unsigned_abs() as u32);
        scale = 0;
    }
    // At both ends of the range of scales, zeros are needed to get a valid scale.
    if scale < i64::from(i32::MIN) {
        let zeros = u32::try_from(i64::from(i32::MIN) - scale).ok().filter(|z| *z <= 1 << 20)?;
        integer *= BigInt::from(10u8).pow(zeros);
        scale = i64::from(i32::MIN);
    }
    out.extend_from_slice(&i32::try_from(scale).ok()?.to_be_bytes());
    out.extend_from_slice(&integer.to_signed_bytes_be());
    Some(())
}

/// Parses a text such as `-1.50e3`, and appends the decimal with the scale as written.
pub(super) fn from_text(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((n, e)) => (n, e.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let bare = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
    if bare.is_empty() || !bare.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let integer: BigInt = digits.parse().ok()?;
    let scale = i32::try_from(fraction.len() as i64 - i64::from(exponent)).ok()?;
    out.extend_from_slice(&scale.to_be_bytes());
    out.extend_from_slice(&integer.to_signed_bytes_be());
    Some(())
}

/// Formats a decimal like Java's `BigDecimal.toString`: plain if the scale is not negative and the
/// adjusted exponent is at least -6, else scientific.
pub(super) fn to_text(value: &[u8]) -> Option<String> {
    let (scale, integer) = parts(value)?;
    let digits = integer.magnitude().to_string();
    let sign = if integer.sign() == Sign::Minus { "-" } else { "" };
    let adjusted = digits.len() as i64 - 1 - scale;
    if scale == 0 {
        return Some(format!("{sign}{digits}"));
    }
    if scale > 0 && adjusted >= -6 {
        let zeros = (scale as usize + 1).saturating_sub(digits.len());
        let padded = format!("{}{digits}", "0".repeat(zeros));
        let (whole, fraction) = padded.split_at(padded.len() - scale as usize);
        return Some(format!("{sign}{whole}.{fraction}"));
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    Some(format!("{sign}{first}{point}{rest}E{adjusted:+}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Vec<u8> {
        let mut out = vec![];
        from_text(text, &mut out).unwrap();
        out
    }

    fn form(text: &str) -> String {
        let mut out = vec![];
        put(&value(text), &mut out).unwrap();
        super::super::hex::hex(&out)
    }

    #[test]
    fn the_forms_of_the_specification() {
        for (text, wanted) in [
            ("1.1", "c101818a00"),
            ("1", "c1018100"),
            ("0.01", "c08100"),
            ("0", "80"),
            ("-0.01", "407f00"),
            ("-1", "3fff7f00"),
            ("-1.1", "3fff7eda00"),
            ("-98.9", "3fff1d8a00"),
            ("-99", "3fff1d00"),
            ("-99.9", "3fff1c8a00"),
            ("-8.1e2000", "3efc1777da00"),
            ("-8.1e-2000", "4203e777da00"),
            ("8.1e-2000", "befc19888a00"),
            ("8.1e2000", "c203e9888a00"),
        ] {
            assert_eq!(form(text), wanted, "{text}");
        }
    }

    #[test]
    fn text_as_java_writes_it() {
        for (text, wanted) in [
            ("1.50", "1.50"),
            ("-0.001", "-0.001"),
            ("1e3", "1E+3"),
            ("0.0000001", "1E-7"),
            ("-12e9", "-1.2E+10"),
        ] {
            assert_eq!(to_text(&value(text)).unwrap(), wanted);
        }
        assert!(from_text("NaN", &mut vec![]).is_none());
        assert!(from_text("1e99999999999", &mut vec![]).is_none());
        assert!(from_text("-", &mut vec![]).is_none());
    }

    #[test]
    fn an_exponent_beyond_every_scale_is_refused() {
        let form = [0xC8, 0x40, 0, 0, 0, 0, 0, 0, 1, 0x8A, 0];
        assert_eq!(form_len(&form), Some(form.len()));
        assert_eq!(take(&form, &mut vec![]), None);
    }

    proptest! {
        #[test]
        fn order_is_that_of_the_numbers(a in -100_000i64..100_000, sa in -4i32..5, b in -100_000i64..100_000, sb in -4i32..5) {
            let exact = |n: i64, scale: i32| i128::from(n) * 10i128.pow((4 - scale) as u32);
            let (va, vb) = (value(&format!("{a}e{}", -sa)), value(&format!("{b}e{}", -sb)));
            let (mut fa, mut fb) = (vec![], vec![]);
            put(&va, &mut fa).unwrap();
            put(&vb, &mut fb).unwrap();
            prop_assert_eq!(fa.cmp(&fb), exact(a, sa).cmp(&exact(b, sb)));
            let mut back = vec![];
            take(&fa, &mut back).unwrap();
            let mut again = vec![];
            put(&back, &mut again).unwrap();
            prop_assert_eq!(again, fa);
        }
    }
}
