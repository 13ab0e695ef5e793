//! A compaction that somebody calls for: everything in a range becomes one run.

use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::TreeOptions;
use crate::compaction::{Blocked, CompactionJob, TableShape, TreeShape, manual};
use crate::merge::visible::VisibleRange;

use super::state::core::Core;
use super::state::tree::{Holder, TreeCore};

impl Core {
    /// Merges everything that may hold keys of a range, or of its end (everything at all without a
    /// range) down to one run, waiting for running jobs that are in the way.
    pub fn compact_range(&self, tree: &Arc<TreeCore>, range: Option<&VisibleRange>) -> Result<()> {
        loop {
            let generation = self.work.generation();
            let mut blocked = false;
            let claimed = self.claim_by(tree, Holder::Caller, |options, shape, _| {
                let job = whole(options, shape, range);
                blocked = job.is_err();
                Ok(job.unwrap_or(None))
            })?;
            match claimed {
                Some(c) => return self.run_job(&c, &mut || Ok(())),
                None if blocked && self.is_held_still(tree, range) => {
                    let words = "a compaction that stands still while the background work is paused holds tables of the range";
                    return Err(Error::new(ErrorKind::Conflict, words).of_tree(&tree.name));
                }
                None if blocked => self.wait_for_change(generation)?,
                None => return Ok(()),
            }
        }
    }

    /// Whether tables that such a merge needs are held by a job that stands still. What another
    /// caller holds comes free.
    fn is_held_still(&self, tree: &TreeCore, range: Option<&VisibleRange>) -> bool {
        // Nobody lets go of a table meanwhile.
        let files = tree.files.lock();
        let view = tree.view.load_full();
        let mut shape = self.shape(&view.version, &view.options, &files);
        let of_callers = |t: &TableShape| files.busy.get(&t.id) == Some(&Holder::Caller);
        shape.change(of_callers, |t| t.busy = false);
        self.throttle.stands_still() && whole(&view.options, &shape, range).is_err()
    }
}

/// The merge of everything that may hold keys of a range, or of its end, to one run.
fn whole(
    options: &TreeOptions,
    shape: &TreeShape,
    range: Option<&VisibleRange>,
) -> Result<Option<CompactionJob>, Blocked> {
    let greatest = shape.tables().map(|t| &*t.last).max().unwrap_or_default();
    let range = range.map(|r| (r.from.as_slice(), r.until.as_deref().unwrap_or(greatest)));
    manual(&options.policy, shape, range, true)
}
