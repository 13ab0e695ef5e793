//! The structures of the operations, as Thrift's interface 19 names them (model 2.6), as plain
//! data.
//!
//! What Thrift can say but nobody can mean, such as a mutation that is both a write and a deletion,
//! has no value here. Who decodes a wire format builds these by the `from_parts` functions, which
//! refuse such things with the texts of the article's servers.

use crate::base::error::{Result, invalid};
pub use crate::schema::MAX_TTL;

/// The smallest increment of data: a name, a value and the timestamp that its writer gave.
///
/// ```
/// use firn_wide::Column;
/// let email = Column::new("emailAddress", "arin@example.com", 123456789);
/// assert_eq!(email.value, b"arin@example.com");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// The name, in the family's type of names: 1 to 65,535 bytes.
    pub name: Vec<u8>,
    /// The value, in the column's type of values.
    pub value: Vec<u8>,
    /// Microseconds since 1970 by convention. The larger one wins.
    pub timestamp: i64,
    /// How many seconds it lives, at most 630,720,000; 0 is for ever. `None` is what the family has
    /// by default, which is for ever where nothing else was defined. Of a column that was read,
    /// `None` is for ever.
    pub ttl: Option<i32>,
}

impl Column {
    /// One that lives as long as the family's columns do by default.
    pub fn new(name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>, timestamp: i64) -> Column {
        Column { name: name.into(), value: value.into(), timestamp, ttl: None }
    }

    /// The same, living for this many seconds.
    pub fn ttl(self, seconds: i32) -> Column {
        Column { ttl: Some(seconds), ..self }
    }

    /// From a decoded structure, where value and timestamp may be missing.
    ///
    /// # Errors
    /// `InvalidRequest` when they are.
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

/// Refuses a number that is no time to live. 0 is one: the column lives for ever, whatever the
/// family's default.
pub(super) fn check_ttl(ttl: Option<i32>) -> Result<()> {
    match ttl {
        Some(..0) => Err(invalid("ttl must be greater or equal to 0")),
        Some(ttl) if ttl > MAX_TTL => {
            Err(invalid(format!("ttl is too large. requested ({ttl}) maximum ({MAX_TTL})")))
        }
        _ => Ok(()),
    }
}

/// A name and columns. It has no timestamp of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SuperColumn {
    /// The name, in the family's type of names.
    pub name: Vec<u8>,
    /// Its columns, sorted by the family's type of names within super columns when it was read.
    pub columns: Vec<Column>,
}

impl SuperColumn {
    /// One with these columns.
    pub fn new(name: impl Into<Vec<u8>>, columns: impl Into<Vec<Column>>) -> SuperColumn {
        SuperColumn { name: name.into(), columns: columns.into() }
    }
}

/// A counter, or what is to be added to one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CounterColumn {
    /// The name.
    pub name: Vec<u8>,
    /// The sum that was read, or the increment that is to be written.
    pub value: i64,
}

impl CounterColumn {
    /// This counter, with this sum or increment.
    pub fn new(name: impl Into<Vec<u8>>, value: i64) -> CounterColumn {
        CounterColumn { name: name.into(), value }
    }
}

/// A name and counters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CounterSuperColumn {
    /// The name.
    pub name: Vec<u8>,
    /// Its columns.
    pub columns: Vec<CounterColumn>,
}

/// A part of a row: a column, or a super column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ColumnOrSuperColumn {
    /// Of a Standard family, or within a super column.
    Column(Column),
    /// Of a Super family.
    SuperColumn(SuperColumn),
    /// Of a Standard family of counters, or within a super column of counters.
    CounterColumn(CounterColumn),
    /// Of a Super family of counters.
    CounterSuperColumn(CounterSuperColumn),
}

impl ColumnOrSuperColumn {
    /// From a decoded structure with four members.
    ///
    /// # Errors
    /// `InvalidRequest` unless one and only one is there.
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

