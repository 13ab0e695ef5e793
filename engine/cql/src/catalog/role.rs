//! Roles, and resources of permissions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::syntax::ast::Permission;

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleEntry {
    /// Name of the role.
    pub name: String,
    /// Id that distinguishes it, within this process, from earlier roles with the same name. It is
    /// not stored.
    pub id: u64,
    /// Whether it can be used to log in.
    pub can_login: bool,
    /// Whether it may do everything.
    pub is_superuser: bool,
    /// Salted hash of its password.
    pub salted_hash: Option<String>,
    /// Roles granted to it.
    pub member_of: BTreeSet<String>,
    /// Permissions granted to it directly.
    pub permissions: BTreeMap<Resource, BTreeSet<Permission>>,
}

impl RoleEntry {
    /// Returns an id that no other role of this process has.
    pub fn next_id() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

/// Object of a permission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// All keyspaces.
    AllKeyspaces,
    /// A keyspace.
    Keyspace(String),
    /// All tables of a keyspace.
    TablesOf(String),
    /// A table of a keyspace.
    Table(String, String),
    /// All roles.
    AllRoles,
    /// A role.
    Role(String),
    /// All functions and aggregates.
    AllFunctions,
    /// All functions and aggregates of a keyspace.
    FunctionsOf(String),
    /// A function or aggregate of a keyspace, by name and argument types.
    Function(String, String, Vec<String>),
}

/// Formats the resource as in messages and `LIST PERMISSIONS`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::AllKeyspaces => f.write_str("<all keyspaces>"),
            Resource::Keyspace(name) => write!(f, "<keyspace {name}>"),
            Resource::TablesOf(keyspace) => write!(f, "<all tables in {keyspace}>"),
            Resource::Table(keyspace, name) => write!(f, "<table {keyspace}.{name}>"),
            Resource::AllRoles => f.write_str("<all roles>"),
            Resource::Role(name) => write!(f, "<role {name}>"),
            Resource::AllFunctions => f.write_str("<all functions>"),
            Resource::FunctionsOf(keyspace) => write!(f, "<all functions in {keyspace}>"),
            Resource::Function(keyspace, name, types) => {
                write!(f, "<function {keyspace}.{name}({})>", types.join(", "))
            }
        }
    }
}

impl Resource {
    /// Returns its name in `system_auth`, and in records.
    pub fn path(&self) -> String {
        match self {
            Resource::AllKeyspaces => "data".to_owned(),
            Resource::Keyspace(name) => format!("data/{name}"),
            Resource::TablesOf(keyspace) => format!("data/{keyspace}/*"),
            Resource::Table(keyspace, name) => format!("data/{keyspace}/{name}"),
            Resource::AllRoles => "roles".to_owned(),
            Resource::Role(name) => format!("roles/{name}"),
            Resource::AllFunctions => "functions".to_owned(),
            Resource::FunctionsOf(keyspace) => format!("functions/{keyspace}"),
            Resource::Function(keyspace, name, types) => {
                let types: Vec<String> = types.iter().map(|of| escaped(of)).collect();
                format!("functions/{keyspace}/{name}[{}]", types.join("^"))
            }
        }
    }

    /// Returns the resource with this name.
    pub fn of_path(path: &str) -> Option<Resource> {
        match path.split_once('/') {
            None if path == "data" => Some(Resource::AllKeyspaces),
            None if path == "roles" => Some(Resource::AllRoles),
            None if path == "functions" => Some(Resource::AllFunctions),
            Some(("functions", rest)) => of_functions(rest),
            Some(("roles", name)) => Some(Resource::Role(name.to_owned())),
            Some(("data", rest)) => Some(match rest.split_once('/') {
                None => Resource::Keyspace(rest.to_owned()),
                Some((keyspace, "*")) => Resource::TablesOf(keyspace.to_owned()),
                Some((keyspace, name)) => Resource::Table(keyspace.to_owned(), name.to_owned()),
            }),
            _ => None,
        }
    }

