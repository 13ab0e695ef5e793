//! Times as in `sstabledump`.

use firn_wide::{Type, Wording};

/// Format of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// ISO 8601, UTC, for the years 1 to 9999.
    Dates,
    /// Stored numbers in quotes, as in `sstabledump -t`.
    Raw,
}

impl Times {
    /// Formats a timestamp in microseconds since 1970 as JSON.
    pub fn micros(self, micros: i64) -> String {
        let date = self.date(micros.div_euclid(1000)).map(|date| with_micros(&date, micros));
        date.unwrap_or_else(|| format!("\"{micros}\""))
    }

    /// Formats seconds since 1970 as JSON.
    pub fn second(self, second: i64) -> String {
        let date = second.checked_mul(1000).and_then(|millis| self.date(millis));
        date.map_or_else(|| format!("\"{second}\""), |date| format!("\"{date}Z\""))
    }

    /// Formats `2009-08-16T15:53:24` for the years 1 to 9999.
    fn date(self, millis: i64) -> Option<String> {
        const FIRST: i64 = -62_135_596_800_000;
        const LAST: i64 = 253_402_300_799_999;
        if self == Times::Raw || !(FIRST..=LAST).contains(&millis) {
            return None;
        }
        let text = Type::Timestamp.to_text(&millis.to_be_bytes(), Wording::Cql);
        Some(text.get(..19)?.replace(' ', "T"))
    }
}

fn with_micros(date: &str, micros: i64) -> String {
    match micros.rem_euclid(1_000_000) {
        0 => format!("\"{date}Z\""),
        n if n % 1000 == 0 => format!("\"{date}.{:03}Z\"", n / 1000),
        n => format!("\"{date}.{n:06}Z\""),
    }
}
