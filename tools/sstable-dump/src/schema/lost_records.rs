//! Rebuilds lost records of the tree `system.schema` that other records need, from surviving data.
//!
//! - The partitioner: each tree of a family has a hook that contains the length of its tokens. Keys
//!   contain the tokens of only one partitioner.
//! - Keyspaces: their content names them. Their replication settings are lost.
//! - Head records: the next number is above the numbers in all records and trees.
//!
//! Invariants: this module writes nothing, and guesses nothing without evidence.

use std::ops::Range;

use firn_cql::internals::catalog::{Catalog, RECORD_PREFIX as CQL_PREFIX};
use firn_kv::Db;
use firn_kv::internals::manifest::{ManifestState, PersistedOptions};
use firn_wide::Partitioner;
use firn_wide::internals::api::PARTITIONER;
use firn_wide::internals::key::Layout;
use firn_wide::internals::schema::{FOREIGN_IDS, RECORD_PREFIX, Schema};
use firn_wide::internals::store::{DroppedFamilies, TreeName};

use crate::dump::text;

/// Number of keys of a tree that are checked for their partitioner.
const SAMPLED_KEYS: usize = 1000;

/// Evidence about the records in the trees of a store.
pub struct TreeEvidence<'a> {
    /// Names of the trees, as far as known, and hooks.
    trees: Vec<(String, PersistedOptions)>,
    /// The store, if it is open: then keys are evidence too.
    db: Option<&'a Db>,
}

/// A lost record and its replacement.
#[derive(Clone, Debug)]
pub struct LostRecord {
    /// Key of the record.
    pub key: Vec<u8>,
    /// Replacement of its value.
    pub value: Vec<u8>,
    /// Description of the replacement and its evidence.
    words: &'static str,
}

/// Result of the reconstruction.
#[derive(Debug, Default)]
pub struct LostRecords {
    /// The lost records.
    pub lacking: Vec<LostRecord>,
    /// Facts that remain unknown.
    pub unknown: Vec<String>,
}

impl LostRecord {
    /// Returns the replacement as text.
    pub fn words(&self) -> String {
        format!("{} ({})", text::short(&self.value, 200), self.words)
    }

    /// Returns the name of the record.
    pub fn name(&self) -> String {
        text::key(&self.key)
    }
}

impl<'a> TreeEvidence<'a> {
    /// Creates evidence from trees of which only the hooks are known.
    pub fn of_hooks(hooks: impl IntoIterator<Item = PersistedOptions>) -> TreeEvidence<'a> {
        let trees = hooks.into_iter().map(|o| (String::new(), o)).collect();
        TreeEvidence { trees, db: None }
    }

    /// Creates evidence from the trees of a store, which may be open.
    pub fn of_store(state: &ManifestState, db: Option<&'a Db>) -> TreeEvidence<'a> {
        let trees = state.trees.values().map(|t| (t.name.clone(), t.options.clone())).collect();
        TreeEvidence { trees, db }
    }

    /// Returns the largest number of a family or index in this range. A tree without their hooks
    /// belongs to an application, whatever its name.
    fn largest(&self, of: Range<u32>) -> u32 {
        let has_hooks =
            |o: &PersistedOptions| o.compaction_filter.is_some() || o.merge_operator.is_some();
        let ours = self.trees.iter().filter(|(_, o)| has_hooks(o));
        let numbers = ours.filter_map(|(name, _)| match TreeName::parse(name)? {
            TreeName::Family(id) | TreeName::Index(id) => Some(id),
            TreeName::Schema => None,
        });
        numbers.filter(|id| of.contains(id)).max().unwrap_or(0)
    }

    /// Returns the partitioners that may have written all trees; `None` if no tree shows it.
    fn partitioners(&self) -> Option<Vec<Partitioner>> {
        let (mut possible, mut is_known) = (Partitioner::ALL.to_vec(), false);
        for (_, options) in &self.trees {
            let hook = options.filter_prefix.as_deref();
            if let Some(len) = hook.and_then(|name| name.strip_prefix("firn.partition.")) {
                is_known = true;
                possible.retain(|p| p.token_len().to_string() == len);
            }
        }
        for (name, _) in &self.trees {
            if possible.len() > 1 && matches!(TreeName::parse(name), Some(TreeName::Family(_))) {
                self.keys(name, &mut |key| {
                    is_known = true;
                    let fits = |p| row_key(&Layout::table(p, vec![]), key).is_some();
                    possible.retain(|p| fits(*p));
                });
            }
        }
        is_known.then_some(possible)
    }

    /// Calls `see` for the first keys of a tree, as far as they can be read without its hooks.
    /// Trees with counters may need their hooks.
    fn keys(&self, name: &str, see: &mut dyn FnMut(&[u8])) {
        let Some(Ok(tree)) = self.db.map(|db| db.existing_tree(name)) else { return };
        tree.iter().take(SAMPLED_KEYS).map_while(Result::ok).for_each(|(key, _)| see(&key));
    }
}

