//! Compares whole tables of both sides, by token spans, in threads.
//!
//! Invariant: it stores at most the requested number of differences, those with the smallest
//! tokens, and counts all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use firn_cluster::Session;
use firn_cql::internals::catalog::TableSchema;
use firn_kv::Env;
use firn_tools::output::{Done, Failure};
use firn_wide::Partitioner;
use parking_lot::Mutex;

use crate::cells::CellQuery;
use crate::from::CopyProgress;
use crate::ranges::in_parallel;
use crate::token_ranges::token_spans;
use crate::verify::{CellDifference, VerifiedTable, VerifyCounts};
use firn_table_events::cql_trouble;

/// A comparison of both sides.
pub struct TableComparison {
    /// The store.
    pub firn: Session,
    /// The cluster.
    pub cluster: Session,
    /// The partitioner of both sides.
    pub partitioner: Partitioner,
    /// Condition on the compared rows, as after `WHERE`. `None`: all rows.
    pub condition: Option<String>,
    /// Whether static columns are compared.
    pub has_statics: bool,
    /// Number of threads.
    pub threads: usize,
    /// Tolerance for TTLs, in seconds.
    pub drift: u32,
    /// Maximum number of stored differences of a table.
    pub most: usize,
    /// Ends the comparison soon after it is set.
    pub stop: Arc<AtomicBool>,
    /// The clock.
    pub env: Arc<dyn Env>,
}

impl std::fmt::Debug for TableComparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BothSides").field("partitioner", &self.partitioner).finish_non_exhaustive()
    }
}

/// Results by span.
#[derive(Default)]
struct ComparisonResult {
    counts: VerifyCounts,
    differences: BTreeMap<usize, Vec<CellDifference>>,
}

/// Compares a table; `look` gets the progress repeatedly.
///
/// # Errors
/// Errors of the statement that reads the table; a stopped comparison.
pub fn verify_table(
    sides: &Arc<TableComparison>,
    schema: &Arc<TableSchema>,
    mut look: impl FnMut(CopyProgress),
) -> Done<(VerifyCounts, Vec<CellDifference>)> {
    let query = |session: &Session| {
        let condition = sides.condition.as_deref();
        CellQuery::new(session, sides.partitioner, schema, condition).map_err(|e| cql_trouble(&e))
    };
    let (firn, cluster) = (query(&sides.firn)?, query(&sides.cluster)?);
    let all = token_spans(sides.partitioner);
    let count = all.len();
    let found = Arc::new((Mutex::new(ComparisonResult::default()), AtomicUsize::new(0)));
    let (work, working) = (sides.clone(), found.clone());
    let span = move |number: usize| -> Done {
        let mut differences = vec![];
        let table = VerifiedTable {
            firn: &firn,
            cluster: &cluster,
            has_statics: work.has_statics,
            drift: work.drift.into(),
            env: &*work.env,
        };
        let counts = table.compare(all[number], &work.stop, &mut |difference| {
            if differences.len() < work.most {
                differences.push(difference);
            }
        });
        let counts = counts.map_err(|e| cql_trouble(&e))?;
        let mut found = working.0.lock();
        found.counts.add(&counts);
        found.differences.insert(number, differences);
        working.1.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    in_parallel(&sides.env, sides.threads, count, &sides.stop, Arc::new(span), || {
        let cells = found.0.lock().counts.cells;
        look(CopyProgress { done: found.1.load(Ordering::Relaxed), spans: count, cells });
    })?;
    if sides.stop.load(Ordering::Relaxed) {
        return Err(Failure::new("the comparison was interrupted"));
    }
    let mut found = found.0.lock();
    let mut differences: Vec<_> =
        std::mem::take(&mut found.differences).into_values().flatten().collect();
    differences.truncate(sides.most);
    Ok((found.counts.clone(), differences))
}
