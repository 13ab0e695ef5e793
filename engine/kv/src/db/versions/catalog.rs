//! Catalog of an open store: the manifest and the state that it records.
//!
//! Invariant: the state in memory equals the state in the current manifest. During log replay it
//! equals the state in the manifest that the open will begin. After a failed edit it is known
//! whether the edit counts, or the failure is final.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind};
use crate::base::format_version::FormatVersion;
use crate::base::key::Seq;
use crate::env::Env;
use crate::manifest::{
    CleanEnd, Edit, FoundManifest, LiveFiles, Manifest, SubscriptionState, manifest_name,
};
use crate::util::sorted_map::SortedMap;

use crate::db::scheduler::gate::opened_read_only;
use crate::db::versions::subscription_point::SubscriptionPoint;

/// Maximum number of remembered drops.
const MAX_DROPS: usize = 4096;

/// Manifest and the state that it records.
pub struct TreeCatalog {
    env: Arc<dyn Env>,
    dir: PathBuf,
    state: LiveFiles,
    /// Manifest file. `None` if the store was opened read-only, and until the store begins to
    /// write.
    manifest: Option<Manifest>,
    /// Number of the current manifest.
    number: u64,
    /// Position at which the found manifest can be continued; `None` once that has been tried.
    clean_end: Option<CleanEnd>,
    /// Positions of the subscriptions, by name, once the store has begun to write.
    subscriptions: SortedMap<String, Arc<SubscriptionPoint>>,
    /// Number of edits since the opening that created, changed or dropped a tree.
    definition_edits: u64,
    /// Sequence numbers of the last dropped trees since the opening, ascending.
    drops: VecDeque<Seq>,
    /// Whether the log is being replayed. Edits then change only the state, and the manifest that
    /// the open begins contains them.
    is_replaying: bool,
}

/// Failure of version edits.
#[derive(Debug)]
pub struct EditFailure {
    /// Cause of the failure.
    pub error: Error,
    /// Whether the content of the files is now unknown, so that nothing may be written any more.
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
    /// Creates the catalog from the manifest that an open found, before the log is replayed.
    pub fn new(env: Arc<dyn Env>, dir: PathBuf, found: FoundManifest) -> TreeCatalog {
        let FoundManifest { state, number, end: clean_end } = found;
        let state = LiveFiles::new(state);
        TreeCatalog {
            env,
            dir,
            state,
            manifest: None,
            number,
            clean_end,
            subscriptions: SortedMap::new(),
            definition_edits: 0,
            drops: VecDeque::new(),
            is_replaying: true,
        }
    }

    /// Returns the live files and trees.
    pub fn state(&self) -> &LiveFiles {
        &self.state
    }

    /// Returns the number of the current manifest.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the position of a subscription.
    pub fn subscription(&self, name: &str) -> Option<&Arc<SubscriptionPoint>> {
        self.subscriptions.get(name)
    }

    /// Adds the position of a subscription, which the state contains.
    pub fn add_subscription(&mut self, name: &str, point: Arc<SubscriptionPoint>) {
        self.subscriptions.insert(name.to_owned(), point);
    }

    /// Removes the position of a dropped subscription.
    pub fn remove_subscription(&mut self, name: &str) {
        if let Some(point) = self.subscriptions.remove(name) {
            point.set_dropped();
        }
    }

    /// Returns a number that grows with each tree that is created, changed or dropped.
    #[cfg(feature = "internals")]
    pub fn definition_edits(&self) -> u64 {
        self.definition_edits
    }

    /// Remembers that a tree was dropped with this sequence number.
    pub fn note_drop(&mut self, seq: Seq) {
        if self.drops.len() == MAX_DROPS {
            self.drops.pop_front();
        }
        self.drops.push_back(seq);
    }

    /// Reports whether each of these sequence numbers is that of a dropped tree. The last
    /// [`MAX_DROPS`] since the opening are known.
    pub fn are_drops(&self, mut seqs: RangeInclusive<Seq>) -> bool {
        seqs.all(|seq| self.drops.binary_search(&seq).is_ok())
    }