    /// Its name.
    pub fn name(&self) -> &[u8] {
        match self {
            ColumnOrSuperColumn::Column(c) => &c.name,
            ColumnOrSuperColumn::SuperColumn(c) => &c.name,
            ColumnOrSuperColumn::CounterColumn(c) => &c.name,
            ColumnOrSuperColumn::CounterSuperColumn(c) => &c.name,
        }
    }

    /// The column, if it is one.
    pub fn column(&self) -> Option<&Column> {
        if let ColumnOrSuperColumn::Column(c) = self { Some(c) } else { None }
    }

    /// The super column, if it is one.
    pub fn super_column(&self) -> Option<&SuperColumn> {
        if let ColumnOrSuperColumn::SuperColumn(c) = self { Some(c) } else { None }
    }

    /// The counter, if it is one.
    pub fn counter_column(&self) -> Option<&CounterColumn> {
        if let ColumnOrSuperColumn::CounterColumn(c) = self { Some(c) } else { None }
    }

    /// The super column of counters, if it is one.
    pub fn counter_super_column(&self) -> Option<&CounterSuperColumn> {
        if let ColumnOrSuperColumn::CounterSuperColumn(c) = self { Some(c) } else { None }
    }
}

impl From<Column> for ColumnOrSuperColumn {
    fn from(c: Column) -> Self {
        ColumnOrSuperColumn::Column(c)
    }
}

impl From<SuperColumn> for ColumnOrSuperColumn {
    fn from(c: SuperColumn) -> Self {
        ColumnOrSuperColumn::SuperColumn(c)
    }
}

impl From<CounterColumn> for ColumnOrSuperColumn {
    fn from(c: CounterColumn) -> Self {
        ColumnOrSuperColumn::CounterColumn(c)
    }
}

impl From<CounterSuperColumn> for ColumnOrSuperColumn {
    fn from(c: CounterSuperColumn) -> Self {
        ColumnOrSuperColumn::CounterSuperColumn(c)
    }
}

/// Where columns or super columns lie in a row: in the family itself, or in one of its super
/// columns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ColumnParent {
    /// The family.
    pub column_family: String,
    /// The super column, in a Super family.
    pub super_column: Option<Vec<u8>>,
}

impl ColumnParent {
    /// The family itself.
    pub fn new(column_family: impl Into<String>) -> ColumnParent {
        ColumnParent { column_family: column_family.into(), super_column: None }
    }

    /// This super column of it.
    pub fn super_column(self, name: impl Into<Vec<u8>>) -> ColumnParent {
        ColumnParent { super_column: Some(name.into()), ..self }
    }
}

/// Where one column, one super column or (to remove it) a whole row of a family lies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ColumnPath {
    /// The family.
    pub column_family: String,
    /// The super column, in a Super family.
    pub super_column: Option<Vec<u8>>,
    /// The column.
    pub column: Option<Vec<u8>>,
}

impl ColumnPath {
    /// The family itself.
    pub fn new(column_family: impl Into<String>) -> ColumnPath {
        ColumnPath { column_family: column_family.into(), super_column: None, column: None }
    }

    /// This super column of it.
    pub fn super_column(self, name: impl Into<Vec<u8>>) -> ColumnPath {
        ColumnPath { super_column: Some(name.into()), ..self }
    }

    /// This column of it.
    pub fn column(self, name: impl Into<Vec<u8>>) -> ColumnPath {
        ColumnPath { column: Some(name.into()), ..self }
    }
}

/// Which columns (or super columns) of a row are meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SlicePredicate {
    /// Those with these names. They come in the family's order, each once.
    Names(Vec<Vec<u8>>),
    /// Those of a range.
    Range(SliceRange),
}

impl SlicePredicate {
    /// Those with these names.
    pub fn names<N: Into<Vec<u8>>>(names: impl IntoIterator<Item = N>) -> SlicePredicate {
        SlicePredicate::Names(names.into_iter().map(Into::into).collect())
    }

