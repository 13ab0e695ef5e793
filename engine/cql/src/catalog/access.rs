//! What roles may do. As long as nobody has logged in, everybody may do everything: it is the
//! embedding program then, or a server without logins.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Catalog, Resource, RoleEntry};
use crate::error::{Class, Error, Result};
use crate::syntax::ast::Permission;

impl Catalog {
    /// The roles, by name.
    pub fn roles(&self) -> impl Iterator<Item = &Arc<RoleEntry>> {
        self.roles.values()
    }

    /// The role of this name.
    pub fn role(&self, name: &str) -> Option<&Arc<RoleEntry>> {
        self.roles.get(name)
    }

    /// The role, and those that are granted to it or to one of them, by name.
    pub fn roles_of(&self, name: &str) -> Vec<&Arc<RoleEntry>> {
        let (mut found, mut next) = (BTreeMap::new(), vec![name]);
        while let Some(name) = next.pop() {
            if let Some(role) = self.role(name).filter(|_| !found.contains_key(name)) {
                found.insert(name, role);
                next.extend(role.member_of.iter().map(String::as_str));
            }
        }
        found.into_values().collect()
    }

    /// Whether a role may do everything, by itself or by one that is granted to it.
    pub fn is_superuser(&self, name: &str) -> bool {
        self.roles_of(name).iter().any(|r| r.is_superuser)
    }

    /// Whether a role may do this.
    pub fn may(&self, name: &str, permission: Permission, resource: &Resource) -> bool {
        let chain: Vec<Resource> = resource.chain().collect();
        let has = |role: &Arc<RoleEntry>| {
            let given =
                |r: &Resource| role.permissions.get(r).is_some_and(|p| p.contains(&permission));
            role.is_superuser || chain.iter().any(given)
        };
        self.roles_of(name).into_iter().any(has)
    }

    /// Refuses what a role may not do. `None` may do everything.
    ///
    /// # Errors
    /// `Unauthorized`.
    pub fn check_may(
        &self,
        role: Option<&str>,
        permission: Permission,
        resource: &Resource,
    ) -> Result<()> {
        let Some(role) = role else { return Ok(()) };
        if self.may(role, permission, resource) {
            return Ok(());
        }
        let word = permission.word();
        Err(unauthorized(format!(
            "User {role} has no {word} permission on {resource} or any of its parents"
        )))
    }
}

/// An error of the class [`Class::Unauthorized`].
pub fn unauthorized(text: impl Into<String>) -> Error {
    Error::refused(Class::Unauthorized, text)
}
