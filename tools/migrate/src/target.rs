//! The side that takes: statements are sent in batches of one partition, no faster than was asked
//! for, and again where it is overloaded or does not answer.
//!
//! Invariant: a statement that is refused is kept with its table and key, and told; none is
//! swallowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firn_cluster::{Prepared, Session};
use firn_cql::{BatchKind, Bound, Class, Error, Run, quote_if_needed};
use firn_kv::Env;
use firn_table_events::cql_trouble;
use firn_tools::output::{Done, Failure};
use parking_lot::Mutex;

use crate::report::RefusedStatement;
use crate::statement::{CellStatement, StatementKey, TableStatements};

/// A batch has no more bytes than this, unless it is one statement: clusters warn from 5 KiB on.
const BATCH_BYTES: usize = 4 << 10;
/// A statement is sent this often, with pauses between.
const TRIES: u32 = 12;
/// The pause after the first try; it doubles,
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// up to this one.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Refused statements that are kept for telling.
const MOST_KEPT: usize = 1000;

/// What became of what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is there.
    There,
    /// It was refused, and did nothing.
    Refused,
    /// Nobody answered, and it may be there.
    Unanswered,
}

/// What was sent until now.
#[derive(Debug, Default)]
pub struct SendCounts {
    /// Cells, deletions and markers that are there.
    pub cells: AtomicU64,
    /// Statements that were refused.
    pub refused: AtomicU64,
    /// Of these, rows of counters that followed, which are not sent again.
    pub missing: AtomicU64,
    /// Times that something had to be sent again.
    pub retries: AtomicU64,
}

/// Where tables are sent to.
pub struct MigrateTarget {
    session: Session,
    env: Arc<dyn Env>,
    stop: Arc<AtomicBool>,
    /// Nanoseconds that a cell takes at the rate that was asked for; 0 for any.
    nanos_per_cell: f64,
    /// When the next cell may go, in nanoseconds of the environment's clock.
    next: Mutex<u64>,
    /// What was sent.
    pub counts: SendCounts,
    refused: Mutex<Vec<RefusedStatement>>,
}

impl std::fmt::Debug for MigrateTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MigrateTarget").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// Whether the same statement may be taken later.
fn passes(class: Class) -> bool {
    matches!(
        class,
        Class::Overloaded
            | Class::Unavailable
            | Class::IsBootstrapping
            | Class::WriteTimeout
            | Class::WriteFailure
            | Class::ReadTimeout
            | Class::ReadFailure
            | Class::Unanswered
            | Class::Server
    )
}

/// Whether a statement of which this is said did nothing.
fn did_nothing(class: Class) -> bool {
    matches!(class, Class::Overloaded | Class::Unavailable | Class::IsBootstrapping)
}

/// What helps where the cluster does not take statements of this keyspace for long.
fn advice(keyspace: &str, class: Class) -> String {
    match class {
        Class::Unavailable => format!(
            "too few nodes that hold copies are up: start them, or give the keyspace as many copies as there are nodes \
             (ALTER KEYSPACE {} WITH replication = …), or name a lower level (?consistency=ONE in the URL); then --resume",
            quote_if_needed(keyspace)
        ),
        Class::Overloaded | Class::WriteTimeout | Class::ReadTimeout => {
            "--resume goes on where this ended; --rate and --parallel make it go easier".to_owned()
        }
        _ => "see the log of the node; --resume goes on where this ended".to_owned(),
    }
}

