//! What a table's data is made of: partitions, rows, bounds of deletions; and how rows and cells
//! are read of their bytes (`FORMAT.md`, "Rows").

use crate::cursor::ByteCursor;
use crate::fault::BytesFault;
use crate::files::FileVersion;
use crate::format::{
    CELL_DELETED, CELL_EMPTY, CELL_EXPIRES, CELL_ROW_TIMESTAMP, CELL_ROW_TTL, HAS_ALL_COLUMNS,
    HAS_COMPLEX_DELETION, HAS_DELETION, HAS_TIMESTAMP, HAS_TTL, MANY_COLUMNS, NO_DELETION,
    lists_present,
};
use crate::header::{HeaderColumn, NodeHeader};

/// What a reader gives out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// A partition begins; what follows is its.
    Partition(NodePartition),
    /// A static row, which comes first, or another one.
    Row(NodeRow),
    /// Where a deletion of a range begins or ends, or one ends where the next begins.
    Marker(NodeMarker),
}

/// The beginning of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePartition {
    /// Its key; of several columns in the form of `CompositeType`.
    pub key: Vec<u8>,
    /// Its deletion.
    pub deletion: Option<NodeDeletion>,
    /// Where it is in the decompressed data, in bytes.
    pub position: u64,
}

/// A deletion of a partition, a row, a range of rows or a whole collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeDeletion {
    /// All with this timestamp or an earlier one is deleted, in microseconds by convention.
    pub timestamp: i64,
    /// The second since 1970 of the deletion; `gc_grace_seconds` counts from here.
    pub local: i64,
}

impl NodeDeletion {
    /// The latest second that the written version has room for, in 2038; so of ends of times to
    /// live.
    pub const LAST_SECOND: i64 = i32::MAX as i64 - 1;

    /// The second of 7 February 2106 that Cassandra 5.0 reads in place of one that overflowed: the
    /// files before `oa` store 32 bits with a sign, and nodes of 2018 wrote sums beyond them.
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
    /// The values of the clustering columns; null are those that rows of compact tables lack.
    pub clustering: Vec<Option<Vec<u8>>>,
    /// What an INSERT has left: the row is there, also without cells.
    pub liveness: Option<NodeLiveness>,
    /// The deletion of the row.
    pub deletion: Option<NodeDeletion>,
    /// The columns that it has cells of, or a deletion.
    pub columns: Vec<NodeColumn>,
    /// Where it is in the decompressed data, in bytes.
    pub position: u64,
}

/// When a row was inserted, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLiveness {
    /// The timestamp, in microseconds by convention.
    pub timestamp: i64,
    /// Its end.
    pub expiry: Option<NodeExpiry>,
}

/// A time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeExpiry {
    /// As it was given, in seconds.
    pub ttl: u32,
    /// The second since 1970 from which on the value is dead.
    pub expires: i64,
}

impl NodeExpiry {
    /// The greatest time to live of a file. Nodes write it with a value that has expired.
    const EXPIRED_TTL: u32 = i32::MAX as u32;

    /// Reads an end as Cassandra 5.0 does: an end before 1970, or earlier than its time to live
    /// after 1970, is the trace of an overflow.
    fn read(ttl: u32, second: i64) -> NodeExpiry {
        let possible = second >= i64::from(ttl) || ttl == NodeExpiry::EXPIRED_TTL;
        NodeExpiry { ttl, expires: if possible { second } else { NodeDeletion::OVERFLOWED } }
    }

    /// Whether the end overflowed at the node that wrote it, so that the file does not have it.
    pub fn is_overflowed(&self) -> bool {
        self.expires == NodeDeletion::OVERFLOWED
    }
}

/// The cells of a column in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeColumn {
    /// Its number in [`NodeHeader::columns`].
    pub column: usize,
    /// Of a collection or user type: the deletion of all of it.
    pub deletion: Option<NodeDeletion>,
    /// One cell, or one for each element.
    pub cells: Vec<NodeCell>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCell {
    /// Of a list the element's time UUID, of a set the element, of a map its key, of a user type
    /// the number of the field in two bytes.
    pub path: Option<Vec<u8>>,
    /// The timestamp, in microseconds by convention.
    pub timestamp: i64,
    /// What was written.
    pub state: NodeCellState,
}

/// What a cell holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeCellState {
    /// A value for good; of a counter its shards ([`crate::counter_sum`]).
    Live(Vec<u8>),
    /// A value with a time to live.
    Expiring(Vec<u8>, NodeExpiry),
    /// A deletion, of this second since 1970.
    Deleted(i64),
}

/// A place between rows where deletions of ranges begin or end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMarker {
    /// The end of the range before it, and its deletion.
    pub close: Option<(NodeBound, NodeDeletion)>,
    /// The start of the range behind it, and its deletion.
    pub open: Option<(NodeBound, NodeDeletion)>,
    /// Where it is in the decompressed data, in bytes.
    pub position: u64,
}

/// A bound of a range of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeBound {
    /// The values of the first clustering columns, or of all.
    pub clustering: Vec<Option<Vec<u8>>>,
    /// Whether rows that begin so are in the range.
    pub inclusive: bool,
}

/// Reads what follows the sizes of a row or marker; its bytes are all in memory.
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

    /// Fills in a row of which the flags and the clustering are known.
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

    /// The numbers of the columns that the row has.
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
        // The shorter list is written: of those that are there, or of those that are not.
        let listed = if lists_present(count, of) { count } else { of - count };
        let mut numbers = Vec::with_capacity(listed.min(self.bytes.left()));
        for _ in 0..listed {
            let n = self.bytes.vint("the number of a column")?;
            match usize::try_from(n) {
                Ok(n) if n < of && numbers.last().is_none_or(|l| *l < n) => numbers.push(n),
                _ => {
                    return wrong("the columns of a row are in no order, or there are not so many");
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
            // Where one column of the row has a deletion, the others say that they have none.
            deletion = (read.timestamp != NO_DELETION.timestamp).then_some(read);
        }
        // A cell takes a byte at least, so there are no more than bytes are left.
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

/// A value, which has its length before it where not all of its type have the same.
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
