//! The expected state: of each key of each shard its version, kept beside the store.
//!
//! Invariants: the file is replaced by a rename, so it is always one that was written whole; it
//! says with which cycle's journals it goes on, so that the state after a kill is the file and what
//! those journals say (`journal`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firn_kv::Env;
use firn_kv::{Error, Result};

use super::layout::{PARTS, ROLES, ROWS};
use super::roles::RoleChange;

/// Versions of the keys of one shard of one tree, by the number of the key. In the tree of sums,
/// the numbers themselves; of roles, their states.
pub type ExpectedKeys = BTreeMap<u32, u64>;
/// One shard in all trees and tables.
pub type Shard = [ExpectedKeys; PARTS];

/// Something that a step does to the content of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedChange {
    /// The key has this version now.
    Set { tree: usize, shard: u32, index: u32, version: u64 },
    /// The row has this version now, if there was none.
    SetNew { shard: u32, index: u32, version: u64 },
    /// The key is gone.
    Unset { tree: usize, shard: u32, index: u32 },
    /// The number grows.
    Add { tree: usize, shard: u32, index: u32, by: u64 },
    /// The keys of these numbers are gone.
    UnsetRange { tree: usize, shard: u32, from: u32, to: u32 },
    /// A statement about this role, which the store may have to refuse.
    Role { shard: u32, index: u32, change: RoleChange },
}

impl ExpectedChange {
    /// The shard that is changed.
    pub fn shard(&self) -> u32 {
        match self {
            ExpectedChange::Set { shard, .. }
            | ExpectedChange::SetNew { shard, .. }
            | ExpectedChange::Unset { shard, .. }
            | ExpectedChange::Add { shard, .. }
            | ExpectedChange::UnsetRange { shard, .. }
            | ExpectedChange::Role { shard, .. } => *shard,
        }
    }

    /// Makes the change in what is expected of its shard.
    pub fn apply(&self, shard: &mut Shard) {
        match *self {
            ExpectedChange::Set { tree, index, version, .. } => {
                shard[tree].insert(index, version);
            }
            ExpectedChange::SetNew { index, version, .. } => {
                shard[ROWS].entry(index).or_insert(version);
            }
            ExpectedChange::Unset { tree, index, .. } => {
                shard[tree].remove(&index);
            }
            ExpectedChange::Add { tree, index, by, .. } => {
                let n = shard[tree].entry(index).or_insert(0);
                *n = n.wrapping_add(by);
            }
            ExpectedChange::UnsetRange { tree, from, to, .. } => {
                let gone: Vec<u32> =
                    shard[tree].range(from..to.max(from)).map(|(i, _)| *i).collect();
                gone.iter().for_each(|i| {
                    shard[tree].remove(i);
                });
            }
            // One that is refused changes nothing.
            ExpectedChange::Role { index, change, .. } => {
                change.apply(index, &mut shard[ROLES]);
            }
        }
    }
}

/// Copies of the shards that some changes are about.
pub fn touched<'a>(
    changes: &[ExpectedChange],
    shard: impl Fn(u32) -> Option<&'a Shard>,
) -> BTreeMap<u32, Shard> {
    changes.iter().filter_map(|c| Some((c.shard(), shard(c.shard())?.clone()))).collect()
}

/// What the whole store should hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedStore {
    /// The cycle whose journals tell what came after this state; 0 for none.
    pub cycle: u64,
    /// The shards.
    pub shards: Vec<Shard>,
}

const MAGIC: &[u8; 8] = b"firnexp3";
/// No expected state is larger.
const LARGEST: u64 = 1 << 32;

impl ExpectedStore {
    /// Nothing in so many shards.
    pub fn empty(shards: u32) -> ExpectedStore {
        ExpectedStore { cycle: 0, shards: (0..shards).map(|_| Shard::default()).collect() }
    }

    fn path(dir: &Path) -> PathBuf {
        dir.join("expected")
    }

    /// The state kept in `dir`; nothing where there is none yet.
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

    /// Keeps the state in `dir`, in place of the one before.
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

    /// Makes the changes of a step.
    pub fn apply(&mut self, changes: &[ExpectedChange]) {
        for c in changes {
            c.apply(&mut self.shards[c.shard() as usize]);
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
        let set = |index, version| ExpectedChange::Set { tree: 0, shard: 1, index, version };
        e.apply(&[set(1, 10), set(2, 20), set(3, 30), set(4, 40)]);
        e.apply(&[
            ExpectedChange::Unset { tree: 0, shard: 1, index: 4 },
            ExpectedChange::UnsetRange { tree: 0, shard: 1, from: 2, to: 3 },
        ]);
        e.apply(&[
            ExpectedChange::Add { tree: 2, shard: 2, index: 9, by: u64::MAX },
            ExpectedChange::Add { tree: 2, shard: 2, index: 9, by: 3 },
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
