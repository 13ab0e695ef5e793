//! The signed varint of OSS50 (model 2.1): the inverted sign bit, the number of further bytes in
//! unary, and the value. A negative value is the inverted form of its complement. Integers of seven
//! bytes and more have a full form.

/// Appends the form of a 64-bit integer: 1 to 9 bytes.
#[inline]
pub(super) fn put_long(value: i64, out: &mut Vec<u8>) {
    let mask = (value >> 63) as u64;
    let bits = value as u64 ^ mask;
    let used = 64 - bits.leading_zeros() as usize;
    // The first byte has 6 bits, every further one adds 7. With nine bytes, the unary number needs
    // no end.
    let more = if used <= 6 { 0 } else { ((used - 6).div_ceil(7)).min(8) };
    let total = 8 * (more + 1);
    let ones = ((1u128 << (more + 1)) - 1) << (total - (more + 1));
    let form = (ones | u128::from(bits)) ^ if mask == 0 { 0 } else { (1u128 << total) - 1 };
    out.extend_from_slice(&form.to_be_bytes()[16 - total / 8..]);
}

/// Returns the length of the form that begins with these bytes; `None` if it needs a second byte
/// that is missing.
#[inline]
pub(super) fn long_len(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    let flip = if first & 0x80 == 0 { 0xFF } else { 0 };
    let ones = (first ^ flip).leading_ones() as usize;
    if ones < 8 {
        return Some(ones);
    }
    Some(if (*bytes.get(1)? ^ flip) & 0x80 == 0 { 8 } else { 9 })
}

/// Decodes the integer at the start of `bytes`, and returns it with the length of its form.
#[inline]
pub(super) fn take_long(bytes: &[u8]) -> Option<(i64, usize)> {
    let len = long_len(bytes)?;
    let form = bytes.get(..len)?;
    let negative = form[0] & 0x80 == 0;
    let raw = form.iter().fold(0u128, |n, &b| n << 8 | u128::from(b));
    let raw = if negative { !raw & ((1u128 << (8 * len)) - 1) } else { raw };
    let bits = (raw & ((1u128 << (7 * len)) - 1)) as i64;
    Some((if negative { !bits } else { bits }, len))
}

/// Returns the shortest two's complement spelling of an integer: without redundant sign bytes, but
/// at least one byte.
pub(super) fn minimal(mut bytes: &[u8]) -> &[u8] {
    while let [sign @ (0 | 0xFF), next, ..] = *bytes {
        if (sign ^ next) & 0x80 != 0 {
            break;
        }
        bytes = &bytes[1..];
    }
    bytes
}

/// Returns the bytes without redundant sign bytes, and whether the integer is negative.
fn significant(bytes: &[u8]) -> (&[u8], bool) {
    let negative = bytes.first().is_some_and(|b| b & 0x80 != 0);
    let sign = if negative { 0xFF } else { 0 };
    let skip = bytes.iter().take_while(|&&b| b == sign).count().min(bytes.len().saturating_sub(1));
    (&bytes[skip..], negative)
}

/// Integers with fewer significant bytes have the varint form.
const FULL_FORM: usize = 7;

/// Appends the form of an integer of any length (not empty).
pub(super) fn put_integer(bytes: &[u8], out: &mut Vec<u8>) {
    let (rest, negative) = significant(bytes);
    let flip = if negative { 0xFF } else { 0 };
    if rest.len() < FULL_FORM {
        let start = if negative { -1i64 } else { 0 };
        return put_long(rest.iter().fold(start, |n, &b| n << 8 | i64::from(b)), out);
    }
    out.push(!flip);
    let at = out.len();
    put_unsigned((rest.len() - FULL_FORM) as u64, out);
    out[at..].iter_mut().for_each(|b| *b ^= flip);
    out.extend_from_slice(rest);
}

/// Returns the length of a full form, the number of bytes before the integer's own bytes, and
/// whether it is negative.
fn full_len(bytes: &[u8]) -> Option<(usize, usize, bool)> {
    let negative = *bytes.first()? == 0;
    let flip = if negative { 0xFF } else { 0 };
    let (more, len) = take_unsigned(&bytes[1..], flip)?;
    let digits = usize::try_from(more).ok()?.checked_add(FULL_FORM)?;
    Some((digits.checked_add(1 + len)?, 1 + len, negative))
}

/// Returns the length of the form of an integer at the start of `bytes`.
pub(super) fn integer_len(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        0 | 0xFF => full_len(bytes).map(|f| f.0),
        _ => long_len(bytes),
    }
}

/// Appends the shortest spelling of the integer whose form is `form`.
pub(super) fn take_integer(form: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if !matches!(form.first()?, 0 | 0xFF) {
        let (value, _) = take_long(form)?;
        out.extend_from_slice(minimal(&value.to_be_bytes()));
        return Some(());
    }
    let (_, head, negative) = full_len(form)?;
    let digits = form.get(head..)?;
    let top = digits.first()? & 0x80 != 0;
    if top != negative {
        out.push(if negative { 0xFF } else { 0 });
        out.extend_from_slice(digits);
    } else {
        out.extend_from_slice(minimal(digits));
    }
    Some(())
}

/// Appends an unsigned varint: the number of further bytes in unary, then the value.
pub(super) fn put_unsigned(value: u64, out: &mut Vec<u8>) {
    let used = 64 - value.leading_zeros() as usize;
    let more = if used <= 7 { 0 } else { ((used - 7).div_ceil(7)).min(8) };
    let ones = ((1u128 << more) - 1) << (8 * (more + 1) - more);
    out.extend_from_slice(&(ones | u128::from(value)).to_be_bytes()[16 - (more + 1)..]);
}

pub(super) fn take_unsigned(bytes: &[u8], flip: u8) -> Option<(u64, usize)> {
    let first = *bytes.first()? ^ flip;
    let more = first.leading_ones() as usize;
    let raw = bytes.get(..=more)?.iter().fold(0u128, |n, &b| n << 8 | u128::from(b ^ flip));
    Some(((raw & ((1u128 << (8 * (more + 1) - more)) - 1)) as u64, more + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn long(v: i64) -> Vec<u8> {
        let mut out = vec![];
        put_long(v, &mut out);
        out
    }

    fn integer(bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![];
        put_integer(bytes, &mut out);
        out
    }

    #[test]
    fn the_forms_of_the_specification() {
        assert_eq!(long(0), [0x80]);
        assert_eq!(long(1), [0x81]);
        assert_eq!(long(-1), [0x7F]);
        assert_eq!(long(63), [0xBF]);
        assert_eq!(long(64), [0xC0, 0x40]);
        assert_eq!(long(-64), [0x40]);
        assert_eq!(long(-65), [0x3F, 0xBF]);
        assert_eq!(long(i64::from(i32::MAX)), [0xF8, 0x7F, 0xFF, 0xFF, 0xFF]);
        assert_eq!(long(i64::MIN), [0; 9]);
        assert_eq!(integer(&[0, 0xFF]), [0xC0, 0xFF]);
        assert_eq!(integer(&[0xFF, 0]), [0x3F, 0]);
        let mut power = vec![1];
        power.extend([0; 128]);
        assert_eq!(integer(&power)[..4], [0xFF, 0x7A, 1, 0]);
    }

    proptest! {
        #[test]
        fn longs_come_back_in_order(a in any::<i64>(), b in any::<i64>(), by in 0u32..64) {
            let (a, b) = (a >> by, b >> by);
            prop_assert_eq!(long(a).cmp(&long(b)), a.cmp(&b));
            prop_assert_eq!(take_long(&long(a)), Some((a, long(a).len())));
        }
    }
}
