//! Migration of counters, which must be added exactly once. Rows are recorded in the journal before
//! they are sent. Unanswered ones are looked up before anything of them is sent again.
//!
//! Invariant: a row of counters is sent again only if it is known to be missing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firn_cassandra::NodeRow;
use firn_cql::{BoundValue, RunOptions, quote_if_needed};
use firn_kv::Env;
use firn_table_events::cql_trouble;
use firn_tools::output::{Done, Failure};

use crate::journal::{AddedOutcome, AddedRow, FOLLOWED, MigrateJournal, RangeState, SentRows};
use crate::statement::{CellStatement, StatementKey, TableStatements};
use crate::target::{MigrateTarget, Sent};

/// Rows recorded in one journal line.
const GROUP: usize = 64;

/// Consistency level of the lookup: at any other level the query might miss the only replica that
/// has the row.
const EVERYWHERE: &str = "ALL";

/// Rows of counters of a range, sent in groups.
pub(crate) struct CounterGroup<'a> {
    table: &'a TableStatements,
    place: (usize, usize),
    seq: u64,
    target: &'a MigrateTarget,
    journal: &'a MigrateJournal,
    before: RangeState,
    begun: bool,
    /// Whether all rows so far have arrived.
    whole: bool,
    rows: Vec<CountedRow>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok()).collect()
}

fn as_number(value: &BoundValue) -> Option<i64> {
    value.bytes().and_then(|b| b.try_into().ok()).map(i64::from_be_bytes)
}

/// Returns a key in the journal's form.
pub(crate) fn journal_key(key: &StatementKey) -> Vec<String> {
    key.partition.iter().chain(&key.clustering).map(|v| hex(v)).collect()
}

/// A row to add: key, statement, and journal entry.
pub(crate) type CountedRow = (StatementKey, CellStatement, AddedRow);

/// Returns the additions of a row of counters; `None` if there are none.
pub(crate) fn counted(
    table: &TableStatements,
    partition: &[Vec<u8>],
    row: &NodeRow,
) -> Option<CountedRow> {
    let statement = table.counter_row(partition, row)?;
    let clustering: Vec<Vec<u8>> = row.clustering.iter().flatten().cloned().collect();
    let key = StatementKey { partition: partition.to_vec(), clustering };
    let count = table.counters(row.is_static).len();
    let sums = statement.values.iter().take(count).map(as_number).collect();
    let added = AddedRow { is_static: row.is_static, key: journal_key(&key), sums };
    Some((key, statement, added))
}

/// Sends rows of a range once, as of a sequence number. The journal records unanswered, refused and
/// unsent rows.
fn add_once(
    table: &TableStatements,
    (number, range): (usize, usize),
    seq: u64,
    target: &MigrateTarget,
    journal: &MigrateJournal,
    rows: &[CountedRow],
) -> Done<SentRows> {
    let added: Vec<AddedRow> = rows.iter().map(|r| r.2.clone()).collect();
    journal.adding(number, range, seq, &added)?;
    let (mut sent, mut failed) = (SentRows::default(), None);
    for (place, (key, statement, _)) in rows.iter().enumerate() {
        match failed.is_none().then(|| target.count(table, key, statement)) {
            Some(Ok(Sent::There)) => {}
            Some(Ok(Sent::Refused)) => sent.refused.push(place),
            Some(Ok(Sent::Unanswered)) => sent.unanswered.push(place),
            // It had no effect, and later rows are not sent.
            Some(Err(e)) => {
                sent.unsent.push(place);
                failed = Some(e);
            }
            None => sent.unsent.push(place),
        }
    }
    journal.added(number, range, sent.clone())?;
    failed.map_or(Ok(sent), Err)
}

