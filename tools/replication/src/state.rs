//! State of a replica, which its store has in the tree `system.replica`.
//!
//! The key `position` has: identity of the primary's store u64, sequence number of the last applied
//! change u64, newest sequence number of the replica itself u64, whether trees were being changed u8,
//! all little-endian. Each applied batch contains it. The key `trees` has the definitions of the
//! primary's trees.
//!
//! Invariant: the newest sequence number of a replica is the recorded one, unless another program has
//! written to it, or the replica was changing trees when it ended.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use firn_kv::internals::base::ops::TreeId;
use firn_kv::internals::replication::{
    ReplicatedTree, decode_definitions, define_tree, encode_definitions, tree_definitions,
};
use firn_kv::{
    Batch, ChangePosition, Db, DbOptions, Env, Error, ErrorKind, Result, Tree, TreeOptions,
};

/// Name of the tree with the state of a replica. A store with this tree is a replica.
pub const STATE_TREE: &str = "system.replica";
const POSITION: &str = "position";
const TREES: &str = "trees";

/// State of a replica's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaState {
    /// Position in the changes of the primary up to which everything was applied.
    pub position: ChangePosition,
    /// Newest sequence number of the replica.
    own: u64,
    is_changing_trees: bool,
}

impl ReplicaState {
    fn encode(&self) -> Vec<u8> {
        let numbers = [self.position.store, self.position.seq, self.own];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        bytes.push(u8::from(self.is_changing_trees));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<ReplicaState> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let position = ChangePosition { store: number(0)?, seq: number(8)? };
        let is_changing_trees = *bytes.get(24)? != 0;
        Some(ReplicaState { position, own: number(16)?, is_changing_trees })
    }
}

fn damaged() -> Error {
    Error::corruption("the state of the replica is damaged; remove its directory to copy it again")
}

/// Returns the state of a replica; `None` if the store is no replica.
///
/// # Errors
/// Errors of reading the store, and a record that is damaged.
pub fn replica_state(db: &Db) -> Result<Option<ReplicaState>> {
    let tree = match db.existing_tree(STATE_TREE) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        tree => tree?,
    };
    let Some(record) = tree.get(POSITION)? else { return Ok(None) };
    ReplicaState::decode(&record).map(Some).ok_or_else(damaged)
}

/// Makes the store in `dir` an independent one, which can be written to. Returns its last position in
/// the changes of the primary. No other program may have it open, and its replica must be stopped.
///
/// # Errors
/// `InvalidArgument` if the store is no replica, `Locked` if it is open, and errors of opening and
/// writing it.
pub fn promote(env: Arc<dyn Env>, dir: &Path, options: DbOptions) -> Result<ChangePosition> {
    let db = Db::open_in(env, dir, options)?;
    let position = promote_open(&db)?;
    db.close()?;
    Ok(position)
}

/// Makes an open store an independent one.
pub fn promote_open(db: &Db) -> Result<ChangePosition> {
    let state = replica_state(db)?
        .ok_or_else(|| Error::invalid("this store is no replica, so it cannot be promoted"))?;
    db.drop_tree(STATE_TREE)?;
    Ok(state.position)
}

/// Makes a copy of the primary's store a replica: its state is that of the primary at `position`.
///
/// # Errors
/// Errors of writing the store. The call can be repeated.
pub fn begin_replica(db: &Db, position: ChangePosition) -> Result<()> {
    // The primary itself may be a replica of another store.
    if db.tree_names().iter().any(|name| name == STATE_TREE) {
        db.drop_tree(STATE_TREE)?;
    }
    // The trees of a copy have the numbers that they have in the primary.
    let definitions = encode_definitions(&tree_definitions(db));
    let state = db.tree(STATE_TREE, TreeOptions::default())?;
    let own = db.snapshot().seq() + 2;
    let mut batch = Batch::new();
    batch.put(&state, TREES, definitions)?;
    let now = ReplicaState { position, own, is_changing_trees: false };
    batch.put(&state, POSITION, now.encode())?;
    db.write(batch)?;
    db.sync()
}

/// The trees of a replica and its position.
pub struct ReplicaTrees {
    db: Db,
    state: Tree,
    now: ReplicaState,
    /// Definitions of the primary's trees.
    definitions: Vec<ReplicatedTree>,
    /// Own trees, by the number of the primary.
    trees: HashMap<TreeId, Tree>,
}

