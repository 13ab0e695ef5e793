//! User-defined functions and aggregates.

use std::fmt::{Display, Formatter, Result};

use super::{list, opt, qualified, quoted, string};
use crate::syntax::ast::{AstName, CreateAggregate, CreateFunction, Overload, QualifiedName};
use crate::syntax::keyword::{Keyword, KeywordClass};

fn needs_quotes(keyword: Keyword) -> bool {
    keyword.class() == KeywordClass::Name && keyword != Keyword::Count
}

pub(super) fn function(f: &mut Formatter<'_>, name: &QualifiedName<'_>) -> Result {
    qualified(f, name, needs_quotes)
}

fn word(f: &mut Formatter<'_>, name: &AstName<'_>) -> Result {
    if Keyword::of(&name.text).is_some_and(needs_quotes) {
        f.write_str(&quoted(&name.text))
    } else {
        name.fmt(f)
    }
}

impl Display for CreateFunction<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "CREATE {}FUNCTION {}",
            opt(self.or_replace, "OR REPLACE "),
            opt(self.if_not_exists, "IF NOT EXISTS ")
        )?;
        function(f, &self.name)?;
        f.write_str("(")?;
        for (i, (name, of)) in self.arguments.iter().enumerate() {
            write!(f, "{}{name} {of}", opt(i > 0, ", "))?;
        }
        let on_null = if self.called_on_null { "CALLED" } else { "RETURNS NULL" };
        write!(
            f,
            ") {on_null} ON NULL INPUT RETURNS {} LANGUAGE {} AS ",
            self.result, self.language
        )?;
        string(f, &self.body)
    }
}

impl Display for CreateAggregate<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "CREATE {}AGGREGATE {}",
            opt(self.or_replace, "OR REPLACE "),
            opt(self.if_not_exists, "IF NOT EXISTS ")
        )?;
        function(f, &self.name)?;
        write!(f, "({}) SFUNC ", list(&self.arguments))?;
        word(f, &self.state_function)?;
        write!(f, " STYPE {}", self.state)?;
        if let Some(name) = &self.final_function {
            f.write_str(" FINALFUNC ")?;
            word(f, name)?;
        }
        match &self.initial {
            Some(initial) => write!(f, " INITCOND {initial}"),
            None => Ok(()),
        }
    }
}

impl Display for Overload<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        function(f, &self.name)?;
        match &self.arguments {
            Some(types) => write!(f, "({})", list(types)),
            None => Ok(()),
        }
    }
}
