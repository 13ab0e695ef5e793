//! Bounds the number of passwords that a process hashes at once, and the memory for them.
//!
//! Invariants:
//! - At most [`MOST`] passwords are hashed at once, so there are at most as many buffers.
//! - Buffers are reused: an allocator would retain 19 MiB for every thread that ever hashed.
//! - Logins are served in order of arrival, and statements before logins. So a flood of logins
//!   blocks no worker.

use std::sync::LazyLock;

use argon2::password_hash::{Error, Output, PasswordHash, Result, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use parking_lot::{Condvar, Mutex};

/// Maximum number of passwords hashed at once, given enough processors.
const MOST: usize = 2;
/// Maximum blocks of 1 KiB of an idle buffer: those of the hashes computed here.
const BLOCKS: usize = Params::DEFAULT_M_COST as usize;

#[derive(Default)]
struct SlotState {
    /// Buffers that are not in use.
    idle: Vec<Vec<Block>>,
    busy: usize,
    /// Number of waiting statements.
    statements: usize,
    /// Ticket of the next login to arrive, and ticket of the next login to be served.
    tickets: (u64, u64),
}

/// Hashing slots of a process.
pub struct HashSlots {
    count: usize,
    state: Mutex<SlotState>,
    freed: Condvar,
}

/// A taken slot, released on drop.
struct HashSlot<'s> {
    of: &'s HashSlots,
    memory: Vec<Block>,
}

impl HashSlots {
    fn new(count: usize) -> HashSlots {
        HashSlots { count, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Returns the slots of this process: half the number of processors, at most two.
    pub fn shared() -> &'static HashSlots {
        static SHARED: LazyLock<HashSlots> = LazyLock::new(|| {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            HashSlots::new((processors / 2).clamp(1, MOST))
        });
        &SHARED
    }

    /// Runs `work` for a login, after earlier logins have begun and while no statement waits.
    pub fn for_login<T>(&self, work: impl FnOnce(&mut Vec<Block>) -> T) -> T {
        let mut state = self.state.lock();
        let ticket = state.tickets.0;
        state.tickets.0 += 1;
        while state.tickets.1 != ticket || state.busy >= self.count || state.statements > 0 {
            self.freed.wait(&mut state);
        }
        state.tickets.1 += 1;
        let mut slot = self.take(&mut state);
        drop(state);
        // The next login may find another slot free.
        self.freed.notify_all();
        work(&mut slot.memory)
    }

    /// Runs `work` for a statement, before waiting logins.
    pub fn for_statement<T>(&self, work: impl FnOnce(&mut Vec<Block>) -> T) -> T {
        let mut state = self.state.lock();
        state.statements += 1;
        while state.busy >= self.count {
            self.freed.wait(&mut state);
        }
        state.statements -= 1;
        let mut slot = self.take(&mut state);
        drop(state);
        // Logins that waited for this statement may find another slot free.
        self.freed.notify_all();
        work(&mut slot.memory)
    }

    fn take(&self, state: &mut SlotState) -> HashSlot<'_> {
        state.busy += 1;
        HashSlot { of: self, memory: state.idle.pop().unwrap_or_default() }
    }
}

impl Drop for HashSlot<'_> {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.memory);
        if memory.len() > BLOCKS {
            memory.truncate(BLOCKS);
            memory.shrink_to_fit();
        }
        let mut state = self.of.state.lock();
        state.busy -= 1;
        state.idle.push(memory);
        drop(state);
        self.of.freed.notify_all();
    }
}

/// Returns the argon2id hash of a password, computed in this buffer, which grows as the parameters
/// require.
pub fn argon2id(
    params: &Params,
    version: Version,
    password: &str,
    salt: Salt<'_>,
    len: usize,
    memory: &mut Vec<Block>,
) -> Result<Vec<u8>> {
    let mut bytes = [0; Salt::MAX_LENGTH];
    let salt = salt.decode_b64(&mut bytes)?;
    let mut output = vec![0; len];
    if memory.len() < params.block_count() {
        memory.resize(params.block_count(), Block::default());
    }
    let made = Argon2::new(Algorithm::Argon2id, version, params.clone());
    made.hash_password_into_with_memory(password.as_bytes(), salt, &mut output, memory)?;
    Ok(output)
}

