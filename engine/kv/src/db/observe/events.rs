//! Writes the event log, one JSON object a line in `EVENTS.jsonl`, and calls the listener.
//!
//! Invariants:
//! - Each [`Event`] is created once, if the log or a listener wants it, and both receive it.
//! - The log is for people and tools. Nothing depends on it, and failures to write it are ignored.
//! - Every line has `at` (wall clock, microseconds since 1970) and `event`. A log over 16 MiB is
//!   renamed to `EVENTS.old.jsonl`.
//! - The log contains ends of operations, not begins, and no slowdowns. Lines of flushes contain
//!   the time of slowdowns.
//! - Events may be recorded under any lock. A thread without locks calls the listener. Only closing
//!   the store waits for it.

use std::collections::VecDeque;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use crate::base::error::Result;
use crate::base::events::{Event, Listener, MOST_WAITING};
use crate::env::{Env, Thread, WriteFile, start_thread};
use crate::util::sync::{Condvar, Mutex, MutexGuard, rank};

/// Size of the event log in bytes above which it is replaced. The previous log is retained.
const LIMIT: u64 = 16 << 20;
const NAME: &str = "EVENTS.jsonl";
const OLD_NAME: &str = "EVENTS.old.jsonl";

/// File of the event log, of at most [`LIMIT`] bytes and one line.
struct EventFile {
    file: Box<dyn WriteFile>,
    len: u64,
}

impl EventFile {
    /// Opens the log. Returns `None` if that fails, because nothing depends on the log.
    fn open(env: &dyn Env, dir: &Path) -> Option<EventFile> {
        let path = dir.join(NAME);
        let mut len = env.file_len(&path).unwrap_or(0);
        if len > LIMIT && env.rename(&path, &dir.join(OLD_NAME)).is_ok() {
            len = 0;
        }
        env.append(&path).ok().map(|file| EventFile { file, len })
    }

    /// Appends a line. Returns true if the file must be opened again, which replaces it.
    fn append(&mut self, line: &str) -> bool {
        let _ = self.file.append(line.as_bytes());
        self.len += line.len() as u64;
        self.len > LIMIT
    }
}

/// Receivers of the events of an open Db: the log and the listener.
pub struct Events {
    env: Arc<dyn Env>,
    dir: PathBuf,
    file: Mutex<Option<EventFile>, rank::Events>,
    delivery: Option<Arc<Delivery>>,
    thread: Mutex<Option<Box<dyn Thread>>>,
}

impl Events {
    /// Creates the receivers for the Db in `dir`, with or without a log. The listener receives
    /// events after [`start`](Events::start).
    pub fn open(
        env: Arc<dyn Env>,
        dir: &Path,
        log: bool,
        listener: Option<Arc<dyn Listener>>,
    ) -> Events {
        let file = Mutex::new(if log { EventFile::open(&*env, dir) } else { None });
        let new = |listener| {
            Arc::new(Delivery {
                listener,
                queue: Mutex::default(),
                came: Condvar::new(),
                who: OnceLock::new(),
            })
        };
        let (dir, delivery) = (dir.to_owned(), listener.map(new));
        Events { env, dir, file, delivery, thread: Mutex::new(None) }
    }

    /// Starts the thread of the listener, if there is one.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn start(&self) -> Result<()> {
        if let Some(delivery) = self.delivery.clone() {
            *self.thread.lock() =
                Some(start_thread(&*self.env, "firn-listener", move || delivery.serve())?);
        }
        Ok(())
    }

    /// Records an event. `event` is called only if there is a log or a listener.
    pub fn note(&self, event: impl FnOnce() -> Event) {
        let file = self.file.lock();
        if file.is_some() || self.delivery.is_some() {
            self.record(file, event());
        }
    }

    fn record(&self, mut file: MutexGuard<'_, Option<EventFile>, rank::Events>, event: Event) {
        if let (Some(f), Some(line)) = (file.as_mut(), line(&event, self.env.wall_micros()))
            && f.append(&line)
        {
            *file = None;
            *file = EventFile::open(&*self.env, &self.dir);
        }
        // Under the lock of the log, so that log and listener have the same order.
        self.delivery.iter().for_each(|d| d.push(&event));
    }

    /// Delivers the queued events, and ends the listener's thread. Does not wait if called from
    /// that thread. Writes nothing more to the log, which may belong to another Db from now on.
    pub fn close(&self) {
        *self.file.lock() = None;
        let Some(delivery) = &self.delivery else { return };
        delivery.queue.lock().closed = true;
        delivery.came.notify_all();
        let thread = self.thread.lock().take();
        if !self.is_listener_thread() {
            thread.into_iter().for_each(|t| t.join());
        }
    }

    /// Reports whether the caller is the listener's own thread.
    pub fn is_listener_thread(&self) -> bool {
        self.delivery.as_ref().is_some_and(|d| d.who.get() == Some(&std::thread::current().id()))
    }

    /// Forgets the listener's thread in a child process, where it does not exist.
    pub fn forget(&self) {
        std::mem::forget(self.thread.lock().take());
    }
}

