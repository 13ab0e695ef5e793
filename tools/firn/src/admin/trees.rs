//! `firn trees`: lists the trees of a store with their content, policy, size and options. `firn
//! set-options`: changes these options.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use firn_kv::OsEnv;
use firn_kv::internals::manifest::{Manifest, PersistedOptions};
use firn_kv::{Policy, TreeOptions};
use firn_wide::internals::store::{SCHEMA_TREE, TreeName, loss};
use serde_json::{Map, Value, json};

use crate::inspect::sums;
use crate::store::Global;
use firn_console::names::StoreNames;
use firn_tools::io::{confirm, stderr_is_terminal, stdin_is_terminal, stdout};
use firn_tools::options;
use firn_tools::output::{Done, Failure, bytes, count, listing, print_fitting};

pub const DROP_EXAMPLES: &str = "\
Drops a tree with all its keys, and frees its space. Trees of tables and column families are dropped by DROP TABLE and
`drop column family` instead. A checkpoint or a backup before it is the only way back.

Examples:
  firn drop-tree old
  firn drop-tree old --yes                   without confirmation, as scripts need it";

/// Arguments of `firn drop-tree`.
#[derive(Args, Clone, Debug)]
pub struct DropTreeArgs {
    /// Drop this tree
    #[arg(value_name = "NAME")]
    tree: String,
    /// Drop it without confirmation
    #[arg(short, long)]
    yes: bool,
}

/// Runs `firn drop-tree`.
pub fn drop_tree(global: &Global, args: &DropTreeArgs) -> Done {
    let asks = stdin_is_terminal() && stderr_is_terminal();
    if !args.yes && !asks {
        return Err(Failure::with_next("dropping a tree needs a confirmation", "say --yes"));
    }
    let db = global.open_to_write(false, 0)?;
    let name = global.tree(&db, Some(&args.tree))?.name().to_owned();
    let next = "drop the definition: DROP TABLE in `firn cql`, drop column family in `firn cli`";
    global.refuse_own_tree(&name, "it is dropped with its definition", next)?;
    if !args.yes && !confirm(&format!("drop the tree {name:?} with all its keys?"))? {
        eprintln!("nothing is dropped");
        return Ok(());
    }
    db.drop_tree(&name)?;
    db.close()?;
    global.print_json(json!({ "dropped": name }))?;
    eprintln!("dropped the tree {name:?}");
    Ok(())
}

/// Options of a store's trees, from its manifest.
pub struct Options(BTreeMap<String, PersistedOptions>);

impl Options {
    /// Reads the options of this store; empty if the manifest is unreadable.
    pub fn of(global: &Global) -> Options {
        let state =
            Manifest::load(&*OsEnv::new(), &global.store.db).ok().flatten().map(|(state, _)| state);
        let trees = state.into_iter().flat_map(|s| s.trees.into_values());
        Options(trees.map(|t| (t.name, t.options)).collect())
    }

    fn without_hooks(&self, tree: &str) -> Option<TreeOptions> {
        Some(self.0.get(tree)?.with_hooks_of(&TreeOptions::default()))
    }

    fn hooks(&self, tree: &str) -> Vec<(&'static str, String)> {
        let Some(o) = self.0.get(tree) else { return vec![] };
        let hooks = [
            ("merge_operator", &o.merge_operator),
            ("compaction_filter", &o.compaction_filter),
            ("summary", &o.summary),
            ("filter_prefix", &o.filter_prefix),
        ];
        hooks.into_iter().filter_map(|(what, name)| Some((what, name.clone()?))).collect()
    }

    /// Returns the policy of a tree.
    pub fn policy(&self, tree: &str) -> Option<String> {
        Some(self.0.get(tree)?.policy.to_string())
    }

