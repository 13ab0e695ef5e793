//! Mutations of a statement, grouped by partition.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use firn_wide::internals::key::{END, ROWS};
use firn_wide::internals::store::{MutatedBody, MutatedPlace, StoreMutation};
use firn_wide::internals::types::EMPTY;

use super::limits::{CELL, ChangeWeight, ROW};
use crate::error::Result;

/// Returns the row of a position; empty for a static cell.
fn row_of<'m>(place: &MutatedPlace<'m>) -> Result<&'m [u8]> {
    if place.place.first() != Some(&ROWS) {
        return Ok(&[]);
    }
    Ok(&place.place[..place.family.layout().row_len(place.place)?])
}

/// Returns the priority of a write: the last write wins; ties go to the tombstone, then to the
/// larger value.
fn strength<'m>(place: &MutatedPlace<'m>) -> (i64, bool, &'m [u8]) {
    match place.body {
        MutatedBody::Value(value) => (place.timestamp, false, value),
        _ => (place.timestamp, true, &[]),
    }
}

/// Returns the counted size of a cell. `row` is the length of its row.
fn weight_of(cell: &MutatedPlace<'_>, row: usize) -> usize {
    // A static cell has one byte before the name. A name takes three bytes and an end, an element a
    // mark and an end.
    let name = &cell.place[row.max(1)..];
    if *name == [EMPTY, END] {
        return 0;
    }
    let element = name.len().saturating_sub(4).saturating_sub(2);
    let value = match cell.body {
        MutatedBody::Value(value) => value.len(),
        MutatedBody::Increment => 8,
        MutatedBody::Tombstone | MutatedBody::Row => 0,
    };
    CELL + element + value
}

/// Mutations, one for each partition.
#[derive(Default)]
pub struct Mutations {
    pub all: Vec<StoreMutation>,
    /// Size of the changes ([`BatchLimits`](super::limits::BatchLimits)).
    pub weight: ChangeWeight,
    /// Index of each mutation by key, if there are too many for a linear search.
    numbers: HashMap<Vec<u8>, usize>,
}

impl Mutations {
    /// Maximum number of mutations for a linear search.
    const FEW: usize = 8;

    /// Returns the mutation of the partition with this key.
    pub fn of(&mut self, key: &[u8]) -> &mut StoreMutation {
        if self.all.len() > Mutations::FEW && self.numbers.is_empty() {
            self.numbers =
                self.all.iter().enumerate().map(|(i, m)| (m.key().to_vec(), i)).collect();
        }
        let found = match self.numbers.is_empty() {
            true => self.all.iter().position(|m| m.key() == key),
            false => self.numbers.get(key).copied(),
        };
        let number = found.unwrap_or_else(|| {
            if !self.numbers.is_empty() {
                self.numbers.insert(key.to_vec(), self.all.len());
            }
            self.all.push(StoreMutation::new(key));
            self.all.len() - 1
        });
        &mut self.all[number]
    }

    /// Returns an upper bound on the size. The size is smaller if changes write to the same rows.
    pub fn most_weight(&self) -> usize {
        self.weight.rows + self.weight.rest
    }

    /// Returns the size of the batch. As in Cassandra, writes to one row count as one row, and of
    /// several writes to a cell only the winner counts.
    ///
    /// # Errors
    /// `Corrupt` for invalid positions.
    pub fn whole_weight(&self) -> Result<usize> {
        let (mut rows, mut repeated) = (0, 0);
        for mutation in &self.all {
            let mut named = BTreeSet::new();
            let (mut deleted, mut cells) = (BTreeMap::new(), BTreeMap::new());
            for place in mutation.places() {
                let place = place?;
                let family = place.family.id();
                let row = row_of(&place)?;
                if !row.is_empty() && named.insert((family, row)) {
                    rows += ROW + row.len();
                }
                if place.body == MutatedBody::Row {
                    let newest = deleted.entry((family, row)).or_insert(place.timestamp);
                    *newest = place.timestamp.max(*newest);
                    continue;
                }
                match cells.entry((family, place.place)) {
                    Entry::Vacant(new) => drop(new.insert((row, place))),
                    Entry::Occupied(mut winner) => {
                        let is_more = strength(&place) > strength(&winner.get().1);
                        let loser = if is_more { winner.insert((row, place)).1 } else { place };
                        repeated += weight_of(&loser, row.len());
                    }
                }
            }
            for ((family, _), (row, cell)) in &cells {
                if deleted.get(&(*family, *row)).is_some_and(|until| *until >= cell.timestamp) {
                    repeated += weight_of(cell, row.len());
                }
            }
        }
        Ok((rows + self.weight.rest).saturating_sub(repeated).min(self.most_weight()))
    }
}
