//! Data of a table: partitions, rows, bounds of deletions; and the decoding of rows and cells
//! (`FORMAT.md`, "Rows").

use crate::cursor::ByteCursor;
use crate::fault::BytesFault;
use crate::files::FileVersion;
use crate::format::{
    CELL_DELETED, CELL_EMPTY, CELL_EXPIRES, CELL_ROW_TIMESTAMP, CELL_ROW_TTL, HAS_ALL_COLUMNS,
    HAS_COMPLEX_DELETION, HAS_DELETION, HAS_TIMESTAMP, HAS_TTL, MANY_COLUMNS, NO_DELETION,
    lists_present,
};
use crate::header::{HeaderColumn, NodeHeader};

/// An event of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// The start of a partition; later events belong to it.
    Partition(NodePartition),
    /// A static row, which comes first, or another row.
    Row(NodeRow),
    /// The start or end of a range deletion, or the boundary of two adjacent ones.
    Marker(NodeMarker),
}

/// The start of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePartition {
    /// Partition key; several columns are encoded like `CompositeType`.
    pub key: Vec<u8>,
    /// Deletion of the partition.
    pub deletion: Option<NodeDeletion>,
    /// Offset in the decompressed data.
    pub position: u64,
}

/// A deletion of a partition, a row, a range of rows or a whole collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeDeletion {
    /// All data with this timestamp or an earlier one is deleted; in microseconds by convention.
    pub timestamp: i64,
    /// Time of the deletion in seconds since 1970; `gc_grace_seconds` counts from here.
    pub local: i64,
}

impl NodeDeletion {
    /// The latest second that the written version can represent, in 2038; for expirations, too.
    pub const LAST_SECOND: i64 = i32::MAX as i64 - 1;

    /// The second of 7 February 2106 that Cassandra 5.0 reads for an overflowed one. Files before
    /// `oa` store signed 32-bit numbers, and nodes of 2018 wrote larger sums.
    pub const OVERFLOWED: i64 = u32::MAX as i64 - 1;

    /// Replaces a second before 1970 by [`OVERFLOWED`](NodeDeletion::OVERFLOWED).
    pub(crate) fn second(read: i64) -> i64 {
        if read < 0 { NodeDeletion::OVERFLOWED } else { read }
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Whether it is the static row of its partition.
    pub is_static: bool,
    /// Clustering values; null ones are missing in rows of compact tables.
    pub clustering: Vec<Option<Vec<u8>>>,
    /// The liveness left by an INSERT: the row exists, even without cells.
    pub liveness: Option<NodeLiveness>,
    /// Deletion of the row.
    pub deletion: Option<NodeDeletion>,
    /// The columns with cells, or a deletion.
    pub columns: Vec<NodeColumn>,
    /// Offset in the decompressed data.
    pub position: u64,
}

/// Time of an INSERT, and its TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLiveness {
    /// The timestamp, in microseconds by convention.
    pub timestamp: i64,
    /// Expiration, if any.
    pub expiry: Option<NodeExpiry>,
}

/// A time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeExpiry {
    /// TTL in seconds.
    pub ttl: u32,
    /// Second since 1970 from which on the value is dead.
    pub expires: i64,
}

impl NodeExpiry {
    /// Largest TTL of a file. Nodes write it with an expired value.
    const EXPIRED_TTL: u32 = i32::MAX as u32;

    /// Reads an expiration like Cassandra 5.0: one before 1970, or earlier than 1970 plus its TTL,
    /// results from an overflow.
    fn read(ttl: u32, second: i64) -> NodeExpiry {
        let possible = second >= i64::from(ttl) || ttl == NodeExpiry::EXPIRED_TTL;
        NodeExpiry { ttl, expires: if possible { second } else { NodeDeletion::OVERFLOWED } }
    }

    /// Reports whether the expiration overflowed in the node that wrote it, so that its value is
    /// lost.
    pub fn is_overflowed(&self) -> bool {
        self.expires == NodeDeletion::OVERFLOWED
    }
}

/// The cells of a column in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeColumn {
    /// Its number in [`NodeHeader::columns`].
    pub column: usize,
    /// For a collection or user type: the deletion of the whole value.
    pub deletion: Option<NodeDeletion>,
    /// One cell, or one for each element.
    pub cells: Vec<NodeCell>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCell {
    /// Path of the element: its time UUID in a list, the element of a set, the key of a map, the
    /// field number of a user type in two bytes.
    pub path: Option<Vec<u8>>,
    /// The timestamp, in microseconds by convention.
    pub timestamp: i64,
    /// The contents.
    pub state: NodeCellState,
}

