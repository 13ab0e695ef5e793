//! Names of a store's trees in the engine.
//!
//! Invariant: different names denote different trees. Trees with names of another form are ignored.

use std::fmt;

/// Name of the tree of schema records and of the store's own records.
pub const SCHEMA_TREE: &str = "system.schema";

/// Key of the first bound of timestamps: the last byte is its number. They change often, and only writers read them.
pub(super) const STRIPE_RECORD: &[u8; 8] = b"\0stripe\0";

const FAMILY: &str = "cf-";
const INDEX: &str = "ix-";

/// Reports whether an open store remembers what it has read at this key of this tree. If another
/// handle writes it, the store must be opened again.
pub fn is_remembered(tree: &str, key: &[u8]) -> bool {
    tree == SCHEMA_TREE && !key.starts_with(&STRIPE_RECORD[..7])
}

/// Role of a tree of the engine in the data model.
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
    /// Tree of the family or CQL table with this id.
    Family(u32),
    /// Tree of the index with this id.
    Index(u32),
}

impl TreeName {
    /// Returns the role of the tree with this name; `None` if it is not part of the data model.
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
