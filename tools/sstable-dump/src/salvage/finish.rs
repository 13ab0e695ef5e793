//! The last steps of a new store with the data model: set hooks by the definitions and, after a
//! loss, renew records that may be wrong.
//!
//! Invariants: only the new store is written. A tree with a lost definition retains its data under
//! a name that no opening drops.

use std::collections::BTreeSet;
use std::path::Path;

use firn_kv::internals::base::ops::TreeId;
use firn_kv::internals::manifest::{
    CURRENT, Manifest, ManifestState, PersistedOptions, manifest_name,
};
use firn_kv::{Batch, Db, DbOptions, TreeOptions};
use firn_tools::output::{Done, things};
use firn_wide::Partitioner;
use firn_wide::internals::store::{SCHEMA_TREE, TreeName, copies, hooks, loss};

use crate::check::opening;
use crate::salvage::losses::Loss;
use crate::salvage::report::NewStoreReport;
use crate::schema::definitions::{Definitions, NEVER};
use crate::schema::lost_records::TreeEvidence;
use crate::store::target::env;

/// Prefix of the names of trees whose own name is lost; their number follows.
pub const NAMELESS: &str = "tree-";

/// Writes the manifest of the new store in `out`. Its number is 1; one frame needs no log.
pub fn write_manifest(out: &Path, state: &ManifestState) -> firn_kv::Result<()> {
    let env = env();
    for name in [CURRENT.to_owned(), manifest_name(1)] {
        if env.file_len(&out.join(&name)).is_ok() {
            env.remove(&out.join(&name))?;
        }
    }
    Manifest::create(&*env, out, 1, state).map(drop)
}

/// Returns the definitions of the new store, and its trees with data but without a definition.
/// Returns nothing if the schema cannot be read. Adds definitions that survive only as copies to
/// the report.
fn definitions(
    out: &Path,
    state: &ManifestState,
    report: &mut NewStoreReport,
) -> (Definitions, Vec<String>) {
    let Ok(db) = opening::open(out) else { return Default::default() };
    let Ok(mut records) = opening::records(&db) else { return Default::default() };
    let schema = state.tree_named(SCHEMA_TREE).map(|t| t.id);
    let is_lost = |key: &[u8]| {
        let covers = |keys: &(Vec<u8>, Vec<u8>)| keys.0.as_slice() <= key && key <= &keys.1[..];
        let of_schema = |l: &&Loss| l.tree.is_some() && l.tree == schema;
        report.losses.iter().filter(of_schema).any(|l| l.keys.as_ref().is_none_or(covers))
    };
    report.restored = copies::lost_records(&records, is_lost);
    records.retain(|r| report.restored.iter().all(|x| x.0 != r.0));
    records.extend(report.restored.iter().cloned());
    records.sort_unstable();
    let definitions = Definitions::read(records, &TreeEvidence::of_store(state, Some(&db)));
    let undefined = opening::undefined(&db, &definitions).unwrap_or_default();
    (definitions, undefined)
}

/// Guesses the hooks of a tree of the data model that has no definition, and returns the reason
/// too. Returns `None` for a tree that needs no hooks.
fn guess_hooks(
    name: &str,
    has: &PersistedOptions,
    has_merges: bool,
    partitioner: Option<Partitioner>,
) -> Option<(TreeOptions, &'static str)> {
    let any = has.merge_operator.is_some()
        || has.compaction_filter.is_some()
        || has.summary.is_some()
        || has.filter_prefix.is_some();
    // No tree shows the partitioner: take the one that most stores have.
    let token_len = partitioner.unwrap_or_default().token_len();
    let family = |counters| hooks::family(TreeOptions::default(), counters, token_len, NEVER);
    match TreeName::parse(name) {
        _ if any => None,
        Some(TreeName::Schema) => None,
        Some(TreeName::Index(_)) => Some((hooks::index(), "its name asks for")),
        Some(TreeName::Family(_)) => Some((family(has_merges), "its name asks for")),
        // In the data model only counters have operands. A tree with its own name belongs to an
        // application.
        None => (has_merges && name.starts_with(NAMELESS))
            .then(|| (family(true), "counters have, since it holds merge operands")),
    }
}

fn set_hooks(o: &mut PersistedOptions, hooks: &TreeOptions) -> bool {
    let named = PersistedOptions::of(hooks);
    let before = o.clone();
    (o.merge_operator, o.compaction_filter, o.summary, o.filter_prefix) =
        (named.merge_operator, named.compaction_filter, named.summary, named.filter_prefix);
    *o != before
}