/// Contents of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeCellState {
    /// A value without TTL; for a counter, its shards ([`crate::counter_sum`]).
    Live(Vec<u8>),
    /// A value with a time to live.
    Expiring(Vec<u8>, NodeExpiry),
    /// A tombstone with its time in seconds since 1970.
    Deleted(i64),
}

/// A position between rows at which range deletions begin or end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMarker {
    /// End of the range before it, with its deletion.
    pub close: Option<(NodeBound, NodeDeletion)>,
    /// Start of the range after it, with its deletion.
    pub open: Option<(NodeBound, NodeDeletion)>,
    /// Offset in the decompressed data.
    pub position: u64,
}

/// A bound of a range of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeBound {
    /// Values of the first clustering columns, or of all.
    pub clustering: Vec<Option<Vec<u8>>>,
    /// Whether rows with this prefix are in the range.
    pub inclusive: bool,
}

/// Reads the part of a row or marker after its sizes; all bytes are in memory.
pub(crate) struct BodyReader<'h, 'b> {
    pub header: &'h NodeHeader,
    pub version: FileVersion,
    pub bytes: ByteCursor<'b>,
}

impl BodyReader<'_, '_> {
    fn timestamp(&mut self) -> Result<i64, BytesFault> {
        Ok(self.header.least_timestamp.wrapping_add(self.bytes.vint("a timestamp")? as i64))
    }

    fn second(&mut self) -> Result<i64, BytesFault> {
        let difference = self.bytes.vint("a second of deletion")? as i64;
        let sum = self.header.least_second.wrapping_add(difference);
        Ok(NodeDeletion::second(self.version.second(sum)))
    }

    fn ttl(&mut self) -> Result<u32, BytesFault> {
        let at = self.bytes.offset();
        let ttl = self.header.least_ttl.wrapping_add(self.bytes.vint("a time to live")? as i64);
        u32::try_from(ttl)
            .ok()
            .filter(|t| *t <= i32::MAX as u32)
            .ok_or_else(|| BytesFault::new(at, format!("a time to live of {ttl} seconds")))
    }

    pub(crate) fn deletion(&mut self) -> Result<NodeDeletion, BytesFault> {
        let timestamp = self.timestamp()?;
        Ok(NodeDeletion { timestamp, local: self.second()? })
    }

    /// Completes a row with known flags and clustering.
    pub(crate) fn row(&mut self, flags: u8, row: &mut NodeRow) -> Result<(), BytesFault> {
        if flags & HAS_TIMESTAMP != 0 {
            let timestamp = self.timestamp()?;
            let mut expiry = None;
            if flags & HAS_TTL != 0 {
                let ttl = self.ttl()?;
                expiry = Some(NodeExpiry::read(ttl, self.second()?));
            }
            row.liveness = Some(NodeLiveness { timestamp, expiry });
        } else if flags & HAS_TTL != 0 {
            return self.bytes.fault("a row has a time to live and no timestamp");
        }
        if flags & HAS_DELETION != 0 {
            row.deletion = Some(self.deletion()?);
        }
        let header = self.header;
        let columns = header.columns(row.is_static);
        let there = match flags & HAS_ALL_COLUMNS {
            0 => self.subset(columns.len())?,
            _ => (0..columns.len()).collect(),
        };
        row.columns.reserve(there.len());
        for i in there {
            let column = self.column(&columns[i], i, flags, row.liveness)?;
            row.columns.push(column);
        }
        match self.bytes.left() {
            0 => Ok(()),
            n => self.bytes.fault(format!("{n} bytes of a row are left behind its last column")),
        }
    }

    /// Reads the numbers of the row's columns.
    fn subset(&mut self, of: usize) -> Result<Vec<usize>, BytesFault> {
        let at = self.bytes.offset();
        let wrong = |why: &str| Err(BytesFault::new(at, why));
        let word = self.bytes.vint("the columns of a row")?;
        if of < MANY_COLUMNS {
            if word >> of != 0 {
                return wrong("a row lacks columns that there are not");
            }
            return Ok((0..of).filter(|i| word & 1 << i == 0).collect());
        }
        let Some(count) = usize::try_from(word).ok().and_then(|missing| of.checked_sub(missing))
        else {
            return wrong("a row lacks more columns than there are");
        };
        // The shorter list is stored: the present or the missing columns.
        let listed = if lists_present(count, of) { count } else { of - count };
        let mut numbers = Vec::with_capacity(listed.min(self.bytes.left()));
        for _ in 0..listed {
            let n = self.bytes.vint("the number of a column")?;
            match usize::try_from(n) {
                Ok(n) if n < of && numbers.last().is_none_or(|l| *l < n) => numbers.push(n),
                _ => {
                    return wrong(
                        "the columns of a row are out of order, or their count is too large",
                    );
                }
            }
        }
        if lists_present(count, of) {
            return Ok(numbers);
        }
        let mut missing = numbers.into_iter().peekable();
        Ok((0..of).filter(|i| missing.next_if_eq(i).is_none()).collect())
    }

