//! Names and places in a text.

use std::borrow::Cow;
use std::fmt;

/// An offset in the text, in bytes. All positions are equal, so that trees can be compared without
/// them.
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
pub struct AstName<'a> {
    /// The name, without quotes. Empty only where a column is referred to as `""`.
    pub text: Cow<'a, str>,
    /// Where it stands.
    pub at: Pos,
}

impl fmt::Debug for AstName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A name of something in a keyspace, which may be left out.
#[derive(Clone, PartialEq, Eq)]
pub struct QualifiedName<'a> {
    /// The keyspace before the dot.
    pub keyspace: Option<AstName<'a>>,
    /// The name itself.
    pub name: AstName<'a>,
}

impl fmt::Debug for QualifiedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
