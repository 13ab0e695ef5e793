//! The locks that a transaction holds.
//!
//! Invariant: the locks are released when the transaction is dropped, after its commit is visible.
//! So the next owner of a key, which then takes its snapshot, reads what the last one wrote.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::base::key::MAX_BATCH_LEN;
use crate::base::ops::TreeId;
use crate::db::key_locks::{LockKey, Owner};

use crate::db::handle::handles::CloseHandle;

/// The locks of a transaction; dropping it releases them.
pub struct HeldLocks {
    handle: Arc<CloseHandle>,
    owner: Owner,
    keys: Vec<LockKey>,
    /// Sum of the lengths of `keys`.
    bytes: usize,
}

impl HeldLocks {
    pub fn new(handle: Arc<CloseHandle>) -> HeldLocks {
        let owner = handle.inner.key_locks.new_owner();
        HeldLocks { handle, owner, keys: vec![], bytes: 0 }
    }

    /// Takes the lock of a key. Returns whether the lock is new.
    pub fn take(&mut self, tree: TreeId, key: &[u8], wait: Duration) -> Result<bool> {
        let bytes = self.bytes + key.len() + size_of::<LockKey>();
        if bytes > MAX_BATCH_LEN {
            return Err(Error::invalid(format!(
                "the keys that the transaction has locked would be over {MAX_BATCH_LEN} bytes"
            )));
        }
        let key = (tree, key.into());
        let inner = &self.handle.inner;
        let is_new = inner.key_locks.take((&*inner.env, &inner.gate), self.owner, &key, wait)?;
        if is_new {
            self.bytes = bytes;
            self.keys.push(key);
        }
        Ok(is_new)
    }

    /// Returns the number of locked keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        self.handle.inner.key_locks.release(&self.keys);
    }
}
