//! Threads, sleeps and time of the in-memory environment: real threads with a manual clock, or the
//! scheduler's.

#[cfg(not(interleave))]
mod real {
    use std::time::Duration;

    pub(in super::super) use crate::env::os::spawn_thread as spawn;

    /// Returns 0: only explicit calls advance the clock.
    pub(in super::super) fn passed() -> u64 {
        0
    }

    pub(in super::super) fn sleep(advance: impl FnOnce(), _: Duration) {
        advance();
        std::thread::yield_now();
    }
}
#[cfg(not(interleave))]
pub(super) use real::*;

#[cfg(interleave)]
mod scheduled {
    use std::time::Duration;

    use crate::base::error::Result;
    use crate::env::Thread;

    pub(in super::super) use firn_interleave::now_nanos as passed;

    struct Scheduled(firn_interleave::JoinHandle<()>);

    impl Thread for Scheduled {
        fn join(self: Box<Self>) {
            self.0.join();
        }
    }

    pub(in super::super) fn sleep(_: impl FnOnce(), time: Duration) {
        firn_interleave::sleep(time);
    }

    pub(in super::super) fn spawn(
        name: &str,
        work: Box<dyn FnOnce() + Send>,
    ) -> Result<Box<dyn Thread>> {
        Ok(Box::new(Scheduled(firn_interleave::spawn(name, work))))
    }
}
#[cfg(interleave)]
pub(super) use scheduled::*;
