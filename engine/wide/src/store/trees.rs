//! The names of a store's trees in the engine.
//!
//! Invariant: of two names one never stands for the other's tree, and a name that is not of this
//! form is nobody's here: trees of other names are left alone.

use std::fmt;

/// The tree of definitions and of the store's own records.
pub const SCHEMA_TREE: &str = "system.schema";

const FAMILY: &str = "cf-";
const INDEX: &str = "ix-";

/// The role of a tree of the engine in the data model.
///
/// ```
/// use firn_wide::internals::store::TreeName;
/// assert_eq!(TreeName::parse("cf-7"), Some(TreeName::Family(7)));
/// assert_eq!(TreeName::Index(9).to_string(), "ix-9");
/// assert_eq!(TreeName::parse("fruit"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeName {
    /// [`SCHEMA_TREE`].
    Schema,
    /// That of the family or CQL table of this number.
    Family(u32),
    /// That of the index of this number.
    Index(u32),
}

impl TreeName {
    /// The role of the tree of this name; `None` where it is none of the data model's.
    pub fn parse(name: &str) -> Option<TreeName> {
        let number = |prefix: &str| name.strip_prefix(prefix)?.parse().ok();
        match name {
            SCHEMA_TREE => Some(TreeName::Schema),
            _ => {
                number(FAMILY).map(TreeName::Family).or_else(|| number(INDEX).map(TreeName::Index))
            }
        }
    }
}

impl fmt::Display for TreeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeName::Schema => f.write_str(SCHEMA_TREE),
            TreeName::Family(id) => write!(f, "{FAMILY}{id}"),
            TreeName::Index(id) => write!(f, "{INDEX}{id}"),
        }
    }
}
