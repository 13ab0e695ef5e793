//! [`CallQueue`], which runs closures on tokio's blocking threads, a bounded number at a time.
//!
//! Invariants:
//! - Q1: a permit belongs to a closure, which returns it when it ends or panics. No future holds one
//!   while it is not polled: a call that must wait does so in a task of its own.
//! - Q2: calls begin in the order in which their futures were first polled.
//! - Q3: a closure that has begun runs to its end. Dropping the future of a call cancels it only
//!   before that.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use firn_kv::{Error, ErrorKind, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinHandle, spawn, spawn_blocking};

/// Bounded access to the blocking threads.
#[derive(Clone, Debug)]
pub struct CallQueue {
    permits: Arc<Semaphore>,
    max_running: u32,
}

impl CallQueue {
    /// Creates a queue; `max_running` of 0 means 1.
    pub fn new(max_running: u32) -> CallQueue {
        // Waiting for all permits must be possible.
        let max_running =
            max_running.clamp(1, u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        CallQueue { permits: Arc::new(Semaphore::new(max_running as usize)), max_running }
    }

    /// Runs `work` when a permit is free, and returns its result.
    ///
    /// # Errors
    /// `Closed` when the queue was closed, or the runtime shuts down.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_with(1, work).await
    }

    /// Runs `work` while nothing else runs, after the calls that wait already. Later calls fail. If
    /// the queue was closed already, it runs `work` again.
    pub async fn close(
        &self,
        work: impl Fn() -> Result<()> + Clone + Send + 'static,
    ) -> Result<()> {
        let (permits, first) = (self.permits.clone(), work.clone());
        let close = move || {
            permits.close();
            first()
        };
        match self.run_with(self.max_running, close).await {
            Err(e) if e.kind() == ErrorKind::Closed => finished(spawn_blocking(work).await),
            done => done,
        }
    }

    async fn run_with<T: Send + 'static>(
        &self,
        permits: u32,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if let Ok(permit) = self.permits.clone().try_acquire_many_owned(permits) {
            return finished(start(permit, work).await);
        }
        // The first poll takes a place in the queue of the semaphore, before those of later calls.
        let mut turn = Box::pin(self.permits.clone().acquire_many_owned(permits));
        let permit = match poll_fn(|context| Poll::Ready(turn.as_mut().poll(context))).await {
            Poll::Ready(permit) => permit,
            Poll::Pending => {
                let waiting = spawn(async move {
                    let permit = turn.await.map_err(|_| closed("the store is closed"))?;
                    finished(start(permit, work).await)
                });
                return finished(CancelOnDrop(waiting).await);
            }
        };
        finished(start(permit.map_err(|_| closed("the store is closed"))?, work).await)
    }
}

/// Starts `work` on a blocking thread. It returns the permit when it ends, or when the runtime drops
/// it.
fn start<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> JoinHandle<Result<T>> {
    spawn_blocking(move || {
        let _permit = permit;
        work()
    })
}

/// Returns the result of a task, and continues its panic.
pub fn finished<T>(joined: std::result::Result<Result<T>, JoinError>) -> Result<T> {
    match joined.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => Err(closed("the runtime shuts down, and the call did not run")),
    }
}

fn closed(why: &str) -> Error {
    Error::new(ErrorKind::Closed, why)
}

/// A waiting call: dropping it cancels the task. A closure that the task has started goes on.
struct CancelOnDrop<T>(JoinHandle<T>);

impl<T> Future for CancelOnDrop<T> {
    type Output = std::result::Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