/// Reports whether a password has this hash.
pub fn is_of(password: &str, known: &PasswordHash<'_>, memory: &mut Vec<Block>) -> bool {
    let mut compared = || {
        let (Some(salt), Some(wanted)) = (known.salt, known.hash) else {
            return Err(Error::Password);
        };
        let version = known.version.map(Version::try_from).transpose()?.unwrap_or_default();
        let params = Params::try_from(known)?;
        let made = argon2id(&params, version, password, salt, wanted.len(), memory)?;
        // Outputs are compared in constant time.
        Ok::<bool, Error>(Output::new(&made)? == wanted)
    };
    compared().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use argon2::password_hash::{PasswordHasher, SaltString};
    use firn_kv::OsEnv;

    use super::*;

    #[test]
    fn a_hash_in_used_memory_is_that_of_fresh_memory() {
        let mut memory = vec![];
        for (n, (kibibytes, passes, lanes)) in
            [(64, 1, 1), (256, 2, 1), (64, 3, 2), (128, 2, 4)].into_iter().enumerate()
        {
            let params = Params::new(kibibytes, passes, lanes, None).unwrap();
            let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
            let salt = SaltString::encode_b64(format!("a salt number {n}").as_bytes()).unwrap();
            let fresh = argon2.hash_password(b"a password", &salt).unwrap();
            let made =
                argon2id(&params, Version::V0x13, "a password", salt.as_salt(), 32, &mut memory);
            assert_eq!(made.unwrap(), fresh.hash.unwrap().as_bytes(), "{n}");
            assert!(is_of("a password", &fresh, &mut memory), "{n}");
            assert!(!is_of("another one", &fresh, &mut memory), "{n}");
        }
    }

    #[test]
    fn slots_and_their_memory_are_bounded_and_statements_come_first() {
        let (slots, env) = (Arc::new(HashSlots::new(2)), OsEnv::new());
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let order = Arc::new(Mutex::new(vec![]));
        let mut threads = vec![];
        let first = slots.for_login(|_| {
            let first = slots.for_login(|memory| {
                memory.resize(BLOCKS + 7, Block::default());
                // Both slots are taken, so these wait, including the statement.
                for n in 0..12 {
                    let (of, order) = (slots.clone(), order.clone());
                    let (running, most) = (running.clone(), most.clone());
                    let work = move || {
                        let work = |_: &mut Vec<Block>| {
                            most.fetch_max(
                                running.fetch_add(1, Ordering::SeqCst) + 1,
                                Ordering::SeqCst,
                            );
                            order.lock().push(n);
                            running.fetch_sub(1, Ordering::SeqCst);
                        };
                        if n == 11 { of.for_statement(work) } else { of.for_login(work) }
                    };
                    threads.push(env.spawn("hash", Box::new(work)).unwrap());
                    let waits = |state: &SlotState| match n {
                        11 => state.statements == 1,
                        n => state.tickets.0 == 3 + n,
                    };
                    while !waits(&slots.state.lock()) {
                        std::thread::yield_now();
                    }
                }
                7
            });
            // One slot is free. Its next holder runs before others can.
            while order.lock().is_empty() {
                std::thread::yield_now();
            }
            first
        });
        threads.into_iter().for_each(|thread| thread.join());
        assert_eq!(first, 7);
        let order = order.lock();
        assert_eq!((order.len(), order[0]), (12, 11), "{order:?}");
        assert!(most.load(Ordering::SeqCst) <= 2);
        let state = slots.state.lock();
        assert!(state.idle.len() <= 2 && state.busy == 0);
        assert!(state.idle.iter().all(|memory| memory.capacity() <= BLOCKS));
    }
}
