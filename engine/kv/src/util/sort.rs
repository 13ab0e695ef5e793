//! Sorting for code that is not hot.
//!
//! Each call of the standard sorts compiles some 1,500 lines of machine-independent code anew, for
//! every type and every comparison. The functions here sort positions through a single
//! instantiation, and move the elements afterwards. They are stable and take O(n log n) time.

use std::cmp::Ordering;

/// Sorts by a comparison. Equal elements stay in their order.
pub fn sort_by<T>(elements: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    if elements.len() < 2 {
        return;
    }
    let mut order: Vec<usize> = (0..elements.len()).collect();
    sort_positions(&mut order, &mut |a, b| compare(&elements[a], &elements[b]));
    // Each cycle of the permutation is followed once. A position that is done points to itself.
    for first in 0..order.len() {
        let mut at = first;
        loop {
            let from = std::mem::replace(&mut order[at], at);
            if from == first {
                break;
            }
            elements.swap(at, from);
            at = from;
        }
    }
}

/// Sorts by a key, which is computed in each comparison.
pub fn sort_by_key<T, K: Ord>(elements: &mut [T], mut key: impl FnMut(&T) -> K) {
    sort_by(elements, |a, b| key(a).cmp(&key(b)));
}

/// Sorts by the order of the elements.
pub fn sort<T: Ord>(elements: &mut [T]) {
    sort_by(elements, T::cmp);
}

#[inline(never)]
fn sort_positions(order: &mut [usize], compare: &mut dyn FnMut(usize, usize) -> Ordering) {
    order.sort_by(|&a, &b| compare(a, b));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_orders_of_few_elements_are_sorted_and_equal_ones_keep_theirs() {
        for code in 0..4_u32.pow(6) {
            let mut all: Vec<(u32, usize)> =
                (0..6).map(|i| (code / 4_u32.pow(i) % 4, i as usize)).collect();
            let mut expected = all.clone();
            expected.sort_by_key(|e| e.0);
            sort_by_key(&mut all, |e| e.0);
            assert_eq!(all, expected, "{code}");
        }
    }

    #[test]
    fn long_and_short_slices_are_sorted() {
        let mut none: [String; 0] = [];
        sort(&mut none);
        let mut many: Vec<u64> =
            (0..10_000).map(|i: u64| i.wrapping_mul(0x9e37_79b9) % 997).collect();
        let mut expected = many.clone();
        expected.sort();
        sort(&mut many);
        assert_eq!(many, expected);
        sort_by(&mut many, |a, b| b.cmp(a));
        expected.reverse();
        assert_eq!(many, expected);
    }
}
