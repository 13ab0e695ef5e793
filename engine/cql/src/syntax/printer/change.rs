//! `INSERT`, `UPDATE`, `DELETE`, `BATCH`.

use std::fmt::{Display, Formatter, Result};

use super::{Joined, list, opt};
use crate::syntax::ast::{
    Assign, Assignment, BatchKind, BatchStatement, ChangeClause, ChangeGuard, ChangeTarget,
    ChangeTest, Condition, ConditionPart, Delete, Insert, InsertValues, Inserted, Relation, Term,
    TermKind, TermPrimary, Update, Using,
};

impl Display for ChangeClause<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            ChangeClause::Insert(s) => s.fmt(f),
            ChangeClause::Update(s) => s.fmt(f),
            ChangeClause::Delete(s) => s.fmt(f),
        }
    }
}

impl Display for Insert<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "INSERT INTO {}", self.table)?;
        match &self.what {
            Inserted::Values { columns, values } => {
                write!(f, " ({}) VALUES ({})", list(columns), list(values))?
            }
            Inserted::Json { value, default_unset } => {
                write!(f, " JSON {value}{}", opt(*default_unset, " DEFAULT UNSET"))?
            }
        }
        write!(f, "{}{}", opt(self.if_not_exists, " IF NOT EXISTS"), self.using)
    }
}

impl Display for Using<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match (&self.timestamp, &self.ttl) {
            (None, None) => Ok(()),
            (Some(timestamp), None) => write!(f, " USING TIMESTAMP {timestamp}"),
            (None, Some(ttl)) => write!(f, " USING TTL {ttl}"),
            (Some(timestamp), Some(ttl)) if marker(timestamp) > marker(ttl) => {
                write!(f, " USING TTL {ttl} AND TIMESTAMP {timestamp}")
            }
            (Some(timestamp), Some(ttl)) => write!(f, " USING TIMESTAMP {timestamp} AND TTL {ttl}"),
        }
    }
}

/// Returns the number of a marker: markers are printed in this order.
fn marker(term: &Term<'_>) -> Option<u16> {
    if let TermKind::Primary(TermPrimary::Marker(marker)) = &term.kind {
        Some(marker.index)
    } else {
        None
    }
}

pub(super) fn where_clause(f: &mut Formatter<'_>, relations: &[Relation<'_>]) -> Result {
    write!(f, "{}{}", opt(!relations.is_empty(), " WHERE "), Joined(relations, " AND "))
}

impl Display for Update<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "UPDATE {}{} SET {}", self.table, self.using, list(&self.assignments))?;
        where_clause(f, &self.relations)?;
        self.guard.fmt(f)
    }
}

impl Display for Assignment<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let column = &self.column;
        match &self.operation {
            Assign::Set(value) => write!(f, "{column} = {value}"),
            Assign::Append(value) => write!(f, "{column} = {column} + {value}"),
            Assign::Remove(value) => write!(f, "{column} = {column} - {value}"),
            Assign::Prepend(value) => write!(f, "{column} = {value} + {column}"),
            Assign::Element { key, value } => write!(f, "{column}[{key}] = {value}"),
            Assign::Field { field, value } => write!(f, "{column}.{field} = {value}"),
        }
    }
}

impl Display for Delete<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "DELETE {}{}FROM {}",
            list(&self.targets),
            opt(!self.targets.is_empty(), " "),
            self.table
        )?;
        if let Some(timestamp) = &self.timestamp {
            write!(f, " USING TIMESTAMP {timestamp}")?;
        }
        where_clause(f, &self.relations)?;
        self.guard.fmt(f)
    }
}

impl Display for ChangeTarget<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.part {
            ConditionPart::Whole => self.column.fmt(f),
            ConditionPart::Element(key) => write!(f, "{}[{key}]", self.column),
            ConditionPart::Field(field) => write!(f, "{}.{field}", self.column),
        }
    }
}

impl Display for ChangeGuard<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            ChangeGuard::None => Ok(()),
            ChangeGuard::Exists => f.write_str(" IF EXISTS"),
            ChangeGuard::Conditions(conditions) => write!(f, " IF {}", Joined(conditions, " AND ")),
        }
    }
}

impl Display for Condition<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let target = &self.target;
        match &self.test {
            ChangeTest::Compare(comparison, value) => {
                write!(f, "{target} {} {value}", comparison.sign())
            }
            ChangeTest::In(values) => write!(f, "{target} IN {values}"),
            ChangeTest::Contains(value) => write!(f, "{target} CONTAINS {value}"),
            ChangeTest::ContainsKey(key) => write!(f, "{target} CONTAINS KEY {key}"),
        }
    }
}

impl Display for InsertValues<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            InsertValues::List(values) => write!(f, "({})", list(values)),
            InsertValues::Marker(marker) => marker.fmt(f),
        }
    }
}

impl Display for BatchStatement<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let kind = match self.kind {
            BatchKind::Logged => "",
            BatchKind::Unlogged => "UNLOGGED ",
            BatchKind::Counter => "COUNTER ",
        };
        write!(f, "BEGIN {kind}BATCH{}", self.using)?;
        self.changes.iter().try_for_each(|change| write!(f, " {change};"))?;
        f.write_str(" APPLY BATCH")
    }
}
