//! A table of CQL as a table of DataFusion.
//!
//! A scan is a `SELECT` for each of its partitions, read page by page from the query's snapshot. So
//! expiration, static columns, permissions and masks are those of CQL.
//!
//! Invariant: a scan ends with an error if the table is altered so that its columns or its storage
//! change.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use firn_cql::internals::catalog::{TableColumn, TableSchema};
use firn_cql::internals::values::BoundValue;
use firn_cql::{PagingState, Prepared, RunOptions, quote_if_needed};
use firn_transfer::arrow::{Column, field};
use firn_wide::internals::store::{StoreFamily, StoreView};
use firn_wide::{Partitioner, Type};

use crate::exec::{BatchReader, FirnScanExec, ScanSource, batch_of, failure};
use crate::predicate::{KeyComparison, KeyPredicate, PredicateReader};
use crate::snapshots::QueryState;
use crate::{QuerySnapshots, SqlScanOptions};

/// Maximum number of partitions of a table that a query names.
const MAX_KEYS: usize = 1000;

/// A table or materialized view of CQL.
///
/// Conditions on all columns of the partition key (`=`, `IN`, `OR`) read these partitions only.
/// With them, `=` on the first clustering columns and a range of the next read a slice of each.
/// DataFusion evaluates all other conditions.
#[derive(Clone)]
pub struct FirnTable {
    session: firn_cql::Session,
    snapshots: QuerySnapshots,
    options: SqlScanOptions,
    table: Arc<TableSchema>,
    schema: SchemaRef,
    /// Types of the columns.
    types: Arc<[Type]>,
}

impl fmt::Debug for FirnTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirnTable").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Conditions that a `SELECT` evaluates.
#[derive(Default)]
struct PushedPredicates {
    /// Indexes of their expressions, and whether they are exact.
    used: Vec<(usize, bool)>,
    /// All conditions on a column together, by column.
    comparisons: Vec<(usize, KeyComparison)>,
}

impl PushedPredicates {
    /// Reports whether the conditions contradict each other.
    fn is_empty(&self) -> bool {
        let is_none =
            |c: &KeyComparison| matches!(c, KeyComparison::In(values) if values.is_empty());
        self.comparisons.iter().any(|(_, comparison)| is_none(comparison))
    }

    /// Reports whether all conditions of the query are exact ones of the `SELECT`.
    fn are_exactly(&self, filters: usize) -> bool {
        self.used.len() == filters && self.used.iter().all(|(_, is_exact)| *is_exact)
    }
}

impl FirnTable {
    pub(crate) fn new(
        session: firn_cql::Session,
        snapshots: QuerySnapshots,
        options: SqlScanOptions,
        table: Arc<TableSchema>,
    ) -> FirnTable {
        let of = |column: &TableColumn| column.of.value_type.clone();
        let types: Arc<[Type]> = table.columns().iter().map(of).collect();
        let field = |c: &TableColumn| field(&c.name, &c.of.value_type, options.forms());
        let schema = Schema::new(table.columns().iter().map(field).collect::<Vec<_>>());
        FirnTable { session, snapshots, options, table, schema: Arc::new(schema), types }
    }

    fn name(&self) -> String {
        format!("{}.{}", quote_if_needed(&self.table.keyspace), quote_if_needed(&self.table.name))
    }

    /// Chooses the conditions that a `SELECT` evaluates. DataFusion asks about some conditions, then
    /// about others, and scans with all that were chosen. So a condition that is chosen among some
    /// is chosen among more.
    fn pushed(&self, filters: &[&Expr]) -> PushedPredicates {
        let reader = PredicateReader { schema: &self.schema, types: &self.types };
        let all: Vec<(usize, KeyPredicate)> =
            filters.iter().enumerate().filter_map(|(at, f)| Some((at, reader.read(f)?))).collect();
        let mut out = PushedPredicates::default();
        let mut keys = 1_usize;
        let partition = self.table.partition().len();
        for column in 0..partition + self.table.clustering().len() {
            let is_key = column < partition;
            let is_wanted = |p: &KeyPredicate| match &p.comparison {
                KeyComparison::In(values) => is_key || values.len() == 1,
                KeyComparison::Above(..) | KeyComparison::Below(..) => !is_key,
            };
            let of: Vec<_> =
                all.iter().filter(|(_, p)| p.column == column && is_wanted(p)).collect();
            let comparisons: Vec<_> = of.iter().map(|(_, p)| &p.comparison).collect();
            let merged = merge(&self.types[column], &comparisons);
            let is_equal = matches!(merged.first(), Some(KeyComparison::In(_)));
            if let (true, Some(KeyComparison::In(values))) = (is_key, merged.first()) {
                keys = keys.saturating_mul(values.len());
            }
            if is_key && (!is_equal || keys > MAX_KEYS) {
                return PushedPredicates::default();
            }
            out.used.extend(of.iter().map(|(at, p)| (*at, p.is_exact)));
            out.comparisons.extend(merged.into_iter().map(|comparison| (column, comparison)));
            if !is_equal {
                break;
            }
        }
        out
    }

