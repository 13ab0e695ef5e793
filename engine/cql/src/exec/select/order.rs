//! Checks of `ORDER BY`, `GROUP BY` and `DISTINCT` (model 3.4).

use firn_wide::Type;

use crate::analysis::Restrictions;
use crate::catalog::{ColumnKind, TableColumn, TableIndex, TableSchema};
use crate::error::{Error, Result, bail, bail_if, invalid};
use crate::syntax::ast::{
    AstName, Ordering, Selector, SelectorKind, SelectorPrimary, Term, TermKind,
};

/// Order of the result rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowOrder {
    /// Whether partitions are read in reverse.
    pub reverse: bool,
    /// Clustering columns by which rows of several partitions are sorted: position, type,
    /// descending. Empty if they are not sorted.
    pub sort: Vec<(usize, Type, bool)>,
}

fn column<'t>(table: &'t TableSchema, name: &AstName<'_>) -> Result<&'t TableColumn> {
    table.known_column(&name.text)
}

/// Returns the column index and the vector of `ANN OF`; `None` if the statement has none.
///
/// # Errors
/// `Invalid` with Cassandra's text.
pub fn nearest<'o>(
    table: &TableSchema,
    orderings: &'o [Ordering<'_>],
) -> Result<Option<(usize, &'o Term<'o>)>> {
    let mut asked = orderings.iter().filter_map(|o| Some((o, o.nearest.as_ref()?)));
    let Some((ordering, term)) = asked.next() else { return Ok(None) };
    let wanted = column(table, &ordering.column)?;
    bail_if!(asked.next().is_some(), "Cannot specify more than one ANN ordering");
    bail_if!(orderings.len() > 1, "ANN ordering does not support any other ordering");
    bail_if!(ordering.descending, "Descending ANN ordering is not supported");
    if !matches!(wanted.of.value_type, Type::Vector(..)) {
        return Err(invalid(match term.kind {
            TermKind::List(_) => format!(
                "Unexpected receiver type '{}'; only list and vector are expected",
                wanted.of
            ),
            _ => "ANN ordering is only supported on float vector indexes".to_owned(),
        }));
    }
    let is_asked = |i: &TableIndex| i.column == wanted.name && i.is_of_vectors(wanted);
    if wanted.is_primary_key() || !table.indexes().iter().any(is_asked) {
        bail!("ANN ordering by vector requires the column to be indexed");
    }
    bail_if!(wanted.is_static(), "ANN ordering by a static column is not supported");
    let number = table.columns().iter().position(|c| c.name == wanted.name);
    Ok(number.map(|number| (number, term)))
}

/// Checks `ORDER BY`.
///
/// # Errors
/// `Invalid` with Cassandra's text.
pub fn order(
    table: &TableSchema,
    restrictions: &Restrictions,
    orderings: &[Ordering<'_>],
) -> Result<RowOrder> {
    let mut columns: Vec<(&TableColumn, bool)> = vec![];
    for Ordering { column: name, descending, .. } in orderings {
        let column = column(table, name)?;
        // If a column is named twice, its first position and its last direction count.
        match columns.iter_mut().find(|(c, _)| c.name == column.name) {
            Some((_, before)) => *before = *descending,
            None => columns.push((column, *descending)),
        }
    }
    if columns.is_empty() || orderings.iter().any(|o| o.nearest.is_some()) {
        return Ok(RowOrder::default());
    }
    if restrictions.uses_index() {
        bail!("ORDER BY with 2ndary indexes is not supported, except for ANN queries.");
    }
    if restrictions.is_key_range() {
        bail!("ORDER BY is only supported when the partition key is restricted by an EQ or an IN.");
    }
    let (mut next, mut reverse) = (0, None);
    for (column, descending) in &columns {
        if column.kind != ColumnKind::Clustering {
            let text =
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY";
            bail!("{text}, got {}", column.name);
        }
        while next != column.position {
            bail_if!(
                next > column.position || !restrictions.is_fixed(&table.clustering()[next]),
                "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"
            );
            next += 1;
        }
        next += 1;
        let turned = *descending != column.descending;
        bail_if!(*reverse.get_or_insert(turned) != turned, "Unsupported order by relation");
    }
    let sort = if restrictions.has_key_in() {
        columns
            .iter()
            .map(|(c, descending)| (c.position, c.of.value_type.clone(), *descending))
            .collect()
    } else {
        vec![]
    };
    Ok(RowOrder { reverse: reverse.unwrap_or(false), sort })
}

/// Checks `GROUP BY`, and returns the number of clustering columns by which rows are grouped,
/// besides the partition. `None`: rows are not grouped.
///
/// # Errors
/// `Invalid` with Cassandra's text.
pub fn groups(
    table: &TableSchema,
    restrictions: &Restrictions,
    by: &[Selector<'_>],
    distinct: bool,
) -> Result<Option<usize>> {
    if by.is_empty() {
        return Ok(None);
    }
    let out_of_order = || {
        invalid(
            "Group by currently only support groups of columns following their declared order in the PRIMARY KEY",
        )
    };
    let mut key = table.partition().iter().chain(table.clustering()).peekable();
    let mut clustering = 0;
    for selector in by {
        let SelectorKind::Primary(SelectorPrimary::Column(name)) = &selector.kind else {
            bail!(
                "Group by is currently only supported on the columns of the PRIMARY KEY, got {selector}"
            );
        };
        let wanted = column(table, name)?;
        if !wanted.is_primary_key() {
            let text =
                "Group by is currently only supported on the columns of the PRIMARY KEY, got";
            bail!("{text} {}", wanted.name);
        }
        loop {
            let next = key.next().ok_or_else(out_of_order)?;
            if next.kind == ColumnKind::Clustering {
                clustering += 1;
            }
            if next.name == wanted.name {
                break;
            }
            if !restrictions.is_fixed(next) {
                return Err(out_of_order());
            }
        }
    }
    if key.peek().is_some_and(|c| c.kind == ColumnKind::Partition) {
        bail!("Group by is not supported on only a part of the partition key");
    }
    if clustering > 0 && distinct {
        bail!("Grouping on clustering columns is not allowed for SELECT DISTINCT queries");
    }
    Ok(Some(clustering))
}

/// Returns the error for a column that has many values in a partition.
pub fn not_distinct(column: &str) -> Error {
    let text =
        "SELECT DISTINCT queries must only request partition key columns and/or static columns";
    invalid!("{text} (not {column})")
}

/// Checks `DISTINCT`; `requested` are the indexes of the selected columns.
///
/// # Errors
/// `Invalid` with Cassandra's text.
pub fn distinct(
    table: &TableSchema,
    restrictions: &Restrictions,
    requested: &[usize],
) -> Result<()> {
    if restrictions.has_clustering() || restrictions.has_regulars() || restrictions.asks_nearest() {
        let text = "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.";
        return Err(invalid(text));
    }
    let columns: Vec<&TableColumn> = requested.iter().map(|c| &table.columns()[*c]).collect();
    if let Some(wrong) =
        columns.iter().find(|c| matches!(c.kind, ColumnKind::Clustering | ColumnKind::Regular))
    {
        return Err(not_distinct(&wrong.name));
    }
    if restrictions.is_key_range()
        && let Some(missing) =
            table.partition().iter().find(|c| !columns.iter().any(|s| s.name == c.name))
    {
        let text = "SELECT DISTINCT queries must request all the partition key columns";
        bail!("{text} (missing {})", missing.name);
    }
    Ok(())
}