/// Queue of events for the listener.
struct Delivery {
    listener: Arc<dyn Listener>,
    queue: Mutex<EventQueue>,
    came: Condvar,
    /// Thread of the listener.
    who: OnceLock<ThreadId>,
}

#[derive(Default)]
struct EventQueue {
    events: VecDeque<Event>,
    missed: u64,
    closed: bool,
}

impl Delivery {
    fn push(&self, event: &Event) {
        let mut queue = self.queue.lock();
        if queue.events.len() >= MOST_WAITING {
            queue.missed += 1;
            return;
        }
        let missed = std::mem::take(&mut queue.missed);
        if missed > 0 {
            queue.events.push_back(Event::Missed { events: missed });
        }
        queue.events.push_back(event.clone());
        drop(queue);
        self.came.notify_all();
    }

    /// Waits for the next event. Returns `None` after the last one.
    fn next(&self) -> Option<Event> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(event) = queue.events.pop_front() {
                return Some(event);
            }
            if queue.closed {
                let events = std::mem::take(&mut queue.missed);
                return (events > 0).then_some(Event::Missed { events });
            }
            self.came.wait(&mut queue);
        }
    }

    fn serve(&self) {
        let _ = self.who.set(std::thread::current().id());
        while let Some(event) = self.next() {
            // A panic of the listener affects only the listener's own state.
            let _ = catch_unwind(AssertUnwindSafe(|| self.listener.event(&event)));
        }
    }
}

/// Builder of one log line.
struct EventLine(String);

impl EventLine {
    fn new(at: u64, event: &str) -> EventLine {
        EventLine(format!("{{\"at\":{at},\"event\":\"{event}\""))
    }

    fn num(mut self, name: &str, v: u64) -> EventLine {
        // Writing to a String cannot fail.
        let _ = write!(self.0, ",\"{name}\":{v}");
        self
    }

    fn str(mut self, name: &str, v: &str) -> EventLine {
        let _ = write!(self.0, ",\"{name}\":\"");
        for c in v.chars() {
            match c {
                '"' => self.0.push_str("\\\""),
                '\\' => self.0.push_str("\\\\"),
                c if (c as u32) < 0x20 => {
                    let _ = write!(self.0, "\\u{:04x}", c as u32);
                }
                c => self.0.push(c),
            }
        }
        self.0.push('"');
        self
    }

    fn list(mut self, name: &str, v: &[u64]) -> EventLine {
        let v: Vec<String> = v.iter().map(u64::to_string).collect();
        let _ = write!(self.0, ",\"{name}\":[{}]", v.join(","));
        self
    }
}

/// Formats an event as a log line. Returns `None` for events that are not logged.
fn line(event: &Event, at: u64) -> Option<String> {
    let new = |name| EventLine::new(at, name);
    let line = match event {
        Event::Opened { store, seq, records_replayed, max_sealed, background_threads } => {
            new("open")
                .str("store", &format!("{store:016x}"))
                .num("seq", *seq)
                .num("records_replayed", *records_replayed)
                .num("max_sealed", *max_sealed as u64)
                .num("background_threads", *background_threads as u64)
        }
        Event::LogEndedEarly { file, offset, reason, bytes_beyond, records_beyond } => {
            new("log ended early")
                .str("file", &file.display().to_string())
                .num("offset", *offset)
                .str("reason", reason)
                .num("bytes_beyond", *bytes_beyond)
                .num("records_beyond", *records_beyond)
        }
        Event::TreeCreated { tree, id } => new("tree").str("tree", tree).num("id", u64::from(*id)),
        Event::TreeOpened { tree, options } => {
            let line = new("tree")
                .str("tree", tree)
                .str("policy", &options.policy.to_string())
                .num("table_size", options.table_size)
                .num("memtable_size", options.memtable_size as u64)
                .num("tombstone_age_secs", options.tombstone_age_secs);
            match &options.custom_policy {
                Some(custom) => line.str("custom_policy", custom.name()),
                None => line,
            }
        }
        Event::TreeDropped { tree, id } => {
            new("tree dropped").str("tree", tree).num("id", u64::from(*id))
        }
        Event::FlushEnded { .. } => flush_line(event, at)?,
        Event::CompactionEnded { .. } => compaction_line(event, at)?,
        Event::StallEnded { tree, reason, micros } => {
            new("stall").str("tree", tree).str("reason", reason).num("micros", *micros)
        }
        Event::Ingested { tree, seq, tables } => {
            new("ingest").str("tree", tree).num("seq", *seq).list("tables", tables)
        }
        Event::TablesDropped { tree, removed } => {
            new("drop").str("tree", tree).list("removed", removed)
        }
        Event::CheckpointMade { dir } => new("checkpoint").str("dir", &dir.display().to_string()),
        Event::PolicyFailed { tree, policy, reason } => {
            new("policy failed").str("tree", tree).str("policy", policy).str("reason", reason)
        }
        Event::Postponed { error } => new("postponed").str("error", &error.to_string()),
        Event::BecameReadOnly { error } => new("read only").str("error", &error.to_string()),
        Event::FlushBegun { .. }
        | Event::FlushFailed { .. }
        | Event::CompactionBegun { .. }
        | Event::CompactionFailed { .. }
        | Event::SlowdownBegun { .. }
        | Event::SlowdownEnded { .. }
        | Event::StallBegun { .. }
        | Event::Missed { .. } => return None,
    };
    Some(line.0 + "}\n")
}

