//! Finds the range deletions that cover a key, across several sources. Caches the answer for the
//! neighbourhood of the last key.
//!
//! Invariant: `known` is correct for every key in `[from, until)`. A lookup in that range costs at
//! most two comparisons.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::range_del::deletions::Deletions;
use crate::range_del::tombstone::CoveredRange;
use crate::util::sort::sort_by_key;

use crate::iterator::run::TableRun;

/// Range deletions of one source.
#[derive(Clone)]
pub enum Cover {
    /// Range deletions of a memtable.
    Mem(Arc<Deletions>),
    /// Range deletions of the tables of a run, which are opened on lookup.
    Run(Arc<TableRun>),
}

debug_by!(Cover, "Cover");

impl Cover {
    fn range_around<'a>(&'a self, key: &'a [u8], read: Seq) -> Result<CoveredRange<'a>> {
        match self {
            Cover::Mem(d) => Ok(d.range_around(key, read)),
            Cover::Run(run) => run.covering(key, read),
        }
    }

    /// Returns an upper bound on the sequence numbers of its range deletions.
    fn newest(&self) -> Seq {
        match self {
            Cover::Mem(d) => d.newest(),
            Cover::Run(run) => run.newest_range_delete(),
        }
    }
}

/// Range deletions of several sources at one read point.
pub struct RangeShadow {
    /// Sources with upper bounds of their sequence numbers, ordered by these, largest first.
    sources: Vec<(Seq, Cover)>,
    read: Seq,
    from: Vec<u8>,
    until: Option<Vec<u8>>,
    known: Option<Seq>,
    asked: bool,
}

debug_by!(RangeShadow, "RangeShadow", read);

impl RangeShadow {
    /// Creates the set of deletions of `sources` that a reader at `read` sees.
    pub fn new(sources: Vec<Cover>, read: Seq) -> RangeShadow {
        let mut sources: Vec<_> = sources.into_iter().map(|s| (s.newest(), s)).collect();
        sort_by_key(&mut sources, |s| Reverse(s.0));
        RangeShadow { sources, read, from: vec![], until: None, known: None, asked: false }
    }

    /// Reports whether there are no sources with range deletions.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns the newest range deletion that covers `key`.
    ///
    /// # Errors
    /// Errors of opening a table.
    #[inline]
    pub fn covering(&mut self, key: &[u8]) -> Result<Option<Seq>> {
        if self.sources.is_empty() {
            return Ok(None);
        }
        let inside = self.asked
            && self.from.as_slice() <= key
            && self.until.as_deref().is_none_or(|u| key < u);
        if !inside {
            self.ask(key)?;
        }
        Ok(self.known)
    }

    /// Returns the start of the range for which the last answer holds.
    pub fn from(&self) -> &[u8] {
        &self.from
    }

    /// Returns the end of the range for which the last answer holds; `None` for no end.
    pub fn until(&self) -> Option<&[u8]> {
        self.until.as_deref()
    }

    /// Returns the range for which the last answer holds, if that was a deletion. Every deletion
    /// has an end.
    pub fn covered(&self) -> Option<(&[u8], &[u8])> {
        self.known?;
        Some((&self.from, self.until.as_deref()?))
    }

    fn ask(&mut self, key: &[u8]) -> Result<()> {
        let mut from: &[u8] = &[];
        let mut until: Option<&[u8]> = None;
        let mut known = None;
        for (newest, source) in &self.sources {
            // The remaining sources are older than the deletion found, so their bounds do not
            // matter.
            if known >= Some(*newest) {
                break;
            }
            let s = source.range_around(key, self.read)?;
            from = from.max(s.from);
            known = known.max(s.newest);
            until = match (until, s.until) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        self.known = known;
        self.asked = true;
        let (from, until) = (from.to_vec(), until.map(<[u8]>::to_vec));
        self.from = from;
        self.until = until;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range_del::tombstone::RangeTombstone;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn answers_as_a_plain_search_would(
            sources in prop::collection::vec(prop::collection::vec((0u8..20, 0u8..20, 1u64..9), 0..5), 0..4),
            keys in prop::collection::vec(0u8..22, 1..30),
            read in 0u64..10,
        ) {
            let cover = |ts: &Vec<(u8, u8, u64)>| {
                let ts: Vec<_> = ts.iter().map(|&(a, b, seq)| RangeTombstone { start: vec![a], end: vec![b], seq }).collect();
                Cover::Mem(Arc::new(ts.iter().collect()))
            };
            let mut shadow = RangeShadow::new(sources.iter().map(cover).collect(), read);
            for k in keys {
                let covers = |t: &&(u8, u8, u64)| t.0 <= k && k < t.1 && t.2 <= read;
                let want = sources.iter().flatten().filter(covers).map(|t| t.2).max();
                prop_assert_eq!(shadow.covering(&[k]).unwrap(), want);
                let around = shadow.covered().map(|(from, until)| from <= &[k] && until > &[k]);
                prop_assert_eq!(around, want.map(|_| true));
            }
        }
    }
}
