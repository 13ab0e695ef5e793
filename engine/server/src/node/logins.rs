//! Bounded queue of logins that wait or run; a single address gets a part of it.
//!
//! Password checks run two at a time, 19 MiB each, on the threads of the connections (`firn_cql`).
//! A login that would wait longer than its client does is refused at once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Maximum number of logins that wait or run: a few seconds of work.
pub const MAX_LOGINS: usize = 256;
/// Maximum number of logins of one address.
pub const MAX_LOGINS_OF_ADDRESS: usize = 128;

/// Delay after a failed login.
pub const FAILED_LOGIN_DELAY: Duration = Duration::from_millis(200);

/// Logins that wait or run, by address. Cheap to clone; all clones share one queue.
#[derive(Clone, Debug, Default)]
pub struct LoginQueue(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// A login that waits or runs, until dropped.
#[derive(Debug)]
pub struct QueuedLogin {
    queue: LoginQueue,
    of: IpAddr,
}

impl LoginQueue {
    /// Enters a login from this address. `None`: the queue is full.
    pub fn enter(&self, of: IpAddr) -> Option<QueuedLogin> {
        let mut all = self.0.lock();
        let of_one = all.get(&of).copied().unwrap_or_default();
        if of_one >= MAX_LOGINS_OF_ADDRESS || all.values().sum::<usize>() >= MAX_LOGINS {
            return None;
        }
        all.insert(of, of_one + 1);
        Some(QueuedLogin { queue: self.clone(), of })
    }
}

impl Drop for QueuedLogin {
    fn drop(&mut self) {
        let mut all = self.queue.0.lock();
        let left = all.get(&self.of).copied().unwrap_or_default().saturating_sub(1);
        if left == 0 {
            all.remove(&self.of);
        } else {
            all.insert(self.of, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_bounded_and_one_address_gets_a_part_of_it() {
        let queue = LoginQueue::default();
        let address = |n: u8| IpAddr::from([10, 0, 0, n]);
        let enter = |n| queue.enter(address(n));
        let mut first: Vec<_> = std::iter::from_fn(|| enter(1)).collect();
        assert_eq!(first.len(), MAX_LOGINS_OF_ADDRESS);
        // Other addresses still get in, up to the total bound.
        let second: Vec<_> = (2..4).flat_map(|n| std::iter::from_fn(move || enter(n))).collect();
        assert_eq!(first.len() + second.len(), MAX_LOGINS);
        assert!(enter(5).is_none());
        first.pop();
        assert!(enter(1).is_some());
        drop((first, second));
        assert!(queue.0.lock().is_empty());
    }
}
