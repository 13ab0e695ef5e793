//! Iterator over the items of lists, such as the tables of runs.

use std::slice;

/// Items of all lists in a slice, in order.
///
/// This is a `flat_map` with one instantiation per pair of types instead of one per call. The call
/// through a function pointer per list is too cheap to notice; do not use it where lists are tiny
/// and the loop is hot.
pub struct Nested<'a, L, T> {
    lists: slice::Iter<'a, L>,
    items: slice::Iter<'a, T>,
    items_of: fn(&'a L) -> &'a [T],
}

/// Iterates over the items that `items_of` returns for each of `lists`.
pub fn nested<'a, L, T>(lists: &'a [L], items_of: fn(&'a L) -> &'a [T]) -> Nested<'a, L, T> {
    Nested { lists: lists.iter(), items: [].iter(), items_of }
}

impl<'a, L, T> Iterator for Nested<'a, L, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(item);
            }
            self.items = (self.items_of)(self.lists.next()?).iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lists_are_skipped() {
        let lists = [vec![], vec![1, 2], vec![], vec![3], vec![]];
        assert!(nested(&lists, |l| l).copied().eq([1, 2, 3]));
        assert_eq!(nested::<Vec<u8>, u8>(&[], |l| l).next(), None);
    }
}
