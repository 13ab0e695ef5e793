//! Validation of requests before reads and writes, with Cassandra's error texts (model 2.1, 2.4,
//! 2.5, 2.7, 2.8, 6).

use super::data::{
    Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, Deletion, IndexExpression,
    IndexOperator, SlicePredicate, SliceRange, check_ttl,
};
use super::state::ApiTable;
use crate::base::error::{Error, Result, invalid};
use crate::types::{Type, Wording, hex};

/// Maximum bytes of a key, of a name, and of a value that is indexed or compared in an index
/// clause.
pub const MAX_SHORT: usize = 65_535;

/// Validates bytes of a type. The error texts are those of Cassandra 1.1 where newer ones differ
/// (model 6.12).
fn validate(t: &Type, bytes: &[u8]) -> std::result::Result<(), String> {
    t.validate(bytes).map_err(|why| match t {
        Type::TimeUuid if why.0.starts_with("UUID") => format!("Time{why}"),
        Type::Uuid => "UUIDs must be exactly 16 bytes".into(),
        _ => why.0,
    })
}

fn check_type(t: &Type, bytes: &[u8]) -> Result<()> {
    validate(t, bytes).map_err(invalid)
}

/// Checks the key of a row.
pub fn key(table: &ApiTable, key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(invalid("Key may not be empty"));
    }
    if key.len() > MAX_SHORT {
        return Err(invalid(format!(
            "Key length of {} is longer than maximum of {MAX_SHORT}",
            key.len()
        )));
    }
    check_type(table.def.key_validator(), key)
}

fn name(t: &Type, name: &[u8]) -> Result<()> {
    if name.len() > MAX_SHORT {
        return Err(invalid(format!("column name length must not be greater than {MAX_SHORT}")));
    }
    if name.is_empty() {
        return Err(invalid("column name must not be empty"));
    }
    check_type(t, name)
}

/// Checks names in a super column if one is given, else in the row.
fn names<'a>(
    table: &ApiTable,
    super_column: Option<&[u8]>,
    names: impl IntoIterator<Item = &'a [u8]>,
) -> Result<()> {
    if let Some(super_column) = super_column {
        if super_column.len() > MAX_SHORT {
            return Err(invalid(format!(
                "supercolumn name length must not be greater than {MAX_SHORT}"
            )));
        }
        if super_column.is_empty() {
            return Err(invalid("supercolumn name must not be empty"));
        }
        if !table.def.is_super() {
            return Err(invalid(format!(
                "supercolumn parameter is invalid for standard CF {}",
                table.def.name()
            )));
        }
    }
    names.into_iter().try_for_each(|n| name(table.name_type(super_column.is_some()), n))
}

/// Refuses a plain operation on counters, and a counter operation on other families.
pub fn kind(table: &ApiTable, counters: bool) -> Result<()> {
    match (table.def.is_counter(), counters) {
        (true, false) => Err(invalid(format!(
            "invalid operation for commutative columnfamily {}",
            table.def.name()
        ))),
        (false, true) => Err(invalid(format!(
            "invalid operation for non commutative columnfamily {}",
            table.def.name()
        ))),
        _ => Ok(()),
    }
}

/// Checks the parent of a slice.
pub fn parent(table: &ApiTable, parent: &ColumnParent) -> Result<()> {
    let Some(super_column) = &parent.super_column else { return Ok(()) };
    if !table.def.is_super() {
        return Err(invalid(format!(
            "columnfamily alone is required for standard CF {}",
            table.def.name()
        )));
    }
    names(table, None, [&**super_column])
}

/// Checks a parent that must contain columns, not super columns.
pub fn columns(table: &ApiTable, parent: &ColumnParent) -> Result<()> {
    if table.def.is_super() && parent.super_column.is_none() {
        return Err(invalid(format!(
            "supercolumn parameter is not optional for super CF {}",
            table.def.name()
        )));
    }
    Ok(())
}

/// Checks the parent and the name of a column to be written.
pub fn write(table: &ApiTable, to: &ColumnParent, column: &[u8]) -> Result<()> {
    parent(table, to)?;
    if table.def.is_super() && to.super_column.is_none() {
        return Err(invalid(format!(
            "missing mandatory super column name for super CF {}",
            table.def.name()
        )));
    }
    names(table, to.super_column.as_deref(), [column])
}