/// Gives the trees the hooks of their definitions. Renames trees without a definition so that no
/// opening drops them. `merges` are the trees with merge operands. The manifest is already written.
///
/// # Errors
/// I/O errors of writing the manifest again.
pub fn set_tree_hooks(
    out: &Path,
    state: &mut ManifestState,
    merges: &BTreeSet<TreeId>,
    report: &mut NewStoreReport,
) -> Done {
    if !state.trees.values().any(|t| TreeName::parse(&t.name).is_some()) {
        return Ok(());
    }
    let undefined;
    (report.definitions, undefined) = definitions(out, state, report);
    let schema = state.tree_named(SCHEMA_TREE).map(|t| t.id);
    let may_lack = report.may_have_lost(schema) || schema.is_none();
    let mut changed = false;
    for t in state.trees.values_mut() {
        let defined = report.definitions.of_tree(&t.name);
        let hooks = match defined {
            Some(d) => Some((d.hooks(), "its definition asks for")),
            None => guess_hooks(
                &t.name,
                &t.options,
                merges.contains(&t.id),
                report.definitions.partitioner,
            ),
        };
        if let Some((hooks, by)) = hooks
            && set_hooks(&mut t.options, &hooks)
        {
            changed = true;
            report.notes.push(format!("tree {} {:?}: its hooks are those that {by}", t.id, t.name));
        }
        let is_lost = may_lack
            && matches!(TreeName::parse(&t.name), Some(TreeName::Family(_) | TreeName::Index(_)));
        if defined.is_none() && (is_lost || undefined.contains(&t.name)) {
            let name = format!("lost.{}", t.name);
            report.unknown.push(format!(
                "what tree {:?} was: its definition is lost; its data stays in the tree {name:?}, which no opening drops",
                t.name
            ));
            (t.name, changed) = (name, true);
        }
    }
    report.unknown.extend(report.definitions.unknown.iter().cloned());
    if changed {
        write_manifest(out, state)?;
    }
    Ok(())
}

/// Writes lost records that other records need. After a loss it also schedules a rebuild of
/// indexes, and renews the records that let reads and writes skip lookups.
///
/// # Errors
/// Errors of the engine when it opens the new store for writing.
pub fn renew_records(
    out: &Path,
    state: &ManifestState,
    report: &mut NewStoreReport,
) -> firn_wide::Result<()> {
    let schema = state.tree_named(SCHEMA_TREE).map(|t| t.id);
    let lacking = &report.definitions.lacking;
    let is_whole = report.is_whole() && report.unset.is_empty();
    let is_complete = lacking.is_empty() && report.restored.is_empty();
    if is_complete && (is_whole || schema.is_none()) {
        return Ok(());
    }
    let options = DbOptions {
        create: false,
        background_threads: 0,
        event_log: false,
        ..DbOptions::default()
    };
    let db = Db::open_in(env(), out, options)?;
    if !is_complete {
        let (tree, mut batch) = (db.tree(SCHEMA_TREE, TreeOptions::default())?, Batch::new());
        for (key, value) in &report.restored {
            batch.put(&tree, key, value)?;
        }
        if !report.restored.is_empty() {
            let n = report.restored.len() as u64;
            report.notes.push(format!(
                "{} of {SCHEMA_TREE}: the store has each definition twice",
                things(
                    n,
                    "record was restored from its copy",
                    "records were restored from their copies"
                )
            ));
        }
        for r in lacking {
            batch.put(&tree, &r.key, &r.value)?;
            batch.put(&tree, copies::copy_key(&r.key), &r.value)?;
            let words = format!("the record {} was lost; in its place is {}", r.name(), r.words());
            report.notes.push(words);
        }
        db.write(batch)?;
        db.sync()?;
    }
    if is_whole {
        return Ok(());
    }
    let of_indexes: Option<Vec<u32>> = report
        .losses
        .iter()
        .map(|l| match TreeName::parse(&state.trees.get(&l.tree?)?.name)? {
            TreeName::Index(id) => Some(id),
            TreeName::Schema | TreeName::Family(_) => None,
        })
        .collect::<Option<_>>()
        .filter(|_| report.unknown.is_empty() && report.unset.is_empty());
    let ids: BTreeSet<u32> = loss::forget_built(&db, of_indexes.as_deref())?.into_iter().collect();
    for id in ids {
        let of_view = || report.definitions.of_tree(&TreeName::Family(id).to_string());
        let defined = report.definitions.of_tree(&TreeName::Index(id).to_string()).or_else(of_view);
        let what = defined.map_or_else(|| format!("index {id}"), |d| d.words());
        report.rebuilt.push(what);
    }
    if report.may_have_lost(schema) {
        let families = state.trees.values().filter_map(|t| {
            let Some(TreeName::Family(id)) = TreeName::parse(&t.name) else { return None };
            report.definitions.of_tree(&t.name)?;
            Some((id, t.name.clone(), opening::known_hooks(&t.options)?))
        });
        loss::renew_records(&db, families.collect())?;
        report
            .notes
            .push("the store's own records about deletions and timestamps are made anew".into());
    }
    db.sync()?;
    Ok(())
}
