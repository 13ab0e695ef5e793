//! `--to`: migrates the tables of a store to a cluster.
//!
//! Invariants: all tables are read at one state. A token range is done when the target has accepted
//! all of it; a range with a refused statement is not done.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firn_cassandra::NodeEvent;
use firn_cluster::Session as ClusterSession;
use firn_cql::Session;
use firn_cql::internals::catalog::TableSchema;
use firn_kv::Env;
use firn_table_events::{ExportTotals, ExportedTable, cql_trouble};
use firn_tools::output::{Done, Failure, Progress, count};
use firn_wide::internals::store::Partitions;
use parking_lot::Mutex;

use crate::condition::KeyCondition;
use crate::counters::{self, CounterGroup};
use crate::definitions::has_table;
use crate::journal::{AddedRow, JOURNAL_VERSION, JournalHead, MigrateJournal};
use crate::ranges::{RangeWork, in_parallel, token_ranges};
use crate::report::CarriedLosses;
use crate::statement::{StatementKey, StatementWalk, TableStatements};
use crate::target::{MigrateTarget, PartitionBatch};

/// Token ranges of each table.
const RANGES: u16 = 256;
/// Maximum number of times that unanswered counters are sent again.
const MOST_ROUNDS: usize = 5;

/// A table to migrate.
#[derive(Debug)]
pub struct OutgoingTable {
    /// Its contents.
    pub exported: ExportedTable,
    /// Its statements.
    pub statements: TableStatements,
    /// The migrated part; `None` for all.
    pub condition: Option<KeyCondition>,
}

/// Result of inspecting a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableSurvey {
    /// Its contents in numbers.
    pub totals: ExportTotals,
    /// Data that cannot be migrated unchanged.
    pub losses: CarriedLosses,
}

impl TableSurvey {
    /// Formats the losses.
    pub fn describe(&self) -> Vec<String> {
        [self.totals.losses(), self.losses.describe()].concat()
    }
}

/// The tables of a store, at one state, to migrate.
pub struct ClusterExport {
    pub(crate) env: Arc<dyn Env>,
    /// The tables.
    pub tables: Vec<OutgoingTable>,
    pub(crate) ranges: Vec<Partitions>,
    /// Sequence number of the state.
    pub seq: u64,
    store: String,
    condition: Option<String>,
}

impl fmt::Debug for ClusterExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outward").field("seq", &self.seq).finish_non_exhaustive()
    }
}

fn stopped() -> Failure {
    Failure::with_next("the migration was stopped", "--resume goes on where it ended")
}

/// Follows the events of a table and filters them by a condition.
pub(crate) struct ConditionFilter<'a> {
    table: &'a OutgoingTable,
    pub walk: StatementWalk<'a>,
    key: Vec<Vec<u8>>,
    accepted: bool,
}

