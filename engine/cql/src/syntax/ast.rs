//! The syntax tree: what a statement says, before anything is looked up.
//!
//! A tree borrows from the text wherever the text has it as it is. Positions are kept where the analysis will want to point at
//! something, and are ignored by `==`. Every node's `Display` is CQL that parses to an equal node ([`super::printer`]); that holds for
//! the trees the parser makes, not for any tree: CQL has no parentheses in terms, for example, so a product of sums cannot be written.

use std::borrow::Cow;
use std::fmt;

/// An offset in the text, in bytes. All positions are equal, so that trees can be compared without them.
#[derive(Clone, Copy, Default)]
pub struct Pos(pub u32);

impl PartialEq for Pos {
    fn eq(&self, _: &Pos) -> bool {
        true
    }
}

impl Eq for Pos {}

impl fmt::Debug for Pos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// A name, as it is looked up: in lower case unless it was quoted.
#[derive(Clone, PartialEq, Eq)]
pub struct Name<'a> {
    /// The name, without quotes. Empty only where a column is referred to as `""`.
    pub text: Cow<'a, str>,
    /// Where it stands.
    pub at: Pos,
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A name of something in a keyspace, which may be left out.
#[derive(Clone, PartialEq, Eq)]
pub struct QualifiedName<'a> {
    /// The keyspace before the dot.
    pub keyspace: Option<Name<'a>>,
    /// The name itself.
    pub name: Name<'a>,
}

