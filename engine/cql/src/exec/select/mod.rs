//! `SELECT`, compiled once and run often (model 3.4).
//!
//! | file | what |
//! |---|---|
//! | `prepare`, `selection` | what is made of a row: looked up, then evaluated |
//! | `order` | what `ORDER BY`, `GROUP BY` and `DISTINCT` may ask |
//! | `aggregate` | what is made of many rows |
//! | `read` | which partitions and rows are read, and how: keys, ranges, indexes |
//! | `collect` | rows filtered, grouped, limited, made into a page |
//! | `page` | the bytes of a paging state |
//! | `advice` | what would find the rows of a statement that is refused because it would filter |
//!
//! Invariants: a page is read without looking at what comes before it; a scan in pages needs memory for one page; a read of one row reads
//! that row only, and takes no snapshot.

mod advice;
mod aggregate;
mod collect;
mod order;
mod page;
mod prepare;
mod read;
mod selection;

use std::sync::Arc;

use firn_wide::Type;

use self::collect::Groups;
use self::order::Order;
use self::prepare::Preparer;
use self::selection::Selection;
use super::row::Shape;
use super::{Engine, Plan, Request, Rows};
use crate::analysis::{Purpose, Restrictions};
use crate::catalog::{Catalog, ColumnKind, ColumnType, Table};
use crate::error::{Result, invalid};
use crate::syntax::ast::{self, Select, Selected, SelectorKind, SelectorPrimary};
use crate::values::{Bound, ColumnSpec, Context, Env, Markers, Receiver, Term};

/// A compiled `SELECT`.
pub struct SelectPlan {
    table: Arc<Table>,
    restrictions: Restrictions,
    selection: Selection,
    shape: Shape,
    markers: Vec<ColumnSpec>,
    columns: Arc<[ColumnSpec]>,
    order: Order,
    groups: Groups,
    distinct: bool,
    /// The names in the objects of `SELECT JSON`.
    json: Option<Vec<String>>,
    limit: Option<Term>,
    per_partition: Option<Term>,
    /// Whether a partition without rows is shown for its static cells.
    shows_statics: bool,
    /// Whether all rows of a partition are read with what stands before them: static cells that are wanted, or none that the table has.
    reads_whole: bool,
    warning: Option<&'static str>,
}

impl SelectPlan {
    /// Compiles a statement with so many markers.
    ///
    /// # Errors
    /// `Invalid` with the servers' text; of what only filtering would answer, with the index or the key that would find the rows.
    pub fn compile(
        engine: &Engine,
        catalog: &Arc<Catalog>,
        keyspace: Option<&str>,
        select: &Select<'_>,
        markers: u16,
    ) -> Result<SelectPlan> {
        SelectPlan::plan(engine, catalog, keyspace, select, markers).map_err(|e| {
            match advice::of(engine, catalog, keyspace, select, markers) {
                Some(help) => e.with_help(help),
                None => e,
            }
        })
    }

