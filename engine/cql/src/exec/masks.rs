//! Column masks: resolves the masks of a definition and adds them to the table.

use super::engine::Engine;
use crate::catalog::{Catalog, ColumnMask, TableSchema};
use crate::error::Result;
use crate::syntax::ast::{ColumnDefinition, MaskSyntax, Statement, TableChange};
use crate::syntax::quote_if_needed;
use crate::values::{Context, EvalEnv, column_mask, literal};

/// Returns these definitions with the masks that the statement gives to columns of its table.
///
/// # Errors
/// `Invalid` for a function that is not a mask function, or not applicable to the column.
pub(super) fn masked(
    engine: &Engine,
    catalog: Catalog,
    keyspace: &str,
    statement: &Statement<'_>,
) -> Result<Catalog> {
    let (name, given): (_, Vec<(String, Option<MaskSyntax<'_>>)>) = match statement {
        Statement::CreateTable(s) => (&s.name, of_columns(&s.columns)),
        Statement::AlterTable(s) => match &s.change {
            TableChange::Add { columns, .. } => (&s.name, of_columns(columns)),
            TableChange::Mask { column, mask, .. } => {
                (&s.name, vec![(column.text.to_string(), mask.clone())])
            }
            _ => return Ok(catalog),
        },
        _ => return Ok(catalog),
    };
    let home = catalog.keyspace(keyspace);
    let Some(table) = home.and_then(|k| k.table(&name.name.text)).filter(|_| !given.is_empty())
    else {
        return Ok(catalog);
    };
    let mut masks = vec![];
    for (column, mask) in given {
        let mask =
            mask.map(|mask| resolved(engine, &catalog, table, &column, &mask)).transpose()?;
        masks.push((column, mask));
    }
    catalog.with_masks(table, &masks)
}

/// Returns the masks of columns with the columns' names.
fn of_columns<'a>(all: &[ColumnDefinition<'a>]) -> Vec<(String, Option<MaskSyntax<'a>>)> {
    let masked = all.iter().filter(|c| c.mask.is_some());
    masked.map(|c| (c.name.text.to_string(), c.mask.clone())).collect()
}

fn resolved(
    engine: &Engine,
    catalog: &Catalog,
    table: &TableSchema,
    column: &str,
    mask: &MaskSyntax<'_>,
) -> Result<ColumnMask> {
    let mut context = Context::new(catalog, &table.keyspace, engine.partitioner());
    let random = || engine.random_bits();
    let env = EvalEnv { bound: &[], now: engine.store().timestamp(), random: &random };
    column_mask(mask, table, table.known_column(column)?, &env, &mut context)
}

/// Returns the clause that defines the mask of a column.
pub(super) fn mask_text(mask: &ColumnMask) -> String {
    let arguments: Vec<String> =
        mask.arguments().map(|(of, value)| literal(&of.value_type, value)).collect();
    format!(
        "MASKED WITH {}.{}({})",
        quote_if_needed(&mask.keyspace),
        quote_if_needed(&mask.name),
        arguments.join(", ")
    )
}
