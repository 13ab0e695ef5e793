//! The stream of one consumer: events of a subscription until the consumer leaves.
//!
//! Invariants:
//! - An event that does not complete a change or a snapshot has the field `more`. All others have a
//!   position after which a consumer can resume.
//! - A snapshot is between the events `snapshot_begin` and `snapshot_end`.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use firn_kv::{ChangePosition, ErrorKind};
use firn_server::http::HttpSink;
use firn_tools::output::Done;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::decoder::ChangeDecoder;
use crate::event::{ChangeEvent, EventFormat};
use crate::server::{ChangeService, StreamedFeed};

/// Time after which an idle stream sends a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Time between looks at an idle subscription.
const IDLE: Duration = Duration::from_millis(10);
/// Number of changes after which a busy stream flushes, and looks whether its consumer is there.
const ROUND: u64 = 1000;

/// Options of a stream.
pub(crate) struct StreamOptions {
    pub format: EventFormat,
    /// Whether the stream has server-sent events, not lines of JSON.
    pub is_sse: bool,
    /// Whether a new subscription begins with later changes.
    pub from_now: bool,
    /// Whether the server acknowledges what it has sent.
    pub acknowledges: bool,
    /// Names of the tables and keyspaces that have events; empty for all.
    pub names: Vec<String>,
    /// Position after which the consumer resumes.
    pub after: Option<ChangePosition>,
}

/// Stream of a subscription's events.
pub(crate) struct ChangeStream<'s> {
    service: &'s ChangeService,
    options: &'s StreamOptions,
    streamed: Arc<Mutex<StreamedFeed>>,
    decoder: ChangeDecoder,
    /// Time of the last event.
    sent_nanos: u64,
}

