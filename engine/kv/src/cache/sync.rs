//! Atomics, lock and epoch of the cache's protocol. A model checker can replace them: they are the
//! crate's ([`sync`](crate::base::sync)).

pub(super) use crate::base::sync::modelled::{Mutex, MutexGuard};
pub(super) use crate::base::sync::{AtomicPtr, AtomicU32, Ordering, epoch, fence};
