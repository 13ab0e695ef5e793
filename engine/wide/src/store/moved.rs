//! All that a family holds is put into another one, whose keys are made in another way.
//!
//! Invariant: nobody writes to the family meanwhile, and nobody afterwards unless it failed: who
//! would is refused. So the other one has all of it, and who makes it known loses no write.

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

/// Operations that one write has at most: rows of a partition may be many.
const AT_ONCE: usize = 1024;

/// Where in another family the places of a family are.
pub trait MovedPlaces {
    /// The place of the cell that is at this place. `None`: it stays behind.
    ///
    /// # Errors
    /// `Corrupt` for a place that can't be.
    fn cell(&self, place: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The bound of rows that this bound is.
    fn bound(&self, bound: &[u8]) -> Vec<u8>;
}

impl CellStore {
    /// Puts the cells and deletions of a family into another one, which nobody knows yet, with
    /// their timestamps and ends. The family is not to be written to until it is dropped; after an
    /// error it is again.
    ///
    /// # Errors
    /// `InvalidRequest` for a family that is not open here; `Stopped`, by a
    /// [`stoppable`](CellStore::stoppable) handle; errors of the engine and of `places`.
    pub fn move_all(
        &self,
        from: &StoreFamily,
        to: &StoreFamily,
        places: &dyn MovedPlaces,
    ) -> Result<()> {
        self.check_open(from)?;
        from.set_access(FamilyAccess::Moving);
        // Who found it open has written then.
        self.0.stripes.pass_through();
        let done = self.move_closed(from, to, places);
        if done.is_err() {
            self.take_back_move(from);
        }
        done
    }

    /// Lets a family be written to again that was put into another one, which is given up.
    pub fn take_back_move(&self, from: &StoreFamily) {
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
        while cursor.valid() {
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
                // A row of a family without super columns is all of the partition.
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
