//! A tree of the engine as a table of DataFusion, with the columns `key` and `value`.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use firn_kv::Tree;
use firn_transfer::arrow::{Column, field};
use firn_transfer::export::pair_columns;
use firn_transfer::form::ByteForm;
use firn_wide::Type;

use crate::exec::{BatchReader, FirnScanExec, ScanSource, batch_of, failure};
use crate::predicate::{KeyComparison, KeyPredicate, PredicateReader};
use crate::snapshots::QueryState;
use crate::{QuerySnapshots, SqlScanOptions};

/// Entries between two checks of the flag that stops a scan.
const CHECK: usize = 64;

/// A tree as a table with the columns `key` and `value`, in given forms. An entry that does not
/// have its form fails the query.
///
/// Conditions on the key (`=`, `<`, `<=`, `>`, `>=`) restrict the scanned range.
#[derive(Clone)]
pub struct FirnTree {
    tree: Tree,
    snapshots: QuerySnapshots,
    options: SqlScanOptions,
    /// Forms of keys and values.
    forms: [ByteForm; 2],
    types: [Type; 2],
    schema: SchemaRef,
}

impl fmt::Debug for FirnTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirnTree")
            .field("name", &self.tree.name())
            .field("forms", &self.forms)
            .finish_non_exhaustive()
    }
}