impl<'a> ConditionFilter<'a> {
    pub fn new(table: &'a OutgoingTable) -> ConditionFilter<'a> {
        let walk = StatementWalk::new(&table.statements);
        ConditionFilter { table, walk, key: vec![], accepted: true }
    }

    /// Reports whether this event is migrated.
    pub fn accepts(&mut self, event: &NodeEvent, losses: &mut CarriedLosses) -> Done<bool> {
        let Some(condition) = &self.table.condition else { return Ok(true) };
        if let NodeEvent::Partition(p) = event {
            self.key = self.table.statements.partition_values(&p.key)?;
            self.accepted = condition.accepts_partition(&self.key)?;
        }
        if !self.accepted || condition.of_partitions {
            return Ok(self.accepted);
        }
        match event {
            NodeEvent::Partition(p) => losses.kept_back += u64::from(p.deletion.is_some()),
            NodeEvent::Marker(m) => losses.kept_back += u64::from(m.open.is_some()),
            NodeEvent::Row(row) if row.is_static => return Ok(true),
            NodeEvent::Row(row) => {
                let clustering: Vec<Vec<u8>> = row.clustering.iter().flatten().cloned().collect();
                return condition.accepts_row(&self.key, &clustering);
            }
        }
        Ok(false)
    }

    pub fn event(
        &mut self,
        event: &NodeEvent,
        now: i64,
        attempt: i64,
        losses: &mut CarriedLosses,
    ) -> Done<(StatementKey, Vec<crate::statement::CellStatement>)> {
        if self.accepts(event, losses)? {
            return self.walk.event(event, now, attempt, losses);
        }
        // The rows of the partition still follow.
        if let NodeEvent::Partition(p) = event {
            self.walk.enter(&p.key)?;
        }
        Ok(Default::default())
    }
}

impl ClusterExport {
    /// Prepares these tables, each a keyspace and a name, in their current state. `condition`: on
    /// the primary key columns of each.
    ///
    /// # Errors
    /// A missing table, or an invalid condition.
    pub fn new(
        env: Arc<dyn Env>,
        session: &Session,
        names: &[(String, String)],
        condition: Option<&str>,
    ) -> Done<ClusterExport> {
        let engine = session.engine();
        let catalog = engine.fresh_catalog().map_err(|e| cql_trouble(&e))?;
        let view = engine.store().view();
        let seq = view.seq().unwrap_or_default();
        let owner = engine.host_id().into_bytes();
        let one = |(keyspace, name): &(String, String)| {
            let found = catalog.keyspace(keyspace).and_then(|k| k.table(name));
            let missing = || Failure::new(format!("there is no table {keyspace}.{name}"));
            let schema: &Arc<TableSchema> = found.ok_or_else(missing)?;
            let family = engine.family(schema).map_err(|e| cql_trouble(&e))?;
            let partitioner = engine.partitioner();
            let exported =
                ExportedTable::new(schema.clone(), family, view.clone(), partitioner, owner)?;
            let asked = condition.map(|text| KeyCondition::new(session, schema, text));
            let statements = TableStatements::new(&exported);
            Ok(OutgoingTable { exported, statements, condition: asked.transpose()? })
        };
        Ok(ClusterExport {
            env,
            tables: names.iter().map(one).collect::<Done<_>>()?,
            ranges: token_ranges(engine.partitioner(), RANGES),
            seq,
            store: engine.host_id().to_string(),
            condition: condition.map(str::to_owned),
        })
    }

    /// Returns the head of its journal.
    pub fn head(&self, nodes: &[String]) -> JournalHead {
        let table = |t: &OutgoingTable| {
            let schema = t.exported.schema();
            (schema.keyspace.to_string(), schema.name.to_string(), schema.uuid.to_string())
        };
        JournalHead {
            firn_migrate: JOURNAL_VERSION,
            store: self.store.clone(),
            target: nodes.to_vec(),
            tables: self.tables.iter().map(table).collect(),
            ranges: self.ranges.len() as u16,
            condition: self.condition.clone(),
        }
    }

    pub(crate) fn now(&self) -> i64 {
        (self.env.wall_micros() / 1_000_000) as i64
    }

    /// Returns the number of token ranges of all tables.
    pub fn ranges(&self) -> u64 {
        (self.tables.len() * self.ranges.len()) as u64
    }

    /// Returns all ranges of all tables.
    fn places(&self) -> Vec<(usize, usize)> {
        let of = |table| (0..self.ranges.len()).map(move |range| (table, range));
        (0..self.tables.len()).flat_map(of).collect()
    }

