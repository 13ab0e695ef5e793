//! `--follow`: also sends the writes during the migration to the cluster, until the switch.
//!
//! The store's change feed is applied, as stored, to an in-memory mirror that holds nothing else.
//! The changes are then read and converted to statements like a whole table. A round sends the
//! changes since the previous round.
//!
//! Invariants:
//! - The feed begins before the first read of the store, so no change is missed.
//! - The journal records a round as followed when all of it was accepted. An interrupted round is
//!   sent again, except counters: these are in the journal before they are sent, and reported if
//!   their state is unknown. A resumed round of counters ends no earlier than the interrupted one:
//!   its deletions are at the cluster, and are newer than everything before them.
//! - A list is sent as it is in the store, with a timestamp above that of earlier statements.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firn_cassandra::{NodeCell, NodeCellState, NodeEvent, NodeRow};
use firn_cql::Session;
use firn_kv::{BatchOp, Change, ChangeFeed, ErrorKind, MemEnv, Seq};
use firn_table_events::{ExportedTable, MOST_LIST_RUNS, MirrorStore, cql_trouble};
use firn_tools::output::{Done, Failure, Progress, things};
use firn_wide::internals::store::{Partitions, StoreFamily, StoreView};

use crate::cluster_export::{ClusterExport, ConditionFilter, OutgoingTable};
use crate::counters::{CountedRow, add_followed, counted, journal_key};
use crate::journal::{FOLLOWED, MigrateJournal};
use crate::report::CarriedLosses;
use crate::statement::{CellStatement, StatementKey, TableStatements};
use crate::target::{MigrateTarget, PartitionBatch};

/// A round ends after this many operations,
const ROUND: usize = 5_000;
/// or when no change came for this long.
const WAIT: Duration = Duration::from_millis(100);
/// Maximum number of remembered lists with a raised timestamp.
const MOST_RAISED: usize = 100_000;

/// A list: table, partition key, row key, column.
type ListPlace = (usize, Vec<u8>, Vec<Vec<u8>>, usize);
/// Timestamps that lists were sent with.
type RaisedLists = BTreeMap<ListPlace, i64>;

/// A followed table.
struct FollowedTable {
    /// The name of its tree.
    tree: String,
    /// Its changes, as stored.
    mirror: OutgoingTable,
    mirrored: StoreFamily,
    /// Its current contents.
    live: ExportedTable,
    /// Where it was truncated in the round.
    truncated: Option<Seq>,
    /// Deletions of counters in the round.
    deleted: Vec<(StatementKey, CellStatement)>,
    /// All counters up to this sequence number had arrived at the start.
    counted: Seq,
    /// The previous run was interrupted while sending a round of counters up to here: the deletions
    /// up to it have arrived, and some of the rows.
    amid: Seq,
    /// Whether the round has changes.
    changed: bool,
}

/// Follower of a store's changes.
pub struct Follower {
    outward: Arc<ClusterExport>,
    session: Session,
    feed: ChangeFeed,
    /// The sequence number at the start.
    began: Seq,
    store: MirrorStore,
    tables: Vec<FollowedTable>,
    /// Timestamps of sent lists, if they differ from those of their elements.
    raised: RaisedLists,
    /// Version of the schema at the start.
    version: u64,
    /// Whether statements were refused that a resumed run sends again.
    holds_back: bool,
    /// Deletions of counters, which a cluster handles only if nothing is added later.
    pub deleted_counters: u64,
    /// Data that could not be sent unchanged.
    pub losses: CarriedLosses,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("seq", &self.feed.seq()).finish_non_exhaustive()
    }
}

/// Returns the change feed of a store from a sequence number on; it holds at most `most` bytes of
/// the log.
///
/// # Errors
/// A log that does not reach back to `seq`; errors of [`firn_kv::Db::changes_since`].
pub fn feed(session: &Session, seq: Option<Seq>, most: u64) -> Done<ChangeFeed> {
    let store = session.engine().store();
    let seq = seq.unwrap_or_else(|| store.view().seq().unwrap_or_default());
    store.db().changes_since(seq, most).map_err(lagged)
}

fn lagged(e: firn_kv::Error) -> Failure {
    match e.kind() {
        ErrorKind::Lagged => Failure::with_next(
            format!("the store has let go of changes that were not sent yet: {e}"),
            "remove the journal and begin anew, with a larger --hold-log: what is at the cluster already is sent again, lists and counters want empty tables",
        ),
        _ => e.into(),
    }
}

