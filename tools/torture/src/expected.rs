//! Expected state: the version of each key of each shard, stored next to the store.
//!
//! Invariants:
//! - A rename replaces the file, so it is always complete.
//! - The file names the cycle whose journals continue it. So the state after a kill is the file
//!   plus these journals (`journal`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firn_kv::Env;
use firn_kv::{Error, Result};

use super::layout::{self, PARTS};
use super::roles::RoleChange;

/// Versions of the keys of one shard of one tree, by the number of the key. In the tree of sums,
/// the values are the sums; for roles, their states.
pub type ExpectedKeys = BTreeMap<u32, u64>;
/// One shard in all trees and tables.
pub type Shard = [ExpectedKeys; PARTS];

/// A change that a step makes to a shard of a tree, table or role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedChange {
    /// Number of the tree, or of the table.
    pub tree: usize,
    /// Changed shard.
    pub shard: u32,
    /// The change.
    pub op: ExpectedOp,
}

/// Operation of an [`ExpectedChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedOp {
    /// Gives the key this version.
    Set { index: u32, version: u64 },
    /// Gives the row this version, if there was no row.
    SetNew { index: u32, version: u64 },
    /// Removes the key.
    Unset { index: u32 },
    /// Adds to the number.
    Add { index: u32, by: u64 },
    /// Removes the keys of these numbers.
    UnsetRange { from: u32, to: u32 },
    /// Runs a statement about this role, which the store may have to refuse.
    Role { index: u32, change: RoleChange },
}

impl ExpectedChange {
    /// Applies the change to the expected state of its shard.
    pub fn apply(&self, shard: &mut Shard) {
        let keys = &mut shard[self.tree];
        match self.op {
            ExpectedOp::Set { index, version } => drop(keys.insert(index, version)),
            ExpectedOp::SetNew { index, version } => {
                keys.entry(index).or_insert(version);
            }
            ExpectedOp::Unset { index } => drop(keys.remove(&index)),
            ExpectedOp::Add { index, by } => {
                let n = keys.entry(index).or_insert(0);
                *n = n.wrapping_add(by);
            }
            ExpectedOp::UnsetRange { from, to } => keys.retain(|i, _| !(from..to).contains(i)),
            // A refused statement changes nothing.
            ExpectedOp::Role { index, change } => drop(change.apply(index, keys)),
        }
    }

    /// Returns the key of this number in the changed shard.
    pub fn key(&self, index: u32) -> Vec<u8> {
        layout::key(self.shard, index)
    }

    /// Returns the value of this number at a version.
    pub fn value(&self, index: u32, version: u64) -> Vec<u8> {
        layout::value(self.tree, self.shard, index, version)
    }
}

/// Returns copies of the shards that these changes affect.
pub fn touched<'a>(
    changes: &[ExpectedChange],
    shard: impl Fn(u32) -> Option<&'a Shard>,
) -> BTreeMap<u32, Shard> {
    changes.iter().filter_map(|c| Some((c.shard, shard(c.shard)?.clone()))).collect()
}

/// Expected content of the whole store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedStore {
    /// Cycle whose journals continue this state; 0 for none.
    pub cycle: u64,
    /// Shards.
    pub shards: Vec<Shard>,
}

const MAGIC: &[u8; 8] = b"firnexp3";
/// Maximum size of the file.
const LARGEST: u64 = 1 << 32;

impl ExpectedStore {
    /// Creates the empty state of this number of shards.
    pub fn empty(shards: u32) -> ExpectedStore {
        ExpectedStore { cycle: 0, shards: (0..shards).map(|_| Shard::default()).collect() }
    }

    fn path(dir: &Path) -> PathBuf {
        dir.join("expected")
    }

    /// Loads the state from `dir`; empty if there is none yet.
    pub fn load(env: &dyn Env, dir: &Path, shards: u32) -> Result<ExpectedStore> {
        let path = ExpectedStore::path(dir);
        if env.file_len(&path).is_err() {
            return Ok(ExpectedStore::empty(shards));
        }
        let bytes = env.read_all(&path, LARGEST)?;
        let damaged =
            || Error::invalid("this is no expected state; begin a new directory").in_file(&path);
        let Some((head, mut rest)) = bytes.split_first_chunk::<8>() else { return Err(damaged()) };
        let mut number = || -> Option<u64> {
            let (n, after) = rest.split_first_chunk::<8>()?;
            rest = after;
            Some(u64::from_le_bytes(*n))
        };
        let mut read = || -> Option<ExpectedStore> {
            let (cycle, count) = (number()?, number()?);
            let mut e = ExpectedStore::empty(u32::try_from(count).ok().filter(|n| *n == shards)?);
            e.cycle = cycle;
            for keys in e.shards.iter_mut().flatten() {
                for _ in 0..number()? {
                    keys.insert(u32::try_from(number()?).ok()?, number()?);
                }
            }
            Some(e)
        };
        if head != MAGIC {
            return Err(damaged());
        }
        read().ok_or_else(damaged)
    }

    /// Saves the state to `dir`, replacing the previous one.
    pub fn save(&self, env: &dyn Env, dir: &Path) -> Result<()> {
        let mut bytes = MAGIC.to_vec();
        let mut number = |n: u64| bytes.extend_from_slice(&n.to_le_bytes());
        number(self.cycle);
        number(self.shards.len() as u64);
        for keys in self.shards.iter().flatten() {
            number(keys.len() as u64);
            for (index, version) in keys {
                number(u64::from(*index));
                number(*version);
            }
        }
        let fresh = dir.join("expected.new");
        env.create(&fresh)?.append(&bytes)?;
        env.rename(&fresh, &ExpectedStore::path(dir))
    }

    /// Applies the changes of a step.
    pub fn apply(&mut self, changes: &[ExpectedChange]) {
        for c in changes {
            c.apply(&mut self.shards[c.shard as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_kv::MemEnv;

    #[test]
    fn changes_apply_and_the_state_is_kept() {
        let mut e = ExpectedStore::empty(3);
        let set = |index, version| ExpectedChange {
            tree: 0,
            shard: 1,
            op: ExpectedOp::Set { index, version },
        };
        e.apply(&[set(1, 10), set(2, 20), set(3, 30), set(4, 40)]);
        e.apply(&[
            ExpectedChange { tree: 0, shard: 1, op: ExpectedOp::Unset { index: 4 } },
            ExpectedChange { tree: 0, shard: 1, op: ExpectedOp::UnsetRange { from: 2, to: 3 } },
        ]);
        e.apply(&[
            ExpectedChange { tree: 2, shard: 2, op: ExpectedOp::Add { index: 9, by: u64::MAX } },
            ExpectedChange { tree: 2, shard: 2, op: ExpectedOp::Add { index: 9, by: 3 } },
        ]);
        assert_eq!(e.shards[1][0], ExpectedKeys::from([(1, 10), (3, 30)]));
        assert_eq!(e.shards[2][2], ExpectedKeys::from([(9, 2)]));
        e.cycle = 7;
        let env = MemEnv::new(1);
        let dir = Path::new("/t");
        env.create_dir_all(dir).unwrap();
        assert_eq!(ExpectedStore::load(&env, dir, 3).unwrap(), ExpectedStore::empty(3));
        e.save(&env, dir).unwrap();
        assert_eq!(ExpectedStore::load(&env, dir, 3).unwrap(), e);
        assert!(ExpectedStore::load(&env, dir, 4).is_err());
    }
}
