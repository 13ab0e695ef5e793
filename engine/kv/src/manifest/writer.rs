//! Writes the manifest, and finds or changes the one in use.
//!
//! Invariants: M1 to M5 of [`manifest`](super).

use std::path::{Path, PathBuf};

use super::clean_end::CleanEnd;
use super::current::{CurrentFile, current, lost_current, write_current};
use super::edit::{self, Edit};
use super::format::{CURRENT, CURRENT_NEW, FRAME, HEADER, MAGIC, MAX_LEN, manifest_name};
use super::log::read;
use super::state::ManifestState;
use crate::base::error::{Error, ErrorKind, Result};
use crate::env::{Env, WriteFile};
use crate::util::checksum::checksum;

/// Size in bytes up to which a manifest is never replaced by a new one.
const SMALL: u64 = 1 << 20;

/// Manifest that is written and durable, but not in use yet.
#[derive(Debug)]
pub struct NewManifest(Manifest);

impl NewManifest {
    /// Makes it the manifest in use.
    ///
    /// # Errors
    /// I/O errors of the environment; then it is unknown which manifest is in use.
    pub fn make_current(self, env: &dyn Env, dir: &Path) -> Result<Manifest> {
        env.rename(&dir.join(CURRENT_NEW), &dir.join(CURRENT))?;
        env.sync_dir(dir)?;
        Ok(self.0)
    }
}

/// Open manifest that is being written.
pub struct Manifest {
    file: Box<dyn WriteFile>,
    path: PathBuf,
    number: u64,
    snapshot: u64,
    failed: Option<Error>,
    /// Whether the file ends with a frame that could not be written in full.
    torn: bool,
}

debug_by!(Manifest, "Manifest", path, number);

impl Manifest {
    /// Writes a new manifest that begins with `state`, and makes it the one in use. Everything is
    /// durable when this returns, and older manifests can be removed. `number` must be new. The
    /// first state of a new Db must have no trees. Otherwise the remains of a crash would look like
    /// a Db without its `CURRENT`. A checkpoint is such a case: opening its directory then fails.
    ///
    /// # Errors
    /// I/O errors of the environment. Then the previous manifest or this one may be in use: retain
    /// the files of both.
    pub fn create(
        env: &dyn Env,
        dir: &Path,
        number: u64,
        state: &ManifestState,
    ) -> Result<Manifest> {
        Manifest::prepare(env, dir, number, state)?.make_current(env, dir)
    }

