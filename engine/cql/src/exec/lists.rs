//! Positions of list elements (model 3.3). The path of an element is a time-uuid, and lists are
//! sorted by it. Appended elements get increasing times. Prepended ones get times that decrease
//! from a point in the past. Both hold even if the clock steps back.

use std::sync::atomic::{AtomicI64, Ordering};

/// Time from the epoch of time-uuids, 15 October 1582, to 1970, in ticks of 100 ns.
const EPOCH: i64 = 0x01B2_1DD2_1381_4000;
/// 1 January 2010, in ticks since 1970. Prepending mirrors the time at this point.
const REFERENCE: i64 = 1_262_304_000_000 * 10_000;

/// Clock of list elements, one per database.
#[derive(Debug)]
pub(crate) struct ListClock {
    /// Last tick of an appended element.
    last: AtomicI64,
    /// First tick of a prepended element.
    first: AtomicI64,
    /// Clock sequence and node of all uuids.
    node: u64,
}

impl ListClock {
    /// Creates a clock whose uuids contain these bits.
    pub fn new(bits: u128) -> ListClock {
        // The variant of RFC 4122, and the bit for a node that is not a hardware address.
        let node = (bits as u64 & !(3 << 62)) | 1 << 63 | 1 << 40;
        ListClock { last: AtomicI64::new(i64::MIN), first: AtomicI64::new(i64::MAX), node }
    }

    /// Returns the paths of `count` elements that sort after all others, at `now` (microseconds
    /// since 1970).
    pub fn append(&self, now: i64, count: usize) -> impl Iterator<Item = [u8; 16]> {
        let count = count as i64;
        let next = |last: i64| now.saturating_mul(10).max(last.saturating_add(1));
        let update = |last: i64| Some(next(last).saturating_add(count - 1));
        let last = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
            .unwrap_or_else(|last| last);
        let (from, node) = (next(last), self.node);
        (0..count).map(move |i| uuid(from.saturating_add(i), node))
    }

    /// Returns the paths of `count` elements that sort before all others, at `now`.
    pub fn prepend(&self, now: i64, count: usize) -> impl Iterator<Item = [u8; 16]> {
        let count = count as i64;
        let mirrored = REFERENCE.saturating_mul(2).saturating_sub(now.saturating_mul(10));
        let next = |first: i64| mirrored.min(first).saturating_sub(count);
        let first = self
            .first
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |f| Some(next(f)))
            .unwrap_or_else(|f| f);
        let (from, node) = (next(first), self.node);
        (0..count).map(move |i| uuid(from.saturating_add(i), node))
    }
}

/// Returns the time-uuid of a tick since 1970.
fn uuid(tick: i64, node: u64) -> [u8; 16] {
    let time = tick.saturating_add(EPOCH) as u64;
    let head = time << 32 | (time >> 16 & 0xFFFF_0000) | 0x1000 | time >> 48 & 0x0FFF;
    let mut out = [0; 16];
    out[..8].copy_from_slice(&head.to_be_bytes());
    out[8..].copy_from_slice(&node.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_wide::Type;

    #[test]
    fn elements_keep_their_order() {
        let clock = ListClock::new(u128::MAX);
        let mut all: Vec<[u8; 16]> = vec![];
        // Several calls in a microsecond, a clock that steps back, and more elements than a
        // microsecond has ticks.
        for now in [
            1_600_000_000_000_000,
            1_600_000_000_000_000,
            1_599_999_999_999_990,
            1_600_000_000_000_003,
        ] {
            all.extend(clock.append(now, 25));
            let mut before: Vec<_> = clock.prepend(now, 25).collect();
            before.append(&mut all);
            all = before;
        }
        assert_eq!(all.len(), 200);
        for pair in all.windows(2) {
            assert!(Type::TimeUuid.compare(&pair[0], &pair[1]).is_lt(), "{pair:x?}");
        }
        assert!(all.iter().all(|u| Type::TimeUuid.validate(u).is_ok()));
    }

    #[test]
    fn a_uuid_has_its_time() {
        let clock = ListClock::new(0);
        let uuid = uuid::Uuid::from_bytes(clock.append(1_600_000_000_123_456, 1).next().unwrap());
        assert_eq!(
            (uuid.get_version_num(), uuid.get_timestamp().unwrap().to_unix()),
            (1, (1_600_000_000, 123_456_000))
        );
    }
}
