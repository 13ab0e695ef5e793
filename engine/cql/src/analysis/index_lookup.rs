//! Chooses the index lookups for a `WHERE` clause.
//!
//! Invariant: a lookup finds all matching rows. It may find more, which the filter removes.

use std::ops::Bound as End;

use super::relation::{RelationKind, Restriction, Tuple};
use super::restrictions::{IndexLookup, IndexUse, Restrictions};
use crate::catalog::{ColumnKind, IndexTarget, TableIndex, TextAnalyzer, TextMatch, TextTest};
use crate::error::{Result, bail_if, invalid};
use crate::values::{BoundTerm, BoundValue, EvalEnv};

impl Restrictions {
    /// Returns the index lookups, each of which finds all matching rows. Empty if the rows are
    /// found by keys or by reading all of them. Found rows must still pass the filter.
    ///
    /// # Errors
    /// Those of [`keys`](Restrictions::keys).
    pub fn indexes(&self, env: &EvalEnv<'_>) -> Result<Vec<IndexUse>> {
        let mut all = vec![];
        if !self.uses_index() {
            return Ok(all);
        }
        for restriction in self.all().filter(|r| !(r.is_multi && r.is_slice())) {
            for index in self.indexes_for(restriction).filter(|i| i.is_stored(&self.table)) {
                let Some(lookup) = self.lookup(restriction, index, env)? else { continue };
                let kind = self.table.columns()[restriction.first()].kind;
                let finds_partitions = matches!(kind, ColumnKind::Partition | ColumnKind::Static);
                all.push(IndexUse { id: index.id, lookup, finds_partitions });
            }
        }
        Ok(all)
    }

    fn lookup(
        &self,
        restriction: &Restriction,
        index: &TableIndex,
        env: &EvalEnv<'_>,
    ) -> Result<Option<IndexLookup>> {
        let name = &*self.table.columns()[restriction.first()].name;
        let range = |from, until, test| Ok(Some(IndexLookup::Range { from, until, test }));
        let (key, value) = match (&restriction.what, index.target) {
            (RelationKind::Eq(tuple), _) => {
                let columns = self.table.columns();
                let names: Vec<&str> =
                    restriction.columns.iter().map(|c| &*columns[*c].name).collect();
                let values = asked(tuple, env, &names)?;
                if let Some(test) = self.analyzed(restriction, &values) {
                    return range(End::Unbounded, End::Unbounded, Some(test));
                }
                let of = names.iter().position(|name| *name == index.column);
                (None, values.into_iter().nth(of.unwrap_or(0)).unwrap_or_default())
            }
            (RelationKind::Slice { start, end }, _) => {
                let side = |side: &Option<(Tuple, bool)>| {
                    let Some((tuple, inclusive)) = side else { return Ok(End::Unbounded) };
                    let value = asked(tuple, env, &[name])?.into_iter().next().unwrap_or_default();
                    Ok::<_, crate::error::Error>(match inclusive {
                        true => End::Included(value),
                        false => End::Excluded(value),
                    })
                };
                return range(side(start)?, side(end)?, None);
            }
            (RelationKind::Like(pattern), _) => {
                let test = self.pattern(restriction, pattern, env)?;
                let Some(prefix) = test.prefix() else {
                    return range(End::Unbounded, End::Unbounded, Some(test));
                };
                let from = End::Included(prefix.to_vec());
                let until = end_of_prefix(prefix).map_or(End::Unbounded, End::Excluded);
                return range(from, until, Some(test));
            }
            (RelationKind::Contains { keys, .. }, IndexTarget::Keys) => {
                (None, wanted(keys[0].eval(env)?, "value", name)?)
            }
            (RelationKind::Contains { entries, .. }, IndexTarget::Entries) => {
                let (key, value) = &entries[0];
                (
                    Some(wanted(key.eval(env)?, "map key", name)?),
                    wanted(value.eval(env)?, "map value", name)?,
                )
            }
            (RelationKind::Contains { values, .. }, _) => {
                (None, wanted(values[0].eval(env)?, "value", name)?)
            }
            (RelationKind::In(_), _) => return Ok(None),
        };
        Ok(Some(IndexLookup::Equal(index.key_for(key.as_deref(), &value).into_owned())))
    }

    /// Returns the test for a value, if an index analyzes the values of its column.
    pub(super) fn analyzed(
        &self,
        restriction: &Restriction,
        values: &[Vec<u8>],
    ) -> Option<TextTest> {
        if !self.uses_index() || restriction.columns.len() != 1 {
            return None;
        }
        let found = self.indexes_for(restriction).map(TableIndex::analyzer);
        let analyzer = found.into_iter().find(|a| !a.is_plain())?;
        Some(TextTest::new(analyzer, TextMatch::Whole, values.first()?))
    }

    /// Returns the test for a `LIKE` pattern, by the first index that supports it.
    pub(super) fn pattern(
        &self,
        restriction: &Restriction,
        pattern: &BoundTerm,
        env: &EvalEnv<'_>,
    ) -> Result<TextTest> {
        let pattern = pattern.eval(env)?.into_bytes().unwrap_or_default();
        let (place, term) = TextMatch::of_pattern(&pattern);
        bail_if!(term.is_empty(), "LIKE value can't be empty.");
        let mut known = self.indexes_for(restriction).filter(|i| i.finds_like(place));
        let name = &self.table.columns()[restriction.first()].name;
        let analyzer: Option<TextAnalyzer> = known.next().map(TableIndex::analyzer);
        let analyzer = analyzer.ok_or_else(|| {
            let term = String::from_utf8_lossy(term);
            invalid!(
                "{name} LIKE '{}' {term} is only supported on properly indexed columns",
                place.shown()
            )
        })?;
        Ok(TextTest::new(analyzer, place, term))
    }
}

/// Returns the smallest byte string after all that begin with this prefix.
fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|b| *b < 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Returns the value for a condition or an index lookup; refuses null and unset. `what` names its
/// role in the column.
pub(super) fn wanted(value: BoundValue, what: &str, column: &str) -> Result<Vec<u8>> {
    match value {
        BoundValue::Bytes(bytes) => Ok(bytes),
        BoundValue::Null => Err(invalid!("Unsupported null {what} for column {column}")),
        BoundValue::Unset => Err(invalid!("Unsupported unset {what} for column {column}")),
    }
}

/// Returns the term of a relation on one column.
fn only<'t>(tuple: &'t Tuple, columns: &[&str]) -> Option<&'t BoundTerm> {
    match (tuple, columns) {
        (Tuple::Each(terms), [_]) if terms.len() == 1 => terms.first(),
        _ => None,
    }
}

/// Returns one of the values of `IN`; `None` for null and unset, which match nothing.
pub(super) fn choice(
    tuple: &Tuple,
    env: &EvalEnv<'_>,
    columns: &[&str],
) -> Result<Option<Vec<Vec<u8>>>> {
    let Some(term) = only(tuple, columns) else { return asked(tuple, env, columns).map(Some) };
    Ok(term.eval(env)?.into_bytes().map(|bytes| vec![bytes]))
}

/// Returns the values of a relation on one or several columns; refuses null and unset.
pub(super) fn asked(tuple: &Tuple, env: &EvalEnv<'_>, columns: &[&str]) -> Result<Vec<Vec<u8>>> {
    if let Some(term) = only(tuple, columns) {
        return Ok(vec![wanted(term.eval(env)?, "value", columns[0])?]);
    }
    let values = tuple.eval(env, columns)?.into_iter().zip(columns);
    values.map(|(value, column)| wanted(value.into(), "value", column)).collect()
}