    /// Returns the store's family; `None` for a system table.
    fn family(&self) -> Result<Option<StoreFamily>> {
        if self.table.is_system() {
            return Ok(None);
        }
        let family = self.session.engine().family(&self.table);
        family.map(Some).map_err(|e| failure(&self.name(), e))
    }

    /// Returns the conditions on tokens that divide the table.
    fn token_ranges(&self, family: Option<&StoreFamily>, target: usize) -> Result<Vec<String>> {
        let is_hashed = self.session.engine().partitioner() == Partitioner::Murmur3;
        let Some(family) = family.filter(|_| is_hashed) else { return Ok(vec![String::new()]) };
        let bytes = family.tree().approximate_size(..).map_err(|e| failure(&self.name(), e))?;
        let count = self.options.partitions(bytes, target);
        let key: Vec<_> = self.table.partition().iter().map(|c| quote_if_needed(&c.name)).collect();
        let token = format!("token({})", key.join(", "));
        // The end of a range, in 64 bits of tokens that begin at the least one.
        let end = |i: usize| {
            let offset = (1_u128 << 64) * (i as u128) / (count as u128);
            i128::from(i64::MIN) + offset.cast_signed()
        };
        let range = |i: usize| match i {
            _ if count == 1 => String::new(),
            0 => format!("{token} <= {}", end(1)),
            i if i + 1 == count => format!("{token} > {}", end(i)),
            i => format!("{token} > {} AND {token} <= {}", end(i), end(i + 1)),
        };
        Ok((0..count).map(range).collect())
    }

    /// Estimates the number of rows from the entries of the tree's files.
    fn row_estimate(&self) -> Option<usize> {
        let family = self.family().ok()??;
        let stats = family.tree().db().stats();
        let tree = stats.trees.iter().find(|t| t.name == family.tree().name())?;
        let live = |run: &firn_kv::stats::RunStats| run.entries.saturating_sub(run.deletes * 2);
        let entries: u64 = tree.runs.iter().map(live).sum();
        let cells = self.table.regulars().count() + usize::from(self.table.marks_rows());
        let rows = usize::try_from(entries).ok()? / cells.max(1);
        Some(rows).filter(|rows| *rows > 0)
    }
}

/// Reports whether a value meets a condition.
fn meets(of: &Type, value: &Vec<u8>, comparison: &KeyComparison) -> bool {
    match comparison {
        KeyComparison::In(values) => values.contains(value),
        KeyComparison::Above(bound, or_equal) => match of.compare(value, bound) {
            Ordering::Equal => *or_equal,
            order => order == Ordering::Greater,
        },
        KeyComparison::Below(bound, or_equal) => match of.compare(value, bound) {
            Ordering::Equal => *or_equal,
            order => order == Ordering::Less,
        },
    }
}

/// Returns conditions on one column that are equivalent to all of these: its values, or at most one
/// lower and one upper bound.
fn merge(of: &Type, comparisons: &[&KeyComparison]) -> Vec<KeyComparison> {
    let (mut lower, mut upper) = (vec![], vec![]);
    for comparison in comparisons {
        match comparison {
            KeyComparison::In(values) => {
                let mut values = values.clone();
                values.retain(|v| comparisons.iter().all(|c| meets(of, v, c)));
                return vec![KeyComparison::In(values)];
            }
            KeyComparison::Above(value, or_equal) => lower.push((value, *or_equal)),
            KeyComparison::Below(value, or_equal) => upper.push((value, *or_equal)),
        }
    }
    // If two bounds have one value, the one that excludes it is stricter.
    let lower = lower.into_iter().max_by(|x, y| of.compare(x.0, y.0).then(y.1.cmp(&x.1)));
    let upper = upper.into_iter().min_by(|x, y| of.compare(x.0, y.0).then(x.1.cmp(&y.1)));
    let lower = lower.map(|(value, or_equal)| KeyComparison::Above(value.clone(), or_equal));
    let upper = upper.map(|(value, or_equal)| KeyComparison::Below(value.clone(), or_equal));
    lower.into_iter().chain(upper).collect()
}