    fn plan(
        engine: &Engine,
        catalog: &Arc<Catalog>,
        keyspace: Option<&str>,
        select: &Select<'_>,
        markers: u16,
    ) -> Result<SelectPlan> {
        let table = catalog.table(&select.table, keyspace)?.clone();
        let mut context = Context {
            catalog,
            keyspace: &table.keyspace,
            partition: table.partition().iter().map(|c| c.of.of.clone()).collect(),
            partitioner: engine.partitioner(),
            markers: Markers::new(markers),
        };
        let purpose = Purpose::Select { filtering: select.allow_filtering };
        let only_statics = selects_only_statics(&table, &select.selection);
        let restrictions = Restrictions::prepare(purpose, only_statics, &table, &select.relations, &mut context)?;
        let mut preparer = Preparer::new(&table, &mut context);
        let outputs = preparer.outputs(&select.selection)?;
        if select.distinct {
            if select.per_partition_limit.is_some() {
                return Err(invalid("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries"));
            }
            order::distinct(&table, &restrictions, &preparer.requested)?;
        }
        let asks_times = preparer.asks_times;
        for column in restrictions.filtered_columns() {
            preparer.want(column);
        }
        let (selection, wanted) = preparer.finish(outputs);
        let groups = match order::groups(&table, &restrictions, &select.group_by, select.distinct)? {
            Some(prefix) => Groups::By(prefix),
            None if !selection.aggregates.is_empty() => Groups::Everything,
            None => Groups::None,
        };
        if groups == Groups::Everything && select.per_partition_limit.is_some() {
            return Err(invalid("PER PARTITION LIMIT is not allowed with aggregate queries."));
        }
        let order = order::order(&table, &restrictions, &select.order_by)?;
        if let (true, Some((column, ..))) = (select.distinct, order.sort.first()) {
            return Err(order::not_distinct(&table.clustering()[*column].name));
        }
        restrictions.check_filtering()?;
        let mut limit = |term: &Option<ast::Term<'_>>, name: &str| {
            let of = ColumnType::frozen(Type::Int32);
            let receiver = Receiver { name: name.into(), of, keyspace: table.keyspace.clone(), table: table.name.clone() };
            term.as_ref().map(|t| Term::prepare(t, &receiver, &mut context)).transpose()
        };
        let limits = (limit(&select.limit, "[limit]")?, limit(&select.per_partition_limit, "[per_partition_limit]")?);
        let shows_statics = table.has_statics() && !restrictions.has_clustering() && !restrictions.has_regulars();
        let shape = Shape::new(&table, wanted.iter().map(|c| &table.columns()[*c]), asks_times);
        let shape = if shows_statics { shape.with_statics() } else { shape };
        let warning = match groups {
            Groups::None => None,
            _ if restrictions.has_key_in() => Some("Aggregation query used on multiple partition keys (IN restriction)"),
            _ if restrictions.has_partition() => None,
            _ => Some("Aggregation query used without partition key"),
        };
        Ok(SelectPlan {
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
            groups,
            warning,
        })
    }

    /// The number of a limit; `None` without one.
    fn limit(term: &Option<Term>, env: &Env<'_>) -> Result<Option<u64>> {
        let Some(term) = term else { return Ok(None) };
        let bytes = match term.eval(env)? {
            Bound::Bytes(bytes) => bytes,
            Bound::Null => return Err(invalid("Invalid null value of limit")),
            Bound::Unset => return Ok(None),
        };
        let number = bytes.try_into().map(i32::from_be_bytes).map_err(|_| invalid("Invalid limit value"))?;
        match u64::try_from(number) {
            Ok(n) if n > 0 => Ok(Some(n)),
            _ => Err(invalid("LIMIT must be strictly positive")),
        }
    }
}

impl Plan for SelectPlan {
    fn markers(&self) -> &[ColumnSpec] {
        &self.markers
    }

    fn columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        Some(&self.columns)
    }

    fn run(&self, engine: &Engine, request: &Request<'_>) -> Result<Rows> {
        let random = || engine.random_bits();
        let env = Env { bound: request.bound, now: engine.store().timestamp(), random: &random };
        self.read(engine, request, &env)
    }
}

/// The names of the columns that a selector mentions.
fn mentioned<'s>(selector: &'s ast::Selector<'_>, out: &mut Vec<&'s str>) {
    let SelectorKind::Primary(primary) = &selector.kind else {
        return selector.kind.operands(&mut |operand| mentioned(operand, out));
    };
    match primary {
        SelectorPrimary::Column(name) | SelectorPrimary::About(_, name) => out.push(&name.text),
        SelectorPrimary::Term(_) | SelectorPrimary::CountRows => {}
        SelectorPrimary::Field(field) => mentioned(&field.0, out),
        SelectorPrimary::Element(element) => mentioned(&element.0, out),
        SelectorPrimary::Slice(slice) => mentioned(&slice.0, out),
    }
}

/// Whether static columns are selected, and nothing else but columns of the partition key.
fn selects_only_statics(table: &Table, selection: &[Selected<'_>]) -> bool {
    let mut names = vec![];
    selection.iter().for_each(|s| mentioned(&s.selector, &mut names));
    let kinds: Vec<_> = names.into_iter().filter_map(|n| table.column(n)).map(|c| c.kind).collect();
    kinds.contains(&ColumnKind::Static) && kinds.iter().all(|k| matches!(k, ColumnKind::Static | ColumnKind::Partition))
}

fn columns_of(table: &Table, selection: &Selection, json: bool) -> Arc<[ColumnSpec]> {
    if json {
        return Arc::new([ColumnSpec::new(table, "[json]", &ColumnType::frozen(Type::Utf8))]);
    }
    selection.outputs.iter().map(|o| ColumnSpec::new(table, &o.name, &o.of)).collect()
}

/// The name of a column in a JSON object: names with capital letters keep their quotes.
fn json_name(name: &str) -> String {
    let shown = if name.chars().any(char::is_uppercase) { format!("\"{name}\"") } else { name.to_owned() };
    serde_json::Value::from(shown).to_string()
}