    fn column(
        &mut self,
        of: &HeaderColumn,
        column: usize,
        flags: u8,
        liveness: Option<NodeLiveness>,
    ) -> Result<NodeColumn, BytesFault> {
        if !of.class.is_multi_cell() {
            let cells = vec![self.cell(of, false, liveness)?];
            return Ok(NodeColumn { column, deletion: None, cells });
        }
        let mut deletion = None;
        if flags & HAS_COMPLEX_DELETION != 0 {
            let read = self.deletion()?;
            // If one column of the row has a deletion, the others store the absence of one.
            deletion = (read.timestamp != NO_DELETION.timestamp).then_some(read);
        }
        // A cell has at least one byte, so there are at most as many as bytes left.
        let count = self.bytes.length("the number of elements")?;
        let cells = (0..count).map(|_| self.cell(of, true, liveness)).collect::<Result<_, _>>()?;
        Ok(NodeColumn { column, deletion, cells })
    }

    fn cell(
        &mut self,
        of: &HeaderColumn,
        in_collection: bool,
        liveness: Option<NodeLiveness>,
    ) -> Result<NodeCell, BytesFault> {
        let at = self.bytes.offset();
        let flags = self.bytes.u8("the flags of a cell")?;
        let all = CELL_DELETED | CELL_EXPIRES | CELL_EMPTY | CELL_ROW_TIMESTAMP | CELL_ROW_TTL;
        let both = CELL_DELETED | CELL_EXPIRES;
        if flags & !all != 0 || flags & both == both {
            return Err(BytesFault::new(at, format!("no cell has the flags {flags:#04x}")));
        }
        let of_row = |what: &str| {
            liveness.ok_or_else(|| {
                BytesFault::new(at, format!("a cell has the {what} of its row, which has none"))
            })
        };
        let timestamp = match flags & CELL_ROW_TIMESTAMP {
            0 => self.timestamp()?,
            _ => of_row("timestamp")?.timestamp,
        };
        let row_expiry = match flags & CELL_ROW_TTL {
            0 => None,
            _ => of_row("time to live")?.expiry,
        };
        let (mut deleted, mut expiry) = (None, None);
        match (flags & CELL_ROW_TTL != 0, row_expiry) {
            (true, None) => {
                let why = "a cell has the time to live of its row, which has none";
                return Err(BytesFault::new(at, why));
            }
            (true, Some(e)) if flags & CELL_DELETED != 0 => deleted = Some(e.expires),
            (true, e) if flags & CELL_EXPIRES != 0 => expiry = e,
            (true, _) => {}
            (false, _) if flags & both != 0 => {
                let second = self.second()?;
                if flags & CELL_DELETED != 0 {
                    deleted = Some(second);
                } else {
                    expiry = Some(NodeExpiry::read(self.ttl()?, second));
                }
            }
            (false, _) => {}
        }
        let path = match in_collection {
            true => Some(self.bytes.sized("the path of an element")?.to_vec()),
            false => None,
        };
        let value = match (flags & CELL_EMPTY, in_collection) {
            (0, false) => value_of(&mut self.bytes, of.class.fixed_length())?,
            (0, true) => self.bytes.sized("the value of an element")?.to_vec(),
            _ => vec![],
        };
        let state = match (deleted, expiry) {
            (Some(second), _) => NodeCellState::Deleted(second),
            (None, Some(expiry)) => NodeCellState::Expiring(value, expiry),
            (None, None) => NodeCellState::Live(value),
        };
        Ok(NodeCell { path, timestamp, state })
    }
}

/// Reads a value, with a length unless its type has a fixed one.
pub(crate) fn value_of(
    bytes: &mut ByteCursor<'_>,
    fixed: Option<usize>,
) -> Result<Vec<u8>, BytesFault> {
    Ok(match fixed {
        Some(len) => bytes.take(len, "a value")?,
        None => bytes.sized("a value")?,
    }
    .to_vec())
}
