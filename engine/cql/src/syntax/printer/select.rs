//! `SELECT` and relations.

use std::fmt::{Display, Formatter, Result};

use super::change::where_clause;
use super::{list, opt};
use crate::syntax::ast::{About, Relation, Select, Selected, SelectorKind, SelectorPrimary};

impl Display for Select<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "SELECT {}{}", opt(self.json, "JSON "), opt(self.distinct, "DISTINCT "))?;
        if self.selection.is_empty() {
            f.write_str("*")?
        } else {
            list(&self.selection).fmt(f)?
        }
        write!(f, " FROM {}", self.table)?;
        where_clause(f, &self.relations)?;
        write!(f, "{}{}", opt(!self.group_by.is_empty(), " GROUP BY "), list(&self.group_by))?;
        write!(f, "{}{}", opt(!self.order_by.is_empty(), " ORDER BY "), list(&self.order_by))?;
        if let Some(limit) = &self.per_partition_limit {
            write!(f, " PER PARTITION LIMIT {limit}")?;
        }
        if let Some(limit) = &self.limit {
            write!(f, " LIMIT {limit}")?;
        }
        f.write_str(opt(self.allow_filtering, " ALLOW FILTERING"))
    }
}

impl Display for Selected<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.selector.fmt(f)?;
        self.alias.iter().try_for_each(|alias| write!(f, " AS {alias}"))
    }
}

impl Display for SelectorPrimary<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            SelectorPrimary::Column(name) => name.fmt(f),
            SelectorPrimary::Term(term) => term.fmt(f),
            SelectorPrimary::CountRows => f.write_str("count(*)"),
            SelectorPrimary::About(about, of) => write!(f, "{about}({of})"),
            // Without the space, a number's dot and this one would form a range.
            SelectorPrimary::Field(field)
                if matches!(field.0.kind, SelectorKind::Primary(SelectorPrimary::Term(_))) =>
            {
                write!(f, "{} .{}", field.0, field.1)
            }
            SelectorPrimary::Field(field) => write!(f, "{}.{}", field.0, field.1),
            SelectorPrimary::Element(element) => write!(f, "{}[{}]", element.0, element.1),
            SelectorPrimary::Slice(slice) => {
                let (of, from, to) = &**slice;
                write!(f, "{of}[")?;
                from.iter().try_for_each(|from| from.fmt(f))?;
                f.write_str("..")?;
                to.iter().try_for_each(|to| to.fmt(f))?;
                f.write_str("]")
            }
        }
    }
}

impl Display for About {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self.word())
    }
}

impl Display for Relation<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Relation::Compare { column, comparison, value } => {
                write!(f, "{column} {} {value}", comparison.sign())
            }
            Relation::In { column, values } => write!(f, "{column} IN {values}"),
            Relation::Contains { column, value } => write!(f, "{column} CONTAINS {value}"),
            Relation::ContainsKey { column, key } => write!(f, "{column} CONTAINS KEY {key}"),
            Relation::Element { column, key, comparison, value } => {
                write!(f, "{column}[{key}] {} {value}", comparison.sign())
            }
            Relation::Like { column, pattern } => write!(f, "{column} LIKE {pattern}"),
            Relation::NotNull { column } => write!(f, "{column} IS NOT NULL"),
            Relation::Token { columns, comparison, value, .. } => {
                write!(f, "token({}) {} {value}", list(columns), comparison.sign())
            }
            Relation::Tuple { columns, comparison, value, .. } => {
                write!(f, "({}) {} {value}", list(columns), comparison.sign())
            }
            Relation::TupleIn { columns, values, .. } => {
                write!(f, "({}) IN {values}", list(columns))
            }
        }
    }
}
