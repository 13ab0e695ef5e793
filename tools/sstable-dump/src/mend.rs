//! Records of the tree `system.schema` without which others can't be used, where they are lost:
//! what can be put in their place, by what survives.
//!
//! - The partitioner: each tree of a family has a hook that says how long its tokens are, and keys
//!   have the tokens of one partitioner only.
//! - Keyspaces: what is in them names them. How they were replicated is lost.
//! - Heads: the next number is above all that records and trees have.
//!
//! Invariants: nothing is written here; what nothing tells of is not guessed.

use std::ops::Range;

use firn_cql::internals::catalog::{Catalog, RECORD_PREFIX as CQL_PREFIX};
use firn_kv::Db;
use firn_kv::internals::manifest::{ManifestState, PersistedOptions};
use firn_wide::Partitioner;
use firn_wide::internals::api::PARTITIONER;
use firn_wide::internals::key::Layout;
use firn_wide::internals::schema::{FOREIGN_IDS, RECORD_PREFIX, Schema};
use firn_wide::internals::store::{DroppedFamilies, TreeName};

use crate::text;

/// So many keys of a tree are asked for their partitioner.
const ASKED: usize = 1000;

/// What the trees of a store tell of its records.
pub struct TreeWitnesses<'a> {
    /// Their names, as far as they are known, and hooks.
    trees: Vec<(String, PersistedOptions)>,
    /// The store, where it is open: then keys tell too.
    db: Option<&'a Db>,
}

/// A record that is lost, and what can be put in its place.
#[derive(Clone, Debug)]
pub struct LackingRecord {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// What that is, and by what it is known.
    words: &'static str,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct MendedRecords {
    /// The lost records.
    pub lacking: Vec<LackingRecord>,
    /// What stays open.
    pub unknown: Vec<String>,
}

impl LackingRecord {
    /// What is in the record's place, in words.
    pub fn words(&self) -> String {
        format!("{} ({})", text::short(&self.value, 200), self.words)
    }

    /// The record's name.
    pub fn name(&self) -> String {
        text::key(&self.key)
    }
}

impl<'a> TreeWitnesses<'a> {
    /// Trees of which only the hooks are known.
    pub fn of_hooks(hooks: impl IntoIterator<Item = PersistedOptions>) -> TreeWitnesses<'a> {
        let trees = hooks.into_iter().map(|o| (String::new(), o)).collect();
        TreeWitnesses { trees, db: None }
    }

    /// The trees of a store, which may be open.
    pub fn of_store(state: &ManifestState, db: Option<&'a Db>) -> TreeWitnesses<'a> {
        let trees = state.trees.values().map(|t| (t.name.clone(), t.options.clone())).collect();
        TreeWitnesses { trees, db }
    }

    /// The largest number of a family or index, of these. A tree without their hooks is an
    /// application's, whatever its name.
    fn largest(&self, of: Range<u32>) -> u32 {
        let has_hooks = |o: &PersistedOptions| o.purge.is_some() || o.merge.is_some();
        let ours = self.trees.iter().filter(|(_, o)| has_hooks(o));
        let numbers = ours.filter_map(|(name, _)| match TreeName::parse(name)? {
            TreeName::Family(id) | TreeName::Index(id) => Some(id),
            TreeName::Schema => None,
        });
        numbers.filter(|id| of.contains(id)).max().unwrap_or(0)
    }

    /// The partitioners that all trees may have been written with; `None` where no tree tells.
    fn partitioners(&self) -> Option<Vec<Partitioner>> {
        let (mut possible, mut told) = (Partitioner::ALL.to_vec(), false);
        for (_, options) in &self.trees {
            let hook = options.filter_prefix.as_deref();
            if let Some(len) = hook.and_then(|name| name.strip_prefix("firn.partition.")) {
                told = true;
                possible.retain(|p| p.token_len().to_string() == len);
            }
        }
        for (name, _) in &self.trees {
            if possible.len() > 1 && matches!(TreeName::parse(name), Some(TreeName::Family(_))) {
                self.keys(name, &mut |key| {
                    told = true;
                    let fits = |p| row_key(&Layout::table(p, vec![]), key).is_some();
                    possible.retain(|p| fits(*p));
                });
            }
        }
        told.then_some(possible)
    }

    /// Shows the first keys of a tree, as far as they can be read without its hooks: those of
    /// counters may not.
    fn keys(&self, name: &str, see: &mut dyn FnMut(&[u8])) {
        let Some(Ok(tree)) = self.db.map(|db| db.existing_tree(name)) else { return };
        tree.iter().take(ASKED).map_while(Result::ok).for_each(|(key, _)| see(&key));
    }
}

/// The row's or partition's key at the beginning of a key of the engine, when its token is right
/// too.
pub fn row_key(layout: &Layout, key: &[u8]) -> Option<Vec<u8>> {
    let (mut raw, mut again) = (vec![], vec![]);
    let partition = key.get(..layout.partition_len(key).ok()?)?;
    layout.key_of(partition, &mut raw).ok()?;
    layout.put_partition(&raw, &mut again).ok()?;
    (again == partition).then_some(raw)
}

/// Finds what these records of the tree of definitions lack.
pub fn mend(records: &[(Vec<u8>, Vec<u8>)], trees: &TreeWitnesses<'_>) -> MendedRecords {
    let mut mended = MendedRecords::default();
    let all = || records.iter().map(|(k, v)| (&**k, &**v));
    let of = |prefix: &'static [u8]| all().filter(move |(k, _)| k.starts_with(prefix));
    let mut gaps = Catalog::gaps(of(CQL_PREFIX), trees.largest(FOREIGN_IDS..u32::MAX));
    // What is left of a keyspace that was dropped brings none back.
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
        mended.lacking.push(LackingRecord { key, value, words });
    }
    if all().all(|(key, _)| key != PARTITIONER) {
        let has_any = of(CQL_PREFIX).chain(of(RECORD_PREFIX)).next().is_some();
        mended.find_partitioner(trees.partitioners(), has_any);
    }
    mended
}

impl MendedRecords {
    /// Takes the partitioner that is possible; `has_any` says whether there are definitions that
    /// need it.
    fn find_partitioner(&mut self, possible: Option<Vec<Partitioner>>, has_any: bool) {
        let open = |why: &str| {
            format!(
                "how the keys of the store are spread: the record of its partitioner is lost, and \
                 {why}; no program opens it without the name of the one that it was created with"
            )
        };
        let Some(possible) = possible else {
            self.unknown.extend(has_any.then(|| open("it has no key that tells")));
            return;
        };
        // Keys without tokens may look as if they had some, but not the other way round: those with
        // tokens come first.
        let Some(&found) = possible.first() else {
            self.unknown.push(open("its trees contradict each other"));
            return;
        };
        if found == Partitioner::ByteOrdered && possible.contains(&Partitioner::OrderPreserving) {
            self.unknown.push(format!(
                "whether the partitioner was {found} or {}, of which the record is lost: all keys \
                 lie where both of them put them; it is taken for the former",
                Partitioner::OrderPreserving
            ));
        }
        self.lacking.push(LackingRecord {
            key: PARTITIONER.to_vec(),
            value: found.full_name().into_bytes(),
            words: "by the trees, which were written with it",
        });
    }
}
