//! `--to`: the tables of a store to a cluster.
//!
//! Invariants: all tables are read as one state has them. A range of tokens is done when everything
//! in it was taken; one of which something was refused is not.

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

/// Ranges of tokens of each table.
const RANGES: u16 = 256;
/// How often counters that were not answered are sent again.
const MOST_ROUNDS: usize = 5;

/// A table that is carried.
#[derive(Debug)]
pub struct OutwardTable {
    /// What is in it.
    pub exported: ExportedTable,
    /// What is said of it.
    pub statements: TableStatements,
    /// What of it is carried; `None` for all.
    pub condition: Option<KeyCondition>,
}

/// What a look at a table found.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableLook {
    /// What is there.
    pub totals: ExportTotals,
    /// What can't be carried as it is.
    pub losses: CarriedLosses,
}

impl TableLook {
    /// What is not carried as it is, in words.
    pub fn told(&self) -> Vec<String> {
        [self.totals.losses(), self.losses.told()].concat()
    }
}

/// The tables of a store, as one state has them, on their way.
pub struct Outward {
    pub(crate) env: Arc<dyn Env>,
    /// The tables.
    pub tables: Vec<OutwardTable>,
    pub(crate) ranges: Vec<Partitions>,
    /// The sequence number of the state.
    pub seq: u64,
    store: String,
    condition: Option<String>,
}

impl fmt::Debug for Outward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outward").field("seq", &self.seq).finish_non_exhaustive()
    }
}

fn stopped() -> Failure {
    Failure::with_next("the migration was stopped", "--resume goes on where it ended")
}

/// Follows the events of a table, of those that a condition accepts only.
pub(crate) struct ConditionWalk<'a> {
    table: &'a OutwardTable,
    pub walk: StatementWalk<'a>,
    key: Vec<Vec<u8>>,
    accepted: bool,
}

impl<'a> ConditionWalk<'a> {
    pub fn new(table: &'a OutwardTable) -> ConditionWalk<'a> {
        let walk = StatementWalk::new(&table.statements);
        ConditionWalk { table, walk, key: vec![], accepted: true }
    }

    /// Whether what this event says is carried.
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
        // The rows of the partition are still its rows.
        if let NodeEvent::Partition(p) = event {
            self.walk.enter(&p.key)?;
        }
        Ok(Default::default())
    }
}

impl Outward {
    /// These tables, each a keyspace and a name, as they are now. `condition`: on the columns of the
    /// primary key of each.
    ///
    /// # Errors
    /// A table that is not there, and a condition that is none.
    pub fn new(
        env: Arc<dyn Env>,
        session: &Session,
        names: &[(String, String)],
        condition: Option<&str>,
    ) -> Done<Outward> {
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
            Ok(OutwardTable { exported, statements, condition: asked.transpose()? })
        };
        Ok(Outward {
            env,
            tables: names.iter().map(one).collect::<Done<_>>()?,
            ranges: token_ranges(engine.partitioner(), RANGES),
            seq,
            store: engine.host_id().to_string(),
            condition: condition.map(str::to_owned),
        })
    }

    /// What its journal begins with.
    pub fn head(&self, nodes: &[String]) -> JournalHead {
        let table = |t: &OutwardTable| {
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

    /// How many ranges of tokens there are, of all tables.
    pub fn ranges(&self) -> u64 {
        (self.tables.len() * self.ranges.len()) as u64
    }

    /// All ranges of all tables.
    fn places(&self) -> Vec<(usize, usize)> {
        let of = |table| (0..self.ranges.len()).map(move |range| (table, range));
        (0..self.tables.len()).flat_map(of).collect()
    }

    /// Looks at everything: what there is, and what can't be carried as it is, by tables.
    ///
    /// # Errors
    /// Those of reading, and `stop`.
    pub fn look(
        self: &Arc<Self>,
        threads: usize,
        stop: &Arc<AtomicBool>,
        progress: &Progress,
    ) -> Done<Vec<TableLook>> {
        let found = Arc::new(Mutex::new(vec![TableLook::default(); self.tables.len()]));
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

    fn look_at(&self, table: usize, range: usize, stop: &AtomicBool) -> Done<TableLook> {
        let table = &self.tables[table];
        let mut walk = ConditionWalk::new(table);
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
        Ok(TableLook { totals, losses })
    }

    /// Refuses tables that have rows at the target which would not be merged with: counters would be
    /// added to, and lists that were sent before would have each element twice. Tables that the
    /// target does not have yet are empty.
    ///
    /// # Errors
    /// The first such table, and those of reading it.
    pub fn check_empty(&self, target: &ClusterSession) -> Done {
        for table in &self.tables {
            let name = table.statements.name();
            let why = match table.exported.schema().is_counter() {
                true => "a migration would add to its counters",
                false if table.statements.has_lists() => {
                    "lists that are sent again have each element twice"
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

    /// Sends what the journal does not say to be done, and finds out what became of counters that were
    /// sent and not answered, which it looks for no sooner than `settle` after that.
    ///
    /// # Errors
    /// A cluster that does not take it, those of reading and of the journal, and being stopped.
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

    /// Rows of counters of which nobody can know whether they are there, in words.
    pub fn unknown(&self, journal: &MigrateJournal) -> Vec<String> {
        self.counted_words(journal.unknown())
    }

    /// Rows of counters that followed and are not there, because they were refused, in words.
    pub fn missing(&self, journal: &MigrateJournal) -> Vec<String> {
        self.counted_words(journal.missing())
    }

    fn counted_words(&self, rows: Vec<(usize, AddedRow)>) -> Vec<String> {
        let words = |(table, row): (usize, AddedRow)| {
            self.tables.get(table).map(|t| counters::row_words(&t.statements, &row))
        };
        rows.into_iter().filter_map(words).collect()
    }

    /// Sends what the journal does not say to be done.
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
        let mut walk = ConditionWalk::new(table);
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
        // One that another thread met may be counted, too: the range is then sent once more.
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
        let mut walk = ConditionWalk::new(table);
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
