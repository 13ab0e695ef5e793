//! Writer of an SSTable: accepts the events of a [`NodeReader`](crate::NodeReader).
//!
//! Invariants: partitions, rows and markers come in the order of the table, which only the caller
//! knows; detectable violations are refused. `TOC.txt`, which marks a table as complete, is written
//! after all other parts are synced.

use crate::chunk_writer::ChunkWriter;
use crate::counter::has_old_shards;
use crate::encode::put_short;
use crate::fault::NodeFault;
use crate::files::NodeSink;
use crate::format::{CONTENTS, END_OF_PARTITION, FILTER, STATISTICS};
use crate::header::NodeHeader;
use crate::index_writer::{IndexWriter, IndexedPartition, RowBlocks, put_partition_deletion};
use crate::key_filter::KeyFilter;
use crate::measures::TableMeasures;
use crate::part_writer::OpenPart;
use crate::row_writer::{Refusal, RowBytes, RowEncoder};
use crate::rows::{NodeDeletion, NodeEvent, NodeMarker, NodePartition, NodeRow};
use crate::sketch::KeySketch;
use crate::statistics::statistics;

/// Options of writing a table.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Whether to compress, with LZ4 in chunks of 16 KiB.
    pub compressed: bool,
    /// False-positive rate of the filter: the table's `bloom_filter_fp_chance`, above 0. With 1
    /// there is no filter.
    pub filter_chance: f64,
    /// Partitions per entry of the summary: the table's `min_index_interval`.
    pub index_interval: u32,
    /// Cassandra's variant of 128-bit MurmurHash3 of a partition key, for the filter. The first
    /// half is the token of `Murmur3Partitioner`.
    pub hash: fn(&[u8]) -> [u64; 2],
}

/// A partition being written.
struct OpenPartition {
    key: Vec<u8>,
    start: u64,
    deletion: Option<NodeDeletion>,
    /// Bytes before the first row, as soon as rows can follow.
    header: Option<u64>,
    /// Start of the previous row or marker.
    before: u64,
    /// The range deletion at the current position.
    open: Option<NodeDeletion>,
    blocks: RowBlocks,
}

/// Writes a table, partition by partition.
///
/// ```
/// use firn_cassandra::{
///     LeastTimes, MarshalClass, NodeEvent, NodeFolder, NodeHeader, NodePartition, NodeTable,
///     NodeTableWriter, WriteOptions,
/// };
///
/// let dir = std::env::temp_dir().join(format!("firn-cassandra-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&dir)?;
/// let files = NodeFolder::numbered(&dir, 1);
/// let header = NodeHeader::new(
///     "org.apache.cassandra.dht.Murmur3Partitioner".to_owned(),
///     MarshalClass::parse("UTF8Type")?,
///     vec![], vec![], vec![],
///     LeastTimes::default(),
/// );
/// let hash = |key: &[u8]| [key.len() as u64, 0]; // a real one is the partitioner's
/// let options = WriteOptions { compressed: true, filter_chance: 0.01, index_interval: 128, hash };
/// let mut writer = NodeTableWriter::create(files.clone(), header, options)?;
/// let partition = NodePartition { key: b"key".to_vec(), deletion: None, position: 0 };
/// writer.event(&NodeEvent::Partition(partition))?;
/// writer.finish()?;
///
/// let mut reader = NodeTable::open(&files)?.read(&files)?;
/// assert!(matches!(reader.advance()?, Some(NodeEvent::Partition(p)) if p.key == b"key"));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NodeTableWriter<S: NodeSink> {
    sink: S,
    header: NodeHeader,
    options: WriteOptions,
    data: ChunkWriter,
    index: IndexWriter,
    filter: KeyFilter,
    sketch: KeySketch,
    measures: TableMeasures,
    partition: Option<OpenPartition>,
    partitions: u64,
}

impl<S: NodeSink> NodeTableWriter<S> {
    /// Creates a table.
    ///
    /// # Errors
    /// `Io`, also if a part exists already.
    pub fn create(
        sink: S,
        header: NodeHeader,
        options: WriteOptions,
    ) -> Result<NodeTableWriter<S>, NodeFault> {
        Ok(NodeTableWriter {
            data: ChunkWriter::create(&sink, options.compressed)?,
            index: IndexWriter::create(&sink, options.index_interval)?,
            sink,
            header,
            options,
            filter: KeyFilter::default(),
            sketch: KeySketch::default(),
            measures: TableMeasures::default(),
            partition: None,
            partitions: 0,
        })
    }

    /// Returns the bytes of content written so far.
    pub fn content_length(&self) -> u64 {
        self.data.len
    }

    /// Returns the number of partitions begun so far.
    pub fn partitions(&self) -> u64 {
        self.partitions
    }

    /// Writes the next event; ignores its position.
    ///
    /// # Errors
    /// `Unwritable` for data that does not fit the table's header, and for detectable violations of
    /// the order. `Io`. After an error nothing more can be written.
    pub fn event(&mut self, event: &NodeEvent) -> Result<(), NodeFault> {
        match event {
            NodeEvent::Partition(p) => self.begin(p),
            NodeEvent::Row(row) => self.row(row),
            NodeEvent::Marker(marker) => self.marker(marker),
        }
    }

    fn place<T>(&self, done: Result<T, Refusal>) -> Result<T, NodeFault> {
        done.map_err(|why| self.data.refuse(why))
    }

