//! Floor 2: the manifest: which files make up a Db.
//!
//! A manifest is a file `MANIFEST-nnnnnn` (its number in at least six digits) that only grows: a
//! snapshot of the [`ManifestState`], then [`Edit`]s. `CURRENT` names the one that counts. All
//! integers are little-endian.
//!
//! Manifest file: a header of 16 bytes, then frames one directly after the other.
//!
//! | offset | size | header |
//! |---:|---:|---|
//! | 0 | 8 | magic, the bytes `FIRNMAN` and 0x0a |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | CRC-32 of the context (manifest number, 0) and bytes 0 to 11 |
//!
//! | offset | size | frame |
//! |---:|---:|---|
//! | 0 | 4 | length of the payload |
//! | 4 | 4 | CRC-32 of the context (manifest number, offset of the frame in the file), bytes 0 to 3, and the payload |
//! | 8 | … | payload: edits, see [`state`]; none in a mark |
//!
//! A *mark*, a frame without payload, is written after a frame has been synced: it proves that what
//! lies before it was durable.
//!
//! `CURRENT` is three lines of text, each ended by 0x0a: `firn format 1`, the name of the manifest,
//! and `crc ` with eight lower-case hexadecimal digits, the CRC-32 (no context) of the two lines
//! before.
//!
//! Invariants:
//! - M1: one [`Manifest::append`] is one frame: after a crash all of its edits count or none.
//! - M2: a frame is synced before `append` returns, and before the next one is written: so at most
//!   the last frame can be torn. A bad frame with anything sound after it, be it a mark, is
//!   corruption; without, it is where the manifest ends. A mark is synced with the frame after it
//!   only: a bad mark with a sound frame directly after it is passed over.
//! - M3: `CURRENT` is replaced by a rename, after the manifest that it names is durable, name and
//!   content.
//! - M4: after a failed write or sync nothing more is written.
//! - M5: who opens a Db for writing goes on with its manifest only where the one before has closed
//!   the log cleanly (W7 of the log) and the file ends with a mark; otherwise another manifest is
//!   begun ([`mod@end`]).
//!
//! Spec: `format-spec/README.md`, "Manifest".

use std::path::{Path, PathBuf};

use crate::base::checksum::checksum;
use crate::base::coding::u32_at;
use crate::base::error::{Error, ErrorKind, Result};
use crate::env::{Env, WriteFile};

mod current;
pub mod end;
mod fields;
mod live;
pub mod options;
pub mod state;

#[cfg(test)]
mod tests;

pub use current::{CurrentFile, current};
use current::{lost_current, write_current};
pub use end::CleanEnd;
pub use live::{LiveFiles, Undo};
pub use options::PersistedOptions;
pub use state::{AddedTable, Edit, ManifestState, RunState, TableMeta, TreeState};

/// The newest format version that this code reads and the one that it writes.
pub const VERSION: u32 = 1;
/// The file that names the manifest.
pub const CURRENT: &str = "CURRENT";
/// What becomes `CURRENT` by a rename.
pub const CURRENT_NEW: &str = "CURRENT.tmp";

const MAGIC: [u8; 8] = *b"FIRNMAN\n";
const HEADER: usize = 16;
const FRAME: usize = 8;
/// No manifest is longer.
const MAX_LEN: u64 = 1 << 30;
/// Smaller manifests are never worth a new one.
const SMALL: u64 = 1 << 20;
/// Bytes that may be checked in vain in search of a sound frame after a bad one.
const SEARCH: usize = 256 << 20;

/// Numbers of files and log positions lie below this, so that there is always a next one.
const MAX_NUMBER: u64 = 1 << 62;

/// The file name of a manifest.
pub fn manifest_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

/// The number in a manifest's file name; `None` for names that are no manifest's.
pub fn manifest_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("MANIFEST-")?.parse().ok()?;
    (number < MAX_NUMBER && manifest_name(number) == name).then_some(number)
}

/// A manifest that is written and durable, but does not count yet.
#[derive(Debug)]
pub struct NewManifest(Manifest);

impl NewManifest {
    /// Makes it the one that counts.
    ///
    /// # Errors
    /// What the environment says: then it is unknown which one counts.
    pub fn make_current(self, env: &dyn Env, dir: &Path) -> Result<Manifest> {
        env.rename(&dir.join(CURRENT_NEW), &dir.join(CURRENT))?;
        env.sync_dir(dir)?;
        Ok(self.0)
    }
}

/// A manifest that is being written.
pub struct Manifest {
    file: Box<dyn WriteFile>,
    path: PathBuf,
    number: u64,
    snapshot: u64,
    failed: Option<Error>,
    /// Whether its end is a frame that could not be written in full.
    torn: bool,
}

debug_by!(Manifest, "Manifest", path, number);

impl Manifest {
    /// Writes a new manifest that begins with `state`, and makes it the one that counts. All is
    /// durable when this returns. The manifests before it can then be removed. `number` must be
    /// new; the first state of a new Db has no trees, so that what a crash leaves of it is not
    /// taken for a Db that lost its `CURRENT`.
    ///
    /// # Errors
    /// What the environment says. The manifest that counted before may still count then, or this
    /// one: keep the files of both.
    pub fn create(
        env: &dyn Env,
        dir: &Path,
        number: u64,
        state: &ManifestState,
    ) -> Result<Manifest> {
        Manifest::prepare(env, dir, number, state)?.make_current(env, dir)
    }

