//! Determines the store that owns the files of a directory without a manifest. Tables and log
//! segments contain the id of the store that wrote them.
//!
//! A log belongs to one store: a second id among segments with records shows a second store in the
//! directory. Tables may come from another store: a checkpoint has those of its source. So a table
//! is foreign only if its store's log is here too.
//!
//! Invariant: the choice is never random. Files that are left out are reported, and can be selected
//! (`repair --store`).

use std::collections::{BTreeMap, BTreeSet};

use firn_kv::Result;
use firn_kv::internals::wal::{segment_name, segment_number};

use crate::store::names::FileNames;
use crate::store::target::{is_of_values, open_file, open_values};

/// Owners of the files.
#[derive(Debug, Default)]
pub struct StoreOwner {
    /// Id of the store; `None` if no file has one.
    pub id: Option<u64>,
    /// Other stores with a log here.
    others: BTreeSet<u64>,
    /// Store that wrote each table.
    tables: BTreeMap<u64, u64>,
    /// Log segments with records of other stores, by their numbers.
    segments: Vec<(u64, u64)>,
}

/// Reads the ids of the files. `chosen` is the id that the user or a manifest gave. Otherwise the
/// store is one with a log: the one with the most tables and segments, and among equals the one
/// with the newest segment. Without a log it is the one that wrote the newest table.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn find_owner(names: &FileNames, chosen: Option<u64>) -> Result<StoreOwner> {
    let mut w = StoreOwner { tables: tables(names), ..StoreOwner::default() };
    let mut logs: Vec<(u64, u64)> = vec![];
    for number in names.numbers(segment_number)? {
        let mut reader = names.open_segment(number)?;
        let Some(store) = reader.header().map(|h| h.store) else { continue };
        logs.extend(reader.next_record()?.map(|_| (number, store)));
    }
    let with_log: BTreeSet<u64> = logs.iter().map(|l| l.1).collect();
    let files = |store: u64| {
        let all =
            w.tables.values().chain(logs.iter().map(|l| &l.1)).filter(|s| **s == store).count();
        (all, logs.iter().filter(|l| l.1 == store).map(|l| l.0).max())
    };
    let by_log = with_log.iter().copied().max_by_key(|&s| files(s));
    w.id = chosen.or(by_log).or(w.tables.values().next_back().copied());
    w.others = with_log.into_iter().filter(|s| Some(*s) != w.id).collect();
    w.segments = logs.into_iter().filter(|l| Some(l.1) != w.id).collect();
    Ok(w)
}

/// Returns the store that wrote each table or blob file. Omits tables without a store id.
fn tables(names: &FileNames) -> BTreeMap<u64, u64> {
    names.finished().into_iter().filter_map(|id| Some((id, writer(names, id)?))).collect()
}

/// Returns the store that wrote table or blob file `id`; `None` if it has no id or cannot be read.
pub fn writer(names: &FileNames, id: u64) -> Option<u64> {
    let (path, file) = names.open_file_of(id)?;
    let store = match is_of_values(&*file).ok()? {
        true => open_values(file, &path, id).ok()?.facts().identity.store,
        false => open_file(file, &path, id, 0).ok()?.identity().store,
    };
    (store != 0).then_some(store)
}

/// Returns all stores with a table or a log segment, even one without records.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn stores(names: &FileNames) -> Result<BTreeSet<u64>> {
    let mut all: BTreeSet<u64> = tables(names).into_values().collect();
    for number in names.numbers(segment_number)? {
        all.extend(names.open_segment(number)?.header().map(|h| h.store));
    }
    Ok(all)
}

impl StoreOwner {
    /// Returns the other store that owns table `id`, if that store has a log here.
    pub fn foreign_store(&self, id: u64) -> Option<u64> {
        self.tables.get(&id).copied().filter(|s| self.others.contains(s))
    }

    /// Returns the names of log segments of other stores.
    pub fn foreign_segments(&self) -> impl Iterator<Item = (String, u64)> {
        self.segments.iter().map(|&(number, store)| (segment_name(number), store))
    }
}

/// Returns the reason for leaving out a file of another store.
pub fn foreign_reason(store: u64) -> String {
    format!(
        "it is of another store (id {store:016x}), of which there is a log here too: left out (`sstable-dump repair --store {store:016x}` takes \
         that one)"
    )
}
