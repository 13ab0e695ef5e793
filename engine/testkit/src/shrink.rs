//! Shrinks a failing input: removes parts, by halves and then singly, as long as the rest still
//! fails.

/// Removes steps from a failing sequence as long as it still fails, in ever smaller chunks, with at
/// most `tries` tries.
pub fn shrink<T: Clone>(
    mut steps: Vec<T>,
    tries: usize,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut left = tries;
    let mut chunk = steps.len().div_ceil(2);
    while chunk > 0 && left > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at < steps.len() && left > 0 {
            let end = (at + chunk).min(steps.len());
            let rest: Vec<T> = steps[..at].iter().chain(&steps[end..]).cloned().collect();
            left -= 1;
            if fails(&rest) {
                steps = rest;
                shorter = true;
            } else {
                at = end;
            }
        }
        if chunk == 1 && !shorter {
            break;
        }
        chunk = if chunk == 1 { 1 } else { chunk / 2 };
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{History, Step, StepKind, TREES};

    #[test]
    fn shrinking_leaves_only_the_failing_part() {
        let steps: Vec<Step> = History::new(5, [true; TREES]).take(500).collect();
        let bad = |s: &[Step]| {
            let flush = s.iter().position(|s| s.kind == StepKind::DeleteRange);
            flush.is_some_and(|i| s[i..].iter().any(|s| s.kind == StepKind::Merge))
        };
        let small = shrink(steps, 1000, bad);
        assert_eq!(
            small.iter().map(|s| s.kind).collect::<Vec<_>>(),
            [StepKind::DeleteRange, StepKind::Merge]
        );
    }

    /// Halves are tried first: a thousand steps of which two matter need some fifty tries.
    #[test]
    fn few_tries_are_enough_and_no_more_are_made() {
        let mut tried = 0;
        let small = shrink((0..1000).collect(), 100, |s| {
            tried += 1;
            s.contains(&17) && s.contains(&800)
        });
        assert!(small == [17, 800] && tried < 60, "{small:?} after {tried} tries");
        assert_eq!(shrink(vec![1, 2, 3], 0, |_| true), [1, 2, 3]);
        assert_eq!(shrink(vec![1, 2, 3], 10, |_| true), []);
    }
}