/// Sends counter changes of the feed, up to a sequence number. Unanswered ones can never be
/// verified; refused ones are not sent again.
pub(crate) fn add_followed(
    table: &TableStatements,
    number: usize,
    seq: u64,
    target: &MigrateTarget,
    journal: &MigrateJournal,
    rows: &[CountedRow],
) -> Done {
    for group in rows.chunks(GROUP) {
        let sent = add_once(table, (number, FOLLOWED), seq, target, journal, group)?;
        target.counts.missing.fetch_add(sent.refused.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

impl<'a> CounterGroup<'a> {
    pub fn new(
        table: &'a TableStatements,
        place: (usize, usize),
        seq: u64,
        target: &'a MigrateTarget,
        journal: &'a MigrateJournal,
    ) -> CounterGroup<'a> {
        let before = journal.range(place.0, place.1);
        let (begun, whole, rows) = (false, true, vec![]);
        CounterGroup { table, place, seq, target, journal, before, begun, whole, rows }
    }

    /// Adds a row unless it has arrived already.
    pub fn add(&mut self, partition: &[Vec<u8>], row: &NodeRow) -> Done {
        let Some(counted) = counted(self.table, partition, row) else { return Ok(()) };
        let place = (counted.2.is_static, counted.2.key.clone());
        if self.before.added.contains_key(&place) {
            return Ok(());
        }
        self.rows.push(counted);
        if self.rows.len() >= GROUP { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Done {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        if !self.begun {
            self.journal.begun(self.place.0, self.place.1, self.seq)?;
            self.begun = true;
        }
        let sent = add_once(self.table, self.place, self.seq, self.target, self.journal, &rows)?;
        self.whole &= sent.is_whole();
        Ok(())
    }

    /// Sends the remaining rows; returns whether the whole range has arrived.
    pub fn finish(mut self) -> Done<bool> {
        self.send()?;
        Ok(self.whole)
    }
}

/// Looks up a row that was sent.
fn outcome(table: &TableStatements, target: &MigrateTarget, row: &AddedRow) -> Done<AddedOutcome> {
    let names: Vec<_> = table.counters(row.is_static).into_iter().map(quote_if_needed).collect();
    let schema = table.table();
    let columns = schema.partition().iter().chain(schema.clustering()).take(row.key.len());
    let at: Vec<_> = columns.map(|c| format!("{} = ?", quote_if_needed(&c.name))).collect();
    let cql = format!(
        "SELECT {} FROM {} WHERE {} LIMIT 1",
        names.join(", "),
        table.name(),
        at.join(" AND ")
    );
    let damaged = || Failure::new("a key in the journal is no key of its table");
    let values =
        row.key.iter().map(|v| unhex(v).map(BoundValue::Bytes)).collect::<Option<Vec<_>>>();
    let values = values.ok_or_else(damaged)?;
    let session = target.session().with_consistency(EVERYWHERE).map_err(|e| cql_trouble(&e))?;
    let statement = session.prepare(&cql).map_err(|e| cql_trouble(&e))?;
    let rows =
        session.run(&statement, &values, &RunOptions::default()).map_err(|e| cql_trouble(&e))?;
    let found: Vec<Option<i64>> = match rows.iter().next() {
        Some(found) => (0..names.len())
            .map(|n| found.bytes(n).and_then(|b| b.try_into().ok()).map(i64::from_be_bytes))
            .collect(),
        None => vec![None; names.len()],
    };
    Ok(match found {
        found if found == row.sums => AddedOutcome::There,
        found if found.iter().all(Option::is_none) => AddedOutcome::Missing,
        _ => AddedOutcome::Unknown,
    })
}

/// Looks up rows that were sent and not answered. A cluster may execute an unanswered statement
/// with some delay, so each row is looked up at the earliest `settle` after it was sent.
///
/// # Errors
/// A cluster with a replica that does not answer; journal errors.
pub fn settle(
    env: &Arc<dyn Env>,
    tables: &[&TableStatements],
    target: &MigrateTarget,
    journal: &MigrateJournal,
    settle: Duration,
) -> Done {
    for (table, range) in journal.doubtful() {
        let state = journal.range(table, range);
        let Some(statements) = tables.get(table) else { continue };
        let settled = state.sent_at.saturating_add(settle.as_micros() as u64);
        let left = settled.saturating_sub(env.wall_micros()).min(settle.as_micros() as u64);
        target.pause(Duration::from_micros(left));
        if target.is_stopped() {
            return Ok(());
        }
        for row in &state.doubtful {
            journal.settled(table, range, row, outcome(statements, target, row)?)?;
        }
    }
    Ok(())
}

/// Formats a row of the journal: its key, and the additions.
pub fn row_words(table: &TableStatements, row: &AddedRow) -> String {
    let values: Vec<Vec<u8>> = row.key.iter().filter_map(|v| unhex(v)).collect();
    let count = table.table().partition().len().min(values.len());
    let (partition, clustering) = values.split_at(count);
    let key = StatementKey { partition: partition.to_vec(), clustering: clustering.to_vec() };
    let names = table.counters(row.is_static).into_iter().zip(&row.sums);
    let sums = names.filter_map(|(name, sum)| Some(format!("{name} {:+}", (*sum)?)));
    format!(
        "{} WHERE {}: {}",
        table.name(),
        table.key_words(&key),
        sums.collect::<Vec<_>>().join(", ")
    )
}
