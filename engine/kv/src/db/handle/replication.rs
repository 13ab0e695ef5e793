//! Parts of replication that need the engine: definitions of trees, and operations as the log has
//! them. The crate `firn-replication` has the rest.
//!
//! Invariant: a defined tree has the stored options of the original, and the names of its hooks. It
//! is used without the hooks until they are supplied.

use crate::base::error::{Error, Result};
use crate::base::ops::{Op, OpReader, TreeId};
use crate::db::handle::changes::Change;
use crate::db::handle::handles::{Db, Tree};
use crate::db::open::trees;
use crate::db::write;
use crate::db::write::batch::Batch;
use crate::manifest::{Edit, PersistedOptions, TreeState, decode_edits, encode_edits};

/// Name, number and stored options of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicatedTree {
    /// Number in its store.
    pub id: TreeId,
    /// Name.
    pub name: String,
    options: PersistedOptions,
}

/// Returns the definitions of all trees, in the order of their numbers.
pub fn tree_definitions(db: &Db) -> Vec<ReplicatedTree> {
    let c = db.inner().versions.lock_catalog();
    let define = |t: &TreeState| ReplicatedTree {
        id: t.id,
        name: t.name.clone(),
        options: t.options.clone(),
    };
    c.state().trees.values().map(define).collect()
}

/// Returns a number that grows with each tree that is created, changed or dropped.
pub fn definitions_version(db: &Db) -> u64 {
    db.inner().versions.lock_catalog().definition_edits()
}

/// Encodes definitions as the manifest's edits that create the trees.
pub fn encode_definitions(all: &[ReplicatedTree]) -> Vec<u8> {
    let edit = |d: &ReplicatedTree| {
        let ReplicatedTree { id, name, options } = d.clone();
        Edit::CreateTree { id, name, options, flushed: 0 }
    };
    encode_edits(&all.iter().map(edit).collect::<Vec<_>>())
}

/// Decodes definitions.
///
/// # Errors
/// `Corruption` for bytes that are none, `Incompatible` for unknown options.
pub fn decode_definitions(bytes: &[u8]) -> Result<Vec<ReplicatedTree>> {
    let definition = |edit| match edit {
        Edit::CreateTree { id, name, options, .. } => Ok(ReplicatedTree { id, name, options }),
        _ => Err(Error::corruption("a definition of a tree is expected")),
    };
    decode_edits(bytes)?.into_iter().map(definition).collect()
}

/// Creates the tree of a definition, or gives the existing tree of this name its options.
///
/// # Errors
/// `Incompatible` if the existing tree has other hooks, and errors of writing the manifest.
pub fn define_tree(db: &Db, d: &ReplicatedTree) -> Result<Tree> {
    db.handle.check_writer()?;
    let tree = trees::define_tree(db.inner(), &d.name, &d.options)?;
    Ok(db.wrap(tree))
}

/// Returns the encoded operations of a change; none if it has no operations in the log.
pub fn encoded_ops(change: &Change) -> &[u8] {
    change.encoded()
}

/// Adds encoded operations of another store to a batch. `tree` returns the tree for a number of
/// that store; operations on other trees are omitted. Merge operands need no merge operator.
///
/// # Errors
/// `Corruption` for bytes that are no operations, and the limits of a batch.
pub fn add_ops<'t>(
    batch: &mut Batch,
    bytes: &[u8],
    tree: impl Fn(TreeId) -> Option<&'t Tree>,
) -> Result<()> {
    for op in OpReader::new(bytes) {
        let (id, op) = op.ok_or_else(|| Error::corruption("an operation does not decode"))?;
        let Some(tree) = tree(id) else { continue };
        match op {
            Op::Point { kind, key, value } => batch.point(&tree.inner, kind, key, value)?,
            range @ Op::DeleteRange { .. } => batch.add(&tree.inner, range)?,
        }
    }
    Ok(())
}

/// Writes a batch, and returns the sequence number of its last operation.
///
/// # Errors
/// Those of [`Db::write`].
pub fn write_numbered(db: &Db, batch: &Batch) -> Result<u64> {
    db.check_own(batch)?;
    let first = write::write_batch(db.inner(), batch, db.durability)?;
    Ok(first + (batch.len() as u64).max(1) - 1)
}