/// Returns the row or partition key at the beginning of an engine key, if its token is right too.
pub fn row_key(layout: &Layout, key: &[u8]) -> Option<Vec<u8>> {
    let (mut raw, mut again) = (vec![], vec![]);
    let partition = key.get(..layout.partition_len(key).ok()?)?;
    layout.key_of(partition, &mut raw).ok()?;
    layout.put_partition(&raw, &mut again).ok()?;
    (again == partition).then_some(raw)
}

/// Finds the records that these records of the tree of definitions lack.
pub fn find_lost_records(records: &[(Vec<u8>, Vec<u8>)], trees: &TreeEvidence<'_>) -> LostRecords {
    let mut rebuilt_records = LostRecords::default();
    let all = || records.iter().map(|(k, v)| (&**k, &**v));
    let of = |prefix: &'static [u8]| all().filter(move |(k, _)| k.starts_with(prefix));
    let mut gaps = Catalog::gaps(of(CQL_PREFIX), trees.largest(FOREIGN_IDS..u32::MAX));
    // Remains of a dropped keyspace do not restore it.
    let was_dropped = |name: &str| {
        let note = DroppedFamilies::Keyspace(name).note();
        all().any(|(key, _)| key == note)
    };
    gaps.keyspaces.retain(|name| !was_dropped(name));
    let lacking = Schema::lacking(of(RECORD_PREFIX), gaps.keyspaces, trees.largest(0..FOREIGN_IDS));
    for (key, value) in lacking.into_iter().chain(gaps.head) {
        let words = if key.starts_with(b"schema/keyspace/") {
            "as a new keyspace has it: how this one was replicated is lost, ALTER KEYSPACE sets it"
        } else {
            "above all numbers that are known"
        };
        rebuilt_records.lacking.push(LostRecord { key, value, words });
    }
    if all().all(|(key, _)| key != PARTITIONER) {
        let has_any = of(CQL_PREFIX).chain(of(RECORD_PREFIX)).next().is_some();
        rebuilt_records.find_partitioner(trees.partitioners(), has_any);
    }
    rebuilt_records
}

impl LostRecords {
    /// Adds the possible partitioner; `has_any` says whether there are definitions that need it.
    fn find_partitioner(&mut self, possible: Option<Vec<Partitioner>>, has_any: bool) {
        let open = |why: &str| {
            format!(
                "the partitioner of the store: its record is lost, and \
                 {why}; a program must name the original partitioner to open the store"
            )
        };
        let Some(possible) = possible else {
            self.unknown.extend(has_any.then(|| open("no key shows it")));
            return;
        };
        // Keys without tokens may look as if they had some, but not the reverse. So the
        // partitioners with tokens come first.
        let Some(&found) = possible.first() else {
            self.unknown.push(open("its trees contradict each other"));
            return;
        };
        if found == Partitioner::ByteOrdered && possible.contains(&Partitioner::OrderPreserving) {
            self.unknown.push(format!(
                "whether the partitioner was {found} or {}, of which the record is lost: all keys \
                 fit both of them; the former is assumed",
                Partitioner::OrderPreserving
            ));
        }
        self.lacking.push(LostRecord {
            key: PARTITIONER.to_vec(),
            value: found.full_name().into_bytes(),
            words: "by the trees, which were written with it",
        });
    }
}
