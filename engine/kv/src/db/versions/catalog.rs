//! The catalogue of an open store: the manifest with the state that it holds.
//!
//! Invariant: what the state says is what the manifest in use says, or, while the log is replayed
//! at an opening, what the one will say that the opening begins. Whether edits that failed count is
//! known, or the failure is final.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind};
use crate::base::key::Seq;
use crate::env::Env;
use crate::manifest::{CleanEnd, Edit, FoundManifest, LiveFiles, Manifest, manifest_name};

use crate::db::scheduler::gate::opened_read_only;

/// The manifest with the state that it holds.
pub struct TreeCatalog {
    env: Arc<dyn Env>,
    dir: PathBuf,
    state: LiveFiles,
    /// The file; `None` when the store was opened read-only, and as long as it has not begun to
    /// write.
    manifest: Option<Manifest>,
    /// The number of the manifest in use.
    number: u64,
    /// Where opening found that it can be gone on with, until that has been tried.
    clean_end: Option<CleanEnd>,
    /// The log is being replayed: edits change the state only, and the manifest that the opening
    /// then begins has them.
    is_replaying: bool,
}

/// Why edits do not count.
#[derive(Debug)]
pub struct EditFailure {
    /// What went wrong.
    pub error: Error,
    /// Whether nobody knows what the files hold now, so that nothing may be written any more.
    pub is_final: bool,
}

impl EditFailure {
    fn passing(error: Error) -> EditFailure {
        EditFailure { error, is_final: false }
    }

    fn last(error: Error) -> EditFailure {
        EditFailure { error, is_final: true }
    }
}

type Edited = std::result::Result<(), EditFailure>;

impl TreeCatalog {
    /// Of a manifest that an opening has found, before the log is replayed.
    pub fn new(env: Arc<dyn Env>, dir: PathBuf, found: FoundManifest) -> TreeCatalog {
        let FoundManifest { state, number, end: clean_end } = found;
        let state = LiveFiles::new(state);
        TreeCatalog { env, dir, state, manifest: None, number, clean_end, is_replaying: true }
    }

    /// What is live.
    pub fn state(&self) -> &LiveFiles {
        &self.state
    }

    /// The number of the manifest in use.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next file number, which is taken. The manifest learns of it with the next edit.
    pub fn take_file(&mut self) -> u64 {
        self.state.take_file()
    }

    /// No file gets a number up to this one.
    pub fn pass_file(&mut self, number: u64) {
        self.state.pass_file(number);
    }

    /// The log is not needed below this position, as far as the next edits go.
    pub fn set_wal_floor(&mut self, floor: u64) {
        self.state.set_wal_floor(floor);
    }

    /// The log has been replayed up to this sequence number: from now on edits go into a manifest.
    pub fn end_replay(&mut self, last_seq: Seq) {
        self.state.set_last_seq(last_seq);
        self.is_replaying = false;
    }

    /// Whether edits change the state only, because the log is being replayed.
    pub fn is_replaying(&self) -> bool {
        self.is_replaying
    }

    /// The manifest that was found is not gone on with: not all that it says may be durable.
    pub fn renounce_end(&mut self) {
        self.clean_end = None;
    }

    /// Whether there is a manifest that edits go into.
    pub fn has_begun(&self) -> bool {
        self.manifest.is_some()
    }

    /// No edits count from now on.
    pub fn close(&mut self) {
        self.manifest = None;
    }

    /// Begins to write with an edit that says who writes the log: the manifest that was found is
    /// gone on with where that is possible, else another one is begun.
    pub fn begin(&mut self, writers: Edit, last_seq: Seq) -> Edited {
        let end = self.clean_end.take();
        if let Some(found) =
            end.and_then(|end| Manifest::go_on(&*self.env, &self.dir, self.number, end))
        {
            self.manifest = Some(found);
            let appended = self.append(vec![writers], last_seq);
            if appended.is_err() {
                // What may be behind its end now nothing is written behind: the next try begins
                // another manifest.
                self.manifest = None;
            }
            return appended;
        }
        let undo = self.state.apply_all(&[writers]).map_err(EditFailure::last)?;
        let renewed = self.renew();
        if renewed.is_err() {
            self.state.undo(undo);
        }
        renewed
    }

    /// Makes sure that the next edits go into the manifest that there is: another one is begun
    /// where a frame could not be written in full.
    pub fn renew_if_torn(&mut self) -> Edited {
        if self.manifest.as_ref().is_some_and(Manifest::is_torn) { self.renew() } else { Ok(()) }
    }

    /// Writes edits as one atomic group, with the counters of the moment. After a failure nothing
    /// has changed in memory.
    pub fn log_edits(&mut self, edits: Vec<Edit>, last_seq: Seq) -> Edited {
        if self.is_replaying {
            return self.state.apply_all(&edits).map(drop).map_err(EditFailure::passing);
        }
        self.append(edits, last_seq)?;
        if !self.manifest.as_ref().is_some_and(Manifest::is_large) {
            return Ok(());
        }
        // The edits count. What lacks space is tried again with the next ones.
        self.renew().or_else(|e| if e.is_final { Err(e) } else { Ok(()) })
    }

    fn append(&mut self, mut edits: Vec<Edit>, last_seq: Seq) -> Edited {
        let Some(manifest) = &mut self.manifest else {
            return Err(EditFailure::passing(opened_read_only()));
        };
        let state = &mut self.state;
        edits.push(Edit::Counters {
            next_file: state.next_file,
            last_seq,
            wal_floor: state.wal_floor,
        });
        let undo = state.apply_all(&edits).map_err(EditFailure::last)?;
        if let Err(error) = Error::catch("an edit", || manifest.append(&edits)) {
            state.undo(undo);
            let is_unwritten = manifest.is_torn() || error.kind() == ErrorKind::InvalidArgument;
            return Err(EditFailure { error, is_final: !is_unwritten });
        }
        Ok(())
    }

    /// Replaces the manifest by one that holds only the present state.
    fn renew(&mut self) -> Edited {
        let number = self.number + 1;
        let fresh = Manifest::prepare(&*self.env, &self.dir, number, &self.state);
        let fresh = fresh
            .map_err(|error| EditFailure { is_final: !error.is_transient(), error })?
            .make_current(&*self.env, &self.dir)
            .map_err(EditFailure::last)?;
        let old = self.dir.join(manifest_name(self.number));
        self.manifest = Some(fresh);
        self.number = number;
        // What cannot be removed now is collected at the next open.
        let _ = self.env.remove(&old);
        Ok(())
    }
}
