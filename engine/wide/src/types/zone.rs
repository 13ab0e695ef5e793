//! Named time zones in timestamps. The data is that of the library `jiff`, so a text has the same
//! meaning on every machine.

/// Returns the offset of a zone in seconds east of UTC, at a local time in seconds since 1970. As
/// in Java, the earlier of two such times counts, and a time in a gap of the clock is moved after
/// the gap.
#[cfg(feature = "time-zones")]
pub(super) fn offset(name: &str, local: i64) -> Option<i64> {
    use jiff::Timestamp;
    use jiff::tz::{TimeZone, TimeZoneDatabase};
    use std::sync::LazyLock;

    /// The zones of the library, never the files of the machine.
    static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

    let region = ABBREVIATIONS.iter().find(|(_, short)| short.contains(&name)).map(|a| a.0);
    let zone = ZONES.get(region.unwrap_or(name)).ok()?;
    let civil = TimeZone::UTC.to_datetime(Timestamp::from_second(local).ok()?);
    let instant = zone.to_ambiguous_timestamp(civil).compatible().ok()?;
    Some(local - instant.as_second())
}

/// Returns `None`, because the feature `time-zones` is disabled.
#[cfg(not(feature = "time-zones"))]
pub(super) fn offset(_: &str, _: i64) -> Option<i64> {
    None
}

/// Regions with their abbreviations. As in Java, `PST` in summer is the time of its region, which
/// is then `PDT`.
#[cfg(feature = "time-zones")]
const ABBREVIATIONS: [(&str, &[&str]); 20] = [
    ("America/New_York", &["EST", "EDT"]),
    ("America/Chicago", &["CST", "CDT"]),
    ("America/Denver", &["MST", "MDT"]),
    ("America/Los_Angeles", &["PST", "PDT"]),
    ("America/Anchorage", &["AKST", "AKDT"]),
    ("America/Halifax", &["AST", "ADT"]),
    ("America/St_Johns", &["NST", "NDT"]),
    ("Pacific/Honolulu", &["HST"]),
    ("Europe/London", &["BST"]),
    ("Europe/Lisbon", &["WET", "WEST"]),
    ("Europe/Paris", &["CET", "CEST"]),
    ("Europe/Athens", &["EET", "EEST"]),
    ("Europe/Moscow", &["MSK"]),
    ("Asia/Kolkata", &["IST"]),
    ("Asia/Tokyo", &["JST"]),
    ("Asia/Seoul", &["KST"]),
    ("Australia/Sydney", &["AEST", "AEDT"]),
    ("Australia/Adelaide", &["ACST", "ACDT"]),
    ("Australia/Perth", &["AWST"]),
    ("Pacific/Auckland", &["NZST", "NZDT"]),
];