    /// Returns the enclosing resource, whose permissions apply to this one too.
    pub fn parent(&self) -> Option<Resource> {
        match self {
            Resource::Table(keyspace, _) => Some(Resource::TablesOf(keyspace.clone())),
            Resource::TablesOf(keyspace) => Some(Resource::Keyspace(keyspace.clone())),
            Resource::Keyspace(_) => Some(Resource::AllKeyspaces),
            Resource::Role(_) => Some(Resource::AllRoles),
            Resource::Function(keyspace, ..) => Some(Resource::FunctionsOf(keyspace.clone())),
            Resource::FunctionsOf(_) => Some(Resource::AllFunctions),
            Resource::AllKeyspaces | Resource::AllRoles | Resource::AllFunctions => None,
        }
    }

    /// Returns the keyspace of the resource.
    pub fn keyspace(&self) -> Option<&str> {
        match self {
            Resource::Keyspace(keyspace)
            | Resource::TablesOf(keyspace)
            | Resource::Table(keyspace, _)
            | Resource::FunctionsOf(keyspace)
            | Resource::Function(keyspace, ..) => Some(keyspace),
            _ => None,
        }
    }

    /// Iterates over the resource and all enclosing ones.
    pub fn chain(&self) -> impl Iterator<Item = Resource> {
        std::iter::successors(Some(self.clone()), Resource::parent)
    }

    /// Returns the name of its kind in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Resource::AllKeyspaces
            | Resource::Keyspace(_)
            | Resource::TablesOf(_)
            | Resource::Table(..) => "DataResource",
            Resource::AllRoles | Resource::Role(_) => "RoleResource",
            Resource::AllFunctions | Resource::FunctionsOf(_) | Resource::Function(..) => {
                "FunctionResource"
            }
        }
    }

    /// Returns the permissions that apply to it.
    pub fn applicable(&self) -> &'static [Permission] {
        use Permission::{
            Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select, SelectMasked, Unmask,
        };
        match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::TablesOf(_) => {
                &[Create, Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked]
            }
            Resource::Table(..) => &[Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked],
            Resource::AllRoles => &[Create, Alter, Drop, Authorize, Describe],
            Resource::Role(_) => &[Alter, Drop, Authorize, Describe],
            Resource::AllFunctions | Resource::FunctionsOf(_) => {
                &[Create, Alter, Drop, Authorize, Execute]
            }
            Resource::Function(..) => &[Alter, Drop, Authorize, Execute],
        }
    }
}

/// Escapes the path separators in a type.
fn escaped(of: &str) -> String {
    of.replace('%', "%25").replace('[', "%5B").replace('^', "%5E")
}

/// Parses a path after `functions/`.
fn of_functions(rest: &str) -> Option<Resource> {
    let Some((keyspace, rest)) = rest.split_once('/') else {
        return Some(Resource::FunctionsOf(rest.to_owned()));
    };
    let (name, types) = rest.strip_suffix(']')?.rsplit_once('[')?;
    let plain = |of: &str| of.replace("%5E", "^").replace("%5B", "[").replace("%25", "%");
    let types = types.split('^').filter(|of| !of.is_empty()).map(plain).collect();
    Some(Resource::Function(keyspace.to_owned(), name.to_owned(), types))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_found_by_its_path() {
        let types = |all: &[&str]| all.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let function =
            |name: &str, all: &[&str]| Resource::Function("ks".into(), name.into(), types(all));
        for resource in [
            Resource::AllFunctions,
            Resource::FunctionsOf("ks".into()),
            function("f", &[]),
            function("f", &["int", "map<text, frozen<list<int>>>"]),
            function("a/b[c]", &["\"x[y]^%5B\"", "int"]),
            Resource::Table("ks".into(), "t".into()),
            Resource::TablesOf("ks".into()),
        ] {
            assert_eq!(Resource::of_path(&resource.path()), Some(resource));
        }
    }
}
