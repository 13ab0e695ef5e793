//! The atomics, the lock and the epoch that the cache's protocol is made of, so that a model
//! checker can stand in for them: the crate's ([`sync`](crate::base::sync)).

pub(super) use crate::base::sync::modelled::{Mutex, MutexGuard};
pub(super) use crate::base::sync::{AtomicPtr, AtomicU32, Ordering, epoch, fence};
