//! Statements as data.

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
        /// What to get.
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
        /// What to set.
        path: Path,
        /// To what.
        value: CliTerm,
        /// For how many seconds.
        ttl: Option<u32>,
    },
    /// `incr family[key][column] [by n]`.
    Increment {
        /// What to count up.
        path: Path,
        /// By how much: 1 where nothing is said.
        by: i64,
    },
    /// `decr family[key][column] [by n]`.
    Decrement {
        /// What to count down.
        path: Path,
        /// By how much: 1 where nothing is said.
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
        /// How many rows.
        limit: Option<u32>,
        /// How many columns of each row.
        columns: Option<u32>,
        /// Whether the last columns, and those from last to first.
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

/// A keyspace or column family as `create` and `update` have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// What is said of it, in order.
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

/// A key, a name or a value: text that a type reads, or a function that says which type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CliTerm {
    /// A word or a number.
    Text(String),
    /// A string: the same, but never hexadecimal where bytes are expected, unless it begins with
    /// `0x`. (Strictly it is one.)
    Quoted(String),
    /// `function('argument')`; without argument, a fresh value.
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
    /// How it is compared.
    pub operator: CliOperator,
    /// With what.
    pub value: CliTerm,
}

/// A comparison, in the order of Thrift's `IndexOperator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CliOperator {
    /// `=`
    Eq,
    /// `>=`
    Gte,
    /// `>`
    Gt,
    /// `<=`
    Lte,
    /// `<`
    Lt,
}
