//! Roles: `CREATE ROLE` and similar statements, `GRANT`, `REVOKE`. The caller has checked the
//! permissions.

use std::sync::Arc;

use crate::catalog::{Catalog, Resource, RoleEntry};
use crate::error::{Result, bail, invalid, skip_if};
use crate::syntax::ast::{Permission, RoleDefinition};

fn missing_role(name: &str) -> crate::error::Error {
    invalid!("{name} doesn't exist")
}

/// Applies the options of a definition to a role.
fn define(role: &mut RoleEntry, definition: &RoleDefinition<'_>, hash: Option<String>) {
    role.can_login = definition.login.unwrap_or(role.can_login);
    role.is_superuser = definition.superuser.unwrap_or(role.is_superuser);
    role.salted_hash = hash.or(role.salted_hash.take());
}

impl Catalog {
    fn with_role(&self, role: RoleEntry) -> Catalog {
        let mut next = self.next();
        next.roles.insert(role.name.clone(), Arc::new(role));
        next
    }

    fn existing_role(&self, name: &str) -> Result<RoleEntry> {
        self.role(name).map(|r| (**r).clone()).ok_or_else(|| missing_role(name))
    }

    /// Executes `CREATE ROLE` with the hash of its password.
    ///
    /// # Errors
    /// `Invalid` if the role exists.
    pub fn create_role(
        &self,
        definition: &RoleDefinition<'_>,
        hash: Option<String>,
    ) -> Result<Option<Catalog>> {
        let name = &*definition.name.text;
        if self.role(name).is_some() {
            return skip_if(definition.conditional, || invalid!("{name} already exists"));
        }
        let mut role =
            RoleEntry { name: name.to_owned(), id: RoleEntry::next_id(), ..RoleEntry::default() };
        define(&mut role, definition, hash);
        Ok(Some(self.with_role(role)))
    }

    /// Executes `ALTER ROLE` with the hash of its new password.
    ///
    /// # Errors
    /// `Invalid` if the role does not exist.
    pub fn alter_role(
        &self,
        definition: &RoleDefinition<'_>,
        hash: Option<String>,
    ) -> Result<Option<Catalog>> {
        let name = &*definition.name.text;
        if self.role(name).is_none() && definition.conditional {
            return Ok(None);
        }
        let mut role = self.existing_role(name)?;
        define(&mut role, definition, hash);
        Ok(Some(self.with_role(role)))
    }

    /// Executes `DROP ROLE`: removes it from all members, and removes all permissions on it.
    ///
    /// # Errors
    /// `Invalid` if the role does not exist.
    pub fn drop_role(&self, name: &str, if_exists: bool) -> Result<Option<Catalog>> {
        if self.role(name).is_none() {
            return skip_if(if_exists, || missing_role(name));
        }
        let mut next = self.next();
        next.roles.remove(name);
        for role in next.roles.values_mut().filter(|r| r.member_of.contains(name)) {
            Arc::make_mut(role).member_of.remove(name);
        }
        Ok(Some(next.without_permissions(|r| matches!(r, Resource::Role(role) if role == name))))
    }

    /// Executes `GRANT role TO member` or `REVOKE role FROM member`.
    ///
    /// # Errors
    /// `Invalid` if a role does not exist, if the member already has the role, or if it has not.
    pub fn grant_role(&self, grants: bool, role: &str, member: &str) -> Result<Option<Catalog>> {
        self.existing_role(role)?;
        let mut entry = self.existing_role(member)?;
        if grants {
            if self.roles_of(member).iter().any(|r| r.name == role) {
                bail!("{member} is a member of {role}");
            }
            if self.roles_of(role).iter().any(|r| r.name == member) {
                bail!("{role} is a member of {member}");
            }
            entry.member_of.insert(role.to_owned());
        } else if !entry.member_of.remove(role) {
            bail!("{member} is not a member of {role}");
        }
        Ok(Some(self.with_role(entry)))
    }

    /// Executes `GRANT permissions ON resource TO role` or `REVOKE … FROM role`.
    ///
    /// # Errors
    /// `Invalid` if the role does not exist.
    pub fn grant_permissions(
        &self,
        grants: bool,
        permissions: &[Permission],
        resource: &Resource,
        role: &str,
    ) -> Result<Option<Catalog>> {
        let before = self.existing_role(role)?;
        let mut entry = before.clone();
        let given = entry.permissions.entry(resource.clone()).or_default();
        for permission in permissions {
            if grants {
                given.insert(*permission);
            } else {
                given.remove(permission);
            }
        }
        if given.is_empty() {
            entry.permissions.remove(resource);
        }
        Ok((entry != before).then(|| self.with_role(entry)))
    }

    /// Returns these definitions with all permissions on a new object granted to the role that
    /// created it.
    ///
    /// # Errors
    /// `Invalid` if the role no longer exists.
    pub fn granted_to_creator(self, role: Option<&str>, made: &Resource) -> Result<Catalog> {
        let Some(role) = role else { return Ok(self) };
        let granted = self.grant_permissions(true, made.applicable(), made, role)?;
        Ok(granted.unwrap_or(self))
    }

    /// Returns these definitions without permissions on dropped resources.
    pub fn without_permissions(mut self, gone: impl Fn(&Resource) -> bool) -> Catalog {
        for role in self.roles.values_mut() {
            if role.permissions.keys().any(&gone) {
                Arc::make_mut(role).permissions.retain(|resource, _| !gone(resource));
            }
        }
        self
    }
}
