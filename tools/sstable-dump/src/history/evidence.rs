//! Evidence against a manifest: that it is older than the files, or of another store.

use std::collections::BTreeSet;

use firn_kv::internals::base::ops::{NO_TREE, OpReader};
use firn_kv::internals::manifest::{
    self, ManifestFrame, ManifestState, TreeState, manifest_name, manifest_number,
};
use firn_kv::internals::sstable::Properties;
use firn_kv::internals::wal::{self, recover};
use firn_kv::{Error, Result};
use firn_tools::io;
use firn_tools::output::things;

use crate::history::event_log::EventLog;
use crate::history::owner;
use crate::history::recovered::{RecoveredHistory, properties};
use crate::store::names::FileNames;

/// Returns the reason if `state` is older than the files.
///
/// The proof is a table with a number that the state has not assigned, and one of these:
/// - Tables that the state names are missing.
/// - The event log, which is written after the manifest is durable, has the table.
/// - The table has sequence numbers above the state's last one, and the log does not contain them.
///
/// A flush that a crash interrupted proves nothing, because the log has all its entries. A log with
/// operations on trees of unassigned numbers is a proof by itself. So is a log in which an opening
/// continued that the manifest does not know.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn outdated(names: &FileNames, state: &ManifestState) -> Result<Option<String>> {
    // A stray file of another store or of a clone says nothing about the age of this one.
    let (openings, event_log) = (openings(names, state)?, EventLog::read(names)?);
    let events = match event_log.contradicts(names)? {
        None => event_log.evidence,
        Some(_) => RecoveredHistory::default(),
    };
    let all_logged: BTreeSet<u64> =
        events.by_name.values().flatten().chain(&events.dead).copied().collect();
    let live = state.trees.values().flat_map(|t| t.tables());
    let missing = live.filter(|m| names.table(m.id).is_none_or(|path| !io::exists(&path))).count();
    // An opening without log writes is known only from the event log. An unknown opening may be a
    // clone's. Its table does not outweigh a manifest most of whose files are here.
    let is_fit = names.own_files(state) >= missing && missing > 0;
    let is_known = |id: u64, opening: u64| {
        opening == 0
            || !is_fit
            || openings.is_empty()
            || openings.contains(&opening)
            || all_logged.contains(&id)
    };
    let is_newer = |id: &u64| {
        *id >= state.next_file
            && owner::writer(names, *id).is_none_or(|w| w == state.id)
            && properties(names, *id).is_none_or(|p| is_known(*id, p.log_writer))
    };
    let newer: Vec<u64> = names.finished().into_iter().filter(is_newer).collect();
    let (mut first, mut last, mut unknown_tree) = (None, 0, None);
    // The reader of the log reports its damage.
    let _ = recover(names, names.dir(), state.wal_floor, &mut |seq, _, payload| {
        first.get_or_insert(seq);
        let mut n = 0;
        for (tree, _) in OpReader::new(payload).flatten() {
            unknown_tree =
                unknown_tree.or((tree >= state.next_tree && tree != NO_TREE).then_some(tree));
            n += 1;
        }
        last = last.max(seq.saturating_add(n));
        Ok(())
    });
    if let Some(tree) = unknown_tree {
        return Ok(Some(format!(
            "the manifest is of an older time than the log, or its end is lost: the log has operations on tree {tree}, which it does not know"
        )));
    }
    if let Some(number) = names.later_segment(state)? {
        return Ok(Some(format!(
            "the manifest is of an older time than the log, or its end is lost: it does not know the opening of this store that went on \
             with the log in segment {number}"
        )));
    }
    if newer.is_empty() {
        return Ok(None);
    }
    let mut proof = vec![];
    if missing > 0 {
        proof.push(format!(
            "{} gone",
            things(missing as u64, "table that it names is", "tables that it names are")
        ));
    }
    let event_log =
        newer.iter().filter(|id| all_logged.contains(id) && events.fits(names, **id)).count();
    if event_log > 0 {
        proof.push(format!(
            "the event log has {}",
            things(event_log as u64, "newer one", "newer ones")
        ));
    }
    let is_lost = |p: &Properties| {
        let logged = first.is_some_and(|f| f <= p.min_seq) && p.max_seq < last;
        p.max_seq > state.last_seq && !logged
    };
    let unlogged =
        newer.iter().filter(|&&id| properties(names, id).is_some_and(|p| is_lost(&p))).count();
    if unlogged > 0 {
        proof.push(format!(
            "{} sequence numbers above its last, not in the log",
            things(unlogged as u64, "has", "have")
        ));
    }
    Ok((!proof.is_empty()).then(|| {
        format!(
            "the manifest is of an older time than the tables, or its end is lost: {} not known to it, and {}",
            things(newer.len() as u64, "newer table is", "newer tables are"),
            proof.join(", ")
        )
    }))
}

