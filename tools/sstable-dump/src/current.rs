//! The manifest that counts in a directory, and what speaks against it, beside a writer too.
//!
//! Files are listed first, then the manifest is read, then the log and the event log. A writer that
//! flushes or merges meanwhile makes its manifest look like one of an older time, or of another
//! store.
//!
//! Invariant: what speaks against a manifest was said twice alike, and the manifest stayed as it
//! was from the first time to the second. The first time the log and the event log were read before
//! the manifest was read again; the second time the files were listed after it had been read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::internals::manifest::{Manifest, ManifestState};
use firn_kv::{Env, Result};

use crate::evidence::{foreign, outdated};
use crate::findings::FindingKind;
use crate::names::TreeNames;

/// How often all is read again while a writer goes on.
const TRIES: usize = 10;

/// The manifest that counts.
#[derive(PartialEq)]
pub struct CurrentEvidence {
    /// The state at its end.
    pub state: ManifestState,
    /// Its number.
    pub number: u64,
    /// Why it is not believed, in words; `None` where nothing speaks against it.
    pub against: Option<(FindingKind, String)>,
}

/// The files in `dir` and in the directories `more`, and the manifest that counts among them:
/// `None` where no `CURRENT` names one.
///
/// # Errors
/// What the system says of the directories and the log; inside, what [`Manifest::load`] says.
pub fn current(
    env: &Arc<dyn Env>,
    dir: &Path,
    more: &[PathBuf],
) -> Result<(TreeNames, Result<Option<CurrentEvidence>>)> {
    let (mut before, mut tries) = (None, 0);
    loop {
        let names = TreeNames::in_env(env.clone(), dir, more)?;
        let (state, number) = match Manifest::load(&names, dir) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok((names, Ok(None))),
            Err(e) => return Ok((names, Err(e))),
        };
        let against = match foreign(&names, dir, &state)? {
            Some(words) => Some((FindingKind::Foreign, words)),
            None => outdated(&names, dir, &state)?.map(|words| (FindingKind::Outdated, words)),
        };
        let mut found = CurrentEvidence { state, number, against };
        tries += 1;
        if tries == TRIES && before.as_ref() != Some(&found) {
            // One that moves on each time is being written, and so is neither old nor another
            // store's.
            found.against = None;
        }
        if found.against.is_none() || before.as_ref() == Some(&found) {
            return Ok((names, Ok(Some(found))));
        }
        before = Some(found);
    }
}
