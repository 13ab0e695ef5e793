//! Gathers the history of a store from the remains of its manifests and from its event log.

use std::collections::BTreeSet;
use std::path::Path;

use firn_kv::internals::manifest::{self, manifest_name, manifest_number};
use firn_kv::{Error, ErrorKind, Result};
use firn_tools::output::things;

use crate::history::event_log::EventLog;
use crate::history::evidence::{foreign_manifest, outdated, replay_around};
use crate::history::recovered::RecoveredHistory;
use crate::store::names::FileNames;

/// Selection of the trusted manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// The manifest that `CURRENT` names and older ones, as far as they fit the tables.
    All,
    /// The manifest with this number.
    Only(u64),
    /// No manifest.
    None,
}

/// Recovers the history of the store in `dir`.
///
/// # Errors
/// `Incompatible` for files of a newer version; I/O errors. Damage is no error.
pub fn gather(names: &FileNames, sources: Sources) -> Result<RecoveredHistory> {
    let mut e = RecoveredHistory::default();
    if sources != Sources::None {
        read_manifests(&mut e, names, sources)?;
    }
    let log = EventLog::read(names)?;
    match log.contradicts(names)? {
        Some(what) => {
            e.notes.push(format!("EVENTS.jsonl is of another store, and left out: it names {what}"))
        }
        None => log.each(&mut |line| e.take_event(line)),
    }
    Ok(e)
}

/// Returns the tables that the manifests and the event log call obsolete.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn removed(names: &FileNames) -> Result<BTreeSet<u64>> {
    let mut e = RecoveredHistory::default();
    for number in names.numbers(manifest_number)? {
        if let Ok((log, _)) = manifest::read_around(names, names.dir(), number) {
            log.frames.iter().flat_map(|f| &f.edits).for_each(|edit| e.take_edit(edit));
        }
    }
    let log = EventLog::read(names)?;
    if log.contradicts(names)?.is_none() {
        log.each(&mut |line| e.take_event(line));
    }
    Ok(e.dead)
}

fn read_manifests(
    history: &mut RecoveredHistory,
    names: &FileNames,
    sources: Sources,
) -> Result<()> {
    let mut numbers = names.numbers(manifest_number)?;
    let named = match manifest::current(names, names.dir()) {
        Ok(current) => current.map(|c| c.manifest),
        Err(e) if matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Io) => {
            history.notes.push(format!("CURRENT cannot be read: {}", e.message()));
            None
        }
        Err(e) => return Err(e),
    };
    if let Sources::Only(number) = sources {
        numbers.retain(|n| *n == number);
    } else {
        // Check the id of a manifest before using anything in it.
        let mut own = vec![];
        for number in numbers {
            match foreign_manifest(names, number)? {
                Some(words) => {
                    history.notes.push(format!("{} is left out: {words}", manifest_name(number)));
                }
                None => own.push(number),
            }
        }
        numbers = own;
    }
    // The manifest that CURRENT names counts; one with a higher number is unfinished. If
    // CURRENT names a manifest of another store, CURRENT belongs to that store too.
    let newest = match sources {
        Sources::Only(_) => numbers.first().copied(),
        _ => named.filter(|n| numbers.contains(n)).or(numbers.last().copied()),
    };
    for &number in numbers.iter().filter(|n| Some(**n) <= newest) {
        let name = manifest_name(number);
        let sound = match manifest::read(names, names.dir(), number).and_then(|log| log.replay()) {
            Err(e) if e.kind() == ErrorKind::Io => {
                history.notes.push(format!("{name} cannot be read: {}", e.message()));
                continue;
            }
            sound => sound,
        };
        if let (Ok(state), true) = (&sound, Some(number) == newest) {
            match outdated(names, state)? {
                Some(words) => history.notes.push(format!("{name}: {words}")),
                None => {
                    history.notes.push(format!("{name} is sound: the store's state is all known"));
                    history.whole = Some((state.clone(), number));
                }
            }
        }
        let (log, gaps) = match manifest::read_around(names, names.dir(), number) {
            Ok(found) => found,
            Err(e) if e.kind() == ErrorKind::Corruption => continue,
            Err(e) => return Err(e),
        };
        if sound.is_err() {
            let lost: u64 = gaps.iter().map(|g| g.len).sum();
            let frames = things(log.frames.len() as u64, "frame", "frames");
            history.notes.push(format!(
                "{}: {frames} can be read, {} are lost",
                manifest_name(number),
                things(lost, "byte", "bytes")
            ));
        }
        log.frames.iter().flat_map(|f| &f.edits).for_each(|edit| history.take_edit(edit));
        history.partial = Some(replay_around(&log.frames).0)
            .filter(|s| s.next_file > 0)
            .or(history.partial.take());
    }
    Ok(())
}

/// Returns the error for a directory without files of a store.
pub fn no_store(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is nothing of a store in this directory").in_file(dir)
}
