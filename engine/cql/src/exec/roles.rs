//! Execution of statements about roles.

use std::sync::Arc;

use firn_wide::Type;

use super::access::resource_of;
use super::engine::Engine;
use super::password;
use super::rows::{RowCells, Rows};
use crate::catalog::{Catalog, ColumnType, Resource, RoleEntry};
use crate::error::{Error, ErrorClass, Result, invalid, unauthorized};
use crate::syntax::ast::{AstName, Permission, RoleDefinition, RoleListing, Statement};
use crate::values::ColumnSpec;

/// Executes a statement about roles; returns `None` for any other statement. `role` is the
/// logged-in role.
///
/// # Errors
/// Errors of the statement. Then nothing was changed.
pub(super) fn execute(
    engine: &Engine,
    role: Option<&str>,
    keyspace: Option<&str>,
    statement: &Statement<'_>,
) -> Result<Option<Rows>> {
    match statement {
        Statement::CreateRole(s) => {
            let hash = hash_of(engine, s)?;
            let made = Resource::Role(s.name.text.to_string());
            engine.change(None, |c| {
                c.create_role(s, hash)?.map(|c| c.granted_to_creator(role, &made)).transpose()
            })?;
        }
        Statement::AlterRole(s) => {
            let hash = hash_of(engine, s)?;
            engine.change(None, |c| c.alter_role(s, hash))?;
        }
        Statement::DropRole(s) => {
            if engine.change(None, |c| c.drop_role(&s.name.text, s.if_exists))? {
                engine.report_role_dropped();
            }
        }
        Statement::GrantRole(s) => {
            engine.change(None, |c| c.grant_role(s.grants, &s.role.text, &s.member.text))?;
        }
        Statement::GrantPermissions(s) => {
            engine.change(None, |c| {
                let resource = resource_of(c, keyspace, &s.resource)?;
                let known = resource.applicable();
                // Requested permissions that do not apply to the resource are ignored.
                let mut all = s.permissions.clone();
                all.retain(|p| known.contains(p));
                if all.is_empty() && !s.permissions.is_empty() {
                    return Err(Error::refused(
                        ErrorClass::Syntax,
                        format!(
                            "Resource type {} does not support any of the requested permissions",
                            resource.kind()
                        ),
                    ));
                }
                let all = if all.is_empty() { known } else { &all };
                c.grant_permissions(s.grants, all, &resource, &s.role.text)
            })?;
        }
        Statement::ListRoles(listing) => {
            return list(&engine.catalog(), role, keyspace, listing).map(Some);
        }
        _ => return Ok(None),
    }
    Ok(Some(Rows::void()))
}

/// Returns the hash of the password in a definition, if it has one.
fn hash_of(engine: &Engine, s: &RoleDefinition<'_>) -> Result<Option<String>> {
    match (&s.password, &s.hashed) {
        (Some(_), Some(_)) => {
            Err(invalid("Options 'password' and 'hashed password' are mutually exclusive"))
        }
        (Some(password), None) => password::hash(password, engine.random_bits()).map(Some),
        (None, Some(hash)) if password::is_known(hash) && password::is_costly(hash) => {
            Err(invalid(
                "Invalid hashed password value: comparing with it would cost too much. Use argon2id with \
             at most 64 MiB, 16 passes and 16 lanes, or bcrypt with a cost of at most 14.",
            ))
        }
        (None, Some(hash)) if password::is_known(hash) => Ok(Some(hash.to_string())),
        (None, Some(_)) => Err(invalid(
            "Invalid hashed password value. Please use jBcrypt, or argon2id in PHC's form.",
        )),
        (None, None) => Ok(None),
    }
}

fn columns(table: &str, all: &[(&str, Type)]) -> Vec<ColumnSpec> {
    let column = |(name, of): &(&str, Type)| ColumnSpec {
        keyspace: "system_auth".into(),
        table: table.into(),
        name: (*name).into(),
        column_type: ColumnType::frozen(of.clone()),
    };
    all.iter().map(column).collect()
}

