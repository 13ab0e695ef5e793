//! Partitions of batches, and whether the conditions of a batch allow them.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_cql::internals::catalog::TableSchema;
use firn_cql::internals::syntax::ast::{
    ChangeClause, ChangeGuard, Comparison, Inserted, Relation, Term, TermKind, TermPrimary,
};

/// Reports whether a change has a condition.
pub fn is_conditional(change: &ChangeClause<'_>) -> bool {
    match change {
        ChangeClause::Insert(s) => s.if_not_exists,
        ChangeClause::Update(s) => s.guard != ChangeGuard::None,
        ChangeClause::Delete(s) => s.guard != ChangeGuard::None,
    }
}

/// Reports whether a batch has a condition and names several partitions, judging by constants.
pub fn conditions_span(changes: &[ChangeClause<'_>], tables: &[Arc<TableSchema>]) -> bool {
    if !changes.iter().any(is_conditional) {
        return false;
    }
    let named = changes.iter().zip(tables).filter_map(|(change, table)| {
        let columns = table.partition().iter().map(|c| constant_of(change, &c.name));
        Some((table.id, columns.collect::<Option<Vec<String>>>()?))
    });
    named.collect::<BTreeSet<_>>().len() > 1
}

/// Returns the constant that a change assigns to a column of its key.
fn constant_of(change: &ChangeClause<'_>, column: &str) -> Option<String> {
    let term: &Term<'_> = match change {
        ChangeClause::Insert(s) => {
            let Inserted::Values { columns, values } = &s.what else { return None };
            columns.iter().zip(values).find(|(name, _)| name.text == column)?.1
        }
        ChangeClause::Update(s) => equal_to(&s.relations, column)?,
        ChangeClause::Delete(s) => equal_to(&s.relations, column)?,
    };
    matches!(term.kind, TermKind::Primary(TermPrimary::Constant(_))).then(|| term.to_string())
}

fn equal_to<'r, 'a>(relations: &'r [Relation<'a>], column: &str) -> Option<&'r Term<'a>> {
    relations.iter().find_map(|relation| match relation {
        Relation::Compare { column: name, comparison: Comparison::Eq, value }
            if name.text == column =>
        {
            Some(value)
        }
        _ => None,
    })
}
