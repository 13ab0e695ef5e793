//! Reports events of a store as spans and events of the `tracing` crate, with a [`Listener`]. It
//! requires the cargo feature `tracing`.

use std::collections::HashMap;

use crate::base::events::{Event, Listener};
use crate::util::sync::Mutex;
use tracing::{Span, debug, error, info, info_span, warn};

/// Reports events of a store to `tracing`, under the target `firn`.
///
/// A flush, a compaction and a stall are spans (`flush`, `compaction`, `stall`) with the fields
/// known at their begin. Their result is an event within the span. Everything else is an event.
/// Failures of the store are errors. Lack of space and stalls are warnings, opened trees are debug
/// events, and all other events are information. They come from the thread `firn-listener`, with a
/// short delay.
///
/// ```
/// use std::sync::Arc;
/// use firn_kv::{Db, DbOptions, TracingListener};
/// # let dir = std::env::temp_dir().join(format!("firn-doc-tracing-{}", std::process::id()));
/// let db = Db::open_with(&dir, DbOptions { listener: Some(Arc::new(TracingListener::default())), ..DbOptions::default() })?;
/// # drop(db); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct TracingListener {
    /// Open spans, by kind and by the key that distinguishes them.
    open: Mutex<HashMap<(&'static str, String), Vec<Span>>>,
}

impl TracingListener {
    fn begin(&self, kind: &'static str, which: &str, span: Span) {
        self.open.lock().entry((kind, which.to_owned())).or_default().push(span);
    }

    /// Emits the result within its span. If several spans of a kind are open in one tree, for
    /// example stalls of many writers, any of them is used.
    fn end(&self, kind: &'static str, which: &str, came: impl FnOnce()) {
        let key = (kind, which.to_owned());
        let span = {
            let mut open = self.open.lock();
            let span = open.get_mut(&key).and_then(Vec::pop);
            if open.get(&key).is_some_and(Vec::is_empty) {
                open.remove(&key);
            }
            span
        };
        span.unwrap_or_else(Span::none).in_scope(came);
    }

    /// Begins or ends the span of a flush or a compaction.
    fn job_event(&self, event: &Event) {
        match event {
            Event::FlushBegun { tree, memory } => {
                self.begin(
                    "flush",
                    tree,
                    info_span!(target: "firn", parent: None, "flush", tree, memory),
                );
            }
            Event::FlushEnded { tree, entries, bytes_out, micros, tables, subcompactions, .. } => {
                self.end("flush", tree, || {
                    info!(target: "firn", entries, bytes_out, subcompactions, micros, ?tables, "flushed");
                })
            }
            Event::FlushFailed { tree, error } => {
                self.end("flush", tree, || warn!(target: "firn", %error, "a flush failed"));
            }
            Event::CompactionBegun { tree, job, reason, inputs, bytes_in, level } => {
                let span = info_span!(target: "firn", parent: None, "compaction", tree, job, reason, ?inputs, bytes_in, level);
                self.begin("compaction", &format!("{tree} {job}"), span);
            }
            Event::CompactionEnded {
                tree,
                job,
                bytes_in,
                bytes_out,
                entries_in,
                entries_out,
                micros,
                tables,
                subcompactions,
                ..
            } => {
                self.end("compaction", &format!("{tree} {job}"), || {
                    info!(target: "firn", bytes_in, bytes_out, entries_in, entries_out, subcompactions, micros, ?tables, "compacted");
                });
            }
            Event::CompactionFailed { tree, job, error } => {
                self.end(
                    "compaction",
                    &format!("{tree} {job}"),
                    || warn!(target: "firn", %error, "a compaction failed"),
                );
            }
            _ => {}
        }
    }

    /// Begins or ends the span of a slowdown or a stall of writers.
    fn pause_event(&self, event: &Event) {
        match event {
            Event::SlowdownBegun { tree, reason } => {
                self.begin(
                    "pacing",
                    &format!("{tree} {reason}"),
                    info_span!(target: "firn", parent: None, "pacing", tree, reason),
                );
            }
            Event::SlowdownEnded { tree, reason, micros, slept_micros } => {
                self.end("pacing", &format!("{tree} {reason}"), || {
                    info!(target: "firn", micros, slept_micros, "writers were slowed down");
                });
            }
            Event::StallBegun { tree, reason } => {
                self.begin(
                    "stall",
                    tree,
                    info_span!(target: "firn", parent: None, "stall", tree, reason),
                );
            }
            Event::StallEnded { tree, micros, .. } => {
                self.end(
                    "stall",
                    tree,
                    || warn!(target: "firn", micros, "a writer has waited for a memtable"),
                );
            }
            _ => {}
        }
    }
}

impl Listener for TracingListener {
    fn event(&self, event: &Event) {
        match event {
            Event::Opened { seq, records_replayed, .. } => {
                info!(target: "firn", seq, records_replayed, "the store has been opened");
            }
            Event::LogEndedEarly { file, offset, reason, bytes_beyond, records_beyond } => {
                let file = file.display();
                warn!(target: "firn", %file, offset, reason, bytes_beyond, records_beyond, "the log ended early");
            }
            Event::TreeCreated { tree, id } => {
                info!(target: "firn", tree, id, "a tree has been created")
            }
            Event::TreeOpened { tree, options } => {
                debug!(target: "firn", tree, ?options, "a tree has been opened")
            }
            Event::TreeDropped { tree, id } => {
                info!(target: "firn", tree, id, "a tree has been dropped")
            }
            Event::FlushBegun { .. }
            | Event::FlushEnded { .. }
            | Event::FlushFailed { .. }
            | Event::CompactionBegun { .. }
            | Event::CompactionEnded { .. }
            | Event::CompactionFailed { .. } => self.job_event(event),
            Event::SlowdownBegun { .. }
            | Event::SlowdownEnded { .. }
            | Event::StallBegun { .. }
            | Event::StallEnded { .. } => self.pause_event(event),
            Event::Ingested { tree, seq, tables } => {
                info!(target: "firn", tree, seq, ?tables, "tables have been loaded")
            }
            Event::TablesDropped { tree, removed } => {
                info!(target: "firn", tree, ?removed, "tables have been dropped")
            }
            Event::CheckpointMade { dir } => {
                info!(target: "firn", dir = %dir.display(), "a checkpoint has been made")
            }
            Event::PolicyFailed { tree, policy, reason } => {
                warn!(target: "firn", tree, policy, reason, "a custom policy failed: the stored policy decides");
            }
            Event::Postponed { error } => {
                warn!(target: "firn", %error, "background work lacks something, and is tried again")
            }
            Event::BecameReadOnly { error } => {
                error!(target: "firn", %error, "the store takes no writes from now on")
            }
            Event::Missed { events } => warn!(target: "firn", events, "events were missed"),
        }
    }
}
