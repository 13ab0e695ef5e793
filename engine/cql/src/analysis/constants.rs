//! Packed constants of an `IN` list. A vector for each value would take 128 bytes of memory where
//! the statement text has 7.

use crate::values::{BoundTerm, heap_bytes};

/// Tuples of constants without nulls, in the order in which they were pushed.
#[derive(Clone, Debug, Default)]
pub(super) struct ConstantTuples {
    /// Number of values in a tuple.
    width: usize,
    /// Values, each prefixed by its length in 4 bytes.
    bytes: Vec<u8>,
}

impl ConstantTuples {
    /// Appends a tuple and returns true. Returns false if a term is null or not a constant, or if
    /// the number of terms differs from that of the earlier tuples.
    pub fn push(&mut self, terms: &[BoundTerm]) -> bool {
        let fits = |term: &BoundTerm| match term {
            BoundTerm::Constant(Some(bytes)) => u32::try_from(bytes.len()).is_ok(),
            _ => false,
        };
        let is_first = self.bytes.is_empty();
        if terms.is_empty() || !terms.iter().all(fits) || !is_first && terms.len() != self.width {
            return false;
        }
        self.width = terms.len();
        for term in terms {
            if let BoundTerm::Constant(Some(value)) = term {
                self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
                self.bytes.extend_from_slice(value);
            }
        }
        true
    }

    /// Returns the tuples.
    pub fn iter(&self) -> impl Iterator<Item = Vec<&[u8]>> {
        let mut left = &self.bytes[..];
        let mut value = move || {
            let (len, rest) = left.split_first_chunk::<4>()?;
            let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            left = rest;
            Some(value)
        };
        let width = self.width;
        std::iter::from_fn(move || (0..width).map(|_| value()).collect::<Option<Vec<_>>>())
            .take_while(|tuple| !tuple.is_empty())
    }
}

heap_bytes!(ConstantTuples { bytes });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_are_returned_as_they_were_pushed() {
        let constant = |bytes: &[u8]| BoundTerm::Constant(Some(bytes.to_vec()));
        let mut all = ConstantTuples::default();
        assert_eq!(all.iter().count(), 0);
        assert!(!all.push(&[BoundTerm::Constant(None)]));
        assert!(all.push(&[constant(b"a"), constant(b"")]));
        assert!(all.push(&[constant(b""), constant(&[7; 300])]));
        assert!(!all.push(&[constant(b"one")]), "of another width");
        assert!(!all.push(&[constant(b"x"), BoundTerm::Marker(0, firn_wide::Type::Int32)]));
        let wanted: [Vec<&[u8]>; 2] = [vec![b"a", b""], vec![b"", &[7; 300]]];
        assert_eq!(all.iter().collect::<Vec<_>>(), wanted);
    }
}