/// Returns the text of a condition with markers, and adds its values.
fn condition(column: &TableColumn, of: &KeyComparison, bound: &mut Vec<BoundValue>) -> String {
    let name = quote_if_needed(&column.name);
    let mut bind = |value: &Vec<u8>| bound.push(BoundValue::Bytes(value.clone()));
    match of {
        KeyComparison::In(values) if values.len() == 1 => {
            values.iter().for_each(bind);
            format!("{name} = ?")
        }
        KeyComparison::In(values) => {
            values.iter().for_each(bind);
            format!("{name} IN ({})", vec!["?"; values.len()].join(", "))
        }
        KeyComparison::Above(value, or_equal) => {
            bind(value);
            format!("{name} {} ?", if *or_equal { ">=" } else { ">" })
        }
        KeyComparison::Below(value, or_equal) => {
            bind(value);
            format!("{name} {} ?", if *or_equal { "<=" } else { "<" })
        }
    }
}

#[async_trait]
impl TableProvider for FirnTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let mut out = vec![TableProviderFilterPushDown::Unsupported; filters.len()];
        for (at, is_exact) in self.pushed(filters).used {
            out[at] = match is_exact {
                true => TableProviderFilterPushDown::Exact,
                false => TableProviderFilterPushDown::Inexact,
            };
        }
        Ok(out)
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = Precision::Inexact(self.row_estimate()?);
        Some(statistics)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let family = self.family()?;
        let query = self.snapshots.of_query(state);
        let store = self.session.engine().store();
        let view = family.as_ref().map(|_| {
            let second = query.second(|| store.now());
            store.as_of(second).view_of(query.snapshot.clone())
        });
        let pushed = self.pushed(&filters.iter().collect::<Vec<_>>());
        let mut bound = vec![];
        let column = |i: usize| &self.table.columns()[i];
        let each = pushed.comparisons.iter();
        let conditions: Vec<String> =
            each.map(|(i, of)| condition(column(*i), of, &mut bound)).collect();
        let ranges = match conditions.is_empty() {
            true => self.token_ranges(family.as_ref(), state.config().target_partitions())?,
            false => vec![conditions.join(" AND ")],
        };
        let columns = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.types.len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&columns)?);
        if pushed.is_empty() {
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let mut statistics = Statistics::new_unknown(&schema);
        let rows = self.row_estimate().filter(|_| conditions.is_empty());
        statistics.num_rows = rows.map_or(Precision::Absent, |rows| {
            Precision::Inexact(limit.map_or(rows, |limit| limit.min(rows)))
        });
        let scan = TableScan {
            table: self.clone(),
            // A row counts even if none of its columns is read.
            selected: if columns.is_empty() { vec![0] } else { columns.clone() },
            has_columns: !columns.is_empty(),
            schema: schema.clone(),
            view,
            _query: query,
            ranges,
            bound,
            filters: filters.iter().map(Expr::to_string).collect(),
            limit: limit.filter(|_| pushed.are_exactly(filters.len())),
        };
        Ok(Arc::new(FirnScanExec::new(Arc::new(scan), schema, statistics)))
    }
}

/// Scan of a table.
#[derive(Clone, Debug)]
struct TableScan {
    table: FirnTable,
    /// Columns of the `SELECT`.
    selected: Vec<usize>,
    /// Whether batches have these columns, or a number of rows only.
    has_columns: bool,
    schema: SchemaRef,
    /// State to read; `None` for a system table.
    view: Option<StoreView>,
    /// Keeps the state for the other tables of the query.
    _query: Arc<QueryState>,
    /// Conditions of each partition.
    ranges: Vec<String>,
    /// Values of the markers in the conditions.
    bound: Vec<BoundValue>,
    /// Pushed conditions in SQL.
    filters: Vec<String>,
    limit: Option<usize>,
}

