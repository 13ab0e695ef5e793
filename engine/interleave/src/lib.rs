//! A deterministic scheduler of threads: what runs between two points is decided by a seed, so a
//! failing interleaving is found by searching and replays from its number.
//!
//! The threads of a [`run`] are coroutines of one thread of the operating system. Code under test
//! takes its locks, atomics, threads, sleeps and clock from here instead of `parking_lot` and
//! `std`; each of those operations is a *point*, at which another thread may go on. Between two
//! points nothing else runs, and memory is sequentially consistent: weaker orders are for `loom`.
//!
//! Invariants:
//! - A schedule depends on its [`Plan`] and on the code under test alone. [`Report::trace`] is a
//!   hash of all decisions: two runs of one plan give the same.
//! - Time is virtual. It moves a little with each point; where nobody can run it jumps to the next
//!   deadline, so a timed wait costs nothing. Now and then it jumps though others could run, since
//!   a thread may be late by any time.
//! - When nobody can run and nobody waits for a time, that is a deadlock, and told as one; more
//!   points than the plan allows are a hang.
//! - Outside of a run the locks are `parking_lot`'s and the atomics `std`'s, without points.
//!
//! Why not `shuttle`: its timed waits never time out and its clock does not move, and a store's
//! workers wait with deadlines; and it keeps vector clocks at every operation. Coroutines are those
//! of the `generator` crate, as in both `loom` and `shuttle`.

pub mod atomic;
pub mod epoch;
mod lock;
mod run;
#[cfg(test)]
extern crate self as firn_interleave;
#[cfg(test)]
mod tests;

pub use lock::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
pub use run::{
    Failure, JoinHandle, Plan, Report, Strategy, in_run, now_nanos, point, run, sleep, spawn, step,
    yield_now,
};
