//! [`RangeStream`], a range as a stream.
//!
//! Invariants:
//! - S1: the iterator is in the stream, or in the one task that reads the next chunk. That task
//!   waits for nothing but a permit, so a slow consumer occupies neither a thread nor a permit.
//! - S2: the stream holds at most two chunks: the one being consumed, and the next one.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use firn_kv::{Error, Range, Result, Value};
use futures_core::Stream;
use futures_core::stream::FusedStream;
use tokio::task::JoinHandle;

use crate::options::AsyncOptions;
use crate::queue::{CallQueue, finished};

/// An entry of a tree: its key and its value.
type KeyValue = (Value, Value);

/// A stream of keys with their values, from an iterator of the engine.
///
/// It reads chunks on a blocking thread: up to
/// [`chunk_entries`](AsyncOptions::chunk_entries) entries or
/// [`chunk_bytes`](AsyncOptions::chunk_bytes). While one chunk is consumed, the next one is read;
/// then it waits for the consumer. So it holds two chunks at most. It begins when it is polled
/// first.
///
/// Dropping the stream closes the iterator, at once or when the chunk that is being read is
/// complete. The stream reads the state of its iterator's creation, and pins it until then. After an
/// error it ends.
pub struct RangeStream {
    queue: CallQueue,
    options: AsyncOptions,
    reversed: bool,
    entries: VecDeque<KeyValue>,
    source: Source,
}

/// The part that was not read yet.
enum Source {
    Idle(Box<Range>),
    Reading(Reading),
    /// The error that follows the entries.
    Failed(Error),
    /// Nothing is left.
    Done,
}

/// Result of reading a chunk: its entries, and the iterator, or the error that ended it.
type Chunk = (VecDeque<KeyValue>, Result<Option<Box<Range>>>);

/// A task that reads a chunk. Dropping it cancels the task if it still waits for a permit.
struct Reading(JoinHandle<Result<Chunk>>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RangeStream {
    pub(crate) fn new(queue: CallQueue, options: AsyncOptions, range: Range) -> RangeStream {
        let source = Source::Idle(Box::new(range));
        RangeStream { queue, options, reversed: false, entries: VecDeque::new(), source }
    }

    /// Returns the stream of the entries that were not read yet, from the other end. Call it before
    /// the first poll: entries that were read ahead keep their order.
    pub fn rev(mut self) -> RangeStream {
        self.reversed = !self.reversed;
        self
    }

    /// Starts the task for the next chunk, if none runs.
    fn read_ahead(&mut self) {
        match std::mem::replace(&mut self.source, Source::Done) {
            Source::Idle(range) => {
                let (queue, options, reversed) = (self.queue.clone(), self.options, self.reversed);
                let read = move || Ok(read_chunk(range, options, reversed));
                let task = tokio::task::spawn(async move { queue.run(read).await });
                self.source = Source::Reading(Reading(task));
            }
            other => self.source = other,
        }
    }
}

/// Reads entries until the chunk is full.
fn read_chunk(mut range: Box<Range>, options: AsyncOptions, reversed: bool) -> Chunk {
    let (mut entries, mut bytes) = (VecDeque::new(), 0);
    loop {
        let item = if reversed { range.next_back() } else { range.next() };
        match item {
            Some(Ok((key, value))) => {
                bytes += key.len() + value.len();
                entries.push_back((key, value));
            }
            Some(Err(e)) => return (entries, Err(e)),
            None => return (entries, Ok(None)),
        }
        if entries.len() >= options.chunk_entries || bytes >= options.chunk_bytes {
            return (entries, Ok(Some(range)));
        }
    }
}

impl Stream for RangeStream {
    type Item = Result<KeyValue>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<KeyValue>>> {
        let this = &mut *self;
        loop {
            let entry = this.entries.pop_front();
            this.read_ahead();
            if let Some(entry) = entry {
                return Poll::Ready(Some(Ok(entry)));
            }
            let Source::Reading(task) = &mut this.source else { break };
            let chunk = finished(ready!(Pin::new(&mut task.0).poll(context)));
            (this.entries, this.source) = match chunk {
                Ok((entries, Ok(Some(range)))) => (entries, Source::Idle(range)),
                Ok((entries, Ok(None))) => (entries, Source::Done),
                Ok((entries, Err(e))) => (entries, Source::Failed(e)),
                Err(e) => (VecDeque::new(), Source::Failed(e)),
            };
        }
        match std::mem::replace(&mut this.source, Source::Done) {
            Source::Failed(e) => Poll::Ready(Some(Err(e))),
            _ => Poll::Ready(None),
        }
    }
}

impl FusedStream for RangeStream {
    fn is_terminated(&self) -> bool {
        self.entries.is_empty() && matches!(self.source, Source::Done)
    }
}

impl fmt::Debug for RangeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeStream { options, reversed, entries, .. } = self;
        f.debug_struct("RangeStream")
            .field("options", options)
            .field("reversed", reversed)
            .field("entries", &entries.len())
            .finish_non_exhaustive()
    }
}
