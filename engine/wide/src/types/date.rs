//! Text formats of dates and times of day, in the proleptic Gregorian calendar. The default time
//! zone is UTC.

use super::zone;

/// Returns the number of days from 1970-01-01 to a day of the proleptic Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last one.
    let y = if month <= 2 { year - 1 } else { year };
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    y * 365 + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + in_year - 719_468
}

/// Returns year, month and day of a day number since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

/// Returns the time a duration (months, days, nanoseconds) after another one, both in milliseconds
/// since 1970. Months are added first; a day that the month does not have becomes its last one.
/// Then days and time are added, rounded to milliseconds. `None` if the result exceeds 64 bits.
pub fn after(millis: i64, duration: (i64, i64, i64)) -> Option<i64> {
    const DAY: i64 = 86_400_000;
    let (months, days, nanos) = duration;
    let (year, month, day) = civil(millis.div_euclid(DAY));
    let number = year.checked_mul(12)?.checked_add(month - 1)?.checked_add(months)?;
    let (year, month) = (number.div_euclid(12), number.rem_euclid(12) + 1);
    let first = days_of(year, month, 1);
    let next = days_of(year + i64::from(month == 12), month % 12 + 1, 1);
    let time = i128::from(millis.rem_euclid(DAY)) + i128::from(nanos / 1_000_000);
    let day = i128::from(first + day.min(next - first) - 1) + i128::from(days);
    i64::try_from(day * i128::from(DAY) + time).ok()
}

struct DateReader<'a>(&'a str);

