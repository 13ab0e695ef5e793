//! Structures of the operations, named as in Thrift's interface 19 (model 2.6), as plain data.
//!
//! Meaningless combinations that Thrift can express, such as a mutation that is both a write and a
//! deletion, cannot be represented here. Decoders of a wire format build these structures with the
//! `from_parts` functions, which refuse such combinations with Cassandra's texts.

use crate::base::error::{Result, invalid};
pub use crate::schema::MAX_TTL;

/// A column: a name, a value, and a timestamp set by the writer.
///
/// ```
/// use firn_wide::Column;
/// let email = Column::new("emailAddress", "arin@example.com", 123456789);
/// assert_eq!(email.value, b"arin@example.com");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Name, in the family's comparator type: 1 to 65,535 bytes.
    pub name: Vec<u8>,
    /// Value, in the column's type.
    pub value: Vec<u8>,
    /// Timestamp; microseconds since 1970 by convention. The larger one wins.
    pub timestamp: i64,
    /// TTL in seconds, at most 630,720,000; 0 means no expiration. `None` in a write is the
    /// family's default, which is no expiration unless one is defined. `None` in a result means no
    /// expiration.
    pub ttl: Option<i32>,
}

impl Column {
    /// Creates a column with the family's default TTL.
    pub fn new(name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>, timestamp: i64) -> Column {
        Column { name: name.into(), value: value.into(), timestamp, ttl: None }
    }

    /// Returns this column with a TTL in seconds.
    pub fn ttl(self, seconds: i32) -> Column {
        Column { ttl: Some(seconds), ..self }
    }

    /// Creates a column from a decoded structure, in which value and timestamp may be missing.
    ///
    /// # Errors
    /// `InvalidRequest` if they are missing.
    pub fn from_parts(
        name: Vec<u8>,
        value: Option<Vec<u8>>,
        timestamp: Option<i64>,
        ttl: Option<i32>,
    ) -> Result<Column> {
        check_ttl(ttl)?;
        let value = value.ok_or_else(|| invalid("Column value is required"))?;
        let timestamp = timestamp.ok_or_else(|| invalid("Column timestamp is required"))?;
        Ok(Column { name, value, timestamp, ttl })
    }
}

/// Checks a TTL. 0 is valid: the column does not expire, whatever the family's default is.
pub(super) fn check_ttl(ttl: Option<i32>) -> Result<()> {
    match ttl {
        Some(..0) => Err(invalid("ttl must be greater or equal to 0")),
        Some(ttl) if ttl > MAX_TTL => {
            Err(invalid(format!("ttl is too large. requested ({ttl}) maximum ({MAX_TTL})")))
        }
        _ => Ok(()),
    }
}

/// A super column: a name and columns. It has no timestamp.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SuperColumn {
    /// Name, in the family's comparator type.
    pub name: Vec<u8>,
    /// Columns; in a result they are sorted by the family's subcomparator.
    pub columns: Vec<Column>,
}

impl SuperColumn {
    /// Creates a super column with these columns.
    pub fn new(name: impl Into<Vec<u8>>, columns: impl Into<Vec<Column>>) -> SuperColumn {
        SuperColumn { name: name.into(), columns: columns.into() }
    }
}

/// A counter, or an increment of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CounterColumn {
    /// Name of the counter.
    pub name: Vec<u8>,
    /// Value of a counter that was read, or increment to be written.
    pub value: i64,
}

impl CounterColumn {
    /// Creates a counter with this value or increment.
    pub fn new(name: impl Into<Vec<u8>>, value: i64) -> CounterColumn {
        CounterColumn { name: name.into(), value }
    }
}

/// A super column of counters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CounterSuperColumn {
    /// Name of the super column.
    pub name: Vec<u8>,
    /// Counters in it.
    pub columns: Vec<CounterColumn>,
}

/// A part of a row: a column, or a super column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ColumnOrSuperColumn {
    /// Column of a Standard family, or in a super column.
    Column(Column),
    /// Super column of a Super family.
    SuperColumn(SuperColumn),
    /// Counter of a Standard family of counters, or in a super column of counters.
    CounterColumn(CounterColumn),
    /// Super column of a Super family of counters.
    CounterSuperColumn(CounterSuperColumn),
}

