//! Estimates the rates of many threads. This is a model, not a measurement.
//!
//! An operation takes its single-thread time, plus the time of each move that it waits for. With
//! `n` threads, another thread has the line in `n - 1` of `n` operations. Only one thread at a time
//! has a line, or holds a lock with all work under it. The busiest line or lock therefore bounds
//! the operations per second. The model ignores threads that sleep for a lock, queues in the
//! interconnect, and memory bandwidth, so real machines are slower.

use super::count::OperationCount;

/// Returns the operations per second of `threads` threads, if a move takes `transfer` nanoseconds.
pub fn rate(count: &OperationCount, alone: f64, threads: f64, transfer: f64) -> f64 {
    let moved = transfer * (threads - 1.0) / threads;
    let parallel = threads / (alone + count.moves() * moved);
    parallel.min(1.0 / busiest(count, alone, moved)) * 1e9
}

/// Returns the upper bound of operations per second for any number of threads.
pub fn bound(count: &OperationCount, alone: f64, transfer: f64) -> f64 {
    1e9 / busiest(count, alone, transfer)
}

/// Returns the nanoseconds per operation for which the busiest line or lock is occupied.
fn busiest(count: &OperationCount, alone: f64, moved: f64) -> f64 {
    let each = alone / count.instructions.max(1.0);
    let lines = count.lines.iter().map(|l| (l.moves - l.locked) * moved);
    let locks = count.locks.iter().map(|l| l.instructions * each + l.moves * moved);
    lines.chain(locks).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::count::{ContendedLine, ContendedLock};
    use super::*;

    fn counted(lines: &[(f64, f64)], lock: Option<(f64, f64)>) -> OperationCount {
        let lines = lines.iter().map(|&(moves, locked)| ContendedLine {
            places: vec![],
            moves,
            locked,
            is_true: 1.0,
        });
        let locks = lock.map(|(instructions, moves)| ContendedLock {
            place: "a".into(),
            instructions,
            moves,
        });
        OperationCount {
            name: "a".into(),
            instructions: 1000.0,
            lines: lines.collect(),
            locks: locks.into_iter().collect(),
            elsewhere: 0.0,
        }
    }

    #[test]
    fn what_shares_nothing_scales_and_what_shares_does_what_its_line_lets_through() {
        let free = counted(&[], None);
        assert_eq!(rate(&free, 100.0, 64.0, 60.0), 640e6);
        assert_eq!(bound(&free, 100.0, 60.0), f64::INFINITY);
        let one = counted(&[(2.0, 0.0), (1.0, 0.0)], None);
        assert_eq!(rate(&one, 100.0, 1.0, 50.0), 10e6);
        assert_eq!(bound(&one, 100.0, 50.0), 10e6, "two moves of 50 ns");
        assert!(rate(&one, 100.0, 64.0, 50.0) <= 10e6 * 64.0 / 63.0);
    }

    #[test]
    fn a_lock_takes_its_instructions_and_its_moves() {
        let locked = counted(&[(1.0, 1.0), (1.0, 0.0)], Some((500.0, 1.0)));
        assert_eq!(bound(&locked, 1000.0, 100.0), 1e9 / 600.0);
    }
}
