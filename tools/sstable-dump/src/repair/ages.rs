//! Decides from the entries of a tree's tables which were live and which are newer, without a
//! manifest.
//!
//! In a sound tree each entry (key and sequence number) is in one live table. Two tables that share
//! entries are therefore an input and an output of one compaction, and one of them is obsolete. For
//! the remaining tables, the order of versions of the same keys gives the order of runs.
//!
//! Invariant: newer runs have newer versions of each key, as far as sequence numbers show it.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use firn_kv::internals::sstable::Table;
use firn_tools::output::Done;

use crate::store::merging;

/// Relations between tables, derived from their entries. Tables are named by their index in the
/// list.
pub struct TableOrder {
    /// Pairs that share entries, the lower file number first, with the number of shared entries.
    shared: BTreeMap<(usize, usize), u64>,
    /// Pairs whose first table has newer versions than the second.
    newer: BTreeSet<(usize, usize)>,
}

/// Reads all entries of all tables and compares the tables.
///
/// # Errors
/// Damage, with its position.
pub fn compare(tables: &[Arc<Table>]) -> Done<TableOrder> {
    let mut a = TableOrder { shared: BTreeMap::new(), newer: BTreeSet::new() };
    let deleting: Vec<usize> =
        (0..tables.len()).filter(|&i| !tables[i].tombstones().is_empty()).collect();
    let mut last: (Vec<u8>, u64, usize) = (vec![], 0, usize::MAX);
    merging::each(tables, &mut |key, t, i| {
        let (seq, same) = (t.seq(), last.2 != usize::MAX && last.0 == key);
        if same && last.2 != i {
            if last.1 == seq {
                let id = |i: usize| tables[i].id();
                let pair = if id(last.2) < id(i) { (last.2, i) } else { (i, last.2) };
                *a.shared.entry(pair).or_default() += 1;
            } else {
                a.newer.insert((last.2, i));
            }
        }
        for &d in deleting.iter().filter(|&&d| d != i) {
            let fragments = tables[d].tombstones().as_slice();
            let at = fragments.partition_point(|f| f.end.as_slice() <= key);
            let Some(f) = fragments.get(at).filter(|f| f.start.as_slice() <= key) else { continue };
            if f.seqs.first().is_some_and(|&s| s > seq) {
                a.newer.insert((d, i));
            }
            if f.seqs.last().is_some_and(|&s| s < seq) {
                a.newer.insert((i, d));
            }
        }
        if !same {
            last.0.clear();
            last.0.extend_from_slice(key);
        }
        (last.1, last.2) = (seq, i);
        Ok(())
    })?;
    Ok(a)
}

fn first(t: &Table) -> &[u8] {
    &t.properties().first_key
}

fn last(t: &Table) -> &[u8] {
    &t.properties().last_key
}

fn overlap(a: &Table, b: &Table) -> bool {
    first(a) <= last(b) && first(b) <= last(a)
}

/// A table that must be obsolete, and the reason.
pub struct ObsoleteTable {
    /// Index of the table in the list.
    pub table: usize,
    /// Tables that contain its entries.
    pub instead: Vec<usize>,
    /// Whether `instead` are the inputs of the compaction that made this table. The compaction was
    /// interrupted, because its outputs do not cover all inputs.
    pub unfinished: bool,
}

impl TableOrder {
    /// Reports whether the table at this index shares entries with another.
    pub fn shares(&self, table: usize) -> bool {
        self.shared.keys().any(|&(a, b)| a == table || b == table)
    }

    /// Decides which of the tables that share entries are obsolete. The outputs of a compaction win
    /// over its inputs if they span all keys of the inputs. The compaction had then finished, even
    /// if its inputs were not removed. Otherwise it was interrupted, and the inputs count.
    pub fn obsolete(&self, tables: &[Arc<Table>]) -> Vec<ObsoleteTable> {
        let mut out: Vec<ObsoleteTable> = vec![];
        let mut obsolete: BTreeSet<usize> = BTreeSet::new();
        loop {
            let pairs: Vec<(usize, usize)> = self
                .shared
                .keys()
                .copied()
                .filter(|(a, b)| !obsolete.contains(a) && !obsolete.contains(b))
                .collect();
            // Take outputs from which no newer table was made, newest first.
            let Some(newest) = pairs.iter().map(|p| p.1).max_by_key(|&i| tables[i].id()) else {
                return out;
            };
            let inputs: BTreeSet<usize> =
                pairs.iter().filter(|p| p.1 == newest).map(|p| p.0).collect();
            let outputs: BTreeSet<usize> = pairs
                .iter()
                .filter(|p| inputs.contains(&p.0) && !inputs.contains(&p.1))
                .map(|p| p.1)
                .collect();
            let span = |set: &BTreeSet<usize>| {
                let low = set.iter().map(|&i| first(&tables[i])).min();
                (low, set.iter().map(|&i| last(&tables[i])).max())
            };
            let ((a, z), (x, y)) = (span(&outputs), span(&inputs));
            let finished = a <= x && z >= y;
            let (dead, instead) = if finished { (&inputs, &outputs) } else { (&outputs, &inputs) };
            for &table in dead {
                obsolete.insert(table);
                out.push(ObsoleteTable {
                    table,
                    instead: instead.iter().copied().collect(),
                    unfinished: !finished,
                });
            }
        }
    }

    /// Orders the tables in `alive` into runs, oldest first. Overlapping tables are in different
    /// runs, newer ones in later runs. Also reports whether the entries contradict each other,
    /// which makes the order a guess.
    pub fn runs(&self, tables: &[Arc<Table>], alive: &BTreeSet<usize>) -> (Vec<Vec<usize>>, bool) {
        let edges: Vec<(usize, usize)> = self
            .newer
            .iter()
            .copied()
            .filter(|(a, b)| alive.contains(a) && alive.contains(b))
            .collect();
        let mut newer_than: BTreeMap<usize, usize> = alive.iter().map(|&i| (i, 0)).collect();
        let mut older: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &(a, b) in &edges {
            *newer_than.entry(b).or_default() += 1;
            older.entry(a).or_default().push(b);
        }
        let rank = |i: usize| (tables[i].properties().max_seq, tables[i].id(), i);
        let mut ready: BinaryHeap<_> =
            newer_than.iter().filter(|(_, n)| **n == 0).map(|(&i, _)| rank(i)).collect();
        let mut rest = alive.clone();
        let (mut newest_first, mut guessed) = (vec![], false);
        while !rest.is_empty() {
            let next = match ready.pop() {
                Some((_, _, i)) => i,
                None => {
                    guessed = true;
                    match rest.iter().copied().max_by_key(|&i| rank(i)) {
                        Some(i) => i,
                        None => break,
                    }
                }
            };
            if !rest.remove(&next) {
                continue;
            }
            newest_first.push(next);
            for &b in older.get(&next).into_iter().flatten() {
                if let Some(n) = newer_than.get_mut(&b) {
                    *n -= 1;
                    if *n == 0 && rest.contains(&b) {
                        ready.push(rank(b));
                    }
                }
            }
        }
        let mut runs: Vec<Vec<usize>> = vec![];
        for &i in newest_first.iter().rev() {
            let above = runs
                .iter()
                .rposition(|r| r.iter().any(|&j| overlap(&tables[i], &tables[j])))
                .map_or(0, |d| d + 1);
            if above == runs.len() {
                runs.push(vec![]);
            }
            runs[above].push(i);
        }
        runs.iter_mut().for_each(|r| r.sort_by(|&i, &j| first(&tables[i]).cmp(first(&tables[j]))));
        (runs, guessed)
    }
}