impl ColumnOrSuperColumn {
    /// Creates it from a decoded structure with four members.
    ///
    /// # Errors
    /// `InvalidRequest` unless exactly one is set.
    pub fn from_parts(
        column: Option<Column>,
        super_column: Option<SuperColumn>,
        counter_column: Option<CounterColumn>,
        counter_super_column: Option<CounterSuperColumn>,
    ) -> Result<ColumnOrSuperColumn> {
        match (column, super_column, counter_column, counter_super_column) {
            (Some(c), None, None, None) => Ok(ColumnOrSuperColumn::Column(c)),
            (None, Some(c), None, None) => Ok(ColumnOrSuperColumn::SuperColumn(c)),
            (None, None, Some(c), None) => Ok(ColumnOrSuperColumn::CounterColumn(c)),
            (None, None, None, Some(c)) => Ok(ColumnOrSuperColumn::CounterSuperColumn(c)),
            _ => Err(invalid(
                "ColumnOrSuperColumn must have one (and only one) of column, super_column, counter and counter_super_column",
            )),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &[u8] {
        match self {
            ColumnOrSuperColumn::Column(c) => &c.name,
            ColumnOrSuperColumn::SuperColumn(c) => &c.name,
            ColumnOrSuperColumn::CounterColumn(c) => &c.name,
            ColumnOrSuperColumn::CounterSuperColumn(c) => &c.name,
        }
    }

    /// Returns the column, if it is one.
    pub fn column(&self) -> Option<&Column> {
        if let ColumnOrSuperColumn::Column(c) = self { Some(c) } else { None }
    }

    /// Returns the super column, if it is one.
    pub fn super_column(&self) -> Option<&SuperColumn> {
        if let ColumnOrSuperColumn::SuperColumn(c) = self { Some(c) } else { None }
    }

    /// Returns the counter, if it is one.
    pub fn counter_column(&self) -> Option<&CounterColumn> {
        if let ColumnOrSuperColumn::CounterColumn(c) = self { Some(c) } else { None }
    }

    /// Returns the super column of counters, if it is one.
    pub fn counter_super_column(&self) -> Option<&CounterSuperColumn> {
        if let ColumnOrSuperColumn::CounterSuperColumn(c) = self { Some(c) } else { None }
    }
}

macro_rules! from_columns {
    ($($of:ident),*) => {
        $(impl From<$of> for ColumnOrSuperColumn {
            fn from(column: $of) -> Self {
                ColumnOrSuperColumn::$of(column)
            }
        })*
    };
}

from_columns!(Column, SuperColumn, CounterColumn, CounterSuperColumn);

/// Location of columns or super columns in a row: the family itself, or one of its super columns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ColumnParent {
    /// Name of the family.
    pub column_family: String,
    /// Name of the super column, in a Super family.
    pub super_column: Option<Vec<u8>>,
}

impl ColumnParent {
    /// Creates the parent for the family itself.
    pub fn new(column_family: impl Into<String>) -> ColumnParent {
        ColumnParent { column_family: column_family.into(), super_column: None }
    }

    /// Returns the parent for this super column.
    pub fn super_column(self, name: impl Into<Vec<u8>>) -> ColumnParent {
        ColumnParent { super_column: Some(name.into()), ..self }
    }
}

/// Path of a column, of a super column, or (for removal) of a whole row of a family.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ColumnPath {
    /// Name of the family.
    pub column_family: String,
    /// Name of the super column, in a Super family.
    pub super_column: Option<Vec<u8>>,
    /// Name of the column.
    pub column: Option<Vec<u8>>,
}

impl ColumnPath {
    /// Creates the path of the family itself.
    pub fn new(column_family: impl Into<String>) -> ColumnPath {
        ColumnPath { column_family: column_family.into(), super_column: None, column: None }
    }

    /// Returns the path of this super column.
    pub fn super_column(self, name: impl Into<Vec<u8>>) -> ColumnPath {
        ColumnPath { super_column: Some(name.into()), ..self }
    }

    /// Returns the path of this column.
    pub fn column(self, name: impl Into<Vec<u8>>) -> ColumnPath {
        ColumnPath { column: Some(name.into()), ..self }
    }
}

