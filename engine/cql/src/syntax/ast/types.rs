//! Types in statements, unresolved.

use crate::syntax::text_enum;
use std::borrow::Cow;
use std::fmt;

use super::{Pos, QualifiedName};

/// A type in a statement.
#[derive(Clone, PartialEq, Eq)]
pub struct TypeSyntax<'a> {
    /// Position in the text.
    pub at: Pos,
    /// Kind of the type.
    pub kind: TypeKind<'a>,
}

impl fmt::Debug for TypeSyntax<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Kinds of types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind<'a> {
    /// A native type.
    Native(Native),
    /// `map<key, value>`
    Map(Box<(TypeSyntax<'a>, TypeSyntax<'a>)>),
    /// `set<element>`
    Set(Box<TypeSyntax<'a>>),
    /// `list<element>`
    List(Box<TypeSyntax<'a>>),
    /// `frozen<type>`
    Frozen(Box<TypeSyntax<'a>>),
    /// `tuple<type, …>`, at least one.
    Tuple(Vec<TypeSyntax<'a>>),
    /// `vector<element, dimension>`
    Vector(Box<TypeSyntax<'a>>, i32),
    /// `'class name'`
    Custom(Cow<'a, str>),
    /// A user-defined type.
    User(Box<QualifiedName<'a>>),
}

text_enum! {
    /// A native type.
    #[derive(Hash)]
    Native, word {
        Ascii "ascii",
        BigInt "bigint",
        Blob "blob",
        Boolean "boolean",
        Counter "counter",
        Date "date",
        Decimal "decimal",
        Double "double",
        Duration "duration",
        Float "float",
        Inet "inet",
        Int "int",
        SmallInt "smallint",
        Text "text",
        Time "time",
        Timestamp "timestamp",
        TimeUuid "timeuuid",
        TinyInt "tinyint",
        Uuid "uuid",
        VarChar "varchar",
        VarInt "varint",
    }
}

/// Returns the hint for a type with missing parameters. User-defined types may have such names,
/// except `set`.
pub fn lacks_parameters(word: &str) -> Option<&'static str> {
    Some(match word {
        "set" => "a set needs the type of its elements: set<text>",
        "map" => "a map needs the types of its keys and values: map<text, text>",
        "list" => "a list needs the type of its elements: list<text>",
        "tuple" => "a tuple needs the types of its components: tuple<int, text>",
        "vector" => "a vector needs the type and the number of its elements: vector<float, 3>",
        "frozen" => "frozen needs the type that is frozen: frozen<list<text>>",
        _ => return None,
    })
}
