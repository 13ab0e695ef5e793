//! Reconciliation of two cells with one name (model 2.2, the rule of 4.0). These rules decide, in
//! this order:
//! 1. the larger timestamp wins;
//! 2. a tombstone wins over an expiring cell, and an expiring cell over a plain one;
//! 3. between two tombstones or two expiring cells, the later second wins;
//! 4. the larger value wins, compared as unsigned bytes.
//!
//! Cells that are equal except for the TTL are decided by the longer TTL, so that the order never
//! matters.

use super::value::{Cell, CellState};

fn rank(cell: &Cell<'_>) -> (u8, i64) {
    match cell.state {
        CellState::Counter(_) => (0, 0),
        CellState::Live(_) => (1, 0),
        CellState::Expiring { expires, .. } => (2, expires),
        CellState::Tombstone { deleted } => (3, deleted),
    }
}

/// Reports whether `a` wins over `b`. Equal cells do not win over each other.
pub(super) fn wins(a: &Cell<'_>, b: &Cell<'_>) -> bool {
    let by_rank = || rank(a).cmp(&rank(b));
    let by_value = || a.value().cmp(b.value());
    let order = a
        .timestamp
        .cmp(&b.timestamp)
        .then_with(by_rank)
        .then_with(by_value)
        .then_with(|| a.ttl().cmp(&b.ttl()));
    order.then_with(|| a.counter().cmp(&b.counter())).is_gt()
}

/// Returns the winner of two cells with one name.
pub fn reconcile<'a>(a: Cell<'a>, b: Cell<'a>) -> Cell<'a> {
    if wins(&b, &a) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> Vec<Cell<'static>> {
        let mut all = vec![];
        for timestamp in [i64::MIN, 4, 5] {
            let values = [&b""[..], b"a", b"\x80", b"ab"];
            let mut states: Vec<CellState<'static>> =
                values.into_iter().map(CellState::Live).collect();
            states.extend([7, 8].map(|deleted| CellState::Tombstone { deleted }));
            for value in [&b"a"[..], b"b"] {
                states.extend([(3, 7), (4, 7), (3, 8)].map(|(ttl, expires)| CellState::Expiring {
                    value,
                    ttl,
                    expires,
                }));
            }
            all.extend(states.into_iter().map(|state| Cell { timestamp, state }));
        }
        all
    }

    #[test]
    fn the_winner_does_not_depend_on_order_or_grouping() {
        let all = cells();
        for &a in &all {
            assert_eq!(reconcile(a, a), a);
            for &b in &all {
                assert_eq!(reconcile(a, b), reconcile(b, a));
                for &c in &all {
                    assert_eq!(reconcile(reconcile(a, b), c), reconcile(a, reconcile(b, c)));
                }
            }
        }
    }

    #[test]
    fn ties_follow_the_rule_of_4_0() {
        let at = |state| Cell { timestamp: 5, state };
        let beats = |a: CellState<'static>, b: CellState<'static>| {
            assert_eq!(reconcile(at(a), at(b)), at(a), "{a:?} against {b:?}")
        };
        let expiring = |value, expires| CellState::Expiring { value, ttl: 10, expires };
        beats(CellState::Tombstone { deleted: 1 }, CellState::Live(b"zz"));
        beats(CellState::Tombstone { deleted: 1 }, expiring(b"zz", 99));
        beats(expiring(b"", 1), CellState::Live(b"zz"));
        beats(expiring(b"a", 9), expiring(b"b", 8));
        beats(expiring(b"b", 9), expiring(b"a", 9));
        beats(CellState::Tombstone { deleted: 2 }, CellState::Tombstone { deleted: 1 });
        beats(CellState::Live(b"\x80"), CellState::Live(b"\x7f"));
        beats(CellState::Live(b"ab"), CellState::Live(b"a"));
        let newer = Cell { timestamp: 6, state: CellState::Live(b"a") };
        assert_eq!(reconcile(newer, at(CellState::Tombstone { deleted: 9 })), newer);
    }
}
