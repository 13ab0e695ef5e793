//! The event log of a store.

use std::collections::BTreeSet;

use firn_kv::Env as _;
use firn_kv::{ErrorKind, Result};
use serde_json::Value;

use crate::history::owner;
use crate::history::recovered::RecoveredHistory;
use crate::store::names::FileNames;

/// Maximum number of bytes read of an event log.
const MAX_EVENTS: u64 = 64 << 20;

/// Event log of the store that was opened last. Earlier lines may belong to another store that used
/// the same file.
///
/// Lines are parsed again on each use, because parsed values take ten times the memory of the text.
pub struct EventLog {
    text: Vec<u8>,
    /// Offset in the text at which the lines of this store begin.
    from: usize,
    /// History from these lines alone.
    pub evidence: RecoveredHistory,
    /// Id of the store, if the lines contain it.
    store: Option<u64>,
}

impl EventLog {
    /// Reads the event log; an unreadable one counts as empty.
    ///
    /// # Errors
    /// `Incompatible` for a log of a newer version.
    pub fn read(names: &FileNames) -> Result<EventLog> {
        let mut text = vec![];
        for name in ["EVENTS.old.jsonl", "EVENTS.jsonl"] {
            match names.read_all(&names.dir().join(name), MAX_EVENTS) {
                Ok(bytes) => {
                    text.extend(bytes);
                    text.push(b'\n');
                }
                Err(e) if e.kind() == ErrorKind::Incompatible => return Err(e),
                Err(_) => {}
            }
        }
        let (mut store, mut from, mut at) = (None, 0, 0);
        for line in text.split(|&b| b == b'\n') {
            if let Some(opened) =
                serde_json::from_slice(line).ok().and_then(|v: Value| opened_store(&v))
                && store.replace(opened).is_some_and(|before| before != opened)
            {
                from = at;
            }
            at += line.len() + 1;
        }
        let mut log = EventLog { text, from, evidence: RecoveredHistory::default(), store };
        let mut evidence = RecoveredHistory::default();
        log.each(&mut |line| evidence.take_event(line));
        log.evidence = evidence;
        Ok(log)
    }

    /// Calls `show` for every line.
    pub fn each(&self, show: &mut dyn FnMut(&Value)) {
        let text = self.text.get(self.from..).unwrap_or_default();
        let lines = text.split(|&b| b == b'\n');
        lines.filter_map(|l| serde_json::from_slice::<Value>(l).ok()).for_each(|v| show(&v));
    }

    /// Returns the contradiction between the log and the files, if there is one:
    /// - No file belongs to the store of the log.
    /// - More than half of the files have other sizes.
    /// - Some files are removed according to the log, and none is live. After a crash removed files
    ///   may remain, but live ones remain too.
    ///
    /// # Errors
    /// I/O errors of the directory.
    pub fn contradicts(&self, names: &FileNames) -> Result<Option<&'static str>> {
        if let Some(store) = self.store {
            let stores = owner::stores(names)?;
            if !stores.is_empty() && !stores.contains(&store) {
                return Ok(Some("another store than the files"));
            }
        }
        let RecoveredHistory { by_name, dead, .. } = &self.evidence;
        let finished = names.finished();
        let wrong = finished.iter().filter(|id| !self.evidence.fits(names, **id)).count();
        let log: BTreeSet<u64> = by_name.values().flatten().copied().collect();
        let is_live = |id: &u64| log.contains(id) && !dead.contains(id);
        let all_removed =
            finished.iter().any(|id| dead.contains(id)) && !finished.iter().any(is_live);
        Ok((wrong * 2 > finished.len() || all_removed)
            .then_some("other tables than those that exist"))
    }
}

/// Returns the store id if this line of the event log is an opening.
fn opened_store(line: &Value) -> Option<u64> {
    let is_open = line.get("event").and_then(Value::as_str) == Some("open");
    u64::from_str_radix(line.get("store").filter(|_| is_open)?.as_str()?, 16).ok()
}
