//! A deterministic scheduler of threads: a seed decides which thread runs between two points, so a
//! failing interleaving is found by search and replayed by its number.
//!
//! The threads of a [`run`] are coroutines of one operating system thread. Code under test uses
//! this crate's locks, atomics, threads, sleeps and clock instead of `parking_lot` and `std`. Each
//! of those operations is a *point*, at which another thread may continue. Between two points
//! nothing else runs, and memory is sequentially consistent: weaker orders are for `loom`.
//!
//! Invariants:
//! - A schedule depends only on its [`Plan`] and on the code under test. [`Report::trace`] is a
//!   hash of all decisions: two runs of one plan have the same.
//! - Time is virtual. It advances a little at each point. If no thread can run, it jumps to the
//!   next deadline, so a timed wait costs nothing. Sometimes it jumps although threads could run,
//!   since a thread may be delayed by any time.
//! - If no thread can run and none waits for a time, the run fails with a deadlock. More points
//!   than the plan allows are a hang.
//! - Outside of a run the locks are `parking_lot`'s and the atomics `std`'s, without points.
//!
//!   Reasons against `shuttle`: its timed waits never time out and its clock does not advance, but
//!   a store's workers wait with deadlines; and it maintains vector clocks at every operation. The
//!   coroutines are those of the `generator` crate, as in both `loom` and `shuttle`.

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

/// Runs the example of the page as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct InterleaveReadme;
