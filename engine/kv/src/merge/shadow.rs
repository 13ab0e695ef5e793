//! Which range deletions cover a key: the answers of several sources, remembered for the neighbourhood of the last key asked.
//!
//! Invariant: `known` is right for every key in `[from, until)`; asking about a key in it costs two comparisons at most.

use std::sync::Arc;

use crate::base::key::Seq;
use crate::base::tombstone::Fragments;

/// The range deletions of several sources as seen at one read point.
pub struct Shadow {
    sources: Vec<Arc<Fragments>>,
    read: Seq,
    from: Vec<u8>,
    until: Option<Vec<u8>>,
    known: Option<Seq>,
    asked: bool,
}

impl Shadow {
    /// The deletions of `sources` that a reader at `read` sees.
    pub fn new(sources: Vec<Arc<Fragments>>, read: Seq) -> Shadow {
        Shadow { sources, read, from: vec![], until: None, known: None, asked: false }
    }

    /// Whether nothing is deleted by range at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// The newest deletion that covers `key`.
    #[inline]
    pub fn covering(&mut self, key: &[u8]) -> Option<Seq> {
        if self.sources.is_empty() {
            return None;
        }
        let inside = self.asked && self.from.as_slice() <= key && self.until.as_deref().is_none_or(|u| key < u);
        if !inside {
            self.ask(key);
        }
        self.known
    }

    /// The start of the stretch for which the last answer holds.
    pub fn from(&self) -> &[u8] {
        &self.from
    }

    /// The end of the stretch for which the last answer holds; `None` when it holds to the end of all keys.
    pub fn until(&self) -> Option<&[u8]> {
        self.until.as_deref()
    }

    fn ask(&mut self, key: &[u8]) {
        let mut from: &[u8] = &[];
        let mut until: Option<&[u8]> = None;
        let mut known = None;
        for f in &self.sources {
            let f = f.as_slice();
            let i = f.partition_point(|f| f.end.as_slice() <= key);
            if let Some(before) = i.checked_sub(1) {
                from = from.max(&f[before].end);
            }
            let Some(f) = f.get(i) else { continue };
            let end = if f.start.as_slice() <= key {
                from = from.max(&f.start);
                known = known.max(f.newest_at(self.read));
                &f.end
            } else {
                &f.start
            };
            until = Some(until.map_or(end.as_slice(), |u| u.min(end)));
        }
        self.known = known;
        self.asked = true;
        let (from, until) = (from.to_vec(), until.map(<[u8]>::to_vec));
        self.from = from;
        self.until = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::tombstone::RangeTombstone;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn answers_as_a_plain_search_would(
            sources in prop::collection::vec(prop::collection::vec((0u8..20, 0u8..20, 1u64..9), 0..5), 0..4),
            keys in prop::collection::vec(0u8..22, 1..30),
            read in 0u64..10,
        ) {
            let build = |ts: &Vec<(u8, u8, u64)>| Arc::new(Fragments::build(
                ts.iter().map(|&(a, b, seq)| RangeTombstone { start: vec![a], end: vec![b], seq }).collect()));
            let sources: Vec<_> = sources.iter().map(build).collect();
            let mut shadow = Shadow::new(sources.clone(), read);
            for k in keys {
                let want = sources.iter().filter_map(|f| f.newest_covering(&[k], read)).max();
                prop_assert_eq!(shadow.covering(&[k]), want);
            }
        }
    }
}