impl MigrateTarget {
    /// Sends by this session, at most `rate` cells a second. `stop`: ends pauses, and what waits.
    pub fn new(
        session: Session,
        env: Arc<dyn Env>,
        rate: Option<u64>,
        stop: Arc<AtomicBool>,
    ) -> MigrateTarget {
        let nanos_per_cell = rate.map_or(0.0, |rate| 1e9 / rate.max(1) as f64);
        MigrateTarget {
            session,
            env,
            stop,
            nanos_per_cell,
            next: Mutex::default(),
            counts: SendCounts::default(),
            refused: Mutex::default(),
        }
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Whether it was asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What was refused, the first of it.
    pub fn refused(&self) -> Vec<RefusedStatement> {
        self.refused.lock().clone()
    }

    /// Waits until so many cells may be sent.
    fn take_turn(&self, cells: u64) {
        if self.nanos_per_cell == 0.0 {
            return;
        }
        let now = self.env.monotonic_nanos();
        let mine = {
            let mut next = self.next.lock();
            let mine = (*next).max(now);
            *next = mine + (cells as f64 * self.nanos_per_cell) as u64;
            mine
        };
        self.pause(Duration::from_nanos(mine.saturating_sub(now)));
    }

    /// Sleeps, but not when it is to stop.
    pub fn pause(&self, time: Duration) {
        let until = self.env.monotonic_nanos().saturating_add(time.as_nanos() as u64);
        loop {
            let left = until.saturating_sub(self.env.monotonic_nanos());
            if left == 0 || self.is_stopped() {
                return;
            }
            self.env.sleep(Duration::from_nanos(left).min(SHORTEST_PAUSE));
        }
    }

    fn once(&self, statements: &[CellStatement]) -> Result<(), Error> {
        let all: Vec<(&str, &Vec<Bound>)> = statements
            .iter()
            .flat_map(|s| {
                let appends = s.appends.iter().map(|(text, values)| (&**text, values));
                std::iter::once((&*s.text, &s.values)).chain(appends)
            })
            .collect();
        let prepare = |(text, _): &(&str, &Vec<Bound>)| self.session.prepare(text);
        let prepared = all.iter().map(prepare).collect::<Result<Vec<Prepared>, _>>()?;
        let run = Run::default();
        if let ([prepared], [(_, values)]) = (&*prepared, &*all) {
            return self.session.run(prepared, *values, &run).map(drop);
        }
        let values = all.iter().map(|(_, values)| (*values).clone());
        let members: Vec<(&Prepared, Vec<Bound>)> = prepared.iter().zip(values).collect();
        self.session.batch(BatchKind::Unlogged, &members, &run).map(drop)
    }

    /// Sends statements of one partition together; again, while that may help. What is refused
    /// together is sent one by one, so that what is not at fault gets there.
    fn together(
        &self,
        table: &TableStatements,
        key: &[StatementKey],
        statements: &[CellStatement],
    ) -> Done {
        let cells = statements.iter().map(|s| s.cells).sum();
        self.take_turn(cells);
        let mut pause = SHORTEST_PAUSE;
        let mut again: Option<Vec<CellStatement>> = None;
        for tried in 1.. {
            let error = match self.once(again.as_deref().unwrap_or(statements)) {
                Ok(()) => {
                    self.counts.cells.fetch_add(cells, Ordering::Relaxed);
                    return Ok(());
                }
                Err(e) => e,
            };
            if !passes(error.class()) {
                if let ([key], [_]) = (key, statements) {
                    self.refuse(table, key, &error);
                    return Ok(());
                }
                return key.iter().zip(statements).try_for_each(|(key, statement)| {
                    self.together(table, std::slice::from_ref(key), std::slice::from_ref(statement))
                });
            }
            if self.is_stopped() || tried >= TRIES {
                return Err(self.given_up(table, &error, tried));
            }
            self.counts.retries.fetch_add(1, Ordering::Relaxed);
            self.pause(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            let before = again.as_deref().unwrap_or(statements);
            again = Some(before.iter().map(CellStatement::again).collect());
        }
        Ok(())
    }

    fn given_up(&self, table: &TableStatements, error: &Error, tried: u32) -> Failure {
        let told = cql_trouble(error);
        match told {
            Failure::Failed { what, .. } => Failure::with_next(
                format!(
                    "the cluster did not take what was sent {tried} times: {}: {what}",
                    table.name()
                ),
                advice(&table.table().keyspace, error.class()),
            ),
            other => other,
        }
    }

    /// Keeps what was refused.
    pub fn refuse(&self, table: &TableStatements, key: &StatementKey, error: &Error) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        let mut refused = self.refused.lock();
        if refused.len() < MOST_KEPT {
            refused.push(RefusedStatement {
                table: table.name().to_owned(),
                key: table.key_words(key),
                why: error.text().into_owned(),
            });
        }
    }

    /// Sends a row of counters, whose statement must not be carried out twice: again only where it
    /// is known that it did nothing.
    ///
    /// # Errors
    /// A cluster that does not take it for long.
    pub fn count(
        &self,
        table: &TableStatements,
        key: &StatementKey,
        statement: &CellStatement,
    ) -> Done<Sent> {
        self.take_turn(statement.cells);
        let mut pause = SHORTEST_PAUSE;
        for tried in 1.. {
            let error = match self.once(std::slice::from_ref(statement)) {
                Ok(()) => {
                    self.counts.cells.fetch_add(statement.cells, Ordering::Relaxed);
                    return Ok(Sent::There);
                }
                Err(e) => e,
            };
            if !passes(error.class()) {
                self.refuse(table, key, &error);
                return Ok(Sent::Refused);
            }
            if !did_nothing(error.class()) {
                return Ok(Sent::Unanswered);
            }
            if self.is_stopped() || tried >= TRIES {
                return Err(self.given_up(table, &error, tried));
            }
            self.counts.retries.fetch_add(1, Ordering::Relaxed);
            self.pause(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Ok(Sent::Unanswered)
    }
}

/// Statements of one partition that wait to be sent together.
pub struct PartitionBatch<'a> {
    target: &'a MigrateTarget,
    table: &'a TableStatements,
    keys: Vec<StatementKey>,
    statements: Vec<CellStatement>,
    bytes: usize,
}

impl std::fmt::Debug for PartitionBatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartitionBatch").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<'a> PartitionBatch<'a> {
    /// An empty one.
    pub fn new(target: &'a MigrateTarget, table: &'a TableStatements) -> PartitionBatch<'a> {
        PartitionBatch { target, table, keys: vec![], statements: vec![], bytes: 0 }
    }

    /// Adds statements of one row, and sends what is enough.
    ///
    /// # Errors
    /// A cluster that does not take what is sent.
    pub fn add(&mut self, key: &StatementKey, statements: Vec<CellStatement>) -> Done {
        for statement in statements {
            let is_other = self.keys.last().is_some_and(|k| k.partition != key.partition);
            if is_other || self.bytes + statement.bytes > BATCH_BYTES {
                self.send()?;
            }
            self.bytes += statement.bytes;
            self.keys.push(key.clone());
            self.statements.push(statement);
        }
        Ok(())
    }

    /// Sends what is left.
    ///
    /// # Errors
    /// As [`add`](PartitionBatch::add).
    pub fn send(&mut self) -> Done {
        if !self.statements.is_empty() {
            self.target.together(self.table, &self.keys, &self.statements)?;
        }
        self.keys.clear();
        self.statements.clear();
        self.bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_away_and_overload_get_other_advice() {
        let away = advice("Shop", Class::Unavailable);
        assert!(
            away.contains("ALTER KEYSPACE \"Shop\" WITH") && !away.contains("--rate"),
            "{away}"
        );
        for class in [Class::Overloaded, Class::WriteTimeout] {
            let slower = advice("Shop", class);
            assert!(slower.contains("--rate") && !slower.contains("ALTER KEYSPACE"), "{slower}");
        }
        assert!(!advice("Shop", Class::Unanswered).contains("--rate"));
    }
}
