//! Compares the merge of lists with one sorted list.

use proptest::prelude::*;

use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::key::{Kind, Trailer, compare};
use crate::iterator::merging::Merging;

type ListedEntry = (Vec<u8>, Trailer);

/// A cursor over a sorted list.
struct ListCursor {
    all: Vec<ListedEntry>,
    at: Option<usize>,
}

impl ListCursor {
    fn lower_bound(&self, key: &[u8], at: Trailer) -> usize {
        self.all.partition_point(|(k, t)| compare(k, *t, key, at).is_lt())
    }

    fn stand(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|&i| i < self.all.len());
        Ok(())
    }
}

impl Cursor for ListCursor {
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn key(&self) -> &[u8] {
        &self.all[self.at.unwrap()].0
    }
    fn trailer(&self) -> Trailer {
        self.all[self.at.unwrap()].1
    }
    fn value(&self) -> &[u8] {
        &[]
    }
    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()> {
        self.stand(Some(self.lower_bound(key, at)))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.stand(self.lower_bound(key, Trailer::NEWEST).checked_sub(1))
    }
    fn first(&mut self) -> Result<()> {
        self.stand(Some(0))
    }
    fn last(&mut self) -> Result<()> {
        self.stand(self.all.len().checked_sub(1))
    }
    fn next(&mut self) -> Result<()> {
        self.stand(self.at.map(|i| i + 1))
    }
    fn prev(&mut self) -> Result<()> {
        self.stand(self.at.and_then(|i| i.checked_sub(1)))
    }
}

#[derive(Clone, Debug)]
enum MergeMove {
    Next,
    Prev,
    First,
    Last,
    Seek(Vec<u8>, u64),
    SeekBefore(Vec<u8>),
}

/// Generates short keys, keys with equal heads, and few values of each, so that versions of a key
/// are in several sources.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let short = prop::collection::vec(0u8..3, 0..4);
    (any::<bool>(), short).prop_map(|(long, tail)| {
        let beginning: &[u8] = if long { b"shared heads " } else { b"" };
        [beginning, &tail].concat()
    })
}

fn moves() -> impl Strategy<Value = Vec<MergeMove>> {
    let one = prop_oneof![
        8 => Just(MergeMove::Next),
        6 => Just(MergeMove::Prev),
        1 => Just(MergeMove::First),
        1 => Just(MergeMove::Last),
        2 => (key(), 0u64..60).prop_map(|(k, seq)| MergeMove::Seek(k, seq)),
        2 => key().prop_map(MergeMove::SeekBefore),
    ];
    prop::collection::vec(one, 1..120)
}

/// Applies the same move to any cursor.
fn go(c: &mut impl Cursor, to: &MergeMove) {
    match to {
        MergeMove::Next => c.next(),
        MergeMove::Prev => c.prev(),
        MergeMove::First => c.first(),
        MergeMove::Last => c.last(),
        MergeMove::Seek(key, seq) => c.seek(key, Trailer::at(*seq)),
        MergeMove::SeekBefore(key) => c.seek_before(key),
    }
    .unwrap();
}

proptest! {
    #[test]
    fn a_merge_is_the_sorted_list_of_all(
        entries in prop::collection::vec((key(), 0usize..12), 0..60),
        moves in moves(),
    ) {
        let mut sources = vec![vec![]; 12];
        let mut all = vec![];
        for (seq, (key, source)) in (1..).zip(entries) {
            let entry = (key, Trailer::new(seq, Kind::Put));
            sources[source].push(entry.clone());
            all.push(entry);
        }
        let sorted = |mut all: Vec<ListedEntry>| {
            all.sort_by(|(a, at), (b, bt)| compare(a, *at, b, *bt));
            ListCursor { all, at: None }
        };
        let mut one = sorted(all);
        let mut many = Merging::new(sources.into_iter().map(sorted).collect());
        for m in &moves {
            go(&mut one, m);
            go(&mut many, m);
            prop_assert_eq!(many.valid(), one.valid(), "{:?}", m);
            if one.valid() {
                let found = (many.key(), many.trailer(), many.head());
                prop_assert_eq!(found, (one.key(), one.trailer(), one.head()), "{:?}", m);
            }
        }
    }
}
