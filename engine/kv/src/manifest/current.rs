//! Reads and writes `CURRENT`, which names the manifest in use; detects a missing one.

use std::path::Path;

use super::format::{CURRENT, CURRENT_NEW, manifest_name, manifest_number};
use super::log::read;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::format_version::FormatVersion;
use crate::env::Env;

pub(super) fn current_text(version: u32, name: &str) -> String {
    let lines = format!("firn format {version}\n{name}\n");
    let crc = crc32fast::hash(lines.as_bytes());
    format!("{lines}crc {crc:08x}\n")
}

/// Writes the next `CURRENT` under a temporary name.
pub(super) fn write_current(
    env: &dyn Env,
    dir: &Path,
    version: FormatVersion,
    number: u64,
) -> Result<()> {
    let mut file = env.create(&dir.join(CURRENT_NEW))?;
    file.append(current_text(version.number(), &manifest_name(number)).as_bytes())?;
    file.sync()
}

/// Returns what `CURRENT` says; `None` without a `CURRENT`.
///
/// # Errors
/// `Corruption` for a damaged `CURRENT`; `Incompatible` for a newer format version.
pub fn current(env: &dyn Env, dir: &Path) -> Result<Option<CurrentFile>> {
    let path = dir.join(CURRENT);
    let bytes = match env.read_all(&path, 4096) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    CurrentFile::decode(&bytes).map(Some).map_err(|e| e.at(&path, 0).block("current"))
}

/// Content of a `CURRENT` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentFile {
    /// Version of the store's files.
    pub version: FormatVersion,
    /// Number of the manifest in use.
    pub manifest: u64,
    /// Checksum on the last line.
    pub checksum: u32,
}

impl CurrentFile {
    /// Decodes the content of a `CURRENT` file.
    ///
    /// # Errors
    /// `Corruption`, or `Incompatible` for a newer format version.
    pub fn decode(bytes: &[u8]) -> Result<CurrentFile> {
        let damaged = || {
            Error::corruption(
                "this file is damaged; restore it from a copy, or let `sstable-dump repair` name the newest sound manifest",
            )
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        let (lines, crc) = text.rsplit_once("crc ").ok_or_else(damaged)?;
        let checksum = crc32fast::hash(lines.as_bytes());
        if crc != format!("{checksum:08x}\n") {
            return Err(damaged());
        }
        // Only the first line has the same form in every version.
        let mut lines = lines.lines();
        let version = lines
            .next()
            .and_then(|l| l.strip_prefix("firn format ")?.parse::<u32>().ok())
            .ok_or_else(damaged)?;
        let known = FormatVersion::known(version);
        let version = known
            .ok_or_else(|| Error::newer("the store", version, FormatVersion::newest().number()))?;
        let manifest = lines.next().and_then(manifest_number).ok_or_else(damaged)?;
        if text != current_text(version.number(), &manifest_name(manifest)) {
            return Err(damaged());
        }
        Ok(CurrentFile { version, manifest, checksum })
    }
}

/// Distinguishes a directory without a Db from one whose `CURRENT` is lost. A crash during the
/// creation of a Db leaves at most one manifest, which holds at most an empty state.
pub(super) fn lost_current(env: &dyn Env, dir: &Path) -> Result<()> {
    let names = match env.list(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for number in names.iter().filter_map(|n| manifest_number(n)) {
        let unused = match read(env, dir, number) {
            Ok(log) => log.frames.len() <= 1 && log.replay().map_or(true, |s| s.trees.is_empty()),
            Err(e) if e.kind() == ErrorKind::Corruption => {
                env.file_len(&dir.join(manifest_name(number)))? < 4096
            }
            Err(e) => return Err(e),
        };
        if !unused {
            let name = manifest_name(number);
            return Err(Error::corruption(format!(
                "this file is missing, and {name} shows that there was a Db; restore it from a copy, or let `sstable-dump repair` name \
                 the newest sound manifest"
            ))
            .at(dir.join(CURRENT), 0)
            .block("current"));
        }
    }
    Ok(())
}
