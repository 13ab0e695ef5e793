//! Compiles a `SELECT` to a plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_wide::Type;

use super::order;
use super::plan::{Grouping, NearestRows, SelectPlan};
use super::prepare::Preparer;
use super::selection::RowSelection;
use crate::analysis::{Purpose, Restrictions};
use crate::catalog::{Catalog, ColumnKind, ColumnType, TableIndex, TableSchema};
use crate::error::{Result, bail, bail_if};
use crate::exec::access::{to_call, to_read};
use crate::exec::engine::Engine;
use crate::exec::row::RowShape;
use crate::syntax::ast::{self, Relation, Select, Selected, SelectorKind, SelectorPrimary};
use crate::values::vector::Similarity;
use crate::values::{BoundTerm, ColumnSpec, Context, Markers, Receiver};

/// A statement to compile, with the context of its names and markers.
#[derive(Clone, Copy)]
pub struct Compilation<'a> {
    pub engine: &'a Engine,
    pub catalog: &'a Arc<Catalog>,
    /// Keyspace of unqualified table names.
    pub keyspace: Option<&'a str>,
    pub select: &'a Select<'a>,
    /// Number of markers in the statement.
    pub markers: u16,
}

/// Compiles a statement. An error has no advice.
///
/// # Errors
/// `Invalid` with Cassandra's text.
pub fn plan(compilation: &Compilation<'_>) -> Result<SelectPlan> {
    let Compilation { engine, catalog, keyspace, select, markers } = *compilation;
    let table = catalog.table(&select.table, keyspace)?.clone();
    let markers = Markers::new(markers);
    let mut context = Context::of_table(catalog, &table, engine.partitioner(), markers);
    // Virtual tables are computed on read, and filtering them is cheap.
    let filtering = select.allow_filtering || table.is_virtual();
    let nearest = order::nearest(&table, &select.order_by)?;
    let purpose = Purpose::Select { filtering, nearest: nearest.as_ref().map(|n| n.0) };
    let only_statics = selects_only_statics(&table, &select.selection);
    let restrictions =
        Restrictions::prepare(purpose, only_statics, &table, &select.relations, &mut context)?;
    let mut preparer = Preparer::new(&table, &mut context);
    let outputs = preparer.outputs(&select.selection)?;
    if select.distinct {
        if select.per_partition_limit.is_some() {
            bail!("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
        }
        order::distinct(&table, &restrictions, &preparer.requested)?;
    }
    let asks_times = preparer.asks_times;
    if let Some((column, _)) = nearest {
        preparer.want(column);
    }
    for column in restrictions.filtered_columns() {
        preparer.want(column);
    }
    let (selection, wanted) = preparer.finish(outputs);
    let groups = match order::groups(&table, &restrictions, &select.group_by, select.distinct)? {
        Some(prefix) => Grouping::By(prefix),
        None if !selection.aggregates.is_empty() => Grouping::Everything,
        None => Grouping::None,
    };
    if groups == Grouping::Everything && select.per_partition_limit.is_some() {
        bail!("PER PARTITION LIMIT is not allowed with aggregate queries.");
    }
    let order = order::order(&table, &restrictions, &select.order_by)?;
    if let (true, Some((column, ..))) = (select.distinct, order.sort.first()) {
        return Err(order::not_distinct(&table.clustering()[*column].name));
    }
    restrictions.check_filtering()?;
    if nearest.is_some() {
        bail_if!(groups != Grouping::None, "Top-K queries can not be run with aggregation");
        if select.per_partition_limit.is_some() {
            bail!("Top-K queries do not support per-partition limits");
        }
        bail_if!(
            select.limit.is_none(),
            "Top-K queries must have a limit specified and the limit must be less than the query page size"
        );
    }
    let nearest = match nearest {
        Some((column, term)) => nearest_rows(&table, column, term, &mut context)?,
        None => None,
    };
    let mut limit = |term: &Option<ast::Term<'_>>, name: &str| {
        let receiver = Receiver::new(&table, name, Type::Int32);
        term.as_ref().map(|t| BoundTerm::prepare(t, &receiver, &mut context)).transpose()
    };
    let limits = (
        limit(&select.limit, "[limit]")?,
        limit(&select.per_partition_limit, "[per_partition_limit]")?,
    );
    let shows_statics =
        table.has_statics() && !restrictions.has_clustering() && !restrictions.has_regulars();
    let columns = wanted.iter().map(|c| &table.columns()[*c]);
    let shape = RowShape::new(&table, engine.partitioner(), columns, asks_times);
    let shape = if shows_statics { shape.with_statics() } else { shape };
    let warning = match groups {
        Grouping::None => None,
        _ if restrictions.has_key_in() => {
            Some("Aggregation query used on multiple partition keys (IN restriction)")
        }
        _ if restrictions.has_partition() => None,
        _ => Some("Aggregation query used without partition key"),
    };
    let mut plan = SelectPlan {
        needs: to_read(&table).into_iter().chain(to_call(context.calls)).collect(),
        masked_conditions: masked_conditions(&table, select),
        partition_key: context.markers.of_partition_key(&table),
        markers: context.markers.into_specs()?,
        columns: columns_of(&table, &selection, select.json),
        json: select.json.then(|| selection.outputs.iter().map(|o| json_name(&o.name)).collect()),
        shows_statics,
        reads_whole: shape.wants_statics() || !table.has_statics(),
        distinct: select.distinct,
        limit: limits.0,
        per_partition: limits.1,
        table,
        restrictions,
        selection,
        shape,
        order,
        nearest,
        groups,
        warning,
        cells: None,
    };
    plan.cells = plan.sufficient_cells(&wanted);
    Ok(plan)
}