    /// Returns the other options with non-default values, and the hooks except those of the data
    /// model, each as `name=value`.
    pub fn unusual(&self, tree: &str) -> Vec<String> {
        let options = self.without_hooks(tree).map_or(vec![], |o| options::unusual(&o));
        let hooks = if TreeName::parse(tree).is_some() { vec![] } else { self.hooks(tree) };
        options.into_iter().chain(hooks).map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Returns all options as JSON. Null if they are unknown.
    pub fn json(&self, tree: &str) -> Value {
        let Some(o) = self.0.get(tree) else { return Value::Null };
        let plain = self.without_hooks(tree).map_or(vec![], |o| options::list(&o));
        let mut all: Map<String, Value> =
            plain.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        all.insert("block_size".into(), o.block_size.into());
        all.insert("table_size".into(), o.table_size.into());
        all.insert("memtable_size".into(), o.memtable_size.into());
        all.insert("tombstone_age_secs".into(), o.tombstone_age_secs.into());
        all.insert("blob_threshold".into(), o.blob_threshold.into());
        all.insert("blob_gc_percent".into(), o.blob_gc_percent.into());
        let hooks: Map<String, Value> = self
            .hooks(tree)
            .into_iter()
            .map(|(what, name)| (what.to_owned(), name.into()))
            .collect();
        all.insert("hooks".into(), hooks.into());
        all.into()
    }
}

pub const TREES_EXAMPLES: &str = "\
Shows the content of each tree (the table, column family or index, if the store has keyspaces), its compaction policy, its size, and its
options with non-default values. Options have the syntax of `firn set-options`.

Examples:
  firn trees
  firn trees --json | jq -r '.[].name'
  firn --db shop trees --json | jq -r '.[] | select(.holds.keyspace == \"shop\") | .name'";

/// Arguments of `firn trees`: none of its own.
#[derive(Args, Clone, Debug)]
pub struct TreesArgs {}

/// Runs `firn trees`.
pub fn trees(global: &Global, _: &TreesArgs) -> Done {
    let (db, names) = global.open_named()?;
    let (s, options) = (db.stats(), Options::of(global));
    let mut out = stdout();
    let undefined = names.undefined(&db);
    if global.store.json {
        let one = |t: &firn_kv::stats::TreeStats| {
            let m = sums(t);
            json!({
                "name": t.name, "runs": t.runs.len(), "tables": m.tables, "bytes": m.bytes, "entries": m.entries,
                "memtable_bytes": t.memtable_bytes, "holds": names.json(&t.name), "options": options.json(&t.name),
                "undefined": undefined.contains(&t.name),
            })
        };
        writeln!(out, "{}", Value::from(s.trees.iter().map(one).collect::<Vec<_>>()))?;
    } else if !s.trees.is_empty() {
        let head = [
            "tree",
            "holds",
            "policy",
            "runs",
            "tables",
            "on disk",
            "entries",
            "in memory",
            "options",
        ];
        let mut t = listing(&head, "lllrrrrrl");
        for tree in &s.trees {
            let m = sums(tree);
            let holds = match undefined.contains(&tree.name) {
                true => "cells without a definition",
                false => holds(&names, &tree.name),
            };
            t.add_row([
                tree.name.clone(),
                holds.to_owned(),
                options.policy(&tree.name).unwrap_or_default(),
                count(tree.runs.len() as u64),
                count(m.tables),
                bytes(m.bytes),
                count(m.entries),
                bytes(tree.memtable_bytes),
                options.unusual(&tree.name).join(" "),
            ]);
        }
        write!(out, "{}", print_fitting(&mut t, &[4, 7, 2], global.style()))?;
    }
    out.flush()?;
    for tree in &undefined {
        let (words, next) = loss::words_of_undefined(tree);
        eprintln!("{} {words}; {next}", global.style().bold("note:"));
    }
    Ok(())
}

/// Describes the content of a tree.
pub fn holds<'a>(names: &'a StoreNames, tree: &str) -> &'a str {
    names.of_tree(tree).unwrap_or(if tree == SCHEMA_TREE {
        "definitions"
    } else {
        "keys and values"
    })
}

