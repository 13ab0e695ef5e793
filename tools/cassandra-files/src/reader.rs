//! Sequential reader of a table's data: flags, clusterings and sizes of rows and markers.

use std::path::PathBuf;

use crate::class::MarshalClass;
use crate::content::ContentReader;
use crate::fault::{NodeFault, NodeFaultKind};
use crate::files::{FileVersion, NodeFiles, UPGRADE};
use crate::format::{
    BOUNDS, DATA, END_OF_PARTITION, FLAGGED, HAS_MORE_FLAGS, IS_MARKER, IS_SHADOWABLE, IS_STATIC,
    NO_DELETION, VALUE_EMPTY, VALUE_FOLLOWS,
};
use crate::header::NodeHeader;
use crate::rows::{
    BodyReader, NodeBound, NodeDeletion, NodeEvent, NodeMarker, NodePartition, NodeRow,
};
use crate::statistics::read_header;

/// An SSTable of a node, with the metadata of its files.
#[derive(Clone, Debug)]
pub struct NodeTable {
    /// Version from the file names.
    pub version: String,
    /// Types of keys and columns.
    pub header: NodeHeader,
    /// Path of the data, for messages.
    pub data: PathBuf,
    kind: FileVersion,
}

impl NodeTable {
    /// Reads the metadata.
    ///
    /// # Errors
    /// `Unsupported` for an unreadable version, `Missing` without `Statistics.db`, `Damaged` if
    /// that is damaged.
    pub fn open(files: &dyn NodeFiles) -> Result<NodeTable, NodeFault> {
        let version = files.version();
        let Some(kind) = FileVersion::parse(version) else {
            let next = match version {
                "la" | "lb" => format!("; this one is of Cassandra 2.2: {UPGRADE}"),
                "ms" | "mt" => {
                    "; this one is of a newer ScyllaDB: one that writes version me can write it anew"
                        .to_owned()
                }
                _ => String::new(),
            };
            return Err(NodeFault::new(
                NodeFaultKind::Unsupported,
                &files.path(DATA),
                format!(
                    "version {version} is not read: ma to me (3.0 to 3.11, ScyllaDB), na and nb (4.0 to 5.0), oa and da (5.0) are{next}"
                ),
            ));
        };
        let header = read_header(files, kind)?;
        Ok(NodeTable { version: version.to_owned(), header, data: files.path(DATA), kind })
    }

    /// Begins to read the data. The checksum of a chunk is verified before its contents are used,
    /// and that of the whole file, if present, at the end.
    ///
    /// # Errors
    /// `Missing` without `Data.db`; `Damaged`.
    pub fn read(&self, files: &dyn NodeFiles) -> Result<NodeReader, NodeFault> {
        let content = ContentReader::open(files, self.kind)?;
        Ok(NodeReader {
            header: self.header.clone(),
            version: self.kind,
            content,
            in_partition: false,
            open: None,
            rows: 0,
        })
    }
}

/// Reads a table's data in order.
pub struct NodeReader {
    header: NodeHeader,
    version: FileVersion,
    content: ContentReader,
    in_partition: bool,
    /// The range deletion at the current position.
    open: Option<NodeDeletion>,
    /// Rows and markers of this partition so far.
    rows: u64,
}

impl NodeReader {
    /// Returns the offset of the reader in the decompressed data.
    pub fn position(&self) -> u64 {
        self.content.offset()
    }

    /// Returns the length of the decompressed data in bytes.
    pub fn data_length(&self) -> u64 {
        self.content.len()
    }

    /// Returns the next event; `None` at the end of a valid file.
    ///
    /// # Errors
    /// `Damaged` with the offset, `Io`. After an error nothing more can be read.
    pub fn advance(&mut self) -> Result<Option<NodeEvent>, NodeFault> {
        if !self.in_partition {
            if self.content.is_at_end()? {
                return Ok(None);
            }
            self.in_partition = true;
            self.rows = 0;
            return self.partition().map(|p| Some(NodeEvent::Partition(p)));
        }
        let position = self.content.offset();
        let flags = self.content.u8("the flags of a row")?;
        if flags & END_OF_PARTITION != 0 {
            if self.open.is_some() {
                return self.content.fault(position, "a partition ends in a deletion of a range");
            }
            self.in_partition = false;
            return self.advance();
        }
        self.rows += 1;
        if flags & IS_MARKER != 0 {
            return self.marker(position).map(|m| Some(NodeEvent::Marker(m)));
        }
        let row = self.row(flags, position)?;
        // In a table with static columns, each partition has a static row, mostly an empty one.
        let says_nothing = row.is_static && row.columns.is_empty() && row.deletion.is_none();
        if says_nothing { self.advance() } else { Ok(Some(NodeEvent::Row(row))) }
    }

    fn partition(&mut self) -> Result<NodePartition, NodeFault> {
        let position = self.content.offset();
        let mut c = self.content.take(2, "the length of a partition's key")?;
        let len = c.u16("the length of a partition's key");
        let len = self.content.placed(len)?;
        let mut c = self.content.take(u64::from(len), "the key of a partition")?;
        let key = c.take(len.into(), "the key of a partition").map(<[u8]>::to_vec);
        let key = self.content.placed(key)?;
        let deletion = self.partition_deletion()?;
        Ok(NodePartition { key, deletion, position })
    }

