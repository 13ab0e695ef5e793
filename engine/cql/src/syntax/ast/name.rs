//! Names and positions in a text.

use std::borrow::Cow;
use std::fmt;

/// A byte offset in the text. All positions are equal, so that trees are compared without
/// positions.
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

/// An identifier in the form used for lookups: in lower case unless it was quoted.
#[derive(Clone, PartialEq, Eq)]
pub struct AstName<'a> {
    /// Name without quotes. Empty only for a column reference `""`.
    pub text: Cow<'a, str>,
    /// Position in the text.
    pub at: Pos,
}

impl fmt::Debug for AstName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A name of an object in a keyspace; the keyspace is optional.
#[derive(Clone, PartialEq, Eq)]
pub struct QualifiedName<'a> {
    /// Keyspace before the dot.
    pub keyspace: Option<AstName<'a>>,
    /// Name after the dot.
    pub name: AstName<'a>,
}

impl fmt::Debug for QualifiedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
