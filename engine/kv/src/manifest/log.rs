//! Reads a manifest: its frames, its marks, and its end.
//!
//! Invariants: M1 and M2 of [`manifest`](super).

use std::path::{Path, PathBuf};

use super::edit::{self, Edit};
use super::format::{CURRENT_NEW, FRAME, HEADER, MAGIC, MAX_LEN, manifest_name, manifest_number};
use super::live_files::LiveFiles;
use super::state::ManifestState;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::format_version::FormatVersion;
use crate::env::Env;
use crate::util::checksum::checksum;
use crate::util::coding::u32_at;

/// Maximum number of bytes to checksum in search of a valid frame after a bad one.
const SEARCH: usize = 256 << 20;

/// Frame: the edits of one [`Manifest::append`](super::Manifest::append).
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestFrame {
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes, with its header.
    pub len: u64,
    /// Checksum of the frame.
    pub checksum: u32,
    /// Edits; empty in a mark.
    pub edits: Vec<Edit>,
}

/// Content of one manifest, for [`Manifest::load`](super::Manifest::load) and for the tools.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Path of the file.
    pub path: PathBuf,
    /// Format version of the file; the oldest if the header is damaged.
    pub version: FormatVersion,
    /// Frames, without marks.
    pub frames: Vec<ManifestFrame>,
    /// Marks.
    pub marks: Vec<ManifestFrame>,
    /// Offset after the last valid frame. Bytes after it were being written when the machine
    /// stopped.
    pub end: u64,
    /// Length of the file in bytes.
    pub len: u64,
}

impl Log {
    /// Returns the state after all edits.
    ///
    /// # Errors
    /// `Corruption` if an edit does not fit, or the first edit is not a snapshot.
    pub fn replay(&self) -> Result<ManifestState> {
        let place = |offset| move |e: Error| e.at(&self.path, offset).block("manifest");
        let first = self.frames.first().and_then(|f| f.edits.first());
        if !matches!(first, Some(Edit::Snapshot(_))) {
            let e = Error::corruption(
                "the manifest does not begin with a snapshot; restore it from a copy, or rebuild it with `sstable-dump repair`",
            );
            return Err(place(HEADER as u64)(e));
        }
        let mut live = LiveFiles::default();
        for f in &self.frames {
            f.edits.iter().try_for_each(|e| live.apply(e)).map_err(place(f.offset))?;
        }
        let state = ManifestState { format: self.version, ..live.into_state() };
        state.check().map_err(place(self.end))?;
        Ok(state)
    }
}

/// Reads a manifest, whether or not `CURRENT` names it.
///
/// # Errors
/// `NotFound`; `Corruption` for damage, with its offset; `Incompatible` for a newer format version,
/// or newer required fields.
pub fn read(env: &dyn Env, dir: &Path, number: u64) -> Result<Log> {
    let path = dir.join(manifest_name(number));
    let bytes = env.read_all(&path, MAX_LEN)?;
    let version = check_header(&bytes, number).map_err(|e| e.at(&path, 0).block("manifest"))?;
    let (mut at, mut frames, mut marks, mut mark_is_due) = (HEADER, vec![], vec![], false);
    loop {
        let Some(payload) = frame(&bytes, number, at) else {
            // Only a mark may not be durable when the next frame is written (M2). A torn mark loses
            // no edits.
            let torn_mark =
                mark_is_due && frame(&bytes, number, at + FRAME).is_some_and(|p| !p.is_empty());
            if torn_mark {
                (at, mark_is_due) = (at + FRAME, false);
                continue;
            }
            break;
        };
        let (offset, len, checksum) =
            (at as u64, (FRAME + payload.len()) as u64, u32_at(&bytes, at + 4));
        let edits =
            edit::decode_edits(payload).map_err(|e| e.at(&path, offset).block("manifest"))?;
        if payload.is_empty() { &mut marks } else { &mut frames }.push(ManifestFrame {
            offset,
            len,
            checksum,
            edits,
        });
        mark_is_due = !payload.is_empty();
        at += FRAME + payload.len();
    }
    if let Some(later) = sound_after(&bytes, number, at) {
        let e = Error::corruption(format!(
            "a frame of the manifest is damaged, and the one at {later} proves that it had been durable; \
             restore the file from a copy, or rebuild it with `sstable-dump repair`"
        ));
        return Err(e.at(&path, at as u64).block("manifest"));
    }
    Ok(Log { path, version, frames, marks, end: at as u64, len: bytes.len() as u64 })
}

