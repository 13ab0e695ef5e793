//! Range deletions in the form of a node's files: they never overlap. Where several overlap, the
//! newest counts, and a marker is written at each change.

use std::collections::BinaryHeap;

use firn_cassandra::{NodeBound, NodeDeletion, NodeMarker};
use firn_tools::output::{Done, Failure};
use firn_wide::Type;
use firn_wide::internals::key::{AFTER, BEFORE, Layout, ROWS};

/// The section after the rows.
const AFTER_ROWS: u8 = ROWS + 1;

/// A deletion of the rows between two positions of a partition.
pub struct DeletedRange {
    /// Start, inclusive.
    pub start: Vec<u8>,
    /// End, exclusive.
    pub end: Vec<u8>,
    /// The deletion.
    pub deletion: NodeDeletion,
}

/// A marker with its position.
pub struct PlacedMarker {
    /// The position that it precedes.
    pub place: Vec<u8>,
    /// The marker.
    pub marker: NodeMarker,
}

/// Returns the markers of all ranges of a partition, in order.
pub fn markers(layout: &Layout, mut ranges: Vec<DeletedRange>) -> Done<Vec<PlacedMarker>> {
    ranges.retain(|r| r.start < r.end);
    ranges.sort_by(|a, b| a.start.cmp(&b.start));
    let mut places: Vec<&[u8]> = ranges.iter().flat_map(|r| [&*r.start, &*r.end]).collect();
    places.sort_unstable();
    places.dedup();
    let mut all = vec![];
    // Open ranges, newest first; ended ones are removed when they reach the top.
    let mut begun: BinaryHeap<(i64, i64, &[u8])> = BinaryHeap::new();
    let mut waiting = ranges.iter().peekable();
    let mut open: Option<NodeDeletion> = None;
    for place in places {
        while let Some(r) = waiting.next_if(|r| *r.start <= *place) {
            begun.push((r.deletion.timestamp, r.deletion.local, &r.end));
        }
        while begun.peek().is_some_and(|r| r.2 <= place) {
            begun.pop();
        }
        let newest = begun.peek().map(|r| NodeDeletion { timestamp: r.0, local: r.1 });
        if newest == open {
            continue;
        }
        let (clustering, after) = read_bound(layout, place)?;
        let bound = |inclusive| NodeBound { clustering: clustering.clone(), inclusive };
        let close = open.map(|d| (bound(after), d));
        let opens = newest.map(|d| (bound(!after), d));
        let marker = NodeMarker { close, open: opens, position: 0 };
        all.push(PlacedMarker { place: place.to_vec(), marker });
        open = newest;
    }
    Ok(all)
}

/// Returns a value of a key in the form of a cell; `None` for null.
pub fn whole_value(of: &Type, there: bool, value: Vec<u8>) -> Done<Option<Vec<u8>>> {
    let whole = there.then(|| of.with_last_nulls(&value)).transpose();
    whole.map_err(|e| Failure::new(format!("a value in a key is none of its type: {}", e.0)))
}

/// Returns the values of a bound between rows, and whether it is after rows with this prefix.
fn read_bound(layout: &Layout, place: &[u8]) -> Done<(Vec<Option<Vec<u8>>>, bool)> {
    let wrong = || {
        let what = format!("a deletion of a range ends at no row: \"{}\"", place.escape_ascii());
        Failure::with_next(what, "`firn verify` lists everything that is damaged")
    };
    let mut rest = match place {
        // A statement without a bound on one side has only the rows section there.
        [ROWS] => return Ok((vec![], false)),
        [AFTER_ROWS] => return Ok((vec![], true)),
        [ROWS, rest @ ..] => rest,
        _ => return Err(wrong()),
    };
    let mut values = vec![];
    for of in layout.clustering() {
        if rest.len() <= 1 {
            break;
        }
        let mut value = vec![];
        let there = of.take_component(&mut rest, &mut value).map_err(|_| wrong())?;
        values.push(whole_value(of, there, value)?);
    }
    match rest {
        [BEFORE] => Ok((values, false)),
        [AFTER] => Ok((values, true)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use firn_wide::Partitioner;
    use proptest::prelude::*;

    use super::*;

    fn layout() -> Layout {
        Layout::table(Partitioner::Murmur3, vec![Type::Int32])
    }

    fn place(n: i32, after: bool) -> Vec<u8> {
        let mut out = vec![];
        layout().put_bound(&[n.to_be_bytes()], after, &mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn each_row_is_deleted_as_by_the_newest_range(
            drawn in prop::collection::vec((0..8, any::<bool>(), 0..8, any::<bool>(), 1i64..5), 0..12)
        ) {
            let range = |(from, after, to, behind, timestamp): &(i32, bool, i32, bool, i64)| DeletedRange {
                start: place(*from, *after),
                end: place(*to, *behind),
                deletion: NodeDeletion { timestamp: *timestamp, local: 7 },
            };
            let found = markers(&layout(), drawn.iter().map(range).collect()).unwrap();
            prop_assert!(found.windows(2).all(|w| w[0].place < w[1].place));
            let side = |side: &Option<(NodeBound, NodeDeletion)>| side.as_ref().map(|s| s.1);
            let meets = |w: &[PlacedMarker]| side(&w[0].marker.open) == side(&w[1].marker.close);
            prop_assert!(found.windows(2).all(meets));
            for n in 0..8 {
                let mut row = vec![];
                layout().put_row(&[i32::to_be_bytes(n)], &mut row).unwrap();
                let covers = |r: &&DeletedRange| r.start <= row && row < r.end;
                let all: Vec<_> = drawn.iter().map(range).collect();
                let newest = all.iter().filter(covers).map(|r| r.deletion.timestamp).max();
                let before = found.iter().rfind(|m| m.place <= row);
                let open = before.and_then(|m| m.marker.open.as_ref()).map(|o| o.1.timestamp);
                prop_assert_eq!(open, newest);
            }
        }
    }

    #[test]
    fn a_bound_says_on_which_side_of_its_rows_it_is() {
        for after in [false, true] {
            let read = read_bound(&layout(), &place(5, after)).unwrap();
            assert_eq!(read, (vec![Some(5_i32.to_be_bytes().to_vec())], after));
        }
        for (place, after) in [(&[ROWS, BEFORE][..], false), (&[ROWS], false), (&[ROWS + 1], true)]
        {
            assert_eq!(read_bound(&layout(), place).unwrap(), (vec![], after));
        }
        for wrong in [&[][..], &[ROWS, 0x40, 1], &[0x30, BEFORE], &[ROWS, 0x77]] {
            assert!(read_bound(&layout(), wrong).is_err(), "{wrong:?}");
        }
    }
}
