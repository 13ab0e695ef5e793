//! Roles and permissions.

use crate::syntax::text_enum;
use std::borrow::Cow;

use super::{AstName, QualifiedName, TypeSyntax};

/// `CREATE ROLE`, `ALTER ROLE`; a `USER` is a role with login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleDefinition<'a> {
    /// `IF NOT EXISTS` of `CREATE`, `IF EXISTS` of `ALTER`.
    pub conditional: bool,
    pub name: AstName<'a>,
    pub password: Option<Cow<'a, str>>,
    /// A hash computed elsewhere.
    pub hashed: Option<Cow<'a, str>>,
    pub login: Option<bool>,
    pub superuser: Option<bool>,
}

text_enum! {
    /// A permission on a resource.
    #[derive(PartialOrd, Ord)]
    Permission, word {
        Create "CREATE",
        Alter "ALTER",
        Drop "DROP",
        Select "SELECT",
        Modify "MODIFY",
        Authorize "AUTHORIZE",
        Describe "DESCRIBE",
        Execute "EXECUTE",
        /// Permission to see the values of masked columns.
        Unmask "UNMASK",
        /// Permission to select rows by the values of masked columns.
        SelectMasked "SELECT_MASKED",
    }
}

/// Resource of a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceName<'a> {
    /// `ALL KEYSPACES`
    AllKeyspaces,
    /// `KEYSPACE name`
    Keyspace(AstName<'a>),
    /// `ALL TABLES IN KEYSPACE name`
    TablesOf(AstName<'a>),
    /// `[TABLE] name`
    Table(QualifiedName<'a>),
    /// `ALL ROLES`
    AllRoles,
    /// `ROLE name`
    Role(AstName<'a>),
    /// `ALL FUNCTIONS`
    AllFunctions,
    /// `ALL FUNCTIONS IN KEYSPACE name`
    FunctionsOf(AstName<'a>),
    /// `FUNCTION name(type, …)`; also an aggregate.
    Function(QualifiedName<'a>, Vec<TypeSyntax<'a>>),
}

/// `GRANT … ON … TO …`, `REVOKE … ON … FROM …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionChange<'a> {
    pub grants: bool,
    /// Empty for `ALL PERMISSIONS`: those that apply to the resource.
    pub permissions: Vec<Permission>,
    pub resource: ResourceName<'a>,
    pub role: AstName<'a>,
}

/// `GRANT role TO role`, `REVOKE role FROM role`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleGrant<'a> {
    pub grants: bool,
    pub role: AstName<'a>,
    /// Role that gets or loses the membership.
    pub member: AstName<'a>,
}

/// `LIST ROLES`, `LIST USERS`, `LIST … PERMISSIONS`
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleListing<'a> {
    Users,
    Roles {
        of: Option<AstName<'a>>,
        recursive: bool,
    },
    Permissions {
        /// Empty for all.
        permissions: Vec<Permission>,
        resource: Option<ResourceName<'a>>,
        of: Option<AstName<'a>>,
        recursive: bool,
    },
}
