//! Types as they are written.

use std::borrow::Cow;
use std::fmt;

use super::{Pos, QualifiedName};

/// A type, as it is written.
#[derive(Clone, PartialEq, Eq)]
pub struct TypeSyntax<'a> {
    /// Where it stands.
    pub at: Pos,
    /// Which one.
    pub kind: TypeKind<'a>,
}

impl fmt::Debug for TypeSyntax<'_> {
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
    Vector(Box<TypeSyntax<'a>>, u32),
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
