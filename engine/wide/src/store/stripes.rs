//! 256 locks for the partitions. Each has the largest timestamp written to one of its partitions.
//!
//! Invariants: stripes are locked in ascending order. The recorded bound (in the schema tree,
//! raised in steps) is never below `newest` of any committed write.

use firn_kv::{Batch, Tree};
use parking_lot::{Mutex, MutexGuard};

use crate::base::error::{Error, Result};

use super::trees::STRIPE_RECORD;

const COUNT: usize = 256;
/// Distance by which the bound is raised above a timestamp: 10 s in microseconds.
const AHEAD: i64 = 10_000_000;

pub(super) struct Stripe {
    /// Largest timestamp that may be stored.
    newest: i64,
    /// Recorded bound.
    bound: i64,
    /// Largest timestamp that is being written, or was when a write failed.
    announced: i64,
}

pub(super) struct Stripes(Box<[Mutex<Stripe>]>);

fn record(number: usize) -> [u8; 8] {
    let mut key = *STRIPE_RECORD;
    key[7] = number as u8;
    key
}

/// Locked stripes, ascending.
pub(super) struct LockedStripes<'a> {
    first: (usize, MutexGuard<'a, Stripe>),
    rest: Vec<(usize, MutexGuard<'a, Stripe>)>,
}

/// Adds to a batch the changes that raise all recorded bounds above `newest`; higher ones are
/// unchanged.
pub(super) fn raise_all(schema: &Tree, newest: i64, batch: &mut Batch) -> Result<()> {
    for number in 0..COUNT {
        let key = record(number);
        let bound = schema.get(&key)?.map_or(Ok(i64::MIN), |v| recorded(&v))?;
        if bound < newest.saturating_add(AHEAD) {
            batch.put(schema, &key, &newest.saturating_add(AHEAD).to_le_bytes())?;
        }
    }
    Ok(())
}

impl Stripes {
    pub fn load(schema: &Tree) -> Result<Stripes> {
        let stripe = |number| {
            let bound = schema.get(&record(number))?.map_or(Ok(i64::MIN), |v| recorded(&v))?;
            Ok(Mutex::new(Stripe { newest: bound, bound, announced: i64::MIN }))
        };
        Ok(Stripes((0..COUNT).map(stripe).collect::<Result<_>>()?))
    }

    /// Returns the stripe of a key. The stored bounds belong to stripes, so this function must not
    /// change.
    #[inline]
    pub fn of(key: &[u8]) -> usize {
        xxhash_rust::xxh3::xxh3_64(key) as usize % COUNT
    }

    /// Locks the stripes of these keys, in ascending order.
    pub fn lock<'a, 'k>(
        &'a self,
        mut keys: impl Iterator<Item = &'k [u8]>,
    ) -> Option<LockedStripes<'a>> {
        let first = Stripes::of(keys.next()?);
        let mut numbers: Vec<usize> = keys.map(Stripes::of).filter(|&n| n != first).collect();
        if numbers.is_empty() {
            return Some(LockedStripes { first: (first, self.0[first].lock()), rest: vec![] });
        }
        numbers.push(first);
        numbers.sort_unstable();
        numbers.dedup();
        let mut held = numbers.into_iter().map(|n| (n, self.0[n].lock()));
        let first = held.next()?;
        Some(LockedStripes { first, rest: held.collect() })
    }

    pub fn lock_all(&self) -> Vec<MutexGuard<'_, Stripe>> {
        self.0.iter().map(Mutex::lock).collect()
    }

    /// Returns the largest stored timestamp, or a value at most [`AHEAD`] below it; `None` in an
    /// empty store.
    pub fn newest(&self) -> Option<i64> {
        let newest = |s: &Mutex<Stripe>| {
            let s = s.lock();
            if s.newest == s.bound { s.bound.checked_sub(AHEAD) } else { Some(s.newest) }
        };
        self.0.iter().filter_map(newest).max()
    }

    /// Returns when all current holders of a lock have released it.
    pub fn pass_through(&self) {
        self.0.iter().for_each(|s| drop(s.lock()));
    }
}

impl LockedStripes<'_> {
    #[inline]
    fn stripe(&mut self, number: usize) -> Option<&mut Stripe> {
        if self.first.0 == number {
            return Some(&mut self.first.1);
        }
        let at = self.rest.binary_search_by_key(&number, |(n, _)| *n).ok()?;
        Some(&mut self.rest[at].1)
    }

    /// Returns the largest timestamp that may be stored in a stripe; `None` if it is not locked.
    #[inline]
    pub fn newest(&mut self, number: usize) -> Option<i64> {
        self.stripe(number).map(|s| s.newest)
    }

    /// Reports whether a stripe is locked and its recorded bound covers a timestamp.
    #[inline]
    pub fn is_within(&mut self, number: usize, timestamp: i64) -> bool {
        self.stripe(number).is_some_and(|s| timestamp <= s.bound)
    }

    /// Announces a timestamp that is about to be written.
    pub fn announce(&mut self, number: usize, timestamp: i64) {
        let s = self.stripe(number);
        debug_assert!(s.is_some(), "the writer of a partition must hold its stripe");
        if let Some(s) = s {
            s.announced = s.announced.max(timestamp);
        }
    }

    fn all(&mut self) -> impl Iterator<Item = (usize, &mut Stripe)> {
        std::iter::once(&mut self.first).chain(&mut self.rest).map(|(n, s)| (*n, &mut **s))
    }

    /// Adds to a batch the changes that raise the recorded bounds above all announced timestamps.
    pub fn raise(&mut self, schema: &Tree, batch: &mut Batch) -> Result<()> {
        for (number, s) in self.all().filter(|(_, s)| s.announced > s.bound) {
            batch.put(schema, &record(number), &s.announced.saturating_add(AHEAD).to_le_bytes())?;
        }
        Ok(())
    }

    /// Notes that the announced timestamps, and their bounds, are committed.
    pub fn committed(&mut self) {
        for (_, s) in self.all() {
            s.newest = s.newest.max(s.announced);
            if s.announced > s.bound {
                s.bound = s.announced.saturating_add(AHEAD);
            }
        }
    }

    /// Notes that a timestamp within the recorded bound is committed.
    #[inline]
    pub fn committed_one(&mut self, number: usize, timestamp: i64) {
        let s = self.stripe(number);
        debug_assert!(s.is_some(), "the writer of a partition must hold its stripe");
        if let Some(s) = s {
            s.newest = s.newest.max(timestamp);
        }
    }
}

/// Decodes a recorded number.
fn recorded(bytes: &[u8]) -> Result<i64> {
    let n = bytes.try_into().map(i64::from_le_bytes);
    n.map_err(|_| {
        Error::Corrupt(format!("a record of the store has {} bytes instead of 8", bytes.len()))
    })
}
