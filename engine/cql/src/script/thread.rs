//! Threads with large stacks, which execute bodies. Nested arrays are as deep as they have
//! elements, and are copied and compared recursively. The caller's stack may be small.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;

use super::value::ScriptValue;

/// Stack size, sufficient for the deepest value within the limits. Unused stack is only reserved.
const STACK: usize = 128 << 20;
/// Maximum number of idle threads.
const IDLE: usize = 8;

type ScriptAnswer = Result<ScriptValue, String>;
type ScriptJob = Box<dyn FnOnce() -> ScriptAnswer + Send>;

/// A thread that runs jobs one at a time, and ends when this handle is dropped.
struct ScriptThread {
    jobs: SyncSender<ScriptJob>,
    answers: Receiver<ScriptAnswer>,
}

static WAITING: Mutex<Vec<ScriptThread>> = Mutex::new(Vec::new());

impl ScriptThread {
    #[allow(
        clippy::disallowed_methods,
        reason = "it computes and touches nothing else; Env's threads have small stacks"
    )]
    fn start() -> Result<ScriptThread, String> {
        let (jobs, to_do) = sync_channel::<ScriptJob>(1);
        let (done, answers) = sync_channel(1);
        let work = move || {
            while let Ok(job) = to_do.recv() {
                let answer = catch_unwind(AssertUnwindSafe(job))
                    .unwrap_or_else(|_| Err("the language failed".to_owned()));
                if done.send(answer).is_err() {
                    return;
                }
            }
        };
        let builder = std::thread::Builder::new().name("firn-script".to_owned()).stack_size(STACK);
        match builder.spawn(work) {
            Ok(_runs_until_its_jobs_end) => Ok(ScriptThread { jobs, answers }),
            Err(e) => Err(format!("no thread could be started for it: {e}")),
        }
    }
}

/// Runs a job on such a thread, and returns its result.
///
/// # Errors
/// Those of the job; an error if no thread can be started.
pub(super) fn run(job: impl FnOnce() -> ScriptAnswer + Send + 'static) -> ScriptAnswer {
    let waiting = WAITING.lock().pop();
    let thread = waiting.map_or_else(ScriptThread::start, Ok)?;
    let lost = || "the thread that ran it is gone".to_owned();
    thread.jobs.send(Box::new(job)).map_err(|_| lost())?;
    let answer = thread.answers.recv().map_err(|_| lost())?;
    let mut waiting = WAITING.lock();
    if waiting.len() < IDLE {
        waiting.push(thread);
    }
    answer
}