/// Selects columns (or super columns) of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SlicePredicate {
    /// Columns with these names. They are returned in the family's order, each once.
    Names(Vec<Vec<u8>>),
    /// Columns in a range.
    Range(SliceRange),
}

impl SlicePredicate {
    /// Selects columns with these names.
    pub fn names<N: Into<Vec<u8>>>(names: impl IntoIterator<Item = N>) -> SlicePredicate {
        SlicePredicate::Names(names.into_iter().map(Into::into).collect())
    }

    /// Selects all columns.
    pub fn all() -> SlicePredicate {
        SliceRange { count: i32::MAX, ..SliceRange::default() }.into()
    }

    /// Creates it from a decoded structure with two members.
    ///
    /// # Errors
    /// `InvalidRequest` unless exactly one is set.
    pub fn from_parts(
        names: Option<Vec<Vec<u8>>>,
        range: Option<SliceRange>,
    ) -> Result<SlicePredicate> {
        match (names, range) {
            (Some(names), None) => Ok(SlicePredicate::Names(names)),
            (None, Some(range)) => Ok(SlicePredicate::Range(range)),
            (None, None) => {
                Err(invalid("predicate column_names and slice_range may not both be null"))
            }
            (Some(_), Some(_)) => {
                Err(invalid("predicate column_names and slice_range may not both be present"))
            }
        }
    }
}

impl From<SliceRange> for SlicePredicate {
    fn from(range: SliceRange) -> Self {
        SlicePredicate::Range(range)
    }
}

/// Members of a decoded predicate: names and range.
pub type PredicateParts = (Option<Vec<Vec<u8>>>, Option<SliceRange>);

/// A range of names with inclusive bounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SliceRange {
    /// First name; empty for no bound.
    pub start: Vec<u8>,
    /// Last name; empty for no bound.
    pub finish: Vec<u8>,
    /// Whether the row is read in reverse; then `start` is the larger name.
    pub reversed: bool,
    /// Maximum number of live columns (or super columns) to return; not negative.
    pub count: i32,
}

impl SliceRange {
    /// Returns its two names in the order of the family, each with whether it is the upper bound.
    pub(super) fn ascending(&self) -> [(&[u8], bool); 2] {
        match self.reversed {
            false => [(&self.start, false), (&self.finish, true)],
            true => [(&self.finish, false), (&self.start, true)],
        }
    }
}

impl Default for SliceRange {
    /// Returns the range of the first 100.
    fn default() -> SliceRange {
        SliceRange { start: vec![], finish: vec![], reversed: false, count: 100 }
    }
}

/// Selects rows.
///
/// ```
/// use firn_wide::{KeyBound, KeyRange};
/// let range = KeyRange::keys("a", "").count(10);
/// assert_eq!(range.start, KeyBound::Key(b"a".to_vec()));
/// assert_eq!(KeyRange::default().count, 100);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// Start of the range.
    pub start: KeyBound,
    /// End of the range.
    pub end: KeyBound,
    /// Maximum number of rows to return; positive.
    pub count: i32,
    /// Conditions that the returned rows must meet. They may refer to columns that are not
    /// returned.
    pub row_filter: Vec<IndexExpression>,
}

/// A bound of a [`KeyRange`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyBound {
    /// An inclusive key. Empty: no bound.
    Key(Vec<u8>),
    /// A token, in the partitioner's notation. A start token is exclusive, an end token inclusive.
    /// If the start token is not smaller than the end token, the range wraps around the ring.
    Token(String),
}

impl Default for KeyRange {
    /// Returns the range of the first 100 rows.
    fn default() -> KeyRange {
        KeyRange::keys("", "")
    }
}