impl FirnTree {
    /// Creates a table of a tree. `forms` are those of keys and values. Tables with clones of
    /// `snapshots` read one snapshot within a query.
    pub fn new(
        snapshots: &QuerySnapshots,
        tree: &Tree,
        forms: [ByteForm; 2],
        options: SqlScanOptions,
    ) -> FirnTree {
        let types = forms.map(ByteForm::value_type);
        let columns = pair_columns(forms);
        let fields = columns.iter().map(|column| {
            let field = field(&column.name, &column.value_type, options.forms());
            Arc::unwrap_or_clone(field).with_nullable(false)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let (tree, snapshots) = (tree.clone(), snapshots.clone());
        FirnTree { tree, snapshots, options, forms, types, schema }
    }

    fn name(&self) -> String {
        format!("the tree {}", self.tree.name())
    }

    /// Returns the bounds of keys that a condition allows; `None` if it cannot be evaluated.
    fn bounds(&self, predicate: &KeyPredicate) -> Option<KeyInterval> {
        let key = |value: &[u8]| self.forms[0].write(&self.types[0], value.to_vec()).ok();
        if predicate.column != 0 || self.forms[0] == ByteForm::Hex {
            return None;
        }
        Some(match &predicate.comparison {
            KeyComparison::In(_) => {
                let key = key(predicate.equal()?)?;
                (Bound::Included(key.clone()), Bound::Included(key))
            }
            KeyComparison::Above(value, true) => (Bound::Included(key(value)?), Bound::Unbounded),
            KeyComparison::Above(value, false) => (Bound::Excluded(key(value)?), Bound::Unbounded),
            KeyComparison::Below(value, true) => (Bound::Unbounded, Bound::Included(key(value)?)),
            KeyComparison::Below(value, false) => (Bound::Unbounded, Bound::Excluded(key(value)?)),
        })
    }

    /// Returns the bounds of keys that each condition allows.
    fn intervals(&self, filters: &[&Expr]) -> Vec<Option<KeyInterval>> {
        let reader = PredicateReader { schema: &self.schema, types: &self.types };
        filters.iter().map(|f| self.bounds(&reader.read(f)?)).collect()
    }

    /// Divides an interval at the ends of table files, into parts of about equal size.
    fn divided(&self, interval: KeyInterval, target: usize) -> Result<Vec<KeyInterval>> {
        let failed = |e| failure(&self.name(), e);
        let bytes = self.tree.approximate_size(interval.clone()).map_err(failed)?;
        let count = self.options.partitions(bytes, target);
        if count == 1 {
            return Ok(vec![interval]);
        }
        let mut ends: Vec<(Vec<u8>, u64)> = self
            .tree
            .tables()
            .map_err(failed)?
            .into_iter()
            .map(|t| (t.last_key, t.bytes))
            .collect();
        ends.retain(|(key, _)| is_within(key, &interval));
        ends.sort();
        let all: u64 = ends.iter().map(|(_, bytes)| *bytes).sum();
        let (mut parts, mut from, mut sum) = (vec![], interval.0, 0);
        for (key, bytes) in ends {
            sum += bytes;
            let is_full = sum * count as u64 >= all * (parts.len() as u64 + 1);
            let is_new = !matches!(&from, Bound::Excluded(last) if *last == key);
            if is_full && is_new && parts.len() + 1 < count {
                parts.push((from, Bound::Included(key.clone())));
                from = Bound::Excluded(key);
            }
        }
        parts.push((from, interval.1));
        Ok(parts)
    }

    fn entry_estimate(&self) -> Option<usize> {
        let stats = self.tree.db().stats();
        let tree = stats.trees.iter().find(|t| t.name == self.tree.name())?;
        let live = |run: &firn_kv::stats::RunStats| run.entries.saturating_sub(run.deletes * 2);
        let entries: u64 = tree.runs.iter().map(live).sum();
        usize::try_from(entries).ok().filter(|entries| *entries > 0)
    }
}

/// Bounds of keys.
type KeyInterval = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Reports whether a key is in an interval, and not its end.
fn is_within(key: &[u8], (from, until): &KeyInterval) -> bool {
    let is_after = match from {
        Bound::Included(from) => key >= &**from,
        Bound::Excluded(from) => key > &**from,
        Bound::Unbounded => true,
    };
    let is_before = match until {
        Bound::Included(until) | Bound::Excluded(until) => key < &**until,
        Bound::Unbounded => true,
    };
    is_after && is_before
}

/// Returns the keys in both intervals.
fn intersect(a: KeyInterval, b: KeyInterval) -> KeyInterval {
    // If two bounds have one key, the excluding one is stricter.
    let rank = |bound: &Bound<Vec<u8>>, excluded: u8| match bound {
        Bound::Included(key) => Some((key.clone(), 1)),
        Bound::Excluded(key) => Some((key.clone(), excluded)),
        Bound::Unbounded => None,
    };
    let from = if rank(&a.0, 2) >= rank(&b.0, 2) { a.0 } else { b.0 };
    let until = match (rank(&a.1, 0), rank(&b.1, 0)) {
        (None, _) => b.1,
        (Some(_), None) => a.1,
        (x, y) => {
            if x <= y {
                a.1
            } else {
                b.1
            }
        }
    };
    (from, until)
}

/// Reports whether no key is in an interval.
fn is_empty((from, until): &KeyInterval) -> bool {
    match (from, until) {
        (Bound::Included(from), Bound::Included(until)) => from > until,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(until) | Bound::Excluded(until),
        ) => from >= until,
        _ => false,
    }
}

#[async_trait]
impl TableProvider for FirnTree {
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
        let support = |interval: Option<KeyInterval>| match interval {
            // All keys have the form, so the order of keys is that of their values.
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(self.intervals(filters).into_iter().map(support).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = Precision::Inexact(self.entry_estimate()?);
        Some(statistics)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let query = self.snapshots.of_query(state);
        let intervals = self.intervals(&filters.iter().collect::<Vec<_>>());
        let is_exact = intervals.iter().all(Option::is_some);
        let whole = (Bound::Unbounded, Bound::Unbounded);
        let interval = intervals.into_iter().flatten().fold(whole, intersect);
        let columns = match projection {
            Some(projection) => projection.clone(),
            None => vec![0, 1],
        };
        let schema = Arc::new(self.schema.project(&columns)?);
        if is_empty(&interval) {
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let intervals = self.divided(interval, state.config().target_partitions())?;
        let mut statistics = Statistics::new_unknown(&schema);
        let rows = self.entry_estimate().filter(|_| filters.is_empty());
        statistics.num_rows = rows.map_or(Precision::Absent, Precision::Inexact);
        let scan = TreeScan {
            table: self.clone(),
            query,
            columns,
            schema: schema.clone(),
            intervals,
            filters: filters.iter().map(Expr::to_string).collect(),
            limit: limit.filter(|_| is_exact),
        };
        Ok(Arc::new(FirnScanExec::new(Arc::new(scan), schema, statistics)))
    }
}

/// Scan of a tree.
#[derive(Clone, Debug)]
struct TreeScan {
    table: FirnTree,
    query: Arc<QueryState>,
    columns: Vec<usize>,
    schema: SchemaRef,
    /// Keys of each partition.
    intervals: Vec<KeyInterval>,
    /// Pushed conditions in SQL.
    filters: Vec<String>,
    limit: Option<usize>,
}

impl ScanSource for TreeScan {
    fn partitions(&self) -> usize {
        self.intervals.len()
    }

    fn open(&self, partition: usize, batch_rows: usize) -> Result<Box<dyn BatchReader>> {
        let entries =
            self.query.snapshot.range(&self.table.tree, self.intervals[partition].clone());
        let left = self.limit.unwrap_or(usize::MAX);
        Ok(Box::new(TreeReader {
            scan: self.clone(),
            entries,
            batch_rows: batch_rows.max(1),
            left,
        }))
    }

    fn describe(&self) -> String {
        let columns: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        let mut text = format!("tree={}, columns=[{}]", self.table.tree.name(), columns.join(", "));
        if !self.filters.is_empty() {
            text.push_str(&format!(", filters=[{}]", self.filters.join(", ")));
        }
        if let Some(limit) = self.limit {
            text.push_str(&format!(", limit={limit}"));
        }
        text.push_str(&format!(", partitions={}", self.intervals.len()));
        text
    }
}

/// Reads a partition of a tree.
struct TreeReader {
    scan: TreeScan,
    entries: firn_kv::Range,
    batch_rows: usize,
    /// Rows that the limit still allows.
    left: usize,
}

impl TreeReader {
    /// Appends an entry to the columns.
    fn append(
        &self,
        entry: &[firn_kv::Value; 2],
        columns: &mut [Column],
        bytes: &mut usize,
    ) -> Result<()> {
        for (column, i) in columns.iter_mut().zip(&self.scan.columns) {
            let value = self.scan.table.forms[*i].read(&entry[*i]);
            value.and_then(|value| column.append(Some(&value), bytes)).map_err(|why| {
                let name = self.scan.table.schema.field(*i).name();
                let text = format!("column {name}: {why}; choose another form");
                failure(&self.scan.table.name(), text)
            })?;
        }
        Ok(())
    }
}

impl BatchReader for TreeReader {
    fn next_batch(&mut self, stop: &Arc<AtomicBool>) -> Result<Option<RecordBatch>> {
        let table = &self.scan.table;
        let new = |i: &usize| Column::new(&table.types[*i], table.options.forms());
        let mut columns: Vec<Column> = self.scan.columns.iter().map(new).collect();
        let (mut rows, mut bytes) = (0, 0);
        while rows < self.batch_rows.min(self.left) && bytes < table.options.batch_bytes() / 4 {
            if rows % CHECK == 0 && stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let entry = self.entries.next().transpose();
            let Some((key, value)) = entry.map_err(|e| failure(&self.scan.table.name(), e))? else {
                break;
            };
            self.append(&[key, value], &mut columns, &mut bytes)?;
            rows += 1;
        }
        self.left -= rows;
        if rows == 0 {
            return Ok(None);
        }
        batch_of(&self.scan.schema, &mut columns, rows).map(Some)
    }
}
