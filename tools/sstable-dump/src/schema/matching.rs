//! Identifies the table, column family or index of a tree whose name is lost, from the definitions
//! and from the content of the tree.
//!
//! A tree fits a definition only if it has the hooks of the definition. Also all sampled entries
//! must be readable in the types of the definition, tokens included. If several definitions fit,
//! other trees may exclude all but one. CQL tables are created one by one, so their numbers ascend
//! as those of their trees do; this order excludes more.
//!
//! Invariant: a tree gets a name only if no other one is possible. Open cases are reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::base::ops::{Op, TreeId};
use firn_kv::internals::manifest::PersistedOptions;
use firn_kv::internals::sstable::Table;
use firn_tools::output::Done;
use firn_wide::internals::api::PARTITIONER;
use firn_wide::internals::schema::FOREIGN_IDS;
use firn_wide::internals::store::{SCHEMA_TREE, TreeName};

use crate::history::recovered::RecoveredHistory;
use crate::salvage::table::options_by;
use crate::schema::definitions::{Definitions, TreeDefinition};
use crate::schema::lost_records::TreeEvidence;
use crate::schema::records;
use crate::store::log_copy;
use crate::store::names::FileNames;

/// Number of sampled entries per table.
const SAMPLED_ENTRIES: usize = 10_000;

/// Records by which the tree of definitions is recognised; one of them may be lost.
const SCHEMA_MARKERS: [&[u8]; 3] = [PARTITIONER, b"schema/head", b"cql/head"];

/// Content of a store's trees: tables, and the start of the log.
pub struct TableContent<'a> {
    /// The files of the directory, under their true names.
    pub names: &'a FileNames,
    /// Position at which the readable log begins.
    pub floor: u64,
    /// Tables by tree; a tree that is only in the log has none.
    pub trees: &'a BTreeMap<TreeId, Vec<Arc<Table>>>,
}

/// Result of the search.
#[derive(Default)]
pub struct MatchedTrees {
    /// Names of trees, with descriptions.
    pub names: Vec<(TreeId, String, String)>,
    /// Trees of indexes. Their index cannot be determined, but they can be rebuilt.
    pub indexes: Vec<TreeId>,
    /// Trees with several possible definitions, as text, and the hooks that all of these share.
    pub open: Vec<(TreeId, String, Option<PersistedOptions>)>,
}

/// Callback for an entry: the tree, the key, the value of a put or merge operand, and whether it is
/// an operand.
type EntryVisit<'a> = dyn FnMut(TreeId, &[u8], Option<&[u8]>, bool) + 'a;

impl TableContent<'_> {
    /// Calls `see` for every sampled entry.
    fn each(&self, see: &mut EntryVisit<'_>) -> Done {
        let mut show = |tree, key: &[u8], kind: Option<Kind>, value: &[u8]| match kind {
            Some(Kind::Put) => see(tree, key, Some(value), false),
            // Trees of families have a summary, and so no blobs.
            Some(Kind::Blob) => {}
            Some(Kind::Merge) => see(tree, key, Some(value), true),
            Some(Kind::Delete) | None => see(tree, key, None, false),
        };
        for (&tree, tables) in self.trees {
            for t in tables {
                let mut c = t.cursor(false);
                c.first()?;
                for _ in 0..SAMPLED_ENTRIES {
                    if !c.valid() {
                        break;
                    }
                    show(tree, c.key(), c.trailer().kind(), c.value());
                    c.next()?;
                }
            }
        }
        log_copy::each_op(self.names, self.floor, &mut |logged| {
            if let Op::Point { kind, key, value } = logged.op {
                show(logged.tree, key, Some(kind), value);
            }
        })?;
        Ok(())
    }

    /// Finds the tree of definitions: the tree without a name and without hooks that has the record
    /// of the partitioner, or another one of [`SCHEMA_MARKERS`].
    fn schema(&self, e: &RecoveredHistory) -> Done<Option<TreeId>> {
        if let Some((id, _)) = e.trees.iter().find(|(_, t)| t.name.as_deref() == Some(SCHEMA_TREE))
        {
            return Ok(Some(*id));
        }
        let mut found = None;
        for (&tree, tables) in self.trees {
            for t in tables {
                let mut c = t.cursor(false);
                for key in SCHEMA_MARKERS {
                    c.seek(key, Trailer::NEWEST)?;
                    found = found.or((c.valid() && c.key() == key).then_some(tree));
                }
            }
        }
        log_copy::each_op(self.names, self.floor, &mut |logged| {
            if matches!(logged.op, Op::Point { key, .. } if SCHEMA_MARKERS.contains(&key)) {
                found.get_or_insert(logged.tree);
            }
        })?;
        Ok(found.filter(|id| e.trees.get(id).is_none_or(|t| t.name.is_none())))
    }

    /// Reports whether the tables of a tree have the hooks of a definition.
    fn has_hooks(&self, tree: TreeId, defined: &TreeDefinition) -> bool {
        let tables = self.trees.get(&tree).map_or(&[][..], Vec::as_slice);
        tables.iter().all(|t| options_by(t.properties()).check_hooks("", &defined.hooks()).is_ok())
    }
}

