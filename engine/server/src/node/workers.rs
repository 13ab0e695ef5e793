//! Threads for slow requests, so that connections are still read meanwhile.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use firn_kv::Env;

use firn_kv::fs::Thread;
use parking_lot::{Condvar, Mutex};

type WorkItem = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct WorkList {
    waiting: VecDeque<WorkItem>,
    running: usize,
    done: u64,
    stopped: bool,
}

#[derive(Default)]
struct WorkRoom {
    list: Mutex<WorkList>,
    some: Condvar,
}

/// Threads with a common queue.
pub struct WorkerPool {
    room: Arc<WorkRoom>,
    threads: Mutex<Vec<Box<dyn Thread>>>,
    count: usize,
}

impl WorkerPool {
    /// Starts this many threads.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(env: &Arc<dyn Env>, count: usize) -> firn_kv::Result<WorkerPool> {
        let room = Arc::new(WorkRoom::default());
        let mut threads = vec![];
        for n in 0..count {
            let room = room.clone();
            threads.push(env.spawn(&format!("firn-request-{n}"), Box::new(move || room.work()))?);
        }
        Ok(WorkerPool { room, threads: Mutex::new(threads), count })
    }

    /// Queues work. After [`stop`](WorkerPool::stop) it is dropped.
    pub fn push(&self, work: impl FnOnce() + Send + 'static) {
        let mut list = self.room.list.lock();
        if !list.stopped {
            list.waiting.push_back(Box::new(work));
            self.room.some.notify_one();
        }
    }

    /// Returns the numbers of threads, of running, waiting and finished requests.
    pub fn counts(&self) -> (usize, usize, usize, u64) {
        let list = self.room.list.lock();
        (self.count, list.running, list.waiting.len(), list.done)
    }

    /// Finishes the queued work and ends the threads.
    pub fn stop(&self) {
        self.room.list.lock().stopped = true;
        self.room.some.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        threads.into_iter().for_each(|t| t.join());
    }
}

impl WorkRoom {
    fn work(&self) {
        let mut list = self.list.lock();
        loop {
            let Some(work) = list.waiting.pop_front() else {
                if list.stopped {
                    return;
                }
                self.some.wait(&mut list);
                continue;
            };
            list.running += 1;
            drop(list);
            // A panic of one request must not end the thread.
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                tracing::error!("a request broke off with a panic; the connection goes on");
            }
            list = self.list.lock();
            list.running -= 1;
            list.done += 1;
        }
    }
}