/// Range of bytes of a manifest that is not a valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestGap {
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Reads all valid frames of a manifest, also after damage; for the tools. [`Log::end`] is the
/// offset after the last valid frame. A torn end is reported as a gap. To find out whether edits
/// after a gap still fit, use [`ManifestState::apply`].
///
/// # Errors
/// `NotFound`, `Incompatible`, and I/O errors of the environment. Corruption is reported in the
/// result, not returned as an error.
pub fn read_around(env: &dyn Env, dir: &Path, number: u64) -> Result<(Log, Vec<ManifestGap>)> {
    let path = dir.join(manifest_name(number));
    let bytes = env.read_all(&path, MAX_LEN)?;
    let mut log = Log {
        path,
        version: FormatVersion::OLDEST,
        frames: vec![],
        marks: vec![],
        end: 0,
        len: bytes.len() as u64,
    };
    let mut gaps = vec![];
    let mut at = HEADER.min(bytes.len());
    match check_header(&bytes, number) {
        Ok(version) => (log.version, log.end) = (version, HEADER as u64),
        Err(e) if e.kind() == ErrorKind::Incompatible => return Err(e.at(&log.path, 0)),
        Err(_) => gaps.push(ManifestGap { offset: 0, len: at as u64 }),
    }
    while at < bytes.len() {
        let edits = match frame(&bytes, number, at) {
            Some(payload) => edit::decode_edits(payload).map(|e| (e, payload.len())),
            None => {
                let next =
                    sound_after(&bytes, number, at).filter(|&n| frame(&bytes, number, n).is_some());
                let next = next.unwrap_or(bytes.len());
                gaps.push(ManifestGap { offset: at as u64, len: (next - at) as u64 });
                at = next;
                continue;
            }
        };
        let (edits, len) = edits.map_err(|e| e.at(&log.path, at as u64).block("manifest"))?;
        let frames = if len == 0 { &mut log.marks } else { &mut log.frames };
        frames.push(ManifestFrame {
            offset: at as u64,
            len: (FRAME + len) as u64,
            checksum: u32_at(&bytes, at + 4),
            edits,
        });
        at += FRAME + len;
        log.end = at as u64;
    }
    Ok((log, gaps))
}

/// Returns the format version in the header of a manifest.
fn check_header(bytes: &[u8], number: u64) -> Result<FormatVersion> {
    let header = bytes
        .get(..HEADER)
        .filter(|h| h[..8] == MAGIC && u32_at(h, 12) == checksum(number, 0, &[&h[..12]]));
    let header = header.ok_or_else(|| {
        Error::corruption(
            "the header of the manifest is damaged; restore it from a copy, or rebuild it with `sstable-dump repair`",
        )
    })?;
    let version = u32_at(header, 8);
    let newest = FormatVersion::newest().number();
    FormatVersion::known(version).ok_or_else(|| Error::newer("the manifest", version, newest))
}

/// Finds the number of the manifest that begins with `bytes`, regardless of its file name. It tries
/// all numbers below a million against the checksum of the header.
pub fn own_number(bytes: &[u8]) -> Option<u64> {
    let header = bytes.get(..HEADER).filter(|h| h[..8] == MAGIC)?;
    (1..1_000_000).find(|&n| u32_at(header, 12) == checksum(n, 0, &[&header[..12]]))
}

/// Returns the payload of the frame at `at` if it is valid.
fn frame(bytes: &[u8], number: u64, at: usize) -> Option<&[u8]> {
    let head = bytes.get(at..at.checked_add(FRAME)?)?;
    let start = at + FRAME;
    let payload = bytes.get(start..start.checked_add(u32_at(head, 0) as usize)?)?;
    (u32_at(head, 4) == checksum(number, at as u64, &[&head[..4], payload])).then_some(payload)
}

/// Returns the offset of a valid frame after the bad one at `bad`. Bytes that would take too long
/// to search count as one.
fn sound_after(bytes: &[u8], number: u64, bad: usize) -> Option<usize> {
    let mut budget = SEARCH;
    for at in bad + 1..bytes.len().saturating_sub(FRAME - 1) {
        let len = u32_at(bytes, at) as usize;
        if len > bytes.len() - at - FRAME {
            continue;
        }
        if frame(bytes, number, at).is_some() {
            return Some(at);
        }
        match budget.checked_sub(len) {
            Some(left) => budget = left,
            None => return Some(at),
        }
    }
    None
}

/// Removes manifests other than `keep`, and files that an interrupted
/// [`Manifest::create`](super::Manifest::create) left.
///
/// # Errors
/// I/O errors of the environment.
pub fn remove_others(env: &dyn Env, dir: &Path, keep: u64) -> Result<()> {
    for name in env.list(dir)? {
        if name == CURRENT_NEW || manifest_number(&name).is_some_and(|n| n != keep) {
            env.remove(&dir.join(name))?;
        }
    }
    Ok(())
}