    /// The first half of [`create`](Manifest::create): all that needs space. The manifest does not
    /// count yet.
    ///
    /// # Errors
    /// What the environment says. Nothing has changed then, and what there is of the manifest is
    /// removed.
    pub fn prepare(
        env: &dyn Env,
        dir: &Path,
        number: u64,
        state: &ManifestState,
    ) -> Result<NewManifest> {
        let made = Manifest::write(env, dir, number, state).and_then(|m| {
            write_current(env, dir, number)?;
            Ok(NewManifest(m))
        });
        made.inspect_err(|_| {
            let _ = env.remove(&dir.join(CURRENT_NEW));
            let _ = env.remove(&dir.join(manifest_name(number)));
        })
    }

    fn write(env: &dyn Env, dir: &Path, number: u64, state: &ManifestState) -> Result<Manifest> {
        let path = dir.join(manifest_name(number));
        let mut file = env.create(&path)?;
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let crc = checksum(number, 0, &[&header[..12]]);
        header[12..].copy_from_slice(&crc.to_le_bytes());
        file.append(&header)?;
        let mut m = Manifest { file, path, number, snapshot: 0, failed: None, torn: false };
        m.append(&[Edit::Snapshot(Box::new(state.clone()))])?;
        m.snapshot = m.size();
        env.sync_dir(dir)?;
        Ok(m)
    }

    /// Adds one frame: all of `edits` or, after a crash, none. Durable when this returns. Whoever
    /// calls has seen [`ManifestState::apply`] take the edits.
    ///
    /// # Errors
    /// What the environment says; then whether the edits count is unknown until the Db is opened
    /// again (keep the files of the states before and after), and every later call fails with the
    /// same error. Only when the manifest is [torn](Manifest::is_torn) afterwards it is sure that
    /// they do not count. `InvalidArgument` when the manifest would become longer than 1 GiB: then
    /// nothing was written, and smaller edits can follow.
    pub fn append(&mut self, edits: &[Edit]) -> Result<()> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let payload = state::encode_edits(edits);
        if self.size() + (payload.len() + 2 * FRAME) as u64 > MAX_LEN {
            return Err(
                Error::invalid("the manifest would become longer than 1 GiB").in_file(&self.path)
            );
        }
        if let Err(e) = self.write_frame(&payload) {
            // The frame is not whole, so it does not count, whatever of it is there.
            self.torn = e.is_transient();
            self.failed = Some(e.clone());
            return Err(e);
        }
        self.file.sync().inspect_err(|e| self.failed = Some(e.clone()))?;
        match self.write_frame(&[]) {
            // The edits are durable; only the mark behind them, which says so, is not whole.
            Err(e) if e.is_transient() => {
                self.torn = true;
                self.failed = Some(e);
                Ok(())
            }
            marked => marked.inspect_err(|e| self.failed = Some(e.clone())),
        }
    }

    /// Whether a frame could not be written in full for want of space or the like: nothing can be
    /// added, and another manifest must be begun with the state before it.
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    fn write_frame(&mut self, payload: &[u8]) -> Result<()> {
        let len = (payload.len() as u32).to_le_bytes();
        let crc = checksum(self.number, self.size(), &[&len, payload]).to_le_bytes();
        let mut frame = Vec::with_capacity(FRAME + payload.len());
        for part in [&len[..], &crc, payload] {
            frame.extend_from_slice(part);
        }
        self.file.append(&frame)
    }

    /// Reads the manifest that counts: the state and the manifest's number. `None` in a directory
    /// that holds no Db.
    ///
    /// # Errors
    /// As [`find`](Manifest::find).
    pub fn load(env: &dyn Env, dir: &Path) -> Result<Option<(ManifestState, u64)>> {
        Ok(Manifest::find(env, dir)?.map(|found| (found.state, found.number)))
    }

    /// Reads the manifest that counts. `None` in a directory that holds no Db.
    ///
    /// # Errors
    /// `Corruption` for damage, for a `CURRENT` that names a manifest that is not there, and for
    /// manifests without a `CURRENT`, always with the place; `Incompatible` for a newer format
    /// version, or newer required fields.
    pub fn find(env: &dyn Env, dir: &Path) -> Result<Option<FoundManifest>> {
        let Some(number) = current(env, dir)? else {
            return lost_current(env, dir).map(|()| None);
        };
        let path = dir.join(manifest_name(number));
        let log = read(env, dir, number).map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::corruption(
                "the manifest that CURRENT names is missing; restore it from a copy, or rebuild it with `sstable-dump repair`",
            )
            .at(&path, 0)
            .block("manifest"),
            _ => e,
        })?;
        Ok(Some(FoundManifest { state: log.replay()?, number, end: log.clean_end() }))
    }

    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.file.len()
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether it has grown so far beyond its snapshot that a new one should be begun: over 1 MiB,
    /// and over four times the snapshot or half of what the snapshot leaves below 1 GiB.
    pub fn is_large(&self) -> bool {
        let room = MAX_LEN.saturating_sub(self.snapshot);
        self.size() > SMALL
            && self.size() > self.snapshot.saturating_mul(4).min(self.snapshot + room / 2)
    }
}

/// The manifest that counts, as it was read.
pub struct FoundManifest {
    /// The state at its end.
    pub state: ManifestState,
    /// Its number.
    pub number: u64,
    /// Where it can be gone on with, as far as it tells itself.
    pub end: Option<CleanEnd>,
}

debug_by!(FoundManifest, "Found", number, end);

/// What [`Manifest::append`] wrote at once.
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

/// The content of one manifest, for [`Manifest::load`] and for the tools.
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

/// Removes manifests other than `keep`, and what an interrupted [`Manifest::create`] left.
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