/// Returns the help of `firn set-options`, with all policies.
pub fn set_options_help() -> String {
    let head = "\
Changes options of a tree permanently, in the manifest. Existing tables do not change until they are compacted; `firn compact` rewrites
them. A program that opens the tree with its own options overrides these.

Options, with their defaults:
  policy=tiered            compaction policy (below)
  compression=lz4          of blocks: none, lz4 or zstd; for each level, separated by commas, of which the last repeats
  filter=fuse8             of tables: none, fuse8 (9 bits a key) or fuse16 (18 bits a key); in the same way
  filter_allocation=by-level  monkey: distribute the filter memory over runs for the fewest false positives; small runs get more bits a key
  block_size=4032          target size of a block, 512 to 64k
  table_size=64m           target size of a table file, at least 64k
  memtable_size=64m        size of a memtable, 64k to 2g
  tombstone_age_secs=0     compact tombstones after this many seconds; 0 disables
  blob_threshold=0         store values of at least this many bytes in blob files; 0 disables
  blob_gc_percent=30       rewrite blob files when this percentage of them is garbage, 1 to 90

Policies, with their parameters. Parameters follow after colons, by position or by name, as in tiered:4:max_runs=8:
";
    let examples = "
Examples:
  firn set-options fruit policy=lazy-leveled:4
  firn set-options fruit compression=none,lz4,zstd filter=fuse16 && firn compact --tree fruit
  firn set-options events policy=time-window:3600 tombstone_age_secs=86400";
    format!("{head}{}{examples}", Policy::help())
}

/// Arguments of `firn set-options`.
#[derive(Args, Clone, Debug)]
pub struct SetOptionsArgs {
    /// Change this tree
    #[arg(value_name = "TREE")]
    tree: String,
    /// Set these options
    #[arg(value_name = "NAME=VALUE", required = true)]
    values: Vec<String>,
}

/// Runs `firn set-options`.
pub fn set_options(global: &Global, args: &SetOptionsArgs) -> Done {
    let next = || "`firn set-options --help` lists the options".to_owned();
    let pair = |text: &'_ String| -> Done<(String, String)> {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Failure::with_next(
                format!("{text:?} is no option with a value"),
                "write it as name=value",
            )
        })?;
        Ok((name.trim().to_owned(), value.to_owned()))
    };
    let values = args.values.iter().map(pair).collect::<Done<Vec<_>>>()?;
    let refused = |why: String| Failure::with_next(why, next());
    if let Some((name, _)) =
        values.iter().enumerate().find_map(|(i, one)| values[..i].iter().find(|v| v.0 == one.0))
    {
        return Err(Failure::with_next(
            format!("{name} is given twice"),
            "give each option one value",
        ));
    }
    // Invalid values are reported before the store is opened.
    let mut tried = TreeOptions::default();
    values
        .iter()
        .try_for_each(|(name, value)| options::set(&mut tried, name, value).map_err(refused))?;
    let name = global.path_to_tree(&args.tree);
    let next_definition = "change the definition: ALTER TABLE … WITH compaction = … in `firn cql`, update column family in `firn cli`";
    global.refuse_own_tree(&name, "its options are those of its definition", next_definition)?;
    let db = global.open_to_write(false, 0)?;
    let tree = global.tree(&db, Some(&name))?;
    let before = options::list(&tree.options());
    let mut options = tree.options();
    values
        .iter()
        .try_for_each(|(name, value)| options::set(&mut options, name, value).map_err(refused))?;
    options.check().map_err(|e| refused(e.message().to_owned()))?;
    let after = options::list(&options);
    tree.set_options(options)?;
    global.print_json(
        json!({"tree": tree.name(), "options": Options::of(global).json(tree.name())}),
    )?;
    if before == after {
        eprintln!("nothing is changed: the tree {:?} has these options", tree.name());
    }
    for ((name, was), (_, is)) in before.into_iter().zip(after).filter(|(a, b)| a != b) {
        eprintln!("{name}: {was} before, {is} now");
    }
    Ok(())
}
