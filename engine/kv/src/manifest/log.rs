//! A manifest as it is read: its frames, its marks, and where it ends.
//!
//! Invariants: M1 and M2 of [`manifest`](super).

use std::path::{Path, PathBuf};

use super::format::{
    CURRENT_NEW, FRAME, HEADER, MAGIC, MAX_LEN, VERSION, manifest_name, manifest_number,
};
use super::live::LiveFiles;
use super::state::{self, Edit, ManifestState};
use crate::base::checksum::checksum;
use crate::base::coding::u32_at;
use crate::base::error::{Error, ErrorKind, Result};
use crate::env::Env;

/// Bytes that may be checked in vain in search of a sound frame after a bad one.
const SEARCH: usize = 256 << 20;

/// What [`Manifest::append`](super::Manifest::append) wrote at once.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestFrame {
    /// Offset in the file.
    pub offset: u64,
    /// Bytes it takes.
    pub len: u64,
    /// Its checksum.
    pub checksum: u32,
    /// The edits; none in a mark.
    pub edits: Vec<Edit>,
}

/// The content of one manifest, for [`Manifest::load`](super::Manifest::load) and for the tools.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// The file.
    pub path: PathBuf,
    /// Its frames, marks left out.
    pub frames: Vec<ManifestFrame>,
    /// Its marks.
    pub marks: Vec<ManifestFrame>,
    /// Offset after the last sound frame; what lies behind was being written when the machine
    /// stopped.
    pub end: u64,
    /// Length of the file in bytes.
    pub len: u64,
}

impl Log {
    /// The state after all edits.
    ///
    /// # Errors
    /// `Corruption` where an edit does not fit, or the first is no snapshot.
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
        let state = live.into_state();
        state.check().map_err(place(self.end))?;
        Ok(state)
    }
}

/// Reads a manifest, whether `CURRENT` names it or not.
///
/// # Errors
/// `NotFound`; `Corruption` for damage, with the place; `Incompatible` for a newer format version,
/// or newer required fields.
pub fn read(env: &dyn Env, dir: &Path, number: u64) -> Result<Log> {
    let path = dir.join(manifest_name(number));
    let bytes = env.read_all(&path, MAX_LEN)?;
    check_header(&bytes, number).map_err(|e| e.at(&path, 0).block("manifest"))?;
    let (mut at, mut frames, mut marks, mut mark_is_due) = (HEADER, vec![], vec![], false);
    loop {
        let Some(payload) = frame(&bytes, number, at) else {
            // Only a mark is not durable before the next frame is written (M2). One that is torn
            // takes nothing with it.
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
            state::decode_edits(payload).map_err(|e| e.at(&path, offset).block("manifest"))?;
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
    Ok(Log { path, frames, marks, end: at as u64, len: bytes.len() as u64 })
}

/// Bytes of a manifest that are no sound frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestGap {
    /// Offset in the file.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

/// Reads all that is sound in a manifest, over damage too: for the tools. [`Log::end`] lies behind
/// the last sound frame. A torn end is a gap like any other; whether edits behind a gap still fit
/// is for [`ManifestState::apply`] to say.
///
/// # Errors
/// `NotFound`, `Incompatible`, and what the environment says; damage is none.
pub fn read_around(env: &dyn Env, dir: &Path, number: u64) -> Result<(Log, Vec<ManifestGap>)> {
    let path = dir.join(manifest_name(number));
    let bytes = env.read_all(&path, MAX_LEN)?;
    let (mut log, mut gaps) =
        (Log { path, frames: vec![], marks: vec![], end: 0, len: bytes.len() as u64 }, vec![]);
    let mut at = HEADER.min(bytes.len());
    match check_header(&bytes, number) {
        Ok(()) => log.end = HEADER as u64,
        Err(e) if e.kind() == ErrorKind::Incompatible => return Err(e.at(&log.path, 0)),
        Err(_) => gaps.push(ManifestGap { offset: 0, len: at as u64 }),
    }
    while at < bytes.len() {
        let edits = match frame(&bytes, number, at) {
            Some(payload) => state::decode_edits(payload).map(|e| (e, payload.len())),
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

fn check_header(bytes: &[u8], number: u64) -> Result<()> {
    let header = bytes
        .get(..HEADER)
        .filter(|h| h[..8] == MAGIC && u32_at(h, 12) == checksum(number, 0, &[&h[..12]]));
    let header = header.ok_or_else(|| {
        Error::corruption(
            "the header of the manifest is damaged; restore it from a copy, or rebuild it with `sstable-dump repair`",
        )
    })?;
    match u32_at(header, 8) {
        VERSION => Ok(()),
        other => Err(Error::newer("the manifest", other, VERSION)),
    }
}

/// The number of the manifest that `bytes` are the beginning of, whatever the file is called: the
/// one below a million that its header's checksum was made with.
pub fn own_number(bytes: &[u8]) -> Option<u64> {
    let header = bytes.get(..HEADER).filter(|h| h[..8] == MAGIC)?;
    (1..1_000_000).find(|&n| u32_at(header, 12) == checksum(n, 0, &[&header[..12]]))
}

/// The payload of the sound frame at `at`.
fn frame(bytes: &[u8], number: u64, at: usize) -> Option<&[u8]> {
    let head = bytes.get(at..at.checked_add(FRAME)?)?;
    let start = at + FRAME;
    let payload = bytes.get(start..start.checked_add(u32_at(head, 0) as usize)?)?;
    (u32_at(head, 4) == checksum(number, at as u64, &[&head[..4], payload])).then_some(payload)
}

/// Offset of a sound frame behind the bad one at `bad`. Bytes that would take too long to search
/// count as one.
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

/// Removes manifests other than `keep`, and what an interrupted
/// [`Manifest::create`](super::Manifest::create) left.
///
/// # Errors
/// What the environment says.
pub fn remove_others(env: &dyn Env, dir: &Path, keep: u64) -> Result<()> {
    for name in env.list(dir)? {
        if name == CURRENT_NEW || manifest_number(&name).is_some_and(|n| n != keep) {
            env.remove(&dir.join(name))?;
        }
    }
    Ok(())
}
