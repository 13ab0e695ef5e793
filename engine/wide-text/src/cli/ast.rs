//! Syntax tree of the statements.

use firn_wide::IndexOperator;

use super::attributes::Attribute;
use super::help::CliTopic;

/// A statement of the language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CliStatement {
    /// `;` alone.
    Nothing,
    /// `connect host/port [user 'password']`.
    Connect {
        /// Name or address.
        host: String,
        /// Port.
        port: u32,
        /// User and password.
        login: Option<(String, String)>,
    },
    /// `exit`, `quit`.
    Exit,
    /// `help [statement]`, `?`.
    Help(Option<CliTopic>),
    /// `use keyspace [user 'password']`.
    Use {
        /// The keyspace.
        keyspace: String,
        /// User and password.
        login: Option<(String, String)>,
    },
    /// `show cluster name`.
    ShowClusterName,
    /// `show keyspaces`.
    ShowKeyspaces,
    /// `show schema [keyspace]`.
    ShowSchema(Option<String>),
    /// `show api version`.
    ShowApiVersion,
    /// `describe [keyspace or column family]`.
    Describe(Option<String>),
    /// `describe cluster`.
    DescribeCluster,
    /// `create keyspace`.
    CreateKeyspace(Definition),
    /// `update keyspace`.
    UpdateKeyspace(Definition),
    /// `drop keyspace`.
    DropKeyspace(String),
    /// `create column family`.
    CreateFamily(Definition),
    /// `update column family`.
    UpdateFamily(Definition),
    /// `drop column family`.
    DropFamily(String),
    /// `drop index on family.column`.
    DropIndex {
        /// The column family.
        family: String,
        /// The column.
        column: String,
    },
    /// `get family[key][column]`.
    Get {
        /// The columns to read.
        path: Path,
        /// `as type`.
        shown_as: Option<String>,
        /// `limit n`.
        limit: Option<u32>,
    },
    /// `get family where column = value and …`.
    GetWhere {
        /// The column family.
        family: String,
        /// At least one.
        conditions: Vec<CliCondition>,
        /// `limit n`.
        limit: Option<u32>,
    },
    /// `set family[key][column] = value [with ttl = n]`.
    Set {
        /// The column to write.
        path: Path,
        /// The new value.
        value: CliTerm,
        /// TTL in seconds.
        ttl: Option<u32>,
    },
    /// `incr family[key][column] [by n]`.
    Increment {
        /// The counter.
        path: Path,
        /// The increment; 1 by default.
        by: i64,
    },
    /// `decr family[key][column] [by n]`.
    Decrement {
        /// The counter.
        path: Path,
        /// The decrement; 1 by default.
        by: i64,
    },
    /// `del family[key][column]`.
    Delete(Path),
    /// `count family[key]`.
    Count(Path),
    /// `list family[start:end] [limit n] [columns n [reversed]]`.
    List {
        /// The column family.
        family: String,
        /// The first key.
        start: Option<CliTerm>,
        /// The last key.
        end: Option<CliTerm>,
        /// Maximum number of rows.
        limit: Option<u32>,
        /// Maximum columns of each row.
        columns: Option<u32>,
        /// Whether to return the last columns, in reverse order.
        reversed: bool,
    },
    /// `truncate family`.
    Truncate(String),
    /// `assume family what as type`.
    Assume {
        /// The column family.
        family: String,
        /// `comparator`, `sub_comparator`, `validator` or `keys`, as written.
        what: String,
        /// A type, as written.
        as_type: String,
    },
    /// `consistencylevel as level`.
    ConsistencyLevel(String),
}

/// A keyspace or column family in `create` and `update`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its attributes, in order.
    pub attributes: Vec<Attribute>,
}

/// `family[key]`, `family[key][column]` or `family[key][super column][column]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The column family.
    pub family: String,
    /// The row.
    pub key: CliTerm,
    /// None, one or two names.
    pub columns: Vec<CliTerm>,
}

/// A key, a name or a value: text that a type reads, or a function that determines the type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CliTerm {
    /// A word or a number.
    Text(String),
    /// A string: like [`Text`](CliTerm::Text), but never hexadecimal where bytes are expected,
    /// unless it begins with `0x`. (In strict mode it is hexadecimal.)
    Quoted(String),
    /// `function('argument')`; without argument, a generated value.
    Call {
        /// The function, as written.
        function: String,
        /// Its argument.
        argument: Option<String>,
    },
}

/// `column operator value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliCondition {
    /// The column.
    pub column: CliTerm,
    /// The operator.
    pub operator: IndexOperator,
    /// The value to compare with.
    pub value: CliTerm,
}