    fn begin(&mut self, p: &NodePartition) -> Result<(), NodeFault> {
        self.end()?;
        let start = self.data.len;
        let mut out = vec![];
        if !put_short(&mut out, &p.key) {
            return Err(self.data.refuse(format!("a partition's key has {} bytes", p.key.len())));
        }
        if p.deletion.is_some_and(|d| !(0..=NodeDeletion::LAST_SECOND).contains(&d.local)) {
            return Err(self
                .data
                .refuse("a partition was deleted in no second that can be written"));
        }
        put_partition_deletion(p.deletion, &mut out);
        self.data.put(&out)?;
        self.filter.add((self.options.hash)(&p.key));
        self.sketch.add(&p.key);
        p.deletion.into_iter().for_each(|d| self.measures.deletion(d));
        self.partitions += 1;
        self.partition = Some(OpenPartition {
            key: p.key.clone(),
            start,
            deletion: p.deletion,
            header: None,
            before: 0,
            open: None,
            blocks: RowBlocks::default(),
        });
        Ok(())
    }

    /// Returns the partition after its static row; writes an empty one if the table has static
    /// columns.
    fn among_rows(&mut self) -> Result<&mut OpenPartition, NodeFault> {
        let missing = || self.data.refuse("a row comes before the first partition");
        let p = self.partition.as_mut().ok_or_else(missing)?;
        if p.header.is_none() {
            if !self.header.statics.is_empty() {
                let row = NodeRow {
                    is_static: true,
                    clustering: vec![],
                    liveness: None,
                    deletion: None,
                    columns: vec![],
                    position: 0,
                };
                let bytes = RowEncoder { header: &self.header }.row(&row);
                let mut out = vec![];
                bytes.map_err(|why| self.data.refuse(why))?.put(0, &mut out);
                self.data.put(&out)?;
            }
            p.header = Some(self.data.len - p.start);
        }
        Ok(p)
    }

    fn row(&mut self, row: &NodeRow) -> Result<(), NodeFault> {
        let bytes = RowEncoder { header: &self.header }.row(row);
        let bytes = self.place(bytes)?;
        if row.is_static {
            let Some(p) = self.partition.as_mut().filter(|p| p.header.is_none()) else {
                return Err(self.data.refuse("a static row is not the first of its partition"));
            };
            let mut out = vec![];
            bytes.put(0, &mut out);
            self.data.put(&out)?;
            p.header = Some(self.data.len - p.start);
        } else {
            self.among_rows()?;
            self.put(&bytes)?;
        }
        let columns = self.header.columns(row.is_static);
        let is_counter = |i: usize| columns.get(i).is_some_and(|c| c.class.is_counter());
        self.measures.row(row, |i, value| is_counter(i) && has_old_shards(value));
        Ok(())
    }

    fn marker(&mut self, marker: &NodeMarker) -> Result<(), NodeFault> {
        let bytes = RowEncoder { header: &self.header }.marker(marker);
        let bytes = self.place(bytes)?;
        let p = self.among_rows()?;
        if p.open != marker.close.as_ref().map(|c| c.1) {
            let why = "a deletion of a range ends that did not begin, or one begins in another";
            return Err(self.data.refuse(why));
        }
        p.open = marker.open.as_ref().map(|o| o.1);
        let sides = [&marker.close, &marker.open];
        sides.into_iter().flatten().for_each(|(_, d)| self.measures.deletion(*d));
        self.put(&bytes)
    }

    /// Writes a row or marker of the partition.
    fn put(&mut self, bytes: &RowBytes) -> Result<(), NodeFault> {
        let Some(p) = &mut self.partition else { return Ok(()) };
        let at = self.data.len - p.start;
        let mut out = vec![];
        bytes.put(at - p.before, &mut out);
        self.data.put(&out)?;
        p.before = at;
        p.blocks.add(&bytes.prefix, at, self.data.len - p.start, p.open);
        Ok(())
    }

    /// Ends the partition.
    fn end(&mut self) -> Result<(), NodeFault> {
        if self.partition.is_none() {
            return Ok(());
        }
        let header = self.among_rows()?.header.unwrap_or_default();
        let Some(p) = self.partition.take() else { return Ok(()) };
        if p.open.is_some() {
            return Err(self.data.refuse("a partition ends in a deletion of a range"));
        }
        self.data.put(&[END_OF_PARTITION])?;
        let end = self.data.len - p.start;
        self.measures.end_of_partition(end);
        let (key, start) = (&*p.key, p.start);
        let (deletion, blocks) = (p.deletion, p.blocks);
        self.index.add(IndexedPartition { key, start, deletion, header, end, blocks })
    }

    /// Completes the table and syncs all its parts. Without any event the table has no partitions,
    /// which no node accepts.
    ///
    /// # Errors
    /// As [`event`](NodeTableWriter::event).
    pub fn finish(mut self) -> Result<(), NodeFault> {
        self.end()?;
        let sink = &self.sink;
        let chance = self.options.filter_chance;
        let (mut names, ratio) = self.data.finish(sink)?;
        names.extend(self.index.finish(sink)?);
        if chance < 1.0 {
            OpenPart::whole(sink, FILTER, &self.filter.bytes(chance))?;
            names.push(FILTER);
        }
        let measures = self.measures.bytes(ratio);
        let written = statistics(&self.header, chance, self.sketch.bytes(), measures);
        let mut open = OpenPart::create(sink, STATISTICS)?;
        let bytes = written.map_err(|why| open.refuse(why))?;
        open.put(&bytes)?;
        open.finish()?;
        names.extend([STATISTICS, CONTENTS]);
        names.sort_unstable();
        let names: String = names.iter().map(|n| format!("{n}\n")).collect();
        OpenPart::whole(sink, CONTENTS, names.as_bytes())
    }
}
