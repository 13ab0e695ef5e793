//! The log of a store without a manifest: its operations by tree, and the positions that tables
//! have reached in it.

use std::collections::BTreeMap;
use std::ops::Range;

use firn_kv::internals::base::ops::TreeId;
use firn_kv::internals::sstable::Properties;
use firn_kv::internals::wal;
use firn_tools::output::Done;

use crate::store::log_copy;
use crate::store::names::FileNames;

/// Operations on a tree in the log.
#[derive(Default)]
pub struct TreeLog {
    /// Positions after records with operations on the tree, and the first sequence number of these.
    pub records: Vec<(u64, u64)>,
    /// Number of merge operands.
    pub merges: u64,
}

impl TreeLog {
    /// Returns the position after the last record whose operations tables with `max_seq` have.
    pub fn end_at(&self, max_seq: u64) -> Option<u64> {
        self.records.iter().rfind(|r| r.1 <= max_seq).map(|r| r.0)
    }
}

/// The readable log.
pub struct LogContents {
    /// Position at which it begins.
    pub floor: u64,
    /// Operations by tree.
    pub trees: BTreeMap<TreeId, TreeLog>,
    /// Sequence numbers of its operations.
    pub seqs: Range<u64>,
    /// Writers of segments with records, and the position at which the next writer's segments
    /// begin.
    ends: BTreeMap<u64, u64>,
    /// Position at which the first segment begins.
    start: u64,
}

impl LogContents {
    /// Reads the log.
    ///
    /// # Errors
    /// I/O errors; damage is no error.
    pub fn read(names: &FileNames) -> Done<LogContents> {
        let floor = names.unbroken_log()?;
        let mut trees: BTreeMap<TreeId, TreeLog> = BTreeMap::new();
        let (mut first, mut last) = (None, 0);
        log_copy::each_op(names, floor, &mut |op| {
            if op.end <= floor {
                return;
            }
            let t = trees.entry(op.tree).or_default();
            if t.records.last().is_none_or(|r| r.0 < op.end) {
                t.records.push((op.end, op.seq));
            }
            t.merges += u64::from(op.is_merge());
            first.get_or_insert(op.seq);
            last = last.max(op.seq);
        })?;
        let writers = wal::writers(names, names.dir())?;
        let next = writers.iter().skip(1).map(|w| w.base).chain([u64::MAX]);
        Ok(LogContents {
            floor,
            trees,
            seqs: first.unwrap_or(last + 1)..last + 1,
            start: writers.first().map_or(0, |w| w.base),
            ends: writers.iter().map(|w| w.id).zip(next).collect(),
        })
    }

    /// Returns the position below which this table, or older ones, have the tree's log records. If
    /// all segments of the table's writer are gone, the position is before the log. Positions that
    /// a later writer assigned again do not count, since the log had lost its end by then.
    pub fn end_of_table(&self, p: &Properties) -> u64 {
        p.log_end.min(self.ends.get(&p.log_writer).copied().unwrap_or(self.start))
    }
}