    fn partition_deletion(&mut self) -> Result<Option<NodeDeletion>, NodeFault> {
        let what = "the deletion of a partition";
        let at = self.content.offset();
        if !self.version.unsigned_seconds {
            let mut c = self.content.take(12, what)?;
            let both = c.u32(what).and_then(|local| Ok((local as i32, c.u64(what)? as i64)));
            let (local, timestamp) = self.content.placed(both)?;
            let read = NodeDeletion { timestamp, local: NodeDeletion::second(local.into()) };
            return Ok((read != NO_DELETION).then_some(read));
        }
        let first = self.content.u8(what)?;
        match first {
            0x80 => Ok(None),
            0x81.. => self.content.fault(at, format!("{what} begins with {first:#04x}")),
            _ => {
                let mut c = self.content.take(11, what)?;
                let mut bytes = [first, 0, 0, 0, 0, 0, 0, 0];
                let both = c.take(7, what).and_then(|rest| {
                    bytes[1..].copy_from_slice(rest);
                    Ok((i64::from_be_bytes(bytes), c.u32(what)?))
                });
                let (timestamp, local) = self.content.placed(both)?;
                Ok(Some(NodeDeletion { timestamp, local: local.into() }))
            }
        }
    }

    fn row(&mut self, flags: u8, position: u64) -> Result<NodeRow, NodeFault> {
        let mut more = 0;
        if flags & HAS_MORE_FLAGS != 0 {
            more = self.content.u8("the second flags of a row")?;
        }
        if more & !(IS_STATIC | IS_SHADOWABLE) != 0 {
            return self
                .content
                .fault(position, format!("no row has the second flags {more:#04x}"));
        }
        let is_static = more & IS_STATIC != 0;
        if is_static && self.rows > 1 {
            return self.content.fault(position, "a static row is not the first of its partition");
        }
        let clustering = match is_static {
            true => vec![],
            false => self.clustering(self.header.clustering.len())?,
        };
        let mut row = NodeRow {
            is_static,
            clustering,
            liveness: None,
            deletion: None,
            columns: vec![],
            position,
        };
        let mut body = self.body()?;
        let read = body.row(flags, &mut row);
        self.content.placed(read)?;
        Ok(row)
    }

    /// Returns the bytes of a row or marker after its sizes.
    fn body(&mut self) -> Result<BodyReader<'_, '_>, NodeFault> {
        let at = self.content.offset();
        let size = self.content.vint("the size of a row")?;
        let behind = self.content.offset();
        // The size of the previous row is not used.
        self.content.vint("the size of the row before")?;
        let before = self.content.offset() - behind;
        let Some(size) = size.checked_sub(before) else {
            return self.content.fault(at, format!("a row of {size} bytes"));
        };
        let bytes = self.content.take(size, "a row")?;
        Ok(BodyReader { header: &self.header, version: self.version, bytes })
    }

    fn clustering(&mut self, count: usize) -> Result<Vec<Option<Vec<u8>>>, NodeFault> {
        let mut values = Vec::with_capacity(count);
        let mut flags = 0;
        for i in 0..count {
            if i % FLAGGED == 0 {
                flags = self.content.vint("the flags of clustering values")?;
            }
            let of_this = flags >> (2 * (i % FLAGGED)) & 3;
            values.push(match of_this {
                VALUE_FOLLOWS => {
                    let fixed = self.header.clustering.get(i).and_then(MarshalClass::fixed_length);
                    Some(self.clustering_value(fixed)?)
                }
                VALUE_EMPTY => Some(vec![]),
                _ => None,
            });
        }
        Ok(values)
    }

    fn clustering_value(&mut self, fixed: Option<usize>) -> Result<Vec<u8>, NodeFault> {
        let what = "a clustering value";
        let len = match fixed {
            Some(len) => len as u64,
            None => self.content.vint(what)?,
        };
        let mut c = self.content.take(len, what)?;
        let value = c.take(c.left(), what).map(<[u8]>::to_vec);
        self.content.placed(value)
    }

    fn marker(&mut self, position: u64) -> Result<NodeMarker, NodeFault> {
        let kind = self.content.u8("the kind of a bound")?;
        let Some((_, closes, opens)) = BOUNDS.into_iter().find(|b| b.0 == kind) else {
            return self.content.fault(position, format!("no bound has the kind {kind}"));
        };
        let mut c = self.content.take(2, "the length of a bound")?;
        let count = c.u16("the length of a bound");
        let count = usize::from(self.content.placed(count)?);
        let most = self.header.clustering.len();
        if count > most {
            let why = format!("a bound has {count} values, and rows have {most}");
            return self.content.fault(position, why);
        }
        let clustering = self.clustering(count)?;
        let mut body = self.body()?;
        let mut read = || {
            let close = closes.map(|_| body.deletion()).transpose()?;
            let open = opens.map(|_| body.deletion()).transpose()?;
            match body.bytes.left() {
                0 => Ok((close, open)),
                n => body.bytes.fault(format!("{n} bytes of a bound are left")),
            }
        };
        let read = read();
        let (close, open) = self.content.placed(read)?;
        if self.open != close {
            let why = "a deletion of a range ends that did not begin, or one begins in another";
            return self.content.fault(position, why);
        }
        self.open = open;
        let bound = |inclusive| NodeBound { clustering: clustering.clone(), inclusive };
        let close = closes.map(bound).zip(close);
        Ok(NodeMarker { close, open: opens.map(bound).zip(open), position })
    }
}