impl Follower {
    /// Follows the changes of the tables of a migration.
    ///
    /// # Errors
    /// Errors of the mirror and of the journal.
    pub fn new(
        outward: Arc<ClusterExport>,
        session: Session,
        feed: ChangeFeed,
        journal: &MigrateJournal,
    ) -> Done<Follower> {
        let store = MirrorStore::new(Arc::new(MemEnv::new(outward.env.random())))?;
        let engine = session.engine();
        let owner = engine.host_id().into_bytes();
        let live = engine.store().latest();
        let mut tables = vec![];
        for (number, table) in outward.tables.iter().enumerate() {
            let mirrored = store.open(table.exported.family())?;
            let schema = table.exported.schema();
            let of = |family: &StoreFamily, view: StoreView| {
                let partitioner = engine.partitioner();
                ExportedTable::new(schema.clone(), family.clone(), view, partitioner, owner)
            };
            let exported = of(&mirrored, store.latest())?;
            let statements = TableStatements::new(&exported);
            let condition = table.condition.clone();
            journal.begun(number, FOLLOWED, feed.seq())?;
            let before = journal.range(number, FOLLOWED);
            tables.push(FollowedTable {
                tree: table.exported.family().tree().name().to_owned(),
                mirror: OutgoingTable { exported, statements, condition },
                mirrored,
                live: of(table.exported.family(), live.clone())?,
                truncated: None,
                deleted: vec![],
                counted: before.counted,
                amid: before.sent_seq,
                changed: false,
            });
        }
        let version = engine.catalog().version();
        Ok(Follower {
            outward,
            session,
            began: feed.seq(),
            feed,
            store,
            tables,
            raised: BTreeMap::new(),
            version,
            holds_back: false,
            deleted_counters: 0,
            losses: CarriedLosses::default(),
        })
    }

    /// Returns the number of changes read from the store's log, in the units of
    /// [`behind`](Follower::behind).
    pub fn followed(&self) -> u64 {
        self.feed.seq().saturating_sub(self.began)
    }

    /// Returns the number of changes in the store's log that are not sent yet. A write has one
    /// change for each of its cells, markers, deletions and index entries.
    pub fn behind(&self) -> u64 {
        let newest = self.session.engine().store().view().seq().unwrap_or_default();
        newest.saturating_sub(self.feed.seq())
    }