/// Checks the path of a column or super column.
pub fn path(table: &ApiTable, super_column: Option<&[u8]>, column: Option<&[u8]>) -> Result<()> {
    match (table.def.is_super(), super_column, column) {
        (false, Some(_), _) => Err(invalid(format!(
            "supercolumn parameter is invalid for standard CF {}",
            table.def.name()
        ))),
        (false, None, None) => Err(invalid(format!(
            "column parameter is not optional for standard CF {}",
            table.def.name()
        ))),
        (true, None, _) => Err(invalid(format!(
            "supercolumn parameter is not optional for super CF {}",
            table.def.name()
        ))),
        _ => path_names(table, super_column, column),
    }
}

/// Checks the path of a removal: a column, a super column or a row.
pub fn path_or_parent(table: &ApiTable, path: &ColumnPath) -> Result<()> {
    let (super_column, column) = (path.super_column.as_deref(), path.column.as_deref());
    match (table.def.is_super(), super_column, column) {
        (false, Some(_), _) => Err(invalid(format!(
            "supercolumn may not be specified for standard CF {}",
            table.def.name()
        ))),
        (true, None, Some(_)) => Err(invalid(format!(
            "A column cannot be specified without specifying a super column for removal on super CF {}",
            table.def.name()
        ))),
        _ => path_names(table, super_column, column),
    }
}

fn path_names(table: &ApiTable, super_column: Option<&[u8]>, column: Option<&[u8]>) -> Result<()> {
    names(table, super_column, column)?;
    names(table, None, super_column)
}

/// Checks the value and the TTL of a column to be written.
pub fn column(table: &ApiTable, column: &Column, in_super_column: bool) -> Result<()> {
    check_ttl(column.ttl)?;
    value(table, in_super_column, &column.name, &column.value, validate)
}

/// Checks the value of a column to be written. `validate` gives the reason against it.
pub fn value(
    table: &ApiTable,
    in_super_column: bool,
    name: &[u8],
    value: &[u8],
    validate: impl Fn(&Type, &[u8]) -> std::result::Result<(), String>,
) -> Result<()> {
    let def = &table.def;
    let known = def.column(name);
    if let Err(why) = validate(known.map_or(def.default_validator(), |c| c.validator()), value) {
        let name = table.name_type(in_super_column).to_text(name, Wording::Cli);
        return Err(invalid(format!(
            "({why}) [{}][{}][{name}] failed validation",
            def.keyspace(),
            def.name()
        )));
    }
    match known.and_then(|c| c.index()) {
        Some(index) if value.len() > MAX_SHORT => Err(invalid(format!(
            "Can't index column value of size {} for index {} in CF {} of KS {}",
            value.len(),
            index.name,
            def.name(),
            def.keyspace()
        ))),
        _ => Ok(()),
    }
}

/// Checks the columns to be written by a batch.
pub fn column_or_super_column(table: &ApiTable, write: &ColumnOrSuperColumn) -> Result<()> {
    match write {
        ColumnOrSuperColumn::Column(c) => {
            kind(table, false)?;
            check_ttl(c.ttl)?;
            path(table, None, Some(&c.name))?;
            column(table, c, false)
        }
        ColumnOrSuperColumn::SuperColumn(s) => {
            kind(table, false)?;
            s.columns.iter().try_for_each(|c| {
                path(table, Some(&s.name), Some(&c.name))?;
                column(table, c, true)
            })
        }
        ColumnOrSuperColumn::CounterColumn(c) => {
            kind(table, true)?;
            path(table, None, Some(&c.name))
        }
        ColumnOrSuperColumn::CounterSuperColumn(s) => {
            kind(table, true)?;
            s.columns.iter().try_for_each(|c| path(table, Some(&s.name), Some(&c.name)))
        }
    }
}