impl DateReader<'_> {
    fn eat(&mut self, what: char) -> bool {
        let after = self.0.strip_prefix(what);
        self.0 = after.unwrap_or(self.0);
        after.is_some()
    }

    /// Reads a number of `min` to `max` digits, and returns it with its number of digits.
    fn number(&mut self, min: usize, max: usize) -> Option<(i64, usize)> {
        let len = self.0.bytes().take(max).take_while(u8::is_ascii_digit).count();
        let (digits, after) = self.0.split_at(len);
        self.0 = after;
        if len < min { None } else { digits.parse().ok().map(|n| (n, len)) }
    }

    fn below(&mut self, limit: i64) -> Option<i64> {
        self.number(1, 2).map(|n| n.0).filter(|n| *n < limit)
    }

    /// Reads `2011-2-3`; years may have a sign.
    fn date(&mut self) -> Option<i64> {
        let negative = self.eat('-');
        let (year, _) = self.number(1, 7)?;
        let month = self.eat('-').then(|| self.below(13))??;
        let day = self.eat('-').then(|| self.below(32))??;
        let year = if negative { -year } else { year };
        let days = days_of(year, month, day);
        (civil(days) == (year, month, day)).then_some(days)
    }

    /// Reads a fraction such as `.123456789`, of at most nine digits, and returns nanoseconds; 0 if
    /// there is no point.
    fn fraction(&mut self) -> Option<i64> {
        if !self.eat('.') {
            return Some(0);
        }
        let (n, len) = self.number(1, 9)?;
        Some(n * 10i64.pow(9 - len as u32))
    }

    /// Reads a time zone and returns its offset in seconds east of UTC at a local time in seconds
    /// since 1970. Forms are `Z`, `UTC`, `GMT`, `+0100`, `+01:00`, `+01`, `GMT+01:00`, or a blank
    /// and the name of a zone; nothing means UTC.
    fn zone(&mut self, local: i64) -> Option<i64> {
        let is_apart = self.0.starts_with(' ');
        self.0 = self.0.trim_start();
        if self.eat('Z') {
            return Some(0);
        }
        if let Some(after) = ["UTC", "GMT"].iter().find_map(|utc| self.0.strip_prefix(utc)) {
            self.0 = after;
        } else if is_apart && self.0.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return zone::offset(std::mem::take(&mut self.0), local);
        }
        let sign = match (self.eat('+'), self.0.is_empty()) {
            (true, _) => 1,
            (false, true) => return Some(0),
            (false, false) => self.eat('-').then_some(-1)?,
        };
        let (hours, _) = self.number(2, 2)?;
        self.eat(':');
        let minutes = if self.0.is_empty() { 0 } else { self.number(2, 2)?.0 };
        (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

/// Parses a text such as `2011-02-03 04:05:06.789+0100` to milliseconds since 1970. `T` or a blank
/// precedes the time. Time, seconds, fraction and zone are optional. `24:00` is the end of the day.
pub(super) fn timestamp(text: &str) -> Option<i64> {
    let mut r = DateReader(text);
    let midnight = r.date()? * 86_400;
    let (mut seconds, mut nanos) = (midnight, 0);
    if r.eat('T')
        || (r.0.starts_with(' ')
            && r.0[1..].starts_with(|c: char| c.is_ascii_digit())
            && r.eat(' '))
    {
        seconds += r.below(25)? * 3600;
        seconds += r.eat(':').then(|| r.below(60))?? * 60;
        if r.eat(':') {
            seconds += r.below(60)?;
            nanos = r.fraction()?;
        }
        if (seconds, nanos) > (midnight + 86_400, 0) {
            return None;
        }
    } else if r.0 == "z" {
        r.0 = "";
    }
    seconds -= r.zone(seconds)?;
    r.0.is_empty().then_some(seconds * 1000 + nanos / 1_000_000)
}

/// Parses a text such as `2012-2-3` to days since 1970-01-01.
pub(super) fn date(text: &str) -> Option<i64> {
    let mut r = DateReader(text);
    let days = r.date()?;
    r.0.is_empty().then_some(days)
}

/// Parses a text such as `8:12:54.123456789` to nanoseconds since midnight.
pub(super) fn time(text: &str) -> Option<i64> {
    let mut r = DateReader(text);
    let hours = r.below(24)?;
    let minutes = r.eat(':').then(|| r.below(60))??;
    let seconds = r.eat(':').then(|| r.below(60))??;
    let nanos = r.fraction()?;
    r.0.is_empty().then_some((hours * 3600 + minutes * 60 + seconds) * 1_000_000_000 + nanos)
}

/// Formats a date as `2012-02-03`.
pub(super) fn date_text(days: i64) -> String {
    let (y, m, d) = civil(days);
    let sign = if y < 0 { "-" } else { "" };
    format!("{sign}{:04}-{m:02}-{d:02}", y.abs())
}

/// Formats a time as `2009-08-16 15:53:24+0000`, as cassandra-cli does; with `.mmmZ` at the end if
/// `precise`, as newer tools do.
pub(super) fn timestamp_text(millis: i64, precise: bool) -> String {
    let (days, left) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (h, m, s, ms) = (left / 3_600_000, left / 60_000 % 60, left / 1000 % 60, left % 1000);
    let end = if precise { format!(".{ms:03}Z") } else { "+0000".to_owned() };
    format!("{} {h:02}:{m:02}:{s:02}{end}", date_text(days))
}

/// Formats a time of day as `08:12:54.123456789`.
pub(super) fn time_text(nanos: i64) -> String {
    let s = nanos / 1_000_000_000;
    format!("{:02}:{:02}:{:02}.{:09}", s / 3600, s / 60 % 60, s % 60, nanos % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings() {
        assert_eq!(timestamp("2011-02-03 04:05+0000"), Some(1_296_705_900_000));
        assert_eq!(timestamp("2011-02-03T04:05:00.123Z"), Some(1_296_705_900_123));
        assert_eq!(timestamp("2011-02-03+0100"), Some(1_296_691_200_000 - 3_600_000));
        assert_eq!(timestamp("2011-02-03 04:05 GMT+01:00"), Some(1_296_705_900_000 - 3_600_000));
        assert_eq!(timestamp("2011-02-03 04:05 UTC-0130"), Some(1_296_705_900_000 + 5_400_000));
        assert_eq!(timestamp("2011-02-03z"), Some(1_296_691_200_000));
        assert_eq!(timestamp("2011-02-03 24:00"), timestamp("2011-02-04"));
        assert_eq!(timestamp("2020-12-31T24:00:00.000+01:00"), timestamp("2020-12-31T23:00Z"));
        for refused in ["24:01", "24:00:01", "24:00:00.001", "25:00", "10:00z", "10:00 +1"] {
            assert_eq!(timestamp(&format!("2011-02-03 {refused}")), None, "{refused}");
        }
        assert_eq!(timestamp("2011-02-30"), None);
        assert_eq!(timestamp("2011-02-03 x"), None);
        assert_eq!(date("-0001-01-01"), Some(-719_893));
        assert_eq!(time("1:2:3"), Some(3_723_000_000_000));
        assert_eq!(time("24:00:00"), None);
        assert_eq!(timestamp_text(1_250_438_004_000, false), "2009-08-16 15:53:24+0000");
    }

    /// Results of Cassandra 5.0.9 for zone names, in summer, in winter, and at clock changes.
    #[test]
    fn zones_have_names() {
        for (text, utc) in [
            ("2020-01-01 10:00 EST", "2020-01-01 15:00"),
            ("2020-01-01 10:00 PST", "2020-01-01 18:00"),
            ("2020-07-01 10:00 PST", "2020-07-01 17:00"),
            ("2020-01-01 10:00:00.5 CET", "2020-01-01 09:00:00.5"),
            ("2020-07-01T10:00 CEST", "2020-07-01 08:00"),
            ("2020-01-01 10:00 Europe/Berlin", "2020-01-01 09:00"),
            ("2020-07-01 Asia/Kolkata", "2020-06-30 18:30"),
            ("2020-03-29 02:30 Europe/Berlin", "2020-03-29 01:30"),
            ("2020-10-25 02:30 Europe/Berlin", "2020-10-25 00:30"),
            ("2020-01-01 24:00 Europe/Berlin", "2020-01-01 23:00"),
        ] {
            let wanted = timestamp(utc).filter(|_| cfg!(feature = "time-zones"));
            assert_eq!(timestamp(text), wanted, "{text}");
        }
        for refused in ["Nowhere/Town", "EST x", "XST", "Europe/Berlin+01:00", "..", "local"] {
            assert_eq!(timestamp(&format!("2020-01-01 10:00 {refused}")), None, "{refused}");
        }
        assert_eq!(timestamp("12020-01-01 10:00 EST"), None);
        assert_eq!(timestamp("2020-01-01 10:00EST"), None);
    }

    #[test]
    fn durations_after_a_time() {
        let at = |text: &str| timestamp(text).unwrap();
        let (month, day, hour) = ((1, 0, 0), (0, 1, 0), (0, 0, 3_600_000_000_000));
        for (from, by, to) in [
            ("2020-01-31 10:00:00", month, "2020-02-29 10:00:00"),
            ("2021-01-31 10:00:00", month, "2021-02-28 10:00:00"),
            ("2020-12-31 00:00:00", month, "2021-01-31 00:00:00"),
            ("2020-03-31 23:59:59", (-1, 0, 0), "2020-02-29 23:59:59"),
            ("2020-02-28 01:00:00", day, "2020-02-29 01:00:00"),
            ("1969-12-31 23:30:00", hour, "1970-01-01 00:30:00"),
            ("2020-01-31 00:00:00", (13, 1, 999_999), "2021-03-01 00:00:00"),
            ("1970-01-01 00:00:00", (-25, -1, -3_600_000_000_000), "1967-11-29 23:00:00"),
        ] {
            assert_eq!(after(at(from), by), Some(at(to)), "{from} and {by:?}");
        }
        assert_eq!(after(i64::MAX, day), None);
        assert_eq!(after(i64::MIN, (i64::from(i32::MIN), i64::from(i32::MIN), i64::MIN)), None);
    }

    proptest! {
        #[test]
        fn days_come_back(days in -3_000_000i64..3_000_000, millis in -9_000_000_000_000i64..9_000_000_000_000) {
            prop_assert_eq!(date(&date_text(days)), Some(days));
            prop_assert_eq!(timestamp(&timestamp_text(millis, true)), Some(millis));
        }

        #[test]
        fn any_text_is_judged(text in "[-0-9:TZ .+é]{0,20}") {
            let _ = (timestamp(&text), date(&text), time(&text));
        }
    }
}
