//! Trees that an opening may drop: notes about unfinished drops, and trees without a definition.
//!
//! Invariants:
//! - The batch that removes a definition adds a note. The note is removed after the data is
//!   dropped.
//! - The note of a keyspace is removed after the data of higher layers in it is dropped. It remains
//!   when a new keyspace with the same name is created, which gets none of that data.
//! - A family's tree without a definition is dropped if it has a note, or if it is empty, because
//!   then its definition was never recorded. Any other such tree has lost its definition, by damage
//!   of a record or of a page of the schema tree. It is retained, and no new family gets it: its
//!   definition can be recovered, its data cannot.

use std::ops::Range;

use firn_kv::{Batch, Db, ErrorKind, Tree};

use super::family::{COMPLEX, PARTITIONS, RANGES, ROWS};
use super::index::built_record;
use super::{CellStore, TreeName, kind_record};
use crate::base::error::{Error, Result};

/// A dropped family, table or keyspace.
#[derive(Clone, Copy, Debug)]
pub enum DroppedFamilies<'a> {
    /// Family or table with this id.
    Family(u32),
    /// Keyspace with this name, with all data of higher layers in it.
    Keyspace(&'a str),
}

impl DroppedFamilies<'_> {
    /// Returns the key of the note in the schema tree.
    pub fn note(self) -> Vec<u8> {
        match self {
            DroppedFamilies::Family(id) => [&b"\0drop"[..], &id.to_be_bytes()].concat(),
            DroppedFamilies::Keyspace(name) => [&b"\0gone"[..], name.as_bytes()].concat(),
        }
    }
}

impl CellStore {
    /// Adds the note about a drop to the batch that removes the definition.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn note_dropped(&self, batch: &mut Batch, of: DroppedFamilies<'_>) -> Result<()> {
        Ok(batch.put(self.schema_tree(), &of.note(), &[])?)
    }

    /// Adds the removal of such a note to a batch, after all data is dropped.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn forget_dropped(&self, batch: &mut Batch, of: DroppedFamilies<'_>) -> Result<()> {
        Ok(batch.delete(self.schema_tree(), &of.note())?)
    }

    /// Reports whether there is a note about a drop.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn was_dropped(&self, of: DroppedFamilies<'_>) -> Result<bool> {
        Ok(self.schema_tree().contains(&of.note())?)
    }

    /// Drops remains of families and indexes after a crash: those with ids in `numbers` that are
    /// not `defined`. They are trees of families whose creation or drop was interrupted, and trees
    /// of indexes, which can be rebuilt. Returns the remaining trees, which have lost their
    /// definitions.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn drop_undefined(
        &self,
        numbers: Range<u32>,
        defined: impl Fn(TreeName) -> bool,
    ) -> Result<Vec<TreeName>> {
        let of_family = |id| !numbers.contains(&id) || defined(TreeName::Family(id));
        let found = undefined(self.db(), Some(self.schema_tree()), of_family)?;
        for (name, id) in found.unfinished {
            self.db().drop_tree(&name)?;
            self.forget_family(id)?;
        }
        for name in self.db().tree_names() {
            if let Some(it @ TreeName::Index(id)) = TreeName::parse(&name)
                && numbers.contains(&id)
                && !defined(it)
            {
                self.drop_lost_index(id)?;
            }
        }
        Ok(found.lost.into_iter().map(|(_, id)| TreeName::Family(id)).collect())
    }

    /// Checks that there is no data of a family that is about to be created.
    ///
    /// # Errors
    /// `Corrupt` if there is: the id was used before, and the definition with that id was lost.
    pub fn check_new(&self, id: u32) -> Result<()> {
        let name = TreeName::Family(id).to_string();
        if self.family(id).is_some() || is_empty(self.db(), &name)? {
            return Ok(());
        }
        Err(Error::Corrupt(format!(
            "the tree {name} holds data of a family whose definition was lost, but its id is needed for a new family; read the \
             data with `firn scan --tree {name}`, or restore a backup that has the definition"
        )))
    }

    /// Removes the records of a family whose tree is dropped.
    pub(super) fn forget_family(&self, id: u32) -> Result<()> {
        let mut batch = Batch::new();
        self.forget_dropped(&mut batch, DroppedFamilies::Family(id))?;
        batch.delete(&self.0.schema, &built_record(id))?;
        for kind in [PARTITIONS, RANGES, ROWS, COMPLEX] {
            batch.delete(&self.0.schema, &kind_record(id, kind))?;
        }
        Ok(self.0.db.write(batch)?)
    }
}

/// Trees of families without definitions, with their ids.
#[derive(Default)]
pub(super) struct Undefined {
    /// Families whose creation or drop was interrupted: the next opening drops them.
    pub unfinished: Vec<(String, u32)>,
    /// Trees with data whose definition was lost.
    pub lost: Vec<(String, u32)>,
}

/// Returns the trees of families that are not `defined`, according to the notes in the schema tree,
/// if it exists.
pub(super) fn undefined(
    db: &Db,
    schema: Option<&Tree>,
    is_defined: impl Fn(u32) -> bool,
) -> Result<Undefined> {
    let mut all = Undefined::default();
    for name in db.tree_names() {
        // Most trees are defined, and are not opened here.
        let Some(TreeName::Family(id)) = TreeName::parse(&name) else { continue };
        if is_defined(id) {
            continue;
        }
        let was_dropped = |schema: &Tree| schema.contains(&DroppedFamilies::Family(id).note());
        let unfinished =
            is_empty(db, &name)? || schema.map(was_dropped).transpose()?.unwrap_or(false);
        let of = if unfinished { &mut all.unfinished } else { &mut all.lost };
        of.push((name, id));
    }
    Ok(all)
}

/// Reports whether a tree is missing or empty. A tree that cannot be read counts as not empty.
fn is_empty(db: &Db, name: &str) -> Result<bool> {
    match db.existing_tree(name) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(true),
        tree => Ok(tree?.iter().next().is_none()),
    }
}
