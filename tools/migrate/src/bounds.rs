//! Splits a range tombstone into ranges of `DELETE` statements: equal values of the first
//! clustering columns, and a slice of the next.

/// One end of a range of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundSide {
    /// Values of the first clustering columns, or of all.
    pub values: Vec<Vec<u8>>,
    /// Whether rows with this prefix are in the range.
    pub inclusive: bool,
}

/// A value, and whether it is included.
type PieceEnd<'a> = Option<(&'a Vec<u8>, bool)>;

/// A part of a range: rows with the clustering prefix `prefix` and the next column between `lower`
/// and `upper`, in clustering order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePiece<'a> {
    /// Values of the first clustering columns.
    pub prefix: &'a [Vec<u8>],
    /// Start of the slice.
    pub lower: PieceEnd<'a>,
    /// End of the slice.
    pub upper: PieceEnd<'a>,
}

/// Returns parts that together cover exactly the range. `None`: the range covers all rows of a
/// partition, which no `DELETE` of rows can express.
pub fn pieces<'a>(start: &'a BoundSide, end: &'a BoundSide) -> Option<Vec<SlicePiece<'a>>> {
    let (s, e) = (&start.values, &end.values);
    let common = s.iter().zip(e).take_while(|(a, b)| a == b).count();
    if common == s.len() && common == e.len() {
        let whole = SlicePiece { prefix: s, lower: None, upper: None };
        return (common > 0).then(|| vec![whole]);
    }
    let mut all = vec![];
    let from = |level: usize| Some((&s[level], level + 1 == s.len() && start.inclusive));
    let until = |level: usize| Some((&e[level], level + 1 == e.len() && end.inclusive));
    let parted = common < s.len() && common < e.len();
    if parted {
        let (lower, upper) = (from(common), until(common));
        all.push(SlicePiece { prefix: &s[..common], lower, upper });
    }
    let beside = common + usize::from(parted);
    // After the start within its prefixes, and before the end within its prefixes.
    for level in beside..s.len() {
        all.push(SlicePiece { prefix: &s[..level], lower: from(level), upper: None });
    }
    for level in beside..e.len() {
        all.push(SlicePiece { prefix: &e[..level], lower: None, upper: until(level) });
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports whether a row is after a bound in clustering order; otherwise it is before the
    /// bound.
    fn is_behind(row: &[Vec<u8>], bound: &BoundSide, is_start: bool) -> bool {
        let begins = &row[..bound.values.len()];
        match begins.cmp(&bound.values) {
            std::cmp::Ordering::Equal => bound.inclusive == is_start,
            other => other == std::cmp::Ordering::Greater,
        }
    }

    fn holds(piece: &SlicePiece<'_>, row: &[Vec<u8>]) -> bool {
        let Some(rest) = row.strip_prefix(piece.prefix) else { return false };
        let side = |end: PieceEnd<'_>, is_lower: bool| {
            end.is_none_or(|(value, inclusive)| match rest[0].cmp(value) {
                std::cmp::Ordering::Equal => inclusive,
                other => (other == std::cmp::Ordering::Greater) == is_lower,
            })
        };
        rest.is_empty() || (side(piece.lower, true) && side(piece.upper, false))
    }

    #[test]
    fn pieces_have_the_rows_of_their_range_and_no_others() {
        let value = |n: u8| vec![n];
        let mut bounds = vec![];
        for inclusive in [false, true] {
            bounds.push(BoundSide { values: vec![], inclusive: true });
            for a in 0..3 {
                bounds.push(BoundSide { values: vec![value(a)], inclusive });
                for b in 0..3 {
                    bounds.push(BoundSide { values: vec![value(a), value(b)], inclusive });
                    for c in 0..3 {
                        let values = vec![value(a), value(b), value(c)];
                        bounds.push(BoundSide { values, inclusive });
                    }
                }
            }
        }
        let row = |n: u8| vec![value(n / 9), value(n / 3 % 3), value(n % 3)];
        let mut seen = 0;
        for start in &bounds {
            for end in &bounds {
                let within =
                    |row: &[Vec<u8>]| is_behind(row, start, true) && !is_behind(row, end, false);
                let rows: Vec<_> = (0..27).map(row).filter(|r| within(r)).collect();
                // The bounds are in order, so an empty range does not occur.
                if rows.is_empty() {
                    continue;
                }
                let Some(pieces) = pieces(start, end) else {
                    assert_eq!(rows.len(), 27);
                    continue;
                };
                for n in 0..27 {
                    let row = row(n);
                    let times = pieces.iter().filter(|p| holds(p, &row)).count();
                    assert_eq!(times, usize::from(within(&row)), "{row:?} of {start:?} to {end:?}");
                }
                seen += 1;
            }
        }
        assert!(seen > 2000, "{seen}");
    }
}