/// Returns the openings of the store in the manifest and the log. Returns none without a log, so
/// that openings after the manifest remain unknown.
fn openings(names: &FileNames, state: &ManifestState) -> Result<BTreeSet<u64>> {
    let mut all: BTreeSet<u64> =
        wal::writers(names, names.dir())?.iter().map(|w| w.id).filter(|id| *id != 0).collect();
    if !all.is_empty() {
        all.extend(state.writers.iter().map(|w| w.id));
    }
    Ok(all)
}

/// Returns the reason if `state` belongs to another store than the files. No table or blob file
/// that it names is here, others are, and these carry the id of another store.
///
/// If all files with an id, log segments included, belong to other stores, the ids are proof. If
/// one has the state's own id, a file of another store is proof only if this manifest has assigned
/// its number. A manifest that is merely older has not assigned the numbers of newer tables.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn foreign(names: &FileNames, state: &ManifestState) -> Result<Option<String>> {
    if names.own_files(state) > 0 {
        return Ok(None);
    }
    let live = state.trees.values().flat_map(TreeState::files).count();
    let finished = names.finished();
    let contradicts = |id: &u64| {
        *id < state.next_file && owner::writer(names, *id).is_some_and(|w| w != state.id)
    };
    let stores = owner::stores(names)?;
    let others = !stores.is_empty() && !stores.contains(&state.id);
    let is_foreign = others || live > 0 && finished.iter().any(contradicts);
    if !is_foreign {
        return Ok(None);
    }
    let ids: Vec<String> =
        stores.iter().filter(|id| **id != state.id).map(|id| format!("{id:016x}")).collect();
    Ok(Some(format!(
        "this manifest is of another store (id {:016x}): of the {} that it names none is here, and of the {} here it names none; there are \
         files of store {}",
        state.id,
        things(live as u64, "file", "files"),
        things(finished.len() as u64, "file", "files"),
        ids.join(", "),
    )))
}

/// Applies [`foreign`] to the manifest with this number, as far as it can be read.
///
/// # Errors
/// As [`foreign`].
pub fn foreign_manifest(names: &FileNames, number: u64) -> Result<Option<String>> {
    let Ok((log, _)) = manifest::read_around(names, names.dir(), number) else { return Ok(None) };
    let state = log.replay().unwrap_or_else(|_| replay_around(&log.frames).0);
    if state.id == 0 { Ok(None) } else { foreign(names, &state) }
}

/// Returns the manifests of other stores besides the manifest `number`, with the number of their
/// files that are here.
///
/// # Errors
/// I/O errors of the directory.
pub fn other_stores(names: &FileNames, number: u64, state: &ManifestState) -> Result<Vec<Error>> {
    let mut all = vec![];
    for other in names.numbers(manifest_number)?.into_iter().filter(|n| *n != number) {
        let Ok(found) = manifest::read(names, names.dir(), other).and_then(|log| log.replay())
        else {
            continue;
        };
        if found.id == state.id {
            continue;
        }
        let live = found.trees.values().flat_map(TreeState::files).count() as u64;
        let words = format!(
            "this manifest is of another store than {}: two stores are in one directory, and {} of the {} of this one are here",
            manifest_name(number),
            names.own_files(&found),
            things(live, "file", "files"),
        );
        all.push(Error::corruption(words).in_file(names.dir().join(manifest_name(other))));
    }
    Ok(all)
}

/// Returns the state after all edits that fit, and a description of those that do not.
pub fn replay_around(frames: &[ManifestFrame]) -> (ManifestState, Vec<String>) {
    let (mut state, mut unfit) = (ManifestState::default(), vec![]);
    for f in frames {
        for e in &f.edits {
            if let Err(why) = state.apply(e) {
                unfit.push(format!("the edit at offset {}: {}", f.offset, why.message()));
            }
        }
    }
    (state, unfit)
}
