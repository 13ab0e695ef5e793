//! Locks on keys, for transactions that wait for each other instead of running again.
//!
//! Invariants:
//! - K1: a key has at most one owner. A lock that is released passes to the transaction that has
//!   waited longest, without a moment in which another could take it.
//! - K2: a waiting transaction waits for the owner of one key. No cycle of such waits exists: the
//!   transaction that would close one gets an error instead.
//!
//! The table of locks holds each locked key once, and one entry for each waiting transaction.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ops::TreeId;
use crate::db::scheduler::gate::CloseGate;
use crate::env::Env;
use crate::util::sync::{Condvar, Mutex};

/// Interval at which a waiting transaction checks whether the store is being closed.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Number of a transaction that has locks.
pub type Owner = u64;
pub type LockKey = (TreeId, Box<[u8]>);

/// The locked keys of a store.
#[derive(Default)]
pub struct KeyLocks(Mutex<LockTable>);

#[derive(Default)]
struct LockTable {
    locks: HashMap<LockKey, KeyLock>,
    /// Key for which each waiting transaction waits.
    waits: HashMap<Owner, LockKey>,
    owners: Owner,
}

struct KeyLock {
    owner: Owner,
    queue: VecDeque<Waiter>,
}

struct Waiter {
    owner: Owner,
    granted: Arc<Condvar>,
}

impl LockTable {
    fn owner(&self, key: &LockKey) -> Option<Owner> {
        self.locks.get(key).map(|l| l.owner)
    }

    /// Reports whether a transaction that waits for `key` would wait for itself. Each owner waits for
    /// at most one key, and there is no cycle yet, so this follows one chain to its end.
    fn closes_cycle(&self, owner: Owner, key: &LockKey) -> bool {
        let mut key = Some(key);
        while let Some(lock) = key.and_then(|key| self.locks.get(key)) {
            if lock.owner == owner {
                return true;
            }
            key = self.waits.get(&lock.owner);
        }
        false
    }

    /// Passes a lock to the first transaction that waits for it, or removes it.
    fn release(&mut self, key: &LockKey) {
        let Some(lock) = self.locks.get_mut(key) else { return };
        let Some(next) = lock.queue.pop_front() else {
            self.locks.remove(key);
            return;
        };
        lock.owner = next.owner;
        self.waits.remove(&next.owner);
        next.granted.notify_all();
    }

    fn stop_waiting(&mut self, owner: Owner, key: &LockKey) {
        self.waits.remove(&owner);
        if let Some(lock) = self.locks.get_mut(key) {
            lock.queue.retain(|w| w.owner != owner);
        }
    }
}

impl KeyLocks {
    /// Returns a number for a transaction that is about to lock keys.
    pub fn new_owner(&self) -> Owner {
        let mut table = self.0.lock();
        table.owners += 1;
        table.owners
    }

    /// Returns the number of locked keys and that of waiting transactions.
    pub fn counts(&self) -> (u64, u64) {
        let table = self.0.lock();
        (table.locks.len() as u64, table.waits.len() as u64)
    }

    /// Releases locks of their owner.
    pub fn release(&self, keys: &[LockKey]) {
        let mut table = self.0.lock();
        keys.iter().for_each(|key| table.release(key));
    }

    /// Takes the lock of a key for `owner`, and waits for it for at most `wait`. Returns whether the
    /// lock is new; otherwise the owner has it already.
    ///
    /// # Errors
    /// `Conflict` for a deadlock, `Locked` when the wait ended, `Closed` when the store is closed.
    pub fn take(
        &self,
        (env, gate): (&dyn Env, &CloseGate),
        owner: Owner,
        key: &LockKey,
        wait: Duration,
    ) -> Result<bool> {
        let mut table = self.0.lock();
        match table.owner(key) {
            Some(there) if there == owner => return Ok(false),
            Some(_) => {}
            None => {
                table.locks.insert(key.clone(), KeyLock { owner, queue: VecDeque::new() });
                return Ok(true);
            }
        }
        if table.closes_cycle(owner, key) {
            return Err(Error::new(
                ErrorKind::Conflict,
                "deadlock: the key's lock is held by a transaction that waits for this one; drop this transaction and run it again",
            )
            .keys(&key.1, &key.1));
        }
        // Without threads nobody could release the lock meanwhile, and waiting is not possible.
        let mut left = if cfg!(target_family = "wasm") { Duration::ZERO } else { wait };
        let granted = Arc::new(Condvar::new());
        if let Some(lock) = table.locks.get_mut(key) {
            lock.queue.push_back(Waiter { owner, granted: granted.clone() });
        }
        table.waits.insert(owner, key.clone());
        let failed = loop {
            let slice = left.min(CHECK_INTERVAL);
            let began = env.monotonic_nanos();
            let timed_out = slice.is_zero() || granted.wait_for(&mut table, slice);
            if table.owner(key) == Some(owner) {
                return Ok(true);
            }
            if let Err(closed) = gate.check_open() {
                break closed;
            }
            let waited = Duration::from_nanos(env.monotonic_nanos().saturating_sub(began));
            // A clock of a test may stand still.
            left = left.saturating_sub(if timed_out { waited.max(slice) } else { waited });
            if left.is_zero() {
                break Error::new(
                    ErrorKind::Locked,
                    format!("another transaction holds the key's lock, and did not release it within {wait:?}"),
                )
                .keys(&key.1, &key.1);
            }
        };
        table.stop_waiting(owner, key);
        Err(failed)
    }
}