impl KeyRange {
    /// Creates the range of the first 100 rows from `start` to `end`, both inclusive; empty is no
    /// bound.
    pub fn keys(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> KeyRange {
        KeyRange {
            start: KeyBound::Key(start.into()),
            end: KeyBound::Key(end.into()),
            count: 100,
            row_filter: vec![],
        }
    }

    /// Creates the range of the first 100 rows after token `start`, up to token `end`.
    pub fn tokens(start: impl Into<String>, end: impl Into<String>) -> KeyRange {
        KeyRange {
            start: KeyBound::Token(start.into()),
            end: KeyBound::Token(end.into()),
            count: 100,
            row_filter: vec![],
        }
    }

    /// Returns this range with a maximum number of rows.
    pub fn count(self, count: i32) -> KeyRange {
        KeyRange { count, ..self }
    }

    /// Returns this range with an additional condition.
    pub fn filter(mut self, expression: IndexExpression) -> KeyRange {
        self.row_filter.push(expression);
        self
    }

    /// Creates a range from the decoded members of the two bounds.
    ///
    /// # Errors
    /// `InvalidRequest` unless each bound is given in exactly one way.
    pub fn from_parts(
        start_key: Option<Vec<u8>>,
        end_key: Option<Vec<u8>>,
        start_token: Option<String>,
        end_token: Option<String>,
        count: i32,
        row_filter: Vec<IndexExpression>,
    ) -> Result<KeyRange> {
        let bound = |key: Option<Vec<u8>>, token: Option<String>| match (key, token) {
            (Some(key), None) => Ok(KeyBound::Key(key)),
            (None, Some(token)) => Ok(KeyBound::Token(token)),
            _ => Err(invalid(
                "exactly one each of {start key, start token} and {end key, end token} must be specified",
            )),
        };
        Ok(KeyRange {
            start: bound(start_key, start_token)?,
            end: bound(end_key, end_token)?,
            count,
            row_filter,
        })
    }
}

/// A row, or the requested part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeySlice {
    /// Key of the row.
    pub key: Vec<u8>,
    /// Requested columns that exist; none for a deleted row.
    pub columns: Vec<ColumnOrSuperColumn>,
}

/// Comparison with a column's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexOperator {
    /// Equal.
    Eq = 0,
    /// Greater or equal.
    Gte = 1,
    /// Greater.
    Gt = 2,
    /// Less or equal.
    Lte = 3,
    /// Less.
    Lt = 4,
}

impl IndexOperator {
    /// Returns the operator with this Thrift number.
    pub fn from_number(number: i32) -> Option<IndexOperator> {
        use IndexOperator::*;
        [Eq, Gte, Gt, Lte, Lt].into_iter().find(|&op| op as i32 == number)
    }

    /// Reports whether it holds for this order of the column's value and the expression's value.
    pub(super) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            IndexOperator::Eq => order.is_eq(),
            IndexOperator::Gte => order.is_ge(),
            IndexOperator::Gt => order.is_gt(),
            IndexOperator::Lte => order.is_le(),
            IndexOperator::Lt => order.is_lt(),
        }
    }
}

/// A condition on a row: the comparison of a column with a value, in the column's type. A row
/// without the column does not match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexExpression {
    /// Name of the column.
    pub column_name: Vec<u8>,
    /// Comparison operator.
    pub op: IndexOperator,
    /// Value to compare with; at most 65,535 bytes.
    pub value: Vec<u8>,
}

impl IndexExpression {
    /// Creates a comparison of the column with the value.
    pub fn new(
        column_name: impl Into<Vec<u8>>,
        op: IndexOperator,
        value: impl Into<Vec<u8>>,
    ) -> IndexExpression {
        IndexExpression { column_name: column_name.into(), op, value: value.into() }
    }
}

/// Selects rows by an index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexClause {
    /// Conditions that rows must meet. At least one must be an `Eq` on an indexed column.
    pub expressions: Vec<IndexExpression>,
    /// First key, in the order of the partitioner; empty for no bound.
    pub start_key: Vec<u8>,
    /// Maximum number of rows to return; not negative.
    pub count: i32,
}

impl IndexClause {
    /// Selects the first 100 rows that meet all of these.
    pub fn new(expressions: impl Into<Vec<IndexExpression>>) -> IndexClause {
        IndexClause { expressions: expressions.into(), start_key: vec![], count: 100 }
    }
}

/// A change of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// A write of a column or of the columns of a super column, or an increment of counters.
    Write(ColumnOrSuperColumn),
    /// A deletion.
    Delete(Deletion),
}