impl ReplicaTrees {
    /// Opens the state of a replica.
    ///
    /// # Errors
    /// `InvalidArgument` for a store that is no replica, or that another program has written to.
    pub fn open(db: &Db) -> Result<ReplicaTrees> {
        let now = replica_state(db)?.ok_or_else(|| {
            Error::invalid("this store is no replica: name another directory, or remove it")
                .in_file(db.dir())
        })?;
        let newest = db.snapshot().seq();
        if newest != now.own && !now.is_changing_trees {
            return Err(Error::invalid(
                "another program has written to this replica: promote it, or remove it to copy it again",
            )
            .in_file(db.dir()));
        }
        let state = db.existing_tree(STATE_TREE)?;
        let record = state.get(TREES)?.ok_or_else(damaged)?;
        let mut definitions = decode_definitions(&record)?;
        if now.is_changing_trees {
            // It ended amid a change. The primary sends the definitions again.
            let names = db.tree_names();
            definitions.retain(|d| names.contains(&d.name));
        }
        let mut opened =
            ReplicaTrees { db: db.clone(), state, now, definitions, trees: HashMap::new() };
        opened.open_trees()?;
        Ok(opened)
    }

    /// Returns the position behind the last applied change.
    pub fn position(&self) -> ChangePosition {
        self.now.position
    }

    /// Returns the tree with this number of the primary.
    pub fn tree(&self, id: TreeId) -> Option<&Tree> {
        self.trees.get(&id)
    }

    /// Writes a batch together with the position `seq`.
    pub fn write(&mut self, mut batch: Batch, seq: u64) -> Result<()> {
        let position = ChangePosition { seq, ..self.now.position };
        // The record is the last operation, and nobody else writes.
        let own = self.db.snapshot().seq() + batch.len() as u64 + 1;
        let now = ReplicaState { position, own, is_changing_trees: false };
        batch.put(&self.state, POSITION, now.encode())?;
        let written = firn_kv::internals::replication::write_numbered(&self.db, &batch)?;
        if written != own {
            return Err(
                Error::invalid("another program writes to this replica").in_file(self.db.dir())
            );
        }
        self.now = now;
        Ok(())
    }

    /// Creates, changes and drops trees so that they are those of the primary.
    ///
    /// # Errors
    /// Errors of the store. The call can be repeated.
    pub fn define(&mut self, encoded: &[u8]) -> Result<()> {
        let definitions = decode_definitions(encoded)?;
        if definitions == self.definitions {
            return Ok(());
        }
        let changing = ReplicaState { is_changing_trees: true, ..self.now };
        self.state.put(POSITION, changing.encode())?;
        let before: HashMap<&str, TreeId> =
            self.definitions.iter().map(|d| (&*d.name, d.id)).collect();
        let after: HashMap<&str, TreeId> = definitions.iter().map(|d| (&*d.name, d.id)).collect();
        for name in self.db.tree_names() {
            // A tree with another number was dropped and created again. One that is unknown here is
            // from the copy.
            let is_other = before.get(&*name).is_some_and(|id| after.get(&*name) != Some(id));
            if name != STATE_TREE && (is_other || !after.contains_key(&*name)) {
                self.db.drop_tree(&name)?;
            }
        }
        for d in &definitions {
            let known = self.definitions.iter().any(|old| old == d);
            if !known {
                define_tree(&self.db, d)?;
            }
        }
        let mut batch = Batch::new();
        batch.put(&self.state, TREES, encode_definitions(&definitions))?;
        self.definitions = definitions;
        self.open_trees()?;
        self.write(batch, self.now.position.seq)
    }

    fn open_trees(&mut self) -> Result<()> {
        let open = |d: &ReplicatedTree| Ok((d.id, self.db.existing_tree(&d.name)?));
        self.trees = self.definitions.iter().map(open).collect::<Result<_>>()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_round_trips() {
        let position = ChangePosition { store: 1, seq: 2 };
        let state = ReplicaState { position, own: 3, is_changing_trees: true };
        let bytes = state.encode();
        assert_eq!(ReplicaState::decode(&bytes), Some(state));
        (0..bytes.len()).for_each(|n| assert_eq!(ReplicaState::decode(&bytes[..n]), None));
    }
}
