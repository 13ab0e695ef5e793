//! Names of a repository's files.
//!
//! The name of a table or blob file has its identity (drawn by its store, repeated in its footer),
//! its number (which its checksums depend on), and the hash of its bytes. So it is found without
//! reading it, and every reader can verify it.

use firn_kv::Env;
use firn_kv::internals::base::identity::TableIdentity;
use time::{Date, Month, OffsetDateTime};

/// File that marks a repository.
pub const MARKER: &str = "FIRN-BACKUPS";
/// Contents of that file.
pub const MARKER_TEXT: &str = "firn backups 1\n";
/// Prefix of the contents in any version.
pub const MARKER_START: &str = "firn backups ";
/// Directory of records.
pub const BACKUPS: &str = "backups";
/// Directory of manifests.
pub const MANIFESTS: &str = "manifests";
/// Directory of tables.
pub const TABLES: &str = "tables";
/// Directory of leases.
pub const RUNNING: &str = "running";
/// Directory of files being written.
pub const UNFINISHED: &str = "unfinished";

/// Returns the name of a file in a directory.
pub fn within(folder: &str, name: &str) -> String {
    format!("{folder}/{name}")
}

/// A file of a store to back up: a table or a blob file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedFile {
    /// File number.
    pub number: u64,
    /// Identity, independent of its location.
    pub identity: TableIdentity,
    /// Length in bytes.
    pub size: u64,
}

/// Returns the prefix of a table's name; `None` if only the contents identify it.
pub fn table_start(file: &RecordedFile) -> Option<String> {
    let known = file.identity != TableIdentity::default();
    known.then(|| start_of(file))
}

fn start_of(file: &RecordedFile) -> String {
    let TableIdentity { store, unique } = file.identity;
    format!("{store:016x}-{unique:016x}-{:08}-", file.number)
}

/// Returns the name of a table with this hash.
pub fn table_name(file: &RecordedFile, hash: u128) -> String {
    format!("{}{hash:032x}", start_of(file))
}

/// Reports whether this can be the name of that table.
pub fn is_of(name: &str, file: &RecordedFile) -> bool {
    name.starts_with(&start_of(file)) && hash_of(name).is_some()
}

/// Returns the name of a manifest.
pub fn manifest_name(id: &str, hash: u128) -> String {
    format!("{id}-{hash:032x}")
}

/// Returns the hash at the end of a name.
pub fn hash_of(name: &str) -> Option<u128> {
    let (_, hash) = name.rsplit_once('-')?;
    let is_hash = hash.len() == 32 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then(|| u128::from_str_radix(hash, 16).ok()).flatten()
}

/// Returns a name for a backup of this time, in microseconds since 1970; it ends in a random
/// number. Names are in time order.
pub fn new_id(env: &dyn Env, made_micros: u64) -> String {
    let ([year, month, day], [hour, minute, second]) = parts(made_micros);
    let (micros, drawn) = (made_micros % 1_000_000, env.random() as u32);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}-{micros:06}-{drawn:08x}")
}

/// Returns the time of a name from [`new_id`]; only such files are records.
pub fn made_micros(id: &str) -> Option<u64> {
    let shape = |b: u8| match b {
        b'0'..=b'9' => b'0',
        other => other,
    };
    let (time, drawn) = id.split_at_checked(23)?;
    let has_shape = time.bytes().map(shape).eq(*b"00000000T000000-000000-")
        && drawn.len() == 8
        && drawn.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let number = |at: std::ops::Range<usize>| id.get(at).and_then(|digits| digits.parse().ok());
    let byte = |from: usize| number(from..from + 2).and_then(|n: u32| u8::try_from(n).ok());
    let year = i32::try_from(number(0..4).filter(|_| has_shape)?).ok()?;
    let month = Month::try_from(byte(4)?).ok()?;
    let date = Date::from_calendar_date(year, month, byte(6)?).ok()?;
    let time = date.with_hms_micro(byte(9)?, byte(11)?, byte(13)?, number(16..22)?).ok()?;
    u64::try_from(time.assume_utc().unix_timestamp_nanos() / 1000).ok()
}

/// Formats a time in microseconds since 1970 as `2026-11-26 04:45:01 UTC`.
#[doc(hidden)]
pub fn shown_time(micros: u64) -> String {
    let ([year, month, day], [hour, minute, second]) = parts(micros);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Returns date and time of day.
fn parts(micros: u64) -> ([i32; 3], [u8; 3]) {
    let seconds = i64::try_from(micros / 1_000_000).unwrap_or(i64::MAX);
    // A correct clock does not exceed the year 9999.
    let t = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    ([t.year(), u8::from(t.month()).into(), t.day().into()], [t.hour(), t.minute(), t.second()])
}

#[cfg(test)]
mod tests {
    use firn_kv::MemEnv;

    use super::*;

    #[test]
    fn names_have_their_parts() {
        let micros = 1_795_668_301_000_007;
        let id = new_id(&MemEnv::new(1), micros);
        assert!(id.starts_with("20261126T044501-000007-"), "{id}");
        assert_eq!(made_micros(&id), Some(micros));
        assert_eq!(shown_time(micros), "2026-11-26 04:45:01 UTC");
        assert_eq!(shown_time(u64::MAX), "1970-01-01 00:00:00 UTC");
        let file = RecordedFile::default();
        let name = table_name(&file, 0xab);
        assert_eq!((hash_of(&name), is_of(&name, &file)), (Some(0xab), true));
        assert_eq!(table_start(&file), None, "an empty identity matches no table");
        assert_eq!(hash_of("backup-00"), None);
        assert_eq!(hash_of("é"), None);
        for other in
            ["", "20261126T044501-000007-00ff00a", "20261326T044501-000007-00ff00aa", "ééééééééé"]
        {
            assert_eq!(made_micros(other), None, "{other}");
        }
    }
}
