//! Blob garbage collection, common to all policies that merge.
//!
//! When too much of a tree's blob files is garbage, the files with the highest share are selected
//! for removal. Any merge that meets a reference to a selected file rewrites the blob. If no other
//! merge does so, a dedicated one is picked.
//!
//! *Trigger* a table that refers to a selected file. *Granularity* one table, so no other table can
//! get between the inputs. *Movement* none: the table is rewritten in place.

use super::job::{CompactionJob, CompactionReason};
use super::policy::Policy;
use super::shape::TableShape;
use super::view::PickContext;
use crate::util::sort::sort_by;
use crate::util::sorted_map::SortedSet;

/// Garbage statistics of a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobFileShape {
    /// File number.
    pub id: u64,
    /// Bytes of the blobs in the file. Headers are not garbage, because a new file has them too.
    pub bytes: u64,
    /// Bytes of the blobs that tables refer to.
    pub live: u64,
}

/// Returns the numbers of the files to collect, those with the largest share of garbage first. At
/// most `percent` of the remaining files' bytes are then garbage. Returns none for a policy that
/// never merges, because nothing would rewrite the live blobs.
pub fn gc_files(policy: &Policy, percent: u8, mut files: Vec<BlobFileShape>) -> SortedSet<u64> {
    let percent = if policy.merges() { percent } else { 100 };
    let (bytes, live) =
        files.iter().fold((0u64, 0u64), |(sum, live), f| (sum + f.bytes, live + f.live));
    // Order by garbage per byte to rewrite; compare shares without division.
    sort_by(&mut files, |a, b| {
        let share = |f: &BlobFileShape, g: &BlobFileShape| {
            u128::from(f.bytes.saturating_sub(f.live)) * u128::from(g.bytes)
        };
        share(b, a).cmp(&share(a, b)).then(a.id.cmp(&b.id))
    });
    let (mut left, mut gc_files) = (bytes, SortedSet::new());
    for f in files {
        let garbage = u128::from(left - live.min(left));
        if garbage * 100 <= u128::from(left) * u128::from(percent) {
            break;
        }
        gc_files.insert(f.id);
        left -= f.bytes - f.live.min(f.bytes);
    }
    gc_files
}

/// Urgency: above jobs that have just become due, below jobs that are long overdue.
const SCORE: f64 = 1.5;

/// Returns the wanted merges: for each run the first table that is not busy.
pub(super) fn candidate_jobs(view: &PickContext<'_>) -> Vec<CompactionJob> {
    let wish = |r: usize| {
        let run = view.run(r);
        if !run.tables.sums().has_blob_garbage {
            return None;
        }
        let is_wanted = |(t, table): &(usize, &TableShape)| {
            table.blob_relocation_bytes > 0 && !view.is_table_busy(r, *t)
        };
        let (t, _) = run.tables.iter().enumerate().find(is_wanted)?;
        Some(view.merge(&[(r, t..t + 1)], run.place(), CompactionReason::BlobGarbage, SCORE))
    };
    (0..view.len()).filter_map(wish).collect()
}