/// Formats the end of a flush.
fn flush_line(event: &Event, at: u64) -> Option<EventLine> {
    let Event::FlushEnded {
        tree,
        entries,
        versions,
        deletes,
        bytes_out,
        raw_bytes,
        tables,
        heads,
        flushed,
        log_floor,
        memory,
        micros,
        waited_micros,
        slowdown_micros,
        stalled_micros,
        subcompactions,
        runs,
        bytes,
    } = event
    else {
        return None;
    };
    let line = EventLine::new(at, "flush")
        .str("tree", tree)
        .num("entries", *entries)
        .num("versions", *versions)
        .num("bytes_out", *bytes_out)
        .list("tables", tables)
        .num("deletes", *deletes)
        .num("raw_bytes", *raw_bytes)
        .list("heads", heads)
        .num("flushed", *flushed)
        .num("log_floor", *log_floor)
        .num("memory", *memory)
        .num("micros", *micros)
        .num("waited_micros", *waited_micros)
        .num("slowdown_micros", *slowdown_micros)
        .num("stalled_micros", *stalled_micros)
        .num("subcompactions", *subcompactions as u64)
        .num("runs", *runs as u64)
        .num("bytes", *bytes);
    Some(line)
}

/// Formats the end of a compaction.
fn compaction_line(event: &Event, at: u64) -> Option<EventLine> {
    let Event::CompactionEnded {
        tree,
        job,
        reason,
        bytes_in,
        bytes_out,
        blocks_copied,
        entries_in,
        entries_out,
        level,
        removed,
        tables,
        subcompactions,
        micros,
        runs,
        bytes,
    } = event
    else {
        return None;
    };
    let line = EventLine::new(at, "compaction")
        .str("tree", tree)
        .str("job", job)
        .str("reason", reason)
        .num("bytes_in", *bytes_in)
        .num("bytes_out", *bytes_out)
        .num("blocks_copied", *blocks_copied)
        .num("entries_in", *entries_in)
        .num("entries_out", *entries_out)
        .num("level", u64::from(*level))
        .list("removed", removed)
        .list("tables", tables)
        .num("subcompactions", *subcompactions as u64)
        .num("micros", *micros)
        .num("runs", *runs as u64)
        .num("bytes", *bytes);
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::mem::MemEnv;

    #[test]
    fn the_log_of_events_is_bounded_while_the_store_is_open() {
        let env = Arc::new(MemEnv::new(1));
        let dir = Path::new("/db");
        env.create_dir_all(dir).unwrap();
        let events = Events::open(env.clone(), dir, true, None);
        let tree = "t".repeat(1000);
        let most = LIMIT + 2000;
        for id in 0..50_000 {
            events.note(|| Event::TreeCreated { tree: tree.clone(), id });
        }
        for name in [NAME, OLD_NAME] {
            let len = env.file_len(&dir.join(name)).unwrap();
            assert!(len > 0 && len < most, "{name}: {len}");
        }
        // The newest events are in the log, and no line is truncated.
        let newest = env.read_file(&dir.join(NAME)).unwrap();
        let text = String::from_utf8(newest).unwrap();
        assert!(text.ends_with("\"id\":49999}\n"), "{}", &text[text.len() - 50..]);
        assert!(text.lines().all(|l| l.starts_with("{\"at\":") && l.ends_with('}')));
    }
}
