//! Access control: the permissions that a statement needs, checked against those of the logged-in
//! role.
//!
//! Invariant: without a role everything is allowed. With a role, a statement without the needed
//! permissions is refused before it has any effect.

use crate::catalog::{Catalog, Resource, TableSchema, keyspace_of};
use crate::error::{Result, bail_if, invalid, unauthorized};
use crate::syntax::ast::{
    AlterView, Drop, Overload, Permission, PermissionChange, QualifiedName, ResourceName,
    RoleDefinition, Statement, TypeSyntax,
};

/// Permission that a statement needs.
pub type RequiredPermission = (Permission, Resource);

/// Returns the permission for reading the table. Tables that drivers read when they connect need
/// none.
pub fn to_read(table: &TableSchema) -> Option<RequiredPermission> {
    (!table.is_readable_by_all()).then(|| (Permission::Select, of_table(table)))
}

/// Returns the permissions for calling user-defined functions.
pub fn to_call(
    calls: impl IntoIterator<Item = Resource>,
) -> impl Iterator<Item = RequiredPermission> {
    calls.into_iter().map(|of| (Permission::Execute, of))
}

/// Returns the resource of a table; for a view, the resource of its base table.
pub fn of_table(table: &TableSchema) -> Resource {
    Resource::Table(table.keyspace.clone(), table.permitted_as().to_owned())
}

/// Checks that the role has all these permissions.
///
/// # Errors
/// `Unauthorized`.
pub fn check(catalog: &Catalog, role: Option<&str>, needs: &[RequiredPermission]) -> Result<()> {
    needs.iter().try_for_each(|(permission, of)| catalog.check_may(role, *permission, of))
}

/// Returns the resource that a statement names.
///
/// # Errors
/// `Invalid` if it does not exist.
pub fn resource_of(
    catalog: &Catalog,
    keyspace: Option<&str>,
    name: &ResourceName<'_>,
) -> Result<Resource> {
    Ok(match name {
        ResourceName::AllKeyspaces => Resource::AllKeyspaces,
        ResourceName::AllRoles => Resource::AllRoles,
        ResourceName::Keyspace(name) => {
            let missing = || invalid!("<keyspace {}> doesn't exist", name.text);
            Resource::Keyspace(catalog.any_keyspace(&name.text).ok_or_else(missing)?.name.clone())
        }
        ResourceName::TablesOf(name) => {
            let resource = Resource::TablesOf(name.text.to_string());
            let missing = || invalid!("Resource {resource} doesn't exist");
            catalog.any_keyspace(&name.text).ok_or_else(missing)?;
            resource
        }
        ResourceName::Table(name) => {
            let home = keyspace_of(name, keyspace)?;
            let missing = || invalid!("<table {home}.{}> doesn't exist", name.name.text);
            let table = catalog.table(name, keyspace).map_err(|_| missing())?;
            Resource::Table(table.keyspace.clone(), table.name.clone())
        }
        ResourceName::AllFunctions => Resource::AllFunctions,
        ResourceName::FunctionsOf(name) => {
            let resource = Resource::FunctionsOf(name.text.to_string());
            let missing = || invalid!("Resource {resource} doesn't exist");
            catalog.any_keyspace(&name.text).ok_or_else(missing)?;
            resource
        }
        ResourceName::Function(name, types) => {
            let home = keyspace_of(name, keyspace)?;
            let resource = catalog.function_resource(home, &name.name.text, types)?;
            bail_if!(!catalog.has_function(&resource), "Resource {resource} doesn't exist");
            resource
        }
        ResourceName::Role(name) => {
            let missing = || invalid!("<role {}> doesn't exist", name.text);
            Resource::Role(catalog.role(&name.text).ok_or_else(missing)?.name.clone())
        }
    })
}

