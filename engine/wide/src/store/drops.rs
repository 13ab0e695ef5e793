//! Trees that an opening may drop: notes of what was being dropped, and trees that no definition
//! names.
//!
//! Invariants:
//! - The batch that takes a definition away notes what it defined; the note goes when the data has
//!   gone.
//! - The note of a keyspace goes when what layers above kept in it has gone, and not when another
//!   keyspace of its name is made: that one gets nothing of it.
//! - A family's tree without a definition is dropped when it is noted, or when it holds nothing:
//!   its definition was never recorded then. Any other one says that its definition was lost, with
//!   a record or with a page of the tree of definitions. It is left alone, and no new family gets
//!   it: its definition can be found again, its data can't.

use std::ops::Range;

use firn_kv::{Batch, Db, ErrorKind, Tree};

use super::family::{COMPLEX, PARTITIONS, RANGES, ROWS};
use super::index::built_record;
use super::{CellStore, TreeName, kind_record};
use crate::base::error::{Error, Result};

/// The families or indexes that were dropped.
#[derive(Clone, Copy, Debug)]
pub enum DroppedFamilies<'a> {
    /// The family, or table, of this number.
    Family(u32),
    /// The keyspace of this name, with all that layers above keep in it.
    Keyspace(&'a str),
}

impl DroppedFamilies<'_> {
    /// The key of the note in the tree of definitions.
    pub fn note(self) -> Vec<u8> {
        match self {
            DroppedFamilies::Family(id) => [&b"\0drop"[..], &id.to_be_bytes()].concat(),
            DroppedFamilies::Keyspace(name) => [&b"\0gone"[..], name.as_bytes()].concat(),
        }
    }
}

impl CellStore {
    /// Adds the note that something is dropped to the batch that takes its definition away.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn note_dropped(&self, batch: &mut Batch, of: DroppedFamilies<'_>) -> Result<()> {
        Ok(batch.put(self.schema_tree(), &of.note(), &[])?)
    }

    /// Adds to a batch that such a note is not needed any more: all of it has gone.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn forget_dropped(&self, batch: &mut Batch, of: DroppedFamilies<'_>) -> Result<()> {
        Ok(batch.delete(self.schema_tree(), &of.note())?)
    }

    /// Whether something is noted as dropped.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn was_dropped(&self, of: DroppedFamilies<'_>) -> Result<bool> {
        Ok(self.schema_tree().contains(&of.note())?)
    }

    /// Drops what a crash left of families and indexes whose numbers are in `numbers` and which are
    /// not `defined`: trees of families that were being dropped or made, and trees of indexes,
    /// which can be built again. Gives the trees that are left because their definitions were lost.
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

    /// That no data is there of a family that is about to be made.
    ///
    /// # Errors
    /// `Corrupt` when there is: the number was given before, and the definition that it was given
    /// to was lost.
    pub fn check_new(&self, id: u32) -> Result<()> {
        let name = TreeName::Family(id).to_string();
        if self.family(id).is_some() || is_empty(self.db(), &name)? {
            return Ok(());
        }
        Err(Error::Corrupt(format!(
            "the tree {name} holds data of a family whose definition was lost, and its number was to be given to another one; read the \
             data with `firn scan --tree {name}`, or go back to a copy that has the definition"
        )))
    }

    /// Takes away what is on record of a family whose tree has gone.
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

/// The trees of families that no definition names, with their numbers.
#[derive(Default)]
pub(super) struct Undefined {
    /// Their families were being dropped or made: the next opening drops them.
    pub unfinished: Vec<(String, u32)>,
    /// They hold data whose definition was lost.
    pub lost: Vec<(String, u32)>,
}

/// Those of the families that are not `defined`, by the notes of the tree of definitions, where it
/// is there.
pub(super) fn undefined(
    db: &Db,
    schema: Option<&Tree>,
    is_defined: impl Fn(u32) -> bool,
) -> Result<Undefined> {
    let mut all = Undefined::default();
    for name in db.tree_names() {
        // Most are defined, and need no look into them.
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

/// Whether a tree is not there, or holds nothing. An error of reading it says that it does.
fn is_empty(db: &Db, name: &str) -> Result<bool> {
    match db.existing_tree(name) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(true),
        tree => Ok(tree?.iter().next().is_none()),
    }
}
