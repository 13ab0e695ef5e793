//! Columns of a table's files, and their minimum times.

use crate::class::MarshalClass;
use crate::format::EPOCH_MICROS;

/// A column with cells in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderColumn {
    /// Name.
    pub name: Vec<u8>,
    /// Type.
    pub class: MarshalClass,
}

/// Header of a file's rows: types of keys and columns. It lacks the names of key columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHeader {
    /// The class of the partitioner, with package.
    pub partitioner: String,
    /// The type of the partition key; a `CompositeType` for several columns.
    pub key: MarshalClass,
    /// The types of the clustering columns.
    pub clustering: Vec<MarshalClass>,
    /// The static columns with cells in the file, in file order.
    pub statics: Vec<HeaderColumn>,
    /// The other columns with cells in the file.
    pub regulars: Vec<HeaderColumn>,
    /// Base of timestamps, in microseconds since 1970.
    pub(crate) least_timestamp: i64,
    /// Base of deletion times, in seconds since 1970.
    pub(crate) least_second: i64,
    /// Base of TTLs, in seconds.
    pub(crate) least_ttl: i64,
}

/// Minimum times of a file. Times are stored as differences to them, so closer minima make a
/// smaller file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastTimes {
    /// Minimum timestamp, in microseconds since 1970 by convention. Smaller ones can be written,
    /// too.
    pub timestamp: i64,
    /// Minimum of deletion times and expirations in seconds since 1970. Smaller ones cannot be
    /// written.
    pub second: i64,
    /// Minimum TTL in seconds. Smaller ones cannot be written.
    pub ttl: u32,
}

impl Default for LeastTimes {
    /// Returns the values for a file without TTLs and deletions, which are lower bounds of all
    /// times.
    fn default() -> LeastTimes {
        LeastTimes { timestamp: EPOCH_MICROS, second: 0, ttl: 0 }
    }
}

impl NodeHeader {
    /// Creates the header of a file to write. Sorts the columns: those with one cell before the
    /// others, each by name.
    pub fn new(
        partitioner: String,
        key: MarshalClass,
        clustering: Vec<MarshalClass>,
        mut statics: Vec<HeaderColumn>,
        mut regulars: Vec<HeaderColumn>,
        least: LeastTimes,
    ) -> NodeHeader {
        for columns in [&mut statics, &mut regulars] {
            columns.sort_by(|a, b| {
                (a.class.is_multi_cell(), &a.name).cmp(&(b.class.is_multi_cell(), &b.name))
            });
        }
        NodeHeader {
            partitioner,
            key,
            clustering,
            statics,
            regulars,
            least_timestamp: least.timestamp,
            least_second: least.second,
            least_ttl: least.ttl.into(),
        }
    }

    /// Returns the static columns, or the others.
    pub fn columns(&self, of_static: bool) -> &[HeaderColumn] {
        if of_static { &self.statics } else { &self.regulars }
    }
}