impl Mutation {
    /// Creates it from a decoded structure with two members.
    ///
    /// # Errors
    /// `InvalidRequest` unless exactly one is set.
    pub fn from_parts(
        write: Option<ColumnOrSuperColumn>,
        deletion: Option<Deletion>,
    ) -> Result<Mutation> {
        match (write, deletion) {
            (Some(write), None) => Ok(Mutation::Write(write)),
            (None, Some(deletion)) => Ok(Mutation::Delete(deletion)),
            _ => Err(invalid(
                "mutation must have one and only one of column_or_supercolumn or deletion",
            )),
        }
    }
}

impl<T: Into<ColumnOrSuperColumn>> From<T> for Mutation {
    fn from(write: T) -> Self {
        Mutation::Write(write.into())
    }
}

impl From<Deletion> for Mutation {
    fn from(deletion: Deletion) -> Self {
        Mutation::Delete(deletion)
    }
}

/// A deletion in a row of a family. It deletes everything written with a timestamp up to its own.
///
/// | `super_column` | `predicate` | deletes |
/// |---|---|---|
/// | none | none | the row |
/// | none | names | the columns, in a Super family the super columns, of these names |
/// | given | none | the super column |
/// | none | a range | the columns, in a Super family the super columns, with names in the range |
/// | given | names, a range | its columns of these names, or with names in the range |
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deletion {
    /// Timestamp; ignored in families of counters, required in others.
    pub timestamp: Option<i64>,
    /// Name of the super column.
    pub super_column: Option<Vec<u8>>,
    /// Deleted columns. The count of a range is ignored.
    pub predicate: Option<SlicePredicate>,
}

impl Deletion {
    /// Creates a deletion of the row.
    pub fn row(timestamp: i64) -> Deletion {
        Deletion { timestamp: Some(timestamp), ..Deletion::default() }
    }

    /// Creates a deletion of the columns (or super columns) with these names.
    pub fn names<N: Into<Vec<u8>>>(timestamp: i64, names: impl IntoIterator<Item = N>) -> Deletion {
        Deletion { predicate: Some(SlicePredicate::names(names)), ..Deletion::row(timestamp) }
    }

    /// Creates it from a decoded structure, in which the predicate has two members.
    ///
    /// # Errors
    /// `InvalidRequest` for a predicate with neither member. If it has both, the names are used.
    pub fn from_parts(
        timestamp: Option<i64>,
        super_column: Option<Vec<u8>>,
        predicate: Option<PredicateParts>,
    ) -> Result<Deletion> {
        let predicate = match predicate {
            None => None,
            Some((Some(names), _)) => Some(SlicePredicate::Names(names)),
            Some((None, Some(range))) => Some(SlicePredicate::Range(range)),
            Some((None, None)) => {
                return Err(invalid(
                    "A SlicePredicate must be given a list of Columns, a SliceRange, or both",
                ));
            }
        };
        Ok(Deletion { timestamp, super_column, predicate })
    }

    /// Returns this deletion in this super column.
    pub fn super_column(self, name: impl Into<Vec<u8>>) -> Deletion {
        Deletion { super_column: Some(name.into()), ..self }
    }
}

/// Changes of one row in one family, as a part of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowMutation {
    /// Key of the row.
    pub key: Vec<u8>,
    /// Name of the family.
    pub column_family: String,
    /// Changes. Their order does not matter: timestamps do, and at equal ones deletions win.
    pub mutations: Vec<Mutation>,
}

impl RowMutation {
    /// Creates the mutation of a row with these changes.
    pub fn new<M: Into<Mutation>>(
        key: impl Into<Vec<u8>>,
        column_family: impl Into<String>,
        mutations: impl IntoIterator<Item = M>,
    ) -> RowMutation {
        let mutations = mutations.into_iter().map(Into::into).collect();
        RowMutation { key: key.into(), column_family: column_family.into(), mutations }
    }
}

/// A part of the ring, with its owners.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TokenRange {
    /// Token after which the part begins.
    pub start_token: String,
    /// Token with which it ends. If it equals the start token, the part is the whole ring.
    pub end_token: String,
    /// Addresses of the owners.
    pub endpoints: Vec<String>,
}
