//! Which store the files of a directory are of, when no manifest says so: tables and log segments
//! carry the id of the store that wrote them.
//!
//! A log is one store's own: a second id among segments with records tells of a second store in the
//! directory. Tables may come from elsewhere: a checkpoint keeps those of the store that it was
//! made of. So a table is a stranger only when there is a log of its store here too.
//!
//! Invariant: nothing is chosen by chance; what is left out is told, and can be asked for
//! (`repair --store`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use firn_kv::Env as _;
use firn_kv::Result;
use firn_kv::internals::wal::{LogItem, SegmentReader, segment_name, segment_number};

use crate::names::TreeNames;
use crate::target::{is_of_values, open_file, open_values};

/// What the files tell.
#[derive(Debug, Default)]
pub struct StoreOwner {
    /// The store's id; `None` when no file tells of one.
    pub id: Option<u64>,
    /// Other stores that have a log here.
    others: BTreeSet<u64>,
    /// Tables by the store that wrote them.
    tables: BTreeMap<u64, u64>,
    /// Log segments with records of other stores, by their numbers.
    segments: Vec<(u64, u64)>,
}

/// Looks at the files. `chosen` is the id that the user or a manifest has named; else that counts
/// of which there is a log, of several the one that most tables and segments are of, of equally
/// many the one with the newest segment; without a log, the one that wrote the newest table.
///
/// # Errors
/// What the system says of the files; damage is none.
pub fn look(names: &TreeNames, dir: &Path, chosen: Option<u64>) -> Result<StoreOwner> {
    let mut w = StoreOwner { tables: tables(names), ..StoreOwner::default() };
    let mut logs: Vec<(u64, u64)> = vec![];
    for number in names.list(dir)?.iter().filter_map(|n| segment_number(n)) {
        let mut reader = SegmentReader::open(names, dir, number)?;
        let Some(store) = reader.header().map(|h| h.store) else { continue };
        while let Some(item) = reader.next()? {
            if let LogItem::Record(_) = item {
                logs.push((number, store));
                break;
            }
        }
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

/// The store that wrote each table or blob file. Tables that no store has written have no id, and
/// are not among them.
fn tables(names: &TreeNames) -> BTreeMap<u64, u64> {
    names.finished().into_iter().filter_map(|id| Some((id, writer(names, id)?))).collect()
}

/// The store that wrote table or blob file `id`; `None` where it is none's, or can't be read.
pub fn writer(names: &TreeNames, id: u64) -> Option<u64> {
    let (path, file) = names.open_file_of(id)?;
    let store = match is_of_values(&*file).ok()? {
        true => open_values(file, &path, id).ok()?.facts().identity.store,
        false => open_file(file, &path, id, 0).ok()?.identity().store,
    };
    (store != 0).then_some(store)
}

/// All stores of which there is a table or a log segment, one without records too.
///
/// # Errors
/// What the system says of the files; damage is none.
pub fn stores(names: &TreeNames, dir: &Path) -> Result<BTreeSet<u64>> {
    let mut all: BTreeSet<u64> = tables(names).into_values().collect();
    for number in names.list(dir)?.iter().filter_map(|n| segment_number(n)) {
        all.extend(SegmentReader::open(names, dir, number)?.header().map(|h| h.store));
    }
    Ok(all)
}

impl StoreOwner {
    /// The other store that table `id` is of, where it has a log here.
    pub fn stranger(&self, id: u64) -> Option<u64> {
        self.tables.get(&id).copied().filter(|s| self.others.contains(s))
    }

    /// The names of the log segments of other stores.
    pub fn foreign_segments(&self) -> impl Iterator<Item = (String, u64)> {
        self.segments.iter().map(|&(number, store)| (segment_name(number), store))
    }
}

/// What is said of a file of another store.
pub fn words(store: u64) -> String {
    format!(
        "it is of another store (id {store:016x}), of which there is a log here too: left out (`sstable-dump repair --store {store:016x}` takes \
         that one)"
    )
}