/// Finds names for the trees without a name in `e`.
///
/// # Errors
/// I/O errors; damage of the log is no error.
pub fn find(content: &TableContent<'_>, e: &RecoveredHistory) -> Done<MatchedTrees> {
    let mut m = MatchedTrees::default();
    let Some(schema) = content.schema(e)? else { return Ok(m) };
    if e.trees.get(&schema).is_none_or(|t| t.name.is_none()) {
        m.names.push((schema, SCHEMA_TREE.into(), "it has the definitions".into()));
    }
    let known = |id: &TreeId| e.trees.get(id).and_then(|t| t.name.as_deref());
    let unnamed: Vec<TreeId> =
        content.trees.keys().copied().filter(|id| *id != schema && known(id).is_none()).collect();
    // If the event log has all names, neither tables nor the log are read.
    if unnamed.is_empty() {
        return Ok(m);
    }
    let tables = content.trees.get(&schema).map_or(&[][..], Vec::as_slice);
    let records = records::newest(tables, schema, content.names, content.floor);
    let hooks = content.trees.values().flatten().map(|t| options_by(t.properties()));
    let definitions = Definitions::read(records, &TreeEvidence::of_hooks(hooks));
    let all: Vec<(TreeName, &TreeDefinition)> =
        definitions.iter().filter_map(|(n, d)| Some((TreeName::parse(n)?, d))).collect();
    let fits = |id| all.iter().filter(|(_, d)| content.has_hooks(id, d)).copied().collect();
    let mut fitting: BTreeMap<TreeId, Vec<(TreeName, &TreeDefinition)>> =
        unnamed.into_iter().map(|id| (id, fits(id))).collect();
    content.each(&mut |tree, key, value, merge| {
        if let Some(its) = fitting.get_mut(&tree) {
            its.retain(|(_, d)| d.fits(key, value, merge));
        }
    })?;
    let number = |name: &TreeName| if let TreeName::Family(id) = name { Some(*id) } else { None };
    // Trees with a known name have one possible number. Others may have any number that is not
    // taken.
    let mut possible: BTreeMap<TreeId, Vec<u32>> = BTreeMap::new();
    for id in content.trees.keys() {
        possible.extend(
            known(id).and_then(TreeName::parse).and_then(|n| number(&n)).map(|n| (*id, vec![n])),
        );
    }
    let taken: Vec<u32> = possible.values().flatten().copied().collect();
    for (id, its) in &fitting {
        let mut numbers: Vec<u32> =
            its.iter().filter_map(|(n, _)| number(n)).filter(|n| !taken.contains(n)).collect();
        numbers.sort_unstable();
        match numbers.is_empty() {
            false => drop(possible.insert(*id, numbers)),
            true if its.iter().any(|(n, _)| matches!(n, TreeName::Index(_))) => m.indexes.push(*id),
            true => {}
        }
    }
    let words = |n: u32| {
        definitions
            .of_tree(&TreeName::Family(n).to_string())
            .map_or_else(String::new, TreeDefinition::words)
    };
    let hooks = |n: u32| {
        definitions
            .of_tree(&TreeName::Family(n).to_string())
            .map(|d| PersistedOptions::of(&d.hooks()))
    };
    let decided = decide(possible.clone());
    for (id, numbers) in possible.iter().filter(|(id, _)| fitting.contains_key(id)) {
        match decided.get(id) {
            Some(&n) => m.names.push((*id, TreeName::Family(n).to_string(), words(n))),
            None => {
                let all: Vec<_> = numbers.iter().map(|&n| hooks(n)).collect();
                let one =
                    all.first().filter(|first| all.iter().all(|h| h == *first)).cloned().flatten();
                m.open.push((
                    *id,
                    numbers.iter().map(|&n| words(n)).collect::<Vec<_>>().join(" or "),
                    one,
                ));
            }
        }
    }
    Ok(m)
}

