//! Stores as a power cut leaves them: one for each kind of unfinished file that an opening finds and
//! removes or completes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use firn_crash::{CrashEnv, Cut};
use firn_kv::internals::manifest::{self, CURRENT_NEW, Manifest};
use firn_kv::internals::sstable::format::{FOOTER, Footer};
use firn_kv::internals::wal::format::{SEGMENT_HEADER, SegmentHeader};
use firn_kv::{Db, Env, Error, Result, Tree};
use firn_testkit::rng::Rng;
use serde_json::Value;

use super::made::{Made, slug};
use super::stores::{self, db_options, tree_options};

const DIR: &str = "/db";
/// Trees of the store: one whose values are in blob files, and one with merge operands.
const TREES: [&str; 2] = ["blobs", "merge"];

/// Kinds of remains, in the order in which they are looked for.
const REMAINS: [&str; 7] = [
    "half a table",
    "tables that no manifest lists",
    "half a manifest",
    "a manifest that is not in use",
    "tables that were replaced",
    "a torn record",
    "a segment without a header",
];

/// Returns what the files of a directory show besides a store. `is_torn_record` tells that the last
/// write before the cut was one of the log, and not complete.
fn remains(env: &CrashEnv, is_torn_record: bool) -> Result<BTreeSet<&'static str>> {
    let (dir, mut found) = (Path::new(DIR), BTreeSet::new());
    let Some((state, number)) = Manifest::load(env, dir)? else { return Ok(found) };
    let live: BTreeSet<u64> = state.trees.values().flat_map(|t| t.files()).collect();
    // A store with little in it would test little.
    if live.is_empty() {
        return Ok(found);
    }
    let names = env.list(dir)?;
    if names.iter().any(|n| n == CURRENT_NEW) {
        found.insert("a manifest that is not in use");
    }
    let current = manifest::read(env, dir, number)?;
    if current.end < current.len {
        found.insert("half a manifest");
    }
    if is_torn_record {
        found.insert("a torn record");
    }
    for name in &names {
        let Ok(bytes) = env.read_file(&dir.join(name)) else { continue };
        if let Some(id) = name.strip_suffix(".sst").and_then(|n| n.parse::<u64>().ok()) {
            let footer = bytes.len().checked_sub(FOOTER).is_some_and(|at| {
                let f: [u8; FOOTER] = bytes[at..].try_into().unwrap_or([0; FOOTER]);
                Footer::own_id(&f, at as u64).is_some()
            });
            let what = match (live.contains(&id), footer) {
                (true, _) => None,
                (false, false) => Some("half a table"),
                (false, true) if live.last().is_some_and(|newest| id < *newest) => {
                    Some("tables that were replaced")
                }
                (false, true) => Some("tables that no manifest lists"),
            };
            found.extend(what);
        }
        if let Some(n) = name.strip_suffix(".wal").and_then(|n| n.parse::<u64>().ok()) {
            let head = bytes.get(..SEGMENT_HEADER as usize).and_then(|h| h.try_into().ok());
            if head.is_none_or(|h| SegmentHeader::decode(n, h).is_ok_and(|h| h.is_none())) {
                found.insert("a segment without a header");
            }
        }
    }
    Ok(found)
}

/// Runs `steps` changes of each tree with flushes and compactions, and returns the contents after
/// each step.
fn live(env: &CrashEnv, steps: u64, seed: u64) -> Result<Vec<Value>> {
    let read = |trees: &[Tree]| {
        let mut out = serde_json::Map::new();
        for tree in trees {
            out.insert(tree.name().to_owned(), stores::pairs(tree)?);
        }
        Ok::<Value, Error>(out.into())
    };
    let db = Db::open_in(Arc::new(env.clone()), Path::new(DIR), db_options())?;
    let (mut rng, mut states, mut trees) = (Rng::new(seed), vec![read(&[])?], vec![]);
    for name in TREES {
        trees.push(db.tree(name, tree_options(name))?);
        states.push(read(&trees)?);
    }
    for i in 0..steps {
        for tree in &trees {
            stores::change(&mut rng, tree, &mut stores::Map::new())?;
            states.push(read(&trees)?);
            match i % 20 {
                9 => tree.flush()?,
                19 => tree.compact()?,
                _ => {}
            }
        }
        // A later manifest begins at an opening that does not find a clean end.
        if i % 10 == 5 {
            db.sync()?;
        }
    }
    db.close()?;
    Ok(states)
}

/// Adds one store for each kind of remains.
pub fn make(seed: u64, steps: u64, made: &mut Made) -> Result<()> {
    let env = CrashEnv::new(seed);
    env.start_journal();
    let mut states = live(&env, steps, seed)?;
    // The second life begins with a log that has not been closed, and so with another manifest.
    let middle = env.crash_image(env.journal_len() / 2, &Cut::PowerAll);
    middle.start_journal();
    let before = stores::read(Arc::new(middle.fork()), Path::new(DIR))?;
    states.push(before);
    Db::open_in(Arc::new(middle.clone()), Path::new(DIR), db_options())?
        .tree("blobs", tree_options("blobs"))?
        .flush()?;
    let mut left: BTreeSet<&str> = REMAINS.into();
    for disk in [&env, &middle] {
        for at in 1..=disk.journal_len() {
            let op = disk.journal_op(at - 1).unwrap_or_default();
            let is_cut = op.contains("write") || op.contains("append");
            let torn = Cut::Torn { bytes: 20 };
            let cuts = [Some(Cut::PowerAll), Some(Cut::PowerNone), is_cut.then_some(torn)];
            for cut in cuts.into_iter().flatten() {
                let image = disk.crash_image(at, &cut);
                let is_torn_record = matches!(cut, Cut::Torn { .. }) && op.contains(".wal");
                let found = remains(&image, is_torn_record)?;
                let Some(what) = REMAINS.iter().find(|w| left.contains(*w) && found.contains(*w))
                else {
                    continue;
                };
                add(&image, seed, what, &states, made)?;
                left.remove(what);
            }
        }
    }
    if let Some(what) = left.first() {
        return Err(Error::invalid(format!("no power cut left {what}; run more steps")));
    }
    Ok(())
}

/// Adds the store of one image.
fn add(env: &CrashEnv, seed: u64, what: &str, states: &[Value], made: &mut Made) -> Result<()> {
    let name = format!("stores/{seed:03}-interrupted-{}", slug(what));
    for path in env.files() {
        let file = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        made.file(format!("{name}/{file}"), env.read_file(&path)?);
    }
    let content = stores::read(Arc::new(env.fork()), Path::new(DIR))?;
    if !states.contains(&content) {
        return Err(Error::invalid(format!("{name} has a state that there never was")));
    }
    made.sound(name, "store", what, content);
    Ok(())
}