impl TableScan {
    /// Returns the `SELECT` of a partition.
    fn select(&self, partition: usize) -> String {
        let FirnTable { table, .. } = &self.table;
        let column = |i: &usize| quote_if_needed(&table.columns()[*i].name);
        let columns: Vec<_> = self.selected.iter().map(column).collect();
        let mut text = format!("SELECT {} FROM {}", columns.join(", "), self.table.name());
        if !self.ranges[partition].is_empty() {
            text.push_str(" WHERE ");
            text.push_str(&self.ranges[partition]);
        }
        if let Some(limit) = self.limit {
            let limit = i32::try_from(limit).unwrap_or(i32::MAX);
            text.push_str(&format!(" LIMIT {}", limit.max(1)));
        }
        text
    }
}

impl ScanSource for TableScan {
    fn partitions(&self) -> usize {
        self.ranges.len()
    }

    fn open(&self, partition: usize, batch_rows: usize) -> Result<Box<dyn BatchReader>> {
        let session = &self.table.session;
        let prepared = session.compile_once(None, &self.select(partition));
        let prepared = prepared.map_err(|e| failure(&self.table.name(), e))?;
        let how = RunOptions {
            page_size: Some(batch_rows.max(1)),
            max_result_bytes: Some(self.table.options.batch_bytes()),
            view: self.view.clone(),
            ..RunOptions::default()
        };
        Ok(Box::new(TableReader { scan: self.clone(), prepared, how, is_over: false }))
    }

    fn describe(&self) -> String {
        let columns: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        let mut text = format!("table={}, columns=[{}]", self.table.name(), columns.join(", "));
        if !self.filters.is_empty() {
            text.push_str(&format!(", filters=[{}]", self.filters.join(", ")));
        }
        if let Some(limit) = self.limit {
            text.push_str(&format!(", limit={limit}"));
        }
        text.push_str(&format!(", partitions={}", self.ranges.len()));
        text
    }
}

/// Reads a partition of a table, one page for each batch.
struct TableReader {
    scan: TableScan,
    prepared: Prepared,
    how: RunOptions,
    is_over: bool,
}

impl TableReader {
    /// Refuses to continue if the table has been altered: its columns, or its id, which names its
    /// storage.
    fn check_definition(&self, columns: &[firn_cql::ColumnSpec]) -> Result<()> {
        let FirnTable { session, table, .. } = &self.scan.table;
        let catalog = session.engine().catalog();
        let current = catalog.any_keyspace(&table.keyspace).and_then(|k| k.table(&table.name));
        let has_columns = columns.iter().zip(&self.scan.selected).all(|(column, i)| {
            let own = &table.columns()[*i];
            column.name == own.name && column.column_type == own.of
        });
        match current {
            Some(current) if current.id == table.id && has_columns => Ok(()),
            _ => {
                let text = "the table was altered: run the query again";
                Err(failure(&self.scan.table.name(), text))
            }
        }
    }
}

impl BatchReader for TableReader {
    fn next_batch(&mut self, stop: &Arc<AtomicBool>) -> Result<Option<RecordBatch>> {
        let FirnTable { session, types, options, .. } = &self.scan.table;
        let failed =
            |e: DataFusionError| e.context(format!("cannot read {}", self.scan.table.name()));
        // A page may be empty: a partition may have tombstones only.
        while !self.is_over {
            self.how.stop = Some(stop.clone());
            let page = session.run(&self.prepared, &self.scan.bound, &self.how);
            let page = page.map_err(|e| failure(&self.scan.table.name(), e))?;
            self.check_definition(page.columns())?;
            let next: Option<PagingState> = page.paging().cloned();
            self.is_over = next.is_none();
            self.how.paging = next;
            if page.is_empty() {
                continue;
            }
            let selected = if self.scan.has_columns { &self.scan.selected[..] } else { &[] };
            let mut columns: Vec<Column> =
                selected.iter().map(|i| Column::new(&types[*i], options.forms())).collect();
            let mut bytes = 0;
            for row in page.iter() {
                for (i, column) in columns.iter_mut().enumerate() {
                    column.append(row.bytes(i), &mut bytes).map_err(|why| {
                        let name = &page.columns()[i].name;
                        failed(DataFusionError::Execution(format!("column {name}: {why}")))
                    })?;
                }
            }
            return batch_of(&self.scan.schema, &mut columns, page.len()).map(Some).map_err(failed);
        }
        Ok(None)
    }
}