/// Returns the masked columns used in conditions or in `ANN OF`.
fn masked_conditions(table: &TableSchema, select: &Select<'_>) -> Vec<String> {
    if !table.has_masks() {
        return vec![];
    }
    let mut relations = select.relations.clone();
    let conditions = relations.iter_mut().flat_map(Relation::columns_mut).map(|name| &*name);
    let nearness = select.order_by.iter().filter(|o| o.nearest.is_some()).map(|o| &o.column);
    let named: BTreeSet<&str> = conditions.chain(nearness).map(|name| &*name.text).collect();
    let masked = table.columns().iter().filter(|c| c.mask.is_some());
    masked.filter(|c| named.contains(&*c.name)).map(|c| c.name.clone()).collect()
}

/// Prepares `ANN OF` with this term, for an indexed column.
fn nearest_rows(
    table: &TableSchema,
    number: usize,
    term: &ast::Term<'_>,
    context: &mut Context<'_>,
) -> Result<Option<NearestRows>> {
    let column = &table.columns()[number];
    let is_of = |i: &&TableIndex| i.column == column.name && i.is_of_vectors(column);
    let Some(index) = table.indexes().iter().find(is_of) else { return Ok(None) };
    Ok(Some(NearestRows {
        index: index.id,
        column: number,
        similarity: Similarity::named(index.similarity()).unwrap_or(Similarity::Cosine),
        of: BoundTerm::prepare(term, &Receiver::column(table, column), context)?,
    }))
}

/// Collects the names of the columns that a selector mentions.
fn mentioned<'s>(selector: &'s ast::Selector<'_>, out: &mut Vec<&'s str>) {
    let SelectorKind::Primary(primary) = &selector.kind else {
        return selector.kind.operands(&mut |operand| mentioned(operand, out));
    };
    match primary {
        SelectorPrimary::Column(name) => out.push(&name.text),
        SelectorPrimary::About(_, of) => mentioned(of, out),
        SelectorPrimary::Term(_) | SelectorPrimary::CountRows => {}
        SelectorPrimary::Field(field) => mentioned(&field.0, out),
        SelectorPrimary::Element(element) => mentioned(&element.0, out),
        SelectorPrimary::Slice(slice) => mentioned(&slice.0, out),
    }
}

/// Reports whether only static columns and columns of the partition key are selected, with at least
/// one static.
fn selects_only_statics(table: &TableSchema, selection: &[Selected<'_>]) -> bool {
    let mut names = vec![];
    selection.iter().for_each(|s| mentioned(&s.selector, &mut names));
    let kinds: Vec<_> = names.into_iter().filter_map(|n| table.column(n)).map(|c| c.kind).collect();
    kinds.contains(&ColumnKind::Static)
        && kinds.iter().all(|k| matches!(k, ColumnKind::Static | ColumnKind::Partition))
}

fn columns_of(table: &TableSchema, selection: &RowSelection, json: bool) -> Arc<[ColumnSpec]> {
    if json {
        return Arc::new([ColumnSpec::new(table, "[json]", &ColumnType::frozen(Type::Utf8))]);
    }
    selection.outputs.iter().map(|o| ColumnSpec::new(table, &o.name, &o.of)).collect()
}

/// Returns the name of a column in a JSON object. Names with capital letters keep their quotes.
fn json_name(name: &str) -> String {
    let shown =
        if name.chars().any(char::is_uppercase) { format!("\"{name}\"") } else { name.to_owned() };
    serde_json::Value::from(shown).to_string()
}
