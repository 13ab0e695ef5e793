//! Copies all data of a family to another one with a different key layout.
//!
//! Invariant: meanwhile, and after success, writes to the family are refused. So the copy is
//! complete, and no write is lost when it is published.

use std::sync::atomic::Ordering;

use firn_kv::Durability;

use crate::base::error::{Error, Result};
use crate::cell::StoredCell;
use crate::key::{DELETION, RANGES};

use super::CellStore;
use super::family::{FamilyAccess, StoreFamily};
use super::moment::StoreMoment;
use super::mutation::StoreMutation;
use super::ranges::range_at;

/// Maximum number of operations in one write: a partition may have many rows.
const AT_ONCE: usize = 1024;

/// Maps positions of a family to positions of another one.
pub trait MovedPlaces {
    /// Returns the new position of the cell at this position. `None`: it is not copied.
    ///
    /// # Errors
    /// `Corrupt` for an invalid position.
    fn cell(&self, place: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Returns the new form of a bound of rows.
    fn bound(&self, bound: &[u8]) -> Vec<u8>;
}

impl CellStore {
    /// Copies the cells and deletions of a family to another one, which is not published yet, with
    /// their timestamps and expiration. Writes to the family are refused from then on; after an
    /// error they are allowed again.
    ///
    /// `InvalidRequest` for a family that is not open here; `Stopped` with a
    /// [`stoppable`](CellStore::stoppable) handle; errors of the engine and of `places`.
    pub fn move_all(
        &self,
        from: &StoreFamily,
        to: &StoreFamily,
        places: &dyn MovedPlaces,
    ) -> Result<()> {
        self.check_open(from)?;
        from.set_access(FamilyAccess::Moving);
        // Wait for writers that found it open.
        self.0.stripes.pass_through();
        let done = self.move_closed(from, to, places);
        if done.is_err() {
            self.abandon_move(from);
        }
        done
    }

    /// Allows writes to a family again, after its copy was abandoned.
    pub fn abandon_move(&self, from: &StoreFamily) {
        from.set_access(FamilyAccess::Open);
    }

    fn move_closed(
        &self,
        from: &StoreFamily,
        to: &StoreFamily,
        places: &dyn MovedPlaces,
    ) -> Result<()> {
        let snapshot = self.0.db.snapshot();
        let mut cursor = StoreMoment::Then(&snapshot).cursor(from.tree(), ..)?;
        cursor.first()?;
        let mut m = StoreMutation::new(&[]);
        let (mut of, mut key) = (vec![], vec![]);
        while cursor.is_valid() {
            self.check_stop()?;
            let partition = from.layout().partition_len(cursor.key())?;
            let (part, place) = cursor.key().split_at(partition);
            if part != of || m.ops.len() >= AT_ONCE {
                self.apply(std::slice::from_ref(&m), Durability::Process)?;
                of = part.to_vec();
                key.clear();
                from.layout().key_of(part, &mut key)?;
                m.reset(&key);
            }
            match StoredCell::decode(cursor.value())? {
                StoredCell::Cell(cell) => {
                    if let Some(place) = places.cell(place)? {
                        m.put_cell(to, &place, cell);
                    }
                }
                // In a family without super columns a row is the whole partition.
                StoredCell::Deletion(deletion) if place.last() == Some(&DELETION) => {
                    m.delete_as(to, &[], deletion);
                }
                StoredCell::Range(..) if place.first() == Some(&RANGES) => {
                    let (start, end, deletion) = range_at(cursor.key(), partition, cursor.value())?;
                    m.delete_range_as(to, &places.bound(start), &places.bound(end), deletion);
                }
                _ => return Err(Error::Corrupt("a deletion is in an invalid position".into())),
            }
            cursor.next()?;
        }
        self.apply(&[m], Durability::Process)
    }
}

impl StoreFamily {
    pub(super) fn set_access(&self, access: FamilyAccess) {
        self.0.state.access.store(access as u8, Ordering::Release);
    }
}
