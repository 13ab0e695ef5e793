//! Roles and permissions.

use std::borrow::Cow;

use super::{AstName, QualifiedName, TypeSyntax};

/// `CREATE ROLE`, `ALTER ROLE`; a `USER` is a role with login.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
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

/// A permission on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Permission {
    Create,
    Alter,
    Drop,
    Select,
    Modify,
    Authorize,
    Describe,
    Execute,
    /// Permission to see the values of masked columns.
    Unmask,
    /// Permission to select rows by the values of masked columns.
    SelectMasked,
}

impl Permission {
    /// All permissions, in the order in which Cassandra lists them.
    pub const ALL: [Permission; 10] = [
        Permission::Create,
        Permission::Alter,
        Permission::Drop,
        Permission::Select,
        Permission::Modify,
        Permission::Authorize,
        Permission::Describe,
        Permission::Execute,
        Permission::Unmask,
        Permission::SelectMasked,
    ];

    /// Returns its keyword in statements and in `system_auth.role_permissions`.
    pub fn word(self) -> &'static str {
        match self {
            Permission::Create => "CREATE",
            Permission::Alter => "ALTER",
            Permission::Drop => "DROP",
            Permission::Select => "SELECT",
            Permission::Modify => "MODIFY",
            Permission::Authorize => "AUTHORIZE",
            Permission::Describe => "DESCRIBE",
            Permission::Execute => "EXECUTE",
            Permission::Unmask => "UNMASK",
            Permission::SelectMasked => "SELECT_MASKED",
        }
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
#[allow(missing_docs)]
pub struct PermissionChange<'a> {
    pub grants: bool,
    /// Empty for `ALL PERMISSIONS`: those that apply to the resource.
    pub permissions: Vec<Permission>,
    pub resource: ResourceName<'a>,
    pub role: AstName<'a>,
}

/// `GRANT role TO role`, `REVOKE role FROM role`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RoleGrant<'a> {
    pub grants: bool,
    pub role: AstName<'a>,
    /// Role that gets or loses the membership.
    pub member: AstName<'a>,
}

/// `LIST ROLES`, `LIST USERS`, `LIST … PERMISSIONS`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
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
