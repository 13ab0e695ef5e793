//! Import of counters from several files. The shards of a cell in all files are merged before they
//! are summed, so the files are read in parallel, one partition at a time.
//!
//! As on a node, a deleted counter stays deleted: shards under a tombstone, or under the deletion
//! of the row, a range or the partition, do not count. The deletions themselves are not imported,
//! because Firn's counters have none.

use std::collections::BTreeMap;
use std::path::PathBuf;

use firn_cassandra::{NodeCellState, NodeEvent, NodePartition, NodeReader, NodeRow, counter_sum};
use firn_tools::output::{Done, Progress};

use super::rows::{NodeTarget, NodeWriter};
use super::source::{NodeSource, trouble};

/// A file, and its next partition.
struct CounterFile {
    data: PathBuf,
    reader: NodeReader,
    statics: Vec<Option<NodeTarget>>,
    regulars: Vec<Option<NodeTarget>>,
    next: Option<(Vec<u8>, NodePartition)>,
}

/// Counters of a partition.
#[derive(Default)]
struct CounterCells {
    /// Timestamp of the partition's deletion.
    deleted: Option<i64>,
    /// Timestamps of row deletions, by the position of the row.
    rows: BTreeMap<Vec<u8>, i64>,
    /// Range deletions: start, end, timestamp.
    ranges: Vec<(Vec<u8>, Vec<u8>, i64)>,
    cells: BTreeMap<Vec<u8>, CounterCell>,
}

#[derive(Default)]
struct CounterCell {
    is_deleted: bool,
    row: Vec<u8>,
    /// Timestamps and shards.
    versions: Vec<(i64, Vec<u8>)>,
}

/// Reads files of counters in parallel.
pub struct CounterFiles<'w, 'a> {
    files: Vec<CounterFile>,
    writer: &'w mut NodeWriter<'a>,
}

impl<'w, 'a> CounterFiles<'w, 'a> {
    /// Creates a reader over all files of a table.
    pub fn new(
        readers: Vec<(&NodeSource, NodeReader)>,
        writer: &'w mut NodeWriter<'a>,
    ) -> Done<CounterFiles<'w, 'a>> {
        let mut files = vec![];
        for (source, reader) in readers {
            let (statics, regulars) = (writer.targets(source, true), writer.targets(source, false));
            let mut file = CounterFile {
                data: source.table.data.clone(),
                reader,
                statics,
                regulars,
                next: None,
            };
            if let Some(NodeEvent::Partition(p)) = file.advance()? {
                file.next = Some((writer.partition_order(&p.key)?, p));
            }
            files.push(file);
        }
        Ok(CounterFiles { files, writer })
    }

    /// Imports all partitions.
    pub fn run(mut self, progress: &Progress) -> Done {
        while let Some(order) =
            self.files.iter().filter_map(|f| f.next.as_ref()).map(|n| &n.0).min()
        {
            let order = order.clone();
            let (mut key, mut found) = (vec![], CounterCells::default());
            for i in 0..self.files.len() {
                let Some((_, p)) = self.files[i].next.take_if(|n| n.0 == order) else { continue };
                found.deleted = found.deleted.max(p.deletion.map(|d| d.timestamp));
                key = p.key;
                self.partition(i, &mut found)?;
            }
            self.write(&key, &found)?;
            if self.writer.has_flushed() {
                progress.at(self.files.iter().map(|f| f.reader.position()).sum());
                progress.say(self.writer.totals.describe());
            }
        }
        Ok(())
    }

    /// Adds the counters and deletions of a file's partition, up to the next partition.
    fn partition(&mut self, file: usize, found: &mut CounterCells) -> Done {
        let file = &mut self.files[file];
        self.writer.blame(&file.data);
        let mut open = None;
        while let Some(event) = file.advance()? {
            match event {
                NodeEvent::Partition(p) => {
                    file.next = Some((self.writer.partition_order(&p.key)?, p));
                    return Ok(());
                }
                NodeEvent::Row(row) => file.row(self.writer, &row, found)?,
                NodeEvent::Marker(m) => {
                    if let (Some((bound, d)), Some(start)) = (&m.close, open.take()) {
                        let end = self.writer.bound(bound, false, m.position)?;
                        found.ranges.push((start, end, d.timestamp));
                    }
                    if let Some((bound, _)) = &m.open {
                        open = Some(self.writer.bound(bound, true, m.position)?);
                    }
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, key: &[u8], found: &CounterCells) -> Done {
        self.writer.partition(key)?;
        let mut last: &[u8] = &[];
        for (place, cell) in found.cells.iter().filter(|c| !c.1.is_deleted) {
            let covers = |r: &&(Vec<u8>, Vec<u8>, i64)| r.0 <= *place && *place < r.1;
            let of_range = found.ranges.iter().filter(covers).map(|r| r.2).max();
            let deleted = found.deleted.max(of_range).max(found.rows.get(&cell.row).copied());
            let lives = |v: &&(i64, Vec<u8>)| deleted.is_none_or(|d| v.0 > d);
            let versions = || cell.versions.iter().filter(lives);
            let Some(newest) = versions().map(|v| v.0).max() else { continue };
            // Each version was checked when it was read.
            let sum = counter_sum(versions().map(|v| &*v.1)).unwrap_or_default();
            if last != cell.row {
                self.writer.count_row();
                last = &cell.row;
            }
            self.writer.counter(place, newest, sum)?;
        }
        Ok(())
    }
}

impl CounterFile {
    fn advance(&mut self) -> Done<Option<NodeEvent>> {
        self.reader.advance().map_err(|e| trouble(&e))
    }

    fn row(&self, writer: &mut NodeWriter<'_>, row: &NodeRow, found: &mut CounterCells) -> Done {
        let place = writer.row_place(row)?;
        if let Some(d) = row.deletion {
            let known = found.rows.entry(place.clone()).or_insert(d.timestamp);
            *known = d.timestamp.max(*known);
        }
        let targets = if row.is_static { &self.statics } else { &self.regulars };
        for column in &row.columns {
            let Some(target) = targets.get(column.column).and_then(Option::as_ref) else {
                writer.totals.left_out += column.cells.len() as u64;
                continue;
            };
            for cell in &column.cells {
                let at = [&*place, &target.end].concat();
                let known = found.cells.entry(at).or_default();
                known.row.clone_from(&place);
                match &cell.state {
                    NodeCellState::Live(v) | NodeCellState::Expiring(v, _) => {
                        if counter_sum([&**v]).is_none() {
                            return Err(writer.refuse(row.position, "its counter can't be read"));
                        }
                        known.versions.push((cell.timestamp, v.clone()));
                    }
                    NodeCellState::Deleted(_) => known.is_deleted = true,
                }
            }
        }
        Ok(())
    }
}