    /// All of them.
    pub fn all() -> SlicePredicate {
        SliceRange { count: i32::MAX, ..SliceRange::default() }.into()
    }

    /// From a decoded structure with two members.
    ///
    /// # Errors
    /// `InvalidRequest` unless one and only one is there.
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

/// The members of a decoded predicate: names and range.
pub type PredicateParts = (Option<Vec<Vec<u8>>>, Option<SliceRange>);

/// A range of names, both ends in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SliceRange {
    /// The name to begin with; empty begins at the end of the row that is met first.
    pub start: Vec<u8>,
    /// The name to end with; empty ends at the other end of the row.
    pub finish: Vec<u8>,
    /// Whether the row is read from its last name; `start` is the larger name then.
    pub reversed: bool,
    /// How many live columns (or super columns) to return at most; not negative.
    pub count: i32,
}

impl SliceRange {
    /// Its two names in the order of the family, each with whether it is the second one.
    pub(super) fn ascending(&self) -> [(&[u8], bool); 2] {
        match self.reversed {
            false => [(&self.start, false), (&self.finish, true)],
            true => [(&self.finish, false), (&self.start, true)],
        }
    }
}

impl Default for SliceRange {
    /// The first 100.
    fn default() -> SliceRange {
        SliceRange { start: vec![], finish: vec![], reversed: false, count: 100 }
    }
}

/// Which rows are meant.
///
/// ```
/// use firn_wide::{KeyBound, KeyRange};
/// let range = KeyRange::keys("a", "").count(10);
/// assert_eq!(range.start, KeyBound::Key(b"a".to_vec()));
/// assert_eq!(KeyRange::default().count, 100);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// Where it begins.
    pub start: KeyBound,
    /// Where it ends.
    pub end: KeyBound,
    /// How many rows to return at most; positive.
    pub count: i32,
    /// Only rows for which all of these hold. Columns are looked at whether they are asked for or
    /// not.
    pub row_filter: Vec<IndexExpression>,
}

/// An end of a [`KeyRange`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyBound {
    /// This key, which is in the range. Empty: no bound.
    Key(Vec<u8>),
    /// A token, in the partitioner's notation. One that begins a range isn't in it, one that ends a
    /// range is; a range between tokens of which the first is not smaller goes round the ring.
    Token(String),
}

impl Default for KeyRange {
    /// The first 100 rows.
    fn default() -> KeyRange {
        KeyRange::keys("", "")
    }
}

impl KeyRange {
    /// The first 100 rows from `start` to `end`, both in it; empty is no bound.
    pub fn keys(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> KeyRange {
        KeyRange {
            start: KeyBound::Key(start.into()),
            end: KeyBound::Key(end.into()),
            count: 100,
            row_filter: vec![],
        }
    }

    /// The first 100 rows after token `start`, up to token `end`.
    pub fn tokens(start: impl Into<String>, end: impl Into<String>) -> KeyRange {
        KeyRange {
            start: KeyBound::Token(start.into()),
            end: KeyBound::Token(end.into()),
            count: 100,
            row_filter: vec![],
        }
    }

    /// The same, with at most this many rows.
    pub fn count(self, count: i32) -> KeyRange {
        KeyRange { count, ..self }
    }

    /// The same, with only those rows for which this holds too.
    pub fn filter(mut self, expression: IndexExpression) -> KeyRange {
        self.row_filter.push(expression);
        self
    }

    /// From the decoded members for the two ends.
    ///
    /// # Errors
    /// `InvalidRequest` unless each end is given in one and only one way.
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

/// A row, or as much of it as was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeySlice {
    /// The row's key.
    pub key: Vec<u8>,
    /// The columns that were asked for and exist; none of a deleted row.
    pub columns: Vec<ColumnOrSuperColumn>,
}

/// How a column's value is compared.
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
    /// By Thrift's number.
    pub fn from_number(number: i32) -> Option<IndexOperator> {
        use IndexOperator::*;
        [Eq, Gte, Gt, Lte, Lt].into_iter().find(|&op| op as i32 == number)
    }

