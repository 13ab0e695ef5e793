//! The operations of a phase, by their numbers.
//!
//! Operation `i` depends on the seed, the mix and `i` only. So the threads of a bench and the
//! simulator of compactions calculate the same operations, each only its own.

use crate::dist::{Chooser, Distribution, queue_item, queue_length};
use crate::outcome::OpKind;
use crate::phase::OperationMix;
use crate::rng::{Draws, Random, mix};

/// An operation.
#[derive(Clone, Debug)]
pub struct StreamOperation {
    /// Its type.
    pub kind: OpKind,
    /// The number of its key; see [`key_number`].
    pub item: u64,
    /// Further random numbers, for the size of its value or the length of its scan.
    pub draws: Draws,
}

/// Parts of an operation in 2^32.
const PARTS: f64 = (1u64 << 32) as f64;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct OperationStream {
    seed: u64,
    chooser: Chooser,
    queue: Option<u64>,
    /// The types other than inserts, with the sum of their shares and of those before.
    kinds: Vec<(OpKind, f64)>,
    /// Share of inserts, in parts of 2^32.
    inserts: u64,
}

/// Returns the number in a key of this item: the item, or its hash.
#[inline]
pub fn key_number(item: u64, hashed: bool) -> u64 {
    if hashed { mix(item) } else { item }
}

/// Returns the seed of a phase: by its name, the seed of the workload, and the number of earlier
/// phases that wrote. A phase that only reads has the number 0, so it reads the same keys each time.
pub fn phase_seed(seed: u64, name: &str, earlier: u64) -> u64 {
    let name = name.bytes().fold(1, |hash, byte| mix(hash ^ u64::from(byte)));
    mix(seed).wrapping_add(mix(name.wrapping_add(earlier)))
}

impl OperationStream {
    /// Creates the operations of a mix over initially `items` (at least 1) items. `distribution`
    /// replaces that of a mix that chooses keys by chance. Equal seeds give equal operations.
    pub fn new(
        mix: &OperationMix,
        distribution: Option<Distribution>,
        items: u64,
        seed: u64,
    ) -> Self {
        let own = mix.distribution;
        let distribution = distribution.filter(|_| own.is_random()).unwrap_or(own);
        let others =
            mix.shares().into_iter().filter(|(k, share)| *k != OpKind::Insert && *share > 0.0);
        let mut kinds: Vec<(OpKind, f64)> = others.collect();
        let sum: f64 = kinds.iter().map(|(_, share)| share).sum();
        let mut before = 0.0;
        for (_, share) in &mut kinds {
            before += *share / sum;
            *share = before;
        }
        OperationStream {
            seed,
            chooser: Chooser::new(&distribution, items, seed),
            queue: match distribution {
                Distribution::Queue { share } => Some(queue_length(items, share)),
                _ => None,
            },
            kinds,
            inserts: (mix.share_of(&[OpKind::Insert]) * PARTS) as u64,
        }
    }

    /// Reports whether some operations are inserts.
    pub fn has_inserts(&self) -> bool {
        self.inserts > 0
    }

    /// Returns the number of inserts before operation `i`.
    #[inline]
    pub fn inserts_before(&self, i: u64) -> u64 {
        ((u128::from(i) * u128::from(self.inserts)) >> 32) as u64
    }

    /// Returns operation `i`, which chooses among the first `items` items. An insert has the first
    /// item behind them.
    #[inline]
    pub fn at(&mut self, i: u64, items: u64) -> StreamOperation {
        let mut draws = Draws::new(self.seed, i);
        if self.inserts > 0 && self.inserts_before(i) < self.inserts_before(i.wrapping_add(1)) {
            return StreamOperation { kind: OpKind::Insert, item: items, draws };
        }
        let kind = match self.kinds[..] {
            [(only, _)] => only,
            _ => {
                let at = draws.unit();
                let next = self.kinds.iter().find(|(_, to)| at < *to).or(self.kinds.last());
                next.map_or(OpKind::Read, |(kind, _)| *kind)
            }
        };
        let item = self.chooser.at(i, &mut draws, items.max(1));
        let is_delete = self.queue.is_some_and(|length| queue_item(i, length).1);
        StreamOperation { kind: if is_delete { OpKind::Delete } else { kind }, item, draws }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::standard;

    #[test]
    fn operations_have_their_shares_and_do_not_depend_on_the_order_of_questions() {
        for (name, m) in standard().iter().filter(|(_, m)| m.full_scan.is_none()) {
            let seed = phase_seed(1, name, 0);
            let mut stream = OperationStream::new(m, None, 1000, seed);
            let forward: Vec<(OpKind, u64)> = (0..20_000)
                .map(|i| {
                    let op = stream.at(i, 1000 + stream.inserts_before(i));
                    (op.kind, op.item)
                })
                .collect();
            let mut again = OperationStream::new(m, None, 1000, seed);
            // With inserts the number of items grows, and cannot shrink again.
            for i in (0..20_000).rev().step_by(7).filter(|_| !stream.has_inserts()) {
                let op = again.at(i, 1000 + again.inserts_before(i));
                assert_eq!((op.kind, op.item), forward[i as usize], "{name}: {i}");
            }
            let sum: f64 = m.shares().iter().map(|(_, share)| share).sum();
            for (kind, share) in m.shares() {
                let seen = forward.iter().filter(|(k, _)| *k == kind).count() as f64 / 2e4;
                assert!((seen - share / sum).abs() < 0.01, "{name}: {kind:?} {seen}");
            }
            let inserted: Vec<u64> =
                forward.iter().filter(|(k, _)| *k == OpKind::Insert).map(|(_, i)| *i).collect();
            assert!(inserted.into_iter().eq(1000..1000 + stream.inserts_before(20_000)), "{name}");
        }
    }

    #[test]
    fn a_queue_deletes_its_oldest() {
        let m = OperationMix {
            distribution: Distribution::Queue { share: 0.01 },
            puts: 1.0,
            ..OperationMix::default()
        };
        let mut stream = OperationStream::new(&m, None, 1000, 1);
        let mut live = std::collections::BTreeSet::new();
        for i in 0..1000 {
            let op = stream.at(i, 1000);
            let done = match op.kind {
                OpKind::Delete => live.pop_first() == Some(op.item),
                _ => live.insert(op.item),
            };
            assert!(done, "{i}: {op:?}");
        }
        assert!((9..=11).contains(&live.len()));
    }
}
