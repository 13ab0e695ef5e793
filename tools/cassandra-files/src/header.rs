//! What a table's files say of its columns and of the least times in them.

use crate::class::MarshalClass;

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

impl NodeHeader {
    /// The columns of static rows, or of the others.
    pub fn columns(&self, of_static: bool) -> &[HeaderColumn] {
        if of_static { &self.statics } else { &self.regulars }
    }
}