/// Returns the trees with only one possible number. `possible` has each tree's numbers in ascending
/// order.
fn decide(mut possible: BTreeMap<TreeId, Vec<u32>>) -> BTreeMap<TreeId, u32> {
    let mut decided: BTreeMap<TreeId, u32> = BTreeMap::new();
    loop {
        let alone = possible.iter().filter(|(id, all)| all.len() == 1 && !decided.contains_key(id));
        let alone: Vec<(TreeId, u32)> = alone.map(|(id, all)| (*id, all[0])).collect();
        // If two trees have the same only possibility, neither is decided.
        let is_one = |n: u32| possible.values().filter(|all| **all == [n]).count() == 1;
        let mut new: BTreeMap<TreeId, u32> =
            alone.into_iter().filter(|(_, n)| is_one(*n)).collect();
        if new.is_empty() {
            new = by_order(&possible);
            new.retain(|id, _| !decided.contains_key(id));
        }
        if new.is_empty() {
            return decided;
        }
        for (id, n) in new {
            possible
                .iter_mut()
                .filter(|(other, _)| **other != id)
                .for_each(|(_, all)| all.retain(|m| *m != n));
            possible.insert(id, vec![n]);
            decided.insert(id, n);
        }
    }
}

/// Returns the CQL tables with one possible number if all numbers ascend as the trees do.
fn by_order(possible: &BTreeMap<TreeId, Vec<u32>>) -> BTreeMap<TreeId, u32> {
    let is_table = |all: &&Vec<u32>| !all.is_empty() && all.iter().all(|n| *n >= FOREIGN_IDS);
    let trees: Vec<(TreeId, &[u32])> =
        possible.iter().filter(|(_, all)| is_table(all)).map(|(id, all)| (*id, &all[..])).collect();
    let mut above = None;
    let least: Option<Vec<u32>> = trees
        .iter()
        .map(|(_, all)| {
            above = Some(*all.iter().find(|n| above.is_none_or(|a| **n > a))?);
            above
        })
        .collect();
    let mut below = None;
    let most: Option<Vec<u32>> = trees
        .iter()
        .rev()
        .map(|(_, all)| {
            below = Some(*all.iter().rfind(|n| below.is_none_or(|b| **n < b))?);
            below
        })
        .collect();
    // If no such order exists, an assumption is wrong.
    let (Some(least), Some(most)) = (least, most) else { return BTreeMap::new() };
    let both = trees.iter().zip(least.iter().zip(most.iter().rev()));
    both.filter(|(_, (a, z))| a == z).map(|((id, _), (n, _))| (*id, *n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(possible: &[(TreeId, &[u32])]) -> Vec<(TreeId, u32)> {
        decide(possible.iter().map(|(id, all)| (*id, all.to_vec())).collect()).into_iter().collect()
    }

    #[test]
    fn two_trees_never_have_the_same_definition() {
        assert_eq!(decided(&[(2, &[5]), (3, &[6]), (4, &[5, 7])]), [(2, 5), (3, 6), (4, 7)]);
        // Families have no order.
        assert_eq!(decided(&[(2, &[5, 6]), (3, &[5, 6])]), []);
        assert_eq!(decided(&[(2, &[6]), (3, &[5])]), [(2, 6), (3, 5)]);
        assert_eq!(decided(&[(2, &[5]), (3, &[5]), (4, &[6])]), [(4, 6)]);
    }

    #[test]
    fn the_order_of_tables_decides_where_it_leaves_one_possibility() {
        let [a, b, c] = [FOREIGN_IDS, FOREIGN_IDS + 1, FOREIGN_IDS + 2];
        // As many trees as numbers.
        assert_eq!(
            decided(&[(2, &[a, b, c]), (4, &[a, b, c]), (9, &[a, b, c])]),
            [(2, a), (4, b), (9, c)]
        );
        // One tree less: it is unknown which table is empty.
        assert_eq!(decided(&[(2, &[a, b, c]), (4, &[a, b, c])]), []);
        // A known one splits the others.
        assert_eq!(decided(&[(2, &[a, c]), (4, &[b]), (9, &[a, c])]), [(2, a), (4, b), (9, c)]);
        // A tree that may also be a family stays open.
        assert_eq!(decided(&[(2, &[a]), (5, &[4, b])]), [(2, a)]);
    }
}
