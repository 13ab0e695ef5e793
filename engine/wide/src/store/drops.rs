//! What an opening may drop: notes of what was being dropped, and trees that no definition names.
//!
//! Invariants:
//! - The batch that takes a definition away notes what it defined; the note goes when the data has gone.
//! - A family's tree without a definition is dropped when it is noted, or when it holds nothing: its definition was never recorded then. Any
//!   other one says that its definition was lost, with a record or with a page of the tree of definitions. It is left alone, and no new
//!   family gets it: its definition can be found again, its data can't.

use std::ops::Range;

use firn_kv::{Batch, Db};

use super::{Store, TreeName};
use crate::base::error::{Error, Result};

/// What was dropped.
#[derive(Clone, Copy, Debug)]
pub enum Dropped<'a> {
    /// The family, or table, of this number.
    Family(u32),
    /// The keyspace of this name, with all that layers above keep in it.
    Keyspace(&'a str),
}

pub(super) fn note(of: Dropped<'_>) -> Vec<u8> {
    match of {
        Dropped::Family(id) => [&b"\0drop"[..], &id.to_be_bytes()].concat(),
        Dropped::Keyspace(name) => [&b"\0gone"[..], name.as_bytes()].concat(),
    }
}

impl Store {
    /// Adds the note that something is dropped to the batch that takes its definition away.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn note_dropped(&self, batch: &mut Batch, of: Dropped<'_>) -> Result<()> {
        Ok(batch.put(self.schema_tree(), &note(of), &[])?)
    }

    /// Adds to a batch that such a note is not needed any more: all of it has gone, or is there again.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn forget_dropped(&self, batch: &mut Batch, of: Dropped<'_>) -> Result<()> {
        Ok(batch.delete(self.schema_tree(), &note(of))?)
    }

    /// Whether something is noted as dropped.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn was_dropped(&self, of: Dropped<'_>) -> Result<bool> {
        Ok(self.schema_tree().contains(&note(of))?)
    }

    /// Drops what a crash left of families and indexes whose numbers are in `numbers` and which are not `defined`: trees of families that were
    /// being dropped or made, and trees of indexes, which can be built again. Gives the trees that are left because their definitions were
    /// lost.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn drop_undefined(&self, numbers: Range<u32>, defined: impl Fn(TreeName) -> bool) -> Result<Vec<TreeName>> {
        let mut left = vec![];
        for name in self.db().tree_names() {
            match TreeName::parse(&name) {
                Some(it @ TreeName::Family(id)) if numbers.contains(&id) && !defined(it) => {
                    if !self.was_dropped(Dropped::Family(id))? && !is_empty(self.db(), &name)? {
                        left.push(it);
                        continue;
                    }
                    self.db().drop_tree(&name)?;
                    self.forget_family(id)?;
                }
                Some(it @ TreeName::Index(id)) if numbers.contains(&id) && !defined(it) => self.drop_lost_index(id)?,
                _ => {}
            }
        }
        Ok(left)
    }

    /// That no data is there of a family that is about to be made.
    ///
    /// # Errors
    /// `Corrupt` when there is: the number was given before, and the definition that it was given to was lost.
    pub fn check_new(&self, id: u32) -> Result<()> {
        let name = TreeName::Family(id).to_string();
        let there = self.family(id).is_none() && self.db().tree_names().contains(&name);
        if !there || is_empty(self.db(), &name)? {
            return Ok(());
        }
        Err(Error::Corrupt(format!(
            "the tree {name} holds data of a family whose definition was lost, and its number was to be given to another one; read the \
             data with `firn scan --tree {name}`, or go back to a copy that has the definition"
        )))
    }
}

/// Whether a tree holds nothing. An error of reading it says that it does.
pub(super) fn is_empty(db: &Db, name: &str) -> Result<bool> {
    Ok(db.existing_tree(name)?.iter().next().is_none())
}
