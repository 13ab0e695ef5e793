//! The manifest that is written, and which one counts.
//!
//! Invariants: M1 to M5 of [`manifest`](super).

use std::path::{Path, PathBuf};

use super::current::{current, lost_current, write_current};
use super::end::CleanEnd;
use super::format::{CURRENT, CURRENT_NEW, FRAME, HEADER, MAGIC, MAX_LEN, VERSION, manifest_name};
use super::log::read;
use super::state::{self, Edit, ManifestState};
use crate::base::checksum::checksum;
use crate::base::error::{Error, ErrorKind, Result};
use crate::env::{Env, WriteFile};

/// Smaller manifests are never worth a new one.
const SMALL: u64 = 1 << 20;

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

    /// Goes on with a manifest that was left with a clean end, and whose Db's log was closed
    /// cleanly. `None` where its file cannot be opened or is not the one that was read: then
    /// another manifest is begun.
    pub fn go_on(env: &dyn Env, dir: &Path, number: u64, end: CleanEnd) -> Option<Manifest> {
        let path = dir.join(manifest_name(number));
        let file = env.append(&path).ok().filter(|file| file.len() == end.len)?;
        Some(Manifest { file, path, number, snapshot: end.snapshot, failed: None, torn: false })
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
