//! The sizes and names of a manifest's file.

/// The newest format version that this code reads and the one that it writes.
pub const VERSION: u32 = 1;

/// The file that names the manifest.
pub const CURRENT: &str = "CURRENT";

/// What becomes `CURRENT` by a rename.
pub const CURRENT_NEW: &str = "CURRENT.tmp";

pub(super) const MAGIC: [u8; 8] = *b"FIRNMAN\n";

pub(super) const HEADER: usize = 16;

pub(super) const FRAME: usize = 8;

/// No manifest is longer.
pub(super) const MAX_LEN: u64 = 1 << 30;

/// Numbers of files and log positions lie below this, so that there is always a next one.
pub(super) const MAX_NUMBER: u64 = 1 << 62;

/// The file name of a manifest.
pub fn manifest_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

/// The number in a manifest's file name; `None` for names that are no manifest's.
pub fn manifest_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("MANIFEST-")?.parse().ok()?;
    (number < MAX_NUMBER && manifest_name(number) == name).then_some(number)
}
