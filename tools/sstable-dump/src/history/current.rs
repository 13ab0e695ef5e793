//! Finds the current manifest of a directory, and evidence against it, also while a program writes.
//!
//! The files are listed first; then the manifest is read, then the log and the event log. A
//! concurrent flush or compaction makes the manifest look outdated or foreign.
//!
//! Invariant: evidence against a manifest counts only if two readings agree and the manifest did
//! not change between them. The first reading reads the log and the event log before the manifest
//! is read again. The second reading lists the files after that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::internals::manifest::{Manifest, ManifestState};
use firn_kv::{Env, Result};

use crate::check::findings::FindingKind;
use crate::history::evidence::{foreign, outdated};
use crate::store::names::FileNames;

/// Maximum number of readings while a writer is active.
const TRIES: usize = 10;

/// The current manifest.
#[derive(PartialEq)]
pub struct CurrentManifest {
    /// State at its end.
    pub state: ManifestState,
    /// Number of the manifest.
    pub number: u64,
    /// Kind and text of the evidence against it; `None` if there is none.
    pub against: Option<(FindingKind, String)>,
}

/// Returns the files in `dir` and in the directories `more`, and the current manifest among them:
/// `None` if no `CURRENT` file names one.
///
/// # Errors
/// I/O errors of the directories and the log. The inner result has the errors of
/// [`Manifest::load`].
pub fn current(
    env: &Arc<dyn Env>,
    dir: &Path,
    more: &[PathBuf],
) -> Result<(FileNames, Result<Option<CurrentManifest>>)> {
    let (mut before, mut tries) = (None, 0);
    loop {
        let names = FileNames::in_env(env.clone(), dir, more)?;
        let (state, number) = match Manifest::load(&names, names.dir()) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok((names, Ok(None))),
            Err(e) => return Ok((names, Err(e))),
        };
        let against = match foreign(&names, &state)? {
            Some(words) => Some((FindingKind::Foreign, words)),
            None => outdated(&names, &state)?.map(|words| (FindingKind::Outdated, words)),
        };
        let mut found = CurrentManifest { state, number, against };
        tries += 1;
        if tries == TRIES && before.as_ref() != Some(&found) {
            // The manifest changes at each reading, so a program is writing it: it is neither
            // outdated nor foreign.
            found.against = None;
        }
        if found.against.is_none() || before.as_ref() == Some(&found) {
            return Ok((names, Ok(Some(found))));
        }
        before = Some(found);
    }
}
