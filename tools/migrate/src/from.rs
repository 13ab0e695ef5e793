//! Copies tables of a cluster into a store, by token spans, in threads. A journal records the
//! progress, so an interrupted copy can be resumed.
//!
//! Invariant: a span is in the journal when all of it is durable in the store. A table with
//! counters or lists was empty when its copy began.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use firn_cluster::Session;
use firn_cql::internals::catalog::TableSchema;
use firn_kv::Env;
use firn_tools::output::{Done, Failure};
use firn_wide::Type;

use crate::cells::CellQuery;
use crate::copied::CopyJournal;
use crate::definitions::full_name;
use crate::ranges::in_parallel;
use crate::row_import::{ImportStats, RowImporter};
use crate::token_ranges::{TokenSpan, token_spans};
use firn_table_events::cql_trouble;

/// Sleep of a rate-limited thread before it checks whether to stop.
const NAP: Duration = Duration::from_millis(100);

/// A copy from a cluster.
pub struct ClusterCopy {
    /// The cluster.
    pub cluster: Session,
    /// The store.
    pub store: firn_cql::Session,
    /// Condition on the copied rows, as after `WHERE`. `None`: all rows.
    pub condition: Option<String>,
    /// Number of threads.
    pub threads: usize,
    /// Maximum number of cells per second.
    pub rate: Option<u64>,
    /// Ends the copy soon after it is set.
    pub stop: Arc<AtomicBool>,
    /// The clock.
    pub env: Arc<dyn Env>,
    /// The progress.
    pub journal: CopyJournal,
}

impl std::fmt::Debug for ClusterCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterCopy").field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl ClusterCopy {
    /// Returns an error for a table whose existing data a copy would add to: its copy has not
    /// begun, and the store has data of it.
    ///
    /// # Errors
    /// Such a table; errors of the store.
    pub fn check_empty(&self, schema: &Arc<TableSchema>) -> Done {
        let name = full_name(&schema.keyspace, &schema.name);
        let Some(why) = only_once(schema).filter(|_| !self.journal.has_begun(&name)) else {
            return Ok(());
        };
        let family = self.store.engine().family(schema).map_err(|e| cql_trouble(&e))?;
        match family.tree().is_empty()? {
            true => Ok(()),
            false => Err(Failure::with_next(
                format!("{name} has {why}, and is not empty in the store"),
                format!("TRUNCATE {name} there, or copy into a new store (--db)"),
            )),
        }
    }
}

/// Progress of the copy of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Finished spans.
    pub done: usize,
    /// Total spans.
    pub spans: usize,
    /// Cells read by this run.
    pub cells: u64,
}

/// A table being copied.
struct CopiedTable {
    copy: Arc<ClusterCopy>,
    name: String,
    query: CellQuery,
    schema: Arc<TableSchema>,
    /// Remaining spans with their numbers.
    left: Vec<(usize, TokenSpan)>,
    began_nanos: u64,
    cells: AtomicU64,
    done: AtomicUsize,
}

/// Returns the reason why a table must be empty before the copy, if it must.
pub fn only_once(schema: &TableSchema) -> Option<&'static str> {
    let has_list = |c: &firn_cql::internals::catalog::TableColumn| {
        c.of.multicell && matches!(c.of.value_type, Type::List(_))
    };
    if schema.is_counter() {
        return Some("counters, which a copy would add to");
    }
    schema.columns().iter().any(has_list).then_some("lists, to which a copy would append")
}

/// Copies a table; `look` gets the progress repeatedly. Data of an interrupted copy counts, too.
///
/// # Errors
/// A table that must be empty and is not; errors of the cluster; errors of the store; a stopped
/// copy.
pub fn copy_table(
    copy: &Arc<ClusterCopy>,
    schema: &Arc<TableSchema>,
    mut look: impl FnMut(CopyProgress),
) -> Done<ImportStats> {
    let name = full_name(&schema.keyspace, &schema.name);
    let engine = copy.store.engine();
    if !copy.journal.has_begun(&name) {
        copy.check_empty(schema)?;
        copy.journal.begin(&name)?;
    }
    let known = copy.journal.spans(&name);
    let all = token_spans(engine.partitioner());
    let spans = all.len();
    let left = all.into_iter().enumerate().filter(|(n, _)| !known.contains_key(n)).collect();
    let query =
        CellQuery::new(&copy.cluster, engine.partitioner(), schema, copy.condition.as_deref());
    let table = Arc::new(CopiedTable {
        copy: copy.clone(),
        name: name.clone(),
        query: query.map_err(|e| cql_trouble(&e))?,
        schema: schema.clone(),
        left,
        began_nanos: copy.env.monotonic_nanos(),
        cells: AtomicU64::new(0),
        done: AtomicUsize::new(known.len()),
    });
    let (work, working) = (table.clone(), table.clone());
    in_parallel(
        &copy.env,
        copy.threads,
        table.left.len(),
        &copy.stop,
        Arc::new(move |number| work.span(number)),
        || {
            let (done, cells) = (&working.done, &working.cells);
            let (done, cells) = (done.load(Ordering::Relaxed), cells.load(Ordering::Relaxed));
            look(CopyProgress { done, spans, cells });
        },
    )?;
    if copy.stop.load(Ordering::Relaxed) {
        return Err(Failure::with_next("the copy was interrupted", "--resume goes on with it"));
    }
    let mut counts = ImportStats::default();
    copy.journal.spans(&name).values().for_each(|of| counts.add(of));
    Ok(counts)
}

impl CopiedTable {
    /// Copies a span unless the copy is stopped.
    fn span(&self, number: usize) -> Done {
        let Some((number, span)) = self.left.get(number).copied() else { return Ok(()) };
        let copy = &*self.copy;
        let mut taker = RowImporter::new(&copy.store, self.schema.clone(), copy.journal.began())?;
        let mut reader = self.query.read(&*copy.env, span);
        while let Some(row) = reader.advance().map_err(|e| cql_trouble(&e))? {
            taker.take(&row)?;
            let cells = row.cells.len() as u64;
            if !self.go_on(self.cells.fetch_add(cells, Ordering::Relaxed) + cells) {
                return Ok(());
            }
        }
        taker.flush()?;
        copy.store.engine().store().db().sync()?;
        copy.journal.end(&self.name, number, taker.counts)?;
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Waits if the rate is too high. Returns whether the copy continues.
    fn go_on(&self, cells: u64) -> bool {
        let copy = &*self.copy;
        let due = copy.rate.map_or(0, |rate| {
            let nanos = u128::from(cells) * 1_000_000_000 / u128::from(rate.max(1));
            u64::try_from(nanos).unwrap_or(u64::MAX)
        });
        loop {
            if copy.stop.load(Ordering::Relaxed) {
                return false;
            }
            let passed = copy.env.monotonic_nanos().saturating_sub(self.began_nanos);
            match due.saturating_sub(passed) {
                0 => return true,
                early => copy.env.sleep(NAP.min(Duration::from_nanos(early))),
            }
        }
    }
}
