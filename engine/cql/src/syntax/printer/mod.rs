//! Prints syntax trees. The text has canonical spelling: keywords in upper case, names quoted only
//! if necessary, one space between tokens. Parsing it returns the same tree.

mod change;
mod define;
mod expression;
mod function;
mod pieces;
mod role;
mod select;
mod term;
mod view;

use crate::syntax::ast::Drop;
use pieces::{Joined, PrintedPairs, list, opt, qualified, quoted, string};
use std::borrow::Cow;
use std::fmt::{Display, Formatter, Result};

use super::ast::{AstName, QualifiedName, Statement};
use super::keyword::{Keyword, KeywordClass};

/// Returns the name in CQL syntax: unchanged, or in double quotes.
pub fn quote_if_needed(name: &str) -> Cow<'_, str> {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    // JSON and DISTINCT are names, except at the begin of a selection.
    let keyword = match Keyword::of(name) {
        Some(Keyword::Json | Keyword::Distinct) => true,
        Some(keyword) => keyword.class() == KeywordClass::Reserved,
        None => false,
    };
    if plain && !keyword { Cow::Borrowed(name) } else { Cow::Owned(quoted(name)) }
}

/// Returns the name of a user type in CQL syntax. Words that are types or may begin a type are also
/// quoted.
pub fn quote_type_if_needed(name: &str) -> Cow<'_, str> {
    if Keyword::of(name).is_some() { Cow::Owned(quoted(name)) } else { quote_if_needed(name) }
}

impl Display for AstName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&quote_if_needed(&self.text))
    }
}

impl Display for QualifiedName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        qualified(f, self, |_| false)
    }
}

impl Display for Statement<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Statement::Use(name) => write!(f, "USE {name}"),
            Statement::CreateKeyspace(s) => s.fmt(f),
            Statement::AlterKeyspace(s) => {
                write!(
                    f,
                    "ALTER KEYSPACE {}{} WITH {}",
                    opt(s.if_exists, "IF EXISTS "),
                    s.name,
                    Joined(&s.properties, " AND ")
                )
            }
            Statement::DropKeyspace(d) => dropped(f, "KEYSPACE", d),
            Statement::CreateTable(s) => s.fmt(f),
            Statement::AlterTable(s) => s.fmt(f),
            Statement::DropTable(d) => dropped(f, "TABLE", d),
            Statement::Truncate(name) => write!(f, "TRUNCATE TABLE {name}"),
            Statement::CreateView(s) => s.fmt(f),
            Statement::AlterView(s) => s.fmt(f),
            Statement::DropView(d) => dropped(f, "MATERIALIZED VIEW", d),
            Statement::CreateIndex(s) => s.fmt(f),
            Statement::DropIndex(d) => dropped(f, "INDEX", d),
            Statement::CreateType(s) => s.fmt(f),
            Statement::AlterType(s) => s.fmt(f),
            Statement::DropType(d) => {
                write!(f, "DROP TYPE {}", opt(d.if_exists, "IF EXISTS "))?;
                define::user_type(f, &d.name)
            }
            Statement::CreateFunction(s) => s.fmt(f),
            Statement::CreateAggregate(s) => s.fmt(f),
            Statement::DropFunction(d) => dropped(f, "FUNCTION", d),
            Statement::DropAggregate(d) => dropped(f, "AGGREGATE", d),
            Statement::Describe(s) => s.fmt(f),
            Statement::CreateRole(s) => s.print(f, true),
            Statement::AlterRole(s) => s.print(f, false),
            Statement::DropRole(d) => dropped(f, "ROLE", d),
            Statement::GrantRole(s) => s.fmt(f),
            Statement::GrantPermissions(s) => s.fmt(f),
            Statement::ListRoles(s) => s.fmt(f),
            Statement::Change(s) => s.fmt(f),
            Statement::Batch(s) => s.fmt(f),
            Statement::Select(s) => s.fmt(f),
        }
    }
}

fn dropped<N: Display>(f: &mut Formatter<'_>, what: &str, statement: &Drop<N>) -> Result {
    write!(f, "DROP {what} {}{}", opt(statement.if_exists, "IF EXISTS "), statement.name)
}