    /// Runs the first half of [`create`](Manifest::create): every step that needs space. The
    /// manifest is not in use yet.
    ///
    /// # Errors
    /// I/O errors of the environment. Then nothing has changed, and the partial manifest is
    /// removed.
    pub fn prepare(
        env: &dyn Env,
        dir: &Path,
        number: u64,
        state: &ManifestState,
    ) -> Result<NewManifest> {
        let made = Manifest::write(env, dir, number, state).and_then(|m| {
            write_current(env, dir, state.format, number)?;
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
        header[8..12].copy_from_slice(&state.format.number().to_le_bytes());
        let crc = checksum(number, 0, &[&header[..12]]);
        header[12..].copy_from_slice(&crc.to_le_bytes());
        file.append(&header)?;
        let mut m = Manifest { file, path, number, snapshot: 0, failed: None, torn: false };
        m.append(&[Edit::Snapshot(Box::new(state.clone()))])?;
        m.snapshot = m.size();
        env.sync_dir(dir)?;
        Ok(m)
    }

    /// Appends one frame: after a crash all of `edits` count, or none. The frame is durable when
    /// this returns. The caller has already applied the edits with [`ManifestState::apply`].
    ///
    /// # Errors
    /// - I/O errors of the environment. Then it is unknown whether the edits count until the Db is
    ///   opened again: retain the files of the states before and after. Every later call fails with
    ///   the same error. The edits do not count for certain only if the manifest is
    ///   [torn](Manifest::is_torn) afterwards.
    /// - `InvalidArgument` when the manifest would become longer than 1 GiB. Then nothing was
    ///   written, and smaller edits can follow.
    pub fn append(&mut self, edits: &[Edit]) -> Result<()> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let payload = edit::encode_edits(edits);
        if self.size() + (payload.len() + 2 * FRAME) as u64 > MAX_LEN {
            return Err(
                Error::invalid("the manifest would become longer than 1 GiB").in_file(&self.path)
            );
        }
        if let Err(e) = self.write_frame(&payload) {
            // The frame is incomplete, so it does not count, regardless of the bytes written.
            self.torn = e.is_transient();
            self.failed = Some(e.clone());
            return Err(e);
        }
        self.file.sync().inspect_err(|e| self.failed = Some(e.clone()))?;
        match self.write_frame(&[]) {
            // The edits are durable; only the mark after them, which proves it, is incomplete.
            Err(e) if e.is_transient() => {
                self.torn = true;
                self.failed = Some(e);
                Ok(())
            }
            marked => marked.inspect_err(|e| self.failed = Some(e.clone())),
        }
    }

    /// Reports whether a frame could not be written in full, for lack of space for example. Then
    /// nothing can be appended, and another manifest must be begun with the state before the frame.
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

    /// Reads the manifest in use and returns the state and the manifest's number. Returns `None` in
    /// a directory without a Db.
    ///
    /// # Errors
    /// As [`find`](Manifest::find).
    pub fn load(env: &dyn Env, dir: &Path) -> Result<Option<(ManifestState, u64)>> {
        Ok(Manifest::find(env, dir)?.map(|found| (found.state, found.number)))
    }

    /// Reads the manifest in use. Returns `None` in a directory without a Db.
    ///
    /// # Errors
    /// - `Corruption` for damage, for a `CURRENT` that names a missing manifest, and for manifests
    ///   without a `CURRENT`, always with file and offset.
    /// - `Incompatible` for a newer format version, or newer required fields.
    pub fn find(env: &dyn Env, dir: &Path) -> Result<Option<FoundManifest>> {
        let Some(CurrentFile { version, manifest: number, .. }) = current(env, dir)? else {
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
        let state = log.replay()?;
        if state.format != version {
            let words = format!(
                "the manifest has format version {}, and CURRENT has {version}; restore both from one copy, or rebuild them with `sstable-dump repair`",
                state.format
            );
            return Err(Error::corruption(words).at(&path, 0).block("manifest"));
        }
        Ok(Some(FoundManifest { state, number, end: log.clean_end() }))
    }

    /// Returns the length in bytes.
    pub fn size(&self) -> u64 {
        self.file.len()
    }

    /// Returns the number of the manifest.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Reports whether the manifest should be replaced by a new one. It must be over 1 MiB. It must
    /// also be over four times its snapshot, or use half of the room between the snapshot and 1
    /// GiB.
    pub fn is_large(&self) -> bool {
        let room = MAX_LEN.saturating_sub(self.snapshot);
        self.size() > SMALL
            && self.size() > self.snapshot.saturating_mul(4).min(self.snapshot + room / 2)
    }

    /// Continues a manifest with a clean end; the Db's log must have been closed cleanly. Returns
    /// `None` if its file cannot be opened or has another length than the one read. Then another
    /// manifest is begun.
    pub fn go_on(env: &dyn Env, dir: &Path, number: u64, end: CleanEnd) -> Option<Manifest> {
        let path = dir.join(manifest_name(number));
        let file = env.append(&path).ok().filter(|file| file.len() == end.len)?;
        Some(Manifest { file, path, number, snapshot: end.snapshot, failed: None, torn: false })
    }
}

/// Manifest in use, as it was read.
pub struct FoundManifest {
    /// State at its end.
    pub state: ManifestState,
    /// Number of the manifest.
    pub number: u64,
    /// Position at which it can be continued, judged by the manifest alone.
    pub end: Option<CleanEnd>,
}

debug_by!(FoundManifest, "FoundManifest", number, end);