    /// Whether it holds when the column's value stands in this order to the expression's.
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

/// A condition on a row: its column compared with a value, in the type of the column's values.
/// A row without the column doesn't match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexExpression {
    /// The column.
    pub column_name: Vec<u8>,
    /// How.
    pub op: IndexOperator,
    /// With what; at most 65,535 bytes.
    pub value: Vec<u8>,
}

impl IndexExpression {
    /// The column compared with the value.
    pub fn new(
        column_name: impl Into<Vec<u8>>,
        op: IndexOperator,
        value: impl Into<Vec<u8>>,
    ) -> IndexExpression {
        IndexExpression { column_name: column_name.into(), op, value: value.into() }
    }
}

/// Which rows are meant, found by an index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexClause {
    /// All of these are to hold. At least one is an `Eq` on an indexed column.
    pub expressions: Vec<IndexExpression>,
    /// The first row, in the order of the partitioner; empty for the first of all.
    pub start_key: Vec<u8>,
    /// How many rows to return at most; not negative.
    pub count: i32,
}

impl IndexClause {
    /// The first 100 rows for which all of these hold.
    pub fn new(expressions: impl Into<Vec<IndexExpression>>) -> IndexClause {
        IndexClause { expressions: expressions.into(), start_key: vec![], count: 100 }
    }
}

/// One change of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// Writes a column or the columns of a super column, or adds to counters.
    Write(ColumnOrSuperColumn),
    /// Deletes.
    Delete(Deletion),
}

impl Mutation {
    /// From a decoded structure with two members.
    ///
    /// # Errors
    /// `InvalidRequest` unless one and only one is there.
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

/// A deletion in a row of one family: everything written with a timestamp up to this one.
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
    /// The timestamp; families of counters, which have none, ignore it, others need it.
    pub timestamp: Option<i64>,
    /// The super column.
    pub super_column: Option<Vec<u8>>,
    /// Which columns. The count of a range does not matter.
    pub predicate: Option<SlicePredicate>,
}

impl Deletion {
    /// Of the row.
    pub fn row(timestamp: i64) -> Deletion {
        Deletion { timestamp: Some(timestamp), ..Deletion::default() }
    }

    /// Of the columns (super columns) with these names.
    pub fn names<N: Into<Vec<u8>>>(timestamp: i64, names: impl IntoIterator<Item = N>) -> Deletion {
        Deletion { predicate: Some(SlicePredicate::names(names)), ..Deletion::row(timestamp) }
    }

    /// From a decoded structure, in which the predicate has two members.
    ///
    /// # Errors
    /// `InvalidRequest` for a predicate that has neither. Of one that has both, the names count.
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

    /// The same, within this super column.
    pub fn super_column(self, name: impl Into<Vec<u8>>) -> Deletion {
        Deletion { super_column: Some(name.into()), ..self }
    }
}

/// The changes of one row in one family, as part of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowMutation {
    /// The row's key.
    pub key: Vec<u8>,
    /// The family.
    pub column_family: String,
    /// The changes. Their order doesn't matter: timestamps do, and at equal ones deletions win.
    pub mutations: Vec<Mutation>,
}

impl RowMutation {
    /// These changes of this row.
    pub fn new<M: Into<Mutation>>(
        key: impl Into<Vec<u8>>,
        column_family: impl Into<String>,
        mutations: impl IntoIterator<Item = M>,
    ) -> RowMutation {
        let mutations = mutations.into_iter().map(Into::into).collect();
        RowMutation { key: key.into(), column_family: column_family.into(), mutations }
    }
}

/// A part of the ring and who has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenRange {
    /// The part begins after this token.
    pub start_token: String,
    /// It ends with this one. The same as the start: the whole ring.
    pub end_token: String,
    /// Who has it.
    pub endpoints: Vec<String>,
}