fn list(
    catalog: &Catalog,
    role: Option<&str>,
    keyspace: Option<&str>,
    listing: &RoleListing<'_>,
) -> Result<Rows> {
    let sees_all =
        role.is_none_or(|role| catalog.may(role, Permission::Describe, &Resource::AllRoles));
    let of_whom = |of: &Option<AstName<'_>>, recursive: bool| -> Result<Vec<Arc<RoleEntry>>> {
        let Some(name) = of else {
            return Ok(match role.filter(|_| !sees_all) {
                Some(own) => catalog.roles_of(own).into_iter().cloned().collect(),
                None => catalog.roles().cloned().collect(),
            });
        };
        let found = catalog.role(&name.text);
        let found = found.ok_or_else(|| invalid!("{} doesn't exist", name.text))?;
        let own = role.is_none_or(|r| catalog.roles_of(r).iter().any(|e| e.name == name.text));
        if !sees_all && !own {
            return Err(unauthorized!(
                "You are not authorized to view roles granted to {}",
                name.text
            ));
        }
        Ok(match recursive {
            true => catalog.roles_of(&name.text).into_iter().cloned().collect(),
            false => {
                let direct = found.member_of.iter().filter_map(|n| catalog.role(n));
                std::iter::once(found).chain(direct).cloned().collect()
            }
        })
    };
    let mut cells = RowCells::default();
    let flag = |on: bool| [u8::from(on)];
    let columns: Vec<ColumnSpec> = match listing {
        RoleListing::Users => {
            let users = of_whom(&None, true)?;
            for user in users.iter().filter(|u| u.can_login) {
                let is_superuser = flag(catalog.is_superuser(&user.name));
                cells.extend([user.name.as_bytes(), &is_superuser, b"ALL"]);
            }
            let text = Type::Utf8;
            columns(
                "users",
                &[("name", text.clone()), ("super", Type::Boolean), ("datacenters", text)],
            )
        }
        RoleListing::Roles { of, recursive } => {
            for entry in of_whom(of, *recursive)? {
                cells.push(Some(entry.name.as_bytes()));
                let (is_superuser, can_login) = (flag(entry.is_superuser), flag(entry.can_login));
                cells.extend([&is_superuser[..], &can_login]);
                // No options.
                cells.push(Some(&[0; 4]));
                cells.push(Some(b"ALL"));
            }
            let options = Type::Map(Arc::new((Type::Utf8, Type::Utf8)));
            let (text, flag) = (Type::Utf8, Type::Boolean);
            let names = ["role", "super", "login", "options", "datacenters"];
            let types = [text.clone(), flag.clone(), flag, options, text];
            columns("roles", &names.into_iter().zip(types).collect::<Vec<_>>())
        }
        RoleListing::Permissions { permissions, resource, of, recursive } => {
            let about = resource.as_ref().map(|r| resource_of(catalog, keyspace, r)).transpose()?;
            let chain: Option<Vec<Resource>> = about.map(|of| match recursive {
                true => of.chain().collect(),
                false => vec![of],
            });
            let wanted = |p: &Permission| permissions.is_empty() || permissions.contains(p);
            for entry in of_whom(of, *recursive)? {
                for (of, all) in &entry.permissions {
                    if chain.as_ref().is_some_and(|chain| !chain.contains(of)) {
                        continue;
                    }
                    for permission in all.iter().filter(|p| wanted(p)) {
                        let name = entry.name.as_bytes();
                        let (of, word) = (of.to_string(), permission.word().as_bytes());
                        cells.extend([name, name, of.as_bytes(), word]);
                    }
                }
            }
            let names = ["role", "username", "resource", "permission"];
            columns("permissions", &names.map(|name| (name, Type::Utf8)))
        }
    };
    Ok(Rows::new(columns.into(), cells))
}
