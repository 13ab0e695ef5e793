//! Durations: months, days and nanoseconds, each a zigzag varint (model 3); text in the three spellings of CQL.

use super::TypeError;

/// Months, days, nanoseconds.
pub type Parts = (i64, i64, i64);

const NAMES: [(&str, i64); 3] = [("months", 32), ("days", 32), ("nanoseconds", 64)];

/// Reads a duration. What follows is ignored, as the servers do.
///
/// # Errors
/// The reason when it isn't one.
pub fn parse(value: &[u8]) -> Result<Parts, TypeError> {
    if value.len() < 3 {
        return super::error(format!("Expected at least 3 bytes for a duration ({})", value.len()));
    }
    let mut rest = value;
    let mut parts = [0; 3];
    for (part, (name, bits)) in parts.iter_mut().zip(NAMES) {
        *part = take(&mut rest).ok_or_else(|| TypeError(format!("Not enough bytes to read the {name} of a duration")))?;
        if bits == 32 && i32::try_from(*part).is_err() {
            return super::error(format!("The duration {name} must be a 32 bits integer but was: {part}"));
        }
    }
    let [months, days, nanos] = parts;
    if parts.iter().any(|p| *p > 0) && parts.iter().any(|p| *p < 0) {
        return super::error(format!(
            "The duration months, days and nanoseconds must be all of the same sign ({months}, {days}, {nanos})"
        ));
    }
    Ok((months, days, nanos))
}

fn take(rest: &mut &[u8]) -> Option<i64> {
    let (&first, _) = rest.split_first()?;
    let more = first.leading_ones() as usize;
    let (raw, after) = rest.split_at_checked(more + 1)?;
    *rest = after;
    let kept = u128::from(first) & (0xFFu128 >> (more + 1).min(8));
    let n = raw[1..].iter().fold(kept, |n, &b| n << 8 | u128::from(b)) as u64;
    Some((n >> 1) as i64 ^ -((n & 1) as i64))
}

/// Appends a duration.
pub(super) fn put(parts: Parts, out: &mut Vec<u8>) {
    for part in [parts.0, parts.1, parts.2] {
        let n = (part << 1 ^ part >> 63) as u64;
        let used = (64 - n.leading_zeros() as usize).max(1);
        let more = ((used - 1) / 7).min(8);
        let ones = ((1u128 << more) - 1) << (8 * (more + 1) - more);
        out.extend_from_slice(&(ones | u128::from(n)).to_be_bytes()[15 - more..]);
    }
}

const NANOS: i64 = 1_000_000_000;
/// Unit, months, days, nanoseconds; longer units before those that begin like them.
const UNITS: [(&str, i64, i64, i64); 12] = [
    ("mo", 1, 0, 0),
    ("ms", 0, 0, 1_000_000),
    ("us", 0, 0, 1000),
    ("µs", 0, 0, 1000),
    ("ns", 0, 0, 1),
    ("y", 12, 0, 0),
    ("w", 0, 7, 0),
    ("d", 0, 1, 0),
    ("h", 0, 0, 3600 * NANOS),
    ("m", 0, 0, 60 * NANOS),
    ("s", 0, 0, NANOS),
    ("", 0, 0, 0),
];

/// The duration of a text: `1h30m`, `P1Y2M3DT4H`, `P2W`, a `-` before all.
pub(super) fn from_text(text: &str) -> Option<Parts> {
    let (sign, body) = text.strip_prefix('-').map_or((1, text), |t| (-1, t));
    let (months, days, nanos) = match body.strip_prefix('P') {
        Some(iso) => iso_parts(iso)?,
        None => unit_parts(&body.to_lowercase())?,
    };
    i32::try_from(months).ok()?;
    i32::try_from(days).ok()?;
    Some((sign * months, sign * days, sign * nanos))
}

fn number(rest: &mut &str) -> Option<i64> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    digits.parse().ok()
}

fn add(sum: &mut Parts, n: i64, unit: (i64, i64, i64)) -> Option<()> {
    sum.0 = sum.0.checked_add(n.checked_mul(unit.0)?)?;
    sum.1 = sum.1.checked_add(n.checked_mul(unit.1)?)?;
    sum.2 = sum.2.checked_add(n.checked_mul(unit.2)?)?;
    Some(())
}

fn unit_parts(text: &str) -> Option<Parts> {
    let (mut rest, mut sum) = (text, (0, 0, 0));
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let n = number(&mut rest)?;
        let unit = UNITS.iter().find(|u| !u.0.is_empty() && rest.starts_with(u.0))?;
        rest = &rest[unit.0.len()..];
        add(&mut sum, n, (unit.1, unit.2, unit.3))?;
    }
    Some(sum)
}

fn iso_parts(text: &str) -> Option<Parts> {
    let (mut rest, mut sum, mut in_time) = (text, (0, 0, 0), false);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (rest, in_time) = (after, true);
        }
        let n = number(&mut rest)?;
        let unit = rest.chars().next()?;
        rest = &rest[unit.len_utf8()..];
        let worth = match (unit, in_time) {
            ('Y', false) => (12, 0, 0),
            ('M', false) => (1, 0, 0),
            ('W', false) => (0, 7, 0),
            ('D', false) => (0, 1, 0),
            ('H', true) => (0, 0, 3600 * NANOS),
            ('M', true) => (0, 0, 60 * NANOS),
            ('S', true) => (0, 0, NANOS),
            _ => return None,
        };
        add(&mut sum, n, worth)?;
    }
    Some(sum)
}

/// In the units that fit: `1y2mo25d5h6m7s8ms9us10ns`.
pub(super) fn to_text((months, days, nanos): Parts) -> String {
    let mut out = if months < 0 || days < 0 || nanos < 0 { "-".to_owned() } else { String::new() };
    let mut put = |n: u64, unit: &str| {
        if n > 0 {
            out.push_str(&format!("{n}{unit}"));
        }
    };
    put(months.unsigned_abs() / 12, "y");
    put(months.unsigned_abs() % 12, "mo");
    put(days.unsigned_abs(), "d");
    let mut left = nanos.unsigned_abs();
    for (unit, worth) in [("h", 3600 * NANOS), ("m", 60 * NANOS), ("s", NANOS), ("ms", 1_000_000), ("us", 1000), ("ns", 1)] {
        put(left / worth as u64, unit);
        left %= worth as u64;
    }
    out
}
