//! Durations: months, days and nanoseconds, each a zigzag varint (model 3), and the three text
//! forms of CQL.

use super::errors::TypeError;

/// Months, days, nanoseconds.
pub type DurationParts = (i64, i64, i64);

const NAMES: [(&str, i64); 3] = [("months", 32), ("days", 32), ("nanoseconds", 64)];

/// Decodes a duration. As in Cassandra, trailing bytes are ignored.
///
/// # Errors
/// The reason if the bytes are not a duration.
pub fn parse(value: &[u8]) -> Result<DurationParts, TypeError> {
    if value.len() < 3 {
        return super::errors::error(format!(
            "Expected at least 3 bytes for a duration ({})",
            value.len()
        ));
    }
    let mut rest = value;
    let mut parts = [0; 3];
    for (part, (name, bits)) in parts.iter_mut().zip(NAMES) {
        *part = take(&mut rest).ok_or_else(|| {
            TypeError(format!("Not enough bytes to read the {name} of a duration"))
        })?;
        if bits == 32 && i32::try_from(*part).is_err() {
            return super::errors::error(format!(
                "The duration {name} must be a 32 bits integer but was: {part}"
            ));
        }
    }
    let [months, days, nanos] = parts;
    if parts.iter().any(|p| *p > 0) && parts.iter().any(|p| *p < 0) {
        return super::errors::error(format!(
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
pub(super) fn put(parts: DurationParts, out: &mut Vec<u8>) {
    for part in [parts.0, parts.1, parts.2] {
        let n = (part << 1 ^ part >> 63) as u64;
        let used = (64 - n.leading_zeros() as usize).max(1);
        let more = ((used - 1) / 7).min(8);
        let ones = ((1u128 << more) - 1) << (8 * (more + 1) - more);
        out.extend_from_slice(&(ones | u128::from(n)).to_be_bytes()[15 - more..]);
    }
}

const NANOS: i64 = 1_000_000_000;

/// A unit: symbol, name in messages, and its months, days and nanoseconds.
type Unit = (&'static str, &'static str, DurationParts);

/// Units in the order required in a text.
const UNITS: [Unit; 10] = [
    ("y", "years", (12, 0, 0)),
    ("mo", "months", (1, 0, 0)),
    ("w", "weeks", (0, 7, 0)),
    ("d", "days", (0, 1, 0)),
    ("h", "hours", (0, 0, 3600 * NANOS)),
    ("m", "minutes", (0, 0, 60 * NANOS)),
    ("s", "seconds", (0, 0, NANOS)),
    ("ms", "milliseconds", (0, 0, 1_000_000)),
    ("us", "microseconds", (0, 0, 1000)),
    ("ns", "nanoseconds", (0, 0, 1)),
];

/// Parses the text of a duration: `1h30m`, `P1Y2M3DT4H`, `P2W`, `P0001-02-03T04:05:06`, each
/// optionally after a `-`. Units come from the largest to the smallest, each once.
///
/// # Errors
/// `Unable to convert '…' to a duration`, or an error for a unit or a sum.
pub(super) fn from_text(text: &str) -> Result<DurationParts, TypeError> {
    let (sign, body) = text.strip_prefix('-').map_or((1, text), |t| (-1, t));
    let unreadable = || TypeError(format!("Unable to convert '{body}' to a duration"));
    let (months, days, nanos) = match body.strip_prefix('P') {
        Some(iso) if iso.contains('-') => alternative(iso).ok_or_else(unreadable)?,
        Some(iso) => iso_parts(iso).ok_or_else(unreadable)??,
        None => unit_parts(body).ok_or_else(unreadable)??,
    };
    Ok((sign * months, sign * days, sign * nanos))
}

/// Sum of months, days and nanoseconds.
#[derive(Default)]
struct DurationSum {
    parts: DurationParts,
    /// Index of the last added unit, plus one.
    last: usize,
}

impl DurationSum {
    /// Adds `n` of the unit with this index in [`UNITS`], which must be after the units added
    /// before.
    fn add(&mut self, n: i128, unit: usize) -> Result<(), TypeError> {
        let name = |i: usize| UNITS[i].1;
        if unit + 1 == self.last {
            return super::errors::error(format!(
                "Invalid duration. The {} are specified multiple times",
                name(unit)
            ));
        }
        if unit < self.last {
            return super::errors::error(format!(
                "Invalid duration. The {} should be after {}",
                name(self.last - 1),
                name(unit)
            ));
        }
        self.last = unit + 1;
        let worth = UNITS[unit].2;
        let parts = [
            (&mut self.parts.0, worth.0, "months"),
            (&mut self.parts.1, worth.1, "days"),
            (&mut self.parts.2, worth.2, "nanoseconds"),
        ];
        for (part, worth, what) in parts {
            let sum = n.checked_mul(worth.into()).and_then(|n| n.checked_add((*part).into()));
            let sum = sum.and_then(|sum| i64::try_from(sum).ok());
            // Cassandra names the same bound for sums of nanoseconds, which have 64 bits, and fails
            // if a number exceeds 64 bits.
            let bound = if n > i64::MAX.into() { i64::MAX } else { i32::MAX.into() };
            let fits = sum.filter(|sum| what == "nanoseconds" || i32::try_from(*sum).is_ok());
            *part = fits.ok_or_else(|| {
                TypeError(format!(
                    "Invalid duration. The total number of {what} must be less or equal to {bound}"
                ))
            })?;
        }
        Ok(())
    }
}

/// Takes a number from the start of `rest`. A number too large for any sum becomes the maximum.
fn number(rest: &mut &str) -> Option<i128> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    if digits.is_empty() { None } else { Some(digits.parse().unwrap_or(i128::MAX)) }
}

/// Parses a text such as `1h30m`; returns `None` if it has another form.
fn unit_parts(text: &str) -> Option<Result<DurationParts, TypeError>> {
    let text = text.to_lowercase().replace('µ', "u");
    let (mut rest, mut found) = (&*text, vec![]);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let n = number(&mut rest)?;
        // The longest matching unit: `ms` begins like `m`.
        let fitting = UNITS.iter().enumerate().filter(|(_, u)| rest.starts_with(u.0));
        let (unit, (word, ..)) = fitting.max_by_key(|(_, u)| u.0.len())?;
        rest = &rest[word.len()..];
        found.push((n, unit));
    }
    let mut sum = DurationSum::default();
    Some(found.into_iter().try_for_each(|(n, unit)| sum.add(n, unit)).map(|()| sum.parts))
}

/// Parses `1Y2M3DT4H5M6S` or `2W`; returns `None` if the text has another form.
fn iso_parts(text: &str) -> Option<Result<DurationParts, TypeError>> {
    let (mut rest, mut found, mut in_time) = (text, vec![], false);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T').filter(|_| !in_time) {
            (rest, in_time) = (after, true);
            continue;
        }
        let n = number(&mut rest)?;
        let unit = match (rest.chars().next()?, in_time) {
            ('Y', false) => 0,
            ('M', false) => 1,
            // Weeks cannot be combined with other units.
            ('W', false) if found.is_empty() && rest.len() == 1 => 2,
            ('D', false) => 3,
            ('H', true) => 4,
            ('M', true) => 5,
            ('S', true) => 6,
            _ => return None,
        };
        if found.last().is_some_and(|(_, last)| *last >= unit) {
            return None;
        }
        rest = &rest[1..];
        found.push((n, unit));
    }
    let mut sum = DurationSum::default();
    Some(found.into_iter().try_for_each(|(n, unit)| sum.add(n, unit)).map(|()| sum.parts))
}

/// Parses `0001-02-03T04:05:06`: years, months, days, hours, minutes, seconds.
fn alternative(text: &str) -> Option<DurationParts> {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let fits = |(b, form): (u8, &u8)| if *form == b'0' { b.is_ascii_digit() } else { b == *form };
    if text.len() != FORM.len() || !text.bytes().zip(FORM).all(fits) {
        return None;
    }
    let part = |at: std::ops::Range<usize>| text.get(at)?.parse::<i64>().ok();
    let time = part(11..13)? * 3600 + part(14..16)? * 60 + part(17..19)?;
    Some((part(0..4)? * 12 + part(5..7)?, part(8..10)?, time * NANOS))
}

/// Formats a duration with all its units: `1y2mo25d5h6m7s8ms9us10ns`.
pub(super) fn to_text((months, days, nanos): DurationParts) -> String {
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
    for (unit, worth) in [
        ("h", 3600 * NANOS),
        ("m", 60 * NANOS),
        ("s", NANOS),
        ("ms", 1_000_000),
        ("us", 1000),
        ("ns", 1),
    ] {
        put(left / worth as u64, unit);
        left %= worth as u64;
    }
    out
}
