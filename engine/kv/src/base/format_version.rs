//! Version of the on-disk formats.
//!
//! A store has one version for all its files: `CURRENT`, the manifest, log segments, tables and
//! blob files. Files of earlier versions stay in it until compactions replace them. Invariants:
//! - V1: `CURRENT` and the manifest that it names have the store's version, and no other file of
//!   the store has a newer one. So a program that does not know the version refuses the store at
//!   `CURRENT`, before it changes anything.
//! - V2: the version changes only on request
//!   ([`Db::upgrade_format`](crate::Db::upgrade_format)), and only upwards. Until then an older
//!   program can open the store.
//!
//! Spec: "Unknown versions" in `format-spec/README.md`; policy: `docs/formats.md`.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Version of the formats that a store's files have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatVersion(u32);

impl FormatVersion {
    /// Oldest version that this program reads.
    pub const OLDEST: FormatVersion = FormatVersion(1);

    /// Returns the newest version that this program reads and writes.
    #[cfg(not(feature = "internals"))]
    pub fn newest() -> FormatVersion {
        FormatVersion::OLDEST
    }

    /// Returns the newest version that this program reads and writes.
    #[cfg(feature = "internals")]
    pub fn newest() -> FormatVersion {
        pretended::newest()
    }

    /// Returns the version with this number if this program reads it.
    pub fn known(number: u32) -> Option<FormatVersion> {
        let version = FormatVersion(number);
        (FormatVersion::OLDEST <= version && version <= FormatVersion::newest()).then_some(version)
    }

    /// Returns the number.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A version that may change while others read it.
#[derive(Debug)]
pub struct AtomicFormatVersion(AtomicU32);

impl AtomicFormatVersion {
    /// Creates it with this version.
    pub fn new(version: FormatVersion) -> AtomicFormatVersion {
        AtomicFormatVersion(AtomicU32::new(version.0))
    }

    /// Returns the version.
    pub fn get(&self) -> FormatVersion {
        FormatVersion(self.0.load(Relaxed))
    }

    /// Sets the version.
    pub fn set(&self, version: FormatVersion) {
        self.0.store(version.0, Relaxed);
    }
}

/// The newest version: that of a new store.
impl Default for FormatVersion {
    fn default() -> FormatVersion {
        FormatVersion::newest()
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A newest version that tests set, to act as a later program.
#[cfg(feature = "internals")]
pub mod pretended {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::FormatVersion;

    static NEWEST: AtomicU32 = AtomicU32::new(FormatVersion::OLDEST.0);

    /// Returns the newest version that this program reads and writes.
    pub fn newest() -> FormatVersion {
        FormatVersion(NEWEST.load(Relaxed))
    }

    /// Makes this process act as a program with `number` as its newest version. Files of that
    /// version differ from those of version 1 only in the number. Only for tests in a process of their own.
    pub fn set_newest(number: u32) {
        NEWEST.store(number.max(FormatVersion::OLDEST.0), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_other_programs_are_unknown() {
        let newest = FormatVersion::newest().number();
        assert_eq!(FormatVersion::known(0), None);
        assert_eq!(FormatVersion::known(newest + 1), None);
        assert_eq!(FormatVersion::known(u32::MAX), None);
        for number in 1..=newest {
            assert_eq!(FormatVersion::known(number).map(FormatVersion::number), Some(number));
        }
    }
}
