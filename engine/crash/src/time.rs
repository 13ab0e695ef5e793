//! Locks, threads, sleeps and time of [`CrashEnv`](crate::CrashEnv): real threads with a manual
//! clock. Under `--cfg interleave` all of them are the scheduler's.

#[cfg(not(interleave))]
mod real {
    use std::time::Duration;

    use firn_kv::{OsEnv, Result};

    use firn_kv::fs::Thread;

    pub(crate) use parking_lot::Mutex;

    /// Returns 0: only explicit calls advance the clock.
    pub(crate) fn passed() -> u64 {
        0
    }

    pub(crate) fn sleep(advance: impl FnOnce(), _: Duration) {
        advance();
        std::thread::yield_now();
    }

    pub(crate) fn spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        OsEnv::new().spawn(name, work)
    }
}
#[cfg(not(interleave))]
pub(crate) use real::*;

#[cfg(interleave)]
mod scheduled {
    use std::time::Duration;

    use firn_kv::Result;

    use firn_kv::fs::Thread;

    pub(crate) use firn_interleave::{Mutex, now_nanos as passed};

    struct Scheduled(firn_interleave::JoinHandle<()>);

    impl Thread for Scheduled {
        fn join(self: Box<Self>) {
            self.0.join();
        }
    }

    pub(crate) fn sleep(_: impl FnOnce(), time: Duration) {
        firn_interleave::sleep(time);
    }

    pub(crate) fn spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        Ok(Box::new(Scheduled(firn_interleave::spawn(name, work))))
    }
}
#[cfg(interleave)]
pub(crate) use scheduled::*;
