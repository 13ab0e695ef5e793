//! Row filters: conditions on values that keys and clustering columns do not cover.

use std::cmp::Ordering;

use firn_wide::Type;

use crate::catalog::TextTest;
use crate::error::Result;
use crate::values::split;

/// Values of a row, by the index of the column in
/// [`Table::columns`](crate::catalog::TableSchema::columns).
pub trait RowValues {
    /// Returns the value; `None` is null.
    fn value(&self, column: usize) -> Option<&[u8]>;
}

/// The test of one condition, on the values of its columns in order.
#[derive(Clone, Debug)]
pub(super) enum FilterTest {
    In(Vec<Vec<Vec<u8>>>),
    Range { start: Option<(Vec<Vec<u8>>, bool)>, end: Option<(Vec<Vec<u8>>, bool)> },
    Contains { values: Vec<Vec<u8>>, keys: Vec<Vec<u8>>, entries: Vec<(Vec<u8>, Vec<u8>)> },
    Text(TextTest),
}

#[derive(Clone, Debug)]
pub(super) struct FilterCondition {
    /// Columns with their types.
    pub columns: Vec<(usize, Type)>,
    pub test: FilterTest,
}

/// Conditions, all of which a row must meet.
#[derive(Clone, Debug, Default)]
pub struct RowFilter(pub(super) Vec<FilterCondition>);

impl RowFilter {
    /// Reports whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether a row meets all conditions. Null meets none.
    ///
    /// # Errors
    /// Errors for a truncated collection.
    pub fn accepts(&self, row: &impl RowValues) -> Result<bool> {
        for condition in &self.0 {
            if !condition.holds(row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl FilterCondition {
    /// Compares the row's values with these; returns `None` if one is null.
    fn compare(&self, row: &impl RowValues, with: &[Vec<u8>]) -> Option<Ordering> {
        let mut order = Ordering::Equal;
        for ((column, of), other) in self.columns.iter().zip(with) {
            order = order.then(of.compare(row.value(*column)?, other));
        }
        Some(order)
    }

    fn holds(&self, row: &impl RowValues) -> Result<bool> {
        Ok(match &self.test {
            FilterTest::In(choices) => {
                choices.iter().any(|c| self.compare(row, c) == Some(Ordering::Equal))
            }
            FilterTest::Range { start, end } => {
                let after = start.as_ref().is_none_or(|(values, inclusive)| {
                    match self.compare(row, values) {
                        Some(Ordering::Greater) => true,
                        Some(Ordering::Equal) => *inclusive,
                        _ => false,
                    }
                });
                after
                    && end.as_ref().is_none_or(|(values, inclusive)| {
                        match self.compare(row, values) {
                            Some(Ordering::Less) => true,
                            Some(Ordering::Equal) => *inclusive,
                            _ => false,
                        }
                    })
            }
            FilterTest::Text(test) => {
                row.value(self.columns[0].0).is_some_and(|value| test.holds(value))
            }
            FilterTest::Contains { values, keys, entries } => {
                let (column, of) = &self.columns[0];
                let Some(bytes) = row.value(*column) else { return Ok(false) };
                let parts = split(of, bytes)?;
                holds_all(of, &parts, values, keys, entries)
            }
        })
    }
}

fn holds_all(
    of: &Type,
    parts: &[Option<&[u8]>],
    values: &[Vec<u8>],
    keys: &[Vec<u8>],
    entries: &[(Vec<u8>, Vec<u8>)],
) -> bool {
    let same = |of: &Type, a: Option<&[u8]>, b: &[u8]| {
        a.is_some_and(|a| of.compare(a, b) == Ordering::Equal)
    };
    match of {
        Type::List(e) | Type::Set(e) => {
            keys.is_empty()
                && entries.is_empty()
                && values.iter().all(|v| parts.iter().any(|p| same(e, *p, v)))
        }
        Type::Map(kv) => {
            let pairs = || parts.chunks_exact(2);
            values.iter().all(|v| pairs().any(|p| same(&kv.1, p[1], v)))
                && keys.iter().all(|k| pairs().any(|p| same(&kv.0, p[0], k)))
                && entries
                    .iter()
                    .all(|(k, v)| pairs().any(|p| same(&kv.0, p[0], k) && same(&kv.1, p[1], v)))
        }
        _ => false,
    }
}