    /// Returns the states of subscriptions with positions that have changed since the last edits.
    fn moved_subscriptions(&self) -> impl Iterator<Item = SubscriptionState> + '_ {
        self.state.subscriptions.values().filter_map(|before| {
            let now = self.subscriptions.get(&before.name)?.state(before);
            (now != *before).then_some(now)
        })
    }

    /// Reports whether the position of a subscription has changed since the last edits.
    pub fn has_moved_subscriptions(&self) -> bool {
        self.moved_subscriptions().next().is_some()
    }

    /// Allocates the next file number. The next version edit records it in the manifest.
    pub fn take_file(&mut self) -> u64 {
        self.state.take_file()
    }

    /// Ensures that new file numbers are greater than `number`.
    pub fn pass_file(&mut self, number: u64) {
        self.state.pass_file(number);
    }

    /// Sets the position below which the log is not needed; the next edits record it.
    pub fn set_wal_floor(&mut self, floor: u64) {
        self.state.set_wal_floor(floor);
    }

    /// Ends log replay, which reached this sequence number. Later edits go into a manifest.
    pub fn end_replay(&mut self, last_seq: Seq) {
        self.state.set_last_seq(last_seq);
        self.is_replaying = false;
    }

    /// Reports whether the log is being replayed, so that edits change only the state.
    pub fn is_replaying(&self) -> bool {
        self.is_replaying
    }

    /// Prevents the found manifest from being continued, because some of its edits may not be
    /// durable.
    pub fn discard_clean_end(&mut self) {
        self.clean_end = None;
    }

    /// Reports whether edits go into a manifest.
    pub fn has_begun(&self) -> bool {
        self.manifest.is_some()
    }

    /// Closes the manifest, so that later edits fail.
    pub fn close(&mut self) {
        self.manifest = None;
    }

    /// Begins to write with edits that name the writer of the log. Continues the found manifest if
    /// possible, else begins a new one.
    pub fn begin(&mut self, edits: Vec<Edit>, last_seq: Seq) -> Edited {
        let end = self.clean_end.take();
        if let Some(found) =
            end.and_then(|end| Manifest::go_on(&*self.env, &self.dir, self.number, end))
        {
            self.manifest = Some(found);
            let appended = self.append(edits, last_seq);
            if appended.is_err() {
                // The bytes after its end are unknown now, so nothing may be appended. The next
                // attempt begins a new manifest.
                self.manifest = None;
            }
            return appended;
        }
        let undo = self.state.apply_all(&edits).map_err(EditFailure::last)?;
        let renewed = self.renew();
        if renewed.is_err() {
            self.state.undo(undo);
        }
        renewed
    }

    /// Begins a new manifest with this format version of the store's files. After a failure that
    /// is not final, the version is unchanged.
    pub fn set_format(&mut self, format: FormatVersion) -> Edited {
        let before = self.state.format;
        self.state.set_format(format);
        self.renew().inspect_err(|_| self.state.set_format(before))
    }

    /// Begins a new manifest if a frame of the current one could not be written in full.
    pub fn renew_if_torn(&mut self) -> Edited {
        if self.manifest.as_ref().is_some_and(Manifest::is_torn) { self.renew() } else { Ok(()) }
    }

    /// Writes edits as one atomic group, with the present counters and positions of subscriptions.
    /// After a failed append, the state in memory is unchanged.
    pub fn log_edits(&mut self, edits: Vec<Edit>, last_seq: Seq) -> Edited {
        if self.is_replaying {
            return self.state.apply_all(&edits).map(drop).map_err(EditFailure::passing);
        }
        self.append(edits, last_seq)?;
        if !self.manifest.as_ref().is_some_and(Manifest::is_large) {
            return Ok(());
        }
        // The edits count already. If space is short, the next edits try again.
        self.renew().or_else(|e| if e.is_final { Err(e) } else { Ok(()) })
    }

    fn append(&mut self, mut edits: Vec<Edit>, last_seq: Seq) -> Edited {
        let moved: Vec<_> = self.moved_subscriptions().collect();
        let Some(manifest) = &mut self.manifest else {
            return Err(EditFailure::passing(opened_read_only()));
        };
        // The edits of the caller come last: they may drop a subscription.
        edits.splice(0..0, moved.into_iter().map(Edit::SetSubscription));
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
        let defines = |e: &&Edit| {
            matches!(e, Edit::CreateTree { .. } | Edit::DropTree { .. } | Edit::SetOptions { .. })
        };
        self.definition_edits += edits.iter().filter(defines).count() as u64;
        // Only now may the log before these positions be released.
        for s in self.state.subscriptions.values() {
            self.subscriptions.get(&s.name).iter().for_each(|point| point.persisted(s.position));
        }
        Ok(())
    }

    /// Replaces the manifest by one that contains only the present state.
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
        // If the removal fails, the next open removes the file as obsolete.
        let _ = self.env.remove(&old);
        Ok(())
    }
}