    /// Inspects everything: contents and losses, by table.
    ///
    /// # Errors
    /// Errors of reading, and `stop`.
    pub fn look(
        self: &Arc<Self>,
        threads: usize,
        stop: &Arc<AtomicBool>,
        progress: &Progress,
    ) -> Done<Vec<TableSurvey>> {
        let found = Arc::new(Mutex::new(vec![TableSurvey::default(); self.tables.len()]));
        let looked = Arc::new(AtomicU64::new(0));
        let places = self.places();
        let all = places.len();
        let work: RangeWork = {
            let (this, found, looked) = (self.clone(), found.clone(), looked.clone());
            let stop = stop.clone();
            Arc::new(move |number| {
                let (table, range) = places[number];
                let one = this.look_at(table, range, &stop)?;
                let mut found = found.lock();
                found[table].totals.add(&one.totals);
                found[table].losses.add(&one.losses);
                looked.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        };
        let said = found.clone();
        in_parallel(&self.env, threads, all, stop, work, || {
            progress.at(looked.load(Ordering::Relaxed));
            let cells = said.lock().iter().map(|l| l.totals.cells).sum();
            progress.say(format!("{} cells", count(cells)));
        })?;
        if stop.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        let found = found.lock().clone();
        Ok(found)
    }

    fn look_at(&self, table: usize, range: usize, stop: &AtomicBool) -> Done<TableSurvey> {
        let table = &self.tables[table];
        let mut walk = ConditionFilter::new(table);
        let (mut losses, now) = (CarriedLosses::default(), self.now());
        let is_counter = table.exported.schema().is_counter();
        let totals = table.exported.each(&self.ranges[range], &mut |event| {
            if stop.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            match is_counter {
                true => walk.accepts(event, &mut losses).map(drop),
                false => walk.event(event, now, 0, &mut losses).map(drop),
            }
        })?;
        Ok(TableSurvey { totals, losses })
    }

    /// Returns an error if the target has rows in tables that do not merge by timestamp. Counters
    /// would be added to, and the elements of a list that is sent again would be duplicated. Tables
    /// that the target does not have yet are empty.
    ///
    /// # Errors
    /// The first such table; errors of reading it.
    pub fn check_empty(&self, target: &ClusterSession) -> Done {
        for table in &self.tables {
            let name = table.statements.name();
            let why = match table.exported.schema().is_counter() {
                true => "a migration would add to its counters",
                false if table.statements.has_lists() => {
                    "lists that are sent again have duplicated elements"
                }
                false => continue,
            };
            let schema = table.exported.schema();
            if !has_table(target, &schema.keyspace, &schema.name)? {
                continue;
            }
            let rows = target.execute(&format!("SELECT * FROM {name} LIMIT 1"), ());
            if !rows.map_err(|e| cql_trouble(&e))?.is_empty() {
                return Err(Failure::with_next(
                    format!("{name} has rows at the cluster already: {why}"),
                    "TRUNCATE it there, or leave it out with --tables; --resume goes on with a migration that was begun",
                ));
            }
        }
        Ok(())
    }

    /// Sends everything that the journal does not record as done. Then it looks up unanswered
    /// counters, at the earliest `settle` after they were sent.
    ///
    /// # Errors
    /// A cluster that does not accept the statements; errors of reading and of the journal; a stop.
    pub fn send_all(
        self: &Arc<Self>,
        target: &Arc<MigrateTarget>,
        journal: &Arc<MigrateJournal>,
        threads: usize,
        settle: Duration,
        stop: &Arc<AtomicBool>,
        progress: &Progress,
    ) -> Done {
        let tables: Vec<&TableStatements> = self.tables.iter().map(|t| &t.statements).collect();
        for _ in 0..MOST_ROUNDS {
            counters::settle(&self.env, &tables, target, journal, settle)?;
            self.copy(target, journal, threads, stop, progress)?;
            if journal.doubtful().is_empty() {
                return Ok(());
            }
        }
        Err(Failure::with_next(
            "the cluster leaves counters unanswered again and again",
            "--resume goes on; --parallel 1 makes it go easier",
        ))
    }

    /// Formats rows of counters whose state cannot be determined.
    pub fn unknown(&self, journal: &MigrateJournal) -> Vec<String> {
        self.counted_words(journal.unknown())
    }

    /// Formats refused rows of counters of followed changes, which are missing.
    pub fn missing(&self, journal: &MigrateJournal) -> Vec<String> {
        self.counted_words(journal.missing())
    }

    fn counted_words(&self, rows: Vec<(usize, AddedRow)>) -> Vec<String> {
        let words = |(table, row): (usize, AddedRow)| {
            self.tables.get(table).map(|t| counters::row_words(&t.statements, &row))
        };
        rows.into_iter().filter_map(words).collect()
    }

    /// Sends everything that the journal does not record as done.
    fn copy(
        self: &Arc<Self>,
        target: &Arc<MigrateTarget>,
        journal: &Arc<MigrateJournal>,
        threads: usize,
        stop: &Arc<AtomicBool>,
        progress: &Progress,
    ) -> Done {
        let all = self.places();
        let is_left = |place: &(usize, usize)| !journal.range(place.0, place.1).done;
        let places: Vec<_> = all.iter().copied().filter(is_left).collect();
        let (left, before) = (places.len(), (all.len() - places.len()) as u64);
        let done = Arc::new(AtomicU64::new(before));
        let work: RangeWork = {
            let (this, target, journal) = (self.clone(), target.clone(), journal.clone());
            let done = done.clone();
            Arc::new(move |number| {
                let (table, range) = places[number];
                match this.tables[table].exported.schema().is_counter() {
                    true => this.copy_counters(table, range, &target, &journal)?,
                    false => this.copy_range(table, range, &target, &journal)?,
                }
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        };
        let began = self.env.monotonic_nanos();
        let counts = || target.counts.cells.load(Ordering::Relaxed);
        let at_first = counts();
        in_parallel(&self.env, threads, left, stop, work, || {
            progress.at(done.load(Ordering::Relaxed));
            let seconds = self.env.monotonic_nanos().saturating_sub(began) as f64 / 1e9;
            let rate = (counts() - at_first) as f64 / seconds.max(1e-3);
            progress.say(format!("{} cells, {} a second", count(counts()), count(rate as u64)));
        })?;
        if stop.load(Ordering::Relaxed) { Err(stopped()) } else { Ok(()) }
    }

    fn copy_range(
        &self,
        number: usize,
        range: usize,
        target: &MigrateTarget,
        journal: &MigrateJournal,
    ) -> Done {
        let table = &self.tables[number];
        let attempt = i64::from(journal.range(number, range).begun);
        let mut walk = ConditionFilter::new(table);
        let mut batch = PartitionBatch::new(target, &table.statements);
        let mut losses = CarriedLosses::default();
        let refused = target.counts.refused.load(Ordering::Acquire);
        let mut begun = false;
        table.exported.each(&self.ranges[range], &mut |event| {
            if target.is_stopped() {
                return Err(stopped());
            }
            let (key, statements) = walk.event(event, self.now(), attempt, &mut losses)?;
            if !begun && !statements.is_empty() {
                journal.begun(number, range, self.seq)?;
                begun = true;
            }
            batch.add(&key, statements)
        })?;
        batch.send()?;
        // Another thread's refusal may count, too: the range is then sent once more.
        if target.counts.refused.load(Ordering::Acquire) == refused {
            journal.done(number, range, self.seq)?;
        }
        Ok(())
    }

    fn copy_counters(
        &self,
        number: usize,
        range: usize,
        target: &MigrateTarget,
        journal: &MigrateJournal,
    ) -> Done {
        let table = &self.tables[number];
        let mut walk = ConditionFilter::new(table);
        let mut group =
            CounterGroup::new(&table.statements, (number, range), self.seq, target, journal);
        let mut losses = CarriedLosses::default();
        table.exported.each(&self.ranges[range], &mut |event| {
            if target.is_stopped() {
                return Err(stopped());
            }
            let accepted = walk.accepts(event, &mut losses)?;
            match event {
                NodeEvent::Partition(p) => walk.walk.enter(&p.key),
                NodeEvent::Row(row) if accepted => group.add(walk.walk.partition(), row),
                _ => Ok(()),
            }
        })?;
        if group.finish()? {
            journal.done(number, range, self.seq)?;
        }
        Ok(())
    }
}