impl<'s> ChangeStream<'s> {
    /// Prepares the stream.
    pub fn new(
        service: &'s ChangeService,
        streamed: Arc<Mutex<StreamedFeed>>,
        options: &'s StreamOptions,
        decoder: ChangeDecoder,
    ) -> ChangeStream<'s> {
        ChangeStream { service, options, streamed, decoder, sent_nanos: 0 }
    }

    /// Sends events until the consumer leaves, the server stops or an error ends the stream.
    ///
    /// # Errors
    /// Errors of sending.
    pub fn run(mut self, sink: &mut HttpSink<'_>) -> io::Result<()> {
        if self.options.is_sse {
            // Browsers connect again after this time.
            write!(sink, "retry: 2000\n\n")?;
        }
        if let Err(e) = self.follow(sink) {
            // This fails too if the consumer has left.
            let error = json!({"op": "error", "error": e.words(), "next": e.next()});
            self.control(sink, &error, None)?;
        }
        sink.flush()
    }

    fn follow(&mut self, sink: &mut HttpSink<'_>) -> Done {
        let mut lost = self.begin()?;
        loop {
            if let Some(reason) = lost.take() {
                self.snapshot(sink, reason)?;
            }
            if !self.changes(sink)? {
                return Ok(());
            }
            lost = Some("lagged");
        }
    }

    /// Continues where the consumer wants. Returns the reason for which it needs a snapshot first.
    fn begin(&self) -> Done<Option<&'static str>> {
        let feed = &mut self.streamed.lock().feed;
        if let Some(after) = self.options.after {
            return match feed.resume(after) {
                Ok(()) => Ok(None),
                Err(e) if e.kind() == ErrorKind::Lagged => Ok(Some("lagged")),
                Err(e) if e.kind() == ErrorKind::InvalidArgument => Ok(Some("other history")),
                Err(e) => Err(e.into()),
            };
        }
        if !feed.is_snapshot_due() {
            return Ok(None);
        }
        let seq = feed.position().seq;
        let tried = match self.options.from_now {
            true => feed.acknowledge(seq).map(|()| None),
            false => feed.next(Duration::ZERO).map(|_| Some("new")),
        };
        match tried {
            Err(e) if e.kind() == ErrorKind::Lagged => Ok(Some("lagged")),
            tried => Ok(tried?),
        }
    }

    /// Sends the contents of the store. A consumer that wants later changes only gets the event
    /// that begins them.
    fn snapshot(&mut self, sink: &mut HttpSink<'_>, reason: &str) -> Done {
        let (snapshot, position) = {
            let mut streamed = self.streamed.lock();
            let snapshot = streamed.feed.snapshot()?;
            streamed.is_in_snapshot = true;
            (snapshot, streamed.feed.position())
        };
        if self.options.from_now {
            self.streamed.lock().feed.acknowledge(position.seq)?;
            self.streamed.lock().is_in_snapshot = false;
            let event =
                json!({"op": "skipped", "reason": reason, "position": position.to_string()});
            return Ok(self.control(sink, &event, Some(position))?);
        }
        let begin = json!({"op": "snapshot_begin", "reason": reason, "more": true});
        self.control(sink, &begin, None)?;
        let (options, service) = (self.options, self.service);
        self.decoder.snapshot(&service.db, &snapshot, position, &mut |mut event| {
            event.mark_more();
            Ok(send(sink, options, &event)?)
        })?;
        drop(snapshot);
        self.streamed.lock().is_in_snapshot = false;
        let end = json!({"op": "snapshot_end", "position": position.to_string()});
        self.control(sink, &end, Some(position))?;
        self.sent(sink)
    }

    /// Sends changes until the consumer leaves. Returns true if the log has lost some.
    fn changes(&mut self, sink: &mut HttpSink<'_>) -> Done<bool> {
        let env = self.service.env.clone();
        let options = self.options;
        let mut looked: u64 = 0;
        let mut has_sent = false;
        loop {
            let (change, position) = {
                let feed = &mut self.streamed.lock().feed;
                match feed.next(Duration::ZERO) {
                    Err(e) if e.kind() == ErrorKind::Lagged => return Ok(true),
                    change => (change?, feed.position()),
                }
            };
            let is_idle = change.is_none();
            if let Some(change) = change {
                self.decoder.events(&change, position, &mut |event| {
                    has_sent = true;
                    Ok(send(sink, options, &event)?)
                })?;
                looked += 1;
                if !looked.is_multiple_of(ROUND) {
                    continue;
                }
            }
            let since = env.monotonic_nanos().saturating_sub(self.sent_nanos);
            if std::mem::take(&mut has_sent) {
                self.sent(sink)?;
            } else if since >= HEARTBEAT.as_nanos() as u64 {
                let event = json!({"op": "heartbeat", "position": position.to_string()});
                self.control(sink, &event, Some(position))?;
                self.sent(sink)?;
            }
            if !sink.is_open() {
                return Ok(false);
            }
            if is_idle {
                env.sleep(IDLE);
            }
        }
    }

    /// Flushes the events, and acknowledges them if the server has to.
    fn sent(&mut self, sink: &mut HttpSink<'_>) -> Done {
        sink.flush()?;
        self.sent_nanos = self.service.env.monotonic_nanos();
        if self.options.acknowledges {
            let feed = &mut self.streamed.lock().feed;
            let seq = feed.position().seq;
            match feed.acknowledge(seq) {
                // The next look at the changes reports it.
                Err(e) if e.kind() == ErrorKind::Lagged => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Sends an event of the stream itself.
    fn control(
        &self,
        sink: &mut HttpSink<'_>,
        event: &Value,
        position: Option<ChangePosition>,
    ) -> io::Result<()> {
        let name = event["op"].as_str().unwrap_or_default();
        write_event(sink, self.options, Some(name), position, &event.to_string())
    }
}

/// Sends an event of a change.
fn send(sink: &mut HttpSink<'_>, options: &StreamOptions, event: &ChangeEvent) -> io::Result<()> {
    let position = (!event.has_more()).then_some(event.position);
    write_event(sink, options, None, position, &event.to_json(options.format))
}

fn write_event(
    sink: &mut HttpSink<'_>,
    options: &StreamOptions,
    name: Option<&str>,
    position: Option<ChangePosition>,
    text: &str,
) -> io::Result<()> {
    if !options.is_sse {
        return writeln!(sink, "{text}");
    }
    if let Some(name) = name {
        writeln!(sink, "event: {name}")?;
    }
    if let Some(position) = position {
        writeln!(sink, "id: {position}")?;
    }
    write!(sink, "data: {text}\n\n")
}
