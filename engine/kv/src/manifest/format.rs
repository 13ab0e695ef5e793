//! Sizes and names of a manifest's file.

/// Name of the file that names the manifest in use.
pub const CURRENT: &str = "CURRENT";

/// Name of the file that is renamed to `CURRENT`.
pub const CURRENT_NEW: &str = "CURRENT.tmp";

pub(super) const MAGIC: [u8; 8] = *b"FIRNMAN\n";

pub(super) const HEADER: usize = 16;

pub(super) const FRAME: usize = 8;

/// Maximum length of a manifest in bytes.
pub(super) const MAX_LEN: u64 = 1 << 30;

/// Exclusive upper bound of file numbers and log positions, so that there is always a next one.
pub(super) const MAX_NUMBER: u64 = 1 << 62;

/// Returns the file name of a manifest.
pub fn manifest_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

/// Returns the number in a manifest's file name; `None` for any other name.
pub fn manifest_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("MANIFEST-")?.parse().ok()?;
    (number < MAX_NUMBER && manifest_name(number) == name).then_some(number)
}
