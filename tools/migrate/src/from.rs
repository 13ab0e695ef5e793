//! Tables of a cluster copied into a store, by spans of tokens, in threads; a journal says what
//! is done, so a copy that broke off can go on.
//!
//! Invariant: a span is in the journal when all of it is safe in the store; a table of counters or lists
//! was empty when its copy began.

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
use crate::spans::{TokenSpan, token_spans};
use crate::taker::{ImportStats, RowTaker};
use firn_table_events::cql_trouble;

/// How long a thread that is too fast sleeps before it looks whether it is to stop.
const NAP: Duration = Duration::from_millis(100);

/// A copy from a cluster.
pub struct ClusterCopy {
    /// The cluster.
    pub cluster: Session,
    /// The store.
    pub store: firn_cql::Session,
    /// What rows are copied, as behind `WHERE`. `None`: all.
    pub condition: Option<String>,
    /// How many threads work.
    pub threads: usize,
    /// How many cells are copied in a second at most.
    pub rate: Option<u64>,
    /// Ends the copy soon after it is set.
    pub stop: Arc<AtomicBool>,
    /// The clock.
    pub env: Arc<dyn Env>,
    /// What is done.
    pub journal: CopyJournal,
}

impl std::fmt::Debug for ClusterCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterCopy").field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl ClusterCopy {
    /// Refuses a table that a copy would add to, where that copy has not begun and the store has
    /// something of it.
    ///
    /// # Errors
    /// Such a table, and those of the store.
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

/// How far the copy of a table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Spans that are done.
    pub done: usize,
    /// Spans in all.
    pub spans: usize,
    /// Cells that were read now.
    pub cells: u64,
}

/// A table that is copied.
struct CopiedTable {
    copy: Arc<ClusterCopy>,
    name: String,
    query: CellQuery,
    schema: Arc<TableSchema>,
    /// The spans that are left, with their numbers.
    left: Vec<(usize, TokenSpan)>,
    began_nanos: u64,
    cells: AtomicU64,
    done: AtomicUsize,
}

/// Why a table has to be empty before it is copied into, if it has to.
pub fn only_once(schema: &TableSchema) -> Option<&'static str> {
    let has_list = |c: &firn_cql::internals::catalog::TableColumn| {
        c.of.multicell && matches!(c.of.of, Type::List(_))
    };
    if schema.is_counter() {
        return Some("counters, which a copy would add to");
    }
    schema.columns().iter().any(has_list).then_some("lists, to which a copy would append")
}

/// Copies a table; `look` is told how far it is, again and again. What was copied before a copy
/// broke off counts, too.
///
/// # Errors
/// A table that has to be empty and is not; what the cluster says; those of the store; a copy that
/// was stopped.
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
    /// Copies a span, unless it is stopped.
    fn span(&self, number: usize) -> Done {
        let Some((number, span)) = self.left.get(number).copied() else { return Ok(()) };
        let copy = &*self.copy;
        let mut taker = RowTaker::new(&copy.store, self.schema.clone(), copy.journal.began())?;
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

    /// Waits where that many cells came too fast. Whether the copy goes on.
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
