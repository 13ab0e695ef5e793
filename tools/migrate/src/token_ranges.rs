//! Splits the token ring into spans for `SELECT`.
//!
//! Invariant: the spans of a ring contain each token once.

use firn_wide::Partitioner;

/// Number of spans of a ring. A finished span is not copied again.
const SPANS: u64 = 128;

/// Tokens after `after`, exclusive, up to `until`, inclusive. `None`: the end of the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenSpan {
    /// Exclusive start.
    pub after: Option<i64>,
    /// Inclusive end.
    pub until: Option<i64>,
}

/// Returns the spans of a ring, in order. Tokens that are not 64-bit numbers are in one span.
pub fn token_spans(partitioner: Partitioner) -> Vec<TokenSpan> {
    if partitioner != Partitioner::Murmur3 {
        return vec![TokenSpan::default()];
    }
    let width = u64::MAX / SPANS + 1;
    let end = |number: u64| {
        let is_inside = (1..SPANS).contains(&number);
        is_inside.then(|| i64::MIN.wrapping_add_unsigned(number * width))
    };
    (0..SPANS).map(|n| TokenSpan { after: end(n), until: end(n + 1) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_each_token_once() {
        let spans = token_spans(Partitioner::Murmur3);
        assert_eq!(spans.len() as u64, SPANS);
        assert_eq!((spans[0].after, spans[spans.len() - 1].until), (None, None));
        for pair in spans.windows(2) {
            assert_eq!(pair[0].until, pair[1].after);
            assert!(pair[0].after < pair[0].until, "{pair:?}");
        }
        assert_eq!(token_spans(Partitioner::Random), [TokenSpan::default()]);
    }
}
