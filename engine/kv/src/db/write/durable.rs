//! Makes data durable: edits of the catalogue, and the log up to a position. Also starts the log of
//! a Db that begins to write.
//!
//! Invariant: a Db has a log from its first manifest on. So a log that is missing later is known to
//! be lost.

use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::format_version::FormatVersion;
use crate::base::identity::{LogWriter, writer_of};
use crate::base::options::ReadMode;
use crate::manifest::{Edit, ManifestState, SnapshotDue, SubscriptionState};
use crate::wal::tail::LogHold;
use crate::wal::{RecoveredLog, Wal};

use crate::db::inner::DbInner;
use crate::db::scheduler::gate::{CloseGate, closed};
use crate::db::versions::catalog::{EditFailure, TreeCatalog};
use crate::db::versions::subscription_point::SubscriptionPoint;

/// Writes edits as one atomic group, with the current counters. After a failure nothing has
/// changed in memory. If only space or a similar resource was missing, or the manifest would
/// become too long, the edits do not count. After any other failure the contents of the file
/// are unknown, and the Db is read-only.
pub fn log_edits(db: &DbInner, c: &mut TreeCatalog, edits: Vec<Edit>) -> Result<()> {
    make_manifest_ready(db, c)?;
    c.log_edits(edits, db.commit.visible().now()).map_err(|e| edit_failed(&db.gate, e))
}

/// Makes sure that the next edits go into the existing manifest; a new one would begin with the
/// current state. Callers that change the state before they write its edits call this first.
pub fn make_manifest_ready(db: &DbInner, c: &mut TreeCatalog) -> Result<()> {
    if c.is_replaying() {
        return Ok(());
    }
    begin_writing(db, c)?;
    c.renew_if_torn().map_err(|e| edit_failed(&db.gate, e))
}

/// Begins to write, if not done yet. First it creates a log segment, then it records the
/// segment's writer in the manifest. For that it begins another manifest or continues the
/// existing one ([`CleanEnd`](crate::manifest::CleanEnd)). A store that was closed cleanly and
/// has no garbage is opened without this. It stays unchanged until the first write.
pub fn begin_writing(db: &DbInner, c: &mut TreeCatalog) -> Result<()> {
    db.gate.check_process()?;
    db.gate.check_writable()?;
    if c.has_begun() {
        return Ok(());
    }
    let found = db.commit.lock().found().cloned();
    let Some(found) = found else { return Err(closed()) };
    // The log first: a Db has one from its first manifest on. So a log that is missing later is
    // known to be lost.
    let mut wal = Wal::create(
        db.env.clone(),
        db.versions.dir(),
        db.versions.store(),
        c.state().format,
        &found,
        db.options.wal_segment,
    )
    .map_err(|e| if e.is_transient() { e } else { db.gate.fail(e) })?;
    if db.options.read_mode != ReadMode::Pread {
        wal.allow_views();
    }
    let work = db.scheduler.queue().clone();
    wal.call_when_it_grows(Box::new(move || work.start_workers()));
    // If this fails, the segment has no record, and the next attempt replaces it.
    let writers = writers_from_now_on(c.state(), &found, &wal);
    let mut edits = vec![Edit::LogWriters { writers }];
    // Recorded before the log grows beyond their positions.
    edits.extend(lost_subscriptions(db, c.state(), &found));
    c.begin(edits, db.commit.visible().now()).map_err(|e| edit_failed(&db.gate, e))?;
    let subscriptions: Vec<_> = c.state().subscriptions.values().cloned().collect();
    for state in subscriptions {
        let hold = wal.add_hold(LogHold::durable(state.position, state.max_log_bytes));
        c.add_subscription(&state.name, Arc::new(SubscriptionPoint::new(&state, hold)));
    }
    db.commit.begin(wal);
    Ok(())
}

/// Returns the edits that mark subscriptions as lost, because the log has lost records that their
/// consumers may have processed.
fn lost_subscriptions(db: &DbInner, state: &ManifestState, found: &RecoveredLog) -> Vec<Edit> {
    let is_damaged = db.commit.torn().is_some_and(|torn| torn.proof.is_some());
    let is_lost = |s: &&SubscriptionState| is_damaged || s.position > found.end;
    let lost = state.subscriptions.values().filter(is_lost).cloned();
    let mark = |s| SubscriptionState { snapshot_due: SnapshotDue::Lost, ..s };
    lost.map(mark).map(Edit::SetSubscription).collect()
}

/// Writes the acknowledged positions of subscriptions to the manifest, if they have changed.
pub fn log_subscriptions(db: &DbInner, c: &mut TreeCatalog) -> Result<()> {
    if c.has_begun() && c.has_moved_subscriptions() { log_edits(db, c, vec![]) } else { Ok(()) }
}

/// Raises the format version of the store's files to the newest.
pub fn upgrade_format(db: &DbInner) -> Result<FormatVersion> {
    let mut c = db.versions.lock_catalog();
    make_manifest_ready(db, &mut c)?;
    let newest = FormatVersion::newest();
    if c.state().format < newest {
        c.set_format(newest).map_err(|e| edit_failed(&db.gate, e))?;
        // Only now may files have the new version: an older program that opens the store
        // refuses it at its first file.
        db.versions.set_format(newest);
        if let Some(log) = db.commit.lock().log() {
            log.set_format(newest);
        }
    }
    Ok(c.state().format)
}

/// Makes the store read-only if a failed edit leaves the contents of the manifest unknown.
fn edit_failed(gate: &CloseGate, e: EditFailure) -> Error {
    if e.is_final { gate.fail(e.error) } else { e.error }
}

/// Returns the writers of the existing segments, including the new one.
fn writers_from_now_on(state: &ManifestState, log: &RecoveredLog, wal: &Wal) -> Vec<LogWriter> {
    let mut writers: Vec<LogWriter> = vec![];
    for s in &log.segments {
        writers.extend(writer_of(&state.writers, s.number).filter(|w| writers.last() != Some(w)));
    }
    writers.push(wal.writer());
    writers
}
