//! Target of a migration: sends statements in batches of one partition, rate-limited, with retries
//! if the cluster is overloaded or does not answer.
//!
//! Invariant: a refused statement is stored with its table and key, and reported; none is lost
//! silently.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firn_cluster::{Prepared, Session};
use firn_cql::{BatchKind, BoundValue, Error, ErrorClass, RunOptions, quote_if_needed};
use firn_kv::Env;
use firn_table_events::cql_trouble;
use firn_tools::output::{Done, Failure};
use parking_lot::Mutex;

use crate::report::RefusedStatement;
use crate::statement::{CellStatement, StatementKey, TableStatements};

/// Maximum bytes of a batch, except for a single statement: clusters warn from 5 KiB on.
const BATCH_BYTES: usize = 4 << 10;
/// Maximum number of attempts for a statement.
const TRIES: u32 = 12;
/// Pause after the first attempt; it doubles,
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// up to this one.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Maximum number of stored refused statements.
const MOST_KEPT: usize = 1000;

/// Result of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It has arrived.
    There,
    /// It was refused and had no effect.
    Refused,
    /// It was not answered and may have arrived.
    Unanswered,
}

/// Counters of the target.
#[derive(Debug, Default)]
pub struct SendCounts {
    /// Cells, deletions and markers that have arrived.
    pub cells: AtomicU64,
    /// Refused statements.
    pub refused: AtomicU64,
    /// Refused rows of counters of followed changes among them; these are not sent again.
    pub missing: AtomicU64,
    /// Retries.
    pub retries: AtomicU64,
}

/// Target of a migration.
pub struct MigrateTarget {
    session: Session,
    env: Arc<dyn Env>,
    stop: Arc<AtomicBool>,
    /// Nanoseconds per cell at the requested rate; 0 for unlimited.
    nanos_per_cell: f64,
    /// Time at which the next cell may be sent, in nanoseconds of the environment's clock.
    next: Mutex<u64>,
    /// Counters so far.
    pub counts: SendCounts,
    refused: Mutex<Vec<RefusedStatement>>,
}

impl std::fmt::Debug for MigrateTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MigrateTarget").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// Reports whether the same statement may succeed later.
fn passes(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::Overloaded
            | ErrorClass::Unavailable
            | ErrorClass::IsBootstrapping
            | ErrorClass::WriteTimeout
            | ErrorClass::WriteFailure
            | ErrorClass::ReadTimeout
            | ErrorClass::ReadFailure
            | ErrorClass::Unanswered
            | ErrorClass::Server
    )
}

/// Reports whether a statement with this error had no effect.
fn did_nothing(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Overloaded | ErrorClass::Unavailable | ErrorClass::IsBootstrapping)
}

/// Returns advice if the cluster persistently refuses statements of this keyspace.
fn advice(keyspace: &str, class: ErrorClass) -> String {
    match class {
        ErrorClass::Unavailable => format!(
            "too few nodes that hold copies are up: start them, or give the keyspace as many copies as there are nodes \
             (ALTER KEYSPACE {} WITH replication = …), or name a lower level (?consistency=ONE in the URL); then --resume",
            quote_if_needed(keyspace)
        ),
        ErrorClass::Overloaded | ErrorClass::WriteTimeout | ErrorClass::ReadTimeout => {
            "--resume goes on where this ended; --rate and --parallel make it go easier".to_owned()
        }
        _ => "see the log of the node; --resume goes on where this ended".to_owned(),
    }
}

impl MigrateTarget {
    /// Creates a target with this session and at most `rate` cells per second. `stop` ends pauses
    /// and waits.
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

    /// Returns the session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Reports whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the first refused statements.
    pub fn refused(&self) -> Vec<RefusedStatement> {
        self.refused.lock().clone()
    }

    /// Waits until this many cells may be sent.
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

    /// Sleeps, unless stopped.
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
        let all: Vec<(&str, &Vec<BoundValue>)> = statements
            .iter()
            .flat_map(|s| {
                let appends = s.appends.iter().map(|(text, values)| (&**text, values));
                std::iter::once((&*s.text, &s.values)).chain(appends)
            })
            .collect();
        let prepare = |(text, _): &(&str, &Vec<BoundValue>)| self.session.prepare(text);
        let prepared = all.iter().map(prepare).collect::<Result<Vec<Prepared>, _>>()?;
        let run = RunOptions::default();
        if let ([prepared], [(_, values)]) = (&*prepared, &*all) {
            return self.session.run(prepared, *values, &run).map(drop);
        }
        let values = all.iter().map(|(_, values)| (*values).clone());
        let members: Vec<(&Prepared, Vec<BoundValue>)> = prepared.iter().zip(values).collect();
        self.session.batch(BatchKind::Unlogged, &members, &run).map(drop)
    }

    /// Sends statements of one partition as a batch, with retries while they may help. A refused
    /// batch is sent one by one, so that its valid statements arrive.
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
        let failure = cql_trouble(error);
        match failure {
            Failure::Failed { what, .. } => Failure::with_next(
                format!("the cluster refused a statement {tried} times: {}: {what}", table.name()),
                advice(&table.table().keyspace, error.class()),
            ),
            other => other,
        }
    }

    /// Stores a refused statement.
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

    /// Sends a row of counters, whose statement must not be executed twice: it retries only after
    /// an error without effect.
    ///
    /// # Errors
    /// A cluster that persistently refuses it.
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

/// Pending statements of one partition.
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
    /// Creates an empty batch.
    pub fn new(target: &'a MigrateTarget, table: &'a TableStatements) -> PartitionBatch<'a> {
        PartitionBatch { target, table, keys: vec![], statements: vec![], bytes: 0 }
    }

    /// Adds statements of one row, and sends full batches.
    ///
    /// # Errors
    /// A cluster that does not accept the statements.
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

    /// Sends the remaining statements.
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
        let away = advice("Shop", ErrorClass::Unavailable);
        assert!(
            away.contains("ALTER KEYSPACE \"Shop\" WITH") && !away.contains("--rate"),
            "{away}"
        );
        for class in [ErrorClass::Overloaded, ErrorClass::WriteTimeout] {
            let slower = advice("Shop", class);
            assert!(slower.contains("--rate") && !slower.contains("ALTER KEYSPACE"), "{slower}");
        }
        assert!(!advice("Shop", ErrorClass::Unanswered).contains("--rate"));
    }
}
