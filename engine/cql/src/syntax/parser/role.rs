//! Roles: `CREATE ROLE` and similar statements, `GRANT`, `REVOKE`, `LIST`. Words used only in these
//! statements are not keywords, and can be names elsewhere.

use std::borrow::Cow;

use super::CqlParser;
use super::rule::{Expect, Rule};
use crate::syntax::ast::{
    AstName, Drop, Permission, PermissionChange, Pos, ResourceName, RoleDefinition, RoleGrant,
    RoleListing, Statement,
};
use crate::syntax::keyword::Keyword;
use crate::syntax::lexer::Tok;

impl<'a> CqlParser<'a> {
    /// Parses a role: a name, or a text in quotes.
    fn role_name(&mut self) -> Rule<AstName<'a>> {
        if Self::is_name(self.token.kind) {
            return self.name("a role");
        }
        let token = self.token;
        let text = self.string("a role")?;
        if text.is_empty() {
            return self.fail(token, "Role name can't be an empty string");
        }
        Ok(AstName { text, at: Pos(token.start) })
    }

    /// Parses `ROLE` or `USER` after `CREATE` and `ALTER`; returns `None` for another word.
    pub(super) fn role_definition(&mut self, creates: bool) -> Rule<Option<RoleDefinition<'a>>> {
        let is_user = self.at_word("user");
        if !is_user && !self.at_word("role") {
            return Ok(None);
        }
        self.bump();
        let conditional = if creates { self.if_not_exists()? } else { self.if_exists()? };
        let mut role = RoleDefinition {
            conditional,
            name: self.role_name()?,
            password: None,
            hashed: None,
            // A new user can log in and is not a superuser.
            login: (is_user && creates).then_some(true),
            superuser: (is_user && creates).then_some(false),
        };
        let has_options = self.eat_kw(Keyword::With);
        if is_user {
            if has_options {
                self.user_password(&mut role)?;
            }
            if self.eat_word("superuser") {
                role.superuser = Some(true);
            } else if self.eat_word("nosuperuser") {
                role.superuser = Some(false);
            }
        } else if has_options {
            self.role_option(&mut role)?;
            while self.eat_kw(Keyword::And) {
                self.role_option(&mut role)?;
            }
        }
        Ok(Some(role))
    }

    fn user_password(&mut self, role: &mut RoleDefinition<'a>) -> Rule<()> {
        let hashed = self.eat_word("hashed");
        self.expect_word("password")?;
        let text = self.string("a password in quotes")?;
        if hashed {
            role.hashed = Some(text)
        } else {
            role.password = Some(text)
        }
        Ok(())
    }

    fn role_option(&mut self, role: &mut RoleDefinition<'a>) -> Rule<()> {
        let token = self.token;
        let hashed = self.eat_word("hashed");
        if hashed && !self.at_word("password") {
            self.expect_word("password")?;
        }
        let twice = if self.eat_word("password") {
            self.expect(Tok::Eq)?;
            let text: Cow<'a, str> = self.string("a password in quotes")?;
            let slot = if hashed { &mut role.hashed } else { &mut role.password };
            slot.replace(text).is_some()
        } else if self.eat_word("login") {
            let value = self.flag()?;
            role.login.replace(value).is_some()
        } else if self.eat_word("superuser") {
            let value = self.flag()?;
            role.superuser.replace(value).is_some()
        } else if self.eat_word("access") {
            return self.access();
        } else if self.at_word("options") {
            return self.fail(token, "There are no OPTIONS of roles here");
        } else {
            let hint = "a role has PASSWORD, HASHED PASSWORD, LOGIN, SUPERUSER and ACCESS to and from all here";
            return self.unexpected_with(Some(hint.to_owned()));
        };
        if twice {
            return self.fail(token, "Multiple definition for a property of a role");
        }
        Ok(())
    }

    /// Parses access restrictions. `ALL` has no effect; other values are refused with their own
    /// message.
    fn access(&mut self) -> Rule<()> {
        let (all, what) = if self.eat_kw(Keyword::To) {
            (self.eat_word("all"), "DATACENTERS")
        } else {
            self.expect_kw(Keyword::From)?;
            (self.eat_word("all"), "CIDRS")
        };
        let token = self.token;
        self.expect_word(what)?;
        match all {
            true => Ok(()),
            false => self.fail(token, format!("There is no access by {what} here: all have it")),
        }
    }

    fn flag(&mut self) -> Rule<bool> {
        self.expect(Tok::Eq)?;
        if self.eat_kw(Keyword::True) {
            return Ok(true);
        }
        self.expect_kw(Keyword::False).map(|_| false)
    }

    /// Parses `ROLE` or `USER` after `DROP`; returns `None` for another word.
    pub(super) fn dropped_role(&mut self) -> Rule<Option<Statement<'a>>> {
        if !self.at_word("user") && !self.at_word("role") {
            return Ok(None);
        }
        self.bump();
        let if_exists = self.if_exists()?;
        Ok(Some(Statement::DropRole(Drop { if_exists, name: self.role_name()? })))
    }

    /// Parses `GRANT …` and `REVOKE …`.
    pub(super) fn grant(&mut self) -> Rule<Statement<'a>> {
        let grants = self.bump().kind == Tok::Kw(Keyword::Grant);
        let towards = if grants { Keyword::To } else { Keyword::From };
        let is_permission = self.at_word("all") || self.permission().is_some();
        // A role may have the name of a permission that is not a keyword.
        if !is_permission || self.ahead.kind == Tok::Kw(towards) {
            let role = self.role_name()?;
            self.expect_kw(towards)?;
            let member = self.role_name()?;
            return Ok(Statement::GrantRole(RoleGrant { grants, role, member }));
        }
        let permissions = self.permissions()?;
        self.expect_kw(Keyword::On)?;
        let resource = self.resource()?;
        self.expect_kw(towards)?;
        let role = self.role_name()?;
        Ok(Statement::GrantPermissions(PermissionChange { grants, permissions, resource, role }))
    }

    /// Returns the permission that the next word names.
    fn permission(&self) -> Option<Permission> {
        let may_be = matches!(self.token.kind, Tok::Ident | Tok::Kw(_));
        let is = |p: &Permission| self.slice().eq_ignore_ascii_case(p.word());
        Permission::ALL.into_iter().find(|p| may_be && is(p))
    }

    /// Parses `ALL [PERMISSIONS]`, or permissions by name.
    fn permissions(&mut self) -> Rule<Vec<Permission>> {
        if self.eat_word("all") {
            let _ = self.eat_word("permissions") || self.eat_word("permission");
            return Ok(vec![]);
        }
        let mut all = vec![];
        loop {
            let Some(permission) = self.permission() else {
                self.note(Expect::What("a permission"));
                return self.unexpected();
            };
            self.bump();
            let _ = self.eat_word("permission") || self.eat_word("permissions");
            if !all.contains(&permission) {
                all.push(permission);
            }
            if !self.eat(Tok::Comma) {
                return Ok(all);
            }
        }
    }

    fn resource(&mut self) -> Rule<ResourceName<'a>> {
        if self.eat_word("all") {
            if self.eat_kw(Keyword::Keyspaces) {
                return Ok(ResourceName::AllKeyspaces);
            }
            if self.eat_kw(Keyword::Tables) {
                self.expect_kw(Keyword::In)?;
                self.expect_kw(Keyword::Keyspace)?;
                return self.keyspace_name().map(ResourceName::TablesOf);
            }
            if self.at_word("mbeans") {
                return self.no_beans();
            }
            if self.eat_kw(Keyword::Functions) {
                if !self.eat_words(&[Keyword::In, Keyword::Keyspace])? {
                    return Ok(ResourceName::AllFunctions);
                }
                return self.keyspace_name().map(ResourceName::FunctionsOf);
            }
            return self.expect_word("roles").map(|()| ResourceName::AllRoles);
        }
        if self.eat_kw(Keyword::Keyspace) {
            return self.keyspace_name().map(ResourceName::Keyspace);
        }
        if self.at_word("role") && Self::is_name(self.ahead.kind) {
            self.bump();
            return self.role_name().map(ResourceName::Role);
        }
        if self.at_kw(Keyword::Function) && Self::is_name(self.ahead.kind) {
            self.bump();
            let name = self.defined_function()?;
            return Ok(ResourceName::Function(name, self.argument_types()?));
        }
        if matches!(self.ahead.kind, Tok::Str | Tok::DollarStr)
            && (self.at_word("mbean") || self.at_word("mbeans"))
        {
            return self.no_beans();
        }
        let _ = self.eat_table_word();
        self.table_name().map(ResourceName::Table)
    }

    /// Refuses MBeans, which only Java servers have.
    #[cold]
    fn no_beans<T>(&self) -> Rule<T> {
        self.fail(self.token, "There are no MBeans here")
    }

    /// Parses `LIST …`.
    pub(super) fn listing(&mut self) -> Rule<Statement<'a>> {
        self.bump();
        if self.eat_word("users") {
            return Ok(Statement::ListRoles(RoleListing::Users));
        }
        if self.eat_word("roles") {
            let of = self.of_role()?;
            let recursive = !self.eat_kw(Keyword::NoRecursive);
            return Ok(Statement::ListRoles(RoleListing::Roles { of, recursive }));
        }
        let permissions = self.permissions()?;
        let resource = if self.eat_kw(Keyword::On) { Some(self.resource()?) } else { None };
        let of = self.of_role()?;
        let recursive = !self.eat_kw(Keyword::NoRecursive);
        let listing = RoleListing::Permissions { permissions, resource, of, recursive };
        Ok(Statement::ListRoles(listing))
    }

    fn of_role(&mut self) -> Rule<Option<AstName<'a>>> {
        if self.eat_kw(Keyword::Of) { self.role_name().map(Some) } else { Ok(None) }
    }
}
