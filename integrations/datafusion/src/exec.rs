//! Physical plan of a scan: partitions of record batches, read by blocking tasks.
//!
//! Invariants:
//! - A partition has at most two batches in memory: the one that DataFusion has, and the next one,
//!   which a task reads meanwhile. Batches are bounded in rows and bytes.
//! - No task waits for DataFusion, so scans never exhaust the threads for blocking tasks.
//! - After a stream was dropped, its task ends at the next row that it reads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};
use firn_transfer::arrow::Column;
use futures::stream;
use tokio::task::spawn_blocking;

/// Reads the batches of one partition.
pub(crate) trait BatchReader: Send {
    /// Returns the next batch; `None` at the end. It ends early once `stop` is set.
    fn next_batch(&mut self, stop: &Arc<AtomicBool>) -> Result<Option<RecordBatch>>;
}

/// Scan of a table or tree.
pub(crate) trait ScanSource: fmt::Debug + Send + Sync {
    /// Returns the number of partitions.
    fn partitions(&self) -> usize;

    /// Begins to read a partition, in batches of at most this number of rows.
    fn open(&self, partition: usize, batch_rows: usize) -> Result<Box<dyn BatchReader>>;

    /// Describes the scan for `EXPLAIN`.
    fn describe(&self) -> String;
}

/// Returns an error of a store, with the table or tree where it occurred.
pub(crate) fn failure(
    of: &str,
    e: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> DataFusionError {
    DataFusionError::External(e.into()).context(format!("cannot read {of}"))
}

/// Makes a batch of the values of columns. Without columns it has a number of rows only.
pub(crate) fn batch_of(
    schema: &SchemaRef,
    columns: &mut [Column],
    rows: usize,
) -> Result<RecordBatch> {
    let arrays = columns.iter_mut().map(Column::finish).collect::<Result<Vec<ArrayRef>, String>>();
    let arrays = arrays.map_err(DataFusionError::Execution)?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
}

/// Scan of a store's table or tree.
#[derive(Debug)]
pub struct FirnScanExec {
    source: Arc<dyn ScanSource>,
    properties: Arc<PlanProperties>,
    statistics: Arc<Statistics>,
    metrics: ExecutionPlanMetricsSet,
}

impl FirnScanExec {
    pub(crate) fn new(
        source: Arc<dyn ScanSource>,
        schema: SchemaRef,
        statistics: Statistics,
    ) -> FirnScanExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(source.partitions()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        // A stream awaits tasks, which tokio counts.
        .with_scheduling_type(SchedulingType::Cooperative);
        FirnScanExec {
            source,
            properties: Arc::new(properties),
            statistics: Arc::new(statistics),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for FirnScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FirnScanExec: {}", self.source.describe())
    }
}

/// Sets a flag when it is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type NextBatch = Result<Option<(RecordBatch, Box<dyn BatchReader>)>>;

/// Reads a batch, and returns it with its reader.
fn next_batch(mut reader: Box<dyn BatchReader>, stop: &Arc<AtomicBool>) -> NextBatch {
    Ok(reader.next_batch(stop)?.map(|batch| (batch, reader)))
}

impl ExecutionPlan for FirnScanExec {
    fn name(&self) -> &'static str {
        "FirnScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition >= self.source.partitions() {
            return internal_err!("the scan has no partition {partition}");
        }
        let reader = self.source.open(partition, context.session_config().batch_size())?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let stop = Arc::new(AtomicBool::new(false));
        let guard = StopOnDrop(stop.clone());
        let spawn = move |reader| {
            let stop = stop.clone();
            spawn_blocking(move || next_batch(reader, &stop))
        };
        let state = (Some(reader), None, guard, metrics);
        let batches = stream::try_unfold(state, move |(first, next, guard, metrics)| {
            let task = first.map(&spawn).or(next);
            let spawn = spawn.clone();
            async move {
                let Some(task) = task else { return Ok(None) };
                let read = task.await.map_err(|e| DataFusionError::External(e.into()))??;
                let Some((batch, reader)) = read else { return Ok(None) };
                metrics.record_output(batch.num_rows());
                // The next batch is read while DataFusion works on this one.
                Ok(Some((batch, (None, Some(spawn(reader)), guard, metrics))))
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(match args.partition() {
            None => self.statistics.clone(),
            Some(_) => Arc::new(Statistics::new_unknown(&self.schema())),
        })
    }
}
