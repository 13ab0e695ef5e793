//! Writer of `Index.db` and `Summary.db`: offsets of partitions, and of the blocks of a large
//! partition (`FORMAT.md`, "Index.db", "Summary.db").

use crate::encode::{put_short, put_signed_vint, put_vint};
use crate::fault::NodeFault;
use crate::files::NodeSink;
use crate::format::{INDEX, NO_DELETION, SUMMARY};
use crate::part_writer::OpenPart;
use crate::rows::NodeDeletion;

/// Minimum bytes of a block of rows; widths are relative to it, too.
pub(crate) const BLOCK: u64 = 64 << 10;
/// Maximum bytes of the summary, and of a partition's blocks: nodes use 32-bit numbers.
const MOST: usize = i32::MAX as usize;
/// The sampling level at which no entry of the summary is omitted.
const FULL_SAMPLING: u32 = 128;

/// Appends the deletion of a partition, or its absence.
pub(crate) fn put_partition_deletion(deletion: Option<NodeDeletion>, out: &mut Vec<u8>) {
    let d = deletion.unwrap_or(NO_DELETION);
    out.extend_from_slice(&(d.local as i32).to_be_bytes());
    out.extend_from_slice(&d.timestamp.to_be_bytes());
}

/// Blocks of a partition's rows. Offsets are relative to the partition.
#[derive(Debug, Default)]
pub(crate) struct RowBlocks {
    entries: Vec<u8>,
    /// Offset of each entry.
    places: Vec<u32>,
    open: Option<OpenBlock>,
}

#[derive(Debug)]
struct OpenBlock {
    first: Vec<u8>,
    last: Vec<u8>,
    start: u64,
}

impl RowBlocks {
    /// Adds a row or marker with this prefix from `start` to `end`; `open` is the range deletion
    /// after it.
    pub(crate) fn add(&mut self, prefix: &[u8], start: u64, end: u64, open: Option<NodeDeletion>) {
        let first = || OpenBlock { first: prefix.to_vec(), last: vec![], start };
        let block = self.open.get_or_insert_with(first);
        block.last.clear();
        block.last.extend_from_slice(prefix);
        if end - block.start >= BLOCK {
            self.close(end, open);
        }
    }

    fn close(&mut self, end: u64, open: Option<NodeDeletion>) {
        let Some(block) = self.open.take() else { return };
        self.places.push(self.entries.len() as u32);
        let out = &mut self.entries;
        out.extend_from_slice(&block.first);
        out.extend_from_slice(&block.last);
        put_vint(out, block.start);
        put_signed_vint(out, (end - block.start) as i64 - BLOCK as i64);
        out.push(open.is_some().into());
        if open.is_some() {
            put_partition_deletion(open, out);
        }
    }

    /// Appends the index of the blocks; nothing for a single one.
    fn put(mut self, end: u64, header: u64, deletion: Option<NodeDeletion>, out: &mut Vec<u8>) {
        self.close(end, None);
        let mut all = vec![];
        if self.places.len() > 1 {
            put_vint(&mut all, header);
            put_partition_deletion(deletion, &mut all);
            put_vint(&mut all, self.places.len() as u64);
            all.extend_from_slice(&self.entries);
            all.extend(self.places.iter().flat_map(|p| p.to_be_bytes()));
        }
        put_vint(out, all.len() as u64);
        out.extend_from_slice(&all);
    }
}

/// A finished partition.
pub(crate) struct IndexedPartition<'a> {
    pub key: &'a [u8],
    /// Its offset in the content.
    pub start: u64,
    pub deletion: Option<NodeDeletion>,
    /// Bytes before its first row.
    pub header: u64,
    /// Total bytes; the last block ends there.
    pub end: u64,
    pub blocks: RowBlocks,
}

/// Writer of a table's index.
pub(crate) struct IndexWriter {
    part: OpenPart,
    /// Partitions per entry of the summary.
    interval: u32,
    count: u64,
    offsets: Vec<u32>,
    entries: Vec<u8>,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl IndexWriter {
    pub(crate) fn create(sink: &dyn NodeSink, interval: u32) -> Result<IndexWriter, NodeFault> {
        Ok(IndexWriter {
            part: OpenPart::create(sink, INDEX)?,
            interval: interval.max(1),
            count: 0,
            offsets: vec![],
            entries: vec![],
            first: vec![],
            last: vec![],
        })
    }

    /// Adds the next partition.
    pub(crate) fn add(&mut self, p: IndexedPartition<'_>) -> Result<(), NodeFault> {
        if self.count == 0 {
            self.first = p.key.to_vec();
        }
        if self.count.is_multiple_of(self.interval.into()) {
            let size = self.entries.len() + (self.offsets.len() + 1) * 4 + p.key.len() + 8;
            if size > MOST {
                return Err(self.part.refuse("its summary would be larger than 2 GiB"));
            }
            self.offsets.push(self.entries.len() as u32);
            self.entries.extend_from_slice(p.key);
            self.entries.extend_from_slice(&self.part.len.to_le_bytes());
        }
        self.last.clear();
        self.last.extend_from_slice(p.key);
        self.count += 1;
        let mut out = vec![];
        if !put_short(&mut out, p.key) {
            return Err(self.part.refuse(format!("a key has {} bytes", p.key.len())));
        }
        if p.blocks.entries.len() > MOST {
            return Err(self.part.refuse("the index of a partition would be larger than 2 GiB"));
        }
        put_vint(&mut out, p.start);
        p.blocks.put(p.end, p.header, p.deletion, &mut out);
        self.part.put(&out)
    }

    /// Ends the index, and writes the summary.
    pub(crate) fn finish(self, sink: &dyn NodeSink) -> Result<[&'static str; 2], NodeFault> {
        self.part.finish()?;
        let base = self.offsets.len() as u32 * 4;
        let size = u64::from(base) + self.entries.len() as u64;
        let mut out = self.interval.to_be_bytes().to_vec();
        out.extend_from_slice(&(self.offsets.len() as u32).to_be_bytes());
        out.extend_from_slice(&size.to_be_bytes());
        out.extend_from_slice(&FULL_SAMPLING.to_be_bytes());
        // At full sampling no entry is omitted.
        out.extend_from_slice(&(self.offsets.len() as u32).to_be_bytes());
        out.extend(self.offsets.iter().flat_map(|o| (o + base).to_le_bytes()));
        out.extend_from_slice(&self.entries);
        for key in [&self.first, &self.last] {
            out.extend_from_slice(&(key.len() as u32).to_be_bytes());
            out.extend_from_slice(key);
        }
        OpenPart::whole(sink, SUMMARY, &out)?;
        Ok([INDEX, SUMMARY])
    }
}
