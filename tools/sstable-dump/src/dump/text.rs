//! Formats keys, values and times as text.

use std::path::Path;

use firn_kv::internals::base::key::{Kind, Trailer};
use firn_tools::escape;
use firn_tools::output::count;
use serde_json::Value;

/// Returns bytes as JSON, in hexadecimal.
pub fn hex_json(bytes: &[u8]) -> Value {
    escape::hex(bytes).into()
}

/// Returns the name of a file as text.
pub fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(
        || key(path.as_os_str().as_encoded_bytes()),
        |n| Path::new(n).display().to_string(),
    )
}

/// Returns a key or value as text with other bytes escaped, cut to about `most` characters.
pub fn short(bytes: &[u8], most: usize) -> String {
    // A character has at most four bytes, and each byte has at most that many escaped characters.
    let head = &bytes[..bytes.len().min(most * 4)];
    let text = escape::words(head);
    if head.len() == bytes.len() && text.chars().count() <= most {
        return if text.is_empty() { "(empty)".into() } else { text };
    }
    let cut: String = text.chars().take(most).collect();
    format!("{cut}… ({} bytes)", count(bytes.len() as u64))
}

/// Returns a key for a table or message.
pub fn key(bytes: &[u8]) -> String {
    short(bytes, 48)
}

/// Returns both ends of a range of keys.
pub fn keys(range: &(Vec<u8>, Vec<u8>)) -> String {
    if range.0 == range.1 {
        key(&range.0)
    } else {
        format!("{} to {}", key(&range.0), key(&range.1))
    }
}

/// Returns the name of an entry's kind.
pub fn kind(t: Trailer) -> &'static str {
    match t.kind() {
        Some(Kind::Put) => "put",
        Some(Kind::Delete) => "delete",
        Some(Kind::Merge) => "merge",
        Some(Kind::Blob) => "blob",
        None => "unknown",
    }
}

/// Returns a share in percent.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

/// Returns a time in UTC.
pub fn moment(micros: u64) -> String {
    if micros == 0 {
        return "unknown".into();
    }
    let secs = micros / 1_000_000;
    let (days, rest) = ((secs / 86_400) as i64, secs % 86_400);
    // Convert days since 1970 to a Gregorian date, by eras of 400 years that begin in March.
    let z = days + 719_468;
    let (era, day) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let m = (5 * day_of_year + 2) / 153;
    let (d, month) = (day_of_year - (153 * m + 2) / 5 + 1, if m < 10 { m + 3 } else { m - 9 });
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{d:02} {:02}:{:02}:{:02} UTC",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates() {
        assert_eq!(moment(1_000_000), "1970-01-01 00:00:01 UTC");
        assert_eq!(moment(951_782_400_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(moment(1_795_046_399_000_000), "2026-11-18 23:59:59 UTC");
    }

    #[test]
    fn long_keys_are_cut() {
        assert_eq!(short(b"", 5), "(empty)");
        assert_eq!(short(b"abcde", 5), "abcde");
        assert_eq!(short(&[b'a'; 1000], 5), "aaaaa… (1,000 bytes)");
        assert_eq!(short(b"\xff", 8), "\\xff");
    }
}
