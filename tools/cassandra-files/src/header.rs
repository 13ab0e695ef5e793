//! What a table's files say of its columns and of the least times in them.

use crate::class::MarshalClass;
use crate::format::EPOCH_MICROS;

/// A column whose cells are in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderColumn {
    /// Its name.
    pub name: Vec<u8>,
    /// Its type.
    pub class: MarshalClass,
}

/// The header of a file's rows: types of keys and columns. The names of key columns are not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHeader {
    /// The class of the partitioner, with its package.
    pub partitioner: String,
    /// The type of the partition key; of several columns a `CompositeType` of theirs.
    pub key: MarshalClass,
    /// The types of the clustering columns.
    pub clustering: Vec<MarshalClass>,
    /// The static columns that the file has cells of, in their order there.
    pub statics: Vec<HeaderColumn>,
    /// The other columns that the file has cells of.
    pub regulars: Vec<HeaderColumn>,
    /// What differences of timestamps are added to, in microseconds since 1970.
    pub(crate) least_timestamp: i64,
    /// What differences of seconds of deletions are added to, in seconds since 1970.
    pub(crate) least_second: i64,
    /// What differences of times to live are added to, in seconds.
    pub(crate) least_ttl: i64,
}

/// The least times in a file. What is written says how much more each time is: the nearer they are,
/// the smaller is the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastTimes {
    /// Of timestamps, in microseconds since 1970 by convention. A smaller one can be written, too.
    pub timestamp: i64,
    /// Of seconds of deletions and ends of times to live, since 1970. None that is written is less.
    pub second: i64,
    /// Of times to live, in seconds. None that is written is less.
    pub ttl: u32,
}

impl Default for LeastTimes {
    /// Those of a file without times to live and deletions, that no time is less than.
    fn default() -> LeastTimes {
        LeastTimes { timestamp: EPOCH_MICROS, second: 0, ttl: 0 }
    }
}

impl NodeHeader {
    /// The header of a file that is to be written. Columns are put in order: those with one cell
    /// before the others, by their names.
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

    /// The columns of static rows, or of the others.
    pub fn columns(&self, of_static: bool) -> &[HeaderColumn] {
        if of_static { &self.statics } else { &self.regulars }
    }
}
