//! Order of values.

use std::cmp::Ordering;

use super::encode::{double_form, float_form};
use super::{Type, uuids};

impl Type {
    /// Compares two valid values. The empty value is before all others (after them in a reversed
    /// type). Invalid values are compared by their bytes.
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if let Type::Reversed(inner) = self {
            return inner.compare(b, a);
        }
        if a.is_empty() || b.is_empty() {
            return a.len().cmp(&b.len());
        }
        match self {
            Type::Bytes | Type::Ascii | Type::Utf8 | Type::Inet | Type::Duration | Type::Empty => {
                a.cmp(b)
            }
            Type::Date | Type::Time | Type::SimpleDate => a.cmp(b),
            Type::Long | Type::Timestamp | Type::Counter => by(a, b, i64::from_be_bytes),
            Type::Int32 => by(a, b, i32::from_be_bytes),
            Type::Short => by(a, b, i16::from_be_bytes),
            Type::Byte => by(a, b, i8::from_be_bytes),
            Type::Boolean => by(a, b, |v: [u8; 1]| v != [0]),
            Type::Float => by(a, b, float_form),
            Type::Double => by(a, b, double_form),
            Type::LexicalUuid => by(a, b, uuids::lexical_form),
            Type::TimeUuid => by(a, b, uuids::time_form),
            Type::Uuid => by(a, b, uuids::uuid_form),
            _ => self.compare_forms(a, b),
        }
    }

    fn compare_forms(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (mut fa, mut fb) = (vec![], vec![]);
        match (self.encode(a, &mut fa), self.encode(b, &mut fb)) {
            (Ok(()), Ok(())) => fa.cmp(&fb),
            _ => a.cmp(b),
        }
    }
}

fn by<const N: usize, K: Ord>(a: &[u8], b: &[u8], key: impl Fn([u8; N]) -> K) -> Ordering {
    match (a.try_into(), b.try_into()) {
        (Ok(x), Ok(y)) => key(x).cmp(&key(y)),
        _ => a.cmp(b),
    }
}
