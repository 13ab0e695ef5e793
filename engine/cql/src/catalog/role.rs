//! Roles, and the resources that permissions are about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::syntax::ast::Permission;

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleEntry {
    /// Its name.
    pub name: String,
    /// Tells it from the roles that had this name before, in this process. It is not stored.
    pub id: u64,
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

impl RoleEntry {
    /// Returns an identity that no role of this process has.
    pub fn next_id() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

/// What permissions are about.
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
    /// Those of a keyspace.
    FunctionsOf(String),
    /// One of a keyspace, by name and the types of its arguments.
    Function(String, String, Vec<String>),
}

/// As messages and `LIST PERMISSIONS` show it.
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
    /// Its name in `system_auth`, and in records.
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

    /// The resource of this name.
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

    /// What a permission for it covers this one, too.
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

    /// The keyspace that it is in, or is, or whose functions it is.
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

    /// It and all that cover it.
    pub fn chain(&self) -> impl Iterator<Item = Resource> {
        std::iter::successors(Some(self.clone()), Resource::parent)
    }

    /// What messages call its kind.
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

    /// The permissions that it knows.
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

/// A type without the signs that a path is cut at.
fn escaped(of: &str) -> String {
    of.replace('%', "%25").replace('[', "%5B").replace('^', "%5E")
}

/// What `functions/` stands before in a path.
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
