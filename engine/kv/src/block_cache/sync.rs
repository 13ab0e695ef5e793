//! Atomics, lock and epoch of the cache's protocol. A model checker can replace them: they are the
//! crate's ([`sync`](crate::util::sync)).

pub(super) use crate::util::sync::modelled::{Mutex, MutexGuard};
pub(super) use crate::util::sync::{AtomicPtr, AtomicU32, Ordering, epoch, fence};
