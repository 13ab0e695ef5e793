//! Roles, and the resources that permissions are about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::syntax::ast::Permission;

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleEntry {
    /// Its name.
    pub name: String,
    /// Whether somebody may log in as it.
    pub can_login: bool,
    /// Whether it may do everything.
    pub is_superuser: bool,
    /// The hash of its password, with its salt.
    pub salted_hash: Option<String>,
    /// The roles that are granted to it.
    pub member_of: BTreeSet<String>,
    /// What was granted to it itself.
    pub permissions: BTreeMap<Resource, BTreeSet<Permission>>,
}

/// What permissions are about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// All keyspaces.
    AllKeyspaces,
    /// A keyspace.
    Keyspace(String),
    /// A table of a keyspace.
    Table(String, String),
    /// All roles.
    AllRoles,
    /// A role.
    Role(String),
}

/// As messages and `LIST PERMISSIONS` show it.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::AllKeyspaces => f.write_str("<all keyspaces>"),
            Resource::Keyspace(name) => write!(f, "<keyspace {name}>"),
            Resource::Table(keyspace, name) => write!(f, "<table {keyspace}.{name}>"),
            Resource::AllRoles => f.write_str("<all roles>"),
            Resource::Role(name) => write!(f, "<role {name}>"),
        }
    }
}

impl Resource {
    /// Its name in `system_auth`, and in records.
    pub fn path(&self) -> String {
        match self {
            Resource::AllKeyspaces => "data".to_owned(),
            Resource::Keyspace(name) => format!("data/{name}"),
            Resource::Table(keyspace, name) => format!("data/{keyspace}/{name}"),
            Resource::AllRoles => "roles".to_owned(),
            Resource::Role(name) => format!("roles/{name}"),
        }
    }

    /// The resource of this name.
    pub fn of_path(path: &str) -> Option<Resource> {
        match path.split_once('/') {
            None if path == "data" => Some(Resource::AllKeyspaces),
            None if path == "roles" => Some(Resource::AllRoles),
            Some(("roles", name)) => Some(Resource::Role(name.to_owned())),
            Some(("data", rest)) => Some(match rest.split_once('/') {
                None => Resource::Keyspace(rest.to_owned()),
                Some((keyspace, name)) => Resource::Table(keyspace.to_owned(), name.to_owned()),
            }),
            _ => None,
        }
    }

    /// What a permission for it covers this one, too.
    pub fn parent(&self) -> Option<Resource> {
        match self {
            Resource::Table(keyspace, _) => Some(Resource::Keyspace(keyspace.clone())),
            Resource::Keyspace(_) => Some(Resource::AllKeyspaces),
            Resource::Role(_) => Some(Resource::AllRoles),
            Resource::AllKeyspaces | Resource::AllRoles => None,
        }
    }

    /// It and all that cover it.
    pub fn chain(&self) -> impl Iterator<Item = Resource> {
        std::iter::successors(Some(self.clone()), Resource::parent)
    }

    /// The permissions that it knows.
    pub fn applicable(&self) -> &'static [Permission] {
        use Permission::{Alter, Authorize, Create, Describe, Drop, Modify, Select};
        match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) => {
                &[Create, Alter, Drop, Select, Modify, Authorize]
            }
            Resource::Table(..) => &[Alter, Drop, Select, Modify, Authorize],
            Resource::AllRoles => &[Create, Alter, Drop, Authorize, Describe],
            Resource::Role(_) => &[Alter, Drop, Authorize],
        }
    }
}
