//! Permissions of roles. Without a login everything is allowed: the caller is the embedding
//! program, or a server without authentication.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Catalog, Resource, RoleEntry};
use crate::error::{Result, unauthorized};
use crate::syntax::ast::Permission;

impl Catalog {
    /// Iterates over the roles by name.
    pub fn roles(&self) -> impl Iterator<Item = &Arc<RoleEntry>> {
        self.roles.values()
    }

    /// Returns the role with this name.
    pub fn role(&self, name: &str) -> Option<&Arc<RoleEntry>> {
        self.roles.get(name)
    }

    /// Returns the role and all roles granted to it, directly or indirectly, by name.
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

    /// Reports whether a role is a superuser, by itself or by a role granted to it.
    pub fn is_superuser(&self, name: &str) -> bool {
        self.roles_of(name).iter().any(|r| r.is_superuser)
    }

    /// Reports whether a role has a permission on a resource.
    pub fn may(&self, name: &str, permission: Permission, resource: &Resource) -> bool {
        let chain: Vec<Resource> = resource.chain().collect();
        let has = |role: &Arc<RoleEntry>| {
            let given =
                |r: &Resource| role.permissions.get(r).is_some_and(|p| p.contains(&permission));
            role.is_superuser || chain.iter().any(given)
        };
        self.roles_of(name).into_iter().any(has)
    }

    /// Checks that a role has a permission. `None` may do everything.
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
        Err(unauthorized!(
            "User {role} has no {word} permission on {resource} or any of its parents"
        ))
    }
}
