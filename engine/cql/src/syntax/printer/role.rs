//! Roles and permissions.

use std::fmt::{Display, Formatter, Result};

use super::function::function;
use super::{list, opt, string};
use crate::syntax::ast::{
    Permission, PermissionChange, ResourceName, RoleDefinition, RoleGrant, RoleListing,
};

impl RoleDefinition<'_> {
    /// Prints the statement that creates or changes the role.
    pub(super) fn print(&self, f: &mut Formatter<'_>, creates: bool) -> Result {
        let (verb, condition) =
            if creates { ("CREATE", "IF NOT EXISTS ") } else { ("ALTER", "IF EXISTS ") };
        write!(f, "{verb} ROLE {}{}", opt(self.conditional, condition), self.name)?;
        let mut word = " WITH ";
        let texts = [("PASSWORD", &self.password), ("HASHED PASSWORD", &self.hashed)];
        for (name, text) in texts {
            if let Some(text) = text {
                write!(f, "{word}{name} = ")?;
                string(f, text)?;
                word = " AND ";
            }
        }
        for (name, flag) in [("LOGIN", self.login), ("SUPERUSER", self.superuser)] {
            if let Some(flag) = flag {
                write!(f, "{word}{name} = {flag}")?;
                word = " AND ";
            }
        }
        Ok(())
    }
}

impl Display for ResourceName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            ResourceName::AllKeyspaces => f.write_str("ALL KEYSPACES"),
            ResourceName::Keyspace(name) => write!(f, "KEYSPACE {name}"),
            ResourceName::TablesOf(name) => write!(f, "ALL TABLES IN KEYSPACE {name}"),
            ResourceName::Table(name) => write!(f, "TABLE {name}"),
            ResourceName::AllRoles => f.write_str("ALL ROLES"),
            ResourceName::Role(name) => write!(f, "ROLE {name}"),
            ResourceName::AllFunctions => f.write_str("ALL FUNCTIONS"),
            ResourceName::FunctionsOf(name) => write!(f, "ALL FUNCTIONS IN KEYSPACE {name}"),
            ResourceName::Function(name, types) => {
                f.write_str("FUNCTION ")?;
                function(f, name)?;
                write!(f, "({})", list(types))
            }
        }
    }
}

fn permissions(f: &mut Formatter<'_>, all: &[Permission]) -> Result {
    if all.is_empty() {
        return f.write_str("ALL PERMISSIONS");
    }
    let words: Vec<&str> = all.iter().map(|p| p.word()).collect();
    f.write_str(&words.join(", "))
}

impl Display for PermissionChange<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (verb, towards) = if self.grants { ("GRANT", "TO") } else { ("REVOKE", "FROM") };
        write!(f, "{verb} ")?;
        permissions(f, &self.permissions)?;
        write!(f, " ON {} {towards} {}", self.resource, self.role)
    }
}

impl Display for RoleGrant<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (verb, towards) = if self.grants { ("GRANT", "TO") } else { ("REVOKE", "FROM") };
        write!(f, "{verb} {} {towards} {}", self.role, self.member)
    }
}

impl Display for RoleListing<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (of, recursive) = match self {
            RoleListing::Users => return f.write_str("LIST USERS"),
            RoleListing::Roles { of, recursive } => {
                f.write_str("LIST ROLES")?;
                (of, recursive)
            }
            RoleListing::Permissions { permissions: all, resource, of, recursive } => {
                f.write_str("LIST ")?;
                permissions(f, all)?;
                if let Some(resource) = resource {
                    write!(f, " ON {resource}")?;
                }
                (of, recursive)
            }
        };
        if let Some(of) = of {
            write!(f, " OF {of}")?;
        }
        f.write_str(opt(!recursive, " NORECURSIVE"))
    }
}