/// Checks that the role may execute a definition.
///
/// # Errors
/// `Unauthorized`; `Invalid` for a name without a keyspace.
pub fn check_definition(
    catalog: &Catalog,
    role: Option<&str>,
    keyspace: Option<&str>,
    statement: &Statement<'_>,
) -> Result<()> {
    let Some(role) = role else { return Ok(()) };
    let may = |permission, of: Resource| catalog.check_may(Some(role), permission, &of);
    let home = |name: &QualifiedName<'_>| keyspace_of(name, keyspace).map(str::to_owned);
    let table = |name: &QualifiedName<'_>| {
        Ok::<_, crate::error::Error>(Resource::Table(home(name)?, name.name.text.to_string()))
    };
    let inside = |name: &QualifiedName<'_>| home(name).map(Resource::Keyspace);
    match statement {
        Statement::CreateKeyspace(_) => may(Permission::Create, Resource::AllKeyspaces),
        Statement::AlterKeyspace(s) => {
            may(Permission::Alter, Resource::Keyspace(s.name.text.to_string()))
        }
        Statement::DropKeyspace(s) => {
            may(Permission::Drop, Resource::Keyspace(s.name.text.to_string()))
        }
        Statement::CreateTable(s) => may(Permission::Create, inside(&s.name)?),
        Statement::CreateType(s) => may(Permission::Create, inside(&s.name)?),
        Statement::AlterType(s) => may(Permission::Alter, inside(&s.name)?),
        Statement::DropType(s) => may(Permission::Drop, inside(&s.name)?),
        Statement::AlterTable(s) => may(Permission::Alter, table(&s.name)?),
        Statement::DropTable(s) => may(Permission::Drop, table(&s.name)?),
        Statement::Truncate(name) => may(Permission::Modify, table(name)?),
        Statement::CreateIndex(s) => may(Permission::Alter, table(&s.table)?),
        Statement::CreateView(s) => {
            let base = Resource::Table(home(&s.name)?, s.table.name.text.to_string());
            may(Permission::Alter, base)
        }
        Statement::AlterView(AlterView { name, .. }) | Statement::DropView(Drop { name, .. }) => {
            // If it does not exist, that is reported instead.
            let home = home(name)?;
            let found = catalog.keyspace(&home).and_then(|k| k.table(&name.name.text));
            let view = found.filter(|t| t.view().is_some());
            view.map_or(Ok(()), |view| may(Permission::Alter, of_table(view)))
        }
        Statement::DropIndex(s) => {
            let home = home(&s.name)?;
            let found = catalog.keyspace(&home).and_then(|k| k.index(&s.name.name.text));
            match found {
                Some((table, _)) => may(Permission::Alter, of_table(table)),
                None => may(Permission::Alter, Resource::Keyspace(home)),
            }
        }
        Statement::CreateFunction(s) => {
            let of: Vec<_> = s.arguments.iter().map(|(_, of)| of.clone()).collect();
            may_define(&may, catalog, &home(&s.name)?, &s.name, of, s.or_replace)
        }
        Statement::CreateAggregate(s) => {
            let (home, state) = (home(&s.name)?, s.state.clone());
            let of = s.arguments.clone();
            may_define(&may, catalog, &home, &s.name, of, s.or_replace)?;
            let all: Vec<_> = std::iter::once(state.clone()).chain(s.arguments.clone()).collect();
            let step = catalog.function_resource(&home, &s.state_function.text, &all)?;
            may(Permission::Execute, step)?;
            match &s.final_function {
                Some(name) => {
                    let finish = catalog.function_resource(&home, &name.text, &[state])?;
                    may(Permission::Execute, finish)
                }
                None => Ok(()),
            }
        }
        Statement::DropFunction(s) | Statement::DropAggregate(s) => {
            let all = catalog.overloads(&s.name, &home(&s.name.name)?);
            all.into_iter().try_for_each(|of| may(Permission::Drop, of))
        }
        Statement::CreateRole(s) => {
            may(Permission::Create, Resource::AllRoles)?;
            if s.superuser == Some(true) && !catalog.is_superuser(role) {
                let text = "Only superusers can create a role with superuser status";
                return Err(unauthorized(text));
            }
            Ok(())
        }
        Statement::AlterRole(s) => check_altered(catalog, role, s),
        Statement::DropRole(s) => {
            let name = &*s.name.text;
            bail_if!(name == role, "Cannot DROP primary role for current login");
            may(Permission::Drop, Resource::Role(name.to_owned()))?;
            if catalog.is_superuser(name) && !catalog.is_superuser(role) {
                return Err(unauthorized("Only superusers can drop a role with superuser status"));
            }
            Ok(())
        }
        Statement::GrantRole(s) => {
            may(Permission::Authorize, Resource::Role(s.role.text.to_string()))
        }
        Statement::GrantPermissions(s) => check_granted(catalog, role, keyspace, s),
        _ => Ok(()),
    }
}

/// Checks that a role may define a function or aggregate.
fn may_define(
    may: &impl Fn(Permission, Resource) -> Result<()>,
    catalog: &Catalog,
    home: &str,
    name: &QualifiedName<'_>,
    arguments: Vec<TypeSyntax<'_>>,
    or_replace: bool,
) -> Result<()> {
    let overload = Overload { name: name.clone(), arguments: Some(arguments) };
    match catalog.overloads(&overload, home).pop().filter(|_| or_replace) {
        Some(there) => may(Permission::Alter, there),
        None => may(Permission::Create, Resource::FunctionsOf(home.to_owned())),
    }
}

/// Checks an `ALTER ROLE`. Every role may change its own password; anything else needs a
/// permission. Only superusers may alter superusers.
fn check_altered(catalog: &Catalog, role: &str, s: &RoleDefinition<'_>) -> Result<()> {
    let name = &*s.name.text;
    let is_super = catalog.is_superuser(role);
    if let Some(superuser) = s.superuser {
        if !is_super {
            let text = "Only superusers are allowed to alter superuser status";
            return Err(unauthorized(text));
        }
        if !superuser && catalog.roles_of(role).iter().any(|r| r.name == name) {
            return Err(unauthorized(
                "You aren't allowed to alter your own superuser status or that of a role granted to you",
            ));
        }
    }
    if is_super {
        return Ok(());
    }
    if catalog.is_superuser(name) {
        return Err(unauthorized("Only superusers can alter a role with superuser status"));
    }
    if name == role && s.login.is_none() {
        return Ok(());
    }
    catalog.check_may(Some(role), Permission::Alter, &Resource::Role(name.to_owned()))
}

/// Checks a `GRANT` or `REVOKE`: a role can grant only permissions that it has.
fn check_granted(
    catalog: &Catalog,
    role: &str,
    keyspace: Option<&str>,
    s: &PermissionChange<'_>,
) -> Result<()> {
    let resource = resource_of(catalog, keyspace, &s.resource)?;
    catalog.check_may(Some(role), Permission::Authorize, &resource)?;
    let all = if s.permissions.is_empty() { resource.applicable() } else { &s.permissions };
    all.iter().try_for_each(|p| catalog.check_may(Some(role), *p, &resource))
}
