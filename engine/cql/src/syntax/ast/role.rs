//! Roles, and what they may do.

use std::borrow::Cow;

use super::{AstName, QualifiedName, TypeSyntax};

/// `CREATE ROLE`, `ALTER ROLE`; `USER` is a role that may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RoleDefinition<'a> {
    /// `IF NOT EXISTS` where it is created, `IF EXISTS` where it is changed.
    pub conditional: bool,
    pub name: AstName<'a>,
    pub password: Option<Cow<'a, str>>,
    /// A hash that was made elsewhere.
    pub hashed: Option<Cow<'a, str>>,
    pub login: Option<bool>,
    pub superuser: Option<bool>,
}

/// What a role may do to a resource.
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
    /// To see the values of masked columns.
    Unmask,
    /// To ask for rows by the values of masked columns.
    SelectMasked,
}

impl Permission {
    /// All of them, in the order in which servers list them.
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

    /// Its word in statements and in `system_auth.role_permissions`.
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

/// What permissions are about.
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
    /// `FUNCTION name(type, …)`, an aggregate too
    Function(QualifiedName<'a>, Vec<TypeSyntax<'a>>),
}

/// `GRANT … ON … TO …`, `REVOKE … ON … FROM …`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PermissionChange<'a> {
    pub grants: bool,
    /// Empty: `ALL PERMISSIONS`, those that the resource knows.
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
    /// Who gets it, or loses it.
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
        /// Empty: all.
        permissions: Vec<Permission>,
        resource: Option<ResourceName<'a>>,
        of: Option<AstName<'a>>,
        recursive: bool,
    },
}