impl fmt::Debug for QualifiedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Statement<'a> {
    /// `USE keyspace`
    Use(Name<'a>),
    CreateKeyspace(CreateKeyspace<'a>),
    AlterKeyspace(AlterKeyspace<'a>),
    DropKeyspace(Drop<Name<'a>>),
    CreateTable(CreateTable<'a>),
    AlterTable(AlterTable<'a>),
    DropTable(Drop<QualifiedName<'a>>),
    /// `TRUNCATE table`
    Truncate(QualifiedName<'a>),
    CreateIndex(CreateIndex<'a>),
    DropIndex(Drop<QualifiedName<'a>>),
    CreateType(CreateType<'a>),
    AlterType(AlterType<'a>),
    DropType(Drop<QualifiedName<'a>>),
    Describe(Describe<'a>),
    Change(Change<'a>),
    Batch(Batch<'a>),
    Select(Select<'a>),
}

// Definitions

/// `CREATE KEYSPACE [IF NOT EXISTS] name WITH …`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CreateKeyspace<'a> {
    pub if_not_exists: bool,
    pub name: Name<'a>,
    /// `replication` and `durable_writes`, none twice.
    pub properties: Vec<Property<'a>>,
}

/// `ALTER KEYSPACE [IF EXISTS] name WITH …`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AlterKeyspace<'a> {
    pub if_exists: bool,
    pub name: Name<'a>,
    pub properties: Vec<Property<'a>>,
}

/// `DROP … [IF EXISTS] name`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Drop<N> {
    pub if_exists: bool,
    pub name: N,
}

/// `name = value` after `WITH`. The names are known ones, and those of maps have maps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Property<'a> {
    pub name: Name<'a>,
    pub value: PropertyValue<'a>,
}

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue<'a> {
    /// A constant.
    Constant(Constant<'a>),
    /// An unreserved keyword, in lower case.
    Word(Cow<'a, str>),
    /// `{'key': value, …}`
    Map(Vec<(Constant<'a>, Constant<'a>)>),
}

/// `CREATE TABLE [IF NOT EXISTS] name (…) [WITH …]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CreateTable<'a> {
    pub if_not_exists: bool,
    pub name: QualifiedName<'a>,
    pub columns: Vec<ColumnDefinition<'a>>,
    /// The `PRIMARY KEY (…)` clauses. With those at columns there must be one in all, which the analysis sees to.
    pub primary_keys: Vec<PrimaryKey<'a>>,
    pub properties: Vec<Property<'a>>,
    /// `COMPACT STORAGE`
    pub compact_storage: bool,
    /// `CLUSTERING ORDER BY (…)`, all of them if there are several.
    pub clustering_order: Vec<Ordering<'a>>,
}

/// `name type [STATIC] [PRIMARY KEY]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ColumnDefinition<'a> {
    pub name: Name<'a>,
    pub of: Type<'a>,
    pub is_static: bool,
    pub primary_key: bool,
}

/// `PRIMARY KEY (partition, clustering…)`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PrimaryKey<'a> {
    pub at: Pos,
    /// At least one.
    pub partition: Vec<Name<'a>>,
    pub clustering: Vec<Name<'a>>,
}

/// `column [ASC | DESC]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Ordering<'a> {
    pub column: Name<'a>,
    pub descending: bool,
}

/// `ALTER TABLE [IF EXISTS] name …`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AlterTable<'a> {
    pub if_exists: bool,
    pub name: QualifiedName<'a>,
    pub change: TableChange<'a>,
}

/// What `ALTER TABLE` does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TableChange<'a> {
    /// `ADD [IF NOT EXISTS] name type [STATIC]` or several in parentheses; none is a `PRIMARY KEY`.
    Add { if_not_exists: bool, columns: Vec<ColumnDefinition<'a>> },
    /// `DROP [IF EXISTS] name [USING TIMESTAMP n]` or several in parentheses; the timestamp is an integer.
    Drop { if_exists: bool, columns: Vec<Name<'a>>, timestamp: Option<Constant<'a>> },
    /// `RENAME [IF EXISTS] a TO b AND …`
    Rename { if_exists: bool, pairs: Vec<(Name<'a>, Name<'a>)> },
    /// `ALTER name TYPE type`, which is always refused later.
    Retype { column: Name<'a>, of: Type<'a> },
    /// `WITH …`
    With(Vec<Property<'a>>),
}

/// `CREATE [CUSTOM] INDEX [IF NOT EXISTS] [name] ON table (…) [USING 'class'] [WITH OPTIONS = {…}]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CreateIndex<'a> {
    pub custom: bool,
    pub if_not_exists: bool,
    pub name: Option<Name<'a>>,
    pub table: QualifiedName<'a>,
    /// At least one.
    pub targets: Vec<IndexTarget<'a>>,
    pub class: Option<Cow<'a, str>>,
    pub properties: Vec<Property<'a>>,
}

/// A column, and what of it is indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct IndexTarget<'a> {
    pub part: IndexPart,
    pub column: Name<'a>,
}

/// What of a column is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPart {
    /// `c`: the value, or the values of a collection.
    Simple,
    /// `KEYS(c)`
    Keys,
    /// `VALUES(c)`
    Values,
    /// `ENTRIES(c)`
    Entries,
    /// `FULL(c)`
    Full,
}

/// `CREATE TYPE [IF NOT EXISTS] name (field type, …)`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CreateType<'a> {
    pub if_not_exists: bool,
    pub name: QualifiedName<'a>,
    /// At least one.
    pub fields: Vec<(Name<'a>, Type<'a>)>,
}

/// `ALTER TYPE [IF EXISTS] name …`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AlterType<'a> {
    pub if_exists: bool,
    pub name: QualifiedName<'a>,
    pub change: TypeChange<'a>,
}

/// What `ALTER TYPE` does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TypeChange<'a> {
    /// `ADD [IF NOT EXISTS] field type`
    Add { if_not_exists: bool, field: Name<'a>, of: Type<'a> },
    /// `RENAME [IF EXISTS] a TO b AND …`
    Rename { if_exists: bool, pairs: Vec<(Name<'a>, Name<'a>)> },
    /// `ALTER field TYPE type`, which is always refused later.
    Retype { field: Name<'a>, of: Type<'a> },
}

/// `DESCRIBE … [WITH INTERNALS]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Describe<'a> {
    pub what: Described<'a>,
    pub with_internals: bool,
}

/// What is described.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Described<'a> {
    Cluster,
    /// `[FULL] SCHEMA`
    Schema {
        full: bool,
    },
    Keyspaces,
    /// `[ONLY] KEYSPACE [name]`; without a name the one in use.
    Keyspace {
        only: bool,
        name: Option<Name<'a>>,
    },
    Tables,
    Table(QualifiedName<'a>),
    Index(QualifiedName<'a>),
    /// `MATERIALIZED VIEW name`
    View(QualifiedName<'a>),
    Types,
    Type(QualifiedName<'a>),
    Functions,
    Function(QualifiedName<'a>),
    Aggregates,
    Aggregate(QualifiedName<'a>),
    /// A bare name: a keyspace, table or index, whichever there is.
    Any(QualifiedName<'a>),
}

/// A type, as it is written.
#[derive(Clone, PartialEq, Eq)]
pub struct Type<'a> {
    /// Where it stands.
    pub at: Pos,
    /// Which one.
    pub kind: TypeKind<'a>,
}

impl fmt::Debug for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The kinds of types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind<'a> {
    /// A native type.
    Native(Native),
    /// `map<key, value>`
    Map(Box<(Type<'a>, Type<'a>)>),
    /// `set<element>`
    Set(Box<Type<'a>>),
    /// `list<element>`
    List(Box<Type<'a>>),
    /// `frozen<type>`
    Frozen(Box<Type<'a>>),
    /// `tuple<type, …>`, at least one.
    Tuple(Vec<Type<'a>>),
    /// `vector<element, dimension>`
    Vector(Box<Type<'a>>, u32),
    /// `'class name'`
    Custom(Cow<'a, str>),
    /// A user-defined type.
    User(Box<QualifiedName<'a>>),
}

/// A native type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Native {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    SmallInt,
    Text,
    Time,
    Timestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    VarChar,
    VarInt,
}

// Terms

/// A value in a statement.
#[derive(Clone, PartialEq, Eq)]
pub struct Term<'a> {
    /// Where it begins.
    pub at: Pos,
    /// What it is.
    pub kind: TermKind<'a>,
}

impl fmt::Debug for Term<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

/// The kinds of terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermKind<'a> {
    /// `NULL`
    Null,
    /// A constant.
    Constant(Constant<'a>),
    /// `?` or `:name`
    Marker(Marker<'a>),
    /// `[a, b]`
    List(Vec<Term<'a>>),
    /// `{a, b}`; `{}` also means an empty map where a map is wanted.
    Set(Vec<Term<'a>>),
    /// `{a: b, c: d}`, at least one.
    Map(Vec<(Term<'a>, Term<'a>)>),
    /// `{field: a, other: b}`, at least one.
    User(Vec<(Name<'a>, Term<'a>)>),
    /// `(a, b)`, at least one.
    Tuple(Vec<Term<'a>>),
    /// `function(a, b)`
    Call(Box<Call<'a, Term<'a>>>),
    /// `(type) a`: no conversion, only a word about which type is meant.
    Hint(Box<(Type<'a>, Term<'a>)>),
    /// `CAST(a AS type)`
    Cast(Box<Term<'a>>, Native),
    /// `- a`
    Negate(Box<Term<'a>>),
    /// `a + b`
    Binary(Box<Binary<Term<'a>>>),
}

/// A constant, unread: its text is what the messages quote, and which type it can be the analysis decides.
#[derive(Clone, PartialEq, Eq)]
pub struct Constant<'a> {
    /// The kind of token.
    pub kind: ConstantKind,
    /// The text; of a string without quotes, `NaN` and `Infinity` in this spelling.
    pub text: Cow<'a, str>,
}

impl fmt::Debug for Constant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.kind.word())
    }
}

/// The kinds of constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ConstantKind {
    String,
    Integer,
    Float,
    Boolean,
    Duration,
    Uuid,
    Hex,
}

impl ConstantKind {
    /// The word for it in messages: `Invalid INTEGER constant (5) for …`.
    pub fn word(self) -> &'static str {
        match self {
            ConstantKind::String => "STRING",
            ConstantKind::Integer => "INTEGER",
            ConstantKind::Float => "FLOAT",
            ConstantKind::Boolean => "BOOLEAN",
            ConstantKind::Duration => "DURATION",
            ConstantKind::Uuid => "UUID",
            ConstantKind::Hex => "HEX",
        }
    }
}

/// A bind marker.
#[derive(Clone, PartialEq, Eq)]
pub struct Marker<'a> {
    /// Its number, from 0, in the order of the text.
    pub index: u16,
    /// `name` of `:name`; nothing for `?`.
    pub name: Option<Cow<'a, str>>,
}

impl fmt::Debug for Marker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.index)
    }
}

/// A call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Call<'a, T> {
    pub function: QualifiedName<'a>,
    pub arguments: Vec<T>,
}

/// `left operator right`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Binary<T> {
    pub operator: Operator,
    pub left: T,
    pub right: T,
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Operator {
    /// Its sign.
    pub fn sign(self) -> char {
        match self {
            Operator::Add => '+',
            Operator::Subtract => '-',
            Operator::Multiply => '*',
            Operator::Divide => '/',
            Operator::Modulo => '%',
        }
    }
}

// Changes

/// A statement that changes rows, also within a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Change<'a> {
    Insert(Insert<'a>),
    Update(Update<'a>),
    Delete(Delete<'a>),
}

/// `INSERT INTO table … [IF NOT EXISTS] [USING …]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Insert<'a> {
    pub table: QualifiedName<'a>,
    pub what: Inserted<'a>,
    pub if_not_exists: bool,
    pub using: Using<'a>,
}

/// What is inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Inserted<'a> {
    /// `(column, …) VALUES (term, …)`, at least one of each, not necessarily as many.
    Values { columns: Vec<Name<'a>>, values: Vec<Term<'a>> },
    /// `JSON '…' [DEFAULT NULL | UNSET]`; the value is a string constant or a marker.
    Json { value: Term<'a>, default_unset: bool },
}

/// `USING TIMESTAMP n AND TTL n`; both are an integer constant or a marker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Using<'a> {
    pub timestamp: Option<Term<'a>>,
    pub ttl: Option<Term<'a>>,
}

/// `UPDATE table [USING …] SET … WHERE … [IF …]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Update<'a> {
    pub table: QualifiedName<'a>,
    pub using: Using<'a>,
    /// At least one; of a column that is set as a whole there is no other.
    pub assignments: Vec<Assignment<'a>>,
    pub relations: Vec<Relation<'a>>,
    pub guard: Guard<'a>,
}

/// What is done to a column.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Assignment<'a> {
    pub column: Name<'a>,
    pub operation: Assign<'a>,
}

/// The ways to change a column.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Assign<'a> {
    /// `c = term`
    Set(Term<'a>),
    /// `c = c + term`, `c += term`, and `c = c -3` with the integer -3.
    Append(Term<'a>),
    /// `c = c - term`, `c -= term`
    Remove(Term<'a>),
    /// `c = term + c`
    Prepend(Term<'a>),
    /// `c[key] = term`
    Element { key: Term<'a>, value: Term<'a> },
    /// `c.field = term`
    Field { field: Name<'a>, value: Term<'a> },
}

/// `DELETE [what, …] FROM table [USING TIMESTAMP n] WHERE … [IF …]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Delete<'a> {
    /// Nothing: rows.
    pub targets: Vec<Target<'a>>,
    pub table: QualifiedName<'a>,
    /// An integer constant or a marker.
    pub timestamp: Option<Term<'a>>,
    pub relations: Vec<Relation<'a>>,
    pub guard: Guard<'a>,
}

/// A column or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Target<'a> {
    pub column: Name<'a>,
    pub part: Part<'a>,
}

/// Which part of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// All of it.
    Whole,
    /// `[key]`
    Element(Term<'a>),
    /// `.field`
    Field(Name<'a>),
}

/// Under what condition a change happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard<'a> {
    /// Always.
    None,
    /// `IF EXISTS`
    Exists,
    /// `IF condition AND …`, at least one.
    Conditions(Vec<Condition<'a>>),
}

/// A condition on a column or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Condition<'a> {
    pub target: Target<'a>,
    pub test: Test<'a>,
}

/// What is asked of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Test<'a> {
    /// `= term` and the like
    Compare(Comparison, Term<'a>),
    /// `IN (…)`, `IN ?`
    In(Values<'a>),
    /// `CONTAINS term`, only of a whole column
    Contains(Term<'a>),
    /// `CONTAINS KEY term`, only of a whole column
    ContainsKey(Term<'a>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Comparison {
    /// Its sign.
    pub fn sign(self) -> &'static str {
        match self {
            Comparison::Eq => "=",
            Comparison::Ne => "!=",
            Comparison::Lt => "<",
            Comparison::Le => "<=",
            Comparison::Gt => ">",
            Comparison::Ge => ">=",
        }
    }
}

/// What `IN` is asked of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values<'a> {
    /// `(term, …)`, perhaps none.
    List(Vec<Term<'a>>),
    /// `?`: all of them bound as one list.
    Marker(Term<'a>),
}

/// `BEGIN [UNLOGGED | COUNTER] BATCH [USING …] … APPLY BATCH`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Batch<'a> {
    pub kind: BatchKind,
    /// A time to live is syntax, though it is always refused later.
    pub using: Using<'a>,
    pub changes: Vec<Change<'a>>,
}

/// The kinds of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}

// Queries

/// `SELECT …`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Select<'a> {
    pub json: bool,
    pub distinct: bool,
    /// Nothing: `*`.
    pub selection: Vec<Selected<'a>>,
    pub table: QualifiedName<'a>,
    pub relations: Vec<Relation<'a>>,
    pub group_by: Vec<Selector<'a>>,
    pub order_by: Vec<Ordering<'a>>,
    /// An integer constant or a marker.
    pub per_partition_limit: Option<Term<'a>>,
    /// An integer constant or a marker.
    pub limit: Option<Term<'a>>,
    pub allow_filtering: bool,
}

/// `selector [AS alias]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Selected<'a> {
    pub selector: Selector<'a>,
    pub alias: Option<Name<'a>>,
}

/// What is made of a row.
#[derive(Clone, PartialEq, Eq)]
pub struct Selector<'a> {
    /// Where it begins.
    pub at: Pos,
    /// What it is.
    pub kind: SelectorKind<'a>,
}

impl fmt::Debug for Selector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

/// The kinds of selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorKind<'a> {
    /// A column.
    Column(Name<'a>),
    /// A constant, `NULL` or a marker.
    Term(Term<'a>),
    /// `count(*)`
    CountRows,
    /// `writetime(c)` and the like
    About(About, Name<'a>),
    /// `function(a, b)`
    Call(Box<Call<'a, Selector<'a>>>),
    /// `CAST(a AS type)`
    Cast(Box<Selector<'a>>, Native),
    /// `a.field`
    Field(Box<(Selector<'a>, Name<'a>)>),
    /// `a[key]`
    Element(Box<(Selector<'a>, Term<'a>)>),
    /// `a[from..to]`, at least one of the two.
    Slice(Box<(Selector<'a>, Option<Term<'a>>, Option<Term<'a>>)>),
    /// `(type) a`
    Hint(Box<(Type<'a>, Selector<'a>)>),
    /// `[a, b]`
    List(Vec<Selector<'a>>),
    /// `{a, b}`
    Set(Vec<Selector<'a>>),
    /// `{a: b}`, at least one. Whether a key that is a name is a column or a field of a user-defined type the analysis decides.
    Map(Vec<(Selector<'a>, Selector<'a>)>),
    /// `(a, b)`; with one only, parentheses or a tuple, as the analysis decides.
    Tuple(Vec<Selector<'a>>),
    /// `- a`
    Negate(Box<Selector<'a>>),
    /// `a + b`
    Binary(Box<Binary<Selector<'a>>>),
}

/// What is asked about a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum About {
    WriteTime,
    MaxWriteTime,
    Ttl,
}

/// A part of a `WHERE` clause.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Relation<'a> {
    /// `c < term`
    Compare { column: Name<'a>, comparison: Comparison, value: Term<'a> },
    /// `c IN (…)`
    In { column: Name<'a>, values: Values<'a> },
    /// `c CONTAINS term`
    Contains { column: Name<'a>, value: Term<'a> },
    /// `c CONTAINS KEY term`
    ContainsKey { column: Name<'a>, key: Term<'a> },
    /// `c[key] = term`
    Element { column: Name<'a>, key: Term<'a>, comparison: Comparison, value: Term<'a> },
    /// `c LIKE term`
    Like { column: Name<'a>, pattern: Term<'a> },
    /// `c IS NOT NULL`
    NotNull { column: Name<'a> },
    /// `token(a, b) < term`
    Token { at: Pos, columns: Vec<Name<'a>>, comparison: Comparison, value: Term<'a> },
    /// `(a, b) < (term, term)`; the value is a tuple or a marker.
    Tuple { at: Pos, columns: Vec<Name<'a>>, comparison: Comparison, value: Term<'a> },
    /// `(a, b) IN ((term, term), …)`; the values are tuples or markers.
    TupleIn { at: Pos, columns: Vec<Name<'a>>, values: Values<'a> },
}