/// Checks the columns to be deleted by a batch.
pub fn deletion(table: &ApiTable, deletion: &Deletion) -> Result<()> {
    let super_column = deletion.super_column.as_deref();
    if super_column.is_some() && !table.def.is_super() {
        return Err(invalid(format!(
            "Deletion of super columns is not possible on a standard ColumnFamily (KeySpace={} ColumnFamily={} Deletion={deletion:?})",
            table.def.keyspace(),
            table.def.name()
        )));
    }
    names(table, None, super_column)?;
    match &deletion.predicate {
        Some(SlicePredicate::Names(n)) => names(table, super_column, n.iter().map(|n| &**n))?,
        Some(SlicePredicate::Range(r)) => range(table.name_type(super_column.is_some()), r)?,
        None => {}
    }
    if !table.def.is_counter() && deletion.timestamp.is_none() {
        let name = table.def.name();
        return Err(invalid(format!(
            "Deletion timestamp is not optional for non commutative column family {name}"
        )));
    }
    Ok(())
}

/// Checks the predicate of a read.
pub fn predicate(
    table: &ApiTable,
    parent: &ColumnParent,
    predicate: &SlicePredicate,
) -> Result<()> {
    let super_column = parent.super_column.as_deref();
    match predicate {
        SlicePredicate::Names(n) => names(table, super_column, n.iter().map(|n| &**n)),
        SlicePredicate::Range(r) => range(table.name_type(super_column.is_some()), r),
    }
}

/// Checks the types of a range's bounds.
fn bounds(t: &Type, range: &SliceRange) -> Result<()> {
    let mut bounds = [&range.start, &range.finish].into_iter().filter(|bound| !bound.is_empty());
    bounds.try_for_each(|bound| check_type(t, bound))
}

/// Checks a range of names.
pub fn range(t: &Type, range: &SliceRange) -> Result<()> {
    bounds(t, range)?;
    if !range.start.is_empty() && !range.finish.is_empty() {
        let order = t.compare(&range.start, &range.finish);
        if (if range.reversed { order.reverse() } else { order }).is_gt() {
            return Err(invalid("range finish must come after start in the order of traversal"));
        }
    }
    if range.count < 0 {
        return Err(invalid("get_slice requires non-negative count"));
    }
    Ok(())
}

/// Checks one of several ranges of a row; `number` is its number.
pub fn range_of_several(t: &Type, r: &SliceRange, number: usize) -> Result<()> {
    bounds(t, r)?;
    let ends_first = !r.start.is_empty() && !r.finish.is_empty();
    let order = t.compare(&r.start, &r.finish);
    match r.reversed {
        false if ends_first && order.is_gt() => {
            Err(invalid(format!("Column slice at index {number} had start greater than finish")))
        }
        true if ends_first && order.is_lt() => Err(invalid(format!(
            "Reversed column slice at index {number} had start less than finish"
        ))),
        _ => range(t, r),
    }
}

/// Checks an index clause, which must have an expression that an index answers.
pub fn clause(table: &ApiTable, expressions: &[IndexExpression], count: i32) -> Result<()> {
    if table.def.is_super() {
        return Err(invalid("super columns are not supported for indexing"));
    }
    if expressions.is_empty() {
        return Err(invalid("index clause list may not be empty"));
    }
    filter(table, expressions)?;
    if !expressions
        .iter()
        .any(|e| e.op == IndexOperator::Eq && table.index(&e.column_name).is_some())
    {
        return Err(invalid("No indexed columns present in index clause with operator EQ"));
    }
    // Cassandra 1.1 closes the connection here.
    if count < 0 {
        return Err(invalid("get_indexed_slices requires non-negative count"));
    }
    Ok(())
}

/// Checks filter expressions, whether they have an index or not.
pub fn filter(table: &ApiTable, expressions: &[IndexExpression]) -> Result<()> {
    if !expressions.is_empty() && table.def.is_super() {
        return Err(invalid("super columns are not supported for indexing"));
    }
    for e in expressions {
        let fails = |what: &str, why: &dyn std::fmt::Display| {
            invalid(format!(
                "[{}]=[{}] failed {what} validation ({why})",
                hex(&e.column_name),
                hex(&e.value)
            ))
        };
        validate(table.def.comparator(), &e.column_name).map_err(|why| fails("name", &why))?;
        if e.value.len() > MAX_SHORT {
            return Err(invalid("Index expression values may not be larger than 64K"));
        }
        validate(table.def.validator(&e.column_name), &e.value)
            .map_err(|why| fails("value", &why))?;
    }
    Ok(())
}

/// Returns `NotFound` for a full path that does not exist.
pub fn found<T>(it: Option<T>) -> Result<T> {
    it.ok_or(Error::NotFound)
}