    /// Sends changes until it is stopped, or nothing was written for the given time.
    ///
    /// # Errors
    /// A feed that was lost, changed definitions, a cluster that does not accept the statements.
    pub fn run(
        &mut self,
        target: &MigrateTarget,
        journal: &MigrateJournal,
        until_idle: Option<Duration>,
        progress: &Progress,
    ) -> Done {
        let env = self.outward.env.clone();
        let mut last = env.monotonic_nanos();
        let at_first = target.counts.cells.load(Ordering::Relaxed);
        while !target.is_stopped() {
            if self.round(target, journal)? {
                last = env.monotonic_nanos();
            }
            let sent = target.counts.cells.load(Ordering::Relaxed).saturating_sub(at_first);
            progress.say(follow_words(self.followed(), sent, Some(self.behind())));
            let idle = Duration::from_nanos(env.monotonic_nanos().saturating_sub(last));
            if until_idle.is_some_and(|most| idle >= most) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends the changes since the previous round; returns whether there were any.
    fn round(&mut self, target: &MigrateTarget, journal: &MigrateJournal) -> Done<bool> {
        let mut operations = 0;
        let mut any = false;
        while (operations < ROUND || self.is_amid()) && !target.is_stopped() {
            let wait = if any { Duration::ZERO } else { WAIT };
            let Some(change) = self.feed.next(wait).map_err(lagged)? else { break };
            any = true;
            operations += self.take(&change, journal)?;
        }
        if !any || self.is_amid() {
            return Ok(any);
        }
        self.check_definitions()?;
        let seq = self.feed.seq();
        for number in 0..self.tables.len() {
            self.send(number, seq, target, journal)?;
        }
        if !self.holds_back {
            journal.followed(seq)?;
        }
        Ok(true)
    }

    /// Reports whether an interrupted round of counters would be split here.
    fn is_amid(&self) -> bool {
        let seq = self.feed.seq();
        self.tables.iter().any(|t| t.counted < seq && seq < t.amid)
    }

    /// Applies a change to the mirror; returns its number of operations.
    fn take(&mut self, change: &Change, journal: &MigrateJournal) -> Done<usize> {
        if change.is_loaded() {
            return Err(Failure::with_next(
                "data was loaded into the store past its log, which the feed of changes does not have",
                "remove the journal and begin anew",
            ));
        }
        let last = *change.seqs().end();
        let mut count = 0;
        for op in change.ops() {
            count += 1;
            let Some((tree, key)) = place_of(&op) else { continue };
            let Some(number) = self.tables.iter().position(|t| t.tree == tree) else { continue };
            if self.tables[number].mirrored.is_counter() {
                self.take_counter(number, &op, key, last, journal)?;
                continue;
            }
            let table = &mut self.tables[number];
            table.changed = true;
            match op {
                // Keys of the data model are not empty, so this is the whole table.
                BatchOp::DeleteRange { start: [], .. } => self.truncate(number, last)?,
                _ => MirrorStore::apply(&table.mirrored, &op)?,
            }
        }
        Ok(count)
    }

    /// Applies a truncation of the table.
    fn truncate(&mut self, number: usize, seq: Seq) -> Done {
        let table = &mut self.tables[number];
        (table.truncated, table.changed) = (Some(seq), true);
        table.deleted.clear();
        self.store.truncate(&table.mirrored)
    }

    /// Applies a counter operation to the mirror, unless it has reached the cluster already. That
    /// depends on the state at which the row was read, and on earlier rounds.
    fn take_counter(
        &mut self,
        number: usize,
        op: &BatchOp<'_>,
        key: &[u8],
        seq: Seq,
        journal: &MigrateJournal,
    ) -> Done {
        let ranges = &self.outward.ranges;
        let table = &mut self.tables[number];
        if seq <= table.counted {
            return Ok(());
        }
        if let BatchOp::DeleteRange { start: [], .. } = op {
            // If only a part was read before it, the whole table is sent again.
            if journal.was_read(number, ranges.len(), seq) {
                return Ok(());
            }
            return self.truncate(number, seq);
        }
        let is_range = matches!(op, BatchOp::DeleteRange { .. });
        let layout = table.mirrored.layout();
        let place = table.mirror.statements.counter_place(layout, key, is_range)?;
        let row = journal_key(&place.key);
        // A truncated table has nothing from an earlier state.
        if table.truncated.is_none() {
            let range = ranges.iter().position(|r| holds(r, key)).unwrap_or_default();
            let (oldest, newest) = journal.read_at(number, range, place.is_static, &row);
            if seq <= oldest {
                return Ok(());
            }
            if seq <= newest {
                return Err(Failure::with_next(
                    "a partition of counters was deleted while a migration that was interrupted had read a part of it",
                    "TRUNCATE its table at the cluster, remove the journal and begin anew",
                ));
            }
        }
        let row = place.is_static.map(|is_static| (is_static, row));
        if let (BatchOp::Put { .. } | BatchOp::Merge { .. }, Some(row)) = (op, &row)
            && journal.has_followed(number, row, seq)
        {
            return Ok(());
        }
        let tree = table.mirrored.tree();
        table.changed = true;
        match op {
            BatchOp::Put { key, value, .. } => tree.put(key, value)?,
            BatchOp::Merge { key, operand, .. } => tree.merge(key, operand)?,
            BatchOp::Delete { key, .. } => tree.delete(key)?,
            BatchOp::DeleteRange { start, end, .. } => {
                tree.delete_range(*start..end.unwrap_or_default())?;
            }
            _ => {}
        }
        // Deletions are sent before rows, so those of an interrupted round have arrived.
        if seq > table.amid && (is_range || matches!(op, BatchOp::Delete { .. })) {
            let made = table.mirror.statements.counter_deletion(&place);
            table.deleted.push((place.key, made));
        }
        Ok(())
    }

    /// Returns an error if a followed table has changed.
    fn check_definitions(&mut self) -> Done {
        let engine = self.session.engine();
        let catalog = engine.fresh_catalog().map_err(|e| cql_trouble(&e))?;
        if catalog.version() == self.version {
            return Ok(());
        }
        for table in &self.outward.tables {
            let before = table.exported.schema();
            let now = catalog.keyspace(&before.keyspace).and_then(|k| k.table(&before.name));
            if now.is_none_or(|now| now.id != before.id || now.columns() != before.columns()) {
                return Err(Failure::with_next(
                    format!("the definition of {} has changed", table.statements.name()),
                    "change it at the cluster, too, remove the journal, and begin anew",
                ));
            }
        }
        self.version = catalog.version();
        Ok(())
    }

    /// Sends the changes of a table and empties its mirror.
    fn send(
        &mut self,
        number: usize,
        seq: Seq,
        target: &MigrateTarget,
        journal: &MigrateJournal,
    ) -> Done {
        if !std::mem::take(&mut self.tables[number].changed) {
            return Ok(());
        }
        if let Some(at) = self.tables[number].truncated.take() {
            let cql = format!("TRUNCATE {}", self.tables[number].mirror.statements.name());
            target.session().execute(&cql, ()).map_err(|e| cql_trouble(&e))?;
            if self.tables[number].mirrored.is_counter() {
                journal.truncated(number, at)?;
            }
        }
        match self.tables[number].mirrored.is_counter() {
            true => self.send_counters(number, seq, target, journal)?,
            false => self.send_cells(number, target, journal)?,
        }
        self.store.truncate(&self.tables[number].mirrored)
    }

    fn send_cells(
        &mut self,
        number: usize,
        target: &MigrateTarget,
        journal: &MigrateJournal,
    ) -> Done {
        let attempt = i64::from(journal.attempts(number));
        let refused = target.counts.refused.load(Ordering::Acquire);
        let table = &self.tables[number];
        let (raised, losses) = (&mut self.raised, &mut self.losses);
        let mut walk = ConditionFilter::new(&table.mirror);
        let mut batch = PartitionBatch::new(target, &table.mirror.statements);
        let mut partition = vec![];
        let outward = &self.outward;
        table.mirror.exported.each(&Partitions::all(), &mut |event| {
            let (key, statements) = match event {
                NodeEvent::Row(row) => {
                    let row = with_lists(table, number, &partition, row, raised)?;
                    walk.event(&NodeEvent::Row(row), outward.now(), attempt, losses)?
                }
                other => {
                    if let NodeEvent::Partition(p) = other {
                        partition.clone_from(&p.key);
                    }
                    walk.event(other, outward.now(), attempt, losses)?
                }
            };
            batch.add(&key, statements)
        })?;
        batch.send()?;
        self.holds_back |= target.counts.refused.load(Ordering::Acquire) != refused;
        Ok(())
    }

    fn send_counters(
        &mut self,
        number: usize,
        seq: Seq,
        target: &MigrateTarget,
        journal: &MigrateJournal,
    ) -> Done {
        let table = &mut self.tables[number];
        let mut batch = PartitionBatch::new(target, &table.mirror.statements);
        let mut losses = CarriedLosses::default();
        let refused = target.counts.refused.load(Ordering::Acquire);
        for (key, made) in std::mem::take(&mut table.deleted) {
            self.deleted_counters += 1;
            let condition = table.mirror.condition.as_ref();
            if condition.map_or(Ok(true), |c| c.accepts_partition(&key.partition))? {
                // Clusters do not accept several in one batch.
                batch.add(&key, vec![made])?;
                batch.send()?;
            }
        }
        // Later additions would be added to counters that should be deleted.
        if target.counts.refused.load(Ordering::Acquire) != refused {
            let why = target.refused().pop().map_or_else(String::new, |r| r.why);
            return Err(Failure::with_next(
                format!("{} refused a deletion of counters: {why}", table.mirror.statements.name()),
                "--resume --follow sends it again, and later writes",
            ));
        }
        let mut rows: Vec<CountedRow> = vec![];
        let mut walk = ConditionFilter::new(&table.mirror);
        table.mirror.exported.each(&Partitions::all(), &mut |event| {
            let accepted = walk.accepts(event, &mut losses)?;
            match event {
                NodeEvent::Partition(p) => walk.walk.enter(&p.key)?,
                NodeEvent::Row(row) if accepted => {
                    rows.extend(counted(&table.mirror.statements, walk.walk.partition(), row));
                }
                _ => {}
            }
            Ok(())
        })?;
        add_followed(&table.mirror.statements, number, seq, target, journal, &rows)?;
        journal.counted(number, seq)
    }
}

/// Formats the progress of a follower: changes read from the store's log, sent cells, and remaining
/// changes.
pub fn follow_words(followed: u64, sent: u64, behind: Option<u64>) -> String {
    let changes = |n| things(n, "change", "changes");
    let sent = things(sent, "cell and deletion", "cells and deletions");
    let behind = behind.map_or(String::new(), |n| format!(", {} behind", changes(n)));
    format!("{} of the store's log followed, {sent} sent{behind}", changes(followed))
}

/// Returns the tree of an operation, and its first key.
fn place_of<'a>(op: &BatchOp<'a>) -> Option<(&'a str, &'a [u8])> {
    match op {
        BatchOp::Put { tree, key, .. }
        | BatchOp::Delete { tree, key }
        | BatchOp::Merge { tree, key, .. } => Some((tree, key)),
        BatchOp::DeleteRange { tree, start, .. } => Some((tree, start)),
        _ => None,
    }
}

/// Reports whether a key is in a range of partitions.
fn holds(range: &Partitions, key: &[u8]) -> bool {
    let after = match &range.from {
        Bound::Included(from) => key >= &**from,
        Bound::Excluded(from) => key > &**from,
        Bound::Unbounded => true,
    };
    let before = match &range.until {
        Bound::Included(until) => key <= &**until,
        Bound::Excluded(until) => key < &**until,
        Bound::Unbounded => true,
    };
    after && before
}

/// Returns a row of the mirror with its lists as in the store, and with timestamps above those of
/// earlier statements.
fn with_lists(
    table: &FollowedTable,
    number: usize,
    partition: &[u8],
    row: &NodeRow,
    raised: &mut RaisedLists,
) -> Done<NodeRow> {
    let mut row = row.clone();
    let is_list = |n: usize| table.mirror.statements.is_list(row.is_static, n);
    if !row.columns.iter().any(|c| is_list(c.column)) {
        return Ok(row);
    }
    let clustering: Vec<Vec<u8>> = row.clustering.iter().flatten().cloned().collect();
    let at = (!row.is_static).then_some(&*clustering);
    let live = table.live.live_row(partition, at)?;
    for column in
        row.columns.iter_mut().filter(|c| table.mirror.statements.is_list(row.is_static, c.column))
    {
        let there = live.iter().flat_map(|l| &l.columns).find(|c| c.column == column.column);
        let there: Vec<NodeCell> = there.map(|c| c.cells.clone()).unwrap_or_default();
        let of_cells = column.cells.iter().map(|c| c.timestamp).max();
        let newest = of_cells.max(column.deletion.map(|d| d.timestamp)).unwrap_or(i64::MIN);
        let is_new = |c: &&NodeCell| column.cells.iter().any(|new| new.path == c.path);
        let before = there.iter().filter(|c| !is_new(c)).map(|c| c.timestamp).max();
        let place = (number, partition.to_vec(), clustering.clone(), column.column);
        let before = before.max(raised.get(&place).copied());
        // Each run of elements that expire together has a timestamp; the last has that of the list.
        let life = |cell: &NodeCell| match &cell.state {
            NodeCellState::Expiring(_, e) => Some(e.expires),
            _ => None,
        };
        let runs = there.chunk_by(|a, b| life(a) == life(b)).count().min(MOST_LIST_RUNS);
        let span = runs.saturating_sub(1) as i64;
        let deleted = column.deletion.map(|d| d.timestamp).filter(|_| span > 0);
        let before = before.max(deleted);
        let oldest = there.iter().map(|c| c.timestamp).min();
        let least = before.map(|before| before.saturating_add(1)).max(oldest);
        let mut timestamp = newest;
        if let Some(least) = least.map(|t| t.saturating_add(span)).filter(|t| *t > newest) {
            timestamp = least;
            if raised.len() >= MOST_RAISED {
                raised.clear();
            }
            raised.insert(place, timestamp);
        }
        // Carries the write time; it is not an element.
        let state = NodeCellState::Deleted(0);
        column.cells = there;
        column.cells.push(NodeCell { path: None, timestamp, state });
        column.deletion = None;
    }
    Ok(row)
}
